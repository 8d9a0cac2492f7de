/*
 * A call is one curl easy handle. It ends in one place, finish(): libcurl said so, its time is
 * over, or it was canceled. The last two are only marked where they happen, since libcurl lets
 * no handle go from inside its own callbacks, and carried out by the client's clock.
 */
#include "loop/http_client.h"
#include "base/clock.h"
#include "base/str.h"
#include "base/utf8.h"
#include "loop/curl_uv.h"

#include <string.h>
#include <strings.h>

#define HEAD_LIMIT_BYTES (256u * 1024)

struct cf_http_client {
    struct cf_curl_uv curl;
    uv_timer_t clock;     /* the nearest deadline of any call, or now when one was canceled */
    uint64_t clock_at_ms; /* UINT64_MAX: not armed */
    struct cf_http_call *calls;
    bool closing;
    int parts_open; /* curl and the clock */
    void (*on_closed)(void *user);
    void *user;
};

struct cf_http_call {
    struct cf_http_client *client;
    struct cf_http_call *prev, *next;
    struct cf_http_events events;
    void *user;
    CURL *easy;
    struct curl_slist *headers;
    char detail[CURL_ERROR_SIZE];
    uint64_t deadline_at_ms, first_byte_at_ms, idle_ms, heard_at_ms;
    size_t head_bytes;
    int status; /* of the head being read */
    bool head_done, paused, canceled, finishing;
    bool may_repeat;          /* asking twice does no harm, and it was asked once only */
    bool is_waiting;          /* curl does not have it: begun inside a libcurl callback, and the
                                 clock hands it over */
    enum cf_http_fault fault; /* decided by us, ahead of libcurl's own word */
};

static void on_clock(uv_timer_t *timer);

static void
arm_clock(struct cf_http_client *client, uint64_t at_ms)
{
    uint64_t now = cf_clock_ms();

    if (at_ms >= client->clock_at_ms || uv_is_closing((uv_handle_t *)&client->clock))
        return;
    client->clock_at_ms = at_ms;
    uv_update_time(client->curl.loop);
    uv_timer_start(&client->clock, on_clock, at_ms > now ? at_ms - now : 0, 0);
}

static uint64_t
call_due_ms(const struct cf_http_call *call)
{
    uint64_t due = call->deadline_at_ms;

    if (call->canceled || call->is_waiting)
        return 0;
    if (!call->head_done && call->first_byte_at_ms < due)
        due = call->first_byte_at_ms;
    if (call->idle_ms > 0 && !call->paused && call->heard_at_ms + call->idle_ms < due)
        due = call->heard_at_ms + call->idle_ms;
    return due;
}

static enum cf_http_fault
fault_of(CURLcode code)
{
    switch (code) {
    case CURLE_OK:
        return CF_HTTP_OK;
    case CURLE_COULDNT_RESOLVE_HOST:
        return CF_HTTP_RESOLVE;
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT: /* only connecting has a time limit inside libcurl */
        return CF_HTTP_CONNECT;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_CLIENTCERT:
        return CF_HTTP_TLS;
    case CURLE_WRITE_ERROR:
    case CURLE_READ_ERROR:
    case CURLE_ABORTED_BY_CALLBACK:
        return CF_HTTP_ABORTED;
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_PARTIAL_FILE:
    case CURLE_SEND_FAIL_REWIND:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
        return CF_HTTP_LOST;
    case CURLE_OUT_OF_MEMORY:
    case CURLE_FAILED_INIT:
        return CF_HTTP_INTERNAL;
    default:
        return CF_HTTP_PROTOCOL;
    }
}

static void
call_free(struct cf_http_call *call)
{
    if (call->easy != NULL)
        curl_easy_cleanup(call->easy);
    curl_slist_free_all(call->headers);
    free(call);
}

static void
fill_result(struct cf_http_call *call, enum cf_http_fault fault, struct cf_http_result *result)
{
    long os_errno = 0;
    char *local = NULL;

    *result = (struct cf_http_result){.fault = fault, .detail = call->detail};
    result->http_status = call->head_done ? call->status : 0;
    curl_easy_getinfo(call->easy, CURLINFO_OS_ERRNO, &os_errno);
    if (fault == CF_HTTP_CONNECT)
        result->os_errno = (int)os_errno;
    if (curl_easy_getinfo(call->easy, CURLINFO_LOCAL_IP, &local) == CURLE_OK && local != NULL)
        snprintf(result->local_address, sizeof result->local_address, "%s", local);
    cf_utf8_make_line(call->detail);
}

static void
finish(struct cf_http_call *call, enum cf_http_fault fault)
{
    struct cf_http_client *client = call->client;
    struct cf_http_result result;

    call->finishing = true;
    if (!call->is_waiting)
        cf_curl_uv_remove(&client->curl, call->easy);
    if (call->prev != NULL)
        call->prev->next = call->next;
    else
        client->calls = call->next;
    if (call->next != NULL)
        call->next->prev = call->prev;
    fill_result(call, fault, &result);
    if (client->calls == NULL && !client->closing && client->clock_at_ms != 0) {
        uv_timer_stop(&client->clock);
        client->clock_at_ms = UINT64_MAX;
    }
    call->events.done(call->user, &result);
    call_free(call);
}

/* A kept connection may have died unseen, and then the peer has not heard the question. True:
 * it is asked again, on a new one. */
static bool
ask_again(struct cf_http_call *call, CURLcode code)
{
    struct cf_curl_uv *curl = &call->client->curl;
    long connects = 1;

    curl_easy_getinfo(call->easy, CURLINFO_NUM_CONNECTS, &connects);
    if (!call->may_repeat || call->head_done || call->canceled || connects > 0 ||
        fault_of(code) != CF_HTTP_LOST)
        return false;
    call->may_repeat = false;
    call->head_bytes = 0;
    cf_curl_uv_remove(curl, call->easy);
    call->is_waiting = curl_easy_setopt(call->easy, CURLOPT_FRESH_CONNECT, 1L) != CURLE_OK ||
                       cf_curl_uv_add(curl, call->easy) != CURLM_OK;
    return !call->is_waiting;
}

static void
on_easy_done(struct cf_curl_uv *curl, CURL *easy, CURLcode code)
{
    struct cf_http_call *call = NULL;

    curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&call);
    if (ask_again(call, code))
        return;
    finish(call, call->fault != CF_HTTP_OK ? call->fault : fault_of(code));
}

static void
client_part_closed(struct cf_http_client *client)
{
    if (--client->parts_open > 0)
        return;
    void (*on_closed)(void *) = client->on_closed;
    void *user = client->user;
    free(client);
    on_closed(user);
}

static void
on_curl_closed(struct cf_curl_uv *curl)
{
    client_part_closed(cf_container_of(curl, struct cf_http_client, curl));
}

static void
on_clock_closed(uv_handle_t *handle)
{
    client_part_closed(handle->data);
}

/* The first call that is due, or NULL with *ret_next the time of the next one. A finished
 * call's callback may add and cancel others, so the list is walked afresh after each. */
static struct cf_http_call *
find_due(struct cf_http_client *client, uint64_t now, uint64_t *ret_next)
{
    *ret_next = UINT64_MAX;
    for (struct cf_http_call *call = client->calls; call != NULL; call = call->next) {
        uint64_t due = client->closing ? 0 : call_due_ms(call);
        if (due <= now)
            return call;
        if (due < *ret_next)
            *ret_next = due;
    }
    return NULL;
}

static enum cf_http_fault
late_fault(const struct cf_http_call *call, uint64_t now)
{
    if (call->deadline_at_ms <= now)
        return CF_HTTP_DEADLINE;
    return !call->head_done && call->first_byte_at_ms <= now ? CF_HTTP_SILENT : CF_HTTP_IDLE;
}

static void
on_clock(uv_timer_t *timer)
{
    struct cf_http_client *client = timer->data;
    uint64_t now = cf_clock_ms(), next;
    struct cf_http_call *call;

    while ((call = find_due(client, now, &next)) != NULL) {
        if (call->is_waiting && !call->canceled && !client->closing) {
            call->is_waiting = cf_curl_uv_add(&client->curl, call->easy) != CURLM_OK;
            if (call->is_waiting)
                finish(call, CF_HTTP_INTERNAL);
        } else if (call->canceled || client->closing)
            finish(call, CF_HTTP_CANCELED);
        else
            finish(call, late_fault(call, now));
    }
    client->clock_at_ms = UINT64_MAX;
    if (!client->closing) {
        if (next != UINT64_MAX)
            arm_clock(client, next);
        return;
    }
    cf_curl_uv_close(&client->curl, on_curl_closed);
    uv_close((uv_handle_t *)&client->clock, on_clock_closed);
}

/* ---- libcurl's callbacks ---------------------------------------------------------------- */

static void
take_header_line(struct cf_http_call *call, char *line)
{
    char *colon = strchr(line, ':');

    if (colon == NULL || call->status < 200 || call->events.on_header == NULL)
        return;
    *colon = '\0';
    char *value = colon + 1;
    while (*value == ' ' || *value == '\t')
        value++;
    size_t len = strlen(value);
    while (len > 0 && (value[len - 1] == ' ' || value[len - 1] == '\t'))
        value[--len] = '\0';
    call->events.on_header(call->user, line, value);
}

static size_t
on_header(char *bytes, size_t one, size_t len, void *user)
{
    struct cf_http_call *call = user;
    long status = 0;

    call->heard_at_ms = cf_clock_ms();
    call->head_bytes += len;
    if (call->head_bytes > HEAD_LIMIT_BYTES) {
        call->fault = CF_HTTP_PROTOCOL;
        return 0;
    }
    if (call->head_done)
        return len; /* trailers */
    curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
    call->status = (int)status;
    size_t text = len;
    while (text > 0 && (bytes[text - 1] == '\n' || bytes[text - 1] == '\r'))
        text--;
    if (text == 0) {
        if (call->status < 200)
            return len;
        call->head_done = true;
        if (call->events.on_head != NULL && !call->canceled)
            call->events.on_head(call->user, call->status);
        return len;
    }
    cf_auto_free char *line = strndup(bytes, text);
    if (line != NULL && !call->canceled)
        take_header_line(call, line);
    return len;
}

static size_t
on_write(char *bytes, size_t one, size_t len, void *user)
{
    struct cf_http_call *call = user;

    call->heard_at_ms = cf_clock_ms();
    if (call->canceled || call->events.on_body == NULL)
        return len;
    int answer = call->events.on_body(call->user, bytes, len);
    if (answer == CF_HTTP_PAUSE) {
        call->paused = true;
        return CURL_WRITEFUNC_PAUSE;
    }
    if (answer < 0) {
        call->fault = CF_HTTP_ABORTED;
        return CURL_WRITEFUNC_ERROR;
    }
    return len;
}

static int
on_seek(void *user, curl_off_t offset, int origin)
{
    struct cf_http_call *call = user;

    if (offset != 0 || origin != SEEK_SET || call->canceled)
        return CURL_SEEKFUNC_CANTSEEK;
    return call->events.on_source(call->user, NULL, 0) == 0 ? CURL_SEEKFUNC_OK
                                                            : CURL_SEEKFUNC_FAIL;
}

static size_t
on_read(char *to, size_t one, size_t size, void *user)
{
    struct cf_http_call *call = user;

    call->heard_at_ms = cf_clock_ms();
    if (call->canceled) {
        call->paused = true;
        return CURL_READFUNC_PAUSE;
    }
    long put = call->events.on_source(call->user, to, size * one);
    if (put == CF_HTTP_WAIT) {
        call->paused = true;
        return CURL_READFUNC_PAUSE;
    }
    if (put < 0) {
        call->fault = CF_HTTP_ABORTED;
        return CURL_READFUNC_ABORT;
    }
    return (size_t)put;
}

/* ---- setting up ------------------------------------------------------------------------- */

static int
add_header(struct cf_http_call *call, const char *line)
{
    struct curl_slist *more = curl_slist_append(call->headers, line);

    if (more == NULL)
        return -1;
    call->headers = more;
    return 0;
}

static int
set_headers(struct cf_http_call *call, const struct cf_http_request_options *options)
{
    bool has_type = false;

    for (const char *const *line = options->headers; line != NULL && *line != NULL; line++) {
        if (strncasecmp(*line, "Content-Type:", 13) == 0)
            has_type = true;
        if (add_header(call, *line) < 0)
            return -1;
    }
    /* an empty value takes out what libcurl would add by itself */
    if (add_header(call, "Expect:") < 0 || add_header(call, "Accept:") < 0)
        return -1;
    if (!has_type && add_header(call, "Content-Type:") < 0)
        return -1;
    if (options->is_streamed && add_header(call, "Transfer-Encoding: chunked") < 0)
        return -1;
    return curl_easy_setopt(call->easy, CURLOPT_HTTPHEADER, call->headers) == CURLE_OK ? 0
                                                                                       : -1;
}

static int
set_body(struct cf_http_call *call, const struct cf_http_request_options *options)
{
    CURL *easy = call->easy;
    CURLcode rc = CURLE_OK;

    if (strcmp(options->method, "HEAD") == 0)
        return curl_easy_setopt(easy, CURLOPT_NOBODY, 1L) == CURLE_OK ? 0 : -1;
    if (options->is_sized) {
        rc |= curl_easy_setopt(easy, CURLOPT_POST, 1L);
        rc |=
            curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)options->body_len);
        rc |= curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_read);
        rc |= curl_easy_setopt(easy, CURLOPT_READDATA, call);
        rc |= curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, on_seek);
        rc |= curl_easy_setopt(easy, CURLOPT_SEEKDATA, call);
        rc |= curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, 64L * 1024);
    } else if (options->is_streamed) {
        /* a body that cannot be sent twice must not ride on a connection that may be dead */
        rc |= curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
        rc |= curl_easy_setopt(easy, CURLOPT_POST, 1L);
        rc |= curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_read);
        rc |= curl_easy_setopt(easy, CURLOPT_READDATA, call);
        rc |= curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, 128L * 1024);
    } else if (options->body != NULL || strcmp(options->method, "GET") != 0) {
        rc |= curl_easy_setopt(easy, CURLOPT_POST, 1L);
        rc |=
            curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)options->body_len);
        rc |= curl_easy_setopt(
            easy, options->copy_body ? CURLOPT_COPYPOSTFIELDS : CURLOPT_POSTFIELDS,
            options->body != NULL ? options->body : "");
    }
    rc |= curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, options->method);
    return rc == CURLE_OK ? 0 : -1;
}

static int
set_up(struct cf_http_call *call, const struct cf_http_request_options *options)
{
    CURL *easy = call->easy;
    CURLcode rc = CURLE_OK;

    if (cf_curl_common(easy, options->tls, options->unix_path,
                       options->connect_ms > 0 ? options->connect_ms : 5000) < 0)
        return -1;
    rc |= curl_easy_setopt(easy, CURLOPT_URL, options->url);
    rc |= curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    rc |= curl_easy_setopt(easy, CURLOPT_PRIVATE, call);
    rc |= curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call->detail);
    rc |= curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    rc |= curl_easy_setopt(easy, CURLOPT_HEADERDATA, call);
    rc |= curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_write);
    rc |= curl_easy_setopt(easy, CURLOPT_WRITEDATA, call);
    rc |=
        curl_easy_setopt(easy, CURLOPT_BUFFERSIZE,
                         options->buffer_bytes > 0 ? (long)options->buffer_bytes : 64L * 1024);
    if (options->may_http2)
        rc |= curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    if (rc != CURLE_OK || set_body(call, options) < 0)
        return -1;
    return set_headers(call, options);
}

int
cf_http_client_open(uv_loop_t *loop, struct cf_http_client **ret_client, struct cf_error *err)
{
    struct cf_http_client *client = calloc(1, sizeof *client);

    if (client == NULL)
        return cf_error_memory(err);
    if (cf_curl_uv_init(&client->curl, loop, on_easy_done, err) < 0) {
        free(client);
        return -1;
    }
    (void)uv_timer_init(loop, &client->clock); /* only links it into the loop: cannot fail */
    client->clock.data = client;
    client->clock_at_ms = UINT64_MAX;
    client->parts_open = 2;
    *ret_client = client;
    return 0;
}

void
cf_http_client_close(struct cf_http_client *client, void (*on_closed)(void *user), void *user)
{
    client->closing = true;
    client->on_closed = on_closed;
    client->user = user;
    arm_clock(client, 0);
}

int
cf_http_call_start(struct cf_http_client *client,
                   const struct cf_http_request_options *options,
                   const struct cf_http_events *events, void *user,
                   struct cf_http_call **ret_call, struct cf_error *err)
{
    if (client->closing)
        return cf_error_set(err, CF_ERROR_CANCELED, 0,
                            "the connection to the peer is being closed");
    struct cf_http_call *call = calloc(1, sizeof *call);
    if (call == NULL)
        return cf_error_memory(err);
    call->client = client;
    call->events = *events;
    call->user = user;
    call->heard_at_ms = cf_clock_ms();
    call->deadline_at_ms =
        call->heard_at_ms + (options->deadline_ms > 0 ? options->deadline_ms : 60000);
    call->idle_ms = options->idle_ms;
    call->first_byte_at_ms =
        options->first_byte_ms > 0 ? call->heard_at_ms + options->first_byte_ms : UINT64_MAX;
    call->may_repeat = strcmp(options->method, "GET") == 0 ||
                       strcmp(options->method, "HEAD") == 0 ||
                       strcmp(options->method, "DELETE") == 0;
    call->easy = curl_easy_init();
    CURLMcode code = CURLM_OK;
    if (call->easy == NULL || set_up(call, options) < 0 ||
        ((code = cf_curl_uv_add(&client->curl, call->easy)) != CURLM_OK &&
         code != CURLM_RECURSIVE_API_CALL)) {
        call_free(call);
        return cf_error_set(err, CF_ERROR_INTERNAL, 0, "libcurl refused to prepare a request");
    }
    call->is_waiting = code == CURLM_RECURSIVE_API_CALL;
    call->next = client->calls;
    if (call->next != NULL)
        call->next->prev = call;
    client->calls = call;
    arm_clock(client, call_due_ms(call));
    if (ret_call != NULL)
        *ret_call = call;
    return 0;
}

void
cf_http_call_cancel(struct cf_http_call *call)
{
    if (call == NULL || call->canceled || call->finishing)
        return;
    call->canceled = true;
    arm_clock(call->client, 0);
}

void
cf_http_call_resume(struct cf_http_call *call)
{
    if (call == NULL || !call->paused || call->canceled || call->finishing)
        return;
    call->paused = false;
    call->heard_at_ms = cf_clock_ms();
    arm_clock(call->client, call_due_ms(call));
    curl_easy_pause(call->easy, CURLPAUSE_CONT);
}
