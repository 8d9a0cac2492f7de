/*
 * Image references by the distribution grammar: [domain/]path[:tag][@digest]. The first part
 * is a domain when it holds a dot or a colon, or is "localhost"; without one the name belongs
 * to docker.io. The repository stays as it was written, since that is what the Engine wants.
 */
#include "base/str.h"
#include "engine/engine.h"

#include <stdio.h>
#include <string.h>

static bool
is_lower_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool
is_alnum(char c)
{
    return is_lower_or_digit(c) || (c >= 'A' && c <= 'Z');
}

/* Letters and digits in groups, joined by '.', '_', '__' or any number of '-'. */
static bool
is_path_component(const char *text, size_t len)
{
    size_t at = 0;

    for (;;) {
        size_t begin = at;
        while (at < len && is_lower_or_digit(text[at]))
            at++;
        if (at == begin)
            return false;
        if (at == len)
            return true;
        if (text[at] == '.')
            at++;
        else if (text[at] == '_')
            at += at + 1 < len && text[at + 1] == '_' ? 2 : 1;
        else if (text[at] == '-')
            while (at < len && text[at] == '-')
                at++;
        else
            return false;
    }
}

static bool
is_host(const char *text, size_t len)
{
    size_t at = 0;

    if (len > 2 && text[0] == '[' && text[len - 1] == ']') {
        for (at = 1; at < len - 1; at++)
            if (!is_alnum(text[at]) && text[at] != ':')
                return false;
        return true;
    }
    for (size_t begin = 0; at <= len; at++) {
        if (at < len && text[at] != '.') {
            if (!is_alnum(text[at]) && text[at] != '-')
                return false;
            continue;
        }
        if (at == begin || text[begin] == '-' || text[at - 1] == '-')
            return false;
        begin = at + 1;
    }
    return true;
}

static bool
is_domain(const char *text, size_t len)
{
    size_t host = len;

    for (size_t at = len; at > 0 && text[at - 1] >= '0' && text[at - 1] <= '9'; at--)
        if (at >= 2 && text[at - 2] == ':')
            host = at - 2;
    return host > 0 && is_host(text, host);
}

static bool
is_repo_path(const char *text, size_t len)
{
    const char *end = text + len;

    for (;;) {
        const char *slash = memchr(text, '/', (size_t)(end - text));
        const char *stop = slash != NULL ? slash : end;
        if (!is_path_component(text, (size_t)(stop - text)))
            return false;
        if (slash == NULL)
            return true;
        text = slash + 1;
    }
}

static bool
is_tag(const char *text)
{
    size_t len = strlen(text);

    if (len == 0 || len > 128 || (!is_alnum(text[0]) && text[0] != '_'))
        return false;
    for (size_t i = 1; i < len; i++)
        if (!is_alnum(text[i]) && strchr("_.-", text[i]) == NULL)
            return false;
    return true;
}

static int
bad(const char *text, const char *why, struct cf_error *err)
{
    return cf_error_set(err, CF_ERROR_CONFIG, 0, "\"%.300s\" is not an image reference: %s",
                        text, why);
}

static int
take_digest(const char *text, const char *digest, struct cf_image_ref *ref,
            struct cf_error *err)
{
    if (strncmp(digest, "sha256:", 7) != 0 || strlen(digest) != 71 ||
        !cf_is_hex(digest + 7, 64))
        return bad(text, "its digest is not sha256: and 64 lower-case hex digits", err);
    snprintf(ref->digest, sizeof ref->digest, "%s", digest);
    return 0;
}

/* `name` is [domain/]path, without tag and digest. */
static int
take_name(const char *text, const char *name, struct cf_image_ref *ref, struct cf_error *err)
{
    const char *slash = strchr(name, '/');
    size_t first = slash != NULL ? (size_t)(slash - name) : 0;
    bool has_domain = slash != NULL &&
                      (memchr(name, '.', first) != NULL || memchr(name, ':', first) != NULL ||
                       (first == 9 && strncmp(name, "localhost", 9) == 0));
    const char *path = has_domain ? slash + 1 : name;

    if (strlen(name) > 255)
        return bad(text, "its name is longer than 255 characters", err);
    if (has_domain && !is_domain(name, first))
        return bad(text, "its registry is not HOST[:PORT]", err);
    if (!is_repo_path(path, strlen(path)))
        return bad(
            text, "a repository is lower-case letters and digits, joined by . _ - and /", err);
    snprintf(ref->domain, sizeof ref->domain, "%.*s", has_domain ? (int)first : 9,
             has_domain ? name : "docker.io");
    snprintf(ref->repo, sizeof ref->repo, "%s", name);
    return 0;
}

int
cf_image_ref_parse(const char *text, struct cf_image_ref *ret_ref, struct cf_error *err)
{
    struct cf_image_ref ref = {0};

    if (strlen(text) > 512)
        return bad(text, "it is longer than 512 characters", err);
    cf_auto_free char *name = strdup(text);
    if (name == NULL)
        return cf_error_memory(err);
    char *at = strchr(name, '@');
    if (at != NULL) {
        *at = '\0';
        if (take_digest(text, at + 1, &ref, err) < 0)
            return -1;
    }
    char *slash = strrchr(name, '/');
    char *colon = strchr(slash != NULL ? slash : name, ':');
    if (colon != NULL) {
        *colon = '\0';
        if (!is_tag(colon + 1))
            return bad(text, "its tag is not a word of at most 128 letters, digits, _ . -",
                       err);
        snprintf(ref.tag, sizeof ref.tag, "%s", colon + 1);
    }
    if (take_name(text, name, &ref, err) < 0)
        return -1;
    *ret_ref = ref;
    return 0;
}
