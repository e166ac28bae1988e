/* Gaps, closed positions, operators' acts and retention: every number stays accounted for. */
#include "colony/sink_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define DAY_US (INT64_C(86400) * SECOND_US)

typedef struct colony {
    store_test *t;
    tide_sink *sink;
    tide_position at;
    tide_change change;
    page page;
    tide_error err;
} colony;

static void begin(colony *c, store_test *t)
{
    memset(c, 0, sizeof *c);
    c->t = t;
    assert_ok_err(tide_sink_open_sql(&c->sink, t->store, &c->err), &c->err);
    page_init(&c->page, TIDE_STREAM_TELEMETRY);
}

static void end(colony *c)
{
    tide_position_done(&c->at);
    tide_change_done(&c->change);
    page_done(&c->page);
    tide_sink_close(c->sink);
}

/* A new change of agent a's spans; what was made before is given back. */
static void next_change(colony *c)
{
    tide_position_done(&c->at);
    tide_change_done(&c->change);
    load_position(c->sink, "a", "telemetry", &c->at);
    change_begin(&c->change, &c->at, c->t->clock.wall_us);
}

static void store_range(colony *c, int64_t first, int64_t last)
{
    page_done(&c->page);
    page_init(&c->page, TIDE_STREAM_TELEMETRY);
    page_spans(&c->page, first, last);
    page_close(&c->page);
    change_store(&c->change, &c->page);
}

static tide_status apply(colony *c)
{
    return tide_sink_apply(c->sink, &c->change, &c->err);
}

static void apply_well(colony *c)
{
    assert_ok_err(apply(c), &c->err);
    (void)check_ledger(c->sink);
}

/* 1-3 and 6-8 are stored, 4-5 is a gap. Returns its id. */
static int64_t make_gap(colony *c)
{
    next_change(c);
    page_done(&c->page);
    page_init(&c->page, TIDE_STREAM_TELEMETRY);
    page_spans(&c->page, 1, 3);
    page_spans(&c->page, 6, 8);
    page_close(&c->page);
    change_store(&c->change, &c->page);
    (void)change_gap(&c->change, 4, 5, TIDE_GAP_DETECTED);
    apply_well(c);
    assert_true(c->change.gaps[0].id > 0);
    return c->change.gaps[0].id;
}

static void find_gap(colony *c, int64_t id, tide_gap *out)
{
    assert_ok_err(c->sink->ops->gap(c->sink, id, out, &c->err), &c->err);
}

static void a_gap_is_found_again_as_it_was_written(void **state)
{
    TIDE_CLEANUP(end) colony c;
    begin(&c, *state);
    next_change(&c);
    tide_gap *gap = change_gap(&c.change, 1, 5, TIDE_GAP_DETECTED);
    (void)snprintf(gap->evidence, sizeof gap->evidence, "it said \"so\"");
    gap->attempts = 2;
    gap->last_attempt_us = c.t->clock.wall_us - 5;
    apply_well(&c);
    tide_gap found;
    find_gap(&c, c.change.gaps[0].id, &found);
    assert_string_equal("a", found.agent_id);
    assert_string_equal("telemetry", found.data_type);
    assert_string_equal(SESSION_A, found.session_id);
    assert_int_equal(1, found.epoch);
    assert_int_equal(c.change.to.source_id, found.source_id);
    assert_int_equal(1, found.start_seq);
    assert_int_equal(5, found.end_seq);
    assert_int_equal(TIDE_GAP_DETECTED, found.status);
    assert_string_equal("missing", found.reason);
    assert_string_equal("it said \"so\"", found.evidence);
    assert_int_equal(2, found.attempts);
    assert_true(found.detected_at_us == c.t->clock.wall_us);
    assert_true(found.last_attempt_us == c.t->clock.wall_us - 5);
    assert_int_equal(0, found.recovered_at_us);
    assert_int_equal(0, found.settled_at_us);
    assert_status(TIDE_NONE, c.sink->ops->gap(c.sink, 999999, &found, &c.err));
}

/* What came is recovered, the rest is split off; the gap keeps its id for the piece at its start. */
static void a_gap_is_recovered_number_by_number(void **state)
{
    TIDE_CLEANUP(end) colony c;
    begin(&c, *state);
    const int64_t id = make_gap(&c);
    tide_gap gap;
    find_gap(&c, id, &gap);
    next_change(&c);
    page_done(&c.page);
    page_init(&c.page, TIDE_STREAM_TELEMETRY);
    page_spans(&c.page, 4, 4);
    page_close(&c.page);
    change_store(&c.change, &c.page);
    tide_gap *first = change_known_gap(&c.change, &gap);
    first->end_seq = 4;
    first->status = TIDE_GAP_RECOVERED;
    first->recovered_at_us = first->settled_at_us = c.t->clock.wall_us;
    tide_gap *rest = change_gap(&c.change, 5, 5, TIDE_GAP_VOID);
    (void)snprintf(rest->reason, sizeof rest->reason, "rolled back");
    apply_well(&c);
    assert_int_equal(7, ask_number(c.sink, "SELECT count(*) FROM spans"));
    assert_int_equal(
        1, ask_number(c.sink, "SELECT count(*) FROM sequence_gaps WHERE status = 'recovered' AND "
                              "start_seq_id = 4 AND end_seq_id = 4 AND recovered_at IS NOT NULL"));
    assert_int_equal(1,
                     ask_number(c.sink, "SELECT count(*) FROM sequence_gaps WHERE status = 'void' "
                                        "AND start_seq_id = 5 AND reason = 'rolled back'"));
}

/* Storing fails ten times; at most one gap record, and none for a batch that was not stored. */
static void a_gap_is_recorded_once_however_often_storing_failed(void **state)
{
    TIDE_CLEANUP(end) colony c;
    begin(&c, *state);
    for (int i = 0; i < 10; i++) {
        next_change(&c);
        store_range(&c, 6, 8);
        (void)change_gap(&c.change, 1, 5, TIDE_GAP_DETECTED);
        c.change.lease_name = "colony/agent/a";
        c.change.lease_token = 77;
        assert_status(TIDE_E_LEASE_LOST, apply(&c));
        assert_int_equal(0, c.change.gaps[0].id);
        assert_int_equal(0, ask_number(c.sink, "SELECT count(*) FROM sequence_gaps"));
    }
    next_change(&c);
    store_range(&c, 6, 8);
    (void)change_gap(&c.change, 1, 5, TIDE_GAP_DETECTED);
    apply_well(&c);
    assert_int_equal(1, ask_number(c.sink, "SELECT count(*) FROM sequence_gaps"));
}

/* Unique per (agent, type, session, epoch, start): nothing is counted twice. */
static void a_second_gap_with_the_same_start_is_refused(void **state)
{
    TIDE_CLEANUP(end) colony c;
    begin(&c, *state);
    (void)make_gap(&c);
    next_change(&c);
    (void)change_gap(&c.change, 4, 4, TIDE_GAP_DETECTED);
    assert_status(TIDE_E_EXISTS, apply(&c));
    (void)check_ledger(c.sink);
    assert_int_equal(1, ask_number(c.sink, "SELECT count(*) FROM sequence_gaps"));
}

static void a_gap_that_was_cleaned_up_is_not_changed(void **state)
{
    TIDE_CLEANUP(end) colony c;
    begin(&c, *state);
    tide_gap gap;
    find_gap(&c, make_gap(&c), &gap);
    next_change(&c);
    gap.id += 1000;
    gap.status = TIDE_GAP_VOID;
    (void)change_known_gap(&c.change, &gap);
    assert_status(TIDE_E_CONFLICT, apply(&c));
    (void)check_ledger(c.sink);
}

/* ---- lists ---- */

typedef struct seen_gaps {
    int count;
    int64_t last_id;
    int64_t width;
} seen_gaps;

static tide_status see_gap(void *arg, const tide_gap *gap, tide_error *err)
{
    (void)err;
    seen_gaps *seen = arg;
    assert_true(gap->id > seen->last_id);
    seen->last_id = gap->id;
    seen->count++;
    seen->width += gap->end_seq - gap->start_seq + 1;
    return TIDE_OK;
}

static int count_gaps(colony *c, tide_gap_filter filter)
{
    seen_gaps seen = {0};
    assert_ok_err(c->sink->ops->gaps(c->sink, &filter, see_gap, &seen, &c->err), &c->err);
    return seen.count;
}

/* Many gaps in one page, told apart by agent, type, status, range and page. */
static void gaps_are_listed_by_what_is_asked_for(void **state)
{
    TIDE_CLEANUP(end) colony c;
    begin(&c, *state);
    next_change(&c);
    for (int64_t i = 0; i < 2500; i++)
        (void)change_gap(&c.change, 1 + i * 2, 1 + i * 2,
                         i % 2 ? TIDE_GAP_DETECTED : TIDE_GAP_VOID);
    page_done(&c.page);
    page_init(&c.page, TIDE_STREAM_TELEMETRY);
    for (int64_t i = 1; i <= 2500; i++)
        page_spans(&c.page, i * 2, i * 2);
    page_close(&c.page);
    change_store(&c.change, &c.page);
    apply_well(&c);
    for (int i = 1; i < c.change.gap_count; i++)
        assert_true(c.change.gaps[i].id > 0);
    assert_int_equal(1000, count_gaps(&c, (tide_gap_filter){.epoch = -1}));
    assert_int_equal(2500, count_gaps(&c, (tide_gap_filter){.epoch = -1, .limit = 5000}));
    assert_int_equal(1250, count_gaps(&c, (tide_gap_filter){.epoch = -1,
                                                            .limit = 5000,
                                                            .statuses = 1U << TIDE_GAP_VOID}));
    assert_int_equal(0, count_gaps(&c, (tide_gap_filter){.epoch = -1, .agent_id = "b"}));
    assert_int_equal(0, count_gaps(&c, (tide_gap_filter){.epoch = 2}));
    assert_int_equal(
        3, count_gaps(&c, (tide_gap_filter){.epoch = 1, .first_seq = 10, .last_seq = 15}));
    assert_int_equal(500, count_gaps(&c, (tide_gap_filter){.epoch = -1,
                                                           .limit = 5000,
                                                           .after_id = c.change.gaps[1999].id}));
    tide_gap_list list = {0};
    assert_ok_err(tide_sink_gaps_in(c.sink, &c.change.to, 10, 15, &list, &c.err), &c.err);
    assert_int_equal(3, list.count);
    assert_int_equal(11, list.gaps[0].start_seq);
    assert_int_equal(15, list.gaps[2].start_seq);
    tide_gap_list_done(&list);
}

/* A gap 10^8 wide, and one as wide as numbers are, is one record. */
static void a_wide_gap_is_one_record(void **state)
{
    TIDE_CLEANUP(end) colony c;
    begin(&c, *state);
    next_change(&c);
    (void)change_gap(&c.change, 1, 100000000, TIDE_GAP_DETECTED);
    apply_well(&c);
    next_change(&c);
    (void)change_gap(&c.change, 100000001, INT64_MAX - 1, TIDE_GAP_PERMANENT);
    apply_well(&c);
    assert_int_equal(2, ask_number(c.sink, "SELECT count(*) FROM sequence_gaps"));
}

/* ---- closing ---- */

/* Another session. The old position closes into history, its open gaps end as lost, the new one has rows of its own. */
static void another_session_closes_the_position_and_its_gaps(void **state)
{
    TIDE_CLEANUP(end) colony c;
    begin(&c, *state);
    const int64_t id = make_gap(&c);
    next_change(&c);
    change_close(&c.change, SESSION_B, 1, "session changed");
    c.change.closes_all_gaps = true;
    apply_well(&c);
    assert_true(c.change.to.source_id != c.change.closed.source_id);
    tide_gap gap;
    find_gap(&c, id, &gap);
    assert_int_equal(TIDE_GAP_PERMANENT, gap.status);
    assert_string_equal("session changed", gap.reason);
    assert_true(gap.settled_at_us > 0);
    next_change(&c);
    assert_string_equal(SESSION_B, c.at.session_id);
    store_range(&c, 1, 8);
    apply_well(&c);
    assert_int_equal(2, check_ledger(c.sink));
    assert_int_equal(
        6, ask_number(c.sink, "SELECT count(*) FROM spans WHERE session_id = '" SESSION_A "'"));
    assert_int_equal(
        8, ask_number(c.sink, "SELECT count(*) FROM spans WHERE session_id = '" SESSION_B "'"));
    assert_int_equal(1, ask_number(c.sink, "SELECT count(*) FROM polling_checkpoint_history WHERE "
                                           "event = 'closed' AND session_id = '" SESSION_A
                                           "' AND closed_reason = 'session changed'"));
}

/* A divergence ends the gaps above the last common number, and leaves those below it to recovery. */
static void only_gaps_above_the_common_number_are_closed(void **state)
{
    TIDE_CLEANUP(end) colony c;
    begin(&c, *state);
    next_change(&c);
    (void)change_gap(&c.change, 1, 2, TIDE_GAP_DETECTED);
    (void)change_gap(&c.change, 3, 4, TIDE_GAP_DETECTED);
    apply_well(&c);
    next_change(&c);
    change_close(&c.change, SESSION_A, 2, "diverged");
    c.change.closes_all_gaps = true;
    c.change.closes_gaps_above = 2;
    apply_well(&c);
    assert_int_equal(
        1, ask_number(
               c.sink,
               "SELECT count(*) FROM sequence_gaps WHERE status = 'detected' AND end_seq_id = 2"));
    assert_int_equal(
        1, ask_number(
               c.sink,
               "SELECT count(*) FROM sequence_gaps WHERE status = 'permanent' AND end_seq_id = 4"));
}

typedef struct wanted {
    int64_t source_id;
    tide_position *out;
    int seen;
} wanted;

static tide_status take_position(void *arg, const tide_position *position,
                                 const tide_gap_sums *gaps, tide_error *err)
{
    (void)gaps;
    wanted *w = arg;
    w->seen++;
    if (position->source_id != w->source_id)
        return TIDE_OK;
    tide_position_done(w->out);
    return tide_position_copy(w->out, position, err);
}

/* Gaps of a closed epoch are still recovered: rows go to the closed position, which stays closed. */
static void a_closed_positions_gap_is_still_recovered(void **state)
{
    TIDE_CLEANUP(end) colony c;
    begin(&c, *state);
    tide_gap gap;
    find_gap(&c, make_gap(&c), &gap);
    next_change(&c);
    change_close(&c.change, SESSION_A, 2, "epoch changed");
    apply_well(&c);

    TIDE_CLEANUP(tide_position_done) tide_position closed;
    tide_position_init(&closed, "", "");
    wanted w = {.source_id = gap.source_id, .out = &closed};
    assert_ok_err(c.sink->ops->positions(c.sink, "a", "telemetry", true, take_position, &w, &c.err),
                  &c.err);
    assert_int_equal(2, w.seen);
    assert_true(closed.closed_at_us != 0);
    page_done(&c.page);
    page_init(&c.page, TIDE_STREAM_TELEMETRY);
    page_spans(&c.page, 4, 5);
    page_close(&c.page);
    for (int i = 0; i < 2; i++) { /* the second one is too late */
        tide_change_done(&c.change);
        change_begin(&c.change, &closed, c.t->clock.wall_us);
        change_store(&c.change, &c.page);
        tide_gap *known = change_known_gap(&c.change, &gap);
        known->status = TIDE_GAP_RECOVERED;
        known->settled_at_us = known->recovered_at_us = c.t->clock.wall_us;
        assert_status_err(i == 0 ? TIDE_OK : TIDE_E_CONFLICT, apply(&c), &c.err);
    }
    assert_int_equal(2, check_ledger(c.sink));
    assert_int_equal(8, ask_number(c.sink, "SELECT count(*) FROM spans WHERE epoch = 1"));
    next_change(&c);
    assert_int_equal(2, c.at.epoch);
}

/* A session that was here before goes on where it was closed, or not at all. */
static void a_session_that_comes_back_is_opened_again(void **state)
{
    TIDE_CLEANUP(end) colony c;
    begin(&c, *state);
    next_change(&c);
    store_range(&c, 1, 5);
    apply_well(&c);
    const int64_t source_id = c.change.to.source_id;
    next_change(&c);
    change_close(&c.change, SESSION_B, 1, "session changed");
    apply_well(&c);

    next_change(&c);
    change_close(&c.change, SESSION_A, 1, "session changed");
    assert_status(TIDE_E_CONFLICT, apply(&c));
    assert_contains(c.err.text, "was here before");

    TIDE_CLEANUP(tide_position_done) tide_position earlier;
    tide_position_init(&earlier, "", "");
    wanted w = {.source_id = source_id, .out = &earlier};
    assert_ok(c.sink->ops->positions(c.sink, "a", NULL, true, take_position, &w, &c.err));
    next_change(&c);
    change_close(&c.change, SESSION_A, 1, "session changed");
    tide_position_done(&c.change.to);
    assert_ok(tide_position_copy(&c.change.to, &earlier, &c.err));
    c.change.to.closed_at_us = 0;
    apply_well(&c);
    assert_int_equal(source_id, c.change.to.source_id);
    next_change(&c);
    assert_int_equal(5, c.at.last_seq);
    store_range(&c, 6, 7);
    apply_well(&c);
    assert_int_equal(2, check_ledger(c.sink));
    assert_int_equal(7, ask_number(c.sink, "SELECT count(*) FROM spans"));
    assert_int_equal(
        1, ask_number(c.sink,
                      "SELECT count(*) FROM polling_checkpoint_history WHERE event = 'reopened'"));
}

/* An agent that is removed: its position closes for good; when it comes back it is opened again. */
static void a_removed_agents_position_is_closed_and_can_come_back(void **state)
{
    TIDE_CLEANUP(end) colony c;
    begin(&c, *state);
    next_change(&c);
    store_range(&c, 1, 5);
    apply_well(&c);
    const int64_t source_id = c.change.to.source_id;
    next_change(&c);
    change_close(&c.change, "", 0, "removed");
    c.change.closes_all_gaps = true;
    apply_well(&c);
    assert_int_equal(1, check_ledger(c.sink));
    next_change(&c);
    assert_string_equal("", c.at.session_id);
    assert_true(c.at.version > 0);
    assert_status(TIDE_E_CONFLICT, apply(&c)); /* SESSION_A anew: its rows would be stored twice */

    TIDE_CLEANUP(tide_position_done) tide_position earlier;
    tide_position_init(&earlier, "", "");
    wanted w = {.source_id = source_id, .out = &earlier};
    assert_ok(c.sink->ops->positions(c.sink, "a", NULL, true, take_position, &w, &c.err));
    assert_int_equal(1, w.seen);
    next_change(&c);
    tide_position_done(&c.change.to);
    assert_ok(tide_position_copy(&c.change.to, &earlier, &c.err));
    c.change.to.closed_at_us = 0;
    c.change.is_closing = true; /* of nothing */
    tide_position_init(&c.change.closed, "a", "telemetry");
    apply_well(&c);
    next_change(&c);
    assert_int_equal(5, c.at.last_seq);
    store_range(&c, 6, 6);
    apply_well(&c);
    assert_int_equal(1, check_ledger(c.sink));
}

/* ResetPollingCheckpoint of the telemetry document: an operator's act, noted; what is read again is recognised. */
static void an_operators_reset_is_noted_in_history(void **state)
{
    TIDE_CLEANUP(end) colony c;
    begin(&c, *state);
    next_change(&c);
    store_range(&c, 1, 5);
    apply_well(&c);
    next_change(&c);
    tide_change_done(&c.change);
    assert_ok_err(tide_settle_move(&c.change, &c.at, 0, c.t->clock.wall_us, &c.err), &c.err);
    apply_well(&c);
    assert_int_equal(0, ask_number(c.sink, "SELECT last_seq_id FROM polling_checkpoints"));
    assert_int_equal(5, ask_number(c.sink, "SELECT last_seq_id FROM polling_checkpoint_history "
                                           "WHERE event = 'noted' AND note <> ''"));
    assert_int_equal(5, ask_number(c.sink, "SELECT count(*) FROM spans"));
}

/* ---- retention ---- */

static tide_retained retain(colony *c)
{
    tide_retained done;
    assert_ok_err(c->sink->ops->retain(c->sink, 7 * DAY_US, &done, &c->err), &c->err);
    return done;
}

/* The clock jumps, and the machine may have booted with it: what was stored lives on. */
static void a_clock_that_jumps_ahead_expires_nothing_at_once(void **state)
{
    TIDE_CLEANUP(end) colony c;
    begin(&c, *state);
    next_change(&c);
    store_range(&c, 1, 5);
    apply_well(&c);
    assert_int_equal(0, retain(&c).rows);
    virtual_env_set_wall(&c.t->clock, VIRTUAL_ENV_WALL_US + 3 * DAY_US);
    assert_int_equal(0, retain(&c).rows);
    virtual_env_reboot(&c.t->clock);
    assert_int_equal(0, retain(&c).rows);
    virtual_env_advance(&c.t->clock, DAY_US / 24);
    assert_int_equal(0, retain(&c).rows);
    assert_int_equal(5, ask_number(c.sink, "SELECT count(*) FROM spans"));
    virtual_env_advance(&c.t->clock, DAY_US); /* it was right after all */
    assert_int_equal(5, retain(&c).rows);
    assert_int_equal(1, check_ledger(c.sink));
}

/* Rows go by the time they were stored, and stay counted: stored = rows + expired. Rollups stay. */
static void old_rows_expire_and_stay_counted(void **state)
{
    TIDE_CLEANUP(end) colony c;
    begin(&c, *state);
    next_change(&c);
    store_range(&c, 1, 5);
    apply_well(&c);
    virtual_env_advance(&c.t->clock, DAY_US / 2);
    next_change(&c);
    store_range(&c, 6, 9);
    apply_well(&c);
    assert_int_equal(0, retain(&c).rows);
    virtual_env_advance(&c.t->clock, DAY_US / 2 + 1);
    const tide_retained done = retain(&c);
    assert_int_equal(5, done.rows);
    assert_int_equal(1, done.batches);
    assert_true(done.next_us > 0);
    assert_int_equal(4, ask_number(c.sink, "SELECT count(*) FROM spans"));
    assert_int_equal(9, ask_number(c.sink, "SELECT count FROM spans_1m"));
    assert_int_equal(1, check_ledger(c.sink));
    next_change(&c); /* and no version was moved */
    assert_int_equal(2, c.at.version);
    assert_int_equal(5, c.at.expired);
    store_range(&c, 10, 10);
    apply_well(&c);
    virtual_env_advance(&c.t->clock, 2 * DAY_US);
    assert_int_equal(5, retain(&c).rows);
    assert_int_equal(1, check_ledger(c.sink));
    assert_int_equal(0, ask_number(c.sink, "SELECT count(*) FROM polling_batches"));
}

/* A sink that is kept small says so for all types. */
static void rows_go_sooner_where_the_sink_says_so(void **state)
{
    TIDE_CLEANUP(end) colony c;
    begin(&c, *state);
    next_change(&c);
    store_range(&c, 1, 5);
    apply_well(&c);
    c.sink->keep_us = DAY_US / 48;
    virtual_env_advance(&c.t->clock, DAY_US / 48);
    assert_int_equal(0, retain(&c).rows);
    virtual_env_advance(&c.t->clock, 1);
    assert_int_equal(5, retain(&c).rows);
    assert_int_equal(0, ask_number(c.sink, "SELECT count(*) FROM spans"));
    assert_int_equal(1, check_ledger(c.sink));
}

/* A row that was recovered later than its neighbours is kept as long as any. */
static void a_recovered_row_does_not_expire_with_its_neighbours(void **state)
{
    TIDE_CLEANUP(end) colony c;
    begin(&c, *state);
    tide_gap gap;
    find_gap(&c, make_gap(&c), &gap);
    virtual_env_advance(&c.t->clock, DAY_US / 2);
    next_change(&c);
    store_range(&c, 4, 5);
    tide_gap *known = change_known_gap(&c.change, &gap);
    known->status = TIDE_GAP_RECOVERED;
    known->settled_at_us = c.t->clock.wall_us;
    apply_well(&c);
    virtual_env_advance(&c.t->clock, DAY_US / 2 + 1);
    assert_int_equal(6, retain(&c).rows);
    assert_int_equal(2, ask_number(c.sink, "SELECT count(*) FROM spans WHERE seq_id IN (4, 5)"));
    assert_int_equal(1, check_ledger(c.sink));
    virtual_env_advance(&c.t->clock, DAY_US);
    assert_int_equal(2, retain(&c).rows);
    assert_int_equal(1, check_ledger(c.sink));
}

/* Cleaning up a gap folds its width into the counts first; open ones stay. */
static void ended_gaps_are_folded_and_the_ledger_still_balances(void **state)
{
    TIDE_CLEANUP(end) colony c;
    begin(&c, *state);
    next_change(&c);
    (void)change_gap(&c.change, 1, 10, TIDE_GAP_PERMANENT);
    (void)change_gap(&c.change, 11, 13, TIDE_GAP_VOID);
    (void)change_gap(&c.change, 14, 20, TIDE_GAP_DETECTED);
    apply_well(&c);
    virtual_env_advance(&c.t->clock, 6 * DAY_US);
    assert_int_equal(0, retain(&c).gaps);
    virtual_env_advance(&c.t->clock, 2 * DAY_US);
    assert_int_equal(2, retain(&c).gaps);
    assert_int_equal(1, check_ledger(c.sink));
    assert_int_equal(1, ask_number(c.sink, "SELECT count(*) FROM sequence_gaps"));
    next_change(&c);
    assert_int_equal(10, c.at.folded_lost);
    assert_int_equal(3, c.at.folded_void);
    assert_int_equal(1, c.at.version);
}

static void dead_letters_expire_and_stay_counted(void **state)
{
    TIDE_CLEANUP(end) colony c;
    begin(&c, *state);
    next_change(&c);
    c.change.dead = calloc(1, sizeof *c.change.dead);
    assert_non_null(c.change.dead);
    c.change.dead[0] = (tide_dead_letter){.seq = 1, .reason = "bad", .bytes = tide_view_of("x")};
    c.change.dead_count = 1;
    c.change.to.dead = 1;
    assert_ok(tide_cursor_add(&c.change.to.cursor, 1, 1, NULL, &c.err));
    c.change.to.head = c.change.to.last_seq = 1;
    apply_well(&c);
    virtual_env_advance(&c.t->clock, 31 * DAY_US);
    assert_int_equal(1, retain(&c).dead);
    assert_int_equal(0, ask_number(c.sink, "SELECT count(*) FROM dead_letters"));
    assert_int_equal(1, check_ledger(c.sink));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(a_gap_is_found_again_as_it_was_written),
        STORE_CASE(a_gap_is_recovered_number_by_number),
        STORE_CASE(a_gap_is_recorded_once_however_often_storing_failed),
        STORE_CASE(a_second_gap_with_the_same_start_is_refused),
        STORE_CASE(a_gap_that_was_cleaned_up_is_not_changed),
        STORE_CASE(gaps_are_listed_by_what_is_asked_for),
        STORE_CASE(a_wide_gap_is_one_record),
        STORE_CASE(another_session_closes_the_position_and_its_gaps),
        STORE_CASE(only_gaps_above_the_common_number_are_closed),
        STORE_CASE(a_closed_positions_gap_is_still_recovered),
        STORE_CASE(a_session_that_comes_back_is_opened_again),
        STORE_CASE(a_removed_agents_position_is_closed_and_can_come_back),
        STORE_CASE(an_operators_reset_is_noted_in_history),
        STORE_CASE(a_clock_that_jumps_ahead_expires_nothing_at_once),
        STORE_CASE(old_rows_expire_and_stay_counted),
        STORE_CASE(rows_go_sooner_where_the_sink_says_so),
        STORE_CASE(a_recovered_row_does_not_expire_with_its_neighbours),
        STORE_CASE(ended_gaps_are_folded_and_the_ledger_still_balances),
        STORE_CASE(dead_letters_expire_and_stay_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
