/*
 * bench_acp: how fast updates of an ACP agent become observation lines.
 *
 *   make N FILE             writes a session's N session/update lines, 250 bytes each on average
 *   agent FILE              an agent that answers the handshake and, to a prompt, says FILE
 *   client AGENT FILE       runs that agent over pipes; wire, normalizer, grammar, NDJSON to
 *                           /dev/null
 *   feed FILE               the same from memory, without an agent
 *   jansson FILE            each line parsed and dumped by jansson, from memory
 *   turn N PROGRAM ARG...   N times: that agent as a plain child, from fork to the prompt's answer
 *
 * client, feed and jansson print "<updates> <bytes> <microseconds> <peak KiB> <observations>",
 * turn the median's microseconds.
 */
#include "base/clock.h"
#include "observe/observe.h"
#include "wire/wire.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define SESSION "sess_bench"
#define UPDATE                                                                                \
    "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"" SESSION \
    "\",\"update\":{"
#define OUT_BYTES (64 * 1024)

/* ---- the stream ------------------------------------------------------------------------ */

static void
make_line(FILE *to, long i)
{
    static const char words[] = "The quick brown fox jumps over the lazy dog, and "
                                "\\\"says\\\" nothing \\u00e9lse; \\n";
    long call = i / 10;

    switch (i % 10) {
    case 6:
        fprintf(to,
                UPDATE "\"sessionUpdate\":\"agent_thought_chunk\",\"content\":{\"type\":"
                       "\"text\",\"text\":\"%s%ld\"}}}}\n",
                words, i);
        break;
    case 7:
        fprintf(to,
                UPDATE "\"sessionUpdate\":\"tool_call\",\"toolCallId\":\"call_%ld\",\"title\":"
                       "\"Read file\",\"kind\":\"read\","
                       "\"status\":\"pending\",\"rawInput\":{\"path\":\"/workspace/src/"
                       "file_%ld.c\",\"limit\":200}}}}\n",
                call, call);
        break;
    case 8:
        fprintf(to,
                UPDATE "\"sessionUpdate\":\"tool_call_update\",\"toolCallId\":\"call_%ld\","
                       "\"status\":\"in_progress\"}}}\n",
                call);
        break;
    case 9:
        fprintf(to,
                UPDATE "\"sessionUpdate\":\"tool_call_update\",\"toolCallId\":\"call_%ld\","
                       "\"status\":\"completed\","
                       "\"content\":[{\"type\":\"content\",\"content\":{\"type\":\"text\","
                       "\"text\":\"%s%s\"}}]}}}\n",
                call, words, words);
        break;
    default:
        fprintf(to,
                UPDATE "\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":"
                       "\"text\",\"text\":\"%s\"}}}}\n",
                words);
    }
}

static int
make_stream(long count, const char *path)
{
    FILE *to = fopen(path, "w");

    if (to == NULL)
        return 1;
    for (long i = 0; i < count; i++)
        make_line(to, i);
    return fclose(to) == 0 ? 0 : 1;
}

static char *
read_whole(const char *path, size_t *ret_len)
{
    FILE *from = fopen(path, "r");
    char *bytes;
    long size;

    if (from == NULL || fseek(from, 0, SEEK_END) < 0 || (size = ftell(from)) < 0)
        exit(2);
    rewind(from);
    bytes = malloc((size_t)size + 1);
    if (bytes == NULL || fread(bytes, 1, (size_t)size, from) != (size_t)size)
        exit(2);
    fclose(from);
    *ret_len = (size_t)size;
    return bytes;
}

static long
count_lines(const char *bytes, size_t len)
{
    long count = 0;

    for (const char *at = bytes; (at = memchr(at, '\n', len - (size_t)(at - bytes))) != NULL;
         at++)
        count++;
    return count;
}

static void
write_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, bytes, len);
        if (n <= 0)
            exit(3);
        bytes += n;
        len -= (size_t)n;
    }
}

/* ---- the agent ------------------------------------------------------------------------- */

static int
agent(const char *path)
{
    size_t len = 0, cap = 0;
    char *stream = read_whole(path, &len), *line = NULL, answer[400];

    while (getline(&line, &cap, stdin) > 0) {
        const char *id = strstr(line, "\"id\":");
        long number = id != NULL ? strtol(id + 5, NULL, 10) : 0;
        const char *result =
            strstr(line, "\"initialize\"") != NULL
                ? "{\"protocolVersion\":1,\"agentCapabilities\":{},\"authMethods\":[]}"
            : strstr(line, "\"session/new\"") != NULL    ? "{\"sessionId\":\"" SESSION "\"}"
            : strstr(line, "\"session/prompt\"") != NULL ? "{\"stopReason\":\"end_turn\"}"
                                                         : NULL;
        if (result == NULL)
            continue;
        if (strstr(line, "\"session/prompt\"") != NULL)
            write_all(1, stream, len);
        (void)snprintf(answer, sizeof answer,
                       "{\"jsonrpc\":\"2.0\",\"id\":%ld,\"result\":%s}\n", number, result);
        write_all(1, answer, strlen(answer));
    }
    free(line);
    free(stream);
    return 0;
}

/* ---- the client ------------------------------------------------------------------------ */

struct client {
    struct cf_acp *acp;
    struct cf_normalizer *normalizer;
    struct cf_grammar *grammar;
    int to_agent, sink;
    char out[OUT_BYTES];
    size_t out_len;
    uint64_t seq, updates;
    long last_id; /* of our last request */
    bool is_done;
};

static void
flush(struct client *c)
{
    write_all(c->sink, c->out, c->out_len);
    c->out_len = 0;
}

static void
on_observation(void *user, const struct cf_observation *said)
{
    struct client *c = user;
    struct cf_observation o = *said;

    o.size = sizeof o;
    o.seq = ++c->seq;
    o.turn = 1;
    if (cf_grammar_feed(c->grammar, &o) < 0)
        exit(4);
    if (c->out_len + o.json_len + 128 > sizeof c->out)
        flush(c);
    if (o.json_len + 128 > sizeof c->out) {
        write_all(c->sink, o.json, o.json_len);
        return;
    }
    c->out_len += (size_t)snprintf(
        c->out + c->out_len, 100,
        "{\"seq\":%llu,\"at_ms\":%llu,\"turn\":%u,\"observation\":", (unsigned long long)o.seq,
        (unsigned long long)o.at_ms, o.turn);
    memcpy(c->out + c->out_len, o.json, o.json_len);
    c->out_len += o.json_len;
    memcpy(c->out + c->out_len, "}\n", 2);
    c->out_len += 2;
}

static void
send_line(void *user, const char *line, size_t len)
{
    struct client *c = user;
    const char *id = memmem(line, len, "\"id\":", 5);

    if (id != NULL)
        c->last_id = strtol(id + 5, NULL, 10);
    if (c->to_agent >= 0)
        write_all(c->to_agent, line, len);
}

static void
on_initialized(void *user, json_t *result, uint64_t frame)
{
    struct client *c = user;
    json_t *params = json_pack("{s:s, s:[]}", "cwd", "/workspace", "mcpServers");

    if (cf_acp_session_new(c->acp, params, NULL) < 0)
        exit(4);
    json_decref(params);
}

static void
on_session(void *user, const char *session_id, json_t *result, uint64_t frame)
{
    struct client *c = user;
    json_t *blocks = json_pack("[{s:s, s:s}]", "type", "text", "text", "go");
    json_t *set = json_object();

    cf_normalizer_ready(c->normalizer, set, frame);
    cf_normalizer_turn_begin(c->normalizer);
    cf_grammar_turn_begin(c->grammar);
    if (cf_acp_prompt(c->acp, blocks, NULL) < 0)
        exit(4);
    json_decref(blocks);
    json_decref(set);
}

static void
on_update(void *user, json_t *params, json_t *update, uint64_t frame)
{
    struct client *c = user;

    c->updates++;
    cf_normalizer_update(c->normalizer, params, update, frame);
}

static void
on_prompt_done(void *user, const char *stop_reason, json_t *result, uint64_t frame)
{
    struct client *c = user;

    cf_normalizer_finished(c->normalizer, stop_reason, NULL, frame);
    cf_grammar_turn_end(c->grammar);
    c->is_done = true;
}

static void
open_client(struct client *c, int to_agent)
{
    static const struct cf_acp_events events = {.send = send_line,
                                                .on_initialized = on_initialized,
                                                .on_session = on_session,
                                                .on_update = on_update,
                                                .on_prompt_done = on_prompt_done};
    const struct cf_acp_options options = {0};
    const struct cf_normalizer_options normal = {
        .is_acp = true, .on_observation = on_observation, .user = c};

    memset(c, 0, sizeof *c);
    c->to_agent = to_agent;
    c->sink = open("/dev/null", O_WRONLY);
    c->acp = cf_acp_new(&options, &events, c);
    c->normalizer = cf_normalizer_new(&normal);
    c->grammar = cf_grammar_new(true);
    if (c->acp == NULL || c->normalizer == NULL || c->grammar == NULL || c->sink < 0)
        exit(2);
}

static void
tell(const struct client *c, size_t bytes, uint64_t began_us)
{
    struct rusage use;

    getrusage(RUSAGE_SELF, &use);
    printf("%llu %zu %llu %ld %llu\n", (unsigned long long)c->updates, bytes,
           (unsigned long long)(cf_clock_us() - began_us), use.ru_maxrss,
           (unsigned long long)c->seq);
}

/* A child whose stdin and stdout are pipes of ours. */
static void
start(char *const *argv, int *ret_to, int *ret_from)
{
    int down[2], up[2];

    if (pipe2(down, O_CLOEXEC) < 0 || pipe2(up, O_CLOEXEC) < 0)
        exit(2);
    if (fork() == 0) {
        dup2(down[0], 0);
        dup2(up[1], 1);
        execv(argv[0], argv);
        _exit(127);
    }
    close(down[0]);
    close(up[1]);
    *ret_to = down[1];
    *ret_from = up[0];
}

/* From initialize to the prompt's answer; returns the bytes that were read. */
static size_t
converse(struct client *c, int from_agent)
{
    static char buffer[64 * 1024];
    size_t bytes = 0;
    ssize_t n;

    if (cf_acp_initialize(c->acp, NULL, NULL) < 0)
        exit(2);
    while (!c->is_done && (n = read(from_agent, buffer, sizeof buffer)) > 0) {
        bytes += (size_t)n;
        if (cf_acp_feed(c->acp, buffer, (size_t)n) < 0)
            exit(2);
    }
    flush(c);
    if (!c->is_done)
        exit(1);
    return bytes;
}

static int
run_client(char *program, char *path)
{
    static struct client c;
    char verb[] = "agent", *argv[] = {program, verb, path, NULL};
    int to, from;
    uint64_t began;

    start(argv, &to, &from);
    open_client(&c, to);
    began = cf_clock_us();
    tell(&c, converse(&c, from), began);
    close(to);
    wait(NULL);
    return 0;
}

static int
by_size(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

    return left < right ? -1 : left > right;
}

static int
turns(size_t count, char *const *argv)
{
    uint64_t *took = calloc(count + 1, sizeof *took);
    static struct client c;
    int to, from;

    for (size_t i = 0; i < count; i++) {
        uint64_t began = cf_clock_us();
        start(argv, &to, &from);
        open_client(&c, to);
        (void)converse(&c, from);
        took[i] = cf_clock_us() - began;
        close(to);
        close(from);
        close(c.sink);
        wait(NULL);
        cf_acp_free(c.acp);
        cf_normalizer_free(c.normalizer);
        cf_grammar_free(c.grammar);
    }
    qsort(took, count, sizeof *took, by_size);
    printf("%llu\n", (unsigned long long)took[count / 2]);
    free(took);
    return 0;
}

static void
answer(struct client *c, const char *result)
{
    char line[300];
    int len = snprintf(line, sizeof line, "{\"jsonrpc\":\"2.0\",\"id\":%ld,\"result\":%s}\n",
                       c->last_id, result);

    if (cf_acp_feed(c->acp, line, (size_t)len) < 0)
        exit(4);
}

static int
feed(const char *path)
{
    static struct client c;
    size_t len;
    char *bytes = read_whole(path, &len);
    uint64_t began;

    open_client(&c, -1);
    began = cf_clock_us();
    if (cf_acp_initialize(c.acp, NULL, NULL) < 0)
        return 2;
    answer(&c, "{\"protocolVersion\":1,\"agentCapabilities\":{},\"authMethods\":[]}");
    answer(&c, "{\"sessionId\":\"" SESSION "\"}");
    for (size_t at = 0; at < len; at += 65536)
        if (cf_acp_feed(c.acp, bytes + at, len - at < 65536 ? len - at : 65536) < 0)
            return 2;
    answer(&c, "{\"stopReason\":\"end_turn\"}");
    flush(&c);
    tell(&c, len, began);
    return c.is_done ? 0 : 1;
}

static int
with_jansson(const char *path)
{
    struct client c = {.sink = open("/dev/null", O_WRONLY)};
    size_t len;
    char *bytes = read_whole(path, &len), *end;
    uint64_t began = cf_clock_us();

    for (char *at = bytes; (end = memchr(at, '\n', len - (size_t)(at - bytes))) != NULL;
         at = end + 1) {
        json_t *value = json_loadb(at, (size_t)(end - at), 0, NULL);
        char *text = json_dumps(value, JSON_COMPACT);
        size_t text_len = text != NULL ? strlen(text) : 0;
        if (c.out_len + text_len > sizeof c.out)
            flush(&c);
        memcpy(c.out + c.out_len, text, text_len);
        c.out_len += text_len;
        c.updates++;
        free(text);
        json_decref(value);
    }
    flush(&c);
    tell(&c, len, began);
    return c.updates == (uint64_t)count_lines(bytes, len) ? 0 : 1;
}

int
main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "make") == 0)
        return make_stream(atol(argv[2]), argv[3]);
    if (argc == 3 && strcmp(argv[1], "agent") == 0)
        return agent(argv[2]);
    if (argc > 3 && strcmp(argv[1], "turn") == 0)
        return turns(strtoul(argv[2], NULL, 10), argv + 3);
    if (argc == 4 && strcmp(argv[1], "client") == 0)
        return run_client(argv[2], argv[3]);
    if (argc == 3 && strcmp(argv[1], "feed") == 0)
        return feed(argv[2]);
    if (argc == 3 && strcmp(argv[1], "jansson") == 0)
        return with_jansson(argv[2]);
    fprintf(stderr, "usage: bench_acp make N FILE | agent FILE | client AGENT FILE | feed "
                    "FILE | jansson FILE | turn N PROGRAM ARG...\n");
    return 2;
}
