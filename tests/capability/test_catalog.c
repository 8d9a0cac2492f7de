#include "base/buf.h"
#include "base/str.h"
#include "capability/capability.h"
#include "capability/slots.h"
#include "json/json.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

/* The rows of one table of the page, below its head line. */
static char *
page_table(const char *name)
{
    FILE *file = fopen("fixtures/catalog-tables.txt", "r");
    struct cf_buf rows = {0};
    char line[1024], head[64];
    int state = 0; /* 1: the head line comes, 2: rows */

    ck_assert_msg(file != NULL, "fixtures/catalog-tables.txt is missing");
    snprintf(head, sizeof head, "[%s]\n", name);
    while (fgets(line, sizeof line, file) != NULL) {
        if (strcmp(line, "\n") == 0)
            state = 0;
        if (state == 2)
            cf_buf_adds(&rows, line);
        if (state == 1)
            state = 2;
        if (strcmp(line, head) == 0)
            state = 1;
    }
    fclose(file);
    ck_assert(rows.len > 0);
    return cf_buf_take(&rows, NULL);
}

static void
cell(struct cf_buf *row, const char *text)
{
    if (row->len > 0 && row->data[row->len - 1] != '\n')
        cf_buf_adds(row, " | ");
    cf_buf_adds(row, text == NULL ? "—" : text);
}

static void
cells(struct cf_buf *row, json_t *object, const char *const *members)
{
    for (; *members != NULL; members++) {
        json_t *value = json_object_get(object, *members);
        cell(row, json_is_boolean(value) ? (json_is_true(value) ? "true" : "false") : json_string_value(value));
    }
}

static void
expect_table(const char *name, struct cf_buf *got)
{
    cf_auto_free char *page = page_table(name);

    ck_assert_msg(strcmp(got->data, page) == 0, "[%s]\n%s\n--- the page:\n%s", name, got->data, page);
    cf_buf_release(got);
}

#define AXES "event_fidelity", "continuation", "checkpoint", "approval_delivery", "interrupt", "mid_run_input", \
             "model_control", "usage_authority", "multiagent_shared_environment"

static void
ceiling_row(struct cf_buf *rows, json_t *harness)
{
    static const char *const first[] = {"entry", "mode", "availability", "release_protocol", "execution_lane", NULL};
    static const char *const axes[] = {AXES, NULL};
    const char *subagents = cf_json_str(cf_json_obj(harness, "ceiling"), "subagents");
    char word[40];

    cells(rows, harness, first);
    cells(rows, cf_json_obj(harness, "ceiling"), axes);
    snprintf(word, sizeof word, "%s%s", subagents ? subagents : "",
             json_array_size(cf_json_arr(harness, "declaration_admitted")) > 0 ? "*" : "");
    cell(rows, subagents == NULL ? NULL : word);
    cf_buf_adds(rows, "\n");
}

static void
joined(struct cf_buf *row, json_t *names, const char *none)
{
    struct cf_buf text = {0};
    json_t *name;
    size_t i;

    json_array_foreach(names, i, name)
        cf_buf_addf(&text, "%s%s", i > 0 ? ", " : "", json_string_value(name));
    cell(row, text.len > 0 ? text.data : none);
    cf_buf_release(&text);
}

START_TEST(the_catalog_rebuilds_every_cell_of_the_page)
{
    static const char *const support[] = {"entry", "supply", "adoption", "model_lane", "mcp_delivery",
                                          "catalog_evidence", "tuple_support", NULL};
    static const char *const providers[] = {"anthropic", "checkfu-replay", "fal-ai", "google-ai-studio", "openai",
                                            "openrouter", NULL};
    static const char *const entry[] = {"entry", NULL}, *const axes[] = {AXES, NULL};
    static const char *const envelope[] = {"driver", "retention", NULL}, *const dialect[] = {"dialect", "path", NULL};
    static const char *const gated[] = {"axis", "required_value", NULL};
    struct cf_buf rows[8] = {{0}};
    json_t *catalog = cf_catalog_json(), *row;
    size_t i;

    ck_assert(catalog != NULL);
    json_array_foreach(cf_json_arr(catalog, "harnesses"), i, row) {
        cells(&rows[0], row, support);
        cf_buf_adds(&rows[0], "\n");
        ceiling_row(&rows[1], row);
        cells(&rows[2], row, entry);
        joined(&rows[2], json_object_get(row, "model_wire_dialects"), "undeclared");
        cells(&rows[2], cf_json_obj(row, "reachability"), providers);
        cf_buf_adds(&rows[2], "\n");
    }
    json_array_foreach(cf_json_arr(catalog, "envelopes"), i, row) {
        cells(&rows[3], row, envelope);
        cells(&rows[3], cf_json_obj(row, "capability_set"), axes);
        ck_assert(json_object_get(cf_json_obj(row, "capability_set"), "subagents") == NULL);
        cf_buf_adds(&rows[3], "\n");
    }
    json_array_foreach(cf_json_arr(catalog, "gated_emissions"), i, row) {
        cells(&rows[4], row, gated);
        joined(&rows[4], json_object_get(row, "observations"), NULL);
        cf_buf_adds(&rows[4], "\n");
    }
    json_array_foreach(cf_json_arr(catalog, "declarations"), i, row) {
        const char *from = cf_json_str(row, "from");
        cf_buf_addf(&rows[5], "%s: \"%s\" | %s | %s → %s\n", cf_json_str(row, "declaration"), cf_json_str(row, "value"),
                    cf_json_str(row, "axis"), from ? from : "absent", cf_json_str(row, "to"));
    }
    json_array_foreach(cf_json_arr(catalog, "dialects"), i, row) {
        cells(&rows[6], row, dialect);
        cf_buf_adds(&rows[6], "\n");
    }
    json_array_foreach(cf_json_arr(catalog, "slots"), i, row) {
        bool is_ours = strcmp(cf_json_str(row, "direction"), "client_to_harness") == 0;
        cf_buf_addf(&rows[7], "%s | %s | %s | %s\n", cf_json_str(row, "slot"), cf_json_str(row, "carrier"),
                    is_ours ? "client to harness" : "harness to client", cf_json_str(row, "status"));
    }
    expect_table("support", &rows[0]);
    expect_table("ceilings", &rows[1]);
    expect_table("reachability", &rows[2]);
    expect_table("envelopes", &rows[3]);
    expect_table("gated", &rows[4]);
    expect_table("admission", &rows[5]);
    expect_table("dialects", &rows[6]);
    expect_table("slots", &rows[7]);
    json_decref(catalog);
}
END_TEST

START_TEST(no_ceiling_is_above_what_can_be_realized)
{
    struct cf_error err = {0};

    ck_assert_msg(cf_catalog_check(&err) == 0, "%s", err.text);
}
END_TEST

START_TEST(every_slot_has_a_decoder)
{
    for (int slot = 0; slot < CF_SLOT_COUNT; slot++) {
        struct cf_error err = {0};
        json_t *wrong = json_integer(7);
        ck_assert(cf_slot_rows[slot].members != NULL || cf_slot_rows[slot].check != NULL);
        ck_assert_msg(cf_slot_check((enum cf_slot)slot, wrong, &err) < 0, "%s takes a number", cf_slot_name((enum cf_slot)slot));
        ck_assert(cf_slot_is_known(cf_slot_name((enum cf_slot)slot)));
        json_decref(wrong);
    }
    ck_assert(!cf_slot_is_known("checkfu.telepathy"));
}
END_TEST

START_TEST(dialects_and_providers)
{
    ck_assert_uint_eq(cf_dialect_parse("openai_chat"), CF_DIALECT_OPENAI_CHAT);
    ck_assert_uint_eq(cf_dialect_parse("OPENAI_CHAT"), 0);
    ck_assert_str_eq(cf_dialect_path(CF_DIALECT_FAL_QUEUE), "/{model_id}");
    ck_assert_uint_eq(cf_provider_dialects("fal-ai"), CF_DIALECT_FAL_QUEUE);
    ck_assert_uint_eq(cf_provider_dialects("local-replay"), 7);
    ck_assert_uint_eq(cf_provider_dialects(NULL), 7);
    ck_assert_str_eq(cf_catalog_reach("claude-code", "openai"), "unreachable");
    ck_assert_str_eq(cf_catalog_reach("claude-code", "local-replay"), "reachable");
    ck_assert_ptr_null(cf_catalog_reach("cursor", "openai"));
    ck_assert_ptr_null(cf_catalog_reach("nobody", "openai"));
}
END_TEST

UNIT_MAIN("capability/catalog", tcase_add_test(tc, the_catalog_rebuilds_every_cell_of_the_page);
          tcase_add_test(tc, no_ceiling_is_above_what_can_be_realized);
          tcase_add_test(tc, every_slot_has_a_decoder);
          tcase_add_test(tc, dialects_and_providers);)
