/* engine/auth.h: credentials out of config.json values, without I/O; this room's own header.
 */
#ifndef CF_ENGINE_AUTH_H
#define CF_ENGINE_AUTH_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>

/* The key docker's files use for a registry: the default one has a historic name. */
const char *cf_auth_server(const char *registry);
/* True when two keys name one registry: scheme and path do not count, nor which of the default
 * registry's names is used. */
bool cf_auth_is_same(const char *key, const char *registry);
/* The credential helper for `registry`: credHelpers over credsStore; NULL without. Borrowed.
 */
const char *cf_auth_helper_name(const json_t *config, const char *registry);
/* What `auths` holds for `registry`, as {"username","password","serveraddress"} or
 * {"identitytoken","serveraddress"}: *ret_auth is a new reference, or NULL when there is none.
 */
CF_CHECKED int cf_auth_from_file(const json_t *config, const char *registry, json_t **ret_auth,
                                 struct cf_error *err);
/* The same from what a helper printed: {"ServerURL","Username","Secret"}. */
CF_CHECKED int cf_auth_from_helper(const char *bytes, size_t len, const char *registry,
                                   json_t **ret_auth, struct cf_error *err);
/* Base64 in the URL-safe alphabet with padding; yours (free), wiped by cf_auth_wipe. */
char *cf_auth_encode(const json_t *value);
void cf_auth_wipe(char *text);

#endif
