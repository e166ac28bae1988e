/* Every statement of the catalogue is valid SQL on every engine it exists for. */
#include "support/store_fixture.h"

#include "base/cleanup.h"
#include "store/bulk.h"
#include "tidemark_sql.h"

typedef struct tour {
    int prepared;
    const char *name;
} tour;

static tide_status prepare_all(tide_tx *tx, void *arg, tide_error *err)
{
    tour *seen = arg;
    seen->prepared = 0;
    for (const tide_sql *sql = tide_sql_catalogue; sql->name; sql++) {
        if (!sql->engine[tide_store_engine(tide_tx_store(tx))].text)
            continue;
        seen->name = sql->name;
        seen->prepared++;
        if (sql->is_bulk) { /* no rows are rows enough: tables and columns are looked up */
            TIDE_CLEANUP(tide_bulk_dropp) tide_bulk *bulk = NULL;
            TIDE_TRY(tide_bulk_begin(&bulk, tx, sql, err));
            TIDE_TRY(tide_bulk_end(&bulk, NULL, err));
            continue;
        }
        TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
        TIDE_TRY(tide_query_begin(&query, tx, sql, err));
    }
    return TIDE_OK;
}

static void every_statement_prepares(void **state)
{
    store_test *t = *state;
    tour seen = {0};
    const tide_status status = tide_store_write(t->store, prepare_all, &seen, &t->err);
    if (status != TIDE_OK)
        fail_msg("%s: %s", seen.name, t->err.text);
    assert_true(seen.prepared > 20);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {STORE_CASE(every_statement_prepares)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
