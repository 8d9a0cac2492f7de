/*
 * schema/refs.c: "#/..." references: from the text to the node it lands on.
 *
 * The walk has recorded which places are schemas, each with its holder (the object or array that
 * has it) and the name or index there. A pointer is followed through the document; the place it
 * lands on must be one of those. Nothing outside the document is ever looked at.
 */
#include "schema/compiled.h"

#include "base/str.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

/* Where a pointer has arrived. */
struct landing {
    const json_t *holder, *value;
    const char *name; /* the member's name, or NULL and `index` */
    size_t name_len, index;
};

static int
hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* In place; returns the new length or -1. */
static ssize_t
percent_decode(char *text, size_t len)
{
    size_t to = 0;

    for (size_t i = 0; i < len; i++) {
        if (text[i] != '%') {
            text[to++] = text[i];
            continue;
        }
        if (i + 2 >= len || hex_value(text[i + 1]) < 0 || hex_value(text[i + 2]) < 0)
            return -1;
        text[to++] = (char)(hex_value(text[i + 1]) * 16 + hex_value(text[i + 2]));
        i += 2;
    }
    return cf_utf8_is_valid(text, to) ? (ssize_t)to : -1;
}

/* ~1 and ~0, in place; returns the new length or -1. */
static ssize_t
unescape_token(char *token, size_t len)
{
    size_t to = 0;

    for (size_t i = 0; i < len; i++) {
        if (token[i] != '~') {
            token[to++] = token[i];
            continue;
        }
        if (++i == len || (token[i] != '0' && token[i] != '1'))
            return -1;
        token[to++] = token[i] == '0' ? '~' : '/';
    }
    return (ssize_t)to;
}

static bool
as_index(const char *token, size_t len, size_t *ret_index)
{
    size_t index = 0;

    if (len == 0 || len > 9 || (token[0] == '0' && len > 1))
        return false;
    for (size_t i = 0; i < len; i++) {
        if (token[i] < '0' || token[i] > '9')
            return false;
        index = index * 10 + (size_t)(token[i] - '0');
    }
    *ret_index = index;
    return true;
}

static bool
step_into(struct landing *at, const char *token, size_t len)
{
    at->holder = at->value;
    at->name = NULL;
    if (json_is_object(at->holder)) {
        at->name = token;
        at->name_len = len;
        at->value = json_object_getn(at->holder, token, len);
    } else if (json_is_array(at->holder) && as_index(token, len, &at->index)) {
        at->value = json_array_get(at->holder, at->index);
    } else {
        at->value = NULL;
    }
    return at->value != NULL;
}

/* Follows "/a/b" from the root. `pointer` is changed. */
static bool
follow(const json_t *document, char *pointer, size_t len, struct landing *ret_landing)
{
    char *end = pointer + len;

    *ret_landing = (struct landing){.value = document};
    while (pointer < end) {
        char *token = pointer + 1;
        char *slash = memchr(token, '/', (size_t)(end - token));
        char *token_end = slash == NULL ? end : slash;
        ssize_t token_len = unescape_token(token, (size_t)(token_end - token));
        if (token_len < 0 || !step_into(ret_landing, token, (size_t)token_len))
            return false;
        pointer = token_end;
    }
    return true;
}

static cf_node_id
node_at(const struct cf_schema *schema, const struct landing *landing)
{
    for (cf_node_id id = 1; id < schema->node_count; id++) {
        const struct cf_node *node = &schema->nodes[id];
        if (node->holder != landing->holder)
            continue;
        if (landing->name == NULL) {
            if (node->has_index && node->index == landing->index)
                return id;
        } else if (!node->has_index) {
            const char *name = node->name != NULL ? node->name : node->keyword;
            if (strlen(name) == landing->name_len &&
                memcmp(name, landing->name, landing->name_len) == 0)
                return id;
        }
    }
    return 0;
}

static void
fault(struct cf_admission *a, const struct cf_ref *ref, const char *code, const char *text)
{
    cf_admission_fault(a, ref->from, "$ref", NULL, code, "%s", text);
}

/* `fragment` is a changeable copy of what stands behind "#". */
static void
resolve_fragment(struct cf_admission *a, const struct cf_ref *ref, char *fragment, size_t len)
{
    bool is_pointer = len > 0 && fragment[0] == '/';
    ssize_t decoded = percent_decode(fragment, len);
    struct landing landing;

    if (decoded >= 0)
        is_pointer = fragment[0] == '/';
    if (!is_pointer) {
        fault(a, ref, "schema_ref_not_pointer",
              "write #/$defs/NAME; anchors are not supported");
        return;
    }
    if (decoded < 0 || !follow(a->schema->document, fragment, (size_t)decoded, &landing)) {
        fault(a, ref, "schema_ref_unresolved", "nothing stands at this place of the document");
        return;
    }
    cf_node_id to = node_at(a->schema, &landing);
    if (to == 0)
        fault(a, ref, "schema_ref_target_not_schema",
              "this place of the document is not used as a schema; put it into $defs");
    else
        a->schema->edges[ref->edge].to = a->schema->nodes[ref->from].ref = to;
}

static void
resolve(struct cf_admission *a, const struct cf_ref *ref)
{
    const char *text = json_string_value(ref->text);
    size_t len = json_string_length(ref->text);

    if (len == 0 || text[0] != '#') {
        fault(a, ref, "schema_ref_remote",
              "only #/... within this document is followed; copy the other schema into $defs");
        return;
    }
    if (len == 1) {
        fault(a, ref, "schema_ref_cycle",
              "# is the document itself, which contains this reference");
        return;
    }
    char *fragment = malloc(len);
    if (fragment == NULL) {
        a->out_of_memory = true;
        return;
    }
    memcpy(fragment, text + 1, len); /* with its NUL */
    resolve_fragment(a, ref, fragment, len - 1);
    free(fragment);
}

cf_node_id
cf_find_node(const struct cf_schema *schema, const char *pointer)
{
    struct landing landing;
    char *copy = strdup(pointer);
    cf_node_id node = 0;

    if (copy != NULL && follow(schema->document, copy, strlen(copy), &landing))
        node = node_at(schema, &landing);
    free(copy);
    return node;
}

void
cf_resolve_refs(struct cf_admission *a)
{
    for (uint32_t i = 0; i < a->schema->ref_count && !a->out_of_memory; i++)
        resolve(a, &a->schema->refs[i]);
}
