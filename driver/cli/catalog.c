/* cfrunner catalog: the one table of capability/ as text for eyes, or as the JSON document it is. */
#include "cli/commands.h"

#include "base/str.h"
#include "capability/capability.h"
#include "json/json.h"

#include <stdio.h>
#include <string.h>

static const char *
word(json_t *value)
{
    if (json_is_boolean(value))
        return json_is_true(value) ? "true" : "false";
    return json_is_string(value) ? json_string_value(value) : "-";
}

static void
join(json_t *list, char *to, size_t size)
{
    json_t *item;
    size_t i;

    to[0] = '\0';
    json_array_foreach(list, i, item)
    {
        (void)snprintf(to + strlen(to), size - strlen(to), "%s%s", i > 0 ? "," : "", word(item));
    }
    if (to[0] == '\0')
        (void)snprintf(to, size, "-");
}

/* Who of `rows` has `value` on `axis`, wrapped from column 46 on; "all" when everybody has. */
static void
print_holders(json_t *rows, const char *set, const char *name, const char *axis, const char *value)
{
    json_t *row;
    size_t i, held = 0;
    int column = 46;

    json_array_foreach(rows, i, row)
    {
        held += strcmp(word(json_object_get(json_object_get(row, set), axis)), value) == 0;
    }
    if (held == json_array_size(rows)) {
        puts("all");
        return;
    }
    json_array_foreach(rows, i, row)
    {
        const char *holder = cf_json_str(row, name);
        if (strcmp(word(json_object_get(json_object_get(row, set), axis)), value) != 0)
            continue;
        if (column + (int)strlen(holder) + 1 > 79)
            column = printf("\n%46s", "") - 1;
        column += printf("%s ", holder);
    }
    puts("");
}

/* The sets of all rows, turned on their side: an axis, each value it takes, who has it. */
static void
print_axes(json_t *rows, const char *set, const char *name)
{
    json_t *row;
    size_t i;
    const char *seen[64], *axes[32];
    size_t axis_count = 0;

    json_array_foreach(rows, i, row)
    {
        const char *axis;
        json_t *value;
        json_object_foreach(json_object_get(row, set), axis, value)
        {
            size_t k = 0;
            while (k < axis_count && strcmp(axes[k], axis) != 0)
                k++;
            if (k == axis_count && axis_count < CF_COUNT(axes))
                axes[axis_count++] = axis;
        }
    }
    for (size_t a = 0; a < axis_count; a++) {
        size_t count = 0;
        json_array_foreach(rows, i, row)
        {
            const char *value = word(json_object_get(json_object_get(row, set), axes[a]));
            size_t k = 0;
            while (k < count && strcmp(seen[k], value) != 0)
                k++;
            if (k < count || count == CF_COUNT(seen))
                continue;
            seen[count++] = value;
            printf("  %-22s %-20s ", count == 1 ? axes[a] : "", value);
            if (count == 1 && strlen(axes[a]) > 22)
                printf("\n%46s", "");
            print_holders(rows, set, name, axes[a], value);
        }
    }
}

/* The support snapshot, turned the same way: seven columns are wider than a screen. */
static void
print_support(json_t *catalog)
{
    static const char *const columns[] = {"supply", "adoption", "model_lane", "mcp_delivery", "catalog_evidence", "tuple_support"};
    json_t *rows = json_array(), *harness;
    size_t i;

    json_array_foreach(json_object_get(catalog, "harnesses"), i, harness)
    {
        json_t *support = json_object();
        for (size_t k = 0; k < CF_COUNT(columns); k++)
            (void)json_object_set(support, columns[k], json_object_get(harness, columns[k]));
        (void)json_array_append_new(rows, json_pack("{s:O, s:o}", "entry", json_object_get(harness, "entry"), "support", support));
    }
    puts("SUPPORT");
    print_axes(rows, "support", "entry");
    json_decref(rows);
}

static void
print_sets(json_t *catalog)
{
    json_t *row;
    size_t i;

    puts("\nCEILINGS (what an integration can realize, never a claim about a run)");
    print_axes(json_object_get(catalog, "harnesses"), "ceiling", "entry");
    puts("\nENVELOPES of checkfu:acp-v1@1 (what the driver allows before any declaration)");
    print_axes(json_object_get(catalog, "envelopes"), "capability_set", "retention");
    puts("\nDECLARATIONS THAT RAISE AN AXIS");
    json_array_foreach(json_object_get(catalog, "declarations"), i, row)
    {
        printf("  %s: \"%s\"  raises %s from %s to %s\n", cf_json_str(row, "declaration"), cf_json_str(row, "value"),
               cf_json_str(row, "axis"), cf_json_str(row, "from") != NULL ? cf_json_str(row, "from") : "absent",
               cf_json_str(row, "to"));
    }
    puts("\nEMISSIONS THAT NEED A DECLARATION");
    json_array_foreach(json_object_get(catalog, "gated_emissions"), i, row)
    {
        char list[200];
        join(json_object_get(row, "observations"), list, sizeof list);
        printf("  %s=%s %s\n", cf_json_str(row, "axis"), cf_json_str(row, "required_value"), list);
    }
}

static void
print_reach(json_t *catalog)
{
    json_t *row, *provider;
    size_t i, k;

    puts("\nDIALECTS");
    json_array_foreach(json_object_get(catalog, "dialects"), i, row)
    {
        printf("  %-20s %s\n", cf_json_str(row, "dialect"), cf_json_str(row, "path"));
    }
    puts("\nREACHABILITY (the wire fits; never a support claim)");
    json_array_foreach(json_object_get(catalog, "harnesses"), i, row)
    {
        json_t *reach = json_object_get(row, "reachability");
        char list[200] = "";
        json_array_foreach(json_object_get(catalog, "providers"), k, provider)
        {
            const char *name = cf_json_str(provider, "provider");
            if (cf_str_same(cf_json_str(reach, name), "reachable"))
                (void)snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", *list ? "," : "", name);
        }
        printf("  %-18s %s\n", cf_json_str(row, "entry"),
               *list ? list : json_array_size(json_object_get(row, "model_wire_dialects")) == 0 ? "undeclared" : "none");
    }
}

/* A digest goes on a line of its own: it is nearly as wide as a screen. */
static void
print_identities(json_t *catalog)
{
    const char *name;
    json_t *value;

    puts("\nIDENTITIES");
    json_object_foreach(json_object_get(catalog, "identities"), name, value)
        printf(strlen(word(value)) > 58 ? "  %s\n    %s\n" : "  %-19s %s\n", name, word(value));
}

int
cf_cli_catalog(int argc, char **argv)
{
    json_t *catalog;
    struct cf_error err;
    bool as_json = argc == 2 && strcmp(argv[1], "--json") == 0;
    char *text;

    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        puts("usage: cfrunner catalog [--json]\nThe support matrix, ceilings, envelopes, gated emissions, dialects and\n"
             "reachability; --json prints the whole table as one document.");
        return 0;
    }
    if (argc > 1 && !as_json) {
        (void)cf_error_set(&err, CF_ERROR_CONFIG, 0, "catalog takes --json and nothing else");
        (void)cf_error_fix(&err, "cfrunner catalog [--json]");
        return cf_cli_refuse(&err, 2, false);
    }
    catalog = cf_catalog_json();
    if (as_json) {
        text = cf_json_dump(catalog, NULL);
        puts(text != NULL ? text : "{}");
        free(text);
    } else {
        print_support(catalog);
        print_sets(catalog);
        print_reach(catalog);
        print_identities(catalog);
    }
    json_decref(catalog);
    return 0;
}
