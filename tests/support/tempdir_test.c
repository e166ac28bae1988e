/* Temporary directories: all that is inside goes, nothing outside does. */
#include "support/tempdir.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/check.h"

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* A link inside is removed, what it points to stays. */
static void a_directory_goes_with_its_content_and_no_more(void **state)
{
    (void)state;
    tempdir kept;
    tempdir removed;
    tide_error err;
    char path[TEMPDIR_PATH_MAX];
    char precious[TEMPDIR_PATH_MAX];
    assert_ok_err(tempdir_make(&kept, &err), &err);
    assert_ok_err(tempdir_make(&removed, &err), &err);
    tempdir_join(&kept, "precious", precious);
    write_file(precious, "x");
    tempdir_join(&removed, "sub", path);
    assert_int_equal(0, mkdir(path, 0700));
    tempdir_join(&removed, "sub/file", path);
    write_file(path, "y");
    tempdir_join(&removed, "sub/link", path);
    assert_int_equal(0, symlink(kept.path, path));

    const tempdir old = removed;
    assert_ok_err(tempdir_remove(&removed, &err), &err);
    assert_int_equal(-1, access(old.path, F_OK));
    assert_int_equal(0, access(precious, F_OK));
    assert_ok_err(tempdir_remove(&removed, &err), &err); /* none any more: fine */
    assert_ok_err(tempdir_remove(&kept, &err), &err);
}

/* Whatever a test got wrong, nothing outside is removed. */
static void removing_refuses_what_is_not_ours(void **state)
{
    (void)state;
    tempdir ours;
    tide_error err;
    assert_ok_err(tempdir_make(&ours, &err), &err);
    const char *const forms[] = {"/",
                                 "/tmp",
                                 "/tmp/other",
                                 "%s/sub",
                                 "%s/..",
                                 "%s/../x",
                                 "sub/%s",
                                 "/home/tidemark-test-abc",
                                 "/tmp/tidemark-test-",
                                 "%s/"};
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        tempdir other = {""};
        const char *mark = strstr(forms[i], "%s");
        const int before = mark != NULL ? (int)(mark - forms[i]) : (int)strlen(forms[i]);
        const int len = snprintf(other.path, sizeof(other.path), "%.*s%s%s", before, forms[i],
                                 mark != NULL ? ours.path : "", mark != NULL ? mark + 2 : "");
        assert_true(len > 0 && len < TEMPDIR_PATH_MAX);
        assert_status(TIDE_E_INVALID, tempdir_remove(&other, &err));
    }
    assert_int_equal(0, access(ours.path, F_OK));

    char link_path[TEMPDIR_PATH_MAX + 8];
    snprintf(link_path, sizeof(link_path), "%s-link", ours.path);
    assert_int_equal(0, symlink("/etc", link_path));
    tempdir link_dir;
    memcpy(link_dir.path, link_path, TEMPDIR_PATH_MAX);
    assert_status(TIDE_E_INVALID, tempdir_remove(&link_dir, &err));
    assert_int_equal(0, unlink(link_path));
    assert_ok_err(tempdir_remove(&ours, &err), &err);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_directory_goes_with_its_content_and_no_more),
        cmocka_unit_test(removing_refuses_what_is_not_ours),
    };
    return cmocka_run_group_tests_name("tempdir", tests, NULL, NULL);
}
