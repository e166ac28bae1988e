/* Closing, forking, running out of connections: the edges of a store's life, on every engine. */
#include "support/store_fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"

typedef struct slow_call {
    tide_store *store;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_inside;
    bool may_leave;
    atomic_bool is_done;
    tide_status status;
} slow_call;

static tide_status linger(tide_tx *tx, void *arg, tide_error *err)
{
    slow_call *c = arg;
    int64_t now_us = 0;
    TIDE_TRY(tide_tx_now(tx, &now_us, err));
    (void)pthread_mutex_lock(&c->lock);
    c->is_inside = true;
    (void)pthread_cond_broadcast(&c->changed);
    while (!c->may_leave)
        (void)pthread_cond_wait(&c->changed, &c->lock);
    (void)pthread_mutex_unlock(&c->lock);
    return TIDE_OK;
}

static void *run_slowly(void *arg)
{
    slow_call *c = arg;
    c->status = tide_store_read(c->store, linger, c, NULL);
    atomic_store(&c->is_done, true);
    return NULL;
}

static void start(slow_call *c, pthread_t *thread, tide_store *store)
{
    *c = (slow_call){
        .store = store, .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    assert_int_equal(0, pthread_create(thread, NULL, run_slowly, c));
    (void)pthread_mutex_lock(&c->lock);
    while (!c->is_inside)
        (void)pthread_cond_wait(&c->changed, &c->lock);
    (void)pthread_mutex_unlock(&c->lock);
}

static void *let_go(void *arg)
{
    slow_call *c = arg;
    (void)pthread_mutex_lock(&c->lock);
    c->may_leave = true;
    (void)pthread_cond_broadcast(&c->changed);
    (void)pthread_mutex_unlock(&c->lock);
    return NULL;
}

static void closing_waits_for_calls_under_way(void **state)
{
    store_test *t = *state;
    slow_call c;
    pthread_t reader;
    pthread_t helper;
    start(&c, &reader, t->store);
    assert_int_equal(0, pthread_create(&helper, NULL, let_go, &c));
    tide_store_closep(&t->store);
    assert_int_equal(0, pthread_join(helper, NULL));
    assert_int_equal(0, pthread_join(reader, NULL));
    assert_ok(c.status);
}

/* Every wait has an end. */
static void a_pool_that_stays_empty_is_busy_and_not_for_ever(void **state)
{
    store_test *t = *state;
    tide_store *store = store_test_open_with(
        t, (tide_store_options){TIDE_STORE_OPTIONS_INIT, .env = tide_env_system(),
                                .connection_max = 1, .wait_us = SECOND_US / 5});
    slow_call c;
    pthread_t reader;
    start(&c, &reader, store);
    tide_sequence found;
    assert_status(TIDE_E_BUSY, tide_sequence_show(store, "orders", &found, &t->err));
    (void)let_go(&c);
    assert_int_equal(0, pthread_join(reader, NULL));
    assert_status(TIDE_NONE, tide_sequence_show(store, "orders", &found, &t->err));
}

static void a_child_process_is_told_to_open_its_own(void **state)
{
    store_test *t = *state;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        tide_sequence_range range;
        const tide_status status = tide_sequence_next(t->store, "orders", 1, &range, NULL, NULL);
        tide_store_close(t->store);
        _exit(status == TIDE_E_INVALID ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(child, waitpid(child, &status, 0));
    assert_int_equal(0, status);
    tide_sequence_range range;
    assert_ok(tide_sequence_next(t->store, "orders", 1, &range, NULL, &t->err));
}

static tide_status read_epoch(tide_tx *tx, void *arg, tide_error *err)
{
    return tide_identity_read(tx, arg, err);
}

/* Who labels positions asks inside the transaction: another process may have raised the epoch. */
static void a_new_epoch_of_another_process_is_seen_in_the_next_transaction(void **state)
{
    store_test *t = *state;
    tide_store *other = store_test_open(t);
    tide_identity raised;
    tide_identity seen;
    assert_ok(tide_identity_raise(other, "operator", "test", &raised, &t->err));
    assert_ok(tide_store_read(t->store, read_epoch, &seen, &t->err));
    assert_int_equal(raised.epoch, seen.epoch);
    assert_string_equal(raised.epoch_id, seen.epoch_id);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(closing_waits_for_calls_under_way),
        STORE_CASE(a_pool_that_stays_empty_is_busy_and_not_for_ever),
        STORE_CASE(a_child_process_is_told_to_open_its_own),
        STORE_CASE(a_new_epoch_of_another_process_is_seen_in_the_next_transaction),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
