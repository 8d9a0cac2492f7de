/*
 * One image build with the legacy builder: the context goes out as it is read, the progress
 * stream comes back, and what it says is kept: the step under way, the last lines, and every
 * image id it names, since a legacy build leaves intermediate images without any label.
 */
#include "base/str.h"
#include "base/tail.h"
#include "engine/context.h"
#include "engine/internal.h"
#include "json/json.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define TAIL_BYTES 8192u
#define TAIL_LINES 20u
#define BUILD_IDLE_MS \
    0u /* a step may be silent for as long as it likes; the deadline bounds it */
#define MAX_STEPS 4096u
#define CUT_MS 5000u /* how long a cancel waits for a step that cannot be told afterwards */

struct cf_build {
    struct cf_engine *engine;
    struct cf_context *context;
    struct cf_engine_call *call;
    cf_build_done_fn *done;
    void *user;
    cf_engine_progress_fn *on_object;
    char *dockerfile;
    struct cf_tail tail;
    char step[200]; /* "Step 3/4 : RUN false", the last one begun */
    char image_id[80];
    char last_id[80];   /* of the last " ---> <id>" line */
    char container[80]; /* of the last " ---> Running in <id>" line of this step */
    bool step_is_open;  /* no image came of it yet */
    char error[400];    /* errorDetail.message */
    char **steps;
    size_t step_count;
    bool said_success;
    bool context_is_out; /* the engine has all of it, and begins to build */
    bool is_pulling;     /* a base image, in the step under way */
    bool made_one;       /* a step has made an image: what descends from it is known as ours */
    bool wants_cancel;
    uv_timer_t cut; /* bounds a cancel that waits */
};

static void
on_context_closed(void *user)
{
    struct cf_engine *engine = user;
    engine->parts_open--;
    cf_engine_free_if_closed(engine);
}

/* The context may have a file request in the loop still: the engine waits for it. */
static void
let_go_of_context(struct cf_build *build)
{
    build->engine->parts_open++;
    cf_context_close(build->context, on_context_closed, build->engine);
}

static void
build_free(struct cf_build *build)
{
    cf_tail_release(&build->tail);
    for (size_t i = 0; i < build->step_count; i++)
        free(build->steps[i]);
    free(build->steps);
    free(build->dockerfile);
    free(build);
}

static void
on_cut_closed(uv_handle_t *timer)
{
    struct cf_build *build = timer->data;
    struct cf_engine *engine = build->engine;

    build_free(build);
    engine->parts_open--;
    cf_engine_free_if_closed(engine);
}

/* Once its timer is in the loop, a build is freed only by the loop. */
static void
build_close(struct cf_build *build)
{
    build->engine->parts_open++;
    uv_close((uv_handle_t *)&build->cut, on_cut_closed);
}

/* ---- the stream ------------------------------------------------------------------------- */

/* "RUN false" of "Step 3/4 : RUN false". */
static const char *
instruction_of(const char *step)
{
    const char *colon = strstr(step, " : ");
    return colon != NULL ? colon + 3 : "";
}

static void
add_step_id(struct cf_build *build, const char *id)
{
    for (size_t i = 0; i < build->step_count; i++)
        if (strcmp(build->steps[i], id) == 0)
            return;
    if (build->step_count == MAX_STEPS)
        return;
    char **more = realloc(build->steps, (build->step_count + 1) * sizeof *more);
    if (more == NULL)
        return;
    build->steps = more;
    more[build->step_count] = strdup(id);
    if (more[build->step_count] != NULL)
        build->step_count++;
}

/* The id at `text`, of a sort the builders print (12 or 64 digits, Podman 11), to its line's
 * end. */
static bool
take_id(const char *text, char out[80])
{
    size_t len = 0;

    if (cf_str_starts(text, "sha256:"))
        text += 7;
    while (cf_is_hex(text + len, 1))
        len++;
    if (len < 11 || len > 64 || (text[len] != '\0' && text[len] != '\n' && text[len] != '\r'))
        return false;
    snprintf(out, 80, "%.*s", (int)len, text);
    return true;
}

/* " ---> 0123456789ab" names the image a step made, " ---> Running in ..." its container;
 * other words may stand there too. Podman's arrow is one dash shorter. */
static void
take_arrow(struct cf_build *build, const char *line)
{
    const char *arrow = strstr(line, "--> ");

    if (arrow == NULL)
        return;
    arrow += 4;
    if (cf_str_starts(arrow, "Running in ")) {
        if (!take_id(arrow + 11, build->container))
            build->container[0] = '\0';
    } else if (take_id(arrow, build->last_id)) {
        add_step_id(build, build->last_id);
        build->step_is_open = false;
        if (strncasecmp(instruction_of(build->step), "FROM ", 5) != 0)
            build->made_one = true;
    }
}

/* What a step writes to stderr comes wrapped in colours (ESC [ ... m): those are not text. */
static void
keep_tail(struct cf_build *build, const char *text)
{
    while (*text != '\0') {
        size_t plain = strcspn(text, "\033");
        cf_tail_add(&build->tail, text, plain);
        text += plain;
        if (*text != '\0') {
            text++;
            if (*text == '[')
                text += 1 + strspn(text + 1, "0123456789;");
            if (*text == 'm')
                text++;
        }
    }
}

static void
take_text(struct cf_build *build, const char *text)
{
    keep_tail(build, text);
    if (cf_str_starts(text, "Step ")) {
        snprintf(build->step, sizeof build->step, "%.*s", (int)strcspn(text, "\r\n"), text);
        build->step_is_open = true;
        build->is_pulling = false;
        build->container[0] = '\0';
    } else if (cf_str_starts(text, "Successfully built ")) {
        build->said_success = true;
    } else {
        take_arrow(build, text);
    }
}

/* True when whatever the engine still makes after a cut can be told as ours, or is nothing. */
static bool
may_be_cut(const struct cf_build *build)
{
    return !build->context_is_out || build->made_one || build->is_pulling ||
           build->container[0] != '\0';
}

static void
on_object(void *user, json_t *object)
{
    struct cf_build *build = user;
    const char *text = cf_json_str(object, "stream");
    const char *id = cf_json_str(cf_json_obj(object, "aux"), "ID");
    const char *error = cf_json_str(cf_json_obj(object, "errorDetail"), "message");

    if (text != NULL)
        take_text(build, text);
    if (id != NULL && cf_str_starts(id, "sha256:") && cf_is_hex(id + 7, 64) &&
        strlen(id) == 71) {
        snprintf(build->image_id, sizeof build->image_id, "%s", id);
        add_step_id(build, id);
    }
    if (error == NULL)
        error = cf_json_str(object, "error");
    if (error != NULL && build->error[0] == '\0')
        snprintf(build->error, sizeof build->error, "%s", error);
    if (cf_json_str(object, "status") != NULL)
        build->is_pulling = true;
    if (build->on_object != NULL)
        build->on_object(build->user, object);
    if (build->wants_cancel && may_be_cut(build))
        cf_engine_call_cancel(build->call);
}

/* ---- the end ---------------------------------------------------------------------------- */

/* "line 4" of what was sent becomes the author's "line 3". */
static void
count_lines_as_author(const struct cf_build *build, struct cf_error *err)
{
    char *at = strstr(err->text, " line "), *end;

    if (at == NULL)
        return;
    unsigned long number = strtoul(at + 6, &end, 10);
    if (end == at + 6 || number == 0 || number > 1000000)
        return;
    struct cf_error whole = *err;
    cf_error_set(err, whole.kind, whole.code, "%.*s line %u%s", (int)(at - err->text),
                 whole.text, cf_context_author_line(build->context, (unsigned)number),
                 whole.text + (end - err->text));
}

/* The engine's own failure in the middle of a step: what an earlier step had made is gone, or its
 * disk is full. What a step's command did, and said, is told by the command and its exit code. */
static const char *
engines_own(const char *error)
{
    static const char *const removed[] = {"unknown parent image ID", "No such image", "No such container",
                                          "layer does not exist"};

    if (strstr(error, "returned a non-zero code") != NULL || cf_str_starts(error, "invalid from flag"))
        return NULL;
    if (strstr(error, "no space left on device") != NULL)
        return "make room on the disk of the engine";
    for (size_t i = 0; i < CF_COUNT(removed); i++)
        if (strcasestr(error, removed[i]) != NULL)
            return "what an earlier step had made was removed meanwhile: see that nothing prunes the engine while "
                   "it builds";
    return NULL;
}

/* What a failed build means: the author's Dockerfile, a base image the engine could not get, or
 * the engine itself. */
static void
explain(struct cf_build *build, int http_status, struct cf_error *err)
{
    const struct cf_error *context = cf_context_error(build->context);

    if (context->kind != CF_ERROR_NONE && err->kind == CF_ERROR_CANCELED) {
        *err = *context;
        return;
    }
    if (build->error[0] != '\0') {
        bool base = strncasecmp(instruction_of(build->step), "FROM ", 5) == 0;
        const char *own = base ? NULL : engines_own(build->error);
        cf_error_set(err, base || own != NULL ? CF_ERROR_ENGINE : CF_ERROR_CONFIG, own != NULL ? 500 : 0,
                     "%s failed%s%s: %s", build->dockerfile, build->step[0] != '\0' ? " at " : "", build->step,
                     build->error);
        if (own != NULL)
            cf_error_fix(err, "%s", own);
        else if (strstr(build->error, "BuildKit") != NULL)
            cf_error_fix(err, "the context is built with the legacy builder: build the image "
                              "yourself, push it, and use --image");
        else
            cf_error_fix(err, base ? "check the base image's name, that the engine reaches "
                                     "its registry, and credentials"
                                   : "the last lines of the build say what the step printed");
        return;
    }
    if (http_status == 400) {
        err->kind = CF_ERROR_CONFIG;
        count_lines_as_author(build, err);
        cf_error_fix(err, "correct %s; the engine's message names the line",
                     build->dockerfile);
    }
}

static int
check_result(struct cf_build *build, struct cf_error *err)
{
    if (build->image_id[0] != '\0')
        return 0;
    if (build->said_success &&
        build->last_id[0] != '\0') { /* an engine that sends no aux object */
        snprintf(build->image_id, sizeof build->image_id, "%s", build->last_id);
        return 0;
    }
    return cf_error_set(err, CF_ERROR_ENGINE, 0,
                        "the build ended without an error and without an image id");
}

static void
finish(struct cf_build *build, int status, int http_status, struct cf_error *err)
{
    cf_auto_free char *tail = cf_tail_text(&build->tail, TAIL_LINES, 0);

    if (status == 0)
        status = check_result(build, err);
    else
        explain(build, http_status, err);
    struct cf_build_result result = {
        .steps = build->steps,
        .step_count = build->step_count,
        .image_id = status == 0 ? build->image_id : NULL,
        .tail = tail != NULL ? tail : "",
        .open_step = build->step_is_open ? instruction_of(build->step) : "",
        .open_container = build->step_is_open ? build->container : "",
        .last_image = build->last_id};
    let_go_of_context(build);
    build->done(build->user, status, &result, status < 0 ? err : NULL);
    build_close(build);
}

static void
on_answer(void *user, int status, const struct cf_engine_reply *reply,
          const struct cf_error *err)
{
    struct cf_error own = {0};

    if (err != NULL)
        own = *err;
    finish(user, status, reply != NULL ? reply->http_status : 0, &own);
}

/* ---- the beginning ---------------------------------------------------------------------- */

static void
on_context_ready(void *user)
{
    struct cf_build *build = user;
    cf_engine_call_resume(build->call);
}

static long
on_source(void *user, char *to, size_t size)
{
    struct cf_build *build = user;
    long put = cf_context_read(build->context, to, size);

    build->context_is_out |= put == 0;
    return put;
}

static int
add_labels(struct cf_buf *path, const json_t *labels)
{
    cf_auto_free char *text = labels != NULL ? cf_json_dump(labels, NULL) : NULL;

    if (labels == NULL)
        return 0;
    return text == NULL ? -1 : cf_engine_query(path, "labels", text);
}

static int
ask(struct cf_build *build, const struct cf_build_options *options, struct cf_error *err)
{
    struct cf_buf path = {0};
    struct cf_engine_request request = {
        .method = "POST",
        .source = on_source,
        .source_user = build,
        .content_type = "application/x-tar",
        .registry_config = options->registry_config,
        .deadline_ms = options->deadline_ms,
        .idle_ms = BUILD_IDLE_MS,
        .on_object = on_object,
    };

    (void)cf_buf_adds(&path, "/build?rm=1&forcerm=1&version=1");
    (void)cf_engine_query(&path, "dockerfile", build->dockerfile);
    if (options->tag != NULL)
        (void)cf_engine_query(&path, "t", options->tag);
    if (options->platform != NULL)
        (void)cf_engine_query(&path, "platform", options->platform);
    if (options->no_cache)
        (void)cf_engine_query(&path, "nocache", "1");
    if (!cf_context_is_labelled(build->context) && add_labels(&path, options->labels) < 0)
        path.failed = true;
    return cf_engine_send(build->engine, &path, request, on_answer, build, &build->call, err);
}

int
cf_build_open(struct cf_engine *engine, const struct cf_build_options *options,
              cf_build_done_fn *done, void *user, struct cf_build **ret_build,
              struct cf_error *err)
{
    const char *dockerfile = options->dockerfile != NULL ? options->dockerfile : "Dockerfile";
    struct cf_build *build = calloc(1, sizeof *build);

    if (build == NULL || cf_tail_init(&build->tail, TAIL_BYTES) < 0) {
        free(build);
        return cf_error_memory(err);
    }
    build->engine = engine;
    build->done = done;
    build->user = user;
    build->on_object = options->on_object;
    if (cf_str_copy(&build->dockerfile, dockerfile, err) < 0 ||
        cf_context_open(engine->loop, options->context_dir, dockerfile, options->labels,
                        on_context_ready, build, &build->context, err) < 0) {
        build_free(build);
        return -1;
    }
    (void)uv_timer_init(engine->loop,
                        &build->cut); /* only links it into the loop: cannot fail */
    build->cut.data = build;
    if (ask(build, options, err) < 0) {
        let_go_of_context(build);
        build_close(build);
        return -1;
    }
    if (ret_build != NULL)
        *ret_build = build;
    return 0;
}

static void
on_cut(uv_timer_t *timer)
{
    struct cf_build *build = timer->data;
    cf_engine_call_cancel(build->call);
}

void
cf_build_cancel(struct cf_build *build)
{
    if (build == NULL || build->wants_cancel)
        return;
    build->wants_cancel = true;
    uv_timer_start(&build->cut, on_cut, may_be_cut(build) ? 0 : CUT_MS, 0);
}
