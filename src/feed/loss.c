/* loss.c - numbers that no answer will carry: noted once, with a receipt. See parts.h. */
#include "feed/parts.h"

#include <string.h>

#include <tidemark/lease.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "store/statement.h"
#include "tidemark_sql.h"

enum { KEPT_BELOW_FLOOR = 4096 };

/* The reason as a static text; "lost" for one that is not known. */
static const char *loss_reason(tide_view text)
{
    static const char *const REASONS[] = {"expired", "evicted", "damaged", "lost"};
    for (size_t i = 0; i < sizeof REASONS / sizeof REASONS[0]; i++)
        if (tide_view_equal(text, tide_view_of(REASONS[i])))
            return REASONS[i];
    return "lost";
}

tide_status tide_loss_next(tide_tx *tx, int64_t stream_id, int64_t after, tide_loss *out,
                           tide_error *err)
{
    TIDE_QUERY_ONE(query, tx, TIDE_SQL_FEED_LOSS_NEXT, err, tide_bind_i64("stream", stream_id),
                   tide_bind_i64("after", after));
    out->first_seq = tide_query_col_i64(query);
    out->last_seq = tide_query_col_i64(query);
    out->reason = loss_reason(tide_query_col_text(query));
    tide_view_copy(out->detail, sizeof out->detail, tide_query_col_text(query));
    return TIDE_OK;
}

/* ---- noting ---- */

static tide_status drop_loss(tide_tx *tx, int64_t stream_id, int64_t last_seq, tide_error *err)
{
    return tide_tx_exec(tx, TIDE_SQL_FEED_LOSS_DROP, NULL, err, tide_bind_i64("stream", stream_id),
                        tide_bind_i64("last", last_seq));
}

/* Right behind a loss for the same reason: one row for both, so that a stream that is cut again and again keeps few. */
static tide_status join_before(tide_tx *tx, int64_t stream_id, const tide_loss *loss,
                               int64_t *first_seq, tide_error *err)
{
    *first_seq = loss->first_seq;
    TIDE_QUERY_ONE(query, tx, TIDE_SQL_FEED_LOSS_BEFORE, err, tide_bind_i64("stream", stream_id),
                   tide_bind_i64("last", loss->first_seq - 1));
    const int64_t before_first = tide_query_col_i64(query);
    if (strcmp(loss_reason(tide_query_col_text(query)), loss->reason) != 0)
        return TIDE_OK;
    *first_seq = before_first;
    return drop_loss(tx, stream_id, loss->first_seq - 1, err);
}

static tide_status add_loss(tide_tx *tx, int64_t stream_id, const tide_loss *loss, int64_t now_us,
                            tide_error *err)
{
    int64_t first_seq = 0;
    TIDE_TRY(join_before(tx, stream_id, loss, &first_seq, err));
    return tide_tx_exec(tx, TIDE_SQL_FEED_LOSS_ADD, NULL, err, tide_bind_i64("stream", stream_id),
                        tide_bind_i64("last", loss->last_seq), tide_bind_i64("first", first_seq),
                        tide_bind_text("reason", loss->reason), tide_bind_time("found_at", now_us),
                        tide_bind_text("detail", loss->detail));
}

static void add_receipt(tide_record_batch *receipts, const tide_stream_state *state,
                        const tide_loss *loss, int64_t epoch, int64_t now_us)
{
    tide_record_begin(receipts);
    tide_record_i64(receipts, TIDE_LOSS_TIMESTAMP, now_us / 1000);
    tide_record_text(receipts, TIDE_LOSS_STREAM, tide_view_of(state->name));
    tide_record_u64(receipts, TIDE_LOSS_FIRST_SEQ_ID, (uint64_t)loss->first_seq);
    tide_record_u64(receipts, TIDE_LOSS_LAST_SEQ_ID, (uint64_t)loss->last_seq);
    tide_record_u64(receipts, TIDE_LOSS_EPOCH, (uint64_t)epoch);
    tide_record_text(receipts, TIDE_LOSS_REASON, tide_view_of(loss->reason));
    tide_record_text(receipts, TIDE_LOSS_DETAIL, tide_view_of(loss->detail));
}

/* The parts of a loss that no other covers, each noted and receipted. */
static tide_status note_uncovered(tide_tx *tx, const tide_stream_state *state,
                                  const tide_loss *loss, int64_t now_us,
                                  tide_record_batch *receipts, tide_error *err)
{
    int64_t from = loss->first_seq;
    while (from <= loss->last_seq) {
        tide_loss known = {.first_seq = 0};
        const tide_status status = tide_loss_next(tx, state->id, from - 1, &known, err);
        TIDE_TRY(status);
        const bool is_over = status == TIDE_NONE || known.first_seq > loss->last_seq;
        tide_loss part = *loss;
        part.first_seq = from;
        part.last_seq = is_over ? loss->last_seq : known.first_seq - 1;
        if (part.first_seq <= part.last_seq) {
            int64_t epoch = 0;
            TIDE_TRY(tide_stream_epoch_of(state, tx, part.first_seq, &epoch, err));
            TIDE_TRY(add_loss(tx, state->id, &part, now_us, err));
            add_receipt(receipts, state, &part, epoch, now_us);
            const tide_status added = tide_record_end(receipts);
            if (added < TIDE_OK)
                return tide_fail(err, added, "no room for a receipt");
        }
        if (is_over)
            break;
        from = known.last_seq + 1;
    }
    return TIDE_OK;
}

static tide_status trim(tide_tx *tx, const tide_stream_state *state, tide_error *err)
{
    return tide_tx_exec(tx, TIDE_SQL_FEED_LOSS_TRIM, NULL, err, tide_bind_i64("stream", state->id),
                        tide_bind_i64("floor", state->floor_seq),
                        tide_bind_i64("keep", KEPT_BELOW_FLOOR));
}

static tide_status append_receipts(tide_feed *feed, tide_tx *tx, tide_record_batch *receipts,
                                   int64_t now_us, tide_error *err)
{
    tide_feed_records records = tide_record_batch_feed(receipts, NULL);
    TIDE_CLEANUP(tide_draft_done) tide_draft draft = {.records = &records};
    tide_buffer_init(&draft.body, TIDE_FEED_BATCH_BYTES_MAX);
    tide_stream_state state;
    TIDE_TRY(tide_stream_find(&state, tx, records.stream, err));
    TIDE_TRY(tide_stream_read_head(&state, tx, err));
    draft.type = state.type;
    TIDE_TRY(tide_feed_append(feed, tx, &state, &draft, now_us, err));
    atomic_fetch_add(&feed->receipts, receipts->count);
    return TIDE_OK;
}

void tide_loss_tell(const tide_feed *feed, const char *stream, const tide_loss *losses, int count)
{
    for (int i = 0; i < count && feed->options.on_loss; i++)
        feed->options.on_loss(feed->options.on_loss_arg, stream, losses[i].reason,
                              losses[i].last_seq - losses[i].first_seq + 1);
}

tide_status tide_loss_note(tide_feed *feed, tide_tx *tx, const tide_stream_state *state,
                           const tide_loss *losses, int count, int64_t now_us, tide_error *err)
{
    TIDE_CLEANUP(tide_record_batch_done) tide_record_batch receipts;
    tide_record_batch_init(&receipts, tide_stream_type_of(TIDE_STREAM_LOSS_RECEIPTS), 0);
    for (int i = 0; i < count; i++)
        TIDE_TRY(note_uncovered(tx, state, &losses[i], now_us, &receipts, err));
    TIDE_TRY(trim(tx, state, err));
    if (receipts.count == 0 || state->type->kind == TIDE_STREAM_LOSS_RECEIPTS)
        return TIDE_OK;
    return append_receipts(feed, tx, &receipts, now_us, err);
}

/* ---- the end of a damaged log ---- */

typedef struct lost_tail {
    char sequence[TIDE_TX_KEY_MAX + 1];
    char stream[TIDE_FEED_NAME_MAX + 1];
    int64_t epoch;
    tide_loss loss;
} lost_tail;

static tide_status find_tail(tide_tx *tx, lost_tail *out, tide_error *err)
{
    TIDE_QUERY_ONE(query, tx, TIDE_SQL_LOST_NUMBERS_NEXT, err, TIDE_NO_BIND);
    *out = (lost_tail){.loss = {.reason = "lost",
                                .detail = "acknowledged, and lost with the end of "
                                          "the write-ahead log"}};
    tide_view_copy(out->sequence, sizeof out->sequence, tide_query_col_text(query));
    out->epoch = tide_query_col_i64(query);
    out->loss.first_seq = tide_query_col_i64(query);
    out->loss.last_seq = tide_query_col_i64(query);
    tide_view_copy(out->stream, sizeof out->stream, tide_query_col_text(query));
    return TIDE_OK;
}

static tide_status has_tail(tide_tx *tx, void *arg, tide_error *err)
{
    return find_tail(tx, arg, err);
}

/* The numbers exist again in the epoch that follows: they get a receipt, and no row of feed_losses. */
static tide_status receipt_tails(tide_tx *tx, void *arg, tide_error *err)
{
    tide_feed *feed = arg;
    lost_tail tail = {.epoch = 0};
    int64_t now_us = 0;
    TIDE_CLEANUP(tide_record_batch_done) tide_record_batch receipts;
    tide_record_batch_init(&receipts, tide_stream_type_of(TIDE_STREAM_LOSS_RECEIPTS), 0);
    TIDE_TRY(tide_lease_now(tx, &now_us, err));
    TIDE_EACH(find_tail(tx, &tail, err)) {
        tide_stream_state state;
        TIDE_TRY(tide_stream_find(&state, tx, tail.stream, err));
        add_receipt(&receipts, &state, &tail.loss, tail.epoch, now_us);
        const tide_status added = tide_record_end(&receipts);
        if (added < TIDE_OK)
            return tide_fail(err, added, "no room for a receipt");
        TIDE_TRY(tide_tx_exec(tx, TIDE_SQL_LOST_NUMBERS_RECEIPTED, NULL, err,
                              tide_bind_text("sequence", tail.sequence),
                              tide_bind_i64("epoch", tail.epoch),
                              tide_bind_i64("first", tail.loss.first_seq)));
    }
    return receipts.count == 0 ? TIDE_OK : append_receipts(feed, tx, &receipts, now_us, err);
}

tide_status tide_loss_receipt_tails(tide_feed *feed, tide_error *err)
{
    lost_tail ignored;
    const tide_status status = tide_store_read(feed->store, has_tail, &ignored, err);
    return status == TIDE_OK ? tide_store_write(feed->store, receipt_tails, feed, err) : status;
}
