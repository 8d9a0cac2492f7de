/*
 * Governance is a list read from above to below: the first rule that is broken refuses the
 * call. What can be told from the head is told from the head, before a body is read.
 */
#include "relay/call.h"

#include "base/clock.h"
#include "base/str.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* ---- the head --------------------------------------------------------------------------- */

static bool
judge_token(struct cf_call *call)
{
    int token = cf_route_token(call->http, call->relay->token);

    if (call->relay->is_revoked) {
        cf_call_refuse(call, 401, "lease",
                       "the lease of this run is over; the relay serves it no more");
        return false;
    }
    if (token > 0)
        return true;
    (void)snprintf(
        call->hint, sizeof call->hint, "%s",
        token < 0
            ? "no credential came: send the token in x-api-key or as Authorization: Bearer"
            : "a credential came, but not this run's token: read it from the environment "
              "of this run, keep none of your own");
    cf_call_refuse(call, 401, "token", "%s", call->hint);
    return false;
}

/* A client that takes us for a proxy: its target names a host, and not ours. */
static bool
judge_proxy(struct cf_call *call, const struct cf_http_request *request)
{
    const char *host = cf_http_header(call->http, "Host"), *target = request->target;
    size_t len = host != NULL ? strlen(host) : 0;

    if (target[0] == '/' || strcmp(target, "*") == 0)
        return true;
    if (strncasecmp(target, "http://127.0.0.1", 16) == 0 ||
        (len > 0 && strncasecmp(target, "http://", 7) == 0 &&
         strncasecmp(target + 7, host, len) == 0 && strncmp(host, "127.0.0.1", 9) == 0))
        return true; /* ourselves, in the long form */
    (void)snprintf(call->hint, sizeof call->hint,
                   "this is the model relay, no proxy: take it out of HTTP_PROXY and "
                   "HTTPS_PROXY and use it as the base URL");
    cf_call_refuse(call, 403, "proxy", "%s", call->hint);
    return false;
}

static bool
judge_path(struct cf_call *call)
{
    const struct cf_route *route = &call->route;

    if (route->endpoint == CF_AT_NOTHING) {
        cf_call_refuse(call, 404, "path", "the relay serves no %s%s%s", call->path,
                       call->hint[0] != '\0' ? ": " : "", call->hint);
        return false;
    }
    if (route->dialect != NULL && (call->relay->dialects & route->dialect->id) == 0) {
        (void)snprintf(call->hint, sizeof call->hint,
                       "%s is not among the model wire dialects of this run",
                       route->dialect->name);
        cf_call_refuse(call, 404, "dialect", "%s", call->hint);
        return false;
    }
    if (route->dialect != NULL && call->relay->upstream_count > 0 &&
        cf_forward_upstream(call) == NULL) {
        (void)snprintf(call->hint, sizeof call->hint, "no upstream of this run takes %s",
                       route->dialect->name);
        cf_call_refuse(call, 404, "dialect", "%s", call->hint);
        return false;
    }
    return true;
}

static bool
judge_form(struct cf_call *call, const struct cf_http_request *request)
{
    const char *upgrade = cf_http_header(call->http, "Upgrade");
    const char *coding = cf_http_header(call->http, "Content-Encoding");
    const char *method = call->route.method;

    if (upgrade != NULL && strcasestr(upgrade, "websocket") != NULL) {
        cf_call_refuse(call, 426, "upgrade",
                       "the relay speaks plain HTTP/1.1 only: switch WebSockets off");
        return false;
    }
    if (method != NULL && strcmp(request->method, method) != 0 &&
        !(strcmp(method, "GET") == 0 && strcmp(request->method, "HEAD") == 0)) {
        cf_call_refuse(call, 405, "method", "%s takes %s, not %s", call->path, method,
                       request->method);
        return false;
    }
    if (coding != NULL && strcasecmp(coding, "identity") != 0) {
        cf_call_refuse(call, 415, "encoding", "request bodies must come uncompressed");
        return false;
    }
    if (request->content_length != UINT64_MAX &&
        request->content_length > call->relay->max_body_bytes) {
        cf_call_refuse(call, 413, "too large",
                       "a request body of %" PRIu64 " bytes is over the limit of %" PRIu64,
                       request->content_length, call->relay->max_body_bytes);
        return false;
    }
    return true;
}

/* fal's paths are free, and go upstream as they are: nothing in them may lead elsewhere. A
 * webhook would make the provider call an address that no rule of this run has seen. */
static bool
judge_queue_path(struct cf_call *call)
{
    const char *query = call->query != NULL ? call->query : "";

    if (call->route.codec != &cf_codec_fal_queue || cf_forward_upstream(call) == NULL)
        return true;
    if (strstr(call->target, "/../") != NULL || strstr(call->target, "/./") != NULL ||
        cf_str_ends(call->target, "/..") || cf_str_ends(call->target, "/.") ||
        strchr(call->target, '%') != NULL) {
        cf_call_refuse(call, 404, "path", "%s is no model's path", call->path);
        return false;
    }
    if (cf_str_starts(query, "fal_webhook=") || strstr(query, "&fal_webhook=") != NULL) {
        (void)snprintf(call->hint, sizeof call->hint,
                       "a webhook would reach outside of this run: poll or stream the status");
        cf_call_refuse(call, 400, "path", "%s", call->hint);
        return false;
    }
    return true;
}

/* Refused for good, in the one way that ends the retries of every client that was watched; too
 * many at once is refused until one of them is over. */
static bool
judge_caps(struct cf_call *call, const struct cf_http_request *request)
{
    struct cf_relay *relay = call->relay;
    char hint[CF_GOVERN_HINT] = "";
    int status;

    if (call->route.endpoint != CF_AT_MODEL)
        return true;
    status = cf_govern_begin(&relay->govern, cf_clock_ms() - relay->opened_ms, hint);
    call->is_counted = status == 0;
    if (status == 0 && request->content_length != UINT64_MAX &&
        relay->govern.caps.request_bytes != 0 &&
        relay->govern.request_bytes + request->content_length >
            relay->govern.caps.request_bytes) {
        (void)snprintf(hint, sizeof hint,
                       "this run's budget of %" PRIu64 " request bytes is spent",
                       relay->govern.caps.request_bytes);
        status = 400;
    }
    if (status == 0)
        return true;
    (void)snprintf(call->hint, sizeof call->hint, "%s", hint);
    cf_call_refuse(call, status, "cap", "%s", call->hint);
    return false;
}

/* HEAD / and the like: some clients look whether somebody is there, before they have a key. */
static bool
is_bare_probe(const struct cf_call *call, const struct cf_http_request *request)
{
    bool is_head = strcmp(request->method, "HEAD") == 0;

    if (call->route.endpoint == CF_AT_ROOT)
        return is_head || strcmp(request->method, "GET") == 0;
    /* /api/hello could be a model of fal's, but nobody heads for a model like that */
    return is_head &&
           (call->route.endpoint == CF_AT_NOTHING || call->route.codec == &cf_codec_fal_queue);
}

void
cf_judge_head(struct cf_call *call, const struct cf_http_request *request)
{
    call->row.is_probe = call->route.endpoint != CF_AT_MODEL;
    if (!judge_proxy(call, request))
        return;
    if (!call->relay->is_revoked && is_bare_probe(call, request)) {
        if (call->route.endpoint != CF_AT_ROOT)
            call->route.endpoint = CF_AT_NOTHING;
        call->row.is_probe = true;
        call->hint[0] = '\0';
        return;
    }
    if (call->route.endpoint == CF_AT_ROOT)
        call->route.endpoint =
            CF_AT_NOTHING; /* POST / : a base URL without anything behind it */
    if (judge_token(call) && judge_path(call) && judge_form(call, request) &&
        judge_queue_path(call) && judge_caps(call, request) &&
        cf_forward_upstream(call) != NULL)
        (void)cf_forward_open(call);
}

/* ---- the body ----------------------------------------------------------------------------
 */

static void
copy_name(struct cf_call *call, const char *model)
{
    (void)snprintf(call->model, sizeof call->model, "%s", model); /* cut is wanted */
    cf_utf8_make_line(call->model);
}

static void
read_digest(struct cf_call *call)
{
    const struct cf_digest *digest = &call->digest;
    bool is_queue = call->route.codec == &cf_codec_fal_queue;

    copy_name(call, is_queue ? call->path + (call->path[0] == '/') : digest->model);
    call->row.model_asked = call->row.model_served = call->model;
    call->row.is_streamed = digest->is_streamed && call->route.codec->stream != NULL;
    call->row.nonce_seen = digest->prompt_seen;
    call->row.prior_nonce_seen = digest->prior_seen;
    call->is_main = is_queue ? digest->prompt_in_root : cf_digest_is_main(digest);
}

static bool
judge_model(struct cf_call *call)
{
    char hint[CF_GOVERN_HINT] = "";

    if (cf_govern_allows(&call->relay->govern, call->model, hint))
        return true;
    (void)snprintf(call->hint, sizeof call->hint, "%s", hint);
    cf_call_refuse(call, 400, "model", "%s", call->hint);
    return false;
}

bool
cf_judge_body(struct cf_call *call)
{
    const struct cf_digest *digest = &call->digest;
    bool is_queue = call->route.codec == &cf_codec_fal_queue;

    if (!call->is_body_broken && cf_digest_end(&call->digest, &call->body_error) < 0)
        call->is_body_broken = true;
    if (call->is_body_broken) {
        cf_call_refuse(call, 400, "body", "%s", call->body_error.text);
        return false;
    }
    read_digest(call);
    if (!is_queue && (call->model[0] == '\0' || !digest->has_input)) {
        cf_call_refuse(call, 400, "body", "the request has no \"%s\"",
                       call->model[0] == '\0'                            ? "model"
                       : call->route.codec == &cf_codec_openai_responses ? "input"
                                                                         : "messages");
        return false;
    }
    return judge_model(call);
}
