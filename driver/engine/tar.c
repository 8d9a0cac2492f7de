/* A small tar in memory, through libarchive: ustar with pax headers where a name or number
 * does not fit, and nothing behind the two zero blocks (Podman resets the connection on
 * padding). */
#include "base/buf.h"
#include "base/clock.h"
#include "base/str.h"
#include "engine/engine.h"
#include "engine/tarsink.h"

#include <archive.h>
#include <archive_entry.h>

#define TAR_LIMIT_BYTES (256u * 1024 * 1024)
#define ENTRY_SPARE 8192 /* heads, padding, a few small entries and the end */

struct cf_tar {
    struct cf_buf bytes;
    struct archive *archive;
};

static la_ssize_t
on_write(struct archive *archive, void *user, const void *bytes, size_t len)
{
    struct cf_buf *buf = user;

    if (cf_buf_add(buf, bytes, len) < 0) {
        archive_set_error(archive, ARCHIVE_FATAL, "out of memory or over the limit");
        return -1;
    }
    return (la_ssize_t)len;
}

struct archive *
cf_tarsink_new(struct cf_buf *to)
{
    struct archive *archive = archive_write_new();

    if (archive == NULL)
        return NULL;
    if (archive_write_set_format_pax_restricted(archive) != ARCHIVE_OK ||
        archive_write_set_bytes_per_block(archive, 0) != ARCHIVE_OK ||
        archive_write_open(archive, to, NULL, on_write, NULL) != ARCHIVE_OK) {
        archive_write_free(archive);
        return NULL;
    }
    return archive;
}

int
cf_tarsink_error(struct archive *archive, const char *path, struct cf_error *err)
{
    const char *why = archive_error_string(archive);
    return cf_error_set(err, CF_ERROR_INTERNAL, archive_errno(archive), "tar: %s: %s", path,
                        why != NULL ? why : "failed");
}

struct cf_tar *
cf_tar_new(void)
{
    struct cf_tar *tar = calloc(1, sizeof *tar);

    if (tar == NULL)
        return NULL;
    cf_buf_init(&tar->bytes, TAR_LIMIT_BYTES);
    tar->archive = cf_tarsink_new(&tar->bytes);
    if (tar->archive == NULL) {
        free(tar);
        return NULL;
    }
    return tar;
}

void
cf_tar_free(struct cf_tar *tar)
{
    if (tar == NULL)
        return;
    if (tar->archive != NULL)
        archive_write_free(tar->archive);
    cf_buf_release(&tar->bytes);
    free(tar);
}

static int
add_entry(struct cf_tar *tar, const char *path, unsigned type, unsigned mode, unsigned uid,
          unsigned gid, const void *bytes, size_t len, struct cf_error *err)
{
    struct archive_entry *entry = archive_entry_new();
    int rc = 0;

    if (entry == NULL)
        return cf_error_memory(err);
    archive_entry_set_pathname(entry, path);
    archive_entry_set_filetype(entry, type);
    archive_entry_set_perm(entry, (mode_t)mode);
    archive_entry_set_uid(entry, uid);
    archive_entry_set_gid(entry, gid);
    archive_entry_set_size(entry, (la_int64_t)len);
    archive_entry_set_mtime(entry, cf_clock_unix(), 0);
    if (archive_write_header(tar->archive, entry) < ARCHIVE_WARN ||
        (len > 0 && archive_write_data(tar->archive, bytes, len) != (la_ssize_t)len))
        rc = cf_tarsink_error(tar->archive, path, err);
    archive_entry_free(entry);
    return rc;
}

int
cf_tar_dir(struct cf_tar *tar, const char *path, unsigned mode, unsigned uid, unsigned gid,
           struct cf_error *err)
{
    return add_entry(tar, path, AE_IFDIR, mode, uid, gid, NULL, 0, err);
}

int
cf_tar_file(struct cf_tar *tar, const char *path, unsigned mode, unsigned uid, unsigned gid,
            const void *bytes, size_t len, struct cf_error *err)
{
    if (cf_buf_reserve(&tar->bytes, len + ENTRY_SPARE) == NULL) /* once, and no more than that */
        return cf_error_memory(err);
    return add_entry(tar, path, AE_IFREG, mode, uid, gid, bytes, len, err);
}

int
cf_tar_finish(struct cf_tar *tar, const char **ret_bytes, size_t *ret_len,
              struct cf_error *err)
{
    if (tar->archive != NULL) {
        if (archive_write_close(tar->archive) != ARCHIVE_OK)
            return cf_tarsink_error(tar->archive, "end", err);
        archive_write_free(tar->archive);
        tar->archive = NULL;
    }
    *ret_bytes = tar->bytes.data;
    *ret_len = tar->bytes.len;
    return 0;
}
