/* work_queue.c - claimed and finished items per second of 16 workers, on SQLite and PostgreSQL, synced.
 *
 * Items do nothing. A worker finishes what it holds and claims as much again in one commit (tide_work_next): one item at a
 * time, or batches of a hundred; on PostgreSQL also one at a time by 16 processes with a store each. Every answer is on disk
 * before the worker goes on. As with the peers, items are added and the tables analysed before, and half a second passes before
 * the clock starts.
 *
 * It is one contestant of scripts/bench/bench-work, beside the queues of other people, which gives it the PostgreSQL server
 * all of them share (TIDEMARK_BENCH_PG), the time (TIDEMARK_BENCH_SECONDS) and the number of workers
 * (TIDEMARK_BENCH_WORKERS). Run alone it starts a server of its own. TIDEMARK_BENCH_ONLY, a part of a contestant's name and mode
 * ("PostgreSQL batch"), leaves the others out. Prints one line of JSON per mode, with the bytes that an item has written: WAL
 * on PostgreSQL, everything that went to the file on SQLite. */
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <libpq-fe.h>

#include <tidemark/work.h>

#include "bench.h"
#include "raw_pg.h"
#include "support/history.h"
#include "support/postgres/pg_cluster.h"
#include "support/process/proc.h"

enum { BATCH = 100, ADD = 1000 };

static const double warm_s = 0.5;

typedef struct contest {
    tide_store *store;
    char task_id[TIDE_WORK_ID_MAX + 1];
    PGconn *pg; /* PostgreSQL: what is asked beside the store */
    int batch;
    double bytes;     /* written between two moments */
    double client_us; /* CPU used between them by the workers ... */
    double server_us; /* ... and by their backends */
    int64_t counts[BENCH_THREADS_MAX];
    tide_work_claims held[BENCH_THREADS_MAX];
} contest;

static void add_items(const contest *c, int64_t count)
{
    static tide_work_spec items[ADD];
    static tide_work_added added[ADD];
    tide_error err;
    for (int i = 0; i < ADD; i++)
        items[i] =
            (tide_work_spec){TIDE_WORK_SPEC_INIT, .task_id = c->task_id, .work_type = "nothing",
                             .input = "{\"n\":1}", .max_retries = -1};
    for (int64_t done = 0; done < count; done += ADD)
        bench_must(tide_work_add(c->store, items, ADD, added, &err), &err, "adding items");
}

/* A call of several items is one of each. */
static void write_calls(const char *worker, const char *operation, int64_t begin_ns,
                        const tide_work_result *items, int count)
{
    const int64_t end_ns = history_now_ns();
    for (int i = 0; bench_history() > 0 && i < count; i++) {
        history_line line;
        history_begin_at(&line, worker, operation, begin_ns);
        history_text(&line, "item", items[i].work_item_id);
        history_number(&line, "token", items[i].token);
        history_end_at(&line, bench_history(), HISTORY_OK, end_ns);
    }
}

static int list_results(tide_work_result *out, const tide_work_claims *held)
{
    for (int i = 0; i < held->count; i++)
        out[i] =
            (tide_work_result){TIDE_WORK_RESULT_INIT, .work_item_id = held->items[i].work_item_id,
                               .token = held->items[i].lease_token, .output = "{\"ok\":true}"};
    return held->count;
}

static void finish_and_claim(void *context, int thread, int64_t n)
{
    (void)n;
    contest *c = context;
    tide_error err;
    char worker[32];
    (void)snprintf(worker, sizeof worker, "worker-%02d", thread);
    static const char *const types[] = {"nothing"};
    const tide_work_claim_request request = {TIDE_WORK_CLAIM_REQUEST_INIT, .worker = worker,
                                             .types = types, .type_count = 1, .limit = c->batch};
    tide_work_claims *held = &c->held[thread];
    tide_work_claims next = {.count = 0};
    tide_work_result results[BATCH];
    const int finished = list_results(results, held);
    const int64_t begin_ns = history_now_ns();
    const tide_status status = tide_work_next(c->store, results, finished, &request, &next, &err);
    bench_must(status, &err, "finishing and claiming");
    if (status == TIDE_NONE)
        bench_die("the items ran out: add more");
    write_calls(worker, "finish", begin_ns, results, finished);
    c->counts[thread] += finished;
    tide_work_claims_done(held);
    *held = next;
    write_calls(worker, "claim", begin_ns, results, list_results(results, held));
}

/* Bytes written so far: WAL of the server, or what this process sent to the disk. */
static double written(const contest *c)
{
    if (c->pg)
        return (double)raw_pg_ask(
            c->pg, "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint");
    static const char label[] = "write_bytes: ";
    long long bytes = 0;
    FILE *file = fopen("/proc/self/io", "r");
    char line[128];
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, label, sizeof label - 1) == 0)
            bytes = strtoll(line + sizeof label - 1, NULL, 10);
    if (file)
        (void)fclose(file);
    return (double)bytes;
}

/* Microseconds of CPU so far, of a process by its clock. */
static double used_us(clockid_t clock)
{
    struct timespec used = {.tv_sec = 0};
    (void)clock_gettime(clock, &used);
    return (double)used.tv_sec * 1e6 + (double)used.tv_nsec / 1e3;
}

/* The same of all processes of our database, if the server runs here. */
static double used_by_server_us(const contest *c)
{
    double us = 0;
    PGresult *pids = c->pg ? PQexec(c->pg, "SELECT pid FROM pg_stat_activity "
                                           "WHERE datname = current_database()")
                           : NULL;
    for (int i = 0; i < PQntuples(pids); i++) {
        clockid_t clock;
        if (clock_getcpuclockid((pid_t)strtol(PQgetvalue(pids, i, 0), NULL, 10), &clock) == 0)
            us += used_us(clock);
    }
    PQclear(pids);
    return us;
}

static int64_t total(const contest *c)
{
    int64_t sum = 0;
    for (int i = 0; i < BENCH_THREADS_MAX; i++)
        sum += c->counts[i];
    return sum;
}

static double measure(contest *c, int workers, double seconds)
{
    (void)bench_run(workers, warm_s, finish_and_claim, c);
    c->bytes = -written(c);
    c->client_us = -used_us(CLOCK_PROCESS_CPUTIME_ID);
    c->server_us = -used_by_server_us(c);
    memset(c->counts, 0, sizeof c->counts);
    const int64_t before_us = bench_now_us();
    (void)bench_run(workers, seconds, finish_and_claim, c);
    const double took_s = (double)(bench_now_us() - before_us) / 1e6;
    c->bytes += written(c);
    c->client_us += used_us(CLOCK_PROCESS_CPUTIME_ID);
    c->server_us += used_by_server_us(c);
    for (int i = 0; i < workers; i++) /* the last ones stay claimed */
        tide_work_claims_done(&c->held[i]);
    return (double)total(c) / took_s;
}

/* ---- a process per worker ---- */

/* What the processes share with the one that started them: a file in the directory of the run. */
typedef struct board {
    atomic_bool is_over;
    atomic_int ready;
    _Atomic int64_t counts[BENCH_THREADS_MAX];
} board;

static board *map_board(const tempdir *dir)
{
    char path[TEMPDIR_PATH_MAX + 16];
    (void)snprintf(path, sizeof path, "%s/board", dir->path);
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(board)) != 0)
        bench_die("cannot make %s", path);
    board *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (shared == MAP_FAILED)
        bench_die("cannot map %s", path);
    return shared;
}

/* work_queue --worker URL STATE_DIR NUMBER */
static int run_worker(char **argv)
{
    tempdir dir = {.path = ""};
    (void)snprintf(dir.path, sizeof dir.path, "%s", argv[3]);
    const int number = (int)strtol(argv[4], NULL, 10);
    board *shared = map_board(&dir);
    static contest c = {.batch = 1};
    c.store = bench_open_store(argv[2], &dir);
    for (bool is_first = true; !atomic_load(&shared->is_over); is_first = false) {
        finish_and_claim(&c, number, 0);
        if (is_first)
            atomic_fetch_add(&shared->ready, 1);
        atomic_store(&shared->counts[number], c.counts[number]);
    }
    tide_work_claims_done(&c.held[number]);
    tide_store_close(c.store);
    return EXIT_SUCCESS;
}

static void sleep_s(double seconds)
{
    const struct timespec length = {.tv_sec = (time_t)seconds,
                                    .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    (void)nanosleep(&length, NULL);
}

/* Bytes and CPU until now are added, or taken away. */
static void weigh(contest *c, const proc *processes, int workers, int sign)
{
    c->bytes += sign * written(c);
    c->server_us += sign * used_by_server_us(c);
    for (int i = 0; i < workers; i++) {
        clockid_t clock;
        if (clock_getcpuclockid(processes[i].pid, &clock) == 0)
            c->client_us += sign * used_us(clock);
    }
}

static double measure_processes(contest *c, const char *url, const tempdir *dir, int workers,
                                double seconds)
{
    tide_error err;
    proc processes[BENCH_THREADS_MAX];
    char program[PATH_MAX];
    proc_self_path(program);
    board *shared = map_board(dir);
    for (int i = 0; i < workers; i++) {
        char number[16];
        (void)snprintf(number, sizeof number, "%d", i);
        const char *const argv[] = {program, "--worker", url, dir->path, number, NULL};
        const proc_options options = {.argv = argv};
        bench_must(proc_start(&processes[i], &options, &err), &err, "starting a worker");
    }
    while (atomic_load(&shared->ready) < workers)
        sleep_s(0.01);
    sleep_s(warm_s);
    int64_t before = 0;
    int64_t after = 0;
    c->bytes = c->client_us = c->server_us = 0;
    weigh(c, processes, workers, -1);
    const int64_t before_us = bench_now_us();
    for (int i = 0; i < workers; i++)
        before += atomic_load(&shared->counts[i]);
    sleep_s(seconds);
    for (int i = 0; i < workers; i++)
        after += atomic_load(&shared->counts[i]);
    const double took_s = (double)(bench_now_us() - before_us) / 1e6;
    weigh(c, processes, workers, 1);
    c->counts[0] = after - before;
    atomic_store(&shared->is_over, true);
    for (int i = 0; i < workers; i++) {
        bench_must(proc_wait(&processes[i], 30000, &err), &err, "ending a worker");
        if (processes[i].exit_code != 0)
            bench_die("worker %d failed", i);
        proc_done(&processes[i]);
    }
    (void)munmap(shared, sizeof *shared);
    return (double)(after - before) / took_s;
}
/* ---- one engine ---- */

static bool is_wanted(const char *name, const char *mode)
{
    const char *only = getenv("TIDEMARK_BENCH_ONLY");
    char whole[128];
    (void)snprintf(whole, sizeof whole, "%s %s", name, mode);
    return !only || strstr(whole, only);
}

static void print_line(const contest *c, const char *name, const char *mode, double rate)
{
    (void)printf("{\"peer\":\"tidemark, %s\",\"mode\":\"%s\",\"jobs_per_s\":%.0f,\"version\":\"\"",
                 name, mode, rate);
    if (c->bytes > 0)
        (void)printf(",\"bytes_per_job\":%.0f", c->bytes / (double)total(c));
    if (c->client_us > 0)
        (void)printf(",\"client_us_per_job\":%.1f,\"server_us_per_job\":%.1f",
                     c->client_us / (double)total(c), c->server_us / (double)total(c));
    (void)printf("}\n");
    (void)fflush(stdout);
}

/* More than the fastest run so far could take, so that no worker finds the queue empty. */
static double fill(contest *c, double seconds)
{
    const int64_t count =
        (int64_t)((c->batch == 1 ? 30000 : 110000) * (seconds + warm_s)) / ADD * ADD + 10 * ADD;
    const int64_t before_us = bench_now_us();
    add_items(c, count);
    const double rate = (double)count * 1e6 / (double)(bench_now_us() - before_us);
    if (c->pg)
        PQclear(PQexec(c->pg, "VACUUM ANALYZE"));
    return rate;
}

static void run_engine(const char *name, const char *url, const tempdir *dir, int workers,
                       double seconds)
{
    tide_error err;
    char processes[64];
    (void)snprintf(processes, sizeof processes, "%s, %d processes", name, workers);
    contest c = {.store = bench_open_store(url, dir)};
    c.pg = strncmp(url, "postgres", 8) == 0 ? raw_pg_connect(url) : NULL;
    const tide_task_new task = {TIDE_TASK_NEW_INIT, .title = "bench"};
    bench_must(tide_task_create(c.store, &task, c.task_id, &err), &err, "a task");
    double added = 0;
    c.batch = 1;
    if (is_wanted(name, "single")) {
        added = fill(&c, seconds);
        print_line(&c, name, "single", measure(&c, workers, seconds));
    }
    if (c.pg && is_wanted(processes, "single")) {
        added = fill(&c, seconds);
        print_line(&c, processes, "single", measure_processes(&c, url, dir, workers, seconds));
    }
    c.batch = BATCH;
    if (is_wanted(name, "batch")) {
        added = fill(&c, seconds);
        print_line(&c, name, "batch", measure(&c, workers, seconds));
    }
    c.bytes = 0;
    c.client_us = 0;
    if (is_wanted(name, "add"))
        print_line(&c, name, "add", added);
    if (c.pg)
        PQfinish(c.pg);
    tide_store_close(c.store);
}

/* A database of our own on a server that others use too. */
static void make_database(const char *server_url, char url[PG_CLUSTER_URL_MAX], const char *verb)
{
    PGconn *connection = PQconnectdb(server_url);
    char statement[128];
    (void)snprintf(statement, sizeof statement, "%s DATABASE tidemark_work_%ld%s", verb,
                   (long)getpid(), strcmp(verb, "DROP") == 0 ? " WITH (FORCE)" : "");
    PGresult *result = PQexec(connection, statement);
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        bench_die("%s: %s", statement, PQerrorMessage(connection));
    PQclear(result);
    PQfinish(connection);
    const char *query = strchr(server_url, '?');
    const char *end = query ? query : server_url + strlen(server_url);
    const char *slash = end;
    while (slash > server_url && *slash != '/')
        slash--;
    (void)snprintf(url, PG_CLUSTER_URL_MAX, "%.*s/tidemark_work_%ld%s", (int)(slash - server_url),
                   server_url, (long)getpid(), query ? query : "");
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "--worker") == 0)
        return run_worker(argv);
    const bench_options options = bench_read_options(argc, argv, 3);
    const char *workers_text = getenv("TIDEMARK_BENCH_WORKERS");
    const int workers = workers_text ? (int)strtol(workers_text, NULL, 10) : 16;
    if (workers < 1 || workers > BENCH_THREADS_MAX)
        bench_die("1 to %d workers", BENCH_THREADS_MAX);
    tide_error err;
    tempdir dir;
    pg_cluster cluster;
    char url[PG_CLUSTER_URL_MAX];
    bench_must(tempdir_make(&dir, &err), &err, "a directory");
    (void)snprintf(url, sizeof url, "sqlite:%s/work.db", dir.path);
    run_engine("SQLite", url, &dir, workers, options.seconds);
    const char *shared = getenv("TIDEMARK_BENCH_PG");
    if (shared) {
        make_database(shared, url, "CREATE");
        run_engine("PostgreSQL", url, &dir, workers, options.seconds);
        make_database(shared, url, "DROP");
    } else {
        bench_must(pg_cluster_start(&cluster, NULL, &err), &err, "a PostgreSQL cluster");
        bench_must(pg_cluster_create_database(&cluster, "bench", NULL, &err), &err, "a database");
        pg_cluster_url(&cluster, "bench", url);
        run_engine("PostgreSQL", url, &dir, workers, options.seconds);
        pg_cluster_stop(&cluster);
    }
    TIDE_IGNORE(tempdir_remove(&dir, &err));
    bench_judge("leases.py");
    return EXIT_SUCCESS;
}
