/*
 * What a turn changed in the working directory: cf-init's manifest before it and after it, and
 * the difference as observations, sorted by path. A turn begins where the one before it ended, so
 * a run of N turns takes N + 1 manifests.
 */
#include "run/files.h"
#include "run/hall.h"

#include "base/str.h"
#include "json/json.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define ENTRIES_MOST 100000u
#define LINE_BYTES (512u * 1024u)
#define LATE_MS 10000u

struct seen {
    size_t path; /* where in the snapshot's text: the exact path, hex where it is not UTF-8 */
    uint64_t inode, size, mtime, ctime;
    uint32_t mode;
    bool is_closed; /* a folder that could not be entered: what is beneath it is not known */
};

struct snapshot {
    struct cf_buf text; /* paths, NUL-terminated: as told, and, behind it, exact where that differs */
    struct seen *entries;
    size_t count, cap, closed_count;
    uint32_t *index; /* open addressing by path; 0: free, else position + 1 */
    size_t index_size;
    const unsigned char *key; /* of the hash: names are hostile */
    bool is_broken;           /* memory, or lines that are none */
};

struct change {
    const char *event, *path;
};

struct cf_changes {
    struct cf_run *run;
    struct snapshot before, now;
    struct cf_lines lines;
    unsigned char key[crypto_shorthash_KEYBYTES];
    bool has_before, is_off, ends_turn;
    bool is_pending;  /* `then` waits */
    bool is_under_way; /* a manifest is still being sent, whoever waits */
    void (*then)(struct cf_run *run);
};

/* ---- snapshots ---------------------------------------------------------------------------------- */

static void
snapshot_release(struct snapshot *s)
{
    cf_buf_release(&s->text);
    free(s->entries);
    free(s->index);
    memset(s, 0, sizeof *s);
}

static const char *
path_at(const struct snapshot *s, size_t position)
{
    return s->text.data + s->entries[position].path;
}

static uint64_t
hash(const struct snapshot *s, const char *path)
{
    unsigned char digest[crypto_shorthash_BYTES];
    uint64_t number;

    (void)crypto_shorthash(digest, (const unsigned char *)path, strlen(path), s->key); /* never fails */
    memcpy(&number, digest, sizeof number);
    return number;
}

static size_t
slot_of(const struct snapshot *s, const char *path)
{
    size_t at = (size_t)hash(s, path) & (s->index_size - 1);

    while (s->index[at] != 0 && strcmp(path_at(s, s->index[at] - 1), path) != 0)
        at = (at + 1) & (s->index_size - 1);
    return at;
}

static const struct seen *
find(const struct snapshot *s, const char *path)
{
    uint32_t found = s->index_size == 0 ? 0 : s->index[slot_of(s, path)];

    return found == 0 ? NULL : &s->entries[found - 1];
}

static int
grow(struct snapshot *s)
{
    size_t cap = s->cap == 0 ? 64 : 2 * s->cap;
    struct seen *entries = realloc(s->entries, cap * sizeof *entries);

    if (entries == NULL)
        return -1;
    s->entries = entries;
    s->cap = cap;
    free(s->index);
    s->index_size = 2 * cap;
    s->index = calloc(s->index_size, sizeof *s->index);
    for (size_t i = 0; s->index != NULL && i < s->count; i++)
        s->index[slot_of(s, path_at(s, i))] = (uint32_t)i + 1;
    return s->index == NULL ? -1 : 0;
}

static void
add_line(struct snapshot *s, const json_t *line)
{
    const char *told = cf_json_str(line, "p"), *hex = cf_json_str(line, "x");
    struct seen entry = {.path = s->text.len,
                         .inode = (uint64_t)cf_json_int(line, "i", 0),
                         .size = (uint64_t)cf_json_int(line, "s", 0),
                         .mtime = (uint64_t)cf_json_int(line, "m", 0),
                         .ctime = (uint64_t)cf_json_int(line, "c", 0),
                         .mode = (uint32_t)cf_json_int(line, "o", 0),
                         .is_closed = cf_json_int(line, "e", 0) != 0};

    if (told == NULL || (s->count == s->cap && grow(s) < 0) || cf_buf_add(&s->text, told, strlen(told) + 1) < 0) {
        s->is_broken = true;
        return;
    }
    if (hex != NULL) { /* two names may be repaired alike: the exact one is the key, and leads to the told one */
        entry.path = s->text.len;
        if (cf_buf_addf(&s->text, "//%s", hex) < 0 || cf_buf_add(&s->text, "", 1) < 0) {
            s->is_broken = true;
            return;
        }
    }
    s->entries[s->count++] = entry;
    s->closed_count += entry.is_closed;
    s->index[slot_of(s, path_at(s, s->count - 1))] = (uint32_t)s->count;
}

/* As it is told: for an exact key, the text right before it. */
static const char *
told_path(const struct snapshot *s, const struct seen *entry)
{
    size_t at = entry->path;

    if (strncmp(s->text.data + at, "//", 2) != 0)
        return s->text.data + at;
    for (at--; at > 0 && s->text.data[at - 1] != '\0'; at--)
        ;
    return s->text.data + at;
}

/* ---- the difference -------------------------------------------------------------------------------- */

static bool
is_same(const struct seen *a, const struct seen *b)
{
    return a->inode == b->inode && a->size == b->size && a->mtime == b->mtime && a->ctime == b->ctime &&
           (a->mode & S_IFMT) == (b->mode & S_IFMT);
}

/* Beneath a folder that `s` could not enter: then its absence there says nothing. */
static bool
is_hidden(const struct snapshot *s, const char *path)
{
    const struct seen *folder;
    cf_auto_free char *above = s->closed_count > 0 ? strdup(path) : NULL;
    char *slash;

    while (above != NULL && (slash = strrchr(above, '/')) != NULL) {
        *slash = '\0';
        folder = find(s, above);
        if (folder != NULL && folder->is_closed)
            return true;
    }
    return false;
}

static bool
is_file(const struct seen *entry)
{
    return entry != NULL && !S_ISDIR(entry->mode);
}

/* NULL: nothing to tell. */
static const char *
event_of(const struct cf_changes *c, const struct seen *before, const struct seen *now, const char *told)
{
    if (is_file(before) && is_file(now))
        return is_same(before, now) ? NULL : "modify";
    if (is_file(now))
        return before == NULL && is_hidden(&c->before, told) ? NULL : "create";
    return now == NULL && is_hidden(&c->now, told) ? NULL : "delete";
}

static int
by_path(const void *a, const void *b)
{
    return strcmp(((const struct change *)a)->path, ((const struct change *)b)->path);
}

static size_t
find_changes(const struct cf_changes *c, struct change *changes)
{
    size_t count = 0;

    for (size_t i = 0; i < c->now.count; i++) {
        const struct seen *now = &c->now.entries[i], *before = find(&c->before, path_at(&c->now, i));
        const char *told = told_path(&c->now, now), *event;
        if (!is_file(now) && !is_file(before))
            continue;
        event = event_of(c, before, now, told);
        if (event != NULL)
            changes[count++] = (struct change){event, told};
    }
    for (size_t i = 0; i < c->before.count; i++) {
        const struct seen *before = &c->before.entries[i];
        const char *told = told_path(&c->before, before);
        if (is_file(before) && find(&c->now, path_at(&c->before, i)) == NULL &&
            event_of(c, before, NULL, told) != NULL)
            changes[count++] = (struct change){"delete", told};
    }
    return count;
}

/* A harness names files as it likes; the runner says whole paths. Told is told. */
static bool
was_told(struct cf_run *run, const char *event, const char *relative)
{
    char dotted[4200];

    (void)snprintf(dotted, sizeof dotted, "./%s", relative);
    return cf_normalizer_has_file(run->normalizer, event, relative) ||
           cf_normalizer_has_file(run->normalizer, event, dotted);
}

static void
tell(struct cf_changes *c)
{
    struct change *changes = calloc(c->now.count + c->before.count + 1, sizeof *changes);
    const char *root = cf_sandbox_working_directory(c->run->sandbox);
    size_t count = changes != NULL ? find_changes(c, changes) : 0;

    if (changes == NULL)
        cf_emit_finding(c->run, "file_changes_unknown", 0, "out of memory while file changes were compared");
    else
        qsort(changes, count, sizeof *changes, by_path);
    for (size_t i = 0; i < count; i++) {
        cf_auto_free char *path = NULL;
        if (was_told(c->run, changes[i].event, changes[i].path) ||
            asprintf(&path, "%s/%s", root, changes[i].path) < 0)
            continue;
        cf_record_call_texts(c->run, CF_CALL_FILE_CHANGED, 0, changes[i].event, path);
        cf_normalizer_file_changed(c->run->normalizer, changes[i].event, path);
    }
    free(changes);
}

/* ---- manifests ---------------------------------------------------------------------------------------- */

static void
go_on(struct cf_changes *c)
{
    c->is_pending = false;
    uv_timer_stop(&c->run->settle);
    c->then(c->run);
}

static void
turn_off(struct cf_changes *c, const char *why)
{
    char text[400];

    c->is_off = true;
    (void)snprintf(text, sizeof text, "file changes are not reported: %s", why);
    cf_emit_finding(c->run, "file_changes_unknown", 0, text);
    snapshot_release(&c->before);
    snapshot_release(&c->now);
}

static void
on_line(void *user, const char *bytes, size_t len, uint64_t number, bool overflow)
{
    static const struct cf_json_limits limits = {LINE_BYTES, 2, 20, true, true};
    struct cf_changes *c = user;
    json_t *line = overflow ? NULL : cf_json_parse(bytes, len, &limits, NULL);

    add_line(&c->now, line);
    json_decref(line);
}

static int
on_bytes(void *user, const char *bytes, size_t len)
{
    struct cf_changes *c = ((struct cf_run *)user)->changes;

    if (c->is_pending && cf_lines_feed(&c->lines, bytes, len, on_line, c) < 0)
        c->now.is_broken = true;
    return 0;
}

static void
on_manifest(void *user, int status, json_t *answer, const struct cf_error *err)
{
    struct cf_changes *c = ((struct cf_run *)user)->changes;

    cf_lines_release(&c->lines);
    c->is_under_way = false;
    if (!c->is_pending)
        return; /* it came too late, or the turn was ended meanwhile */
    if (status < 0)
        turn_off(c, err->text);
    else if (cf_json_bool(answer, "over", false))
        turn_off(c, "the working directory holds more than 100,000 entries");
    else if (c->now.is_broken)
        turn_off(c, "the list of files could not be read whole");
    if (!c->is_off) {
        if (c->ends_turn)
            tell(c);
        snapshot_release(&c->before);
        c->before = c->now;
        memset(&c->now, 0, sizeof c->now);
        c->has_before = true;
    }
    go_on(c);
}

static void
on_late(uv_timer_t *timer)
{
    struct cf_changes *c = ((struct cf_run *)timer->data)->changes;

    turn_off(c, "cf-init did not list the working directory in time");
    go_on(c);
}

static void
take_manifest(struct cf_changes *c, bool ends_turn, void (*then)(struct cf_run *run))
{
    struct cf_run *run = c->run;
    struct cf_error why;

    c->then = then;
    c->ends_turn = ends_turn;
    if (c->is_under_way) { /* of a turn that failed meanwhile: this turn's changes come with the next one's */
        then(run);
        return;
    }
    c->is_pending = c->is_under_way = true;
    snapshot_release(&c->now);
    c->now.key = c->key;
    cf_lines_init(&c->lines, LINE_BYTES);
    uv_timer_start(&run->settle, on_late, LATE_MS, 0);
    if (cf_link_manifest(cf_sandbox_link(run->sandbox), cf_sandbox_working_directory(run->sandbox), ENTRIES_MOST,
                         on_bytes, on_manifest, run, &why) == 0)
        return;
    c->is_under_way = false;
    turn_off(c, why.text);
    go_on(c);
}

void
cf_changes_turn_begin(struct cf_run *run, void (*then)(struct cf_run *run))
{
    if (run->changes == NULL) {
        run->changes = calloc(1, sizeof *run->changes);
        if (run->changes != NULL) {
            run->changes->run = run;
            crypto_shorthash_keygen(run->changes->key);
        }
    }
    if (run->changes == NULL || run->changes->is_off || run->changes->has_before)
        then(run);
    else
        take_manifest(run->changes, false, then);
}

void
cf_changes_turn_end(struct cf_run *run, void (*then)(struct cf_run *run))
{
    if (run->changes == NULL || run->changes->is_off || !run->changes->has_before)
        then(run);
    else
        take_manifest(run->changes, true, then);
}

void
cf_changes_turn_over(struct cf_run *run)
{
    if (run->changes == NULL || !run->changes->is_pending)
        return;
    run->changes->is_pending = false;
    uv_timer_stop(&run->settle);
}

void
cf_changes_free(struct cf_changes *changes)
{
    if (changes == NULL)
        return;
    snapshot_release(&changes->before);
    snapshot_release(&changes->now);
    cf_lines_release(&changes->lines);
    free(changes);
}
