/* schema/keywords.h: one keyword of one schema being read; shared by the files that read them. */
#ifndef CF_SCHEMA_KEYWORDS_H
#define CF_SCHEMA_KEYWORDS_H

#include "schema/compiled.h"

/* The group of rules a keyword's field lies in. */
enum cf_keyword_home {
    HOME_NONE,
    HOME_NUMBER,
    HOME_STRING,
    HOME_ARRAY,
    HOME_OBJECT,
    HOME_COMBINE
};

/* One keyword of one schema being read. */
struct cf_reading {
    struct cf_admission *a;
    cf_node_id node;
    const struct cf_keyword_row *row;
    const json_t *object; /* the schema that has the keyword */
    json_t *value;
};

typedef void cf_keyword_fn(struct cf_reading *r);

struct cf_keyword_row {
    const char *keyword;
    cf_keyword_fn *fn; /* NULL: an annotation, any value */
    enum cf_keyword_home home;
    size_t offset;
};

/* The field that the row names, its group made on first use. NULL when out of memory. */
void *cf_reading_field(struct cf_reading *r);

/* Zeroed memory that lives as long as the schema; NULL notes that memory ran out. */
void *cf_reading_room(struct cf_reading *r, size_t count, size_t size);

/* schema_keyword_invalid at the keyword: it takes `expected`. */
void cf_reading_malformed(struct cf_reading *r, const char *expected);

/* subschemas.c: keywords whose values are schemas or patterns. */
cf_keyword_fn cf_read_subschema, cf_read_branch, cf_read_prefix, cf_read_branches,
    cf_read_properties, cf_read_dependent_schemas, cf_read_definitions, cf_read_pattern,
    cf_read_pattern_properties;

#endif
