#include <tidemark/colony.h>

#include "public.h"

static tide_status count_ledger(void *arg, const tide_colony_ledger *ledger, tide_error *err)
{
    (void)ledger;
    (void)err;
    ++*(int *)arg;
    return TIDE_OK;
}

static tide_status count_gap(void *arg, const tide_colony_gap *gap, tide_error *err)
{
    (void)gap;
    (void)err;
    ++*(int *)arg;
    return TIDE_OK;
}

tide_status check(tide_store *store, sqlite3 *db, const char *dir, tide_error *err)
{
    int count = 0;
    tide_colony *colony = NULL;
    (void)db;
    (void)dir;
    DO(tide_colony_open(&colony, store, err));
    DO(tide_colony_put_agent(colony, "edge-1", "127.0.0.1:4317", err));
    WANT(tide_colony_put_agent(colony, "", "127.0.0.1:4317", NULL) == TIDE_E_INVALID);
    DO(tide_colony_positions(colony, count_ledger, &count, err));
    DO(tide_colony_audit(colony, count_ledger, &count, err));
    WANT(tide_colony_gaps(colony, 0, NULL, NULL, NULL) == TIDE_E_INVALID);
    DO(tide_colony_gaps(colony, 0, count_gap, &count, err));
    WANT(count == 0);
    WANT(tide_colony_remove_agent(colony, "edge-1", err) == TIDE_OK);
    WANT(tide_colony_remove_agent(colony, "edge-2", err) == TIDE_NONE);
    tide_colony_close(colony);
    return TIDE_OK;
}
