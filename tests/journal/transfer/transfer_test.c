/* Export and import: what leaves comes back, all or nothing, and numbers only rise. */
#include "journal/journal_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/digest.h"

static tide_journal_transfer import_ok(tide_store *store, memory_file *file)
{
    tide_journal_transfer counts = {0};
    tide_error err;
    assert_ok_err(import_from(store, file, &counts, &err), &err);
    assert_int_equal(0, ASK(store, "SELECT (SELECT count(*) FROM import_checkpoints) + (SELECT "
                                   "count(*) FROM import_runs) + (SELECT count(*) FROM "
                                   "import_tasks) + (SELECT count(*) FROM import_order)"));
    return counts;
}

/* Everything a reader can see of a store, as one text. */
static char *picture_of(tide_store *store)
{
    const seen_list *list = list_all(store);
    char *text = malloc(1 << 20);
    assert_non_null(text);
    size_t used = 0;
    for (int i = 0; i < list->count; i++) {
        const seen *row = &list->rows[i];
        used +=
            (size_t)sprintf(text + used, "%lld/%lld %s %s %s %zu:%.40s [%s] (%s) %lld\n",
                            (long long)row->global_sequence, (long long)row->sequence_number,
                            row->task_id, row->checkpoint_id, row->type, row->snapshot_len,
                            row->snapshot, row->message, row->tags, (long long)row->created_at_us);
    }
    (void)sprintf(text + used, "head %lld\n", (long long)head_of(store));
    return text;
}

static void assert_same_picture(tide_store *a, tide_store *b)
{
    TIDE_CLEANUP(tide_freep) char *first = picture_of(a);
    TIDE_CLEANUP(tide_freep) char *second = picture_of(b);
    assert_string_equal(first, second);
}

static void fill(store_test *t)
{
    make_task(t, "a");
    make_task(t, "b");
    assert_ok(tide_journal_add_type(t->store, "milestone", true, "of our own", &t->err));
    const char *const tags[] = {"x", "y\"z"};
    for (int i = 1; i <= 6; i++) {
        virtual_env_advance(&t->clock, SECOND_US);
        (void)append_new(
            t, (tide_checkpoint_new){TIDE_CHECKPOINT_NEW_INIT, .task_id = i % 2 ? "a" : "b",
                                     .type = i == 3 ? "milestone" : "tool_executed",
                                     .snapshot = tide_view_of("{\"t\":\"\\u00e9\\n\"}"),
                                     .message = "line\nand \"quotes\" \\ ünïcode",
                                     .metadata = "{\"k\": [1]}", .tags = tags, .tag_count = i % 3});
    }
    TIDE_CLEANUP(tide_freep) char *large = make_state(3, 60000);
    (void)append_json(t, "a", "manual_checkpoint", large);
    assert_ok(tide_journal_annotate(t->store, "2", "warning", "look \"here\"\n", NULL, &t->err));
    assert_ok(tide_journal_annotate(t->store, "2", "info", "two", NULL, &t->err));
}

/* Test 77: export and import preserve global sequences. */
static void test_77_export_and_import_preserve_global_sequences(void **state)
{
    store_test *t = *state;
    fill(t);
    TIDE_CLEANUP(memory_done) memory_file file = {0};
    export_to(t->store, NULL, &file);
    tide_store *other = open_empty(t);
    const tide_journal_transfer counts = import_ok(other, &file);
    assert_int_equal(2, counts.tasks);
    assert_int_equal(7, counts.checkpoints);
    assert_int_equal(0, counts.renumbered);
    assert_int_equal(0, counts.skipped);
    assert_int_equal(7, counts.head);
    assert_same_picture(t->store, other);
    assert_sound(other);
    assert_int_equal(2, ASK(other, "SELECT count(*) FROM checkpoint_annotations WHERE "
                                   "global_sequence = 2"));
    tide_identity identity;
    tide_store_identity(t->store, &identity);
    const seen_list *list = list_all(other);
    assert_string_equal(identity.session_id, list->rows[4].origin_session);
    assert_int_equal(5, list->rows[4].origin_global);
    assert_int_equal(3, list->rows[4].origin_number);
    /* The counters go on behind. */
    const tide_checkpoint_new next = {TIDE_CHECKPOINT_NEW_INIT, .task_id = "a", .type = "milestone",
                                      .snapshot = tide_view_of("{}")};
    tide_checkpoint_numbers numbers;
    assert_ok_err(tide_journal_append(other, &next, &numbers, &t->err), &t->err);
    assert_int_equal(8, numbers.global_sequence);
    assert_int_equal(5, numbers.sequence_number);
    run_sql(other, "INSERT INTO checkpoints (checkpoint_id, task_id, checkpoint_type, "
                   "sequence_number, snapshot_data) VALUES ('p', 'b', 'milestone', 9, '{}')");
    assert_int_equal(9, head_of(other));
    assert_sound(other);
}

static void a_second_import_changes_nothing(void **state)
{
    store_test *t = *state;
    fill(t);
    TIDE_CLEANUP(memory_done) memory_file file = {0};
    export_to(t->store, NULL, &file);
    tide_store *other = open_empty(t);
    (void)import_ok(other, &file);
    TIDE_CLEANUP(memory_done) memory_file before = {0};
    export_to(other, NULL, &before);
    const int64_t events = ASK(other, "SELECT count(*) FROM journal_events");
    for (int i = 0; i < 2; i++) {
        const tide_journal_transfer counts = import_ok(other, &file);
        assert_int_equal(0, counts.checkpoints);
        assert_int_equal(7, counts.skipped);
    }
    TIDE_CLEANUP(memory_done) memory_file after = {0};
    export_to(other, NULL, &after);
    assert_int_equal(before.len, after.len);
    assert_int_equal(events, ASK(other, "SELECT count(*) FROM journal_events"));
    assert_int_equal(2, ASK(other, "SELECT count(*) FROM checkpoint_annotations"));
    /* A store imports what it has exported itself. */
    assert_int_equal(0, import_ok(t->store, &file).checkpoints);
    assert_int_equal(7, head_of(t->store));
}

/* Into a store further ahead; the counter does not go down, everything is renumbered, in order. */
static void an_import_into_a_store_further_ahead_is_renumbered(void **state)
{
    store_test *t = *state;
    fill(t);
    TIDE_CLEANUP(memory_done) memory_file file = {0};
    export_to(t->store, NULL, &file);
    tide_store *other = open_empty(t);
    run_sql(other, "INSERT INTO tasks (task_id) VALUES ('b'), ('z')");
    for (int i = 0; i < 10; i++) {
        const tide_checkpoint_new row = {TIDE_CHECKPOINT_NEW_INIT, .task_id = i < 3 ? "b" : "z",
                                         .type = "manual_checkpoint",
                                         .snapshot = tide_view_of("{}")};
        assert_ok(tide_journal_append(other, &row, NULL, &t->err));
    }
    const tide_journal_transfer counts = import_ok(other, &file);
    assert_int_equal(7, counts.checkpoints);
    assert_int_equal(7, counts.renumbered);
    assert_int_equal(17, head_of(other));
    const seen_list *list =
        list_of(other, (tide_journal_filter){TIDE_JOURNAL_FILTER_INIT, .first_global = 11});
    assert_int_equal(7, list->count);
    for (int i = 0; i < 7; i++) {
        assert_int_equal(11 + i, list->rows[i].global_sequence);
        assert_int_equal(1 + i, list->rows[i].origin_global);
    }
    /* Of b there were 3 here; a is new and keeps its numbers. */
    assert_string_equal("b", list->rows[1].task_id);
    assert_int_equal(4, list->rows[1].sequence_number);
    assert_int_equal(1, list->rows[1].origin_number);
    assert_int_equal(1, list->rows[0].sequence_number);
    assert_sound(other);
    assert_int_equal(0, import_ok(other, &file).checkpoints);
    assert_int_equal(17, head_of(other));
}

/* The counter of the file is above its newest checkpoint. */
static void the_counter_rises_to_the_exported_counter(void **state)
{
    store_test *t = *state;
    fill(t);
    for (int i = 0; i < 3; i++)
        (void)append_n(t, "b", i);
    for (int i = 10; i >= 8; i--) {
        char number[8];
        (void)snprintf(number, sizeof number, "%d", i);
        assert_ok(tide_journal_delete(t->store, number, true, &t->err));
    }
    assert_ok(tide_journal_delete(t->store, "4", true, &t->err));
    TIDE_CLEANUP(memory_done) memory_file file = {0};
    export_to(t->store, NULL, &file);
    tide_store *other = open_empty(t);
    (void)import_ok(other, &file);
    assert_int_equal(10, head_of(other));
    assert_sound(other);
    const tide_checkpoint_new row = {TIDE_CHECKPOINT_NEW_INIT, .task_id = "b",
                                     .type = "manual_checkpoint", .snapshot = tide_view_of("{}")};
    tide_checkpoint_numbers numbers;
    assert_ok(tide_journal_append(other, &row, &numbers, &t->err));
    assert_int_equal(11, numbers.global_sequence);
    assert_int_equal(7, numbers.sequence_number);
    /* Into a store in between: renumbered, and still up to the exported counter. */
    tide_store *third = open_empty(t);
    run_sql(third, "INSERT INTO tasks (task_id) VALUES ('z')");
    const tide_checkpoint_new z = {TIDE_CHECKPOINT_NEW_INIT, .task_id = "z",
                                   .type = "manual_checkpoint", .snapshot = tide_view_of("{}")};
    assert_ok(tide_journal_append(third, &z, NULL, &t->err));
    (void)import_ok(third, &file);
    assert_int_equal(10, head_of(third));
    assert_sound(third);
    /* An export without checkpoints carries its counter as well. */
    run_sql(t->store, "DELETE FROM tasks");
    TIDE_CLEANUP(memory_done) memory_file bare = {0};
    export_to(t->store, NULL, &bare);
    tide_store *fourth = open_empty(t);
    (void)import_ok(fourth, &bare);
    assert_int_equal(10, head_of(fourth));
    run_sql(fourth, "INSERT INTO tasks (task_id) VALUES ('p'); INSERT INTO checkpoints "
                    "(checkpoint_id, task_id, checkpoint_type, sequence_number, snapshot_data) "
                    "VALUES ('p', 'p', 'iteration_end', 1, '{}')");
    assert_int_equal(11, head_of(fourth));
    assert_sound(fourth);
}

/* What is here under the same id with other content stops the whole import. */
static void an_id_with_other_content_changes_nothing(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    tide_checkpoint_new row = {TIDE_CHECKPOINT_NEW_INIT, .checkpoint_id = "same", .task_id = "a",
                               .type = "manual_checkpoint", .snapshot = tide_view_of("{\"v\":1}")};
    (void)append_n(t, "a", 0);
    (void)append_new(t, row);
    TIDE_CLEANUP(memory_done) memory_file file = {0};
    export_to(t->store, NULL, &file);
    for (int is_plain = 0; is_plain < 2; is_plain++) {
        tide_store *other = open_empty(t);
        run_sql(other, "INSERT INTO tasks (task_id) VALUES ('a')");
        if (is_plain) {
            run_sql(other, "INSERT INTO checkpoints (checkpoint_id, task_id, checkpoint_type, "
                           "sequence_number, snapshot_data) "
                           "VALUES ('same', 'a', 'manual_checkpoint', 1, '{\"v\":2}')");
        } else {
            row.snapshot = tide_view_of("{\"v\":2}");
            assert_ok(tide_journal_append(other, &row, NULL, &t->err));
        }
        tide_journal_transfer counts;
        assert_status_err(TIDE_E_MISMATCH, import_from(other, &file, &counts, &t->err), &t->err);
        assert_contains(t->err.text, "same");
        assert_int_equal(1, head_of(other));
        assert_int_equal(1, list_all(other)->count);
        assert_int_equal(0, ASK(other, "SELECT count(*) FROM import_checkpoints"));
    }
}

/* A row of plain SQL is compared by content. */
static void plain_rows_come_back_once(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    (void)append_n(t, "a", 1);
    run_sql(t->store, "INSERT INTO checkpoints (checkpoint_id, task_id, checkpoint_type, "
                      "sequence_number, snapshot_data, metadata) "
                      "VALUES ('plain', 'a', 'iteration_end', 2, 'any text', 'no json')");
    TIDE_CLEANUP(memory_done) memory_file file = {0};
    export_to(t->store, NULL, &file);
    assert_int_equal(0, import_ok(t->store, &file).checkpoints);
    tide_store *other = open_empty(t);
    assert_int_equal(2, import_ok(other, &file).checkpoints);
    assert_sound(other);
    assert_int_equal(0, import_ok(other, &file).checkpoints);
    assert_string_equal("any text", list_all(other)->rows[1].snapshot);
}

/* One task with what it shares; forks keep their history. */
static void a_fork_travels_with_what_it_shares(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    make_task(t, "other");
    for (int i = 1; i <= 4; i++) {
        (void)append_n(t, "a", i);
        (void)append_n(t, "other", i);
    }
    char fork[TIDE_JOURNAL_ID_MAX + 1];
    char again[TIDE_JOURNAL_ID_MAX + 1];
    assert_ok_err(tide_journal_fork(t->store, "5", "f1", NULL, fork, &t->err), &t->err);
    (void)append_n(t, "f1", 10);
    (void)append_n(t, "f1", 11);
    assert_ok_err(tide_journal_fork(t->store, "10", "f2", NULL, again, &t->err), &t->err);
    (void)append_n(t, "f2", 20);
    TIDE_CLEANUP(memory_done) memory_file file = {0};
    export_to(t->store, "f2", &file);
    tide_store *other = open_empty(t);
    run_sql(other, "INSERT INTO tasks (task_id) VALUES ('a')");
    for (int i = 0; i < 2; i++) { /* a has rows here: all of it is renumbered */
        const tide_checkpoint_new row = {TIDE_CHECKPOINT_NEW_INIT, .task_id = "a",
                                         .type = "manual_checkpoint",
                                         .snapshot = tide_view_of("{}")};
        assert_ok(tide_journal_append(other, &row, NULL, &t->err));
    }
    const tide_journal_transfer counts = import_ok(other, &file);
    assert_int_equal(3, counts.tasks);
    assert_int_equal(6, counts.checkpoints); /* a: 1 to 3, f1: both, f2: one */
    const seen_list *list =
        list_of(other, (tide_journal_filter){TIDE_JOURNAL_FILTER_INIT, .task_id = "f2",
                                             .with_snapshot = true});
    const char *const want[] = {"{}",        "{}",         "{\"n\":1}",  "{\"n\":2}",
                                "{\"n\":3}", "{\"n\":10}", "{\"n\":11}", "{\"n\":20}"};
    assert_int_equal(8, list->count);
    for (int i = 0; i < 8; i++) {
        assert_string_equal(want[i], list->rows[i].snapshot);
        assert_int_equal(i + 1, list->rows[i].sequence_number);
    }
    assert_sound(other);
    assert_int_equal(0, import_ok(other, &file).checkpoints);
    /* Everything, into an empty store: the same lines. */
    TIDE_CLEANUP(memory_done) memory_file all = {0};
    export_to(t->store, NULL, &all);
    tide_store *third = open_empty(t);
    (void)import_ok(third, &all);
    assert_same_picture(t->store, third);
    assert_int_equal(
        6, list_of(third, (tide_journal_filter){TIDE_JOURNAL_FILTER_INIT, .task_id = "f2"})->count);
    assert_sound(third);
    tide_journal_transfer none;
    assert_status(TIDE_E_NOT_FOUND,
                  tide_journal_export(t->store,
                                      &(tide_journal_export_request){
                                          TIDE_JOURNAL_EXPORT_REQUEST_INIT, .task_id = "nobody",
                                          .write = memory_write, .arg = &all},
                                      &none, &t->err));
}

/* A snapshot of several megabytes is written in parts. */
static void large_snapshots_travel_in_parts(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    const size_t len = 3500000;
    TIDE_CLEANUP(tide_freep) char *text = malloc(len + 8);
    assert_non_null(text);
    for (size_t i = 0; i < len; i++) /* two-byte characters across every border, and escapes */
        text[i] = i % 2 == 0 ? (char)0xc3 : (char)0xa9;
    text[100] = '\n';
    text[101] = '"';
    text[len] = '\0';
    (void)append_new(t, (tide_checkpoint_new){TIDE_CHECKPOINT_NEW_INIT, .task_id = "a",
                                              .type = "manual_checkpoint",
                                              .snapshot = tide_view_of(text), .is_text = true});
    TIDE_CLEANUP(memory_done) memory_file file = {0};
    export_to(t->store, NULL, &file);
    file.piece = 4093;
    tide_store *other = open_empty(t);
    (void)import_ok(other, &file);
    assert_same_picture(t->store, other);
    assert_sound(other);
}

/* ---- damage ---- */

static void assert_refused(store_test *t, tide_store *store, memory_file *file,
                           tide_status expected, const char *what)
{
    tide_journal_transfer counts;
    const tide_status status = import_from(store, file, &counts, &t->err);
    if (status != expected)
        fail_msg("%s: %s (%s)", what, tide_status_get(status)->name, t->err.text);
    if (head_of(store) != 0 || ASK(store, "SELECT count(*) FROM tasks") != 0)
        fail_msg("%s: changed something", what);
}

/* Wherever it is cut off, nothing is changed. */
static void a_truncated_export_is_refused_at_every_length(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    (void)append_n(t, "a", 1);
    (void)append_n(t, "a", 2);
    TIDE_CLEANUP(memory_done) memory_file file = {0};
    export_to(t->store, NULL, &file);
    tide_store *other = open_empty(t);
    const size_t whole = file.len;
    const size_t step = t->engine == TIDE_ENGINE_SQLITE ? 1 : 23;
    for (size_t len = 30; len < whole; len += step) {
        file.len = len;
        assert_refused(t, other, &file, TIDE_E_DAMAGED, "truncated");
    }
    file.len = 0;
    assert_refused(t, other, &file, TIDE_E_INVALID, "empty");
    file.len = 10;
    assert_refused(t, other, &file, TIDE_E_DAMAGED, "ten bytes");
    file.len = whole;
    assert_int_equal(2, import_ok(other, &file).checkpoints);
}

/* Any byte that is altered is noticed. */
static void an_altered_export_is_refused(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    (void)append_n(t, "a", 1);
    (void)append_n(t, "a", 2);
    TIDE_CLEANUP(memory_done) memory_file file = {0};
    export_to(t->store, NULL, &file);
    tide_store *other = open_empty(t);
    const size_t step = t->engine == TIDE_ENGINE_SQLITE ? 3 : 41;
    for (size_t at = 0; at < file.len; at += step) {
        file.bytes[at] ^= 1;
        tide_journal_transfer counts;
        if (import_from(other, &file, &counts, &t->err) >= TIDE_OK)
            fail_msg("accepted with byte %zu altered", at);
        assert_int_equal(0, head_of(other));
        file.bytes[at] ^= 1;
    }
    assert_int_equal(2, import_ok(other, &file).checkpoints);
}

/* Lines of an export, edited and signed again: what the digest does not notice, the rules do. */
typedef struct edit {
    const char *what;
    const char *from;
    const char *to;
    tide_status status;
} edit;

static void write_text(memory_file *file, const char *text, size_t len)
{
    assert_ok(memory_write(file, tide_view_bytes(text, len), NULL));
}

/* A copy with the first `from` replaced, and a right digest at its end. */
static void edit_and_sign(memory_file *out, const memory_file *file, const char *from,
                          const char *to)
{
    TIDE_CLEANUP(tide_freep) char *text = calloc(1, file->len + 1); /* the file has no terminator */
    assert_non_null(text);
    memcpy(text, file->bytes, file->len);
    char *end = strstr(text, "{\"end\":");
    char *at = strstr(text, from);
    assert_non_null(end);
    assert_non_null(at);
    char tail[256];
    (void)snprintf(tail, sizeof tail, "%s", end);
    *end = '\0';
    out->len = 0;
    write_text(out, text, (size_t)(at - text));
    write_text(out, to, strlen(to));
    write_text(out, at + strlen(from), strlen(at + strlen(from)));
    uint8_t digest[TIDE_SHA256_LEN];
    char hex[TIDE_SHA256_TEXT_SIZE];
    assert_ok(tide_sha256_of(tide_view_bytes(out->bytes, out->len), digest, NULL));
    tide_hex_encode(hex, digest, sizeof digest);
    char *sha = strstr(tail, "\"sha256\":\"") + strlen("\"sha256\":\"");
    memcpy(sha, hex, 64);
    write_text(out, tail, strlen(tail));
}

static void what_breaks_the_rules_is_refused_even_if_signed(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    (void)append_n(t, "a", 1);
    (void)append_n(t, "a", 2);
    TIDE_CLEANUP(memory_done) memory_file file = {0};
    export_to(t->store, NULL, &file);
    const edit edits[] = {
        {"a newer version", "\"version\":1", "\"version\":2", TIDE_E_NEWER},
        {"no version", "\"version\":1", "\"revision\":1", TIDE_E_DAMAGED},
        {"altered content", "{\\\"n\\\":1}", "{\\\"n\\\":7}", TIDE_E_DAMAGED},
        {"a number twice", "\"global_sequence\":2", "\"global_sequence\":1", TIDE_E_DAMAGED},
        {"numbers that fall", "\"global_sequence\":1,", "\"global_sequence\":3,", TIDE_E_DAMAGED},
        {"a number beyond the head", "\"head\":2", "\"head\":1", TIDE_E_DAMAGED},
        {"no number in the task", "\"sequence_number\":1", "\"sequence_number\":0", TIDE_E_DAMAGED},
        {"an unknown trigger", "\"trigger\":\"manual\"", "\"trigger\":\"maybe\"", TIDE_E_DAMAGED},
        {"a task that is not listed", "{\"task\":{\"task_id\":\"a\"",
         "{\"task\":{\"task_id\":\"b\"", TIDE_E_DAMAGED},
        {"an unknown status", "\"status\":\"pending\"", "\"status\":\"resting\"", TIDE_E_DAMAGED},
        {"a negative counter", "\"last_sequence\":2", "\"last_sequence\":-2", TIDE_E_DAMAGED},
        {"a counter near its end", "\"last_sequence\":2", "\"last_sequence\":9007199254740993",
         TIDE_E_DAMAGED},
        {"a head near its end", "\"head\":2", "\"head\":9223372036854775807", TIDE_E_DAMAGED},
        {"a negative head", "\"head\":2", "\"head\":-2", TIDE_E_DAMAGED},
        {"a number near its end", "\"sequence_number\":2",
         "\"sequence_number\":9223372036854775807", TIDE_E_DAMAGED},
        {"an unknown record", "{\"checkpoint\":{", "{\"chequepoint\":{", TIDE_E_DAMAGED},
        {"a fork of itself", "\"forked_from\":null,\"fork_point\":null",
         "\"forked_from\":\"a\",\"fork_point\":\"x\"", TIDE_E_DAMAGED},
        {"a fork of nothing", "\"forked_from\":null,\"fork_point\":null",
         "\"forked_from\":\"q\",\"fork_point\":\"x\"", TIDE_E_INVALID},
        {"a bad time", "\"created_at\":\"2025", "\"created_at\":\"2O25", TIDE_E_DAMAGED},
        {"another length", "\"snapshot_len\":7", "\"snapshot_len\":8", TIDE_E_DAMAGED},
        {"parts that do not come", "\"snapshot\":\"{\\\"n\\\":1}\"", "\"parts\":1", TIDE_E_DAMAGED},
        {"a broken string", "\"title\":\"task a\"", "\"title\":\"task \xff\"", TIDE_E_DAMAGED},
        {"a NUL", "\"title\":\"task a\"", "\"title\":\"task \\u0000\"", TIDE_E_DAMAGED},
        {"a second member", "{\"task\":{", "{\"x\":1,\"task\":{", TIDE_E_DAMAGED},
    };
    tide_store *other = open_empty(t);
    TIDE_CLEANUP(memory_done) memory_file bad = {0};
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        edit_and_sign(&bad, &file, edits[i].from, edits[i].to);
        assert_refused(t, other, &bad, edits[i].status, edits[i].what);
    }
    edit_and_sign(&bad, &file, "\"title\":\"task a\"", "\"title\":\"another\"");
    assert_int_equal(2, import_ok(other, &bad).checkpoints); /* signing works */
}

/* A line without end does not take all memory. */
static void a_huge_line_is_refused(void **state)
{
    store_test *t = *state;
    TIDE_CLEANUP(memory_done) memory_file file = {0};
    const char *start = "{\"format\":\"tidemark-journal\",\"version\":1,\"x\":\"";
    write_text(&file, start, strlen(start));
    char block[65536];
    memset(block, 'x', sizeof block);
    for (int i = 0; i < 640; i++)
        write_text(&file, block, sizeof block);
    assert_refused(t, t->store, &file, TIDE_E_DAMAGED, "a huge line");
    assert_contains(t->err.text, "longer than");
}

static void what_is_no_export_is_refused(void **state)
{
    store_test *t = *state;
    const struct {
        const char *text;
        tide_status status;
    } cases[] = {
        {"hello", TIDE_E_INVALID},
        {"{}", TIDE_E_INVALID},
        {"[1]", TIDE_E_INVALID},
        {"{\"checkpoints\":{}}", TIDE_E_DAMAGED},
        {"{\"checkpoints\":[1]}", TIDE_E_INVALID},
        {"{\"checkpoints\":[{}]}", TIDE_E_INVALID},
        {"{\"checkpoints\":[]", TIDE_E_DAMAGED},
        {"{\"checkpoints\":[],}", TIDE_E_DAMAGED},
        {"{\"checkpoints\":[],\"checkpoints\":[]}", TIDE_E_INVALID},
        {"{\"checkpoints\":[{\"session_id\":\"a\",\"sequence\":0}]}", TIDE_E_INVALID},
        {"{\"checkpoints\":[{\"sequence\":1}]}", TIDE_E_INVALID},
        {"{\"checkpoints\":[{\"session_id\":\"a\",\"sequence\":1},]}", TIDE_E_DAMAGED},
        {"{\"checkpoints\":[]} x", TIDE_E_DAMAGED},
        {"{\"checkpoints\":[{\"session_id\":\"a\",\"sequence\":1,\"state\":{\"x\":}}]}",
         TIDE_E_INVALID},
        {"{\"checkpoints\":[{\"session_id\":\"a\",\"sequence\":1,\"type\":\"odd\"}]}",
         TIDE_E_INVALID},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        memory_file file = {.bytes = (char *)cases[i].text, .len = strlen(cases[i].text)};
        assert_refused(t, t->store, &file, cases[i].status, cases[i].text);
    }
}

/* ---- the older document ---- */

static void the_older_document_is_imported_with_its_numbers(void **state)
{
    store_test *t = *state;
    const char *text =
        "{\n  \"checkpoints\": [\n"
        "    {\"id\": \"c-1\", \"session_id\": \"s1\", \"sequence_number\": 1, \"message\": "
        "\"one\",\n"
        "     \"tags\": [\"x\", \"a\"], \"trigger\": \"Manual\", \"timestamp\": "
        "\"2026-02-19T10:00:00.5Z\",\n"
        "     \"state\": {\"deep\": [1, {\"k\": \"}]\\\"\"}]}},\n"
        "    {\"id\": \"c-2\", \"session_id\": \"s2\", \"sequence_number\": 2, \"message\": null,\n"
        "     \"trigger\": {\"Automatic\": \"GapFilled\"}, \"data\": \"text\"},\n"
        "    {\"session_id\": 7, \"sequence\": 5, \"message\": \"no state\"}\n"
        "  ],\n  \"global_sequence\": 9,\n  \"exported_at\": \"2026-02-19T11:00:00Z\"\n}\n";
    memory_file file = {.bytes = (char *)text, .len = strlen(text), .piece = 1};
    tide_journal_transfer counts = import_ok(t->store, &file);
    assert_int_equal(3, counts.checkpoints);
    assert_int_equal(3, counts.tasks);
    assert_int_equal(0, counts.renumbered);
    assert_int_equal(9, head_of(t->store));
    const seen_list *list = list_all(t->store);
    assert_int_equal(3, list->count);
    assert_int_equal(1, list->rows[0].global_sequence);
    assert_string_equal("a,x", list->rows[0].tags);
    assert_string_equal("{\"deep\": [1, {\"k\": \"}]\\\"\"}]}", list->rows[0].snapshot);
    assert_true(list->rows[0].created_at_us == INT64_C(1771495200500000));
    assert_string_equal("gap_filled", list->rows[1].trigger);
    assert_string_equal("text", list->rows[1].snapshot);
    assert_int_equal(5, list->rows[2].global_sequence);
    assert_string_equal("7", list->rows[2].task_id);
    assert_sound(t->store);
    counts = import_ok(t->store, &file);
    assert_int_equal(0, counts.checkpoints);
    assert_int_equal(3, counts.skipped);
}

/* Numbers that were counted per session overlap: renumbered, the originals kept. */
static void overlapping_numbers_of_sessions_are_renumbered(void **state)
{
    store_test *t = *state;
    const char *text = "{\"global_sequence\":3,\"checkpoints\":["
                       "{\"id\":\"a1\",\"session_id\":\"a\",\"sequence\":1,\"state\":{}},"
                       "{\"id\":\"b1\",\"session_id\":\"b\",\"sequence\":1,\"state\":{}},"
                       "{\"id\":\"a2\",\"session_id\":\"a\",\"sequence\":2,\"state\":{}},"
                       "{\"id\":\"b2\",\"session_id\":\"b\",\"sequence\":2,\"state\":{}},"
                       "{\"id\":\"b3\",\"session_id\":\"b\",\"sequence\":3,\"state\":{}}]}";
    memory_file file = {.bytes = (char *)text, .len = strlen(text)};
    const tide_journal_transfer counts = import_ok(t->store, &file);
    assert_int_equal(5, counts.checkpoints);
    assert_int_equal(4, counts.renumbered);
    assert_int_equal(5, head_of(t->store));
    const char *const ids[] = {"a1", "b1", "a2", "b2", "b3"};
    const int64_t origin[] = {1, 1, 2, 2, 3};
    const seen_list *list = list_all(t->store);
    for (int i = 0; i < 5; i++) {
        assert_string_equal(ids[i], list->rows[i].checkpoint_id);
        assert_int_equal(i + 1, list->rows[i].global_sequence);
        assert_int_equal(origin[i], list->rows[i].origin_global);
        assert_int_equal(origin[i], list->rows[i].sequence_number);
    }
    assert_sound(t->store);
}

/* ---- interruptions ---- */

/* An import that breaks off anywhere leaves the store as it was, and no garbage but until the next. */
static void an_import_that_breaks_off_leaves_nothing(void **state)
{
    store_test *t = *state;
    fill(t);
    TIDE_CLEANUP(memory_done) memory_file file = {0};
    export_to(t->store, NULL, &file);
    tide_store *other = open_empty(t);
    tide_journal_transfer counts;
    for (size_t at = 1; at < file.len; at += 5003) {
        file.fail_at = at;
        file.piece = 1009;
        assert_status(TIDE_E_IO, import_from(other, &file, &counts, &t->err));
        assert_int_equal(0, head_of(other));
        assert_int_equal(0, ASK(other, "SELECT count(*) FROM import_checkpoints"));
        assert_int_equal(0, ASK(other, "SELECT count(*) FROM snapshot_chunks"));
    }
    file.fail_at = 0;
    assert_int_equal(7, import_ok(other, &file).checkpoints);
    assert_sound(other);
    TIDE_CLEANUP(memory_done) memory_file full = {.fail_at = 2000};
    assert_status(TIDE_E_FULL, tide_journal_export(t->store,
                                                   &(tide_journal_export_request){
                                                       TIDE_JOURNAL_EXPORT_REQUEST_INIT,
                                                       .write = memory_write, .arg = &full},
                                                   &counts, &t->err));
}

/* What a process that was killed has staged is removed by a later import, not by one that runs beside it. */
static void garbage_of_a_dead_import_is_removed_by_a_later_one(void **state)
{
    store_test *t = *state;
    fill(t);
    TIDE_CLEANUP(memory_done) memory_file file = {0};
    export_to(t->store, NULL, &file);
    tide_store *other = open_empty(t);
    run_sql(other, "INSERT INTO import_runs (import_id, touched_at, state) VALUES (77, "
                   "'2025-01-01 00:00:00', 'staging'); INSERT INTO import_tasks (import_id, "
                   "task_id, title, status, created_at, last_sequence) VALUES (77, 'x', '', "
                   "'pending', '2025-01-01 00:00:00', 0)");
    tide_journal_transfer counts;
    assert_ok_err(import_from(other, &file, &counts, &t->err), &t->err);
    assert_int_equal(1, ASK(other, "SELECT count(*) FROM import_runs"));
    virtual_env_advance(&t->clock, 2 * 3600 * SECOND_US);
    (void)import_ok(other, &file);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(test_77_export_and_import_preserve_global_sequences),
        STORE_CASE(a_second_import_changes_nothing),
        STORE_CASE(an_import_into_a_store_further_ahead_is_renumbered),
        STORE_CASE(the_counter_rises_to_the_exported_counter),
        STORE_CASE(an_id_with_other_content_changes_nothing),
        STORE_CASE(plain_rows_come_back_once),
        STORE_CASE(a_fork_travels_with_what_it_shares),
        STORE_CASE(large_snapshots_travel_in_parts),
        STORE_CASE(a_truncated_export_is_refused_at_every_length),
        STORE_CASE(an_altered_export_is_refused),
        STORE_CASE(what_breaks_the_rules_is_refused_even_if_signed),
        STORE_CASE_SQLITE(a_huge_line_is_refused),
        STORE_CASE(what_is_no_export_is_refused),
        STORE_CASE(the_older_document_is_imported_with_its_numbers),
        STORE_CASE(overlapping_numbers_of_sessions_are_renumbered),
        STORE_CASE(an_import_that_breaks_off_leaves_nothing),
        STORE_CASE(garbage_of_a_dead_import_is_removed_by_a_later_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
