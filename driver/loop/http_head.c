/*
 * The head of a request: collected byte by byte, judged by rules stricter than libhttp-parser's
 * (it takes a bare LF and "Host : x"), handed to the parser in one piece; its slices then become
 * strings in place.
 */
#include "loop/http_conn.h"

#include "base/str.h"

#include <http_parser.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { FIELD_LIMIT = 256 };

/* How many bytes, from the first, may stand in a head and end no line. */
static size_t
plain_run(const char *bytes, size_t len)
{
    size_t n = 0;

    while (n < len && (unsigned char)bytes[n] >= 0x20 && bytes[n] != 0x7f)
        n++;
    return n;
}

/* A byte that is not plain: NULL when it may stand behind `last`, else why it may not. */
static const char *
judge_byte(unsigned char ch, char last, bool is_first)
{
    if (ch == '\n' ? last != '\r' : last == '\r')
        return "a line of the request head does not end in CRLF";
    if (ch == '\n' || ch == '\r' || ch == '\t')
        return NULL;
    return is_first && ch == 0x16 ? "a TLS hello on a port that speaks plain HTTP"
                                  : "a control character in the request head";
}

/* Takes head bytes up to and with the empty line. *ret_why on bytes that no head may hold. */
size_t
cf_http_head_collect(struct cf_http_conn *conn, const char *bytes, size_t len, bool *ret_whole,
             const char **ret_why)
{
    struct cf_buf *head = &conn->head;

    for (size_t i = 0; i < len;) {
        char last = head->len > 0 ? head->data[head->len - 1] : '\0';
        size_t run = plain_run(bytes + i, len - i);

        if (run > 0 && last == '\r')
            *ret_why = judge_byte((unsigned char)bytes[i], last, false);
        else if (run == 0)
            *ret_why = judge_byte((unsigned char)bytes[i], last, head->len == 0);
        if (*ret_why != NULL)
            return i + 1;
        run = run > 0 ? run : 1;
        if (run > head->limit_bytes - head->len)
            run =
                head->limit_bytes - head->len + 1; /* one too many says that it is too large */
        i += run;
        if (cf_buf_add(head, bytes + i - run, run) < 0)
            return i;
        if (bytes[i - 1] != '\n')
            continue;
        if (head->len == 2) {
            cf_buf_reset(head); /* an empty line before a request is passed over */
        } else if (head->len >= 4 && memcmp(head->data + head->len - 4, "\r\n\r\n", 4) == 0) {
            *ret_whole = true;
            return i;
        }
    }
    return len;
}

/* What the parser would let through: space around a header's name, a folded line. */
static const char *
judge_lines(const struct cf_http_conn *conn)
{
    const char *line = strstr(conn->head.data, "\r\n") + 2;

    while (*line != '\r') {
        const char *end = strstr(line, "\r\n");
        const char *colon = memchr(line, ':', (size_t)(end - line));

        if (*line == ' ' || *line == '\t')
            return "a header line begins with white space";
        if (colon == NULL || colon == line)
            return "a header line without a name and a colon";
        if (colon[-1] == ' ' || colon[-1] == '\t')
            return "white space before a header's colon";
        line = end + 2;
    }
    return NULL;
}

static int
on_url(http_parser *parser, const char *at, size_t len)
{
    struct cf_http_conn *conn = parser->data;

    conn->request.target = at;
    conn->target_len = len;
    return 0;
}

static int
on_field(http_parser *parser, const char *at, size_t len)
{
    struct cf_http_conn *conn = parser->data;

    if (conn->state != CF_HTTP_IN_HEAD)
        return 0; /* a trailer: nobody asked for one */
    if (conn->field_count == FIELD_LIMIT) {
        conn->is_fields_broken = true;
        return -1;
    }
    if (conn->field_count == conn->field_room) {
        size_t room = conn->field_room == 0 ? 16 : 2 * conn->field_room;
        struct cf_http_field *fields = realloc(conn->fields, room * sizeof *fields);
        if (fields == NULL)
            return -1;
        conn->fields = fields;
        conn->field_room = room;
    }
    conn->fields[conn->field_count].name = (char *)at;
    conn->fields[conn->field_count].value = NULL;
    conn->field_count++;
    return 0;
}

static int
on_value(http_parser *parser, const char *at, size_t len)
{
    struct cf_http_conn *conn = parser->data;

    /* of an empty value the parser names a place behind its line */
    if (len > 0 && conn->state == CF_HTTP_IN_HEAD && conn->field_count > 0 &&
        conn->fields[conn->field_count - 1].value == NULL)
        conn->fields[conn->field_count - 1].value = (char *)at;
    return 0;
}

static int
on_headers_complete(http_parser *parser)
{
    parser->upgrade = 0; /* an upgrade is refused or ignored by the handler, as HTTP */
    return 0;
}

static int
on_message_complete(http_parser *parser)
{
    struct cf_http_conn *conn = parser->data;

    conn->is_whole = true;
    http_parser_pause(parser, 1); /* what follows is the next request */
    return 0;
}

const http_parser_settings cf_http_settings = {
    .on_url = on_url,
    .on_header_field = on_field,
    .on_header_value = on_value,
    .on_headers_complete = on_headers_complete,
    .on_body = cf_http_on_body,
    .on_message_complete = on_message_complete,
};

/* Ends every slice of the head with NUL: the byte behind each is a separator. */
static void
end_strings(struct cf_http_conn *conn)
{
    ((char *)conn->request.target)[conn->target_len] = '\0';
    for (size_t i = 0; i < conn->field_count; i++) {
        struct cf_http_field *field = &conn->fields[i];
        char *colon = strchr(field->name, ':'), *end;

        *colon = '\0';
        if (field->value == NULL)
            field->value = colon; /* empty */
        end = strstr(field->value, "\r\n");
        if (end == NULL)
            continue; /* the empty value above */
        while (end > field->value && (end[-1] == ' ' || end[-1] == '\t'))
            end--;
        *end = '\0';
    }
}

/* "/a/b?c", "http://host/a/b?c" and "*" all become path and query. */
static int
split_target(struct cf_http_conn *conn)
{
    const char *text = conn->request.target;
    const char *scheme = strstr(text, "://");
    char *question;

    if (*text != '/' && scheme != NULL) {
        text = strchr(scheme + 3, '/');
        if (text == NULL)
            text = "/";
    }
    free(conn->path);
    conn->path = strdup(text);
    if (conn->path == NULL)
        return -1;
    question = strchr(conn->path, '?');
    if (question != NULL)
        *question++ = '\0';
    conn->request.path = conn->path;
    conn->request.query = question;
    return 0;
}

static const char *
read_framing(struct cf_http_conn *conn)
{
    const http_parser *parser = conn->parser;
    const char *expect = cf_http_header(conn, "Expect"),
               *coding = cf_http_header(conn, "Transfer-Encoding");

    conn->request.method = http_method_str((enum http_method)parser->method);
    conn->is_head = parser->method == HTTP_HEAD;
    conn->is_http10 = parser->http_major == 1 && parser->http_minor == 0;
    if (parser->http_major != 1)
        return "not HTTP/1.x";
    if (coding != NULL && strcasecmp(coding, "chunked") != 0)
        return "a transfer coding other than chunked";
    if (coding != NULL)
        conn->request.content_length = UINT64_MAX;
    else
        conn->request.content_length =
            parser->content_length == UINT64_MAX ? 0 : parser->content_length;
    conn->expects_continue =
        expect != NULL && strcasecmp(expect, "100-continue") == 0 && !conn->is_whole;
    return NULL;
}

static void
wants_close(struct cf_http_conn *conn)
{
    const char *connection = cf_http_header(conn, "Connection");

    conn->close_after =
        conn->is_http10 || (connection != NULL && strcasestr(connection, "close") != NULL);
}

const char *
cf_http_head_parse(struct cf_http_conn *conn)
{
    const char *why = judge_lines(conn);

    if (why != NULL)
        return why;
    http_parser_init(conn->parser, HTTP_REQUEST);
    conn->parser->data = conn;
    (void)http_parser_execute(conn->parser, &cf_http_settings, conn->head.data, conn->head.len);
    if (conn->is_whole)
        http_parser_pause(conn->parser, 0);
    if (conn->is_fields_broken)
        return "more than 256 header lines";
    if (HTTP_PARSER_ERRNO(conn->parser) != HPE_OK)
        return http_errno_description(HTTP_PARSER_ERRNO(conn->parser));
    if (conn->request.target == NULL)
        return "not an HTTP request";
    end_strings(conn);
    if (split_target(conn) < 0)
        return "out of memory";
    why = read_framing(conn);
    wants_close(conn);
    return why;
}
