/*
 * cli/story.h: a recording as a list of what happened, in order: frames (acp) or lines of stdout
 * (oneshot), observations, relay calls, findings, phases; and what it came to. Bounded: a long text is
 * kept by its beginning, and past 200,000 events the later ones are counted only.
 */
#ifndef CF_CLI_STORY_H
#define CF_CLI_STORY_H

#include "base/error.h"
#include "observe/replay.h"
#include "wire/wire.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cf_event_kind { CF_EVENT_FRAME, CF_EVENT_OBSERVATION, CF_EVENT_CALL, CF_EVENT_FINDING, CF_EVENT_PHASE };

struct cf_event {
    enum cf_event_kind kind;
    bool from_harness;    /* frame */
    uint32_t turn;
    uint64_t number;      /* of the frame, observation or call; finding: of its frame */
    uint64_t from_frame;  /* observation */
    uint64_t at_ms, total; /* total: bytes of the whole text */
    char *text;           /* frame or line; else JSON; phase: its name. NUL-terminated, may hold NULs */
    size_t len;
};

struct cf_story {
    struct cf_event *events;
    size_t count, cap, dropped;
    uint64_t bytes;
    struct cf_replay *replay; /* keeps the result and the verdict */
    struct cf_recording_reader reader;
    struct cf_lines lines; /* oneshot */
    bool is_oneshot, has_no_memory;
    uint32_t turn;
    uint64_t at_ms;
};

/* -1: no recording, or one that is damaged before its first record. One that breaks off later is told up
 * to there, with `ret_note` (at least 300 bytes) saying so; else it is "". */
CF_CHECKED int cf_story_read(struct cf_story *story, const char *path, char *ret_note, size_t note_size,
                             struct cf_error *err);
void cf_story_release(struct cf_story *story);

/* The checks that it holds, each {"id","status","summary","evidence","group","rule"}: a diagnostic's own, or
 * what the grammar says of a run. New reference. */
json_t *cf_story_checks(const struct cf_story *story);
/* The place of an event in the list; turn 0: the first with that number. count: there is none. */
size_t cf_story_find(const struct cf_story *story, enum cf_event_kind kind, uint32_t turn, uint64_t number);

#endif
