/* The parts of a run's voice that need neither loop nor journal. */
#include "run/voice_parts.h"

#include "base/str.h"

#include <stdlib.h>
#include <string.h>

/* ---- rate ------------------------------------------------------------------------------------- */

static void
earn(struct cf_rate *rate, uint64_t now_ms)
{
    uint64_t periods = now_ms > rate->counted_ms ? (now_ms - rate->counted_ms) / CF_RATE_PERIOD_MS : 0;

    if (rate->used == 0 || periods >= rate->used) {
        rate->used = 0;
        rate->counted_ms = now_ms;
    } else {
        rate->used -= (unsigned)periods;
        rate->counted_ms += periods * CF_RATE_PERIOD_MS;
    }
}

bool
cf_rate_take(struct cf_rate *rate, uint64_t now_ms)
{
    earn(rate, now_ms);
    if (rate->used >= CF_RATE_BURST)
        return false;
    rate->used++;
    return true;
}

uint64_t
cf_rate_next_ms(struct cf_rate *rate, uint64_t now_ms)
{
    earn(rate, now_ms);
    return rate->used < CF_RATE_BURST ? now_ms : rate->counted_ms + CF_RATE_PERIOD_MS;
}

/* ---- digests ----------------------------------------------------------------------------------- */

void
cf_digest_begin(struct cf_digest_list *list)
{
    (void)crypto_hash_sha256_init(&list->state); /* cannot fail */
    list->bytes = 0;
    list->is_open = true;
}

void
cf_digest_bytes(struct cf_digest_list *list, const void *bytes, size_t len)
{
    if (!list->is_open)
        return;
    (void)crypto_hash_sha256_update(&list->state, bytes, len); /* cannot fail */
    list->bytes += len;
}

void
cf_digest_keep(struct cf_digest_list *list, const char *path)
{
    struct cf_digest_file *file;

    if (!list->is_open)
        return;
    list->is_open = false;
    if (list->count == list->cap) {
        size_t cap = list->cap == 0 ? 64 : 2 * list->cap;
        struct cf_digest_file *grown = realloc(list->files, cap * sizeof *grown);
        if (grown == NULL) {
            list->has_no_memory = true;
            return;
        }
        list->files = grown;
        list->cap = cap;
    }
    file = &list->files[list->count];
    file->path = strdup(path);
    file->bytes = list->bytes;
    (void)crypto_hash_sha256_final(&list->state, file->sha256); /* cannot fail */
    list->has_no_memory |= file->path == NULL;
    list->count += file->path != NULL;
}

static int
by_path(const void *a, const void *b)
{
    return strcmp(((const struct cf_digest_file *)a)->path, ((const struct cf_digest_file *)b)->path);
}

void
cf_digest_seal(struct cf_digest_list *list, unsigned char ret_sha256[32])
{
    crypto_hash_sha256_state state;
    char hex[65];

    if (list->count > 0)
        qsort(list->files, list->count, sizeof *list->files, by_path);
    (void)crypto_hash_sha256_init(&state);
    for (size_t i = 0; i < list->count; i++) {
        const struct cf_digest_file *file = &list->files[i];
        cf_hex(file->sha256, sizeof file->sha256, hex);
        (void)crypto_hash_sha256_update(&state, (const unsigned char *)hex, 64);
        (void)crypto_hash_sha256_update(&state, (const unsigned char *)"  ", 2);
        (void)crypto_hash_sha256_update(&state, (const unsigned char *)file->path, strlen(file->path) + 1);
    }
    (void)crypto_hash_sha256_final(&state, ret_sha256);
}

void
cf_digest_release(struct cf_digest_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->files[i].path);
    free(list->files);
    memset(list, 0, sizeof *list);
}
