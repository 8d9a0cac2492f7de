/* UTF-8 from untrusted bytes. One decoder, everything else stands on it. */
#include "base/utf8.h"

#include <string.h>

int
cf_utf8_next(const char *bytes, size_t len, uint32_t *ret_code)
{
    const unsigned char *s = (const unsigned char *)bytes;
    uint32_t code, least;
    int size;

    if (len == 0)
        return 0;
    if (s[0] < 0x80) {
        *ret_code = s[0];
        return 1;
    }
    if (s[0] < 0xc2 || s[0] > 0xf4)
        return -1;
    size = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    code = s[0] & (0xffu >> (size + 1));
    least = size == 2 ? 0x80 : size == 3 ? 0x800 : 0x10000;
    for (int i = 1; i < size; i++) {
        if ((size_t)i >= len)
            return -2;
        if ((s[i] & 0xc0) != 0x80)
            return -1;
        code = code << 6 | (s[i] & 0x3f);
        if (i == 1 && size > 2) { /* overlong, surrogate or too high shows in the second byte */
            uint32_t low = code << (6 * (size - 2));
            uint32_t high = low | ((1u << (6 * (size - 2))) - 1);
            if (high < least || (low >= 0xd800 && high <= 0xdfff) || low > 0x10ffff)
                return -1;
        }
    }
    *ret_code = code;
    return size;
}

int
cf_utf8_put(uint32_t code, char out[4])
{
    if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
        code = 0xfffd;
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xe0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3f));
        out[2] = (char)(0x80 | (code & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3f));
    out[2] = (char)(0x80 | (code >> 6 & 0x3f));
    out[3] = (char)(0x80 | (code & 0x3f));
    return 4;
}

bool
cf_utf8_is_valid(const char *bytes, size_t len)
{
    uint32_t code;

    while (len > 0) {
        int n = cf_utf8_next(bytes, len, &code);
        if (n < 0)
            return false;
        bytes += n;
        len -= (size_t)n;
    }
    return true;
}

/* How many bytes of ASCII there are at the beginning, looked at eight at a time. */
static size_t
ascii_prefix(const char *bytes, size_t len)
{
    size_t at = 0;
    uint64_t eight;

    for (; len - at >= sizeof eight; at += sizeof eight) {
        memcpy(&eight, bytes + at, sizeof eight);
        if ((eight & 0x8080808080808080u) != 0)
            break;
    }
    while (at < len && (unsigned char)bytes[at] < 0x80)
        at++;
    return at;
}

size_t
cf_utf16_units(const char *bytes, size_t len)
{
    size_t units = 0;
    uint32_t code;

    while (len > 0) {
        size_t plain = ascii_prefix(bytes, len);
        units += plain;
        bytes += plain;
        len -= plain;
        if (len == 0)
            break;
        int n = cf_utf8_next(bytes, len, &code);
        if (n < 0) {
            n = 1;
            code = 0xfffd;
        }
        units += code >= 0x10000 ? 2 : 1;
        bytes += n;
        len -= (size_t)n;
    }
    return units;
}

size_t
cf_utf16_prefix(const char *bytes, size_t len, size_t max_units)
{
    size_t at = 0, units = 0;
    uint32_t code;

    while (at < len) {
        size_t room = max_units - units;
        size_t plain = ascii_prefix(bytes + at, len - at < room ? len - at : room);
        at += plain;
        units += plain;
        if (at == len || units == max_units)
            break;
        int n = cf_utf8_next(bytes + at, len - at, &code);
        size_t wide;
        if (n < 0) {
            n = 1;
            code = 0xfffd;
        }
        wide = code >= 0x10000 ? 2 : 1;
        if (units + wide > max_units)
            break;
        units += wide;
        at += (size_t)n;
    }
    return at;
}

size_t
cf_utf8_cut(const char *bytes, size_t len, size_t max)
{
    size_t n = len < max ? len : max;

    if (n == len)
        return n;
    while (n > 0 && ((unsigned char)bytes[n] & 0xc0) == 0x80)
        n--;
    return n;
}

static bool
is_unprintable(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x2028 || code == 0x2029 ||
           (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) ||
           code == 0x200e || code == 0x200f || code == 0x061c || code == 0xfeff;
}

void
cf_utf8_make_line(char *text)
{
    char *from = text, *to = text;
    size_t len = strlen(text);
    uint32_t code;

    while (len > 0) {
        int n = cf_utf8_next(from, len, &code);
        if (n == -2)
            break;
        if (n < 0) {
            *to++ = '?';
            n = 1;
        } else if (is_unprintable(code)) {
            *to++ = ' ';
        } else {
            memmove(to, from, (size_t)n);
            to += n;
        }
        from += n;
        len -= (size_t)n;
    }
    *to = '\0';
}

size_t
cf_utf8_repair(const char *bytes, size_t len, char *out, size_t *ret_repairs)
{
    size_t written = 0;
    uint32_t code;

    *ret_repairs = 0;
    while (len > 0) {
        int n = cf_utf8_next(bytes, len, &code);
        if (n > 0) {
            memcpy(out + written, bytes, (size_t)n);
            written += (size_t)n;
        } else {
            written += (size_t)cf_utf8_put(0xfffd, out + written);
            ++*ret_repairs;
            n = 1;
            /* a broken sequence is one replacement, not one a byte */
            while ((size_t)n < len && n < 3 && ((unsigned char)bytes[n] & 0xc0) == 0x80)
                n++;
        }
        bytes += n;
        len -= (size_t)n;
    }
    return written;
}
