/*
 * run/pace.h: a turnstile. So many may be inside; the others wait in line, first come first
 * served, and behind them those who only prepare.
 */
#ifndef CF_RUN_PACE_H
#define CF_RUN_PACE_H

#include <stdbool.h>
#include <sys/queue.h>

struct cf_pace_ticket {
    TAILQ_ENTRY(cf_pace_ticket) entry;
    void (*on_turn)(
        struct cf_pace_ticket *ticket); /* set by the owner; may come from inside enter */
    bool can_wait, is_waiting, is_inside;
};

TAILQ_HEAD(cf_pace_line, cf_pace_ticket);

struct cf_pace {
    struct cf_pace_line lines[2]; /* those who cannot wait, those who can */
    unsigned most, inside, waiting;
    bool is_letting_in;
};

void cf_pace_init(struct cf_pace *pace, unsigned most);

/* Asks for a turn. on_turn comes at once, or when somebody leaves. */
void cf_pace_enter(struct cf_pace *pace, struct cf_pace_ticket *ticket);

/* Gives back the turn, or the place in the line; fine for a ticket that has neither. Lets
 * others in: their on_turn may be called from inside. */
void cf_pace_leave(struct cf_pace *pace, struct cf_pace_ticket *ticket);

#endif
