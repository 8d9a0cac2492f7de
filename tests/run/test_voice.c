/* A run's voice on a loop of its own, into a journal of its own; nothing else of the run is there. */
#include "run/hall.h"
#include "run/voice_impl.h"

#include "base/clock.h"
#include "base/str.h"
#include "json/json.h"

#include "tests/support/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROJECT "11111111-2222-4333-8444-555555555555"

struct rig {
    uv_loop_t loop;
    struct cf_run run;
    char dir[64], journal[96], identity[96], lock[128];
    struct cf_corr_key key;
    int done, status;
    struct cf_error err;
};
static struct rig rig;

static void
on_done(struct cf_run *run, int status, const struct cf_error *err)
{
    rig.done++;
    rig.status = status;
    if (err != NULL)
        rig.err = *err;
}

static void
write_file(const char *path, const char *text, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, len), (ssize_t)len);
    (void)close(fd);
}

static void
set_up(void)
{
    struct cf_corr_identity identity;
    struct cf_corr_keyring *keyring;
    struct cf_error err = {0};
    size_t len;
    char *text;

    memset(&rig, 0, sizeof rig);
    ck_assert_int_eq(cf_corr_init(), 0);
    (void)snprintf(rig.dir, sizeof rig.dir, "/tmp/cf-voice-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(rig.dir));
    (void)snprintf(rig.journal, sizeof rig.journal, "%s/journal", rig.dir);
    (void)snprintf(rig.identity, sizeof rig.identity, "%s/me.key", rig.dir);
    (void)snprintf(rig.lock, sizeof rig.lock, "%s/lock", rig.journal);
    cf_corr_identity_make(&identity);
    text = cf_corr_identity_text(&identity, &len);
    write_file(rig.identity, text, len);
    free(text);
    memcpy(rig.key.identity_id, identity.identity_id, CF_CORR_UUID_SIZE);
    memcpy(rig.key.signing_key_id, identity.signing_key_id, CF_CORR_UUID_SIZE);
    cf_corr_public_key(identity.seed, rig.key.public_key);
    rig.key.is_active = true;
    keyring = cf_corr_keyring_new();
    ck_assert_int_eq(cf_corr_keyring_put(keyring, &rig.key), 0);
    ck_assert_msg(cf_journal_create(rig.journal, PROJECT, keyring, 1, &err) == 0, "%s", err.text);
    cf_corr_keyring_free(keyring);
    ck_assert_int_eq(uv_loop_init(&rig.loop), 0);
    rig.run.loop = &rig.loop;
    rig.run.findings = json_array();
    rig.run.turn = 1;
    rig.run.teardown_proven = true;
    (void)snprintf(rig.run.id, sizeof rig.run.id, "run_test");
    rig.run.options.journal = rig.journal;
    rig.run.options.identity = rig.identity;
    rig.run.options.repository_id = "repo";
    rig.run.options.thread_id = "thread";
    rig.run.options.claim_paths = json_pack("[s, s]", "src", "docs/specs");
    rig.run.options.claim_ms = 120000;
}

static void
tear_down(void)
{
    char command[128];

    cf_voice_free(rig.run.voice);
    json_decref(rig.run.findings);
    json_decref(rig.run.options.claim_paths);
    ck_assert_int_eq(uv_loop_close(&rig.loop), 0);
    (void)snprintf(command, sizeof command, "rm -rf %s", rig.dir);
    ck_assert_int_eq(system(command), 0);
}

static void
run_until_done(int wanted)
{
    while (rig.done < wanted)
        ck_assert(uv_run(&rig.loop, UV_RUN_ONCE) != 0 || rig.done >= wanted);
}

static void
on_pause(uv_timer_t *timer)
{
    uv_close((uv_handle_t *)timer, NULL);
    uv_stop(&rig.loop);
}

static void
run_for(uint64_t ms)
{
    static uv_timer_t timer;

    (void)uv_timer_init(&rig.loop, &timer);
    (void)uv_timer_start(&timer, on_pause, ms, 0);
    (void)uv_run(&rig.loop, UV_RUN_DEFAULT);
    (void)uv_run(&rig.loop, UV_RUN_NOWAIT);
}

static void
prepare_ok(void)
{
    struct cf_error err = {0};

    ck_assert_msg(cf_voice_prepare(&rig.run, &err) == 0, "%s", err.text);
}

static void
open_ok(void)
{
    struct cf_error err = {0};

    prepare_ok();
    ck_assert_msg(cf_voice_open(&rig.run, on_done, &err) == 0, "%s", err.text);
    ck_assert_int_eq(rig.done, 0); /* never from inside */
    run_until_done(1);
    ck_assert_msg(rig.status == 0, "%s", rig.err.text);
}

static void
close_all(void)
{
    int before = rig.done;

    cf_voice_close(&rig.run, on_done);
    run_until_done(before + 1);
    ck_assert_int_eq(rig.status, 0);
}

/* The kinds of all events, in order, with a space behind each; and the voice's own verdict of it. */
static const char *
kinds(void)
{
    static char text[4096];
    struct cf_journal *journal = NULL;
    struct cf_error err = {0};
    size_t len, i;
    char *page, *report;
    json_t *document, *record;
    bool is_valid = false;

    text[0] = '\0';
    ck_assert_msg(cf_journal_open(rig.journal, &journal, &err) == 0, "%s", err.text);
    page = cf_journal_page(journal, NULL, 200, &len, &err);
    document = json_loadb(page, len, 0, NULL);
    free(page);
    json_array_foreach(json_object_get(document, "events"), i, record)
    {
        const char *lineage = cf_json_str(record, "lineage_status");
        ck_assert(strcmp(lineage, "valid") == 0 || strcmp(lineage, "not_applicable") == 0);
        ck_assert_uint_eq(json_array_size(json_object_get(record, "missing_parents")), 0);
        strcat(text, cf_json_str(json_object_get(record, "event"), "kind"));
        strcat(text, " ");
    }
    json_decref(document);
    cf_journal_close(journal);
    report = cf_journal_verify(rig.journal, &is_valid, &len, &err);
    ck_assert_msg(is_valid, "%s", report != NULL ? report : err.text);
    free(report);
    return text;
}

static int
hold_lock(void)
{
    int fd = open(rig.lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    while (rig.run.voice != NULL && rig.run.voice->in_flight > 0)
        (void)uv_run(&rig.loop, UV_RUN_ONCE);
    (void)uv_run(&rig.loop, UV_RUN_NOWAIT);
    ck_assert_int_eq(flock(fd, LOCK_EX | LOCK_NB), 0);
    return fd;
}

static bool
is_complete(void)
{
    json_t *said = cf_voice_json(&rig.run);
    bool is = cf_json_bool(said, "complete", false);

    ck_assert(json_is_object(said));
    json_decref(said);
    return is;
}

START_TEST(without_a_journal_there_is_no_voice)
{
    struct cf_error err = {0};
    json_t *none;

    rig.run.options.journal = NULL;
    ck_assert_int_eq(cf_voice_prepare(&rig.run, &err), 0);
    ck_assert_ptr_null(rig.run.voice);
    cf_voice_phase(&rig.run, "image", "", UINT64_MAX);
    cf_voice_turn(&rig.run, "finished");
    cf_voice_file_begin(&rig.run, "collect");
    cf_voice_file_bytes(&rig.run, "x", 1);
    cf_voice_file_taken(&rig.run, "x");
    cf_voice_give_up(&rig.run);
    cf_voice_hurry(&rig.run);
    none = cf_voice_json(&rig.run);
    ck_assert(json_is_null(none));
    cf_voice_close(&rig.run, on_done);
    ck_assert_int_eq(rig.done, 1);
}
END_TEST

START_TEST(a_whole_life_is_claim_progress_offers_release_and_close)
{
    open_ok();
    cf_voice_phase(&rig.run, "image", "", UINT64_MAX);
    cf_voice_phase(&rig.run, "image", "build", 5);     /* a step is no phase */
    cf_voice_phase(&rig.run, "relay", "", UINT64_MAX); /* no news */
    cf_voice_phase(&rig.run, "turn", "", UINT64_MAX);
    cf_voice_turn(&rig.run, "finished");
    cf_voice_file_begin(&rig.run, "collect");
    cf_voice_file_bytes(&rig.run, "abc", 3);
    cf_voice_file_taken(&rig.run, "made");
    cf_voice_file_begin(&rig.run, "state"); /* not what is offered */
    cf_voice_file_taken(&rig.run, "state");
    close_all();
    ck_assert_str_eq(kinds(), "claim.open progress progress progress progress artifact.offer artifact.offer claim.release "
                              "close ");
    ck_assert(is_complete());
}
END_TEST

START_TEST(a_claim_outlives_its_time_by_renewal)
{
    struct cf_corr_query query = {"repo", NULL, "src"};
    struct cf_journal *journal = NULL;
    struct cf_error err = {0};
    size_t len;
    char *claims;

    rig.run.options.claim_ms = 600; /* below what options allow: a test has no time */
    open_ok();
    run_for(1000);
    ck_assert_int_eq(cf_journal_open(rig.journal, &journal, &err), 0);
    claims = cf_journal_claims(journal, &query, cf_voice_now_ms(), &len, &err);
    ck_assert_ptr_nonnull(strstr(claims, rig.run.voice->claim.claim_id));
    free(claims);
    claims = cf_journal_claims(journal, &query, cf_voice_now_ms() + 700, &len, &err); /* as after a crash now */
    ck_assert_ptr_null(strstr(claims, rig.run.voice->claim.claim_id));
    free(claims);
    cf_journal_close(journal);
    close_all();
    ck_assert(is_complete());
    ck_assert_ptr_nonnull(strstr(kinds(), "claim.renew claim.renew claim.renew "));
}
END_TEST

START_TEST(a_hundred_turns_at_once_are_a_burst_of_progress)
{
    size_t count = 0;

    open_ok();
    for (int i = 0; i < 100; i++)
        cf_voice_turn(&rig.run, "finished");
    close_all();
    for (const char *at = kinds(); (at = strstr(at, "progress ")) != NULL; at++)
        count++;
    ck_assert_uint_eq(count, CF_RATE_BURST);
}
END_TEST

START_TEST(another_live_claim_is_a_finding_that_names_it)
{
    struct cf_voice *first;
    json_t *finding, *both;

    open_ok();
    first = rig.run.voice;
    rig.run.voice = NULL;
    rig.done = 0;
    both = rig.run.options.claim_paths; /* the first voice borrows from it */
    rig.run.options.claim_paths = json_pack("[s]", "src/server");
    open_ok();
    ck_assert_uint_eq(json_array_size(rig.run.findings), 1);
    finding = json_array_get(rig.run.findings, 0);
    ck_assert_str_eq(cf_json_str(finding, "id"), "claim_overlap");
    ck_assert_ptr_nonnull(strstr(cf_json_str(finding, "text"), first->claim.claim_id));
    ck_assert_ptr_nonnull(strstr(cf_json_str(finding, "text"), " on src until "));
    close_all();
    ck_assert(is_complete());
    cf_voice_free(rig.run.voice);
    rig.run.voice = first;
    close_all();
    ck_assert(is_complete());
    json_decref(both);
}
END_TEST

START_TEST(a_claim_that_is_not_awaited_is_still_released)
{
    struct cf_error err = {0};

    prepare_ok();
    ck_assert_int_eq(cf_voice_open(&rig.run, on_done, &err), 0);
    cf_voice_give_up(&rig.run);
    ck_assert_int_eq(rig.done, 1);
    ck_assert_int_eq(rig.status, -1);
    close_all();
    ck_assert_str_eq(kinds(), "claim.open claim.release close ");
}
END_TEST

START_TEST(a_journal_whose_lock_is_held_fails_the_opening_in_time)
{
    struct cf_error err = {0};
    int lock = hold_lock();

    prepare_ok();
    ck_assert_int_eq(cf_voice_open(&rig.run, on_done, &err), 0);
    run_until_done(1);
    ck_assert_int_eq(rig.status, -1);
    ck_assert_ptr_nonnull(strstr(rig.err.text, "claim.open"));
    ck_assert(rig.err.fix[0] != '\0');
    close_all();
    (void)close(lock);
    ck_assert_str_eq(kinds(), "");
    ck_assert(!is_complete());
}
END_TEST

START_TEST(a_lock_held_at_the_end_is_not_waited_for_long)
{
    uint64_t began;
    int lock;

    open_ok();
    lock = hold_lock();
    began = cf_clock_ms();
    cf_voice_close(&rig.run, on_done);
    cf_voice_hurry(&rig.run);
    run_until_done(2);
    ck_assert_uint_lt(cf_clock_ms() - began, 2000);
    ck_assert(!is_complete());
    (void)close(lock);
    ck_assert_uint_ge(json_array_size(rig.run.findings), 1);
}
END_TEST

START_TEST(a_renewal_that_failed_does_not_break_the_lineage)
{
    int lock;

    rig.run.options.claim_ms = 900;
    open_ok();
    lock = hold_lock();
    run_for(400); /* one renewal waits for the lock, and fails after CF_VOICE_LOCK_MS */
    ck_assert(rig.run.voice->is_renewing);
    run_for(CF_VOICE_LOCK_MS);
    ck_assert_uint_ge(rig.run.voice->failed_count, 1);
    (void)close(lock);
    run_for(700);
    close_all();
    ck_assert(!is_complete());
    ck_assert_ptr_nonnull(strstr(kinds(), "claim.renew claim.release close "));
}
END_TEST

static void
refused(const char *word)
{
    struct cf_error err = {0};

    ck_assert_int_eq(cf_voice_prepare(&rig.run, &err), -1);
    ck_assert_msg(strstr(err.text, word) != NULL, "wanted %s: %s", word, err.text);
    ck_assert_msg(err.fix[0] != '\0' || strstr(word, "seed") != NULL, "no fix: %s", err.text);
    cf_voice_free(rig.run.voice);
    rig.run.voice = NULL;
}

START_TEST(what_is_wrong_is_said_before_a_loop_turns)
{
    static const char test_key[] = "{\"seed_b64url\":\"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8\"}";
    struct cf_run_options *o = &rig.run.options;
    struct cf_corr_keyring *keyring = cf_corr_keyring_new();
    struct cf_journal *journal = NULL;
    struct cf_error err = {0};

    o->repository_id = "with space";
    refused("opaque_id");
    o->repository_id = "repo";
    json_array_set_new(o->claim_paths, 0, json_string("../up"));
    refused("path_not_normalized");
    json_array_set_new(o->claim_paths, 0, json_string("docs/specs"));
    refused("duplicate_path");
    json_array_set_new(o->claim_paths, 0, json_string("."));
    o->journal = "/nonexistent/journal";
    refused("/nonexistent/journal");
    o->journal = rig.journal;
    o->identity = "/dev/zero";
    refused("/dev/zero");
    o->identity = "/nonexistent/me.key";
    refused("/nonexistent/me.key");
    o->identity = rig.identity;
    rig.key.is_active = false;
    ck_assert_int_eq(cf_corr_keyring_put(keyring, &rig.key), 0);
    ck_assert_int_eq(cf_journal_open(rig.journal, &journal, &err), 0);
    ck_assert_int_eq(cf_journal_trust(journal, keyring, 2, &err), 0);
    cf_journal_close(journal);
    cf_corr_keyring_free(keyring);
    refused("inactive");
    write_file(rig.identity, test_key, strlen(test_key));
    refused("published test key");
    write_file(rig.identity, "{}", 2);
    refused("seed_b64url_required");
}
END_TEST

START_TEST(an_identity_file_that_others_can_read_is_a_finding)
{
    ck_assert_int_eq(chmod(rig.identity, 0644), 0);
    open_ok();
    ck_assert_str_eq(cf_json_str(json_array_get(rig.run.findings, 0), "id"), "identity_exposed");
    close_all();
}
END_TEST

UNIT_MAIN("run/voice", tcase_add_checked_fixture(tc, set_up, tear_down);
          tcase_add_test(tc, without_a_journal_there_is_no_voice);
          tcase_add_test(tc, a_whole_life_is_claim_progress_offers_release_and_close);
          tcase_add_test(tc, a_claim_outlives_its_time_by_renewal);
          tcase_add_test(tc, a_hundred_turns_at_once_are_a_burst_of_progress);
          tcase_add_test(tc, another_live_claim_is_a_finding_that_names_it);
          tcase_add_test(tc, a_claim_that_is_not_awaited_is_still_released);
          tcase_add_test(tc, a_journal_whose_lock_is_held_fails_the_opening_in_time);
          tcase_add_test(tc, a_lock_held_at_the_end_is_not_waited_for_long);
          tcase_add_test(tc, a_renewal_that_failed_does_not_break_the_lineage);
          tcase_add_test(tc, what_is_wrong_is_said_before_a_loop_turns);
          tcase_add_test(tc, an_identity_file_that_others_can_read_is_a_finding);)
