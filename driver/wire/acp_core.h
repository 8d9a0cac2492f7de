/* wire/acp_core.h: what the files of the acp client share. */
#ifndef CF_WIRE_ACP_CORE_H
#define CF_WIRE_ACP_CORE_H

#include "base/buf.h"
#include "wire/wire.h"

#define ACP_CALLS_MAX 64u     /* ours in flight */
#define ACP_REQUESTS_MAX 128u /* the agent's in flight */
#define ACP_HELD_MAX 1024u    /* updates before the session is known ... */
#define ACP_HELD_BYTES (8u << 20) /* ... and the frames they came in */
#define ACP_FINDINGS_MAX 100u /* told of each kind */
#define ACP_FIRST_BYTES 200u
#define ACP_SESSION_ID_MAX 4096u

#define RPC_INVALID_PARAMS (-32602)
#define RPC_METHOD_NOT_FOUND (-32601)
#define RPC_INTERNAL (-32603)
#define RPC_CANCELLED (-32800)

enum call_kind {
    CALL_INITIALIZE,
    CALL_AUTHENTICATE,
    CALL_SESSION_NEW,
    CALL_SESSION_LOAD,
    CALL_SESSION_RESUME,
    CALL_PROMPT,
    CALL_OTHER /* cf_acp_request */
};

/* A call of ours that waits for its answer. */
struct acp_call {
    struct acp_call *next;
    json_t *id;
    enum call_kind kind;
    char *session_id; /* session/load, session/resume: the one asked for */
    cf_acp_reply_fn *done;
    void *user;
};

/* A request of the agent's that waits for our answer. */
struct acp_pending {
    struct acp_pending *next;
    uintptr_t serial; /* the handle; never used again */
    json_t *id;
    json_t *params;
    bool is_permission, is_elicitation;
};

struct acp_held {
    json_t *params;
    uint64_t frame;
};

struct cf_acp {
    struct cf_acp_events on;
    void *user;
    struct cf_lines lines;
    unsigned max_bad_lines;
    bool is_lenient, is_replay;
    char *client_name, *client_version;

    struct acp_call *calls;
    unsigned call_count;
    struct acp_pending *pending;
    unsigned pending_count;
    uintptr_t next_serial;
    int64_t next_id;

    json_t *client; /* what we advertised */
    json_t *agent;  /* result of initialize; NULL before */
    char *session_id;
    struct acp_held *held;
    size_t held_count, held_bytes;
    size_t line_len; /* of the frame being read */
    json_t *told_methods; /* unknown methods that had their finding */

    bool is_loading;    /* session/load in flight: what comes is history */
    bool is_prompting;  /* a prompt is in flight */
    bool is_canceled;   /* in this turn */
    bool is_broken, is_ended, has_no_memory;
    uint64_t prompt_done_frame; /* of the last turn; 0: no turn yet, or one in flight */

    uint64_t frames, frames_seen, bytes_seen, bad_lines;
    unsigned bad_in_a_row;
    uint64_t findings[CF_ACP_LENIENCY + 1];
    char first[ACP_FIRST_BYTES], first_line[ACP_FIRST_BYTES + 1];
    size_t first_len;
};

/* acp.c */
void acp_finding(struct cf_acp *acp, enum cf_acp_finding_kind kind, uint64_t frame, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void acp_break(struct cf_acp *acp, enum cf_error_kind kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* acp_send.c: building and sending one frame. Each returns -1 only when memory ran out. */
int acp_send_line(struct cf_acp *acp, struct cf_buf *line);
int acp_send_call(struct cf_acp *acp, json_t *id, const char *method, const char *session_id,
                  json_t *params);
int acp_send_result(struct cf_acp *acp, json_t *id, json_t *result);
int acp_send_outcome(struct cf_acp *acp, json_t *id, const char *option_id);
int acp_send_error(struct cf_acp *acp, json_t *id, int code, const char *message, json_t *data);

/* acp_ask.c */
void acp_begin_turn(struct cf_acp *acp);

/* acp_call.c */
const char *acp_call_name(enum call_kind kind);
struct acp_call *acp_call_new(struct cf_acp *acp, enum call_kind kind, json_t *id);
void acp_call_forget(struct acp_call *call);
void acp_on_response(struct cf_acp *acp, json_t *frame, uint64_t number);
void acp_fail_calls(struct cf_acp *acp);
bool acp_is_same_id(const json_t *ours, const json_t *theirs, bool *ret_is_lenient);

/* acp_serve.c */
void acp_on_request(struct cf_acp *acp, json_t *id, const char *method, json_t *params, uint64_t number);
void acp_on_notification(struct cf_acp *acp, const char *method, json_t *params, uint64_t number);
void acp_release_held(struct cf_acp *acp);
void acp_drop_held(struct cf_acp *acp);

/* acp_pending.c */
struct acp_pending *acp_add_pending(struct cf_acp *acp, json_t *id, json_t *params);
void acp_forget_pending(struct cf_acp *acp, const void *handle);
void acp_withdraw_pending(struct cf_acp *acp, const json_t *id);
void acp_cancel_pending(struct cf_acp *acp);
void acp_drop_pending(struct cf_acp *acp);
void acp_settle_pending(struct cf_acp *acp, const json_t *id);

/* acp_words.c: the closed sets of ACP v1. */
enum acp_update_class { ACP_UPDATE_UNKNOWN, ACP_UPDATE_UNSTABLE, ACP_UPDATE_OUTPUT, ACP_UPDATE_STATE };
enum acp_update_class acp_update_class(const char *kind);
bool acp_is_stop_reason(const char *word);
/* Static name of the method, "" when it needs no capability, NULL when it is not ACP v1's. */
const char *acp_method_needs(const char *method);
bool acp_is_advertised(const json_t *capabilities, const char *path);
const char *acp_client_method_needs(const char *method);

#endif
