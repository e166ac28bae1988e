/* A lost answer loses nothing: every verb that writes, on PostgreSQL behind a proxy that cuts at every message, in both directions, one connection or all of them.
 *
 * Each round is a request of its own. Whatever it returns, repeating it under its key has one answer, its rows are there once, and the files of its rows are on the disk. */
#include "lake_fixture.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "lake/compact.h"
#include "lake/data.h"
#include "lake/expire.h"
#include "lake/work.h"
#include "support/postgres/pg_proxy.h"
#include "support/prng.h"

enum { ROUNDS_MAX = 400, TIMEOUT_US = 20000000 };

static pg_cluster cluster; /* of all cases */

typedef struct cut_case {
    pg_proxy *proxy;
    tempdir dir;
    char data_dir[TEMPDIR_PATH_MAX];
    tide_store *direct; /* beside the proxy */
    tide_store *store;  /* through it */
    tide_lake *lake;
    tide_lake_data *data;
    lake_case beside;
    int rounds;
    int cuts;
    int unknown;
    int failed;
    tide_error err;
} cut_case;

static tide_store *open_store(cut_case *c, int port, const char *name)
{
    char url[256];
    tide_store *store = NULL;
    (void)snprintf(url, sizeof url,
                   "postgres://postgres@127.0.0.1:%d/%s?sslmode=disable&gssencmode=disable", port,
                   name);
    const tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .timeout_us = TIMEOUT_US,
                                        .state_dir = ""};
    assert_ok_err(tide_store_open(&store, url, &options, &c->err), &c->err);
    return store;
}

static void open_case(cut_case *c)
{
    char name[PG_CLUSTER_NAME_MAX];
    memset(c, 0, sizeof *c);
    assert_ok_err(tempdir_make(&c->dir, &c->err), &c->err);
    assert_ok_err(pg_cluster_fresh_database(&cluster, NULL, name, &c->err), &c->err);
    tempdir_join(&c->dir, "data", c->data_dir);
    c->proxy = pg_proxy_open(cluster.port);
    c->direct = open_store(c, cluster.port, name);
    assert_ok_err(tide_lake_init(c->direct, c->data_dir, NULL, &c->err), &c->err);
    assert_ok_err(tide_lake_open(&c->beside.lake, c->direct, &c->err), &c->err);
    lake_catalog(&c->beside, "work");
    lake_table(&c->beside, "work", "main", "t");
    c->store = open_store(c, pg_proxy_port(c->proxy), name);
    assert_ok_err(tide_lake_open(&c->lake, c->store, &c->err), &c->err);
    const tide_lake_data_options data_options = {.threads = 1};
    assert_ok_err(
        tide_lake_data_open(&c->data, tide_lake_data_dir(c->lake), &data_options, &c->err),
        &c->err);
}

static void close_case(cut_case *c)
{
    lake_assert_sound(&c->beside);
    print_message("%d rounds, %d cuts, %d unknown outcomes, %d failures before the commit\n",
                  c->rounds, c->cuts, c->unknown, c->failed);
    tide_lake_data_close(c->data);
    tide_lake_closep(&c->lake);
    tide_lake_closep(&c->beside.lake);
    tide_store_close(c->store);
    tide_store_close(c->direct);
    pg_proxy_close(c->proxy);
    TIDE_IGNORE(tempdir_remove(&c->dir, NULL));
}

/* ---- answers of DuckDB, beside the proxy ---- */

static tide_status skip_columns(void *arg, const char *const *names, int count, tide_error *err)
{
    (void)arg, (void)names, (void)count, (void)err;
    return TIDE_OK;
}

static tide_status keep_number(void *arg, const tide_sql_value *cells, int count, tide_error *err)
{
    (void)count, (void)err;
    *(int64_t *)arg = cells[0].i64;
    return TIDE_OK;
}

static int64_t ask_number(cut_case *c, const char *text)
{
    int64_t number = -1;
    const tide_lake_ask ask = {.text = text,
                               .at = "",
                               .row_max = 1,
                               .bytes_max = 1 << 20,
                               .timeout_us = 60 * SECOND_US,
                               .columns = skip_columns,
                               .row = keep_number,
                               .arg = &number};
    assert_ok_err(tide_lake_query(c->data, c->beside.lake, &ask, &c->err), &c->err);
    return number;
}

/* ---- one request ---- */

typedef struct answer {
    tide_status status;
    int64_t snapshot_id;
    bool is_replay;
} answer;

typedef answer request_fn(cut_case *c, int round, const char *key);

static tide_status give_data(void *arg, tide_lake_data **out, tide_error *err)
{
    (void)err;
    *out = ((cut_case *)arg)->data;
    return TIDE_OK;
}

static tide_lake_work new_work(cut_case *c, const char *key)
{
    return (tide_lake_work){.lake = c->lake,
                            .open_data = give_data,
                            .arg = c,
                            .holder = "a test",
                            .commit = {.request_key = key, .request_hash = tide_view_of("h")}};
}

static answer end_work(cut_case *c, tide_lake_work *work, tide_status status)
{
    if (status >= TIDE_OK)
        status = tide_lake_work_commit(work, &c->err);
    return (answer){status, work->result.snapshot_id, work->result.is_replay};
}

static answer append(cut_case *c, int round, const char *key)
{
    char path[TEMPDIR_PATH_MAX];
    tempdir_join(&c->dir, "rows.csv", path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    (void)fprintf(file, "id,name\n%d,n%d\n", round, round);
    (void)fclose(file);
    TIDE_CLEANUP(tide_lake_work_done) tide_lake_work work = new_work(c, key);
    tide_status status = tide_lake_work_begin(&work, "work", &c->err);
    if (status >= TIDE_OK && !work.is_answered)
        status = tide_lake_work_append(&work, "main", "t", path, TIDE_LAKE_CSV, &c->err);
    return end_work(c, &work, status);
}

static answer delete_row(cut_case *c, int round, const char *key)
{
    char condition[64];
    (void)snprintf(condition, sizeof condition, "id = %d", round);
    TIDE_CLEANUP(tide_lake_work_done) tide_lake_work work = new_work(c, key);
    tide_status status = tide_lake_work_begin(&work, "work", &c->err);
    if (status >= TIDE_OK && !work.is_answered)
        status = tide_lake_work_delete(
            &work, &(tide_lake_delete){.schema = "main", .table = "t", .condition = condition},
            &c->err);
    return end_work(c, &work, status);
}

static answer create_table(cut_case *c, int round, const char *key)
{
    static const tide_lake_column_def columns[] = {{.name = "id", .type = "int64"}};
    char name[32];
    (void)snprintf(name, sizeof name, "t%d", round);
    TIDE_CLEANUP(tide_lake_work_done) tide_lake_work work = new_work(c, key);
    tide_status status = tide_lake_work_begin(&work, "work", &c->err);
    if (status >= TIDE_OK && !work.is_answered)
        status = tide_lake_create_table(work.change, "main", name, columns, 1, &c->err);
    return end_work(c, &work, status);
}

static answer fork_catalog(cut_case *c, int round, const char *key)
{
    char name[32];
    (void)snprintf(name, sizeof name, "fork%d", round);
    const tide_lake_commit_options options = {.request_key = key};
    tide_lake_created made = {0};
    const tide_status status = tide_lake_fork(c->lake, "work", name, "", &options, &made, &c->err);
    return (answer){status, made.snapshot_id, made.was_there};
}

static answer create_catalog(cut_case *c, int round, const char *key)
{
    char name[32];
    (void)snprintf(name, sizeof name, "made%d", round);
    const tide_lake_commit_options options = {.request_key = key};
    tide_lake_created made = {0};
    const tide_status status =
        tide_lake_create_catalog(c->lake, name, false, &options, &made, &c->err);
    return (answer){status, made.snapshot_id, made.was_there};
}

/* ---- rounds ---- */

static void judge(cut_case *c, request_fn *request, int round, bool is_all)
{
    char key[64];
    char armed[96];
    (void)snprintf(key, sizeof key, "key-%d", round);
    const answer first = request(c, round, key);
    const bool has_cut = pg_proxy_disarm(c->proxy);
    (void)snprintf(armed, sizeof armed, "round %d, %s", round, is_all ? "all" : "one");
    c->cuts += has_cut;
    if (first.status >= TIDE_OK) {
        if (first.is_replay || first.snapshot_id <= 0)
            fail_msg("%s: snapshot %" PRId64 "%s", armed, first.snapshot_id,
                     first.is_replay ? ", said to be a replay" : "");
    } else if (first.status == TIDE_E_OUTCOME_UNKNOWN) {
        c->unknown++;
        if (!strstr(c->err.text, key))
            fail_msg("%s: the key is not named: %s", armed, c->err.text);
    } else {
        c->failed++;
    }
    const answer again = request(c, round, key);
    if (again.status < TIDE_OK)
        fail_msg("%s: repeated: %s", armed, c->err.text);
    if (first.status >= TIDE_OK && (!again.is_replay || again.snapshot_id != first.snapshot_id))
        fail_msg("%s: snapshot %" PRId64 ", repeated %" PRId64, armed, first.snapshot_id,
                 again.snapshot_id);
}

/* Until a request ends before the cut. Every step-th message: what the verbs share is cut at each by appends. */
static void cut_everywhere(cut_case *c, request_fn *request, int step)
{
    const uint64_t seed = prng_seed_from_env(1);
    for (int is_all = 0; is_all < 2; is_all++) {
        for (int64_t at = 1 + (int64_t)(seed % (uint64_t)step); at < ROUNDS_MAX; at += step) {
            const int cuts = c->cuts;
            pg_proxy_arm(c->proxy, at, is_all != 0);
            judge(c, request, c->rounds++, is_all != 0);
            if (c->cuts == cuts)
                break;
        }
    }
    assert_true(c->cuts > 10);
}

static void appends_survive_every_cut(void **state)
{
    (void)state;
    cut_case c;
    open_case(&c);
    cut_everywhere(&c, append, 1);
    assert_int_equal(ask_number(&c, "SELECT count(*) FROM work.main.t"), c.rounds);
    assert_int_equal(ask_number(&c, "SELECT count(DISTINCT id) FROM work.main.t"), c.rounds);
    close_case(&c);
}

static void deletes_survive_every_cut(void **state)
{
    (void)state;
    cut_case c;
    char path[TEMPDIR_PATH_MAX];
    open_case(&c);
    tempdir_join(&c.dir, "all.csv", path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    (void)fprintf(file, "id,name\n");
    for (int i = 0; i < 2 * ROUNDS_MAX; i++)
        (void)fprintf(file, "%d,x\n", i);
    (void)fclose(file);
    {
        TIDE_CLEANUP(tide_lake_work_done) tide_lake_work work = new_work(&c, "all");
        assert_ok_err(tide_lake_work_begin(&work, "work", &c.err), &c.err);
        assert_ok_err(tide_lake_work_append(&work, "main", "t", path, TIDE_LAKE_CSV, &c.err),
                      &c.err);
        assert_ok_err(tide_lake_work_commit(&work, &c.err), &c.err);
    }
    cut_everywhere(&c, delete_row, 4);
    assert_int_equal(ask_number(&c, "SELECT count(*) FROM work.main.t"), 2 * ROUNDS_MAX - c.rounds);
    assert_int_equal(ask_number(&c, "SELECT min(id) FROM work.main.t"), c.rounds);
    close_case(&c);
}

static void schema_changes_survive_every_cut(void **state)
{
    (void)state;
    cut_case c;
    open_case(&c);
    cut_everywhere(&c, create_table, 5);
    close_case(&c);
}

static void forks_survive_every_cut(void **state)
{
    (void)state;
    cut_case c;
    open_case(&c);
    cut_everywhere(&c, fork_catalog, 2);
    close_case(&c);
}

static void new_catalogs_survive_every_cut(void **state)
{
    (void)state;
    cut_case c;
    open_case(&c);
    cut_everywhere(&c, create_catalog, 2);
    close_case(&c);
}

/* Maintenance has no key: whatever it returns, the rows are the same, and doing it again ends well. */
static void compaction_and_expiry_survive_every_cut(void **state)
{
    (void)state;
    cut_case c;
    open_case(&c);
    const tide_lake_compact_options options = {.files_least = 2, .lease_us = 1};
    const tide_lake_expire_options expire = {.keep_last = 1};
    const uint64_t seed = prng_seed_from_env(1);
    for (int is_all = 0; is_all < 2; is_all++) {
        bool has_cut = true;
        for (int64_t at = 1 + (int64_t)(seed % 8); has_cut && at < ROUNDS_MAX; at += 8) {
            tide_lake_compacted done = {0};
            tide_lake_expired expired;
            char key[32];
            for (int i = 0; i < 2; i++) {
                (void)snprintf(key, sizeof key, "key-%d", c.rounds);
                assert_ok_err(append(&c, c.rounds, key).status, &c.err);
                c.rounds++;
            }
            pg_proxy_arm(c.proxy, at, is_all != 0);
            c.failed +=
                tide_lake_compact(c.lake, c.data, "work", &options, &done, &c.err) < TIDE_OK;
            has_cut = pg_proxy_disarm(c.proxy);
            pg_proxy_arm(c.proxy, at, is_all != 0);
            c.failed += tide_lake_expire(c.lake, "work", &expire, &expired, &c.err) < TIDE_OK;
            has_cut = pg_proxy_disarm(c.proxy) || has_cut;
            c.cuts += has_cut;
            if (ask_number(&c, "SELECT count(DISTINCT id) FROM work.main.t") != c.rounds)
                fail_msg("rows were lost at message %" PRId64, at);
        }
    }
    assert_int_equal(ask_number(&c, "SELECT count(*) FROM work.main.t"), c.rounds);
    close_case(&c);
}

static int start_cluster(void **state)
{
    (void)state;
    tide_error err;
    static const char *const settings[] = {"fsync=off", NULL};
    const pg_cluster_options options = {.has_tcp = true, .is_copy = true, .settings = settings};
    assert_ok_err(pg_cluster_start(&cluster, &options, &err), &err);
    return 0;
}

static int stop_cluster(void **state)
{
    (void)state;
    pg_cluster_stop(&cluster);
    return 0;
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appends_survive_every_cut),
        cmocka_unit_test(deletes_survive_every_cut),
        cmocka_unit_test(schema_changes_survive_every_cut),
        cmocka_unit_test(forks_survive_every_cut),
        cmocka_unit_test(new_catalogs_survive_every_cut),
        cmocka_unit_test(compaction_and_expiry_survive_every_cut),
    };
    return cmocka_run_group_tests_name("lake cut", tests, start_cluster, stop_cluster);
}
