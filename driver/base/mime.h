/* base/mime.h: media types by a name's ending. */
#ifndef CF_BASE_MIME_H
#define CF_BASE_MIME_H

/* By the ending of the last part of `name`, whatever its case; NULL: none that is known. Static. */
const char *cf_mime_type(const char *name);

#endif
