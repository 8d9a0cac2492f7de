/* The cells of a matrix, so many at a time, in the plan's order; each a diagnostic of its own. */
#include "diagnose/matrix.h"

#include "base/clock.h"
#include "base/str.h"
#include "json/json.h"

#include <stdlib.h>
#include <uv.h>

struct running {
    struct cf_matrix *matrix;
    const struct cf_matrix_cell *cell;
    struct cf_diagnose *diagnose; /* while it runs */
    json_t *row;                  /* NULL until it is over */
    uint64_t began_ms;
};

struct cf_matrix {
    struct uv_loop_s *loop;
    const struct cf_matrix_plan *plan;
    struct cf_matrix_events events;
    struct running *cells;
    size_t next, open;
    bool is_interrupted, is_filling;
    uv_timer_t begin;
};

static void
finish(struct cf_matrix *m)
{
    struct cf_matrix_events events = m->events;
    json_t *rows = json_array();

    for (size_t i = 0; i < m->plan->count; i++)
        (void)json_array_append_new(rows, m->cells[i].row);
    free(m->cells);
    free(m);
    events.on_done(events.user, rows);
    json_decref(rows);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static json_t *
checks_of(const json_t *result)
{
    static const char *const kept[] = {"id", "status", "summary", "fix"};
    const json_t *checks = json_object_get(result, "checks");
    json_t *rows = json_array();

    for (size_t i = 0; i < json_array_size(checks); i++) {
        json_t *row = json_object();
        for (size_t k = 0; k < CF_COUNT(kept); k++)
            if (json_object_get(json_array_get(checks, i), kept[k]) != NULL)
                (void)json_object_set(row, kept[k], json_object_get(json_array_get(checks, i), kept[k]));
        (void)json_array_append_new(rows, row);
    }
    return rows;
}

static void
cell_over(struct running *r, const char *status, int exit_code, const char *blame, json_t *checks, json_t *error, json_t *digest)
{
    const struct cf_matrix_cell *cell = r->cell;
    json_int_t took = r->began_ms > 0 ? (json_int_t)(cf_clock_ms() - r->began_ms) : 0;

    /* clang-format off */
    r->row = json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:s, s:o, s:o, s:o, s:I}",
                       "cell", cell->name, "image", cell->image, "protocol", cell->protocol, "options", cell->options,
                       "status", status,
                       "exit_code", exit_code,
                       "blame", blame,
                       "checks", checks != NULL ? checks : json_array(),
                       "error", error != NULL ? json_incref(error) : json_null(),
                       "digest", digest != NULL ? json_incref(digest) : json_null(),
                       "took_ms", took);
    /* clang-format on */
    if (r->matrix->events.on_cell != NULL)
        r->matrix->events.on_cell(r->matrix->events.user, r->row);
}

static json_t *
error_of(const struct cf_error *err)
{
    return json_pack("{s:s, s:s, s:s}", "type", cf_error_type(err->kind), "message", err->text, "fix", err->fix);
}

/* ---- running --------------------------------------------------------------------------------- */

static void fill(struct cf_matrix *m);

static void
on_cell_done(void *user, json_t *result, int exit_code)
{
    struct running *r = user;
    struct cf_matrix *m = r->matrix;
    const char *status = cf_json_str(result, "status"), *blame = cf_json_str(result, "blame");

    r->diagnose = NULL;
    m->open--;
    if (m->events.on_result != NULL)
        m->events.on_result(m->events.user, r->cell, result);
    cell_over(r, status != NULL ? status : "error", exit_code, blame != NULL ? blame : "none", checks_of(result),
              json_object_get(result, "error"), json_object_get(json_object_get(result, "image"), "digest"));
    fill(m);
}

static void
begin(struct running *r)
{
    const struct cf_diagnose_options options = {
        .release = r->cell->release, .options = r->cell->run_options, .name = r->cell->image};
    const struct cf_diagnose_events events = {.watch = {.size = sizeof events.watch}, .on_done = on_cell_done, .user = r};
    struct cf_error err = {0};
    json_t *error;

    r->began_ms = cf_clock_ms();
    if (cf_diagnose_open(r->matrix->loop, &options, &events, &r->diagnose, &err) == 0) {
        r->matrix->open++;
        return;
    }
    error = error_of(&err);
    cell_over(r, "error", cf_error_blame(err.kind) == CF_BLAME_AUTHOR ? 2 : 4, "none", NULL, error, NULL);
    json_decref(error);
}

static void
fill(struct cf_matrix *m)
{
    if (m->is_filling)
        return;
    m->is_filling = true;
    while (m->next < m->plan->count && (m->is_interrupted || m->open < m->plan->at_once)) {
        struct running *r = &m->cells[m->next++];
        if (m->is_interrupted)
            cell_over(r, "error", 130, "none", NULL, NULL, NULL);
        else
            begin(r);
    }
    m->is_filling = false;
    if (m->next == m->plan->count && m->open == 0)
        finish(m);
}

/* Not from inside open: the first cells begin in the next turn of the loop. */
static void
on_begin(uv_handle_t *handle)
{
    fill(handle->data);
}

int
cf_matrix_open(struct uv_loop_s *loop, const struct cf_matrix_plan *plan, const struct cf_matrix_events *events,
               struct cf_matrix **ret_matrix, struct cf_error *err)
{
    struct cf_matrix *m = calloc(1, sizeof *m);
    struct running *cells = calloc(plan->count, sizeof *cells);

    if (m == NULL || cells == NULL) {
        free(cells);
        free(m);
        return cf_error_memory(err);
    }
    m->cells = cells;
    m->loop = loop;
    m->plan = plan;
    m->events = *events;
    for (size_t i = 0; i < plan->count; i++)
        m->cells[i] = (struct running){.matrix = m, .cell = &plan->cells[i]};
    (void)uv_timer_init(loop, &m->begin); /* closed at once: its close callback is the next turn */
    m->begin.data = m;
    uv_close((uv_handle_t *)&m->begin, on_begin);
    *ret_matrix = m;
    return 0;
}

void
cf_matrix_interrupt(struct cf_matrix *m, uint64_t grace_ms)
{
    m->is_interrupted = true;
    for (size_t i = 0; i < m->plan->count; i++)
        if (m->cells[i].diagnose != NULL)
            cf_diagnose_interrupt(m->cells[i].diagnose, grace_ms);
}
