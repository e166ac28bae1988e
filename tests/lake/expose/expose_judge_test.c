/* What the server judges of a stock client's commit, whatever the client has checked itself. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "lake/expire.h"
#include "lake/expose/expose_case.h"

static int64_t first_file(expose_case *c, int64_t table)
{
    char text[200];
    (void)snprintf(text, sizeof text,
                   "SELECT min(data_file_id) FROM M.ducklake_data_file WHERE table_id = %" PRId64,
                   table);
    return stock_number(&c->s, text);
}

static void expire_to_one(expose_case *c, const char *catalog, int64_t conflict_retention_us)
{
    const tide_lake_expire_options options = {.keep_last = 1,
                                              .conflict_retention_us = conflict_retention_us};
    tide_lake_expired expired;
    assert_ok_err(tide_lake_expire(c->l.lake, catalog, &options, &expired, &c->l.err), &c->l.err);
}

/* Seen: a DELETE that was open across a compaction was told COMMIT, and its rows stayed. */
static void a_delete_across_a_compaction_is_not_lost(void **state)
{
    expose_case c = begin(state);
    const int64_t id = table_id(&c, "t");
    char word[64];
    const int64_t file = first_file(&c, id);
    const int64_t base = lake_head(&c.l, "books");
    tide_lake_change *change = lake_begin(&c.l, "books");
    lake_op_compact(&c.l, change, "main", "t");
    lake_commit(&c.l, change);
    /* What the client checks when it tries again. */
    TIDE_CLEANUP(tide_freep)
    char *changes = stock_rows(
        &c.s, "SELECT changes_made FROM M.ducklake_snapshot_changes WHERE snapshot_id > %" PRId64,
        base);
    (void)snprintf(word, sizeof word, "merge_adjacent:%" PRId64 "\n", id);
    assert_string_equal(changes, word);
    /* What it does without its check. */
    assert_refused(&c.s, stock_delete(&c.s, id, file, 0, 0, 1), "run the statement again");
    assert_int_equal(lake_rows(&c.l, "books", "", "main", "t"), 7);
    /* Files with deleted rows are rewritten under another word. */
    change = lake_begin(&c.l, "books");
    lake_op_delete(&c.l, change, "main", "t", false);
    lake_commit(&c.l, change);
    change = lake_begin(&c.l, "books");
    lake_op_compact(&c.l, change, "main", "t");
    lake_commit(&c.l, change);
    TIDE_CLEANUP(tide_freep)
    char *rewritten =
        stock_rows(&c.s, "SELECT changes_made FROM M.ducklake_snapshot_changes ORDER BY "
                         "snapshot_id DESC LIMIT 1");
    (void)snprintf(word, sizeof word, "rewrite_delete:%" PRId64 "\n", id);
    assert_string_equal(rewritten, word);
    end(&c);
}

/* Seen: DELETEs that empty a file made the history unsound. */
static void a_file_that_a_client_empties_takes_its_delete_file_along(void **state)
{
    expose_case c = begin(state);
    const int64_t id = table_id(&c, "t");
    const int64_t file = first_file(&c, id);
    assert_done(&c.s, stock_delete(&c.s, id, file, 0, 0, 1));
    assert_done(&c.s, stock_end_file(&c.s, id, file));
    assert_int_equal(lake_rows(&c.l, "books", "", "main", "t"), 4);
    assert_int_equal(stock_number(&c.s, "SELECT count(*) FROM M.ducklake_delete_file WHERE "
                                        "end_snapshot IS NULL"),
                     0);
    lake_assert_sound(&c.l);
    end(&c);
}

/* Seen: two clients that end one file were both told COMMIT, when an expiry between them had removed
 * the file's row: the second UPDATE found no row, and its new rows doubled the first's. */
static void the_end_of_a_file_across_an_expiry_is_refused(void **state)
{
    expose_case c = begin(state);
    const int64_t id = table_id(&c, "t");
    const int64_t file = first_file(&c, id);
    assert_done(&c.s, stock_end_file(&c.s, id, file));
    expire_to_one(&c, "books", 0);
    assert_int_equal(stock_number(&c.s, "SELECT count(*) FROM M.ducklake_data_file"), 1);
    assert_refused(&c.s, stock_end_file(&c.s, id, file), "run the statement again");
    assert_int_equal(lake_rows(&c.l, "books", "", "main", "t"), 4);
    /* A table that is dropped ends all its files, those that are gone too. */
    assert_done(&c.s, stock_begin(&c.s) && stock_next(&c.s, 1, 0, 0));
    static const char *const parts[] = {"table", "column", "data_file"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        assert_done(&c.s, stock_runf(&c.s,
                                     "UPDATE M.ducklake_%s SET end_snapshot = %" PRId64
                                     " WHERE end_snapshot IS NULL AND table_id IN (%" PRId64 ")",
                                     parts[i], c.s.head.snapshot + 1, id));
    char changes[64];
    (void)snprintf(changes, sizeof changes, "dropped_table:%" PRId64, id);
    assert_done(&c.s, stock_end(&c.s, changes));
    end(&c);
}

/* A client reads what was done since its transaction began. Where that is no longer known, it meets a word that it
 * does not know, and stops. */
static void a_base_older_than_the_conflict_retention_is_refused(void **state)
{
    expose_case c = begin(state);
    const int64_t base = lake_head(&c.l, "books");
    const int64_t id = table_id(&c, "t");
    const int64_t file = first_file(&c, id);
    assert_done(&c.s, stock_end_file(&c.s, id, file));
    lake_insert(&c.l, "books", "main", "t", 1);
    const int64_t newer = lake_head(&c.l, "books");
    lake_insert(&c.l, "books", "main", "t", 1);
    /* Stock commits have the server's time, this expiry a virtual one. */
    virtual_env_advance(&c.l.t->clock, INT64_C(100) * 365 * 86400 * SECOND_US);
    expire_to_one(&c, "books", -1);
    TIDE_CLEANUP(tide_freep)
    char *older = stock_rows(&c.s,
                             "SELECT COALESCE((SELECT STRING_AGG(changes_made, ',') FROM "
                             "M.ducklake_snapshot_changes c WHERE c.snapshot_id > %" PRId64
                             "),'') AS changes",
                             base);
    assert_non_null(strstr(older, "since_this_transaction_began_snapshots_were_expired:"));
    TIDE_CLEANUP(tide_freep)
    char *after = stock_rows(&c.s,
                             "SELECT COALESCE((SELECT STRING_AGG(changes_made, ',') FROM "
                             "M.ducklake_snapshot_changes c WHERE c.snapshot_id > %" PRId64
                             "),'') AS changes",
                             newer);
    assert_null(strstr(after, "expired"));
    /* Rows of files that a refused base could end are not kept. */
    lake_sql(&c.l, "DO $$ BEGIN ASSERT (SELECT count(*) FROM lake_gone_file) = 0; END $$");
    end(&c);
}

static void rows_that_do_not_fit_what_is_there_are_refused(void **state)
{
    expose_case c = begin(state);
    stock *s = &c.s;
    const int64_t id = table_id(&c, "t");
    const char *const insert = "INSERT INTO M.ducklake_data_file VALUES (%" PRId64 ", %" PRId64
                               ", %" PRId64 ", NULL, NULL, 'no.parquet', true, 'parquet', 1, 100, "
                               "10, 0, NULL, NULL, NULL, NULL);";
    char changes[64];
    char text[400];
    /* changes_made is what others are checked against. */
    assert_done(s, stock_begin(s) && stock_next(s, 0, 0, 1));
    (void)snprintf(text, sizeof text, insert, s->head.next_file, id, s->head.snapshot + 1);
    assert_done(s, stock_run(s, text));
    (void)snprintf(changes, sizeof changes, "deleted_from_table:%" PRId64, id + 1000);
    assert_refused(s, stock_end(s, changes), "changes_made does not say so");
    /* A table that is not there. */
    (void)snprintf(changes, sizeof changes, "inserted_into_table:%" PRId64, id);
    lake_drop(&c.l, "books", "main", "t");
    assert_done(s, stock_begin(s) && stock_next(s, 0, 0, 1));
    (void)snprintf(text, sizeof text, insert, s->head.next_file, id, s->head.snapshot + 1);
    assert_done(s, stock_run(s, text));
    assert_refused(s, stock_end(s, changes), "has been dropped");
    end(&c);
}

/* Seen: ten tries and an error about a unique index. */
static void a_file_is_in_one_table(void **state)
{
    expose_case c = begin(state);
    stock *s = &c.s;
    char changes[64];
    lake_table(&c.l, "books", "main", "u");
    const int64_t ids[] = {table_id(&c, "t"), table_id(&c, "u"), table_id(&c, "u")};
    TIDE_CLEANUP(tide_freep)
    char *ours = stock_rows(s, "SELECT min(path) FROM M.ducklake_data_file");
    ours[strcspn(ours, "\n")] = '\0';
    char last[600];
    (void)snprintf(last, sizeof last, "/data/main/t/%s", ours);
    const char *const paths[] = {"/files/x.parquet", "/files/x.parquet", last};
    for (int i = 0; i < 3; i++) {
        assert_done(s, stock_begin(s) && stock_next(s, 0, 0, 1));
        const bool is_done =
            stock_runf(s,
                       "INSERT INTO M.ducklake_data_file VALUES (%" PRId64 ", %" PRId64 ", %" PRId64
                       ", NULL, NULL, '%s', false, 'parquet', 1, 100, 10, 0, NULL, NULL, NULL, "
                       "NULL);",
                       s->head.next_file, ids[i], s->head.snapshot + 1, paths[i]);
        (void)snprintf(changes, sizeof changes, "inserted_into_table:%" PRId64, ids[i]);
        if (i == 0)
            assert_done(s, is_done && stock_end(s, changes));
        else
            assert_refused(s, is_done, "a file is in one table");
    }
    end(&c);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE_POSTGRES(a_delete_across_a_compaction_is_not_lost),
        STORE_CASE_POSTGRES(a_file_that_a_client_empties_takes_its_delete_file_along),
        STORE_CASE_POSTGRES(the_end_of_a_file_across_an_expiry_is_refused),
        STORE_CASE_POSTGRES(a_file_is_in_one_table),
        STORE_CASE_POSTGRES(a_base_older_than_the_conflict_retention_is_refused),
        STORE_CASE_POSTGRES(rows_that_do_not_fit_what_is_there_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
