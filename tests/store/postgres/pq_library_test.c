/* libpq is opened when a postgres:// store is, and not before. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "store/postgres/pq_library.h"
#include "support/check.h"
#include "tidemark/store.h"

enum { THREAD_COUNT = 8 };

#define URL "postgres://tide:secret@127.0.0.1:1/db?connect_timeout=2"

static void name_library(const char *name)
{
    assert_int_equal(0, setenv("TIDEMARK_LIBPQ", name, 1));
}

static void a_missing_library_fails_with_its_name_and_the_remedy(void **state)
{
    (void)state;
    name_library("/nowhere/libpq.so.5");
    tide_store *store = NULL;
    tide_error err;
    assert_status(TIDE_E_UNAVAILABLE, tide_store_open(&store, URL, NULL, &err));
    assert_contains(err.text, "/nowhere/libpq.so.5");
    assert_contains(err.text, "install libpq");
    assert_null(strstr(err.text, "secret"));
}

static void another_library_is_refused(void **state)
{
    (void)state;
    name_library("libz.so.1");
    tide_error err;
    assert_status(TIDE_E_UNAVAILABLE, tide_pq_load(&err));
    assert_contains(err.text, "libz.so.1");
    assert_contains(err.text, "has no function PQ");
}

static void *load_and_ask(void *arg)
{
    tide_error err;
    int *version = arg;
    if (tide_pq_load(&err) == TIDE_OK)
        *version = tide_pq.libVersion();
    return NULL;
}

/* The last case: from here on the library is open. */
static void threads_that_come_at_once_get_the_whole_table(void **state)
{
    (void)state;
    assert_int_equal(0, unsetenv("TIDEMARK_LIBPQ"));
    pthread_t threads[THREAD_COUNT];
    int versions[THREAD_COUNT] = {0};
    for (int i = 0; i < THREAD_COUNT; i++)
        assert_int_equal(0, pthread_create(&threads[i], NULL, load_and_ask, &versions[i]));
    for (int i = 0; i < THREAD_COUNT; i++) {
        assert_int_equal(0, pthread_join(threads[i], NULL));
        assert_int_equal(PQlibVersion(), versions[i]);
    }
    tide_store *store = NULL;
    tide_error err;
    assert_status(TIDE_E_UNAVAILABLE, tide_store_open(&store, URL, NULL, &err));
    assert_contains(err.text, "cannot connect");
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_library_fails_with_its_name_and_the_remedy),
        cmocka_unit_test(another_library_is_refused),
        cmocka_unit_test(threads_that_come_at_once_get_the_whole_table),
    };
    return cmocka_run_group_tests_name("pq-library", tests, NULL, NULL);
}
