/* The author kit's one-shot vectors: authoring and exchange give the argv and the files; and the reference
 * wrapper, in a real sandbox, gives exactly the listed output, observations and state. */
#include <cfrunner/run.h>

#include "base/str.h"
#include "json/json.h"
#include "run/release.h"
#include "tests/support/unit.h"
#include "wire/wire.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#define VECTORS "fixtures/oneshot-v1-author-kit-vectors.json"

static json_t *
load_vectors(void)
{
    json_error_t why;
    json_t *document = json_load_file(VECTORS, 0, &why);

    ck_assert_msg(document != NULL, "%s: %s", VECTORS, why.text);
    return document;
}

/* ---- forward: what the process gets --------------------------------------------------------- */

static void
check_argv(json_t *vector)
{
    json_t *exchange = json_object_get(vector, "exchange"), *schema = json_object_get(exchange, "output_schema");
    cf_auto_free char *authoring = cf_json_dump(json_object_get(vector, "authoring"), NULL), *schema_text = NULL;
    struct cf_oneshot_turn turn = {.continues = !json_is_null(json_object_get(exchange, "prior_state"))};
    struct cf_release release = {0};
    struct cf_error err = {0};
    char **argv;
    size_t n = 0;

    ck_assert_msg(cf_release_decode(authoring, strlen(authoring), &release, NULL, NULL, &err) == 0, "%s", err.text);
    turn.argv = (const char *const *)release.argv;
    turn.resume_flag = release.resume_flag;
    turn.prompt_path = release.prompt_is_path ? "/workspace/.checkfu/prompt.txt" : NULL;
    if (json_is_object(schema)) {
        schema_text = cf_json_dump(schema, NULL);
        turn.output_schema_flag = release.output_schema_flag;
        turn.output_schema_value = release.output_schema_is_path ? "/workspace/.checkfu/output-schema.json" : schema_text;
        ck_assert_str_eq(schema_text, cf_json_str(json_array_get(json_object_get(exchange, "staged_files"), 1), "content"));
    }
    argv = cf_oneshot_argv(&turn, &err);
    ck_assert_msg(argv != NULL, "%s", err.text);
    for (; argv[n] != NULL; n++)
        ck_assert_str_eq(argv[n], json_string_value(json_array_get(json_object_get(exchange, "argv"), n)));
    ck_assert_uint_eq(n, json_array_size(json_object_get(exchange, "argv")));
    cf_argv_free(argv);
    cf_release_done(&release);
}

START_TEST(authoring_and_exchange_give_the_listed_argv)
{
    json_t *document = load_vectors(), *vector;
    size_t i;

    json_array_foreach(json_object_get(document, "vectors"), i, vector)
        check_argv(vector);
    ck_assert_uint_eq(i, 2);
    json_decref(document);
}
END_TEST

/* ---- in a sandbox ------------------------------------------------------------------------------ */

struct live {
    uv_loop_t loop;
    struct cf_run *run;
    json_t *vector, *said, *result;
    struct cf_buf out;
};

static int
on_observation(void *user, const struct cf_observation *o)
{
    struct live *live = user;

    if (o->type != CF_OBSERVATION_READY && o->type != CF_OBSERVATION_FILE_CHANGED)
        json_array_append_new(live->said, cf_json_parse(o->json, o->json_len, NULL, NULL));
    return CF_RUN_CONTINUE;
}

static void
on_frame(void *user, int from_harness, uint64_t number, uint64_t at_ms, const char *line, size_t len)
{
    struct live *live = user;

    if (!from_harness)
        return;
    cf_buf_add(&live->out, line, len);
    cf_buf_adds(&live->out, "\n");
}

static void
on_ready(void *user)
{
    struct live *live = user;
    json_t *exchange = json_object_get(live->vector, "exchange");
    const char *words = cf_json_str(exchange, "prompt");
    json_t *prompt = json_pack("{s:s, s:O, s:{s:s%, s:O}}", "text", words, "output_schema",
                               json_object_get(exchange, "output_schema"), "replay", "prompt_nonce", words, (size_t)15,
                               "answer_json",
                               json_object_get(json_object_get(exchange, "resulting_state"), "last_response"));
    cf_auto_free char *text = cf_json_dump(prompt, NULL);
    struct cf_error err;

    ck_assert_msg(cf_run_prompt(live->run, text, strlen(text), &err) == 0, "%s", err.text);
    json_decref(prompt);
}

static void
on_turn(void *user, uint32_t turn, const char *json, size_t len)
{
    cf_run_close(((struct live *)user)->run, UINT64_MAX, NULL);
}

static void
on_result(void *user, const char *json, size_t len)
{
    struct live *live = user;

    live->result = cf_json_parse(json, len, NULL, NULL);
    cf_run_close(live->run, 0, NULL);
}

/* The options: the prior state goes in as a file, the resulting one comes out. */
static char *
make_options(json_t *exchange, const char *folder, const char *build)
{
    json_t *prior = json_object_get(exchange, "prior_state");
    cf_auto_free char *file = NULL, *out = NULL, *context = NULL, *lock = NULL;
    json_t *options;
    char *text;

    ck_assert_int_ge(asprintf(&file, "%s/state.json", folder), 0);
    ck_assert_int_ge(asprintf(&out, "%s/out", folder), 0);
    ck_assert_int_ge(asprintf(&lock, "%s/lock", folder), 0);
    ck_assert_int_ge(asprintf(&context, "%s/context/oneshot-harness", build), 0);
    options = json_pack("{s:s, s:s, s:s, s:b}", "build_context", context, "collect", out, "state_dir", lock, "continues",
                        json_is_object(prior));
    if (json_is_object(prior)) {
        ck_assert_int_eq(json_dump_file(prior, file, JSON_COMPACT), 0);
        json_object_set_new(options, "files",
                            json_pack("[{s:s, s:s}]", "source", file, "target", ".checkfu/state.json"));
    }
    text = cf_json_dump(options, NULL);
    json_decref(options);
    return text;
}

static void
check_outcome(struct live *live, const char *folder)
{
    json_t *exchange = json_object_get(live->vector, "exchange"), *state;
    const char *wanted = cf_json_str(exchange, "stdout");
    cf_auto_free char *path = NULL, *said = cf_json_dump(live->said, NULL);
    size_t len = strlen(wanted);

    ck_assert_msg(json_equal(live->said, json_object_get(live->vector, "normalized_observations")), "%s", said);
    ck_assert_int_eq(cf_json_int(json_object_get(live->result, "harness"), "stdout_bytes", -1), (int)len);
    if (len > 0 && wanted[len - 1] != '\n')
        live->out.data[--live->out.len] = '\0'; /* a frame has no line end of its own */
    ck_assert_str_eq(live->out.data, wanted);
    ck_assert_int_ge(asprintf(&path, "%s/out/.checkfu/state.json", folder), 0);
    state = json_load_file(path, 0, NULL);
    ck_assert_msg(json_equal(state, json_object_get(exchange, "resulting_state")), "%s", path);
    json_decref(state);
    ck_assert(cf_json_bool(json_object_get(live->result, "teardown"), "proven", false));
}

static void
run_vector(json_t *vector, const char *build)
{
    const struct cf_run_host host = {.size = sizeof host,
                                     .on_observation = on_observation,
                                     .on_frame = on_frame,
                                     .on_ready = on_ready,
                                     .on_turn = on_turn,
                                     .on_result = on_result};
    struct live live = {.vector = vector, .said = json_array()};
    struct cf_run_host with_user = host;
    char folder[] = "/tmp/cf-vectors-XXXXXX", command[100];
    cf_auto_free char *release = cf_json_dump(json_object_get(vector, "authoring"), NULL), *options = NULL;
    struct cf_error err;

    ck_assert_ptr_nonnull(mkdtemp(folder));
    options = make_options(json_object_get(vector, "exchange"), folder, build);
    with_user.user = &live;
    uv_loop_init(&live.loop);
    ck_assert_msg(cf_run_open(&live.loop, release, strlen(release), options, strlen(options), &with_user, &live.run,
                              &err) == 0,
                  "%s", err.text);
    uv_run(&live.loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&live.loop), 0);
    check_outcome(&live, folder);
    json_decref(live.said);
    json_decref(live.result);
    cf_buf_release(&live.out);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

static bool
can_run(const char *build)
{
    const char *host = getenv("DOCKER_HOST");
    cf_auto_free char *dockerfile = NULL;

    if (build == NULL || asprintf(&dockerfile, "%s/context/oneshot-harness/Dockerfile", build) < 0 ||
        access(dockerfile, R_OK) != 0) {
        printf("SKIPPED the one-shot vectors in a sandbox: the reference wrapper is not built (make harnesses)\n");
        return false;
    }
    if (host == NULL && access("/var/run/docker.sock", R_OK) != 0) {
        printf("SKIPPED the one-shot vectors in a sandbox: no Engine (DOCKER_HOST)\n");
        return false;
    }
    return true;
}

START_TEST(the_reference_wrapper_gives_the_vectors_in_a_sandbox)
{
    const char *build = getenv("CF_BUILD");
    json_t *document, *vector;
    struct cf_error err;
    size_t i;

    if (!can_run(build))
        return;
    signal(SIGPIPE, SIG_IGN);
    ck_assert_int_eq(cf_library_init(&err), 0);
    document = load_vectors();
    json_array_foreach(json_object_get(document, "vectors"), i, vector)
        run_vector(vector, build);
    json_decref(document);
}
END_TEST

UNIT_MAIN("run: one-shot vectors", tcase_add_test(tc, authoring_and_exchange_give_the_listed_argv);
          tcase_add_test(tc, the_reference_wrapper_gives_the_vectors_in_a_sandbox);)
