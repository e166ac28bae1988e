#include "services/lake/laked.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "services/lake/service.h"

const tide_step *const tidemark_lake_steps[] = {TIDE_LISTENER_STEPS, &tide_step_lake_figures, NULL};

/* ---- life ---- */

static void leave(void *arg)
{
    tide_long_poll_end(((tide_laked *)arg)->waiter);
}

static tide_status open_lake(tide_laked *laked, const tide_laked_options *options, tide_error *err)
{
    bool was_there = false;
    if (options->data_dir)
        TIDE_TRY(tide_lake_init(options->store, options->data_dir, &was_there, err));
    return tide_lake_open(&laked->lake, options->store, err);
}

static tide_status join(tide_laked *laked, tide_listener *listener,
                        const tide_laked_options *options, tide_error *err)
{
    const tide_listener_component component = {.leave = leave, .arg = laked};
    TIDE_TRY(open_lake(laked, options, err));
    TIDE_TRY(tide_lake_seen_files_new(&laked->seen, err));
    laked->query_target = (tide_query_target){.kind = TIDE_QUERY_LAKE,
                                              .path = tide_lake_data_dir(laked->lake),
                                              .library = options->duckdb_library};
    laked->log = tide_listener_log(listener);
    TIDE_TRY(tide_listener_queries(listener, &laked->queries, err));
    const tide_duckdb_pool_options desks = {.data_dir = tide_lake_data_dir(laked->lake),
                                            .library = options->duckdb_library,
                                            .seen = laked->seen,
                                            .query_program = tide_listener_query_program(listener),
                                            .metrics = tide_listener_metrics(listener),
                                            .count = options->desks,
                                            .memory_max = options->memory_max,
                                            .env = laked->env};
    TIDE_TRY(tide_lake_metrics_new(&laked->metrics, tide_listener_metrics(listener),
                                   tide_listener_ticker(listener), laked->store, err));
    TIDE_TRY(tide_long_poll_open(&laked->waiter, laked->store, TIDE_LAKE_TOPIC, err));
    TIDE_TRY(tide_duckdb_pool_open(&laked->desks, &desks, err));
    TIDE_TRY(tide_listener_add(listener, tide_laked_methods, NULL, laked, err));
    return tide_listener_join(listener, &component, err);
}

tide_status tide_laked_open(tide_laked **out, tide_listener *listener,
                            const tide_laked_options *options, tide_error *err)
{
    TIDE_NEW(tide_laked, laked, err);
    laked->store = options->store;
    laked->store_url = options->store_url;
    laked->duckdb_library = options->duckdb_library;
    laked->env = tide_store_env(options->store);
    tide_refusals_init(&laked->refusals);
    const tide_status status = join(laked, listener, options, err);
    if (status < TIDE_OK) {
        tide_laked_close(laked);
        return status;
    }
    *out = laked;
    return TIDE_OK;
}

void tide_laked_close(tide_laked *laked)
{
    if (!laked)
        return;
    tide_duckdb_pool_close(laked->desks);
    tide_long_poll_close(laked->waiter);
    tide_lake_close(laked->lake);
    tide_lake_metrics_free(laked->metrics);
    tide_lake_seen_files_free(laked->seen);
    tide_refusals_done(&laked->refusals);
    free(laked);
}
