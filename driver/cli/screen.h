/* cli/screen.h: what a file descriptor leads to, and what can be drawn there. */
#ifndef CF_CLI_SCREEN_H
#define CF_CLI_SCREEN_H

#include <stdbool.h>

struct cf_screen {
    bool is_terminal; /* one that can move its cursor: no pipe, no file, not TERM=dumb */
    bool color;       /* a terminal, and NO_COLOR is not set */
    bool unicode;     /* the locale's characters are UTF-8 */
    int columns, rows; /* of the terminal; else 80 by 24 */
};

/* `plain`: as a pipe in the C locale. Reads the environment's locale. */
void cf_screen_read(struct cf_screen *screen, int fd, bool plain);
/* The columns of a page that is read: at least 60, at most 120. */
int cf_screen_page(const struct cf_screen *screen);

#endif
