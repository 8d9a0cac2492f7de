/* sandbox/pathstat.h: what the archive API says about one path: a header, base64 of JSON.
 * Pure. */
#ifndef CF_SANDBOX_PATHSTAT_H
#define CF_SANDBOX_PATHSTAT_H

#include "base/error.h"

#include <stdint.h>

enum cf_path_type { CF_PATH_FILE, CF_PATH_FOLDER, CF_PATH_SYMLINK, CF_PATH_OTHER };

struct cf_path_stat {
    enum cf_path_type type;
    unsigned mode; /* the nine permission bits */
    uint64_t size;
    char target[4096]; /* of a symlink, absolute as the engine resolved it, or as it is
                          written; else "" */
};

/* `header` is X-Docker-Container-Path-Stat's value. CF_ERROR_ENGINE when it is not what it
 * should be. */
CF_CHECKED int cf_path_stat_read(const char *header, struct cf_path_stat *ret,
                                 struct cf_error *err);

/* "a file", "a folder", ... ; static. */
const char *cf_path_type_name(enum cf_path_type type);

#endif
