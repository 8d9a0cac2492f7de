/* Addresses, headers, and the URLs inside fal_queue's answers. */
#include "relay/upstream.h"

#include "base/str.h"
#include "json/json.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define SECRET_MIN 16 /* a shorter "key" is a local server's word for none, and may stand in any text */

/* ---- addresses ----------------------------------------------------------------------- */

static int
bad_url(const struct cf_relay_upstream *from, const char *what, struct cf_error *err)
{
    (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "upstream %.60s: %.200s %s", from->provider,
                       from->url, what);
    return cf_error_fix(err, "write it as https://HOST[:PORT][/PATH]");
}

/* This machine itself, by an address that cannot mean another. */
static bool
is_loopback(const char *authority)
{
    size_t len = authority[0] == '[' ? strcspn(authority, "]") + 1 : strcspn(authority, ":");

    return (len == 9 && strncasecmp(authority, "localhost", 9) == 0) ||
           (len == 5 && strncmp(authority, "[::1]", 5) == 0) ||
           (strncmp(authority, "127.", 4) == 0 && strspn(authority, "0123456789.") == len);
}

static int
split_url(struct cf_upstream *upstream, const struct cf_relay_upstream *from,
          struct cf_error *err)
{
    const char *url = from->url, *authority, *path;
    bool is_plain = strncasecmp(url, "http://", 7) == 0;
    size_t len;

    if (!is_plain && strncasecmp(url, "https://", 8) != 0)
        return bad_url(from, "is neither https:// nor http://", err);
    authority = url + (is_plain ? 7 : 8);
    path = authority + strcspn(authority, "/?#");
    len = (size_t)(path - authority);
    if (len == 0 || memchr(authority, '@', len) != NULL)
        return bad_url(from, len == 0 ? "names no host" : "holds a user name", err);
    if (strpbrk(path, "?#") != NULL)
        return bad_url(from, "has a query", err);
    for (const char *at = url; *at != '\0'; at++)
        if (*at <= ' ' || *at == 0x7f)
            return bad_url(from, "holds a space or a control character", err);
    if (is_plain && !is_loopback(authority) && (from->key != NULL || !from->may_be_plain))
        return bad_url(from, "would send the key unencrypted", err);
    upstream->origin = strndup(url, (size_t)(path - url));
    len = strlen(path);
    while (len > 0 && path[len - 1] == '/')
        len--;
    upstream->prefix = strndup(path, len);
    return upstream->origin != NULL && upstream->prefix != NULL ? 0 : cf_error_memory(err);
}

static int
check_key(const struct cf_relay_upstream *from, struct cf_error *err)
{
    for (const char *at = from->key; at != NULL && *at != '\0'; at++)
        if (*at <= ' ' || *at == 0x7f)
            return cf_error_set(err, CF_ERROR_CONFIG, 0,
                                "upstream %.60s: its key holds a space or a control character",
                                from->provider);
    return 0;
}

int
cf_upstream_init(struct cf_upstream *upstream, const struct cf_relay_upstream *from,
                 struct cf_error *err)
{
    memset(upstream, 0, sizeof *upstream);
    upstream->dialects = from->dialects;
    if (split_url(upstream, from, err) == 0 && check_key(from, err) == 0 &&
        cf_str_copy(&upstream->provider, from->provider, err) == 0 &&
        cf_str_copy(&upstream->key, from->key, err) == 0 &&
        cf_str_copy(&upstream->ca_file, from->ca_file, err) == 0) {
        upstream->tls.ca_file = upstream->ca_file;
        if (upstream->key != NULL && strlen(upstream->key) >= SECRET_MIN)
            cf_needle_set(&upstream->secret, upstream->key);
        return 0;
    }
    cf_upstream_release(upstream);
    return -1;
}

void
cf_upstream_release(struct cf_upstream *upstream)
{
    if (upstream->key != NULL)
        sodium_memzero(upstream->key, strlen(upstream->key));
    free(upstream->key);
    free(upstream->provider);
    free(upstream->ca_file);
    free(upstream->origin);
    free(upstream->prefix);
    sodium_memzero(upstream, sizeof *upstream); /* the secret, too */
}

char *
cf_upstream_url(const struct cf_upstream *upstream, const char *path, const char *query)
{
    struct cf_buf url = {0};

    if (cf_str_ends(upstream->prefix, "/v1") && cf_str_starts(path, "/v1/"))
        path += 3;
    cf_buf_addf(&url, "%s%s%s%s%s", upstream->origin, upstream->prefix, path,
                query != NULL ? "?" : "", query != NULL ? query : "");
    if (url.failed) {
        cf_buf_release(&url);
        return NULL;
    }
    return cf_buf_take(&url, NULL);
}

/* ---- headers ------------------------------------------------------------------------- */

/* Of one hop only (RFC 9110 section 7.6.1), in either direction. */
static const char *const of_the_hop[] = {
    "connection",         "keep-alive", "proxy-connection",
    "proxy-authenticate", "te",         "trailer",
    "transfer-encoding",  "upgrade",    "http2-settings",
    "content-length",     NULL,
};
/* Credentials, what we say ourselves, and who stands before us. Compression is not asked for:
 * a compressed answer tells nobody its usage. */
static const char *const not_up[] = {
    "authorization",
    "proxy-authorization",
    "x-api-key",
    "api-key",
    "x-goog-api-key",
    "cookie",
    "host",
    "expect",
    "accept-encoding",
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
    "via",
    NULL,
};
static const char *const not_down[] = {
    "set-cookie", "set-cookie2",     "alt-svc",         "strict-transport-security",
    "location",   "public-key-pins", "clear-site-data", NULL,
};

static bool
is_among(const char *name, const char *const *list)
{
    for (; *list != NULL; list++)
        if (strcasecmp(name, *list) == 0)
            return true;
    return false;
}

/* Whether a comma-separated list of names holds this one. */
static bool
is_listed(const char *name, const char *list)
{
    size_t len = strlen(name);

    while (list != NULL && *list != '\0') {
        size_t word;

        list += strspn(list, " \t,");
        word = strcspn(list, " \t,");
        if (word == len && strncasecmp(list, name, len) == 0)
            return true;
        list += word;
    }
    return false;
}

bool
cf_upstream_takes(const char *name, const char *connection)
{
    return !is_among(name, of_the_hop) && !is_among(name, not_up) &&
           !is_listed(name, connection);
}

bool
cf_upstream_gives(const char *name, const char *connection)
{
    return !is_among(name, of_the_hop) && !is_among(name, not_down) &&
           !is_listed(name, connection);
}

bool
cf_upstream_credential(const struct cf_upstream *upstream, const char *dialect,
                       struct cf_buf *line)
{
    if (upstream->key == NULL)
        return false;
    if (strcmp(dialect, "anthropic_messages") == 0)
        return cf_buf_addf(line, "x-api-key: %s", upstream->key) == 0;
    return cf_buf_addf(line, "Authorization: %s %s",
                       strcmp(dialect, "fal_queue") == 0 ? "Key" : "Bearer",
                       upstream->key) == 0;
}

/* ---- URLs inside answers --------------------------------------------------------------- */

/* The path and what follows of a provider's URL, without our prefix. */
static const char *
path_of(const struct cf_upstream *upstream, const char *url)
{
    const char *scheme = strstr(url, "://"), *path;
    size_t prefix = strlen(upstream->prefix);

    if (scheme == NULL)
        return NULL;
    path = scheme + 3 + strcspn(scheme + 3, "/");
    if (prefix > 0 && strncmp(path, upstream->prefix, prefix) == 0 && path[prefix] == '/')
        path += prefix;
    return path;
}

int
cf_upstream_rewrite(const struct cf_upstream *upstream, const char *own, const char *json,
                    size_t len, struct cf_buf *to)
{
    static const char *const names[] = {"response_url", "status_url", "cancel_url"};
    static const struct cf_json_limits limits = {1u << 20, 64, 100000, false, true};
    json_t *object = cf_json_parse(json, len, &limits, NULL);
    int status;

    if (!json_is_object(object)) {
        json_decref(object);
        return -1;
    }
    for (size_t i = 0; i < CF_COUNT(names); i++) {
        const char *url = cf_json_str(object, names[i]);
        const char *path = url != NULL ? path_of(upstream, url) : NULL;

        if (path != NULL)
            (void)json_object_set_new(object, names[i], json_pack("s+", own, path));
    }
    status = cf_json_append(to, object);
    json_decref(object);
    return status;
}
