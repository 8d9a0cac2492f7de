#include "tests/relay/rig.h"

/* ---- event streams ------------------------------------------------------------------- */

/* Checks every frame's form, joins the text of what `pick` finds, and lists the event names.
 */
static void
read_events(struct client *client, const char *const pick[], bool has_names,
            struct cf_buf *names, struct cf_buf *text, unsigned *ret_deltas)
{
    const char *at = client->body.data;

    *ret_deltas = 0;
    while (*at != '\0') {
        const char *end = strstr(at, "\n\n"), *data = at;
        char name[100] = "";
        ck_assert_ptr_nonnull(end);
        if (has_names) {
            ck_assert_int_eq(sscanf(at, "event: %99s\n", name), 1);
            data = strchr(at, '\n') + 1;
        }
        ck_assert(strncmp(data, "data: ", 6) == 0);
        ck_assert_ptr_null(memchr(data, '\n', (size_t)(end - data)));
        at = end + 2;
        if (strncmp(data, "data: [DONE]", 12) == 0) {
            cf_buf_adds(names, "[DONE] ");
            continue;
        }
        json_t *value = cf_json_parse(data + 6, (size_t)(end - data) - 6, NULL, NULL);
        ck_assert_ptr_nonnull(value);
        if (has_names)
            ck_assert_str_eq(cf_json_str(value, "type"), name);
        cf_buf_addf(names, "%s ", has_names ? name : "chunk");
        json_t *here = value;
        for (int i = 0; pick[i] != NULL && here != NULL; i++)
            here =
                json_is_array(here) ? json_array_get(here, 0) : json_object_get(here, pick[i]);
        if (json_is_string(here) && json_string_length(here) > 0 &&
            (!has_names || strstr(name, "delta") != NULL)) {
            cf_buf_adds(text, json_string_value(here));
            ++*ret_deltas;
        }
        json_decref(value);
    }
}

static void
expect_stream(const char *target, const char *headers, const char *body,
              const char *const pick[], bool has_names, const char *expected_names)
{
    struct world world;
    struct client client;
    struct cf_buf names = {0}, text = {0};
    unsigned deltas;

    world_open(&world, &(struct cf_relay_options){0});
    client_open(&client, &world);
    client_send(&client, "POST", target, headers, body);
    ck_assert_int_eq(client.status, 200);
    ck_assert_ptr_nonnull(strstr(client.head.data, "Content-Type: text/event-stream"));
    ck_assert_ptr_nonnull(strstr(client.head.data, "Cache-Control: no-cache"));
    read_events(&client, pick, has_names, &names, &text, &deltas);
    ck_assert_str_eq(text.data, "The answer is " ANSWER ".");
    ck_assert_uint_ge(deltas, 3);
    ck_assert_str_eq(names.data, expected_names);
    ck_assert(cf_json_bool(world.last, "seen", false));
    ck_assert(cf_json_bool(world.last, "answered", false));
    ck_assert(cf_json_bool(world.last, "streamed", false));
    ck_assert_ptr_null(cf_json_str(world.last, "refused"));
    cf_buf_release(&names);
    cf_buf_release(&text);
    client_close(&client);
    world_close(&world);
}

#define DELTAS(one) one one one one one one one one
#define ANTHROPIC_BODY(more)                                                                 \
    "{\"model\":\"claude-x\",\"max_tokens\":9,\"messages\":[{\"role\":\"user\",\"content\":" \
    "\"say " NONCE "\"}]" more "}"

START_TEST(anthropic_messages_streams_its_events_in_order)
{
    static const char *const pick[] = {"delta", "text", NULL};

    expect_stream(
        "/v1/messages?beta=true", KEY, ANTHROPIC_BODY(",\"stream\":true"), pick, true,
        "message_start content_block_start ping " DELTAS(
            "content_block_delta ") "content_block_stop message_delta message_stop ");
}
END_TEST

#define CHAT_BODY(more)                                                              \
    "{\"model\":\"gpt-x\",\"messages\":[{\"role\":\"user\",\"content\":\"say " NONCE \
    "\"}]" more "}"

START_TEST(openai_chat_streams_chunks_and_done)
{
    static const char *const pick[] = {"choices", "0", "delta", "content", NULL};

    expect_stream("/v1/chat/completions", BEARER, CHAT_BODY(",\"stream\":true"), pick, false,
                  "chunk " DELTAS("chunk ") "chunk [DONE] ");
    expect_stream("/v1/chat/completions", BEARER,
                  CHAT_BODY(",\"stream\":true,\"stream_options\":{\"include_usage\":true}"),
                  pick, false, "chunk " DELTAS("chunk ") "chunk chunk [DONE] ");
}
END_TEST

START_TEST(openai_responses_streams_its_events_in_order)
{
    static const char *const pick[] = {"delta", NULL};

    expect_stream(
        "/v1/responses", BEARER,
        "{\"model\":\"gpt-x\",\"stream\":true,\"input\":\"" NONCE "\"}", pick, true,
        "response.created response.in_progress response.output_item.added "
        "response.content_part.added " DELTAS(
            "response.output_text.delta ") "response.output_text.done "
                                           "response.content_part.done "
                                           "response.output_item.done response.completed ");
}
END_TEST

START_TEST(whole_answers_have_each_dialects_shape)
{
    struct world world;
    struct client client;
    json_t *value;

    world_open(&world, &(struct cf_relay_options){0});
    client_open(&client, &world);
    client_send(&client, "POST", "/v1/messages", KEY, ANTHROPIC_BODY(""));
    value = client_json(&client);
    ck_assert_str_eq(cf_json_str(json_array_get(cf_json_arr(value, "content"), 0), "text"),
                     "The answer is " ANSWER ".");
    ck_assert_str_eq(cf_json_str(value, "stop_reason"), "end_turn");
    ck_assert_str_eq(cf_json_str(value, "model"), "claude-x");
    ck_assert_int_gt(cf_json_int(cf_json_obj(value, "usage"), "input_tokens", 0), 10);
    json_decref(value);

    client_send(&client, "POST", "/v1/chat/completions", BEARER, CHAT_BODY(""));
    value = client_json(&client);
    json_t *choice = json_array_get(cf_json_arr(value, "choices"), 0);
    ck_assert_str_eq(cf_json_str(cf_json_obj(choice, "message"), "content"),
                     "The answer is " ANSWER ".");
    ck_assert_str_eq(cf_json_str(choice, "finish_reason"), "stop");
    json_decref(value);

    client_send(&client, "POST", "/v1/responses", BEARER,
                "{\"model\":\"gpt-x\",\"input\":\"" NONCE "\"}");
    value = client_json(&client);
    json_t *item = json_array_get(cf_json_arr(value, "output"), 0);
    ck_assert_str_eq(cf_json_str(json_array_get(cf_json_arr(item, "content"), 0), "text"),
                     "The answer is " ANSWER ".");
    ck_assert_str_eq(cf_json_str(value, "status"), "completed");
    ck_assert_int_gt(cf_json_int(cf_json_obj(value, "usage"), "total_tokens", 0), 0);
    json_decref(value);
    ck_assert_uint_eq(world.rows, 3);
    client_close(&client);
    world_close(&world);
}
END_TEST

START_TEST(side_calls_get_words_without_the_nonce)
{
    static const char *const bodies[] = {
        "{\"model\":\"small\",\"messages\":[{\"role\":\"user\",\"content\":\"make a "
        "title\"}]}",
        "{\"model\":\"small\",\"system\":\"" NONCE
        "\",\"messages\":[{\"role\":\"user\",\"content\":\"prior-1\"}]}",
    };
    struct world world;
    struct client client;

    world_open(&world, &(struct cf_relay_options){0});
    client_open(&client, &world);
    for (size_t i = 0; i < CF_COUNT(bodies); i++) {
        client_send(&client, "POST", "/v1/messages", KEY, bodies[i]);
        ck_assert_int_eq(client.status, 200);
        ck_assert_ptr_null(strstr(client.body.data, "answer-"));
        ck_assert_ptr_null(strstr(client.body.data, NONCE));
        ck_assert(!cf_json_bool(world.last, "answered", true));
        ck_assert(cf_json_bool(world.last, "seen", false) == (i == 1));
        ck_assert(cf_json_bool(world.last, "prior", false) == (i == 1));
        ck_assert_str_eq(last_text(&world, "model"), "small");
    }
    client_close(&client);
    world_close(&world);
}
END_TEST

START_TEST(a_tool_result_goes_on_with_the_main_call_and_answer_json_is_said_as_it_is)
{
    struct cf_relay_turn turn = {.turn = 2,
                                 .prompt_nonce = NONCE,
                                 .answer_nonce = "a2",
                                 .answer_json = "{\"n\":\"a2\"}"};
    struct world world;
    struct client client;
    json_t *value;

    world_open(&world, &(struct cf_relay_options){0});
    client_open(&client, &world);
    cf_relay_turn_begin(world.relay, &turn);
    client_send(&client, "POST", "/v1/chat/completions", BEARER,
                "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"" NONCE
                "\"},{\"role\":\"assistant\",\"tool_calls\":[{}]},"
                "{\"role\":\"tool\",\"content\":\"r\"}]}");
    value = client_json(&client);
    ck_assert_str_eq(
        cf_json_str(cf_json_obj(json_array_get(cf_json_arr(value, "choices"), 0), "message"),
                    "content"),
        "{\"n\":\"a2\"}");
    json_decref(value);
    ck_assert_int_eq(cf_json_int(world.last, "turn", 0), 2);
    client_close(&client);
    world_close(&world);
}
END_TEST

/* ---- refusals ------------------------------------------------------------------------ */

static void
expect_refusal(struct client *client, int status, const char *why, const char *hint)
{
    struct world *world = client->world;

    ck_assert_int_eq(client->status, status);
    ck_assert_str_eq(last_text(world, "refused"), why);
    ck_assert_int_eq(cf_json_int(world->last, "status", 0), status);
    ck_assert_ptr_nonnull(strstr(client->head.data, "x-should-retry: false"));
    ck_assert_msg(hint == NULL || strstr(last_text(world, "hint"), hint) != NULL, "%s",
                  last_text(world, "hint"));
    ck_assert_ptr_null(strstr(client->body.data, "secret-token"));
}

START_TEST(only_the_runs_own_token_opens_the_door_in_each_of_its_three_forms)
{
    static const char *const good[] = {
        KEY, BEARER, "Authorization: Key secret-token\r\n",
        "Authorization: Bearer   secret-token \r\n",
        "Authorization: Bearer own\r\nX-Api-Key: secret-token\r\n"};
    static const char *const bad[] = {"",
                                      "x-api-key: secret-tokem\r\n",
                                      "x-api-key: secret-token2\r\n",
                                      "x-api-key:\r\n",
                                      "Authorization: secret-token\r\n",
                                      "Authorization: Basic secret-token\r\n",
                                      "Authorization: Bearer Secret-token\r\n",
                                      "Cookie: secret-token\r\n"};
    struct world world;
    struct client client;

    world_open(&world, &(struct cf_relay_options){0});
    client_open(&client, &world);
    for (size_t i = 0; i < CF_COUNT(good); i++) {
        client_send(&client, "POST", "/v1/messages", good[i], ANTHROPIC_BODY(""));
        ck_assert_int_eq(client.status, 200);
    }
    for (size_t i = 0; i < CF_COUNT(bad); i++) {
        client_send(&client, "POST", "/v1/messages", bad[i], ANTHROPIC_BODY(""));
        expect_refusal(&client, 401, "token",
                       strstr(bad[i], ": ") && bad[i][0] != 'C' ? "not this run's token"
                                                                : NULL);
        ck_assert_ptr_nonnull(strstr(client.body.data, "authentication_error"));
    }
    client_send(&client, "POST", "/v1/responses", "", "{}");
    ck_assert_ptr_nonnull(strstr(client.body.data, "\"code\":\"invalid_api_key\""));
    client_close(&client);
    world_close(&world);
}
END_TEST

START_TEST(wrong_paths_are_told_which_base_url_is_one_level_off)
{
    static const struct {
        const char *path, *hint, *shape;
        int dialect;
    } cases[] = {
        {"/messages", "ANTHROPIC_BASE_URL should end in /v1", "not_found_error", ANTHROPIC},
        {"/v1/v1/messages?x=1", "ANTHROPIC_BASE_URL should not end in /v1", "not_found_error",
         ANTHROPIC},
        {"//v1/messages", "ANTHROPIC_BASE_URL should not end in a slash", "not_found_error",
         ANTHROPIC},
        {"/chat/completions", "OPENAI_BASE_URL should end in /v1", "unknown_url", CHAT},
        {"/v1/v1/responses", "OPENAI_BASE_URL should not end in /v1", "unknown_url",
         RESPONSES},
        {"/proxy/v1/responses", "OPENAI_BASE_URL has too much in its path", "unknown_url",
         RESPONSES},
        {"/v1/embeddings", "", "not_found_error", 0},
        {"/", "", "not_found_error", 0},
    };
    struct world world;
    struct client client;

    world_open(&world, &(struct cf_relay_options){0});
    client_open(&client, &world);
    for (size_t i = 0; i < CF_COUNT(cases); i++) {
        client_send(&client, "POST", cases[i].path, BEARER, "{}");
        expect_refusal(&client, 404, "path", cases[i].hint);
        ck_assert_msg(strstr(client.body.data, cases[i].shape) != NULL, "%s",
                      client.body.data);
        ck_assert_int_eq(cf_json_int(world.last, "dialect", -1), cases[i].dialect);
        json_decref(client_json(&client));
    }
    client_close(&client);
    world_close(&world);
}
END_TEST

START_TEST(a_dialect_outside_the_run_is_refused)
{
    struct world world;
    struct client client;

    world_open(&world, &(struct cf_relay_options){.dialects = CHAT});
    client_open(&client, &world);
    client_send(&client, "POST", "/v1/messages", KEY, ANTHROPIC_BODY(""));
    expect_refusal(&client, 404, "dialect", "anthropic_messages is not among");
    client_send(&client, "POST", "/v1/chat/completions", BEARER, CHAT_BODY(""));
    ck_assert_int_eq(client.status, 200);
    client_close(&client);
    world_close(&world);
}
END_TEST

START_TEST(wrong_methods_codings_upgrades_and_bodies_are_refused)
{
    struct world world;
    struct client client;

    world_open(&world, &(struct cf_relay_options){.max_body_bytes = 200});
    client_open(&client, &world);
    client_send(&client, "GET", "/v1/messages", KEY, NULL);
    expect_refusal(&client, 405, "method", NULL);
    ck_assert_ptr_nonnull(strstr(client.head.data, "Allow: POST"));
    client_send(&client, "DELETE", "/v1/models", KEY, NULL);
    expect_refusal(&client, 405, "method", NULL);
    client_send(&client, "POST", "/v1/responses", BEARER "Content-Encoding: zstd\r\n", "x");
    expect_refusal(&client, 415, "encoding", NULL);
    client_send(&client, "GET", "/v1/responses",
                BEARER "Connection: Upgrade\r\nUpgrade: websocket\r\n", NULL);
    expect_refusal(&client, 426, "upgrade", NULL);
    client_send(&client, "POST", "/v1/messages", KEY, "{\"model\":\"m\",");
    expect_refusal(&client, 400, "body", NULL);
    ck_assert_ptr_nonnull(strstr(client.body.data, "invalid_request_error"));
    client_send(&client, "POST", "/v1/messages", KEY, "[]");
    expect_refusal(&client, 400, "body", NULL);
    client_send(&client, "POST", "/v1/messages", KEY, "{\"messages\":[]}");
    expect_refusal(&client, 400, "body", NULL);
    ck_assert_ptr_nonnull(strstr(client.body.data, "no \\\"model\\\""));
    client_send(&client, "POST", "/v1/responses", KEY, "{\"model\":\"m\"}");
    ck_assert_ptr_nonnull(strstr(client.body.data, "no \\\"input\\\""));
    client_close(&client);
    world_close(&world);
}
END_TEST

START_TEST(a_body_at_the_limit_is_served_and_one_byte_more_is_refused)
{
    struct world world;
    struct cf_buf body = {0};

    cf_buf_adds(&body, ANTHROPIC_BODY(""));
    while (body.len < 300)
        cf_buf_adds(&body, " ");
    world_open(&world, &(struct cf_relay_options){.max_body_bytes = 300});
    for (int chunked = 0; chunked < 2; chunked++) {
        for (int extra = 0; extra < 2; extra++) {
            struct client client;
            struct cf_buf text = {0};
            client_open(&client, &world);
            if (chunked)
                cf_buf_addf(&text,
                            "POST /v1/messages HTTP/1.1\r\n" KEY
                            "Transfer-Encoding: chunked\r\n\r\n%x\r\n%s%s\r\n0\r\n\r\n",
                            300 + extra, body.data, extra ? " " : "");
            else
                cf_buf_addf(&text,
                            "POST /v1/messages HTTP/1.1\r\n" KEY
                            "Content-Length: %d\r\n\r\n%s%s",
                            300 + extra, body.data, extra ? " " : "");
            for (size_t i = 0; i < text.len; i += 50)
                cf_http_conn_feed(client.conn, text.data + i,
                                  text.len - i < 50 ? text.len - i : 50);
            client_read(&client);
            if (extra)
                expect_refusal(&client, 413, "too large", NULL);
            else
                ck_assert_int_eq(client.status, 200);
            ck_assert(!extra || strstr(client.body.data, "request_too_large") != NULL);
            cf_buf_release(&text);
            client_close(&client);
        }
    }
    cf_buf_release(&body);
    world_close(&world);
}
END_TEST

START_TEST(the_cap_ends_a_turn_and_the_next_turn_begins_anew)
{
    struct world world;
    struct client client;

    world_open(&world, &(struct cf_relay_options){.caps.calls_per_turn = 2});
    client_open(&client, &world);
    for (int turn = 1; turn <= 2; turn++) {
        cf_relay_turn_begin(world.relay, &(struct cf_relay_turn){.turn = (unsigned)turn,
                                                                 .prompt_nonce = NONCE});
        for (int i = 0; i < 4; i++) {
            client_send(&client, "GET", "/v1/models", KEY, NULL); /* is not counted */
            ck_assert_int_eq(client.status, 200);
            client_send(&client, "POST", "/v1/messages", KEY,
                        ANTHROPIC_BODY(",\"stream\":true"));
            if (i < 2)
                ck_assert_int_eq(client.status, 200);
            else
                expect_refusal(&client, 400, "cap", "more than 2 model calls");
        }
    }
    client_close(&client);
    world_close(&world);
}
END_TEST

START_TEST(after_the_lease_everything_is_401_and_recorded)
{
    struct world world;
    struct client client;

    world_open(&world, &(struct cf_relay_options){0});
    client_open(&client, &world);
    cf_relay_revoke(world.relay);
    client_send(&client, "POST", "/v1/messages", KEY, ANTHROPIC_BODY(""));
    expect_refusal(&client, 401, "lease", NULL);
    client_send(&client, "GET", "/", "", NULL);
    expect_refusal(&client, 401, "lease", NULL);
    ck_assert_uint_eq(world.rows, 2);
    client_close(&client);
    world_close(&world);
}
END_TEST

START_TEST(probes_are_answered_and_are_no_model_calls)
{
    struct world world;
    struct client client;
    json_t *totals, *value;

    world_open(&world, &(struct cf_relay_options){.model = "my-model"});
    client_open(&client, &world);
    client_send(&client, "HEAD", "/", "", NULL);
    cf_buf_reset(&client.raw); /* an answer to HEAD has no body, whatever its length says */
    ck_assert(cf_json_bool(world.last, "probe", false));
    client_send(&client, "HEAD", "/api/hello", "", NULL);
    ck_assert_ptr_nonnull(strstr(client.head.data, " 404 "));
    cf_buf_reset(&client.raw);
    client_send(&client, "GET", "/v1/models", BEARER, NULL);
    value = client_json(&client);
    ck_assert_str_eq(cf_json_str(json_array_get(cf_json_arr(value, "data"), 0), "id"),
                     "my-model");
    json_decref(value);
    client_send(&client, "GET", "/v1/models/my-model", KEY, NULL);
    value = client_json(&client);
    ck_assert_str_eq(cf_json_str(value, "id"), "my-model");
    json_decref(value);
    client_send(&client, "POST", "/v1/messages/count_tokens", KEY, ANTHROPIC_BODY(""));
    value = client_json(&client);
    ck_assert_int_gt(cf_json_int(value, "input_tokens", 0), 10);
    json_decref(value);
    totals = cf_relay_totals(world.relay);
    ck_assert_int_eq(cf_json_int(totals, "served", -1), 0);
    ck_assert_int_eq(cf_json_int(totals, "probes", -1), 5);
    ck_assert_int_eq(cf_json_int(totals, "refused", -1), 0);
    json_decref(totals);
    client_close(&client);
    world_close(&world);
}
END_TEST

/* ---- time and leaving ---------------------------------------------------------------- */

START_TEST(held_main_answers_wait_for_the_release_while_side_calls_pass)
{
    struct world world;
    struct client held, side;

    world_open(&world, &(struct cf_relay_options){0});
    client_open(&held, &world);
    client_open(&side, &world);
    held.forgets_inside = true;
    cf_relay_hold(world.relay, 10000);
    client_send(&held, "POST", "/v1/messages", KEY "Connection: close\r\n",
                ANTHROPIC_BODY(",\"stream\":true"));
    client_send(&side, "POST", "/v1/messages", KEY, "{\"model\":\"m\",\"messages\":[]}");
    ck_assert_int_eq(side.status, 200);
    ck_assert_uint_eq(held.raw.len, 0);
    ck_assert_uint_eq(cf_relay_calls_in_flight(world.relay), 1);
    cf_relay_release(world.relay);
    client_read(&held);
    ck_assert_int_eq(held.status, 200);
    ck_assert_ptr_nonnull(strstr(held.body.data, "message_stop"));
    ck_assert(held.is_shut);
    ck_assert_uint_eq(cf_relay_calls_in_flight(world.relay), 0);
    client_close(&held);
    client_close(&side);
    world_close(&world);
}
END_TEST

static void
on_keep(uv_timer_t *timer)
{
    uv_close((uv_handle_t *)timer, NULL);
}

START_TEST(a_hold_ends_by_itself_at_its_deadline)
{
    struct world world;
    struct client client;
    uv_timer_t keep;

    world_open(&world, &(struct cf_relay_options){0});
    client_open(&client, &world);
    cf_relay_hold(world.relay, 20);
    client_send(&client, "POST", "/v1/messages", KEY, ANTHROPIC_BODY(""));
    ck_assert_uint_eq(client.raw.len, 0);
    uv_timer_init(&world.loop, &keep); /* the hold's own timer keeps no loop alive */
    uv_timer_start(&keep, on_keep, 60, 0);
    uv_run(&world.loop, UV_RUN_DEFAULT);
    client_read(&client);
    ck_assert_int_eq(client.status, 200);
    client_close(&client);
    world_close(&world);
}
END_TEST

START_TEST(a_client_that_leaves_makes_an_aborted_row_once)
{
    struct world world;
    struct client client;
    json_t *totals;

    world_open(&world, &(struct cf_relay_options){0});
    client_open(&client, &world); /* while held */
    cf_relay_hold(world.relay, 10000);
    client_send(&client, "POST", "/v1/messages", KEY, ANTHROPIC_BODY(",\"stream\":true"));
    cf_http_conn_eof(client.conn);
    ck_assert(cf_json_bool(world.last, "aborted", false));
    ck_assert_uint_eq(world.rows, 1);
    ck_assert(client.is_reset);
    cf_relay_release(world.relay);
    client_close(&client);
    ck_assert_uint_eq(world.rows, 1);

    client_open(&client, &world); /* in the middle of the stream */
    client.room = 300;
    client_send(&client, "POST", "/v1/messages", KEY, ANTHROPIC_BODY(",\"stream\":true"));
    cf_http_conn_gone(client.conn);
    ck_assert(cf_json_bool(world.last, "aborted", false));
    client_close(&client);
    ck_assert_uint_eq(world.rows, 2);

    client_open(&client, &world); /* in the middle of its request, forgotten by the owner */
    client_send(&client, "POST", "/v1/messages", KEY "Content-Length: 100\r\n", NULL);
    ck_assert_uint_eq(world.rows, 2);
    client_close(&client);
    ck_assert(cf_json_bool(world.last, "aborted", false));
    ck_assert_uint_eq(world.rows, 3);

    totals = cf_relay_totals(world.relay);
    ck_assert_int_eq(cf_json_int(totals, "served", -1), 0);
    ck_assert_int_eq(cf_json_int(totals, "aborted", -1), 3);
    json_decref(totals);
    world_close(&world);
}
END_TEST

START_TEST(closing_ends_open_calls_and_resets_their_connections)
{
    struct world world;
    struct client first, second;

    world_open(&world, &(struct cf_relay_options){0});
    client_open(&first, &world);
    client_open(&second, &world);
    first.forgets_inside = true;
    cf_relay_hold(world.relay, 10000);
    client_send(&first, "POST", "/v1/messages", KEY, ANTHROPIC_BODY(""));
    client_send(&second, "POST", "/v1/messages", KEY, ANTHROPIC_BODY(""));
    world_close(&world);
    ck_assert(first.is_reset && second.is_reset);
    ck_assert_uint_eq(world.rows, 2);
    cf_buf_release(&first.raw);
    cf_buf_release(&second.raw);
    cf_buf_release(&first.body), cf_buf_release(&first.head);
    cf_buf_release(&second.body), cf_buf_release(&second.head);
}
END_TEST

START_TEST(a_slow_reader_gets_a_large_answer_whole)
{
    struct cf_relay_turn turn = {.turn = 1, .prompt_nonce = NONCE, .answer_nonce = "a"};
    struct cf_buf json = {0};
    struct world world;

    cf_buf_adds(&json, "{\"n\":\"");
    while (json.len < 250 * 1024)
        cf_buf_adds(&json, "\\u0001 \\\" text \xc3\xa9 ");
    cf_buf_adds(&json, "\"}");
    turn.answer_json = json.data;
    world_open(&world, &(struct cf_relay_options){0});
    cf_relay_turn_begin(world.relay, &turn);
    for (int streamed = 0; streamed < 2; streamed++) {
        struct client client;
        client_open(&client, &world);
        client.room = 0;
        client_send(&client, "POST", "/v1/responses", BEARER,
                    streamed ? "{\"model\":\"m\",\"stream\":true,\"input\":\"" NONCE "\"}"
                             : "{\"model\":\"m\",\"input\":\"" NONCE "\"}");
        while (cf_relay_calls_in_flight(world.relay) > 0) {
            client.room = 10007;
            cf_http_conn_writable(client.conn);
            ck_assert_uint_le(cf_http_reply_queued(client.conn), 256 * 1024);
        }
        client_read(&client);
        ck_assert_int_eq(client.status, 200);
        ck_assert_uint_gt(client.body.len, json.len);
        if (streamed)
            ck_assert_ptr_nonnull(strstr(client.body.data, "event: response.completed\n"));
        else
            json_decref(client_json(&client));
        client_close(&client);
    }
    cf_buf_release(&json);
    world_close(&world);
}
END_TEST

START_TEST(the_ledger_keeps_a_thousand_rows_and_counts_the_rest)
{
    struct world world;
    struct client client;
    json_t *rows, *totals;

    world_open(&world, &(struct cf_relay_options){0});
    client_open(&client, &world);
    for (int i = 0; i < 1003; i++)
        client_send(&client, "POST", "/v1/nothing", KEY, "{}");
    rows = cf_relay_ledger(world.relay);
    ck_assert_uint_eq(json_array_size(rows), 1000);
    ck_assert_str_eq(cf_json_str(json_array_get(rows, 0), "refused"), "path");
    ck_assert_str_eq(cf_json_str(json_array_get(rows, 0), "path"), "/v1/nothing");
    totals = cf_relay_totals(world.relay);
    ck_assert_int_eq(cf_json_int(totals, "rows_dropped", 0), 3);
    ck_assert_int_eq(cf_json_int(totals, "refused", 0), 1003);
    json_decref(totals);
    json_decref(rows);
    client_close(&client);
    world_close(&world);
}
END_TEST

START_TEST(malformed_http_is_recorded_and_connections_are_bounded)
{
    struct world world;
    struct client client;
    struct cf_http_conn *conn, *first = NULL;
    unsigned count = 0;

    world_open(&world, &(struct cf_relay_options){0});
    client_open(&client, &world);
    cf_http_conn_feed(client.conn, "GET / HTTP/1.1\n\n", 16);
    ck_assert_str_eq(last_text(&world, "refused"), "malformed");
    ck_assert(client.is_shut);
    client_close(&client);
    while ((conn = cf_relay_accept(world.relay, &io, &client)) != NULL) {
        first = first == NULL ? conn : first;
        count++;
    }
    ck_assert_uint_eq(count, 1024);
    cf_relay_forget(world.relay, first);
    ck_assert_ptr_nonnull(cf_relay_accept(world.relay, &io, &client));
    world_close(&world);
}
END_TEST

START_TEST(many_connections_are_served_at_once_on_one_token_each_its_own_answer)
{
    enum { COUNT = 200 };
    static struct client clients[COUNT];
    static const char head[] = "POST /v1/messages HTTP/1.1\r\n" KEY "Content-Length: ";
    struct world world;
    char text[1024];

    world_open(&world, &(struct cf_relay_options){.caps.calls_per_turn = COUNT});
    snprintf(text, sizeof text, "%s%zu\r\n\r\n%s", head,
             strlen(ANTHROPIC_BODY(",\"stream\":true")), ANTHROPIC_BODY(",\"stream\":true"));
    for (int i = 0; i < COUNT; i++)
        client_open(&clients[i], &world);
    for (size_t at = 0; at < strlen(text); at += 11)
        for (int i = 0; i < COUNT; i++)
            cf_http_conn_feed(clients[i].conn, text + at,
                              strlen(text + at) < 11 ? strlen(text + at) : 11);
    for (int i = 0; i < COUNT; i++) {
        client_read(&clients[i]);
        ck_assert_ptr_nonnull(strstr(clients[i].body.data, "message_stop"));
        client_close(&clients[i]);
    }
    ck_assert_uint_eq(world.rows, COUNT);
    world_close(&world);
}
END_TEST

/* ---- fal_queue ----------------------------------------------------------------------- */

START_TEST(a_fal_client_that_only_asks_for_the_result_gets_it)
{
    struct world world;
    struct client client;
    char path[200];
    json_t *job;

    world_open(&world, &(struct cf_relay_options){0});
    client_open(&client, &world);
    client_send(&client, "POST", "/fal-ai/flux/dev", KEY, "{\"prompt\":\"" NONCE "\"}");
    job = client_json(&client);
    snprintf(path, sizeof path, "/fal-ai/flux/requests/%s", cf_json_str(job, "request_id"));
    client_send(&client, "GET", path, KEY, NULL);
    ck_assert_int_eq(client.status, 400);
    ck_assert_ptr_nonnull(strstr(client.body.data, "still in progress"));
    client_send(&client, "GET", path, KEY, NULL);
    ck_assert_int_eq(client.status, 200);
    ck_assert_ptr_nonnull(strstr(client.body.data, ANSWER));
    json_decref(job);
    client_close(&client);
    world_close(&world);
}
END_TEST

START_TEST(a_fal_job_is_submitted_watched_fetched_and_leads_back_to_the_relay)
{
    struct world world;
    struct client client;
    json_t *job, *value;
    char path[200];

    world_open(&world, &(struct cf_relay_options){0});
    client_open(&client, &world);
    client_send(&client, "POST", "/fal-ai/flux/dev?fal_webhook=x",
                "Authorization: Key secret-token\r\n", "{\"prompt\":\"" NONCE "\"}");
    ck_assert_int_eq(client.status, 200);
    ck_assert(cf_json_bool(world.last, "seen", false));
    job = client_json(&client);
    ck_assert_str_eq(cf_json_str(job, "status"), "IN_QUEUE");
    snprintf(path, sizeof path, "http://127.0.0.1:4180/fal-ai/flux/requests/%s",
             cf_json_str(job, "request_id"));
    ck_assert_str_eq(cf_json_str(job, "response_url"), path);
    snprintf(path, sizeof path, "/fal-ai/flux/requests/%s", cf_json_str(job, "request_id"));

    for (int i = 0; i < 2; i++) {
        client_send(&client, "GET",
                    cf_json_str(job, "status_url") + strlen("http://127.0.0.1:4180"), KEY,
                    NULL);
        value = client_json(&client);
        ck_assert_str_eq(cf_json_str(value, "status"), i == 0 ? "IN_PROGRESS" : "COMPLETED");
        json_decref(value);
    }
    client_send(&client, "GET", path, KEY, NULL);
    ck_assert_ptr_nonnull(strstr(client.body.data, ANSWER));
    client_send(&client, "PUT",
                cf_json_str(job, "cancel_url") + strlen("http://127.0.0.1:4180"), KEY, NULL);
    ck_assert_int_eq(client.status, 400);
    client_send(&client, "POST",
                cf_json_str(job, "cancel_url") + strlen("http://127.0.0.1:4180"), KEY, NULL);
    expect_refusal(&client, 405, "method", NULL);
    client_send(&client, "GET", "/fal-ai/flux/requests/nope/status", KEY, NULL);
    expect_refusal(&client, 404, "path", NULL);
    ck_assert_ptr_nonnull(strstr(client.body.data, "\"detail\""));
    json_decref(job);

    client_send(&client, "POST", "/comfy/me/app/x", KEY, "{\"prompt\":\"" NONCE "\"}");
    job = client_json(&client);
    ck_assert_ptr_nonnull(
        strstr(cf_json_str(job, "status_url"), "4180/comfy/me/app/requests/"));
    cf_relay_hold(world.relay, 10000);
    snprintf(path, sizeof path, "%s/stream",
             cf_json_str(job, "status_url") + strlen("http://127.0.0.1:4180"));
    client_send(&client, "GET", path, KEY, NULL);
    ck_assert(!client.is_whole);
    cf_relay_release(world.relay);
    client_read(&client);
    ck_assert_ptr_nonnull(strstr(client.body.data, "COMPLETED"));
    json_decref(job);
    client_close(&client);
    world_close(&world);
}
END_TEST

UNIT_MAIN(
    "relay/relay", tcase_add_test(tc, anthropic_messages_streams_its_events_in_order);
    tcase_add_test(tc, openai_chat_streams_chunks_and_done);
    tcase_add_test(tc, openai_responses_streams_its_events_in_order);
    tcase_add_test(tc, whole_answers_have_each_dialects_shape);
    tcase_add_test(tc, side_calls_get_words_without_the_nonce);
    tcase_add_test(tc,
                   a_tool_result_goes_on_with_the_main_call_and_answer_json_is_said_as_it_is);
    tcase_add_test(tc, only_the_runs_own_token_opens_the_door_in_each_of_its_three_forms);
    tcase_add_test(tc, wrong_paths_are_told_which_base_url_is_one_level_off);
    tcase_add_test(tc, a_dialect_outside_the_run_is_refused);
    tcase_add_test(tc, wrong_methods_codings_upgrades_and_bodies_are_refused);
    tcase_add_test(tc, a_body_at_the_limit_is_served_and_one_byte_more_is_refused);
    tcase_add_test(tc, the_cap_ends_a_turn_and_the_next_turn_begins_anew);
    tcase_add_test(tc, after_the_lease_everything_is_401_and_recorded);
    tcase_add_test(tc, probes_are_answered_and_are_no_model_calls);
    tcase_add_test(tc, held_main_answers_wait_for_the_release_while_side_calls_pass);
    tcase_add_test(tc, a_hold_ends_by_itself_at_its_deadline);
    tcase_add_test(tc, a_client_that_leaves_makes_an_aborted_row_once);
    tcase_add_test(tc, closing_ends_open_calls_and_resets_their_connections);
    tcase_add_test(tc, a_slow_reader_gets_a_large_answer_whole);
    tcase_add_test(tc, the_ledger_keeps_a_thousand_rows_and_counts_the_rest);
    tcase_add_test(tc, malformed_http_is_recorded_and_connections_are_bounded);
    tcase_add_test(tc, many_connections_are_served_at_once_on_one_token_each_its_own_answer);
    tcase_add_test(tc, a_fal_client_that_only_asks_for_the_result_gets_it);
          tcase_add_test(tc, a_fal_job_is_submitted_watched_fetched_and_leads_back_to_the_relay);)
