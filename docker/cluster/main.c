/*
 * cfrunner-pool: one job on many engines. A coordinator hands out items under leases; workers, one
 * beside each engine (docker/cluster/service makes a Swarm service of them), run each item in a
 * sandbox of their own engine and bring its result.
 *
 *   cfrunner-pool --serve ADDRESS:PORT --items FILE [--lease-ms N] [--retry-lost] [--deadline S]
 *   cfrunner-pool --work http://ADDRESS:PORT --release FILE --options FILE [--name N] [--at-once N]
 *                 [--memory BYTES]
 *
 * FILE of items: a line of JSON each, {"id":"...","prompt":{"text":"..."}}, a prompt of at most 512 KiB. Both sides share a
 * secret: CFRUNNER_POOL_TOKEN, or the file that --token-file names. A worker's name is --name, or
 * CFRUNNER_POOL_NAME, or the host's. The coordinator's stdout is the list: a line an item, {"item",
 * "state":"done|failed|lost","tries","worker","result"}, and one of sums.
 */
#include "cluster.h"

#include "base/str.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LEASE_MS = 30000, LEASE_LEAST_MS = 1000, TOKEN_LEAST = 16, FILE_MOST = 64 << 20 };

char *
read_file(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = NULL;
    size_t cap = 0, len = 0, n;

    while (file != NULL && len < FILE_MOST) {
        if (cap - len < 2) {
            char *grown = realloc(text, cap = cap * 2 + 65536);
            if (grown == NULL)
                break;
            text = grown;
        }
        n = fread(text + len, 1, cap - len - 1, file);
        len += n;
        if (n == 0)
            break;
    }
    if (file == NULL || ferror(file) || !feof(file) || text == NULL) {
        fprintf(stderr, "cfrunner-pool: %s cannot be read\n", path);
        free(text);
        text = NULL;
    } else {
        text[len] = '\0';
    }
    if (file != NULL)
        fclose(file);
    return text;
}

static int
usage(const char *why)
{
    fprintf(stderr,
            "cfrunner-pool: %s\n"
            "usage: cfrunner-pool --serve ADDRESS:PORT --items FILE [--lease-ms N] [--retry-lost] "
            "[--deadline SECONDS] [--token-file FILE]\n"
            "       cfrunner-pool --work URL --release FILE --options FILE [--name NAME] "
            "[--at-once N] [--memory BYTES]\n"
            "       the secret of both: " CLUSTER_TOKEN_ENV " or that file, at least %d bytes\n",
            why, TOKEN_LEAST);
    return 2;
}

static bool
number(const char *text, uint64_t least, uint64_t most, uint64_t *ret)
{
    return cf_parse_u64(text, least, most, ret);
}

/* Its first line; never freed: it is of use to the end. */
static const char *
read_token(const char *path)
{
    char *text = read_file(path);

    if (text != NULL)
        text[strcspn(text, "\r\n")] = '\0';
    return text;
}

/* NULL, or what is wrong. */
static const char *
read_arguments(int argc, char **argv, struct serve_options *serve_as, struct work_options *work_as)
{
    static const struct option names[] = {
        {"serve", 1, NULL, 's'},    {"items", 1, NULL, 'i'},   {"lease-ms", 1, NULL, 'l'},
        {"retry-lost", 0, NULL, 'r'}, {"deadline", 1, NULL, 'd'}, {"work", 1, NULL, 'w'},
        {"release", 1, NULL, 'R'},  {"options", 1, NULL, 'o'}, {"name", 1, NULL, 'n'},
        {"at-once", 1, NULL, 'a'},  {"memory", 1, NULL, 'm'},  {"token-file", 1, NULL, 't'},
        {NULL, 0, NULL, 0}};
    uint64_t value = 0;
    int name;

    while ((name = getopt_long(argc, argv, "", names, NULL)) != -1) {
        switch (name) {
        case 's': serve_as->address = optarg; break;
        case 'i': serve_as->items = optarg; break;
        case 'r': serve_as->retries_lost = true; break;
        case 'w': work_as->url = optarg; break;
        case 'R': work_as->release = optarg; break;
        case 'o': work_as->options = optarg; break;
        case 'n': work_as->name = optarg; break;
        case 't':
            if ((serve_as->token = work_as->token = read_token(optarg)) == NULL)
                return "the file of the secret cannot be read";
            break;
        case 'l':
            if (!number(optarg, LEASE_LEAST_MS, 86400000, &serve_as->lease_ms))
                return "--lease-ms is 1000 to 86400000";
            break;
        case 'd':
            if (!number(optarg, 1, 10000000, &value))
                return "--deadline is a number of seconds";
            serve_as->deadline_ms = value * 1000;
            break;
        case 'a':
            if (!number(optarg, 1, 1000, &value))
                return "--at-once is 1 to 1000";
            work_as->at_once = (unsigned)value;
            break;
        case 'm':
            if (!number(optarg, 1, UINT64_MAX / 2, &work_as->memory))
                return "--memory is a number of bytes";
            break;
        default: return "what is it to do?";
        }
    }
    return optind < argc ? "too many words" : NULL;
}

int
main(int argc, char **argv)
{
    const char *token = getenv(CLUSTER_TOKEN_ENV), *name = getenv("CFRUNNER_POOL_NAME");
    struct serve_options serve_as = {.token = token, .lease_ms = LEASE_MS};
    struct work_options work_as = {.token = token, .at_once = 4};
    const char *why = read_arguments(argc, argv, &serve_as, &work_as);
    char host[64] = "worker";

    (void)signal(SIGPIPE, SIG_IGN);
    (void)gethostname(host, sizeof host - 1);
    if (work_as.name == NULL)
        work_as.name = name != NULL && *name != '\0' ? name : host;
    if (why != NULL)
        return usage(why);
    if (serve_as.token == NULL || strlen(serve_as.token) < TOKEN_LEAST)
        return usage("there is no secret");
    if (serve_as.address != NULL && serve_as.items != NULL && work_as.url == NULL)
        return serve(&serve_as);
    if (work_as.url != NULL && work_as.release != NULL && work_as.options != NULL &&
        serve_as.address == NULL)
        return work(&work_as);
    return usage("what is it to do?");
}
