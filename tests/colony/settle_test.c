/* What a page means: rows, holes, gaps, where to go on. */
#include "colony/settle.h"

#include <string.h>

#include "base/cleanup.h"
#include "colony/settle_fixture.h"
#include "feed/record.h"
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

static void pass(int64_t seconds)
{
    L.now_us += seconds * SECOND;
    L.mono_us += seconds * SECOND;
}

/* A foreign agent's answer with these records, to a question above start. */
static tide_status poll_foreign(int64_t start, const char *session, const int64_t *seqs, int count)
{
    answer a;
    answer_begin(&a, session);
    for (int i = 0; i < count; i++)
        answer_foreign(&a, seqs[i], seqs[i]);
    return ledger_poll(&L, start, &a);
}

#define FOREIGN(start, ...)                                                                        \
    poll_foreign((start), "s1", (const int64_t[]){__VA_ARGS__},                                    \
                 sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

/* An agent with state that shows first..last of head numbers, to a question above first - 1. */
static tide_status poll_run(int64_t first, int64_t last, int64_t head)
{
    answer a;
    answer_begin(&a, "s1");
    answer_record_run(&a, first, last);
    answer_state(&a, 1, 1, last, head);
    return ledger_poll(&L, first - 1, &a);
}

static tide_ledger totals(void)
{
    tide_ledger out;
    ledger_totals(&L, ledger_at(&L), &out);
    assert_int_equal(out.unexplained, 0);
    return out;
}

static void lose_4_to_9(void)
{
    answer a;
    answer_begin(&a, "s1");
    answer_record_run(&a, 1, 3);
    answer_record(&a, 10, 10);
    answer_state(&a, 1, 1, 10, 10);
    answer_hole(&a, 4, 9, "damaged");
    assert_ok(ledger_poll(&L, 0, &a));
    assert_gaps(&L, "4-9 permanent damaged");
}

/* ---- gap detection, as the telemetry document lists it ---- */

/* Telemetry document: gap detection with missing seq IDs: [1,2,3,5,6] gives a gap at 4. Not within the grace. */
static void a_missing_number_is_held_and_then_a_gap(void **state)
{
    (void)state;
    assert_ok(FOREIGN(0, 1, 2, 3, 5, 6));
    assert_stored(&L, "1-3 5-6");
    assert_gaps(&L, "");
    assert_int_equal(ledger_at(&L)->last_seq, 3);
    assert_int_equal(totals().held, 1);
    pass(9);
    assert_status(TIDE_NONE, FOREIGN(3, 5, 6));
    pass(1);
    assert_ok(FOREIGN(3, 5, 6));
    assert_gaps(&L, "4-4 detected missing");
    assert_int_equal(ledger_at(&L)->last_seq, 6);
    assert_int_equal(totals().open_gaps, 1);
    assert_int_equal(L.last.detected, 1);
}

/* Telemetry document: gap detection with continuous seq IDs: [1,2,3,4,5] gives no gaps. */
static void continuous_numbers_have_no_gap(void **state)
{
    (void)state;
    assert_ok(FOREIGN(0, 1, 2, 3, 4, 5));
    pass(60);
    assert_status(TIDE_NONE, poll_foreign(5, "s1", NULL, 0));
    assert_gaps(&L, "");
    assert_int_equal(ledger_at(&L)->last_seq, 5);
    assert_int_equal(totals().pending, 0);
}

/* Seed: gap between checkpoint and first received ID. */
static void a_gap_between_the_checkpoint_and_the_first_number_is_seen(void **state)
{
    (void)state;
    assert_ok(FOREIGN(0, 1, 2, 3));
    assert_ok(FOREIGN(3, 7, 8));
    pass(10);
    assert_ok(FOREIGN(3, 7, 8));
    assert_gaps(&L, "4-6 detected missing");
    assert_int_equal(ledger_at(&L)->last_seq, 8);
}

/* Telemetry document: gap detection across multiple batches. */
static void gaps_of_several_batches_are_kept_apart(void **state)
{
    (void)state;
    assert_ok(FOREIGN(0, 1, 3));
    pass(5);
    assert_ok(FOREIGN(3, 5, 6)); /* draining goes on beyond the hole */
    assert_int_equal(ledger_at(&L)->last_seq, 1);
    pass(5);
    assert_ok(FOREIGN(1, 3, 5, 6)); /* 2 is ten seconds old, 4 is five */
    assert_gaps(&L, "2-2 detected missing");
    assert_int_equal(ledger_at(&L)->last_seq, 3);
    pass(5);
    assert_ok(FOREIGN(3, 5, 6, 7));
    assert_gaps(&L, "2-2 detected missing; 4-4 detected missing");
    assert_stored(&L, "1 3 5-7");
}

/* Telemetry document: false gap avoidance: out-of-order commits within the grace period. 4 is fetched, no gap is recorded. */
static void a_number_that_comes_within_the_grace_is_no_gap(void **state)
{
    (void)state;
    assert_ok(FOREIGN(0, 1, 2, 3, 5));
    pass(9);
    assert_ok(FOREIGN(3, 4, 5));
    assert_stored(&L, "1-5");
    assert_gaps(&L, "");
    assert_int_equal(ledger_at(&L)->last_seq, 5);
    assert_int_equal(L.last.repeated, 1);
}

/* A hole is given up only by an answer that has looked for it after the grace. */
static void an_answer_that_did_not_look_gives_nothing_up(void **state)
{
    (void)state;
    assert_ok(FOREIGN(0, 1, 2, 3, 5));
    pass(60);
    assert_ok(FOREIGN(5, 6, 7)); /* above the hole */
    assert_gaps(&L, "");

    answer a;
    answer_begin(&a, "s1");
    answer_foreign_run(&a, 5, 7);
    TIDE_CLEANUP(tide_reply_done) tide_reply reply = {.len = 0};
    tide_error err;
    assert_ok_err(answer_read(&a, &reply, &err), &err);
    const tide_ask asked = {.start_seq = 3, .sent_us = L.mono_us - INT64_C(51) * SECOND};
    assert_status(TIDE_NONE, ledger_settle(&L, &asked, &reply, &err)); /* sent after nine seconds */
    const tide_ask later = {.start_seq = 3, .sent_us = L.mono_us - INT64_C(50) * SECOND};
    assert_ok_err(ledger_settle(&L, &later, &reply, &err), &err);
    answer_done(&a);
    assert_gaps(&L, "4-4 detected missing");
}

/* Nor does a page that ended below the hole. */
static void a_page_that_ends_below_a_hole_gives_nothing_up(void **state)
{
    (void)state;
    assert_ok(FOREIGN(0, 1, 2, 3, 5, 6, 9));
    pass(10);
    assert_ok(FOREIGN(0, 1, 2, 3, 5));
    assert_gaps(&L, "4-4 detected missing");
    assert_int_equal(totals().held, 2);
    assert_ok(FOREIGN(6, 7, 8, 9));
    assert_stored(&L, "1-3 5-9");
}

/* Gaps are looked up only for settled numbers that come again. */
static void an_ordinary_page_needs_no_gaps(void **state)
{
    (void)state;
    lose_4_to_9();
    answer a;
    answer_begin(&a, "s1");
    answer_record_run(&a, 5, 12);
    TIDE_CLEANUP(tide_reply_done) tide_reply reply = {.len = 0};
    tide_error err;
    tide_interval range;
    assert_ok_err(answer_read(&a, &reply, &err), &err);
    const tide_ask again = {.start_seq = 4};
    assert_true(tide_settle_wants_gaps(ledger_at(&L), &again, &reply, &range));
    assert_int_equal(range.first, 5);
    assert_int_equal(range.last, 10);
    const tide_ask further = {.start_seq = 10};
    assert_false(tide_settle_wants_gaps(ledger_at(&L), &further, &reply, &range));
    assert_false(tide_settle_wants_gaps(&L.empty, &again, &reply, &range));
    answer_done(&a);
}

/* Neither the agent's clock nor the colony's wall clock decides about a hole. */
static void wall_clocks_age_no_hole(void **state)
{
    (void)state;
    assert_ok(FOREIGN(0, 1, 2, 3, 5));
    L.now_us += INT64_C(3600) * SECOND;
    assert_status(TIDE_NONE, FOREIGN(3, 5));
    L.now_us -= INT64_C(7200) * SECOND;
    assert_status(TIDE_NONE, FOREIGN(3, 5));
    L.mono_us += INT64_C(10) * SECOND;
    assert_ok(FOREIGN(3, 5));
    assert_gaps(&L, "4-4 detected missing");
}

/* After a restart nothing is known of the ages: holes are held from then on, and do age. */
static void a_restart_holds_holes_a_little_longer(void **state)
{
    (void)state;
    assert_ok(FOREIGN(0, 1, 2, 3, 5));
    source *src = ledger_source(&L, 1);
    free(src->position.held);
    src->position.held = NULL;
    src->position.held_count = 0;
    L.mono_us = 5 * SECOND; /* another boot */
    assert_ok(FOREIGN(3, 5));
    assert_gaps(&L, "");
    pass(10);
    assert_ok(FOREIGN(3, 5));
    assert_gaps(&L, "4-4 detected missing");
}

/* More holes than may be held: the oldest become gaps at once; nothing is forgotten. */
static void too_many_holes_become_gaps(void **state)
{
    (void)state;
    answer a;
    answer_begin(&a, "s1");
    const int64_t count = TIDE_POSITION_HELD_MAX + 10;
    for (int64_t i = 0; i <= count; i++)
        answer_foreign(&a, 1 + 2 * i, i + 1);
    assert_ok(ledger_poll(&L, 0, &a));
    assert_int_equal(totals().held, TIDE_POSITION_HELD_MAX);
    assert_int_equal(totals().open_gaps, 10);
    assert_int_equal(ledger_at(&L)->last_seq, 21);
}

/* Numbers come again and again: nothing is stored twice, and nothing needs to be written. */
static void repeated_records_change_nothing(void **state)
{
    (void)state;
    assert_ok(FOREIGN(0, 1, 2, 3));
    assert_status(TIDE_NONE, FOREIGN(0, 1, 2, 3));
    assert_ok(FOREIGN(1, 2, 3, 4));
    assert_int_equal(L.last.repeated, 2);
    assert_int_equal(L.last.stored, 1);
    assert_stored(&L, "1-4");
}

/* ---- first contact ---- */

/* What the agent had dropped before we came is before our time. */
static void the_first_page_of_an_agent_decides_what_was_before(void **state)
{
    (void)state;
    answer a;
    answer_begin(&a, "s1");
    answer_record_run(&a, 2001, 2010);
    answer_state(&a, 1, 2001, 2010, 2500);
    answer_hole(&a, 1, 2000, "expired");
    assert_ok(ledger_poll(&L, 0, &a));
    assert_gaps(&L, "");
    const tide_ledger b = totals();
    assert_int_equal(b.first, 2001);
    assert_int_equal(b.before, 2000);
    assert_int_equal(b.stored, 10);
    assert_int_equal(b.unread, 490);
    assert_int_equal(ledger_at(&L)->last_seq, 2010);
}

/* For agents that say nothing of it: what lies below may still come while the grace lasts, then it was before. */
static void a_foreign_agents_first_page_is_before_our_time_after_the_grace(void **state)
{
    (void)state;
    assert_ok(FOREIGN(0, 5001, 5002));
    assert_int_equal(ledger_at(&L)->first, 0);
    assert_int_equal(totals().held, 5000);
    pass(5);
    assert_ok(FOREIGN(0, 5000, 5001, 5002)); /* committed late: not lost */
    pass(5);
    assert_ok(FOREIGN(0, 5000, 5001, 5002));
    assert_gaps(&L, "");
    const tide_ledger b = totals();
    assert_int_equal(b.first, 5000);
    assert_int_equal(b.before, 4999);
    assert_int_equal(b.stored, 3);
    assert_int_equal(b.pending, 0);
    assert_int_equal(ledger_at(&L)->last_seq, 5002);
}

/* An agent that has nothing: first 1, before 0, head 0, and balanced. */
static void an_empty_agent_has_a_balanced_ledger(void **state)
{
    (void)state;
    answer a;
    answer_begin(&a, "s1");
    answer_state(&a, 1, 1, 0, 0);
    assert_ok(ledger_poll(&L, 0, &a));
    tide_ledger b = totals();
    assert_int_equal(b.first, 1);
    assert_int_equal(b.before, 0);
    assert_int_equal(b.head, 0);
    assert_ok(poll_run(1, 3, 3));
    assert_int_equal(totals().stored, 3);
}

static void an_empty_foreign_agent_has_a_balanced_ledger(void **state)
{
    (void)state;
    assert_ok(poll_foreign(0, "s1", NULL, 0));
    assert_int_equal(ledger_at(&L)->first, 0);
    const tide_ledger b = totals();
    assert_int_equal(b.first, 1);
    assert_int_equal(b.before, 0);
    assert_int_equal(b.head, 0);
    assert_ok(FOREIGN(0, 1, 2));
    assert_int_equal(ledger_at(&L)->first, 1);
    assert_int_equal(totals().stored, 2);
}

/* An agent that had records and dropped them all: nothing is owed. */
static void an_emptied_agent_owes_nothing(void **state)
{
    (void)state;
    answer a;
    answer_begin(&a, "s1");
    answer_state(&a, 1, 501, 500, 500);
    answer_hole(&a, 1, 500, "expired");
    assert_ok(ledger_poll(&L, 0, &a));
    const tide_ledger b = totals();
    assert_int_equal(b.first, 501);
    assert_int_equal(b.head, 500);
    assert_int_equal(ledger_at(&L)->last_seq, 500);
}

/* ---- agents with state ---- */

/* A known colony: the agent's reason is kept, and it is lost at once. */
static void what_an_agent_tells_as_gone_is_lost_with_its_reason(void **state)
{
    (void)state;
    assert_ok(poll_run(1, 3, 3));
    answer a;
    answer_begin(&a, "s1");
    answer_record_run(&a, 101, 110);
    answer_state(&a, 1, 101, 110, 110);
    answer_hole(&a, 4, 98, "expired");
    answer_hole(&a, 99, 100, "damaged");
    assert_ok(ledger_poll(&L, 3, &a));
    assert_gaps(&L, "4-98 permanent expired; 99-100 permanent damaged");
    assert_int_equal(ledger_at(&L)->last_seq, 110);
    assert_int_equal(totals().lost, 97);
    assert_int_equal(L.last.permanent, 2);
}

/* An agent with state that shows no record and tells no hole: a gap, whose recovery says what it was. */
static void a_number_that_an_agent_passes_over_in_silence_is_a_gap(void **state)
{
    (void)state;
    answer a;
    answer_begin(&a, "s1");
    answer_record_run(&a, 1, 3);
    answer_record_run(&a, 5, 6);
    answer_state(&a, 1, 1, 8, 8);
    assert_ok(ledger_poll(&L, 0, &a));
    assert_gaps(&L, "4-4 detected missing; 7-8 detected missing");
    assert_int_equal(ledger_at(&L)->last_seq, 8);
}

/* Scanned-through is apart from the rows: what was filtered is no gap. */
static void filtered_numbers_are_counted_and_no_gap(void **state)
{
    (void)state;
    answer a;
    answer_begin(&a, "s1");
    answer_record(&a, 2, 2);
    answer_record(&a, 5, 5);
    answer_state(&a, 1, 1, 10, 10);
    answer_number(&a, 17, 8);
    assert_ok(ledger_poll(&L, 0, &a));
    assert_gaps(&L, "");
    assert_int_equal(totals().filtered, 8);
    assert_int_equal(ledger_at(&L)->last_seq, 10);

    answer_begin(&a, "s1"); /* it cannot be told which of them were filtered */
    answer_record(&a, 11, 11);
    answer_state(&a, 1, 1, 13, 13);
    answer_number(&a, 17, 1);
    assert_ok(ledger_poll(&L, 10, &a));
    assert_gaps(&L, "12-13 detected missing");
    assert_int_equal(totals().filtered, 8);

    answer_begin(&a, "s1"); /* more filtered than there is room for */
    answer_record(&a, 14, 14);
    answer_state(&a, 1, 1, 15, 15);
    answer_number(&a, 17, 2);
    assert_status(TIDE_E_INVALID, ledger_poll(&L, 13, &a));
}

/* A gap 10^8 wide is an interval like any other. */
static void a_wide_gap_costs_nothing(void **state)
{
    (void)state;
    assert_ok(poll_run(1, 3, 3));
    answer a;
    answer_begin(&a, "s1");
    answer_record(&a, INT64_C(100000004), 1);
    answer_state(&a, 1, 1, INT64_C(100000004), INT64_C(100000004));
    assert_ok(ledger_poll(&L, 3, &a));
    assert_gaps(&L, "4-100000003 detected missing");
    assert_int_equal(ledger_at(&L)->last_seq, INT64_C(100000004));
    assert_int_equal(totals().open_gaps, INT64_C(100000000));

    answer_begin(&a, "s1"); /* and so is one held, of a foreign agent */
    answer_foreign(&a, INT64_C(9000000000000000000), 2);
    assert_ok(ledger_poll(&L, INT64_C(100000004), &a));
    pass(10);
    answer_begin(&a, "s1");
    answer_foreign(&a, INT64_C(9000000000000000000), 2);
    assert_ok(ledger_poll(&L, INT64_C(100000004), &a));
    assert_int_equal(ledger_at(&L)->last_seq, INT64_C(9000000000000000000));
    assert_int_equal(totals().pending, INT64_C(9000000000000000000) - 5);
}

/* The last number there is. */
static void the_highest_number_is_a_number(void **state)
{
    (void)state;
    answer a;
    answer_begin(&a, "s1");
    answer_record(&a, INT64_MAX, 1);
    answer_state(&a, 1, INT64_MAX - 1, INT64_MAX, INT64_MAX);
    answer_hole(&a, INT64_MAX - 1, INT64_MAX - 1, "damaged");
    assert_ok(ledger_poll(&L, 0, &a));
    assert_int_equal(totals().stored, 1);
    assert_int_equal(totals().lost, 1);
    answer_begin(&a, "s1");
    answer_state(&a, 1, INT64_MAX, INT64_MAX, INT64_MAX);
    assert_status(TIDE_NONE, ledger_poll(&L, INT64_MAX, &a));
    answer_begin(&a, "s1");
    answer_dead(&a, 0);
    answer_state(&a, 1, INT64_MAX, INT64_MAX, INT64_MAX);
    assert_status(TIDE_NONE, ledger_poll(&L, INT64_MAX, &a));
}

/* Reading from above the prefix speaks only of what lies above. */
static void a_page_from_further_up_leaves_what_lies_between(void **state)
{
    (void)state;
    assert_ok(poll_run(1, 3, 20));
    assert_ok(poll_run(11, 15, 20));
    assert_stored(&L, "1-3 11-15");
    assert_gaps(&L, "");
    assert_int_equal(ledger_at(&L)->last_seq, 3);
    assert_int_equal(totals().held, 7);
    assert_ok(poll_run(4, 15, 20));
    assert_stored(&L, "1-15");
    assert_int_equal(ledger_at(&L)->last_seq, 15);
}

/* ---- records that cannot be read ---- */

/* The batch settles, the record is a dead letter with its bytes and the reason. */
static void an_undecodable_record_is_a_dead_letter(void **state)
{
    (void)state;
    answer a;
    answer_begin(&a, "s1");
    answer_record_run(&a, 1, 2);
    answer_dead(&a, 3);
    answer_record(&a, 4, 4);
    answer_state(&a, 1, 1, 4, 4);
    assert_ok(ledger_poll(&L, 0, &a));
    assert_stored(&L, "1-2 4");
    assert_gaps(&L, "");
    assert_int_equal(totals().dead, 1);
    assert_int_equal(ledger_at(&L)->last_seq, 4);
    assert_int_equal(L.last.dead_count, 1);
    assert_int_equal(L.last.dead[0].seq, 3);
    assert_true(L.last.dead[0].bytes.len > 0);
}

/* As many records without a readable number as numbers are missing: it is known which they are. */
static void records_without_a_number_take_the_missing_ones(void **state)
{
    (void)state;
    answer a;
    answer_begin(&a, "s1");
    answer_dead(&a, 0);
    answer_record(&a, 2, 2);
    answer_dead(&a, 0);
    answer_state(&a, 1, 1, 3, 3);
    assert_ok(ledger_poll(&L, 0, &a));
    assert_gaps(&L, "");
    assert_int_equal(totals().dead, 2);
    assert_int_equal(L.last.dead[0].seq, 1);
    assert_int_equal(L.last.dead[1].seq, 3);

    answer_begin(&a, "s1"); /* it is not known which: kept, and the numbers stay open */
    answer_dead(&a, 0);
    answer_record(&a, 6, 6);
    answer_state(&a, 1, 1, 6, 6);
    assert_ok(ledger_poll(&L, 3, &a));
    assert_gaps(&L, "4-5 detected missing");
    assert_int_equal(L.letters, 1);
    assert_int_equal(totals().dead, 2);
}

/* ---- numbers that come after all ---- */

/* Permanent is revisable: a row that still comes is stored, the gap recovered, split where only a part came. */
static void a_row_that_still_comes_revises_a_permanent_gap(void **state)
{
    (void)state;
    lose_4_to_9();
    const int64_t id = ledger_gap_at(&L, 1, 4)->id;
    assert_ok(FOREIGN(0, 1, 2, 3, 6, 7, 10));
    assert_stored(&L, "1-3 6-7 10");
    assert_gaps(&L, "4-5 permanent damaged; 6-7 recovered damaged; 8-9 permanent damaged");
    assert_int_equal(ledger_gap_at(&L, 1, 4)->id, id);
    assert_int_equal(totals().lost, 4);
    assert_int_equal(L.last.recovered, 1);
    assert_int_equal(L.last.permanent, 0);
    assert_int_equal(L.last.repeated, 4);
    assert_ok(FOREIGN(0, 4, 5, 6, 9));
    assert_gaps(&L, "4-5 recovered damaged; 6-7 recovered damaged; 8-8 permanent damaged; "
                    "9-9 recovered damaged");
    assert_stored(&L, "1-7 9-10");
    assert_int_equal(ledger_at(&L)->last_seq, 10);
}

/* The same for a gap that is still open, and for several gaps in one page, with a dead letter among what came. */
static void a_late_page_recovers_open_gaps(void **state)
{
    (void)state;
    assert_ok(FOREIGN(0, 1, 3, 5, 7, 8));
    pass(10);
    assert_ok(FOREIGN(1, 3, 5, 7, 8));
    assert_gaps(&L, "2-2 detected missing; 4-4 detected missing; 6-6 detected missing");
    answer a;
    answer_begin(&a, "s1");
    answer_foreign_run(&a, 1, 3);
    answer_dead(&a, 4);
    answer_foreign(&a, 5, 5);
    assert_ok(ledger_poll(&L, 0, &a));
    assert_gaps(&L, "2-2 recovered missing; 4-4 recovered missing; 6-6 detected missing");
    assert_int_equal(totals().dead, 1);
    assert_int_equal(totals().stored, 6);
}

/* ---- the chain ---- */

static tide_digest128 chain_over(int64_t first, int64_t last, tide_digest128 digest)
{
    for (int64_t seq = first; seq <= last; seq++) {
        TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
        tide_buffer_init(&bytes, 1024);
        record_bytes(&bytes, seq, seq);
        digest = tide_record_chain(digest, tide_buffer_view(&bytes));
    }
    return digest;
}

static tide_status poll_chained(int64_t first, int64_t last, tide_digest128 digest)
{
    answer a;
    answer_begin(&a, "s1");
    answer_record_run(&a, first, last);
    answer_state(&a, 1, 1, last, last);
    answer_chain(&a, digest.bytes);
    return ledger_poll(&L, first - 1, &a);
}

/* The digest is recomputed from a point that we hold; what differs is not stored. */
static void a_page_whose_digest_differs_is_refused(void **state)
{
    (void)state;
    const tide_digest128 three = chain_over(1, 3, (tide_digest128){{0}});
    const tide_digest128 six = chain_over(4, 6, three);
    assert_status(TIDE_E_DAMAGED, poll_chained(1, 3, six));
    assert_int_equal(L.source_count, 0);
    assert_ok(poll_chained(1, 3, three));
    assert_memory_equal(tide_position_digest(ledger_at(&L), 3), three.bytes, sizeof three.bytes);
    assert_status(TIDE_E_DAMAGED, poll_chained(4, 6, three));
    assert_ok(poll_chained(4, 6, six));
    assert_stored(&L, "1-6");
}

/* ---- answers that are refused: nothing moves, and no gap is recorded ---- */

/* A batch that was not stored leaves no gap, however often it fails. */
static void a_refused_answer_leaves_nothing(void **state)
{
    (void)state;
    assert_ok(poll_run(1, 3, 10));
    for (int i = 0; i < 10; i++) {
        answer a;
        answer_begin(&a, "s1"); /* a record below what was asked for */
        answer_record(&a, 3, 3);
        answer_record(&a, 7, 7);
        answer_state(&a, 1, 1, 7, 10);
        assert_status(TIDE_E_CONFLICT, ledger_poll(&L, 3, &a));

        answer_begin(&a, "s1"); /* a hole below it */
        answer_record(&a, 7, 7);
        answer_state(&a, 1, 1, 7, 10);
        answer_hole(&a, 3, 5, "lost");
        assert_status(TIDE_E_INVALID, ledger_poll(&L, 3, &a));

        answer_begin(&a, "s1"); /* a head below what was read */
        answer_state(&a, 1, 1, 2, 2);
        assert_status(TIDE_E_CONFLICT, ledger_poll(&L, 3, &a));

        answer_begin(&a, ""); /* no session id */
        answer_record(&a, 4, 4);
        assert_status(TIDE_E_INVALID, ledger_poll(&L, 3, &a));
    }
    assert_gaps(&L, "");
    assert_stored(&L, "1-3");
    assert_int_equal(ledger_at(&L)->last_seq, 3);
}

/* A head that falls, but not below what we read, takes nothing back. */
static void a_head_that_falls_takes_nothing_back(void **state)
{
    (void)state;
    assert_ok(poll_run(1, 3, 10));
    answer a;
    answer_begin(&a, "s1");
    answer_record(&a, 4, 4);
    answer_state(&a, 1, 1, 4, 4);
    assert_ok(ledger_poll(&L, 3, &a));
    assert_int_equal(ledger_at(&L)->head, 10);
    assert_int_equal(totals().unread, 6);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        CASE(a_missing_number_is_held_and_then_a_gap),
        CASE(continuous_numbers_have_no_gap),
        CASE(a_gap_between_the_checkpoint_and_the_first_number_is_seen),
        CASE(gaps_of_several_batches_are_kept_apart),
        CASE(a_number_that_comes_within_the_grace_is_no_gap),
        CASE(an_answer_that_did_not_look_gives_nothing_up),
        CASE(a_page_that_ends_below_a_hole_gives_nothing_up),
        CASE(an_ordinary_page_needs_no_gaps),
        CASE(wall_clocks_age_no_hole),
        CASE(a_restart_holds_holes_a_little_longer),
        CASE(too_many_holes_become_gaps),
        CASE(repeated_records_change_nothing),
        CASE(the_first_page_of_an_agent_decides_what_was_before),
        CASE(a_foreign_agents_first_page_is_before_our_time_after_the_grace),
        CASE(an_empty_agent_has_a_balanced_ledger),
        CASE(an_empty_foreign_agent_has_a_balanced_ledger),
        CASE(an_emptied_agent_owes_nothing),
        CASE(what_an_agent_tells_as_gone_is_lost_with_its_reason),
        CASE(a_number_that_an_agent_passes_over_in_silence_is_a_gap),
        CASE(filtered_numbers_are_counted_and_no_gap),
        CASE(a_wide_gap_costs_nothing),
        CASE(the_highest_number_is_a_number),
        CASE(a_page_from_further_up_leaves_what_lies_between),
        CASE(an_undecodable_record_is_a_dead_letter),
        CASE(records_without_a_number_take_the_missing_ones),
        CASE(a_row_that_still_comes_revises_a_permanent_gap),
        CASE(a_late_page_recovers_open_gaps),
        CASE(a_page_whose_digest_differs_is_refused),
        CASE(a_refused_answer_leaves_nothing),
        CASE(a_head_that_falls_takes_nothing_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
