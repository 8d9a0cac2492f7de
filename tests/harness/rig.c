/* A model to ask, on a loopback port, and a harness to run against it. */
#include "rig.h"

#include "tests/support/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the model -------------------------------------------------------------------------- */

static const char *
last_user_text(json_t *body)
{
    json_t *list = json_object_get(body, "messages"), *content;

    if (list == NULL)
        list = json_object_get(body, "input");
    for (size_t i = json_array_size(list); i-- > 0;) {
        json_t *message = json_array_get(list, i);
        const char *role = json_string_value(json_object_get(message, "role"));

        if (role == NULL || strcmp(role, "user") != 0)
            continue;
        content = json_object_get(message, "content");
        if (json_is_array(content))
            content = json_object_get(json_array_get(content, 0), "text");
        return json_string_value(content);
    }
    return "";
}

static void
event(char **to, json_t *data)
{
    char *text = json_dumps(data, JSON_COMPACT);
    char *more = NULL;

    if (asprintf(&more, "%sdata: %s\n\n", *to != NULL ? *to : "", text) < 0)
        abort();
    free(text);
    free(*to);
    *to = more;
    json_decref(data);
}

static char *
streamed(const char *path, const char *text)
{
    char *out = NULL, piece[8];

    if (strstr(path, "/messages") != NULL)
        event(&out, json_pack("{s:s, s:{s:{s:i, s:i}}}", "type", "message_start", "message",
                              "usage", "input_tokens", 10, "output_tokens", 1));
    for (size_t at = 0; at < strlen(text); at += 5) { /* ASCII answers only */
        snprintf(piece, sizeof piece, "%.5s", text + at);
        if (strstr(path, "/messages") != NULL)
            event(&out, json_pack("{s:s, s:i, s:{s:s, s:s}}", "type", "content_block_delta",
                                  "index", 0, "delta", "type", "text_delta", "text", piece));
        else if (strstr(path, "/responses") != NULL)
            event(&out, json_pack("{s:s, s:s}", "type", "response.output_text.delta", "delta", piece));
        else
            event(&out, json_pack("{s:[{s:{s:s}, s:n}]}", "choices", "delta", "content", piece,
                                  "finish_reason"));
    }
    if (strstr(path, "/messages") != NULL) {
        event(&out, json_pack("{s:s, s:{s:s}, s:{s:i}}", "type", "message_delta", "delta",
                              "stop_reason", "end_turn", "usage", "output_tokens", 3));
        event(&out, json_pack("{s:s}", "type", "message_stop"));
    } else if (strstr(path, "/responses") != NULL) {
        event(&out, json_pack("{s:s, s:{s:s, s:s, s:{s:i, s:i}}}", "type", "response.completed",
                              "response", "id", "r", "status", "completed", "usage",
                              "input_tokens", 10, "output_tokens", 3));
    } else {
        event(&out, json_pack("{s:[{s:{}, s:s}], s:{s:i, s:i}}", "choices", "delta",
                              "finish_reason", "stop", "usage", "prompt_tokens", 10,
                              "completion_tokens", 3));
    }
    return out;
}

static char *
whole(const char *path, const char *text, const char *tool, const char *input)
{
    json_t *root;
    char *out;

    if (strstr(path, "/messages") != NULL)
        root = json_pack("{s:[{s:s, s:s}], s:s, s:{s:i, s:i}}", "content", "type", "text", "text",
                         text, "stop_reason", "end_turn", "usage", "input_tokens", 10,
                         "output_tokens", 3);
    else if (strstr(path, "/responses") != NULL)
        root = json_pack("{s:s, s:[{s:s, s:[{s:s, s:s}]}], s:{s:i, s:i}}", "status", "completed",
                         "output", "type", "message", "content", "type", "output_text", "text",
                         text, "usage", "input_tokens", 10, "output_tokens", 3);
    else if (tool != NULL)
        root = json_pack("{s:[{s:{s:n, s:[{s:s, s:s, s:{s:s, s:s}}]}, s:s}]}", "choices",
                         "message", "content", "tool_calls", "id", "c1", "type", "function",
                         "function", "name", tool, "arguments", input, "finish_reason",
                         "tool_calls");
    else
        root = json_pack("{s:[{s:{s:s}, s:s}], s:{s:i, s:i}}", "choices", "message", "content",
                         text, "finish_reason", "stop", "usage", "prompt_tokens", 10,
                         "completion_tokens", 3);
    out = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    return out;
}

static json_t *
read_request(int fd, char *path, size_t size)
{
    static char bytes[1 << 22];
    size_t len = 0, head = 0, want = 0;
    char key[128] = "";
    json_t *asked;

    for (;;) {
        ssize_t n = read(fd, bytes + len, sizeof bytes - 1 - len);
        char *end, *length, *auth;

        if (n <= 0)
            return NULL;
        len += (size_t)n;
        bytes[len] = '\0';
        end = strstr(bytes, "\r\n\r\n");
        if (end == NULL)
            continue;
        head = (size_t)(end - bytes) + 4;
        length = strcasestr(bytes, "content-length:");
        want = head + (length != NULL ? strtoul(length + 15, NULL, 10) : 0);
        if (len < want)
            continue;
        auth = strcasestr(bytes, "authorization: bearer ");
        if (auth != NULL && auth < end)
            sscanf(auth + 22, "%127[^\r]", key);
        auth = strcasestr(bytes, "x-api-key: ");
        if (auth != NULL && auth < end)
            sscanf(auth + 11, "%127[^\r]", key);
        break;
    }
    ck_assert_int_eq(sscanf(bytes, "POST %255s", path), 1);
    (void)size;
    asked = json_pack("{s:s, s:s, s:o}", "path", path, "key", key, "body",
                      json_loadb(bytes + head, want - head, JSON_ALLOW_NUL, NULL));
    return asked;
}

/* The same process is an MCP server at /mcp, whose one tool gives back what it is given. */
static char *
mcp_answer(json_t *body)
{
    const char *method = json_string_value(json_object_get(body, "method"));
    json_t *params = json_object_get(body, "params"), *root, *result;
    char *out;

    if (json_object_get(body, "id") == NULL)
        return strdup("");
    if (strcmp(method, "tools/list") == 0)
        result = json_pack("{s:[{s:s, s:s, s:{s:s}}]}", "tools", "name", "echo", "description",
                           "Gives back its text", "inputSchema", "type", "object");
    else if (strcmp(method, "tools/call") == 0)
        result = json_pack("{s:[{s:s, s:O}]}", "content", "type", "text", "text",
                           json_object_get(json_object_get(params, "arguments"), "text"));
    else
        result = json_pack("{s:s, s:{}}", "protocolVersion", "2025-06-18", "capabilities");
    root = json_pack("{s:s, s:O, s:o}", "jsonrpc", "2.0", "id", json_object_get(body, "id"),
                     "result", result);
    out = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    return out;
}

static void
serve(struct rig_model *model, int fd, int *nth)
{
    char path[256], text[65536];
    json_t *asked = read_request(fd, path, sizeof path), *body;
    char *out, *line;
    FILE *log;
    bool stream, calls;

    if (asked == NULL)
        return;
    line = json_dumps(asked, JSON_COMPACT);
    log = fopen(model->log, "a");
    fprintf(log, "%s\n", line);
    fclose(log);
    free(line);
    body = json_object_get(asked, "body");
    while (model->gated && access(model->gate, F_OK) != 0)
        usleep(5000);
    stream = json_is_true(json_object_get(body, "stream"));
    if (strcmp(path, "/mcp") == 0) {
        out = mcp_answer(body);
        dprintf(fd, "HTTP/1.1 200 X\r\nMcp-Session-Id: box-1\r\nContent-Type: application/json\r\n"
                    "Content-Length: %zu\r\n\r\n%s", strlen(out), out);
        free(out);
        json_decref(asked);
        return;
    }
    calls = model->tool != NULL && *nth == 0 && json_object_get(body, "tools") != NULL;
    ++*nth;
    snprintf(text, sizeof text, "echo: %s", last_user_text(body));
    if (model->status != 0)
        out = strdup("{\"error\":{\"message\":\"not today\"}}");
    else if (stream)
        out = streamed(path, model->answer != NULL ? model->answer : text);
    else
        out = whole(path, model->answer != NULL ? model->answer : text,
                    calls ? model->tool : NULL, model->tool_input);
    dprintf(fd, "HTTP/1.1 %d X\r\nContent-Type: %s\r\nContent-Length: %zu\r\n\r\n%s",
            model->status != 0 ? model->status : 200,
            stream ? "text/event-stream" : "application/json", strlen(out), out);
    free(out);
    json_decref(asked);
}

void
rig_model_start(struct rig_model *model)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), log;
    char url[64];

    ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(listener, 16), 0);
    getsockname(listener, (struct sockaddr *)&address, &len);
    model->port = ntohs(address.sin_port);
    strcpy(model->log, "/tmp/cf-rig-log-XXXXXX");
    log = mkstemp(model->log);
    close(log);
    snprintf(model->gate, sizeof model->gate, "%s.open", model->log);
    model->pid = fork();
    if (model->pid == 0) {
        signal(SIGPIPE, SIG_IGN);
        int nth = 0; /* model calls so far */
        for (;;) {
            int fd = accept(listener, NULL, NULL);
            serve(model, fd, &nth);
            close(fd);
        }
    }
    close(listener);
    snprintf(url, sizeof url, "http://127.0.0.1:%d/v1", model->port);
    setenv("OPENAI_BASE_URL", url, 1);
    url[strlen(url) - 3] = '\0';
    setenv("ANTHROPIC_BASE_URL", url, 1);
    setenv("CHECKFU_MODEL_TOKEN", "tok", 1);
    setenv("CHECKFU_MODEL", "a-model", 1);
    unsetenv("OPENAI_API_KEY");
    unsetenv("ANTHROPIC_API_KEY");
}

void
rig_model_open(struct rig_model *model)
{
    int fd = open(model->gate, O_CREAT | O_WRONLY, 0600);

    ck_assert_int_ge(fd, 0);
    close(fd);
}

void
rig_model_stop(struct rig_model *model)
{
    kill(model->pid, SIGKILL);
    waitpid(model->pid, NULL, 0);
    unlink(model->log);
    unlink(model->gate);
}

json_t *
rig_model_asked(const struct rig_model *model)
{
    json_t *list = json_array(), *one;
    FILE *log = fopen(model->log, "r");

    while ((one = json_loadf(log, JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL, NULL)) != NULL)
        json_array_append_new(list, one);
    fclose(log);
    return list;
}

/* ---- programs --------------------------------------------------------------------------- */

const char *
rig_program(const char *name)
{
    static char path[4096];
    const char *build = getenv("CF_BUILD"), *source = getenv("CF_SOURCE");

    snprintf(path, sizeof path, "%s%s%s/%s", build && build[0] == '/' ? "" : source ? source : ".",
             build && build[0] == '/' ? "" : "/", build != NULL ? build : "build", name);
    return path;
}

const char *
rig_enter_folder(void)
{
    static char path[] = "/tmp/cf-rig-XXXXXX";

    strcpy(path + strlen(path) - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(path));
    ck_assert_int_eq(chdir(path), 0);
    return path;
}

static pid_t
spawn(char *const argv[], int in, int out, int err)
{
    pid_t pid = fork();

    if (pid == 0) {
        dup2(in, 0);
        dup2(out, 1);
        if (err >= 0)
            dup2(err, 2);
        for (int fd = 3; fd < 64; fd++)
            close(fd);
        execv(argv[0], argv);
        _exit(127);
    }
    return pid;
}

static int
exit_code(pid_t pid)
{
    int status = 0;

    waitpid(pid, &status, 0);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static char *
file_text(int fd, size_t *ret_len)
{
    off_t len = lseek(fd, 0, SEEK_END);
    char *text = calloc(1, (size_t)len + 1);

    ck_assert_int_eq(pread(fd, text, (size_t)len, 0), len);
    if (ret_len != NULL)
        *ret_len = (size_t)len;
    close(fd);
    return text;
}

static int
scratch(const char *text)
{
    char path[] = "/tmp/cf-rig-io-XXXXXX";
    int fd = mkstemp(path);

    unlink(path);
    if (text != NULL) {
        ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
        lseek(fd, 0, SEEK_SET);
    }
    return fd;
}

void
rig_run(struct rig_run *run, char *const argv[], const char *input)
{
    int in = scratch(input), out = scratch(NULL), err = scratch(NULL);

    run->exit_code = exit_code(spawn(argv, in, out, err));
    run->out = file_text(out, &run->out_len);
    run->err = file_text(err, NULL);
    close(in);
}

void
rig_run_release(struct rig_run *run)
{
    free(run->out);
    free(run->err);
}

/* ---- agents ----------------------------------------------------------------------------- */

void
rig_agent_start(struct rig_agent *agent, char *const argv[])
{
    int in[2], out[2];

    memset(agent, 0, sizeof *agent);
    ck_assert_int_eq(pipe2(in, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe2(out, O_CLOEXEC), 0);
    agent->pid = spawn(argv, in[0], out[1], -1);
    close(in[0]);
    close(out[1]);
    agent->in = in[1];
    agent->out = out[0];
    agent->updates = json_array();
    agent->requests = json_array();
    agent->permission = "yes-once";
    signal(SIGPIPE, SIG_IGN);
}

static void
put(struct rig_agent *agent, json_t *message)
{
    char *text = json_dumps(message, JSON_COMPACT);

    dprintf(agent->in, "%s\n", text);
    free(text);
    json_decref(message);
}

json_int_t
rig_agent_send(struct rig_agent *agent, const char *method, json_t *params)
{
    json_int_t id = ++agent->last_id;

    put(agent, json_pack("{s:s, s:I, s:s, s:o}", "jsonrpc", "2.0", "id", id, "method", method,
                         "params", params));
    return id;
}

void
rig_agent_notify(struct rig_agent *agent, const char *method, json_t *params)
{
    put(agent, json_pack("{s:s, s:s, s:o}", "jsonrpc", "2.0", "method", method, "params", params));
}

static json_t *
client_result(struct rig_agent *agent, const char *method, json_t *params)
{
    if (strcmp(method, "session/request_permission") == 0)
        return agent->permission != NULL
                   ? json_pack("{s:{s:s, s:s}}", "outcome", "outcome", "selected", "optionId",
                               agent->permission)
                   : json_pack("{s:{s:s}}", "outcome", "outcome", "cancelled");
    if (strcmp(method, "fs/write_text_file") == 0)
        return json_object();
    if (strcmp(method, "fs/read_text_file") == 0)
        return json_pack("{s:s}", "content", "kept by the client\n");
    if (strcmp(method, "terminal/create") == 0)
        return json_pack("{s:s}", "terminalId", "t1");
    if (strcmp(method, "terminal/output") == 0)
        return json_pack("{s:s, s:b, s:{s:i}}", "output", "hello\n", "truncated", 0, "exitStatus",
                         "exitCode", 0);
    if (strcmp(method, "elicitation/create") == 0)
        return json_pack("{s:s, s:{s:s}}", "action", "accept", "content", "colour", "red");
    return json_object();
}

/* The next message in the buffer; blank lines are passed over. */
static bool
buffered_line(struct rig_agent *agent, json_t **ret)
{
    char *end;

    while ((end = memchr(agent->buffer, '\n', agent->len)) != NULL) {
        size_t used = (size_t)(end - agent->buffer) + 1;
        bool is_blank = strspn(agent->buffer, "\r\n") >= used;

        if (!is_blank) {
            *ret = json_loadb(agent->buffer, used - 1, JSON_ALLOW_NUL, NULL);
            ck_assert_msg(*ret != NULL, "not JSON: %.*s", (int)used, agent->buffer);
        }
        memmove(agent->buffer, agent->buffer + used, agent->len - used);
        agent->len -= used;
        if (!is_blank)
            return true;
    }
    return false;
}

bool
rig_agent_step(struct rig_agent *agent, int ms, json_t **ret)
{
    struct pollfd wait = { .fd = agent->out, .events = POLLIN };
    json_t *message = NULL;
    const char *method;

    *ret = NULL;
    while (!buffered_line(agent, &message)) {
        ssize_t n;

        if (poll(&wait, 1, ms) <= 0)
            return false;
        n = read(agent->out, agent->buffer + agent->len, sizeof agent->buffer - agent->len);
        if (n <= 0)
            return false;
        agent->len += (size_t)n;
    }
    method = json_string_value(json_object_get(message, "method"));
    if (method == NULL) {
        *ret = message;
        return true;
    }
    if (json_object_get(message, "id") != NULL) {
        put(agent, json_pack("{s:s, s:O, s:o}", "jsonrpc", "2.0", "id",
                             json_object_get(message, "id"), "result",
                             client_result(agent, method, json_object_get(message, "params"))));
        json_array_append_new(agent->requests, message);
    } else {
        json_array_append_new(agent->updates, message);
    }
    return true;
}

json_t *
rig_agent_wait(struct rig_agent *agent, json_int_t id)
{
    json_t *message;

    while (rig_agent_step(agent, 10000, &message)) {
        if (message != NULL && json_integer_value(json_object_get(message, "id")) == id)
            return message;
        json_decref(message);
    }
    ck_abort_msg("no response to request %d", (int)id);
    return NULL;
}

json_t *
rig_agent_call(struct rig_agent *agent, const char *method, json_t *params)
{
    return rig_agent_wait(agent, rig_agent_send(agent, method, params));
}

int
rig_agent_end(struct rig_agent *agent)
{
    int code;

    close(agent->in);
    code = exit_code(agent->pid);
    close(agent->out);
    json_decref(agent->updates);
    json_decref(agent->requests);
    return code;
}
