/*
 * Requests to cf-init: numbered, at most so many under way, the rest waiting in order, each
 * answered once. And those that need nothing but a question and an answer.
 */
#include "sandbox/link.h"
#include "sandbox/link_internal.h"

#include "base/str.h"
#include "base/utf8.h"
#include "json/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SENT_MAX \
    (CF_MUX_UNANSWERED_MAX - 8) /* the rest is for what may not wait: pings, the end */
#define WAITING_MAX 4096u
#define PINGS_MAX 4u

static int
send_now(struct cf_link *link, struct cf_link_request *request, struct cf_error *err)
{
    if (cf_mux_control(&link->mux, request->text, request->len, err) < 0)
        return -1;
    free(request->text);
    request->text = NULL;
    TAILQ_INSERT_TAIL(&link->sent, request, in_list);
    link->sent_count++;
    if (request->on_sent != NULL)
        request->on_sent(request->object);
    return 0;
}

static void
send_waiting(struct cf_link *link)
{
    struct cf_link_request *request;
    struct cf_error err;

    while (link->sent_count < SENT_MAX && (request = TAILQ_FIRST(&link->waiting)) != NULL &&
           !link->mux.is_stopped) {
        TAILQ_REMOVE(&link->waiting, request, in_list);
        if (send_now(link, request, &err) < 0) {
            TAILQ_INSERT_HEAD(&link->waiting, request,
                              in_list); /* the queue is full: the next answer */
            return;
        }
        link->waiting_count--;
    }
}

static int
check_state(const struct cf_link *link, struct cf_error *err)
{
    if (link->is_over || link->is_freed || link->is_broken)
        return cf_error_set(err, CF_ERROR_CANCELED, 0, "the sandbox has ended");
    if (!link->has_hello)
        return cf_error_set(err, CF_ERROR_INTERNAL, 0, "the sandbox has not said hello yet");
    if (link->waiting_count >= WAITING_MAX)
        return cf_error_set(err, CF_ERROR_BUDGET, 0,
                            "%u requests wait for the sandbox already", WAITING_MAX);
    return 0;
}

/* The message as text with its id; over the wire's limit it is refused before anything is
 * sent. */
static struct cf_link_request *
make_request(struct cf_link *link, json_t *message, const struct cf_link_request *how,
             struct cf_error *err)
{
    struct cf_link_request *request = malloc(sizeof *request);

    if (request == NULL || message == NULL ||
        json_object_set_new(message, "id", json_integer(link->next_id + 1)) < 0) {
        free(request);
        cf_error_memory(err);
        return NULL;
    }
    *request = *how;
    request->text = cf_json_dump(message, &request->len);
    if (request->text == NULL || request->len > CF_MUX_CONTROL_MAX) {
        if (request->text == NULL)
            cf_error_memory(err);
        else
            cf_error_set(
                err, CF_ERROR_TOO_LARGE, 0,
                "arguments and environment take %zu bytes as a message, at most %u fit",
                request->len, CF_MUX_CONTROL_MAX);
        free(request->text);
        free(request);
        return NULL;
    }
    request->id = ++link->next_id;
    return request;
}

int
cf_link_request(struct cf_link *link, json_t *message, const struct cf_link_request *how,
                bool is_urgent, struct cf_error *err)
{
    struct cf_link_request *request = NULL;
    int status = check_state(link, err);

    if (status == 0)
        request = make_request(link, message, how, err);
    json_decref(message);
    if (request == NULL)
        return -1;
    cf_link_enter(link);
    if (link->sent_count >= (is_urgent ? CF_MUX_UNANSWERED_MAX : SENT_MAX) ||
        (!is_urgent && link->waiting_count > 0)) {
        if (is_urgent)
            TAILQ_INSERT_HEAD(&link->waiting, request, in_list);
        else
            TAILQ_INSERT_TAIL(&link->waiting, request, in_list);
        link->waiting_count++;
    } else {
        status = send_now(link, request, err);
        if (status < 0) {
            free(request->text);
            free(request);
        }
    }
    cf_link_leave(link);
    return status;
}

static enum cf_error_kind
kind_of(int error)
{
    switch (error) {
    case ENOENT:
        return CF_ERROR_NOT_FOUND;
    case EFBIG:
        return CF_ERROR_TOO_LARGE;
    case ENOSPC:
    case EDQUOT:
        return CF_ERROR_BUDGET;
    case ECANCELED:
        return CF_ERROR_CANCELED;
    default:
        return CF_ERROR_IMAGE;
    }
}

bool
cf_link_answer_failed(json_t *answer, struct cf_error *err)
{
    json_t *error = cf_json_obj(answer, "error");
    int64_t number = cf_json_int(error, "errno", 0);
    const char *text = cf_json_str(error, "text");

    if (error == NULL)
        return false;
    number = number > 0 && number < 4096 ? number : 0;
    cf_error_set(err, kind_of((int)number), (int)number, "in the sandbox: %s",
                 text != NULL && text[0] != '\0' ? text : strerror((int)number));
    return true;
}

int
cf_link_take_answer(struct cf_link *link, json_t *answer, struct cf_error *err)
{
    json_int_t id = cf_json_int(answer, "re", 0);
    struct cf_link_request *request;

    TAILQ_FOREACH(request, &link->sent, in_list)
    if (request->id == id)
        break;
    if (request == NULL)
        return cf_error_set(err, CF_ERROR_WIRE, 0,
                            "sandbox stream: an answer to a request never made");
    TAILQ_REMOVE(&link->sent, request, in_list);
    link->sent_count--;
    send_waiting(link);
    request->on_answer(link, request->object, answer, NULL);
    free(request);
    return 0;
}

static void
fail_list(struct cf_link *link, struct cf_link_request_list *list, const struct cf_error *why)
{
    struct cf_link_request *request;

    while (!link->is_freed && (request = TAILQ_FIRST(list)) != NULL) {
        TAILQ_REMOVE(list, request, in_list);
        request->on_answer(link, request->object, NULL, why);
        free(request->text);
        free(request);
    }
}

void
cf_link_fail_requests(struct cf_link *link, const struct cf_error *why)
{
    fail_list(link, &link->sent, why);
    fail_list(link, &link->waiting, why);
}

static void
drop_list(struct cf_link *link, struct cf_link_request_list *list)
{
    struct cf_link_request *request;

    while ((request = TAILQ_FIRST(list)) != NULL) {
        TAILQ_REMOVE(list, request, in_list);
        if (request->is_owner)
            free(request->object);
        free(request->text);
        free(request);
    }
}

void
cf_link_drop_requests(struct cf_link *link)
{
    drop_list(link, &link->sent);
    drop_list(link, &link->waiting);
}

int
cf_link_put_path(json_t *message, const char *name, const char *path, struct cf_error *err)
{
    size_t len = strlen(path);
    cf_auto_free char *hex = NULL;
    char hex_name[32];

    if (message == NULL)
        return cf_error_memory(err);
    if (len >= 4096)
        return cf_error_set(err, CF_ERROR_TOO_LARGE, ENAMETOOLONG,
                            "a path of %zu bytes; 4,095 is the most", len);
    if (cf_utf8_is_valid(path, len))
        return json_object_set_new(message, name, json_string(path)) < 0 ? cf_error_memory(err)
                                                                         : 0;
    hex = malloc(2 * len + 1);
    if (hex == NULL)
        return cf_error_memory(err);
    cf_hex(path, len, hex);
    snprintf(hex_name, sizeof hex_name, "%s_hex", name);
    return json_object_set_new(message, hex_name, json_string(hex)) < 0 ? cf_error_memory(err)
                                                                        : 0;
}

/* ---- requests without an object of their own ---------------------------------------- */

struct plain {
    struct cf_link_junk junk;
    cf_link_done_fn *done;
    void *user;
};

static void
on_plain_answer(struct cf_link *link, void *object, json_t *answer, const struct cf_error *err)
{
    struct plain *plain = object;
    struct cf_error refused;

    if (err == NULL && cf_link_answer_failed(answer, &refused))
        err = &refused;
    if (plain->done != NULL)
        plain->done(plain->user, err == NULL ? 0 : -1, err == NULL ? answer : NULL, err);
    cf_link_discard(link, &plain->junk);
}

/* Asks; `message` is taken. */
static int
ask(struct cf_link *link, json_t *message, bool is_urgent, cf_link_done_fn *done, void *user,
    struct cf_error *err)
{
    struct cf_link_request how = {.on_answer = on_plain_answer, .is_owner = true};
    struct plain *plain = malloc(sizeof *plain);

    if (plain == NULL) {
        json_decref(message);
        return cf_error_memory(err);
    }
    *plain = (struct plain){.done = done, .user = user};
    how.object = plain;
    if (cf_link_request(link, message, &how, is_urgent, err) == 0)
        return 0;
    free(plain);
    return -1;
}

static void
on_pong(struct cf_link *link, void *object, json_t *answer, const struct cf_error *err)
{
    link->pings--;
    if (err == NULL)
        link->pongs++;
}

void
cf_link_ping(struct cf_link *link)
{
    static const struct cf_link_request how = {.on_answer = on_pong};
    struct cf_error err;

    if (link->pings >= PINGS_MAX || !link->has_hello)
        return; /* the peer reads or answers nothing; one more would tell it nothing */
    link->pings++;
    if (cf_link_request(link, json_pack("{s:s}", "op", "ping"), &how, true, &err) < 0)
        link->pings--; /* the link is over, and the owner knows */
}

uint64_t
cf_link_pongs(const struct cf_link *link)
{
    return link->pongs;
}

int
cf_link_signal_all(struct cf_link *link, int signal, cf_link_done_fn *done, void *user,
                   struct cf_error *err)
{
    return ask(link, json_pack("{s:s, s:i}", "op", "signal_all", "signal", signal), true, done,
               user, err);
}

int
cf_link_shutdown(struct cf_link *link, struct cf_error *err)
{
    return ask(link, json_pack("{s:s}", "op", "shutdown"), true, NULL, NULL, err);
}

int
cf_link_facts(struct cf_link *link, cf_link_done_fn *done, void *user, struct cf_error *err)
{
    return ask(link, json_pack("{s:s}", "op", "facts"), false, done, user, err);
}

int
cf_link_stat(struct cf_link *link, const char *path, cf_link_done_fn *done, void *user,
             struct cf_error *err)
{
    json_t *message = json_pack("{s:s}", "op", "stat");

    if (cf_link_put_path(message, "path", path, err) == 0)
        return ask(link, message, false, done, user, err);
    json_decref(message);
    return -1;
}

/* A request about root/path; `message` is taken. */
static int
ask_beneath(struct cf_link *link, json_t *message, const char *root, const char *path,
            cf_link_done_fn *done, void *user, struct cf_error *err)
{
    if (cf_link_put_path(message, "root", root, err) == 0 &&
        cf_link_put_path(message, "path", path, err) == 0)
        return ask(link, message, false, done, user, err);
    json_decref(message);
    return -1;
}

int
cf_link_mkdir(struct cf_link *link, const char *root, const char *path, unsigned mode,
              cf_link_done_fn *done, void *user, struct cf_error *err)
{
    return ask_beneath(link, json_pack("{s:s, s:i}", "op", "mkdir", "mode", (int)mode), root,
                       path, done, user, err);
}

int
cf_link_unlink(struct cf_link *link, const char *root, const char *path, cf_link_done_fn *done,
               void *user, struct cf_error *err)
{
    return ask_beneath(link, json_pack("{s:s}", "op", "unlink"), root, path, done, user, err);
}

int
cf_link_symlink(struct cf_link *link, const char *root, const char *path, const char *target,
                cf_link_done_fn *done, void *user, struct cf_error *err)
{
    json_t *message = json_pack("{s:s}", "op", "symlink");

    if (message != NULL && cf_link_put_path(message, "target", target, err) < 0) {
        json_decref(message);
        return -1;
    }
    return ask_beneath(link, message, root, path, done, user, err);
}

int
cf_link_disk_watch(struct cf_link *link, uint64_t limit_bytes, const char *const *folders,
                   cf_link_done_fn *done, void *user, struct cf_error *err)
{
    json_t *list = json_array();

    for (size_t i = 0; list != NULL && folders[i] != NULL; i++) {
        if (json_array_append_new(list, json_string(folders[i])) < 0) {
            json_decref(list);
            return cf_error_set(err, CF_ERROR_CONFIG, EILSEQ,
                                "a folder to watch is not UTF-8");
        }
    }
    return ask(link,
               json_pack("{s:s, s:I, s:o}", "op", "disk_watch", "limit",
                         (json_int_t)(limit_bytes > INT64_MAX ? INT64_MAX : limit_bytes),
                         "folders", list),
               false, done, user, err);
}
