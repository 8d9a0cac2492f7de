/*
 * engine/engine.h: the Docker Engine API as this project needs it. Baseline 1.41; the highest
 * version that both sides know is used. One `struct cf_engine` is one endpoint; plain requests
 * go through libcurl's multi interface on the caller's loop, attach is a stream of its own.
 *
 * Every call takes a deadline, keeps status, message and the request that caused an error, and
 * calls its `done` exactly once, from the loop, never from inside the call that began it; or
 * returns <0 with `err` filled and never calls it. After cf_engine_close has called on_closed
 * nothing fires; calls in flight at close end with CF_ERROR_CANCELED first.
 */
#ifndef CF_ENGINE_ENGINE_H
#define CF_ENGINE_ENGINE_H

#include "base/buf.h"
#include "base/error.h"
#include "base/log.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct cf_engine;
struct cf_engine_call;
struct cf_attach;

/* ---- endpoint -------------------------------------------------------------------------- */

struct cf_engine_options {
    const char *endpoint; /* unix://PATH, tcp://HOST:PORT; NULL: DOCKER_HOST, the current
                             docker context, else unix:///var/run/docker.sock. copied */
    const char *docker_config_dir; /* NULL: DOCKER_CONFIG, else $HOME/.docker. copied */
    const struct cf_log *log;      /* borrowed until closed; may be NULL */
};

struct cf_engine_facts {      /* all strings live as long as the engine; filled by connect */
    char api_version[16];     /* in use */
    char api_version_max[16]; /* the engine's newest */
    char version[64];         /* "20.10.24+dfsg1" */
    char os[32], arch[32];    /* "linux", "amd64" */
    char kernel[96], storage_driver[64], cgroup_version[8];
    char api_version_min[16]; /* the engine's oldest, "" when it does not say */
    char id[96];
    bool is_podman, is_rootless, has_swap_limit, has_pids_limit, has_cpu_quota;
    bool may_limit_layers; /* its storage driver knows a container's size; it may refuse all the same */
    bool counts_image;     /* and counts what the image has into it */
    int ncpu;
    uint64_t memory_bytes;
    const char *endpoint;        /* "unix:///var/run/docker.sock" */
    const char *endpoint_source; /* "--engine", "DOCKER_HOST", "context NAME", "default" */
    bool is_local;               /* unix socket or a loopback address */
    bool is_tls;
    char builder_version[4]; /* what its ping recommends: "1" legacy, "2" BuildKit, "" silent */
    char local_address[64]; /* our own address on a tcp endpoint's connection; "" on unix */
};

/* Resolves the endpoint (reads environment and docker context files, no network I/O yet). */
CF_CHECKED int cf_engine_open(uv_loop_t *loop, const struct cf_engine_options *options,
                              struct cf_engine **ret_engine, struct cf_error *err);
void cf_engine_close(struct cf_engine *engine, void (*on_closed)(void *user), void *user);
const struct cf_engine_facts *cf_engine_facts(const struct cf_engine *engine);

typedef void cf_engine_connect_fn(void *user, int status, const struct cf_error *err);
/* Ping, negotiate, /version, /info. Errors tell apart: no socket there, refused, no permission
 * (names the group that owns the socket), too old (names both versions), TLS trouble. */
CF_CHECKED int cf_engine_connect(struct cf_engine *engine, uint64_t deadline_ms,
                                 cf_engine_connect_fn *done, void *user, struct cf_error *err);

/* ---- one request ----------------------------------------------------------------------- */

struct cf_engine_reply {
    int http_status;
    json_t *json;     /* parsed body, or NULL when it is not JSON; borrowed until return */
    const char *body; /* raw bytes (at most 16 MiB kept); borrowed until return */
    size_t body_len;
    const char *header_path_stat; /* X-Docker-Container-Path-Stat, or NULL; borrowed */
};

/* status 0: 2xx or 304 (or a status listed in request.also_ok). <0: `err` filled, kind
 * CF_ERROR_NOT_FOUND for 404, CF_ERROR_ENGINE_TIMEOUT, CF_ERROR_CANCELED, else
 * CF_ERROR_ENGINE; err->code is the HTTP status or 0; `reply` may then be NULL (no answer). */
typedef void cf_engine_done_fn(void *user, int status, const struct cf_engine_reply *reply,
                               const struct cf_error *err);
/* One JSON object of a progress stream (pull, push, build, events); borrowed until return. */
typedef void cf_engine_progress_fn(void *user, json_t *object);
/* Raw body bytes as they come (archive GET, wait's head...); return 0 to go on, <0 to abort.
 */
typedef int cf_engine_bytes_fn(void *user, const char *bytes, size_t len);
/* Gives the next body bytes: returns how many were written to `to` (at most `size`), 0 at the
 * end, CF_ENGINE_SOURCE_WAIT when there are none yet (then cf_engine_call_resume, later), any
 * other negative number to abort. Called on the loop; must not block. */
#define CF_ENGINE_SOURCE_WAIT (-1000000L)
typedef long cf_engine_source_fn(void *user, char *to, size_t size);

struct cf_engine_request {
    const char *method; /* "GET", ... ; copied */
    const char *path;   /* without the version prefix, query included: "/containers/x/json" */
    json_t *json;       /* request body, borrowed until the call returns; or NULL */
    const char *body;   /* raw request body, borrowed until done; or NULL */
    size_t body_len;
    cf_engine_source_fn *source; /* streamed (chunked) body instead; user = source_user */
    void *source_user;
    const char *content_type;    /* for raw bodies; NULL: application/x-tar */
    const char *registry_auth;   /* X-Registry-Auth value or NULL; copied, never logged */
    const char *registry_config; /* X-Registry-Config (build) or NULL; copied, never logged */
    uint64_t deadline_ms;        /* whole call; 0: 60 s */
    size_t buffer_bytes;  /* what is read at once; 0: 64 KiB. Kept for as long as the call lasts */
    uint64_t idle_ms;            /* no byte either way for this long; 0: off */
    cf_engine_progress_fn *on_object; /* body is a stream of JSON objects; errors inside a 200
                                         body (errorDetail, else error) make the call fail */
    cf_engine_bytes_fn *on_bytes;     /* body is raw bytes, not collected */
    void (*on_head)(void *user, int http_status); /* response head seen (wait, events) */
    int also_ok; /* one more HTTP status that counts as success, e.g. 409; or 0 */
};

CF_CHECKED int cf_engine_call(struct cf_engine *engine,
                              const struct cf_engine_request *request, cf_engine_done_fn *done,
                              void *user, struct cf_engine_call **ret_call,
                              struct cf_error *err);
/* Ends a call early: `done` still comes, later, with CF_ERROR_CANCELED. NULL and twice are
 * fine as long as `done` has not come. */
void cf_engine_call_cancel(struct cf_engine_call *call);
/* A source that said CF_ENGINE_SOURCE_WAIT has bytes now; it may be called from inside. */
void cf_engine_call_resume(struct cf_engine_call *call);
/* Adds "?name=value" or "&name=value" to a path, percent-encoded. */
int cf_engine_query(struct cf_buf *path, const char *name, const char *value);

/* ---- named requests (thin covers of cf_engine_call; ret_call may be NULL) --------------- */

int cf_engine_container_create(struct cf_engine *, const char *name, const char *platform,
                               json_t *spec, cf_engine_done_fn *, void *user,
                               struct cf_engine_call **, struct cf_error *);
int cf_engine_container_inspect(struct cf_engine *, const char *id, cf_engine_done_fn *,
                                void *user, struct cf_engine_call **, struct cf_error *);
int cf_engine_container_start(struct cf_engine *, const char *id, cf_engine_done_fn *,
                              void *user, struct cf_engine_call **, struct cf_error *);
/* condition=next-exit; on_head says it is registered; deadline_ms bounds the whole wait. */
int cf_engine_container_wait(struct cf_engine *, const char *id, uint64_t deadline_ms,
                             void (*on_head)(void *user, int http_status), cf_engine_done_fn *,
                             void *user, struct cf_engine_call **, struct cf_error *);
int cf_engine_container_kill(struct cf_engine *, const char *id, cf_engine_done_fn *,
                             void *user, struct cf_engine_call **, struct cf_error *);
/* force=1&v=1; 404 counts as done; 409 is reported for the caller to poll. */
int cf_engine_container_remove(struct cf_engine *, const char *id, cf_engine_done_fn *,
                               void *user, struct cf_engine_call **, struct cf_error *);
/* Lists what carries label `label` ("com.checkfu.runner.run=..."), in every state; the reply
 * is the Engine's own JSON ({"Volumes":[...]} for volumes). kind: "containers" "volumes"
 * "networks" "images". */
int cf_engine_list(struct cf_engine *, const char *kind, const char *label,
                   cf_engine_done_fn *, void *user, struct cf_engine_call **,
                   struct cf_error *);
int cf_engine_archive_put(struct cf_engine *, const char *id, const char *dir,
                          bool no_overwrite_dir, const char *tar,
                          size_t tar_len /* borrowed until done */, cf_engine_done_fn *,
                          void *user, struct cf_engine_call **, struct cf_error *);
int cf_engine_archive_stat(struct cf_engine *, const char *id, const char *path,
                           cf_engine_done_fn *, void *user, struct cf_engine_call **,
                           struct cf_error *);
int cf_engine_archive_get(struct cf_engine *, const char *id, const char *path,
                          cf_engine_bytes_fn *, cf_engine_done_fn *, void *user,
                          struct cf_engine_call **, struct cf_error *);
int cf_engine_volume_create(struct cf_engine *, const char *name, json_t *labels,
                            cf_engine_done_fn *, void *user, struct cf_engine_call **,
                            struct cf_error *);
int cf_engine_volume_remove(struct cf_engine *, const char *name, cf_engine_done_fn *,
                            void *user, struct cf_engine_call **, struct cf_error *);
int cf_engine_network_remove(struct cf_engine *, const char *id, cf_engine_done_fn *,
                             void *user, struct cf_engine_call **, struct cf_error *);
int cf_engine_image_inspect(struct cf_engine *, const char *ref, cf_engine_done_fn *,
                            void *user, struct cf_engine_call **, struct cf_error *);
int cf_engine_image_remove(struct cf_engine *, const char *ref, bool force, bool noprune,
                           cf_engine_done_fn *, void *user, struct cf_engine_call **,
                           struct cf_error *);
/* The container's layer and configuration, its labels with it, as an image without a name:
 * {"Id":"sha256:..."}. */
int cf_engine_container_commit(struct cf_engine *, const char *id, cf_engine_done_fn *,
                               void *user, struct cf_engine_call **, struct cf_error *);
int cf_engine_image_tag(struct cf_engine *, const char *ref, const char *repo, const char *tag,
                        cf_engine_done_fn *, void *user, struct cf_engine_call **,
                        struct cf_error *);
/* `digest` "sha256:..." ; registry_auth may be NULL. Success = 200, stream read to its end, no
 * error inside. idle 60 s, total `deadline_ms`. */
int cf_engine_image_pull(struct cf_engine *, const char *repo, const char *digest,
                         const char *platform, const char *registry_auth, uint64_t deadline_ms,
                         cf_engine_progress_fn *, cf_engine_done_fn *, void *user,
                         struct cf_engine_call **, struct cf_error *);
/* Every image id in the engine, intermediate ones included: reply->json is an array of
 * objects. */
int cf_engine_image_list_all(struct cf_engine *, cf_engine_done_fn *, void *user,
                             struct cf_engine_call **, struct cf_error *);
int cf_engine_image_push(struct cf_engine *, const char *repo, const char *tag,
                         const char *registry_auth, uint64_t deadline_ms,
                         cf_engine_progress_fn *, cf_engine_done_fn *, void *user,
                         struct cf_engine_call **, struct cf_error *);

/*
 * Container events (oom, die, ...) of what carries `label`, as they happen: one object each,
 * read "Action" and "Actor" ("status", "id", "from" are gone in newer engines). on_head:
 * registered. The engine keeps 256 past events in all, so an event is a hint: look at the
 * container's state. Ends with done when the stream does, at the deadline, or by cancel.
 */
int cf_engine_events(struct cf_engine *, const char *label, uint64_t deadline_ms,
                     void (*on_head)(void *user, int http_status),
                     cf_engine_progress_fn *on_event, cf_engine_done_fn *, void *user,
                     struct cf_engine_call **, struct cf_error *);

/* ---- attach: the hijacked stream ------------------------------------------------------- */

enum cf_attach_stream { CF_ATTACH_STDOUT = 1, CF_ATTACH_STDERR = 2 };

struct cf_attach_events {
    void (*on_head)(void *user); /* the engine has switched: start the container now */
    /* Payload of one engine frame or part of one (header peeled by moving a pointer); borrowed
     * until return. The stream is always read: there is no way to pause it. */
    void (*on_data)(void *user, enum cf_attach_stream stream, const char *bytes, size_t len);
    void (*on_written)(void *user); /* the write handed over last is wholly out */
    /* The stream is over: err NULL is a clean end of file; else why. Comes at most once; the
     * attach still has to be closed. */
    void (*on_end)(void *user, const struct cf_error *err);
};

/* Connects and sends the upgrade request; head must come within `deadline_ms`. */
CF_CHECKED int cf_attach_open(struct cf_engine *, const char *container_id,
                              uint64_t deadline_ms, const struct cf_attach_events *events,
                              void *user, struct cf_attach **ret_attach, struct cf_error *err);
/* Hands over bytes for the container's stdin: borrowed until on_written; one write at a time.
 */
CF_CHECKED int cf_attach_write(struct cf_attach *, const char *bytes, size_t len,
                               struct cf_error *err);
/* Half-close (SHUT_WR) after the write in flight. */
void cf_attach_shutdown(struct cf_attach *);
/* From anywhere, once; nothing else fires afterwards but on_closed. */
void cf_attach_close(struct cf_attach *, void (*on_closed)(void *user), void *user);

/* ---- tar and build --------------------------------------------------------------------- */

struct cf_tar; /* a tar made in memory, ends right after its two zero blocks */
struct cf_tar *cf_tar_new(void);
void cf_tar_free(struct cf_tar *);
int cf_tar_dir(struct cf_tar *, const char *path, unsigned mode, unsigned uid, unsigned gid,
               struct cf_error *);
int cf_tar_file(struct cf_tar *, const char *path, unsigned mode, unsigned uid, unsigned gid,
                const void *bytes, size_t len, struct cf_error *);
/* Ends it; bytes are borrowed until cf_tar_free. */
int cf_tar_finish(struct cf_tar *, const char **ret_bytes, size_t *ret_len, struct cf_error *);

struct cf_build_result {
    const char *image_id; /* "sha256:..." of the image built, from the aux object; borrowed */
    char *const *steps;   /* image ids the build stream named (intermediate and final) */
    size_t step_count;
    const char *tail; /* last lines of the build's output (also on failure) */
    /* When the build was cut off: what the engine was at, and may finish all the same. */
    const char *open_step;      /* "COPY . /", or "" when no step was under way */
    const char *open_container; /* id of that step's container, or "" */
    const char *last_image;     /* id named last (the open step's parent), or "" */
};
typedef void cf_build_done_fn(void *user, int status, const struct cf_build_result *result,
                              const struct cf_error *err);
struct cf_build_options {
    const char *context_dir; /* read through libarchive with .dockerignore applied, streamed */
    const char *dockerfile;  /* NULL: Dockerfile */
    const char *tag;         /* "repo:tag" or NULL */
    const char *platform;    /* "linux/amd64" or NULL */
    json_t *labels;          /* borrowed during the call, or NULL */
    const char *registry_config; /* X-Registry-Config value or NULL; copied */
    bool no_cache; /* every image the build makes is then new, and nobody else's */
    uint64_t deadline_ms;
    cf_engine_progress_fn *on_object; /* may be NULL */
};
struct cf_build;
/* Legacy builder, forcerm=1. Errors before any request: context missing, not a folder, empty,
 * no Dockerfile (CF_ERROR_CONFIG). A failed step: CF_ERROR_CONFIG with the step, and
 * result->tail. */
int cf_build_open(struct cf_engine *, const struct cf_build_options *, cf_build_done_fn *,
                  void *user, struct cf_build **ret_build, struct cf_error *);
/* `done` still comes. A step whose image could not be told from other people's (the first COPY
 * onto a base image) is let come to its end first, for at most 5 s: the engine commits it
 * either way, and only the stream says its id. */
void cf_build_cancel(struct cf_build *);

/* ---- credentials ----------------------------------------------------------------------- */

/*
 * X-Registry-Auth for `registry` (host[:port], "docker.io" for the default one) from docker's
 * config.json: auths, credHelpers over credsStore (helpers run through uv_spawn with a 10 s
 * deadline), identity tokens. Calls done once with the header value (borrowed until return) or
 * NULL when there are none; an unreadable config or a failing helper is an error.
 */
typedef void cf_auth_done_fn(void *user, int status, const char *registry_auth,
                             const struct cf_error *err);
int cf_engine_auth_find(struct cf_engine *, const char *registry, cf_auth_done_fn *,
                        void *user, struct cf_error *);
/*
 * X-Registry-Config for a build: the credentials of every registry that a FROM of the
 * context's Dockerfile names, looked up one after the other. Returns 1, and never calls done,
 * when no FROM names a registry. Else 0, and done comes once with the header value (borrowed
 * until return), or NULL when there are no credentials; a lookup that fails is logged and left
 * out, since the image may be public. `context_dir` and `dockerfile` (NULL: Dockerfile) are
 * read during the call.
 */
int cf_engine_auth_bases(struct cf_engine *, const char *context_dir, const char *dockerfile,
                         cf_auth_done_fn *, void *user, struct cf_error *);
/* The header value for a plain user and password; returned: yours. */
char *cf_engine_auth_basic(const char *user, const char *password, const char *registry);

/* ---- references ------------------------------------------------------------------------ */

struct cf_image_ref {
    char domain[256]; /* "ghcr.io", "127.0.0.1:5000", "docker.io" */
    char repo[512];   /* as the engine wants it: "127.0.0.1:5000/acp-harness" */
    char tag[130];    /* "" without */
    char digest[80];  /* "sha256:<64 hex>" or "" */
};
/* Parses name[:tag][@sha256:<64 hex>] by the distribution grammar. */
CF_CHECKED int cf_image_ref_parse(const char *text, struct cf_image_ref *ret_ref,
                                  struct cf_error *err);

#endif
