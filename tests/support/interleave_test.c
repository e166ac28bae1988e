/* The interleaving helper itself: orders are kept, blocking is seen. */
#include "support/interleave.h"

#include "base/cleanup.h"

typedef struct writer {
    tide_store *store;
    interleave *x;
    int actor;
    const char *name;
    numbered_row row;
    tide_status status;
} writer;

static tide_status add_after_step(tide_tx *tx, void *arg, tide_error *err)
{
    writer *w = arg;
    TIDE_TRY(add_numbered(tx, &w->row, err));
    TIDE_TRY(tide_tx_take_counters(tx, err));
    interleave_step(w->x, w->actor, 1);
    return TIDE_OK;
}

static void run_writer(interleave *x, int actor, void *arg)
{
    writer *w = arg;
    w->x = x;
    w->actor = actor;
    w->row = (numbered_row){.writer = w->name, .n = 1};
    tide_error err;
    w->status = tide_store_write(w->store, add_after_step, w, &err);
}

/* The second writer waits for the number until the first has committed. */
static void a_second_taker_waits_until_the_first_commits(void **state)
{
    store_test *t = *state;
    writer a = {.store = store_test_open_real(t), .name = "a"};
    writer b = {.store = store_test_open_real(t), .name = "b"};
    interleave x;
    interleave_init(&x, t);
    const int actor_a = interleave_add(&x, run_writer, &a);
    const int actor_b = interleave_add(&x, run_writer, &b);
    interleave_until(&x, actor_a, 1);
    interleave_blocked(&x, actor_b);
    interleave_finish(&x, actor_a);
    interleave_finish(&x, actor_b);
    interleave_done(&x);
    assert_ok(a.status);
    assert_ok(b.status);
    assert_int_equal(1, a.row.range.first);
    assert_int_equal(2, b.row.range.first);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(a_second_taker_waits_until_the_first_commits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
