/* A run's result, asked in the words of the checks. */
#include "diagnose/seen.h"

#include "base/buf.h"
#include "base/str.h"
#include "json/json.h"

#include <stdio.h>
#include <string.h>

json_t *
cf_seen_turn(const struct cf_diagnose_facts *facts, int number)
{
    json_t *turn;
    size_t i;

    json_array_foreach(json_object_get(facts->run, "turns"), i, turn)
    {
        if (cf_json_int(turn, "turn", 0) == number)
            return turn;
    }
    return NULL;
}

/* The first served call of a turn for which `flag` is true; NULL: none. */
json_t *
cf_seen_call(const struct cf_diagnose_facts *facts, int turn, const char *flag)
{
    json_t *call;
    size_t i;

    json_array_foreach(json_object_get(facts->run, "model_calls"), i, call)
    {
        if (cf_json_int(call, "turn", 0) == turn && cf_json_str(call, "refused") == NULL &&
            !cf_json_bool(call, "probe", false) &&
            (flag == NULL || cf_json_bool(call, flag, false)))
            return call;
    }
    return NULL;
}

json_t *
cf_seen_refused(const struct cf_diagnose_facts *facts)
{
    json_t *call;
    size_t i;

    json_array_foreach(json_object_get(facts->run, "model_calls"), i, call)
    {
        if (cf_json_str(call, "refused") != NULL)
            return call;
    }
    return NULL;
}

static bool
is_models_failure(const json_t *call)
{
    return cf_json_str(call, "fault") != NULL || cf_json_int(call, "status", 200) >= 400;
}

/* Whether a served call of turn 1 with the nonce is one that failed, or one that did not. */
static bool
carries(const json_t *call, bool is_failed)
{
    return cf_json_int(call, "turn", 0) == 1 && cf_json_str(call, "refused") == NULL &&
           cf_json_bool(call, "nonce_seen", false) && is_models_failure(call) == is_failed;
}

json_t *
cf_seen_model_failure(const json_t *run)
{
    json_t *calls = json_object_get(run, "model_calls"), *call, *failure = NULL;
    size_t i, failed = 0, whole = 0;

    json_array_foreach(calls, i, call)
    {
        if (carries(call, true) && failed++ == 0)
            failure = call;
    }
    json_array_foreach(calls, i, call)
    {
        if (!carries(call, false))
            continue;
        whole++;
        if (cf_str_same(cf_json_str(call, "model_asked"), cf_json_str(failure, "model_asked")))
            return NULL; /* the same model did answer */
    }
    return failed >= whole ? failure : NULL;
}

const char *
cf_seen_unanswered(const json_t *call, char *text, size_t size)
{
    const char *rule = cf_json_str(call, "rule"), *provider = cf_json_str(call, "provider"),
               *fault = cf_json_str(call, "fault");
    char who[120];

    if (rule != NULL)
        (void)snprintf(who, sizeof who, "rule %s of the model script", rule);
    else
        (void)snprintf(who, sizeof who, "%s", provider != NULL ? provider : "the replay model");
    if (fault != NULL)
        (void)snprintf(text, size, "the call with the nonce got no whole answer: %s broke it off (%s)", who, fault);
    else if (is_models_failure(call))
        (void)snprintf(text, size, "the call with the nonce was answered with an error: %s said %d", who,
                       (int)cf_json_int(call, "status", 0));
    else if (cf_json_bool(call, "aborted", false))
        (void)snprintf(text, size, "the harness closed the connection in the middle of the answer to the call with the nonce");
    else
        (void)snprintf(text, size, "what %s answered to the call with the nonce held no answer nonce", who);
    if (!is_models_failure(call))
        return cf_json_bool(call, "aborted", false) ? "read the whole answer before closing the connection"
                                                    : "put {answer} into what the model says to the main call";
    return rule != NULL ? "nothing to mend in the harness: the model script asks for this"
                        : "look at the provider: model_calls has its status and its fault";
}

/* What the harness's last words say of a client that went past the relay: nothing outside has a name or
 * a way in the sandbox. NULL: nothing of the kind. */
const char *
cf_seen_outside_fix(const struct cf_diagnose_facts *facts)
{
    static const char *const words[] = {"ENOTFOUND", "EAI_AGAIN", "getaddrinfo", "no such host", "resolve host",
                                        "name resolution", "Name or service not known", "ENETUNREACH",
                                        "Network is unreachable", "ECONNREFUSED", "Connection refused"};
    json_t *turn = cf_seen_turn(facts, 1);
    const char *texts[] = {cf_json_str(cf_json_obj(facts->run, "harness"), "stderr_tail"),
                           cf_json_str(cf_json_obj(turn, "error"), "message")};

    for (size_t t = 0; t < CF_COUNT(texts); t++)
        for (size_t i = 0; texts[t] != NULL && i < CF_COUNT(words); i++)
            if (strcasestr(texts[t], words[i]) != NULL)
                return json_is_object(json_object_get(facts->run, "egress"))
                           ? "its client seems to ignore the base URL, or HTTPS_PROXY: it looked for a host outside by "
                             "itself; give it the variable it reads with --env NAME={relay} or {relay_v1}"
                           : "its client seems to ignore the base URL: it looked for a host outside; give it the variable "
                             "it reads with --env NAME={relay} or {relay_v1} (--allow-host opens another host)";
    return NULL;
}

/* Whether the joined contents of a turn's agent messages carry `nonce`. */
bool
cf_seen_said(const struct cf_diagnose_facts *facts, int kind, const char *nonce)
{
    struct cf_buf text;
    json_t *part;
    size_t i;
    bool found;

    if (nonce == NULL)
        return false;
    cf_buf_init(&text, 64u << 20);
    json_array_foreach(facts->messages[kind], i, part)
    {
        (void)cf_buf_add(&text, json_string_value(part), json_string_length(part));
    }
    found = text.len > 0 && memmem(text.data, text.len, nonce, strlen(nonce)) != NULL;
    cf_buf_release(&text);
    return found;
}
