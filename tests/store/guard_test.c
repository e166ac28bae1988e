/* The database itself refuses what would break a promise, from any client's plain SQL. */
#include "support/store_fixture.h"

#include "store/engine.h"

static tide_status run_script(tide_tx *tx, void *arg, tide_error *err)
{
    return tx->store->ops->script(tx, arg, err);
}

static void refuse_all(store_test *t, const char *const *statements, int count)
{
    for (int i = 0; i < count; i++)
        if (tide_store_write(t->store, run_script, (void *)statements[i], &t->err) >= TIDE_OK)
            fail_msg("accepted: %s", statements[i]);
}

static tide_status claim_lease(tide_tx *tx, void *arg, tide_error *err)
{
    return tide_lease_claim(tx, "job", "a", SECOND_US, arg, err);
}

/* Counters and tokens only rise; what identifies history stays. */
static void counters_tokens_and_history_are_guarded(void **state)
{
    store_test *t = *state;
    tide_sequence_range range;
    tide_lease lease;
    assert_ok(tide_sequence_next(t->store, "orders", 10, &range, NULL, &t->err));
    assert_ok(tide_store_write(t->store, claim_lease, &lease, &t->err));
    static const char *const bad[] = {
        "UPDATE sequences SET last = 9 WHERE name = 'orders'",
        "UPDATE sequences SET last = -1 WHERE name = 'orders'",
        "DELETE FROM sequences",
        "INSERT INTO sequences (name, last, last_at) VALUES ('', 1, '2025-01-01 00:00:00')",
        "UPDATE leases SET token = token - 1",
        "DELETE FROM leases",
        "UPDATE leases SET holder = NULL",
        "UPDATE epochs SET reason = 'operator'",
        "DELETE FROM epochs",
        ("INSERT INTO epochs (epoch, epoch_id, started_at, reason, evidence) "
         "VALUES (0, 'x', '2025-01-01 00:00:00', 'created', '')"),
        ("INSERT INTO epochs (epoch, epoch_id, started_at, reason, evidence) "
         "VALUES (100, 'x', '2025-01-01 00:00:00', 'whim', '')"),
        "UPDATE db_metadata SET value = 'x' WHERE key = 'session_id'",
        "DELETE FROM db_metadata",
    };
    refuse_all(t, bad, (int)(sizeof bad / sizeof bad[0]));
    assert_ok(tide_sequence_next(t->store, "orders", 1, &range, NULL, &t->err));
    assert_int_equal(11, range.first);
}

/* INSERT OR REPLACE deletes without firing DELETE triggers. */
static void replacing_does_not_slip_past(void **state)
{
    store_test *t = *state;
    tide_sequence_range range;
    tide_lease lease;
    assert_ok(tide_sequence_next(t->store, "orders", 10, &range, NULL, &t->err));
    assert_ok(tide_store_write(t->store, claim_lease, &lease, &t->err));
    static const char *const bad[] = {
        "INSERT OR REPLACE INTO sequences VALUES ('orders', 3, '2025-01-01 00:00:00')",
        "REPLACE INTO leases (name, token) VALUES ('job', 1)",
        "REPLACE INTO epochs VALUES (1, 'x', '2025-01-01 00:00:00', 'created', '')",
        "REPLACE INTO db_metadata VALUES ('session_id', 'x')",
    };
    refuse_all(t, bad, (int)(sizeof bad / sizeof bad[0]));
}

static void truncating_does_not_slip_past(void **state)
{
    store_test *t = *state;
    static const char *const bad[] = {
        "TRUNCATE sequences",
        "TRUNCATE leases",
        "TRUNCATE epochs",
        "TRUNCATE db_metadata",
    };
    refuse_all(t, bad, (int)(sizeof bad / sizeof bad[0]));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(counters_tokens_and_history_are_guarded),
        STORE_CASE_SQLITE(replacing_does_not_slip_past),
        STORE_CASE_POSTGRES(truncating_does_not_slip_past),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
