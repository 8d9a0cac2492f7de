/*
 * A matrix, judged. An excuse takes the failure out of one check of one cell, and of nothing else: an
 * engine that is gone, or something left, has no excuse. One that meets a check that does not fail is
 * stale, and a failure: what was mended must not be allowed to break again unseen.
 */
#include "diagnose/matrix.h"

#include "base/str.h"
#include "json/json.h"

#include <string.h>

static json_t *
row_of(json_t *rows, const char *cell)
{
    json_t *row;
    size_t i;

    json_array_foreach(rows, i, row)
        if (cf_str_same(cf_json_str(row, "cell"), cell))
            return row;
    return NULL;
}

static json_t *
check_of(const json_t *row, const char *id)
{
    json_t *check;
    size_t i;

    json_array_foreach(json_object_get(row, "checks"), i, check)
        if (cf_str_same(cf_json_str(check, "id"), id))
            return check;
    return NULL;
}

static bool
has_failed(const json_t *check)
{
    return cf_str_same(cf_json_str(check, "status"), "failed");
}

/* ---- excuses -------------------------------------------------------------------------------- */

/* Marks what is excused; a harness whose every failure is so has exit code 0 here. */
static void
excuse_row(json_t *row, const json_t *excuses)
{
    const char *cell = cf_json_str(row, "cell");
    size_t failures = 0, excused = 0, i;
    json_t *check;

    if (cf_json_int(row, "exit_code", 4) != 1)
        return;
    for (size_t k = 0; k < json_array_size(excuses); k++) {
        const json_t *excuse = json_array_get(excuses, k);
        check = cf_str_same(cf_json_str(excuse, "cell"), cell) ? check_of(row, cf_json_str(excuse, "check")) : NULL;
        if (check != NULL && has_failed(check))
            (void)json_object_set(check, "excused", json_object_get(excuse, "reason"));
    }
    json_array_foreach(json_object_get(row, "checks"), i, check)
    {
        failures += has_failed(check);
        excused += json_object_get(check, "excused") != NULL;
    }
    if (failures == 0 || excused < failures)
        return;
    (void)json_object_set_new(row, "status", json_string("excused"));
    (void)json_object_set_new(row, "exit_code", json_integer(0));
}

/* Why an excuse excuses nothing, or NULL: it does, or its cell came to no verdict. */
static const char *
why_stale(json_t *rows, const json_t *excuse)
{
    const json_t *row = row_of(rows, cf_json_str(excuse, "cell")), *check;
    int code = (int)cf_json_int(row, "exit_code", 4);

    if (row == NULL)
        return "there is no such cell";
    if (code != 0 && code != 1)
        return NULL;
    check = check_of(row, cf_json_str(excuse, "check"));
    if (check == NULL)
        return "the cell has no such check";
    if (has_failed(check))
        return NULL;
    return cf_str_same(cf_json_str(check, "status"), "passed") ? "it passes now" : "it is skipped, and a skip needs no excuse";
}

static json_t *
stale_of(json_t *rows, const json_t *excuses)
{
    json_t *stale = json_array();

    for (size_t i = 0; i < json_array_size(excuses); i++) {
        const json_t *excuse = json_array_get(excuses, i);
        const char *why = why_stale(rows, excuse);
        if (why != NULL)
            (void)json_array_append_new(stale, json_pack("{s:O, s:O, s:O, s:s}", "cell", json_object_get(excuse, "cell"), "check",
                                                         json_object_get(excuse, "check"), "reason",
                                                         json_object_get(excuse, "reason"), "why", why));
    }
    return stale;
}

/* ---- what is different -------------------------------------------------------------------------- */

static int
rank_of(const json_t *row)
{
    static const char *const ranks[] = {"passed", "excused", "failed", "error"};
    const char *status = cf_json_str(row, "status");

    for (int i = 0; i < (int)CF_COUNT(ranks); i++)
        if (cf_str_same(ranks[i], status))
            return i;
    return CF_COUNT(ranks);
}

static const char *
word_of(const json_t *check)
{
    const char *status = cf_json_str(check, "status");

    return check == NULL ? "absent" : json_object_get(check, "excused") != NULL ? "excused" : status != NULL ? status : "absent";
}

/* Each check whose status is another; *ret_broken and *ret_mended count those that came to fail, and
 * that do not fail any more. */
static json_t *
checks_between(const json_t *before, const json_t *after, size_t *ret_broken, size_t *ret_mended)
{
    json_t *list = json_array(), *check;
    size_t i;

    *ret_broken = *ret_mended = 0;
    json_array_foreach(json_object_get(after, "checks"), i, check)
    {
        const char *id = cf_json_str(check, "id");
        const json_t *old = id != NULL ? check_of(before, id) : NULL;
        if (id == NULL || strcmp(word_of(old), word_of(check)) == 0)
            continue;
        *ret_broken += has_failed(check) && !has_failed(old);
        *ret_mended += !has_failed(check) && has_failed(old);
        (void)json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "check", id, "before", word_of(old), "after", word_of(check)));
    }
    return list;
}

static void
compare_row(json_t *changes, const json_t *before, const json_t *after)
{
    size_t broken, mended;
    int old = rank_of(before), now = rank_of(after);
    json_t *checks = checks_between(before, after, &broken, &mended);
    const char *change = now > old ? "worse" : now < old ? "better" : broken > 0 ? "worse" : mended > 0 ? "better" : "changed";

    if (old == now && json_array_size(checks) == 0) {
        json_decref(checks);
        return;
    }
    (void)json_array_append_new(changes, json_pack("{s:O, s:s, s:s?, s:O, s:o}", "cell", json_object_get(after, "cell"), "change", change,
                                                   "before", cf_json_str(before, "status"), "after", json_object_get(after, "status"),
                                                   "checks", checks));
}

static json_t *
diff_of(json_t *rows, const json_t *before)
{
    json_t *olds = json_object_get(before, "cells"), *changes = json_array(), *row;
    size_t i, new_cells = 0;

    json_array_foreach(rows, i, row)
    {
        const json_t *old = row_of(olds, cf_json_str(row, "cell"));
        if (old != NULL) {
            compare_row(changes, old, row);
            continue;
        }
        new_cells++;
        (void)json_array_append_new(changes, json_pack("{s:O, s:s, s:n, s:O, s:[]}", "cell", json_object_get(row, "cell"), "change", "new",
                                                       "before", "after", json_object_get(row, "status"), "checks"));
    }
    json_array_foreach(olds, i, row)
        if (cf_json_str(row, "cell") != NULL && row_of(rows, cf_json_str(row, "cell")) == NULL)
            (void)json_array_append_new(changes, json_pack("{s:O, s:s, s:s?, s:n, s:[]}", "cell", json_object_get(row, "cell"), "change",
                                                           "gone", "before", cf_json_str(row, "status"), "after", "checks"));
    return json_pack("{s:i, s:o}", "compared", (int)(json_array_size(rows) - new_cells), "changes", changes);
}

/* ---- the whole ------------------------------------------------------------------------------------ */

static json_t *
counts_of(json_t *rows, json_t *stale)
{
    static const char *const words[] = {"passed", "excused", "failed", "error"};
    json_t *counts = json_pack("{s:i}", "cells", (int)json_array_size(rows)), *row;
    size_t i;

    for (size_t k = 0; k < CF_COUNT(words); k++) {
        json_int_t count = 0;
        json_array_foreach(rows, i, row)
            count += cf_str_same(cf_json_str(row, "status"), words[k]);
        (void)json_object_set_new(counts, words[k], json_integer(count));
    }
    (void)json_object_set_new(counts, "stale", json_integer((json_int_t)json_array_size(stale)));
    return counts;
}

json_t *
cf_matrix_result(const char *name, json_t *rows, const json_t *baseline, const json_t *before, uint64_t took_ms)
{
    const json_t *excuses = json_object_get(baseline, "excuses");
    json_t *stale, *row;
    int code = 0;
    size_t i;

    json_array_foreach(rows, i, row)
        excuse_row(row, excuses);
    stale = stale_of(rows, excuses);
    json_array_foreach(rows, i, row)
        code = cf_diagnose_worse(code, (int)cf_json_int(row, "exit_code", 4));
    if (json_array_size(stale) > 0)
        code = cf_diagnose_worse(code, 1);
    /* clang-format off */
    return json_pack("{s:i, s:s, s:s, s:i, s:o, s:O, s:o, s:o, s:I}",
                     "schema_version", 1,
                     "name", name,
                     "status", code == 0 ? "passed" : code == 1 ? "failed" : "error",
                     "exit_code", code,
                     "counts", counts_of(rows, stale),
                     "cells", rows,
                     "stale", stale,
                     "diff", before != NULL ? diff_of(rows, before) : json_null(),
                     "took_ms", (json_int_t)took_ms);
    /* clang-format on */
}
