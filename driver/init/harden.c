/*
 * What keeps programs of the same user away from pid 1: not dumpable (so ptrace, its memory,
 * its descriptors and its environment are closed), a seccomp filter for the calls that take a
 * pid and do not ask about that, and an OOM score that is written back.
 */
#include "init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

int
cf_harden(struct cf_init *init, const char **ret_what)
{
    ssize_t n;

    /* before the flag: afterwards /proc/self is root's. Missing /proc costs only this belt. */
    init->oom_score_fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
    n = init->oom_score_fd < 0
            ? -1
            : pread(init->oom_score_fd, init->oom_score, sizeof init->oom_score - 1, 0);
    if (n <= 0)
        init->oom_score[0] = '\0';

    *ret_what = "making pid 1 non-dumpable";
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return -1;
    *ret_what = "no_new_privs";
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -1;
    *ret_what = "installing the seccomp filter";
    return cf_seccomp_install();
}

/* A root image may raise pid 1's score; only the value it began with is written, which needs
 * no capability. */
void
cf_harden_restore(struct cf_init *init)
{
    char now[sizeof init->oom_score] = "";

    if (init->oom_score_fd < 0 || init->oom_score[0] == '\0')
        return;
    if (pread(init->oom_score_fd, now, sizeof now - 1, 0) > 0 &&
        strcmp(now, init->oom_score) == 0)
        return;
    (void)!pwrite(init->oom_score_fd, init->oom_score, strlen(init->oom_score), 0);
}

static size_t
whole_pages(size_t size)
{
    size_t page = 4096; /* a larger page still makes the mapping whole */

    return (size + page - 1) / page * page;
}

void *
cf_private_resize(void *old, size_t old_size, size_t new_size)
{
    void *memory;

    if (new_size == 0) {
        if (old != NULL)
            munmap(old, whole_pages(old_size));
        return NULL;
    }
    if (old != NULL) {
        memory = mremap(old, whole_pages(old_size), whole_pages(new_size), MREMAP_MAYMOVE);
        return memory == MAP_FAILED ? NULL
                                    : memory; /* what keeps it out of fork moves along */
    }
    memory = mmap(NULL, whole_pages(new_size), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    if (madvise(memory, whole_pages(new_size), MADV_DONTFORK) < 0) {
        munmap(memory, whole_pages(new_size));
        return NULL;
    }
    return memory;
}
