/* Recordings that are kept: each says today what it said when it was made; cut anywhere, a
 * beginning of that; and what is no recording of ours is refused, not believed. */
#include "observe/replay.h"

#include "tests/support/unit.h"

#include <glob.h>
#include <stdio.h>
#include <string.h>

#define FOLDER "fixtures/recordings"

static void
on_observation(void *user, const struct cf_observation *o)
{
    struct cf_buf *told = user;

    (void)cf_buf_addf(told, "%llu \"turn\":%u,\"observation\":", (unsigned long long)o->seq, o->turn);
    (void)cf_buf_add(told, o->json, o->json_len);
    (void)cf_buf_adds(told, "}\n");
}

static struct cf_buf
read_whole(const char *path)
{
    struct cf_buf buf = {0};
    FILE *file = fopen(path, "rb");
    char bytes[4096];
    size_t len;

    ck_assert_msg(file != NULL, "%s is missing", path);
    while ((len = fread(bytes, 1, sizeof bytes, file)) > 0)
        ck_assert_int_eq(cf_buf_add(&buf, bytes, len), 0);
    fclose(file);
    return buf;
}

/* 0, or what replaying `len` bytes of it said was wrong. `same`: the verdict is the recorded one. */
static int
play(const struct cf_buf *file, size_t len, struct cf_buf *told, bool *ret_is_same, struct cf_error *err)
{
    const struct cf_replay_events events = {.on_observation = on_observation, .user = told};
    struct cf_replay *replay = cf_replay_new(&events);
    struct cf_recording_reader reader = {0};
    int status = cf_recording_feed(&reader, file->data, len, cf_replay_record, replay, err);
    json_t *verdict = cf_replay_verdict(replay);

    *ret_is_same = cf_replay_is_same(replay, verdict);
    json_decref(verdict);
    cf_recording_reader_release(&reader);
    cf_replay_free(replay);
    return status;
}

START_TEST(kept_recordings_say_what_they_said)
{
    glob_t found;

    ck_assert_int_eq(glob(FOLDER "/*.cfr", 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        struct cf_buf file = read_whole(found.gl_pathv[i]), told = {0};
        char path[300];
        struct cf_error err = {0};
        bool is_same;
        snprintf(path, sizeof path, "%.*s.told", (int)strlen(found.gl_pathv[i]) - 4, found.gl_pathv[i]);
        struct cf_buf wanted = read_whole(path);
        ck_assert_msg(play(&file, file.len, &told, &is_same, &err) == 0, "%s: %s", path, err.text);
        ck_assert_str_eq(told.data, wanted.data);
        ck_assert_msg(is_same, "%s: another verdict", path);
        for (size_t cut = 0; cut < file.len; cut += 97) {
            struct cf_buf part = {0};
            ck_assert_msg(play(&file, cut, &part, &is_same, &err) == 0, "%s cut at %zu: %s", path, cut, err.text);
            ck_assert(part.len <= wanted.len && (part.len == 0 || memcmp(part.data, wanted.data, part.len) == 0));
            cf_buf_release(&part);
        }
        cf_buf_release(&file);
        cf_buf_release(&told);
        cf_buf_release(&wanted);
    }
    globfree(&found);
}
END_TEST

/* ---- what is kept is enough: every observation, every call, every minor ------------------------ */

struct census {
    bool kinds[64], calls[64];
};

static int
count_record(void *user, const struct cf_record *record, struct cf_error *err)
{
    struct census *census = user;
    struct cf_record_call call;

    census->kinds[record->kind < 64 ? record->kind : 0] = true;
    if (record->kind == CF_RECORD_CALL && cf_record_call_read(record, &call) == 0)
        census->calls[call.which < 64 ? call.which : 0] = true;
    return 0;
}

/* Reads all that are kept; names end in the minor that wrote them: "hooked-1.1.cfr". */
static void
take_census(struct census *census, unsigned by_minor[CF_RECORDING_MINOR + 1], struct cf_buf *told)
{
    glob_t found;

    ck_assert_int_eq(glob(FOLDER "/*.cfr", 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        struct cf_buf file = read_whole(found.gl_pathv[i]);
        struct cf_recording_reader reader = {0};
        struct cf_error err = {0};
        char path[300], suffix[40];
        ck_assert_int_eq(cf_recording_feed(&reader, file.data, file.len, count_record, census, &err), 0);
        ck_assert_uint_le(reader.minor, CF_RECORDING_MINOR);
        snprintf(suffix, sizeof suffix, "-%u.%u.cfr", reader.major, reader.minor);
        ck_assert_msg(strstr(found.gl_pathv[i], suffix) != NULL, "%s was written by %s", found.gl_pathv[i], suffix);
        by_minor[reader.minor]++;
        snprintf(path, sizeof path, "%.*s.told", (int)strlen(found.gl_pathv[i]) - 4, found.gl_pathv[i]);
        struct cf_buf wanted = read_whole(path);
        ck_assert_int_eq(cf_buf_add(told, wanted.data, wanted.len), 0);
        cf_buf_release(&wanted);
        cf_recording_reader_release(&reader);
        cf_buf_release(&file);
    }
    globfree(&found);
    ck_assert_int_eq(cf_buf_add(told, "", 1), 0);
}

START_TEST(what_is_kept_has_every_observation_every_call_and_every_minor)
{
    struct census census = {{false}, {false}};
    unsigned by_minor[CF_RECORDING_MINOR + 1] = {0};
    struct cf_buf told = {0};
    char type[80];

    take_census(&census, by_minor, &told);
    for (unsigned minor = 0; minor <= CF_RECORDING_MINOR; minor++)
        ck_assert_msg(by_minor[minor] > 0, "nothing is kept of minor %u", minor);
    for (unsigned t = CF_OBSERVATION_READY; t <= CF_OBSERVATION_FAILED; t++) {
        snprintf(type, sizeof type, "\"%s\"", cf_observation_type_name(t));
        ck_assert_msg(strstr(told.data, type) != NULL, "nothing that is kept has %s", type);
    }
    for (unsigned which = CF_CALL_READY; which <= CF_CALL_TURN_END; which++)
        ck_assert_msg(census.calls[which], "nothing that is kept has the call %s", cf_recorded_call_name(which));
    for (unsigned kind = CF_RECORD_START; kind <= CF_RECORD_FAREWELL; kind++) {
        bool is_of_another = kind == CF_RECORD_VERDICT || kind == CF_RECORD_MASKED; /* test oci's; a harness that leaks */
        ck_assert_msg(census.kinds[kind] || is_of_another, "nothing that is kept has %s", cf_record_kind_name(kind));
    }
    cf_buf_release(&told);
}
END_TEST

static void
begin(struct cf_buf *file)
{
    static const char start[] = "{\"protocol\":\"oneshot-v1\",\"output_mode\":\"text\",\"seed\":"
                                "\"000102030405060708090a0b0c0d0e0f\"}";

    cf_recording_head(file);
    cf_recording_put(file, CF_RECORD_START, 0, start, sizeof start - 1);
}

static void
refused(struct cf_buf *file, const char *words)
{
    struct cf_buf told = {0};
    struct cf_error err = {0};
    bool is_same;

    ck_assert_int_lt(play(file, file->len, &told, &is_same, &err), 0);
    ck_assert_msg(strstr(err.text, words) != NULL, "%s", err.text);
    cf_buf_release(&told);
    cf_buf_release(file);
}

START_TEST(a_call_that_the_wire_does_not_bear_out_is_refused)
{
    struct cf_buf file = {0};
    char call[CF_RECORD_CALL_BYTES];

    begin(&file);
    cf_recording_put(&file, CF_RECORD_SPAWN, 1, "{}", 2);
    cf_recording_put(&file, CF_RECORD_OUTPUT, 1, "hello\n", 6);
    cf_record_call_head(call, CF_CALL_TEXT, 77);
    cf_recording_put(&file, CF_RECORD_CALL, 1, call, sizeof call);
    refused(&file, "live, the wire said text at frame 77");
}
END_TEST

START_TEST(records_in_no_order_are_refused)
{
    struct cf_buf file = {0};
    char call[CF_RECORD_CALL_BYTES];

    cf_recording_head(&file);
    cf_recording_put(&file, CF_RECORD_OUTPUT, 1, "hello\n", 6);
    refused(&file, "before the beginning");
    begin(&file);
    cf_recording_put(&file, CF_RECORD_OUTPUT, 1, "hello\n", 6);
    refused(&file, "output before a process");
    begin(&file);
    cf_recording_put(&file, CF_RECORD_CALL, 1, "x", 1);
    refused(&file, "too short");
    begin(&file);
    cf_record_call_head(call, CF_CALL_DECLARE, 1);
    cf_recording_put(&file, CF_RECORD_CALL, 1, call, sizeof call);
    refused(&file, "did not bring");
    begin(&file);
    begin(&file);
    refused(&file, "");
}
END_TEST

START_TEST(kinds_and_calls_of_a_later_minor_are_passed_over)
{
    struct cf_buf file = {0}, told = {0};
    struct cf_error err = {0};
    char call[CF_RECORD_CALL_BYTES];
    bool is_same;

    begin(&file);
    cf_recording_put(&file, 99, 1, "later", 5);
    cf_record_call_head(call, (enum cf_recorded_call)99, 1);
    cf_recording_put(&file, CF_RECORD_CALL, 1, call, sizeof call);
    ck_assert_msg(play(&file, file.len, &told, &is_same, &err) == 0, "%s", err.text);
    ck_assert(!is_same);
    cf_buf_release(&file);
    cf_buf_release(&told);
}
END_TEST

UNIT_MAIN("observe/replay", tcase_add_test(tc, kept_recordings_say_what_they_said);
          tcase_add_test(tc, what_is_kept_has_every_observation_every_call_and_every_minor);
          tcase_add_test(tc, a_call_that_the_wire_does_not_bear_out_is_refused);
          tcase_add_test(tc, records_in_no_order_are_refused);
          tcase_add_test(tc, kinds_and_calls_of_a_later_minor_are_passed_over);)
