/* loop/http_conn.h: the inside of a server connection, shared by the reading half
 * (http_server.c) and the answering half (http_reply.c). Nobody else includes it. */
#ifndef CF_LOOP_HTTP_CONN_H
#define CF_LOOP_HTTP_CONN_H

#include "base/buf.h"
#include "loop/http_server.h"

struct http_parser;
struct http_parser_settings;

enum cf_http_state {
    CF_HTTP_IN_HEAD,   /* between requests, or inside a head */
    CF_HTTP_IN_BODY,   /* an exchange is open, its body not wholly here */
    CF_HTTP_ANSWERING, /* request is whole; input waits until the answer is out */
    CF_HTTP_TUNNEL,    /* bytes both ways, no HTTP any more */
    CF_HTTP_LINGERING, /* our side is shut; what still comes is dropped */
    CF_HTTP_CLOSED     /* gone or reset */
};

struct cf_http_field {
    char *name, *value; /* inside head */
};

struct cf_http_conn {
    const struct cf_http_io *io;
    void *io_user;
    const struct cf_http_handler *handler;
    void *user, *exchange_user;
    uint64_t max_body_bytes;

    enum cf_http_state state;
    struct http_parser *parser;
    struct cf_buf head;  /* the raw head; cut into strings in place once it is whole */
    struct cf_buf stash; /* fed, not yet dealt with */
    struct cf_http_field *fields;
    size_t field_count, field_room, target_len;
    struct cf_http_request request;
    char *path; /* own copy: the target is kept whole beside it */
    uint64_t body_seen, dropped, moved;
    bool has_exchange, is_whole, is_dropping, is_paused, is_too_large, is_eof;
    bool expects_continue, is_fields_broken;

    struct cf_buf out;
    size_t out_at;
    uint64_t body_left; /* of a sized answer */
    bool is_head, is_http10, close_after;
    bool reply_begun, reply_ended, reply_chunked, reply_sized, reply_bodyless, is_half_shut;

    unsigned depth; /* calls into us on the stack; free waits for the outermost */
    bool is_advancing, is_freed;
};

/* http_head.c: takes bytes up to the end of the head (*ret_whole) or the first one that no head may
 * hold (*ret_why); returns how many. Then the whole head into conn->request; NULL, or why not. */
size_t cf_http_head_collect(struct cf_http_conn *conn, const char *bytes, size_t len, bool *ret_whole,
                            const char **ret_why);
const char *cf_http_head_parse(struct cf_http_conn *conn);
extern const struct http_parser_settings cf_http_settings;
/* The parser's on_body, in http_server.c. */
int cf_http_on_body(struct http_parser *parser, const char *at, size_t len);

void cf_http_conn_enter(struct cf_http_conn *conn);
void cf_http_conn_leave(struct cf_http_conn *conn);
/* Goes on with whatever can go on: flush, end of exchange, stashed input. */
void cf_http_conn_advance(struct cf_http_conn *conn);
/* Hands queued bytes to io.write; true when nothing is left. */
bool cf_http_conn_flush(struct cf_http_conn *conn);
/* Ends everything: on_abort when an exchange is open, then io.reset. */
void cf_http_conn_cut(struct cf_http_conn *conn);
/* 100 Continue, ahead of the answer. */
void cf_http_reply_continue(struct cf_http_conn *conn);
void cf_http_reply_reset_state(struct cf_http_conn *conn);

#endif
