/* `cfrunner correspond`: the commands that judge one value, and the way to the others. */
#include "cli/correspond.h"
#include "cli/correspond_cmd.h"

#include "base/str.h"
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

static const char overview[] =
    "usage: cfrunner correspond COMMAND [flags]\n"
    "\n"
    "agent-correspondence/v0.1: signed reports about work on a shared repository.\n"
    "An event is evidence: nothing here acts on one. One JSON document on stdout;\n"
    "exit 0 valid, 2 invalid.\n"
    "\n"
    "  canonicalize < value.json              canonical bytes (RFC 8785)\n"
    "  validate [--core] < event.json         text, envelope, body, references\n"
    "  keygen --out FILE                      a new identity file (0600)\n"
    "  sign --key FILE < core.json            the full event\n"
    "  verify --public-key KEY < event.json   ... and its id and signature\n"
    "  verify --keyring FILE --project UUID < event.json\n"
    "  claims --now TIME [--arrival] < events.ndjson\n"
    "  check-string id|locator|path VALUE\n"
    "  conformance FILE                       vectors or cases: wanted, got, pass\n"
    "  journal init|append|list|claims|voice|verify|keys DIR\n"
    "\n"
    "COMMAND --help tells its flags.\n";

/* One event from stdin, or the exit code of having refused it. */
static int
read_event(enum cf_corr_form form, struct cf_corr_event **ret_event)
{
    struct cf_corr_refusal refusal;
    struct cf_error err = {0};
    struct cf_buf text;
    int status;

    if (cf_correspond_read(NULL, CF_CORR_EVENT_BYTES_MAX, &text, &err) < 0)
        return cf_correspond_failed(&err);
    status = cf_corr_event_parse(text.data == NULL ? "" : text.data, text.len, form, ret_event,
                                 &refusal);
    cf_buf_release(&text);
    return status == 0 ? 0 : cf_correspond_refused(&refusal, 0);
}

static int
print_valid(const struct cf_corr_event *event)
{
    struct cf_buf out;
    int code;

    cf_buf_init(&out, 0);
    cf_correspond_put_valid(&out, event);
    code = out.failed ? 4 : cf_correspond_print(out.data, out.len, true, 0);
    cf_buf_release(&out);
    return code;
}

static int
canonicalize(int argc, char **argv)
{
    struct cf_corr_refusal refusal;
    struct cf_error err = {0};
    struct cf_buf text;
    char *bytes = NULL;
    size_t len;
    int status = cf_correspond_flags("cfrunner correspond canonicalize < value.json", NULL, 0,
                                     argc, argv, NULL, NULL);

    if (status != 0)
        return status < 0 ? 2 : 0;
    if (cf_correspond_read(NULL, CF_CORR_EVENT_BYTES_MAX, &text, &err) < 0)
        return cf_correspond_failed(&err);
    status = cf_corr_canonicalize(text.data == NULL ? "" : text.data, text.len, 0, &bytes,
                                  &len, &refusal);
    cf_buf_release(&text);
    if (status < 0)
        return cf_correspond_refused(&refusal, 0);
    status = cf_correspond_print(bytes, len, false, 0);
    free(bytes);
    return status;
}

static int
validate(int argc, char **argv)
{
    struct {
        bool core;
    } options = {0};
    static const struct cf_flag table[] = {
        {"--core", CF_FLAG_SWITCH, 0, NULL,
         "a draft to be signed: without event_id and signature"},
    };
    struct cf_corr_event *event = NULL;
    int status = cf_correspond_flags("cfrunner correspond validate [--core] < event.json",
                                     table, CF_COUNT(table), argc, argv, &options, NULL);

    if (status != 0)
        return status < 0 ? 2 : 0;
    status = read_event(options.core ? CF_CORR_CORE : CF_CORR_FULL, &event);
    if (status == 0)
        status = print_valid(event);
    cf_corr_event_free(event);
    return status;
}

struct verify_options {
    const char *public_key, *keyring, *project;
};

static const char verify_usage[] = "cfrunner correspond verify (--public-key KEY | --keyring "
                                   "FILE --project UUID) < event.json";

static int
verify_with_key(const char *text, const struct cf_corr_event *event,
                struct cf_corr_refusal *refusal, int *ret_code)
{
    unsigned char key[32];

    if (cf_corr_key_decode(text, strlen(text), key) < 0) {
        *ret_code = cf_correspond_usage(
            verify_usage, "--public-key: not 32 bytes of base64url without padding");
        return -1;
    }
    return cf_corr_event_verify_key(event, key, refusal);
}

static int
verify_with_keyring(const struct verify_options *options, const struct cf_corr_event *event,
                    struct cf_corr_refusal *refusal, int *ret_code)
{
    struct cf_corr_keyring *keyring = cf_corr_keyring_new();
    struct cf_error err = {0};
    int status = -1;

    if (keyring == NULL)
        (void)cf_error_memory(&err);
    if (keyring == NULL || cf_correspond_keyring(options->keyring, keyring, &err) < 0)
        *ret_code = cf_correspond_failed(&err);
    else
        status = cf_corr_event_verify(event, options->project, keyring, refusal);
    cf_corr_keyring_free(keyring);
    return status;
}

static int
verify(int argc, char **argv)
{
    struct verify_options options = {0};
    static const struct cf_flag table[] = {
        {"--public-key", CF_FLAG_TEXT, offsetof(struct verify_options, public_key), "KEY",
         "43 characters of base64url"},
        {"--keyring", CF_FLAG_TEXT, offsetof(struct verify_options, keyring), "FILE",
         "JSON array of known keys"},
        {"--project", CF_FLAG_TEXT, offsetof(struct verify_options, project), "UUID",
         "the project events must be of"},
    };
    struct cf_corr_event *event = NULL;
    struct cf_corr_refusal refusal = {0};
    int status = cf_correspond_flags(verify_usage, table, CF_COUNT(table), argc, argv,
                                     &options, NULL),
        code = -1;

    if (status != 0)
        return status < 0 ? 2 : 0;
    if ((options.public_key == NULL) == (options.keyring == NULL))
        return cf_correspond_usage(verify_usage, "give either --public-key or --keyring");
    if (options.keyring != NULL && options.project == NULL)
        return cf_correspond_usage(verify_usage, "--keyring needs --project");
    status = read_event(CF_CORR_FULL, &event);
    if (status != 0)
        return status;
    if (options.public_key != NULL && options.project != NULL) {
        struct cf_corr_event_view view;
        cf_corr_event_view(event, &view);
        if (strcmp(view.project_id, options.project) != 0) {
            refusal = (struct cf_corr_refusal){
                .reason = "project_mismatch", .pointer = "/project_id", .offset = -1};
            cf_corr_event_free(event);
            return cf_correspond_refused(&refusal, 0);
        }
    }
    status = options.public_key != NULL
                 ? verify_with_key(options.public_key, event, &refusal, &code)
                 : verify_with_keyring(&options, event, &refusal, &code);
    if (status == 0)
        code = print_valid(event);
    else if (code < 0)
        code = cf_correspond_refused(&refusal, 0);
    cf_corr_event_free(event);
    return code;
}

static const struct {
    const char *name;
    const char *(*check)(const char *text, size_t len);
} words[] = {
    {"id", cf_corr_check_opaque_id},
    {"locator", cf_corr_check_locator},
    {"path", cf_corr_check_path},
};

/* Bytes that are no UTF-8 are refused where they begin. */
static const char *
check_utf8(const char *text, struct cf_corr_refusal *refusal)
{
    size_t len = strlen(text), at = 0;
    uint32_t code;

    while (at < len) {
        int n = cf_utf8_next(text + at, len - at, &code);
        if (n < 0) {
            refusal->offset = (int64_t)at;
            return "invalid_utf8";
        }
        at += (size_t)n;
    }
    return NULL;
}

/* VALUE is taken as it is, whatever it begins with. */
static int
check_string(int argc, char **argv)
{
    static const char usage[] = "cfrunner correspond check-string id|locator|path VALUE";
    struct cf_corr_refusal refusal = {.offset = -1};

    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        printf("usage: %s\n", usage);
        return 0;
    }
    if (argc != 3)
        return cf_correspond_usage(usage, "check-string takes a kind and one value");
    for (size_t i = 0; i < CF_COUNT(words); i++) {
        if (strcmp(argv[1], words[i].name) != 0)
            continue;
        refusal.reason = check_utf8(argv[2], &refusal);
        if (refusal.reason == NULL)
            refusal.reason = words[i].check(argv[2], strlen(argv[2]));
        if (refusal.reason != NULL)
            return cf_correspond_refused(&refusal, 0);
        return cf_correspond_print("{\"valid\":true}", 14, true, 0);
    }
    return cf_correspond_usage(usage, "the kind is id, locator or path");
}

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"canonicalize", canonicalize},
    {"validate", validate},
    {"keygen", cf_correspond_keygen},
    {"sign", cf_correspond_sign},
    {"verify", verify},
    {"claims", cf_correspond_claims},
    {"check-string", check_string},
    {"conformance", cf_correspond_conformance},
    {"journal", cf_correspond_journal},
};

int
cf_cli_correspond(int argc, char **argv)
{
    struct cf_error err = {0};

    if (argc < 2) {
        fputs(overview, stderr);
        return 2;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        fputs(overview, stdout);
        return 0;
    }
    if (cf_corr_init() < 0) {
        cf_error_set(&err, CF_ERROR_INTERNAL, 0,
                     "libsodium finds no randomness on this machine");
        return cf_correspond_failed(&err);
    }
    for (size_t i = 0; i < CF_COUNT(commands); i++) {
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    }
    cf_error_set(&err, CF_ERROR_CONFIG, 0, "unknown command correspond %.60s", argv[1]);
    cf_error_fix(&err, "cfrunner correspond --help lists the commands");
    return cf_correspond_failed(&err);
}
