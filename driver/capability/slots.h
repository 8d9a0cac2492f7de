/* capability/slots.h: the row of a slot. */
#ifndef CF_CAPABILITY_SLOTS_H
#define CF_CAPABILITY_SLOTS_H

#include "capability/capability.h"

struct cf_slot_row {
    const char *names[3]; /* the first one is written, all are read */
    const char *carrier, *direction;
    bool is_authority;
    /* The decoder: a table of members, or a function where a table does not suffice. */
    const struct cf_closed *members;
    int (*check)(const struct cf_slot_row *row, json_t *value, struct cf_error *err);
    const char *needs; /* member of checkfu.capabilities that a request of ours needs */
};
extern const struct cf_slot_row cf_slot_rows[CF_SLOT_COUNT];

#endif
