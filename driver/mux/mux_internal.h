/* What the files of this room share. */
#ifndef CF_MUX_MUX_INTERNAL_H
#define CF_MUX_MUX_INTERNAL_H

#include "mux/mux.h"

void cf_mux_attach(struct cf_mux *mux, struct cf_mux_channel *channel, uint32_t id,
                   uint32_t window, uint32_t tag);
void cf_mux_detach(struct cf_mux *mux, struct cf_mux_channel *channel);

bool cf_mux_is_own(const struct cf_mux *mux, uint32_t id); /* a number only we give */
/* One whole urgent frame. -1: queue full or memory. */
int cf_mux_queue(struct cf_mux *mux, enum cf_mux_kind kind, uint32_t id, const void *payload,
                 size_t len);

#endif
