/* What the dialects share, and the one that is none. */
#include "relay/dialect.h"

#include "base/utf8.h"
#include "json/json.h"

#include <string.h>

/* An answer is cut into about this many pieces, none shorter than PIECE_BYTES. */
enum { PIECES = 8, PIECE_BYTES = 4 };

static const struct cf_codec *const codecs[] = {
    &cf_codec_anthropic_messages,
    &cf_codec_openai_chat,
    &cf_codec_openai_responses,
    &cf_codec_fal_queue,
};

const struct cf_codec *
cf_codec_find(const char *name)
{
    for (size_t i = 0; i < sizeof codecs / sizeof codecs[0]; i++)
        if (strcmp(codecs[i]->name, name) == 0)
            return codecs[i];
    return NULL;
}

bool
cf_part_piece(const struct cf_answer *answer, const struct cf_part *part, size_t *at,
              const char **ret_bytes, size_t *ret_len)
{
    size_t left = part->len - *at, want = answer->piece_bytes, n;

    if (left == 0)
        return false;
    if (want == 0)
        want = part->len / PIECES > PIECE_BYTES ? part->len / PIECES : PIECE_BYTES;
    n = want >= left ? left : cf_utf8_cut(part->text + *at, left, want < 4 ? 4 : want);
    if (n == 0)
        n = left; /* not UTF-8 after all: in one piece */
    *ret_bytes = part->text + *at;
    *ret_len = n;
    *at += n;
    return true;
}

int
cf_dialect_json(struct cf_buf *to, json_t *value)
{
    if (value == NULL || cf_json_append(to, value) < 0)
        to->failed = true;
    json_decref(value);
    return to->failed ? -1 : 0;
}

void
cf_sse_frame(struct cf_buf *to, const char *event, json_t *data)
{
    if (event != NULL)
        cf_buf_addf(to, "event: %s\n", event);
    cf_buf_adds(to, "data: ");
    (void)cf_dialect_json(to, data); /* to->failed is looked at once, at the end */
    cf_buf_adds(to, "\n\n");
}

/* Reads as an error to clients of both families. */
static int
unknown_refusal(const struct cf_refusal *refusal, struct cf_buf *to)
{
    const char *type = refusal->status == 401   ? "authentication_error"
                       : refusal->status == 404 ? "not_found_error"
                                                : "invalid_request_error";

    return cf_dialect_json(to,
                           json_pack("{s:s, s:{s:s, s:s, s:n, s:n}, s:s+}", "type", "error",
                                     "error", "type", type, "message", refusal->message,
                                     "param", "code", "request_id", "req_", refusal->id));
}

const struct cf_codec cf_codec_unknown = {.name = "", .refusal = unknown_refusal};
