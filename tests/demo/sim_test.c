/* Simulated agents of the demonstration: the colony's own questions and its reading of their answers. */
#include "demo/demo_sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unistd.h>

#include "base/cleanup.h"
#include "colony/ask.h"
#include "demo/demo_fleet.h"
#include "support/check.h"

#define SESSION "11111111-2222-3333-4444-555555555555"

static const tide_sim_time now = {.now_ms = 1800000000000, .tick_us = 2000000};

static tide_sim make_sim(int64_t tick)
{
    return (tide_sim){.name = "shop-oslo-2", .session = SESSION, .number = 3, .tick = tick};
}

/* Ask as the colony does, and read the answer as it does. */
typedef struct exchange {
    tide_buffer request;
    tide_buffer answer;
    tide_reply reply;
    tide_error err;
} exchange;

static void exchange_done(exchange *x)
{
    tide_reply_done(&x->reply);
    tide_buffer_done(&x->request);
    tide_buffer_done(&x->answer);
}

static tide_status ask(exchange *x, const tide_sim *sim, tide_stream_kind kind, int64_t start,
                       int64_t last)
{
    const tide_colony_type *type = tide_colony_type_of(kind);
    const tide_ask question = {.type = type,
                               .data_type = type->stream->name,
                               .start_seq = start,
                               .last_seq = last,
                               .max_records = 100,
                               .session_id = SESSION,
                               .reader = last > 0 ? NULL : "colony"};
    tide_sim_question read;
    *x = (exchange){.err = {.status = TIDE_OK}};
    tide_buffer_init(&x->request, 1 << 20);
    tide_buffer_init(&x->answer, 8 << 20);
    TIDE_TRY(tide_ask_encode(&x->request, &question, &x->err));
    TIDE_TRY(tide_sim_read_question(&read, type->path, tide_buffer_view(&x->request), &x->err));
    assert_int_equal(kind, read.kind);
    TIDE_TRY(tide_sim_respond(sim, &read, &now, &x->answer, &x->err));
    return tide_reply_read(&x->reply, type, tide_buffer_view(&x->answer), &x->err);
}

static void every_type_is_answered_as_the_colony_reads_it(void **state)
{
    (void)state;
    const tide_sim sim = make_sim(10);
    for (int kind = 0; kind < TIDE_SIM_STREAMS; kind++) {
        TIDE_CLEANUP(exchange_done) exchange x;
        assert_ok_err(ask(&x, &sim, (tide_stream_kind)kind, 0, 0), &x.err);
        assert_string_equal(SESSION, x.reply.session_id);
        assert_true(x.reply.has_state);
        assert_int_equal(tide_sim_head(&sim, (tide_stream_kind)kind), x.reply.head_seq);
        assert_int_equal(x.reply.head_seq, x.reply.scanned_through_seq);
        assert_int_equal(x.reply.head_seq, x.reply.record_count);
        for (int i = 0; i < x.reply.record_count; i++) {
            assert_int_equal(i + 1, x.reply.records[i].seq);
            assert_false(x.reply.records[i].is_dead);
        }
    }
}

static void what_is_asked_for_again_is_the_same(void **state)
{
    (void)state;
    const tide_sim sim = make_sim(10);
    TIDE_CLEANUP(exchange_done) exchange one;
    TIDE_CLEANUP(exchange_done) exchange two;
    assert_ok_err(ask(&one, &sim, TIDE_STREAM_TELEMETRY, 4, 0), &one.err);
    assert_ok_err(ask(&two, &sim, TIDE_STREAM_TELEMETRY, 4, 20), &two.err);
    assert_int_equal(16, two.reply.record_count);
    assert_int_equal(20, two.reply.scanned_through_seq);
    for (int i = 0; i < two.reply.record_count; i++)
        assert_true(tide_view_equal(one.reply.records[i].bytes, two.reply.records[i].bytes));
}

static void what_is_late_is_left_out_and_refused_until_it_is_there(void **state)
{
    (void)state;
    tide_sim sim = make_sim(10);
    sim.is_late = true;
    sim.late_first = 3;
    sim.late_last = 4;
    {
        TIDE_CLEANUP(exchange_done) exchange page;
        assert_ok_err(ask(&page, &sim, TIDE_STREAM_TELEMETRY, 0, 0), &page.err);
        assert_int_equal(40, page.reply.record_count);
        assert_int_equal(50, page.reply.scanned_through_seq);
        assert_int_equal(10, page.reply.records[9].seq);
        assert_int_equal(21, page.reply.records[10].seq);
        TIDE_CLEANUP(exchange_done) exchange again;
        assert_status(TIDE_E_UNAVAILABLE, ask(&again, &sim, TIDE_STREAM_TELEMETRY, 10, 20));
        TIDE_CLEANUP(exchange_done) exchange other;
        assert_ok_err(ask(&other, &sim, TIDE_STREAM_CPU_PROFILE, 0, 0), &other.err);
        assert_int_equal(other.reply.head_seq, other.reply.record_count);
    }
    sim.is_late = false;
    TIDE_CLEANUP(exchange_done) exchange there;
    assert_ok_err(ask(&there, &sim, TIDE_STREAM_TELEMETRY, 10, 20), &there.err);
    assert_int_equal(10, there.reply.record_count);
}

static void numbers_that_nobody_can_read_are_told_as_given(void **state)
{
    (void)state;
    tide_sim sim = make_sim(10);
    sim.ahead = 3;
    TIDE_CLEANUP(exchange_done) exchange x;
    assert_ok_err(ask(&x, &sim, TIDE_STREAM_TELEMETRY, 50, 0), &x.err);
    assert_int_equal(0, x.reply.record_count);
    assert_int_equal(50, x.reply.scanned_through_seq);
    assert_int_equal(65, x.reply.head_seq);
    assert_false(x.reply.has_more);
}

static void what_is_too_old_is_a_hole(void **state)
{
    (void)state;
    const tide_sim sim = make_sim(TIDE_SIM_KEEP_TICKS + 10);
    TIDE_CLEANUP(exchange_done) exchange x;
    assert_ok_err(ask(&x, &sim, TIDE_STREAM_BEYLA_GRPC, 4, 0), &x.err);
    assert_int_equal(1, x.reply.hole_count);
    assert_int_equal(5, x.reply.holes[0].first_seq);
    assert_int_equal(10, x.reply.holes[0].last_seq);
    assert_string_equal("expired", x.reply.holes[0].reason);
    assert_int_equal(11, x.reply.oldest_seq);
    assert_int_equal(11, x.reply.records[0].seq);
    assert_true(x.reply.has_more);
}

static void bytes_that_are_no_question_are_refused(void **state)
{
    (void)state;
    tide_error err = {0};
    tide_sim_question out;
    const char *path = tide_colony_type_of(TIDE_STREAM_TELEMETRY)->path;
    assert_status(TIDE_E_INVALID,
                  tide_sim_read_question(&out, path, tide_view_of("\xff\xff"), &err));
    assert_status(TIDE_E_INVALID, tide_sim_read_question(&out, "/nothing", tide_view_of(""), &err));
}

static void agents_go_on_behind_what_was_saved(void **state)
{
    (void)state;
    char directory[] = "/tmp/tidemark-sim-XXXXXX";
    char file[64];
    tide_error err = {0};
    assert_non_null(mkdtemp(directory));
    (void)snprintf(file, sizeof file, "%s/fleet", directory);
    tide_sim saved[] = {make_sim(7), make_sim(9)};
    (void)snprintf(saved[1].name, sizeof saved[1].name, "shop-turin-2");
    assert_ok_err(tide_demo_fleet_load(file, saved, 2, &err), &err); /* there is none yet */
    assert_ok_err(tide_demo_fleet_save(file, saved, 2, 5, &err), &err);
    tide_sim loaded[] = {{.name = "shop-new-1"}, {.name = "shop-turin-2"}, {.name = "shop-oslo-2"}};
    assert_ok_err(tide_demo_fleet_load(file, loaded, 3, &err), &err);
    assert_string_equal("", loaded[0].session);
    assert_int_equal(14, loaded[1].tick);
    assert_string_equal(SESSION, loaded[1].session);
    assert_int_equal(12, loaded[2].tick);
    (void)unlink(file);
    (void)rmdir(directory);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_is_answered_as_the_colony_reads_it),
        cmocka_unit_test(what_is_asked_for_again_is_the_same),
        cmocka_unit_test(what_is_late_is_left_out_and_refused_until_it_is_there),
        cmocka_unit_test(numbers_that_nobody_can_read_are_told_as_given),
        cmocka_unit_test(what_is_too_old_is_a_hole),
        cmocka_unit_test(bytes_that_are_no_question_are_refused),
        cmocka_unit_test(agents_go_on_behind_what_was_saved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
