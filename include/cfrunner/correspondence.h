/*
 * cfrunner/correspondence.h: agent-correspondence/v0.1, signed reports about work on a shared
 * repository.
 *
 * An event is evidence. Parsing, verifying, storing or listing one triggers nothing, locks
 * nothing and grants nothing; there is no function here that acts on an event.
 *
 * Everything is pure: bytes go in, values come out, and time is an argument (milliseconds
 * since 1970, UTC). Nothing here reads a clock, a file or the environment. Nothing is
 * thread-safe beyond "different objects may be used from different threads".
 *
 * Call cf_corr_init() once per process before anything that signs, verifies or stores.
 *
 * A function that judges outside bytes returns 0, or -1 with a `struct cf_corr_refusal`
 * filled: one reason, one place, always the first in the protocol's order of checks. `refusal`
 * may not be NULL. Out of memory is the refusal "out_of_memory".
 */
#ifndef CFRUNNER_CORRESPONDENCE_H
#define CFRUNNER_CORRESPONDENCE_H

#include <cfrunner/error.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CF_CORR_PROTOCOL "agent-correspondence/v0.1"
#define CF_CORR_EVENT_BYTES_MAX 65536u /* raw, and canonical signed envelope */
#define CF_CORR_DEPTH_MAX 64u
#define CF_CORR_BATCH_ITEMS 32u /* pending claims resolved by one reconciliation batch */

enum {
    CF_CORR_ID_SIZE = 72,   /* "sha256:" + 64 hex + NUL */
    CF_CORR_UUID_SIZE = 37, /* 36 characters + NUL */
    CF_CORR_TIME_SIZE = 25, /* "2026-07-19T10:00:00.000Z" + NUL */
    CF_CORR_B64_KEY_SIZE = 44,
};

/* Why something was not admitted. */
struct cf_corr_refusal {
    const char *reason; /* a name of the protocol's list ("duplicate_path"); static storage */
    char pointer[1024]; /* JSON Pointer to the place, "" for the whole document. A member name
                           too long to fit is left out: the pointer then names its object. */
    int64_t offset;     /* byte offset, when the text itself was refused; else -1 */
};

/* Fills `err` (CF_ERROR_CONFIG, _TOO_LARGE or _MEMORY) with the refusal in one line. Returns
 * -1. */
CF_API int cf_corr_refusal_error(const struct cf_corr_refusal *refusal, struct cf_error *err);

/* libsodium's one-time start; may be called again. -1: this machine gives no randomness. */
CF_CHECKED CF_API int cf_corr_init(void);

/* ---- strict JSON and its canonical form (RFC 8785, integers within +-(2^53-1) only) ---- */

/*
 * Canonical bytes of one JSON text of at most `limit` bytes (0: 65,536; at most 1 GiB). The
 * result is returned: yours (free), NUL-terminated behind *ret_len, never longer than the
 * input.
 */
CF_CHECKED CF_API int cf_corr_canonicalize(const char *bytes, size_t len, size_t limit,
                                           char **ret_bytes, size_t *ret_len,
                                           struct cf_corr_refusal *refusal);

struct cf_corr_value; /* one parsed JSON text, immutable */

/* As above, kept as a tree: returned, yours (cf_corr_value_free). `bytes` is copied. */
CF_CHECKED CF_API int cf_corr_value_parse(const char *bytes, size_t len, size_t limit,
                                          struct cf_corr_value **ret_value,
                                          struct cf_corr_refusal *refusal);
CF_API void cf_corr_value_free(struct cf_corr_value *value);

/* The most bytes its canonical form can take (room for a NUL included), and the form itself
 * written to `out`, which must have that room. Returns its length. Cannot fail. */
CF_API size_t cf_corr_value_room(const struct cf_corr_value *value);
CF_API size_t cf_corr_value_canonical(const struct cf_corr_value *value, char *out);

/* ---- words: each returns NULL when admitted, else the reason (static storage) ---- */

CF_API const char *cf_corr_check_opaque_id(const char *text, size_t len);
CF_API const char *cf_corr_check_path(const char *text, size_t len);
CF_API const char *cf_corr_check_locator(const char *text, size_t len);
CF_API const char *cf_corr_check_uuid(const char *text, size_t len);
CF_API const char *cf_corr_check_revision(const char *text, size_t len);
CF_API const char *cf_corr_check_event_id(const char *text, size_t len);

/* "YYYY-MM-DDTHH:MM:SS.mmmZ" to milliseconds since 1970 (negative before) and back. Formatting
 * clamps to the years 0001 to 9999. */
CF_API const char *cf_corr_time_parse(const char *text, size_t len, int64_t *ret_ms);
CF_API void cf_corr_time_format(int64_t ms, char out[CF_CORR_TIME_SIZE]);

/* Whether two admitted path prefixes name a common place: equal, one below the other, or ".".
 */
CF_API bool cf_corr_paths_overlap(const char *a, const char *b);

/* 32 bytes as 43 characters of base64url, and back (canonical spelling only; -1 otherwise). */
CF_API void cf_corr_key_encode(const unsigned char key[32], char out[CF_CORR_B64_KEY_SIZE]);
CF_CHECKED CF_API int cf_corr_key_decode(const char *text, size_t len,
                                         unsigned char ret_key[32]);

/* A random (version 4) UUID. */
CF_API void cf_corr_uuid_make(char out[CF_CORR_UUID_SIZE]);

/* ---- events ---- */

struct cf_corr_event; /* one admitted event or draft core, immutable */

enum cf_corr_form {
    CF_CORR_FULL, /* all 14 members */
    CF_CORR_CORE, /* a draft: without event_id and signature, supplying either is refused */
};

/* Stages 1 to 5 and 7: size, strict text, envelope, body, references, canonical size.
 * `bytes` is copied. The event is returned: yours (cf_corr_event_free). */
CF_CHECKED CF_API int cf_corr_event_parse(const char *bytes, size_t len,
                                          enum cf_corr_form form,
                                          struct cf_corr_event **ret_event,
                                          struct cf_corr_refusal *refusal);
CF_API void cf_corr_event_free(struct cf_corr_event *event);

/* Read-only views, all borrowed until cf_corr_event_free. `id` is computed from the content
 * ("" for a core); what the sender claimed is `claimed_id`. Members that the kind or form does
 * not have are NULL, 0 or -1. */
struct cf_corr_event_view {
    const char *id, *claimed_id;
    const char *kind, *project_id, *repository_id, *thread_id;
    const char *identity_id, *signing_key_id, *device_id, *session_id;
    const char *claim_id, *predecessor_event_id; /* claim kinds; open has no predecessor */
    const char *summary;
    uint64_t session_seq, generation;
    int64_t issued_at_ms;
    int64_t expires_at_ms; /* INT64_MIN when the kind has none */
    size_t parent_count, path_count;
};
CF_API void cf_corr_event_view(const struct cf_corr_event *event,
                               struct cf_corr_event_view *ret_view);
CF_API const char *cf_corr_event_parent(const struct cf_corr_event *event, size_t index);
CF_API const char *cf_corr_event_path(const struct cf_corr_event *event, size_t index);

/* The canonical signed envelope (without event_id; a core: the core): what the event id is the
 * hash of. Borrowed until free, NUL-terminated. */
CF_API const char *cf_corr_event_canonical(const struct cf_corr_event *event, size_t *ret_len);

/* The whole event in canonical form, returned: yours (free); NULL out of memory. */
CF_API char *cf_corr_event_text(const struct cf_corr_event *event, size_t *ret_len);

/* The 32 bytes that are signed. */
CF_API void cf_corr_event_digest(const struct cf_corr_event *event,
                                 unsigned char ret_digest[32]);

/* Stage 8: the claimed id is the computed one. */
CF_CHECKED CF_API int cf_corr_event_check_id(const struct cf_corr_event *event,
                                             struct cf_corr_refusal *refusal);

/* ---- keys ---- */

struct cf_corr_key {
    char identity_id[CF_CORR_UUID_SIZE], signing_key_id[CF_CORR_UUID_SIZE];
    unsigned char public_key[32];
    bool is_active;
};

struct cf_corr_keyring; /* the keys a reader already holds; never filled from an event */

CF_API struct cf_corr_keyring *cf_corr_keyring_new(void); /* NULL: out of memory */
CF_API void cf_corr_keyring_free(struct cf_corr_keyring *keyring);

/* Adds a key, or replaces the one with the same signing_key_id. `key` is copied. -1: memory.
 */
CF_CHECKED CF_API int cf_corr_keyring_put(struct cf_corr_keyring *keyring,
                                          const struct cf_corr_key *key);
CF_API const struct cf_corr_key *cf_corr_keyring_find(const struct cf_corr_keyring *keyring,
                                                      const char *signing_key_id);
CF_API size_t cf_corr_keyring_count(const struct cf_corr_keyring *keyring);
CF_API const struct cf_corr_key *cf_corr_keyring_at(const struct cf_corr_keyring *keyring,
                                                    size_t index);

/* Adds every key of a JSON array of {identity_id, signing_key_id, public_key_b64url, active};
 * closed objects, at most 1 MiB. On refusal the keyring may hold some of them. */
CF_CHECKED CF_API int cf_corr_keyring_read(struct cf_corr_keyring *keyring, const char *bytes,
                                           size_t len, struct cf_corr_refusal *refusal);

/* The public key of a 32-byte seed. */
CF_API void cf_corr_public_key(const unsigned char seed[32], unsigned char ret_public_key[32]);

/* True for the published test seed 00 01 .. 1f, which proves nothing about anybody. */
CF_API bool cf_corr_is_test_seed(const unsigned char seed[32]);

/* Stages 6 (when project_id is not NULL), 8, 10 and 11, for one who keeps no store. */
CF_CHECKED CF_API int cf_corr_event_verify(const struct cf_corr_event *event,
                                           const char *project_id,
                                           const struct cf_corr_keyring *keyring,
                                           struct cf_corr_refusal *refusal);

/* Stages 8 and 11 against one given key, whoever it belongs to. */
CF_CHECKED CF_API int cf_corr_event_verify_key(const struct cf_corr_event *event,
                                               const unsigned char public_key[32],
                                               struct cf_corr_refusal *refusal);

/* Stages 10 and 11 alone: the store checks retries (9) before keys. */
CF_CHECKED CF_API int cf_corr_event_verify_signature(const struct cf_corr_event *event,
                                                     const struct cf_corr_keyring *keyring,
                                                     struct cf_corr_refusal *refusal);

/* Signs a core; the full event is returned: yours. Refused when it would be too large to post.
 */
CF_CHECKED CF_API int cf_corr_event_sign(const struct cf_corr_event *core,
                                         const unsigned char seed[32],
                                         struct cf_corr_event **ret_event,
                                         struct cf_corr_refusal *refusal);

/*
 * An identity file: a JSON object {identity_id, signing_key_id, device_id, seed_b64url,
 * public_key_b64url}. All but the seed may be left out (then ""); a public key must be the
 * seed's.
 */
struct cf_corr_identity {
    unsigned char seed[32];
    char identity_id[CF_CORR_UUID_SIZE], signing_key_id[CF_CORR_UUID_SIZE];
    char device_id[CF_CORR_UUID_SIZE];
};
CF_CHECKED CF_API int cf_corr_identity_read(const char *bytes, size_t len,
                                            struct cf_corr_identity *ret_identity,
                                            struct cf_corr_refusal *refusal);
/* A new identity with random ids and key, and the file's text: returned, yours (wipe and
 * free); NULL out of memory. */
CF_API void cf_corr_identity_make(struct cf_corr_identity *ret_identity);
CF_CHECKED CF_API char *cf_corr_identity_text(const struct cf_corr_identity *identity,
                                              size_t *ret_len);

/* ---- drafting: an author who signs a series of events in one session ---- */

struct cf_corr_author {
    unsigned char seed[32];
    char project_id[CF_CORR_UUID_SIZE], identity_id[CF_CORR_UUID_SIZE];
    char signing_key_id[CF_CORR_UUID_SIZE], device_id[CF_CORR_UUID_SIZE];
    char session_id[CF_CORR_UUID_SIZE];
    uint64_t session_seq; /* of the last event signed; 0 before the first */
    const char *repository_id, *thread_id;
    const char *base_revision, *branch; /* NULL: null */
    const char *const *paths;           /* borrowed while the author is used */
    size_t path_count;
};

/* An author of a new session of `identity`, which must name all three ids. The strings and
 * paths that follow are yours to set (repository_id, thread_id, paths, ...). */
CF_CHECKED CF_API int cf_corr_author_init(struct cf_corr_author *author,
                                          const struct cf_corr_identity *identity,
                                          const char *project_id,
                                          struct cf_corr_refusal *refusal);

/*
 * Signs one event of `kind` with `body_json` (a JSON object) and up to 16 parents, all cited
 * ids among them. On success author->session_seq has grown by one and the event is returned:
 * yours.
 */
CF_CHECKED CF_API int cf_corr_author_sign(struct cf_corr_author *author, const char *kind,
                                          const char *body_json, const char *const *parents,
                                          size_t parent_count, int64_t now_ms,
                                          struct cf_corr_event **ret_event,
                                          struct cf_corr_refusal *refusal);

/* One advisory claim from open to release; each call signs one event that cites the last claim
 * event. Zero it with cf_corr_claim_init. */
struct cf_corr_claim {
    struct cf_corr_author *author; /* borrowed */
    char claim_id[CF_CORR_UUID_SIZE];
    char
        last_event_id[CF_CORR_ID_SIZE]; /* of the newest open or renew or release; "" before */
    uint64_t generation;                /* 0 before the open */
};
CF_API void cf_corr_claim_init(struct cf_corr_claim *claim, struct cf_corr_author *author);
CF_CHECKED CF_API int cf_corr_claim_open(struct cf_corr_claim *claim, int64_t now_ms,
                                         int64_t expires_at_ms,
                                         struct cf_corr_event **ret_event,
                                         struct cf_corr_refusal *refusal);
CF_CHECKED CF_API int cf_corr_claim_renew(struct cf_corr_claim *claim, int64_t now_ms,
                                          int64_t expires_at_ms,
                                          struct cf_corr_event **ret_event,
                                          struct cf_corr_refusal *refusal);
CF_CHECKED CF_API int cf_corr_claim_release(struct cf_corr_claim *claim, int64_t now_ms,
                                            const char *detail,
                                            struct cf_corr_event **ret_event,
                                            struct cf_corr_refusal *refusal);

/* What else a run says. Texts are cut to their bound at a character; NULL leaves an optional
 * one out. Each cites the claim's last event as its parent when there is one. Never put
 * secrets or prompt text into them. */
CF_CHECKED CF_API int cf_corr_claim_progress(struct cf_corr_claim *claim, int64_t now_ms,
                                             const char *summary,
                                             struct cf_corr_event **ret_event,
                                             struct cf_corr_refusal *refusal);
CF_CHECKED CF_API int cf_corr_claim_offer(struct cf_corr_claim *claim, int64_t now_ms,
                                          const unsigned char sha256[32], const char *locator,
                                          const char *summary,
                                          struct cf_corr_event **ret_event,
                                          struct cf_corr_refusal *refusal);
CF_CHECKED CF_API int cf_corr_claim_close(struct cf_corr_claim *claim, int64_t now_ms,
                                          const char *summary,
                                          struct cf_corr_event **ret_event,
                                          struct cf_corr_refusal *refusal);

/* ---- the store: arrival order, lineage of claims, projections ---- */

enum cf_corr_lineage {
    CF_CORR_NOT_APPLICABLE = 0,
    CF_CORR_PENDING = 1,
    CF_CORR_VALID = 2,
    CF_CORR_INVALID = 3,
};
CF_API const char *cf_corr_lineage_name(enum cf_corr_lineage lineage); /* static storage */

struct cf_corr_store;

/* The full event text kept under `where`, borrowed until the next fetch; NULL: cannot be read.
 */
typedef const char *cf_corr_fetch_fn(void *user, uint64_t where, size_t *ret_len);

/*
 * An empty store of one project. With `fetch` NULL the store keeps the events' text itself;
 * otherwise it keeps an index only (about 150 bytes an event) and asks for the text when it
 * shows one. `fetch` must not call the store. NULL: out of memory or not a UUID.
 */
CF_API struct cf_corr_store *cf_corr_store_new(const char *project_id, cf_corr_fetch_fn *fetch,
                                               void *user);
CF_API void cf_corr_store_free(struct cf_corr_store *store);

struct cf_corr_receipt {
    uint64_t received_seq;
    int64_t received_at_ms;
    bool created; /* false: an exact retry, the receipt is the original one */
};

/* The original receipt of a stored event; false when it is not stored. */
CF_API bool cf_corr_store_find(const struct cf_corr_store *store, const char *event_id,
                               struct cf_corr_receipt *ret_receipt);

/*
 * Stages 6, 8, 9 and 12. The event gets the next received_seq (1, 2, ...) and `now_ms` as its
 * received_at; lineage is updated and one batch runs. A retry stores nothing and runs a batch
 * only while one is due. `where` is handed to `fetch` later (ignored without one). Signatures
 * are the caller's business: verify first. The event stays yours.
 */
CF_CHECKED CF_API int cf_corr_store_append(struct cf_corr_store *store,
                                           const struct cf_corr_event *event, int64_t now_ms,
                                           uint64_t where, struct cf_corr_receipt *ret_receipt,
                                           struct cf_corr_refusal *refusal);

CF_API uint64_t cf_corr_store_last_seq(const struct cf_corr_store *store); /* 0: empty */

/* Whether claims still wait for a batch, and one batch of at most 32 of them. A read of claims
 * or voice is preceded by one while this is true. Returns whether anything was resolved. */
CF_API bool cf_corr_store_is_incomplete(const struct cf_corr_store *store);
CF_API bool cf_corr_store_reconcile(struct cf_corr_store *store, int64_t now_ms);

struct cf_corr_state {
    char event_id[CF_CORR_ID_SIZE];
    enum cf_corr_lineage lineage;
    bool is_tip, is_active, is_conflicted;
};
/* State of the event with this received_seq at `now_ms`; false when there is none. */
CF_API bool cf_corr_store_state(const struct cf_corr_store *store, uint64_t received_seq,
                                int64_t now_ms, struct cf_corr_state *ret_state);

struct cf_corr_query {
    const char *repository_id; /* NULL: every repository of the project */
    const char *thread_id;     /* NULL: any */
    const char *path;          /* NULL: any; claims only */
};

/*
 * JSON documents, returned: yours (free), NUL-terminated. All are bounded (512 candidates, 128
 * rows, 50 recent events, 200 records a page) and say so when something was left out. NULL
 * with `err` filled: memory, or an event's text could not be read.
 */
CF_CHECKED CF_API char *cf_corr_store_claims(const struct cf_corr_store *store,
                                             const struct cf_corr_query *query, int64_t now_ms,
                                             size_t *ret_len, struct cf_error *err);
CF_CHECKED CF_API char *cf_corr_store_voice(const struct cf_corr_store *store,
                                            const struct cf_corr_query *query, int64_t now_ms,
                                            size_t *ret_len, struct cf_error *err);
/* Records with received_seq above *after (NULL: from the start), at most `limit` (1-200). */
CF_CHECKED CF_API char *cf_corr_store_page(const struct cf_corr_store *store,
                                           const uint64_t *after, unsigned limit,
                                           size_t *ret_len, struct cf_error *err);
/* {"created", "event", "receipt", "missing_parents", "lineage_status", "warnings"} of one
 * event: what an append answers. */
CF_CHECKED CF_API char *cf_corr_store_answer(const struct cf_corr_store *store,
                                             const struct cf_corr_receipt *receipt,
                                             size_t *ret_len, struct cf_error *err);

/* A live claim of somebody else's that overlaps some paths. Borrowed until the callback
 * returns. */
struct cf_corr_overlap {
    const char *event_id, *claim_id, *identity_id, *thread_id;
    const char *path; /* the broader of the two prefixes that meet */
    int64_t expires_at_ms;
};
/* Calls `fn` for each claim in the repository that is active at `now_ms`, is not
 * `except_claim_id` (may be NULL) and overlaps one of `paths`; at most 128, soonest to expire
 * first. Returns how many. Advisory: nothing may be refused because of it. */
CF_API size_t cf_corr_store_overlaps(
    const struct cf_corr_store *store, const char *repository_id, const char *const *paths,
    size_t path_count, const char *except_claim_id, int64_t now_ms,
    void (*fn)(void *user, const struct cf_corr_overlap *overlap), void *user);

#ifdef __cplusplus
}
#endif
#endif
