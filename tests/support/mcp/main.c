/*
 * mcp: the smallest MCP server over HTTP, for tests. Prints "127.0.0.1:PORT" as its first line, then
 * each request's head and body; answers initialize, tools/list and tools/call, one connection at a
 * time, until it is killed.
 */
#include <arpa/inet.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

struct request {
    char bytes[65536];
    size_t len, head;
};

/* A head and the body that it announces; false: the peer has gone. */
static bool
read_request(int fd, struct request *request)
{
    const char *end = NULL, *length;
    size_t want = 0;

    memset(request, 0, sizeof *request);
    while (end == NULL || request->len < want) {
        ssize_t n = read(fd, request->bytes + request->len, sizeof request->bytes - 1 - request->len);
        if (n <= 0)
            return false;
        request->len += (size_t)n;
        if (end != NULL || (end = strstr(request->bytes, "\r\n\r\n")) == NULL)
            continue;
        request->head = (size_t)(end - request->bytes) + 4;
        length = strcasestr(request->bytes, "content-length:");
        want = request->head + (length != NULL ? strtoul(length + 15, NULL, 10) : 0);
    }
    return true;
}

static json_t *
result_of(const char *method, json_t *params)
{
    if (strcmp(method, "initialize") == 0)
        return json_pack("{s:s, s:{s:{}}, s:{s:s, s:s}}", "protocolVersion", "2025-06-18", "capabilities", "tools",
                         "serverInfo", "name", "test", "version", "1");
    if (strcmp(method, "tools/list") == 0)
        return json_pack("{s:[{s:s, s:s, s:{s:s}}]}", "tools", "name", "seven", "description", "Says seven.",
                         "inputSchema", "type", "object");
    if (strcmp(method, "tools/call") == 0)
        return json_pack("{s:[{s:s, s:s}]}", "content", "type", "text", "text", "seven");
    return json_object();
}

static void
answer(int fd, const struct request *request)
{
    json_t *message = json_loads(request->bytes + request->head, 0, NULL);
    const char *method = json_string_value(json_object_get(message, "method"));
    json_t *id = json_object_get(message, "id"), *reply = NULL;
    char *body = NULL;

    if (id != NULL && method != NULL) {
        reply = json_pack("{s:s, s:O, s:o}", "jsonrpc", "2.0", "id", id, "result",
                          result_of(method, json_object_get(message, "params")));
        body = json_dumps(reply, JSON_COMPACT);
    }
    dprintf(fd, "HTTP/1.1 %s\r\nContent-Type: application/json\r\nMcp-Session-Id: s-1\r\nContent-Length: %zu\r\n\r\n%s",
            body != NULL ? "200 OK" : "202 Accepted", body != NULL ? strlen(body) : 0, body != NULL ? body : "");
    free(body);
    json_decref(reply);
    json_decref(message);
}

int
main(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int server = socket(AF_INET, SOCK_STREAM, 0);
    static struct request request;

    if (server < 0 || bind(server, (struct sockaddr *)&address, size) < 0 || listen(server, 16) < 0 ||
        getsockname(server, (struct sockaddr *)&address, &size) < 0)
        return 1;
    printf("127.0.0.1:%u\n", ntohs(address.sin_port));
    fflush(stdout);
    for (;;) {
        int fd = accept(server, NULL, NULL);
        while (fd >= 0 && read_request(fd, &request)) {
            printf("%s\n--\n", request.bytes);
            fflush(stdout);
            answer(fd, &request);
        }
        if (fd >= 0)
            close(fd);
    }
}
