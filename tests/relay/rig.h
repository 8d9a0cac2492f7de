/*
 * rig.h: a relay on a loop of its own, and clients whose bytes are fed and read by hand.
 */
#ifndef CF_TESTS_RELAY_RIG_H
#define CF_TESTS_RELAY_RIG_H

#pragma GCC diagnostic ignored "-Wunused-function"

#include "base/buf.h"
#include "base/str.h"
#include "json/json.h"
#include "relay/relay.h"
#include "tests/support/unit.h"

#include <http_parser.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { ANTHROPIC = 1, CHAT = 2, RESPONSES = 4, FAL = 8 };

static const struct cf_relay_dialect table[] = {
    {ANTHROPIC, "anthropic_messages", "/v1/messages", "ANTHROPIC_BASE_URL"},
    {CHAT, "openai_chat", "/v1/chat/completions", "OPENAI_BASE_URL"},
    {RESPONSES, "openai_responses", "/v1/responses", "OPENAI_BASE_URL"},
    {FAL, "fal_queue", "/{model_id}", NULL},
};

#define NONCE "prompt-7f3a"
#define ANSWER "answer-\xc3\xa9-91c2"

struct world {
    uv_loop_t loop;
    uv_timer_t alive; /* the relay's clocks alone keep no loop running */
    struct cf_relay *relay;
    unsigned rows;
    json_t *last; /* the last row as the callback saw it */
    bool is_closed;
};

static void
on_call(void *user, const struct cf_relay_call *call)
{
    struct world *world = user;

    world->rows++;
    json_decref(world->last);
    world->last = json_pack(
        "{s:s?, s:i, s:b, s:b, s:b, s:b, s:b, s:b, s:s, s:i, s:I, s:s, s:i, s:s?, s:s?, s:s?, "
        "s:s, s:I, s:I, s:f}",
        "refused", call->refused, "status", call->status, "streamed", call->is_streamed,
        "seen", call->nonce_seen, "answered", call->answered_nonce, "prior",
        call->prior_nonce_seen, "aborted", call->is_aborted, "probe", call->is_probe, "hint",
        call->hint, "dialect", (int)call->dialect, "bytes", (json_int_t)call->request_bytes,
        "model", call->model_asked, "turn", (int)call->turn, "rule", call->rule, "fault",
        call->fault, "provider", call->provider, "usage", call->usage, "in",
        (json_int_t)call->input_tokens, "out", (json_int_t)call->output_tokens, "cost",
        call->cost);
    ck_assert_ptr_nonnull(world->last);
}

static void
on_alive(uv_timer_t *timer)
{
}

static void
world_open(struct world *world, const struct cf_relay_options *more)
{
    struct cf_relay_options options = *more;
    struct cf_relay_turn turn = {
        .turn = 1, .prompt_nonce = NONCE, .answer_nonce = ANSWER, .prior_nonce = "prior-1"};
    struct cf_error err = {0};

    memset(world, 0, sizeof *world);
    ck_assert_int_eq(uv_loop_init(&world->loop), 0);
    uv_timer_init(&world->loop, &world->alive);
    options.dialect_table = table;
    options.dialect_count = CF_COUNT(table);
    if (options.dialects == 0)
        options.dialects = ANTHROPIC | CHAT | RESPONSES | FAL;
    options.token = "secret-token";
    options.on_call = on_call;
    options.user = world;
    ck_assert_msg(cf_relay_open(&world->loop, &options, &world->relay, &err) == 0, "%s",
                  err.text);
    cf_relay_turn_begin(world->relay, &turn);
}

/* The relay's clocks alone keep no loop running. */
static void
world_keep(struct world *world)
{
    uv_timer_start(&world->alive, on_alive, 1, 1);
}

static void
on_closed(void *user)
{
    ((struct world *)user)->is_closed = true;
}

static void
world_close(struct world *world)
{
    cf_relay_close(world->relay, on_closed, world);
    ck_assert(!world->is_closed);
    uv_close((uv_handle_t *)&world->alive, NULL);
    uv_run(&world->loop, UV_RUN_DEFAULT);
    ck_assert(world->is_closed);
    ck_assert_int_eq(uv_loop_close(&world->loop), 0);
    json_decref(world->last);
}

/* ---- a client ------------------------------------------------------------------------ */

struct client {
    struct world *world;
    struct cf_http_conn *conn;
    struct cf_buf raw, body, head;
    size_t room, consumed;
    int status;
    bool is_whole, is_reset, is_shut, forgets_inside;
};

static size_t
io_write(void *user, const char *bytes, size_t len)
{
    struct client *client = user;
    size_t n = len < client->room ? len : client->room;

    if (client->room != SIZE_MAX)
        client->room -= n;
    cf_buf_add(&client->raw, bytes, n);
    return n;
}

static void
io_shutdown(void *user)
{
    struct client *client = user;

    client->is_shut = true;
    if (client->forgets_inside)
        cf_relay_forget(client->world->relay, client->conn);
}

static void
io_reset(void *user)
{
    struct client *client = user;

    client->is_reset = true;
    if (client->forgets_inside)
        cf_relay_forget(client->world->relay, client->conn);
}

static void
io_consumed(void *user, size_t len)
{
    ((struct client *)user)->consumed += len;
}

static const struct cf_http_io io = {io_write, io_shutdown, io_reset, io_consumed, NULL};

static void
client_open(struct client *client, struct world *world)
{
    memset(client, 0, sizeof *client);
    client->world = world;
    client->room = SIZE_MAX;
    client->conn = cf_relay_accept(world->relay, &io, client);
    ck_assert_ptr_nonnull(client->conn);
}

static void
client_close(struct client *client)
{
    cf_relay_forget(client->world->relay, client->conn);
    cf_buf_release(&client->raw);
    cf_buf_release(&client->body);
    cf_buf_release(&client->head);
}

static int
on_body(http_parser *parser, const char *at, size_t len)
{
    struct client *client = parser->data;

    return cf_buf_add(&client->body, at, len);
}

static int
on_whole(http_parser *parser)
{
    struct client *client = parser->data;

    client->status = parser->status_code;
    client->is_whole = true;
    return 0;
}

/* Reads the one answer that came since the last call; nothing may be left over. */
static void
client_read(struct client *client)
{
    static const http_parser_settings settings = {.on_body = on_body,
                                                  .on_message_complete = on_whole};
    http_parser parser;
    const char *end;

    cf_buf_reset(&client->body);
    cf_buf_reset(&client->head);
    client->is_whole = false;
    client->status = 0;
    if (client->raw.len == 0)
        return;
    http_parser_init(&parser, HTTP_RESPONSE);
    parser.data = client;
    ck_assert_uint_eq(
        http_parser_execute(&parser, &settings, client->raw.data, client->raw.len),
        client->raw.len);
    ck_assert_int_eq(HTTP_PARSER_ERRNO(&parser), HPE_OK);
    end = strstr(client->raw.data, "\r\n\r\n");
    cf_buf_add(&client->head, client->raw.data,
               end == NULL ? client->raw.len : (size_t)(end - client->raw.data));
    cf_buf_adds(&client->body, "");
    if (client->is_whole)
        cf_buf_reset(&client->raw);
}

static void
client_send(struct client *client, const char *method, const char *target, const char *headers,
            const char *body)
{
    struct cf_buf text = {0};

    cf_buf_addf(&text, "%s %s HTTP/1.1\r\nHost: 127.0.0.1:4180\r\n%s", method, target,
                headers);
    if (body != NULL)
        cf_buf_addf(&text, "Content-Length: %zu\r\n", strlen(body));
    cf_buf_adds(&text, "\r\n");
    cf_buf_adds(&text, body != NULL ? body : "");
    cf_http_conn_feed(client->conn, text.data, text.len);
    cf_buf_release(&text);
    client_read(client);
}

static json_t *
client_json(struct client *client)
{
    struct cf_error err = {0};
    json_t *value = cf_json_parse(client->body.data, client->body.len, NULL, &err);

    ck_assert_msg(value != NULL, "%s: %s", err.text, client->body.data);
    return value;
}

#define KEY "x-api-key: secret-token\r\n"
#define BEARER "authorization: bearer secret-token\r\n"

static const char *
last_text(struct world *world, const char *name)
{
    const char *text = cf_json_str(world->last, name);
    return text == NULL ? "" : text;
}

#endif
