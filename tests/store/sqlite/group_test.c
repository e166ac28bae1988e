/* Group commit on SQLite: closures of many threads share a commit and fail alone. */
#include "support/store_fixture.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "store/engine.h"

enum { THREADS = 16, ROUNDS = 40 };

typedef struct crowd {
    tide_store *store;
    atomic_int kept;
    atomic_int refused;
} crowd;

typedef struct member {
    crowd *crowd;
    int index;
    pthread_t thread;
} member;

typedef struct step {
    numbered_row row;
    bool is_failing;
} step;

static tide_status add_or_fail(tide_tx *tx, void *arg, tide_error *err)
{
    step *s = arg;
    TIDE_TRY(add_numbered(tx, &s->row, err));
    return s->is_failing ? tide_fail(err, TIDE_E_MISMATCH, "not this one") : TIDE_OK;
}

static void *run_member(void *arg)
{
    member *m = arg;
    char writer[16];
    (void)snprintf(writer, sizeof writer, "w%d", m->index);
    for (int i = 0; i < ROUNDS; i++) {
        step s = {.row = {.writer = writer, .n = i}, .is_failing = i % 7 == m->index % 7};
        const tide_status status = tide_store_write(m->crowd->store, add_or_fail, &s, NULL);
        if (status == TIDE_OK)
            atomic_fetch_add(&m->crowd->kept, 1);
        else
            atomic_fetch_add(&m->crowd->refused, 1);
    }
    return NULL;
}

static void run_crowd(crowd *c)
{
    member members[THREADS];
    for (int i = 0; i < THREADS; i++) {
        members[i] = (member){.crowd = c, .index = i};
        assert_int_equal(0, pthread_create(&members[i].thread, NULL, run_member, &members[i]));
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(0, pthread_join(members[i].thread, NULL));
}

static void failing_closures_roll_back_alone(void **state)
{
    store_test *t = *state;
    crowd c = {.store = t->store};
    run_crowd(&c);
    assert_int_equal(THREADS * ROUNDS, c.kept + c.refused);
    assert_true(c.refused > 0);
    int64_t count = 0;
    int64_t highest = 0;
    count_numbered(t->store, &count, &highest);
    assert_int_equal(c.kept, count);
    assert_int_equal(count, highest);
}

static tide_status add_poison(tide_tx *tx, void *arg, tide_error *err)
{
    (void)arg;
    return tx->store->ops->script(
        tx,
        "CREATE TRIGGER poison BEFORE INSERT ON numbered WHEN new.n % 5 = 3 "
        "BEGIN SELECT RAISE(ROLLBACK, 'poison'); END",
        err);
}

/* RAISE(ROLLBACK) undoes the whole group silently; the others run again and are kept. */
static void a_rollback_of_the_whole_transaction_takes_nobody_else_along(void **state)
{
    store_test *t = *state;
    assert_ok_err(tide_store_write(t->store, add_poison, NULL, &t->err), &t->err);
    crowd c = {.store = t->store};
    run_crowd(&c);
    int64_t count = 0;
    int64_t highest = 0;
    count_numbered(t->store, &count, &highest);
    assert_int_equal(c.kept, count);
    assert_int_equal(count, highest);
    int expected = 0;
    for (int i = 0; i < THREADS; i++)
        for (int n = 0; n < ROUNDS; n++)
            expected += n % 5 != 3 && n % 7 != i % 7;
    assert_int_equal(expected, count);
}

static tide_status put_blob(tide_tx *tx, void *arg, tide_error *err)
{
    static const char bytes[8192];
    const int64_t *id = arg;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TEST_SQL_TYPED_PUT, err));
    tide_query_bind_i64(query, "id", *id);
    tide_query_bind_blob(query, "b", tide_view_bytes(bytes, sizeof bytes));
    return tide_query_run(query, NULL, err);
}

typedef struct long_read {
    tide_store *store;
    int64_t from;
    int64_t count;
    tide_status status;
} long_read;

/* Hold a snapshot while others write. */
static tide_status write_under_a_reader(tide_tx *tx, void *arg, tide_error *err)
{
    long_read *r = arg;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TEST_SQL_TYPED_ALL, err));
    TIDE_TRY(tide_query_step(query, err));
    for (int64_t id = r->from; id < r->from + r->count; id++) {
        r->status = tide_store_write(r->store, put_blob, &id, err);
        if (r->status < TIDE_OK)
            break;
    }
    return TIDE_OK;
}

/* A reader that pins the log holds writers back at a stated size, not for ever. */
static void a_log_that_cannot_be_emptied_holds_writers_back(void **state)
{
    store_test *t = *state;
    tide_store_options options = store_test_options(t);
    options.wal_max = 1 << 20;
    tide_store *store = store_test_open_with(t, options);
    tide_store *reader = store_test_open(t);
    int64_t first = 1;
    assert_ok(tide_store_write(store, put_blob, &first, &t->err));
    long_read r = {.store = store, .from = 2, .count = 2000};
    assert_ok(tide_store_read(reader, write_under_a_reader, &r, &t->err));
    assert_status(TIDE_E_BUSY, r.status);
    assert_contains(t->err.text, "reader");
    int64_t after = 5000;
    assert_ok_err(tide_store_write(store, put_blob, &after, &t->err), &t->err);
}

static void many_commits_keep_the_log_short(void **state)
{
    store_test *t = *state;
    for (int64_t id = 1; id <= 3000; id++)
        assert_ok(tide_store_write(t->store, put_blob, &id, &t->err));
    sqlite3 *db = NULL;
    assert_int_equal(SQLITE_OK, sqlite3_open(t->url, &db));
    assert_int_equal(SQLITE_OK, sqlite3_exec(db, "PRAGMA user_version", NULL, NULL, NULL));
    int frames = 0;
    assert_int_equal(SQLITE_OK,
                     sqlite3_wal_checkpoint_v2(db, NULL, SQLITE_CHECKPOINT_PASSIVE, &frames, NULL));
    assert_in_range(frames, 0, 1000);
    (void)sqlite3_close(db);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(failing_closures_roll_back_alone),
        STORE_CASE_SQLITE(a_rollback_of_the_whole_transaction_takes_nobody_else_along),
        STORE_CASE_SQLITE(a_log_that_cannot_be_emptied_holds_writers_back),
        STORE_CASE_SQLITE(many_commits_keep_the_log_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
