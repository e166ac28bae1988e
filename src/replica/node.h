/* node.h - an application's SQLite file that takes part in replication.
 *
 * The file stays the application's: its tables, its writers, its journal. What replication adds to it stands in tables of its own (tide_replica_*,
 * replication_meta, replication_checkpoints, and a view <table>_Events per tracked table) and in triggers of tracked tables that only append to
 * a log table each. Any SQLite program writes as before; its changes and their log rows are one transaction.
 *
 *     any program ---- triggers ----> tide_replica_seq: numbers and changes (tide_log_<id>) -- fold --> events, clocks       (our process)
 *     peers ---- pages ----> apply (triggers off) ----> tables, clocks, events, cursors, in one transaction per page
 *
 * The node's id is made when the first table is tracked; a copied file gets a new one, a restored one a new epoch (store/foreign/foreign_db.h).
 *
 * Fold: what one read of the logs sees is a union of whole transactions: a cut. Its changes become events numbered as they were logged,
 * stamped by the hybrid clock with the time of the write (at most now, and above all before), with the batch's cut; clocks are raised; the log rows go. It runs before anything else looks at the state.
 *
 * Survives: a crash at any point; every step is one transaction, and doing it again changes nothing.
 * Threads: a node is as safe as its file. */
#pragma once

#include <tidemark/cursor.h>
#include <tidemark/identity.h>

#include "base/cleanup.h"
#include "replica/table.h"

typedef struct tide_node tide_node;

typedef struct tide_node_options {
    tide_env *env;
    bool
        is_new; /* the file may be absent: an empty database is made (sync into nothing), with an id */
    const char *state_dir; /* as tide_foreign_options */
    const char *vfs;       /* the same (tests) */
} tide_node_options;

TIDE_MUST_CHECK tide_status tide_node_open(tide_node **out, const char *path,
                                           const tide_node_options *options, tide_error *err);
void tide_node_close(tide_node *node);
TIDE_CLEANUP_FN(tide_node_closep, tide_node, tide_node_close)
tide_foreign_db *tide_node_file(tide_node *node);
tide_node_id tide_node_get_id(const tide_node *node);
int64_t tide_node_epoch(const tide_node *node);

/* Give the file our tables and a node's id, where it has none yet (until then the id is zeros, the epoch 0). track and sync do it.
 * TIDE_E_CONFLICT: the application has tables of our names. TIDE_E_NEWER. */
TIDE_MUST_CHECK tide_status tide_node_establish(tide_node *node, tide_error *err);

/* ---- capture.c ---- */

typedef struct tide_tracked {
    int64_t rows;     /* that were there already, and became events */
    int64_t imported; /* events of a table <table>_Events as the replication document has it */
    bool was_tracked;
    char advice[2048]; /* what the application should know; "": nothing */
} tide_tracked;

/* In place of a retention: that of the table as it was tracked before, else TIDE_NODE_RETAIN_US. */
#define TIDE_NODE_RETAIN_AS_IS INT64_C(-1)

/* Install capture; rows that are there become create events. Tracking again is fine, and repairs triggers. TIDE_E_CONFLICT: the application
 * has a table <table>_Events that is not the replication document's, or the name is another tracked table's in the events of all nodes. As tide_table_read. */
TIDE_MUST_CHECK tide_status tide_node_track(tide_node *node, const char *table, int64_t retain_us,
                                            tide_tracked *out, tide_error *err);
/* Compare a tracked table with what is known of its rows: what was written past the triggers (incremental BLOB I/O, a connection with triggers off) becomes
 * events. Reads the whole table. */
TIDE_MUST_CHECK tide_status tide_node_rescan(tide_node *node, const char *table, int64_t *found,
                                             tide_error *err);
/* Remove triggers; history stays for peers. TIDE_NONE: was not tracked. */
TIDE_MUST_CHECK tide_status tide_node_untrack(tide_node *node, const char *table, tide_error *err);

typedef struct tide_capture_found {
    int64_t lost_tables; /* whose capture was gone (rebuilt by the application), and was put back */
    int64_t rescanned;   /* rows whose changes had not been captured, and became events */
    int64_t changed;     /* tables whose schema has changed */
    int64_t looked;      /* tables that were compared: none where nothing can have changed */
    char report[1024];
} tide_capture_found;

/* Fold, then compare triggers and schemas with what was recorded; put back, rescan, report. Before every sync; what was
 * rescanned is in the log, to be folded. Columns that were renamed, added or dropped are followed (schemas.h, reshape.h), tables that were renamed,
 * too. A table that has lost its key is not captured any more, loudly: track it anew. */
TIDE_MUST_CHECK tide_status tide_node_check(tide_node *node, tide_capture_found *out,
                                            tide_error *err);

/* Whoever runs the node is told what its looks bring to light, by whichever call made them; the same text not twice in a row. To be set before the
 * node is used; fn is called by any thread that looks. */
typedef void tide_report_fn(void *arg, const char *text);
void tide_node_on_report(tide_node *node, tide_report_fn *fn, void *arg);

/* ---- migrate.c ---- */

/* What was captured is folded, and the triggers of all tracked tables are dropped: SQLite drops no column that a trigger names. Whatever is written
 * from now on is found by the next tide_node_check, which puts them back; while store/foreign/migration_lock.h says that a migration is under way
 * it leaves the file alone. A crash in between: the same. */
TIDE_MUST_CHECK tide_status tide_node_unhook(tide_node *node, tide_error *err);

/* ---- fold.c ---- */

/* Captured changes become events. *more: there are further ones. */
TIDE_MUST_CHECK tide_status tide_node_fold(tide_node *node, int64_t *events, bool *more,
                                           tide_error *err);

/* ---- apply.c ---- */

typedef struct tide_applied {
    int64_t events; /* new ones */
    int64_t known;  /* that had been here before, by position */
    int64_t rows;   /* that changed */
    int64_t conflicts;
    int64_t quarantined;
    int64_t waiting; /* beyond the drift bound */
    int64_t spooled; /* kept until the rest of their batch is here (spool.h) */
} tide_applied;

/* A page of events of one origin and epoch, in order of numbers, as they came from a peer: stored in the log, merged, cursors moved, all in
 * one transaction. Of a batch that is not whole yet, nothing is merged before its last event is here; then all of it is (spool.h). Events of a table that is not here: kept in the log (relay), their table created if schema says how, else quarantined.
 * TIDE_E_INVALID: forged or out of order (an origin that is ourselves with unknown numbers, numbers from the future, another epoch's). */
TIDE_MUST_CHECK tide_status tide_node_apply(tide_node *node, const tide_view *events, int count,
                                            tide_applied *out, tide_error *err);

/* ---- log.c: what is here ---- */

typedef struct tide_origin_mark {
    tide_node_id origin;
    int64_t epoch;
    int64_t start;  /* numbers at or below it belong to earlier epochs of that origin */
    int64_t floor;  /* events at or below it are gone */
    int64_t prefix; /* everything up to it is here or below the floor */
    int64_t highest;
    int64_t stamp; /* of the event at the prefix; 0: it is not here (any more) */
    bool differs;  /* from what the one who hears this has said (self.h) */
} tide_origin_mark;

typedef tide_status tide_mark_fn(void *arg, const tide_origin_mark *mark, tide_error *err);
TIDE_MUST_CHECK tide_status tide_node_marks(tide_node *node, tide_mark_fn *fn, void *arg,
                                            tide_error *err);

/* Take a peer's word on where an origin's epoch begins: before its events. TIDE_E_INVALID: numbers that cannot be. */
TIDE_MUST_CHECK tide_status tide_node_learn(tide_node *node, const tide_origin_mark *mark,
                                            tide_error *err);

typedef tide_status tide_event_fn(void *arg, tide_view event, int64_t seq, int64_t cut_seq,
                                  tide_error *err);
/* Events of an origin's epoch above `after`, in order, whole batches, up to max_rows and max_bytes (at least one event). *through: the cut it ends at; a
 * batch that is larger than a page, or is not whole here, ends inside: its receiver keeps it until the rest comes. *more.
 * TIDE_E_NOT_FOUND: below the floor: a snapshot is required. */
TIDE_MUST_CHECK tide_status tide_node_read(tide_node *node, const tide_node_id *origin,
                                           int64_t epoch, int64_t after, int64_t max_rows,
                                           int64_t max_bytes, tide_event_fn *fn, void *arg,
                                           int64_t *through, bool *more, tide_error *err);

/* ---- digest.c ---- */

typedef struct tide_table_digest {
    char table[TIDE_EVENT_TABLE_MAX + 1];
    int64_t rows;
    uint8_t digest[16]; /* additive over rows (key and values), independent of order */
} tide_table_digest;
typedef tide_status tide_digest_fn(void *arg, const tide_table_digest *digest, tide_error *err);
/* Of the tables as they are now, after a fold, by name. Two nodes with the same rows have the same digests. */
TIDE_MUST_CHECK tide_status tide_node_digests(tide_node *node, tide_digest_fn *fn, void *arg,
                                              tide_error *err);

/* ---- gc.c: what nobody needs any more goes ---- */

#define TIDE_NODE_RETAIN_US                                                                        \
    INT64_C(604800000000) /* 7 d, of tables that are not tracked (any more) */

/* How far a peer has come: what bounds collection until expires_us. Replaces what it said before. */
TIDE_MUST_CHECK tide_status tide_node_note_peer(tide_node *node, const tide_node_id *peer,
                                                const char *name, int64_t expires_us,
                                                const tide_origin_mark *marks, int count,
                                                tide_error *err);

typedef struct tide_collect_options {
    int64_t
        safety; /* numbers below every live peer's mark that are kept all the same; 0: 1,000; below 0: none */
    int64_t batch; /* rows of one kind per turn; 0: 10,000 */
} tide_collect_options;

typedef struct tide_collected {
    int64_t events;
    int64_t tombstones; /* clocks and images of rows that were deleted */
    int64_t knowledge;  /* of conflicts that can no longer come */
    bool more;
} tide_collected;

/* One bounded turn. An event goes when it is older than its table's retention and at or below every live peer's mark minus the safety window; from the
 * oldest on, so that a floor is one number. A deleted row's clock goes when besides every peer has all that is older, and we have all that they
 * have. Without live peers retention alone decides. */
TIDE_MUST_CHECK tide_status tide_node_collect(tide_node *node, const tide_collect_options *options,
                                              tide_collected *out, tide_error *err);

/* ---- list.c: what people look at ---- */

enum { TIDE_CONFLICT_ID_SIZE = 17 };

/* A write that was lost unseen, or a row that a constraint keeps out of its table (conflict.h, desk.h). Views until fn returns. */
typedef struct tide_conflict {
    char id[TIDE_CONFLICT_ID_SIZE]; /* the same on every node */
    const char *table;
    tide_view key;        /* value.h encodings */
    tide_view record_id;  /* the same as a text, as in <table>_Events */
    const char *reason;   /* "write", "delete", "check", "unique", "foreign key" */
    const char *column;   /* of a write; "" otherwise */
    tide_stamp stamp;     /* of the lost write; time 0 of a row */
    tide_sql_value value; /* of a write */
    tide_view data;       /* of a row that is kept out: its columns, as JSON. Empty otherwise */
    tide_view
        ours; /* what the table shows instead, as JSON: the value, or the row. Empty: nothing */
    int64_t found_at_us;
} tide_conflict;
/* TIDE_NONE: enough, no further ones. */
typedef tide_status tide_conflict_fn(void *arg, const tide_conflict *conflict, tide_error *err);
TIDE_MUST_CHECK tide_status tide_node_conflicts(tide_node *node, tide_conflict_fn *fn, void *arg,
                                                tide_error *err);

/* ---- conflict_settle.c ---- */

typedef enum tide_conflict_choice {
    TIDE_CONFLICT_OURS,   /* what the table shows stays */
    TIDE_CONFLICT_THEIRS, /* what was lost is written again */
    TIDE_CONFLICT_VALUE,  /* another value is written */
} tide_conflict_choice;

/* Settle a conflict: the entry leaves every node. A lost write of a column, or a delete that was outlived. value: of TIDE_CONFLICT_VALUE.
 * TIDE_E_NOT_FOUND: no such entry. TIDE_E_CONFLICT: the row is not in its table. TIDE_E_UNSUPPORTED: a row that a constraint keeps out; err
 * says what to do. TIDE_E_INVALID, TIDE_E_EXISTS: the table refuses the value. */
TIDE_MUST_CHECK tide_status tide_node_settle_conflict(tide_node *node, const char *id,
                                                      tide_conflict_choice choice,
                                                      const tide_sql_value *value, tide_error *err);
/* What the tables show stays, for all lost writes and outlived deletes that were found before. */
TIDE_MUST_CHECK tide_status tide_node_dismiss_conflicts(tide_node *node, int64_t before_us,
                                                        int64_t *count, tide_error *err);

typedef struct tide_quarantined {
    tide_node_id origin;
    int64_t epoch;
    int64_t seq;
    tide_view table;
    tide_view record_id;
    tide_view reason; /* quarantine.h */
    tide_view detail;
    int64_t found_at_us;
} tide_quarantined;
typedef tide_status tide_quarantined_fn(void *arg, const tide_quarantined *event, tide_error *err);
TIDE_MUST_CHECK tide_status tide_node_quarantined(tide_node *node, int64_t limit,
                                                  tide_quarantined_fn *fn, void *arg,
                                                  tide_error *err);

typedef struct tide_node_counts {
    int64_t conflicts; /* writes */
    int64_t aside;     /* rows */
    int64_t quarantined;
    int64_t waiting; /* of those: for their time */
} tide_node_counts;
TIDE_MUST_CHECK tide_status tide_node_count(tide_node *node, tide_node_counts *out,
                                            tide_error *err);
/* The last two alone, which every sync asks for. */
TIDE_MUST_CHECK tide_status tide_node_count_held(tide_node *node, tide_node_counts *out,
                                                 tide_error *err);
