/* From options and an image's inspection to a create request, and whether it is in force. */
#include "sandbox/inforce.h"
#include "sandbox/plan.h"

#include "base/str.h"
#include "json/json.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct cf_engine_facts docker = {.arch = "amd64",
                                              .version = "20.10.24",
                                              .has_swap_limit = true,
                                              .has_pids_limit = true,
                                              .has_cpu_quota = true,
                                              .ncpu = 2};
static struct cf_sandbox_options options; /* zeroed before each use by plan_of */

static json_t *
image_of(const char *config)
{
    char text[4096];

    snprintf(
        text, sizeof text,
        "{\"Id\":\"sha256:11\",\"Os\":\"linux\",\"Architecture\":\"amd64\",\"Config\":{%s}}",
        config);
    json_t *image = json_loads(text, 0, NULL);
    ck_assert_ptr_nonnull(image);
    return image;
}

static int
try_plan(const char *config, struct cf_plan *plan, struct cf_error *err)
{
    json_t *image = image_of(config), *labels = json_pack("{s:s}", "com.checkfu.runner", "");
    int rc = cf_plan_make(&options, &docker, image,
                          "cfrunner-00112233445566778899aabbccddeeff", labels, plan, err);

    json_decref(image);
    json_decref(labels);
    return rc;
}

static struct cf_plan
plan_of(const char *config)
{
    struct cf_plan plan;
    struct cf_error err = {0};

    ck_assert_msg(try_plan(config, &plan, &err) == 0, "%s", err.text);
    return plan;
}

static void
refused(const char *config, enum cf_error_kind kind, const char *says)
{
    struct cf_plan plan;
    struct cf_error err = {0};

    ck_assert_int_lt(try_plan(config, &plan, &err), 0);
    ck_assert_msg(strstr(err.text, says) != NULL, "%s", err.text);
    ck_assert_msg(err.kind == kind, "kind %d: %s", err.kind, err.text);
}

START_TEST(defaults_are_the_design_s)
{
    options = (struct cf_sandbox_options){0};
    struct cf_plan plan = plan_of("");
    json_t *host = json_object_get(plan.spec, "HostConfig");

    ck_assert_str_eq(cf_json_str(plan.spec, "Image"), "sha256:11");
    ck_assert_str_eq(cf_json_str(plan.spec, "WorkingDir"), "/");
    ck_assert_str_eq(cf_json_str(host, "NetworkMode"), "none");
    ck_assert_int_eq(cf_json_int(host, "Memory", 0), 2147483648ll);
    ck_assert_int_eq(cf_json_int(host, "MemorySwap", 0), 2147483648ll);
    ck_assert_int_eq(cf_json_int(host, "PidsLimit", 0), 512);
    ck_assert_int_eq(cf_json_int(host, "NanoCpus", 0), 2000000000);
    ck_assert_str_eq(cf_json_str(cf_json_obj(host, "Tmpfs"), "/tmp"),
                     "rw,exec,nosuid,nodev,mode=1777,size=1073741824");
    ck_assert_str_eq(plan.working_directory, "/workspace");
    ck_assert_str_eq(json_string_value(json_array_get(json_object_get(plan.spec, "Cmd"), 1)),
                     "4180");
    ck_assert_uint_eq(json_array_size(json_object_get(plan.spec, "Cmd")), 2);
    ck_assert_uint_eq(json_array_size(json_object_get(host, "Mounts")), 0);
    cf_plan_release(&plan);
    options.limits.cpus = 64; /* more than the engine has is an error there: clamped here */
    options.egress_port = 4181;
    plan = plan_of("");
    ck_assert_int_eq(cf_json_int(json_object_get(plan.spec, "HostConfig"), "NanoCpus", 0),
                     2000000000);
    ck_assert_str_eq(json_string_value(json_array_get(json_object_get(plan.spec, "Cmd"), 3)),
                     "4181");
    cf_plan_release(&plan);
}
END_TEST

/* The engine's own wall stands behind the watch's limit, and counts the image where it must. */
START_TEST(a_layer_is_limited_where_the_engine_can)
{
    static const struct {
        struct cf_engine_facts facts;
        const char *size;
    } engines[] = {
        {{.arch = "amd64", .ncpu = 2}, NULL},
        {{.arch = "amd64", .ncpu = 2, .may_limit_layers = true}, "171966464"},
        {{.arch = "amd64", .ncpu = 2, .may_limit_layers = true, .counts_image = true}, "171967464"},
        {{.arch = "amd64", .ncpu = 2, .may_limit_layers = true, .is_podman = true}, NULL},
    };

    options = (struct cf_sandbox_options){.limits.disk_bytes = 100 << 20};
    for (size_t i = 0; i < CF_COUNT(engines); i++) {
        json_t *image = image_of(""), *labels = json_pack("{s:s}", "com.checkfu.runner", "");
        struct cf_plan plan;
        struct cf_error err = {0};

        json_object_set_new(image, "Size", json_integer(1000));
        ck_assert_msg(cf_plan_make(&options, &engines[i].facts, image, "cfrunner-00", labels, &plan, &err) == 0, "%s", err.text);
        json_t *host = json_object_get(plan.spec, "HostConfig");
        const char *size = cf_json_str(json_object_get(host, "StorageOpt"), "size");
        ck_assert_msg(cf_str_same(size, engines[i].size), "%zu: %s", i, size != NULL ? size : "none");
        ck_assert_uint_eq(plan.layer_bytes, size != NULL ? strtoull(size, NULL, 10) : 0);
        cf_plan_drop_layer_limit(&plan);
        ck_assert_ptr_null(json_object_get(host, "StorageOpt"));
        cf_plan_release(&plan);
        json_decref(image);
        json_decref(labels);
    }
}
END_TEST

START_TEST(the_working_directory_is_chosen_in_order)
{
    options = (struct cf_sandbox_options){0};
    struct cf_plan plan = plan_of("\"WorkingDir\":\"/home/app/\"");
    ck_assert_str_eq(plan.working_directory, "/home/app");
    ck_assert_str_eq(plan.working_directory_from, "the image");
    cf_plan_release(&plan);
    plan = plan_of("\"WorkingDir\":\"/\"");
    ck_assert_str_eq(plan.working_directory, "/workspace");
    cf_plan_release(&plan);
    options.working_directory = "/work";
    plan = plan_of("\"WorkingDir\":\"/tmp/x\"");
    ck_assert_str_eq(plan.working_directory, "/work");
    cf_plan_release(&plan);
    options.working_directory = NULL;
    refused("\"WorkingDir\":\"/tmp/x\"", CF_ERROR_IMAGE, "cannot be one");
    refused("\"WorkingDir\":\"work\"", CF_ERROR_IMAGE, "not an absolute path");
}
END_TEST

START_TEST(each_refused_working_directory_says_why)
{
    static const struct {
        const char *path, *says;
    } bad[] = {
        {"/", "cannot be one"},
        {"/tmp", "cannot be one"},
        {"/tmp/a", "cannot be one"},
        {"/proc", "cannot be one"},
        {"/sys/fs", "cannot be one"},
        {"/dev/shm", "cannot be one"},
        {"/.cf", "cannot be one"},
        {"/.cf/x", "cannot be one"},
        {"work", "not an absolute path"},
        {"", "not an absolute"},
        {"/a/../tmp", "not plain"},
        {"/a/./b", "not plain"},
        {"/a//b", "not plain"},
        {"/a/", "not plain"},
        {"/..", "not plain"},
        {"//", "not plain"},
        {"/\xff", "not UTF-8"},
    };
    struct cf_error err;

    for (size_t i = 0; i < CF_COUNT(bad); i++) {
        memset(&err, 0, sizeof err);
        ck_assert_msg(cf_plan_check_workdir(bad[i].path, "x", CF_ERROR_CONFIG, &err) < 0,
                      "%s passed", bad[i].path);
        ck_assert_msg(strstr(err.text, bad[i].says) != NULL, "%s: %s", bad[i].path, err.text);
    }
    ck_assert_int_eq(cf_plan_check_workdir("/tmpx", "x", CF_ERROR_CONFIG, &err), 0);
    ck_assert_int_eq(cf_plan_check_workdir("/a/.b/..c", "x", CF_ERROR_CONFIG, &err), 0);
    ck_assert_int_eq(cf_plan_check_workdir("/.cfx", "x", CF_ERROR_CONFIG, &err), 0);
}
END_TEST

START_TEST(image_volumes_become_ours)
{
    options = (struct cf_sandbox_options){0};
    struct cf_plan plan = plan_of("\"Volumes\":{\"/data\":{},\"/tmp\":{},\"/.cf\":{}}");
    json_t *mounts = json_object_get(json_object_get(plan.spec, "HostConfig"), "Mounts");

    ck_assert_uint_eq(plan.volume_count, 2);
    ck_assert_uint_eq(json_array_size(mounts), 2);
    ck_assert_str_eq(cf_json_str(json_array_get(mounts, 0), "Type"), "volume");
    ck_assert_str_eq(cf_json_str(json_array_get(mounts, 0), "Source"), plan.volumes[0].name);
    ck_assert_str_ne(plan.volumes[0].name, plan.volumes[1].name);
    cf_plan_release(&plan);
    refused("\"Volumes\":{\"/\":{}}", CF_ERROR_IMAGE, "VOLUME /");
    refused("\"Volumes\":{\"data\":{}}", CF_ERROR_IMAGE, "VOLUME data");
    refused("\"Volumes\":{\"/.cf/cf-init\":{}}", CF_ERROR_IMAGE, "VOLUME /.cf/cf-init");
    refused("\"Volumes\":{\"//.cf/cf-init/x\":{}}", CF_ERROR_IMAGE, "VOLUME");
}
END_TEST

START_TEST(volumes_have_a_limit)
{
    char config[4096] = "\"Volumes\":{";
    options = (struct cf_sandbox_options){0};

    for (int i = 0; i < CF_PLAN_VOLUMES_MOST; i++)
        snprintf(config + strlen(config), 32, "%s\"/v%d\":{}", i > 0 ? "," : "", i);
    char full[4200];
    snprintf(full, sizeof full, "%s}", config);
    struct cf_plan plan = plan_of(full);
    cf_plan_release(&plan);
    snprintf(full, sizeof full, "%s,\"/one-more\":{}}", config);
    refused(full, CF_ERROR_IMAGE, "more than 64 VOLUMEs");
}
END_TEST

static bool
has_env(const struct cf_plan *plan, const char *text)
{
    json_t *item;
    size_t i;

    json_array_foreach(json_object_get(plan->spec, "Env"), i, item) {
        if (strcmp(json_string_value(item), text) == 0)
            return true;
    }
    return false;
}

START_TEST(proxy_variables_of_the_image_are_removed)
{
    static const char *const extra[] = {"A=b", NULL};
    options = (struct cf_sandbox_options){.env = extra};
    struct cf_plan plan = plan_of("\"Env\":[\"PATH=/bin\",\"HTTP_PROXY=http://"
                                  "u:p@h\",\"https_proxy=x\",\"NO_PROXY=*\"]");

    ck_assert(has_env(&plan, "HTTP_PROXY"));
    ck_assert(has_env(&plan, "https_proxy"));
    ck_assert(has_env(&plan, "NO_PROXY=127.0.0.1,localhost"));
    ck_assert(has_env(&plan, "A=b"));
    ck_assert(!has_env(&plan, "NO_PROXY"));
    ck_assert(!has_env(&plan, "PATH=/bin"));
    cf_plan_release(&plan);
}
END_TEST

START_TEST(the_platform_must_fit)
{
    options = (struct cf_sandbox_options){.platform_arch = "arm64"};
    refused("", CF_ERROR_IMAGE, "linux/amd64, but linux/arm64 is wanted");
    options = (struct cf_sandbox_options){0};
    struct cf_engine_facts arm = docker;
    struct cf_error err = {0};
    struct cf_plan plan;
    json_t *image = image_of("");
    strcpy(arm.arch, "aarch64");
    ck_assert_int_lt(cf_plan_make(&options, &arm, image, "n", json_null(), &plan, &err), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "(the engine's own)"));
    json_object_set_new(image, "Os", json_string("windows"));
    ck_assert_int_lt(cf_plan_make(&options, &docker, image, "n", json_null(), &plan, &err), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "the image is for windows"));
    json_decref(image);
}
END_TEST

START_TEST(limits_that_cannot_work_are_refused)
{
    options = (struct cf_sandbox_options){.limits = {.memory_bytes = 1024}};
    refused("", CF_ERROR_CONFIG, "16 MiB");
    options = (struct cf_sandbox_options){.limits = {.pids = 1}};
    refused("", CF_ERROR_CONFIG, "8 processes");
    options = (struct cf_sandbox_options){.limits = {.nofile = 3}};
    refused("", CF_ERROR_CONFIG, "64 open files");
}
END_TEST

/* What an honest Docker inspects after this plan. */
static json_t *
inspect_of(const struct cf_plan *plan)
{
    json_t *inspect =
        json_pack("{s:o, s:O, s:[]}", "Config", json_deep_copy(plan->spec), "HostConfig",
                  json_object_get(plan->spec, "HostConfig"), "Mounts");
    json_t *host = json_deep_copy(json_object_get(inspect, "HostConfig"));

    for (size_t i = 0; i < plan->volume_count; i++)
        json_array_append_new(
            json_object_get(inspect, "Mounts"),
            json_pack("{s:s, s:s}", "Type", "volume", "Name", plan->volumes[i].name));
    json_object_set_new(inspect, "HostConfig", host);
    json_object_set_new(json_object_get(inspect, "Config"), "User", json_string(plan->user));
    return inspect;
}

START_TEST(an_honest_answer_is_in_force)
{
    struct cf_error err = {0};
    options = (struct cf_sandbox_options){0};
    struct cf_plan plan = plan_of("\"User\":\"1000\",\"Volumes\":{\"/data\":{}}");
    json_t *inspect = inspect_of(&plan);

    ck_assert_msg(cf_inforce_check(&plan, &docker, inspect, &err) == 0, "%s", err.text);
    json_t *isolation = cf_inforce_isolation(&plan, inspect),
           *limits = cf_inforce_limits(&plan, &docker, inspect);
    ck_assert_str_eq(cf_json_str(isolation, "network"), "none");
    ck_assert_str_eq(cf_json_str(isolation, "user"), "1000");
    ck_assert_int_eq(cf_json_int(limits, "swap_bytes", -1), 0);
    json_decref(isolation);
    json_decref(limits);
    json_decref(inspect);
    cf_plan_release(&plan);
}
END_TEST

START_TEST(podman_s_way_of_saying_it_is_in_force)
{
    struct cf_error err = {0};
    options = (struct cf_sandbox_options){0};
    struct cf_plan plan = plan_of("");
    json_t *inspect = inspect_of(&plan), *host = json_object_get(inspect, "HostConfig");
    struct cf_engine_facts podman = docker;

    podman.is_podman = true;
    json_object_set_new(host, "CapDrop",
                        json_pack("[s,s,s,s,s,s,s,s,s,s,s]", "CAP_CHOWN", "CAP_DAC_OVERRIDE",
                                  "CAP_FOWNER", "CAP_FSETID", "CAP_KILL",
                                  "CAP_NET_BIND_SERVICE", "CAP_SETFCAP", "CAP_SETGID",
                                  "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT"));
    json_object_set_new(host, "SecurityOpt", json_pack("[s]", "no-new-privileges"));
    json_object_set_new(host, "Binds", json_null());
    json_object_set_new(host, "NanoCpus", json_integer(0));
    json_object_set_new(host, "CpuQuota", json_integer(200000));
    json_object_set_new(host, "CpuPeriod", json_integer(100000));
    json_object_set_new(
        json_object_get(host, "Tmpfs"), "/tmp",
        json_string("rw,nosuid,nodev,exec,size=1073741824,mode=1777,rprivate,tmpcopyup"));
    json_object_set_new(
        host, "Ulimits",
        json_pack("[{s:s,s:i,s:i}]", "Name", "RLIMIT_NOFILE", "Soft", 4096, "Hard", 4096));
    json_object_set_new(json_object_get(inspect, "Config"), "Entrypoint",
                        json_string("/.cf/cf-init"));
    ck_assert_msg(cf_inforce_check(&plan, &podman, inspect, &err) == 0, "%s", err.text);
    json_decref(inspect);
    cf_plan_release(&plan);
}
END_TEST

/* Every setting that an engine could lose, one at a time. */
START_TEST(each_setting_that_did_not_take_is_named)
{
    static const struct {
        const char *where, *name, *value;
    } lies[] = {
        {"HostConfig", "NetworkMode", "\"bridge\""},
        {"HostConfig", "CapDrop", "null"},
        {"HostConfig", "CapDrop", "[\"CHOWN\"]"},
        {"HostConfig", "CapAdd", "[\"SYS_ADMIN\"]"},
        {"HostConfig", "SecurityOpt", "[]"},
        {"HostConfig", "SecurityOpt", "[\"no-new-privileges:true\",\"seccomp=unconfined\"]"},
        {"HostConfig", "SecurityOpt", "[\"no-new-privileges:false\"]"},
        {"HostConfig", "Privileged", "true"},
        {"HostConfig", "Devices", "[{}]"},
        {"HostConfig", "PidMode", "\"host\""},
        {"HostConfig", "IpcMode", "\"shareable\""},
        {"HostConfig", "UTSMode", "\"host\""},
        {"HostConfig", "CgroupnsMode", "\"host\""},
        {"HostConfig", "PortBindings", "{\"80/tcp\":[]}"},
        {"HostConfig", "PublishAllPorts", "true"},
        {"HostConfig", "Memory", "0"},
        {"HostConfig", "MemorySwap", "4294967296"},
        {"HostConfig", "MemorySwap", "-1"},
        {"HostConfig", "NanoCpus", "0"},
        {"HostConfig", "PidsLimit", "null"},
        {"HostConfig", "Ulimits", "null"},
        {"HostConfig", "Tmpfs", "null"},
        {"HostConfig", "Tmpfs", "{\"/tmp\":\"rw,noexec,nosuid,nodev,size=1073741824\"}"},
        {"HostConfig", "Tmpfs", "{\"/tmp\":\"rw,exec,nosuid,nodev,size=10737418240\"}"},
        {"HostConfig", "Binds", "[\"/:/host\"]"},
        {"HostConfig", "VolumesFrom", "[\"x\"]"},
        {"HostConfig", "LogConfig", "{\"Type\":\"json-file\"}"},
        {"HostConfig", "OomKillDisable", "true"},
        {"HostConfig", "AutoRemove", "true"},
        {"Config", "Entrypoint", "[\"/bin/sh\"]"},
        {"Config", "Entrypoint", "[\"/.cf/cf-init\",\"x\"]"},
        {"Config", "OpenStdin", "false"},
        {"Config", "StdinOnce", "false"},
        {"Config", "Tty", "true"},
        {"Config", "User", "\"0\""},
        {"Config", "Labels", "{}"},
        {"Config", "Env",
         "[\"NO_PROXY=127.0.0.1,localhost\",\"no_proxy=127.0.0.1,localhost\",\"HTTPS_PROXY="
         "http://u:secret@h\"]"},
        {"Config", "Env", "[]"},
        {"", "Mounts", "[{\"Type\":\"bind\",\"Source\":\"/\"}]"},
        {"", "Mounts", "[{\"Type\":\"volume\",\"Name\":\"somebody-elses\"}]"},
        {"", "Config", "null"},
        {"", "HostConfig", "[]"},
    };

    options = (struct cf_sandbox_options){0};
    struct cf_plan plan = plan_of("");
    for (size_t i = 0; i < CF_COUNT(lies); i++) {
        struct cf_error err = {0};
        json_t *inspect = inspect_of(&plan);
        json_t *where =
            lies[i].where[0] != '\0' ? json_object_get(inspect, lies[i].where) : inspect;
        json_object_set_new(where, lies[i].name,
                            json_loads(lies[i].value, JSON_DECODE_ANY, NULL));
        ck_assert_msg(cf_inforce_check(&plan, &docker, inspect, &err) < 0, "%s = %s passed",
                      lies[i].name, lies[i].value);
        ck_assert_int_eq(err.kind, CF_ERROR_ENGINE);
        ck_assert_ptr_null(strstr(err.text, "secret"));
        json_decref(inspect);
    }
    cf_plan_release(&plan);
}
END_TEST

START_TEST(a_kernel_without_swap_limit_is_no_lie)
{
    struct cf_engine_facts facts = docker;
    struct cf_error err = {0};
    options = (struct cf_sandbox_options){0};
    struct cf_plan plan = plan_of("");
    json_t *inspect = inspect_of(&plan);

    facts.has_swap_limit = false;
    json_object_set_new(json_object_get(inspect, "HostConfig"), "MemorySwap",
                        json_integer(-1));
    ck_assert_msg(cf_inforce_check(&plan, &facts, inspect, &err) == 0, "%s", err.text);
    json_t *limits = cf_inforce_limits(&plan, &facts, inspect);
    ck_assert(json_is_null(json_object_get(limits, "swap_bytes")));
    json_decref(limits);
    json_decref(inspect);
    cf_plan_release(&plan);
}
END_TEST

UNIT_MAIN("sandbox/plan", {
    tcase_add_test(tc, defaults_are_the_design_s);
    tcase_add_test(tc, a_layer_is_limited_where_the_engine_can);
    tcase_add_test(tc, the_working_directory_is_chosen_in_order);
    tcase_add_test(tc, each_refused_working_directory_says_why);
    tcase_add_test(tc, image_volumes_become_ours);
    tcase_add_test(tc, volumes_have_a_limit);
    tcase_add_test(tc, proxy_variables_of_the_image_are_removed);
    tcase_add_test(tc, the_platform_must_fit);
    tcase_add_test(tc, limits_that_cannot_work_are_refused);
    tcase_add_test(tc, an_honest_answer_is_in_force);
    tcase_add_test(tc, podman_s_way_of_saying_it_is_in_force);
    tcase_add_test(tc, each_setting_that_did_not_take_is_named);
    tcase_add_test(tc, a_kernel_without_swap_limit_is_no_lie);
})
