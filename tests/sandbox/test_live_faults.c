/*
 * An engine that fails in the middle: each request of a sandbox's story spoiled in each way,
 * once or for good. Wanted every time: an ending within its bound, and no false proof: what is
 * called gone is gone, and what is there is named. CF_FAULTS=all tries every pair; without it
 * every fourth, with sanitizers every twelfth.
 */
#include "tests/sandbox/rig.h"
#include "tests/support/engine_proxy.h"

struct fault {
    const char *name;
    enum proxy_fault fault;
    int status;
};

static const struct fault faults[] = {
    {"500", PROXY_STATUS, 500},
    {"404", PROXY_STATUS, 404},
    {"409", PROXY_STATUS, 409},
    {"hang", PROXY_HANG, 0},
    {"reset", PROXY_RESET, 0},
    {"garbage", PROXY_GARBAGE, 0},
    {"done, no answer", PROXY_LOST_HANG, 0},
    {"done, reset", PROXY_LOST_RESET, 0},
    {"cut", PROXY_CUT, 0},
    {"slow", PROXY_SLOW, 0},
};

static const struct request {
    const char *name, *method, *text;
    int skip; /* so many of the kind are left alone first */
} requests[] = {
    {"inspect image", "GET", "/images/sha256", 0},
    {"create volume", "POST", "/volumes/create", 0},
    {"create container", "POST", "/containers/create", 0},
    {"inspect container", "GET", "/json HTTP", 1},
    {"stat a path", "HEAD", "/archive", 0},
    {"put", "PUT", "/archive", 0},
    {"attach", "POST", "/attach", 0},
    {"wait", "POST", "/wait", 0},
    {"start", "POST", "/start", 0},
    {"remove container", "DELETE", "/containers/", 0},
    {"remove volume", "DELETE", "/volumes/", 0},
    {"list containers", "GET", "/containers/json", 0},
    {"list volumes", "GET", "/volumes?", 0},
};

struct faulty {
    struct rig rig;
    struct engine_proxy proxy;
    struct cf_engine *via;
    struct rig_image image;
    int answers, status;
};

static void
on_via_connected(void *user, int status, const struct cf_error *err)
{
    struct faulty *f = user;
    f->answers++;
    f->status = status;
}

static bool
faulty_open(struct faulty *f)
{
    static const char *const changes[] = {"VOLUME /data", "USER 1000", NULL};
    struct cf_engine_options options = {0};

    memset(f, 0, sizeof *f);
    if (!rig_open(&f->rig, "faults"))
        return false;
    const char *endpoint = cf_engine_facts(f->rig.live.engine)->endpoint;
    if (strncmp(endpoint, "unix://", 7) != 0) {
        printf("SKIPPED sandbox/faults: the Engine is not on a unix socket\n");
        rig_close(&f->rig);
        return false;
    }
    f->image = rig_image(&f->rig, "true", changes);
    proxy_open(&f->proxy, &f->rig.live.loop, endpoint);
    options.endpoint = f->proxy.url;
    ck_assert_int_eq(cf_engine_open(&f->rig.live.loop, &options, &f->via, &f->rig.live.err),
                     0);
    ck_assert_int_eq(cf_engine_connect(f->via, 10000, on_via_connected, f, &f->rig.live.err),
                     0);
    RIG_EXPECT(&f->rig, f->answers == 1, 10000);
    ck_assert_int_eq(f->status, 0);
    return true;
}

static void
on_via_closed(void *user)
{
    ((struct faulty *)user)->via = NULL;
}

static void
faulty_close(struct faulty *f)
{
    cf_engine_close(f->via, on_via_closed, f);
    RIG_EXPECT(&f->rig, f->via == NULL, 5000);
    proxy_close(&f->proxy);
    rig_image_remove(&f->rig, &f->image);
    rig_close(&f->rig);
}

/* How many things with the run's label the engine has, asked directly; each is in `left`. */
static size_t
audit(struct faulty *f, const struct box *box, const char *what)
{
    static const char *const kinds[] = {"containers", "volumes"};
    char label[128];
    size_t found = 0;

    snprintf(label, sizeof label, CF_LABEL ".run=%s", box->run);
    for (int kind = 0; kind < 2; kind++) {
        ck_assert_int_eq(cf_engine_list(f->rig.live.engine, kinds[kind], label, live_on_done,
                                        &f->rig.live, NULL, &f->rig.live.err),
                         0);
        live_wait(&f->rig.live);
        ck_assert_msg(f->rig.live.status == 0, "%s", f->rig.live.err.text);
        json_t *list =
                   kind == 1 ? json_object_get(f->rig.live.json, "Volumes") : f->rig.live.json,
               *entry, *left;
        size_t i, j;
        json_array_foreach(list, i, entry) {
            const char *id = cf_json_str(entry, kind == 1 ? "Name" : "Id");
            const char *name =
                kind == 1
                    ? id
                    : json_string_value(json_array_get(json_object_get(entry, "Names"), 0)) +
                          1;
            bool is_named = false;
            json_array_foreach(box->left, j, left) {
                is_named = is_named || cf_str_same(cf_json_str(left, "id"), id) ||
                           cf_str_same(cf_json_str(left, "id"), name) ||
                           cf_str_same(cf_json_str(left, "kind"), "unknown");
                ck_assert_ptr_nonnull(strstr(cf_json_str(left, "remove"), f->proxy.url));
            }
            ck_assert_msg(is_named, "%s: %s %s is left and not told", what, kinds[kind], id);
            found++;
        }
    }
    return found;
}

static void
on_swept_up(void *user, const struct cf_teardown *result)
{
    struct faulty *f = user;
    f->answers++;
    f->status = result->proven ? 0 : -1;
}

/* Removes what a fault for good left behind, directly. */
static void
sweep_up(struct faulty *f, const struct box *box)
{
    char label[128];

    snprintf(label, sizeof label, CF_LABEL ".run=%s", box->run);
    f->answers = 0;
    ck_assert_int_eq(cf_sweep_open(&f->rig.live.loop, f->rig.live.engine, label, 20000,
                                   on_swept_up, f, NULL, &f->rig.live.err),
                     0);
    RIG_EXPECT(&f->rig, f->answers == 1, 25000);
    ck_assert_int_eq(f->status, 0);
}

static void
try_fault(struct faulty *f, const struct request *request, const struct fault *fault,
          int times, uint64_t start_ms)
{
    struct cf_sandbox_options options = rig_options(&f->rig, &f->image, "/bin/sh");
    struct box box;
    char what[128];

    snprintf(what, sizeof what, "%s: %s x %d", request->name, fault->name, times);
    options.engine = f->via;
    options.start_timeout_ms = start_ms;
    options.grace_ms = 1000;
    f->proxy.method = request->method;
    f->proxy.text = request->text;
    f->proxy.fault = fault->fault;
    f->proxy.status = fault->status;
    f->proxy.skip = request->skip;
    f->proxy.times = times;
    f->proxy.hits = 0;
    box_open(&f->rig, &box, &options);
    RIG_EXPECT(&f->rig, box.is_ready || box.is_failed, (int)start_ms + 7000);
    if (box.is_ready)
        ck_assert_str_eq(box_run(&box, "echo well"), "well\n");
    box_close(&box, 1000);
    uint64_t began = cf_clock_ms();
    RIG_EXPECT(&f->rig, box.is_closed, 13000);
    f->proxy.fault = PROXY_NONE;
    size_t found = audit(f, &box, what);
    ck_assert_msg(!box.is_proven || found == 0, "%s: proven, but %zu are left", what, found);
    ck_assert_msg(box.is_proven || json_array_size(box.left) > 0,
                  "%s: not proven, but nothing told", what);
    printf("%-40s %-5s%-11s %zu left, closed in %llu ms%s%s\n", what,
           box.is_ready ? "ready" : "", box.is_failed ? " failed" : "", found,
           (unsigned long long)(cf_clock_ms() - began), box.is_failed ? ": " : "",
           box.is_failed ? box.err.text : "");
    fflush(stdout);
    if (f->proxy.hits == 0)
        printf("  (the fault met no request)\n");
    if (found > 0 || !box.is_proven)
        sweep_up(f, &box);
    box_release(&box);
}

/* What is waited for is the same with sanitizers: these look at a part of it. */
#ifdef __SANITIZE_ADDRESS__
enum { SPARING = 3 };
#else
enum { SPARING = 1 };
#endif

START_TEST(each_request_spoiled_once_ends_well_and_leaves_nothing_untold)
{
    bool all = getenv("CF_FAULTS") != NULL;
    struct faulty f;

    if (!faulty_open(&f))
        return;
    for (size_t i = 0; i < CF_COUNT(requests); i++)
        for (size_t j = 0; j < CF_COUNT(faults); j++)
            if (all || (i + j) % (4 * SPARING) == 0)
                try_fault(&f, &requests[i], &faults[j], 1, 4000);
    faulty_close(&f);
}
END_TEST

START_TEST(what_fails_for_good_is_told_with_a_line_that_removes_it)
{
    static const int chosen[] = {2, 8, 9, 10, 11};
    bool all = getenv("CF_FAULTS") != NULL;
    struct faulty f;

    if (!faulty_open(&f))
        return;
    for (size_t i = 0; i < CF_COUNT(chosen); i++)
        for (size_t j = 0; j < CF_COUNT(faults); j++)
            if (all || (i + j) % (5 * SPARING) == 0)
                try_fault(&f, &requests[chosen[i]], &faults[j], 1000000, 3000);
    faulty_close(&f);
}
END_TEST

START_TEST(an_engine_that_goes_away_is_told_and_cf_init_ends_the_sandbox)
{
    struct faulty f;
    struct box box;
    char id[80];

    if (!faulty_open(&f))
        return;
    struct cf_sandbox_options options = rig_options(&f.rig, &f.image, "/bin/sh");
    options.engine = f.via;
    box_open(&f.rig, &box, &options);
    RIG_EXPECT(&f.rig, box.is_ready, 10000);
    box_spawn(&box, "trap '' TERM; while :; do sleep 1; done");
    RIG_EXPECT(&f.rig, box.has_started, 5000);
    snprintf(id, sizeof id, "%s", cf_sandbox_container_id(box.sandbox));
    proxy_die(&f.proxy);
    RIG_EXPECT(&f.rig, box.is_failed, 5000);
    ck_assert_msg(strstr(box.err.text, "the engine is gone") != NULL, "%s", box.err.text);
    ck_assert_int_eq(box.err.kind, CF_ERROR_ENGINE);
    ck_assert(box.has_exited && box.exit.lost);
    box_close(&box, 500);
    RIG_EXPECT(&f.rig, box.is_closed, 12000);
    ck_assert(!box.is_proven);
    ck_assert_uint_eq(audit(&f, &box, "engine gone"), 2); /* and both are told */
    ck_assert_int_eq(cf_engine_container_inspect(f.rig.live.engine, id, live_on_done,
                                                 &f.rig.live, NULL, &f.rig.live.err),
                     0);
    live_wait(&f.rig.live);
    json_t *state = cf_json_obj(f.rig.live.json, "State");
    ck_assert_str_eq(cf_json_str(state, "Status"), "exited");
    ck_assert_int_eq(cf_json_int(state, "ExitCode", -1), 70);
    sweep_up(&f, &box);
    box_release(&box);
    faulty_close(&f);
}
END_TEST

UNIT_MAIN("sandbox/faults", {
    tcase_set_timeout(tc, 1800);
    tcase_add_test(tc, each_request_spoiled_once_ends_well_and_leaves_nothing_untold);
    tcase_add_test(tc, what_fails_for_good_is_told_with_a_line_that_removes_it);
    tcase_add_test(tc, an_engine_that_goes_away_is_told_and_cf_init_ends_the_sandbox);
})
