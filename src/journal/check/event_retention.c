#include "journal/check/event_retention.h"

#include "journal/check/removal.h"
#include "store/statement.h"
#include "tidemark_sql.h"

enum { STEP = 1000 }; /* events of one transaction */

typedef struct trim_step {
    int64_t keep_us;
    bool has_more;
} trim_step;

static tide_status begin_before(tide_query **out, tide_tx *tx, const tide_sql *sql, int64_t keep_us,
                                tide_error *err)
{
    int64_t now_us = 0;
    TIDE_TRY(tide_tx_now(tx, &now_us, err));
    return tide_query_start(out, tx, sql, err,
                            tide_bind_time("before", now_us > keep_us ? now_us - keep_us : 0));
}

static tide_status look_for_old(tide_tx *tx, void *arg, tide_error *err)
{
    trim_step *step = arg;
    TIDE_QUERY_BY(query, begin_before, tx, TIDE_SQL_JOURNAL_EVENTS_OLD, step->keep_us, err);
    TIDE_TRY(tide_query_one(query, err));
    step->has_more = tide_query_col_bool(query);
    return TIDE_OK;
}

static tide_status run(tide_tx *tx, const tide_sql *sql, tide_error *err)
{
    return tide_tx_exec(tx, sql, NULL, err, TIDE_NO_BIND);
}

static tide_status trim(tide_tx *tx, void *arg, tide_error *err)
{
    trim_step *step = arg;
    int64_t removed = 0;
    TIDE_TRY(tide_removal_begin(tx, err));
    TIDE_TRY(run(tx, TIDE_SQL_REMOVAL_PERMIT, err));
    TIDE_QUERY_BY(query, begin_before, tx, TIDE_SQL_JOURNAL_EVENTS_TRIM, step->keep_us, err);
    tide_query_bind_i64(query, "limit", STEP);
    TIDE_TRY(tide_query_run(query, &removed, err));
    step->has_more = removed == STEP;
    return run(tx, TIDE_SQL_REMOVAL_PERMIT_END, err);
}

tide_status tide_journal_expire_events(tide_store *store, int64_t keep_us, tide_error *err)
{
    trim_step step = {.keep_us = keep_us};
    TIDE_TRY(tide_store_read_local(store, look_for_old, &step, err));
    while (step.has_more)
        TIDE_TRY(tide_store_write(store, trim, &step, err));
    return TIDE_OK;
}
