/*
 * docker's own configuration folder. A context is a folder named by the SHA-256 of its name:
 * contexts/meta/<sha256>/meta.json, with TLS material in contexts/tls/<sha256>/docker/.
 */
#include "engine/docker_config.h"
#include "base/str.h"
#include "engine/file.h"
#include "json/json.h"

#include <errno.h>
#include <sodium.h>
#include <string.h>

#define CONFIG_LIMIT_BYTES (4u * 1024 * 1024)

static const struct cf_json_limits config_limits = {
    .bytes = CONFIG_LIMIT_BYTES, .depth = 64, .nodes = 200000};

json_t *
cf_docker_config_load(const char *dir, struct cf_error *err)
{
    cf_auto_free char *path = NULL, *bytes = NULL;
    struct cf_error why = {0};
    size_t len = 0;

    if (asprintf(&path, "%s/config.json", dir) < 0) {
        cf_error_memory(err);
        return NULL;
    }
    if (cf_file_read(path, CONFIG_LIMIT_BYTES, &bytes, &len, &why) < 0) {
        if (why.code == ENOENT || why.code == ENOTDIR)
            return json_object();
        if (err != NULL)
            *err = why;
        return NULL;
    }
    json_t *config = cf_json_parse(bytes, len, &config_limits, err);
    if (config == NULL)
        cf_error_wrap(err, "%s", path);
    else if (!json_is_object(config)) {
        json_decref(config);
        config = NULL;
        cf_error_set(err, CF_ERROR_CONFIG, 0, "%s: not a JSON object", path);
    }
    return config;
}

void
cf_docker_context_release(struct cf_docker_context *context)
{
    free(context->host);
    free(context->tls_dir);
    *context = (struct cf_docker_context){0};
}

static int
take_endpoint(const json_t *meta, const char *name, struct cf_docker_context *ret_context,
              struct cf_error *err)
{
    const json_t *endpoint = cf_json_obj(cf_json_obj(meta, "Endpoints"), "docker");
    const char *host = cf_json_str(endpoint, "Host");
    const char *own_name = cf_json_str(meta, "Name");

    if (own_name == NULL || strcmp(own_name, name) != 0)
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "it describes context \"%s\", not \"%s\"",
                            own_name != NULL ? own_name : "", name);
    if (host == NULL || host[0] == '\0')
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "it has no docker endpoint");
    ret_context->skip_verify = cf_json_bool(endpoint, "SkipTLSVerify", false);
    return cf_str_copy(&ret_context->host, host, err);
}

int
cf_docker_context_parse(const char *bytes, size_t len, const char *name,
                        struct cf_docker_context *ret_context, struct cf_error *err)
{
    json_t *meta = cf_json_parse(bytes, len, &config_limits, err);

    if (meta == NULL)
        return -1;
    int rc = take_endpoint(meta, name, ret_context, err);
    json_decref(meta);
    return rc;
}

static void
context_hash(const char *name, char out[65])
{
    unsigned char digest[crypto_hash_sha256_BYTES];

    crypto_hash_sha256(digest, (const unsigned char *)name, strlen(name));
    cf_hex(digest, sizeof digest, out);
}

int
cf_docker_context_load(const char *dir, const char *name,
                       struct cf_docker_context *ret_context, struct cf_error *err)
{
    struct cf_docker_context context = {0};
    cf_auto_free char *path = NULL, *bytes = NULL;
    char hash[65];
    size_t len = 0;
    struct cf_error why = {0};

    context_hash(name, hash);
    if (asprintf(&path, "%s/contexts/meta/%s/meta.json", dir, hash) < 0 ||
        asprintf(&context.tls_dir, "%s/contexts/tls/%s/docker", dir, hash) < 0)
        return cf_error_memory(err);
    if (cf_file_read(path, CONFIG_LIMIT_BYTES, &bytes, &len, &why) < 0) {
        if (why.code == ENOENT)
            cf_error_set(&why, CF_ERROR_CONFIG, ENOENT,
                         "docker context \"%s\" does not exist (%s)", name, path);
        cf_error_fix(
            &why,
            "list the contexts with `docker context ls`, or name the engine with --engine");
        if (err != NULL)
            *err = why;
        cf_docker_context_release(&context);
        return -1;
    }
    if (cf_docker_context_parse(bytes, len, name, &context, err) < 0) {
        cf_docker_context_release(&context);
        return cf_error_wrap(err, "docker context \"%s\" (%s)", name, path);
    }
    *ret_context = context;
    return 0;
}
