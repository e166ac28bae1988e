/* snapshot.h - where the state of a checkpoint lies: in its row, or in chunks that others use too.
 *
 * A state above TIDE_JOURNAL_INLINE_MAX bytes is cut by content (chunk.h). The row then holds a note for
 * people, {"tidemark_chunks":n,"bytes":len,"sha256":"..."}, and references tell which chunks it is made of.
 * Only chunks that nobody has stored yet are written.
 *
 *     cut ---- foresee (no transaction: what is missing is compressed) ---- store (in the transaction)
 *
 * What store relies on: between looking a chunk up and the commit of the reference to it nobody removes it. SQLite has one
 * writer; on PostgreSQL store holds a lock that the collector (chunk_gc.h) waits for.
 *
 * Threads: one at a time. */
#pragma once

#include <tidemark/journal.h>

#include "base/buffer.h"
#include "journal/snapshot/chunk.h"

typedef struct tide_snapshot_part tide_snapshot_part;

typedef struct tide_snapshot {
    tide_view state; /* borrowed */
    int count;       /* chunks; 0: it stands in the row */
    tide_snapshot_part *parts;
    char *digests;       /* of all parts, one behind the other */
    tide_buffer encoded; /* those that were compressed so far */
    tide_chunk_coder coder;
    char note[160]; /* what the row holds */
} tide_snapshot;

/* Cut the state, which must outlive the snapshot. TIDE_E_NOMEM. */
TIDE_MUST_CHECK tide_status tide_snapshot_init(tide_snapshot *snapshot, tide_view state,
                                               tide_error *err);
/* Fits TIDE_CLEANUP on a variable that began as {0}. */
void tide_snapshot_done(tide_snapshot *snapshot);

/* What the row holds: the state or the note. */
tide_view tide_snapshot_row_text(const tide_snapshot *snapshot);

/* All digests, for the statements that write references. */
tide_view tide_snapshot_digests(const tide_snapshot *snapshot);

/* Compress what the store does not have, before a transaction is held up by it. Only a saving of time. */
TIDE_MUST_CHECK tide_status tide_snapshot_foresee(tide_snapshot *snapshot, tide_store *store,
                                                  tide_error *err);

/* Store the chunks that are missing. References to all of them may follow in the same transaction. */
TIDE_MUST_CHECK tide_status tide_snapshot_store(tide_snapshot *snapshot, tide_tx *tx,
                                                tide_error *err);

/* Put the chunks of a checkpoint together into out, which has room for len bytes. TIDE_E_DAMAGED: a chunk is
 * missing or damaged, or their length is another. */
TIDE_MUST_CHECK tide_status tide_snapshot_load(char *out, int64_t len, int64_t chunk_count,
                                               tide_tx *tx, int64_t global_sequence,
                                               tide_chunk_coder *coder, tide_error *err);
