/* `correspond journal`: the signed account on disk. */
#include "cli/correspond_cmd.h"

#include <cfrunner/journal.h>

#include "base/str.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct options {
    const char *project, *keyring, *now, *repository, *thread, *path, *after, *add;
    uint64_t limit, lock_wait_ms;
    bool ndjson;
};

#define FLAG_NOW                                                      \
    {                                                                 \
        "--now", CF_FLAG_TEXT, offsetof(struct options, now), "TIME", \
            "when it is (the clock)"                                  \
    }
#define FLAG_WAIT                                                                    \
    {                                                                                \
        "--lock-wait", CF_FLAG_TIME, offsetof(struct options, lock_wait_ms), "TIME", \
            "for another writer (10s)"                                               \
    }
#define FLAG_REPOSITORY                                                           \
    {                                                                             \
        "--repository", CF_FLAG_TEXT, offsetof(struct options, repository), "ID", \
            "of one repository (every one)"                                       \
    }
#define FLAG_THREAD                                                                       \
    {                                                                                     \
        "--thread", CF_FLAG_TEXT, offsetof(struct options, thread), "ID", "of one thread" \
    }

static const struct cf_flag init_flags[] = {
    {"--project", CF_FLAG_TEXT, offsetof(struct options, project), "UUID",
     "the project of all its events"},
    {"--keyring", CF_FLAG_TEXT, offsetof(struct options, keyring), "FILE",
     "the keys it knows from the start"},
    FLAG_NOW,
};
static const struct cf_flag append_flags[] = {
    {"--ndjson", CF_FLAG_SWITCH, offsetof(struct options, ndjson), NULL,
     "one event a line in, one answer a line out"},
    FLAG_NOW,
    FLAG_WAIT,
};
static const struct cf_flag list_flags[] = {
    {"--after", CF_FLAG_TEXT, offsetof(struct options, after), "N",
     "records with a larger received_seq"},
    {"--limit", CF_FLAG_NUMBER, offsetof(struct options, limit), "N", "1 to 200 (100)"},
};
static const struct cf_flag claims_flags[] = {
    FLAG_REPOSITORY,
    FLAG_THREAD,
    {"--path", CF_FLAG_TEXT, offsetof(struct options, path), "PATH", "that overlap this path"},
    FLAG_NOW,
    FLAG_WAIT,
};
static const struct cf_flag voice_flags[] = {FLAG_REPOSITORY, FLAG_THREAD, FLAG_NOW,
                                             FLAG_WAIT};
static const struct cf_flag keys_flags[] = {
    {"--add", CF_FLAG_TEXT, offsetof(struct options, add), "FILE",
     "a keyring: new keys, or known ones changed"},
    FLAG_NOW,
    FLAG_WAIT,
};

static int
print_document(char *document, size_t len, const struct cf_error *err)
{
    int code = document == NULL ? cf_correspond_failed(err)
                                : cf_correspond_print(document, len, true, 0);

    free(document);
    return code;
}

/* ---- init ---- */

static int
do_init(const char *dir, const struct options *options, int64_t now_ms)
{
    static const char usage[] =
        "cfrunner correspond journal init DIR --project UUID [--keyring FILE]";
    struct cf_corr_keyring *keyring = cf_corr_keyring_new();
    struct cf_error err = {0};
    struct cf_buf out;
    int status = keyring == NULL ? cf_error_memory(&err) : 0, code;

    if (options->project == NULL) {
        cf_corr_keyring_free(keyring);
        return cf_correspond_usage(usage, "init needs --project UUID");
    }
    if (status == 0 && options->keyring != NULL)
        status = cf_correspond_keyring(options->keyring, keyring, &err);
    if (status == 0)
        status = cf_journal_create(dir, options->project, keyring, now_ms, &err);
    if (status < 0) {
        cf_corr_keyring_free(keyring);
        return cf_correspond_failed(&err);
    }
    cf_buf_init(&out, 0);
    cf_buf_adds(&out, "{\"created\":true,\"journal\":");
    cf_correspond_put_string(&out, dir);
    cf_buf_addf(&out, ",\"project_id\":\"%s\",\"keys\":%zu}", options->project,
                cf_corr_keyring_count(keyring));
    code = out.failed ? 4 : cf_correspond_print(out.data, out.len, true, 0);
    cf_buf_release(&out);
    cf_corr_keyring_free(keyring);
    return code;
}

/* ---- append ---- */

/* A crash's remains are told on stderr and in the answer. */
static void
put_recovery(struct cf_buf *to, const struct cf_journal *journal)
{
    const struct cf_journal_recovery *recovery = cf_journal_recovery(journal);

    if (recovery->bytes == 0)
        return;
    if (recovery->kept_as[0] == '\0')
        fprintf(stderr, "cfrunner: the last record lacked its end after a crash; it was whole "
                        "and is kept\n");
    else
        fprintf(stderr,
                "cfrunner: %" PRIu64 " bytes of a torn record behind event %" PRIu64
                " were put aside as %s\n",
                recovery->bytes, recovery->after_seq, recovery->kept_as);
    cf_buf_addf(to,
                ",\"recovered\":{\"bytes\":%" PRIu64 ",\"after_seq\":\"%" PRIu64
                "\",\"kept_as\":%s%s%s}",
                recovery->bytes, recovery->after_seq,
                recovery->kept_as[0] == '\0' ? "null" : "\"", recovery->kept_as,
                recovery->kept_as[0] == '\0' ? "" : "\"");
}

static int
print_answer(struct cf_journal *journal, const struct cf_corr_receipt *receipt)
{
    struct cf_error err = {0};
    struct cf_buf out;
    size_t len;
    char *answer = cf_corr_store_answer(cf_journal_store(journal), receipt, &len, &err);
    int code;

    if (answer == NULL)
        return cf_correspond_failed(&err);
    cf_buf_init(&out, 0);
    cf_buf_add(&out, answer, len - 1); /* without its closing brace */
    put_recovery(&out, journal);
    cf_buf_adds(&out, "}");
    code = out.failed ? 4 : cf_correspond_print(out.data, out.len, true, 0);
    cf_buf_release(&out);
    free(answer);
    return code;
}

static int
append_text(struct cf_journal *journal, const char *text, size_t len, int64_t now_ms,
            long line)
{
    struct cf_corr_event *event = NULL;
    struct cf_corr_receipt receipt;
    struct cf_corr_refusal refusal;
    struct cf_error err = {0};
    int status = 1;

    if (cf_corr_event_parse(text, len, CF_CORR_FULL, &event, &refusal) == 0)
        status = cf_journal_append(journal, event, now_ms, &receipt, &refusal, &err);
    cf_corr_event_free(event);
    if (status == 1)
        return cf_correspond_refused(&refusal, line);
    return status < 0 ? cf_correspond_failed(&err) : print_answer(journal, &receipt);
}

/* Goes on behind a refused line, stops at a journal that fails; the worst code is the answer.
 */
static int
append_lines(struct cf_journal *journal, const struct options *options)
{
    char *line = NULL;
    size_t cap = 0;
    long number = 0;
    ssize_t got;
    int code = 0;

    while (code != 4 && (got = getline(&line, &cap, stdin)) >= 0) {
        int64_t now_ms;
        int one;
        number++;
        if (strspn(line, " \t\r\n") >= (size_t)got)
            continue;
        if (cf_correspond_time(options->now, &now_ms) < 0)
            break; /* cannot be: was checked */
        one = append_text(journal, line, (size_t)got, now_ms, number);
        code = one > code ? one : code;
    }
    free(line);
    return code;
}

static int
do_append(struct cf_journal *journal, const struct options *options, int64_t now_ms)
{
    struct cf_error err = {0};
    struct cf_buf text;
    int code;

    if (options->ndjson)
        return append_lines(journal, options);
    if (cf_correspond_read(NULL, CF_CORR_EVENT_BYTES_MAX, &text, &err) < 0)
        return cf_correspond_failed(&err);
    code = append_text(journal, text.data == NULL ? "" : text.data, text.len, now_ms, 0);
    cf_buf_release(&text);
    return code;
}

/* ---- reading ---- */

/* "0", or digits without a leading zero, up to 2^63-1. */
static bool
read_cursor(const char *text, uint64_t *ret_after)
{
    if (text[0] < '0' || text[0] > '9' || (text[0] == '0' && text[1] != '\0'))
        return false;
    return cf_parse_u64(text, 0, INT64_MAX, ret_after);
}

static int
do_list(struct cf_journal *journal, const struct options *options)
{
    static const char usage[] = "cfrunner correspond journal list DIR [--after N] [--limit N]";
    struct cf_error err = {0};
    uint64_t after = 0;
    size_t len;
    char *page;

    if (options->after != NULL && !read_cursor(options->after, &after))
        return cf_correspond_usage(usage, "--after is a received_seq, or 0");
    if (options->limit < 1 || options->limit > 200)
        return cf_correspond_usage(usage, "--limit is 1 to 200");
    page = cf_journal_page(journal, options->after == NULL ? NULL : &after,
                           (unsigned)options->limit, &len, &err);
    return print_document(page, len, &err);
}

static int
do_claims(struct cf_journal *journal, const struct options *options, int64_t now_ms)
{
    const struct cf_corr_query query = {options->repository, options->thread, options->path};
    struct cf_error err = {0};
    size_t len;
    char *document;

    if (options->path != NULL &&
        cf_corr_check_path(options->path, strlen(options->path)) != NULL)
        return cf_correspond_usage("cfrunner correspond journal claims DIR",
                                   "--path is not a normalized path");
    document = cf_journal_claims(journal, &query, now_ms, &len, &err);
    return print_document(document, len, &err);
}

static int
do_voice(struct cf_journal *journal, const struct options *options, int64_t now_ms)
{
    const struct cf_corr_query query = {options->repository, options->thread, NULL};
    struct cf_error err = {0};
    size_t len;
    char *document = cf_journal_voice(journal, &query, now_ms, &len, &err);

    return print_document(document, len, &err);
}

static int
do_verify(const char *dir)
{
    struct cf_error err = {0};
    bool is_valid;
    size_t len;
    char *report = cf_journal_verify(dir, &is_valid, &len, &err);
    int code;

    if (report == NULL)
        return cf_correspond_failed(&err);
    code = cf_correspond_print(report, len, true, is_valid ? 0 : 2);
    free(report);
    return code;
}

/* ---- keys ---- */

static int
print_keys(const struct cf_corr_keyring *keyring)
{
    char encoded[CF_CORR_B64_KEY_SIZE];
    struct cf_buf out;
    int code;

    cf_buf_init(&out, 0);
    cf_buf_adds(&out, "{\"keys\":[");
    for (size_t i = 0; i < cf_corr_keyring_count(keyring); i++) {
        const struct cf_corr_key *key = cf_corr_keyring_at(keyring, i);
        cf_corr_key_encode(key->public_key, encoded);
        cf_buf_addf(&out,
                    "%s{\"identity_id\":\"%s\",\"signing_key_id\":\"%s\",\"public_key_"
                    "b64url\":\"%s\",\"active\":%s}",
                    i == 0 ? "" : ",", key->identity_id, key->signing_key_id, encoded,
                    key->is_active ? "true" : "false");
    }
    cf_buf_adds(&out, "]}");
    code = out.failed ? 4 : cf_correspond_print(out.data, out.len, true, 0);
    cf_buf_release(&out);
    return code;
}

static int
do_keys(struct cf_journal *journal, const struct options *options, int64_t now_ms)
{
    struct cf_corr_keyring *added = cf_corr_keyring_new();
    struct cf_error err = {0};
    int status = added == NULL ? cf_error_memory(&err) : 0;

    if (status == 0 && options->add != NULL)
        status = cf_correspond_keyring(options->add, added, &err);
    if (status == 0 && options->add != NULL)
        status = cf_journal_trust(journal, added, now_ms, &err);
    cf_corr_keyring_free(added);
    return status < 0 ? cf_correspond_failed(&err) : print_keys(cf_journal_keyring(journal));
}

/* ---- the way to them ---- */

static const struct command {
    const char *name, *usage;
    const struct cf_flag *flags;
    size_t flag_count;
} commands[] = {
    {"init", "cfrunner correspond journal init DIR --project UUID [--keyring FILE]",
     init_flags, CF_COUNT(init_flags)},
    {"append", "cfrunner correspond journal append DIR < event.json", append_flags,
     CF_COUNT(append_flags)},
    {"list", "cfrunner correspond journal list DIR [--after N] [--limit N]", list_flags,
     CF_COUNT(list_flags)},
    {"claims",
     "cfrunner correspond journal claims DIR --repository ID [--thread ID] [--path PATH]",
     claims_flags, CF_COUNT(claims_flags)},
    {"voice", "cfrunner correspond journal voice DIR --repository ID [--thread ID]",
     voice_flags, CF_COUNT(voice_flags)},
    {"verify", "cfrunner correspond journal verify DIR", NULL, 0},
    {"keys", "cfrunner correspond journal keys DIR [--add FILE]", keys_flags,
     CF_COUNT(keys_flags)},
};

static int
run_open(const struct command *command, struct cf_journal *journal,
         const struct options *options, int64_t now_ms)
{
    if (strcmp(command->name, "append") == 0)
        return do_append(journal, options, now_ms);
    if (strcmp(command->name, "list") == 0)
        return do_list(journal, options);
    if (strcmp(command->name, "claims") == 0)
        return do_claims(journal, options, now_ms);
    if (strcmp(command->name, "voice") == 0)
        return do_voice(journal, options, now_ms);
    return do_keys(journal, options, now_ms);
}

static int
run_command(const struct command *command, int argc, char **argv)
{
    struct options options = {.limit = 100, .lock_wait_ms = 10000};
    struct cf_flag_list *rest = calloc(1, sizeof *rest);
    struct cf_journal *journal = NULL;
    struct cf_error err = {0};
    const char *dir;
    int64_t now_ms;
    int status;

    if (rest == NULL)
        return 4;
    status = cf_correspond_flags(command->usage, command->flags, command->flag_count, argc,
                                 argv, &options, rest);
    dir = rest->count == 1 ? rest->items[0] : NULL;
    free(rest);
    if (status != 0)
        return status < 0 ? 2 : 0;
    if (dir == NULL)
        return cf_correspond_usage(command->usage, "give one directory");
    if (cf_correspond_time(options.now, &now_ms) < 0)
        return 2;
    if (strcmp(command->name, "init") == 0)
        return do_init(dir, &options, now_ms);
    if (strcmp(command->name, "verify") == 0)
        return do_verify(dir);
    if (cf_journal_open(dir, &journal, &err) < 0)
        return cf_correspond_failed(&err);
    cf_journal_set_lock_wait(
        journal, options.lock_wait_ms > 3600000 ? 3600000 : (unsigned)options.lock_wait_ms);
    status = run_open(command, journal, &options, now_ms);
    cf_journal_close(journal);
    return status;
}

int
cf_correspond_journal(int argc, char **argv)
{
    static const char usage[] =
        "cfrunner correspond journal init|append|list|claims|voice|verify|keys DIR [flags]";

    if (argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        printf("usage: %s\n\n", usage);
        for (size_t i = 0; i < CF_COUNT(commands); i++)
            printf("  %s\n", commands[i].usage);
        return 0;
    }
    for (size_t i = 0; argc >= 2 && i < CF_COUNT(commands); i++) {
        if (strcmp(argv[1], commands[i].name) == 0)
            return run_command(&commands[i], argc - 1, argv + 1);
    }
    return cf_correspond_usage(
        usage, "journal takes one of init, append, list, claims, voice, verify, keys");
}
