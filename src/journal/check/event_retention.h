/* event_retention.h - events go when they are old.
 *
 * What was removed of the journal stays recorded elsewhere, for good (checkpoint_gaps, checkpoint_cuts); events are for who
 * follows. One who comes back after longer than they are kept sees every checkpoint that is there, and of the rest what
 * happened since.
 *
 * Survives: a crash between two steps, each is a transaction. Threads: any. */
#pragma once

#include <tidemark/journal.h>

/* Remove events older than keep_us, in bounded steps; the newest stays. */
TIDE_MUST_CHECK tide_status tide_journal_expire_events(tide_store *store, int64_t keep_us,
                                                       tide_error *err);
