/* Imports that would harm: numbers without end, and what this store has removed itself. */
#include "journal/journal_fixture.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

static tide_journal_transfer import_ok(store_test *t, memory_file *file)
{
    tide_journal_transfer counts = {0};
    assert_ok_err(import_from(t->store, file, &counts, &t->err), &t->err);
    return counts;
}

/* Counters only rise, so a number near their end would end them for ever. */
static void numbers_beyond_all_measure_are_refused(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    (void)append_n(t, "a", 1);
    const char *const heads[] = {"9223372036854775807",
                                 "9007199254740992",
                                 "-5",
                                 "99999999999999999999",
                                 "1.5",
                                 "\"7\"",
                                 "null"};
    char text[256];
    tide_journal_transfer counts;
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        (void)snprintf(text, sizeof text, "{\"checkpoints\":[],\"global_sequence\":%s}", heads[i]);
        memory_file file = {.bytes = text, .len = strlen(text)};
        assert_status_err(TIDE_E_INVALID, import_from(t->store, &file, &counts, &t->err), &t->err);
        (void)snprintf(text, sizeof text,
                       "{\"checkpoints\":[{\"id\":\"x\",\"session_id\":\"a\","
                       "\"sequence_number\":%s,\"state\":{}}]}",
                       heads[i]);
        file = (memory_file){.bytes = text, .len = strlen(text)};
        assert_status_err(TIDE_E_INVALID, import_from(t->store, &file, &counts, &t->err), &t->err);
    }
    assert_int_equal(1, head_of(t->store));
    assert_int_equal(2, append_n(t, "a", 2).sequence_number);
    (void)snprintf(text, sizeof text, "{\"checkpoints\":[],\"global_sequence\":%s}",
                   "9007199254740991");
    memory_file file = {.bytes = text, .len = strlen(text)};
    const tide_journal_transfer moved = import_ok(t, &file);
    assert_true(moved.head == TIDE_JOURNAL_NUMBER_MAX);
    assert_true(moved.store_head == TIDE_JOURNAL_NUMBER_MAX);
    assert_true(head_of(t->store) == TIDE_JOURNAL_NUMBER_MAX);
    /* New numbers for a file would go beyond what an import accepts. */
    (void)snprintf(text, sizeof text,
                   "{\"checkpoints\":[{\"id\":\"x\",\"session_id\":\"a\","
                   "\"sequence_number\":1,\"state\":{}}]}");
    file = (memory_file){.bytes = text, .len = strlen(text)};
    assert_status_err(TIDE_E_LIMIT, import_from(t->store, &file, &counts, &t->err), &t->err);
    assert_true(head_of(t->store) == TIDE_JOURNAL_NUMBER_MAX);
    /* So an export of this store is imported by others. */
    TIDE_CLEANUP(memory_done) memory_file own = {0};
    export_to(t->store, NULL, &own);
    tide_store *other = open_empty(t);
    assert_ok_err(import_from(other, &own, &counts, &t->err), &t->err);
    assert_true(counts.store_head == TIDE_JOURNAL_NUMBER_MAX);
    assert_sound(t->store);
}

/* The report contains where the numbers of this store stand. */
static void the_report_of_an_import_has_the_head_of_the_store(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    (void)append_n(t, "a", 1);
    (void)append_n(t, "a", 2);
    TIDE_CLEANUP(memory_done) memory_file file = {0};
    export_to(t->store, NULL, &file);
    (void)append_n(t, "a", 3);
    tide_journal_transfer counts = import_ok(t, &file); /* nothing new */
    assert_int_equal(2, counts.head);
    assert_int_equal(3, counts.store_head);
    tide_store *other = open_empty(t);
    assert_ok_err(import_from(other, &file, &counts, &t->err), &t->err);
    assert_int_equal(2, counts.store_head);
}

static void append_iteration(store_test *t, int n)
{
    char json[32];
    (void)snprintf(json, sizeof json, "{\"iteration\":%d}", n);
    (void)append_json(t, "a", "iteration_end", json);
}

/* What was removed stays removed: an older export of this store does not move the resume point back. */
static void what_was_removed_here_does_not_come_back(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    for (int i = 1; i <= 4; i++)
        append_iteration(t, i);
    TIDE_CLEANUP(memory_done) memory_file old = {0};
    export_to(t->store, NULL, &old);
    for (int i = 5; i <= 10; i++)
        append_iteration(t, i);
    const tide_compaction policy = {TIDE_COMPACTION_INIT, .keep = 1};
    assert_ok_err(tide_journal_compact(t->store, &policy, NULL, &t->err), &t->err);
    for (int i = 0; i < 2; i++) {
        const tide_journal_transfer counts = import_ok(t, &old);
        assert_int_equal(0, counts.checkpoints);
        assert_int_equal(4, counts.skipped);
        assert_int_equal(4, counts.removed);
    }
    const seen_list *list = list_all(t->store);
    assert_int_equal(1, list->count);
    assert_string_equal("{\"iteration\":10}", list->rows[0].snapshot);
    assert_int_equal(10, head_of(t->store));
    assert_int_equal(0, ASK(t->store, "SELECT count(*) FROM import_checkpoints"));
    assert_sound(t->store);
    /* An archive of one task: part of it was removed, part is here. */
    append_iteration(t, 11);
    TIDE_CLEANUP(memory_done) memory_file archive = {0};
    export_to(t->store, "a", &archive);
    assert_ok_err(tide_journal_delete(t->store, "10", true, &t->err), &t->err);
    const tide_journal_transfer counts = import_ok(t, &archive);
    assert_int_equal(2, counts.skipped);
    assert_int_equal(1, counts.removed);
    assert_sound(t->store);
}

/* The same by way of another store, which gave the rows numbers of its own. */
static void what_was_removed_here_does_not_come_back_through_another_store(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    for (int i = 1; i <= 3; i++)
        append_iteration(t, i);
    TIDE_CLEANUP(memory_done) memory_file file = {0};
    export_to(t->store, NULL, &file);
    tide_store *here = t->store;
    tide_store *other = open_empty(t);
    tide_journal_transfer counts;
    t->store = other;
    make_task(t, "z");
    (void)append_n(t, "z", 1);
    assert_int_equal(3, import_ok(t, &file).renumbered);
    append_iteration(t, 4);
    TIDE_CLEANUP(memory_done) memory_file back = {0};
    export_to(other, NULL, &back);
    t->store = here;
    assert_ok_err(tide_journal_delete(here, "1", true, &t->err), &t->err);
    counts = import_ok(t, &back);
    assert_int_equal(2, counts.checkpoints); /* z's, and iteration 4 */
    assert_int_equal(3, counts.skipped);
    assert_int_equal(1, counts.removed);
    assert_sound(here);
    /* Rows that came from there and were removed here, in a file made here. */
    TIDE_CLEANUP(memory_done) memory_file mine = {0};
    export_to(here, NULL, &mine);
    assert_ok_err(tide_journal_delete(here, "4", true, &t->err), &t->err);
    counts = import_ok(t, &mine);
    assert_int_equal(0, counts.checkpoints);
    assert_int_equal(1, counts.removed);
    assert_sound(here);
}

/* A registered type is something new, even if nothing else is. */
static void a_type_comes_with_an_import_of_nothing_else(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    (void)append_n(t, "a", 1);
    assert_ok(tide_journal_add_type(t->store, "mine", true, "of our own", &t->err));
    TIDE_CLEANUP(memory_done) memory_file file = {0};
    export_to(t->store, NULL, &file);
    run_sql(t->store, "DELETE FROM checkpoint_types WHERE checkpoint_type = 'mine'");
    const tide_checkpoint_new row = {TIDE_CHECKPOINT_NEW_INIT, .task_id = "a", .type = "mine",
                                     .snapshot = tide_view_of("{}")};
    assert_status(TIDE_E_INVALID, tide_journal_append(t->store, &row, NULL, &t->err));
    assert_contains(t->err.text, "tidemark checkpoint add-type");
    assert_int_equal(0, import_ok(t, &file).checkpoints);
    assert_ok_err(tide_journal_append(t->store, &row, NULL, &t->err), &t->err);
    const int64_t events = ASK(t->store, "SELECT count(*) FROM journal_events");
    (void)import_ok(t, &file);
    assert_int_equal(events, ASK(t->store, "SELECT count(*) FROM journal_events"));
}

typedef struct busy_file {
    memory_file file;
    store_test *t;
    bool is_done;
} busy_file;

/* Behind the first bytes, the header, somebody appends and forks there, and forks the fork. */
static tide_status write_and_fork(void *arg, tide_view bytes, tide_error *err)
{
    busy_file *busy = arg;
    store_test *t = busy->t;
    if (!busy->is_done) {
        busy->is_done = true;
        char made[TIDE_JOURNAL_ID_MAX + 1];
        (void)append_n(t, "a", 3);
        assert_ok_err(tide_journal_fork(t->store, "3", "f", NULL, made, &t->err), &t->err);
        (void)append_n(t, "f", 4);
        assert_ok_err(tide_journal_fork(t->store, "4", "g", NULL, made, &t->err), &t->err);
    }
    return memory_write(&busy->file, bytes, err);
}

/* An export can be imported, whatever was forked while it was written. */
static void a_fork_made_during_an_export_is_left_out(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    (void)append_n(t, "a", 1);
    (void)append_n(t, "a", 2);
    char made[TIDE_JOURNAL_ID_MAX + 1];
    assert_ok_err(tide_journal_fork(t->store, "1", "early", NULL, made, &t->err), &t->err);
    busy_file busy = {.t = t};
    tide_journal_transfer counts;
    assert_ok_err(
        tide_journal_export(t->store,
                            &(tide_journal_export_request){TIDE_JOURNAL_EXPORT_REQUEST_INIT,
                                                           .write = write_and_fork, .arg = &busy},
                            &counts, &t->err),
        &t->err);
    tide_store *other = open_empty(t);
    assert_ok_err(import_from(other, &busy.file, &counts, &t->err), &t->err);
    memory_done(&busy.file);
    assert_int_equal(2, counts.tasks); /* a and early */
    assert_int_equal(2, counts.checkpoints);
    assert_int_equal(
        1,
        list_of(other, (tide_journal_filter){TIDE_JOURNAL_FILTER_INIT, .task_id = "early"})->count);
    assert_sound(other);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(the_report_of_an_import_has_the_head_of_the_store),
        STORE_CASE(numbers_beyond_all_measure_are_refused),
        STORE_CASE(what_was_removed_here_does_not_come_back),
        STORE_CASE(what_was_removed_here_does_not_come_back_through_another_store),
        STORE_CASE(a_fork_made_during_an_export_is_left_out),
        STORE_CASE(a_type_comes_with_an_import_of_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
