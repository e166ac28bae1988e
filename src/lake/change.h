/* change.h - a transaction on a catalog: operations against one base snapshot, committed as one new snapshot or not at all.
 *
 *     begin (base = the head) ---- operations ---- commit: head lock, conflicts since the base, ids, rows, head, COMMIT
 *                                        \______ drop: nothing has happened
 *
 * Operations look at the base and at each other (a table can be created in a schema of the same change), fail at once on what is wrong
 * already (names that exist, unknown tables), and collect rows, marks (mark.h) and tokens of changes_made; nothing is written before commit.
 *
 * Commit, in one transaction, the lock taken last and everything behind it in one pipeline (store.h):
 *     ids of objects, columns, files  ->  head locked and moved to a new snapshot id  ->  marks since the base that ours fear: refused
 *     ->  rows begun, rows ended (in place, or in lake_ended where an ancestor owns them)  ->  snapshot, changes, commit, marks, statistics as deltas
 * The check runs under the lock, on every attempt, against everything since the base. A refusal is TIDE_E_CONFLICT at once: what collided, in which snapshot,
 * by whom; only what is transient (serialization, deadlock, lock time-out, connection lost before the commit was sent; SQLite busy) is tried again,
 * TIDE_LAKE_TRIES_MAX times with jitter, and the words keep the last reason.
 *
 * A request key makes it idempotent: a commit with a key that is there already answers with that snapshot (is_replay), if the request's hash is the
 * same, else TIDE_E_CONFLICT. So a lost reply (TIDE_E_OUTCOME_UNKNOWN) is repeated with the same key, never a second commit. A change without a key gets one.
 *
 * Each change has an attempt id, which is stored with its commit. After a failure at or behind COMMIT the outcome is read by it, behind the head's lock: its own commit,
 * another attempt's under the same key (a replay), or none. tide_lake_change_outcome tells which; files of a change are deleted by their writer only where it is
 * TIDE_LAKE_REFUSED.
 *
 * The state's digest: two sums modulo 2^62 of a SHA-256 prefix over each live row's contents, without snapshots (digest.h); a commit adds what begins and
 * subtracts what ends. The history checker computes it anew (history.h).
 *
 * Survives: before COMMIT nothing; after it everything. Files that an operation brought are the caller's until commit: it removes them after a refusal that is certain.
 * Threads: one at a time. */
#pragma once

#include "lake/state.h"

typedef struct tide_lake_change tide_lake_change;

/* base 0: the head; it is not waited for the disk (PostgreSQL): until the commit has answered, with TIDE_NONE too, a crash of the server may take the base away, and then the
 * commit is refused. TIDE_E_NOT_FOUND: no such catalog; creating is explicit (catalog.h). */
TIDE_MUST_CHECK tide_status tide_lake_begin(tide_lake_change **out, tide_lake *lake,
                                            const char *catalog, int64_t base, tide_error *err);
void tide_lake_drop_change(tide_lake_change *change); /* takes NULL; after commit too */
void tide_lake_drop_changep(tide_lake_change **change);
const tide_lake_catalog *tide_lake_change_catalog(const tide_lake_change *change);
int64_t tide_lake_change_base(const tide_lake_change *change);

/* ---- operations. Each: TIDE_E_EXISTS, TIDE_E_NOT_FOUND, TIDE_E_INVALID before anything is collected ---- */

TIDE_MUST_CHECK tide_status tide_lake_create_schema(tide_lake_change *change, const char *schema,
                                                    tide_error *err);
/* TIDE_E_CONFLICT: it has tables, and not cascade. */
TIDE_MUST_CHECK tide_status tide_lake_drop_schema(tide_lake_change *change, const char *schema,
                                                  bool cascade, tide_error *err);

typedef struct tide_lake_column_def {
    const char *name;
    const char *type;          /* DuckLake's words (types.h turns SQL types into them) */
    const char *default_value; /* a literal; NULL: none */
    bool is_not_null;
} tide_lake_column_def;
TIDE_MUST_CHECK tide_status tide_lake_create_table(tide_lake_change *change, const char *schema,
                                                   const char *table,
                                                   const tide_lake_column_def *columns, int count,
                                                   tide_error *err);
TIDE_MUST_CHECK tide_status tide_lake_drop_table(tide_lake_change *change, const char *schema,
                                                 const char *table, tide_error *err);
TIDE_MUST_CHECK tide_status tide_lake_rename_table(tide_lake_change *change, const char *schema,
                                                   const char *table, const char *new_name,
                                                   tide_error *err);
TIDE_MUST_CHECK tide_status tide_lake_add_column(tide_lake_change *change, const char *schema,
                                                 const char *table,
                                                 const tide_lake_column_def *column,
                                                 tide_error *err);
TIDE_MUST_CHECK tide_status tide_lake_drop_column(tide_lake_change *change, const char *schema,
                                                  const char *table, const char *column,
                                                  tide_error *err);
TIDE_MUST_CHECK tide_status tide_lake_rename_column(tide_lake_change *change, const char *schema,
                                                    const char *table, const char *column,
                                                    const char *new_name, tide_error *err);
/* To a wider type: int32 to int64, float32 to float64, ... (DuckLake's promotions). */
TIDE_MUST_CHECK tide_status tide_lake_widen_column(tide_lake_change *change, const char *schema,
                                                   const char *table, const char *column,
                                                   const char *type, tide_error *err);
/* count 0: no partitions from here on. columns[i] with transforms[i] ("identity", "year", "month", "day", "hour", "bucket(16)"). */
TIDE_MUST_CHECK tide_status tide_lake_partition_table(tide_lake_change *change, const char *schema,
                                                      const char *table, const char *const *columns,
                                                      const char *const *transforms, int count,
                                                      tide_error *err);
TIDE_MUST_CHECK tide_status tide_lake_create_view(tide_lake_change *change, const char *schema,
                                                  const char *view, const char *sql,
                                                  tide_error *err);
/* Another text under the same name. */
TIDE_MUST_CHECK tide_status tide_lake_alter_view(tide_lake_change *change, const char *schema,
                                                 const char *view, const char *sql,
                                                 tide_error *err);
TIDE_MUST_CHECK tide_status tide_lake_drop_view(tide_lake_change *change, const char *schema,
                                                const char *view, tide_error *err);

typedef struct tide_lake_column_stats {
    int64_t column_id;
    int64_t size_bytes;
    int64_t value_count;
    int64_t null_count;
    const char *min_value; /* NULL: not known */
    const char *max_value;
    bool has_nan_known;
    bool contains_nan;
} tide_lake_column_stats;

/* A Parquet file that is written and synced. path: below the table's directory, with a UUID, never an id. */
typedef struct tide_lake_new_file {
    const char *path;
    int64_t record_count;
    int64_t file_size_bytes;
    int64_t footer_size;
    const tide_lake_column_stats *stats;
    int stat_count;
    const char *const *
        partition_values; /* one per key of the table's partition (NULL among them: NULL); NULL: none */
    int64_t partition_id;
    const char *sha256; /* of its bytes, hexadecimal; NULL: not known */
} tide_lake_new_file;

/* The table as this change sees it, for who writes its files: id, path, columns (with the ids that a table created in this change will have). */
typedef struct tide_lake_table_seen {
    tide_lake_object table;
    tide_lake_column *columns;
    int column_count;
    tide_lake_partition partition;
} tide_lake_table_seen;
TIDE_MUST_CHECK tide_status tide_lake_change_table(tide_lake_change *change, const char *schema,
                                                   const char *table, tide_lake_table_seen *out,
                                                   tide_error *err);
void tide_lake_table_done(tide_lake_table_seen *seen); /* fits TIDE_CLEANUP */

TIDE_MUST_CHECK tide_status tide_lake_add_file(tide_lake_change *change, int64_t table_id,
                                               const tide_lake_new_file *file, tide_error *err);

/* Rows of a data file are deleted: its new delete file holds all positions, older ones' too, whose delete file (seen->delete_file_id) ends. With
 * file NULL the whole data file ends: no row of it is left. */
TIDE_MUST_CHECK tide_status tide_lake_delete_rows(tide_lake_change *change, int64_t table_id,
                                                  const tide_lake_file_seen *seen,
                                                  const tide_lake_new_file *file, tide_error *err);
/* These files (with their delete files) end, and the new ones hold the same rows. */
TIDE_MUST_CHECK tide_status tide_lake_compact_files(tide_lake_change *change, int64_t table_id,
                                                    const tide_lake_file_seen *olds, int old_count,
                                                    const tide_lake_new_file *files, int count,
                                                    tide_error *err);

/* ---- commit ---- */

typedef struct tide_lake_commit_options {
    const char *request_key; /* NULL: one is made */
    const char *
        pin_id; /* under which the change's files were written: refused where it has run out; NULL: none */
    tide_view request_hash; /* of what was asked; compared where the key is there already */
    const char *author;
    const char *message;
    const char *extra;
} tide_lake_commit_options;

typedef struct tide_lake_committed {
    int64_t snapshot_id;
    int64_t parent_snapshot_id;
    int64_t rows_added;
    int tries;
    bool is_replay; /* of a request key: another attempt has committed under it */
    char request_key[TIDE_LAKE_KEY_MAX + 1];
} tide_lake_committed;

/* TIDE_E_CONFLICT: refused by the matrix (err says what, which snapshot, who). TIDE_E_NOT_FOUND: the catalog was dropped meanwhile. TIDE_E_LEASE_LOST: the pin has run out.
 * TIDE_E_EXHAUSTED-like transient failures after all tries keep their status. TIDE_E_OUTCOME_UNKNOWN: repeat with the key, which err names. A change without operations is
 * TIDE_NONE and makes no snapshot. options may be NULL. */
TIDE_MUST_CHECK tide_status tide_lake_commit(tide_lake_change *change,
                                             const tide_lake_commit_options *options,
                                             tide_lake_committed *out, tide_error *err);

typedef enum tide_lake_outcome {
    TIDE_LAKE_REFUSED,   /* or not tried: no row names the change's files, nor will one */
    TIDE_LAKE_COMMITTED, /* its files are the metabase's */
    TIDE_LAKE_UNKNOWN,   /* clean-up finds them, if they are nobody's (expire.h) */
} tide_lake_outcome;
tide_lake_outcome tide_lake_change_outcome(const tide_lake_change *change);

/* What a commit collided with. mark is one of mark.h's. */
typedef struct tide_lake_collision {
    int64_t snapshot_id; /* 0: nothing */
    char mark[TIDE_LAKE_NAME_MAX + 64];
    char author[100];
} tide_lake_collision;
/* Of the commit that was refused with TIDE_E_CONFLICT; snapshot_id 0 where it was refused for another reason. Borrowed from the change. */
const tide_lake_collision *tide_lake_change_collision(const tide_lake_change *change);

/* Why its commit was tried again, attempt by attempt; *count of them, at most TIDE_LAKE_TRIES_MAX. Borrowed from the change. */
const tide_status *tide_lake_change_retries(const tide_lake_change *change, int *count);
