/*
 * The matrix file and its baseline. Read strictly and wholly before anything runs: a matrix that
 * stops in the middle of the night because of a misspelt name has wasted the night.
 */
#include "diagnose/matrix.h"

#include <cfrunner/release.h>

#include "base/str.h"
#include "json/json.h"

#include <stdio.h>
#include <string.h>

#define NAME_MOST 40

static int
wrong(struct cf_error *err, const char *what, const char *name, const char *fix)
{
    (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "matrix: %s%s%s", name != NULL ? name : "", name != NULL ? " " : "", what);
    return cf_error_fix(err, "%s", fix);
}

static int
check_members(const json_t *object, const char *where, const char *const *known, struct cf_error *err)
{
    const char *name;
    json_t *value;

    if (!json_is_object(object))
        return wrong(err, "is not an object", where, "proto/matrix.schema.json has its form");
    json_object_foreach((json_t *)object, name, value)
    {
        size_t i = 0;
        while (known[i] != NULL && strcmp(known[i], name) != 0)
            i++;
        if (known[i] != NULL)
            continue;
        (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "matrix: %s has no member %.60s", where, name);
        return cf_error_fix(err, "proto/matrix.schema.json has its form");
    }
    return 0;
}

/* A name is a file's name and a table's cell, too. */
static bool
is_name(const char *name)
{
    size_t len = name != NULL ? strlen(name) : 0;

    return len > 0 && len <= NAME_MOST && name[0] != '.' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == len;
}

/* Each has a name of its own and no member that it cannot have. */
static int
check_axis(const json_t *list, const char *axis, const char *const *known, struct cf_error *err)
{
    if (!json_is_array(list) || json_array_size(list) == 0)
        return wrong(err, "is not a list with something in it", axis, "proto/matrix.schema.json has its form");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        const char *name = cf_json_str(item, "name");
        if (check_members(item, axis, known, err) < 0)
            return -1;
        if (!is_name(name))
            return wrong(err, "has an item without a name of letters, digits, dot, dash and underscore, at most 40", axis,
                         "name each image, protocol and set of options");
        for (size_t k = 0; k < i; k++)
            if (cf_str_same(name, cf_json_str(json_array_get(list, k), "name")))
                return wrong(err, "stands there twice", name, "give each a name of its own");
    }
    return 0;
}

static bool
has_name(const json_t *list, const char *name)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (cf_str_same(cf_json_str(json_array_get(list, i), "name"), name))
            return true;
    return false;
}

static int
check_images(const json_t *document, struct cf_error *err)
{
    static const char *const known[] = {"name", "image", "build_context", "dockerfile", "protocols", NULL};
    const json_t *images = json_object_get(document, "images"), *protocols = json_object_get(document, "protocols");

    if (check_axis(images, "images", known, err) < 0)
        return -1;
    for (size_t i = 0; i < json_array_size(images); i++) {
        const json_t *image = json_array_get(images, i), *own = json_object_get(image, "protocols");
        if ((cf_json_str(image, "image") == NULL) == (cf_json_str(image, "build_context") == NULL))
            return wrong(err, "has not exactly one of image and build_context", cf_json_str(image, "name"),
                         "give NAME@sha256:HEX, or a folder");
        for (size_t k = 0; k < json_array_size(own); k++)
            if (!has_name(protocols, json_string_value(json_array_get(own, k))))
                return wrong(err, "names a protocol that is not in protocols", cf_json_str(image, "name"), "name it as it stands there");
    }
    return 0;
}

static int
check_exclude(const json_t *document, struct cf_error *err)
{
    static const char *const known[] = {"image", "protocol", "options", NULL};
    static const char *const axes[] = {"images", "protocols", "options"};
    const json_t *exclude = json_object_get(document, "exclude");

    for (size_t i = 0; i < json_array_size(exclude); i++) {
        const json_t *item = json_array_get(exclude, i);
        if (check_members(item, "exclude", known, err) < 0)
            return -1;
        if (json_object_size(item) == 0)
            return wrong(err, "has an item that would leave out everything", "exclude", "name an image, a protocol or options");
        for (size_t k = 0; k < 3; k++) {
            const json_t *name = json_object_get(item, known[k]);
            if (name != NULL && !has_name(json_object_get(document, axes[k]), json_string_value(name)))
                return wrong(err, "names what is not there", "exclude", "name it as it stands in the file");
        }
    }
    return 0;
}

static int
check_document(const json_t *document, struct cf_error *err)
{
    static const char *const top[] = {"schema_version", "name", "concurrency", "images", "protocols", "options", "exclude", NULL};
    static const char *const protocol[] = {"name", "release", NULL}, *const options[] = {"name", "release", "options", NULL};
    const json_t *at_once = json_object_get(document, "concurrency");

    if (check_members(document, "the file", top, err) < 0 ||
        check_axis(json_object_get(document, "protocols"), "protocols", protocol, err) < 0 ||
        check_axis(json_object_get(document, "options"), "options", options, err) < 0 || check_images(document, err) < 0 ||
        check_exclude(document, err) < 0)
        return -1;
    if (cf_json_int(document, "schema_version", 0) != 1)
        return wrong(err, "is not 1", "schema_version", "this cfrunner knows version 1");
    if (at_once != NULL && (json_integer_value(at_once) < 1 || json_integer_value(at_once) > (json_int_t)CF_MATRIX_AT_ONCE))
        return wrong(err, "is not within 1 and 16", "concurrency", "each is a container, and an engine has its limits");
    return 0;
}

/* ---- cells ---------------------------------------------------------------------------------- */

static bool
is_left_out(const json_t *document, const json_t *image, const char *protocol, const char *options)
{
    const json_t *own = json_object_get(image, "protocols"), *exclude = json_object_get(document, "exclude");
    bool is_own = own == NULL;

    for (size_t i = 0; i < json_array_size(own); i++)
        is_own |= cf_str_same(json_string_value(json_array_get(own, i)), protocol);
    for (size_t i = 0; i < json_array_size(exclude); i++) {
        const json_t *item = json_array_get(exclude, i);
        const char *of_image = cf_json_str(item, "image"), *of_protocol = cf_json_str(item, "protocol"),
                   *of_options = cf_json_str(item, "options");
        if ((of_image == NULL || cf_str_same(of_image, cf_json_str(image, "name"))) &&
            (of_protocol == NULL || cf_str_same(of_protocol, protocol)) &&
            (of_options == NULL || cf_str_same(of_options, options)))
            return true;
    }
    return !is_own;
}

static int
check_release(const struct cf_matrix_cell *cell, struct cf_error *err)
{
    size_t len = 0;
    cf_auto_free char *text = cf_json_dump(cell->release, &len);
    char *report = NULL;
    int status = text == NULL ? cf_error_memory(err) : cf_release_check(text, len, &report, err);

    cf_release_report_free(report);
    return status < 0 ? cf_error_wrap(err, "matrix: %s", cell->name) : 0;
}

static int
set_context(struct cf_matrix_cell *cell, const json_t *image, const char *folder, struct cf_error *err)
{
    const char *context = cf_json_str(image, "build_context");
    cf_auto_free char *path = NULL;

    if (context == NULL)
        return 0;
    if (asprintf(&path, "%s%s%s", context[0] == '/' ? "" : folder, context[0] == '/' ? "" : "/", context) < 0) {
        path = NULL;
        return cf_error_memory(err);
    }
    (void)json_object_set_new(cell->run_options, "build_context", json_string(path));
    if (json_object_get(image, "dockerfile") != NULL)
        (void)json_object_set(cell->run_options, "dockerfile", json_object_get(image, "dockerfile"));
    return 0;
}

/* The release is the protocol's, what the options say over it, and the image. */
static int
make_cell(struct cf_matrix_cell *cell, const json_t *image, const json_t *protocol, const json_t *options, const char *folder,
          struct cf_error *err)
{
    const char *reference = cf_json_str(image, "image");

    cell->image = cf_json_str(image, "name");
    cell->protocol = cf_json_str(protocol, "name");
    cell->options = cf_json_str(options, "name");
    cell->release = json_deep_copy(json_object_get(protocol, "release"));
    cell->run_options = json_object_get(options, "options") != NULL ? json_deep_copy(json_object_get(options, "options")) : json_object();
    if (asprintf(&cell->name, "%s/%s/%s", cell->image, cell->protocol, cell->options) < 0) {
        cell->name = NULL;
        return cf_error_memory(err);
    }
    if (!json_is_object(cell->release) || !json_is_object(cell->run_options))
        return wrong(err, "has no release or no options that are an object", cell->name, "proto/matrix.schema.json has its form");
    (void)json_object_update(cell->release, json_object_get(options, "release"));
    (void)json_object_set_new(cell->release, "image", json_string(reference != NULL ? reference : "build-context.invalid/ephemeral"));
    (void)json_object_set_new(cell->run_options, "name", json_string(cell->image));
    if (set_context(cell, image, folder, err) < 0)
        return -1;
    return check_release(cell, err);
}

static int
make_cells(struct cf_matrix_plan *plan, const char *folder, struct cf_error *err)
{
    json_t *images = json_object_get(plan->document, "images"), *protocols = json_object_get(plan->document, "protocols"),
           *options = json_object_get(plan->document, "options"), *image, *protocol, *set;
    size_t most = json_array_size(images) * json_array_size(protocols) * json_array_size(options), i, k, n;

    if (most > CF_MATRIX_CELLS)
        return wrong(err, "has over 1,000 cells", NULL, "split it");
    plan->cells = calloc(most + 1, sizeof *plan->cells);
    if (plan->cells == NULL)
        return cf_error_memory(err);
    json_array_foreach(images, i, image)
        json_array_foreach(protocols, k, protocol)
            json_array_foreach(options, n, set)
            {
                if (is_left_out(plan->document, image, cf_json_str(protocol, "name"), cf_json_str(set, "name")))
                    continue;
                plan->count++; /* a half-made one is released, too */
                if (make_cell(&plan->cells[plan->count - 1], image, protocol, set, folder, err) < 0)
                    return -1;
            }
    return plan->count > 0 ? 0 : wrong(err, "has no cell left", NULL, "exclude less");
}

int
cf_matrix_read(json_t *document, const char *folder, struct cf_matrix_plan *plan, struct cf_error *err)
{
    memset(plan, 0, sizeof *plan);
    if (check_document(document, err) < 0)
        return -1;
    plan->document = json_incref(document);
    plan->name = cf_json_str(document, "name") != NULL ? cf_json_str(document, "name") : "matrix";
    plan->at_once = (unsigned)cf_json_int(document, "concurrency", 2);
    if (make_cells(plan, folder, err) == 0)
        return 0;
    cf_matrix_plan_release(plan);
    return -1;
}

void
cf_matrix_plan_release(struct cf_matrix_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        free(plan->cells[i].name);
        json_decref(plan->cells[i].release);
        json_decref(plan->cells[i].run_options);
    }
    free(plan->cells);
    json_decref(plan->document);
    memset(plan, 0, sizeof *plan);
}

int
cf_matrix_check_baseline(const json_t *baseline, struct cf_error *err)
{
    static const char *const top[] = {"schema_version", "excuses", NULL}, *const excuse[] = {"cell", "check", "reason", NULL};
    const json_t *excuses = json_object_get(baseline, "excuses");

    if (check_members(baseline, "the baseline", top, err) < 0)
        return -1;
    if (cf_json_int(baseline, "schema_version", 0) != 1 || !json_is_array(excuses))
        return wrong(err, "is not {\"schema_version\": 1, \"excuses\": [...]}", "the baseline",
                     "proto/matrix-baseline.schema.json has its form");
    for (size_t i = 0; i < json_array_size(excuses); i++) {
        const json_t *item = json_array_get(excuses, i);
        if (check_members(item, "an excuse", excuse, err) < 0)
            return -1;
        for (size_t k = 0; excuse[k] != NULL; k++)
            if (cf_json_str(item, excuse[k]) == NULL || *cf_json_str(item, excuse[k]) == '\0')
                return wrong(err, "has no cell, check or reason", "an excuse",
                             "write {\"cell\": \"image/protocol/options\", \"check\": \"...\", \"reason\": \"...\"}");
    }
    return 0;
}
