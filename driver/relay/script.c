/* Reads a script strictly: a misspelt condition that silently always holds would make a test
 * pass that proves nothing. */
#include "relay/script.h"

#include "base/str.h"
#include "base/utf8.h"
#include "json/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    struct cf_script *script;
    size_t rule; /* from 0 */
    struct cf_error *err;
};

static int __attribute__((format(printf, 2, 3))) bad(struct reader *r, const char *fmt, ...)
{
    char text[400];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    (void)cf_error_set(r->err, CF_ERROR_CONFIG, 0, "model script: rules[%zu]: %s", r->rule,
                       text);
    return cf_error_fix(r->err, "proto/model-script.schema.json has its form");
}

/* ---- members ------------------------------------------------------------------------- */

enum form { WORD, TEXT, COUNT, FLAG, NESTED };

struct member {
    const char *name;
    enum form form;
    uint64_t most; /* COUNT: the largest; TEXT: bytes */
};

/* Each member is one of `allowed` (ended by a row without name) and has its form. */
static int
check_members(struct reader *r, const char *where, json_t *object,
              const struct member *allowed)
{
    const char *name;
    json_t *value;

    if (!json_is_object(object))
        return bad(r, "%s is not an object", where);
    json_object_foreach(object, name, value) {
        const struct member *m = allowed;
        bool is_good = true;

        while (m->name != NULL && strcmp(m->name, name) != 0)
            m++;
        if (m->name == NULL)
            return bad(r, "%s has no member %.60s", where, name);
        if (m->form == COUNT)
            is_good = json_is_integer(value) && json_integer_value(value) >= 0 &&
                      (uint64_t)json_integer_value(value) <= m->most;
        else if (m->form == FLAG)
            is_good = json_is_boolean(value);
        else if (m->form == TEXT || m->form == WORD)
            is_good = json_is_string(value) && json_string_length(value) <= m->most &&
                      json_string_length(value) > 0 &&
                      strlen(json_string_value(value)) == json_string_length(value);
        if (!is_good)
            return bad(r, "%s.%s has the wrong type or is out of its bounds", where, name);
    }
    return 0;
}

static int
flag_of(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);

    return value == NULL ? -1 : json_is_true(value);
}

static uint64_t
count_of(const json_t *object, const char *name)
{
    return (uint64_t)cf_json_int(object, name, 0);
}

/* ---- when ---------------------------------------------------------------------------- */

/* The number of a text among the needles; -1: not asked for. */
static int
needle_of(struct cf_script *script, const json_t *when, const char *name)
{
    const char *text = cf_json_str(when, name);

    if (text == NULL)
        return -1;
    cf_needle_set(&script->needles[script->needle_count], text);
    return (int)script->needle_count++;
}

static int
read_when(struct reader *r, json_t *when, struct cf_rule *rule)
{
    static const struct member members[] = {
        {"dialect", WORD, 40},
        {"model", TEXT, 200},
        {"user", TEXT, CF_NEEDLE_LIMIT},
        {"tool_result", TEXT, CF_NEEDLE_LIMIT},
        {"anywhere", TEXT, CF_NEEDLE_LIMIT},
        {"has_tools", FLAG, 0},
        {"streamed", FLAG, 0},
        {"main", FLAG, 0},
        {"after", WORD, 20},
        {"turn", COUNT, 1000000},
        {NULL, WORD, 0},
    };
    const char *dialect = cf_json_str(when, "dialect"), *after = cf_json_str(when, "after");

    if (check_members(r, "when", when, members) < 0)
        return -1;
    rule->codec = dialect != NULL ? cf_codec_find(dialect) : NULL;
    if (dialect != NULL && rule->codec == NULL)
        return bad(r, "when.dialect: there is no dialect %.40s", dialect);
    if (after != NULL && strcmp(after, "user") != 0 && strcmp(after, "tool_result") != 0)
        return bad(r, "when.after is neither user nor tool_result");
    rule->after = after == NULL                ? CF_ITEM_NONE
                  : strcmp(after, "user") == 0 ? CF_ITEM_USER
                                               : CF_ITEM_TOOL_RESULT;
    rule->model = cf_json_str(when, "model");
    rule->user = needle_of(r->script, when, "user");
    rule->tool_result = needle_of(r->script, when, "tool_result");
    rule->anywhere = needle_of(r->script, when, "anywhere");
    rule->has_tools = flag_of(when, "has_tools");
    rule->is_streamed = flag_of(when, "streamed");
    rule->is_main = flag_of(when, "main");
    rule->turn = (unsigned)count_of(when, "turn");
    return 0;
}

/* ---- then ---------------------------------------------------------------------------- */

static int
read_part(struct reader *r, json_t *part, struct cf_rule_part *to)
{
    static const struct member tool_members[] = {
        {"name", TEXT, 200}, {"input", NESTED, 0}, {NULL, WORD, 0}};
    json_t *tool = cf_json_obj(part, "tool");
    const char *text = cf_json_str(part, "text"), *thinking = cf_json_str(part, "thinking");

    if (json_object_size(part) != 1 || (text == NULL && thinking == NULL && tool == NULL))
        return bad(r, "say: a part is one of {\"text\"}, {\"thinking\"} and {\"tool\"}");
    to->kind = text != NULL       ? CF_PART_TEXT
               : thinking != NULL ? CF_PART_THINKING
                                  : CF_PART_TOOL;
    to->text = text != NULL ? text : thinking;
    if (tool == NULL)
        return 0;
    if (check_members(r, "say.tool", tool, tool_members) < 0)
        return -1;
    to->name = cf_json_str(tool, "name");
    to->input = json_object_get(tool, "input");
    if (to->name == NULL || !json_is_object(to->input))
        return bad(r, "say.tool is not {\"name\", \"input\": {}}");
    return 0;
}

static int
read_say(struct reader *r, json_t *say, struct cf_rule *rule)
{
    size_t i;
    json_t *part;

    if (!json_is_array(say) || json_array_size(say) > CF_SCRIPT_PARTS)
        return bad(r, "say is not an array of at most %u parts", CF_SCRIPT_PARTS);
    rule->parts = calloc(json_array_size(say) + 1, sizeof *rule->parts);
    if (rule->parts == NULL)
        return cf_error_memory(r->err);
    json_array_foreach(say, i, part) {
        if (read_part(r, part, &rule->parts[i]) < 0)
            return -1;
        if (rule->parts[i].kind == CF_PART_TOOL)
            rule->stop = CF_STOP_TOOL;
        rule->part_count++;
    }
    return 0;
}

static int
read_stop(struct reader *r, const char *stop, struct cf_rule *rule)
{
    if (stop == NULL)
        return 0;
    if (strcmp(stop, "max_tokens") == 0)
        rule->stop = CF_STOP_LENGTH;
    else if (strcmp(stop, "refusal") == 0)
        rule->stop = CF_STOP_REFUSAL;
    else
        return bad(r,
                   "stop is neither max_tokens nor refusal; leave it out for an orderly end");
    return 0;
}

static int
read_usage(struct reader *r, json_t *usage, struct cf_rule *rule)
{
    static const struct member members[] = {{"input_tokens", COUNT, 1000000000000},
                                            {"output_tokens", COUNT, 1000000000000},
                                            {NULL, WORD, 0}};

    if (check_members(r, "usage", usage, members) < 0)
        return -1;
    rule->has_usage = true;
    rule->input_tokens = count_of(usage, "input_tokens");
    rule->output_tokens = count_of(usage, "output_tokens");
    return 0;
}

static int
read_error(struct reader *r, json_t *error, struct cf_rule *rule)
{
    static const struct member members[] = {{"status", COUNT, 599},
                                            {"message", TEXT, 400},
                                            {"retry_after", COUNT, 86400},
                                            {"should_retry", FLAG, 0},
                                            {NULL, WORD, 0}};
    const char *message = cf_json_str(error, "message");

    if (check_members(r, "error", error, members) < 0)
        return -1;
    rule->error_status = (int)count_of(error, "status");
    if (rule->error_status < 400)
        return bad(r, "error.status is not within 400 and 599");
    rule->error_message = message != NULL ? message : "the model script says so";
    rule->retry_after = cf_json_int(error, "retry_after", -1);
    rule->should_retry = flag_of(error, "should_retry");
    return 0;
}

static int
read_break(struct reader *r, json_t *object, struct cf_pace *pace)
{
    static const struct member members[] = {{"how", WORD, 20},
                                            {"after_events", COUNT, 1000000},
                                            {"after_bytes", COUNT, 1000000000},
                                            {"message", TEXT, 400},
                                            {NULL, WORD, 0}};
    static const char *const words[] = {"", "error", "reset", "end", "stall"};
    const char *how = cf_json_str(object, "how"), *message = cf_json_str(object, "message");

    if (check_members(r, "break", object, members) < 0)
        return -1;
    for (int i = CF_BREAK_ERROR; how != NULL && i <= CF_BREAK_STALL; i++)
        if (strcmp(words[i], how) == 0)
            pace->how = (enum cf_break)i;
    if (pace->how == CF_BREAK_NONE)
        return bad(r, "break.how is none of error, reset, end and stall");
    if (json_object_get(object, "after_events") != NULL &&
        json_object_get(object, "after_bytes") != NULL)
        return bad(r, "break counts events or bytes, not both");
    pace->counts_events = json_object_get(object, "after_bytes") == NULL;
    pace->after = count_of(object, pace->counts_events ? "after_events" : "after_bytes");
    pace->message = message != NULL ? message : "the model script broke this answer";
    return 0;
}

static int
read_then(struct reader *r, json_t *from, struct cf_rule *rule)
{
    json_t *say = json_object_get(from, "say"), *error = json_object_get(from, "error"),
           *broken = json_object_get(from, "break"), *usage = json_object_get(from, "usage");

    if ((say != NULL) == (error != NULL))
        return bad(r, "a rule has either say or error");
    if (say != NULL && read_say(r, say, rule) < 0)
        return -1;
    if (error != NULL && read_error(r, error, rule) < 0)
        return -1;
    if (usage != NULL && read_usage(r, usage, rule) < 0)
        return -1;
    if (broken != NULL && read_break(r, broken, &rule->pace) < 0)
        return -1;
    rule->pace.delay_ms = count_of(from, "delay_ms");
    rule->pace.gap_ms = count_of(from, "gap_ms");
    rule->pace.write_bytes = count_of(from, "write_bytes");
    rule->piece_bytes = count_of(from, "chunk_bytes");
    return read_stop(r, cf_json_str(from, "stop"), rule);
}

/* ---- the whole ----------------------------------------------------------------------- */

static int
read_rule(struct reader *r, json_t *from, struct cf_rule *rule)
{
    static const struct member members[] = {
        {"name", TEXT, CF_SCRIPT_NAME},
        {"when", NESTED, 0},
        {"times", COUNT, 1000000},
        {"say", NESTED, 0},
        {"stop", WORD, 20},
        {"usage", NESTED, 0},
        {"delay_ms", COUNT, 3600000},
        {"gap_ms", COUNT, 3600000},
        {"chunk_bytes", COUNT, 1000000},
        {"write_bytes", COUNT, 1000000},
        {"error", NESTED, 0},
        {"break", NESTED, 0},
        {NULL, WORD, 0},
    };
    json_t *when = json_object_get(from, "when");
    const char *name = cf_json_str(from, "name");

    rule->user = rule->tool_result = rule->anywhere = -1;
    rule->has_tools = rule->is_streamed = rule->is_main = rule->should_retry = -1;
    rule->retry_after = -1;
    if (check_members(r, "the rule", from, members) < 0)
        return -1;
    if (name != NULL)
        (void)snprintf(rule->name, sizeof rule->name, "%s", name);
    else
        (void)snprintf(rule->name, sizeof rule->name, "%zu", r->rule + 1);
    cf_utf8_make_line(rule->name);
    rule->times = count_of(from, "times");
    if (when != NULL && read_when(r, when, rule) < 0)
        return -1;
    return read_then(r, from, rule);
}

static int
read_rules(struct cf_script *script, json_t *rules, struct cf_error *err)
{
    struct reader r = {.script = script, .err = err};
    size_t count = json_array_size(rules);
    json_t *rule;

    if (!json_is_array(rules) || count > CF_SCRIPT_RULES) {
        (void)cf_error_set(err, CF_ERROR_CONFIG, 0,
                           "model script: rules is not an array of at most %u",
                           CF_SCRIPT_RULES);
        return cf_error_fix(err, "write {\"rules\": [{\"say\": [{\"text\": \"...\"}]}]}");
    }
    script->rules = calloc(count + 1, sizeof *script->rules);
    script->needles = calloc(3 * count + 1, sizeof *script->needles);
    if (script->rules == NULL || script->needles == NULL)
        return cf_error_memory(err);
    json_array_foreach(rules, r.rule, rule) {
        script->rule_count++; /* a half-read one is released, too */
        if (read_rule(&r, rule, &script->rules[r.rule]) < 0)
            return -1;
    }
    return 0;
}

static int
read_script(struct cf_script *script, json_t *document, struct cf_error *err)
{
    const char *otherwise = cf_json_str(document, "otherwise"), *name;
    json_t *value;

    if (!json_is_object(document))
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "model script: not a JSON object");
    json_object_foreach(document, name, value)
        if (strcmp(name, "rules") != 0 && strcmp(name, "otherwise") != 0)
            return cf_error_set(err, CF_ERROR_CONFIG, 0,
                                "model script: it has no member %.60s", name);
    script->refuses = cf_str_same(otherwise, "refuse");
    if (json_object_get(document, "otherwise") != NULL && !script->refuses &&
        !cf_str_same(otherwise, "replay"))
        return cf_error_set(err, CF_ERROR_CONFIG, 0,
                            "model script: otherwise is neither replay nor refuse");
    return read_rules(script, json_object_get(document, "rules"), err);
}

int
cf_script_init(struct cf_script *script, json_t *document, struct cf_error *err)
{
    memset(script, 0, sizeof *script);
    if (document == NULL)
        return 0;
    script->document = json_incref(document);
    if (read_script(script, document, err) == 0)
        return 0;
    cf_script_release(script);
    return -1;
}

void
cf_script_release(struct cf_script *script)
{
    for (size_t i = 0; i < script->rule_count; i++)
        free(script->rules[i].parts);
    free(script->rules);
    free(script->needles);
    json_decref(script->document);
    memset(script, 0, sizeof *script);
}

/* ---- asking -------------------------------------------------------------------------- */

bool
cf_model_matches(const char *pattern, const char *model)
{
    size_t len = strlen(pattern);

    if (len > 0 && pattern[len - 1] == '*')
        return strncmp(pattern, model, len - 1) == 0;
    return strcmp(pattern, model) == 0;
}

static bool
is_either(int wanted, bool is)
{
    return wanted < 0 || wanted == is;
}

static bool
fits(const struct cf_rule *rule, const struct cf_script_call *call)
{
    const struct cf_digest *d = call->digest;

    return (rule->times == 0 || rule->used < rule->times) &&
           (rule->codec == NULL || rule->codec == call->codec) &&
           (rule->model == NULL || cf_model_matches(rule->model, d->model)) &&
           (rule->turn == 0 || rule->turn == call->turn) &&
           (rule->after == CF_ITEM_NONE || rule->after == d->last) &&
           is_either(rule->has_tools, d->has_tools) &&
           is_either(rule->is_streamed, d->is_streamed) &&
           is_either(rule->is_main, call->is_main) &&
           (rule->user < 0 || d->hits[rule->user].user) &&
           (rule->tool_result < 0 || d->hits[rule->tool_result].tool_result) &&
           (rule->anywhere < 0 || d->hits[rule->anywhere].anywhere);
}

struct cf_rule *
cf_script_find(struct cf_script *script, const struct cf_script_call *call)
{
    for (size_t i = 0; i < script->rule_count; i++) {
        if (!fits(&script->rules[i], call))
            continue;
        script->rules[i].used++;
        return &script->rules[i];
    }
    return NULL;
}

void
cf_script_unuse(struct cf_rule *rule)
{
    if (rule->used > 0)
        rule->used--;
}
