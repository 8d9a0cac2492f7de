/*
 * relay/script.h: a model script: ordered rules that say what the model answers, in one form
 * for all dialects (proto/model-script.schema.json). The first rule that fits a call answers
 * it. Pure.
 */
#ifndef CF_RELAY_SCRIPT_H
#define CF_RELAY_SCRIPT_H

#include "base/error.h"
#include "relay/dialect.h"
#include "relay/digest.h"

#define CF_SCRIPT_RULES 500u
#define CF_SCRIPT_PARTS 64u
#define CF_SCRIPT_NAME 63u

enum cf_break {
    CF_BREAK_NONE,
    CF_BREAK_ERROR, /* the dialect's own error event; an answer that is no stream: HTTP 500 */
    CF_BREAK_RESET, /* the connection is cut */
    CF_BREAK_END,   /* the body ends as if it were whole */
    CF_BREAK_STALL  /* nothing comes any more */
};

struct cf_pace {       /* how an answer goes out */
    uint64_t delay_ms; /* before its first byte */
    uint64_t gap_ms;   /* between two events, or two writes */
    size_t
        write_bytes; /* at most so many in one write, wherever that cuts; 0: an event each */
    enum cf_break how;
    bool counts_events; /* whether `after` counts events or bytes */
    uint64_t after;
    const char *message; /* of the error event; borrowed from the script */
};

struct cf_rule_part {
    enum cf_part_kind kind;
    const char *text, *name; /* borrowed from the script's document */
    json_t *input;           /* of a tool call */
};

struct cf_rule {
    char name[CF_SCRIPT_NAME + 1];
    /* when */
    const struct cf_codec *codec; /* NULL: every dialect */
    const char *model;            /* a name, or its beginning before a *; NULL: every model */
    int user, tool_result, anywhere;     /* needles, -1: not asked */
    int has_tools, is_streamed, is_main; /* -1: either */
    enum cf_item after;                  /* CF_ITEM_NONE: either */
    unsigned turn;                       /* 0: every turn */
    uint64_t times, used;                /* 0 times: without end */
    /* then */
    struct cf_rule_part *parts;
    size_t part_count, piece_bytes;
    enum cf_stop stop;
    bool has_usage;
    uint64_t input_tokens, output_tokens;
    struct cf_pace pace;
    int error_status; /* not 0: this HTTP error instead of an answer */
    const char *error_message;
    int64_t retry_after; /* seconds, -1: no such header */
    int should_retry;    /* x-should-retry; -1: no such header */
};

struct cf_script {
    json_t *document;
    struct cf_rule *rules;
    size_t rule_count;
    struct cf_needle *needles;
    size_t needle_count;
    bool refuses; /* what no rule fits is refused, not left to the replay model */
};

/* Decodes a script; NULL gives an empty one. CF_ERROR_CONFIG names the rule and the member.
 * Zeroed is safe to release, and to be asked for a rule. */
CF_CHECKED int cf_script_init(struct cf_script *script, json_t *document,
                              struct cf_error *err);
void cf_script_release(struct cf_script *script);

struct cf_script_call { /* what a rule may look at */
    const struct cf_codec *codec;
    const struct cf_digest *digest;
    bool is_main;
    unsigned turn;
};
/* The first rule that fits, counted as used; NULL: none. Give it back (cf_script_unuse) when
 * its answer did not reach the client through no wish of the rule's: a repeated call shall
 * meet it again. */
struct cf_rule *cf_script_find(struct cf_script *script, const struct cf_script_call *call);
void cf_script_unuse(struct cf_rule *rule);

/* A name, or the beginning of one before a * at the end. */
bool cf_model_matches(const char *pattern, const char *model);

#endif
