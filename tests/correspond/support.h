/* Helpers of this room's tests: reading files and making events. One copy a program. */
#ifndef CF_TESTS_CORRESPOND_SUPPORT_H
#define CF_TESTS_CORRESPOND_SUPPORT_H

#include "base/str.h"
#include "correspond/correspond.h"
#include "tests/support/unit.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define PROJECT "11111111-1111-4111-8111-111111111111"
#define NOW 1784455200000 /* 2026-07-19T10:00:00.000Z */
#define HOUR 3600000

/* A whole file, NUL-terminated, yours; NULL when it cannot be read. */
static inline char *
slurp(const char *path, size_t *ret_len)
{
    FILE *file = fopen(path, "rb");
    struct cf_buf buf;
    size_t n;

    if (file == NULL)
        return NULL;
    cf_buf_init(&buf, 0);
    do {
        char *room = cf_buf_reserve(&buf, 65536);
        n = fread(room, 1, 65536, file);
        cf_buf_wrote(&buf, n);
    } while (n > 0);
    fclose(file);
    return cf_buf_take(&buf, ret_len);
}

/* "" when admitted, else the reason. */
static inline const char *
reason_of(const char *text, size_t len)
{
    struct cf_corr_refusal refusal;
    struct cf_corr_value *value = NULL;

    if (cf_corr_value_parse(text, len, 0, &value, &refusal) < 0)
        return refusal.reason;
    cf_corr_value_free(value);
    return "";
}

static inline void
test_seed(unsigned char seed[32])
{
    for (unsigned i = 0; i < 32; i++)
        seed[i] = (unsigned char)i;
}

static const char *const default_paths[] = {"docs", "docs/specs"};

/* An author with the public test key; `who` varies identity, device and session. */
static inline struct cf_corr_author
make_author(unsigned who)
{
    struct cf_corr_author author = {
        .repository_id = "repo", .thread_id = "task", .paths = default_paths, .path_count = 2};

    test_seed(author.seed);
    strcpy(author.project_id, PROJECT);
    snprintf(author.identity_id, sizeof author.identity_id, "22222222-2222-4222-8222-%012x",
             who);
    strcpy(author.signing_key_id, "33333333-3333-4333-8333-333333333333");
    strcpy(author.device_id, "44444444-4444-4444-8444-444444444444");
    snprintf(author.session_id, sizeof author.session_id, "55555555-5555-4555-8555-%012x",
             who);
    return author;
}

static inline struct cf_corr_event *
sign_ok(struct cf_corr_author *author, const char *kind, const char *body, const char *parent)
{
    const char *parents[] = {parent};
    struct cf_corr_event *event = NULL;
    struct cf_corr_refusal refusal = {0};
    int status = cf_corr_author_sign(author, kind, body, parents, parent != NULL, NOW, &event,
                                     &refusal);

    ck_assert_msg(status == 0, "%s at %s", refusal.reason, refusal.pointer);
    return event;
}

static inline const char *
id_of(const struct cf_corr_event *event)
{
    static char id[8][CF_CORR_ID_SIZE];
    static unsigned at;
    struct cf_corr_event_view view;

    cf_corr_event_view(event, &view);
    at = (at + 1) % 8;
    strcpy(id[at], view.id);
    return id[at];
}

#endif
