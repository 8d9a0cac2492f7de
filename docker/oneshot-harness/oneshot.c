/* One turn of the reference wrapper: prompt and state in, one model call, state and answer out. */
#include "oneshot.h"

#include "base/str.h"
#include "base/utf8.h"
#include "file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PROMPT_LIMIT = 64 * 1024 * 1024, SMALL_LIMIT = 4 * 1024 * 1024, CONTENT_UNITS = 262144 };

static int
read_prompt(const struct hn_oneshot *turn, json_t **ret_prompt, struct cf_error *err)
{
    struct cf_buf text = { .limit_bytes = PROMPT_LIMIT };
    int status = turn->prompt_path != NULL ? hn_file_read(turn->prompt_path, &text, err)
                                           : hn_read_all(STDIN_FILENO, "the prompt", &text, err);

    if (status == 0) {
        *ret_prompt = json_stringn(text.data, text.len);
        if (*ret_prompt == NULL)
            status = cf_error_set(err, CF_ERROR_CONFIG, 0, "the prompt is not valid UTF-8");
    }
    cf_buf_release(&text);
    return status;
}

/* A schema is an object or a boolean, so its JSON begins with one of three characters, and a
 * path given by a runner is absolute. */
static int
read_schema(const char *schema, json_t **ret_schema, struct cf_error *err)
{
    struct cf_buf text = { .limit_bytes = SMALL_LIMIT };
    json_error_t why;
    int status = 0;

    if (schema == NULL)
        return 0;
    if (strchr("{tf", schema[0]) != NULL && schema[0] != '\0')
        cf_buf_adds(&text, schema);
    else
        status = hn_file_read(schema, &text, err);
    if (status == 0) {
        *ret_schema = json_loadb(text.data, text.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, &why);
        if (*ret_schema == NULL)
            status = cf_error_set(err, CF_ERROR_CONFIG, 0, "the output schema is not JSON: %s",
                                  why.text);
    }
    cf_buf_release(&text);
    return status;
}

static int
read_state(json_t **ret_state, struct cf_error *err)
{
    struct cf_buf text = { .limit_bytes = PROMPT_LIMIT };
    int status = hn_file_read(HN_STATE_PATH, &text, err);

    if (status == 0) {
        *ret_state = json_loadb(text.data, text.len, JSON_ALLOW_NUL, NULL);
        if (json_integer_value(json_object_get(*ret_state, "schema_version")) != 1 ||
            !json_is_string(json_object_get(*ret_state, "last_response")) ||
            json_integer_value(json_object_get(*ret_state, "turn")) < 1)
            status = cf_error_set(err, CF_ERROR_CONFIG, 0, "%s is not a state of this wrapper",
                                  HN_STATE_PATH);
    }
    cf_buf_release(&text);
    return status < 0 ? cf_error_wrap(err, "--resume") : 0;
}

/* The earlier prompt is not kept, so a stand-in keeps the roles alternating. */
static json_t *
conversation(json_t *state, json_t *prompt)
{
    json_t *messages = json_array();

    if (state != NULL) {
        json_array_append_new(messages, json_pack("{s:s, s:s}", "role", "user", "text",
                                                  "(The earlier question is not kept.)"));
        json_array_append_new(messages, json_pack("{s:s, s:O}", "role", "assistant", "text",
                                                  json_object_get(state, "last_response")));
    }
    json_array_append_new(messages, json_pack("{s:s, s:O}", "role", "user", "text", prompt));
    return messages;
}

static int
check_answer(const struct hn_answer *answer, json_t *schema, struct cf_error *err)
{
    json_t *value;

    if (answer->text.len == 0)
        return cf_error_set(err, CF_ERROR_HARNESS, 0, "the model's answer has no text");
    if (schema == NULL)
        return 0;
    value = json_loadb(answer->text.data, answer->text.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (value == NULL)
        return cf_error_set(err, CF_ERROR_HARNESS, 0,
                            "an output schema was given and the model's answer is not JSON");
    json_decref(value);
    return 0;
}

static int
write_state(json_t *state, const struct hn_answer *answer, struct cf_error *err)
{
    json_int_t turn = json_integer_value(json_object_get(state, "turn")) + 1;
    json_t *next = json_pack("{s:i, s:I, s:o}", "schema_version", 1, "turn", turn, "last_response",
                             json_stringn(answer->text.data, answer->text.len));
    cf_auto_free char *text = json_dumps(next, JSON_COMPACT);

    json_decref(next);
    if (text == NULL)
        return cf_error_memory(err);
    if (mkdir(HN_STATE_DIRECTORY, 0755) < 0 && errno != EEXIST)
        return cf_error_set(err, CF_ERROR_CONFIG, errno, "cannot make %s in the working directory: %s",
                            HN_STATE_DIRECTORY, strerror(errno));
    return hn_file_replace(HN_STATE_PATH, text, strlen(text), err);
}

static void
add_line(struct cf_buf *out, const char *type, json_t *payload)
{
    json_t *line = json_pack("{s:s, s:o}", "type", type, "payload", payload);
    cf_auto_free char *text = json_dumps(line, JSON_COMPACT);

    json_decref(line);
    cf_buf_addf(out, "%s\n", text != NULL ? text : "");
}

/* One observation's content is bounded, counted in UTF-16 units; a longer text is several. */
static void
add_text(struct cf_buf *out, const char *type, const struct cf_buf *text)
{
    size_t at = 0;

    while (at < text->len) {
        size_t n = cf_utf16_prefix(text->data + at, text->len - at, CONTENT_UNITS);

        add_line(out, type, json_pack("{s:o}", "content", json_stringn(text->data + at, n)));
        at += n;
    }
}

static int
print(const struct hn_oneshot *turn, const struct hn_answer *answer, struct cf_error *err)
{
    struct cf_buf out = { 0 };
    int status = 0;

    if (!turn->stream_json) {
        cf_buf_add(&out, answer->text.data, answer->text.len); /* no newline of ours */
    } else {
        add_text(&out, "observation.agent_thinking", &answer->thinking);
        add_text(&out, "observation.agent_message", &answer->text);
        add_line(&out, "observation.finished",
                 json_pack("{s:s}", "stop_reason", answer->is_refusal ? "refusal"
                                                   : answer->is_cut   ? "max_tokens"
                                                                      : "end_turn"));
    }
    if (out.failed)
        status = cf_error_memory(err);
    else if (hn_write_all(STDOUT_FILENO, out.data, out.len) < 0)
        status = cf_error_set(err, CF_ERROR_HARNESS, errno, "cannot write the answer to stdout: %s",
                              strerror(errno));
    cf_buf_release(&out);
    return status;
}

static int
ask_and_print(const struct hn_oneshot *turn, json_t *state, json_t *prompt, json_t *schema,
              struct cf_error *err)
{
    struct hn_ask ask = { .messages = conversation(state, prompt), .schema = schema };
    struct hn_call call = { 0 };
    struct hn_model model;
    int status = hn_model_from_env(&model, turn->dialect, turn->stream, err);

    if (status == 0)
        status = hn_call_start(&call, &model, &ask, NULL, NULL, err);
    if (status == 0)
        status = hn_call_wait(&call, err);
    if (status == 0)
        status = check_answer(&call.answer, schema, err);
    if (status == 0)
        status = write_state(state, &call.answer, err);
    if (status == 0)
        status = print(turn, &call.answer, err);
    hn_call_release(&call);
    json_decref(ask.messages);
    return status;
}

int
hn_oneshot_run(const struct hn_oneshot *turn, struct cf_error *err)
{
    json_t *prompt = NULL, *schema = NULL, *state = NULL;
    int status = read_prompt(turn, &prompt, err);

    if (status == 0)
        status = read_schema(turn->schema, &schema, err);
    if (status == 0 && turn->resume)
        status = read_state(&state, err);
    if (status == 0)
        status = ask_and_print(turn, state, prompt, schema, err);
    json_decref(prompt);
    json_decref(schema);
    json_decref(state);
    return status;
}
