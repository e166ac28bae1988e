#include "feed/feed_fixture.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

tide_feed *feed_test_open(store_test *t, const tide_feed_options *options)
{
    tide_feed *feed = NULL;
    assert_ok_err(tide_feed_open(&feed, t->store, options, &t->err), &t->err);
    return feed;
}

void add_logs(tide_record_batch *batch, int count, const char *service, int64_t time_ms, int64_t *n)
{
    for (int i = 0; i < count; i++) {
        char body[64];
        (void)snprintf(body, sizeof body, "%s %lld", service, (long long)(*n)++);
        tide_record_begin(batch);
        tide_record_i64(batch, TIDE_LOG_TIMESTAMP, time_ms + i);
        tide_record_text(batch, TIDE_LOG_SERVICE_NAME, tide_view_of(service));
        tide_record_text(batch, TIDE_LOG_BODY, tide_view_of(body));
        tide_record_pair(batch, TIDE_LOG_ATTRIBUTES, tide_view_of("host"), tide_view_of("a"));
        assert_ok(tide_record_end(batch));
    }
}

int64_t put_logs(tide_feed *feed, int count, const char *service, int64_t time_ms)
{
    tide_error err;
    int64_t n = 0;
    tide_record_batch batch;
    tide_record_batch_init(&batch, tide_stream_type_of(TIDE_STREAM_LOGS), 0);
    add_logs(&batch, count, service, time_ms, &n);
    tide_feed_records records = tide_record_batch_feed(&batch, NULL);
    assert_ok_err(tide_feed_commit(feed, &records, 1, &err), &err);
    assert_int_equal(records.first_seq + count - 1, records.last_seq);
    tide_record_batch_done(&batch);
    return records.first_seq;
}

tide_feed_answer read_feed(tide_feed *feed, tide_feed_request request)
{
    tide_error err;
    tide_feed_answer answer = {0};
    if (!request.stream)
        request.stream = "logs";
    assert_ok_err(tide_feed_read(feed, &request, &answer, &err), &err);
    return answer;
}

void assert_numbers(const tide_feed_answer *answer, tide_stream_kind kind, int64_t first,
                    int64_t last)
{
    tide_view rest = tide_view_bytes(answer->bytes, answer->len);
    tide_record record;
    int64_t expected = first;
    while (tide_record_next(tide_stream_type_of(kind), &rest, &record) == TIDE_OK)
        assert_int_equal(expected++, record.seq);
    assert_int_equal(0, rest.len);
    assert_int_equal(last + 1, expected);
    assert_int_equal(last - first + 1, answer->count);
    assert_int_equal(answer->count > 0 ? last : 0, answer->max_seq);
}

void assert_hole(const tide_feed_answer *answer, int index, int64_t first, int64_t last,
                 const char *reason)
{
    assert_true(index < answer->hole_count);
    assert_int_equal(first, answer->holes[index].first_seq);
    assert_int_equal(last, answer->holes[index].last_seq);
    assert_string_equal(reason, answer->holes[index].reason);
}

static sqlite3 *open_plainly(store_test *t)
{
    sqlite3 *db = NULL;
    const char *path = strncmp(t->url, "sqlite:", 7) == 0 ? t->url + 7 : t->url;
    assert_int_equal(SQLITE_OK, sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL));
    (void)sqlite3_busy_timeout(db, 5000);
    (void)sqlite3_exec(db, "PRAGMA wal_autocheckpoint=0", NULL, NULL, NULL);
    return db;
}

void run_sql(store_test *t, const char *sql)
{
    sqlite3 *db = open_plainly(t);
    char *why = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
        fail_msg("%s: %s", sql, why);
    (void)sqlite3_close(db);
}

int64_t ask_sql(store_test *t, const char *sql)
{
    sqlite3 *db = open_plainly(t);
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    assert_int_equal(SQLITE_ROW, sqlite3_step(statement));
    const int64_t number = sqlite3_column_int64(statement, 0);
    (void)sqlite3_finalize(statement);
    (void)sqlite3_close(db);
    return number;
}

int64_t count_receipts(tide_feed *feed, const char *stream, const char *reason)
{
    tide_feed_answer answer =
        read_feed(feed, (tide_feed_request){TIDE_FEED_REQUEST_INIT, .stream = "loss_receipts"});
    const tide_stream_type *type = tide_stream_type_of(TIDE_STREAM_LOSS_RECEIPTS);
    tide_view rest = tide_view_bytes(answer.bytes, answer.len);
    tide_record record;
    int64_t count = 0;
    while (tide_record_next(type, &rest, &record) == TIDE_OK) {
        tide_record_row row;
        assert_ok(tide_record_decode(type, record.message, &row));
        if (tide_view_equal(row.values[TIDE_LOSS_STREAM].bytes, tide_view_of(stream)) &&
            tide_view_equal(row.values[TIDE_LOSS_REASON].bytes, tide_view_of(reason)))
            count += (int64_t)(row.values[TIDE_LOSS_LAST_SEQ_ID].u64 -
                               row.values[TIDE_LOSS_FIRST_SEQ_ID].u64 + 1);
    }
    tide_feed_answer_done(&answer);
    return count;
}
