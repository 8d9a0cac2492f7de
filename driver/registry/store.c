/* Uploads and blobs are files, named by id and by digest; manifests and tags live in memory.
 */
#include "registry/impl.h"

#include "base/ids.h"
#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cf_file *
cf_store_file(struct cf_registry *registry, const char *name, bool is_new)
{
    struct cf_buf path = {0};
    struct cf_file *file = NULL;

    if (cf_buf_addf(&path, "%s/%s", registry->directory, name) == 0)
        file = cf_file_new(registry->loop, path.data, is_new, cf_registry_file_gone, registry);
    cf_buf_release(&path);
    if (file != NULL)
        registry->files_open++;
    return file;
}

bool
cf_store_reserve(struct cf_registry *registry, uint64_t len)
{
    if (len > registry->max_total_bytes - registry->total_bytes)
        return false;
    registry->total_bytes += len;
    return true;
}

/* ---- blobs --------------------------------------------------------------------------- */

struct cf_blob *
cf_store_blob(const struct cf_registry *registry, const char *digest)
{
    struct cf_blob *blob;

    TAILQ_FOREACH(blob, &registry->blobs, link)
    if (strcmp(blob->hex, digest + strlen("sha256:")) == 0)
        return blob;
    return NULL;
}

struct cf_upload *
cf_store_upload_new(struct cf_registry *registry)
{
    struct cf_upload *upload;
    char name[48];

    if (registry->upload_count >= CF_REGISTRY_UPLOADS)
        return NULL;
    upload = calloc(1, sizeof *upload);
    if (upload == NULL)
        return NULL;
    cf_id_hex(upload->id);
    (void)snprintf(name, sizeof name, "upload-%s", upload->id);
    upload->registry = registry;
    upload->file = cf_store_file(registry, name, true);
    if (upload->file == NULL) {
        free(upload);
        return NULL;
    }
    crypto_hash_sha256_init(&upload->hash);
    TAILQ_INSERT_TAIL(&registry->uploads, upload, link);
    registry->upload_count++;
    return upload;
}

struct cf_upload *
cf_store_upload(const struct cf_registry *registry, const char *id)
{
    struct cf_upload *upload;

    TAILQ_FOREACH(upload, &registry->uploads, link)
    if (strcmp(upload->id, id) == 0)
        return upload;
    return NULL;
}

static void
upload_free(struct cf_upload *upload)
{
    TAILQ_REMOVE(&upload->registry->uploads, upload, link);
    upload->registry->upload_count--;
    free(upload);
}

void
cf_store_upload_drop(struct cf_upload *upload)
{
    if (upload == NULL)
        return;
    upload->registry->total_bytes -= upload->size;
    cf_file_close(upload->file, true);
    upload_free(upload);
}

int
cf_store_upload_keep(struct cf_upload *upload, const char hex[65])
{
    struct cf_registry *registry = upload->registry;
    struct cf_blob *blob;

    TAILQ_FOREACH(blob, &registry->blobs, link)
    if (strcmp(blob->hex, hex) == 0)
        break;
    if (blob !=
        NULL) { /* two pushed the same at the same time: one file is left, and counted once */
        registry->total_bytes -= upload->size;
    } else {
        blob = calloc(1, sizeof *blob);
        if (blob == NULL)
            return -1;
        memcpy(blob->hex, hex, 65);
        blob->size = upload->size;
        TAILQ_INSERT_TAIL(&registry->blobs, blob, link);
        registry->blob_count++;
    }
    cf_file_close(upload->file, false);
    upload_free(upload);
    return 0;
}

/* ---- manifests ----------------------------------------------------------------------- */

static struct cf_tag *
tag_find(const struct cf_registry *registry, const char *name, const char *tag)
{
    struct cf_tag *entry;

    TAILQ_FOREACH(entry, &registry->tags, link)
    if (strcmp(entry->name, name) == 0 && strcmp(entry->tag, tag) == 0)
        return entry;
    return NULL;
}

static struct cf_manifest *
manifest_by_digest(const struct cf_registry *registry, const char *digest)
{
    struct cf_manifest *manifest;

    TAILQ_FOREACH(manifest, &registry->manifests, link)
    if (strcmp(manifest->digest, digest) == 0)
        return manifest;
    return NULL;
}

struct cf_manifest *
cf_store_manifest(const struct cf_registry *registry, const char *name, const char *reference)
{
    const struct cf_tag *tag;

    if (cf_registry_is_digest(reference))
        return manifest_by_digest(registry, reference);
    tag = tag_find(registry, name, reference);
    return tag == NULL ? NULL : manifest_by_digest(registry, tag->manifest->digest);
}

static void
manifest_free(struct cf_manifest *manifest)
{
    free(manifest->type);
    free(manifest->bytes);
    free(manifest);
}

static struct cf_manifest *
manifest_new(struct cf_registry *registry, const char *digest, const char *type,
             const struct cf_buf *body)
{
    struct cf_manifest *manifest = calloc(1, sizeof *manifest);

    if (manifest == NULL)
        return NULL;
    manifest->type = strdup(type);
    manifest->bytes = malloc(body->len + 1);
    if (manifest->type == NULL || manifest->bytes == NULL) {
        manifest_free(manifest);
        return NULL;
    }
    memcpy(manifest->bytes, body->data, body->len);
    manifest->len = body->len;
    strcpy(manifest->digest, digest);
    TAILQ_INSERT_TAIL(&registry->manifests, manifest, link);
    registry->manifest_count++;
    return manifest;
}

static int
tag_set(struct cf_registry *registry, const char *name, const char *tag,
        const struct cf_manifest *manifest)
{
    struct cf_tag *entry = tag_find(registry, name, tag);

    if (entry == NULL) {
        entry = registry->tag_count >= CF_REGISTRY_TAGS ? NULL : calloc(1, sizeof *entry);
        if (entry == NULL)
            return -1;
        strcpy(entry->name, name);
        strcpy(entry->tag, tag);
        TAILQ_INSERT_TAIL(&registry->tags, entry, link);
        registry->tag_count++;
    }
    entry->manifest = manifest;
    return 0;
}

const struct cf_manifest *
cf_store_manifest_put(struct cf_registry *registry, const char *name, const char *tag,
                      const char *type, const struct cf_buf *body, const char **ret_why)
{
    unsigned char hash[crypto_hash_sha256_BYTES];
    char digest[72] = "sha256:";
    struct cf_manifest *manifest;

    crypto_hash_sha256(hash, (const unsigned char *)body->data, body->len);
    cf_hex(hash, sizeof hash, digest + strlen("sha256:"));
    manifest = manifest_by_digest(registry, digest);
    *ret_why = "too many manifests or tags";
    if (manifest == NULL && (registry->manifest_count >= CF_REGISTRY_MANIFESTS ||
                             !cf_store_reserve(registry, body->len)))
        return NULL;
    if (manifest == NULL)
        manifest = manifest_new(registry, digest, type, body);
    if (manifest == NULL) {
        *ret_why = "out of memory";
        return NULL;
    }
    return tag != NULL && tag_set(registry, name, tag, manifest) < 0 ? NULL : manifest;
}

/* ---- the end ------------------------------------------------------------------------- */

void
cf_store_remove_files(struct cf_registry *registry)
{
    struct cf_upload *upload;
    struct cf_blob *blob;

    while ((upload = TAILQ_FIRST(&registry->uploads)) != NULL)
        cf_store_upload_drop(upload);
    while ((blob = TAILQ_FIRST(&registry->blobs)) != NULL) {
        cf_file_close(cf_store_file(registry, blob->hex, false), true);
        TAILQ_REMOVE(&registry->blobs, blob, link);
        free(blob);
    }
}

void
cf_store_release(struct cf_registry *registry)
{
    struct cf_manifest *manifest;
    struct cf_tag *tag;

    while ((tag = TAILQ_FIRST(&registry->tags)) != NULL) {
        TAILQ_REMOVE(&registry->tags, tag, link);
        free(tag);
    }
    while ((manifest = TAILQ_FIRST(&registry->manifests)) != NULL) {
        TAILQ_REMOVE(&registry->manifests, manifest, link);
        manifest_free(manifest);
    }
}
