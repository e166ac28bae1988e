/* The schema of checkpoints, met with plain SQL on both engines: numbers that only rise and are never used twice, rows
 * that never change. */
#include "work/foreign/raw_sql.h"

#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "store/sqlite/sqlite_function.h"

typedef struct numbering_case {
    store_test *t;
    raw_sql raw;
} numbering_case;

static raw_sql *begin(numbering_case *c, void **state)
{
    *c = (numbering_case){.t = *state};
    raw_open(&c->raw, c->t);
    raw_ok(&c->raw, "INSERT INTO tasks (task_id) VALUES ('t'), ('u')");
    return &c->raw;
}

static void end(numbering_case *c)
{
    raw_close(&c->raw);
}

#define ADD                                                                                        \
    "INSERT INTO checkpoints (checkpoint_id, task_id, checkpoint_type, sequence_number, "          \
    "snapshot_data) VALUES ('%s', '%s', 'iteration_end', %d, '{}')"

static const char heads[] = "SELECT (SELECT last FROM journal_head), "
                            "(SELECT last_sequence FROM task_heads WHERE task_id = 't'), "
                            "(SELECT last_sequence FROM task_heads WHERE task_id = 'u')";

static void a_plain_checkpoint_is_numbered(void **state)
{
    numbering_case c;
    raw_sql *raw = begin(&c, state);
    raw_ok(raw, ADD, "a", "t", 1);
    raw_ok(raw, ADD, "b", "u", 7);
    raw_ok(raw, ADD, "c", "t", 5);
    assert_string_equal("1|t|1 2|u|7 3|t|5",
                        raw_text(raw, "SELECT global_sequence, task_id, sequence_number "
                                      "FROM checkpoints ORDER BY 1"));
    assert_string_equal("3|5|7", raw_text(raw, heads));
    raw_ok(raw,
           "INSERT INTO checkpoints (checkpoint_id, task_id, checkpoint_type, sequence_number, "
           "snapshot_data) VALUES ('d', 't', 'iteration_end', 6, '{}'), "
           "('e', 't', 'iteration_end', 9, '{}')");
    assert_string_equal("5|9|7", raw_text(raw, heads));
    end(&c);
}

static void bad_numbers_types_and_parents_are_refused(void **state)
{
    numbering_case c;
    raw_sql *raw = begin(&c, state);
    raw_ok(raw, ADD, "a", "t", 5);
    static const int bad[] = {5, 4, 1, 0, -1};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        raw_refuse(raw, "", ADD, "b", "t", bad[i]);
    raw_refuse(raw, "exist", ADD, "a", "t", 6);
    raw_refuse(raw, "no such task", ADD, "b", "nowhere", 6);
    raw_refuse(raw, "unknown checkpoint_type",
               "INSERT INTO checkpoints (checkpoint_id, task_id, checkpoint_type, sequence_number, "
               "snapshot_data) VALUES ('b', 't', 'whim', 6, '{}')");
    raw_refuse(
        raw, "no such work item",
        "INSERT INTO checkpoints (checkpoint_id, task_id, work_item_id, checkpoint_type, "
        "sequence_number, snapshot_data) VALUES ('b', 't', 'none', 'iteration_end', 6, '{}')");
    assert_string_equal("1|5|0", raw_text(raw, heads)); /* refusals take no number */
    end(&c);
}

/* Explicit global numbers are refused, used or not. */
static void explicit_global_numbers_are_refused(void **state)
{
    numbering_case c;
    raw_sql *raw = begin(&c, state);
    raw_ok(raw, ADD, "a", "t", 1);
    raw_ok(raw, ADD, "b", "t", 2);
    static const char *const numbers[] = {"1", "2", "3", "0", "-5", "1000", "9223372036854775807"};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        for (int sequence = 1; sequence <= 3; sequence++)
            raw_refuse(raw, "",
                       "INSERT INTO checkpoints (global_sequence, checkpoint_id, task_id, "
                       "checkpoint_type, sequence_number, snapshot_data) "
                       "VALUES (%s, 'x', 't', 'iteration_end', %d, '{}')",
                       numbers[i], sequence);
    raw_ok(raw,
           "INSERT INTO checkpoints (global_sequence, checkpoint_id, task_id, checkpoint_type, "
           "sequence_number, snapshot_data) VALUES (NULL, 'c', 't', 'iteration_end', 3, '{}')");
    assert_string_equal("3|3|0", raw_text(raw, heads));
    end(&c);
}

/* As the library does: numbers are taken from the heads first, then rows carry them. */
static void numbers_that_were_issued_are_accepted_once(void **state)
{
    numbering_case c;
    raw_sql *raw = begin(&c, state);
    raw_ok(raw, ADD, "a", "t", 1);
    static const char issued[] =
        "INSERT INTO checkpoints (global_sequence, checkpoint_id, task_id, checkpoint_type, "
        "sequence_number, snapshot_data) SELECT j.last - %d, '%s', 't', 'iteration_end', "
        "h.last_sequence - %d, '{}' FROM journal_head j, task_heads h WHERE h.task_id = 't'";
    raw_ok(raw, "BEGIN");
    raw_ok(raw, "UPDATE task_heads SET last_sequence = last_sequence + 2 WHERE task_id = 't'");
    raw_ok(raw, "UPDATE journal_head SET last = last + 2");
    raw_ok(raw, issued, 1, "b", 1);
    raw_ok(raw, issued, 0, "c", 0);
    raw_ok(raw, "COMMIT");
    raw_refuse(raw, "", issued, 0, "d", 0);
    raw_ok(raw, ADD, "d", "t", 4);
    assert_string_equal("1|a|1 2|b|2 3|c|3 4|d|4",
                        raw_text(raw, "SELECT global_sequence, checkpoint_id, sequence_number "
                                      "FROM checkpoints ORDER BY 1"));
    end(&c);
}

/* Append-only, whatever statement a client uses. */
static void checkpoints_never_change(void **state)
{
    numbering_case c;
    raw_sql *raw = begin(&c, state);
    raw_ok(raw, ADD, "a", "t", 1);
    static const char *const columns[] = {"snapshot_data",   "checkpoint_id", "task_id",
                                          "sequence_number", "metadata",      "global_sequence"};
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++)
        raw_refuse(raw, "append-only", "UPDATE checkpoints SET %s = %s", columns[i], columns[i]);
    raw_refuse(raw, "append-only", "DELETE FROM checkpoints");
    raw_refuse(raw, "never go down", "UPDATE journal_head SET last = 0");
    raw_refuse(raw, "never go down", "DELETE FROM journal_head");
    raw_refuse(raw, "never goes down",
               "UPDATE task_heads SET last_sequence = 0 WHERE task_id = 't'");
    raw_refuse(raw, "lives as long", "DELETE FROM task_heads WHERE task_id = 't'");
    end(&c);
}

static void remove_with_permit(raw_sql *raw, const char *statement)
{
    const bool is_sqlite = raw->engine == TIDE_ENGINE_SQLITE;
    raw_ok(raw, "BEGIN");
    raw_ok(raw, is_sqlite ? "INSERT INTO journal_permits (permit) VALUES ('retention')"
                          : "SELECT set_config('tidemark.permit', 'retention', true)");
    raw_ok(raw, "%s", statement);
    raw_ok(raw, is_sqlite ? "DELETE FROM journal_permits"
                          : "SELECT set_config('tidemark.permit', '', true)");
    raw_ok(raw, "COMMIT");
}

/* What was removed stays removed, and its numbers stay used. */
static void removed_numbers_are_recorded_and_never_used_again(void **state)
{
    numbering_case c;
    raw_sql *raw = begin(&c, state);
    for (int i = 1; i <= 5; i++) {
        char id[8];
        (void)snprintf(id, sizeof id, "c%d", i);
        raw_ok(raw, ADD, id, "t", i);
    }
    remove_with_permit(raw, "DELETE FROM checkpoints WHERE global_sequence IN (2, 4, 5)");
    raw_refuse(raw, "append-only", "DELETE FROM checkpoints"); /* the permit is gone */
    assert_int_equal(3, raw_number(raw, "SELECT sum(last_global - first_global + 1) "
                                        "FROM checkpoint_gaps WHERE reason = 'removed'"));
    raw_refuse(raw, "", ADD, "x", "t", 5);
    for (int number = 1; number <= 5; number++)
        raw_refuse(
            raw, "",
            "INSERT INTO checkpoints (global_sequence, checkpoint_id, task_id, checkpoint_type, "
            "sequence_number, snapshot_data) VALUES (%d, 'x', 't', 'iteration_end', %d, '{}')",
            number, number);
    raw_ok(raw, ADD, "c6", "t", 6);
    assert_int_equal(6, raw_number(raw, "SELECT global_sequence FROM checkpoints "
                                        "WHERE checkpoint_id = 'c6'"));
    raw_refuse(raw, "stays", "DELETE FROM checkpoint_gaps");
    raw_refuse(
        raw, "stays as it is",
        "UPDATE checkpoint_gaps SET first_global = first_global + 1, last_global = last_global + 1 "
        "WHERE first_global = 2");
    remove_with_permit(raw, "DELETE FROM checkpoint_gaps WHERE first_global = 2");
    end(&c);
}

static void types_can_be_added_and_used_ones_stay(void **state)
{
    numbering_case c;
    raw_sql *raw = begin(&c, state);
    raw_ok(raw, "INSERT INTO checkpoint_types (checkpoint_type) VALUES ('mine'), ('spare')");
    raw_ok(raw,
           "INSERT INTO checkpoints (checkpoint_id, task_id, checkpoint_type, sequence_number, "
           "snapshot_data) VALUES ('a', 't', 'mine', 1, '{}')");
    raw_refuse(raw, "in use", "DELETE FROM checkpoint_types WHERE checkpoint_type = 'mine'");
    raw_refuse(raw, "built in",
               "DELETE FROM checkpoint_types WHERE checkpoint_type = 'error_boundary'");
    raw_refuse(raw, "keeps its name",
               "UPDATE checkpoint_types SET checkpoint_type = 'x' "
               "WHERE checkpoint_type = 'mine'");
    raw_ok(raw, "DELETE FROM checkpoint_types WHERE checkpoint_type = 'spare'");
    end(&c);
}

/* The step of the hash chain is the same bytes everywhere. */
static void the_chain_links_alike_on_every_engine(void **state)
{
    numbering_case c;
    raw_sql *raw = begin(&c, state);
    const bool is_sqlite = raw->engine == TIDE_ENGINE_SQLITE;
    if (is_sqlite)
        assert_int_equal(SQLITE_OK, tide_sqlite_add_functions(raw->db));
    static const char bytes[] = "\x01\x02"
                                "\x00\x00\x00\x01\x00\x00\x00\x05"
                                "\xff";
    uint8_t digest[TIDE_SHA256_LEN];
    char expected[TIDE_SHA256_TEXT_SIZE];
    assert_ok(tide_sha256_of(tide_view_bytes(bytes, sizeof bytes - 1), digest, &c.t->err));
    tide_hex_encode(expected, digest, sizeof digest);
    assert_string_equal(
        expected,
        raw_text(raw, is_sqlite ? "SELECT lower(hex(tide_link(x'0102', 4294967301, x'ff')))"
                                : "SELECT encode(tide_link('\\x0102', 4294967301, '\\xff'), "
                                  "'hex')"));
    assert_string_equal("-", raw_text(raw, "SELECT tide_link(NULL, 1, NULL)"));
    end(&c);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(a_plain_checkpoint_is_numbered),
        STORE_CASE(bad_numbers_types_and_parents_are_refused),
        STORE_CASE(explicit_global_numbers_are_refused),
        STORE_CASE(numbers_that_were_issued_are_accepted_once),
        STORE_CASE(checkpoints_never_change),
        STORE_CASE(removed_numbers_are_recorded_and_never_used_again),
        STORE_CASE(types_can_be_added_and_used_ones_stay),
        STORE_CASE(the_chain_links_alike_on_every_engine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
