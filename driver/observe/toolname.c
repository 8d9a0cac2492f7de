/*
 * observe/toolname.c: the naming rule for tools.
 *
 *   1. The name is, in this order: the call's `name`; else the tool name in the vendor's _meta
 *      (claudeCode.toolName, toolName, tool_name); else the call's kind; else "other".
 *   2. Each run of white space and control characters in it becomes one "_"; such runs at its
 *      beginning and end go. Nothing left: "other".
 *   3. At most 256 UTF-16 units are kept.
 *   4. "harness:" goes in front.
 *
 * The name a call has when its tool_use is told stays; a title is never used, it changes with
 * every call and goes into provider_tool_name.
 */
#include "observe/normalizer.h"

#include "base/str.h"
#include "base/utf8.h"
#include "json/json.h"

#include <string.h>

#define NAME_UNITS 256u

/* ECMAScript's \s, which the contract's pattern \S excludes, and control characters. */
static bool
is_space(uint32_t code)
{
    return code <= 0x20 || (code >= 0x7f && code <= 0xa0) || code == 0x1680 ||
           (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 ||
           code == 0x202f || code == 0x205f || code == 0x3000 || code == 0xfeff;
}

bool
tool_has_space(const char *text, size_t len)
{
    uint32_t code;

    while (len > 0) {
        int n = cf_utf8_next(text, len, &code);
        if (n <= 0 || is_space(code))
            return true;
        text += n;
        len -= (size_t)n;
    }
    return false;
}

/* Rule 2 and 3; writes at most 4 bytes for each of 256 units. Returns the bytes written. */
static size_t
clean(const char *name, char *out)
{
    size_t len = strlen(name), written = 0, units = 0;
    bool has_gap = false;
    uint32_t code;

    while (len > 0 && units < NAME_UNITS) {
        int n = cf_utf8_next(name, len, &code);
        if (n <= 0 || is_space(code)) {
            has_gap = written > 0;
            n = n <= 0 ? 1 : n;
        } else {
            size_t wide = code >= 0x10000 ? 2 : 1;
            if (units + wide + has_gap > NAME_UNITS)
                break;
            if (has_gap)
                out[written++] = '_';
            units += wide + has_gap;
            has_gap = false;
            memcpy(out + written, name, (size_t)n);
            written += (size_t)n;
        }
        name += n;
        len -= (size_t)n;
    }
    out[written] = '\0';
    return written;
}

void
tool_name(const char *name, const char *vendor_name, const char *kind,
          char out[TOOL_NAME_SIZE])
{
    const char *const candidates[] = {name, vendor_name, kind, "other"};

    memcpy(out, "harness:", 8);
    for (size_t i = 0; i < CF_COUNT(candidates); i++)
        if (candidates[i] != NULL && clean(candidates[i], out + 8) > 0)
            return;
}

const char *
tool_vendor_name(json_t *meta)
{
    static const char *const places[][2] = {
        {"claudeCode", "toolName"}, {NULL, "toolName"}, {NULL, "tool_name"}};

    for (size_t i = 0; i < CF_COUNT(places); i++) {
        json_t *at = places[i][0] == NULL ? meta : cf_json_obj(meta, places[i][0]);
        const char *found = cf_json_str(at, places[i][1]);
        if (found != NULL && *found != '\0')
            return found;
    }
    return NULL;
}
