/*
 * An engine from open to closed, and its first conversation: ping, then version and info at
 * once. The API version in use is the highest that both sides know; until it is known, requests
 * carry none.
 */
#include "base/clock.h"
#include "base/str.h"
#include "engine/internal.h"
#include "json/json.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

struct connecting {
    struct cf_engine *engine;
    cf_engine_connect_fn *done;
    void *user;
    uint64_t until_ms;
    char api_max[16];
    int pending;      /* version and info, asked at once */
    bool has_failed;
    struct cf_error why;
};

static void
connecting_end(struct connecting *c, const struct cf_error *err)
{
    cf_engine_connect_fn *done = c->done;
    void *user = c->user;
    struct cf_error why = {0};

    if (err != NULL)
        why = *err;
    free(c);
    done(user, err != NULL ? -1 : 0, err != NULL ? &why : NULL);
}

/* One of the two has been answered, and `err` says why it is of no use. What version says
 * decides: an engine that is too old may not know what info asks for. */
static void
connecting_part(struct connecting *c, const struct cf_error *err, bool decides)
{
    if (err != NULL && (!c->has_failed || decides)) {
        c->has_failed = true;
        c->why = *err;
    }
    if (--c->pending == 0)
        connecting_end(c, c->has_failed ? &c->why : NULL);
}

static int
ask(struct connecting *c, const char *method, const char *path, cf_engine_done_fn *on_answer,
    struct cf_error *err)
{
    uint64_t now = cf_clock_ms();
    struct cf_engine_request request = {.method = method, .path = path};

    request.deadline_ms = now < c->until_ms ? c->until_ms - now : 1;
    if (strcmp(method, "HEAD") == 0)
        request.also_ok = 500; /* an unhealthy engine still says its version in the headers */
    return cf_engine_call(c->engine, &request, on_answer, c, NULL, err);
}

/* ---- versions --------------------------------------------------------------------------- */

/* "1.41" as 1041; 0 for anything else. */
static unsigned
api_number(const char *text)
{
    unsigned major = 0, minor = 0;
    int at = 0;

    if (text == NULL || sscanf(text, "%3u.%3u%n", &major, &minor, &at) != 2 ||
        text[at] != '\0')
        return 0;
    return major * 1000 + minor;
}

static int
choose_version(struct cf_engine *engine, const char *newest, const char *oldest,
               struct cf_error *err)
{
    struct cf_engine_facts *facts = &engine->facts;
    unsigned theirs = api_number(newest), floor = api_number(CF_API_FLOOR),
             ours = api_number(CF_API_NEWEST);

    if (theirs == 0) {
        cf_error_set(err, CF_ERROR_ENGINE, 0,
                     "%s does not answer like a Docker Engine: it names no API version",
                     engine->endpoint.url);
        return cf_error_fix(err, "check that --engine or DOCKER_HOST names a Docker Engine");
    }
    snprintf(facts->api_version_max, sizeof facts->api_version_max, "%s", newest);
    snprintf(facts->api_version_min, sizeof facts->api_version_min, "%s",
             oldest != NULL ? oldest : "");
    if (theirs < floor) {
        cf_error_set(err, CF_ERROR_ENGINE, 0,
                     "the engine at %s is too old: it speaks API %s, at least " CF_API_FLOOR
                     " is needed",
                     engine->endpoint.url, newest);
        return cf_error_fix(err, "update to Docker Engine 20.10 or newer");
    }
    if (api_number(oldest) > ours) {
        cf_error_set(err, CF_ERROR_ENGINE, 0,
                     "the engine at %s speaks API %s and newer; the newest known here "
                     "is " CF_API_NEWEST,
                     engine->endpoint.url, oldest);
        return cf_error_fix(err, "update cfrunner, or use an older engine");
    }
    snprintf(facts->api_version, sizeof facts->api_version, "%s",
             theirs < ours ? newest : CF_API_NEWEST);
    return 0;
}

/* ---- info ------------------------------------------------------------------------------- */

static bool
has_security_option(const json_t *info, const char *wanted)
{
    size_t i;
    json_t *option;

    json_array_foreach(cf_json_arr(info, "SecurityOptions"), i, option)
        if (json_is_string(option) && strstr(json_string_value(option), wanted) != NULL)
            return true;
    return false;
}

static void
copy_fact(char *to, size_t size, const json_t *info, const char *name)
{
    const char *text = cf_json_str(info, name);
    snprintf(to, size, "%s", text != NULL ? text : "");
}

/* overlay2 needs project quotas of an xfs below; whether that is mounted with them, only a try tells. */
static void
take_storage(struct cf_engine_facts *facts, const json_t *info)
{
    static const char *const whole[] = {"btrfs", "devicemapper"};
    json_t *pair;
    size_t i;

    copy_fact(facts->storage_driver, sizeof facts->storage_driver, info, "Driver");
    for (i = 0; i < CF_COUNT(whole); i++)
        facts->counts_image |= strcmp(facts->storage_driver, whole[i]) == 0;
    facts->may_limit_layers = facts->counts_image || strcmp(facts->storage_driver, "zfs") == 0;
    if (strcmp(facts->storage_driver, "overlay2") != 0)
        return;
    json_array_foreach(cf_json_arr(info, "DriverStatus"), i, pair) {
        const char *name = json_string_value(json_array_get(pair, 0)), *is = json_string_value(json_array_get(pair, 1));

        facts->may_limit_layers |= cf_str_same(name, "Backing Filesystem") && cf_str_same(is, "xfs");
    }
}

static void
take_info(struct cf_engine_facts *facts, const json_t *info)
{
    copy_fact(facts->id, sizeof facts->id, info, "ID");
    copy_fact(facts->kernel, sizeof facts->kernel, info, "KernelVersion");
    take_storage(facts, info);
    copy_fact(facts->cgroup_version, sizeof facts->cgroup_version, info, "CgroupVersion");
    facts->is_rootless = has_security_option(info, "name=rootless");
    facts->has_swap_limit = cf_json_bool(info, "SwapLimit", false);
    facts->has_pids_limit = cf_json_bool(info, "PidsLimit", false);
    facts->has_cpu_quota = cf_json_bool(info, "CpuCfsQuota", false);
    facts->ncpu = (int)cf_json_int(info, "NCPU", 0);
    facts->memory_bytes = (uint64_t)cf_json_int(info, "MemTotal", 0);
}

static void
on_info(void *user, int status, const struct cf_engine_reply *reply,
        const struct cf_error *err)
{
    struct connecting *c = user;
    struct cf_error own = {0};

    if (status == 0 && !json_is_object(reply->json)) {
        cf_error_set(&own, CF_ERROR_ENGINE, reply->http_status,
                     "engine answered GET /info without a JSON object");
        err = &own;
        status = -1;
    }
    if (status == 0)
        take_info(&c->engine->facts, reply->json);
    connecting_part(c, status < 0 ? err : NULL, false);
}

static void
ask_info(struct connecting *c)
{
    struct cf_error err = {0};

    c->pending++;
    if (ask(c, "GET", "/info", on_info, &err) < 0)
        connecting_part(c, &err, false);
}

static void
on_version(void *user, int status, const struct cf_engine_reply *reply,
           const struct cf_error *err)
{
    struct connecting *c = user;
    struct cf_engine_facts *facts = &c->engine->facts;
    struct cf_error own = {0};

    if (status < 0) {
        connecting_part(c, err, true);
        return;
    }
    const char *newest =
        c->api_max[0] != '\0' ? c->api_max : cf_json_str(reply->json, "ApiVersion");
    if (choose_version(c->engine, newest, cf_json_str(reply->json, "MinAPIVersion"), &own) <
        0) {
        connecting_part(c, &own, true);
        return;
    }
    copy_fact(facts->version, sizeof facts->version, reply->json, "Version");
    copy_fact(facts->os, sizeof facts->os, reply->json, "Os");
    copy_fact(facts->arch, sizeof facts->arch, reply->json, "Arch");
    if (c->api_max[0] == '\0') /* only now is it known how to ask */
        ask_info(c);
    connecting_part(c, NULL, true);
}

static void
ask_version(struct connecting *c)
{
    struct cf_error err = {0};

    c->pending = 1;
    if (ask(c, "GET", "/version", on_version, &err) < 0) {
        connecting_end(c, &err);
        return;
    }
    if (c->api_max[0] == '\0')
        return;
    if (choose_version(c->engine, c->api_max, NULL, &err) == 0) {
        ask_info(c);
    } else { /* said when version is answered */
        c->has_failed = true;
        c->why = err;
    }
}

/* ---- ping ------------------------------------------------------------------------------- */

static void
on_ping_header(void *user, const char *name, const char *value)
{
    struct connecting *c = user;

    if (strcasecmp(name, "Api-Version") == 0 && api_number(value) != 0)
        snprintf(c->api_max, sizeof c->api_max, "%s", value);
    else if (strcasecmp(name, "Libpod-Api-Version") == 0)
        c->engine->facts.is_podman = true;
    else if (strcasecmp(name, "Builder-Version") == 0)
        snprintf(c->engine->facts.builder_version, sizeof c->engine->facts.builder_version,
                 "%.3s", value);
}

static bool
is_tls_port(const struct cf_engine *engine, const struct cf_engine_reply *reply)
{
    return !engine->endpoint.is_tls && reply != NULL && reply->body != NULL &&
           reply->http_status == 400 &&
           strstr(reply->body, "HTTP request to an HTTPS server") != NULL;
}

static void
on_ping_get(void *user, int status, const struct cf_engine_reply *reply,
            const struct cf_error *err)
{
    struct connecting *c = user;
    struct cf_error own;

    if (status < 0) {
        own = *err;
        if (is_tls_port(c->engine, reply)) {
            cf_error_set(&own, CF_ERROR_ENGINE, 400, "the engine at %s wants TLS",
                         c->engine->endpoint.url);
            cf_error_fix(&own, "set DOCKER_TLS_VERIFY=1, and DOCKER_CERT_PATH to the folder "
                               "with ca.pem, cert.pem, key.pem");
        }
        connecting_end(c, &own);
        return;
    }
    ask_version(c);
}

/* Never connected at all? Then asking once more with GET says nothing new. */
static bool
is_worth_asking_again(const struct cf_engine_reply *reply, const struct cf_error *err)
{
    return reply != NULL || (err->kind == CF_ERROR_ENGINE && err->code == 0);
}

static void
on_ping_head(void *user, int status, const struct cf_engine_reply *reply,
             const struct cf_error *err)
{
    struct connecting *c = user;

    if (c->api_max[0] != '\0' && reply != NULL) {
        ask_version(c);
        return;
    }
    if (status < 0 && !is_worth_asking_again(reply, err)) {
        connecting_end(c, err);
        return;
    }
    struct cf_engine_request request = {.method = "GET", .path = "/_ping"};
    struct cf_error own = {0};
    uint64_t now = cf_clock_ms();
    request.deadline_ms = now < c->until_ms ? c->until_ms - now : 1;
    if (cf_engine_call_with_headers(c->engine, &request, on_ping_header, on_ping_get, c, NULL,
                                    &own) < 0)
        connecting_end(c, &own);
}

int
cf_engine_connect(struct cf_engine *engine, uint64_t deadline_ms, cf_engine_connect_fn *done,
                  void *user, struct cf_error *err)
{
    struct connecting *c = calloc(1, sizeof *c);
    struct cf_engine_request request = {.method = "HEAD", .path = "/_ping", .also_ok = 500};

    if (c == NULL)
        return cf_error_memory(err);
    *c = (struct connecting){.engine = engine, .done = done, .user = user};
    request.deadline_ms = deadline_ms > 0 ? deadline_ms : 15000;
    c->until_ms = cf_clock_ms() + request.deadline_ms;
    engine->facts.api_version[0] = '\0';
    engine->facts.is_podman = false;
    if (cf_engine_call_with_headers(engine, &request, on_ping_header, on_ping_head, c, NULL,
                                    err) < 0) {
        free(c);
        return -1;
    }
    return 0;
}

/* ---- open and close --------------------------------------------------------------------- */

int
cf_engine_open(uv_loop_t *loop, const struct cf_engine_options *options,
               struct cf_engine **ret_engine, struct cf_error *err)
{
    struct cf_engine *engine = calloc(1, sizeof *engine);

    if (engine == NULL)
        return cf_error_memory(err);
    engine->loop = loop;
    engine->log = options->log;
    if (cf_endpoint_find(options->endpoint, options->docker_config_dir, &engine->endpoint,
                         &engine->config_dir, err) < 0 ||
        cf_http_client_open(loop, &engine->http, err) < 0) {
        cf_endpoint_release(&engine->endpoint);
        free(engine->config_dir);
        free(engine);
        return -1;
    }
    engine->facts.endpoint = engine->endpoint.url;
    engine->facts.endpoint_source = engine->endpoint.source;
    engine->facts.is_local = engine->endpoint.is_local;
    engine->facts.is_tls = engine->endpoint.is_tls;
    *ret_engine = engine;
    return 0;
}

void
cf_engine_free_if_closed(struct cf_engine *engine)
{
    if (!engine->is_closing || !engine->http_closed || engine->parts_open > 0)
        return;
    void (*on_closed)(void *) = engine->on_closed;
    void *user = engine->closed_user;
    cf_endpoint_release(&engine->endpoint);
    free(engine->config_dir);
    free(engine);
    if (on_closed != NULL)
        on_closed(user);
}

static void
on_http_closed(void *user)
{
    struct cf_engine *engine = user;
    engine->http_closed = true;
    cf_engine_free_if_closed(engine);
}

void
cf_engine_close(struct cf_engine *engine, void (*on_closed)(void *user), void *user)
{
    engine->is_closing = true;
    engine->on_closed = on_closed;
    engine->closed_user = user;
    cf_engine_helpers_cancel(engine);
    cf_http_client_close(engine->http, on_http_closed, engine);
}

const struct cf_engine_facts *
cf_engine_facts(const struct cf_engine *engine)
{
    return &engine->facts;
}

struct cf_stream_target
cf_engine_target(const struct cf_engine *engine)
{
    const struct cf_endpoint *e = &engine->endpoint;

    return (struct cf_stream_target){.unix_path = e->unix_path,
                                     .host = e->host,
                                     .port = e->port,
                                     .is_tls = e->is_tls,
                                     .tls = &e->tls};
}
