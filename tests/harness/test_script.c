#include "rig.h"
#include "tests/support/unit.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *
script_path(const char *name)
{
    static char path[4096];

    snprintf(path, sizeof path, "%s/fixtures/wire/%s.acps",
             getenv("CF_SOURCE") != NULL ? getenv("CF_SOURCE") : ".", name);
    return path;
}

static void
handshake(struct rig_agent *agent)
{
    json_decref(rig_agent_call(agent, "initialize", json_pack("{s:i}", "protocolVersion", 1)));
    json_decref(rig_agent_call(agent, "session/new",
                               json_pack("{s:s, s:[]}", "cwd", "/tmp", "mcpServers")));
}

static json_t *
prompt(struct rig_agent *agent)
{
    return rig_agent_call(agent, "session/prompt",
                          json_pack("{s:s, s:[{s:s, s:s}]}", "sessionId", "s-1", "prompt", "type",
                                    "text", "text", "say \"NONCE\" \\"));
}

START_TEST(a_proper_script_is_a_proper_agent)
{
    struct rig_model model = { 0 };
    struct rig_agent agent;
    char *argv[] = { strdup(rig_program("acp-script")), (char *)script_path(_i ? "cuts" : "proper"), NULL };
    json_t *answer;
    char *said;

    rig_model_start(&model);
    rig_agent_start(&agent, argv);
    handshake(&agent);
    answer = prompt(&agent);
    ck_assert_ptr_nonnull(json_object_get(answer, "result"));
    said = json_dumps(agent.updates, 0);
    ck_assert_msg(strstr(said, "echo: say \\\"NONCE\\\" \\\\") != NULL, "%s", said);
    free(said);
    json_decref(answer);
    rig_agent_end(&agent);
    rig_model_stop(&model);
    free(argv[0]);
}
END_TEST

static const struct {
    const char *script, *input, *out, *err;
    int code;
} scripts[] = {
    { "let who world\nline hello ${who}\\x21\\t.", "", "hello world!\t.\n", "", 0 },
    { "# nothing\n\n  raw a\\nb\n", "", "a\nb", "", 0 },
    { "repeat 2\nrepeat 2\nraw ${n}\nend\nend", "", "1212", "", 0 },
    { "fill x 3 ab\nline ${x}${unset}", "", "ababab\n", "", 0 },
    { "split 2 1 abcde", "", "abcde\n", "", 0 },
    { "stderr oops\nexit 7\nline never", "", "", "oops\n", 7 },
    { "signal TERM", "", "", "", 128 + 15 },
    { "expect ping\nanswer {\"x\":${params}}",
      "junk\n{\"method\":\"other\"}\n{\"method\":\"ping\",\"id\":\"a\",\"params\":[1]}\n",
      "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":{\"x\":[1]}}\n", "", 0 },
    { "expect ping", "", "", "acp-script: -e:1: expect: stdin ended before ping\n", 4 },
    { "line a\nrepeat 3\ndance", "",
      "", "acp-script: -e:3: no verb dance\nacp-script: -e: repeat and end do not pair\n", 2 },
    { "end", "", "", "acp-script: -e: repeat and end do not pair\n", 2 },
    { "sleep soon", "", "", "acp-script: -e:1: sleep: needs a number, not soon\n", 4 },
};

START_TEST(a_script_does_what_it_says)
{
    char *argv[] = { strdup(rig_program("acp-script")), "-e", (char *)scripts[_i].script, NULL };
    struct rig_run run;

    rig_run(&run, argv, scripts[_i].input);
    ck_assert_str_eq(run.out, scripts[_i].out);
    ck_assert_str_eq(run.err, scripts[_i].err);
    ck_assert_int_eq(run.exit_code, scripts[_i].code);
    rig_run_release(&run);
    free(argv[0]);
}
END_TEST

/* A script that is wrong ends with 2 before it says or hears anything. */
START_TEST(every_script_of_the_fixtures_is_a_script)
{
    char pattern[4096];
    glob_t found;

    snprintf(pattern, sizeof pattern, "%s", script_path("*"));
    ck_assert_int_eq(glob(pattern, 0, NULL, &found), 0);
    ck_assert_int_ge(found.gl_pathc, 50);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char *argv[] = { strdup(rig_program("acp-script")), found.gl_pathv[i], NULL };
        struct rig_run run;

        rig_run(&run, argv, "");
        ck_assert_msg(run.exit_code == 4, "%s: %d %s", found.gl_pathv[i], run.exit_code, run.err);
        rig_run_release(&run);
        free(argv[0]);
    }
    globfree(&found);
}
END_TEST

static const struct {
    const char *mode, *argument;
    const char *said; /* of an ACP turn; NULL: the turn does not end */
    int code;
} faults[] = {
    { "proper-acp", NULL, "echo: say", 0 },      { "banner", NULL, NULL, -1 },
    { "narrate-acp", NULL, "I asked the model", 0 }, { "drop-answer-acp", NULL, "Done.", 0 },
    { "kill-acp", NULL, NULL, 128 + 9 },         { "segv-acp", NULL, NULL, 128 + 11 },
    { "exit-acp", "5", NULL, 5 },
};

START_TEST(a_fault_is_the_fault_it_is_called)
{
    struct rig_model model = { 0 };
    struct rig_agent agent;
    char *argv[] = { strdup(rig_program("fault")), (char *)faults[_i].mode,
                     (char *)faults[_i].argument, NULL };
    json_t *answer = NULL;
    char *said;

    rig_model_start(&model);
    if (faults[_i].code >= 0) {
        rig_agent_start(&agent, argv);
        handshake(&agent);
        rig_agent_send(&agent, "session/prompt",
                       json_pack("{s:s, s:[{s:s, s:s}]}", "sessionId", "polite-1", "prompt", "type",
                                 "text", "text", "say NONCE"));
        while (answer == NULL && rig_agent_step(&agent, 5000, &answer))
            ;
        ck_assert_int_eq(answer != NULL, faults[_i].said != NULL);
        said = json_dumps(agent.updates, 0);
        ck_assert_msg(faults[_i].said == NULL || strstr(said, faults[_i].said) != NULL, "%s", said);
        free(said);
        json_decref(answer);
        ck_assert_int_eq(rig_agent_end(&agent), faults[_i].code);
    } else {
        struct rig_run run;
        rig_run(&run, argv, "");
        ck_assert_int_eq(strncmp(run.out, "Welcome back!\n", 14), 0);
        rig_run_release(&run);
    }
    rig_model_stop(&model);
    free(argv[0]);
}
END_TEST

static const struct {
    const char *mode, *argument, *out;
    int code;
} oneshots[] = {
    { "proper", NULL, "echo: hi", 0 }, { "narrate", NULL, "I asked the model, and it gave a very good answer.", 0 },
    { "drop-answer", NULL, "Done.", 0 }, { "exit0", NULL, "", 0 }, { "exit3", NULL, "", 3 },
    { "cat", NULL, "hi", 0 }, { "segv", NULL, "", 128 + 11 }, { "print", "a line", "a line\n", 0 },
    { "fail", "9", "", 9 }, { "no-such-mode", NULL, "", 2 },
};

START_TEST(a_oneshot_fault_is_the_fault_it_is_called)
{
    struct rig_model model = { 0 };
    char *argv[] = { strdup(rig_program("fault")), (char *)oneshots[_i].mode,
                     (char *)oneshots[_i].argument, NULL };
    struct rig_run run;

    rig_model_start(&model);
    rig_run(&run, argv, "hi");
    ck_assert_str_eq(run.out, oneshots[_i].out);
    ck_assert_int_eq(run.exit_code, oneshots[_i].code);
    rig_run_release(&run);
    rig_model_stop(&model);
    free(argv[0]);
}
END_TEST

UNIT_MAIN("harness/script",
          tcase_add_loop_test(tc, a_proper_script_is_a_proper_agent, 0, 2);
          tcase_add_loop_test(tc, a_script_does_what_it_says, 0, (int)(sizeof scripts / sizeof scripts[0]));
          tcase_add_test(tc, every_script_of_the_fixtures_is_a_script);
          tcase_add_loop_test(tc, a_fault_is_the_fault_it_is_called, 0, (int)(sizeof faults / sizeof faults[0]));
          tcase_add_loop_test(tc, a_oneshot_fault_is_the_fault_it_is_called, 0,
                              (int)(sizeof oneshots / sizeof oneshots[0]));)
