/* The fan-out of many writers on few catalogs, in processes that are killed: nothing is lost, nothing appears that nobody asked for, and the history is
 * sound. And the judge is shown to find what it is there for. */
#include "lake_fixture.h"
#include "lake_judge.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "bench/stress/stress.h"
#include "support/clock/fair_clock.h"
#include "support/process/proc.h"

enum { WAIT_MS = 120000 };

/* ---- whole runs ---- */

typedef struct stress_call {
    char program[PATH_MAX];
    char out[TEMPDIR_PATH_MAX]; /* what it printed */
    char told[TEMPDIR_PATH_MAX];
    proc child;
} stress_call;

static void start_stress(stress_call *call, const tempdir *dir, const char *url,
                         const char *writers, const char *catalogs, int fair_seconds)
{
    tide_error err;
    char seconds[32];
    (void)snprintf(seconds, sizeof seconds, "%" PRId64,
                   (fair_to_wall_ms(fair_seconds * 1000) + 999) / 1000);
    assert_ok_err(proc_find("tidemark", call->program, &err), &err);
    tempdir_join(dir, "stress.out", call->out);
    tempdir_join(dir, "stress.err", call->told);
    const char *const argv[] = {call->program, "lake",   "stress",     "--store", url,
                                "--writers",   writers,  "--catalogs", catalogs,  "--seconds",
                                seconds,       "--kill", "--json",     NULL};
    const proc_options options = {.argv = argv,
                                  .out = PROC_FILE,
                                  .out_path = call->out,
                                  .err = PROC_FILE,
                                  .err_path = call->told};
    assert_ok_err(proc_start(&call->child, &options, &err), &err);
}

static void read_text(const char *path, char *out, size_t size)
{
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    const size_t len = fread(out, 1, size - 1, in);
    out[len] = '\0';
    (void)fclose(in);
}

static int64_t member(const char *json, const char *name)
{
    char key[64];
    (void)snprintf(key, sizeof key, "\"%s\":", name);
    const char *at = strstr(json, key);
    if (!at)
        fail_msg("no %s in %s", name, json);
    return strtoll(at + strlen(key), NULL, 10);
}

/* Look at all snapshots while they grow. */
static void observe_until_ended(stress_call *call, const tempdir *dir, const char *url)
{
    int seen = 0;
    while (!proc_poll(&call->child)) {
        bool is_seen = false;
        lake_observe(dir, url, &is_seen);
        seen += is_seen;
    }
    assert_true(seen > 0);
}

static void end_stress(stress_call *call, int64_t commits_least, const tempdir *dir,
                       const char *url, const char *data)
{
    tide_error err;
    char json[8192];
    assert_ok_err(proc_wait(&call->child, WAIT_MS, &err), &err);
    if (call->child.exit_code != 0) {
        read_text(call->told, json, sizeof json);
        print_message("%s\n", json);
    }
    read_text(call->out, json, sizeof json);
    print_message("%s", json);
    assert_int_equal(0, call->child.exit_code);
    assert_true(member(json, "commits") >= commits_least);
    assert_true(member(json, "kills") > 0);
    assert_true(member(json, "observed") > 0);
    assert_int_equal(0, member(json, "duplicate_key"));
    assert_int_equal(0, member(json, "total"));
    assert_int_equal(0, member(json, "lost"));
    assert_int_equal(0, member(json, "phantoms"));
    assert_int_equal(0, member(json, "findings"));
    char logs[PATH_MAX];
    const char *prefix = strstr(json, "\"prefix\":\"");
    assert_non_null(prefix);
    prefix += strlen("\"prefix\":\"");
    (void)snprintf(logs, sizeof logs, "%s/%.*s-log", data, (int)strcspn(prefix, "\""), prefix);
    lake_judge(dir, url, logs);
    proc_done(&call->child);
}

static void killed_writers_lose_nothing(void **state)
{
    lake_case l = lake_case_open(state);
    stress_call call;
    char data[TEMPDIR_PATH_MAX];
    lake_data_dir(l.t, data);
    start_stress(&call, &l.t->dir, l.t->url, "12", "2", 4);
    observe_until_ended(&call, &l.t->dir, l.t->url);
    end_stress(&call, 20, &l.t->dir, l.t->url, data);
    lake_case_done(&l);
}

/* ---- and the server is killed ---- */

typedef struct commit_count {
    int64_t count;
} commit_count;

static tide_status count_commits(tide_tx *tx, void *arg, tide_error *err)
{
    static const tide_sql sql = {
        TIDE_SQL_INIT,
        .name = "count_commits",
        .engine = {{.text = "SELECT count(*) FROM lake_commit"},
                   {.text = "SELECT count(*) FROM lake_commit"}},
    };
    commit_count *count = arg;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, &sql, err));
    TIDE_TRY(tide_query_one(query, err));
    count->count = tide_query_col_i64(query);
    return TIDE_OK;
}

static void wait_for_commits(tide_store *store, int64_t more)
{
    tide_error err;
    commit_count now = {0};
    commit_count first = {-1};
    const int64_t until_ms = proc_now_ms() + 60000;
    while (proc_now_ms() < until_ms) {
        if (tide_store_read(store, count_commits, &now, &err) == TIDE_OK) {
            if (first.count < 0)
                first = now;
            if (now.count >= first.count + more)
                return;
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    fail_msg("no %" PRId64 " commits in a minute", more);
}

static void a_killed_server_loses_nothing(void **state)
{
    (void)state;
    static pg_cluster cluster;
    tide_error err;
    tempdir dir;
    char name[PG_CLUSTER_NAME_MAX];
    char url[PG_CLUSTER_URL_MAX];
    char data[TEMPDIR_PATH_MAX];
    assert_ok_err(tempdir_make(&dir, &err), &err);
    static const char *const settings[] = {"max_connections=400", NULL};
    const pg_cluster_options options = {.settings = settings};
    assert_ok_err(pg_cluster_start(&cluster, &options, &err), &err);
    assert_ok_err(pg_cluster_fresh_database(&cluster, NULL, name, &err), &err);
    pg_cluster_url(&cluster, name, url);
    tempdir_join(&dir, "data", data);
    tide_store *store = NULL;
    assert_ok_err(tide_store_open(&store, url, NULL, &err), &err);
    assert_ok_err(tide_lake_init(store, data, NULL, &err), &err);
    stress_call call;
    start_stress(&call, &dir, url, is_soak() ? "64" : "16", "2", 10);
    for (int i = 0; i < 2; i++) {
        wait_for_commits(store, 100);
        assert_ok_err(pg_cluster_crash(&cluster, &err), &err);
        assert_ok_err(pg_cluster_restart(&cluster, &err), &err);
    }
    bool is_seen = false;
    lake_observe(&dir, url, &is_seen);
    end_stress(&call, 150, &dir, url, data);
    tide_store_close(store);
    pg_cluster_stop(&cluster);
    TIDE_IGNORE(tempdir_remove(&dir, &err));
}

/* ---- the judge ---- */

typedef struct verdict {
    int lost;
    int phantoms;
} verdict;

static void count_finding(void *arg, const tide_lake_finding *finding)
{
    verdict *v = arg;
    v->lost += strcmp(finding->rule, "lost") == 0;
    v->phantoms += strcmp(finding->rule, "phantom") == 0;
}

/* A run of one catalog with one more commit, under this key (NULL: none); and a log. */
static verdict judge(lake_case *l, const char *key, const char *log_text)
{
    char seed[TEMPDIR_PATH_MAX];
    char log[TEMPDIR_PATH_MAX];
    tempdir_join(&l->t->dir, "seed.parquet", seed);
    tempdir_join(&l->t->dir, "writer.log", log);
    const tide_stress run = {.prefix = "run", .catalogs = 1, .seed_file = seed, .log = log};
    assert_ok_err(tide_stress_prepare(l->lake, &run, &l->err), &l->err);
    if (key) {
        const tide_lake_commit_options options = {.request_key = key,
                                                  .request_hash = tide_view_of(key)};
        tide_lake_committed committed;
        TIDE_CLEANUP(tide_lake_drop_changep) tide_lake_change *change = lake_begin(l, "run-c0");
        assert_ok_err(tide_lake_create_schema(change, "s", &l->err), &l->err);
        assert_ok_err(tide_lake_commit(change, &options, &committed, &l->err), &l->err);
        assert_int_equal(3, committed.snapshot_id);
    }
    FILE *out = fopen(log, "w");
    assert_non_null(out);
    assert_true(fputs(log_text, out) >= 0);
    assert_int_equal(0, fclose(out));
    verdict v = {0};
    tide_stress_report report;
    const char *const logs[] = {log};
    const tide_status status =
        tide_stress_judge(l->lake, &run, logs, 1, count_finding, &v, &report, &l->err);
    assert_int_equal(v.lost + v.phantoms > 0 ? TIDE_E_DAMAGED : TIDE_OK, status);
    assert_int_equal(v.lost, report.lost);
    assert_int_equal(v.phantoms, report.phantoms);
    return v;
}

static void judge_case(void **state, const char *key, const char *log, int lost, int phantoms)
{
    lake_case l = lake_case_open(state);
    const verdict v = judge(&l, key, log);
    assert_int_equal(lost, v.lost);
    assert_int_equal(phantoms, v.phantoms);
    lake_case_done(&l);
}

static void what_was_acknowledged_and_is_there_is_fine(void **state)
{
    judge_case(state, "run-0-0-1", "I run-0-0-1 4 run-c0 s\nA run-0-0-1 1 3 1\n", 0, 0);
}

static void what_was_never_answered_may_be_there(void **state)
{
    judge_case(state, "run-0-0-1", "I run-0-0-1 4 run-c0 s\n", 0, 0);
}

static void an_acknowledged_commit_that_is_not_there_is_lost(void **state)
{
    judge_case(state, NULL, "I run-0-0-1 4 run-c0 s\nA run-0-0-1 1 3 1\n", 1, 0);
}

static void an_acknowledged_commit_with_another_snapshot_is_lost(void **state)
{
    judge_case(state, "run-0-0-1", "I run-0-0-1 4 run-c0 s\nA run-0-0-1 1 9 1\n", 1, 0);
}

static void a_commit_that_was_refused_is_a_phantom(void **state)
{
    judge_case(state, "run-0-0-1", "I run-0-0-1 4 run-c0 s\nR run-0-0-1 -5 conflict\n", 0, 1);
}

static void a_commit_that_nobody_asked_for_is_a_phantom(void **state)
{
    judge_case(state, "run-0-0-1", "", 0, 1);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE_SQLITE(what_was_acknowledged_and_is_there_is_fine),
        STORE_CASE_SQLITE(what_was_never_answered_may_be_there),
        STORE_CASE_SQLITE(an_acknowledged_commit_that_is_not_there_is_lost),
        STORE_CASE_SQLITE(an_acknowledged_commit_with_another_snapshot_is_lost),
        STORE_CASE_SQLITE(a_commit_that_was_refused_is_a_phantom),
        STORE_CASE_SQLITE(a_commit_that_nobody_asked_for_is_a_phantom),
        STORE_CASE(killed_writers_lose_nothing),
        cmocka_unit_test(a_killed_server_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
