/* oneshot-harness/oneshot.h: one turn of the reference wrapper. */
#ifndef HN_ONESHOT_H
#define HN_ONESHOT_H

#include "model.h"

/* Where a turn leaves what the next one needs, below the working directory. */
#define HN_STATE_DIRECTORY ".checkfu"
#define HN_STATE_PATH HN_STATE_DIRECTORY "/state.json"

struct hn_oneshot {
    const char *prompt_path; /* NULL: the prompt is on stdin */
    const char *schema;      /* JSON, or the path of a file that holds it; NULL: plain answer */
    bool stream_json;
    bool resume;
    bool stream; /* ask the model for a stream */
    enum hn_dialect dialect;
};

/* Reads, asks, writes state, prints. Nothing is printed unless all before it went well. */
int hn_oneshot_run(const struct hn_oneshot *turn, struct cf_error *err);

#endif
