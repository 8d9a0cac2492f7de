/* cli/attach.h: files that go beside the first prompt, as ACP content blocks. */
#ifndef CF_CLI_ATTACH_H
#define CF_CLI_ATTACH_H

#include "cli/flags.h"

#include <cfrunner/error.h>
#include <jansson.h>

#define CF_ATTACH_MOST (16u << 20) /* bytes of one file */

/* One block a file, in order: image or audio by the media type of its name, else an embedded
 * resource, as text when it is UTF-8. *ret_blocks: yours, NULL without files. CF_ERROR_CONFIG names
 * the file. ACP v1, content blocks. */
CF_CHECKED int cf_attach_read(const struct cf_flag_list *files, json_t **ret_blocks, struct cf_error *err);

#endif
