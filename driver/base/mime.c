/* Media types by a name's ending: those that files staged for an agent usually have. */
#include "base/mime.h"

#include "base/str.h"

#include <string.h>
#include <strings.h>

static const struct {
    const char *ending, *type;
} types[] = {
    {"txt", "text/plain"},         {"md", "text/markdown"},      {"csv", "text/csv"},
    {"html", "text/html"},         {"htm", "text/html"},         {"css", "text/css"},
    {"js", "text/javascript"},     {"mjs", "text/javascript"},   {"xml", "application/xml"},
    {"json", "application/json"},  {"ndjson", "application/x-ndjson"},
    {"yaml", "application/yaml"},  {"yml", "application/yaml"},  {"toml", "application/toml"},
    {"pdf", "application/pdf"},    {"zip", "application/zip"},   {"gz", "application/gzip"},
    {"tar", "application/x-tar"},  {"png", "image/png"},         {"jpg", "image/jpeg"},
    {"jpeg", "image/jpeg"},        {"gif", "image/gif"},         {"webp", "image/webp"},
    {"svg", "image/svg+xml"},      {"mp3", "audio/mpeg"},        {"wav", "audio/wav"},
    {"mp4", "video/mp4"},          {"c", "text/x-c"},            {"h", "text/x-c"},
    {"py", "text/x-python"},       {"sh", "application/x-sh"},
};

const char *
cf_mime_type(const char *name)
{
    const char *slash = strrchr(name, '/'), *dot = strrchr(slash != NULL ? slash : name, '.');

    for (size_t i = 0; dot != NULL && i < CF_COUNT(types); i++)
        if (strcasecmp(types[i].ending, dot + 1) == 0)
            return types[i].type;
    return NULL;
}
