/* Rows merge to the same state in any order, and what is lost unseen is told in any order. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "replica/merge.h"
#include "support/check.h"
#include "support/prng.h"

enum { COLUMNS = 4, EVENTS = 12, ROUNDS = 3000 };

/* ---- a row in memory, kept as a node keeps it ---- */

typedef struct row {
    tide_row_clock clock;
    int64_t values[COLUMNS]; /* of the row, or of its image */
    bool is_there;
} row;

static void row_done(row *r)
{
    tide_row_clock_done(&r->clock);
}

static tide_merge apply(row *r, const tide_event *event)
{
    tide_error err = {.status = TIDE_OK};
    tide_merge merge;
    assert_ok_err(tide_merge_event(&merge, &r->clock, event, &err), &err);
    for (int i = 0; i < event->column_count; i++)
        if (merge.columns[i].is_written)
            r->values[event->columns[i].column] = event->columns[i].value.i64;
    if (merge.fate == TIDE_FATE_INSERT) {
        assert_false(r->is_there);
        r->is_there = true;
    } else if (merge.fate == TIDE_FATE_DELETE) {
        assert_true(r->is_there);
        r->is_there = false;
    }
    tide_row_clock_done(&r->clock);
    r->clock = merge.clock;
    merge.clock = (tide_row_clock){.columns = NULL};
    assert_int_equal(r->is_there, tide_row_clock_exists(&r->clock));
    return merge;
}

static void apply_quietly(row *r, const tide_event *event)
{
    tide_merge merge = apply(r, event);
    tide_merge_done(&merge);
}

static void assert_same(const row *a, const row *b)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer x;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer y;
    tide_buffer_init(&x, 1 << 16);
    tide_buffer_init(&y, 1 << 16);
    assert_ok(tide_row_clock_encode(&x, &a->clock));
    assert_ok(tide_row_clock_encode(&y, &b->clock));
    assert_true(tide_view_equal(tide_buffer_view(&x), tide_buffer_view(&y)));
    assert_int_equal(a->is_there, b->is_there);
    for (int i = 0; i < COLUMNS; i++)
        assert_int_equal(a->values[i], b->values[i]);
}

/* ---- events ---- */

typedef struct change {
    tide_event event;
    tide_event_column columns[COLUMNS];
} change;

static tide_stamp stamp_of(uint64_t time, uint8_t node)
{
    tide_stamp stamp = {.time = time};
    stamp.node.bytes[0] = node;
    return stamp;
}

static void set(change *c, tide_change_kind kind, uint64_t time, uint8_t node)
{
    *c = (change){.event = {.kind = kind, .stamp = stamp_of(time, node), .key_count = 1}};
    c->event.columns = c->columns;
}

static void write(change *c, int column, int64_t value, tide_stamp base)
{
    c->columns[c->event.column_count++] = (tide_event_column){
        .column = column, .value = {.kind = TIDE_SQL_VALUE_I64, .i64 = value}, .base = base};
}

static void create(change *c, uint64_t time, uint8_t node, int64_t value)
{
    set(c, TIDE_ROW_CREATE, time, node);
    for (int i = 0; i < COLUMNS; i++)
        write(c, i, value, stamp_of(0, 0));
}

/* ---- cases ---- */

/* Node A updates a row that B created, and A's event arrives first. */
static void an_update_before_its_create_is_not_lost(void **state)
{
    (void)state;
    TIDE_CLEANUP(row_done) row late = {.is_there = false};
    TIDE_CLEANUP(row_done) row early = {.is_there = false};
    change made;
    change changed;
    create(&made, 10, 1, 100);
    set(&changed, TIDE_ROW_UPDATE, 20, 2);
    write(&changed, 2, 7, stamp_of(10, 1));
    apply_quietly(&late, &changed.event);
    assert_false(late.is_there); /* no half rows */
    apply_quietly(&late, &made.event);
    apply_quietly(&early, &made.event);
    apply_quietly(&early, &changed.event);
    assert_same(&early, &late);
    assert_int_equal(7, late.values[2]);
    assert_int_equal(100, late.values[0]);
}

/* A delete and a concurrent update of one row: the greater stamp decides, whichever comes first. */
static void a_delete_and_an_update_meet(void **state)
{
    (void)state;
    static const uint64_t times[][2] = {{20, 30}, {30, 20}}; /* of delete, of update */
    for (size_t i = 0; i < 2; i++) {
        TIDE_CLEANUP(row_done) row one = {.is_there = false};
        TIDE_CLEANUP(row_done) row other = {.is_there = false};
        change made;
        change gone;
        change changed;
        create(&made, 10, 1, 100);
        set(&gone, TIDE_ROW_DELETE, times[i][0], 2);
        gone.event.base = stamp_of(10, 1);
        set(&changed, TIDE_ROW_UPDATE, times[i][1], 3);
        write(&changed, 1, 5, stamp_of(10, 1));
        apply_quietly(&one, &made.event);
        apply_quietly(&one, &gone.event);
        apply_quietly(&one, &changed.event);
        apply_quietly(&other, &made.event);
        apply_quietly(&other, &changed.event);
        tide_merge last = apply(&other, &gone.event);
        assert_true(last.is_conflict);
        tide_merge_done(&last);
        assert_same(&one, &other);
        assert_int_equal(times[i][1] > times[i][0], one.is_there);
        if (one.is_there) /* brought back whole */
            assert_int_equal(100, one.values[0]);
    }
}

/* A delete that knew the row takes it, and nobody has lost anything. */
static void a_delete_that_knew_is_no_conflict(void **state)
{
    (void)state;
    TIDE_CLEANUP(row_done) row r = {.is_there = false};
    change made;
    change changed;
    change gone;
    create(&made, 10, 1, 1);
    set(&changed, TIDE_ROW_UPDATE, 20, 1);
    write(&changed, 0, 2, stamp_of(10, 1));
    set(&gone, TIDE_ROW_DELETE, 30, 2);
    gone.event.base = stamp_of(20, 1);
    apply_quietly(&r, &made.event);
    apply_quietly(&r, &changed.event);
    tide_merge merge = apply(&r, &gone.event);
    assert_false(merge.is_conflict);
    assert_int_equal(TIDE_FATE_DELETE, merge.fate);
    tide_merge_done(&merge);
}

/* Two nodes create the same key: the greater stamp wins, and the lost version is told, in both orders. */
static void two_creates_of_one_key_are_a_conflict(void **state)
{
    (void)state;
    for (int order = 0; order < 2; order++) {
        TIDE_CLEANUP(row_done) row r = {.is_there = false};
        change made[2];
        create(&made[0], 10, 1, 100);
        create(&made[1], 11, 2, 200);
        apply_quietly(&r, &made[order].event);
        tide_merge merge = apply(&r, &made[1 - order].event);
        for (int i = 0; i < COLUMNS; i++) {
            assert_true(merge.columns[i].is_conflict);
            assert_int_equal(order == 0, merge.columns[i].is_written);
            assert_int_equal(200, r.values[i]);
        }
        tide_merge_done(&merge);
    }
}

/* A write that knew the other is no conflict, also when it comes first. */
static void writes_that_follow_one_another_are_no_conflict(void **state)
{
    (void)state;
    for (int order = 0; order < 2; order++) {
        TIDE_CLEANUP(row_done) row r = {.is_there = false};
        change made;
        change changed[2];
        create(&made, 10, 1, 0);
        for (int i = 0; i < 2; i++) {
            set(&changed[i], TIDE_ROW_UPDATE, 20 + 10 * (uint64_t)i, (uint8_t)(1 + i));
            write(&changed[i], 3, i, stamp_of(10 + 10 * (uint64_t)i, 1));
        }
        apply_quietly(&r, &made.event);
        apply_quietly(&r, &changed[order].event);
        tide_merge merge = apply(&r, &changed[1 - order].event);
        assert_false(merge.columns[0].is_conflict);
        assert_int_equal(1, r.values[3]);
        tide_merge_done(&merge);
    }
}

/* Two nodes write at one time; a third has seen the lower of the two, or the greater one: only what it has not seen is lost. */
static void a_tie_in_time_is_told_apart_by_the_node(void **state)
{
    (void)state;
    for (uint8_t seen = 1; seen <= 2; seen++) {
        TIDE_CLEANUP(row_done) row r = {.is_there = false};
        change made;
        change tied;
        change later;
        create(&made, 10, 3, 0);
        set(&tied, TIDE_ROW_UPDATE, 20, 2);
        write(&tied, 1, 2, stamp_of(10, 3));
        set(&later, TIDE_ROW_UPDATE, 30, 3);
        write(&later, 1, 3, stamp_of(20, seen));
        apply_quietly(&r, &made.event);
        apply_quietly(&r, &tied.event);
        tide_merge merge = apply(&r, &later.event);
        assert_true(merge.columns[0].is_written);
        assert_int_equal(seen != 2, merge.columns[0].is_conflict);
        tide_merge_done(&merge);
    }
}

static void shuffle(prng *random, int *order, int count)
{
    for (int i = count - 1; i > 0; i--) {
        const int j = (int)prng_below(random, (uint64_t)i + 1);
        const int kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}

static void draw(prng *random, change *c, int number)
{
    const uint64_t time =
        1 + prng_below(random, 8);        /* few: stamps of different nodes tie in time */
    const uint8_t node = (uint8_t)number; /* a node never gives a stamp twice */
    const uint64_t base_time = prng_below(random, 8);
    const tide_stamp base = stamp_of(base_time, (uint8_t)prng_below(random, EVENTS));
    switch (prng_below(random, 4)) {
    case 0:
        create(c, time, node, number);
        break;
    case 1:
        set(c, TIDE_ROW_DELETE, time, node);
        c->event.base = base;
        break;
    default:
        set(c, TIDE_ROW_UPDATE, time, node);
        for (int i = 0; i < COLUMNS; i++)
            if (prng_below(random, 2) == 0)
                write(c, i, number * 10 + i, base);
        break;
    }
}

/* Any events, in any order, any of them twice: one state; and once it has everything, nothing changes it any more. */
static void any_order_gives_one_state(void **state)
{
    (void)state;
    prng random;
    prng_init(&random, prng_seed_from_env(1));
    for (int round = 0; round < ROUNDS; round++) {
        TIDE_CLEANUP(row_done) row first = {.is_there = false};
        TIDE_CLEANUP(row_done) row second = {.is_there = false};
        change changes[EVENTS];
        int order[EVENTS];
        for (int i = 0; i < EVENTS; i++) {
            draw(&random, &changes[i], i + 1);
            order[i] = i;
        }
        for (int i = 0; i < EVENTS; i++)
            apply_quietly(&first, &changes[i].event);
        shuffle(&random, order, EVENTS);
        for (int i = 0; i < EVENTS; i++) {
            apply_quietly(&second, &changes[order[i]].event);
            if (prng_below(&random, 3) == 0)
                apply_quietly(&second, &changes[order[prng_below(&random, (uint64_t)i + 1)]].event);
        }
        assert_same(&first, &second);
        for (int i = 0; i < EVENTS; i++) {
            tide_merge merge = apply(&second, &changes[i].event);
            assert_int_equal(TIDE_FATE_NOTHING, merge.fate);
            tide_merge_done(&merge);
        }
        assert_same(&first, &second);
    }
}

/* Which writes were lost unseen does not depend on the order of two. */
static void a_lost_write_is_told_in_both_orders(void **state)
{
    (void)state;
    prng random;
    prng_init(&random, prng_seed_from_env(2));
    for (int round = 0; round < ROUNDS; round++) {
        change two[2];
        bool is_told[2] = {false, false};
        const int column = 1;
        for (int i = 0; i < 2; i++) {
            set(&two[i], TIDE_ROW_UPDATE, 1 + prng_below(&random, 5), (uint8_t)(i + 1));
            const uint64_t base = prng_below(&random, 5);
            write(&two[i], column, i, stamp_of(base, (uint8_t)prng_below(&random, 4)));
        }
        for (int order = 0; order < 2; order++) {
            TIDE_CLEANUP(row_done) row r = {.is_there = false};
            apply_quietly(&r, &two[order].event);
            tide_merge merge = apply(&r, &two[1 - order].event);
            is_told[order] = merge.columns[0].is_conflict;
            tide_merge_done(&merge);
        }
        assert_int_equal(is_told[0], is_told[1]);
    }
}

static void a_clock_survives_its_bytes(void **state)
{
    (void)state;
    tide_error err = {.status = TIDE_OK};
    TIDE_CLEANUP(row_done) row r = {.is_there = false};
    TIDE_CLEANUP(row_done) row back = {.is_there = false};
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
    change made;
    change changed;
    tide_buffer_init(&bytes, 1 << 16);
    create(&made, 10, 1, 0);
    set(&changed, TIDE_ROW_UPDATE, 20, 2);
    write(&changed, 0, 1, stamp_of(10, 1));
    write(&changed, 3, 1, stamp_of(10, 2));
    apply_quietly(&r, &made.event);
    apply_quietly(&r, &changed.event);
    assert_ok(tide_row_clock_encode(&bytes, &r.clock));
    assert_ok_err(tide_row_clock_decode(&back.clock, tide_buffer_view(&bytes), &err), &err);
    assert_int_equal(2, back.clock.column_count);
    assert_int_equal(20, tide_row_clock_of(&back.clock, 3).stamp.time);
    assert_int_equal(10, tide_row_clock_of(&back.clock, 1).stamp.time);
    for (size_t len = 0; len < bytes.len; len++) {
        tide_row_clock cut = {.columns = NULL};
        assert_status(TIDE_E_DAMAGED,
                      tide_row_clock_decode(&cut, tide_view_bytes(bytes.ptr, len), &err));
    }
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_update_before_its_create_is_not_lost),
        cmocka_unit_test(a_delete_and_an_update_meet),
        cmocka_unit_test(a_delete_that_knew_is_no_conflict),
        cmocka_unit_test(two_creates_of_one_key_are_a_conflict),
        cmocka_unit_test(writes_that_follow_one_another_are_no_conflict),
        cmocka_unit_test(a_tie_in_time_is_told_apart_by_the_node),
        cmocka_unit_test(any_order_gives_one_state),
        cmocka_unit_test(a_lost_write_is_told_in_both_orders),
        cmocka_unit_test(a_clock_survives_its_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
