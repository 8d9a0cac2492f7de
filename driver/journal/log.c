/* Writing and taking apart one line of the journal. */
#include "journal/log.h"

#include "base/str.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

static const char *const words[] = {"journal", "keys", "event", "batch"};

#define HEAD "{\"record\":\""
#define DIGEST "\",\"digest\":\""
#define DIGEST_HEX 32u

static struct cf_digest
digest_of(const struct cf_digest *before, const char *word, const char *rest, size_t rest_len)
{
    crypto_generichash_state state;
    struct cf_digest digest;

    crypto_generichash_init(&state, NULL, 0, sizeof digest.bytes);
    crypto_generichash_update(&state, before->bytes, sizeof before->bytes);
    crypto_generichash_update(&state, (const unsigned char *)word, strlen(word) + 1);
    crypto_generichash_update(&state, (const unsigned char *)rest, rest_len);
    crypto_generichash_final(&state, digest.bytes, sizeof digest.bytes);
    return digest;
}

/* ---- writing ---- */

/* The head of a line with room for its digest; returns where the digest's hex goes. */
static size_t
begin_line(struct cf_buf *to, enum cf_record_kind kind)
{
    cf_buf_addf(to, HEAD "%s" DIGEST, words[kind]);
    size_t at = to->len;
    cf_buf_adds(to, "00000000000000000000000000000000\"");
    return at;
}

static void
end_line(struct cf_buf *to, enum cf_record_kind kind, size_t at, struct cf_digest *digest)
{
    char hex[DIGEST_HEX + 1];

    cf_buf_adds(to, "}");
    if (to->failed)
        return;
    *digest =
        digest_of(digest, words[kind], to->data + at + DIGEST_HEX, to->len - at - DIGEST_HEX);
    cf_hex(digest->bytes, sizeof digest->bytes, hex);
    memcpy(to->data + at, hex, DIGEST_HEX);
    cf_buf_adds(to, "\n");
}

void
cf_record_put_journal(struct cf_buf *to, struct cf_digest *digest, const char *project_id,
                      int64_t at_ms)
{
    char journal_id[CF_CORR_UUID_SIZE], at_text[CF_CORR_TIME_SIZE];
    size_t at = begin_line(to, CF_RECORD_JOURNAL);

    cf_corr_uuid_make(journal_id);
    cf_corr_time_format(at_ms, at_text);
    cf_buf_addf(to, ",\"format\":1,\"journal_id\":\"%s\",\"project_id\":\"%s\",\"at\":\"%s\"",
                journal_id, project_id, at_text);
    end_line(to, CF_RECORD_JOURNAL, at, digest);
}

void
cf_record_put_keys(struct cf_buf *to, struct cf_digest *digest,
                   const struct cf_corr_keyring *keys, int64_t at_ms)
{
    char at_text[CF_CORR_TIME_SIZE], public_key[CF_CORR_B64_KEY_SIZE];
    size_t at = begin_line(to, CF_RECORD_KEYS);

    cf_corr_time_format(at_ms, at_text);
    cf_buf_addf(to, ",\"at\":\"%s\",\"keys\":[", at_text);
    for (size_t i = 0; i < cf_corr_keyring_count(keys); i++) {
        const struct cf_corr_key *key = cf_corr_keyring_at(keys, i);
        cf_corr_key_encode(key->public_key, public_key);
        cf_buf_addf(to,
                    "%s{\"identity_id\":\"%s\",\"signing_key_id\":\"%s\",\"public_key_"
                    "b64url\":\"%s\",\"active\":%s}",
                    i == 0 ? "" : ",", key->identity_id, key->signing_key_id, public_key,
                    key->is_active ? "true" : "false");
    }
    cf_buf_adds(to, "]");
    end_line(to, CF_RECORD_KEYS, at, digest);
}

void
cf_record_put_event(struct cf_buf *to, struct cf_digest *digest,
                    const struct cf_corr_event *event, uint64_t received_seq, int64_t at_ms)
{
    char at_text[CF_CORR_TIME_SIZE];
    size_t at = begin_line(to, CF_RECORD_EVENT), len;
    char *text = cf_corr_event_text(event, &len);

    cf_corr_time_format(at_ms, at_text);
    cf_buf_addf(to, ",\"received_seq\":\"%llu\",\"received_at\":\"%s\",\"event\":",
                (unsigned long long)received_seq, at_text);
    if (text == NULL)
        to->failed = true;
    else
        cf_buf_add(to, text, len);
    free(text);
    end_line(to, CF_RECORD_EVENT, at, digest);
}

void
cf_record_put_batch(struct cf_buf *to, struct cf_digest *digest, int64_t at_ms)
{
    char at_text[CF_CORR_TIME_SIZE];
    size_t at = begin_line(to, CF_RECORD_BATCH);

    cf_corr_time_format(at_ms, at_text);
    cf_buf_addf(to, ",\"at\":\"%s\"", at_text);
    end_line(to, CF_RECORD_BATCH, at, digest);
}

/* ---- reading ---- */

struct cursor {
    const char *at, *end;
};

static bool
take(struct cursor *c, const char *literal)
{
    size_t len = strlen(literal);

    if ((size_t)(c->end - c->at) < len || memcmp(c->at, literal, len) != 0)
        return false;
    c->at += len;
    return true;
}

static bool
take_time(struct cursor *c, int64_t *ret_ms)
{
    const char *text = c->at;

    if (c->end - c->at < CF_CORR_TIME_SIZE || text[CF_CORR_TIME_SIZE - 1] != '"')
        return false;
    c->at += CF_CORR_TIME_SIZE;
    return cf_corr_time_parse(text, CF_CORR_TIME_SIZE - 1, ret_ms) == NULL;
}

static bool
take_uuid(struct cursor *c, const char **ret_text)
{
    if (c->end - c->at < CF_CORR_UUID_SIZE ||
        cf_corr_check_uuid(c->at, CF_CORR_UUID_SIZE - 1) != NULL)
        return false;
    *ret_text = c->at;
    c->at += CF_CORR_UUID_SIZE - 1;
    return take(c, "\"");
}

/* Canonical decimal: no leading zero, above 0, fits 63 bits. */
static bool
take_seq(struct cursor *c, uint64_t *ret_seq)
{
    uint64_t seq = 0;
    const char *start = c->at;

    while (c->at < c->end && *c->at >= '0' && *c->at <= '9') {
        if (seq > (INT64_MAX - 9) / 10 || (seq == 0 && c->at > start))
            return false;
        seq = seq * 10 + (uint64_t)(*c->at++ - '0');
    }
    *ret_seq = seq;
    return seq > 0 && take(c, "\"");
}

/* What is left but the closing brace. */
static bool
take_json(struct cursor *c, struct cf_record *record)
{
    if (c->end - c->at < 2 || c->end[-1] != '}')
        return false;
    record->json = c->at;
    record->json_len = (size_t)(c->end - 1 - c->at);
    return true;
}

static bool
read_rest(struct cursor *c, struct cf_record *record)
{
    const char *journal_id;

    switch (record->kind) {
    case CF_RECORD_JOURNAL:
        return take(c, ",\"format\":1,\"journal_id\":\"") && take_uuid(c, &journal_id) &&
               take(c, ",\"project_id\":\"") && take_uuid(c, &record->project_id) &&
               take(c, ",\"at\":\"") && take_time(c, &record->at_ms) && take(c, "}") &&
               c->at == c->end;
    case CF_RECORD_KEYS:
        return take(c, ",\"at\":\"") && take_time(c, &record->at_ms) &&
               take(c, ",\"keys\":") && take_json(c, record);
    case CF_RECORD_EVENT:
        return take(c, ",\"received_seq\":\"") && take_seq(c, &record->received_seq) &&
               take(c, ",\"received_at\":\"") && take_time(c, &record->at_ms) &&
               take(c, ",\"event\":") && take_json(c, record);
    case CF_RECORD_BATCH:
        return take(c, ",\"at\":\"") && take_time(c, &record->at_ms) && take(c, "}") &&
               c->at == c->end;
    }
    return false;
}

static bool
take_word(struct cursor *c, enum cf_record_kind *ret_kind)
{
    for (size_t i = 0; i < CF_COUNT(words); i++) {
        if (take(c, words[i])) {
            *ret_kind = (enum cf_record_kind)i;
            return true;
        }
    }
    return false;
}

static unsigned
hex_value(char c)
{
    return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
}

static bool
take_digest(struct cursor *c, struct cf_digest *ret_digest)
{
    if ((size_t)(c->end - c->at) < DIGEST_HEX || !cf_is_hex(c->at, DIGEST_HEX))
        return false;
    for (size_t i = 0; i < sizeof ret_digest->bytes; i++)
        ret_digest->bytes[i] =
            (unsigned char)(hex_value(c->at[2 * i]) << 4 | hex_value(c->at[2 * i + 1]));
    c->at += DIGEST_HEX;
    return true;
}

const char *
cf_record_read(const char *line, size_t len, const struct cf_digest *before,
               struct cf_record *ret_record, struct cf_digest *ret_computed)
{
    struct cursor c = {line, line + len};
    struct cf_record record = {0};

    if (!take(&c, HEAD) || !take_word(&c, &record.kind) || !take(&c, DIGEST) ||
        !take_digest(&c, &record.digest))
        return "record_malformed";
    *ret_computed = digest_of(before, words[record.kind], c.at, (size_t)(c.end - c.at));
    *ret_record = record;
    if (memcmp(ret_computed, &record.digest, sizeof record.digest) != 0)
        return "record_digest_mismatch";
    if (!take(&c, "\"") || !read_rest(&c, &record))
        return "record_malformed";
    *ret_record = record;
    return NULL;
}

size_t
cf_record_guess(const char *line, size_t len, const struct cf_digest *before,
                struct cf_digest out[CF_GUESSES_MAX])
{
    size_t n = 0;

    for (size_t i = 0; i < CF_COUNT(words); i++) {
        size_t at = strlen(HEAD) + strlen(words[i]) + strlen(DIGEST);
        struct cursor c = {line + at, line + len};
        if (len < at + DIGEST_HEX)
            continue;
        if (take_digest(&c, &out[n]))
            n++;
        out[n++] = digest_of(before, words[i], line + at + DIGEST_HEX, len - at - DIGEST_HEX);
    }
    return n;
}
