/* acp-script/play.h: a script's steps carried out. main.c says what each of them is. */
#ifndef PLAY_H
#define PLAY_H

#include "script.h"

/* 0, or 2 with every fault of the script on stderr. */
int play_check(const struct script *script);

/* Plays it; the exit code. */
int play(const struct script *script);

#endif
