/*
 * A fake Engine that replays what a real one answered (fixtures/engine/answers, as it came over
 * the wire), whole and spoiled in each way: 500, silence, reset, cut at many places, garbage,
 * 404 and then present, 409, byte by byte.
 */
#include "base/str.h"
#include "tests/engine/live.h"
#include "tests/support/fake_engine.h"
#include "tests/support/unit.h"

#include <dirent.h>

#define FOLDER "fixtures/engine/answers"
#define OK "HTTP/1.1 200 OK\r\n"
#define BODY(text) "Content-Type: application/json\r\nConnection: close\r\n\r\n" text
#define REFUSED(status) "HTTP/1.1 " status " Spoiled\r\n" BODY("{\"message\":\"spoiled\"}")

struct answer { /* one file: "METHOD PATH\n", then the bytes */
    char name[64], method[16], path[200], request[240];
    char *bytes;
    size_t len;
    int status;
};

static struct answer answers[32];
static size_t answer_count;

static void
read_one(const char *name)
{
    struct answer *a = &answers[answer_count];
    char path[300], line[240];
    FILE *file;

    snprintf(path, sizeof path, FOLDER "/%.100s", name);
    file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_ptr_nonnull(fgets(line, sizeof line, file));
    ck_assert_int_eq(sscanf(line, "%15s %199s", a->method, a->path), 2);
    a->bytes = malloc(65536);
    a->len = fread(a->bytes, 1, 65535, file);
    a->bytes[a->len] = '\0';
    fclose(file);
    ck_assert_int_eq(sscanf(a->bytes, "HTTP/1.1 %d", &a->status), 1);
    snprintf(a->name, sizeof a->name, "%.60s", name);
    snprintf(line, sizeof line, "%s /v1.41%s ", a->method, a->path);
    memcpy(a->request, line, sizeof line);
    answer_count++;
}

static void
read_all(void)
{
    struct dirent *entry;
    DIR *folder = opendir(FOLDER);

    ck_assert_msg(folder != NULL, "no %s: tests run in the checkout", FOLDER);
    while (answer_count < CF_COUNT(answers) && (entry = readdir(folder)) != NULL)
        if (strstr(entry->d_name, ".http") != NULL)
            read_one(entry->d_name);
    closedir(folder);
    ck_assert_uint_ge(answer_count, 12);
}

struct rig {
    struct live live;
    struct fake_engine fake;
    struct fake_answer *table; /* a new row for each question: connections remember theirs */
    size_t rows;
};

#define ROWS 4096

static void
rig_up(struct rig *rig)
{
    struct cf_engine_options options = {.docker_config_dir = "/nonexistent"};

    memset(rig, 0, sizeof *rig);
    rig->table = calloc(ROWS, sizeof *rig->table);
    rig->table[0] = (struct fake_answer){"HEAD /_ping", OK "Api-Version: 1.41\r\nContent-Length: 0\r\n\r\n", 0, false, 0};
    rig->table[1] = (struct fake_answer){
        "GET /version", OK BODY("{\"Version\":\"20.10.0\",\"ApiVersion\":\"1.41\",\"MinAPIVersion\":\"1.12\","
                                "\"Os\":\"linux\",\"Arch\":\"amd64\"}"), 0, true, 0};
    rig->table[2] = (struct fake_answer){"GET /v1.41/info", OK BODY("{\"ID\":\"x\",\"NCPU\":2,\"MemTotal\":1000}"), 0, true, 0};
    live_init(&rig->live);
    rig->rows = 3;
    fake_open(&rig->fake, &rig->live.loop, rig->table, rig->rows);
    options.endpoint = rig->fake.url;
    ck_assert_int_eq(cf_engine_open(&rig->live.loop, &options, &rig->live.engine, &rig->live.err), 0);
    ck_assert_int_eq(cf_engine_connect(rig->live.engine, 10000, live_on_connect, &rig->live, &rig->live.err), 0);
    live_wait(&rig->live);
    ck_assert_msg(rig->live.status == 0, "%s", rig->live.err.text);
}

static void
rig_down(struct rig *rig)
{
    fake_close(&rig->fake);
    live_close(&rig->live);
    free(rig->table);
}

/* The request of `a`, answered with these bytes (NULL: none, then closed or not). */
static void
ask(struct rig *rig, const struct answer *a, const char *bytes, size_t len, bool closes, size_t slice, uint64_t deadline_ms)
{
    struct cf_engine_request request = {.method = a->method, .path = a->path, .deadline_ms = deadline_ms};
    struct cf_error err = {0};

    ck_assert_uint_lt(rig->rows, ROWS);
    if (rig->rows > 3)
        rig->table[rig->rows - 1].request = "over";
    rig->table[rig->rows++] = (struct fake_answer){a->request, bytes, len, closes, slice};
    rig->fake.count = rig->rows;
    memset(&rig->live.err, 0, sizeof rig->live.err);
    ck_assert_int_eq(cf_engine_call(rig->live.engine, &request, live_on_done, &rig->live, NULL, &err), 0);
    live_wait(&rig->live);
}

static void
expect_refused(const struct rig *rig, const struct answer *a, const char *how)
{
    ck_assert_msg(rig->live.status < 0, "%s, %s: taken for an answer", a->name, how);
    ck_assert_msg(strlen(rig->live.err.text) > 10, "%s, %s: \"%s\"", a->name, how, rig->live.err.text);
    ck_assert_msg(cf_error_blame(rig->live.err.kind) == CF_BLAME_ENGINE, "%s, %s: %s", a->name, how, rig->live.err.text);
}

/* As the real one meant it. */
static void
expect_whole(const struct rig *rig, const struct answer *a, const char *how)
{
    if (a->status < 300) {
        ck_assert_msg(rig->live.status == 0, "%s, %s: %s", a->name, how, rig->live.err.text);
        return;
    }
    expect_refused(rig, a, how);
    ck_assert_msg(rig->live.err.code == a->status, "%s, %s: code %d", a->name, how, rig->live.err.code);
}

#define EACH(a) for (const struct answer *a = answers; a < answers + answer_count; a++)

START_TEST(what_was_recorded_is_read_at_once_and_byte_by_byte)
{
    struct rig rig;

    read_all();
    rig_up(&rig);
    EACH(a) {
        ask(&rig, a, a->bytes, a->len, false, 0, 10000);
        expect_whole(&rig, a, "whole");
        /* each piece takes a turn of the fake's clock: long ones in somewhat larger pieces */
        ask(&rig, a, a->bytes, a->len, false, 1 + a->len / 500, 60000);
        expect_whole(&rig, a, "byte by byte");
    }
    rig_down(&rig);
}
END_TEST

START_TEST(what_is_cut_anywhere_is_no_answer)
{
    struct rig rig;

    read_all();
    rig_up(&rig);
    EACH(a) {
        const char *body = strstr(a->bytes, "\r\n\r\n");
        bool has_none = a->status == 204;
        size_t end = has_none ? (size_t)(body - a->bytes) : a->len;
        for (size_t at = 1; at < end - 1; at += 1 + end / 23) {
            ask(&rig, a, a->bytes, at, true, 0, 10000);
            /* a refusal whose words are cut off is a refusal still */
            expect_refused(&rig, a, "cut");
        }
    }
    rig_down(&rig);
}
END_TEST

START_TEST(what_is_spoiled_is_told_as_what_it_is)
{
    static const char garbage[] = "\x01\x02\xff not HTTP at all\r\n\r\n";
    struct rig rig;

    read_all();
    rig_up(&rig);
    EACH(a) {
        ask(&rig, a, REFUSED("500"), 0, true, 0, 10000);
        expect_refused(&rig, a, "500");
        ck_assert_int_eq(rig.live.err.code, 500);
        ask(&rig, a, REFUSED("409"), 0, true, 0, 10000);
        expect_refused(&rig, a, "409");
        ck_assert_int_eq(rig.live.err.code, 409);
        ask(&rig, a, REFUSED("404"), 0, true, 0, 10000);
        expect_refused(&rig, a, "404");
        ck_assert_int_eq(rig.live.err.kind, CF_ERROR_NOT_FOUND);
        ask(&rig, a, a->bytes, a->len, false, 0, 10000);
        expect_whole(&rig, a, "then present");
        ask(&rig, a, garbage, sizeof garbage - 1, true, 0, 10000);
        expect_refused(&rig, a, "garbage");
        ask(&rig, a, NULL, 0, true, 0, 10000);
        expect_refused(&rig, a, "reset");
        ask(&rig, a, NULL, 0, false, 0, 60);
        expect_refused(&rig, a, "hang");
        ck_assert_int_eq(rig.live.err.kind, CF_ERROR_ENGINE_TIMEOUT);
    }
    rig_down(&rig);
}
END_TEST

UNIT_MAIN("engine/recorded", {
    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, what_was_recorded_is_read_at_once_and_byte_by_byte);
    tcase_add_test(tc, what_is_cut_anywhere_is_no_answer);
    tcase_add_test(tc, what_is_spoiled_is_told_as_what_it_is);
})
