/* A turnstile: who may have the engine make or remove a sandbox now. */
#include "run/pace.h"

#include <stddef.h>

void
cf_pace_init(struct cf_pace *pace, unsigned most)
{
    TAILQ_INIT(&pace->lines[0]);
    TAILQ_INIT(&pace->lines[1]);
    pace->most = most > 0 ? most : 1;
    pace->inside = pace->waiting = 0;
    pace->is_letting_in = false;
}

/* Whoever is let in may leave at once, and so come back here: the outer loop goes on then. */
static void
let_in(struct cf_pace *pace)
{
    if (pace->is_letting_in)
        return;
    pace->is_letting_in = true;
    while (pace->inside < pace->most && pace->waiting > 0) {
        struct cf_pace_line *line = &pace->lines[TAILQ_EMPTY(&pace->lines[0]) ? 1 : 0];
        struct cf_pace_ticket *ticket = TAILQ_FIRST(line);
        TAILQ_REMOVE(line, ticket, entry);
        ticket->is_waiting = false;
        ticket->is_inside = true;
        pace->waiting--;
        pace->inside++;
        ticket->on_turn(ticket);
    }
    pace->is_letting_in = false;
}

void
cf_pace_enter(struct cf_pace *pace, struct cf_pace_ticket *ticket)
{
    if (ticket->is_inside || ticket->is_waiting)
        return;
    ticket->is_waiting = true;
    pace->waiting++;
    TAILQ_INSERT_TAIL(&pace->lines[ticket->can_wait], ticket, entry);
    let_in(pace);
}

void
cf_pace_leave(struct cf_pace *pace, struct cf_pace_ticket *ticket)
{
    if (ticket->is_waiting) {
        TAILQ_REMOVE(&pace->lines[ticket->can_wait], ticket, entry);
        pace->waiting--;
    } else if (ticket->is_inside) {
        pace->inside--;
    }
    ticket->is_waiting = ticket->is_inside = false;
    let_in(pace);
}
