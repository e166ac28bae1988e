/* Rows that were deleted past the colony: which are stored again, and which are named. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "colony/repair/repair.h"
#include "colony/rig.h"

typedef struct lines {
    int count;
    tide_repair_line last;
} lines;

static tide_status keep_line(void *arg, const tide_repair_line *line, tide_error *err)
{
    (void)err;
    lines *l = arg;
    l->count++;
    l->last = *line;
    return TIDE_OK;
}

static tide_status repair(rig *r, lines *l)
{
    *l = (lines){.count = 0};
    const tide_repair_options options = {.sink = r->sink,
                                         .env = &r->t->clock.env,
                                         .ask = rig_audit_ask,
                                         .ask_arg = r,
                                         .fn = keep_line,
                                         .arg = l};
    return tide_repair(&options, &r->err);
}

static tide_status run_statement(tide_tx *tx, void *arg, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, arg, err));
    return tide_query_run(query, NULL, err);
}

/* Somebody's own SQL, past the sink. */
static void tamper(rig *r, const char *text)
{
    tide_sql sql = {TIDE_SQL_INIT, .name = "tamper",
                    .engine = {{.text = text, .params = NULL, .param_count = 0},
                               {.text = text, .params = NULL, .param_count = 0}}};
    assert_ok_err(tide_store_write(r->t->store, run_statement, &sql, &r->err), &r->err);
}

static int64_t count_rolled_up(rig *r)
{
    return rig_query(r, "SELECT CAST(coalesce(sum(count), 0) AS bigint) FROM spans_1m");
}

static rig *make_polled(void **state, int count)
{
    rig *r = rig_new(*state, 1);
    rig_put(&r->agents[0], "telemetry", count);
    rig_put(&r->agents[0], "logs", 5);
    rig_catch_up_once(r, &r->agents[0]);
    return r;
}

static void a_whole_store_stays_as_it_is(void **state)
{
    rig *r = make_polled(state, 20);
    lines l;
    assert_ok_err(repair(r, &l), &r->err);
    assert_int_equal(0, l.count);
    rig_free(r);
}

static void deleted_rows_are_stored_again_once(void **state)
{
    rig *r = make_polled(state, 200);
    rig_agent *a = &r->agents[0];
    const int64_t rolled_up = count_rolled_up(r);
    const int64_t batches = rig_query(r, "SELECT COUNT(*) FROM polling_batches");
    tamper(r, "DELETE FROM spans_rows WHERE seq_id IN (1, 2, 77) OR seq_id BETWEEN 150 AND 200");
    lines l;
    assert_ok_err(repair(r, &l), &r->err);
    assert_int_equal(1, l.count);
    assert_int_equal(54, l.last.restored);
    assert_int_equal(0, l.last.missing);
    assert_string_equal("telemetry", l.last.data_type);
    assert_string_equal("", l.last.reason);
    rig_assert_rows(r, a, 1, 200);
    assert_int_equal(rolled_up, count_rolled_up(r));
    assert_int_equal(batches, rig_query(r, "SELECT COUNT(*) FROM polling_batches"));
    rig_assert_balanced(r);
    assert_ok_err(repair(r, &l), &r->err);
    assert_int_equal(0, l.count);
    /* and the colony reads on */
    rig_put(a, "telemetry", 10);
    rig_catch_up_once(r, a);
    rig_assert_rows(r, a, 1, 210);
    rig_assert_balanced(r);
    rig_free(r);
}

static void what_the_agent_has_dropped_is_named(void **state)
{
    rig *r = make_polled(state, 50);
    rig_agent *a = &r->agents[0];
    tamper(r, "DELETE FROM spans_rows WHERE seq_id BETWEEN 11 AND 20");
    rig_agent_wipe(a);
    lines l;
    assert_status(TIDE_E_DAMAGED, repair(r, &l));
    assert_int_equal(1, l.count);
    assert_int_equal(0, l.last.restored);
    assert_int_equal(10, l.last.missing);
    assert_string_equal("session changed", l.last.reason);
    a->fault = RIG_AWAY;
    a->fault_count = -1;
    assert_status(TIDE_E_DAMAGED, repair(r, &l));
    assert_int_equal(10, l.last.missing);
    assert_true(*l.last.reason != '\0');
    rig_free(r);
}

/* Numbers of a gap, and what retention has removed, are not missing rows. */
static void gaps_and_expired_rows_are_left_alone(void **state)
{
    const uint64_t but[] = {4, 5, 0};
    rig_script script = {.count = 0};
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    rig_script_fill(&script, 9, but);
    rig_agent_script(a, &script);
    tide_poller *poller = rig_poller(r, a);
    rig_poll_for(r, a, poller, 30 * SECOND_US);
    assert_int_equal(1, rig_count_gaps(r, TIDE_GAP_DETECTED));
    rig_script_add(&script, 4);
    tamper(r, "DELETE FROM spans_rows WHERE seq_id IN (3, 7)");
    lines l;
    assert_ok_err(repair(r, &l), &r->err);
    assert_int_equal(2, l.last.restored);
    assert_int_equal(7, rig_query(r, "SELECT COUNT(*) FROM spans"));
    assert_int_equal(1, rig_count_gaps(r, TIDE_GAP_DETECTED));
    rig_assert_balanced(r);
    tide_poller_free(poller);
    rig_free(r);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(a_whole_store_stays_as_it_is),
        STORE_CASE(deleted_rows_are_stored_again_once),
        STORE_CASE(what_the_agent_has_dropped_is_named),
        STORE_CASE(gaps_and_expired_rows_are_left_alone),
    };
    return cmocka_run_group_tests_name("colony-repair", tests, NULL, NULL);
}
