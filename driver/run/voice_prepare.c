/*
 * Before a run: who speaks, into which journal, about what. All of it is read and tried here, so
 * that a wrong key or path is an error of the call and not of a run under way.
 */
#include "run/hall.h"
#include "run/voice_impl.h"

#include "base/str.h"
#include "json/json.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define IDENTITY_BYTES 4096u

int64_t
cf_voice_now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail for this clock */
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- who ---------------------------------------------------------------------------------------- */

/* The bytes of a small regular file; never waits, as a FIFO's would. */
static ssize_t
read_small(const char *path, char *to, size_t room, bool *ret_is_exposed)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st = {0};
    ssize_t n = -1;

    if (fd < 0)
        return -1;
    if (fstat(fd, &st) == 0 && !S_ISREG(st.st_mode))
        errno = EINVAL;
    else
        n = read(fd, to, room);
    *ret_is_exposed = (st.st_mode & 077) != 0;
    (void)close(fd);
    return n;
}

static int
read_identity(struct cf_voice *voice, const char *path, struct cf_corr_identity *identity, struct cf_error *err)
{
    struct cf_corr_refusal refusal;
    char bytes[IDENTITY_BYTES + 1];
    ssize_t n = read_small(path, bytes, sizeof bytes, &voice->is_identity_exposed);
    int status;

    if (n < 0) {
        (void)cf_error_set(err, CF_ERROR_CONFIG, errno, "identity %.300s: %s", path, strerror(errno));
        return cf_error_fix(err, "make one with: cfrunner correspond keygen --out FILE");
    }
    status = cf_corr_identity_read(bytes, (size_t)n, identity, &refusal);
    sodium_memzero(bytes, sizeof bytes);
    if (status < 0) {
        (void)cf_corr_refusal_error(&refusal, err);
        return cf_error_wrap(err, "identity %.300s", path);
    }
    if (cf_corr_is_test_seed(identity->seed)) {
        (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "identity %.300s holds the published test key, which proves nothing",
                           path);
        return cf_error_fix(err, "make one with: cfrunner correspond keygen --out FILE");
    }
    return 0;
}

/* ---- into what ---------------------------------------------------------------------------------- */

static int
check_key(const struct cf_voice *voice, const struct cf_corr_identity *identity, const char *dir, struct cf_error *err)
{
    const struct cf_corr_key *key =
        cf_corr_keyring_find(cf_journal_keyring(voice->journal), identity->signing_key_id);
    unsigned char public_key[32];

    cf_corr_public_key(identity->seed, public_key);
    if (key != NULL && key->is_active && strcmp(key->identity_id, identity->identity_id) == 0 &&
        memcmp(key->public_key, public_key, sizeof public_key) == 0)
        return 0;
    (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "journal %.300s %s", dir,
                       key == NULL        ? "does not know the identity's signing key"
                       : !key->is_active ? "holds the identity's signing key as inactive"
                                         : "holds another key or owner under the identity's signing_key_id");
    return cf_error_fix(err, "add the line that keygen printed, as a JSON array: cfrunner correspond journal keys DIR "
                             "--add KEYRING");
}

static int
open_journal(struct cf_voice *voice, const struct cf_run_options *options, struct cf_corr_identity *identity,
             struct cf_error *err)
{
    struct cf_corr_refusal refusal;

    if (read_identity(voice, options->identity, identity, err) < 0)
        return -1;
    if (cf_journal_open(options->journal, &voice->journal, err) < 0) {
        (void)cf_error_wrap(err, "journal %.300s", options->journal);
        return err->fix[0] != '\0'
                   ? -1
                   : cf_error_fix(err, "make one with: cfrunner correspond journal init DIR --project UUID --keyring FILE");
    }
    cf_journal_set_lock_wait(voice->journal, CF_VOICE_LOCK_MS);
    if (cf_corr_author_init(&voice->author, identity, cf_journal_project(voice->journal), &refusal) < 0) {
        (void)cf_corr_refusal_error(&refusal, err);
        return cf_error_wrap(err, "identity %.300s", options->identity);
    }
    return check_key(voice, identity, options->journal, err);
}

/* ---- about what --------------------------------------------------------------------------------- */

static int
set_scope(struct cf_voice *voice, const struct cf_run_options *options, struct cf_error *err)
{
    size_t count = json_array_size(options->claim_paths);

    voice->paths = calloc(count, sizeof *voice->paths);
    if (voice->paths == NULL)
        return cf_error_memory(err);
    for (size_t i = 0; i < count; i++)
        voice->paths[i] = json_string_value(json_array_get(options->claim_paths, i));
    voice->author.repository_id = options->repository_id;
    voice->author.thread_id = options->thread_id;
    voice->author.paths = voice->paths;
    voice->author.path_count = count;
    return 0;
}

/* Signs a claim that is thrown away: what is wrong with ids and paths is wrong from the start. */
static int
try_claim(const struct cf_voice *voice, struct cf_error *err)
{
    struct cf_corr_author author = voice->author;
    struct cf_corr_event *event = NULL;
    struct cf_corr_refusal refusal;
    struct cf_corr_claim claim;
    int status;

    cf_corr_claim_init(&claim, &author);
    status = cf_corr_claim_open(&claim, 0, 1000, &event, &refusal);
    cf_corr_event_free(event);
    sodium_memzero(&author, sizeof author);
    if (status == 0)
        return 0;
    (void)cf_corr_refusal_error(&refusal, err);
    (void)cf_error_wrap(err, "claim");
    return cf_error_fix(err, "repository and thread ids have no spaces or controls; paths are relative and normalized, "
                             "each once, e.g. src/server, or . for all");
}

int
cf_voice_prepare(struct cf_run *run, struct cf_error *err)
{
    struct cf_corr_identity identity;
    struct cf_voice *voice;
    int status;

    if (run->options.journal == NULL)
        return 0;
    if (cf_corr_init() < 0)
        return cf_error_set(err, CF_ERROR_INTERNAL, 0, "libsodium cannot be initialized");
    voice = calloc(1, sizeof *voice);
    if (voice == NULL)
        return cf_error_memory(err);
    voice->run = run;
    run->voice = voice;
    voice->overlaps = json_array();
    cf_corr_claim_init(&voice->claim, &voice->author);
    status = open_journal(voice, &run->options, &identity, err);
    sodium_memzero(&identity, sizeof identity);
    if (status < 0 || set_scope(voice, &run->options, err) < 0 || try_claim(voice, err) < 0)
        return -1; /* the run frees it */
    return voice->overlaps == NULL ? cf_error_memory(err) : 0;
}

void
cf_voice_free(struct cf_voice *voice)
{
    if (voice == NULL)
        return;
    cf_journal_close(voice->journal);
    cf_digest_release(&voice->files);
    json_decref(voice->overlaps);
    free(voice->paths);
    sodium_memzero(voice, sizeof *voice);
    free(voice);
}
