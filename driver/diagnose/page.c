#include "diagnose/page.h"

#include <cfrunner/version.h>

#include "base/carry.h"
#include "base/str.h"
#include "base/utf8.h"
#include "diagnose/trace.h"
#include "json/json.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

#define ROWS_MOST 100u /* of one list of the result: the rest is in the JSON */

CARRY(cf_page_html, "driver/diagnose/page.html");
CARRY(cf_page_css, "driver/diagnose/page.css");
CARRY(cf_page_js, "driver/diagnose/page.js");

/* ---- escaping -------------------------------------------------------------------------------------- */

/* What nobody sees, or what makes others be seen elsewhere. */
static bool
is_hidden(uint32_t code)
{
    return (code >= 0x7f && code <= 0x9f) || code == 0xad || code == 0x61c || code == 0x180e ||
           (code >= 0x200b && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) || (code >= 0x2060 && code <= 0x206f) ||
           code == 0xfeff || (code >= 0xfff9 && code <= 0xfffb) || (code >= 0xe0000 && code <= 0xe007f);
}

static void
put_escape(struct cf_buf *to, uint32_t code)
{
    if (code > 0xffff) {
        (void)cf_buf_addf(to, "\\u%04x", (unsigned)(0xd800 + ((code - 0x10000) >> 10)));
        code = 0xdc00 + ((code - 0x10000) & 0x3ff);
    }
    (void)cf_buf_addf(to, "\\u%04x", (unsigned)code);
}

void
cf_page_put_json(struct cf_buf *to, const char *json, size_t len)
{
    size_t at = 0, from = 0;

    while (at < len) {
        uint32_t code;
        int n = cf_utf8_next(json + at, len - at, &code);
        bool is_marked = n > 0 && (code == '<' || code == '>' || code == '&' || is_hidden(code));
        if (n > 0 && !is_marked) {
            at += (size_t)n;
            continue;
        }
        (void)cf_buf_add(to, json + from, at - from);
        put_escape(to, n > 0 ? code : 0xfffd);
        at += n > 0 ? (size_t)n : 1;
        from = at;
    }
    (void)cf_buf_add(to, json + from, len - from);
}

/* Text between tags and in attributes; one line. */
static void
put_html(struct cf_buf *to, const char *text)
{
    char line[900];

    (void)snprintf(line, sizeof line, "%s", text != NULL ? text : "");
    cf_utf8_make_line(line);
    for (const char *at = line; *at != '\0'; at++)
        (void)cf_buf_addf(to, strchr("&<>\"'", *at) != NULL ? "&#%d;" : "%c", *at);
}

/* ---- what the page is filled with ----------------------------------------------------------------------- */

static const char *
verdict_word(const struct cf_outcome *o)
{
    return o->exit_code == 0 ? "PASS" : o->exit_code == 1 ? "FAIL" : "ERROR";
}

static void
put_title(struct cf_buf *to, const struct cf_outcome *o, struct cf_trace *trace)
{
    (void)cf_buf_addf(to, "%s ", verdict_word(o));
    put_html(to, o->name);
}

/* For a reader without scripts: the verdict and each check. */
static void
put_plain(struct cf_buf *to, const struct cf_outcome *o, struct cf_trace *trace)
{
    json_t *check;
    size_t i;

    (void)cf_buf_addf(to, "%s  %zu of %zu proven, %zu failed, %zu skipped, blame: %s, exit %d\n\n", verdict_word(o), o->passed,
                      json_array_size(o->checks), o->failed, o->skipped, o->blame, o->exit_code);
    json_array_foreach(o->checks, i, check)
    {
        const char *fix = cf_json_str(check, "fix");
        put_html(to, cf_json_str(check, "status"));
        (void)cf_buf_adds(to, "  ");
        put_html(to, cf_json_str(check, "id"));
        (void)cf_buf_adds(to, ": ");
        put_html(to, cf_json_str(check, "summary"));
        if (fix != NULL && cf_str_same(cf_json_str(check, "status"), "failed")) {
            (void)cf_buf_adds(to, "\n        fix: ");
            put_html(to, fix);
        }
        (void)cf_buf_adds(to, "\n");
    }
}

/* 'sha256-...' of a text that the page holds as it is. */
static void
put_hash(struct cf_buf *to, const char *bytes, size_t len)
{
    unsigned char hash[crypto_hash_sha256_BYTES];
    char text[sodium_base64_ENCODED_LEN(sizeof hash, sodium_base64_VARIANT_ORIGINAL)];

    (void)crypto_hash_sha256(hash, (const unsigned char *)bytes, len);
    (void)sodium_bin2base64(text, sizeof text, hash, sizeof hash, sodium_base64_VARIANT_ORIGINAL);
    (void)cf_buf_addf(to, "'sha256-%s'", text);
}

static void
put_policy(struct cf_buf *to, const struct cf_outcome *o, struct cf_trace *trace)
{
    (void)cf_buf_adds(to, "default-src 'none'; style-src ");
    put_hash(to, cf_page_css, (size_t)(cf_page_css_end - cf_page_css));
    (void)cf_buf_adds(to, "; script-src ");
    put_hash(to, cf_page_js, (size_t)(cf_page_js_end - cf_page_js));
    (void)cf_buf_adds(to, "; img-src data:; base-uri 'none'; form-action 'none'");
}

static void
put_style(struct cf_buf *to, const struct cf_outcome *o, struct cf_trace *trace)
{
    (void)cf_buf_add(to, cf_page_css, (size_t)(cf_page_css_end - cf_page_css));
}

static void
put_script(struct cf_buf *to, const struct cf_outcome *o, struct cf_trace *trace)
{
    (void)cf_buf_add(to, cf_page_js, (size_t)(cf_page_js_end - cf_page_js));
}

/* A list of at most ROWS_MOST; how many it had stands beside it. */
static void
shorten(json_t *object, const char *name, json_t *left_out)
{
    json_t *list = json_object_get(object, name), *first;
    size_t count = json_array_size(list);

    if (count <= ROWS_MOST)
        return;
    first = json_array();
    for (size_t i = 0; i < ROWS_MOST; i++)
        (void)json_array_append(first, json_array_get(list, i));
    (void)json_object_set_new(object, name, first);
    (void)json_object_set_new(left_out, name, json_integer((json_int_t)(count - ROWS_MOST)));
}

/* The outcome's own result, which is a copy of ours already: the page needs no list without end. */
static json_t *
result_for_page(const struct cf_outcome *o, json_t *left_out)
{
    json_t *result = json_copy(o->result);

    (void)json_object_del(result, "checks");
    (void)json_object_del(cf_json_obj(cf_json_obj(result, "declared"), "release"), "configuration_schema");
    shorten(result, "model_calls", left_out);
    shorten(result, "findings", left_out);
    shorten(cf_json_obj(result, "egress"), "rows", left_out);
    shorten(cf_json_obj(result, "teardown"), "removed", left_out);
    shorten(cf_json_obj(result, "collected"), "files", left_out);
    return result;
}

static json_t *
grouped_checks(const struct cf_outcome *o)
{
    json_t *list = json_array(), *check;
    size_t i;

    json_array_foreach(o->checks, i, check)
    {
        json_t *copy = json_copy(check);
        (void)json_object_set_new(copy, "group", json_string(cf_outcome_group(check)));
        (void)json_array_append_new(list, copy);
    }
    return list;
}

static void
put_data(struct cf_buf *to, const struct cf_outcome *o, struct cf_trace *trace)
{
    json_t *left_out = json_object(), *result = result_for_page(o, left_out);
    json_t *data = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:s, s:s, s:s, s:o, s:o, s:o}", "version", CFRUNNER_VERSION,
                             "command", o->command, "made_at", o->made_at, "name", o->name, "verdict", verdict_word(o), "status",
                             o->status, "exit_code", o->exit_code, "blame", o->blame, "digest", o->digest, "reference",
                             o->reference, "checks", grouped_checks(o), "left_out", left_out, "result", result);
    size_t len = 0;
    cf_auto_free char *text = data != NULL ? cf_json_dump(data, &len) : NULL;

    json_decref(data);
    if (text == NULL) {
        to->failed = true;
        return;
    }
    cf_page_put_json(to, text, len - 1); /* without its brace: the events go into it as they are */
    (void)cf_buf_adds(to, ",\n\"events\":");
    if (trace != NULL)
        cf_trace_append(trace, to);
    else
        (void)cf_buf_adds(to, "[]");
    (void)cf_buf_adds(to, "}");
}

/* ---- the page -------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*put)(struct cf_buf *to, const struct cf_outcome *o, struct cf_trace *trace);
} places[] = {
    {"@POLICY@", put_policy}, {"@TITLE@", put_title}, {"@STYLE@", put_style},
    {"@PLAIN@", put_plain},   {"@DATA@", put_data},   {"@SCRIPT@", put_script},
};

/* In the order in which the template has its places. */
void
cf_page_write(struct cf_buf *to, const struct cf_outcome *o, struct cf_trace *trace)
{
    const char *at = cf_page_html;

    for (size_t i = 0; i < CF_COUNT(places); i++) {
        const char *place = strstr(at, places[i].name);
        if (place == NULL)
            continue; /* the test of the page would see it missing */
        (void)cf_buf_add(to, at, (size_t)(place - at));
        places[i].put(to, o, trace);
        at = place + strlen(places[i].name);
    }
    (void)cf_buf_adds(to, at);
}
