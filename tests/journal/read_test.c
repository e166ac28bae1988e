/* Reading: lists by every filter, one checkpoint, following, annotations, restore, diff. */
#include "journal/journal_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "journal/append.h"

/* Test 76: a range of global numbers, inclusive, across tasks, sorted. */
static void test_76_query_checkpoints_by_sequence_range(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    make_task(t, "b");
    for (int i = 1; i <= 10; i++)
        (void)append_n(t, i % 2 ? "a" : "b", i);
    const seen_list *list =
        list_of(t->store, (tide_journal_filter){TIDE_JOURNAL_FILTER_INIT, .first_global = 3,
                                                .last_global = 7});
    assert_int_equal(5, list->count);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(3 + i, list->rows[i].global_sequence);
        assert_string_equal((3 + i) % 2 ? "a" : "b", list->rows[i].task_id);
    }
    assert_int_equal(
        0, list_of(t->store, (tide_journal_filter){TIDE_JOURNAL_FILTER_INIT, .first_global = 11})
               ->count);
    assert_int_equal(0,
                     list_of(t->store, (tide_journal_filter){TIDE_JOURNAL_FILTER_INIT,
                                                             .first_global = 5, .last_global = 4})
                         ->count);
}

/* Below the fence, which would ask for work items: the filter reads what older stores hold, too. */
static tide_status append_known(tide_tx *tx, void *arg, tide_error *err)
{
    return tide_journal_append_known_in(tx, arg, 1, NULL, err);
}

static void filters_can_be_combined_and_turned_around(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    make_task(t, "b");
    const char *const tags[] = {"even"};
    for (int i = 1; i <= 12; i++) {
        virtual_env_advance(&t->clock, SECOND_US);
        tide_checkpoint_new checkpoint = {TIDE_CHECKPOINT_NEW_INIT,
                                          .task_id = i <= 6 ? "a" : "b",
                                          .work_item_id = i % 3 == 0 ? "w" : NULL,
                                          .type =
                                              i % 4 == 0 ? "iteration_end" : "manual_checkpoint",
                                          .snapshot = tide_view_of("{}"),
                                          .tags = tags,
                                          .tag_count = i % 2 == 0};
        assert_ok_err(tide_store_write(t->store, append_known, &checkpoint, &t->err), &t->err);
    }
    const int64_t start = VIRTUAL_ENV_WALL_US;
    const struct {
        tide_journal_filter filter;
        int64_t want[13];
    } cases[] = {
        {{TIDE_JOURNAL_FILTER_INIT, .task_id = "a"}, {1, 2, 3, 4, 5, 6}},
        {{TIDE_JOURNAL_FILTER_INIT, .task_id = "a", .order = TIDE_JOURNAL_NEWEST_FIRST},
         {6, 5, 4, 3, 2, 1}},
        {{TIDE_JOURNAL_FILTER_INIT, .task_id = "b", .limit = 2, .order = TIDE_JOURNAL_NEWEST_FIRST},
         {12, 11}},
        {{TIDE_JOURNAL_FILTER_INIT, .type = "iteration_end"}, {4, 8, 12}},
        {{TIDE_JOURNAL_FILTER_INIT, .type = "iteration_end", .order = TIDE_JOURNAL_NEWEST_FIRST,
          .limit = 1},
         {12}},
        {{TIDE_JOURNAL_FILTER_INIT, .task_id = "b", .type = "iteration_end"}, {8, 12}},
        {{TIDE_JOURNAL_FILTER_INIT, .tag = "even"}, {2, 4, 6, 8, 10, 12}},
        {{TIDE_JOURNAL_FILTER_INIT, .tag = "even", .order = TIDE_JOURNAL_NEWEST_FIRST,
          .last_global = 6},
         {6, 4, 2}},
        {{TIDE_JOURNAL_FILTER_INIT, .tag = "even", .task_id = "a"}, {2, 4, 6}},
        {{TIDE_JOURNAL_FILTER_INIT, .tag = "even", .type = "iteration_end"}, {4, 8, 12}},
        {{TIDE_JOURNAL_FILTER_INIT, .work_item_id = "w"}, {3, 6, 9, 12}},
        {{TIDE_JOURNAL_FILTER_INIT, .work_item_id = "w", .tag = "even"}, {6, 12}},
        {{TIDE_JOURNAL_FILTER_INIT, .work_item_id = "w", .order = TIDE_JOURNAL_NEWEST_FIRST},
         {12, 9, 6, 3}},
        {{TIDE_JOURNAL_FILTER_INIT, .work_item_id = "w", .task_id = "b"}, {9, 12}},
        {{TIDE_JOURNAL_FILTER_INIT, .since_us = start + 5 * SECOND_US,
          .until_us = start + 8 * SECOND_US},
         {5, 6, 7}},
        {{TIDE_JOURNAL_FILTER_INIT, .since_us = start + 11 * SECOND_US}, {11, 12}},
        {{TIDE_JOURNAL_FILTER_INIT, .until_us = start + 3 * SECOND_US,
          .order = TIDE_JOURNAL_NEWEST_FIRST},
         {2, 1}},
        {{TIDE_JOURNAL_FILTER_INIT, .task_id = "a", .since_us = start + 5 * SECOND_US}, {5, 6}},
        {{TIDE_JOURNAL_FILTER_INIT, .tag = "even", .since_us = start + 9 * SECOND_US}, {10, 12}},
        {{TIDE_JOURNAL_FILTER_INIT, .first_global = 2, .limit = 3}, {2, 3, 4}},
        {{TIDE_JOURNAL_FILTER_INIT, .tag = "odd"}, {0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const seen_list *list = list_of(t->store, cases[i].filter);
        int want = 0;
        while (cases[i].want[want])
            want++;
        if (list->count != want)
            fail_msg("case %zu: %d rows, want %d", i, list->count, want);
        for (int k = 0; k < want; k++)
            assert_int_equal(cases[i].want[k], list->rows[k].global_sequence);
    }
}

/* Times of foreign clients have fewer digits, and compare rightly all the same. */
static void times_written_by_others_compare_rightly(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    const char *const times[] = {"2025-01-01 00:00:05", "2025-01-01 00:00:05.500",
                                 "2025-01-01 00:00:05.500001", "2025-01-01 00:00:06"};
    for (int i = 0; i < 4; i++) {
        char text[400];
        (void)snprintf(text, sizeof text,
                       "INSERT INTO checkpoints (checkpoint_id, task_id, checkpoint_type, "
                       "sequence_number, snapshot_data, created_at) "
                       "VALUES ('c%d', 'a', 'manual_checkpoint', %d, '{}', '%s%s')",
                       i, i + 1, times[i], t->engine == TIDE_ENGINE_SQLITE ? "" : "+00");
        run_sql(t->store, text);
    }
    const int64_t five = VIRTUAL_ENV_WALL_US + 5 * SECOND_US;
    const struct {
        int64_t since;
        int64_t until;
        int want;
    } cases[] = {{five, 0, 4},
                 {five + 1, 0, 3},
                 {five + 500000, 0, 3},
                 {five + 500001, 0, 2},
                 {five, five + 500000, 1},
                 {five, five + SECOND_US, 3},
                 {five, five + SECOND_US + 1, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const tide_journal_filter filter = {TIDE_JOURNAL_FILTER_INIT, .since_us = cases[i].since,
                                            .until_us = cases[i].until};
        assert_int_equal(cases[i].want, list_of(t->store, filter)->count);
        const tide_journal_filter of_task = {TIDE_JOURNAL_FILTER_INIT, .task_id = "a",
                                             .since_us = cases[i].since,
                                             .until_us = cases[i].until};
        assert_int_equal(cases[i].want, list_of(t->store, of_task)->count);
    }
}

static void long_lists_come_whole_in_both_directions(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    tide_checkpoint_new many[600];
    for (int i = 0; i < 600; i++)
        many[i] =
            (tide_checkpoint_new){TIDE_CHECKPOINT_NEW_INIT, .task_id = "a",
                                  .type = "manual_checkpoint", .snapshot = tide_view_of("{}")};
    for (int i = 0; i < 600; i++)
        assert_ok_err(tide_journal_append(t->store, &many[i], NULL, &t->err), &t->err);
    const tide_journal_filter filters[] = {
        {TIDE_JOURNAL_FILTER_INIT, .task_id = "a"},
        {TIDE_JOURNAL_FILTER_INIT},
        {TIDE_JOURNAL_FILTER_INIT, .task_id = "a", .order = TIDE_JOURNAL_NEWEST_FIRST},
        {TIDE_JOURNAL_FILTER_INIT, .order = TIDE_JOURNAL_NEWEST_FIRST},
    };
    for (size_t i = 0; i < 4; i++) {
        const seen_list *list = list_of(t->store, filters[i]);
        assert_int_equal(600, list->count);
        for (int k = 0; k < 600; k++)
            assert_int_equal(i < 2 ? k + 1 : 600 - k, list->rows[k].global_sequence);
    }
    seen_list *some = calloc(1, sizeof *some);
    some->stop_after = 3;
    assert_status(TIDE_E_INTERRUPTED, tide_journal_list(t->store, &filters[1], see, some, &t->err));
    assert_int_equal(3, some->count);
    free(some);
}

/* Digits mean the number. Nobody can append an id of digits; one from plain SQL hides no number. */
static void a_checkpoint_is_found_by_id_and_by_number(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    (void)append_n(t, "a", 1);
    const tide_checkpoint_numbers second = append_n(t, "a", 2);
    const char *const digits[] = {"1", "007", "99999999999999999999"};
    for (int i = 0; i < 3; i++) {
        const tide_checkpoint_new row = {TIDE_CHECKPOINT_NEW_INIT, .checkpoint_id = digits[i],
                                         .task_id = "a", .type = "manual_checkpoint",
                                         .snapshot = tide_view_of("{\"n\":3}")};
        assert_status(TIDE_E_INVALID, tide_journal_append(t->store, &row, NULL, &t->err));
    }
    run_sql(t->store,
            "INSERT INTO checkpoints (checkpoint_id, task_id, checkpoint_type, sequence_number, "
            "snapshot_data) VALUES ('1', 'a', 'iteration_end', 3, '{}'); "
            "INSERT INTO checkpoints (checkpoint_id, task_id, checkpoint_type, sequence_number, "
            "snapshot_data) VALUES ('77', 'a', 'iteration_end', 4, '{}')");
    seen_list *found = calloc(1, sizeof *found);
    assert_ok(tide_journal_find(t->store, second.checkpoint_id, true, see, found, &t->err));
    assert_ok(tide_journal_find(t->store, "2", true, see, found, &t->err));
    assert_ok(tide_journal_find(t->store, "1", true, see, found, &t->err));  /* the number */
    assert_ok(tide_journal_find(t->store, "77", true, see, found, &t->err)); /* there is none yet */
    assert_int_equal(2, found->rows[0].global_sequence);
    assert_int_equal(2, found->rows[1].global_sequence);
    assert_int_equal(1, found->rows[2].global_sequence);
    assert_int_equal(4, found->rows[3].global_sequence);
    const char *const unknown[] = {"5", "nothing", "99999999999999999999", "-1", "0", ""};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
        assert_status(TIDE_NONE,
                      tide_journal_find(t->store, unknown[i], false, see, found, &t->err));
    assert_int_equal(4, found->count);
    free(found);
}

static void bad_filters_are_refused(void **state)
{
    store_test *t = *state;
    const tide_journal_filter bad[] = {{TIDE_JOURNAL_FILTER_INIT, .limit = -1},
                                       {TIDE_JOURNAL_FILTER_INIT, .first_global = -1},
                                       {TIDE_JOURNAL_FILTER_INIT, .last_global = -5},
                                       {TIDE_JOURNAL_FILTER_INIT, .type = ""},
                                       {TIDE_JOURNAL_FILTER_INIT, .tag = "\xff"}};
    seen_list *list = calloc(1, sizeof *list);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_status(TIDE_E_INVALID, tide_journal_list(t->store, &bad[i], see, list, &t->err));
    const tide_journal_filter nobody = {TIDE_JOURNAL_FILTER_INIT, .task_id = "nobody"};
    assert_status(TIDE_E_NOT_FOUND, tide_journal_list(t->store, &nobody, see, list, &t->err));
    free(list);
}

/* ---- following ---- */

typedef struct followed {
    tide_journal_event events[256];
    int64_t numbers[256];
    int count;
    int fail_at;
} followed;

static tide_status follow(void *arg, const tide_journal_event *event, tide_error *err)
{
    followed *f = arg;
    if (f->fail_at > 0 && f->count + 1 == f->fail_at)
        return tide_fail(err, TIDE_E_INTERRUPTED, "enough");
    f->numbers[f->count] = event->checkpoint ? event->checkpoint->global_sequence : 0;
    f->events[f->count] = *event;
    f->events[f->count].task_id = NULL;
    f->count++;
    return TIDE_OK;
}

static void a_follower_sees_everything_in_order(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    tide_journal_position position = {0};
    static followed f;
    f = (followed){0};
    assert_status(TIDE_NONE, tide_journal_tail(t->store, &position,
                                               &(tide_journal_tail_options){
                                                   TIDE_JOURNAL_TAIL_OPTIONS_INIT, .limit = 10},
                                               follow, &f, &t->err));
    for (int i = 1; i <= 5; i++)
        (void)append_n(t, "a", i);
    assert_ok_err(tide_journal_delete(t->store, "2", false, &t->err), &t->err);
    for (int i = 6; i <= 7; i++)
        (void)append_n(t, "a", i);
    static seen_list restored;
    restored.count = 0;
    assert_ok_err(tide_journal_restore(t->store, "4", see, &restored, &t->err), &t->err);
    assert_string_equal("{\"n\":4}", restored.rows[0].snapshot);
    (void)append_n(t, "a", 8);
    tide_status status = TIDE_OK;
    for (int64_t limit = 1; status == TIDE_OK; limit = limit % 3 + 1)
        status =
            tide_journal_tail(t->store, &position,
                              &(tide_journal_tail_options){TIDE_JOURNAL_TAIL_OPTIONS_INIT,
                                                           .limit = limit, .with_snapshot = true},
                              follow, &f, &t->err);
    assert_int_equal(TIDE_NONE, status);
    const struct {
        tide_journal_event_kind kind;
        int64_t number;
    } want[] = {
        {TIDE_JOURNAL_CREATED, 1}, {TIDE_JOURNAL_CREATED, 3},  {TIDE_JOURNAL_CREATED, 4},
        {TIDE_JOURNAL_CREATED, 5}, {TIDE_JOURNAL_DELETED, 2},  {TIDE_JOURNAL_CREATED, 6},
        {TIDE_JOURNAL_CREATED, 7}, {TIDE_JOURNAL_RESTORED, 4}, {TIDE_JOURNAL_CREATED, 8},
    };
    assert_int_equal(sizeof want / sizeof want[0], f.count);
    for (int i = 0; i < f.count; i++) {
        assert_int_equal(want[i].kind, f.events[i].kind);
        assert_int_equal(want[i].number, f.events[i].first_global);
        assert_int_equal(want[i].number, f.events[i].last_global);
        assert_int_equal(want[i].kind == TIDE_JOURNAL_CREATED ? want[i].number : 0, f.numbers[i]);
    }
    assert_int_equal(8, position.global_sequence);
    assert_int_equal(2, position.event_id);
}

/* What a follower could not take is handed out again. */
static void a_follower_that_stops_goes_on_where_it_was(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    for (int i = 1; i <= 5; i++)
        (void)append_n(t, "a", i);
    static followed f;
    f = (followed){.fail_at = 3};
    tide_journal_position position = {0};
    assert_status(
        TIDE_E_INTERRUPTED,
        tide_journal_tail(t->store, &position,
                          &(tide_journal_tail_options){TIDE_JOURNAL_TAIL_OPTIONS_INIT, .limit = 10},
                          follow, &f, &t->err));
    assert_int_equal(2, position.global_sequence);
    f.fail_at = 0;
    assert_ok(
        tide_journal_tail(t->store, &position,
                          &(tide_journal_tail_options){TIDE_JOURNAL_TAIL_OPTIONS_INIT, .limit = 10},
                          follow, &f, &t->err));
    assert_int_equal(5, f.count);
    for (int i = 0; i < 5; i++)
        assert_int_equal(i + 1, f.numbers[i]);
    position = (tide_journal_position){0};
    assert_status(TIDE_E_INVALID,
                  tide_journal_tail(t->store, &position,
                                    &(tide_journal_tail_options){TIDE_JOURNAL_TAIL_OPTIONS_INIT},
                                    follow, &f, &t->err));
}

/* ---- annotations ---- */

typedef struct noted {
    char text[512];
} noted;

static tide_status note_down(void *arg, const tide_annotation *annotation, tide_error *err)
{
    (void)err;
    noted *n = arg;
    const size_t used = strlen(n->text);
    (void)snprintf(n->text + used, sizeof n->text - used, "%s:%s;", annotation->severity,
                   annotation->note);
    return TIDE_OK;
}

static void annotations_are_kept_with_their_checkpoint(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    (void)append_n(t, "a", 1);
    (void)append_n(t, "a", 2);
    int64_t first = 0;
    int64_t second = 0;
    assert_ok_err(tide_journal_annotate(t->store, "1", "info", "looks good", &first, &t->err),
                  &t->err);
    assert_ok_err(tide_journal_annotate(t->store, "1", "critical", "is not", &second, &t->err),
                  &t->err);
    assert_true(second > first);
    noted n = {""};
    assert_ok(tide_journal_annotations(t->store, "1", note_down, &n, &t->err));
    assert_string_equal("info:looks good;critical:is not;", n.text);
    assert_status(TIDE_E_INVALID, tide_journal_annotate(t->store, "1", "bad", "x", NULL, &t->err));
    assert_status(TIDE_E_INVALID, tide_journal_annotate(t->store, "1", "info", "", NULL, &t->err));
    assert_status(TIDE_E_NOT_FOUND,
                  tide_journal_annotate(t->store, "9", "info", "x", NULL, &t->err));
    assert_status(TIDE_E_NOT_FOUND,
                  tide_journal_annotations(t->store, "9", note_down, &n, &t->err));
    assert_ok(tide_journal_delete(t->store, "1", true, &t->err));
    assert_int_equal(0, ASK(t->store, "SELECT count(*) FROM checkpoint_annotations"));
    assert_sound(t->store);
}

/* ---- diff ---- */

static tide_status write_difference(void *arg, const tide_difference *difference, tide_error *err)
{
    (void)err;
    noted *n = arg;
    const size_t used = strlen(n->text);
    (void)snprintf(n->text + used, sizeof n->text - used, "%c%s %.*s>%.*s;",
                   "+-~"[difference->kind], difference -> path, (int)difference -> before.len,
                   difference->before.ptr, (int)difference->after.len, difference->after.ptr);
    return TIDE_OK;
}

static void a_diff_names_paths_and_values(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    (void)append_json(t, "a", "manual_checkpoint", "{\"a\":1,\"b\":[1,2],\"c\":{\"d\":true}}");
    (void)append_json(t, "a", "manual_checkpoint", "{\"a\":2,\"b\":[1,2,3],\"e\":null}");
    (void)append_new(t, (tide_checkpoint_new){TIDE_CHECKPOINT_NEW_INIT, .task_id = "a",
                                              .type = "manual_checkpoint",
                                              .snapshot = tide_view_of("words"), .is_text = true});
    noted n = {""};
    assert_ok_err(tide_journal_diff(t->store, "1", "2", write_difference, &n, &t->err), &t->err);
    assert_string_equal("~/a 1>2;+/b/2 >3;-/c {\"d\":true}>;+/e >null;", n.text);
    n.text[0] = '\0';
    assert_ok(tide_journal_diff(t->store, "1", "1", write_difference, &n, &t->err));
    assert_string_equal("", n.text);
    assert_status(TIDE_E_INVALID,
                  tide_journal_diff(t->store, "1", "3", write_difference, &n, &t->err));
    assert_status(TIDE_E_NOT_FOUND,
                  tide_journal_diff(t->store, "1", "4", write_difference, &n, &t->err));
}

static tide_status refuse_it(void *arg, const tide_checkpoint *checkpoint, tide_error *err)
{
    (void)arg;
    return tide_fail(err, TIDE_E_EXISTS, "no place for %s", checkpoint->checkpoint_id);
}

/* What could not be handed out was not restored, and nobody is told that it was. */
static void a_refused_restore_is_no_event(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    (void)append_n(t, "a", 1);
    assert_status(TIDE_E_EXISTS, tide_journal_restore(t->store, "1", refuse_it, NULL, &t->err));
    assert_int_equal(0, ASK(t->store, "SELECT count(*) FROM journal_events"));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(test_76_query_checkpoints_by_sequence_range),
        STORE_CASE(filters_can_be_combined_and_turned_around),
        STORE_CASE(times_written_by_others_compare_rightly),
        STORE_CASE(long_lists_come_whole_in_both_directions),
        STORE_CASE(a_checkpoint_is_found_by_id_and_by_number),
        STORE_CASE(bad_filters_are_refused),
        STORE_CASE(a_follower_sees_everything_in_order),
        STORE_CASE(a_follower_that_stops_goes_on_where_it_was),
        STORE_CASE(annotations_are_kept_with_their_checkpoint),
        STORE_CASE(a_diff_names_paths_and_values),
        STORE_CASE(a_refused_restore_is_no_event),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
