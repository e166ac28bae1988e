/* Being told that something changed, on every engine. */
#include "support/store_fixture.h"

#include <string.h>

#include "base/cleanup.h"

enum { LONG_US = 20000000 };

typedef struct news {
    const char *topic;
    bool is_failing;
    int64_t id;
} news;

static tide_status write_news(tide_tx *tx, void *arg, tide_error *err)
{
    const news *n = arg;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TEST_SQL_TYPED_PUT, err));
    tide_query_bind_i64(query, "id", n->id);
    TIDE_TRY(tide_query_run(query, NULL, err));
    TIDE_TRY(tide_tx_notify(tx, n->topic, err));
    TIDE_TRY(tide_tx_notify(tx, n->topic, err));
    return n->is_failing ? tide_fail(err, TIDE_E_MISMATCH, "as asked") : TIDE_OK;
}

static void tell(tide_store *store, const char *topic)
{
    static int64_t id;
    news n = {.topic = topic, .id = ++id};
    tide_error err;
    assert_ok_err(tide_store_write(store, write_news, &n, &err), &err);
}

static tide_watch *watch(store_test *t, tide_store *store, const char *topic)
{
    tide_watch *w = NULL;
    assert_ok_err(tide_watch_open(&w, store, topic, &t->err), &t->err);
    return w;
}

/* A fresh watch may have signs of its own thread's start: take them away. */
static void calm_down(tide_watch *w)
{
    while (tide_watch_wait(w, 300000, NULL) == TIDE_OK) {
    }
}

static void a_commit_wakes_who_watches_its_topic(void **state)
{
    store_test *t = *state;
    tide_watch *w = watch(t, t->store, "items");
    tell(t->store, "items");
    assert_ok(tide_watch_wait(w, LONG_US, &t->err));
    tide_watch_close(w);
}

static void another_process_is_woken_too(void **state)
{
    store_test *t = *state;
    tide_store *other = store_test_open_real(t);
    tide_watch *w = watch(t, other, "items");
    calm_down(w);
    for (int i = 0; i < 5; i++) {
        tell(t->store, "items");
        assert_ok(tide_watch_wait(w, LONG_US, &t->err));
        calm_down(w);
    }
    tide_watch_close(w);
}

static void what_was_told_before_the_wait_is_not_missed(void **state)
{
    store_test *t = *state;
    tide_watch *w = watch(t, t->store, "items");
    calm_down(w);
    tell(t->store, "items");
    tell(t->store, "items");
    assert_ok(tide_watch_wait(w, 0, &t->err));
    tide_watch_close(w);
}

static void a_transaction_that_failed_tells_nobody(void **state)
{
    store_test *t = *state;
    tide_watch *w = watch(t, t->store, "items");
    calm_down(w);
    news n = {.topic = "items", .is_failing = true, .id = 7};
    assert_status(TIDE_E_MISMATCH, tide_store_write(t->store, write_news, &n, &t->err));
    assert_status(TIDE_NONE, tide_watch_wait(w, 100000, &t->err));
    tide_watch_close(w);
}

/* On PostgreSQL the topic travels along; on SQLite another process knows only that something changed. */
static void other_topics_do_not_wake(void **state)
{
    store_test *t = *state;
    tide_store *other = store_test_open_real(t);
    tide_watch *w = watch(t, other, "items");
    calm_down(w);
    tell(t->store, "others");
    assert_status(TIDE_NONE, tide_watch_wait(w, 200000, &t->err));
    tide_watch_close(w);
}

static tide_status kill_others(tide_tx *tx, void *arg, tide_error *err)
{
    (void)arg;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TEST_SQL_KILL_BACKEND, err));
    return tide_query_run(query, NULL, err);
}

static void a_listener_that_lost_its_connection_looks_at_everything(void **state)
{
    store_test *t = *state;
    tide_store *other = store_test_open_real(t);
    tide_watch *w = watch(t, other, "items");
    calm_down(w);
    assert_ok(tide_store_read_local(t->store, kill_others, NULL, &t->err));
    assert_ok(tide_watch_wait(w, LONG_US, &t->err));
    calm_down(w);
    tell(t->store, "items");
    assert_ok(tide_watch_wait(w, LONG_US, &t->err));
    tide_watch_close(w);
}

static tide_status notify_badly(tide_tx *tx, void *arg, tide_error *err)
{
    return tide_tx_notify(tx, arg, err);
}

static void bad_topics_are_refused(void **state)
{
    store_test *t = *state;
    tide_watch *w = NULL;
    assert_status(TIDE_E_INVALID, tide_watch_open(&w, t->store, "", &t->err));
    char name[TIDE_TOPIC_MAX + 2];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_status(TIDE_E_INVALID, tide_watch_open(&w, t->store, name, &t->err));
    assert_status(TIDE_E_INVALID, tide_store_write(t->store, notify_badly, name, &t->err));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(a_commit_wakes_who_watches_its_topic),
        STORE_CASE(another_process_is_woken_too),
        STORE_CASE(what_was_told_before_the_wait_is_not_missed),
        STORE_CASE(a_transaction_that_failed_tells_nobody),
        STORE_CASE_POSTGRES(other_topics_do_not_wake),
        STORE_CASE_POSTGRES(a_listener_that_lost_its_connection_looks_at_everything),
        STORE_CASE(bad_topics_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
