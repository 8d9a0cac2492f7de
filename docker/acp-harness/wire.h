/*
 * acp-harness/wire.h: JSON-RPC 2.0 on stdin and stdout, one message a line.
 *
 * Reading never blocks the turn: hn_wire_wait sleeps until the client says something, until the
 * model does, or until a time has come. Writing blocks, as the client always reads.
 */
#ifndef HN_WIRE_H
#define HN_WIRE_H

#include "model.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum { HN_PARSE_ERROR = -32700, HN_INVALID_REQUEST = -32600, HN_NO_METHOD = -32601,
       HN_INVALID_PARAMS = -32602, HN_INTERNAL = -32603, HN_AUTH_REQUIRED = -32000,
       HN_NOT_FOUND = -32002, HN_REQUEST_CANCELLED = -32800 };

struct hn_wire {
    struct cf_buf in;
    size_t at, scanned; /* start of the next line; bytes known to hold no line end */
    bool at_eof, is_broken;
    json_int_t last_id;
};

/* Sleeps until there is input, until `call` (may be NULL) is ready, or until `until_ms` on the
 * monotonic clock. Input is read into the buffer. */
void hn_wire_wait(struct hn_wire *wire, const struct hn_call *call, uint64_t until_ms);

/* The next whole message, yours, or NULL. A line that is not a JSON object is answered with an
 * error here and passed over. */
json_t *hn_wire_take(struct hn_wire *wire);

/* Each takes over `params`, `result` or `data`; `id` is borrowed. */
void hn_wire_notify(struct hn_wire *wire, const char *method, json_t *params);
json_int_t hn_wire_request(struct hn_wire *wire, const char *method, json_t *params);
void hn_wire_result(struct hn_wire *wire, json_t *id, json_t *result);
void hn_wire_error(struct hn_wire *wire, json_t *id, int code, const char *message);

void hn_wire_release(struct hn_wire *wire);

#endif
