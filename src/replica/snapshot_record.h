/* snapshot_record.h - the inside of a snapshot: what a node has to know to stand where another stood.
 *
 * Records in this order, which a reader insists on:
 *
 *     head      who made it, its hybrid clock (no stamp in the file is above it), how many origins and tables follow
 *     origin*   marks of every log (start, floor, prefix, highest), ascending. The prefix is the cut: everything up to it is in the rows, or comes along as
 *               an event; it ends a batch (a batch that the maker does not have whole, spool.h, lies above it and comes with the tail)
 *     table*    name, schema digest, columns, key, how it is created, and what it was like before (schemas.h: events that are still on their
 *               way may be of an earlier schema); parents of foreign keys before their children
 *     cursor*   how far each table is, by log: the replication document's checkpoints
 *     event*    what is in the log and not (or not only) in the rows: events that wait in quarantine, events of tables that
 *               are not tracked at the maker, events beyond a hole. Below a floor nobody could ever ask for them again.
 *     row*      per table, ascending by encoded key: the clock; the values, of a row that does not stand in its table those that are known (image:
 *               tombstones, rows aside, writes that wait for their creation); why and for whom it is aside; conflicts and knowledge of it
 *     sum       behind a table's rows: how many stand, and their digest as of tide_node_digests
 *     end       counts
 *
 * Not in it: the other events (they lie at or below the cut, which becomes the floor), peers and their marks (acknowledgements are between two),
 * epochs of the maker's file, tables that are not tracked, quarantine's other reasons than above. Conflicts are in it because every node lists the
 * same ones; knowledge, because a write that is still to come may be known already; images, because a later write may bring a row back.
 *
 * Threads: pure. */
#pragma once

#include "replica/desk.h"
#include "replica/snapshot_file.h"
#include "replica/sync.h"

typedef enum tide_snapshot_kind {
    TIDE_SNAPSHOT_BEGIN = 1,
    TIDE_SNAPSHOT_ORIGIN,
    TIDE_SNAPSHOT_TABLE,
    TIDE_SNAPSHOT_CURSOR,
    TIDE_SNAPSHOT_EVENT,
    TIDE_SNAPSHOT_ROW,
    TIDE_SNAPSHOT_SUM,
    TIDE_SNAPSHOT_END,
} tide_snapshot_kind;

typedef struct tide_snapshot_begin {
    tide_node_id node;
    int64_t epoch;
    uint64_t clock;
    int64_t origins;
    int64_t tables;
} tide_snapshot_begin;

typedef struct tide_snapshot_table {
    char name[TIDE_EVENT_TABLE_MAX + 1];
    uint64_t schema;
    int64_t retain_us;
    char **columns;
    int column_count;
    int key[TIDE_EVENT_KEY_MAX];
    int key_count;
    char **sql; /* NULL at the end */
    tide_peer_schema *schemas;
    int schema_count;
    char **former;
    int former_count;
    tide_view loose; /* as tide_peer_table */
} tide_snapshot_table;

typedef struct tide_snapshot_cursor {
    tide_view table;
    tide_node_id origin;
    int64_t epoch;
    int64_t prefix;
    int64_t last_seq;
} tide_snapshot_cursor;

typedef struct tide_snapshot_event {
    bool is_processed; /* it is in the rows */
    tide_view reason;  /* why it waits in quarantine; "": it does not */
    tide_view detail;
    int64_t found_at_us;
    tide_view body;
    tide_event event; /* decoded; borrowed from body */
} tide_snapshot_event;

typedef struct tide_snapshot_conflict {
    int column; /* TIDE_CONFLICT_DELETE: the row's deletion */
    tide_stamp stamp;
    bool has_value;
    tide_view value; /* encoded */
    int64_t found_at_us;
} tide_snapshot_conflict;

typedef struct tide_snapshot_known {
    int column; /* TIDE_CONFLICT_ROW: every one */
    tide_stamp stamp;
    int64_t added_us;
} tide_snapshot_known;

typedef struct tide_snapshot_row {
    int table; /* of the table records, from 0 */
    tide_view key;
    bool has_clock; /* false: only conflicts and knowledge are left of it */
    tide_view clock_bytes;
    tide_row_clock clock;
    bool is_here; /* stands in its table: every value is known */
    tide_aside aside;
    tide_view rival;
    tide_view image; /* encoded, of one that does not stand there */
    tide_sql_value *values;
    bool *has;
    tide_snapshot_conflict *conflicts;
    int conflict_count;
    tide_snapshot_known *knowledge;
    int known_count;
} tide_snapshot_row;

typedef struct tide_snapshot_sum {
    int table;
    int64_t rows;
    uint8_t digest[16];
} tide_snapshot_sum;

typedef struct tide_snapshot_end {
    int64_t rows; /* records */
    int64_t events;
} tide_snapshot_end;

typedef struct tide_snapshot_record {
    tide_snapshot_kind kind;
    union {
        tide_snapshot_begin begin;
        tide_origin_mark origin;
        const tide_snapshot_table *table; /* of the decoder */
        tide_snapshot_cursor cursor;
        tide_snapshot_event event;
        tide_snapshot_row row;
        tide_snapshot_sum sum;
        tide_snapshot_end end;
    } as;
} tide_snapshot_record;

/* ---- writing: each appends one record ---- */

TIDE_MUST_CHECK tide_status tide_snapshot_put_begin(tide_buffer *out,
                                                    const tide_snapshot_begin *begin);
TIDE_MUST_CHECK tide_status tide_snapshot_put_origin(tide_buffer *out,
                                                     const tide_origin_mark *mark);
TIDE_MUST_CHECK tide_status tide_snapshot_put_table(tide_buffer *out, const tide_table *table,
                                                    const tide_peer_table *made);
TIDE_MUST_CHECK tide_status tide_snapshot_put_cursor(tide_buffer *out,
                                                     const tide_snapshot_cursor *cursor);
TIDE_MUST_CHECK tide_status tide_snapshot_put_event(tide_buffer *out,
                                                    const tide_snapshot_event *event);
/* clock_bytes, image and the encoded values are taken; clock and has are not. */
TIDE_MUST_CHECK tide_status tide_snapshot_put_row(tide_buffer *out, const tide_snapshot_row *row,
                                                  int column_count);
TIDE_MUST_CHECK tide_status tide_snapshot_put_sum(tide_buffer *out, const tide_snapshot_sum *sum);
TIDE_MUST_CHECK tide_status tide_snapshot_put_end(tide_buffer *out, const tide_snapshot_end *end);

/* ---- reading ---- */

typedef struct tide_snapshot_decoder {
    tide_snapshot_reader *reader;
    tide_snapshot_begin begin;
    tide_origin_mark *origins; /* those seen so far, ascending */
    int origin_count;
    tide_snapshot_table *tables;
    int table_count;
    tide_arena kept;    /* tables */
    tide_arena scratch; /* of the record */
    tide_buffer last_key;
    bool has_last_key;
    int table_at; /* whose rows come */
    tide_snapshot_kind stage;
    tide_snapshot_end counted;
    tide_row_clock clock; /* of the last row */
    tide_event event;
} tide_snapshot_decoder;

/* The reader must outlive it. Reads the begin, all origins and all tables: they can be looked at from then on. Statuses as tide_snapshot_reader_next. */
TIDE_MUST_CHECK tide_status tide_snapshot_decoder_init(tide_snapshot_decoder *decoder,
                                                       tide_snapshot_reader *reader,
                                                       tide_error *err);
void tide_snapshot_decoder_done(tide_snapshot_decoder *decoder); /* fits TIDE_CLEANUP on {0} */
/* The next record: cursors, events, rows, sums, the end. Borrowed until the next call. TIDE_NONE: all was there, and the file is sound. */
TIDE_MUST_CHECK tide_status tide_snapshot_decoder_next(tide_snapshot_decoder *decoder,
                                                       tide_snapshot_record *out, tide_error *err);
/* NULL: no such log. */
const tide_origin_mark *tide_snapshot_decoder_origin(const tide_snapshot_decoder *decoder,
                                                     const tide_node_id *origin, int64_t epoch);
