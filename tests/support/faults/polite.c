/* The smallest harnesses that do everything right, for faults to start from. */
#include "polite.h"

#include "base/str.h"
#include "file.h"
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char session_id[] = "polite-1";

static int
ask(const char *prompt, bool once, struct cf_buf *answer)
{
    json_t *messages = json_pack("[{s:s, s:s}]", "role", "user", "text", prompt);
    struct hn_ask ask = { .messages = messages };
    struct hn_call call = { 0 };
    struct hn_model model;
    struct cf_error err;
    int status = hn_model_from_env(&model, HN_OPENAI_CHAT, false, &err);

    model.asks_once = once;
    if (status == 0)
        status = hn_call_start(&call, &model, &ask, NULL, NULL, &err);
    if (status == 0)
        status = hn_call_wait(&call, &err);
    if (status == 0)
        cf_buf_add(answer, call.answer.text.data, call.answer.text.len);
    else
        cf_buf_adds(answer, err.text);
    hn_call_release(&call);
    json_decref(messages);
    return status;
}

int
polite_ask(const char *prompt, struct cf_buf *answer)
{
    return ask(prompt, false, answer);
}

int
polite_ask_once(const char *prompt, struct cf_buf *answer)
{
    return ask(prompt, true, answer);
}

int
polite_oneshot(polite_answer_fn *answer_fn)
{
    struct cf_buf prompt = { 0 }, answer = { 0 };
    struct cf_error err;

    if (hn_read_all(STDIN_FILENO, "the prompt", &prompt, &err) < 0)
        return 1;
    if (answer_fn(prompt.data, &answer) < 0) {
        fprintf(stderr, "fault: %s\n", answer.data);
        return 1;
    }
    return hn_write_all(STDOUT_FILENO, answer.data, answer.len) < 0;
}

/* ---- acp -------------------------------------------------------------------------------- */

static void
say(json_t *message)
{
    cf_auto_free char *text = NULL;

    json_object_set_new(message, "jsonrpc", json_string("2.0"));
    text = json_dumps(message, JSON_COMPACT);
    printf("%s\n", text);
    fflush(stdout);
    json_decref(message);
}

void
polite_chunk(const char *text)
{
    say(json_pack("{s:s, s:{s:s, s:{s:s, s:{s:s, s:s}}}}", "method", "session/update", "params",
                  "sessionId", session_id, "update", "sessionUpdate", "agent_message_chunk",
                  "content", "type", "text", "text", text));
}

static void
prompt_text(json_t *params, struct cf_buf *text)
{
    json_t *block;
    size_t i;

    cf_buf_adds(text, "");
    json_array_foreach (json_object_get(params, "prompt"), i, block) {
        const char *part = json_string_value(json_object_get(block, "text"));
        cf_buf_adds(text, part != NULL ? part : "");
    }
}

static void
take_prompt(json_t *id, json_t *params, polite_answer_fn *answer_fn)
{
    struct cf_buf prompt = { 0 }, answer = { 0 };

    prompt_text(params, &prompt);
    cf_buf_adds(&answer, "");
    if (answer_fn(prompt.data, &answer) < 0) {
        say(json_pack("{s:O, s:{s:i, s:s}}", "id", id, "error", "code", -32603, "message",
                      answer.data));
    } else {
        if (answer.len > 0)
            polite_chunk(answer.data);
        say(json_pack("{s:O, s:{s:s}}", "id", id, "result", "stopReason", "end_turn"));
    }
    cf_buf_release(&prompt);
    cf_buf_release(&answer);
}

static void
take_message(json_t *message, polite_answer_fn *answer_fn)
{
    const char *method = json_string_value(json_object_get(message, "method"));
    json_t *id = json_object_get(message, "id");

    if (method == NULL || id == NULL)
        return;
    if (strcmp(method, "initialize") == 0)
        say(json_pack("{s:O, s:{s:i, s:{}, s:{s:s, s:s}}}", "id", id, "result", "protocolVersion",
                      1, "agentCapabilities", "agentInfo", "name", "fault", "version", "1"));
    else if (strcmp(method, "session/new") == 0)
        say(json_pack("{s:O, s:{s:s}}", "id", id, "result", "sessionId", session_id));
    else if (strcmp(method, "session/prompt") == 0)
        take_prompt(id, json_object_get(message, "params"), answer_fn);
    else
        say(json_pack("{s:O, s:{s:i, s:s}}", "id", id, "error", "code", -32601, "message",
                      "Method not found"));
}

int
polite_acp(polite_answer_fn *answer_fn)
{
    char *line = NULL;
    size_t size = 0;
    ssize_t len;

    while ((len = getline(&line, &size, stdin)) > 0) {
        json_t *message = json_loadb(line, (size_t)len, JSON_ALLOW_NUL, NULL);
        take_message(message, answer_fn);
        json_decref(message);
    }
    free(line);
    return 0;
}
