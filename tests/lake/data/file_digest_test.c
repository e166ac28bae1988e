/* A changed bit of a data or delete file is not served: every flip fails the first read of its file, and names it. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lake/data/data_fixture.h"
#include "lake/file_digest.h"

#include "colony/duckdb/duckdb_place.h"

enum { FLIPS = 2000 };

static void flip(const char *path, size_t bit)
{
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    uint8_t byte = 0;
    assert_true(fd >= 0);
    assert_int_equal(1, pread(fd, &byte, 1, (off_t)(bit / 8)));
    byte ^= (uint8_t)(1U << bit % 8);
    assert_int_equal(1, pwrite(fd, &byte, 1, (off_t)(bit / 8)));
    (void)close(fd);
}

/* FLIPS bits of the file, spread over it: each is found by what every scan of the file calls first. */
static void sweep(data_test *t, const char *path, const char *sha256)
{
    struct stat info;
    tide_lake_seen_files *seen = NULL;
    assert_int_equal(0, stat(path, &info));
    assert_ok_err(tide_lake_seen_files_new(&seen, &t->err), &t->err);
    const size_t bits = (size_t)info.st_size * 8;
    const size_t step = bits > FLIPS ? bits / FLIPS : 1;
    int64_t count = 0;
    for (size_t bit = 0; bit < bits && count < FLIPS; bit += step, count++) {
        flip(path, bit);
        assert_int_equal(TIDE_E_DAMAGED,
                         tide_lake_seen_files_check(seen, 1, path, sha256, &t->err));
        assert_contains(t->err.text, path);
        flip(path, bit);
    }
    print_message("%s: %lld flips of %zu bits\n", path, (long long)count, bits);
    assert_ok_err(tide_lake_seen_files_check(seen, 1, path, sha256, &t->err), &t->err);
    tide_lake_seen_files_free(seen);
    flip(path, 100);
    data_reopen(t, 0);
    assert_int_equal(TIDE_E_DAMAGED, data_try_ask(t, "SELECT sum(a), min(b) FROM t"));
    assert_contains(t->err.text, path);
    flip(path, 100);
    data_reopen(t, 0);
    assert_ok_err(data_try_ask(t, "SELECT sum(a), min(b) FROM t"), &t->err);
}

static void no_flipped_bit_is_served(void **state)
{
    data_test *t = *state;
    data_table(t, "a BIGINT, b VARCHAR");
    data_append_rows(t, "a,b\n1,x\n2,y\n3,z\n");
    assert_int_equal(1, data_delete(t, "a = 2"));
    const tide_lake_file_seen *file = &t->files.all[0];
    sweep(t, tide_lake_whole_path(&t->memory, t->data, file->path), file->sha256);
    sweep(t, tide_lake_whole_path(&t->memory, t->data, file->delete_path), file->delete_sha256);
}

/* Later reads of the same handle do not pay for it. */
static void a_file_is_compared_once_by_a_handle(void **state)
{
    data_test *t = *state;
    data_table(t, "a BIGINT");
    data_append_rows(t, "a\n1\n");
    assert_answer(t, "FROM t", "1\n");
    t->files.all[0].sha256 = "0000000000000000000000000000000000000000000000000000000000000000";
    assert_answer(t, "FROM t", "1\n");
    data_reopen(t, 0);
    assert_int_equal(TIDE_E_DAMAGED, data_try_ask(t, "FROM t"));
}

static void a_file_without_a_digest_is_read(void **state)
{
    data_test *t = *state;
    data_table(t, "a BIGINT");
    data_append_rows(t, "a\n1\n");
    t->files.all[0].sha256 = "";
    assert_answer(t, "FROM t", "1\n");
}

#define DATA_CASE(f) cmocka_unit_test_setup_teardown(f, data_setup, data_teardown)

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        DATA_CASE(no_flipped_bit_is_served),
        DATA_CASE(a_file_is_compared_once_by_a_handle),
        DATA_CASE(a_file_without_a_digest_is_read),
    };
    duckdb_place();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
