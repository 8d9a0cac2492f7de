/*
 * json/plain.h: how far a run of bytes goes that means itself inside a JSON string. Eight bytes at
 * a time: this is most of what there is to read and to write.
 */
#ifndef CF_JSON_PLAIN_H
#define CF_JSON_PLAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define CF_EACH_BYTE(value) (UINT64_C(0x0101010101010101) * (value))

/* True bits stand in the lowest byte that is below `value` (at most 0x80), and in none before it. */
static inline uint64_t
cf_bytes_below(uint64_t word, unsigned value)
{
    return (word - CF_EACH_BYTE(value)) & ~word;
}

static inline bool
cf_is_plain(unsigned char ch, bool ascii_only)
{
    return ch >= 0x20 && ch != '"' && ch != '\\' && (ch < 0x80 || !ascii_only);
}

/* The bytes before the first control character, quote or backslash; ascii_only: or byte of 0x80
 * and above. */
static inline size_t
cf_plain_prefix(const char *bytes, size_t len, bool ascii_only)
{
    size_t at = 0;

    for (; len - at >= 8; at += 8) {
        uint64_t word, stop;
        memcpy(&word, bytes + at, 8);
        stop = cf_bytes_below(word, 0x20) | cf_bytes_below(word ^ CF_EACH_BYTE('"'), 1) |
               cf_bytes_below(word ^ CF_EACH_BYTE('\\'), 1) | (ascii_only ? word : 0);
        stop &= CF_EACH_BYTE(0x80);
        if (stop == 0)
            continue;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        return at + (size_t)__builtin_ctzll(stop) / 8;
#else
        break;
#endif
    }
    while (at < len && cf_is_plain((unsigned char)bytes[at], ascii_only))
        at++;
    return at;
}

#endif
