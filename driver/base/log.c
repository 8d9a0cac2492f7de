#include "base/log.h"
#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>

void
cf_log(const struct cf_log *log, enum cf_log_level level, const char *room, const char *fmt, ...)
{
    char line[1000];
    va_list args;

    if (log == NULL || log->fn == NULL || level > log->most)
        return;
    va_start(args, fmt);
    (void)vsnprintf(line, sizeof line, fmt, args); /* cut is wanted */
    va_end(args);
    cf_utf8_make_line(line);
    log->fn(log->user, level, room, line);
}
