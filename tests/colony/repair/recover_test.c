/* Gaps are asked for again, through work items. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "colony/rig.h"

static const char *const spans[] = {"telemetry"};

/* A script with holes at but, polled until they are gaps. */
static void poll_gaps(rig *r, rig_agent *a, rig_script *script, int count, const uint64_t *but)
{
    *script = (rig_script){.count = 0};
    rig_script_fill(script, count, but);
    rig_agent_script(a, script);
    tide_poller_options options = rig_options(r);
    options.data_types = spans;
    options.data_type_count = 1;
    tide_poller *poller = rig_poller_with(r, a, options, 0);
    rig_poll_for(r, a, poller, 15 * SECOND_US);
    assert_int_equal(count, rig_last_seq(r, a, "telemetry"));
    tide_poller_free(poller);
}

static int64_t count_items(rig *r, const char *status)
{
    char sql[128];
    (void)snprintf(sql, sizeof sql, "SELECT COUNT(*) FROM work_items WHERE status = '%s'", status);
    return rig_query(r, sql);
}

/* Recovered only id by id: of a gap 4..6 only 5 has come. */
static void only_what_came_is_recovered(void **state)
{
    const uint64_t but[] = {4, 5, 6, 0};
    rig_script script;
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    poll_gaps(r, a, &script, 9, but);
    rig_script_add(&script, 5);
    const tide_recover_options options = rig_recover_options(r);
    rig_recover(r, &options);
    assert_int_equal(7, rig_query(r, "SELECT COUNT(*) FROM spans"));
    assert_int_equal(1, rig_query(r, "SELECT COUNT(*) FROM sequence_gaps WHERE status = "
                                     "'recovered' AND start_seq_id = 5 AND end_seq_id = 5"));
    assert_int_equal(2, rig_query(r, "SELECT COUNT(*) FROM sequence_gaps WHERE status IN "
                                     "('detected', 'recovering')"));
    rig_assert_balanced(r);
    rig_free(r);
}

/* At most 3 attempts, 5 minutes apart; lower numbers are still served: void (presumed), and no alarm. */
static void a_foreign_hole_is_void_after_three_attempts(void **state)
{
    const uint64_t but[] = {4, 0};
    rig_script script;
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    poll_gaps(r, a, &script, 7, but);
    const tide_recover_options options = rig_recover_options(r);
    for (int attempt = 1; attempt <= 3; attempt++) {
        assert_int_equal(1, rig_recover(r, &options));
        assert_int_equal(0, rig_recover(r, &options)); /* not before its time */
        assert_int_equal(attempt, rig_query(r, "SELECT recovery_attempts FROM sequence_gaps"));
        if (attempt < 3)
            assert_contains(rig_log_text(r), "gap recovery failed, will retry");
        rig_advance(r, 5 * MINUTE_US);
    }
    assert_int_equal(1, rig_count_gaps(r, TIDE_GAP_VOID));
    assert_int_equal(0, r->permanent);
    assert_null(strstr(rig_log_text(r), "PERMANENT DATA LOSS"));
    rig_assert_balanced(r);

    /* It is asked for on, and a row that still comes is stored. */
    rig_script_add(&script, 4);
    assert_int_equal(1, rig_recover(r, &options));
    assert_int_equal(1, rig_count_gaps(r, TIDE_GAP_RECOVERED));
    rig_assert_rows(r, a, 1, 7);
    rig_assert_balanced(r);
    rig_free(r);
}

static int count_lines(const char *log, const char *text)
{
    int count = 0;
    for (const char *at = strstr(log, text); at; at = strstr(at + 1, text))
        count++;
    return count;
}

/* It is asked for on every few minutes, for as long as the agent may have it: that is no news each time. */
static void a_gap_that_stays_void_is_reported_once(void **state)
{
    const uint64_t but[] = {4, 0};
    rig_script script;
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    poll_gaps(r, a, &script, 7, but);
    const tide_recover_options options = rig_recover_options(r);
    for (int attempt = 1; attempt <= 8; attempt++) {
        assert_int_equal(1, rig_recover(r, &options));
        rig_advance(r, 5 * MINUTE_US);
    }
    assert_int_equal(1, rig_count_gaps(r, TIDE_GAP_VOID));
    assert_int_equal(1, count_lines(rig_log_text(r), "gap is void"));
    assert_int_equal(1, r->voided);
    rig_assert_balanced(r);

    rig_script_add(&script, 4); /* what comes after all is news */
    assert_int_equal(1, rig_recover(r, &options));
    assert_contains(rig_log_text(r), "gap recovery succeeded");
    rig_assert_rows(r, a, 1, 7);
    rig_free(r);
}

/* The agent no longer serves lower numbers: lost (retention), with the line that operators look for. */
static void a_foreign_hole_below_its_retention_is_lost(void **state)
{
    const uint64_t but[] = {4, 0};
    rig_script script;
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    poll_gaps(r, a, &script, 7, but);
    for (int i = 0; i < script.count; i++)
        script.rows[i].is_gone = script.rows[i].seq < 6;
    const tide_recover_options options = rig_recover_options(r);
    for (int attempt = 0; attempt < 3; attempt++) {
        rig_recover(r, &options);
        rig_advance(r, 5 * MINUTE_US);
    }
    assert_int_equal(1, rig_count_gaps(r, TIDE_GAP_PERMANENT));
    assert_int_equal(1, r->permanent);
    const char *log = rig_log_text(r);
    assert_contains(log, "level=error msg=\"PERMANENT DATA LOSS\" agent=a0 data_type=telemetry "
                         "session=legacy-session-1");
    assert_contains(log, "start=4 end=4 records=1 reason=retention");
    assert_int_equal(0, rig_recover(r, &options));
    rig_assert_balanced(r);
    rig_free(r);
}

/* An agent that cannot be reached counts as an attempt, but may come back: the gap stays open until it is given up. */
static void a_gap_of_an_agent_that_is_away_stays_open_for_a_day(void **state)
{
    const uint64_t but[] = {4, 0};
    rig_script script;
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    poll_gaps(r, a, &script, 7, but);
    a->fault = RIG_AWAY;
    a->fault_count = -1;
    const tide_recover_options options = rig_recover_options(r);
    for (int attempt = 0; attempt < 5; attempt++) {
        assert_int_equal(1, rig_recover(r, &options));
        rig_advance(r, 5 * MINUTE_US);
    }
    assert_int_equal(1,
                     rig_count_gaps(r, TIDE_GAP_DETECTED) + rig_count_gaps(r, TIDE_GAP_RECOVERING));
    assert_int_equal(0, r->permanent);
    rig_advance(r, 24 * HOUR_US);
    rig_recover(r, &options);
    assert_int_equal(1, rig_count_gaps(r, TIDE_GAP_PERMANENT));
    assert_contains(rig_log_text(r), "PERMANENT DATA LOSS");
    rig_assert_balanced(r);
    rig_free(r);
}

/* The many gaps of an agent that was removed never keep others waiting: at most four of them are under way at a time. */
static void many_gaps_of_a_removed_agent_keep_nobody_waiting(void **state)
{
    rig_script first;
    rig_script second;
    rig *r = rig_new(*state, 2);
    uint64_t but[RIG_SCRIPT_ROWS] = {0};
    for (uint64_t i = 0; i < 30; i++)
        but[i] = 2 + 2 * i;
    poll_gaps(r, &r->agents[0], &first, 61, but);
    assert_int_equal(30, rig_count_gaps(r, TIDE_GAP_DETECTED));
    const uint64_t four[] = {4, 0};
    poll_gaps(r, &r->agents[1], &second, 7, four);
    rig_script_add(&second, 4);
    assert_ok_err(tide_registry_remove(r->t->store, "a0", &r->err), &r->err);

    const tide_recover_options options = rig_recover_options(r);
    int64_t added = 0;
    int64_t next_us = 0;
    assert_ok_err(tide_recover_plan(&options, &added, &next_us, &r->err), &r->err);
    assert_int_equal(TIDE_RECOVER_PER_AGENT_MAX + 1, added);
    assert_true(next_us < TIDE_RECOVER_INTERVAL_US); /* there is more to do */
    assert_int_equal(1, rig_recover(r, &options));   /* the other agent's is the only question */
    rig_assert_rows(r, &r->agents[1], 1, 7);
    assert_int_equal(1, rig_count_gaps(r, TIDE_GAP_RECOVERED));
    rig_assert_balanced(r);
    rig_free(r);
}

/* Crash between applying and finishing: the item comes again when its lease has run out, finds its gap ended, and is finished. */
static void an_item_whose_gap_has_ended_is_finished(void **state)
{
    const uint64_t but[] = {4, 0};
    rig_script script;
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    poll_gaps(r, a, &script, 7, but);
    rig_script_add(&script, 4);
    const tide_recover_options options = rig_recover_options(r);
    int64_t added = 0;
    int64_t next_us = 0;
    assert_ok_err(tide_recover_plan(&options, &added, &next_us, &r->err), &r->err);
    assert_int_equal(1, added);
    tide_recovery *dying = NULL;
    assert_ok_err(tide_recover_begin(&dying, &options, "dies", &r->err), &r->err);
    assert_int_equal(1, count_items(r, "in_progress"));

    /* Meanwhile the poller reads again from the start and recovers the row, as the dying one's change would have. */
    TIDE_CLEANUP(tide_position_done) tide_position at = rig_position(r, a, "telemetry");
    TIDE_CLEANUP(tide_change_done) tide_change change = {0};
    assert_ok_err(tide_settle_move(&change, &at, 0, r->t->clock.wall_us, &r->err), &r->err);
    assert_ok_err(tide_sink_apply(r->sink, &change, &r->err), &r->err);
    tide_poller_options poll = rig_options(r);
    poll.data_types = spans;
    poll.data_type_count = 1;
    tide_poller *poller = rig_poller_with(r, a, poll, 0);
    rig_poll_for(r, a, poller, SECOND_US);
    tide_poller_free(poller);
    assert_int_equal(1, rig_count_gaps(r, TIDE_GAP_RECOVERED));
    rig_assert_rows(r, a, 1, 7);

    rig_advance(r, 6 * MINUTE_US);
    tide_work_swept swept;
    assert_ok_err(tide_work_sweep(r->t->store, 0, 0, &swept, &r->err), &r->err);
    assert_int_equal(1, swept.requeued);
    rig_advance(r, HOUR_US);
    assert_ok_err(tide_work_sweep(r->t->store, 0, 0, &swept, &r->err), &r->err);
    assert_int_equal(0, rig_recover(r, &options));
    assert_int_equal(1, count_items(r, "completed"));
    /* and the dead one wakes up: its token is worth nothing, and nothing is stored twice */
    TIDE_CLEANUP(tide_buffer_done) tide_buffer answer = {0};
    tide_buffer_init(&answer, TIDE_REPLY_BYTES_MAX);
    assert_ok(rig_ask(r, a, tide_recovery_question(dying), &answer, &r->err));
    assert_ok_err(tide_recover_take(dying, TIDE_OK, tide_buffer_view(&answer), NULL, &r->err),
                  &r->err);
    rig_assert_rows(r, a, 1, 7);
    rig_assert_balanced(r);
    rig_free(r);
}

/* A stop gives the item back at once. */
static void a_recovery_that_is_given_up_goes_back(void **state)
{
    const uint64_t but[] = {4, 0};
    rig_script script;
    rig *r = rig_new(*state, 1);
    poll_gaps(r, &r->agents[0], &script, 7, but);
    const tide_recover_options options = rig_recover_options(r);
    int64_t added = 0;
    int64_t next_us = 0;
    assert_ok_err(tide_recover_plan(&options, &added, &next_us, &r->err), &r->err);
    tide_recovery *recovery = NULL;
    assert_ok_err(tide_recover_begin(&recovery, &options, "stops", &r->err), &r->err);
    assert_string_equal("a0", tide_recovery_agent(recovery));
    assert_string_equal("localhost:1", tide_recovery_address(recovery));
    tide_recovery_free(recovery);
    assert_int_equal(1, count_items(r, "pending"));
    assert_int_equal(0, rig_query(r, "SELECT recovery_attempts FROM sequence_gaps"));
    rig_free(r);
}

/* Garbage, other sessions and silence are attempts too; nothing of them is taken for the gap's rows. */
static void nonsense_recovers_nothing(void **state)
{
    static const rig_fault faults[] = {RIG_GARBAGE, RIG_NO_SESSION, RIG_SILENT};
    const uint64_t but[] = {4, 0};
    rig_script script;
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    poll_gaps(r, a, &script, 7, but);
    rig_script_add(&script, 4);
    const tide_recover_options options = rig_recover_options(r);
    for (int i = 0; i < 3; i++) {
        a->fault = faults[i];
        a->fault_count = -1;
        assert_int_equal(1, rig_recover(r, &options));
        assert_int_equal(6, rig_query(r, "SELECT COUNT(*) FROM spans"));
        assert_int_equal(i + 1, rig_query(r, "SELECT recovery_attempts FROM sequence_gaps"));
        rig_assert_balanced(r);
        rig_advance(r, 6 * MINUTE_US);
        a->fault = RIG_FINE;
    }
    assert_int_equal(1, rig_recover(r, &options));
    rig_assert_rows(r, a, 1, 7);
    rig_assert_balanced(r);
    rig_free(r);
}

/* The poller and recovery change one position at the same time: the version decides, and both end well. */
static void recovery_and_polling_do_not_undo_each_other(void **state)
{
    const uint64_t but[] = {4, 0};
    rig_script script;
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    poll_gaps(r, a, &script, 7, but);
    rig_script_add(&script, 4);
    const tide_recover_options options = rig_recover_options(r);
    int64_t added = 0;
    int64_t next_us = 0;
    assert_ok_err(tide_recover_plan(&options, &added, &next_us, &r->err), &r->err);
    tide_recovery *recovery = NULL;
    assert_ok_err(tide_recover_begin(&recovery, &options, "slow", &r->err), &r->err);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer answer = {0};
    tide_buffer_init(&answer, TIDE_REPLY_BYTES_MAX);
    assert_ok(rig_ask(r, a, tide_recovery_question(recovery), &answer, &r->err));

    for (uint64_t seq = 8; seq <= 12; seq++)
        rig_script_add(&script, seq);
    tide_poller_options poll = rig_options(r);
    poll.data_types = spans;
    poll.data_type_count = 1;
    tide_poller *poller = rig_poller_with(r, a, poll, 0);
    rig_poll_for(r, a, poller, SECOND_US);
    assert_int_equal(12, rig_last_seq(r, a, "telemetry"));
    assert_ok_err(tide_recover_take(recovery, TIDE_OK, tide_buffer_view(&answer), NULL, &r->err),
                  &r->err);
    assert_int_equal(1, rig_count_gaps(r, TIDE_GAP_RECOVERED));
    rig_poll_for(r, a, poller, MINUTE_US);
    rig_assert_rows(r, a, 1, 12);
    rig_assert_balanced(r);
    tide_poller_free(poller);
    rig_free(r);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(only_what_came_is_recovered),
        STORE_CASE(a_foreign_hole_is_void_after_three_attempts),
        STORE_CASE(a_gap_that_stays_void_is_reported_once),
        STORE_CASE(a_foreign_hole_below_its_retention_is_lost),
        STORE_CASE(a_gap_of_an_agent_that_is_away_stays_open_for_a_day),
        STORE_CASE(many_gaps_of_a_removed_agent_keep_nobody_waiting),
        STORE_CASE(an_item_whose_gap_has_ended_is_finished),
        STORE_CASE(a_recovery_that_is_given_up_goes_back),
        STORE_CASE(nonsense_recovers_nothing),
        STORE_CASE(recovery_and_polling_do_not_undo_each_other),
    };
    return cmocka_run_group_tests_name("colony-recover", tests, NULL, NULL);
}
