/* The keys a reader already holds, looked up by signing_key_id. */
#include "correspond/fields.h"
#include "correspond/words.h"

#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEYRING_BYTES_MAX (1u << 20)

struct cf_corr_keyring {
    struct cf_corr_key *keys; /* sorted by signing_key_id */
    size_t count, cap;
};

struct cf_corr_keyring *
cf_corr_keyring_new(void)
{
    return calloc(1, sizeof(struct cf_corr_keyring));
}

void
cf_corr_keyring_free(struct cf_corr_keyring *keyring)
{
    if (keyring == NULL)
        return;
    free(keyring->keys);
    free(keyring);
}

size_t
cf_corr_keyring_count(const struct cf_corr_keyring *keyring)
{
    return keyring->count;
}

const struct cf_corr_key *
cf_corr_keyring_at(const struct cf_corr_keyring *keyring, size_t index)
{
    return index < keyring->count ? &keyring->keys[index] : NULL;
}

/* The first key whose id is not below `id`. */
static size_t
lower_bound(const struct cf_corr_keyring *keyring, const char *id)
{
    size_t low = 0, high = keyring->count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (strcmp(keyring->keys[mid].signing_key_id, id) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

const struct cf_corr_key *
cf_corr_keyring_find(const struct cf_corr_keyring *keyring, const char *signing_key_id)
{
    size_t at = lower_bound(keyring, signing_key_id);

    if (at == keyring->count || strcmp(keyring->keys[at].signing_key_id, signing_key_id) != 0)
        return NULL;
    return &keyring->keys[at];
}

int
cf_corr_keyring_put(struct cf_corr_keyring *keyring, const struct cf_corr_key *key)
{
    size_t at = lower_bound(keyring, key->signing_key_id);

    if (at < keyring->count &&
        strcmp(keyring->keys[at].signing_key_id, key->signing_key_id) == 0) {
        keyring->keys[at] = *key;
        return 0;
    }
    if (keyring->count == keyring->cap) {
        size_t cap = keyring->cap == 0 ? 8 : keyring->cap * 2;
        struct cf_corr_key *grown = realloc(keyring->keys, cap * sizeof *grown);
        if (grown == NULL)
            return -1;
        keyring->keys = grown;
        keyring->cap = cap;
    }
    memmove(&keyring->keys[at + 1], &keyring->keys[at], (keyring->count - at) * sizeof *key);
    keyring->keys[at] = *key;
    keyring->count++;
    return 0;
}

static const char *
is_public_key(const char *text, size_t len)
{
    unsigned char key[32];

    return cf_corr_key_decode(text, len, key) == 0 ? NULL
                                                   : "public_key_not_canonical_base64url";
}

static int
rule_public_key(const struct cf_check *check, const struct cf_node *node, const char *at)
{
    return cf_check_word(check, node, at, is_public_key);
}

static int
rule_flag(const struct cf_check *check, const struct cf_node *node, const char *at)
{
    bool is_flag = node->type == CF_VALUE_TRUE || node->type == CF_VALUE_FALSE;

    return is_flag ? 0 : cf_refuse_value(check, "wrong_type", at);
}

static int
read_key(struct cf_corr_keyring *keyring, const struct cf_check *check,
         const struct cf_node *node, unsigned index)
{
    static const struct cf_field fields[] = {
        {"identity_id", cf_rule_uuid, "identity_id_required"},
        {"signing_key_id", cf_rule_uuid, "signing_key_id_required"},
        {"public_key_b64url", rule_public_key, "public_key_b64url_required"},
        {"active", rule_flag, "active_required"},
    };
    const struct cf_node *public_key;
    struct cf_corr_key key = {0};
    char at[32];

    (void)snprintf(at, sizeof at, "/%u", index);
    if (cf_event_check_object(check, node, at, fields, CF_COUNT(fields), "unknown_key_field") <
        0)
        return -1;
    public_key = cf_value_member(check->value, node, "public_key_b64url");
    memcpy(key.identity_id, cf_value_member(check->value, node, "identity_id")->text,
           sizeof key.identity_id);
    memcpy(key.signing_key_id, cf_value_member(check->value, node, "signing_key_id")->text,
           sizeof key.signing_key_id);
    if (cf_corr_key_decode(public_key->text, public_key->len, key.public_key) < 0)
        return cf_refuse_value(check, is_public_key("", 0), at); /* cannot be: was checked */
    key.is_active = cf_value_member(check->value, node, "active")->type == CF_VALUE_TRUE;
    if (cf_corr_keyring_put(keyring, &key) < 0)
        return cf_refuse_value(check, "out_of_memory", "");
    return 0;
}

int
cf_corr_keyring_read(struct cf_corr_keyring *keyring, const char *bytes, size_t len,
                     struct cf_corr_refusal *refusal)
{
    struct cf_corr_value *value = NULL;
    unsigned index = 0;
    int status;

    if (cf_corr_value_parse(bytes, len, KEYRING_BYTES_MAX, &value, refusal) < 0)
        return -1;
    const struct cf_check check = {value, refusal};
    status = cf_check_type(&check, &value->nodes[0], "", CF_VALUE_ARRAY);
    if (status == 0) {
        for (const struct cf_node *n = cf_value_child(value, &value->nodes[0]);
             n != NULL && status == 0; n = cf_value_next(value, n))
            status = read_key(keyring, &check, n, index++);
    }
    cf_corr_value_free(value);
    return status;
}
