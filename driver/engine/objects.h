/*
 * engine/objects.h: a stream of JSON objects, one behind the other, cut anywhere: progress of
 * pull, push and build, and events. This room's own header; pure.
 */
#ifndef CF_ENGINE_OBJECTS_H
#define CF_ENGINE_OBJECTS_H

#include "base/buf.h"
#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define CF_OBJECT_LIMIT_BYTES (1024u * 1024)

struct cf_objects {
    struct cf_buf text; /* the object being collected */
    unsigned depth;
    bool in_string, escaped;
};

void cf_objects_init(struct cf_objects *objects);
void cf_objects_release(struct cf_objects *objects);

/* Calls `on_object` for each whole object (borrowed until it returns; <0 from it ends the feed
 * with that number). White space and the record separator 0x1e between objects are skipped.
 * -1 with `err` for anything else between them, for one over 1 MiB, or one that is not JSON.
 */
int cf_objects_feed(struct cf_objects *objects, const char *bytes, size_t len,
                    int (*on_object)(void *user, json_t *object), void *user,
                    struct cf_error *err);
/* True when the stream may end here: no object is half read. */
bool cf_objects_is_between(const struct cf_objects *objects);

/* The error inside a progress object: errorDetail.message, else error; NULL when there is
 * none. Borrowed from `object`. */
const char *cf_objects_error(const json_t *object);

#endif
