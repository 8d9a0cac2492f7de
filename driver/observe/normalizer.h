/* observe/normalizer.h: what the files of the normalizer share. */
#ifndef CF_OBSERVE_NORMALIZER_H
#define CF_OBSERVE_NORMALIZER_H

#include "observe/observe.h"

#include "base/buf.h"

/* Bounds of the contract, in UTF-16 units. */
#define TEXT_UNITS_MAX 262144u
#define ERROR_UNITS_MAX 4096u
#define PATH_UNITS_MAX 4096u
#define DESCRIPTION_UNITS_MAX 4096u
#define QUESTION_UNITS_MAX 4096u
#define NAME_UNITS_MAX 256u
#define HOOK_UNITS_MAX 8192u
/* Bounds of ours. */
#define LAST_MESSAGE_MAX (4u << 20)
#define TOOLS_MAX 50000u
#define SUBAGENTS_MAX 10000u
#define FILES_MAX 100000u
#define FINDINGS_MAX 100u
#define RESULT_TEXT_MAX (16u << 20)

#define MINTED_SIZE 48 /* "subg_" + 32 + NUL, with room */

enum text_kind { TEXT_NONE, TEXT_MESSAGE, TEXT_THINKING };

/* Text of one author that was not told yet. */
struct text_run {
    enum text_kind kind;
    struct cf_buf text;
    size_t units;
    uint64_t frame;          /* of its first chunk */
    char *message_id;        /* NULL: none */
    char subagent[MINTED_SIZE]; /* "": the main loop */
};

/* The main loop's last message, whole: for the output schema and against repeated text. */
struct last_message {
    struct cf_buf text;
    char *message_id;
    unsigned chunks;
    bool is_cut, was_repeated, is_open; /* open: an id-less chunk still belongs to it */
};

enum tool_status { TOOL_PENDING, TOOL_IN_PROGRESS, TOOL_COMPLETED, TOOL_FAILED };

struct tool {
    char *use_id;            /* as observations say it */
    char *title, *name;
    const char *kind;        /* static */
    enum tool_status status;
    json_t *raw_input, *raw_output, *content, *locations;
    struct cf_buf terminal;  /* what its command printed, where only _meta tells */
    char subagent[MINTED_SIZE];
    uint64_t turn, frame;
    bool is_announced;       /* a call, a permission or an unfinished update showed it first */
    bool is_used, is_settled;
};

struct finding_count {
    const char *id;
    unsigned told;
};

struct cf_normalizer {
    struct cf_normalizer_options options;
    struct cf_declaration declaration;
    struct cf_buf out;
    uint64_t mint_count, question_count;

    struct text_run run;
    struct last_message last;

    struct tool **tools;
    size_t tool_count, tool_cap;
    size_t first_of_turn;    /* tools before it belong to earlier turns */
    json_t *tool_index;      /* agent's id -> position of its latest tool */
    json_t *use_ids;         /* every tool_use_id that was given out */

    json_t *subagents;       /* agent's id -> minted id */
    json_t *open_subagents;  /* minted ids that started and have not settled, in order */
    json_t *files;           /* "event path" told in this turn */
    json_t *held_finished;   /* the payload of a harness's own finished */

    uint64_t turn;
    bool has_text, has_tool; /* in this turn */
    bool is_closed;          /* after the terminal, until the next turn */
    bool has_terminal;
    bool is_lost;

    bool has_cost;
    double cost_now, cost_base;

    uint64_t counts[CF_OBSERVATION_FAILED + 1];
    uint64_t shortened;
    struct finding_count findings[24];
};

/* ---- emit.c ---- */
void obs_finding(struct cf_normalizer *n, const char *id, uint64_t frame, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Begins {"type":...,"payload":{ in n->out. Members follow; obs_end closes, counts and hands out
 * what `view` describes (json and type are filled in). */
void obs_begin(struct cf_normalizer *n, enum cf_observation_type type);
void obs_member(struct cf_normalizer *n, const char *name); /* ,"name": */
void obs_string(struct cf_normalizer *n, const char *name, const char *text, size_t len);
/* As obs_string, shortened to `max` units with the last one '…', and counted. */
void obs_bounded(struct cf_normalizer *n, const char *name, const char *text, size_t len, size_t max,
                 uint64_t frame);
void obs_tree(struct cf_normalizer *n, const char *name, const json_t *value);
void obs_end(struct cf_normalizer *n, struct cf_observation *view);
/* A copy of at most max units, ending in '…' when it was cut; yours. NULL: out of memory. */
char *obs_shorten(struct cf_normalizer *n, const char *text, size_t len, size_t max, uint64_t frame,
                  const char *what);
void obs_mint(struct cf_normalizer *n, const char *prefix, char out[MINTED_SIZE]);
void obs_error(struct cf_normalizer *n, const char *type, const char *message, size_t len, uint64_t frame);

/* ---- turn.c ---- */
void obs_file_changed(struct cf_normalizer *n, const char *event, const char *path, uint64_t frame);

/* ---- text.c ---- */
void text_chunk(struct cf_normalizer *n, enum text_kind kind, const char *message_id, const char *subagent,
                const char *text, size_t len, uint64_t frame);
void text_flush(struct cf_normalizer *n);
void text_boundary(struct cf_normalizer *n); /* flush, and a message without id ends here */
void text_whole(struct cf_normalizer *n, enum text_kind kind, json_t *payload, uint64_t frame);
void text_turn_begin(struct cf_normalizer *n);

/* ---- tools.c ---- */
void tool_update(struct cf_normalizer *n, json_t *call, bool is_start, const char *subagent, uint64_t frame);
void tool_permission(struct cf_normalizer *n, json_t *call, const char *subagent, uint64_t frame);
void tools_tell_held(struct cf_normalizer *n, uint64_t frame);
void tools_end_turn(struct cf_normalizer *n, uint64_t frame);
void tools_release(struct cf_normalizer *n);
/* ---- toolname.c ---- */
/* "harness:NAME" by the naming rule; out holds TOOL_NAME_SIZE. */
#define TOOL_NAME_SIZE 1100
void tool_name(const char *name, const char *vendor_name, const char *kind, char out[TOOL_NAME_SIZE]);
bool tool_has_space(const char *text, size_t len);
const char *tool_vendor_name(json_t *meta);
/* ---- toolwire.c: bounded ids and what a result says ---- */
char *tool_id_canonical(const char *id, size_t len);
void tool_emit_use(struct cf_normalizer *n, struct tool *tool, uint64_t frame);
void tool_emit_result(struct cf_normalizer *n, struct tool *tool, const char *subagent, uint64_t frame);

/* ---- meta.c ---- */
/* Reads update._meta; *ret_subagent is the minted attribution ("" main loop). */
struct update_meta {
    char subagent[MINTED_SIZE];
    json_t *started, *completed; /* borrowed */
};
void meta_read(struct cf_normalizer *n, json_t *params, json_t *update, struct update_meta *ret, uint64_t frame);
void meta_started(struct cf_normalizer *n, json_t *value, uint64_t frame);
void meta_completed(struct cf_normalizer *n, json_t *value, uint64_t frame);
/* Settles what is still open with this disposition. */
void meta_settle_subagents(struct cf_normalizer *n, const char *disposition, uint64_t frame);

#endif
