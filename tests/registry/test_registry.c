/* The registry on a real port; its clients run in a thread of their own and may block. */
#include "base/buf.h"
#include "base/str.h"
#include "registry/registry.h"
#include "tests/support/unit.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <dirent.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

struct world {
    uv_loop_t loop;
    uv_async_t async;
    struct cf_registry *registry;
    char folder[64], base[64];
    void (*scenario)(struct world *world);
    bool is_closed;
};

static void
run_scenario(void *user)
{
    struct world *world = user;

    world->scenario(world);
    uv_async_send(&world->async);
}

static void
on_closed(void *user)
{
    ((struct world *)user)->is_closed = true;
}

static void
on_async(uv_async_t *async)
{
    struct world *world = async->data;

    uv_close((uv_handle_t *)async, NULL);
    cf_registry_close(world->registry, on_closed, world);
}

static unsigned
files_in(const char *folder)
{
    unsigned count = 0;
    struct dirent *entry;
    DIR *dir = opendir(folder);

    ck_assert_ptr_nonnull(dir);
    while ((entry = readdir(dir)) != NULL)
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

/* Serves while the scenario runs; then closes, and nothing may be left. */
static void
play(void (*scenario)(struct world *world), const struct cf_registry_options *more)
{
    struct cf_registry_options options = *more;
    struct world world = {.scenario = scenario};
    struct cf_error err = {0};
    uv_thread_t thread;

    signal(SIGPIPE, SIG_IGN);
    strcpy(world.folder, "/tmp/test-registry-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(world.folder));
    options.directory = world.folder;
    ck_assert_int_eq(uv_loop_init(&world.loop), 0);
    ck_assert_msg(cf_registry_open(&world.loop, &options, &world.registry, &err) == 0, "%s",
                  err.text);
    snprintf(world.base, sizeof world.base, "http://127.0.0.1:%u/v2/",
             cf_registry_port(world.registry));
    world.async.data = &world;
    ck_assert_int_eq(uv_async_init(&world.loop, &world.async, on_async), 0);
    ck_assert_int_eq(uv_thread_create(&thread, run_scenario, &world), 0);
    uv_run(&world.loop, UV_RUN_DEFAULT);
    uv_thread_join(&thread);
    ck_assert(world.is_closed);
    ck_assert_int_eq(uv_loop_close(&world.loop), 0);
    ck_assert_uint_eq(files_in(world.folder), 0);
    ck_assert_int_eq(rmdir(world.folder), 0);
}

/* ---- a client ------------------------------------------------------------------------ */

struct answer {
    long status;
    struct cf_buf head, body;
};

static size_t
on_bytes(char *bytes, size_t size, size_t count, void *user)
{
    cf_buf_add(user, bytes, size * count);
    return size * count;
}

static void
ask(struct world *world, const char *method, const char *path, const char *header,
    const char *body, size_t len, struct answer *ret)
{
    CURL *curl = curl_easy_init();
    struct curl_slist *headers =
        curl_slist_append(NULL, header != NULL ? header : "X-Nothing: 1");
    char url[600];

    cf_buf_reset(&ret->head);
    cf_buf_reset(&ret->body);
    snprintf(url, sizeof url, "%s%s", strncmp(path, "/v2/", 4) == 0 ? "" : world->base, path);
    if (url[0] == '/')
        snprintf(url, sizeof url, "%.*s%s", (int)strlen(world->base) - 4, world->base, path);
    headers = curl_slist_append(headers, "Expect:");
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
    curl_easy_setopt(curl, CURLOPT_NOBODY, (long)(strcmp(method, "HEAD") == 0));
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, 30L);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &ret->body);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_bytes);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, &ret->head);
    if (body != NULL) {
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)len);
    }
    ck_assert_int_eq(curl_easy_perform(curl), CURLE_OK);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &ret->status);
    cf_buf_adds(&ret->body, "");
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
}

static void
answer_release(struct answer *answer)
{
    cf_buf_release(&answer->head);
    cf_buf_release(&answer->body);
}

static void
digest_of(const char *bytes, size_t len, char out[72])
{
    unsigned char hash[32];

    crypto_hash_sha256(hash, (const unsigned char *)bytes, len);
    strcpy(out, "sha256:");
    cf_hex(hash, sizeof hash, out + 7);
}

/* A header's value, copied. */
static void
header_of(const struct answer *answer, const char *name, char *out, size_t size)
{
    const char *at = strcasestr(answer->head.data, name);

    ck_assert_msg(at != NULL, "%s: %s", name, answer->head.data);
    at += strlen(name) + 2;
    snprintf(out, size, "%.*s", (int)strcspn(at, "\r"), at);
}

static void
push_blob(struct world *world, const char *bytes, size_t len, char digest[72])
{
    struct answer answer = {0};
    char path[200];

    digest_of(bytes, len, digest);
    snprintf(path, sizeof path, "a/b/blobs/uploads/?digest=%s", digest);
    ask(world, "POST", path, NULL, bytes, len, &answer);
    ck_assert_int_eq(answer.status, 201);
    answer_release(&answer);
}

/* ---- scenarios ----------------------------------------------------------------------- */

static void
push_in_pieces(struct world *world)
{
    static char bytes[3 * 1024 * 1024];
    struct answer answer = {0};
    char digest[72], location[300], path[500], value[100];

    randombytes_buf(bytes, sizeof bytes);
    digest_of(bytes, sizeof bytes, digest);
    ask(world, "POST", "a/b/blobs/uploads/?mount=sha256:0&from=c", NULL, "", 0, &answer);
    ck_assert_int_eq(answer.status, 202);
    header_of(&answer, "Location", location, sizeof location);
    ask(world, "PATCH", location, "Transfer-Encoding: chunked", bytes, 1000, &answer);
    ck_assert_int_eq(answer.status, 202);
    header_of(&answer, "Range", value, sizeof value);
    ck_assert_str_eq(value, "0-999");
    ask(world, "PATCH", location, "Content-Range: 1001-2000", bytes + 1001, 1000, &answer);
    ck_assert_int_eq(answer.status, 416);
    ask(world, "PATCH", location, "Content-Range: 1000-3145726", bytes + 1000,
        sizeof bytes - 1001, &answer);
    ck_assert_int_eq(answer.status, 202);
    ask(world, "GET", location, NULL, NULL, 0, &answer);
    ck_assert_int_eq(answer.status, 204);
    snprintf(path, sizeof path, "%s?digest=%s", location, digest);
    ask(world, "PUT", path, NULL, bytes + sizeof bytes - 1, 1, &answer);
    ck_assert_int_eq(answer.status, 201);
    header_of(&answer, "Docker-Content-Digest", value, sizeof value);
    ck_assert_str_eq(value, digest);
    ask(world, "GET", location, NULL, NULL, 0, &answer);
    ck_assert_int_eq(answer.status, 404);

    snprintf(path, sizeof path, "a/b/blobs/%s", digest);
    ask(world, "HEAD", path, NULL, NULL, 0, &answer);
    ck_assert_int_eq(answer.status, 200);
    header_of(&answer, "Content-Length", value, sizeof value);
    ck_assert_str_eq(value, "3145728");
    ask(world, "GET", path, NULL, NULL, 0, &answer);
    ck_assert_uint_eq(answer.body.len, sizeof bytes);
    ck_assert_int_eq(memcmp(answer.body.data, bytes, sizeof bytes), 0);
    ask(world, "GET", path, "Range: bytes=500-", NULL, 0, &answer);
    ck_assert_int_eq(answer.status, 206);
    ck_assert_uint_eq(answer.body.len, sizeof bytes - 500);
    ck_assert_int_eq(memcmp(answer.body.data, bytes + 500, sizeof bytes - 500), 0);
    ask(world, "GET", path, "Range: bytes=500-501", NULL, 0, &answer);
    ck_assert_uint_eq(answer.body.len, 2);
    ask(world, "GET", path, "Range: bytes=9999999-", NULL, 0, &answer);
    ck_assert_int_eq(answer.status, 200);
    ask(world, "DELETE", path, NULL, NULL, 0, &answer);
    ck_assert_int_eq(answer.status, 405);
    ck_assert_uint_eq(files_in(world->folder), 1);
    answer_release(&answer);
}

START_TEST(a_blob_pushed_in_pieces_comes_back_whole)
{
    play(push_in_pieces, &(struct cf_registry_options){0});
}
END_TEST

static void
push_wrongly(struct world *world)
{
    struct answer answer = {0};
    char digest[72], path[300], location[200];

    digest_of("other", 5, digest);
    snprintf(path, sizeof path, "a/blobs/uploads/?digest=%s", digest);
    ask(world, "POST", path, NULL, "bytes", 5, &answer);
    ck_assert_int_eq(answer.status, 400);
    ck_assert_ptr_nonnull(strstr(answer.body.data, "DIGEST_INVALID"));
    ask(world, "POST", "a/blobs/uploads/?digest=sha512:1", NULL, "bytes", 5, &answer);
    ck_assert_int_eq(answer.status, 400);
    ask(world, "POST", "a/blobs/uploads/", NULL, "", 0, &answer);
    header_of(&answer, "Location", location, sizeof location);
    ask(world, "PUT", location, NULL, "x", 1, &answer); /* no digest at all */
    ck_assert_int_eq(answer.status, 400);
    ask(world, "POST", "a/blobs/uploads/", NULL, "", 0, &answer);
    header_of(&answer, "Location", location, sizeof location);
    ask(world, "DELETE", location, NULL, NULL, 0, &answer);
    ck_assert_int_eq(answer.status, 204);
    ask(world, "PATCH", location, NULL, "x", 1, &answer);
    ck_assert_int_eq(answer.status, 404);
    ask(world, "GET", "A/manifests/x", NULL, NULL, 0, &answer);
    ck_assert_int_eq(answer.status, 404);
    snprintf(path, sizeof path, "a/blobs/%s", digest);
    ask(world, "GET", path, NULL, NULL, 0, &answer);
    ck_assert_ptr_nonnull(strstr(answer.body.data, "BLOB_UNKNOWN"));
    usleep(100000); /* a file's removal is not waited for by an answer */
    ck_assert_uint_eq(files_in(world->folder), 0);
    digest_of("", 0, digest); /* the empty blob is a blob */
    snprintf(path, sizeof path, "a/blobs/uploads/?digest=%s", digest);
    ask(world, "POST", path, NULL, "", 0, &answer);
    ck_assert_int_eq(answer.status, 201);
    snprintf(path, sizeof path, "a/blobs/%s", digest);
    ask(world, "GET", path, NULL, NULL, 0, &answer);
    ck_assert_int_eq(answer.status, 200);
    ck_assert_uint_eq(answer.body.len, 0);
    answer_release(&answer);
}

START_TEST(a_blob_that_is_not_what_it_says_is_refused_and_leaves_nothing)
{
    play(push_wrongly, &(struct cf_registry_options){0});
}
END_TEST

static void
push_manifests(struct world *world)
{
    struct answer answer = {0};
    char config[72], layer[72], text[1000], digest[72], path[300], value[200];

    push_blob(world, "{}", 2, config);
    push_blob(world, "layer", 5, layer);
    push_blob(world, "layer", 5, layer); /* once more: it is there already */
    snprintf(text, sizeof text,
             "{\"schemaVersion\":2,\"config\":{\"digest\":\"%s\"},\"layers\":[{\"digest\":\"%"
             "s\"}]}",
             config, layer);
    digest_of(text, strlen(text), digest);
    ask(world, "PUT", "a/b/manifests/t1",
        "Content-Type: application/vnd.docker.distribution.manifest.v2+json", text,
        strlen(text), &answer);
    ck_assert_int_eq(answer.status, 201);
    header_of(&answer, "Docker-Content-Digest", value, sizeof value);
    ck_assert_str_eq(value, digest);
    ck_assert_str_eq(cf_registry_digest(world->registry, "a/b", "t1"), digest);
    ck_assert_ptr_null(cf_registry_digest(world->registry, "a/b", "t2"));
    ck_assert_ptr_null(cf_registry_digest(world->registry, "a", "t1"));
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "a/b/manifests/%s", i == 0 ? "t1" : digest);
        ask(world, "HEAD", path, NULL, NULL, 0, &answer);
        ck_assert_int_eq(answer.status, 200);
        header_of(&answer, "Docker-Content-Digest", value, sizeof value);
        ck_assert_str_eq(value, digest);
        ask(world, "GET", path, NULL, NULL, 0, &answer);
        ck_assert_str_eq(answer.body.data, text);
        header_of(&answer, "Content-Type", value, sizeof value);
        ck_assert_str_eq(value, "application/vnd.docker.distribution.manifest.v2+json");
    }
    snprintf(path, sizeof path, "a/b/manifests/%s", config);
    ask(world, "PUT", path, NULL, text, strlen(text), &answer);
    ck_assert_ptr_nonnull(strstr(answer.body.data, "DIGEST_INVALID"));
    strcpy(strstr(text, layer),
           "sha256:0000000000000000000000000000000000000000000000000000000000000000\"}]}");
    ask(world, "PUT", "a/b/manifests/t2", NULL, text, strlen(text), &answer);
    ck_assert_ptr_nonnull(strstr(answer.body.data, "MANIFEST_BLOB_UNKNOWN"));
    ask(world, "PUT", "a/b/manifests/t2", NULL, "{\"schemaVersion\":1}", 19, &answer);
    ck_assert_ptr_nonnull(strstr(answer.body.data, "MANIFEST_INVALID"));
    snprintf(text, sizeof text,
             "{\"schemaVersion\":2,\"mediaType\":\"application/"
             "vnd.oci.image.index.v1+json\",\"manifests\":[{\"digest\":\"%s\"}]}",
             digest);
    ask(world, "PUT", "a/b/manifests/index",
        "Content-Type: application/vnd.oci.image.index.v1+json", text, strlen(text), &answer);
    ck_assert_int_eq(answer.status, 201);
    ask(world, "GET", "a/b/tags/list", NULL, NULL, 0, &answer);
    ck_assert_str_eq(answer.body.data, "{\"name\":\"a/b\",\"tags\":[\"t1\",\"index\"]}");
    ask(world, "GET", "a/b/manifests/t2", NULL, NULL, 0, &answer);
    ck_assert_ptr_nonnull(strstr(answer.body.data, "MANIFEST_UNKNOWN"));
    answer_release(&answer);
}

START_TEST(manifests_keep_their_bytes_type_and_digest_and_name_only_what_is_there)
{
    play(push_manifests, &(struct cf_registry_options){0});
}
END_TEST

static void
try_credentials(struct world *world)
{
    struct answer answer = {0};
    char challenge[100];

    ask(world, "GET", "", NULL, NULL, 0, &answer);
    ck_assert_int_eq(answer.status, 401);
    header_of(&answer, "WWW-Authenticate", challenge, sizeof challenge);
    ck_assert_str_eq(challenge, "Basic realm=\"cfrunner\"");
    ask(world, "GET", "", "Authorization: Basic dTp3cm9uZw==", NULL, 0, &answer);
    ck_assert_int_eq(answer.status, 401);
    ask(world, "GET", "", "Authorization: Bearer dTpwOnE=", NULL, 0, &answer);
    ck_assert_int_eq(answer.status, 401);
    ask(world, "POST", "a/blobs/uploads/", NULL, "x", 1, &answer);
    ck_assert_int_eq(answer.status, 401);
    ck_assert_uint_eq(cf_registry_requests(world->registry), 0);
    ask(world, "GET", "", "Authorization: basic dTpwOnE=", NULL, 0, &answer); /* u:p:q */
    ck_assert_int_eq(answer.status, 200);
    ck_assert_uint_eq(cf_registry_requests(world->registry), 1);
    ck_assert_uint_eq(files_in(world->folder), 0);
    answer_release(&answer);
}

START_TEST(only_the_runs_credentials_are_let_in_and_counted)
{
    play(try_credentials, &(struct cf_registry_options){.user = "u", .password = "p:q"});
}
END_TEST

static void
fill_up(struct world *world)
{
    static char bytes[1001];
    struct answer answer = {0};
    char digest[72], path[200];

    digest_of(bytes, sizeof bytes, digest);
    snprintf(path, sizeof path, "a/blobs/uploads/?digest=%s", digest);
    ask(world, "POST", path, NULL, bytes, sizeof bytes, &answer);
    ck_assert_int_eq(answer.status, 413);
    ck_assert_ptr_nonnull(strstr(answer.body.data, "SIZE_INVALID"));
    ask(world, "POST", "a/blobs/uploads/", NULL, "", 0, &answer);
    header_of(&answer, "Location", path, sizeof path);
    for (int i = 0; i < 2; i++) {
        ask(world, "PATCH", path, NULL, bytes, 600, &answer);
        ck_assert_int_eq(answer.status, i == 0 ? 202 : 413);
    }
    push_blob(world, bytes, 1000,
              digest); /* the refused ones were given up: all the room is here again */
    for (int i = 0; i < 65; i++) {
        ask(world, "POST", "a/blobs/uploads/", NULL, "", 0, &answer);
        ck_assert_int_eq(answer.status, i < 64 ? 202 : 429);
    }
    answer_release(&answer);
}

START_TEST(bytes_and_uploads_are_bounded)
{
    play(fill_up, &(struct cf_registry_options){.max_total_bytes = 1000});
}
END_TEST

static int
dial(struct world *world)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(cf_registry_port(world->registry))};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static void
leave_early(struct world *world)
{
    static const char half[] = "POST /v2/a/blobs/uploads/?digest=x HTTP/1.1\r\nHost: "
                               "a\r\nContent-Length: 100000\r\n\r\nhalf of it";
    char bytes[400];
    int fd = dial(world);

    ck_assert_int_eq(write(fd, half, strlen(half)), (ssize_t)strlen(half));
    usleep(100000);
    ck_assert_uint_eq(files_in(world->folder), 1);
    close(fd); /* in the middle: its upload goes */
    usleep(200000);
    ck_assert_uint_eq(files_in(world->folder), 0);

    fd = dial(world); /* a TLS hello is answered at once, in plain HTTP, so that the engine
                         falls back */
    ck_assert_int_eq(write(fd, "\x16\x03\x01\x02\x00\x01", 6), 6);
    ck_assert_int_gt(read(fd, bytes, sizeof bytes), 20);
    ck_assert_int_eq(memcmp(bytes, "HTTP/1.1 400", 12), 0);
    close(fd);

    fd = dial(world); /* still open, in the middle of a body, when the registry closes */
    ck_assert_int_eq(write(fd, half, strlen(half)), (ssize_t)strlen(half));
    usleep(100000);
}

START_TEST(a_client_that_leaves_or_stays_leaves_no_file_behind)
{
    play(leave_early, &(struct cf_registry_options){0});
}
END_TEST

static void
read_slowly(struct world *world)
{
    static char bytes[8 * 1024 * 1024], piece[64 * 1024];
    struct cf_buf got = {0};
    struct answer answer = {0};
    char digest[72], request[300];
    ssize_t n;
    int fd;

    randombytes_buf(bytes, sizeof bytes);
    push_blob(world, bytes, sizeof bytes, digest);
    fd = dial(world);
    snprintf(request, sizeof request,
             "GET /v2/a/blobs/%s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", digest);
    ck_assert_int_eq(write(fd, request, strlen(request)), (ssize_t)strlen(request));
    usleep(200000); /* the socket is full long since; others are served meanwhile */
    ask(world, "GET", "", NULL, NULL, 0, &answer);
    ck_assert_int_eq(answer.status, 200);
    while ((n = read(fd, piece, sizeof piece)) > 0)
        cf_buf_add(&got, piece, (size_t)n);
    ck_assert_uint_gt(got.len, sizeof bytes);
    ck_assert_int_eq(memcmp(got.data + got.len - sizeof bytes, bytes, sizeof bytes), 0);
    cf_buf_release(&got);
    close(fd);
    answer_release(&answer);
}

START_TEST(a_slow_reader_stalls_nobody_and_gets_everything)
{
    play(read_slowly, &(struct cf_registry_options){0});
}
END_TEST

START_TEST(a_port_in_use_and_a_missing_folder_are_told)
{
    struct cf_registry_options options = {0};
    struct cf_registry *first, *second;
    struct cf_error err = {0};
    uv_loop_t loop;

    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_int_eq(cf_registry_open(&loop, &options, &first, &err), -1);
    options.directory = "/nonexistent";
    ck_assert_int_eq(cf_registry_open(&loop, &options, &first, &err), 0);
    options.port = cf_registry_port(first);
    ck_assert_int_eq(cf_registry_open(&loop, &options, &second, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.text, "cannot listen on 127.0.0.1 port"));
    cf_registry_close(first, NULL, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}
END_TEST

static void
write_nowhere(struct world *world)
{
    struct answer answer = {0};

    ck_assert_int_eq(rmdir(world->folder), 0);
    ask(world, "POST", "a/blobs/uploads/?digest=x", NULL, "bytes", 5, &answer);
    ck_assert_int_eq(answer.status, 500);
    ask(world, "GET", "", NULL, NULL, 0, &answer);
    ck_assert_int_eq(answer.status, 200);
    ck_assert_int_eq(mkdir(world->folder, 0700), 0);
    answer_release(&answer);
}

START_TEST(a_disk_that_refuses_is_an_error_of_that_request_alone)
{
    play(write_nowhere, &(struct cf_registry_options){0});
}
END_TEST

UNIT_MAIN(
    "registry/registry", curl_global_init(CURL_GLOBAL_DEFAULT);
    tcase_add_test(tc, a_blob_pushed_in_pieces_comes_back_whole);
    tcase_add_test(tc, a_blob_that_is_not_what_it_says_is_refused_and_leaves_nothing);
    tcase_add_test(tc, manifests_keep_their_bytes_type_and_digest_and_name_only_what_is_there);
    tcase_add_test(tc, only_the_runs_credentials_are_let_in_and_counted);
    tcase_add_test(tc, bytes_and_uploads_are_bounded);
    tcase_add_test(tc, a_client_that_leaves_or_stays_leaves_no_file_behind);
    tcase_add_test(tc, a_slow_reader_stalls_nobody_and_gets_everything);
    tcase_add_test(tc, a_port_in_use_and_a_missing_folder_are_told);
    tcase_add_test(tc, a_disk_that_refuses_is_an_error_of_that_request_alone);)
