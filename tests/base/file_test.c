/* Small files: read whole, or refused with their name. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "support/check.h"
#include "support/tempdir.h"

static void write_file(const char *path, size_t len)
{
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    for (size_t i = 0; i < len; i++)
        assert_int_equal('a' + (int)(i % 26), fputc('a' + (int)(i % 26), out));
    assert_int_equal(0, fclose(out));
}

static void a_file_is_appended_whole_or_not_at_all(void **state)
{
    (void)state;
    tempdir dir;
    char path[TEMPDIR_PATH_MAX];
    tide_error err = {.status = TIDE_OK};
    assert_ok_err(tempdir_make(&dir, &err), &err);
    tempdir_join(&dir, "f", path);
    static const size_t lens[] = {0, 1, 16383, 16384, 16385, 100000};
    for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        TIDE_CLEANUP(tide_buffer_done) tide_buffer text;
        tide_buffer_init(&text, lens[i] + 3);
        assert_ok(tide_buffer_append_text(&text, "abc"));
        write_file(path, lens[i]);
        assert_ok_err(tide_file_read(&text, path, &err), &err);
        assert_int_equal(lens[i] + 3, text.len);
        for (size_t at = 0; at < lens[i]; at++)
            assert_int_equal('a' + (int)(at % 26), text.ptr[at + 3]);
        if (lens[i] == 0)
            continue;
        tide_buffer_truncate(&text, 3);
        write_file(path, lens[i] + 1);
        assert_status(TIDE_E_INVALID, tide_file_read(&text, path, &err));
        assert_contains(err.text, "larger than");
        assert_int_equal(3, text.len);
    }
    assert_ok_err(tempdir_remove(&dir, &err), &err);
}

static void what_cannot_be_read_is_named(void **state)
{
    (void)state;
    tide_error err = {.status = TIDE_OK};
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text;
    tide_buffer_init(&text, 100);
    assert_status(TIDE_E_NOT_FOUND, tide_file_read(&text, "/nowhere/at/all", &err));
    assert_contains(err.text, "/nowhere/at/all: ");
    assert_status(TIDE_E_NOT_FOUND, tide_file_read(&text, "", &err));
    assert_status(TIDE_E_INVALID, tide_file_read(&text, "/", &err));
    assert_contains(err.text, "directory");
    assert_status(TIDE_E_INVALID, tide_file_read(&text, "/dev/zero", &err));
    assert_int_equal(0, text.len);
    assert_ok(tide_file_read(&text, "/dev/null", &err));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_appended_whole_or_not_at_all),
        cmocka_unit_test(what_cannot_be_read_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
