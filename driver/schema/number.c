/* schema/number.c: comparing numbers that may be int64 or double without losing digits. */
#include "schema/compiled.h"

#include <math.h>

static int
order_whole_real(int64_t whole, double real)
{
    if (real >= 0x1p63)
        return -1;
    if (real < -0x1p63)
        return 1;
    /* In range, the integer part of a double converts exactly. */
    int64_t floor_real = (int64_t)floor(real);
    if (whole != floor_real)
        return whole < floor_real ? -1 : 1;
    return real > floor(real) ? -1 : 0;
}

int
cf_number_order(const json_t *a, const json_t *b)
{
    if (json_is_integer(a) && json_is_integer(b)) {
        json_int_t x = json_integer_value(a), y = json_integer_value(b);
        return x < y ? -1 : x > y;
    }
    if (json_is_integer(a))
        return order_whole_real(json_integer_value(a), json_real_value(b));
    if (json_is_integer(b))
        return -order_whole_real(json_integer_value(b), json_real_value(a));
    double x = json_real_value(a), y = json_real_value(b);
    return x < y ? -1 : x > y;
}

bool
cf_number_is_integer(const json_t *number)
{
    if (json_is_integer(number))
        return true;
    return json_is_real(number) && json_real_value(number) == floor(json_real_value(number));
}

/* True and *ret_whole when the number is an integer that int64 can hold. */
static bool
as_whole(const json_t *number, int64_t *ret_whole)
{
    double real;

    if (json_is_integer(number)) {
        *ret_whole = json_integer_value(number);
        return true;
    }
    real = json_real_value(number);
    if (!(real >= -0x1p63 && real < 0x1p63) || real != floor(real))
        return false;
    *ret_whole = (int64_t)real;
    return true;
}

bool
cf_number_is_multiple(const json_t *number, const json_t *of)
{
    int64_t whole, step;

    if (as_whole(number, &whole) && as_whole(of, &step) && step > 0)
        return whole % step == 0;
    double quotient = json_number_value(number) / json_number_value(of);
    return isfinite(quotient) && quotient == floor(quotient);
}
