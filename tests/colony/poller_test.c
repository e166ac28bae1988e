/* A poller, a real agent and a real sink. */
#include <stdio.h>
#include <string.h>

#include <tidemark/lease.h>

#include "base/cleanup.h"
#include "colony/rig.h"

/* ---- a sink that fails when told ---- */

typedef enum apply_fault {
    APPLY_FAILS,         /* nothing is stored */
    APPLY_IS_UNKNOWN,    /* everything is stored, and nobody is told so */
    APPLY_MAY_HAVE_DIED, /* nothing is stored, and nobody can tell */
} apply_fault;

static struct {
    tide_sink_ops ops;
    const tide_sink_ops *real;
    apply_fault fault;
    int left;
} failing;

static tide_status apply_and_fail(tide_sink *sink, tide_change *change, tide_error *err)
{
    if (failing.left == 0)
        return failing.real->apply(sink, change, err);
    failing.left--;
    if (failing.fault == APPLY_FAILS)
        return tide_fail(err, TIDE_E_FULL, "no space left on the device");
    if (failing.fault == APPLY_IS_UNKNOWN)
        TIDE_TRY(failing.real->apply(sink, change, err));
    return tide_fail(err, TIDE_E_OUTCOME_UNKNOWN, "the connection broke at COMMIT");
}

static void fail_applies(rig *r, apply_fault fault, int count)
{
    if (r->sink->ops != &failing.ops) {
        failing.real = r->sink->ops;
        failing.ops = *r->sink->ops;
        failing.ops.apply = apply_and_fail;
        r->sink->ops = &failing.ops;
    }
    failing.fault = fault;
    failing.left = count;
}

/* ---- integration tests of the telemetry document ---- */

/* E2E Polling Flow: all data is fetched and the checkpoint is the highest number; then only what is new. */
static void everything_is_fetched_once_and_then_only_what_is_new(void **state)
{
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    tide_poller *poller = rig_poller(r, a);
    assert_int_equal(1, rig_put(a, "telemetry", 100));
    rig_catch_up(r, a, poller, MINUTE_US);
    rig_assert_rows(r, a, 1, 100);
    assert_int_equal(100, rig_last_seq(r, a, "telemetry"));
    assert_int_equal(100, r->stored);

    assert_int_equal(101, rig_put(a, "telemetry", 50));
    rig_catch_up(r, a, poller, MINUTE_US);
    rig_assert_rows(r, a, 1, 150);
    assert_int_equal(150, rig_last_seq(r, a, "telemetry"));
    assert_int_equal(150, r->stored);
    assert_int_equal(0, r->repeated);
    assert_int_equal(100, a->last_start);
    rig_assert_balanced(r);
    tide_poller_free(poller);
    rig_free(r);
}

/* Agent Restart: the sequence goes on, and the colony reads across the boundary. */
static void an_agents_restart_is_not_seen_in_the_rows(void **state)
{
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    tide_poller *poller = rig_poller(r, a);
    rig_put(a, "telemetry", 100);
    rig_catch_up(r, a, poller, MINUTE_US);
    rig_agent_restart(a);
    assert_int_equal(101, rig_put(a, "telemetry", 20));
    rig_catch_up(r, a, poller, MINUTE_US);
    rig_assert_rows(r, a, 1, 120);
    assert_int_equal(0, rig_query(r, "SELECT COUNT(*) FROM sequence_gaps"));
    rig_assert_balanced(r);
    tide_poller_free(poller);
    rig_free(r);
}

/* Colony Restart: polling goes on at the stored checkpoint. */
static void a_restarted_colony_goes_on_at_its_checkpoint(void **state)
{
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    rig_put(a, "telemetry", 70);
    rig_catch_up_once(r, a);
    tide_sink_close(r->sink);
    tide_store *again = store_test_open(r->t);
    assert_ok_err(tide_sink_open_sql(&r->sink, again, &r->err), &r->err);

    rig_put(a, "telemetry", 7);
    const int64_t pages = a->pages;
    rig_catch_up_once(r, a);
    assert_true(a->pages > pages);
    assert_int_equal(77, r->stored);
    assert_int_equal(0, r->repeated);
    rig_assert_rows(r, a, 1, 77);
    rig_assert_balanced(r);
    rig_free(r);
}

/* Clock skew: the agent's clock is an hour off, and its records' times with it; nothing is different. */
static void a_clock_that_is_an_hour_off_changes_nothing(void **state)
{
    rig *r = rig_new(*state, 2);
    const int64_t wall_us = r->t->clock.wall_us;
    virtual_env_set_wall(&r->agents[0].clock, wall_us + HOUR_US);
    virtual_env_set_wall(&r->agents[1].clock, wall_us - HOUR_US);
    for (int i = 0; i < 2; i++) {
        rig_agent *a = &r->agents[i];
        tide_poller *poller = rig_poller(r, a);
        for (int round = 0; round < 3; round++) {
            rig_put(a, "telemetry", 10);
            rig_catch_up(r, a, poller, MINUTE_US);
            rig_advance(r, 20 * SECOND_US);
        }
        tide_poller_free(poller);
        rig_assert_rows(r, a, 1, 30);
    }
    assert_int_equal(60, r->stored);
    assert_int_equal(0, rig_query(r, "SELECT COUNT(*) FROM sequence_gaps"));
    rig_assert_balanced(r);
    rig_free(r);
}

/* Network Partition: the answer is lost after the agent did its work. The checkpoint is not updated, the next poll starts at the old one. */
static void an_answer_that_is_lost_moves_nothing(void **state)
{
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    tide_poller *poller = rig_poller(r, a);
    rig_put(a, "telemetry", 40);
    rig_catch_up(r, a, poller, MINUTE_US);
    rig_put(a, "telemetry", 10);
    a->fault = RIG_LOST;
    a->fault_count = -1;
    rig_poll_for(r, a, poller, 2 * MINUTE_US);
    assert_int_equal(40, rig_last_seq(r, a, "telemetry"));
    assert_true(r->failed > 2);
    assert_false(tide_poller_is_caught_up(poller));
    rig_assert_rows(r, a, 1, 40);

    a->fault = RIG_FINE;
    rig_catch_up(r, a, poller, 2 * MINUTE_US);
    assert_int_equal(40, a->last_start);
    rig_assert_rows(r, a, 1, 50);
    assert_int_equal(0, r->repeated);
    rig_assert_balanced(r);
    tide_poller_free(poller);
    rig_free(r);
}

/* Polling failure: storing fails ten times after the query. The checkpoint is not updated, no gap is recorded for what was not stored,
 * the same data is queried again. */
static void what_cannot_be_stored_is_asked_for_again(void **state)
{
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    tide_poller *poller = rig_poller(r, a);
    rig_put(a, "telemetry", 40);
    rig_catch_up(r, a, poller, MINUTE_US);
    rig_put(a, "telemetry", 10);
    fail_applies(r, APPLY_FAILS, 10);
    int64_t wake_us;
    while (failing.left > 0) {
        if (rig_turn(r, a, poller, &wake_us) == TIDE_NONE)
            rig_advance(r, wake_us - r->t->clock.mono_us);
        assert_int_equal(40, rig_last_seq(r, a, "telemetry"));
    }
    assert_int_equal(10, r->not_stored);
    assert_int_equal(40, a->last_start);
    assert_int_equal(0, rig_query(r, "SELECT COUNT(*) FROM sequence_gaps"));
    rig_catch_up(r, a, poller, 2 * MINUTE_US);
    rig_assert_rows(r, a, 1, 50);
    assert_int_equal(0, rig_query(r, "SELECT COUNT(*) FROM sequence_gaps"));
    rig_assert_balanced(r);
    tide_poller_free(poller);
    rig_free(r);
}

/* ---- one transaction ---- */

/* Rows and checkpoint are one transaction. Whether the commit of which nothing is known happened or not, nothing is lost or
 * doubled: the position says which. */
static void a_commit_of_unknown_outcome_is_looked_up(void **state)
{
    const apply_fault faults[] = {APPLY_IS_UNKNOWN, APPLY_MAY_HAVE_DIED};
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    tide_poller *poller = rig_poller(r, a);
    int64_t put = 0;
    for (int i = 0; i < 2; i++) {
        rig_put(a, "telemetry", 25);
        put += 25;
        fail_applies(r, faults[i], 1);
        rig_catch_up(r, a, poller, 2 * MINUTE_US);
        assert_int_equal(0, failing.left);
        rig_assert_rows(r, a, 1, put);
    }
    assert_int_equal(2, r->not_stored);
    rig_assert_balanced(r);
    tide_poller_free(poller);
    rig_free(r);
}

/* The colony dies with the commit done and its poller not knowing; the next one does not store twice. */
static void a_crash_after_the_commit_doubles_nothing(void **state)
{
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    tide_poller *poller = rig_poller(r, a);
    rig_put(a, "telemetry", 25);
    tide_question question;
    int64_t wake_us;
    fail_applies(r, APPLY_IS_UNKNOWN, -1);
    while (r->not_stored == 0)
        assert_ok(rig_turn(r, a, poller, &wake_us));
    if (tide_poller_next(poller, &question, &wake_us, &r->err) == TIDE_OK)
        tide_poller_drop(poller);
    tide_poller_free(poller);
    failing.left = 0;
    rig_catch_up_once(r, a);
    rig_assert_rows(r, a, 1, 25);
    rig_assert_balanced(r);
    rig_free(r);
}

/* A slow second colony settles an older answer: the version refuses it, the checkpoint never goes back. */
static void a_second_colony_that_is_behind_moves_nothing_back(void **state)
{
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    tide_poller_options options = rig_options(r);
    tide_poller *slow = rig_poller(r, a);
    options.reader = "colony-two";
    tide_poller *fast = rig_poller_with(r, a, options, 0);
    rig_put(a, "telemetry", 30);
    rig_catch_up(r, a, slow, MINUTE_US);
    rig_catch_up(r, a, fast, MINUTE_US);
    rig_put(a, "telemetry", 30);

    /* slow has asked, and its answer is under way, when fast stores the same records and more */
    tide_question question;
    int64_t wake_us;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer answer = {0};
    tide_buffer_init(&answer, TIDE_REPLY_BYTES_MAX);
    for (;;) {
        assert_ok(tide_poller_next(slow, &question, &wake_us, &r->err));
        tide_buffer_clear(&answer);
        assert_ok(rig_ask(r, a, &question, &answer, &r->err));
        if (!question.is_watch)
            break;
        assert_ok(tide_poller_take(slow, TIDE_OK, tide_buffer_view(&answer), NULL, -1, &r->err));
    }
    rig_put(a, "telemetry", 40);
    rig_catch_up(r, a, fast, MINUTE_US);
    assert_int_equal(100, rig_last_seq(r, a, "telemetry"));
    assert_ok(tide_poller_take(slow, TIDE_OK, tide_buffer_view(&answer), NULL, -1, &r->err));
    assert_int_equal(100, rig_last_seq(r, a, "telemetry"));
    assert_int_equal(1, r->not_stored);
    rig_catch_up(r, a, slow, MINUTE_US);
    rig_assert_rows(r, a, 1, 100);
    rig_assert_balanced(r);
    tide_poller_free(slow);
    tide_poller_free(fast);
    rig_free(r);
}

/* ---- isolation ---- */

/* One agent cannot be reached; the others' batches are committed. */
static void one_agent_that_fails_leaves_the_others_alone(void **state)
{
    rig *r = rig_new(*state, 3);
    tide_poller *pollers[3];
    r->agents[1].fault = RIG_AWAY;
    r->agents[1].fault_count = -1;
    for (int i = 0; i < 3; i++) {
        rig_put(&r->agents[i], "telemetry", 20);
        pollers[i] = rig_poller(r, &r->agents[i]);
    }
    rig_catch_up(r, &r->agents[0], pollers[0], MINUTE_US);
    rig_poll_for(r, &r->agents[1], pollers[1], MINUTE_US);
    rig_catch_up(r, &r->agents[2], pollers[2], MINUTE_US);
    rig_assert_rows(r, &r->agents[0], 1, 20);
    rig_assert_rows(r, &r->agents[2], 1, 20);
    assert_int_equal(0, rig_last_seq(r, &r->agents[1], "telemetry"));
    r->agents[1].fault = RIG_FINE;
    rig_catch_up(r, &r->agents[1], pollers[1], MINUTE_US);
    rig_assert_rows(r, &r->agents[1], 1, 20);
    for (int i = 0; i < 3; i++)
        tide_poller_free(pollers[i]);
    rig_assert_balanced(r);
    rig_free(r);
}

/* An agent that is away is asked less and less often, and at least every 30 s. */
static void an_agent_that_is_away_is_asked_with_growing_pauses(void **state)
{
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    a->fault = RIG_AWAY;
    a->fault_count = -1;
    tide_poller *poller = rig_poller(r, a);
    int64_t longest_us = 0;
    for (int i = 0; i < 40; i++) {
        int64_t wake_us = 0;
        if (rig_turn(r, a, poller, &wake_us) == TIDE_OK)
            continue;
        const int64_t pause_us = wake_us - r->t->clock.mono_us;
        assert_true(pause_us > 0 && pause_us <= 30 * SECOND_US);
        longest_us = pause_us > longest_us ? pause_us : longest_us;
        rig_advance(r, pause_us);
    }
    assert_true(longest_us > 5 * SECOND_US);
    tide_poller_free(poller);
    rig_free(r);
}

/* ---- pages ---- */

/* A page too large for the message limit is asked for in smaller pieces; the backlog drains in one cycle of many pages. */
static void a_backlog_drains_through_a_narrow_message_limit(void **state)
{
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    rig_put(a, "telemetry", 3000);
    a->answer_max = 5000;
    const int64_t began_us = r->t->clock.mono_us;
    tide_poller_options options = rig_options(r);
    const char *const types[] = {"telemetry"};
    options.data_types = types;
    options.data_type_count = 1;
    options.is_once = true;
    tide_poller *poller = rig_poller_with(r, a, options, 0);
    rig_catch_up(r, a, poller, MINUTE_US);
    assert_true(tide_poller_is_over(poller));
    rig_assert_rows(r, a, 1, 3000);
    assert_true(r->polled > 20);
    assert_int_equal(began_us, r->t->clock.mono_us); /* no pause in between */
    rig_assert_balanced(r);
    tide_poller_free(poller);
    rig_free(r);
}

/* Pages that time out become smaller, and in the end one record is asked for. */
static void pages_that_time_out_become_smaller(void **state)
{
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    rig_put(a, "telemetry", 100);
    tide_poller *poller = rig_poller(r, a);
    int64_t wake_us;
    assert_ok(rig_turn(r, a, poller, &wake_us)); /* the watch */
    a->fault = RIG_LATE;
    a->fault_count = -1;
    int64_t least = INT64_MAX;
    for (int i = 0; i < 400; i++) {
        if (rig_turn(r, a, poller, &wake_us) == TIDE_NONE)
            rig_advance(r, wake_us - r->t->clock.mono_us);
        least = a->last_max < least ? a->last_max : least;
    }
    assert_int_equal(1, least);
    assert_int_equal(0, rig_last_seq(r, a, "telemetry"));
    a->fault = RIG_FINE;
    rig_catch_up(r, a, poller, 5 * MINUTE_US);
    rig_assert_rows(r, a, 1, 100);
    tide_poller_free(poller);
    rig_free(r);
}

/* ---- news ---- */

/* Freshness: while idle one watch is under way; a record is in the store one watch and one page after it was put. */
static void a_new_record_costs_one_watch_and_one_page(void **state)
{
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    tide_poller *poller = rig_poller(r, a);
    rig_put(a, "telemetry", 1);
    rig_catch_up(r, a, poller, MINUTE_US);
    tide_question question;
    int64_t wake_us;
    assert_ok(tide_poller_next(poller, &question, &wake_us, &r->err));
    assert_true(question.is_watch);
    assert_true(question.timeout_us > 20 * SECOND_US);
    /* Something arrives while the agent holds the call. */
    rig_put(a, "telemetry", 1);
    const int64_t began_us = r->t->clock.mono_us;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer answer = {0};
    tide_buffer_init(&answer, TIDE_REPLY_BYTES_MAX);
    assert_ok(rig_ask(r, a, &question, &answer, &r->err));
    assert_ok(tide_poller_take(poller, TIDE_OK, tide_buffer_view(&answer), NULL, -1, &r->err));
    const int64_t pages = a->pages;
    assert_ok(rig_turn(r, a, poller, &wake_us));
    assert_int_equal(pages + 1, a->pages);
    assert_int_equal(2, rig_last_seq(r, a, "telemetry"));
    assert_int_equal(began_us, r->t->clock.mono_us);
    tide_poller_free(poller);
    rig_free(r);
}

/* An idle agent costs one watch per 25 s, not a page per type. */
static void an_idle_agent_is_only_watched(void **state)
{
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    tide_poller *poller = rig_poller(r, a);
    rig_catch_up(r, a, poller, MINUTE_US);
    const int64_t asked = a->asked;
    const int64_t pages = a->pages;
    rig_poll_for(r, a, poller, 10 * MINUTE_US);
    assert_int_equal(pages, a->pages);
    assert_in_range(a->asked - asked, 20, 30);
    tide_poller_free(poller);
    rig_free(r);
}

typedef struct reader_seen {
    int64_t position;
} reader_seen;

static tide_status keep_reader(void *arg, const tide_feed_reader *reader, tide_error *err)
{
    (void)err;
    assert_string_equal("colony-test", reader->name);
    ((reader_seen *)arg)->position = reader->position;
    return TIDE_OK;
}

/* Rule 9: the agent learns what was settled, also when nothing new comes: once, and not with every watch. */
static void a_quiet_agent_is_told_what_was_settled(void **state)
{
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    tide_poller *poller = rig_poller(r, a);
    rig_put(a, "telemetry", 10);
    rig_catch_up(r, a, poller, MINUTE_US);
    const int64_t pages = a->pages;
    rig_poll_for(r, a, poller, 10 * MINUTE_US);
    reader_seen seen = {.position = -1};
    assert_ok_err(tide_feed_readers(a->feed, "telemetry", keep_reader, &seen, &r->err), &r->err);
    assert_int_equal(10, seen.position);
    assert_int_equal(pages + 1, a->pages);
    tide_poller_free(poller);
    rig_free(r);
}

/* Streams that nobody collects do not end the watch; those that a user declares are collected by name. */
static void only_the_types_that_are_wanted_are_collected(void **state)
{
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    const char *const types[] = {"orders", "telemetry"};
    tide_poller_options options = rig_options(r);
    options.data_types = types;
    options.data_type_count = 2;
    tide_poller *poller = rig_poller_with(r, a, options, 0);
    rig_put(a, "telemetry", 5);
    rig_put(a, "orders", 7);
    rig_put(a, "logs", 9);
    rig_catch_up(r, a, poller, MINUTE_US);
    assert_int_equal(5, rig_last_seq(r, a, "telemetry"));
    assert_int_equal(7, rig_last_seq(r, a, "orders"));
    assert_int_equal(0, rig_last_seq(r, a, "logs"));
    rig_put(a, "logs", 1);
    const int64_t asked = a->asked;
    rig_poll_for(r, a, poller, 5 * MINUTE_US);
    assert_true(a->asked - asked <= 20);
    rig_assert_balanced(r);
    tide_poller_free(poller);
    rig_free(r);
}

/* Of several streams with unread records, none is left behind, and each record comes once. */
static void all_streams_of_an_agent_are_drained(void **state)
{
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    const char *const streams[] = {"telemetry", "logs", "system_metrics", "orders", "returns"};
    tide_poller *poller = rig_poller(r, a);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 5; i++)
            rig_put(a, streams[i], 10 + i);
        rig_catch_up(r, a, poller, MINUTE_US);
    }
    for (int i = 0; i < 5; i++)
        assert_int_equal(3 * (10 + i), rig_last_seq(r, a, streams[i]));
    assert_int_equal(3 * 60, r->stored);
    rig_assert_balanced(r);
    tide_poller_free(poller);
    rig_free(r);
}

/* ---- what the agent no longer has ---- */

/* The first poll finds the older records gone: before our time, not lost. */
static void what_was_gone_before_the_first_poll_is_not_lost(void **state)
{
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    rig_put(a, "telemetry", 50);
    rig_advance(r, 2 * HOUR_US);
    rig_agent_retain(a);
    rig_put(a, "telemetry", 5);
    rig_catch_up_once(r, a);
    rig_assert_rows(r, a, 51, 55);
    TIDE_CLEANUP(tide_position_done) tide_position at = rig_position(r, a, "telemetry");
    assert_int_equal(51, at.first);
    assert_int_equal(0, r->permanent);
    assert_int_equal(0, rig_query(r, "SELECT COUNT(*) FROM sequence_gaps"));
    assert_null(strstr(rig_log_text(r), "PERMANENT DATA LOSS"));
    rig_assert_balanced(r);
    rig_free(r);
}

/* A colony that was away too long: what expired unread is lost, with the agent's reason, recorded at once and said aloud. */
static void what_expired_unread_is_lost_with_the_agents_reason(void **state)
{
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    rig_put(a, "telemetry", 10);
    rig_catch_up_once(r, a);
    rig_put(a, "telemetry", 50);
    rig_advance(r, 25 * HOUR_US);
    rig_agent_retain(a);
    rig_put(a, "telemetry", 5);
    rig_catch_up_once(r, a);
    assert_int_equal(65, rig_last_seq(r, a, "telemetry"));
    assert_int_equal(15, rig_query(r, "SELECT COUNT(*) FROM spans"));
    assert_int_equal(1, rig_count_gaps(r, TIDE_GAP_PERMANENT));
    assert_int_equal(1, rig_query(r, "SELECT COUNT(*) FROM sequence_gaps WHERE start_seq_id = 11 "
                                     "AND end_seq_id = 60 AND status = 'permanent'"));
    const char *log = rig_log_text(r);
    assert_contains(log, "level=error msg=\"PERMANENT DATA LOSS\" agent=a0 data_type=telemetry");
    assert_contains(log, "start=11 end=60 records=50");
    rig_assert_balanced(r);
    rig_free(r);
}

/* ---- operators ---- */

static void move_position(rig *r, rig_agent *a, int64_t seq)
{
    TIDE_CLEANUP(tide_position_done) tide_position at = rig_position(r, a, "telemetry");
    TIDE_CLEANUP(tide_change_done) tide_change change = {0};
    assert_ok_err(tide_settle_move(&change, &at, seq, r->t->clock.wall_us, &r->err), &r->err);
    assert_ok_err(tide_sink_apply(r->sink, &change, &r->err), &r->err);
}

/* A reset reads everything again; rows that are stored are recognised. */
static void after_a_reset_nothing_is_stored_twice(void **state)
{
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    tide_poller *poller = rig_poller(r, a);
    rig_put(a, "telemetry", 30);
    rig_catch_up(r, a, poller, MINUTE_US);
    move_position(r, a, 0);
    tide_poller_reload(poller);
    rig_put(a, "telemetry", 5);
    rig_catch_up(r, a, poller, MINUTE_US);
    assert_int_equal(35, r->stored);
    assert_int_equal(30, r->repeated);
    rig_assert_rows(r, a, 1, 35);
    assert_int_equal(35, rig_last_seq(r, a, "telemetry"));
    rig_assert_balanced(r);
    tide_poller_free(poller);
    rig_free(r);
}

/* Nobody tells the poller of the reset: it is noticed all the same. */
static void a_reset_that_nobody_told_of_is_noticed(void **state)
{
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    tide_poller *poller = rig_poller(r, a);
    rig_put(a, "telemetry", 30);
    rig_catch_up(r, a, poller, MINUTE_US);
    move_position(r, a, 10);
    rig_poll_for(r, a, poller, 6 * MINUTE_US);
    assert_int_equal(20, r->repeated);
    assert_int_equal(30, rig_last_seq(r, a, "telemetry"));
    rig_assert_rows(r, a, 1, 30);
    rig_assert_balanced(r);
    tide_poller_free(poller);
    rig_free(r);
}

/* An agent that was removed and is added again goes on where it was; nothing is stored twice. */
static void an_agent_that_is_added_again_is_recognised(void **state)
{
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    rig_put(a, "telemetry", 20);
    rig_catch_up_once(r, a);
    {
        TIDE_CLEANUP(tide_position_done) tide_position at = rig_position(r, a, "telemetry");
        TIDE_CLEANUP(tide_change_done) tide_change change = {0};
        assert_ok_err(tide_settle_close(&change, &at, "removed", r->t->clock.wall_us, &r->err),
                      &r->err);
        assert_ok_err(tide_sink_apply(r->sink, &change, &r->err), &r->err);
    }
    rig_put(a, "telemetry", 5);
    rig_catch_up_once(r, a);
    assert_int_equal(25, rig_last_seq(r, a, "telemetry"));
    assert_int_equal(25, r->stored);
    rig_assert_rows(r, a, 1, 25);
    rig_assert_balanced(r);
    rig_free(r);
}

/* ---- leases ---- */

typedef struct claim {
    const char *name;
    int64_t token;
} claim;

static tide_status claim_lease(tide_tx *tx, void *arg, tide_error *err)
{
    claim *c = arg;
    tide_lease lease;
    TIDE_TRY(tide_lease_claim(tx, c->name, "colony", 30 * SECOND_US, &lease, err));
    c->token = lease.token;
    return TIDE_OK;
}

static int64_t hold_agent(rig *r, const rig_agent *a)
{
    char name[TIDE_AGENT_ID_MAX + 16];
    tide_registry_lease_name(name, a->name);
    claim c = {.name = name};
    assert_ok_err(tide_store_write(r->t->store, claim_lease, &c, &r->err), &r->err);
    return c.token;
}

/* Rule 6, at the store: a colony whose lease was taken over stores nothing any more, and its poller is over. */
static void a_colony_that_lost_its_lease_stores_nothing(void **state)
{
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    tide_poller *stale = rig_poller_with(r, a, rig_options(r), hold_agent(r, a));
    rig_put(a, "telemetry", 10);
    rig_catch_up(r, a, stale, MINUTE_US);
    rig_advance(r, 31 * SECOND_US);
    (void)hold_agent(r, a);
    rig_put(a, "telemetry", 10);
    int64_t wake_us;
    for (int i = 0; i < 10 && !tide_poller_is_over(stale); i++)
        if (rig_turn(r, a, stale, &wake_us) == TIDE_NONE)
            rig_advance(r, SECOND_US);
    assert_true(tide_poller_is_over(stale));
    assert_false(tide_poller_is_caught_up(stale));
    rig_assert_rows(r, a, 1, 10);
    tide_poller_free(stale);
    rig_free(r);
}

/* Rule 6, at the agent: it has seen a higher token, and refuses the lower one. */
static void an_agent_refuses_a_lower_token(void **state)
{
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    const int64_t first = hold_agent(r, a);
    tide_poller *stale = rig_poller_with(r, a, rig_options(r), first);
    rig_put(a, "telemetry", 10);
    rig_catch_up(r, a, stale, MINUTE_US);
    rig_advance(r, 31 * SECOND_US);
    const int64_t second = hold_agent(r, a);
    assert_true(second > first);
    tide_poller *holder = rig_poller_with(r, a, rig_options(r), second);
    rig_put(a, "telemetry", 10);
    rig_catch_up(r, a, holder, 20 * SECOND_US);
    rig_put(a, "telemetry", 10);
    const int64_t not_stored = r->not_stored;
    int64_t wake_us;
    for (int i = 0; i < 10 && !tide_poller_is_over(stale); i++)
        if (rig_turn(r, a, stale, &wake_us) == TIDE_NONE)
            rig_advance(r, SECOND_US);
    assert_true(tide_poller_is_over(stale));
    assert_int_equal(not_stored, r->not_stored); /* it did not come so far */
    assert_contains(r->last_failure, "E_LEASE_LOST");
    rig_assert_rows(r, a, 1, 20);
    tide_poller_free(stale);
    tide_poller_free(holder);
    rig_free(r);
}

/* ---- once ---- */

/* poll --once: over when everything is caught up; with an agent that is away it gives up, and says so. */
static void once_ends_caught_up_or_gives_up(void **state)
{
    rig *r = rig_new(*state, 2);
    tide_poller_options options = rig_options(r);
    options.is_once = true;
    rig_put(&r->agents[0], "telemetry", 10);
    tide_poller *poller = rig_poller_with(r, &r->agents[0], options, 0);
    rig_catch_up(r, &r->agents[0], poller, MINUTE_US);
    assert_true(tide_poller_is_over(poller) && tide_poller_is_caught_up(poller));
    rig_assert_rows(r, &r->agents[0], 1, 10);
    tide_poller_free(poller);

    r->agents[1].fault = RIG_AWAY;
    r->agents[1].fault_count = -1;
    poller = rig_poller_with(r, &r->agents[1], options, 0);
    rig_catch_up(r, &r->agents[1], poller, 5 * MINUTE_US);
    assert_true(tide_poller_is_over(poller));
    assert_false(tide_poller_is_caught_up(poller));
    tide_poller_free(poller);
    rig_free(r);
}

/* ---- metrics ---- */

typedef struct lags {
    int64_t records;
    int64_t bytes;
    int64_t lag_us;
    int64_t loss_us;
    char hold[32];
} lags;

static void keep_lag(void *arg, const tide_poller_lag *lag)
{
    lags *l = arg;
    if (strcmp(lag->data_type, "telemetry") != 0)
        return;
    l->records = lag->records;
    l->bytes = lag->bytes;
    l->lag_us = lag->lag_us;
    l->loss_us = lag->loss_us;
    (void)snprintf(l->hold, sizeof l->hold, "%s", lag->hold);
}

/* checkpoint_lag_seconds: the age of the oldest unread record on the agent's clock, 0 when caught up; seconds until loss shrink. */
static void lag_and_time_until_loss_are_told(void **state)
{
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    virtual_env_set_wall(&a->clock, a->clock.wall_us - HOUR_US);
    tide_poller *poller = rig_poller(r, a);
    rig_put(a, "telemetry", 10);
    rig_catch_up(r, a, poller, MINUTE_US);
    lags l;
    tide_poller_lags(poller, keep_lag, &l);
    assert_int_equal(0, l.records);
    assert_int_equal(0, l.bytes);
    assert_int_equal(0, l.lag_us);
    assert_int_equal(INT64_MAX, l.loss_us);
    assert_int_equal(INT64_MAX, tide_poller_loss_us(poller));

    rig_put(a, "telemetry", 10);
    rig_advance(r, 10 * SECOND_US);
    int64_t wake_us;
    assert_ok(rig_turn(r, a, poller, &wake_us)); /* the watch tells */
    a->fault = RIG_LOST;
    a->fault_count = -1;
    rig_advance(r, 20 * SECOND_US);
    tide_poller_lags(poller, keep_lag, &l);
    assert_int_equal(10, l.records);
    assert_in_range(l.bytes, 10 * 40, 10 * 1000);
    assert_in_range(l.lag_us, 30 * SECOND_US, 31 * SECOND_US);
    assert_in_range(l.loss_us, HOUR_US - 31 * SECOND_US, HOUR_US - 30 * SECOND_US);
    assert_true(tide_poller_loss_us(poller) == l.loss_us);
    assert_ok(rig_turn(r, a, poller, &wake_us));
    tide_poller_lags(poller, keep_lag, &l);
    assert_string_equal("back-off", l.hold);
    tide_poller_free(poller);
    rig_free(r);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(everything_is_fetched_once_and_then_only_what_is_new),
        STORE_CASE(an_agents_restart_is_not_seen_in_the_rows),
        STORE_CASE(a_restarted_colony_goes_on_at_its_checkpoint),
        STORE_CASE(a_clock_that_is_an_hour_off_changes_nothing),
        STORE_CASE(an_answer_that_is_lost_moves_nothing),
        STORE_CASE(what_cannot_be_stored_is_asked_for_again),
        STORE_CASE(a_commit_of_unknown_outcome_is_looked_up),
        STORE_CASE(a_crash_after_the_commit_doubles_nothing),
        STORE_CASE(a_second_colony_that_is_behind_moves_nothing_back),
        STORE_CASE(one_agent_that_fails_leaves_the_others_alone),
        STORE_CASE_SQLITE(an_agent_that_is_away_is_asked_with_growing_pauses),
        STORE_CASE(a_backlog_drains_through_a_narrow_message_limit),
        STORE_CASE_SQLITE(pages_that_time_out_become_smaller),
        STORE_CASE(a_new_record_costs_one_watch_and_one_page),
        STORE_CASE_SQLITE(an_idle_agent_is_only_watched),
        STORE_CASE_SQLITE(a_quiet_agent_is_told_what_was_settled),
        STORE_CASE(only_the_types_that_are_wanted_are_collected),
        STORE_CASE(all_streams_of_an_agent_are_drained),
        STORE_CASE(what_was_gone_before_the_first_poll_is_not_lost),
        STORE_CASE(what_expired_unread_is_lost_with_the_agents_reason),
        STORE_CASE(after_a_reset_nothing_is_stored_twice),
        STORE_CASE_SQLITE(a_reset_that_nobody_told_of_is_noticed),
        STORE_CASE(an_agent_that_is_added_again_is_recognised),
        STORE_CASE(a_colony_that_lost_its_lease_stores_nothing),
        STORE_CASE(an_agent_refuses_a_lower_token),
        STORE_CASE_SQLITE(once_ends_caught_up_or_gives_up),
        STORE_CASE_SQLITE(lag_and_time_until_loss_are_told),
    };
    return cmocka_run_group_tests_name("colony-poller", tests, NULL, NULL);
}
