/* Every statement of the lake's catalogue is valid SQL on every engine it exists for. */
#include "support/store_fixture.h"

#include "base/cleanup.h"
#include "lake/lake.h"
#include "tidemark_lake_sql.h"

typedef struct tour {
    int prepared;
    const char *name;
} tour;

static tide_status prepare_all(tide_tx *tx, void *arg, tide_error *err)
{
    tour *seen = arg;
    seen->prepared = 0;
    for (const tide_sql *sql = tide_lake_sql_catalogue; sql->name; sql++) {
        if (!sql->engine[tide_store_engine(tide_tx_store(tx))].text)
            continue;
        seen->name = sql->name;
        seen->prepared++;
        TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
        TIDE_TRY(tide_query_begin(&query, tx, sql, err));
    }
    return TIDE_OK;
}

static void every_statement_of_the_lake_prepares(void **state)
{
    store_test *t = *state;
    tour seen = {0};
    char data[TEMPDIR_PATH_MAX];
    tempdir_join(&t->dir, "data", data);
    bool was_there = true;
    assert_ok_err(tide_lake_init(t->store, data, &was_there, &t->err), &t->err);
    assert_false(was_there);
    const tide_status status = tide_store_write(t->store, prepare_all, &seen, &t->err);
    if (status != TIDE_OK)
        fail_msg("%s: %s", seen.name, t->err.text);
    assert_true(seen.prepared > 20);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {STORE_CASE(every_statement_of_the_lake_prepares)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
