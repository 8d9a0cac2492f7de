/*
 * schema/schema.h: a bounded profile of JSON Schema 2020-12.
 *
 * Two phases that never mix. Admission reads a schema document and either compiles it or says
 * why not; validation runs an admitted schema over one instance. Both are bounded in time, memory
 * and stack for any input. Nothing is ever fetched: a reference is a "#/..." pointer into the
 * same document. `format` and `content*` are annotations.
 *
 * Schemas from outside are admitted by cf_schema_admit, always in author mode. The contract's own
 * schemas are compiled in and reached by name with cf_schema_builtin; only they may use
 * uniqueItems, nine fixed patterns outside the pattern subset, and x-checkfu-json-budget.
 *
 * A compiled schema is read-only: any number of validations may share it.
 */
#ifndef CF_SCHEMA_SCHEMA_H
#define CF_SCHEMA_SCHEMA_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Limits on a schema document in author mode. */
#define CF_SCHEMA_MAX_BYTES 32768u
#define CF_SCHEMA_MAX_DEPTH 32u
#define CF_SCHEMA_MAX_NODES 4000u
#define CF_SCHEMA_MAX_BRANCHES 256u       /* allOf, anyOf, oneOf, not, if ... in a document */
#define CF_SCHEMA_MAX_BRANCHES_IN_ONE 64u /* elements of one allOf, anyOf or oneOf */
#define CF_SCHEMA_MAX_COMBINATOR_DEPTH 8u
#define CF_SCHEMA_MAX_REFS 128u
#define CF_SCHEMA_MAX_REF_DEPTH 16u
#define CF_SCHEMA_MAX_EXPANSION 8192u

/* Limits on an instance, and on the work of one validation. */
#define CF_SCHEMA_INSTANCE_BYTES 65536u
#define CF_SCHEMA_INSTANCE_DEPTH 32u
#define CF_SCHEMA_INSTANCE_NODES 4000u
#define CF_SCHEMA_WORK 1000000u

#define CF_SCHEMA_FINDINGS 16 /* kept in one report; the first decides */

struct cf_schema;

struct cf_schema_finding {
    const char *code; /* "schema_ref_cycle", "required", ...; static storage */
    char *pointer; /* JSON Pointer into the schema (admission) or the instance (validation) */
    char *
        schema_pointer; /* validation: where the failing keyword is written; admission: NULL */
    char text[256];     /* one line for eyes: what is wrong and what would be accepted */
};

/* Zeroed is empty. Filled anew by each call that takes it; release frees its pointers. */
struct cf_schema_report {
    struct cf_schema_finding findings[CF_SCHEMA_FINDINGS];
    unsigned count;
    struct cf_schema_finding
        warnings[CF_SCHEMA_FINDINGS]; /* admission: unknown keywords, ignored */
    unsigned warning_count;
    unsigned warnings_more; /* warnings met after the list was full */
    uint64_t work;          /* validation: work units spent */
};

void cf_schema_report_release(struct cf_schema_report *report);

/*
 * Admits a schema document as it was received: the byte limit counts these bytes. Returns 0 and
 * *ret_schema (yours: cf_schema_free), warnings in `report`; or -1 with the first finding's code,
 * place and text as one line in `err` and up to 16 findings in `report`, in document order.
 * `bytes` is not kept. `report` may be NULL.
 */
CF_CHECKED int cf_schema_admit(const char *bytes, size_t len, struct cf_schema **ret_schema,
                               struct cf_schema_report *report, struct cf_error *err);

/* The same for a schema that came as part of a larger document: bytes count in compact form.
 * `document` is only borrowed for the call. */
CF_CHECKED int cf_schema_admit_value(const json_t *document, struct cf_schema **ret_schema,
                                     struct cf_schema_report *report, struct cf_error *err);

/*
 * A schema compiled into the program, or a named place inside one. Names:
 *   "acp-vectors"        the ACP extension golden vectors document
 *   "oneshot-vectors"    the one-shot author-kit golden vectors document
 *   "oneshot-authoring"  one authoring object (a release) of that kit
 *   "observation"        one normalized observation {type, payload}
 * Returns 0 and *ret_schema (yours: cf_schema_free), or -1 for an unknown name or out of memory.
 * Instances may be larger here than for an author's schema, as the contract's own bounds ask
 * (8 MiB, depth 64, 200,000 values, 64 million work units).
 */
CF_CHECKED int cf_schema_builtin(const char *name, struct cf_schema **ret_schema,
                                 struct cf_error *err);

void cf_schema_free(struct cf_schema *schema);

/*
 * Validates one instance. Returns 0 when it is valid; -1 with up to 16 findings in `report`
 * (may be NULL) and the first one as a line in `err` (CF_ERROR_CONFIG; CF_ERROR_TOO_LARGE for the
 * instance and work limits). `instance` is borrowed for the call; bytes count in compact form.
 */
CF_CHECKED int cf_schema_validate(const struct cf_schema *schema, const json_t *instance,
                                  struct cf_schema_report *report, struct cf_error *err);

/* The same for an instance as text: bytes count as received, and text that is not JSON or names a
 * member twice is the finding "instance_invalid_json" or "instance_duplicate_name". */
CF_CHECKED int cf_schema_validate_text(const struct cf_schema *schema, const char *bytes,
                                       size_t len, struct cf_schema_report *report,
                                       struct cf_error *err);

/* Structural size of an admitted schema, for tests and for the curious. */
struct cf_schema_size {
    unsigned depth, nodes, schemas, branches, combinator_depth, refs, ref_depth;
    uint32_t expansion; /* of the entry schema */
    unsigned patterns, trusted_patterns;
};
void cf_schema_measure(const struct cf_schema *schema, struct cf_schema_size *ret_size);

#endif
