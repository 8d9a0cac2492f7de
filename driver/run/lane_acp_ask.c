/*
 * What the agent asks a person: leave for a tool call, and questions in forms. Policy answers, or
 * the host, or the turn ends with the question and a later prompt brings the answer: then it is said
 * to the agent in words, and given when the agent asks the same again.
 */
#include "run/lane_acp.h"

#include "base/str.h"
#include "json/json.h"

#include <stdlib.h>
#include <string.h>

/* ---- what ended a turn, and what a prompt answers ----------------------------------------- */

static void
hold(struct cf_run *run, const char *kind, const char *id, json_t *params, json_t *action)
{
    json_t *entry = json_pack("{s:s, s:s, s:O}", "kind", kind, "id", id, "params", params);

    if (entry != NULL)
        (void)json_array_append_new(run->side->held, entry);
    if (json_array_size(run->side->held) > CF_ACP_HELD_MOST)
        (void)json_array_remove(run->side->held, 0);
    json_decref(run->held_action);
    run->held_action = action; /* the turn's last word, told when it settles */
    run->cancel_wanted = true;
    cf_hall_kick(run);
}

static json_t *
find_held(const struct cf_run *run, const char *kind, const char *id)
{
    json_t *entry;
    size_t i;

    json_array_foreach(run->side->held, i, entry)
        if (cf_str_same(cf_json_str(entry, "kind"), kind) && cf_str_same(cf_json_str(entry, "id"), id))
            return entry;
    return NULL;
}

static bool
is_same(const json_t *a, const json_t *b, const char *name)
{
    json_t *one = json_object_get(a, name), *two = json_object_get(b, name);

    return one == two || (one != NULL && two != NULL && cf_json_same(one, two));
}

/* The same call again: by its id, or, since a new turn may number anew, by what it would do. */
static bool
is_same_call(const json_t *a, const json_t *b)
{
    if (is_same(a, b, "toolCallId"))
        return true;
    return cf_json_str(a, "title") != NULL && is_same(a, b, "title") && is_same(a, b, "kind") &&
           is_same(a, b, "rawInput");
}

/* Takes what this turn's prompt says about it out of the list: each is given once. New reference. */
static json_t *
take_given(struct cf_run *run, const char *kind, const json_t *params)
{
    json_t *entry;
    size_t i;

    json_array_foreach(run->side->given, i, entry) {
        const json_t *held = json_object_get(entry, "params");
        bool is_it = strcmp(kind, "permission") == 0
                         ? is_same_call(held, params)
                         : is_same(held, params, "message") && is_same(held, params, "requestedSchema");
        if (is_it && cf_str_same(cf_json_str(entry, "kind"), kind)) {
            json_incref(entry);
            (void)json_array_remove(run->side->given, i);
            return entry;
        }
    }
    return NULL;
}

/* ---- a value of a form ------------------------------------------------------------------------ */

static json_t *
form_value(const json_t *property, json_t *value)
{
    const char *type = cf_json_str(property, "type"), *text = json_string_value(value);
    char *end;
    double number;

    if (text == NULL || type == NULL)
        return json_incref(value);
    if (strcmp(type, "boolean") == 0)
        return json_boolean(strcmp(text, "true") == 0);
    if (strcmp(type, "array") == 0)
        return json_pack("[O]", value);
    if (strcmp(type, "number") != 0 && strcmp(type, "integer") != 0)
        return json_incref(value);
    number = strtod(text, &end);
    if (end == text || *end != '\0')
        return json_incref(value);
    return strcmp(type, "integer") == 0 ? json_integer((json_int_t)number) : json_real(number);
}

/* {item id: value} -> {property: value}. An item's id begins with its property's number. */
static json_t *
form_content(const json_t *params, json_t *items)
{
    json_t *properties = cf_json_obj(cf_json_obj(params, "requestedSchema"), "properties"), *property, *value;
    json_t *content = json_object();
    const char *name, *id;
    unsigned long at = 0;

    json_object_foreach(properties, name, property) {
        at++;
        json_object_foreach(items, id, value)
            if (strtoul(id, NULL, 10) == at)
                (void)json_object_set_new(content, name, form_value(property, value));
    }
    return content;
}

/* ---- re-injection ----------------------------------------------------------------------------- */

static int
refuse_entry(const char *list, size_t i, const char *why, struct cf_error *err)
{
    return cf_error_set(err, CF_ERROR_CONFIG, 0, "prompt: %s[%zu] %s", list, i, why);
}

static int
reinject_approval(struct cf_run *run, json_t *approval, size_t i, struct cf_buf *text, struct cf_error *err)
{
    const char *decision = cf_json_str(approval, "decision");
    json_t *held = find_held(run, "permission", cf_json_str(approval, "tool_use_id"));
    const char *title = cf_json_str(cf_json_obj(held, "params"), "title");
    bool is_allowed = cf_str_same(decision, "allow");
    json_t *given;

    if (held == NULL)
        return refuse_entry("approvals", i, "names no tool use that a turn ended with", err);
    if (!is_allowed && !cf_str_same(decision, "deny"))
        return refuse_entry("approvals", i, "decides neither allow nor deny", err);
    given = json_copy(held);
    (void)json_object_set_new(given, "allow", json_boolean(is_allowed));
    (void)json_array_append_new(run->side->given, given);
    (void)cf_buf_addf(text, "%s: the tool call \"%s\" (%s) that you asked leave for.\n",
                      is_allowed ? "Allowed" : "Denied", title != NULL ? title : "",
                      cf_json_str(cf_json_obj(held, "params"), "toolCallId"));
    return 0;
}

static int
reinject_answer(struct cf_run *run, json_t *answer, size_t i, struct cf_buf *text, struct cf_error *err)
{
    json_t *held = find_held(run, "question", cf_json_str(answer, "question"));
    json_t *items = cf_json_obj(answer, "items"), *given, *content;
    const char *message = cf_json_str(cf_json_obj(held, "params"), "message");

    if (held == NULL)
        return refuse_entry("answers", i, "names no question that a turn ended with", err);
    if (items == NULL)
        return refuse_entry("answers", i, "has no items", err);
    content = form_content(cf_json_obj(held, "params"), items);
    given = json_copy(held);
    (void)json_object_set(given, "content", content);
    (void)json_array_append_new(run->side->given, given);
    (void)cf_buf_addf(text, "The answer to your question \"%s\": ", message != NULL ? message : "");
    (void)cf_json_append(text, content);
    (void)cf_buf_adds(text, "\n");
    json_decref(content);
    return 0;
}

int
cf_acp_reinject(struct cf_run *run, char **ret_text, struct cf_error *err)
{
    struct cf_buf text;
    json_t *entry;
    size_t i;
    int status = 0;

    cf_buf_init(&text, 4u << 20);
    (void)json_array_clear(run->side->given);
    json_array_foreach(run->prompt.approvals, i, entry)
        if (status == 0)
            status = reinject_approval(run, entry, i, &text, err);
    json_array_foreach(run->prompt.answers, i, entry)
        if (status == 0)
            status = reinject_answer(run, entry, i, &text, err);
    if (status == 0 && text.failed)
        status = cf_error_set(err, CF_ERROR_TOO_LARGE, 0, "prompt: the answers are over 4 MiB");
    *ret_text = status == 0 && text.len > 0 ? cf_buf_take(&text, NULL) : NULL;
    cf_buf_release(&text);
    return status;
}

/* ---- asking the host ---------------------------------------------------------------------------- */

static void
forget(struct cf_acp_side *side, struct cf_ask *ask)
{
    TAILQ_REMOVE(&side->asks, ask, in_list);
    json_decref(ask->params);
    json_decref(ask->answer);
    free(ask->option);
    free(ask);
}

static struct cf_ask *
add_ask(struct cf_run *run, const void *handle, json_t *params, bool is_question)
{
    struct cf_ask *ask = calloc(1, sizeof *ask);

    if (ask == NULL)
        return NULL;
    ask->number = ++run->side->last_ask;
    ask->handle = handle;
    ask->params = json_incref(params);
    ask->is_question = is_question;
    TAILQ_INSERT_TAIL(&run->side->asks, ask, in_list);
    return ask;
}

static void
tell_host(struct cf_run *run, uint64_t number, json_t *document, bool is_question)
{
    size_t len = 0;
    cf_auto_free char *text = document != NULL ? cf_json_dump(document, &len) : NULL;

    json_decref(document);
    if (text == NULL)
        return;
    if (is_question)
        run->host.on_question(run->host.user, number, text, len);
    else
        run->host.on_permission(run->host.user, number, text, len);
}

/* ---- permissions ------------------------------------------------------------------------------------ */

static void
pick(struct cf_run *run, const struct cf_acp_permission *permission, bool is_allowed)
{
    (void)cf_acp_permission_answer(run->acp, permission->handle, cf_acp_permission_pick(permission, is_allowed));
}

static void
ask_permission(struct cf_run *run, const struct cf_acp_permission *permission, const char *use_id)
{
    json_t *params = json_pack("{s:O, s:O}", "toolCall", permission->tool_call, "options", permission->options);
    struct cf_ask *ask = params != NULL ? add_ask(run, permission->handle, params, false) : NULL;

    json_decref(params);
    if (ask == NULL) {
        pick(run, permission, false);
        return;
    }
    tell_host(run, ask->number,
              json_pack("{s:I, s:s?, s:O, s:O}", "request", (json_int_t)ask->number, "tool_use_id", use_id, "tool_call",
                        permission->tool_call, "options", permission->options),
              false);
}

void
cf_acp_on_permission(struct cf_run *run, const struct cf_acp_permission *permission)
{
    const char *call = cf_json_str(permission->tool_call, "toolCallId"), *use_id;
    json_t *given;

    cf_record_call(run, CF_CALL_PERMISSION, permission->frame, NULL, 0);
    cf_normalizer_permission(run->normalizer, permission->tool_call, permission->frame);
    if (permission->handle == NULL)
        return; /* the turn is canceled; it was answered so */
    use_id = call != NULL ? cf_normalizer_tool_use_id(run->normalizer, call) : NULL;
    given = take_given(run, "permission", permission->tool_call);
    if (given != NULL) {
        pick(run, permission, cf_json_bool(given, "allow", false));
        json_decref(given);
    } else if (run->options.permission == CF_PERMISSION_ASK) {
        ask_permission(run, permission, use_id);
    } else if (run->options.permission == CF_PERMISSION_END && use_id != NULL && run->turn_state == CF_TURN_RUNNING) {
        (void)cf_acp_permission_answer(run->acp, permission->handle, NULL);
        if (run->held_action == NULL)
            hold(run, "permission", use_id, permission->tool_call,
                 json_pack("{s:s, s:s}", "kind", "custom_tool", "tool_use_id", use_id));
    } else {
        pick(run, permission, run->options.permission == CF_PERMISSION_ALLOW);
    }
}

/* ---- questions ------------------------------------------------------------------------------------------ */

static void
answer_question(struct cf_run *run, const void *handle, const char *action, json_t *content)
{
    json_t *result = json_pack("{s:s}", "action", action);

    if (content != NULL)
        (void)json_object_set(result, "content", content);
    (void)cf_acp_answer(run->acp, handle, result);
    json_decref(result);
}

static void
ask_question(struct cf_run *run, const struct cf_acp_request *request)
{
    struct cf_ask *ask = add_ask(run, request->handle, request->params, true);
    json_t *question = cf_normalizer_question(run->normalizer, request->params);

    if (ask == NULL)
        answer_question(run, request->handle, "cancel", NULL);
    else
        tell_host(run, ask->number,
                  json_pack("{s:I, s:O?, s:O}", "request", (json_int_t)ask->number, "question", question, "params",
                            request->params),
                  true);
    json_decref(question);
}

static void
end_with_question(struct cf_run *run, const struct cf_acp_request *request)
{
    json_t *question = cf_normalizer_question(run->normalizer, request->params);

    if (question == NULL) {
        cf_emit_finding(run, "question_declined", request->frame, "a form that the contract's question cannot carry");
        answer_question(run, request->handle, "decline", NULL);
        return;
    }
    answer_question(run, request->handle, "cancel", NULL);
    if (run->held_action == NULL)
        hold(run, "question", cf_json_str(question, "question"), request->params, question);
    else
        json_decref(question);
}

bool
cf_acp_on_elicitation(struct cf_run *run, const struct cf_acp_request *request)
{
    json_t *given;

    if (strcmp(request->method, "elicitation/create") != 0)
        return false;
    given = take_given(run, "question", request->params);
    if (given != NULL)
        answer_question(run, request->handle, "accept", json_object_get(given, "content"));
    else if (run->options.elicitation == CF_ELICITATION_ASK)
        ask_question(run, request);
    else if (run->options.elicitation == CF_ELICITATION_END && run->turn_state == CF_TURN_RUNNING)
        end_with_question(run, request);
    else
        answer_question(run, request->handle, "decline", NULL);
    json_decref(given);
    return true;
}

/* ---- answers of the host's ---------------------------------------------------------------------------------- */

static struct cf_ask *
find_ask(struct cf_run *run, uint64_t number, bool is_question)
{
    struct cf_ask *ask;

    if (run->side == NULL)
        return NULL;
    TAILQ_FOREACH(ask, &run->side->asks, in_list)
        if (ask->number == number && ask->is_question == is_question && !ask->is_decided)
            return ask;
    return NULL;
}

static int
refuse_gone(uint64_t number, struct cf_error *err)
{
    return cf_error_set(err, CF_ERROR_CONFIG, 0, "request %llu is not pending", (unsigned long long)number);
}

int
cf_run_permission_answer(struct cf_run *run, uint64_t request, const char *option_id, struct cf_error *err)
{
    struct cf_ask *ask = find_ask(run, request, false);
    bool is_offered = option_id == NULL;
    json_t *option;
    size_t i;

    if (ask == NULL)
        return refuse_gone(request, err);
    json_array_foreach(cf_json_arr(ask->params, "options"), i, option)
        is_offered |= option_id != NULL && cf_str_same(cf_json_str(option, "optionId"), option_id);
    if (!is_offered)
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "option \"%.100s\" was not offered", option_id);
    if (cf_str_copy(&ask->option, option_id, err) < 0)
        return -1;
    ask->is_decided = true;
    cf_hall_kick(run);
    return 0;
}

static bool
is_question_answer(const json_t *answer)
{
    const char *action = cf_json_str(answer, "action");

    if (cf_str_same(action, "accept"))
        return json_object_get(answer, "content") == NULL || cf_json_obj(answer, "content") != NULL;
    return cf_str_same(action, "decline") || cf_str_same(action, "cancel");
}

int
cf_run_question_answer(struct cf_run *run, uint64_t request, const char *answer_json, size_t len,
                       struct cf_error *err)
{
    static const struct cf_json_limits limits = {4u << 20, 40, 100000, true, true};
    struct cf_ask *ask = find_ask(run, request, true);
    json_t *answer;

    if (ask == NULL)
        return refuse_gone(request, err);
    answer = cf_json_parse(answer_json, len, &limits, err);
    if (answer == NULL)
        return cf_error_wrap(err, "answer");
    if (!is_question_answer(answer)) {
        json_decref(answer);
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "answer: neither accept with content, decline nor cancel");
    }
    ask->answer = answer;
    ask->is_decided = true;
    cf_hall_kick(run);
    return 0;
}

static void
carry_out(struct cf_run *run, struct cf_ask *ask)
{
    const struct cf_acp_permission permission = {.handle = ask->handle,
                                                 .tool_call = cf_json_obj(ask->params, "toolCall"),
                                                 .options = cf_json_arr(ask->params, "options")};

    if (ask->is_question)
        (void)cf_acp_answer(run->acp, ask->handle, ask->answer);
    else if (ask->option == NULL)
        pick(run, &permission, false);
    else
        (void)cf_acp_permission_answer(run->acp, ask->handle, ask->option);
}

void
cf_acp_asks_wishes(struct cf_run *run)
{
    struct cf_ask *ask = TAILQ_FIRST(&run->side->asks), *following;

    for (; ask != NULL; ask = following) {
        following = TAILQ_NEXT(ask, in_list);
        if (!ask->is_decided)
            continue;
        carry_out(run, ask);
        forget(run->side, ask);
    }
}

bool
cf_acp_asks_gone(struct cf_run *run, const void *handle)
{
    struct cf_ask *ask;
    uint64_t number;

    TAILQ_FOREACH(ask, &run->side->asks, in_list)
        if (ask->handle == handle)
            break;
    if (ask == NULL)
        return false;
    number = ask->number;
    forget(run->side, ask);
    if (run->host.on_request_gone != NULL)
        run->host.on_request_gone(run->host.user, number);
    return true;
}

void
cf_acp_asks_free(struct cf_acp_side *side)
{
    while (!TAILQ_EMPTY(&side->asks))
        forget(side, TAILQ_FIRST(&side->asks));
}
