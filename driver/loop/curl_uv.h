/*
 * loop/curl_uv.h: one curl multi handle driven by a libuv loop; this room's own header.
 */
#ifndef CF_LOOP_CURL_UV_H
#define CF_LOOP_CURL_UV_H

#include "base/error.h"
#include "loop/tls.h"

#include <curl/curl.h>
#include <stdbool.h>
#include <uv.h>

struct cf_curl_watch;

struct cf_curl_uv {
    uv_loop_t *loop;
    CURLM *multi;
    uv_timer_t timer;
    int handles_open; /* the timer and one poll handle for each socket curl watches */
    struct cf_curl_watch *spare;
    unsigned easies, watches; /* added; spare, or of a socket */
    bool closing;
    void (*on_done)(struct cf_curl_uv *curl, CURL *easy, CURLcode code);
    void (*on_closed)(struct cf_curl_uv *curl);
};

/* Lives inside the caller's struct. on_done may add and remove handles, and may close. */
CF_CHECKED int cf_curl_uv_init(struct cf_curl_uv *curl, uv_loop_t *loop,
                               void (*on_done)(struct cf_curl_uv *, CURL *, CURLcode),
                               struct cf_error *err);
/* curl_multi_add_handle, with what curl will need for its sockets at hand: a callback that cannot
 * watch a socket would be the end of the multi handle (every call hangs) and, with libcurl 7.88, of
 * the process. Nothing was added unless it is CURLM_OK; each that was is removed once. */
CURLMcode cf_curl_uv_add(struct cf_curl_uv *curl, CURL *easy);
void cf_curl_uv_remove(struct cf_curl_uv *curl, CURL *easy);
/* Every easy handle must have been removed. Not from inside a libcurl callback. */
void cf_curl_uv_close(struct cf_curl_uv *curl, void (*on_closed)(struct cf_curl_uv *));

/* What every connection of ours has in common: no signals, no proxy from the environment,
 * HTTP/1.1, no redirects, keepalive, TLS material. Returns 0, or -1 when libcurl refuses one.
 */
int cf_curl_common(CURL *easy, const struct cf_tls *tls, const char *unix_path,
                   uint64_t connect_ms);

#endif
