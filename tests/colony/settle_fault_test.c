/* Memory that runs out while an answer is read or settled: an error and nothing else, or the right result. */
#include "colony/settle.h"

#include <string.h>

#include "base/cleanup.h"
#include "colony/settle_fixture.h"
#include "support/alloc_fault.h"
#include "support/check.h"

enum { SWEEP_MAX = 1000 };

typedef struct lack {
    tide_position at;
    tide_gap_list gaps;
    tide_view answer;
    tide_ask asked;
    bool is_recovery;
} lack;

static void check_change(const lack *scene, tide_change *change, tide_status status)
{
    if (status == TIDE_OK) {
        assert_int_equal(change->from.version, scene->at.version);
        assert_true(change->row_count > 0 || change->is_closing);
        return;
    }
    const tide_change nothing = {.note = ""};
    assert_status(TIDE_E_NOMEM, status);
    assert_memory_equal(change, &nothing, sizeof nothing);
}

static void read_and_settle(void *arg)
{
    const lack *scene = arg;
    TIDE_CLEANUP(tide_reply_done) tide_reply reply = {.len = 0};
    TIDE_CLEANUP(tide_change_done) tide_change change = {.note = ""};
    tide_error err = {.text = ""};
    tide_status status = tide_reply_read(&reply, scene->asked.type, scene->answer, &err);
    if (status < TIDE_OK) {
        assert_status_err(TIDE_E_NOMEM, status, &err);
        assert_true(!reply.records && !reply.holes && !reply.epochs);
        return;
    }
    if (scene->is_recovery)
        status = tide_settle_gap(&change, &scene->at, &scene->gaps.gaps[0], &scene->asked, &reply,
                                 3, 1, &err);
    else
        status = tide_settle(&change, &scene->at, &scene->gaps, &scene->asked, &reply,
                             TIDE_SETTLE_GRACE_US, 1, 2, &err);
    check_change(scene, &change, status);
}

/* A position with holes and a gap, 20-29. */
static void set_scene(lack *scene, int64_t start)
{
    tide_error err;
    memset(scene, 0, sizeof *scene);
    tide_position_init(&scene->at, "agent-1", "telemetry");
    (void)strcpy(scene->at.session_id, "s1");
    scene->at.epoch = 1;
    scene->at.first = 1;
    scene->at.version = 3;
    scene->at.source_id = 1;
    (void)tide_cursor_raise(&scene->at.cursor, 40);
    for (int64_t seq = 42; seq < 60; seq += 2)
        assert_ok_err(tide_cursor_add(&scene->at.cursor, seq, seq, NULL, &err), &err);
    assert_ok_err(tide_position_hold(&scene->at, 1, &err), &err);
    scene->at.head = 100;
    scene->at.last_seq = 40;
    scene->gaps.gaps = calloc(1, sizeof *scene->gaps.gaps);
    assert_non_null(scene->gaps.gaps);
    scene->gaps.gaps[0] = (tide_gap){
        .id = 5, .source_id = 1, .start_seq = 20, .end_seq = 29, .status = TIDE_GAP_PERMANENT};
    scene->gaps.count = 1;
    scene->asked = (tide_ask){.type = tide_colony_type_of(TIDE_STREAM_TELEMETRY),
                              .data_type = "telemetry",
                              .start_seq = start};
}

static void sweep(lack *scene, answer *a)
{
    scene->answer = answer_bytes(a);
    ALLOC_FAULT_SWEEP(read_and_settle, scene, SWEEP_MAX);
    tide_position_done(&scene->at);
    free(scene->gaps.gaps);
    answer_done(a);
}

static void a_page_survives_a_lack_of_memory(void **state)
{
    (void)state;
    lack scene;
    answer a;
    set_scene(&scene, 15);
    answer_begin(&a, "s1");
    answer_record_run(&a, 16, 22);
    answer_record_run(&a, 30, 45);
    answer_dead(&a, 47);
    for (int64_t seq = 50; seq < 70; seq += 2)
        answer_record(&a, seq, seq);
    answer_state(&a, 1, 1, 70, 100);
    answer_hole(&a, 70, 70, "lost");
    sweep(&scene, &a);
}

static void a_foreign_page_survives_a_lack_of_memory(void **state)
{
    (void)state;
    lack scene;
    answer a;
    set_scene(&scene, 15);
    answer_begin(&a, "s1");
    answer_foreign_run(&a, 16, 22);
    answer_dead(&a, 0);
    for (int64_t seq = 50; seq < 90; seq += 3)
        answer_foreign(&a, seq, seq);
    sweep(&scene, &a);
}

static void a_new_history_survives_a_lack_of_memory(void **state)
{
    (void)state;
    lack scene;
    answer a;
    set_scene(&scene, 40);
    answer_begin(&a, "s2");
    answer_state(&a, 1, 1, 0, 0);
    sweep(&scene, &a);
    set_scene(&scene, 40);
    answer_begin(&a, "s1");
    answer_state(&a, 1, 1, 45, 45);
    answer_epoch(&a, 1, 1, "one", "created");
    answer_epoch(&a, 2, 46, "two", "restored");
    answer_number(&a, 11, TIDE_FEED_STANDING_DIVERGED);
    answer_number(&a, 12, 35);
    sweep(&scene, &a);
}

static void a_recovery_survives_a_lack_of_memory(void **state)
{
    (void)state;
    lack scene;
    answer a;
    set_scene(&scene, 19);
    scene.is_recovery = true;
    scene.gaps.gaps[0].status = TIDE_GAP_DETECTED;
    answer_begin(&a, "s1");
    answer_record_run(&a, 21, 22);
    answer_dead(&a, 25);
    answer_state(&a, 1, 1, 28, 100);
    answer_hole(&a, 27, 27, "damaged");
    sweep(&scene, &a);
}

static int disarm(void **state)
{
    (void)state;
    alloc_fault_off();
    return 0;
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_page_survives_a_lack_of_memory, disarm),
        cmocka_unit_test_teardown(a_foreign_page_survives_a_lack_of_memory, disarm),
        cmocka_unit_test_teardown(a_new_history_survives_a_lack_of_memory, disarm),
        cmocka_unit_test_teardown(a_recovery_survives_a_lack_of_memory, disarm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
