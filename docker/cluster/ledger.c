#include "ledger.h"

#include "base/ids.h"
#include "base/str.h"
#include "base/utf8.h"
#include "json/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const words[] = {"waits", "leased", "done", "failed", "lost"};

static void
item_release(struct ledger_item *item)
{
    free(item->prompt);
    free(item->result);
}

void
ledger_release(struct ledger *ledger)
{
    for (size_t i = 0; i < ledger->count; i++)
        item_release(&ledger->items[i]);
    free(ledger->items);
    memset(ledger, 0, sizeof *ledger);
}

/* ---- items ----------------------------------------------------------------------------- */

static bool
is_id(const char *id)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/";
    size_t len = strlen(id);

    return len > 0 && len <= LEDGER_ID_MOST && strspn(id, allowed) == len;
}

static const struct ledger_item *
find_id(const struct ledger *ledger, const char *id)
{
    for (size_t i = 0; i < ledger->count; i++)
        if (strcmp(ledger->items[i].id, id) == 0)
            return &ledger->items[i];
    return NULL;
}

static int
reserve(struct ledger *ledger, struct cf_error *err)
{
    size_t cap = ledger->cap == 0 ? 64 : ledger->cap * 2;
    struct ledger_item *grown;

    if (ledger->count < ledger->cap)
        return 0;
    if (ledger->count >= LEDGER_ITEMS_MOST)
        return cf_error_set(err, CF_ERROR_TOO_LARGE, 0, "more than %u items", LEDGER_ITEMS_MOST);
    grown = realloc(ledger->items, cap * sizeof *grown);
    if (grown == NULL)
        return cf_error_memory(err);
    ledger->items = grown;
    ledger->cap = cap;
    return 0;
}

static int
take_item(struct ledger *ledger, const json_t *line, struct cf_error *err)
{
    const char *id = cf_json_str(line, "id");
    const json_t *prompt = cf_json_obj(line, "prompt");
    cf_auto_free char *text = NULL;
    struct ledger_item *item;
    size_t len = 0;

    if (id == NULL || !is_id(id))
        return cf_error_set(err, CF_ERROR_CONFIG, 0,
                            "an item's id has 1 to %u letters, digits and -_.:/", LEDGER_ID_MOST);
    if (cf_json_str(prompt, "text") == NULL)
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "item %s has no prompt with a text", id);
    if (find_id(ledger, id) != NULL)
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "item %s is there twice", id);
    text = cf_json_dump(prompt, &len);
    if (text == NULL)
        return cf_error_memory(err);
    if (len > LEDGER_PROMPT_MOST)
        return cf_error_set(err, CF_ERROR_TOO_LARGE, 0, "the prompt of item %s is longer than %u bytes",
                            id, LEDGER_PROMPT_MOST);
    if (reserve(ledger, err) < 0)
        return -1;
    item = &ledger->items[ledger->count];
    memset(item, 0, sizeof *item);
    snprintf(item->id, sizeof item->id, "%s", id);
    item->prompt = cf_steal(text);
    ledger->count++;
    return 0;
}

int
ledger_add(struct ledger *ledger, const char *line, size_t len, struct cf_error *err)
{
    static const struct cf_json_limits limits = {.depth = 32, .reject_duplicates = true};
    json_t *value = cf_json_parse(line, len, &limits, err);
    int status = value != NULL ? take_item(ledger, value, err) : -1;

    json_decref(value);
    return status;
}

/* ---- leases ---------------------------------------------------------------------------- */

struct ledger_item *
ledger_take(struct ledger *ledger, const char *worker, uint64_t now_ms)
{
    for (size_t i = 0; i < ledger->count; i++) {
        struct ledger_item *item = &ledger->items[i];
        if (item->state != LEDGER_WAITS)
            continue;
        item->state = LEDGER_LEASED;
        item->tries++;
        item->until_ms = now_ms + ledger->lease_ms;
        cf_id_hex(item->lease);
        snprintf(item->worker, sizeof item->worker, "%.*s",
                 (int)cf_utf8_cut(worker, strlen(worker), LEDGER_WORKER_MOST), worker);
        return item;
    }
    return NULL;
}

static struct ledger_item *
find_lease(struct ledger *ledger, const char *lease)
{
    if (strlen(lease) != LEDGER_LEASE_SIZE - 1)
        return NULL;
    for (size_t i = 0; i < ledger->count; i++)
        if (strcmp(ledger->items[i].lease, lease) == 0)
            return &ledger->items[i];
    return NULL;
}

/* One that ran out is over the moment it did, whoever comes first: the clock or its worker. */
static struct ledger_item *
find_running(struct ledger *ledger, const char *lease, uint64_t now_ms)
{
    struct ledger_item *item;

    ledger_tick(ledger, now_ms);
    item = find_lease(ledger, lease);
    return item != NULL && item->state == LEDGER_LEASED ? item : NULL;
}

int
ledger_renew(struct ledger *ledger, const char *lease, uint64_t now_ms)
{
    struct ledger_item *item = find_running(ledger, lease, now_ms);

    if (item == NULL)
        return -1;
    item->until_ms = now_ms + ledger->lease_ms;
    return 0;
}

int
ledger_settle(struct ledger *ledger, const char *lease, bool is_done, const char *result,
              uint64_t now_ms)
{
    struct ledger_item *item = find_running(ledger, lease, now_ms);

    if (item == NULL) {
        item = find_lease(ledger, lease);
        return item != NULL && (item->state == LEDGER_DONE || item->state == LEDGER_FAILED) ? 0
                                                                                             : -1;
    }
    item->result = strdup(result);
    item->state = is_done ? LEDGER_DONE : LEDGER_FAILED;
    return 0;
}

void
ledger_tick(struct ledger *ledger, uint64_t now_ms)
{
    for (size_t i = 0; i < ledger->count; i++) {
        struct ledger_item *item = &ledger->items[i];
        bool again = ledger->retries_lost && item->tries < LEDGER_TRIES_MOST;
        if (item->state != LEDGER_LEASED || now_ms < item->until_ms)
            continue;
        item->state = again ? LEDGER_WAITS : LEDGER_LOST;
        item->lease[0] = '\0'; /* what its worker still brings is nobody's */
    }
}

bool
ledger_is_over(const struct ledger *ledger)
{
    return ledger_count(ledger, LEDGER_WAITS) + ledger_count(ledger, LEDGER_LEASED) == 0;
}

size_t
ledger_count(const struct ledger *ledger, enum ledger_state state)
{
    size_t count = 0;

    for (size_t i = 0; i < ledger->count; i++)
        count += ledger->items[i].state == state;
    return count;
}

int
ledger_tell(const struct ledger *ledger, struct cf_buf *out)
{
    for (size_t i = 0; i < ledger->count; i++) {
        const struct ledger_item *item = &ledger->items[i];
        (void)cf_buf_addf(out, "{\"item\":\"%s\",\"state\":\"%s\",\"tries\":%u,\"worker\":",
                          item->id, words[item->state], item->tries);
        (void)cf_json_append_string(out, item->worker, strlen(item->worker));
        (void)cf_buf_addf(out, ",\"result\":%s}\n", item->result != NULL ? item->result : "null");
    }
    (void)cf_buf_addf(out, "{\"items\":%zu", ledger->count);
    for (size_t state = 0; state < sizeof words / sizeof *words; state++)
        (void)cf_buf_addf(out, ",\"%s\":%zu", words[state],
                          ledger_count(ledger, (enum ledger_state)state));
    (void)cf_buf_adds(out, "}\n");
    return out->failed ? -1 : 0;
}
