/* change_parts.h - what a change is made of; for the files of this folder alone.
 *
 * A change knows *things* (schemas, tables, views) as they were at its base and as they are to be. Operations change what is to be; commit compares
 * both and writes the difference. So operations on one thing add up, whatever their order, and one that is undone leaves nothing. */
#pragma once

#include "base/arena.h"
#include "base/buffer.h"
#include "base/text/uuid.h"
#include "lake/change.h"
#include "lake/lake_parts.h"
#include "lake/state_row.h"

enum {
    TIDE_LAKE_COLUMN_MAX = 1000,
    TIDE_LAKE_CHANGE_BYTES_MAX = 48 << 20, /* of one change: it is bound as a few statements */
};

typedef struct lake_thing {
    struct lake_thing *next;
    struct lake_thing *schema; /* of a table or view */
    bool was_there;
    bool is_there;
    tide_lake_object_row was;
    tide_lake_object_row is;
    /* Of tables: */
    bool has_columns; /* columns and partition were read, or made */
    tide_lake_column_row *columns_were;
    int columns_were_count;
    tide_lake_column_row *columns;
    int column_count;
    tide_lake_partition partition_was;
    int64_t partition_owner_id;
    tide_lake_partition partition;
    bool has_inserts;
    bool has_deletes;
    bool has_compaction;
    bool has_rewrite; /* compaction of files with deleted rows */
    int64_t row_ids;  /* that new files take */
    int64_t records;  /* deltas of its statistics */
    int64_t bytes;
} lake_thing;

/* A file that begins: a data file, or a delete file of one. */
typedef struct lake_file {
    struct lake_file *next;
    lake_thing *table;
    bool is_delete;
    int64_t id; /* taken by the commit */
    int64_t data_file_id;
    int64_t first_row; /* its place among the row ids that the change takes of the table */
    tide_lake_new_file file;
} lake_file;

/* A row that ends, known by what it is and where it began. */
typedef struct lake_end {
    struct lake_end *next;
    lake_thing *table; /* whose file it is */
    tide_lake_kind kind;
    int64_t id;
    int64_t begin;
    int64_t owner_id;
    tide_lake_digest digest;
} lake_end;

struct tide_lake_change {
    tide_lake *lake;
    tide_store *store;
    tide_lake_catalog catalog;
    int64_t base;
    int64_t version; /* the base's schema_version; -1: an older base's, not asked for */
    bool
        is_base_local; /* the base may not be on disk yet: commit makes sure that it is still the same */
    tide_arena memory;
    lake_thing *things; /* the newest first */
    lake_file *files;   /* in order */
    lake_file *last_file;
    lake_end *ends;
    tide_lake_collision collision; /* of a commit that was refused */
    tide_status retries[TIDE_LAKE_TRIES_MAX];
    int retry_count;
    bool is_committed;
    tide_lake_outcome outcome;
    char attempt[TIDE_UUID_TEXT_SIZE]; /* "": not tried yet */
};

/* ---- change.c ---- */

TIDE_MUST_CHECK tide_status lake_fail_memory(const tide_lake_change *change, tide_error *err);
/* ---- change_know.c ---- */

/* An empty one; NULL: no memory. */
lake_thing *lake_add_thing(tide_lake_change *change);
/* What is there in the change's sense. TIDE_E_NOT_FOUND: the words name what and where. */
TIDE_MUST_CHECK tide_status lake_need_schema(tide_lake_change *change, const char *schema,
                                             lake_thing **out, tide_error *err);
TIDE_MUST_CHECK tide_status lake_need_table(tide_lake_change *change, const char *schema,
                                            const char *table, lake_thing **out, tide_error *err);
TIDE_MUST_CHECK tide_status lake_need_view(tide_lake_change *change, const char *schema,
                                           const char *view, lake_thing **out, tide_error *err);
TIDE_MUST_CHECK tide_status lake_need_table_id(tide_lake_change *change, int64_t table_id,
                                               lake_thing **out, tide_error *err);
/* TIDE_NONE: no such schema; no such table or view. */
TIDE_MUST_CHECK tide_status lake_find_schema_thing(tide_lake_change *change, const char *schema,
                                                   lake_thing **out, tide_error *err);
TIDE_MUST_CHECK tide_status lake_find_thing(tide_lake_change *change, lake_thing *schema,
                                            const char *name, lake_thing **out, tide_error *err);
/* Everything in a schema becomes known. */
TIDE_MUST_CHECK tide_status lake_know_all(tide_lake_change *change, lake_thing *schema,
                                          tide_error *err);
/* Columns and partition of a table. */
TIDE_MUST_CHECK tide_status lake_know_columns(tide_lake_change *change, lake_thing *table,
                                              tide_error *err);
/* ---- change.c again ---- */

/* A new thing with an id and a UUID of its own. */
TIDE_MUST_CHECK tide_status lake_new_thing(tide_lake_change *change, tide_lake_kind kind,
                                           lake_thing *schema, const char *name, lake_thing **out,
                                           tide_error *err);
/* Not after its commit. */
TIDE_MUST_CHECK tide_status lake_check_open(const tide_lake_change *change, tide_error *err);

/* ---- commit_plan.c ---- */

typedef struct lake_plan {
    tide_buffer leaves; /* JSON arrays */
    tide_buffer fears;
    tide_buffer tokens; /* changes_made */
    tide_lake_digest
        digest; /* what is known before the lock; files that begin come to it with their ids */
    int file_count;
    int schema_step;
    bool has_drops; /* something ends as it is under the lock */
    int64_t rows_added;
} lake_plan;

/* What a change leaves, fears, says and adds to the state. TIDE_NONE: it changes nothing. */
TIDE_MUST_CHECK tide_status lake_plan_make(const tide_lake_change *change, lake_plan *out,
                                           tide_error *err);
void lake_plan_done(lake_plan *plan);
/* Does it delete rows, and nothing else? */
bool lake_change_only_deletes(const tide_lake_change *change);
bool lake_column_changed(const tide_lake_column_row *was, const tide_lake_column_row *is);
const tide_lake_column_row *lake_column_of(const tide_lake_column_row *columns, int count,
                                           int64_t id);
bool lake_thing_renamed(const lake_thing *thing);
bool lake_table_altered(const lake_thing *thing); /* columns or partition */

/* ---- commit_rows.c, commit_drop.c: statements of a commit, deferred behind the head's lock ---- */

TIDE_MUST_CHECK tide_status lake_write_things(tide_tx *tx, const tide_lake_change *change,
                                              tide_error *err);
TIDE_MUST_CHECK tide_status lake_write_files(tide_tx *tx, const tide_lake_change *change,
                                             tide_error *err);
/* Appends of several changes, as JSON arrays: files with the place of their change, statistics of their columns, and what their tables gain. */
typedef struct lake_group_rows {
    tide_buffer files;
    tide_buffer stats;
    tide_buffer sums;
} lake_group_rows;
void lake_group_rows_init(lake_group_rows *rows);
void lake_group_rows_done(lake_group_rows *rows);
TIDE_MUST_CHECK tide_status lake_group_rows_write(lake_group_rows *rows,
                                                  const tide_lake_change *const *changes, int count,
                                                  tide_error *err);
/* Deferred: forks' first statistics, before them; values of partitions, behind them. */
TIDE_MUST_CHECK tide_status lake_begin_stats_of(tide_tx *tx, const tide_lake_change *const *changes,
                                                int count, tide_error *err);
TIDE_MUST_CHECK tide_status lake_write_digests_of(tide_tx *tx,
                                                  const tide_lake_change *const *changes, int count,
                                                  tide_error *err);
TIDE_MUST_CHECK tide_status lake_write_partitions_of(tide_tx *tx,
                                                     const tide_lake_change *const *changes,
                                                     int count, tide_error *err);
/* Deferred, behind the rows of their files: bounds of the columns of their tables (PostgreSQL; stock clients read them there). */
TIDE_MUST_CHECK tide_status lake_settle_bounds(tide_tx *tx, const tide_lake_change *const *changes,
                                               int count, tide_error *err);
/* Under the lock: everything that dropped tables and views take along. */
TIDE_MUST_CHECK tide_status lake_write_drops(tide_tx *tx, const tide_lake_change *change,
                                             tide_error *err);
TIDE_MUST_CHECK tide_status lake_end_row(tide_tx *tx, int64_t catalog_id, tide_lake_kind kind,
                                         int64_t id, int64_t sub_id, int64_t begin,
                                         int64_t owner_id, tide_error *err);

/* A schema's, table's or view's row begins. */
TIDE_MUST_CHECK tide_status lake_add_object(tide_tx *tx, int64_t catalog_id,
                                            const tide_lake_object_row *row, tide_error *err);

typedef struct lake_publication {
    int64_t catalog_id;
    int64_t base; /* 0: none */
    const char *changes;
    const char *marks; /* a JSON array */
    const char *key;
    const char *attempt;
    tide_view hash;
    int64_t rows;
    const tide_lake_commit_options *options; /* author, message, extra; may be NULL */
    int64_t *parent; /* filled: the snapshot before it; TIDE_LAKE_UNANSWERED until then */
} lake_publication;
/* The store has found out that a commit happened, and its answer was lost: what deferred statements would have told is not known. */
enum { TIDE_LAKE_UNANSWERED = -1 };
/* The snapshot itself, deferred: the last statements of a commit. */
TIDE_MUST_CHECK tide_status lake_publish(tide_tx *tx, const lake_publication *what,
                                         tide_error *err);

/* ---- commit.c, commit_together.c ---- */

typedef struct lake_try {
    tide_lake_change *change;
    lake_plan plan;
    const tide_lake_commit_options *options;
    const char *key; /* the caller's, or the attempt's id */
    bool has_key;    /* the caller's */
    int runs;        /* of the closure */
    int tries;
    tide_lake_left left; /* file ids */
    int64_t snapshot;
    int64_t parent;
    bool is_committed; /* together with others */
} lake_try;

/* Is the key to be looked for? Not by the first try of a key of our own. */
bool lake_try_asks(const lake_try *c);
const char *lake_try_pin(const lake_try *c); /* NULL: none */

/* Give the files of a change their ids; their digests are added. */
TIDE_MUST_CHECK tide_status lake_number_files(lake_try *c, const int64_t *ids,
                                              tide_lake_digest *digest, tide_error *err);
/* Commit with others of this process who append to the same catalog right now, in one transaction. False: nothing is known to have happened, commit it alone
 * (which finds what has). */
bool lake_commit_together(lake_try *c);

/* Is the base there, and on disk? TIDE_E_CONFLICT: it was lost in a crash of the server. */
TIDE_MUST_CHECK tide_status lake_check_base(tide_lake_change *change, tide_error *err);

/* Words of a commit: valid UTF-8, a key that is not too long. options may be NULL. */
TIDE_MUST_CHECK tide_status lake_check_options(const tide_lake_commit_options *options,
                                               tide_error *err);
