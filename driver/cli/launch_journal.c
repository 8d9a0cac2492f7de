/* Flags of a run's journal -> the options document. */
#include "cli/launch.h"

#include "base/str.h"

int
cf_launch_journal(const struct cf_launch_flags *f, json_t *options, struct cf_error *err)
{
    const struct {
        const char *flag, *member, *value;
    } texts[] = {{"--journal", "directory", f->journal},
                 {"--identity", "identity", f->identity},
                 {"--repository-id", "repository_id", f->repository_id},
                 {"--thread-id", "thread_id", f->thread_id},
                 {"--claim-path", NULL, f->claim_paths.count > 0 ? f->claim_paths.items[0] : NULL}};
    const char *missing = NULL, *given = f->claim_ms != 0 ? "--claim-ttl" : NULL;
    json_t *journal, *paths = json_array();
    bool is_good = true;

    journal = json_pack("{s:o}", "claim_paths", paths);
    for (size_t i = 0; i < CF_COUNT(texts); i++) {
        if (texts[i].value == NULL)
            missing = missing == NULL ? texts[i].flag : missing;
        else
            given = texts[i].flag;
        if (texts[i].value != NULL && texts[i].member != NULL)
            is_good &= json_object_set_new(journal, texts[i].member, json_string(texts[i].value)) == 0;
    }
    for (size_t i = 0; i < f->claim_paths.count; i++)
        is_good &= json_array_append_new(paths, json_string(f->claim_paths.items[i])) == 0;
    if (f->claim_ms != 0)
        (void)json_object_set_new(journal, "claim_ms", json_integer((json_int_t)f->claim_ms));
    if (given == NULL || missing != NULL) {
        json_decref(journal);
        if (given == NULL)
            return 0;
        (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "%s is given, but %s is missing", given, missing);
        return cf_error_fix(err, "give --journal, --identity, --repository-id, --thread-id and --claim-path together");
    }
    (void)json_object_set_new(options, "journal", journal);
    return is_good ? 0 : cf_error_set(err, CF_ERROR_CONFIG, 0, "a value of the journal's flags is not UTF-8");
}
