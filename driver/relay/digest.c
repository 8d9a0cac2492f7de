/*
 * A place in the body is known by what the open levels are; six levels tell everything: root,
 * messages, message, content, block, and whatever is inside a block.
 */
#include "relay/digest.h"

#include "base/str.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum where { ELSEWHERE, ROOT, ITEMS, ITEM, CONTENT, BLOCK, TOOLS, STREAM_OPTIONS };

enum key {
    OTHER,
    K_MODEL,
    K_STREAM,
    K_MAX_TOKENS,
    K_MESSAGES,
    K_INPUT,
    K_TOOLS,
    K_STREAM_OPTIONS,
    K_INCLUDE_USAGE,
    K_ROLE,
    K_TYPE,
    K_CONTENT,
    K_TEXT
};

enum string {
    S_OTHER,
    S_MODEL,
    S_ROLE,
    S_ITEM_TYPE,
    S_BLOCK_TYPE,
    S_ITEM_TEXT,
    S_BLOCK_TEXT,
    S_INPUT,
    S_ROOT
};

static const struct {
    const char *name;
    enum key key;
} keys[] = {
    {"model", K_MODEL},
    {"stream", K_STREAM},
    {"max_tokens", K_MAX_TOKENS},
    {"max_completion_tokens", K_MAX_TOKENS},
    {"max_output_tokens", K_MAX_TOKENS},
    {"messages", K_MESSAGES},
    {"input", K_INPUT},
    {"tools", K_TOOLS},
    {"stream_options", K_STREAM_OPTIONS},
    {"include_usage", K_INCLUDE_USAGE},
    {"role", K_ROLE},
    {"type", K_TYPE},
    {"content", K_CONTENT},
    {"text", K_TEXT},
};

void
cf_digest_init(struct cf_digest *digest, const struct cf_digest_needles *needles)
{
    memset(digest, 0, sizeof *digest);
    digest->needles = *needles;
}

static enum key
key_of(const char *name)
{
    for (size_t i = 0; i < CF_COUNT(keys); i++)
        if (strcmp(keys[i].name, name) == 0)
            return keys[i].key;
    return OTHER;
}

/* The innermost open level, and the member of it whose value comes. */
static enum where
where_now(const struct cf_digest *d)
{
    return d->depth == 0 || d->depth > CF_COUNT(d->where) ? ELSEWHERE
                                                          : (enum where)d->where[d->depth - 1];
}

static enum key
key_now(const struct cf_digest *d)
{
    return d->depth == 0 || d->depth > CF_COUNT(d->key) ? OTHER
                                                        : (enum key)d->key[d->depth - 1];
}

/* Whether we are inside messages or input, at whatever depth. */
static bool
in_items(const struct cf_digest *d)
{
    return d->depth >= 2 && d->where[1] == ITEMS;
}

static enum where
place_of_object(const struct cf_digest *d)
{
    if (d->depth == 0)
        return ROOT;
    switch (where_now(d)) {
    case ITEMS:
        return ITEM;
    case CONTENT:
        return BLOCK;
    case ROOT:
        return key_now(d) == K_STREAM_OPTIONS ? STREAM_OPTIONS : ELSEWHERE;
    default:
        return ELSEWHERE;
    }
}

static enum where
place_of_array(const struct cf_digest *d)
{
    enum where where = where_now(d);
    enum key key = key_now(d);

    if (where == ROOT && (key == K_MESSAGES || key == K_INPUT))
        return ITEMS;
    if (where == ROOT && key == K_TOOLS)
        return TOOLS;
    return where == ITEM && key == K_CONTENT ? CONTENT : ELSEWHERE;
}

/* Whether the level that is the `depth`th is open, and is that. */
static bool
is_inside(const struct cf_digest *d, unsigned depth, enum where where)
{
    return d->depth >= depth && d->where[depth - 1] == where;
}

static void
forget_hits(struct cf_digest *d, bool is_item)
{
    for (size_t i = 0; i < d->needles.more_count; i++) {
        struct cf_digest_hit *hit = &d->hits[i];

        hit->in_block = hit->in_block_text = false;
        if (is_item)
            hit->in_item = hit->in_item_text = hit->in_item_tool = false;
    }
}

static void
open_level(struct cf_digest *d, enum where where)
{
    if (where_now(d) == TOOLS)
        d->has_tools = true;
    if (where == ITEMS)
        d->has_input = true;
    if (where == ITEM)
        memset(&d->item, 0, sizeof d->item);
    if (where == BLOCK)
        memset(&d->block, 0, sizeof d->block);
    if (where == ITEM || where == BLOCK)
        forget_hits(d, where == ITEM);
    if (d->depth < CF_COUNT(d->where)) {
        d->where[d->depth] = (uint8_t)where;
        d->key[d->depth] = OTHER;
    }
    d->depth++;
}

/* ---- items --------------------------------------------------------------------------- */

static enum cf_item
kind_of_item(const struct cf_digest *d)
{
    const char *role = d->item.role, *type = d->item.type;

    if (strcmp(role, "tool") == 0 || strcmp(role, "function") == 0 ||
        cf_str_ends(type, "_output"))
        return CF_ITEM_TOOL_RESULT;
    if (strcmp(role, "user") == 0)
        return d->item.has_tool_result ? CF_ITEM_TOOL_RESULT : CF_ITEM_USER;
    if (strcmp(role, "assistant") == 0)
        return CF_ITEM_ASSISTANT;
    if (role[0] == '\0' && type[0] != '\0' && strcmp(type, "message") != 0)
        return CF_ITEM_ASSISTANT; /* function_call, reasoning, ... */
    return CF_ITEM_NONE;
}

/* What was met in an item counts by what the item turned out to be. */
static void
settle_hits(struct cf_digest *d, enum cf_item kind)
{
    bool is_user = strcmp(d->item.role, "user") == 0;

    for (size_t i = 0; i < d->needles.more_count; i++) {
        struct cf_digest_hit *hit = &d->hits[i];

        if (kind == CF_ITEM_ASSISTANT)
            hit->user = hit->tool_result = false;
        hit->user = hit->user || (is_user && hit->in_item_text);
        hit->tool_result = hit->tool_result || (is_user && hit->in_item_tool) ||
                           (!is_user && kind == CF_ITEM_TOOL_RESULT && hit->in_item);
    }
}

static void
close_item(struct cf_digest *d)
{
    enum cf_item kind = kind_of_item(d);

    if (kind == CF_ITEM_NONE)
        return; /* instructions, also those put between the messages */
    d->last = kind;
    settle_hits(d, kind);
    if (kind == CF_ITEM_ASSISTANT)
        d->prompt_is_last = false;
    else if (d->item.has_prompt && strcmp(d->item.role, "user") == 0)
        d->prompt_is_last = true;
}

static void
close_block(struct cf_digest *d)
{
    const char *type = d->block.type;
    bool is_tool = cf_str_ends(type, "tool_result");
    bool is_text =
        type[0] == '\0' || strcmp(type, "text") == 0 || strcmp(type, "input_text") == 0;

    if (is_tool)
        d->item.has_tool_result = true;
    else if (is_text)
        d->item.has_prompt = d->item.has_prompt || d->block.has_prompt;
    for (size_t i = 0; i < d->needles.more_count; i++) {
        struct cf_digest_hit *hit = &d->hits[i];

        hit->in_item_tool = hit->in_item_tool || (is_tool && hit->in_block);
        hit->in_item_text = hit->in_item_text || (is_text && hit->in_block_text);
    }
}

static void
close_level(struct cf_digest *d)
{
    enum where where = where_now(d);

    if (where == BLOCK)
        close_block(d);
    else if (where == ITEM)
        close_item(d);
    d->depth--;
}

/* ---- strings ------------------------------------------------------------------------- */

static enum string
string_in_root(enum key key)
{
    return key == K_MODEL ? S_MODEL : key == K_INPUT ? S_INPUT : S_ROOT;
}

static enum string
string_here(const struct cf_digest *d)
{
    enum key key = key_now(d);

    switch (where_now(d)) {
    case ROOT:
        return string_in_root(key);
    case ITEM:
        return key == K_ROLE      ? S_ROLE
               : key == K_TYPE    ? S_ITEM_TYPE
               : key == K_CONTENT ? S_ITEM_TEXT
                                  : S_OTHER;
    case BLOCK:
        return key == K_TYPE ? S_BLOCK_TYPE : key == K_TEXT ? S_BLOCK_TEXT : S_OTHER;
    default:
        return S_OTHER;
    }
}

static void
open_string(struct cf_digest *d)
{
    d->string = (uint8_t)string_here(d);
    d->prompt_at = d->prior_at = d->len = 0;
    for (size_t i = 0; i < d->needles.more_count; i++)
        d->hits[i].at = 0;
    if (where_now(d) == TOOLS)
        d->has_tools = true;
    if (d->string == S_INPUT) {
        d->has_input = true;
        d->last = CF_ITEM_USER;
    }
}

static void
found_prompt(struct cf_digest *d)
{
    d->prompt_seen = true;
    if (in_items(d) || d->string == S_INPUT)
        d->prompt_in_input = true;
    if (d->string == S_ROOT)
        d->prompt_in_root = true;
    if (d->string == S_INPUT)
        d->prompt_is_last = true;
    else if (d->string == S_ITEM_TEXT)
        d->item.has_prompt = true;
    else if (d->string == S_BLOCK_TEXT)
        d->block.has_prompt = true;
}

static void
found_more(struct cf_digest *d, struct cf_digest_hit *hit)
{
    hit->anywhere = true;
    if (is_inside(d, 3, ITEM))
        hit->in_item = true;
    if (is_inside(d, 5, BLOCK))
        hit->in_block = true;
    if (d->string == S_INPUT || d->string == S_ROOT)
        hit->user = true;
    else if (d->string == S_ITEM_TEXT)
        hit->in_item_text = true;
    else if (d->string == S_BLOCK_TEXT)
        hit->in_block_text = true;
}

static void
read_piece(struct cf_digest *d, const char *bytes, size_t len)
{
    if (cf_needle_feed(d->needles.prompt, &d->prompt_at, bytes, len))
        found_prompt(d);
    if (cf_needle_feed(d->needles.prior, &d->prior_at, bytes, len))
        d->prior_seen = true;
    for (size_t i = 0; i < d->needles.more_count; i++)
        if (cf_needle_feed(&d->needles.more[i], &d->hits[i].at, bytes, len))
            found_more(d, &d->hits[i]);
    if (len > CF_DIGEST_MODEL - d->len)
        len = CF_DIGEST_MODEL - d->len;
    memcpy(d->text + d->len, bytes, len);
    d->len += len;
}

static void
keep(char *to, size_t size, const struct cf_digest *d)
{
    size_t len = d->len < size - 1 ? d->len : size - 1;

    memcpy(to, d->text, len);
    to[len] = '\0';
}

static void
close_string(struct cf_digest *d)
{
    if (d->string == S_MODEL)
        keep(d->model, sizeof d->model, d);
    else if (d->string == S_ROLE)
        keep(d->item.role, sizeof d->item.role, d);
    else if (d->string == S_ITEM_TYPE)
        keep(d->item.type, sizeof d->item.type, d);
    else if (d->string == S_BLOCK_TYPE)
        keep(d->block.type, sizeof d->block.type, d);
    d->string = S_OTHER;
}

/* ---- the rest ------------------------------------------------------------------------ */

static void
read_number(struct cf_digest *d, const char *text)
{
    uint64_t value;

    if (where_now(d) == ROOT && key_now(d) == K_MAX_TOKENS &&
        cf_parse_u64(text, 0, UINT64_MAX, &value))
        d->max_tokens = value;
}

static void
read_true(struct cf_digest *d)
{
    if (where_now(d) == ROOT && key_now(d) == K_STREAM)
        d->is_streamed = true;
    else if (where_now(d) == STREAM_OPTIONS && key_now(d) == K_INCLUDE_USAGE)
        d->wants_usage = true;
}

static void
on_event(void *user, enum cf_json_event event, const char *bytes, size_t len)
{
    struct cf_digest *d = user;

    switch (event) {
    case CF_JSON_OBJECT_OPEN:
        open_level(d, place_of_object(d));
        break;
    case CF_JSON_ARRAY_OPEN:
        open_level(d, place_of_array(d));
        break;
    case CF_JSON_OBJECT_CLOSE:
    case CF_JSON_ARRAY_CLOSE:
        close_level(d);
        break;
    case CF_JSON_NAME:
        if (d->depth <= CF_COUNT(d->key))
            d->key[d->depth - 1] = (uint8_t)key_of(bytes);
        break;
    case CF_JSON_STRING_OPEN:
        open_string(d);
        break;
    case CF_JSON_STRING_PIECE:
        read_piece(d, bytes, len);
        break;
    case CF_JSON_STRING_CLOSE:
        close_string(d);
        break;
    case CF_JSON_NUMBER:
        read_number(d, bytes);
        break;
    case CF_JSON_TRUE:
        read_true(d);
        break;
    case CF_JSON_FALSE:
    case CF_JSON_NULL:
        break;
    }
}

int
cf_digest_feed(struct cf_digest *digest, const char *bytes, size_t len, struct cf_error *err)
{
    if (digest->stream.on_event == NULL) /* here, so that the struct may be moved before */
        cf_json_stream_init(&digest->stream, on_event, digest);
    return cf_json_stream_feed(&digest->stream, bytes, len, err);
}

int
cf_digest_end(struct cf_digest *digest, struct cf_error *err)
{
    if (digest->stream.on_event == NULL)
        return cf_error_set(err, CF_ERROR_WIRE, 0, "the request has no body");
    if (cf_json_stream_end(&digest->stream, err) < 0)
        return -1;
    if (digest->where[0] != ROOT)
        return cf_error_set(err, CF_ERROR_WIRE, 0, "the request body is not a JSON object");
    return 0;
}

bool
cf_digest_is_main(const struct cf_digest *digest)
{
    return digest->prompt_is_last ||
           (digest->prompt_in_input && digest->last != CF_ITEM_ASSISTANT);
}
