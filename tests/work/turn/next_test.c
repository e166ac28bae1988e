/* Finishing and claiming in one commit, and calls of one process that share a transaction. */
#include "work/work_fixture.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "store/engine.h"
#include "work/foreign/raw_sql.h"

static const char *const job[] = {"job"};

static tide_work_claim_request one_job(const char *worker)
{
    return (tide_work_claim_request){
        TIDE_WORK_CLAIM_REQUEST_INIT, .worker = worker, .types = job, .type_count = 1, .limit = 1,
        .lease_us = LEASE_US};
}

static tide_work_result result_of(const held *h, const char *output)
{
    return (tide_work_result){TIDE_WORK_RESULT_INIT, .work_item_id = h->id, .token = h->token,
                              .output = output};
}

static tide_status next(store_test *t, tide_work_result *results, int count, held *out)
{
    const tide_work_claim_request request = one_job("w");
    tide_work_claims claims;
    const tide_status status = tide_work_next(t->store, results, count, &request, &claims, &t->err);
    *out = (held){.next_due_us = claims.next_due_us};
    if (claims.count > 0) {
        assert_int_equal(1, claims.count);
        (void)snprintf(out->id, sizeof out->id, "%s", claims.items[0].work_item_id);
        out->token = claims.items[0].lease_token;
    }
    tide_work_claims_done(&claims);
    return status;
}

static void next_finishes_and_claims(void **state)
{
    store_test *t = *state;
    held b;
    make_task(t, "t");
    add_item(t, "a");
    add_item(t, "b");
    const held a = claim(t, "w");
    tide_work_result done = result_of(&a, "{\"n\":1}");
    assert_ok_err(next(t, &done, 1, &b), &t->err);
    assert_false(done.is_lost);
    assert_string_equal("b", b.id);
    assert_string_equal("{\"n\":1}", look(t, "a").output);
    assert_item(t, "a", "completed");
    assert_item(t, "b", "in_progress");
    assert_string_equal("completed", outcomes_of(t, "a"));
    assert_string_equal("-", outcomes_of(t, "b"));
    done = result_of(&b, NULL);
    assert_int_equal(TIDE_NONE, next(t, &done, 1, &b));
    assert_item(t, "b", "completed");
    assert_int_equal(0, b.token);
}

/* The rows of both were written by one transaction. */
static void next_is_one_commit(void **state)
{
    store_test *t = *state;
    held b;
    raw_sql raw;
    make_task(t, "t");
    add_item(t, "a");
    add_item(t, "b");
    const held a = claim(t, "w");
    tide_work_result done = result_of(&a, NULL);
    assert_ok_err(next(t, &done, 1, &b), &t->err);
    raw_open(&raw, t);
    assert_int_equal(1,
                     raw_number(&raw, "SELECT count(DISTINCT CAST(xmin AS text)) FROM work_items"));
    raw_close(&raw);
}

static void next_without_results_is_a_claim(void **state)
{
    store_test *t = *state;
    held a;
    make_task(t, "t");
    add_item(t, "a");
    assert_ok_err(next(t, NULL, 0, &a), &t->err);
    assert_string_equal("a", a.id);
    assert_int_equal(TIDE_NONE, next(t, NULL, 0, &a));
}

/* The other finishes and the claim are committed all the same. */
static void a_refused_finish_refuses_nothing_else(void **state)
{
    store_test *t = *state;
    held c;
    make_task(t, "t");
    add_item(t, "a");
    add_item(t, "b");
    add_item(t, "c");
    const held a = claim(t, "w");
    const held b = claim(t, "w");
    tide_work_result done[] = {result_of(&a, "1"), result_of(&b, "2")};
    done[0].token--;
    assert_status(TIDE_E_LEASE_LOST, next(t, done, 2, &c));
    assert_true(done[0].is_lost);
    assert_false(done[1].is_lost);
    assert_item(t, "a", "in_progress");
    assert_item(t, "b", "completed");
    assert_string_equal("c", c.id);
    assert_item(t, "c", "in_progress");
    /* Also where there is nothing to claim. */
    assert_status(TIDE_E_LEASE_LOST, next(t, done, 1, &c));
    assert_int_equal(0, c.token);
}

/* An answer that was lost: the same call finishes nothing twice, and claims. */
static void a_repeated_finish_is_recognised(void **state)
{
    store_test *t = *state;
    held b;
    held c;
    make_task(t, "t");
    add_item(t, "a");
    add_item(t, "b");
    add_item(t, "c");
    const held a = claim(t, "w");
    tide_work_result done = result_of(&a, "1");
    assert_ok_err(next(t, &done, 1, &b), &t->err);
    const int64_t revision = look(t, "a").revision;
    assert_ok_err(next(t, &done, 1, &c), &t->err);
    assert_false(done.is_lost);
    assert_string_equal("c", c.id);
    assert_int_equal(revision, look(t, "a").revision);
    done.output = "2";
    assert_status(TIDE_E_LEASE_LOST, next(t, &done, 1, &c));
    assert_string_equal("1", look(t, "a").output);
}

static void what_a_finish_makes_ready_is_claimed_with_it(void **state)
{
    store_test *t = *state;
    held b;
    const char *const on[] = {"a"};
    make_task(t, "t");
    add_item(t, "a");
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "b", .task_id = "t",
                                .work_type = "job", .max_retries = -1, .depends_on = on,
                                .depends_on_count = 1});
    const held a = claim(t, "w");
    tide_work_result done = result_of(&a, NULL);
    assert_ok_err(next(t, &done, 1, &b), &t->err);
    assert_string_equal("b", b.id);
}

static void what_is_due_is_claimed(void **state)
{
    store_test *t = *state;
    held b;
    make_task(t, "t");
    add_item(t, "a");
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "b", .task_id = "t",
                                .work_type = "job", .max_retries = -1, .delay_us = 10 * SECOND_US});
    const held a = claim(t, "w");
    tide_work_result done = result_of(&a, NULL);
    assert_int_equal(TIDE_NONE, next(t, &done, 1, &b));
    assert_true(b.next_due_us == 10 * SECOND_US);
    virtual_env_advance(&t->clock, 10 * SECOND_US);
    assert_ok_err(next(t, &done, 1, &b), &t->err);
    assert_string_equal("b", b.id);
}

static void bad_input_is_refused_and_changes_nothing(void **state)
{
    store_test *t = *state;
    held b;
    make_task(t, "t");
    add_item(t, "a");
    add_item(t, "b");
    const held a = claim(t, "w");
    tide_work_result twice[] = {result_of(&a, "1"), result_of(&a, "1")};
    assert_status(TIDE_E_INVALID, next(t, twice, 2, &b));
    const tide_checkpoint_new checkpoint = {TIDE_CHECKPOINT_NEW_INIT, .type = "tool_executed",
                                            .snapshot = tide_view_of("{}")};
    tide_work_result more = result_of(&a, "1");
    more.checkpoint = &checkpoint;
    assert_status(TIDE_E_INVALID, next(t, &more, 1, &b));
    tide_work_result text = result_of(&a, "no JSON");
    assert_status(TIDE_E_INVALID, next(t, &text, 1, &b));
    assert_status(TIDE_E_INVALID, next(t, twice, -1, &b));
    assert_item(t, "a", "in_progress");
    assert_item(t, "b", "pending");
}

/* ---- several callers of one process ---- */

/* One whole call of a thread. */
typedef struct caller {
    tide_store *store;
    char worker[32];
    const char *type;
    char finished[TIDE_WORK_ID_MAX + 1];
    int64_t token;
    const char *output;
    bool is_lost;
    char claimed[TIDE_WORK_ID_MAX + 1];
    int64_t claimed_token;
    tide_status status;
    tide_error err;
} caller;

static void *call_next(void *arg)
{
    caller *c = arg;
    const tide_work_claim_request request = {TIDE_WORK_CLAIM_REQUEST_INIT, .worker = c->worker,
                                             .types = &c->type, .type_count = 1,
                                             .lease_us = LEASE_US};
    tide_work_result result = {TIDE_WORK_RESULT_INIT, .work_item_id = c->finished,
                               .token = c->token, .output = c->output};
    tide_work_claims claims;
    c->status = tide_work_next(c->store, &result, 1, &request, &claims, &c->err);
    c->is_lost = result.is_lost;
    if (claims.count > 0) {
        (void)snprintf(c->claimed, sizeof c->claimed, "%s", claims.items[0].work_item_id);
        c->claimed_token = claims.items[0].lease_token;
        if (strcmp(claims.items[0].worker, c->worker) != 0)
            c->claimed[0] = '?';
    }
    tide_work_claims_done(&claims);
    return NULL;
}

enum { GROUP = 8 };

/* The items that the callers finish are c0.., those of type "job" and "other" that they claim j0.. and o0... */
static void make_callers(store_test *t, caller *callers, tide_store *store)
{
    make_task(t, "t");
    for (int i = 0; i < GROUP; i++) {
        caller *c = &callers[i];
        *c = (caller){.store = store, .type = i % 2 ? "other" : "job", .output = "1"};
        (void)snprintf(c->worker, sizeof c->worker, "w%d", i);
        (void)snprintf(c->finished, sizeof c->finished, "c%d", i);
        add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = c->finished,
                                    .task_id = "t", .work_type = c->type, .max_retries = -1});
        const held h =
            claim_with(t->store, (tide_work_claim_request){TIDE_WORK_CLAIM_REQUEST_INIT,
                                                           .worker = c->worker, .types = &c->type,
                                                           .type_count = 1, .lease_us = LEASE_US});
        assert_string_equal(c->finished, h.id);
        c->token = h.token;
    }
    for (int i = 0; i < GROUP; i++) {
        const char *type = callers[i].type;
        char id[16];
        (void)snprintf(id, sizeof id, "%c%d", type[0], i);
        add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = id, .task_id = "t",
                                    .work_type = type, .max_retries = -1});
    }
}

static void wait_until_blocked(raw_sql *raw, int count)
{
    while (raw_number(raw, "SELECT count(*) FROM pg_locks WHERE NOT granted") < count)
        (void)sched_yield();
}

/* The first two callers wait, each in a transaction of its own, for rows that `raw` has locked. The others
 * are queued behind them and share the next transaction. */
static void run_callers(caller *callers, raw_sql *raw)
{
    pthread_t threads[GROUP];
    raw_ok(raw, "BEGIN");
    raw_ok(raw, "SELECT 1 FROM work_items WHERE work_item_id IN ('c0', 'c1') FOR UPDATE");
    for (int i = 0; i < GROUP; i++) {
        assert_int_equal(0, pthread_create(&threads[i], NULL, call_next, &callers[i]));
        if (i < 2)
            wait_until_blocked(raw, i + 1);
    }
    while (tide_combiner_queued(callers[0].store->combiners[false], 0) < GROUP - 2)
        (void)sched_yield();
    raw_ok(raw, "ROLLBACK");
    for (int i = 0; i < GROUP; i++)
        (void)pthread_join(threads[i], NULL);
}

/* Each has an item of its own type, which the database gives to it. */
static void assert_claims(const caller *callers, raw_sql *raw)
{
    for (int i = 0; i < GROUP; i++) {
        const caller *c = &callers[i];
        assert_int_equal(c->type[0], c->claimed[0]);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(callers[j].claimed, c->claimed);
        char expected[64];
        (void)snprintf(expected, sizeof expected, "in_progress|%s|%lld", c->worker,
                       (long long)c->claimed_token);
        assert_string_equal(expected,
                            raw_text(raw,
                                     "SELECT status, lease_holder, lease_token FROM work_items "
                                     "WHERE work_item_id = '%s'",
                                     c->claimed));
        assert_string_equal(c->worker, raw_text(raw,
                                                "SELECT worker FROM work_attempts "
                                                "WHERE work_item_id = '%s'",
                                                c->claimed));
    }
}

static void callers_of_one_process_share_a_transaction(void **state)
{
    store_test *t = *state;
    caller callers[GROUP];
    raw_sql raw;
    make_callers(t, callers, t->store);
    raw_open(&raw, t);
    run_callers(callers, &raw);
    for (int i = 0; i < GROUP; i++) {
        assert_ok_err(callers[i].status, &callers[i].err);
        assert_false(callers[i].is_lost);
        assert_item(t, callers[i].finished, "completed");
    }
    assert_claims(callers, &raw);
    assert_int_equal(1,
                     raw_number(&raw, "SELECT count(DISTINCT CAST(xmin AS text)) FROM work_items "
                                      "WHERE work_item_id BETWEEN 'c2' AND 'c7'"));
    raw_close(&raw);
}

static void the_refusal_of_one_caller_refuses_no_other(void **state)
{
    store_test *t = *state;
    caller callers[GROUP];
    raw_sql raw;
    make_callers(t, callers, t->store);
    callers[3].token--;
    raw_open(&raw, t);
    run_callers(callers, &raw);
    for (int i = 0; i < GROUP; i++) {
        assert_int_equal(i == 3 ? TIDE_E_LEASE_LOST : TIDE_OK, callers[i].status);
        assert_int_equal(i == 3, callers[i].is_lost);
    }
    assert_claims(callers, &raw);
    assert_item(t, "c3", "in_progress");
    raw_close(&raw);
}

/* Whose output is stored is decided once. */
static void two_callers_that_finish_one_item_differently_do_not_both_succeed(void **state)
{
    store_test *t = *state;
    caller callers[GROUP];
    raw_sql raw;
    make_callers(t, callers, t->store);
    (void)snprintf(callers[5].finished, sizeof callers[5].finished, "c4");
    callers[5].token = callers[4].token;
    callers[5].output = "2";
    raw_open(&raw, t);
    run_callers(callers, &raw);
    assert_int_equal(TIDE_E_LEASE_LOST + TIDE_OK, callers[4].status + callers[5].status);
    const caller *won = callers[4].is_lost ? &callers[5] : &callers[4];
    assert_string_equal(won->output, look(t, "c4").output);
    for (int i = 0; i < GROUP; i++)
        if (i != 4 && i != 5)
            assert_ok_err(callers[i].status, &callers[i].err);
    assert_claims(callers, &raw);
    raw_close(&raw);
}

/* The database fails a transaction because of one of them: the others run again without it. */
static void a_caller_that_fails_the_transaction_fails_alone(void **state)
{
    store_test *t = *state;
    caller callers[GROUP];
    raw_sql raw;
    make_callers(t, callers, t->store);
    raw_open(&raw, t);
    raw_ok(&raw, "CREATE FUNCTION no_w3() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                 "IF NEW.work_item_id = 'c3' THEN RAISE EXCEPTION 'not c3'; END IF; RETURN NULL; "
                 "END $$");
    raw_ok(&raw, "CREATE TRIGGER no_w3 AFTER UPDATE ON work_items FOR EACH ROW "
                 "EXECUTE FUNCTION no_w3()");
    run_callers(callers, &raw);
    for (int i = 0; i < GROUP; i++) {
        if (i == 3)
            assert_true(callers[i].status < TIDE_OK);
        else
            assert_ok_err(callers[i].status, &callers[i].err);
    }
    assert_string_equal("", callers[3].claimed);
    assert_item(t, "c3", "in_progress");
    assert_int_equal(
        GROUP - 1, raw_number(&raw, "SELECT count(*) FROM work_items WHERE status = 'completed'"));
    assert_int_equal(GROUP - 1, raw_number(&raw, "SELECT count(*) FROM work_items "
                                                 "WHERE status = 'in_progress' "
                                                 "AND work_item_id NOT LIKE 'c%%'"));
    raw_close(&raw);
}

/* ---- many, at once ---- */

enum { WORKERS = 16, ITEMS = 300 };

typedef struct crowd_worker {
    tide_store *store;
    char name[32];
    int finished;
    tide_status status;
    tide_error err;
} crowd_worker;

/* Until there is nothing left; each finish goes with the next claim. */
static void *work_off(void *arg)
{
    crowd_worker *w = arg;
    char id[TIDE_WORK_ID_MAX + 1] = "";
    char output[64];
    int64_t token = 0;
    do {
        const tide_work_claim_request request = one_job(w->name);
        (void)snprintf(output, sizeof output, "\"%s\"", w->name);
        tide_work_result done = {TIDE_WORK_RESULT_INIT, .work_item_id = id, .token = token,
                                 .output = output};
        tide_work_claims claims;
        w->status = tide_work_next(w->store, &done, token > 0, &request, &claims, &w->err);
        w->finished += token > 0 && w->status >= TIDE_OK;
        token = 0;
        if (claims.count > 0) {
            (void)snprintf(id, sizeof id, "%s", claims.items[0].work_item_id);
            token = claims.items[0].lease_token;
        }
        tide_work_claims_done(&claims);
    } while (w->status == TIDE_OK);
    return NULL;
}

static void a_crowd_runs_every_item_once(void **state)
{
    store_test *t = *state;
    static tide_work_spec items[ITEMS];
    static tide_work_added added[ITEMS];
    crowd_worker workers[WORKERS];
    pthread_t threads[WORKERS];
    raw_sql raw;
    make_task(t, "t");
    for (int i = 0; i < ITEMS; i++)
        items[i] = (tide_work_spec){TIDE_WORK_SPEC_INIT, .task_id = "t", .work_type = "job",
                                    .max_retries = -1};
    assert_ok_err(try_add(t, items, ITEMS, added), &t->err);
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = (crowd_worker){.store = t->store};
        (void)snprintf(workers[i].name, sizeof workers[i].name, "w%d", i);
        assert_int_equal(0, pthread_create(&threads[i], NULL, work_off, &workers[i]));
    }
    int finished = 0;
    for (int i = 0; i < WORKERS; i++) {
        (void)pthread_join(threads[i], NULL);
        assert_status(TIDE_NONE, workers[i].status);
        finished += workers[i].finished;
    }
    assert_int_equal(ITEMS, finished);
    raw_open(&raw, t);
    assert_int_equal(
        ITEMS, raw_number(&raw, "SELECT count(*) FROM work_items WHERE status = 'completed'"));
    /* One attempt each, of the worker whose output is stored. */
    assert_int_equal(ITEMS,
                     raw_number(&raw, "SELECT count(*) FROM work_attempts a JOIN work_items w "
                                      "ON w.work_item_id = a.work_item_id "
                                      "WHERE w.output_data = '\"' || a.worker || '\"' "
                                      "AND a.outcome = 'completed'"));
    assert_int_equal(ITEMS, raw_number(&raw, "SELECT count(*) FROM work_attempts"));
    raw_close(&raw);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(next_finishes_and_claims),
        STORE_CASE_POSTGRES(next_is_one_commit),
        STORE_CASE(next_without_results_is_a_claim),
        STORE_CASE(a_refused_finish_refuses_nothing_else),
        STORE_CASE(a_repeated_finish_is_recognised),
        STORE_CASE(what_a_finish_makes_ready_is_claimed_with_it),
        STORE_CASE(what_is_due_is_claimed),
        STORE_CASE(bad_input_is_refused_and_changes_nothing),
        STORE_CASE_POSTGRES(callers_of_one_process_share_a_transaction),
        STORE_CASE_POSTGRES(the_refusal_of_one_caller_refuses_no_other),
        STORE_CASE_POSTGRES(two_callers_that_finish_one_item_differently_do_not_both_succeed),
        STORE_CASE_POSTGRES(a_caller_that_fails_the_transaction_fails_alone),
        STORE_CASE(a_crowd_runs_every_item_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
