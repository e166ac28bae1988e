/* Transactions in forced orders. */
#include "support/interleave.h"

#include "base/cleanup.h"

typedef struct taker {
    tide_store *store;
    interleave *x;
    int actor;
    numbered_row row;
    bool is_failing;
    tide_status status;
    tide_error err;
} taker;

static tide_status take_and_wait(tide_tx *tx, void *arg, tide_error *err)
{
    taker *w = arg;
    TIDE_TRY(add_numbered(tx, &w->row, err));
    TIDE_TRY(tide_tx_take_counters(tx, err));
    interleave_step(w->x, w->actor, 1);
    return w->is_failing ? tide_fail(err, TIDE_E_MISMATCH, "as asked") : TIDE_OK;
}

static void run_taker(interleave *x, int actor, void *arg)
{
    taker *w = arg;
    w->x = x;
    w->actor = actor;
    w->status = tide_store_write(w->store, take_and_wait, w, &w->err);
}

typedef struct page {
    int64_t after;
    int count;
    int64_t numbers[16];
} page;

static tide_status read_tail(tide_tx *tx, void *arg, tide_error *err)
{
    page *p = arg;
    p->count = 0;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TEST_SQL_NUMBERED_TAIL, err));
    tide_query_bind_i64(query, "after", p->after);
    tide_query_bind_i64(query, "limit", 16);
    while (tide_query_step(query, err) == TIDE_OK)
        p->numbers[p->count++] = tide_query_col_i64(query);
    return TIDE_OK;
}

static void start(interleave *x, store_test *t, taker *a, taker *b)
{
    interleave_init(x, t);
    a->store = store_test_open_real(t);
    b->store = store_test_open_real(t);
    a->row = (numbered_row){.writer = "a", .n = 1};
    b->row = (numbered_row){.writer = "b", .n = 1};
    (void)interleave_add(x, run_taker, a);
    (void)interleave_add(x, run_taker, b);
}

/* Rule 1: commit order is number order. A reader between the two sees neither, then 1, then 2. */
static void a_tailer_never_sees_two_before_one(void **state)
{
    store_test *t = *state;
    taker a = {0};
    taker b = {0};
    interleave x;
    page p = {0};
    start(&x, t, &a, &b);
    interleave_until(&x, 0, 1);
    interleave_blocked(&x, 1);
    assert_ok(tide_store_read(t->store, read_tail, &p, &t->err));
    assert_int_equal(0, p.count);
    interleave_finish(&x, 0);
    interleave_finish(&x, 1);
    interleave_done(&x);
    assert_ok_err(a.status, &a.err);
    assert_ok_err(b.status, &b.err);
    assert_ok(tide_store_read(t->store, read_tail, &p, &t->err));
    assert_int_equal(2, p.count);
    assert_int_equal(1, a.row.range.first);
    assert_int_equal(2, b.row.range.first);
}

/* Rules 1 and 4: the number of a transaction that rolled back goes to the next one; no gap remains. */
static void the_waiting_taker_gets_the_number_that_was_given_back(void **state)
{
    store_test *t = *state;
    taker a = {.is_failing = true};
    taker b = {0};
    interleave x;
    start(&x, t, &a, &b);
    interleave_until(&x, 0, 1);
    interleave_blocked(&x, 1);
    interleave_finish(&x, 0);
    interleave_finish(&x, 1);
    interleave_done(&x);
    assert_status(TIDE_E_MISMATCH, a.status);
    assert_ok_err(b.status, &b.err);
    assert_int_equal(1, b.row.range.first);
}

/* Rule 5: check + act + record is one unit; two closures that both find a row missing make one row. */
typedef struct once {
    taker base;
    bool has_found;
} once;

static tide_status add_once(tide_tx *tx, void *arg, tide_error *err)
{
    once *o = arg;
    taker *w = &o->base;
    TIDE_CLEANUP(tide_query_endp) tide_query *lock = NULL;
    TIDE_TRY(tide_query_begin(&lock, tx, TEST_SQL_ROW_LOCK, err));
    tide_query_bind_i64(lock, "id", 1);
    TIDE_TRY(tide_query_one(lock, err));
    TIDE_CLEANUP(tide_query_endp) tide_query *found = NULL;
    TIDE_TRY(tide_query_begin(&found, tx, TEST_SQL_NUMBERED_FIND, err));
    tide_query_bind_text(found, "writer", w->row.writer);
    tide_query_bind_i64(found, "n", w->row.n);
    const tide_status status = tide_query_one(found, err);
    TIDE_TRY(status);
    interleave_step(w->x, w->actor, 1);
    o->has_found = status == TIDE_OK;
    return o->has_found ? TIDE_OK : add_numbered(tx, &w->row, err);
}

static void run_once(interleave *x, int actor, void *arg)
{
    once *o = arg;
    o->base.x = x;
    o->base.actor = actor;
    o->base.status = tide_store_write(o->base.store, add_once, o, &o->base.err);
}

static tide_status put_lock_row(tide_tx *tx, void *arg, tide_error *err)
{
    (void)arg;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TEST_SQL_TYPED_PUT, err));
    tide_query_bind_i64(query, "id", 1);
    return tide_query_run(query, NULL, err);
}

static void two_who_both_want_to_add_a_row_add_it_once(void **state)
{
    store_test *t = *state;
    assert_ok(tide_store_write(t->store, put_lock_row, NULL, &t->err));
    const numbered_row row = {.writer = "same", .n = 1};
    once a = {.base = {.store = store_test_open_real(t), .row = row}};
    once b = {.base = {.store = store_test_open_real(t), .row = row}};
    interleave x;
    interleave_init(&x, t);
    (void)interleave_add(&x, run_once, &a);
    (void)interleave_add(&x, run_once, &b);
    interleave_until(&x, 0, 1);
    interleave_blocked(&x, 1);
    interleave_finish(&x, 0);
    interleave_finish(&x, 1);
    interleave_done(&x);
    assert_ok_err(a.base.status, &a.base.err);
    assert_ok_err(b.base.status, &b.base.err);
    assert_false(a.has_found);
    assert_true(b.has_found);
    int64_t count = 0;
    int64_t highest = 0;
    count_numbered(t->store, &count, &highest);
    assert_int_equal(1, count);
}

/* Closures that declare two sequences in opposite orders do not deadlock: keys decide. */
typedef struct crossing {
    tide_store *store;
    const char *first;
    const char *second;
    tide_status status;
    tide_error err;
    tide_sequence_range ranges[2];
} crossing;

static tide_status take_crosswise(tide_tx *tx, void *arg, tide_error *err)
{
    crossing *c = arg;
    TIDE_TRY(tide_sequence_declare(tx, c->first, 1, &c->ranges[0], err));
    return tide_sequence_declare(tx, c->second, 1, &c->ranges[1], err);
}

static void *cross_often(void *arg)
{
    crossing *c = arg;
    for (int i = 0; i < 100 && c->status >= TIDE_OK; i++)
        c->status = tide_store_write(c->store, take_crosswise, c, &c->err);
    return NULL;
}

static void sequences_taken_crosswise_do_not_deadlock(void **state)
{
    store_test *t = *state;
    crossing crossings[4];
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        crossings[i] = (crossing){.store = store_test_open_real(t),
                                  .first = i % 2 ? "one" : "two",
                                  .second = i % 2 ? "two" : "one"};
        assert_int_equal(0, pthread_create(&threads[i], NULL, cross_often, &crossings[i]));
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(0, pthread_join(threads[i], NULL));
        assert_ok_err(crossings[i].status, &crossings[i].err);
    }
    tide_sequence found;
    assert_ok(tide_sequence_show(t->store, "one", &found, &t->err));
    assert_int_equal(400, found.last);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(a_tailer_never_sees_two_before_one),
        STORE_CASE(the_waiting_taker_gets_the_number_that_was_given_back),
        STORE_CASE(two_who_both_want_to_add_a_row_add_it_once),
        STORE_CASE(sequences_taken_crosswise_do_not_deadlock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
