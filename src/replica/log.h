/* log.h - the events of all origins, and how far each of them has come: what fold and apply share.
 *
 * An origin's epoch has one cursor over all its numbers (tide_replica_origins) and one per table (tide_replica_cursors), where an event settles
 * the numbers from the one after its prev_seq: no event of that table lies between. A number that is settled is a duplicate,
 * also when its event was collected long ago.
 *
 * Threads: as the transaction. */
#pragma once

#include "replica/desk.h"

enum { TIDE_LOG_HOLES_MAX = 4096 }; /* more scattered than that is refused: fill holes first */

typedef struct tide_log_table {
    char name[TIDE_EVENT_TABLE_MAX + 1];
    tide_cursor cursor;
    int64_t last_seq;
} tide_log_table;

/* An origin's epoch under work: loaded, settled in memory, stored. */
typedef struct tide_log_origin {
    tide_node_id origin;
    int64_t epoch;
    int64_t start;
    int64_t floor;
    bool is_new;
    tide_cursor cursor;
    tide_log_table *tables;
    int table_count;
} tide_log_origin;

TIDE_MUST_CHECK tide_status tide_log_origin_load(tide_log_origin *out, tide_foreign_tx *tx,
                                                 const tide_node_id *origin, int64_t epoch,
                                                 tide_error *err);
void tide_log_origin_done(tide_log_origin *origin); /* fits TIDE_CLEANUP on {0} */
/* The cursor of a table, loaded if need be; borrowed until the next call. */
TIDE_MUST_CHECK tide_status tide_log_origin_table(tide_log_table **out, tide_log_origin *origin,
                                                  tide_foreign_tx *tx, const char *name,
                                                  tide_error *err);
/* Settle an event's number. TIDE_E_LIMIT: too many holes. */
TIDE_MUST_CHECK tide_status tide_log_settle(tide_log_origin *origin, tide_foreign_tx *tx,
                                            const tide_event *event, tide_error *err);
TIDE_MUST_CHECK tide_status tide_log_origin_store(tide_log_origin *origin, tide_foreign_tx *tx,
                                                  tide_error *err);

/* Number and stamp an event of this node that no program wrote, and keep it. event: everything but
 * its origin, position and stamp. Behind a fold, in the same transaction. */
TIDE_MUST_CHECK tide_status tide_log_add_own(tide_desk *desk, tide_log_origin *origin,
                                             const tide_table *table, tide_event *event,
                                             tide_error *err);

/* How far every log is (tide_node_marks). */
TIDE_MUST_CHECK tide_status tide_log_marks(tide_foreign_tx *tx, tide_mark_fn *fn, void *arg,
                                           tide_error *err);

/* Keep an event; one that is there already stays as it is. */
TIDE_MUST_CHECK tide_status tide_log_put(tide_desk *desk, const tide_event *event, tide_view bytes,
                                         bool is_processed, tide_error *err);
/* What the columns of an event tell, for people and for peers that know no bodies. They have a digest in the row
 * (core/value_digest.h): the XOR of theirs, so that data can follow. */
typedef struct tide_told {
    tide_view id;
    tide_view operation;
    tide_view record;
    tide_view data; /* empty: not known yet */
    int64_t timestamp_ms;
    int64_t epoch;
    int64_t seq;
} tide_told;

/* The next column of the row is the digest. TIDE_E_DAMAGED: these are not what was written. */
TIDE_MUST_CHECK tide_status tide_log_check_told(const tide_told *told, tide_foreign_query *query,
                                                tide_error *err);

/* It is merged; its data can be told by now. */
TIDE_MUST_CHECK tide_status tide_log_set_processed(const tide_desk *desk, const tide_event *event,
                                                   tide_error *err);
/* Events that were processed without being merged one by one, by a snapshot that has them, may have come before their schema was known: their data is
 * made up for. */
TIDE_MUST_CHECK tide_status tide_log_fill_data(tide_desk *desk, tide_error *err);
/* The same for events that wait, maybe for ever: in quarantine, or for the rest of their batch. When other schemas are known than before. */
TIDE_MUST_CHECK tide_status tide_log_fill_waiting(tide_desk *desk, tide_error *err);
