/* program_path_test.c - the file of the running program. What holds without /proc, and behind the
 * launcher of a relocatable tree, is seen by scripts/release/dist-test. */
#include "base/program_path.h"

#include <string.h>
#include <sys/stat.h>

#include "support/check.h"

static void the_file_is_this_one_and_starts_it_again(void **state)
{
    (void)state;
    char file[PATH_MAX];
    char command[PATH_MAX];
    struct stat found;
    struct stat running;
    assert_true(tide_program_file(file));
    assert_int_equal('/', file[0]);
    assert_int_equal(0, stat(file, &found));
    assert_int_equal(0, stat("/proc/self/exe", &running));
    assert_int_equal(running.st_ino, found.st_ino);
    assert_int_equal(running.st_dev, found.st_dev);
    assert_true(tide_program_command(command));
    assert_string_equal(file, command);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_file_is_this_one_and_starts_it_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
