/* engine/internal.h: what the files of this room share about an engine and a call. */
#ifndef CF_ENGINE_INTERNAL_H
#define CF_ENGINE_INTERNAL_H

#include "engine/endpoint.h"
#include "engine/engine.h"
#include "loop/http_client.h"
#include "loop/stream.h"

#define CF_API_FLOOR "1.41"
#define CF_API_NEWEST "1.47" /* the newest whose changes are known here */

struct cf_engine_helper; /* a credential helper that runs */

struct cf_engine {
    uv_loop_t *loop;
    const struct cf_log *log;
    struct cf_endpoint endpoint;
    char *config_dir;
    struct cf_http_client *http;
    struct cf_engine_facts facts; /* api_version "" before connect */
    bool is_closing, http_closed;
    int parts_open; /* credential helpers and build contexts with work in the loop */
    struct cf_engine_helper *helpers;
    void (*on_closed)(void *user);
    void *closed_user;
};

/* Frees the engine and reports, once everything it has in the loop is closed. */
void cf_engine_free_if_closed(struct cf_engine *engine);
/* engine/auth.c: ends every helper; each reports CF_ERROR_CANCELED first. */
void cf_engine_helpers_cancel(struct cf_engine *engine);

/* cf_engine_auth_find with the value itself: `auth` (borrowed until return) or NULL. */
typedef void cf_auth_json_fn(void *user, int status, json_t *auth, const struct cf_error *err);
int cf_engine_auth_look_up(struct cf_engine *engine, const char *registry, cf_auth_json_fn *done,
                           void *user, struct cf_error *err);

/* Where requests and attach streams go. */
struct cf_stream_target cf_engine_target(const struct cf_engine *engine);

/* cf_engine_call, and each header of the answer too. */
typedef void cf_engine_header_fn(void *user, const char *name, const char *value);
int cf_engine_call_with_headers(struct cf_engine *engine,
                                const struct cf_engine_request *request,
                                cf_engine_header_fn *on_header, cf_engine_done_fn *done,
                                void *user, struct cf_engine_call **ret_call,
                                struct cf_error *err);

/* Sends `request` to the path in `path`, which is released either way. */
int cf_engine_send(struct cf_engine *engine, struct cf_buf *path,
                   struct cf_engine_request request, cf_engine_done_fn *done, void *user,
                   struct cf_engine_call **ret_call, struct cf_error *err);

/* Fills `err` for an answer that is an error: "engine answered 404 to GET /x: message".
 * Returns -1. */
int cf_engine_refusal(const char *method, const char *path, int http_status, const char *body,
                      size_t len, struct cf_error *err);

#endif
