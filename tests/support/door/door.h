/* door/door.h: HTTP by hand, over blocking sockets on the sandbox's own loopback. */
#ifndef DOOR_H
#define DOOR_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

enum door_port { DOOR_RELAY, DOOR_PROXY }; /* where the environment says they are */

struct answer {
    int status;
    char body[16384]; /* cut there; NUL-terminated */
};

int door_connect(enum door_port port); /* -1: errno says why */
const char *door_token(void);
/* A POST, or without a body a GET. */
int door_send_request(int fd, const char *path, const char *body, size_t len);
int door_read_answer(int fd, struct answer *answer); /* sized, chunked, or until the end */
/* Reads an answer to its end and returns how many bytes its body had (its framing not counted). */
uint64_t door_read_stream(int fd);
int door_ask(const char *path, const char *body, struct answer *answer); /* on a connection of its own */
int door_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2))); /* says it; 1 */
struct timespec door_now(void);
double door_since(struct timespec began);

/* load.c */
int door_load(int argc, char **argv);
int door_hold(int argc, char **argv);

#endif
