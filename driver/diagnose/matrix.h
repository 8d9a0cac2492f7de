/*
 * diagnose/matrix.h: `test matrix`: images × protocols × options, a diagnostic a cell, so many at a
 * time, one table. A baseline excuses single checks of single cells, each with its reason; an excuse
 * that excuses nothing is a failure itself. The last result is compared with this one.
 *
 *     matrix_file.c   the file and the baseline, read strictly; pure
 *     matrix.c        the cells, run
 *     matrix_judge.c  excuses, differences, the one result; pure
 *     matrix_table.c  the result for eyes; pure
 */
#ifndef CF_DIAGNOSE_MATRIX_H
#define CF_DIAGNOSE_MATRIX_H

#include "diagnose/diagnose.h"

#define CF_MATRIX_CELLS 1000u
#define CF_MATRIX_AT_ONCE 16u

struct cf_matrix_cell {
    char *name;                      /* "image/protocol/options"; ours */
    const char *image, *protocol, *options; /* names, borrowed from the file */
    json_t *release, *run_options;   /* ours */
};

/* Zeroed is safe to release. */
struct cf_matrix_plan {
    json_t *document; /* ours */
    const char *name;
    unsigned at_once;
    struct cf_matrix_cell *cells;
    size_t count;
};

/*
 * The plan of a document (proto/matrix.schema.json); relative build contexts are looked for in
 * `folder`. CF_ERROR_CONFIG names what is wrong: an unknown member, a name twice, a release that the
 * authoring contract refuses, no cell at all. `document` gains a reference.
 */
CF_CHECKED int cf_matrix_read(json_t *document, const char *folder, struct cf_matrix_plan *plan, struct cf_error *err);
void cf_matrix_plan_release(struct cf_matrix_plan *plan);
/* A baseline (proto/matrix-baseline.schema.json); CF_ERROR_CONFIG names the excuse. */
CF_CHECKED int cf_matrix_check_baseline(const json_t *baseline, struct cf_error *err);

/* ---- running -------------------------------------------------------------------------------- */

struct cf_matrix;

struct cf_matrix_events {
    void (*on_cell)(void *user, json_t *row); /* a cell is over; borrowed until return; may be NULL */
    /* The whole diagnostic of a cell, before on_cell; may be NULL. */
    void (*on_result)(void *user, const struct cf_matrix_cell *cell, json_t *result);
    /* All rows, in the plan's order; once, and then the matrix is gone. Borrowed until return. */
    void (*on_done)(void *user, json_t *rows);
    void *user;
};

/* `plan` is borrowed until on_done. */
CF_CHECKED int cf_matrix_open(struct uv_loop_s *loop, const struct cf_matrix_plan *plan,
                              const struct cf_matrix_events *events, struct cf_matrix **ret_matrix, struct cf_error *err);
/* What runs is torn down, what waits is not begun; on_done still comes. */
void cf_matrix_interrupt(struct cf_matrix *matrix, uint64_t grace_ms);

/* ---- judging -------------------------------------------------------------------------------- */

/*
 * The result (proto/matrix-result.schema.json), new reference; `rows` as on_done gave them,
 * `baseline` and `before` (an earlier result) may be NULL. Its exit_code is the worst of all cells
 * and excuses.
 */
json_t *cf_matrix_result(const char *name, json_t *rows, const json_t *baseline, const json_t *before, uint64_t took_ms);

struct cf_buf;
/* For eyes, within 80 columns. */
void cf_matrix_table(struct cf_buf *to, const json_t *result, const struct cf_report_style *style);

#endif
