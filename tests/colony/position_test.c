/* Positions: points at doubling distances, held holes, copies, ledger. */
#include "colony/position.h"

#include <string.h>

#include "base/cleanup.h"
#include "support/check.h"

static void point_at(tide_position *p, int64_t seq)
{
    unsigned char digest[TIDE_FEED_DIGEST_SIZE] = {0};
    memcpy(digest, &seq, sizeof seq);
    tide_position_point(p, seq, digest);
}

/* The newest sixteen are kept; below, distances grow, so that a fork is found however far back. */
static void points_thin_out_with_distance(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_position_done) tide_position p;
    tide_position_init(&p, "a", "telemetry");
    p.epoch = 4;
    const int64_t last = 100000;
    for (int64_t seq = 1; seq <= last; seq++)
        point_at(&p, seq);
    assert_int_equal(p.point_count, TIDE_FEED_POINTS_MAX);
    for (int i = 0; i < TIDE_POSITION_RECENT_POINTS; i++)
        assert_int_equal(p.points[p.point_count - 1 - i].seq, last - i);
    assert_int_equal(p.points[0].seq, 1);
    for (int i = 1; i < p.point_count; i++) {
        const tide_feed_point *point = &p.points[i];
        assert_true(point->seq > point[-1].seq);
        assert_int_equal(point->epoch, 4);
        /* No stretch without a point is much longer than what lies above it. */
        if (i < p.point_count - TIDE_POSITION_RECENT_POINTS)
            assert_true(point->seq - point[-1].seq <= 4 * (last - point->seq));
        int64_t stamp = 0;
        memcpy(&stamp, point->digest, sizeof stamp);
        assert_int_equal(stamp, point->seq);
    }
}

/* What is read again replaces its point, and may lie anywhere. */
static void points_stay_in_order(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_position_done) tide_position p;
    tide_position_init(&p, "a", "telemetry");
    const int64_t seqs[] = {50, 10, 30, 50, 20, 40};
    for (size_t i = 0; i < sizeof seqs / sizeof seqs[0]; i++)
        point_at(&p, seqs[i]);
    assert_int_equal(p.point_count, 5);
    for (int i = 0; i < 5; i++)
        assert_int_equal(p.points[i].seq, 10 * (i + 1));
    assert_non_null(tide_position_digest(&p, 30));
    assert_null(tide_position_digest(&p, 31));
    const unsigned char nothing[TIDE_FEED_DIGEST_SIZE] = {0};
    assert_memory_equal(tide_position_digest(&p, 0), nothing, sizeof nothing);
}

/* A hole keeps its age while a part of it is left; a new one begins now; a clock that began anew makes none old. */
static void held_holes_keep_their_age(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_position_done) tide_position p;
    tide_error err;
    tide_position_init(&p, "a", "telemetry");
    assert_ok_err(tide_cursor_add(&p.cursor, 10, 20, NULL, &err), &err);
    assert_ok_err(tide_position_hold(&p, 100, &err), &err);
    assert_int_equal(p.held_count, 1);
    assert_int_equal(p.held[0].since_us, 100);
    assert_ok_err(tide_cursor_add(&p.cursor, 5, 5, NULL, &err), &err);
    assert_ok_err(tide_cursor_add(&p.cursor, 30, 30, NULL, &err), &err);
    assert_ok_err(tide_position_hold(&p, 200, &err), &err);
    assert_int_equal(p.held_count, 3);
    assert_int_equal(p.held[0].since_us, 100);
    assert_int_equal(p.held[1].numbers.first, 6);
    assert_int_equal(p.held[1].since_us, 100);
    assert_int_equal(p.held[2].since_us, 200);
    assert_ok_err(tide_position_hold(&p, 50, &err), &err);
    assert_int_equal(p.held[2].since_us, 50);
    (void)tide_cursor_raise(&p.cursor, 30);
    assert_ok_err(tide_position_hold(&p, 300, &err), &err);
    assert_int_equal(p.held_count, 0);
}

static void a_copy_is_its_own(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_position_done) tide_position p;
    TIDE_CLEANUP(tide_position_done) tide_position copy = {.version = 0};
    tide_error err;
    tide_position_init(&p, "agent", "telemetry");
    assert_ok_err(tide_cursor_add(&p.cursor, 10, 20, NULL, &err), &err);
    assert_ok_err(tide_position_hold(&p, 100, &err), &err);
    p.version = 7;
    assert_ok_err(tide_position_copy(&copy, &p, &err), &err);
    assert_ok_err(tide_cursor_add(&p.cursor, 5, 5, NULL, &err), &err);
    p.held[0].since_us = 0;
    assert_int_equal(copy.version, 7);
    assert_string_equal(copy.agent_id, "agent");
    assert_int_equal(copy.cursor.hole_count, 1);
    assert_int_equal(copy.held[0].since_us, 100);
    assert_ok_err(tide_cursor_add(&copy.cursor, 7, 7, NULL, &err), &err);
    assert_false(tide_cursor_has(&copy.cursor, 5));
}

/* head - first + 1 = stored + dead + filtered + void + lost + pending; pending from the holes, not a remainder. */
static void a_ledger_balances_or_says_what_is_missing(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_position_done) tide_position p;
    tide_error err;
    tide_position_init(&p, "a", "telemetry");
    tide_cursor_init(&p.cursor, 100, TIDE_POSITION_HOLES_MAX);
    p.first = 101;
    p.head = 200;
    assert_ok_err(tide_cursor_add(&p.cursor, 101, 150, NULL, &err), &err);
    assert_ok_err(tide_cursor_add(&p.cursor, 161, 180, NULL, &err), &err);
    p.stored = 30;
    p.dead = 4;
    p.filtered = 6;
    p.folded_void = 3;
    p.folded_lost = 2;
    const tide_gap_sums gaps = {.open = 10, .voided = 7, .permanent = 8, .recovered = 99};
    tide_ledger b;
    tide_position_ledger(&p, &gaps, &b);
    assert_int_equal(b.before, 100);
    assert_int_equal(b.voided, 10);
    assert_int_equal(b.lost, 10);
    assert_int_equal(b.held, 10);
    assert_int_equal(b.unread, 20);
    assert_int_equal(b.pending, 40);
    assert_int_equal(b.unexplained, 0);
    p.stored--;
    tide_position_ledger(&p, &gaps, &b);
    assert_int_equal(b.unexplained, 1);
}

/* Never polled: first 1, before 0, head 0. */
static void an_empty_position_is_balanced(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_position_done) tide_position p;
    tide_position_init(&p, "a", "telemetry");
    tide_ledger b;
    tide_position_ledger(&p, &(tide_gap_sums){.open = 0}, &b);
    assert_int_equal(b.first, 1);
    assert_int_equal(b.before, 0);
    assert_int_equal(b.head, 0);
    assert_int_equal(b.unexplained, 0);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(points_thin_out_with_distance),
        cmocka_unit_test(points_stay_in_order),
        cmocka_unit_test(held_holes_keep_their_age),
        cmocka_unit_test(a_copy_is_its_own),
        cmocka_unit_test(a_ledger_balances_or_says_what_is_missing),
        cmocka_unit_test(an_empty_position_is_balanced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
