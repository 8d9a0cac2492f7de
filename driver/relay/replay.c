/* What the replay model says: the answer's nonce in the call that carries the prompt, words
 * that do no harm in every other, or what the model script has for it. */
#include "relay/call.h"

#include "base/clock.h"
#include "base/str.h"
#include "json/json.h"

#include <stdio.h>
#include <string.h>

/* What the longest answer_json (256 KiB), and the longest script's answer, can become when a
 * dialect says it five times over with every character escaped. */
#define ANSWER_LIMIT (32u * 1024 * 1024)

static const char place[] = "{answer}";

/* The answer's nonce, or the whole answer that an output schema asks for. */
static const char *
answer_of(const struct cf_relay *relay)
{
    if (relay->answer_json != NULL)
        return relay->answer_json;
    return relay->answer_nonce != NULL ? relay->answer_nonce : "";
}

char *
cf_replay_expand(const struct cf_relay *relay, const char *text)
{
    struct cf_buf out = {0};
    const char *next;

    cf_buf_init(&out, ANSWER_LIMIT);
    for (; (next = strstr(text, place)) != NULL; text = next + sizeof place - 1) {
        cf_buf_add(&out, text, (size_t)(next - text));
        cf_buf_adds(&out, answer_of(relay));
    }
    cf_buf_adds(&out, text);
    if (out.failed) {
        cf_buf_release(&out);
        return NULL;
    }
    return cf_buf_take(&out, NULL);
}

/* A copy of a tool's input with its strings expanded; new reference, NULL out of memory. */
static json_t *
expand_input(const struct cf_relay *relay, const json_t *value)
{
    json_t *copy, *item;
    const char *name;
    size_t i;

    if (json_is_string(value)) {
        cf_auto_free char *text = cf_replay_expand(relay, json_string_value(value));
        return text != NULL ? json_string(text) : NULL;
    }
    if (json_is_object(value)) {
        copy = json_object();
        json_object_foreach((json_t *)value, name, item)
            (void)json_object_set_new(copy, name, expand_input(relay, item));
        return copy;
    }
    if (json_is_array(value)) {
        copy = json_array();
        json_array_foreach((json_t *)value, i, item)
            (void)json_array_append_new(copy, expand_input(relay, item));
        return copy;
    }
    return json_copy((json_t *)value);
}

/* ---- the parts of an answer ---------------------------------------------------------------
 */

struct said {
    struct cf_part parts[CF_SCRIPT_PARTS];
    char *texts[CF_SCRIPT_PARTS]; /* ours */
    size_t count, bytes;
    bool has_answer;
};

static void
said_release(struct said *said)
{
    for (size_t i = 0; i < said->count; i++)
        free(said->texts[i]);
}

/* `text` is taken; NULL fails. */
static int
say(struct said *said, enum cf_part_kind kind, char *text, const char *name)
{
    if (text == NULL)
        return -1;
    said->texts[said->count] = text;
    said->parts[said->count++] =
        (struct cf_part){.kind = kind, .text = text, .len = strlen(text), .name = name};
    said->bytes += strlen(text);
    return 0;
}

static int
say_default(struct said *said, const struct cf_call *call)
{
    const struct cf_relay *relay = call->relay;
    char text[CF_NEEDLE_LIMIT + 40] = "OK";

    if (call->is_main && relay->answer_json != NULL)
        return say(said, CF_PART_TEXT, strdup(relay->answer_json), NULL);
    if (call->is_main && relay->answer_nonce != NULL)
        (void)snprintf(text, sizeof text, "The answer is %s.", relay->answer_nonce);
    else if (call->is_main)
        (void)snprintf(text, sizeof text, "Done.");
    return say(said, CF_PART_TEXT, strdup(text), NULL);
}

static int
say_rule(struct said *said, const struct cf_relay *relay, const struct cf_rule *rule)
{
    for (size_t i = 0; i < rule->part_count; i++) {
        const struct cf_rule_part *part = &rule->parts[i];
        json_t *input = part->input != NULL ? expand_input(relay, part->input) : NULL;
        char *text = part->input == NULL ? cf_replay_expand(relay, part->text)
                     : input != NULL     ? cf_json_dump(input, NULL)
                                         : NULL;

        json_decref(input);
        if (part->text != NULL && strstr(part->text, place) != NULL)
            said->has_answer = true;
        if (say(said, part->kind, text, part->name) < 0)
            return -1;
    }
    return 0;
}

/* ---- scripts ------------------------------------------------------------------------------
 */

bool
cf_replay_find_rule(struct cf_call *call)
{
    struct cf_relay *relay = call->relay;
    const struct cf_script_call asked = {.codec = call->route.codec,
                                         .digest = &call->digest,
                                         .is_main = call->is_main,
                                         .turn = relay->turn};

    call->rule = cf_script_find(&relay->script, &asked);
    if (call->rule != NULL) {
        call->row.rule = call->rule->name;
        return true;
    }
    if (!relay->script.refuses)
        return true;
    (void)snprintf(call->hint, sizeof call->hint,
                   "no rule of the model script fits this call");
    cf_call_refuse(call, 400, "cap", "%s", call->hint);
    return false;
}

void
cf_replay_fail(struct cf_call *call)
{
    const struct cf_rule *rule = call->rule;
    const char *headers[5];
    char seconds[24];
    size_t n = 0;

    if (rule->retry_after >= 0) {
        (void)snprintf(seconds, sizeof seconds, "%lld", (long long)rule->retry_after);
        headers[n++] = "retry-after";
        headers[n++] = seconds;
    }
    if (rule->should_retry >= 0) {
        headers[n++] = "x-should-retry";
        headers[n++] = rule->should_retry ? "true" : "false";
    }
    headers[n] = NULL;
    cf_call_fail(call, rule->error_status, headers, rule->error_message);
}

/* ---- the answer ---------------------------------------------------------------------------
 */

static void
fill_answer(struct cf_call *call, const struct said *said, struct cf_answer *answer)
{
    const struct cf_rule *rule = call->rule;

    memset(answer, 0, sizeof *answer);
    call->row.input_tokens = call->row.request_bytes / 4 + 1;
    call->row.output_tokens = said->bytes / 4 + 1;
    if (rule != NULL && rule->has_usage) {
        call->row.input_tokens = rule->input_tokens;
        call->row.output_tokens = rule->output_tokens;
    }
    call->row.usage = "reported";
    answer->id = call->id;
    answer->model = call->model;
    answer->parts = said->parts;
    answer->part_count = said->count;
    answer->stop = rule != NULL ? rule->stop : CF_STOP_END;
    answer->piece_bytes = rule != NULL ? rule->piece_bytes : 0;
    answer->created = cf_clock_unix();
    answer->wants_usage = call->digest.wants_usage;
    answer->input_tokens = call->row.input_tokens;
    answer->output_tokens = call->row.output_tokens;
}

static int
write_answer(struct cf_call *call)
{
    const struct cf_codec *codec = call->route.codec;
    const struct cf_relay *relay = call->relay;
    struct said said = {.count = 0};
    struct cf_answer answer;
    int status =
        call->rule != NULL ? say_rule(&said, relay, call->rule) : say_default(&said, call);

    if (status == 0) {
        fill_answer(call, &said, &answer);
        call->row.answered_nonce =
            (relay->answer_nonce != NULL || relay->answer_json != NULL) &&
            (call->rule != NULL ? said.has_answer : call->is_main);
        call->body.limit_bytes = ANSWER_LIMIT;
        (void)cf_buf_reserve(&call->body, said.bytes + 700); /* most fit: no growth by steps */
        status = call->row.is_streamed ? codec->stream(&answer, &call->body)
                                       : codec->whole(&answer, &call->body);
    }
    said_release(&said);
    return status;
}

void
cf_replay_answer(struct cf_call *call)
{
    if (call->rule != NULL) {
        call->pace = call->rule->pace;
        if (call->rule->error_status == 0 && !call->row.is_streamed &&
            call->pace.how == CF_BREAK_ERROR) {
            cf_call_fail(call, 500, NULL, call->pace.message);
            return;
        }
        if (call->rule->error_status != 0) {
            cf_replay_fail(call);
            return;
        }
    }
    if (write_answer(call) < 0)
        cf_call_refuse(call, 500, "internal", "the relay could not write its answer");
    else
        cf_call_send(call);
}
