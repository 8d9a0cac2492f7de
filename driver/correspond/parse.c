/*
 * Strict JSON text: one pass, left to right, the first fault is the answer. Stands apart from
 * json/ because this profile must name its reasons and byte offsets, admits safe integers only
 * and forbids U+0000 in values too.
 *
 * The text is copied once and strings are decoded in place (a decoded string is never longer
 * than its spelling), so a document costs two allocations however many strings it holds.
 */
#include "correspond/value.h"

#include "base/ids.h"
#include "base/str.h"
#include "base/utf8.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#define SMALL_OBJECT 16u /* members up to which a name is simply compared with the others */

struct open_container {
    uint32_t node, last; /* the container, its last child so far */
    uint32_t slots;      /* large objects: size of the name table, else 0 */
    uint32_t *names;     /* member nodes by hash of their name */
};

struct parser {
    struct cf_corr_value *value;
    char *at, *end;
    struct open_container open[CF_CORR_DEPTH_MAX];
    unsigned depth;
    bool has_key;
    unsigned char key[crypto_shorthash_KEYBYTES];
    struct cf_corr_refusal *refusal;
};

static int
refuse_at(struct parser *p, const char *reason, const char *where)
{
    return cf_corr_refuse(p->refusal, reason, "", where - p->value->text);
}

/* 1: ends a run inside a string. */
static const unsigned char string_stop[256] = {
    [0 ... 31] = 1,
    ['"'] = 1,
    ['\\'] = 1,
};

static void
skip_space(struct parser *p)
{
    while (p->at < p->end &&
           (*p->at == ' ' || *p->at == '\n' || *p->at == '\r' || *p->at == '\t'))
        p->at++;
}

static int
read_hex4(const char *at, const char *end, uint32_t *ret_unit)
{
    uint32_t unit = 0;

    if (end - at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = at[i];
        uint32_t digit;
        if (c >= '0' && c <= '9')
            digit = (uint32_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            digit = (uint32_t)(c - 'a' + 10);
        else if (c >= 'A' && c <= 'F')
            digit = (uint32_t)(c - 'A' + 10);
        else
            return -1;
        unit = unit << 4 | digit;
    }
    *ret_unit = unit;
    return 0;
}

/* At "\u"; leaves p->at behind the escape and writes its scalar to *to. */
static int
read_unicode_escape(struct parser *p, char **to)
{
    const char *start = p->at;
    uint32_t unit, low;

    if (read_hex4(p->at + 2, p->end, &unit) < 0)
        return refuse_at(p, "invalid_json", start);
    p->at += 6;
    if (unit == 0)
        return refuse_at(p, "nul_not_admitted", start);
    if (unit >= 0xd800 && unit <= 0xdfff) {
        bool has_next =
            unit < 0xdc00 && p->end - p->at >= 2 && p->at[0] == '\\' && p->at[1] == 'u';
        if (has_next && read_hex4(p->at + 2, p->end, &low) < 0)
            return refuse_at(p, "invalid_json", p->at);
        if (!has_next || low < 0xdc00 || low > 0xdfff)
            return refuse_at(p, "non_scalar_unicode", start);
        p->at += 6;
        unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
    }
    *to += cf_utf8_put(unit, *to);
    return 0;
}

static int
read_escape(struct parser *p, char **to)
{
    static const char plain[] = "\"\"\\\\//b\bf\fn\nr\rt\t";

    if (p->end - p->at < 2)
        return refuse_at(p, "invalid_json", p->end);
    if (p->at[1] == 'u')
        return read_unicode_escape(p, to);
    for (size_t i = 0; i + 1 < sizeof plain; i += 2) {
        if (p->at[1] == plain[i]) {
            *(*to)++ = plain[i + 1];
            p->at += 2;
            return 0;
        }
    }
    return refuse_at(p, "invalid_json", p->at);
}

/* At the opening quote. The decoded text ends with a NUL that lies on the closing quote at the
 * latest. */
static int
read_string(struct parser *p, const char **ret_text, uint32_t *ret_len)
{
    char *text = p->at + 1, *to = text;

    p->at++;
    for (;;) {
        char *run = p->at;
        while (p->at < p->end && !string_stop[(unsigned char)*p->at])
            p->at++;
        if (to != run)
            memmove(to, run, (size_t)(p->at - run));
        to += p->at - run;
        if (p->at == p->end || (unsigned char)*p->at < 0x20)
            return refuse_at(p, "invalid_json", p->at);
        if (*p->at == '"')
            break;
        if (read_escape(p, &to) < 0)
            return -1;
    }
    p->at++;
    *to = '\0';
    *ret_text = text;
    *ret_len = (uint32_t)(to - text);
    return 0;
}

static bool
is_number_char(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           c == '+' || c == '-' || c == '.';
}

static int
read_number(struct parser *p, int64_t *ret_integer)
{
    const char *start = p->at, *reason;

    while (p->at < p->end && is_number_char(*p->at))
        p->at++;
    reason = cf_judge_number(start, (size_t)(p->at - start), ret_integer);
    return reason == NULL ? 0 : refuse_at(p, reason, start);
}

static bool
take_word(struct parser *p, const char *word)
{
    size_t len = strlen(word);

    if ((size_t)(p->end - p->at) < len || memcmp(p->at, word, len) != 0)
        return false;
    p->at += len;
    return true;
}

static bool
starts_number(const struct parser *p)
{
    size_t left = (size_t)(p->end - p->at);
    char c = *p->at;

    return c == '-' || c == '+' || c == '.' || (c >= '0' && c <= '9') ||
           (left >= 3 && memcmp(p->at, "NaN", 3) == 0) ||
           (left >= 8 && memcmp(p->at, "Infinity", 8) == 0);
}

/* A new node, hung behind the last child of the innermost container. */
static struct cf_node *
add_node(struct parser *p, const char *name, uint32_t name_len)
{
    struct cf_corr_value *v = p->value;
    struct cf_node *node;

    if (v->count == v->cap) {
        uint32_t cap = v->cap == 0 ? 64 : v->cap * 2;
        struct cf_node *grown = realloc(v->nodes, cap * sizeof *grown);
        if (grown == NULL) {
            (void)cf_corr_refuse(p->refusal, "out_of_memory", "", -1);
            return NULL;
        }
        v->nodes = grown;
        v->cap = cap;
    }
    node = &v->nodes[v->count];
    *node = (struct cf_node){.next = CF_NO_NODE, .name = name, .name_len = name_len};
    if (p->depth > 0) {
        struct open_container *top = &p->open[p->depth - 1];
        if (top->last == CF_NO_NODE)
            v->nodes[top->node].first = v->count;
        else
            v->nodes[top->last].next = v->count;
        top->last = v->count;
        v->nodes[top->node].len++;
    }
    v->count++;
    return node;
}

static int
open_container(struct parser *p, struct cf_node *node, enum cf_value_type type)
{
    if (p->depth == CF_CORR_DEPTH_MAX)
        return refuse_at(p, "json_depth_exceeded", p->at);
    p->at++;
    node->type = type;
    node->first = CF_NO_NODE;
    p->open[p->depth++] = (struct open_container){
        .node = (uint32_t)(node - p->value->nodes),
        .last = CF_NO_NODE,
    };
    return 0;
}

/* Reads a scalar whole, or opens a container. */
static int
read_value(struct parser *p, const char *name, uint32_t name_len)
{
    struct cf_node *node;

    if (p->at == p->end)
        return refuse_at(p, "invalid_json", p->at);
    node = add_node(p, name, name_len);
    if (node == NULL)
        return -1;
    switch (*p->at) {
    case '{':
        return open_container(p, node, CF_VALUE_OBJECT);
    case '[':
        return open_container(p, node, CF_VALUE_ARRAY);
    case '"':
        node->type = CF_VALUE_STRING;
        return read_string(p, &node->text, &node->len);
    default:
        break;
    }
    if (starts_number(p)) {
        node->type = CF_VALUE_INTEGER;
        return read_number(p, &node->integer);
    }
    if (take_word(p, "null"))
        node->type = CF_VALUE_NULL;
    else if (take_word(p, "false"))
        node->type = CF_VALUE_FALSE;
    else if (take_word(p, "true"))
        node->type = CF_VALUE_TRUE;
    else
        return refuse_at(p, "invalid_json", p->at);
    return 0;
}

static bool
is_named(const struct cf_node *node, const char *name, uint32_t len)
{
    return node->name_len == len && memcmp(node->name, name, len) == 0;
}

static uint32_t
hash_name(struct parser *p, const char *name, uint32_t len)
{
    unsigned char hash[crypto_shorthash_BYTES];
    uint32_t word;

    if (!p->has_key) {
        cf_random(p->key,
                  sizeof p->key); /* names are hostile: an unkeyed table could be flooded */
        p->has_key = true;
    }
    crypto_shorthash(hash, (const unsigned char *)name, len, p->key);
    memcpy(&word, hash, sizeof word);
    return word;
}

/* Where `name` is, or would go, in the open object's table. */
static uint32_t
find_slot(struct parser *p, const struct open_container *top, const char *name, uint32_t len)
{
    uint32_t slot = hash_name(p, name, len) & (top->slots - 1);

    while (top->names[slot] != CF_NO_NODE &&
           !is_named(&p->value->nodes[top->names[slot]], name, len))
        slot = (slot + 1) & (top->slots - 1);
    return slot;
}

static int
grow_names(struct parser *p, struct open_container *top)
{
    uint32_t slots = top->slots == 0 ? SMALL_OBJECT * 4 : top->slots * 2;
    uint32_t *names = malloc(slots * sizeof *names);

    if (names == NULL)
        return cf_corr_refuse(p->refusal, "out_of_memory", "", -1);
    memset(names, 0xff, slots * sizeof *names);
    free(top->names);
    top->names = names;
    top->slots = slots;
    for (uint32_t i = p->value->nodes[top->node].first; i != CF_NO_NODE;
         i = p->value->nodes[i].next)
        names[find_slot(p, top, p->value->nodes[i].name, p->value->nodes[i].name_len)] = i;
    return 0;
}

/* Refuses a second member of the same decoded name, at its opening quote. */
static int
claim_name(struct parser *p, const char *name, uint32_t len, const char *where)
{
    struct open_container *top = &p->open[p->depth - 1];
    const struct cf_node *object = &p->value->nodes[top->node];
    uint32_t slot;

    if (object->len < SMALL_OBJECT) {
        for (const struct cf_node *m = cf_value_child(p->value, object); m != NULL;
             m = cf_value_next(p->value, m)) {
            if (is_named(m, name, len))
                return refuse_at(p, "duplicate_object_name", where);
        }
        return 0;
    }
    if (object->len * 2 >= top->slots && grow_names(p, top) < 0)
        return -1;
    slot = find_slot(p, top, name, len);
    if (top->names[slot] != CF_NO_NODE)
        return refuse_at(p, "duplicate_object_name", where);
    top->names[slot] = p->value->count; /* the node that comes next */
    return 0;
}

/* The next element of the innermost container: its name and colon when it is an object. */
static int
read_element(struct parser *p)
{
    const char *name = NULL, *where;
    uint32_t len = 0;

    skip_space(p);
    if (p->value->nodes[p->open[p->depth - 1].node].type == CF_VALUE_ARRAY)
        return read_value(p, NULL, 0);
    where = p->at;
    if (p->at == p->end || *p->at != '"')
        return refuse_at(p, "invalid_json", p->at);
    if (read_string(p, &name, &len) < 0 || claim_name(p, name, len, where) < 0)
        return -1;
    skip_space(p);
    if (p->at == p->end || *p->at != ':')
        return refuse_at(p, "invalid_json", p->at);
    p->at++;
    skip_space(p);
    return read_value(p, name, len);
}

static void
close_container(struct parser *p)
{
    struct open_container *top = &p->open[--p->depth];
    struct cf_node *node = &p->value->nodes[top->node];

    free(top->names);
    top->names = NULL;
    if (node->type == CF_VALUE_OBJECT)
        node->first = cf_sort_members(p->value->nodes, node->first);
}

/* Behind a value or an opening bracket: closes what closes here. Returns 1 when an element
 * must follow, 0 when the root is complete. */
static int
climb(struct parser *p, bool was_opened)
{
    while (p->depth > 0) {
        const struct cf_node *node = &p->value->nodes[p->open[p->depth - 1].node];
        char closer = node->type == CF_VALUE_ARRAY ? ']' : '}';

        skip_space(p);
        if (p->at < p->end && *p->at == closer) {
            p->at++;
            close_container(p);
            was_opened = false;
            continue;
        }
        if (was_opened)
            return 1;
        if (p->at == p->end || *p->at != ',')
            return refuse_at(p, "invalid_json", p->at);
        p->at++;
        return 1;
    }
    return 0;
}

static int
read_document(struct parser *p)
{
    unsigned depth = 0;
    int more;

    skip_space(p);
    if (read_value(p, NULL, 0) < 0)
        return -1;
    while ((more = climb(p, p->depth > depth)) == 1) {
        depth = p->depth;
        if (read_element(p) < 0)
            return -1;
    }
    if (more < 0)
        return -1;
    skip_space(p);
    return p->at == p->end ? 0 : refuse_at(p, "invalid_json", p->at);
}

/* Stage 1. */
static int
check_bytes(const char *bytes, size_t len, size_t limit, struct cf_corr_refusal *refusal)
{
    size_t at = 0;
    uint32_t code;

    if (len > limit)
        return cf_corr_refuse(refusal, "raw_post_too_large", "", (int64_t)limit);
    while (at < len &&
           (bytes[at] == ' ' || bytes[at] == '\n' || bytes[at] == '\r' || bytes[at] == '\t'))
        at++;
    if (at == len)
        return cf_corr_refuse(refusal, "raw_post_empty", "", 0);
    if (len >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0)
        return cf_corr_refuse(refusal, "byte_order_mark_not_admitted", "", 0);
    while (at < len) {
        uint64_t word;
        int n;
        while (len - at >= sizeof word) { /* eight ASCII bytes at a time */
            memcpy(&word, bytes + at, sizeof word);
            if ((word & 0x8080808080808080u) != 0)
                break;
            at += sizeof word;
        }
        if (at == len)
            break;
        n = cf_utf8_next(bytes + at, len - at, &code);
        if (n < 0)
            return cf_corr_refuse(refusal, "invalid_utf8", "", (int64_t)at);
        at += (size_t)n;
    }
    return 0;
}

int
cf_corr_value_parse(const char *bytes, size_t len, size_t limit,
                    struct cf_corr_value **ret_value, struct cf_corr_refusal *refusal)
{
    struct parser p = {.refusal = refusal};
    struct cf_corr_value *value;
    int status;

    if (limit == 0)
        limit = CF_CORR_EVENT_BYTES_MAX;
    if (limit > 1u << 30)
        limit = 1u << 30;
    if (check_bytes(bytes, len, limit, refusal) < 0)
        return -1;
    value = calloc(1, sizeof *value);
    if (value == NULL || (value->text = malloc(len + 1)) == NULL) {
        cf_corr_value_free(value);
        return cf_corr_refuse(refusal, "out_of_memory", "", -1);
    }
    memcpy(value->text, bytes, len);
    value->text[len] = '\0';
    value->len = len;
    p.value = value;
    p.at = value->text;
    p.end = value->text + len;
    status = read_document(&p);
    if (status < 0) {
        while (p.depth > 0)
            free(p.open[--p.depth].names);
        cf_corr_value_free(value);
        return -1;
    }
    *ret_value = value;
    return 0;
}
