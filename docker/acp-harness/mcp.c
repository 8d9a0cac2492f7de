/* MCP servers over HTTP that a session was given. */
#include "mcp.h"

#include "base/clock.h"
#include "base/str.h"
#include "http.h"
#include "sse.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONNECT_MS = 10 * 1000, CALL_MS = 60 * 1000, ANSWER_LIMIT = 16 * 1024 * 1024 };

struct hn_mcp {
    struct hn_mcp *next;
    char *name;
    struct hn_url url;
    struct cf_buf headers;
    char session[128];
    json_int_t last_id;
    json_t *tools; /* as tools/list gave them */
};

/* ---- one exchange ----------------------------------------------------------------------- */

struct exchange {
    struct hn_http http;
    struct hn_sse sse;
    struct cf_buf body;
    json_int_t id;
    json_t *answer; /* the response to `id`, owned */
};

static void
consider(struct exchange *exchange, const char *bytes, size_t len)
{
    json_t *message = json_loadb(bytes, len, JSON_ALLOW_NUL, NULL);

    if (exchange->answer == NULL && json_object_get(message, "method") == NULL &&
        json_integer_value(json_object_get(message, "id")) == exchange->id)
        exchange->answer = json_incref(message);
    json_decref(message);
}

static int
on_event(void *user, const char *data, size_t len, struct cf_error *err)
{
    consider(user, data, len);
    return 0;
}

static int
on_body(void *user, const char *bytes, size_t len, struct cf_error *err)
{
    struct exchange *exchange = user;

    if (exchange->http.is_event_stream)
        return hn_sse_feed(&exchange->sse, bytes, len, err);
    if (cf_buf_add(&exchange->body, bytes, len) < 0)
        return cf_error_set(err, CF_ERROR_WIRE, 0, "the answer is larger than 16 MiB");
    return 0;
}

static int
wait_for(struct exchange *exchange, unsigned limit_ms, struct cf_error *err)
{
    uint64_t until = cf_clock_ms() + limit_ms, now;
    int status = 0;

    /* A server may keep its event stream open after the answer. */
    while (status == 0 && exchange->answer == NULL) {
        struct pollfd wait = { .fd = exchange->http.fd, .events = hn_http_events(&exchange->http) };

        now = cf_clock_ms();
        if (now >= until)
            return cf_error_set(err, CF_ERROR_HARNESS, 0, "no answer within %u ms", limit_ms);
        (void)poll(&wait, 1, (int)(until - now)); /* whatever it says, the socket knows better */
        status = hn_http_ready(&exchange->http, err);
    }
    return status < 0 ? -1 : 0;
}

static int
post(struct hn_mcp *server, struct exchange *exchange, json_t *message, unsigned limit_ms,
     struct cf_error *err)
{
    cf_auto_free char *text = json_dumps(message, JSON_COMPACT);
    struct cf_buf headers = { 0 };
    int status;

    cf_buf_adds(&headers, "Accept: application/json, text/event-stream\r\n");
    cf_buf_add(&headers, server->headers.data, server->headers.len);
    if (server->session[0] != '\0')
        cf_buf_addf(&headers, "Mcp-Session-Id: %s\r\n", server->session);
    exchange->sse.on_event = on_event;
    exchange->sse.user = exchange;
    exchange->body.limit_bytes = ANSWER_LIMIT;
    status = hn_http_post(&exchange->http, &server->url, server->url.path[0] ? "" : "/",
                          headers.data, text, strlen(text), on_body, exchange, err);
    cf_buf_release(&headers);
    if (status == 0)
        status = wait_for(exchange, limit_ms, err);
    if (status == 0 && exchange->http.status / 100 != 2)
        status = cf_error_set(err, CF_ERROR_HARNESS, exchange->http.status, "HTTP %d",
                              exchange->http.status);
    if (status == 0 && exchange->body.len > 0)
        consider(exchange, exchange->body.data, exchange->body.len);
    if (status == 0 && exchange->http.mcp_session[0] != '\0')
        strcpy(server->session, exchange->http.mcp_session);
    return status;
}

/* A request (`ret_result` given; the result is yours) or a notification. Takes `params`. */
static int
speak(struct hn_mcp *server, const char *method, json_t *params, unsigned limit_ms,
      json_t **ret_result, struct cf_error *err)
{
    struct exchange exchange = { .id = ++server->last_id };
    json_t *message = json_pack("{s:s, s:s, s:o}", "jsonrpc", "2.0", "method", method, "params",
                                params);
    json_t *result;
    int status;

    if (ret_result != NULL)
        json_object_set_new(message, "id", json_integer(exchange.id));
    status = post(server, &exchange, message, limit_ms, err);
    result = json_object_get(exchange.answer, "result");
    if (status == 0 && ret_result != NULL && result == NULL)
        status = cf_error_set(err, CF_ERROR_HARNESS, 0, "no result");
    if (status == 0 && ret_result != NULL)
        *ret_result = json_incref(result);
    json_decref(message);
    json_decref(exchange.answer);
    hn_http_release(&exchange.http);
    hn_sse_release(&exchange.sse);
    cf_buf_release(&exchange.body);
    return status < 0 ? cf_error_wrap(err, "MCP server %s: %s", server->name, method) : 0;
}

/* ---- connecting ------------------------------------------------------------------------- */

static int
take_headers(struct hn_mcp *server, json_t *list, struct cf_error *err)
{
    json_t *pair;
    size_t i;

    json_array_foreach (list, i, pair) {
        const char *name = json_string_value(json_object_get(pair, "name"));
        const char *value = json_string_value(json_object_get(pair, "value"));

        if (name == NULL || value == NULL || strpbrk(name, ": \r\n") || strpbrk(value, "\r\n"))
            return cf_error_set(err, CF_ERROR_CONFIG, 0, "MCP server %s: a malformed header",
                                server->name);
        cf_buf_addf(&server->headers, "%s: %s\r\n", name, value);
    }
    return 0;
}

static int
greet(struct hn_mcp *server, struct cf_error *err)
{
    json_t *result = NULL;
    int status = speak(server, "initialize",
                       json_pack("{s:s, s:{}, s:{s:s, s:s}}", "protocolVersion", "2025-06-18",
                                 "capabilities", "clientInfo", "name", "checkfu-reference-acp",
                                 "version", CFRUNNER_VERSION),
                       CONNECT_MS, &result, err);

    json_decref(result);
    if (status == 0)
        status = speak(server, "notifications/initialized", json_object(), CONNECT_MS, NULL, err);
    result = NULL;
    if (status == 0)
        status = speak(server, "tools/list", json_object(), CONNECT_MS, &result, err);
    server->tools = json_incref(json_object_get(result, "tools"));
    json_decref(result);
    return status;
}

static int
connect_one(struct hn_mcp *server, json_t *descriptor, struct cf_error *err)
{
    const char *type = json_string_value(json_object_get(descriptor, "type"));
    const char *name = json_string_value(json_object_get(descriptor, "name"));
    const char *url = json_string_value(json_object_get(descriptor, "url"));

    if (type == NULL || strcmp(type, "http") != 0)
        return cf_error_set(err, CF_ERROR_CONFIG, 0,
                            "this agent speaks with MCP servers of type http only");
    if (name == NULL || name[0] == '\0' || url == NULL)
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "an MCP server needs a name and a url");
    if (cf_str_copy(&server->name, name, err) < 0 ||
        take_headers(server, json_object_get(descriptor, "headers"), err) < 0)
        return -1;
    if (hn_url_parse(&server->url, url, err) < 0)
        return cf_error_wrap(err, "MCP server %s", name);
    return greet(server, err);
}

int
hn_mcp_connect(struct hn_mcp **ret_list, json_t *servers, struct cf_error *err)
{
    struct hn_mcp *list = NULL, **end = &list;
    json_t *descriptor;
    size_t i;

    json_array_foreach (servers, i, descriptor) {
        *end = calloc(1, sizeof **end);
        if (*end == NULL || connect_one(*end, descriptor, err) < 0) {
            hn_mcp_free(list);
            return -1;
        }
        end = &(*end)->next;
    }
    *ret_list = list;
    return 0;
}

void
hn_mcp_free(struct hn_mcp *list)
{
    while (list != NULL) {
        struct hn_mcp *next = list->next;

        free(list->name);
        cf_buf_release(&list->headers);
        json_decref(list->tools);
        free(list);
        list = next;
    }
}

/* ---- tools ------------------------------------------------------------------------------ */

static const char *
text_of(json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text != NULL ? text : "";
}

void
hn_mcp_offer(const struct hn_mcp *list, json_t *tools)
{
    char name[160];
    json_t *tool;
    size_t i;

    for (; list != NULL; list = list->next)
        json_array_foreach (list->tools, i, tool) {
            json_t *schema = json_object_get(tool, "inputSchema");

            snprintf(name, sizeof name, "mcp__%s__%s", list->name, text_of(tool, "name"));
            json_array_append_new(tools, json_pack("{s:s, s:s, s:o}", "name", name, "description",
                                                   text_of(tool, "description"), "parameters",
                                                   schema != NULL ? json_incref(schema)
                                                                  : json_object()));
        }
}

static struct hn_mcp *
server_of(struct hn_mcp *list, const char *name, const char **ret_tool)
{
    for (; list != NULL; list = list->next) {
        size_t len = strlen(list->name);

        if (cf_str_starts(name, "mcp__") && strncmp(name + 5, list->name, len) == 0 &&
            cf_str_starts(name + 5 + len, "__")) {
            *ret_tool = name + 5 + len + 2;
            return list;
        }
    }
    return NULL;
}

bool
hn_mcp_call(struct hn_mcp *list, const char *name, json_t *input, struct cf_buf *text,
            bool *ret_failed)
{
    const char *tool = NULL;
    struct hn_mcp *server = server_of(list, name, &tool);
    json_t *result = NULL, *part;
    struct cf_error err;
    size_t i;

    if (server == NULL)
        return false;
    if (speak(server, "tools/call", json_pack("{s:s, s:O}", "name", tool, "arguments", input),
              CALL_MS, &result, &err) < 0)
        cf_buf_adds(text, err.text);
    json_array_foreach (json_object_get(result, "content"), i, part)
        cf_buf_adds(text, text_of(part, "text"));
    *ret_failed = result == NULL || json_is_true(json_object_get(result, "isError"));
    json_decref(result);
    return true;
}
