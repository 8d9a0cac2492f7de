/*
 * The path stat header of the archive API. `mode` is Go's FileMode: the low nine bits are the
 * permissions, the type sits in high bits of its own.
 */
#include "sandbox/pathstat.h"

#include "base/str.h"
#include "json/json.h"

#include <sodium.h>
#include <string.h>

enum { HEADER_MOST = 64 * 1024 };
#define GO_FOLDER (1ll << 31)
#define GO_SYMLINK (1ll << 27)
#define GO_OTHER ((1ll << 26) | (1ll << 25) | (1ll << 24) | (1ll << 21) | (1ll << 19))

static enum cf_path_type
type_of(int64_t mode)
{
    if ((mode & GO_FOLDER) != 0)
        return CF_PATH_FOLDER;
    if ((mode & GO_SYMLINK) != 0)
        return CF_PATH_SYMLINK;
    return (mode & GO_OTHER) != 0 ? CF_PATH_OTHER : CF_PATH_FILE;
}

static json_t *
decode(const char *header, struct cf_error *err)
{
    static const struct cf_json_limits limits = {
        .bytes = HEADER_MOST, .depth = 4, .nodes = 64, .containers_only = true};
    size_t len = strnlen(header, HEADER_MOST), text_len = 0;
    cf_auto_free char *text = malloc(len + 1);

    if (text == NULL) {
        cf_error_memory(err);
        return NULL;
    }
    if (len >= HEADER_MOST ||
        sodium_base642bin((unsigned char *)text, len + 1, header, len, NULL, &text_len, NULL,
                          sodium_base64_VARIANT_ORIGINAL) != 0) {
        cf_error_set(err, CF_ERROR_ENGINE, 0, "the engine's path stat is not base64");
        return NULL;
    }
    return cf_json_parse(text, text_len, &limits, err);
}

int
cf_path_stat_read(const char *header, struct cf_path_stat *ret, struct cf_error *err)
{
    struct cf_path_stat read = {0};

    if (header == NULL)
        return cf_error_set(err, CF_ERROR_ENGINE, 0, "the engine's answer has no path stat");
    json_auto_t *object = decode(header, err);
    if (object == NULL)
        return -1;
    int64_t mode = cf_json_int(object, "mode", -1), size = cf_json_int(object, "size", -1);
    const char *target = cf_json_str(object, "linkTarget");
    if (mode < 0 || size < 0)
        return cf_error_set(err, CF_ERROR_ENGINE, 0,
                            "the engine's path stat has no mode or no size");
    read.type = type_of(mode);
    read.mode = (unsigned)(mode & 0777);
    read.size = (uint64_t)size;
    if (read.type == CF_PATH_SYMLINK) {
        if (target == NULL || target[0] == '\0' || strlen(target) >= sizeof read.target)
            return cf_error_set(err, CF_ERROR_ENGINE, 0,
                                "the engine's path stat has a symlink without a target");
        memcpy(read.target, target, strlen(target) + 1);
    }
    *ret = read;
    return 0;
}

const char *
cf_path_type_name(enum cf_path_type type)
{
    static const char *const names[] = {"a file", "a folder", "a symlink",
                                        "neither a file nor a folder"};

    return (unsigned)type < CF_COUNT(names) ? names[type] : "something unknown";
}
