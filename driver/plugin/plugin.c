/*
 * The exported table: a thin door onto run/. What it adds is what only a border needs: the
 * host was built elsewhere, maybe years ago, so it says its version first and is refused by
 * name.
 */
#include <cfrunner/driver.h>
#include <cfrunner/release.h>

#include "base/error.h"

#include <stdbool.h>

/* What every host of major 1 has: up to and with its first callback. */
#define HOST_LEAST (offsetof(struct cf_run_host, on_phase) + sizeof(void *))
#define POOL_HOST_LEAST (offsetof(struct cf_pool_host, user) + sizeof(void *))
#define SETUP_LEAST offsetof(struct cf_driver_setup, memory)

static bool is_set_up;

static int
check_abi(const char *what, uint32_t size, size_t least, unsigned major, unsigned minor,
          struct cf_error *err)
{
    if (major != CF_ABI_MAJOR) {
        (void)cf_error_set(err, CF_ERROR_CONFIG, 0,
                           "%s was built for ABI %u.%u; this driver speaks %u.%u", what, major,
                           minor, CF_ABI_MAJOR, CF_ABI_MINOR);
        return cf_error_fix(err,
                            "load a driver of major %u, or build the host against "
                            "cfrunner/driver.h of this one",
                            major);
    }
    if (size < least)
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "%s says %u bytes, and its least is %zu",
                            what, size, least);
    return 0;
}

static int
setup(const struct cf_driver_setup *given, struct cf_error *err)
{
    const struct cf_memory *memory = NULL;

    if (check_abi("cf_driver_setup", given->size, SETUP_LEAST, given->abi_major,
                  given->abi_minor, err) < 0)
        return -1;
    if (given->size >= SETUP_LEAST + sizeof given->memory)
        memory = given->memory;
    if (memory != NULL && cf_library_set_memory(memory, err) < 0)
        return -1;
    if (cf_library_init(err) < 0)
        return -1;
    is_set_up = true;
    return 0;
}

static int
check_set_up(struct cf_error *err)
{
    if (is_set_up)
        return 0;
    (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "the driver was not set up");
    return cf_error_fix(err, "call driver->setup once, before the first run");
}

static int
check_run_host(const struct cf_run_host *host, struct cf_error *err)
{
    return check_abi("cf_run_host", host->size, HOST_LEAST, host->abi_major, host->abi_minor,
                     err) < 0
               ? -1
               : check_set_up(err);
}

static int
run_open(struct uv_loop_s *loop, const char *release_json, size_t release_len,
         const char *options_json, size_t options_len, const struct cf_run_host *host,
         struct cf_run **ret_run, struct cf_error *err)
{
    if (check_run_host(host, err) < 0)
        return -1;
    return cf_run_open(loop, release_json, release_len, options_json, options_len, host,
                       ret_run, err);
}

static int
pool_open(struct uv_loop_s *loop, const char *release_json, size_t release_len,
          const char *options_json, size_t options_len, const struct cf_pool_host *host,
          struct cf_pool **ret_pool, struct cf_error *err)
{
    if (check_abi("cf_pool_host", host->size, POOL_HOST_LEAST, host->abi_major,
                  host->abi_minor, err) < 0 ||
        check_set_up(err) < 0)
        return -1;
    return cf_pool_open(loop, release_json, release_len, options_json, options_len, host,
                        ret_pool, err);
}

static int
pool_run_open(struct cf_pool *pool, const char *options_json, size_t options_len,
              const struct cf_run_host *host, struct cf_run **ret_run, struct cf_error *err)
{
    if (check_run_host(host, err) < 0)
        return -1;
    return cf_pool_run_open(pool, options_json, options_len, host, ret_run, err);
}

const struct cf_driver cf_driver_docker_v1 = {
    .size = sizeof(struct cf_driver),
    .abi_major = CF_ABI_MAJOR,
    .abi_minor = CF_ABI_MINOR,
    .name = "docker",
    .version = CFRUNNER_VERSION,
    .setup = setup,
    .run_open = run_open,
    .run_prompt = cf_run_prompt,
    .run_cancel = cf_run_cancel,
    .run_interrupt = cf_run_interrupt,
    .run_steer = cf_run_steer,
    .run_permission_answer = cf_run_permission_answer,
    .run_question_answer = cf_run_question_answer,
    .run_resume = cf_run_resume,
    .run_close = cf_run_close,
    .pool_open = pool_open,
    .pool_run_open = pool_run_open,
    .pool_state = cf_pool_state,
    .pool_close = cf_pool_close,
    .error_type = cf_error_type,
    .blame_name = cf_blame_name,
    .error_blame = cf_error_blame,
    .observation_type_name = cf_observation_type_name,
    .release_check = cf_release_check,
    .release_report_free = cf_release_report_free,
    .run_collect = cf_run_collect,
    .run_checkpoint = cf_run_checkpoint,
};
