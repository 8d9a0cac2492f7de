/* What a declaration claims beyond the envelope, and what of it was asked for and seen. */
#include "diagnose/diagnose.h"

#include "base/str.h"
#include "json/json.h"

#include <string.h>

json_t *
cf_diagnose_axes(json_t *run, json_t *checks)
{
    static const struct {
        const char *axis, *member, *check, *observation;
    } rows[] = {
        {"subagents", "subagents", "subagent_correlation", "subagent_started"},
        {"mid_run_input", "steer", "steering_delivered", "steering"},
        {"interrupt", "interrupt", "cooperative_interrupt_drained", NULL},
    };
    json_t *declared = cf_json_obj(run, "declared"), *seen = cf_json_obj(cf_json_obj(run, "observations"), "by_type");
    json_t *axes = json_array(), *check;
    size_t i;

    for (size_t k = 0; k < CF_COUNT(rows); k++) {
        const char *status = "skipped";
        bool is_declared = json_object_get(declared, rows[k].member) != NULL, is_exercised;
        json_array_foreach(checks, i, check)
            if (cf_str_same(cf_json_str(check, "id"), rows[k].check))
                status = cf_json_str(check, "status");
        is_exercised = rows[k].observation != NULL ? cf_json_int(seen, rows[k].observation, 0) > 0
                                                   : !cf_str_same(status, "skipped");
        (void)json_array_append_new(
            axes, json_pack("{s:s, s:b, s:b, s:b}", "axis", rows[k].axis, "declared", is_declared, "exercised",
                            is_declared && is_exercised, "proven",
                            is_declared && is_exercised && cf_str_same(status, "passed")));
    }
    return axes;
}
