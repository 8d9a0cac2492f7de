/* From bytes to one admitted event: stages 1 to 5, its canonical form, its id. */
#include "correspond/event.h"

#include "base/buf.h"
#include "correspond/fields.h"
#include "correspond/words.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

void
cf_corr_event_free(struct cf_corr_event *event)
{
    if (event == NULL)
        return;
    cf_corr_value_free(event->value);
    free(event->canonical);
    free(event);
}

static const struct cf_node *
member(const struct cf_corr_event *event, const struct cf_node *object, const char *name)
{
    return object == NULL ? NULL : cf_value_member(event->value, object, name);
}

static const char *
text_of(const struct cf_node *node)
{
    return node != NULL && node->type == CF_VALUE_STRING ? node->text : NULL;
}

static int64_t
time_of(const struct cf_node *node)
{
    int64_t ms = INT64_MIN;

    if (node != NULL)
        (void)cf_corr_time_parse(node->text, node->len, &ms); /* was checked */
    return ms;
}

static void
fill_view(struct cf_corr_event *event)
{
    const struct cf_node *root = &event->value->nodes[0];
    const struct cf_node *sender = member(event, root, "sender"),
                         *body = member(event, root, "body");
    const struct cf_node *generation = member(event, body, "generation");
    struct cf_corr_event_view *view = &event->view;

    event->parents = member(event, root, "parents");
    event->paths = member(event, member(event, root, "scope"), "paths");
    event->signature = member(event, member(event, root, "signature"), "value_b64url");
    view->id = event->id;
    view->claimed_id = text_of(member(event, root, "event_id"));
    view->kind = text_of(member(event, root, "kind"));
    view->project_id = text_of(member(event, root, "project_id"));
    view->repository_id = text_of(member(event, root, "repository_id"));
    view->thread_id = text_of(member(event, root, "thread_id"));
    view->identity_id = text_of(member(event, sender, "identity_id"));
    view->signing_key_id = text_of(member(event, sender, "signing_key_id"));
    view->device_id = text_of(member(event, sender, "device_id"));
    view->session_id = text_of(member(event, sender, "session_id"));
    view->claim_id = text_of(member(event, body, "claim_id"));
    view->predecessor_event_id = text_of(member(event, body, "predecessor_event_id"));
    view->summary = text_of(member(event, body, "summary"));
    view->session_seq = (uint64_t)member(event, root, "session_seq")->integer;
    view->generation = generation == NULL ? 0 : (uint64_t)generation->integer;
    view->issued_at_ms = time_of(member(event, root, "issued_at"));
    view->expires_at_ms = time_of(member(event, body, "expires_at"));
    view->parent_count = event->parents->len;
    view->path_count = event->paths->len;
}

static int
check_value(const struct cf_corr_value *value, enum cf_corr_form form,
            struct cf_corr_refusal *refusal)
{
    const struct cf_check check = {value, refusal};
    const struct cf_node *root = &value->nodes[0], *body;

    if (cf_check_envelope(&check, root, form) < 0)
        return -1;
    body = cf_value_member(value, root, "body");
    if (cf_check_body(&check, body, cf_value_member(value, root, "kind")->text) < 0)
        return -1;
    return cf_check_references(&check, body, cf_value_member(value, root, "parents"));
}

/* The signed envelope: everything but event_id. Remembers where the signature stands, so that
 * the core's digest needs no second writing, and where event_id and signature go when they are
 * not there: before `issued_at` and before `thread_id`, the members that follow them in order.
 */
static int
write_canonical(struct cf_corr_event *event)
{
    const struct cf_corr_value *value = event->value;
    char *out = malloc(cf_corr_value_room(value));

    if (out == NULL)
        return -1;
    event->canonical = out;
    *out++ = '{';
    for (const struct cf_node *m = cf_value_child(value, &value->nodes[0]); m != NULL;
         m = cf_value_next(value, m)) {
        size_t at = (size_t)(out - event->canonical);
        if (strcmp(m->name, "event_id") == 0)
            continue;
        if (strcmp(m->name, "issued_at") == 0)
            event->event_id_at = at;
        if (strcmp(m->name, "signature") == 0)
            event->signature_at = at;
        if (strcmp(m->name, "thread_id") == 0)
            event->signature_end = at;
        out = cf_value_write_string(m->name, m->name_len, out);
        *out++ = ':';
        out = cf_value_write(value, m, out);
        *out++ = ',';
    }
    if (event->form == CF_CORR_CORE)
        event->signature_at = event->signature_end;
    out[-1] = '}';
    *out = '\0';
    event->canonical_len = (size_t)(out - event->canonical);
    return 0;
}

int
cf_corr_event_parse(const char *bytes, size_t len, enum cf_corr_form form,
                    struct cf_corr_event **ret_event, struct cf_corr_refusal *refusal)
{
    struct cf_corr_value *value = NULL;
    struct cf_corr_event *event;

    if (cf_corr_value_parse(bytes, len, CF_CORR_EVENT_BYTES_MAX, &value, refusal) < 0)
        return -1;
    if (check_value(value, form, refusal) < 0) {
        cf_corr_value_free(value);
        return -1;
    }
    event = calloc(1, sizeof *event);
    if (event == NULL) {
        cf_corr_value_free(value);
        return cf_corr_refuse(refusal, "out_of_memory", "", -1);
    }
    event->value = value;
    event->form = form;
    if (write_canonical(event) < 0) {
        cf_corr_event_free(event);
        return cf_corr_refuse(refusal, "out_of_memory", "", -1);
    }
    if (event->canonical_len > CF_CORR_EVENT_BYTES_MAX) {
        cf_corr_event_free(event);
        return cf_corr_refuse(refusal, "canonical_envelope_too_large", "", -1);
    }
    if (form == CF_CORR_FULL) {
        crypto_hash_sha256(event->id_bytes, (const unsigned char *)event->canonical,
                           event->canonical_len);
        cf_id_print(event->id_bytes, event->id);
    }
    fill_view(event);
    *ret_event = event;
    return 0;
}

void
cf_corr_event_view(const struct cf_corr_event *event, struct cf_corr_event_view *ret_view)
{
    *ret_view = event->view;
}

static const char *
text_at(const struct cf_corr_event *event, const struct cf_node *list, size_t index)
{
    const struct cf_node *n = cf_value_child(event->value, list);

    while (n != NULL && index-- > 0)
        n = cf_value_next(event->value, n);
    return text_of(n);
}

const char *
cf_corr_event_parent(const struct cf_corr_event *event, size_t index)
{
    return text_at(event, event->parents, index);
}

const char *
cf_corr_event_path(const struct cf_corr_event *event, size_t index)
{
    return text_at(event, event->paths, index);
}

const char *
cf_corr_event_canonical(const struct cf_corr_event *event, size_t *ret_len)
{
    *ret_len = event->canonical_len;
    return event->canonical;
}

char *
cf_corr_event_text(const struct cf_corr_event *event, size_t *ret_len)
{
    struct cf_buf buf;

    cf_buf_init(&buf, 0);
    cf_buf_add(&buf, event->canonical, event->event_id_at);
    if (event->form == CF_CORR_FULL)
        cf_buf_addf(&buf, "\"event_id\":\"%s\",", event->view.claimed_id);
    cf_buf_adds(&buf, event->canonical + event->event_id_at);
    if (buf.failed) {
        cf_buf_release(&buf);
        return NULL;
    }
    return cf_buf_take(&buf, ret_len);
}

int
cf_corr_event_check_id(const struct cf_corr_event *event, struct cf_corr_refusal *refusal)
{
    if (event->form == CF_CORR_CORE || strcmp(event->id, event->view.claimed_id) == 0)
        return 0;
    return cf_corr_refuse(refusal, "event_id_mismatch", "/event_id", -1);
}
