/* Whole files in, whole files out. */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int
hn_read_all(int fd, const char *name, struct cf_buf *to, struct cf_error *err)
{
    char bytes[32 * 1024];
    ssize_t n;

    while ((n = read(fd, bytes, sizeof bytes)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return cf_error_set(err, CF_ERROR_CONFIG, errno, "cannot read %s: %s", name,
                                strerror(errno));
        if (cf_buf_add(to, bytes, (size_t)n) < 0)
            return cf_error_set(err, CF_ERROR_TOO_LARGE, 0, "%s is larger than %zu bytes", name,
                                to->limit_bytes);
    }
    return cf_buf_add(to, "", 0) < 0 ? cf_error_memory(err) : 0;
}

int
hn_file_read(const char *path, struct cf_buf *to, struct cf_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), status;

    if (fd < 0)
        return cf_error_set(err, CF_ERROR_CONFIG, errno, "cannot read %s: %s", path,
                            strerror(errno));
    status = hn_read_all(fd, path, to, err);
    close(fd);
    return status;
}

int
hn_write_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, bytes, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        bytes += n;
        len -= (size_t)n;
    }
    return 0;
}

int
hn_file_replace(const char *path, const char *bytes, size_t len, struct cf_error *err)
{
    char draft[4096];
    int fd, bad;

    if (snprintf(draft, sizeof draft, "%s.new", path) >= (int)sizeof draft)
        return cf_error_set(err, CF_ERROR_CONFIG, ENAMETOOLONG, "cannot write %s: %s", path,
                            strerror(ENAMETOOLONG));
    fd = open(draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    bad = fd < 0 || hn_write_all(fd, bytes, len) < 0;
    if (fd >= 0 && close(fd) < 0)
        bad = 1;
    if (bad || rename(draft, path) < 0) {
        int why = errno;
        (void)unlink(draft); /* it may never have been made */
        return cf_error_set(err, CF_ERROR_CONFIG, why, "cannot write %s: %s", path, strerror(why));
    }
    return 0;
}
