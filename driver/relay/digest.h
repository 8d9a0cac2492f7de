/*
 * relay/digest.h: what governance and the replay model need to know of a request body, read as
 * it passes. Nothing of the body is kept.
 *
 * Understood are the three chat-like dialects at once (`messages` of anthropic_messages and
 * openai_chat, `input` of openai_responses) and, for fal_queue, the strings of the top level.
 * Members may come in any order: a role is often written behind its content.
 */
#ifndef CF_RELAY_DIGEST_H
#define CF_RELAY_DIGEST_H

#include "base/error.h"
#include "json/stream.h"
#include "relay/needle.h"

#define CF_DIGEST_MODEL 200u /* bytes of a model's name */

enum cf_item { CF_ITEM_NONE, CF_ITEM_USER, CF_ITEM_ASSISTANT, CF_ITEM_TOOL_RESULT };

struct cf_digest_needles { /* borrowed while the digest reads */
    const struct cf_needle *prompt, *prior;
    const struct cf_needle *more; /* a model script's own */
    size_t more_count;
};

/* Where one of the further needles was met. */
struct cf_digest_hit {
    bool anywhere;    /* in any string */
    bool user;        /* in a user's text behind the last of the assistant's items */
    bool tool_result; /* in a tool's result behind it */
    /* private */
    size_t at;
    bool in_item, in_item_text, in_item_tool, in_block, in_block_text;
};

struct cf_digest {
    /* out; whole after cf_digest_end */
    char model[CF_DIGEST_MODEL + 1];
    bool is_streamed, wants_usage, has_tools, has_input;
    uint64_t max_tokens;  /* 0: not said */
    enum cf_item last;    /* the last item; instructions between them do not count */
    bool prompt_seen;     /* the prompt's nonce, anywhere in a string */
    bool prompt_in_input; /* ... in messages or input */
    bool prompt_in_root;  /* ... in a string of the top level (fal_queue's prompt) */
    bool prompt_is_last;  /* ... in a user's text behind the last of the assistant's items */
    bool prior_seen;
    struct cf_digest_hit *hits; /* one a further needle; the caller's, zeroed; may be NULL when
                                   there is none */

    /* private */
    struct cf_json_stream stream;
    struct cf_digest_needles needles;
    size_t prompt_at, prior_at;
    unsigned depth;
    uint8_t where[6], key[6]; /* per open level; deeper ones say nothing new */
    uint8_t string;           /* what the open string is */
    char text[CF_DIGEST_MODEL + 1];
    size_t len;
    struct {
        char role[16], type[40];
        bool has_prompt, has_tool_result;
    } item;
    struct {
        char type[40];
        bool has_prompt;
    } block;
};

void cf_digest_init(struct cf_digest *digest, const struct cf_digest_needles *needles);
/* As cf_json_stream_feed and _end. _end also refuses a body that is not an object. */
CF_CHECKED int cf_digest_feed(struct cf_digest *digest, const char *bytes, size_t len,
                              struct cf_error *err);
CF_CHECKED int cf_digest_end(struct cf_digest *digest, struct cf_error *err);

/* Whether the replay model shall say the answer's nonce: the prompt is the last thing the user
 * said, or what it asked for goes on (a tool's result, a steering word of the user). */
bool cf_digest_is_main(const struct cf_digest *digest);

#endif
