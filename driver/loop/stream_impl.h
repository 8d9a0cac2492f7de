/* loop/stream_impl.h: what the two kinds of stream share; this room's own header. */
#ifndef CF_LOOP_STREAM_IMPL_H
#define CF_LOOP_STREAM_IMPL_H

#include "loop/stream.h"

#define CF_STREAM_BUFFER_BYTES (64u * 1024)

struct cf_stream_kind {
    int (*write)(struct cf_stream *stream, const char *bytes, size_t len,
                 struct cf_error *err);
    void (*shutdown)(struct cf_stream *stream);
    void (*local_address)(const struct cf_stream *stream, char out[64]);
    void (*close)(struct cf_stream *stream);
};

struct cf_stream { /* first member of either kind */
    const struct cf_stream_kind *kind;
    uv_loop_t *loop;
    struct cf_stream_events events;
    void *user;
    bool is_open, has_ended, is_closing, wants_shutdown, is_writing;
    void (*on_closed)(void *user);
    void *closed_user;
};

int cf_stream_uv_open(uv_loop_t *loop, const struct cf_stream_target *target,
                      uint64_t connect_ms, const struct cf_stream_events *events, void *user,
                      struct cf_stream **ret_stream, struct cf_error *err);
int cf_stream_tls_open(uv_loop_t *loop, const struct cf_stream_target *target,
                       uint64_t connect_ms, const struct cf_stream_events *events, void *user,
                       struct cf_stream **ret_stream, struct cf_error *err);

/* Reports the end once, unless closing. May close the stream. */
void cf_stream_end(struct cf_stream *stream, const struct cf_error *err);
/* Reports a write wholly out, unless closing. May close the stream. */
void cf_stream_wrote(struct cf_stream *stream);
/* The numeric address of fd's own end. */
void cf_stream_name_of(int fd, char out[64]);

#endif
