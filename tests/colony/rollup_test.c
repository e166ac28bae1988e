/* Rollups: buckets that grow by 2 %, sums that can be made in any order. */
#include "colony/sink_fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "colony/rollup.h"
#include "support/prng.h"

static void a_duration_lies_in_the_lowest_bucket_that_holds_it(void **state)
{
    (void)state;
    assert_int_equal(0, tide_rollup_bucket(0));
    assert_int_equal(0, tide_rollup_bucket(-5));
    assert_int_equal(0, tide_rollup_bucket(NAN));
    assert_int_equal(0, tide_rollup_bucket(0.001));
    assert_int_equal(1, tide_rollup_bucket(0.00101));
    assert_int_equal(TIDE_ROLLUP_BUCKETS - 1, tide_rollup_bucket(INFINITY));
    assert_int_equal(TIDE_ROLLUP_BUCKETS - 1, tide_rollup_bucket(1e300));
    for (int i = 0; i < TIDE_ROLLUP_BUCKETS; i++) {
        assert_int_equal(i, tide_rollup_bucket(tide_rollup_bound(i)));
        if (i > 0)
            assert_int_equal(i, tide_rollup_bucket(nextafter(tide_rollup_bound(i - 1), 1e300)));
    }
    double ms = 0.002;
    while (ms < 1e9) {
        const double bound = tide_rollup_bound(tide_rollup_bucket(ms));
        assert_true(bound >= ms && bound <= ms * 1.0200001);
        ms *= 1.37;
    }
}

/* Adding row by row, and sorting, against counting anew. */
static void many_rows_are_added_up(void **state)
{
    (void)state;
    const tide_stream_type *type = tide_stream_type_of(TIDE_STREAM_BEYLA_HTTP);
    TIDE_CLEANUP(tide_rollup_done) tide_rollup rollup;
    tide_rollup_init(&rollup, type);
    static const char *const services[] = {"api", "db", "ap", "", "web"};
    prng random;
    prng_init(&random, prng_seed_from_env(7));
    int64_t total = 0;
    int64_t errors = 0;
    tide_error err;
    for (int i = 0; i < 20000; i++) {
        tide_record_row row = {0};
        row.values[TIDE_HTTP_METRIC_LATENCY_BUCKET_MS].f64 = (double)(prng_below(&random, 5000));
        row.values[TIDE_HTTP_METRIC_COUNT].i64 = (int64_t)(prng_below(&random, 10)) - 1;
        row.values[TIDE_HTTP_METRIC_HTTP_STATUS_CODE].i64 = prng_below(&random, 2) ? 503 : 404;
        const int64_t count = row.values[TIDE_HTTP_METRIC_COUNT].i64;
        total += count > 0 ? count : 0;
        errors += count > 0 && row.values[TIDE_HTTP_METRIC_HTTP_STATUS_CODE].i64 == 503 ? count : 0;
        const int64_t minute = (int64_t)(prng_below(&random, 7)) - 3;
        assert_ok(tide_rollup_add(&rollup, &row, tide_view_of(services[prng_below(&random, 5)]),
                                  minute * TIDE_ROLLUP_MINUTE_US + 1, &err));
    }
    tide_rollup_sort(&rollup);
    for (int i = 0; i < rollup.count; i++) {
        const tide_rollup_entry *e = &rollup.entries[i];
        total -= e->count;
        errors -= e->errors;
        assert_int_equal(0, e->minute_us % TIDE_ROLLUP_MINUTE_US);
        for (int j = i + 1; j < rollup.count && j < i + 2; j++)
            assert_false(e->minute_us == e[1].minute_us && e->bucket == e[1].bucket &&
                         tide_view_equal(e->service, e[1].service));
    }
    assert_int_equal(0, total);
    assert_int_equal(0, errors);
}

static void nonsense_counts_do_not_overflow(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_rollup_done) tide_rollup rollup;
    tide_rollup_init(&rollup, tide_stream_type_of(TIDE_STREAM_BEYLA_SQL));
    tide_error err;
    tide_record_row row = {0};
    row.values[TIDE_SQL_METRIC_COUNT].i64 = INT64_MAX;
    for (int i = 0; i < 5; i++)
        assert_ok(tide_rollup_add(&rollup, &row, tide_view_of("x"), 0, &err));
    assert_int_equal(1, rollup.count);
    assert_true(rollup.entries[0].count == TIDE_ROLLUP_COUNT_MAX);
}

/* ---- in a store ---- */

static void put(tide_sink *sink, page *p, const char *agent, tide_stream_kind kind)
{
    tide_error err;
    page_close(p);
    TIDE_CLEANUP(tide_position_done) tide_position at;
    load_position(sink, agent, tide_stream_type_of(kind)->name, &at);
    TIDE_CLEANUP(tide_change_done) tide_change change;
    change_begin(&change, &at, sink->env->wall_us(sink->env));
    change_store(&change, p);
    assert_ok_err(tide_sink_apply(sink, &change, &err), &err);
}

/* 1000 spans + 1 recovered = 1001. */
static void a_recovered_span_is_in_its_minute_once(void **state)
{
    store_test *t = *state;
    TIDE_CLEANUP(tide_sink_closep) tide_sink *sink = NULL;
    assert_ok(tide_sink_open_sql(&sink, t->store, &t->err));
    TIDE_CLEANUP(page_done) page all;
    page_init(&all, TIDE_STREAM_TELEMETRY);
    for (int64_t seq = 1; seq <= 1001; seq++)
        if (seq != 500)
            page_span(&all, seq, 0, "api", (double)seq, seq % 100 == 0);
    put(sink, &all, "a", TIDE_STREAM_TELEMETRY);
    assert_int_equal(1000, ask_number(sink, "SELECT count FROM spans_1m"));
    TIDE_CLEANUP(page_done) page late;
    page_init(&late, TIDE_STREAM_TELEMETRY);
    page_span(&late, 500, 0, "api", 500, true);
    put(sink, &late, "a", TIDE_STREAM_TELEMETRY);
    assert_int_equal(
        1001, ask_number(sink, "SELECT count FROM spans_1m WHERE agent_id = 'a' AND service_name = "
                               "'api' AND CAST(minute AS text) LIKE '2025-01-01 12:00:00%'"));
    assert_int_equal(10, ask_number(sink, "SELECT errors FROM spans_1m"));
    static const struct {
        const char *sql;
        double want;
    } percentiles[] = {{"SELECT p50_ms FROM spans_1m", 501},
                       {"SELECT p95_ms FROM spans_1m", 951},
                       {"SELECT p99_ms FROM spans_1m", 991}};
    for (size_t i = 0; i < sizeof percentiles / sizeof percentiles[0]; i++) {
        char text[64];
        ask_text(sink, percentiles[i].sql, text, sizeof text);
        const double ms = strtod(text, NULL);
        assert_true(ms >= percentiles[i].want && ms <= percentiles[i].want * 1.0201);
    }
}

/* Bounds in the table are those of the program: to the last bit. */
static void the_tables_bounds_are_the_programs(void **state)
{
    store_test *t = *state;
    TIDE_CLEANUP(tide_sink_closep) tide_sink *sink = NULL;
    assert_ok(tide_sink_open_sql(&sink, t->store, &t->err));
    assert_int_equal(TIDE_ROLLUP_BUCKETS, ask_number(sink, "SELECT count(*) FROM rollup_bounds"));
    for (int i = 0; i < TIDE_ROLLUP_BUCKETS; i += 250) {
        char sql[128];
        (void)snprintf(sql, sizeof sql,
                       "SELECT count(*) FROM rollup_bounds WHERE bucket = %d AND ms = %.17g", i,
                       tide_rollup_bound(i));
        assert_int_equal(1, ask_number(sink, sql));
    }
}

static void each_kind_of_metric_is_summed_up(void **state)
{
    store_test *t = *state;
    TIDE_CLEANUP(tide_sink_closep) tide_sink *sink = NULL;
    assert_ok(tide_sink_open_sql(&sink, t->store, &t->err));
    static const struct {
        tide_stream_kind kind;
        int time, service, bucket, count, status;
        const char *view;
        int64_t errors;
    } kinds[] = {
        {TIDE_STREAM_BEYLA_HTTP, TIDE_HTTP_METRIC_TIMESTAMP, TIDE_HTTP_METRIC_SERVICE_NAME,
         TIDE_HTTP_METRIC_LATENCY_BUCKET_MS, TIDE_HTTP_METRIC_COUNT,
         TIDE_HTTP_METRIC_HTTP_STATUS_CODE, "ebpf_http_metrics_1m", 3},
        {TIDE_STREAM_BEYLA_GRPC, TIDE_GRPC_METRIC_TIMESTAMP, TIDE_GRPC_METRIC_SERVICE_NAME,
         TIDE_GRPC_METRIC_LATENCY_BUCKET_MS, TIDE_GRPC_METRIC_COUNT,
         TIDE_GRPC_METRIC_GRPC_STATUS_CODE, "ebpf_grpc_metrics_1m", 10},
        {TIDE_STREAM_BEYLA_SQL, TIDE_SQL_METRIC_TIMESTAMP, TIDE_SQL_METRIC_SERVICE_NAME,
         TIDE_SQL_METRIC_LATENCY_BUCKET_MS, TIDE_SQL_METRIC_COUNT, -1, "ebpf_sql_metrics_1m", 0},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        TIDE_CLEANUP(page_done) page p;
        page_init(&p, kinds[i].kind);
        for (int64_t seq = 1; seq <= 2; seq++) {
            tide_record_begin(&p.batch);
            tide_record_i64(&p.batch, kinds[i].time, NOON_MS);
            tide_record_text(&p.batch, kinds[i].service, tide_view_of("api"));
            tide_record_f64(&p.batch, kinds[i].bucket, seq == 1 ? 10 : 100);
            tide_record_i64(&p.batch, kinds[i].count, seq == 1 ? 7 : 3);
            if (kinds[i].status >= 0)
                tide_record_i64(&p.batch, kinds[i].status, seq == 1 ? 200 : 500);
            page_end_record(&p, seq);
        }
        put(sink, &p, "a", kinds[i].kind);
        char sql[128];
        (void)snprintf(sql, sizeof sql, "SELECT count FROM %s", kinds[i].view);
        assert_int_equal(10, ask_number(sink, sql));
        (void)snprintf(sql, sizeof sql, "SELECT errors FROM %s", kinds[i].view);
        assert_int_equal(kinds[i].errors, ask_number(sink, sql));
        char text[64];
        (void)snprintf(sql, sizeof sql, "SELECT p50_ms FROM %s", kinds[i].view);
        ask_text(sink, sql, text, sizeof text);
        assert_true(strtod(text, NULL) >= 10 && strtod(text, NULL) < 10.3);
    }
}

/* A service's name may be anything: an index takes no long keys, and one record must not stop a stream. */
static void a_long_service_name_is_cut_in_the_summary(void **state)
{
    store_test *t = *state;
    TIDE_CLEANUP(tide_sink_closep) tide_sink *sink = NULL;
    assert_ok(tide_sink_open_sql(&sink, t->store, &t->err));
    TIDE_CLEANUP(tide_freep) char *name = malloc(100001);
    assert_non_null(name);
    /* What does not repeat itself, so that nothing compresses it away. */
    prng random;
    prng_init(&random, prng_seed_from_env(11));
    for (int i = 0; i < 100000; i++)
        name[i] = (char)('!' + prng_below(&random, 90));
    name[100000] = '\0';
    TIDE_CLEANUP(page_done) page p;
    page_init(&p, TIDE_STREAM_TELEMETRY);
    page_span(&p, 1, 0, name, 1, false);
    put(sink, &p, "a", TIDE_STREAM_TELEMETRY);
    assert_int_equal(256, ask_number(sink, "SELECT length(service_name) FROM spans_1m"));
    assert_int_equal(100000, ask_number(sink, "SELECT length(service_name) FROM spans"));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_duration_lies_in_the_lowest_bucket_that_holds_it),
        cmocka_unit_test(many_rows_are_added_up),
        cmocka_unit_test(nonsense_counts_do_not_overflow),
        STORE_CASE(a_recovered_span_is_in_its_minute_once),
        STORE_CASE(the_tables_bounds_are_the_programs),
        STORE_CASE(each_kind_of_metric_is_summed_up),
        STORE_CASE(a_long_service_name_is_cut_in_the_summary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
