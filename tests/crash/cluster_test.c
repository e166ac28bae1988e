/* The PostgreSQL server itself is killed, with all its processes, while numbers are taken and read: what was
 * acknowledged stays, what a reader was shown stays, and no number is given to another row. */
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "crash/tailing.h"
#include "store/postgres/pq_library.h"
#include "support/clock/fair_clock.h"
#include "support/history.h"
#include "support/prng.h"
#include "support/store_fixture.h"

enum {
    STORES = 4,
    THREADS_EACH = 4,
    THREADS = STORES * THREADS_EACH,
    CRASHES = 4,
    SOAK_FACTOR = 25,
    ROWS_BETWEEN = 400, /* acknowledged at least, before the next crash */
    WAIT_MS = 60000,
    LOCAL_TRIES = 5,
};

static uint64_t seed;

/* ---- a server of one's own ---- */

typedef struct cluster_case {
    pg_cluster cluster;
    char url[PG_CLUSTER_URL_MAX];
    tide_store *stores[STORES + 1];
    tide_error err;
} cluster_case;

/* Nothing but a flush brings a commit to disk: the server's own writer comes by every 10 s only. */
static const char *const settings[] = {"wal_writer_delay=10000ms", "checkpoint_timeout=1h", NULL};

static int set_up(void **state)
{
    pg_cluster_for_test(); /* skips where there is no PostgreSQL */
    cluster_case *c = calloc(1, sizeof *c);
    assert_non_null(c);
    *state = c;
    const pg_cluster_options options = {.settings = settings};
    assert_ok_err(pg_cluster_start(&c->cluster, &options, &c->err), &c->err);
    char name[PG_CLUSTER_NAME_MAX];
    assert_ok_err(pg_cluster_fresh_database(&c->cluster, NULL, name, &c->err), &c->err);
    pg_cluster_url(&c->cluster, name, c->url);
    for (int i = 0; i <= STORES; i++)
        assert_ok_err(tide_store_open(&c->stores[i], c->url, NULL, &c->err), &c->err);
    store_test_add_tables(c->stores[0]);
    return 0;
}

static int tear_down(void **state)
{
    cluster_case *c = *state;
    for (int i = 0; i <= STORES; i++)
        tide_store_close(c->stores[i]);
    pg_cluster_stop(&c->cluster);
    free(c);
    return 0;
}

static void crash_and_restart(cluster_case *c)
{
    assert_ok_err(pg_cluster_crash(&c->cluster, &c->err), &c->err);
    assert_ok_err(pg_cluster_restart(&c->cluster, &c->err), &c->err);
}

static void read_table(seen_rows *table, tide_store *store)
{
    tide_error err;
    tide_status status = TIDE_OK;
    while ((status = seen_rows_read(table, store, &err)) == TIDE_OK)
        continue;
    assert_status_err(TIDE_NONE, status, &err);
}

/* ---- takers ---- */

typedef struct promises {
    pthread_mutex_t lock;
    pthread_cond_t grown;
    size_t stored;
    size_t unknown;
    size_t failed;
    bool is_broken;
    atomic_bool stop;
} promises;

static void note_row(const taker *from, const taken *row)
{
    promises *p = from->arg;
    (void)pthread_mutex_lock(&p->lock);
    p->stored += row->fate == TAKEN_STORED;
    p->unknown += row->fate == TAKEN_UNKNOWN;
    p->failed += row->fate == TAKEN_FAILED;
    (void)pthread_cond_signal(&p->grown);
    (void)pthread_mutex_unlock(&p->lock);
}

/* Wait until so many more rows are acknowledged. */
static bool wait_for_rows(promises *p, size_t more)
{
    const int64_t until_ms = fair_clock_ms() + WAIT_MS;
    (void)pthread_mutex_lock(&p->lock);
    const size_t enough = p->stored + more;
    bool has_time = true;
    while (p->stored < enough && !p->is_broken && has_time)
        has_time = fair_wait_cond(&p->grown, &p->lock, until_ms);
    const bool is_done = p->stored >= enough;
    (void)pthread_mutex_unlock(&p->lock);
    return is_done;
}

typedef struct thread_taker {
    taker taker;
    pthread_t thread;
    tide_status status;
    tide_error err;
} thread_taker;

static void *run_taker(void *arg)
{
    thread_taker *t = arg;
    promises *p = t->taker.arg;
    t->status = taker_run(&t->taker, &t->err);
    if (t->status < TIDE_OK) {
        (void)pthread_mutex_lock(&p->lock);
        p->is_broken = true;
        (void)pthread_cond_signal(&p->grown);
        (void)pthread_mutex_unlock(&p->lock);
    }
    return NULL;
}

static void start_takers(thread_taker takers[THREADS], cluster_case *c, promises *p, int history)
{
    for (int i = 0; i < THREADS; i++) {
        takers[i] = (thread_taker){.taker = {.store = c->stores[i % STORES],
                                             .child = i % STORES,
                                             .thread = i,
                                             .seed = seed,
                                             .is_server_mortal = true,
                                             .history = history,
                                             .stop = &p->stop,
                                             .report = note_row,
                                             .arg = p}};
        assert_int_equal(0, pthread_create(&takers[i].thread, NULL, run_taker, &takers[i]));
    }
}

/* During a crash a writer is told success, "unavailable" or "outcome unknown", and each of them is true
 * afterwards; the tailer, who outlives the crashes, never sees a number change hands. */
static void a_server_crash_takes_back_nothing_that_was_said(void **state)
{
    cluster_case *c = *state;
    const int crashes = is_soak() ? CRASHES * SOAK_FACTOR : CRASHES;
    promises p = {.lock = PTHREAD_MUTEX_INITIALIZER, .grown = PTHREAD_COND_INITIALIZER};
    prng chance;
    prng_init(&chance, seed);
    tempdir dir;
    char path[TEMPDIR_PATH_MAX];
    assert_ok_err(tempdir_make(&dir, &c->err), &c->err);
    tempdir_join(&dir, "history.jsonl", path);
    const int history = history_open(path);
    tailer reader;
    tailer_start(&reader, c->stores[STORES], true, history);
    static thread_taker takers[THREADS];
    start_takers(takers, c, &p, history);
    bool is_moving = true;
    for (int i = 0; i < crashes && is_moving; i++) {
        is_moving = wait_for_rows(&p, ROWS_BETWEEN + (size_t)prng_below(&chance, ROWS_BETWEEN));
        crash_and_restart(c);
    }
    is_moving = is_moving && wait_for_rows(&p, ROWS_BETWEEN);
    atomic_store(&p.stop, true);
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(takers[i].thread, NULL);
    assert_ok_err(tailer_finish(&reader, &c->err), &c->err);
    for (int i = 0; i < THREADS; i++)
        assert_ok_err(takers[i].status, &takers[i].err);
    assert_true(is_moving);

    seen_rows table = {0};
    read_table(&table, c->stores[0]);
    seen_rows_write(&table, history);
    (void)close(history);
    char verdict[HISTORY_VERDICT_MAX];
    if (history_judge("sequences.py", (const char *const[]){path, NULL}, verdict, &c->err) !=
        TIDE_OK)
        fail_msg("seed %llu: %s", (unsigned long long)seed, c->err.text);
    print_message("%s\n", verdict);
    assert_int_equal(table.len, reader.seen.len);
    tide_sequence sequence;
    assert_ok_err(tide_sequence_show(c->stores[0], "numbered", &sequence, &c->err), &c->err);
    assert_int_equal((int64_t)table.len, sequence.last);
    print_message("%d crashes: %zu acknowledged, %zu unknown, %zu refused, %zu rows\n", crashes,
                  p.stored, p.unknown, p.failed, table.len);
    seen_rows_done(&table);
    tailer_done(&reader);
    TIDE_IGNORE(tempdir_remove(&dir, &c->err));
}

/* ---- the durable read ---- */

static void finishp(PGconn **pg)
{
    PQfinish(*pg);
}

static void run_sql(PGconn *pg, const char *text)
{
    PGresult *result = PQexec(pg, text);
    const ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        fail_msg("%s: %s", text, PQerrorMessage(pg));
    PQclear(result);
}

/* A row that is committed and visible, and not on disk: as between an ordered commit and its flush. */
static void commit_without_flush(const cluster_case *c)
{
    TIDE_CLEANUP(finishp) PGconn *pg = PQconnectdb(c->url);
    run_sql(pg, "SET synchronous_commit = off");
    run_sql(pg, "INSERT INTO numbered (seq_id, writer, n, at) VALUES (1, 'w', 1, now())");
}

static tide_status count_rows(tide_tx *tx, void *arg, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TEST_SQL_NUMBERED_COUNT, err));
    TIDE_TRY(tide_query_one(query, err));
    *(int64_t *)arg = tide_query_col_i64(query);
    return TIDE_OK;
}

/* Rule 13: tide_store_read returns only when everything it saw is on disk. */
static void what_a_read_returned_survives_the_server(void **state)
{
    cluster_case *c = *state;
    int64_t count = 0;
    commit_without_flush(c);
    assert_ok_err(tide_store_read(c->stores[0], count_rows, &count, &c->err), &c->err);
    assert_int_equal(1, count);
    crash_and_restart(c);
    assert_ok_err(tide_store_read(c->stores[0], count_rows, &count, &c->err), &c->err);
    assert_int_equal(1, count);
}

/* The named exception, and the proof that the case above means something: what a local read saw may be taken
 * back. (The server's own writer may come by just then; so it is tried a few times.) */
static void what_a_local_read_returned_can_be_lost(void **state)
{
    cluster_case *c = *state;
    int64_t count = 1;
    for (int i = 0; i < LOCAL_TRIES && count > 0; i++) {
        if (i > 0) {
            TIDE_CLEANUP(finishp) PGconn *pg = PQconnectdb(c->url);
            run_sql(pg, "DELETE FROM numbered");
        }
        commit_without_flush(c);
        assert_ok_err(tide_store_read_local(c->stores[0], count_rows, &count, &c->err), &c->err);
        assert_int_equal(1, count);
        crash_and_restart(c);
        assert_ok_err(tide_store_read(c->stores[0], count_rows, &count, &c->err), &c->err);
    }
    assert_int_equal(0, count);
}

/* ---- an answer that arrives after the server came back ---- */

/* Every PQgetResult of the store passes here: the answer to the next COMMIT is on its way to the
 * client when the server crashes, and arrives when it has restarted. */
static cluster_case *crash_behind_commit;

static PGresult *(*library_get_result)(PGconn *pg);

static PGresult *get_result(PGconn *pg)
{
    PGresult *result = library_get_result(pg);
    cluster_case *c = crash_behind_commit;
    if (c && PQresultStatus(result) == PGRES_COMMAND_OK &&
        strcmp(PQcmdStatus(result), "COMMIT") == 0) {
        crash_behind_commit = NULL;
        crash_and_restart(c);
    }
    return result;
}

/* The commit was answered, but not flushed by the server that answered. Another server's flush proves nothing:
 * whoever is told success finds the row. */
static void a_flush_on_another_server_is_no_proof(void **state)
{
    cluster_case *c = *state;
    numbered_row row = {.writer = "w", .n = 1};
    crash_behind_commit = c;
    const tide_status status = tide_store_write(c->stores[0], add_numbered, &row, &c->err);
    assert_null(crash_behind_commit);
    int64_t count = 0;
    assert_ok_err(tide_store_read(c->stores[0], count_rows, &count, &c->err), &c->err);
    if (count == 0)
        assert_status_err(TIDE_E_OUTCOME_UNKNOWN, status, &c->err);
}

/* The same for a reader: the rows it was shown are there afterwards. */
static void a_read_that_outlives_its_server_is_read_again(void **state)
{
    cluster_case *c = *state;
    int64_t shown = 0;
    int64_t count = 0;
    commit_without_flush(c);
    crash_behind_commit = c;
    const tide_status status = tide_store_read(c->stores[0], count_rows, &shown, &c->err);
    assert_null(crash_behind_commit);
    assert_ok_err(tide_store_read(c->stores[1], count_rows, &count, &c->err), &c->err);
    if (status == TIDE_OK)
        assert_int_equal(count, shown);
    else
        assert_status_err(TIDE_E_UNAVAILABLE, status, &c->err);
}

/* ---- the tailer can see ---- */

/* Numbers of a PostgreSQL sequence are handed out before the commit: the later one may be visible first, and
 * a reader of `> n` never sees the other. The tailer's check finds it. */
static void a_tailer_over_nextval_is_seen_to_skip(void **state)
{
    cluster_case *c = *state;
    static const char insert[] = "INSERT INTO numbered (seq_id, writer, n, at) SELECT i, 'w', i, "
                                 "now() FROM nextval('plain') i";
    TIDE_CLEANUP(finishp) PGconn *slow = PQconnectdb(c->url);
    TIDE_CLEANUP(finishp) PGconn *fast = PQconnectdb(c->url);
    run_sql(slow, "CREATE SEQUENCE plain");
    run_sql(slow, "BEGIN");
    run_sql(slow, insert);
    run_sql(fast, insert);
    seen_rows seen = {0};
    assert_status(TIDE_E_DAMAGED, seen_rows_read(&seen, c->stores[0], &c->err));
    assert_contains(c->err.text, "after 0 comes 2");
    run_sql(slow, "COMMIT");
    seen_rows_done(&seen);
}

#define CLUSTER_CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

/* Before any store is open: their threads read the table of functions. */
static int take_over_get_result(void **state)
{
    (void)state;
    tide_error err;
    assert_ok_err(tide_pq_load(&err), &err);
    library_get_result = tide_pq.getResult;
    tide_pq.getResult = get_result;
    return 0;
}

TEST_FILE()
{
    seed = prng_seed_from_env(20250102);
    const struct CMUnitTest tests[] = {
        CLUSTER_CASE(a_server_crash_takes_back_nothing_that_was_said),
        CLUSTER_CASE(what_a_read_returned_survives_the_server),
        CLUSTER_CASE(what_a_local_read_returned_can_be_lost),
        CLUSTER_CASE(a_flush_on_another_server_is_no_proof),
        CLUSTER_CASE(a_read_that_outlives_its_server_is_read_again),
        CLUSTER_CASE(a_tailer_over_nextval_is_seen_to_skip),
    };
    return cmocka_run_group_tests(tests, take_over_get_result, NULL);
}
