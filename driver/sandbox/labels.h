/*
 * sandbox/labels.h: what is written on every container, volume, network and image that a run
 * makes, and reading it back. Labels are written once (an engine cannot change them later), so
 * they carry only what is known before the thing is made.
 */
#ifndef CF_SANDBOX_LABELS_H
#define CF_SANDBOX_LABELS_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define CF_LABEL "com.checkfu.runner"
#define CF_LABEL_SCHEMA "1"

/* Where a process lives and which one it is: four facts that together name it for good. */
struct cf_process_identity {
    char boot[40];  /* /proc/sys/kernel/random/boot_id */
    uint64_t pidns; /* inode of its pid namespace */
    uint64_t pid;
    uint64_t start_ticks; /* field 22 of /proc/PID/stat */
};

/* This process, from /proc. */
CF_CHECKED int cf_process_identity_self(struct cf_process_identity *ret, struct cf_error *err);

/* "boot:pidns:pid:start", and back; read is strict: nothing before, between or behind. */
void cf_process_identity_write(const struct cf_process_identity *identity, char out[120]);
bool cf_process_identity_read(const char *text, struct cf_process_identity *ret);

/* True when a process with this pid and this start time is alive here. Only meaningful when
 * boot and pidns are ours. */
bool cf_process_is_alive(uint64_t pid, uint64_t start_ticks);

struct cf_labels {
    char owner[64];    /* "own_<32 hex>" */
    char run[64];      /* "run_<32 hex>" */
    char sandbox[128]; /* the container's name; "" on what belongs to the run alone */
    struct cf_process_identity process;
    int64_t created, deadline; /* unix seconds */
};

/* The label object; new reference, NULL when out of memory. */
json_t *cf_labels_write(const struct cf_labels *labels);

/*
 * Reads a label object as an engine's list gives it (other labels beside ours are fine). False
 * unless the marker and all seven of ours are there, of our schema, and each is exactly of its
 * form: what is not fully understood is not ours to touch.
 */
bool cf_labels_read(const json_t *object, struct cf_labels *ret);

/* "2026-01-02T03:04:05Z", exactly, to unix seconds. */
bool cf_labels_read_time(const char *text, int64_t *ret_unix);

/* "own_"/"run_" and 32 lower-case hex digits. */
bool cf_labels_is_id(const char *text, const char *prefix);

#endif
