/*
 * Credentials as docker keeps them. `auths` holds base64("user:password"), perhaps with an
 * identity token beside it, which is preferred; a helper names an identity token by the user
 * name "<token>". No value from here is ever logged.
 */
#include "engine/auth.h"
#include "base/str.h"
#include "engine/engine.h"
#include "json/json.h"

#include <sodium.h>
#include <string.h>
#include <strings.h>

#define DEFAULT_SERVER "https://index.docker.io/v1/"
#define AUTH_LIMIT_BYTES 65536u

const char *
cf_auth_server(const char *registry)
{
    return strcmp(registry, "docker.io") == 0 ? DEFAULT_SERVER : registry;
}

/* Where the host begins and how long it is. */
static const char *
host_of(const char *key, size_t *ret_len)
{
    const char *scheme = strstr(key, "://");

    if (scheme != NULL)
        key = scheme + 3;
    *ret_len = strcspn(key, "/");
    return key;
}

static bool
is_default(const char *host, size_t len)
{
    static const char *const names[] = {"docker.io", "index.docker.io",
                                        "registry-1.docker.io"};

    for (size_t i = 0; i < CF_COUNT(names); i++)
        if (strlen(names[i]) == len && strncasecmp(names[i], host, len) == 0)
            return true;
    return false;
}

bool
cf_auth_is_same(const char *key, const char *registry)
{
    size_t a_len, b_len;
    const char *a = host_of(key, &a_len), *b = host_of(registry, &b_len);

    if (a_len == b_len && strncasecmp(a, b, a_len) == 0)
        return true;
    return is_default(a, a_len) && is_default(b, b_len);
}

static json_t *
find_member(const json_t *object, const char *registry)
{
    json_t *exact = json_object_get(object, cf_auth_server(registry));
    const char *key;
    json_t *value;

    if (exact != NULL)
        return exact;
    json_object_foreach((json_t *)object, key, value)
        if (cf_auth_is_same(key, registry))
            return value;
    return NULL;
}

const char *
cf_auth_helper_name(const json_t *config, const char *registry)
{
    const char *name =
        json_string_value(find_member(cf_json_obj(config, "credHelpers"), registry));

    if (name == NULL || name[0] == '\0')
        name = cf_json_str(config, "credsStore");
    return name != NULL && name[0] != '\0' ? name : NULL;
}

static json_t *
make_auth(const char *user, const char *secret, bool is_token, const char *registry)
{
    const char *server = cf_auth_server(registry);

    return is_token ? json_pack("{s:s, s:s}", "identitytoken", secret, "serveraddress", server)
                    : json_pack("{s:s, s:s, s:s}", "username", user, "password", secret,
                                "serveraddress", server);
}

/* "user:password" out of base64 (with or without padding); yours, or NULL. */
static char *
decode_pair(const char *text)
{
    size_t size = strlen(text) / 4 * 3 + 4, len = 0;
    char *pair = malloc(size);
    const char *end = NULL;

    if (pair == NULL)
        return NULL;
    if (sodium_base642bin((unsigned char *)pair, size - 1, text, strlen(text), "\r\n =", &len,
                          &end, sodium_base64_VARIANT_ORIGINAL_NO_PADDING) != 0 ||
        *end != '\0' || memchr(pair, '\0', len) != NULL) {
        free(pair);
        return NULL;
    }
    pair[len] = '\0';
    return pair;
}

static int
from_pair(const json_t *entry, const char *encoded, const char *registry, json_t **ret_auth,
          struct cf_error *err)
{
    char *pair = decode_pair(encoded);
    char *colon = pair != NULL ? strchr(pair, ':') : NULL;

    if (colon == NULL) {
        cf_auth_wipe(pair);
        return cf_error_set(err, CF_ERROR_CONFIG, 0,
                            "config.json: auths entry for %s is not base64 of USER:PASSWORD",
                            registry);
    }
    *colon = '\0';
    *ret_auth = make_auth(pair, colon + 1, false, registry);
    cf_auth_wipe(pair);
    if (*ret_auth == NULL)
        return cf_error_set(err, CF_ERROR_CONFIG, 0,
                            "config.json: auths entry for %s is not UTF-8", registry);
    return 0;
}

int
cf_auth_from_file(const json_t *config, const char *registry, json_t **ret_auth,
                  struct cf_error *err)
{
    const json_t *entry = find_member(cf_json_obj(config, "auths"), registry);
    const char *token = cf_json_str(entry, "identitytoken"),
               *encoded = cf_json_str(entry, "auth");
    const char *user = cf_json_str(entry, "username"),
               *password = cf_json_str(entry, "password");

    *ret_auth = NULL;
    if (token != NULL && token[0] != '\0')
        *ret_auth = make_auth(NULL, token, true, registry);
    else if (encoded != NULL && encoded[0] != '\0')
        return from_pair(entry, encoded, registry, ret_auth, err);
    else if (user != NULL && user[0] != '\0' && password != NULL)
        *ret_auth = make_auth(user, password, false, registry);
    return 0;
}

int
cf_auth_from_helper(const char *bytes, size_t len, const char *registry, json_t **ret_auth,
                    struct cf_error *err)
{
    const struct cf_json_limits limits = {.bytes = AUTH_LIMIT_BYTES, .depth = 8, .nodes = 100};
    json_t *answer = cf_json_parse(bytes, len, &limits, err);
    const char *user = cf_json_str(answer, "Username"),
               *secret = cf_json_str(answer, "Secret");

    *ret_auth = NULL;
    if (answer == NULL) /* the parser's own words quote positions only, never the text */
        return -1;
    if (user != NULL && secret != NULL)
        *ret_auth = make_auth(user, secret, strcmp(user, "<token>") == 0, registry);
    json_decref(answer);
    return *ret_auth != NULL
               ? 0
               : cf_error_set(err, CF_ERROR_CONFIG, 0, "it printed no Username and Secret");
}

void
cf_auth_wipe(char *text)
{
    if (text == NULL)
        return;
    sodium_memzero(text, strlen(text));
    free(text);
}

char *
cf_auth_encode(const json_t *value)
{
    size_t len = 0;
    char *text = cf_json_dump(value, &len);

    if (text == NULL)
        return NULL;
    size_t size = sodium_base64_encoded_len(len, sodium_base64_VARIANT_URLSAFE);
    char *encoded = malloc(size);
    if (encoded != NULL)
        sodium_bin2base64(encoded, size, (const unsigned char *)text, len,
                          sodium_base64_VARIANT_URLSAFE);
    cf_auth_wipe(text);
    return encoded;
}

char *
cf_engine_auth_basic(const char *user, const char *password, const char *registry)
{
    json_t *auth = make_auth(user, password, false, registry);
    char *encoded = auth != NULL ? cf_auth_encode(auth) : NULL;

    json_decref(auth);
    return encoded;
}
