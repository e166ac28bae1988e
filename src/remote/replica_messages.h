/* replica_messages.h - messages of tidemark.replica.v1, and what they stand for (replica/sync.h).
 *
 * What comes from outside is checked here: lengths of ids, numbers above 2^63-1, counts.
 * TIDE_E_INVALID, TIDE_E_LIMIT.
 *
 * Threads: pure. */
#pragma once

#include "replica/repair.h"
#include "replica/sync.h"
#include "tidemark_replica_v1_replica.pb-c.h"

#define REPLICA(type_) Tidemark__Replica__V1__##type_
#define REPLICA_INIT(type_) TIDEMARK__REPLICA__V1__##type_##__INIT

enum {
    TIDE_SNAPSHOT_PIECE = 1 << 20, /* bytes of an answer, unless less is wanted */
    TIDE_SNAPSHOT_PIECE_MAX = 4 << 20,
};

TIDE_MUST_CHECK tide_status tide_wire_number(int64_t *out, uint64_t number, tide_error *err);
TIDE_MUST_CHECK tide_status tide_wire_node(tide_node_id *out, const ProtobufCBinaryData *bytes,
                                           tide_error *err);

/* Borrowed from what it is made of. */
REPLICA(OriginMark) tide_wire_mark(const tide_origin_mark *mark);
TIDE_MUST_CHECK tide_status tide_wire_read_mark(tide_origin_mark *out,
                                                const REPLICA(OriginMark) * mark, tide_error *err);

/* Append marks (and tables) as occurrences of their fields. */
TIDE_MUST_CHECK tide_status tide_wire_put_marks(tide_buffer *out, uint32_t field,
                                                const tide_peer_marks *marks, tide_error *err);
TIDE_MUST_CHECK tide_status tide_wire_put_tables(tide_buffer *out, uint32_t field,
                                                 const tide_peer_table *tables, int count,
                                                 tide_error *err);
/* Into marks, which hold nothing yet; sorted. */
TIDE_MUST_CHECK tide_status tide_wire_read_marks(tide_peer_marks *out, REPLICA(OriginMark) * *marks,
                                                 size_t count, REPLICA(Table) * *tables,
                                                 size_t table_count, tide_error *err);

/* Append a message as an occurrence of a field. */
TIDE_MUST_CHECK tide_status tide_replica_put_message(tide_buffer *out, uint32_t field,
                                                     const ProtobufCMessage *message,
                                                     tide_error *err);

/* States as occurrences of a field, and back (into states that hold nothing yet). */
TIDE_MUST_CHECK tide_status tide_repair_put_states(tide_buffer *out, uint32_t field,
                                                   const tide_row_states *states, tide_error *err);
TIDE_MUST_CHECK tide_status tide_repair_read_states(tide_row_states *out,
                                                    const ProtobufCBinaryData *node,
                                                    REPLICA(RowState) * *rows, size_t count,
                                                    tide_error *err);
