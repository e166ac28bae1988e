/* Where a SQLite store lives: one name, one log, moved and restored files. */
#include "support/store_fixture.h"

#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crash/copying.h"
#include "store/migration.h"
#include "tidemark_sql.h"

static tide_status open_at(store_test *t, const char *path, tide_store_mode mode)
{
    tide_store_options options = store_test_options(t);
    options.mode = mode;
    tide_store *store = NULL;
    const tide_status status = tide_store_open(&store, path, &options, &t->err);
    tide_store_close(store);
    return status;
}

static tide_status take(store_test *t, const char *path, int64_t *number)
{
    tide_store_options options = store_test_options(t);
    tide_store *store = NULL;
    TIDE_TRY(tide_store_open(&store, path, &options, &t->err));
    tide_sequence_range range = {0};
    const tide_status status = tide_sequence_next(store, "orders", 1, &range, NULL, &t->err);
    *number = range.first;
    tide_store_close(store);
    return status;
}

static bool has_file(const char *path, const char *suffix)
{
    char name[PG_CLUSTER_URL_MAX + 16];
    (void)snprintf(name, sizeof name, "%s%s", path, suffix);
    return access(name, F_OK) == 0;
}

/* People copy and move the one file of a program that does not run. */
static void a_store_that_nobody_uses_is_one_file(void **state)
{
    store_test *t = *state;
    char copy[TEMPDIR_PATH_MAX];
    tempdir_join(&t->dir, "copy.db", copy);
    tide_store_closep(&t->store);
    int64_t number = 0;
    assert_ok_err(take(t, t->url, &number), &t->err);
    assert_ok(take(t, t->url, &number));
    assert_false(has_file(t->url, "-wal"));
    copy_file(t->url, copy);
    assert_ok_err(take(t, copy, &number), &t->err);
    assert_int_equal(3, number);
}

/* SQLite would replay the old log over the restored file. */
static void a_log_of_another_file_is_not_replayed(void **state)
{
    store_test *t = *state;
    char backup[TEMPDIR_PATH_MAX];
    char log[PG_CLUSTER_URL_MAX + 8];
    tempdir_join(&t->dir, "backup.db", backup);
    (void)snprintf(log, sizeof log, "%s-wal", t->url);
    assert_ok_err(tide_store_backup(t->store, backup, &t->err), &t->err);
    int64_t number = 0;
    assert_ok(take(t, t->url, &number));
    char kept[TEMPDIR_PATH_MAX];
    tempdir_join(&t->dir, "kept", kept);
    copy_file(log, kept); /* as after a kill -9 */
    tide_store_closep(&t->store);
    copy_file(backup, t->url);
    copy_file(kept, log);
    assert_status(TIDE_E_DAMAGED, open_at(t, t->url, TIDE_STORE_CREATE));
    assert_contains(t->err.text, "-wal");
    assert_int_equal(0, unlink(log));
    assert_ok_err(take(t, t->url, &number), &t->err);
    assert_int_equal(1, number);
}

static void a_file_with_two_names_is_refused(void **state)
{
    store_test *t = *state;
    char other[TEMPDIR_PATH_MAX];
    tempdir_join(&t->dir, "other.db", other);
    assert_int_equal(0, link(t->url, other));
    assert_status(TIDE_E_INVALID, open_at(t, other, TIDE_STORE_CREATE));
    assert_contains(t->err.text, "hard links");
    assert_false(has_file(other, "-door"));
    assert_int_equal(0, unlink(other));
}

static void a_symbolic_link_leads_to_the_same_store(void **state)
{
    store_test *t = *state;
    char other[TEMPDIR_PATH_MAX];
    tempdir_join(&t->dir, "link.db", other);
    assert_int_equal(0, symlink(t->url, other));
    int64_t number = 0;
    assert_ok_err(take(t, other, &number), &t->err);
    assert_ok(take(t, t->url, &number));
    assert_int_equal(2, number);
    assert_false(has_file(other, "-door"));
}

/* Acknowledging is our word: what goes to a deleted file is not acknowledged. */
static void writes_to_a_file_that_was_moved_away_are_refused(void **state)
{
    store_test *t = *state;
    tide_sequence_range range;
    char away[TEMPDIR_PATH_MAX];
    tempdir_join(&t->dir, "away.db", away);
    assert_ok(tide_sequence_next(t->store, "orders", 1, &range, NULL, &t->err));
    assert_int_equal(0, rename(t->url, away));
    assert_status(TIDE_E_DAMAGED, tide_sequence_next(t->store, "orders", 1, &range, NULL, &t->err));
    assert_int_equal(0, rename(away, t->url));
    assert_ok(tide_sequence_next(t->store, "orders", 1, &range, NULL, &t->err));
    assert_int_equal(2, range.first);
}

/* A daemon may only have read since it started. Its first write must not take the file that replaced its own for
 * the one it has open. */
static void writes_to_a_file_replaced_before_the_first_write_are_refused(void **state)
{
    store_test *t = *state;
    tide_sequence_range range;
    char backup[TEMPDIR_PATH_MAX];
    char away[TEMPDIR_PATH_MAX];
    char log[PG_CLUSTER_URL_MAX + 8];
    tempdir_join(&t->dir, "backup.db", backup);
    tempdir_join(&t->dir, "away.db", away);
    (void)snprintf(log, sizeof log, "%s-wal", t->url);
    tide_store_closep(&t->store);
    copy_file(t->url, backup);
    tide_store *idle = store_test_open(t);
    assert_int_equal(0, rename(t->url, away));
    (void)unlink(log);
    copy_file(backup, t->url);
    int64_t number = 0;
    assert_ok_err(take(t, t->url, &number), &t->err);
    for (int i = 0; i < 2; i++)
        assert_status(TIDE_E_DAMAGED, tide_sequence_next(idle, "orders", 1, &range, NULL, &t->err));
}

/* A follower must not wait for ever on a file that has no name any more. */
static void reads_of_a_file_that_was_replaced_are_refused(void **state)
{
    store_test *t = *state;
    tide_sequence_range range;
    tide_sequence found;
    char away[TEMPDIR_PATH_MAX];
    tempdir_join(&t->dir, "away.db", away);
    assert_ok(tide_sequence_next(t->store, "orders", 1, &range, NULL, &t->err));
    tide_store *reader = store_test_open_with(
        t, (tide_store_options){TIDE_STORE_OPTIONS_INIT, .mode = TIDE_STORE_AS_IS});
    assert_ok(tide_sequence_show(reader, "orders", &found, &t->err));
    assert_int_equal(0, rename(t->url, away));
    assert_status(TIDE_E_DAMAGED, tide_sequence_show(reader, "orders", &found, &t->err));
    assert_status(TIDE_E_DAMAGED, tide_sequence_show(t->store, "orders", &found, &t->err));
    copy_file(away, t->url);
    assert_status(TIDE_E_DAMAGED, tide_sequence_show(reader, "orders", &found, &t->err));
    assert_int_equal(0, rename(away, t->url));
    assert_ok(tide_sequence_show(reader, "orders", &found, &t->err));
}

static void writes_beside_a_deleted_log_are_refused(void **state)
{
    store_test *t = *state;
    tide_sequence_range range;
    char log[PG_CLUSTER_URL_MAX + 8];
    (void)snprintf(log, sizeof log, "%s-wal", t->url);
    assert_ok(tide_sequence_next(t->store, "orders", 1, &range, NULL, &t->err));
    assert_int_equal(0, unlink(log));
    assert_status(TIDE_E_DAMAGED, tide_sequence_next(t->store, "orders", 1, &range, NULL, &t->err));
}

static void names_that_are_no_files_are_refused(void **state)
{
    store_test *t = *state;
    char name[600];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_status(TIDE_E_INVALID, open_at(t, name, TIDE_STORE_CREATE));
    name[250] = '\0';
    assert_status(TIDE_E_INVALID, open_at(t, name, TIDE_STORE_CREATE));
    assert_status(TIDE_E_INVALID, open_at(t, ":memory:", TIDE_STORE_CREATE));
    assert_status(TIDE_E_INVALID, open_at(t, "sqlite::memory:", TIDE_STORE_CREATE));
    assert_int_not_equal(0, access(":memory:-door", F_OK));
}

/* A foreign database under an odd name is foreign, and not another file is looked at. */
static void odd_names_are_taken_literally(void **state)
{
    store_test *t = *state;
    static const char *const names[] = {"we?ird.db", "p%41.db", "h#sh.db"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[TEMPDIR_PATH_MAX];
        tempdir_join(&t->dir, names[i], path);
        sqlite3 *db = NULL;
        assert_int_equal(SQLITE_OK, sqlite3_open(path, &db));
        assert_int_equal(SQLITE_OK, sqlite3_exec(db, "CREATE TABLE theirs (a)", NULL, NULL, NULL));
        assert_int_equal(SQLITE_OK, sqlite3_close(db));
        assert_status(TIDE_E_FOREIGN, open_at(t, path, TIDE_STORE_CREATE));
    }
}

static void run_sql(const char *path, const char *sql)
{
    sqlite3 *db = NULL;
    assert_int_equal(SQLITE_OK, sqlite3_open(path, &db));
    assert_int_equal(SQLITE_OK, sqlite3_exec(db, sql, NULL, NULL, NULL));
    assert_int_equal(SQLITE_OK, sqlite3_close(db));
}

static void write_bytes(const char *path, const char *suffix, const void *bytes, size_t len)
{
    char name[TEMPDIR_PATH_MAX + 16];
    (void)snprintf(name, sizeof name, "%s%s", path, suffix);
    FILE *file = fopen(name, "wb");
    assert_non_null(file);
    assert_int_equal(len, fwrite(bytes, 1, len, file));
    assert_int_equal(0, fclose(file));
}

/* The first transaction was being written when the power failed: the file has its size, and the journal says that there was
 * none before. */
static void a_creation_that_a_power_cut_undid_is_made_afresh(void **state)
{
    static const unsigned char pages[15360];
    static const unsigned char journal[512] = {0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7, 0,
                                               0,    0,    0,    1,    2,    3,    4,    0,    0,
                                               0,    0,    0,    0,    2,    0,    0,    0,    64};
    store_test *t = *state;
    char path[TEMPDIR_PATH_MAX];
    tempdir_join(&t->dir, "undone.db", path);
    write_bytes(path, "", pages, sizeof pages);
    assert_status(TIDE_E_FOREIGN, open_at(t, path, TIDE_STORE_CREATE));
    write_bytes(path, "-journal", journal, sizeof journal);
    assert_status(TIDE_E_NOT_FOUND, open_at(t, path, TIDE_STORE_EXISTING));
    int64_t number = 0;
    assert_ok_err(take(t, path, &number), &t->err);
    assert_int_equal(1, number);
    assert_false(has_file(path, "-journal"));
    write_bytes(path, "", "a text", 6);
    write_bytes(path, "-journal", journal, sizeof journal);
    assert_status(TIDE_E_FOREIGN, open_at(t, path, TIDE_STORE_CREATE));
}

/* The journal of the switch to WAL mode came back with the power, and the beginning of the log was there already. */
static void a_switch_to_wal_mode_that_a_power_cut_undid_is_made_again(void **state)
{
    static const unsigned char log[32] = {0x37, 0x7f, 0x06, 0x82};
    store_test *t = *state;
    char path[TEMPDIR_PATH_MAX];
    tempdir_join(&t->dir, "half.db", path);
    run_sql(path, "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA application_id = 0x54494445");
    write_bytes(path, "-wal", log, sizeof log);
    int64_t number = 0;
    assert_ok_err(take(t, path, &number), &t->err);
    assert_ok_err(take(t, path, &number), &t->err);
    assert_int_equal(2, number);
    assert_false(has_file(path, "-wal"));
}

static void count_finding(void *arg, const char *finding)
{
    assert_true(strlen(finding) > 0);
    (*(int *)arg)++;
}

static void a_check_misses_no_table_and_no_trigger(void **state)
{
    store_test *t = *state;
    int findings = 0;
    assert_ok_err(tide_store_verify(t->store, count_finding, &findings, &t->err), &t->err);
    run_sql(t->url, "DROP TRIGGER sequences_rise");
    assert_status(TIDE_E_DAMAGED, tide_store_verify(t->store, count_finding, &findings, &t->err));
    assert_int_equal(1, findings);
    run_sql(t->url, "DROP TABLE leases");
    findings = 0;
    assert_status(TIDE_E_DAMAGED, tide_store_verify(t->store, count_finding, &findings, &t->err));
    assert_true(findings > 1);
}

/* What is read back from a disk is input. */
static void an_identity_that_is_none_is_damage(void **state)
{
    store_test *t = *state;
    tide_store_closep(&t->store);
    run_sql(t->url, "DROP TRIGGER session_keeps;"
                    "UPDATE db_metadata SET value = '../../../evil' WHERE key = 'session_id'");
    assert_status(TIDE_E_DAMAGED, open_at(t, t->url, TIDE_STORE_CREATE));
    assert_contains(t->err.text, "session_id");
}

/* A mark that cannot be raised costs nobody's write. */
static void a_refused_mark_does_not_refuse_a_write(void **state)
{
    store_test *t = *state;
    tide_store_closep(&t->store);
    run_sql(t->url, "CREATE TRIGGER no_mark BEFORE UPDATE ON db_metadata WHEN old.key = 'mark' "
                    "BEGIN SELECT RAISE(ROLLBACK, 'no'); END");
    int64_t number = 0;
    assert_ok_err(take(t, t->url, &number), &t->err);
    assert_int_equal(1, number);
}

static void a_backup_is_as_private_as_its_store(void **state)
{
    store_test *t = *state;
    char backup[TEMPDIR_PATH_MAX];
    struct stat info;
    tempdir_join(&t->dir, "backup.db", backup);
    assert_int_equal(0, chmod(t->url, 0600));
    assert_ok_err(tide_store_backup(t->store, backup, &t->err), &t->err);
    assert_int_equal(0, stat(backup, &info));
    assert_int_equal(0600, info.st_mode & 0777);
    assert_status(TIDE_E_NOT_FOUND,
                  tide_store_backup(t->store, "/no/such/directory/b.db", &t->err));
}

/* Called for each object that migration 1 does not make. */
static int drop_object(void *arg, int width, char **values, char **names)
{
    (void)width;
    (void)names;
    char text[256];
    (void)snprintf(text, sizeof text, "DROP %s IF EXISTS store.\"%s\"", values[0], values[1]);
    return sqlite3_exec(arg, text, NULL, NULL, NULL);
}

/* Leave of a store what the first migration makes: it is then as an older program left it. */
static void make_older(const char *path)
{
    sqlite3 *db = NULL;
    sqlite3 *dropper = NULL;
    char *attach = sqlite3_mprintf("ATTACH %Q AS store", path);
    assert_int_equal(SQLITE_OK, sqlite3_open(":memory:", &db));
    assert_int_equal(SQLITE_OK, sqlite3_exec(db, tide_sql_migrations[0].text[TIDE_ENGINE_SQLITE],
                                             NULL, NULL, NULL));
    assert_int_equal(SQLITE_OK, sqlite3_exec(db, attach, NULL, NULL, NULL));
    assert_int_equal(SQLITE_OK, sqlite3_open(":memory:", &dropper));
    assert_int_equal(SQLITE_OK, sqlite3_exec(dropper, attach, NULL, NULL, NULL));
    sqlite3_free(attach);
    assert_int_equal(
        SQLITE_OK,
        sqlite3_exec(db,
                     "CREATE TEMP TABLE extra AS SELECT type, name FROM store.sqlite_master "
                     "WHERE type IN ('view', 'trigger', 'table') AND name NOT LIKE 'sqlite_%' "
                     "AND name NOT IN (SELECT name FROM main.sqlite_master)",
                     NULL, NULL, NULL));
    assert_int_equal(SQLITE_OK, sqlite3_exec(db, "SELECT type, name FROM extra ORDER BY type DESC",
                                             drop_object, dropper, NULL));
    assert_int_equal(SQLITE_OK,
                     sqlite3_exec(dropper, "DELETE FROM store.schema_version WHERE number > 1",
                                  NULL, NULL, NULL));
    /* A later step gave a CHECK another reason. */
    assert_int_equal(SQLITE_OK,
                     sqlite3_exec(db,
                                  "PRAGMA writable_schema = ON;"
                                  "UPDATE store.sqlite_master SET sql = (SELECT m.sql FROM "
                                  "main.sqlite_master m WHERE m.name = 'epochs') "
                                  "WHERE name = 'epochs'",
                                  NULL, NULL, NULL));
    assert_int_equal(SQLITE_OK, sqlite3_close(dropper));
    assert_int_equal(SQLITE_OK, sqlite3_close(db));
}

/* Looking at an older store changes nothing, and what it does not have yet is no damage. */
static void a_check_goes_by_the_migrations_that_were_applied(void **state)
{
    store_test *t = *state;
    int findings = 0;
    tide_store_closep(&t->store);
    make_older(t->url);
    tide_store_options options = store_test_options(t);
    options.mode = TIDE_STORE_AS_IS;
    assert_ok_err(tide_store_open(&t->store, t->url, &options, &t->err), &t->err);
    assert_ok_err(tide_store_verify(t->store, count_finding, &findings, &t->err), &t->err);
    tide_store_closep(&t->store);
    run_sql(t->url, "DROP TRIGGER sequences_rise");
    assert_ok_err(tide_store_open(&t->store, t->url, &options, &t->err), &t->err);
    assert_status(TIDE_E_DAMAGED, tide_store_verify(t->store, count_finding, &findings, &t->err));
    assert_int_equal(1, findings);
    tide_store_closep(&t->store);
    options.mode = TIDE_STORE_EXISTING;
    assert_ok_err(tide_store_open(&t->store, t->url, &options, &t->err), &t->err);
    findings = 0;
    assert_status(TIDE_E_DAMAGED, tide_store_verify(t->store, count_finding, &findings, &t->err));
    assert_int_equal(1, findings); /* brought up to date, and still without that trigger */
}

static void note_auto_vacuum(void *arg, const char *name, const char *value)
{
    if (strcmp(name, "auto_vacuum") == 0)
        (void)snprintf(arg, TEMPDIR_PATH_MAX, "%s", value);
}

static int64_t ask_number(const char *path, const char *sql)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;
    assert_int_equal(SQLITE_OK, sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL));
    assert_int_equal(SQLITE_OK, sqlite3_prepare_v2(db, sql, -1, &statement, NULL));
    assert_int_equal(SQLITE_ROW, sqlite3_step(statement));
    const int64_t value = sqlite3_column_int64(statement, 0);
    (void)sqlite3_finalize(statement);
    assert_int_equal(SQLITE_OK, sqlite3_close(db));
    return value;
}

/* Clean-up gives pages back to the file system, in a copy too. */
static void a_new_store_can_give_pages_back(void **state)
{
    store_test *t = *state;
    char found[TEMPDIR_PATH_MAX] = "";
    char backup[TEMPDIR_PATH_MAX];
    assert_ok_err(tide_store_describe(t->store, note_auto_vacuum, found, &t->err), &t->err);
    assert_string_equal("incremental", found);
    run_sql(t->url, "INSERT INTO typed (id, b) VALUES (1, zeroblob(4000000))");
    const int64_t full = ask_number(t->url, "PRAGMA page_count");
    run_sql(t->url, "DELETE FROM typed");
    run_sql(t->url, "PRAGMA incremental_vacuum(1000)");
    assert_true(ask_number(t->url, "PRAGMA page_count") < full - 200);
    tempdir_join(&t->dir, "backup.db", backup);
    assert_ok_err(tide_store_backup(t->store, backup, &t->err), &t->err);
    assert_int_equal(2, ask_number(backup, "PRAGMA auto_vacuum"));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE_SQLITE(a_store_that_nobody_uses_is_one_file),
        STORE_CASE_SQLITE(a_log_of_another_file_is_not_replayed),
        STORE_CASE_SQLITE(a_file_with_two_names_is_refused),
        STORE_CASE_SQLITE(a_symbolic_link_leads_to_the_same_store),
        STORE_CASE_SQLITE(writes_to_a_file_that_was_moved_away_are_refused),
        STORE_CASE_SQLITE(writes_to_a_file_replaced_before_the_first_write_are_refused),
        STORE_CASE_SQLITE(reads_of_a_file_that_was_replaced_are_refused),
        STORE_CASE_SQLITE(writes_beside_a_deleted_log_are_refused),
        STORE_CASE_SQLITE(names_that_are_no_files_are_refused),
        STORE_CASE_SQLITE(odd_names_are_taken_literally),
        STORE_CASE_SQLITE(a_creation_that_a_power_cut_undid_is_made_afresh),
        STORE_CASE_SQLITE(a_switch_to_wal_mode_that_a_power_cut_undid_is_made_again),
        STORE_CASE_SQLITE(a_check_misses_no_table_and_no_trigger),
        STORE_CASE_SQLITE(an_identity_that_is_none_is_damage),
        STORE_CASE_SQLITE(a_refused_mark_does_not_refuse_a_write),
        STORE_CASE_SQLITE(a_backup_is_as_private_as_its_store),
        STORE_CASE_SQLITE(a_check_goes_by_the_migrations_that_were_applied),
        STORE_CASE_SQLITE(a_new_store_can_give_pages_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
