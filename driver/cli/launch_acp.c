/*
 * Flags of ACP sessions -> the options document: what is offered to the agent, and the authority
 * that session/new asks for. Whether a word is the contract's, the run itself says, in one place.
 */
#include "cli/launch.h"

#include "base/str.h"
#include "json/json.h"

#include <string.h>

static void
set_text(json_t *object, const char *name, const char *value)
{
    if (value != NULL)
        (void)json_object_set_new(object, name, json_string(value));
}

static int
set_mcp(json_t *options, const struct cf_flag_list *list, struct cf_error *err)
{
    json_t *servers = json_array();

    (void)json_object_set_new(options, "mcp", servers);
    for (size_t i = 0; i < list->count; i++) {
        const char *item = list->items[i], *equals = strchr(item, '=');
        json_t *server = equals == NULL ? NULL
                                        : json_pack("{s:s, s:s%, s:s, s:[]}", "type", "http", "name", item,
                                                    (size_t)(equals - item), "url", equals + 1, "headers");
        if (server == NULL || equals == item ||
            !(cf_str_starts(equals + 1, "http://") || cf_str_starts(equals + 1, "https://"))) {
            json_decref(server);
            (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "--mcp: %.200s is not NAME=URL", item);
            return cf_error_fix(err, "e.g. --mcp tracker=https://mcp.example/tracker");
        }
        (void)json_array_append_new(servers, server);
    }
    return 0;
}

static int
set_config(json_t *options, const struct cf_flag_list *list, struct cf_error *err)
{
    json_t *config = json_object();

    (void)json_object_set_new(options, "config", config);
    for (size_t i = 0; i < list->count; i++) {
        const char *item = list->items[i], *equals = strchr(item, '=');
        cf_auto_free char *name = equals != NULL ? strndup(item, (size_t)(equals - item)) : NULL;
        json_t *value = equals == NULL                         ? NULL
                        : strcmp(equals + 1, "true") == 0  ? json_true()
                        : strcmp(equals + 1, "false") == 0 ? json_false()
                                                           : json_string(equals + 1);
        if (name == NULL || *name == '\0' || json_object_set_new(config, name, value) < 0)
            return cf_error_set(err, CF_ERROR_CONFIG, 0, "--config: %.200s is not ID=VALUE", item);
    }
    return 0;
}

/* Names the agent may use, as they stand: the contract's list is checked where it is sent. */
static json_t *
tools_of(const char *list)
{
    json_t *tools = json_array();

    while (*list != '\0') {
        size_t len = strcspn(list, ",");
        if (len > 0)
            (void)json_array_append_new(tools, json_stringn(list, len));
        list += len + (list[len] == ',');
    }
    return tools;
}

static int
set_resume(const struct cf_launch_flags *f, json_t *meta, struct cf_error *err)
{
    size_t len = 0;
    cf_auto_free char *bytes = NULL;
    json_t *state;

    if (f->resume_state == NULL)
        return 0;
    bytes = cf_read_file(f->resume_state, 8u << 20, &len, err);
    if (bytes == NULL)
        return cf_error_fix(err, "a conversation without a state (it became too large, or none was kept) starts "
                                 "afresh: leave --resume-state out");
    state = cf_json_parse(bytes, len, NULL, err);
    if (state == NULL)
        return cf_error_wrap(err, "%s", f->resume_state);
    (void)json_object_set_new(meta, "checkfu.resume", state);
    if (f->continuity == NULL)
        (void)json_object_set_new(meta, "checkfu.continuity", json_string("same_run_resume"));
    return 0;
}

static int
set_session_meta(const struct cf_launch_flags *f, json_t *options, struct cf_error *err)
{
    json_t *meta = json_object(), *config, *schema;

    (void)json_object_set_new(options, "session_meta", meta);
    if (f->builtin_tools != NULL)
        (void)json_object_set_new(meta, "checkfu.builtin_tools", tools_of(f->builtin_tools));
    set_text(meta, "checkfu.continuity", f->continuity);
    if (f->context_window != 0) {
        config = json_pack("{s:I}", "context_window_tokens", (json_int_t)f->context_window);
        if (f->compaction_trigger != 0)
            (void)json_object_set_new(config, "compaction", json_pack("{s:s, s:I}", "strategy", "native", "trigger_tokens",
                                                                      (json_int_t)f->compaction_trigger));
        (void)json_object_set_new(meta, "checkfu.runtime_config", config);
    } else if (f->compaction_trigger != 0) {
        (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "--compaction-trigger needs --context-window");
        return cf_error_fix(err, "add --context-window with the model's exact window");
    }
    if (f->output_schema != NULL) {
        schema = cf_read_json_file(f->output_schema, err);
        if (schema == NULL)
            return -1;
        (void)json_object_set_new(meta, "checkfu.output_schema", schema);
    }
    if (set_resume(f, meta, err) < 0)
        return -1;
    if (json_object_size(meta) == 0)
        (void)json_object_del(options, "session_meta"); /* nothing asked for: not even an empty _meta */
    return 0;
}

int
cf_launch_acp(const struct cf_launch_flags *f, const struct cf_launch *launch, json_t *options, struct cf_error *err)
{
    bool is_acp = cf_str_same(cf_json_str(launch->release, "protocol"), "acp-v1");

    set_text(options, "elicitation", f->elicitation);
    set_text(options, "mode", f->mode);
    set_text(options, "session", f->session);
    set_text(options, "session_method", f->session_method);
    set_text(options, "session_end", f->session_end);
    if (f->fs)
        (void)json_object_set_new(options, "fs", json_true());
    if (f->terminal)
        (void)json_object_set_new(options, "terminal", json_true());
    if (f->mcp.count > 0 && set_mcp(options, &f->mcp, err) < 0)
        return -1;
    if (f->config.count > 0 && set_config(options, &f->config, err) < 0)
        return -1;
    if (is_acp)
        return set_session_meta(f, options, err);
    if (f->builtin_tools != NULL || f->continuity != NULL || f->context_window != 0 || f->compaction_trigger != 0 ||
        f->resume_state != NULL || f->checkpoint_out != NULL || f->steers.count > 0 || f->drain || f->session != NULL ||
        f->session_method != NULL || f->session_end != NULL || f->attached.count > 0) {
        (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "--builtin-tools, --continuity, --context-window, --compaction-trigger, "
                                                    "--resume-state, --checkpoint-out, --steer-after, --drain, --attach and "
                                                    "--session... are of acp-v1");
        return cf_error_fix(err, "leave them out, or test an acp-v1 harness");
    }
    return 0;
}
