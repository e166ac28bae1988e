/* work.h - a change of one catalog with the files that it brings: written under a pin, named by one commit, removed where it is certainly refused.
 *
 *     begin ---- operations of change.h on work->change; rows appended and deleted here ---- commit: one snapshot ---- done
 *       \______ is_answered: done earlier under its request key, work->result is the answer; operations and commit are left out
 *
 * A pin of the base is taken before the first file is written, and kept until the end: cleanup leaves alone what is younger than a pin (expire.h). The commit itself checks that the
 * pin is still held, so a writer that slept past it cannot commit files that may be gone. DuckDB is asked for when the first operation needs it.
 *
 * Survives: a crash before the commit leaves files that nobody names (`lake cleanup --orphans`) and a pin that runs out; nothing that was acknowledged.
 * Threads: one at a time. */
#pragma once

#include "base/arena.h"
#include "lake/catalog.h"
#include "lake/data.h"

/* DuckDB for the files; called at most once. What it gives stays the caller's, until the work is done. */
typedef tide_status tide_lake_open_data_fn(void *arg, tide_lake_data **out, tide_error *err);

struct tide_lake_batch;
typedef struct tide_lake_work {
    /* of the caller; must outlive it */
    tide_lake *lake;
    tide_lake_open_data_fn *open_data;
    void *arg;
    const char *holder;              /* of the pin, for people */
    int64_t base;                    /* 0: the head */
    tide_lake_commit_options commit; /* with the hash of what is asked */
    /* of the work */
    tide_lake_data *data; /* NULL: nobody needed it yet */
    tide_lake_change *change;
    tide_lake_pin pin;
    bool has_pin;
    tide_lake_pin base_pin; /* of the newest base, once a delete was rebased */
    bool has_base_pin;
    int rebases;                     /* of a delete: commits that it lost to others */
    struct tide_lake_batch *batches; /* files that operations wrote */
    tide_arena memory;
    tide_lake_committed result;
    bool is_answered;  /* under its request key, earlier: there is nothing to do */
    bool is_unchanged; /* nothing was to be done: result.snapshot_id is the base */
    int64_t deleted;   /* rows */
    int64_t files;     /* that were written */
    int64_t bytes;     /* of them */
} tide_lake_work;

/* TIDE_E_CONFLICT: the key is another request's. TIDE_E_NOT_FOUND: no such catalog, or base. */
TIDE_MUST_CHECK tide_status tide_lake_work_begin(tide_lake_work *work, const char *catalog,
                                                 tide_error *err);
/* As tide_lake_write_rows. TIDE_E_CONFLICT: the base has expired since the change began, and something was done in it; who has done nothing yet begins again by itself. */
TIDE_MUST_CHECK tide_status tide_lake_work_append(tide_lake_work *work, const char *schema,
                                                  const char *table, const char *source,
                                                  tide_lake_format format, tide_error *err);
/* What a delete does with rows that were committed after its base. */
typedef enum tide_lake_isolation {
    TIDE_LAKE_ISOLATION_SERIALIZABLE, /* those that meet the condition are deleted, too */
    TIDE_LAKE_ISOLATION_SNAPSHOT,     /* they stay */
} tide_lake_isolation;

typedef struct tide_lake_delete {
    const char *schema;
    const char *table;
    const char *condition;
    tide_lake_isolation isolation;
} tide_lake_delete;

/* "serializable" or "": the default. TIDE_E_INVALID: neither it nor "snapshot". */
TIDE_MUST_CHECK tide_status tide_lake_isolation_parse(const char *text, tide_lake_isolation *out,
                                                      tide_error *err);

/* As tide_lake_find_deletes. TIDE_E_INVALID: the same change has written rows of the table. */
TIDE_MUST_CHECK tide_status tide_lake_work_delete(tide_lake_work *work,
                                                  const tide_lake_delete *request, tide_error *err);
/* As tide_lake_commit; fine where it is answered or changes nothing. A change of nothing but deletes,
 * on a base that the caller did not choose, is rebased when others committed first: the condition is
 * evaluated on files that are new or changed, and the commit is tried again. After two losses
 * appenders of the table wait for it. */
TIDE_MUST_CHECK tide_status tide_lake_work_commit(tide_lake_work *work, tide_error *err);
/* Removes files that no commit names. Fits TIDE_CLEANUP on one that was never begun, too. */
void tide_lake_work_done(tide_lake_work *work);
