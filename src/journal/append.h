/* append.h - appending inside of somebody's transaction, for what stands above the journal. */
#pragma once

#include <tidemark/journal.h>

/* tide_journal_append_in for a caller that holds rows of these tasks, so that they are known to exist: saves
 * a question, which on PostgreSQL is a round trip. */
TIDE_MUST_CHECK tide_status tide_journal_append_known_in(tide_tx *tx,
                                                         const tide_checkpoint_new *checkpoints,
                                                         int count, tide_checkpoint_numbers *out,
                                                         tide_error *err);
