/*
 * bench_correspond.c: what correspondence costs. Signing and verifying against libsodium's
 * bare verify of the same digests; canonicalizing against jansson's sorted dump of the same
 * trees; a journal's append and projection while its history grows. Ratios are printed, never
 * asserted.
 *
 *   bench_correspond [EVENTS]     journal length, 100000 unless given
 */
#include <cfrunner/correspondence.h>
#include <cfrunner/journal.h>

#include <fcntl.h>
#include <jansson.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NOW 1784455200000
#define PROJECT "11111111-1111-4111-8111-111111111111"
#define EVENTS 256

/* Processor time: what others do on the machine at the same moment does not count. */
static double
seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void
must(int is_so, const char *what)
{
    if (is_so)
        return;
    fprintf(stderr, "bench_correspond: %s failed\n", what);
    exit(1);
}

static struct cf_corr_author
make_author(void)
{
    static const char *const paths[] = {"packages/sdk", "docs/specs"};
    struct cf_corr_identity identity;
    struct cf_corr_author author;
    struct cf_corr_refusal refusal;

    cf_corr_identity_make(&identity);
    must(cf_corr_author_init(&author, &identity, PROJECT, &refusal) == 0, "author");
    author.repository_id = "repo:bench";
    author.thread_id = "thread:bench";
    author.paths = paths;
    author.path_count = 2;
    return author;
}

static struct cf_corr_event *
sign_progress(struct cf_corr_author *author, size_t text_bytes)
{
    struct cf_corr_event *event = NULL;
    struct cf_corr_refusal refusal;
    char body[1200];
    int at = snprintf(body, sizeof body, "{\"summary\":\"");

    memset(body + at, 'x', text_bytes);
    strcpy(body + at + text_bytes, "\"}");
    must(cf_corr_author_sign(author, "progress", body, NULL, 0, NOW, &event, &refusal) == 0,
         "sign");
    return event;
}

/* ---- signatures ---- */

struct signed_set {
    char *text[EVENTS];
    size_t len[EVENTS];
    unsigned char digest[EVENTS][32], signature[EVENTS][64];
    unsigned char key[32], seed[32];
    struct cf_corr_keyring *keyring;
};

static void
make_set(struct signed_set *set)
{
    struct cf_corr_author author = make_author();
    struct cf_corr_key key = {.is_active = true};

    memcpy(set->seed, author.seed, 32);
    cf_corr_public_key(author.seed, set->key);
    memcpy(key.public_key, set->key, 32);
    strcpy(key.identity_id, author.identity_id);
    strcpy(key.signing_key_id, author.signing_key_id);
    set->keyring = cf_corr_keyring_new();
    must(cf_corr_keyring_put(set->keyring, &key) == 0, "keyring");
    for (int i = 0; i < EVENTS; i++) {
        struct cf_corr_event *event = sign_progress(&author, 180); /* about 1 KiB in all */
        unsigned char public_key[32], secret[64];
        set->text[i] = cf_corr_event_text(event, &set->len[i]);
        cf_corr_event_digest(event, set->digest[i]);
        crypto_sign_seed_keypair(public_key, secret, author.seed);
        crypto_sign_detached(set->signature[i], NULL, set->digest[i], 32, secret);
        cf_corr_event_free(event);
    }
}

static double
bare_verifies(const struct signed_set *set)
{
    double start = seconds();
    unsigned n = 0;

    for (; seconds() - start < 1.0; n++)
        must(crypto_sign_verify_detached(set->signature[n % EVENTS], set->digest[n % EVENTS],
                                         32, set->key) == 0,
             "bare verify");
    return n / (seconds() - start);
}

/* From bytes to a verdict: text, envelope, id, key, signature. */
static double
event_verifies(const struct signed_set *set)
{
    double start = seconds();
    struct cf_corr_refusal refusal;
    unsigned n = 0;

    for (; seconds() - start < 1.0; n++) {
        struct cf_corr_event *event = NULL;
        must(cf_corr_event_parse(set->text[n % EVENTS], set->len[n % EVENTS], CF_CORR_FULL,
                                 &event, &refusal) == 0,
             "parse");
        must(cf_corr_event_verify(event, PROJECT, set->keyring, &refusal) == 0, "verify");
        cf_corr_event_free(event);
    }
    return n / (seconds() - start);
}

/* From a draft's text to the signed event. */
static double
event_signs(const struct signed_set *set)
{
    struct cf_corr_author author = make_author();
    double start = seconds();
    unsigned n = 0;

    for (; seconds() - start < 1.0; n++)
        cf_corr_event_free(sign_progress(&author, 180));
    return n / (seconds() - start);
}

static void
bench_signatures(void)
{
    static struct signed_set set;
    double bare = 0, verify = 0, sign = 0;

    make_set(&set);
    for (int round = 0; round < 3; round++) { /* side by side, the best of three */
        double b = bare_verifies(&set), v = event_verifies(&set), s = event_signs(&set);
        bare = b > bare ? b : bare;
        verify = v > verify ? v : verify;
        sign = s > sign ? s : sign;
    }
    printf("correspond  event of %zu bytes: bare verify %.0f/s, verify %.0f/s (ratio %.2f), "
           "draft and sign %.0f/s (ratio %.2f)\n",
           set.len[0], bare, verify, verify / bare, sign, sign / bare);
    for (int i = 0; i < EVENTS; i++)
        free(set.text[i]);
    cf_corr_keyring_free(set.keyring);
}

/* ---- canonical form ---- */

static char *
make_document(size_t entries, size_t *ret_len)
{
    json_t *list = json_array();
    char *text;

    for (size_t i = 0; i < entries; i++) {
        char id[40];
        snprintf(id, sizeof id, "item-%zu", i * 7919 % entries);
        json_array_append_new(
            list, json_pack("{s:s, s:i, s:[s,s,s], s:{s:b, s:n, s:s}, s:s}", "name", id,
                            "count", (int)(i * 37), "tags", "alpha", "beta", "gamma delta",
                            "nested", "flag", 1, "nothing", "text",
                            "a line\nand \"another\" one, \xc3\xa9\xe2\x82\xac", "about",
                            "plain text of a usual length that needs no escaping whatsoever"));
    }
    text = json_dumps(list, 0);
    json_decref(list);
    *ret_len = strlen(text);
    return text;
}

static void
bench_canonical(size_t entries)
{
    size_t len, out_len = 0, dumped_len = 0;
    char *text = make_document(entries, &len), *out;
    struct cf_corr_value *value = NULL;
    struct cf_corr_refusal refusal;
    json_t *tree = json_loads(text, 0, NULL);
    double best_ours = 0, best_theirs = 0, best_whole = 0, best_load = 0;

    must(cf_corr_value_parse(text, len, 1u << 28, &value, &refusal) == 0 && tree != NULL,
         "parse");
    out = malloc(cf_corr_value_room(value));
    for (int round = 0; round < 5; round++) {
        unsigned times = (unsigned)(40000000 / len) + 1;
        double start = seconds(), t;
        for (unsigned i = 0; i < times; i++)
            out_len = cf_corr_value_canonical(value, out);
        t = (double)out_len * times / 1e6 / (seconds() - start);
        best_ours = t > best_ours ? t : best_ours;
        start = seconds();
        for (unsigned i = 0; i < times; i++) {
            char *dumped = json_dumps(tree, JSON_SORT_KEYS | JSON_COMPACT);
            dumped_len = strlen(dumped);
            free(dumped);
        }
        t = (double)dumped_len * times / 1e6 / (seconds() - start);
        best_theirs = t > best_theirs ? t : best_theirs;
        start = seconds();
        for (unsigned i = 0; i < times; i++) {
            char *canonical = NULL;
            must(cf_corr_canonicalize(text, len, 1u << 28, &canonical, &out_len, &refusal) ==
                     0,
                 "canonicalize");
            free(canonical);
        }
        t = (double)len * times / 1e6 / (seconds() - start);
        best_whole = t > best_whole ? t : best_whole;
        start = seconds();
        for (unsigned i = 0; i < times; i++) {
            json_t *loaded = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
            char *dumped = json_dumps(loaded, JSON_SORT_KEYS | JSON_COMPACT);
            free(dumped);
            json_decref(loaded);
        }
        t = (double)len * times / 1e6 / (seconds() - start);
        best_load = t > best_load ? t : best_load;
    }
    must(out_len == dumped_len, "same length");
    printf("correspond  %zu bytes: canonical %.0f MB/s, jansson sorted dump %.0f MB/s (ratio "
           "%.2f); parse and canonical %.0f MB/s, "
           "jansson load and dump %.0f MB/s (ratio %.2f)\n",
           len, best_ours, best_theirs, best_ours / best_theirs, best_whole, best_load,
           best_whole / best_load);
    cf_corr_value_free(value);
    json_decref(tree);
    free(out);
    free(text);
}

/* ---- the journal's curve ---- */

/* The same path as any append but for the sync, which would measure the disk alone: one claim
 * opened and renewed, progress, release, over and over, so that tips and forks come and go. */
static void
append_some(struct cf_journal *journal, struct cf_corr_author *author, unsigned count,
            double *ret_append_us)
{
    struct cf_corr_claim claim;
    double spent = 0;

    cf_corr_claim_init(&claim, author);
    for (unsigned i = 0; i < count; i++) {
        struct cf_corr_event *event = NULL;
        struct cf_corr_refusal refusal;
        struct cf_corr_receipt receipt;
        struct cf_error err = {0};
        int status;
        double start;
        if (i % 8 == 0) {
            cf_corr_claim_init(&claim, author);
            status = cf_corr_claim_open(&claim, NOW, NOW + 3600000 + i, &event, &refusal);
        } else if (i % 8 == 7) {
            status = cf_corr_claim_release(&claim, NOW, NULL, &event, &refusal);
        } else if (i % 2 == 0) {
            status = cf_corr_claim_renew(&claim, NOW, NOW + 7200000 + i, &event, &refusal);
        } else {
            status = cf_corr_claim_progress(&claim, NOW, "a step forward", &event, &refusal);
        }
        must(status == 0, "draft");
        start = seconds();
        status = cf_journal_append(journal, event, NOW, &receipt, &refusal, &err);
        spent += seconds() - start;
        must(status == 0, status < 0 ? err.text : refusal.reason);
        cf_corr_event_free(event);
    }
    *ret_append_us = spent / count * 1e6;
}

/* Keeps 100 claims alive in a repository of their own, so that every projection has rows to
 * show. */
static void
open_standing_claims(struct cf_journal *journal, struct cf_corr_author *author)
{
    struct cf_corr_author standing = *author;

    standing.repository_id = "repo:standing";
    cf_corr_uuid_make(standing.session_id);
    for (int i = 0; i < 100; i++) {
        struct cf_corr_claim claim;
        struct cf_corr_event *event = NULL;
        struct cf_corr_refusal refusal;
        struct cf_corr_receipt receipt;
        struct cf_error err = {0};
        cf_corr_claim_init(&claim, &standing);
        must(cf_corr_claim_open(&claim, NOW, NOW + 86400000, &event, &refusal) == 0, "claim");
        must(cf_journal_append(journal, event, NOW, &receipt, &refusal, &err) == 0, err.text);
        cf_corr_event_free(event);
    }
}

static double
time_of_claims(struct cf_journal *journal)
{
    const struct cf_corr_query query = {"repo:standing", NULL, NULL};
    double start = seconds();

    for (int i = 0; i < 20; i++) {
        struct cf_error err;
        size_t len;
        char *claims = cf_journal_claims(journal, &query, NOW, &len, &err);
        must(claims != NULL && len > 30000, "claims");
        free(claims);
    }
    return (seconds() - start) / 20 * 1e6;
}

static double
time_of_voice(struct cf_journal *journal)
{
    const struct cf_corr_query query = {"repo:bench", NULL, NULL};
    double start = seconds();

    for (int i = 0; i < 20; i++) {
        struct cf_error err;
        size_t len;
        char *voice = cf_journal_voice(journal, &query, NOW, &len, &err);
        must(voice != NULL, "voice");
        free(voice);
    }
    return (seconds() - start) / 20 * 1e6;
}

static double
time_of_open(const char *dir)
{
    double start = seconds();

    for (int i = 0; i < 5; i++) {
        struct cf_journal *journal = NULL;
        struct cf_error err = {0};
        must(cf_journal_open(dir, &journal, &err) == 0, err.text);
        cf_journal_close(journal);
    }
    return (seconds() - start) / 5 * 1e3;
}

static struct cf_journal *
reopen(struct cf_journal *journal, const char *dir)
{
    struct cf_error err = {0};

    cf_journal_close(journal);
    must(cf_journal_open(dir, &journal, &err) == 0, err.text);
    return journal;
}

static void
remove_journal(const char *dir)
{
    static const char *const names[] = {"journal.ndjson", "index", "lock"};
    char path[200];

    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(dir);
}

static void
bench_journal(unsigned events)
{
    struct cf_corr_author author = make_author();
    struct cf_corr_keyring *keyring = cf_corr_keyring_new();
    struct cf_corr_key key = {.is_active = true};
    struct cf_journal *journal = NULL;
    struct cf_error err = {0};
    char dir[] = "/dev/shm/cf-bench-journal-XXXXXX"; /* a sync costs nothing there: what is
                                                        left is ours */
    double first_append = 0, first_claims = 0, append_us = 0, claims_us = 0;
    unsigned done = 0;

    strcpy(key.identity_id, author.identity_id);
    strcpy(key.signing_key_id, author.signing_key_id);
    cf_corr_public_key(author.seed, key.public_key);
    must(cf_corr_keyring_put(keyring, &key) == 0, "keyring");
    must(mkdtemp(dir) != NULL, "a directory in /dev/shm");
    must(cf_journal_create(dir, PROJECT, keyring, NOW, &err) == 0, err.text);
    must(cf_journal_open(dir, &journal, &err) == 0, err.text);
    open_standing_claims(journal, &author);
    printf("correspond  journal   events  append us  claims(100) us  voice us  open ms\n");
    for (unsigned step = events / 100; done < events;
         step = done < events / 10 ? events / 10 - done : events / 5) {
        unsigned count = step > events - done ? events - done : step;
        append_some(journal, &author, count, &append_us);
        done += count;
        journal = reopen(journal, dir); /* leaves an index */
        claims_us = time_of_claims(journal);
        printf("correspond  journal %8u  %9.1f  %14.1f  %8.1f  %7.2f\n", done, append_us,
               claims_us, time_of_voice(journal), time_of_open(dir));
        fflush(stdout);
        if (first_append == 0) {
            first_append = append_us;
            first_claims = claims_us;
        }
    }
    printf("correspond  journal of %u events against %u: append %.2f times, claims %.2f times "
           "as long\n",
           done, events / 100, append_us / first_append, claims_us / first_claims);
    cf_journal_close(journal);
    cf_corr_keyring_free(keyring);
    remove_journal(dir);
}

int
main(int argc, char **argv)
{
    unsigned events = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 100000;

    must(cf_corr_init() == 0, "libsodium");
    bench_signatures();
    bench_canonical(4);
    bench_canonical(200);
    bench_canonical(20000);
    bench_journal(events < 1000 ? 1000 : events);
    return 0;
}
