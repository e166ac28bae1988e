#include "crash/feed_load.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "feed/record.h"
#include "support/prng.h"

static void name_writer(char out[32], int64_t cycle, int64_t child)
{
    (void)snprintf(out, 32, "w%" PRId64 "-%" PRId64, cycle, child);
}

int feed_load_count(int64_t cycle, int64_t child, int64_t n)
{
    return 1 + (int)((uint64_t)(cycle * 31 + child * 7 + n * 13) % FEED_LOAD_RECORDS_MAX);
}

tide_status feed_load_commit(tide_feed *feed, int64_t cycle, int64_t child, int64_t n,
                             int64_t *first, int64_t *last, tide_error *err)
{
    TIDE_CLEANUP(tide_record_batch_done) tide_record_batch batch;
    tide_record_batch_init(&batch, tide_stream_type_of(TIDE_STREAM_LOGS), 0);
    char service[32];
    name_writer(service, cycle, child);
    const int count = feed_load_count(cycle, child, n);
    for (int i = 0; i < count; i++) {
        char body[64];
        (void)snprintf(body, sizeof body, "%" PRId64 " %d", n, i);
        tide_record_begin(&batch);
        tide_record_i64(&batch, TIDE_LOG_TIMESTAMP, 1000 + n);
        tide_record_text(&batch, TIDE_LOG_SERVICE_NAME, tide_view_of(service));
        tide_record_text(&batch, TIDE_LOG_BODY, tide_view_of(body));
        TIDE_TRY(tide_record_end(&batch));
    }
    tide_feed_records records = tide_record_batch_feed(&batch, NULL);
    TIDE_TRY(tide_feed_commit(feed, &records, 1, err));
    *first = records.first_seq;
    *last = records.last_seq;
    return TIDE_OK;
}

/* ---- the check ---- */

typedef struct found {
    char (*rows)[64]; /* "service body", by number - 1 */
    int64_t count;
    int64_t size;
} found;

static bool keep(found *f, const tide_record *record)
{
    if (f->count == f->size) {
        f->size = f->size ? 2 * f->size : 4096;
        f->rows = realloc(f->rows, (size_t)f->size * sizeof f->rows[0]);
    }
    const tide_stream_type *type = tide_stream_type_of(TIDE_STREAM_LOGS);
    tide_record_row row;
    if (!f->rows || record->seq != f->count + 1 ||
        tide_record_decode(type, record->message, &row) != TIDE_OK)
        return false;
    const tide_view service = row.values[TIDE_LOG_SERVICE_NAME].bytes;
    const tide_view body = row.values[TIDE_LOG_BODY].bytes;
    (void)snprintf(f->rows[f->count++], sizeof f->rows[0], "%.*s %.*s", (int)service.len,
                   service.ptr, (int)body.len, body.ptr);
    return true;
}

static bool read_all(tide_feed *feed, found *f, char why[FEED_LOAD_WHY_SIZE])
{
    tide_feed_request request = {.stream = "logs", .max_records = TIDE_FEED_PAGE_RECORDS_MAX};
    bool has_more = true;
    while (has_more) {
        tide_error err;
        TIDE_CLEANUP(tide_feed_answer_done) tide_feed_answer answer = {0};
        if (tide_feed_read(feed, &request, &answer, &err) < TIDE_OK || answer.hole_count > 0) {
            (void)snprintf(why, FEED_LOAD_WHY_SIZE, "cannot read, or a hole: %.100s", err.text);
            return false;
        }
        tide_view rest = tide_view_bytes(answer.bytes, answer.len);
        tide_record record;
        while (tide_record_next(tide_stream_type_of(TIDE_STREAM_LOGS), &rest, &record) == TIDE_OK)
            if (!keep(f, &record)) {
                (void)snprintf(why, FEED_LOAD_WHY_SIZE, "record %" PRId64 " behind %" PRId64,
                               record.seq, f->count);
                return false;
            }
        request.start_seq = answer.scanned_through_seq;
        has_more = answer.has_more;
    }
    return true;
}

static bool check_ack(const found *f, const ack *line, char why[FEED_LOAD_WHY_SIZE])
{
    int64_t numbers[5];
    tide_error err;
    if (ack_numbers(line, numbers, 5, &err) < TIDE_OK) {
        (void)snprintf(why, FEED_LOAD_WHY_SIZE, "a line that cannot be read: %.60s", line->text);
        return false;
    }
    const int count = feed_load_count(numbers[0], numbers[1], numbers[2]);
    char service[32];
    name_writer(service, numbers[0], numbers[1]);
    for (int i = 0; i < count; i++) {
        char expected[128];
        (void)snprintf(expected, sizeof expected, "%s %" PRId64 " %d", service, numbers[2], i);
        const int64_t seq = numbers[3] + i;
        if (seq > f->count || numbers[4] != numbers[3] + count - 1 ||
            strcmp(f->rows[seq - 1], expected) != 0) {
            (void)snprintf(why, FEED_LOAD_WHY_SIZE,
                           "%s was acknowledged as %" PRId64 "; there is %s", expected, seq,
                           seq > f->count ? "nothing" : f->rows[seq - 1]);
            return false;
        }
    }
    return true;
}

static void note_finding(void *arg, const char *stream, const char *finding)
{
    (void)snprintf(arg, FEED_LOAD_WHY_SIZE, "%s: %.200s", stream, finding);
}

bool feed_load_check(tide_feed *feed, const ack_journal *journal, char why[FEED_LOAD_WHY_SIZE])
{
    found f = {0};
    bool is_right = read_all(feed, &f, why);
    for (size_t i = 0; i < journal->len && is_right; i++)
        is_right = check_ack(&f, &journal->acks[i], why);
    free(f.rows);
    return is_right && tide_feed_verify(feed, NULL, note_finding, why, NULL) == TIDE_OK;
}
