/* Flags of the model relay and of the forward proxy -> the options document. Keys stay where
 * they are: the document names a variable or a file. */
#include "cli/launch.h"

#include "base/str.h"
#include "json/json.h"

#include <string.h>

#define FILE_LIMIT (4u << 20)

static json_t *
list_of(const struct cf_flag_list *list)
{
    json_t *items = json_array();

    for (size_t i = 0; i < list->count; i++)
        if (json_array_append_new(items, json_string(list->items[i])) < 0)
            (void)json_array_append_new(
                items, json_string("\xef\xbf\xbd")); /* refused later, by name */
    return items;
}

static int
read_document(const char *flag, const char *path, json_t *relay, const char *member,
              struct cf_error *err)
{
    static const struct cf_json_limits limits = {FILE_LIMIT, 64, 200000, true, true};
    size_t len = 0;
    cf_auto_free char *bytes = NULL;
    json_t *document;

    if (path == NULL)
        return 0;
    bytes = cf_read_file(path, FILE_LIMIT, &len, err);
    document = bytes != NULL ? cf_json_parse(bytes, len, &limits, err) : NULL;
    if (document == NULL)
        return cf_error_wrap(err, "%s %.200s", flag, path);
    return json_object_set_new(relay, member, document);
}

/* ---- upstreams ---------------------------------------------------------------------------
 */

static int
add_upstream(json_t *upstreams, const char *item, struct cf_error *err)
{
    const char *equals = strchr(item, '=');
    json_t *upstream;

    if (equals == NULL || equals == item || equals[1] == '\0') {
        (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "--upstream: %.200s is not PROVIDER=URL",
                           item);
        return cf_error_fix(err, "e.g. --upstream anthropic=https://api.anthropic.com");
    }
    upstream =
        json_pack("{s:s%, s:s}", "provider", item, (size_t)(equals - item), "url", equals + 1);
    if (upstream == NULL)
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "--upstream: a value that is not UTF-8");
    return json_array_append_new(upstreams, upstream);
}

/* "[PROVIDER=]VALUE": for the upstream of that name, else for all that have none yet. */
static int
add_to_upstreams(json_t *upstreams, const struct cf_flag_list *list, const char *flag,
                 const char *member, struct cf_error *err)
{
    json_t *upstream;
    size_t at;

    for (size_t i = 0; i < list->count; i++) {
        const char *item = list->items[i], *value = item;
        const char *equals = strchr(item, '=');
        size_t len = equals != NULL ? (size_t)(equals - item) : 0;
        bool is_set = false;

        json_array_foreach(upstreams, at, upstream) {
            const char *provider = cf_json_str(upstream, "provider");
            if (equals != NULL && strlen(provider) == len &&
                memcmp(provider, item, len) == 0) {
                value = equals + 1;
                is_set = json_object_set_new(upstream, member, json_string(value)) == 0;
            }
        }
        if (value != item)
            continue;
        json_array_foreach(upstreams, at, upstream)
            if (json_object_get(upstream, member) == NULL)
                is_set =
                    json_object_set_new(upstream, member, json_string(value)) == 0 || is_set;
        if (!is_set) {
            (void)cf_error_set(err, CF_ERROR_CONFIG, 0,
                               "%s: there is no --upstream for %.200s", flag, item);
            return cf_error_fix(err, "give --upstream PROVIDER=URL first");
        }
    }
    return 0;
}

static int
set_upstreams(const struct cf_launch_flags *f, json_t *relay, struct cf_error *err)
{
    json_t *upstreams = json_array();

    for (size_t i = 0; i < f->upstreams.count; i++)
        if (add_upstream(upstreams, f->upstreams.items[i], err) < 0) {
            json_decref(upstreams);
            return -1;
        }
    if (add_to_upstreams(upstreams, &f->upstream_key_envs, "--upstream-key-env", "key_env",
                         err) < 0 ||
        add_to_upstreams(upstreams, &f->upstream_key_files, "--upstream-key-file", "key_file",
                         err) < 0 ||
        add_to_upstreams(upstreams, &f->upstream_cas, "--upstream-ca", "ca_file", err) < 0) {
        json_decref(upstreams);
        return -1;
    }
    if (json_array_size(upstreams) > 0)
        return json_object_set_new(relay, "upstreams", upstreams);
    json_decref(upstreams);
    return 0;
}

/* ---- the whole ---------------------------------------------------------------------------
 */

static void
set_caps(const struct cf_launch_flags *f, json_t *relay)
{
    const struct {
        const char *member;
        uint64_t value;
    } caps[] = {{"calls", f->max_calls},
                {"calls_at_once", f->max_concurrent},
                {"request_bytes", f->max_request_bytes},
                {"response_bytes", f->max_response_bytes},
                {"input_tokens", f->max_input_tokens},
                {"output_tokens", f->max_output_tokens},
                {"wall_ms", f->lease_ms}};

    for (size_t i = 0; i < CF_COUNT(caps); i++)
        if (caps[i].value != 0)
            (void)json_object_set_new(relay, caps[i].member,
                                      json_integer((json_int_t)caps[i].value));
    if (f->max_cost != 0)
        (void)json_object_set_new(relay, "cost", json_real(f->max_cost));
}

int
cf_launch_relay(const struct cf_launch_flags *f, json_t *options, struct cf_error *err)
{
    json_t *relay = json_object();

    set_caps(f, relay);
    if (f->allow_models.count > 0)
        (void)json_object_set_new(relay, "models", list_of(&f->allow_models));
    if (f->ledger != NULL &&
        json_object_set_new(relay, "ledger", json_string(f->ledger)) < 0) {
        json_decref(relay);
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "--ledger: a name that is not UTF-8");
    }
    if (set_upstreams(f, relay, err) < 0 ||
        read_document("--model-script", f->model_script, relay, "model_script", err) < 0 ||
        read_document("--price-file", f->price_file, relay, "prices", err) < 0) {
        json_decref(relay);
        return -1;
    }
    if (f->max_turn_calls != 0)
        (void)json_object_set_new(options, "max_calls_per_turn",
                                  json_integer((json_int_t)f->max_turn_calls));
    if (f->allow_hosts.count > 0)
        (void)json_object_set_new(options, "allow_hosts", list_of(&f->allow_hosts));
    if (json_object_size(relay) > 0)
        return json_object_set_new(options, "relay", relay);
    json_decref(relay);
    return 0;
}
