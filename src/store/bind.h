/* bind.h - the values of one statement, as the last arguments of the call that runs it.
 *
 *     tide_tx_exec(tx, TIDE_SQL_WORK_PAUSE, NULL, err, tide_bind_text("type", work_type),
 *                  tide_bind_now("now"))
 *
 * Statements of a store (statement.h) and of an application's file (foreign_db.h) take the same
 * list. Parameters that are not in it are NULL. Bytes are borrowed for the call.
 *
 * Threads: plain data. */
#pragma once

#include <stdbool.h>

#include "base/sql_value.h"

typedef enum tide_bind_kind {
    TIDE_BIND_END,
    TIDE_BIND_NOTHING, /* an entry that is left out */
    TIDE_BIND_VALUE,
    TIDE_BIND_NOW,   /* the transaction's time, plus value.i64 */
    TIDE_BIND_CLOCK, /* tide_query_bind_clock */
} tide_bind_kind;

typedef struct tide_bind {
    tide_bind_kind kind;
    const char *name;
    tide_sql_value value;
} tide_bind;

#define TIDE_LAST_BIND ((tide_bind){.kind = TIDE_BIND_END})

/* The list as an array that ends with TIDE_BIND_END. */
#define TIDE_BINDS(...) ((const tide_bind[]){__VA_ARGS__, TIDE_LAST_BIND})

/* The list of a statement without parameters. */
#define TIDE_NO_BIND ((tide_bind){.kind = TIDE_BIND_NOTHING})

/* Only where the condition holds. */
#define TIDE_BIND_IF(condition, bind) ((condition) ? (bind) : TIDE_NO_BIND)

static inline tide_bind tide_bind_value(const char *name, tide_sql_value value)
{
    return (tide_bind){.kind = TIDE_BIND_VALUE, .name = name, .value = value};
}

static inline tide_bind tide_bind_null(const char *name)
{
    return tide_bind_value(name, (tide_sql_value){.kind = TIDE_SQL_VALUE_NULL});
}

static inline tide_bind tide_bind_i64(const char *name, int64_t value)
{
    return tide_bind_value(name, (tide_sql_value){.kind = TIDE_SQL_VALUE_I64, .i64 = value});
}

static inline tide_bind tide_bind_f64(const char *name, double value)
{
    return tide_bind_value(name, (tide_sql_value){.kind = TIDE_SQL_VALUE_F64, .f64 = value});
}

static inline tide_bind tide_bind_bool(const char *name, bool value)
{
    return tide_bind_value(name, (tide_sql_value){.kind = TIDE_SQL_VALUE_BOOL, .i64 = value});
}

static inline tide_bind tide_bind_time(const char *name, int64_t us)
{
    return tide_bind_value(name, (tide_sql_value){.kind = TIDE_SQL_VALUE_TIME, .i64 = us});
}

static inline tide_bind tide_bind_view(const char *name, tide_view text)
{
    return tide_bind_value(name, (tide_sql_value){.kind = TIDE_SQL_VALUE_TEXT, .bytes = text});
}

/* NULL: no value. */
static inline tide_bind tide_bind_text(const char *name, const char *text)
{
    return text ? tide_bind_view(name, tide_view_of(text)) : tide_bind_null(name);
}

static inline tide_bind tide_bind_blob(const char *name, tide_view bytes)
{
    return tide_bind_value(name, (tide_sql_value){.kind = TIDE_SQL_VALUE_BLOB, .bytes = bytes});
}

static inline tide_bind tide_bind_now_plus(const char *name, int64_t us)
{
    return (tide_bind){.kind = TIDE_BIND_NOW, .name = name, .value = {.i64 = us}};
}

static inline tide_bind tide_bind_now(const char *name)
{
    return tide_bind_now_plus(name, 0);
}

static inline tide_bind tide_bind_clock(const char *name)
{
    return (tide_bind){.kind = TIDE_BIND_CLOCK, .name = name};
}
