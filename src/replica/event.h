/* event.h - one change of one row, as it travels: who made it, which number, what the row's columns became.
 *
 * Identity: (origin, epoch, seq) never changes on its way, whoever relays it. prev_seq is the origin's number before it that
 * changed the same table (0: none), so that a table's contiguity can be checked without the other tables' numbers. cut_seq is the last
 * number of the batch that the event belongs to: a batch is a union of whole transactions of its origin, and is applied
 * whole.
 *
 * A change is a row image, not a statement: the key, and the columns that were written with their values. For each written column the
 * stamp that it replaced as the origin knew it (base): another stamp at the place where it is applied is a conflict, which the
 * greater stamp wins. A base is a whole stamp: times of two nodes may tie, and who knew the one did not know the other.
 *
 *     create   the row did not exist at the origin: every column
 *     update   the columns that changed
 *     delete   none; a tombstone with the event's stamp. Columns may be named all the same, with NULL: their base is the stamp of that column that the
 *              deleter knew, where it is not the row's (base)
 *
 * Key changes are a delete and a create of one batch.
 *
 * Encoding: version byte, fixed order, varints, values of value.h, CRC32C at the end; one event has one encoding. Bytes from outside are never trusted: TIDE_E_DAMAGED, TIDE_E_LIMIT.
 *
 * Threads: pure. */
#pragma once

#include "base/text/uuid.h"
#include "replica/stamp.h"
#include "replica/value.h"

enum {
    TIDE_EVENT_COLUMNS_MAX = 2000, /* SQLite's own limit */
    TIDE_EVENT_KEY_MAX = 64,       /* columns of a key */
    TIDE_EVENT_BYTES_MAX = 32 << 20,
    TIDE_EVENT_KEY_BYTES_MAX = 1 << 20,
    TIDE_EVENT_TABLE_MAX = 256, /* bytes of a table's name */
};

typedef enum tide_change_kind {
    TIDE_ROW_CREATE,
    TIDE_ROW_UPDATE,
    TIDE_ROW_DELETE,
} tide_change_kind;

typedef struct tide_event_column {
    int column; /* position in the table's schema of that digest: by name through the schema, see table.h */
    tide_sql_value value;
    tide_stamp base; /* that was replaced; time 0: none was known */
    bool
        is_made_up; /* a default of ours: its writer's table did not have the column. Not encoded */
} tide_event_column;

typedef struct tide_event {
    tide_node_id origin;
    int64_t epoch;
    int64_t seq;
    int64_t prev_seq;
    int64_t cut_seq;
    tide_stamp stamp;
    char table[TIDE_EVENT_TABLE_MAX + 1];
    uint64_t
        schema; /* first 8 bytes of the digest of the table's schema: names and order of its columns */
    tide_change_kind kind;
    /* An update that writes nothing: an application has committed this row without its parent. Its
     * columns are those of the reference, which holds no rows back any more (references.h). */
    bool is_orphan;
    /* An update that writes nothing: somebody has dismissed conflicts of this row. The bases of its
     * columns are the timestamps of the lost writes (conflict.h). */
    bool is_dismissal;
    tide_event_column *columns; /* ascending */
    int column_count;
    tide_stamp base; /* delete, create: the row's stamp that was replaced; time 0: none */
    int key_count;
    tide_sql_value key[TIDE_EVENT_KEY_MAX]; /* last: only as many as there are are copied */
} tide_event;

/* All that an event says; columns are shared. What lies behind its key is left as it is. */
void tide_event_copy(tide_event *out, const tide_event *event);
size_t tide_event_size(const tide_event *event); /* of what is copied */

TIDE_MUST_CHECK tide_status tide_event_encode(tide_buffer *out, const tide_event *event,
                                              tide_error *err);
/* Views are borrowed from bytes; columns is memory of the event (tide_event_done). */
TIDE_MUST_CHECK tide_status tide_event_decode(tide_event *out, tide_view bytes, tide_error *err);
/* Is it whole, and the one of this number and batch (0: any)? TIDE_E_DAMAGED names it. */
TIDE_MUST_CHECK tide_status tide_event_check(tide_view bytes, const tide_node_id *origin,
                                             int64_t epoch, int64_t seq, int64_t cut_seq,
                                             tide_error *err);
void tide_event_done(tide_event *event); /* fits TIDE_CLEANUP on {0} */

/* A stamp that was replaced: its time, and where that is not 0 a byte: 0 it is the writer's own, 1 another node's, which follows. */
TIDE_MUST_CHECK tide_status tide_base_encode(tide_buffer *out, const tide_stamp *base,
                                             const tide_node_id *writer);
/* false: not what tide_base_encode writes. */
bool tide_base_decode(tide_reader *from, tide_stamp *out, const tide_node_id *writer);

/* The id of an event, as the replication document has it: a UUID made of its stamp and identity, the same on every node. Ids rise with the stamps, so that an index of them grows at
 * its end. */
void tide_event_id(char out[TIDE_UUID_TEXT_SIZE], const tide_event *event);
