/*
 * The driver's end of the conversation with cf-init: its life, hello and events, the bytes
 * both ways. Requests, processes, doors and files have files of their own.
 */
#include "sandbox/link.h"
#include "sandbox/link_internal.h"

#include "base/str.h"
#include "json/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DATA_QUEUE (128u * 1024u)
#define CONTROL_QUEUE (16u * 1024u * 1024u)
#define CHANNELS_MAX 1024u
#define DOORS_MAX 4096u
#define GROWTH (64u * 1024u * 1024u)
#define STAGE (64u * 1024u)

static const struct cf_mux_events mux_events;

struct cf_link *
cf_link_new(const struct cf_link_events *events, void *user)
{
    static const struct cf_mux_options options = {
        .side = CF_MUX_DRIVER,
        .data_queue_bytes = DATA_QUEUE,
        .control_queue_bytes = CONTROL_QUEUE,
        .own_channels_max = CHANNELS_MAX,
        .peer_channels_max = DOORS_MAX,
        .growth_bytes = GROWTH,
    };
    struct cf_link *link = calloc(1, sizeof *link);

    if (link == NULL)
        return NULL;
    link->events = events;
    link->user = user;
    cf_mux_init(&link->mux, &options, &mux_events, link);
    TAILQ_INIT(&link->sent);
    TAILQ_INIT(&link->waiting);
    LIST_INIT(&link->processes);
    LIST_INIT(&link->doors);
    LIST_INIT(&link->transfers);
    SLIST_INIT(&link->junk);
    return link;
}

/* ---- who is on the stack ------------------------------------------------------------ */

void
cf_link_enter(struct cf_link *link)
{
    link->depth++;
}

void
cf_link_discard(struct cf_link *link, struct cf_link_junk *junk)
{
    junk->is_junk = true;
    SLIST_INSERT_HEAD(&link->junk, junk, in_junk);
}

bool
cf_link_is_quiet(const struct cf_link *link)
{
    return link->is_freed || link->is_over;
}

static void
empty_junk(struct cf_link *link)
{
    struct cf_link_junk *junk;

    while ((junk = SLIST_FIRST(&link->junk)) != NULL) {
        SLIST_REMOVE_HEAD(&link->junk, in_junk);
        free(junk);
    }
}

static void
destroy(struct cf_link *link)
{
    cf_link_drop_requests(link);
    empty_junk(link);
    cf_mux_bytes_release(&link->stage);
    cf_mux_release(&link->mux);
    free(link);
}

static bool
has_output(const struct cf_link *link)
{
    return !link->is_over && (link->stage.len > 0 || cf_mux_has_output(&link->mux));
}

void
cf_link_leave(struct cf_link *link)
{
    if (--link->depth > 0)
        return;
    if (!link->is_freed && !link->is_taking && !link->is_output_told && has_output(link)) {
        link->is_output_told = true;
        link->depth++;
        link->events->on_output(link->user);
        link->depth--;
    }
    if (link->is_freed)
        destroy(link);
    else
        empty_junk(link);
}

void
cf_link_free(struct cf_link *link)
{
    if (link == NULL || link->is_freed)
        return;
    cf_link_enter(link);
    link->is_freed = true;
    cf_mux_stop(&link->mux);
    cf_process_drop_all(link);
    cf_door_drop_all(link);
    cf_transfer_drop_all(link);
    cf_link_leave(link);
}

static void
become_broken(struct cf_link *link, const struct cf_error *err)
{
    if (link->is_broken || cf_link_is_quiet(link))
        return;
    link->is_broken = true;
    cf_mux_stop(&link->mux);
    link->events->on_broken(link->user, err);
}

/* ---- events ------------------------------------------------------------------------- */

static int
take_hello(struct cf_link *link, json_t *event, struct cf_error *err)
{
    struct cf_hello *hello = &link->hello;
    json_t *ports = cf_json_arr(event, "ports");
    const char *version = cf_json_str(event, "version"),
               *cgroup = cf_json_str(event, "cgroup");
    const char *arch = cf_json_str(event, "arch");
    int64_t pids = cf_json_int(event, "pids_limit", 0);

    hello->protocol = (int)cf_json_int(event, "protocol", 0);
    if (hello->protocol != CF_MUX_PROTOCOL)
        return cf_error_set(err, CF_ERROR_WIRE, 0,
                            "cf-init in the sandbox speaks protocol %d, this driver speaks %d",
                            hello->protocol, CF_MUX_PROTOCOL);
    snprintf(hello->version, sizeof hello->version, "%s", version != NULL ? version : "");
    snprintf(hello->cgroup, sizeof hello->cgroup, "%s", cgroup != NULL ? cgroup : "none");
    snprintf(hello->arch, sizeof hello->arch, "%s", arch != NULL ? arch : "");
    hello->uid = (unsigned)cf_json_int(event, "uid", 0);
    hello->gid = (unsigned)cf_json_int(event, "gid", 0);
    hello->pids_limit = pids > 0 ? (uint64_t)pids : 0;
    for (size_t i = 0; i < CF_COUNT(hello->ports) && i < json_array_size(ports); i++)
        hello->ports[i] = (unsigned)json_integer_value(json_array_get(ports, i));
    link->has_hello = true;
    link->events->on_hello(link->user, hello);
    return 0;
}

static int
take_event(struct cf_link *link, json_t *event, struct cf_error *err)
{
    const char *name = cf_json_str(event, "ev");

    if (name == NULL)
        return cf_error_set(err, CF_ERROR_WIRE, 0,
                            "sandbox stream: a message that is neither answer nor event");
    if (!link->has_hello) {
        if (strcmp(name, "hello") != 0)
            return cf_error_set(err, CF_ERROR_WIRE, 0,
                                "sandbox stream: the first message is not a hello");
        return take_hello(link, event, err);
    }
    if (strcmp(name, "hello") == 0)
        return cf_error_set(err, CF_ERROR_WIRE, 0, "sandbox stream: a second hello");
    if (strcmp(name, "exit") == 0) {
        cf_process_take_exit(link, event);
        return 0;
    }
    if (strcmp(name, "bye") == 0)
        link->saw_bye = true;
    if (link->events->on_event != NULL)
        link->events->on_event(link->user, name, event);
    return 0;
}

static int
on_control(void *user, const char *bytes, size_t len, struct cf_error *err)
{
    static const struct cf_json_limits limits = {.bytes = CF_MUX_CONTROL_MAX,
                                                 .depth = 8,
                                                 .nodes = 4096,
                                                 .reject_duplicates = true,
                                                 .containers_only = true};
    struct cf_link *link = user;
    json_t *message = cf_json_parse(bytes, len, &limits, err);
    int status = 0;

    if (message == NULL) {
        (void)cf_error_wrap(err, "control message of the sandbox");
        err->kind = CF_ERROR_WIRE;
        return -1;
    }
    if (json_is_integer(json_object_get(message, "re")))
        status = cf_link_take_answer(link, message, err);
    else
        status = take_event(link, message, err);
    json_decref(message);
    return status;
}

/* ---- the mux's callbacks ------------------------------------------------------------ */

static struct cf_mux_channel *
on_open(void *user, uint32_t tag)
{
    struct cf_link *link = user;

    return link->has_hello ? cf_door_offer(link, tag) : NULL;
}

static void
on_opened(void *user, struct cf_mux_channel *channel)
{
    cf_door_announce(user, channel);
}

static void
on_data(void *user, struct cf_mux_channel *channel, const char *bytes, size_t len)
{
    struct cf_link_channel *mine = (struct cf_link_channel *)channel;

    mine->ops->on_data(mine, bytes, len);
}

static void
on_half_close(void *user, struct cf_mux_channel *channel)
{
    struct cf_link_channel *mine = (struct cf_link_channel *)channel;

    mine->ops->on_half_close(mine);
}

static void
on_reset(void *user, struct cf_mux_channel *channel)
{
    struct cf_link_channel *mine = (struct cf_link_channel *)channel;

    mine->ops->on_reset(mine);
}

static void
on_writable(void *user, struct cf_mux_channel *channel)
{
    struct cf_link_channel *mine = (struct cf_link_channel *)channel;

    mine->ops->on_writable(mine);
}

static const struct cf_mux_events mux_events = {
    .on_open = on_open,
    .on_opened = on_opened,
    .on_data = on_data,
    .on_half_close = on_half_close,
    .on_reset = on_reset,
    .on_writable = on_writable,
    .on_control = on_control,
};

/* ---- bytes both ways ---------------------------------------------------------------- */

void
cf_link_feed(struct cf_link *link, const char *bytes, size_t len)
{
    struct cf_error err;

    if (cf_link_is_quiet(link) || link->is_broken)
        return;
    cf_link_enter(link);
    if (cf_mux_feed(&link->mux, bytes, len, &err) < 0)
        become_broken(link, &err);
    cf_link_leave(link);
}

static void
fill_stage(struct cf_link *link)
{
    const char *bytes;
    size_t len;

    while (link->stage.len < STAGE && (len = cf_mux_peek(&link->mux, &bytes)) > 0) {
        len = len < STAGE - link->stage.len ? len : STAGE - link->stage.len;
        if (cf_mux_bytes_add(&link->stage, bytes, len) < 0)
            return; /* without memory it stays queued */
        cf_mux_taken(&link->mux, len);
    }
}

size_t
cf_link_output(struct cf_link *link, const char **ret_bytes)
{
    bool is_inside = link->depth > 0, is_freed;

    if (cf_link_is_quiet(link) || link->is_broken)
        return 0;
    if (link->stage.len == 0) {
        cf_link_enter(link);
        link->is_taking = true; /* leave need not tell the caller what it is about to see */
        fill_stage(link);
        if (!is_inside) { /* a writer that is about to hear how much was taken must not be
                             called meanwhile */
            cf_mux_serve(&link->mux);
            fill_stage(link);
        }
        link->is_output_told = link->stage.len > 0;
        is_freed = link->is_freed;
        cf_link_leave(link);
        if (is_freed)
            return 0;
        link->is_taking = false;
    }
    *ret_bytes = link->stage.len > 0 ? cf_mux_bytes_front(&link->stage) : NULL;
    return link->stage.len;
}

void
cf_link_output_taken(struct cf_link *link, size_t len)
{
    cf_mux_bytes_drop(&link->stage, len);
}

bool
cf_link_saw_bye(const struct cf_link *link)
{
    return link->saw_bye;
}

uint64_t
cf_link_oom_told(const struct cf_link *link)
{
    return link->oom_told;
}

const struct cf_hello *
cf_link_hello(const struct cf_link *link)
{
    return link->has_hello ? &link->hello : NULL;
}

/* ---- the end ------------------------------------------------------------------------ */

void
cf_link_end(struct cf_link *link, const struct cf_error *why)
{
    struct cf_error reason;

    if (cf_link_is_quiet(link))
        return;
    if (why != NULL)
        reason = *why;
    else
        cf_error_set(&reason, CF_ERROR_HARNESS, 0, "the stream to the sandbox has ended");
    cf_link_enter(link);
    link->is_over = true;
    cf_mux_stop(&link->mux);
    cf_link_fail_requests(link, &reason);
    cf_process_lose_all(link);
    cf_door_lose_all(link);
    cf_transfer_lose_all(link, &reason);
    cf_link_leave(link);
}
