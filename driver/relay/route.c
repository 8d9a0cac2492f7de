/* Paths of the dialects, and the ways in which a base URL is usually wrong. */
#include "relay/route.h"

#include "base/str.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool
has_model_id(const struct cf_relay_dialect *dialect)
{
    return strchr(dialect->path, '{') != NULL;
}

/* ---- fal's paths: the only ones that are not fixed ----------------------------------- */

bool
cf_route_queue(const char *path, const char **ret_id, size_t *ret_id_len,
               const char **ret_action)
{
    const char *requests = strstr(path, "/requests/");
    const char *id, *end;

    if (requests == NULL || requests == path)
        return false;
    id = requests + strlen("/requests/");
    end = strchr(id, '/');
    if (end == NULL)
        end = id + strlen(id);
    if (end == id)
        return false;
    *ret_id = id;
    *ret_id_len = (size_t)(end - id);
    *ret_action = end;
    return true;
}

/* /owner/alias with more segments allowed, none empty; /v1 is nobody's name. */
static bool
is_model_id(const char *path)
{
    unsigned segments = 0;

    if (cf_str_starts(path, "/v1/"))
        return false;
    for (const char *at = path; *at == '/'; segments++) {
        size_t len = strcspn(at + 1, "/");
        if (len == 0)
            return false;
        at += 1 + len;
    }
    return segments >= 2;
}

static bool
find_queue(const struct cf_relay_dialect *dialect, const char *path, struct cf_route *route)
{
    const char *id, *action;
    size_t len;

    if (!is_model_id(path))
        return false;
    route->dialect = dialect;
    route->endpoint = cf_route_queue(path, &id, &len, &action) ? CF_AT_QUEUE : CF_AT_MODEL;
    route->method = route->endpoint == CF_AT_MODEL ? "POST" : NULL;
    return true;
}

/* ---- base URLs that are one level off ------------------------------------------------ */

static void
explain(const struct cf_relay_dialect *dialect, const char *path, char hint[CF_ROUTE_HINT])
{
    const char *variable = dialect->variable != NULL ? dialect->variable : "the base URL";
    const char *tail =
        cf_str_starts(dialect->path, "/v1/") ? dialect->path + 3 : dialect->path;

    if (strcmp(path, tail) == 0)
        (void)snprintf(hint, CF_ROUTE_HINT,
                       "%s should end in /v1 for this client: it adds only %s to it", variable,
                       tail);
    else if (cf_str_starts(path, "/v1/v1/"))
        (void)snprintf(hint, CF_ROUTE_HINT,
                       "%s should not end in /v1 for this client: it adds %s itself", variable,
                       dialect->path);
    else if (cf_str_starts(path, "//"))
        (void)snprintf(hint, CF_ROUTE_HINT, "%s should not end in a slash for this client",
                       variable);
    else
        (void)snprintf(hint, CF_ROUTE_HINT,
                       "%s has too much in its path: the relay serves %s itself", variable,
                       dialect->path);
}

/* The dialect whose path, or path without /v1, ends this one. */
static const struct cf_relay_dialect *
nearest(const struct cf_relay_dialect *table, unsigned count, const char *path)
{
    for (unsigned i = 0; i < count; i++) {
        const char *tail =
            cf_str_starts(table[i].path, "/v1/") ? table[i].path + 3 : table[i].path;
        if (!has_model_id(&table[i]) && cf_str_ends(path, tail))
            return &table[i];
    }
    return NULL;
}

/* ---- the public ones ----------------------------------------------------------------- */

static bool
find_fixed(const struct cf_relay_dialect *dialect, const char *path, struct cf_route *route)
{
    size_t len = strlen(dialect->path);

    if (strncmp(path, dialect->path, len) != 0)
        return false;
    if (path[len] == '\0')
        route->endpoint = CF_AT_MODEL;
    else if (strcmp(dialect->name, "anthropic_messages") == 0 &&
             strcmp(path + len, "/count_tokens") == 0)
        route->endpoint = CF_AT_COUNT_TOKENS;
    else
        return false;
    route->dialect = dialect;
    route->method = "POST";
    return true;
}

static void
find_endpoint(const struct cf_relay_dialect *table, unsigned count, unsigned served,
              const char *path, struct cf_route *route, char hint[CF_ROUTE_HINT])
{
    if (strcmp(path, "/") == 0 || path[0] == '\0') {
        route->endpoint = CF_AT_ROOT;
        return;
    }
    if (strcmp(path, "/v1/models") == 0 || cf_str_starts(path, "/v1/models/")) {
        route->endpoint = CF_AT_MODELS;
        route->method = "GET";
        return;
    }
    for (unsigned i = 0; i < count; i++)
        if (!has_model_id(&table[i]) && find_fixed(&table[i], path, route))
            return;
    route->dialect = nearest(table, count, path);
    if (route->dialect != NULL) {
        explain(route->dialect, path, hint);
        return;
    }
    for (unsigned i = 0; i < count; i++)
        if (has_model_id(&table[i]) && (table[i].id & served) != 0 &&
            find_queue(&table[i], path, route))
            return;
}

void
cf_route_find(const struct cf_relay_dialect *table, unsigned count, unsigned served,
              const char *path, struct cf_route *ret_route, char hint[CF_ROUTE_HINT])
{
    const struct cf_codec *codec = NULL;

    memset(ret_route, 0, sizeof *ret_route);
    hint[0] = '\0';
    find_endpoint(table, count, served, path, ret_route, hint);
    if (ret_route->dialect != NULL)
        codec = cf_codec_find(ret_route->dialect->name);
    ret_route->codec = codec != NULL ? codec : &cf_codec_unknown;
}

static bool
is_token(const char *text, const char *token)
{
    size_t len = strlen(token);

    return strlen(text) == len && sodium_memcmp(text, token, len) == 0;
}

int
cf_route_token(const struct cf_http_conn *conn, const char *token)
{
    const char *authorization = cf_http_header(conn, "Authorization");
    const char *key = cf_http_header(conn, "x-api-key");
    bool is_right = key != NULL && is_token(key, token);

    if (authorization != NULL) {
        size_t scheme = strcspn(authorization, " ");
        bool is_known = (scheme == 6 && strncasecmp(authorization, "Bearer", 6) == 0) ||
                        (scheme == 3 && strncasecmp(authorization, "Key", 3) == 0);
        const char *value = authorization + scheme;
        value += strspn(value, " ");
        is_right = (is_known && is_token(value, token)) || is_right;
    }
    return is_right ? 1 : authorization == NULL && key == NULL ? -1 : 0;
}
