/*
 * diagnose/diagnose.h: `test oci`. Drives one run through the public door (cfrunner/run.h), asks
 * it fresh questions, and turns what came back into checks, a verdict and the next steps.
 */
#ifndef CF_DIAGNOSE_DIAGNOSE_H
#define CF_DIAGNOSE_DIAGNOSE_H

#include <cfrunner/error.h>
#include <cfrunner/pool.h>
#include <cfrunner/run.h>

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cf_diagnose;
struct cf_trail;

struct cf_diagnose_options {
    json_t *release;  /* the authoring object; borrowed during open */
    json_t *options;  /* the run options; borrowed during open */
    /* For next_steps; all may be NULL, all copied. */
    const char *name, *sandbox, *model, *api_url, *connection_file, *configuration_file;
    struct cf_pool *pool; /* the run is one of this pool's; or NULL: it has an engine and an image of its own */
    bool only_exchange;   /* nothing but the first question */
    bool has_drain; /* a declared cooperative interrupt is asked for, in a turn of its own */
    const char *const *retest_argv; /* this command's own arguments from `test` on, NULL-terminated; copied */
};

/* The eyes: every event of the run as it happens, unchanged; NULL members are skipped. on_result
 * and on_closed are not passed on: on_done takes their place. */
struct cf_diagnose_events {
    struct cf_run_host watch;
    /* The result document (proto/diagnostic-result.schema.json) and the exit code; borrowed until
     * return. Once, after teardown; then the diagnose object is gone and nothing fires. */
    void (*on_done)(void *user, json_t *result, int exit_code);
    void *user;
};

/* -1 with `err` (and no callback ever) when release or options are wrong. */
CF_CHECKED int cf_diagnose_open(struct uv_loop_s *loop, const struct cf_diagnose_options *options,
                                const struct cf_diagnose_events *events, struct cf_diagnose **ret_diagnose,
                                struct cf_error *err);
/* Interrupt: the run is torn down, on_done still comes. A second call with less grace hurries. */
void cf_diagnose_interrupt(struct cf_diagnose *diagnose, uint64_t grace_ms);

/* Exit code of an error kind that ended a run (design: 0-5, 130). */
int cf_diagnose_exit_code(enum cf_error_kind kind);
/* Nothing failed, and something was shown of the harness itself: what image, sandbox and teardown show
 * of themselves makes no run green. */
bool cf_diagnose_is_shown(const json_t *checks);
/* The worse of two exit codes: 4, 130, 3, 2, 5, 1, 0. */
int cf_diagnose_worse(int a, int b);

/* What a turn of the diagnostic is for. */
enum cf_ask_kind { CF_ASK_EXCHANGE, CF_ASK_RESUME, CF_ASK_SCHEMA, CF_ASK_STEER, CF_ASK_DRAIN, CF_ASK_COUNT };

/* checks.c: what was seen, judged. Private to the room. */
struct cf_diagnose_facts {
    json_t *run;              /* the run's result */
    json_t *release, *options;
    bool is_acp, has_resume, has_output_schema;
    /* by question (CF_ASK_...); NULL: it was not asked */
    const char *prompt_nonce[CF_ASK_COUNT], *answer_nonce[CF_ASK_COUNT];
    json_t *messages[CF_ASK_COUNT]; /* array of strings: agent_message contents */
    bool wants_drain;
    json_t *bad_observation;  /* the first one outside the contract: {"seq","why"}; or NULL */
    const struct cf_trail *trail; /* what passed, for evidence; may be NULL */
    bool interrupted;
};
json_t *cf_diagnose_checks(const struct cf_diagnose_facts *facts);
/* [{"axis","declared","exercised","proven"}] of the three axes that a declaration can raise; new
 * reference. `checks` are cf_diagnose_checks'. */
json_t *cf_diagnose_axes(json_t *run, json_t *checks);
/* next_steps.c */
json_t *cf_diagnose_next_steps(const struct cf_diagnose_options *options, json_t *release, bool is_build_context,
                               bool passed);

/* report.c: the result for eyes, at most 80 columns wide where the content allows. */
struct cf_buf;
struct cf_report_style {
    bool color, unicode;
    int columns;  /* 0: 80 */
    int verbose;  /* 0 report, -1 verdict line only, 1 and up: with findings and stderr */
    const char *record; /* path of the recording, for the commands that it names; or NULL */
};
void cf_report_write(struct cf_buf *to, json_t *result, const struct cf_report_style *style);

#endif
