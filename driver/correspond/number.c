/* Numbers, judged by their spelling alone, so that no number parser has a say in it. */
#include "correspond/value.h"

#define SAFE_INTEGER_MAX 9007199254740991

static size_t
count_digits(const char *s, size_t len)
{
    size_t n = 0;

    while (n < len && s[n] >= '0' && s[n] <= '9')
        n++;
    return n;
}

const char *
cf_judge_number(const char *s, size_t len, int64_t *ret_integer)
{
    bool is_negative = len > 0 && s[0] == '-', has_fraction = false, has_exponent = false;
    size_t at = is_negative, digits = count_digits(s + at, len - at), first = at;
    int64_t magnitude = 0;

    if (digits == 0 || (digits > 1 && s[at] == '0'))
        return "invalid_json_number";
    at += digits;
    if (at < len && s[at] == '.') {
        size_t n = count_digits(s + at + 1, len - at - 1);
        if (n == 0)
            return "invalid_json_number";
        has_fraction = true;
        at += 1 + n;
    }
    if (at < len && (s[at] == 'e' || s[at] == 'E')) {
        size_t sign = at + 1 < len && (s[at + 1] == '+' || s[at + 1] == '-');
        size_t n = count_digits(s + at + 1 + sign, len - at - 1 - sign);
        if (n == 0)
            return "invalid_json_number";
        has_exponent = true;
        at += 1 + sign + n;
    }
    if (at != len)
        return "invalid_json_number";
    if (has_fraction)
        return "fractional_number";
    if (has_exponent)
        return "exponent_not_admitted";
    if (is_negative && s[first] == '0')
        return "negative_zero";
    if (digits > 16)
        return "unsafe_integer";
    for (size_t i = 0; i < digits; i++)
        magnitude = magnitude * 10 + (s[first + i] - '0');
    if (magnitude > SAFE_INTEGER_MAX)
        return "unsafe_integer";
    *ret_integer = is_negative ? -magnitude : magnitude;
    return NULL;
}
