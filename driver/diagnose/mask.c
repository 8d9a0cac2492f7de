#include "diagnose/mask.h"

#include "base/buf.h"
#include "base/str.h"
#include "json/json.h"

#include <sodium.h>
#include <stdbool.h>
#include <string.h>

#define SECRET_LEAST 8u
#define TOKEN_DIGITS 32

struct secret {
    char *bytes;
    size_t len;
};

struct cf_mask {
    struct secret *secrets;
    size_t count, cap;
    bool failed;
};

static void
add_bytes(struct cf_mask *mask, const char *bytes, size_t len)
{
    struct secret *grown;

    if (len < SECRET_LEAST || mask->failed)
        return;
    if (mask->count == mask->cap) {
        grown = realloc(mask->secrets, (mask->cap + 16) * sizeof *grown);
        mask->failed = grown == NULL;
        if (mask->failed)
            return;
        mask->secrets = grown;
        mask->cap += 16;
    }
    mask->secrets[mask->count].bytes = malloc(len);
    mask->failed = mask->secrets[mask->count].bytes == NULL;
    if (mask->failed)
        return;
    memcpy(mask->secrets[mask->count].bytes, bytes, len);
    mask->secrets[mask->count++].len = len;
}

/* As it is, and as it reads inside a frame where that differs. */
static void
add(struct cf_mask *mask, const json_t *value)
{
    const char *text = json_string_value(value);
    size_t len = json_string_length(value);
    struct cf_buf quoted;

    if (text == NULL)
        return;
    add_bytes(mask, text, len);
    cf_buf_init(&quoted, 0);
    mask->failed |= cf_json_append_string(&quoted, text, len) < 0;
    if (quoted.len > 2 && (quoted.len - 2 != len || memcmp(quoted.data + 1, text, len) != 0))
        add_bytes(mask, quoted.data + 1, quoted.len - 2);
    if (quoted.data != NULL)
        sodium_memzero(quoted.data, quoted.len);
    cf_buf_release(&quoted);
}

static void
add_list(struct cf_mask *mask, const json_t *list)
{
    json_t *item;
    size_t i;

    json_array_foreach(list, i, item)
        add(mask, json_object_get(item, "value"));
}

struct cf_mask *
cf_mask_new(const json_t *options)
{
    struct cf_mask *mask = calloc(1, sizeof *mask);
    const char *name;
    json_t *item;
    size_t i;

    if (mask == NULL)
        return NULL;
    json_object_foreach((json_t *)json_object_get(options, "env"), name, item)
        add(mask, item);
    json_array_foreach(json_object_get(options, "mcp"), i, item)
    {
        add_list(mask, json_object_get(item, "headers"));
        add_list(mask, json_object_get(item, "env"));
    }
    if (mask->failed) {
        cf_mask_free(mask);
        return NULL;
    }
    return mask;
}

void
cf_mask_free(struct cf_mask *mask)
{
    if (mask == NULL)
        return;
    for (size_t i = 0; i < mask->count; i++) {
        sodium_memzero(mask->secrets[i].bytes, mask->secrets[i].len);
        free(mask->secrets[i].bytes);
    }
    free(mask->secrets);
    free(mask);
}

/* "cfr_" and 32 hex digits: what the relay makes (relay/relay.c). */
static void
mask_tokens(char *bytes, size_t len)
{
    char *at = bytes, *end = bytes + len;

    while ((at = memmem(at, (size_t)(end - at), "cfr_", 4)) != NULL) {
        char *digits = at + 4;
        if (end - digits >= TOKEN_DIGITS && cf_is_hex(digits, TOKEN_DIGITS))
            memset(at, '*', 4 + TOKEN_DIGITS);
        at = digits;
    }
}

void
cf_mask_bytes(const struct cf_mask *mask, char *bytes, size_t len)
{
    mask_tokens(bytes, len);
    for (size_t i = 0; mask != NULL && i < mask->count; i++) {
        const struct secret *secret = &mask->secrets[i];
        char *at = bytes, *end = bytes + len;
        while ((at = memmem(at, (size_t)(end - at), secret->bytes, secret->len)) != NULL) {
            memset(at, '*', secret->len);
            at += secret->len;
        }
    }
}

static json_t *
mask_string(const struct cf_mask *mask, const json_t *value)
{
    size_t len = json_string_length(value);
    char *copy = malloc(len + 1);
    json_t *made;

    if (copy == NULL)
        return NULL;
    memcpy(copy, json_string_value(value), len);
    cf_mask_bytes(mask, copy, len);
    made = json_stringn_nocheck(copy, len); /* a secret is whole characters, and so is what stands for it */
    free(copy);
    return made;
}

json_t *
cf_mask_value(const struct cf_mask *mask, const json_t *value)
{
    json_t *made, *item;
    const char *name;
    size_t i;

    if (json_is_string(value))
        return mask_string(mask, value);
    if (!json_is_object(value) && !json_is_array(value))
        return json_copy((json_t *)value);
    made = json_is_object(value) ? json_object() : json_array();
    json_object_foreach((json_t *)value, name, item)
        if (json_object_set_new_nocheck(made, name, cf_mask_value(mask, item)) < 0)
            goto fail;
    json_array_foreach(value, i, item)
        if (json_array_append_new(made, cf_mask_value(mask, item)) < 0)
            goto fail;
    return made;
fail:
    json_decref(made);
    return NULL;
}
