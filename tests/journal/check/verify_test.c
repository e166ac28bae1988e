/* Forks share history; verify finds what was altered, removed or lost. */
#include "journal/check/verify.h"
#include "journal/journal_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* ---- forks ---- */

static void fork_at(store_test *t, const char *id_or_number, const char *task_id)
{
    char made[TIDE_JOURNAL_ID_MAX + 1];
    assert_ok_err(tide_journal_fork(t->store, id_or_number, task_id, NULL, made, &t->err), &t->err);
    assert_string_equal(task_id, made);
}

static void a_fork_shares_history_and_goes_its_own_way(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    for (int i = 1; i <= 5; i++)
        (void)append_n(t, "a", i);
    fork_at(t, "3", "f");
    assert_int_equal(4, append_n(t, "f", 40).sequence_number);
    assert_int_equal(6, append_n(t, "a", 6).sequence_number);
    assert_int_equal(5, append_n(t, "f", 50).sequence_number);
    const seen_list *list =
        list_of(t->store, (tide_journal_filter){TIDE_JOURNAL_FILTER_INIT, .task_id = "f",
                                                .with_snapshot = true});
    const char *const want[] = {"{\"n\":1}", "{\"n\":2}", "{\"n\":3}", "{\"n\":40}", "{\"n\":50}"};
    assert_int_equal(5, list->count);
    for (int i = 0; i < 5; i++)
        assert_string_equal(want[i], list->rows[i].snapshot);
    list = list_of(t->store, (tide_journal_filter){TIDE_JOURNAL_FILTER_INIT, .task_id = "f",
                                                   .order = TIDE_JOURNAL_NEWEST_FIRST, .limit = 4,
                                                   .with_snapshot = true});
    assert_int_equal(4, list->count);
    for (int i = 0; i < 4; i++)
        assert_string_equal(want[4 - i], list->rows[i].snapshot);
    assert_int_equal(
        6,
        list_of(t->store, (tide_journal_filter){TIDE_JOURNAL_FILTER_INIT, .task_id = "a"})->count);
    assert_int_equal(0, ASK(t->store, "SELECT count(*) FROM tasks WHERE task_id = 'f' AND title <> "
                                      "'task a'"));
    assert_sound(t->store);
    assert_int_equal(0, findings_of(t->store, "f", NULL, 0, NULL));
    char made[TIDE_JOURNAL_ID_MAX + 1];
    assert_status(TIDE_E_EXISTS, tide_journal_fork(t->store, "1", "f", NULL, made, &t->err));
    assert_status(TIDE_E_NOT_FOUND, tide_journal_fork(t->store, "99", "g", NULL, made, &t->err));
    assert_ok(tide_journal_fork(t->store, "1", NULL, "a title", made, &t->err));
    assert_int_equal(36, strlen(made));
    refuse_sql(t->store, "DELETE FROM tasks WHERE task_id = 'a'", &t->err);
    run_sql(t->store, "DELETE FROM tasks WHERE task_id = 'f'");
    assert_sound(t->store);
}

/* Forking at a row of an ancestor makes a fork of the ancestor; forks of forks see everything. */
static void forks_of_forks_see_the_whole_line(void **state)
{
    store_test *t = *state;
    make_task(t, "t0");
    (void)append_n(t, "t0", 0);
    for (int i = 1; i <= 5; i++) {
        char id[16];
        char number[16];
        (void)snprintf(id, sizeof id, "t%d", i);
        (void)snprintf(number, sizeof number, "%d", i);
        fork_at(t, number, id);
        (void)append_n(t, id, i);
    }
    const seen_list *list =
        list_of(t->store, (tide_journal_filter){TIDE_JOURNAL_FILTER_INIT, .task_id = "t5"});
    assert_int_equal(6, list->count);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(i + 1, list->rows[i].global_sequence);
        assert_int_equal(i + 1, list->rows[i].sequence_number);
    }
    assert_int_equal(0, findings_of(t->store, "t5", NULL, 0, NULL));
    assert_sound(t->store);
}

static void a_line_of_forks_has_an_end(void **state)
{
    store_test *t = *state;
    make_task(t, "t0");
    (void)append_n(t, "t0", 0);
    char id[16] = "1";
    for (int i = 1; i <= TIDE_JOURNAL_DEPTH_MAX; i++) {
        (void)snprintf(id, sizeof id, "t%d", i);
        char number[16];
        (void)snprintf(number, sizeof number, "%d", i);
        fork_at(t, number, id);
        (void)append_n(t, id, i);
    }
    assert_int_equal(
        TIDE_JOURNAL_DEPTH_MAX + 1,
        list_of(t->store, (tide_journal_filter){TIDE_JOURNAL_FILTER_INIT, .task_id = id})->count);
    char number[16];
    (void)snprintf(number, sizeof number, "%d", TIDE_JOURNAL_DEPTH_MAX + 1);
    char made[TIDE_JOURNAL_ID_MAX + 1];
    assert_status(TIDE_E_LIMIT, tide_journal_fork(t->store, number, "over", NULL, made, &t->err));
    assert_sound(t->store);
}

/* Compaction of the parent keeps the fork point and what resuming the fork needs. */
static void compaction_keeps_what_a_fork_needs(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    const char *const types[] = {
        "iteration_end",     /* 1: not needed: 2 is newer */
        "iteration_end",     /* 2: newest for the fork */
        "tool_executed",     /* 3: since then, for the fork */
        "manual_checkpoint", /* 4 */
        "manual_checkpoint", /* 5: the fork point */
        "tool_executed",     /* 6: not since the last end of a */
        "iteration_end",     /* 7: newest of a */
        "manual_checkpoint", /* 8 */
        "manual_checkpoint", /* 9: the newest one */
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        (void)append_json(t, "a", types[i], "{}");
    fork_at(t, "5", "f");
    (void)append_n(t, "f", 1);
    tide_compacted counts;
    const tide_compaction policy = {TIDE_COMPACTION_INIT, .keep = 1};
    assert_ok_err(tide_journal_compact(t->store, &policy, &counts, &t->err), &t->err);
    const int64_t want[] = {2, 3, 5, 6, 7, 9, 10};
    const seen_list *list = list_all(t->store);
    assert_int_equal(7, list->count); /* 6 is the newest tool_executed of a */
    for (int i = 0; i < 7; i++)
        assert_int_equal(want[i], list->rows[i].global_sequence);
    list = list_of(t->store, (tide_journal_filter){TIDE_JOURNAL_FILTER_INIT, .task_id = "f"});
    assert_int_equal(4, list->count);
    assert_sound(t->store);
    assert_status(TIDE_E_CONFLICT, tide_journal_delete(t->store, "5", true, &t->err));
    assert_contains(t->err.text, "fork");
    assert_status(TIDE_E_CONFLICT, tide_journal_delete(t->store, "3", true, &t->err));
    assert_int_equal(0, findings_of(t->store, "f", NULL, 0, NULL));
}

/* A fork of a checkpoint that came by plain SQL, behind others that were removed. */
static void the_chain_goes_on_through_plain_rows_and_cuts(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    for (int i = 1; i <= 4; i++)
        (void)append_n(t, "a", i);
    run_sql(t->store, "INSERT INTO checkpoints (checkpoint_id, task_id, checkpoint_type, "
                      "sequence_number, snapshot_data) VALUES "
                      "('plain', 'a', 'iteration_end', 7, '{}')");
    fork_at(t, "plain", "f");
    (void)append_n(t, "f", 8);
    assert_int_equal(8, append_n(t, "a", 8).sequence_number);
    for (int i = 1; i <= 4; i++) {
        char number[8];
        (void)snprintf(number, sizeof number, "%d", i);
        const tide_status status = tide_journal_delete(t->store, number, true, &t->err);
        /* 4 is the newest manual_checkpoint at the fork point */
        assert_int_equal(i == 4 ? TIDE_E_CONFLICT : TIDE_OK, status);
    }
    assert_sound(t->store);
    fork_at(t, "plain", "g");
    (void)append_n(t, "g", 8);
    assert_sound(t->store);
    tide_journal_report report;
    assert_int_equal(0, findings_of(t->store, NULL, NULL, 0, &report));
    assert_int_equal(4, report.valid);
    assert_int_equal(1, report.skipped);
}

/* ---- verify ---- */

static void drop_guards(store_test *t)
{
    static const char *const triggers[][2] = {
        {"checkpoints_keep", "checkpoints"},
        {"checkpoints_stay", "checkpoints"},
        {"checkpoints_removed", "checkpoints"},
        {"snapshot_chunks_keep", "snapshot_chunks"},
        {"snapshot_chunks_stay", "snapshot_chunks"},
        {"checkpoint_tags_before", "checkpoint_tags"},
        {"checkpoint_tags_stay", "checkpoint_tags"},
        {"checkpoints_parted", "checkpoints"},
        {"checkpoint_chunks_stay", "checkpoint_chunks"},
    };
    for (size_t i = 0; i < sizeof triggers / sizeof triggers[0]; i++) {
        char text[200];
        (void)snprintf(text, sizeof text,
                       t->engine == TIDE_ENGINE_SQLITE ? "DROP TRIGGER %s"
                                                       : "DROP TRIGGER %s ON %s",
                       triggers[i][0], triggers[i][1]);
        run_sql(t->store, text);
    }
}

/* SQLite: who removes rows needs a permit, which must not stay. */
static void set_permit(store_test *t, bool is_there)
{
    if (t->engine == TIDE_ENGINE_SQLITE)
        run_sql(t->store, is_there ? "INSERT INTO journal_permits VALUES ('test')"
                                   : "DELETE FROM journal_permits");
}

typedef struct damage {
    const char *sqlite;
    const char *postgres; /* NULL: the same */
    const char *words;
    int64_t findings;
    int64_t missing;
} damage;

/* Each kind of damage is found, and told once. */
static void verify_finds_every_kind_of_damage(void **state)
{
    store_test *t = *state;
    static const damage damages[] = {
        {"UPDATE checkpoints SET snapshot_data = '{\"n\":99}' WHERE global_sequence = 2", NULL,
         "does not match its checksum", 1, 0},
        {"UPDATE checkpoints SET message = 'x' WHERE global_sequence = 2", NULL,
         "does not match its checksum", 1, 0},
        {"UPDATE checkpoints SET task_id = 'b', sequence_number = 100 WHERE global_sequence = 2",
         NULL, "does not match its checksum", 5, 0},
        {"UPDATE checkpoints SET checksum = CAST('12345678901234567890123456789012' AS BLOB) "
         "WHERE global_sequence = 2",
         "UPDATE checkpoints SET checksum = '12345678901234567890123456789012' "
         "WHERE global_sequence = 2",
         "does not match its checksum", 2, 0},
        {"UPDATE checkpoints SET chain = zeroblob(32) WHERE global_sequence = 2",
         "UPDATE checkpoints SET chain = decode(repeat('00', 32), 'hex') WHERE global_sequence = 2",
         "the chain is broken", 2, 0},
        {"UPDATE checkpoints SET sequence_number = 50 WHERE global_sequence = 2", NULL,
         "the chain is broken", 1, 0},
        {"DELETE FROM checkpoints WHERE global_sequence = 2", NULL, "no record of its removal", 2,
         1},
        {"DELETE FROM checkpoints WHERE global_sequence = 5", NULL, "chain ends otherwise", 2, 1},
        {"DELETE FROM checkpoints WHERE global_sequence IN (2, 3)", NULL, "global numbers 2 to 3",
         2, 2},
        {"INSERT INTO checkpoint_tags (global_sequence, tag) VALUES (2, 'forged')", NULL,
         "does not match its checksum", 1, 0},
        {"DELETE FROM checkpoint_tags", NULL, "does not match its checksum", 1, 0},
        {"UPDATE snapshot_chunks SET body = zeroblob(10) WHERE chunk_id = 1",
         "UPDATE snapshot_chunks SET body = '0123456789' WHERE chunk_id = 1", "frame", 1, 0},
        {"DELETE FROM snapshot_chunks WHERE chunk_id = 2", NULL, "is missing", 1, 0},
        {"DELETE FROM checkpoint_chunks WHERE position = 3", NULL, "chunk 3 is missing", 1, 0},
        {"UPDATE checkpoints SET chunk_count = chunk_count + 1 WHERE chunk_count > 0", NULL,
         "chunks", 1, 0},
        {"UPDATE journal_head SET last = last + 10", NULL, "global numbers 6 to 15", 1, 10},
        {"UPDATE task_heads SET chain = zeroblob(32) WHERE task_id = 'a'",
         "UPDATE task_heads SET chain = decode(repeat('00', 32), 'hex') WHERE task_id = 'a'",
         "chain ends otherwise", 1, 0},
        {"INSERT INTO checkpoint_cuts VALUES ('a', 2, 3, NULL, 'x', '2025-01-01 00:00:00')", NULL,
         "recorded as removed", 2, 0},
        {"INSERT INTO checkpoint_gaps VALUES (2, 3, 'removed', '2025-01-01 00:00:00')", NULL,
         "number recorded as empty", 2, 0},
        {"UPDATE checkpoints SET snapshot_len = 6 WHERE global_sequence = 2", NULL,
         "the length of its snapshot is another", 1, 0},
        {"UPDATE checkpoints SET created_at = '2001-01-01 00:00:00.000000' "
         "WHERE global_sequence = 2",
         NULL, "older than one before it", 1, 0},
        {"UPDATE checkpoints SET created_at = 'once' WHERE global_sequence = 2",
         "UPDATE checkpoints SET created_at = '1971-01-01 00:00:00' WHERE global_sequence = 2",
         "older than one before it", 1, 0},
    };
    /* A copy of the store for each would be slow: each damage is done in a task of its own, and the store is
     * made anew by the fixture of the next case; here they are undone by rolling back. */
    make_task(t, "a");
    make_task(t, "b");
    const char *const tags[] = {"one"};
    TIDE_CLEANUP(tide_freep) char *large = make_state(1, 40000);
    (void)append_n(t, "a", 1);
    (void)append_n(t, "a", 2);
    (void)append_new(t, (tide_checkpoint_new){
                            TIDE_CHECKPOINT_NEW_INIT, .task_id = "a", .type = "manual_checkpoint",
                            .snapshot = tide_view_of("{}"), .tags = tags, .tag_count = 1});
    (void)append_json(t, "a", "manual_checkpoint", large);
    (void)append_n(t, "a", 5);
    assert_sound(t->store);
    drop_guards(t);
    static const char *const keep[] = {"checkpoints",     "checkpoint_tags", "checkpoint_chunks",
                                       "snapshot_chunks", "task_heads",      "journal_head",
                                       "checkpoint_cuts", "checkpoint_gaps"};
    char text[512];
    for (size_t k = 0; k < sizeof keep / sizeof keep[0]; k++) {
        (void)snprintf(text, sizeof text, "CREATE TABLE kept_%s AS SELECT * FROM %s", keep[k],
                       keep[k]);
        run_sql(t->store, text);
    }
    run_sql(t->store,
            t->engine == TIDE_ENGINE_SQLITE
                ? "DROP TRIGGER journal_head_stay; DROP TRIGGER task_heads_stay; DROP "
                  "TRIGGER task_heads_rise; DROP TRIGGER journal_head_rise; DROP TRIGGER "
                  "checkpoint_chunks_before; DROP TRIGGER check_checkpoints_numbers; DROP "
                  "TRIGGER checkpoint_gaps_once"
                : "SET session_replication_role = replica");
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        const damage *d = &damages[i];
        set_permit(t, true);
        run_sql(t->store,
                t->engine == TIDE_ENGINE_POSTGRES && d->postgres ? d->postgres : d->sqlite);
        set_permit(t, false);
        char words[4096];
        tide_journal_report report;
        const int64_t findings = findings_of(t->store, NULL, words, sizeof words, &report);
        if (findings != d->findings || report.missing != d->missing || !strstr(words, d->words))
            fail_msg("%s:\n%lld findings, %lld missing:\n%s", d->sqlite, (long long)findings,
                     (long long)report.missing, words);
        set_permit(t, true);
        for (size_t k = 0; k < sizeof keep / sizeof keep[0]; k++) {
            (void)snprintf(text, sizeof text, "DELETE FROM %s", keep[k]);
            if (t->engine == TIDE_ENGINE_SQLITE)
                run_sql(t->store, text);
            else {
                (void)snprintf(text, sizeof text,
                               "SET LOCAL session_replication_role = replica; DELETE FROM %s",
                               keep[k]);
                run_sql(t->store, text);
            }
        }
        for (size_t k = 0; k < sizeof keep / sizeof keep[0]; k++) {
            (void)snprintf(text, sizeof text,
                           t->engine == TIDE_ENGINE_SQLITE
                               ? "INSERT INTO %s SELECT * FROM kept_%s"
                               : "SET LOCAL session_replication_role = replica; INSERT INTO %s "
                                 "OVERRIDING SYSTEM VALUE SELECT * FROM kept_%s",
                           keep[k], keep[k]);
            run_sql(t->store, text);
        }
        set_permit(t, false);
        assert_sound(t->store);
    }
}

static void assert_found(store_test *t, const char *task_id, const char *words, int64_t invalid)
{
    char found[4096];
    tide_journal_report report;
    (void)findings_of(t->store, task_id, found, sizeof found, &report);
    if (report.invalid != invalid || !strstr(found, words))
        fail_msg("%lld invalid, want %lld with '%s':\n%s", (long long)report.invalid,
                 (long long)invalid, words, found);
}

/* A row that no task leads to would be looked at by nobody. */
static void verify_finds_rows_without_a_task(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    make_task(t, "b");
    for (int i = 1; i <= 3; i++) {
        (void)append_n(t, "a", i);
        (void)append_n(t, "b", i);
    }
    assert_sound(t->store);
    run_sql(t->store,
            t->engine == TIDE_ENGINE_SQLITE
                ? "DROP TRIGGER task_heads_stay; DELETE FROM task_heads WHERE task_id = 'b'"
                : "SET LOCAL session_replication_role = replica; "
                  "DELETE FROM task_heads WHERE task_id = 'b'");
    assert_found(t, NULL, "checkpoint 2: its task, or the counter of its task, is missing", 3);
    assert_found(t, "b", "task b: its counter is missing", 1);
    if (t->engine == TIDE_ENGINE_POSTGRES) {
        run_sql(t->store, "SET LOCAL session_replication_role = replica; "
                          "INSERT INTO task_heads (task_id) VALUES ('b'); "
                          "DELETE FROM tasks WHERE task_id = 'b'");
        assert_found(t, NULL, "checkpoint 6: its task, or the counter of its task, is missing", 3);
    }
}

/* A task made a fork afterwards would hide its own rows behind those of another. */
static void verify_finds_rows_below_the_fork_point(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    make_task(t, "b");
    for (int i = 1; i <= 3; i++) {
        (void)append_n(t, "a", i);
        (void)append_n(t, "b", i);
    }
    if (t->engine == TIDE_ENGINE_SQLITE)
        run_sql(t->store, "DROP TRIGGER check_tasks_status; "
                          "UPDATE tasks SET forked_from = 'a', forked_at = 2 WHERE task_id = 'b'");
    else
        run_sql(t->store, "SET LOCAL session_replication_role = replica; "
                          "UPDATE tasks SET forked_from = 'a', forked_at = 2 WHERE task_id = 'b'");
    char words[4096];
    (void)findings_of(t->store, NULL, words, sizeof words, NULL);
    assert_contains(words, "task b: 2 of its checkpoints stand at or below its fork point");
    (void)findings_of(t->store, "b", words, sizeof words, NULL);
    assert_contains(words, "task b: 2 of its checkpoints stand at or below its fork point");
}

/* A permit opens the guards for everybody, so none may be left when a transaction ends. */
static void verify_finds_a_permit_left_behind(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    (void)append_n(t, "a", 1);
    assert_sound(t->store);
    set_permit(t, true);
    assert_found(t, NULL, "permit", 1);
    set_permit(t, false);
    assert_sound(t->store);
}

/* Times rise with the numbers of rows born here; an imported one keeps the time it was made. */
static void verify_accepts_the_times_of_imported_rows(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    (void)append_n(t, "a", 1);
    TIDE_CLEANUP(memory_done) memory_file file = {0};
    export_to(t->store, NULL, &file);
    tide_store *here = t->store;
    t->store = open_empty(t);
    virtual_env_advance(&t->clock, SECOND_US);
    make_task(t, "z");
    (void)append_n(t, "z", 1);
    tide_journal_transfer counts;
    assert_ok_err(import_from(t->store, &file, &counts, &t->err), &t->err);
    const char *text = "{\"checkpoints\":[{\"id\":\"x\",\"session_id\":\"a\",\"sequence\":1,"
                       "\"timestamp\":\"2001-02-19T10:00:00Z\",\"state\":{}}]}";
    memory_file older = {.bytes = (char *)text, .len = strlen(text)};
    assert_ok_err(import_from(t->store, &older, &counts, &t->err), &t->err);
    assert_int_equal(1, counts.checkpoints);
    (void)append_n(t, "z", 2);
    assert_sound(t->store);
    t->store = here;
}

/* Reading with the snapshot verifies it: damaged content is never handed out. */
static void damaged_content_is_not_handed_out(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    (void)append_n(t, "a", 1);
    (void)append_n(t, "a", 2);
    drop_guards(t);
    run_sql(t->store, "UPDATE checkpoints SET snapshot_data = '{}' WHERE global_sequence = 2");
    static seen_list list;
    list.count = 0;
    const tide_journal_filter filter = {TIDE_JOURNAL_FILTER_INIT, .with_snapshot = true};
    assert_status(TIDE_E_DAMAGED, tide_journal_list(t->store, &filter, see, &list, &t->err));
    assert_int_equal(1, list.count);
    assert_contains(t->err.text, "checkpoint 2");
    assert_status(TIDE_E_DAMAGED, tide_journal_find(t->store, "2", true, see, &list, &t->err));
    assert_status(TIDE_E_DAMAGED, tide_journal_restore(t->store, "2", see, &list, &t->err));
    assert_int_equal(2, list_of(t->store, (tide_journal_filter){TIDE_JOURNAL_FILTER_INIT})->count);
    TIDE_CLEANUP(memory_done) memory_file file = {0};
    tide_journal_transfer counts;
    assert_status(TIDE_E_DAMAGED, tide_journal_export(t->store,
                                                      &(tide_journal_export_request){
                                                          TIDE_JOURNAL_EXPORT_REQUEST_INIT,
                                                          .write = memory_write, .arg = &file},
                                                      &counts, &t->err));
    assert_status(TIDE_E_NOT_FOUND,
                  tide_journal_verify(t->store, "nobody", NULL, NULL, NULL, &t->err));
}

/* The encoding is canonical. The order in which tags are given makes no difference; everything else does. */
static void the_checksum_does_not_depend_on_the_order_of_tags(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    const char *const tags[] = {"x", "y", "z"};
    const char *const turned[] = {"z", "x", "y", "x"};
    tide_checkpoint_new row = {TIDE_CHECKPOINT_NEW_INIT,
                               .checkpoint_id = "c",
                               .task_id = "a",
                               .type = "manual_checkpoint",
                               .snapshot = tide_view_of("{}"),
                               .tags = tags,
                               .tag_count = 3};
    (void)append_new(t, row);
    row.tags = turned;
    row.tag_count = 4;
    assert_true(append_new(t, row).is_existing);
    row.tag_count = 2;
    tide_checkpoint_numbers numbers;
    assert_status(TIDE_E_EXISTS, tide_journal_append(t->store, &row, &numbers, &t->err));
}

/* The background step: page by page, and again from the beginning. */
static void a_scan_counts_numbers_without_row_or_record(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    (void)append_n(t, "a", 1);
    (void)append_n(t, "a", 2);
    tide_number_scan *scan = NULL;
    tide_number_page page = {0};
    assert_ok_err(tide_number_scan_new(&scan, &t->err), &t->err);
    assert_ok_err(tide_number_scan_step(scan, t->store, &page, &t->err), &t->err);
    assert_true(page.is_last);
    assert_int_equal(0, page.missing);
    run_sql(t->store, "UPDATE journal_head SET last = last + 10");
    for (int i = 0; i < 2; i++) {
        assert_ok_err(tide_number_scan_step(scan, t->store, &page, &t->err), &t->err);
        assert_true(page.is_last);
        assert_int_equal(10, page.missing);
        assert_int_equal(10, page.found);
    }
    tide_number_scan_free(scan);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(a_fork_shares_history_and_goes_its_own_way),
        STORE_CASE(forks_of_forks_see_the_whole_line),
        STORE_CASE_SQLITE(a_line_of_forks_has_an_end),
        STORE_CASE(compaction_keeps_what_a_fork_needs),
        STORE_CASE(the_chain_goes_on_through_plain_rows_and_cuts),
        STORE_CASE_SUPERUSER(verify_finds_every_kind_of_damage),
        STORE_CASE_SUPERUSER(verify_finds_rows_without_a_task),
        STORE_CASE_SUPERUSER(verify_finds_rows_below_the_fork_point),
        STORE_CASE_SQLITE(verify_finds_a_permit_left_behind),
        STORE_CASE(verify_accepts_the_times_of_imported_rows),
        STORE_CASE(a_scan_counts_numbers_without_row_or_record),
        STORE_CASE(damaged_content_is_not_handed_out),
        STORE_CASE(the_checksum_does_not_depend_on_the_order_of_tags),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
