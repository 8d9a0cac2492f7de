/* A status line and headers, of which two matter. Interim answers (1xx but 101) are skipped.
 */
#include "engine/head.h"
#include "base/str.h"

#include <string.h>
#include <strings.h>

static int
read_status(struct cf_head *head, const char *line, struct cf_error *err)
{
    if (strncmp(line, "HTTP/1.", 7) != 0 || (line[7] != '0' && line[7] != '1') ||
        line[8] != ' ')
        return cf_error_set(err, CF_ERROR_ENGINE, 0,
                            "the engine's answer is not HTTP/1.1 but \"%.40s\"", line);
    head->status = 0;
    for (int i = 9; i < 12; i++) {
        if (line[i] < '0' || line[i] > '9')
            return cf_error_set(err, CF_ERROR_ENGINE, 0,
                                "the engine's answer has no status: \"%.40s\"", line);
        head->status = head->status * 10 + (line[i] - '0');
    }
    return 0;
}

static void
read_header(struct cf_head *head, const char *line)
{
    uint64_t length;

    if (strncasecmp(line, "Content-Length:", 15) == 0) {
        line += 15;
        while (*line == ' ' || *line == '\t')
            line++;
        if (cf_parse_u64(line, 0, UINT64_MAX - 1, &length))
            head->content_length = length;
    } else if (strncasecmp(line, "Transfer-Encoding:", 18) == 0) {
        head->is_chunked = strcasestr(line + 18, "chunked") != NULL;
    }
}

/* The lines lie in head->bytes, ended by the blank one. */
static int
read_lines(struct cf_head *head, struct cf_error *err)
{
    char *line = head->bytes;
    bool first = true;

    head->content_length = UINT64_MAX;
    head->bytes[head->len - 1] = '\0';
    while (line != NULL && *line != '\0') {
        char *next = strchr(line, '\n');
        if (next != NULL)
            *next++ = '\0';
        size_t len = strlen(line);
        if (len > 0 && line[len - 1] == '\r')
            line[len - 1] = '\0';
        if (first && read_status(head, line, err) < 0)
            return -1;
        if (!first)
            read_header(head, line);
        first = false;
        line = next;
    }
    if (first)
        return cf_error_set(err, CF_ERROR_ENGINE, 0, "the engine's answer has no status line");
    if (head->status >= 100 && head->status < 200 && head->status != 101)
        head->len = 0; /* interim: the real one follows */
    else
        head->is_whole = true;
    return 0;
}

static bool
ends_blank(const struct cf_head *head)
{
    const char *end = head->bytes + head->len;

    return (head->len >= 2 && memcmp(end - 2, "\n\n", 2) == 0) ||
           (head->len >= 4 && memcmp(end - 4, "\r\n\r\n", 4) == 0);
}

long
cf_head_feed(struct cf_head *head, const char *bytes, size_t len, struct cf_error *err)
{
    for (size_t at = 0; at < len; at++) {
        if (head->len == sizeof head->bytes)
            return cf_error_set(err, CF_ERROR_ENGINE, 0,
                                "the engine's answer has a head over %u bytes",
                                CF_HEAD_LIMIT_BYTES);
        head->bytes[head->len++] = bytes[at];
        if (head->len == 7 && memcmp(head->bytes, "HTTP/1.", 7) != 0)
            return cf_error_set(err, CF_ERROR_ENGINE, 0,
                                "the engine's answer is not HTTP/1.1");
        if (bytes[at] == '\n' && ends_blank(head) && read_lines(head, err) < 0)
            return -1;
        if (head->is_whole)
            return (long)at + 1;
    }
    return (long)len;
}
