/* Does the ledger balance, and does the audit notice when it does not? */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "colony/rig.h"

typedef struct lines {
    int count;
    int bad;
    int equal;
    char finding[256];
    tide_ledger ledger; /* of telemetry */
} lines;

static tide_status keep_line(void *arg, const tide_audit_line *line, tide_error *err)
{
    (void)err;
    lines *l = arg;
    l->count++;
    l->equal += line->digest == TIDE_AUDIT_EQUAL;
    if (strcmp(line->position->data_type, "telemetry") == 0)
        l->ledger = line->ledger;
    if (!line->is_balanced) {
        l->bad++;
        (void)snprintf(l->finding, sizeof l->finding, "%s", line->finding);
    } else {
        assert_string_equal("", line->finding);
    }
    return TIDE_OK;
}

static tide_status run_audit(rig *r, lines *l)
{
    *l = (lines){.count = 0};
    return tide_audit(r->sink, NULL, NULL, rig_audit_ask, r, keep_line, l, &r->err);
}

static rig *make_polled(void **state)
{
    rig *r = rig_new(*state, 1);
    rig_put(&r->agents[0], "telemetry", 20);
    rig_catch_up_once(r, &r->agents[0]);
    return r;
}

static tide_status run_statement(tide_tx *tx, void *arg, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_sql *sql = arg;
    TIDE_TRY(tide_query_begin(&query, tx, sql, err));
    return tide_query_run(query, NULL, err);
}

/* Somebody's own SQL, past the sink. */
static void tamper(rig *r, const char *text)
{
    const tide_sql sql = {TIDE_SQL_INIT, .name = "tamper",
                          .engine = {{.text = text, .params = NULL, .param_count = 0},
                                     {.text = text, .params = NULL, .param_count = 0}}};
    assert_ok_err(tide_store_write(r->t->store, run_statement, (void *)&sql, &r->err), &r->err);
}

/* All terms of the ledger are there, and add up. */
static void the_ledger_of_a_sound_store_balances(void **state)
{
    rig *r = make_polled(state);
    lines l;
    assert_ok_err(run_audit(r, &l), &r->err);
    assert_true(l.count > 1);
    assert_int_equal(20, l.ledger.head);
    assert_int_equal(1, l.ledger.first);
    assert_int_equal(0, l.ledger.before);
    assert_int_equal(20, l.ledger.stored);
    assert_int_equal(0, l.ledger.unexplained);
    assert_true(l.equal >= 1);
    /* what is unread is pending, and no fault */
    rig_put(&r->agents[0], "telemetry", 5);
    assert_ok_err(run_audit(r, &l), &r->err);
    rig_free(r);
}

/* A row is gone: the count tells. */
static void a_row_deleted_by_hand_is_noticed(void **state)
{
    rig *r = make_polled(state);
    tamper(r, "DELETE FROM spans_rows WHERE seq_id = 7");
    lines l;
    assert_status(TIDE_E_DAMAGED, run_audit(r, &l));
    assert_int_equal(1, l.bad);
    assert_contains(l.finding, "19 rows are there");
    assert_int_equal(TIDE_EXIT_DAMAGED, tide_status_get(TIDE_E_DAMAGED)->exit_code);
    rig_free(r);
}

/* A count is wrong: the sum tells. */
static void a_count_changed_by_hand_is_noticed(void **state)
{
    rig *r = make_polled(state);
    tamper(r, "UPDATE polling_checkpoints SET stored = stored + 3, version = version + 1 "
              "WHERE data_type = 'telemetry'");
    lines l;
    assert_status(TIDE_E_DAMAGED, run_audit(r, &l));
    assert_int_equal(1, l.bad);
    assert_contains(l.finding, "unexplained");
    rig_free(r);
}

/* Digests: the agent's records are others than those that were read. */
static void a_history_that_differs_is_noticed(void **state)
{
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    rig_put(a, "telemetry", 20);
    rig_catch_up_once(r, a);
    rig_agent_backup(a);
    rig_put(a, "telemetry", 10);
    rig_catch_up_once(r, a);
    rig_agent_restore(a, false);
    rig_put(a, "telemetry", 30);
    lines l;
    assert_status(TIDE_E_DAMAGED, run_audit(r, &l));
    assert_contains(l.finding, "differ");
    /* the next poll finds out, and then they close again */
    tide_poller *poller = rig_poller(r, a);
    rig_catch_up(r, a, poller, 5 * MINUTE_US);
    tide_poller_free(poller);
    assert_ok_err(run_audit(r, &l), &r->err);
    rig_free(r);
}

/* An agent that is away cannot be compared with: the ledger balances all the same. */
static void an_agent_that_is_away_is_no_finding(void **state)
{
    rig *r = make_polled(state);
    r->agents[0].fault = RIG_AWAY;
    r->agents[0].fault_count = -1;
    lines l;
    assert_ok_err(run_audit(r, &l), &r->err);
    assert_int_equal(0, l.equal);
    rig_free(r);
}

/* Closed sessions are audited too; one agent and one type can be picked. */
static void closed_positions_and_single_agents_are_audited(void **state)
{
    rig *r = rig_new(*state, 2);
    for (int i = 0; i < 2; i++) {
        tide_poller *poller = rig_poller(r, &r->agents[i]);
        rig_put(&r->agents[i], "telemetry", 5);
        rig_catch_up(r, &r->agents[i], poller, MINUTE_US);
        rig_agent_wipe(&r->agents[i]);
        rig_put(&r->agents[i], "telemetry", 5);
        rig_catch_up(r, &r->agents[i], poller, MINUTE_US);
        tide_poller_free(poller);
    }
    lines l = {.count = 0};
    assert_ok_err(tide_audit(r->sink, "a1", "telemetry", NULL, NULL, keep_line, &l, &r->err),
                  &r->err);
    assert_int_equal(2, l.count);
    assert_ok_err(run_audit(r, &l), &r->err);
    assert_true(l.count >= 4);
    rig_free(r);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(the_ledger_of_a_sound_store_balances),
        STORE_CASE(a_row_deleted_by_hand_is_noticed),
        STORE_CASE(a_count_changed_by_hand_is_noticed),
        STORE_CASE(a_history_that_differs_is_noticed),
        STORE_CASE_SQLITE(an_agent_that_is_away_is_no_finding),
        STORE_CASE(closed_positions_and_single_agents_are_audited),
    };
    return cmocka_run_group_tests_name("colony-audit", tests, NULL, NULL);
}
