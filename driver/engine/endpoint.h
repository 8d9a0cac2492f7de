/* engine/endpoint.h: where the Engine is, and how to speak with it; this room's own header. */
#ifndef CF_ENGINE_ENDPOINT_H
#define CF_ENGINE_ENDPOINT_H

#include "base/error.h"
#include "loop/tls.h"

#include <stdbool.h>

struct cf_endpoint {
    char *url; /* as people write it: "unix:///var/run/docker.sock", "tcp://host:2376" */
    char source[128]; /* "--engine", "DOCKER_HOST", "context NAME", "default" */
    char
        *base_url; /* for libcurl, no slash at its end: "http://docker", "https://host:2376" */
    char *unix_path; /* or NULL */
    char *host;      /* without brackets, or NULL */
    unsigned port;
    bool is_tls, is_local;
    struct cf_tls tls; /* points to the three below */
    char *ca_file, *cert_file, *key_file;
};
void cf_endpoint_release(struct cf_endpoint *endpoint);

/* unix://PATH, tcp://HOST[:PORT]; other schemes are refused by name. Fills all but TLS and
 * source; `is_tls` says which default port is meant. */
CF_CHECKED int cf_endpoint_parse(const char *text, bool is_tls,
                                 struct cf_endpoint *ret_endpoint, struct cf_error *err);

/* Order: `given` (--engine), DOCKER_HOST, DOCKER_CONTEXT, currentContext of config.json,
 * unix:///var/run/docker.sock. `config_dir` may be NULL: DOCKER_CONFIG, else $HOME/.docker.
 * *ret_config_dir is yours. */
CF_CHECKED int cf_endpoint_find(const char *given, const char *config_dir,
                                struct cf_endpoint *ret_endpoint, char **ret_config_dir,
                                struct cf_error *err);

/* Why a connection failed, from what the system says about the socket now: absent, nobody
 * listening, no permission (names the group), not a socket. `os_errno` 0: find out. Returns
 * -1. */
int cf_endpoint_explain(const struct cf_endpoint *endpoint, int os_errno, const char *detail,
                        struct cf_error *err);
/* The same for TLS trouble. */
int cf_endpoint_explain_tls(const struct cf_endpoint *endpoint, const char *detail,
                            struct cf_error *err);

#endif
