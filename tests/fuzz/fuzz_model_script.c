/* fuzz_model_script.c: a model script that somebody wrote, and a call in each dialect that
 * meets it: every answer begun is an answer told. */
#include "json/json.h"
#include "relay/relay.h"

#include <stdlib.h>
#include <string.h>

static const struct cf_relay_dialect table[] = {
    {1, "anthropic_messages", "/v1/messages", "A"},
    {2, "openai_chat", "/v1/chat/completions", "B"},
    {4, "openai_responses", "/v1/responses", "B"},
    {8, "fal_queue", "/{model_id}", NULL},
};
static const char *const calls[] = {
    "POST /v1/messages HTTP/1.1\r\nx-api-key: t\r\nContent-Length: 86\r\n\r\n"
    "{\"model\":\"m\",\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]"
    ",\"tools\":[]}\n",
    "POST /v1/chat/completions HTTP/1.1\r\nx-api-key: t\r\nContent-Length: 60\r\n\r\n"
    "{\"model\":\"m\",\"messages\":[{\"role\":\"tool\",\"content\":\"hello\"}]}",
    "POST /v1/responses HTTP/1.1\r\nx-api-key: t\r\nContent-Length: 43\r\n\r\n"
    "{\"model\":\"m\",\"input\":\"hello\",\"stream\":true}",
    "POST /a/b HTTP/1.1\r\nx-api-key: t\r\nContent-Length: 18\r\n\r\n{\"prompt\":\"hello\"}",
};

static size_t
io_write(void *user, const char *bytes, size_t len)
{
    *(size_t *)user += len;
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
play(uv_loop_t *loop, json_t *script)
{
    const struct cf_relay_options options = {.dialect_table = table,
                                             .dialect_count = 4,
                                             .dialects = 15,
                                             .token = "t",
                                             .script = script};
    struct cf_relay_turn turn = {.turn = 1, .prompt_nonce = "hello", .answer_nonce = "n\"\n"};
    struct cf_relay *relay;
    struct cf_error err;

    if (cf_relay_open(loop, &options, &relay, &err) < 0)
        return;
    cf_relay_turn_begin(relay, &turn);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        size_t written = 0;
        struct cf_http_conn *conn = cf_relay_accept(relay, &io, &written);

        cf_http_conn_feed(conn, calls[i], strlen(calls[i]));
        cf_relay_forget(relay, conn);
    }
    cf_relay_close(relay, NULL, NULL);
    uv_run(loop, UV_RUN_DEFAULT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *script =
        size < 100000 ? cf_json_parse((const char *)data, size, NULL, NULL) : NULL;
    uv_loop_t loop;

    if (script == NULL)
        return 0;
    if (uv_loop_init(&loop) != 0)
        abort();
    play(&loop, script);
    if (uv_loop_close(&loop) != 0)
        abort();
    json_decref(script);
    return 0;
}
