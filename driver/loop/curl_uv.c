/*
 * curl tells us which sockets it waits for and when it wants to be woken; libuv does both. One
 * uv_poll_t for each socket, taken when curl first names it and closed when curl lets go of it;
 * two for each transfer (one may try IPv4 and IPv6 at once) are made before it begins.
 */
#include "loop/curl_uv.h"

#include <stdlib.h>

struct cf_curl_watch {
    uv_poll_t poll;
    struct cf_curl_watch *next; /* a spare one */
    struct cf_curl_uv *curl;
    curl_socket_t fd;
};

enum { WATCHES_EACH = 2 };

static void
closed_one(struct cf_curl_uv *curl)
{
    if (--curl->handles_open == 0 && curl->closing)
        curl->on_closed(curl);
}

static void
keep_spare(struct cf_curl_uv *curl, struct cf_curl_watch *watch)
{
    watch->next = curl->spare;
    curl->spare = watch;
    curl->watches++;
}

static struct cf_curl_watch *
take_spare(struct cf_curl_uv *curl)
{
    struct cf_curl_watch *watch = curl->spare;

    if (watch != NULL) {
        curl->spare = watch->next;
        curl->watches--;
    }
    return watch;
}

static bool
has_enough(const struct cf_curl_uv *curl)
{
    return curl->watches >= WATCHES_EACH * curl->easies;
}

static void
on_watch_closed(uv_handle_t *handle)
{
    struct cf_curl_watch *watch = handle->data;
    struct cf_curl_uv *curl = watch->curl;

    if (has_enough(curl))
        free(watch);
    else
        keep_spare(curl, watch);
    closed_one(curl);
}

static void
on_timer_closed(uv_handle_t *handle)
{
    closed_one(handle->data);
}

/* on_done may close us, but memory stays until the handles have closed: reading on is safe. */
static void
report_done(struct cf_curl_uv *curl)
{
    int left;

    while (curl->multi != NULL) {
        CURLMsg *message = curl_multi_info_read(curl->multi, &left);
        if (message == NULL)
            return;
        if (message->msg == CURLMSG_DONE)
            curl->on_done(curl, message->easy_handle, message->data.result);
    }
}

static void
on_ready(uv_poll_t *poll, int status, int events)
{
    struct cf_curl_watch *watch = poll->data;
    struct cf_curl_uv *curl = watch->curl;
    int flags = 0, running;

    if (status < 0)
        flags = CURL_CSELECT_ERR;
    if (events & UV_READABLE)
        flags |= CURL_CSELECT_IN;
    if (events & UV_WRITABLE)
        flags |= CURL_CSELECT_OUT;
    curl_multi_socket_action(curl->multi, watch->fd, flags, &running);
    report_done(curl);
}

static void
on_timer(uv_timer_t *timer)
{
    struct cf_curl_uv *curl = timer->data;
    int running;

    curl_multi_socket_action(curl->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    report_done(curl);
}

static struct cf_curl_watch *
watch_new(struct cf_curl_uv *curl, curl_socket_t fd)
{
    struct cf_curl_watch *watch = take_spare(curl);

    if (watch == NULL && (watch = calloc(1, sizeof *watch)) == NULL)
        return NULL;
    if (uv_poll_init_socket(curl->loop, &watch->poll, fd) < 0) {
        free(watch);
        return NULL;
    }
    curl->watches++;
    watch->poll.data = watch;
    watch->curl = curl;
    watch->fd = fd;
    curl->handles_open++;
    return watch;
}

static int
on_socket(CURL *easy, curl_socket_t fd, int what, void *user, void *socket_user)
{
    struct cf_curl_uv *curl = user;
    struct cf_curl_watch *watch = socket_user;

    if (what == CURL_POLL_REMOVE) {
        if (watch != NULL) {
            curl_multi_assign(curl->multi, fd, NULL);
            uv_poll_stop(&watch->poll);
            curl->watches--;
            uv_close((uv_handle_t *)&watch->poll, on_watch_closed);
        }
        return 0;
    }
    if (watch == NULL) {
        watch = watch_new(curl, fd);
        if (watch == NULL)
            return -1;
        curl_multi_assign(curl->multi, fd, watch);
    }
    int events = 0;
    if (what != CURL_POLL_IN)
        events |= UV_WRITABLE;
    if (what != CURL_POLL_OUT)
        events |= UV_READABLE;
    return uv_poll_start(&watch->poll, events, on_ready) < 0 ? -1 : 0;
}

static int
on_timeout_wish(CURLM *multi, long timeout_ms, void *user)
{
    struct cf_curl_uv *curl = user;

    if (timeout_ms < 0)
        uv_timer_stop(&curl->timer);
    else if (!curl->closing) /* also 0 goes through the loop: curl may not be entered from here
                              */
        uv_timer_start(&curl->timer, on_timer, (uint64_t)timeout_ms, 0);
    return 0;
}

int
cf_curl_uv_init(struct cf_curl_uv *curl, uv_loop_t *loop,
                void (*on_done)(struct cf_curl_uv *, CURL *, CURLcode), struct cf_error *err)
{
    *curl = (struct cf_curl_uv){.loop = loop, .on_done = on_done};
    curl->multi = curl_multi_init();
    if (curl->multi == NULL)
        return cf_error_memory(err);
    (void)uv_timer_init(loop, &curl->timer); /* only links it into the loop: cannot fail */
    curl->timer.data = curl;
    curl->handles_open = 1;
    curl_multi_setopt(curl->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(curl->multi, CURLMOPT_SOCKETDATA, curl);
    curl_multi_setopt(curl->multi, CURLMOPT_TIMERFUNCTION, on_timeout_wish);
    curl_multi_setopt(curl->multi, CURLMOPT_TIMERDATA, curl);
    curl_multi_setopt(curl->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
    return 0;
}

static bool
prepare_watches(struct cf_curl_uv *curl)
{
    struct cf_curl_watch *watch;

    while (!has_enough(curl)) {
        if ((watch = calloc(1, sizeof *watch)) == NULL)
            return false;
        keep_spare(curl, watch);
    }
    return true;
}

CURLMcode
cf_curl_uv_add(struct cf_curl_uv *curl, CURL *easy)
{
    CURLMcode code = CURLM_OUT_OF_MEMORY;

    curl->easies++;
    if (prepare_watches(curl))
        code = curl_multi_add_handle(curl->multi, easy);
    if (code != CURLM_OK)
        curl->easies--;
    return code;
}

void
cf_curl_uv_remove(struct cf_curl_uv *curl, CURL *easy)
{
    curl_multi_remove_handle(curl->multi, easy);
    curl->easies--;
}

void
cf_curl_uv_close(struct cf_curl_uv *curl, void (*on_closed)(struct cf_curl_uv *))
{
    struct cf_curl_watch *watch;
    CURLM *multi = curl->multi;

    while ((watch = take_spare(curl)) != NULL)
        free(watch);
    curl->on_closed = on_closed;
    curl->closing = true;
    curl_multi_cleanup(multi); /* names each socket once more, to let go of it */
    curl->multi = NULL;
    uv_timer_stop(&curl->timer);
    uv_close((uv_handle_t *)&curl->timer, on_timer_closed);
}

static CURLcode
set_tls(CURL *easy, const struct cf_tls *tls)
{
    CURLcode rc = CURLE_OK;

    if (tls->ca_file != NULL) {
        rc |= curl_easy_setopt(easy, CURLOPT_CAINFO, tls->ca_file);
        rc |= curl_easy_setopt(easy, CURLOPT_CAPATH,
                               NULL); /* this one authority, not also the system's */
    }
    if (tls->cert_file != NULL && tls->key_file != NULL) {
        rc |= curl_easy_setopt(easy, CURLOPT_SSLCERT, tls->cert_file);
        rc |= curl_easy_setopt(easy, CURLOPT_SSLKEY, tls->key_file);
    }
    if (tls->skip_verify) {
        rc |= curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
        rc |= curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
    }
    return rc | curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
}

int
cf_curl_common(CURL *easy, const struct cf_tls *tls, const char *unix_path,
               uint64_t connect_ms)
{
    CURLcode rc = CURLE_OK;

    rc |= curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    rc |= curl_easy_setopt(easy, CURLOPT_PROXY, "");
    rc |= curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
    rc |= curl_easy_setopt(easy, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    rc |= curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    rc |= curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    rc |= curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    rc |= curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    rc |= curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)connect_ms);
    if (unix_path != NULL)
        rc |= curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, unix_path);
    if (tls != NULL)
        rc |= set_tls(easy, tls);
    return rc == CURLE_OK ? 0 : -1;
}
