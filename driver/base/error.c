/*
 * The error object: fixed text on the caller's stack. Everything that is formatted into it may
 * quote hostile bytes, so what goes in is made printable here, once, for the whole house.
 */
#include "base/error.h"
#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *type;
    enum cf_blame blame;
} kinds[CF_ERROR_KIND_COUNT] = {
    [CF_ERROR_NONE] = {"", CF_BLAME_NONE},
    [CF_ERROR_INTERNAL] = {"runtime.internal", CF_BLAME_RUNNER},
    [CF_ERROR_MEMORY] = {"runtime.internal", CF_BLAME_RUNNER},
    [CF_ERROR_CONFIG] = {"validation.malformed", CF_BLAME_AUTHOR},
    [CF_ERROR_TOO_LARGE] = {"validation.payload_too_large", CF_BLAME_AUTHOR},
    [CF_ERROR_ENGINE] = {"runtime.runner_unavailable", CF_BLAME_ENGINE},
    [CF_ERROR_ENGINE_TIMEOUT] = {"runtime.runner_unavailable", CF_BLAME_ENGINE},
    [CF_ERROR_NOT_FOUND] = {"runtime.runner_unavailable", CF_BLAME_ENGINE},
    [CF_ERROR_START] = {"runtime.harness_unavailable", CF_BLAME_HARNESS},
    [CF_ERROR_START_TIMEOUT] = {"runtime.start_timeout", CF_BLAME_HARNESS},
    [CF_ERROR_HARNESS] = {"runtime.harness_failed", CF_BLAME_HARNESS},
    [CF_ERROR_GRAMMAR] = {"runtime.harness_failed", CF_BLAME_HARNESS},
    [CF_ERROR_INCOMPATIBLE] = {"runtime.harness_incompatible", CF_BLAME_HARNESS},
    [CF_ERROR_TURN_DEADLINE] = {"runtime.turn_deadline_exceeded", CF_BLAME_HARNESS},
    [CF_ERROR_BUDGET] = {"budget.exceeded", CF_BLAME_HARNESS},
    [CF_ERROR_POLICY] = {"policy.denied", CF_BLAME_HARNESS},
    [CF_ERROR_CREDENTIAL] = {"model.credential_rejected", CF_BLAME_UPSTREAM},
    [CF_ERROR_LEASE] = {"runtime.lease_lost", CF_BLAME_RUNNER},
    [CF_ERROR_DEADLINE] = {"runtime.turn_deadline_exceeded", CF_BLAME_HARNESS},
    [CF_ERROR_CANCELED] = {"runtime.invalid_transition", CF_BLAME_NONE},
    [CF_ERROR_WIRE] = {"runtime.harness_failed", CF_BLAME_HARNESS},
    [CF_ERROR_IMAGE] = {"runtime.harness_unavailable", CF_BLAME_HARNESS},
    [CF_ERROR_TEARDOWN] = {"runtime.runner_unavailable", CF_BLAME_RUNNER},
};

const char *
cf_error_type(enum cf_error_kind kind)
{
    if ((int)kind < 0 || kind >= CF_ERROR_KIND_COUNT)
        return "runtime.internal";
    return kinds[kind].type;
}

enum cf_blame
cf_error_blame(enum cf_error_kind kind)
{
    if ((int)kind < 0 || kind >= CF_ERROR_KIND_COUNT)
        return CF_BLAME_RUNNER;
    return kinds[kind].blame;
}

const char *
cf_blame_name(enum cf_blame blame)
{
    static const char *const names[] = {"none", "harness", "runner", "engine", "upstream", "author"};

    return (unsigned)blame < sizeof names / sizeof names[0] ? names[blame] : "runner";
}

static void
keep_printable(char *text, size_t size, const char *raw)
{
    size_t len = strnlen(raw, size - 1);

    memmove(text, raw, len);
    text[len] = '\0';
    cf_utf8_make_line(text);
}

int
cf_error_set(struct cf_error *err, enum cf_error_kind kind, int code, const char *fmt, ...)
{
    char raw[sizeof err->text];
    va_list args;

    if (err == NULL)
        return -1;
    va_start(args, fmt);
    (void)vsnprintf(raw, sizeof raw, fmt, args); /* cut to fit is what is wanted */
    va_end(args);
    err->kind = kind;
    err->code = code;
    err->fix[0] = '\0';
    keep_printable(err->text, sizeof err->text, raw);
    return -1;
}

int
cf_error_wrap(struct cf_error *err, const char *fmt, ...)
{
    char raw[sizeof err->text * 2];
    va_list args;
    int used;

    if (err == NULL)
        return -1;
    va_start(args, fmt);
    used = vsnprintf(raw, sizeof err->text, fmt, args);
    va_end(args);
    if (used < 0)
        return -1;
    if ((size_t)used >= sizeof err->text)
        used = sizeof err->text - 1;
    (void)snprintf(raw + used, sizeof raw - (size_t)used, ": %s", err->text);
    keep_printable(err->text, sizeof err->text, raw);
    return -1;
}

int
cf_error_fix(struct cf_error *err, const char *fmt, ...)
{
    char raw[sizeof err->fix];
    va_list args;

    if (err == NULL)
        return -1;
    va_start(args, fmt);
    (void)vsnprintf(raw, sizeof raw, fmt, args);
    va_end(args);
    keep_printable(err->fix, sizeof err->fix, raw);
    return -1;
}

int
cf_error_memory(struct cf_error *err)
{
    return cf_error_set(err, CF_ERROR_MEMORY, 0, "out of memory");
}
