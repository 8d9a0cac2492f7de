/*
 * The filter all processes of the sandbox inherit. Some calls that change another process ask
 * only whether the user ids match: with RLIMIT_CPU or RLIMIT_NOFILE a program could end pid 1.
 * They get EPERM when they name pid 1, and so do the forms of setpriority and ioprio_set that
 * name a whole user or group. The 32-bit table of the same kernel is closed the same way.
 *
 * Nor does a network namespace hold every family of sockets: AF_VSOCK reaches the hypervisor
 * from any of them. So only the four that a sandbox has a use for can be had, and io_uring,
 * which makes sockets behind a filter's back, cannot.
 *
 * User namespaces and the kernel's keyrings are refused as Docker's default filter refuses them:
 * Podman's does not. clone3 hides its flags from a filter, so it is said to be missing; every C
 * library then takes clone.
 *
 * Arguments that the kernel takes as int are compared by their low half alone, as it does.
 */
#include "init/init.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

struct numbers { /* of one ABI */
    uint32_t arch;
    unsigned prlimit64, setpriority, ioprio_set;
    unsigned sched_setparam, sched_setscheduler, sched_setattr, sched_setaffinity;
    unsigned socket, socketcall; /* the latter 0 where there is none */
    unsigned clone, unshare, keyctl, add_key, request_key;
};

static const struct numbers abis[] = {
#if defined(__x86_64__)
    {AUDIT_ARCH_X86_64, __NR_prlimit64, __NR_setpriority, __NR_ioprio_set, __NR_sched_setparam,
     __NR_sched_setscheduler, __NR_sched_setattr, __NR_sched_setaffinity, __NR_socket, 0,
     __NR_clone, __NR_unshare, __NR_keyctl, __NR_add_key, __NR_request_key},
    {AUDIT_ARCH_I386, 340, 97, 289, 154, 156, 351, 241, 359, 102, 120, 310, 288, 286, 287},
#elif defined(__aarch64__)
    {AUDIT_ARCH_AARCH64, __NR_prlimit64, __NR_setpriority, __NR_ioprio_set,
     __NR_sched_setparam, __NR_sched_setscheduler, __NR_sched_setattr, __NR_sched_setaffinity,
     __NR_socket, 0, __NR_clone, __NR_unshare, __NR_keyctl, __NR_add_key, __NR_request_key},
    {AUDIT_ARCH_ARM, 369, 97, 314, 154, 156, 380, 241, 281, 102, 120, 337, 311, 309, 310},
#else
#error "seccomp.c: the call numbers of this architecture are missing"
#endif
};

#define LOW_HALF(arg) \
    (offsetof(struct seccomp_data, args[arg])) /* little-endian only, as both are */
#define X32_BIT 0x40000000u
#define IO_URING_SETUP 425u /* in every table */
#define CLONE3 435u         /* and this */
#define NEW_USER 0x10000000u /* CLONE_NEWUSER */
#define FILTER_MAX 192

struct filter {
    struct sock_filter code[FILTER_MAX];
    unsigned short len;
};

static void
put(struct filter *filter, uint16_t code, uint8_t if_true, uint8_t if_false, uint32_t k)
{
    filter->code[filter->len++] = (struct sock_filter){code, if_true, if_false, k};
}

#define RETURN(k) put(filter, BPF_RET | BPF_K, 0, 0, k)
#define LOAD(at) put(filter, BPF_LD | BPF_W | BPF_ABS, 0, 0, (uint32_t)(at))
#define REFUSE (SECCOMP_RET_ERRNO | EPERM)

/* Call `number`: EPERM when argument 0 is pid 1. The number is loaded. */
static void
refuse_pid_one(struct filter *filter, unsigned number)
{
    put(filter, BPF_JMP | BPF_JEQ | BPF_K, 0, 4, number);
    LOAD(LOW_HALF(0));
    put(filter, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 1);
    RETURN(REFUSE);
    RETURN(SECCOMP_RET_ALLOW);
}

/* Call `number` of the form (which, who): EPERM when it is a group or a user (`which` above
 * `process`), or the process 1. */
static void
refuse_who(struct filter *filter, unsigned number, uint32_t process)
{
    put(filter, BPF_JMP | BPF_JEQ | BPF_K, 0, 6, number);
    LOAD(LOW_HALF(0));
    put(filter, BPF_JMP | BPF_JGT | BPF_K, 2, 0, process);
    LOAD(LOW_HALF(1));
    put(filter, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 1);
    RETURN(REFUSE);
    RETURN(SECCOMP_RET_ALLOW);
}

/* Call `number` is socket(family, ...): EAFNOSUPPORT for a family that is not one of the four.
 */
static void
refuse_families(struct filter *filter, unsigned number)
{
    put(filter, BPF_JMP | BPF_JEQ | BPF_K, 0, 7, number);
    LOAD(LOW_HALF(0));
    put(filter, BPF_JMP | BPF_JEQ | BPF_K, 4, 0, AF_UNIX);
    put(filter, BPF_JMP | BPF_JEQ | BPF_K, 3, 0, AF_INET);
    put(filter, BPF_JMP | BPF_JEQ | BPF_K, 2, 0, AF_INET6);
    put(filter, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, AF_NETLINK);
    RETURN(SECCOMP_RET_ERRNO | EAFNOSUPPORT);
    RETURN(SECCOMP_RET_ALLOW);
}

/* Call `number` takes flags first: EPERM when a user namespace is among them. */
static void
refuse_new_user(struct filter *filter, unsigned number)
{
    put(filter, BPF_JMP | BPF_JEQ | BPF_K, 0, 4, number);
    LOAD(LOW_HALF(0));
    put(filter, BPF_JMP | BPF_JSET | BPF_K, 0, 1, NEW_USER);
    RETURN(REFUSE);
    RETURN(SECCOMP_RET_ALLOW);
}

static void
refuse_call(struct filter *filter, unsigned number)
{
    put(filter, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, number);
    RETURN(REFUSE);
}

static void
put_abi(struct filter *filter, const struct numbers *abi)
{
    unsigned short skip = filter->len;

    put(filter, BPF_JMP | BPF_JEQ | BPF_K, 0, 0,
        abi->arch); /* the jump over it is set below */
    LOAD(offsetof(struct seccomp_data, nr));
    if (abi->arch == AUDIT_ARCH_X86_64) {
        put(filter, BPF_JMP | BPF_JGE | BPF_K, 0, 1, X32_BIT);
        RETURN(SECCOMP_RET_ERRNO | ENOSYS); /* a third table, where a kernel has it at all */
    }
    refuse_pid_one(filter, abi->prlimit64);
    refuse_pid_one(filter, abi->sched_setparam);
    refuse_pid_one(filter, abi->sched_setscheduler);
    refuse_pid_one(filter, abi->sched_setattr);
    refuse_pid_one(filter, abi->sched_setaffinity);
    refuse_who(filter, abi->setpriority, 0);
    refuse_who(filter, abi->ioprio_set, 1);
    refuse_families(filter, abi->socket);
    refuse_new_user(filter, abi->clone);
    refuse_new_user(filter, abi->unshare);
    put(filter, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, CLONE3);
    RETURN(SECCOMP_RET_ERRNO | ENOSYS);
    refuse_call(filter, abi->keyctl);
    refuse_call(filter, abi->add_key);
    refuse_call(filter, abi->request_key);
    refuse_call(filter, IO_URING_SETUP);
    if (abi->socketcall != 0)
        refuse_call(filter,
                    abi->socketcall); /* its arguments are in memory, out of our sight */
    RETURN(SECCOMP_RET_ALLOW);
    filter->code[skip].jf = (uint8_t)(filter->len - skip - 1);
}

int
cf_seccomp_install(void)
{
    struct filter filter_memory = {.len = 0}, *filter = &filter_memory;
    struct sock_fprog program;

    LOAD(offsetof(struct seccomp_data, arch));
    for (size_t i = 0; i < sizeof abis / sizeof abis[0]; i++)
        put_abi(filter, &abis[i]);
    RETURN(SECCOMP_RET_ERRNO | ENOSYS); /* no other table exists on this processor */
    program = (struct sock_fprog){filter->len, filter->code};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}
