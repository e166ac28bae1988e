/* vtab_number.c - nextval and currval: the store's sequences for whoever speaks SQL. See vtab.h. */
#include <string.h>

#include <tidemark/sequence.h>

#include "base/cleanup.h"
#include "base/text/timefmt.h"
#include "feed/vtab_parts.h"
#include "tidemark_sql.h"

/* A sequence that a function was asked about. */
typedef struct asked {
    const char *function;
    const char *name;
    const char *schema;
    sqlite3 *db;
    sqlite3_context *context;
} asked;

/* words come from sqlite3_mprintf; without memory for them the error is that there is none. */
static void refuse(const asked *a, int code, char *words)
{
    char *text = words ? sqlite3_mprintf("%s: %s", a->function, words) : NULL;
    sqlite3_free(words);
    if (!text) {
        sqlite3_result_error_nomem(a->context);
        return;
    }
    sqlite3_result_error(a->context, text, -1);
    sqlite3_free(text);
    if (code != SQLITE_ERROR)
        sqlite3_result_error_code(a->context, code);
}

/* False: the answer is an error, and given. */
static bool read_arguments(asked *a, const char *function, sqlite3_context *context, int count,
                           sqlite3_value **values)
{
    *a = (asked){.function = function,
                 .schema = "main",
                 .db = sqlite3_context_db_handle(context),
                 .context = context};
    a->name = (const char *)sqlite3_value_text(values[0]);
    if (count > 1)
        a->schema = (const char *)sqlite3_value_text(values[1]);
    if (!a->name || sqlite3_value_type(values[0]) != SQLITE_TEXT ||
        strlen(a->name) != (size_t)sqlite3_value_bytes(values[0])) {
        refuse(a, SQLITE_ERROR, sqlite3_mprintf("the name of a sequence is a text"));
        return false;
    }
    if (!a->schema || strlen(a->schema) > TIDE_VTAB_SCHEMA_MAX) {
        refuse(a, SQLITE_ERROR, sqlite3_mprintf("the schema is the name of an attached database"));
        return false;
    }
    tide_error err;
    if (tide_sequence_check_name(a->name, &err) < TIDE_OK) {
        refuse(a, SQLITE_ERROR, sqlite3_mprintf("%s", err.text));
        return false;
    }
    return true;
}

/* What went wrong, so that it tells what to do. */
static void tell_failure(const asked *a, int code)
{
    switch (code & 0xff) {
    case SQLITE_READONLY:
    case SQLITE_AUTH:
        refuse(
            a, SQLITE_READONLY,
            sqlite3_mprintf("the next number of '%s' cannot be taken: this connection is read only",
                            a->name));
        break;
    case SQLITE_CONSTRAINT: /* the triggers say whose numbers they are; a STRICT column that there is none left */
        if (sqlite3_extended_errcode(a->db) == SQLITE_CONSTRAINT_DATATYPE)
            refuse(a, SQLITE_ERROR, sqlite3_mprintf("'%s' has no number left", a->name));
        else
            refuse(a, SQLITE_ERROR, sqlite3_mprintf("'%s': %s", a->name, sqlite3_errmsg(a->db)));
        break;
    case SQLITE_NOMEM:
        sqlite3_result_error_nomem(a->context);
        break;
    default:
        refuse(a, code, sqlite3_mprintf("'%s': %s", a->name, sqlite3_errmsg(a->db)));
    }
}

static int bind_name(sqlite3_stmt *statement, const tide_sql *sql, const asked *a)
{
    return sqlite3_bind_text(statement, tide_vtab_param(sql, "name"), a->name, -1,
                             SQLITE_TRANSIENT);
}

void tide_vtab_nextval(sqlite3_context *context, int count, sqlite3_value **values)
{
    asked a;
    if (!read_arguments(&a, "nextval", context, count, values))
        return;
    const tide_vtab_connection *connection = sqlite3_user_data(context);
    char clock[TIDE_TIME_TEXT_SIZE];
    TIDE_IGNORE(tide_time_format(connection->env->wall_us(connection->env), clock));
    const tide_sql *sql = TIDE_SQL_VTAB_SEQUENCE_NEXT;
    TIDE_CLEANUP(tide_vtab_finalizep) sqlite3_stmt *statement = NULL;
    int code = tide_vtab_prepare(&statement, a.db, sql, a.schema);
    if (code == SQLITE_OK)
        code = bind_name(statement, sql, &a);
    if (code == SQLITE_OK)
        code = sqlite3_bind_text(statement, tide_vtab_param(sql, "clock"), clock, -1,
                                 SQLITE_TRANSIENT);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    const int64_t number = code == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 0;
    while (code == SQLITE_ROW) /* a write is final only when stepped to its end */
        code = sqlite3_step(statement);
    if (code == SQLITE_DONE)
        sqlite3_result_int64(context, number);
    else
        tell_failure(&a, code);
}

void tide_vtab_currval(sqlite3_context *context, int count, sqlite3_value **values)
{
    asked a;
    if (!read_arguments(&a, "currval", context, count, values))
        return;
    const tide_sql *sql = TIDE_SQL_VTAB_SEQUENCE_LAST;
    TIDE_CLEANUP(tide_vtab_finalizep) sqlite3_stmt *statement = NULL;
    int code = tide_vtab_prepare(&statement, a.db, sql, a.schema);
    if (code == SQLITE_OK)
        code = bind_name(statement, sql, &a);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    if (code == SQLITE_ROW)
        sqlite3_result_int64(context, sqlite3_column_int64(statement, 0));
    else if (code == SQLITE_DONE)
        refuse(&a, SQLITE_ERROR, sqlite3_mprintf("no number of '%s' was ever taken", a.name));
    else
        tell_failure(&a, code);
}
