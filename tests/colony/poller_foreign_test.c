/* Agents that we did not write: they number before they commit, and answer only the fields of the telemetry document. And agents
 * that answer nonsense. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "colony/rig.h"

static tide_poller_options spans_only(rig *r)
{
    static const char *const types[] = {"telemetry"};
    tide_poller_options options = rig_options(r);
    options.data_types = types;
    options.data_type_count = 1;
    return options;
}

/* Rows 1 .. count without some; on a fresh rig with one agent. */
static rig *make_foreign(void **state, rig_script *script, int count, const uint64_t *but)
{
    rig *r = rig_new(*state, 1);
    *script = (rig_script){.count = 0};
    rig_script_fill(script, count, but);
    rig_agent_script(&r->agents[0], script);
    return r;
}

static int64_t count_rows(rig *r)
{
    return rig_query(r, "SELECT COUNT(*) FROM spans");
}

/* ---- numbers before commit ---- */

/* False gap avoidance of the telemetry document: rows [1,2,3,5], 4 commits later. The checkpoint stays at 3, 5 may be stored, 4 is fetched, no gap
 * is recorded. */
static void a_row_that_commits_late_is_fetched_and_is_no_gap(void **state)
{
    rig_script script;
    rig *r = make_foreign(state, &script, 5, NULL);
    rig_agent *a = &r->agents[0];
    script.rows[3].from_us = r->t->clock.mono_us + 6 * SECOND_US; /* 4 */
    tide_poller *poller = rig_poller_with(r, a, spans_only(r), 0);
    rig_poll_for(r, a, poller, 5 * SECOND_US);
    assert_int_equal(3, rig_last_seq(r, a, "telemetry"));
    assert_int_equal(4, count_rows(r));
    assert_false(tide_poller_is_caught_up(poller));
    rig_assert_balanced(r);
    rig_poll_for(r, a, poller, 10 * SECOND_US);
    assert_int_equal(5, rig_last_seq(r, a, "telemetry"));
    rig_assert_rows(r, a, 1, 5);
    assert_true(tide_poller_is_caught_up(poller));
    rig_poll_for(r, a, poller, MINUTE_US);
    assert_int_equal(0, rig_query(r, "SELECT COUNT(*) FROM sequence_gaps"));
    assert_int_equal(0, r->detected);
    rig_assert_balanced(r);
    tide_poller_free(poller);
    rig_free(r);
}

/* The same with the agent's clock an hour ahead or behind: the grace is measured on the colony's own clock. */
static void the_grace_is_measured_on_the_colonys_clock(void **state)
{
    rig_script scripts[2];
    rig *r = rig_new(*state, 2);
    for (int i = 0; i < 2; i++) {
        rig_agent *a = &r->agents[i];
        scripts[i] = (rig_script){.count = 0};
        rig_script_fill(&scripts[i], 5, NULL);
        rig_agent_script(a, &scripts[i]);
        virtual_env_set_wall(&a->clock, a->clock.wall_us + (i == 0 ? HOUR_US : -HOUR_US));
        scripts[i].rows[3].from_us = r->t->clock.mono_us + 9 * SECOND_US;
        tide_poller *poller = rig_poller_with(r, a, spans_only(r), 0);
        rig_poll_for(r, a, poller, 5 * SECOND_US);
        assert_int_equal(3, rig_last_seq(r, a, "telemetry"));
        /* and the colony's wall clock jumps while the hole is held */
        virtual_env_set_wall(&r->t->clock, r->t->clock.wall_us + (i == 0 ? -HOUR_US : HOUR_US));
        rig_poll_for(r, a, poller, 8 * SECOND_US);
        rig_assert_rows(r, a, 1, 5);
        tide_poller_free(poller);
    }
    assert_int_equal(0, rig_query(r, "SELECT COUNT(*) FROM sequence_gaps"));
    rig_assert_balanced(r);
    rig_free(r);
}

/* Gap recovery of the telemetry document: [1,2,3,5,6,7]. The gap is detected and recorded after its grace, and the cursor goes on; recovery is
 * attempted; the row that has come meanwhile recovers it. */
static void a_hole_becomes_a_gap_and_is_recovered(void **state)
{
    const uint64_t but[] = {4, 0};
    rig_script script;
    rig *r = make_foreign(state, &script, 7, but);
    rig_agent *a = &r->agents[0];
    tide_poller *poller = rig_poller_with(r, a, spans_only(r), 0);
    rig_poll_for(r, a, poller, 9 * SECOND_US);
    assert_int_equal(3, rig_last_seq(r, a, "telemetry"));
    assert_int_equal(0, rig_query(r, "SELECT COUNT(*) FROM sequence_gaps"));
    rig_poll_for(r, a, poller, 4 * SECOND_US);
    assert_int_equal(7, rig_last_seq(r, a, "telemetry"));
    assert_int_equal(1, rig_query(r, "SELECT COUNT(*) FROM sequence_gaps WHERE start_seq_id = 4 "
                                     "AND end_seq_id = 4 AND status = 'detected'"));
    assert_contains(rig_log_text(r), "gap detected");
    rig_assert_balanced(r);

    rig_script_add(&script, 4);
    const tide_recover_options options = rig_recover_options(r);
    assert_int_equal(1, rig_recover(r, &options));
    assert_int_equal(1, rig_count_gaps(r, TIDE_GAP_RECOVERED));
    assert_int_equal(1, r->recovered);
    assert_int_equal(1, rig_query(r, "SELECT COUNT(*) FROM sequence_gaps WHERE recovered_at IS NOT "
                                     "NULL AND recovery_attempts = 1"));
    rig_assert_rows(r, a, 1, 7);
    assert_contains(rig_log_text(r), "gap recovery succeeded");
    rig_assert_balanced(r);
    tide_poller_free(poller);
    rig_free(r);
}

/* Never at the price of a skipped row: what commits below the first record that was shown is stored, also when the grace is over. */
static void rows_below_the_first_contact_are_stored_however_late(void **state)
{
    const uint64_t but[] = {1, 2, 3, 4, 5, 6, 0};
    rig_script script;
    rig *r = make_foreign(state, &script, 13, but);
    rig_agent *a = &r->agents[0];
    tide_poller *poller = rig_poller_with(r, a, spans_only(r), 0);
    rig_poll_for(r, a, poller, 20 * SECOND_US);
    assert_int_equal(7, count_rows(r));
    assert_int_equal(7, rig_query(r, "SELECT first_seq_id FROM polling_checkpoints"));
    rig_script_add(&script, 3);
    rig_script_add(&script, 5);
    rig_poll_for(r, a, poller, 2 * MINUTE_US);
    assert_int_equal(3, rig_query(r, "SELECT first_seq_id FROM polling_checkpoints"));
    assert_int_equal(9, count_rows(r));
    assert_int_equal(2, rig_query(r, "SELECT COUNT(*) FROM sequence_gaps WHERE start_seq_id IN (4, "
                                     "6) AND status = 'detected'"));
    rig_assert_balanced(r);
    rig_script_add(&script, 1);
    rig_poll_for(r, a, poller, 2 * MINUTE_US);
    assert_int_equal(10, count_rows(r));
    assert_int_equal(1, rig_query(r, "SELECT first_seq_id FROM polling_checkpoints"));
    assert_int_equal(1, rig_query(r, "SELECT COUNT(*) FROM sequence_gaps WHERE start_seq_id = 2 "
                                     "AND end_seq_id = 2 AND status = 'detected'"));
    rig_assert_balanced(r);
    tide_poller_free(poller);
    rig_free(r);
}

/* poll --once waits for holes as long as their grace, then records them and is over. */
static void once_waits_for_holes_no_longer_than_their_grace(void **state)
{
    const uint64_t but[] = {4, 0};
    rig_script script;
    rig *r = make_foreign(state, &script, 7, but);
    rig_agent *a = &r->agents[0];
    const int64_t began_us = r->t->clock.mono_us;
    tide_poller_options options = rig_options(r); /* all types: it has only one of them */
    options.is_once = true;
    tide_poller *poller = rig_poller_with(r, a, options, 0);
    rig_catch_up(r, a, poller, MINUTE_US);
    assert_true(tide_poller_is_over(poller) && tide_poller_is_caught_up(poller));
    assert_in_range(r->t->clock.mono_us - began_us, 10 * SECOND_US, 14 * SECOND_US);
    assert_int_equal(1, rig_count_gaps(r, TIDE_GAP_DETECTED));
    rig_assert_balanced(r);
    tide_poller_free(poller);
    rig_free(r);
}

/* An agent that fails once and then has nothing but "no such call" to say is there: poll --once ends. */
static void once_ends_when_no_such_call_is_the_last_answer(void **state)
{
    rig_script script;
    rig *r = make_foreign(state, &script, 7, NULL);
    rig_agent *a = &r->agents[0];
    tide_poller_options options = rig_options(r); /* all types: it has only one of them */
    options.is_once = true;
    tide_poller *poller = rig_poller_with(r, a, options, 0);
    for (int i = 0; i < 100 && count_rows(r) < 7; i++) {
        int64_t wake_us = 0;
        assert_int_equal(TIDE_OK, rig_turn(r, a, poller, &wake_us));
    }
    assert_int_equal(7, count_rows(r));
    a->fault = RIG_AWAY;
    a->fault_count = 1;
    const int64_t began_us = r->t->clock.mono_us;
    rig_catch_up(r, a, poller, MINUTE_US);
    assert_int_equal(0, a->fault_count);
    assert_true(tide_poller_is_over(poller) && tide_poller_is_caught_up(poller));
    assert_true(r->t->clock.mono_us - began_us < 5 * SECOND_US);
    tide_poller_free(poller);
    rig_free(r);
}

/* The telemetry document lets an agent limit its answers: it has no more when one brings nothing new. */
static void an_agent_with_small_pages_is_read_to_its_end(void **state)
{
    rig_script script;
    rig *r = make_foreign(state, &script, 50, NULL);
    rig_agent *a = &r->agents[0];
    script.page_max = 7;
    tide_poller_options options = spans_only(r);
    options.is_once = true;
    tide_poller *poller = rig_poller_with(r, a, options, 0);
    rig_catch_up(r, a, poller, MINUTE_US);
    assert_true(tide_poller_is_over(poller) && tide_poller_is_caught_up(poller));
    assert_int_equal(50, count_rows(r));
    tide_poller_free(poller);
    rig_free(r);
}

/* Another session is read at once, also by a single pass; what ends with the old one is counted as lost. */
static void another_session_of_an_agent_is_read_at_once(void **state)
{
    const uint64_t but[] = {4, 0};
    rig_script script;
    rig *r = make_foreign(state, &script, 20, but);
    rig_agent *a = &r->agents[0];
    tide_poller_options options = spans_only(r);
    options.is_once = true;
    tide_poller *poller = rig_poller_with(r, a, options, 0);
    rig_catch_up(r, a, poller, MINUTE_US);
    tide_poller_free(poller);
    assert_int_equal(19, count_rows(r));
    assert_int_equal(0, r->permanent);
    (void)snprintf(script.session_id, sizeof script.session_id, "legacy-session-2");
    rig_script_fill(&script, 30, NULL);
    poller = rig_poller_with(r, a, options, 0);
    rig_catch_up(r, a, poller, MINUTE_US);
    assert_true(tide_poller_is_over(poller) && tide_poller_is_caught_up(poller));
    assert_int_equal(49, count_rows(r));
    assert_int_equal(1, rig_count_gaps(r, TIDE_GAP_PERMANENT));
    assert_int_equal(1, r->permanent); /* sequence_gaps_permanent_total */
    rig_assert_balanced(r);
    tide_poller_free(poller);
    rig_free(r);
}

/* Answers that are refused are told in words, and after a while as an error. */
static void refused_answers_are_told_in_words(void **state)
{
    rig_script script;
    rig *r = make_foreign(state, &script, 5, NULL);
    rig_agent *a = &r->agents[0];
    a->fault = RIG_NO_SESSION;
    a->fault_count = -1;
    tide_poller *poller = rig_poller_with(r, a, spans_only(r), 0);
    rig_poll_for(r, a, poller, 2 * SECOND_US);
    assert_contains(rig_log_text(r), "an answer is refused");
    assert_contains(rig_log_text(r), "session_id");
    assert_non_null(tide_poller_trouble(poller));
    assert_contains(tide_poller_trouble(poller), "telemetry: ");
    rig_poll_for(r, a, poller, 10 * MINUTE_US);
    assert_contains(rig_log_text(r), "failures=8");
    a->fault = RIG_FINE;
    rig_poll_for(r, a, poller, 2 * MINUTE_US);
    assert_null(tide_poller_trouble(poller));
    assert_int_equal(5, count_rows(r));
    tide_poller_free(poller);
    rig_free(r);
}

/* Never at the price of a skipped row: a backlog behind a hole is read on while the hole is held. */
static void a_backlog_behind_a_hole_is_read_while_it_is_held(void **state)
{
    const uint64_t but[] = {2, 0};
    rig_script script;
    rig *r = make_foreign(state, &script, 60, but);
    rig_agent *a = &r->agents[0];
    a->answer_max = 700; /* small pages */
    tide_poller *poller = rig_poller_with(r, a, spans_only(r), 0);
    rig_poll_for(r, a, poller, 3 * SECOND_US);
    assert_int_equal(1, rig_last_seq(r, a, "telemetry"));
    assert_int_equal(59, count_rows(r));
    rig_script_add(&script, 2);
    rig_poll_for(r, a, poller, 5 * SECOND_US);
    rig_assert_rows(r, a, 1, 60);
    assert_int_equal(0, rig_query(r, "SELECT COUNT(*) FROM sequence_gaps"));
    rig_assert_balanced(r);
    tide_poller_free(poller);
    rig_free(r);
}

/* A foreign agent is asked for each type at its interval, and for a watch again every ten minutes. */
static void a_foreign_agent_is_polled_at_the_types_interval(void **state)
{
    rig_script script;
    rig *r = make_foreign(state, &script, 5, NULL);
    rig_agent *a = &r->agents[0];
    tide_poller *poller = rig_poller_with(r, a, spans_only(r), 0);
    rig_poll_for(r, a, poller, 10 * SECOND_US);
    const int64_t pages = a->pages;
    rig_poll_for(r, a, poller, 10 * MINUTE_US);
    assert_in_range(a->pages - pages, 18, 24); /* every 30 s, with jitter */
    tide_poller_free(poller);
    rig_free(r);
}

/* A gap 10^8 wide is one interval. */
static void a_gap_a_hundred_million_wide_is_one_interval(void **state)
{
    rig_script script = {.count = 0};
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    rig_script_add(&script, 1);
    rig_script_add(&script, 100000002);
    rig_agent_script(a, &script);
    tide_poller *poller = rig_poller_with(r, a, spans_only(r), 0);
    rig_poll_for(r, a, poller, 15 * SECOND_US);
    assert_int_equal(100000002, rig_last_seq(r, a, "telemetry"));
    assert_int_equal(100000000, rig_query(r, "SELECT end_seq_id - start_seq_id + 1 FROM "
                                             "sequence_gaps WHERE status = 'detected'"));
    rig_assert_balanced(r);
    const tide_recover_options options = rig_recover_options(r);
    for (int i = 0; i < 3; i++) {
        rig_recover(r, &options);
        rig_advance(r, 6 * MINUTE_US);
    }
    assert_int_equal(0, rig_count_gaps(r, TIDE_GAP_DETECTED));
    rig_assert_balanced(r);
    tide_poller_free(poller);
    rig_free(r);
}

/* A gap of session S1 is open when the agent is wiped, and S2 starts at 1: the gap ends as lost, S2's rows are never taken for it. */
static void an_open_gap_ends_with_its_session(void **state)
{
    const uint64_t but[] = {4, 0};
    rig_script script;
    rig *r = make_foreign(state, &script, 7, but);
    rig_agent *a = &r->agents[0];
    tide_poller *poller = rig_poller_with(r, a, spans_only(r), 0);
    rig_poll_for(r, a, poller, 15 * SECOND_US);
    assert_int_equal(1, rig_count_gaps(r, TIDE_GAP_DETECTED));

    (void)snprintf(script.session_id, sizeof script.session_id, "legacy-session-2");
    rig_script_fill(&script, 5, NULL);
    rig_poll_for(r, a, poller, 2 * MINUTE_US);
    rig_assert_rows(r, a, 1, 5);
    assert_int_equal(11, count_rows(r));
    assert_int_equal(1, rig_count_gaps(r, TIDE_GAP_PERMANENT));
    assert_int_equal(0,
                     rig_count_gaps(r, TIDE_GAP_DETECTED) + rig_count_gaps(r, TIDE_GAP_RECOVERED));
    assert_contains(rig_log_text(r), "PERMANENT DATA LOSS");
    const tide_recover_options options = rig_recover_options(r);
    assert_int_equal(0, rig_recover(r, &options));
    rig_assert_balanced(r);
    tide_poller_free(poller);
    rig_free(r);
}

/* One record cannot be decoded: it is a dead letter with its bytes, the batch settles, the cursor moves. */
static void a_record_that_cannot_be_read_becomes_a_dead_letter(void **state)
{
    rig_script script;
    rig *r = make_foreign(state, &script, 5, NULL);
    rig_agent *a = &r->agents[0];
    script.rows[2].is_broken = true;
    tide_poller *poller = rig_poller_with(r, a, spans_only(r), 0);
    rig_poll_for(r, a, poller, MINUTE_US);
    assert_int_equal(5, rig_last_seq(r, a, "telemetry"));
    assert_int_equal(4, count_rows(r));
    assert_int_equal(1, rig_query(r, "SELECT COUNT(*) FROM dead_letters WHERE seq_id = 3"));
    assert_true(rig_query(r, "SELECT LENGTH(body) FROM dead_letters") > 0);
    assert_int_equal(0, rig_query(r, "SELECT COUNT(*) FROM sequence_gaps"));
    rig_assert_balanced(r);
    tide_poller_free(poller);
    rig_free(r);
}

/* ---- nonsense ---- */

/* Bad input: duplicate numbers, numbers out of order, of 0, from far ahead, above 2^63-1. Whatever comes is contained: the ledger
 * balance, no row is there twice, the checkpoint does not run away, and the poller goes on when the agent comes to its senses. */
static void nonsense_numbers_are_contained(void **state)
{
    static const uint64_t nonsense[][6] = {
        {4, 4, 5, 6, 7, 8},          {8, 7, 6, 5, 4, 3},
        {0, 4, 5, 6, 7, 8},          {4, 5, 6, 7, 8, (uint64_t)INT64_MAX + 1},
        {4, 5, 6, 7, 8, UINT64_MAX},
    };
    for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
        rig_script script;
        rig *r = make_foreign(state, &script, 3, NULL);
        rig_agent *a = &r->agents[0];
        (void)snprintf(a->name, sizeof a->name, "n%zu", i);
        (void)snprintf(script.session_id, sizeof script.session_id, "session-%zu", i);
        tide_poller *poller = rig_poller_with(r, a, spans_only(r), 0);
        rig_poll_for(r, a, poller, SECOND_US);
        assert_int_equal(3, rig_last_seq(r, a, "telemetry"));
        for (int j = 0; j < 6; j++)
            script.rows[script.count++] = (rig_row){.seq = nonsense[i][j]};
        rig_poll_for(r, a, poller, 2 * MINUTE_US);
        assert_in_range(rig_last_seq(r, a, "telemetry"), 3, 8);
        rig_script_fill(&script, 9, NULL);
        rig_poll_for(r, a, poller, 2 * MINUTE_US);
        rig_assert_rows(r, a, 1, 9);
        assert_int_equal(9, rig_last_seq(r, a, "telemetry"));
        rig_assert_balanced(r);
        tide_poller_free(poller);
        rig_free(r);
    }
}

/* Bad input: answers that are garbage, cut, without session, huge, or nothing for ever: nothing moves, it is told, and afterwards
 * everything is there. */
static void answers_that_are_none_move_nothing(void **state)
{
    static const rig_fault faults[] = {RIG_GARBAGE, RIG_CUT,     RIG_NO_SESSION, RIG_HUGE,
                                       RIG_SILENT,  RIG_REFUSES, RIG_LATE};
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    tide_poller *poller = rig_poller_with(r, a, spans_only(r), 0);
    rig_put(a, "telemetry", 10);
    rig_catch_up(r, a, poller, MINUTE_US);
    int64_t head = 10;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        const int64_t failed = r->failed;
        rig_put(a, "telemetry", 10);
        a->fault = faults[i];
        a->fault_count = -1;
        rig_poll_for(r, a, poller, 2 * MINUTE_US);
        assert_int_equal(head, rig_last_seq(r, a, "telemetry"));
        assert_true(r->failed > failed);
        a->fault = RIG_FINE;
        head += 10;
        rig_catch_up(r, a, poller, 2 * MINUTE_US);
        rig_assert_rows(r, a, 1, head);
    }
    assert_int_equal(0, rig_query(r, "SELECT COUNT(*) FROM sequence_gaps"));
    rig_assert_balanced(r);
    tide_poller_free(poller);
    rig_free(r);
}

/* No session id on pages, where the watch is sound: the answer is refused with a clear error. */
static void a_page_without_a_session_is_refused(void **state)
{
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    tide_poller *poller = rig_poller_with(r, a, spans_only(r), 0);
    rig_put(a, "telemetry", 10);
    int64_t wake_us;
    assert_ok(rig_turn(r, a, poller, &wake_us)); /* the watch */
    a->fault = RIG_NO_SESSION;
    a->fault_count = 1;
    assert_ok(rig_turn(r, a, poller, &wake_us));
    assert_contains(r->last_failure, "session");
    assert_int_equal(0, rig_last_seq(r, a, "telemetry"));
    assert_int_equal(0, count_rows(r));
    rig_catch_up(r, a, poller, MINUTE_US);
    rig_assert_rows(r, a, 1, 10);
    tide_poller_free(poller);
    rig_free(r);
}

/* An agent that names another session with every answer gets a position for each and not one row twice in any. */
static void sessions_that_change_with_every_answer_are_contained(void **state)
{
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    rig_put(a, "telemetry", 10);
    tide_poller *poller = rig_poller_with(r, a, spans_only(r), 0);
    rig_catch_up(r, a, poller, MINUTE_US);
    a->fault = RIG_OTHER_SESSION;
    a->fault_count = 12;
    int64_t wake_us;
    for (int i = 0; i < 30; i++)
        if (rig_turn(r, a, poller, &wake_us) == TIDE_NONE)
            rig_advance(r, wake_us - r->t->clock.mono_us);
    a->fault = RIG_FINE;
    rig_catch_up(r, a, poller, 5 * MINUTE_US);
    rig_assert_rows(r, a, 1, 10);
    assert_int_equal(rig_query(r, "SELECT COUNT(*) FROM spans"),
                     rig_query(r, "SELECT COUNT(*) FROM (SELECT DISTINCT session_id, epoch, seq_id "
                                  "FROM spans) AS d"));
    assert_ok_err(tide_audit(r->sink, NULL, NULL, NULL, NULL, NULL, NULL, &r->err), &r->err);
    tide_poller_free(poller);
    rig_free(r);
}

/* ---- an agent of ours without the watch call ---- */

/* It is polled at intervals, and its state is believed all the same: nothing is held, pages follow one another. */
static void an_agent_without_a_watch_is_polled_at_intervals(void **state)
{
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    a->has_no_watch = true;
    rig_put(a, "telemetry", 300);
    a->answer_max = 3000;
    tide_poller *poller = rig_poller_with(r, a, spans_only(r), 0);
    rig_poll_for(r, a, poller, 5 * SECOND_US);
    rig_assert_rows(r, a, 1, 300);
    rig_put(a, "telemetry", 3);
    rig_poll_for(r, a, poller, 40 * SECOND_US);
    rig_assert_rows(r, a, 1, 303);
    rig_assert_balanced(r);
    tide_poller_free(poller);
    rig_free(r);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(a_row_that_commits_late_is_fetched_and_is_no_gap),
        STORE_CASE(the_grace_is_measured_on_the_colonys_clock),
        STORE_CASE(a_hole_becomes_a_gap_and_is_recovered),
        STORE_CASE(rows_below_the_first_contact_are_stored_however_late),
        STORE_CASE_SQLITE(once_waits_for_holes_no_longer_than_their_grace),
        STORE_CASE(a_backlog_behind_a_hole_is_read_while_it_is_held),
        STORE_CASE_SQLITE(a_foreign_agent_is_polled_at_the_types_interval),
        STORE_CASE(a_gap_a_hundred_million_wide_is_one_interval),
        STORE_CASE(an_open_gap_ends_with_its_session),
        STORE_CASE(a_record_that_cannot_be_read_becomes_a_dead_letter),
        STORE_CASE_SQLITE(once_ends_when_no_such_call_is_the_last_answer),
        STORE_CASE_SQLITE(an_agent_with_small_pages_is_read_to_its_end),
        STORE_CASE_SQLITE(another_session_of_an_agent_is_read_at_once),
        STORE_CASE_SQLITE(refused_answers_are_told_in_words),
        STORE_CASE_SQLITE(nonsense_numbers_are_contained),
        STORE_CASE(answers_that_are_none_move_nothing),
        STORE_CASE_SQLITE(a_page_without_a_session_is_refused),
        STORE_CASE(sessions_that_change_with_every_answer_are_contained),
        STORE_CASE_SQLITE(an_agent_without_a_watch_is_polled_at_intervals),
    };
    return cmocka_run_group_tests_name("colony-poller-foreign", tests, NULL, NULL);
}
