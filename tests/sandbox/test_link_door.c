/* sandbox/link with a real cf-init: connections from inside to the relay's ports. */
#include "tests/support/unit.h"
#include "tests/support/inside.h"
#include "tests/support/link_ns.h"

#include <arpa/inet.h>
#include <netinet/in.h>

/* ---- inside ------------------------------------------------------------------------- */

static int
dial(unsigned port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        printf("connect: %s\n", strerror(errno));
        close(fd);
        return -1;
    }
    return fd;
}

/* COUNT connections at once, BYTES through each and back. */
static int
inside_echo(int argc, char **argv)
{
    int count = atoi(argv[0]), open = 0, fds[512];
    size_t bytes = (size_t)atoll(argv[1]), sent[512] = {0}, got[512] = {0};
    static char chunk[65536];
    struct pollfd polls[512];

    for (int i = 0; i < count; i++, open++) {
        fds[i] = dial(4180);
        if (fds[i] < 0)
            return 1;
        fcntl(fds[i], F_SETFL, O_NONBLOCK);
    }
    while (open > 0) {
        for (int i = 0; i < count; i++)
            polls[i] =
                (struct pollfd){fds[i], (short)(POLLIN | (sent[i] < bytes ? POLLOUT : 0)), 0};
        poll(polls, (nfds_t)count, 5000);
        for (int i = 0; i < count; i++) {
            size_t part = bytes - sent[i] < sizeof chunk ? bytes - sent[i] : sizeof chunk;
            ssize_t n;

            if (fds[i] < 0)
                continue;
            if ((polls[i].revents & POLLOUT) && part > 0) {
                for (size_t k = 0; k < part; k++)
                    chunk[k] = (char)((sent[i] + k) * 31 + (size_t)i);
                n = send(fds[i], chunk, part, MSG_NOSIGNAL);
                sent[i] += n > 0 ? (size_t)n : 0;
                if (sent[i] == bytes)
                    shutdown(fds[i], SHUT_WR);
            }
            n = recv(fds[i], chunk, sizeof chunk, 0);
            for (ssize_t k = 0; k < n; k++, got[i]++) {
                if (chunk[k] != (char)(got[i] * 31 + (size_t)i)) {
                    printf("wrong byte %zu of connection %d\n", got[i], i);
                    return 1;
                }
            }
            if (n == 0 || (n < 0 && errno != EAGAIN)) {
                if (n < 0 || got[i] != bytes) {
                    printf("connection %d ended after %zu: %s\n", i, got[i],
                           n < 0 ? strerror(errno) : "eof");
                    return 1;
                }
                close(fds[i]);
                fds[i] = -1;
                open--;
            }
        }
    }
    printf("ok\n");
    return 0;
}

/* Sends a word, half-closes, and says how the answer ends. */
static int
inside_ask(int argc, char **argv)
{
    int fd = dial((unsigned)atoi(argv[0]));
    size_t total = 0;
    char bytes[4096];
    ssize_t n;

    if (fd < 0)
        return 1;
    if (send(fd, "word", 4, MSG_NOSIGNAL) < 0) { /* the reset may be here already */
        printf("0 then %s\n", strerror(errno == EPIPE ? ECONNRESET : errno));
        return 0;
    }
    while ((n = read(fd, bytes, sizeof bytes)) > 0)
        total += (size_t)n;
    printf("%zu then %s\n", total, n == 0 ? "end" : strerror(errno));
    return 0;
}

static int
inside_reset(int argc, char **argv)
{
    struct linger now = {1, 0};
    int fd = dial(4180);

    (void)!send(fd, "word", 4, MSG_NOSIGNAL);
    usleep(200000);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(fd);
    return 0;
}

/* Tries to take the relay's port itself. */
static int
inside_bind(int argc, char **argv)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(4180)};
    int on = 1;

    for (int i = 0; i < 2; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);

        address.sin_addr.s_addr = htonl(i == 0 ? INADDR_LOOPBACK : INADDR_ANY);
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
        printf("%s\n", bind(fd, (struct sockaddr *)&address, sizeof address) < 0
                           ? strerror(errno)
                           : "bound");
    }
    return 0;
}

static const struct inside inside_table[] = {{"echo", inside_echo},
                                             {"ask", inside_ask},
                                             {"reset", inside_reset},
                                             {"bind", inside_bind},
                                             {NULL, NULL}};

static void
run_inside(struct box *box, struct proc *proc, const char *name, const char *first,
           const char *second)
{
    const char *const argv[] = {inside_program(), "--inside", name, first, second, NULL};
    struct cf_spawn spawn = {.argv = argv};

    proc_spawn(box, proc, &spawn);
}

/* ---- the driver's side: an echo that gives credit for what it has passed on --------- */

struct served {
    struct cf_door *door;
    struct cf_buf pending;
    bool has_ended;
};
static struct {
    unsigned opened, closed, reset, port;
    struct served doors[1024];
    struct cf_door *last;
} server;

static void
serve(struct served *served)
{
    size_t n = cf_door_write(served->door, served->pending.data, served->pending.len);

    cf_buf_drop(&served->pending, n);
    cf_door_consumed(served->door, n);
    if (served->pending.len > 0 || !served->has_ended)
        return;
    cf_door_shutdown(served->door);
    cf_door_close(served->door);
    cf_buf_release(&served->pending);
    server.closed++;
}

static int
on_data(void *user, struct cf_door *door, const char *bytes, size_t len)
{
    struct served *served = user;

    ck_assert_uint_le(served->pending.len + len, 1024 * 1024);
    cf_buf_add(&served->pending, bytes, len);
    serve(served);
    return 0;
}

static void
on_end(void *user, struct cf_door *door)
{
    struct served *served = user;

    served->has_ended = true;
    serve(served);
}

static void
on_reset(void *user, struct cf_door *door)
{
    struct served *served = user;

    server.reset++;
    cf_buf_release(&served->pending);
    cf_door_close(door);
}

static void
on_room(void *user, struct cf_door *door)
{
    serve(user);
}

static const struct cf_door_events echo_events = {on_data, on_end, on_reset, on_room};

static void
accept_echo(struct box *box, struct cf_door *door, unsigned port)
{
    struct served *served = &server.doors[server.opened++];

    server.port = port;
    served->door = door;
    cf_door_open(door, &echo_events, served);
}

START_TEST(a_connection_echoes_both_ways)
{
    struct proc proc;
    struct box box;

    if (!box_start(&box))
        return;
    box.on_door = accept_echo;
    run_inside(&box, &proc, "echo", "1", "5000000");
    BOX_UNTIL(&box, 20000, proc_is_over(&proc));
    ck_assert_str_eq(proc.out.data, "ok\n");
    ck_assert_uint_eq(server.port, 4180);
    ck_assert_uint_eq(server.closed, 1);
    ck_assert_uint_eq(server.reset, 0);
    proc_release(&proc);
    box_stop(&box);
}
END_TEST

START_TEST(two_hundred_connections_at_once_lose_nothing)
{
    struct ask ask = {0};
    struct proc proc;
    struct box box;

    if (!box_start(&box))
        return;
    box.on_door = accept_echo;
    run_inside(&box, &proc, "echo", "200", "100000");
    BOX_UNTIL(&box, 30000, proc_is_over(&proc));
    ck_assert_str_eq(proc.out.data, "ok\n");
    ck_assert_uint_eq(server.opened, 200);
    ck_assert_uint_eq(server.closed, 200);
    ASK(&box, &ask, cf_link_facts(box.link, ask_done, &ask, &err_));
    ck_assert_int_eq(json_integer_value(json_object_get(ask.answer, "channels")), 0);
    ask_release(&ask);
    proc_release(&proc);
    box_stop(&box);
}
END_TEST

START_TEST(a_door_nobody_serves_is_reset_in_the_client)
{
    struct proc proc;
    struct box box;

    if (!box_start(&box))
        return;
    run_inside(&box, &proc, "ask", "4181", NULL);
    BOX_UNTIL(&box, 5000, proc_is_over(&proc));
    ck_assert_str_eq(proc.out.data, "0 then Connection reset by peer\n");
    proc_release(&proc);
    box_stop(&box);
}
END_TEST

static int
answer_and_close(void *user, struct cf_door *door, const char *bytes, size_t len)
{
    static char big[60000];

    ck_assert_uint_eq(cf_door_write(door, big, sizeof big), sizeof big);
    cf_door_shutdown(door);
    cf_door_close(door);
    server.closed++;
    return 0;
}

static const struct cf_door_events answering_events = {answer_and_close, on_end, on_reset,
                                                       on_room};

static void
accept_answering(struct box *box, struct cf_door *door, unsigned port)
{
    cf_door_open(door, &answering_events, NULL);
}

START_TEST(what_was_written_before_the_close_still_arrives)
{
    struct proc proc;
    struct box box;

    if (!box_start(&box))
        return;
    box.on_door = accept_answering;
    run_inside(&box, &proc, "ask", "4180", NULL);
    BOX_UNTIL(&box, 5000, proc_is_over(&proc));
    ck_assert_str_eq(proc.out.data, "60000 then end\n");
    ck_assert_uint_eq(server.closed, 1);
    proc_release(&proc);
    box_stop(&box);
}
END_TEST

static int
close_at_once(void *user, struct cf_door *door, const char *bytes, size_t len)
{
    cf_door_close(door);
    return 0;
}

static const struct cf_door_events closing_events = {close_at_once, on_end, on_reset, on_room};

static void
accept_closing(struct box *box, struct cf_door *door, unsigned port)
{
    cf_door_open(door, &closing_events, NULL);
}

START_TEST(a_close_without_a_shutdown_is_a_reset_in_the_client)
{
    struct proc proc;
    struct box box;

    if (!box_start(&box))
        return;
    box.on_door = accept_closing;
    run_inside(&box, &proc, "ask", "4180", NULL);
    BOX_UNTIL(&box, 5000, proc_is_over(&proc));
    ck_assert_str_eq(proc.out.data, "0 then Connection reset by peer\n");
    proc_release(&proc);
    box_stop(&box);
}
END_TEST

static int
keep(void *user, struct cf_door *door, const char *bytes, size_t len)
{
    cf_door_consumed(door, len);
    return 0;
}

static const struct cf_door_events keeping_events = {keep, on_end, on_reset, on_room};

static void
accept_keeping(struct box *box, struct cf_door *door, unsigned port)
{
    cf_door_open(door, &keeping_events, &server.doors[server.opened++]);
    server.last = door;
}

START_TEST(a_client_that_resets_is_told_at_once)
{
    struct proc proc;
    struct box box;

    if (!box_start(&box))
        return;
    box.on_door = accept_keeping;
    run_inside(&box, &proc, "reset", NULL, NULL);
    BOX_UNTIL(&box, 5000, server.reset == 1);
    BOX_UNTIL(&box, 5000, proc_is_over(&proc));
    proc_release(&proc);
    box_stop(&box);
}
END_TEST

START_TEST(doors_open_when_the_sandbox_ends_hear_of_it_once)
{
    struct proc proc;
    struct box box;

    if (!box_start(&box))
        return;
    box.on_door = accept_keeping;
    run_inside(&box, &proc, "ask", "4180", NULL);
    BOX_UNTIL(&box, 5000, server.opened == 1);
    kill(box.ns.pid, SIGKILL);
    BOX_UNTIL(&box, 5000, box.has_ended);
    ck_assert_uint_eq(server.reset, 1);
    proc_release(&proc);
    box_stop(&box);
}
END_TEST

START_TEST(nobody_inside_can_take_the_relays_port)
{
    struct proc proc;
    struct box box;

    if (!box_start(&box))
        return;
    run_inside(&box, &proc, "bind", NULL, NULL);
    BOX_UNTIL(&box, 5000, proc_is_over(&proc));
    ck_assert_str_eq(proc.out.data, "Address already in use\nAddress already in use\n");
    proc_release(&proc);
    box_stop(&box);
}
END_TEST

UNIT_MAIN("sandbox/link: doors", tcase_add_test(tc, a_connection_echoes_both_ways);
          tcase_add_test(tc, two_hundred_connections_at_once_lose_nothing);
          tcase_add_test(tc, a_door_nobody_serves_is_reset_in_the_client);
          tcase_add_test(tc, what_was_written_before_the_close_still_arrives);
          tcase_add_test(tc, a_close_without_a_shutdown_is_a_reset_in_the_client);
          tcase_add_test(tc, a_client_that_resets_is_told_at_once);
          tcase_add_test(tc, doors_open_when_the_sandbox_ends_hear_of_it_once);
          tcase_add_test(tc, nobody_inside_can_take_the_relays_port);)
