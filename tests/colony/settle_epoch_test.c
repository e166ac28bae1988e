/* The history that was followed ends: sessions, epochs, divergence. */
#include "colony/settle.h"

#include <string.h>

#include "base/cleanup.h"
#include "colony/settle_fixture.h"
#include "support/check.h"

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

/* Records first..last of head numbers in epoch 1 of session s1. */
static void read_run(int64_t first, int64_t last, int64_t head)
{
    answer a;
    answer_begin(&a, "s1");
    answer_record_run(&a, first, last);
    answer_state(&a, 1, 1, last, head);
    answer_epoch(&a, 1, 1, "one", "created");
    assert_ok(ledger_poll(&L, first - 1, &a));
}

static void give_point(int64_t seq)
{
    const unsigned char digest[TIDE_FEED_DIGEST_SIZE] = {(unsigned char)seq, 1};
    tide_position_point(&ledger_source(&L, ledger_at(&L)->source_id)->position, seq, digest);
}

static tide_ledger ledger_of(int64_t source_id)
{
    tide_ledger out;
    ledger_totals(&L, &ledger_source(&L, source_id)->position, &out);
    assert_int_equal(out.unexplained, 0);
    return out;
}

/* ---- sessions ---- */

/* Telemetry document: session_id change triggers checkpoint reset to 0. The old session's gaps and holes are lost, and rows of the new
 * one are never taken for them. */
static void a_new_session_closes_the_old_one_and_begins_at_its_first_number(void **state)
{
    (void)state;
    answer a;
    answer_begin(&a, "s1");
    answer_record_run(&a, 1, 3);
    answer_record_run(&a, 6, 7);
    answer_state(&a, 1, 1, 7, 12);
    assert_ok(ledger_poll(&L, 0, &a)); /* 4-5 an open gap, 8-12 unread */
    answer_begin(&a, "s1");
    answer_record(&a, 10, 10);
    answer_state(&a, 1, 1, 10, 12);
    assert_ok(ledger_poll(&L, 9, &a)); /* 8-9 held */

    answer_begin(&a, "s2");
    answer_record_run(&a, 11, 20);
    answer_state(&a, 1, 1, 20, 20);
    assert_ok(ledger_poll(&L, 10, &a));
    assert_true(L.last.is_closing);
    assert_int_equal(L.last.row_count, 0);
    const tide_position *closed = &ledger_source(&L, 1)->position;
    assert_string_equal(closed->closed_reason, "session changed");
    assert_int_equal(closed->closed_at_us, L.now_us);
    tide_ledger b = ledger_of(1);
    assert_int_equal(b.stored, 6);
    assert_int_equal(b.lost, 6);
    assert_int_equal(b.pending, 0);
    assert_string_equal(ledger_gap_at(&L, 1, 4)->reason, "session changed");
    assert_int_equal(ledger_gap_at(&L, 1, 4)->status, TIDE_GAP_PERMANENT);
    assert_int_equal(ledger_gap_at(&L, 1, 8)->status, TIDE_GAP_PERMANENT);

    assert_string_equal(ledger_at(&L)->session_id, "s2");
    assert_int_equal(ledger_at(&L)->last_seq, 0);
    assert_int_equal(ledger_at(&L)->first, 1);
    answer_begin(&a, "s2");
    answer_record_run(&a, 1, 20);
    answer_state(&a, 1, 1, 20, 20);
    assert_ok(ledger_poll(&L, 0, &a));
    assert_stored(&L, "1-20");
    assert_gaps(&L, "");
}

/* A colony that knows the agent: what the new session has dropped before we came is lost, at once. */
static void what_a_new_session_has_dropped_is_lost(void **state)
{
    (void)state;
    read_run(1, 3, 3);
    answer a;
    answer_begin(&a, "s2");
    answer_state(&a, 1, 101, 110, 110);
    assert_ok(ledger_poll(&L, 3, &a));
    answer_begin(&a, "s2");
    answer_record_run(&a, 101, 110);
    answer_state(&a, 1, 101, 110, 110);
    answer_hole(&a, 1, 100, "expired");
    assert_ok(ledger_poll(&L, 0, &a));
    assert_gaps(&L, "1-100 permanent expired");
}

/* A foreign agent that was wiped: the same, without anything being told. */
static void a_wiped_foreign_agent_begins_at_1(void **state)
{
    (void)state;
    answer a;
    answer_begin(&a, "s1");
    answer_foreign_run(&a, 5, 6);
    assert_ok(ledger_poll(&L, 0, &a));
    answer_begin(&a, "s2");
    assert_ok(ledger_poll(&L, 6, &a));
    assert_int_equal(ledger_of(1).first, 5); /* decided when it closed */
    assert_int_equal(ledger_of(1).lost, 0);
    assert_int_equal(ledger_at(&L)->first, 1);
    answer_begin(&a, "s2");
    answer_foreign_run(&a, 3, 4);
    assert_ok(ledger_poll(&L, 0, &a));
    L.mono_us += INT64_C(10) * SECOND;
    answer_begin(&a, "s2");
    answer_foreign_run(&a, 3, 4);
    assert_ok(ledger_poll(&L, 0, &a));
    assert_gaps(&L, "1-2 detected missing");
}

/* A session that was left comes back: it is read again, nothing is stored twice, what was given up and still comes is recovered. */
static void a_session_that_comes_back_is_opened_again(void **state)
{
    (void)state;
    read_run(1, 5, 8);
    answer a;
    answer_begin(&a, "s2");
    answer_state(&a, 1, 1, 0, 0);
    assert_ok(ledger_poll(&L, 5, &a));
    assert_int_equal(ledger_of(1).lost, 3);

    answer_begin(&a, "s1");
    answer_state(&a, 1, 1, 0, 8);
    TIDE_CLEANUP(tide_reply_done) tide_reply reply = {.len = 0};
    tide_error err;
    assert_ok_err(answer_read(&a, &reply, &err), &err);
    tide_change change;
    L.may_go_back = true;
    assert_ok_err(tide_settle_return(&change, ledger_at(&L), &ledger_source(&L, 1)->position,
                                     &reply, L.now_us, &err),
                  &err);
    answer_done(&a);
    ledger_apply(&L, &change);
    assert_int_equal(ledger_at(&L)->source_id, 1);
    assert_int_equal(ledger_at(&L)->last_seq, 0);
    read_run(1, 8, 8);
    assert_stored(&L, "1-8");
    assert_gaps(&L, "6-8 recovered session changed");
    assert_int_equal(ledger_at(&L)->last_seq, 8);

    /* It is not opened twice. */
    assert_status(TIDE_E_INVALID,
                  tide_settle_return(&change, ledger_at(&L), &ledger_source(&L, 1)->position,
                                     &reply, L.now_us, &err));
}

/* An agent that was removed and added again, with the session it had. */
static void an_agent_that_was_removed_goes_on_when_it_comes_back(void **state)
{
    (void)state;
    tide_error err;
    tide_change change;
    read_run(1, 5, 8);
    assert_ok_err(tide_settle_close(&change, ledger_at(&L), "removed", L.now_us, &err), &err);
    ledger_apply(&L, &change);
    assert_int_equal(L.current, -1);
    answer a;
    answer_begin(&a, "s1");
    TIDE_CLEANUP(tide_reply_done) tide_reply reply = {.len = 0};
    assert_ok_err(answer_read(&a, &reply, &err), &err);
    L.may_go_back = true;
    assert_ok_err(tide_settle_return(&change, ledger_at(&L), &ledger_source(&L, 1)->position,
                                     &reply, L.now_us, &err),
                  &err);
    answer_done(&a);
    assert_false(change.is_closing);
    ledger_apply(&L, &change);
    read_run(1, 8, 8);
    assert_stored(&L, "1-8");
    assert_gaps(&L, "6-8 recovered removed");
}

/* ---- epochs ---- */

/* An epoch owns its numbers up to the next one's first: they are read for it, then the next begins. */
static void a_later_epoch_begins_when_the_earlier_one_is_read(void **state)
{
    (void)state;
    read_run(1, 5, 5);
    give_point(5);
    answer a;
    answer_begin(&a, "s1");
    answer_record_run(&a, 6, 8);
    answer_state(&a, 1, 1, 8, 20);
    answer_epoch(&a, 1, 1, "one", "created");
    answer_epoch(&a, 2, 11, "two", "copied");
    answer_epoch(&a, 3, 11, "three", "copied"); /* epoch 2 had no number */
    answer_epoch(&a, 4, 16, "four", "copied");
    assert_ok(ledger_poll(&L, 5, &a));
    assert_false(L.last.is_closing);
    assert_int_equal(ledger_at(&L)->head, 10);

    answer_begin(&a, "s1");
    answer_record(&a, 9, 9); /* 10 is missing: a gap that stays open */
    answer_record_run(&a, 11, 20);
    answer_state(&a, 1, 1, 20, 20);
    answer_epoch(&a, 1, 1, "one", "created");
    answer_epoch(&a, 2, 11, "two", "copied");
    answer_epoch(&a, 3, 11, "three", "copied");
    answer_epoch(&a, 4, 16, "four", "copied");
    assert_ok(ledger_poll(&L, 8, &a));
    assert_true(L.last.is_closing);
    assert_int_equal(ledger_of(1).stored, 9);
    assert_int_equal(ledger_of(1).open_gaps, 1);
    assert_int_equal(ledger_of(1).head, 10);
    assert_int_equal(ledger_at(&L)->epoch, 3);
    assert_string_equal(ledger_at(&L)->epoch_id, "three");
    assert_int_equal(ledger_at(&L)->first, 11);
    assert_int_equal(ledger_at(&L)->last_seq, 10);
    assert_int_equal(ledger_at(&L)->head, 15);
    assert_int_equal(ledger_at(&L)->point_count, 1); /* 5 is of both */

    answer_begin(&a, "s1");
    answer_record_run(&a, 11, 20);
    answer_state(&a, 1, 1, 20, 20);
    answer_epoch(&a, 3, 11, "three", "copied");
    answer_epoch(&a, 4, 16, "four", "copied");
    assert_ok(ledger_poll(&L, 10, &a));
    assert_int_equal(ledger_of(2).stored, 5);
    assert_int_equal(ledger_at(&L)->epoch, 4);
    assert_int_equal(ledger_at(&L)->first, 16);

    /* The gap of the closed epoch is recovered where it belongs. */
    answer_begin(&a, "s1");
    answer_record(&a, 10, 10);
    answer_state(&a, 1, 1, 10, 20);
    answer_epoch(&a, 1, 1, "one", "created");
    answer_epoch(&a, 3, 11, "three", "copied");
    answer_epoch(&a, 4, 16, "four", "copied");
    assert_ok(ledger_recover(&L, ledger_gap_at(&L, 1, 10)->id, 9, 3, &a));
    assert_int_equal(ledger_of(1).stored, 10);
    assert_int_equal(ledger_of(1).pending, 0);
    assert_int_not_equal(ledger_source(&L, 1)->position.closed_at_us, 0);
}

/* First contact with an agent that has had several epochs: each number is read for its own. */
static void first_contact_begins_in_the_epoch_of_the_oldest_number(void **state)
{
    (void)state;
    answer a;
    answer_begin(&a, "s1");
    answer_record_run(&a, 8, 20);
    answer_state(&a, 1, 8, 20, 20);
    answer_epoch(&a, 1, 1, "one", "created");
    answer_epoch(&a, 2, 11, "two", "restored");
    assert_ok(ledger_poll(&L, 0, &a));
    assert_int_equal(ledger_at(&L)->epoch, 1);
    assert_stored(&L, "8-10");
    answer_begin(&a, "s1");
    answer_record_run(&a, 11, 20);
    answer_state(&a, 1, 8, 20, 20);
    answer_epoch(&a, 1, 1, "one", "created");
    answer_epoch(&a, 2, 11, "two", "restored");
    assert_ok(ledger_poll(&L, 10, &a));
    assert_int_equal(ledger_at(&L)->epoch, 2);
    answer_begin(&a, "s1");
    answer_record_run(&a, 11, 20);
    answer_state(&a, 2, 8, 20, 20);
    answer_number(&a, 16, 11);
    assert_ok(ledger_poll(&L, 10, &a));
    assert_stored(&L, "11-20");
}

/* Restored to before what it had stated, but not before what we had read: the rest is lost (restored). */
static void what_was_stated_and_cut_off_is_lost(void **state)
{
    (void)state;
    read_run(1, 5, 9);
    answer a;
    answer_begin(&a, "s1");
    answer_record_run(&a, 6, 7);
    answer_state(&a, 2, 1, 7, 7);
    answer_epoch(&a, 1, 1, "one", "created");
    answer_epoch(&a, 2, 6, "two", "restored");
    assert_ok(ledger_poll(&L, 5, &a));
    assert_string_equal(ledger_source(&L, 1)->position.closed_reason, "restored");
    assert_int_equal(ledger_of(1).lost, 4);
    assert_string_equal(ledger_gap_at(&L, 1, 6)->reason, "restored");
    assert_int_equal(ledger_at(&L)->first, 6);
    answer_begin(&a, "s1");
    answer_record(&a, 6, 600); /* another record of the same number, in another epoch */
    answer_record(&a, 7, 700);
    answer_state(&a, 2, 1, 7, 7);
    answer_number(&a, 16, 6);
    assert_ok(ledger_poll(&L, 5, &a));
    assert_stored(&L, "6-7");
}

/* Shorter than what we had read, and the agent cannot judge our points: its epoch says where it was cut. */
static void an_epoch_that_began_below_what_was_read_parts_the_histories(void **state)
{
    (void)state;
    answer a;
    answer_begin(&a, "s1");
    answer_record_run(&a, 1, 2);
    answer_record_run(&a, 4, 6);
    answer_record(&a, 9, 9);
    answer_state(&a, 1, 1, 9, 9);
    assert_ok(ledger_poll(&L, 0, &a)); /* 3 and 7-8 are gaps */
    answer_begin(&a, "s1");
    answer_state(&a, 2, 1, 6, 6);
    answer_epoch(&a, 2, 6, "two", "restored");
    assert_ok(ledger_poll(&L, 9, &a));
    assert_int_equal(ledger_of(1).stored, 6); /* kept, and never mixed */
    assert_int_equal(ledger_gap_at(&L, 1, 3)->status, TIDE_GAP_DETECTED); /* both have it */
    assert_int_equal(ledger_gap_at(&L, 1, 7)->status, TIDE_GAP_PERMANENT);
    assert_string_equal(ledger_gap_at(&L, 1, 7)->reason, "restored");
    assert_int_equal(ledger_at(&L)->first, 6);
    assert_int_equal(ledger_at(&L)->epoch, 2);
}

/* ---- divergence ---- */

static void read_and_mark(void)
{
    answer a;
    answer_begin(&a, "s1");
    answer_record_run(&a, 1, 4);
    answer_record_run(&a, 6, 20);
    answer_record_run(&a, 23, 30);
    answer_state(&a, 1, 1, 30, 35);
    answer_epoch(&a, 1, 1, "one", "created");
    assert_ok(ledger_poll(&L, 0, &a)); /* 5 and 21-22 are gaps, 31-35 unread */
    give_point(10);
    give_point(20);
    give_point(30);
}

static tide_status poll_diverged(int64_t matched, int64_t cut, const char *reason, int64_t epoch)
{
    answer a;
    answer_begin(&a, "s1");
    answer_state(&a, 1, 1, 0, 25);
    answer_epoch(&a, 1, 1, "one", "created");
    if (epoch > 1)
        answer_epoch(&a, epoch, cut, "later", reason);
    answer_number(&a, 11, TIDE_FEED_STANDING_DIVERGED);
    answer_number(&a, 12, (uint64_t)matched);
    return ledger_poll(&L, 30, &a);
}

/* Without evidence of where it was cut, everything behind the last point in common is read again, in the new epoch. */
static void a_diverged_history_is_left_behind_the_last_common_point(void **state)
{
    (void)state;
    read_and_mark();
    assert_ok(poll_diverged(10, 26, "diverged", 2));
    assert_string_equal(ledger_source(&L, 1)->position.closed_reason, "diverged");
    tide_ledger b = ledger_of(1);
    assert_int_equal(b.stored, 27);
    assert_int_equal(b.lost, 7);      /* 21-22, 31-35 */
    assert_int_equal(b.open_gaps, 1); /* 5 is of the history that both have */
    assert_string_equal(ledger_gap_at(&L, 1, 21)->reason, "diverged");
    assert_int_equal(ledger_at(&L)->epoch, 2);
    assert_int_equal(ledger_at(&L)->first, 11);
    assert_int_equal(ledger_at(&L)->last_seq, 10);
    assert_int_equal(ledger_at(&L)->point_count, 1);
    assert_int_equal(ledger_at(&L)->points[0].epoch, 1);
}

/* A restore that the agent noticed cuts exactly: nothing is read twice. */
static void a_cut_that_the_agent_noticed_is_exact(void **state)
{
    (void)state;
    read_and_mark();
    assert_ok(poll_diverged(10, 18, "restored", 2));
    assert_int_equal(ledger_at(&L)->first, 18);
    assert_int_equal(ledger_at(&L)->last_seq, 17);
}

/* Of epochs that began at one number each must have had evidence. */
static void a_cut_is_only_as_sure_as_its_least_evidence(void **state)
{
    (void)state;
    read_and_mark();
    answer a;
    answer_begin(&a, "s1");
    answer_state(&a, 1, 1, 0, 25);
    answer_epoch(&a, 1, 1, "one", "created");
    answer_epoch(&a, 2, 18, "two", "diverged");
    answer_epoch(&a, 3, 18, "three", "copied");
    answer_number(&a, 11, TIDE_FEED_STANDING_DIVERGED);
    answer_number(&a, 12, 10);
    assert_ok(ledger_poll(&L, 30, &a));
    assert_int_equal(ledger_at(&L)->epoch, 3);
    assert_int_equal(ledger_at(&L)->first, 11);
}

/* But not if one of our points lies in between, which must have differed. */
static void a_point_that_differs_overrules_the_cut(void **state)
{
    (void)state;
    read_and_mark();
    assert_ok(poll_diverged(10, 26, "restored", 2));
    assert_int_equal(ledger_at(&L)->first, 11);
}

/* An agent that has diverged and not raised its epoch, or whose epoch went down, is not read: never a mix of histories. */
static void a_history_that_does_not_say_that_it_is_new_is_refused(void **state)
{
    (void)state;
    read_and_mark();
    assert_status(TIDE_E_CONFLICT, poll_diverged(10, 0, "", 1));

    answer a;
    answer_begin(&a, "s1"); /* the same epoch by number, another by id */
    answer_state(&a, 1, 1, 40, 40);
    answer_epoch(&a, 1, 1, "other", "copied");
    assert_status(TIDE_E_CONFLICT, ledger_poll(&L, 30, &a));

    assert_ok(poll_diverged(10, 26, "diverged", 4));
    answer_begin(&a, "s1");
    answer_record_run(&a, 11, 12);
    answer_state(&a, 3, 1, 12, 12);
    assert_status(TIDE_E_CONFLICT, ledger_poll(&L, 10, &a));
    assert_int_equal(ledger_at(&L)->epoch, 4);
    assert_stored(&L, "");
}

static void diverge_with_nothing_in_common(int64_t oldest)
{
    answer a;
    answer_begin(&a, "s1");
    answer_record_run(&a, 11, 30);
    answer_state(&a, 1, 11, 30, 30);
    answer_epoch(&a, 1, 1, "one", "created");
    assert_ok(ledger_poll(&L, 0, &a));
    answer_begin(&a, "s1");
    answer_state(&a, 1, oldest, 0, 25);
    answer_epoch(&a, 2, 26, "two", "diverged");
    answer_number(&a, 11, TIDE_FEED_STANDING_DIVERGED);
    assert_ok(ledger_poll(&L, 30, &a));
}

/* What was dropped before our time stays there in the new history. */
static void a_divergence_without_a_common_point_begins_where_we_began(void **state)
{
    (void)state;
    diverge_with_nothing_in_common(15);
    assert_int_equal(ledger_at(&L)->first, 11);
    assert_int_equal(ledger_of(2).before, 10);
}

/* But nothing that the new history still has is passed over: it was never read. */
static void what_a_new_history_has_below_our_first_number_is_read(void **state)
{
    (void)state;
    diverge_with_nothing_in_common(5);
    assert_int_equal(ledger_at(&L)->first, 5);
}

/* Restored twice, and both new epochs have the same number: nothing of the first was read, so the second takes its place. */
static void an_epoch_of_which_nothing_was_read_may_be_another(void **state)
{
    (void)state;
    read_run(1, 5, 5);
    answer a;
    answer_begin(&a, "s1");
    answer_state(&a, 1, 1, 5, 5);
    answer_epoch(&a, 1, 1, "one", "created");
    answer_epoch(&a, 2, 6, "two", "restored");
    assert_ok(ledger_poll(&L, 5, &a));
    answer_begin(&a, "s1");
    answer_record_run(&a, 6, 7);
    answer_state(&a, 1, 1, 7, 7);
    answer_epoch(&a, 2, 5, "another two", "restored");
    assert_ok(ledger_poll(&L, 5, &a));
    assert_string_equal(ledger_at(&L)->epoch_id, "another two");
    assert_int_equal(ledger_at(&L)->first, 5);
    assert_int_equal(ledger_at(&L)->last_seq, 4); /* its 5 is another one */
    assert_stored(&L, "6-7");
    answer_begin(&a, "s1"); /* a third one, and now something was read */
    answer_state(&a, 1, 1, 7, 7);
    answer_epoch(&a, 2, 6, "a third", "restored");
    assert_status(TIDE_E_CONFLICT, ledger_poll(&L, 4, &a));
}

/* ---- agents that learn, and forget, to state their history ---- */

static void a_foreign_agent_that_learns_to_state_its_epoch_goes_on(void **state)
{
    (void)state;
    answer a;
    answer_begin(&a, "s1");
    answer_foreign_run(&a, 3, 4);
    answer_foreign_run(&a, 7, 8);
    assert_ok(ledger_poll(&L, 0, &a));
    answer_begin(&a, "s1");
    answer_record_run(&a, 9, 10);
    answer_state(&a, 5, 1, 10, 10);
    assert_ok(ledger_poll(&L, 8, &a));
    assert_int_equal(ledger_of(1).first, 3);
    assert_int_equal(ledger_of(1).open_gaps, 2);
    assert_int_equal(ledger_at(&L)->epoch, 5);
    assert_int_equal(ledger_at(&L)->first, 9);
    answer_begin(&a, "s1");
    answer_record_run(&a, 9, 10);
    answer_state(&a, 5, 1, 10, 10);
    assert_ok(ledger_poll(&L, 8, &a));
    assert_stored(&L, "9-10");
    answer_begin(&a, "s1"); /* somebody on the way takes the state off */
    answer_foreign_run(&a, 11, 12);
    assert_ok(ledger_poll(&L, 10, &a));
    assert_stored(&L, "9-12");
    assert_true(ledger_at(&L)->is_foreign);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        CASE(a_new_session_closes_the_old_one_and_begins_at_its_first_number),
        CASE(what_a_new_session_has_dropped_is_lost),
        CASE(a_wiped_foreign_agent_begins_at_1),
        CASE(a_session_that_comes_back_is_opened_again),
        CASE(a_later_epoch_begins_when_the_earlier_one_is_read),
        CASE(first_contact_begins_in_the_epoch_of_the_oldest_number),
        CASE(what_was_stated_and_cut_off_is_lost),
        CASE(an_epoch_that_began_below_what_was_read_parts_the_histories),
        CASE(a_diverged_history_is_left_behind_the_last_common_point),
        CASE(a_cut_that_the_agent_noticed_is_exact),
        CASE(a_cut_is_only_as_sure_as_its_least_evidence),
        CASE(a_point_that_differs_overrules_the_cut),
        CASE(a_history_that_does_not_say_that_it_is_new_is_refused),
        CASE(a_divergence_without_a_common_point_begins_where_we_began),
        CASE(what_a_new_history_has_below_our_first_number_is_read),
        CASE(an_epoch_of_which_nothing_was_read_may_be_another),
        CASE(an_agent_that_was_removed_goes_on_when_it_comes_back),
        CASE(a_foreign_agent_that_learns_to_state_its_epoch_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
