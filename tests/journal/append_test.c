/* Appending: numbers, content, refusals. Tests 68-74 of the journal document, by number. */
#include "journal/journal_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* Test 68: the global sequence starts at 1. */
static void test_68_global_sequence_starts_at_one(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    assert_int_equal(0, head_of(t->store));
    const tide_checkpoint_numbers first = append_n(t, "a", 1);
    assert_int_equal(1, first.global_sequence);
    assert_int_equal(1, first.sequence_number);
    assert_false(first.is_existing);
}

/* Test 69: sessions A and B interleave: 1, 3 and 2, 4. */
static void test_69_sequences_increment_across_sessions(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    make_task(t, "b");
    assert_int_equal(1, append_n(t, "a", 1).global_sequence);
    assert_int_equal(2, append_n(t, "b", 1).global_sequence);
    const tide_checkpoint_numbers third = append_n(t, "a", 2);
    const tide_checkpoint_numbers fourth = append_n(t, "b", 2);
    assert_int_equal(3, third.global_sequence);
    assert_int_equal(2, third.sequence_number);
    assert_int_equal(4, fourth.global_sequence);
    assert_int_equal(2, fourth.sequence_number);
}

/* Test 70: the global sequence continues after a restart. */
static void test_70_global_sequence_persists_across_restarts(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    (void)append_n(t, "a", 1);
    (void)append_n(t, "a", 2);
    tide_store_closep(&t->store);
    t->store = store_test_open(t);
    t->others[t->other_count - 1] = NULL;
    assert_int_equal(2, head_of(t->store));
    assert_int_equal(3, append_n(t, "a", 3).global_sequence);
}

/* Test 73: the service tells the current number. */
static void test_73_the_service_exposes_the_current_sequence(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    for (int i = 1; i <= 5; i++) {
        (void)append_n(t, "a", i);
        assert_int_equal(i, head_of(t->store));
    }
}

static void what_was_appended_is_read_back(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    run_sql(t->store, "INSERT INTO work_items (work_item_id, task_id, work_type) "
                      "VALUES ('w1', 'a', 'job')");
    const char *const tags[] = {"red", "blue", "red", "ünïcode"};
    const tide_checkpoint_numbers numbers = append_new(
        t,
        (tide_checkpoint_new){TIDE_CHECKPOINT_NEW_INIT, .task_id = "a", .work_item_id = "w1",
                              .type = "tool_executed", .snapshot = tide_view_of("{\"x\": [1, 2]}"),
                              .metadata = "{\"by\":\"me\"}", .message = "a line\nand another",
                              .trigger = "gap_filled", .tags = tags, .tag_count = 4});
    const seen_list *list = list_all(t->store);
    assert_int_equal(1, list->count);
    const seen *row = &list->rows[0];
    assert_string_equal(numbers.checkpoint_id, row->checkpoint_id);
    assert_string_equal("a", row->task_id);
    assert_string_equal("tool_executed", row->type);
    assert_string_equal("{\"x\": [1, 2]}", row->snapshot);
    assert_string_equal("a line\nand another", row->message);
    assert_string_equal("gap_filled", row->trigger);
    assert_string_equal("blue,red,ünïcode", row->tags);
    assert_true(row->is_sealed);
    assert_true(row->created_at_us == VIRTUAL_ENV_WALL_US);
    assert_sound(t->store);
}

/* A caller that does not know whether its call was stored makes it again. */
static void an_id_given_again_with_equal_content_changes_nothing(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    tide_checkpoint_new checkpoint = {TIDE_CHECKPOINT_NEW_INIT, .checkpoint_id = "c1",
                                      .task_id = "a", .type = "manual_checkpoint",
                                      .snapshot = tide_view_of("{}")};
    const tide_checkpoint_numbers first = append_new(t, checkpoint);
    (void)append_n(t, "a", 2);
    const tide_checkpoint_numbers again = append_new(t, checkpoint);
    assert_true(again.is_existing);
    assert_int_equal(first.global_sequence, again.global_sequence);
    assert_int_equal(first.sequence_number, again.sequence_number);
    assert_int_equal(2, head_of(t->store));
    checkpoint.message = "something else";
    tide_checkpoint_numbers numbers;
    assert_status(TIDE_E_EXISTS, tide_journal_append(t->store, &checkpoint, &numbers, &t->err));
    assert_contains(t->err.text, "c1");
    assert_int_equal(2, head_of(t->store));
}

static void bad_input_is_refused_and_changes_nothing(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    char long_id[TIDE_JOURNAL_ID_MAX + 2];
    memset(long_id, 'x', sizeof long_id - 1);
    long_id[sizeof long_id - 1] = '\0';
    const char *const bad_tags[] = {"a\nb"};
    const char *const empty_tags[] = {""};
    const tide_checkpoint_new good = {TIDE_CHECKPOINT_NEW_INIT, .task_id = "a",
                                      .type = "manual_checkpoint", .snapshot = tide_view_of("{}")};
    tide_checkpoint_new bad[16];
    for (size_t i = 0; i < 16; i++)
        bad[i] = good;
    bad[0].snapshot = tide_view_of("{\"x\":");
    bad[1].snapshot = tide_view_of("{\"x\":\"\xff\"}");
    bad[2].snapshot = tide_view_of("");
    bad[3].metadata = "not json";
    bad[4].type = "no_such_type";
    bad[5].type = "";
    bad[6].task_id = "";
    bad[7].task_id = long_id;
    bad[8].checkpoint_id = long_id;
    bad[9].trigger = "whenever";
    bad[10].tags = bad_tags, bad[10].tag_count = 1;
    bad[11].tags = empty_tags, bad[11].tag_count = 1;
    bad[12].message = "\xc3";
    bad[13].is_text = true, bad[13].snapshot = tide_view_bytes("a\0b", 3);
    bad[14].expect_global = -1;
    bad[15].tag_count = TIDE_JOURNAL_TAGS_MAX + 1;
    tide_checkpoint_numbers numbers;
    for (size_t i = 0; i < 16; i++) {
        const tide_status status = tide_journal_append(t->store, &bad[i], &numbers, &t->err);
        if (status != TIDE_E_INVALID)
            fail_msg("case %zu: %s: %s", i, tide_status_get(status)->name, t->err.text);
    }
    tide_checkpoint_new nowhere = good;
    nowhere.task_id = "nobody";
    assert_status_err(TIDE_E_NOT_FOUND, tide_journal_append(t->store, &nowhere, &numbers, &t->err),
                      &t->err);
    assert_contains(t->err.text, "nobody");
    assert_int_equal(0, head_of(t->store));
    assert_int_equal(1, append_n(t, "a", 1).global_sequence);
}

static void a_snapshot_that_is_not_json_is_stored_when_it_is_said_to_be_text(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    (void)append_new(t, (tide_checkpoint_new){
                            TIDE_CHECKPOINT_NEW_INIT, .task_id = "a", .type = "manual_checkpoint",
                            .snapshot = tide_view_of("not { json"), .is_text = true});
    (void)append_new(t, (tide_checkpoint_new){TIDE_CHECKPOINT_NEW_INIT, .task_id = "a",
                                              .type = "manual_checkpoint",
                                              .snapshot = tide_view_of(""), .is_text = true});
    const seen_list *list = list_all(t->store);
    assert_string_equal("not { json", list->rows[0].snapshot);
    assert_string_equal("", list->rows[1].snapshot);
    assert_sound(t->store);
}

static void a_type_must_be_registered_once(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    assert_ok_err(tide_journal_add_type(t->store, "milestone", true, "reached", &t->err), &t->err);
    assert_ok_err(tide_journal_add_type(t->store, "milestone", true, "reached", &t->err), &t->err);
    assert_ok_err(tide_journal_add_type(t->store, "iteration_end", true, "x", &t->err), &t->err);
    assert_int_equal(1, append_json(t, "a", "milestone", "{}").global_sequence);
    assert_status(TIDE_E_INVALID, tide_journal_add_type(t->store, "", true, "x", &t->err));
}

/* ---- expected numbers ---- */

static void a_checkpoint_with_a_sequence_is_written_only_if_it_is_next(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    tide_checkpoint_numbers numbers = {0};
    assert_ok_err(
        tide_journal_checkpoint_with_sequence(t->store, "a", "first", 1, &numbers, &t->err),
        &t->err);
    assert_int_equal(1, numbers.global_sequence);
    assert_status_err(
        TIDE_E_CONFLICT,
        tide_journal_checkpoint_with_sequence(t->store, "a", "again", 1, &numbers, &t->err),
        &t->err);
    assert_contains(t->err.text, "the next is 2");
    assert_status(TIDE_E_CONFLICT, tide_journal_checkpoint_with_sequence(t->store, "a", "ahead", 3,
                                                                         &numbers, &t->err));
    assert_status(TIDE_E_INVALID, tide_journal_checkpoint_with_sequence(t->store, "a", "zero", 0,
                                                                        &numbers, &t->err));
    assert_int_equal(1, head_of(t->store));
    const char *const tags[] = {"x"};
    assert_ok(tide_journal_checkpoint_with_tags_and_sequence(
        t->store,
        &(tide_checkpoint_new){TIDE_CHECKPOINT_NEW_INIT, .task_id = "a", .message = "two",
                               .tags = tags, .tag_count = 1},
        2, &numbers, &t->err));
    assert_ok(tide_journal_auto_checkpoint_with_sequence(t->store, "a", "time_passed", 3, &numbers,
                                                         &t->err));
    const seen_list *list = list_all(t->store);
    assert_int_equal(3, list->count);
    assert_string_equal("x", list->rows[1].tags);
    assert_string_equal("time_passed", list->rows[2].trigger);
}

/* ---- several at once ---- */

typedef struct several {
    tide_checkpoint_new checkpoints[5];
    tide_checkpoint_numbers numbers[5];
    int count;
    bool wants_numbers;
} several;

static tide_status append_several(tide_tx *tx, void *arg, tide_error *err)
{
    several *s = arg;
    return tide_journal_append_in(tx, s->checkpoints, s->count,
                                  s->wants_numbers ? s->numbers : NULL, err);
}

static void several_checkpoints_of_several_tasks_are_one_transaction(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    make_task(t, "b");
    (void)append_n(t, "b", 0);
    several s = {.count = 5, .wants_numbers = true};
    const char *const tasks[] = {"a", "b", "a", "a", "b"};
    for (int i = 0; i < 5; i++)
        s.checkpoints[i] =
            (tide_checkpoint_new){TIDE_CHECKPOINT_NEW_INIT, .task_id = tasks[i],
                                  .type = "manual_checkpoint", .snapshot = tide_view_of("{}")};
    assert_ok_err(tide_store_write(t->store, append_several, &s, &t->err), &t->err);
    const int64_t numbers[] = {1, 2, 2, 3, 3};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(2 + i, s.numbers[i].global_sequence);
        assert_int_equal(numbers[i], s.numbers[i].sequence_number);
    }
    s.wants_numbers = false;
    assert_ok_err(tide_store_write(t->store, append_several, &s, &t->err), &t->err);
    assert_int_equal(11, head_of(t->store));
    const seen_list *list =
        list_of(t->store, (tide_journal_filter){TIDE_JOURNAL_FILTER_INIT, .task_id = "a"});
    assert_int_equal(6, list->count);
    for (int i = 0; i < 6; i++)
        assert_int_equal(i + 1, list->rows[i].sequence_number);
    assert_sound(t->store);
}

static void one_bad_checkpoint_of_several_changes_nothing(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    several s = {.count = 3, .wants_numbers = true};
    for (int i = 0; i < 3; i++)
        s.checkpoints[i] =
            (tide_checkpoint_new){TIDE_CHECKPOINT_NEW_INIT, .task_id = "a",
                                  .type = "manual_checkpoint", .snapshot = tide_view_of("{}")};
    s.checkpoints[2].task_id = "nobody";
    assert_status(TIDE_E_NOT_FOUND, tide_store_write(t->store, append_several, &s, &t->err));
    s.checkpoints[2].task_id = "a";
    s.checkpoints[1].checkpoint_id = s.checkpoints[2].checkpoint_id = "same";
    assert_status(TIDE_E_INVALID, tide_store_write(t->store, append_several, &s, &t->err));
    s.checkpoints[1].checkpoint_id = NULL;
    assert_ok_err(tide_store_write(t->store, append_several, &s, &t->err), &t->err);
    assert_int_equal(3, head_of(t->store));
    assert_ok_err(tide_store_write(t->store, append_several, &s, &t->err), &t->err);
    assert_true(s.numbers[2].is_existing);
    assert_int_equal(3, s.numbers[2].global_sequence);
    assert_int_equal(5, head_of(t->store));
}

/* ---- append-only ---- */

/* No statement of any client changes or removes what was appended. */
static void checkpoints_are_append_only_for_everybody(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    const char *const tags[] = {"x"};
    TIDE_CLEANUP(tide_freep) char *large = make_state(1, 40000);
    (void)append_new(t, (tide_checkpoint_new){
                            TIDE_CHECKPOINT_NEW_INIT, .task_id = "a", .type = "manual_checkpoint",
                            .snapshot = tide_view_of(large), .tags = tags, .tag_count = 1});
    const char *const attempts[] = {
        "UPDATE checkpoints SET snapshot_data = '{}'",
        "DELETE FROM checkpoints",
        "INSERT INTO checkpoint_tags (global_sequence, tag) VALUES (1, 'y')",
        "DELETE FROM checkpoint_tags",
        "UPDATE checkpoint_tags SET tag = 'y'",
        "DELETE FROM checkpoint_chunks",
        "UPDATE checkpoint_chunks SET position = position + 100",
        "INSERT INTO checkpoint_chunks (global_sequence, position, chunk_id) VALUES (1, 99, 1)",
        "DELETE FROM snapshot_chunks",
        ("INSERT INTO checkpoints (checkpoint_id, task_id, checkpoint_type, sequence_number, "
         "snapshot_data, checksum) VALUES ('x', 'a', 'manual_checkpoint', 2, '{}', NULL), "
         "('y', 'a', 'manual_checkpoint', 2, '{}', NULL)"),
    };
    for (size_t i = 0; i < sizeof attempts / sizeof attempts[0]; i++)
        refuse_sql(t->store, attempts[i], &t->err);
    if (t->engine == TIDE_ENGINE_SQLITE) {
        refuse_sql(t->store,
                   "INSERT OR REPLACE INTO checkpoints (global_sequence, checkpoint_id, task_id, "
                   "checkpoint_type, sequence_number, snapshot_data) "
                   "VALUES (1, 'z', 'a', 'manual_checkpoint', 1, '{}')",
                   &t->err);
        run_sql(t->store, "INSERT OR REPLACE INTO snapshot_chunks (chunk_id, digest, raw_len, "
                          "codec, body) VALUES (1, zeroblob(32), 1, 0, x'00')");
    }
    assert_sound(t->store);
    assert_int_equal(1, list_all(t->store)->count);
}

/* A row from plain SQL is numbered like all others; it may be tagged later, for nothing covers its tags. */
static void plain_sql_is_numbered_and_carries_no_seal(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    (void)append_n(t, "a", 1);
    run_sql(t->store, "INSERT INTO checkpoints (checkpoint_id, task_id, checkpoint_type, "
                      "sequence_number, snapshot_data) "
                      "VALUES ('plain', 'a', 'iteration_end', 2, 'any text')");
    run_sql(t->store, "INSERT INTO checkpoint_tags (global_sequence, tag) VALUES (2, 'later')");
    refuse_sql(t->store,
               "INSERT INTO checkpoints (checkpoint_id, task_id, checkpoint_type, sequence_number, "
               "snapshot_data, chunk_count) VALUES ('p2', 'a', 'iteration_end', 3, '{}', 2)",
               &t->err);
    assert_int_equal(3, append_n(t, "a", 3).sequence_number);
    const seen_list *list = list_all(t->store);
    assert_int_equal(3, list->count);
    assert_string_equal("plain", list->rows[1].checkpoint_id);
    assert_string_equal("any text", list->rows[1].snapshot);
    assert_string_equal("later", list->rows[1].tags);
    assert_false(list->rows[1].is_sealed);
    assert_true(list->rows[2].is_sealed);
    assert_sound(t->store);
}

/* Numbers end: the last one is given, and whoever asks for another is told so, on both engines with the same words. */
static void behind_the_last_number_there_is_none(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    make_task(t, "b");
    run_sql(t->store,
            "UPDATE task_heads SET last_sequence = 9223372036854775806 WHERE task_id = 'b'");
    const tide_checkpoint_new row = {TIDE_CHECKPOINT_NEW_INIT, .task_id = "b",
                                     .type = "manual_checkpoint", .snapshot = tide_view_of("{}")};
    tide_checkpoint_numbers numbers;
    assert_ok_err(tide_journal_append(t->store, &row, &numbers, &t->err), &t->err);
    assert_int_equal(INT64_MAX, numbers.sequence_number);
    assert_status_err(TIDE_E_EXHAUSTED, tide_journal_append(t->store, &row, &numbers, &t->err),
                      &t->err);
    assert_contains(t->err.text, "9223372036854775807 was the last");
    run_sql(t->store, "UPDATE journal_head SET last = 9223372036854775806");
    assert_int_equal(INT64_MAX, append_n(t, "a", 1).global_sequence);
    tide_checkpoint_new next = row;
    next.task_id = "a";
    for (int i = 0; i < 2; i++) {
        assert_status_err(TIDE_E_EXHAUSTED, tide_journal_append(t->store, &next, &numbers, &t->err),
                          &t->err);
        assert_contains(t->err.text, "9223372036854775807 was the last");
        next.expect_global = 5;
    }
    assert_int_equal(INT64_MAX, head_of(t->store));
}

/* A type that is known may become resumable: its newest is then kept. The other way round nothing changes. */
static void a_known_type_can_become_resumable(void **state)
{
    store_test *t = *state;
    assert_ok_err(tide_journal_add_type(t->store, "mine", false, "", &t->err), &t->err);
    assert_int_equal(0, ASK(t->store, "SELECT count(*) FROM checkpoint_types WHERE "
                                      "checkpoint_type = 'mine' AND is_resumable"));
    assert_ok_err(tide_journal_add_type(t->store, "mine", true, "", &t->err), &t->err);
    assert_ok_err(tide_journal_add_type(t->store, "mine", false, "", &t->err), &t->err);
    assert_int_equal(1, ASK(t->store, "SELECT count(*) FROM checkpoint_types WHERE "
                                      "checkpoint_type = 'mine' AND is_resumable"));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(test_68_global_sequence_starts_at_one),
        STORE_CASE(test_69_sequences_increment_across_sessions),
        STORE_CASE(test_70_global_sequence_persists_across_restarts),
        STORE_CASE(test_73_the_service_exposes_the_current_sequence),
        STORE_CASE(what_was_appended_is_read_back),
        STORE_CASE(an_id_given_again_with_equal_content_changes_nothing),
        STORE_CASE(bad_input_is_refused_and_changes_nothing),
        STORE_CASE(a_snapshot_that_is_not_json_is_stored_when_it_is_said_to_be_text),
        STORE_CASE(a_type_must_be_registered_once),
        STORE_CASE(a_checkpoint_with_a_sequence_is_written_only_if_it_is_next),
        STORE_CASE(several_checkpoints_of_several_tasks_are_one_transaction),
        STORE_CASE(one_bad_checkpoint_of_several_changes_nothing),
        STORE_CASE(checkpoints_are_append_only_for_everybody),
        STORE_CASE(plain_sql_is_numbered_and_carries_no_seal),
        STORE_CASE(behind_the_last_number_there_is_none),
        STORE_CASE(a_known_type_can_become_resumable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
