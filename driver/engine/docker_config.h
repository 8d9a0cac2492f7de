/* engine/docker_config.h: the client configuration that people share with the docker command:
 * config.json, contexts, TLS folders. This room's own header; reading only. */
#ifndef CF_ENGINE_DOCKER_CONFIG_H
#define CF_ENGINE_DOCKER_CONFIG_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* DIR/config.json as an object; an empty one when there is no file. New reference, or NULL. */
json_t *cf_docker_config_load(const char *dir, struct cf_error *err);

struct cf_docker_context {
    char *host; /* "unix:///...", "tcp://..." */
    bool skip_verify;
    char *tls_dir; /* folder with ca.pem, cert.pem, key.pem of this context (may not exist) */
};
void cf_docker_context_release(struct cf_docker_context *context);

/* The bytes of a context's meta.json. `name` is compared with the one inside. Fills host and
 * skip_verify. */
CF_CHECKED int cf_docker_context_parse(const char *bytes, size_t len, const char *name,
                                       struct cf_docker_context *ret_context,
                                       struct cf_error *err);
/* Finds context `name` under DIR/contexts. */
CF_CHECKED int cf_docker_context_load(const char *dir, const char *name,
                                      struct cf_docker_context *ret_context,
                                      struct cf_error *err);

#endif
