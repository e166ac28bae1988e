/* The loadable extension, in processes that bring their own SQLite: Python's sqlite3 and the sqlite3 shell, on a store that this
 * process writes all the while (extension.py). */
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <tidemark/feed.h>

#include "feed/record.h"
#include "support/check.h"
#include "support/process/proc.h"
#include "support/tempdir.h"

enum { TIMEOUT_MS = 240000, BATCHES = 100, PER_BATCH = 10 };

static const int64_t START_MS = INT64_C(1700000000000);

typedef struct rig {
    tempdir dir;
    char path[TEMPDIR_PATH_MAX];
    tide_store *store;
    tide_feed *feed;
    tide_error err;
    _Atomic bool is_ending;
    tide_status written; /* of the writer: its first failure */
} rig;

static tide_status commit(rig *r, tide_record_batch *batch, const char *stream, tide_error *err)
{
    tide_feed_records records = tide_record_batch_feed(batch, stream);
    const tide_status status = tide_feed_commit(r->feed, &records, 1, err);
    tide_record_batch_done(batch);
    return status;
}

static void put_spans(rig *r, int n)
{
    char service[16];
    snprintf(service, sizeof service, "s%d", n % 10);
    tide_record_batch batch;
    tide_record_batch_init(&batch, tide_stream_type_of(TIDE_STREAM_TELEMETRY), 0);
    for (int i = 0; i < PER_BATCH; i++) {
        char digit[2] = {(char)('0' + i), '\0'};
        tide_record_begin(&batch);
        tide_record_i64(&batch, TIDE_SPAN_TIMESTAMP, START_MS + n * 1000);
        tide_record_text(&batch, TIDE_SPAN_TRACE_ID, tide_view_of("abc"));
        tide_record_text(&batch, TIDE_SPAN_SERVICE_NAME, tide_view_of(service));
        tide_record_f64(&batch, TIDE_SPAN_DURATION_MS, 1.5);
        tide_record_bool(&batch, TIDE_SPAN_IS_ERROR, true);
        tide_record_pair(&batch, TIDE_SPAN_ATTRIBUTES, tide_view_of("i"), tide_view_of(digit));
        assert_ok(tide_record_end(&batch));
    }
    assert_ok_err(commit(r, &batch, NULL, &r->err), &r->err);
}

static void put_opaque(rig *r, const char *stream)
{
    assert_ok_err(tide_feed_declare(r->feed, stream, &r->err), &r->err);
    tide_record_batch batch;
    tide_record_batch_init(&batch, tide_stream_type_of(TIDE_STREAM_OPAQUE), 0);
    tide_record_begin(&batch);
    tide_record_blob(&batch, TIDE_OPAQUE_DATA, tide_view_bytes("\0\xff", 2));
    assert_ok(tide_record_end(&batch));
    assert_ok_err(commit(r, &batch, stream, &r->err), &r->err);
}

static void damage_first_batch(const rig *r, const char *stream)
{
    sqlite3 *db = NULL;
    char sql[512];
    snprintf(sql, sizeof sql,
             "DROP TRIGGER feed_batches_keep;"
             "UPDATE feed_batches SET body = zeroblob(length(body)) WHERE last_seq = 1"
             " AND stream_id = (SELECT id FROM feed_streams WHERE name = '%s')",
             stream);
    assert_int_equal(SQLITE_OK, sqlite3_open(r->path, &db));
    (void)sqlite3_busy_timeout(db, 10000);
    assert_int_equal(SQLITE_OK, sqlite3_exec(db, sql, NULL, NULL, NULL));
    assert_int_equal(SQLITE_OK, sqlite3_close(db));
}

/* One commit of logs after the other, until the others are done. */
static void *write_logs(void *arg)
{
    rig *r = arg;
    tide_error err;
    while (!r->is_ending && r->written == TIDE_OK) {
        tide_record_batch batch;
        tide_record_batch_init(&batch, tide_stream_type_of(TIDE_STREAM_LOGS), 0);
        tide_record_begin(&batch);
        tide_record_text(&batch, TIDE_LOG_BODY, tide_view_of("more"));
        r->written = tide_record_end(&batch);
        if (r->written == TIDE_OK)
            r->written = commit(r, &batch, NULL, &err);
    }
    return NULL;
}

static void run_python(rig *r)
{
    const char *source = getenv("TIDEMARK_SOURCE_DIR");
    const char *build = getenv("TIDEMARK_BUILD_DIR");
    assert_non_null(source);
    assert_non_null(build);
    char script[PATH_MAX];
    char extension[PATH_MAX];
    snprintf(script, sizeof script, "%s/tests/feed/foreign/extension.py", source);
    snprintf(extension, sizeof extension, "%s/tidemark_sqlite.so", build);
    const char *const argv[] = {"/usr/bin/python3", "-B", script, r->path, extension, NULL};
    const proc_options options = {.argv = argv};
    proc_result result;
    assert_ok_err(proc_run(&result, &options, TIMEOUT_MS, &r->err), &r->err);
    print_message("%s", result.out);
    if (result.exit_code != 0)
        fail_msg("extension.py: exit code %d: %s", result.exit_code, result.err);
    proc_result_done(&result);
}

static void the_extension_works_beside_a_process_that_writes(void **state)
{
    (void)state;
    rig r = {.is_ending = false};
    assert_ok_err(tempdir_make(&r.dir, &r.err), &r.err);
    snprintf(r.path, sizeof r.path, "%.*s/store.db", TEMPDIR_PATH_MAX - 16, r.dir.path);
    const tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .state_dir = ""};
    const tide_feed_options feed_options = {TIDE_FEED_OPTIONS_INIT, .reserve_bytes = -1};
    assert_ok_err(tide_store_open(&r.store, r.path, &options, &r.err), &r.err);
    assert_ok_err(tide_feed_open(&r.feed, r.store, &feed_options, &r.err), &r.err);
    for (int i = 0; i < BATCHES; i++)
        put_spans(&r, i);
    put_opaque(&r, "orders");
    put_opaque(&r, "broken");
    put_opaque(&r, "broken");
    damage_first_batch(&r, "broken");
    pthread_t writer;
    assert_int_equal(0, pthread_create(&writer, NULL, write_logs, &r));
    run_python(&r);
    r.is_ending = true;
    assert_int_equal(0, pthread_join(writer, NULL));
    assert_ok(r.written);
    tide_feed_close(r.feed);
    tide_store_close(r.store);
    assert_ok_err(tempdir_remove(&r.dir, &r.err), &r.err);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_extension_works_beside_a_process_that_writes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
