/* cli/launch.h: what `test oci` and `run` have in common: flags -> release and options documents. */
#ifndef CF_CLI_LAUNCH_H
#define CF_CLI_LAUNCH_H

#include "base/error.h"
#include "cli/flags.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cf_launch_flags {
    const char *name, *image, *build_context, *dockerfile, *entrypoint, *protocol, *release_file;
    struct cf_flag_list args, argv, dialects, env, prompts;
    const char *prompt_transport, *output_mode, *resume_flag, *output_schema_flag, *output_schema_transport;
    const char *working_directory, *platform, *configuration_schema, *output_schema;
    const char *sandbox, *model, *connection_file, *api_url;
    const char *engine, *state_dir, *pull, *retention, *permission, *registry_host;
    bool registry_all_interfaces, json, plain, quiet, print_plan, help, help_all;
    int verbose;
    uint64_t memory, pids, disk, output_limit, timeout_ms, turn_ms, idle_ms, start_ms, grace_ms, relay_port;
    double cpus;
    struct cf_flag_list files, hooks_post, hooks_pre;
    const char *record, *report, *junit, *tap, *sarif, *summary, *statement;
    const char *collect, *state_in, *state_out, *hook_on_failure;
    uint64_t hook_ms, collect_limit;
    /* acp */
    struct cf_flag_list mcp, config, steers;
    const char *builtin_tools, *continuity, *resume_state, *checkpoint_out, *elicitation, *mode, *session, *session_method, *session_end;
    struct cf_flag_list attached;
    uint64_t context_window, compaction_trigger, cancel_ms, interrupt_ms;
    bool fs, terminal, drain;
    const char *torture; /* test oci */
    /* the model relay, and what is open outside */
    struct cf_flag_list upstreams, upstream_key_envs, upstream_key_files, upstream_cas, allow_models, allow_hosts;
    const char *model_script, *price_file, *ledger;
    uint64_t max_calls, max_turn_calls, max_concurrent, max_request_bytes, max_response_bytes, max_input_tokens,
        max_output_tokens, lease_ms;
    double max_cost;
    const char *checkpoint, *restore; /* run */
    /* run: its journal */
    const char *journal, *identity, *repository_id, *thread_id;
    struct cf_flag_list claim_paths;
    uint64_t claim_ms;
};

struct cf_launch {
    json_t *release, *options;      /* ours */
    json_t *connection;             /* the connection file, or NULL */
    const char *sandbox, *model;    /* after the connection file's defaults; borrowed */
};

extern const struct cf_flag cf_launch_table[];
extern const size_t cf_launch_count;

/* Everything that can be seen without an engine is seen here. -1: CF_ERROR_CONFIG (exit 2). */
CF_CHECKED int cf_launch_make(const struct cf_launch_flags *flags, struct cf_launch *launch, struct cf_error *err);
void cf_launch_done(struct cf_launch *launch);
/* launch_files.c: files, state, collection and hooks into the options document. */
CF_CHECKED int cf_launch_files(const struct cf_launch_flags *flags, json_t *options, struct cf_error *err);
/* What fills a folder wants it absent or empty, and writable to nobody else. `dir` NULL is fine. */
CF_CHECKED int cf_launch_check_fresh(const char *flag, const char *dir, struct cf_error *err);

/* launch_acp.c: ACP sessions, into the same; launch->release is there already. */
CF_CHECKED int cf_launch_acp(const struct cf_launch_flags *flags, const struct cf_launch *launch, json_t *options,
                             struct cf_error *err);

/* launch_relay.c: the relay's upstreams, script and caps, the ledger's file, names to open. */
CF_CHECKED int cf_launch_relay(const struct cf_launch_flags *flags, json_t *options, struct cf_error *err);

/* launch_journal.c: the journal of a run. Only `run` has these flags. */
CF_CHECKED int cf_launch_journal(const struct cf_launch_flags *flags, json_t *options, struct cf_error *err);

/* A whole file, at most `limit` bytes; returned: yours. "-" reads stdin. */
char *cf_read_file(const char *path, size_t limit, size_t *ret_len, struct cf_error *err);
/* The same as JSON, at most 1 MiB; new reference. */
json_t *cf_read_json_file(const char *path, struct cf_error *err);

#endif
