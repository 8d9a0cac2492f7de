/* run/release.h: a decoded release. One decoder for the file, the flags and the embedder. */
#ifndef CF_RUN_RELEASE_H
#define CF_RUN_RELEASE_H

#include <cfrunner/release.h>

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>

struct cf_release {
    json_t *json;               /* the document; every string below is borrowed from it */
    const char *image, *entrypoint, *working_directory, *architecture; /* the last two may be NULL */
    bool is_acp;
    const char **argv;          /* acp `arguments` or oneshot `argv`; NULL-terminated, ours */
    size_t argc;
    unsigned dialects;          /* mask of enum cf_dialect; 0: not stated */
    /* oneshot */
    bool prompt_is_path, is_stream_json;
    const char *resume_flag, *output_schema_flag; /* may be NULL */
    bool output_schema_is_path;
};

/* Decodes into *release (release it in either case). Mistakes are collected in `errors` and
 * `warnings` (arrays, may be NULL); the first one is also put into `err`. */
CF_CHECKED int cf_release_decode(const char *json, size_t len, struct cf_release *release, json_t *errors,
                                 json_t *warnings, struct cf_error *err);
void cf_release_done(struct cf_release *release);

/* Absolute, at most 4,096 bytes, segments of [A-Za-z0-9._-], none of them "." or "..". */
bool cf_path_is_plain_absolute(const char *path);

#endif
