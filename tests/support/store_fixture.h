/* store_fixture.h - one test case, run on every engine.
 *
 * STORE_CASE(f) makes two cmocka cases of a function: on a fresh SQLite file and on a fresh
 * PostgreSQL database, each with a virtual clock, the tables of test.sql and a directory of its
 * own. The function gets a store_test and does not know which engine it is on. On PostgreSQL the
 * store's user is an ordinary role that owns its database and nothing else. STORE_CASE_SUPERUSER is
 * for a case that, beside the store, does what only a superuser may.
 *
 * What a case opens with store_test_open is closed at its end. */
#pragma once

#include <tidemark/tidemark.h>

#include "support/check.h"
#include "support/clock/virtual_env.h"
#include "support/postgres/pg_cluster.h"
#include "support/tempdir.h"
#include "test_sql.h"

#define SECOND_US INT64_C(1000000)

enum { STORE_TEST_STORES = 32 };

typedef struct store_test {
    tide_engine engine;
    tempdir dir;
    char url[PG_CLUSTER_URL_MAX];
    virtual_env clock;
    tide_store *store;
    tide_store *others[STORE_TEST_STORES];
    int other_count;
    tide_error err;
} store_test;

int store_fixture_setup_sqlite(void **state);
int store_fixture_setup_postgres(void **state);
int store_fixture_setup_superuser(void **state);
int store_fixture_teardown(void **state);

#define STORE_CASE_SQLITE(f)                                                                       \
    {                                                                                              \
#f " [sqlite]", f, store_fixture_setup_sqlite, store_fixture_teardown, NULL                \
    }
#define STORE_CASE_POSTGRES(f)                                                                     \
    {                                                                                              \
#f " [postgres]", f, store_fixture_setup_postgres, store_fixture_teardown, NULL            \
    }
#define STORE_CASE_POSTGRES_SUPERUSER(f)                                                           \
    {                                                                                              \
#f " [postgres]", f, store_fixture_setup_superuser, store_fixture_teardown, NULL           \
    }
#define STORE_CASE(f) STORE_CASE_SQLITE(f), STORE_CASE_POSTGRES(f)
#define STORE_CASE_SUPERUSER(f) STORE_CASE_SQLITE(f), STORE_CASE_POSTGRES_SUPERUSER(f)

/* Another store on the same file or database: to the store, another process. */
tide_store *store_test_open(store_test *t);
/* The same with options; env, clock and state directory are the case's where not given. */
tide_store *store_test_open_with(store_test *t, tide_store_options options);
/* The same on the real clock: for cases in which one really waits for another. */
tide_store *store_test_open_real(store_test *t);
/* Close one early. */
void store_test_close(store_test *t, tide_store **store);
tide_store_options store_test_options(store_test *t);

/* Create the tables of test.sql in a store. */
void store_test_add_tables(tide_store *store);

/* One row of `numbered`, numbered by the sequence of the same name; fits tide_store_write. */
typedef struct numbered_row {
    const char *writer;
    int64_t n;
    tide_sequence_range range; /* filled */
} numbered_row;
tide_status add_numbered(tide_tx *tx, void *numbered_row_arg, tide_error *err);

/* How many rows, and the highest number. */
void count_numbered(tide_store *store, int64_t *count, int64_t *highest);
