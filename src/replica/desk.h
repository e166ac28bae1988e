/* desk.h - the rows that one transaction works on: folding what was captured, merging what peers sent.
 *
 * A row's state has two layers. By its clock (merge.h) it exists or not, with these values: that is the same on every node that
 * has the same events. Whether it stands in its table is a function of that state alone, which every node computes alike
 * (resolve.h): a row that breaks a constraint is kept *aside*, as an image beside its clock, until what it collides with is gone. So
 *
 *     tide_replica_clocks    every row that was ever written: its clock; its image where it does not stand in its table
 *     the table              what exists and is not aside
 *
 * The desk loads rows once, changes them in memory, lets the resolver place them, and writes down what has changed. Nothing is
 * written before tide_desk_settle, except conflicts.
 *
 * Threads: belongs to its transaction. Memory: bounded by TIDE_DESK_BYTES_MAX. */
#pragma once

#include "base/arena.h"
#include "replica/merge.h"
#include "replica/node.h"

#define TIDE_DESK_BYTES_MAX ((size_t)1 << 30)

typedef enum tide_aside {
    TIDE_ASIDE_NONE,
    TIDE_ASIDE_CHECK,   /* CHECK or NOT NULL: its merged columns do not go together */
    TIDE_ASIDE_UNIQUE,  /* a row with a greater stamp has its unique values */
    TIDE_ASIDE_FOREIGN, /* the row that it refers to does not stand in its table */
} tide_aside;

typedef struct tide_desk_row {
    const tide_table *table;
    tide_view key; /* value.h encodings of the key, in its order */
    tide_row_clock clock;
    tide_sql_value *values; /* of each stored column */
    bool *has;              /* is the value known? */
    tide_sql_value *
        image; /* values that the clock speaks of, where an application has meanwhile put others in the table; NULL: none */
    tide_sql_value *before; /* as it stood in its table when it was loaded; NULL: it did not */
    int64_t last_hint;      /* the last captured change of it that this turn has (fold.c) */
    bool is_here;           /* stands in its table */
    bool is_stale;          /* stands there with other values than these */
    bool is_fresh;          /* came into its table, or changed there, in this transaction */
    bool is_changed;        /* not as tide_replica_clocks has it */
    tide_aside aside;
    tide_view rival; /* TIDE_ASIDE_UNIQUE: the key of the row that keeps it out */
    tide_view
        prints; /* of its columns (table.h), by what the clock knows: what an application wrote unseen is not in them. Empty: as its values */
    bool is_queued;
    bool is_again;     /* what it is in the end is said again, by an event of this node (again.h) */
    tide_stamp newest; /* of its clock; set before rows are compared (resolve.c) */
    struct tide_desk_row *chain;
    struct tide_desk_row *next; /* of all, in order of loading */
} tide_desk_row;

/* A row that is, or was, kept out of its table by another. */
typedef struct tide_desk_kept {
    tide_desk_row *row;
    struct tide_desk_kept *next;
} tide_desk_kept;

typedef struct tide_desk_name {
    int64_t table_id;
    char name[TIDE_EVENT_TABLE_MAX + 1];
} tide_desk_name;

typedef struct tide_desk {
    tide_foreign_tx *tx;
    tide_arena arena;
    int64_t now_us;
    tide_node_id node;
    int64_t epoch;
    tide_hybrid clock;
    uint64_t clock_stored;
    tide_table **
        tables; /* every tracked one; while folding behind them those of which only the log is there (is_absent) */
    int table_count;
    tide_desk_name *names; /* that tables had before */
    int name_count;
    tide_desk_row **slots;
    size_t slot_count;
    tide_desk_row *first;
    tide_desk_row *last;
    size_t row_count;
    tide_desk_kept **kept; /* by the key of who keeps them out; NULL: none yet */
    bool has_oversize;     /* values that no event can carry are known of (quarantine.h) */
    bool is_folding;       /* the tables are ahead of the clocks: an application wrote */
    bool has_aside;        /* some rows are */
    bool
        is_partial; /* folding, and not the last turn: only clocks; the tables are further than they tell */
    bool
        is_refer_wanted; /* every row aside and every reference is looked at, though no row may have changed */
    bool has_again;           /* some rows are to be said again */
    tide_node_id late_origin; /* what is known of the origin that was asked for last (again.c) */
    int64_t late_epoch;       /* 0: none was */
    uint64_t late_through;
    int64_t rows;      /* that were written to tables */
    int64_t conflicts; /* that were found */
} tide_desk;

TIDE_MUST_CHECK tide_status tide_desk_init(tide_desk *desk, tide_node *node, tide_foreign_tx *tx,
                                           tide_error *err);
void tide_desk_done(tide_desk *desk); /* fits TIDE_CLEANUP on {0} */

/* Before folding: what was captured of tables that are dropped or not tracked any more becomes events, too. */
TIDE_MUST_CHECK tide_status tide_desk_take_absent(tide_desk *desk, tide_error *err);

/* A tracked table that is there, by its name or a former one; NULL: none. */
const tide_table *tide_desk_table(const tide_desk *desk, const char *name);
const tide_table *tide_desk_table_by_id(const tide_desk *desk, int64_t id);

/* The row of a key, loaded if need be; one that was never written is empty. */
TIDE_MUST_CHECK tide_status tide_desk_row_get(tide_desk_row **out, tide_desk *desk,
                                              const tide_table *table, tide_view key,
                                              tide_error *err);
/* Its rival has been set: it is found by it from now on. */
TIDE_MUST_CHECK tide_status tide_desk_note_kept(tide_desk *desk, tide_desk_row *row,
                                                tide_error *err);
/* Those that may be kept out by this row: the rival of each has to be looked at. Only what is loaded. */
const tide_desk_kept *tide_desk_kept_by(const tide_desk *desk, const tide_desk_row *row);
/* The encoding of a key's values. Memory of the desk. */
TIDE_MUST_CHECK tide_status tide_desk_key(tide_view *out, tide_desk *desk,
                                          const tide_sql_value *values, int count, tide_error *err);
/* The values of an encoded key. TIDE_E_DAMAGED. */
TIDE_MUST_CHECK tide_status tide_desk_key_values(tide_sql_value *out, int count, tide_view key,
                                                 tide_error *err);
/* A copy of a value in memory of the desk. */
TIDE_MUST_CHECK tide_status tide_desk_keep(tide_sql_value *out, tide_desk *desk,
                                           const tide_sql_value *value, tide_error *err);

/* Merge an event into its row, and note what was lost. Its columns are those of the row's table, without the key's. */
TIDE_MUST_CHECK tide_status tide_desk_merge(tide_desk *desk, tide_desk_row *row,
                                            const tide_event *event, tide_error *err);

/* The print of one of its columns becomes that of this value. */
void tide_desk_print(const tide_desk_row *row, int column, const tide_sql_value *value);

/* Ingest: write clocks and images of the changed rows as their tables have them. */
TIDE_MUST_CHECK tide_status tide_desk_store(tide_desk *desk, tide_error *err);
/* Place every changed row (resolve.h), write clocks and images, and the node's hybrid clock. */
TIDE_MUST_CHECK tide_status tide_desk_settle(tide_desk *desk, tide_error *err);

/* Keys of rows that a statement finds, kept while what is done with them changes the table.
 *
 * Threads: as the transaction. */

typedef struct tide_found {
    tide_view *keys; /* memory of the desk */
    int count;
} tide_found;

void tide_found_done(tide_found *found); /* fits TIDE_CLEANUP on {0} */
TIDE_MUST_CHECK tide_status tide_found_keep(tide_found *found, tide_desk *desk, tide_view key,
                                            tide_error *err);
/* Rows of (key columns...) become encoded keys. */
TIDE_MUST_CHECK tide_status tide_found_collect(tide_found *found, tide_desk *desk,
                                               const tide_table *table, tide_foreign_query *query,
                                               tide_error *err);
