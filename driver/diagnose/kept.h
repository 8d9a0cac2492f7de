/* diagnose/kept.h: a copy of a diagnostic's options, which are borrowed during open only. */
#ifndef CF_DIAGNOSE_KEPT_H
#define CF_DIAGNOSE_KEPT_H

#include "diagnose/diagnose.h"

/* Zeroed is safe to release. */
struct cf_diagnose_kept {
    struct cf_diagnose_options options; /* its documents, texts and list are ours; its pool is not */
    char *words[6];
    char **retest;
};

CF_CHECKED int cf_diagnose_keep(struct cf_diagnose_kept *kept, const struct cf_diagnose_options *options, struct cf_error *err);
void cf_diagnose_kept_release(struct cf_diagnose_kept *kept);

#endif
