/* A prompt's content blocks as one user message for the model. */
#include "turn.h"

#include "base/str.h"
#include "base/utf8.h"
#include "file.h"

#include <stdlib.h>
#include <string.h>

enum { TEXT_LIMIT = 64 * 1024 * 1024, LINKED_LIMIT = 256 * 1024 };

static const char *
text_of(json_t *block, const char *name)
{
    return json_string_value(json_object_get(block, name));
}

static void
add_string(struct cf_buf *text, json_t *value)
{
    if (json_is_string(value))
        cf_buf_add(text, json_string_value(value), json_string_length(value));
}

/* "file:///a%20b" as "/a b"; NULL for any other kind of URI. Yours. */
static char *
local_path(const char *uri)
{
    char *path, *to;

    if (uri == NULL || !cf_str_starts(uri, "file:///"))
        return NULL;
    path = to = strdup(uri + strlen("file://"));
    for (const char *from = path; from != NULL && *from != '\0'; from++, to++) {
        char hex[3] = { 0 }, *end;

        *to = *from;
        if (*from != '%' || from[1] == '\0' || from[2] == '\0')
            continue;
        memcpy(hex, from + 1, 2);
        long code = strtol(hex, &end, 16);
        if (*end == '\0' && code != 0) {
            *to = (char)code;
            from += 2;
        }
    }
    if (to != NULL)
        *to = '\0';
    return path;
}

/* A staged file's text goes to the model with it; a link that leads to no readable text stays a
 * name and a place. */
static void
add_link(struct hn_agent *agent, struct cf_buf *text, json_t *block)
{
    const char *name = text_of(block, "name"), *uri = text_of(block, "uri");
    cf_auto_free char *path = agent->options->declared.staged_files ? local_path(uri) : NULL;
    struct cf_buf content = { .limit_bytes = LINKED_LIMIT };
    struct cf_error err;

    cf_buf_addf(text, "\n[file %s at %s]\n", name, uri);
    if (path != NULL && hn_file_read(path, &content, &err) == 0 &&
        cf_utf8_is_valid(content.data, content.len))
        cf_buf_add(text, content.data, content.len);
    cf_buf_release(&content);
}

static int
add_block(struct hn_agent *agent, struct cf_buf *text, json_t *block, struct cf_error *err)
{
    const char *type = text_of(block, "type");
    json_t *resource = json_object_get(block, "resource");

    if (type == NULL)
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "a prompt block has no type");
    if (strcmp(type, "text") == 0 && json_is_string(json_object_get(block, "text"))) {
        add_string(text, json_object_get(block, "text"));
    } else if (strcmp(type, "resource_link") == 0 && text_of(block, "name") != NULL &&
               text_of(block, "uri") != NULL) {
        add_link(agent, text, block);
    } else if (strcmp(type, "resource") == 0 && text_of(resource, "uri") != NULL) {
        cf_buf_addf(text, "\n[resource %s]\n", text_of(resource, "uri"));
        add_string(text, json_object_get(resource, "text"));
    } else if (agent->options->accept_media && text_of(block, "mimeType") != NULL &&
               (strcmp(type, "image") == 0 || strcmp(type, "audio") == 0)) {
        cf_buf_addf(text, "\n[%s %s, %zu characters of base64]\n", type, text_of(block, "mimeType"),
                    json_string_length(json_object_get(block, "data")));
    } else {
        return cf_error_set(err, CF_ERROR_CONFIG, 0,
                            "prompt block of type %s: malformed, or not advertised", type);
    }
    return 0;
}

int
hn_prompt_read(struct hn_agent *agent, json_t *blocks, json_t **ret_message, struct cf_error *err)
{
    struct cf_buf text = { .limit_bytes = TEXT_LIMIT };
    int status = 0;
    json_t *block;
    size_t i;

    if (!json_is_array(blocks))
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "prompt must be an array");
    json_array_foreach (blocks, i, block)
        if (status == 0)
            status = add_block(agent, &text, block, err);
    if (status == 0 && text.failed)
        status = cf_error_set(err, CF_ERROR_TOO_LARGE, 0, "the prompt is larger than 64 MiB");
    if (status == 0)
        *ret_message = json_pack("{s:s, s:o}", "role", "user", "text",
                                 json_stringn(text.data != NULL ? text.data : "", text.len));
    cf_buf_release(&text);
    return status;
}
