/* Memory that runs out, at every allocation in turn, while streams are queried: a clean error or the right answer, and the connection goes
 * on when there is memory again. */
#include "feed/vtab.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "feed/feed_fixture.h"
#include "support/alloc_fault.h"

enum { SWEEP_MAX = 20000 };

/* Opened before: a connection that reads its schema makes thousands of allocations that are one like the other. */
static sqlite3 *open_db(const store_test *t)
{
    sqlite3 *db = NULL;
    const char *path = strncmp(t->url, "sqlite:", 7) == 0 ? t->url + 7 : t->url;
    assert_int_equal(SQLITE_OK, sqlite3_open(path, &db));
    assert_int_equal(SQLITE_OK,
                     sqlite3_exec(db, "SELECT count(*) FROM feed_streams", NULL, NULL, NULL));
    return db;
}

/* Code of the end; *rows and *len count what came before it. */
static int run(sqlite3 *db, const char *sql, int *rows, size_t *len)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
    *rows = 0;
    *len = 0;
    while (code == SQLITE_OK || code == SQLITE_ROW) {
        code = sqlite3_step(statement);
        if (code != SQLITE_ROW)
            break;
        ++*rows;
        const unsigned char *text = sqlite3_column_text(statement, 0);
        *len += text ? strlen((const char *)text) : 0;
    }
    sqlite3_finalize(statement);
    return code;
}

typedef struct question {
    const store_test *t;
    sqlite3 *db;
    const char *sql;
    int rows;
    size_t len;
} question;

static void put_and_ask(void *arg)
{
    const question *q = arg;
    int rows = 0;
    size_t len = 0;
    int code = tide_vtab_register(q->db, (tide_env *)&q->t->clock.env);
    if (code == SQLITE_OK)
        code = run(q->db, q->sql, &rows, &len);
    alloc_fault_off();
    /* A table that could not be made, or a text that could not be copied, is told as one of these. */
    if (code != SQLITE_DONE && code != SQLITE_NOMEM && code != SQLITE_ERROR)
        fail_msg("%s: %d: %s", q->sql, code, sqlite3_errmsg(q->db));
    if (code == SQLITE_DONE && (rows != q->rows || len != q->len))
        fail_msg("%s: %d rows, want %d", q->sql, rows, q->rows);
}

static void a_query_ends_cleanly_wherever_memory_runs_out(void **state)
{
    static const char *const questions[] = {
        "SELECT attributes || body FROM logs_local WHERE service_name IN ('a', 'b') ORDER BY 1",
        "SELECT count(*) FROM logs_local WHERE seq_id > 3",
        "SELECT currval('seq_logs')",
    };
    store_test *t = *state;
    tide_feed *feed = feed_test_open(t, NULL);
    for (int i = 0; i < 3; i++)
        (void)put_logs(feed, 4, i == 1 ? "b" : "a", 1000 * i);
    sqlite3 *db = open_db(t);
    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++) {
        question q = {.t = t, .db = db, .sql = questions[i]};
        assert_int_equal(SQLITE_OK, tide_vtab_register(db, &t->clock.env));
        assert_int_equal(SQLITE_DONE, run(db, q.sql, &q.rows, &q.len));
        assert_true(q.rows > 0);
        alloc_fault_at(0);
        put_and_ask(&q);
        print_message("%lld allocations\n", (long long)alloc_fault_count());
        ALLOC_FAULT_SWEEP(put_and_ask, &q, SWEEP_MAX);
        alloc_fault_off();
        put_and_ask(&q);
    }
    assert_int_equal(SQLITE_OK, sqlite3_close(db));
    tide_feed_close(feed);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE_SQLITE(a_query_ends_cleanly_wherever_memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
