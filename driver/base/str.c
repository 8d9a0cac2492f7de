/* Small words about strings. */
#include "base/str.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <string.h>
#include <strings.h>

int
cf_str_copy(char **ret_copy, const char *text, struct cf_error *err)
{
    char *copy = NULL;

    if (text != NULL && (copy = strdup(text)) == NULL)
        return cf_error_memory(err);
    free(*ret_copy);
    *ret_copy = copy;
    return 0;
}

bool
cf_str_starts(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool
cf_str_ends(const char *text, const char *suffix)
{
    size_t n = strlen(text), m = strlen(suffix);

    return n >= m && memcmp(text + n - m, suffix, m) == 0;
}

bool
cf_str_same(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

void
cf_hex(const void *bytes, size_t len, char *out)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *from = bytes;

    for (size_t i = 0; i < len; i++) {
        out[2 * i] = digits[from[i] >> 4];
        out[2 * i + 1] = digits[from[i] & 15];
    }
    out[2 * len] = '\0';
}

bool
cf_is_hex(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f')))
            return false;
    return true;
}

static bool
is_plain(const char *arg)
{
    if (*arg == '\0')
        return false;
    for (; *arg != '\0'; arg++)
        if (!isalnum((unsigned char)*arg) && strchr("-_./:@%+=,", *arg) == NULL)
            return false;
    return true;
}

void
cf_shell_quote(struct cf_buf *to, const char *arg)
{
    if (is_plain(arg)) {
        (void)cf_buf_adds(to, arg); /* `failed` sticks; the caller looks once */
        return;
    }
    (void)cf_buf_adds(to, "'");
    for (; *arg != '\0'; arg++) {
        if (*arg == '\'')
            (void)cf_buf_adds(to, "'\\''");
        else
            (void)cf_buf_add(to, arg, 1);
    }
    (void)cf_buf_adds(to, "'");
}

bool
cf_parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *ret_value)
{
    unsigned long long value;
    char *end;

    if (!isdigit((unsigned char)text[0]))
        return false;
    errno = 0;
    value = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0' || value < min || value > max)
        return false;
    *ret_value = value;
    return true;
}

static bool
parse_scaled(const char *text, double *ret_value, const char **ret_unit)
{
    char *end;

    if (!isdigit((unsigned char)text[0]))
        return false;
    for (const char *p = text; *p != '\0'; p++) /* no hex, no exponent */
        if (*p == 'x' || *p == 'X' || *p == 'e' || *p == 'E')
            return false;
    *ret_value = strtod(text, &end);
    *ret_unit = end;
    return isfinite(*ret_value);
}

bool
cf_parse_bytes(const char *text, uint64_t *ret_bytes)
{
    static const char units[] = "kmgt";
    double value;
    const char *unit, *at;

    if (!parse_scaled(text, &value, &unit))
        return false;
    if (*unit != '\0' && (at = strchr(units, tolower((unsigned char)*unit))) != NULL && *at) {
        for (const char *u = units; u <= at; u++)
            value *= 1024;
        unit++;
        if (strcasecmp(unit, "ib") == 0 || strcasecmp(unit, "b") == 0)
            unit = "";
    } else if (strcasecmp(unit, "b") == 0) {
        unit = "";
    }
    if (*unit != '\0' || value > 9e15)
        return false;
    *ret_bytes = (uint64_t)value;
    return true;
}

bool
cf_parse_duration_ms(const char *text, uint64_t *ret_ms)
{
    static const struct {
        const char *unit;
        double ms;
    } units[] = {{"", 1000}, {"s", 1000}, {"ms", 1}, {"m", 60000}, {"h", 3600000}};
    double value;
    const char *unit;

    if (!parse_scaled(text, &value, &unit))
        return false;
    for (size_t i = 0; i < CF_COUNT(units); i++) {
        if (strcmp(unit, units[i].unit) == 0) {
            value *= units[i].ms;
            if (value > 1e12)
                return false;
            *ret_ms = (uint64_t)value;
            return true;
        }
    }
    return false;
}
