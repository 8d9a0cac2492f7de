/*
 * wire/wire.h: bytes -> messages. Pure: what to send is handed to a callback as whole lines, what
 * arrived is handed on as one event; no clock (deadlines are the owner's), no I/O.
 */
#ifndef CF_WIRE_WIRE_H
#define CF_WIRE_WIRE_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- lines ----------------------------------------------------------------------------- */

/* Splits bytes on LF; a CR before it goes; a BOM at the very start goes. */
struct cf_lines {
    char *held;             /* the unfinished line */
    size_t held_len, held_cap, limit_bytes;
    uint64_t number;        /* lines handed out so far, blank ones included */
    bool skipping;          /* the rest of an over-long line is being dropped */
    bool started;
};
/* A line (borrowed until return, NUL not guaranteed), or overflow: the first bytes of a line
 * longer than the limit, handed out once when it became too long. */
typedef void cf_line_fn(void *user, const char *line, size_t len, uint64_t number, bool overflow);
void cf_lines_init(struct cf_lines *lines, size_t limit_bytes);
void cf_lines_release(struct cf_lines *lines);
/* Linear in len. -1 only when memory ran out. The callback must not release `lines`. */
int cf_lines_feed(struct cf_lines *lines, const char *bytes, size_t len, cf_line_fn *on_line, void *user);
/* End of stream: hands out what is left without LF. */
int cf_lines_end(struct cf_lines *lines, cf_line_fn *on_line, void *user);

/* ---- acp: one connection, the client's side --------------------------------------------- */

struct cf_acp;

enum cf_acp_finding_kind {
    CF_ACP_STDOUT_POLLUTION = 1, /* text on stdout that is not a frame: `frame` is the line number */
    CF_ACP_REPAIRED = 2,         /* a frame was readable only after the written repair */
    CF_ACP_IGNORED = 3,          /* unstable update kind, unknown notification, stale response, ... */
    CF_ACP_REFUSED = 4,          /* an agent request was answered with an error */
    CF_ACP_UPDATE_AFTER_TERMINAL = 5, /* output after the answer of the prompt; both frames named */
    CF_ACP_FOREIGN_SESSION = 6,
    CF_ACP_LENIENCY = 7          /* id sent as string of digits, 1.0, ... */
};
const char *cf_acp_finding_name(enum cf_acp_finding_kind kind); /* "stdout_pollution"; static */

/* A request of the agent's that waits for our answer. Handles are never used again, so an answer
 * that comes too late (the agent withdrew it, the turn was canceled) does no harm. */
struct cf_acp_permission { /* session/request_permission */
    const void *handle;    /* NULL: the turn is canceled and it was answered already */
    json_t *tool_call;     /* borrowed until return */
    json_t *options;       /* [{optionId,name,kind}]; borrowed until answered */
    uint64_t frame;
};
struct cf_acp_request {    /* fs/..., terminal/..., elicitation/create that we advertised */
    const void *handle;
    const char *method;    /* borrowed until return */
    json_t *params;        /* borrowed until answered */
    uint64_t frame;
};

struct cf_acp_events {
    /* One whole line, LF included, for the agent's stdin; borrowed until return. */
    void (*send)(void *user, const char *line, size_t len);
    /* Every frame, both ways, for recordings and -v, without LF; borrowed until return. number
     * counts per connection over both directions; lines that are no frames are not counted. */
    void (*on_frame)(void *user, bool from_agent, uint64_t number, const char *line, size_t len);
    void (*on_initialized)(void *user, json_t *result, uint64_t frame);
    void (*on_authenticated)(void *user, uint64_t frame);
    void (*on_session)(void *user, const char *session_id, json_t *result, uint64_t frame);
    /* params.update of a session/update of our session, in order; `params` has its _meta. Updates
     * that came before the session/new answer are held (bounded) and come right after on_session.
     * Of a session/load nothing is told: what is replayed is history. */
    void (*on_update)(void *user, json_t *params, json_t *update, uint64_t frame);
    /* Answer now or later with cf_acp_permission_answer. NULL: denied by cf_acp_permission_pick. */
    void (*on_permission)(void *user, const struct cf_acp_permission *permission);
    /* An advertised request: take it (true; answer with cf_acp_answer or cf_acp_refuse, now or
     * later) or leave it (false, or NULL here: it is answered -32601). */
    bool (*on_request)(void *user, const struct cf_acp_request *request);
    /* A pending request is over without us: withdrawn by the agent, or its turn was canceled. */
    void (*on_request_gone)(void *user, const void *handle);
    /* The prompt in flight was answered. After cf_acp_cancel any answer ends the turn with
     * "cancelled"; result is NULL when that answer was an error. */
    void (*on_prompt_done)(void *user, const char *stop_reason, json_t *result, uint64_t frame);
    /* initialize, authenticate, session/new, /load, /resume or /prompt was answered with a JSON-RPC
     * error, or with a result that is not one (then code is -32603 and the message says so).
     * `method` is static; error is {code,message,data?}, borrowed. */
    void (*on_call_failed)(void *user, const char *method, json_t *error, uint64_t frame);
    /* Bounded: of each kind 100 are told, the rest counted (cf_acp_finding_count). */
    void (*on_finding)(void *user, enum cf_acp_finding_kind kind, uint64_t frame, const char *text);
    /* The protocol is broken for good (unknown update kind, version, too many bad lines, over-long
     * line with a call in flight, ...). Once; nothing is sent or read any more. */
    void (*on_broken)(void *user, const struct cf_error *err);
};

struct cf_acp_options {
    size_t line_limit_bytes;      /* 0: 64 MiB */
    unsigned max_bad_lines;       /* consecutive; 0: 1000 */
    const char *client_name, *client_version; /* copied; NULL: cfrunner and its version */
    bool is_lenient;              /* unknown update kinds are findings, not the end */
    bool is_replay;               /* nothing is sent: cf_acp_replay_sent tells what was */
};

/* Callbacks may call anything here but cf_acp_free. NULL only out of memory. */
struct cf_acp *cf_acp_new(const struct cf_acp_options *options, const struct cf_acp_events *events, void *user);
/* Not from inside one of its callbacks. Calls nothing: not even the reply of a pending request. */
void cf_acp_free(struct cf_acp *acp);
int cf_acp_feed(struct cf_acp *acp, const char *bytes, size_t len); /* -1: out of memory */
/* stdout is at its end: a last line without LF is read, pending cf_acp_request calls get their
 * (NULL, NULL), the agent's pending requests are dropped. What was asked of initialize,
 * session/new or session/prompt stays open: the owner knows why the stream ended and says so. */
void cf_acp_end(struct cf_acp *acp);
/* Replay: one line that the client once sent. -1 when it is not a frame. */
int cf_acp_replay_sent(struct cf_acp *acp, const char *line, size_t len);

/* client_capabilities NULL: none. Each -1 when memory ran out, out of order, or not advertised by
 * the agent (CF_ERROR_INCOMPATIBLE): then nothing was sent. */
int cf_acp_initialize(struct cf_acp *acp, json_t *client_capabilities, struct cf_error *err);
/* The id of the first login that works without a terminal; NULL: none. Borrowed. */
const char *cf_acp_auth_method(const struct cf_acp *acp);
int cf_acp_authenticate(struct cf_acp *acp, const char *method_id, struct cf_error *err);
/* params without sessionId: {"cwd":...,"mcpServers":[...],"_meta"?...}; borrowed. */
int cf_acp_session_new(struct cf_acp *acp, json_t *params, struct cf_error *err);
int cf_acp_session_load(struct cf_acp *acp, const char *session_id, json_t *params, struct cf_error *err);
int cf_acp_session_resume(struct cf_acp *acp, const char *session_id, json_t *params, struct cf_error *err);
/* prompt: array of content blocks; borrowed. */
int cf_acp_prompt(struct cf_acp *acp, json_t *blocks, struct cf_error *err);
/* session/cancel once per turn; pending and later requests of the turn answered `cancelled`.
 * With no prompt in flight nothing is sent. */
int cf_acp_cancel(struct cf_acp *acp);
bool cf_acp_is_canceled(const struct cf_acp *acp);
/* option_id NULL: outcome cancelled. -1 when it was not offered or is no longer pending. */
int cf_acp_permission_answer(struct cf_acp *acp, const void *handle, const char *option_id);
/* Which option says yes or no, by kind and never by position; NULL: answer cancelled. Allowing
 * prefers allow_once and is a no where the question is not one: a switch of mode, or several
 * options that all allow. Denying prefers reject_once. Borrowed from the permission. */
const char *cf_acp_permission_pick(const struct cf_acp_permission *permission, bool is_allowed);
/* Answers of on_request; result borrowed. -1 when no longer pending. */
int cf_acp_answer(struct cf_acp *acp, const void *handle, json_t *result);
int cf_acp_refuse(struct cf_acp *acp, const void *handle, int code, const char *message);
/* The same with data (borrowed; NULL: none) beside the message. */
int cf_acp_refuse_with(struct cf_acp *acp, const void *handle, int code, const char *message, json_t *data);
int cf_acp_session_close(struct cf_acp *acp); /* only when the agent advertised it; else 0 and nothing sent */
/* Any other request: an extension (`_checkfu/session/steer`), session/set_mode,
 * session/set_config_option, session/list, session/delete, logout. done (may be NULL) gets result
 * or error exactly once, also when the connection ends or breaks (both NULL then). sessionId is
 * put in front of params when there is a session and params has none. */
typedef void cf_acp_reply_fn(void *user, json_t *result, json_t *error, uint64_t frame);
int cf_acp_request(struct cf_acp *acp, const char *method, json_t *params, cf_acp_reply_fn *done, void *user,
                   struct cf_error *err);
/* Asks the agent to give up the pending request of this done and user ($/cancel_request); its
 * answer still comes, or not. -1 when none is pending. */
int cf_acp_withdraw(struct cf_acp *acp, cf_acp_reply_fn *done, void *user);
/* Whether the agent advertised what this method or prompt block type ("image") needs. */
bool cf_acp_can(const struct cf_acp *acp, const char *what);
const char *cf_acp_session_id(const struct cf_acp *acp); /* NULL before */
/* For failure reports: frames and bytes seen from the agent, first bytes of stdout (at most 200,
 * one printable line), lines that were no frames, findings of a kind. */
uint64_t cf_acp_frames_seen(const struct cf_acp *acp);
uint64_t cf_acp_bytes_seen(const struct cf_acp *acp);
const char *cf_acp_first_bytes(const struct cf_acp *acp);
uint64_t cf_acp_bad_lines(const struct cf_acp *acp);
uint64_t cf_acp_finding_count(const struct cf_acp *acp, enum cf_acp_finding_kind kind);

/* ---- oneshot ---------------------------------------------------------------------------- */

enum cf_oneshot_mode { CF_ONESHOT_TEXT = 1, CF_ONESHOT_STREAM_JSON = 2 };

struct cf_oneshot_events {
    /* text: a run of valid UTF-8 (repaired; never splits a character), as it comes. */
    void (*on_text)(void *user, const char *text, size_t len, uint64_t line);
    /* stream_json: one authorable observation object {"type","payload"}, schema not yet checked. */
    void (*on_object)(void *user, json_t *object, uint64_t line);
    void (*on_finding)(void *user, uint64_t line, const char *text); /* repaired bytes, ... */
    /* Not JSON, not authorable, output after finished, over-long line: names the line. Once. */
    void (*on_broken)(void *user, const struct cf_error *err);
};
struct cf_oneshot;
/* NULL only out of memory. Not to be freed from inside a callback. A broken one reads no more. */
struct cf_oneshot *cf_oneshot_new(enum cf_oneshot_mode mode, const struct cf_oneshot_events *events, void *user);
void cf_oneshot_free(struct cf_oneshot *oneshot);
int cf_oneshot_feed(struct cf_oneshot *oneshot, const char *bytes, size_t len); /* -1: out of memory */
void cf_oneshot_end(struct cf_oneshot *oneshot);

/*
 * Expands argv for one turn by the placeholder rules: {prompt_path}, {resume_flag},
 * {output_schema}, appended schema flag and value. Returns a NULL-terminated vector without
 * argv[0], yours: free with cf_argv_free; NULL with `err` (bounds of the expanded argv).
 */
struct cf_oneshot_turn {
    const char *const *argv;          /* the release's, NULL-terminated */
    const char *prompt_path;          /* NULL: prompt goes to stdin */
    const char *resume_flag;          /* the release's flag, or NULL */
    bool continues;                   /* this turn continues prior state */
    const char *output_schema_flag;   /* NULL when the turn has no schema */
    const char *output_schema_value;  /* compact JSON or path */
};
char **cf_oneshot_argv(const struct cf_oneshot_turn *turn, struct cf_error *err);
void cf_argv_free(char **argv);

#endif
