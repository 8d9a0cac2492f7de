/* cluster.h: the two halves of a job on several engines; see main.c. */
#ifndef CF_CLUSTER_CLUSTER_H
#define CF_CLUSTER_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#define CLUSTER_TOKEN_ENV "CFRUNNER_POOL_TOKEN"
#define CLUSTER_BODY_MOST (4u << 20) /* of a request: a run's result */

struct serve_options {
    const char *address, *items, *token; /* items: a file, a line an item */
    uint64_t lease_ms, deadline_ms;      /* deadline_ms 0: none */
    bool retries_lost;
};
/* Exit code: 0 every item is done, 1 one is failed or lost, 2 usage, 5 the deadline. */
int serve(const struct serve_options *options);

struct work_options {
    const char *url, *token, *release, *options; /* two files */
    const char *name;                            /* the worker's; in the list */
    unsigned at_once;
    uint64_t memory; /* bytes that sandboxes may have in all; 0: four fifths of what is free */
};
/* Exit code: 0 told that the job is over, 2 usage, 3 the coordinator or the engine is gone, 4 a
 * teardown is not proven, 130 a signal. */
int work(const struct work_options *options);

/* The whole file, yours (free), NUL-terminated; NULL and a line on stderr. */
char *read_file(const char *path);

#endif
