/* harness-common/model.h: where the model is, and one call to it. */
#ifndef HN_MODEL_H
#define HN_MODEL_H

#include "dialect.h"
#include "http.h"
#include "sse.h"

#include <stdint.h>

struct hn_model {
    enum hn_dialect dialect;
    bool stream;
    struct hn_url url;
    const char *token; /* from the environment: lives as long as the process */
    const char *name;
    uint64_t timeout_ms;
    bool asks_once; /* a model that is busy is not asked again */
};

/*
 * Reads the environment: the dialect's base URL (OPENAI_BASE_URL or ANTHROPIC_BASE_URL, else
 * CHECKFU_MODEL_BASE_URL), its key (OPENAI_API_KEY or ANTHROPIC_API_KEY, else
 * CHECKFU_MODEL_TOKEN), CHECKFU_MODEL, and CHECKFU_DEADLINE_MS as the longest a call may take.
 */
int hn_model_from_env(struct hn_model *model, enum hn_dialect dialect, bool stream,
                      struct cf_error *err);

/* New text of the answer as it streams in; borrowed until return. */
typedef void hn_text_fn(void *user, const char *bytes, size_t len);

/* Zeroed is safe to release. Once released, no callback. */
struct hn_call {
    const struct hn_model *model;
    struct hn_http http;
    struct hn_sse sse;
    struct cf_buf whole; /* an answer that is not streamed */
    struct hn_answer answer;
    hn_text_fn *on_text; /* or NULL */
    void *user;
    size_t told;         /* bytes of answer.text already handed out */
    uint64_t deadline_ms;
    bool is_open;
    char *headers, *body;  /* to say it again when the model was busy */
    unsigned tries;
    uint64_t again_ms;     /* when; 0: a call is in flight */
};

/* `call` must stay where it is until released. Errors name the URL that was asked. A model that is
 * busy (429, or 500 and up) is asked again, three times in all, when its Retry-After has passed. */
int hn_call_start(struct hn_call *call, const struct hn_model *model, const struct hn_ask *ask,
                  hn_text_fn *on_text, void *user, struct cf_error *err);

/* After poll said something about call->http.fd, or its deadline passed. 1 when call->answer is
 * whole, 0 to go on, -1 failed. err->code is the HTTP status of a refusal. */
int hn_call_ready(struct hn_call *call, struct cf_error *err);

/* When hn_call_ready is due at the latest, whatever poll says. */
uint64_t hn_call_wake_ms(const struct hn_call *call);

/* The whole call, waiting. */
int hn_call_wait(struct hn_call *call, struct cf_error *err);
void hn_call_release(struct hn_call *call);

#endif
