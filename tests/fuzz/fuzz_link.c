/*
 * The link against a hostile cf-init. The input is a script: each chunk is either raw bytes of
 * the stream or a whole control message (so that the fuzzer need not guess frame headers),
 * while processes, files and doors are open and their callbacks free things at odd moments.
 */
#include "mux/frame.h"
#include "sandbox/link.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct world {
    struct cf_link *link;
    struct cf_process *process, *other;
    struct cf_transfer *up, *down;
    unsigned mood, ticks;
};

static bool
is_moment(struct world *world)
{
    return (world->mood >> (world->ticks++ % 8)) & 1;
}

static void
on_output(void *user)
{
}

static void
free_process(struct world *world)
{
    cf_process_free(world->process);
    world->process = NULL;
}

static void
on_started(void *user, struct cf_process *process, int pid)
{
    struct world *world = user;

    cf_process_signal(process, 15);
    if (process == world->process && is_moment(world))
        free_process(world);
}

static void
on_start_failed(void *user, struct cf_process *process, const struct cf_start_failure *why)
{
    struct world *world = user;

    if (process == world->process && is_moment(world))
        free_process(world);
}

static int
on_bytes(void *user, struct cf_process *process, const char *bytes, size_t len)
{
    struct world *world = user;

    if (process == world->process && is_moment(world)) {
        free_process(world);
        return 0;
    }
    return is_moment(world) ? CF_PAUSE : 0;
}

static void
on_over(void *user, struct cf_process *process)
{
    struct world *world = user;

    (void)cf_process_write(process, "hello", 5);
    if (process == world->process && is_moment(world))
        free_process(world);
}

static void
on_exit_event(void *user, struct cf_process *process, const struct cf_exit *exit)
{
    on_over(user, process);
}

static const struct cf_process_events process_events = {
    on_started, on_start_failed, on_bytes, on_bytes,     on_over,
    on_over,    on_over,         on_over,  on_exit_event};

static void
on_done(void *user, int status, json_t *answer, const struct cf_error *err)
{
    struct world *world = user;

    if (status == 0 && answer == NULL)
        abort();
    if (is_moment(world) && world->process != NULL)
        free_process(world);
}

static int
on_file(void *user, const char *bytes, size_t len)
{
    return is_moment(user) ? -1 : 0;
}

static void
on_up_room(void *user)
{
    struct world *world = user;

    if (world->up == NULL)
        return;
    (void)cf_transfer_put(world->up, "some of the bytes", 17);
    if (is_moment(world)) {
        cf_transfer_abandon(world->up);
        world->up = NULL;
    }
}

static void
on_up_done(void *user, int status, json_t *answer, const struct cf_error *err)
{
    ((struct world *)user)->up = NULL;
}

static void
on_down_done(void *user, int status, json_t *answer, const struct cf_error *err)
{
    ((struct world *)user)->down = NULL;
}

static int
on_down_bytes(void *user, const char *bytes, size_t len)
{
    struct world *world = user;

    if (world->down != NULL && is_moment(world)) {
        cf_transfer_resume(world->down);
        if (is_moment(world)) {
            cf_transfer_abandon(world->down);
            world->down = NULL;
            return 0;
        }
    }
    return is_moment(world) ? CF_PAUSE : 0;
}

static void
on_hello(void *user, const struct cf_hello *hello)
{
    static const char *const argv[] = {"/bin/x", NULL};
    const struct cf_spawn spawn = {.argv = argv, .with_stdin = true};
    struct world *world = user;
    struct cf_error err;

    (void)!cf_process_spawn(world->link, &spawn, &process_events, world, &world->process,
                            &err);
    (void)!cf_process_spawn(world->link, &spawn, &process_events, world, &world->other, &err);
    (void)!cf_link_facts(world->link, on_done, world, &err);
    (void)!cf_link_read_file(world->link, "/x", "y", 1000, on_file, on_done, world, &err);
    (void)!cf_link_write_file(world->link, "/x", "y", 0644, "bytes", 5, on_done, world, &err);
    (void)!cf_link_manifest(world->link, "/x", 10, on_file, on_done, world, &err);
    cf_link_ping(world->link);
    if (cf_link_upload(world->link, "/x", "u", 0600, 40, on_up_room, on_up_done, world,
                       &world->up, &err) < 0)
        world->up = NULL;
    if (cf_link_download(world->link, "/x", "d", 1000, on_down_bytes, on_down_done, world,
                         &world->down, &err) < 0)
        world->down = NULL;
}

static int
on_door_data(void *user, struct cf_door *door, const char *bytes, size_t len)
{
    struct world *world = user;

    if (is_moment(world))
        cf_door_consumed(door, len);
    (void)cf_door_write(door, bytes, len);
    if (is_moment(world)) {
        if (is_moment(world))
            cf_door_shutdown(door);
        cf_door_close(door);
    }
    return 0;
}

static void
on_door_over(void *user, struct cf_door *door)
{
    cf_door_close(door);
}

static void
on_door_room(void *user, struct cf_door *door)
{
}

static const struct cf_door_events door_events = {on_door_data, on_door_over, on_door_over,
                                                  on_door_room};

static void
on_door(void *user, struct cf_door *door, unsigned port)
{
    if (is_moment(user))
        cf_door_open(door, &door_events, user);
}

static void
on_event(void *user, const char *name, json_t *event)
{
    if (name == NULL || event == NULL)
        abort();
}

static void
on_broken(void *user, const struct cf_error *err)
{
    if (err->text[0] == '\0')
        abort();
}

static const struct cf_link_events link_events = {on_output, on_hello, on_door, on_event,
                                                  on_broken};

static void
take_output(struct cf_link *link)
{
    const char *bytes;
    size_t len = cf_link_output(link, &bytes);

    if (len > 0)
        cf_link_output_taken(link, len > 7 ? len - 3 : len);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    static const char hello[] = "{\"ev\":\"hello\",\"protocol\":1}";
    struct world world = {0};
    char head[CF_MUX_HEADER];
    struct cf_mux_frame frame = {CF_MUX_CONTROL, 0, sizeof hello - 1, 0};
    size_t part, at = 1;

    if (size < 2)
        return 0;
    world.mood = input[0];
    world.link = cf_link_new(&link_events, &world);
    if (input[1] != '{') { /* most runs go past the hello */
        cf_mux_frame_write(head, &frame);
        cf_link_feed(world.link, head, sizeof head);
        cf_link_feed(world.link, hello, sizeof hello - 1);
    }
    while (at < size) {
        part = input[at] & 0x3f;
        part = part < size - at - 1 ? part : size - at - 1;
        if (input[at] & 0x40) {
            frame.length = (uint16_t)part;
            cf_mux_frame_write(head, &frame);
            cf_link_feed(world.link, head, sizeof head);
        }
        cf_link_feed(world.link, (const char *)input + at + 1, part);
        if (input[at] & 0x80)
            take_output(world.link);
        at += 1 + part;
    }
    if (world.mood & 0x80)
        cf_link_end(world.link, NULL);
    if (world.mood & 0x20)
        cf_transfer_abandon(world.down);
    if (world.mood & 0x40)
        free_process(&world);
    cf_link_free(world.link);
    return 0;
}
