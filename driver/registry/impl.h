/*
 * registry/impl.h: the inside of the registry. registry.c owns the port and the end of things,
 * store.c what was pushed, route.c reads a request's path, exchange.c answers it.
 */
#ifndef CF_REGISTRY_IMPL_H
#define CF_REGISTRY_IMPL_H

#include "base/buf.h"
#include "loop/http_listener.h"
#include "registry/file.h"
#include "registry/registry.h"

#include <sodium.h>
#include <sys/queue.h>

/* Bounds of one run's registry; a real image stays far below each. */
#define CF_REGISTRY_CONNS 256u
#define CF_REGISTRY_UPLOADS 64u
#define CF_REGISTRY_BLOBS 4096u
#define CF_REGISTRY_MANIFESTS 256u
#define CF_REGISTRY_TAGS 256u
#define CF_REGISTRY_MANIFEST_BYTES (4u * 1024 * 1024)
#define CF_REGISTRY_NAME 255u
#define CF_REGISTRY_TAG 128u
#define CF_REGISTRY_IDLE_MS 120000u /* a connection over which nothing moves for so long is closed */

/* ---- what was pushed ----------------------------------------------------------------- */

struct cf_blob {
    TAILQ_ENTRY(cf_blob) link;
    char hex[65];
    uint64_t size;
};

struct cf_upload {
    TAILQ_ENTRY(cf_upload) link;
    struct cf_registry *registry;
    char id[33];
    struct cf_file *file;
    uint64_t size;
    crypto_hash_sha256_state hash;
    bool is_taken; /* a request works on it */
};

struct cf_manifest {
    TAILQ_ENTRY(cf_manifest) link;
    char digest[72], *type, *bytes; /* "sha256:<hex>" */
    size_t len;
};

struct cf_tag {
    TAILQ_ENTRY(cf_tag) link;
    char name[CF_REGISTRY_NAME + 1], tag[CF_REGISTRY_TAG + 1];
    const struct cf_manifest *manifest;
};

struct cf_registry {
    uv_loop_t *loop;
    struct cf_http_listener *listener; /* NULL: closed, and its connections with it */
    char *directory;
    char *authorization; /* what good credentials look like; NULL: none asked for */
    uint64_t max_total_bytes, total_bytes, requests;
    const struct cf_log *log;

    TAILQ_HEAD(, cf_upload) uploads;
    TAILQ_HEAD(, cf_blob) blobs;
    TAILQ_HEAD(, cf_manifest) manifests;
    TAILQ_HEAD(, cf_tag) tags;
    unsigned upload_count, blob_count, manifest_count, tag_count;
    unsigned files_open;
    bool is_closing;
    void (*on_closed)(void *user);
    void *closed_user;
};

void cf_registry_file_gone(void *registry); /* cf_file's on_gone */

/* A file of the registry's folder; NULL: out of memory. */
struct cf_file *cf_store_file(struct cf_registry *registry, const char *name, bool is_new);
struct cf_blob *cf_store_blob(const struct cf_registry *registry,
                              const char *digest); /* "sha256:..." */
/* NULL when there are too many, or no memory. */
struct cf_upload *cf_store_upload_new(struct cf_registry *registry);
struct cf_upload *cf_store_upload(const struct cf_registry *registry, const char *id);
/* Its bytes are given up and its file is removed. NULL is fine. */
void cf_store_upload_drop(struct cf_upload *upload);
/* The upload's file has its blob's name: it is a blob now, the upload is gone. -1: no memory.
 */
int cf_store_upload_keep(struct cf_upload *upload, const char hex[65]);
/* True when so many bytes more fit; they are counted then. */
bool cf_store_reserve(struct cf_registry *registry, uint64_t len);
struct cf_manifest *cf_store_manifest(const struct cf_registry *registry, const char *name,
                                      const char *reference);
/* Keeps a copy under its digest and, unless `tag` is NULL, under name:tag. NULL with *ret_why.
 */
const struct cf_manifest *cf_store_manifest_put(struct cf_registry *registry, const char *name,
                                                const char *tag, const char *type,
                                                const struct cf_buf *body,
                                                const char **ret_why);
void cf_store_release(struct cf_registry *registry); /* memory only */
void cf_store_remove_files(struct cf_registry *registry);

/* ---- a request's path ---------------------------------------------------------------- */

enum cf_registry_route {
    CF_REGISTRY_UNKNOWN,
    CF_REGISTRY_BASE,     /* /v2/ */
    CF_REGISTRY_BEGIN,    /* /v2/<name>/blobs/uploads/ */
    CF_REGISTRY_UPLOAD,   /* /v2/<name>/blobs/uploads/<id> */
    CF_REGISTRY_BLOB,     /* /v2/<name>/blobs/<digest> */
    CF_REGISTRY_MANIFEST, /* /v2/<name>/manifests/<reference> */
    CF_REGISTRY_TAG_LIST  /* /v2/<name>/tags/list */
};

struct cf_registry_path {
    enum cf_registry_route route;
    char name[CF_REGISTRY_NAME + 1];
    char last[CF_REGISTRY_TAG + 1]; /* upload id, digest or reference */
};

/* Anything that is not a well-formed path of the list above is CF_REGISTRY_UNKNOWN. */
void cf_registry_path_read(const char *path, struct cf_registry_path *ret_path);
bool cf_registry_is_digest(const char *text); /* "sha256:" + 64 lower-case hex digits */
bool cf_registry_is_tag(const char *text);
/* One value of a query, percent-decoded; false when absent, malformed or longer than size - 1.
 */
bool cf_registry_query(const char *query, const char *name, char *ret_value, size_t size);

extern const struct cf_http_handler cf_exchange_handler; /* user: struct cf_registry */

#endif
