/* Closures of several threads that share a transaction: all of them are written, and none pays for another. */
#include "support/store_fixture.h"

#include <libpq-fe.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "store/postgres/pg_engine.h"

/* Two groups of one set of counters are under way at once; the others gather. */
enum { WRITERS = 8, LEADERS = 2, POLL_US = 2000 };

typedef struct writer {
    pthread_t thread;
    tide_store *store;
    numbered_row row;
    tide_status status;
    tide_error err;
} writer;

typedef struct group_case {
    store_test *t;
    tide_store *store;
    PGconn *holder; /* of the counter */
    PGconn *other;  /* looks: in a transaction pg_stat_activity stays as it was */
    writer writers[WRITERS];
} group_case;

static int64_t ask(PGconn *pg, const char *sql)
{
    PGresult *result = PQexec(pg, sql);
    const ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(pg));
    const int64_t value = PQntuples(result) > 0 ? strtoll(PQgetvalue(result, 0, 0), NULL, 10) : 0;
    PQclear(result);
    return value;
}

static void *write_row(void *arg)
{
    writer *self = arg;
    self->status = tide_store_write(self->store, add_numbered, &self->row, &self->err);
    return NULL;
}

static int64_t count_lock_waits(const group_case *c)
{
    return ask(c->other, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
                         "AND wait_event_type = 'Lock'");
}

static int count_gathered(const group_case *c)
{
    return tide_combiner_waiting(tide_pg_engine_of(c->store)->groups);
}

/* Row 1 makes the counter. Then somebody else holds it, two writers wait for it on the server, and the
 * others behind them. */
static void begin_case(group_case *c, store_test *t, int same)
{
    *c = (group_case){.t = t,
                      .store = store_test_open_real(t),
                      .holder = PQconnectdb(t->url),
                      .other = PQconnectdb(t->url)};
    numbered_row first = {.writer = "first", .n = 0};
    assert_ok_err(tide_store_write(c->store, add_numbered, &first, &t->err), &t->err);
    (void)ask(c->holder, "BEGIN");
    (void)ask(c->holder, "SELECT last FROM sequences FOR UPDATE");
    for (int i = 0; i < WRITERS; i++) {
        c->writers[i] = (writer){.store = c->store, .row = {.writer = "w", .n = i}};
        if (i == WRITERS - 1 && same >= 0)
            c->writers[i].row.n = same;
        assert_int_equal(0, pthread_create(&c->writers[i].thread, NULL, write_row, &c->writers[i]));
        while (i < LEADERS && count_lock_waits(c) <= i)
            (void)usleep(POLL_US);
    }
    while (count_gathered(c) < WRITERS - LEADERS)
        (void)usleep(POLL_US);
}

static void let_go(group_case *c)
{
    (void)ask(c->holder, "COMMIT");
    for (int i = 0; i < WRITERS; i++)
        (void)pthread_join(c->writers[i].thread, NULL);
}

static void end_case(group_case *c)
{
    PQfinish(c->holder);
    PQfinish(c->other);
    store_test_close(c->t, &c->store);
}

static void assert_rows(const group_case *c, int64_t count)
{
    int64_t found = 0;
    int64_t highest = 0;
    count_numbered(c->store, &found, &highest);
    assert_int_equal(count, found);
    assert_int_equal(count, highest); /* no number was lost */
}

static void closures_that_wait_together_share_a_transaction(void **state)
{
    group_case c;
    begin_case(&c, *state, -1);
    let_go(&c);
    for (int i = 0; i < WRITERS; i++)
        assert_ok_err(c.writers[i].status, &c.writers[i].err);
    assert_rows(&c, WRITERS + 1);
    for (int i = 0; i < WRITERS; i++) {
        char sql[128];
        (void)snprintf(sql, sizeof sql, "SELECT seq_id FROM numbered WHERE writer = 'w' AND n = %d",
                       i);
        assert_int_equal(c.writers[i].row.range.first, ask(c.other, sql));
    }
    assert_int_equal(LEADERS + 1, ask(c.other, "SELECT count(DISTINCT xmin::text) FROM numbered "
                                               "WHERE writer = 'w'"));
    end_case(&c);
}

static void a_closure_that_fails_costs_the_others_nothing(void **state)
{
    group_case c;
    begin_case(&c, *state, 0); /* the last one repeats the row of writer 0 */
    let_go(&c);
    for (int i = 0; i < WRITERS - 1; i++)
        assert_ok_err(c.writers[i].status, &c.writers[i].err);
    assert_status(TIDE_E_EXISTS, c.writers[WRITERS - 1].status);
    assert_rows(&c, WRITERS);
    end_case(&c);
}

/* The server ends the sessions of both leaders. Their closures, and those that follow, are written once. */
static void a_session_that_is_ended_before_the_commit_loses_nothing(void **state)
{
    group_case c;
    begin_case(&c, *state, -1);
    (void)ask(c.other, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                       "WHERE datname = current_database() AND wait_event_type = 'Lock'");
    let_go(&c);
    for (int i = 0; i < WRITERS; i++)
        assert_ok_err(c.writers[i].status, &c.writers[i].err);
    assert_rows(&c, WRITERS + 1);
    end_case(&c);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE_POSTGRES(closures_that_wait_together_share_a_transaction),
        STORE_CASE_POSTGRES(a_closure_that_fails_costs_the_others_nothing),
        STORE_CASE_POSTGRES(a_session_that_is_ended_before_the_commit_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
