/* table.h - a table of an application, as far as replication needs to know it.
 *
 * Read from the file itself (PRAGMA table_xinfo, index_list, foreign_key_list): columns in order, which are generated, the key, other
 * unique keys, WITHOUT ROWID, STRICT, foreign keys. The schema digest covers the names, order and key columns of what is stored (generated columns
 * are not), so that two nodes know whether they speak of the same table.
 *
 * A usable key: the PRIMARY KEY if none of its columns can be NULL (INTEGER PRIMARY KEY, WITHOUT ROWID, NOT NULL), or a UNIQUE NOT NULL index. A rowid
 * that is no column is none: VACUUM may change it. AUTOINCREMENT and rowid keys of several nodes collide (R12): told when tracking, with
 * advice, and resolved as conflicts.
 *
 * Threads: pure over a tide_app_tx. */
#ifndef TIDE_REPLICA_TABLE_H
#define TIDE_REPLICA_TABLE_H

#include "replica/event.h"
#include "store/app_file.h"

typedef struct tide_table_column {
    char *name;
    bool is_key;
    bool is_generated;
    bool is_not_null;
    char *fallback; /* DEFAULT as SQL text; NULL: none */
} tide_table_column;

typedef struct tide_table {
    int64_t id; /* of tide_replica_tables; 0: not tracked */
    char name[TIDE_EVENT_TABLE_MAX + 1];
    tide_table_column *columns; /* stored ones first, in order; generated ones are left out */
    int column_count;
    int key[TIDE_EVENT_KEY_MAX]; /* columns, in the order of the key */
    int key_count;
    bool is_without_rowid;
    bool has_foreign_keys;
    uint64_t schema; /* digest, first 8 bytes */
    int64_t retain_us;
} tide_table;

/* Look at a table of the file. TIDE_E_NOT_FOUND: no such table. TIDE_E_UNSUPPORTED: it cannot be replicated; the text says why and what to do
 * (a view, a virtual table, no usable key, one of our own or of SQLite's). */
TIDE_MUST_CHECK tide_status tide_table_read(tide_table *out, tide_app_tx *tx, const char *name,
                                            tide_error *err);
void tide_table_done(tide_table *table); /* fits TIDE_CLEANUP on {0} */

/* A tracked table by name or id, from what was recorded when it was tracked. TIDE_NONE: not tracked. */
TIDE_MUST_CHECK tide_status tide_table_find(tide_table *out, tide_app_tx *tx, const char *name,
                                            tide_error *err);
typedef tide_status tide_table_fn(void *arg, const tide_table *table, tide_error *err);
TIDE_MUST_CHECK tide_status tide_table_list(tide_app_tx *tx, tide_table_fn *fn, void *arg,
                                            tide_error *err);

/* ---- statements made for a table ---- */

/* A statement from a template of sql/replica_table.sql, filled for this table, prepared and cached by the file's connection. Names are quoted; nothing
 * of a table's name can leave its quotes. */
typedef enum tide_table_statement {
    TIDE_TABLE_ROW_GET,    /* :k1.. -> the stored columns */
    TIDE_TABLE_ROW_PUT,    /* :c1.. insert */
    TIDE_TABLE_ROW_SET,    /* :c1.., :mask, :k1.. update of the columns in the mask */
    TIDE_TABLE_ROW_DELETE, /* :k1.. */
    TIDE_TABLE_ROW_WALK,   /* all rows in key order, from a key on */
    TIDE_TABLE_LOG_READ,   /* captured changes above :after, up to :through */
    TIDE_TABLE_STATEMENTS,
} tide_table_statement;

TIDE_MUST_CHECK tide_status tide_table_query(tide_app_query **out, tide_app_tx *tx,
                                             const tide_table *table, tide_table_statement which,
                                             tide_error *err);
void tide_table_bind(tide_app_query *query, char prefix, int index, const tide_any *value);
tide_any tide_table_col(tide_app_query *query); /* the next column; views as of tide_app_col_* */

#endif
