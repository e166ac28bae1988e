/* Whose a data directory is: who is not its owner removes nothing there. */
#include "lake_fixture.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tidemark/identity.h>

#include "lake/expire.h"
#include "lake/owner.h"

static tide_status clean(lake_case *l, tide_lake_cleaned *out)
{
    const tide_lake_cleanup_options options = {.grace_us = -1, .with_orphans = true};
    return tide_lake_cleanup(l->lake, &options, out, &l->err);
}

/* A file that another metabase may need. */
static void put_stray(lake_case *l, char out[TEMPDIR_PATH_MAX])
{
    (void)snprintf(out, TEMPDIR_PATH_MAX, "%sx.parquet", tide_lake_data_dir(l->lake));
    FILE *file = fopen(out, "w");
    assert_non_null(file);
    assert_int_equal(0, fclose(file));
}

static bool is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

static void a_directory_belongs_to_one_metabase(void **state)
{
    lake_case l = lake_case_open(state);
    char path[TEMPDIR_PATH_MAX];
    char data[TEMPDIR_PATH_MAX];
    tide_store *other = NULL;
    tempdir_join(&l.t->dir, "other.db", path);
    lake_data_dir(l.t, data);
    assert_ok_err(tide_store_open(&other, path, NULL, &l.err), &l.err);
    assert_status(TIDE_E_CONFLICT, tide_lake_init(other, data, NULL, &l.err));
    assert_contains(l.err.text, "belongs to the metabase in");
    tide_store_close(other);
    lake_case_done(&l);
}

/* A copy, or what was restored beside the original, has another epoch. */
static void a_copied_metabase_removes_nothing_until_it_takes_over(void **state)
{
    lake_case l = lake_case_open(state);
    char stray[TEMPDIR_PATH_MAX];
    tide_lake_cleaned cleaned;
    put_stray(&l, stray);
    lake_sql(&l, "INSERT INTO ducklake_files_scheduled_for_deletion VALUES (1, 'x.parquet', true, "
                 "'2020-01-01 00:00:00', 1)");
    assert_ok_err(tide_identity_raise(l.t->store, "copied", "a test", NULL, &l.err), &l.err);
    assert_status(TIDE_E_CONFLICT, clean(&l, &cleaned));
    assert_contains(l.err.text, "--force");
    assert_true(is_there(stray));
    assert_ok_err(tide_lake_take_over(l.t->store, tide_lake_data_dir(l.lake), &l.err), &l.err);
    assert_ok_err(clean(&l, &cleaned), &l.err);
    assert_int_equal(cleaned.files, 1);
    assert_false(is_there(stray));
    lake_case_done(&l);
}

static void what_is_scheduled_waits_for_a_directory_that_is_away(void **state)
{
    lake_case l = lake_case_open(state);
    char data[TEMPDIR_PATH_MAX];
    char away[TEMPDIR_PATH_MAX];
    tide_lake_cleaned cleaned;
    lake_data_dir(l.t, data);
    tempdir_join(&l.t->dir, "away", away);
    lake_sql(&l, "INSERT INTO ducklake_files_scheduled_for_deletion VALUES (1, 'a.parquet', true, "
                 "'2020-01-01 00:00:00', 1)");
    assert_int_equal(0, rename(data, away));
    assert_status(TIDE_E_NOT_FOUND, clean(&l, &cleaned));
    assert_contains(l.err.text, "is it mounted?");
    assert_int_equal(0, mkdir(data, 0700)); /* where it was mounted */
    assert_status(TIDE_E_NOT_FOUND, clean(&l, &cleaned));
    assert_status(TIDE_E_NOT_FOUND, tide_lake_init(l.t->store, data, NULL, &l.err));
    assert_int_equal(0, rmdir(data));
    assert_int_equal(0, rename(away, data));
    assert_ok_err(clean(&l, &cleaned), &l.err);
    assert_int_equal(cleaned.missing, 1);
    lake_case_done(&l);
}

static void a_directory_without_a_mark_is_marked_by_init(void **state)
{
    lake_case l = lake_case_open(state);
    char data[TEMPDIR_PATH_MAX];
    char mark[TEMPDIR_PATH_MAX + 32];
    tide_lake_cleaned cleaned;
    lake_data_dir(l.t, data);
    (void)snprintf(mark, sizeof mark, "%s/%s", data, TIDE_LAKE_OWNER_FILE);
    assert_int_equal(0, unlink(mark));
    assert_status(TIDE_E_NOT_FOUND, clean(&l, &cleaned));
    assert_ok_err(tide_lake_init(l.t->store, data, NULL, &l.err), &l.err);
    assert_ok_err(clean(&l, &cleaned), &l.err);
    assert_true(is_there(mark));
    lake_case_done(&l);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(a_directory_belongs_to_one_metabase),
        STORE_CASE(a_copied_metabase_removes_nothing_until_it_takes_over),
        STORE_CASE(what_is_scheduled_waits_for_a_directory_that_is_away),
        STORE_CASE(a_directory_without_a_mark_is_marked_by_init),
    };
    return cmocka_run_group_tests_name("lake owner", tests, NULL, NULL);
}
