/* events.h - what happened to checkpoints besides being appended: restored, deleted, compacted, imported.
 *
 * Events are numbered 1, 2, 3, ... in the order in which they become visible, by a sequence of their own, and carry the last
 * checkpoint number of their time: a follower that merges both streams sees an event behind what it is about.
 *
 * Threads: as safe as the tide_tx. */
#pragma once

#include <tidemark/journal.h>
#include <tidemark/sequence.h>

#define TIDE_JOURNAL_EVENTS "journal/events" /* the sequence's name; sql/journal.sql has it too */

/* Add an event of this transaction and tell who watches: declares the sequence, defers the row. At most one per
 * transaction. range must outlive the transaction's closure. */
TIDE_MUST_CHECK tide_status tide_journal_event_add(tide_tx *tx, const tide_journal_event *event,
                                                   tide_sequence_range *range, tide_error *err);

/* Its halves, for who learns only after the numbers were taken what the event is about. */
TIDE_MUST_CHECK tide_status tide_journal_event_declare(tide_tx *tx, tide_sequence_range *range,
                                                       tide_error *err);
TIDE_MUST_CHECK tide_status tide_journal_event_defer(tide_tx *tx, const tide_journal_event *event,
                                                     tide_error *err);

/* The kind with this name; false: unknown. */
bool tide_journal_event_parse(tide_journal_event_kind *kind, tide_view name);
