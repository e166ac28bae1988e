/* mark.h - who collides with whom: the conflict matrix, as words.
 *
 * A commit leaves *marks*, one per thing it did ("drop table 5"). An operation knows the marks that it cannot stand beside. Checking a commit is
 * one look-up: is there a mark of this catalog, newer than the base, among those that my operations fear? (lake_mark is keyed by mark, so the cost
 * does not depend on how old the base is.) Names are folded as DuckDB folds them (ASCII), so "T" and "t" are one.
 *
 *     mine                       leaves                                   fears
 *     create schema N            name-schema N                            name-schema N
 *     drop schema S              drop-schema S                            drop-schema S, create-in S
 *     create table/view N in S   name S N, create-in S                    name S N, drop-schema S
 *     drop table T (in S)        drop T                                   drop T                                     (views the same)
 *     rename T to N in S         alter T, name S N                        drop T, alter T, name S N, drop-schema S
 *     alter T (columns, partition key)  alter T                           drop T, alter T
 *     insert into T              insert T                                 drop T, alter T
 *     delete from T, files F..   delete T, delete-file F..                drop T, alter T, compact T, insert T, delete-file F..
 *     compact T                  compact T                                drop T, delete T, compact T
 *
 * plus what stock clients do beside us (inlined inserts count as inserts, inlined deletes as delete T and inlined-delete T, flushes as flush T; the
 * matrix of docs/decisions/0024-conflict-matrix.md). Two things that may both commit leave nothing that
 * the other fears. A drop frees its name only for those who have seen it.
 *
 * Threads: pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/error.h>

#include "base/buffer.h"

typedef enum tide_lake_act {
    TIDE_LAKE_CREATE_SCHEMA,
    TIDE_LAKE_DROP_SCHEMA,
    TIDE_LAKE_CREATE_TABLE,
    TIDE_LAKE_DROP_TABLE,
    TIDE_LAKE_CREATE_VIEW,
    TIDE_LAKE_DROP_VIEW,
    TIDE_LAKE_RENAME, /* of a table or view, within its schema */
    TIDE_LAKE_ALTER,
    TIDE_LAKE_INSERT,
    TIDE_LAKE_DELETE,
    TIDE_LAKE_DELETE_FILE, /* one per data file whose rows are deleted */
    TIDE_LAKE_COMPACT,
    TIDE_LAKE_INLINED_DELETE,
    TIDE_LAKE_FLUSH,
    TIDE_LAKE_ACT_COUNT,
} tide_lake_act;

typedef struct tide_lake_deed {
    tide_lake_act act;
    int64_t schema_id;
    int64_t object_id; /* table, view; data file of DELETE_FILE */
    const char *name;  /* new name of CREATE and RENAME; "" otherwise */
} tide_lake_deed;

/* Append, as JSON strings of one array's inside ("\"drop 5\",\"alter 5\""), what it leaves and what it fears. TIDE_E_NOMEM, TIDE_E_LIMIT. */
TIDE_MUST_CHECK tide_status tide_lake_deed_leaves(const tide_lake_deed *deed, tide_buffer *out,
                                                  tide_error *err);
TIDE_MUST_CHECK tide_status tide_lake_deed_fears(const tide_lake_deed *deed, tide_buffer *out,
                                                 tide_error *err);
/* Would mine be refused after theirs? The matrix itself, for tests and the history checker. */
bool tide_lake_deeds_collide(const tide_lake_deed *mine, const tide_lake_deed *theirs);

/* What a stock client's changes_made says, as deeds: fn per token. TIDE_E_INVALID: a token that DuckLake 1.0 does not have. */
typedef tide_status tide_lake_deed_fn(void *arg, const tide_lake_deed *deed,
                                      const char *schema_name, tide_error *err);
TIDE_MUST_CHECK tide_status tide_lake_changes_parse(const char *changes_made, tide_lake_deed_fn *fn,
                                                    void *arg, tide_error *err);

/* For people: "dropped the table" ... of a mark. */
const char *tide_lake_mark_words(const char *mark);
