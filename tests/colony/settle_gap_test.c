/* Recovery of gaps, and what operators do by hand. */
#include "colony/settle.h"

#include <string.h>

#include "base/cleanup.h"
#include "colony/settle_fixture.h"
#include "support/check.h"

enum { ATTEMPT_MAX = 3 };

static ledger L;

static int set_up(void **state)
{
    (void)state;
    ledger_init(&L);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    ledger_done(&L);
    return 0;
}

/* 1-3 and 10 stored, 4-9 an open gap. */
static int64_t open_4_to_9(void)
{
    answer a;
    answer_begin(&a, "s1");
    answer_record_run(&a, 1, 3);
    answer_record(&a, 10, 10);
    answer_state(&a, 1, 1, 10, 10);
    assert_ok(ledger_poll(&L, 0, &a));
    assert_gaps(&L, "4-9 detected missing");
    return ledger_gap_at(&L, 1, 4)->id;
}

static int64_t open_foreign_4_to_9(void)
{
    answer a;
    for (int i = 0; i < 2; i++) {
        answer_begin(&a, "s1");
        answer_foreign_run(&a, 1, 3);
        answer_foreign(&a, 10, 10);
        assert_ok(ledger_poll(&L, 0, &a));
        L.mono_us += INT64_C(10) * SECOND;
    }
    assert_gaps(&L, "4-9 detected missing");
    return ledger_gap_at(&L, 1, 4)->id;
}

static tide_ledger totals(void)
{
    tide_ledger out;
    ledger_totals(&L, ledger_at(&L), &out);
    assert_int_equal(out.unexplained, 0);
    return out;
}

/* ---- agents with state ---- */

/* Recovered only for ids actually stored; the rest split off with the agent's stated reason. What it does not tell was
 * rolled back, and is no loss. */
static void an_answer_takes_a_gap_apart(void **state)
{
    (void)state;
    const int64_t id = open_4_to_9();
    answer a;
    answer_begin(&a, "s1");
    answer_record_run(&a, 5, 6);
    answer_dead(&a, 7);
    answer_state(&a, 1, 1, 9, 10);
    answer_hole(&a, 8, 8, "evicted");
    assert_ok(ledger_recover(&L, id, 3, ATTEMPT_MAX, &a));
    assert_gaps(&L, "4-4 void rolled back; 5-7 recovered missing; 8-8 permanent evicted; "
                    "9-9 void rolled back");
    assert_int_equal(ledger_gap_at(&L, 1, 4)->id, id);
    assert_int_equal(ledger_gap_at(&L, 1, 5)->recovered_at_us, L.now_us);
    assert_int_equal(ledger_gap_at(&L, 1, 8)->attempts, 1);
    const tide_ledger b = totals();
    assert_int_equal(b.stored, 6);
    assert_int_equal(b.dead, 1);
    assert_int_equal(b.voided, 2);
    assert_int_equal(b.lost, 1);
    assert_int_equal(L.last.permanent, 1);
    assert_int_equal(L.last.voided, 2);
    assert_int_equal(L.last.recovered, 1);
    assert_int_equal(ledger_at(&L)->last_seq, 10);
}

/* Wide gaps are worked on in pieces: what the answer did not reach is a gap of its own. */
static void what_an_answer_did_not_reach_stays_open(void **state)
{
    (void)state;
    const int64_t id = open_4_to_9();
    answer a;
    answer_begin(&a, "s1");
    answer_record_run(&a, 4, 5);
    answer_state(&a, 1, 1, 6, 10);
    assert_ok(ledger_recover(&L, id, 3, ATTEMPT_MAX, &a));
    assert_gaps(&L, "4-5 recovered missing; 6-6 void rolled back; 7-9 detected missing");
    assert_int_equal(ledger_gap_at(&L, 1, 7)->attempts, 0);
    answer_begin(&a, "s1"); /* asked for the end alone */
    answer_record(&a, 9, 9);
    answer_state(&a, 1, 1, 9, 10);
    assert_ok(ledger_recover(&L, ledger_gap_at(&L, 1, 7)->id, 8, ATTEMPT_MAX, &a));
    assert_gaps(&L, "4-5 recovered missing; 6-6 void rolled back; 7-8 detected missing; "
                    "9-9 recovered missing");
}

/* An agent that answers and never comes to the point is not asked for ever. */
static void an_agent_that_scans_nothing_uses_up_the_tries(void **state)
{
    (void)state;
    const int64_t id = open_4_to_9();
    for (int i = 0; i < ATTEMPT_MAX; i++) {
        assert_int_equal(ledger_gap(&L, id)->status, TIDE_GAP_DETECTED);
        answer a;
        answer_begin(&a, "s1");
        answer_state(&a, 1, 1, 3, 10);
        assert_ok(ledger_recover(&L, id, 3, ATTEMPT_MAX, &a));
    }
    assert_gaps(&L, "4-9 permanent unanswered");
}

/* Records that have no readable number: as many as are missing are those; otherwise they are kept, and the numbers are lost. */
static void undecodable_records_end_a_gap(void **state)
{
    (void)state;
    const int64_t id = open_4_to_9();
    answer a;
    answer_begin(&a, "s1");
    answer_dead(&a, 0);
    answer_record(&a, 5, 5);
    answer_dead(&a, 0);
    answer_state(&a, 1, 1, 6, 10);
    assert_ok(ledger_recover(&L, id, 3, ATTEMPT_MAX, &a));
    assert_gaps(&L, "4-6 recovered missing; 7-9 detected missing");
    assert_int_equal(totals().dead, 2);
    answer_begin(&a, "s1");
    answer_dead(&a, 0);
    answer_state(&a, 1, 1, 9, 10);
    assert_ok(ledger_recover(&L, ledger_gap_at(&L, 1, 7)->id, 6, ATTEMPT_MAX, &a));
    assert_gaps(&L, "4-6 recovered missing; 7-9 permanent undecodable");
    assert_int_equal(L.letters, 1);
}

/* Rows of another session are never taken for a gap of this one; nor those of another history. */
static void other_histories_recover_nothing(void **state)
{
    (void)state;
    const int64_t id = open_4_to_9();
    const tide_gap before = *ledger_gap(&L, id);
    answer a;
    answer_begin(&a, "s2");
    answer_record_run(&a, 4, 9);
    answer_state(&a, 1, 1, 9, 20);
    assert_ok(ledger_recover(&L, id, 3, ATTEMPT_MAX, &a));
    assert_gaps(&L, "4-9 permanent session changed");
    assert_stored(&L, "1-3 10");

    *ledger_gap(&L, id) = before;
    answer_begin(&a, "s1");
    answer_record_run(&a, 4, 9);
    answer_state(&a, 2, 1, 9, 20);
    answer_number(&a, 11, TIDE_FEED_STANDING_DIVERGED);
    answer_number(&a, 12, 3);
    assert_ok(ledger_recover(&L, id, 3, ATTEMPT_MAX, &a));
    assert_gaps(&L, "4-9 permanent diverged");

    *ledger_gap(&L, id) = before;
    answer_begin(&a, "s1"); /* 7 and above were given out again by a later epoch */
    answer_record_run(&a, 4, 9);
    answer_state(&a, 2, 1, 9, 20);
    answer_number(&a, 16, 7);
    assert_ok(ledger_recover(&L, id, 3, ATTEMPT_MAX, &a));
    assert_gaps(&L, "4-6 recovered missing; 7-9 permanent restored");
    assert_stored(&L, "1-6 10");

    answer_begin(&a, "s1"); /* an epoch below ours */
    answer_state(&a, 1, 1, 9, 20);
    ledger_source(&L, 1)->position.epoch = 2;
    assert_status(TIDE_E_CONFLICT,
                  ledger_recover(&L, ledger_gap_at(&L, 1, 7)->id, 6, ATTEMPT_MAX, &a));
    ledger_source(&L, 1)->position.epoch = 1;
}

/* ---- foreign agents ---- */

/* Only ids inside the gap are kept; what does not come is asked for again, three times at most. */
static void a_foreign_gap_is_asked_for_three_times(void **state)
{
    (void)state;
    const int64_t id = open_foreign_4_to_9();
    answer a;
    answer_begin(&a, "s1");
    answer_foreign(&a, 5, 5);
    answer_foreign_run(&a, 10, 14); /* behind the gap: not asked for */
    assert_ok(ledger_recover(&L, id, 3, ATTEMPT_MAX, &a));
    assert_gaps(&L, "4-4 detected missing; 5-5 recovered missing; 6-9 detected missing");
    assert_stored(&L, "1-3 5 10");
    assert_int_equal(ledger_gap(&L, id)->attempts, 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ledger_gap(&L, id)->status, TIDE_GAP_DETECTED);
        answer_begin(&a, "s1");
        answer_foreign(&a, 10, 10);
        assert_ok(ledger_recover(&L, id, 3, ATTEMPT_MAX, &a));
    }
    assert_int_equal(ledger_gap(&L, id)->status, TIDE_GAP_PERMANENT);
    assert_string_equal(ledger_gap(&L, id)->reason, "retention");
}

/* Lower ids are still served: the number was never used. Presumed, and asked again; what comes then is stored. */
static void a_foreign_gap_above_served_numbers_is_void(void **state)
{
    (void)state;
    const int64_t id = open_foreign_4_to_9();
    answer a;
    for (int i = 0; i < ATTEMPT_MAX; i++) {
        answer_begin(&a, "s1");
        answer_foreign_run(&a, 2, 3);
        answer_foreign(&a, 10, 10);
        assert_ok(ledger_recover(&L, id, 1, ATTEMPT_MAX, &a));
    }
    assert_gaps(&L, "4-9 void presumed");
    assert_int_equal(totals().voided, 6);
    assert_int_equal(L.last.voided, 1);
    answer_begin(&a, "s1");
    answer_foreign(&a, 7, 7);
    answer_foreign(&a, 10, 10);
    assert_ok(ledger_recover(&L, id, 3, ATTEMPT_MAX, &a));
    assert_gaps(&L, "4-6 void presumed; 7-7 recovered presumed; 8-9 void presumed");
    assert_stored(&L, "1-3 7 10");
}

/* What lies above the highest record of a page was not looked at: it may be a short page. */
static void a_foreign_page_speaks_only_of_what_it_reached(void **state)
{
    (void)state;
    const int64_t id = open_foreign_4_to_9();
    answer a;
    answer_begin(&a, "s1");
    answer_foreign(&a, 4, 4);
    answer_foreign(&a, 6, 6);
    assert_ok(ledger_recover(&L, id, 3, 1, &a));
    assert_gaps(&L, "4-4 recovered missing; 5-5 permanent retention; 6-6 recovered missing; "
                    "7-9 detected missing");
}

/* An empty answer: nothing is left of it. */
static void a_foreign_agent_that_has_nothing_left_has_lost_it(void **state)
{
    (void)state;
    const int64_t id = open_foreign_4_to_9();
    for (int i = 0; i < ATTEMPT_MAX; i++) {
        answer a;
        answer_begin(&a, "s1");
        assert_ok(ledger_recover(&L, id, 3, ATTEMPT_MAX, &a));
    }
    assert_gaps(&L, "4-9 permanent retention");
}

/* An agent that is away costs tries, and the gap only when it has been away too long. */
static void an_agent_that_is_away_ends_a_gap_late(void **state)
{
    (void)state;
    const int64_t day_us = INT64_C(86400) * SECOND;
    const int64_t id = open_4_to_9();
    tide_error err;
    for (int i = 0; i < 5; i++) {
        tide_change change;
        L.now_us += day_us / 4;
        assert_ok_err(tide_settle_miss(&change, ledger_at(&L), ledger_gap(&L, id), "no route",
                                       ATTEMPT_MAX, day_us, L.now_us, &err),
                      &err);
        ledger_apply(&L, &change);
        const tide_gap *gap = ledger_gap(&L, id);
        assert_int_equal(gap->attempts, i + 1);
        assert_string_equal(gap->evidence, "no route");
        assert_int_equal(gap->status, i < 3 ? TIDE_GAP_DETECTED : TIDE_GAP_PERMANENT);
    }
    assert_gaps(&L, "4-9 permanent unreachable");
}

/* ---- operators ---- */

/* Rows read again are recognised; reading goes on where it had been, when it has caught up. */
static void a_reset_reads_again_and_stores_nothing_twice(void **state)
{
    (void)state;
    tide_error err;
    tide_change change;
    answer a;
    answer_begin(&a, "s1");
    answer_record_run(&a, 1, 8);
    answer_state(&a, 1, 1, 8, 20);
    assert_ok(ledger_poll(&L, 0, &a));
    assert_ok_err(tide_settle_move(&change, ledger_at(&L), 0, L.now_us, &err), &err);
    assert_contains(change.note, "moved from 8 to 0");
    L.may_go_back = true;
    ledger_apply(&L, &change);
    assert_int_equal(ledger_at(&L)->last_seq, 0);
    assert_int_equal(tide_cursor_contiguous(&ledger_at(&L)->cursor), 8);
    for (int64_t last = 3; last <= 9; last += 3) {
        answer_begin(&a, "s1");
        answer_record_run(&a, last - 2, last);
        answer_state(&a, 1, 1, last, 20);
        assert_ok(ledger_poll(&L, last - 3, &a));
        assert_int_equal(ledger_at(&L)->last_seq, last);
    }
    assert_stored(&L, "1-9");
    assert_status(TIDE_NONE, tide_settle_move(&change, ledger_at(&L), 9, L.now_us, &err));
}

/* "From the start" of a foreign agent is 1, also where its first page began higher: what has come since is stored, and counted. */
static void a_reset_reads_what_a_foreign_agent_shows_below_the_first_page(void **state)
{
    (void)state;
    tide_error err;
    tide_change change;
    answer a;
    for (int i = 0; i < 2; i++) {
        answer_begin(&a, "s1");
        answer_foreign_run(&a, 7, 8);
        assert_ok(ledger_poll(&L, 0, &a));
        L.mono_us += INT64_C(10) * SECOND;
    }
    assert_int_equal(totals().before, 6);
    assert_ok_err(tide_settle_move(&change, ledger_at(&L), 0, L.now_us, &err), &err);
    L.may_go_back = true;
    ledger_apply(&L, &change);
    assert_int_equal(ledger_at(&L)->last_seq, 0);
    answer_begin(&a, "s1");
    answer_foreign_run(&a, 2, 3);
    answer_foreign_run(&a, 5, 8);
    assert_ok(ledger_poll(&L, 0, &a));
    assert_stored(&L, "2-3 5-8");
    assert_gaps(&L, "2-3 recovered missing; 4-4 detected missing; 5-6 recovered missing");
    assert_int_equal(totals().before, 1);
    assert_int_equal(ledger_at(&L)->last_seq, 8);
}

/* A foreign agent that has nothing above: reading again is over. */
static void an_empty_answer_ends_a_reset(void **state)
{
    (void)state;
    tide_error err;
    tide_change change;
    answer a;
    answer_begin(&a, "s1");
    answer_foreign_run(&a, 1, 8);
    assert_ok(ledger_poll(&L, 0, &a));
    assert_ok_err(tide_settle_move(&change, ledger_at(&L), 5, L.now_us, &err), &err);
    L.may_go_back = true;
    ledger_apply(&L, &change);
    answer_begin(&a, "s1");
    assert_ok(ledger_poll(&L, 5, &a));
    assert_int_equal(ledger_at(&L)->last_seq, 8);
}

/* Moving forward records the skipped range as permanent (operator). */
static void moving_forward_records_what_is_skipped(void **state)
{
    (void)state;
    tide_error err;
    tide_change change;
    answer a;
    answer_begin(&a, "s1");
    answer_record_run(&a, 1, 3);
    answer_state(&a, 1, 1, 3, 20);
    assert_ok(ledger_poll(&L, 0, &a));
    assert_status(TIDE_E_INVALID, tide_settle_move(&change, ledger_at(&L), 21, L.now_us, &err));
    assert_status(TIDE_E_INVALID, tide_settle_move(&change, ledger_at(&L), -1, L.now_us, &err));
    assert_ok_err(tide_settle_move(&change, ledger_at(&L), 15, L.now_us, &err), &err);
    ledger_apply(&L, &change);
    assert_gaps(&L, "4-15 permanent operator");
    assert_int_equal(ledger_at(&L)->last_seq, 15);
    assert_int_equal(totals().unread, 5);
    assert_status(TIDE_E_INVALID, tide_settle_move(&change, &L.empty, 0, L.now_us, &err));
}

static void closing_gives_everything_up(void **state)
{
    (void)state;
    tide_error err;
    tide_change change;
    (void)open_4_to_9();
    assert_ok_err(tide_settle_close(&change, ledger_at(&L), "removed", L.now_us, &err), &err);
    assert_string_equal(change.to.session_id, "");
    ledger_apply(&L, &change);
    assert_int_equal(L.current, -1);
    assert_string_equal(ledger_gap_at(&L, 1, 4)->reason, "removed");
    assert_int_equal(ledger_gap_at(&L, 1, 4)->status, TIDE_GAP_PERMANENT);
    assert_status(TIDE_E_INVALID, tide_settle_close(&change, &ledger_source(&L, 1)->position,
                                                    "removed", L.now_us, &err));
}

static void a_gap_is_given_up_and_tried_again_by_hand(void **state)
{
    (void)state;
    tide_error err;
    tide_change change;
    const int64_t id = open_4_to_9();
    assert_status(TIDE_NONE,
                  tide_settle_retry(&change, ledger_at(&L), ledger_gap(&L, id), L.now_us, &err));
    assert_ok_err(tide_settle_accept(&change, ledger_at(&L), ledger_gap(&L, id), "known outage",
                                     L.now_us, &err),
                  &err);
    ledger_apply(&L, &change);
    assert_gaps(&L, "4-9 permanent operator");
    assert_string_equal(ledger_gap(&L, id)->evidence, "known outage");
    assert_int_equal(L.last.permanent, 1);
    assert_status(TIDE_NONE, tide_settle_accept(&change, ledger_at(&L), ledger_gap(&L, id), "",
                                                L.now_us, &err));
    assert_ok_err(tide_settle_retry(&change, ledger_at(&L), ledger_gap(&L, id), L.now_us, &err),
                  &err);
    ledger_apply(&L, &change);
    assert_gaps(&L, "4-9 detected missing");
    assert_int_equal(ledger_gap(&L, id)->attempts, 0);

    answer a;
    answer_begin(&a, "s1");
    answer_record_run(&a, 4, 9);
    answer_state(&a, 1, 1, 9, 10);
    assert_ok(ledger_recover(&L, id, 3, ATTEMPT_MAX, &a));
    assert_status(TIDE_E_INVALID,
                  tide_settle_retry(&change, ledger_at(&L), ledger_gap(&L, id), L.now_us, &err));
    tide_gap other = *ledger_gap(&L, id);
    other.source_id = 7;
    assert_status(TIDE_E_INVALID,
                  tide_settle_accept(&change, ledger_at(&L), &other, "", L.now_us, &err));
}

static void states_have_their_names(void **state)
{
    (void)state;
    assert_string_equal(tide_gap_status_name(TIDE_GAP_DETECTED), "detected");
    assert_string_equal(tide_gap_status_name(TIDE_GAP_RECOVERING), "recovering");
    assert_string_equal(tide_gap_status_name(TIDE_GAP_RECOVERED), "recovered");
    assert_string_equal(tide_gap_status_name(TIDE_GAP_PERMANENT), "permanent");
    assert_string_equal(tide_gap_status_name(TIDE_GAP_VOID), "void");
    assert_true(tide_gap_is_open(TIDE_GAP_DETECTED) && tide_gap_is_open(TIDE_GAP_RECOVERING));
    assert_false(tide_gap_is_open(TIDE_GAP_VOID) || tide_gap_is_open(TIDE_GAP_PERMANENT) ||
                 tide_gap_is_open(TIDE_GAP_RECOVERED));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        CASE(an_answer_takes_a_gap_apart),
        CASE(what_an_answer_did_not_reach_stays_open),
        CASE(an_agent_that_scans_nothing_uses_up_the_tries),
        CASE(undecodable_records_end_a_gap),
        CASE(other_histories_recover_nothing),
        CASE(a_foreign_gap_is_asked_for_three_times),
        CASE(a_foreign_gap_above_served_numbers_is_void),
        CASE(a_foreign_page_speaks_only_of_what_it_reached),
        CASE(a_foreign_agent_that_has_nothing_left_has_lost_it),
        CASE(an_agent_that_is_away_ends_a_gap_late),
        CASE(a_reset_reads_again_and_stores_nothing_twice),
        CASE(a_reset_reads_what_a_foreign_agent_shows_below_the_first_page),
        CASE(an_empty_answer_ends_a_reset),
        CASE(moving_forward_records_what_is_skipped),
        CASE(closing_gives_everything_up),
        CASE(a_gap_is_given_up_and_tried_again_by_hand),
        CASE(states_have_their_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
