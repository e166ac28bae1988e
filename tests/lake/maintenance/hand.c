/* hand.c - see hand.h. */
#include "lake/maintenance/hand.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "store/engine.h"

enum { SQL_MAX = 8192 };

void hand_init(hand *h, store_test *t)
{
    *h = (hand){.t = t, .minutes = 1};
    tide_buffer_init(&h->pending, 1 << 20);
    tempdir_join(&t->dir, "data", h->data);
    bool was_there = false;
    assert_ok_err(tide_lake_init(t->store, h->data, &was_there, &t->err), &t->err);
    assert_ok_err(tide_lake_open(&h->lake, t->store, &t->err), &t->err);
}

void hand_done(hand *h)
{
    tide_lake_close(h->lake);
    tide_buffer_done(&h->pending);
}

/* ---- one metabase for many cases ---- */

static struct {
    store_test *t;
    hand h;
} shared[TIDE_ENGINE_COUNT];

static const char empty_sql[] =
    "DELETE FROM ducklake_snapshot WHERE catalog_id > 0;"
    "DELETE FROM ducklake_snapshot_changes WHERE catalog_id > 0;"
    "DELETE FROM ducklake_schema WHERE catalog_id > 0; DELETE FROM ducklake_table;"
    "DELETE FROM ducklake_view; DELETE FROM ducklake_column; DELETE FROM ducklake_data_file;"
    "DELETE FROM ducklake_delete_file; DELETE FROM ducklake_partition_info;"
    "DELETE FROM ducklake_partition_column; DELETE FROM ducklake_file_column_stats;"
    "DELETE FROM ducklake_file_partition_value; DELETE FROM ducklake_table_stats;"
    "DELETE FROM ducklake_table_column_stats; DELETE FROM ducklake_schema_versions;"
    "DELETE FROM ducklake_files_scheduled_for_deletion;"
    "DELETE FROM ducklake_metadata WHERE catalog_id > 0; DELETE FROM lake_catalog;"
    "DELETE FROM lake_ancestor; DELETE FROM lake_head; DELETE FROM lake_commit;"
    "DELETE FROM lake_mark; DELETE FROM lake_ended; DELETE FROM lake_pin;"
    "DELETE FROM lake_file_digest;";
static const char *const restart_sql[TIDE_ENGINE_COUNT] = {
    [TIDE_ENGINE_SQLITE] = "UPDATE lake_sequence SET last = 0;",
    [TIDE_ENGINE_POSTGRES] =
        "SELECT setval('ducklake_snapshot_id_seq', 1, false), setval('ducklake_catalog_id_seq', 1, "
        "false), setval('ducklake_object_id_seq', 1, false), setval('ducklake_column_id_seq', 1, "
        "false), setval('ducklake_file_id_seq', 1, false), setval('ducklake_partition_id_seq', 1, "
        "false);",
};

static int set_up(void **state, tide_engine engine, int (*fresh)(void **state))
{
    hand *h = &shared[engine].h;
    if (!shared[engine].t) {
        void *made = NULL;
        if (fresh(&made) != 0)
            return -1;
        shared[engine].t = made;
        hand_init(h, made);
    }
    hand_sql(h, "%s%s", empty_sql, restart_sql[engine]);
    hand_flush(h);
    h->minutes = 1;
    memset(h->heads, 0, sizeof h->heads);
    *state = h;
    return 0;
}

int hand_setup_sqlite(void **state)
{
    return set_up(state, TIDE_ENGINE_SQLITE, store_fixture_setup_sqlite);
}

int hand_setup_postgres(void **state)
{
    return set_up(state, TIDE_ENGINE_POSTGRES, store_fixture_setup_postgres);
}

int hand_teardown(void **state)
{
    (void)state;
    return 0;
}

int hand_group_teardown(void **state)
{
    (void)state;
    int failed = 0;
    for (int i = 0; i < TIDE_ENGINE_COUNT; i++) {
        if (!shared[i].t)
            continue;
        hand_done(&shared[i].h);
        void *made = shared[i].t;
        failed |= store_fixture_teardown(&made);
    }
    return failed;
}

/* ---- texts ---- */

static tide_status run_script(tide_tx *tx, void *arg, tide_error *err)
{
    return tx->store->ops->script(tx, arg, err);
}

void hand_sql(hand *h, const char *format, ...)
{
    char text[SQL_MAX];
    va_list args;
    va_start(args, format);
    const int len = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    assert_true(len > 0 && len < SQL_MAX);
    assert_ok(tide_buffer_printf(&h->pending, "%s;", text));
}

void hand_flush(hand *h)
{
    if (h->pending.len == 0)
        return;
    assert_ok_err(tide_store_write(h->t->store, run_script, h->pending.ptr, &h->t->err),
                  &h->t->err);
    tide_buffer_clear(&h->pending);
}

typedef struct number_ask {
    char text[SQL_MAX];
    tide_sql sql;
    int64_t number;
} number_ask;

static tide_status ask_number(tide_tx *tx, void *arg, tide_error *err)
{
    number_ask *ask = arg;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, &ask->sql, err));
    const tide_status status = tide_query_one(query, err);
    TIDE_TRY(status);
    ask->number = status == TIDE_NONE ? 0 : tide_query_col_i64(query);
    return TIDE_OK;
}

/* Statements are cached by their address: a text of the moment needs a connection of its own, and so a store. */
int64_t hand_number(hand *h, const char *format, ...)
{
    hand_flush(h);
    number_ask ask = {.sql = {TIDE_SQL_INIT, .name = "hand"}};
    va_list args;
    va_start(args, format);
    (void)vsnprintf(ask.text, sizeof ask.text, format, args);
    va_end(args);
    for (int i = 0; i < TIDE_ENGINE_COUNT; i++)
        ask.sql.engine[i].text = ask.text;
    tide_store *store = store_test_open(h->t);
    assert_ok_err(tide_store_read(store, ask_number, &ask, &h->t->err), &h->t->err);
    store_test_close(h->t, &store);
    return ask.number;
}

/* ---- rows ---- */

static void raise_counter(hand *h, const char *counter, int64_t id)
{
    if (h->t->engine == TIDE_ENGINE_SQLITE)
        hand_sql(h, "UPDATE lake_sequence SET last = max(last, %" PRId64 ") WHERE name = '%s'", id,
                 counter);
    else
        hand_sql(h,
                 "SELECT setval('ducklake_%s_id_seq', greatest(%" PRId64
                 ", (SELECT last_value FROM ducklake_%s_id_seq)))",
                 counter, id, counter);
}

void hand_table(hand *h, int64_t catalog, int64_t snapshot, int64_t schema, int64_t table,
                const char *name)
{
    hand_sql(h,
             "INSERT INTO ducklake_table VALUES (%" PRId64 ", '00000000-0000-0000-0000-%012" PRId64
             "', %" PRId64 ", NULL, %" PRId64 ", '%s', 't%" PRId64 "/', TRUE, %" PRId64 ");"
             "INSERT INTO ducklake_column VALUES (%" PRId64 ", %" PRId64 ", NULL, %" PRId64
             ", 1, 'a', 'int64', 'NULL', 'NULL', TRUE, NULL, 'literal', 'duckdb', %" PRId64 ")",
             table, table, snapshot, schema, name, table, catalog, 10 * table, snapshot, table,
             catalog);
    raise_counter(h, "object", table);
    raise_counter(h, "column", 10 * table);
}

void hand_file(hand *h, int64_t catalog, int64_t snapshot, int64_t table, int64_t file)
{
    hand_sql(h,
             "INSERT INTO ducklake_data_file (data_file_id, table_id, begin_snapshot, path, "
             "path_is_relative, file_format, record_count, file_size_bytes, footer_size, "
             "row_id_start, catalog_id) VALUES (%" PRId64 ", %" PRId64 ", %" PRId64 ", 'f%" PRId64
             ".parquet', TRUE, 'parquet', 10, 100, 20, 0, %" PRId64 ")",
             file, table, snapshot, file, catalog);
    raise_counter(h, "file", file);
}

void hand_delete_file(hand *h, int64_t catalog, int64_t snapshot, int64_t table, int64_t data_file,
                      int64_t file)
{
    hand_sql(h,
             "INSERT INTO ducklake_delete_file (delete_file_id, table_id, begin_snapshot, "
             "data_file_id, path, path_is_relative, format, delete_count, file_size_bytes, "
             "footer_size, catalog_id) VALUES (%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
             ", 'f%" PRId64 ".parquet', TRUE, 'parquet', 1, 50, 10, %" PRId64 ")",
             file, table, snapshot, data_file, file, catalog);
    raise_counter(h, "file", file);
}

static const struct {
    const char *table;
    const char *id;
    const char *sub;
} kinds[] = {
    [1] = {"schema", "schema_id", NULL},
    [2] = {"table", "table_id", NULL},
    [3] = {"view", "view_id", NULL},
    [4] = {"column", "table_id", "column_id"},
    [5] = {"data_file", "data_file_id", NULL},
    [6] = {"delete_file", "delete_file_id", NULL},
    [7] = {"partition_info", "partition_id", NULL},
};

void hand_end(hand *h, int64_t catalog, int64_t snapshot, int kind, int64_t id, int64_t sub)
{
    char where[128];
    const char *id_name = kinds[kind].id;
    if (kinds[kind].sub)
        (void)snprintf(where, sizeof where, "%s = %" PRId64 " AND %s = %" PRId64, id_name, id,
                       kinds[kind].sub, sub);
    else
        (void)snprintf(where, sizeof where, "%s = %" PRId64, id_name, id);
    hand_sql(h,
             "INSERT INTO lake_ended SELECT %d, %" PRId64 ", %" PRId64
             ", v.begin_snapshot, %" PRId64 ", %" PRId64
             " FROM lake_%s v WHERE viewer_id = %" PRId64
             " AND v.owner_id <> v.viewer_id AND v.end_snapshot IS NULL AND %s;"
             "UPDATE ducklake_%s SET end_snapshot = %" PRId64 " WHERE catalog_id = %" PRId64
             " AND end_snapshot IS NULL AND %s",
             kind, id, sub, catalog, snapshot, kinds[kind].table, catalog, where, kinds[kind].table,
             snapshot, catalog, where);
}

static void end_below(hand *h, int64_t catalog, int64_t snapshot, int kind, int64_t table)
{
    const char *id = kind == 4 ? "v.table_id" : kind == 5 ? "v.data_file_id" : "v.delete_file_id";
    hand_sql(h,
             "INSERT INTO lake_ended SELECT %d, %s, %s, v.begin_snapshot, %" PRId64 ", %" PRId64
             " FROM lake_%s v WHERE v.viewer_id = %" PRId64
             " AND v.owner_id <> v.viewer_id AND v.end_snapshot IS NULL AND v.table_id = %" PRId64
             ";"
             "UPDATE ducklake_%s SET end_snapshot = %" PRId64 " WHERE catalog_id = %" PRId64
             " AND end_snapshot IS NULL AND table_id = %" PRId64,
             kind, id, kind == 4 ? "v.column_id" : "0", catalog, snapshot, kinds[kind].table,
             catalog, table, kinds[kind].table, snapshot, catalog, table);
}

void hand_drop_table(hand *h, int64_t catalog, int64_t snapshot, int64_t table)
{
    for (int kind = 4; kind <= 6; kind++)
        end_below(h, catalog, snapshot, kind, table);
    hand_end(h, catalog, snapshot, 2, table, 0);
}

void hand_path(hand *h, int64_t schema, int64_t table, int64_t file, char out[256])
{
    (void)h;
    (void)snprintf(out, 256, "s%" PRId64 "/t%" PRId64 "/f%" PRId64 ".parquet", schema, table, file);
}

/* ---- commits ---- */

typedef struct sight_ask {
    int64_t catalog;
    int64_t snapshot;
    tide_lake_sight sight;
} sight_ask;

static tide_status look(tide_tx *tx, void *arg, tide_error *err)
{
    sight_ask *ask = arg;
    return tide_lake_look(tx, ask->catalog, ask->snapshot, &ask->sight, err);
}

void hand_commit_behind(hand *h, int64_t catalog, int64_t snapshot, int64_t parent, int64_t base,
                        const char *changes)
{
    hand_flush(h);
    sight_ask ask = {.catalog = catalog, .snapshot = snapshot};
    assert_ok_err(tide_store_read(h->t->store, look, &ask, &h->t->err), &h->t->err);
    if (snapshot > h->heads[catalog])
        h->heads[catalog] = snapshot;
    const int64_t digest[2] = {(int64_t)ask.sight.digest.sums[0],
                               (int64_t)ask.sight.digest.sums[1]};
    char time[32];
    (void)snprintf(time, sizeof time, "2026-01-01 %02d:%02d:00.000000", (int)(h->minutes / 60),
                   (int)(h->minutes % 60));
    h->minutes++;
    raise_counter(h, "snapshot", snapshot);
    hand_sql(h,
             "INSERT INTO ducklake_snapshot VALUES (%" PRId64 ", '%s', 1, 100000, 100000, %" PRId64
             ");"
             "INSERT INTO ducklake_snapshot_changes VALUES (%" PRId64
             ", '%s', NULL, NULL, NULL, %" PRId64 ");"
             "INSERT INTO lake_commit (snapshot_id, catalog_id, parent_snapshot_id, "
             "base_snapshot_id, digest_a, digest_b, committed_at) VALUES (%" PRId64 ", %" PRId64
             ", %" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 ", '%s');",
             snapshot, time, catalog, snapshot, changes, catalog, snapshot, catalog, parent, base,
             digest[0], digest[1], time);
    hand_sql(h,
             "UPDATE lake_head SET snapshot_id = %" PRId64 ", parent_snapshot_id = %" PRId64
             ", snapshot_time = '%s', digest_a = %" PRId64 ", digest_b = %" PRId64
             " WHERE catalog_id = %" PRId64 " AND snapshot_id < %" PRId64,
             snapshot, parent, time, digest[0], digest[1], catalog, snapshot);
}

void hand_commit(hand *h, int64_t catalog, int64_t snapshot, int64_t base, const char *changes)
{
    const int64_t head = h->heads[catalog];
    hand_commit_behind(h, catalog, snapshot, head, base > 0 ? base : head, changes);
}

static void add_catalog(hand *h, int64_t catalog, const char *name, int64_t snapshot,
                        int64_t parent, int64_t at)
{
    char of_fork[64];
    (void)snprintf(of_fork, sizeof of_fork, parent > 0 ? "%" PRId64 ", %" PRId64 : "NULL, NULL",
                   parent, at);
    hand_sql(h,
             "INSERT INTO lake_catalog VALUES (%" PRId64
             ", '%s', '00000000-0000-0000-0001-%012" PRId64 "', %s, %" PRId64
             ", '2026-01-01 00:00:00.000000', NULL);"
             "INSERT INTO lake_ancestor VALUES (%" PRId64 ", 0, %" PRId64 ", 9223372036854775807);"
             "INSERT INTO lake_head VALUES (%" PRId64
             ", 0, 0, '2026-01-01 00:00:00.000000', 0, 0, 0, 0, NULL);",
             catalog, name, catalog, of_fork, snapshot, catalog, catalog, catalog);
    raise_counter(h, "catalog", catalog);
}

void hand_catalog(hand *h, int64_t catalog, const char *name, int64_t snapshot)
{
    add_catalog(h, catalog, name, snapshot, 0, 0);
    const int64_t schema = 100 * catalog + 1;
    hand_sql(h,
             "INSERT INTO ducklake_schema VALUES (%" PRId64 ", '00000000-0000-0000-0002-%012" PRId64
             "', %" PRId64 ", NULL, 'main', 's%" PRId64 "/', TRUE, %" PRId64 ")",
             schema, schema, snapshot, schema, catalog);
    raise_counter(h, "object", schema);
    hand_commit_behind(h, catalog, snapshot, 0, 0, "created_schema:\"main\"");
}

void hand_fork(hand *h, int64_t parent, int64_t at, int64_t child, const char *name,
               int64_t snapshot)
{
    add_catalog(h, child, name, snapshot, parent, at);
    const char *least = h->t->engine == TIDE_ENGINE_SQLITE ? "min" : "least";
    hand_sql(h,
             "INSERT INTO lake_ancestor SELECT %" PRId64
             ", a.depth + 1, a.ancestor_id, %s(a.upto, %" PRId64
             ") FROM lake_ancestor a WHERE a.catalog_id = %" PRId64,
             child, least, at, parent);
    hand_commit_behind(h, child, snapshot, at, at, "");
}

/* ---- findings ---- */

static void keep_finding(void *arg, const tide_lake_finding *finding)
{
    hand_findings *found = arg;
    if (found->count == 64)
        return;
    (void)snprintf(found->rules[found->count], sizeof found->rules[0], "%s", finding->rule);
    (void)snprintf(found->words[found->count], sizeof found->words[0], "%s", finding->words);
    found->count++;
}

tide_status hand_check(hand *h, hand_findings *found)
{
    *found = (hand_findings){0};
    hand_flush(h);
    return tide_lake_check_history(h->lake, NULL, keep_finding, found, &found->checked, &h->t->err);
}

static void print_findings(const hand_findings *found)
{
    for (int i = 0; i < found->count; i++)
        print_message("%s: %s\n", found->rules[i], found->words[i]);
}

void hand_expect_sound(hand *h)
{
    hand_findings found;
    const tide_status status = hand_check(h, &found);
    print_findings(&found);
    assert_status_err(TIDE_OK, status, &h->t->err);
    assert_int_equal(0, found.count);
}

static int expect(hand *h, const char *rule)
{
    hand_findings found;
    const tide_status status = hand_check(h, &found);
    int others = 0;
    for (int i = 0; i < found.count; i++)
        others += strcmp(found.rules[i], rule) != 0;
    if (others == found.count || status != TIDE_E_DAMAGED)
        print_findings(&found);
    assert_status_err(TIDE_E_DAMAGED, status, &h->t->err);
    assert_int_not_equal(found.count, others);
    if (others > 0)
        print_findings(&found);
    return others;
}

void hand_expect_broken(hand *h, const char *rule)
{
    assert_int_equal(0, expect(h, rule));
}

void hand_expect_among(hand *h, const char *rule)
{
    (void)expect(h, rule);
}
