/*
 * loop/curl_uv.h: one curl multi handle driven by a libuv loop; this room's own header. Easy
 * handles are added and removed by its users with curl_multi_add_handle and _remove_handle,
 * never from inside a libcurl callback.
 */
#ifndef CF_LOOP_CURL_UV_H
#define CF_LOOP_CURL_UV_H

#include "base/error.h"
#include "loop/tls.h"

#include <curl/curl.h>
#include <stdbool.h>
#include <uv.h>

struct cf_curl_uv {
    uv_loop_t *loop;
    CURLM *multi;
    uv_timer_t timer;
    int handles_open; /* the timer and one poll handle for each socket curl watches */
    bool closing;
    void (*on_done)(struct cf_curl_uv *curl, CURL *easy, CURLcode code);
    void (*on_closed)(struct cf_curl_uv *curl);
};

/* Lives inside the caller's struct. on_done may add and remove handles, and may close. */
CF_CHECKED int cf_curl_uv_init(struct cf_curl_uv *curl, uv_loop_t *loop,
                               void (*on_done)(struct cf_curl_uv *, CURL *, CURLcode),
                               struct cf_error *err);
/* Every easy handle must have been removed. Not from inside a libcurl callback. */
void cf_curl_uv_close(struct cf_curl_uv *curl, void (*on_closed)(struct cf_curl_uv *));

/* What every connection of ours has in common: no signals, no proxy from the environment,
 * HTTP/1.1, no redirects, keepalive, TLS material. Returns 0, or -1 when libcurl refuses one.
 */
int cf_curl_common(CURL *easy, const struct cf_tls *tls, const char *unix_path,
                   uint64_t connect_ms);

#endif
