/*
 * cf-init by itself, spoken to with bare frames: what it refuses to be, when it ends, and what
 * a driver that floods it, starves it or breaks the protocol gets.
 */
#include "tests/support/unit.h"
#include "tests/support/init_ns.h"

#include "base/buf.h"
#include "base/str.h"
#include "mux/mux.h"

#include <dirent.h>

/* A driver's end that writes down control messages and counts data. */
struct driver {
    struct ns_init ns;
    struct cf_mux mux;
    struct cf_buf heard;
    size_t data_bytes, resets;
    bool has_ended;
};

static struct cf_mux_channel *
on_open(void *user, uint32_t tag)
{
    return NULL;
}

static void
on_channel(void *user, struct cf_mux_channel *channel)
{
}

static void
on_reset(void *user, struct cf_mux_channel *channel)
{
    ((struct driver *)user)->resets++;
}

static void
on_data(void *user, struct cf_mux_channel *channel, const char *bytes, size_t len)
{
    ((struct driver *)user)->data_bytes += len;
}

static int
on_control(void *user, const char *bytes, size_t len, struct cf_error *err)
{
    struct driver *driver = user;

    cf_buf_add(&driver->heard, bytes, len);
    cf_buf_adds(&driver->heard, "\n");
    return 0;
}

static const struct cf_mux_events events = {on_open,  on_channel, on_data,   on_channel,
                                            on_reset, on_channel, on_control};

static bool
start(struct driver *driver, const char *const *args)
{
    const struct cf_mux_options options = {.side = CF_MUX_DRIVER,
                                           .data_queue_bytes = 1u << 20,
                                           .control_queue_bytes = 64u << 20,
                                           .own_channels_max = 100,
                                           .peer_channels_max = 100};

    memset(driver, 0, sizeof *driver);
    signal(SIGPIPE, SIG_IGN);
    cf_mux_init(&driver->mux, &options, &events, driver);
    return ns_start(&driver->ns, args);
}

static void
stop(struct driver *driver)
{
    cf_mux_release(&driver->mux);
    cf_buf_release(&driver->heard);
    ns_stop(&driver->ns);
}

static void
read_some(struct driver *driver)
{
    static char bytes[65536];
    struct cf_error err;
    ssize_t n = read(driver->ns.out, bytes, sizeof bytes);

    if (n > 0)
        ck_assert_msg(cf_mux_feed(&driver->mux, bytes, (size_t)n, &err) == 0, "%s", err.text);
    driver->has_ended = n == 0;
}

static void
write_some(struct driver *driver)
{
    const char *bytes;
    size_t len = cf_mux_peek(&driver->mux, &bytes);
    ssize_t n = len == 0 ? 0 : write(driver->ns.in, bytes, len);

    if (n > 0)
        cf_mux_taken(&driver->mux, (size_t)n);
}

static void
turn(struct driver *driver, bool is_reading)
{
    struct pollfd fds[2] = {
        {is_reading && !driver->has_ended ? driver->ns.out : -1, POLLIN, 0},
        {cf_mux_has_output(&driver->mux) ? driver->ns.in : -1, POLLOUT, 0}};

    poll(fds, 2, 10);
    if (fds[0].revents != 0)
        read_some(driver);
    if (fds[1].revents != 0)
        write_some(driver);
}

static void
say(struct driver *driver, const char *text)
{
    struct cf_error err;

    ck_assert_msg(cf_mux_control(&driver->mux, text, strlen(text), &err) == 0, "%s", err.text);
}

static void
until_heard(struct driver *driver, const char *word, unsigned limit_ms)
{
    uint64_t until = ns_now_ms() + limit_ms;

    while (driver->heard.data == NULL || strstr(driver->heard.data, word) == NULL) {
        ck_assert_msg(ns_now_ms() < until && !driver->has_ended,
                      "never heard '%s', but: %s (stderr: %s)", word, driver->heard.data,
                      ns_words(&driver->ns));
        turn(driver, true);
    }
}

/* Goes on, reading or not, until it is gone; returns its exit code. */
static int
until_gone(struct driver *driver, bool is_reading, unsigned limit_ms)
{
    uint64_t until = ns_now_ms() + limit_ms;
    int code = -1;

    while (code < 0 && ns_now_ms() < until) {
        turn(driver, is_reading);
        code = ns_wait(&driver->ns, 0);
    }
    return code;
}

/* A spawned "sleep" whose death can be seen from outside, by its odd argument. */
static void
spawn_sleeper(struct driver *driver, struct cf_mux_channel channels[2], const char *seconds)
{
    struct cf_error err;
    char text[256];

    memset(channels, 0, 2 * sizeof channels[0]);
    ck_assert_int_eq(cf_mux_open(&driver->mux, &channels[0], 65536, 0, &err), 0);
    ck_assert_int_eq(cf_mux_open(&driver->mux, &channels[1], 65536, 0, &err), 0);
    cf_mux_one_way(&channels[0], false);
    cf_mux_one_way(&channels[1], false);
    snprintf(text, sizeof text,
             "{\"id\":77,\"op\":\"spawn\",\"argv\":[\"/bin/sh\",\"-c\",\"trap '' TERM HUP; "
             "setsid sleep %s & "
             "sleep %s\"],\"env\":[],\"cwd\":\"/\",\"out\":%u,\"err\":%u}",
             seconds, seconds, channels[0].id, channels[1].id);
    say(driver, text);
    until_heard(driver, "\"pid\"", 5000);
}

/* How many processes on this machine have `word` as an argument. */
static int
count_running(const char *word)
{
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    char path[300], line[256];
    int count = 0;

    while ((entry = readdir(proc)) != NULL) {
        snprintf(path, sizeof path, "/proc/%s/cmdline", entry->d_name);
        int fd = atoi(entry->d_name) > 0 ? open(path, O_RDONLY) : -1;
        ssize_t n = fd < 0 ? 0 : read(fd, line, sizeof line - 1);

        if (fd >= 0)
            close(fd);
        for (ssize_t i = 0; i < n; i++)
            if (i > 0 && line[i - 1] == '\0' && strncmp(line + i, word, strlen(word) + 1) == 0)
                count++;
    }
    closedir(proc);
    return count;
}

static const char *const plain[] = {"--port", "4180", NULL};

START_TEST(anywhere_but_as_pid_1_it_refuses)
{
    int ends[2], status;
    char words[256] = "";
    pid_t pid;

    ck_assert_int_eq(pipe(ends), 0);
    pid = fork();
    if (pid == 0) {
        dup2(ends[1], 2);
        execl(ns_program(), "cf-init", "--port", "4180", NULL);
        _exit(99);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 71);
    ck_assert_int_gt(read(ends[0], words, sizeof words - 1), 0);
    ck_assert_ptr_nonnull(strstr(words, "first process of a sandbox"));
}
END_TEST

START_TEST(wrong_arguments_and_taken_ports_end_it_with_words)
{
    static const struct {
        const char *args[5];
        const char *word;
    } wrong[] = {
        {{"--port", "70000", NULL}, "usage"},
        {{"--port", NULL}, "usage"},
        {{"--portt", "4180", NULL}, "usage"},
        {{"--ping-timeout-ms", "0", NULL}, "usage"},
        {{"--port", "4180", "--port", "4180", NULL}, "port"},
    };
    struct driver driver;
    uint64_t until;

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char words[512] = "";

        if (!start(&driver, wrong[i].args))
            return;
        ck_assert_int_eq(ns_wait(&driver.ns, 3000), 71);
        until = ns_now_ms() + 1000;
        while (words[0] == '\0' && ns_now_ms() < until)
            snprintf(words, sizeof words, "%.500s", ns_words(&driver.ns));
        ck_assert_msg(strstr(words, wrong[i].word) != NULL, "%s", words);
        stop(&driver);
    }
}
END_TEST

START_TEST(the_end_of_the_drivers_stream_ends_everything)
{
    struct cf_mux_channel channels[2];
    struct driver driver;

    if (!start(&driver, plain))
        return;
    until_heard(&driver, "\"hello\"", 5000);
    spawn_sleeper(&driver, channels, "91101");
    usleep(200000);
    ck_assert_int_eq(count_running("91101"), 2);
    close(driver.ns.in);
    driver.ns.in = open("/dev/null", O_RDONLY);
    ck_assert_int_eq(ns_wait(&driver.ns, 2000), 70);
    ck_assert_int_eq(count_running("91101"), 0);
    stop(&driver);
}
END_TEST

START_TEST(a_driver_that_closes_its_reading_end_ends_everything_too)
{
    struct driver driver;

    if (!start(&driver, plain))
        return;
    until_heard(&driver, "\"hello\"", 5000);
    close(driver.ns.out);
    driver.ns.out = open("/dev/null", O_RDONLY);
    say(&driver, "{\"id\":1,\"op\":\"ping\"}");
    ck_assert_int_eq(until_gone(&driver, false, 2000), 70);
    stop(&driver);
}
END_TEST

START_TEST(without_pings_it_ends_and_with_them_it_lives)
{
    static const char *const args[] = {"--ping-timeout-ms", "1500", NULL};
    struct driver driver;
    uint64_t began;

    if (!start(&driver, args))
        return;
    until_heard(&driver, "\"hello\"", 5000);
    for (int i = 1; i <= 10; i++) {
        say(&driver, "{\"id\":1,\"op\":\"ping\"}");
        for (int k = 0; k < 25; k++)
            turn(&driver, true);
    }
    began = ns_now_ms();
    ck_assert_int_eq(ns_wait(&driver.ns, 0), -1);
    ck_assert_int_eq(ns_wait(&driver.ns, 3000), 70);
    ck_assert_uint_lt(ns_now_ms() - began, 2500);
    ck_assert_ptr_nonnull(strstr(ns_words(&driver.ns), "no ping"));
    stop(&driver);
}
END_TEST

START_TEST(a_pause_with_pings_waiting_is_no_silence)
{
    static const char *const args[] = {"--ping-timeout-ms", "500", NULL};
    struct driver driver;

    for (int with_pings = 1; with_pings >= 0; with_pings--) {
        if (!start(&driver, args))
            return;
        until_heard(&driver, "\"hello\"", 5000);
        kill(driver.ns.pid, SIGSTOP);
        usleep(700000);
        if (with_pings) {
            say(&driver, "{\"id\":1,\"op\":\"ping\"}");
            write_some(&driver);
        }
        usleep(200000);
        kill(driver.ns.pid, SIGCONT);
        ck_assert_int_eq(ns_wait(&driver.ns, 250), with_pings ? -1 : 70);
        stop(&driver);
    }
}
END_TEST

START_TEST(a_request_it_cannot_serve_is_answered)
{
    struct driver driver;

    if (!start(&driver, plain))
        return;
    until_heard(&driver, "\"hello\"", 5000);
    say(&driver, "{\"id\":1,\"op\":\"dance\"}");
    until_heard(&driver, "no such operation", 1000);
    say(&driver, "{\"id\":2}");
    say(&driver, "{\"id\":3,\"op\":\"spawn\"}");
    until_heard(&driver, "spawn wants argv", 1000);
    say(&driver, "{\"id\":4,\"op\":\"spawn\",\"argv\":[\"/bin/true\"],\"cwd\":\"/"
                 "\",\"out\":1,\"err\":3}");
    until_heard(&driver, "spawn wants channels", 1000);
    say(&driver, "{\"id\":5,\"op\":\"spawn\",\"argv\":[\"/bin/true\",5],\"cwd\":\"/\"}");
    say(&driver, "{\"id\":6,\"op\":\"signal\",\"pid\":1,\"signal\":9}");
    until_heard(&driver, "pid above 1", 1000);
    say(&driver, "{\"id\":7,\"op\":\"signal\",\"pid\":-1,\"signal\":9}");
    say(&driver, "{\"id\":8,\"op\":\"signal_all\",\"signal\":99}");
    say(&driver,
        "{\"id\":9,\"op\":\"read\",\"root\":\"/etc\",\"path\":\"hostname\",\"limit\":100}");
    until_heard(&driver, "no channel", 1000);
    say(&driver, "{\"id\":10,\"op\":\"disk_watch\",\"limit\":5,\"folders\":[7]}");
    say(&driver, "{\"id\":11,\"op\":\"read\",\"root\":\"/"
                 "etc\",\"path_hex\":\"0\",\"limit\":100,\"ch\":{}}");
    say(&driver, "{\"id\":12,\"op\":\"manifest\",\"root\":\"relative\"}");
    say(&driver, "{\"id\":13,\"op\":\"ping\"}");
    until_heard(&driver, "\"re\":13", 1000);
    stop(&driver);
}
END_TEST

static void
expect_protocol_end(const char *bytes, size_t len, const char *word)
{
    char words[1024] = "";
    struct driver driver;
    uint64_t until;

    if (!start(&driver, plain))
        return;
    until_heard(&driver, "\"hello\"", 5000);
    ck_assert_int_eq(write(driver.ns.in, bytes, len), (ssize_t)len);
    ck_assert_int_eq(until_gone(&driver, true, 2000), 72);
    until = ns_now_ms() + 1000;
    while (words[0] == '\0' && ns_now_ms() < until)
        snprintf(words, sizeof words, "%.500s", ns_words(&driver.ns));
    ck_assert_msg(strstr(words, word) != NULL, "'%s' does not say '%s'", words, word);
    stop(&driver);
}

static size_t
frame(char *to, unsigned kind, uint32_t channel, const void *payload, size_t len)
{
    struct cf_mux_frame head = {(uint8_t)kind, 0, (uint16_t)len, channel};

    cf_mux_frame_write(to, &head);
    memcpy(to + CF_MUX_HEADER, payload, len);
    return CF_MUX_HEADER + len;
}

START_TEST(whatever_breaks_the_protocol_ends_it_with_its_reason)
{
    char bytes[64];
    size_t len;

    expect_protocol_end("GET / HTTP/1.1\r\n", 16, "unknown frame kind");
    len = frame(bytes, CF_MUX_CONTROL, 0, "{\"id\":1,", 8);
    expect_protocol_end(bytes, len, "not JSON");
    len = frame(bytes, CF_MUX_CONTROL, 0, "[1]", 3);
    expect_protocol_end(bytes, len, "without an id");
    len = frame(bytes, CF_MUX_CONTROL, 0, "{\"op\":\"ping\"}", 13);
    expect_protocol_end(bytes, len, "without an id");
    len = frame(bytes, CF_MUX_DATA, 1, "x", 1);
    expect_protocol_end(bytes, len, "never opened");
}
END_TEST

START_TEST(data_on_a_channel_nothing_is_bound_to_ends_the_channel_only)
{
    static char bytes[2 * (CF_MUX_HEADER + CF_MUX_PAYLOAD)], zeros[CF_MUX_PAYLOAD];
    struct cf_mux_channel channel = {0};
    struct driver driver;
    struct cf_error err;
    size_t len;

    if (!start(&driver, plain))
        return;
    until_heard(&driver, "\"hello\"", 5000);
    ck_assert_int_eq(cf_mux_open(&driver.mux, &channel, 32768, 0, &err), 0);
    write_some(&driver);
    len = frame(bytes, CF_MUX_DATA, channel.id, zeros, CF_MUX_PAYLOAD);
    len +=
        frame(bytes + len, CF_MUX_DATA, channel.id, zeros, 9); /* past its credit, but late */
    ck_assert_int_eq(write(driver.ns.in, bytes, len), (ssize_t)len);
    say(&driver, "{\"id\":1,\"op\":\"ping\"}");
    until_heard(&driver, "\"re\":1", 2000);
    ck_assert_uint_eq(driver.resets, 1);
    stop(&driver);
}
END_TEST

START_TEST(data_past_its_credit_ends_it)
{
    struct cf_mux_channel channels[3] = {0};
    static char zeros[CF_MUX_PAYLOAD];
    static char bytes[CF_MUX_HEADER + CF_MUX_PAYLOAD];
    struct driver driver;
    struct cf_error err;
    char text[256];
    int code = -1;

    if (!start(&driver, plain))
        return;
    until_heard(&driver, "\"hello\"", 5000);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(cf_mux_open(&driver.mux, &channels[i], 65536, 0, &err), 0);
    snprintf(text, sizeof text,
             "{\"id\":1,\"op\":\"spawn\",\"argv\":[\"/bin/sleep\",\"100\"],\"cwd\":\"/"
             "\",\"in\":%u,\"out\":%u,\"err\":%u}",
             channels[0].id, channels[1].id, channels[2].id);
    say(&driver, text);
    until_heard(&driver, "\"pid\"", 5000);
    for (int i = 0; i < 20 && code < 0; i++) {
        size_t len = frame(bytes, CF_MUX_DATA, channels[0].id, zeros, CF_MUX_PAYLOAD);

        (void)!write(driver.ns.in, bytes, len);
        code = ns_wait(&driver.ns, 20);
    }
    ck_assert_int_eq(code < 0 ? until_gone(&driver, true, 2000) : code, 72);
    stop(&driver);
}
END_TEST

START_TEST(a_driver_that_asks_and_never_reads_is_cut_off)
{
    struct driver driver;
    char text[64];

    if (!start(&driver, plain))
        return;
    until_heard(&driver, "\"hello\"", 5000);
    for (int i = 1; i <= 20000; i++) {
        snprintf(text, sizeof text, "{\"id\":%d,\"op\":\"facts\"}", i);
        say(&driver, text);
    }
    ck_assert_int_eq(until_gone(&driver, false, 5000), 72);
    ck_assert_ptr_nonnull(strstr(ns_words(&driver.ns), "unanswered"));
    stop(&driver);
}
END_TEST

static long
resident_kib(pid_t pid)
{
    char path[64], line[128];
    long kib = 0;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/status", pid);
    file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        sscanf(line, "VmRSS: %ld", &kib);
    if (file != NULL)
        fclose(file);
    return kib;
}

START_TEST(a_flood_nobody_reads_costs_pid_1_no_memory)
{
    struct cf_mux_channel channels[2] = {0};
    struct driver driver;
    struct cf_error err;
    char text[256];

    if (!start(&driver, plain))
        return;
    until_heard(&driver, "\"hello\"", 5000);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(cf_mux_open(&driver.mux, &channels[i], CF_MUX_WINDOW_MAX, 0, &err),
                         0);
    snprintf(text, sizeof text,
             "{\"id\":1,\"op\":\"spawn\",\"argv\":[\"/bin/cat\",\"/dev/zero\"],\"cwd\":\"/"
             "\",\"out\":%u,\"err\":%u}",
             channels[0].id, channels[1].id);
    say(&driver, text);
    until_heard(&driver, "\"pid\"", 5000);
    for (int i = 0; i < 30; i++)
        turn(&driver, false);
    ck_assert_int_lt(resident_kib(driver.ns.pid), ns_is_sanitized() ? 65536 : 4096);
    while (driver.data_bytes < CF_MUX_WINDOW_MAX)
        turn(&driver, true);
    for (int i = 0; i < 20; i++)
        turn(&driver, true);
    ck_assert_uint_eq(driver.data_bytes, CF_MUX_WINDOW_MAX);
    say(&driver, "{\"id\":2,\"op\":\"ping\"}");
    until_heard(&driver, "\"re\":2", 1000);
    stop(&driver);
}
END_TEST

/* How many kilobytes of its memory fork leaves out of a child. */
static long
kept_from_children_kib(pid_t pid)
{
    char path[64], line[512];
    long size = 0, kept = 0;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/smaps", pid);
    file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        sscanf(line, "Size: %ld", &size);
        if (strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " dc") != NULL)
            kept += size;
    }
    if (file != NULL)
        fclose(file);
    return kept;
}

START_TEST(its_queues_are_kept_out_of_what_it_forks)
{
    struct driver driver;

    if (!start(&driver, plain))
        return;
    until_heard(&driver, "\"hello\"", 5000);
    /* at the least the buffer of its stdin and the queue the hello went through */
    ck_assert_int_ge(kept_from_children_kib(driver.ns.pid), 128 + 4);
    stop(&driver);
}
END_TEST

START_TEST(a_request_cut_at_every_byte_is_still_one_request)
{
    char bytes[256];
    size_t len = frame(bytes, CF_MUX_CONTROL, 0, "{\"id\":5,\"op\":\"ping\"}", 20);
    struct driver driver;
    char word[16];

    if (!start(&driver, plain))
        return;
    until_heard(&driver, "\"hello\"", 5000);
    for (size_t cut = 1; cut < len; cut++) {
        bytes[CF_MUX_HEADER + 6] = (char)('1' + cut % 9);
        ck_assert_int_eq(write(driver.ns.in, bytes, cut), (ssize_t)cut);
        usleep(2000);
        ck_assert_int_eq(write(driver.ns.in, bytes + cut, len - cut), (ssize_t)(len - cut));
        snprintf(word, sizeof word, "\"re\":%c", bytes[CF_MUX_HEADER + 6]);
        until_heard(&driver, word, 1000);
        cf_buf_reset(&driver.heard);
    }
    stop(&driver);
}
END_TEST

/* Runs `script` to its end in the watched folder, of which 4 MiB may be taken. */
static void
fill(struct driver *driver, const char *script)
{
    struct cf_mux_channel channels[2] = {0};
    struct cf_error err;
    char text[512];

    until_heard(driver, "\"hello\"", 5000);
    snprintf(text, sizeof text, "{\"id\":1,\"op\":\"disk_watch\",\"limit\":4194304,\"folders\":[\"%s\"]}",
             driver->ns.folder);
    say(driver, text);
    until_heard(driver, "\"re\":1", 1000);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(cf_mux_open(&driver->mux, &channels[i], 65536, 0, &err), 0);
    snprintf(text, sizeof text,
             "{\"id\":2,\"op\":\"spawn\",\"argv\":[\"/bin/sh\",\"-c\",\"%s\"],\"cwd\":\"%s\",\"out\":%u,\"err\":%u}",
             script, driver->ns.folder, channels[0].id, channels[1].id);
    say(driver, text);
    until_heard(driver, "\"exit\"", 5000);
    ck_assert_ptr_nonnull(strstr(driver->heard.data, "\"code\":0"));
}

START_TEST(a_process_that_fills_the_disk_and_ends_is_told_as_that_before_its_end)
{
    static const char *const ways[] = {"head -c 6000000 /dev/zero >a", "fallocate -l 6000000 a",
                                       "mkdir d; head -c 6000000 /dev/zero >d/a; exit 0",
                                       "mkdir d; exec 3>d/a; chmod 0 d; head -c 60000000 /dev/zero >&3",
                                       "for i in $(seq 140); do mkdir d; cd d; done; head -c 60000000 /dev/zero >a"};
    struct driver driver;

    for (size_t i = 0; i < CF_COUNT(ways); i++) {
        if (!start(&driver, plain))
            return;
        fill(&driver, ways[i]);
        const char *disk = strstr(driver.heard.data, "\"ev\":\"disk\"");
        ck_assert_msg(disk != NULL && disk < strstr(driver.heard.data, "\"exit\""), "%s: %s", ways[i],
                      driver.heard.data);
        stop(&driver);
    }
}
END_TEST

START_TEST(a_process_that_takes_its_files_away_again_is_told_as_nothing)
{
    struct driver driver;

    if (!start(&driver, plain))
        return;
    fill(&driver, "head -c 6000000 /dev/zero >a; rm a; head -c 3000000 /dev/zero >b");
    ck_assert_ptr_null(strstr(driver.heard.data, "\"ev\":\"disk\""));
    stop(&driver);
}
END_TEST

START_TEST(a_leased_file_is_refused_at_once_and_holds_nothing_up)
{
    char path[128], text[256];
    struct driver driver;
    int fd;

    if (!start(&driver, plain))
        return;
    until_heard(&driver, "\"hello\"", 5000);
    snprintf(path, sizeof path, "%s/leased", driver.ns.folder);
    signal(SIGIO, SIG_IGN); /* the kernel's word that somebody wants the lease back */
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    ck_assert(fd >= 0 && fchmod(fd, 0666) == 0);
    if (fcntl(fd, F_SETLEASE, F_WRLCK) == 0) {
        snprintf(text, sizeof text, "{\"id\":1,\"op\":\"read\",\"root\":\"%s\",\"path\":\"leased\",\"limit\":100}",
                 driver.ns.folder);
        say(&driver, text);
        until_heard(&driver, "\"re\":1", 5000);
        ck_assert_ptr_nonnull(strstr(driver.heard.data, "a lease"));
        snprintf(text, sizeof text,
                 "{\"id\":2,\"op\":\"write\",\"root\":\"%s\",\"path\":\"leased\",\"size\":1,\"mode\":420}",
                 driver.ns.folder);
        say(&driver, text);
        until_heard(&driver, "\"re\":2", 5000);
        say(&driver, "{\"id\":3,\"op\":\"ping\"}");
        until_heard(&driver, "\"re\":3", 5000);
    } else {
        printf("SKIPPED a leased file: %s has no leases\n", driver.ns.folder);
    }
    close(fd);
    unlink(path);
    stop(&driver);
}
END_TEST

UNIT_MAIN("init/cf-init", tcase_add_test(tc, anywhere_but_as_pid_1_it_refuses);
          tcase_add_test(tc, wrong_arguments_and_taken_ports_end_it_with_words);
          tcase_add_test(tc, the_end_of_the_drivers_stream_ends_everything);
          tcase_add_test(tc, a_driver_that_closes_its_reading_end_ends_everything_too);
          tcase_add_test(tc, without_pings_it_ends_and_with_them_it_lives);
          tcase_add_test(tc, a_pause_with_pings_waiting_is_no_silence);
          tcase_add_test(tc, a_request_it_cannot_serve_is_answered);
          tcase_add_test(tc, whatever_breaks_the_protocol_ends_it_with_its_reason);
          tcase_add_test(tc, data_on_a_channel_nothing_is_bound_to_ends_the_channel_only);
          tcase_add_test(tc, data_past_its_credit_ends_it);
          tcase_add_test(tc, a_driver_that_asks_and_never_reads_is_cut_off);
          tcase_add_test(tc, a_flood_nobody_reads_costs_pid_1_no_memory);
          tcase_add_test(tc, a_process_that_fills_the_disk_and_ends_is_told_as_that_before_its_end);
          tcase_add_test(tc, a_process_that_takes_its_files_away_again_is_told_as_nothing);
          tcase_add_test(tc, a_leased_file_is_refused_at_once_and_holds_nothing_up);
          tcase_add_test(tc, its_queues_are_kept_out_of_what_it_forks);
          tcase_add_test(tc, a_request_cut_at_every_byte_is_still_one_request);)
