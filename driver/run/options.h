/* run/options.h: what this run allows, decoded from the options document. Closed and bounded. */
#ifndef CF_RUN_OPTIONS_H
#define CF_RUN_OPTIONS_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum cf_permission_policy { CF_PERMISSION_DENY, CF_PERMISSION_ALLOW, CF_PERMISSION_END, CF_PERMISSION_ASK };
/* Forms of the agent's (elicitation/create): not offered; offered and declined, or the turn ends
 * with the question, or the host is asked. */
enum cf_elicitation_policy { CF_ELICITATION_OFF, CF_ELICITATION_DECLINE, CF_ELICITATION_END, CF_ELICITATION_ASK };
/* How a session that the agent keeps is entered again, and how the run leaves its session. */
enum cf_session_method { CF_SESSION_AUTO, CF_SESSION_RESUME, CF_SESSION_LOAD };
enum cf_session_end { CF_SESSION_CLOSE, CF_SESSION_KEEP, CF_SESSION_DELETE, CF_SESSION_LOGOUT };
enum cf_pull_policy_option { CF_PULL_OPTION_MISSING, CF_PULL_OPTION_ALWAYS, CF_PULL_OPTION_NEVER };

enum cf_hook_phase { CF_HOOK_POST_MATERIALIZE, CF_HOOK_PRE_WRITEBACK, CF_HOOK_PHASES };
#define CF_HOOKS_MOST 16u

struct cf_run_options {
    json_t *json; /* the document; strings below are borrowed from it */
    const char *name, *engine, *docker_config_dir, *state_dir;
    const char *record;       /* a file to write what happens into, or NULL */
    const char *build_context, *dockerfile; /* NULL: the release's image */
    bool registry_all_interfaces;
    const char *registry_host;
    enum cf_pull_policy_option pull;
    bool is_ephemeral;        /* retention ephemeral_zdr */
    const char *model;
    unsigned relay_port, max_calls_per_turn;
    json_t *env;              /* object of strings, or NULL */
    json_t *session_meta;     /* acp: session/new _meta, or NULL */
    json_t *mcp;              /* acp: mcpServers, or NULL */
    json_t *config;           /* acp: object of session config options to set, or NULL */
    const char *mode;         /* acp: session mode to set, or NULL */
    const char *session;      /* acp: the agent's session to continue, "latest", or NULL: a new one */
    enum cf_session_method session_method;
    enum cf_session_end session_end;
    bool fs, terminal;        /* acp: what is advertised to the agent */
    enum cf_permission_policy permission;
    enum cf_elicitation_policy elicitation;
    uint64_t memory_bytes, pids, nofile, disk_bytes, output_bytes;
    double cpus;
    uint64_t start_ms, initialize_ms, session_ms, turn_ms, idle_ms, whole_ms, grace_ms, drain_ms;
    bool continues;           /* oneshot: the first turn already continues a prior state */
    bool skip_reap;
    json_t *files;            /* [{"source","target"}] to stage, or NULL */
    const char *state_in;     /* a folder staged into the working directory; implies continues */
    json_t *restore;          /* a checkpoint's document, or NULL: run/restore.h */
    const char *collect, *state_out; /* folders to fill with the working directory after the run */
    uint64_t collect_bytes, collect_entries;
    json_t *hooks[CF_HOOK_PHASES]; /* each a text or a list of texts (an exact argv), or NULL */
    bool hooks_go_on;         /* on_failure: continue */
    uint64_t hook_ms;
    bool has_pool;            /* "pool" is there: only cf_pool_open knows what to do with it */
    uint64_t pool_creates, pool_warm, pool_ttl_ms; /* creates 0: from the engine's cores */
    uint64_t pool_seed_after;                      /* 0: never */
    /* what is let out, and what the lease allows; each 0 or NULL: none, no cap, the default */
    json_t *upstreams;    /* [{"provider","url","key_env"|"key_file","ca_file"}] */
    json_t *model_script, *prices, *models;
    json_t *allow_hosts;  /* list of NAME[:PORT] for the forward proxy */
    const char *ledger;   /* a file for the ledger's rows */
    uint64_t calls, calls_at_once, request_bytes, response_bytes, input_tokens, output_tokens, lease_ms;
    uint64_t connect_ms, first_byte_ms, stall_ms; /* of an upstream */
    double cost;
    /* trouble that the driver makes on purpose: run/perturb.h */
    uint64_t stdin_bytes, stdin_gap_ms, stdin_hold_ms, stdout_bytes, stdout_hold_ms, stop_ms;
    int stop_at, cancel_at; /* enum cf_moment */
    /* what the run says of itself; all or none of the first five */
    const char *journal, *identity; /* a directory, a file */
    const char *repository_id, *thread_id;
    json_t *claim_paths; /* list of texts */
    uint64_t claim_ms;   /* how long the claim stands unless it is renewed */
};

CF_CHECKED int cf_run_options_decode(const char *json, size_t len, struct cf_run_options *options, struct cf_error *err);
void cf_run_options_done(struct cf_run_options *options);

#endif
