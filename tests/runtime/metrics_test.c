/* Metrics: counted right, bounded, and read without complaint by the programs of others. */
#include <ctype.h>
#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "runtime/client_metrics.h"
#include "runtime/metrics.h"
#include "support/check.h"
#include "support/clock/virtual_env.h"
#include "support/process/proc.h"
#include "support/tempdir.h"

#define PYTHON "/usr/bin/python3" /* Debian's, which has Debian's python3-prometheus-client */

typedef struct metrics_test {
    virtual_env clock;
    tide_metrics *metrics;
    tide_buffer text;
    tide_error err;
} metrics_test;

static int setup(void **state)
{
    metrics_test *t = calloc(1, sizeof *t);
    assert_non_null(t);
    virtual_env_init(&t->clock, 1);
    tide_buffer_init(&t->text, TIDE_METRICS_TEXT_MAX);
    assert_ok_err(tide_metrics_new(&t->metrics, "1.2.3", &t->clock.env, &t->err), &t->err);
    *state = t;
    return 0;
}

static int teardown(void **state)
{
    metrics_test *t = *state;
    tide_metrics_free(t->metrics);
    tide_buffer_done(&t->text);
    virtual_env_done(&t->clock);
    free(t);
    return 0;
}

static const char *show(metrics_test *t, tide_metrics_format format)
{
    tide_buffer_clear(&t->text);
    assert_ok_err(tide_metrics_write(t->metrics, format, &t->text, &t->err), &t->err);
    return tide_buffer_text(&t->text);
}

static void counters_gauges_and_histograms_are_shown(void **state)
{
    metrics_test *t = *state;
    tide_series_add(tide_metrics_series(t->metrics, TIDE_METRIC_FEED_RECORDS, "spans"), 41);
    tide_series_add(tide_metrics_series(t->metrics, TIDE_METRIC_FEED_RECORDS, "spans"), 1);
    tide_series_set(tide_metrics_series(t->metrics, TIDE_METRIC_FEED_HEAD, "spans"), 7);
    tide_metrics_observe(t->metrics, TIDE_METRIC_FEED_COMMIT, 250);
    tide_metrics_observe(t->metrics, TIDE_METRIC_FEED_COMMIT, 251);
    tide_metrics_observe(t->metrics, TIDE_METRIC_FEED_COMMIT, 99000000);
    const char *text = show(t, TIDE_METRICS_PROMETHEUS);
    assert_contains(text, "# TYPE tidemark_feed_records_total counter\n");
    assert_contains(text, "\ntidemark_feed_records_total{stream=\"spans\"} 42\n");
    assert_contains(text, "\ntidemark_feed_head{stream=\"spans\"} 7\n");
    assert_contains(text, "\ntidemark_feed_commit_seconds_bucket{le=\"0.0001\"} 0\n");
    assert_contains(text, "\ntidemark_feed_commit_seconds_bucket{le=\"0.00025\"} 1\n");
    assert_contains(text, "\ntidemark_feed_commit_seconds_bucket{le=\"0.0005\"} 2\n");
    assert_contains(text, "\ntidemark_feed_commit_seconds_bucket{le=\"10.0\"} 2\n");
    assert_contains(text, "\ntidemark_feed_commit_seconds_bucket{le=\"+Inf\"} 3\n");
    assert_contains(text, "\ntidemark_feed_commit_seconds_sum 99.000501\n");
    assert_contains(text, "\ntidemark_feed_commit_seconds_count 3\n");
    assert_contains(text, "\ntidemark_build_info{version=\"1.2.3\"} 1\n");
    assert_contains(text, "\nprocess_start_time_seconds 1735689600.000000\n");
    assert_null(strstr(text, "# EOF"));
    text = show(t, TIDE_METRICS_OPENMETRICS);
    assert_contains(text, "# TYPE tidemark_feed_records counter\n");
    assert_contains(text, "# UNIT tidemark_feed_commit_seconds seconds\n");
    assert_string_equal("# EOF\n", text + strlen(text) - 6);
}

/* A metric that nobody has counted yet and that has labels has no series, and is not shown. */
static void what_has_no_series_is_left_out(void **state)
{
    metrics_test *t = *state;
    assert_null(strstr(show(t, TIDE_METRICS_PROMETHEUS), "tidemark_feed_head"));
    assert_contains(show(t, TIDE_METRICS_PROMETHEUS), "tidemark_text_cleaned_total 0\n");
}

static void the_table_keeps_to_the_rules_of_names(void **state)
{
    (void)state;
    for (int id = 0; id < TIDE_METRIC_COUNT; id++) {
        const tide_metric_row *row = &tide_metric_rows[id];
        const size_t len = strlen(row->name);
        assert_int_equal(len, strspn(row->name, "abcdefghijklmnopqrstuvwxyz0123456789_"));
        assert_true(len < 6 || strcmp(row->name + len - 6, "_total") != 0);
        assert_true(strlen(row->help) > 0);
        const size_t unit_len = strlen(row->unit);
        if (unit_len > 0)
            assert_string_equal(row->unit, row->name + len - unit_len);
        assert_true((row->type == TIDE_METRIC_HISTOGRAM) == (row->bounds != NULL));
        for (int i = 1; row->bounds && i < row->bound_count; i++)
            assert_true(row->bounds[i] > row->bounds[i - 1]);
        for (int other = 0; other < id; other++)
            assert_string_not_equal(row->name, tide_metric_rows[other].name);
    }
}

/* No peer can make the process grow by inventing values. */
static void series_are_bounded_and_the_rest_is_other(void **state)
{
    metrics_test *t = *state;
    char value[32];
    for (int i = 0; i < 10 * TIDE_METRICS_SERIES_MAX; i++) {
        (void)snprintf(value, sizeof value, "stream-%d", i);
        tide_series_add(tide_metrics_series(t->metrics, TIDE_METRIC_FEED_RECORDS, value), 1);
    }
    const char *text = show(t, TIDE_METRICS_PROMETHEUS);
    int count = 0;
    for (const char *at = text; (at = strstr(at, "\ntidemark_feed_records_total{")); at++)
        count++;
    assert_int_equal(TIDE_METRICS_SERIES_MAX, count);
    assert_contains(text, "tidemark_feed_records_total{stream=\"other\"} 1801\n");
    assert_contains(text,
                    "tidemark_metrics_overflows_total{metric=\"tidemark_feed_records\"} 1801\n");
}

/* 100 agents with 10 data types each have their own series; so many are found again without a walk. */
static void metrics_of_agents_have_room_for_many(void **state)
{
    enum { AGENTS = 300, TYPES = 10 };
    metrics_test *t = *state;
    char agent[32];
    char type[32];
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < AGENTS * TYPES; i++) {
            (void)snprintf(agent, sizeof agent, "agent-%d", i / TYPES);
            (void)snprintf(type, sizeof type, "type-%d", i % TYPES);
            tide_series_add(tide_metrics_series(t->metrics, TIDE_METRIC_GAPS_DETECTED, agent, type),
                            1);
        }
    const char *text = show(t, TIDE_METRICS_PROMETHEUS);
    int count = 0;
    for (const char *at = text; (at = strstr(at, "\nsequence_gaps_detected_total{")); at++)
        count++;
    assert_int_equal(AGENTS * TYPES, count);
    assert_contains(
        text, "sequence_gaps_detected_total{agent_id=\"agent-299\",data_type=\"type-9\"} 2\n");
    assert_null(strstr(text, "other"));
}

/* What was never measured is no zero. */
static void what_was_never_measured_is_not_shown(void **state)
{
    metrics_test *t = *state;
    tide_series *idle = tide_metrics_series(t->metrics, TIDE_METRIC_RPC_DURATION, "/idle");
    assert_null(strstr(show(t, TIDE_METRICS_PROMETHEUS), "tidemark_rpc_duration_seconds"));
    assert_null(strstr(show(t, TIDE_METRICS_PROMETHEUS), "tidemark_certificate_expiry_seconds"));
    tide_series_observe(tide_metrics_series(t->metrics, TIDE_METRIC_RPC_DURATION, "/busy"), 1000);
    tide_metrics_set(t->metrics, TIDE_METRIC_CERTIFICATE_EXPIRY, 0);
    const char *text = show(t, TIDE_METRICS_PROMETHEUS);
    assert_contains(text, "tidemark_rpc_duration_seconds_count{method=\"/busy\"} 1\n");
    assert_contains(text, "tidemark_certificate_expiry_seconds 0.000000\n");
    assert_null(strstr(text, "/idle"));
    tide_series_observe(idle, 1000);
    assert_contains(show(t, TIDE_METRICS_PROMETHEUS), "/idle");
}

static void values_of_labels_cannot_break_the_text(void **state)
{
    metrics_test *t = *state;
    char huge[1000];
    memset(huge, 'x', sizeof huge - 1);
    huge[sizeof huge - 1] = '\0';
    tide_series_add(tide_metrics_series(t->metrics, TIDE_METRIC_RPC_CALLS, "a\"b\\c\nd", "0"), 1);
    tide_series_add(tide_metrics_series(t->metrics, TIDE_METRIC_RPC_CALLS, "\xff", huge), 1);
    tide_series_add(tide_metrics_series(t->metrics, TIDE_METRIC_RPC_CALLS, NULL, ""), 1);
    const char *text = show(t, TIDE_METRICS_PROMETHEUS);
    assert_contains(text, "tidemark_rpc_calls_total{method=\"a\\\"b\\\\c\\nd\",code=\"0\"} 1\n");
    assert_contains(text, "method=\"\xEF\xBF\xBD\"");
    assert_contains(text, "{method=\"\",code=\"\"} 1\n");
    assert_null(strstr(text, huge));
}

static void a_text_that_does_not_fit_leaves_the_buffer_as_it_was(void **state)
{
    metrics_test *t = *state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer small;
    tide_buffer_init(&small, 100);
    assert_ok(tide_buffer_append_text(&small, "before"));
    assert_status(TIDE_E_LIMIT,
                  tide_metrics_write(t->metrics, TIDE_METRICS_PROMETHEUS, &small, &t->err));
    assert_string_equal("before", tide_buffer_text(&small));
}

static void add_family(void *arg, tide_metrics_writer *writer)
{
    static const tide_metric_row row = {.name = "tidemark_elsewhere_bytes",
                                        .type = TIDE_METRIC_GAUGE,
                                        .unit = "bytes",
                                        .labels = "kind,place",
                                        .help = "kept \"elsewhere\" \\ not here"};
    tide_metrics_family(writer, &row);
    tide_metrics_sample(writer, (const char *const[]){"a\n", "b"}, *(int64_t *)arg);
    tide_metrics_sample(writer, (const char *const[]){"\xc3", NULL}, -1);
}

static void sources_are_asked_when_somebody_looks(void **state)
{
    metrics_test *t = *state;
    int64_t value = 5;
    tide_metrics_add_source(t->metrics, add_family, &value);
    assert_contains(show(t, TIDE_METRICS_PROMETHEUS),
                    "tidemark_elsewhere_bytes{kind=\"a\\n\",place=\"b\"} 5\n");
    value = 6;
    const char *text = show(t, TIDE_METRICS_OPENMETRICS);
    assert_contains(text, "tidemark_elsewhere_bytes{kind=\"a\\n\",place=\"b\"} 6\n");
    assert_contains(text, "# HELP tidemark_elsewhere_bytes kept \\\"elsewhere\\\" \\\\ not here\n");
}

static void the_accept_header_chooses(void **state)
{
    (void)state;
    static const struct {
        const char *accept;
        tide_metrics_format format;
    } rows[] = {
        {NULL, TIDE_METRICS_PROMETHEUS},
        {"", TIDE_METRICS_PROMETHEUS},
        {"*/*", TIDE_METRICS_PROMETHEUS},
        {"text/plain", TIDE_METRICS_PROMETHEUS},
        {"application/openmetrics-text", TIDE_METRICS_OPENMETRICS},
        {"application/openmetrics-text;version=1.0.0,application/"
         "openmetrics-text;version=0.0.1;q=0.75,"
         "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
         TIDE_METRICS_OPENMETRICS},
        {"text/plain , Application/OpenMetrics-Text ; q=0.5", TIDE_METRICS_PROMETHEUS},
        {"application/openmetrics-text;q=0", TIDE_METRICS_PROMETHEUS},
        {"application/openmetrics-textual", TIDE_METRICS_PROMETHEUS},
        {"application/openmetrics-text;q=;;;,,,", TIDE_METRICS_PROMETHEUS},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(rows[i].format, tide_metrics_choose(rows[i].accept));
    assert_contains(tide_metrics_content_type(TIDE_METRICS_OPENMETRICS), "version=1.0.0");
}

/* ---- threads ---- */

enum { THREADS = 4, ROUNDS = 20000 };

static void *count_often(void *arg)
{
    metrics_test *t = arg;
    for (int i = 0; i < ROUNDS; i++) {
        tide_metrics_add(t->metrics, TIDE_METRIC_TEXT_CLEANED, 1);
        tide_metrics_observe(t->metrics, TIDE_METRIC_FEED_GROUP, i % 200);
        if (i % 100 == 0)
            tide_series_add(
                tide_metrics_series(t->metrics, TIDE_METRIC_FEED_READ, i % 200 == 0 ? "a" : "b"),
                1);
    }
    return NULL;
}

static void nothing_is_lost_between_threads(void **state)
{
    metrics_test *t = *state;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(0, pthread_create(&threads[i], NULL, count_often, t));
    (void)show(t, TIDE_METRICS_OPENMETRICS);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(0, pthread_join(threads[i], NULL));
    const char *text = show(t, TIDE_METRICS_PROMETHEUS);
    assert_contains(text, "tidemark_text_cleaned_total 80000\n");
    assert_contains(text, "tidemark_feed_group_records_count 80000\n");
    assert_contains(text, "tidemark_feed_read_records_total{stream=\"a\"} 400\n");
    assert_contains(text, "tidemark_feed_read_records_total{stream=\"b\"} 400\n");
}

/* ---- the programs of others ---- */

static void fill(metrics_test *t)
{
    tide_series_add(tide_metrics_series(t->metrics, TIDE_METRIC_RPC_CALLS, "a\"b\\c\nd", "0"), 1);
    tide_series_observe(tide_metrics_series(t->metrics, TIDE_METRIC_RPC_DURATION, "m"), 1234);
    tide_series_observe(tide_metrics_series(t->metrics, TIDE_METRIC_RPC_DURATION, "n"), 20000000);
    tide_metrics_set(t->metrics, TIDE_METRIC_CERTIFICATE_EXPIRY, -1500000);
    tide_metrics_observe(t->metrics, TIDE_METRIC_FEED_GROUP, 1000);
    for (int id = 0; id < TIDE_METRIC_COUNT; id++)
        if (tide_metric_rows[id].labels[0] && tide_metric_rows[id].type != TIDE_METRIC_HISTOGRAM)
            tide_series_add(tide_metrics_series(t->metrics, (tide_metric)id, "x", "y", "z"), 1);
}

static void feed_to(metrics_test *t, const char *const *argv, const char *text, const char *wanted)
{
    proc child;
    char output[4096] = "";
    size_t len = 0;
    const proc_options options = {.argv = argv, .in = PROC_PIPE, .out = PROC_PIPE};
    assert_ok_err(proc_start(&child, &options, &t->err), &t->err);
    const size_t text_len = strlen(text);
    for (size_t at = 0; at < text_len;) {
        const ssize_t written = write(child.in_fd, text + at, text_len - at);
        assert_true(written > 0);
        at += (size_t)written;
    }
    (void)close(child.in_fd);
    child.in_fd = -1;
    for (ssize_t got = 1; got > 0 && len + 1 < sizeof output;) {
        got = read(child.out_fd, output + len, sizeof output - 1 - len);
        len += got > 0 ? (size_t)got : 0;
    }
    output[len] = '\0';
    assert_ok_err(proc_wait(&child, 30000, &t->err), &t->err);
    if (child.exit_code != 0)
        print_error("%s\n", output);
    assert_int_equal(0, child.exit_code);
    assert_contains(output, wanted);
    proc_done(&child);
}

static void promtool_has_nothing_to_say(void **state)
{
    metrics_test *t = *state;
    fill(t);
    const char *const argv[] = {"promtool", "check", "metrics", NULL};
    feed_to(t, argv, show(t, TIDE_METRICS_PROMETHEUS), "");
}

static void the_strict_openmetrics_parser_reads_every_sample(void **state)
{
    metrics_test *t = *state;
    int64_t value = 5;
    tide_metrics_add_source(t->metrics, add_family, &value);
    fill(t);
    const char *const argv[] = {
        PYTHON, "-c",
        "import sys\n"
        "from prometheus_client.openmetrics.parser import text_string_to_metric_families as read\n"
        "families = list(read(sys.stdin.read()))\n"
        "samples = [s for f in families for s in f.samples]\n"
        "calls = [s for s in samples if s.name == 'tidemark_rpc_calls_total']\n"
        "assert calls[0].labels['method'] == 'a\"b\\\\c\\nd', calls\n"
        "names = {f.name: f for f in families}\n"
        "assert names['tidemark_rpc_duration_seconds'].unit == 'seconds'\n"
        "assert names['tidemark_feed_records'].type == 'counter'\n"
        "print('read', len(samples) > 60)\n",
        NULL};
    feed_to(t, argv, show(t, TIDE_METRICS_OPENMETRICS), "read True");
}

static void the_parser_of_the_older_text_reads_it_too(void **state)
{
    metrics_test *t = *state;
    fill(t);
    const char *const argv[] = {
        PYTHON, "-c",
        "import sys\n"
        "from prometheus_client.parser import text_string_to_metric_families\n"
        "print(len(list(text_string_to_metric_families(sys.stdin.read()))))\n",
        NULL};
    feed_to(t, argv, show(t, TIDE_METRICS_PROMETHEUS), "");
}

static void calls_to_others_are_counted_with_their_retries(void **state)
{
    metrics_test *t = *state;
    const tide_client_counted rows[] = {{.path = "/a.B/C", .grpc_code = 0, .try_count = 1},
                                        {.path = "/a.B/C", .grpc_code = 0, .try_count = 4},
                                        {.path = "/a.B/C", .grpc_code = 14, .try_count = 2},
                                        {.path = "/a.B/D", .grpc_code = 4, .try_count = 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        tide_client_metrics_count(t->metrics, &rows[i]);
    const char *text = show(t, TIDE_METRICS_PROMETHEUS);
    assert_contains(text, "tidemark_client_calls_total{method=\"/a.B/C\",code=\"0\"} 2\n");
    assert_contains(text, "tidemark_client_calls_total{method=\"/a.B/C\",code=\"14\"} 1\n");
    assert_contains(text, "tidemark_client_calls_total{method=\"/a.B/D\",code=\"4\"} 1\n");
    assert_contains(text, "tidemark_client_retries_total{method=\"/a.B/C\"} 4\n");
    assert_null(strstr(text, "tidemark_client_retries_total{method=\"/a.B/D\""));
}

/* ---- every row is fed ---- */

static const char *const METRIC_IDS[] = {
#define METRIC_NAME(id, ...) "TIDE_METRIC_" #id,
    TIDE_METRICS_TABLE(METRIC_NAME)
#undef METRIC_NAME
};
static bool is_fed[TIDE_METRIC_COUNT];

/* The id as a whole word. */
static bool names_metric(const char *text, const char *id)
{
    const size_t len = strlen(id);
    for (const char *at = strstr(text, id); at; at = strstr(at + 1, id)) {
        if (!isalnum((unsigned char)at[len]) && at[len] != '_')
            return true;
    }
    return false;
}

static int look_into_source(const char *path, const struct stat *info, int kind, struct FTW *ftw)
{
    (void)info;
    (void)ftw;
    const size_t len = strlen(path);
    if (kind != FTW_F || len < 2 || strcmp(path + len - 2, ".c") != 0)
        return 0;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text;
    tide_buffer_init(&text, 4 << 20);
    assert_ok(tide_file_read(&text, path, NULL));
    for (size_t i = 0; i < TIDE_METRIC_COUNT; i++)
        is_fed[i] = is_fed[i] || names_metric(tide_buffer_text(&text), METRIC_IDS[i]);
    return 0;
}

/* A row that nothing feeds shows a figure that is always 0, or nothing: each has a place in the source that counts. */
static void every_row_of_the_table_is_fed_somewhere(void **state)
{
    (void)state;
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/src", getenv("TIDEMARK_SOURCE_DIR"));
    assert_int_equal(0, nftw(path, look_into_source, 16, FTW_PHYS));
    for (size_t i = 0; i < TIDE_METRIC_COUNT; i++) {
        if (!is_fed[i])
            fail_msg("%s (%s) is counted nowhere", METRIC_IDS[i], tide_metric_rows[i].name);
    }
}

#define METRICS_CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        METRICS_CASE(counters_gauges_and_histograms_are_shown),
        METRICS_CASE(what_has_no_series_is_left_out),
        METRICS_CASE(the_table_keeps_to_the_rules_of_names),
        METRICS_CASE(series_are_bounded_and_the_rest_is_other),
        METRICS_CASE(values_of_labels_cannot_break_the_text),
        METRICS_CASE(a_text_that_does_not_fit_leaves_the_buffer_as_it_was),
        METRICS_CASE(sources_are_asked_when_somebody_looks),
        METRICS_CASE(the_accept_header_chooses),
        METRICS_CASE(calls_to_others_are_counted_with_their_retries),
        METRICS_CASE(every_row_of_the_table_is_fed_somewhere),
        METRICS_CASE(nothing_is_lost_between_threads),
        METRICS_CASE(metrics_of_agents_have_room_for_many),
        METRICS_CASE(what_was_never_measured_is_not_shown),
        METRICS_CASE(promtool_has_nothing_to_say),
        METRICS_CASE(the_strict_openmetrics_parser_reads_every_sample),
        METRICS_CASE(the_parser_of_the_older_text_reads_it_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
