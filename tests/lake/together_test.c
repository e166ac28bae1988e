/* Appends that are committed together (commit_together.c): a group writes while the one before it waits for the disk, and that changes neither the order, nor what an answer
 * means, nor what becomes of a failure.
 *
 * tide_pg_flush is wrapped: a case can hold a committer there, whose commit everybody sees and which is not on disk, and have it fail. tide_combiner_do is wrapped to
 * count who has come. */
#include "lake_fixture.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/combiner.h"
#include "store/engine.h"
#include "store/postgres/pg_flush.h"
#include "support/clock/fair_clock.h"

static atomic_bool will_hold; /* the next who flushes */
static bool will_fail;        /* the one who was held */
static sem_t held;
static sem_t let_go;
static atomic_int waiting; /* for their turn in a catalog, or at work there */
static _Thread_local bool cannot_flush;

static bool wait_for(sem_t *signal)
{
    return fair_wait_sem(signal, fair_clock_ms() + 20000);
}

/* By typeof, so that another signature does not compile. */
__typeof__(tide_pg_flush) __real_tide_pg_flush;
__typeof__(tide_pg_flush) __wrap_tide_pg_flush;

tide_status __wrap_tide_pg_flush(tide_pg_flusher *flusher, uint64_t generation, int64_t until_us,
                                 uint64_t *wal, bool *is_standby_away, tide_error *err)
{
    if (!atomic_exchange(&will_hold, false))
        return __real_tide_pg_flush(flusher, generation, until_us, wal, is_standby_away, err);
    (void)sem_post(&held);
    (void)wait_for(&let_go);
    cannot_flush = will_fail;
    return will_fail
               ? tide_fail(err, TIDE_E_UNAVAILABLE, "the server is gone")
               : __real_tide_pg_flush(flusher, generation, until_us, wal, is_standby_away, err);
}

__typeof__(tide_pg_flush_on) __real_tide_pg_flush_on;
__typeof__(tide_pg_flush_on) __wrap_tide_pg_flush_on;

tide_status __wrap_tide_pg_flush_on(tide_pg_connection *connection, tide_error *err)
{
    if (!cannot_flush)
        return __real_tide_pg_flush_on(connection, err);
    cannot_flush = false;
    return tide_fail(err, TIDE_E_UNAVAILABLE, "the server is gone");
}

void __real_tide_combiner_do(tide_combiner *crew, int64_t key, void *what, tide_combiner_fn *fn);
void __wrap_tide_combiner_do(tide_combiner *crew, int64_t key, void *what, tide_combiner_fn *fn);

void __wrap_tide_combiner_do(tide_combiner *crew, int64_t key, void *what, tide_combiner_fn *fn)
{
    if (key != 0) /* 0: who reads heads */
        (void)atomic_fetch_add(&waiting, 1);
    __real_tide_combiner_do(crew, key, what, fn);
}

/* ---- writers ---- */

typedef struct writer {
    lake_case l; /* of its own words */
    const char *key;
    bool is_held;
    atomic_bool is_answered;
    tide_lake_committed done;
    tide_status status;
} writer;

static void *append(void *arg)
{
    writer *w = arg;
    const tide_lake_commit_options options = {.request_key = w->key};
    tide_lake_change *change = lake_begin(&w->l, "work");
    lake_op_insert(&w->l, change, "main", "t", 1);
    if (w->is_held)
        atomic_store(&will_hold, true);
    w->status = tide_lake_commit(change, &options, &w->done, &w->l.err);
    atomic_store(&w->is_answered, true);
    tide_lake_drop_change(change);
    return NULL;
}

/* A lake on a store with the real clock, and a table in it. */
static lake_case open_work(void **state)
{
    lake_case l = lake_case_open(state);
    lake_catalog(&l, "work");
    lake_table(&l, "work", "main", "t");
    tide_lake_closep(&l.lake);
    assert_ok_err(tide_lake_open(&l.lake, store_test_open_real(l.t), &l.err), &l.err);
    atomic_store(&will_hold, false);
    will_fail = false;
    assert_int_equal(0, sem_init(&held, 0, 0));
    assert_int_equal(0, sem_init(&let_go, 0, 0));
    return l;
}

/* One whose commit is seen and not on disk, and one behind it, who is answered meanwhile. */
static void commit_behind(lake_case *l, writer *first, writer *second)
{
    pthread_t thread;
    *first = (writer){.l = *l, .is_held = true};
    *second = (writer){.l = *l};
    assert_int_equal(0, pthread_create(&thread, NULL, append, first));
    assert_true(wait_for(&held));
    (void)append(second);
    const bool was_answered = atomic_load(&first->is_answered);
    (void)sem_post(&let_go);
    assert_int_equal(0, pthread_join(thread, NULL));
    assert_false(was_answered);
    assert_ok_err(first->status, &first->l.err);
    assert_ok_err(second->status, &second->l.err);
}

static void who_waits_for_the_disk_keeps_nobody_from_writing_behind_him(void **state)
{
    lake_case l = open_work(state);
    const int64_t before = lake_head(&l, "work");
    static writer first;
    static writer second;
    commit_behind(&l, &first, &second);
    assert_int_equal(first.done.parent_snapshot_id, before);
    assert_int_equal(second.done.parent_snapshot_id, first.done.snapshot_id);
    assert_true(second.done.snapshot_id > first.done.snapshot_id);
    assert_int_equal(lake_head(&l, "work"), second.done.snapshot_id);
    assert_int_equal(lake_rows(&l, "work", "", "main", "t"), 2);
    lake_case_done(&l);
}

/* Nobody knows whether it is on disk: it is found by its token, once, below who came behind. */
static void a_flush_that_fails_is_not_a_second_commit(void **state)
{
    lake_case l = open_work(state);
    static writer first;
    static writer second;
    will_fail = true;
    commit_behind(&l, &first, &second);
    assert_int_equal(first.done.tries, 2);
    assert_int_equal(second.done.parent_snapshot_id, first.done.snapshot_id);
    assert_int_equal(lake_head(&l, "work"), second.done.snapshot_id);
    assert_int_equal(lake_rows(&l, "work", "", "main", "t"), 2);
    lake_case_done(&l);
}

/* ---- a group ---- */

typedef struct holder {
    tide_store *store;
    sem_t has_it;
    sem_t may_go;
    tide_status status;
} holder;

static tide_status hold_head(tide_tx *tx, void *arg, tide_error *err)
{
    holder *h = arg;
    TIDE_TRY(tx->store->ops->script(tx, "SELECT 1 FROM lake_head FOR UPDATE", err));
    (void)sem_post(&h->has_it);
    (void)wait_for(&h->may_go);
    return TIDE_OK;
}

static void *run_holder(void *arg)
{
    holder *h = arg;
    tide_error err;
    h->status = tide_store_write(h->store, hold_head, h, &err);
    return NULL;
}

enum { MEMBERS = 6, BAD = 2 };

/* They come while the head is locked: the first waits for it, the others for the first. */
static void append_together(lake_case *l, writer *writers)
{
    pthread_t threads[MEMBERS];
    pthread_t thread;
    holder h = {.store = store_test_open_real(l->t)};
    assert_int_equal(0, sem_init(&h.has_it, 0, 0));
    assert_int_equal(0, sem_init(&h.may_go, 0, 0));
    assert_int_equal(0, pthread_create(&thread, NULL, run_holder, &h));
    assert_true(wait_for(&h.has_it));
    atomic_store(&waiting, 0);
    for (int i = 0; i < MEMBERS; i++)
        assert_int_equal(0, pthread_create(&threads[i], NULL, append, &writers[i]));
    while (atomic_load(&waiting) < MEMBERS)
        (void)sched_yield();
    (void)sem_post(&h.may_go);
    for (int i = 0; i < MEMBERS; i++)
        assert_int_equal(0, pthread_join(threads[i], NULL));
    assert_int_equal(0, pthread_join(thread, NULL));
    assert_ok(h.status);
}

/* It fails at the COMMIT, behind everything that the group has written. */
static void one_who_cannot_commit_takes_nobody_along(void **state)
{
    static const char *const keys[MEMBERS] = {"a", "b", "bad", "d", "e", "f"};
    static writer writers[MEMBERS];
    lake_case l = open_work(state);
    lake_sql(&l, "CREATE FUNCTION refuse_bad() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF "
                 "NEW.request_key = 'bad' THEN RAISE EXCEPTION 'not this one'; END IF; RETURN "
                 "NULL; END $$;"
                 "CREATE CONSTRAINT TRIGGER refuse_bad AFTER INSERT ON lake_commit DEFERRABLE "
                 "INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse_bad()");
    for (int i = 0; i < MEMBERS; i++)
        writers[i] = (writer){.l = l, .key = keys[i]};
    append_together(&l, writers);
    for (int i = 0; i < MEMBERS; i++) {
        if (i == BAD) {
            assert_true(writers[i].status < TIDE_OK);
            assert_contains(writers[i].l.err.text, "not this one");
            continue;
        }
        assert_ok_err(writers[i].status, &writers[i].l.err);
        assert_false(writers[i].done.is_replay);
        for (int j = 0; j < i; j++)
            assert_true(j == BAD || writers[j].done.snapshot_id != writers[i].done.snapshot_id);
    }
    assert_int_equal(lake_rows(&l, "work", "", "main", "t"), MEMBERS - 1);
    lake_insert(&l, "work", "main", "t", 1); /* the line goes on */
    lake_case_done(&l);
}

/* A drop that they have not seen: each is told, and none has committed. */
static void a_group_that_collides_is_refused_member_by_member(void **state)
{
    static writer writers[MEMBERS];
    lake_case l = open_work(state);
    tide_lake_change *changes[MEMBERS];
    for (int i = 0; i < MEMBERS; i++) {
        changes[i] = lake_begin(&l, "work");
        lake_op_insert(&l, changes[i], "main", "t", 1);
    }
    const int64_t dropped = lake_drop(&l, "work", "main", "t");
    for (int i = 0; i < MEMBERS; i++) {
        tide_lake_committed done;
        assert_status(TIDE_E_CONFLICT, tide_lake_commit(changes[i], NULL, &done, &l.err));
        assert_int_equal(tide_lake_change_collision(changes[i])->snapshot_id, dropped);
        tide_lake_drop_change(changes[i]);
    }
    assert_int_equal(lake_head(&l, "work"), dropped);
    lake_table(&l, "work", "main", "t");
    for (int i = 0; i < MEMBERS; i++)
        writers[i] = (writer){.l = l};
    append_together(&l, writers);
    for (int i = 0; i < MEMBERS; i++)
        assert_ok_err(writers[i].status, &writers[i].l.err);
    assert_int_equal(lake_rows(&l, "work", "", "main", "t"), MEMBERS);
    lake_case_done(&l);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE_POSTGRES(who_waits_for_the_disk_keeps_nobody_from_writing_behind_him),
        STORE_CASE_POSTGRES(a_flush_that_fails_is_not_a_second_commit),
        STORE_CASE_POSTGRES(one_who_cannot_commit_takes_nobody_along),
        STORE_CASE_POSTGRES(a_group_that_collides_is_refused_member_by_member),
    };
    return cmocka_run_group_tests_name("lake together", tests, NULL, NULL);
}
