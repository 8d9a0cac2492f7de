/* docker's own files: context metadata, config.json's credentials, a helper's answer. */
#include "engine/auth.h"
#include "engine/docker_config.h"
#include "engine/endpoint.h"
#include "json/json.h"

#include <stdint.h>
#include <stdlib.h>

static void
use_context(const char *bytes, size_t len)
{
    struct cf_docker_context context = {0};
    struct cf_endpoint endpoint;
    struct cf_error err;

    if (cf_docker_context_parse(bytes, len, "x", &context, &err) < 0)
        return;
    if (cf_endpoint_parse(context.host, context.skip_verify, &endpoint, &err) == 0)
        cf_endpoint_release(&endpoint);
    cf_docker_context_release(&context);
}

static void
use_auth(json_t *auth)
{
    if (auth == NULL)
        return;
    char *header = cf_auth_encode(auth);
    cf_auth_wipe(header);
    json_decref(auth);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cf_error err;
    json_t *auth = NULL, *config = cf_json_parse((const char *)data, size, NULL, &err);

    use_context((const char *)data, size);
    (void)cf_auth_helper_name(config, "docker.io");
    if (cf_auth_from_file(config, "docker.io", &auth, &err) == 0)
        use_auth(auth);
    auth = NULL;
    if (cf_auth_from_helper((const char *)data, size, "r:1", &auth, &err) == 0)
        use_auth(auth);
    json_decref(config);
    return 0;
}
