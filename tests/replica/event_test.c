/* Values, stamps and events: what is sent is what arrives, and nothing else is taken for it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "replica/event.h"
#include "support/check.h"
#include "support/prng.h"

enum { ROUNDS = 2000 };

/* ---- values ---- */

static void assert_comes_back(const tide_sql_value *value)
{
    tide_sql_value back;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
    tide_buffer_init(&bytes, 1 << 20);
    assert_ok(tide_sql_value_encode(&bytes, value));
    tide_reader reader = tide_reader_of(tide_buffer_view(&bytes));
    assert_ok(tide_sql_value_decode(&back, &reader));
    assert_int_equal(0, tide_reader_left(&reader));
    assert_true(tide_sql_value_equal(value, &back));
    for (size_t len = 0; len < bytes.len; len++) {
        reader = tide_reader_of(tide_view_bytes(bytes.ptr, len));
        assert_status(TIDE_E_DAMAGED, tide_sql_value_decode(&back, &reader));
    }
}

/* Row images, bit for bit: what JSON and quote() lose (doubles, BLOBs, NUL in text) comes back. */
static void every_value_of_sqlite_comes_back(void **state)
{
    (void)state;
    static const int64_t integers[] = {0, 1, -1, 63, 64, -64, -65, INT64_MAX, INT64_MIN};
    static const double reals[] = {0.0, -0.0, 0.1, 1e308, -1e-308, 5e-324, INFINITY};
    static const char *const texts[] = {"", "a", "a\0b", "\xff\xfe", "\xe2\x82\xac"};
    static const size_t lens[] = {0, 1, 3, 2, 3};
    assert_comes_back(&(tide_sql_value){.kind = TIDE_SQL_VALUE_NULL});
    for (size_t i = 0; i < sizeof integers / sizeof integers[0]; i++)
        assert_comes_back(&(tide_sql_value){.kind = TIDE_SQL_VALUE_I64, .i64 = integers[i]});
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++)
        assert_comes_back(&(tide_sql_value){.kind = TIDE_SQL_VALUE_F64, .f64 = reals[i]});
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_comes_back(&(tide_sql_value){.kind = TIDE_SQL_VALUE_TEXT,
                                            .bytes = tide_view_bytes(texts[i], lens[i])});
        assert_comes_back(&(tide_sql_value){.kind = TIDE_SQL_VALUE_BLOB,
                                            .bytes = tide_view_bytes(texts[i], lens[i])});
    }
}

static void values_of_different_classes_differ(void **state)
{
    (void)state;
    const tide_sql_value one = {.kind = TIDE_SQL_VALUE_I64, .i64 = 1};
    const tide_sql_value real = {.kind = TIDE_SQL_VALUE_F64, .f64 = 1};
    const tide_sql_value text = {.kind = TIDE_SQL_VALUE_TEXT, .bytes = tide_view_of("1")};
    const tide_sql_value blob = {.kind = TIDE_SQL_VALUE_BLOB, .bytes = tide_view_of("1")};
    const tide_sql_value zero = {.kind = TIDE_SQL_VALUE_F64, .f64 = 0.0};
    const tide_sql_value minus = {.kind = TIDE_SQL_VALUE_F64, .f64 = -0.0};
    assert_false(tide_sql_value_equal(&one, &real));
    assert_false(tide_sql_value_equal(&text, &blob));
    assert_false(tide_sql_value_equal(&one, &text));
    assert_false(tide_sql_value_equal(&zero, &minus));
}

static void a_padded_number_is_no_value(void **state)
{
    (void)state;
    static const char padded[] = {TIDE_SQL_VALUE_I64, (char)0x82, 0};
    tide_sql_value out;
    tide_reader reader = tide_reader_of(tide_view_bytes(padded, sizeof padded));
    assert_status(TIDE_E_DAMAGED, tide_sql_value_decode(&out, &reader));
}

/* ---- stamps ---- */

/* A node's stamps rise whatever its clock does, and lie above everything it has met. */
static void stamps_rise_whatever_the_clock_does(void **state)
{
    (void)state;
    prng random;
    prng_init(&random, prng_seed_from_env(1));
    tide_error err = {.status = TIDE_OK};
    tide_hybrid clock = {.node.bytes = {1}};
    tide_stamp last = {.time = 0};
    int64_t wall_us = INT64_C(1700000000000000);
    for (int i = 0; i < ROUNDS; i++) {
        tide_stamp next;
        wall_us += (int64_t)prng_below(&random, 4000000) - 2000000;
        if (prng_chance(&random, 1, 10)) {
            const tide_stamp met = {.time = ((uint64_t)wall_us / 1000 + 1000) << 16,
                                    .node.bytes = {2}};
            if (tide_hybrid_meet(&clock, wall_us, &met) == TIDE_OK &&
                tide_stamp_compare(&met, &last) > 0)
                last = met;
        }
        assert_ok_err(tide_hybrid_next(&clock, wall_us, &next, &err), &err);
        assert_true(tide_stamp_compare(&next, &last) > 0);
        last = next;
    }
}

/* A full counter goes on in the next millisecond. */
static void many_stamps_of_one_moment_rise(void **state)
{
    (void)state;
    tide_error err = {.status = TIDE_OK};
    tide_hybrid clock = {.last = 0};
    tide_stamp last = {.time = 0};
    for (int i = 0; i < 200000; i++) {
        tide_stamp next;
        assert_ok(tide_hybrid_next(&clock, 1000000, &next, &err));
        assert_true(next.time > last.time);
        last = next;
    }
}

/* A stamp from far in the future waits, and does not drag our own clock along. */
static void a_stamp_beyond_the_drift_bound_waits(void **state)
{
    (void)state;
    const int64_t wall_us = INT64_C(1700000000000000);
    tide_hybrid clock = {.last = 7};
    const tide_stamp near = {.time = (uint64_t)((wall_us + TIDE_STAMP_DRIFT_US) / 1000) << 16};
    const tide_stamp far = {.time = ((uint64_t)((wall_us + TIDE_STAMP_DRIFT_US) / 1000) + 1) << 16};
    assert_status(TIDE_NONE, tide_hybrid_meet(&clock, wall_us, &far));
    assert_int_equal(7, clock.last);
    assert_ok(tide_hybrid_meet(&clock, wall_us, &near));
    assert_true(clock.last == near.time);
}

/* ---- events ---- */

static tide_event sample(tide_event_column columns[3])
{
    tide_event event = {.origin.bytes = {1, 2, 3},
                        .epoch = 2,
                        .seq = 100,
                        .prev_seq = 90,
                        .cut_seq = 105,
                        .stamp = {.time = UINT64_C(1) << 40, .node.bytes = {1, 2, 3}},
                        .table = "todos",
                        .schema = UINT64_C(0x0123456789abcdef),
                        .kind = TIDE_ROW_UPDATE,
                        .key_count = 2,
                        .base = {.time = 5, .node.bytes = {1, 2, 3}}};
    event.key[0] = (tide_sql_value){.kind = TIDE_SQL_VALUE_I64, .i64 = -7};
    event.key[1] = (tide_sql_value){.kind = TIDE_SQL_VALUE_TEXT, .bytes = tide_view_of("k")};
    columns[0] = (tide_event_column){.column = 0, .value = {.kind = TIDE_SQL_VALUE_NULL}};
    columns[1] = (tide_event_column){.column = 3,
                                     .base = {.time = 9, .node.bytes = {1, 2, 3}},
                                     .value = {.kind = TIDE_SQL_VALUE_F64, .f64 = 0.5}};
    columns[2] = (tide_event_column){
        .column = 1999,
        .base = {.time = UINT64_MAX, .node.bytes = {9, 8}},
        .value = {.kind = TIDE_SQL_VALUE_BLOB, .bytes = tide_view_bytes("\0\1", 2)}};
    event.columns = columns;
    event.column_count = 3;
    return event;
}

static void an_event_comes_back_whole(void **state)
{
    (void)state;
    tide_error err = {.status = TIDE_OK};
    tide_event_column columns[3];
    const tide_event event = sample(columns);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
    TIDE_CLEANUP(tide_event_done) tide_event back = {.columns = NULL};
    tide_buffer_init(&bytes, TIDE_EVENT_BYTES_MAX);
    assert_ok_err(tide_event_encode(&bytes, &event, &err), &err);
    assert_ok_err(tide_event_decode(&back, tide_buffer_view(&bytes), &err), &err);
    assert_int_equal(event.seq, back.seq);
    assert_int_equal(event.cut_seq, back.cut_seq);
    assert_string_equal("todos", back.table);
    assert_true(event.schema == back.schema);
    assert_int_equal(0, tide_stamp_compare(&event.base, &back.base));
    assert_int_equal(3, back.column_count);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(columns[i].column, back.columns[i].column);
        assert_int_equal(0, tide_stamp_compare(&columns[i].base, &back.columns[i].base));
        assert_true(tide_sql_value_equal(&columns[i].value, &back.columns[i].value));
    }
    assert_true(tide_sql_value_equal(&event.key[1], &back.key[1]));
}

/* Every byte counts: none can be changed or left out unnoticed. */
static void altered_events_are_refused(void **state)
{
    (void)state;
    tide_error err = {.status = TIDE_OK};
    tide_event_column columns[3];
    const tide_event event = sample(columns);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
    tide_buffer_init(&bytes, TIDE_EVENT_BYTES_MAX);
    assert_ok(tide_event_encode(&bytes, &event, &err));
    for (size_t i = 0; i < bytes.len; i++) {
        tide_event out = {.columns = NULL};
        bytes.ptr[i] = (char)(bytes.ptr[i] ^ 0x10);
        assert_status(TIDE_E_DAMAGED, tide_event_decode(&out, tide_buffer_view(&bytes), &err));
        bytes.ptr[i] = (char)(bytes.ptr[i] ^ 0x10);
        assert_status(TIDE_E_DAMAGED, tide_event_decode(&out, tide_view_bytes(bytes.ptr, i), &err));
    }
}

/* The same id wherever it is computed, and another one for another event. */
static void an_id_is_made_of_the_identity(void **state)
{
    (void)state;
    tide_event_column columns[3];
    tide_event event = sample(columns);
    char one[37];
    char two[37];
    tide_event_id(one, &event);
    event.prev_seq = 1;
    event.table[0] = 'T';
    tide_event_id(two, &event);
    assert_string_equal(one, two);
    assert_int_equal(36, strlen(one));
    event.seq++;
    tide_event_id(two, &event);
    assert_string_not_equal(one, two);
    event.seq--;
    event.epoch++;
    tide_event_id(two, &event);
    assert_string_not_equal(one, two);
    event.origin.bytes[3] ^= 1; /* stamps of two nodes may tie */
    tide_event_id(one, &event);
    assert_string_not_equal(one, two);
}

/* What is ordered by (timestamp, id) is ordered by stamp, to the last bit of the counter. */
static void ids_rise_with_stamps(void **state)
{
    (void)state;
    tide_event_column columns[3];
    tide_event event = sample(columns);
    char before[37];
    char after[37];
    for (int bit = 0; bit < 63; bit++) {
        event.seq = 2;
        event.stamp.time = ((UINT64_C(1) << bit) - 1) | 1;
        tide_event_id(before, &event);
        event.seq = 1;
        event.stamp.time = (UINT64_C(1) << bit) + 1;
        tide_event_id(after, &event);
        assert_true(strcmp(before, after) < 0);
        assert_int_equal('8', after[14]); /* the version of UUIDs of a kind of one's own */
        assert_non_null(strchr("89ab", after[19]));
    }
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_value_of_sqlite_comes_back),
        cmocka_unit_test(values_of_different_classes_differ),
        cmocka_unit_test(a_padded_number_is_no_value),
        cmocka_unit_test(stamps_rise_whatever_the_clock_does),
        cmocka_unit_test(many_stamps_of_one_moment_rise),
        cmocka_unit_test(a_stamp_beyond_the_drift_bound_waits),
        cmocka_unit_test(an_event_comes_back_whole),
        cmocka_unit_test(altered_events_are_refused),
        cmocka_unit_test(an_id_is_made_of_the_identity),
        cmocka_unit_test(ids_rise_with_stamps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
