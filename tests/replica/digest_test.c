/* Digests of tables and of ranges of their keys: equal where rows are, whatever the order of anything. */
#include <stdio.h>
#include <string.h>

#include "replica/range.h"
#include "replica/world.h"

#define SCHEMA                                                                                     \
    "CREATE TABLE zebra(id INTEGER PRIMARY KEY, v);"                                               \
    "CREATE TABLE apple(a TEXT NOT NULL COLLATE NOCASE, b REAL NOT NULL, v, PRIMARY KEY(a, b)) "   \
    "WITHOUT ROWID"

static const char *const tables[] = {"zebra", "apple", NULL};

typedef struct parts {
    int count;
    int64_t rows;
    uint8_t sum[16];
    char names[600];
    size_t names_len;
} parts;

static tide_status add_part(void *arg, const tide_range_digest *part, tide_error *err)
{
    parts *p = arg;
    (void)err;
    p->count++;
    p->rows += part->rows;
    tide_range_add(p->sum, part->digest);
    assert_int_equal(part->rows > 0, part->end.len > 0);
    return TIDE_OK;
}

static tide_status add_table(void *arg, const tide_table_digest *digest, tide_error *err)
{
    parts *p = arg;
    (void)err;
    p->count++;
    p->names_len += (size_t)snprintf(p->names + p->names_len, sizeof p->names - p->names_len, "%s",
                                     digest->table);
    if (strcmp(digest->table, "apple") == 0)
        memcpy(p->sum, digest->digest, sizeof p->sum);
    return TIDE_OK;
}

/* Tables come by name, whatever was tracked first: texts of two nodes can be compared. */
static void tables_come_by_name(void **state)
{
    (void)state;
    world w;
    parts p = {.count = 0};
    world_init(&w, 1, 1, SCHEMA, tables, 0);
    assert_ok_err(tide_node_digests(w.nodes[0].node, add_table, &p, &w.err), &w.err);
    assert_string_equal("applezebra", p.names);
    world_done(&w);
}

/* However a table is split, its parts have all rows once, and their digests sum up to the table's. */
static void parts_sum_up_to_the_table(void **state)
{
    (void)state;
    world w;
    parts whole = {.count = 0};
    const tide_range all = {.after = {.len = 0}};
    world_init(&w, 1, 1, SCHEMA, tables, 0);
    for (int i = 0; i < 200; i++)
        world_run(&w, 0, "INSERT INTO apple VALUES('%s%d', %d.5, %s)", i % 3 ? "key" : "KEY", i / 4,
                  i, i % 5 ? "NULL" : "x'00ff'");
    assert_ok_err(tide_node_digests(w.nodes[0].node, add_table, &whole, &w.err), &w.err);
    for (int count = 1; count <= 300; count += 13) {
        parts p = {.count = 0};
        assert_ok_err(
            tide_node_split(w.nodes[0].node, "apple", 0, &all, count, add_part, &p, &w.err),
            &w.err);
        assert_true(p.count <= count);
        assert_int_equal(200, p.rows);
        assert_memory_equal(whole.sum, p.sum, sizeof p.sum);
    }
    world_done(&w);
}

/* A range that holds nothing is one part without rows. */
static void an_empty_table_is_one_part(void **state)
{
    (void)state;
    world w;
    parts p = {.count = 0};
    const tide_range all = {.after = {.len = 0}};
    world_init(&w, 1, 1, SCHEMA, tables, 0);
    assert_ok_err(tide_node_split(w.nodes[0].node, "zebra", 0, &all, 64, add_part, &p, &w.err),
                  &w.err);
    assert_int_equal(1, p.count);
    assert_int_equal(0, p.rows);
    world_done(&w);
}

/* Bits count: 1 and 1.0, a text and a BLOB, 0.0 and -0.0 are different rows. */
static void values_that_look_alike_differ(void **state)
{
    (void)state;
    static const char *const values[] = {"1",   "1.0",  "'1'", "x'31'", "NULL",
                                         "0.0", "-0.0", "''",  "x''"};
    enum { COUNT = sizeof values / sizeof *values };
    uint8_t digests[COUNT][16];
    world w;
    const tide_range all = {.after = {.len = 0}};
    world_init(&w, 1, 1, SCHEMA, tables, 0);
    for (int i = 0; i < COUNT; i++) {
        tide_range_digest digest;
        world_run(&w, 0, "DELETE FROM zebra; INSERT INTO zebra VALUES(1, %s)", values[i]);
        assert_ok_err(tide_node_range(w.nodes[0].node, "zebra", 0, &all, &digest, &w.err), &w.err);
        memcpy(digests[i], digest.digest, sizeof digests[i]);
        for (int k = 0; k < i; k++)
            assert_memory_not_equal(digests[k], digests[i], sizeof digests[i]);
    }
    world_done(&w);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_come_by_name),
        cmocka_unit_test(parts_sum_up_to_the_table),
        cmocka_unit_test(an_empty_table_is_one_part),
        cmocka_unit_test(values_that_look_alike_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
