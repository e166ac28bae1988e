/* Which history a store's numbers belong to. */
#include "support/store_fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "store/engine.h"
#include "store/identity.h"
#include "store/identity_marker.h"
#include "tidemark_sql.h"

static tide_identity identity_of(tide_store *store)
{
    tide_identity identity;
    tide_store_identity(store, &identity);
    return identity;
}

/* Copy a file byte for byte into another name, or over the same inode. */
static void copy_file(const char *from, const char *to)
{
    static char bytes[1 << 20];
    const int in = open(from, O_RDONLY);
    const int out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_true(in >= 0 && out >= 0);
    ssize_t got = 0;
    while ((got = read(in, bytes, sizeof bytes)) > 0)
        assert_int_equal(got, write(out, bytes, (size_t)got));
    assert_int_equal(0, close(in));
    assert_int_equal(0, close(out));
}

/* The database and its log: what a backup of a stopped program copies. */
static void copy_database(const char *from, const char *to)
{
    char wal_from[TEMPDIR_PATH_MAX];
    char wal_to[TEMPDIR_PATH_MAX];
    copy_file(from, to);
    (void)snprintf(wal_from, sizeof wal_from, "%s-wal", from);
    (void)snprintf(wal_to, sizeof wal_to, "%s-wal", to);
    if (access(wal_from, F_OK) == 0)
        copy_file(wal_from, wal_to);
}

static tide_store *open_at(store_test *t, const char *path)
{
    char kept[PG_CLUSTER_URL_MAX];
    memcpy(kept, t->url, sizeof kept);
    (void)snprintf(t->url, sizeof t->url, "%s", path);
    tide_store *store = store_test_open(t);
    memcpy(t->url, kept, sizeof kept);
    return store;
}

static void take_one(store_test *t, tide_store *store)
{
    tide_sequence_range range;
    assert_ok_err(tide_sequence_next(store, "orders", 1, &range, NULL, &t->err), &t->err);
    virtual_env_advance(&t->clock, 2 * SECOND_US); /* the mark rises at most once a second */
}

static void the_session_lasts_and_every_store_has_its_own(void **state)
{
    store_test *t = *state;
    const tide_identity first = identity_of(t->store);
    const tide_identity again = identity_of(store_test_open(t));
    assert_string_equal(first.session_id, again.session_id);
    assert_int_equal(first.epoch, again.epoch);
    assert_int_equal(36, strlen(first.session_id));
    assert_int_equal('4', first.session_id[14]);
}

static tide_status read_session(tide_tx *tx, void *arg, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TIDE_SQL_METADATA_GET, err));
    tide_query_bind_text(query, "key", "session_id");
    assert_ok(tide_query_one(query, err));
    const tide_view value = tide_query_col_text(query);
    (void)snprintf(arg, TIDE_SESSION_ID_SIZE, "%.*s", (int)value.len, value.ptr);
    return TIDE_OK;
}

static void the_session_id_is_readable_by_plain_sql(void **state)
{
    store_test *t = *state;
    char value[TIDE_SESSION_ID_SIZE];
    assert_ok(tide_store_read(t->store, read_session, value, &t->err));
    assert_string_equal(identity_of(t->store).session_id, value);
}

static void a_copied_file_begins_a_new_epoch_and_the_original_does_not(void **state)
{
    store_test *t = *state;
    char copy[TEMPDIR_PATH_MAX];
    tempdir_join(&t->dir, "copy.db", copy);
    take_one(t, t->store);
    const tide_identity original = identity_of(t->store);
    tide_store_closep(&t->store);
    copy_database(t->url, copy);
    const tide_identity copied = identity_of(open_at(t, copy));
    assert_string_equal(original.session_id, copied.session_id);
    assert_int_equal(original.epoch + 1, copied.epoch);
    assert_string_not_equal(original.epoch_id, copied.epoch_id);
    assert_int_equal(original.epoch, identity_of(store_test_open(t)).epoch);
    assert_int_equal(copied.epoch, identity_of(open_at(t, copy)).epoch);
}

/* cp backup.db live.db keeps the inode; the identity marker knows better. */
static void a_file_put_back_in_place_begins_a_new_epoch(void **state)
{
    store_test *t = *state;
    char backup[TEMPDIR_PATH_MAX];
    tempdir_join(&t->dir, "backup.db", backup);
    take_one(t, t->store);
    const tide_identity before = identity_of(t->store);
    tide_store_closep(&t->store);
    copy_database(t->url, backup);
    tide_store *more = store_test_open(t);
    take_one(t, more);
    take_one(t, more);
    store_test_close(t, &more);
    copy_database(backup, t->url);
    const tide_identity after = identity_of(store_test_open(t));
    assert_int_equal(before.epoch + 1, after.epoch);
    assert_int_equal(after.epoch, identity_of(store_test_open(t)).epoch);
}

/* The same backup, put back again: what was given out in the epoch in between is not of the next one. */
static void a_file_put_back_twice_does_not_begin_one_epoch_twice(void **state)
{
    store_test *t = *state;
    char backup[TEMPDIR_PATH_MAX];
    tempdir_join(&t->dir, "backup.db", backup);
    take_one(t, t->store);
    const int64_t before = identity_of(t->store).epoch;
    tide_store_closep(&t->store);
    copy_database(t->url, backup);
    for (int64_t i = 1; i <= 3; i++) {
        tide_store *more = store_test_open(t);
        assert_int_equal(before + i - 1, identity_of(more).epoch);
        take_one(t, more);
        take_one(t, more);
        store_test_close(t, &more);
        copy_database(backup, t->url);
    }
}

/* The same with the file deleted first, as restores by hand do it: each time it has another inode and
 * another marker. A lease token contains its epoch, so an epoch must not begin twice here either. */
static void a_file_replaced_twice_does_not_begin_one_epoch_twice(void **state)
{
    store_test *t = *state;
    char backup[TEMPDIR_PATH_MAX];
    char kept[TEMPDIR_PATH_MAX];
    tempdir_join(&t->dir, "backup.db", backup);
    take_one(t, t->store);
    const int64_t before = identity_of(t->store).epoch;
    tide_store_closep(&t->store);
    copy_database(t->url, backup);
    for (int64_t i = 1; i <= 3; i++) {
        tide_store *more = store_test_open(t);
        assert_int_equal(before + i - 1, identity_of(more).epoch);
        take_one(t, more);
        store_test_close(t, &more);
        char name[32];
        (void)snprintf(name, sizeof name, "old-%d.db", (int)i);
        tempdir_join(&t->dir, name, kept);
        assert_int_equal(0, rename(t->url, kept)); /* its inode stays in use */
        copy_database(backup, t->url);
    }
}

/* A crash between the commit and the identity marker: the file is ahead by one. Nothing was cut. */
static void a_marker_that_is_behind_or_missing_is_no_evidence(void **state)
{
    store_test *t = *state;
    take_one(t, t->store);
    take_one(t, t->store);
    const tide_identity before = identity_of(t->store);
    char marker[TEMPDIR_PATH_MAX];
    (void)snprintf(marker, sizeof marker, "%s", tide_identity_marker_path(t->store->marker));
    tide_store_closep(&t->store);
    FILE *out = fopen(marker, "w");
    assert_non_null(out);
    (void)fprintf(out, "%s 1\n", before.session_id);
    (void)fclose(out);
    assert_int_equal(before.epoch, identity_of(store_test_open(t)).epoch);
    assert_int_equal(0, unlink(marker));
    assert_int_equal(before.epoch, identity_of(store_test_open(t)).epoch);
    out = fopen(marker, "w");
    assert_non_null(out);
    (void)fprintf(out, "garbage");
    (void)fclose(out);
    assert_int_equal(before.epoch, identity_of(store_test_open(t)).epoch);
}

/* A file that was deleted is made anew. Its numbers begin at 1, which is known to whoever opens it. */
static void another_store_at_the_path_of_one_is_reported_once(void **state)
{
    store_test *t = *state;
    char log[PG_CLUSTER_URL_MAX + 8];
    const tide_identity before = identity_of(t->store);
    assert_string_equal("", tide_identity_replaced(t->store));
    tide_store_closep(&t->store);
    tide_store *again = store_test_open(t);
    assert_string_equal("", tide_identity_replaced(again));
    store_test_close(t, &again);
    assert_int_equal(0, unlink(t->url));
    (void)snprintf(log, sizeof log, "%s-wal", t->url);
    (void)unlink(log);
    (void)snprintf(log, sizeof log, "%s-shm", t->url);
    (void)unlink(log);
    tide_store *other = store_test_open(t);
    assert_string_not_equal(before.session_id, identity_of(other).session_id);
    assert_string_equal(before.session_id, tide_identity_replaced(other));
    store_test_close(t, &other);
    assert_string_equal("", tide_identity_replaced(store_test_open(t)));
}

static void opened_as_is_a_copy_is_looked_at_and_not_changed(void **state)
{
    store_test *t = *state;
    char copy[TEMPDIR_PATH_MAX];
    tempdir_join(&t->dir, "copy.db", copy);
    const tide_identity original = identity_of(t->store);
    tide_store_closep(&t->store);
    copy_database(t->url, copy);
    tide_store_options options = store_test_options(t);
    options.mode = TIDE_STORE_AS_IS;
    tide_store *store = NULL;
    assert_ok_err(tide_store_open(&store, copy, &options, &t->err), &t->err);
    assert_int_equal(original.epoch, identity_of(store).epoch);
    tide_store_close(store);
}

static tide_status note_epoch(void *arg, const tide_epoch *epoch, tide_error *err)
{
    (void)err;
    tide_epoch *kept = arg;
    assert_true(epoch->epoch > kept->epoch);
    *kept = *epoch;
    return TIDE_OK;
}

static void an_epoch_can_be_raised_and_history_keeps_the_reason(void **state)
{
    store_test *t = *state;
    const tide_identity before = identity_of(t->store);
    tide_identity after;
    assert_ok_err(tide_identity_raise(t->store, "diverged", "reader saw 7", &after, &t->err),
                  &t->err);
    assert_int_equal(before.epoch + 1, after.epoch);
    assert_int_equal(after.epoch, identity_of(t->store).epoch);
    tide_epoch last = {0};
    assert_ok(tide_identity_history(t->store, note_epoch, &last, &t->err));
    assert_int_equal(after.epoch, last.epoch);
    assert_string_equal("diverged", last.reason);
    assert_string_equal("reader saw 7", last.evidence);
    assert_status(TIDE_E_INVALID, tide_identity_raise(t->store, "boredom", "", NULL, &t->err));
    assert_int_equal(after.epoch, identity_of(store_test_open(t)).epoch);
}

/* Every PostgreSQL case runs on a copy made by CREATE DATABASE ... TEMPLATE: that is a restored copy. */
/* After a failover another process begins the epoch. The WAL position that this one remembers is of the lost
 * timeline, and says nothing about the epoch that it finds in the marker. */
static void an_epoch_begun_by_another_process_is_not_begun_again(void **state)
{
    store_test *t = *state;
    take_one(t, t->store);
    tide_identity raised = {.epoch = 0};
    tide_store *other = store_test_open(t);
    assert_ok(tide_identity_raise(other, "failover", "test", &raised, &t->err));
    t->store->host.wal = UINT64_C(1) << 60;
    take_one(t, t->store);
    assert_int_equal(raised.epoch, identity_of(t->store).epoch);
    assert_string_equal(raised.epoch_id, identity_of(t->store).epoch_id);
}

static void a_database_copied_on_the_server_begins_a_new_epoch(void **state)
{
    store_test *t = *state;
    assert_int_equal(2, identity_of(t->store).epoch);
    tide_epoch last = {0};
    assert_ok(tide_identity_history(t->store, note_epoch, &last, &t->err));
    assert_string_equal("restored", last.reason);
}

static tide_status remake_metadata(tide_tx *tx, void *arg, tide_error *err)
{
    (void)arg;
    return tx->store->ops->script(
        tx,
        "CREATE TABLE kept AS SELECT * FROM db_metadata; DROP TABLE db_metadata;"
        "CREATE TABLE db_metadata (key text PRIMARY KEY, value text NOT NULL);"
        "INSERT INTO db_metadata SELECT * FROM kept; DROP TABLE kept",
        err);
}

/* pg_dump --clean, loaded into the same database, makes the tables anew. */
static void a_dump_loaded_into_the_same_database_begins_a_new_epoch(void **state)
{
    store_test *t = *state;
    const tide_identity before = identity_of(t->store);
    assert_ok_err(tide_store_write(t->store, remake_metadata, NULL, &t->err), &t->err);
    assert_int_equal(before.epoch + 1, identity_of(store_test_open(t)).epoch);
    assert_int_equal(before.epoch + 1, identity_of(store_test_open(t)).epoch);
}

static void a_backup_is_complete_and_begins_its_own_epoch(void **state)
{
    store_test *t = *state;
    char path[TEMPDIR_PATH_MAX];
    tempdir_join(&t->dir, "backup.db", path);
    take_one(t, t->store);
    assert_ok_err(tide_store_backup(t->store, path, &t->err), &t->err);
    assert_status(TIDE_E_EXISTS, tide_store_backup(t->store, path, &t->err));
    take_one(t, t->store);
    tide_store *backup = open_at(t, path);
    tide_sequence found;
    assert_ok(tide_sequence_show(backup, "orders", &found, &t->err));
    assert_int_equal(1, found.last);
    assert_int_equal(identity_of(t->store).epoch + 1, identity_of(backup).epoch);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(the_session_lasts_and_every_store_has_its_own),
        STORE_CASE(the_session_id_is_readable_by_plain_sql),
        STORE_CASE_SQLITE(a_copied_file_begins_a_new_epoch_and_the_original_does_not),
        STORE_CASE_SQLITE(a_file_put_back_in_place_begins_a_new_epoch),
        STORE_CASE_SQLITE(a_file_put_back_twice_does_not_begin_one_epoch_twice),
        STORE_CASE_SQLITE(a_file_replaced_twice_does_not_begin_one_epoch_twice),
        STORE_CASE_SQLITE(a_marker_that_is_behind_or_missing_is_no_evidence),
        STORE_CASE_SQLITE(another_store_at_the_path_of_one_is_reported_once),
        STORE_CASE_SQLITE(opened_as_is_a_copy_is_looked_at_and_not_changed),
        STORE_CASE(an_epoch_can_be_raised_and_history_keeps_the_reason),
        STORE_CASE_POSTGRES(an_epoch_begun_by_another_process_is_not_begun_again),
        STORE_CASE_POSTGRES(a_database_copied_on_the_server_begins_a_new_epoch),
        STORE_CASE_POSTGRES(a_dump_loaded_into_the_same_database_begins_a_new_epoch),
        STORE_CASE_SQLITE(a_backup_is_complete_and_begins_its_own_epoch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
