/*
 * relay/upstream.h: the providers of a run, each with its address and its key, and what of a
 * request and of an answer may pass between a client and a provider.
 */
#ifndef CF_RELAY_UPSTREAM_H
#define CF_RELAY_UPSTREAM_H

#include "base/buf.h"
#include "loop/tls.h"
#include "relay/needle.h"
#include "relay/relay.h"

struct cf_upstream {
    char *provider, *key, *ca_file;
    char *origin; /* "https://api.example.com:8443" */
    char *prefix; /* "/base", without a slash at its end; "" mostly */
    unsigned dialects;
    struct cf_tls tls;
    struct cf_needle secret; /* the key, looked for in answers; empty where it is too short to be one */
};

/* CF_ERROR_CONFIG says what is wrong with the URL. Zeroed is safe to release; the key is
 * wiped. */
CF_CHECKED int cf_upstream_init(struct cf_upstream *upstream,
                                const struct cf_relay_upstream *from, struct cf_error *err);
void cf_upstream_release(struct cf_upstream *upstream);

/* Where a request for `path` goes. A prefix that ends in /v1 and a path that begins with it
 * meet in one /v1. Yours; NULL out of memory. */
char *cf_upstream_url(const struct cf_upstream *upstream, const char *path, const char *query);

/* Whether a request header goes on: neither one of the hop, nor a credential, nor what we say
 * ourselves, nor one that `connection` (the request's own Connection header, or NULL) names.
 */
bool cf_upstream_takes(const char *name, const char *connection);
/* Whether an answer's header goes back to the client. */
bool cf_upstream_gives(const char *name, const char *connection);
/* The credential header of a dialect, "Name: value"; false: no key. Wipe it after use. */
bool cf_upstream_credential(const struct cf_upstream *upstream, const char *dialect,
                            struct cf_buf *line);

/* fal_queue: members of a JSON object that are URLs of the provider (response_url, status_url,
 * cancel_url) are made to lead back to `own` ("http://HOST"), so that no caller goes past the
 * relay. Appends the object; -1: not a JSON object, or too large. */
int cf_upstream_rewrite(const struct cf_upstream *upstream, const char *own, const char *json,
                        size_t len, struct cf_buf *to);

#endif
