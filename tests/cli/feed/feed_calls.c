#include "cli/feed/feed_calls.h"

#include <stdio.h>

#include "feed/record.h"

typedef struct opened {
    tide_store *store;
    tide_feed *feed;
} opened;

static opened open_feed(cli_fixture *t)
{
    opened o = {NULL, NULL};
    const tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .is_inline = true,
                                        .state_dir = ""};
    const tide_feed_options feed_options = {TIDE_FEED_OPTIONS_INIT, .reserve_bytes = -1};
    assert_ok_err(tide_store_open(&o.store, t->url, &options, &t->err), &t->err);
    assert_ok_err(tide_feed_open(&o.feed, o.store, &feed_options, &t->err), &t->err);
    return o;
}

static void close_feed(opened *o)
{
    tide_feed_close(o->feed);
    tide_store_close(o->store);
}

static void commit(cli_fixture *t, const opened *o, tide_record_batch *batch, const char *stream)
{
    tide_feed_records records = tide_record_batch_feed(batch, stream);
    assert_ok_err(tide_feed_commit(o->feed, &records, 1, &t->err), &t->err);
    tide_record_batch_done(batch);
}

void feed_put_logs(cli_fixture *t, int count, const char *service)
{
    opened o = open_feed(t);
    tide_record_batch batch;
    tide_record_batch_init(&batch, tide_stream_type_of(TIDE_STREAM_LOGS), 0);
    for (int i = 0; i < count; i++) {
        char body[64];
        snprintf(body, sizeof body, "%s %d", service, i + 1);
        tide_record_begin(&batch);
        tide_record_i64(&batch, TIDE_LOG_TIMESTAMP, FEED_TIME_MS + i);
        tide_record_text(&batch, TIDE_LOG_SERVICE_NAME, tide_view_of(service));
        tide_record_text(&batch, TIDE_LOG_BODY, tide_view_of(body));
        assert_ok(tide_record_end(&batch));
    }
    commit(t, &o, &batch, NULL);
    close_feed(&o);
}

void feed_put_opaque(cli_fixture *t, const char *stream, const void *bytes, size_t len)
{
    opened o = open_feed(t);
    assert_ok_err(tide_feed_declare(o.feed, stream, &t->err), &t->err);
    tide_record_batch batch;
    tide_record_batch_init(&batch, tide_stream_type_of(TIDE_STREAM_OPAQUE), 0);
    tide_record_begin(&batch);
    tide_record_blob(&batch, TIDE_OPAQUE_DATA, tide_view_bytes(bytes, len));
    assert_ok(tide_record_end(&batch));
    commit(t, &o, &batch, stream);
    close_feed(&o);
}

void feed_settle(cli_fixture *t, const char *stream, const char *reader, int64_t position)
{
    opened o = open_feed(t);
    const tide_feed_request request = {TIDE_FEED_REQUEST_INIT, .stream = stream, .reader = reader,
                                       .start_seq = position, .lease_token = 1};
    tide_feed_answer answer = {0};
    assert_ok_err(tide_feed_read(o.feed, &request, &answer, &t->err), &t->err);
    tide_feed_answer_done(&answer);
    close_feed(&o);
}

void feed_damage(cli_fixture *t, int first_seq)
{
    char sql[256];
    snprintf(sql, sizeof sql,
             "DROP TRIGGER IF EXISTS feed_batches_keep;"
             "UPDATE feed_batches SET body = zeroblob(length(body)) WHERE first_seq = %d",
             first_seq);
    cli_sql(t, "store.db", sql);
}
