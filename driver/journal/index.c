/*
 * The index file: a store, its keys and the place in the log up to which they are right, as
 * one block that is mapped and used where it lies. Derived, never needed: a missing, damaged
 * or foreign one only makes the next open read the log from its start.
 */
#include "journal/room.h"

#include "base/error.h"
#include "base/ids.h"
#include "correspond/correspond.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define INDEX_NAME "index"
#define INDEX_MAGIC 0x317865646e69666au
#define BLOCK_ALIGN 4096u

struct index_head {
    uint64_t magic;
    uint64_t checksum; /* over all that follows this member */
    uint64_t size, head_size, block_at, block_size;
    uint64_t end, last_at, records, key_count;
    struct cf_digest digest;
    char project_id[40];
};

/* Four lanes, so that it runs as fast as memory does; against rot, not against malice. */
static uint64_t
checksum(const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    uint64_t lane[4] = {0x9e3779b97f4a7c15u, 0xbf58476d1ce4e5b9u, 0x94d049bb133111ebu, len};

    for (; len >= 32; at += 32, len -= 32) {
        uint64_t word[4];
        memcpy(word, at, sizeof word);
        for (int i = 0; i < 4; i++) {
            lane[i] = (lane[i] ^ word[i]) * 0xff51afd7ed558ccdu;
            lane[i] ^= lane[i] >> 29;
        }
    }
    for (; len > 0; at++, len--)
        lane[0] = (lane[0] ^ *at) * 0xff51afd7ed558ccdu;
    return lane[0] ^ (lane[1] << 13 | lane[1] >> 51) ^ (lane[2] << 29 | lane[2] >> 35) ^
           (lane[3] << 43 | lane[3] >> 21);
}

static uint64_t
checksum_of(const struct index_head *head, uint64_t size)
{
    size_t skip = offsetof(struct index_head, size);

    return checksum((const char *)head + skip, size - skip);
}

/* NULL: sound in itself. */
static const char *
check_head(const struct index_head *head, uint64_t size)
{
    if (size < sizeof *head || head->magic != INDEX_MAGIC || head->head_size != sizeof *head ||
        head->size != size)
        return "index_malformed";
    if (head->checksum != checksum_of(head, size))
        return "index_checksum_mismatch";
    if (head->block_at > size || head->block_size > size - head->block_at ||
        head->block_at % 64 != 0 ||
        head->key_count > (head->block_at - sizeof *head) / sizeof(struct cf_corr_key) ||
        memchr(head->project_id, '\0', CF_CORR_UUID_SIZE) == NULL ||
        head->last_at >= head->end)
        return "index_malformed";
    return NULL;
}

/* A private mapping: what changes in it is ours alone. It becomes writable after it is filled:
 * filling a writable one would copy every page. */
static struct index_head *
map_index(int dir_fd, size_t *ret_size)
{
    int fd = openat(dir_fd, INDEX_NAME, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);
    struct stat st;
    void *map = MAP_FAILED;

    if (fd < 0)
        return NULL;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
        st.st_size >= (off_t)sizeof(struct index_head))
        map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
    (void)close(fd);
    if (map == MAP_FAILED)
        return NULL;
    if (mprotect(map, (size_t)st.st_size, PROT_READ | PROT_WRITE) < 0) {
        (void)munmap(map, (size_t)st.st_size);
        return NULL;
    }
    *ret_size = (size_t)st.st_size;
    return map;
}

/* Whether the log still has, in the same place, the record that the index ends with. */
static bool
is_of_this_log(const struct cf_journal *journal, const struct index_head *head)
{
    static const struct cf_digest none;
    size_t len = head->end - head->last_at;
    struct cf_record record = {0};
    struct cf_digest computed;
    char *line;
    bool is_same;

    if (len > CF_LOG_LINE_MAX || (line = malloc(len)) == NULL)
        return false;
    is_same = pread(journal->log_fd, line, len, (off_t)head->last_at) == (ssize_t)len &&
              line[len - 1] == '\n';
    if (is_same) {
        (void)cf_record_read(line, len - 1, &none, &record,
                             &computed); /* only for the digest as written */
        is_same = memcmp(&record.digest, &head->digest, sizeof record.digest) == 0;
    }
    free(line);
    return is_same;
}

static int
use_index(struct cf_journal *journal, struct index_head *head)
{
    const struct cf_corr_key *keys = (const struct cf_corr_key *)(head + 1);

    journal->store = cf_corr_store_load((char *)head + head->block_at, head->block_size,
                                        cf_journal_fetch, journal);
    if (journal->store == NULL)
        return -1;
    for (uint64_t i = 0; i < head->key_count; i++) {
        if (cf_corr_keyring_put(journal->keyring, &keys[i]) < 0) {
            cf_corr_store_free(journal->store);
            journal->store = NULL;
            return -1;
        }
    }
    memcpy(journal->project_id, head->project_id, sizeof journal->project_id);
    journal->end = head->end;
    journal->last_at = head->last_at;
    journal->records = journal->indexed_records = head->records;
    journal->digest = head->digest;
    return 0;
}

void
cf_index_load(struct cf_journal *journal)
{
    size_t size = 0;
    struct index_head *head = map_index(journal->dir_fd, &size);

    if (head == NULL)
        return;
    if (check_head(head, size) != NULL || !is_of_this_log(journal, head) ||
        use_index(journal, head) < 0) {
        (void)munmap(head, size);
        return;
    }
    journal->map = head;
    journal->map_size = size;
}

const char *
cf_index_check(int dir_fd, bool *ret_is_absent)
{
    size_t size = 0;
    struct index_head *head;
    const char *reason;

    *ret_is_absent =
        faccessat(dir_fd, INDEX_NAME, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
    if (*ret_is_absent)
        return NULL;
    head = map_index(dir_fd, &size);
    if (head == NULL)
        return "index_malformed";
    reason = check_head(head, size);
    (void)munmap(head, size);
    return reason;
}

static void
fill_index(const struct cf_journal *journal, struct index_head *head, uint64_t block_at,
           size_t block_size)
{
    struct cf_corr_key *keys = (struct cf_corr_key *)(head + 1);

    *head = (struct index_head){
        .magic = INDEX_MAGIC,
        .size = block_at + block_size,
        .head_size = sizeof *head,
        .block_at = block_at,
        .block_size = block_size,
        .end = journal->end,
        .last_at = journal->last_at,
        .records = journal->records,
        .key_count = cf_corr_keyring_count(journal->keyring),
        .digest = journal->digest,
    };
    memcpy(head->project_id, journal->project_id, sizeof journal->project_id);
    for (uint64_t i = 0; i < head->key_count; i++)
        keys[i] = *cf_corr_keyring_at(journal->keyring, i);
    cf_corr_store_save(journal->store, (char *)head + block_at);
    head->checksum = checksum_of(head, head->size);
}

static int
write_index(const struct cf_journal *journal, const char *bytes, size_t len,
            struct cf_error *err)
{
    char name[64], random[33];
    int fd;
    bool is_whole = true;

    cf_id_hex(random);
    (void)snprintf(name, sizeof name, ".index-%s", random);
    fd = openat(journal->dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return cf_error_set(err, CF_ERROR_INTERNAL, errno, "creating an index in %s: %s",
                            journal->dir, strerror(errno));
    while (len > 0 && is_whole) {
        ssize_t n = write(fd, bytes, len);
        is_whole = n > 0 || (n < 0 && errno == EINTR);
        if (n > 0) {
            bytes += n;
            len -= (size_t)n;
        }
    }
    /* No sync: what a crash leaves of it does not fit its checksum. */
    if (close(fd) < 0 || !is_whole ||
        renameat(journal->dir_fd, name, journal->dir_fd, INDEX_NAME) < 0) {
        (void)unlinkat(journal->dir_fd, name, 0); /* may be gone already */
        return cf_error_set(err, CF_ERROR_INTERNAL, errno, "writing an index in %s: %s",
                            journal->dir, strerror(errno));
    }
    return 0;
}

int
cf_index_save(struct cf_journal *journal, struct cf_error *err)
{
    size_t block_size = cf_corr_store_save_size(journal->store);
    uint64_t head_size = sizeof(struct index_head) +
                         cf_corr_keyring_count(journal->keyring) * sizeof(struct cf_corr_key);
    uint64_t block_at = (head_size + BLOCK_ALIGN - 1) / BLOCK_ALIGN * BLOCK_ALIGN;
    struct index_head *head = calloc(1, block_at + block_size);
    int status;

    if (head == NULL)
        return cf_error_memory(err);
    fill_index(journal, head, block_at, block_size);
    status = write_index(journal, (const char *)head, head->size, err);
    if (status == 0)
        journal->indexed_records = journal->records;
    free(head);
    return status;
}
