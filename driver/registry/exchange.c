/*
 * One request of the OCI distribution API. Bodies of blobs go to disk as they come: while a
 * piece is being written the connection is not read, so that the disk sets the pace.
 */
#include "registry/impl.h"

#include "base/str.h"
#include "json/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { QUEUE_HIGH = 256 * 1024 };

struct exchange {
    struct cf_registry *registry;
    struct cf_http_conn *http;
    struct cf_registry_path path;
    char method[8], digest[80]; /* digest: of the query, "" when there is none */
    struct cf_upload *upload;
    struct cf_file *file; /* a blob on its way out */
    uint64_t at, left;
    bool waits_for_drain;
    char hex[65];
    struct cf_buf manifest;
};

/* ---- answers ------------------------------------------------------------------------- */

static void
reply(struct exchange *ex, int status, const char *const *headers, const char *body)
{
    const char *all[16] = {"Docker-Distribution-API-Version", "registry/2.0"};
    size_t n = 2;

    for (size_t i = 0; headers != NULL && headers[i] != NULL && n + 2 < CF_COUNT(all); i++)
        all[n++] = headers[i];
    all[n] = NULL;
    (void)cf_http_reply(ex->http, status, body[0] != '\0' ? "application/json" : NULL, all,
                        body, strlen(body));
}

/* The request is over with an error of the API's own form; what it was uploading is dropped.
 */
static void
refuse(struct exchange *ex, int status, const char *code, const char *message)
{
    static const char *const challenge[] = {"WWW-Authenticate", "Basic realm=\"cfrunner\"",
                                            NULL};
    char body[400];

    cf_store_upload_drop(ex->upload);
    ex->upload = NULL;
    cf_log(ex->registry->log, CF_LOG_DEBUG, "registry", "%s of %s refused: %d %s: %s",
           ex->method, ex->path.name, status, code, message);
    /* codes and messages are our own words: nothing in them needs escaping */
    (void)snprintf(body, sizeof body, "{\"errors\":[{\"code\":\"%s\",\"message\":\"%s\"}]}\n",
                   code, message);
    reply(ex, status, status == 401 ? challenge : NULL, body);
}

static void
refuse_method(struct exchange *ex)
{
    refuse(ex, 405, "UNSUPPORTED", "this method is not served here");
}

/* ---- uploads ------------------------------------------------------------------------- */

static void
reply_upload(struct exchange *ex, int status)
{
    struct cf_upload *upload = ex->upload;
    char location[400], range[48];
    const char *const headers[] = {"Location",           location,   "Range", range,
                                   "Docker-Upload-UUID", upload->id, NULL};

    (void)snprintf(location, sizeof location, "/v2/%s/blobs/uploads/%s", ex->path.name,
                   upload->id);
    (void)snprintf(range, sizeof range, "0-%" PRIu64, upload->size > 0 ? upload->size - 1 : 0);
    upload->is_taken = false;
    ex->upload = NULL;
    reply(ex, status, headers, "");
}

static void
reply_stored(struct exchange *ex, const char *kind, const char *last, const char *digest)
{
    char location[500];
    const char *const headers[] = {"Location", location, "Docker-Content-Digest", digest,
                                   NULL};

    (void)snprintf(location, sizeof location, "/v2/%s/%s/%s", ex->path.name, kind, last);
    reply(ex, 201, headers, "");
}

static void
on_renamed(void *user, int64_t result, const char *bytes)
{
    struct exchange *ex = user;

    if (result < 0 || cf_store_upload_keep(ex->upload, ex->hex) < 0) {
        refuse(ex, 500, "UNKNOWN", "the blob could not be kept");
        return;
    }
    ex->upload = NULL;
    reply_stored(ex, "blobs", ex->digest, ex->digest);
}

static void
finish_upload(struct exchange *ex)
{
    unsigned char hash[crypto_hash_sha256_BYTES];
    struct cf_buf path = {0};

    if (!cf_registry_is_digest(ex->digest)) {
        refuse(ex, 400, "DIGEST_INVALID", "digest must be sha256: and 64 hexadecimal digits");
        return;
    }
    crypto_hash_sha256_final(&ex->upload->hash, hash);
    cf_hex(hash, sizeof hash, ex->hex);
    if (strcmp(ex->hex, ex->digest + strlen("sha256:")) != 0) {
        refuse(ex, 400, "DIGEST_INVALID", "the bytes that came do not have this digest");
    } else if (cf_store_blob(ex->registry, ex->digest) != NULL) {
        cf_store_upload_drop(ex->upload);
        ex->upload = NULL;
        reply_stored(ex, "blobs", ex->digest, ex->digest);
    } else if (ex->registry->blob_count >= CF_REGISTRY_BLOBS) {
        refuse(ex, 413, "SIZE_INVALID", "too many blobs for one run");
    } else if (cf_buf_addf(&path, "%s/%s", ex->registry->directory, ex->hex) < 0) {
        refuse(ex, 500, "UNKNOWN", "out of memory");
    } else {
        cf_file_rename(ex->upload->file, path.data, on_renamed, ex);
    }
    cf_buf_release(&path);
}

static void
on_written(void *user, int64_t result, const char *bytes)
{
    struct exchange *ex = user;

    if (result < 0) {
        cf_log(ex->registry->log, CF_LOG_ERROR, "registry", "cannot write into %s: %s",
               ex->registry->directory, uv_strerror((int)result));
        refuse(ex, result == UV_ENOSPC ? 507 : 500, "UNKNOWN",
               "the blob could not be written");
        return;
    }
    cf_http_conn_resume(ex->http); /* the exchange may be over afterwards */
}

static int
append(struct exchange *ex, const char *bytes, size_t len)
{
    struct cf_upload *upload = ex->upload;

    if (!cf_store_reserve(ex->registry, len)) {
        refuse(ex, 413, "SIZE_INVALID", "more bytes than one run's registry keeps");
        return -1;
    }
    upload->size += len;
    crypto_hash_sha256_update(&upload->hash, (const unsigned char *)bytes, len);
    cf_file_write(upload->file, bytes, len, on_written, ex);
    return CF_HTTP_PAUSE;
}

/* Content-Range of a PATCH, "first-last": a piece that does not begin where the last one ended
 * would make another blob. */
static bool
goes_on(const struct exchange *ex)
{
    const char *range = cf_http_header(ex->http, "Content-Range");
    char first[24];
    uint64_t value;
    size_t len = range == NULL ? 0 : strcspn(range, "-");

    if (range == NULL)
        return true;
    if (len >= sizeof first)
        return false;
    memcpy(first, range, len);
    first[len] = '\0';
    return cf_parse_u64(first, 0, UINT64_MAX, &value) && value == ex->upload->size;
}

static void
begin_upload(struct exchange *ex)
{
    if (strcmp(ex->method, "POST") != 0) {
        refuse_method(ex);
        return;
    }
    ex->upload = cf_store_upload_new(ex->registry);
    if (ex->upload == NULL)
        refuse(ex, 429, "TOOMANYREQUESTS", "too many uploads at once");
    else
        ex->upload->is_taken = true;
}

static void
take_upload(struct exchange *ex)
{
    struct cf_upload *upload = cf_store_upload(ex->registry, ex->path.last);

    if (upload == NULL || upload->is_taken) {
        refuse(ex, 404, "BLOB_UPLOAD_UNKNOWN", "no such upload, or another request is at it");
        return;
    }
    upload->is_taken = true;
    ex->upload = upload;
    if (strcmp(ex->method, "GET") == 0) {
        reply_upload(ex, 204);
    } else if (strcmp(ex->method, "DELETE") == 0) {
        cf_store_upload_drop(upload);
        ex->upload = NULL;
        reply(ex, 204, NULL, "");
    } else if (strcmp(ex->method, "PATCH") != 0 && strcmp(ex->method, "PUT") != 0) {
        refuse_method(ex);
    } else if (!goes_on(ex)) {
        upload->is_taken = false; /* it stands as it was */
        ex->upload = NULL;
        refuse(ex, 416, "BLOB_UPLOAD_INVALID",
               "the piece does not begin where the upload ends");
    }
}

/* ---- blobs out ----------------------------------------------------------------------- */

static void read_next(struct exchange *ex);

static void
on_piece(void *user, int64_t result, const char *bytes)
{
    struct exchange *ex = user;
    uint64_t len = result <= 0 ? 0 : (uint64_t)result < ex->left ? (uint64_t)result : ex->left;

    if (len == 0 || cf_http_reply_body(ex->http, bytes, (size_t)len) < 0) {
        cf_http_reply_abort(ex->http); /* the peer must not take a part for the whole */
        return;
    }
    ex->at += len;
    ex->left -= len;
    read_next(ex);
}

static void
read_next(struct exchange *ex)
{
    ex->waits_for_drain = ex->left > 0 && cf_http_reply_queued(ex->http) > QUEUE_HIGH;
    if (ex->left == 0)
        (void)cf_http_reply_end(ex->http);
    else if (!ex->waits_for_drain)
        cf_file_fetch(ex->file, ex->at, on_piece, ex);
}

/* "bytes=FIRST-[LAST]" within the blob; anything else is as if it were absent. */
static bool
read_range(const struct exchange *ex, uint64_t size, uint64_t *ret_first, uint64_t *ret_len)
{
    const char *range = cf_http_header(ex->http, "Range");
    unsigned long long first, last;
    int n = 0;

    if (range == NULL || sscanf(range, "bytes=%20llu-%n", &first, &n) != 1 || n == 0 ||
        first >= size)
        return false;
    if (range[n] == '\0')
        last = size - 1;
    else if (sscanf(range + n, "%20llu%n", &last, &n) != 1 || last < first)
        return false;
    if (last > size - 1)
        last = size - 1;
    *ret_first = first;
    *ret_len = last - first + 1;
    return true;
}

static void
send_blob(struct exchange *ex, const struct cf_blob *blob)
{
    char digest[72], range[80];
    const char *headers[] = {"Docker-Distribution-API-Version",
                             "registry/2.0",
                             "Content-Type",
                             "application/octet-stream",
                             "Docker-Content-Digest",
                             digest,
                             "Accept-Ranges",
                             "bytes",
                             NULL,
                             NULL,
                             NULL};
    bool is_part = read_range(ex, blob->size, &ex->at, &ex->left);

    if (!is_part)
        ex->left = blob->size;
    (void)snprintf(digest, sizeof digest, "sha256:%s", blob->hex);
    if (is_part) {
        (void)snprintf(range, sizeof range, "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, ex->at,
                       ex->at + ex->left - 1, blob->size);
        headers[8] = "Content-Range";
        headers[9] = range;
    }
    ex->file = cf_store_file(ex->registry, blob->hex, false);
    if (ex->file == NULL ||
        cf_http_reply_head(ex->http, is_part ? 206 : 200, headers, ex->left) < 0) {
        cf_http_reply_abort(ex->http);
        return;
    }
    if (strcmp(ex->method, "HEAD") == 0)
        ex->left = 0;
    read_next(ex);
}

static void
answer_blob(struct exchange *ex)
{
    const struct cf_blob *blob = cf_store_blob(ex->registry, ex->path.last);

    if (strcmp(ex->method, "GET") != 0 && strcmp(ex->method, "HEAD") != 0)
        refuse_method(ex);
    else if (blob == NULL)
        refuse(ex, 404, "BLOB_UNKNOWN", "no blob of this digest was pushed");
    else
        send_blob(ex, blob);
}

/* ---- manifests ----------------------------------------------------------------------- */

static void
answer_manifest(struct exchange *ex)
{
    const struct cf_manifest *manifest =
        cf_store_manifest(ex->registry, ex->path.name, ex->path.last);

    if (manifest == NULL) {
        refuse(ex, 404, "MANIFEST_UNKNOWN", "no manifest of this name was pushed");
        return;
    }
    const char *const headers[] = {"Docker-Distribution-API-Version", "registry/2.0",
                                   "Docker-Content-Digest", manifest->digest, NULL};
    (void)cf_http_reply(ex->http, 200, manifest->type, headers, manifest->bytes,
                        manifest->len);
}

static bool
is_here(const struct exchange *ex, const json_t *descriptor)
{
    const char *digest = cf_json_str(descriptor, "digest");

    if (digest == NULL || !cf_registry_is_digest(digest))
        return false;
    return cf_store_blob(ex->registry, digest) != NULL ||
           cf_store_manifest(ex->registry, "", digest) != NULL ||
           cf_json_arr(descriptor, "urls") != NULL; /* lies elsewhere by its own word */
}

/* Everything a manifest names has to be here already, else nobody could pull it. */
static bool
is_complete(const struct exchange *ex, const json_t *manifest)
{
    static const char *const lists[] = {"layers", "manifests"};
    size_t index;
    json_t *entry;

    if (cf_json_obj(manifest, "config") != NULL &&
        !is_here(ex, cf_json_obj(manifest, "config")))
        return false;
    for (size_t i = 0; i < CF_COUNT(lists); i++)
        json_array_foreach(cf_json_arr(manifest, lists[i]), index,
                           entry) if (!is_here(ex, entry)) return false;
    return true;
}

static void
keep_manifest(struct exchange *ex, const json_t *value)
{
    const char *type = cf_http_header(ex->http, "Content-Type");
    const char *media = cf_json_str(value, "mediaType"), *why;
    const char *tag = cf_registry_is_digest(ex->path.last) ? NULL : ex->path.last;
    const struct cf_manifest *manifest;
    unsigned char hash[crypto_hash_sha256_BYTES];

    crypto_hash_sha256(hash, (const unsigned char *)ex->manifest.data, ex->manifest.len);
    cf_hex(hash, sizeof hash, ex->hex);
    if (tag == NULL && strcmp(ex->path.last + strlen("sha256:"), ex->hex) != 0) {
        refuse(ex, 400, "DIGEST_INVALID", "the manifest does not have this digest");
        return;
    }
    if (type == NULL)
        type = media != NULL ? media : "application/vnd.oci.image.manifest.v1+json";
    manifest =
        cf_store_manifest_put(ex->registry, ex->path.name, tag, type, &ex->manifest, &why);
    if (manifest == NULL)
        refuse(ex, 413, "MANIFEST_INVALID", why);
    else
        reply_stored(ex, "manifests", ex->path.last, manifest->digest);
}

static void
put_manifest(struct exchange *ex)
{
    struct cf_error err;
    json_t *value = cf_json_parse(ex->manifest.data, ex->manifest.len, NULL, &err);

    if (ex->manifest.failed || value == NULL || cf_json_int(value, "schemaVersion", 0) != 2)
        refuse(ex, 400, "MANIFEST_INVALID", "not a manifest of schema version 2");
    else if (!is_complete(ex, value))
        refuse(ex, 400, "MANIFEST_BLOB_UNKNOWN",
               "the manifest names a blob that was not pushed");
    else
        keep_manifest(ex, value);
    json_decref(value);
}

static int
collect_manifest(struct exchange *ex, const char *bytes, size_t len)
{
    ex->manifest.limit_bytes = CF_REGISTRY_MANIFEST_BYTES;
    if (cf_buf_add(&ex->manifest, bytes, len) == 0)
        return 0;
    refuse(ex, 413, "MANIFEST_INVALID", "a manifest over 4 MiB");
    return -1;
}

static void
answer_tags(struct exchange *ex)
{
    json_t *names = json_array();
    const struct cf_tag *tag;
    struct cf_buf body = {0};

    TAILQ_FOREACH(tag, &ex->registry->tags, link)
    if (strcmp(tag->name, ex->path.name) == 0)
        (void)json_array_append_new(
            names, json_string(tag->tag)); /* short of memory, short of a tag */
    json_t *value = json_pack("{s:s, s:o}", "name", ex->path.name, "tags", names);
    if (value == NULL || cf_json_append(&body, value) < 0)
        refuse(ex, 500, "UNKNOWN", "out of memory");
    else
        reply(ex, 200, NULL, body.data);
    json_decref(value);
    cf_buf_release(&body);
}

/* ---- the handler --------------------------------------------------------------------- */

static bool
is_allowed(const struct exchange *ex)
{
    const char *expected = ex->registry->authorization;
    const char *given = cf_http_header(ex->http, "Authorization");
    size_t len;

    if (expected == NULL)
        return true;
    if (given == NULL || strncasecmp(given, "Basic ", 6) != 0)
        return false;
    given += 6;
    len = strlen(expected);
    return strlen(given) == len && sodium_memcmp(given, expected, len) == 0;
}

static void
begin(struct exchange *ex)
{
    bool is_read = strcmp(ex->method, "GET") == 0 || strcmp(ex->method, "HEAD") == 0;

    switch (ex->path.route) {
    case CF_REGISTRY_UNKNOWN:
        refuse(ex, 404, "NAME_UNKNOWN",
               "no path of the distribution API, or a malformed name");
        break;
    case CF_REGISTRY_BEGIN:
        begin_upload(ex);
        break;
    case CF_REGISTRY_UPLOAD:
        take_upload(ex);
        break;
    case CF_REGISTRY_BLOB:
        answer_blob(ex);
        break;
    case CF_REGISTRY_BASE:
    case CF_REGISTRY_TAG_LIST:
        if (!is_read)
            refuse_method(ex);
        else if (ex->path.route == CF_REGISTRY_BASE)
            reply(ex, 200, NULL, "{}");
        else
            answer_tags(ex);
        break;
    case CF_REGISTRY_MANIFEST:
        if (is_read)
            answer_manifest(ex);
        else if (strcmp(ex->method, "PUT") != 0)
            refuse_method(ex);
        break;
    }
}

static void
on_request(void *user, struct cf_http_conn *http, const struct cf_http_request *request)
{
    struct cf_registry *registry = user;
    struct exchange *ex = calloc(1, sizeof *ex);

    if (ex == NULL) {
        (void)cf_http_reply(http, 500, "text/plain", NULL, "out of memory\n", 14);
        return;
    }
    cf_http_conn_set_user(http, ex);
    ex->registry = registry;
    ex->http = http;
    (void)snprintf(ex->method, sizeof ex->method, "%s",
                   request->method); /* a long one is none of ours */
    cf_registry_path_read(request->path, &ex->path);
    if (!cf_registry_query(request->query, "digest", ex->digest, sizeof ex->digest))
        ex->digest[0] = '\0';
    cf_log(registry->log, CF_LOG_TRACE, "registry", "%s %s", request->method, request->path);
    if (!is_allowed(ex)) {
        refuse(ex, 401, "UNAUTHORIZED", "the credentials of this run are needed");
        return;
    }
    registry->requests++;
    begin(ex);
}

static int
on_body(void *user, struct cf_http_conn *http, const char *bytes, size_t len)
{
    struct exchange *ex = cf_http_conn_get_user(http);

    if (ex->upload != NULL)
        return append(ex, bytes, len);
    return ex->path.route == CF_REGISTRY_MANIFEST ? collect_manifest(ex, bytes, len) : 0;
}

static void
on_complete(void *user, struct cf_http_conn *http)
{
    struct exchange *ex = cf_http_conn_get_user(http);

    if (ex->upload == NULL) {
        if (ex->path.route == CF_REGISTRY_MANIFEST && strcmp(ex->method, "PUT") == 0)
            put_manifest(ex);
    } else if (strcmp(ex->method, "PUT") == 0 ||
               (strcmp(ex->method, "POST") == 0 && ex->digest[0] != '\0')) {
        finish_upload(ex);
    } else {
        reply_upload(ex, 202);
    }
}

static void
on_drain(void *user, struct cf_http_conn *http)
{
    struct exchange *ex = cf_http_conn_get_user(http);

    if (ex != NULL && ex->waits_for_drain)
        read_next(ex);
}

static void
on_end(void *user, struct cf_http_conn *http)
{
    struct exchange *ex = cf_http_conn_get_user(http);

    if (ex == NULL)
        return;
    cf_http_conn_set_user(http, NULL);
    cf_store_upload_drop(ex->upload);
    cf_file_close(ex->file, false);
    cf_buf_release(&ex->manifest);
    free(ex);
}

const struct cf_http_handler cf_exchange_handler = {
    .on_request = on_request,
    .on_body = on_body,
    .on_complete = on_complete,
    .on_drain = on_drain,
    .on_done = on_end,
    .on_abort = on_end,
};
