/* live_box.h: one container with everything we use: attach, wait, start, removal. */
#ifndef CF_TESTS_ENGINE_LIVE_BOX_H
#define CF_TESTS_ENGINE_LIVE_BOX_H

#include "tests/engine/live.h"

#include <check.h>

struct box {
    struct live *live;
    struct live_build build;
    char dir[64], name[64], id[80], tag[80];
    struct cf_attach *attach;
    bool head, ended, wait_head, closed;
    struct cf_error end_err;
    struct cf_buf out, err_out;
    int written, waits, exit_code;
    struct cf_engine_call *wait_call;
};

static inline void
box_head(void *user)
{
    ((struct box *)user)->head = true;
}
static inline void
box_written(void *user)
{
    ((struct box *)user)->written++;
}
static inline void
box_closed(void *user)
{
    ((struct box *)user)->closed = true;
}

static inline void
box_data(void *user, enum cf_attach_stream stream, const char *bytes, size_t len)
{
    struct box *box = user;
    ck_assert_int_eq(
        cf_buf_add(stream == CF_ATTACH_STDOUT ? &box->out : &box->err_out, bytes, len), 0);
}

static inline void
box_end(void *user, const struct cf_error *err)
{
    struct box *box = user;
    box->ended = true;
    if (err != NULL)
        box->end_err = *err;
}

static inline void
box_wait_head(void *user, int http_status)
{
    ((struct box *)user)->wait_head = http_status == 200;
}

static inline void
box_waited(void *user, int status, const struct cf_engine_reply *reply,
           const struct cf_error *err)
{
    struct box *box = user;
    box->waits++;
    box->exit_code =
        status == 0 ? (int)json_integer_value(json_object_get(reply->json, "StatusCode")) : -1;
}

static const struct cf_attach_events box_events = {box_head, box_data, box_written, box_end};

#define RUN_UNTIL(box, condition)                                        \
    while (!(condition) && uv_run(&(box)->live->loop, UV_RUN_ONCE) != 0) \
        ;

static inline void
expect_ok(struct live *live)
{
    live_wait(live);
    if (live->status != 0)
        ck_abort_msg("%s", live->err.text);
}

static inline void
box_create(struct box *box, struct live *live, const char *script)
{
    char random[33], value[16];
    struct cf_error err;

    memset(box, 0, sizeof *box);
    box->live = live;
    cf_id_hex(random);
    snprintf(box->name, sizeof box->name, "cf-engine-test-%s", random);
    snprintf(box->tag, sizeof box->tag, "cf-engine-test:%s", random);
    ck_assert_int_eq(live_context(box->dir, ""), 0);
    if (live_build(live, box->dir, box->tag, &box->build) != 0)
        ck_abort_msg("%s\n%s", live->err.text, box->build.tail);
    json_t *spec =
        json_pack("{s:s, s:[s,s,s], s:b, s:b, s:b, s:b, s:b, s:{s:s}, s:{s:s, s:{s:s}}}",
                  "Image", box->build.image_id, "Entrypoint", "/bin/sh", "-c", script,
                  "OpenStdin", 1, "StdinOnce", 1, "AttachStdin", 1, "AttachStdout", 1,
                  "AttachStderr", 1, "Labels", LIVE_LABEL, live_label_value(value),
                  "HostConfig", "NetworkMode", "none", "LogConfig", "Type", "none");
    ck_assert_ptr_nonnull(spec);
    ck_assert_int_eq(cf_engine_container_create(live->engine, box->name, NULL, spec,
                                                live_on_done, live, NULL, &err),
                     0);
    json_decref(spec);
    expect_ok(live);
    snprintf(box->id, sizeof box->id, "%s",
             json_string_value(json_object_get(live->json, "Id")));
}

static inline void
box_start(struct box *box)
{
    struct live *live = box->live;
    struct cf_error err;

    ck_assert_int_eq(
        cf_attach_open(live->engine, box->id, 5000, &box_events, box, &box->attach, &err), 0);
    RUN_UNTIL(box, box->head || box->ended);
    if (!box->head)
        ck_abort_msg("%s", box->end_err.text);
    ck_assert_int_eq(cf_engine_container_wait(live->engine, box->id, 60000, box_wait_head,
                                              box_waited, box, &box->wait_call, &err),
                     0);
    RUN_UNTIL(box, box->wait_head);
    ck_assert_int_eq(
        cf_engine_container_start(live->engine, box->id, live_on_done, live, NULL, &err), 0);
    expect_ok(live);
}

static inline void
box_remove(struct box *box)
{
    struct live *live = box->live;
    struct cf_error err;

    if (box->attach != NULL) {
        cf_attach_close(box->attach, box_closed, box);
        RUN_UNTIL(box, box->closed);
    }
    if (box->id[0] != '\0') {
        ck_assert_int_eq(
            cf_engine_container_remove(live->engine, box->id, live_on_done, live, NULL, &err),
            0);
        expect_ok(live);
    }
    live_remove_images(live);
    cf_buf_release(&box->out);
    cf_buf_release(&box->err_out);
    live_remove_dir(box->dir);
}

#endif
