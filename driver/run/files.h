/*
 * run/files.h: files on their way into a run's sandbox and out of it, and what its turns changed
 * there. Private to this room. Bytes go through cf-init, never through the engine or a mount; the
 * host's files are read and written by libuv's asynchronous calls, a few hundred KiB at a time.
 */
#ifndef CF_RUN_FILES_H
#define CF_RUN_FILES_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>

struct cf_run;
struct cf_stage;
struct cf_collect;
struct cf_changes;

/* Comes once, from the loop; what it ends is freed by then. */
typedef void cf_files_done_fn(struct cf_run *run, int status, const struct cf_error *err);

/* ---- stage.c: state_in or what is restored, then files, into the sandbox ----------------- */

/* A folder goes with all beneath it: modes kept (its owner may always enter), symlinks inside it
 * kept as they read, anything else refused. A source that is a symlink itself is followed. */
CF_CHECKED int cf_stage_open(struct cf_run *run, cf_files_done_fn *done, struct cf_error *err);
void cf_stage_give_up(struct cf_run *run); /* done comes, with -1, as soon as no call is under way */

/* ---- collect.c: the working directory, into a fresh folder of the host ------------------- */

/* After the last turn, as the options say; or when the host asks for it (keep.c). */
enum cf_collect_kind { CF_COLLECT_AFTER, CF_COLLECT_ASKED, CF_COLLECT_KINDS };
struct cf_collect_slot {
    struct cf_run *run;
    struct cf_collect *at; /* or NULL */
};

/* Makes the folders that options name, or finds them empty, before anything else is done. */
CF_CHECKED int cf_collect_prepare(struct cf_run *run, cf_files_done_fn *done, struct cf_error *err);
/* The same for one folder that is asked for; both texts are borrowed until the end. `part`: only
 * this file, or what is in this folder, of the working directory; NULL: all. *ret_reports (yours)
 * has one item at the end, with at most `refused_most` entries named. cf_collect_begin follows in
 * any case: after a failure it only ends. */
CF_CHECKED int cf_collect_ask(struct cf_run *run, const char *directory, const char *part, size_t refused_most,
                              cf_files_done_fn *done, json_t **ret_reports, struct cf_error *err);
/* Fills them, one after the other. done's status is 0 also when entries were refused: they are
 * named in run->collected; <0 when the host's disk failed us or it was given up. */
void cf_collect_begin(struct cf_run *run, enum cf_collect_kind kind, cf_files_done_fn *done);
/* Instead: they stay empty, and the result says why. */
void cf_collect_skip(struct cf_run *run, const char *why, cf_files_done_fn *done);
void cf_collect_give_up(struct cf_run *run, enum cf_collect_kind kind);
/* A path as JSON text, what is not UTF-8 in it replaced. New reference. */
json_t *cf_path_json(const char *path);
/* A path of a manifest that may be made beneath a folder of ours. */
bool cf_collect_path_is_sound(const char *path);

/* ---- changes.c: observation.file_changed -------------------------------------------------- */

/* The working directory as it stands before the first turn; `then` comes at once where it is known
 * already (a turn begins where the last one ended) or cannot be known. */
void cf_changes_turn_begin(struct cf_run *run, void (*then)(struct cf_run *run));
/* Tells the changes of the turn, then `then`. Never waits longer than some seconds. */
void cf_changes_turn_end(struct cf_run *run, void (*then)(struct cf_run *run));
/* The turn has ended some other way: `then` does not come any more. */
void cf_changes_turn_over(struct cf_run *run);
void cf_changes_free(struct cf_changes *changes);

#endif
