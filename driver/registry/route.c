/* Paths of the OCI distribution API, and the grammar of their parts. */
#include "registry/impl.h"

#include "base/str.h"

#include <string.h>

bool
cf_registry_is_digest(const char *text)
{
    return cf_str_starts(text, "sha256:") && strlen(text) == 71 && cf_is_hex(text + 7, 64);
}

static bool
is_word(char ch)
{
    return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') ||
           ch == '_';
}

bool
cf_registry_is_tag(const char *text)
{
    size_t len = strlen(text);

    if (len == 0 || len > CF_REGISTRY_TAG || !is_word(text[0]))
        return false;
    for (size_t i = 1; i < len; i++)
        if (!is_word(text[i]) && text[i] != '.' && text[i] != '-')
            return false;
    return true;
}

/* Lower-case words joined by . _ - and /; never two slashes, never a separator at an end. */
static bool
is_name(const char *text, size_t len)
{
    bool was_separator = true;

    if (len == 0 || len > CF_REGISTRY_NAME)
        return false;
    for (size_t i = 0; i < len; i++) {
        bool is_plain =
            (text[i] >= 'a' && text[i] <= 'z') || (text[i] >= '0' && text[i] <= '9');
        bool is_joint = text[i] == '.' || text[i] == '_' || text[i] == '-';
        if (!is_plain && !is_joint && text[i] != '/')
            return false;
        if (text[i] == '/' && was_separator)
            return false;
        if (is_joint && (i == 0 || text[i - 1] == '/'))
            return false;
        was_separator = !is_plain;
    }
    return !was_separator;
}

static void
fill(struct cf_registry_path *path, enum cf_registry_route route, const char *name, size_t len,
     const char *last)
{
    if (!is_name(name, len) || strlen(last) > CF_REGISTRY_TAG)
        return;
    memcpy(path->name, name, len);
    path->name[len] = '\0';
    strcpy(path->last, last);
    path->route = route;
}

/* Where the last `word` of a path begins: a name may hold "blobs" itself. */
static const char *
find_last(const char *text, const char *word)
{
    const char *found = NULL, *at = text;

    while ((at = strstr(at, word)) != NULL)
        found = at++;
    return found;
}

static void
read_blob_path(const char *name, const char *blobs, struct cf_registry_path *path)
{
    const char *last = blobs + strlen("/blobs/");
    size_t len = (size_t)(blobs - name);

    if (strcmp(last, "uploads/") == 0 || strcmp(last, "uploads") == 0)
        fill(path, CF_REGISTRY_BEGIN, name, len, "");
    else if (cf_str_starts(last, "uploads/") && strlen(last + 8) == 32 &&
             cf_is_hex(last + 8, 32))
        fill(path, CF_REGISTRY_UPLOAD, name, len, last + 8);
    else if (cf_registry_is_digest(last))
        fill(path, CF_REGISTRY_BLOB, name, len, last);
}

void
cf_registry_path_read(const char *path, struct cf_registry_path *ret_path)
{
    const char *name, *at;

    memset(ret_path, 0, sizeof *ret_path);
    if (strcmp(path, "/v2/") == 0 || strcmp(path, "/v2") == 0) {
        ret_path->route = CF_REGISTRY_BASE;
        return;
    }
    if (!cf_str_starts(path, "/v2/"))
        return;
    name = path + strlen("/v2/");
    if ((at = find_last(name, "/manifests/")) != NULL &&
        (cf_registry_is_digest(at + 11) || cf_registry_is_tag(at + 11)))
        fill(ret_path, CF_REGISTRY_MANIFEST, name, (size_t)(at - name), at + 11);
    else if ((at = find_last(name, "/blobs/")) != NULL)
        read_blob_path(name, at, ret_path);
    else if (cf_str_ends(name, "/tags/list"))
        fill(ret_path, CF_REGISTRY_TAG_LIST, name, strlen(name) - strlen("/tags/list"), "");
}

static int
hex_value(char ch)
{
    return ch >= '0' && ch <= '9'   ? ch - '0'
           : ch >= 'a' && ch <= 'f' ? ch - 'a' + 10
           : ch >= 'A' && ch <= 'F' ? ch - 'A' + 10
                                    : -1;
}

static bool
decode(const char *text, size_t len, char *ret_value, size_t size)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++, n++) {
        char ch = text[i];
        if (ch == '%') {
            int high = i + 2 < len ? hex_value(text[i + 1]) : -1;
            int low = i + 2 < len ? hex_value(text[i + 2]) : -1;
            if (high < 0 || low < 0 || (high | low) == 0)
                return false;
            ch = (char)(high * 16 + low);
            i += 2;
        }
        if (n + 1 >= size)
            return false;
        ret_value[n] = ch;
    }
    ret_value[n] = '\0';
    return true;
}

bool
cf_registry_query(const char *query, const char *name, char *ret_value, size_t size)
{
    size_t name_len = strlen(name);

    while (query != NULL && *query != '\0') {
        size_t len = strcspn(query, "&");
        if (len > name_len && query[name_len] == '=' && strncmp(query, name, name_len) == 0)
            return decode(query + name_len + 1, len - name_len - 1, ret_value, size);
        query += len + (query[len] == '&');
    }
    return false;
}
