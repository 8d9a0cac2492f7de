/*
 * Finding the Engine as the docker command does: a flag, DOCKER_HOST, a context, the default
 * socket. TLS material comes from the context's own folder, or for a tcp endpoint named by
 * flag or environment from DOCKER_CERT_PATH when DOCKER_TLS_VERIFY (or DOCKER_TLS) asks for
 * TLS.
 */
#include "engine/endpoint.h"
#include "base/str.h"
#include "engine/docker_config.h"
#include "json/json.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define DEFAULT_ENDPOINT "unix:///var/run/docker.sock"

void
cf_endpoint_release(struct cf_endpoint *endpoint)
{
    free(endpoint->url);
    free(endpoint->base_url);
    free(endpoint->unix_path);
    free(endpoint->host);
    free(endpoint->ca_file);
    free(endpoint->cert_file);
    free(endpoint->key_file);
    *endpoint = (struct cf_endpoint){0};
}

/* ---- reading the URL -------------------------------------------------------------------- */

static int
parse_unix(const char *path, struct cf_endpoint *endpoint, struct cf_error *err)
{
    size_t most = sizeof((struct sockaddr_un *)NULL)->sun_path - 1;

    if (path[0] != '/')
        return cf_error_set(err, CF_ERROR_CONFIG, 0,
                            "unix:// needs an absolute path, not \"%s\"", path);
    if (strlen(path) > most)
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "socket path %s is longer than %zu bytes",
                            path, most);
    endpoint->is_local = true;
    if (cf_str_copy(&endpoint->unix_path, path, err) < 0)
        return -1;
    return cf_str_copy(&endpoint->base_url, "http://docker", err);
}

static bool
is_host_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '.' || c == '-' || c == '_';
}

static bool
is_v6_char(char c)
{
    return (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || (c >= '0' && c <= '9') ||
           c == ':' || c == '.' || c == '%';
}

static bool
is_loopback(const char *host)
{
    return strcasecmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 ||
           strcmp(host, "::1") == 0;
}

static int
bad_tcp(const char *text, struct cf_error *err)
{
    cf_error_set(err, CF_ERROR_CONFIG, 0, "tcp://%s is not tcp://HOST:PORT", text);
    return cf_error_fix(
        err,
        "write tcp://HOST:PORT, an IPv6 address in brackets, and nothing behind the port");
}

static int
parse_tcp(const char *text, bool is_tls, struct cf_endpoint *endpoint, struct cf_error *err)
{
    const char *begin = text, *end, *rest;
    bool is_v6 = text[0] == '[';
    uint64_t port = is_tls ? 2376 : 2375;

    if (is_v6)
        begin++;
    for (end = begin; is_v6 ? is_v6_char(*end) : is_host_char(*end); end++)
        ;
    rest = end;
    if (is_v6 && *rest++ != ']')
        return bad_tcp(text, err);
    if (end == begin)
        return bad_tcp(text, err);
    cf_auto_free char *tail = strdup(rest);
    if (tail == NULL)
        return cf_error_memory(err);
    if (tail[0] != '\0' && tail[strlen(tail) - 1] == '/')
        tail[strlen(tail) - 1] = '\0';
    if (tail[0] != '\0' && (tail[0] != ':' || !cf_parse_u64(tail + 1, 1, 65535, &port)))
        return bad_tcp(text, err);
    endpoint->port = (unsigned)port;
    endpoint->is_tls = is_tls;
    endpoint->host = strndup(begin, (size_t)(end - begin));
    if (endpoint->host == NULL ||
        asprintf(&endpoint->base_url, "%s://%s%s%s:%u", is_tls ? "https" : "http",
                 is_v6 ? "[" : "", endpoint->host, is_v6 ? "]" : "", endpoint->port) < 0)
        return cf_error_memory(err);
    endpoint->is_local = is_loopback(endpoint->host);
    return 0;
}

static int
refuse_scheme(const char *text, struct cf_error *err)
{
    if (cf_str_starts(text, "ssh://")) {
        cf_error_set(err, CF_ERROR_CONFIG, 0, "%s: ssh endpoints are not spoken", text);
        return cf_error_fix(
            err, "forward the socket, `ssh -N -L /tmp/engine.sock:/var/run/docker.sock HOST`, "
                 "and use --engine unix:///tmp/engine.sock");
    }
    if (cf_str_starts(text, "npipe://"))
        cf_error_set(err, CF_ERROR_CONFIG, 0, "%s: Windows named pipes are not spoken", text);
    else
        cf_error_set(err, CF_ERROR_CONFIG, 0, "\"%s\" is not an engine endpoint", text);
    return cf_error_fix(err, "use unix:///PATH or tcp://HOST:PORT");
}

int
cf_endpoint_parse(const char *text, bool is_tls, struct cf_endpoint *ret_endpoint,
                  struct cf_error *err)
{
    struct cf_endpoint endpoint = {0};
    int rc;

    assert(text != NULL);
    rc = cf_str_copy(&endpoint.url, text, err);
    if (rc == 0 && cf_str_starts(text, "unix://"))
        rc = parse_unix(text + 7, &endpoint, err);
    else if (rc == 0 && cf_str_starts(text, "tcp://"))
        rc = parse_tcp(text + 6, is_tls, &endpoint, err);
    else if (rc == 0)
        rc = refuse_scheme(text, err);
    if (rc < 0) {
        cf_endpoint_release(&endpoint);
        return -1;
    }
    *ret_endpoint = endpoint;
    return 0;
}

/* ---- TLS material ----------------------------------------------------------------------- */

/* Fills *ret_path when the file is there; absent is not an error. */
static int
take_pem(const char *dir, const char *name, char **ret_path, struct cf_error *err)
{
    cf_auto_free char *path = NULL;

    if (asprintf(&path, "%s/%s", dir, name) < 0)
        return cf_error_memory(err);
    if (access(path, F_OK) != 0)
        return 0;
    if (access(path, R_OK) != 0)
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "TLS file %s cannot be read", path);
    *ret_path = cf_steal(path);
    return 0;
}

static int
use_tls_dir(struct cf_endpoint *endpoint, const char *dir, bool skip_verify,
            struct cf_error *err)
{
    if (take_pem(dir, "ca.pem", &endpoint->ca_file, err) < 0 ||
        take_pem(dir, "cert.pem", &endpoint->cert_file, err) < 0 ||
        take_pem(dir, "key.pem", &endpoint->key_file, err) < 0)
        return -1;
    if ((endpoint->cert_file == NULL) != (endpoint->key_file == NULL))
        return cf_error_set(err, CF_ERROR_CONFIG, 0,
                            "%s holds only one of cert.pem and key.pem", dir);
    endpoint->tls = (struct cf_tls){.ca_file = endpoint->ca_file,
                                    .cert_file = endpoint->cert_file,
                                    .key_file = endpoint->key_file,
                                    .skip_verify = skip_verify};
    return 0;
}

static bool
env_is_set(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0';
}

static int
parse_with_env_tls(const char *text, const char *source, const char *config_dir,
                   struct cf_endpoint *ret_endpoint, struct cf_error *err)
{
    bool verify = env_is_set("DOCKER_TLS_VERIFY");
    bool is_tls = (verify || env_is_set("DOCKER_TLS")) && cf_str_starts(text, "tcp://");
    const char *certs =
        env_is_set("DOCKER_CERT_PATH") ? getenv("DOCKER_CERT_PATH") : config_dir;

    if (cf_endpoint_parse(text, is_tls, ret_endpoint, err) < 0)
        return cf_error_wrap(err, "%s", source);
    snprintf(ret_endpoint->source, sizeof ret_endpoint->source, "%s", source);
    if (is_tls && use_tls_dir(ret_endpoint, certs, !verify, err) < 0) {
        cf_endpoint_release(ret_endpoint);
        return cf_error_wrap(err, "%s",
                             env_is_set("DOCKER_CERT_PATH") ? "DOCKER_CERT_PATH" : "TLS");
    }
    return 0;
}

/* ---- contexts --------------------------------------------------------------------------- */

static int
from_context(const char *config_dir, const char *name, struct cf_endpoint *ret_endpoint,
             struct cf_error *err)
{
    struct cf_docker_context context = {0};

    if (cf_docker_context_load(config_dir, name, &context, err) < 0)
        return -1;
    bool has_tls = access(context.tls_dir, F_OK) == 0 && cf_str_starts(context.host, "tcp://");
    bool is_tls = has_tls || (context.skip_verify && cf_str_starts(context.host, "tcp://"));
    int rc = cf_endpoint_parse(context.host, is_tls, ret_endpoint, err);
    if (rc == 0 && is_tls) {
        rc = use_tls_dir(ret_endpoint, context.tls_dir, context.skip_verify, err);
        if (rc < 0)
            cf_endpoint_release(ret_endpoint);
    }
    if (rc == 0)
        snprintf(ret_endpoint->source, sizeof ret_endpoint->source, "context %s", name);
    else
        cf_error_wrap(err, "docker context \"%s\"", name);
    cf_docker_context_release(&context);
    return rc;
}

/* The current context's name, yours, or NULL for the default one. A config.json that cannot be
 * read is an error: guessing another engine would be worse. */
static int
current_context(const char *config_dir, char **ret_name, struct cf_error *err)
{
    if (env_is_set("DOCKER_CONTEXT"))
        return cf_str_copy(ret_name, getenv("DOCKER_CONTEXT"), err);
    json_t *config = cf_docker_config_load(config_dir, err);
    if (config == NULL)
        return -1;
    const char *name = cf_json_str(config, "currentContext");
    int rc = name != NULL && name[0] != '\0' ? cf_str_copy(ret_name, name, err) : 0;
    json_decref(config);
    return rc;
}

static int
find_config_dir(const char *given, char **ret_dir, struct cf_error *err)
{
    if (given == NULL && env_is_set("DOCKER_CONFIG"))
        given = getenv("DOCKER_CONFIG");
    if (given != NULL)
        return cf_str_copy(ret_dir, given, err);
    const char *home = env_is_set("HOME") ? getenv("HOME") : "/root";
    return asprintf(ret_dir, "%s/.docker", home) < 0 ? cf_error_memory(err) : 0;
}

static int
find_in(const char *given, const char *config_dir, struct cf_endpoint *ret_endpoint,
        struct cf_error *err)
{
    cf_auto_free char *name = NULL;

    if (given != NULL && given[0] != '\0')
        return parse_with_env_tls(given, "--engine", config_dir, ret_endpoint, err);
    if (env_is_set("DOCKER_HOST"))
        return parse_with_env_tls(getenv("DOCKER_HOST"), "DOCKER_HOST", config_dir,
                                  ret_endpoint, err);
    if (current_context(config_dir, &name, err) < 0)
        return -1;
    if (name != NULL && strcmp(name, "default") != 0)
        return from_context(config_dir, name, ret_endpoint, err);
    return parse_with_env_tls(DEFAULT_ENDPOINT, "default", config_dir, ret_endpoint, err);
}

int
cf_endpoint_find(const char *given, const char *config_dir, struct cf_endpoint *ret_endpoint,
                 char **ret_config_dir, struct cf_error *err)
{
    cf_auto_free char *dir = NULL;

    if (find_config_dir(config_dir, &dir, err) < 0 ||
        find_in(given, dir, ret_endpoint, err) < 0)
        return -1;
    *ret_config_dir = cf_steal(dir);
    return 0;
}
