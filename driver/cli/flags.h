/*
 * cli/flags.h: argv against a table. Every valued flag takes --flag VALUE and --flag=VALUE; in the
 * second form VALUE may begin with dashes. Help is drawn from the same table.
 */
#ifndef CF_CLI_FLAGS_H
#define CF_CLI_FLAGS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum cf_flag_kind {
    CF_FLAG_TEXT,   /* const char * */
    CF_FLAG_LIST,   /* struct cf_flag_list: repeatable */
    CF_FLAG_SWITCH, /* bool */
    CF_FLAG_COUNT,  /* int: -v -v, -vv */
    CF_FLAG_BYTES,  /* uint64_t: 512m, 2g */
    CF_FLAG_TIME,   /* uint64_t milliseconds: 30, 30s, 5m, 1500ms */
    CF_FLAG_NUMBER, /* uint64_t */
    CF_FLAG_REAL,   /* double */
    CF_FLAG_TITLE,  /* a line in the help, no flag */
};

#define CF_FLAG_LIST_MOST 600
struct cf_flag_list {
    const char *items[CF_FLAG_LIST_MOST + 1]; /* NULL-terminated; borrowed from argv */
    size_t count;
};

struct cf_flag {
    const char *name;  /* "--entrypoint", "-v", or a title */
    enum cf_flag_kind kind;
    size_t offset;     /* in the target struct */
    const char *value; /* "PATH", for help; NULL for switches */
    const char *help;  /* one line */
};

/* Reads argv[1..argc) into `target`. Positional words go to `rest` (may be NULL: then they are an
 * error). CF_ERROR_CONFIG names the flag and, for an unknown one, the nearest known. */
CF_CHECKED int cf_flags_read(const struct cf_flag *table, size_t count, int argc, char **argv, void *target,
                             struct cf_flag_list *rest, struct cf_error *err);
/* Levenshtein distance of short words, for "did you mean"; long ones are simply far. */
unsigned cf_flags_distance(const char *a, const char *b);
/* Two columns within 80: "  --flag VALUE   help". */
void cf_flags_help(const struct cf_flag *table, size_t count, FILE *to);
/* The same without the words, a group wrapped beneath its title. */
void cf_flags_brief(const struct cf_flag *table, size_t count, FILE *to);

#endif
