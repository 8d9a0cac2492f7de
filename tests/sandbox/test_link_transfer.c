/* sandbox/link with a real cf-init: files that are nowhere held whole, links, what a manifest says of a folder. */
#include "tests/support/unit.h"
#include "tests/support/link_ns.h"

#include "sandbox/link_internal.h"

enum { PART = 300 * 1000, WHOLE = 20 * 1000 * 1000 };

/* A source that makes its bytes when they are asked for, and a sink that takes them in spurts. */
struct flow {
    struct ask ask; /* first: ask_done gets this */
    struct cf_transfer *transfer;
    uint64_t made, size, got, held_at_most;
    unsigned rooms, pauses;
    bool is_paused, is_wrong;
};

static char
byte_at(uint64_t at)
{
    return (char)(at * 40503u >> 9);
}

static void
pour(void *user)
{
    struct flow *flow = user;
    char part[PART];
    size_t want, n;

    flow->rooms++;
    do {
        want = flow->size - flow->made < PART ? (size_t)(flow->size - flow->made) : PART;
        for (size_t i = 0; i < want; i++)
            part[i] = byte_at(flow->made + i);
        n = cf_transfer_put(flow->transfer, part, want);
        flow->made += n;
    } while (n == want && flow->made < flow->size);
}

static int
sip(void *user, const char *bytes, size_t len)
{
    struct flow *flow = user;

    for (size_t i = 0; i < len; i++)
        flow->is_wrong |= bytes[i] != byte_at(flow->got + i);
    flow->got += len;
    flow->pauses++;
    flow->is_paused = true;
    return CF_PAUSE;
}

static int
refuse_to_sip(void *user, const char *bytes, size_t len)
{
    struct flow *flow = user;

    cf_transfer_abandon(flow->transfer);
    flow->got += len;
    return 0;
}

START_TEST(a_big_file_is_poured_in_and_sipped_out)
{
    struct flow in = {.size = WHOLE}, out = {.size = WHOLE};
    struct cf_error err;
    struct box box;

    if (!box_start(&box))
        return;
    ck_assert_int_eq(
        cf_link_upload(box.link, box.ns.folder, "big", 0600, WHOLE, pour, ask_done, &in, &in.transfer, &err), 0);
    BOX_UNTIL(&box, 20000, in.ask.is_answered);
    ck_assert_msg(in.ask.status == 0, "%s", in.ask.err.text);
    ck_assert_uint_gt(in.rooms, 1);
    ck_assert_int_eq(json_integer_value(json_object_get(in.ask.answer, "size")), WHOLE);
    ck_assert_int_eq(
        cf_link_download(box.link, box.ns.folder, "big", WHOLE, sip, ask_done, &out, &out.transfer, &err), 0);
    while (!out.ask.is_answered) {
        uint64_t before = out.got;
        BOX_UNTIL(&box, 20000, out.is_paused || out.ask.is_answered);
        box_turns(&box, before < 4u << 20 ? 20 : 0); /* what comes on without credit is a window at most */
        ck_assert_uint_le(out.got - before, 1u << 20);
        out.is_paused = false;
        if (!out.ask.is_answered)
            cf_transfer_resume(out.transfer);
    }
    ck_assert_msg(out.ask.status == 0, "%s", out.ask.err.text);
    ck_assert_uint_eq(out.got, WHOLE);
    ck_assert(!out.is_wrong);
    ask_release(&in.ask);
    ask_release(&out.ask);
    box_stop(&box);
}
END_TEST

START_TEST(a_transfer_let_go_of_says_nothing_more)
{
    struct flow in = {.size = WHOLE}, out = {.size = WHOLE};
    struct ask ask = {0};
    struct cf_error err;
    struct box box;

    if (!box_start(&box))
        return;
    ASK(&box, &ask, cf_link_write_file(box.link, box.ns.folder, "file", 0600, "123456", 6, ask_done, &ask, &err_));
    ck_assert_int_eq(
        cf_link_upload(box.link, box.ns.folder, "part", 0600, WHOLE, pour, ask_done, &in, &in.transfer, &err), 0);
    BOX_UNTIL(&box, 5000, in.made > 0);
    cf_transfer_abandon(in.transfer);
    ck_assert_int_eq(
        cf_link_download(box.link, box.ns.folder, "file", 6, refuse_to_sip, ask_done, &out, &out.transfer, &err), 0);
    BOX_UNTIL(&box, 5000, out.got == 6);
    ASK(&box, &ask, cf_link_read_file(box.link, box.ns.folder, "file", 6, ask_bytes, ask_done, &ask, &err_));
    ck_assert_int_eq(ask.status, 0);
    ck_assert(!in.ask.is_answered && !out.ask.is_answered);
    ask_release(&ask);
    box_stop(&box);
}
END_TEST

START_TEST(an_upload_that_is_refused_or_empty_ends_all_the_same)
{
    struct flow refused = {.size = 5}, empty = {.size = 0};
    struct cf_error err;
    struct box box;

    if (!box_start(&box))
        return;
    ck_assert_int_eq(cf_link_upload(box.link, box.ns.folder, "none/there", 0600, 5, pour, ask_done, &refused,
                                    &refused.transfer, &err),
                     0);
    BOX_UNTIL(&box, 5000, refused.ask.is_answered);
    ck_assert_int_eq(refused.ask.status, -1);
    ck_assert_int_eq(refused.ask.err.code, ENOENT);
    ck_assert_int_eq(
        cf_link_upload(box.link, box.ns.folder, "empty", 0640, 0, pour, ask_done, &empty, &empty.transfer, &err), 0);
    BOX_UNTIL(&box, 5000, empty.ask.is_answered);
    ck_assert_int_eq(empty.ask.status, 0);
    ask_release(&refused.ask);
    ask_release(&empty.ask);
    box_stop(&box);
}
END_TEST

/* A host that takes output the moment it is told of some, as the sandbox does. */
static void
take_at_once(void *user)
{
    struct box *box = user;
    const char *bytes;
    size_t len = cf_link_output(box->link, &bytes);
    ssize_t n = len > 0 ? write(box->ns.in, bytes, len) : 0;

    if (n > 0)
        cf_link_output_taken(box->link, (size_t)n);
    box->wants_output = true; /* the rest at the next turn */
}

static bool is_in_write;
static unsigned rooms, nested;

static void
note_room(void *user, struct cf_process *process)
{
    rooms++;
    nested += is_in_write;
}

START_TEST(nobody_is_told_of_room_from_inside_his_own_write)
{
    static const struct cf_process_events on = {.on_stdin_room = note_room};
    static const char *const argv[] = {"/bin/cat", NULL};
    static char big[400 * 1024];
    const struct cf_spawn spawn = {.argv = argv, .with_stdin = true};
    struct cf_link_events events = box_events;
    struct cf_process *process;
    struct cf_error err;
    struct box box;

    if (!box_start(&box))
        return;
    events.on_output = take_at_once;
    box.link->events = &events;
    ck_assert_int_eq(cf_process_spawn(box.link, &spawn, &on, NULL, &process, &err), 0);
    for (int i = 0; i < 20; i++) {
        box_turns(&box, 10);
        is_in_write = true;
        (void)cf_process_write(process, big, sizeof big);
        is_in_write = false;
        ck_assert_uint_eq(nested, 0);
    }
    box_turns(&box, 50);
    ck_assert_uint_gt(rooms, 0);
    cf_process_free(process);
    box_stop(&box);
}
END_TEST

START_TEST(a_symlink_is_made_as_it_reads_and_replaces_nothing)
{
    char path[300], text[100] = "";
    struct ask ask = {0};
    struct box box;

    if (!box_start(&box))
        return;
    ASK(&box, &ask, cf_link_symlink(box.link, box.ns.folder, "l", "/etc/shadow", ask_done, &ask, &err_));
    ck_assert_msg(ask.status == 0, "%s", ask.err.text);
    snprintf(path, sizeof path, "%s/l", box.ns.folder);
    ck_assert_int_eq(readlink(path, text, sizeof text - 1), 11);
    ck_assert_str_eq(text, "/etc/shadow");
    ASK(&box, &ask, cf_link_symlink(box.link, box.ns.folder, "l", "x", ask_done, &ask, &err_));
    ck_assert_int_eq(ask.err.code, EEXIST);
    ASK(&box, &ask, cf_link_symlink(box.link, box.ns.folder, "../l", "x", ask_done, &ask, &err_));
    ck_assert_int_eq(ask.status, -1);
    ask_release(&ask);
    box_stop(&box);
}
END_TEST

START_TEST(a_manifest_names_the_folder_that_it_could_not_enter)
{
    char path[300];
    struct ask ask = {0};
    struct box box;

    if (!box_start(&box))
        return;
    snprintf(path, sizeof path, "%s/closed", box.ns.folder);
    ck_assert_int_eq(mkdir(path, 0), 0);
    snprintf(path, sizeof path, "%s/pipe", box.ns.folder);
    ck_assert_int_eq(mkfifo(path, 0644), 0);
    ASK(&box, &ask, cf_link_manifest(box.link, box.ns.folder, 10, ask_bytes, ask_done, &ask, &err_));
    ck_assert_int_eq(ask.status, 0);
    ck_assert(json_is_true(json_object_get(ask.answer, "truncated")));
    ck_assert(json_is_false(json_object_get(ask.answer, "over")));
    cf_buf_add(&ask.bytes, "", 1);
    ck_assert_ptr_nonnull(strstr(ask.bytes.data, "\"t\":\"d\",\"o\":16384,\"e\":13}"));
    ck_assert_ptr_nonnull(strstr(ask.bytes.data, "\"t\":\"o\",\"o\":4516}"));
    ask_release(&ask);
    box_stop(&box);
}
END_TEST

UNIT_MAIN("sandbox/link: transfers", tcase_add_test(tc, a_big_file_is_poured_in_and_sipped_out);
          tcase_add_test(tc, a_transfer_let_go_of_says_nothing_more);
          tcase_add_test(tc, an_upload_that_is_refused_or_empty_ends_all_the_same);
          tcase_add_test(tc, nobody_is_told_of_room_from_inside_his_own_write);
          tcase_add_test(tc, a_symlink_is_made_as_it_reads_and_replaces_nothing);
          tcase_add_test(tc, a_manifest_names_the_folder_that_it_could_not_enter);)
