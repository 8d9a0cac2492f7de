/*
 * diagnose/doctor.h: is this machine fit for a run? The engine is asked for what it says of
 * itself, made to build an image of nothing and to hold one sandbox of ours, and what dead runs
 * left in it is counted. Each answer is one line with the fact and the next step.
 *
 *     doctor.c        the story: asking, building, trying, taking away
 *     doctor_facts.c  what was asked, as JSON
 *     doctor_lines.c  the facts judged; pure
 */
#ifndef CF_DIAGNOSE_DOCTOR_H
#define CF_DIAGNOSE_DOCTOR_H

#include <cfrunner/error.h>

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct uv_loop_s;
struct cf_doctor;
struct cf_engine_facts;

struct cf_doctor_options {
    const char *engine, *state_dir; /* as in the run options; copied; NULL: the default */
    bool only_looks;                /* nothing is built, nothing is started */
};

/* The report (proto/doctor.schema.json) and the exit code: 0 fit, 3 a run cannot work here, 4
 * what the trial made could not be taken away, 130 interrupted. Borrowed until return. Once, from
 * the loop; then the doctor is gone. */
typedef void cf_doctor_done_fn(void *user, json_t *report, int exit_code);

CF_CHECKED int cf_doctor_open(struct uv_loop_s *loop, const struct cf_doctor_options *options,
                              cf_doctor_done_fn *done, void *user, struct cf_doctor **ret_doctor,
                              struct cf_error *err);
/* What is under way is taken down; done still comes. */
void cf_doctor_interrupt(struct cf_doctor *doctor);

/* ---- doctor_facts.c: each a new reference ------------------------------------------------- */

/* {"message","fix"?,"code"}: why something could not be asked. */
json_t *cf_doctor_error(const struct cf_error *err);
json_t *cf_doctor_engine_facts(const struct cf_engine_facts *facts, uint64_t took_ms);
/* What the engine's clock is ahead of ours, in ms; NULL: it does not say its time. `began_ms` and
 * `ended_ms` are wall time in ms around the question. */
json_t *cf_doctor_clock(const char *engine_time, int64_t began_ms, int64_t ended_ms);
/* {"path","free_bytes"} of a local folder or the nearest above it; NULL: it cannot be seen. */
json_t *cf_doctor_disk(const char *path);
/* Machines whose programs this kernel runs by an interpreter: ["arm64", ...]. */
json_t *cf_doctor_emulated(void);
/* {"arch","open_files"} of this process. */
json_t *cf_doctor_self(void);
/* {"runs","things","foreign_runs","foreign_things"} of a dry run of the reaper. */
json_t *cf_doctor_leftovers(const json_t *report, const char *owner_id);

/* ---- doctor_lines.c ------------------------------------------------------------------------ */

/*
 * Judges facts: [{"id","group","status":"ok"|"warning"|"blocking","fact","next":text|null}]; new
 * reference. The members of `facts`, each of which may be absent or null (then nothing is said of
 * it): "engine" (cf_doctor_engine_facts or {"error"}), "info" (the engine's /info as it came),
 * "clock", "disk", "emulated", "leftovers", "self", "state" {"directory"} or {"error"}, "builder"
 * and "sandbox" {"took_ms"} or {"error"}, "left" (of the trial; cf_teardown's form).
 */
json_t *cf_doctor_lines(const json_t *facts);

#endif
