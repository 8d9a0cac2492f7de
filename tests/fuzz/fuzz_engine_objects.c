/* Progress streams of pull, push and build, and the attach head, cut where the first byte
 * says. */
#include "engine/head.h"
#include "engine/objects.h"

#include <stdint.h>
#include <stdlib.h>

static int
on_object(void *user, json_t *object)
{
    (void)cf_objects_error(object);
    return 0;
}

static void
feed_head(const char *data, size_t size, size_t piece)
{
    struct cf_head *head = calloc(1, sizeof *head);
    struct cf_error err;

    for (size_t at = 0; at < size && !head->is_whole; at += piece) {
        size_t len = size - at < piece ? size - at : piece;
        long took = cf_head_feed(head, data + at, len, &err);
        if (took < 0)
            break;
        if ((size_t)took > len || ((size_t)took < len && !head->is_whole))
            abort();
    }
    free(head);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cf_objects objects;
    struct cf_error err;
    size_t piece = size > 0 ? (size_t)data[0] + 1 : 1;

    cf_objects_init(&objects);
    for (size_t at = 1; at < size; at += piece)
        if (cf_objects_feed(&objects, (const char *)data + at,
                            size - at < piece ? size - at : piece, on_object, NULL, &err) < 0)
            break;
    cf_objects_release(&objects);
    if (size > 1)
        feed_head((const char *)data + 1, size - 1, piece);
    return 0;
}
