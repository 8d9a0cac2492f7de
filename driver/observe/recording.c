/*
 * observe/recording.c: the format of a recording, written and read. What is read is hostile: every
 * length is bounded before it is believed, and no byte is handed out before its checksum held.
 */
#include "observe/recording.h"

#include "base/str.h"

#include <string.h>

static const char magic[8] = {'\x89', 'C', 'F', 'R', '\r', '\n', '\x1a', '\n'};

enum { FLAG_MORE = 1 };

uint32_t
cf_crc32(uint32_t crc, const void *bytes, size_t len)
{
    static const uint32_t of_half_byte[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
        0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    const uint8_t *at = bytes;

    crc = ~crc;
    for (size_t i = 0; i < len; i++) {
        crc = of_half_byte[(crc ^ at[i]) & 15] ^ crc >> 4;
        crc = of_half_byte[(crc ^ at[i] >> 4) & 15] ^ crc >> 4;
    }
    return ~crc;
}

static void
put_number(char *to, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        to[i] = (char)(value >> (8 * i) & 0xff);
}

static uint64_t
get_number(const char *from, unsigned bytes)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < bytes; i++)
        value |= (uint64_t)(uint8_t)from[i] << (8 * i);
    return value;
}

const char *
cf_record_kind_name(unsigned kind)
{
    static const char *const names[] = {NULL,    "start", "output", "input", "call", "phase",  "model",   "finding",
                                        "spawn", "end",   "exit",   "turn",  "result", "verdict", "masked", "farewell"};

    return kind < CF_COUNT(names) ? names[kind] : NULL;
}

const char *
cf_recorded_call_name(unsigned which)
{
    static const char *const names[] = {NULL, "ready", "declare", "turn_begin", "update", "permission", "text", "object",
                                        "file_changed", "hook", "steering", "requires_action", "flush", "finished",
                                        "failed", "steer_sent", "drain_sent", "drain_answered", "turn_end"};

    return which < CF_COUNT(names) ? names[which] : NULL;
}

/* ---- writing ---------------------------------------------------------------------------------- */

void
cf_record_call_head(char out[CF_RECORD_CALL_BYTES], enum cf_recorded_call which, uint64_t frame)
{
    out[0] = (char)which;
    out[1] = 0;
    put_number(out + 2, frame, 8);
}

void
cf_recording_head(struct cf_buf *buf)
{
    char head[CF_RECORDING_HEADER_BYTES];

    memcpy(head, magic, sizeof magic);
    put_number(head + 8, CF_RECORDING_MAJOR, 2);
    put_number(head + 10, CF_RECORDING_MINOR, 2);
    put_number(head + 12, cf_crc32(0, head, 12), 4);
    (void)cf_buf_add(buf, head, sizeof head);
}

static void
put_piece(struct cf_buf *buf, unsigned kind, unsigned flags, uint64_t at_ms, const void *bytes, size_t len)
{
    char head[CF_RECORDING_FRAME_BYTES];
    uint32_t crc;

    put_number(head, len, 4);
    head[8] = (char)kind;
    head[9] = (char)flags;
    put_number(head + 10, 0, 2);
    put_number(head + 12, at_ms, 8);
    crc = cf_crc32(cf_crc32(0, head, 4), head + 8, sizeof head - 8);
    put_number(head + 4, cf_crc32(crc, bytes, len), 4);
    (void)cf_buf_add(buf, head, sizeof head);
    if (len > 0)
        (void)cf_buf_add(buf, bytes, len);
}

void
cf_recording_put(struct cf_buf *buf, unsigned kind, uint64_t at_ms, const void *bytes, size_t len)
{
    const char *at = bytes;

    while (len > CF_RECORDING_PIECE_BYTES) {
        put_piece(buf, kind, FLAG_MORE, at_ms, at, CF_RECORDING_PIECE_BYTES);
        at += CF_RECORDING_PIECE_BYTES;
        len -= CF_RECORDING_PIECE_BYTES;
    }
    put_piece(buf, kind, 0, at_ms, at, len);
}

/* ---- reading ---------------------------------------------------------------------------------- */

int
cf_record_call_read(const struct cf_record *record, struct cf_record_call *ret)
{
    if (record->len < CF_RECORD_CALL_BYTES)
        return -1;
    ret->which = (uint8_t)record->bytes[0];
    ret->frame = get_number(record->bytes + 2, 8);
    ret->bytes = record->bytes + CF_RECORD_CALL_BYTES;
    ret->len = record->len - CF_RECORD_CALL_BYTES;
    return 0;
}

void
cf_recording_reader_release(struct cf_recording_reader *reader)
{
    cf_buf_release(&reader->held);
    cf_buf_release(&reader->joined);
    memset(reader, 0, sizeof *reader);
}

uint64_t
cf_recording_torn_bytes(const struct cf_recording_reader *reader)
{
    return reader->offset + reader->held.len - reader->whole_bytes;
}

static int
read_header(struct cf_recording_reader *reader, const char *at, struct cf_error *err)
{
    if (memcmp(at, magic, sizeof magic) != 0) {
        (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "no recording: its first bytes are others");
        return cf_error_fix(err, "give a file that `cfrunner run --record` wrote");
    }
    if (get_number(at + 12, 4) != cf_crc32(0, at, 12))
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "the header of the recording was changed");
    reader->major = (unsigned)get_number(at + 8, 2);
    reader->minor = (unsigned)get_number(at + 10, 2);
    if (reader->major != CF_RECORDING_MAJOR) {
        (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "a recording of version %u.%u; this program reads %u.x", reader->major,
                           reader->minor, CF_RECORDING_MAJOR);
        return cf_error_fix(err, "read it with the cfrunner that wrote it");
    }
    reader->has_header = true;
    return 0;
}

static int
changed(const struct cf_recording_reader *reader, size_t used, const char *what, struct cf_error *err)
{
    (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "record %llu, at byte %llu, was changed or damaged: %s",
                       (unsigned long long)reader->records + 1, (unsigned long long)(reader->offset + used), what);
    return cf_error_fix(err, "what stands before it can be trusted, the rest cannot");
}

/* One whole, proven piece: handed on, alone or with those before it. */
static int
take_piece(struct cf_recording_reader *reader, size_t used, const char *at, size_t len, cf_record_fn *on_record, void *user,
           struct cf_error *err)
{
    struct cf_record record = {(uint8_t)at[8], get_number(at + 12, 8), at + CF_RECORDING_FRAME_BYTES, len};
    bool is_joined = reader->joined_kind != 0, has_more = ((uint8_t)at[9] & FLAG_MORE) != 0;

    if (is_joined && reader->joined_kind != record.kind)
        return changed(reader, used, "it does not carry on what the one before began", err);
    if (is_joined || has_more) {
        if (reader->joined.len + len > CF_RECORDING_JOINED_BYTES)
            return changed(reader, used, "its pieces are over 128 MiB together", err);
        if (cf_buf_add(&reader->joined, record.bytes, len) < 0)
            return cf_error_memory(err);
        reader->joined_kind = record.kind;
        record.bytes = reader->joined.data != NULL ? reader->joined.data : "";
        record.len = reader->joined.len;
    }
    if (has_more)
        return 0;
    reader->joined_kind = 0;
    reader->records++;
    reader->whole_bytes = reader->offset + used + CF_RECORDING_FRAME_BYTES + len;
    if (on_record != NULL && on_record(user, &record, err) < 0)
        return -1;
    cf_buf_reset(&reader->joined);
    return 0;
}

/* Bytes used of those given: 0, more are needed; -1, `err`. */
static int64_t
read_piece(struct cf_recording_reader *reader, size_t used, const char *at, size_t len, cf_record_fn *on_record, void *user,
           struct cf_error *err)
{
    uint64_t payload;
    uint32_t crc;

    if (len < CF_RECORDING_FRAME_BYTES)
        return 0;
    payload = get_number(at, 4);
    if (payload > CF_RECORDING_PIECE_BYTES)
        return changed(reader, used, "its length is over 1 MiB", err);
    if (len - CF_RECORDING_FRAME_BYTES < payload)
        return 0;
    crc = cf_crc32(cf_crc32(0, at, 4), at + 8, CF_RECORDING_FRAME_BYTES - 8 + payload);
    if (crc != get_number(at + 4, 4))
        return changed(reader, used, "its checksum does not hold", err);
    if (take_piece(reader, used, at, payload, on_record, user, err) < 0)
        return -1;
    return (int64_t)(CF_RECORDING_FRAME_BYTES + payload);
}

/* Reads what is whole of `held`; drops it. */
static int
read_held(struct cf_recording_reader *reader, cf_record_fn *on_record, void *user, struct cf_error *err)
{
    size_t used = 0;
    int64_t step = 1;

    if (!reader->has_header && reader->held.len >= CF_RECORDING_HEADER_BYTES) {
        if (read_header(reader, reader->held.data, err) < 0)
            return -1;
        reader->whole_bytes = used = CF_RECORDING_HEADER_BYTES;
    }
    while (reader->has_header && step > 0) {
        step = read_piece(reader, used, reader->held.data + used, reader->held.len - used, on_record, user, err);
        if (step < 0)
            return -1;
        used += (size_t)step;
    }
    cf_buf_drop(&reader->held, used);
    reader->offset += used;
    return 0;
}

int
cf_recording_feed(struct cf_recording_reader *reader, const char *bytes, size_t len, cf_record_fn *on_record, void *user,
                  struct cf_error *err)
{
    int status = 0;

    if (reader->is_broken)
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "the recording could not be read further");
    while (len > 0 && status == 0) {
        size_t part = len < 262144 ? len : 262144;
        if (cf_buf_add(&reader->held, bytes, part) < 0)
            status = cf_error_memory(err);
        else
            status = read_held(reader, on_record, user, err);
        bytes += part;
        len -= part;
    }
    reader->is_broken = status < 0;
    return status;
}
