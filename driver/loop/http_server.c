/*
 * The reading half of a server connection.
 *
 * A head is collected and judged in http_head.c. A body goes through the parser as it comes and
 * is never kept. When a request is whole, input rests until the answer is out.
 */
#include "loop/http_server.h"

#include "base/str.h"
#include "loop/http_conn.h"

#include <assert.h>
#include <http_parser.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* What is read and thrown away for one answered request before the connection is cut. */
#define DROP_LIMIT (128ull * 1024 * 1024)

/* ---- calls into us, and being freed from inside one ---------------------------------- */

void
cf_http_conn_enter(struct cf_http_conn *conn)
{
    conn->depth++;
}

static void
destroy(struct cf_http_conn *conn)
{
    cf_buf_release(&conn->head);
    cf_buf_release(&conn->stash);
    cf_buf_release(&conn->out);
    free(conn->fields);
    free(conn->path);
    free(conn->parser);
    free(conn);
}

void
cf_http_conn_leave(struct cf_http_conn *conn)
{
    if (--conn->depth == 0 && conn->is_freed)
        destroy(conn);
}

static bool
is_over(const struct cf_http_conn *conn)
{
    return conn->is_freed || conn->state == CF_HTTP_CLOSED;
}

/* ---- ends ---------------------------------------------------------------------------- */

static void
abort_exchange(struct cf_http_conn *conn)
{
    conn->state = CF_HTTP_CLOSED;
    cf_buf_release(&conn->out);
    cf_buf_release(&conn->stash);
    conn->out_at = 0;
    if (!conn->has_exchange)
        return;
    conn->has_exchange = false;
    conn->handler->on_abort(conn->user, conn);
}

void
cf_http_conn_cut(struct cf_http_conn *conn)
{
    if (is_over(conn))
        return;
    abort_exchange(conn);
    if (!conn->is_freed)
        conn->io->reset(conn->io_user);
}

/* Our side is shut after what was queued; what the peer still sends is dropped. */
static void
shut(struct cf_http_conn *conn)
{
    conn->state = CF_HTTP_LINGERING;
    conn->io->shutdown(conn->io_user);
}

/* An answer of our own where no exchange could begin, or where a body broke its framing. */
static void
refuse(struct cf_http_conn *conn, int status, const char *why)
{
    char body[200];
    bool had_exchange = conn->has_exchange;

    if (had_exchange && conn->reply_begun) {
        cf_http_conn_cut(conn);
        return;
    }
    int len = snprintf(body, sizeof body, "%s\n", why);
    conn->has_exchange = true; /* for the length of the reply calls only */
    conn->close_after = true;
    conn->is_whole = false;
    (void)cf_http_reply(conn, status, "text/plain", NULL, body, (size_t)len);
    if (is_over(conn))
        return;
    conn->has_exchange = false;
    conn->reply_ended = true;
    conn->is_dropping = true;
    conn->state = CF_HTTP_LINGERING;
    if (had_exchange)
        conn->handler->on_abort(conn->user, conn);
    else if (conn->handler->on_malformed != NULL)
        conn->handler->on_malformed(conn->user, conn, status, why);
    if (!is_over(conn) && cf_http_conn_flush(conn) && !is_over(conn))
        conn->io->shutdown(conn->io_user);
}

static void
begin_next(struct cf_http_conn *conn)
{
    conn->state = CF_HTTP_IN_HEAD;
    if (conn->head.cap > 8192)
        cf_buf_release(&conn->head);
    cf_buf_reset(&conn->head);
    conn->field_count = 0;
    conn->body_seen = conn->dropped = 0;
    conn->is_whole = conn->is_dropping = conn->is_paused = conn->is_too_large = false;
    conn->expects_continue = conn->is_fields_broken = conn->is_head = conn->is_http10 = false;
    conn->exchange_user = NULL;
    memset(&conn->request, 0, sizeof conn->request);
    cf_http_reply_reset_state(conn);
}

/* True when an exchange ended. */
static bool
finish_exchange(struct cf_http_conn *conn)
{
    if (!conn->has_exchange || !conn->reply_ended || conn->out_at < conn->out.len)
        return false;
    if (conn->state == CF_HTTP_TUNNEL && !conn->is_whole && conn->io->end_write != NULL) {
        if (!conn->is_half_shut)
            conn->io->end_write(conn->io_user);
        conn->is_half_shut = true;
        return false; /* the peer's direction goes on */
    }
    if (!conn->is_whole && !conn->close_after)
        return false; /* the rest of the body is read and dropped first */
    conn->has_exchange = false;
    if (conn->handler->on_done != NULL)
        conn->handler->on_done(conn->user, conn);
    if (is_over(conn))
        return true;
    if (conn->close_after)
        shut(conn);
    else
        begin_next(conn);
    return true;
}
/* ---- a request begins ---------------------------------------------------------------- */

static void
begin_exchange(struct cf_http_conn *conn)
{
    conn->has_exchange = true;
    conn->state = conn->is_whole ? CF_HTTP_ANSWERING : CF_HTTP_IN_BODY;
    conn->handler->on_request(conn->user, conn, &conn->request);
    if (is_over(conn))
        return;
    if (conn->expects_continue && !conn->reply_begun)
        cf_http_reply_continue(conn);
    if (conn->is_whole && !conn->reply_ended && !is_over(conn))
        conn->handler->on_complete(conn->user, conn);
}

static size_t
take_head(struct cf_http_conn *conn, const char *bytes, size_t len)
{
    const char *why = NULL;
    bool is_whole = false;
    size_t took = cf_http_head_collect(conn, bytes, len, &is_whole, &why);

    if (why == NULL && conn->head.failed)
        refuse(conn, 431, "the request head is larger than 64 KiB");
    else if (why != NULL || (is_whole && (why = cf_http_head_parse(conn)) != NULL))
        refuse(conn, 400, why);
    else if (is_whole)
        begin_exchange(conn);
    return took;
}
/* ---- the body ------------------------------------------------------------------------ */

int
cf_http_on_body(http_parser *parser, const char *at, size_t len)
{
    struct cf_http_conn *conn = parser->data;
    int answer;

    conn->body_seen += len;
    if (!conn->is_dropping && conn->max_body_bytes != 0 &&
        conn->body_seen > conn->max_body_bytes)
        conn->is_dropping = conn->is_too_large = true;
    if (conn->is_dropping) {
        conn->dropped += len;
        return 0;
    }
    answer = conn->handler->on_body(conn->user, conn, at, len);
    if (answer < 0) {
        assert(conn->reply_begun || is_over(conn));
        conn->is_dropping = true;
        conn->close_after = true;
    }
    conn->is_paused = answer == CF_HTTP_PAUSE;
    if (conn->is_paused || is_over(conn))
        http_parser_pause(parser, 1);
    return 0;
}

static void
complete_body(struct cf_http_conn *conn)
{
    conn->state = CF_HTTP_ANSWERING;
    if (!conn->is_dropping)
        conn->handler->on_complete(conn->user, conn);
}

static size_t
take_body(struct cf_http_conn *conn, const char *bytes, size_t len)
{
    size_t took = http_parser_execute(conn->parser, &cf_http_settings, bytes, len);
    enum http_errno why = HTTP_PARSER_ERRNO(conn->parser);

    if (is_over(conn))
        return took;
    if (why == HPE_PAUSED) {
        http_parser_pause(conn->parser, 0);
    } else if (why != HPE_OK) {
        refuse(conn, 400, http_errno_description(why));
        return len;
    }
    if (conn->dropped > DROP_LIMIT) {
        cf_http_conn_cut(conn);
    } else if (conn->is_too_large && !conn->reply_begun) {
        conn->close_after = true;
        (void)cf_http_reply(conn, 413, "text/plain", NULL, "request body over the limit\n",
                            28);
    } else if (conn->is_whole) {
        complete_body(conn);
    }
    return took;
}

/* ---- input, as far as it may go ------------------------------------------------------ */

static size_t
take_tunnel(struct cf_http_conn *conn, const char *bytes, size_t len)
{
    int answer;

    if (conn->is_paused)
        return 0;
    answer = conn->is_dropping ? 0 : conn->handler->on_body(conn->user, conn, bytes, len);
    if (!is_over(conn)) {
        conn->is_paused = answer == CF_HTTP_PAUSE;
        conn->is_dropping = conn->is_dropping || answer < 0;
    }
    return len;
}

static size_t
take_some(struct cf_http_conn *conn, const char *bytes, size_t len)
{
    switch (conn->state) {
    case CF_HTTP_IN_HEAD:
        return take_head(conn, bytes, len);
    case CF_HTTP_IN_BODY:
        return conn->is_paused ? 0 : take_body(conn, bytes, len);
    case CF_HTTP_LINGERING:
        conn->dropped += len;
        if (conn->dropped > DROP_LIMIT)
            cf_http_conn_cut(conn);
        return len;
    case CF_HTTP_CLOSED:
        return len;
    case CF_HTTP_TUNNEL:
        return take_tunnel(conn, bytes, len);
    case CF_HTTP_ANSWERING:
        return 0;
    }
    return 0;
}

/* Returns how many bytes were dealt with; fewer than len when input has to wait. */
static size_t
take(struct cf_http_conn *conn, const char *bytes, size_t len)
{
    size_t at = 0;

    while (at < len && !conn->is_freed) {
        size_t took = take_some(conn, bytes + at, len - at);
        bool has_moved = finish_exchange(conn);

        at += took;
        if (took > 0 && !is_over(conn))
            conn->io->consumed(conn->io_user, took);
        if (took == 0 && !has_moved)
            break;
    }
    return at;
}

/* The peer's direction of a tunnel is over; ours may go on. */
static void
end_tunnel_input(struct cf_http_conn *conn)
{
    if (conn->stash.len > 0 || conn->is_whole)
        return;
    conn->is_whole = true;
    conn->handler->on_complete(conn->user, conn);
    if (!is_over(conn))
        (void)finish_exchange(conn);
}

static void
mind_eof(struct cf_http_conn *conn)
{
    if (!conn->is_eof || is_over(conn))
        return;
    if (conn->state == CF_HTTP_TUNNEL)
        end_tunnel_input(conn);
    else if (conn->has_exchange && !(conn->reply_ended && conn->is_whole))
        cf_http_conn_cut(conn);
    else if (conn->state == CF_HTTP_IN_HEAD)
        shut(conn);
}

void
cf_http_conn_advance(struct cf_http_conn *conn)
{
    if (conn->is_advancing)
        return; /* whoever is at it goes on when we return */
    conn->is_advancing = true;
    while (!is_over(conn)) {
        bool has_moved = finish_exchange(conn);
        size_t took = is_over(conn) ? 0 : take(conn, conn->stash.data, conn->stash.len);

        if (took > 0)
            cf_buf_drop(&conn->stash, took);
        if (!has_moved && took == 0)
            break;
    }
    conn->is_advancing = false;
    mind_eof(conn);
}

/* ---- from the owner ------------------------------------------------------------------ */

struct cf_http_conn *
cf_http_conn_new(const struct cf_http_io *io, void *io_user,
                 const struct cf_http_handler *handler, void *user, uint64_t max_body_bytes)
{
    struct cf_http_conn *conn = calloc(1, sizeof *conn);

    if (conn == NULL)
        return NULL;
    conn->parser = calloc(1, sizeof *conn->parser);
    if (conn->parser == NULL) {
        free(conn);
        return NULL;
    }
    conn->io = io;
    conn->io_user = io_user;
    conn->handler = handler;
    conn->user = user;
    conn->max_body_bytes = max_body_bytes;
    cf_buf_init(&conn->head, CF_HTTP_HEAD_LIMIT);
    cf_buf_init(&conn->stash, CF_HTTP_STASH_LIMIT);
    cf_buf_init(&conn->out, CF_HTTP_QUEUE_LIMIT);
    return conn;
}

void
cf_http_conn_free(struct cf_http_conn *conn)
{
    if (conn == NULL || conn->is_freed)
        return;
    conn->is_freed = true;
    conn->has_exchange = false;
    if (conn->depth == 0)
        destroy(conn);
}

bool
cf_http_header_at(const struct cf_http_conn *conn, size_t i, const char **ret_name,
                  const char **ret_value)
{
    if (i >= conn->field_count)
        return false;
    *ret_name = conn->fields[i].name;
    *ret_value = conn->fields[i].value;
    return true;
}

void
cf_http_conn_set_user(struct cf_http_conn *conn, void *exchange_user)
{
    conn->exchange_user = exchange_user;
}

void *
cf_http_conn_get_user(const struct cf_http_conn *conn)
{
    return conn->exchange_user;
}

const char *
cf_http_header(const struct cf_http_conn *conn, const char *name)
{
    for (size_t i = 0; i < conn->field_count; i++)
        if (strcasecmp(conn->fields[i].name, name) == 0)
            return conn->fields[i].value;
    return NULL;
}

void
cf_http_conn_feed(struct cf_http_conn *conn, const char *bytes, size_t len)
{
    size_t took = 0;

    cf_http_conn_enter(conn);
    conn->moved += len;
    if (conn->stash.len == 0 && !conn->is_advancing) {
        conn->is_advancing = true;
        took = take(conn, bytes, len);
        conn->is_advancing = false;
    }
    if (took < len && !is_over(conn) && cf_buf_add(&conn->stash, bytes + took, len - took) < 0)
        cf_http_conn_cut(conn); /* more than any credit allows */
    cf_http_conn_advance(conn);
    cf_http_conn_leave(conn);
}

void
cf_http_conn_eof(struct cf_http_conn *conn)
{
    cf_http_conn_enter(conn);
    conn->is_eof = true;
    mind_eof(conn);
    cf_http_conn_leave(conn);
}

void
cf_http_conn_gone(struct cf_http_conn *conn)
{
    cf_http_conn_enter(conn);
    if (!is_over(conn))
        abort_exchange(conn);
    cf_http_conn_leave(conn);
}

void
cf_http_conn_writable(struct cf_http_conn *conn)
{
    bool had_bytes = conn->out_at < conn->out.len;

    cf_http_conn_enter(conn);
    if (had_bytes && cf_http_conn_flush(conn) && !is_over(conn)) {
        if (conn->state == CF_HTTP_LINGERING)
            conn->io->shutdown(conn->io_user); /* a refusal's last bytes are out */
        else if (conn->has_exchange && !conn->reply_ended)
            conn->handler->on_drain(conn->user, conn);
    }
    cf_http_conn_advance(conn);
    cf_http_conn_leave(conn);
}

void
cf_http_conn_resume(struct cf_http_conn *conn)
{
    cf_http_conn_enter(conn);
    conn->is_paused = false;
    cf_http_conn_advance(conn);
    cf_http_conn_leave(conn);
}

bool
cf_http_conn_is_idle(const struct cf_http_conn *conn)
{
    return !conn->has_exchange;
}

/* ---- for the owner's clock ----------------------------------------------------------- */

enum cf_http_wait
cf_http_conn_waits(const struct cf_http_conn *conn)
{
    if (conn->out_at < conn->out.len)
        return CF_HTTP_WAITS_FOR_READER;
    switch (conn->state) {
    case CF_HTTP_IN_HEAD:
        return conn->head.len > 0 ? CF_HTTP_WAITS_FOR_HEAD : CF_HTTP_WAITS_FOR_REQUEST;
    case CF_HTTP_IN_BODY:
        return conn->is_paused ? CF_HTTP_WAITS_FOR_US : CF_HTTP_WAITS_FOR_BODY;
    case CF_HTTP_LINGERING:
        return CF_HTTP_WAITS_FOR_REQUEST;
    default:
        return CF_HTTP_WAITS_FOR_US;
    }
}

uint64_t
cf_http_conn_moved(const struct cf_http_conn *conn)
{
    return conn->moved;
}

void
cf_http_conn_expire(struct cf_http_conn *conn)
{
    enum cf_http_wait waits = cf_http_conn_waits(conn);

    cf_http_conn_enter(conn);
    if (waits == CF_HTTP_WAITS_FOR_HEAD) {
        conn->is_advancing = true; /* as in feed: a refusal is no exchange to go on from */
        refuse(conn, 408, "the rest of the request head did not come in time");
        conn->is_advancing = false;
    } else if (waits == CF_HTTP_WAITS_FOR_REQUEST && conn->state == CF_HTTP_IN_HEAD) {
        shut(conn);
    } else {
        cf_http_conn_cut(conn);
    }
    cf_http_conn_leave(conn);
}
