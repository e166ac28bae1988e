/* dump.c - the records of a stream as lines of JSON. */
#include <tidemark/feed.h>

#include <inttypes.h>

#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "base/interface/sized.h"
#include "feed/parts.h"

enum { LINE_MAX_LEN = 8 * TIDE_FEED_RECORD_MAX }; /* escapes and base64 lengthen a record */

typedef struct kind_request {
    const char *stream;
    const tide_stream_type *type;
} kind_request;

static tide_status find_kind(tide_tx *tx, void *arg, tide_error *err)
{
    kind_request *request = arg;
    tide_stream_state state;
    TIDE_TRY(tide_stream_find(&state, tx, request->stream, err));
    request->type = state.type;
    return TIDE_OK;
}

static tide_status dump_page(const tide_stream_type *type, const tide_feed_answer *answer,
                             tide_buffer *line, tide_feed_line_fn *fn, void *arg, tide_error *err)
{
    tide_view rest = tide_view_bytes(answer->bytes, answer->len);
    tide_record record;
    tide_status status;
    while ((status = tide_record_next(type, &rest, &record)) == TIDE_OK) {
        tide_record_row row;
        tide_buffer_clear(line);
        status = tide_record_decode(type, record.message, &row);
        if (status >= TIDE_OK)
            status = tide_record_row_json(line, type, &row);
        if (status < TIDE_OK)
            return tide_fail(err, status, "record %" PRId64 " of %s cannot be shown", record.seq,
                             type->name);
        TIDE_TRY(tide_callback_check(fn(arg, tide_buffer_view(line), err), err));
    }
    return status < TIDE_OK ? status : TIDE_OK;
}

tide_status tide_feed_dump(tide_feed *feed, const tide_feed_dump_request *given,
                           tide_feed_line_fn *fn, void *arg, tide_error *err)
{
    TIDE_NEED(feed && fn, err);
    tide_feed_dump_request wanted;
    TIDE_TRY(TIDE_SIZED_COPY(&wanted, given, tide_feed_dump_request, err));
    TIDE_NEED(wanted.stream, err);
    kind_request kind = {.stream = wanted.stream};
    TIDE_TRY(tide_store_read(feed->store, find_kind, &kind, err));
    TIDE_CLEANUP(tide_buffer_done) tide_buffer line = tide_buffer_of(LINE_MAX_LEN);
    tide_feed_request request = {
        TIDE_FEED_REQUEST_INIT,
        .stream = wanted.stream,
        .start_seq = wanted.first_seq > 0 ? wanted.first_seq - 1 : 0,
        .last_seq = wanted.last_seq,
        .max_records = TIDE_FEED_PAGE_RECORDS_MAX,
    };
    bool is_going_on = true;
    while (is_going_on) {
        TIDE_CLEANUP(tide_feed_answer_done) tide_feed_answer answer = {0};
        TIDE_TRY(tide_feed_read(feed, &request, &answer, err));
        TIDE_TRY(dump_page(kind.type, &answer, &line, fn, arg, err));
        request.start_seq = answer.scanned_through_seq;
        is_going_on =
            answer.has_more && (wanted.last_seq <= 0 || request.start_seq < wanted.last_seq);
    }
    return TIDE_OK;
}
