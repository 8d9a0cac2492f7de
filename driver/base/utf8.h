/*
 * base/utf8.h: reading UTF-8 from untrusted bytes, and counting it in UTF-16 units (the unit of
 * every text bound in the observation contract, so that every decoder agrees).
 */
#ifndef CF_BASE_UTF8_H
#define CF_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Reads one code point at bytes[0..len). Returns the bytes it takes (1-4) and writes the code
 * point; returns 0 when len is 0; returns -1 for an invalid sequence (overlong, surrogate,
 * above U+10FFFF, stray byte) and -2 for a sequence that is right so far but cut by len.
 */
int cf_utf8_next(const char *bytes, size_t len, uint32_t *ret_code);

/* Writes `code` as UTF-8; returns 1-4. Surrogates and what is above U+10FFFF become U+FFFD. */
int cf_utf8_put(uint32_t code, char out[4]);

bool cf_utf8_is_valid(const char *bytes, size_t len);

/* UTF-16 units of valid UTF-8 (an invalid byte counts as one). */
size_t cf_utf16_units(const char *bytes, size_t len);

/* The longest prefix of valid UTF-8 with at most `max_units` UTF-16 units, in bytes; never
 * between the halves of a pair. */
size_t cf_utf16_prefix(const char *bytes, size_t len, size_t max_units);

/* Largest n <= max such that bytes[0..n) does not end inside a character. */
size_t cf_utf8_cut(const char *bytes, size_t len, size_t max);

/* Makes a NUL-terminated text one printable line, in place: control characters (C0, DEL, C1,
 * U+2028/9, bidi controls) become spaces, invalid bytes '?', a cut last character goes. */
void cf_utf8_make_line(char *text);

/*
 * Copies `len` bytes to `out` with each invalid sequence replaced by U+FFFD (three bytes);
 * `out` needs 3 * len bytes. Returns the bytes written; *ret_repairs counts replacements.
 */
size_t cf_utf8_repair(const char *bytes, size_t len, char *out, size_t *ret_repairs);

#endif
