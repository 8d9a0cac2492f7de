/* Pull, build and push, counted. */
#include "cli/progress.h"

#include "base/str.h"
#include "base/utf8.h"
#include "json/json.h"

#include <stdio.h>
#include <string.h>

static size_t
layer_of(struct cf_progress *p, const char *id)
{
    for (size_t i = 0; i < p->count; i++)
        if (strncmp(p->layers[i].id, id, sizeof p->layers[i].id - 1) == 0)
            return i;
    if (p->count == CF_PROGRESS_LAYERS)
        return CF_PROGRESS_LAYERS;
    (void)snprintf(p->layers[p->count].id, sizeof p->layers[0].id, "%.15s", id);
    return p->count++;
}

static bool
is_whole_word(const char *status)
{
    static const char *const words[] = {"Pull complete", "Pushed", "Already exists", "Layer already exists",
                                        "Download complete", "Mounted from"};

    for (size_t i = 0; i < CF_COUNT(words); i++)
        if (cf_str_starts(status, words[i]))
            return true;
    return false;
}

static void
feed_layer(struct cf_progress *p, json_t *object, const char *id, const char *status)
{
    json_t *detail = cf_json_obj(object, "progressDetail");
    int64_t done = cf_json_int(detail, "current", 0), total = cf_json_int(detail, "total", 0);
    size_t i;

    /* "latest: Pulling from library/x" has an id that is none of a layer */
    if (cf_str_starts(status, "Pulling from"))
        return;
    i = layer_of(p, id);
    if (i == CF_PROGRESS_LAYERS)
        return;
    if (total > 0)
        p->layers[i].total = (uint64_t)total;
    if (is_whole_word(status)) {
        p->layers[i].is_whole = true;
        p->layers[i].done = p->layers[i].total;
    } else if (done > 0 && !cf_str_starts(status, "Extracting")) {
        p->layers[i].done = (uint64_t)done;
    }
}

/* "2/6 : COPY a b" as "2/6: COPY a b". */
static void
tidy_step(char *step)
{
    char *colon = strstr(step, " : ");

    if (colon != NULL)
        memmove(colon, colon + 1, strlen(colon));
}

void
cf_progress_feed(struct cf_progress *p, const char *what, const char *json, size_t len)
{
    json_t *object = cf_json_parse(json, len, NULL, &(struct cf_error){0});
    const char *id = cf_json_str(object, "id"), *status = cf_json_str(object, "status"),
               *stream = cf_json_str(object, "stream");

    if (strncmp(p->what, what, sizeof p->what - 1) != 0) {
        memset(p, 0, sizeof *p);
        (void)snprintf(p->what, sizeof p->what, "%s", what);
    }
    if (id != NULL && status != NULL)
        feed_layer(p, object, id, status);
    else if (stream != NULL && cf_str_starts(stream, "Step "))
        (void)snprintf(p->step, sizeof p->step, "%.*s", (int)cf_utf8_cut(stream + 5, strlen(stream + 5), 110), stream + 5);
    else if (status != NULL)
        (void)snprintf(p->step, sizeof p->step, "%.*s", (int)cf_utf8_cut(status, strlen(status), 110), status);
    cf_utf8_make_line(p->step);
    tidy_step(p->step);
    json_decref(object);
}

int
cf_progress_text(const struct cf_progress *p, char *out, size_t size)
{
    uint64_t done = 0, total = 0;
    size_t whole = 0;

    for (size_t i = 0; i < p->count; i++) {
        whole += p->layers[i].is_whole;
        done += p->layers[i].done < p->layers[i].total ? p->layers[i].done : p->layers[i].total;
        total += p->layers[i].total;
    }
    if (p->count == 0)
        (void)snprintf(out, size, "%s%s%s", p->what, *p->step ? " " : "", p->step);
    else if (total == 0)
        (void)snprintf(out, size, "%s %zu of %zu layers", p->what, whole, p->count);
    else
        (void)snprintf(out, size, "%s %zu of %zu layers, %.1f of %.1f MB", p->what, whole, p->count, (double)done / 1e6,
                       (double)total / 1e6);
    return total > 0 ? (int)(1000.0 * ((double)done / (double)total)) : -1;
}
