#include "colony_place.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tidemark/feed.h>

#include "bench.h"
#include "tidemark_colony_v1_colony.pb-c.h"

enum {
    ARGS = 2 * COLONY_AGENTS_MAX + 32,
    POLL_MS = 3600000,
    PREPARE_MS = 120000,
    BATCH = 1000,
    STEP_EVERY = 64,
    AGENT_NAME = 32,
    LOG_MAX = 2000,
};

typedef struct command {
    const char *argv[ARGS];
    int count;
    char program[PATH_MAX];
    char agents[COLONY_AGENTS_MAX][AGENT_NAME + RUNNING_AGENT_ADDRESS];
} command;

/* ---- the programs ---- */

const char *colony_engine_name(colony_engine engine)
{
    static const char *const names[COLONY_ENGINES] = {"SQLite", "PostgreSQL", "DuckDB"};
    return names[engine];
}

/* The library is not beside the program while it is being developed: TIDEMARK_DUCKDB says where, for our processes too. */
static bool find_duckdb(void)
{
    char path[PATH_MAX];
    char candidate[PATH_MAX + 64];
    const char *wish = getenv("TIDEMARK_DUCKDB");
    if (wish && *wish)
        return true;
    proc_self_path(path);
    for (char *slash = strrchr(path, '/'); slash; slash = strrchr(path, '/')) {
        *slash = '\0';
        (void)snprintf(candidate, sizeof candidate, "%s/deps/duckdb/libduckdb.so", path);
        if (access(candidate, R_OK) == 0)
            return setenv("TIDEMARK_DUCKDB", candidate, 1) == 0;
    }
    if (access("build/deps/duckdb/libduckdb.so", R_OK) == 0 && getcwd(path, sizeof path)) {
        (void)snprintf(candidate, sizeof candidate, "%s/build/deps/duckdb/libduckdb.so", path);
        return setenv("TIDEMARK_DUCKDB", candidate, 1) == 0;
    }
    return false;
}

static void add(command *c, const char *word)
{
    if (c->count + 1 >= ARGS)
        bench_die("too many arguments");
    c->argv[c->count++] = word;
}

static void begin_command(command *c, const char *verb)
{
    tide_error err;
    *c = (command){.count = 0};
    bench_must(proc_find("tidemark", c->program, &err), &err, "tidemark");
    add(c, c->program);
    add(c, "colony");
    if (*verb)
        add(c, verb);
}

static void add_agents(command *c, const running_agent *agents, int count)
{
    if (count > COLONY_AGENTS_MAX)
        bench_die("%d agents, at most %d", count, COLONY_AGENTS_MAX);
    for (int i = 0; i < count; i++) {
        (void)snprintf(c->agents[i], sizeof c->agents[i], "a%d=%s", i, agents[i].grpc);
        add(c, "--agent");
        add(c, c->agents[i]);
    }
}

static void run_once(const colony_place *place, const running_agent *agents, int count,
                     int64_t timeout_ms)
{
    static command c;
    tide_error err = {.status = TIDE_OK};
    proc_result result;
    begin_command(&c, "poll");
    add(&c, "--once");
    add(&c, "--store");
    add(&c, place->url);
    add_agents(&c, agents, count);
    bench_must(proc_run(&result, &(proc_options){.argv = c.argv}, timeout_ms, &err), &err,
               "tidemark colony poll --once");
    if (result.exit_code != 0)
        bench_die("tidemark colony poll --once: exit %d: %.*s%.*s", result.exit_code, LOG_MAX,
                  result.out, LOG_MAX, result.err);
    proc_result_done(&result);
}

/* ---- what was started ---- */

static running_agent *started;
static int started_count;
static running_agent *serving;

/* A benchmark that gives up leaves nobody behind. */
static void end_started(void)
{
    if (serving)
        running_agent_kill(serving);
    for (int i = 0; i < started_count; i++)
        running_agent_kill(&started[i]);
}

static void end_at_exit(void)
{
    static bool is_set;
    if (!is_set && atexit(end_started) != 0)
        bench_die("no room for what is to be done at the end");
    is_set = true;
}

/* ---- places ---- */

static bool make_url(colony_place *place)
{
    tide_error err = {.status = TIDE_OK};
    pg_cluster *cluster = NULL;
    if (place->engine == COLONY_POSTGRES) {
        const tide_status status = pg_cluster_shared(&cluster, &err);
        if (status == TIDE_E_NOT_FOUND)
            return false;
        bench_must(status, &err, "PostgreSQL");
        bench_must(pg_cluster_fresh_database(cluster, NULL, place->database, &err), &err,
                   "a database");
        pg_cluster_url(cluster, place->database, place->url);
        return true;
    }
    const bool is_duckdb = place->engine == COLONY_DUCKDB;
    if (is_duckdb && !find_duckdb())
        return false;
    tempdir_join(&place->dir, is_duckdb ? "colony.duckdb" : "colony.db", place->path);
    (void)snprintf(place->url, sizeof place->url, "%s:%s", is_duckdb ? "duckdb" : "sqlite",
                   place->path);
    return true;
}

bool colony_place_open(colony_place *place, colony_engine engine)
{
    tide_error err;
    *place = (colony_place){.engine = engine};
    bench_must(tempdir_make(&place->dir, &err), &err, "a directory");
    if (!make_url(place)) {
        (void)printf("there is no %s here\n", colony_engine_name(engine));
        TIDE_IGNORE(tempdir_remove(&place->dir, &err));
        return false;
    }
    run_once(place, NULL, 0, PREPARE_MS); /* makes the tables */
    return true;
}

void colony_place_close(colony_place *place)
{
    tide_error err;
    pg_cluster *cluster = NULL;
    if (place->engine == COLONY_POSTGRES) {
        bench_must(pg_cluster_shared(&cluster, &err), &err, "PostgreSQL");
        bench_must(pg_cluster_drop_database(cluster, place->database, &err), &err,
                   "dropping a database");
    }
    TIDE_IGNORE(tempdir_remove(&place->dir, &err));
}

double colony_place_poll(const colony_place *place, const running_agent *agents, int count)
{
    const int64_t started_us = bench_now_us();
    run_once(place, agents, count, POLL_MS);
    return (double)(bench_now_us() - started_us) / 1e6;
}

/* Its ready line is "ready http=HOST:PORT". */
static void read_ready(running_agent *colony)
{
    char line[256] = "";
    size_t len = 0;
    while (len + 1 < sizeof line && read(colony->process.out_fd, line + len, 1) == 1 &&
           line[len] != '\n')
        len++;
    line[len] = '\0';
    const char *at = strstr(line, "http=");
    if (strncmp(line, "ready ", 6) != 0 || !at)
        bench_die("tidemark colony says '%s'", line);
    (void)snprintf(colony->http, sizeof colony->http, "%.*s", (int)strcspn(at + 5, " "), at + 5);
    (void)snprintf(colony->grpc, sizeof colony->grpc, "%s", colony->http);
}

void colony_place_serve(const colony_place *place, const running_agent *agents, int count,
                        const char *file, running_agent *colony)
{
    static command c;
    tide_error err = {.status = TIDE_OK};
    *colony = (running_agent){.process = {.in_fd = -1, .out_fd = -1, .err_fd = -1}};
    begin_command(&c, "");
    add(&c, "--store");
    add(&c, place->url);
    add(&c, "--http");
    add(&c, "127.0.0.1:0");
    add(&c, "--log-level");
    add(&c, "error");
    if (file) {
        add(&c, "--agents");
        add(&c, file);
    }
    add_agents(&c, agents, count);
    bench_must(
        proc_start(&colony->process, &(proc_options){.argv = c.argv, .out = PROC_PIPE}, &err), &err,
        "tidemark colony");
    end_at_exit();
    serving = colony;
    read_ready(colony);
}

void colony_place_stop(running_agent *colony)
{
    tide_error err = {.status = TIDE_OK};
    bench_must(running_agent_stop(colony, &err), &err, "stopping the colony");
    serving = NULL;
}

int64_t colony_ask(tide_client *client, const char *sql)
{
    Tidemark__Colony__V1__QueryRequest request = TIDEMARK__COLONY__V1__QUERY_REQUEST__INIT;
    char text[512];
    uint8_t bytes[sizeof text + 64];
    tide_error err = {.status = TIDE_OK};
    tide_client_response reply;
    (void)snprintf(text, sizeof text, "%s", sql);
    request.sql = text;
    const size_t len = tidemark__colony__v1__query_request__pack(&request, bytes);
    tide_client_response_init(&reply);
    const tide_client_request call = {.path = "/tidemark.colony.v1.ColonyService/Query",
                                      .message = tide_view_bytes(bytes, len)};
    bench_must(tide_client_call(client, &call, &reply, &err), &err, sql);
    Tidemark__Colony__V1__QueryResponse *answer = tidemark__colony__v1__query_response__unpack(
        NULL, reply.message.len, (const uint8_t *)reply.message.ptr);
    if (!answer || answer->n_rows != 1 || answer->rows[0]->n_cells != 1)
        bench_die("%s: not one value", sql);
    const Tidemark__Colony__V1__Cell *cell = answer->rows[0]->cells[0];
    const int64_t value =
        cell->value_case == TIDEMARK__COLONY__V1__CELL__VALUE_WHOLE ? cell->whole : 0;
    tidemark__colony__v1__query_response__free_unpacked(answer, NULL);
    tide_client_response_done(&reply);
    return value;
}

/* ---- agents ---- */

/* A thousand spans per second and commit, as time goes on. */
static void fill_feed(const char *path, int64_t spans)
{
    tide_error err = {.status = TIDE_OK};
    tide_store *store = NULL;
    tide_feed *feed = NULL;
    int64_t next_us = 0;
    bench_must(tide_store_open(
                   &store, path,
                   &(tide_store_options){TIDE_STORE_OPTIONS_INIT, .mode = TIDE_STORE_CREATE}, &err),
               &err, path);
    bench_must(tide_feed_open(&feed, store, NULL, &err), &err, "feed");
    for (int64_t i = 0; i < spans; i += BATCH) {
        feed_load load;
        feed_load_init_at(&load, BATCH, COLONY_SERVICES, 1, (uint64_t)i, FEED_LOAD_START_MS + i);
        tide_feed_records records = tide_record_batch_feed(&load.batch, NULL);
        bench_must(tide_feed_commit(feed, &records, 1, &err), &err, "commit");
        if (i % (STEP_EVERY * BATCH) == 0)
            bench_must(tide_feed_step(feed, &next_us, &err), &err, "step");
        feed_load_done(&load);
    }
    tide_feed_close(feed);
    tide_store_close(store);
}

void colony_agents_start(running_agent *agents, int count, const tempdir *dir, const char *name,
                         int64_t spans)
{
    static const char *const more[] = {"--log-level", "error", NULL};
    end_at_exit();
    started = agents;
    for (int i = 0; i < count; i++) {
        char file[64];
        char path[TEMPDIR_PATH_MAX];
        tide_error err = {.status = TIDE_OK};
        (void)snprintf(file, sizeof file, "%s%d.db", name, i);
        tempdir_join(dir, file, path);
        fill_feed(path, spans);
        bench_must(running_agent_start(&agents[i], "agent", path, more, &err), &err,
                   "tidemark agent");
        started_count = i + 1;
    }
}

void colony_agents_stop(running_agent *agents, int count)
{
    for (int i = 0; i < count; i++) {
        tide_error err = {.status = TIDE_OK};
        bench_must(running_agent_stop(&agents[i], &err), &err, "stopping an agent");
    }
    started_count = 0;
}
