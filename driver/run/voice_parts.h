/*
 * run/voice_parts.h: what a run's voice (voice.h) is made of and needs no loop: how often it may
 * speak, and digests of what was collected. Private to this room.
 */
#ifndef CF_RUN_VOICE_PARTS_H
#define CF_RUN_VOICE_PARTS_H

#include <sodium.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- a bounded rate: so many at once, then one a period -------------------------------------- */

#define CF_RATE_BURST 12u
#define CF_RATE_PERIOD_MS 10000u

struct cf_rate {
    unsigned used;       /* of the burst */
    uint64_t counted_ms; /* what was earned up to then is taken off `used` */
};

/* Whether one more may be said at `now_ms` (a monotonic time); counts it if so. */
bool cf_rate_take(struct cf_rate *rate, uint64_t now_ms);
/* When the next one may be, not before `now_ms`. */
uint64_t cf_rate_next_ms(struct cf_rate *rate, uint64_t now_ms);

/* ---- digests of files, one after the other ---------------------------------------------------- */

struct cf_digest_file {
    char *path; /* exact bytes, relative */
    uint64_t bytes;
    unsigned char sha256[32];
};

struct cf_digest_list {
    struct cf_digest_file *files;
    size_t count, cap;
    bool is_open, has_no_memory;
    uint64_t bytes; /* of the open file */
    crypto_hash_sha256_state state;
};

/* A file begins (an unfinished one before it is forgotten), goes on, and is kept under `path`
 * (copied). Without a beginning the other two do nothing. */
void cf_digest_begin(struct cf_digest_list *list);
void cf_digest_bytes(struct cf_digest_list *list, const void *bytes, size_t len);
void cf_digest_keep(struct cf_digest_list *list, const char *path);
void cf_digest_release(struct cf_digest_list *list);

/*
 * Puts the files in the order of their paths' bytes and gives the digest of the list itself: of
 * what `sha256sum -z` prints for them in that order, "<64 hex>  <path>" and a NUL for each.
 */
void cf_digest_seal(struct cf_digest_list *list, unsigned char ret_sha256[32]);

#endif
