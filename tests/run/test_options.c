#include "run/options.h"

#include "tests/support/unit.h"

#include <string.h>

static int
decode(const char *json, struct cf_run_options *options, struct cf_error *err)
{
    return cf_run_options_decode(json, strlen(json), options, err);
}

START_TEST(an_empty_document_gives_the_defaults)
{
    struct cf_run_options o;
    struct cf_error err;

    ck_assert_int_eq(decode("{}", &o, &err), 0);
    ck_assert_uint_eq(o.relay_port, 4180);
    ck_assert_uint_eq(o.turn_ms, 300000);
    ck_assert_uint_eq(o.idle_ms, 0);
    ck_assert_uint_eq(o.output_bytes, 256u << 20);
    ck_assert_int_eq(o.permission, CF_PERMISSION_DENY);
    cf_run_options_done(&o);
}
END_TEST

START_TEST(every_kind_of_member_is_read)
{
    struct cf_run_options o;
    struct cf_error err;

    ck_assert_int_eq(decode("{\"engine\":\"unix:///x\",\"pull\":\"never\",\"retention\":\"ephemeral_zdr\",\"permission\":\"end\","
                            "\"relay_port\":5000,\"env\":{\"A\":\"b\"},\"limits\":{\"cpus\":1.5,\"pids\":64},"
                            "\"deadlines_ms\":{\"turn\":1000,\"idle\":null},\"model\":null}",
                            &o, &err),
                     0);
    ck_assert_str_eq(o.engine, "unix:///x");
    ck_assert_int_eq(o.pull, CF_PULL_OPTION_NEVER);
    ck_assert(o.is_ephemeral);
    ck_assert_int_eq(o.permission, CF_PERMISSION_END);
    ck_assert_uint_eq(o.relay_port, 5000);
    ck_assert(o.cpus == 1.5);
    ck_assert_uint_eq(o.pids, 64);
    ck_assert_uint_eq(o.turn_ms, 1000);
    cf_run_options_done(&o);
}
END_TEST

START_TEST(what_is_wrong_is_named)
{
    static const struct {
        const char *json, *word;
    } cases[] = {
        {"[]", "object"},
        {"{\"limits\":{\"memori\":1}}", "memori"},
        {"{\"memory_bytes\":1}", "memory_bytes"},
        {"{\"relay_port\":80}", "relay_port"},
        {"{\"relay\":{\"calls\":0}}", "relay.calls"},
        {"{\"relay\":{\"cost\":\"1\"}}", "relay.cost"},
        {"{\"relay\":{\"x\":1}}", "x is not a member of relay"},
        {"{\"relay\":{\"upstreams\":[{\"provider\":\"a\"}]}}", "relay.upstreams[0]"},
        {"{\"relay\":{\"upstreams\":[{\"provider\":\"a\",\"url\":\"u\",\"key\":\"k\"}]}}", "relay.upstreams[0]"},
        {"{\"relay\":{\"upstreams\":[{\"provider\":\"a\",\"url\":\"u\",\"key_env\":\"k\",\"key_file\":\"f\"}]}}",
         "two keys"},
        {"{\"relay_port\":\"4180\"}", "relay_port"},
        {"{\"limits\":{\"pids\":1.5}}", "limits.pids"},
        {"{\"pull\":\"sometimes\"}", "pull"},
        {"{\"env\":{\"A=B\":\"c\"}}", "env"},
        {"{\"env\":{\"A\":1}}", "env"},
        {"{\"limits\":[]}", "limits"},
        {"{\"engine\":\"\"}", "engine"},
        {"{\"journal\":{\"directory\":\"/j\",\"identity\":\"/k\",\"repository_id\":\"r\",\"thread_id\":\"t\"}}",
         "journal.claim_paths is missing"},
        {"{\"journal\":{\"claim_paths\":[\"src\"]}}", "journal.directory is missing"},
        {"{\"journal\":{\"directory\":\"/j\",\"identity\":\"/k\",\"repository_id\":\"r\",\"thread_id\":\"t\","
         "\"claim_paths\":[\"a\",1]}}",
         "journal.claim_paths[1]"},
        {"{\"journal\":{\"claim_ms\":2999}}", "journal.claim_ms"},
        {"{\"journal\":{\"dir\":\"/j\"}}", "dir"},
        {"{", "options"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct cf_run_options o;
        struct cf_error err = {0};
        ck_assert_msg(decode(cases[i].json, &o, &err) < 0, "%s", cases[i].json);
        ck_assert_msg(strstr(err.text, cases[i].word) != NULL, "%s: %s", cases[i].json, err.text);
        cf_run_options_done(&o);
    }
}
END_TEST

UNIT_MAIN("run/options", tcase_add_test(tc, an_empty_document_gives_the_defaults);
          tcase_add_test(tc, every_kind_of_member_is_read); tcase_add_test(tc, what_is_wrong_is_named);)
