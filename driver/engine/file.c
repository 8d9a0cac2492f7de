/* One bounded read of a small configuration file. */
#include "engine/file.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int
read_all(int fd, char *to, size_t size, size_t *ret_len)
{
    size_t len = 0;

    while (len < size) {
        ssize_t got = read(fd, to + len, size - len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        len += (size_t)got;
    }
    *ret_len = len;
    return 0;
}

static int
read_fd(int fd, const char *path, size_t limit_bytes, char **ret_bytes, size_t *ret_len,
        struct cf_error *err)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return cf_error_set(err, CF_ERROR_CONFIG, errno, "%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return cf_error_set(err, CF_ERROR_CONFIG, EINVAL, "%s is not a regular file", path);
    if ((uint64_t)st.st_size > limit_bytes)
        return cf_error_set(err, CF_ERROR_TOO_LARGE, EFBIG, "%s is larger than %zu bytes",
                            path, limit_bytes);
    cf_auto_free char *bytes = malloc((size_t)st.st_size + 1);
    if (bytes == NULL)
        return cf_error_memory(err);
    if (read_all(fd, bytes, (size_t)st.st_size, ret_len) < 0)
        return cf_error_set(err, CF_ERROR_CONFIG, errno, "%s: %s", path, strerror(errno));
    bytes[*ret_len] = '\0';
    *ret_bytes = cf_steal(bytes);
    return 0;
}

int
cf_file_read(const char *path, size_t limit_bytes, char **ret_bytes, size_t *ret_len,
             struct cf_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a fifo must not hold us up */

    if (fd < 0)
        return cf_error_set(err, CF_ERROR_CONFIG, errno, "%s: %s", path, strerror(errno));
    int rc = read_fd(fd, path, limit_bytes, ret_bytes, ret_len, err);
    close(fd);
    return rc;
}
