/*
 * acp-harness/agent.h: the reference ACP v1 agent. One connection, several sessions, one turn at
 * a time; while a turn waits for its model or for the client, what the client says meanwhile is
 * handled in between.
 */
#ifndef HN_AGENT_H
#define HN_AGENT_H

#include "authority.h"
#include "mcp.h"
#include "wire.h"

struct hn_agent_options {
    const char *program;     /* argv[0]: what a client's terminal is asked to run */
    struct hn_declared declared;
    enum hn_dialect dialect;
    bool stream;             /* ask the model for a stream */
    bool ask_permission;     /* before the first tool call of each turn */
    bool ask_question;       /* an elicitation, where the client offers forms */
    bool use_fs;             /* write and read a file through the client, where it offers that */
    bool use_terminal;       /* run a command through the client, where it offers that */
    bool require_auth;
    bool accept_media;       /* image and audio blocks */
    double price;            /* US dollars per million tokens, reported as cost; 0: none */
};

struct hn_session {
    struct hn_session *next;
    char id[40];
    char *cwd;
    const char *mode, *verbosity; /* static words */
    bool is_open;                 /* closed ones can be loaded again until deleted */
    struct hn_authority authority;
    struct hn_mcp *servers;
    json_t *messages;             /* the conversation, as dialect.h has it */
    unsigned tools_made, messages_made;
    double cost;
};

struct hn_turn;

struct hn_agent {
    const struct hn_agent_options *options;
    struct hn_wire wire;
    struct hn_session *sessions;
    bool is_initialized, is_authenticated;
    bool client_reads, client_writes, client_terminal, client_forms;
    struct hn_turn *turn; /* the one that runs, or NULL */
    json_t *deferred;     /* prompts that came while another session's turn ran */
    json_int_t awaited;   /* id of our one open request; 0: none */
    json_t *answer;       /* its response, once there */
};

/* Serves stdin until its end. Returns the process's exit code. */
int hn_agent_run(const struct hn_agent_options *options);

/* Sleeps until something happens (see hn_wire_wait), then handles all messages that came. */
void hn_agent_pump(struct hn_agent *agent, const struct hn_call *call, uint64_t until_ms);

struct hn_session *hn_session_find(struct hn_agent *agent, const char *id);

/* Sends one session/update; takes `update`. */
void hn_session_update(struct hn_agent *agent, struct hn_session *session, json_t *update);

/* Everything that was said so far, again, for session/load. */
void hn_session_replay(struct hn_agent *agent, struct hn_session *session);

/* The methods of session.c: answer the request `id`. */
void hn_session_new(struct hn_agent *agent, json_t *id, json_t *params);
void hn_session_load(struct hn_agent *agent, json_t *id, json_t *params, bool with_replay);
void hn_session_list(struct hn_agent *agent, json_t *id);
void hn_session_close(struct hn_agent *agent, json_t *id, json_t *params, bool and_delete);
void hn_session_set_mode(struct hn_agent *agent, json_t *id, json_t *params);
void hn_session_set_option(struct hn_agent *agent, json_t *id, json_t *params);
void hn_sessions_release(struct hn_agent *agent);

#endif
