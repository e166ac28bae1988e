/* overlap_test.c - an agent that was not written here is restored, and gives its numbers out again. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "colony/poll/record_digest.h"
#include "colony/rig.h"

static tide_poller *begin(rig *r, rig_script *script, int count)
{
    static const char *const types[] = {"telemetry"};
    *script = (rig_script){.count = 0};
    rig_script_fill(script, count, NULL);
    rig_agent_script(&r->agents[0], script);
    tide_poller_options options = rig_options(r);
    options.data_types = types;
    options.data_type_count = 1;
    return rig_poller_with(r, &r->agents[0], options, 0);
}

static int64_t count_rows(rig *r, int version)
{
    char sql[128];
    (void)snprintf(sql, sizeof sql,
                   "SELECT COUNT(*) FROM spans WHERE coalesce(http_status, 0) = %d", version);
    return rig_query(r, sql);
}

/* From this number on the records are others. */
static void fork_at(rig_script *script, uint64_t seq, int count)
{
    rig_script_fill(script, count, NULL);
    for (int i = 0; i < script->count; i++)
        script->rows[i].version = script->rows[i].seq >= seq ? 1 : 0;
}

/* Of 40 read, 20 are restored, and 30 are written: the 20 below the position are read, too. */
static void a_history_that_parted_is_read_behind_the_last_match(void **state)
{
    rig_script script;
    rig *r = rig_new(*state, 1);
    tide_poller *poller = begin(r, &script, 40);
    rig_poll_for(r, &r->agents[0], poller, MINUTE_US);
    assert_int_equal(40, count_rows(r, 0));
    fork_at(&script, 21, 50);
    rig_poll_for(r, &r->agents[0], poller, 5 * MINUTE_US);
    assert_int_equal(40,
                     count_rows(r, 0) - rig_query(r, "SELECT COUNT(*) FROM spans WHERE epoch = 1 "
                                                     "AND coalesce(http_status, 0) = 0"));
    assert_int_equal(30, count_rows(r, 1));
    assert_int_equal(1,
                     rig_query(r, "SELECT COUNT(*) FROM polling_checkpoint_history WHERE event = "
                                  "'closed' AND closed_reason = 'diverged'"));
    assert_int_equal(50, rig_last_seq(r, &r->agents[0], "telemetry"));
    rig_assert_balanced(r);
    tide_poller_free(poller);
    rig_free(r);
}

/* The same in small pages, and twice. */
static void it_parts_again(void **state)
{
    rig_script script;
    rig *r = rig_new(*state, 1);
    tide_poller *poller = begin(r, &script, 40);
    script.page_max = 3;
    rig_poll_for(r, &r->agents[0], poller, MINUTE_US);
    for (int i = 1; i <= 2; i++) {
        fork_at(&script, 31, 45 + i);
        for (int j = 0; j < script.count; j++)
            script.rows[j].version *= i;
        rig_poll_for(r, &r->agents[0], poller, 5 * MINUTE_US);
        assert_int_equal(15 + i, count_rows(r, i));
    }
    rig_assert_balanced(r);
    tide_poller_free(poller);
    rig_free(r);
}

static void an_agent_that_dropped_the_record_is_read_on(void **state)
{
    rig_script script;
    rig *r = rig_new(*state, 1);
    tide_poller *poller = begin(r, &script, 10);
    rig_poll_for(r, &r->agents[0], poller, MINUTE_US);
    for (int i = 0; i < 10; i++)
        script.rows[i].is_gone = true;
    for (uint64_t seq = 11; seq <= 20; seq++)
        rig_script_add(&script, seq);
    rig_poll_for(r, &r->agents[0], poller, 5 * MINUTE_US);
    assert_int_equal(20, count_rows(r, 0));
    assert_int_equal(0, rig_query(r, "SELECT COUNT(*) FROM polling_checkpoint_history"));
    rig_assert_balanced(r);
    tide_poller_free(poller);
    rig_free(r);
}

/* Encoders order the entries of maps at random. */
static void the_order_of_a_records_fields_does_not_count(void **state)
{
    (void)state;
    static const char one[] = "\x5a\x06\x0a\x01"
                              "a\x12\x01"
                              "1\x5a\x06\x0a\x01"
                              "b\x12\x01"
                              "2\x60\x07";
    static const char two[] = "\x60\x07\x5a\x06\x0a\x01"
                              "b\x12\x01"
                              "2\x5a\x06\x0a\x01"
                              "a\x12\x01"
                              "1\x40\x00";
    static const char other[] = "\x60\x07\x5a\x06\x0a\x01"
                                "b\x12\x01"
                                "2\x5a\x06\x0a\x01"
                                "a\x12\x01"
                                "2";
    unsigned char digests[3][TIDE_FEED_DIGEST_SIZE];
    assert_true(tide_record_fields_digest(tide_view_bytes(one, sizeof one - 1), digests[0]));
    assert_true(tide_record_fields_digest(tide_view_bytes(two, sizeof two - 1), digests[1]));
    assert_true(tide_record_fields_digest(tide_view_bytes(other, sizeof other - 1), digests[2]));
    assert_memory_equal(digests[0], digests[1], sizeof digests[0]);
    assert_memory_not_equal(digests[0], digests[2], sizeof digests[0]);
    assert_false(tide_record_fields_digest(tide_view_bytes("\x5a\x06", 2), digests[0]));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(a_history_that_parted_is_read_behind_the_last_match),
        STORE_CASE(it_parts_again),
        STORE_CASE(an_agent_that_dropped_the_record_is_read_on),
        cmocka_unit_test(the_order_of_a_records_fields_does_not_count),
    };
    return cmocka_run_group_tests_name("colony-overlap", tests, NULL, NULL);
}
