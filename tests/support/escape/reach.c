/* Addresses and names: each attempt is refused at once, none waits for a packet that never comes. */
#include "escape.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/vm_sockets.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { WAIT_MS = 3000 };

/* Waits for the connection, so that a black hole shows as one. */
static long
connected(int fd, const struct sockaddr *address, socklen_t size)
{
    struct pollfd wait = { .fd = fd, .events = POLLOUT };
    int error = 0;
    socklen_t length = sizeof error;

    if (fd < 0)
        return -1;
    if (connect(fd, address, size) == 0)
        return 0;
    if (errno != EINPROGRESS)
        return -1;
    if (poll(&wait, 1, WAIT_MS) == 0) {
        errno = ETIMEDOUT;
        return -1;
    }
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
    errno = error;
    return error == 0 ? 0 : -1;
}

static void
reach_ip(const char *text, int port, int type)
{
    struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
    struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    bool is_six = strchr(text, ':') != NULL;
    long began = escape_now(), result;
    char name[128];
    int fd = socket(is_six ? AF_INET6 : AF_INET, type | SOCK_NONBLOCK, 0);

    inet_pton(AF_INET6, text, &six.sin6_addr);
    inet_pton(AF_INET, text, &four.sin_addr);
    result = is_six ? connected(fd, (struct sockaddr *)&six, sizeof six)
                    : connected(fd, (struct sockaddr *)&four, sizeof four);
    if (result == 0 && type == SOCK_DGRAM) /* of a datagram, connect says only that a route is there */
        result = send(fd, "?", 1, 0);
    snprintf(name, sizeof name, "%s %s port %d", type == SOCK_DGRAM ? "udp" : "tcp", text, port);
    escape_tell(name, result, began);
    close(fd);
}

static void
reach_unix(const char *path, bool is_abstract)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    long began = escape_now();
    char name[160];
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

    snprintf(address.sun_path + is_abstract, sizeof address.sun_path - 1, "%s", path);
    snprintf(name, sizeof name, "unix %s%s", is_abstract ? "@" : "", path);
    escape_tell(name, connected(fd, (struct sockaddr *)&address, sizeof address), began);
    close(fd);
}

static void
raw_socket(const char *name, int family, int type, int protocol)
{
    long began = escape_now();
    int fd = socket(family, type, protocol);

    escape_tell(name, fd, began);
    if (fd >= 0)
        close(fd);
}

/* The hypervisor, which no network namespace hides. */
static void
reach_vsock(unsigned cid)
{
    struct sockaddr_vm address = { .svm_family = AF_VSOCK, .svm_port = 1024, .svm_cid = cid };
    long began = escape_now();
    char name[32];
    int fd = socket(AF_VSOCK, SOCK_STREAM | SOCK_NONBLOCK, 0);

    snprintf(name, sizeof name, "vsock socket to cid %u", cid);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) < 0 && errno == ENODEV) {
        escape_tell(name, -1, began);
        close(fd);
        return;
    }
    escape_tell(name, fd, began);
    if (fd >= 0)
        close(fd);
}

static void
raise_interface(void)
{
    struct ifreq request = { .ifr_name = "lo" };
    long began = escape_now();
    int fd = socket(AF_INET, SOCK_DGRAM, 0);

    request.ifr_flags = 0;
    escape_tell("take the loopback down", ioctl(fd, SIOCSIFFLAGS, &request), began);
    close(fd);
}

/* Only what the sandbox itself bound may be in its table of unix sockets. */
static void
foreign_sockets(void)
{
    FILE *table = fopen("/proc/net/unix", "r");
    long began = escape_now();
    char line[512];
    int count = 0;

    while (table != NULL && fgets(line, sizeof line, table) != NULL)
        count += strstr(line, "shim") != NULL || strstr(line, "docker") != NULL;
    if (table != NULL)
        fclose(table);
    errno = ENOENT;
    escape_tell("unix sockets of the host", count > 0 ? 0 : -1, began);
}

void
escape_reach(char **targets)
{
    static const char *const addresses[] = { "169.254.169.254", "100.100.100.200", "8.8.8.8",
                                             "172.17.0.1",      "10.0.0.1",        "192.168.1.1",
                                             "fd00:ec2::254",   "2001:4860:4860::8888", "fe80::1" };

    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++) {
        reach_ip(addresses[i], 80, SOCK_STREAM);
        reach_ip(addresses[i], 53, SOCK_DGRAM);
    }
    for (; *targets != NULL; targets++) {
        char *port = strrchr(*targets, ':');

        if (strncmp(*targets, "unix:", 5) == 0) {
            reach_unix(*targets + 5, false);
        } else if (strncmp(*targets, "tcp:", 4) == 0 && port > *targets + 4) {
            *port = '\0';
            reach_ip(*targets + 4, atoi(port + 1), SOCK_STREAM);
        }
    }
    reach_unix("/var/run/docker.sock", false);
    reach_unix("/run/docker.sock", false);
    reach_unix("/run/containerd/containerd.sock", false);
    reach_unix("/containerd-shim/moby", true);
    foreign_sockets();
    raw_socket("raw icmp socket", AF_INET, SOCK_RAW, IPPROTO_ICMP);
    raw_socket("raw ip socket", AF_INET, SOCK_RAW, IPPROTO_RAW);
    raw_socket("raw ip6 socket", AF_INET6, SOCK_RAW, IPPROTO_ICMPV6);
    raw_socket("packet socket", AF_PACKET, SOCK_RAW, 0x0300);
    reach_vsock(VMADDR_CID_HYPERVISOR);
    reach_vsock(VMADDR_CID_HOST);
    raise_interface();
}
