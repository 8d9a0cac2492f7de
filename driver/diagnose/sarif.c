#include "diagnose/formats.h"

#include <cfrunner/version.h>

#include "base/str.h"
#include "json/json.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define FINDINGS_MOST 200

/* A URI reference: what RFC 3986 leaves alone is kept, the rest in percent; a path from the root is a
 * URI of its own, and one from here begins with a name. */
static json_t *
uri(const char *text)
{
    struct cf_buf made;
    json_t *value;

    cf_buf_init(&made, 0);
    while (cf_str_starts(text, "./"))
        text += 2;
    (void)cf_buf_adds(&made, *text == '/' ? "file://" : "");
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        bool is_plain = c < 0x80 && (isalnum(c) || strchr("-._~/@", c) != NULL);
        (void)cf_buf_addf(&made, is_plain ? "%c" : "%%%02X", c);
    }
    value = json_string(made.data != NULL && !made.failed ? made.data : "image");
    cf_buf_release(&made);
    return value;
}

/* There is no line of a source to point at: the Dockerfile, where there is one, else the image. */
static json_t *
locations(const struct cf_outcome *o, const char *group, const char *id)
{
    char where[200];

    (void)snprintf(where, sizeof where, "%s/%s", group, id);
    return json_pack("[{s:{s:{s:o}, s:{s:i}}, s:[{s:s, s:s}]}]", "physicalLocation", "artifactLocation", "uri",
                     uri(o->place != NULL ? o->place : *o->reference != '\0' ? o->reference : o->name), "region", "startLine", 1,
                     "logicalLocations", "fullyQualifiedName", where, "kind", "function");
}

static json_t *
message(const char *text, const char *fix)
{
    struct cf_buf line;
    json_t *value;

    cf_buf_init(&line, 0);
    (void)cf_buf_adds(&line, text != NULL && *text != '\0' ? text : "no detail");
    if (fix != NULL && *fix != '\0')
        (void)cf_buf_addf(&line, ". Fix: %s", fix);
    value = json_pack("{s:s}", "text", line.data != NULL ? line.data : "no detail");
    cf_buf_release(&line);
    return value;
}

static json_t *
rule(const char *id, const char *says)
{
    return json_pack("{s:s, s:{s:s}, s:{s:s}}", "id", id, "shortDescription", "text", says, "defaultConfiguration", "level",
                     "error");
}

/* The index of rule `id`, made when it is new. */
static size_t
rule_index(json_t *rules, const char *id, const char *says)
{
    json_t *known;
    size_t i;

    json_array_foreach(rules, i, known)
        if (cf_str_same(cf_json_str(known, "id"), id))
            return i;
    (void)json_array_append_new(rules, rule(id, says != NULL ? says : id));
    return json_array_size(rules) - 1;
}

static json_t *
result(const struct cf_outcome *o, json_t *rules, const char *group, const char *id, const char *level, json_t *text,
       json_t *properties)
{
    char print[300];

    (void)snprintf(print, sizeof print, "%s/%s", o->name, id);
    return json_pack("{s:s, s:I, s:s, s:o, s:o, s:{s:s}, s:o}", "ruleId", id, "ruleIndex",
                     (json_int_t)rule_index(rules, id, NULL), "level", level, "message", text,
                     "locations", locations(o, group, id), "partialFingerprints", "check/v1", print, "properties", properties);
}

static void
add_failed(const struct cf_outcome *o, json_t *rules, json_t *list, json_t *check)
{
    const char *id = cf_json_str(check, "id");
    json_t *text = message(cf_json_str(check, "summary"), cf_json_str(check, "fix"));
    json_t *rest = json_pack("{s:s, s:O?}", "blame", o->blame, "evidence", json_object_get(check, "evidence"));

    (void)json_array_append_new(list, result(o, rules, cf_outcome_group(check), id, "error", text, rest));
}

static void
add_finding(const struct cf_outcome *o, json_t *rules, json_t *list, json_t *finding)
{
    const char *id = cf_json_str(finding, "id");
    json_t *text = message(cf_json_str(finding, "text"), NULL);
    json_t *rest = json_pack("{s:I}", "frame", cf_json_int(finding, "frame", 0));

    (void)json_array_append_new(list, result(o, rules, "FINDINGS", id != NULL ? id : "finding", "note", text, rest));
}

static json_t *
results(const struct cf_outcome *o, json_t *rules)
{
    json_t *list = json_array(), *check, *finding;
    size_t i;

    json_array_foreach(o->checks, i, check)
    {
        (void)rule_index(rules, cf_json_str(check, "id"), cf_json_str(check, "rule"));
        if (cf_str_same(cf_json_str(check, "status"), "failed"))
            add_failed(o, rules, list, check);
    }
    json_array_foreach(json_object_get(o->result, "findings"), i, finding)
        if (i < FINDINGS_MOST)
            add_finding(o, rules, list, finding);
    return list;
}

/* A skip is named, and is no alert. */
static json_t *
notifications(const struct cf_outcome *o)
{
    json_t *list = json_array(), *check;
    size_t i;

    json_array_foreach(o->checks, i, check)
    {
        struct cf_buf text;
        if (!cf_str_same(cf_json_str(check, "status"), "skipped"))
            continue;
        cf_buf_init(&text, 0);
        (void)cf_buf_addf(&text, "skipped: %s", cf_json_str(check, "summary"));
        (void)json_array_append_new(list, json_pack("{s:{s:s}, s:s, s:o}", "associatedRule", "id", cf_json_str(check, "id"),
                                                    "level", "note", "message", message(text.data, NULL)));
        cf_buf_release(&text);
    }
    return list;
}

void
cf_format_sarif(struct cf_buf *to, const struct cf_outcome *o)
{
    json_t *rules = json_array(), *list = results(o, rules);
    json_t *document = json_pack(
        "{s:s, s:s, s:[{s:{s:{s:s, s:s, s:o}}, s:{s:s}, s:[{s:b, s:i, s:s, s:o}], s:o, s:{s:s, s:s, s:s, s:s}}]}", "$schema",
        "https://json.schemastore.org/sarif-2.1.0.json", "version", "2.1.0", "runs",
        /* tool */ "tool", "driver", "name", "cfrunner", "semanticVersion", CFRUNNER_VERSION, "rules", rules,
        /* which run of it */ "automationDetails", "id", "cfrunner/",
        /* how it ended */ "invocations", "executionSuccessful", o->exit_code == 0 || o->exit_code == 1, "exitCode",
        o->exit_code, "endTimeUtc", o->made_at, "toolExecutionNotifications", notifications(o), "results", list,
        "properties", "label", "unsigned_local_only", "status", o->status, "blame", o->blame, "digest", o->digest);
    json_t *details = json_object_get(json_array_get(json_object_get(document, "runs"), 0), "automationDetails");
    char id[200];

    (void)snprintf(id, sizeof id, "cfrunner/%s/", o->name);
    (void)json_object_set_new(details, "id", json_string(id));
    if (document == NULL || cf_json_append(to, document) < 0)
        to->failed = true;
    (void)cf_buf_adds(to, "\n");
    json_decref(document);
}
