/*
 * tls_server.h: certificates made by the openssl command, and a child process that speaks TLS
 * on a loopback port: it answers by echo, or passes bytes on to a unix socket. It reads libssl
 * by name at run time (libcurl brings it), so that no test needs its headers. When libssl or
 * the openssl command is not there, tls_server_start says why and the caller skips.
 */
#ifndef CF_TESTS_TLS_SERVER_H
#define CF_TESTS_TLS_SERVER_H

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

struct tls_server {
    char dir[64];
    unsigned port;
    pid_t pid;
    const char *why_not;
};

struct tls_lib {
    void *(*method)(void);
    void *(*ctx_new)(void *);
    int (*use_cert)(void *, const char *, int);
    int (*use_key)(void *, const char *, int);
    int (*load_ca)(void *, const char *, const char *);
    void (*set_verify)(void *, int, void *);
    void *(*new)(void *);
    int (*set_fd)(void *, int);
    int (*accept)(void *);
    int (*read)(void *, void *, int);
    int (*write)(void *, const void *, int);
    int (*pending)(const void *);
    int (*shutdown)(void *);
    uint64_t (*set_options)(void *, uint64_t);
};

static inline bool
tls_lib_load(struct tls_lib *lib)
{
    void *so = dlopen("libssl.so.3", RTLD_NOW);
    struct {
        const char *name;
        void **to;
    } names[] = {
        {"TLS_server_method", (void **)&lib->method},
        {"SSL_CTX_new", (void **)&lib->ctx_new},
        {"SSL_CTX_use_certificate_file", (void **)&lib->use_cert},
        {"SSL_CTX_use_PrivateKey_file", (void **)&lib->use_key},
        {"SSL_CTX_load_verify_locations", (void **)&lib->load_ca},
        {"SSL_CTX_set_verify", (void **)&lib->set_verify},
        {"SSL_new", (void **)&lib->new},
        {"SSL_set_fd", (void **)&lib->set_fd},
        {"SSL_accept", (void **)&lib->accept},
        {"SSL_read", (void **)&lib->read},
        {"SSL_write", (void **)&lib->write},
        {"SSL_pending", (void **)&lib->pending},
        {"SSL_shutdown", (void **)&lib->shutdown},
        {"SSL_CTX_set_options", (void **)&lib->set_options},
    };

    for (size_t i = 0; so != NULL && i < sizeof names / sizeof names[0]; i++)
        if ((*names[i].to = dlsym(so, names[i].name)) == NULL)
            return false;
    return so != NULL;
}

/* Echo until the peer's end of file, then say "bye": a half-close is seen and the way back
 * works. */
static inline void
tls_echo(const struct tls_lib *lib, void *ssl)
{
    char chunk[16384];
    int got;

    while ((got = lib->read(ssl, chunk, sizeof chunk)) > 0)
        if (lib->write(ssl, chunk, got) != got)
            _exit(0);
    lib->write(ssl, "bye", 3);
    lib->shutdown(ssl);
}

static inline void
tls_send_all(int fd, const char *bytes, ssize_t len)
{
    for (ssize_t put; len > 0; bytes += put, len -= put)
        if ((put = send(fd, bytes, (size_t)len, MSG_NOSIGNAL)) <= 0)
            return;
}

/* TLS on one side, a unix socket on the other; each end of file is passed on by itself. */
static inline void
tls_relay(const struct tls_lib *lib, void *ssl, int client, const char *path)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int behind = socket(AF_UNIX, SOCK_STREAM, 0);
    bool client_open = true;
    char chunk[16384];

    snprintf(name.sun_path, sizeof name.sun_path, "%s", path);
    if (connect(behind, (struct sockaddr *)&name, sizeof name) < 0)
        return;
    for (;;) {
        struct pollfd fds[2] = {{client_open ? client : -1, POLLIN, 0}, {behind, POLLIN, 0}};
        if (!(client_open && lib->pending(ssl) > 0) && poll(fds, 2, -1) < 0)
            return;
        if (client_open && (lib->pending(ssl) > 0 || fds[0].revents != 0)) {
            int got = lib->read(ssl, chunk, sizeof chunk);
            if (got > 0)
                tls_send_all(behind, chunk, got);
            else {
                client_open = false;
                shutdown(behind, SHUT_WR);
            }
        }
        if (fds[1].revents != 0) {
            ssize_t got = read(behind, chunk, sizeof chunk);
            if (got <= 0)
                break;
            if (lib->write(ssl, chunk, (int)got) != got)
                break;
        }
    }
    lib->shutdown(ssl);
}

static inline void
tls_serve(const struct tls_lib *lib, const char *dir, int listener, const char *path)
{
    char file[128];
    void *ctx = lib->ctx_new(lib->method());

    signal(SIGPIPE, SIG_IGN);
    signal(SIGCHLD, SIG_IGN);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(file, sizeof file, "%s/server.pem", dir);
    lib->use_cert(ctx, file, 1);
    snprintf(file, sizeof file, "%s/server-key.pem", dir);
    lib->use_key(ctx, file, 1);
    snprintf(file, sizeof file, "%s/ca.pem", dir);
    lib->load_ca(ctx, file, NULL);
    lib->set_options(ctx,
                     128 /* a bare end of file is one, as Go's TLS, the Engine's, takes it */);
    lib->set_verify(ctx, 3 /* ask for a certificate, and insist */, NULL);
    for (;;) {
        int client = accept(listener, NULL, NULL);
        if (client < 0 || fork() != 0) {
            close(client);
            continue;
        }
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        void *ssl = lib->new (ctx);
        lib->set_fd(ssl, client);
        if (lib->accept(ssl) == 1 && path == NULL)
            tls_echo(lib, ssl);
        else if (path != NULL)
            tls_relay(lib, ssl, client, path);
        _exit(0);
    }
}

static inline bool
tls_make_certs(const char *dir)
{
    char command[2048];

    snprintf(command, sizeof command,
             "cd %s && exec >/dev/null 2>&1 && set -e; "
             "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "
             "ca-key.pem -out ca.pem -days 2 -subj /CN=test-ca; "
             "for who in server client; do "
             "openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "
             "$who-key.pem -out $who.csr -subj /CN=$who; "
             "echo subjectAltName=IP:127.0.0.1 >ext; "
             "openssl x509 -req -in $who.csr -CA ca.pem -CAkey ca-key.pem -CAcreateserial "
             "-days 2 -extfile ext -out $who.pem; done; "
             "cp client.pem cert.pem; cp client-key.pem key.pem",
             dir);
    return system(command) == 0;
}

/* `path` NULL: echo. On failure pid is 0 and why_not says why. */
static inline void
tls_server_start(struct tls_server *server, const char *path)
{
    struct tls_lib lib;
    struct sockaddr_in name = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof name;

    memset(server, 0, sizeof *server);
    memcpy(server->dir, "/tmp/cf-tls-XXXXXX", sizeof "/tmp/cf-tls-XXXXXX");
    if (mkdtemp(server->dir) == NULL || !tls_make_certs(server->dir)) {
        server->why_not = "the openssl command is not there or failed";
        return;
    }
    if (!tls_lib_load(&lib)) {
        server->why_not = "libssl.so.3 is not there";
        return;
    }
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&name, sizeof name) < 0 ||
        listen(listener, 16) < 0 ||
        getsockname(listener, (struct sockaddr *)&name, &len) < 0) {
        server->why_not = "no loopback port";
        return;
    }
    server->port = ntohs(name.sin_port);
    server->pid = fork();
    if (server->pid == 0)
        tls_serve(&lib, server->dir, listener, path);
    close(listener);
}

static inline void
tls_server_stop(struct tls_server *server)
{
    char command[100];

    if (server->pid > 0) {
        kill(server->pid, SIGKILL);
        waitpid(server->pid, NULL, 0);
    }
    snprintf(command, sizeof command, "rm -rf %s", server->dir);
    if (system(command) != 0)
        abort();
}

#endif
