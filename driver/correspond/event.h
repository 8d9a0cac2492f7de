/* correspond/event.h: one admitted event. */
#ifndef CF_CORRESPOND_EVENT_H
#define CF_CORRESPOND_EVENT_H

#include "correspond/value.h"

struct cf_corr_event {
    struct cf_corr_value *value;
    enum cf_corr_form form;
    char *canonical; /* JCS of the signed envelope, or of a core */
    size_t canonical_len;
    size_t event_id_at;                 /* where event_id goes in it */
    size_t signature_at, signature_end; /* `"signature":{...},` in it; empty in a core */
    unsigned char id_bytes[32];
    char id[CF_CORR_ID_SIZE];
    const struct cf_node *parents, *paths, *signature;
    struct cf_corr_event_view view;
};

#endif
