/* acp_rig.h: an acp connection whose events are written down as words. */
#ifndef CF_TESTS_WIRE_ACP_RIG_H
#define CF_TESTS_WIRE_ACP_RIG_H

#include "base/buf.h"
#include "json/json.h"
#include "wire/wire.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rig {
    struct cf_acp *acp;
    struct cf_buf sent;  /* lines for the agent's stdin */
    struct cf_buf log;   /* events in words, one a line */
    const void *handle;  /* of the last permission or request */
    struct cf_error broken;
    unsigned broken_count;
    bool takes_requests, answers_at_once;
};

static inline void
rig_send(void *user, const char *line, size_t len)
{
    struct rig *rig = user;

    ck_assert(line[len - 1] == '\n' && memchr(line, '\n', len - 1) == NULL);
    cf_buf_add(&rig->sent, line, len);
}

static inline void
rig_initialized(void *user, json_t *result, uint64_t frame)
{
    cf_buf_addf(&((struct rig *)user)->log, "initialized@%d\n", (int)frame);
}

static inline void
rig_authenticated(void *user, uint64_t frame)
{
    cf_buf_addf(&((struct rig *)user)->log, "authenticated@%d\n", (int)frame);
}

static inline void
rig_session(void *user, const char *session_id, json_t *result, uint64_t frame)
{
    cf_buf_addf(&((struct rig *)user)->log, "session %s@%d\n", session_id, (int)frame);
}

static inline void
rig_update(void *user, json_t *params, json_t *update, uint64_t frame)
{
    ck_assert(json_object_get(params, "update") == update);
    cf_buf_addf(&((struct rig *)user)->log, "%s@%d\n", cf_json_str(update, "sessionUpdate"), (int)frame);
}

static inline void
rig_permission(void *user, const struct cf_acp_permission *permission)
{
    struct rig *rig = user;

    rig->handle = permission->handle;
    cf_buf_addf(&rig->log, "permission %s%s@%d\n", cf_json_str(permission->tool_call, "toolCallId"),
                permission->handle == NULL ? " answered" : "", (int)permission->frame);
    if (rig->answers_at_once && permission->handle != NULL)
        ck_assert_int_eq(cf_acp_permission_answer(rig->acp, permission->handle,
                                                  cf_acp_permission_pick(permission, true)), 0);
}

static inline bool
rig_request(void *user, const struct cf_acp_request *request)
{
    struct rig *rig = user;

    rig->handle = request->handle;
    cf_buf_addf(&rig->log, "request %s@%d\n", request->method, (int)request->frame);
    return rig->takes_requests;
}

static inline void
rig_gone(void *user, const void *handle)
{
    cf_buf_adds(&((struct rig *)user)->log, "gone\n");
}

static inline void
rig_prompt_done(void *user, const char *stop_reason, json_t *result, uint64_t frame)
{
    cf_buf_addf(&((struct rig *)user)->log, "done %s%s@%d\n", stop_reason, result == NULL ? " error" : "", (int)frame);
}

static inline void
rig_call_failed(void *user, const char *method, json_t *error, uint64_t frame)
{
    cf_buf_addf(&((struct rig *)user)->log, "failed %s %d %s@%d\n", method, (int)cf_json_int(error, "code", 0),
                cf_json_str(error, "message"), (int)frame);
}

static inline void
rig_finding(void *user, enum cf_acp_finding_kind kind, uint64_t frame, const char *text)
{
    cf_buf_addf(&((struct rig *)user)->log, "! %s@%d\n", cf_acp_finding_name(kind), (int)frame);
}

static inline void
rig_broken(void *user, const struct cf_error *err)
{
    struct rig *rig = user;

    rig->broken = *err;
    rig->broken_count++;
    cf_buf_adds(&rig->log, "broken\n");
}

static inline void
rig_reply(void *user, json_t *result, json_t *error, uint64_t frame)
{
    cf_buf_addf(&((struct rig *)user)->log, "reply %s@%d\n", result ? "result" : error ? "error" : "none", (int)frame);
}

static inline void
rig_open(struct rig *rig, struct cf_acp_options options)
{
    static const struct cf_acp_events events = {
        .send = rig_send, .on_initialized = rig_initialized, .on_authenticated = rig_authenticated,
        .on_session = rig_session, .on_update = rig_update, .on_permission = rig_permission,
        .on_request = rig_request, .on_request_gone = rig_gone, .on_prompt_done = rig_prompt_done,
        .on_call_failed = rig_call_failed, .on_finding = rig_finding, .on_broken = rig_broken,
    };

    memset(rig, 0, sizeof *rig);
    rig->acp = cf_acp_new(&options, &events, rig);
    ck_assert(rig->acp != NULL);
}

static inline void
rig_close(struct rig *rig)
{
    cf_acp_free(rig->acp);
    cf_buf_release(&rig->sent);
    cf_buf_release(&rig->log);
}

static inline void
rig_feed(struct rig *rig, const char *text)
{
    ck_assert_int_eq(cf_acp_feed(rig->acp, text, strlen(text)), 0);
}

/* What happened since the last look. */
static inline void
expect_log_at(struct rig *rig, const char *expected, int line)
{
    ck_assert_msg(strcmp(rig->log.len ? rig->log.data : "", expected) == 0, "line %d: %s", line, rig->log.len ? rig->log.data : "");
    cf_buf_reset(&rig->log);
}
#define expect_log(rig, expected) expect_log_at(rig, expected, __LINE__)

static inline void
expect_sent_at(struct rig *rig, const char *expected, int line)
{
    ck_assert_msg(strcmp(rig->sent.len ? rig->sent.data : "", expected) == 0, "line %d: %s", line, rig->sent.len ? rig->sent.data : "");
    cf_buf_reset(&rig->sent);
}
#define expect_sent(rig, expected) expect_sent_at(rig, expected, __LINE__)

static inline void
ok(int status, const struct cf_error *err)
{
    ck_assert_msg(status == 0, "%s", err->text);
}

static inline json_t *
js(const char *text)
{
    struct cf_error err = {0};
    json_t *value = cf_json_parse(text, strlen(text), NULL, &err);

    ck_assert_msg(value != NULL, "%s: %s", text, err.text);
    return value;
}

static inline void
rig_session_new(struct rig *rig)
{
    struct cf_error err = {0};
    json_t *params = js("{\"cwd\":\"/w\",\"mcpServers\":[]}");

    ok(cf_acp_session_new(rig->acp, params, &err), &err);
    json_decref(params);
}

static inline void
rig_prompt(struct rig *rig)
{
    struct cf_error err = {0};
    json_t *blocks = js("[{\"type\":\"text\",\"text\":\"hi\"}]");

    ok(cf_acp_prompt(rig->acp, blocks, &err), &err);
    json_decref(blocks);
}

#define INIT_ANSWER "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":1,\"agentCapabilities\":{\"loadSession\":true,\"sessionCapabilities\":{\"close\":{}},\"promptCapabilities\":{\"image\":true}}}}\n"
#define SESSION_ANSWER "{\"jsonrpc\":\"2.0\",\"result\":{\"sessionId\":\"s1\"},\"id\":2}\n"
#define UPDATE(session, body) "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"" session "\",\"update\":{" body "}}}\n"
#define CHUNK UPDATE("s1", "\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"x\"}")
#define PERMISSION(id, options) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"session/request_permission\",\"params\":{\"sessionId\":\"s1\",\"toolCall\":{\"toolCallId\":\"c1\"},\"options\":" options "}}\n"
#define YES_NO "[{\"optionId\":\"n\",\"name\":\"No\",\"kind\":\"reject_once\"},{\"optionId\":\"y\",\"name\":\"Yes\",\"kind\":\"allow_once\"}]"

/* To an open session, with nothing left in the logs. */
static inline void
rig_to_session(struct rig *rig, const char *client_capabilities)
{
    struct cf_error err = {0};
    json_t *client = client_capabilities == NULL ? NULL : js(client_capabilities);

    ok(cf_acp_initialize(rig->acp, client, &err), &err);
    json_decref(client);
    rig_feed(rig, INIT_ANSWER);
    rig_session_new(rig);
    rig_feed(rig, SESSION_ANSWER);
    expect_log(rig, "initialized@2\nsession s1@4\n");
    cf_buf_reset(&rig->sent);
}

#endif
