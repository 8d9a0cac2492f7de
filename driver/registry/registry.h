/*
 * registry/registry.h: a registry of one run's lifetime: OCI distribution push and pull of
 * manifests and blobs, enough for an engine to push an image to and pull it from by digest.
 * Bound to loopback unless told otherwise; every request carries the run's one-time
 * credentials.
 */
#ifndef CF_REGISTRY_REGISTRY_H
#define CF_REGISTRY_REGISTRY_H

#include "base/error.h"
#include "base/log.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct cf_registry;

struct cf_registry_options {
    bool all_interfaces;         /* else 127.0.0.1 */
    uint16_t port;               /* 0: any */
    const char *directory;       /* private folder for blobs (0700, must exist); copied */
    const char *user, *password; /* NULL: no credentials asked for (stand-alone use); copied */
    uint64_t max_total_bytes;    /* 0: 16 GiB */
    const struct cf_log *log;
};
CF_CHECKED int cf_registry_open(uv_loop_t *loop, const struct cf_registry_options *options,
                                struct cf_registry **ret_registry, struct cf_error *err);
uint16_t cf_registry_port(const struct cf_registry *registry);
/* Requests that came with good credentials so far: 0 after a failed push means the engine
 * never reached us. */
uint64_t cf_registry_requests(const struct cf_registry *registry);
/* Digest ("sha256:...") that name:tag was pushed with, or NULL; borrowed until the next
 * request. */
const char *cf_registry_digest(const struct cf_registry *registry, const char *name,
                               const char *tag);
/* Stops listening, ends connections, removes its files. */
void cf_registry_close(struct cf_registry *registry, void (*on_closed)(void *user),
                       void *user);

#endif
