/* What a file descriptor leads to. */
#include "cli/screen.h"

#include "base/str.h"

#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

void
cf_screen_read(struct cf_screen *screen, int fd, bool plain)
{
    const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");
    struct winsize size;

    *screen = (struct cf_screen){.columns = 80, .rows = 24};
    if (plain)
        return;
    (void)setlocale(LC_CTYPE, "");
    screen->unicode = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    screen->is_terminal = isatty(fd) && term != NULL && !cf_str_same(term, "dumb");
    screen->color = screen->is_terminal && (no_color == NULL || *no_color == '\0');
    if (!isatty(fd) || ioctl(fd, TIOCGWINSZ, &size) < 0)
        return;
    if (size.ws_col > 0)
        screen->columns = size.ws_col;
    if (size.ws_row > 0)
        screen->rows = size.ws_row;
}

int
cf_screen_page(const struct cf_screen *screen)
{
    return screen->columns < 60 ? 60 : screen->columns > 120 ? 120 : screen->columns;
}
