/*
 * faults/polite.h: the smallest harnesses that do everything right, for faults to start from.
 * The model is asked as the reference harnesses ask it (docker/harness-common).
 */
#ifndef POLITE_H
#define POLITE_H

#include "base/buf.h"

/*
 * Turns a prompt into an answer. 0: answered. -1: the turn fails (the text says why).
 * polite_ask asks the model and gives back what it said.
 */
typedef int polite_answer_fn(const char *prompt, struct cf_buf *answer);
polite_answer_fn polite_ask, polite_ask_once; /* once: also when the model is busy */

/* Prompt on stdin, answer on stdout; the exit code. */
int polite_oneshot(polite_answer_fn *answer);

/* An ACP v1 agent on stdin and stdout until end of file; the exit code. */
int polite_acp(polite_answer_fn *answer);

/* One session/update of the running turn, for answer functions of polite_acp. */
void polite_chunk(const char *text);

#endif
