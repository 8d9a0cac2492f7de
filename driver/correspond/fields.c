/* Closed objects and lists: the parts of checking that know no field by name. */
#include "correspond/fields.h"

#include "base/str.h"
#include "correspond/words.h"

#include <stdio.h>
#include <string.h>

enum { POINTER_SIZE = sizeof((struct cf_corr_refusal){0}).pointer };

int
cf_refuse_value(const struct cf_check *check, const char *reason, const char *at)
{
    return cf_corr_refuse(check->refusal, reason, at, -1);
}

int
cf_check_type(const struct cf_check *check, const struct cf_node *node, const char *at,
              enum cf_value_type type)
{
    return node->type == type ? 0 : cf_refuse_value(check, "wrong_type", at);
}

/* at + "/" + name, the name escaped (RFC 6901); just `at` when it does not fit whole. */
static void
join_pointer(char out[POINTER_SIZE], const char *at, const char *name, size_t len)
{
    size_t used = (size_t)snprintf(out, POINTER_SIZE, "%s", at), start = used;

    out[used++] = '/';
    for (size_t i = 0; i < len; i++) {
        if (used + 3 > POINTER_SIZE) {
            out[start] = '\0';
            return;
        }
        if (name[i] == '~' || name[i] == '/') {
            out[used++] = '~';
            out[used++] = name[i] == '~' ? '0' : '1';
        } else {
            out[used++] = name[i];
        }
    }
    out[used] = '\0';
}

static bool
is_listed(const struct cf_node *member, const struct cf_field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strlen(fields[i].name) == member->name_len &&
            memcmp(fields[i].name, member->name, member->name_len) == 0)
            return true;
    }
    return false;
}

int
cf_check_unknown(const struct cf_check *check, const struct cf_node *node, const char *at,
                 const struct cf_field *fields, size_t count, const char *unknown)
{
    char pointer[POINTER_SIZE];

    for (const struct cf_node *m = cf_value_child(check->value, node); m != NULL;
         m = cf_value_next(check->value, m)) {
        if (is_listed(m, fields, count))
            continue;
        join_pointer(pointer, at, m->name, m->name_len);
        return cf_refuse_value(check, unknown, pointer);
    }
    return 0;
}

int
cf_check_known(const struct cf_check *check, const struct cf_node *node, const char *at,
               const struct cf_field *fields, size_t count)
{
    const struct cf_node *members[16];
    char pointer[128]; /* known names only */

    for (size_t i = 0; i < count; i++) {
        members[i] = cf_value_member(check->value, node, fields[i].name);
        if (members[i] == NULL && fields[i].missing != NULL) {
            (void)snprintf(pointer, sizeof pointer, "%s/%s", at, fields[i].name);
            return cf_refuse_value(check, fields[i].missing, pointer);
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (members[i] == NULL)
            continue;
        (void)snprintf(pointer, sizeof pointer, "%s/%s", at, fields[i].name);
        if (fields[i].rule(check, members[i], pointer) < 0)
            return -1;
    }
    return 0;
}

int
cf_event_check_object(const struct cf_check *check, const struct cf_node *node, const char *at,
                      const struct cf_field *fields, size_t count, const char *unknown)
{
    if (cf_check_type(check, node, at, CF_VALUE_OBJECT) < 0 ||
        cf_check_unknown(check, node, at, fields, count, unknown) < 0)
        return -1;
    return cf_check_known(check, node, at, fields, count);
}

int
cf_check_word(const struct cf_check *check, const struct cf_node *node, const char *at,
              const char *(*word)(const char *text, size_t len))
{
    const char *reason;

    if (cf_check_type(check, node, at, CF_VALUE_STRING) < 0)
        return -1;
    reason = word(node->text, node->len);
    return reason == NULL ? 0 : cf_refuse_value(check, reason, at);
}

static bool
is_repeated(const struct cf_check *check, const struct cf_node *list,
            const struct cf_node *item)
{
    for (const struct cf_node *n = cf_value_child(check->value, list); n != item;
         n = cf_value_next(check->value, n)) {
        if (n->len == item->len && memcmp(n->text, item->text, n->len) == 0)
            return true;
    }
    return false;
}

int
cf_check_list(const struct cf_check *check, const struct cf_node *node, const char *at,
              const struct cf_list_rule *rule)
{
    char pointer[128];
    unsigned index = 0;

    if (cf_check_type(check, node, at, CF_VALUE_ARRAY) < 0)
        return -1;
    if (node->len < rule->least || node->len > rule->most)
        return cf_refuse_value(check, rule->count_reason, at);
    for (const struct cf_node *n = cf_value_child(check->value, node); n != NULL;
         n = cf_value_next(check->value, n), index++) {
        (void)snprintf(pointer, sizeof pointer, "%s/%u", at, index);
        if (cf_check_word(check, n, pointer, rule->word) < 0)
            return -1;
        if (is_repeated(check, node, n)) /* at most 64 items */
            return cf_refuse_value(check, rule->duplicate_reason, pointer);
    }
    return 0;
}

int
cf_rule_uuid(const struct cf_check *check, const struct cf_node *node, const char *at)
{
    return cf_check_word(check, node, at, cf_corr_check_uuid);
}

int
cf_rule_event_id(const struct cf_check *check, const struct cf_node *node, const char *at)
{
    return cf_check_word(check, node, at, cf_corr_check_event_id);
}

int
cf_rule_revision(const struct cf_check *check, const struct cf_node *node, const char *at)
{
    return cf_check_word(check, node, at, cf_corr_check_revision);
}

static const char *
is_timestamp(const char *text, size_t len)
{
    int64_t ms;

    return cf_corr_time_parse(text, len, &ms);
}

int
cf_rule_timestamp(const struct cf_check *check, const struct cf_node *node, const char *at)
{
    return cf_check_word(check, node, at, is_timestamp);
}
