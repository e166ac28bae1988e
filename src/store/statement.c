#include "store/statement.h"

#include "base/cleanup.h"

static tide_status bind_one(tide_query *query, const tide_bind *bind, tide_tx *tx, tide_error *err)
{
    const tide_sql_value *value = &bind->value;
    if (bind->kind == TIDE_BIND_CLOCK)
        return tide_query_bind_clock(query, bind->name, err);
    if (bind->kind == TIDE_BIND_NOW) {
        int64_t now_us = 0;
        TIDE_TRY(tide_tx_now(tx, &now_us, err));
        tide_query_bind_time(query, bind->name, now_us + value->i64);
        return TIDE_OK;
    }
    switch (value->kind) {
    case TIDE_SQL_VALUE_NULL:
        tide_query_bind_null(query, bind->name);
        break;
    case TIDE_SQL_VALUE_I64:
        tide_query_bind_i64(query, bind->name, value->i64);
        break;
    case TIDE_SQL_VALUE_F64:
        tide_query_bind_f64(query, bind->name, value->f64);
        break;
    case TIDE_SQL_VALUE_TEXT:
        tide_query_bind_text_view(query, bind->name, value->bytes);
        break;
    case TIDE_SQL_VALUE_BLOB:
        tide_query_bind_blob(query, bind->name, value->bytes);
        break;
    case TIDE_SQL_VALUE_BOOL:
        tide_query_bind_bool(query, bind->name, value->i64 != 0);
        break;
    case TIDE_SQL_VALUE_TIME:
        tide_query_bind_time(query, bind->name, value->i64);
        break;
    }
    return TIDE_OK;
}

tide_status tide_query_start_binds(tide_query **out, tide_tx *tx, const tide_sql *sql,
                                   const tide_bind *binds, tide_error *err)
{
    TIDE_TRY(tide_query_begin(out, tx, sql, err));
    for (; binds->kind != TIDE_BIND_END; binds++)
        if (binds->kind != TIDE_BIND_NOTHING)
            TIDE_TRY(bind_one(*out, binds, tx, err));
    return TIDE_OK;
}

tide_status tide_tx_exec_binds(tide_tx *tx, const tide_sql *sql, int64_t *changed,
                               const tide_bind *binds, tide_error *err)
{
    TIDE_QUERY_BY(query, tide_query_start_binds, tx, sql, binds, err);
    return tide_query_run(query, changed, err);
}

tide_status tide_tx_one_binds(tide_query **out, tide_tx *tx, const tide_sql *sql,
                              const tide_bind *binds, tide_error *err)
{
    TIDE_TRY(tide_query_start_binds(out, tx, sql, binds, err));
    return tide_query_one(*out, err);
}

tide_status tide_tx_number_binds(int64_t *out, tide_tx *tx, const tide_sql *sql,
                                 const tide_bind *binds, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status = tide_tx_one_binds(&query, tx, sql, binds, err);
    TIDE_TRY(status);
    *out = status == TIDE_OK ? tide_query_col_i64(query) : 0;
    return TIDE_OK;
}

tide_status tide_tx_defer_binds(tide_tx *tx, const tide_sql *sql, const tide_bind *binds,
                                tide_error *err)
{
    TIDE_QUERY_BY(query, tide_query_start_binds, tx, sql, binds, err);
    return tide_query_defer(&query, err);
}

typedef struct exec_call {
    const tide_sql *sql;
    const tide_bind *binds;
    int64_t number; /* of changed rows, or the answer */
} exec_call;

static tide_status exec_inside(tide_tx *tx, void *arg, tide_error *err)
{
    exec_call *call = arg;
    return tide_tx_exec_binds(tx, call->sql, &call->number, call->binds, err);
}

tide_status tide_store_exec_binds(tide_store *store, const tide_sql *sql, int64_t *changed,
                                  const tide_bind *binds, tide_error *err)
{
    exec_call call = {.sql = sql, .binds = binds};
    TIDE_TRY(tide_store_write(store, exec_inside, &call, err));
    if (changed)
        *changed = call.number;
    return TIDE_OK;
}

static tide_status read_number(tide_tx *tx, void *arg, tide_error *err)
{
    exec_call *call = arg;
    return tide_tx_number_binds(&call->number, tx, call->sql, call->binds, err);
}

tide_status tide_store_number_binds(int64_t *out, tide_store *store, const tide_sql *sql,
                                    const tide_bind *binds, tide_error *err)
{
    exec_call call = {.sql = sql, .binds = binds};
    TIDE_TRY(tide_store_read(store, read_number, &call, err));
    *out = call.number;
    return TIDE_OK;
}
