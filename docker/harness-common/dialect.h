/*
 * harness-common/dialect.h: one conversation in our own plain form, as the request of any of
 * three model dialects, and their answers, whole or streamed, back into one form.
 */
#ifndef HN_DIALECT_H
#define HN_DIALECT_H

#include "base/buf.h"
#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>

enum hn_dialect { HN_OPENAI_CHAT, HN_ANTHROPIC_MESSAGES, HN_OPENAI_RESPONSES };

/* "openai_chat" and so on; -1 for another word. */
int hn_dialect_named(const char *name);
const char *hn_dialect_path(enum hn_dialect dialect); /* "/v1/chat/completions" */

/*
 * What is asked. All borrowed. `messages` is an array of
 *   {"role":"user","text":T}
 *   {"role":"assistant","text":T,"calls":[{"id","name","input":{}}]}    calls may be absent
 *   {"role":"tool","call":ID,"text":T,"failed":BOOL}
 */
struct hn_ask {
    const char *model;
    const char *system;  /* or NULL */
    json_t *messages;
    json_t *tools;       /* [{"name","description","parameters"}] or NULL */
    json_t *schema;      /* the answer must be JSON of this schema; or NULL */
    bool stream;
};

/* The request body. Returned: yours (json_decref). NULL only when out of memory. */
json_t *hn_request_build(enum hn_dialect dialect, const struct hn_ask *ask);

/* Zeroed is an empty answer; release with hn_answer_release. */
struct hn_answer {
    struct cf_buf text, thinking;
    json_t *calls; /* [{"id","name","input":{}}] once the answer has ended; NULL for none */
    json_int_t input_tokens, output_tokens;
    bool has_usage;
    bool has_ended; /* the closing event of the dialect was seen */
    bool is_cut;    /* the model stopped at its token limit */
    bool is_refusal;
    json_t *partial; /* streamed tool calls by index: {"id","name","arguments"} */
};

/* A whole JSON answer. */
int hn_answer_whole(struct hn_answer *answer, enum hn_dialect dialect, const char *bytes,
                    size_t len, struct cf_error *err);

/* The data of one streamed event. Text and thinking are appended as they come. */
int hn_answer_event(struct hn_answer *answer, enum hn_dialect dialect, const char *data,
                    size_t len, struct cf_error *err);

/* After the last event: an answer without its closing event is an error; tool arguments are
 * parsed. */
int hn_answer_end(struct hn_answer *answer, struct cf_error *err);
void hn_answer_release(struct hn_answer *answer);

/* "message" out of any dialect's error body, else the body's first characters, into `out`. */
void hn_refusal_text(const struct cf_buf *body, char *out, size_t size);

#endif
