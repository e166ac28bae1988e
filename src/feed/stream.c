/* stream.c - where a stream stands, as one transaction sees it. See parts.h. */
#include "feed/parts.h"

#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "feed/walk.h"
#include "store/statement.h"
#include "tidemark_sql.h"

static tide_digest128 to_digest(tide_view bytes)
{
    tide_digest128 digest = {{0}};
    if (bytes.len == sizeof digest.bytes)
        memcpy(digest.bytes, bytes.ptr, sizeof digest.bytes);
    return digest;
}

static const tide_stream_type *find_type(tide_view kind)
{
    char name[TIDE_FEED_NAME_MAX + 1];
    tide_view_copy(name, sizeof name, kind);
    const tide_stream_type *type = tide_stream_type_find(name);
    if (!type && strcmp(name, "opaque") == 0)
        type = tide_stream_type_of(TIDE_STREAM_OPAQUE);
    return type;
}

/* A row has no checksum. What it contains of a built-in stream is known without it, and a declared
 * stream is never of a built-in kind. */
static tide_status check_row(const tide_stream_state *state, tide_view kind, tide_error *err)
{
    const tide_stream_type *built_in = tide_stream_type_find(state->name);
    const bool is_of_other =
        built_in ? state->type != built_in : state->type && state->type->kind != TIDE_STREAM_OPAQUE;
    if (is_of_other || (built_in && strcmp(state->sequence, built_in->sequence) != 0))
        return tide_fail(err, TIDE_E_DAMAGED,
                         "the row of stream %s is damaged: kind '%.*s', sequence '%s'", state->name,
                         (int)kind.len, kind.ptr, state->sequence);
    if (!state->type)
        return tide_fail(err, TIDE_E_NEWER,
                         "the stream %s is of a kind this program does not know: %.*s", state->name,
                         (int)kind.len, kind.ptr);
    return TIDE_OK;
}

static tide_status read_state(tide_stream_state *out, tide_query *query, tide_error *err)
{
    out->id = tide_query_col_i64(query);
    const tide_view kind = tide_query_col_text(query);
    out->type = find_type(kind);
    tide_view_copy(out->sequence, sizeof out->sequence, tide_query_col_text(query));
    TIDE_TRY(check_row(out, kind, err));
    out->head_seq = tide_query_col_i64(query);
    out->floor_seq = tide_query_col_i64(query);
    out->floor_chain = to_digest(tide_query_col_blob(query));
    out->floor_arrived_us = tide_query_col_time(query);
    if (out->floor_arrived_us == INT64_MIN)
        out->floor_arrived_us = 0;
    out->floor_bytes = tide_query_col_i64(query);
    out->epoch = tide_query_col_i64(query);
    out->written_epoch = tide_query_col_i64(query);
    out->epoch_first_seq = tide_query_col_i64(query);
    if (out->written_epoch != out->epoch)
        out->epoch_first_seq = out->head_seq + 1;
    if (out->head_seq <= out->floor_seq)
        out->chain = out->floor_chain;
    out->arrived_us = out->floor_arrived_us;
    out->stored_through = out->floor_bytes;
    return TIDE_OK;
}

tide_status tide_stream_find(tide_stream_state *out, tide_tx *tx, const char *name, tide_error *err)
{
    memset(out, 0, sizeof *out);
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status =
        tide_tx_one(&query, tx, TIDE_SQL_FEED_STREAM_FIND, err, tide_bind_text("name", name));
    if (status == TIDE_NONE && tide_stream_type_find(name)) /* every store has it */
        return tide_fail(err, TIDE_E_DAMAGED, "the row of stream %s is missing", name);
    if (status == TIDE_NONE)
        return tide_fail(err, TIDE_E_NOT_FOUND, "there is no stream '%.*s'", TIDE_FEED_NAME_MAX,
                         name);
    TIDE_TRY(status);
    tide_view_copy(out->name, sizeof out->name, tide_view_of(name));
    return read_state(out, query, err);
}

tide_status tide_stream_find_listed(tide_stream_state *out, tide_tx *tx, const char *name,
                                    tide_error *err)
{
    const tide_status status = tide_stream_find(out, tx, name, err);
    if (status == TIDE_E_NOT_FOUND)
        return tide_fail(err, TIDE_E_DAMAGED,
                         "stream '%.*s' is listed and cannot be found by its name",
                         TIDE_FEED_NAME_MAX, name);
    return status;
}

void tide_feed_walk_read(tide_query *query, tide_batch_head *out)
{
    out->id = tide_query_col_i64(query);
    out->stream_id = tide_query_col_i64(query);
    out->last_seq = tide_query_col_i64(query);
    out->first_seq = tide_query_col_i64(query);
    out->epoch = tide_query_col_i64(query);
    out->min_time_ms = tide_query_col_i64(query);
    out->max_time_ms = tide_query_col_i64(query);
    out->arrived_us = tide_query_col_time(query);
    out->codec = tide_query_col_i64(query);
    out->raw_len = tide_query_col_i64(query);
    out->stored_through = tide_query_col_i64(query);
    out->chain_before = to_digest(tide_query_col_blob(query));
    out->chain = to_digest(tide_query_col_blob(query));
    out->services = tide_query_col_blob(query);
    out->body_crc = (uint32_t)tide_query_col_i64(query);
    out->head_crc = (uint32_t)tide_query_col_i64(query);
    out->body_len = tide_query_col_i64(query);
}

tide_status tide_feed_walk_begin(tide_query **out, tide_tx *tx, int64_t stream_id, int64_t after,
                                 tide_error *err)
{
    return tide_query_start(out, tx, TIDE_SQL_FEED_BATCH_WALK, err,
                            tide_bind_i64("stream", stream_id), tide_bind_i64("after", after));
}

tide_status tide_stream_read_head(tide_stream_state *state, tide_tx *tx, tide_error *err)
{
    if (state->head_seq <= state->floor_seq)
        return TIDE_OK;
    TIDE_QUERY(query, tx, TIDE_SQL_FEED_BATCH_LAST, err, tide_bind_i64("stream", state->id),
               tide_bind_i64("last", state->head_seq));
    TIDE_OK_IF_NONE(tide_query_step(query, err));
    tide_batch_head head;
    tide_feed_walk_read(query, &head);
    if (!tide_batch_is_head_sound(&head, state->id))
        return TIDE_OK;
    state->chain = head.chain;
    state->arrived_us = head.arrived_us;
    state->stored_through = head.stored_through;
    return TIDE_OK;
}

tide_status tide_stream_read_body(tide_tx *tx, const tide_stream_type *type,
                                  const tide_batch_head *head, tide_buffer *raw,
                                  bool *is_row_readable, tide_error *err)
{
    *is_row_readable = false;
    TIDE_QUERY(query, tx, TIDE_SQL_FEED_BATCH_BODY, err, tide_bind_i64("id", head->id));
    const tide_status status = tide_query_step(query, err);
    TIDE_TRY(status);
    *is_row_readable = true;
    if (status == TIDE_NONE)
        return tide_fail(err, TIDE_E_DAMAGED, "the row is not there");
    TIDE_TRY(tide_batch_unpack(raw, head, tide_query_col_blob(query), err));
    return tide_batch_check(type, head, tide_buffer_view(raw), err);
}

/* d(seq) inside a batch: from the digest before its first record on. */
static tide_status digest_inside(const tide_stream_state *state, tide_tx *tx,
                                 const tide_batch_head *head, int64_t seq, tide_digest128 *out,
                                 tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer raw = tide_buffer_of(TIDE_FEED_BATCH_BYTES_MAX);
    bool is_row_readable = false;
    const tide_status status =
        tide_stream_read_body(tx, state->type, head, &raw, &is_row_readable, err);
    if (status == TIDE_E_DAMAGED && is_row_readable)
        return TIDE_NONE;
    TIDE_TRY(status);
    *out = tide_feed_walk_digest(state->type, head, tide_buffer_view(&raw), seq);
    return TIDE_OK;
}

tide_digest128 tide_feed_walk_digest(const tide_stream_type *type, const tide_batch_head *head,
                                     tide_view raw, int64_t seq)
{
    tide_digest128 digest = head->chain_before;
    tide_record record;
    while (tide_record_next(type, &raw, &record) == TIDE_OK && record.seq <= seq)
        digest = tide_record_chain(digest, record.bytes);
    return digest;
}

static bool is_known(const tide_digest128 *digest, int64_t seq)
{
    static const tide_digest128 nothing;
    return seq == 0 || !tide_digest128_equal(digest, &nothing);
}

tide_status tide_stream_digest_at(const tide_stream_state *state, tide_tx *tx, int64_t seq,
                                  tide_digest128 *out, tide_error *err)
{
    memset(out, 0, sizeof *out);
    if (seq == 0)
        return TIDE_OK;
    if (seq == state->floor_seq && is_known(&state->floor_chain, seq)) {
        *out = state->floor_chain;
        return TIDE_OK;
    }
    if (seq < state->floor_seq || seq > state->head_seq)
        return TIDE_NONE;
    TIDE_QUERY_BY(query, tide_feed_walk_begin, tx, state->id, seq - 1, err);
    tide_status status = TIDE_OK;
    tide_batch_head head;
    /* The batch that holds seq, and if that one is damaged, the next: it says what was before it. */
    for (int i = 0; i < 2 && (status = tide_query_step(query, err)) == TIDE_OK; i++) {
        tide_feed_walk_read(query, &head);
        if (!tide_batch_is_head_sound(&head, state->id))
            continue;
        status = TIDE_OK;
        if (head.last_seq == seq)
            *out = head.chain;
        else if (head.first_seq == seq + 1)
            *out = head.chain_before;
        else if (head.first_seq <= seq)
            status = digest_inside(state, tx, &head, seq, out, err);
        else
            return TIDE_NONE;
        if (status != TIDE_OK)
            return status;
        return is_known(&head.chain_before, head.first_seq - 1) || head.last_seq == seq ? TIDE_OK
                                                                                        : TIDE_NONE;
    }
    TIDE_TRY(status);
    return TIDE_NONE;
}

tide_status tide_stream_epoch_of(const tide_stream_state *state, tide_tx *tx, int64_t seq,
                                 int64_t *epoch, tide_error *err)
{
    *epoch = 0;
    TIDE_QUERY(query, tx, TIDE_SQL_FEED_EPOCH_LIST, err, tide_bind_i64("stream", state->id));
    TIDE_EACH(tide_query_step(query, err)) {
        const int64_t found = tide_query_col_i64(query);
        if (tide_query_col_i64(query) <= seq)
            *epoch = found;
    }
    return TIDE_OK;
}
