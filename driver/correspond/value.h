/* correspond/value.h: a parsed JSON text as one block of nodes beside one block of text. */
#ifndef CF_CORRESPOND_VALUE_H
#define CF_CORRESPOND_VALUE_H

#include "correspond/correspond.h"

enum cf_value_type {
    CF_VALUE_NULL,
    CF_VALUE_FALSE,
    CF_VALUE_TRUE,
    CF_VALUE_INTEGER,
    CF_VALUE_STRING,
    CF_VALUE_ARRAY,
    CF_VALUE_OBJECT,
};

#define CF_NO_NODE UINT32_MAX

/* Strings are decoded, valid UTF-8, without U+0000, and NUL-terminated. The members of an
 * object hang in canonical order (UTF-16 code units), whatever order the text had. */
struct cf_node {
    enum cf_value_type type;
    uint32_t next; /* sibling */
    const char *name;
    uint32_t name_len;
    uint32_t len; /* bytes of a string, children of a container */
    union {
        int64_t integer;
        const char *text;
        uint32_t first; /* child */
    };
};

struct cf_corr_value {
    struct cf_node *nodes; /* [0] is the root */
    uint32_t count, cap;
    char *text; /* our copy; strings are decoded in place */
    size_t len;
};

static inline const struct cf_node *
cf_value_child(const struct cf_corr_value *value, const struct cf_node *parent)
{
    return parent->first == CF_NO_NODE ? NULL : &value->nodes[parent->first];
}

static inline const struct cf_node *
cf_value_next(const struct cf_corr_value *value, const struct cf_node *node)
{
    return node->next == CF_NO_NODE ? NULL : &value->nodes[node->next];
}

/* The member `name` of an object, or NULL. */
const struct cf_node *cf_value_member(const struct cf_corr_value *value,
                                      const struct cf_node *object, const char *name);

/* Writes the canonical form of `node`; `out` has room for the text it was parsed from. Returns
 * the end of what was written. */
char *cf_value_write(const struct cf_corr_value *value, const struct cf_node *node, char *out);

/* Writes one string with its quotes; at most 6 * len + 2 bytes. Returns the end. */
char *cf_value_write_string(const char *text, size_t len, char *out);

/* Judges one number token: NULL, and *ret_integer is written, or the reason. */
const char *cf_judge_number(const char *s, size_t len, int64_t *ret_integer);

/* Sorts a list of siblings by name; returns the new first. */
uint32_t cf_sort_members(struct cf_node *nodes, uint32_t first);

/* Order of two UTF-8 strings by UTF-16 code units, shorter prefix first. */
int cf_utf16_order(const char *a, size_t a_len, const char *b, size_t b_len);

#endif
