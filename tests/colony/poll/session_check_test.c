/* session_check_test.c - which agent answers at an address: swapped addresses, two agents in turn. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "colony/rig.h"

enum { FIRST = 10, MORE = 5 };

/* Both agents are read, and then have more. */
static rig *begin(void **state, tide_poller *pollers[2])
{
    rig *r = rig_new(*state, 2);
    for (int i = 0; i < 2; i++) {
        pollers[i] = rig_poller(r, &r->agents[i]);
        rig_put(&r->agents[i], "telemetry", FIRST);
        rig_catch_up(r, &r->agents[i], pollers[i], MINUTE_US);
    }
    for (int i = 0; i < 2; i++)
        rig_put(&r->agents[i], "telemetry", MORE);
    return r;
}

static int64_t count_closed(rig *r)
{
    return rig_query(r, "SELECT COUNT(*) FROM polling_checkpoint_history "
                        "WHERE event = 'closed' AND data_type = 'telemetry'");
}

static void end(rig *r, tide_poller *pollers[2])
{
    for (int i = 0; i < 2; i++)
        tide_poller_free(pollers[i]);
    rig_free(r);
}

static void swapped_addresses_store_and_close_nothing(void **state)
{
    tide_poller *pollers[2];
    rig *r = begin(state, pollers);
    rig_poll_for(r, &r->agents[1], pollers[0], 2 * MINUTE_US);
    rig_poll_for(r, &r->agents[0], pollers[1], 2 * MINUTE_US);
    assert_int_equal(2 * FIRST, rig_query(r, "SELECT COUNT(*) FROM spans"));
    assert_int_equal(0, count_closed(r));
    assert_contains(r->last_failure, "is of agent");
    assert_true(tide_poller_has_failures(pollers[0]));
    assert_contains(rig_log_text(r), "is of agent");
    for (int i = 0; i < 2; i++)
        rig_catch_up(r, &r->agents[i], pollers[i], 5 * MINUTE_US);
    for (int i = 0; i < 2; i++)
        rig_assert_rows(r, &r->agents[i], 1, FIRST + MORE);
    assert_int_equal(0, count_closed(r));
    rig_assert_balanced(r);
    end(r, pollers);
}

static void a_second_name_of_one_agent_reads_nothing(void **state)
{
    rig *r = rig_new(*state, 2);
    rig_put(&r->agents[0], "telemetry", FIRST);
    rig_catch_up_once(r, &r->agents[0]);
    tide_poller *second = rig_poller(r, &r->agents[1]);
    rig_poll_for(r, &r->agents[0], second, 2 * MINUTE_US);
    assert_int_equal(FIRST, rig_query(r, "SELECT COUNT(*) FROM spans"));
    assert_contains(r->last_failure, "is of agent 'a0'");
    tide_poller_free(second);
    rig_free(r);
}

static tide_status close_it(void *arg, const tide_position *at, const tide_gap_sums *gaps,
                            tide_error *err)
{
    rig *r = arg;
    (void)gaps;
    TIDE_CLEANUP(tide_change_done) tide_change change = {0};
    TIDE_TRY(tide_settle_close(&change, at, "removed", at->updated_at_us, err));
    return tide_sink_apply(r->sink, &change, err);
}

static void an_agent_that_was_removed_may_come_back_under_another_name(void **state)
{
    rig *r = rig_new(*state, 2);
    rig_put(&r->agents[0], "telemetry", FIRST);
    rig_catch_up_once(r, &r->agents[0]);
    assert_ok_err(r->sink->ops->positions(r->sink, "a0", NULL, false, close_it, r, &r->err),
                  &r->err);
    tide_poller *second = rig_poller(r, &r->agents[1]);
    rig_catch_up(r, &r->agents[0], second, MINUTE_US);
    assert_int_equal(2 * FIRST, rig_query(r, "SELECT COUNT(*) FROM spans"));
    tide_poller_free(second);
    rig_free(r);
}

/* A balancer that leads to each of two agents in turn. */
static void two_agents_in_turn_at_one_address_are_a_hold(void **state)
{
    rig *r = rig_new(*state, 2);
    rig_agent *a = &r->agents[0];
    rig_put(a, "telemetry", FIRST);
    tide_poller *poller = rig_poller(r, a);
    rig_catch_up(r, a, poller, MINUTE_US);
    rig_put(a, "telemetry", MORE);
    rig_put(&r->agents[1], "telemetry", FIRST);
    const int64_t until_us = r->t->clock.mono_us + 5 * MINUTE_US;
    for (int i = 0; r->t->clock.mono_us < until_us; i++) {
        int64_t wake_us = 0;
        if (rig_turn(r, &r->agents[i % 2], poller, &wake_us) == TIDE_NONE)
            rig_advance(r, SECOND_US);
    }
    assert_int_equal(0, count_closed(r));
    assert_int_equal(0, rig_query(r, "SELECT COUNT(*) FROM sequence_gaps"));
    assert_contains(r->last_failure, "in turn");
    rig_catch_up(r, a, poller, 5 * MINUTE_US);
    rig_assert_rows(r, a, 1, FIRST + MORE);
    rig_assert_balanced(r);
    tide_poller_free(poller);
    rig_free(r);
}

/* An address that leads to each of them for a while: the first change looks like a wiped agent. */
static void a_session_that_comes_and_goes_is_a_hold(void **state)
{
    rig *r = rig_new(*state, 2);
    tide_poller *poller = rig_poller(r, &r->agents[0]);
    for (int i = 0; i < 2; i++)
        rig_put(&r->agents[i], "telemetry", FIRST);
    for (int i = 0; i < 40; i++)
        rig_poll_for(r, &r->agents[i % 2], poller, 20 * SECOND_US);
    assert_true(count_closed(r) <= 3);
    assert_contains(r->last_failure, "in turn");
    tide_poller_free(poller);
    rig_free(r);
}

/* A gap of an agent at whose address another one answers is not given up. */
static void recovery_does_not_take_another_agents_word(void **state)
{
    const uint64_t but[] = {4, 0};
    rig_script script = {.count = 0};
    rig *r = rig_new(*state, 2);
    rig_script_fill(&script, 7, but);
    rig_agent_script(&r->agents[0], &script);
    tide_poller *poller = rig_poller(r, &r->agents[0]);
    rig_poll_for(r, &r->agents[0], poller, 20 * SECOND_US);
    assert_int_equal(1, rig_count_gaps(r, TIDE_GAP_DETECTED));
    (void)snprintf(script.session_id, sizeof script.session_id, "another");
    const tide_recover_options options = rig_recover_options(r);
    assert_int_equal(1, rig_recover(r, &options));
    assert_int_equal(1, rig_count_gaps(r, TIDE_GAP_DETECTED));
    assert_int_equal(0, rig_count_gaps(r, TIDE_GAP_PERMANENT));
    tide_poller_free(poller);
    rig_free(r);
}

/* For each question an epoch more. */
static void an_agent_that_begins_an_epoch_per_response_is_slowed(void **state)
{
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    tide_poller *poller = rig_poller(r, a);
    const int64_t until_us = r->t->clock.mono_us + 4 * MINUTE_US;
    while (r->t->clock.mono_us < until_us) {
        int64_t wake_us = 0;
        const int64_t asked = a->pages;
        if (rig_turn(r, a, poller, &wake_us) == TIDE_NONE) {
            rig_advance(r, SECOND_US);
        } else if (a->pages > asked) {
            rig_agent_backup(a);
            rig_agent_restore(a, true);
            rig_put(a, "telemetry", 1);
        }
    }
    assert_in_range(count_closed(r), 8, 20);
    assert_contains(r->last_failure, "once a minute");
    /* It stops: everything is read. */
    rig_poll_for(r, a, poller, 2 * HOUR_US);
    assert_true(tide_poller_is_caught_up(poller));
    rig_assert_balanced(r);
    tide_poller_free(poller);
    rig_free(r);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(swapped_addresses_store_and_close_nothing),
        STORE_CASE(a_second_name_of_one_agent_reads_nothing),
        STORE_CASE(an_agent_that_was_removed_may_come_back_under_another_name),
        STORE_CASE(two_agents_in_turn_at_one_address_are_a_hold),
        STORE_CASE(a_session_that_comes_and_goes_is_a_hold),
        STORE_CASE(recovery_does_not_take_another_agents_word),
        STORE_CASE(an_agent_that_begins_an_epoch_per_response_is_slowed),
    };
    return cmocka_run_group_tests_name("colony-poll-session-check", tests, NULL, NULL);
}
