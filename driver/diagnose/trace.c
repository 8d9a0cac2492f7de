#include "diagnose/trace.h"

#include "base/clock.h"
#include "base/str.h"
#include "base/utf8.h"
#include "diagnose/page.h"
#include "json/json.h"
#include "wire/wire.h"

#include <stdio.h>
#include <string.h>

#define OPEN_PHASES 16u
#define STDERR_LINE_BYTES 4096u

struct event {
    char *json;
    size_t len;
};

/* A ring: full, it drops its oldest. The first part never does: it just takes no more. */
struct part {
    struct event *events; /* CF_TRACE_PART_EVENTS */
    size_t first, count, bytes;
};

struct phase {
    char name[24], step[40];
    uint64_t began_ms;
    bool is_open;
};

struct cf_trace {
    const struct cf_mask *mask;
    uint64_t opened_ms, left_out;
    uint32_t turn;
    struct part head, tail;
    bool head_is_full, knows_clock;
    struct phase phases[OPEN_PHASES];
    struct cf_lines errors;  /* stderr, by the line */
    struct cf_lines output;  /* a recorded one-shot's stdout */
    uint64_t output_ms, errors_ms;
    bool is_recorded_oneshot;
    struct cf_run_host next; /* whom everything is handed on to */
};

/* ---- keeping ------------------------------------------------------------------------------------ */

static void
drop_first(struct part *part)
{
    struct event *event = &part->events[part->first];

    part->bytes -= event->len;
    free(event->json);
    event->json = NULL;
    part->first = (part->first + 1) % CF_TRACE_PART_EVENTS;
    part->count--;
}

static bool
has_room(const struct part *part, size_t len)
{
    return part->count < CF_TRACE_PART_EVENTS && part->bytes + len <= CF_TRACE_PART_BYTES;
}

static void
put_into(struct part *part, char *json, size_t len)
{
    part->events[(part->first + part->count) % CF_TRACE_PART_EVENTS] = (struct event){json, len};
    part->count++;
    part->bytes += len;
}

/* Takes what `text` holds. */
static void
keep(struct cf_trace *trace, struct cf_buf *text)
{
    size_t len = text->len;
    char *json = text->failed ? NULL : cf_buf_take(text, &len);

    if (json == NULL) {
        cf_buf_release(text);
        trace->left_out++;
        return;
    }
    trace->head_is_full |= !has_room(&trace->head, len);
    if (!trace->head_is_full) {
        put_into(&trace->head, json, len);
        return;
    }
    while (trace->tail.count > 0 && !has_room(&trace->tail, len)) {
        drop_first(&trace->tail);
        trace->left_out++;
    }
    put_into(&trace->tail, json, len);
}

/* ---- an event's text ------------------------------------------------------------------------------ */

static void
begin(struct cf_buf *to, const char *kind, uint64_t at_ms)
{
    cf_buf_init(to, 0);
    (void)cf_buf_addf(to, "{\"k\":\"%s\",\"t\":%llu", kind, (unsigned long long)at_ms);
}

static void
put_number(struct cf_buf *to, const char *name, uint64_t value)
{
    (void)cf_buf_addf(to, ",\"%s\":%llu", name, (unsigned long long)value);
}

/* Masked as a whole, so that no cut runs through a secret; then cut, mended and escaped. */
static void
put_text(const struct cf_trace *trace, struct cf_buf *to, const char *name, const char *bytes, size_t len, size_t most)
{
    size_t cut = cf_utf8_cut(bytes, len, most), repairs, mended_len;
    cf_auto_free char *copy = malloc(len + 1), *mended = malloc(3 * cut + 1);
    struct cf_buf quoted;

    if (copy == NULL || mended == NULL) {
        to->failed = true;
        return;
    }
    memcpy(copy, bytes, len);
    cf_mask_bytes(trace->mask, copy, len);
    mended_len = cf_utf8_repair(copy, cut, mended, &repairs);
    cf_buf_init(&quoted, 0);
    if (cf_json_append_string(&quoted, mended, mended_len) < 0)
        to->failed = true;
    (void)cf_buf_addf(to, ",\"%s\":", name);
    cf_page_put_json(to, quoted.data != NULL ? quoted.data : "", quoted.len);
    cf_buf_release(&quoted);
    if (cut < len)
        put_number(to, "c", cut);
}

static void
put_word(const struct cf_trace *trace, struct cf_buf *to, const char *name, const char *word)
{
    if (word != NULL)
        put_text(trace, to, name, word, strlen(word), 200);
}

static void
end(struct cf_trace *trace, struct cf_buf *text)
{
    (void)cf_buf_adds(text, "}");
    keep(trace, text);
}

/* ---- kinds of events -------------------------------------------------------------------------------- */

void
cf_trace_frame(struct cf_trace *trace, bool from_harness, uint64_t number, uint64_t at_ms, const char *line, size_t len)
{
    struct cf_buf text;

    begin(&text, "f", at_ms);
    put_number(&text, "n", number);
    put_number(&text, "d", from_harness);
    put_number(&text, "u", trace->turn);
    put_number(&text, "b", len);
    put_text(trace, &text, "x", line, len, CF_TRACE_FRAME_BYTES);
    end(trace, &text);
}

void
cf_trace_observation(struct cf_trace *trace, const struct cf_observation *o)
{
    const char *type = cf_observation_type_name(o->type);
    struct cf_buf text;

    begin(&text, "o", o->at_ms);
    put_number(&text, "q", o->seq);
    put_number(&text, "u", o->turn);
    put_number(&text, "n", o->frame);
    put_word(trace, &text, "y", type);
    put_number(&text, "b", o->json_len);
    put_text(trace, &text, "x", o->json, o->json_len, CF_TRACE_TEXT_BYTES);
    end(trace, &text);
}

static struct phase *
find_phase(struct cf_trace *trace, const char *name, const char *step)
{
    for (size_t i = 0; i < OPEN_PHASES; i++)
        if (trace->phases[i].is_open && strcmp(trace->phases[i].name, name) == 0 && strcmp(trace->phases[i].step, step) == 0)
            return &trace->phases[i];
    return NULL;
}

static void
phase_begins(struct cf_trace *trace, const char *name, const char *step, uint64_t at_ms)
{
    for (size_t i = 0; i < OPEN_PHASES; i++) {
        struct phase *phase = &trace->phases[i];
        if (phase->is_open)
            continue;
        (void)snprintf(phase->name, sizeof phase->name, "%s", name);
        (void)snprintf(phase->step, sizeof phase->step, "%s", step);
        phase->began_ms = at_ms;
        phase->is_open = true;
        break;
    }
    if (strcmp(name, "turn") == 0 && *step == '\0')
        trace->turn++;
}

static void
phase_ends(struct cf_trace *trace, const char *name, const char *step, uint64_t at_ms, uint64_t took_ms)
{
    struct phase *phase = find_phase(trace, name, step);
    struct cf_buf text;

    if (phase != NULL)
        phase->is_open = false;
    begin(&text, "p", at_ms);
    put_word(trace, &text, "y", name);
    put_word(trace, &text, "h", step);
    put_number(&text, "m", took_ms);
    end(trace, &text);
}

static void
put_phase(struct cf_trace *trace, const char *name, const char *step, uint64_t at_ms, uint64_t took_ms)
{
    if (took_ms == UINT64_MAX)
        phase_begins(trace, name, step, at_ms);
    else
        phase_ends(trace, name, step, at_ms, took_ms);
}

static void
put_call(struct cf_trace *trace, json_t *call, uint64_t at_ms)
{
    const char *method = cf_json_str(call, "method"), *path = cf_json_str(call, "path");
    char head[200];
    struct cf_buf text;

    (void)snprintf(head, sizeof head, "%s %s", method != NULL ? method : "?", path != NULL ? path : "");
    begin(&text, "c", at_ms);
    put_number(&text, "n", (uint64_t)cf_json_int(call, "id", 0));
    put_number(&text, "u", (uint64_t)cf_json_int(call, "turn", 0));
    put_number(&text, "m", (uint64_t)cf_json_int(call, "total_ms", 0));
    put_number(&text, "s", (uint64_t)cf_json_int(call, "status", 0));
    put_word(trace, &text, "h", head);
    put_word(trace, &text, "r", cf_json_str(call, "refused"));
    end(trace, &text);
}

static void
put_finding(struct cf_trace *trace, json_t *finding, uint64_t at_ms)
{
    const char *words = cf_json_str(finding, "text");
    struct cf_buf text;

    begin(&text, "g", at_ms);
    put_word(trace, &text, "y", cf_json_str(finding, "id"));
    put_number(&text, "n", (uint64_t)cf_json_int(finding, "frame", 0));
    put_number(&text, "u", trace->turn);
    put_text(trace, &text, "x", words != NULL ? words : "", words != NULL ? strlen(words) : 0, CF_TRACE_TEXT_BYTES);
    end(trace, &text);
}

static void
put_turn(struct cf_trace *trace, json_t *turn, uint64_t at_ms)
{
    struct cf_buf text;

    begin(&text, "u", at_ms);
    put_number(&text, "u", (uint64_t)cf_json_int(turn, "turn", 0));
    put_word(trace, &text, "y", cf_json_str(turn, "outcome"));
    put_word(trace, &text, "h", cf_json_str(turn, "stop_reason"));
    put_word(trace, &text, "r", cf_json_str(cf_json_obj(turn, "error"), "message"));
    put_number(&text, "m", (uint64_t)cf_json_int(turn, "took_ms", 0));
    end(trace, &text);
}

static void
on_error_line(void *user, const char *line, size_t len, uint64_t number, bool overflow)
{
    struct cf_trace *trace = user;
    struct cf_buf text;

    begin(&text, "e", trace->errors_ms);
    put_number(&text, "u", trace->turn);
    put_number(&text, "b", len);
    put_text(trace, &text, "x", line, len, CF_TRACE_TEXT_BYTES);
    end(trace, &text);
}

/* ---- from a recording --------------------------------------------------------------------------------- */

static void
on_output_line(void *user, const char *line, size_t len, uint64_t number, bool overflow)
{
    struct cf_trace *trace = user;

    cf_trace_frame(trace, true, number, trace->output_ms, line, len);
}

static void
put_process(struct cf_trace *trace, const struct cf_record *record)
{
    struct cf_buf text;

    cf_lines_release(&trace->output);
    cf_lines_init(&trace->output, CF_RECORDING_PIECE_BYTES);
    begin(&text, "w", record->at_ms);
    put_number(&text, "u", trace->turn);
    put_text(trace, &text, "x", record->bytes, record->len, CF_TRACE_TEXT_BYTES);
    end(trace, &text);
}

static void
put_recorded_phase(struct cf_trace *trace, json_t *phase, uint64_t at_ms)
{
    const char *name = cf_json_str(phase, "name"), *step = cf_json_str(phase, "step");

    put_phase(trace, name != NULL ? name : "?", step != NULL ? step : "", at_ms,
              (uint64_t)cf_json_int(phase, "took_ms", -1));
}

/* One-shot only: over acp the replayed wire says what the frames are. */
static void
put_stream(struct cf_trace *trace, const struct cf_record *record)
{
    trace->output_ms = record->at_ms;
    if (!trace->is_recorded_oneshot)
        return;
    if (record->kind == CF_RECORD_INPUT)
        cf_trace_frame(trace, false, 0, record->at_ms, record->bytes, record->len);
    else if (record->kind == CF_RECORD_OUTPUT)
        (void)cf_lines_feed(&trace->output, record->bytes, record->len, on_output_line, trace);
    else
        (void)cf_lines_end(&trace->output, on_output_line, trace);
}

static void
put_document(struct cf_trace *trace, unsigned kind, json_t *value, uint64_t at_ms)
{
    switch (kind) {
    case CF_RECORD_START:
        trace->is_recorded_oneshot = cf_str_same(cf_json_str(value, "protocol"), "oneshot-v1");
        break;
    case CF_RECORD_PHASE:
        put_recorded_phase(trace, value, at_ms);
        break;
    case CF_RECORD_MODEL:
        put_call(trace, value, at_ms);
        break;
    case CF_RECORD_FINDING:
        put_finding(trace, value, at_ms);
        break;
    default:
        put_turn(trace, value, at_ms);
    }
}

void
cf_trace_record(struct cf_trace *trace, const struct cf_record *record)
{
    json_t *value;

    switch (record->kind) {
    case CF_RECORD_START:
    case CF_RECORD_PHASE:
    case CF_RECORD_MODEL:
    case CF_RECORD_FINDING:
    case CF_RECORD_TURN:
        value = cf_json_parse(record->bytes, record->len, NULL, NULL);
        put_document(trace, record->kind, value, record->at_ms);
        json_decref(value);
        break;
    case CF_RECORD_OUTPUT:
    case CF_RECORD_INPUT:
    case CF_RECORD_END:
        put_stream(trace, record);
        break;
    case CF_RECORD_SPAWN:
        put_process(trace, record);
        break;
    default:
        break; /* what the page has from elsewhere, or nobody looks at */
    }
}

/* ---- from a run ------------------------------------------------------------------------------------------ */

static uint64_t
now(const struct cf_trace *trace)
{
    return cf_clock_ms() - trace->opened_ms;
}

/* What the run stamps itself tells when its own clock began. */
static void
learn_clock(struct cf_trace *trace, uint64_t at_ms)
{
    uint64_t opened_ms = cf_clock_ms() - at_ms;

    if (opened_ms < trace->opened_ms || !trace->knows_clock)
        trace->opened_ms = opened_ms;
    trace->knows_clock = true;
}

static void
on_phase(void *user, const char *name, const char *step, uint64_t took_ms)
{
    struct cf_trace *trace = user;

    put_phase(trace, name, step, now(trace), took_ms);
    if (trace->next.on_phase != NULL)
        trace->next.on_phase(trace->next.user, name, step, took_ms);
}

static int
on_observation(void *user, const struct cf_observation *observation)
{
    struct cf_trace *trace = user;

    learn_clock(trace, observation->at_ms);
    cf_trace_observation(trace, observation);
    return trace->next.on_observation != NULL ? trace->next.on_observation(trace->next.user, observation) : CF_RUN_CONTINUE;
}

static void
on_frame(void *user, int from_harness, uint64_t number, uint64_t at_ms, const char *line, size_t len)
{
    struct cf_trace *trace = user;

    learn_clock(trace, at_ms);
    cf_trace_frame(trace, from_harness != 0, number, at_ms, line, len);
    if (trace->next.on_frame != NULL)
        trace->next.on_frame(trace->next.user, from_harness, number, at_ms, line, len);
}

static void
on_stderr(void *user, const char *bytes, size_t len)
{
    struct cf_trace *trace = user;

    trace->errors_ms = now(trace);
    (void)cf_lines_feed(&trace->errors, bytes, len, on_error_line, trace);
    if (trace->next.on_stderr != NULL)
        trace->next.on_stderr(trace->next.user, bytes, len);
}

static void
on_call(void *user, const char *json, size_t len)
{
    struct cf_trace *trace = user;
    json_t *call = cf_json_parse(json, len, NULL, NULL);

    put_call(trace, call, now(trace));
    json_decref(call);
    if (trace->next.on_call != NULL)
        trace->next.on_call(trace->next.user, json, len);
}

static void
on_finding(void *user, const char *json, size_t len)
{
    struct cf_trace *trace = user;
    json_t *finding = cf_json_parse(json, len, NULL, NULL);

    put_finding(trace, finding, now(trace));
    json_decref(finding);
    if (trace->next.on_finding != NULL)
        trace->next.on_finding(trace->next.user, json, len);
}

static void
on_turn(void *user, uint32_t turn, const char *json, size_t len)
{
    struct cf_trace *trace = user;
    json_t *outcome = cf_json_parse(json, len, NULL, NULL);

    put_turn(trace, outcome, now(trace));
    json_decref(outcome);
    if (trace->next.on_turn != NULL)
        trace->next.on_turn(trace->next.user, turn, json, len);
}

/* Those that are only handed on: their user is another one now. */
static void
on_progress(void *user, const char *what, const char *json, size_t len)
{
    struct cf_trace *trace = user;

    trace->next.on_progress(trace->next.user, what, json, len);
}

static void
on_log(void *user, int level, const char *room, const char *line)
{
    struct cf_trace *trace = user;

    trace->next.on_log(trace->next.user, level, room, line);
}

static void
on_ready(void *user)
{
    struct cf_trace *trace = user;

    trace->next.on_ready(trace->next.user);
}

void
cf_trace_listen(struct cf_trace *trace, struct cf_run_host *host)
{
    trace->next = *host;
    host->user = trace;
    host->on_phase = on_phase;
    host->on_observation = on_observation;
    host->on_frame = on_frame;
    host->on_stderr = on_stderr;
    host->on_call = on_call;
    host->on_finding = on_finding;
    host->on_turn = on_turn;
    host->on_progress = host->on_progress != NULL ? on_progress : NULL;
    host->on_log = host->on_log != NULL ? on_log : NULL;
    host->on_ready = host->on_ready != NULL ? on_ready : NULL;
}

/* ---- the whole --------------------------------------------------------------------------------------------- */

struct cf_trace *
cf_trace_new(const struct cf_mask *mask)
{
    struct cf_trace *trace = calloc(1, sizeof *trace);

    if (trace == NULL)
        return NULL;
    trace->mask = mask;
    trace->opened_ms = cf_clock_ms();
    trace->head.events = calloc(CF_TRACE_PART_EVENTS, sizeof *trace->head.events);
    trace->tail.events = calloc(CF_TRACE_PART_EVENTS, sizeof *trace->tail.events);
    cf_lines_init(&trace->errors, STDERR_LINE_BYTES);
    cf_lines_init(&trace->output, CF_RECORDING_PIECE_BYTES);
    if (trace->head.events == NULL || trace->tail.events == NULL) {
        cf_trace_free(trace);
        return NULL;
    }
    return trace;
}

void
cf_trace_free(struct cf_trace *trace)
{
    if (trace == NULL)
        return;
    while (trace->head.events != NULL && trace->head.count > 0)
        drop_first(&trace->head);
    while (trace->tail.events != NULL && trace->tail.count > 0)
        drop_first(&trace->tail);
    free(trace->head.events);
    free(trace->tail.events);
    cf_lines_release(&trace->errors);
    cf_lines_release(&trace->output);
    free(trace);
}

static void
append_part(const struct part *part, struct cf_buf *to, const char **separator)
{
    for (size_t i = 0; i < part->count; i++) {
        const struct event *event = &part->events[(part->first + i) % CF_TRACE_PART_EVENTS];
        (void)cf_buf_adds(to, *separator);
        (void)cf_buf_add(to, event->json, event->len);
        *separator = ",\n";
    }
}

/* Phases that did not end: a failure, as a rule, in the innermost. */
static void
append_open(const struct cf_trace *trace, struct cf_buf *to, const char **separator)
{
    for (size_t i = 0; i < OPEN_PHASES; i++) {
        const struct phase *phase = &trace->phases[i];
        if (!phase->is_open)
            continue;
        (void)cf_buf_addf(to, "%s{\"k\":\"p\",\"t\":%llu", *separator, (unsigned long long)phase->began_ms);
        put_word(trace, to, "y", phase->name);
        put_word(trace, to, "h", phase->step);
        (void)cf_buf_adds(to, ",\"m\":null}");
        *separator = ",\n";
    }
}

void
cf_trace_append(struct cf_trace *trace, struct cf_buf *to)
{
    const char *separator = "";

    (void)cf_lines_end(&trace->errors, on_error_line, trace);
    (void)cf_buf_adds(to, "[");
    append_part(&trace->head, to, &separator);
    if (trace->left_out > 0) {
        (void)cf_buf_addf(to, "%s{\"k\":\"x\",\"n\":%llu}", separator, (unsigned long long)trace->left_out);
        separator = ",\n";
    }
    append_part(&trace->tail, to, &separator);
    append_open(trace, to, &separator);
    (void)cf_buf_adds(to, "]");
}
