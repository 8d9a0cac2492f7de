/* watch.h: a normalizer and a grammar side by side; each observation is checked against the closed
 * schema and written down as one line: "agent_message@7 {payload}". */
#ifndef CF_TESTS_OBSERVE_WATCH_H
#define CF_TESTS_OBSERVE_WATCH_H

#include "base/buf.h"
#include "base/str.h"
#include "json/json.h"
#include "observe/observe.h"
#include "schema/schema.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct watch {
    struct cf_normalizer *n;
    struct cf_grammar *g;
    struct cf_schema *schema;
    struct cf_buf log, findings;
    struct cf_buf raw;    /* the observations as they are, a line each */
    uint64_t seq, frame;
    size_t longest;       /* text of an observation, in bytes */
    json_t *checkpoint;   /* the last one */
    bool is_quiet;        /* nothing is written down */
    char minted[8][48];   /* subg_ ids met, written as SUB1, SUB2 ... */
    unsigned minted_count;
};

/* Ids are minted at random: the log names them in the order they appear. */
static inline void
log_line(struct watch *w, const struct cf_observation *o)
{
    cf_auto_free char *json = strndup(o->json, o->json_len);
    char *at = json;

    while ((at = strstr(at, "subg_")) != NULL && strlen(at) >= 37) {
        unsigned i = 0;
        while (i < w->minted_count && strncmp(w->minted[i], at, 37) != 0)
            i++;
        if (i == w->minted_count && i < 8)
            memcpy(w->minted[w->minted_count++], at, 37);
        char name[8];
        snprintf(name, sizeof name, "SUB%u", i + 1);
        memmove(at + 4, at + 37, strlen(at + 37) + 1);
        memcpy(at, name, 4);
    }
    char *payload = strstr(json, ",\"payload\":");
    json[strlen(json) - 1] = '\0';
    cf_buf_addf(&w->log, "%s@%d %s\n", cf_observation_type_name(o->type) + 12, (int)o->frame, payload + 11);
}

static inline void
watch_observation(void *user, const struct cf_observation *said)
{
    struct watch *w = user;
    struct cf_observation o = *said;
    struct cf_error err = {0};

    o.seq = ++w->seq;
    ck_assert_uint_eq(o.size, sizeof o);
    json_t *tree = cf_json_parse(o.json, o.json_len, NULL, &err);
    ck_assert_msg(tree != NULL, "%.*s: %s", (int)(o.json_len < 400 ? o.json_len : 400), o.json, err.text);
    ck_assert_str_eq(cf_json_str(tree, "type"), cf_observation_type_name(o.type));
    if (w->schema != NULL)
        ck_assert_msg(cf_schema_validate(w->schema, tree, NULL, &err) == 0, "%.*s: %s",
                      (int)(o.json_len < 400 ? o.json_len : 400), o.json, err.text);
    json_decref(tree);
    if (o.text_len > w->longest)
        w->longest = o.text_len;
    if (!w->is_quiet) {
        log_line(w, &o);
        cf_buf_add(&w->raw, o.json, o.json_len);
        cf_buf_adds(&w->raw, "\n");
    }
    (void)cf_grammar_feed(w->g, &o);
}

static inline void
watch_finding(void *user, const char *id, uint64_t frame, const char *text)
{
    struct watch *w = user;

    cf_buf_addf(&w->findings, "%s@%d\n", id, (int)frame);
}

static inline void
watch_checkpoint(void *user, json_t *checkpoint, uint64_t frame)
{
    struct watch *w = user;

    json_decref(w->checkpoint);
    w->checkpoint = json_incref(checkpoint);
    cf_buf_addf(&w->findings, "checkpoint %s@%d\n", checkpoint ? cf_json_str(checkpoint, "state") : "dropped", (int)frame);
}

static inline void
watch_open(struct watch *w, bool is_acp)
{
    struct cf_normalizer_options options = {.is_acp = is_acp, .on_observation = watch_observation,
                                            .on_finding = watch_finding, .on_checkpoint = watch_checkpoint, .user = w};
    struct cf_error err = {0};

    memset(w, 0, sizeof *w);
    w->n = cf_normalizer_new(&options);
    w->g = cf_grammar_new(is_acp);
    ck_assert(w->n != NULL && w->g != NULL);
    ck_assert_msg(cf_schema_builtin("observation", &w->schema, &err) == 0, "%s", err.text);
}

static inline void
watch_close(struct watch *w)
{
    ck_assert(!cf_normalizer_is_lost(w->n));
    cf_normalizer_free(w->n);
    cf_grammar_free(w->g);
    cf_schema_free(w->schema);
    json_decref(w->checkpoint);
    cf_buf_release(&w->log);
    cf_buf_release(&w->findings);
    cf_buf_release(&w->raw);
}

static inline void
watch_ready(struct watch *w, const struct cf_declaration *declaration)
{
    json_t *envelope = cf_envelope_acp(false), *set = cf_declaration_admit(envelope, declaration);

    cf_normalizer_declare(w->n, declaration);
    cf_grammar_declare(w->g, declaration);
    cf_normalizer_ready(w->n, set, ++w->frame);
    json_decref(set);
    json_decref(envelope);
}

static inline void
watch_turn(struct watch *w)
{
    cf_normalizer_turn_begin(w->n);
    cf_grammar_turn_begin(w->g);
}

/* Ready and in the first turn, with an empty log. */
static inline void
watch_open_in_turn(struct watch *w, const struct cf_declaration *declaration)
{
    watch_open(w, true);
    watch_ready(w, declaration);
    watch_turn(w);
    cf_buf_reset(&w->log);
}

static inline json_t *
js(const char *text)
{
    struct cf_error err = {0};
    json_t *value = cf_json_parse(text, strlen(text), NULL, &err);

    ck_assert_msg(value != NULL, "%s: %s", text, err.text);
    return value;
}

/* One session/update by the text of its update object. */
static inline void
update(struct watch *w, const char *text)
{
    json_t *params = json_pack("{s:s,s:o}", "sessionId", "s", "update", js(text));

    cf_normalizer_update(w->n, params, json_object_get(params, "update"), ++w->frame);
    json_decref(params);
}

#define SAY(text) "{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"" text "\"}}"
#define SAY_ID(id, text) "{\"sessionUpdate\":\"agent_message_chunk\",\"messageId\":\"" id "\",\"content\":{\"type\":\"text\",\"text\":\"" text "\"}}"
#define THINK(text) "{\"sessionUpdate\":\"agent_thought_chunk\",\"content\":{\"type\":\"text\",\"text\":\"" text "\"}}"
#define CALL(id, more) "{\"sessionUpdate\":\"tool_call\",\"toolCallId\":\"" id "\"," more "}"
#define MORE(id, more) "{\"sessionUpdate\":\"tool_call_update\",\"toolCallId\":\"" id "\"," more "}"

static inline void
finish(struct watch *w, const char *reason)
{
    cf_normalizer_finished(w->n, reason, NULL, ++w->frame);
    cf_grammar_turn_end(w->g);
}

static inline void
expect_at(struct cf_buf *log, const char *expected, int line)
{
    ck_assert_msg(strcmp(log->len ? log->data : "", expected) == 0, "line %d:\n%s", line, log->len ? log->data : "");
    cf_buf_reset(log);
}
#define expect_said(w, expected) expect_at(&(w)->log, expected, __LINE__)
#define expect_found(w, expected) expect_at(&(w)->findings, expected, __LINE__)

static inline void
expect_verdict_at(struct watch *w, enum cf_grammar_check check, enum cf_verdict verdict, const char *words, int line)
{
    struct cf_grammar_result result;

    cf_grammar_result(w->g, check, &result);
    ck_assert_msg(result.verdict == verdict && strstr(result.summary, words) != NULL, "line %d: %s %d: %s", line,
                  result.id, result.verdict, result.summary);
}
#define expect_verdict(w, check, verdict, words) expect_verdict_at(w, CF_GRAMMAR_##check, CF_VERDICT_##verdict, words, __LINE__)

#endif
