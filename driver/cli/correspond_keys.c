/* Making an identity, and signing with it. The secret goes into one file and nowhere else. */
#include "cli/correspond_cmd.h"

#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct keygen_options {
    const char *out, *identity, *signing_key, *device;
};

static int
write_secret(const char *path, const char *text, size_t len, struct cf_error *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600),
        status = 0;

    if (fd < 0 && errno == EEXIST) {
        cf_error_set(err, CF_ERROR_CONFIG, EEXIST,
                     "%s is there already; a key is never overwritten", path);
        return cf_error_fix(err, "choose another file");
    }
    if (fd < 0)
        return cf_error_set(err, CF_ERROR_CONFIG, errno, "creating %s: %s", path,
                            strerror(errno));
    /* The umask may have taken bits, never added any. */
    if (write(fd, text, len) != (ssize_t)len || fsync(fd) < 0) {
        status = cf_error_set(err, CF_ERROR_INTERNAL, errno, "writing %s: %s", path,
                              strerror(errno));
        (void)unlink(path);
    }
    (void)close(fd);
    return status;
}

static int
set_id(const char *given, char id[CF_CORR_UUID_SIZE])
{
    if (given == NULL)
        return 0;
    if (cf_corr_check_uuid(given, strlen(given)) != NULL)
        return -1;
    memcpy(id, given, CF_CORR_UUID_SIZE);
    return 0;
}

/* The public part is exactly one entry of a keyring. */
static int
print_public(const struct cf_corr_identity *identity)
{
    char key[CF_CORR_B64_KEY_SIZE];
    unsigned char public_key[32];
    struct cf_buf out;
    int code;

    cf_corr_public_key(identity->seed, public_key);
    cf_corr_key_encode(public_key, key);
    cf_buf_init(&out, 0);
    cf_buf_addf(&out,
                "{\"identity_id\":\"%s\",\"signing_key_id\":\"%s\",\"public_key_b64url\":\"%"
                "s\",\"active\":true}",
                identity->identity_id, identity->signing_key_id, key);
    code = out.failed ? 4 : cf_correspond_print(out.data, out.len, true, 0);
    cf_buf_release(&out);
    return code;
}

int
cf_correspond_keygen(int argc, char **argv)
{
    static const char usage[] = "cfrunner correspond keygen --out FILE";
    static const struct cf_flag table[] = {
        {"--out", CF_FLAG_TEXT, offsetof(struct keygen_options, out), "FILE",
         "the identity file to make (0600)"},
        {"--identity", CF_FLAG_TEXT, offsetof(struct keygen_options, identity), "UUID",
         "identity id (random)"},
        {"--signing-key", CF_FLAG_TEXT, offsetof(struct keygen_options, signing_key), "UUID",
         "key id (random)"},
        {"--device", CF_FLAG_TEXT, offsetof(struct keygen_options, device), "UUID",
         "device id (random)"},
    };
    struct keygen_options options = {0};
    struct cf_corr_identity identity;
    struct cf_error err = {0};
    char *text;
    size_t len = 0;
    int status =
        cf_correspond_flags(usage, table, CF_COUNT(table), argc, argv, &options, NULL);

    if (status != 0)
        return status < 0 ? 2 : 0;
    if (options.out == NULL)
        return cf_correspond_usage(usage, "keygen needs --out FILE");
    cf_corr_identity_make(&identity);
    if (set_id(options.identity, identity.identity_id) < 0 ||
        set_id(options.signing_key, identity.signing_key_id) < 0 ||
        set_id(options.device, identity.device_id) < 0)
        return cf_correspond_usage(usage, "ids are UUIDs in lower case");
    text = cf_corr_identity_text(&identity, &len);
    status = text == NULL ? cf_error_memory(&err) : write_secret(options.out, text, len, &err);
    if (text != NULL)
        sodium_memzero(text, len);
    free(text);
    status = status < 0 ? cf_correspond_failed(&err) : print_public(&identity);
    sodium_memzero(&identity, sizeof identity);
    return status;
}

static void
warn_about_file(const char *path, const struct cf_corr_identity *identity)
{
    struct stat st;

    if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 077) != 0)
        fprintf(stderr,
                "cfrunner: warning: %s can be read by others (mode %03o); chmod 600 it\n",
                path, (unsigned)st.st_mode & 0777u);
    if (cf_corr_is_test_seed(identity->seed))
        fprintf(stderr, "cfrunner: warning: this is the published test key; what it signs "
                        "proves nothing\n");
}

static int
read_identity(const char *path, struct cf_corr_identity *identity, struct cf_error *err)
{
    struct cf_corr_refusal refusal;
    struct cf_buf text;
    int status;

    if (cf_correspond_read(path, CF_CORR_EVENT_BYTES_MAX, &text, err) < 0)
        return -1;
    status = cf_corr_identity_read(text.data == NULL ? "" : text.data, text.len, identity,
                                   &refusal);
    if (text.data != NULL)
        sodium_memzero(text.data, text.len);
    cf_buf_release(&text);
    if (status == 0)
        return 0;
    cf_error_set(err, CF_ERROR_CONFIG, 0, "identity file %s: %s%s%s", path, refusal.reason,
                 refusal.pointer[0] == '\0' ? "" : " at ", refusal.pointer);
    return cf_error_fix(err, "make one with: cfrunner correspond keygen --out FILE");
}

/* The core must name the key that signs it, as far as the file tells. */
static int
check_sender(const struct cf_corr_event *core, const struct cf_corr_identity *identity,
             struct cf_corr_refusal *refusal)
{
    struct cf_corr_event_view view;

    cf_corr_event_view(core, &view);
    *refusal =
        (struct cf_corr_refusal){.reason = "sender_or_signing_key_not_active", .offset = -1};
    if (identity->signing_key_id[0] != '\0' &&
        strcmp(identity->signing_key_id, view.signing_key_id) != 0)
        strcpy(refusal->pointer, "/sender/signing_key_id");
    else if (identity->identity_id[0] != '\0' &&
             strcmp(identity->identity_id, view.identity_id) != 0)
        strcpy(refusal->pointer, "/sender/identity_id");
    else
        return 0;
    return -1;
}

static int
sign_text(const struct cf_buf *text, const struct cf_corr_identity *identity)
{
    struct cf_corr_event *core = NULL, *event = NULL;
    struct cf_corr_refusal refusal;
    char *full;
    size_t len;
    int code = 4;

    if (cf_corr_event_parse(text->data == NULL ? "" : text->data, text->len, CF_CORR_CORE,
                            &core, &refusal) < 0 ||
        check_sender(core, identity, &refusal) < 0 ||
        cf_corr_event_sign(core, identity->seed, &event, &refusal) < 0) {
        cf_corr_event_free(core);
        return cf_correspond_refused(&refusal, 0);
    }
    full = cf_corr_event_text(event, &len);
    if (full != NULL)
        code = cf_correspond_print(full, len, true, 0);
    free(full);
    cf_corr_event_free(core);
    cf_corr_event_free(event);
    return code;
}

int
cf_correspond_sign(int argc, char **argv)
{
    static const char usage[] = "cfrunner correspond sign --key FILE < core.json";
    struct {
        const char *key;
    } options = {0};
    static const struct cf_flag table[] = {
        {"--key", CF_FLAG_TEXT, 0, "FILE", "the identity file, as keygen made it"},
    };
    struct cf_corr_identity identity;
    struct cf_error err = {0};
    struct cf_buf text;
    int status =
        cf_correspond_flags(usage, table, CF_COUNT(table), argc, argv, &options, NULL);

    if (status != 0)
        return status < 0 ? 2 : 0;
    if (options.key == NULL)
        return cf_correspond_usage(usage, "sign needs --key FILE");
    if (read_identity(options.key, &identity, &err) < 0 ||
        cf_correspond_read(NULL, CF_CORR_EVENT_BYTES_MAX, &text, &err) < 0)
        return cf_correspond_failed(&err);
    warn_about_file(options.key, &identity);
    status = sign_text(&text, &identity);
    sodium_memzero(&identity, sizeof identity);
    cf_buf_release(&text);
    return status;
}
