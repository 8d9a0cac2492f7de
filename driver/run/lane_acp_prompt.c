/* One session/prompt: the blocks it is made of. */
#include "run/lane_acp.h"

#include "base/str.h"
#include "json/json.h"

#include <string.h>

char *
cf_acp_file_uri(const char *path)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";
    struct cf_buf uri;

    cf_buf_init(&uri, 0);
    (void)cf_buf_adds(&uri, "file://");
    for (; *path != '\0'; path++)
        if (strchr(plain, *path) != NULL)
            (void)cf_buf_add(&uri, path, 1);
        else
            (void)cf_buf_addf(&uri, "%%%02X", (unsigned char)*path);
    if (uri.failed) {
        cf_buf_release(&uri);
        return NULL;
    }
    return cf_buf_take(&uri, NULL);
}

static json_t *
text_block(json_t *text)
{
    return json_pack("{s:s, s:O}", "type", "text", "text", text);
}

/* Answers to earlier turns, the text, one link a staged file in the first turn, blocks of the host's. */
static json_t *
prompt_blocks(struct cf_run *run, const char *answers)
{
    json_t *blocks = json_array(), *file, *link;
    size_t i;

    if (answers != NULL)
        (void)json_array_append_new(blocks, json_pack("{s:s, s:s}", "type", "text", "text", answers));
    (void)json_array_append_new(blocks, text_block(json_object_get(run->prompt.json, "text")));
    if (run->declaration.staged_files && run->turn == 1)
        json_array_foreach(run->staged_files, i, file) {
            cf_auto_free char *uri = cf_acp_file_uri(cf_json_str(file, "path"));
            link = json_pack("{s:s, s:O, s:s}", "type", "resource_link", "name", json_object_get(file, "name"), "uri",
                             uri != NULL ? uri : "");
            if (json_object_get(file, "size") != NULL)
                (void)json_object_set(link, "size", json_object_get(file, "size"));
            if (json_object_get(file, "mimeType") != NULL)
                (void)json_object_set(link, "mimeType", json_object_get(file, "mimeType"));
            (void)json_array_append_new(blocks, link);
        }
    json_array_foreach(run->prompt.blocks, i, file)
        (void)json_array_append(blocks, file);
    return blocks;
}

int
cf_acp_begin(struct cf_run *run, struct cf_error *err)
{
    cf_auto_free char *answers = NULL;
    json_t *blocks;
    int status;

    if (run->harness.has_exited) {
        cf_harness_exit_error(run, "after its last turn", err);
        return -1;
    }
    if (run->harness.stdout_ended)
        return cf_error_set(err, CF_ERROR_HARNESS, 0, "the harness closed its stdout after its last turn");
    if (cf_acp_reinject(run, &answers, err) < 0)
        return -1;
    blocks = prompt_blocks(run, answers);
    status = blocks == NULL ? cf_error_memory(err) : cf_acp_prompt(run->acp, blocks, err);
    json_decref(blocks);
    run->turn_state = CF_TURN_RUNNING;
    cf_hall_kick(run); /* steers may be waiting */
    return status;
}
