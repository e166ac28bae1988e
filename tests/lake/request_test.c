/* Lost answers, busy stores, counters that stand behind: a request is done once, and what cannot be done is told.
 *
 * tide_store_write is wrapped: a case can lose the answer of a write that happened, or have a write fail before it begins. */
#include "lake_fixture.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

static int lose_answers;        /* of the next writes, which happen */
static int fail_before;         /* writes that do not begin */
static bool is_away_afterwards; /* no write begins after a lost answer */
static bool is_denied;          /* those that do not begin fail for good */
static atomic_int writes;       /* that began */

tide_status __real_tide_store_write(tide_store *store, tide_tx_fn *fn, void *arg, tide_error *err);
tide_status __wrap_tide_store_write(tide_store *store, tide_tx_fn *fn, void *arg, tide_error *err);

tide_status __wrap_tide_store_write(tide_store *store, tide_tx_fn *fn, void *arg, tide_error *err)
{
    if (fail_before > 0) {
        fail_before--;
        if (is_denied)
            return tide_fail(err, TIDE_E_DENIED, "the right to write was taken away");
        return tide_fail(err, TIDE_E_BUSY, "another program has been writing for too long");
    }
    (void)atomic_fetch_add(&writes, 1);
    const tide_status status = __real_tide_store_write(store, fn, arg, err);
    if (status >= TIDE_OK && lose_answers > 0) {
        lose_answers--;
        fail_before = is_away_afterwards ? 100 : 0;
        is_away_afterwards = false;
        return tide_fail(err, TIDE_E_OUTCOME_UNKNOWN, "the connection was lost during the commit");
    }
    return status;
}

static tide_status commit_with(lake_case *l, const char *key, const char *hash,
                               tide_lake_committed *done)
{
    const tide_lake_commit_options options = {.request_key = key,
                                              .request_hash = tide_view_of(hash)};
    tide_lake_change *change = lake_begin(l, "work");
    lake_op_insert(l, change, "main", "t", 2);
    const tide_status status = tide_lake_commit(change, &options, done, &l->err);
    tide_lake_drop_change(change);
    return status;
}

static lake_case open_work(void **state)
{
    lose_answers = 0;
    fail_before = 0;
    is_denied = false;
    lake_case l = lake_case_open(state);
    lake_catalog(&l, "work");
    lake_table(&l, "work", "main", "t");
    return l;
}

static void a_key_is_committed_once_and_answered_again(void **state)
{
    lake_case l = open_work(state);
    tide_lake_committed first;
    tide_lake_committed again;
    assert_ok_err(commit_with(&l, "k1", "h1", &first), &l.err);
    assert_false(first.is_replay);
    assert_ok_err(commit_with(&l, "k1", "h1", &again), &l.err);
    assert_true(again.is_replay);
    assert_int_equal(again.snapshot_id, first.snapshot_id);
    assert_int_equal(again.parent_snapshot_id, first.parent_snapshot_id);
    assert_int_equal(again.rows_added, 2);
    assert_int_equal(lake_rows(&l, "work", "", "main", "t"), 2);
    lake_case_done(&l);
}

static void a_key_of_another_request_is_refused(void **state)
{
    lake_case l = open_work(state);
    tide_lake_committed done;
    assert_ok_err(commit_with(&l, "k1", "h1", &done), &l.err);
    assert_status(TIDE_E_CONFLICT, commit_with(&l, "k1", "h2", &done));
    assert_contains(l.err.text, "use a new key");
    assert_int_equal(lake_rows(&l, "work", "", "main", "t"), 2);
    lake_case_done(&l);
}

static void a_key_answers_even_where_the_change_would_collide_now(void **state)
{
    lake_case l = open_work(state);
    const tide_lake_commit_options options = {.request_key = "k"};
    tide_lake_committed first;
    tide_lake_committed again;
    tide_lake_change *a = lake_begin(&l, "work");
    tide_lake_change *b = lake_begin(&l, "work");
    assert_ok_err(tide_lake_create_schema(a, "s", &l.err), &l.err);
    assert_ok_err(tide_lake_create_schema(b, "s", &l.err), &l.err);
    assert_ok_err(tide_lake_commit(a, &options, &first, &l.err), &l.err);
    assert_ok_err(tide_lake_commit(b, &options, &again, &l.err), &l.err);
    assert_int_equal(first.snapshot_id, again.snapshot_id);
    tide_lake_drop_change(a);
    tide_lake_drop_change(b);
    lake_case_done(&l);
}

static void a_lost_answer_is_not_a_second_commit(void **state)
{
    lake_case l = open_work(state);
    const int64_t before = lake_head(&l, "work");
    tide_lake_change *change = lake_begin(&l, "work");
    tide_lake_committed done;
    lake_op_insert(&l, change, "main", "t", 5);
    lose_answers = 1;
    assert_ok_err(tide_lake_commit(change, NULL, &done, &l.err), &l.err);
    tide_lake_drop_change(change);
    assert_int_equal(done.tries, 2);
    assert_false(done.is_replay);
    assert_int_equal(done.parent_snapshot_id, before);
    assert_int_equal(done.snapshot_id, lake_head(&l, "work"));
    assert_int_equal(lake_rows(&l, "work", "", "main", "t"), 5);
    lake_case_done(&l);
}

static void tries_end_and_the_last_reason_is_told(void **state)
{
    lake_case l = open_work(state);
    tide_lake_committed done;
    tide_lake_change *change = lake_begin(&l, "work");
    lake_op_insert(&l, change, "main", "t", 2);
    fail_before = 100;
    assert_status(TIDE_E_BUSY, tide_lake_commit(change, NULL, &done, &l.err));
    fail_before = 0;
    assert_contains(l.err.text, "after 10 tries");
    assert_contains(l.err.text, "another program");
    assert_ok_err(tide_lake_commit(change, NULL, &done, &l.err),
                  &l.err); /* it can be tried later */
    tide_lake_drop_change(change);
    lake_case_done(&l);
}

static void an_outcome_that_stays_unknown_is_found_out_by_its_key(void **state)
{
    lake_case l = open_work(state);
    const tide_lake_commit_options options = {.request_key = "k",
                                              .request_hash = tide_view_of("h")};
    tide_lake_committed done;
    tide_lake_change *change = lake_begin(&l, "work");
    lake_op_insert(&l, change, "main", "t", 2);
    is_away_afterwards = true;
    lose_answers = 1;
    assert_status(TIDE_E_OUTCOME_UNKNOWN, tide_lake_commit(change, &options, &done, &l.err));
    assert_contains(l.err.text, "repeat with the same request key");
    tide_lake_drop_change(change);
    fail_before = 0;
    assert_ok_err(commit_with(&l, "k", "h", &done), &l.err);
    assert_true(done.is_replay);
    assert_int_equal(done.snapshot_id, lake_head(&l, "work"));
    assert_int_equal(lake_rows(&l, "work", "", "main", "t"), 2);
    lake_case_done(&l);
}

/* Whoever takes its own commit for a replay deletes the files of it. */
static void a_lost_answer_under_a_key_is_this_attempts_own_commit(void **state)
{
    lake_case l = open_work(state);
    const tide_lake_commit_options options = {.request_key = "k",
                                              .request_hash = tide_view_of("h")};
    tide_lake_committed done;
    tide_lake_change *change = lake_begin(&l, "work");
    lake_op_insert(&l, change, "main", "t", 2);
    lose_answers = 1;
    assert_ok_err(tide_lake_commit(change, &options, &done, &l.err), &l.err);
    assert_false(done.is_replay);
    assert_string_equal(done.request_key, "k");
    assert_int_equal(tide_lake_change_outcome(change), TIDE_LAKE_COMMITTED);
    assert_int_equal(done.snapshot_id, lake_head(&l, "work"));
    tide_lake_drop_change(change);
    change = lake_begin(&l, "work");
    lake_op_insert(&l, change, "main", "t", 2);
    assert_ok_err(tide_lake_commit(change, &options, &done, &l.err), &l.err);
    assert_true(done.is_replay);
    assert_int_equal(tide_lake_change_outcome(change), TIDE_LAKE_REFUSED);
    tide_lake_drop_change(change);
    lake_case_done(&l);
}

static void a_failure_behind_a_lost_answer_does_not_end_the_doubt(void **state)
{
    lake_case l = open_work(state);
    tide_lake_committed done;
    tide_lake_change *change = lake_begin(&l, "work");
    lake_op_insert(&l, change, "main", "t", 2);
    lose_answers = 1;
    is_away_afterwards = true;
    is_denied = true;
    assert_status(TIDE_E_OUTCOME_UNKNOWN, tide_lake_commit(change, NULL, &done, &l.err));
    assert_int_equal(tide_lake_change_outcome(change), TIDE_LAKE_UNKNOWN);
    assert_contains(l.err.text, "the same request key '");
    fail_before = 0;
    assert_ok_err(tide_lake_commit(change, NULL, &done, &l.err), &l.err); /* it finds out later */
    assert_false(done.is_replay);
    assert_int_equal(tide_lake_change_outcome(change), TIDE_LAKE_COMMITTED);
    tide_lake_drop_change(change);
    assert_int_equal(lake_rows(&l, "work", "", "main", "t"), 2);
    lake_case_done(&l);
}

/* Files that were written under a pin may be gone when it has run out. */
static void a_commit_behind_the_end_of_its_pin_is_refused(void **state)
{
    lake_case l = open_work(state);
    tide_lake_committed done;
    tide_lake_pin pin;
    for (int round = 0; round < 4; round++) {
        tide_lake_change *change = lake_begin(&l, "work");
        lake_op_insert(&l, change, "main", "t", 2);
        if (round >= 2) /* not a plain append, which may go together with others */
            assert_ok_err(tide_lake_create_schema(change, round == 2 ? "a" : "b", &l.err), &l.err);
        const bool is_late = round % 2 == 1;
        assert_ok_err(tide_lake_pin_take(l.lake, tide_lake_change_catalog(change)->catalog_id,
                                         tide_lake_change_base(change), "a test", 10 * SECOND_US,
                                         &pin, &l.err),
                      &l.err);
        virtual_env_advance(&l.t->clock, (is_late ? 11 : 9) * SECOND_US);
        const tide_lake_commit_options options = {.pin_id = pin.id};
        assert_status_err(is_late ? TIDE_E_LEASE_LOST : TIDE_OK,
                          tide_lake_commit(change, &options, &done, &l.err), &l.err);
        assert_int_equal(tide_lake_change_outcome(change),
                         is_late ? TIDE_LAKE_REFUSED : TIDE_LAKE_COMMITTED);
        tide_lake_drop_change(change);
    }
    assert_int_equal(lake_rows(&l, "work", "", "main", "t"), 4);
    lake_case_done(&l);
}

static void what_is_transient_is_tried_again(void **state)
{
    lake_case l = open_work(state);
    tide_lake_committed done;
    tide_lake_change *change = lake_begin(&l, "work");
    lake_op_insert(&l, change, "main", "t", 1);
    fail_before = 3;
    assert_ok_err(tide_lake_commit(change, NULL, &done, &l.err), &l.err);
    assert_int_equal(done.tries, 4);
    tide_lake_drop_change(change);
    lake_case_done(&l);
}

/* The head is read without waiting for the disk: what a crash of the server takes away, and gives to another commit under the same number, is nobody's base. */
static void a_base_that_was_lost_is_refused(void **state)
{
    lake_case l = open_work(state);
    char text[160];
    tide_lake_committed done;
    for (int round = 0; round < 2; round++) {
        tide_lake_change *change = lake_begin(&l, "work");
        if (round == 0)
            lake_op_insert(&l, change, "main", "t", 1);
        else
            assert_ok_err(tide_lake_create_schema(change, "s", &l.err), &l.err);
        const long long base = (long long)tide_lake_change_base(change);
        (void)snprintf(text, sizeof text,
                       "UPDATE lake_commit SET digest_a = digest_a + 1 WHERE snapshot_id = %lld",
                       base);
        lake_sql(&l, text);
        assert_status(TIDE_E_CONFLICT, tide_lake_commit(change, NULL, &done, &l.err));
        assert_contains(l.err.text, "was lost when the server crashed");
        tide_lake_drop_change(change);
        (void)snprintf(text, sizeof text,
                       "UPDATE lake_commit SET digest_a = digest_a - 1 WHERE snapshot_id = %lld",
                       base);
        lake_sql(&l, text);
    }
    assert_int_equal(lake_rows(&l, "work", "", "main", "t"), 0);
    lake_case_done(&l);
}

static void a_real_conflict_is_told_at_once(void **state)
{
    lake_case l = open_work(state);
    tide_lake_committed done;
    tide_lake_change *a = lake_begin(&l, "work");
    tide_lake_change *b = lake_begin(&l, "work");
    lake_op_table(&l, a, "main", "x");
    lake_op_table(&l, b, "main", "x");
    lake_commit(&l, a);
    writes = 0;
    assert_status(TIDE_E_CONFLICT, tide_lake_commit(b, NULL, &done, &l.err));
    assert_int_equal(writes, 1);
    assert_contains(l.err.text, "created a table or view of this name");
    tide_lake_drop_change(b);
    lake_case_done(&l);
}

static void catalogs_and_forks_have_keys_too(void **state)
{
    lake_case l = open_work(state);
    const tide_lake_commit_options options = {.request_key = "make it"};
    tide_lake_created first;
    tide_lake_created again;
    assert_ok_err(tide_lake_create_catalog(l.lake, "new", false, &options, &first, &l.err), &l.err);
    assert_ok_err(tide_lake_create_catalog(l.lake, "new", false, &options, &again, &l.err), &l.err);
    assert_true(again.was_there);
    assert_int_equal(first.snapshot_id, again.snapshot_id);
    assert_ok_err(tide_lake_fork(l.lake, "work", "fork", "", &options, &first, &l.err), &l.err);
    assert_ok_err(tide_lake_fork(l.lake, "work", "fork", "", &options, &again, &l.err), &l.err);
    assert_int_equal(first.catalog_id, again.catalog_id);
    assert_int_equal(first.parent_snapshot_id, again.parent_snapshot_id);
    assert_status(TIDE_E_EXISTS, tide_lake_fork(l.lake, "work", "fork", "", NULL, &again, &l.err));
    lake_case_done(&l);
}

static void a_key_of_another_fork_is_refused(void **state)
{
    lake_case l = open_work(state);
    const tide_lake_commit_options first = {.request_key = "k",
                                            .request_hash = tide_view_of("at the head")};
    const tide_lake_commit_options other = {.request_key = "k",
                                            .request_hash = tide_view_of("at 1")};
    tide_lake_created made;
    assert_ok_err(tide_lake_fork(l.lake, "work", "fork", "", &first, &made, &l.err), &l.err);
    assert_ok_err(tide_lake_fork(l.lake, "work", "fork", "", &first, &made, &l.err), &l.err);
    assert_status(TIDE_E_CONFLICT,
                  tide_lake_fork(l.lake, "work", "fork", "1", &other, &made, &l.err));
    assert_contains(l.err.text, "another request");
    lake_case_done(&l);
}

static void a_lost_answer_to_creating_or_forking_is_found_again(void **state)
{
    lake_case l = open_work(state);
    tide_lake_created made;
    lose_answers = 1;
    assert_ok_err(tide_lake_create_catalog(l.lake, "new", false, NULL, &made, &l.err), &l.err);
    assert_false(made.was_there);
    assert_int_equal(made.catalog_id, lake_find(&l, "new").catalog_id);
    lose_answers = 1;
    assert_ok_err(tide_lake_fork(l.lake, "work", "fork", "", NULL, &made, &l.err), &l.err);
    assert_int_equal(made.parent_snapshot_id, lake_head(&l, "work"));
    assert_int_equal(made.snapshot_id, lake_head(&l, "fork"));
    lake_case_done(&l);
}

static void a_path_that_is_used_already_is_told(void **state)
{
    lake_case l = open_work(state);
    const tide_lake_new_file file = {.path = "same.parquet", .record_count = 1};
    for (int i = 0; i < 2; i++) {
        tide_lake_change *change = lake_begin(&l, "work");
        TIDE_CLEANUP(tide_lake_table_done) tide_lake_table_seen seen = {0};
        assert_ok_err(tide_lake_change_table(change, "main", "t", &seen, &l.err), &l.err);
        assert_ok_err(tide_lake_add_file(change, seen.table.id, &file, &l.err), &l.err);
        assert_status_err(i == 0 ? TIDE_OK : TIDE_E_EXISTS, lake_try_commit(&l, change), &l.err);
    }
    assert_contains(l.err.text, "under a new name");
    lake_case_done(&l);
}

/* ---- counters ---- */

static void ids_are_never_issued_twice(void **state)
{
    lake_case l = open_work(state);
    int64_t last[3] = {0};
    for (int i = 0; i < 3; i++) {
        tide_lake_change *change = lake_begin(&l, "work");
        lake_op_table(&l, change, "main", "again");
        TIDE_CLEANUP(tide_lake_table_done) tide_lake_table_seen seen = {0};
        assert_ok_err(tide_lake_change_table(change, "main", "again", &seen, &l.err), &l.err);
        assert_true(seen.table.id > last[0] && seen.columns[0].id > last[1]);
        last[0] = seen.table.id;
        last[1] = seen.columns[1].id;
        if (i == 1)
            tide_lake_drop_change(change); /* given up: its numbers are spent */
        else
            assert_true((last[2] < lake_commit(&l, change)));
        if (i != 1)
            last[2] = lake_drop(&l, "work", "main", "again");
        tide_lake_closep(&l.lake);
        assert_ok_err(tide_lake_open(&l.lake, l.t->store, &l.err), &l.err);
    }
    lake_case_done(&l);
}

/* A crash of the server puts a counter back to before what was taken and is not on disk: those ids come again. */
static void ids_of_a_commit_that_failed_are_nobodys(void **state)
{
    enum { FILES = 4 };
    lake_case l = open_work(state);
    for (int i = 0; i < FILES; i++)
        lake_insert(&l, "work", "main", "t", 2);
    lake_sql(&l,
             "CREATE TABLE before_it AS SELECT last_value, is_called FROM ducklake_file_id_seq");
    tide_lake_closep(&l.lake); /* so that it has no spare ones */
    assert_ok_err(tide_lake_open(&l.lake, l.t->store, &l.err), &l.err);
    tide_lake_change *change = lake_begin(&l, "work");
    lake_op_insert(&l, change, "main", "t", 1);
    lake_sql(&l, "ALTER TABLE ducklake_data_file ADD CONSTRAINT refuse_all CHECK (data_file_id < "
                 "0) NOT VALID");
    assert_true(lake_try_commit(&l, change) < TIDE_OK);
    lake_sql(&l, "ALTER TABLE ducklake_data_file DROP CONSTRAINT refuse_all;"
                 "SELECT setval('ducklake_file_id_seq', last_value, is_called) FROM before_it;"
                 "DROP TABLE before_it");
    lake_case other = l;
    assert_ok_err(tide_lake_open(&other.lake, l.t->store, &l.err), &l.err);
    for (int i = 0; i < FILES; i++) { /* delete files have ids of the same counter */
        tide_lake_change *deleting = lake_begin(&other, "work");
        lake_op_delete_of(&other, deleting, "main", "t", i, false);
        lake_commit(&other, deleting);
    }
    tide_lake_close(other.lake);
    lake_insert(&l, "work", "main", "t", 1);
    lake_case_done(&l);
}

static void put_counters_back(lake_case *l)
{
    if (l->t->engine == TIDE_ENGINE_SQLITE)
        lake_sql(l, "UPDATE lake_sequence SET last = 0");
    else
        lake_sql(l, "SELECT setval('ducklake_snapshot_id_seq', 1, false), "
                    "setval('ducklake_catalog_id_seq', 1, false), "
                    "setval('ducklake_object_id_seq', 1, false), "
                    "setval('ducklake_column_id_seq', 1, false), "
                    "setval('ducklake_file_id_seq', 1, false), "
                    "setval('ducklake_partition_id_seq', 1, false)");
}

static void fill(lake_case *l)
{
    tide_lake_change *change = lake_begin(l, "work");
    const char *const columns[] = {"id"};
    const char *const transforms[] = {"bucket(4)"};
    assert_ok_err(tide_lake_partition_table(change, "main", "t", columns, transforms, 1, &l->err),
                  &l->err);
    lake_commit(l, change);
    for (int i = 0; i < 3; i++)
        lake_insert(l, "work", "main", "t", 1);
}

static void a_metabase_restored_with_its_counters_behind_is_healed_when_opened(void **state)
{
    lake_case l = open_work(state);
    fill(&l);
    const int64_t head = lake_head(&l, "work");
    put_counters_back(&l);
    tide_lake_closep(&l.lake);
    assert_ok_err(tide_lake_open(&l.lake, l.t->store, &l.err), &l.err);
    writes = 0;
    assert_true(lake_insert(&l, "work", "main", "t", 1) > head);
    assert_int_equal(writes, 1);
    assert_true(lake_catalog(&l, "more") > lake_find(&l, "work").catalog_id);
    lake_table(&l, "work", "main", "u");
    lake_case_done(&l);
}

static void counters_that_are_put_back_under_an_open_lake_are_healed_by_the_commit(void **state)
{
    lake_case l = open_work(state);
    fill(&l);
    const int64_t head = lake_head(&l, "work");
    put_counters_back(&l);
    const int64_t snapshot = lake_insert(&l, "work", "main", "t", 1);
    assert_true(snapshot > head);
    assert_true(lake_catalog(&l, "more") > lake_find(&l, "work").catalog_id);
    lake_case_done(&l);
}

/* The id of a table, and the greatest of its columns'. */
static void find_ids(lake_case *l, const char *table, int64_t *id, int64_t *column)
{
    tide_lake_change *change = lake_begin(l, "work");
    TIDE_CLEANUP(tide_lake_table_done) tide_lake_table_seen seen = {0};
    assert_ok_err(tide_lake_change_table(change, "main", table, &seen, &l->err), &l->err);
    *id = seen.table.id;
    *column = 0;
    for (int i = 0; i < seen.column_count; i++)
        *column = seen.columns[i].id > *column ? seen.columns[i].id : *column;
    tide_lake_drop_change(change);
}

/* Tables and columns have no key that would refuse a second one of their id: rows of both would be mixed. */
static void what_is_made_while_counters_stand_behind_has_ids_of_its_own(void **state)
{
    lake_case l = open_work(state);
    int64_t before[2];
    int64_t after[2];
    int64_t number = 0;
    fill(&l);
    find_ids(&l, "t", &before[0], &before[1]);
    put_counters_back(&l);
    lake_table(&l, "work", "main", "u");
    find_ids(&l, "u", &after[0], &after[1]);
    assert_true(after[0] > before[0]);
    put_counters_back(&l);
    tide_lake_change *change = lake_begin(&l, "work");
    const tide_lake_column_def more = {.name = "more", .type = "int32"};
    assert_ok_err(tide_lake_add_column(change, "main", "t", &more, &l.err), &l.err);
    lake_commit(&l, change);
    find_ids(&l, "t", &after[0], &after[1]);
    assert_int_equal(after[0], before[0]);
    assert_true(after[1] > before[1]);
    put_counters_back(&l);
    const int64_t head = lake_head(&l, "work");
    assert_ok_err(tide_lake_spend_snapshot(l.lake, &number, &l.err), &l.err);
    assert_true(number > head);
    lake_case_done(&l);
}

typedef struct booter {
    tide_store *store;
    char data[TEMPDIR_PATH_MAX];
    tide_status status;
    bool was_there;
    tide_error err;
} booter;

static void *boot(void *arg)
{
    booter *b = arg;
    b->status = tide_lake_init(b->store, b->data, &b->was_there, &b->err);
    return NULL;
}

static void several_may_bootstrap_at_once(void **state)
{
    enum { BOOTERS = 6 };
    store_test *t = *state;
    booter booters[BOOTERS];
    pthread_t threads[BOOTERS];
    int made = 0;
    lose_answers = 0;
    fail_before = 0;
    for (int i = 0; i < BOOTERS; i++) {
        booters[i] = (booter){.store = store_test_open_real(t)};
        lake_data_dir(t, booters[i].data);
    }
    for (int i = 0; i < BOOTERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, boot, &booters[i]), 0);
    for (int i = 0; i < BOOTERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_ok_err(booters[i].status, &booters[i].err);
        made += !booters[i].was_there;
    }
    assert_int_equal(made, 1);
    lake_case l = lake_case_open(state);
    assert_int_equal(lake_catalog(&l, "work"), 1);
    lake_case_done(&l);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(a_key_is_committed_once_and_answered_again),
        STORE_CASE(a_key_of_another_request_is_refused),
        STORE_CASE(a_key_answers_even_where_the_change_would_collide_now),
        STORE_CASE(a_lost_answer_is_not_a_second_commit),
        STORE_CASE(tries_end_and_the_last_reason_is_told),
        STORE_CASE(an_outcome_that_stays_unknown_is_found_out_by_its_key),
        STORE_CASE(a_lost_answer_under_a_key_is_this_attempts_own_commit),
        STORE_CASE(a_failure_behind_a_lost_answer_does_not_end_the_doubt),
        STORE_CASE(a_commit_behind_the_end_of_its_pin_is_refused),
        STORE_CASE(what_is_transient_is_tried_again),
        STORE_CASE_POSTGRES(a_base_that_was_lost_is_refused),
        STORE_CASE(a_real_conflict_is_told_at_once),
        STORE_CASE(catalogs_and_forks_have_keys_too),
        STORE_CASE(a_key_of_another_fork_is_refused),
        STORE_CASE(a_lost_answer_to_creating_or_forking_is_found_again),
        STORE_CASE(a_path_that_is_used_already_is_told),
        STORE_CASE(ids_are_never_issued_twice),
        STORE_CASE_POSTGRES(ids_of_a_commit_that_failed_are_nobodys),
        STORE_CASE(a_metabase_restored_with_its_counters_behind_is_healed_when_opened),
        STORE_CASE(counters_that_are_put_back_under_an_open_lake_are_healed_by_the_commit),
        STORE_CASE(what_is_made_while_counters_stand_behind_has_ids_of_its_own),
        STORE_CASE(several_may_bootstrap_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
