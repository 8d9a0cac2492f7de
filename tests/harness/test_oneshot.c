#include "rig.h"
#include "tests/support/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static json_t *
vector_named(const char *name, json_t **ret_file)
{
    char path[4096];
    json_t *vector;
    size_t i;

    snprintf(path, sizeof path, "%s/fixtures/oneshot-v1-author-kit-vectors.json",
             getenv("CF_SOURCE") != NULL ? getenv("CF_SOURCE") : ".");
    *ret_file = json_load_file(path, 0, NULL);
    json_array_foreach (json_object_get(*ret_file, "vectors"), i, vector)
        if (strcmp(json_string_value(json_object_get(vector, "name")), name) == 0)
            return json_object_get(vector, "exchange");
    ck_abort_msg("no vector %s", name);
    return NULL;
}

static const char *
text(json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

static void
write_file(const char *path, const char *bytes)
{
    FILE *file = fopen(path, "w");

    ck_assert_ptr_nonnull(file);
    fputs(bytes, file);
    fclose(file);
}

/* The vector's folder is /workspace; this test's own stands in for it. */
static const char *
here(const char *path, const char *folder, char *out, size_t size)
{
    if (strncmp(path, "/workspace/", 11) == 0)
        snprintf(out, size, "%s/%s", folder, path + 11);
    else
        snprintf(out, size, "%s", path);
    return out;
}

static void
stage(json_t *exchange, const char *folder)
{
    json_t *file, *prior = json_object_get(exchange, "prior_state");
    char path[4096];
    size_t i;

    mkdir(".checkfu", 0755);
    json_array_foreach (json_object_get(exchange, "staged_files"), i, file)
        write_file(here(text(file, "path"), folder, path, sizeof path), text(file, "content"));
    if (json_is_object(prior))
        ck_assert_int_eq(json_dump_file(prior, ".checkfu/state.json", JSON_COMPACT), 0);
    else
        rmdir(".checkfu"); /* a floor wrapper makes what it needs */
}

static void
run_vector(const char *name)
{
    const char *folder = rig_enter_folder();
    json_t *file, *exchange = vector_named(name, &file), *arg, *state;
    struct rig_model model = { .answer = text(json_object_get(exchange, "resulting_state"),
                                              "last_response") };
    char *argv[32] = { NULL }, space[32][512];
    struct rig_run run;
    size_t i;

    stage(exchange, folder);
    rig_model_start(&model);
    argv[0] = strdup(rig_program("checkfu-oneshot"));
    json_array_foreach (json_object_get(exchange, "argv"), i, arg)
        argv[i + 1] = (char *)here(json_string_value(arg), folder, space[i], sizeof space[i]);
    rig_run(&run, argv, text(exchange, "stdin"));
    ck_assert_msg(run.exit_code == 0, "%s", run.err);
    ck_assert_str_eq(run.out, text(exchange, "stdout"));
    ck_assert_str_eq(run.err, "");
    state = json_load_file(".checkfu/state.json", 0, NULL);
    ck_assert(json_equal(state, json_object_get(exchange, "resulting_state")));
    json_decref(state);
    rig_model_stop(&model);
    rig_run_release(&run);
    free(argv[0]);
    json_decref(file);
}

START_TEST(the_stdin_text_vector_comes_out_byte_for_byte)
{
    run_vector("stdin-text");
}
END_TEST

START_TEST(the_full_vector_comes_out_byte_for_byte)
{
    run_vector("argv-path-stream-json-resume-schema");
}
END_TEST

static const char *const dialects[] = { "openai_chat", "anthropic_messages", "openai_responses" };
static const char *const paths[] = { "/v1/chat/completions", "/v1/messages", "/v1/responses" };

/* _i: dialect, and streamed or not. */
START_TEST(every_dialect_is_spoken_streamed_and_whole)
{
    struct rig_model model = { 0 };
    char *argv[] = { strdup(rig_program("checkfu-oneshot")), "--dialect", (char *)dialects[_i / 2],
                     _i % 2 ? "--stream" : NULL, NULL };
    struct rig_run run;
    json_t *asked;

    rig_enter_folder();
    rig_model_start(&model);
    rig_run(&run, argv, "say NONCE-7");
    ck_assert_msg(run.exit_code == 0, "%s", run.err);
    ck_assert_str_eq(run.out, "echo: say NONCE-7");
    asked = rig_model_asked(&model);
    ck_assert_int_eq(json_array_size(asked), 1);
    ck_assert_str_eq(text(json_array_get(asked, 0), "path"), paths[_i / 2]);
    ck_assert_str_eq(text(json_array_get(asked, 0), "key"), "tok");
    json_decref(asked);
    rig_model_stop(&model);
    rig_run_release(&run);
    free(argv[0]);
}
END_TEST

START_TEST(a_resumed_turn_sends_the_answer_before_it)
{
    struct rig_model model = { 0 };
    char *first[] = { strdup(rig_program("checkfu-oneshot")), NULL };
    char *second[] = { first[0], "--resume", NULL };
    struct rig_run run;
    json_t *asked;
    char *body;

    rig_enter_folder();
    rig_model_start(&model);
    rig_run(&run, first, "ONE");
    rig_run_release(&run);
    rig_run(&run, second, "TWO");
    ck_assert_str_eq(run.out, "echo: TWO");
    rig_run_release(&run);
    rig_run(&run, first, "THREE"); /* without the flag nothing of it is known */
    rig_run_release(&run);
    asked = rig_model_asked(&model);
    body = json_dumps(json_array_get(asked, 1), 0);
    ck_assert_ptr_nonnull(strstr(body, "echo: ONE"));
    free(body);
    body = json_dumps(json_array_get(asked, 2), 0);
    ck_assert_ptr_null(strstr(body, "echo: "));
    free(body);
    json_decref(asked);
    rig_model_stop(&model);
    free(first[0]);
}
END_TEST

static void
expect_failure(char **argv, const char *input, int exit_code, const char *why)
{
    struct rig_run run;

    rig_run(&run, argv, input);
    ck_assert_int_eq(run.exit_code, exit_code);
    ck_assert_str_eq(run.out, "");
    ck_assert_msg(strstr(run.err, why) != NULL, "%s", run.err);
    rig_run_release(&run);
}

START_TEST(what_goes_wrong_is_said_on_stderr_and_nothing_on_stdout)
{
    struct rig_model model = { 0 };
    char *program = strdup(rig_program("checkfu-oneshot"));
    char *plain[] = { program, NULL }, *resume[] = { program, "--resume", NULL };
    char *schema[] = { program, "--output-schema", "{\"type\":\"object\"}", NULL };
    char *no_file[] = { program, "--prompt-path", "/nowhere/prompt.txt", NULL };
    char *odd[] = { program, "--output-mode", "html", NULL };
    char *bad_schema[] = { program, "--output-schema", "{", NULL };

    rig_enter_folder();
    rig_model_start(&model);
    expect_failure(no_file, NULL, 1, "cannot read /nowhere/prompt.txt");
    expect_failure(odd, "hi", 2, "unknown output mode \"html\"");
    expect_failure(bad_schema, "hi", 1, "the output schema is not JSON");
    expect_failure(resume, "hi", 1, "--resume: cannot read .checkfu/state.json");
    expect_failure(schema, "hi", 1, "the model's answer is not JSON");
    expect_failure(plain, "\xff", 1, "not valid UTF-8");
    mkdir(".checkfu", 0755);
    write_file(".checkfu/state.json", "{\"schema_version\":2,\"turn\":1,\"last_response\":\"\"}");
    expect_failure(resume, "hi", 1, "is not a state of this wrapper");
    rig_model_stop(&model);
    expect_failure(plain, "hi", 1, "cannot reach the model at http://127.0.0.1:");
    unsetenv("OPENAI_BASE_URL");
    unsetenv("CHECKFU_MODEL_BASE_URL");
    expect_failure(plain, "hi", 1, "neither OPENAI_BASE_URL nor CHECKFU_MODEL_BASE_URL is set");
    free(program);
}
END_TEST

START_TEST(a_refusal_of_the_model_is_passed_on)
{
    struct rig_model model = { .status = 403 };
    char *argv[] = { strdup(rig_program("checkfu-oneshot")), NULL };

    rig_enter_folder();
    rig_model_start(&model);
    expect_failure(argv, "hi", 1, "refused with HTTP 403: not today");
    rig_model_stop(&model);
    free(argv[0]);
}
END_TEST

START_TEST(a_long_answer_is_several_bounded_observations)
{
    size_t len = 300000, at = 0, lines = 0;
    char *prompt = malloc(len + 1), *line, *rest;
    char *joined = calloc(1, len + 100);
    char *argv[] = { strdup(rig_program("checkfu-oneshot")), "--output-mode", "stream_json", NULL };
    struct rig_model model = { .answer = prompt };
    struct rig_run run;

    memset(prompt, 'x', len);
    prompt[len] = '\0';
    rig_enter_folder();
    rig_model_start(&model);
    rig_run(&run, argv, "hi");
    ck_assert_int_eq(run.exit_code, 0);
    for (rest = run.out; (line = strsep(&rest, "\n")) != NULL && line[0] != '\0'; lines++) {
        json_t *value = json_loads(line, 0, NULL);
        const char *content = text(json_object_get(value, "payload"), "content");

        if (content != NULL) {
            ck_assert_int_le(strlen(content), 262144);
            strcpy(joined + at, content);
            at += strlen(content);
        }
        json_decref(value);
    }
    ck_assert_int_eq(lines, 3);
    ck_assert_str_eq(joined, prompt);
    rig_model_stop(&model);
    rig_run_release(&run);
    free(prompt);
    free(joined);
    free(argv[0]);
}
END_TEST

UNIT_MAIN("harness/oneshot",
          tcase_add_test(tc, the_stdin_text_vector_comes_out_byte_for_byte);
          tcase_add_test(tc, the_full_vector_comes_out_byte_for_byte);
          tcase_add_loop_test(tc, every_dialect_is_spoken_streamed_and_whole, 0, 6);
          tcase_add_test(tc, a_resumed_turn_sends_the_answer_before_it);
          tcase_add_test(tc, what_goes_wrong_is_said_on_stderr_and_nothing_on_stdout);
          tcase_add_test(tc, a_refusal_of_the_model_is_passed_on);
          tcase_add_test(tc, a_long_answer_is_several_bounded_observations);)
