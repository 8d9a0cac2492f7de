/* json/scan.h: the strict JSON scanner that reads a text once before jansson may build a tree. */
#ifndef CF_JSON_SCAN_H
#define CF_JSON_SCAN_H

#include <stddef.h>

/* Nesting the scanner can follow at all, and the highest limit a caller may set. */
#define CF_JSON_SCAN_DEPTH 65536u
#define CF_JSON_TREE_DEPTH 1024u

enum cf_json_scan_end {
    CF_JSON_SCAN_OK,
    CF_JSON_SCAN_BROKEN,   /* not JSON; `what` says why */
    CF_JSON_SCAN_TOO_DEEP, /* JSON, but over a limit */
    CF_JSON_SCAN_TOO_MANY
};

struct cf_json_scan {
    /* in */
    const char *bytes;
    size_t len;
    unsigned depth_limit, node_limit;
    /* out */
    size_t at;        /* byte offset of the trouble */
    const char *what; /* static words */
    unsigned nodes;   /* values met, saturating at node_limit + 1 */
    unsigned deepest;
};

/* Reads the whole text: strict RFC 8259 grammar, valid UTF-8, paired surrogates, no U+0000 in a
 * member name. Text that is not JSON is told before a limit that was exceeded. Allocates
 * nothing, linear time. */
enum cf_json_scan_end cf_json_scan(struct cf_json_scan *scan);

#endif
