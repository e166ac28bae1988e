/* The conflict matrix, every pair of it; and what changes_made says. */
#include "support/check.h"

#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "lake/mark.h"

/* The matrix of docs/decisions/0024-conflict-matrix.md: is mine (the row) refused after theirs (the
 * column)? Columns in the order of the enum:
 *   create-schema drop-schema create-table drop-table create-view drop-view rename alter insert delete delete-file compact inlined-delete flush */
static const char *const want[TIDE_LAKE_ACT_COUNT] = {
    [TIDE_LAKE_CREATE_SCHEMA] = "x.............",  [TIDE_LAKE_DROP_SCHEMA] = ".xx.x.........",
    [TIDE_LAKE_CREATE_TABLE] = ".xx.x.x.......",   [TIDE_LAKE_DROP_TABLE] = "...x.x........",
    [TIDE_LAKE_CREATE_VIEW] = ".xx.x.x.......",    [TIDE_LAKE_DROP_VIEW] = "...x.x........",
    [TIDE_LAKE_RENAME] = ".xxxxxxx......",         [TIDE_LAKE_ALTER] = "...x.xxx......",
    [TIDE_LAKE_INSERT] = "...x.xxx......",         [TIDE_LAKE_DELETE] = "...x.xxxx..x..",
    [TIDE_LAKE_DELETE_FILE] = "..........x...",    [TIDE_LAKE_COMPACT] = "...x.x...x.xx.",
    [TIDE_LAKE_INLINED_DELETE] = "...x.xxxx...xx", [TIDE_LAKE_FLUSH] = "...x.x......xx",
};

static tide_lake_deed deed_of(int act, int64_t schema, int64_t object, const char *name)
{
    return (tide_lake_deed){
        .act = (tide_lake_act)act, .schema_id = schema, .object_id = object, .name = name};
}

static void the_matrix_is_the_one_of_ducklake(void **state)
{
    (void)state;
    for (int mine = 0; mine < TIDE_LAKE_ACT_COUNT; mine++) {
        for (int theirs = 0; theirs < TIDE_LAKE_ACT_COUNT; theirs++) {
            const tide_lake_deed a = deed_of(mine, 1, 5, "Name");
            const tide_lake_deed b = deed_of(theirs, 1, 5, "nAME");
            if (tide_lake_deeds_collide(&a, &b) != (want[mine][theirs] == 'x'))
                fail_msg("act %d after act %d", mine, theirs);
        }
    }
}

static void deeds_on_other_things_never_collide(void **state)
{
    (void)state;
    for (int mine = 0; mine < TIDE_LAKE_ACT_COUNT; mine++) {
        for (int theirs = 0; theirs < TIDE_LAKE_ACT_COUNT; theirs++) {
            const tide_lake_deed a = deed_of(mine, 1, 5, "a");
            const tide_lake_deed b = deed_of(theirs, 2, 6, "b");
            assert_false(tide_lake_deeds_collide(&a, &b));
        }
    }
}

static void marks_and_fears_say_the_same_as_the_matrix(void **state)
{
    (void)state;
    tide_error err;
    for (int mine = 0; mine < TIDE_LAKE_ACT_COUNT; mine++) {
        for (int theirs = 0; theirs < TIDE_LAKE_ACT_COUNT; theirs++) {
            const tide_lake_deed a = deed_of(mine, 1, 5, "n");
            const tide_lake_deed b = deed_of(theirs, 1, 5, "n");
            TIDE_CLEANUP(tide_buffer_done) tide_buffer fears;
            TIDE_CLEANUP(tide_buffer_done) tide_buffer leaves;
            tide_buffer_init(&fears, 4096);
            tide_buffer_init(&leaves, 4096);
            assert_ok(tide_lake_deed_fears(&a, &fears, &err));
            assert_ok(tide_lake_deed_leaves(&b, &leaves, &err));
            bool is_met = false;
            char *rest = NULL;
            for (char *mark = strtok_r(leaves.ptr, ",", &rest); mark;
                 mark = strtok_r(NULL, ",", &rest))
                is_met = is_met || strstr(fears.ptr, mark) != NULL;
            assert_int_equal(is_met, want[mine][theirs] == 'x');
        }
    }
}

typedef struct heard {
    char text[512];
} heard;

static tide_status hear(void *arg, const tide_lake_deed *deed, const char *schema, tide_error *err)
{
    (void)err;
    heard *h = arg;
    const size_t len = strlen(h->text);
    (void)snprintf(h->text + len, sizeof h->text - len, "%d %d %d [%s] [%s];", (int)deed->act,
                   (int)deed->schema_id, (int)deed->object_id, deed->name, schema);
    return TIDE_OK;
}

static void tokens_of_stock_clients_are_read(void **state)
{
    (void)state;
    tide_error err;
    heard h = {.text = ""};
    assert_ok_err(tide_lake_changes_parse("created_schema:\"a\"\"b\",created_table:\"s,1\".\"t\","
                                          "dropped_schema:4,inserted_into_table:7,inlined_delete:8,"
                                          "merge_adjacent:9",
                                          hear, &h, &err),
                  &err);
    assert_string_equal(h.text, "0 0 0 [a\"b] [];2 0 0 [t] [s,1];1 4 0 [] [];8 0 7 [] [];12 0 8 [] "
                                "[];11 0 9 [] [];");
    assert_ok(tide_lake_changes_parse("", hear, &h, &err));
}

static void tokens_that_ducklake_does_not_have_are_refused(void **state)
{
    (void)state;
    tide_error err;
    heard h = {.text = ""};
    static const char *const bad[] = {"forked:1",
                                      "created_table:5",
                                      "dropped_table:\"a\"",
                                      "inserted_into_table:",
                                      "inserted_into_table",
                                      "created_schema:\"a",
                                      "dropped_table:5;",
                                      ",",
                                      "created_table:\"a\""};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_status(TIDE_E_INVALID, tide_lake_changes_parse(bad[i], hear, &h, &err));
}

static void marks_are_told_in_words(void **state)
{
    (void)state;
    assert_string_equal(tide_lake_mark_words("drop 5"), "dropped it");
    assert_string_equal(tide_lake_mark_words("drop-schema 5"), "dropped the schema");
    assert_string_equal(tide_lake_mark_words("what"), "changed something");
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_matrix_is_the_one_of_ducklake),
        cmocka_unit_test(deeds_on_other_things_never_collide),
        cmocka_unit_test(marks_and_fears_say_the_same_as_the_matrix),
        cmocka_unit_test(tokens_of_stock_clients_are_read),
        cmocka_unit_test(tokens_that_ducklake_does_not_have_are_refused),
        cmocka_unit_test(marks_are_told_in_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
