/*
 * Drafting and signing a session's events. A draft is written as text and goes through the
 * same strict parser and checks as anybody's event: what we would refuse, we cannot send.
 */
#include "correspond/correspond.h"
#include "correspond/words.h"

#include "base/str.h"

#include <stdio.h>
#include <string.h>

#define TEXT_SCALARS_MAX 1000u

static void
put_member(struct cf_buf *to, const char *name, const char *text)
{
    cf_buf_addf(to, "\"%s\":", name);
    if (text == NULL)
        cf_buf_adds(to, "null");
    else
        cf_corr_put_string(to, text);
    cf_buf_adds(to, ",");
}

static void
put_list(struct cf_buf *to, const char *name, const char *const *items, size_t count)
{
    cf_buf_addf(to, "\"%s\":[", name);
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            cf_buf_adds(to, ",");
        cf_corr_put_string(to, items[i]);
    }
    cf_buf_adds(to, "]");
}

static void
put_core(struct cf_buf *to, const struct cf_corr_author *author, const char *kind,
         const char *body_json, const char *const *parents, size_t parent_count,
         int64_t now_ms)
{
    char issued[CF_CORR_TIME_SIZE];

    cf_corr_time_format(now_ms, issued);
    cf_buf_adds(to, "{");
    put_member(to, "protocol", CF_CORR_PROTOCOL);
    put_member(to, "project_id", author->project_id);
    put_member(to, "repository_id", author->repository_id);
    put_member(to, "thread_id", author->thread_id);
    cf_buf_addf(to,
                "\"sender\":{\"identity_id\":\"%s\",\"signing_key_id\":\"%s\",\"device_id\":"
                "\"%s\",\"session_id\":\"%s\"},",
                author->identity_id, author->signing_key_id, author->device_id,
                author->session_id);
    put_member(to, "kind", kind);
    put_list(to, "parents", parents, parent_count);
    cf_buf_addf(to, ",\"session_seq\":%llu,", (unsigned long long)author->session_seq + 1);
    put_member(to, "issued_at", issued);
    cf_buf_adds(to, "\"scope\":{");
    put_member(to, "base_revision", author->base_revision);
    put_member(to, "branch", author->branch);
    put_list(to, "paths", author->paths, author->path_count);
    cf_buf_addf(to,
                "},\"body\":%s,\"authority\":{\"automatic_action\":\"never\",\"grants\":[]}}",
                body_json);
}

int
cf_corr_author_sign(struct cf_corr_author *author, const char *kind, const char *body_json,
                    const char *const *parents, size_t parent_count, int64_t now_ms,
                    struct cf_corr_event **ret_event, struct cf_corr_refusal *refusal)
{
    struct cf_corr_event *core = NULL;
    struct cf_buf text;
    int status;

    cf_buf_init(&text, 0);
    put_core(&text, author, kind, body_json, parents, parent_count, now_ms);
    status = text.failed
                 ? cf_corr_refuse(refusal, "out_of_memory", "", -1)
                 : cf_corr_event_parse(text.data, text.len, CF_CORR_CORE, &core, refusal);
    cf_buf_release(&text);
    if (status == 0)
        status = cf_corr_event_sign(core, author->seed, ret_event, refusal);
    if (status == 0)
        author->session_seq++;
    cf_corr_event_free(core);
    return status;
}

void
cf_corr_claim_init(struct cf_corr_claim *claim, struct cf_corr_author *author)
{
    memset(claim, 0, sizeof *claim);
    claim->author = author;
    cf_corr_uuid_make(claim->claim_id);
}

/* Signs with the claim's last event as the one parent, when there is one. */
static int
sign_for_claim(struct cf_corr_claim *claim, const char *kind, struct cf_buf *body,
               int64_t now_ms, struct cf_corr_event **ret_event,
               struct cf_corr_refusal *refusal)
{
    const char *parents[] = {claim->last_event_id};
    int status = -1;

    if (body->failed)
        (void)cf_corr_refuse(refusal, "out_of_memory", "", -1);
    else
        status =
            cf_corr_author_sign(claim->author, kind, body->data, parents,
                                claim->last_event_id[0] != '\0', now_ms, ret_event, refusal);
    cf_buf_release(body);
    return status;
}

/* The claim moves on only when its event could be signed. */
static int
sign_generation(struct cf_corr_claim *claim, const char *kind, struct cf_buf *body,
                int64_t now_ms, struct cf_corr_event **ret_event,
                struct cf_corr_refusal *refusal)
{
    struct cf_corr_event_view view;

    if (sign_for_claim(claim, kind, body, now_ms, ret_event, refusal) < 0)
        return -1;
    cf_corr_event_view(*ret_event, &view);
    memcpy(claim->last_event_id, view.id, sizeof claim->last_event_id);
    claim->generation++;
    return 0;
}

static void
put_generation(struct cf_buf *to, const struct cf_corr_claim *claim)
{
    cf_buf_init(to, 0);
    cf_buf_addf(to, "{\"claim_id\":\"%s\",\"generation\":%llu", claim->claim_id,
                (unsigned long long)claim->generation + 1);
    if (claim->generation > 0)
        cf_buf_addf(to, ",\"predecessor_event_id\":\"%s\"", claim->last_event_id);
}

static void
put_expiry(struct cf_buf *to, int64_t expires_at_ms)
{
    char expires[CF_CORR_TIME_SIZE];

    cf_corr_time_format(expires_at_ms, expires);
    cf_buf_addf(to, ",\"expires_at\":\"%s\"}", expires);
}

/* ,"name":"text" with the text cut to its bound; nothing for NULL or an empty one. */
static void
put_text(struct cf_buf *to, const char *name, const char *text, bool is_first)
{
    char cut[4 * TEXT_SCALARS_MAX + 1];
    size_t len = 0, scalars = 0;

    if (text == NULL || text[0] == '\0')
        return;
    for (; text[len] != '\0' && len < sizeof cut - 1; len++) {
        scalars += ((unsigned char)text[len] & 0xc0) != 0x80;
        if (scalars > TEXT_SCALARS_MAX)
            break;
    }
    memcpy(cut, text, len);
    cut[len] = '\0';
    cf_buf_addf(to, "%s\"%s\":", is_first ? "" : ",", name);
    cf_corr_put_string(to, cut);
}

int
cf_corr_claim_open(struct cf_corr_claim *claim, int64_t now_ms, int64_t expires_at_ms,
                   struct cf_corr_event **ret_event, struct cf_corr_refusal *refusal)
{
    struct cf_buf body;

    put_generation(&body, claim);
    put_expiry(&body, expires_at_ms);
    return sign_generation(claim, "claim.open", &body, now_ms, ret_event, refusal);
}

int
cf_corr_claim_renew(struct cf_corr_claim *claim, int64_t now_ms, int64_t expires_at_ms,
                    struct cf_corr_event **ret_event, struct cf_corr_refusal *refusal)
{
    struct cf_buf body;

    put_generation(&body, claim);
    put_expiry(&body, expires_at_ms);
    return sign_generation(claim, "claim.renew", &body, now_ms, ret_event, refusal);
}

int
cf_corr_claim_release(struct cf_corr_claim *claim, int64_t now_ms, const char *detail,
                      struct cf_corr_event **ret_event, struct cf_corr_refusal *refusal)
{
    struct cf_buf body;

    put_generation(&body, claim);
    put_text(&body, "detail", detail, false);
    cf_buf_adds(&body, "}");
    return sign_generation(claim, "claim.release", &body, now_ms, ret_event, refusal);
}

int
cf_corr_claim_progress(struct cf_corr_claim *claim, int64_t now_ms, const char *summary,
                       struct cf_corr_event **ret_event, struct cf_corr_refusal *refusal)
{
    struct cf_buf body;

    cf_buf_init(&body, 0);
    cf_buf_adds(&body, "{");
    put_text(&body, "summary", summary, true);
    cf_buf_adds(&body, "}");
    return sign_for_claim(claim, "progress", &body, now_ms, ret_event, refusal);
}

int
cf_corr_claim_offer(struct cf_corr_claim *claim, int64_t now_ms,
                    const unsigned char sha256[32], const char *locator, const char *summary,
                    struct cf_corr_event **ret_event, struct cf_corr_refusal *refusal)
{
    char digest[CF_CORR_ID_SIZE];
    struct cf_buf body;

    cf_id_print(sha256, digest);
    cf_buf_init(&body, 0);
    cf_buf_addf(&body, "{\"artifact\":{\"kind\":\"content_digest\",\"digest\":\"%s\"", digest);
    if (locator != NULL) {
        cf_buf_adds(&body, ",\"locator\":");
        cf_corr_put_string(&body, locator);
    }
    cf_buf_adds(&body, "}");
    put_text(&body, "summary", summary, false);
    cf_buf_adds(&body, "}");
    return sign_for_claim(claim, "artifact.offer", &body, now_ms, ret_event, refusal);
}

int
cf_corr_claim_close(struct cf_corr_claim *claim, int64_t now_ms, const char *summary,
                    struct cf_corr_event **ret_event, struct cf_corr_refusal *refusal)
{
    struct cf_buf body;

    cf_buf_init(&body, 0);
    cf_buf_adds(&body, "{");
    put_text(&body, "summary", summary, true);
    cf_buf_adds(&body, "}");
    return sign_for_claim(claim, "close", &body, now_ms, ret_event, refusal);
}
