/*
 * cli/progress.h: pull, build and push as the engine tells of them: layers and their bytes, the step
 * of a Dockerfile. The engine's words are untrusted; counts are bounded.
 */
#ifndef CF_CLI_PROGRESS_H
#define CF_CLI_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CF_PROGRESS_LAYERS 128u

struct cf_progress {
    char what[12]; /* "pull", "build", "push"; "": nothing yet */
    struct {
        char id[16];
        uint64_t done, total;
        bool is_whole;
    } layers[CF_PROGRESS_LAYERS];
    size_t count;
    char step[120]; /* build: "Step 2/3 : COPY . /"; else the last status */
};

/* One progress object. A new `what` begins anew. */
void cf_progress_feed(struct cf_progress *progress, const char *what, const char *json, size_t len);
/* "pull 3 of 5 layers, 12.1 of 40.2 MB", or "build 2/3: COPY . /". Returns the part that is done, in
 * thousandths; -1: not known. Cut to `size`, printable where the engine's words are. */
int cf_progress_text(const struct cf_progress *progress, char *out, size_t size);

#endif
