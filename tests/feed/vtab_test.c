/* Streams as tables of SQL: what comes out, what is pushed down, what happens at damage; nextval and currval.
 *
 * Push-down is proven by counting the batches that a query opened, never by time. */
#include "feed/vtab.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "feed/feed_fixture.h"
#include "support/prng.h"

enum { BATCHES = 20, PER_BATCH = 10 };

static const int64_t START_MS = INT64_C(1700000000000);

typedef struct rig {
    store_test *t;
    tide_feed *feed;
    sqlite3 *db;
} rig;

/* ---- asking ---- */

static const char *path_of(const store_test *t)
{
    return strncmp(t->url, "sqlite:", 7) == 0 ? t->url + 7 : t->url;
}

static void open_db(rig *r, int flags)
{
    assert_int_equal(SQLITE_OK, sqlite3_open_v2(path_of(r->t), &r->db, flags, NULL));
    assert_int_equal(SQLITE_OK, tide_vtab_register(r->db, &r->t->clock.env));
}

static rig rig_open(void **state)
{
    rig r = {.t = *state};
    r.feed = feed_test_open(r.t, NULL);
    return r;
}

static void rig_close(rig *r)
{
    assert_int_equal(SQLITE_OK, sqlite3_close(r->db));
    tide_feed_close(r->feed);
}

/* The rows as text: columns by '|', rows by ' '. */
static const char *ask(sqlite3 *db, const char *sql)
{
    static char out[65536];
    size_t len = 0;
    sqlite3_stmt *statement = NULL;
    out[0] = '\0';
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    int code;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        for (int i = 0; i < sqlite3_column_count(statement); i++) {
            const char *text = (const char *)sqlite3_column_text(statement, i);
            len += (size_t)snprintf(out + len, sizeof out - len, "%s%s",
                                    i > 0 ? "|" : (len > 0 ? " " : ""), text ? text : "NULL");
            assert_true(len < sizeof out);
        }
    }
    if (code != SQLITE_DONE)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    sqlite3_finalize(statement);
    return out;
}

static int64_t number(sqlite3 *db, const char *sql)
{
    return assert_number(ask(db, sql));
}

/* The statement fails with this code, and its words hold the part. */
static void assert_refused(sqlite3 *db, const char *sql, int code, const char *part)
{
    sqlite3_stmt *statement = NULL;
    int got = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
    while (got == SQLITE_OK || got == SQLITE_ROW)
        got = sqlite3_step(statement);
    const int extended = sqlite3_extended_errcode(db);
    char words[1024];
    snprintf(words, sizeof words, "%s", sqlite3_errmsg(db));
    sqlite3_finalize(statement);
    if (code != extended)
        fail_msg("%s: want %d, got %d: %s", sql, code, extended, words);
    assert_contains(words, part);
}

static int64_t stat_of(sqlite3 *db, const char *name)
{
    char sql[128];
    snprintf(sql, sizeof sql, "SELECT json_extract(tidemark_stats(), '$.%s')", name);
    return number(db, sql);
}

/* How many batches the query opened. */
static int64_t opened_by(sqlite3 *db, const char *sql)
{
    const int64_t before = stat_of(db, "opened");
    (void)ask(db, sql);
    return stat_of(db, "opened") - before;
}

/* Batch i (from 0): ten logs of service si, at START_MS + i * 1000, arrived i minutes after the first. Each of its own commit. */
static void fill(rig *r)
{
    for (int i = 0; i < BATCHES; i++) {
        char service[16];
        snprintf(service, sizeof service, "s%d", i % 5);
        (void)put_logs(r->feed, PER_BATCH, service, START_MS + i * 1000);
        virtual_env_advance(&r->t->clock, MINUTE_US);
    }
    open_db(r, SQLITE_OPEN_READWRITE);
}

/* ---- what comes out ---- */

/* Every built-in stream is there by name; seq_id stands first, arrived_at last. */
static void every_built_in_stream_is_a_table(void **state)
{
    rig r = rig_open(state);
    open_db(&r, SQLITE_OPEN_READONLY);
    for (int kind = 0; kind < TIDE_STREAM_BUILT_IN_COUNT; kind++) {
        const tide_stream_type *type = tide_stream_type_of((tide_stream_kind)kind);
        char sql[256];
        snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", type->table);
        assert_int_equal(0, number(r.db, sql));
        char want[1024] = "seq_id";
        for (int i = 0; i < type->column_count; i++)
            snprintf(want + strlen(want), sizeof want - strlen(want), " %s", type->columns[i].name);
        snprintf(want + strlen(want), sizeof want - strlen(want), " arrived_at");
        snprintf(sql, sizeof sql, "SELECT name FROM pragma_table_info('%s')", type->table);
        assert_string_equal(want, ask(r.db, sql));
    }
    assert_string_equal("batch_epoch batch_id skip_damaged",
                        ask(r.db, "SELECT name FROM pragma_table_xinfo('otel_spans_local')"
                                  " WHERE hidden = 1"));
    rig_close(&r);
}

static void put_batch(rig *r, tide_record_batch *batch, const char *stream)
{
    tide_feed_records records = tide_record_batch_feed(batch, stream);
    assert_ok_err(tide_feed_commit(r->feed, &records, 1, &r->t->err), &r->t->err);
    tide_record_batch_done(batch);
}

static void put_span(rig *r)
{
    tide_record_batch batch;
    tide_record_batch_init(&batch, tide_stream_type_of(TIDE_STREAM_TELEMETRY), 0);
    tide_record_begin(&batch);
    tide_record_i64(&batch, TIDE_SPAN_TIMESTAMP, START_MS);
    tide_record_text(&batch, TIDE_SPAN_TRACE_ID, tide_view_of("abc"));
    tide_record_text(&batch, TIDE_SPAN_SERVICE_NAME, tide_view_of("caf\xc3\xa9"));
    tide_record_f64(&batch, TIDE_SPAN_DURATION_MS, 2.5);
    tide_record_bool(&batch, TIDE_SPAN_IS_ERROR, true);
    tide_record_i64(&batch, TIDE_SPAN_HTTP_STATUS, -1);
    tide_record_pair(&batch, TIDE_SPAN_ATTRIBUTES, tide_view_of("k\""), tide_view_of("v\n"));
    tide_record_pair(&batch, TIDE_SPAN_ATTRIBUTES, tide_view_of("e"), tide_view_of(""));
    assert_ok(tide_record_end(&batch));
    put_batch(r, &batch, NULL);
}

static void put_profile(rig *r)
{
    const uint64_t ids[] = {1, UINT64_MAX, 300};
    tide_record_batch batch;
    tide_record_batch_init(&batch, tide_stream_type_of(TIDE_STREAM_CPU_PROFILE), 0);
    tide_record_begin(&batch);
    tide_record_text(&batch, TIDE_CPU_PROFILE_SERVICE_ID, tide_view_of("svc"));
    tide_record_u64(&batch, TIDE_CPU_PROFILE_STACK_HASH, UINT64_MAX);
    tide_record_ids(&batch, TIDE_CPU_PROFILE_STACK_FRAME_IDS, ids, 3);
    tide_record_i64(&batch, TIDE_CPU_PROFILE_SAMPLE_COUNT, 7);
    assert_ok(tide_record_end(&batch));
    put_batch(r, &batch, NULL);
}

static void put_opaque(rig *r, const char *stream, tide_view data)
{
    tide_record_batch batch;
    tide_record_batch_init(&batch, tide_stream_type_of(TIDE_STREAM_OPAQUE), 0);
    tide_record_begin(&batch);
    tide_record_blob(&batch, TIDE_OPAQUE_DATA, data);
    assert_ok(tide_record_end(&batch));
    put_batch(r, &batch, stream);
}

/* Numbers are numbers, flags 0 and 1, maps and lists JSON, bytes a BLOB; what was left out has its default, never NULL. */
static void columns_have_the_types_of_their_kinds(void **state)
{
    rig r = rig_open(state);
    put_span(&r);
    put_profile(&r);
    assert_ok_err(tide_feed_declare(r.feed, "orders", &r.t->err), &r.t->err);
    put_opaque(&r, "orders", tide_view_bytes("a\0b", 3));
    open_db(&r, SQLITE_OPEN_READONLY);
    assert_string_equal("1|1700000000000|abc||caf\xc3\xa9|2.5|1|-1|{\"k\\\"\":\"v\\n\",\"e\":\"\"}",
                        ask(r.db,
                            "SELECT seq_id, timestamp, trace_id, parent_span_id, service_name,"
                            " duration_ms, is_error, http_status, attributes"
                            " FROM otel_spans_local"));
    assert_string_equal("integer|text|real|integer|text|text",
                        ask(r.db, "SELECT typeof(seq_id), typeof(span_id), typeof(duration_ms),"
                                  " typeof(is_error), typeof(attributes), typeof(arrived_at)"
                                  " FROM otel_spans_local"));
    assert_string_equal("-1|18446744073709551615|[1,18446744073709551615,300]|7|svc",
                        ask(r.db, "SELECT stack_hash, printf('%llu', stack_hash), stack_frame_ids,"
                                  " sample_count, service_id FROM cpu_profile_samples_local"));
    assert_string_equal("1|610062|blob|{}",
                        ask(r.db, "SELECT seq_id, hex(data), typeof(data), attributes"
                                  " FROM orders_local"));
    rig_close(&r);
}

static void arrival_epoch_and_batch_are_those_of_the_batch(void **state)
{
    rig r = rig_open(state);
    fill(&r);
    assert_string_equal("1 1",
                        ask(r.db, "SELECT l.arrived_at = b.arrived_at AND l.batch_epoch = b.epoch"
                                  " AND l.seq_id BETWEEN b.first_seq AND b.last_seq"
                                  " FROM logs_local l JOIN feed_batches b ON b.id = l.batch_id"
                                  " WHERE l.seq_id IN (1, 195)"));
    assert_int_equal(7, number(r.db, "SELECT rowid FROM logs_local WHERE rowid = 7"));
    rig_close(&r);
}

/* ---- what is pushed down ---- */

static void numbers_open_only_their_batches(void **state)
{
    rig r = rig_open(state);
    fill(&r);
    assert_int_equal(1, opened_by(r.db, "SELECT body FROM logs_local WHERE seq_id = 55"));
    assert_int_equal(3, opened_by(r.db, "SELECT body FROM logs_local"
                                        " WHERE seq_id > 50 AND seq_id <= 80"));
    assert_int_equal(2, opened_by(r.db, "SELECT body FROM logs_local WHERE seq_id >= 190"));
    assert_int_equal(1, opened_by(r.db, "SELECT body FROM logs_local WHERE rowid < 11"));
    assert_int_equal(0, opened_by(r.db, "SELECT body FROM logs_local WHERE seq_id > 200"));
    assert_int_equal(0, opened_by(r.db, "SELECT body FROM logs_local WHERE seq_id = NULL"));
    assert_int_equal(2, opened_by(r.db, "SELECT body FROM logs_local WHERE seq_id IN (5, 115)"));
    assert_string_equal("55|s0 4", ask(r.db, "SELECT seq_id, body FROM logs_local"
                                             " WHERE seq_id = 55"));
    rig_close(&r);
}

/* Either way along the numbers: no sort, and a LIMIT ends the walk. */
static void order_by_number_costs_no_sort_and_a_limit_ends_the_walk(void **state)
{
    rig r = rig_open(state);
    fill(&r);
    assert_int_equal(1, opened_by(r.db, "SELECT body FROM logs_local ORDER BY seq_id LIMIT 3"));
    assert_int_equal(1,
                     opened_by(r.db, "SELECT body FROM logs_local ORDER BY seq_id DESC LIMIT 3"));
    assert_string_equal(
        "200|s4 9 199|s4 8 198|s4 7",
        ask(r.db, "SELECT seq_id, body FROM logs_local ORDER BY seq_id DESC LIMIT 3"));
    assert_int_equal(2, opened_by(r.db, "SELECT body FROM logs_local WHERE seq_id <= 75"
                                        " ORDER BY seq_id DESC LIMIT 6"));
    assert_string_equal("75 74 73 72 71 70",
                        ask(r.db, "SELECT seq_id FROM logs_local WHERE seq_id <= 75"
                                  " ORDER BY rowid DESC LIMIT 6"));
    assert_null(strstr(ask(r.db, "EXPLAIN QUERY PLAN SELECT body FROM logs_local"
                                 " ORDER BY seq_id DESC, body"),
                       "B-TREE"));
    assert_non_null(strstr(
        ask(r.db, "EXPLAIN QUERY PLAN SELECT body FROM logs_local ORDER BY body"), "B-TREE"));
    assert_int_equal(200, number(r.db, "SELECT max(seq_id) FROM logs_local WHERE body > ''"));
    rig_close(&r);
}

static void times_pass_over_batches(void **state)
{
    rig r = rig_open(state);
    fill(&r);
    assert_int_equal(
        1, opened_by(r.db, "SELECT body FROM logs_local WHERE timestamp = 1700000003005"));
    assert_int_equal(2,
                     opened_by(r.db, "SELECT body FROM logs_local"
                                     " WHERE timestamp BETWEEN 1700000003000 AND 1700000004001"));
    assert_int_equal(20, opened_by(r.db, "SELECT body FROM logs_local WHERE timestamp + 0 > 0"));
    char arrived[64];
    snprintf(arrived, sizeof arrived, "%s",
             ask(r.db, "SELECT arrived_at FROM logs_local WHERE seq_id = 31"));
    char sql[256];
    snprintf(sql, sizeof sql, "SELECT body FROM logs_local WHERE arrived_at = '%s'", arrived);
    assert_int_equal(1, opened_by(r.db, sql));
    /* The fourth is let in by its head, and refused by SQLite. */
    snprintf(sql, sizeof sql, "SELECT count(body) FROM logs_local WHERE arrived_at < '%s'",
             arrived);
    assert_int_equal(4, opened_by(r.db, sql));
    assert_int_equal(30, number(r.db, sql));
    rig_close(&r);
}

static void services_pass_over_batches(void **state)
{
    rig r = rig_open(state);
    fill(&r);
    assert_int_equal(4, opened_by(r.db, "SELECT body FROM logs_local WHERE service_name = 's2'"));
    assert_int_equal(40,
                     number(r.db, "SELECT count(body) FROM logs_local WHERE service_name = 's2'"));
    assert_int_equal(0, opened_by(r.db, "SELECT body FROM logs_local WHERE service_name = 'S2'"));
    assert_int_equal(0, opened_by(r.db, "SELECT body FROM logs_local WHERE service_name = 'none'"));
    assert_int_equal(8, opened_by(r.db, "SELECT body FROM logs_local"
                                        " WHERE service_name IN ('s1', 's3', 'none')"));
    assert_int_equal(80, number(r.db, "SELECT count(body) FROM logs_local"
                                      " WHERE service_name IN ('s1', 's3', NULL)"));
    /* Another way of comparing is not ours to judge by bytes. */
    assert_int_equal(40, number(r.db, "SELECT count(body) FROM logs_local"
                                      " WHERE service_name = 'S2' COLLATE NOCASE"));
    assert_int_equal(1, opened_by(r.db, "SELECT body FROM logs_local WHERE service_name = 's2'"
                                        " AND seq_id < 60"));
    rig_close(&r);
}

/* What heads alone can answer opens nothing. */
static void counting_opens_no_batch(void **state)
{
    rig r = rig_open(state);
    fill(&r);
    assert_int_equal(0, opened_by(r.db, "SELECT count(*), min(seq_id), max(arrived_at)"
                                        " FROM logs_local"));
    assert_string_equal("200|1|200", ask(r.db, "SELECT count(*), min(seq_id), max(seq_id)"
                                               " FROM logs_local"));
    assert_int_equal(46, number(r.db, "SELECT count(*) FROM logs_local"
                                      " WHERE seq_id BETWEEN 15 AND 60"));
    rig_close(&r);
}

/* A join that looks up neighbours finds them in the batch that is open already. */
static void a_batch_that_is_open_is_used_again(void **state)
{
    rig r = rig_open(state);
    fill(&r);
    assert_int_equal(2, opened_by(r.db, "WITH RECURSIVE n(i) AS (SELECT 61 UNION ALL"
                                        " SELECT i + 1 FROM n WHERE i < 80)"
                                        " SELECT l.body FROM n CROSS JOIN logs_local l"
                                        " ON l.seq_id = n.i"));
    assert_int_equal(18, stat_of(r.db, "reused"));
    rig_close(&r);
}

/* ---- whatever is pushed down, the answer is SQLite's own ---- */

static const char *const TERMS[] = {
    "seq_id > %d",
    "seq_id >= %d",
    "seq_id < %d + 100",
    "seq_id <= %d + 90.5",
    "seq_id = %d",
    "seq_id > '%d'",
    "seq_id < 'x%d'",
    "seq_id > %d - 0.5",
    "rowid < %d * 2",
    "timestamp >= 1700000000000 + %d * 90",
    "timestamp < 1700000000000 + %d * 90.5",
    "timestamp = 1700000000000 + %d",
    "service_name = 's' || (%d %% 7)",
    "service_name > 's' || (%d %% 5)",
    "service_name IN ('s1', 's' || (%d %% 5))",
    "service_name = %d",
    "arrived_at > (SELECT arrived_at FROM copy WHERE seq_id = %d %% 200 + 1)",
    "arrived_at <= (SELECT arrived_at FROM copy WHERE seq_id = %d %% 200 + 1)",
    "arrived_at > %d",
    "seq_id IS NOT %d",
    "service_name LIKE 's%d%%'",
    "seq_id <> %d",
    "service_name = 'S' || (%d %% 5) COLLATE NOCASE",
    "seq_id IN (%d, 7, 7.0, '8', NULL)",
};

static const char *const ORDERS[] = {"", " ORDER BY seq_id", " ORDER BY seq_id DESC",
                                     " ORDER BY seq_id DESC, body", " ORDER BY arrived_at, seq_id"};

static void every_condition_gives_what_a_plain_table_gives(void **state)
{
    rig r = rig_open(state);
    fill(&r);
    assert_int_equal(
        SQLITE_OK,
        sqlite3_exec(r.db,
                     "CREATE TEMP TABLE copy (seq_id INTEGER PRIMARY KEY,"
                     " timestamp INTEGER, service_name TEXT, body TEXT, arrived_at TEXT);"
                     "INSERT INTO copy SELECT seq_id, timestamp, service_name, body,"
                     " arrived_at FROM logs_local",
                     NULL, NULL, NULL));
    prng p;
    prng_init(&p, prng_seed_from_env(20260411));
    for (int round = 0; round < 400; round++) {
        char where[1024] = "1";
        const int terms = 1 + (int)prng_below(&p, 3);
        for (int i = 0; i < terms; i++) {
            char term[256];
            const char *form = TERMS[prng_below(&p, sizeof TERMS / sizeof TERMS[0])];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
            snprintf(term, sizeof term, form, (int)prng_below(&p, 220));
#pragma GCC diagnostic pop
            snprintf(where + strlen(where), sizeof where - strlen(where), " AND %s", term);
        }
        const size_t order = prng_below(&p, sizeof ORDERS / sizeof ORDERS[0]);
        const char *columns = prng_chance(&p, 1, 3) ? "seq_id" : "seq_id, body";
        char limit[32] = "";
        if (order > 0 && prng_chance(&p, 1, 3))
            snprintf(limit, sizeof limit, " LIMIT %d OFFSET %d", (int)prng_below(&p, 30),
                     (int)prng_below(&p, 30));
        char sql[2048];
        snprintf(sql, sizeof sql, "SELECT %s FROM copy WHERE %s%s%s", columns, where,
                 order > 0 ? ORDERS[order] : " ORDER BY seq_id", limit);
        char want[65536];
        snprintf(want, sizeof want, "%s", ask(r.db, sql));
        snprintf(sql, sizeof sql, "SELECT %s FROM logs_local WHERE %s%s%s", columns, where,
                 ORDERS[order], limit);
        const char *got = ask(r.db, sql);
        if (strcmp(want, got) != 0 && order > 0)
            fail_msg("round %d: %s\nwant %s\ngot  %s", round, sql, want, got);
        if (order == 0 && strlen(want) != strlen(got)) /* any order: the same rows */
            fail_msg("round %d: %s\nwant %s\ngot  %s", round, sql, want, got);
    }
    rig_close(&r);
}

/* ---- damage ---- */

static void damage(rig *r, const char *change)
{
    char sql[256];
    run_sql(r->t, "DROP TRIGGER IF EXISTS feed_batches_keep");
    snprintf(sql, sizeof sql, "UPDATE feed_batches SET %s WHERE first_seq = 51", change);
    run_sql(r->t, sql);
}

/* A query must not miss rows silently: it fails and names the batch, unless it says that it does not mind. */
static void a_damaged_body_fails_the_query_that_needs_it(void **state)
{
    rig r = rig_open(state);
    fill(&r);
    damage(&r, "body = CAST(zeroblob(length(body)) AS BLOB)");
    assert_refused(r.db, "SELECT body FROM logs_local", SQLITE_CORRUPT_VTAB,
                   "with the numbers 51 to 60 is damaged");
    assert_refused(r.db, "SELECT body FROM logs_local ORDER BY seq_id DESC", SQLITE_CORRUPT_VTAB,
                   "skip_damaged = 1");
    assert_int_equal(50, number(r.db, "SELECT count(body) FROM logs_local WHERE seq_id <= 50"));
    assert_int_equal(190,
                     number(r.db, "SELECT count(body) FROM logs_local WHERE skip_damaged = 1"));
    assert_int_equal(1, stat_of(r.db, "damaged"));
    assert_int_equal(1, number(r.db, "SELECT min(skip_damaged) FROM logs_local"
                                     " WHERE skip_damaged = 1"));
    rig_close(&r);
}

static void a_damaged_head_is_not_believed(void **state)
{
    static const char *const changes[] = {
        "min_time_ms = min_time_ms + 5000, max_time_ms = max_time_ms + 5000",
        "services = CAST('x' AS BLOB)",
        "chain = zeroblob(3)",
        "arrived_at = 'yesterday'",
        "raw_len = 1000000000000",
        "codec = 9",
    };
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        rig r = rig_open(state);
        if (i == 0)
            fill(&r);
        else
            open_db(&r, SQLITE_OPEN_READWRITE);
        run_sql(r.t, "DROP TRIGGER IF EXISTS feed_batches_keep");
        run_sql(r.t, "CREATE TABLE IF NOT EXISTS saved AS SELECT * FROM feed_batches"
                     " WHERE first_seq = 51");
        damage(&r, changes[i]);
        assert_refused(r.db, "SELECT count(*) FROM logs_local", SQLITE_CORRUPT_VTAB,
                       "head's checksum does not fit");
        /* It might be what is asked for: a head that cannot be believed is not passed over. */
        assert_refused(r.db,
                       "SELECT body FROM logs_local WHERE service_name = 's0' AND timestamp < 1",
                       SQLITE_CORRUPT_VTAB, "51 to 60");
        run_sql(r.t,
                "UPDATE feed_batches SET min_time_ms = s.min_time_ms, max_time_ms = s.max_time_ms,"
                " services = s.services, chain = s.chain, arrived_at = s.arrived_at,"
                " raw_len = s.raw_len, codec = s.codec FROM saved s"
                " WHERE feed_batches.id = s.id");
        assert_int_equal(200, number(r.db, "SELECT count(*) FROM logs_local"));
        rig_close(&r);
    }
}

/* What is on record as lost is accounted for; nobody needs to be stopped. */
static void numbers_on_record_as_lost_are_just_not_there(void **state)
{
    rig r = rig_open(state);
    fill(&r);
    damage(&r, "body = CAST('' AS BLOB)");
    tide_feed_answer answer =
        read_feed(r.feed, (tide_feed_request){TIDE_FEED_REQUEST_INIT, .start_seq = 0});
    assert_hole(&answer, 0, 51, 60, "damaged");
    tide_feed_answer_done(&answer);
    assert_int_equal(190, number(r.db, "SELECT count(body) FROM logs_local"));
    assert_string_equal("logs|51|60|damaged",
                        ask(r.db, "SELECT stream, first_seq_id, last_seq_id, reason"
                                  " FROM loss_receipts_local"));
    rig_close(&r);
}

/* ---- reading beside writers ---- */

static void a_cursor_sees_one_snapshot(void **state)
{
    rig r = rig_open(state);
    fill(&r);
    sqlite3_stmt *statement = NULL;
    assert_int_equal(SQLITE_OK,
                     sqlite3_prepare_v2(r.db, "SELECT body FROM logs_local", -1, &statement, NULL));
    int rows = 0;
    while (sqlite3_step(statement) == SQLITE_ROW)
        if (++rows == 15)
            (void)put_logs(r.feed, 5, "late", START_MS);
    assert_int_equal(200, rows);
    sqlite3_finalize(statement);
    assert_int_equal(205, number(r.db, "SELECT count(*) FROM logs_local"));
    rig_close(&r);
}

static void the_tables_are_read_only(void **state)
{
    rig r = rig_open(state);
    fill(&r);
    assert_refused(r.db, "DELETE FROM logs_local", SQLITE_ERROR, "may not be modified");
    assert_refused(r.db, "INSERT INTO logs_local (body) VALUES ('x')", SQLITE_ERROR,
                   "may not be modified");
    rig_close(&r);
}

/* ---- which tables there are ---- */

static void a_stream_of_another_schema_is_named_by_hand(void **state)
{
    rig r = rig_open(state);
    fill(&r);
    assert_ok_err(tide_feed_declare(r.feed, "or-ders", &r.t->err), &r.t->err);
    put_opaque(&r, "or-ders", tide_view_of("one"));
    assert_int_equal(SQLITE_OK, sqlite3_exec(r.db,
                                             "CREATE VIRTUAL TABLE temp.mine"
                                             " USING tidemark_stream('or-ders')",
                                             NULL, NULL, NULL));
    assert_string_equal("1|one", ask(r.db, "SELECT seq_id, CAST(data AS TEXT) FROM mine"));
    sqlite3 *other = NULL;
    assert_int_equal(SQLITE_OK, sqlite3_open(":memory:", &other));
    assert_int_equal(SQLITE_OK, tide_vtab_register(other, &r.t->clock.env));
    char sql[PATH_MAX + 64];
    snprintf(sql, sizeof sql, "ATTACH '%s' AS 'a \"store\"'", path_of(r.t));
    assert_int_equal(SQLITE_OK, sqlite3_exec(other, sql, NULL, NULL, NULL));
    (void)ask(other, "CREATE VIRTUAL TABLE temp.l USING tidemark_stream(logs, 'a \"store\"')");
    assert_int_equal(200, number(other, "SELECT count(body) FROM l"));
    assert_int_equal(200, number(other, "SELECT currval('seq_logs', 'a \"store\"')"));
    assert_refused(other, "SELECT * FROM logs_local", SQLITE_ERROR, "no Tidemark store");
    assert_refused(other,
                   "CREATE VIRTUAL TABLE temp.x USING tidemark_stream(nothing, 'a \"store\"')",
                   SQLITE_ERROR, "no stream 'nothing'");
    assert_refused(other, "CREATE VIRTUAL TABLE temp.x USING tidemark_stream()", SQLITE_ERROR,
                   "name of a stream");
    assert_int_equal(SQLITE_OK, sqlite3_close(other));
    rig_close(&r);
}

/* ---- numbers ---- */

static void nextval_takes_numbers_and_currval_tells_the_last(void **state)
{
    rig r = rig_open(state);
    open_db(&r, SQLITE_OPEN_READWRITE);
    assert_refused(r.db, "SELECT currval('orders')", SQLITE_ERROR, "was ever taken");
    assert_int_equal(1, number(r.db, "SELECT nextval('orders')"));
    assert_int_equal(2, number(r.db, "SELECT nextval('orders')"));
    assert_int_equal(2, number(r.db, "SELECT currval('orders')"));
    tide_sequence_range range;
    assert_ok_err(tide_sequence_next(r.t->store, "orders", 10, &range, NULL, &r.t->err), &r.t->err);
    assert_int_equal(3, range.first);
    assert_int_equal(12, number(r.db, "SELECT currval('orders')"));
    assert_int_equal(13, number(r.db, "SELECT nextval('orders')"));
    rig_close(&r);
}

/* A number belongs to the transaction that takes it: rolled back, it is given again. */
static void a_number_rolled_back_is_given_again(void **state)
{
    rig r = rig_open(state);
    open_db(&r, SQLITE_OPEN_READWRITE);
    assert_int_equal(
        SQLITE_OK, sqlite3_exec(r.db,
                                "CREATE TABLE rows (id INTEGER, x TEXT); BEGIN;"
                                "INSERT INTO rows VALUES (nextval('r'), 'a'), (nextval('r'), 'b');"
                                "ROLLBACK; BEGIN;"
                                "INSERT INTO rows VALUES (nextval('r'), 'c'); COMMIT",
                                NULL, NULL, NULL));
    assert_string_equal("1|c", ask(r.db, "SELECT * FROM rows"));
    assert_int_equal(1, number(r.db, "SELECT currval('r')"));
    rig_close(&r);
}

/* The numbers of a stream belong to its records. */
static void nextval_of_a_stream_is_refused_and_currval_works(void **state)
{
    rig r = rig_open(state);
    fill(&r);
    assert_int_equal(200, number(r.db, "SELECT currval('seq_logs')"));
    assert_refused(r.db, "SELECT nextval('seq_logs')", SQLITE_ERROR, "belong to a stream");
    assert_refused(r.db, "SELECT nextval('seq_otel_spans')", SQLITE_ERROR, "belong to a stream");
    assert_int_equal(200, number(r.db, "SELECT currval('seq_logs')"));
    rig_close(&r);
}

static void nextval_says_why_it_cannot(void **state)
{
    rig r = rig_open(state);
    open_db(&r, SQLITE_OPEN_READONLY);
    assert_refused(r.db, "SELECT nextval('orders')", SQLITE_READONLY,
                   "this connection is read only");
    assert_refused(r.db, "SELECT nextval('')", SQLITE_ERROR, "1 to 128 bytes");
    assert_refused(r.db, "SELECT nextval(' a')", SQLITE_ERROR, "space");
    assert_refused(r.db, "SELECT nextval(NULL)", SQLITE_ERROR, "is a text");
    assert_refused(r.db, "SELECT nextval(5)", SQLITE_ERROR, "is a text");
    assert_refused(r.db, "SELECT currval('a' || char(10))", SQLITE_ERROR, "control");
    rig_close(&r);
}

static void a_sequence_that_has_no_number_left_says_so(void **state)
{
    rig r = rig_open(state);
    open_db(&r, SQLITE_OPEN_READWRITE);
    assert_ok_err(tide_sequence_raise(r.t->store, "full", INT64_MAX, NULL, &r.t->err), &r.t->err);
    assert_refused(r.db, "SELECT nextval('full')", SQLITE_ERROR, "no number left");
    rig_close(&r);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE_SQLITE(every_built_in_stream_is_a_table),
        STORE_CASE_SQLITE(columns_have_the_types_of_their_kinds),
        STORE_CASE_SQLITE(arrival_epoch_and_batch_are_those_of_the_batch),
        STORE_CASE_SQLITE(numbers_open_only_their_batches),
        STORE_CASE_SQLITE(order_by_number_costs_no_sort_and_a_limit_ends_the_walk),
        STORE_CASE_SQLITE(times_pass_over_batches),
        STORE_CASE_SQLITE(services_pass_over_batches),
        STORE_CASE_SQLITE(counting_opens_no_batch),
        STORE_CASE_SQLITE(a_batch_that_is_open_is_used_again),
        STORE_CASE_SQLITE(every_condition_gives_what_a_plain_table_gives),
        STORE_CASE_SQLITE(a_damaged_body_fails_the_query_that_needs_it),
        STORE_CASE_SQLITE(a_damaged_head_is_not_believed),
        STORE_CASE_SQLITE(numbers_on_record_as_lost_are_just_not_there),
        STORE_CASE_SQLITE(a_cursor_sees_one_snapshot),
        STORE_CASE_SQLITE(the_tables_are_read_only),
        STORE_CASE_SQLITE(a_stream_of_another_schema_is_named_by_hand),
        STORE_CASE_SQLITE(nextval_takes_numbers_and_currval_tells_the_last),
        STORE_CASE_SQLITE(a_number_rolled_back_is_given_again),
        STORE_CASE_SQLITE(nextval_of_a_stream_is_refused_and_currval_works),
        STORE_CASE_SQLITE(nextval_says_why_it_cannot),
        STORE_CASE_SQLITE(a_sequence_that_has_no_number_left_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
