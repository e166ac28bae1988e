/* What only PostgreSQL has: clients that write at the same time, TRUNCATE, schemas, updates that stay on their page, and
 * the bound below which no ready item lies. Met with plain SQL, as from psql. */
#include "work/foreign/raw_sql.h"

#include <stdio.h>
#include <string.h>

enum { WAITS_MAX = 20000 };

typedef struct pg_case {
    store_test *t;
    raw_sql a;
    raw_sql b;
} pg_case;

static void begin(pg_case *c, void **state)
{
    *c = (pg_case){.t = *state};
    raw_open(&c->a, c->t);
    raw_open(&c->b, c->t);
    raw_ok(&c->a, "INSERT INTO tasks (task_id, status) VALUES ('t', 'running')");
}

static void end(pg_case *c)
{
    raw_close(&c->a);
    raw_close(&c->b);
}

static void add_plainly(raw_sql *raw, const char *id)
{
    raw_ok(raw,
           "INSERT INTO work_items (work_item_id, task_id, work_type) VALUES ('%s', 't', 'job')",
           id);
}

/* Send a statement that will have to wait, and return when it does. */
static void send_and_wait_for_its_wait(raw_sql *waiter, raw_sql *other, const char *statement)
{
    const int pid = PQbackendPID(waiter->pg);
    assert_int_equal(1, PQsendQuery(waiter->pg, statement));
    for (int i = 0; i < WAITS_MAX; i++)
        if (raw_number(other, "SELECT count(*) FROM pg_locks WHERE pid = %d AND NOT granted", pid) >
            0)
            return;
    fail_msg("it does not wait: %s", statement);
}

/* Was it accepted? error and text of the answer are kept. */
static bool receive(raw_sql *waiter)
{
    bool is_done = true;
    waiter->error[0] = waiter->text[0] = '\0';
    for (PGresult *result; (result = PQgetResult(waiter->pg)); PQclear(result)) {
        if (PQresultStatus(result) == PGRES_FATAL_ERROR) {
            is_done = false;
            (void)snprintf(waiter->error, sizeof waiter->error, "%s", PQresultErrorMessage(result));
        } else if (PQntuples(result) > 0) {
            (void)snprintf(waiter->text, sizeof waiter->text, "%s", PQgetvalue(result, 0, 0));
        }
    }
    return is_done;
}

#define CLAIM(holder, more)                                                                        \
    "UPDATE work_items SET status = 'in_progress', lease_holder = '" holder                        \
    "', lease_acquired_at = CURRENT_TIMESTAMP, heartbeat_at = CURRENT_TIMESTAMP, "                 \
    "lease_expires_at = CURRENT_TIMESTAMP + interval '5 minutes', "                                \
    "started_at = coalesce(started_at, CURRENT_TIMESTAMP) WHERE work_item_id = ("                  \
    "SELECT work_item_id FROM work_items WHERE status = 'pending' "                                \
    "ORDER BY priority DESC, created_at ASC LIMIT 1" more ") RETURNING work_item_id"

/* The recovery document's claim, adapted, by two clients at once. As it is written, the second gets nothing; with SKIP
 * LOCKED it gets the next. */
static void two_plain_claimers_never_hold_the_same_item(void **state)
{
    pg_case c;
    begin(&c, state);
    add_plainly(&c.a, "w1");
    raw_ok(&c.a, "BEGIN");
    assert_string_equal("w1", raw_text(&c.a, CLAIM("a", "")));
    raw_sql watcher;
    raw_open(&watcher, c.t);
    send_and_wait_for_its_wait(&c.b, &watcher, CLAIM("b", ""));
    raw_ok(&c.a, "COMMIT");
    assert_true(receive(&c.b));
    assert_string_equal("", c.b.text);
    add_plainly(&c.a, "w2");
    add_plainly(&c.a, "w3");
    raw_ok(&c.a, "BEGIN");
    assert_string_equal("w2", raw_text(&c.a, CLAIM("a", " FOR UPDATE SKIP LOCKED")));
    assert_string_equal("w3", raw_text(&c.b, CLAIM("b", " FOR UPDATE SKIP LOCKED")));
    raw_ok(&c.a, "COMMIT");
    assert_string_equal("w1|a|sql w2|a|sql w3|b|sql",
                        raw_text(&c.a, "SELECT work_item_id, worker, via FROM work_attempts "
                                       "WHERE ended_at IS NULL ORDER BY 1"));
    raw_ok(&c.a, "UPDATE work_items SET status = 'completed', output_data = '{}', "
                 "completed_at = CURRENT_TIMESTAMP, lease_holder = NULL, lease_expires_at = NULL "
                 "WHERE work_item_id = 'w1'");
    raw_close(&watcher);
    end(&c);
}

/* The document's claim waits for `first`, which another client runs in its transaction, and then finds nothing. */
static void assert_claim_behind(pg_case *c, const char *holder, const char *first)
{
    raw_sql watcher;
    raw_open(&watcher, c->t);
    raw_ok(&c->a, "BEGIN");
    raw_ok(&c->a, "%s", first);
    send_and_wait_for_its_wait(&c->b, &watcher,
                               strcmp(holder, "a") == 0 ? CLAIM("a", "") : CLAIM("b", ""));
    raw_ok(&c->a, "COMMIT");
    if (!receive(&c->b))
        fail_msg("%s", c->b.error);
    assert_string_equal("", c->b.text);
    raw_close(&watcher);
}

/* Under one name, too: both would work on it. */
static void two_plain_claimers_of_one_name_never_hold_the_same_item(void **state)
{
    pg_case c;
    begin(&c, state);
    add_plainly(&c.a, "w1");
    assert_claim_behind(&c, "a", CLAIM("a", ""));
    assert_int_equal(1, raw_number(&c.a, "SELECT count(*) FROM work_attempts"));
    end(&c);
}

/* The item has ended, or the library has claimed it, while the claim waited. */
static void a_plain_claim_that_comes_too_late_finds_nothing(void **state)
{
    pg_case c;
    begin(&c, state);
    add_plainly(&c.a, "w1");
    assert_claim_behind(&c, "b",
                        "UPDATE work_items SET status = 'failed' WHERE work_item_id = 'w1'");
    assert_string_equal("failed", raw_text(&c.a, "SELECT status FROM work_items"));
    add_plainly(&c.a, "w2");
    assert_claim_behind(&c, "b",
                        "UPDATE work_items SET status = 'in_progress', lease_holder = 'api', "
                        "lease_acquired_at = clock_timestamp(), heartbeat_at = clock_timestamp(), "
                        "lease_expires_at = clock_timestamp() + interval '5 minutes', "
                        "lease_token = 1099511627777, lease_via = 'api', revision = revision + 1 "
                        "WHERE work_item_id = 'w2'");
    assert_string_equal("api|api", raw_text(&c.a, "SELECT lease_holder, lease_via FROM work_items "
                                                  "WHERE work_item_id = 'w2'"));
    end(&c);
}

/* What a claim by id could see before it began is refused with words, as ever. */
static void a_plain_claim_of_a_held_item_is_refused(void **state)
{
    pg_case c;
    begin(&c, state);
    add_plainly(&c.a, "w1");
    assert_string_equal("w1", raw_text(&c.a, CLAIM("a", "")));
    raw_refuse(&c.b, "another worker holds the lease",
               "UPDATE work_items SET status = 'in_progress', lease_holder = 'b', "
               "lease_acquired_at = CURRENT_TIMESTAMP WHERE work_item_id = 'w1'");
    end(&c);
}

/* Two writers on one task; without a number the row gets the next. */
static void two_plain_writers_get_distinct_rising_numbers(void **state)
{
    pg_case c;
    begin(&c, state);
    static const char add[] = "INSERT INTO checkpoints (checkpoint_id, task_id, checkpoint_type, "
                              "snapshot_data) VALUES ('%s', 't', 'iteration_end', '{}') "
                              "RETURNING sequence_number || '/' || global_sequence";
    char statement[512];
    raw_sql watcher;
    raw_open(&watcher, c.t);
    raw_ok(&c.a, "BEGIN");
    assert_string_equal("1/1", raw_text(&c.a, add, "first"));
    (void)snprintf(statement, sizeof statement, add, "second");
    send_and_wait_for_its_wait(&c.b, &watcher, statement);
    raw_ok(&c.a, "COMMIT");
    assert_true(receive(&c.b));
    assert_string_equal("2/2", c.b.text);
    raw_ok(&c.a, "BEGIN");
    assert_string_equal("3/3", raw_text(&c.a, add, "third"));
    (void)snprintf(statement, sizeof statement, add, "fourth");
    send_and_wait_for_its_wait(&c.b, &watcher, statement);
    raw_ok(&c.a, "ROLLBACK"); /* gives its numbers back */
    assert_true(receive(&c.b));
    assert_string_equal("3/3", c.b.text);
    raw_refuse(&c.a, "exists already",
               "INSERT INTO checkpoints (checkpoint_id, task_id, checkpoint_type, snapshot_data) "
               "VALUES ('first', 't', 'iteration_end', '{}') ON CONFLICT DO NOTHING");
    assert_int_equal(
        3, raw_number(&c.a, "SELECT last FROM journal_head")); /* no number without a row */
    raw_close(&watcher);
    end(&c);
}

/* A task that is being deleted takes along what is appended to it meanwhile, or refuses it. */
static void a_checkpoint_beside_the_end_of_its_task_is_refused(void **state)
{
    pg_case c;
    begin(&c, state);
    raw_sql watcher;
    raw_open(&watcher, c.t);
    raw_ok(&c.a, "BEGIN");
    raw_ok(&c.a, "DELETE FROM tasks WHERE task_id = 't'");
    send_and_wait_for_its_wait(&c.b, &watcher,
                               "INSERT INTO checkpoints (checkpoint_id, task_id, checkpoint_type, "
                               "snapshot_data) VALUES ('c', 't', 'iteration_end', '{}')");
    raw_ok(&c.a, "COMMIT");
    assert_false(receive(&c.b));
    assert_contains(c.b.error, "no such task");
    raw_close(&watcher);
    end(&c);
}

static void truncating_does_not_slip_past(void **state)
{
    pg_case c;
    begin(&c, state);
    static const char *const tables[] = {"tasks",
                                         "work_items",
                                         "checkpoints",
                                         "task_heads",
                                         "journal_head",
                                         "work_attempts_ended",
                                         "checkpoint_gaps",
                                         "checkpoint_cuts",
                                         "checkpoint_types",
                                         "idempotency_keys",
                                         "work_ready",
                                         "work_due",
                                         "work_unique_keys",
                                         "work_lease_ends"};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        raw_refuse(&c.a, "", "TRUNCATE %s CASCADE", tables[i]);
    end(&c);
}

/* Updates of work_items that this session has not reported yet: all, and those that stayed on their page. */
static int64_t updates(raw_sql *raw, bool is_hot)
{
    return raw_number(raw, "SELECT %s FROM pg_stat_xact_user_tables WHERE relname = 'work_items'",
                      is_hot ? "n_tup_hot_upd" : "n_tup_upd");
}

/* No index holds what a renewal changes, and no trigger writes anything beside it. */
static void a_renewal_by_the_library_stays_on_its_page(void **state)
{
    pg_case c;
    begin(&c, state);
    add_plainly(&c.a, "w");
    raw_ok(&c.a,
           "UPDATE work_items SET status = 'in_progress', lease_via = 'api', lease_holder = 'x', "
           "lease_acquired_at = now(), lease_expires_at = now() + interval '1 hour', "
           "heartbeat_at = now(), lease_token = lease_token + 1, revision = revision + 1");
    raw_ok(&c.a, "BEGIN");
    const int64_t all = updates(&c.a, false);
    const int64_t hot = updates(&c.a, true);
    raw_ok(&c.a, "UPDATE work_items SET lease_expires_at = now() + interval '2 hours', "
                 "heartbeat_at = now(), updated_at = now(), revision = revision + 1");
    assert_int_equal(all + 1, updates(&c.a, false));
    assert_int_equal(hot + 1, updates(&c.a, true));
    raw_ok(&c.a, "COMMIT");
    end(&c);
}

static void raise_bound(raw_sql *raw, int64_t key)
{
    raw_ok(raw, "UPDATE work_types SET low_key = %lld WHERE work_type = 'job'", (long long)key);
}

static bool is_bound_kept(raw_sql *raw)
{
    return raw_number(raw, "SELECT count(*) FROM work_items w JOIN work_types y USING (work_type) "
                           "WHERE w.status = 'pending' AND w.run_after IS NULL AND w.waits_for = 0 "
                           "AND w.claim_key < y.low_key") == 0;
}

/* However an item becomes ready, it does not lie below its type's bound: a claim would not see it. */
static void no_ready_item_lies_below_the_bound(void **state)
{
    pg_case c;
    begin(&c, state);
    static const char *const ways[] = {
        "INSERT INTO work_items (work_item_id, task_id, work_type, priority) VALUES ('a', 't', "
        "'job', 9)",
        ("INSERT INTO work_items (work_item_id, task_id, work_type, created_at, revision) "
         "VALUES ('b', 't', 'job', now() - interval '1 day', 1)"),
        "UPDATE work_items SET run_after = NULL, revision = revision + 1 WHERE work_item_id = "
        "'late'",
        "UPDATE work_items SET waits_for = 0, revision = revision + 1 WHERE work_item_id = "
        "'waiting'",
        ("UPDATE work_items SET status = 'pending', attempt_outcome = 'released', lease_holder = "
         "NULL, "
         "revision = revision + 1 WHERE work_item_id = 'running'"),
        "UPDATE work_items SET priority = 100 WHERE work_item_id = 'low'",
        "UPDATE work_items SET priority = 200, revision = revision + 1 WHERE work_item_id = 'low'",
        "UPDATE work_items SET created_at = now() - interval '900 days' WHERE work_item_id = 'low'",
        "UPDATE work_items SET work_type = 'job' WHERE work_item_id = 'elsewhere'",
    };
    raw_ok(
        &c.a,
        "INSERT INTO work_items (work_item_id, task_id, work_type, run_after, waits_for, status, "
        "created_at, revision) VALUES "
        "('late', 't', 'job', now(), 0, 'pending', now() - interval '2 days', 1), "
        "('waiting', 't', 'job', NULL, 1, 'pending', now() - interval '3 days', 1), "
        "('running', 't', 'job', NULL, 0, 'in_progress', now() - interval '4 days', 1), "
        "('low', 't', 'job', NULL, 0, 'pending', now() + interval '9 days', 1)");
    raw_ok(&c.a, "INSERT INTO work_items (work_item_id, task_id, work_type, created_at) "
                 "VALUES ('elsewhere', 't', 'other', now() - interval '1000 days')");
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        const int64_t lowest = raw_number(
            &c.a,
            "SELECT min(claim_key) FROM work_items WHERE status = 'pending' AND work_type = 'job' "
            "AND run_after IS NULL AND waits_for = 0");
        raise_bound(&c.a, lowest);
        raw_ok(&c.a, "%s", ways[i]);
        if (!is_bound_kept(&c.a))
            fail_msg("below the bound after: %s", ways[i]);
    }
    end(&c);
}

/* Who has made an item ready and not committed yet keeps the bound from being raised. */
static void the_bound_is_not_raised_over_an_item_under_way(void **state)
{
    pg_case c;
    begin(&c, state);
    add_plainly(&c.a, "w1");
    static const char lock[] = "SELECT count(*) FROM (SELECT 1 FROM work_types WHERE work_type = "
                               "'job' FOR UPDATE SKIP LOCKED) y";
    assert_int_equal(1, raw_number(&c.b, lock));
    raw_ok(&c.a, "BEGIN");
    add_plainly(&c.a, "w2");
    assert_int_equal(0, raw_number(&c.b, lock));
    raw_ok(&c.b, "BEGIN"); /* and makers do not wait for each other, also when both lower it */
    add_plainly(&c.b, "w3");
    raw_ok(&c.b, "COMMIT");
    raw_ok(&c.a, "COMMIT");
    assert_int_equal(1, raw_number(&c.b, lock));
    end(&c);
}

/* A client whose search_path leads elsewhere writes to the same store by qualified names. */
static void the_clients_search_path_does_not_matter(void **state)
{
    pg_case c;
    begin(&c, state);
    raw_ok(&c.b, "SET search_path = pg_catalog");
    raw_ok(&c.b, "INSERT INTO public.tasks (task_id) VALUES ('u')");
    raw_ok(&c.b, "INSERT INTO public.work_items (work_item_id, task_id, work_type) "
                 "VALUES ('w', 'u', 'job')");
    raw_ok(&c.b, "UPDATE public.work_items SET status = 'in_progress', lease_holder = 'me'");
    raw_ok(&c.b,
           "INSERT INTO public.checkpoints (checkpoint_id, task_id, work_item_id, checkpoint_type, "
           "snapshot_data) VALUES ('c', 'u', 'w', 'tool_executed', '{}')");
    raw_ok(&c.b, "UPDATE public.work_items SET status = 'completed'");
    raw_ok(&c.b, "INSERT INTO public.idempotency_keys (idempotency_key, request_hash, task_id) "
                 "VALUES ('k', 'h', 'u')");
    raw_ok(&c.b, "UPDATE public.idempotency_keys SET status = 'completed', response_data = '1'");
    raw_ok(&c.b, "UPDATE public.tasks SET status = 'cancelled' WHERE task_id = 'u'");
    raw_ok(&c.b, "DELETE FROM public.tasks WHERE task_id = 'u'");
    raw_ok(&c.b, "DELETE FROM public.idempotency_keys");
    end(&c);
}

/* Times without an end would be leases without one. */
static void infinite_times_are_refused(void **state)
{
    pg_case c;
    begin(&c, state);
    add_plainly(&c.a, "w");
    static const char *const columns[] = {"created_at", "run_after", "lease_expires_at",
                                          "deadline_at"};
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++)
        assert_false(raw_try(&c.a, "UPDATE work_items SET %s = 'infinity', revision = revision + 1",
                             columns[i]));
    end(&c);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE_POSTGRES(two_plain_claimers_never_hold_the_same_item),
        STORE_CASE_POSTGRES(two_plain_claimers_of_one_name_never_hold_the_same_item),
        STORE_CASE_POSTGRES(a_plain_claim_that_comes_too_late_finds_nothing),
        STORE_CASE_POSTGRES(a_plain_claim_of_a_held_item_is_refused),
        STORE_CASE_POSTGRES(two_plain_writers_get_distinct_rising_numbers),
        STORE_CASE_POSTGRES(a_checkpoint_beside_the_end_of_its_task_is_refused),
        STORE_CASE_POSTGRES(truncating_does_not_slip_past),
        STORE_CASE_POSTGRES(a_renewal_by_the_library_stays_on_its_page),
        STORE_CASE_POSTGRES(no_ready_item_lies_below_the_bound),
        STORE_CASE_POSTGRES(the_bound_is_not_raised_over_an_item_under_way),
        STORE_CASE_POSTGRES(the_clients_search_path_does_not_matter),
        STORE_CASE_POSTGRES(infinite_times_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
