/* base/error.h: filling and wrapping the one error object of cfrunner/error.h. */
#ifndef CF_BASE_ERROR_H
#define CF_BASE_ERROR_H

#include <cfrunner/error.h>

/* Fills `err` (may be NULL: then nothing is kept) and returns -1, so that
 * `return cf_error_set(...)` reads as one thought. Control characters in the formatted text
 * become spaces, invalid UTF-8 becomes '?', and the text is cut at a character to fit. */
int cf_error_set(struct cf_error *err, enum cf_error_kind kind, int code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Puts "<fmt>: " in front of err->text. Returns -1. */
int cf_error_wrap(struct cf_error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Sets the one-line remedy. Returns -1. */
int cf_error_fix(struct cf_error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Out of memory, said without allocating. Returns -1. */
int cf_error_memory(struct cf_error *err);

#endif
