/* Claims on PostgreSQL whose snapshot is older than the row that they lock.
 *
 * A claim locks a row in its newest version and updates what its snapshot shows. A row that changed
 * in between is locked, not updated, and must keep its entry in work_ready: without one no claim
 * would find it again. Every statement that claims meets this order:
 *
 *     A: BEGIN, advisory lock, adds a dependent of "a" (which changes the row of "a")
 *     B:                         claims: has its snapshot, waits for the lock in a trigger
 *     A: COMMIT
 *     B:                         locks the row of "a" as A has left it
 *
 * The trigger is one of the statement (BEFORE UPDATE ON work_items). It runs when the statement has
 * its snapshot and has not read a row. */
#include "support/interleave.h"
#include "work/work_fixture.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "store/engine.h"
#include "store/statement.h"
#include "tidemark_sql.h"
#include "work/foreign/raw_sql.h"
#include "work/item.h"

#define HOLD "SELECT pg_advisory_xact_lock(4711)"

/* A has the lock and passes. B passes as often as the sequence is below zero, and waits then. */
static const char hold_updates[] =
    "CREATE SEQUENCE holds MINVALUE -9 START %d;"
    "CREATE FUNCTION hold_updates() RETURNS trigger LANGUAGE plpgsql AS "
    "'BEGIN IF NOT pg_try_advisory_xact_lock(4711) AND nextval(''holds'') >= 0 THEN "
    "PERFORM pg_advisory_xact_lock(4711); END IF; RETURN NULL; END';"
    "CREATE TRIGGER hold_updates BEFORE UPDATE ON work_items "
    "FOR EACH STATEMENT EXECUTE FUNCTION hold_updates()";

static const char *const types[] = {"job", "other"};

static tide_work_claim_request of_type(int limit)
{
    return (tide_work_claim_request){TIDE_WORK_CLAIM_REQUEST_INIT,
                                     .worker = "w",
                                     .types = types,
                                     .type_count = 1,
                                     .limit = limit,
                                     .lease_us = LEASE_US};
}

/* ---- A ---- */

typedef struct adder {
    tide_store *store;
    interleave *x;
    int index;
    tide_status status;
    tide_error err;
} adder;

static tide_status add_dependent(tide_tx *tx, void *arg, tide_error *err)
{
    static const char *const on_a[] = {"a"};
    static const tide_work_spec dependent = {
        TIDE_WORK_SPEC_INIT, .work_item_id = "d", .task_id = "t",       .work_type = "job",
        .max_retries = -1,   .depends_on = on_a,  .depends_on_count = 1};
    const adder *a = arg;
    tide_work_added added;
    TIDE_TRY(tx->store->ops->script(tx, HOLD, err));
    TIDE_TRY(tide_work_add_in(tx, &dependent, 1, &added, err));
    interleave_step(a->x, a->index, 1);
    return TIDE_OK;
}

static void run_adder(interleave *x, int index, void *arg)
{
    adder *a = arg;
    a->x = x;
    a->index = index;
    a->status = tide_store_write(a->store, add_dependent, a, &a->err);
}

/* ---- B ---- */

typedef struct claimer {
    tide_store *store;
    tide_work_claim_request request;
    bool is_shared; /* the statement of several claimers of one process */
    int passed;     /* updates before the one that waits */
    held got;
} claimer;

static void ignore_row(tide_query *query, void *arg)
{
    (void)query;
    (void)arg;
}

/* As turn.c sends it for two claimers that wait together. */
static tide_status claim_shared(tide_tx *tx, void *arg, tide_error *err)
{
    (void)arg;
    tide_item_clock clock = {0};
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_start(
        &query, tx, TIDE_SQL_WORK_CLAIM_SHARED, err, tide_bind_text("type", "job"),
        tide_bind_i64("limit", 2), tide_bind_i64("floor", 1), tide_bind_text("places", "{1,2}"),
        tide_bind_text("workers", "{v,w}"), tide_bind_text("leases", "{30000000,30000000}")));
    TIDE_TRY(tide_item_bind_clock(query, tx, &clock, err));
    return tide_query_defer_rows(&query, ignore_row, NULL, err);
}

static void run_claimer(interleave *x, int index, void *arg)
{
    (void)x;
    (void)index;
    claimer *c = arg;
    tide_error err;
    if (c->is_shared)
        assert_ok_err(tide_store_write(c->store, claim_shared, NULL, &err), &err);
    else
        c->got = claim_with(c->store, c->request);
}

/* ---- the cases ---- */

static int64_t count_lost(store_test *t)
{
    raw_sql raw;
    raw_open(&raw, t);
    const int64_t lost = raw_number(
        &raw, "SELECT count(*) FROM work_items w WHERE status = 'pending' AND run_after IS NULL "
              "AND waits_for = 0 AND NOT EXISTS (SELECT 1 FROM work_ready r "
              "WHERE r.item_no = w.item_no)");
    raw_close(&raw);
    return lost;
}

static void change_under_a_claim(store_test *t, claimer *c)
{
    interleave x;
    adder a = {.store = store_test_open(t)};
    make_task(t, "t");
    add_item(t, "a");
    if (c->request.limit > 1)
        add_item(t, "b");
    char script[sizeof hold_updates + 16];
    (void)snprintf(script, sizeof script, hold_updates, -c->passed);
    run_sql(t, script);
    c->store = store_test_open(t);
    interleave_init(&x, t);
    (void)interleave_add(&x, run_adder, &a);
    (void)interleave_add(&x, run_claimer, c);
    interleave_until(&x, 0, 1);
    interleave_blocked(&x, 1);
    interleave_finish(&x, 0);
    interleave_finish(&x, 1);
    interleave_done(&x);
    assert_ok_err(a.status, &a.err);
    assert_true(look(t, "a").has_dependents);
    assert_int_equal(0, count_lost(t));
    if (strcmp(c->got.id, "a") != 0) {
        c->request.limit = 1;
        c->got = claim_with(t->store, c->request);
    }
    assert_string_equal("a", c->got.id);
    assert_ok_err(finish(t, &c->got, NULL), &t->err);
    assert_string_equal("d", claim(t, "w").id);
}

static void a_claim_of_one_loses_no_changed_row(void **state)
{
    change_under_a_claim(*state, &(claimer){.request = of_type(1)});
}

static void a_claim_of_many_loses_no_changed_row(void **state)
{
    change_under_a_claim(*state, &(claimer){.request = of_type(100)});
}

static void a_claim_of_several_types_loses_no_changed_row(void **state)
{
    claimer c = {.request = of_type(1)};
    c.request.type_count = 2;
    change_under_a_claim(*state, &c);
}

static void a_claim_of_any_type_loses_no_changed_row(void **state)
{
    claimer c = {.request = of_type(1)};
    c.request.type_count = 0;
    change_under_a_claim(*state, &c);
}

static void a_claim_of_a_task_loses_no_changed_row(void **state)
{
    claimer c = {.request = of_type(1)};
    c.request.task_id = "t";
    change_under_a_claim(*state, &c);
}

static void a_claim_below_a_limit_loses_no_changed_row(void **state)
{
    store_test *t = *state;
    const tide_work_limit limit = {TIDE_WORK_LIMIT_INIT, .work_type = "job", .running = 5,
                                   .running_per_key = -1};
    assert_ok_err(tide_work_limit_set(t->store, &limit, &t->err), &t->err);
    /* Two statements look for items without a limit first. A claim that gets nothing is rolled
     * back, so it claims another item, too. */
    change_under_a_claim(t, &(claimer){.request = of_type(2), .passed = 2});
}

static void claims_that_share_a_statement_lose_no_changed_row(void **state)
{
    change_under_a_claim(*state, &(claimer){.request = of_type(1), .is_shared = true});
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE_POSTGRES(a_claim_of_one_loses_no_changed_row),
        STORE_CASE_POSTGRES(a_claim_of_many_loses_no_changed_row),
        STORE_CASE_POSTGRES(a_claim_of_several_types_loses_no_changed_row),
        STORE_CASE_POSTGRES(a_claim_of_any_type_loses_no_changed_row),
        STORE_CASE_POSTGRES(a_claim_of_a_task_loses_no_changed_row),
        STORE_CASE_POSTGRES(a_claim_below_a_limit_loses_no_changed_row),
        STORE_CASE_POSTGRES(claims_that_share_a_statement_lose_no_changed_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
