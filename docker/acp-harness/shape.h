/* acp-harness/shape.h: does a JSON value have the shape that an output schema asks for? */
#ifndef HN_SHAPE_H
#define HN_SHAPE_H

#include "base/error.h"

#include <jansson.h>

/*
 * Judges type, enum, const, properties, required, additionalProperties, items, min/maxItems,
 * min/maxLength, minimum, maximum. Other keywords are the runner's to judge: it validates again
 * with all of them. -1: err->text names the pointer and the keyword.
 */
int hn_shape_check(json_t *schema, json_t *value, struct cf_error *err);

#endif
