/* Which names are open: what the host gave, held against what a request asks for. */
#include "relay/egress_impl.h"

#include "base/str.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

bool
cf_egress_read_authority(const char *text, unsigned usual_port, struct cf_egress_host *to)
{
    const char *end = text + strlen(text), *colon = NULL, *name = text;
    uint64_t port = usual_port;
    size_t len;

    if (text[0] == '[') {
        end = strchr(text, ']');
        if (end == NULL || (end[1] != '\0' && end[1] != ':'))
            return false;
        colon = end[1] == ':' ? end + 1 : NULL;
        name = text + 1;
    } else if ((colon = strchr(text, ':')) != NULL) {
        end = colon;
    }
    if (colon != NULL && !cf_parse_u64(colon + 1, 1, 65535, &port))
        return false;
    len = (size_t)(end - name);
    if (len > 0 && name[len - 1] == '.')
        len--;
    if (len == 0 || len > 253)
        return false;
    for (size_t i = 0; i < len; i++) {
        char ch = (char)tolower((unsigned char)name[i]);
        if (strchr("abcdefghijklmnopqrstuvwxyz0123456789.-_:", ch) == NULL)
            return false;
        to->name[i] = ch;
    }
    to->name[len] = '\0';
    to->port = (unsigned)port;
    return true;
}

int
cf_egress_read_hosts(struct cf_egress *egress, struct cf_error *err)
{
    json_t *host;
    size_t i, count = json_array_size(egress->options.hosts);

    if (count > CF_EGRESS_HOSTS)
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "more than %u hosts to open",
                            CF_EGRESS_HOSTS);
    egress->hosts = calloc(count + 1, sizeof *egress->hosts);
    if (egress->hosts == NULL)
        return cf_error_memory(err);
    json_array_foreach(egress->options.hosts, i, host) {
        const char *text = json_string_value(host);
        if (text == NULL || !cf_egress_read_authority(text, 443, &egress->hosts[i])) {
            (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "%.200s is not a host to open",
                               text != NULL ? text : "what is no text");
            return cf_error_fix(err, "write a plain name, with :PORT where it is not 443; no "
                                     "scheme, no path, no *");
        }
        egress->host_count++;
    }
    return 0;
}

const char *
cf_egress_closed_why(const struct cf_egress *egress, const struct cf_egress_host *host)
{
    bool has_name = false;

    if ((strcmp(host->name, "127.0.0.1") == 0 || strcmp(host->name, "localhost") == 0) &&
        host->port == egress->options.relay_port)
        return "relay";
    for (size_t i = 0; i < egress->host_count; i++) {
        if (strcmp(egress->hosts[i].name, host->name) != 0)
            continue;
        if (egress->hosts[i].port == host->port)
            return NULL;
        has_name = true;
    }
    return has_name ? "port" : "name";
}
