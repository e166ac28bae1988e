/* What a claim costs must not depend on how many items there are: the plans walk the claim indexes in order and stop.
 * The engines are asked how they would run the very statements of the library. */
#include "work/work_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "tidemark_sql.h"
#include "work/foreign/raw_sql.h"

typedef struct plan_request {
    const tide_sql *sql;
    tide_sql explain;
    char *text;
    char plan[16384];
} plan_request;

static void bind_if_known(tide_query *query, const tide_sql *sql, tide_engine engine,
                          const char *name, const char *text, int64_t number)
{
    for (int i = 0; i < sql->engine[engine].param_count; i++) {
        if (strcmp(sql->engine[engine].params[i], name) != 0)
            continue;
        if (text)
            tide_query_bind_text(query, name, text);
        else if (strcmp(name, "is_promoted") == 0)
            tide_query_bind_bool(query, name, number != 0);
        else
            tide_query_bind_i64(query, name, number);
    }
}

static tide_status explain(tide_tx *tx, void *arg, tide_error *err)
{
    plan_request *r = arg;
    const tide_engine engine = tide_store_engine(tide_tx_store(tx));
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, &r->explain, err));
    bind_if_known(query, r->sql, engine, "type", "job", 0);
    bind_if_known(query, r->sql, engine, "types", "[\"job\",\"other\"]", 0);
    bind_if_known(query, r->sql, engine, "task_id", "t", 0);
    bind_if_known(query, r->sql, engine, "worker", "w", 0);
    bind_if_known(query, r->sql, engine, "items", "[]", 0);
    bind_if_known(query, r->sql, engine, "limit", NULL, 10);
    bind_if_known(query, r->sql, engine, "reach", NULL, 74);
    bind_if_known(query, r->sql, engine, "floor", NULL, 1);
    bind_if_known(query, r->sql, engine, "lease_us", NULL, LEASE_US);
    bind_if_known(query, r->sql, engine, "lease_now_us", NULL, VIRTUAL_ENV_WALL_US);
    bind_if_known(query, r->sql, engine, "is_promoted", NULL, 0);
    r->plan[0] = '\0';
    size_t len = 0;
    tide_status status = TIDE_OK;
    while ((status = tide_query_step(query, err)) == TIDE_OK) {
        if (engine == TIDE_ENGINE_SQLITE) {
            (void)tide_query_col_i64(query);
            (void)tide_query_col_i64(query);
            (void)tide_query_col_i64(query);
        }
        const tide_view line = tide_query_col_text(query);
        len += (size_t)snprintf(r->plan + len, sizeof r->plan - len, "%.*s\n", (int)line.len,
                                line.ptr);
        assert_true(len < sizeof r->plan);
    }
    return status < TIDE_OK ? status : TIDE_OK;
}

/* How the engine would run the statement. Valid until the next call. */
static const char *plan_of(store_test *t, const tide_sql *sql)
{
    static plan_request r;
    const char *ask =
        t->engine == TIDE_ENGINE_SQLITE ? "EXPLAIN QUERY PLAN" : "EXPLAIN (COSTS OFF)";
    const tide_sql_text *text = &sql->engine[t->engine];
    const size_t len = strlen(text->text) + 64;
    /* A store of its own: statements are remembered by where they stand. */
    tide_store *store = store_test_open(t);
    TIDE_CLEANUP(tide_freep) char *whole = malloc(len);
    assert_non_null(whole);
    (void)snprintf(whole, len, "%s %s", ask, text->text);
    r.sql = sql;
    r.explain = (tide_sql){TIDE_SQL_INIT, .name = "explain"};
    r.explain.engine[t->engine] = *text;
    r.explain.engine[t->engine].text = whole;
    assert_ok_err(tide_store_write(store, explain, &r, &t->err), &t->err);
    store_test_close(t, &store);
    return r.plan;
}

static void fill(store_test *t, int count)
{
    tide_work_spec items[500];
    tide_work_added added[500];
    for (int i = 0; i < 500; i++)
        items[i] = (tide_work_spec){TIDE_WORK_SPEC_INIT, .task_id = "t",
                                    .work_type = i % 5 ? "job" : "other", .max_retries = -1};
    for (int n = 0; n < count; n += 500)
        assert_ok_err(try_add(t, items, 500, added), &t->err);
}

/* Also when the statistics were taken while nothing was ready, and a flood came after. */
static void claims_walk_their_index_in_order(void **state)
{
    store_test *t = *state;
    const struct {
        const tide_sql *sql;
        const char *index[2]; /* of SQLite, of PostgreSQL */
    } claims[] = {
        {TIDE_SQL_WORK_CLAIM_TYPE, {"idx_work_items_claim", "idx_work_ready_type"}},
        {TIDE_SQL_WORK_CLAIM_TYPES, {"idx_work_items_claim", "idx_work_ready_type"}},
        {TIDE_SQL_WORK_CLAIM_TASK, {"idx_work_items_claim_task", "idx_work_ready_task"}},
    };
    const bool is_postgres = t->engine == TIDE_ENGINE_POSTGRES;
    make_task(t, "t");
    add_item(t, "done");
    const held h = claim(t, "w");
    assert_ok(finish(t, &h, NULL));
    if (is_postgres) /* where statistics come by themselves */
        run_sql(t, "ANALYZE");
    fill(t, 5000);
    for (size_t i = 0; i < sizeof claims / sizeof claims[0]; i++) {
        const char *plan = plan_of(t, claims[i].sql);
        assert_contains(plan, claims[i].index[is_postgres]);
        assert_null(strstr(plan, "SCAN work_items"));
        assert_null(strstr(plan, "SCAN w\n"));
        assert_null(strstr(plan, "Seq Scan on work_items"));
        assert_null(strstr(plan, "Bitmap Heap Scan on work_ready"));
        assert_null(strstr(plan, "Hash Join"));
    }
    assert_null(strstr(plan_of(t, TIDE_SQL_WORK_CLAIM_TYPE), "Sort"));
    assert_null(strstr(plan_of(t, TIDE_SQL_WORK_CLAIM_TYPE), "TEMP B-TREE"));
}

/* ---- pages ---- */

static const char *const values[][2] = {
    {"type", "job"},
    {"types", "[\"job\",\"other\"]"},
    {"task_id", "t"},
    {"worker", "w"},
    {"places", "{1,2,1,2,1,2,1,2,1,2}"},
    {"workers", "{a,b}"},
    {"leases", "{1000000,1000000}"},
    {"ids", "{a,b,c,d,e,f,g,h,i,j}"},
    {"tokens", "{1,2,3,4,5,6,7,8,9,10}"},
    {"outputs", "{1,2,3,4,5,6,7,8,9,10}"},
    {"items", "[{\"id\":\"a\",\"token\":1},{\"id\":\"b\",\"token\":2}]"},
    {"limit", "10"},
    {"reach", "74"},
    {"floor", "1"},
    {"lease_us", "1000000"},
    {"is_promoted", "f"},
};

static const char *value_of(const char *name)
{
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        if (strcmp(values[i][0], name) == 0)
            return values[i][1];
    return NULL;
}

/* The number behind the label, if this line has it. */
static long long read_count(const char *line, const char *label)
{
    const char *at = strstr(line, label);
    return at && at < line + strcspn(line, "\n") ? strtoll(at + strlen(label), NULL, 10) : 0;
}

/* How many pages the statement touches, run under the plan that the server keeps for it, and taken back. */
static int64_t count_pages(raw_sql *raw, const tide_sql *sql)
{
    const tide_sql_text *text = &sql->engine[TIDE_ENGINE_POSTGRES];
    char arguments[1024] = "";
    for (int i = 0; i < text->param_count; i++) {
        const char *value = value_of(text->params[i]);
        const size_t used = strlen(arguments);
        (void)snprintf(arguments + used, sizeof arguments - used, "%s%s%s%s", i ? ", " : "",
                       value ? "'" : "", value ? value : "NULL", value ? "'" : "");
    }
    PGresult *prepared = PQprepare(raw->pg, "asked", text->text, 0, NULL);
    assert_int_equal(PGRES_COMMAND_OK, PQresultStatus(prepared));
    PQclear(prepared);
    raw_ok(raw, "BEGIN");
    const char *plan = raw_text(
        raw, "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, COSTS OFF) EXECUTE asked (%s)", arguments);
    const char *buffers = strstr(plan, "Buffers: shared");
    assert_non_null(buffers);
    const long long pages = read_count(buffers, " hit=") + read_count(buffers, " read=");
    assert_true(pages > 0);
    raw_ok(raw, "ROLLBACK");
    raw_ok(raw, "DEALLOCATE asked");
    return pages;
}

/* What a claim or a finish touches does not grow with what waits, also where no statistics were taken yet, or were taken
 * of an empty store. */
static void claims_and_finishes_touch_few_pages(void **state)
{
    store_test *t = *state;
    /* Of 10 items. The table has 920, and its entries one by one are 24,000. */
    enum { PAGES_MAX = 800 };
    const tide_sql *const statements[] = {TIDE_SQL_WORK_CLAIM_TYPE,  TIDE_SQL_WORK_CLAIM_SHARED,
                                          TIDE_SQL_WORK_CLAIM_TYPES, TIDE_SQL_WORK_CLAIM_TASK,
                                          TIDE_SQL_WORK_FINISH_MANY, TIDE_SQL_WORK_RENEW,
                                          TIDE_SQL_WORK_LOOK_TYPES,  TIDE_SQL_WORK_LOOK_TASK};
    raw_sql raw;
    raw_open(&raw, t);
    raw_ok(&raw, "SET plan_cache_mode = force_generic_plan");
    make_task(t, "t");
    for (int round = 0; round < 2; round++) {
        if (round == 1) /* of many items; the next round brings more */
            raw_ok(&raw, "ANALYZE");
        fill(t, 12000);
        for (size_t i = 0; i < sizeof statements / sizeof statements[0]; i++) {
            const int64_t pages = count_pages(&raw, statements[i]);
            if (pages > PAGES_MAX)
                fail_msg("%s touches %lld pages", statements[i]->name, (long long)pages);
        }
    }
    raw_close(&raw);
}

/* Renewals and finishes walk their list, not everything that is in progress. */
static void lists_are_walked_by_id(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    fill(t, 2000);
    (void)claim_ids(t->store,
                    (tide_work_claim_request){TIDE_WORK_CLAIM_REQUEST_INIT, .limit = 200});
    run_sql(t, "ANALYZE");
    const tide_sql *const statements[] = {TIDE_SQL_WORK_RENEW, TIDE_SQL_WORK_FINISH_MANY,
                                          TIDE_SQL_WORK_EXPIRE};
    for (size_t i = 0; i < sizeof statements / sizeof statements[0]; i++) {
        const char *plan = plan_of(t, statements[i]);
        if (t->engine ==
            TIDE_ENGINE_SQLITE) /* PostgreSQL may read a table as small as this one whole */
            assert_contains(plan, "sqlite_autoindex_work_items_1");
        assert_null(strstr(plan, "idx_work_items_status_priority"));
        assert_null(strstr(plan, "idx_work_items_lease_holder"));
    }
}

/* An import of n checkpoints takes n steps: from each row to the next by its key, and not through all of the file's rows. */
static void an_import_goes_from_row_to_row_by_key(void **state)
{
    store_test *t = *state;
    static const char by_key[] =
        "SEARCH o USING PRIMARY KEY (import_id=? AND task_id=? AND task_rank=?)";
    const char *at = plan_of(t, TIDE_SQL_IMPORT_ROWS_PUBLISH);
    int count = 0;
    for (; (at = strstr(at, by_key)) != NULL; at++)
        count++;
    assert_int_equal(2, count); /* the first of a task, and the next one */
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(claims_walk_their_index_in_order),
        STORE_CASE_POSTGRES(claims_and_finishes_touch_few_pages),
        STORE_CASE(lists_are_walked_by_id),
        STORE_CASE_SQLITE(an_import_goes_from_row_to_row_by_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
