/*
 * harness/rig.h: a model to ask, on a loopback port, and a harness to run against it. The model
 * is a process of its own; what it was asked is read back from a file.
 */
#ifndef TESTS_HARNESS_RIG_H
#define TESTS_HARNESS_RIG_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct rig_model {
    const char *answer;    /* the text of every answer; NULL: "echo: " and the last user text */
    const char *tool;      /* the first request is answered by a call of this tool, when offered */
    const char *tool_input;
    bool gated;            /* every answer waits for rig_model_open */
    int status;            /* 0: 200; else every request is refused with it */
    pid_t pid;
    int port;
    char log[64], gate[80];
};

/* Starts it and sets the environment that a harness finds it by (token "tok"). */
void rig_model_start(struct rig_model *model);
void rig_model_open(struct rig_model *model);
void rig_model_stop(struct rig_model *model);

/* What it was asked so far: [{"path","key","body":{}}]. Yours. */
json_t *rig_model_asked(const struct rig_model *model);

/* A folder of its own for this test; the process moves there. The path is static. */
const char *rig_enter_folder(void);

/* A program of the build: absolute; static. */
const char *rig_program(const char *name);

struct rig_run {
    int exit_code; /* or 128 + signal */
    char *out, *err; /* yours, NUL-terminated */
    size_t out_len;
};

/* Runs a program to its end. `input` NULL: no stdin. */
void rig_run(struct rig_run *run, char *const argv[], const char *input);
void rig_run_release(struct rig_run *run);

/* A program spoken to line by line. */
struct rig_agent {
    pid_t pid;
    int in, out;
    json_int_t last_id;
    char buffer[1 << 20];
    size_t len;
    json_t *updates;   /* every notification so far */
    const char *permission; /* optionId to answer permission requests with; NULL: cancelled */
    json_t *requests;  /* every request of the agent so far */
};

void rig_agent_start(struct rig_agent *agent, char *const argv[]);
json_int_t rig_agent_send(struct rig_agent *agent, const char *method, json_t *params);
void rig_agent_notify(struct rig_agent *agent, const char *method, json_t *params);

/* The whole response to request `id`, yours. What else comes meanwhile is kept, and requests of
 * the agent are answered. Fails the test after 10 s. */
json_t *rig_agent_wait(struct rig_agent *agent, json_int_t id);
json_t *rig_agent_call(struct rig_agent *agent, const char *method, json_t *params);

/* Takes one message if there is one within `ms`; false when there was none. A response is given
 * back through `ret`. */
bool rig_agent_step(struct rig_agent *agent, int ms, json_t **ret);

/* The exit code after its stdin was closed. */
int rig_agent_end(struct rig_agent *agent);

#endif
