/* run/voice_impl.h: what voice.c and voice_prepare.c share. */
#ifndef CF_RUN_VOICE_IMPL_H
#define CF_RUN_VOICE_IMPL_H

#include <cfrunner/journal.h>

#include "run/voice.h"
#include "run/voice_parts.h"

#include <stdbool.h>
#include <uv.h>

#define CF_VOICE_OFFERS_MOST 128u
#define CF_VOICE_LOCK_MS 3000u /* for another writer of the same journal */
#define CF_VOICE_END_MS 5000u  /* for the last words, all together */

enum cf_voice_state {
    CF_VOICE_SHUT,     /* nothing is open on the loop */
    CF_VOICE_OPENING,  /* the claim's opening is on its way */
    CF_VOICE_LIVE,
    CF_VOICE_SILENT,   /* the claim could not be opened, or nobody waits for it any more */
    CF_VOICE_ENDING,   /* what is on its way is awaited, then the last words follow */
    CF_VOICE_FAREWELL, /* they are on their way */
    CF_VOICE_CLOSING
};

struct cf_voice {
    struct cf_run *run;
    enum cf_voice_state state;
    struct cf_journal *journal;
    struct cf_journal_queue *queue; /* or NULL */
    struct cf_corr_author author;
    const char **paths;           /* ours; the texts are the options' */
    struct cf_corr_claim claim;   /* as last signed */
    struct cf_corr_claim written; /* as last written; generation 0: not opened */
    bool is_renewing, is_released, is_closed, is_identity_exposed;
    unsigned in_flight;
    uv_timer_t timer;
    cf_voice_done_fn *done; /* of opening, then of closing */
    uint64_t renew_at_ms;   /* by uv_now, like the rate */
    struct cf_rate rate;
    char pending[200]; /* progress that the rate did not allow yet; the latest */

    struct cf_digest_list files;
    size_t offers_written;
    bool is_list_offered, is_recording_offered;
    json_t *overlaps;
    uint64_t written_count, failed_count;
    struct cf_error first_failure;
};

int64_t cf_voice_now_ms(void); /* wall clock, milliseconds since 1970 */

#endif
