/* capability/tables.h: the tables of the contract page, shared by the files of this room. */
#ifndef CF_CAPABILITY_TABLES_H
#define CF_CAPABILITY_TABLES_H

#include "capability/capability.h"

#define CF_DIALECT_COUNT 4
#define CF_PROVIDER_COUNT 6
#define CF_AXIS_COUNT 10
#define CF_HARNESS_COUNT 9
#define CF_PROMOTION_COUNT 3

struct cf_dialect_row {
    enum cf_dialect dialect;
    const char *name, *path;
};
extern const struct cf_dialect_row cf_dialect_rows[CF_DIALECT_COUNT];

struct cf_provider_row {
    const char *provider;
    unsigned dialects;
};
extern const struct cf_provider_row cf_provider_rows[CF_PROVIDER_COUNT];

/* An axis of a capability set and its values, low to high. The shared environment is a boolean
 * (false, true); the last axis may be absent, which is its lowest value. */
struct cf_axis_row {
    const char *name;
    const char *values[5];
};
extern const struct cf_axis_row cf_axis_rows[CF_AXIS_COUNT];
#define CF_AXIS_INTERRUPT 4
#define CF_AXIS_MID_RUN_INPUT 5
#define CF_AXIS_SHARED 8
#define CF_AXIS_SUBAGENTS 9

/* Position of `value` on an axis, or -1; NULL is the absent value of subagents. */
int cf_axis_level(int axis, const char *value);

/* The three axes a declaration may raise, and what emission each one unlocks. */
struct cf_promotion_row {
    const char *member, *value; /* of checkfu.capabilities */
    int axis;
    const char *from, *to; /* from NULL: absent */
    const char *gated[3];
    bool (*is_declared)(const struct cf_declaration *declaration);
};
extern const struct cf_promotion_row cf_promotion_rows[CF_PROMOTION_COUNT];

/* The server's envelope by driver and retention; values in the order of the axes, subagents
 * never among them. */
struct cf_envelope_row {
    const char *driver, *retention;
    const char *values[CF_AXIS_COUNT];
};
extern const struct cf_envelope_row cf_envelope_rows[2];
json_t *cf_capability_set_make(const char *const values[CF_AXIS_COUNT]);

struct cf_harness_row {
    const char *entry;
    const char *supply, *adoption, *model_lane, *mcp_delivery, *evidence, *support;
    const char *mode, *availability;
    const char *protocol; /* NULL: connected */
    const char *lane;
    const char *ceiling[CF_AXIS_COUNT]; /* NULL: undeclared */
    unsigned dialects[3];               /* in declared order; 0: none */
};
extern const struct cf_harness_row cf_harness_rows[CF_HARNESS_COUNT];

#endif
