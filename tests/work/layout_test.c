/* The layout on PostgreSQL (docs/internals/work-layout.md): entries follow their rows, whoever changes those; the row
 * decides; nothing that a claim or a finish changes is in an index; a store of the layout before is migrated. */
#include "work/work_fixture.h"

#include <stdio.h>
#include <string.h>

#include "store/engine.h"
#include "tidemark_sql.h"
#include "work/foreign/raw_sql.h"

enum { LAYOUT_MIGRATION = 16 };

/* Missing entries, and those that match no row, of every kind: "" when there are none. */
static const char *differences(raw_sql *raw)
{
    return raw_text(
        raw,
        "SELECT * FROM (SELECT 'ready' AS kind, item_no FROM (SELECT work_type, claim_key, "
        "item_no, "
        "task_id FROM work_items WHERE status = 'pending' AND run_after IS NULL AND waits_for = 0) "
        "w "
        "FULL JOIN work_ready r USING (work_type, claim_key, item_no, task_id) "
        "WHERE (w IS NULL) <> (r IS NULL) "
        "UNION ALL SELECT 'due', item_no FROM (SELECT CASE status WHEN 'pending' THEN 'delayed' "
        "ELSE "
        "status END AS kind, CASE status WHEN 'pending' THEN run_after ELSE 'epoch'::timestamptz "
        "END "
        "AS at, item_no FROM work_items WHERE (status = 'pending' AND run_after IS NOT NULL) OR "
        "status = 'expired' OR (status = 'failed' AND has_dependents)) w "
        "FULL JOIN work_due d USING (kind, at, item_no) WHERE (w IS NULL) <> (d IS NULL) "
        "UNION ALL SELECT 'key', item_no FROM (SELECT work_type, unique_key, item_no FROM "
        "work_items "
        "WHERE unique_key IS NOT NULL AND status IN ('pending', 'in_progress', 'expired')) w "
        "FULL JOIN work_unique_keys u USING (work_type, unique_key, item_no) "
        "WHERE (w IS NULL) <> (u IS NULL) "
        "UNION ALL SELECT 'keyed', item_no FROM (SELECT work_type, limit_key, claim_key, item_no "
        "FROM "
        "work_items WHERE limit_key IS NOT NULL AND status IN ('pending', 'in_progress', "
        "'expired')) w "
        "FULL JOIN work_keyed e USING (work_type, limit_key, claim_key, item_no) "
        "WHERE (w IS NULL) <> (e IS NULL) "
        "UNION ALL SELECT 'lease', item_no FROM work_items w WHERE status = 'in_progress' AND NOT "
        "EXISTS (SELECT 1 FROM work_lease_ends l WHERE w.item_no = ANY(l.items) AND "
        "l.check_at <= w.lease_expires_at)) x ORDER BY 1, 2");
}

static void assert_same(raw_sql *raw, const char *behind)
{
    const char *found = differences(raw);
    if (found[0])
        fail_msg("entries differ behind %s: %s", behind, found);
}

static void entries_follow_plain_sql(void **state)
{
    store_test *t = *state;
    raw_sql raw;
    raw_open(&raw, t);
    static const char *const changes[] = {
        "INSERT INTO work_items (work_item_id, task_id, work_type) VALUES ('a', 't', 'job'), "
        "('b', 't', 'job')",
        "INSERT INTO work_items (work_item_id, task_id, work_type, run_after, unique_key) VALUES "
        "('late', 't', 'job', now() + interval '1 hour', 'k')",
        "INSERT INTO work_items (work_item_id, task_id, work_type, status) VALUES "
        "('ended', 't', 'job', 'failed'), ('left', 't', 'job', 'expired')",
        "INSERT INTO work_items (work_item_id, task_id, work_type, status, lease_holder) VALUES "
        "('held', 't', 'job', 'in_progress', 'me')",
        "INSERT INTO work_items (work_item_id, task_id, work_type, limit_key) VALUES "
        "('limited', 't', 'job', 'k')",
        "UPDATE work_items SET limit_key = 'l', priority = 3 WHERE work_item_id IN ('limited', "
        "'a')",
        "UPDATE work_items SET work_type = 'other' WHERE work_item_id = 'limited'",
        "UPDATE work_items SET status = 'failed' WHERE work_item_id = 'limited'",
        "UPDATE work_items SET limit_key = NULL WHERE work_item_id = 'limited'",
        "DELETE FROM work_items WHERE work_item_id = 'limited'",
        "UPDATE work_items SET priority = 7 WHERE work_item_id = 'a'",
        "UPDATE work_items SET created_at = created_at - interval '1 day' WHERE work_item_id = 'a'",
        "UPDATE work_items SET work_type = 'other' WHERE work_item_id = 'b'",
        "UPDATE work_items SET run_after = run_after + interval '1 day' WHERE work_item_id = "
        "'late'",
        "UPDATE work_items SET unique_key = 'l' WHERE work_item_id IN ('late', 'ended')",
        "UPDATE work_items SET work_type = 'other' WHERE work_item_id = 'late'",
        "UPDATE work_items SET run_after = NULL WHERE work_item_id = 'late'",
        "UPDATE work_items SET run_after = now() WHERE work_item_id = 'b'",
        "UPDATE work_items SET status = 'in_progress', lease_holder = 'w' WHERE work_type = "
        "'other'",
        "UPDATE work_items SET lease_expires_at = now() + interval '1 second' WHERE work_item_id = "
        "'held'",
        "UPDATE work_items SET status = 'completed' WHERE work_item_id = 'late'",
        "UPDATE work_items SET status = 'pending' WHERE work_item_id = 'b'",
        "UPDATE work_items SET status = 'expired' WHERE work_item_id = 'held'",
        "UPDATE work_items SET status = 'pending' WHERE status = 'expired'",
        "UPDATE work_items SET status = 'failed' WHERE work_item_id = 'a'",
        "DELETE FROM work_items WHERE work_item_id IN ('b', 'late')",
        "INSERT INTO work_items (work_item_id, task_id, work_type) VALUES ('c', 't', 'job') "
        "ON CONFLICT (work_item_id) DO NOTHING",
        "INSERT INTO work_items (work_item_id, task_id, work_type) VALUES ('c', 't', 'job') "
        "ON CONFLICT (work_item_id) DO NOTHING",
        "UPDATE tasks SET status = 'cancelled' WHERE task_id = 't'",
        "DELETE FROM tasks",
    };
    raw_ok(&raw, "INSERT INTO tasks (task_id, status) VALUES ('t', 'running')");
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        raw_ok(&raw, "%s", changes[i]);
        assert_same(&raw, changes[i]);
    }
    raw_close(&raw);
}

static void entries_follow_the_library(void **state)
{
    store_test *t = *state;
    raw_sql raw;
    raw_open(&raw, t);
    make_task(t, "t");
    add_item(t, "a");
    static const char *const on[] = {"a"};
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "b", .depends_on = on,
                                .depends_on_count = 1});
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "key", .unique_key = "k"});
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "late",
                                .delay_us = 5 * MINUTE_US});
    assert_same(&raw, "adding");
    const held a = claim(t, "w");
    const held key = claim(t, "w");
    assert_string_equal("a", a.id);
    assert_same(&raw, "claiming");
    assert_ok(finish(t, &a, NULL));
    assert_ok(finish(t, &key, NULL));
    assert_same(&raw, "finishing");
    const held b = claim(t, "w");
    assert_string_equal("b", b.id);
    assert_ok(fail_it(t, &b, "no", false));
    assert_same(&raw, "failing");
    virtual_env_advance(&t->clock, 10 * MINUTE_US);
    const held again = claim(t, "w");
    assert_true(again.token > 0);
    assert_same(&raw, "promoting");
    virtual_env_advance(&t->clock, 10 * MINUTE_US);
    assert_int_equal(1, sweep(t).requeued);
    assert_same(&raw, "sweeping");
    assert_ok_err(tide_work_cancel(t->store, "late", "enough", &t->err), &t->err);
    assert_same(&raw, "cancelling");
    assert_ok_err(tide_task_cancel(t->store, "t", &t->err), &t->err);
    assert_same(&raw, "the end of the task");
    raw_close(&raw);
}

/* Entries of a row that was completed, of one that runs, and of none: passed by, and gone after a sweep. */
static void an_entry_that_does_not_match_its_row_is_skipped_and_deleted(void **state)
{
    store_test *t = *state;
    raw_sql raw;
    raw_open(&raw, t);
    make_task(t, "t");
    add_item(t, "done");
    add_item(t, "held");
    add_item(t, "next");
    const held done = claim(t, "w");
    assert_ok(finish(t, &done, NULL));
    const held other = claim(t, "w");
    assert_string_equal("held", other.id);
    raw_ok(&raw, "INSERT INTO work_ready SELECT work_type, claim_key - 1000, item_no, task_id FROM "
                 "work_items WHERE work_item_id IN ('done', 'held') UNION ALL "
                 "SELECT 'job', min(claim_key) - 1000, 999999, 't' FROM work_items");
    raw_ok(&raw, "UPDATE work_types SET low_key = -9223372036854775807");
    raw_ok(&raw, "INSERT INTO work_due SELECT 'delayed', 'epoch', item_no FROM work_items");
    const held next = claim(t, "w");
    assert_string_equal("next", next.id);
    assert_int_equal(0, claim(t, "w").token);
    (void)sweep(t);
    assert_same(&raw, "a sweep");
    raw_close(&raw);
}

/* Plain SQL has the row in hand, and its trigger changes the entry: a claim passes both by and waits for neither. */
static void a_claim_passes_by_an_item_that_plain_sql_has_in_hand(void **state)
{
    store_test *t = *state;
    raw_sql raw;
    raw_open(&raw, t);
    make_task(t, "t");
    add_item(t, "first");
    add_item(t, "second");
    raw_ok(&raw, "BEGIN");
    raw_ok(&raw, "SELECT 1 FROM work_items WHERE work_item_id = 'first' FOR UPDATE SKIP LOCKED");
    const held second = claim(t, "w");
    assert_string_equal("second", second.id);
    raw_ok(&raw, "UPDATE work_items SET status = 'in_progress', lease_holder = 'plain' "
                 "WHERE work_item_id = 'first'");
    assert_int_equal(0, claim(t, "w").token);
    raw_ok(&raw, "COMMIT");
    assert_int_equal(0, claim(t, "w").token);
    assert_same(&raw, "both claims");
    raw_close(&raw);
}

static void count_finding(void *arg, const char *text)
{
    int *count = arg;
    assert_contains(text, "has no entry in work_");
    (*count)++;
}

/* What no claim would find, verify finds; a change of the row brings it back. */
static void verify_finds_a_row_whose_entry_is_missing(void **state)
{
    store_test *t = *state;
    raw_sql raw;
    int count = 0;
    raw_open(&raw, t);
    make_task(t, "t");
    add_item(t, "a");
    add_item(t, "b");
    assert_ok_err(tide_store_verify(t->store, count_finding, &count, &t->err), &t->err);
    raw_ok(&raw, "DELETE FROM work_ready WHERE item_no = (SELECT item_no FROM work_items WHERE "
                 "work_item_id = 'a')");
    const held b = claim(t, "w");
    assert_string_equal("b", b.id);
    raw_ok(&raw, "DELETE FROM work_lease_ends");
    assert_status(TIDE_E_DAMAGED, tide_store_verify(t->store, count_finding, &count, &t->err));
    assert_int_equal(2, count);
    raw_ok(&raw, "UPDATE work_items SET run_after = clock_timestamp() WHERE work_item_id = 'a'");
    raw_ok(&raw, "INSERT INTO work_lease_ends SELECT lease_expires_at, ARRAY[item_no] FROM "
                 "work_items WHERE work_item_id = 'b'");
    assert_ok_err(tide_store_verify(t->store, count_finding, &count, &t->err), &t->err);
    raw_close(&raw);
}

/* A lease that is renewed for less than it had ends when it says, and not when its first entry does. */
static void a_lease_that_was_cut_is_taken_over_in_time(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_item(t, "a");
    const held h =
        claim_with(t->store, (tide_work_claim_request){TIDE_WORK_CLAIM_REQUEST_INIT, .worker = "w",
                                                       .lease_us = 60 * MINUTE_US});
    tide_work_ref ref = {TIDE_WORK_REF_INIT, .work_item_id = h.id, .token = h.token};
    assert_ok_err(tide_work_renew(t->store, &ref, 1, SECOND_US, &t->err), &t->err);
    int64_t wait_us = 0;
    assert_ok_err(tide_work_next_sweep(t->store, &wait_us, &t->err), &t->err);
    assert_in_range(wait_us, 0, 2 * SECOND_US);
    virtual_env_advance(&t->clock, 5 * SECOND_US);
    assert_int_equal(1, sweep(t).requeued);
}

/* Only then do a claim, a renewal and a finish leave all indexes alone. */
static void no_index_holds_what_a_claim_or_a_finish_changes(void **state)
{
    store_test *t = *state;
    raw_sql raw;
    raw_open(&raw, t);
    assert_string_equal("created_at item_no task_id work_item_id",
                        raw_text(&raw,
                                 "SELECT DISTINCT a.attname FROM pg_index i JOIN pg_attribute a ON "
                                 "a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey) "
                                 "WHERE i.indrelid = 'work_items'::regclass ORDER BY 1"));
    assert_int_equal(0, raw_number(&raw, "SELECT count(*) FROM pg_index WHERE indrelid = "
                                         "'work_items'::regclass AND (indpred IS NOT NULL OR "
                                         "indexprs IS NOT NULL)"));
    raw_close(&raw);
}

/* A claim of so many items raises the bound for sure. */
static tide_status claim_many(store_test *t, int limit)
{
    static const char *const types[] = {"job"};
    const tide_work_claim_request request = {TIDE_WORK_CLAIM_REQUEST_INIT, .worker = "w",
                                             .types = types, .type_count = 1, .limit = limit};
    tide_work_claims claims;
    const tide_status status = tide_work_claim(t->store, &request, &claims, &t->err);
    tide_work_claims_done(&claims);
    return status;
}

/* Claims then do not read what is gone. */
static void the_bound_rises_behind_a_claim(void **state)
{
    enum { ITEMS = 301 };
    store_test *t = *state;
    raw_sql raw;
    raw_open(&raw, t);
    make_task(t, "t");
    tide_work_spec items[ITEMS];
    tide_work_added added[ITEMS];
    for (int i = 0; i < ITEMS; i++)
        items[i] = (tide_work_spec){TIDE_WORK_SPEC_INIT, .task_id = "t", .work_type = "job",
                                    .max_retries = -1, .priority = i};
    assert_ok_err(try_add(t, items, ITEMS, added), &t->err);
    assert_ok_err(claim_many(t, ITEMS - 1), &t->err);
    assert_string_equal("t", raw_text(&raw, "SELECT low_key = (SELECT min(claim_key) FROM "
                                            "work_ready) FROM work_types"));
    raw_close(&raw);
}

/* Workers that poll an empty queue cost no WAL. */
static void a_claim_in_vain_locks_and_writes_nothing(void **state)
{
    store_test *t = *state;
    raw_sql raw;
    raw_open(&raw, t);
    make_task(t, "t");
    add_item(t, "a");
    assert_true(claim(t, "w").token > 0);
    static const char row[] = "SELECT xmin || ' ' || xmax || ' ' || low_key FROM work_types";
    char before[128];
    (void)snprintf(before, sizeof before, "%s", raw_text(&raw, row));
    assert_status(TIDE_NONE, claim_many(t, 500));
    assert_string_equal(before, raw_text(&raw, row));
    raw_close(&raw);
}

/* What an open attempt, a completed one and those before it look like to plain SQL. */
static void plain_sql_sees_every_attempt(void **state)
{
    store_test *t = *state;
    raw_sql raw;
    raw_open(&raw, t);
    make_task(t, "t");
    add_item(t, "a");
    static const char list[] =
        "SELECT attempt, worker, via, outcome, error_message, ended_at IS NULL "
        "FROM work_attempts ORDER BY lease_token";
    const held first = claim(t, "w1");
    assert_string_equal("1|w1|api|-|-|t", raw_text(&raw, list));
    assert_ok(fail_it(t, &first, "no", false));
    virtual_env_advance(&t->clock, 10 * MINUTE_US);
    const held second = claim(t, "w2");
    assert_string_equal("1|w1|api|failed|no|f 2|w2|api|-|-|t", raw_text(&raw, list));
    assert_ok(finish(t, &second, NULL));
    assert_string_equal("1|w1|api|failed|no|f 2|w2|api|completed|-|f", raw_text(&raw, list));
    assert_int_equal(1, raw_number(&raw, "SELECT count(*) FROM work_attempts_ended"));
    raw_close(&raw);
}

/* ---- migration ---- */

/* A store as the program before this layout left it, with an item of every kind. */
static void make_old_store(store_test *t, raw_sql *raw)
{
    static tide_migration before[LAYOUT_MIGRATION];
    memset(before, 0, sizeof before);
    memcpy(before, tide_sql_migrations, (LAYOUT_MIGRATION - 1) * sizeof before[0]);
    if (t->engine == TIDE_ENGINE_SQLITE) {
        tempdir_join(&t->dir, "old.db", t->url);
    } else {
        char name[PG_CLUSTER_NAME_MAX];
        pg_cluster *cluster = pg_cluster_for_test();
        assert_ok_err(pg_cluster_fresh_database(cluster, NULL, name, &t->err), &t->err);
        pg_cluster_url(cluster, name, t->url);
    }
    const tide_store_options options = store_test_options(t);
    tide_store *old = NULL;
    assert_ok_err(tide_store_open_with(&old, t->url, &options, before, &t->err), &t->err);
    tide_store_close(old);
    raw_open(raw, t);
    raw_ok(raw, "INSERT INTO tasks (task_id, status) VALUES ('t', 'running')");
    static const char *const ids[] = {"waits", "held", "done", "failed", "left", "again"};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
        raw_ok(raw,
               "INSERT INTO work_items (work_item_id, task_id, work_type, unique_key) "
               "VALUES ('%s', 't', 'job', 'key %s')",
               ids[i], ids[i]);
    raw_ok(raw,
           "INSERT INTO work_items (work_item_id, task_id, work_type, run_after) "
           "VALUES ('late', 't', 'job', %s)",
           raw_time(raw, 3600));
    raw_ok(raw, "UPDATE work_items SET status = 'in_progress', lease_holder = 'w' "
                "WHERE work_item_id NOT IN ('waits', 'late')");
    raw_ok(raw, "UPDATE work_items SET status = 'completed', output_data = '{}' "
                "WHERE work_item_id = 'done'");
    raw_ok(raw, "UPDATE work_items SET status = 'failed', error_message = 'no' "
                "WHERE work_item_id = 'failed'");
    raw_ok(raw, "UPDATE work_items SET status = 'expired' WHERE work_item_id = 'left'");
    raw_ok(raw, "UPDATE work_items SET status = 'pending' WHERE work_item_id = 'again'");
}

static void a_store_of_the_layout_before_is_migrated(void **state)
{
    store_test *t = *state;
    raw_sql raw;
    make_old_store(t, &raw);
    static const char attempts[] =
        "SELECT work_item_id, attempt, worker, via, outcome, error_message, "
        "CASE WHEN ended_at IS NULL THEN 'open' ELSE 'ended' END FROM work_attempts ORDER BY 1, 2";
    static const char items[] =
        "SELECT work_item_id, status, unique_key, lease_holder, retry_count "
        "FROM work_items ORDER BY 1";
    char before[RAW_TEXT_SIZE];
    char items_before[RAW_TEXT_SIZE];
    (void)snprintf(before, sizeof before, "%s", raw_text(&raw, attempts));
    (void)snprintf(items_before, sizeof items_before, "%s", raw_text(&raw, items));
    assert_contains(before, "held|1|w|sql|-|-|open");
    tide_store *store = store_test_open(t);
    assert_string_equal(before, raw_text(&raw, attempts));
    assert_string_equal(items_before, raw_text(&raw, items));
    if (t->engine == TIDE_ENGINE_POSTGRES)
        assert_same(&raw, "the migration");
    static const char *const types[] = {"job"};
    const tide_work_claim_request request = {TIDE_WORK_CLAIM_REQUEST_INIT, .types = types,
                                             .type_count = 1, .limit = 10};
    assert_string_equal("waits again", claim_ids(store, request));
    raw_refuse(&raw, "unique",
               "INSERT INTO work_items (work_item_id, task_id, work_type, unique_key) "
               "VALUES ('twin', 't', 'job', 'key held')");
    raw_ok(&raw, "UPDATE work_items SET status = 'completed' WHERE work_item_id = 'held'");
    if (t->engine == TIDE_ENGINE_POSTGRES)
        assert_same(&raw, "work in the new layout");
    raw_close(&raw);
}

/* The steps are one transaction: what cannot be migrated, or was killed on the way, is as it was. */
static void a_migration_that_fails_leaves_the_layout_before(void **state)
{
    store_test *t = *state;
    raw_sql raw;
    make_old_store(t, &raw);
    tide_migration steps[LAYOUT_MIGRATION + 2];
    memcpy(steps, tide_sql_migrations, LAYOUT_MIGRATION * sizeof steps[0]);
    steps[LAYOUT_MIGRATION] = (tide_migration){.number = LAYOUT_MIGRATION + 1,
                                               .version = "t",
                                               .name = "bad",
                                               .text = {"CREATE TABLE", "CREATE TABLE"}};
    steps[LAYOUT_MIGRATION + 1] = (tide_migration){.number = 0};
    const tide_store_options options = store_test_options(t);
    tide_store *store = NULL;
    assert_status(TIDE_E_FAILED, tide_store_open_with(&store, t->url, &options, steps, &t->err));
    assert_int_equal(LAYOUT_MIGRATION - 1,
                     raw_number(&raw, "SELECT max(number) FROM schema_version"));
    raw_ok(&raw, "UPDATE work_items SET status = 'in_progress', lease_holder = 'w' "
                 "WHERE work_item_id = 'again'");
    store = store_test_open(t);
    assert_int_equal(2, raw_number(&raw, "SELECT count(*) FROM work_attempts "
                                         "WHERE work_item_id = 'again'"));
    raw_close(&raw);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE_POSTGRES(entries_follow_plain_sql),
        STORE_CASE_POSTGRES(entries_follow_the_library),
        STORE_CASE_POSTGRES(an_entry_that_does_not_match_its_row_is_skipped_and_deleted),
        STORE_CASE_POSTGRES(a_claim_passes_by_an_item_that_plain_sql_has_in_hand),
        STORE_CASE_POSTGRES(verify_finds_a_row_whose_entry_is_missing),
        STORE_CASE_POSTGRES(a_lease_that_was_cut_is_taken_over_in_time),
        STORE_CASE_POSTGRES(no_index_holds_what_a_claim_or_a_finish_changes),
        STORE_CASE_POSTGRES(the_bound_rises_behind_a_claim),
        STORE_CASE_POSTGRES(a_claim_in_vain_locks_and_writes_nothing),
        STORE_CASE_POSTGRES(plain_sql_sees_every_attempt),
        STORE_CASE(a_store_of_the_layout_before_is_migrated),
        STORE_CASE(a_migration_that_fails_leaves_the_layout_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
