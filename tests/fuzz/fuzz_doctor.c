/* fuzz_doctor.c: what an engine says of itself, judged. Whatever it says, each line has a fact that fits a
 * terminal, and a next step where it is not well. */
#include "diagnose/doctor.h"

#include "json/json.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
require(bool holds)
{
    if (!holds)
        abort();
}

static void
judge(json_t *facts)
{
    json_t *lines = cf_doctor_lines(facts), *line;
    size_t i;

    json_array_foreach(lines, i, line)
    {
        const char *fact = cf_json_str(line, "fact"), *status = cf_json_str(line, "status");
        require(cf_json_str(line, "id") != NULL && fact != NULL && *fact != '\0' && strpbrk(fact, "\n\r\t\033") == NULL);
        require((cf_json_str(line, "next") == NULL) == (strcmp(status, "ok") == 0));
    }
    json_decref(lines);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *said = cf_json_parse((const char *)data, size, NULL, NULL), *facts;

    if (said == NULL)
        return 0;
    judge(said); /* as all of the facts, and as the engine's /info among them */
    facts = json_pack("{s:{s:s, s:s}, s:O, s:O}", "engine", "endpoint", "unix:///s", "arch", "amd64", "info", said, "sandbox", said);
    judge(facts);
    json_decref(facts);
    json_decref(said);
    return 0;
}
