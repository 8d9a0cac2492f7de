/* bench_time COMMAND...: runs it with stdin and stdout at /dev/null; prints wall microseconds,
 * peak resident KiB and microseconds of CPU (its children's included, not an Engine's). Exit code: the command's. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long
now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * 1000000ll + ts.tv_nsec / 1000;
}

int
main(int argc, char **argv)
{
    long long began = now_us();
    struct rusage usage;
    int status;
    pid_t pid = argc > 1 ? fork() : -1;

    if (pid == 0) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, 0);
        dup2(null, 1);
        dup2(null, 2);
        execvp(argv[1], argv + 1);
        _exit(127);
    }
    if (pid < 0 || wait4(pid, &status, 0, &usage) < 0)
        return 125;
    printf("%lld %ld %lld\n", now_us() - began, usage.ru_maxrss,
           (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000ll + usage.ru_utime.tv_usec +
               usage.ru_stime.tv_usec);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
