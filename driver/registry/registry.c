/* The registry's port, and an end that leaves no file behind.
 */
#include "registry/registry.h"

#include "base/str.h"
#include "registry/impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_TOTAL_BYTES (16ull << 30)

/* ---- the end ------------------------------------------------------------------------- */

static void
registry_free(struct cf_registry *registry)
{
    if (registry == NULL)
        return;
    cf_store_release(registry);
    free(registry->directory);
    if (registry->authorization != NULL)
        sodium_memzero(registry->authorization, strlen(registry->authorization));
    free(registry->authorization);
    free(registry);
}

static void
go_on_closing(struct cf_registry *registry)
{
    if (registry->listener != NULL || registry->files_open > 0)
        return;
    void (*on_closed)(void *user) = registry->on_closed;
    void *user = registry->closed_user;
    registry_free(registry);
    if (on_closed != NULL)
        on_closed(user);
}

void
cf_registry_file_gone(void *user)
{
    struct cf_registry *registry = user;

    registry->files_open--;
    go_on_closing(registry);
}

/* Connections went first, for they may still hold uploads; now the files. */
static void
on_listener_closed(void *user)
{
    struct cf_registry *registry = user;

    cf_store_remove_files(registry);
    registry->listener = NULL;
    go_on_closing(registry);
}

/* ---- the port ------------------------------------------------------------------------ */

static struct cf_http_conn *
accept_conn(void *user, const struct cf_http_io *io, void *io_user)
{
    return cf_http_conn_new(io, io_user, &cf_exchange_handler, user, 0);
}

static int
copy_options(struct cf_registry *registry, const struct cf_registry_options *options,
             struct cf_error *err)
{
    struct cf_buf pair = {0};
    size_t size;

    registry->log = options->log;
    registry->max_total_bytes =
        options->max_total_bytes != 0 ? options->max_total_bytes : DEFAULT_TOTAL_BYTES;
    if (options->directory == NULL)
        return cf_error_set(err, CF_ERROR_INTERNAL, 0, "no folder for its blobs");
    if (cf_str_copy(&registry->directory, options->directory, err) < 0)
        return -1;
    if (options->user == NULL || options->password == NULL)
        return 0;
    cf_buf_addf(&pair, "%s:%s", options->user, options->password);
    size = sodium_base64_encoded_len(pair.len, sodium_base64_VARIANT_ORIGINAL);
    registry->authorization = pair.failed ? NULL : malloc(size);
    if (registry->authorization != NULL)
        sodium_bin2base64(registry->authorization, size, (unsigned char *)pair.data, pair.len,
                          sodium_base64_VARIANT_ORIGINAL);
    sodium_memzero(pair.data, pair.len);
    cf_buf_release(&pair);
    return registry->authorization == NULL ? cf_error_memory(err) : 0;
}

static int
listen_now(struct cf_registry *registry, uv_loop_t *loop, const struct cf_registry_options *options,
           struct cf_error *err)
{
    struct cf_http_listener_options port = {.address = options->all_interfaces ? "::" : "127.0.0.1",
                                            .port = options->port,
                                            .most_conns = CF_REGISTRY_CONNS,
                                            .idle_ms = CF_REGISTRY_IDLE_MS,
                                            .accept = accept_conn,
                                            .user = registry};
    struct cf_error no_v6;

    if (options->all_interfaces && cf_http_listener_open(loop, &port, &registry->listener, &no_v6) == 0)
        return 0; /* both families */
    if (options->all_interfaces)
        port.address = "0.0.0.0";
    return cf_http_listener_open(loop, &port, &registry->listener, err);
}

int
cf_registry_open(uv_loop_t *loop, const struct cf_registry_options *options,
                 struct cf_registry **ret_registry, struct cf_error *err)
{
    struct cf_registry *registry = calloc(1, sizeof *registry);

    if (registry == NULL)
        return cf_error_memory(err);
    TAILQ_INIT(&registry->uploads);
    TAILQ_INIT(&registry->blobs);
    TAILQ_INIT(&registry->manifests);
    TAILQ_INIT(&registry->tags);
    registry->loop = loop;
    if (copy_options(registry, options, err) < 0 || listen_now(registry, loop, options, err) < 0) {
        registry_free(registry);
        return cf_error_wrap(err, "registry");
    }
    *ret_registry = registry;
    return 0;
}

uint16_t
cf_registry_port(const struct cf_registry *registry)
{
    return cf_http_listener_port(registry->listener);
}

uint64_t
cf_registry_requests(const struct cf_registry *registry)
{
    return registry->requests;
}

const char *
cf_registry_digest(const struct cf_registry *registry, const char *name, const char *tag)
{
    const struct cf_manifest *manifest = cf_store_manifest(registry, name, tag);

    return manifest != NULL ? manifest->digest : NULL;
}

void
cf_registry_close(struct cf_registry *registry, void (*on_closed)(void *user), void *user)
{
    if (registry->is_closing)
        return;
    registry->is_closing = true;
    registry->on_closed = on_closed;
    registry->closed_user = user;
    cf_http_listener_close(registry->listener, on_listener_closed, registry);
}
