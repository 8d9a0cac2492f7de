/* A copy of a diagnostic's options. */
#include "diagnose/kept.h"

#include "base/str.h"

#include <string.h>

static int
keep_retest(struct cf_diagnose_kept *kept, struct cf_error *err)
{
    const char *const *argv = kept->options.retest_argv;
    size_t argc = 0;

    while (argv != NULL && argv[argc] != NULL)
        argc++;
    kept->retest = calloc(argc + 1, sizeof *kept->retest);
    if (kept->retest == NULL)
        return cf_error_memory(err);
    for (size_t i = 0; i < argc; i++)
        if (cf_str_copy(&kept->retest[i], argv[i], err) < 0)
            return -1;
    kept->options.retest_argv = (const char *const *)kept->retest;
    return 0;
}

int
cf_diagnose_keep(struct cf_diagnose_kept *kept, const struct cf_diagnose_options *options, struct cf_error *err)
{
    struct cf_diagnose_options *o = &kept->options;
    const char **words[] = {&o->name, &o->sandbox, &o->model, &o->api_url, &o->connection_file, &o->configuration_file};

    *o = *options;
    o->release = json_deep_copy(options->release);
    o->options = json_deep_copy(options->options);
    if (o->release == NULL || o->options == NULL)
        return cf_error_memory(err);
    for (size_t i = 0; i < CF_COUNT(words); i++) {
        if (cf_str_copy(&kept->words[i], *words[i], err) < 0)
            return -1;
        *words[i] = kept->words[i];
    }
    return keep_retest(kept, err);
}

void
cf_diagnose_kept_release(struct cf_diagnose_kept *kept)
{
    json_decref(kept->options.release);
    json_decref(kept->options.options);
    for (size_t i = 0; i < CF_COUNT(kept->words); i++)
        free(kept->words[i]);
    for (char **arg = kept->retest; arg != NULL && *arg != NULL; arg++)
        free(*arg);
    free(kept->retest);
    memset(kept, 0, sizeof *kept);
}
