/* Reading what a correspond command is given, and printing its one answer. */
#include "cli/correspond_cmd.h"

#include "json/json.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define KEYRING_BYTES_MAX (1u << 20)

int
cf_correspond_print(const char *text, size_t len, bool with_newline, int code)
{
    if (fwrite(text, 1, len, stdout) == len && (!with_newline || fputc('\n', stdout) != EOF) &&
        fflush(stdout) == 0)
        return code;
    fprintf(stderr, "cfrunner: the answer could not be written: %s\n", strerror(errno));
    return 4;
}

static int
print_buf(struct cf_buf *text, int code)
{
    if (text->failed) {
        fprintf(stderr, "cfrunner: out of memory\n");
        code = 4;
    } else {
        code = cf_correspond_print(text->data, text->len, true, code);
    }
    cf_buf_release(text);
    return code;
}

void
cf_correspond_put_string(struct cf_buf *to, const char *text)
{
    if (cf_json_append_string(to, text, strlen(text)) < 0)
        to->failed = true;
}

int
cf_correspond_refused(const struct cf_corr_refusal *refusal, long line)
{
    struct cf_buf out;

    cf_buf_init(&out, 0);
    cf_buf_addf(&out, "{\"valid\":false,\"reason\":\"%s\",\"pointer\":", refusal->reason);
    if (refusal->offset >= 0)
        cf_buf_addf(&out, "null,\"offset\":%" PRId64, refusal->offset);
    else {
        cf_correspond_put_string(&out, refusal->pointer);
        cf_buf_adds(&out, ",\"offset\":null");
    }
    if (line > 0)
        cf_buf_addf(&out, ",\"line\":%ld", line);
    cf_buf_adds(&out, "}");
    return print_buf(&out, strcmp(refusal->reason, "out_of_memory") == 0 ? 4 : 2);
}

static bool
is_callers_fault(enum cf_error_kind kind)
{
    return kind == CF_ERROR_CONFIG || kind == CF_ERROR_TOO_LARGE;
}

int
cf_correspond_failed(const struct cf_error *err)
{
    struct cf_buf out;

    fprintf(stderr, "cfrunner: %s\n", err->text);
    if (err->fix[0] != '\0')
        fprintf(stderr, "  fix: %s\n", err->fix);
    cf_buf_init(&out, 0);
    cf_buf_addf(&out, "{\"status\":\"error\",\"error\":{\"type\":\"%s\",\"message\":",
                cf_error_type(err->kind));
    cf_correspond_put_string(&out, err->text);
    cf_buf_adds(&out, ",\"fix\":");
    cf_correspond_put_string(&out, err->fix);
    cf_buf_adds(&out, "}}");
    return print_buf(&out, is_callers_fault(err->kind) ? 2 : 4);
}

int
cf_correspond_usage(const char *usage, const char *message)
{
    struct cf_error err = {0};

    fprintf(stderr, "usage: %s\n", usage);
    cf_error_set(&err, CF_ERROR_CONFIG, 0, "%s", message);
    cf_error_fix(&err, "--help tells what it takes");
    return cf_correspond_failed(&err);
}

int
cf_correspond_flags(const char *usage, const struct cf_flag *table, size_t count, int argc,
                    char **argv, void *target, struct cf_flag_list *rest)
{
    struct cf_error err = {0};

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            printf("usage: %s\n\n", usage);
            cf_flags_help(table, count, stdout);
            return 1;
        }
    }
    if (cf_flags_read(table, count, argc, argv, target, rest, &err) == 0)
        return 0;
    (void)cf_correspond_failed(&err); /* the caller answers 2 */
    return -1;
}

int
cf_correspond_read(const char *path, size_t limit, struct cf_buf *ret_bytes,
                   struct cf_error *err)
{
    bool is_stdin = path == NULL || strcmp(path, "-") == 0;
    int fd = is_stdin ? 0 : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    ssize_t got = fd < 0 ? -1 : 1;

    cf_buf_init(ret_bytes, 0);
    while (got > 0 && ret_bytes->len <= limit) {
        size_t want = limit + 1 - ret_bytes->len < 65536 ? limit + 1 - ret_bytes->len : 65536;
        char *room = cf_buf_reserve(ret_bytes, want);
        if (room == NULL)
            break;
        got = read(fd, room, want);
        if (got > 0)
            cf_buf_wrote(ret_bytes, (size_t)got);
        else if (got < 0 && errno == EINTR)
            got = 1;
    }
    if (got < 0)
        cf_error_set(err, CF_ERROR_CONFIG, errno, "reading %s: %s",
                     is_stdin ? "standard input" : path, strerror(errno));
    else if (ret_bytes->failed)
        (void)cf_error_memory(err);
    if (fd > 0)
        (void)close(fd);
    if (got >= 0 && !ret_bytes->failed)
        return 0;
    cf_buf_release(ret_bytes);
    return -1;
}

int
cf_correspond_keyring(const char *path, struct cf_corr_keyring *keyring, struct cf_error *err)
{
    struct cf_corr_refusal refusal;
    struct cf_buf text;
    int status;

    if (cf_correspond_read(path, KEYRING_BYTES_MAX, &text, err) < 0)
        return -1;
    status =
        cf_corr_keyring_read(keyring, text.data == NULL ? "" : text.data, text.len, &refusal);
    cf_buf_release(&text);
    if (status == 0)
        return 0;
    cf_error_set(err, CF_ERROR_CONFIG, 0, "keyring %s: %s at %s", path, refusal.reason,
                 refusal.offset >= 0 ? "its text" : refusal.pointer);
    return cf_error_fix(
        err, "write a JSON array of {identity_id, signing_key_id, public_key_b64url, active}");
}

int
cf_correspond_time(const char *text, int64_t *ret_ms)
{
    struct timespec now;
    const char *reason;

    if (text == NULL) {
        (void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail for this clock */
        *ret_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
        return 0;
    }
    reason = cf_corr_time_parse(text, strlen(text), ret_ms);
    if (reason != NULL) {
        struct cf_error err = {0};
        cf_error_set(&err, CF_ERROR_CONFIG, 0, "\"%.60s\" is no time: %s", text, reason);
        cf_error_fix(&err, "write it as 2026-07-19T10:00:00.000Z");
        (void)cf_correspond_failed(&err); /* the caller answers 2 */
        return -1;
    }
    return 0;
}

void
cf_correspond_put_valid(struct cf_buf *to, const struct cf_corr_event *event)
{
    struct cf_corr_event_view view;
    size_t len;

    cf_corr_event_view(event, &view);
    (void)cf_corr_event_canonical(event, &len);
    cf_buf_addf(to, "{\"valid\":true,\"kind\":\"%s\",\"event_id\":", view.kind);
    if (view.claimed_id == NULL)
        cf_buf_adds(to, "null");
    else
        cf_buf_addf(to, "\"%s\",\"event_id_matches\":%s", view.id,
                    strcmp(view.id, view.claimed_id) == 0 ? "true" : "false");
    cf_buf_addf(to, ",\"canonical_bytes\":%zu}", len);
}
