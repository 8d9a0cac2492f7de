/* journal/journal.h: the room's front door; all of it is public. */
#ifndef CF_JOURNAL_JOURNAL_H
#define CF_JOURNAL_JOURNAL_H

#include <cfrunner/journal.h>

#endif
