/* schemas.h - what tables and columns were called before: events speak of the schema that they were written under.
 *
 * An event names its columns by position in a schema, which it names by digest (event.h). A node keeps every schema of a table that it had
 * itself or was told of by a peer, with the names of its columns and what each of them is called now:
 *
 *     columns    id, v, w            as they were when the event was written
 *     becomes    id, value, (none)   v was renamed, w dropped
 *
 * So an event of any age is understood after ALTER TABLE ... RENAME COLUMN, DROP COLUMN and ADD COLUMN, also by a node that never had that schema. A column
 * that is here under no name makes its event wait (quarantine.h) until it comes; one that was dropped is left out. Tables likewise have former names.
 *
 * Peers tell each other all of it (peer.h) before they send events. What a node understands itself is not changed by what others say; of a schema
 * that it has only heard of it takes the word of whoever knows what became of its columns.
 *
 * Every change raises a counter: what waits in quarantine for a table or a column is tried again when it has risen, once.
 *
 * Threads: as the transaction. */
#pragma once

#include "replica/sync.h"
#include "replica/table.h"

enum {
    TIDE_SCHEMA_COLUMN_NONE = -1,    /* not here (yet) */
    TIDE_SCHEMA_COLUMN_DROPPED = -2, /* was here */
};

/* Record the schema that the table has now. */
TIDE_MUST_CHECK tide_status tide_schemas_put(tide_foreign_tx *tx, const tide_table *table,
                                             tide_error *err);

/* Which of the table's columns those of a schema are. TIDE_NONE: the schema is not known. */
TIDE_MUST_CHECK tide_status tide_schemas_map(int map[TIDE_EVENT_COLUMNS_MAX], tide_foreign_tx *tx,
                                             const tide_table *table, uint64_t schema,
                                             tide_error *err);

/* What its columns were called, as names with NUL between, and which are the key's, 4 bytes each; until the query ends. TIDE_NONE: not known. */
TIDE_MUST_CHECK tide_status tide_schemas_columns(tide_view *columns, tide_view *key,
                                                 tide_foreign_query **query, tide_foreign_tx *tx,
                                                 const char *table, uint64_t schema,
                                                 tide_error *err);
/* The name at a position of such a list; empty: there is none. */
tide_view tide_schemas_name(tide_view columns, int position);

/* Columns of a table were renamed or dropped. map: for each column of `before` its place in `after`; below 0: dropped. */
TIDE_MUST_CHECK tide_status tide_schemas_follow(tide_foreign_tx *tx, const tide_table *before,
                                                const tide_table *after, const int *map,
                                                tide_error *err);
/* A column of that name was dropped once. */
TIDE_MUST_CHECK tide_status tide_schemas_had(bool *out, tide_foreign_tx *tx,
                                             const tide_table *table, const char *name,
                                             tide_error *err);

/* The application has renamed a tracked table. */
TIDE_MUST_CHECK tide_status tide_schemas_rename(tide_foreign_tx *tx, int64_t table_id,
                                                const char *before, const char *after,
                                                tide_error *err);

/* All that is known of a table, for a peer; and what a peer knows. TIDE_E_INVALID: it does not fit its digest. */
TIDE_MUST_CHECK tide_status tide_schemas_tell(tide_foreign_tx *tx, int64_t table_id,
                                              const char *name, tide_peer_table *out,
                                              tide_error *err);
TIDE_MUST_CHECK tide_status tide_schemas_learn(tide_foreign_tx *tx, const tide_peer_table *table,
                                               tide_error *err);

/* What the table is called here: by its name there, or one that it had. TIDE_NONE: it is not here. */
TIDE_MUST_CHECK tide_status tide_schemas_find_own(char out[TIDE_EVENT_TABLE_MAX + 1],
                                                  tide_foreign_tx *tx, const tide_peer_table *table,
                                                  tide_error *err);

/* How often any of it has changed. */
TIDE_MUST_CHECK tide_status tide_schemas_counter(int64_t *out, tide_foreign_tx *tx,
                                                 tide_error *err);
