/* base/str.h: small words about strings. */
#ifndef CF_BASE_STR_H
#define CF_BASE_STR_H

#include "base/buf.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define cf_container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))
#define CF_COUNT(array) (sizeof(array) / sizeof((array)[0]))

static inline void
cf_free_cleanup(void *where)
{
    free(*(void **)where);
}
/* A local that frees itself: `cf_auto_free char *name = ...`; hand it over with cf_steal. */
#define cf_auto_free __attribute__((cleanup(cf_free_cleanup)))
#define cf_steal(ptr)                 \
    ({                                \
        __typeof__(ptr) stolen_ = ptr; \
        (ptr) = NULL;                 \
        stolen_;                      \
    })

/* Replaces *ret_copy (freed first) by a copy of `text`; NULL copies to NULL. */
CF_CHECKED int cf_str_copy(char **ret_copy, const char *text, struct cf_error *err);

bool cf_str_starts(const char *text, const char *prefix);
bool cf_str_ends(const char *text, const char *suffix);
bool cf_str_same(const char *a, const char *b); /* NULL equals NULL only */

/* Lower-case hex of `len` bytes into out[2 * len + 1]. */
void cf_hex(const void *bytes, size_t len, char *out);
bool cf_is_hex(const char *text, size_t len); /* lower-case digits only */

/* Appends `arg` quoted for a POSIX shell: bare when nothing in it is special, else in single
 * quotes with each ' as '\''. Never empty ('' for an empty argument). */
void cf_shell_quote(struct cf_buf *to, const char *arg);

/* Whole text as a decimal number in [min, max]; false when it is anything else. */
bool cf_parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *ret_value);

/* "512", "64k", "2g", "1.5GiB": bytes, powers of 1024. */
bool cf_parse_bytes(const char *text, uint64_t *ret_bytes);

/* "30", "30s", "1500ms", "5m", "2h": milliseconds; a bare number is seconds. */
bool cf_parse_duration_ms(const char *text, uint64_t *ret_ms);

#endif
