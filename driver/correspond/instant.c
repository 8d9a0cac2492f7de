/* Timestamps: one spelling, fixed width, UTC, milliseconds; no leap-second form. */
#include "correspond/correspond.h"

#include <stdio.h>
#include <string.h>

#define MS_PER_DAY 86400000
#define YEAR_1_MS (-62135596800000)    /* 0001-01-01T00:00:00.000Z */
#define YEAR_9999_MS (253402300799999) /* 9999-12-31T23:59:59.999Z */

static bool
is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* "dddd-dd-ddTdd:dd:dd" */
static bool
has_date_and_time(const char *text, size_t len)
{
    static const char shape[] = "dddd-dd-ddTdd:dd:dd";

    if (len < sizeof shape - 1)
        return false;
    for (size_t i = 0; i < sizeof shape - 1; i++) {
        if (shape[i] == 'd' ? !is_digit(text[i]) : text[i] != shape[i])
            return false;
    }
    return true;
}

static const char *
check_shape(const char *text, size_t len)
{
    size_t at = 19, digits = 0;

    if (!has_date_and_time(text, len))
        return "timestamp_malformed";
    if (at < len && text[at] == '.') {
        at++;
        while (at < len && is_digit(text[at])) {
            at++;
            digits++;
        }
        if (digits == 0)
            return "timestamp_malformed";
    }
    if (at + 1 != len || text[at] != 'Z')
        return "timestamp_malformed";
    return digits == 3 ? NULL : "timestamp_requires_milliseconds";
}

static int
number_at(const char *text, size_t at, size_t digits)
{
    int n = 0;

    for (size_t i = 0; i < digits; i++)
        n = n * 10 + (text[at + i] - '0');
    return n;
}

static bool
is_leap_year(int year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int
days_in_month(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

    return days[month - 1] + (month == 2 && is_leap_year(year));
}

/* Days since 1970-01-01 in the proleptic Gregorian calendar. */
static int64_t
days_from_civil(int year, int month, int day)
{
    int64_t y = year - 1, days = y * 365 + y / 4 - y / 100 + y / 400;

    for (int m = 1; m < month; m++)
        days += days_in_month(year, m);
    return days + day - 1 - 719162; /* days from 0001-01-01 to 1970-01-01 */
}

const char *
cf_corr_time_parse(const char *text, size_t len, int64_t *ret_ms)
{
    const char *reason = check_shape(text, len);
    int year, month, day, hour, minute, second;

    if (reason != NULL)
        return reason;
    year = number_at(text, 0, 4);
    month = number_at(text, 5, 2);
    day = number_at(text, 8, 2);
    hour = number_at(text, 11, 2);
    minute = number_at(text, 14, 2);
    second = number_at(text, 17, 2);
    if (year == 0)
        return "timestamp_year_zero_not_admitted";
    if (month < 1 || month > 12 || day < 1 || day > days_in_month(year, month) || hour > 23 ||
        minute > 59 || second > 59)
        return "timestamp_not_real_instant";
    *ret_ms = days_from_civil(year, month, day) * MS_PER_DAY + hour * 3600000LL +
              minute * 60000LL + second * 1000LL + number_at(text, 20, 3);
    return NULL;
}

void
cf_corr_time_format(int64_t ms, char out[CF_CORR_TIME_SIZE])
{
    int64_t days, rest;
    int year, month = 1;

    if (ms < YEAR_1_MS)
        ms = YEAR_1_MS;
    if (ms > YEAR_9999_MS)
        ms = YEAR_9999_MS;
    days = (ms - YEAR_1_MS) / MS_PER_DAY;
    rest = (ms - YEAR_1_MS) % MS_PER_DAY;
    year = (int)(days * 400 / 146097) + 1; /* right, or off by one either way */
    while (days_from_civil(year + 1, 1, 1) + 719162 <= days)
        year++;
    while (days_from_civil(year, 1, 1) + 719162 > days)
        year--;
    days -= days_from_civil(year, 1, 1) + 719162;
    while (days >= days_in_month(year, month))
        days -= days_in_month(year, month++);
    (void)snprintf(
        out, CF_CORR_TIME_SIZE, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ", (unsigned)year % 10000u,
        (unsigned)month % 100u, ((unsigned)days + 1) % 100u, (unsigned)(rest / 3600000) % 100u,
        (unsigned)(rest / 60000 % 60), (unsigned)(rest / 1000 % 60), (unsigned)(rest % 1000));
}
