/* mux/: what travels, what is refused, and who may send how much. */
#include "tests/support/unit.h"

#include "base/buf.h"
#include "mux/mux.h"

#include <stdio.h>
#include <string.h>

/* One end, with everything it heard written down as text. */
struct end {
    struct cf_mux mux;
    struct cf_buf log;
    struct cf_mux_channel doors[8];
    unsigned door_count;
    bool is_refusing, is_consuming;
    size_t data_bytes;
    uint32_t sum;
};

static struct cf_mux_channel *
on_open(void *user, uint32_t tag)
{
    struct end *end = user;

    cf_buf_addf(&end->log, "open %u;", tag);
    return end->is_refusing || end->door_count == 8 ? NULL : &end->doors[end->door_count++];
}

static void
on_opened(void *user, struct cf_mux_channel *channel)
{
}

static void
on_data(void *user, struct cf_mux_channel *channel, const char *bytes, size_t len)
{
    struct end *end = user;

    cf_buf_add(&end->log, bytes, len < 64 ? len : 64);
    end->data_bytes += len;
    for (size_t i = 0; i < len; i++)
        end->sum = end->sum * 31 + (unsigned char)bytes[i];
    if (end->is_consuming)
        cf_mux_consumed(&end->mux, channel, len);
}

static void
on_half_close(void *user, struct cf_mux_channel *channel)
{
    cf_buf_addf(&((struct end *)user)->log, ";half-close %u;", channel->id);
}

static void
on_reset(void *user, struct cf_mux_channel *channel)
{
    cf_buf_addf(&((struct end *)user)->log, ";reset %u;", channel->id);
}

static void
on_writable(void *user, struct cf_mux_channel *channel)
{
    cf_buf_addf(&((struct end *)user)->log, ";writable %u;", channel->id);
}

static int
on_control(void *user, const char *bytes, size_t len, struct cf_error *err)
{
    struct end *end = user;

    cf_buf_addf(&end->log, ";control %zu ", len);
    cf_buf_add(&end->log, bytes, len < 64 ? len : 64);
    return len == 3 && memcmp(bytes, "bad", 3) == 0
               ? cf_error_set(err, CF_ERROR_WIRE, 0, "bad")
               : 0;
}

static const struct cf_mux_events events = {on_open,  on_opened,   on_data,   on_half_close,
                                            on_reset, on_writable, on_control};

static void
start(struct end *end, enum cf_mux_side side)
{
    const struct cf_mux_options options = {
        .side = side,
        .data_queue_bytes = 65536,
        .control_queue_bytes = 3 * 1024 * 1024,
        .own_channels_max = 4,
        .peer_channels_max = 4,
        .growth_bytes = 1024 * 1024,
    };

    memset(end, 0, sizeof *end);
    cf_mux_init(&end->mux, &options, &events, end);
}

static void
stop(struct end *end)
{
    cf_mux_release(&end->mux);
    cf_buf_release(&end->log);
}

/* Everything `end` has to say, appended to `to`. */
static void
drain(struct end *end, struct cf_buf *to)
{
    const char *bytes;
    size_t len;

    while ((len = cf_mux_peek(&end->mux, &bytes)) > 0) {
        cf_buf_add(to, bytes, len);
        cf_mux_taken(&end->mux, len);
    }
}

static int
carry(struct end *from, struct end *to)
{
    struct cf_buf bytes = {0};
    struct cf_error err;
    int status;

    drain(from, &bytes);
    status = cf_mux_feed(&to->mux, bytes.data, bytes.len, &err);
    cf_buf_release(&bytes);
    return status;
}

static void
open_ok(struct end *end, struct cf_mux_channel *channel, uint32_t window, uint32_t tag)
{
    struct cf_error err;

    memset(channel, 0, sizeof *channel);
    ck_assert_int_eq(cf_mux_open(&end->mux, channel, window, tag, &err), 0);
}

/* A frame by hand. */
static size_t
put(char *to, unsigned kind, unsigned flags, uint32_t channel, const void *payload, size_t len)
{
    struct cf_mux_frame frame = {(uint8_t)kind, (uint8_t)flags, (uint16_t)len, channel};

    cf_mux_frame_write(to, &frame);
    if (len > 0)
        memcpy(to + CF_MUX_HEADER, payload, len);
    return CF_MUX_HEADER + len;
}

static size_t
put_open(char *to, uint32_t channel, uint32_t window)
{
    char payload[8];

    cf_mux_put_u32(payload, window);
    cf_mux_put_u32(payload + 4, 7);
    return put(to, CF_MUX_OPEN, 0, channel, payload, 8);
}

static void
expect_refused(struct end *end, const char *bytes, size_t len, const char *word)
{
    struct cf_error err = {0};

    ck_assert_int_eq(cf_mux_feed(&end->mux, bytes, len, &err), -1);
    ck_assert_msg(strstr(err.text, word) != NULL, "'%s' does not say '%s'", err.text, word);
    ck_assert_int_eq(err.kind, CF_ERROR_WIRE);
    ck_assert_int_eq(cf_mux_feed(&end->mux, "x", 1, &err),
                     0); /* and nothing is read any more */
}

START_TEST(a_header_survives_the_journey)
{
    struct cf_mux_frame frame = {CF_MUX_DATA, 0, 32760, 0xfedcba98}, back;
    char bytes[8];

    cf_mux_frame_write(bytes, &frame);
    ck_assert_int_eq(memcmp(bytes, "\x02\x00\x7f\xf8\xfe\xdc\xba\x98", 8), 0);
    ck_assert_ptr_null(cf_mux_frame_read(bytes, &back));
    ck_assert_uint_eq(back.kind, frame.kind);
    ck_assert_uint_eq(back.length, frame.length);
    ck_assert_uint_eq(back.channel, frame.channel);
}
END_TEST

START_TEST(every_wrong_header_is_refused)
{
    static const struct {
        unsigned char bytes[8];
        const char *word;
    } wrong[] = {
        {{0, 0, 0, 1, 0, 0, 0, 1}, "kind"},         {{7, 0, 0, 1, 0, 0, 0, 1}, "kind"},
        {{255, 0, 0, 1, 0, 0, 0, 1}, "kind"},       {{2, 1, 0, 1, 0, 0, 0, 1}, "flag"},
        {{6, 2, 0, 1, 0, 0, 0, 0}, "flag"},         {{2, 0, 0, 0, 0, 0, 0, 1}, "length"},
        {{2, 0, 0x7f, 0xf9, 0, 0, 0, 1}, "length"}, {{6, 0, 0xff, 0xff, 0, 0, 0, 0}, "length"},
        {{6, 0, 0, 0, 0, 0, 0, 0}, "length"},       {{1, 0, 0, 7, 0, 0, 0, 1}, "length"},
        {{3, 0, 0, 5, 0, 0, 0, 1}, "length"},       {{4, 0, 0, 1, 0, 0, 0, 1}, "length"},
        {{5, 0, 0, 1, 0, 0, 0, 1}, "length"},       {{2, 0, 0, 1, 0, 0, 0, 0}, "channel"},
        {{6, 0, 0, 1, 0, 0, 0, 1}, "channel"},      {{2, 0, 0, 1, 0, 0, 0, 9}, "never opened"},
    };
    struct end end;

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        start(&end, CF_MUX_DRIVER);
        expect_refused(&end, (const char *)wrong[i].bytes, 8, wrong[i].word);
        stop(&end);
    }
}
END_TEST

/* What a driver says in a small conversation. */
static void
speak(struct end *driver, struct cf_mux_channel *channel, struct cf_buf *to)
{
    struct cf_error err;

    open_ok(driver, channel, 100, 4180);
    ck_assert_int_eq(cf_mux_control(&driver->mux, "{\"id\":1}", 8, &err), 0);
    ck_assert_uint_eq(cf_mux_write(&driver->mux, channel, "hello ", 6), 6);
    drain(driver, to);
    ck_assert_uint_eq(cf_mux_write(&driver->mux, channel, "world", 5), 5);
    cf_mux_half_close(&driver->mux, channel);
    drain(driver, to);
    cf_mux_close(&driver->mux, channel);
    drain(driver, to);
}

START_TEST(a_conversation_survives_any_cut)
{
    struct cf_mux_channel channel;
    struct cf_buf said = {0};
    struct end driver, init;
    struct cf_error err;

    start(&driver, CF_MUX_DRIVER);
    speak(&driver, &channel, &said);
    for (size_t cut = 0; cut <= said.len; cut++) {
        start(&init, CF_MUX_INIT);
        ck_assert_int_eq(cf_mux_feed(&init.mux, said.data, cut, &err), 0);
        ck_assert_int_eq(cf_mux_feed(&init.mux, said.data + cut, said.len - cut, &err), 0);
        ck_assert_str_eq(init.log.data,
                         "open 4180;;control 8 {\"id\":1}hello world;half-close 1;;reset 1;");
        stop(&init);
    }
    start(&init, CF_MUX_INIT);
    for (size_t i = 0; i < said.len; i++)
        ck_assert_int_eq(cf_mux_feed(&init.mux, said.data + i, 1, &err), 0);
    ck_assert_str_eq(init.log.data,
                     "open 4180;;control 8 {\"id\":1}hello world;half-close 1;;reset 1;");
    stop(&init);
    stop(&driver);
    cf_buf_release(&said);
}
END_TEST

START_TEST(data_goes_up_to_its_credit_and_not_a_byte_further)
{
    static const char zeros[64];
    char bytes[512];
    struct end init;
    struct cf_error err;
    size_t len;

    for (int more = 0; more < 2; more++) {
        start(&init, CF_MUX_INIT);
        len = put_open(bytes, 1, 100);
        len += put(bytes + len, CF_MUX_DATA, 0, 1, zeros, 60);
        len += put(bytes + len, CF_MUX_DATA, 0, 1, zeros, 40 + (size_t)more);
        if (more)
            expect_refused(&init, bytes, len, "past its credit");
        else
            ck_assert_int_eq(cf_mux_feed(&init.mux, bytes, len, &err), 0);
        stop(&init);
    }
}
END_TEST

START_TEST(a_writer_takes_no_more_than_its_credit)
{
    struct cf_mux_channel channel;
    struct end driver, init;
    char bytes[300] = {0};

    start(&driver, CF_MUX_DRIVER);
    start(&init, CF_MUX_INIT);
    open_ok(&driver, &channel, 100, 0);
    ck_assert_uint_eq(cf_mux_write(&driver.mux, &channel, bytes, 300), 100);
    ck_assert_int_eq(carry(&driver, &init), 0);
    ck_assert_uint_eq(cf_mux_write(&driver.mux, &channel, bytes, 300), 0);
    cf_mux_consumed(&init.mux, &init.doors[0], 60);
    ck_assert_int_eq(carry(&init, &driver), 0);
    ck_assert_ptr_nonnull(strstr(driver.log.data, "writable 1"));
    ck_assert_uint_eq(cf_mux_write(&driver.mux, &channel, bytes, 300), 60);
    stop(&driver);
    stop(&init);
}
END_TEST

START_TEST(credit_comes_in_quarters_and_never_trickles)
{
    struct cf_mux_channel channel;
    struct end driver, init;
    const char *bytes;
    char data[1000] = {0};

    start(&driver, CF_MUX_DRIVER);
    start(&init, CF_MUX_INIT);
    open_ok(&driver, &channel, 1000, 0);
    ck_assert_uint_eq(cf_mux_write(&driver.mux, &channel, data, 1000), 1000);
    ck_assert_int_eq(carry(&driver, &init), 0);
    cf_mux_consumed(&init.mux, &init.doors[0], 249);
    ck_assert_uint_eq(cf_mux_peek(&init.mux, &bytes), 0);
    cf_mux_consumed(&init.mux, &init.doors[0], 1);
    ck_assert_uint_eq(cf_mux_peek(&init.mux, &bytes), 12);
    ck_assert_uint_eq(cf_mux_get_u32(bytes + 8), 250);
    stop(&driver);
    stop(&init);
}
END_TEST

START_TEST(the_window_of_a_channel_that_streams_grows_to_a_mebibyte)
{
    struct cf_mux_channel channel;
    struct end driver, init;
    static char data[65536];

    start(&driver, CF_MUX_DRIVER);
    start(&init, CF_MUX_INIT);
    init.is_consuming = true;
    open_ok(&driver, &channel, CF_MUX_WINDOW_DOOR, 0);
    for (int i = 0; i < 200; i++) {
        (void)cf_mux_write(&driver.mux, &channel, data, sizeof data);
        ck_assert_int_eq(carry(&driver, &init), 0);
        ck_assert_int_eq(carry(&init, &driver), 0);
    }
    ck_assert_uint_eq(init.doors[0].window, CF_MUX_WINDOW_MAX);
    ck_assert_uint_ge(channel.send_credit, CF_MUX_WINDOW_MAX / 2);
    /* 960 KiB of the 1 MiB of growth are out; closing gives them back */
    ck_assert_uint_eq(init.mux.growth_left, 65536);
    cf_mux_close(&init.mux, &init.doors[0]);
    ck_assert_uint_eq(init.mux.growth_left, 1024 * 1024);
    stop(&driver);
    stop(&init);
}
END_TEST

START_TEST(windows_stop_growing_when_all_together_have_grown_enough)
{
    struct cf_mux_channel channels[4];
    struct end driver, init;
    static char data[65536];
    uint32_t together = 0;

    start(&driver, CF_MUX_DRIVER);
    start(&init, CF_MUX_INIT);
    init.is_consuming = true;
    for (int c = 0; c < 4; c++)
        open_ok(&driver, &channels[c], CF_MUX_WINDOW_DOOR, 0);
    for (int i = 0; i < 400; i++) {
        (void)cf_mux_write(&driver.mux, &channels[i % 4], data, sizeof data);
        ck_assert_int_eq(carry(&driver, &init), 0);
        ck_assert_int_eq(carry(&init, &driver), 0);
    }
    for (int c = 0; c < 4; c++)
        together += init.doors[c].window;
    ck_assert_uint_le(together, 4 * CF_MUX_WINDOW_DOOR + 1024 * 1024);
    ck_assert_uint_gt(together, 1024 * 1024);
    stop(&driver);
    stop(&init);
}
END_TEST

START_TEST(a_control_message_may_be_as_long_as_the_limit_and_not_longer)
{
    static char text[CF_MUX_CONTROL_MAX + 1], frame[CF_MUX_HEADER + CF_MUX_PAYLOAD];
    struct end driver, init;
    struct cf_error err;
    size_t len, sent = 0;

    memset(text, 'x', sizeof text);
    start(&driver, CF_MUX_DRIVER);
    start(&init, CF_MUX_INIT);
    ck_assert_int_eq(cf_mux_control(&driver.mux, text, CF_MUX_CONTROL_MAX + 1, &err), -1);
    ck_assert_int_eq(err.kind, CF_ERROR_TOO_LARGE);
    ck_assert_int_eq(cf_mux_control(&driver.mux, text, CF_MUX_CONTROL_MAX, &err), 0);
    ck_assert_int_eq(carry(&driver, &init), 0);
    ck_assert_ptr_nonnull(strstr(init.log.data, "control 2621440 xxx"));

    while (sent + CF_MUX_PAYLOAD <= CF_MUX_CONTROL_MAX) {
        len = put(frame, CF_MUX_CONTROL, CF_MUX_MORE, 0, text, CF_MUX_PAYLOAD);
        ck_assert_int_eq(cf_mux_feed(&init.mux, frame, len, &err), 0);
        sent += CF_MUX_PAYLOAD;
    }
    len = put(frame, CF_MUX_CONTROL, 0, 0, text, CF_MUX_CONTROL_MAX - sent + 1);
    expect_refused(&init, frame, len, "2.5 MiB");
    stop(&driver);
    stop(&init);
}
END_TEST

START_TEST(control_nobody_reads_is_refused_at_the_queues_limit)
{
    static char text[CF_MUX_CONTROL_MAX];
    struct end driver;
    struct cf_error err;

    memset(text, 'x', sizeof text);
    start(&driver, CF_MUX_DRIVER);
    ck_assert_int_eq(cf_mux_control(&driver.mux, text, sizeof text, &err), 0);
    ck_assert_int_eq(cf_mux_control(&driver.mux, text, sizeof text, &err), -1);
    ck_assert_int_eq(err.kind, CF_ERROR_BUDGET);
    ck_assert_int_eq(cf_mux_control(&driver.mux, text, 100, &err), 0);
    stop(&driver);
}
END_TEST

START_TEST(other_frames_may_stand_between_the_parts_of_a_control_message)
{
    char bytes[256];
    struct end init;
    struct cf_error err;
    size_t len;

    start(&init, CF_MUX_INIT);
    len = put_open(bytes, 1, 100);
    len += put(bytes + len, CF_MUX_CONTROL, CF_MUX_MORE, 0, "{\"a\"", 4);
    len += put(bytes + len, CF_MUX_DATA, 0, 1, "data", 4);
    len += put(bytes + len, CF_MUX_CONTROL, 0, 0, ":1}", 3);
    ck_assert_int_eq(cf_mux_feed(&init.mux, bytes, len, &err), 0);
    ck_assert_str_eq(init.log.data, "open 7;data;control 7 {\"a\":1}");
    stop(&init);
}
END_TEST

START_TEST(control_overtakes_data_at_the_next_boundary_between_frames)
{
    struct cf_mux_channel channel;
    static char data[65536];
    struct end driver;
    struct cf_error err;
    const char *bytes;

    start(&driver, CF_MUX_DRIVER);
    open_ok(&driver, &channel, CF_MUX_WINDOW_PROCESS, 0);
    cf_mux_taken(&driver.mux, cf_mux_peek(&driver.mux, &bytes));
    ck_assert_uint_eq(cf_mux_write(&driver.mux, &channel, data, sizeof data),
                      2 * CF_MUX_PAYLOAD);
    ck_assert_uint_eq(cf_mux_peek(&driver.mux, &bytes), 65536);
    cf_mux_taken(&driver.mux, 100); /* in the middle of the first frame */
    ck_assert_int_eq(cf_mux_control(&driver.mux, "{}", 2, &err), 0);
    ck_assert_uint_eq(cf_mux_peek(&driver.mux, &bytes), 32768 - 100);
    cf_mux_taken(&driver.mux, 32768 - 100);
    ck_assert_uint_eq(cf_mux_peek(&driver.mux, &bytes), 10);
    ck_assert_int_eq(bytes[0], CF_MUX_CONTROL);
    cf_mux_taken(&driver.mux, 10);
    ck_assert_uint_eq(cf_mux_peek(&driver.mux, &bytes), 32768);
    ck_assert_int_eq(bytes[0], CF_MUX_DATA);
    stop(&driver);
}
END_TEST

START_TEST(writers_that_fell_short_get_room_in_the_order_they_fell_short)
{
    struct cf_mux_channel channels[3];
    static char data[65536];
    struct end driver;
    struct cf_buf out = {0};

    start(&driver, CF_MUX_DRIVER);
    for (int c = 0; c < 3; c++)
        open_ok(&driver, &channels[c], CF_MUX_WINDOW_PROCESS, 0);
    (void)cf_mux_write(&driver.mux, &channels[2], data, sizeof data);
    ck_assert_uint_eq(cf_mux_write(&driver.mux, &channels[1], data, sizeof data), 0);
    ck_assert_uint_eq(cf_mux_write(&driver.mux, &channels[0], data, sizeof data), 0);
    cf_mux_serve(&driver.mux);
    ck_assert_ptr_null(driver.log.data); /* no room yet */
    drain(&driver, &out);
    cf_mux_serve(&driver.mux);
    ck_assert_str_eq(driver.log.data, ";writable 5;;writable 3;;writable 1;");
    cf_mux_close(&driver.mux, &channels[0]);
    cf_mux_serve(&driver.mux);
    stop(&driver);
    cf_buf_release(&out);
}
END_TEST

START_TEST(frames_that_come_late_for_a_closed_channel_are_ignored)
{
    struct cf_mux_channel channel;
    struct end driver, init;
    struct cf_buf late = {0};
    struct cf_error err;
    char credit[64];
    size_t len;

    start(&driver, CF_MUX_DRIVER);
    start(&init, CF_MUX_INIT);
    open_ok(&driver, &channel, 1000, 0);
    ck_assert_int_eq(carry(&driver, &init), 0);
    ck_assert_uint_eq(cf_mux_write(&init.mux, &init.doors[0], "late", 4), 4);
    cf_mux_half_close(&init.mux, &init.doors[0]);
    drain(&init, &late);
    ck_assert_int_eq(cf_mux_feed(&driver.mux, late.data, 10, &err),
                     0); /* the frame's first bytes */
    cf_mux_close(&driver.mux, &channel);
    ck_assert_int_eq(cf_mux_feed(&driver.mux, late.data + 10, late.len - 10, &err), 0);
    cf_mux_put_u32(credit + 32, 5);
    len = put(credit, CF_MUX_CREDIT, 0, 1, credit + 32, 4);
    ck_assert_int_eq(cf_mux_feed(&driver.mux, credit, len, &err), 0);
    ck_assert_str_eq(driver.log.data, "la");
    ck_assert_int_eq(carry(&driver, &init), 0);
    ck_assert_ptr_nonnull(strstr(init.log.data, "reset 1"));
    ck_assert_uint_eq(driver.mux.own_channels, 0);
    ck_assert_uint_eq(init.mux.peer_channels, 0);
    stop(&driver);
    stop(&init);
    cf_buf_release(&late);
}
END_TEST

START_TEST(what_an_open_may_not_be)
{
    static const struct {
        uint32_t first, second, window;
        const char *word;
    } wrong[] = {
        {2, 0, 100, "other side"}, /* even numbers are cf-init's own here */
        {5, 5, 100, "used before"}, {5, 3, 100, "used before"},
        {1, 0, 0, "window"},        {1, 0, CF_MUX_WINDOW_MAX + 1, "window"},
    };
    char bytes[64];
    struct end init;
    size_t len;

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        start(&init, CF_MUX_INIT);
        len = put_open(bytes, wrong[i].first, wrong[i].window);
        if (wrong[i].second != 0)
            len += put_open(bytes + len, wrong[i].second, wrong[i].window);
        expect_refused(&init, bytes, len, wrong[i].word);
        stop(&init);
    }
}
END_TEST

START_TEST(one_channel_more_than_there_may_be_is_refused)
{
    struct cf_mux_channel channels[5] = {0};
    struct end driver, init;
    struct cf_error err;
    char bytes[128];
    size_t len = 0;

    start(&init, CF_MUX_INIT);
    for (uint32_t id = 1; id <= 7; id += 2)
        len += put_open(bytes + len, id, 10);
    ck_assert_int_eq(cf_mux_feed(&init.mux, bytes, len, &err), 0);
    len = put_open(bytes, 9, 10);
    expect_refused(&init, bytes, len, "more channels");
    stop(&init);

    start(&driver, CF_MUX_DRIVER);
    for (int c = 0; c < 4; c++)
        ck_assert_int_eq(cf_mux_open(&driver.mux, &channels[c], 10, 0, &err), 0);
    ck_assert_int_eq(cf_mux_open(&driver.mux, &channels[4], 10, 0, &err), -1);
    ck_assert_int_eq(err.kind, CF_ERROR_BUDGET);
    cf_mux_close(&driver.mux, &channels[1]);
    ck_assert_int_eq(cf_mux_open(&driver.mux, &channels[4], 10, 0, &err), 0);
    stop(&driver);
}
END_TEST

START_TEST(credit_nobody_owes_is_refused)
{
    char bytes[64], more[4];
    struct end driver;
    struct cf_mux_channel channel;
    size_t len;
    static const uint32_t wrong[] = {0, CF_MUX_WINDOW_MAX + 1, CF_MUX_WINDOW_MAX - 99};

    for (size_t i = 0; i < 3; i++) {
        start(&driver, CF_MUX_DRIVER);
        open_ok(&driver, &channel, 100, 0);
        cf_mux_put_u32(more, wrong[i]);
        len = put(bytes, CF_MUX_CREDIT, 0, 1, more, 4);
        expect_refused(&driver, bytes, len, "credit");
        stop(&driver);
    }
}
END_TEST

START_TEST(after_a_half_close_there_is_neither_data_nor_another)
{
    char bytes[64];
    struct end init;
    size_t len;

    for (int again = 0; again < 2; again++) {
        start(&init, CF_MUX_INIT);
        len = put_open(bytes, 1, 100);
        len += put(bytes + len, CF_MUX_HALF_CLOSE, 0, 1, NULL, 0);
        len += again ? put(bytes + len, CF_MUX_HALF_CLOSE, 0, 1, NULL, 0)
                     : put(bytes + len, CF_MUX_DATA, 0, 1, "x", 1);
        expect_refused(&init, bytes, len, "half-close");
        stop(&init);
    }
}
END_TEST

START_TEST(a_refused_door_hears_a_reset)
{
    struct cf_mux_channel channel;
    struct end driver, init;

    start(&driver, CF_MUX_DRIVER);
    start(&init, CF_MUX_INIT);
    driver.is_refusing = true;
    open_ok(&init, &channel, 100, 4180);
    (void)cf_mux_write(&init.mux, &channel, "abc", 3);
    ck_assert_int_eq(carry(&init, &driver), 0);
    ck_assert_int_eq(carry(&driver, &init), 0);
    ck_assert_str_eq(driver.log.data, "open 4180;");
    ck_assert_str_eq(init.log.data, ";reset 2;");
    stop(&driver);
    stop(&init);
}
END_TEST

START_TEST(a_handler_that_refuses_a_control_message_ends_the_stream)
{
    char bytes[64];
    struct end init;
    size_t len = put(bytes, CF_MUX_CONTROL, 0, 0, "bad", 3);

    start(&init, CF_MUX_INIT);
    expect_refused(&init, bytes, len, "bad");
    stop(&init);
}
END_TEST

/* Moves at most `most` bytes of what `from` says; as a pipe with little room would. */
static void
trickle(struct end *from, struct end *to, size_t most)
{
    struct cf_error err;
    const char *bytes;
    size_t len = cf_mux_peek(&from->mux, &bytes);
    char part[8192];

    len = len < most ? len : most;
    memcpy(part, bytes, len);
    cf_mux_taken(&from->mux, len);
    ck_assert_int_eq(cf_mux_feed(&to->mux, part, len, &err), 0);
}

START_TEST(two_floods_against_each_other_never_stand_still)
{
    static char data[65536];
    struct cf_mux_channel out[3], back[3];
    struct end driver, init;
    size_t sent = 0, sent_back = 0, total = 8u << 20;
    uint32_t seed = 1;
    int rounds = 0;

    start(&driver, CF_MUX_DRIVER);
    start(&init, CF_MUX_INIT);
    driver.is_consuming = init.is_consuming = true;
    for (int c = 0; c < 3; c++) {
        open_ok(&driver, &out[c], CF_MUX_WINDOW_DOOR, 0);
        open_ok(&init, &back[c], CF_MUX_WINDOW_DOOR, 0);
    }
    while (driver.data_bytes < total || init.data_bytes < total) {
        ck_assert_int_lt(rounds++, 200000);
        for (int c = 0; c < 3; c++) {
            seed = seed * 1103515245 + 12345;
            if (sent < total)
                sent += cf_mux_write(&driver.mux, &out[c], data,
                                     total - sent < 65536 ? total - sent : 65536);
            if (sent_back < total)
                sent_back +=
                    cf_mux_write(&init.mux, &back[c], data,
                                 total - sent_back < 65536 ? total - sent_back : 65536);
            ck_assert_uint_le(driver.mux.data.len, 65536);
            ck_assert_uint_le(init.mux.data.len, 65536);
        }
        trickle(&driver, &init, 1 + (seed >> 8) % 8192);
        trickle(&init, &driver, 1 + (seed >> 16) % 8192);
        cf_buf_reset(&driver.log);
        cf_buf_reset(&init.log);
    }
    ck_assert_uint_eq(driver.data_bytes, total);
    ck_assert_uint_eq(init.data_bytes, total);
    stop(&driver);
    stop(&init);
}
END_TEST

START_TEST(a_queue_of_bytes_gives_its_memory_back)
{
    struct cf_mux_bytes queue = {0};
    static char data[1 << 20];

    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(cf_mux_bytes_add(&queue, data, sizeof data), 0);
        cf_mux_bytes_drop(&queue, 10);
        ck_assert_int_eq(cf_mux_bytes_add(&queue, "tail", 4), 0);
        cf_mux_bytes_drop(&queue, sizeof data - 10);
        ck_assert_int_eq(memcmp(cf_mux_bytes_front(&queue), "tail", 4), 0);
        cf_mux_bytes_drop(&queue, 4);
        ck_assert_uint_eq(queue.cap, 0);
    }
    ck_assert_ptr_null(cf_mux_bytes_reserve(&queue, SIZE_MAX / 2));
    cf_mux_bytes_release(&queue);
}
END_TEST

UNIT_MAIN("mux/mux", tcase_add_test(tc, a_header_survives_the_journey);
          tcase_add_test(tc, every_wrong_header_is_refused);
          tcase_add_test(tc, a_conversation_survives_any_cut);
          tcase_add_test(tc, data_goes_up_to_its_credit_and_not_a_byte_further);
          tcase_add_test(tc, a_writer_takes_no_more_than_its_credit);
          tcase_add_test(tc, credit_comes_in_quarters_and_never_trickles);
          tcase_add_test(tc, the_window_of_a_channel_that_streams_grows_to_a_mebibyte);
          tcase_add_test(tc, windows_stop_growing_when_all_together_have_grown_enough);
          tcase_add_test(tc, a_control_message_may_be_as_long_as_the_limit_and_not_longer);
          tcase_add_test(tc, control_nobody_reads_is_refused_at_the_queues_limit);
          tcase_add_test(tc, other_frames_may_stand_between_the_parts_of_a_control_message);
          tcase_add_test(tc, control_overtakes_data_at_the_next_boundary_between_frames);
          tcase_add_test(tc, writers_that_fell_short_get_room_in_the_order_they_fell_short);
          tcase_add_test(tc, frames_that_come_late_for_a_closed_channel_are_ignored);
          tcase_add_test(tc, what_an_open_may_not_be);
          tcase_add_test(tc, one_channel_more_than_there_may_be_is_refused);
          tcase_add_test(tc, credit_nobody_owes_is_refused);
          tcase_add_test(tc, after_a_half_close_there_is_neither_data_nor_another);
          tcase_add_test(tc, a_refused_door_hears_a_reset);
          tcase_add_test(tc, a_handler_that_refuses_a_control_message_ends_the_stream);
          tcase_add_test(tc, two_floods_against_each_other_never_stand_still);
          tcase_add_test(tc, a_queue_of_bytes_gives_its_memory_back);)
