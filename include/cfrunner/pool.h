/*
 * cfrunner/pool.h: many runs of one release, which share what needs no copy each.
 *
 * A pool holds one connection to the engine, one image (resolved, or built, once), a pace at
 * which sandboxes are made and removed so that the engine is busy and not drowned, and, if
 * asked for, sandboxes that were made ahead: each is used for one run, which gets it with a
 * lease of its own and a fresh working directory, so that its first observation comes at the
 * speed of a spawn.
 *
 * Options (a member "pool" of the options document, proto/run-options.schema.json):
 *   "creates"  sandboxes that are made or removed at a time; default twice the engine's cores
 *   "warm"     sandboxes to keep ready; default 0
 *   "ttl_ms"   how long a warm sandbox may wait before it is replaced; default one hour
 *   "seed_after"  after so many sandboxes cf-init is put into an image of the pool's own, once,
 *              and the later ones are made from that, which spares the engine about a fifth of
 *              the work; default 4, 0: never. It carries our labels, and goes with the pool.
 *
 * The rules of cfrunner/run.h hold: the caller's loop and thread, nothing blocks, no callback
 * from inside a call, any call from inside any callback.
 */
#ifndef CFRUNNER_POOL_H
#define CFRUNNER_POOL_H

#include <cfrunner/run.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cf_pool;

struct cf_pool_state {
    uint32_t size;    /* sizeof(struct cf_pool_state) where the library was built */
    uint32_t runs;    /* open */
    uint32_t waiting; /* of these, for their turn to be made or removed */
    uint32_t warm;    /* sandboxes that stand ready */
    uint32_t making;  /* sandboxes that shall become so */
};

struct cf_pool_host {
    uint32_t size; /* sizeof(struct cf_pool_host) where the host was built */
    uint16_t abi_major, abi_minor;
    void *user;

    void (*on_log)(void *user, int level, const char *room, const char *line);
    /* The engine answered and the image is at hand. Once, unless on_failed comes instead. */
    void (*on_ready)(void *user);
    /* The pool cannot serve: its runs fail with this error, later ones too. It is still to be
     * closed. */
    void (*on_failed)(void *user, const struct cf_error *err);
    /* A warm sandbox came to stand, was taken, or was lost. Borrowed until return. */
    void (*on_state)(void *user, const struct cf_pool_state *state);
    /* Once, after the pool and all its runs are closed:
     * {"proven":bool,"removed":[...],"left":[...]} of what the pool itself had made (its
     * image, sandboxes never used). on_closed follows. */
    void (*on_teardown)(void *user, const char *json, size_t len);
    void (*on_closed)(void *user);
};

/* Opens a pool; both documents are copied. Errors as cf_run_open's. The callbacks of `host`
 * may all be NULL. */
CF_API CF_CHECKED int cf_pool_open(struct uv_loop_s *loop, const char *release_json,
                                   size_t release_len, const char *options_json,
                                   size_t options_len, const struct cf_pool_host *host,
                                   struct cf_pool **ret_pool, struct cf_error *err);

/*
 * Opens a run in the pool, at any time: it waits for what is not there yet. options_json NULL:
 * the pool's own; else they may differ in what concerns the run alone (env, files,
 * session_meta, hooks, permission, deadlines no longer than the pool's, ...) and not in what
 * shapes the sandbox (limits, relay_port, the image's and the engine's options). Everything
 * else is as with cf_run_open: the run is closed with cf_run_close, before or after
 * cf_pool_close.
 */
CF_API CF_CHECKED int cf_pool_run_open(struct cf_pool *pool, const char *options_json,
                                       size_t options_len, const struct cf_run_host *host,
                                       struct cf_run **ret_run, struct cf_error *err);

/* What is there now; fills at most state->size bytes, which the caller has set. */
CF_API void cf_pool_state(const struct cf_pool *pool, struct cf_pool_state *state);

/* Takes no run any more, removes what waits, and when the last run is closed lets go of the
 * engine. From anywhere; a second call with a smaller grace shortens it. */
CF_API void cf_pool_close(struct cf_pool *pool, uint64_t grace_ms);

#ifdef __cplusplus
}
#endif
#endif
