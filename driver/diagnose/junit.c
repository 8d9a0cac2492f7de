#include "diagnose/formats.h"

#include "base/str.h"
#include "base/utf8.h"
#include "json/json.h"

#include <stdio.h>
#include <string.h>

/* XML 1.0 has no place for most control characters, not even as references. Those that turn text
 * around are written as references, so that the file reads as it is. */
static void
put(struct cf_buf *to, const char *text)
{
    size_t len = text != NULL ? strlen(text) : 0;

    while (len > 0) {
        uint32_t code;
        int n = cf_utf8_next(text, len, &code);
        if (n <= 0 || (code < 0x20 && code != '\n' && code != '\t') || code == 0xfffe || code == 0xffff)
            (void)cf_buf_adds(to, "\xef\xbf\xbd");
        else if (strchr("&<>\"'\n\t", (int)code) != NULL && code < 0x80)
            (void)cf_buf_addf(to, "&#%u;", (unsigned)code);
        else if ((code >= 0x7f && code <= 0x9f) || (code >= 0x200b && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
                 (code >= 0x2060 && code <= 0x206f) || code == 0xfeff)
            (void)cf_buf_addf(to, "&#%u;", (unsigned)code);
        else
            (void)cf_buf_add(to, text, (size_t)n);
        n = n > 0 ? n : 1;
        text += n;
        len -= (size_t)n;
    }
}

static void
put_attribute(struct cf_buf *to, const char *name, const char *value)
{
    (void)cf_buf_addf(to, " %s=\"", name);
    put(to, value);
    (void)cf_buf_adds(to, "\"");
}

static void
put_seconds(struct cf_buf *to, long long ms)
{
    if (ms >= 0)
        (void)cf_buf_addf(to, " time=\"%lld.%03lld\"", ms / 1000, ms % 1000);
}

static bool
is_error(const struct cf_outcome *o, json_t *check)
{
    const char *blame = cf_json_str(cf_json_obj(check, "error"), "blame");

    return !cf_str_same(blame != NULL ? blame : o->blame, "harness");
}

static void
put_problem(struct cf_buf *to, const struct cf_outcome *o, json_t *check)
{
    const char *tag = is_error(o, check) ? "error" : "failure", *fix = cf_json_str(check, "fix");
    const char *type = cf_json_str(cf_json_obj(check, "error"), "type");

    (void)cf_buf_addf(to, "      <%s", tag);
    put_attribute(to, "message", cf_json_str(check, "summary"));
    put_attribute(to, "type", type != NULL ? type : "check");
    (void)cf_buf_adds(to, ">");
    put(to, cf_json_str(check, "summary"));
    if (fix != NULL) {
        (void)cf_buf_adds(to, "&#10;fix: ");
        put(to, fix);
    }
    (void)cf_buf_addf(to, "</%s>\n", tag);
}

static void
put_case(struct cf_buf *to, const struct cf_outcome *o, json_t *check)
{
    const char *id = cf_json_str(check, "id"), *status = cf_json_str(check, "status");
    char classname[200];

    (void)snprintf(classname, sizeof classname, "%s.%s", o->name, cf_outcome_group(check));
    (void)cf_buf_adds(to, "    <testcase");
    put_attribute(to, "name", id);
    put_attribute(to, "classname", classname);
    put_seconds(to, cf_outcome_check_ms(o, id));
    (void)cf_buf_adds(to, ">\n");
    if (cf_str_same(status, "passed")) {
        (void)cf_buf_adds(to, "      <system-out>");
        put(to, cf_json_str(check, "summary"));
        (void)cf_buf_adds(to, "</system-out>\n");
    } else if (cf_str_same(status, "skipped")) {
        (void)cf_buf_adds(to, "      <skipped");
        put_attribute(to, "message", cf_json_str(check, "summary"));
        (void)cf_buf_adds(to, "/>\n");
    } else {
        put_problem(to, o, check);
    }
    (void)cf_buf_adds(to, "    </testcase>\n");
}

static void
put_property(struct cf_buf *to, const char *name, const char *value)
{
    if (value == NULL || *value == '\0')
        return;
    (void)cf_buf_adds(to, "      <property");
    put_attribute(to, "name", name);
    put_attribute(to, "value", value);
    (void)cf_buf_adds(to, "/>\n");
}

static void
put_properties(struct cf_buf *to, const struct cf_outcome *o)
{
    char code[16];

    (void)snprintf(code, sizeof code, "%d", o->exit_code);
    (void)cf_buf_adds(to, "    <properties>\n");
    put_property(to, "label", "unsigned_local_only");
    put_property(to, "command", o->command);
    put_property(to, "status", o->status);
    put_property(to, "exit_code", code);
    put_property(to, "blame", o->blame);
    put_property(to, "protocol", cf_json_str(o->result, "protocol"));
    put_property(to, "driver_version", cf_json_str(o->result, "driver_version"));
    put_property(to, "image", o->reference);
    put_property(to, "digest", o->digest);
    (void)cf_buf_adds(to, "    </properties>\n");
}

void
cf_format_junit(struct cf_buf *to, const struct cf_outcome *o)
{
    const char *tail = cf_json_str(cf_json_obj(o->result, "harness"), "stderr_tail");
    long long total = (long long)cf_json_int(cf_json_obj(o->result, "timings_ms"), "total", 0);
    size_t i, errors = 0, all = json_array_size(o->checks);
    json_t *check;
    char stamp[21];

    json_array_foreach(o->checks, i, check)
        errors += cf_str_same(cf_json_str(check, "status"), "failed") && is_error(o, check);
    (void)snprintf(stamp, sizeof stamp, "%.19s", o->made_at); /* ISO 8601 without a zone, as consumers want it */
    (void)cf_buf_addf(to,
                      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                      "<testsuites name=\"cfrunner\" tests=\"%zu\" failures=\"%zu\" errors=\"%zu\" skipped=\"%zu\"",
                      all, o->failed - errors, errors, o->skipped);
    put_seconds(to, total);
    (void)cf_buf_adds(to, ">\n  <testsuite");
    put_attribute(to, "name", o->name);
    (void)cf_buf_addf(to, " tests=\"%zu\" failures=\"%zu\" errors=\"%zu\" skipped=\"%zu\"", all, o->failed - errors,
                      errors, o->skipped);
    put_seconds(to, total);
    put_attribute(to, "timestamp", stamp);
    (void)cf_buf_adds(to, ">\n");
    put_properties(to, o);
    json_array_foreach(o->checks, i, check)
        put_case(to, o, check);
    if (tail != NULL && *tail != '\0') {
        (void)cf_buf_adds(to, "    <system-err>");
        put(to, tail);
        (void)cf_buf_adds(to, "</system-err>\n");
    }
    (void)cf_buf_adds(to, "  </testsuite>\n</testsuites>\n");
}
