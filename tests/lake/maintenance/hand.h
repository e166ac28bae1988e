/* hand.h - histories made by hand, in plain SQL, right or wrong: for tests of the checker and of expiring.
 *
 * Rows are written first, as hand_sql texts; hand_commit makes them a snapshot, by the book: the digest is that of the rows, the parent the head. A text holds
 * %d-like arguments; what both engines understand is enough (TRUE, '...' for times and UUIDs). */
#pragma once

#include "base/buffer.h"
#include "lake/history.h"
#include "support/store_fixture.h"

typedef struct hand {
    store_test *t;
    tide_lake *lake;
    char data[TEMPDIR_PATH_MAX]; /* the data directory */
    int64_t minutes;             /* of the next snapshot's time */
    int64_t heads[64];           /* by catalog */
    tide_buffer pending;         /* texts that were not run yet */
} hand;

/* A case that gets a metabase whose rows are those of the bootstrap. Making one takes long: the cases of a program share one per engine, emptied
 * for each. */
int hand_setup_sqlite(void **state);
int hand_setup_postgres(void **state);
int hand_teardown(void **state);
int hand_group_teardown(void **state); /* of cmocka_run_group_tests */
#define HAND_CASE_POSTGRES(f)                                                                      \
    {                                                                                              \
#f " [postgres]", f, hand_setup_postgres, hand_teardown, NULL                              \
    }
#define HAND_CASE(f)                                                                               \
    {#f " [sqlite]", f, hand_setup_sqlite, hand_teardown, NULL},                                   \
    {                                                                                              \
#f " [postgres]", f, hand_setup_postgres, hand_teardown, NULL                              \
    }

/* For a store_test of one's own. */
void hand_init(hand *h, store_test *t);
void hand_done(hand *h);

/* Texts are run together, before anybody looks. */
void hand_sql(hand *h, const char *format, ...) TIDE_PRINTF(2, 3);
void hand_flush(hand *h);
/* What a query of one number says. */
int64_t hand_number(hand *h, const char *format, ...) TIDE_PRINTF(2, 3);

/* A catalog with a schema main of the id 100 * catalog + 1. */
void hand_catalog(hand *h, int64_t catalog, const char *name, int64_t snapshot);
void hand_fork(hand *h, int64_t parent, int64_t at, int64_t child, const char *name,
               int64_t snapshot);
/* Rows: a table (its id is its directory's name) with one column, a data file, a delete file. */
void hand_table(hand *h, int64_t catalog, int64_t snapshot, int64_t schema, int64_t table,
                const char *name);
void hand_file(hand *h, int64_t catalog, int64_t snapshot, int64_t table, int64_t file);
void hand_delete_file(hand *h, int64_t catalog, int64_t snapshot, int64_t table, int64_t data_file,
                      int64_t file);
/* A row of the catalog ends, or for a fork an ancestor's. kind as in state.h; sub: a column's id, otherwise 0. */
void hand_end(hand *h, int64_t catalog, int64_t snapshot, int kind, int64_t id, int64_t sub);
/* Everything below a table, and the table. */
void hand_drop_table(hand *h, int64_t catalog, int64_t snapshot, int64_t table);

/* By the book. base 0: the head. */
void hand_commit(hand *h, int64_t catalog, int64_t snapshot, int64_t base, const char *changes);
/* With a parent, and a digest of what is there now. */
void hand_commit_behind(hand *h, int64_t catalog, int64_t snapshot, int64_t parent, int64_t base,
                        const char *changes);

/* The path of a file below the data directory. */
void hand_path(hand *h, int64_t schema, int64_t table, int64_t file, char out[256]);

/* Every finding of the checker, by rule. */
typedef struct hand_findings {
    int count;
    char rules[64][16];
    char words[64][256];
    tide_lake_checked checked;
} hand_findings;
tide_status hand_check(hand *h, hand_findings *found);
void hand_expect_sound(hand *h);
/* Findings, and all of this rule. */
void hand_expect_broken(hand *h, const char *rule);
/* Findings, some of this rule. */
void hand_expect_among(hand *h, const char *rule);
