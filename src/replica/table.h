/* table.h - a table of an application, as far as replication needs to know it.
 *
 * Read from the file itself (PRAGMA table_xinfo, index_list, foreign_key_list): columns in order, which are generated, the key, other
 * unique keys, WITHOUT ROWID, STRICT, foreign keys. The schema digest covers the names, order and key columns of what is stored (generated columns
 * are not), so that two nodes know whether they speak of the same table.
 *
 * A usable key: the PRIMARY KEY if none of its columns can be NULL (INTEGER PRIMARY KEY, WITHOUT ROWID, NOT NULL), or a UNIQUE NOT NULL index; else the
 * PRIMARY KEY as it is (SQLite allows NULL in `id TEXT PRIMARY KEY`), of which rows with NULL have no name on other nodes and stay where they are
 * (fold_left.h). A rowid that is no column is none: VACUUM may change it. AUTOINCREMENT and rowid keys of several nodes collide: told when tracking,
 * with advice, and resolved as conflicts.
 *
 * Limits: TIDE_TABLE_COLUMNS_MAX stored columns (the log of a table has a few columns more, and SQLite allows 2,000); collations of
 * SQLite's own; no functions of the application in what a write has to compute (checks, indexes).
 *
 * Threads: pure over a tide_foreign_tx. */
#pragma once

#include "replica/event.h"
#include "store/foreign/foreign_db.h"

enum {
    TIDE_TABLE_COLUMNS_MAX = 1900,
    TIDE_TABLE_MASK_BITS = 60, /* columns per mask of the log */
    TIDE_TABLE_NARROW_MAX =
        24, /* columns that the rows of all narrow tables have to have room for */
    TIDE_TABLE_TIME_PARAM = 64,  /* ?64 is the time of a change */
    TIDE_TABLE_COLUMN_PARAM = 65 /* ?65 is the first stored column, ?1 the first of the key */
};

/* What SQLite makes of values that are stored in a column. */
typedef enum tide_affinity {
    TIDE_AFFINITY_NONE, /* nothing: 1 and 1.0 are two values */
    TIDE_AFFINITY_INTEGER,
    TIDE_AFFINITY_REAL,
    TIDE_AFFINITY_NUMERIC,
    TIDE_AFFINITY_TEXT,
} tide_affinity;

typedef struct tide_table_column {
    char *name;
    bool is_key;
    bool is_not_null;
    tide_affinity affinity;
    char *fallback; /* DEFAULT as SQL text; NULL: none */
} tide_table_column;

/* One column or expression of a unique key. */
typedef struct tide_table_term {
    int column;      /* -1: an expression, -2: a generated column, -3: the rowid */
    char *name;      /* of a generated column, of the rowid */
    char *sql;       /* of an expression */
    char *collation; /* of a column */
} tide_table_term;

typedef struct tide_table_unique {
    tide_table_term *terms;
    int term_count;
    char *where; /* of a partial index; NULL: none */
    bool is_key; /* the key itself */
} tide_table_unique;

typedef struct tide_table_foreign {
    char parent[TIDE_EVENT_TABLE_MAX + 1];
    int count;
    int column[TIDE_EVENT_KEY_MAX];        /* stored ones of this table; -1: generated */
    int parent_column[TIDE_EVENT_KEY_MAX]; /* stored ones of the parent; -1: none of those */
    char *parent_name[TIDE_EVENT_KEY_MAX];
    bool is_tracked; /* the parent is */
    bool is_loose;   /* an application has committed an orphan (references.h) */
    bool
        is_touched; /* an application has changed what it refers to, from nobody knows what (fold.c) */
} tide_table_foreign;

/* A statement of some columns. */
typedef struct tide_table_some {
    char *text; /* NULL: none yet */
    int *columns;
    int count;
} tide_table_some;

typedef struct tide_table {
    int64_t id; /* of tide_replica_tables; 0: not tracked */
    char name[TIDE_EVENT_TABLE_MAX + 1];
    tide_table_column *columns; /* stored ones, in order; generated ones are left out */
    int column_count;
    int key[TIDE_EVENT_KEY_MAX]; /* columns, in the order of the key */
    int key_count;
    tide_table_unique *uniques;
    int unique_count;
    tide_table_foreign *foreign;
    int foreign_count;
    bool is_without_rowid;
    bool is_strict;
    bool is_rowid_key; /* INTEGER PRIMARY KEY */
    bool has_foreign_keys;
    bool
        is_absent; /* dropped by the application, or not tracked: only its record and log are there */
    uint64_t schema; /* digest, first 8 bytes */
    int64_t retain_us;
    char **texts;          /* of statements that were asked for already */
    tide_table_some *some; /* the same for statements of some columns: the last of each */
} tide_table;

/* Look at a table of the file. TIDE_E_NOT_FOUND: no such table. TIDE_E_UNSUPPORTED: it cannot be replicated; the text says why and what to do
 * (a view, a virtual table, no usable key, one of our own or of SQLite's). */
TIDE_MUST_CHECK tide_status tide_table_read(tide_table *out, tide_foreign_tx *tx, const char *name,
                                            tide_error *err);
void tide_table_done(tide_table *table); /* fits TIDE_CLEANUP on {0} */

/* May rows have no key? */
bool tide_table_is_key_nullable(const tide_table *table);

/* A tracked table by name, with the columns that were recorded when it was tracked (the log's are these), and the unique and foreign keys that it has
 * now. TIDE_NONE: not tracked. */
TIDE_MUST_CHECK tide_status tide_table_find(tide_table *out, tide_foreign_tx *tx, const char *name,
                                            tide_error *err);
/* The record of a table that was tracked, whatever has become of it. TIDE_NONE: there is none. */
TIDE_MUST_CHECK tide_status tide_table_find_absent(tide_table *out, tide_foreign_tx *tx,
                                                   const char *name, tide_error *err);
/* All tracked tables that are there: one that the application has dropped or renamed is left out until tide_node_check has looked. */
typedef tide_status tide_table_fn(void *arg, const tide_table *table, tide_error *err);
TIDE_MUST_CHECK tide_status tide_table_list(tide_foreign_tx *tx, tide_table_fn *fn, void *arg,
                                            tide_error *err);

/* ---- statements made for a table ---- */

/* A statement from a template of sql/replica_table.sql, filled for this table, prepared and cached by the file's connection. Names are quoted; nothing
 * of a table's name can leave its quotes. k: key values in the key's order; c: stored columns; both from 0 (tide_table_bind). A key is
 * found exactly: no collation, and by class where its column has no type. */
typedef enum tide_table_statement {
    TIDE_TABLE_ROW_GET,       /* k -> the stored columns */
    TIDE_TABLE_ROW_PUT,       /* c: insert */
    TIDE_TABLE_ROW_SET,       /* c, k: update of some columns (tide_table_query_some) */
    TIDE_TABLE_ROW_DELETE,    /* k */
    TIDE_TABLE_ROW_WALK,      /* all rows in key order -> the stored columns */
    TIDE_TABLE_ROW_WALK_FROM, /* k: ... those behind this key */
    TIDE_TABLE_ROW_WALK_ADDED, /* rows that have another value than the default in one of some columns */
    TIDE_TABLE_ROW_ADDED, /* k -> for each of some columns: has it another value than its default? */
    TIDE_TABLE_DEFAULTS,  /* -> the defaults of the stored columns */
    TIDE_TABLE_ROW_FORCE, /* c: insert in place of whatever is in the way (tide_table_query_some) */
    TIDE_TABLE_ROW_TERMS, /* k -> for each unique key but the rowid: is the row in it, and its values */
    TIDE_TABLE_ROW_RIVALS, /* c (the columns of ROW_TERMS), k -> keys of other rows that have one of these values */
    TIDE_TABLE_FOREIGN_PARENT, /* index: the foreign key; c (columns of this table) -> a row if the parent is there */
    TIDE_TABLE_FOREIGN_CHILDREN, /* index: the foreign key; c 0.. (values of the parent, in the key's order) -> keys of this table */
    TIDE_TABLE_FOREIGN_ORPHANS, /* index: the foreign key -> keys of rows whose parent is missing */
    TIDE_TABLE_COUNT,
    TIDE_TABLE_COUNT_NAMELESS, /* rows without a key */
    TIDE_TABLE_LOG_READ,       /* :after, :through; see tide_log_next */
    TIDE_TABLE_LOG_CUT,        /* :through: they were folded */
    TIDE_TABLE_LOG_ADD,        /* capture.c */
    TIDE_TABLE_LOG_PUT,        /* the same with a number that it has already: ?1 */
    TIDE_TABLE_LOG_FIRST,      /* -> the lowest number, or NULL */
    TIDE_TABLE_LOG_IS_EMPTY,
    TIDE_TABLE_GONE_READ,
    TIDE_TABLE_GONE_CUT,
    TIDE_TABLE_STATEMENTS,
} tide_table_statement;

TIDE_MUST_CHECK tide_status tide_table_query(tide_foreign_query **out, tide_foreign_tx *tx,
                                             const tide_table *table, tide_table_statement which,
                                             tide_error *err);
TIDE_MUST_CHECK tide_status tide_table_query_at(tide_foreign_query **out, tide_foreign_tx *tx,
                                                const tide_table *table, tide_table_statement which,
                                                int index, tide_error *err);
/* ROW_PUT, ROW_SET of these columns, of which there is at least one. */
TIDE_MUST_CHECK tide_status tide_table_query_some(tide_foreign_query **out, tide_foreign_tx *tx,
                                                  const tide_table *table,
                                                  tide_table_statement which, const int *columns,
                                                  int count, tide_error *err);
void tide_table_bind(tide_foreign_query *query, char prefix, int index,
                     const tide_sql_value *value);

/* A value of the key as rows are known by it: of two values that SQLite takes for one key, and that no trigger can tell apart (0.0 and -0.0, -2^63 as INTEGER
 * and as REAL), always the same. */
tide_sql_value tide_table_key_value(const tide_table *table, int column,
                                    const tide_sql_value *value);

/* What stands in tide_replica_clocks.digest: a print per stored column, by which a rescan sees which of them have changed. A column that was added
 * later than the print was taken is not among them: it had its default. */
enum { TIDE_TABLE_PRINT_LEN = 6 };
void tide_table_print(uint8_t out[TIDE_TABLE_PRINT_LEN], const tide_sql_value *value);
TIDE_MUST_CHECK tide_status tide_table_prints(tide_buffer *out, const tide_sql_value *values,
                                              int count, tide_error *err);

/* ---- the log ---- */

/* A captured change. create: every column is written. update: those that changed. delete: none; the values are the row's last ones. The key's values are
 * always there. */
typedef struct tide_log_row {
    int64_t seq;
    tide_sql_value at; /* when it was written, as a Julian day; NULL: not known */
    tide_change_kind kind;
    tide_sql_value *values; /* one per stored column; views until the next step */
    bool *is_written;       /* one per stored column; of an update never those of the key */
    bool is_bare; /* of a delete: there are no values besides the key's; a scan found it */
} tide_log_row;

/* Are its changes logged beside their numbers, in tide_replica_seq? Those of a table with more columns stand in a table of their own. */
bool tide_table_is_narrow(const tide_table *table);

TIDE_MUST_CHECK tide_status tide_log_row_init(tide_log_row *row, const tide_table *table,
                                              tide_error *err);
void tide_log_row_done(tide_log_row *row); /* fits TIDE_CLEANUP on {0} */
/* The next row of a TIDE_TABLE_LOG_READ. TIDE_NONE: the end. TIDE_E_DAMAGED: somebody wrote to the log. */
TIDE_MUST_CHECK tide_status tide_log_next(tide_log_row *row, tide_foreign_query *query,
                                          const tide_table *table, tide_error *err);
