/* The image resolver against a real Engine: by reference, by build context, and back to
 * nothing. */
#include "base/clock.h"
#include "base/ids.h"
#include "base/str.h"
#include "json/json.h"
#include "registry/registry.h"
#include "run/image.h"
#include "tests/engine/live.h"
#include "tests/support/unit.h"

struct want {
    struct live live;
    char state[64], run_id[64];
    struct cf_owner *owner;
    json_t *before; /* ids of all images before */
    struct cf_image *image;
    int dones, closes, steps, warnings;
    int status;
    struct cf_error err;
    char id[80], reference[700], digest[80], tail[4096], warning[512];
    bool was_pulled, was_built, proven;
    json_t *removed, *left;
};

#define RUN_UNTIL(want, condition)                                       \
    while (!(condition) && uv_run(&(want)->live.loop, UV_RUN_ONCE) != 0) \
        ;

static json_t *
image_ids(struct want *want)
{
    json_t *ids = json_object(), *entry;
    size_t i;

    ck_assert_int_eq(
        cf_engine_image_list_all(want->live.engine, live_on_done, &want->live, NULL, NULL), 0);
    live_wait(&want->live);
    ck_assert_int_eq(want->live.status, 0);
    json_array_foreach(want->live.json, i, entry)
        json_object_set(ids, cf_json_str(entry, "Id"), entry);
    return ids;
}

static bool
begin(struct want *want, const char *test)
{
    char hex[33];

    memset(want, 0, sizeof *want);
    if (!live_open(&want->live, test))
        return false;
    snprintf(want->state, sizeof want->state, "/tmp/cf-image-state-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(want->state));
    ck_assert_int_eq(cf_owner_open(want->state, &want->owner, &want->err), 0);
    cf_id_hex(hex);
    snprintf(want->run_id, sizeof want->run_id, "run_%s", hex);
    want->before = image_ids(want);
    return true;
}

/* Whatever a test does, the engine holds afterwards what it held before; other people's
 * images, made meanwhile, do not count: ours carry our label or lie beneath an image that we
 * made. */
static void
end(struct want *want, const char *keep)
{
    json_t *after = image_ids(want), *entry;
    const char *id;

    json_object_foreach(after, id, entry) {
        const json_t *labels = cf_json_obj(entry, "Labels");
        const char *run = cf_json_str(labels, "com.checkfu.runner.run");
        if (json_object_get(want->before, id) == NULL && !cf_str_same(id, keep))
            ck_assert_msg(!cf_str_same(run, want->run_id), "%s is left", id);
    }
    json_decref(after);
    json_decref(want->before);
    json_decref(want->removed);
    json_decref(want->left);
    cf_owner_close(want->owner);
    char command[240];
    snprintf(command, sizeof command,
             "test -z \"$(ls -d %s/registry-* 2>/dev/null)\" && rm -rf %s", want->state,
             want->state);
    ck_assert_int_eq(system(command), 0);
    live_close(&want->live);
}

static void
on_step(void *user, const char *name, uint64_t took_ms)
{
    ((struct want *)user)->steps++;
}

static void
on_warning(void *user, const char *text)
{
    struct want *want = user;
    want->warnings++;
    snprintf(want->warning, sizeof want->warning, "%s", text);
}

static void
on_done(void *user, int status, const struct cf_image_facts *facts, const char *tail,
        const struct cf_error *err)
{
    struct want *want = user;

    want->dones++;
    want->status = status;
    if (err != NULL)
        want->err = *err;
    if (facts != NULL) {
        snprintf(want->id, sizeof want->id, "%s", facts->id);
        snprintf(want->reference, sizeof want->reference, "%s", facts->reference);
        snprintf(want->digest, sizeof want->digest, "%s", facts->digest);
        want->was_pulled = facts->was_pulled;
        want->was_built = facts->was_built;
    }
    snprintf(want->tail, sizeof want->tail, "%s", tail != NULL ? tail : "");
}

static void
on_closed(void *user, const struct cf_teardown *teardown)
{
    struct want *want = user;

    want->closes++;
    want->image = NULL;
    want->proven = teardown->proven;
    want->removed = json_incref(teardown->removed);
    want->left = json_incref(teardown->left);
}

static struct cf_image_options
options_of(struct want *want)
{
    return (struct cf_image_options){.engine = want->live.engine,
                                     .owner = want->owner,
                                     .run_id = want->run_id,
                                     .deadline_unix = cf_clock_unix() + 600,
                                     .deadline_ms = 60000};
}

static int
open_image(struct want *want, const struct cf_image_options *options)
{
    static const struct cf_image_events events = {on_step, NULL, on_warning, on_done};

    if (cf_image_open(&want->live.loop, options, &events, want, &want->image, &want->err) < 0)
        return -1;
    ck_assert_int_eq(want->dones + want->steps, 0);
    return 0;
}

static int
resolve(struct want *want, const struct cf_image_options *options)
{
    if (open_image(want, options) < 0)
        return -1;
    RUN_UNTIL(want, want->dones > 0);
    ck_assert_int_eq(want->dones, 1);
    return want->status;
}

static void
close_image(struct want *want)
{
    cf_image_close(want->image, 20000, on_closed, want);
    RUN_UNTIL(want, want->closes > 0);
    ck_assert_int_eq(want->closes, 1);
    if (!want->proven) {
        char *left = json_dumps(want->left, 0);
        ck_abort_msg("not proven, left: %s", left);
    }
    ck_assert_uint_eq(json_array_size(want->left), 0);
}

static bool
has_removed(const struct want *want, const char *kind)
{
    size_t i;
    json_t *entry;

    json_array_foreach(want->removed, i, entry)
        if (cf_str_same(cf_json_str(entry, "kind"), kind))
            return true;
    return false;
}

static int
inspect(struct want *want, const char *ref)
{
    ck_assert_int_eq(
        cf_engine_image_inspect(want->live.engine, ref, live_on_done, &want->live, NULL, NULL),
        0);
    live_wait(&want->live);
    return want->live.status;
}

/* ---- a registry with one image ---------------------------------------------------------- */

struct shelf {
    struct cf_registry *registry;
    char dir[64], repo[64], digest[80], reference[200];
    bool closed;
};

static void
shelf_closed(void *user)
{
    ((struct shelf *)user)->closed = true;
}

static void
shelf_open(struct shelf *shelf, struct want *want, const char *user, const char *password)
{
    struct cf_registry_options options = {
        .directory = shelf->dir, .user = user, .password = password};
    struct live_build build;
    char context[64], tag[100], *auth = NULL;

    memset(shelf, 0, sizeof *shelf);
    snprintf(shelf->dir, sizeof shelf->dir, "/tmp/cf-shelf-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(shelf->dir));
    ck_assert_int_eq(
        cf_registry_open(&want->live.loop, &options, &shelf->registry, &want->err), 0);
    snprintf(shelf->repo, sizeof shelf->repo, "127.0.0.1:%u/thing",
             cf_registry_port(shelf->registry));
    snprintf(tag, sizeof tag, "%s:one", shelf->repo);
    ck_assert_int_eq(live_context(context, ""), 0);
    ck_assert_int_eq(live_build(&want->live, context, tag, &build), 0);
    live_remove_dir(context);
    if (user != NULL)
        auth = cf_engine_auth_basic(user, password, shelf->repo);
    ck_assert_int_eq(cf_engine_image_push(want->live.engine, shelf->repo, "one", auth, 60000,
                                          NULL, live_on_done, &want->live, NULL, NULL),
                     0);
    live_wait(&want->live);
    ck_assert_msg(want->live.status == 0, "%s", want->live.err.text);
    free(auth);
    snprintf(shelf->digest, sizeof shelf->digest, "%s",
             cf_registry_digest(shelf->registry, "thing", "one"));
    snprintf(shelf->reference, sizeof shelf->reference, "%s@%s", shelf->repo, shelf->digest);
    ck_assert_int_eq(cf_engine_image_remove(want->live.engine, tag, false, false, live_on_done,
                                            &want->live, NULL, NULL),
                     0);
    live_wait(&want->live);
    ck_assert_int_lt(inspect(want, shelf->reference), 0);
}

static void
shelf_close(struct shelf *shelf, struct want *want)
{
    ck_assert_int_eq(cf_engine_image_remove(want->live.engine, shelf->reference, true, false,
                                            live_on_done, &want->live, NULL, NULL),
                     0);
    live_wait(&want->live);
    live_remove_images(&want->live);
    cf_registry_close(shelf->registry, shelf_closed, shelf);
    RUN_UNTIL(want, shelf->closed);
    live_remove_dir(shelf->dir);
}

/* ---- by reference ----------------------------------------------------------------------- */

START_TEST(a_tag_is_refused_with_the_command_that_resolves_it)
{
    struct want want;

    if (!begin(&want, "a_tag_is_refused_with_the_command_that_resolves_it"))
        return;
    struct cf_image_options options = options_of(&want);
    options.reference = "ghcr.io/some/harness:1.2";
    ck_assert_int_lt(open_image(&want, &options), 0);
    ck_assert_int_eq(want.err.kind, CF_ERROR_CONFIG);
    ck_assert_ptr_nonnull(strstr(want.err.fix,
                                 "docker buildx imagetools inspect ghcr.io/some/harness:1.2 "
                                 "--format '{{.Manifest.Digest}}'"));
    ck_assert_ptr_nonnull(
        strstr(want.err.fix,
               "docker inspect --format '{{index .RepoDigests 0}}' ghcr.io/some/harness:1.2"));
    options.reference = "not a reference";
    ck_assert_int_lt(open_image(&want, &options), 0);
    options.reference = NULL;
    ck_assert_int_lt(open_image(&want, &options), 0);
    end(&want, NULL);
}
END_TEST

START_TEST(a_missing_image_is_pulled_and_stays_and_policies_hold)
{
    struct want want;
    struct shelf shelf;

    if (!begin(&want, "a_missing_image_is_pulled_and_stays_and_policies_hold"))
        return;
    shelf_open(&shelf, &want, NULL, NULL);
    struct cf_image_options options = options_of(&want);
    options.reference = shelf.reference;
    options.pull = CF_PULL_NEVER;
    ck_assert_int_lt(resolve(&want, &options), 0);
    ck_assert_int_eq(want.err.kind, CF_ERROR_NOT_FOUND);
    close_image(&want);
    json_decref(want.removed);
    json_decref(want.left);

    want.dones = want.closes = want.steps = 0;
    options.pull = CF_PULL_MISSING;
    ck_assert_msg(resolve(&want, &options) == 0, "%s", want.err.text);
    ck_assert(want.was_pulled && !want.was_built);
    ck_assert_str_eq(want.digest, shelf.digest);
    ck_assert_str_eq(want.reference, shelf.reference);
    close_image(&want);
    ck_assert_uint_eq(json_array_size(want.removed), 0);
    json_decref(want.removed);
    json_decref(want.left);
    ck_assert_int_eq(inspect(&want, shelf.reference), 0); /* it stays */

    want.dones = want.closes = want.steps = 0;
    options.architecture = "s390x";
    ck_assert_int_lt(resolve(&want, &options), 0);
    ck_assert_int_eq(want.err.kind, CF_ERROR_IMAGE);
    ck_assert_ptr_nonnull(strstr(want.err.text, "s390x is wanted"));
    close_image(&want);
    json_decref(want.removed);
    json_decref(want.left);

    want.dones = want.closes = want.steps = 0;
    options.architecture = NULL;
    options.pull = CF_PULL_NEVER;
    ck_assert_int_eq(resolve(&want, &options), 0);
    ck_assert(!want.was_pulled);
    close_image(&want);
    shelf_close(&shelf, &want);
    end(&want, NULL);
}
END_TEST

START_TEST(an_unknown_digest_is_not_found)
{
    struct want want;
    struct shelf shelf;
    char reference[200];

    if (!begin(&want, "an_unknown_digest_is_not_found"))
        return;
    shelf_open(&shelf, &want, NULL, NULL);
    snprintf(reference, sizeof reference, "%s@sha256:%064d", shelf.repo, 7);
    struct cf_image_options options = options_of(&want);
    options.reference = reference;
    ck_assert_int_lt(resolve(&want, &options), 0);
    ck_assert_int_eq(want.err.kind, CF_ERROR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(want.err.text, reference));
    close_image(&want);
    shelf_close(&shelf, &want);
    end(&want, NULL);
}
END_TEST

START_TEST(a_private_image_needs_the_credentials_of_config_json)
{
    struct want want;
    struct shelf shelf;
    char dir[64] = "/tmp/cf-image-config-XXXXXX", path[100], text[300];

    if (!begin(&want, "a_private_image_needs_the_credentials_of_config_json"))
        return;
    shelf_open(&shelf, &want, "someone", "secret");
    struct cf_image_options options = options_of(&want);
    options.reference = shelf.reference;
    ck_assert_int_lt(resolve(&want, &options), 0);
    ck_assert_ptr_nonnull(strstr(want.err.fix, "docker login"));
    close_image(&want);
    json_decref(want.removed);
    json_decref(want.left);
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/config.json", dir);
    FILE *file = fopen(path, "w");
    snprintf(text, sizeof text,
             "{\"auths\":{\"%.*s\":{\"username\":\"someone\",\"password\":\"secret\"}}}",
             (int)strcspn(shelf.repo, "/"), shelf.repo);
    fputs(text, file);
    fclose(file);
    struct live other; /* an engine that reads this configuration */
    struct cf_engine_options with = {.docker_config_dir = dir};
    struct cf_engine *first = want.live.engine;
    ck_assert_int_eq(cf_engine_open(&want.live.loop, &with, &want.live.engine, &want.err), 0);
    ck_assert_int_eq(
        cf_engine_connect(want.live.engine, 15000, live_on_connect, &want.live, &want.err), 0);
    live_wait(&want.live);
    options.engine = want.live.engine;
    want.dones = want.closes = want.steps = 0;
    ck_assert_msg(resolve(&want, &options) == 0, "%s", want.err.text);
    ck_assert(want.was_pulled);
    close_image(&want);
    memset(&other, 0, sizeof other);
    cf_engine_close(first, live_on_closed, &other);
    shelf_close(&shelf, &want);
    live_remove_dir(dir);
    end(&want, NULL);
}
END_TEST

START_TEST(a_private_base_image_is_pulled_for_the_build_and_stays)
{
    struct want want;
    struct shelf shelf;
    char dir[64] = "/tmp/cf-image-config-XXXXXX", path[100], text[300], context[64], more[300];
    struct cf_engine_options with = {.docker_config_dir = dir};

    if (!begin(&want, "a_private_base_image_is_pulled_for_the_build_and_stays"))
        return;
    shelf_open(&shelf, &want, "someone", "secret");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/config.json", dir);
    FILE *file = fopen(path, "w");
    snprintf(text, sizeof text,
             "{\"auths\":{\"%.*s\":{\"username\":\"someone\",\"password\":\"secret\"}}}",
             (int)strcspn(shelf.repo, "/"), shelf.repo);
    fputs(text, file);
    fclose(file);
    snprintf(more, sizeof more, "FROM %s\nRUN echo x > /x", shelf.reference);
    ck_assert_int_eq(live_context(context, more), 0);
    struct cf_engine *first = want.live.engine;
    ck_assert_int_eq(cf_engine_open(&want.live.loop, &with, &want.live.engine, &want.err), 0);
    ck_assert_int_eq(
        cf_engine_connect(want.live.engine, 15000, live_on_connect, &want.live, &want.err), 0);
    live_wait(&want.live);
    struct cf_image_options options = options_of(&want);
    options.build_context = context;
    ck_assert_msg(resolve(&want, &options) == 0, "%s\n%s", want.err.text, want.tail);
    ck_assert_int_eq(want.warnings, 1);
    ck_assert_ptr_nonnull(strstr(want.warning, shelf.repo));
    close_image(&want);
    ck_assert_int_eq(inspect(&want, shelf.reference), 0); /* not ours to remove */
    struct live other = {0};
    cf_engine_close(first, live_on_closed, &other);
    shelf_close(&shelf, &want);
    live_remove_dir(dir);
    live_remove_dir(context);
    end(&want, NULL);
}
END_TEST

/* ---- by build context ------------------------------------------------------------------- */

START_TEST(a_context_becomes_an_image_with_a_digest_and_then_nothing)
{
    struct want want;
    char context[64];

    if (!begin(&want, "a_context_becomes_an_image_with_a_digest_and_then_nothing"))
        return;
    ck_assert_int_eq(
        live_context(context, "RUN echo made > /made\nENV A=b\nENTRYPOINT [\"/bin/sh\"]"), 0);
    struct cf_image_options options = options_of(&want);
    options.build_context = context;
    ck_assert_msg(resolve(&want, &options) == 0, "%s\n%s", want.err.text, want.tail);
    ck_assert(want.was_built && !want.was_pulled);
    ck_assert_ptr_nonnull(strstr(want.reference, "/cfrunner-"));
    ck_assert_ptr_nonnull(strstr(want.reference, want.digest));
    ck_assert_int_eq(inspect(&want, want.id), 0);
    ck_assert_str_eq(cf_json_str(cf_json_obj(cf_json_obj(want.live.json, "Config"), "Labels"),
                                 "com.checkfu.runner.run"),
                     want.run_id);
    ck_assert_uint_eq(json_array_size(cf_json_arr(want.live.json, "RepoTags")),
                      0); /* only its digest names it */
    close_image(&want);
    ck_assert(has_removed(&want, "image") && has_removed(&want, "registry"));
    ck_assert_int_lt(inspect(&want, want.id), 0);
    ck_assert_uint_ge(json_array_size(want.removed),
                      5); /* the image, its intermediates, the registry */
    json_t *after = image_ids(&want);
    size_t i;
    json_t *entry;
    json_array_foreach(want.removed, i, entry)
        ck_assert_ptr_null(json_object_get(after, cf_json_str(entry, "id")));
    json_decref(after);
    live_remove_dir(context);
    end(&want, NULL);
}
END_TEST

START_TEST(a_failed_build_leaves_nothing_and_shows_its_last_lines)
{
    struct want want;
    char context[64];

    if (!begin(&want, "a_failed_build_leaves_nothing_and_shows_its_last_lines"))
        return;
    ck_assert_int_eq(live_context(context, "RUN echo fine > /x\nRUN echo before; exit 9"), 0);
    struct cf_image_options options = options_of(&want);
    options.build_context = context;
    ck_assert_int_lt(resolve(&want, &options), 0);
    ck_assert_int_eq(want.err.kind, CF_ERROR_CONFIG);
    ck_assert_ptr_nonnull(strstr(want.tail, "before"));
    close_image(&want);
    ck_assert(has_removed(&want, "image")); /* the two steps that had worked */
    live_remove_dir(context);
    end(&want, NULL);
}
END_TEST

START_TEST(an_empty_context_is_refused_and_nothing_was_made)
{
    struct want want;
    char context[64] = "/tmp/cf-image-empty-XXXXXX";

    if (!begin(&want, "an_empty_context_is_refused_and_nothing_was_made"))
        return;
    ck_assert_ptr_nonnull(mkdtemp(context));
    struct cf_image_options options = options_of(&want);
    options.build_context = context;
    ck_assert_int_lt(resolve(&want, &options), 0);
    ck_assert_int_eq(want.err.kind, CF_ERROR_CONFIG);
    ck_assert_ptr_nonnull(strstr(want.err.text, "is empty"));
    close_image(&want);
    ck_assert(!has_removed(&want, "image"));
    rmdir(context);
    end(&want, NULL);
}
END_TEST

START_TEST(a_close_at_any_instant_leaves_nothing)
{
    static const char *const dockerfile =
        "RUN echo 1 > /1\nRUN echo 2 > /2\nRUN sleep 0.2\nRUN echo 3 > /3";
    char context[64];

    ck_assert_int_eq(live_context(context, dockerfile), 0);
    for (unsigned at_ms = 0; at_ms < 3600; at_ms += at_ms < 40 ? 13 : 151) {
        struct want want;
        if (!begin(&want, "a_close_at_any_instant_leaves_nothing"))
            break;
        struct cf_image_options options = options_of(&want);
        options.build_context = context;
        ck_assert_int_eq(open_image(&want, &options), 0);
        uint64_t until = cf_clock_ms() + at_ms;
        RUN_UNTIL(&want, cf_clock_ms() >= until);
        close_image(&want);
        bool was_done = want.dones > 0;
        end(&want, NULL);
        if (was_done)
            break;
    }
    live_remove_dir(context);
}
END_TEST

START_TEST(a_registry_that_cannot_be_reached_names_the_flag)
{
    struct want want;
    char context[64];

    if (!begin(&want, "a_registry_that_cannot_be_reached_names_the_flag"))
        return;
    ck_assert_int_eq(live_context(context, ""), 0);
    struct cf_image_options options = options_of(&want);
    options.build_context = context;
    options.registry_all_interfaces = true;
    options.registry_host = "no-such-host.invalid";
    ck_assert_int_lt(resolve(&want, &options), 0);
    ck_assert_int_eq(want.warnings, 1);
    ck_assert_ptr_nonnull(strstr(want.warning, "all interfaces"));
    ck_assert_int_eq(want.err.kind, CF_ERROR_ENGINE);
    ck_assert_ptr_nonnull(strstr(want.err.fix, "insecure-registries"));
    close_image(&want);
    want.dones = want.closes = want.steps = 0;
    json_decref(want.removed);
    json_decref(want.left);
    options.registry_host = "::1";
    ck_assert_int_lt(resolve(&want, &options), 0);
    ck_assert_int_eq(want.err.kind, CF_ERROR_CONFIG);
    close_image(&want);
    live_remove_dir(context);
    end(&want, NULL);
}
END_TEST

START_TEST(a_deadline_ends_a_build_that_takes_too_long)
{
    struct want want;
    char context[64];

    if (!begin(&want, "a_deadline_ends_a_build_that_takes_too_long"))
        return;
    ck_assert_int_eq(live_context(context, "RUN sleep 30"), 0);
    struct cf_image_options options = options_of(&want);
    options.build_context = context;
    options.deadline_ms = 1500;
    ck_assert_int_lt(resolve(&want, &options), 0);
    ck_assert_int_eq(want.err.kind, CF_ERROR_ENGINE_TIMEOUT);
    close_image(&want);
    live_remove_dir(context);
    end(&want, NULL);
}
END_TEST

UNIT_MAIN("run/live_image",
          tcase_add_test(tc, a_tag_is_refused_with_the_command_that_resolves_it);
          tcase_add_test(tc, a_missing_image_is_pulled_and_stays_and_policies_hold);
          tcase_add_test(tc, an_unknown_digest_is_not_found);
          tcase_add_test(tc, a_private_image_needs_the_credentials_of_config_json);
          tcase_add_test(tc, a_private_base_image_is_pulled_for_the_build_and_stays);
          tcase_add_test(tc, a_context_becomes_an_image_with_a_digest_and_then_nothing);
          tcase_add_test(tc, a_failed_build_leaves_nothing_and_shows_its_last_lines);
          tcase_add_test(tc, an_empty_context_is_refused_and_nothing_was_made);
          tcase_set_timeout(tc, 240); /* a close at any instant is many runs */
          tcase_add_test(tc, a_close_at_any_instant_leaves_nothing);
          tcase_add_test(tc, a_registry_that_cannot_be_reached_names_the_flag);
          tcase_add_test(tc, a_deadline_ends_a_build_that_takes_too_long);)
