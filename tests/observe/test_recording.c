/* The format of a recording: what was written is read again, and nothing that was not. */
#include "observe/recording.h"

#include "tests/support/unit.h"

#include <string.h>

struct seen {
    struct cf_buf log;
    unsigned count;
};

static int
on_record(void *user, const struct cf_record *record, struct cf_error *err)
{
    struct seen *seen = user;

    (void)cf_buf_addf(&seen->log, "%u@%d ", record->kind, (int)record->at_ms);
    (void)cf_buf_add(&seen->log, record->bytes, record->len);
    (void)cf_buf_adds(&seen->log, "\n");
    seen->count++;
    return 0;
}

static void
make(struct cf_buf *file)
{
    cf_recording_head(file);
    cf_recording_put(file, CF_RECORD_START, 0, "{\"run\":\"x\"}", 11);
    cf_recording_put(file, CF_RECORD_OUTPUT, 7, "line\n", 5);
    cf_recording_put(file, CF_RECORD_END, 9, NULL, 0);
    cf_recording_put(file, CF_RECORD_RESULT, 70000, "{}", 2);
    ck_assert(!file->failed);
}

/* The log of what `len` bytes say; whether they were refused. */
static int
read_all(const char *bytes, size_t len, struct seen *seen, struct cf_recording_reader *reader)
{
    struct cf_error err = {0};
    int status = cf_recording_feed(reader, bytes, len, on_record, seen, &err);

    ck_assert(status == 0 || err.text[0] != '\0');
    return status;
}

START_TEST(records_survive_any_cut)
{
    struct cf_buf file = {0};

    make(&file);
    for (size_t cut = 0; cut <= file.len; cut++) {
        struct seen seen = {0};
        struct cf_recording_reader reader = {0};
        ck_assert_int_eq(read_all(file.data, cut, &seen, &reader), 0);
        ck_assert_int_eq(read_all(file.data + cut, file.len - cut, &seen, &reader), 0);
        ck_assert_str_eq(seen.log.data, "1@0 {\"run\":\"x\"}\n2@7 line\n\n9@9 \n12@70000 {}\n");
        ck_assert_uint_eq(cf_recording_torn_bytes(&reader), 0);
        ck_assert_uint_eq(reader.whole_bytes, file.len);
        cf_buf_release(&seen.log);
        cf_recording_reader_release(&reader);
    }
    cf_buf_release(&file);
}
END_TEST

START_TEST(a_truncated_file_is_read_up_to_its_last_whole_record)
{
    static const size_t ends[] = {16, 16 + 31, 16 + 31 + 25, 16 + 31 + 25 + 20, 16 + 31 + 25 + 20 + 22};
    struct cf_buf file = {0};

    make(&file);
    ck_assert_uint_eq(file.len, ends[4]);
    for (size_t len = 0; len < file.len; len++) {
        struct seen seen = {0};
        struct cf_recording_reader reader = {0};
        unsigned whole = 0;
        ck_assert_int_eq(read_all(file.data, len, &seen, &reader), 0);
        while (whole < 4 && ends[whole + 1] <= len)
            whole++;
        ck_assert_uint_eq(seen.count, whole);
        ck_assert_uint_eq(cf_recording_torn_bytes(&reader), len < 16 ? len : len - ends[whole]);
        cf_buf_release(&seen.log);
        cf_recording_reader_release(&reader);
    }
    cf_buf_release(&file);
}
END_TEST

START_TEST(no_flipped_bit_brings_a_record_that_was_not_written)
{
    struct cf_buf file = {0};
    struct seen all = {0};
    struct cf_recording_reader whole = {0};

    make(&file);
    ck_assert_int_eq(read_all(file.data, file.len, &all, &whole), 0);
    for (size_t bit = 0; bit < file.len * 8; bit++) {
        struct seen seen = {0};
        struct cf_recording_reader reader = {0};
        file.data[bit / 8] ^= (char)(1 << bit % 8);
        int status = read_all(file.data, file.len, &seen, &reader);
        ck_assert_msg(status < 0 || cf_recording_torn_bytes(&reader) > 0, "bit %zu was not noticed", bit);
        ck_assert_msg(seen.log.len < all.log.len && (seen.log.len == 0 || memcmp(seen.log.data, all.log.data, seen.log.len) == 0),
                      "bit %zu brought: %s", bit, seen.log.data);
        file.data[bit / 8] ^= (char)(1 << bit % 8);
        cf_buf_release(&seen.log);
        cf_recording_reader_release(&reader);
    }
    cf_buf_release(&all.log);
    cf_recording_reader_release(&whole);
    cf_buf_release(&file);
}
END_TEST

static int
measure(void *user, const struct cf_record *record, struct cf_error *err)
{
    size_t *sizes = user;

    for (size_t i = 0; i < record->len; i++)
        if (record->bytes[i] != (char)(i % 251))
            return cf_error_set(err, CF_ERROR_INTERNAL, 0, "byte %zu", i);
    sizes[sizes[0]++] = record->len;
    return 0;
}

START_TEST(a_long_record_is_cut_into_pieces_and_comes_whole)
{
    size_t sizes[8] = {1}, len = 2 * CF_RECORDING_PIECE_BYTES + 1;
    char *bytes = malloc(len);
    struct cf_buf file = {0};
    struct cf_recording_reader reader = {0};
    struct cf_error err = {0};

    for (size_t i = 0; i < len; i++)
        bytes[i] = (char)(i % 251);
    cf_recording_head(&file);
    cf_recording_put(&file, CF_RECORD_INPUT, 1, bytes, CF_RECORDING_PIECE_BYTES);
    ck_assert_uint_eq(file.len, CF_RECORDING_HEADER_BYTES + CF_RECORDING_FRAME_BYTES + CF_RECORDING_PIECE_BYTES);
    cf_recording_put(&file, CF_RECORD_INPUT, 1, bytes, CF_RECORDING_PIECE_BYTES + 1);
    cf_recording_put(&file, CF_RECORD_INPUT, 1, bytes, len);
    ck_assert_msg(cf_recording_feed(&reader, file.data, file.len, measure, sizes, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(sizes[0], 4);
    ck_assert_uint_eq(sizes[1], CF_RECORDING_PIECE_BYTES);
    ck_assert_uint_eq(sizes[2], CF_RECORDING_PIECE_BYTES + 1);
    ck_assert_uint_eq(sizes[3], len);
    ck_assert_uint_eq(reader.records, 3);
    cf_recording_reader_release(&reader);
    cf_buf_release(&file);
    free(bytes);
}
END_TEST

/* The header with another version and its checksum. */
static void
set_version(struct cf_buf *file, unsigned major, unsigned minor)
{
    file->data[8] = (char)major;
    file->data[10] = (char)minor;
    uint32_t crc = cf_crc32(0, file->data, 12);
    for (unsigned i = 0; i < 4; i++)
        file->data[12 + i] = (char)(crc >> (8 * i));
}

START_TEST(a_later_minor_is_read_and_another_major_is_refused)
{
    struct cf_buf file = {0};
    struct seen seen = {0};
    struct cf_recording_reader reader = {0};
    struct cf_error err = {0};

    cf_recording_head(&file);
    cf_recording_put(&file, 200, 3, "later", 5);
    set_version(&file, CF_RECORDING_MAJOR, 99);
    ck_assert_int_eq(read_all(file.data, file.len, &seen, &reader), 0);
    ck_assert_str_eq(seen.log.data, "200@3 later\n");
    ck_assert_ptr_null(cf_record_kind_name(200));
    cf_recording_reader_release(&reader);
    set_version(&file, CF_RECORDING_MAJOR + 1, 0);
    ck_assert_int_lt(cf_recording_feed(&reader, file.data, file.len, on_record, &seen, &err), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "version 2.0"));
    ck_assert_int_lt(cf_recording_feed(&reader, file.data, 1, on_record, &seen, &err), 0);
    cf_recording_reader_release(&reader);
    cf_buf_release(&seen.log);
    cf_buf_release(&file);
}
END_TEST

START_TEST(a_length_over_the_bound_is_refused_before_it_is_believed)
{
    struct cf_buf file = {0};
    struct seen seen = {0};
    struct cf_recording_reader reader = {0};
    struct cf_error err = {0};
    char head[CF_RECORDING_FRAME_BYTES] = {1, 0, 16, 0}; /* 1 MiB and one byte */

    cf_recording_head(&file);
    (void)cf_buf_add(&file, head, sizeof head);
    ck_assert_int_lt(cf_recording_feed(&reader, file.data, file.len, on_record, &seen, &err), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "record 1, at byte 16"));
    cf_recording_reader_release(&reader);
    cf_buf_release(&file);
}
END_TEST

START_TEST(the_checksum_is_the_one_of_zip)
{
    ck_assert_uint_eq(cf_crc32(0, "123456789", 9), 0xcbf43926);
    ck_assert_uint_eq(cf_crc32(cf_crc32(0, "1234", 4), "56789", 5), 0xcbf43926);
}
END_TEST

UNIT_MAIN("observe/recording", tcase_add_test(tc, records_survive_any_cut);
          tcase_add_test(tc, a_truncated_file_is_read_up_to_its_last_whole_record);
          tcase_add_test(tc, no_flipped_bit_brings_a_record_that_was_not_written);
          tcase_add_test(tc, a_long_record_is_cut_into_pieces_and_comes_whole);
          tcase_add_test(tc, a_later_minor_is_read_and_another_major_is_refused);
          tcase_add_test(tc, a_length_over_the_bound_is_refused_before_it_is_believed);
          tcase_add_test(tc, the_checksum_is_the_one_of_zip);)
