/*
 * Digest, signature, keys: stages 6, 8, 10 and 11. Ed25519 as libsodium judges it (S < L, no
 * small-order points, cofactorless), over a domain-separated SHA-256 of the canonical core.
 */
#include "correspond/event.h"
#include "correspond/words.h"

#include "base/str.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

int
cf_corr_init(void)
{
    return sodium_init() < 0 ? -1 : 0;
}

void
cf_corr_event_digest(const struct cf_corr_event *event, unsigned char ret_digest[32])
{
    static const unsigned char domain[] = CF_CORR_PROTOCOL; /* its NUL is the separator */
    const unsigned char *bytes = (const unsigned char *)event->canonical;
    crypto_hash_sha256_state state;

    crypto_hash_sha256_init(&state);
    crypto_hash_sha256_update(&state, domain, sizeof domain);
    crypto_hash_sha256_update(&state, bytes, event->signature_at);
    crypto_hash_sha256_update(&state, bytes + event->signature_end,
                              event->canonical_len - event->signature_end);
    crypto_hash_sha256_final(&state, ret_digest);
}

void
cf_corr_public_key(const unsigned char seed[32], unsigned char ret_public_key[32])
{
    unsigned char secret[crypto_sign_SECRETKEYBYTES];

    crypto_sign_seed_keypair(ret_public_key, secret, seed);
    sodium_memzero(secret, sizeof secret);
}

bool
cf_corr_is_test_seed(const unsigned char seed[32])
{
    for (unsigned i = 0; i < 32; i++) {
        if (seed[i] != i)
            return false;
    }
    return true;
}

static int
check_signature(const struct cf_corr_event *event, const unsigned char public_key[32],
                struct cf_corr_refusal *refusal)
{
    unsigned char digest[32], signature[crypto_sign_BYTES];

    if (event->signature == NULL)
        return cf_corr_refuse(refusal, "signature_required", "/signature", -1);
    (void)cf_b64url_decode(event->signature->text, event->signature->len, signature,
                           sizeof signature); /* was checked */
    cf_corr_event_digest(event, digest);
    if (crypto_sign_verify_detached(signature, digest, sizeof digest, public_key) != 0)
        return cf_corr_refuse(refusal, "signature_invalid", "/signature/value_b64url", -1);
    return 0;
}

int
cf_corr_event_verify_key(const struct cf_corr_event *event, const unsigned char public_key[32],
                         struct cf_corr_refusal *refusal)
{
    if (cf_corr_event_check_id(event, refusal) < 0)
        return -1;
    return check_signature(event, public_key, refusal);
}

int
cf_corr_event_verify_signature(const struct cf_corr_event *event,
                               const struct cf_corr_keyring *keyring,
                               struct cf_corr_refusal *refusal)
{
    const struct cf_corr_key *key = cf_corr_keyring_find(keyring, event->view.signing_key_id);

    if (key == NULL || !key->is_active ||
        strcmp(key->identity_id, event->view.identity_id) != 0)
        return cf_corr_refuse(refusal, "sender_or_signing_key_not_active",
                              "/sender/signing_key_id", -1);
    return check_signature(event, key->public_key, refusal);
}

int
cf_corr_event_verify(const struct cf_corr_event *event, const char *project_id,
                     const struct cf_corr_keyring *keyring, struct cf_corr_refusal *refusal)
{
    if (project_id != NULL && strcmp(project_id, event->view.project_id) != 0)
        return cf_corr_refuse(refusal, "project_mismatch", "/project_id", -1);
    if (cf_corr_event_check_id(event, refusal) < 0)
        return -1;
    return cf_corr_event_verify_signature(event, keyring, refusal);
}

/* The canonical core with event_id (when not NULL) and signature put where they belong. */
static void
write_signed(struct cf_buf *to, const struct cf_corr_event *core, const char *event_id,
             const char *signature)
{
    cf_buf_reset(to);
    cf_buf_add(to, core->canonical, core->event_id_at);
    if (event_id != NULL)
        cf_buf_addf(to, "\"event_id\":\"%s\",", event_id);
    cf_buf_add(to, core->canonical + core->event_id_at,
               core->signature_at - core->event_id_at);
    cf_buf_addf(to, "\"signature\":{\"algorithm\":\"Ed25519\",\"value_b64url\":\"%s\"},",
                signature);
    cf_buf_adds(to, core->canonical + core->signature_at);
}

static void
sign_digest(const struct cf_corr_event *core, const unsigned char seed[32], char out[88])
{
    unsigned char public_key[32], secret[crypto_sign_SECRETKEYBYTES], digest[32],
        signature[crypto_sign_BYTES];

    crypto_sign_seed_keypair(public_key, secret, seed);
    cf_corr_event_digest(core, digest);
    crypto_sign_detached(signature, NULL, digest, sizeof digest, secret);
    sodium_memzero(secret, sizeof secret);
    cf_b64url_encode(signature, sizeof signature, out);
}

int
cf_corr_event_sign(const struct cf_corr_event *core, const unsigned char seed[32],
                   struct cf_corr_event **ret_event, struct cf_corr_refusal *refusal)
{
    unsigned char hash[32];
    char signature[88], id[CF_CORR_ID_SIZE];
    struct cf_buf text;
    int status;

    if (core->form != CF_CORR_CORE)
        return cf_corr_refuse(refusal, "unknown_event_field", "/event_id", -1);
    sign_digest(core, seed, signature);
    cf_buf_init(&text, 0);
    write_signed(&text, core, NULL, signature);
    if (!text.failed && text.len > CF_CORR_EVENT_BYTES_MAX) {
        cf_buf_release(&text);
        return cf_corr_refuse(refusal, "canonical_envelope_too_large", "", -1);
    }
    if (!text.failed) {
        crypto_hash_sha256(hash, (const unsigned char *)text.data, text.len);
        cf_id_print(hash, id);
        write_signed(&text, core, id, signature);
    }
    status = text.failed
                 ? cf_corr_refuse(refusal, "out_of_memory", "", -1)
                 : cf_corr_event_parse(text.data, text.len, CF_CORR_FULL, ret_event, refusal);
    cf_buf_release(&text);
    return status;
}
