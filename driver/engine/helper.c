/*
 * Looking up credentials for a registry: config.json, and where it names a helper, the program
 * docker-credential-NAME with the registry on its stdin and a JSON object on its stdout. The
 * answer always comes from the loop: what needs no helper is told by a timer of 0 ms.
 *
 * A helper's process handle is closed only after its exit was seen, also when it was killed:
 * closed earlier, libuv would leave a zombie behind.
 */
#include "base/buf.h"
#include "base/str.h"
#include "engine/auth.h"
#include "engine/docker_config.h"
#include "engine/internal.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define HELPER_MS 10000u
#define HELPER_LIMIT_BYTES 65536u

struct cf_engine_helper {
    struct cf_engine *engine;
    struct cf_engine_helper *prev, *next;
    cf_auth_json_fn *done;
    void *user;
    char *registry, *program;
    json_t *config;
    json_t *auth;        /* the answer */
    struct cf_error err; /* or why not */
    uv_timer_t timer;
    uv_process_t process;
    uv_pipe_t in, out;
    uv_write_t write;
    struct cf_buf output;
    char chunk[4096];
    int64_t exit_code;
    int handles_open;
    bool runs, out_ended, reported;
};

static void
helper_free(struct cf_engine_helper *helper)
{
    struct cf_engine *engine = helper->engine;

    if (helper->prev != NULL)
        helper->prev->next = helper->next;
    else if (engine->helpers == helper)
        engine->helpers = helper->next;
    if (helper->next != NULL)
        helper->next->prev = helper->prev;
    if (helper->output.data != NULL)
        memset(helper->output.data, 0, helper->output.len);
    cf_buf_release(&helper->output);
    json_decref(helper->config);
    json_decref(helper->auth);
    free(helper->registry);
    free(helper->program);
    free(helper);
}

static void
on_handle_closed(uv_handle_t *handle)
{
    struct cf_engine_helper *helper = handle->data;
    struct cf_engine *engine = helper->engine;

    if (--helper->handles_open > 0)
        return;
    helper_free(helper);
    engine->parts_open--;
    cf_engine_free_if_closed(engine);
}

static void
close_handle(uv_handle_t *handle)
{
    if (handle->data != NULL && !uv_is_closing(handle))
        uv_close(handle, on_handle_closed);
}

/* Hands the answer over, once, and lets go of all but a process that still runs. */
static void
report(struct cf_engine_helper *helper)
{
    if (helper->reported)
        return;
    helper->reported = true;
    bool failed = helper->err.kind != CF_ERROR_NONE;
    helper->done(helper->user, failed ? -1 : 0, failed ? NULL : helper->auth,
                 failed ? &helper->err : NULL);
    close_handle((uv_handle_t *)&helper->timer);
    close_handle((uv_handle_t *)&helper->in);
    close_handle((uv_handle_t *)&helper->out);
    if (!helper->runs)
        close_handle((uv_handle_t *)&helper->process);
}

static void
kill_helper(struct cf_engine_helper *helper)
{
    if (helper->runs)
        (void)uv_process_kill(&helper->process, SIGKILL); /* already gone is as good */
}

/* ---- the program ------------------------------------------------------------------------ */

static void
take_answer(struct cf_engine_helper *helper)
{
    const char *text = helper->output.data != NULL ? helper->output.data : "";

    if (helper->exit_code == 0) {
        if (cf_auth_from_helper(text, helper->output.len, helper->registry, &helper->auth,
                                &helper->err) < 0)
            cf_error_wrap(&helper->err, "credential helper %s", helper->program);
    } else if (strstr(text, "credentials not found") != NULL) {
        if (cf_auth_from_file(helper->config, helper->registry, &helper->auth, &helper->err) <
            0)
            helper->auth = NULL;
    } else {
        cf_error_set(&helper->err, CF_ERROR_CONFIG, (int)helper->exit_code,
                     "credential helper %s ended with %lld: %.200s", helper->program,
                     (long long)helper->exit_code, text);
        cf_error_fix(&helper->err, "run `echo %s | %s get` to see what it says",
                     cf_auth_server(helper->registry), helper->program);
    }
}

static void
finish_if_ended(struct cf_engine_helper *helper)
{
    if (helper->runs || !helper->out_ended || helper->reported)
        return;
    take_answer(helper);
    report(helper);
}

static void
on_ended(uv_process_t *process, int64_t exit_code, int signal)
{
    struct cf_engine_helper *helper = process->data;

    helper->runs = false;
    helper->exit_code = signal != 0 ? 128 + signal : exit_code;
    if (helper->reported)
        close_handle((uv_handle_t *)process);
    else
        finish_if_ended(helper);
}

static void
on_alloc(uv_handle_t *handle, size_t wish, uv_buf_t *buf)
{
    struct cf_engine_helper *helper = handle->data;
    *buf = uv_buf_init(helper->chunk, sizeof helper->chunk);
}

static void
on_output(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf)
{
    struct cf_engine_helper *helper = stream->data;

    if (got > 0 && cf_buf_add(&helper->output, buf->base, (size_t)got) == 0)
        return;
    if (got == 0)
        return;
    uv_read_stop(stream);
    helper->out_ended = true;
    if (got > 0) {
        cf_error_set(&helper->err, CF_ERROR_CONFIG, 0,
                     "credential helper %s printed more than %u bytes", helper->program,
                     HELPER_LIMIT_BYTES);
        kill_helper(helper);
        report(helper);
        return;
    }
    finish_if_ended(helper);
}

static void
on_asked(uv_write_t *request, int status)
{
    struct cf_engine_helper *helper = request->data;

    if (!helper->reported) /* its end of file lets the helper know that this was all */
        close_handle((uv_handle_t *)&helper->in);
}

static int
spawn(struct cf_engine_helper *helper, struct cf_error *err)
{
    uv_loop_t *loop = helper->engine->loop;
    char *argv[] = {helper->program, "get", NULL};
    uv_stdio_container_t stdio[3] = {
        {.flags = UV_CREATE_PIPE | UV_READABLE_PIPE,
         .data.stream = (uv_stream_t *)&helper->in},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE,
         .data.stream = (uv_stream_t *)&helper->out},
        {.flags = UV_IGNORE},
    };
    uv_process_options_t options = {.exit_cb = on_ended,
                                    .file = helper->program,
                                    .args = argv,
                                    .stdio = stdio,
                                    .stdio_count = 3};

    (void)uv_pipe_init(loop, &helper->in, 0); /* these only set fields: they cannot fail */
    (void)uv_pipe_init(loop, &helper->out, 0);
    helper->in.data = helper->out.data = helper->process.data = helper;
    helper->handles_open += 3;
    int rc = uv_spawn(loop, &helper->process, &options);
    if (rc < 0) {
        cf_error_set(err, CF_ERROR_CONFIG, -rc, "credential helper %s cannot be run: %s",
                     helper->program, uv_strerror(rc));
        return cf_error_fix(err,
                            "install it, or take credsStore/credHelpers out of %s/config.json",
                            helper->engine->config_dir);
    }
    helper->runs = true;
    uv_buf_t line = uv_buf_init((char *)cf_auth_server(helper->registry),
                                (unsigned)strlen(cf_auth_server(helper->registry)));
    helper->write.data = helper;
    (void)uv_read_start((uv_stream_t *)&helper->out, on_alloc,
                        on_output); /* a fresh pipe: cannot fail */
    if (uv_write(&helper->write, (uv_stream_t *)&helper->in, &line, 1, on_asked) < 0)
        close_handle(
            (uv_handle_t *)&helper->in); /* then it reads an empty question and says so */
    return 0;
}

static void
on_timer(uv_timer_t *timer)
{
    struct cf_engine_helper *helper = timer->data;

    if (helper->program != NULL && helper->err.kind == CF_ERROR_NONE) {
        cf_error_set(&helper->err, CF_ERROR_CONFIG, 0,
                     "credential helper %s did not answer within %u s", helper->program,
                     HELPER_MS / 1000);
        kill_helper(helper);
    }
    report(helper);
}

static bool
is_program_name(const char *name)
{
    for (const char *c = name; *c != '\0'; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
              (*c >= '0' && *c <= '9') || strchr("._-", *c) != NULL))
            return false;
    return name[0] != '\0' && strlen(name) < 100;
}

/* Starts the helper, or fills the answer from the file. Failures go into helper->err. */
static void
look_up(struct cf_engine_helper *helper)
{
    const char *name = cf_auth_helper_name(helper->config, helper->registry);

    if (name == NULL) {
        if (cf_auth_from_file(helper->config, helper->registry, &helper->auth, &helper->err) <
            0)
            helper->auth = NULL; /* why is in helper->err */
        return;
    }
    if (!is_program_name(name)) {
        cf_error_set(&helper->err, CF_ERROR_CONFIG, 0,
                     "config.json: \"%s\" is not a credential helper's name", name);
        return;
    }
    if (asprintf(&helper->program, "docker-credential-%s", name) < 0) {
        helper->program = NULL;
        cf_error_memory(&helper->err);
        return;
    }
    (void)spawn(helper, &helper->err); /* what it says is in helper->err */
}

int
cf_engine_auth_look_up(struct cf_engine *engine, const char *registry, cf_auth_json_fn *done,
                       void *user, struct cf_error *err)
{
    if (engine->is_closing)
        return cf_error_set(err, CF_ERROR_CANCELED, 0,
                            "the engine's connections are being closed");
    json_t *config = cf_docker_config_load(engine->config_dir, err);
    if (config == NULL)
        return -1;
    struct cf_engine_helper *helper = calloc(1, sizeof *helper);
    if (helper == NULL || cf_str_copy(&helper->registry, registry, err) < 0) {
        json_decref(config);
        free(helper);
        return cf_error_memory(err);
    }
    helper->engine = engine;
    helper->config = config;
    helper->done = done;
    helper->user = user;
    cf_buf_init(&helper->output, HELPER_LIMIT_BYTES);
    (void)uv_timer_init(engine->loop,
                        &helper->timer); /* only links it into the loop: cannot fail */
    helper->timer.data = helper;
    helper->handles_open = 1;
    helper->next = engine->helpers;
    if (helper->next != NULL)
        helper->next->prev = helper;
    engine->helpers = helper;
    engine->parts_open++;
    look_up(helper);
    uv_update_time(engine->loop);
    uv_timer_start(&helper->timer, on_timer, helper->runs ? HELPER_MS : 0, 0);
    return 0;
}

/* Turns the value into a header for whoever asked. */
struct find {
    cf_auth_done_fn *done;
    void *user;
};

static void
on_looked_up(void *user, int status, json_t *auth, const struct cf_error *err)
{
    struct find find = *(struct find *)user;
    struct cf_error own = {0};
    char *header = status == 0 && auth != NULL ? cf_auth_encode(auth) : NULL;

    free(user);
    if (status == 0 && auth != NULL && header == NULL) {
        status = cf_error_memory(&own);
        err = &own;
    }
    find.done(find.user, status, header, err);
    cf_auth_wipe(header);
}

int
cf_engine_auth_find(struct cf_engine *engine, const char *registry, cf_auth_done_fn *done,
                    void *user, struct cf_error *err)
{
    struct find *find = calloc(1, sizeof *find);

    if (find == NULL)
        return cf_error_memory(err);
    *find = (struct find){done, user};
    if (cf_engine_auth_look_up(engine, registry, on_looked_up, find, err) < 0) {
        free(find);
        return -1;
    }
    return 0;
}

void
cf_engine_helpers_cancel(struct cf_engine *engine)
{
    for (struct cf_engine_helper *helper = engine->helpers; helper != NULL;
         helper = helper->next) {
        if (helper->reported)
            continue;
        kill_helper(helper);
        if (helper->err.kind == CF_ERROR_NONE)
            cf_error_set(&helper->err, CF_ERROR_CANCELED, 0,
                         "looking up credentials was canceled");
        uv_timer_start(&helper->timer, on_timer, 0,
                       0); /* told from the loop, not from inside close */
    }
}
