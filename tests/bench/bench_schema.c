/* bench_schema CASES SECONDS: validations per second of each case, schema admitted once; one line of JSON a case. */
#include "base/clock.h"
#include "json/json.h"
#include "schema/schema.h"

#include <stdio.h>
#include <stdlib.h>

static double
per_second(const struct cf_schema *schema, const json_t *instance, double seconds, bool *ret_is_valid)
{
    uint64_t began = cf_clock_ms(), now = began, done = 0;
    struct cf_error err;

    while ((double)(now - began) < seconds * 1000) {
        for (int i = 0; i < 20; i++)
            *ret_is_valid = cf_schema_validate(schema, instance, NULL, &err) == 0;
        done += 20;
        now = cf_clock_ms();
    }
    return (double)done * 1000 / (double)(now - began);
}

int
main(int argc, char **argv)
{
    json_t *cases = argc == 3 ? json_load_file(argv[1], 0, NULL) : NULL, *one;
    struct cf_schema *schema;
    struct cf_error err;
    bool is_valid = false;
    double rate;
    size_t i;

    if (cases == NULL) {
        fprintf(stderr, "usage: bench_schema CASES SECONDS\n");
        return 2;
    }
    json_array_foreach(cases, i, one)
    {
        if (cf_schema_admit_value(json_object_get(one, "schema"), &schema, NULL, &err) < 0) {
            fprintf(stderr, "%s: %s\n", cf_json_str(one, "name"), err.text);
            return 1;
        }
        rate = per_second(schema, json_object_get(one, "instance"), strtod(argv[2], NULL), &is_valid);
        printf("{\"name\":\"%s\",\"valid\":%s,\"per_second\":%.0f}\n", cf_json_str(one, "name"), is_valid ? "true" : "false", rate);
        cf_schema_free(schema);
    }
    json_decref(cases);
    return 0;
}
