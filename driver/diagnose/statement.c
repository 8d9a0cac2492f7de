#include "diagnose/formats.h"

#include <cfrunner/correspondence.h>
#include <cfrunner/version.h>

#include "base/str.h"
#include "json/json.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

static json_t *
names_of(const struct cf_outcome *o, const char *status)
{
    json_t *names = json_array(), *check;
    size_t i;

    json_array_foreach(o->checks, i, check)
        if (cf_str_same(cf_json_str(check, "status"), status))
            (void)json_array_append(names, json_object_get(check, "id"));
    return names;
}

/* The canonical bytes of `value`; NULL when it has none (a fraction) or out of memory. */
static char *
canonical(const json_t *value, size_t *ret_len)
{
    struct cf_corr_refusal refusal;
    size_t len = 0;
    cf_auto_free char *text = cf_json_dump(value, &len);
    char *made = NULL;

    if (text == NULL || cf_corr_canonicalize(text, len, 64u << 20, &made, ret_len, &refusal) < 0)
        return NULL;
    return made;
}

/* What was launched: the release document, by the digest of its canonical form. A release that holds
 * a fraction has none that this runner writes, and is named without. */
static json_t *
release_descriptor(const struct cf_outcome *o)
{
    const json_t *said = cf_json_obj(cf_json_obj(o->result, "declared"), "release"),
                 *release = o->release != NULL ? o->release : said;
    json_t *made;
    unsigned char hash[crypto_hash_sha256_BYTES];
    char hex[2 * sizeof hash + 1];
    size_t len = 0;
    cf_auto_free char *bytes = release != NULL ? canonical(release, &len) : NULL;

    if (release == NULL)
        return NULL;
    made = json_pack("{s:s, s:s}", "name", "release", "mediaType", "application/json");
    if (bytes != NULL) {
        (void)crypto_hash_sha256(hash, (const unsigned char *)bytes, len);
        cf_hex(hash, sizeof hash, hex);
        (void)json_object_set_new(made, "digest", json_pack("{s:s}", "sha256", hex));
    }
    return made;
}

static json_t *
configuration(const struct cf_outcome *o)
{
    const char *protocol = cf_json_str(o->result, "protocol"), *driver = cf_json_str(o->result, "driver_version");
    json_t *list = json_array(), *release = release_descriptor(o);

    (void)json_array_append_new(list, json_pack("{s:s, s:{s:s, s:s, s:s, s:s?}}", "name", "cfrunner", "annotations",
                                                "version", CFRUNNER_VERSION, "command", o->command, "protocol",
                                                protocol != NULL ? protocol : "", "driver_version", driver));
    if (release != NULL)
        (void)json_array_append_new(list, release);
    return list;
}

/* FAILED unless all is well; WARNED when something was skipped: that was not proven. */
static json_t *
statement(const struct cf_outcome *o)
{
    const char *result = o->exit_code != 0 ? "FAILED" : o->skipped > 0 ? "WARNED" : "PASSED";
    const char *name = *o->reference != '\0' ? o->reference : o->name;

    return json_pack("{s:s, s:s, s:[{s:s, s:{s:s}, s:{s:s}}], s:{s:s, s:o, s:o, s:o, s:o, s:{s:s, s:b, s:i, s:s, s:s}}}", "_type",
                     "https://in-toto.io/Statement/v1", "predicateType", "https://in-toto.io/attestation/test-result/v0.1",
                     "subject", "name", name, "digest", "sha256", o->digest + 7, "annotations", "label",
                     "unsigned_local_only",
                     /* predicate */ "predicate", "result", result, "configuration", configuration(o), "passedTests",
                     names_of(o, "passed"), "warnedTests", names_of(o, "skipped"), "failedTests", names_of(o, "failed"),
                     /* an extension field: readers pass over what they do not know */ "cfrunner", "label",
                     "unsigned_local_only", "signed", 0, "exitCode", o->exit_code, "blame", o->blame, "finishedAt",
                     o->made_at);
}

int
cf_format_statement(struct cf_buf *to, const struct cf_outcome *o, struct cf_error *err)
{
    json_t *document;
    size_t len = 0;
    cf_auto_free char *bytes = NULL;

    if (*o->digest == '\0') {
        (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "a statement is about an image's digest, and none was resolved");
        return cf_error_fix(err, "see why the image was not resolved");
    }
    document = statement(o);
    bytes = document != NULL ? canonical(document, &len) : NULL;
    json_decref(document);
    if (bytes == NULL || cf_buf_add(to, bytes, len) < 0)
        return cf_error_memory(err);
    return 0;
}
