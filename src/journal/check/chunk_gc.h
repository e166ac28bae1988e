/* chunk_gc.h - chunks that no checkpoint uses any more, and the pages that became free.
 *
 * Bounded steps, each one transaction. Only chunks that have lost a reference are looked at. On PostgreSQL a step is alone
 * with the chunks: whoever is about to refer to one (snapshot.h) has committed before, or looks after it.
 *
 * Threads: any. */
#pragma once

#include <tidemark/journal.h>

/* Remove all of them; the counts are added to. */
TIDE_MUST_CHECK tide_status tide_journal_chunk_gc(tide_store *store, int64_t *chunks,
                                                  int64_t *bytes, tide_error *err);

/* Give free pages of a SQLite file back to the file system. Nothing to do on PostgreSQL. */
TIDE_MUST_CHECK tide_status tide_journal_shrink(tide_store *store, tide_error *err);
