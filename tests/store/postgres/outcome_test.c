/* A response that was lost: what the call made itself, and finds again by its id, is new. */
#include "support/store_fixture.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static struct {
    pg_cluster cluster;
    tide_store *store;
    tide_error err;
} p;

/* Synchronous in its own transaction, as behind a pooler: there is no witness of a commit. */
static int open_one(void **state)
{
    (void)state;
    char url[PG_CLUSTER_URL_MAX];
    assert_ok_err(pg_cluster_start(&p.cluster, &(pg_cluster_options){.is_copy = true}, &p.err),
                  &p.err);
    pg_cluster_url(&p.cluster, "postgres", url);
    const tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .state_dir = "",
                                        .pg_pooler = TIDE_PG_POOLER_TRANSACTION};
    assert_ok_err(tide_store_open(&p.store, url, &options, &p.err), &p.err);
    const tide_task_new task = {TIDE_TASK_NEW_INIT, .task_id = "t", .title = "t"};
    char id[TIDE_WORK_ID_MAX + 1];
    assert_ok_err(tide_task_create(p.store, &task, id, &p.err), &p.err);
    return 0;
}

static int close_one(void **state)
{
    (void)state;
    tide_store_close(p.store);
    pg_cluster_stop(&p.cluster);
    return 0;
}

typedef tide_status call_fn(void *arg, tide_error *err);

typedef struct caller {
    call_fn *call;
    void *arg;
    tide_status status;
    tide_error err;
    pthread_t thread;
} caller;

static void *call_store(void *arg)
{
    caller *self = arg;
    self->status = self->call(self->arg, &self->err);
    return NULL;
}

static void wait_waiting(const char *wanted)
{
    char found[16] = "";
    while (strcmp(found, wanted) != 0)
        assert_ok_err(pg_cluster_query(&p.cluster,
                                       "SELECT count(*) FROM pg_stat_activity "
                                       "WHERE wait_event = 'SyncRep'",
                                       found, sizeof found, &p.err),
                      &p.err);
}

/* The backend ends while its COMMIT, which has happened, waits for a standby that is away. */
static void lose_response(call_fn *call, void *arg)
{
    caller c = {.call = call, .arg = arg};
    assert_ok_err(pg_cluster_require_standby(&p.cluster, "away", &p.err), &p.err);
    assert_int_equal(0, pthread_create(&c.thread, NULL, call_store, &c));
    wait_waiting("1");
    assert_ok(pg_cluster_query(&p.cluster,
                               "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                               "WHERE wait_event = 'SyncRep'",
                               NULL, 0, &p.err));
    assert_ok_err(pg_cluster_require_standby(&p.cluster, "", &p.err), &p.err);
    assert_int_equal(0, pthread_join(c.thread, NULL));
    assert_ok_err(c.status, &c.err);
}

static tide_status append(void *arg, tide_error *err)
{
    const tide_checkpoint_new checkpoint = {TIDE_CHECKPOINT_NEW_INIT, .checkpoint_id = "k",
                                            .task_id = "t", .type = "manual_checkpoint",
                                            .snapshot = tide_view_of("{}")};
    return tide_journal_append(p.store, &checkpoint, arg, err);
}

static void a_checkpoint_found_by_its_key_is_new_to_the_call_that_made_it(void **state)
{
    (void)state;
    tide_checkpoint_numbers numbers = {.is_existing = true};
    lose_response(append, &numbers);
    assert_false(numbers.is_existing);
    assert_int_equal(1, numbers.global_sequence);
    assert_ok_err(append(&numbers, &p.err), &p.err);
    assert_true(numbers.is_existing);
    assert_int_equal(1, numbers.global_sequence);
}

enum { ITEMS = 3 };

typedef struct addition {
    tide_work_spec items[ITEMS];
    tide_work_added out[ITEMS];
} addition;

static tide_status add(void *arg, tide_error *err)
{
    addition *a = arg;
    return tide_work_add(p.store, a->items, ITEMS, a->out, err);
}

static void items_found_by_id_or_key_are_new_to_the_call_that_made_them(void **state)
{
    (void)state;
    addition a = {
        .items = {
            {TIDE_WORK_SPEC_INIT, .task_id = "t", .work_type = "w", .work_item_id = "given"},
            {TIDE_WORK_SPEC_INIT, .task_id = "t", .work_type = "w", .unique_key = "key"},
            {TIDE_WORK_SPEC_INIT, .task_id = "t", .work_type = "w"},
        }};
    lose_response(add, &a);
    for (int i = 0; i < ITEMS; i++)
        assert_false(a.out[i].is_existing);
    char count[16];
    assert_ok(pg_cluster_query(&p.cluster, "SELECT count(*) FROM work_items", count, sizeof count,
                               &p.err));
    assert_string_equal("3", count);
    const addition first = a;
    assert_ok_err(add(&a, &p.err), &p.err);
    assert_true(a.out[0].is_existing);
    assert_true(a.out[1].is_existing);
    assert_string_equal(first.out[1].work_item_id, a.out[1].work_item_id);
    assert_false(a.out[2].is_existing);
}

/* Items of another call stay such, also where the response is lost. */
static void an_item_of_an_earlier_call_is_not_new(void **state)
{
    (void)state;
    addition a = {
        .items = {
            {TIDE_WORK_SPEC_INIT, .task_id = "t", .work_type = "w", .work_item_id = "given"},
            {TIDE_WORK_SPEC_INIT, .task_id = "t", .work_type = "w", .unique_key = "key"},
            {TIDE_WORK_SPEC_INIT, .task_id = "t", .work_type = "w"},
        }};
    assert_ok_err(add(&a, &p.err), &p.err);
    lose_response(add, &a);
    assert_true(a.out[0].is_existing);
    assert_true(a.out[1].is_existing);
    assert_false(a.out[2].is_existing);
}

static tide_status create(void *arg, tide_error *err)
{
    const tide_task_new task = {TIDE_TASK_NEW_INIT, .task_id = arg, .title = "t"};
    char id[TIDE_WORK_ID_MAX + 1];
    return tide_task_create(p.store, &task, id, err);
}

static void a_task_found_by_its_id_is_new_to_the_call_that_made_it(void **state)
{
    (void)state;
    char id[] = "mine";
    lose_response(create, id);
    assert_status(TIDE_E_EXISTS, create(id, &p.err));
}

static tide_status begin_key(void *arg, tide_error *err)
{
    const tide_idempotency_request request = {TIDE_IDEMPOTENCY_REQUEST_INIT, .key = "once",
                                              .request_hash = "h", .holder = "me",
                                              .lock_us = 60 * SECOND_US};
    return tide_idempotency_begin(p.store, &request, arg, err);
}

static void an_idempotency_key_is_new_to_the_call_that_made_it(void **state)
{
    (void)state;
    tide_idempotency_state key = {.token = 0};
    lose_response(begin_key, &key);
    assert_int_equal(TIDE_IDEMPOTENCY_NEW, key.outcome);
    assert_true(key.token != 0);
    tide_idempotency_state_done(&key);
    assert_ok_err(begin_key(&key, &p.err), &p.err);
    assert_int_equal(TIDE_IDEMPOTENCY_IN_PROGRESS, key.outcome);
    tide_idempotency_state_done(&key);
}

#define ONE_CASE(f) cmocka_unit_test_setup_teardown(f, open_one, close_one)

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        ONE_CASE(a_checkpoint_found_by_its_key_is_new_to_the_call_that_made_it),
        ONE_CASE(items_found_by_id_or_key_are_new_to_the_call_that_made_them),
        ONE_CASE(an_item_of_an_earlier_call_is_not_new),
        ONE_CASE(a_task_found_by_its_id_is_new_to_the_call_that_made_it),
        ONE_CASE(an_idempotency_key_is_new_to_the_call_that_made_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
