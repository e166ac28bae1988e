/* json_tree_test.c - a JSON text as values. */
#include "base/text/json_tree.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "support/alloc_fault.h"
#include "support/check.h"

enum { SWEEP_MAX = 1000 };

static int disarm(void **state)
{
    (void)state;
    alloc_fault_off();
    return 0;
}

static tide_json_node *read_text(const char *text)
{
    tide_error err;
    tide_json_node *root = NULL;
    assert_ok_err(tide_json_tree_read(&root, tide_view_of(text), &err), &err);
    return root;
}

static void values_are_found_by_name_and_place(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_json_tree_freep)
    tide_json_node *root = read_text(" {\"a\":[1,-2,{\"b\":\"x\\n\\u00fc\\ud83d\\ude00\"}],"
                                     "\"\\u0063\":true,\"d\":null,\"e\":{}} ");
    const tide_json_node *a = tide_json_node_find(root, "a");
    assert_int_equal(4, tide_json_node_count(root));
    assert_int_equal(3, tide_json_node_count(a));
    assert_int_equal(-2, tide_json_node_integer(tide_json_node_at(a, 1)));
    assert_string_equal("x\n\xC3\xBC\xF0\x9F\x98\x80",
                        tide_json_node_text(tide_json_node_find(tide_json_node_at(a, 2), "b")));
    assert_true(tide_json_node_is(tide_json_node_find(root, "c"), TIDE_JSON_TYPE_TRUE));
    assert_true(tide_json_node_is(tide_json_node_find(root, "d"), TIDE_JSON_TYPE_NULL));
    assert_true(tide_json_node_is(tide_json_node_find(root, "e"), TIDE_JSON_TYPE_OBJECT));
    assert_string_equal("d", tide_json_node_at(root, 2)->key.ptr);
}

/* A path is read without a check at each step. */
static void what_is_not_there_reads_as_nothing(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_json_tree_freep) tide_json_node *root = read_text("{\"a\":\"t\",\"n\":7}");
    const tide_json_node *none = tide_json_node_find(tide_json_node_find(root, "x"), "y");
    assert_null(none);
    assert_null(tide_json_node_text(none));
    assert_null(tide_json_node_at(root, 2));
    assert_null(tide_json_node_at(tide_json_node_find(root, "n"), 0));
    assert_null(tide_json_node_find(tide_json_node_find(root, "n"), "y"));
    assert_null(tide_json_node_text(tide_json_node_find(root, "n")));
    assert_int_equal(0, tide_json_node_integer(tide_json_node_find(root, "a")));
    assert_int_equal(0, tide_json_node_count(tide_json_node_find(root, "a")));
    assert_false(tide_json_node_is(none, TIDE_JSON_TYPE_NULL));
    tide_json_tree_free(NULL);
}

static void integers_are_exact_and_the_rest_is_a_double(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_json_tree_freep)
    tide_json_node *root =
        read_text("[9223372036854775807,-9223372036854775808,9223372036854775808,1.5,1e2,"
                  "123456789012345678901234567890]");
    assert_true(tide_json_node_integer(tide_json_node_at(root, 0)) == INT64_MAX);
    assert_true(tide_json_node_integer(tide_json_node_at(root, 1)) == INT64_MIN);
    for (size_t i = 2; i < 6; i++)
        assert_true(tide_json_node_is(tide_json_node_at(root, i), TIDE_JSON_TYPE_REAL));
    assert_string_equal("9223372036854775808", tide_json_node_at(root, 2)->text.ptr);
    assert_true(tide_json_node_real(tide_json_node_at(root, 3)) * 2 == 3);
    assert_true(tide_json_node_real(tide_json_node_at(root, 4)) == 100);
}

static void of_two_members_with_a_key_the_last_counts(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_json_tree_freep) tide_json_node *root = read_text("{\"a\":1,\"a\":2}");
    assert_int_equal(2, tide_json_node_integer(tide_json_node_find(root, "a")));
    assert_int_equal(2, tide_json_node_count(root));
}

static void a_nul_in_a_text_counts(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_json_tree_freep) tide_json_node *root = read_text("\"a\\u0000b\"");
    assert_int_equal(3, root->text.len);
    assert_memory_equal("a\0b", root->text.ptr, 4);
}

static void trees_are_equal_if_they_say_the_same(void **state)
{
    (void)state;
    static const struct {
        const char *a;
        const char *b;
        bool is_equal;
    } rows[] = {
        {"{\"a\":1,\"b\":[true,null]}", "{\"b\":[true,null],\"a\":1}", true},
        {"[1,2]", "[2,1]", false},
        {"[1,2]", "[1,2,3]", false},
        {"1", "1.0", false},
        {"1.50", "15e-1", true},
        {"\"\\u0061\"", "\"a\"", true},
        {"{\"a\":1}", "{\"b\":1}", false},
        {"{}", "[]", false},
        {"false", "true", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        TIDE_CLEANUP(tide_json_tree_freep) tide_json_node *a = read_text(rows[i].a);
        TIDE_CLEANUP(tide_json_tree_freep) tide_json_node *b = read_text(rows[i].b);
        if (tide_json_node_equal(a, b) != rows[i].is_equal)
            fail_msg("%s %s", rows[i].a, rows[i].b);
    }
}

static void what_is_not_json_is_refused_at_its_place(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "{", "[1,]", "{\"a\" 1}", "\"a", "01", "1 2", "nul"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        tide_error err = {0};
        tide_json_node *root = NULL;
        assert_status(TIDE_E_INVALID, tide_json_tree_read(&root, tide_view_of(bad[i]), &err));
        assert_contains(err.text, "line 1, column");
        assert_null(root);
    }
}

/* The memory that the header promises suffices for the documents with the most values per byte. */
static void the_densest_documents_fit(void **state)
{
    (void)state;
    static const char *const pieces[] = {"0", "\"\"", "{\"\":0}", "[]", "\"\\n\"", "0.5", "1e0"};
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        TIDE_CLEANUP(tide_buffer_done) tide_buffer text;
        tide_buffer_init(&text, 1 << 20);
        assert_ok(tide_buffer_append_text(&text, "["));
        for (int n = 0; n < 20000; n++)
            assert_ok(tide_buffer_printf(&text, "%s%s", n > 0 ? "," : "", pieces[i]));
        assert_ok(tide_buffer_append_text(&text, "]"));
        TIDE_CLEANUP(tide_json_tree_freep) tide_json_node *root = read_text(text.ptr);
        assert_int_equal(20000, tide_json_node_count(root));
    }
}

static void memory_that_runs_out_is_reported(void **state)
{
    (void)state;
    const tide_view text = tide_view_of("{\"a\":[1,2.5,\"x\\n\"],\"b\":{\"c\":\"text\"}}");
    int nth = 1;
    for (; nth < SWEEP_MAX; nth++) {
        tide_error err = {0};
        tide_json_node *root = NULL;
        alloc_fault_at(nth);
        const tide_status status = tide_json_tree_read(&root, text, &err);
        alloc_fault_off();
        tide_json_tree_free(root);
        if (status == TIDE_OK)
            break;
        assert_status(TIDE_E_NOMEM, status);
    }
    assert_true(nth > 2 && nth < SWEEP_MAX);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_found_by_name_and_place),
        cmocka_unit_test(what_is_not_there_reads_as_nothing),
        cmocka_unit_test(integers_are_exact_and_the_rest_is_a_double),
        cmocka_unit_test(of_two_members_with_a_key_the_last_counts),
        cmocka_unit_test(a_nul_in_a_text_counts),
        cmocka_unit_test(trees_are_equal_if_they_say_the_same),
        cmocka_unit_test(what_is_not_json_is_refused_at_its_place),
        cmocka_unit_test(the_densest_documents_fit),
        cmocka_unit_test_teardown(memory_that_runs_out_is_reported, disarm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
