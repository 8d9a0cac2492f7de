/* json/build.h: the tree of a text that the scanner has found good. This room's own. */
#ifndef CF_JSON_BUILD_H
#define CF_JSON_BUILD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * The same tree that json_loadb makes of it with JSON_DECODE_ANY | JSON_ALLOW_NUL, in a third
 * of the time: the grammar, UTF-8 and surrogates are known to be right, so that strings are
 * copied and not read letter by letter. NULL where jansson may have something to say (a number
 * that does not fit, a name given twice with `no_duplicates`, no memory): let it read the text
 * and say it. `bytes` must have passed cf_json_scan.
 */
json_t *cf_json_build(const char *bytes, size_t len, bool no_duplicates);

#endif
