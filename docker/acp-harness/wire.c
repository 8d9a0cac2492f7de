/* JSON-RPC 2.0 on stdin and stdout, one message a line. */
#include "wire.h"

#include "base/clock.h"
#include "base/str.h"
#include "file.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_LIMIT = 128 * 1024 * 1024 };

static void
read_some(struct hn_wire *wire)
{
    char bytes[64 * 1024];
    ssize_t n = read(STDIN_FILENO, bytes, sizeof bytes);

    if (n < 0 && errno == EINTR)
        return;
    if (wire->at > 0 && wire->at >= wire->in.len / 2) { /* moved rarely: linear in all */
        cf_buf_drop(&wire->in, wire->at);
        wire->scanned -= wire->at;
        wire->at = 0;
    }
    wire->in.limit_bytes = LINE_LIMIT;
    if (n <= 0 || cf_buf_add(&wire->in, bytes, (size_t)n) < 0)
        wire->at_eof = true;
}

void
hn_wire_wait(struct hn_wire *wire, const struct hn_call *call, uint64_t until_ms)
{
    struct pollfd fds[2] = { { .fd = wire->at_eof ? -1 : STDIN_FILENO, .events = POLLIN },
                             { .fd = -1 } };
    uint64_t now = cf_clock_ms();
    uint64_t left = until_ms > now ? until_ms - now : 0;

    if (call != NULL && call->is_open)
        fds[1] = (struct pollfd){ .fd = call->http.fd, .events = hn_http_events(&call->http) };
    if (poll(fds, 2, left > 60000 ? 60000 : (int)left) > 0 && fds[0].revents != 0)
        read_some(wire);
}

/* The next line without its end; false when none is whole yet. */
static bool
next_line(struct hn_wire *wire, const char **ret_line, size_t *ret_len)
{
    const char *start, *end;

    if (wire->in.data == NULL)
        return false;
    start = wire->in.data + wire->at;
    end = memchr(wire->in.data + wire->scanned, '\n', wire->in.len - wire->scanned);
    if (end == NULL) {
        wire->scanned = wire->in.len;
        return false;
    }
    *ret_line = start;
    *ret_len = (size_t)(end - start);
    wire->at = wire->scanned = (size_t)(end - wire->in.data) + 1;
    return true;
}

json_t *
hn_wire_take(struct hn_wire *wire)
{
    const char *line;
    size_t len;

    while (next_line(wire, &line, &len)) {
        json_error_t why;
        json_t *message;

        if (len == 0 || (len == 1 && line[0] == '\r'))
            continue;
        message = json_loadb(line, len, JSON_ALLOW_NUL, &why);
        if (json_is_object(message))
            return message;
        hn_wire_error(wire, NULL, message == NULL ? HN_PARSE_ERROR : HN_INVALID_REQUEST,
                      message == NULL ? why.text : "a message is one JSON object");
        json_decref(message);
    }
    return NULL;
}

static void
send_message(struct hn_wire *wire, json_t *message)
{
    cf_auto_free char *text = json_dumps(message, JSON_COMPACT);
    size_t len = text != NULL ? strlen(text) : 0;

    json_decref(message);
    if (text == NULL || wire->is_broken)
        return;
    text[len] = '\n'; /* in place of the NUL: one write, one line */
    if (hn_write_all(STDOUT_FILENO, text, len + 1) < 0) {
        fprintf(stderr, "acp-agent: stdout: %s\n", strerror(errno));
        wire->is_broken = wire->at_eof = true;
    }
}

static json_t *
envelope(json_t *id)
{
    json_t *message = json_pack("{s:s}", "jsonrpc", "2.0");

    json_object_set(message, "id", id != NULL ? id : json_null());
    return message;
}

void
hn_wire_notify(struct hn_wire *wire, const char *method, json_t *params)
{
    send_message(wire, json_pack("{s:s, s:s, s:o}", "jsonrpc", "2.0", "method", method, "params",
                                 params));
}

json_int_t
hn_wire_request(struct hn_wire *wire, const char *method, json_t *params)
{
    json_int_t id = ++wire->last_id;

    send_message(wire, json_pack("{s:s, s:I, s:s, s:o}", "jsonrpc", "2.0", "id", id, "method",
                                 method, "params", params));
    return id;
}

void
hn_wire_result(struct hn_wire *wire, json_t *id, json_t *result)
{
    json_t *message = envelope(id);

    json_object_set_new(message, "result", result);
    send_message(wire, message);
}

void
hn_wire_error(struct hn_wire *wire, json_t *id, int code, const char *text)
{
    json_t *message = envelope(id);

    json_object_set_new(message, "error", json_pack("{s:i, s:s}", "code", code, "message", text));
    send_message(wire, message);
}

void
hn_wire_release(struct hn_wire *wire)
{
    cf_buf_release(&wire->in);
}
