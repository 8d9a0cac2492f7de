/*
 * diagnose/mask.h: what must not be in a file that is sent to a colleague: values of variables and
 * headers that the options give, and tokens of a relay, by their shape. '*' stands for each byte.
 */
#ifndef CF_DIAGNOSE_MASK_H
#define CF_DIAGNOSE_MASK_H

#include <jansson.h>
#include <stddef.h>

struct cf_mask; /* NULL knows of tokens only */

/* From an options document (borrowed): env, and the headers and env of mcp. NULL: out of memory. */
struct cf_mask *cf_mask_new(const json_t *options);
void cf_mask_free(struct cf_mask *mask);

/* In place. Values shorter than 8 bytes are left alone: they would strike words that are none. A
 * value is also found as it reads inside a JSON string. */
void cf_mask_bytes(const struct cf_mask *mask, char *bytes, size_t len);
/* A deep copy with each string masked; new reference, NULL out of memory. */
json_t *cf_mask_value(const struct cf_mask *mask, const json_t *value);

#endif
