/*
 * wire/acp_send.c: one frame of ours, written as text around the trees it carries: a prompt of
 * some megabytes is dumped once and never copied as a tree.
 */
#include "wire/acp_core.h"

#include "json/json.h"

#include <string.h>

int
acp_send_line(struct cf_acp *acp, struct cf_buf *line)
{
    int status = 0;

    if (cf_buf_add(line, "\n", 1) < 0 || line->failed) {
        acp->has_no_memory = true;
        status = -1;
    } else if (!acp->is_broken && !acp->is_ended && !acp->is_replay) {
        acp->frames++;
        if (acp->on.on_frame != NULL)
            acp->on.on_frame(acp->user, false, acp->frames, line->data, line->len - 1);
        if (acp->on.send != NULL)
            acp->on.send(acp->user, line->data, line->len);
    }
    cf_buf_release(line);
    return status;
}

static void
add_params(struct cf_buf *line, const char *session_id, json_t *params)
{
    const char *sep = "";
    const char *name;
    json_t *value;

    (void)cf_buf_adds(line, "{");
    if (session_id != NULL && json_object_get(params, "sessionId") == NULL) {
        (void)cf_buf_adds(line, "\"sessionId\":");
        (void)cf_json_append_string(line, session_id, strlen(session_id));
        sep = ",";
    }
    json_object_foreach(params, name, value) {
        (void)cf_buf_adds(line, sep);
        (void)cf_json_append_string(line, name, strlen(name));
        (void)cf_buf_adds(line, ":");
        (void)cf_json_append(line, value);
        sep = ",";
    }
    (void)cf_buf_adds(line, "}");
}

int
acp_send_call(struct cf_acp *acp, json_t *id, const char *method, const char *session_id,
              json_t *params)
{
    struct cf_buf line = {0};

    (void)cf_buf_adds(&line, "{\"jsonrpc\":\"2.0\"");
    if (id != NULL) {
        (void)cf_buf_adds(&line, ",\"id\":");
        (void)cf_json_append(&line, id);
    }
    (void)cf_buf_adds(&line, ",\"method\":");
    (void)cf_json_append_string(&line, method, strlen(method));
    (void)cf_buf_adds(&line, ",\"params\":");
    add_params(&line, session_id, params);
    (void)cf_buf_adds(&line, "}");
    return acp_send_line(acp, &line);
}

static void
open_response(struct cf_buf *line, json_t *id)
{
    (void)cf_buf_adds(line, "{\"jsonrpc\":\"2.0\",\"id\":");
    (void)cf_json_append(line, id);
}

int
acp_send_result(struct cf_acp *acp, json_t *id, json_t *result)
{
    struct cf_buf line = {0};

    open_response(&line, id);
    (void)cf_buf_adds(&line, ",\"result\":");
    if (result == NULL)
        (void)cf_buf_adds(&line, "{}");
    else
        (void)cf_json_append(&line, result);
    (void)cf_buf_adds(&line, "}");
    return acp_send_line(acp, &line);
}

int
acp_send_outcome(struct cf_acp *acp, json_t *id, const char *option_id)
{
    struct cf_buf line = {0};

    open_response(&line, id);
    if (option_id == NULL) {
        (void)cf_buf_adds(&line, ",\"result\":{\"outcome\":{\"outcome\":\"cancelled\"}}}");
    } else {
        (void)cf_buf_adds(&line,
                          ",\"result\":{\"outcome\":{\"outcome\":\"selected\",\"optionId\":");
        (void)cf_json_append_string(&line, option_id, strlen(option_id));
        (void)cf_buf_adds(&line, "}}}");
    }
    return acp_send_line(acp, &line);
}

int
acp_send_error(struct cf_acp *acp, json_t *id, int code, const char *message, json_t *data)
{
    struct cf_buf line = {0};

    open_response(&line, id);
    (void)cf_buf_addf(&line, ",\"error\":{\"code\":%d,\"message\":", code);
    (void)cf_json_append_string(&line, message, strlen(message));
    if (data != NULL) {
        (void)cf_buf_adds(&line, ",\"data\":");
        (void)cf_json_append(&line, data);
    }
    (void)cf_buf_adds(&line, "}}");
    return acp_send_line(acp, &line);
}
