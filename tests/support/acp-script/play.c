/* A script's steps carried out. */
#include "play.h"

#include "base/str.h"
#include "file.h"
#include "model.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOOPS_LIMIT = 8, MIB = 1024 * 1024, EAT_LIMIT_MIB = 8 * 1024 };

struct loop {
    size_t start; /* first line of the body */
    unsigned long left, done;
};

struct player {
    const struct script *script;
    size_t at; /* the next line */
    struct script_vars vars;
    struct loop loops[LOOPS_LIMIT];
    size_t depth;
    const struct script_line *line; /* the one being done */
};

/* A step's rest is expanded, and the step's to change. */
typedef void step_fn(struct player *player, char *rest);

static void
give_up(struct player *player, const char *why, const char *what)
{
    fprintf(stderr, "acp-script: %s:%u: %s: %s %s\n", player->script->name, player->line->number,
            player->line->verb, why, what);
    exit(4);
}

/* The next word of *rest, which moves behind it. */
static char *
word(char **rest)
{
    char *start = *rest + strspn(*rest, " \t");
    char *end = start + strcspn(start, " \t");

    *rest = end[0] != '\0' ? end + 1 : end;
    end[0] = '\0';
    return start;
}

static unsigned long
number(struct player *player, char **rest)
{
    char *text = word(rest), *end;
    unsigned long value = strtoul(text, &end, 10);

    if (text[0] == '\0' || end[0] != '\0')
        give_up(player, "needs a number, not", text);
    return value;
}

/* ---- out -------------------------------------------------------------------------------- */

static void
put(struct player *player, const char *bytes, size_t len)
{
    if (hn_write_all(STDOUT_FILENO, bytes, len) < 0)
        give_up(player, "stdout", "is gone");
}

static void
put_line(struct player *player, const char *text, const char *end)
{
    struct cf_buf line = { 0 };

    cf_buf_adds(&line, text);
    cf_buf_adds(&line, end);
    put(player, line.data, line.len);
    cf_buf_release(&line);
}

/* printf for frames whose parts are JSON already. */
static void __attribute__((format(printf, 2, 3)))
put_frame(struct player *player, const char *fmt, ...)
{
    char *text = NULL;
    va_list args;

    va_start(args, fmt);
    if (vasprintf(&text, fmt, args) < 0)
        abort();
    va_end(args);
    put_line(player, text, "\n");
    free(text);
}

static const char *
var(struct player *player, const char *name)
{
    return script_get(&player->vars, name);
}

static void do_send(struct player *player, char *rest) { put_line(player, rest, "\n"); }
static void do_send_crlf(struct player *player, char *rest) { put_line(player, rest, "\r\n"); }

static void
do_raw(struct player *player, char *rest)
{
    put(player, rest, script_unescape(rest, strlen(rest)));
}

static void
do_line(struct player *player, char *rest)
{
    do_raw(player, rest);
    put(player, "\n", 1);
}

static void
do_split(struct player *player, char *rest)
{
    unsigned long piece = number(player, &rest), wait_ms = number(player, &rest);
    struct cf_buf line = { 0 };

    if (piece == 0)
        give_up(player, "needs a piece of", "1 byte or more");
    cf_buf_addf(&line, "%s\n", rest);
    for (size_t at = 0; at < line.len; at += piece) {
        put(player, line.data + at, piece < line.len - at ? piece : line.len - at);
        if (wait_ms > 0)
            usleep((useconds_t)wait_ms * 1000);
    }
    cf_buf_release(&line);
}

static void
do_answer(struct player *player, char *rest)
{
    put_frame(player, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}", var(player, "id"), rest);
}

static void
do_error(struct player *player, char *rest)
{
    char *code = word(&rest);

    put_frame(player, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":%s,\"message\":\"%s\"}}",
              var(player, "id"), code, rest);
}

static void
do_update(struct player *player, char *rest)
{
    put_frame(player,
              "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"%s\","
              "\"update\":%s}}",
              var(player, "session"), rest);
}

static void
do_chunk(struct player *player, char *rest)
{
    struct cf_buf update = { 0 };

    cf_buf_addf(&update,
                "{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\","
                "\"text\":\"%s\"}}",
                rest);
    do_update(player, update.data);
    cf_buf_release(&update);
}

static void
do_end_turn(struct player *player, char *rest)
{
    char *reason = word(&rest);

    put_frame(player, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"stopReason\":\"%s\"}}",
              var(player, "prompt_id"), reason[0] != '\0' ? reason : "end_turn");
}

/* ---- in --------------------------------------------------------------------------------- */

static json_t *
read_message(struct player *player, const char *wanted)
{
    char *line = NULL;
    size_t size = 0;
    ssize_t len;
    json_t *message;

    while ((len = getline(&line, &size, stdin)) > 0) {
        message = json_loadb(line, (size_t)len, JSON_ALLOW_NUL, NULL);
        if (message != NULL) {
            free(line);
            return message;
        }
    }
    free(line);
    give_up(player, "stdin ended before", wanted);
    return NULL;
}

static void
set_json(struct player *player, const char *name, json_t *value)
{
    cf_auto_free char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);

    script_set(&player->vars, name, text != NULL ? text : "null");
}

/* The inside of a JSON string, without its quotes. */
static void
set_text(struct player *player, const char *name, const char *bytes, size_t len)
{
    json_t *string = json_stringn(bytes, len);
    cf_auto_free char *text = json_dumps(string, JSON_ENCODE_ANY);

    json_decref(string);
    if (text == NULL)
        give_up(player, "not UTF-8:", name);
    text[strlen(text) - 1] = '\0';
    script_set(&player->vars, name, text + 1);
}

static void
keep_prompt(struct player *player, json_t *message)
{
    struct cf_buf text = { 0 };
    json_t *block;
    size_t i;

    cf_buf_adds(&text, "");
    json_array_foreach (json_object_get(json_object_get(message, "params"), "prompt"), i, block) {
        const char *part = json_string_value(json_object_get(block, "text"));
        cf_buf_adds(&text, part != NULL ? part : "");
    }
    set_text(player, "prompt", text.data, text.len);
    set_json(player, "prompt_id", json_object_get(message, "id"));
    cf_buf_release(&text);
}

static void
do_expect(struct player *player, char *rest)
{
    char *wanted = word(&rest);
    json_t *message;
    const char *method;

    for (;;) {
        message = read_message(player, wanted);
        method = json_string_value(json_object_get(message, "method"));
        if (method != NULL && strcmp(method, wanted) == 0)
            break;
        json_decref(message);
    }
    set_json(player, "id", json_object_get(message, "id"));
    set_json(player, "params", json_object_get(message, "params"));
    if (strcmp(wanted, "session/prompt") == 0)
        keep_prompt(player, message);
    json_decref(message);
}

static void
do_expect_response(struct player *player, char *rest)
{
    json_t *id = json_loads(rest, JSON_DECODE_ANY, NULL), *message, *value;

    if (id == NULL)
        give_up(player, "is no id:", rest);
    for (;;) {
        message = read_message(player, "the response");
        if (json_object_get(message, "method") == NULL &&
            json_equal(json_object_get(message, "id"), id))
            break;
        json_decref(message);
    }
    value = json_object_get(message, "result");
    set_json(player, "result", value != NULL ? value : json_object_get(message, "error"));
    json_decref(message);
    json_decref(id);
}

static void
do_handshake(struct player *player, char *rest)
{
    char method[32] = "initialize";
    struct cf_buf result = { 0 };

    do_expect(player, method);
    cf_buf_adds(&result, "{\"protocolVersion\":1,\"agentCapabilities\":{\"sessionCapabilities\":"
                         "{\"close\":{}}},\"agentInfo\":{\"name\":\"acp-script\",\"version\":\"1\"}");
    if (rest[0] != '\0')
        cf_buf_addf(&result, ",\"_meta\":%s", rest);
    cf_buf_adds(&result, "}");
    do_answer(player, result.data);
    cf_buf_release(&result);
    strcpy(method, "session/new");
    do_expect(player, method);
    script_set(&player->vars, "session", "s-1");
    put_frame(player, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"sessionId\":\"s-1\"}}",
              var(player, "id"));
}

static void
do_model(struct player *player, char *rest)
{
    struct cf_buf quoted = { 0 };
    struct hn_call call = { 0 };
    struct hn_ask ask = { 0 };
    struct hn_model model;
    struct cf_error err;
    int status = hn_model_from_env(&model, HN_OPENAI_CHAT, false, &err);

    cf_buf_addf(&quoted, "[{\"role\":\"user\",\"text\":\"%s\"}]", var(player, "prompt"));
    ask.messages = json_loadb(quoted.data, quoted.len, JSON_ALLOW_NUL, NULL);
    if (status == 0)
        status = hn_call_start(&call, &model, &ask, NULL, NULL, &err);
    if (status == 0)
        status = hn_call_wait(&call, &err);
    if (status < 0)
        give_up(player, err.text, "");
    set_text(player, "answer", call.answer.text.data, call.answer.text.len);
    hn_call_release(&call);
    json_decref(ask.messages);
    cf_buf_release(&quoted);
}

static void
do_turn(struct player *player, char *rest)
{
    char method[] = "session/prompt", none[] = "";
    cf_auto_free char *answer = NULL;

    do_expect(player, method);
    do_model(player, none);
    answer = strdup(var(player, "answer"));
    do_chunk(player, answer);
    do_end_turn(player, none);
}

/* ---- the rest --------------------------------------------------------------------------- */

static void
do_let(struct player *player, char *rest)
{
    char *name = word(&rest);

    script_set(&player->vars, name, rest);
}

static void
do_fill(struct player *player, char *rest)
{
    char *name = word(&rest);
    unsigned long times = number(player, &rest);
    struct cf_buf text = { 0 };

    cf_buf_adds(&text, "");
    while (times-- > 0)
        cf_buf_adds(&text, rest);
    script_set(&player->vars, name, text.data);
    cf_buf_release(&text);
}

static void
count_loop(struct player *player, const struct loop *loop)
{
    char text[24];

    snprintf(text, sizeof text, "%lu", loop->done + 1);
    script_set(&player->vars, "n", text);
}

static void
do_repeat(struct player *player, char *rest)
{
    struct loop *loop;

    if (player->depth == LOOPS_LIMIT)
        give_up(player, "nested more than", "8 times");
    loop = &player->loops[player->depth++];
    *loop = (struct loop){ .start = player->at, .left = number(player, &rest) };
    if (loop->left == 0)
        give_up(player, "needs a number above", "0");
    count_loop(player, loop);
}

static void
do_end(struct player *player, char *rest)
{
    struct loop *loop = &player->loops[player->depth - 1];

    loop->done++;
    if (--loop->left > 0) {
        player->at = loop->start;
        count_loop(player, loop);
    } else {
        player->depth--;
    }
}

static void
do_sleep(struct player *player, char *rest)
{
    usleep((useconds_t)number(player, &rest) * 1000);
}

static void do_stderr(struct player *player, char *rest) { fprintf(stderr, "%s\n", rest); }

static void
do_close(struct player *player, char *rest)
{
    close(strcmp(word(&rest), "stdin") == 0 ? STDIN_FILENO : STDOUT_FILENO);
}

static void
do_drain(struct player *player, char *rest)
{
    char bytes[4096];

    while (fread(bytes, 1, sizeof bytes, stdin) > 0)
        ;
}

static void
do_hang(struct player *player, char *rest)
{
    do_drain(player, rest);
    for (;;)
        pause();
}

static int
signal_named(struct player *player, char *rest)
{
    static const struct {
        const char *name;
        int number;
    } signals[] = { { "KILL", SIGKILL }, { "TERM", SIGTERM }, { "SEGV", SIGSEGV },
                    { "ABRT", SIGABRT }, { "INT", SIGINT },   { "HUP", SIGHUP } };
    char *name = word(&rest);

    for (size_t i = 0; i < CF_COUNT(signals); i++)
        if (strcmp(signals[i].name, name) == 0)
            return signals[i].number;
    give_up(player, "knows no signal", name);
    return 0;
}

static void
do_ignore(struct player *player, char *rest)
{
    signal(signal_named(player, rest), SIG_IGN);
}

static void
do_signal(struct player *player, char *rest)
{
    raise(signal_named(player, rest));
}

/* Stops by itself far above any limit a sandbox has, in case nothing limits it. */
static void
do_eat(struct player *player, char *rest)
{
    for (int i = 0; i < EAT_LIMIT_MIB; i++) {
        char *more = malloc(MIB);
        if (more == NULL)
            break;
        memset(more, 0x5a, MIB);
    }
    give_up(player, "nothing limits", "my memory");
}

static void
do_exit(struct player *player, char *rest)
{
    exit((int)number(player, &rest));
}

static const struct {
    const char *name;
    step_fn *run;
} verbs[] = {
    { "expect", do_expect },
    { "expect-response", do_expect_response },
    { "handshake", do_handshake },
    { "turn", do_turn },
    { "model", do_model },
    { "send", do_send },
    { "send-crlf", do_send_crlf },
    { "split", do_split },
    { "raw", do_raw },
    { "line", do_line },
    { "answer", do_answer },
    { "error", do_error },
    { "update", do_update },
    { "chunk", do_chunk },
    { "end-turn", do_end_turn },
    { "let", do_let },
    { "fill", do_fill },
    { "repeat", do_repeat },
    { "end", do_end },
    { "sleep", do_sleep },
    { "stderr", do_stderr },
    { "close", do_close },
    { "drain", do_drain },
    { "hang", do_hang },
    { "ignore", do_ignore },
    { "signal", do_signal },
    { "eat", do_eat },
    { "exit", do_exit },
};

static step_fn *
verb_named(const char *name)
{
    for (size_t i = 0; i < CF_COUNT(verbs); i++)
        if (strcmp(verbs[i].name, name) == 0)
            return verbs[i].run;
    return NULL;
}

int
play_check(const struct script *script)
{
    int depth = 0, status = 0;

    for (size_t i = 0; i < script->count; i++) {
        const struct script_line *line = &script->lines[i];

        if (verb_named(line->verb) == NULL) {
            fprintf(stderr, "acp-script: %s:%u: no verb %s\n", script->name, line->number, line->verb);
            status = 2;
        }
        depth += strcmp(line->verb, "repeat") == 0;
        depth -= strcmp(line->verb, "end") == 0;
        if (depth < 0)
            break;
    }
    if (depth != 0) {
        fprintf(stderr, "acp-script: %s: repeat and end do not pair\n", script->name);
        status = 2;
    }
    return status;
}

int
play(const struct script *script)
{
    struct player player = { .script = script };
    char none[] = "";

    while (player.at < script->count) {
        struct cf_buf rest = { 0 };

        player.line = &script->lines[player.at++];
        cf_buf_adds(&rest, "");
        script_expand(&player.vars, player.line->rest, &rest);
        verb_named(player.line->verb)(&player, rest.data);
        cf_buf_release(&rest);
    }
    do_drain(&player, none);
    script_vars_release(&player.vars);
    return 0;
}
