/*
 * Manifests: one line of JSON for every entry beneath a folder, made as fast as the driver
 * takes them: {"p":path,"i":inode,"s":size,"m":mtime in ns,"c":ctime in
 * ns,"t":"f|d|l|o","o":st_mode}. A path that is not UTF-8 is repaired in "p" and told exactly,
 * as hex, in "x"; a folder that was not entered says why in "e".
 */
#include "init/init.h"

#include "base/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct manifest {
    json_int_t id;
    struct cf_walk *walk;
    struct cf_buf lines; /* made and not yet taken */
    size_t taken;
    uint64_t entries, most;
    bool is_over, was_cut, is_answered;
};

static void
add_json_string(struct cf_buf *to, const char *text)
{
    cf_buf_adds(to, "\"");
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            cf_buf_addf(to, "\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            cf_buf_addf(to, "\\u%04x", (unsigned char)*text);
        else
            cf_buf_add(to, text, 1);
    }
    cf_buf_adds(to, "\"");
}

static void
add_path(struct cf_buf *to, const char *path)
{
    size_t len = strlen(path), repairs = 0, repaired_len;
    cf_auto_free char *repaired = NULL, *hex = NULL;

    if (cf_utf8_is_valid(path, len)) {
        add_json_string(to, path);
        return;
    }
    repaired = malloc(3 * len + 1);
    hex = malloc(2 * len + 1);
    if (repaired == NULL || hex == NULL) {
        to->failed = true;
        return;
    }
    repaired_len = cf_utf8_repair(path, len, repaired, &repairs);
    repaired[repaired_len] = '\0';
    cf_hex(path, len, hex);
    add_json_string(to, repaired);
    cf_buf_addf(to, ",\"x\":\"%s\"", hex);
}

static char
type_letter(mode_t mode)
{
    return S_ISREG(mode) ? 'f' : S_ISDIR(mode) ? 'd' : S_ISLNK(mode) ? 'l' : 'o';
}

static long long
nanoseconds(const struct timespec *time)
{
    return (long long)time->tv_sec * 1000000000 + time->tv_nsec;
}

static void
add_line(struct cf_buf *to, const struct cf_walk_entry *entry)
{
    cf_buf_adds(to, "{\"p\":");
    add_path(to, entry->path);
    cf_buf_addf(to, ",\"i\":%llu,\"s\":%lld,\"m\":%lld,\"c\":%lld,\"t\":\"%c\",\"o\":%u",
                (unsigned long long)entry->info.st_ino, (long long)entry->info.st_size,
                nanoseconds(&entry->info.st_mtim), nanoseconds(&entry->info.st_ctim),
                type_letter(entry->info.st_mode), (unsigned)entry->info.st_mode);
    if (entry->error != 0)
        cf_buf_addf(to, ",\"e\":%d", entry->error);
    cf_buf_adds(to, "}\n");
}

static void
make_lines(struct manifest *manifest, size_t enough)
{
    struct cf_walk_entry entry;

    cf_buf_reset(&manifest->lines);
    manifest->taken = 0;
    while (!manifest->is_over && manifest->lines.len < enough && !manifest->lines.failed) {
        if (!cf_walk_next(manifest->walk, &entry)) {
            manifest->is_over = true;
        } else if (manifest->entries == manifest->most) {
            manifest->is_over = manifest->was_cut = true;
        } else {
            add_line(&manifest->lines, &entry);
            manifest->entries++;
        }
    }
}

static ssize_t
fill_from_manifest(struct cf_stream *stream, char *to, size_t len)
{
    struct manifest *manifest = stream->user;
    size_t part;

    if (manifest->taken == manifest->lines.len)
        make_lines(manifest, len);
    if (manifest->lines.failed) {
        errno = ENOMEM;
        return -1;
    }
    part = manifest->lines.len - manifest->taken;
    if (part == 0) {
        manifest->is_answered = true;
        cf_control_answer(stream->init, manifest->id,
                          json_pack("{s:I, s:b, s:b}", "entries",
                                    (json_int_t)manifest->entries, "truncated",
                                    manifest->was_cut || cf_walk_was_cut(manifest->walk),
                                    "over", manifest->was_cut));
        return 0;
    }
    part = part < len ? part : len;
    memcpy(to, manifest->lines.data + manifest->taken, part);
    manifest->taken += part;
    return (ssize_t)part;
}

static void
on_broken(struct cf_stream *stream, int error)
{
    struct manifest *manifest = stream->user;

    if (!manifest->is_answered)
        cf_control_refuse(stream->init, manifest->id, error != 0 ? error : ECANCELED,
                          "manifest: %s", strerror(error != 0 ? error : ECANCELED));
    manifest->is_answered = true;
}

static void
on_free(struct cf_stream *stream)
{
    struct manifest *manifest = stream->user;

    cf_walk_free(manifest->walk);
    cf_buf_release(&manifest->lines);
    free(manifest);
}

static const struct cf_stream_ops manifest_ops = {
    .fill = fill_from_manifest,
    .on_broken = on_broken,
    .on_free = on_free,
};

void
cf_files_manifest(struct cf_init *init, json_int_t id, json_t *request)
{
    struct cf_stream *stream =
        cf_stream_unbound(init, json_integer_value(json_object_get(request, "ch")));
    cf_auto_free char *root = cf_files_path(request, "root");
    struct manifest *manifest;

    if (stream == NULL || root == NULL || root[0] != '/') {
        cf_control_refuse(init, id, EINVAL, "manifest wants an absolute root and a channel");
        return;
    }
    manifest = calloc(1, sizeof *manifest);
    if (manifest == NULL || (manifest->walk = cf_walk_open(root, false)) == NULL) {
        cf_control_refuse(init, id, errno, "%s: %s", root, strerror(errno));
        free(manifest);
        return;
    }
    manifest->id = id;
    manifest->most = (uint64_t)json_integer_value(json_object_get(request, "max"));
    (void)cf_stream_bind(stream, &manifest_ops, manifest,
                         -1); /* nothing to watch, nothing to fail */
    cf_stream_mark_readable(stream);
}
