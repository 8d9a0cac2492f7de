/* Why the Engine cannot be reached, in words that a person can act on. */
#include "base/str.h"
#include "engine/endpoint.h"

#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void
group_name(gid_t gid, char out[64])
{
    struct group group, *found = NULL;
    char space[4096];

    if (getgrgid_r(gid, &group, space, sizeof space, &found) == 0 && found != NULL)
        snprintf(out, 64, "%s", found->gr_name);
    else
        snprintf(out, 64, "%u", (unsigned)gid);
}

static int
no_permission(const struct cf_endpoint *endpoint, struct cf_error *err)
{
    struct stat st;
    char group[64];

    if (stat(endpoint->unix_path, &st) < 0) { /* a folder on the way is closed to us */
        cf_error_set(err, CF_ERROR_ENGINE, EACCES,
                     "no permission to reach %s (%s): a folder on its path is closed "
                     "to this user",
                     endpoint->url, endpoint->source);
        return cf_error_fix(
            err,
            "run as a user who may enter that folder, or name another engine with --engine");
    }
    group_name(st.st_gid, group);
    cf_error_set(err, CF_ERROR_ENGINE, EACCES,
                 "no permission to use %s (%s): the socket belongs to group %s (mode %04o)",
                 endpoint->url, endpoint->source, group, (unsigned)st.st_mode & 07777);
    return cf_error_fix(
        err, "run as a member of group %s: `sudo usermod -aG %s $USER`, then log in again",
        group, group);
}

static int
no_socket(const struct cf_endpoint *endpoint, struct cf_error *err)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    cf_auto_free char *rootless = NULL;

    cf_error_set(err, CF_ERROR_ENGINE, ENOENT,
                 "no Docker Engine at %s (%s): there is no such socket", endpoint->url,
                 endpoint->source);
    if (runtime != NULL && asprintf(&rootless, "%s/docker.sock", runtime) >= 0 &&
        access(rootless, F_OK) == 0)
        return cf_error_fix(err, "a rootless engine is there: --engine unix://%s", rootless);
    return cf_error_fix(err, "start the engine (`sudo systemctl start docker`), or name it "
                             "with --engine or DOCKER_HOST");
}

static int
explain_unix(const struct cf_endpoint *endpoint, int os_errno, const char *detail,
             struct cf_error *err)
{
    struct stat st;

    if (os_errno == 0 && stat(endpoint->unix_path, &st) < 0)
        os_errno = errno;
    else if (os_errno == 0 && access(endpoint->unix_path, W_OK) < 0)
        os_errno = errno;
    if (os_errno == ENOENT || os_errno == ENOTDIR)
        return no_socket(endpoint, err);
    if (os_errno == EACCES || os_errno == EPERM)
        return no_permission(endpoint, err);
    if (stat(endpoint->unix_path, &st) == 0 && !S_ISSOCK(st.st_mode)) {
        cf_error_set(err, CF_ERROR_ENGINE, ENOTSOCK,
                     "no Docker Engine at %s (%s): that is not a socket", endpoint->url,
                     endpoint->source);
        return cf_error_fix(err, "name the engine's socket with --engine or DOCKER_HOST");
    }
    if (os_errno == ECONNREFUSED || os_errno == 0)
        cf_error_set(err, CF_ERROR_ENGINE, ECONNREFUSED,
                     "no Docker Engine at %s (%s): nobody listens on the socket",
                     endpoint->url, endpoint->source);
    else
        cf_error_set(err, CF_ERROR_ENGINE, os_errno, "no Docker Engine at %s (%s): %s",
                     endpoint->url, endpoint->source, strerror(os_errno));
    return cf_error_fix(err, "start the engine (`sudo systemctl start docker`), or name it "
                             "with --engine or DOCKER_HOST");
}

int
cf_endpoint_explain(const struct cf_endpoint *endpoint, int os_errno, const char *detail,
                    struct cf_error *err)
{
    if (endpoint->unix_path != NULL)
        return explain_unix(endpoint, os_errno, detail, err);
    cf_error_set(err, CF_ERROR_ENGINE, os_errno, "no Docker Engine at %s (%s): %s",
                 endpoint->url, endpoint->source, os_errno != 0 ? strerror(os_errno) : detail);
    return cf_error_fix(err, "check host and port, that the engine listens there, and that "
                             "nothing between drops it");
}

int
cf_endpoint_explain_tls(const struct cf_endpoint *endpoint, const char *detail,
                        struct cf_error *err)
{
    cf_error_set(err, CF_ERROR_ENGINE, 0, "TLS with %s (%s) failed: %s", endpoint->url,
                 endpoint->source, detail);
    return cf_error_fix(err, "check ca.pem, cert.pem and key.pem in DOCKER_CERT_PATH (or the "
                             "docker context), and that "
                             "the engine's certificate names this host");
}
