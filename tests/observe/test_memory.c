/* The JSON allocator fails at the n-th call, for every n: nothing crashes, nothing leaks. */
#include "tests/observe/watch.h"

#include "wire/wire.h"

static unsigned long calls_left;

static void *
failing_malloc(size_t size)
{
    if (calls_left == 0)
        return NULL;
    calls_left--;
    return malloc(size);
}

static void
on_initialized(void *user, json_t *result, uint64_t frame)
{
    struct watch *w = user;
    struct cf_declaration declaration = {0};
    struct cf_error err;

    if (cf_declaration_read(result, &declaration, &err) == 0)
        cf_grammar_declare(w->g, &declaration);
}

static void
on_session(void *user, const char *session_id, json_t *result, uint64_t frame)
{
    struct watch *w = user;
    const struct cf_declaration declaration = {.subagents = true};
    json_t *envelope = cf_envelope_acp(false), *set = cf_declaration_admit(envelope, &declaration);

    if (set != NULL)
        cf_normalizer_ready(w->n, set, frame);
    json_decref(set);
    json_decref(envelope);
}

static void
on_update(void *user, json_t *params, json_t *said, uint64_t frame)
{
    cf_normalizer_update(((struct watch *)user)->n, params, said, frame);
}

static void
on_permission(void *user, const struct cf_acp_permission *permission)
{
    cf_normalizer_permission(((struct watch *)user)->n, permission->tool_call, permission->frame);
}

static void
on_done(void *user, const char *stop_reason, json_t *result, uint64_t frame)
{
    cf_normalizer_finished(((struct watch *)user)->n, stop_reason, NULL, frame);
}

static void
on_said(void *user, const struct cf_observation *o)
{
    (void)cf_grammar_feed(((struct watch *)user)->g, o);
}

#define U(body) "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"s\",\"update\":{" body "}}}\n"

static const char *const script[] = {
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":1,\"_meta\":{\"checkfu.capabilities\":{\"subagents\":\"observed\"}}}}\n",
    U("\"sessionUpdate\":\"plan\",\"entries\":[]") "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"sessionId\":\"s\"}}\n",
    U("\"sessionUpdate\":\"session_info_update\",\"_meta\":{\"checkfu.subagent\":{\"phase\":\"started\",\"subagent\":\"a\",\"name\":\"n\"}}")
    U("\"sessionUpdate\":\"agent_message_chunk\",\"messageId\":\"m\",\"content\":{\"type\":\"text\",\"text\":\"hi \\ud83d\"}")
    U("\"sessionUpdate\":\"tool_call\",\"toolCallId\":\"t\",\"title\":\"T\",\"rawInput\":{\"a\":1}")
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session/request_permission\",\"params\":{\"sessionId\":\"s\",\"toolCall\":{\"toolCallId\":\"t\"},\"options\":[]}}\n"
    U("\"sessionUpdate\":\"tool_call_update\",\"toolCallId\":\"t\",\"status\":\"completed\",\"content\":[{\"type\":\"diff\",\"path\":\"/a\",\"newText\":\"b\"}]")
    U("\"sessionUpdate\":\"session_info_update\",\"_meta\":{\"checkfu.subagent\":{\"phase\":\"completed\",\"subagent\":\"a\",\"disposition\":\"completed\"}}")
    "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"stopReason\":\"end_turn\"}}\n",
};

static void
converse(void)
{
    static const struct cf_acp_events events = {.on_initialized = on_initialized, .on_session = on_session, .on_update = on_update,
                                                .on_permission = on_permission, .on_prompt_done = on_done};
    struct watch w = {0};
    struct cf_normalizer_options said = {.is_acp = true, .on_observation = on_said, .user = &w};
    struct cf_acp_options options = {0};
    struct cf_error err;
    struct cf_acp *acp = cf_acp_new(&options, &events, &w);
    json_t *params = json_pack("{s:s,s:[]}", "cwd", "/", "mcpServers"), *blocks = json_pack("[{s:s,s:s}]", "type", "text", "text", "x");

    w.n = cf_normalizer_new(&said);
    w.g = cf_grammar_new(true);
    if (acp != NULL && w.n != NULL && w.g != NULL && params != NULL && blocks != NULL &&
        cf_acp_initialize(acp, NULL, &err) == 0 && cf_acp_feed(acp, script[0], strlen(script[0])) == 0 &&
        cf_acp_session_new(acp, params, &err) == 0 && cf_acp_feed(acp, script[1], strlen(script[1])) == 0 &&
        cf_acp_prompt(acp, blocks, &err) == 0) {
        cf_normalizer_turn_begin(w.n);
        cf_grammar_turn_begin(w.g);
        (void)cf_acp_feed(acp, script[2], strlen(script[2]));
        cf_acp_end(acp);
    }
    cf_acp_free(acp);
    cf_normalizer_free(w.n);
    cf_grammar_free(w.g);
    json_decref(params);
    json_decref(blocks);
}

START_TEST(every_allocation_may_fail)
{
    unsigned long needed;

    json_set_alloc_funcs(failing_malloc, free);
    calls_left = 1u << 30;
    converse();
    needed = (1u << 30) - calls_left;
    ck_assert_uint_gt(needed, 100);
    for (unsigned long n = 0; n < needed; n++) {
        calls_left = n;
        converse();
    }
}
END_TEST

START_TEST(the_catalog_fails_whole_without_memory)
{
    json_set_alloc_funcs(failing_malloc, free);
    for (unsigned long n = 0; n < 3000; n += 7) {
        calls_left = n;
        json_decref(cf_catalog_json());
    }
}
END_TEST

UNIT_MAIN("observe/memory", tcase_add_test(tc, every_allocation_may_fail);
          tcase_add_test(tc, the_catalog_fails_whole_without_memory);)
