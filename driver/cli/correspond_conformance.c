/*
 * `correspond conformance FILE`: every case of a vector file run through the public interface,
 * so that authors of other implementations can lay their answers beside ours.
 */
#include "cli/correspond_conformance.h"
#include "cli/correspond_cmd.h"

#include "base/str.h"
#include "json/json.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

#define FILE_BYTES_MAX (64u << 20)

void
cf_conformance_note(struct cf_conformance *c, const char *group, const char *name,
                    json_t *wanted, json_t *got, int pass)
{
    bool is_pass = pass < 0 ? json_equal(wanted, got) : pass;
    json_t *result = json_pack("{s:s, s:s, s:o?, s:o?, s:b}", "group", group, "name", name,
                               "wanted", wanted, "got", got, "pass", (int)is_pass);

    (void)json_array_append_new(c->cases, result); /* out of memory shows in the count */
    c->passed += is_pass;
    c->failed += !is_pass;
}

json_t *
cf_conformance_refusal(const struct cf_corr_refusal *refusal)
{
    if (refusal->offset >= 0)
        return json_pack("{s:s, s:I}", "reason", refusal->reason, "offset",
                         (json_int_t)refusal->offset);
    return json_pack("{s:s, s:s}", "reason", refusal->reason, "pointer", refusal->pointer);
}

static const char *
text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text == NULL ? "" : text;
}

/* ---- the contract's groups ---- */

static void
run_canonicalization(struct cf_conformance *c, const json_t *vectors)
{
    json_t *entry;
    size_t i, len;

    json_array_foreach(vectors, i, entry) {
        struct cf_corr_refusal refusal;
        cf_auto_free char *in = cf_json_dump(json_object_get(entry, "value"), &len),
                          *out = NULL;
        json_t *got;
        if (in != NULL && cf_corr_canonicalize(in, len, 0, &out, &len, &refusal) == 0)
            got = json_stringn(out, len);
        else
            got = in == NULL ? json_null() : cf_conformance_refusal(&refusal);
        cf_conformance_note(c, "canonicalization", text_of(entry, "name"),
                            json_incref(json_object_get(entry, "jcs")), got, -1);
    }
}

static void
run_rejection(struct cf_conformance *c, const json_t *vectors)
{
    json_t *entry;
    size_t i, len;

    json_array_foreach(vectors, i, entry) {
        json_t *text = json_object_get(entry, "json");
        struct cf_corr_refusal refusal;
        cf_auto_free char *out = NULL;
        if (cf_corr_canonicalize(json_string_value(text), json_string_length(text), 0, &out,
                                 &len, &refusal) == 0)
            refusal.reason = "accepted";
        cf_conformance_note(c, "rejection", text_of(entry, "name"),
                            json_incref(json_object_get(entry, "reason")),
                            json_string(refusal.reason), -1);
    }
}

/* Signs a full event around `body`, all cited ids among its parents, and verifies it. */
static int
sign_body(struct cf_conformance *c, const char *kind, const json_t *body,
          struct cf_corr_refusal *refusal)
{
    const char *parents[64];
    size_t n = 0, i;
    json_t *id;
    cf_auto_free char *text = cf_json_dump(body, NULL);
    struct cf_corr_event *event = NULL;
    unsigned char public_key[32];
    int status;

    if (text_of(body, "predecessor_event_id")[0] != '\0')
        parents[n++] = text_of(body, "predecessor_event_id");
    if (text_of(body, "target_event_id")[0] != '\0')
        parents[n++] = text_of(body, "target_event_id");
    json_array_foreach(json_object_get(body, "target_event_ids"), i, id)
        if (json_is_string(id) && n < CF_COUNT(parents))
            parents[n++] = json_string_value(id);
    cf_corr_public_key(c->author.seed, public_key);
    status = cf_corr_author_sign(&c->author, kind, text == NULL ? "null" : text, parents, n,
                                 CF_CONFORMANCE_NOW, &event, refusal);
    if (status == 0)
        status = cf_corr_event_verify_key(event, public_key, refusal);
    cf_corr_event_free(event);
    return status;
}

static void
run_bodies(struct cf_conformance *c, const char *group, const json_t *vectors)
{
    json_t *entry;
    size_t i;

    json_array_foreach(vectors, i, entry) {
        struct cf_corr_refusal refusal = {.reason = "accepted"};
        json_t *reason = json_object_get(entry, "reason");
        if (sign_body(c, text_of(entry, "kind"), json_object_get(entry, "body"), &refusal) ==
            0)
            refusal.reason = "accepted";
        cf_conformance_note(c, group, text_of(entry, "kind"),
                            reason != NULL ? json_incref(reason) : json_string("accepted"),
                            json_string(refusal.reason), -1);
    }
}

static void
run_words(struct cf_conformance *c, const char *group, const char *member,
          const json_t *vectors, const char *(*check)(const char *text, size_t len))
{
    json_t *entry;
    size_t i;

    json_array_foreach(vectors, i, entry) {
        json_t *value = json_object_get(entry, member);
        const char *reason = check(text_of(entry, member), json_string_length(value));
        bool is_wanted = json_is_true(json_object_get(entry, "valid"));
        cf_conformance_note(
            c, group, text_of(entry, member), json_string(is_wanted ? "accepted" : "refused"),
            json_string(reason == NULL ? "accepted" : reason), (reason == NULL) == is_wanted);
    }
}

static void
note_text(struct cf_conformance *c, const json_t *vector, const char *member, const char *got)
{
    cf_conformance_note(c, "signing", member, json_incref(json_object_get(vector, member)),
                        json_string(got), -1);
}

/* The sign of the golden core, each intermediate value on its own. */
static void
run_signing(struct cf_conformance *c, const json_t *vector)
{
    size_t len;
    cf_auto_free char *text = cf_json_dump(json_object_get(vector, "core"), &len),
                      *full = NULL;
    unsigned char seed[32], key[32], digest[32];
    char hex[65], b64[CF_CORR_B64_KEY_SIZE];
    struct cf_corr_event *core = NULL, *event = NULL;
    struct cf_corr_refusal refusal = {.reason = "seed"};
    struct cf_corr_event_view view;
    const char *signature;

    if (sodium_hex2bin(seed, sizeof seed, text_of(vector, "private_seed_hex"),
                       strlen(text_of(vector, "private_seed_hex")), NULL, NULL, NULL) != 0 ||
        text == NULL || cf_corr_event_parse(text, len, CF_CORR_CORE, &core, &refusal) < 0 ||
        cf_corr_event_sign(core, seed, &event, &refusal) < 0) {
        cf_conformance_note(c, "signing", text_of(vector, "name"), json_string("accepted"),
                            json_string(refusal.reason), 0);
        cf_corr_event_free(core);
        return;
    }
    cf_corr_public_key(seed, key);
    cf_corr_key_encode(key, b64);
    note_text(c, vector, "public_key_b64url", b64);
    note_text(c, vector, "core_jcs", cf_corr_event_canonical(core, &len));
    cf_corr_event_digest(core, digest);
    cf_hex(digest, sizeof digest, hex);
    note_text(c, vector, "signing_digest_hex", hex);
    cf_corr_event_view(event, &view);
    note_text(c, vector, "event_id", view.id);
    full = cf_corr_event_text(event, &len);
    signature = full == NULL ? NULL : strstr(full, "\"value_b64url\":\"");
    if (signature != NULL && strlen(signature) > 16 + 86) {
        json_t *got = json_stringn(signature + 16, 86);
        cf_conformance_note(c, "signing", "signature_b64url",
                            json_incref(json_object_get(vector, "signature_b64url")), got, -1);
    }
    cf_conformance_note(c, "signing", "verifies", json_true(),
                        json_boolean(cf_corr_event_verify_key(event, key, &refusal) == 0), -1);
    cf_corr_event_free(core);
    cf_corr_event_free(event);
}

static void
run_contract(struct cf_conformance *c, const json_t *file)
{
    run_signing(c, json_object_get(file, "signing_vector"));
    run_canonicalization(c, json_object_get(file, "canonicalization_vectors"));
    run_rejection(c, json_object_get(file, "rejection_vectors"));
    run_bodies(c, "body", json_object_get(file, "body_matrix"));
    run_bodies(c, "invalid_body", json_object_get(file, "invalid_body_vectors"));
    run_words(c, "opaque_id", "value", json_object_get(file, "opaque_id_vectors"),
              cf_corr_check_opaque_id);
    run_words(c, "locator", "value", json_object_get(file, "locator_vectors"),
              cf_corr_check_locator);
    run_words(c, "path", "path", json_object_get(file, "path_vectors"), cf_corr_check_path);
    cf_conformance_lineage_vectors(c, json_object_get(file, "lineage_vectors"));
}

/* ---- complete events ---- */

static json_t *
judge_event(const char *text, size_t len, const char *project,
            const struct cf_corr_keyring *keyring)
{
    struct cf_corr_event *event = NULL;
    struct cf_corr_refusal refusal;
    struct cf_corr_event_view view;
    json_t *got;

    if (cf_corr_event_parse(text, len, CF_CORR_FULL, &event, &refusal) < 0 ||
        cf_corr_event_verify(event, project, keyring, &refusal) < 0) {
        cf_corr_event_free(event);
        return cf_conformance_refusal(&refusal);
    }
    cf_corr_event_view(event, &view);
    got = json_pack("{s:s}", "event_id", view.id);
    cf_corr_event_free(event);
    return got;
}

/* What the case says about the answer; an offset is ours to tell, nobody's to want. */
static json_t *
wanted_of(const json_t *entry)
{
    static const char *const members[] = {"event_id", "reason", "pointer"};
    json_t *wanted = json_object();

    for (size_t i = 0; i < CF_COUNT(members); i++) {
        json_t *value = json_object_get(entry, members[i]);
        if (value != NULL)
            (void)json_object_set(wanted, members[i], value);
    }
    return wanted;
}

static bool
has_all(const json_t *got, json_t *wanted)
{
    const char *name;
    json_t *value;

    json_object_foreach(wanted, name, value) {
        if (!json_equal(json_object_get(got, name), value))
            return false;
    }
    return true;
}

static void
run_event_case(struct cf_conformance *c, const json_t *entry, const char *project,
               const struct cf_corr_keyring *keyring)
{
    json_t *raw = json_object_get(entry, "raw"), *wanted = wanted_of(entry), *got = NULL;
    const char *b64 = text_of(entry, "raw_b64");
    unsigned char *bytes;
    size_t len;
    bool is_accepted;

    if (json_is_string(raw)) {
        got = judge_event(json_string_value(raw), json_string_length(raw), project, keyring);
    } else if ((bytes = malloc(strlen(b64) + 1)) != NULL) {
        if (sodium_base642bin(bytes, strlen(b64) + 1, b64, strlen(b64), NULL, &len, NULL,
                              sodium_base64_VARIANT_ORIGINAL) == 0)
            got = judge_event((const char *)bytes, len, project, keyring);
        free(bytes);
    }
    is_accepted = json_object_get(got, "event_id") != NULL;
    cf_conformance_note(c, "event", text_of(entry, "name"), wanted, got,
                        is_accepted == json_is_true(json_object_get(entry, "accept")) &&
                            has_all(got, wanted));
}

static int
run_event_cases(struct cf_conformance *c, const json_t *file)
{
    struct cf_corr_keyring *keyring = cf_corr_keyring_new();
    cf_auto_free char *keys = cf_json_dump(json_object_get(file, "keys"), NULL);
    struct cf_corr_refusal refusal = {.reason = "out_of_memory", .offset = -1};
    json_t *entry;
    size_t i;
    int code = 0;

    if (keyring == NULL || keys == NULL ||
        cf_corr_keyring_read(keyring, keys, strlen(keys), &refusal) < 0)
        code = cf_correspond_refused(&refusal, 0);
    else
        json_array_foreach(json_object_get(file, "cases"), i, entry)
            run_event_case(c, entry, text_of(file, "project_id"), keyring);
    cf_corr_keyring_free(keyring);
    return code;
}

/* ---- the command ---- */

static void
set_up_author(struct cf_conformance *c)
{
    static const char *const paths[] = {"docs"};
    struct cf_corr_author *a = &c->author;

    for (unsigned i = 0; i < sizeof a->seed; i++)
        a->seed[i] = (unsigned char)i; /* published for tests; proves nothing */
    strcpy(a->project_id, CF_CONFORMANCE_PROJECT);
    strcpy(a->identity_id, "22222222-2222-4222-8222-222222222222");
    strcpy(a->signing_key_id, "33333333-3333-4333-8333-333333333333");
    strcpy(a->device_id, "44444444-4444-4444-8444-444444444444");
    strcpy(a->session_id, "55555555-5555-4555-8555-555555555555");
    a->repository_id = "repo:conformance";
    a->thread_id = "thread:conformance";
    a->paths = paths;
    a->path_count = 1;
}

static int
print_results(struct cf_conformance *c)
{
    json_t *document = json_pack("{s:s, s:i, s:i, s:i, s:O}", "protocol", CF_CORR_PROTOCOL,
                                 "total", (int)(c->passed + c->failed), "passed",
                                 (int)c->passed, "failed", (int)c->failed, "cases", c->cases);
    size_t len = 0;
    cf_auto_free char *text = document == NULL ? NULL : cf_json_dump(document, &len);
    bool is_whole = json_array_size(c->cases) == c->passed + c->failed;

    json_decref(document);
    if (text == NULL || !is_whole) {
        struct cf_error err = {0};
        (void)cf_error_memory(&err);
        return cf_correspond_failed(&err);
    }
    return cf_correspond_print(text, len, true, c->failed == 0 && c->passed > 0 ? 0 : 2);
}

static int
run_file(struct cf_conformance *c, const json_t *file)
{
    const json_t *cases = json_object_get(file, "cases"), *first = json_array_get(cases, 0);

    if (json_object_get(file, "signing_vector") != NULL)
        run_contract(c, file);
    else if (json_object_get(first, "nodes") != NULL)
        cf_conformance_lineage_cases(c, cases);
    else if (json_object_get(first, "raw") != NULL ||
             json_object_get(first, "raw_b64") != NULL) {
        int code = run_event_cases(c, file);
        if (code != 0)
            return code;
    } else {
        struct cf_error err = {0};
        cf_error_set(&err, CF_ERROR_CONFIG, 0,
                     "the file is neither the contract's vectors nor event or lineage cases");
        cf_error_fix(&err, "a vector file has a member signing_vector; a case file has cases "
                           "with raw or with nodes");
        return cf_correspond_failed(&err);
    }
    return print_results(c);
}

int
cf_correspond_conformance(int argc, char **argv)
{
    static const char usage[] = "cfrunner correspond conformance FILE";
    static const struct cf_json_limits limits = {.bytes = FILE_BYTES_MAX};
    struct cf_conformance c = {0};
    struct cf_error err = {0};
    struct cf_buf text;
    json_t *file;
    int code;

    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        printf("usage: %s\n", usage);
        return 0;
    }
    if (argc != 2)
        return cf_correspond_usage(usage, "give one vector or case file");
    if (cf_correspond_read(argv[1], FILE_BYTES_MAX, &text, &err) < 0)
        return cf_correspond_failed(&err);
    file = cf_json_parse(text.data == NULL ? "" : text.data, text.len, &limits, &err);
    cf_buf_release(&text);
    if (file == NULL) {
        (void)cf_error_wrap(&err, "%s", argv[1]);
        return cf_correspond_failed(&err);
    }
    c.cases = json_array();
    set_up_author(&c);
    code = run_file(&c, file);
    json_decref(c.cases);
    json_decref(file);
    return code;
}
