/*
 * fault MODE [ARGUMENT]: one program for every way in which a harness can be wrong. Modes that
 * end in -acp speak ACP v1 up to the point of their fault; the others are one-shot harnesses
 * (prompt on stdin, text on stdout) or never get so far as to speak anything.
 *
 *   exit0 exit3               end at once, with 0 or 3
 *   cat                       gives back what it is sent, and never an answer
 *   banner                    prints two lines that are no frames, then is a proper ACP agent
 *   junk-acp N                prints N such lines, then is a proper ACP agent
 *   close-stdout              closes stdout and lives on
 *   ignore-term               never speaks, ignores SIGTERM and the end of its input
 *   ignore-term-acp           a proper ACP agent that then ignores both
 *   double-fork[-acp]         leaves a child in a session of its own that holds stdout open and
 *                             ignores SIGTERM, then is a proper harness
 *   double-fork-exit          leaves such a child and exits with 0
 *   eat-memory[-acp]          is killed by the memory limit: at once, or in its turn
 *   child-eats                starts one that is, waits for it, and ends with 3
 *   segv[-acp] kill-acp       die by SIGSEGV, by SIGKILL (in the turn, after one update)
 *   exit-acp N                exits with N in the turn, after one update
 *   narrate[-acp]             tells of an answer, and never asked the model
 *   drop-answer[-acp]         asks the model, and tells something else
 *   hasty                     takes what its first read of stdin gives for the whole prompt, and
 *                             says that all is well when the model is busy or breaks off
 *   print-lots N              prints N MiB of text (default 512) and never ends its line
 *   print TEXT...             prints each TEXT as a line and ends with 0
 *   fail CODE TEXT...         the same on stderr, and ends with CODE
 *   stall[-acp]               takes its prompt and never answers
 *   stderr-flood[-acp] N      writes N MiB to stderr (default 64), then is a proper harness
 *   fill-disk N               writes N MiB into the working directory (default 8192), ends 5 s later
 *   fill-at-once N            takes N MiB of the working directory in one stroke, and ends at once
 *   fill-unlinked N           the same into a file that has no name any more, and hangs
 *   many-files N              makes N files (default 1000), says so
 *   env NAME...               prints each variable's value
 *   spin                      uses all the time of a cpu that it can get, for a second
 *   fork-bomb                 as many processes as it can get
 *   proper[-acp]              nothing wrong
 */
#include "polite.h"

#include "base/clock.h"
#include "base/str.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1024 * 1024, EAT_LIMIT_MIB = 8 * 1024 };

static char block[MIB];

static unsigned long
number(char **args, unsigned long fallback)
{
    return args[0] != NULL ? strtoul(args[0], NULL, 10) : fallback;
}

static int
wait_forever(void)
{
    for (;;)
        pause();
    return 0;
}

/* ---- ends ------------------------------------------------------------------------------- */

/* Stops by itself far above any limit a sandbox has, in case nothing limits it. */
static int
eat_memory(char **args)
{
    for (int i = 0; i < EAT_LIMIT_MIB; i++) {
        char *more = malloc(MIB);
        if (more == NULL)
            break;
        memset(more, 0x5a, MIB);
    }
    fputs("fault: nothing limits my memory\n", stderr);
    return 9;
}

static int
child_eats(char **args)
{
    pid_t child = fork();

    if (child == 0)
        _exit(eat_memory(args));
    waitpid(child, NULL, 0);
    return 3;
}

static int exit0(char **args) { return 0; }
static int exit3(char **args) { return 3; }

static int
segv(char **args)
{
    raise(SIGSEGV);
    return 9;
}

static int
die_eating(const char *prompt, struct cf_buf *answer)
{
    polite_chunk("so far so good");
    exit(eat_memory(NULL));
}

static int
die_segv(const char *prompt, struct cf_buf *answer)
{
    polite_chunk("so far so good");
    return raise(SIGSEGV);
}

static int
die_killed(const char *prompt, struct cf_buf *answer)
{
    polite_chunk("so far so good");
    return raise(SIGKILL);
}

static unsigned long exit_code; /* of exit-acp */

static int
die_exiting(const char *prompt, struct cf_buf *answer)
{
    polite_chunk("so far so good");
    exit((int)exit_code);
}

static int eat_memory_acp(char **args) { return polite_acp(die_eating); }
static int segv_acp(char **args) { return polite_acp(die_segv); }
static int kill_acp(char **args) { return polite_acp(die_killed); }

static int
exit_acp(char **args)
{
    exit_code = number(args, 3);
    return polite_acp(die_exiting);
}

/* ---- noise ------------------------------------------------------------------------------ */

static int
cat(char **args)
{
    ssize_t n;

    while ((n = read(STDIN_FILENO, block, sizeof block)) > 0)
        if (write(STDOUT_FILENO, block, (size_t)n) < 0)
            return 1;
    return 0;
}

static int
banner(char **args)
{
    puts("Welcome back!");
    puts("\033[1mversion 1.2.3\033[0m, loading plugins");
    return polite_acp(polite_ask);
}

static int
junk_acp(char **args)
{
    for (unsigned long i = 0; i < number(args, 1000); i++)
        printf("log line %lu: {not json\n", i);
    return polite_acp(polite_ask);
}

static int
flood(int fd, unsigned long mib, bool in_lines)
{
    memset(block, 'x', sizeof block);
    for (size_t i = 79; in_lines && i < sizeof block; i += 80)
        block[i] = '\n';
    for (unsigned long i = 0; i < mib; i++)
        if (write(fd, block, sizeof block) < 0)
            return 1;
    return 0;
}

static int print_lots(char **args) { return flood(STDOUT_FILENO, number(args, 512), false); }

static int
stderr_flood(char **args)
{
    return flood(STDERR_FILENO, number(args, 64), true) || polite_oneshot(polite_ask);
}

static int
stderr_flood_acp(char **args)
{
    return flood(STDERR_FILENO, number(args, 64), true) || polite_acp(polite_ask);
}

static int
print(char **args)
{
    for (; args[0] != NULL; args++)
        puts(args[0]);
    return 0;
}

static int
fail(char **args)
{
    for (char **text = args + 1; args[0] != NULL && text[0] != NULL; text++)
        fprintf(stderr, "%s\n", text[0]);
    return (int)number(args, 1);
}

static int
fill_disk(char **args)
{
    int fd = open("fill", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    int status = fd < 0 ? 1 : flood(fd, number(args, 8192), false);

    if (status != 0)
        perror("fault: fill");
    else
        sleep(5); /* a fast disk takes it all between two looks: it is there for the next one */
    return status;
}

static int
fill_at_once(char **args)
{
    int fd = open("fill", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    off_t bytes = (off_t)number(args, 8192) * MIB;

    if (fd < 0 || (fallocate(fd, 0, 0, bytes) < 0 && flood(fd, number(args, 8192), false) != 0)) {
        perror("fault: fill");
        return 1;
    }
    puts("filled");
    return 0;
}

static int
fill_unlinked(char **args)
{
    int fd = open("fill", O_RDWR | O_CREAT | O_TRUNC, 0600);

    if (fd < 0 || unlink("fill") < 0 || flood(fd, number(args, 8192), false) != 0)
        perror("fault: fill");
    return wait_forever();
}

static int
many_files(char **args)
{
    unsigned long made = 0;
    char name[32];

    for (; made < number(args, 1000); made++) {
        snprintf(name, sizeof name, "f%lu", made);
        int fd = open(name, O_WRONLY | O_CREAT, 0600);
        if (fd < 0)
            break;
        close(fd);
    }
    printf("%lu files\n", made);
    return 0;
}

static int
print_env(char **args)
{
    for (; args[0] != NULL; args++)
        puts(getenv(args[0]) != NULL ? getenv(args[0]) : "(none)");
    return 0;
}

/* ---- lies ------------------------------------------------------------------------------- */

static int
narrate_answer(const char *prompt, struct cf_buf *answer)
{
    return cf_buf_adds(answer, "I asked the model, and it gave a very good answer.");
}

static int
drop_the_answer(const char *prompt, struct cf_buf *answer)
{
    int status = polite_ask(prompt, answer);

    if (status == 0) {
        cf_buf_reset(answer);
        cf_buf_adds(answer, "Done.");
    }
    return status;
}

static int narrate(char **args) { return polite_oneshot(narrate_answer); }
static int narrate_acp(char **args) { return polite_acp(narrate_answer); }
static int drop_answer(char **args) { return polite_oneshot(drop_the_answer); }
static int drop_answer_acp(char **args) { return polite_acp(drop_the_answer); }

static int
hasty(char **args)
{
    char prompt[65536];
    ssize_t len = read(STDIN_FILENO, prompt, sizeof prompt - 1);
    struct cf_buf answer = { 0 };

    prompt[len > 0 ? len : 0] = '\0';
    if (polite_ask_once(prompt, &answer) < 0) {
        cf_buf_reset(&answer);
        cf_buf_adds(&answer, "Done.");
    }
    return write(STDOUT_FILENO, answer.data, answer.len) < 0;
}

static int proper(char **args) { return polite_oneshot(polite_ask); }
static int proper_acp(char **args) { return polite_acp(polite_ask); }

/* ---- staying ---------------------------------------------------------------------------- */

static int
stall_answer(const char *prompt, struct cf_buf *answer)
{
    return wait_forever();
}

static int stall(char **args) { return polite_oneshot(stall_answer); }
static int stall_acp(char **args) { return polite_acp(stall_answer); }

static int
close_stdout(char **args)
{
    close(STDOUT_FILENO);
    return wait_forever();
}

static int
ignore_term(char **args)
{
    signal(SIGTERM, SIG_IGN);
    return wait_forever();
}

static int
ignore_term_acp(char **args)
{
    signal(SIGTERM, SIG_IGN);
    polite_acp(polite_ask);
    return wait_forever();
}

/* The grandchild is out of our session and our parentage; only what it inherited remains. */
static void
leave_a_child(void)
{
    if (fork() != 0)
        return;
    setsid();
    if (fork() != 0)
        _exit(0);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    wait_forever();
}

static int
double_fork(char **args)
{
    leave_a_child();
    return polite_oneshot(polite_ask);
}

static int
double_fork_acp(char **args)
{
    leave_a_child();
    return polite_acp(polite_ask);
}

static int
double_fork_exit(char **args)
{
    leave_a_child();
    usleep(100 * 1000); /* let the grandchild stand on its own */
    return 0;
}

/* Waits between tries only once nothing more is to be had, so that it is a bomb in a sandbox
 * with a limit on processes; without one it stops at a number that hurts nobody. */
static int
fork_bomb(char **args)
{
    for (int made = 0; made < 4096;) {
        pid_t child = fork();
        if (child == 0) {
            signal(SIGTERM, SIG_IGN);
            wait_forever();
        }
        if (child < 0)
            usleep(1000);
        else
            made++;
    }
    return wait_forever();
}

static int
spin(char **args)
{
    uint64_t until_us = cf_clock_us() + 1000000;

    while (cf_clock_us() < until_us)
        ;
    puts("spun");
    return 0;
}

/* What a program does that expects to be allowed one process more. */
static int
fork_refused(char **args)
{
    for (int made = 0; made < 4096; made++) {
        pid_t child = fork();
        if (child == 0) {
            close(1);
            close(2);
            wait_forever();
        }
        if (child < 0) {
            perror("fork");
            return 5;
        }
    }
    return 0;
}

static const struct {
    const char *name;
    int (*run)(char **args);
} modes[] = {
    { "exit0", exit0 },
    { "exit3", exit3 },
    { "cat", cat },
    { "banner", banner },
    { "junk-acp", junk_acp },
    { "close-stdout", close_stdout },
    { "ignore-term", ignore_term },
    { "ignore-term-acp", ignore_term_acp },
    { "double-fork", double_fork },
    { "double-fork-acp", double_fork_acp },
    { "double-fork-exit", double_fork_exit },
    { "eat-memory", eat_memory },
    { "eat-memory-acp", eat_memory_acp },
    { "child-eats", child_eats },
    { "segv", segv },
    { "segv-acp", segv_acp },
    { "kill-acp", kill_acp },
    { "exit-acp", exit_acp },
    { "narrate", narrate },
    { "narrate-acp", narrate_acp },
    { "drop-answer", drop_answer },
    { "drop-answer-acp", drop_answer_acp },
    { "print-lots", print_lots },
    { "print", print },
    { "fail", fail },
    { "stall", stall },
    { "stall-acp", stall_acp },
    { "stderr-flood", stderr_flood },
    { "stderr-flood-acp", stderr_flood_acp },
    { "fill-disk", fill_disk },
    { "fill-at-once", fill_at_once },
    { "fill-unlinked", fill_unlinked },
    { "many-files", many_files },
    { "env", print_env },
    { "spin", spin },
    { "fork-bomb", fork_bomb },
    { "fork-refused", fork_refused },
    { "hasty", hasty },
    { "proper", proper },
    { "proper-acp", proper_acp },
};

int
main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; argc > 1 && i < CF_COUNT(modes); i++)
        if (strcmp(modes[i].name, argv[1]) == 0)
            return modes[i].run(argv + 2);
    fprintf(stderr, "fault: no mode \"%s\"; there are:", argc > 1 ? argv[1] : "");
    for (size_t i = 0; i < CF_COUNT(modes); i++)
        fprintf(stderr, " %s", modes[i].name);
    fputs("\n", stderr);
    return 2;
}
