/* Against a real Engine: negotiation, builds, attach both ways, half-close, wait, archives. */
#include "base/str.h"
#include "tests/engine/live_box.h"
#include "tests/support/unit.h"

/* ---- tests ------------------------------------------------------------------------------ */

START_TEST(the_engine_says_who_it_is)
{
    struct live live;

    if (!live_open(&live, "the_engine_says_who_it_is"))
        return;
    const struct cf_engine_facts *facts = cf_engine_facts(live.engine);
    ck_assert_str_ne(facts->api_version, "");
    ck_assert_str_ne(facts->version, "");
    ck_assert_str_eq(facts->os, "linux");
    ck_assert_int_gt(facts->ncpu, 0);
    ck_assert_uint_gt(facts->memory_bytes, 0);
    ck_assert_str_ne(facts->cgroup_version, "");
    live_close(&live);
}
END_TEST

START_TEST(an_absent_image_is_not_found_with_status_message_and_request)
{
    struct live live;
    struct cf_error err;

    if (!live_open(&live, "an_absent_image_is_not_found_with_status_message_and_request"))
        return;
    ck_assert_int_eq(cf_engine_image_inspect(live.engine, "cf-none/such:x", live_on_done,
                                             &live, NULL, &err),
                     0);
    live_wait(&live);
    ck_assert_int_eq(live.err.kind, CF_ERROR_NOT_FOUND);
    ck_assert_int_eq(live.err.code, 404);
    ck_assert_ptr_nonnull(strstr(live.err.text, "GET /images/cf-none/such:x/json"));
    ck_assert_ptr_nonnull(strstr(live.err.text, "No such image"));
    live_close(&live);
}
END_TEST

START_TEST(a_container_echoes_through_attach_and_half_close_ends_it)
{
    struct live live;
    struct box box;
    struct cf_error err;
    static char big[1 << 20];

    if (!live_open(&live, "a_container_echoes_through_attach_and_half_close_ends_it"))
        return;
    for (size_t i = 0; i < sizeof big; i++)
        big[i] = (char)(i * 31 + i / 251);
    box_create(&box, &live, "echo to-stderr >&2; cat; echo end; exit 7");
    box_start(&box);
    ck_assert_int_eq(cf_attach_write(box.attach, big, sizeof big, &err), 0);
    ck_assert_int_lt(cf_attach_write(box.attach, "x", 1, &err), 0); /* one at a time */
    cf_attach_shutdown(box.attach); /* goes out after the write */
    RUN_UNTIL(&box, box.ended && box.waits > 0);
    ck_assert_int_eq(box.end_err.kind, CF_ERROR_NONE);
    ck_assert_int_eq(box.written, 1);
    ck_assert_int_eq(box.exit_code, 7);
    ck_assert_uint_eq(box.out.len, sizeof big + 4);
    ck_assert_mem_eq(box.out.data, big, sizeof big);
    ck_assert_str_eq(box.out.data + sizeof big, "end\n");
    ck_assert_str_eq(box.err_out.data, "to-stderr\n");
    box_remove(&box);
    live_close(&live);
}
END_TEST

START_TEST(an_attach_to_nothing_is_refused_with_the_engines_reason)
{
    struct live live;
    struct box box = {0};
    struct cf_error err;

    if (!live_open(&live, "an_attach_to_nothing_is_refused_with_the_engines_reason"))
        return;
    box.live = &live;
    ck_assert_int_eq(cf_attach_open(live.engine, "cf-no-such-container", 5000, &box_events,
                                    &box, &box.attach, &err),
                     0);
    RUN_UNTIL(&box, box.ended);
    ck_assert(!box.head);
    ck_assert_int_eq(box.end_err.kind, CF_ERROR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(box.end_err.text, "No such container"));
    cf_attach_close(box.attach, box_closed, &box);
    RUN_UNTIL(&box, box.closed);
    live_close(&live);
}
END_TEST

static int
got_bytes(void *user, const char *bytes, size_t len)
{
    struct live *live = user;
    live->objects += (int)len;
    return 0;
}

START_TEST(files_go_in_as_a_tar_and_come_out_again)
{
    struct live live;
    struct box box;
    struct cf_error err;
    const char *tar_bytes;
    size_t tar_len;

    if (!live_open(&live, "files_go_in_as_a_tar_and_come_out_again"))
        return;
    box_create(&box, &live, "cat /in/file");
    struct cf_tar *tar = cf_tar_new();
    ck_assert_int_eq(cf_tar_dir(tar, "in", 0755, 0, 0, &err), 0);
    ck_assert_int_eq(cf_tar_file(tar, "in/file", 0640, 12, 34, "hello tar", 9, &err), 0);
    ck_assert_int_eq(cf_tar_finish(tar, &tar_bytes, &tar_len, &err), 0);
    ck_assert_uint_eq(tar_len,
                      512 /* dir */ + 512 + 512 /* file */ + 1024 /* two zero blocks */);
    ck_assert_int_eq(cf_engine_archive_put(live.engine, box.id, "/", false, tar_bytes, tar_len,
                                           live_on_done, &live, NULL, &err),
                     0);
    expect_ok(&live);
    cf_tar_free(tar);
    ck_assert_int_eq(cf_engine_archive_stat(live.engine, box.id, "/in/file", live_on_done,
                                            &live, NULL, &err),
                     0);
    expect_ok(&live);
    ck_assert_str_ne(live.path_stat, "");
    ck_assert_int_eq(cf_engine_archive_stat(live.engine, box.id, "/in/none", live_on_done,
                                            &live, NULL, &err),
                     0);
    live_wait(&live);
    ck_assert_int_eq(live.err.kind, CF_ERROR_NOT_FOUND);
    ck_assert_int_eq(cf_engine_archive_get(live.engine, box.id, "/in/file", got_bytes,
                                           live_on_done, &live, NULL, &err),
                     0);
    expect_ok(&live);
    ck_assert_int_ge(live.objects, 1536); /* header, one block, end */
    box_start(&box);
    RUN_UNTIL(&box, box.ended && box.waits > 0);
    ck_assert_str_eq(box.out.data, "hello tar");
    box_remove(&box);
    live_close(&live);
}
END_TEST

START_TEST(what_is_gone_already_counts_as_removed)
{
    struct live live;
    struct cf_error err;

    if (!live_open(&live, "what_is_gone_already_counts_as_removed"))
        return;
    ck_assert_int_eq(
        cf_engine_container_remove(live.engine, "cf-none", live_on_done, &live, NULL, &err),
        0);
    expect_ok(&live);
    ck_assert_int_eq(live.http_status, 404);
    ck_assert_int_eq(
        cf_engine_volume_remove(live.engine, "cf-none", live_on_done, &live, NULL, &err), 0);
    expect_ok(&live);
    ck_assert_int_eq(
        cf_engine_network_remove(live.engine, "cf-none", live_on_done, &live, NULL, &err), 0);
    expect_ok(&live);
    ck_assert_int_eq(cf_engine_image_remove(live.engine, "cf-none", true, true, live_on_done,
                                            &live, NULL, &err),
                     0);
    expect_ok(&live);
    ck_assert_int_eq(
        cf_engine_list(live.engine, "volumes", "cf-none=1", live_on_done, &live, NULL, &err),
        0);
    expect_ok(&live);
    ck_assert_int_eq(
        cf_engine_list(live.engine, "networks", "cf-none=1", live_on_done, &live, NULL, &err),
        0);
    expect_ok(&live);
    live_close(&live);
}
END_TEST

START_TEST(a_canceled_wait_still_calls_done)
{
    struct live live;
    struct box box;

    if (!live_open(&live, "a_canceled_wait_still_calls_done"))
        return;
    box_create(&box, &live, "sleep 60");
    box_start(&box);
    cf_engine_call_cancel(box.wait_call);
    cf_engine_call_cancel(box.wait_call);
    RUN_UNTIL(&box, box.waits > 0);
    ck_assert_int_eq(box.waits, 1);
    ck_assert_int_eq(box.exit_code, -1);
    box_remove(&box);
    live_close(&live);
}
END_TEST

START_TEST(closing_the_engine_ends_calls_in_flight)
{
    struct live live;
    struct cf_error err;

    if (!live_open(&live, "closing_the_engine_ends_calls_in_flight"))
        return;
    ck_assert_int_eq(cf_engine_events(live.engine, LIVE_LABEL, 60000, NULL, live_on_object,
                                      live_on_done, &live, NULL, &err),
                     0);
    live.answers = 0;
    live_close(&live);
    ck_assert_int_eq(live.answers, 1);
    ck_assert_int_eq(live.err.kind, CF_ERROR_CANCELED);
}
END_TEST

START_TEST(the_end_of_a_container_is_an_event)
{
    struct live live;
    struct box box;
    struct cf_error err;
    struct cf_engine_call *events;

    if (!live_open(&live, "the_end_of_a_container_is_an_event"))
        return;
    box_create(&box, &live, "exit 0");
    ck_assert_int_eq(cf_engine_events(live.engine, LIVE_LABEL, 60000, NULL, live_on_object,
                                      live_on_done, &live, &events, &err),
                     0);
    box_start(&box);
    RUN_UNTIL(&box, live.objects >= 2 && box.waits > 0); /* start, die */
    live.answers = 0;
    cf_engine_call_cancel(events);
    RUN_UNTIL(&box, live.answers > 0);
    box_remove(&box);
    live_close(&live);
}
END_TEST

START_TEST(a_failed_step_is_the_authors_and_shows_its_last_lines)
{
    struct live live;
    struct live_build build;
    char dir[64];

    if (!live_open(&live, "a_failed_step_is_the_authors_and_shows_its_last_lines"))
        return;
    ck_assert_int_eq(live_context(dir, "RUN echo one line before; echo oops >&2; exit 3"), 0);
    ck_assert_int_lt(live_build(&live, dir, NULL, &build), 0);
    ck_assert_int_eq(live.err.kind, CF_ERROR_CONFIG);
    ck_assert_msg(strstr(live.err.text, " at Step 4/4 : RUN") != NULL, "%s", live.err.text);
    ck_assert_ptr_nonnull(strstr(live.err.text, "non-zero code: 3"));
    ck_assert_ptr_nonnull(
        strstr(build.tail, "\none line before\n")); /* stdout and stderr race */
    ck_assert_ptr_nonnull(strstr(build.tail, "\noops\n"));
    ck_assert_uint_ge(build.steps, 1);
    live_remove_images(&live);
    live_remove_dir(dir);
    live_close(&live);
}
END_TEST

START_TEST(a_dockerfile_that_cannot_be_read_is_the_authors)
{
    struct live live;
    struct live_build build;
    char dir[64];

    if (!live_open(&live, "a_dockerfile_that_cannot_be_read_is_the_authors"))
        return;
    ck_assert_int_eq(live_context(dir, "RUNN x"), 0);
    ck_assert_int_lt(live_build(&live, dir, NULL, &build), 0);
    ck_assert_int_eq(live.err.kind, CF_ERROR_CONFIG);
    ck_assert_ptr_nonnull(strstr(live.err.text, "RUNN"));
    ck_assert_msg(strstr(live.err.text, " line 3:") != NULL, "%s",
                  live.err.text); /* as the author counts */
    live_remove_images(&live);
    live_remove_dir(dir);
    live_close(&live);
}
END_TEST

START_TEST(an_error_inside_a_200_body_is_an_error)
{
    struct live live;
    struct cf_error err;
    struct cf_engine_request request = {.method = "POST",
                                        .path = "/images/load?quiet=1",
                                        .body = "garbage",
                                        .body_len = 7,
                                        .on_object = live_on_object};

    if (!live_open(&live, "an_error_inside_a_200_body_is_an_error"))
        return;
    ck_assert_int_eq(cf_engine_call(live.engine, &request, live_on_done, &live, NULL, &err),
                     0);
    live_wait(&live);
    ck_assert_int_lt(live.status, 0);
    ck_assert_int_eq(live.http_status, 200);
    ck_assert_int_eq(live.err.kind, CF_ERROR_ENGINE);
    live_close(&live);
}
END_TEST

UNIT_MAIN("engine/live", tcase_add_test(tc, the_engine_says_who_it_is);
          tcase_add_test(tc, an_absent_image_is_not_found_with_status_message_and_request);
          tcase_add_test(tc, a_container_echoes_through_attach_and_half_close_ends_it);
          tcase_add_test(tc, an_attach_to_nothing_is_refused_with_the_engines_reason);
          tcase_add_test(tc, files_go_in_as_a_tar_and_come_out_again);
          tcase_add_test(tc, what_is_gone_already_counts_as_removed);
          tcase_add_test(tc, a_canceled_wait_still_calls_done);
          tcase_add_test(tc, closing_the_engine_ends_calls_in_flight);
          tcase_add_test(tc, the_end_of_a_container_is_an_event);
          tcase_add_test(tc, a_failed_step_is_the_authors_and_shows_its_last_lines);
          tcase_add_test(tc, a_dockerfile_that_cannot_be_read_is_the_authors);
          tcase_add_test(tc, an_error_inside_a_200_body_is_an_error);)
