/*
 * diagnose/trace.h: what happened in a run, kept for the page while it happens: frames, observations,
 * relay calls, phases, findings, stderr and turns, in order, each as the JSON text that the page will
 * carry. Bounded: the first and the last of it are kept, and what lies between is counted.
 */
#ifndef CF_DIAGNOSE_TRACE_H
#define CF_DIAGNOSE_TRACE_H

#include <cfrunner/run.h>

#include "base/buf.h"
#include "diagnose/mask.h"
#include "observe/recording.h"

#define CF_TRACE_PART_BYTES (88u << 10) /* of the first part, and of the last */
#define CF_TRACE_PART_EVENTS 800u
#define CF_TRACE_FRAME_BYTES 8192u      /* of one frame's text */
#define CF_TRACE_TEXT_BYTES 3072u       /* of one observation's, one line of stderr */

struct cf_trace;

/* Time counts from here on. `mask` (may be NULL) is borrowed as long as the trace lives. NULL: out of
 * memory. A trace that runs out of memory later goes on without what did not fit. */
struct cf_trace *cf_trace_new(const struct cf_mask *mask);
void cf_trace_free(struct cf_trace *trace);

/* Puts the trace before what `host` has: each event is kept, then handed on unchanged with the user
 * it had. `host` is changed in place; its size member is left alone. */
void cf_trace_listen(struct cf_trace *trace, struct cf_run_host *host);

/* The same from a recording. Frames of acp come by cf_trace_frame, as the replayed wire numbers them;
 * everything else that is not an observation is in the records. */
void cf_trace_record(struct cf_trace *trace, const struct cf_record *record);
void cf_trace_frame(struct cf_trace *trace, bool from_harness, uint64_t number, uint64_t at_ms, const char *line, size_t len);
void cf_trace_observation(struct cf_trace *trace, const struct cf_observation *observation);

/* Appends [event, ...]: each {"k":kind,"t":ms,...}, text escaped for a page (diagnose/page.h). Kinds:
 * f frame {n,d: 1 from the harness,u: turn,b: bytes,x: text}; o observation {q: seq,u,n: its frame,
 * y: type,b,x}; c call {n: id,m: ms,u,s: status,h: method and path,r: why refused}; p phase {y: name,
 * h: step,m: ms or null: it did not end}; g finding {y: id,n,x}; e stderr {b,x}; u turn {u,y: outcome,
 * h: stop reason,m}; w process {u,x: arguments}; x gap {n: events left out}. */
void cf_trace_append(struct cf_trace *trace, struct cf_buf *to);

#endif
