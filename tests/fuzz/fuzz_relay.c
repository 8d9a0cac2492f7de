/* fuzz_relay.c: the request side of each dialect, and whole requests. Any body, in any cut, ends in exactly one
 * row and one answer, and what the digest says of it does not depend on the cut. */
#include "base/buf.h"
#include "relay/digest.h"
#include "relay/relay.h"

#include <stdlib.h>
#include <string.h>

static const struct cf_relay_dialect table[] = {
    {1, "anthropic_messages", "/v1/messages", "A"},
    {2, "openai_chat", "/v1/chat/completions", "B"},
    {4, "openai_responses", "/v1/responses", "B"},
    {8, "fal_queue", "/{model_id}", NULL},
};
static const char *const paths[] = {"/v1/messages", "/v1/chat/completions", "/v1/responses",
                                    "/a/b", "/v1/messages/count_tokens"};

struct peer {
    struct cf_buf out;
    unsigned rows;
};

static size_t
io_write(void *user, const char *bytes, size_t len)
{
    cf_buf_add(&((struct peer *)user)->out, bytes, len);
    return len;
}

static void
io_end(void *user)
{
}

static void
io_consumed(void *user, size_t len)
{
}

static const struct cf_http_io io = {io_write, io_end, io_end, io_consumed, NULL};

static void
on_call(void *user, const struct cf_relay_call *call)
{
    ((struct peer *)user)->rows++;
}

static void
feed_in_steps(struct cf_http_conn *conn, const char *bytes, size_t len, size_t step)
{
    for (size_t at = 0; at < len; at += step)
        cf_http_conn_feed(conn, bytes + at, len - at < step ? len - at : step);
}

/* `path` NULL: the bytes are whole requests, heads and all. */
static void
serve(const char *path, const char *body, size_t len, size_t step)
{
    struct cf_relay_turn turn = {
        .turn = 1, .prompt_nonce = "ababac", .answer_nonce = "n", .prior_nonce = "p"};
    struct peer peer = {0};
    struct cf_relay_options options = {.dialect_table = table,
                                       .dialect_count = 4,
                                       .dialects = 15,
                                       .token = "t",
                                       .on_call = on_call,
                                       .user = &peer,
                                       .max_body_bytes = 2000};
    struct cf_buf head = {0};
    struct cf_relay *relay;
    struct cf_error err;
    uv_loop_t loop;

    if (uv_loop_init(&loop) != 0 || cf_relay_open(&loop, &options, &relay, &err) < 0)
        abort();
    cf_relay_turn_begin(relay, &turn);
    struct cf_http_conn *conn = cf_relay_accept(relay, &io, &peer);
    if (path != NULL) {
        cf_buf_addf(&head, "POST %s HTTP/1.1\r\nx-api-key: t\r\nContent-Length: %zu\r\n\r\n",
                    path, len);
        cf_http_conn_feed(conn, head.data, head.len);
    }
    feed_in_steps(conn, body, len, step);
    if (path != NULL && (peer.rows != 1 || peer.out.len == 0))
        abort();
    if (peer.out.len > 0 && (peer.out.len < 9 || memcmp(peer.out.data, "HTTP/1.1 ", 9) != 0))
        abort();
    cf_relay_close(relay, NULL, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    if (uv_loop_close(&loop) != 0 || (path != NULL && peer.rows != 1))
        abort();
    cf_buf_release(&head);
    cf_buf_release(&peer.out);
}

/* Everything a digest says, as one number; -1 for a body that is not JSON. */
static long
digest_of(const char *body, size_t len, size_t step)
{
    static struct cf_needle prompt, prior;
    struct cf_digest_needles needles = {&prompt, &prior, NULL, 0};
    struct cf_digest d;
    struct cf_error err;

    cf_needle_set(&prompt, "ababac");
    cf_needle_set(&prior, "p");
    cf_digest_init(&d, &needles);
    for (size_t at = 0; at < len; at += step)
        if (cf_digest_feed(&d, body + at, len - at < step ? len - at : step, &err) < 0)
            return -1;
    if (cf_digest_end(&d, &err) < 0)
        return -1;
    return d.is_streamed | d.wants_usage << 1 | d.has_tools << 2 | d.has_input << 3 |
           d.prompt_seen << 4 | d.prompt_in_input << 5 | d.prompt_in_root << 6 |
           d.prompt_is_last << 7 | d.prior_seen << 8 | (long)d.last << 9 |
           (long)(d.max_tokens & 0xffff) << 12 | (long)strlen(d.model) << 30;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const char *body = (const char *)data + 2;
    size_t len = size - 2, step = data[1] % 9 + 1;

    if (data[0] == 0xff) {
        serve(NULL, body, len, step);
        return 0;
    }
    if (digest_of(body, len, len + 1) != digest_of(body, len, step))
        abort();
    serve(paths[data[0] % 5], body, len, step);
    return 0;
}
