#include "journal/snapshot/snapshot.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/journal.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "base/interface/caller.h"
#include "journal/events.h"
#include "journal/page.h"
#include "journal/snapshot/json_diff.h"
#include "store/statement.h"
#include "tidemark_sql.h"

enum {
    BATCH_LEN = 1 << 20, /* compressed bytes of one statement */
    BATCH_COUNT = 512,
};

struct tide_snapshot_part {
    tide_chunk_span span;
    size_t encoded_at; /* in encoded */
    size_t encoded_len;
    tide_chunk_codec codec;
    bool is_encoded;
    bool is_known; /* the store has it; as of the last look */
};

static char *digest_of(const tide_snapshot *snapshot, int index)
{
    return snapshot->digests + (size_t)index * TIDE_CHUNK_DIGEST_LEN;
}

static tide_view bytes_of(const tide_snapshot *snapshot, int index)
{
    const tide_chunk_span span = snapshot->parts[index].span;
    return tide_view_bytes(snapshot->state.ptr + span.offset, span.len);
}

static tide_status write_note(tide_snapshot *snapshot, tide_error *err)
{
    uint8_t digest[TIDE_SHA256_LEN];
    char hex[TIDE_SHA256_TEXT_SIZE];
    TIDE_TRY(tide_sha256_of(snapshot->state, digest, err));
    tide_hex_encode(hex, digest, sizeof digest);
    (void)snprintf(snapshot->note, sizeof snapshot->note,
                   "{\"tidemark_chunks\":%d,\"bytes\":%zu,\"sha256\":\"%s\"}", snapshot->count,
                   snapshot->state.len, hex);
    return TIDE_OK;
}

tide_status tide_snapshot_init(tide_snapshot *snapshot, tide_view state, tide_error *err)
{
    *snapshot = (tide_snapshot){.state = state};
    tide_buffer_init(&snapshot->encoded, TIDE_JOURNAL_SNAPSHOT_MAX);
    if (state.len <= TIDE_JOURNAL_INLINE_MAX)
        return TIDE_OK;
    const size_t most = state.len / TIDE_CHUNK_LEN_MIN + 2;
    TIDE_ALLOC(snapshot->parts, most, err);
    tide_chunker chunker;
    tide_chunker_init(&chunker, state);
    while (tide_chunker_next(&chunker, &snapshot->parts[snapshot->count].span))
        snapshot->count++;
    snapshot->digests = malloc((size_t)snapshot->count * TIDE_CHUNK_DIGEST_LEN);
    TIDE_NEED_MEMORY(snapshot->digests, err);
    for (int i = 0; i < snapshot->count; i++)
        TIDE_TRY(tide_chunk_digest(bytes_of(snapshot, i), (uint8_t *)digest_of(snapshot, i), err));
    return write_note(snapshot, err);
}

void tide_snapshot_done(tide_snapshot *snapshot)
{
    free(snapshot->parts);
    free(snapshot->digests);
    tide_buffer_done(&snapshot->encoded);
    tide_chunk_coder_done(&snapshot->coder);
    *snapshot = (tide_snapshot){0};
}

tide_view tide_snapshot_row_text(const tide_snapshot *snapshot)
{
    return snapshot->count > 0 ? tide_view_of(snapshot->note) : snapshot->state;
}

tide_view tide_snapshot_digests(const tide_snapshot *snapshot)
{
    return tide_view_bytes(snapshot->digests, (size_t)snapshot->count * TIDE_CHUNK_DIGEST_LEN);
}

static tide_status look_up(tide_tx *tx, void *arg, tide_error *err)
{
    tide_snapshot *snapshot = arg;
    for (int i = 0; i < snapshot->count; i++)
        snapshot->parts[i].is_known = false;
    TIDE_QUERY(query, tx, TIDE_SQL_CHUNKS_KNOWN, err, tide_bind_i64("count", snapshot->count),
               tide_bind_blob("digests", tide_snapshot_digests(snapshot)));
    TIDE_EACH(tide_query_step(query, err))
        snapshot->parts[tide_query_col_i64(query)].is_known = true;
    return TIDE_OK;
}

static tide_status encode(tide_snapshot *snapshot, int index, tide_error *err)
{
    tide_snapshot_part *part = &snapshot->parts[index];
    if (part->is_encoded)
        return TIDE_OK;
    part->encoded_at = snapshot->encoded.len;
    TIDE_TRY(tide_chunk_encode(&snapshot->coder, bytes_of(snapshot, index), &snapshot->encoded,
                               &part->codec, err));
    part->encoded_len = snapshot->encoded.len - part->encoded_at;
    part->is_encoded = true;
    return TIDE_OK;
}

tide_status tide_snapshot_foresee(tide_snapshot *snapshot, tide_store *store, tide_error *err)
{
    if (snapshot->count == 0)
        return TIDE_OK;
    TIDE_TRY(tide_store_read_local(store, look_up, snapshot, err));
    for (int i = 0; i < snapshot->count; i++)
        if (!snapshot->parts[i].is_known)
            TIDE_TRY(encode(snapshot, i, err));
    return TIDE_OK;
}

/* ---- storing ---- */

typedef struct batch {
    tide_buffer digests;
    tide_buffer bodies;
    tide_buffer list;
    int count;
} batch;

static void batch_done(batch *b)
{
    tide_buffer_done(&b->digests);
    tide_buffer_done(&b->bodies);
    tide_buffer_done(&b->list);
}

static tide_status add_to_batch(batch *b, const tide_snapshot *snapshot, int index, tide_error *err)
{
    const tide_snapshot_part *part = &snapshot->parts[index];
    tide_status status =
        tide_buffer_printf(&b->list, "%s[%zu,%d,%zu,%zu]", b->count ? "," : "[", part->span.len,
                           (int)part->codec, b->bodies.len, part->encoded_len);
    if (status >= TIDE_OK)
        status = tide_buffer_append(&b->digests, digest_of(snapshot, index), TIDE_CHUNK_DIGEST_LEN);
    if (status >= TIDE_OK)
        status = tide_buffer_append(&b->bodies, snapshot->encoded.ptr + part->encoded_at,
                                    part->encoded_len);
    if (status < TIDE_OK)
        return tide_fail(err, status, "no room for the chunks of a snapshot");
    b->count++;
    return TIDE_OK;
}

static tide_status write_batch(batch *b, tide_tx *tx, tide_error *err)
{
    if (b->count == 0)
        return TIDE_OK;
    if (tide_buffer_append_byte(&b->list, ']') < TIDE_OK)
        return tide_no_memory(err);
    TIDE_TRY(tide_tx_exec(tx, TIDE_SQL_CHUNKS_ADD, NULL, err,
                          tide_bind_blob("digests", tide_buffer_view(&b->digests)),
                          tide_bind_blob("bodies", tide_buffer_view(&b->bodies)),
                          tide_bind_view("list", tide_buffer_view(&b->list))));
    tide_buffer_clear(&b->digests);
    tide_buffer_clear(&b->bodies);
    tide_buffer_clear(&b->list);
    b->count = 0;
    return TIDE_OK;
}

static int compare_digests(const void *a, const void *b, void *arg)
{
    const tide_snapshot *snapshot = arg;
    return memcmp(digest_of(snapshot, *(const int *)a), digest_of(snapshot, *(const int *)b),
                  TIDE_CHUNK_DIGEST_LEN);
}

/* In the order of digests: two transactions that store the same chunks then wait for each other in one direction only. */
static tide_status list_missing(int **out, int *out_count, const tide_snapshot *snapshot,
                                tide_error *err)
{
    int *missing = calloc((size_t)snapshot->count, sizeof *missing);
    TIDE_NEED_MEMORY(missing, err);
    int count = 0;
    for (int i = 0; i < snapshot->count; i++)
        if (!snapshot->parts[i].is_known)
            missing[count++] = i;
    qsort_r(missing, (size_t)count, sizeof *missing, compare_digests, (void *)snapshot);
    int kept = 0;
    for (int i = 0; i < count; i++)
        if (kept == 0 || memcmp(digest_of(snapshot, missing[i]),
                                digest_of(snapshot, missing[kept - 1]), TIDE_CHUNK_DIGEST_LEN) != 0)
            missing[kept++] = missing[i];
    *out = missing;
    *out_count = kept;
    return TIDE_OK;
}

static tide_status keep_collector_away(tide_tx *tx, tide_error *err)
{
    if (tide_store_engine(tide_tx_store(tx)) != TIDE_ENGINE_POSTGRES)
        return TIDE_OK;
    return tide_tx_exec(tx, TIDE_SQL_CHUNKS_SHARE, NULL, err, TIDE_NO_BIND);
}

tide_status tide_snapshot_store(tide_snapshot *snapshot, tide_tx *tx, tide_error *err)
{
    if (snapshot->count == 0)
        return TIDE_OK;
    TIDE_TRY(keep_collector_away(tx, err));
    TIDE_TRY(look_up(tx, snapshot, err));
    TIDE_CLEANUP(tide_freep) int *missing = NULL;
    int count = 0;
    TIDE_TRY(list_missing(&missing, &count, snapshot, err));
    TIDE_CLEANUP(batch_done) batch b = {0};
    tide_buffer_init(&b.digests, BATCH_COUNT * TIDE_CHUNK_DIGEST_LEN);
    tide_buffer_init(&b.bodies, BATCH_LEN + TIDE_CHUNK_LEN_MAX);
    tide_buffer_init(&b.list, BATCH_COUNT * 64);
    for (int i = 0; i < count; i++) {
        TIDE_TRY(encode(snapshot, missing[i], err));
        TIDE_TRY(add_to_batch(&b, snapshot, missing[i], err));
        if (b.bodies.len >= BATCH_LEN || b.count == BATCH_COUNT)
            TIDE_TRY(write_batch(&b, tx, err));
    }
    return write_batch(&b, tx, err);
}

/* ---- loading ---- */

tide_status tide_snapshot_load(char *out, int64_t len, int64_t chunk_count, tide_tx *tx,
                               int64_t global_sequence, tide_chunk_coder *coder, tide_error *err)
{
    TIDE_QUERY(query, tx, TIDE_SQL_CHUNKS_OF, err,
               tide_bind_i64("global_sequence", global_sequence));
    TIDE_BUFFER(chunk, TIDE_CHUNK_LEN_MAX);
    int64_t filled = 0;
    int64_t place = 0;
    tide_status status = TIDE_OK;
    while ((status = tide_query_step(query, err)) == TIDE_OK) {
        const int64_t position = tide_query_col_i64(query);
        tide_chunk_stored stored = {0};
        stored.raw_len = tide_query_col_i64(query);
        stored.codec = tide_query_col_i64(query);
        stored.digest = tide_query_col_blob(query);
        const bool is_missing = tide_query_col_is_null(query);
        stored.bytes = tide_query_col_blob(query);
        if (position != place || is_missing)
            return tide_fail(err, TIDE_E_DAMAGED, "chunk %" PRId64 " is missing", place);
        tide_buffer_clear(&chunk);
        status = tide_chunk_decode(coder, &stored, &chunk, err);
        if (status < TIDE_OK)
            return tide_fail_context(err, status, "chunk %" PRId64, place);
        if ((int64_t)chunk.len > len - filled)
            return tide_fail(err, TIDE_E_DAMAGED, "the chunks are longer than the snapshot");
        memcpy(out + filled, chunk.ptr, chunk.len);
        filled += (int64_t)chunk.len;
        place++;
    }
    TIDE_TRY(status);
    if (place != chunk_count || filled != len)
        return tide_fail(err, TIDE_E_DAMAGED,
                         "%" PRId64 " of %" PRId64 " chunks, %" PRId64 " of %" PRId64 " bytes",
                         place, chunk_count, filled, len);
    return TIDE_OK;
}

/* Restoring a checkpoint, and the difference of two. */

typedef struct load_request {
    const char *id_or_number;
    tide_journal_page *page;
} load_request;

static tide_status load(tide_tx *tx, void *arg, tide_error *err)
{
    const load_request *request = arg;
    int64_t number = 0;
    TIDE_TRY(tide_journal_need(tx, request->id_or_number, &number, err));
    return tide_journal_page_read(request->page, tx, &number, 1, TIDE_PAGE_SNAPSHOTS, err);
}

/* One checkpoint with its snapshot, verified. */
static tide_status load_one(tide_journal_page **out, tide_store *store, const char *id_or_number,
                            tide_error *err)
{
    *out = tide_journal_page_new();
    TIDE_NEED_MEMORY(*out, err);
    load_request request = {.id_or_number = id_or_number, .page = *out};
    TIDE_TRY(tide_store_read(store, load, &request, err));
    return tide_journal_row_check(&(*out)->rows[0], err);
}

/* ---- restore ---- */

typedef struct restore_request {
    const tide_checkpoint *checkpoint;
    tide_sequence_range range;
} restore_request;

static tide_status record_restore(tide_tx *tx, void *arg, tide_error *err)
{
    restore_request *request = arg;
    const tide_journal_event event = {
        .kind = TIDE_JOURNAL_RESTORED,
        .first_global = request->checkpoint->global_sequence,
        .last_global = request->checkpoint->global_sequence,
        .count = 1,
        .task_id = request->checkpoint->task_id,
    };
    return tide_journal_event_add(tx, &event, &request->range, err);
}

tide_status tide_journal_restore(tide_store *store, const char *id_or_number,
                                 tide_checkpoint_fn *fn, void *arg, tide_error *err)
{
    TIDE_NEED(store && id_or_number && fn, err);
    TIDE_CLEANUP(tide_journal_page_freep) tide_journal_page *page = NULL;
    TIDE_TRY(load_one(&page, store, id_or_number, err));
    restore_request request = {.checkpoint = &page->rows[0].checkpoint};
    TIDE_TRY(tide_callback_check(fn(arg, request.checkpoint, err),
                                 err)); /* what was refused was not restored */
    return tide_store_write(store, record_restore, &request, err);
}

/* ---- diff ---- */

tide_status tide_journal_diff(tide_store *store, const char *a, const char *b,
                              tide_difference_fn *fn, void *arg, tide_error *err)
{
    TIDE_NEED(store && a && b && fn, err);
    TIDE_CLEANUP(tide_journal_page_freep) tide_journal_page *first = NULL;
    TIDE_CLEANUP(tide_journal_page_freep) tide_journal_page *second = NULL;
    TIDE_TRY(load_one(&first, store, a, err));
    TIDE_TRY(load_one(&second, store, b, err));
    return tide_json_diff(first->rows[0].checkpoint.snapshot, second->rows[0].checkpoint.snapshot,
                          fn, arg, err);
}
