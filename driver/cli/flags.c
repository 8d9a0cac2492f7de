/* argv against a table. */
#include "cli/flags.h"

#include "base/str.h"
#include "base/utf8.h"

#include <math.h>
#include <string.h>

static unsigned
least(unsigned a, unsigned b, unsigned c)
{
    unsigned m = a < b ? a : b;

    return m < c ? m : c;
}

unsigned
cf_flags_distance(const char *a, const char *b)
{
    unsigned row[48], n = (unsigned)strlen(a), m = (unsigned)strlen(b);

    if (n >= CF_COUNT(row) || m >= CF_COUNT(row))
        return 99;
    for (unsigned j = 0; j <= m; j++)
        row[j] = j;
    for (unsigned i = 1; i <= n; i++) {
        unsigned before = row[0];
        row[0] = i;
        for (unsigned j = 1; j <= m; j++) {
            unsigned above = row[j];
            row[j] = least(above + 1, row[j - 1] + 1, before + (a[i - 1] != b[j - 1]));
            before = above;
        }
    }
    return row[m];
}

static int
unknown(const struct cf_flag *table, size_t count, const char *name, struct cf_error *err)
{
    const char *nearest = NULL;
    unsigned best = 5;

    for (size_t i = 0; i < count; i++) {
        unsigned d = table[i].kind == CF_FLAG_TITLE ? 99 : cf_flags_distance(table[i].name, name);
        if (d < best) {
            best = d;
            nearest = table[i].name;
        }
    }
    (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "unknown flag %.80s", name);
    if (nearest != NULL)
        return cf_error_fix(err, "did you mean %s? --help lists all flags", nearest);
    return cf_error_fix(err, "--help lists all flags");
}

static const struct cf_flag *
find(const struct cf_flag *table, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (table[i].kind != CF_FLAG_TITLE && strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

static int
wrong(const struct cf_flag *flag, const char *value, const char *form, struct cf_error *err)
{
    (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "%s: %.100s is not %s", flag->name, value, form);
    return cf_error_fix(err, "write %s=%s", flag->name, flag->value);
}

static int
take_value(const struct cf_flag *flag, const char *value, void *target, struct cf_error *err)
{
    void *to = (char *)target + flag->offset;
    struct cf_flag_list *list = to;
    char *end;

    /* Values go into documents, and what is no text would be lost on the way there. */
    if (!cf_utf8_is_valid(value, strlen(value))) {
        (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "%s: %.100s is not UTF-8", flag->name, value);
        return cf_error_fix(err, "a name in another encoding can be reached by a link with a plain name");
    }
    switch (flag->kind) {
    case CF_FLAG_TEXT:
        if (*(const char **)to != NULL)
            return cf_error_set(err, CF_ERROR_CONFIG, 0, "%s is given twice", flag->name);
        *(const char **)to = value;
        return 0;
    case CF_FLAG_LIST:
        if (list->count == CF_FLAG_LIST_MOST)
            return cf_error_set(err, CF_ERROR_CONFIG, 0, "%s is given more than %d times", flag->name, CF_FLAG_LIST_MOST);
        list->items[list->count++] = value;
        return 0;
    case CF_FLAG_BYTES:
        return cf_parse_bytes(value, to) ? 0 : wrong(flag, value, "a size like 512m or 2g", err);
    case CF_FLAG_TIME:
        return cf_parse_duration_ms(value, to) ? 0 : wrong(flag, value, "a time like 30s, 5m or 1500ms", err);
    case CF_FLAG_NUMBER:
        return cf_parse_u64(value, 0, UINT64_MAX / 2, to) ? 0 : wrong(flag, value, "a whole number", err);
    case CF_FLAG_REAL:
        *(double *)to = strtod(value, &end);
        return *value != '\0' && *end == '\0' && isfinite(*(double *)to) ? 0 : wrong(flag, value, "a number", err);
    default:
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "%s takes no value", flag->name);
    }
}

static bool
takes_value(const struct cf_flag *flag)
{
    return flag->kind != CF_FLAG_SWITCH && flag->kind != CF_FLAG_COUNT;
}

/* "-v", "-vv": a letter may stand several times behind one dash. */
static int
take_short(const struct cf_flag *table, size_t count, const char *arg, void *target, struct cf_error *err)
{
    char name[3] = {'-', arg[1], '\0'};
    const struct cf_flag *flag = find(table, count, name);

    if (flag == NULL || takes_value(flag))
        return unknown(table, count, arg, err);
    for (const char *letter = arg + 1; *letter != '\0'; letter++) {
        if (*letter != arg[1])
            return unknown(table, count, arg, err);
        if (flag->kind == CF_FLAG_COUNT)
            ++*(int *)((char *)target + flag->offset);
        else
            *(bool *)((char *)target + flag->offset) = true;
    }
    return 0;
}

static int
take_long(const struct cf_flag *table, size_t count, int argc, char **argv, int *at, void *target, struct cf_error *err)
{
    const char *arg = argv[*at], *equals = strchr(arg, '=');
    char name[64];
    const struct cf_flag *flag;

    (void)snprintf(name, sizeof name, "%.*s", equals != NULL ? (int)(equals - arg) : (int)strlen(arg), arg);
    flag = find(table, count, name);
    if (flag == NULL)
        return unknown(table, count, name, err);
    if (!takes_value(flag)) {
        if (equals != NULL)
            return cf_error_set(err, CF_ERROR_CONFIG, 0, "%s takes no value", name);
        *(bool *)((char *)target + flag->offset) = true;
        return 0;
    }
    if (equals != NULL)
        return take_value(flag, equals + 1, target, err);
    if (*at + 1 >= argc || find(table, count, argv[*at + 1]) != NULL) {
        (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "%s needs a value", name);
        return cf_error_fix(err, "write %s=%s; in that form the value may begin with dashes", name, flag->value);
    }
    return take_value(flag, argv[++*at], target, err);
}

int
cf_flags_read(const struct cf_flag *table, size_t count, int argc, char **argv, void *target,
              struct cf_flag_list *rest, struct cf_error *err)
{
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        int status = 0;
        if (arg[0] == '-' && arg[1] == '-' && arg[2] != '\0')
            status = take_long(table, count, argc, argv, &i, target, err);
        else if (arg[0] == '-' && arg[1] != '\0' && arg[1] != '-')
            status = take_short(table, count, arg, target, err);
        else if (rest == NULL || rest->count == CF_FLAG_LIST_MOST)
            status = cf_error_set(err, CF_ERROR_CONFIG, 0, "unexpected word %.100s", arg);
        else
            rest->items[rest->count++] = arg;
        if (status < 0)
            return -1;
    }
    return 0;
}

void
cf_flags_help(const struct cf_flag *table, size_t count, FILE *to)
{
    for (size_t i = 0; i < count; i++) {
        char left[64];
        if (table[i].kind == CF_FLAG_TITLE) {
            fprintf(to, "%s\n", table[i].name);
            continue;
        }
        (void)snprintf(left, sizeof left, "%s%s%s", table[i].name, table[i].value != NULL ? " " : "",
                       table[i].value != NULL ? table[i].value : "");
        fprintf(to, "  %-33s %s\n", left, table[i].help);
    }
}

/* All flags of a group, wrapped beneath its title: a screen for a command with many. */
void
cf_flags_brief(const struct cf_flag *table, size_t count, FILE *to)
{
    int column = 0;

    for (size_t i = 0; i < count; i++) {
        char word[80];
        int width;
        if (table[i].kind == CF_FLAG_TITLE) {
            fprintf(to, "%s%s:", column > 0 ? "\n" : "", table[i].name);
            column = (int)strlen(table[i].name) + 1;
            continue;
        }
        width = snprintf(word, sizeof word, "%s%s", table[i].name, table[i].value != NULL ? "=" : "");
        if (column + width + 1 > 80) {
            fprintf(to, "\n ");
            column = 1;
        }
        fprintf(to, " %s", word);
        column += width + 1;
    }
    fprintf(to, "\n");
}
