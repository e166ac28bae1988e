/* SQL of callers on real daemons: what it costs is one failed query, and never the daemon. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "services/agent/running_agent.h"
#include "support/check.h"
#include "support/tempdir.h"

#define COLONY_QUERY "/tidemark.colony.v1.ColonyService/Query"
#define LAKE "/tidemark.lake.v1.LakeService/"
#define ENDLESS                                                                                    \
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM r) SELECT count(*) FROM r"
/* One step of DuckDB, which no interruption ends; some minutes. */
#define ONE_STEP "levenshtein(repeat('a', 200000), repeat('b', 200000))"

enum { LIMIT_MS = 120000, CLIENTS_MAX = 4, PIDS_MAX = 16 };

typedef struct queries_case {
    tempdir dir;
    char store[TEMPDIR_PATH_MAX];
    char data[TEMPDIR_PATH_MAX];
    running_agent daemon;
    proc clients[CLIENTS_MAX];
    int client_count;
    tide_error err;
} queries_case;

static int set_up(void **state)
{
    queries_case *c = calloc(1, sizeof *c);
    assert_non_null(c);
    assert_ok_err(tempdir_make(&c->dir, &c->err), &c->err);
    tempdir_join(&c->dir, "store.db", c->store);
    tempdir_join(&c->dir, "data", c->data);
    *state = c;
    return 0;
}

static int tear_down(void **state)
{
    queries_case *c = *state;
    while (c->client_count > 0)
        proc_done(&c->clients[--c->client_count]);
    running_agent_kill(&c->daemon);
    assert_ok_err(tempdir_remove(&c->dir, &c->err), &c->err);
    free(c);
    return 0;
}

static void start_colony(queries_case *c, const char *const *more)
{
    assert_ok_err(running_agent_start(&c->daemon, "colony", c->store, more, &c->err), &c->err);
}

static void start_lake(queries_case *c)
{
    const char *const more[] = {"serve", "--data", c->data, NULL};
    assert_ok_err(running_agent_start(&c->daemon, "lake", c->store, more, &c->err), &c->err);
}

/* ---- calls ---- */

/* The HTTP code; the body in out. */
static int call(queries_case *c, const char *path, const char *body, tide_buffer *out)
{
    char url[256];
    (void)snprintf(url, sizeof url, "http://%s%s", c->daemon.http, path);
    const char *argv[] = {
        "curl", "-sS", "-w", "\n%{http_code}", "-H", "content-type: application/json", url,
        "-d",   body,  NULL};
    TIDE_CLEANUP(proc_result_done) proc_result result = {0};
    assert_ok_err(proc_run(&result, &(proc_options){.argv = argv}, LIMIT_MS, &c->err), &c->err);
    if (result.exit_code != 0)
        fail_msg("curl ended with %d: %s", result.exit_code, result.err);
    char *line = strrchr(result.out, '\n');
    assert_non_null(line);
    const int code = (int)assert_number(line + 1);
    *line = '\0';
    print_message("%s: %d %s\n", body, code, result.out);
    tide_buffer_clear(out);
    assert_ok(tide_buffer_append_text(out, result.out));
    return code;
}

static void check_call(queries_case *c, const char *path, const char *body, int code,
                       const char *text)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out = tide_buffer_of(1 << 20);
    assert_int_equal(code, call(c, path, body, &out));
    assert_contains(tide_buffer_text(&out), text);
}

static void name_response(const queries_case *c, int client, char out[TEMPDIR_PATH_MAX])
{
    char name[32];
    (void)snprintf(name, sizeof name, "response-%d", client);
    tempdir_join(&c->dir, name, out);
}

/* A caller that waits for its answer, until it is stopped. */
static proc *call_aside(queries_case *c, const char *path, const char *body)
{
    char url[256];
    (void)snprintf(url, sizeof url, "http://%s%s", c->daemon.http, path);
    const char *argv[] = {
        "curl", "-sS", "-w", "\n%{http_code}", "-H", "content-type: application/json", url,
        "-d",   body,  NULL};
    char response[TEMPDIR_PATH_MAX];
    name_response(c, c->client_count, response);
    assert_true(c->client_count < CLIENTS_MAX);
    proc *client = &c->clients[c->client_count++];
    assert_ok_err(proc_start(client,
                             &(proc_options){.argv = argv, .out = PROC_FILE, .out_path = response},
                             &c->err),
                  &c->err);
    return client;
}

static int64_t metric(const queries_case *c, const char *name)
{
    TIDE_CLEANUP(tide_freep) char *text = running_agent_get(&c->daemon, "/metrics");
    const char *at = text ? strstr(text, name) : NULL;
    return at ? strtoll(at + strlen(name), NULL, 10) : 0;
}

static void wait_for_metric(const queries_case *c, const char *name, int64_t value)
{
    const int64_t until_ms = proc_now_ms() + LIMIT_MS;
    while (metric(c, name) < value) {
        if (proc_now_ms() >= until_ms)
            fail_msg("%s stays below %lld", name, (long long)value);
        (void)usleep(20000);
    }
}

#define KILLED(reason) "tidemark_queries_killed_total{reason=\"" reason "\"} "

/* ---- query processes ---- */

enum { STATE_LEN = sizeof ") S " - 1 }; /* between a process's name and its parent, in its stat */

static pid_t parent_of(const char *pid)
{
    char path[64];
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(4096);
    (void)snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    if (tide_file_read(&text, path, NULL) < TIDE_OK)
        return 0;
    const char *at = strrchr(tide_buffer_text(&text), ')');
    return at && strlen(at) > STATE_LEN ? (pid_t)strtol(at + STATE_LEN, NULL, 10) : 0;
}

static int list_processes(const queries_case *c, pid_t pids[PIDS_MAX])
{
    int count = 0;
    DIR *dir = opendir("/proc");
    assert_non_null(dir);
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9' || count == PIDS_MAX)
            continue;
        if (parent_of(entry->d_name) == c->daemon.process.pid)
            pids[count++] = (pid_t)strtol(entry->d_name, NULL, 10);
    }
    (void)closedir(dir);
    return count;
}

enum { USED_FIELD = 12 }; /* CPU time in user mode, counted from a process's name in its stat */

/* Hundredths of a second of processor time; 0: the process is gone. */
static unsigned long used_by(pid_t pid)
{
    char path[64];
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(4096);
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (tide_file_read(&text, path, NULL) < TIDE_OK)
        return 0;
    const char *at = strrchr(tide_buffer_text(&text), ')');
    for (int field = 0; at && field < USED_FIELD; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoul(at, NULL, 10) : 0;
}

/* Does a query run in it? It uses CPU time then. */
static void wait_for_work(const queries_case *c, int processes)
{
    const int64_t until_ms = proc_now_ms() + LIMIT_MS;
    for (int busy = 0; busy < processes;) {
        pid_t pids[PIDS_MAX];
        const int count = list_processes(c, pids);
        busy = 0;
        for (int i = 0; i < count; i++)
            busy += used_by(pids[i]) >= 50; /* more than a start takes */
        if (proc_now_ms() >= until_ms)
            fail_msg("%d of %d queries run", busy, processes);
        (void)usleep(20000);
    }
}

static void wait_until_gone(pid_t pid)
{
    const int64_t until_ms = proc_now_ms() + LIMIT_MS;
    while (!proc_is_gone(pid)) {
        if (proc_now_ms() >= until_ms)
            fail_msg("process %d still runs", (int)pid);
        (void)usleep(20000);
    }
}

/* ---- limits ---- */

/* Limit query_us. */
static void a_query_ends_at_its_time(void **state)
{
    queries_case *c = *state;
    start_colony(c, NULL);
    check_call(c, COLONY_QUERY, "{\"sql\":\"" ENDLESS "\",\"timeout_ms\":300}", 504, "\"code\":4");
    assert_int_equal(1, metric(c, KILLED("time")));
    check_call(c, COLONY_QUERY, "{\"sql\":\"SELECT 41+1\"}", 200, "[[42]]");
}

static void more_time_than_the_limit_is_refused(void **state)
{
    queries_case *c = *state;
    start_colony(c, (const char *[]){"--net-limit", "query_us=2s", NULL});
    check_call(c, COLONY_QUERY, "{\"sql\":\"SELECT 1\",\"timeout_ms\":1000000000000}", 400,
               "want 1 to 2000 (limit query_us)");
    check_call(c, COLONY_QUERY, "{\"sql\":\"SELECT 1\",\"timeout_ms\":2001}", 400, "query_us");
    check_call(c, COLONY_QUERY, "{\"sql\":\"SELECT 1\",\"timeout_ms\":-1}", 400, "query_us");
    check_call(c, COLONY_QUERY, "{\"sql\":\"" ENDLESS "\"}", 504, "\"code\":4");
}

/* Limit query_memory_len. */
static void a_query_over_its_memory_is_refused(void **state)
{
    queries_case *c = *state;
    start_colony(c, (const char *[]){"--net-limit", "query_memory_len=32MiB", NULL});
    check_call(
        c, COLONY_QUERY,
        "{\"sql\":\"WITH RECURSIVE r(n,b) AS (SELECT 1, randomblob(1000000) UNION ALL SELECT "
        "n+1, randomblob(1000000) FROM r LIMIT 1000) SELECT max(length(b)) FROM (SELECT b "
        "FROM r ORDER BY b)\"}",
        413, "needs more than 32 MiB of memory (limit query_memory_len)");
    assert_int_equal(1, metric(c, KILLED("memory")));
    check_call(c, COLONY_QUERY, "{\"sql\":\"SELECT 41+1\"}", 200, "[[42]]");
}

/* What was handed over before the memory ran out is not taken for a whole response, or for a cut one. */
static void rows_before_the_end_of_memory_are_no_response(void **state)
{
    queries_case *c = *state;
    start_colony(c, (const char *[]){"--net-limit", "query_memory_len=32MiB", NULL});
    check_call(c, COLONY_QUERY,
               "{\"sql\":\"SELECT 1 UNION ALL SELECT max(length(b)) FROM (WITH RECURSIVE r(n,b) AS "
               "(SELECT 1, randomblob(1000000) UNION ALL SELECT n+1, randomblob(1000000) FROM r "
               "LIMIT 1000) SELECT b FROM r ORDER BY b)\"}",
               413, "\"code\":8");
}

/* Limit query_queue. */
static void a_caller_has_half_of_the_queue(void **state)
{
    queries_case *c = *state;
    start_colony(c, (const char *[]){"--net-limit", "query_processes=1", "--net-limit",
                                     "query_queue=2", NULL});
    (void)call_aside(c, COLONY_QUERY, "{\"sql\":\"" ENDLESS "\"}");
    wait_for_work(c, 1);
    /* Of two more one waits, whichever arrives first. */
    const proc *const two[] = {call_aside(c, COLONY_QUERY, "{\"sql\":\"" ENDLESS "\"}"),
                               call_aside(c, COLONY_QUERY, "{\"sql\":\"" ENDLESS "\"}")};
    const int64_t until_ms = proc_now_ms() + LIMIT_MS;
    int refused = -1;
    while (refused < 0 && proc_now_ms() < until_ms) {
        for (int i = 0; i < 2; i++)
            if (proc_poll(&c->clients[i + 1]))
                refused = i;
        (void)usleep(20000);
    }
    assert_true(refused >= 0);
    assert_true(two[1 - refused]->pid > 0); /* the other still waits */
    char path[TEMPDIR_PATH_MAX];
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out = tide_buffer_of(1 << 20);
    name_response(c, refused + 1, path);
    assert_ok_err(tide_file_read(&out, path, &c->err), &c->err);
    assert_contains(tide_buffer_text(&out), "\"code\":8");
    assert_contains(tide_buffer_text(&out), "half of it is of this caller");
    assert_contains(tide_buffer_text(&out), "\n503");
    /* nothing else waits */
    check_call(c, "/tidemark.colony.v1.ColonyService/ListAgents", "{}", 200, "agents");
    assert_int_equal(200, running_agent_http(&c->daemon, "/readyz", NULL));
}

/* Limit query_processes: the queries beyond it wait, and nothing else does. */
static void other_calls_do_not_wait_for_queries(void **state)
{
    queries_case *c = *state;
    start_colony(c, (const char *[]){"--net-limit", "workers=1", NULL});
    for (int i = 0; i < CLIENTS_MAX; i++)
        (void)call_aside(c, COLONY_QUERY, "{\"sql\":\"" ENDLESS "\"}");
    wait_for_work(c, 2);
    check_call(c, "/tidemark.colony.v1.ColonyService/ListAgents", "{}", 200, "agents");
    pid_t pids[PIDS_MAX];
    assert_int_equal(2, list_processes(c, pids)); /* they still run */
}

/* ---- ends ---- */

static void a_query_whose_caller_leaves_is_killed(void **state)
{
    queries_case *c = *state;
    pid_t pids[PIDS_MAX];
    start_colony(c, NULL);
    proc *caller = call_aside(c, COLONY_QUERY, "{\"sql\":\"" ENDLESS "\"}");
    wait_for_work(c, 1);
    assert_int_equal(1, list_processes(c, pids));
    assert_ok_err(proc_kill(caller, SIGKILL, &c->err), &c->err);
    wait_for_metric(c, KILLED("caller"), 1);
    wait_until_gone(pids[0]);
}

static void a_crash_is_one_failed_query(void **state)
{
    queries_case *c = *state;
    pid_t pids[PIDS_MAX];
    start_colony(c, NULL);
    (void)call_aside(c, COLONY_QUERY, "{\"sql\":\"" ENDLESS "\"}");
    wait_for_work(c, 1);
    assert_int_equal(1, list_processes(c, pids));
    assert_int_equal(0, kill(pids[0], SIGSEGV));
    wait_for_metric(c, KILLED("crash"), 1);
    check_call(c, COLONY_QUERY, "{\"sql\":\"SELECT 41+1\"}", 200, "[[42]]");
    /* one that waits for its next query */
    assert_int_equal(1, list_processes(c, pids));
    assert_int_equal(0, kill(pids[0], SIGKILL));
    wait_until_gone(pids[0]);
    check_call(c, COLONY_QUERY, "{\"sql\":\"SELECT 41+1\"}", 200, "[[42]]");
}

/* As a package does it, which may restart the daemon later. */
static void a_daemon_whose_program_was_replaced_runs_queries(void **state)
{
    queries_case *c = *state;
    char given[PATH_MAX];
    char program[TEMPDIR_PATH_MAX];
    assert_ok_err(proc_find("tidemark", given, &c->err), &c->err);
    tempdir_join(&c->dir, "tidemark", program);
    const char *const argv[] = {"cp", given, program, NULL};
    TIDE_CLEANUP(proc_result_done) proc_result copied = {0};
    assert_ok_err(proc_run(&copied, &(proc_options){.argv = argv}, LIMIT_MS, &c->err), &c->err);
    assert_int_equal(0, copied.exit_code);
    assert_int_equal(0, setenv("TIDEMARK_BIN", program, 1));
    start_colony(c, NULL);
    assert_int_equal(0, unsetenv("TIDEMARK_BIN"));
    assert_int_equal(0, unlink(program));
    check_call(c, COLONY_QUERY, "{\"sql\":\"SELECT 41+1\"}", 200, "[[42]]");
    assert_int_equal(0, symlink("/bin/false", program));
    pid_t pids[PIDS_MAX];
    assert_int_equal(1, list_processes(c, pids));
    assert_int_equal(0, kill(pids[0], SIGKILL));
    wait_until_gone(pids[0]);
    check_call(c, COLONY_QUERY, "{\"sql\":\"SELECT 41+1\"}", 200, "[[42]]");
}

static void sigterm_ends_the_daemon_whatever_runs(void **state)
{
    queries_case *c = *state;
    start_colony(c, (const char *[]){"--drain", "1s", NULL});
    (void)call_aside(c, COLONY_QUERY, "{\"sql\":\"" ENDLESS "\"}");
    (void)call_aside(c, COLONY_QUERY, "{\"sql\":\"" ENDLESS "\"}");
    wait_for_work(c, 2);
    pid_t pids[PIDS_MAX];
    const int count = list_processes(c, pids);
    const int64_t before_ms = proc_now_ms();
    assert_ok_err(proc_kill(&c->daemon.process, SIGTERM, &c->err), &c->err);
    assert_ok_err(proc_wait(&c->daemon.process, LIMIT_MS, &c->err), &c->err);
    assert_in_range(proc_now_ms() - before_ms, 0, 3000);
    for (int i = 0; i < count; i++)
        wait_until_gone(pids[i]);
}

static void query_processes_die_with_the_daemon(void **state)
{
    queries_case *c = *state;
    pid_t pids[PIDS_MAX];
    start_colony(c, NULL);
    (void)call_aside(c, COLONY_QUERY, "{\"sql\":\"" ENDLESS "\"}");
    wait_for_work(c, 1);
    assert_int_equal(1, list_processes(c, pids));
    running_agent_kill(&c->daemon);
    wait_until_gone(pids[0]);
}

/* ---- what a query process may do ---- */

/* Two pipes to the daemon, behind 2; 0 and 1 lead nowhere. The rest reads. */
static void check_descriptors(pid_t pid)
{
    char path[64];
    int pipes = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        char link[PATH_MAX] = "";
        char info[PATH_MAX];
        const long number = strtol(entry->d_name, NULL, 10);
        if (entry->d_name[0] == '.' || number == STDERR_FILENO)
            continue;
        (void)snprintf(info, sizeof info, "%s/%s", path, entry->d_name);
        assert_true(readlink(info, link, sizeof link - 1) > 0);
        if (number < STDERR_FILENO) {
            assert_string_equal(link, "/dev/null");
            continue;
        }
        assert_null(strstr(link, "socket:"));
        if (strstr(link, "pipe:")) {
            pipes++;
            continue;
        }
        (void)snprintf(info, sizeof info, "/proc/%d/fdinfo/%s", (int)pid, entry->d_name);
        TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(4096);
        assert_ok(tide_file_read(&text, info, NULL));
        static const char label[] = "flags:";
        const char *at = strstr(tide_buffer_text(&text), label);
        assert_non_null(at);
        const unsigned long flags = strtoul(at + sizeof label - 1, NULL, 8);
        print_message("%s %lo\n", link, flags);
        const size_t len = strlen(link);
        if (len < 4 || strcmp(link + len - 4, "-shm") != 0)
            assert_int_equal(0, flags & 3); /* read-only */
    }
    assert_int_equal(2, pipes);
    (void)closedir(dir);
}

static void a_query_process_is_confined(void **state)
{
    queries_case *c = *state;
    pid_t pids[PIDS_MAX];
    char path[64];
    start_colony(c, NULL);
    check_call(c, COLONY_QUERY, "{\"sql\":\"SELECT 41+1\"}", 200, "[[42]]");
    assert_int_equal(1, list_processes(c, pids));
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(1 << 16);
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pids[0]);
    assert_ok_err(tide_file_read(&text, path, &c->err), &c->err);
    assert_contains(tide_buffer_text(&text), "NoNewPrivs:\t1");
    static const char label[] = "SigBlk:";
    const char *mask = strstr(tide_buffer_text(&text), label);
    assert_non_null(mask);
    const unsigned long long blocked = strtoull(mask + sizeof label - 1, NULL, 16);
    assert_int_equal(0, blocked >> (SIGXCPU - 1) & 1); /* or the limit of CPU time ends nothing */
    assert_int_equal(1, blocked >> (SIGTERM - 1) & 1); /* systemd sends it to the whole unit */
    tide_buffer_clear(&text);
    (void)snprintf(path, sizeof path, "/proc/%d/limits", (int)pids[0]);
    assert_ok_err(tide_file_read(&text, path, &c->err), &c->err);
    assert_null(strstr(tide_buffer_text(&text), "Max address space         unlimited"));
    assert_null(strstr(tide_buffer_text(&text), "Max file size             unlimited"));
    assert_null(strstr(tide_buffer_text(&text), "Max cpu time              unlimited"));
    check_descriptors(pids[0]);
    check_call(c, COLONY_QUERY, "{\"sql\":\"DELETE FROM sequences\"}", 400, "only reads");
    check_call(c, COLONY_QUERY, "{\"sql\":\"ATTACH '/etc/passwd' AS x\"}", 400, "only reads");
    check_call(c, COLONY_QUERY, "{\"sql\":\"SELECT * FROM access_tokens\"}", 400, "prohibited");
}

/* ---- DuckDB ---- */

static void sql_on_a_duckdb_store_needs_trust(void **state)
{
    queries_case *c = *state;
    char url[TEMPDIR_PATH_MAX + 16];
    (void)snprintf(url, sizeof url, "duckdb:%s.duckdb", c->store);
    assert_ok_err(running_agent_start(&c->daemon, "colony", url, NULL, &c->err), &c->err);
    check_call(c, COLONY_QUERY, "{\"sql\":\"SELECT 41+1\"}", 403, "--trusted-sql");
    running_agent_kill(&c->daemon);
    assert_ok_err(running_agent_start(&c->daemon, "colony", url,
                                      (const char *[]){"--trusted-sql", NULL}, &c->err),
                  &c->err);
    check_call(c, COLONY_QUERY, "{\"sql\":\"SELECT 41+1\"}", 200, "[[42]]");
}

/* Nothing ends such a query between two steps: the daemon ends with it. */
static void sigterm_ends_a_daemon_with_a_trusted_query(void **state)
{
    queries_case *c = *state;
    char url[TEMPDIR_PATH_MAX + 16];
    (void)snprintf(url, sizeof url, "duckdb:%s.duckdb", c->store);
    assert_ok_err(running_agent_start(&c->daemon, "colony", url,
                                      (const char *[]){"--trusted-sql", "--drain", "1s", NULL},
                                      &c->err),
                  &c->err);
    const pid_t pid = c->daemon.process.pid;
    const unsigned long before = used_by(pid);
    (void)call_aside(c, COLONY_QUERY, "{\"sql\":\"SELECT " ONE_STEP "\"}");
    const int64_t until_ms = proc_now_ms() + LIMIT_MS;
    while (used_by(pid) < before + 50 && proc_now_ms() < until_ms)
        (void)usleep(20000);
    const int64_t before_ms = proc_now_ms();
    assert_ok_err(proc_kill(&c->daemon.process, SIGTERM, &c->err), &c->err);
    assert_ok_err(proc_wait(&c->daemon.process, LIMIT_MS, &c->err), &c->err);
    assert_in_range(proc_now_ms() - before_ms, 0, 3000);
}

static void make_table(queries_case *c)
{
    start_lake(c);
    check_call(c, LAKE "CreateCatalog", "{\"name\":\"k\"}", 200, "snapshot_id");
    check_call(c, LAKE "CreateTable",
               "{\"catalog\":\"k\",\"operation\":{\"schema\":\"main\",\"table\":\"t\",\"columns\":"
               "\"a BIGINT\"}}",
               200, "snapshot_id");
    check_call(c, LAKE "Append",
               "{\"catalog\":\"k\",\"operation\":{\"schema\":\"main\",\"table\":\"t\",\"text\":"
               "\"a\\n1\\n2\\n3\\n\"}}",
               200, "\"rows\":3");
}

static void a_lake_query_ends_at_its_time_and_memory(void **state)
{
    queries_case *c = *state;
    make_table(c);
    check_call(c, LAKE "Query", "{\"sql\":\"SELECT sum(a) FROM k.main.t\"}", 200, "[[6]]");
    check_call(c, LAKE "Query", "{\"sql\":\"SELECT " ONE_STEP "\",\"timeout_ms\":300}", 504,
               "\"code\":4");
    check_call(c, LAKE "Query", "{\"sql\":\"SELECT length(repeat('x', 1000000000))\"}", 413,
               "needs more than 512 MiB of memory");
    check_call(c, LAKE "Query", "{\"sql\":\"SELECT 1\",\"timeout_ms\":30001}", 400, "query_us");
    check_call(c, LAKE "Query", "{\"sql\":\"SELECT sum(a) FROM k.main.t\"}", 200, "[[6]]");
}

static void a_lake_query_reads_files_of_its_tables_alone(void **state)
{
    queries_case *c = *state;
    make_table(c);
    check_call(c, LAKE "Query", "{\"sql\":\"SELECT content FROM read_text('/etc/passwd')\"}", 403,
               "Permission");
    check_call(c, LAKE "Query", "{\"sql\":\"SELECT 1; SELECT 2\"}", 400, "statements");
    check_call(c, LAKE "Query", "{\"sql\":\"DROP TABLE t\"}", 403, "only statements that read");
}

/* Names are looked up while others are: each view asks for the names in it. */
static void a_lake_query_reads_views_of_views(void **state)
{
    queries_case *c = *state;
    make_table(c);
    check_call(c, LAKE "CreateView",
               "{\"catalog\":\"k\",\"operation\":{\"schema\":\"main\",\"view\":\"v\",\"sql\":"
               "\"SELECT a FROM t WHERE a > 1\"}}",
               200, "snapshot_id");
    check_call(c, LAKE "CreateView",
               "{\"catalog\":\"k\",\"operation\":{\"schema\":\"main\",\"view\":\"w\",\"sql\":"
               "\"SELECT v.a FROM v, t WHERE v.a = t.a\"}}",
               200, "snapshot_id");
    check_call(c, LAKE "Query",
               "{\"sql\":\"SELECT sum(w.a) FROM k.main.w, k.main.v WHERE w.a = v.a\"}", 200,
               "[[5]]");
}

/* DuckDB's log is of the instance: it would show texts of other callers, and write to stdout. */
static void a_lake_query_cannot_change_the_engine(void **state)
{
    queries_case *c = *state;
    static const char *const texts[] = {
        "FROM enable_logging()",
        "SELECT * FROM Enable_Logging(storage := 'stdout')",
        "WITH a AS (FROM \\\"enable_logging\\\"()) SELECT * FROM a",
        "SELECT write_log('x')",
        "SELECT list_transform([1], lambda x: write_log('x'))",
        "FROM query('FROM enable_logging()')",
        "EXPLAIN ANALYZE FROM enable_logging()",
        "SELECT (SELECT count(*) FROM system.main.enable_profiling())",
        "FROM enable_peg_parser()",
        "FROM checkpoint()",
    };
    make_table(c);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char body[256];
        (void)snprintf(body, sizeof body, "{\"sql\":\"%s\"}", texts[i]);
        check_call(c, LAKE "Query", body, 403, "() is refused");
    }
    check_call(c, LAKE "Query", "{\"sql\":\"SELECT 1 FROM duckdb_settings() LIMIT 1\"}", 200,
               "[[1]]");
}

/* What an engine prints is no part of an answer, nor of the next one. */
static void what_an_engine_prints_is_no_answer(void **state)
{
    queries_case *c = *state;
    make_table(c);
    check_call(c, LAKE "Delete",
               "{\"catalog\":\"k\",\"operation\":{\"schema\":\"main\",\"table\":\"t\",\"where\":"
               "\"a = 2 AND (SELECT count(*) FROM enable_logging(storage := 'stdout', level := "
               "'trace')) = 0 AND write_log('xxxxxxxxxxxxxxxx') IS NULL\"}}",
               200, "\"rows_deleted\":1");
    for (int i = 0; i < 4; i++)
        check_call(c, LAKE "Query", "{\"sql\":\"SELECT sum(a) FROM k.main.t\"}", 200, "[[4]]");
}

/* A condition of a delete is a text of a caller, too. */
static void a_condition_of_a_delete_can_be_killed(void **state)
{
    queries_case *c = *state;
    make_table(c);
    proc *caller = call_aside(c, LAKE "Delete",
                              "{\"catalog\":\"k\",\"operation\":{\"schema\":\"main\",\"table\":"
                              "\"t\",\"where\":\"a = " ONE_STEP "\"}}");
    wait_for_work(c, 1);
    assert_ok_err(proc_kill(caller, SIGKILL, &c->err), &c->err);
    wait_for_metric(c, KILLED("caller"), 1);
    check_call(c, LAKE "Delete",
               "{\"catalog\":\"k\",\"operation\":{\"schema\":\"main\",\"table\":\"t\",\"where\":"
               "\"a = 2\"}}",
               200, "\"rows_deleted\":1");
    check_call(c, LAKE "Query", "{\"sql\":\"SELECT sum(a) FROM k.main.t\"}", 200, "[[4]]");
}

#define QUERIES_CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        QUERIES_CASE(a_query_ends_at_its_time),
        QUERIES_CASE(more_time_than_the_limit_is_refused),
        QUERIES_CASE(a_query_over_its_memory_is_refused),
        QUERIES_CASE(rows_before_the_end_of_memory_are_no_response),
        QUERIES_CASE(a_caller_has_half_of_the_queue),
        QUERIES_CASE(other_calls_do_not_wait_for_queries),
        QUERIES_CASE(a_query_whose_caller_leaves_is_killed),
        QUERIES_CASE(a_crash_is_one_failed_query),
        QUERIES_CASE(a_daemon_whose_program_was_replaced_runs_queries),
        QUERIES_CASE(sigterm_ends_the_daemon_whatever_runs),
        QUERIES_CASE(query_processes_die_with_the_daemon),
        QUERIES_CASE(a_query_process_is_confined),
        QUERIES_CASE(sql_on_a_duckdb_store_needs_trust),
        QUERIES_CASE(sigterm_ends_a_daemon_with_a_trusted_query),
        QUERIES_CASE(a_lake_query_ends_at_its_time_and_memory),
        QUERIES_CASE(a_lake_query_reads_files_of_its_tables_alone),
        QUERIES_CASE(a_lake_query_reads_views_of_views),
        QUERIES_CASE(a_lake_query_cannot_change_the_engine),
        QUERIES_CASE(what_an_engine_prints_is_no_answer),
        QUERIES_CASE(a_condition_of_a_delete_can_be_killed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
