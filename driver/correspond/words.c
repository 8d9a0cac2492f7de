/*
 * Rules about single strings: ids, paths, locators, revisions. Lengths count Unicode scalar
 * values, never bytes or UTF-16 units. Each rule returns NULL or the reason.
 */
#include "correspond/words.h"

#include "base/ids.h"
#include "base/str.h"
#include "base/utf8.h"

#include <sodium.h>
#include <string.h>

size_t
cf_scalars(const char *text, size_t len)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++)
        n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}

static bool
is_control(uint32_t code) /* general category Cc */
{
    return code < 0x20 || (code >= 0x7f && code <= 0x9f);
}

/* White_Space, Cc, and the byte order mark: what opaque ids and locators may not hold. */
static bool
is_blank_or_control(uint32_t code)
{
    return code <= 0x20 || (code >= 0x7f && code <= 0xa0) || code == 0x1680 ||
           (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 ||
           code == 0x202f || code == 0x205f || code == 0x3000 || code == 0xfeff;
}

/* The contract's vector file carries U+2026 where its rule speaks of the control U+0085 (a
 * Windows-1252 reading of it), so paths, and only paths, refuse both. */
static bool
is_path_vector_ellipsis(uint32_t code)
{
    return code == 0x2026;
}

static bool
is_path_forbidden(uint32_t code)
{
    return is_control(code) ||
           (code < 0x80 && code != 0 && strchr("\\*?[]{}!", (int)code) != NULL) ||
           is_path_vector_ellipsis(code);
}

static bool
has_any(const char *text, size_t len, bool (*is_bad)(uint32_t code))
{
    uint32_t code;

    while (len > 0) {
        int n = cf_utf8_next(text, len, &code);
        if (n <= 0 || is_bad(code))
            return true;
        text += n;
        len -= (size_t)n;
    }
    return false;
}

static bool
is_length_within(const char *text, size_t len, size_t least, size_t most)
{
    size_t n = cf_scalars(text, len);

    return n >= least && n <= most;
}

const char *
cf_corr_check_opaque_id(const char *text, size_t len)
{
    if (!is_length_within(text, len, 1, 256))
        return "opaque_id_length_out_of_bounds";
    return has_any(text, len, is_blank_or_control) ? "opaque_id_character_not_admitted" : NULL;
}

static bool
has_empty_or_dot_segment(const char *text, size_t len)
{
    size_t start = 0;

    for (size_t i = 0; i <= len; i++) {
        if (i < len && text[i] != '/')
            continue;
        size_t size = i - start;
        if (size == 0 || (size == 1 && text[start] == '.') ||
            (size == 2 && memcmp(text + start, "..", 2) == 0))
            return true;
        start = i + 1;
    }
    return false;
}

const char *
cf_corr_check_path(const char *text, size_t len)
{
    if (!is_length_within(text, len, 1, 256))
        return "path_length_out_of_bounds";
    if (len == 1 && text[0] == '.')
        return NULL; /* the whole repository */
    if (has_any(text, len, is_path_forbidden))
        return "path_character_not_admitted";
    return has_empty_or_dot_segment(text, len) ? "path_not_normalized" : NULL;
}

static bool
has_scheme(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (c == ':')
            return i > 0;
        if (!is_letter &&
            (i == 0 || !((c >= '0' && c <= '9') || c == '+' || c == '.' || c == '-')))
            return false;
    }
    return false;
}

const char *
cf_corr_check_locator(const char *text, size_t len)
{
    if (!is_length_within(text, len, 1, 2048))
        return "locator_length_out_of_bounds";
    if (!has_scheme(text, len))
        return "locator_scheme_required";
    return has_any(text, len, is_blank_or_control) ? "locator_character_not_admitted" : NULL;
}

const char *
cf_corr_check_uuid(const char *text, size_t len)
{
    static const unsigned char groups[] = {8, 4, 4, 4, 12};
    size_t at = 0;

    if (len != CF_CORR_UUID_SIZE - 1)
        return "uuid_not_canonical";
    for (size_t i = 0; i < sizeof groups; i++) {
        if (!cf_is_hex(text + at, groups[i]) || (i < 4 && text[at + groups[i]] != '-'))
            return "uuid_not_canonical";
        at += groups[i] + 1u;
    }
    return NULL;
}

const char *
cf_corr_check_revision(const char *text, size_t len)
{
    return (len == 40 || len == 64) && cf_is_hex(text, len) ? NULL : "revision_malformed";
}

static bool
is_sha256_name(const char *text, size_t len)
{
    return len == CF_CORR_ID_SIZE - 1 && memcmp(text, "sha256:", 7) == 0 &&
           cf_is_hex(text + 7, 64);
}

const char *
cf_corr_check_event_id(const char *text, size_t len)
{
    return is_sha256_name(text, len) ? NULL : "event_id_malformed";
}

const char *
cf_check_digest(const char *text, size_t len)
{
    return is_sha256_name(text, len) ? NULL : "digest_malformed";
}

const char *
cf_check_text(const char *text, size_t len, size_t most)
{
    return is_length_within(text, len, 1, most) ? NULL : "text_length_out_of_bounds";
}

const char *
cf_check_branch(const char *text, size_t len)
{
    if (!is_length_within(text, len, 1, 255))
        return "branch_length_out_of_bounds";
    return has_any(text, len, is_control) ? "branch_control_not_admitted" : NULL;
}

/* libsodium's decoder ignores nothing, wants no padding and refuses spare bits that are set.
 */
int
cf_b64url_decode(const char *text, size_t len, unsigned char *out, size_t size)
{
    size_t got;
    const char *end;

    if (sodium_base642bin(out, size, text, len, NULL, &got, &end,
                          sodium_base64_VARIANT_URLSAFE_NO_PADDING) != 0)
        return -1;
    return got == size && end == text + len ? 0 : -1;
}

void
cf_b64url_encode(const unsigned char *bytes, size_t len, char *out)
{
    (void)sodium_bin2base64(
        out, sodium_base64_ENCODED_LEN(len, sodium_base64_VARIANT_URLSAFE_NO_PADDING), bytes,
        len, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
}

const char *
cf_check_signature(const char *text, size_t len)
{
    unsigned char bytes[crypto_sign_BYTES];

    return cf_b64url_decode(text, len, bytes, sizeof bytes) == 0
               ? NULL
               : "signature_not_canonical_base64url";
}

void
cf_corr_key_encode(const unsigned char key[32], char out[CF_CORR_B64_KEY_SIZE])
{
    cf_b64url_encode(key, 32, out);
}

int
cf_corr_key_decode(const char *text, size_t len, unsigned char ret_key[32])
{
    unsigned char key[32];

    if (cf_b64url_decode(text, len, key, sizeof key) < 0)
        return -1;
    memcpy(ret_key, key, sizeof key);
    return 0;
}

static unsigned
hex_value(char c)
{
    return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
}

static void
hex_pack(const char *text, unsigned char *out, size_t size)
{
    for (size_t i = 0; i < size; i++)
        out[i] = (unsigned char)(hex_value(text[2 * i]) << 4 | hex_value(text[2 * i + 1]));
}

void
cf_uuid_pack(const char *text, unsigned char out[16])
{
    char hex[32];
    size_t n = 0;

    for (size_t i = 0; i < CF_CORR_UUID_SIZE - 1; i++) {
        if (text[i] != '-')
            hex[n++] = text[i];
    }
    hex_pack(hex, out, 16);
}

void
cf_uuid_print(const unsigned char bytes[16], char out[CF_CORR_UUID_SIZE])
{
    static const unsigned char groups[] = {4, 2, 2, 2, 6};
    size_t at = 0;

    for (size_t i = 0; i < sizeof groups; i++) {
        cf_hex(bytes + at, groups[i], out);
        out += 2 * groups[i];
        at += groups[i];
        *out++ = '-';
    }
    out[-1] = '\0';
}

void
cf_corr_uuid_make(char out[CF_CORR_UUID_SIZE])
{
    unsigned char bytes[16];

    cf_random(bytes, sizeof bytes);
    bytes[6] = (unsigned char)(0x40 | (bytes[6] & 0x0f));
    bytes[8] = (unsigned char)(0x80 | (bytes[8] & 0x3f));
    cf_uuid_print(bytes, out);
}

void
cf_id_pack(const char *text, unsigned char out[32])
{
    hex_pack(text + 7, out, 32);
}

void
cf_id_print(const unsigned char bytes[32], char out[CF_CORR_ID_SIZE])
{
    memcpy(out, "sha256:", 7);
    cf_hex(bytes, 32, out + 7);
}

static bool
is_below(const char *path, const char *prefix, size_t prefix_len)
{
    return strncmp(path, prefix, prefix_len) == 0 &&
           (path[prefix_len] == '\0' || path[prefix_len] == '/');
}

bool
cf_corr_paths_overlap(const char *a, const char *b)
{
    if (strcmp(a, ".") == 0 || strcmp(b, ".") == 0)
        return true;
    return is_below(a, b, strlen(b)) || is_below(b, a, strlen(a));
}
