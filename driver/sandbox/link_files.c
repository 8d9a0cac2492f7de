/*
 * Whole files and manifests: a request and a channel for the bytes. The answer is a control
 * message and overtakes data, so the end has come when both are there.
 */
#include "sandbox/link.h"
#include "sandbox/link_internal.h"

#include "json/json.h"

#include <errno.h>
#include <stdlib.h>

struct cf_transfer {
    struct cf_link_junk junk;
    struct cf_link *link;
    LIST_ENTRY(cf_transfer) in_list;
    struct cf_link_channel channel;
    const char *bytes; /* to write: the caller's; NULL where they come by cf_transfer_put */
    uint64_t len, at;
    uint64_t limit, read;
    size_t held; /* read, taken by the caller, credit not given back yet */
    cf_link_bytes_fn *on_bytes;
    cf_link_room_fn *on_room;
    cf_link_done_fn *done;
    void *user;
    json_t *answer; /* came, and the bytes have not ended yet */
    bool is_sent, is_answered, is_over;
};

static void
finish(struct cf_transfer *transfer, json_t *answer, const struct cf_error *err)
{
    if (transfer->is_over)
        return;
    transfer->is_over = true;
    cf_mux_close(&transfer->link->mux, &transfer->channel.mux);
    if (transfer->done != NULL && !transfer->link->is_freed)
        transfer->done(transfer->user, err == NULL ? 0 : -1, err == NULL ? answer : NULL, err);
    json_decref(transfer->answer);
    transfer->answer = NULL;
}

/* Freed once cf-init has answered too; before that the request still points here. */
static void
discard_when_answered(struct cf_transfer *transfer)
{
    if (transfer->junk.is_junk || !transfer->is_over || !transfer->is_answered)
        return;
    LIST_REMOVE(transfer, in_list);
    cf_link_discard(transfer->link, &transfer->junk);
}

static void
on_answer(struct cf_link *link, void *object, json_t *answer, const struct cf_error *err)
{
    struct cf_transfer *transfer = object;
    struct cf_error refused;

    transfer->is_answered = true;
    if (err == NULL && cf_link_answer_failed(answer, &refused))
        err = &refused;
    if (err != NULL || transfer->on_bytes == NULL || transfer->channel.mux.recv_closed)
        finish(transfer, answer, err);
    else if (!transfer->is_over) /* else the caller gave up before */
        transfer->answer = json_incref(answer);
    discard_when_answered(transfer);
}

/* ---- towards the sandbox ------------------------------------------------------------ */

static void
send_more(struct cf_transfer *transfer)
{
    struct cf_mux *mux = &transfer->link->mux;

    if (!transfer->is_sent || transfer->is_over || transfer->on_bytes != NULL)
        return;
    if (transfer->bytes != NULL)
        transfer->at +=
            cf_mux_write(mux, &transfer->channel.mux, transfer->bytes + transfer->at,
                         (size_t)(transfer->len - transfer->at));
    if (transfer->at == transfer->len)
        cf_mux_half_close(mux, &transfer->channel.mux);
    else if (transfer->on_room != NULL)
        transfer->on_room(transfer->user);
}

size_t
cf_transfer_put(struct cf_transfer *transfer, const char *bytes, size_t len)
{
    struct cf_mux *mux = &transfer->link->mux;
    size_t taken;

    if (!transfer->is_sent || transfer->is_over)
        return 0;
    if (len > transfer->len - transfer->at)
        len = (size_t)(transfer->len - transfer->at);
    cf_link_enter(transfer->link);
    taken = cf_mux_write(mux, &transfer->channel.mux, bytes, len);
    transfer->at += taken;
    if (transfer->at == transfer->len)
        cf_mux_half_close(mux, &transfer->channel.mux);
    cf_link_leave(transfer->link);
    return taken;
}

static void
on_sent(void *object)
{
    struct cf_transfer *transfer = object;

    transfer->is_sent = true;
    send_more(transfer);
}

static void
on_writable(struct cf_link_channel *channel)
{
    send_more(channel->object);
}

/* ---- from the sandbox --------------------------------------------------------------- */

static void
give_up(struct cf_transfer *transfer, enum cf_error_kind kind, int error, const char *why)
{
    struct cf_error err;

    cf_error_set(&err, kind, error, "%s", why);
    finish(transfer, NULL, &err);
    discard_when_answered(transfer);
}

static void
on_data(struct cf_link_channel *channel, const char *bytes, size_t len)
{
    struct cf_transfer *transfer = channel->object;
    int said;

    if (transfer->is_over || transfer->on_bytes == NULL)
        return;
    transfer->read += len;
    if (transfer->read > transfer->limit) {
        give_up(transfer, CF_ERROR_TOO_LARGE, EFBIG,
                "in the sandbox: the file is over its limit");
        return;
    }
    said = transfer->on_bytes(transfer->user, bytes, len);
    if (transfer->is_over)
        return; /* let go of from inside */
    if (said < 0)
        give_up(transfer, CF_ERROR_CANCELED, ECANCELED,
                "reading from the sandbox was given up");
    else if (said == CF_PAUSE)
        transfer->held += len;
    else
        cf_mux_consumed(&transfer->link->mux, &channel->mux, len);
}

void
cf_transfer_resume(struct cf_transfer *transfer)
{
    size_t held = transfer->held;

    if (transfer->is_over || held == 0)
        return;
    transfer->held = 0;
    cf_link_enter(transfer->link);
    cf_mux_consumed(&transfer->link->mux, &transfer->channel.mux, held);
    cf_link_leave(transfer->link);
}

void
cf_transfer_abandon(struct cf_transfer *transfer)
{
    struct cf_link *link;

    if (transfer == NULL || transfer->is_over)
        return;
    link = transfer->link;
    cf_link_enter(link);
    transfer->done = NULL;
    finish(transfer, NULL, NULL);
    discard_when_answered(transfer);
    cf_link_leave(link);
}

static void
on_half_close(struct cf_link_channel *channel)
{
    struct cf_transfer *transfer = channel->object;

    if (!transfer->is_answered)
        return; /* the answer ends it */
    finish(transfer, transfer->answer, NULL);
    discard_when_answered(transfer);
}

static void
on_reset(struct cf_link_channel *channel)
{
    struct cf_transfer *transfer = channel->object;

    /* without a word before it; a refusal would have come as the answer, ahead of this */
    if (transfer->is_answered)
        give_up(transfer, CF_ERROR_WIRE, EPROTO,
                "in the sandbox: the file's bytes ended early");
}

static const struct cf_link_channel_ops transfer_ops = {on_data, on_half_close, on_reset,
                                                        on_writable};

/* ---- requests ----------------------------------------------------------------------- */

/* `message` and `transfer` are taken. */
static int
begin(struct cf_link *link, json_t *message, struct cf_transfer *transfer,
      struct cf_error *err)
{
    const struct cf_link_request how = {
        .on_sent = on_sent, .on_answer = on_answer, .object = transfer};
    struct cf_mux_channel *channel = &transfer->channel.mux;
    int status = -1;

    transfer->link = link;
    transfer->channel.ops = &transfer_ops;
    transfer->channel.object = transfer;
    cf_link_enter(link);
    if (cf_mux_open(&link->mux, channel, CF_MUX_WINDOW_PROCESS, 0, err) == 0) {
        cf_mux_one_way(channel, transfer->on_bytes == NULL);
        if (json_object_set_new(message, "ch", json_integer(channel->id)) < 0)
            cf_error_memory(err);
        else
            status = cf_link_request(link, json_incref(message), &how, false, err);
    }
    json_decref(message);
    if (status == 0) {
        LIST_INSERT_HEAD(&link->transfers, transfer, in_list);
    } else {
        cf_mux_close(&link->mux, channel);
        cf_link_discard(link, &transfer->junk);
    }
    cf_link_leave(link);
    return status;
}

/* A message with root and perhaps path, and the transfer for it; NULL with `err` filled. */
static struct cf_transfer *
prepare(json_t *message, const char *root, const char *path, cf_link_done_fn *done, void *user,
        struct cf_error *err)
{
    struct cf_transfer *transfer = calloc(1, sizeof *transfer);

    if (transfer == NULL || message == NULL)
        cf_error_memory(err);
    else if (cf_link_put_path(message, "root", root, err) == 0 &&
             (path == NULL || cf_link_put_path(message, "path", path, err) == 0)) {
        transfer->done = done;
        transfer->user = user;
        return transfer;
    }
    free(transfer);
    json_decref(message);
    return NULL;
}

static json_int_t
number(uint64_t value)
{
    return value > INT64_MAX ? INT64_MAX : (json_int_t)value;
}

int
cf_link_write_file(struct cf_link *link, const char *root, const char *path, unsigned mode,
                   const char *bytes, size_t len, cf_link_done_fn *done, void *user,
                   struct cf_error *err)
{
    json_t *message =
        json_pack("{s:s, s:i, s:I}", "op", "write", "mode", (int)mode, "size", number(len));
    struct cf_transfer *transfer = prepare(message, root, path, done, user, err);

    if (transfer == NULL)
        return -1;
    transfer->bytes = bytes;
    transfer->len = len;
    return begin(link, message, transfer, err);
}

int
cf_link_upload(struct cf_link *link, const char *root, const char *path, unsigned mode,
               uint64_t size, cf_link_room_fn *on_room, cf_link_done_fn *done, void *user,
               struct cf_transfer **ret_transfer, struct cf_error *err)
{
    json_t *message =
        json_pack("{s:s, s:i, s:I}", "op", "write", "mode", (int)mode, "size", number(size));
    struct cf_transfer *transfer = prepare(message, root, path, done, user, err);

    if (transfer == NULL)
        return -1;
    transfer->len = size;
    transfer->on_room = on_room;
    *ret_transfer = transfer; /* before on_room may be called from inside */
    return begin(link, message, transfer, err);
}

int
cf_link_download(struct cf_link *link, const char *root, const char *path,
                 uint64_t limit_bytes, cf_link_bytes_fn *on_bytes, cf_link_done_fn *done,
                 void *user, struct cf_transfer **ret_transfer, struct cf_error *err)
{
    json_t *message = json_pack("{s:s, s:I}", "op", "read", "limit", number(limit_bytes));
    struct cf_transfer *transfer = prepare(message, root, path, done, user, err);

    if (transfer == NULL)
        return -1;
    transfer->on_bytes = on_bytes;
    transfer->limit = limit_bytes;
    *ret_transfer = transfer;
    return begin(link, message, transfer, err);
}

static int
read_bytes(struct cf_link *link, const char *root, const char *path, uint64_t limit, bool is_head,
           cf_link_bytes_fn *on_bytes, cf_link_done_fn *done, void *user, struct cf_error *err)
{
    json_t *message = json_pack("{s:s, s:I, s:b}", "op", "read", "limit", number(limit), "head",
                                (int)is_head);
    struct cf_transfer *transfer = prepare(message, root, path, done, user, err);

    if (transfer == NULL)
        return -1;
    transfer->on_bytes = on_bytes;
    transfer->limit = limit;
    return begin(link, message, transfer, err);
}

int
cf_link_read_file(struct cf_link *link, const char *root, const char *path,
                  uint64_t limit_bytes, cf_link_bytes_fn *on_bytes, cf_link_done_fn *done,
                  void *user, struct cf_error *err)
{
    return read_bytes(link, root, path, limit_bytes, false, on_bytes, done, user, err);
}

int
cf_link_read_head(struct cf_link *link, const char *root, const char *path, uint64_t head_bytes,
                  cf_link_bytes_fn *on_bytes, cf_link_done_fn *done, void *user,
                  struct cf_error *err)
{
    return read_bytes(link, root, path, head_bytes, true, on_bytes, done, user, err);
}

int
cf_link_manifest(struct cf_link *link, const char *root, uint64_t max_entries,
                 cf_link_bytes_fn *on_bytes, cf_link_done_fn *done, void *user,
                 struct cf_error *err)
{
    json_t *message = json_pack("{s:s, s:I}", "op", "manifest", "max", number(max_entries));
    struct cf_transfer *transfer = prepare(message, root, NULL, done, user, err);

    if (transfer == NULL)
        return -1;
    transfer->on_bytes = on_bytes;
    transfer->limit = UINT64_MAX;
    return begin(link, message, transfer, err);
}

/* ---- the end ------------------------------------------------------------------------ */

/* Those whose request was answered and whose bytes will not come any more; the others heard it
 * through their request. */
void
cf_transfer_lose_all(struct cf_link *link, const struct cf_error *why)
{
    struct cf_transfer *transfer;

    while (!link->is_freed && (transfer = LIST_FIRST(&link->transfers)) != NULL) {
        transfer->is_answered = true;
        finish(transfer, NULL, why);
        discard_when_answered(transfer);
    }
}

void
cf_transfer_drop_all(struct cf_link *link)
{
    struct cf_transfer *transfer;

    while ((transfer = LIST_FIRST(&link->transfers)) != NULL) {
        LIST_REMOVE(transfer, in_list);
        cf_mux_close(&link->mux, &transfer->channel.mux);
        json_decref(transfer->answer);
        transfer->answer = NULL;
        cf_link_discard(link, &transfer->junk);
    }
}
