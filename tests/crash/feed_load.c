#include "crash/feed_load.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "feed/record.h"
#include "support/history.h"

enum { WRITER_SIZE = 32, VALUE_SIZE = 128 };

static void name_writer(char out[WRITER_SIZE], int64_t cycle, int64_t child)
{
    (void)snprintf(out, WRITER_SIZE, "w%" PRId64 "-%" PRId64, cycle, child);
}

static int count_records(int64_t cycle, int64_t child, int64_t n)
{
    return 1 + (int)((uint64_t)(cycle * 31 + child * 7 + n * 13) % FEED_LOAD_RECORDS_MAX);
}

/* ---- committing ---- */

typedef struct load_call {
    const feed_load_history *history;
    char writer[WRITER_SIZE];
    int64_t n;
    int count;
    int64_t begin_ns;
} load_call;

static void begin_line(const load_call *call, int index, history_line *line)
{
    char value[VALUE_SIZE];
    (void)snprintf(value, sizeof value, "%s %" PRId64 " %d", call->writer, call->n, index);
    history_begin_at(line, call->writer, "take", call->begin_ns);
    history_text(line, "sequence", call->history->sequence);
    history_text(line, "value", value);
}

static void announce(load_call *call)
{
    call->begin_ns = history_now_ns();
    for (int i = 0; call->history->is_announced && i < call->count; i++) {
        history_line line;
        begin_line(call, i, &line);
        history_announce(&line, call->history->fd);
    }
}

static void write_outcome(const load_call *call, tide_status status, int64_t first)
{
    const int64_t end_ns = history_now_ns();
    for (int i = 0; i < call->count; i++) {
        history_line line;
        begin_line(call, i, &line);
        if (status == TIDE_OK)
            history_number(&line, "number", first + i);
        history_end_at(&line, call->history->fd, status == TIDE_OK ? HISTORY_OK : HISTORY_UNKNOWN,
                       end_ns);
    }
}

static tide_status fill_batch(tide_record_batch *batch, const load_call *call)
{
    for (int i = 0; i < call->count; i++) {
        char body[64];
        (void)snprintf(body, sizeof body, "%" PRId64 " %d", call->n, i);
        tide_record_begin(batch);
        tide_record_i64(batch, TIDE_LOG_TIMESTAMP, 1000 + call->n);
        tide_record_text(batch, TIDE_LOG_SERVICE_NAME, tide_view_of(call->writer));
        tide_record_text(batch, TIDE_LOG_BODY, tide_view_of(body));
        TIDE_TRY(tide_record_end(batch));
    }
    return TIDE_OK;
}

tide_status feed_load_commit(tide_feed *feed, const feed_load_history *history, int64_t cycle,
                             int64_t child, int64_t n, int64_t *first, tide_error *err)
{
    TIDE_CLEANUP(tide_record_batch_done) tide_record_batch batch;
    tide_record_batch_init(&batch, tide_stream_type_of(TIDE_STREAM_LOGS), 0);
    load_call call = {.history = history, .n = n, .count = count_records(cycle, child, n)};
    name_writer(call.writer, cycle, child);
    TIDE_TRY(fill_batch(&batch, &call));
    tide_feed_records records = tide_record_batch_feed(&batch, NULL);
    announce(&call);
    const tide_status status = tide_feed_commit(feed, &records, 1, err);
    write_outcome(&call, status, records.first_seq);
    TIDE_TRY(status);
    *first = records.first_seq;
    if (records.last_seq - records.first_seq + 1 != call.count)
        return tide_fail(err, TIDE_E_DAMAGED, "%d records have the numbers %" PRId64 " to %" PRId64,
                         call.count, records.first_seq, records.last_seq);
    return TIDE_OK;
}

/* ---- what is there ---- */

static tide_status write_row(const feed_load_history *history, const tide_record *record,
                             tide_error *err)
{
    tide_record_row row;
    char value[VALUE_SIZE];
    history_line line;
    if (tide_record_decode(tide_stream_type_of(TIDE_STREAM_LOGS), record->message, &row) != TIDE_OK)
        return tide_fail(err, TIDE_E_DAMAGED, "record %" PRId64 " cannot be decoded", record->seq);
    const tide_view service = row.values[TIDE_LOG_SERVICE_NAME].bytes;
    const tide_view body = row.values[TIDE_LOG_BODY].bytes;
    (void)snprintf(value, sizeof value, "%.*s %.*s", (int)service.len, service.ptr, (int)body.len,
                   body.ptr);
    history_begin(&line, "end", "row");
    history_text(&line, "sequence", history->sequence);
    history_number(&line, "number", record->seq);
    history_text(&line, "value", value);
    history_end(&line, history->fd, HISTORY_OK);
    return TIDE_OK;
}

static tide_status write_page(const feed_load_history *history, const tide_feed_answer *answer,
                              int64_t *count, tide_error *err)
{
    tide_view rest = tide_view_bytes(answer->bytes, answer->len);
    tide_record record;
    while (tide_record_next(tide_stream_type_of(TIDE_STREAM_LOGS), &rest, &record) == TIDE_OK) {
        TIDE_TRY(write_row(history, &record, err));
        ++*count;
    }
    return TIDE_OK;
}

static void note_finding(void *arg, const char *stream, const char *finding)
{
    (void)fprintf(stderr, "%s: %s\n", stream, finding);
    *(bool *)arg = true;
}

tide_status feed_load_write(tide_feed *feed, const feed_load_history *history, tide_error *err)
{
    tide_feed_request request = {TIDE_FEED_REQUEST_INIT, .stream = "logs",
                                 .max_records = TIDE_FEED_PAGE_RECORDS_MAX};
    int64_t count = 0;
    for (bool has_more = true; has_more;) {
        TIDE_CLEANUP(tide_feed_answer_done) tide_feed_answer answer = {0};
        TIDE_TRY(tide_feed_read(feed, &request, &answer, err));
        if (answer.hole_count > 0)
            return tide_fail(err, TIDE_E_DAMAGED, "a hole behind %" PRId64, request.start_seq);
        TIDE_TRY(write_page(history, &answer, &count, err));
        request.start_seq = answer.scanned_through_seq;
        has_more = answer.has_more;
    }
    history_line line;
    history_begin(&line, "end", "rows");
    history_text(&line, "sequence", history->sequence);
    history_number(&line, "count", count);
    history_end(&line, history->fd, HISTORY_OK);
    bool has_finding = false;
    TIDE_TRY(tide_feed_verify(feed, NULL, note_finding, &has_finding, err));
    return has_finding ? tide_fail(err, TIDE_E_DAMAGED, "the chain does not verify") : TIDE_OK;
}
