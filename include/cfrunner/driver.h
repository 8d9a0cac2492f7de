/*
 * cfrunner/driver.h: a driver that is loaded at run time.
 *
 *     void *so = dlopen("/usr/lib/cfrunner/cfrunner-docker.so", RTLD_NOW | RTLD_LOCAL);
 *     const struct cf_driver *driver = dlsym(so, CF_DRIVER_DOCKER_SYMBOL);
 *     if (driver == NULL || driver->abi_major != CF_ABI_MAJOR) ...refuse it...
 *
 * The shared object exports that one symbol. What the verbs do, who owns what, and when
 * callbacks come is said in cfrunner/run.h and cfrunner/pool.h: each entry of the table is the
 * function of that name.
 *
 * How the two sides grow apart without breaking:
 *   - Structs only ever get members at their end, and begin with their size (and, where a host
 * says who it is, major and minor): 8 bytes that never change.
 *   - Major differs: each side refuses the other. The driver does so in `setup`, `run_open`
 * and `pool_open`.
 *   - Minor or size differs: use what both have. A host tests CF_DRIVER_HAS(driver, verb)
 * before a verb that its oldest driver may lack; the driver takes a missing tail of a host's
 * table as NULL and never reads past its size; a longer one is read as far as it is known. A
 * callback's struct (cf_observation, cf_pool_state) says its size too.
 *   - cf_error has no size: it is as it is for all of major 1.
 *
 * The host keeps the shared object loaded until on_closed of its last run has returned;
 * better, for good: libcurl and libsodium stay initialized.
 *
 * History
 *   1.1  run_collect and run_checkpoint at the end of cf_driver; on_collected and
 *        on_checkpoint_made at the end of cf_run_host
 *   1.0  the first
 */
#ifndef CFRUNNER_DRIVER_H
#define CFRUNNER_DRIVER_H

#include <cfrunner/error.h>
#include <cfrunner/memory.h>
#include <cfrunner/observation.h>
#include <cfrunner/pool.h>
#include <cfrunner/run.h>
#include <cfrunner/version.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CF_DRIVER_DOCKER_SYMBOL "cf_driver_docker_v1"

/* How a host introduces itself, once per process and loaded driver. */
struct cf_driver_setup {
    uint32_t size; /* sizeof(struct cf_driver_setup) where the host was built */
    uint16_t abi_major, abi_minor;  /* CF_ABI_MAJOR, CF_ABI_MINOR there */
    const struct cf_memory *memory; /* copied; NULL: malloc and free */
};

struct cf_driver {
    uint32_t size; /* sizeof(struct cf_driver) where the driver was built */
    uint16_t abi_major, abi_minor;
    const char *name;    /* static storage: "docker" */
    const char *version; /* static storage: "0.1.0" */

    /* Checks the host's ABI, takes its allocator, initializes curl and sodium. Idempotent, but
     * for the allocator: that can be given in the first call only. Before it, run_open
     * refuses. */
    int (*setup)(const struct cf_driver_setup *setup, struct cf_error *err);

    int (*run_open)(struct uv_loop_s *loop, const char *release_json, size_t release_len,
                    const char *options_json, size_t options_len,
                    const struct cf_run_host *host, struct cf_run **ret_run,
                    struct cf_error *err);
    int (*run_prompt)(struct cf_run *run, const char *prompt_json, size_t len,
                      struct cf_error *err);
    void (*run_cancel)(struct cf_run *run);
    void (*run_interrupt)(struct cf_run *run);
    int (*run_steer)(struct cf_run *run, const char *steer_json, size_t len,
                     char ret_event_id[40], struct cf_error *err);
    int (*run_permission_answer)(struct cf_run *run, uint64_t request, const char *option_id,
                                 struct cf_error *err);
    int (*run_question_answer)(struct cf_run *run, uint64_t request, const char *answer_json,
                               size_t len, struct cf_error *err);
    void (*run_resume)(struct cf_run *run);
    void (*run_close)(struct cf_run *run, uint64_t grace_ms, const struct cf_error *why);

    int (*pool_open)(struct uv_loop_s *loop, const char *release_json, size_t release_len,
                     const char *options_json, size_t options_len,
                     const struct cf_pool_host *host, struct cf_pool **ret_pool,
                     struct cf_error *err);
    int (*pool_run_open)(struct cf_pool *pool, const char *options_json, size_t options_len,
                         const struct cf_run_host *host, struct cf_run **ret_run,
                         struct cf_error *err);
    void (*pool_state)(const struct cf_pool *pool, struct cf_pool_state *state);
    void (*pool_close)(struct cf_pool *pool, uint64_t grace_ms);

    /* Words for numbers; static storage. */
    const char *(*error_type)(enum cf_error_kind kind);
    const char *(*blame_name)(enum cf_blame blame);
    enum cf_blame (*error_blame)(enum cf_error_kind kind);
    const char *(*observation_type_name)(uint32_t type);

    /* cf_release_check; the report is freed with release_report_free. */
    int (*release_check)(const char *json, size_t len, char **ret_report,
                         struct cf_error *err);
    void (*release_report_free)(char *report);

    /* since 1.1 */
    int (*run_collect)(struct cf_run *run, const char *collect_json, size_t len,
                       struct cf_error *err);
    int (*run_checkpoint)(struct cf_run *run, const char *checkpoint_json, size_t len,
                          struct cf_error *err);
};

/* True when the loaded driver is new enough to have `member`, and has it. */
#define CF_DRIVER_HAS(driver, member)                                                   \
    ((driver)->size >= offsetof(struct cf_driver, member) + sizeof((driver)->member) && \
     (driver)->member != NULL)

extern CF_API const struct cf_driver cf_driver_docker_v1;

#ifdef __cplusplus
}
#endif
#endif
