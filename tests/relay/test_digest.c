#include "base/buf.h"
#include "base/str.h"
#include "relay/digest.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

enum flag {
    STREAM = 1,
    USAGE = 2,
    TOOLS = 4,
    INPUT = 8,
    SEEN = 16,
    IN_INPUT = 32,
    LAST = 64,
    PRIOR = 128,
    MAIN = 256,
    IN_ROOT = 512
};

static unsigned
flags_of(const struct cf_digest *d)
{
    return (d->is_streamed ? STREAM : 0) | (d->wants_usage ? USAGE : 0) |
           (d->has_tools ? TOOLS : 0) | (d->has_input ? INPUT : 0) |
           (d->prompt_seen ? SEEN : 0) | (d->prompt_in_input ? IN_INPUT : 0) |
           (d->prompt_is_last ? LAST : 0) | (d->prior_seen ? PRIOR : 0) |
           (cf_digest_is_main(d) ? MAIN : 0) | (d->prompt_in_root ? IN_ROOT : 0);
}

static int
read_cut(struct cf_digest *d, const char *body, size_t cut, struct cf_error *err)
{
    static struct cf_needle prompt, prior;
    struct cf_digest_needles needles = {&prompt, &prior, NULL, 0};

    cf_needle_set(&prompt, "aab-aab-c");
    cf_needle_set(&prior, "old-1");
    cf_digest_init(d, &needles);
    if (cf_digest_feed(d, body, cut, err) < 0 ||
        cf_digest_feed(d, body + cut, strlen(body) - cut, err) < 0)
        return -1;
    return cf_digest_end(d, err);
}

#define N "aab-aab-c"
#define FOUND (INPUT | SEEN | IN_INPUT)

static const struct {
    const char *body;
    unsigned flags;
    enum cf_item last;
} cases[] = {
    /* anthropic_messages */
    {"{\"model\":\"m\",\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"say " N
     " now\"}]}",
     STREAM | FOUND | LAST | MAIN, CF_ITEM_USER},
    {"{\"messages\":[{\"content\":[{\"text\":\"x\\u0061ab\\u002daab-c\",\"type\":\"text\"},{"
     "\"type\":\"text\",\"text\":\"reminder\"}],"
     "\"role\":\"user\"}],\"model\":\"m\",\"tools\":[{\"name\":\"t\"}]}",
     TOOLS | FOUND | LAST | MAIN, CF_ITEM_USER},
    {"{\"model\":\"m\",\"tools\":[],\"messages\":[{\"role\":\"user\",\"content\":\"" N "\"},"
     "{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"1\",\"input\":{"
     "\"a\":[\"old-1\"]}}]},"
     "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"1\","
     "\"content\":[{\"type\":\"text\",\"text\":\"r\"}]}]}]}",
     FOUND | PRIOR | MAIN, CF_ITEM_TOOL_RESULT},
    {"{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"" N
     "\"},{\"role\":\"system\",\"content\":\"s\"}]}",
     FOUND | LAST | MAIN, CF_ITEM_USER},
    {"{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"" N
     "\"},{\"role\":\"assistant\",\"content\":\"a\"}]}",
     FOUND, CF_ITEM_ASSISTANT},
    {"{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"" N
     "\"},{\"role\":\"assistant\",\"content\":\"a\"},"
     "{\"role\":\"user\",\"content\":\"steer\"}]}",
     FOUND | MAIN, CF_ITEM_USER},
    {"{\"model\":\"m\",\"system\":\"" N
     "\",\"messages\":[{\"role\":\"user\",\"content\":\"title?\"}]}",
     INPUT | SEEN | IN_ROOT, CF_ITEM_USER},
    {"{\"model\":\"m\",\"system\":[{\"type\":\"text\",\"text\":\"" N
     "\"}],\"messages\":[{\"role\":\"user\",\"content\":\"title?\"}]}",
     INPUT | SEEN, CF_ITEM_USER},
    /* openai_chat */
    {"{\"model\":\"m\",\"stream\":true,\"stream_options\":{\"include_usage\":true},"
     "\"messages\":["
     "{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":[{\"type\":"
     "\"text\",\"text\":\"" N "\"}]}]}",
     STREAM | USAGE | FOUND | LAST | MAIN, CF_ITEM_USER},
    {"{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"" N
     "\"},{\"role\":\"assistant\",\"content\":null,"
     "\"tool_calls\":[{\"id\":\"c\"}]},{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":"
     "\"r\"}]}",
     FOUND | MAIN, CF_ITEM_TOOL_RESULT},
    /* openai_responses */
    {"{\"model\":\"m\",\"input\":\"" N "\"}", FOUND | LAST | MAIN, CF_ITEM_USER},
    {"{\"model\":\"m\",\"instructions\":\"i\",\"input\":[{\"type\":\"message\",\"role\":"
     "\"user\",\"content\":[{\"type\":\"input_text\","
     "\"text\":\"" N
     "\"}]},{\"role\":\"user\",\"content\":\"env\"}],\"tools\":[{\"type\":\"web_search\"}]}",
     TOOLS | FOUND | LAST | MAIN, CF_ITEM_USER},
    {"{\"model\":\"m\",\"input\":[{\"role\":\"user\",\"content\":\"" N
     "\"},{\"type\":\"reasoning\",\"summary\":[]},"
     "{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"n\",\"arguments\":\"{}\"},"
     "{\"type\":\"function_call_output\",\"call_id\":\"c\",\"output\":\"r\"}]}",
     FOUND | MAIN, CF_ITEM_TOOL_RESULT},
    /* fal_queue */
    {"{\"prompt\":\"" N "\",\"seed\":1}", SEEN | IN_ROOT, CF_ITEM_NONE},
    /* names, numbers and near misses */
    {"{\"model\":\"m\",\"" N
     "\":1,\"stream\":false,\"messages\":[{\"role\":\"user\",\"content\":\"aab-aab-aab-\"}]}",
     INPUT, CF_ITEM_USER},
    {"{\"model\":\"m\",\"metadata\":{\"stream\":true,\"model\":\"no\",\"messages\":[1]},"
     "\"messages\":[]}",
     INPUT, CF_ITEM_NONE},
    {"{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"aab-\"},{\"role\":"
     "\"user\",\"content\":\"aab-c\"}]}",
     INPUT, CF_ITEM_USER},
    {"{\"model\":\"m\",\"metadata\":[\"aab-\",\"aab-c\",\"old\",\"-1\"],\"messages\":[]}",
     INPUT, CF_ITEM_NONE},
    {"{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"aab-aab-aab-c\"}]}",
     FOUND | LAST | MAIN, CF_ITEM_USER},
};

START_TEST(a_body_says_the_same_whatever_its_cut)
{
    for (size_t i = 0; i < CF_COUNT(cases); i++) {
        for (size_t cut = 0; cut <= strlen(cases[i].body); cut++) {
            struct cf_digest d;
            struct cf_error err = {0};
            ck_assert_msg(read_cut(&d, cases[i].body, cut, &err) == 0, "%zu: %s", i, err.text);
            ck_assert_msg(flags_of(&d) == cases[i].flags, "case %zu cut %zu: %u, not %u", i,
                          cut, flags_of(&d), cases[i].flags);
            ck_assert_int_eq(d.last, cases[i].last);
            ck_assert_str_eq(d.model, strstr(cases[i].body, "\"model\"") ? "m" : "");
        }
    }
}
END_TEST

START_TEST(the_three_names_of_the_token_limit_are_read)
{
    static const char *const names[] = {"max_tokens", "max_completion_tokens",
                                        "max_output_tokens"};

    for (size_t i = 0; i < CF_COUNT(names); i++) {
        struct cf_digest d;
        struct cf_error err;
        char body[100];
        snprintf(body, sizeof body, "{\"a\":{\"%s\":1},\"%s\":4096}", names[i], names[i]);
        ck_assert_int_eq(read_cut(&d, body, 9, &err), 0);
        ck_assert_uint_eq(d.max_tokens, 4096);
    }
}
END_TEST

START_TEST(a_long_model_name_is_cut_and_a_body_that_is_no_object_is_refused)
{
    struct cf_buf body = {0};
    struct cf_digest d;
    struct cf_error err;

    cf_buf_adds(&body, "{\"model\":\"");
    for (unsigned i = 0; i < 300; i++)
        cf_buf_adds(&body, "m");
    cf_buf_adds(&body, "\"}");
    ck_assert_int_eq(read_cut(&d, body.data, 30, &err), 0);
    ck_assert_uint_eq(strlen(d.model), CF_DIGEST_MODEL);
    cf_buf_release(&body);
    ck_assert_int_eq(read_cut(&d, "[{\"model\":\"m\"}]", 3, &err), -1);
    ck_assert_int_eq(read_cut(&d, "\"model\"", 3, &err), -1);
    ck_assert_int_eq(read_cut(&d, "", 0, &err), -1);
    ck_assert_int_eq(read_cut(&d, "{", 1, &err), -1);
}
END_TEST

START_TEST(a_needle_is_found_across_pieces_and_its_own_repetitions)
{
    static const char text[] = "xxabababcabab";
    struct cf_needle needle;

    cf_needle_set(&needle, "ababc");
    for (size_t cut = 0; cut < sizeof text; cut++) {
        size_t at = 0;
        bool first = cf_needle_feed(&needle, &at, text, cut);
        bool second = cf_needle_feed(&needle, &at, text + cut, strlen(text) - cut);
        ck_assert(first != second);
        ck_assert(first == (cut >= 9));
    }
    cf_needle_set(&needle, "");
    ck_assert(!cf_needle_feed(&needle, &(size_t){0}, text, strlen(text)));
    char longest[CF_NEEDLE_LIMIT + 2] = {0};
    memset(longest, 'z', CF_NEEDLE_LIMIT);
    cf_needle_set(&needle, longest);
    ck_assert(cf_needle_feed(&needle, &(size_t){0}, longest, strlen(longest)));
    longest[CF_NEEDLE_LIMIT] = 'z';
    cf_needle_set(&needle, longest);
    ck_assert(!cf_needle_feed(&needle, &(size_t){0}, longest, strlen(longest)));
    cf_needle_set(&needle, "ab"); /* changed in the middle of a text: no harm */
    ck_assert(!cf_needle_feed(&needle, &(size_t){200}, "b", 1));
}
END_TEST

UNIT_MAIN("relay/digest", tcase_add_test(tc, a_body_says_the_same_whatever_its_cut);
          tcase_add_test(tc, the_three_names_of_the_token_limit_are_read);
          tcase_add_test(tc, a_long_model_name_is_cut_and_a_body_that_is_no_object_is_refused);
          tcase_add_test(tc, a_needle_is_found_across_pieces_and_its_own_repetitions);)
