/* The file that holds an author's ids and secret seed. */
#include "correspond/fields.h"
#include "correspond/words.h"

#include "base/ids.h"
#include "base/str.h"

#include <sodium.h>
#include <string.h>

static const char *
is_seed(const char *text, size_t len)
{
    unsigned char seed[32];
    int status = cf_corr_key_decode(text, len, seed);

    sodium_memzero(seed, sizeof seed);
    return status == 0 ? NULL : "seed_not_canonical_base64url";
}

static const char *
is_public_key(const char *text, size_t len)
{
    unsigned char key[32];

    return cf_corr_key_decode(text, len, key) == 0 ? NULL
                                                   : "public_key_not_canonical_base64url";
}

static int
rule_seed(const struct cf_check *check, const struct cf_node *node, const char *at)
{
    return cf_check_word(check, node, at, is_seed);
}

static int
rule_public_key(const struct cf_check *check, const struct cf_node *node, const char *at)
{
    return cf_check_word(check, node, at, is_public_key);
}

static void
copy_id(const struct cf_corr_value *value, const char *name, char out[CF_CORR_UUID_SIZE])
{
    const struct cf_node *node = cf_value_member(value, &value->nodes[0], name);

    out[0] = '\0';
    if (node != NULL)
        memcpy(out, node->text, CF_CORR_UUID_SIZE);
}

static int
take_identity(const struct cf_check *check, struct cf_corr_identity *identity)
{
    static const struct cf_field fields[] = {
        {"identity_id", cf_rule_uuid, NULL},
        {"signing_key_id", cf_rule_uuid, NULL},
        {"device_id", cf_rule_uuid, NULL},
        {"seed_b64url", rule_seed, "seed_b64url_required"},
        {"public_key_b64url", rule_public_key, NULL},
    };
    const struct cf_corr_value *value = check->value;
    const struct cf_node *root = &value->nodes[0], *seed, *stated;
    unsigned char public_key[32], claimed[32];

    if (cf_event_check_object(check, root, "", fields, CF_COUNT(fields),
                              "unknown_identity_field") < 0)
        return -1;
    copy_id(value, "identity_id", identity->identity_id);
    copy_id(value, "signing_key_id", identity->signing_key_id);
    copy_id(value, "device_id", identity->device_id);
    seed = cf_value_member(value, root, "seed_b64url");
    stated = cf_value_member(value, root, "public_key_b64url");
    if (cf_corr_key_decode(seed->text, seed->len, identity->seed) < 0)
        return cf_refuse_value(check, "seed_not_canonical_base64url", "/seed_b64url");
    cf_corr_public_key(identity->seed, public_key);
    if (stated != NULL && (cf_corr_key_decode(stated->text, stated->len, claimed) < 0 ||
                           memcmp(claimed, public_key, sizeof claimed) != 0))
        return cf_refuse_value(check, "public_key_mismatch", "/public_key_b64url");
    return 0;
}

int
cf_corr_identity_read(const char *bytes, size_t len, struct cf_corr_identity *ret_identity,
                      struct cf_corr_refusal *refusal)
{
    struct cf_corr_identity identity;
    struct cf_corr_value *value = NULL;
    int status;

    if (cf_corr_value_parse(bytes, len, CF_CORR_EVENT_BYTES_MAX, &value, refusal) < 0)
        return -1;
    const struct cf_check check = {value, refusal};
    status = take_identity(&check, &identity);
    if (status == 0)
        *ret_identity = identity;
    sodium_memzero(&identity, sizeof identity);
    sodium_memzero(value->text, value->len); /* the secret was spelt in it */
    cf_corr_value_free(value);
    return status;
}

void
cf_corr_identity_make(struct cf_corr_identity *ret_identity)
{
    cf_random(ret_identity->seed, sizeof ret_identity->seed);
    cf_corr_uuid_make(ret_identity->identity_id);
    cf_corr_uuid_make(ret_identity->signing_key_id);
    cf_corr_uuid_make(ret_identity->device_id);
}

char *
cf_corr_identity_text(const struct cf_corr_identity *identity, size_t *ret_len)
{
    char seed[CF_CORR_B64_KEY_SIZE], key[CF_CORR_B64_KEY_SIZE];
    unsigned char public_key[32];
    struct cf_buf text;

    cf_corr_public_key(identity->seed, public_key);
    cf_corr_key_encode(public_key, key);
    cf_corr_key_encode(identity->seed, seed);
    cf_buf_init(&text, 0);
    if (cf_buf_reserve(&text, 1024) !=
        NULL) /* in one piece: nothing secret is left behind by growth */
        cf_buf_addf(&text,
                    "{\"identity_id\":\"%s\",\"signing_key_id\":\"%s\",\"device_id\":\"%s\","
                    "\"public_key_b64url\":\"%s\","
                    "\"seed_b64url\":\"%s\"}\n",
                    identity->identity_id, identity->signing_key_id, identity->device_id, key,
                    seed);
    sodium_memzero(seed, sizeof seed);
    if (text.failed) {
        cf_buf_release(&text);
        return NULL;
    }
    return cf_buf_take(&text, ret_len);
}

int
cf_corr_author_init(struct cf_corr_author *author, const struct cf_corr_identity *identity,
                    const char *project_id, struct cf_corr_refusal *refusal)
{
    if (cf_corr_check_uuid(project_id, strlen(project_id)) != NULL)
        return cf_corr_refuse(refusal, "uuid_not_canonical", "/project_id", -1);
    if (identity->identity_id[0] == '\0')
        return cf_corr_refuse(refusal, "identity_id_required", "/identity_id", -1);
    if (identity->signing_key_id[0] == '\0')
        return cf_corr_refuse(refusal, "signing_key_id_required", "/signing_key_id", -1);
    if (identity->device_id[0] == '\0')
        return cf_corr_refuse(refusal, "device_id_required", "/device_id", -1);
    memset(author, 0, sizeof *author);
    memcpy(author->seed, identity->seed, sizeof author->seed);
    memcpy(author->project_id, project_id, sizeof author->project_id);
    memcpy(author->identity_id, identity->identity_id, sizeof author->identity_id);
    memcpy(author->signing_key_id, identity->signing_key_id, sizeof author->signing_key_id);
    memcpy(author->device_id, identity->device_id, sizeof author->device_id);
    cf_corr_uuid_make(author->session_id);
    return 0;
}
