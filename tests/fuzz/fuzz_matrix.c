/* fuzz_matrix.c: the matrix file, a baseline, and an earlier result, each from anybody. What is refused says
 * why; what is taken becomes cells with names, a result with an exit code, and a table within 80 columns. */
#include "diagnose/matrix.h"

#include "base/buf.h"
#include "base/utf8.h"
#include "json/json.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
require(bool holds)
{
    if (!holds)
        abort();
}

static void
read_file(json_t *document)
{
    struct cf_matrix_plan plan;
    struct cf_error err = {0};

    if (cf_matrix_read(document, "/x", &plan, &err) < 0) {
        require(err.text[0] != '\0');
        return;
    }
    require(plan.count > 0 && plan.count <= CF_MATRIX_CELLS && plan.at_once >= 1 && plan.at_once <= CF_MATRIX_AT_ONCE);
    for (size_t i = 0; i < plan.count; i++)
        require(plan.cells[i].name != NULL && strchr(plan.cells[i].image, '/') == NULL);
    cf_matrix_plan_release(&plan);
}

static void
show(const json_t *result)
{
    const struct cf_report_style style = {.columns = 80, .unicode = true};
    struct cf_buf page = {0};

    cf_matrix_table(&page, result, &style);
    (void)cf_buf_add(&page, "", 1);
    for (char *line = page.failed ? NULL : strtok(page.data, "\n"); line != NULL; line = strtok(NULL, "\n"))
        require(cf_utf16_units(line, strlen(line)) <= 80 && strchr(line, '\033') == NULL);
    cf_buf_release(&page);
}

/* Rows are our own: only their names and words come from outside. */
static void
judge(const json_t *baseline, const json_t *before)
{
    json_t *rows = json_pack("[{s:s, s:s, s:s, s:s, s:s, s:i, s:s, s:[{s:s, s:s, s:s}], s:n, s:n, s:i}]", "cell", "a/p/o", "image", "a",
                             "protocol", "p", "options", "o", "status", "failed", "exit_code", 1, "blame", "harness", "checks", "id", "x",
                             "status", "failed", "summary", "s", "error", "digest", "took_ms", 5);
    json_t *result = cf_matrix_result("n", rows, baseline, before, 1);

    require(result != NULL && cf_json_int(result, "exit_code", -1) >= 0);
    show(result);
    json_decref(result);
    json_decref(rows);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *document = cf_json_parse((const char *)data, size, NULL, NULL);
    struct cf_error err = {0};

    if (document == NULL)
        return 0;
    read_file(document);
    if (cf_matrix_check_baseline(document, &err) == 0)
        judge(document, NULL);
    judge(NULL, document);
    json_decref(document);
    return 0;
}
