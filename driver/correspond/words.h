/* correspond/words.h: rules about single strings, shared by the event checks and the callers.
 */
#ifndef CF_CORRESPOND_WORDS_H
#define CF_CORRESPOND_WORDS_H

#include "correspond/correspond.h"

/* Unicode scalar values of valid UTF-8. */
size_t cf_scalars(const char *text, size_t len);

/* `least` to `most` scalars of anything. */
const char *cf_check_text(const char *text, size_t len, size_t most);
const char *cf_check_branch(const char *text, size_t len);
const char *cf_check_signature(const char *text, size_t len);
const char *cf_check_digest(const char *text, size_t len);

/* base64url without padding; `len` characters to exactly `size` bytes, spare bits zero. */
int cf_b64url_decode(const char *text, size_t len, unsigned char *out, size_t size);
void cf_b64url_encode(const unsigned char *bytes, size_t len, char *out);

/* 36 characters, already checked, to 16 bytes and back. */
void cf_uuid_pack(const char *text, unsigned char out[16]);
void cf_uuid_print(const unsigned char bytes[16], char out[CF_CORR_UUID_SIZE]);

/* "sha256:" + 64 hex, already checked, to 32 bytes and back. */
void cf_id_pack(const char *text, unsigned char out[32]);
void cf_id_print(const unsigned char bytes[32], char out[CF_CORR_ID_SIZE]);

#endif
