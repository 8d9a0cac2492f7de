/*
 * The environment of what is spawned: the image's own, without the proxies its author may have
 * baked in (there is no network they could reach), and over it what the driver asks for.
 */
#include "init/init.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool
is_proxy(const char *setting)
{
    static const char *const names[] = {"http_proxy", "https_proxy", "all_proxy",
                                        "ftp_proxy",  "socks_proxy", "no_proxy"};
    size_t len = strcspn(setting, "=");

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i]) == len && strncasecmp(setting, names[i], len) == 0)
            return true;
    return false;
}

static bool
is_same_name(const char *a, const char *b)
{
    size_t len = strcspn(a, "=");

    return strcspn(b, "=") == len && strncmp(a, b, len) == 0;
}

/* One block: the pointers, then the strings they point to. */

static char **
copy_strings(const char *const *from, size_t count)
{
    size_t bytes = 0;
    char **list, *at;

    for (size_t i = 0; i < count; i++)
        bytes += strlen(from[i]) + 1;
    list = malloc((count + 1) * sizeof *list + bytes);
    if (list == NULL)
        return NULL;
    at = (char *)(list + count + 1);
    for (size_t i = 0; i < count; i++) {
        list[i] = at;
        at = stpcpy(at, from[i]) + 1;
    }
    list[count] = NULL;
    return list;
}

static void
put(const char **list, size_t *count, const char *setting)
{
    for (size_t i = 0; i < *count; i++) {
        if (is_same_name(list[i], setting)) {
            list[i] = setting;
            return;
        }
    }
    list[(*count)++] = setting;
}

char **
cf_strings_from(json_t *array, size_t most)
{
    size_t count = json_array_size(array);
    const char **list = calloc(count + 1, sizeof *list);
    char **copy = NULL;
    bool is_right = json_is_array(array) && list != NULL && (most == 0 || count <= most);

    for (size_t i = 0; is_right && i < count; i++) {
        list[i] = json_string_value(json_array_get(array, i));
        is_right = list[i] != NULL;
    }
    if (is_right)
        copy = copy_strings(list, count);
    free(list);
    return copy;
}

char **
cf_env_make(char *const *own, json_t *extra)
{
    size_t count = 0, most = json_array_size(extra) + 3;
    const char **list, *setting;
    char **copy = NULL;

    for (size_t i = 0; own[i] != NULL; i++)
        most++;
    list = calloc(most, sizeof *list);
    if (list == NULL || (extra != NULL && !json_is_array(extra)))
        goto out;
    for (size_t i = 0; own[i] != NULL; i++)
        if (!is_proxy(own[i]))
            put(list, &count, own[i]);
    put(list, &count, "NO_PROXY=127.0.0.1,localhost");
    put(list, &count, "no_proxy=127.0.0.1,localhost");
    for (size_t i = 0; i < json_array_size(extra); i++) {
        setting = json_string_value(json_array_get(extra, i));
        if (setting == NULL || strchr(setting, '=') == NULL)
            goto out;
        put(list, &count, setting);
    }
    copy = copy_strings(list, count);
out:
    free(list);
    return copy;
}
