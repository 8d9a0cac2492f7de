/* The answering half of a server connection: head, body, end, and the queue in front of
 * io.write. */
#include "loop/http_conn.h"

#include <string.h>
#include <strings.h>

/* A queue that grew once is not kept at that size by a connection that idles. */
enum { IDLE_QUEUE_BYTES = 16 * 1024, STATUS_ROOM = 64 };

static const struct {
    int status;
    const char *words;
} reasons[] = {
    {100, "Continue"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {206, "Partial Content"},
    {307, "Temporary Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {402, "Payment Required"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {407, "Proxy Authentication Required"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {411, "Length Required"},
    {413, "Content Too Large"},
    {415, "Unsupported Media Type"},
    {416, "Range Not Satisfiable"},
    {422, "Unprocessable Content"},
    {426, "Upgrade Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {507, "Insufficient Storage"},
    {529, "Overloaded"},
};

static const char *
reason_of(int status)
{
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (reasons[i].status == status)
            return reasons[i].words;
    return "Unnamed";
}

bool
cf_http_conn_flush(struct cf_http_conn *conn)
{
    struct cf_buf *out = &conn->out;

    while (conn->out_at < out->len && conn->state != CF_HTTP_CLOSED && !conn->is_freed) {
        size_t n =
            conn->io->write(conn->io_user, out->data + conn->out_at, out->len - conn->out_at);
        if (n == 0)
            return false;
        conn->out_at += n;
        conn->moved += n;
    }
    if (conn->out_at < out->len)
        return false;
    conn->out_at = 0;
    if (out->cap > IDLE_QUEUE_BYTES)
        cf_buf_release(out);
    else
        cf_buf_reset(out);
    return true;
}

/* Bytes written out are dropped before more are queued, so that the limit is about what waits.
 */
static void
close_gap(struct cf_http_conn *conn)
{
    cf_buf_drop(&conn->out, conn->out_at);
    conn->out_at = 0;
    conn->out.failed = false;
}

static void
add_number(struct cf_buf *out, uint64_t number)
{
    char digits[20];
    size_t at = sizeof digits;

    do
        digits[--at] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    cf_buf_add(out, digits + at, sizeof digits - at);
}

static void
add_field(struct cf_buf *out, const char *name, const char *value)
{
    cf_buf_adds(out, name);
    cf_buf_adds(out, ": ");
    while (*value != '\0') { /* a line break in a value would begin another header */
        size_t run = 0;

        while ((unsigned char)value[run] >= 0x20 && value[run] != 0x7f)
            run++;
        cf_buf_add(out, value, run);
        value += run + (value[run] != '\0');
    }
    cf_buf_adds(out, "\r\n");
}

static void
add_fields(struct cf_http_conn *conn, const char *const *headers)
{
    for (size_t i = 0; headers != NULL && headers[i] != NULL; i += 2) {
        if (strcasecmp(headers[i], "Connection") == 0) {
            if (strcasecmp(headers[i + 1], "close") == 0)
                conn->close_after = true;
            continue; /* written below, once */
        }
        add_field(&conn->out, headers[i], headers[i + 1]);
    }
}

static void
add_framing(struct cf_http_conn *conn, int status, uint64_t body_len)
{
    bool has_no_body = status < 200 || status == 204 || status == 304;

    conn->reply_bodyless = has_no_body || conn->is_head;
    conn->body_left = conn->reply_bodyless || body_len == UINT64_MAX ? 0 : body_len;
    conn->reply_sized = body_len != UINT64_MAX;
    conn->reply_chunked = !has_no_body && !conn->reply_sized && !conn->is_http10;
    if (body_len == UINT64_MAX && conn->is_http10)
        conn->close_after =
            true; /* HTTP/1.0 knows an answer of unknown length by its end only */
    if (conn->reply_chunked) {
        cf_buf_adds(&conn->out, "Transfer-Encoding: chunked\r\n");
    } else if (!has_no_body && body_len != UINT64_MAX) {
        cf_buf_adds(&conn->out, "Content-Length: ");
        add_number(&conn->out, body_len);
        cf_buf_adds(&conn->out, "\r\n");
    }
    if (conn->close_after)
        cf_buf_adds(&conn->out, "Connection: close\r\n");
}

int
cf_http_reply_head(struct cf_http_conn *conn, int status, const char *const *headers,
                   uint64_t body_len)
{
    size_t before;

    if (!conn->has_exchange || conn->reply_begun)
        return -1;
    close_gap(conn);
    before = conn->out.len;
    if (conn->expects_continue)
        conn->close_after = true; /* whether the body still comes is the peer's choice now */
    cf_buf_adds(&conn->out, "HTTP/1.1 ");
    add_number(&conn->out, (uint64_t)status);
    cf_buf_adds(&conn->out, " ");
    cf_buf_adds(&conn->out, reason_of(status));
    cf_buf_adds(&conn->out, "\r\n");
    add_fields(conn, headers);
    add_framing(conn, status, body_len);
    cf_buf_adds(&conn->out, "\r\n");
    if (conn->out.failed) {
        conn->out.len = before;
        return -1;
    }
    conn->reply_begun = true;
    return 0;
}

static int
add_chunk(struct cf_buf *out, const char *bytes, size_t len)
{
    size_t before = out->len;

    cf_buf_addf(out, "%zx\r\n", len);
    cf_buf_add(out, bytes, len);
    cf_buf_adds(out, "\r\n");
    if (out->failed)
        out->len = before;
    return out->failed ? -1 : 0;
}

int
cf_http_reply_body(struct cf_http_conn *conn, const char *bytes, size_t len)
{
    if (!conn->has_exchange || !conn->reply_begun || conn->reply_ended)
        return -1;
    if (conn->reply_bodyless)
        return 0;
    if (conn->reply_sized && len > conn->body_left)
        return -1;
    close_gap(conn);
    if (len == 0)
        ; /* the head goes out ahead of what it announces */
    else if (conn->reply_chunked ? add_chunk(&conn->out, bytes, len) < 0
                                 : cf_buf_add(&conn->out, bytes, len) < 0)
        return -1;
    if (conn->reply_sized)
        conn->body_left -= len;
    cf_http_conn_enter(conn);
    (void)cf_http_conn_flush(conn); /* what does not go now waits for writable */
    cf_http_conn_leave(conn);
    return 0;
}

int
cf_http_reply_end(struct cf_http_conn *conn)
{
    if (!conn->has_exchange || !conn->reply_begun || conn->reply_ended)
        return -1;
    if (conn->body_left > 0) { /* fewer bytes than the head promised: the peer must not wait */
        cf_http_reply_abort(conn);
        return -1;
    }
    close_gap(conn);
    conn->out.limit_bytes += STATUS_ROOM; /* the last chunk fits even into a full queue */
    if (conn->reply_chunked && !conn->reply_bodyless)
        cf_buf_adds(&conn->out, "0\r\n\r\n");
    conn->out.limit_bytes -= STATUS_ROOM;
    conn->reply_ended = true;
    if (conn->state != CF_HTTP_TUNNEL || conn->io->end_write == NULL) {
        conn->is_dropping = true;
        conn->is_paused = false; /* nobody waits for the rest of the body any more */
    }
    cf_http_conn_enter(conn);
    (void)cf_http_conn_flush(conn);
    cf_http_conn_advance(conn);
    cf_http_conn_leave(conn);
    return 0;
}

int
cf_http_reply_raw(struct cf_http_conn *conn)
{
    if (!conn->has_exchange || conn->reply_begun)
        return -1;
    conn->reply_begun = true;
    conn->close_after = true;
    return 0;
}

int
cf_http_reply_tunnel(struct cf_http_conn *conn)
{
    static const char ready[] = "HTTP/1.1 200 Connection Established\r\n\r\n";

    if (conn->state != CF_HTTP_ANSWERING || cf_http_reply_raw(conn) < 0)
        return -1;
    conn->state = CF_HTTP_TUNNEL;
    conn->is_whole = conn->is_dropping = conn->is_paused = false;
    if (cf_http_reply_body(conn, ready, sizeof ready - 1) < 0) {
        cf_http_reply_abort(conn);
        return -1;
    }
    cf_http_conn_enter(conn);
    cf_http_conn_advance(conn); /* what the peer sent behind its request */
    cf_http_conn_leave(conn);
    return 0;
}

int
cf_http_reply(struct cf_http_conn *conn, int status, const char *content_type,
              const char *const *headers, const char *body, size_t len)
{
    const char *all[2 * 16 + 3];
    size_t n = 0;

    if (content_type != NULL) {
        all[n++] = "Content-Type";
        all[n++] = content_type;
    }
    for (size_t i = 0;
         headers != NULL && headers[i] != NULL && n + 2 < sizeof all / sizeof all[0]; i += 2) {
        all[n++] = headers[i];
        all[n++] = headers[i + 1];
    }
    all[n] = NULL;
    if (!conn->has_exchange || conn->reply_begun)
        return -1;
    if (cf_http_reply_head(conn, status, all, len) < 0 ||
        cf_http_reply_body(conn, body, len) < 0) {
        cf_http_reply_abort(conn);
        return -1;
    }
    return cf_http_reply_end(conn);
}

void
cf_http_reply_continue(struct cf_http_conn *conn)
{
    close_gap(conn);
    cf_buf_adds(&conn->out, "HTTP/1.1 100 Continue\r\n\r\n");
    conn->expects_continue = false;
    (void)cf_http_conn_flush(conn);
}

void
cf_http_reply_reset_state(struct cf_http_conn *conn)
{
    conn->reply_begun = conn->reply_ended = false;
    conn->reply_chunked = conn->reply_sized = conn->reply_bodyless = false;
    conn->is_half_shut = false;
    conn->body_left = 0;
}

void
cf_http_reply_abort(struct cf_http_conn *conn)
{
    cf_http_conn_enter(conn);
    cf_http_conn_cut(conn);
    cf_http_conn_leave(conn);
}

size_t
cf_http_reply_queued(const struct cf_http_conn *conn)
{
    return conn->out.len - conn->out_at;
}

bool
cf_http_reply_is_begun(const struct cf_http_conn *conn)
{
    return conn->reply_begun;
}
