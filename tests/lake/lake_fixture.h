/* lake_fixture.h - a metabase in the case's store, and words for what tests do with it.
 *
 * lake_case_open makes one; lake_case_done proves its history (history.h) and closes it. Files are rows alone: nothing is written to a disk. */
#pragma once

#include "lake/catalog.h"
#include "lake/history.h"
#include "support/store_fixture.h"

typedef struct lake_case {
    store_test *t;
    tide_lake *lake;
    tide_error err;
} lake_case;

lake_case lake_case_open(void **state);
/* Every case ends with it: the history is sound. */
void lake_case_done(lake_case *l);
void lake_assert_sound(lake_case *l);

/* The data directory of a case. */
void lake_data_dir(store_test *t, char out[TEMPDIR_PATH_MAX]);

int64_t lake_catalog(lake_case *l, const char *name);            /* its id */
tide_lake_change *lake_begin(lake_case *l, const char *catalog); /* at its head */
int64_t lake_commit(lake_case *l, tide_lake_change *change);     /* and drop it; the snapshot */
tide_status lake_try_commit(lake_case *l,
                            tide_lake_change *change); /* and drop it; words in l->err */

/* Operations that must succeed, within a change. */
void lake_op_table(lake_case *l, tide_lake_change *change, const char *schema, const char *table);
/* A new file, of `rows` rows; the path has a UUID of its own. */
void lake_op_insert(lake_case *l, tide_lake_change *change, const char *schema, const char *table,
                    int64_t rows);
/* Rows of its file number `which`, from 0. */
void lake_op_delete_of(lake_case *l, tide_lake_change *change, const char *schema,
                       const char *table, int which, bool whole);
/* Rows of its first file, or all of it. */
void lake_op_delete(lake_case *l, tide_lake_change *change, const char *schema, const char *table,
                    bool whole);
/* All its files become one. */
void lake_op_compact(lake_case *l, tide_lake_change *change, const char *schema, const char *table);

/* The same as commits of their own; the snapshot. */
int64_t lake_table(lake_case *l, const char *catalog, const char *schema, const char *table);
int64_t lake_insert(lake_case *l, const char *catalog, const char *schema, const char *table,
                    int64_t rows);
int64_t lake_drop(lake_case *l, const char *catalog, const char *schema, const char *table);
int64_t lake_fork_of(lake_case *l, const char *parent, const char *child, const char *at);

/* What is there at a snapshot ("" the head): files of a table and their rows (without deleted ones); -1: no such table. */
int64_t lake_files(lake_case *l, const char *catalog, const char *at, const char *schema,
                   const char *table);
int64_t lake_rows(lake_case *l, const char *catalog, const char *at, const char *schema,
                  const char *table);
int64_t lake_head(lake_case *l, const char *catalog);
tide_lake_catalog lake_find(lake_case *l, const char *catalog);

/* A whole catalog at a snapshot as text: schemas, tables, columns, files. Free it. Equal states have equal texts. */
char *lake_state(lake_case *l, const char *catalog, const char *at);

/* Some statements of the test's own, as a foreign program would run them. */
void lake_sql(lake_case *l, const char *text);
