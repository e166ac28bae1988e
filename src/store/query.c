/* query.c - statements by name: begin, bind, step, columns. */
#include <tidemark/store.h>

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "base/interface/sized.h"
#include "base/text/timefmt.h"
#include "store/engine.h"
#include "tidemark_sql.h"

enum { POOL_MAX = 64 };

static const tide_engine_ops *ops_of(const tide_query *query)
{
    return query->tx->store->ops;
}

static tide_query *acquire_pooled(tide_query_pool *pool)
{
    tide_query *query = pool->free;
    if (query) {
        pool->free = query->next;
        pool->free_count--;
        return query;
    }
    query = calloc(1, sizeof *query);
    if (query)
        tide_arena_init(&query->arena, TIDE_TX_BYTES_MAX);
    return query;
}

static void give_to_pool(tide_query_pool *pool, tide_query *query)
{
    if (pool->free_count >= POOL_MAX) {
        tide_arena_done(&query->arena);
        free(query);
        return;
    }
    query->next = pool->free;
    pool->free = query;
    pool->free_count++;
}

void tide_query_pool_done(tide_query_pool *pool)
{
    while (pool->free) {
        tide_query *query = pool->free;
        pool->free = query->next;
        tide_arena_done(&query->arena);
        free(query);
    }
    pool->free_count = 0;
}

static void forget_values(tide_query *query)
{
    memset(query->values, 0, (size_t)query->text->param_count * sizeof query->values[0]);
    tide_arena_reset(&query->arena);
    query->failure = TIDE_OK;
    query->column = 0;
    query->is_started = false;
    query->is_done = false;
    query->has_row = false;
    query->changed = 0;
    query->on_row = NULL;
    query->result = NULL;
    query->row = 0;
}

static tide_status check_text(tide_tx *tx, const tide_sql *sql, const tide_sql_text *text,
                              tide_error *err)
{
    if (!sql->name || !text->text)
        return tide_tx_doom(tx,
                            tide_fail(err, TIDE_E_INVALID, "statement %s has no text for %s",
                                      sql->name ? sql->name : "NULL", tx->store->ops->name),
                            err);
    bool has_names = text->params || text->param_count <= 0;
    for (int i = 0; has_names && i < text->param_count && i < TIDE_QUERY_PARAM_MAX; i++)
        has_names = text->params[i] != NULL;
    if (!has_names)
        return tide_tx_doom(tx,
                            tide_fail(err, TIDE_E_INVALID,
                                      "statement %s has %d parameters, of which one has no name",
                                      sql->name, text->param_count),
                            err);
    if (text->param_count < 0 || text->param_count > TIDE_QUERY_PARAM_MAX)
        return tide_tx_doom(tx,
                            tide_fail(err, TIDE_E_INVALID,
                                      "statement %s has %d parameters, want at most %d", sql->name,
                                      text->param_count, TIDE_QUERY_PARAM_MAX),
                            err);
    return TIDE_OK;
}

tide_status tide_query_begin(tide_query **out, tide_tx *tx, const tide_sql *sql, tide_error *err)
{
    TIDE_NEED(out && tx && sql, err);
    TIDE_TRY(tide_tx_check_doom(tx, err));
    TIDE_TRY(tide_sized_check(sql, sizeof *sql, "tide_sql", err));
    const tide_sql_text *text = &sql->engine[tx->store->ops->engine];
    TIDE_TRY(check_text(tx, sql, text, err));
    tide_query *query = acquire_pooled(tx->pool);
    if (!query)
        return tide_tx_doom(tx, tide_no_memory(err), err);
    query->tx = tx;
    query->sql = sql;
    query->text = text;
    query->statement = NULL;
    forget_values(query);
    const tide_status status = tx->store->ops->prepare(query, err);
    if (status < TIDE_OK) {
        give_to_pool(tx->pool, query);
        return tide_tx_doom(tx, status, err);
    }
    query->next = tx->open;
    tx->open = query;
    *out = query;
    return TIDE_OK;
}

static void unlink_open(tide_query *query)
{
    for (tide_query **at = &query->tx->open; *at; at = &(*at)->next) {
        if (*at == query) {
            *at = query->next;
            return;
        }
    }
}

void tide_query_end(tide_query *query)
{
    if (!query)
        return;
    unlink_open(query);
    ops_of(query)->reset(query);
    give_to_pool(query->tx->pool, query);
}

TIDE_CLOSE_FN(tide_query_endp, tide_query, tide_query_end)

void tide_query_reset(tide_query *query)
{
    if (!query)
        return;
    ops_of(query)->reset(query);
    forget_values(query);
}

/* ---- binds ---- */

static bool is_param_of_any_engine(const tide_sql *sql, const char *name)
{
    for (int e = 0; e < TIDE_ENGINE_COUNT; e++)
        for (int i = 0; sql->engine[e].params && i < sql->engine[e].param_count; i++)
            if (sql->engine[e].params[i] && strcmp(sql->engine[e].params[i], name) == 0)
                return true;
    return false;
}

/* A mistake in calls that return no status: the transaction is doomed, and reports it at its
 * end. */
TIDE_PRINTF(2, 3) static void doom_misuse(const tide_query *query, const char *format, ...)
{
    tide_error err;
    char text[TIDE_ERROR_TEXT_MAX];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(text, sizeof text, format, list);
    va_end(list);
    const tide_status status =
        tide_fail(&err, TIDE_E_INVALID, "statement %s: %s", query->sql->name, text);
    (void)tide_tx_doom(query->tx, status, &err);
}

/* A column is not of the type that its reader wants. The types of our own statements are tested,
 * and their tables are strict: then the row is not what was written. */
static void doom_type(const tide_query *query, const char *wanted)
{
    const uintptr_t at = (uintptr_t)query->sql;
    if (at < (uintptr_t)tide_sql_catalogue ||
        at >= (uintptr_t)(tide_sql_catalogue + TIDE_SQL_COUNT)) {
        doom_misuse(query, "column %d is %s", query->column, wanted);
        return;
    }
    tide_error err;
    const tide_status status =
        tide_fail(&err, TIDE_E_DAMAGED, "statement %s: column %d of a row is %s", query->sql->name,
                  query->column, wanted);
    (void)tide_tx_doom(query->tx, status, &err);
}

/* NULL when this engine's variant has no use for the name. */
static tide_sql_value *find_value(tide_query *query, const char *name)
{
    if (!query)
        return NULL;
    if (query->is_started) {
        doom_misuse(query, "%s is bound after the first step", name ? name : "NULL");
        return NULL;
    }
    if (!name) {
        doom_misuse(query, "a parameter's name is NULL");
        return NULL;
    }
    for (int i = 0; i < query->text->param_count; i++)
        if (strcmp(query->text->params[i], name) == 0)
            return &query->values[i];
    if (!is_param_of_any_engine(query->sql, name))
        doom_misuse(query, "no parameter is called %s", name);
    return NULL;
}

static void bind_value(tide_query *query, const char *name, tide_sql_value value)
{
    tide_sql_value *slot = find_value(query, name);
    if (slot)
        *slot = value;
}

static void bind_bytes(tide_query *query, const char *name, tide_sql_value_kind kind,
                       tide_view bytes)
{
    tide_sql_value *slot = find_value(query, name);
    if (!slot)
        return;
    const size_t used_len = query->tx->deferred_len + query->arena.used_len;
    const bool is_over = used_len >= TIDE_TX_BYTES_MAX || bytes.len >= TIDE_TX_BYTES_MAX - used_len;
    /* One byte more, so that an empty value is not a NULL pointer. */
    char *copy = is_over ? NULL : tide_arena_alloc(&query->arena, bytes.len + 1);
    if (!copy) {
        query->failure = is_over ? TIDE_E_LIMIT : TIDE_E_NOMEM;
        return;
    }
    if (bytes.len > 0)
        memcpy(copy, bytes.ptr, bytes.len);
    copy[bytes.len] = '\0';
    *slot = (tide_sql_value){.kind = kind, .bytes = {.ptr = copy, .len = bytes.len}};
}

void tide_query_bind_null(tide_query *query, const char *name)
{
    bind_value(query, name, (tide_sql_value){.kind = TIDE_SQL_VALUE_NULL});
}

void tide_query_bind_i64(tide_query *query, const char *name, int64_t value)
{
    bind_value(query, name, (tide_sql_value){.kind = TIDE_SQL_VALUE_I64, .i64 = value});
}

void tide_query_bind_f64(tide_query *query, const char *name, double value)
{
    bind_value(query, name, (tide_sql_value){.kind = TIDE_SQL_VALUE_F64, .f64 = value});
}

void tide_query_bind_bool(tide_query *query, const char *name, bool value)
{
    bind_value(query, name, (tide_sql_value){.kind = TIDE_SQL_VALUE_BOOL, .i64 = value});
}

void tide_query_bind_time(tide_query *query, const char *name, int64_t us)
{
    if (query && (us < TIDE_TIME_MIN_US || us > TIDE_TIME_MAX_US))
        query->failure = TIDE_E_INVALID;
    bind_value(query, name, (tide_sql_value){.kind = TIDE_SQL_VALUE_TIME, .i64 = us});
}

void tide_query_bind_text(tide_query *query, const char *name, const char *value)
{
    if (value)
        bind_bytes(query, name, TIDE_SQL_VALUE_TEXT, tide_view_of(value));
    else
        tide_query_bind_null(query, name);
}

void tide_query_bind_text_view(tide_query *query, const char *name, tide_view value)
{
    bind_bytes(query, name, TIDE_SQL_VALUE_TEXT, value);
}

void tide_query_bind_blob(tide_query *query, const char *name, tide_view value)
{
    bind_bytes(query, name, TIDE_SQL_VALUE_BLOB, value);
}

tide_status tide_query_bind_clock(tide_query *query, const char *name, tide_error *err)
{
    TIDE_NEED(query, err);
    const tide_store *store = query->tx->store;
    if (store->ops->engine == TIDE_ENGINE_POSTGRES && !store->options.is_env_clock) {
        tide_query_bind_null(query, name);
        return TIDE_OK;
    }
    int64_t now_us = 0;
    TIDE_TRY(tide_tx_now(query->tx, &now_us, err));
    tide_query_bind_time(query, name, now_us);
    return TIDE_OK;
}

/* ---- running ---- */

static tide_status check_ready(tide_query *query, tide_error *err)
{
    TIDE_TRY(tide_tx_check_doom(query->tx, err));
    tide_status status = query->failure;
    if (status == TIDE_E_LIMIT)
        status = tide_fail(err, status, "%s: more than %d bytes bound", query->sql->name,
                           TIDE_TX_BYTES_MAX);
    else if (status == TIDE_E_NOMEM)
        status = tide_buffer_check(status, err);
    else if (status < TIDE_OK)
        status = tide_fail(err, status, "%s: a time outside the years 1 to 9999", query->sql->name);
    return status < TIDE_OK ? tide_tx_doom(query->tx, status, err) : TIDE_OK;
}

tide_status tide_query_step(tide_query *query, tide_error *err)
{
    TIDE_NEED(query, err);
    TIDE_TRY(check_ready(query, err));
    if (query->is_done)
        return TIDE_NONE;
    query->column = 0;
    const tide_status status = ops_of(query)->step(query, err);
    query->is_started = true;
    query->has_row = status == TIDE_OK;
    query->is_done = status != TIDE_OK;
    return status < TIDE_OK ? tide_tx_doom(query->tx, status, err) : status;
}

tide_status tide_query_several(const tide_query *query, tide_error *err)
{
    return tide_fail(err, TIDE_E_DAMAGED,
                     "the store answers %s with several rows where there is one: was a dump "
                     "restored over it twice?",
                     query->sql->name);
}

tide_status tide_query_one(tide_query *query, tide_error *err)
{
    TIDE_NEED(query, err);
    tide_status status = tide_query_step(query, err);
    if (status != TIDE_OK)
        return status;
    /* A SQLite write is final only when stepped to its end; the row stays readable all the same. */
    status = ops_of(query)->keep(query, err);
    query->is_done = true;
    return status < TIDE_OK ? tide_tx_doom(query->tx, status, err) : status;
}

tide_status tide_query_run(tide_query *query, int64_t *changed, tide_error *err)
{
    TIDE_NEED(query, err);
    tide_status status = TIDE_OK;
    do
        status = tide_query_step(query, err);
    while (status == TIDE_OK);
    if (status < TIDE_OK)
        return status;
    if (changed)
        *changed = query->changed;
    return TIDE_OK;
}

tide_status tide_query_defer(tide_query **handle, tide_error *err)
{
    TIDE_NEED(handle && *handle, err);
    tide_query *query = *handle;
    tide_tx *tx = query->tx;
    *handle = NULL;
    if (query->is_started)
        doom_misuse(query, "deferred after its first step");
    const tide_status status = check_ready(query, err);
    if (status < TIDE_OK) {
        tide_query_end(query);
        return status;
    }
    unlink_open(query);
    query->next = NULL;
    if (tx->deferred_last)
        tx->deferred_last->next = query;
    else
        tx->deferred_first = query;
    tx->deferred_last = query;
    tx->deferred_len += query->arena.used_len;
    return TIDE_OK;
}

tide_status tide_query_defer_rows(tide_query **handle, tide_row_fn *fn, void *arg, tide_error *err)
{
    TIDE_NEED(handle && *handle && fn, err);
    (*handle)->on_row = fn;
    (*handle)->on_row_arg = arg;
    (*handle)->tx->is_told = true;
    return tide_query_defer(handle, err);
}

/* ---- columns ---- */

/* Is there a row, and a column of it that was not read? */
static bool has_column(const tide_query *query)
{
    if (!query)
        return false;
    if (!query->has_row)
        doom_misuse(query, "a column is read without a row");
    else if (query->column >= ops_of(query)->width(query))
        doom_misuse(query, "column %d is read of %d", query->column + 1,
                    ops_of(query)->width(query));
    else
        return true;
    return false;
}

static tide_sql_value next_column(tide_query *query)
{
    if (!has_column(query))
        return (tide_sql_value){.kind = TIDE_SQL_VALUE_NULL};
    return ops_of(query)->column(query, query->column++);
}

bool tide_query_col_is_null(const tide_query *query)
{
    return !has_column(query) ||
           ops_of(query)->column(query, query->column).kind == TIDE_SQL_VALUE_NULL;
}

int64_t tide_query_col_i64(tide_query *query)
{
    const tide_sql_value value = next_column(query);
    if (value.kind == TIDE_SQL_VALUE_I64 || value.kind == TIDE_SQL_VALUE_BOOL)
        return value.i64;
    if (value.kind != TIDE_SQL_VALUE_NULL)
        doom_type(query, "not an integer");
    return 0;
}

double tide_query_col_f64(tide_query *query)
{
    const tide_sql_value value = next_column(query);
    if (value.kind == TIDE_SQL_VALUE_I64)
        return (double)value.i64;
    if (value.kind == TIDE_SQL_VALUE_F64)
        return value.f64;
    if (value.kind != TIDE_SQL_VALUE_NULL)
        doom_type(query, "not a number");
    return 0;
}

bool tide_query_col_bool(tide_query *query)
{
    return tide_query_col_i64(query) != 0;
}

static tide_view next_bytes(tide_query *query)
{
    const tide_sql_value value = next_column(query);
    if (value.kind == TIDE_SQL_VALUE_TEXT || value.kind == TIDE_SQL_VALUE_BLOB)
        return value.bytes;
    if (value.kind != TIDE_SQL_VALUE_NULL)
        doom_type(query, "neither text nor bytes");
    return tide_view_bytes("", 0);
}

tide_view tide_query_col_text(tide_query *query)
{
    return next_bytes(query);
}

tide_view tide_query_col_blob(tide_query *query)
{
    return next_bytes(query);
}

int64_t tide_query_col_time(tide_query *query)
{
    const tide_sql_value value = next_column(query);
    if (value.kind == TIDE_SQL_VALUE_TIME)
        return value.i64;
    int64_t us = 0;
    if (value.kind != TIDE_SQL_VALUE_TEXT || tide_time_parse(&us, value.bytes) != TIDE_OK)
        return INT64_MIN;
    return us;
}
