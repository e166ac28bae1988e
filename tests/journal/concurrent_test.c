/* Several at once: numbers, followers, removals, imports. What depends on an order is forced into it. */
#include "journal/journal_fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "journal/check/chunk_gc.h"
#include "store/engine.h"
#include "support/interleave.h"

enum { WRITERS = 8, EACH = 25 };

/* ---- many writers ---- */

typedef struct writer {
    tide_store *store;
    pthread_t thread;
    char task_id[16];
    int count;
    bool is_large; /* some of the states are stored in chunks */
    int64_t numbers[256];
    int64_t own[256];
    tide_status status;
    tide_error err;
} writer;

static void *write_many(void *arg)
{
    writer *w = arg;
    TIDE_CLEANUP(tide_freep) char *large = make_state(1, 20000);
    for (int i = 0; i < w->count && w->status >= TIDE_OK; i++) {
        const bool is_large = w->is_large && i % 3 == 0;
        const tide_checkpoint_new row = {TIDE_CHECKPOINT_NEW_INIT, .task_id = w->task_id,
                                         .type = "manual_checkpoint",
                                         .snapshot = tide_view_of(is_large ? large : "{}")};
        tide_checkpoint_numbers numbers = {0};
        w->status = tide_journal_append(w->store, &row, &numbers, &w->err);
        w->numbers[i] = numbers.global_sequence;
        w->own[i] = numbers.sequence_number;
    }
    return NULL;
}

static void run_writers(writer *writers, int count)
{
    for (int i = 0; i < count; i++)
        assert_int_equal(0, pthread_create(&writers[i].thread, NULL, write_many, &writers[i]));
    for (int i = 0; i < count; i++)
        (void)pthread_join(writers[i].thread, NULL);
    for (int i = 0; i < count; i++)
        assert_ok_err(writers[i].status, &writers[i].err);
}

/* Each number from 1 to n exactly once; each writer's rise. */
static void check_numbers(const writer *writers, int count)
{
    bool is_given[WRITERS * EACH + 1] = {false};
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < writers[i].count; k++) {
            const int64_t number = writers[i].numbers[k];
            assert_true(number >= 1 && number <= (int64_t)count * EACH);
            assert_false(is_given[number]);
            is_given[number] = true;
            assert_true(k == 0 || number > writers[i].numbers[k - 1]);
            assert_true(k == 0 || writers[i].own[k] > writers[i].own[k - 1]);
        }
    }
}

/* Test 71: concurrent creators get exactly 1..n. Test 72: monotonic under load. */
static void test_71_and_72_concurrent_checkpoints_get_unique_rising_sequences(void **state)
{
    store_test *t = *state;
    tide_store *store = store_test_open_real(t);
    writer writers[WRITERS];
    memset(writers, 0, sizeof writers);
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = (writer){.store = store, .count = EACH, .is_large = i % 2};
        (void)snprintf(writers[i].task_id, sizeof writers[i].task_id, "t%d", i % 3);
        if (i < 3)
            make_task(t, writers[i].task_id);
    }
    run_writers(writers, WRITERS);
    check_numbers(writers, WRITERS);
    assert_int_equal(WRITERS * EACH, head_of(store));
    assert_sound(store);
}

/* Test 74, inverted: two services on one store never issue the same number. */
static void test_74_two_services_never_issue_the_same_number(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    make_task(t, "b");
    tide_store *stores[] = {store_test_open_real(t), store_test_open_real(t)};
    writer writers[4];
    memset(writers, 0, sizeof writers);
    for (int i = 0; i < 4; i++) {
        writers[i] = (writer){.store = stores[i % 2], .count = EACH};
        (void)snprintf(writers[i].task_id, sizeof writers[i].task_id, "%s", i < 2 ? "a" : "b");
    }
    run_writers(writers, 4);
    check_numbers(writers, 4);
    assert_int_equal(4 * EACH, head_of(stores[0]));
    assert_int_equal(4 * EACH, head_of(stores[1]));
    assert_sound(t->store);
}

/* ---- a follower beside writers ---- */

typedef struct follower {
    int64_t last;
    int64_t seen;
    bool is_in_order;
} follower;

static tide_status check_order(void *arg, const tide_journal_event *event, tide_error *err)
{
    (void)err;
    follower *f = arg;
    f->is_in_order = f->is_in_order && event->checkpoint->global_sequence == f->last + 1;
    f->last = event->checkpoint->global_sequence;
    f->seen++;
    return TIDE_OK;
}

/* Whoever reads "behind n" misses nothing, while four writers append. */
static void a_follower_misses_nothing_beside_writers(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    tide_store *store = store_test_open_real(t);
    tide_store *reader = store_test_open_real(t);
    writer writers[4];
    memset(writers, 0, sizeof writers);
    for (int i = 0; i < 4; i++) {
        writers[i] = (writer){.store = store, .count = EACH, .task_id = "a"};
        assert_int_equal(0, pthread_create(&writers[i].thread, NULL, write_many, &writers[i]));
    }
    follower f = {.is_in_order = true};
    tide_journal_position position = {0};
    while (f.seen < 4 * EACH && f.is_in_order) {
        const tide_status status = tide_journal_tail(
            reader, &position,
            &(tide_journal_tail_options){TIDE_JOURNAL_TAIL_OPTIONS_INIT, .limit = 7}, check_order,
            &f, &t->err);
        assert_true(status >= TIDE_OK);
    }
    for (int i = 0; i < 4; i++)
        (void)pthread_join(writers[i].thread, NULL);
    assert_true(f.is_in_order);
    assert_int_equal(4 * EACH, position.global_sequence);
}

/* ---- forced orders ---- */

typedef struct appender {
    tide_store *store;
    interleave *x;
    int actor;
    tide_checkpoint_new row;
    tide_checkpoint_numbers numbers;
    bool is_waiting;   /* at step 1, inside the transaction */
    bool is_settled;   /* ... with its numbers taken */
    bool is_giving_up; /* ... and then rolls back */
    tide_status status;
    tide_error err;
} appender;

static tide_status append_and_wait(tide_tx *tx, void *arg, tide_error *err)
{
    appender *a = arg;
    TIDE_TRY(tide_journal_append_in(tx, &a->row, 1, &a->numbers, err));
    if (a->is_settled)
        TIDE_TRY(tide_tx_take_counters(tx, err));
    if (a->is_waiting)
        interleave_step(a->x, a->actor, 1);
    return a->is_giving_up ? tide_fail(err, TIDE_E_MISMATCH, "as asked") : TIDE_OK;
}

static void run_appender(interleave *x, int actor, void *arg)
{
    appender *a = arg;
    a->x = x;
    a->actor = actor;
    a->status = tide_store_write(a->store, append_and_wait, a, &a->err);
}

static appender make_appender(store_test *t, const char *task_id, const char *json)
{
    return (appender){.store = store_test_open_real(t),
                      .row = {TIDE_CHECKPOINT_NEW_INIT, .task_id = task_id,
                              .type = "manual_checkpoint", .snapshot = tide_view_of(json)},
                      .is_waiting = true,
                      .is_settled = true};
}

/* Two writers append to one task: distinct, increasing numbers. Nothing is seen before its time. */
static void two_writers_of_one_task_get_one_number_each(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    appender first = make_appender(t, "a", "{}");
    appender second = make_appender(t, "a", "{}");
    interleave x;
    interleave_init(&x, t);
    (void)interleave_add(&x, run_appender, &first);
    (void)interleave_add(&x, run_appender, &second);
    interleave_until(&x, 0, 1);
    assert_int_equal(1, first.numbers.global_sequence);
    interleave_blocked(&x, 1);
    assert_int_equal(0, list_of(t->store, (tide_journal_filter){TIDE_JOURNAL_FILTER_INIT})->count);
    assert_int_equal(0, head_of(t->store));
    interleave_finish(&x, 0);
    interleave_finish(&x, 1);
    interleave_done(&x);
    assert_ok_err(first.status, &first.err);
    assert_ok_err(second.status, &second.err);
    assert_int_equal(1, first.numbers.sequence_number);
    assert_int_equal(2, second.numbers.sequence_number);
    assert_int_equal(2, second.numbers.global_sequence);
    assert_sound(t->store);
}

/* A number that was rolled back goes to who waited; none is left out, and the chain is his. */
static void a_number_that_was_rolled_back_goes_to_the_next(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    (void)append_n(t, "a", 1);
    appender first = make_appender(t, "a", "{\"first\":1}");
    appender second = make_appender(t, "a", "{\"second\":1}");
    first.is_giving_up = true;
    interleave x;
    interleave_init(&x, t);
    (void)interleave_add(&x, run_appender, &first);
    (void)interleave_add(&x, run_appender, &second);
    interleave_until(&x, 0, 1);
    interleave_blocked(&x, 1);
    interleave_finish(&x, 0);
    interleave_finish(&x, 1);
    interleave_done(&x);
    assert_int_equal(TIDE_E_MISMATCH, first.status);
    assert_ok_err(second.status, &second.err);
    assert_int_equal(2, second.numbers.sequence_number);
    assert_int_equal(2, second.numbers.global_sequence);
    assert_sound(t->store);
}

typedef struct collector {
    tide_store *store;
    int64_t chunks;
    tide_status status;
    tide_error err;
} collector;

static void run_collector(interleave *x, int actor, void *arg)
{
    (void)x;
    (void)actor;
    collector *c = arg;
    int64_t bytes = 0;
    c->status = tide_journal_chunk_gc(c->store, &c->chunks, &bytes, &c->err);
}

/* A chunk that lost its last reference is used again by an append that has looked, but not committed yet. */
static void the_collector_waits_for_an_append_that_uses_a_chunk(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    TIDE_CLEANUP(tide_freep) char *large = make_state(1, 40000);
    (void)append_json(t, "a", "manual_checkpoint", large);
    (void)append_n(t, "a", 2);
    /* Removed, but not collected yet: as if another process were about to. */
    run_sql(t->store, t->engine == TIDE_ENGINE_SQLITE
                          ? "INSERT INTO journal_permits VALUES ('test'); DELETE FROM checkpoints "
                            "WHERE global_sequence = 1; DELETE FROM journal_permits"
                          : "SET LOCAL tidemark.permit = 'test'; DELETE FROM checkpoints WHERE "
                            "global_sequence = 1");
    assert_true(ASK(t->store, "SELECT count(*) FROM chunk_candidates") > 3);
    const int64_t chunks = ASK(t->store, "SELECT count(*) FROM snapshot_chunks");
    appender again = make_appender(t, "a", large);
    again.is_settled = false;
    collector c = {.store = store_test_open_real(t)};
    interleave x;
    interleave_init(&x, t);
    (void)interleave_add(&x, run_appender, &again);
    (void)interleave_add(&x, run_collector, &c);
    interleave_until(&x, 0, 1);
    interleave_blocked(&x, 1);
    interleave_finish(&x, 0);
    interleave_finish(&x, 1);
    interleave_done(&x);
    assert_ok_err(again.status, &again.err);
    assert_ok_err(c.status, &c.err);
    assert_int_equal(0, c.chunks);
    assert_int_equal(chunks, ASK(t->store, "SELECT count(*) FROM snapshot_chunks"));
    assert_int_equal(0, ASK(t->store, "SELECT count(*) FROM chunk_candidates"));
    static seen_list list;
    list.count = 0;
    assert_ok_err(tide_journal_find(t->store, "3", true, see, &list, &t->err), &t->err);
    assert_int_equal(strlen(large), list.rows[0].snapshot_len);
}

/* The same the other way round: what an append removed from under itself would be is put back by it. */
static void an_append_after_the_collector_stores_its_chunks_again(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    TIDE_CLEANUP(tide_freep) char *large = make_state(1, 40000);
    (void)append_json(t, "a", "manual_checkpoint", large);
    (void)append_n(t, "a", 2);
    assert_ok(tide_journal_delete(t->store, "1", true, &t->err));
    assert_int_equal(0, ASK(t->store, "SELECT count(*) FROM snapshot_chunks"));
    (void)append_json(t, "a", "manual_checkpoint", large);
    assert_sound(t->store);
}

/* ---- one id, two callers ---- */

typedef struct caller {
    tide_store *store;
    pthread_t thread;
    tide_checkpoint_numbers numbers;
    tide_status status;
    tide_error err;
} caller;

static void *append_same(void *arg)
{
    caller *c = arg;
    const tide_checkpoint_new row = {TIDE_CHECKPOINT_NEW_INIT, .checkpoint_id = "same",
                                     .task_id = "a", .type = "manual_checkpoint",
                                     .snapshot = tide_view_of("{}")};
    c->status = tide_journal_append(c->store, &row, &c->numbers, &c->err);
    return NULL;
}

static void callers_with_one_id_write_one_checkpoint(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    caller callers[6];
    memset(callers, 0, sizeof callers);
    for (int i = 0; i < 6; i++)
        callers[i].store = i < 2 ? store_test_open_real(t) : callers[i % 2].store;
    for (int i = 0; i < 6; i++)
        assert_int_equal(0, pthread_create(&callers[i].thread, NULL, append_same, &callers[i]));
    for (int i = 0; i < 6; i++)
        (void)pthread_join(callers[i].thread, NULL);
    int existing = 0;
    for (int i = 0; i < 6; i++) {
        assert_ok_err(callers[i].status, &callers[i].err);
        assert_int_equal(1, callers[i].numbers.global_sequence);
        existing += callers[i].numbers.is_existing;
    }
    assert_int_equal(5, existing);
    assert_int_equal(1, head_of(t->store));
    assert_sound(t->store);
}

/* ---- an import beside appends ---- */

/* The counter never goes down, also while others append; nobody gets a number of the import. */
static void an_import_beside_appends_gives_nobody_a_number_twice(void **state)
{
    store_test *t = *state;
    tide_store *here = t->store;
    t->store = open_empty(t);
    make_task(t, "a");
    make_task(t, "b");
    for (int i = 0; i < 30; i++)
        (void)append_n(t, i % 2 ? "a" : "b", i);
    TIDE_CLEANUP(memory_done) memory_file file = {0};
    export_to(t->store, NULL, &file);
    t->store = here;
    make_task(t, "a");
    make_task(t, "t0");
    for (int i = 0; i < 30; i++)
        (void)append_n(t, "t0", i);
    tide_store *store = store_test_open_real(t);
    tide_store *importer = store_test_open_real(t);
    writer writers[3];
    memset(writers, 0, sizeof writers);
    for (int i = 0; i < 3; i++) {
        writers[i] = (writer){.store = store, .count = 60, .task_id = "a"};
        if (i == 2)
            (void)snprintf(writers[i].task_id, sizeof writers[i].task_id, "t0");
        assert_int_equal(0, pthread_create(&writers[i].thread, NULL, write_many, &writers[i]));
    }
    tide_journal_transfer counts;
    assert_ok_err(import_from(importer, &file, &counts, &t->err), &t->err);
    for (int i = 0; i < 3; i++) {
        (void)pthread_join(writers[i].thread, NULL);
        assert_ok_err(writers[i].status, &writers[i].err);
    }
    assert_int_equal(30, counts.checkpoints);
    assert_int_equal(30 + 30 + 180, head_of(t->store));
    assert_int_equal(30 + 30 + 180,
                     list_of(t->store, (tide_journal_filter){TIDE_JOURNAL_FILTER_INIT})->count);
    assert_sound(t->store);
}

/* ---- forks beside compaction ---- */

typedef struct forker {
    tide_store *store;
    pthread_t thread;
    int made;
    int refused;
} forker;

static void *fork_many(void *arg)
{
    forker *f = arg;
    for (int i = 1; i <= 60; i++) {
        char number[16];
        char id[16];
        char made[TIDE_JOURNAL_ID_MAX + 1];
        (void)snprintf(number, sizeof number, "%d", i);
        (void)snprintf(id, sizeof id, "f%d", i);
        tide_error err;
        const tide_status status = tide_journal_fork(f->store, number, id, NULL, made, &err);
        f->made += status == TIDE_OK;
        f->refused += status == TIDE_E_NOT_FOUND;
    }
    return NULL;
}

/* A fork is made, or its checkpoint was gone: a fork point never goes after the fork was made. */
static void a_fork_point_never_goes_while_compaction_runs(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    for (int i = 1; i <= 80; i++)
        (void)append_n(t, "a", i);
    tide_store *store = store_test_open_real(t);
    forker f = {.store = store_test_open_real(t)};
    assert_int_equal(0, pthread_create(&f.thread, NULL, fork_many, &f));
    for (int64_t keep = 70; keep >= 10; keep -= 10) {
        const tide_compaction policy = {TIDE_COMPACTION_INIT, .task_id = "a", .keep = keep};
        assert_ok_err(tide_journal_compact(store, &policy, NULL, &t->err), &t->err);
    }
    (void)pthread_join(f.thread, NULL);
    assert_int_equal(60, f.made + f.refused);
    assert_int_equal(f.made, ASK(t->store, "SELECT count(*) FROM tasks f JOIN checkpoints c ON "
                                           "c.task_id = f.forked_from AND c.sequence_number = "
                                           "f.forked_at"));
    assert_sound(t->store);
}

/* ---- an import beside compaction ---- */

typedef struct locker {
    tide_store *store;
    interleave *x;
    int actor;
    tide_status status;
    tide_error err;
} locker;

static tide_status lock_annotations(tide_tx *tx, void *arg, tide_error *err)
{
    const locker *l = arg;
    TIDE_TRY(tx->store->ops->script(tx, "LOCK TABLE checkpoint_annotations IN SHARE MODE", err));
    interleave_step(l->x, l->actor, 1);
    return TIDE_OK;
}

static void run_locker(interleave *x, int actor, void *arg)
{
    locker *l = arg;
    l->x = x;
    l->actor = actor;
    l->status = tide_store_write(l->store, lock_annotations, l, &l->err);
}

typedef struct importer {
    tide_store *store;
    memory_file *file;
    tide_status status;
    tide_error err;
} importer;

static void run_importer(interleave *x, int actor, void *arg)
{
    (void)x;
    (void)actor;
    importer *i = arg;
    tide_journal_transfer counts;
    i->status = import_from(i->store, i->file, &counts, &i->err);
}

typedef struct compactor {
    tide_store *store;
    tide_compacted counts;
    tide_status status;
    tide_error err;
} compactor;

static void run_compactor(interleave *x, int actor, void *arg)
{
    (void)x;
    (void)actor;
    compactor *c = arg;
    const tide_compaction policy = {TIDE_COMPACTION_INIT, .task_id = "p", .keep = 1};
    c->status = tide_journal_compact(c->store, &policy, &c->counts, &c->err);
}

/* What a store like this one with a fork of "p" at number 2 exports. */
static void export_fork(store_test *t, memory_file *fork)
{
    tide_store *here = t->store;
    TIDE_CLEANUP(memory_done) memory_file file = {0};
    export_to(here, NULL, &file);
    t->store = open_empty(t);
    tide_journal_transfer counts;
    char made[TIDE_JOURNAL_ID_MAX + 1];
    assert_ok_err(import_from(t->store, &file, &counts, &t->err), &t->err);
    assert_ok_err(tide_journal_fork(t->store, "2", "f", NULL, made, &t->err), &t->err);
    (void)append_n(t, "f", 3);
    export_to(t->store, "f", fork);
    t->store = here;
}

/* An import brings a fork of a task that is being compacted. Either comes first, and then the other: the fork point of an
 * imported fork is not removed under it. */
static void an_import_and_a_compaction_exclude_each_other(void **state)
{
    store_test *t = *state;
    make_task(t, "p");
    for (int i = 1; i <= 5; i++)
        (void)append_n(t, "p", i);
    TIDE_CLEANUP(memory_done) memory_file fork = {0};
    export_fork(t, &fork);
    locker l = {.store = store_test_open_real(t)};
    importer i = {.store = store_test_open_real(t), .file = &fork};
    compactor c = {.store = store_test_open_real(t)};
    interleave x;
    interleave_init(&x, t);
    (void)interleave_add(&x, run_locker, &l);
    (void)interleave_add(&x, run_importer, &i);
    (void)interleave_add(&x, run_compactor, &c);
    interleave_until(&x, 0, 1);
    interleave_blocked(&x, 1); /* in the middle of its publication */
    interleave_blocked(&x, 2);
    int64_t waiting = 0;
    for (int tries = 0; tries < 10000 && waiting == 0; tries++)
        waiting = ASK(t->store, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND "
                                "NOT granted AND database = (SELECT oid FROM pg_database WHERE "
                                "datname = current_database())");
    assert_int_equal(1, waiting);
    interleave_finish(&x, 0);
    interleave_finish(&x, 1);
    interleave_finish(&x, 2);
    interleave_done(&x);
    assert_ok_err(i.status, &i.err);
    assert_ok_err(c.status, &c.err);
    assert_int_equal(3, c.counts.removed); /* 1, 3 and 4; 2 is a fork point now */
    assert_int_equal(1, ASK(t->store, "SELECT count(*) FROM checkpoints WHERE task_id = 'p' AND "
                                      "sequence_number = 2"));
    assert_sound(t->store);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(test_71_and_72_concurrent_checkpoints_get_unique_rising_sequences),
        STORE_CASE(test_74_two_services_never_issue_the_same_number),
        STORE_CASE(a_follower_misses_nothing_beside_writers),
        STORE_CASE(two_writers_of_one_task_get_one_number_each),
        STORE_CASE(a_number_that_was_rolled_back_goes_to_the_next),
        STORE_CASE(the_collector_waits_for_an_append_that_uses_a_chunk),
        STORE_CASE(an_append_after_the_collector_stores_its_chunks_again),
        STORE_CASE(callers_with_one_id_write_one_checkpoint),
        STORE_CASE(an_import_beside_appends_gives_nobody_a_number_twice),
        STORE_CASE(a_fork_point_never_goes_while_compaction_runs),
        STORE_CASE_POSTGRES(an_import_and_a_compaction_exclude_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
