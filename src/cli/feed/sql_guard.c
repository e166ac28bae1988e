#include "cli/feed/sql_guard.h"

#include <stdarg.h>
#include <stdio.h>

static const char SCHEMA_IS_OURS[] = "the schema belongs to Tidemark: it is not changed from here";

__attribute__((format(printf, 2, 3))) static int refuse(tide_cli_sql_guard *guard,
                                                        const char *format, ...)
{
    if (!guard->refused[0]) {
        va_list args;
        va_start(args, format);
        (void)vsnprintf(guard->refused, sizeof guard->refused, format, args);
        va_end(args);
    }
    return SQLITE_DENY;
}

static bool is_listed(const char *const *list, const char *name)
{
    for (; *list; list++)
        if (sqlite3_stricmp(*list, name) == 0)
            return true;
    return false;
}

/* Those that tell about something named, and those that are settings, which may be asked but not set. */
static int judge_pragma(tide_cli_sql_guard *guard, const char *name, const char *value)
{
    static const char *const tell[] = {"collation_list",
                                       "compile_options",
                                       "database_list",
                                       "foreign_key_check",
                                       "foreign_key_list",
                                       "function_list",
                                       "index_info",
                                       "index_list",
                                       "index_xinfo",
                                       "integrity_check",
                                       "module_list",
                                       "pragma_list",
                                       "quick_check",
                                       "table_info",
                                       "table_list",
                                       "table_xinfo",
                                       NULL};
    static const char *const ask[] = {
        "application_id", "auto_vacuum",    "cache_size",   "data_version",       "encoding",
        "foreign_keys",   "freelist_count", "page_count",   "page_size",          "query_only",
        "schema_version", "synchronous",    "user_version", "wal_autocheckpoint", NULL};
    if (is_listed(tell, name) || (!value && is_listed(ask, name)))
        return SQLITE_OK;
    return value ? refuse(guard, "PRAGMA %s is not for SQL from here: it sets something", name)
                 : refuse(guard, "PRAGMA %s is not for SQL from here", name);
}

static int judge_change(tide_cli_sql_guard *guard, const char *verb, const char *table)
{
    /* A temporary table is entered into a catalogue of its own; this one is the schema. */
    if (sqlite3_stricmp(table, "sqlite_master") == 0)
        return refuse(guard, "%s", SCHEMA_IS_OURS);
    if (guard->is_writing)
        return SQLITE_OK;
    guard->is_write_wanted = true;
    return refuse(guard, "%s %s: nothing is written without --write", verb, table);
}

static int judge_temporary(tide_cli_sql_guard *guard)
{
    if (guard->is_writing)
        return SQLITE_OK;
    guard->is_write_wanted = true;
    return refuse(guard, "temporary tables are made with --write only");
}

static int judge(void *arg, int action, const char *first, const char *second, const char *schema,
                 const char *trigger)
{
    (void)trigger;
    tide_cli_sql_guard *guard = arg;
    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_RECURSIVE:
        return SQLITE_OK;
    case SQLITE_FUNCTION:
        return sqlite3_stricmp(second, "load_extension") != 0
                   ? SQLITE_OK
                   : refuse(guard, "extensions are not loaded from here");
    case SQLITE_PRAGMA:
        return judge_pragma(guard, first, second);
    case SQLITE_INSERT:
        return judge_change(guard, "INSERT INTO", first);
    case SQLITE_UPDATE:
        return judge_change(guard, "UPDATE", first);
    case SQLITE_DELETE:
        return judge_change(guard, "DELETE FROM", first);
    case SQLITE_CREATE_TEMP_INDEX:
    case SQLITE_CREATE_TEMP_TABLE:
    case SQLITE_CREATE_TEMP_TRIGGER:
    case SQLITE_CREATE_TEMP_VIEW:
    case SQLITE_DROP_TEMP_INDEX:
    case SQLITE_DROP_TEMP_TABLE:
    case SQLITE_DROP_TEMP_TRIGGER:
    case SQLITE_DROP_TEMP_VIEW:
        return judge_temporary(guard);
    case SQLITE_CREATE_VTABLE:
    case SQLITE_DROP_VTABLE:
        if (schema && sqlite3_stricmp(schema, "temp") == 0)
            return judge_temporary(guard);
        return refuse(guard, "%s", SCHEMA_IS_OURS);
    case SQLITE_TRANSACTION:
    case SQLITE_SAVEPOINT:
        return refuse(guard, "everything here is one transaction already");
    case SQLITE_ATTACH:
    case SQLITE_DETACH:
        return refuse(guard, "other databases are not attached from here");
    default:
        return refuse(guard, "%s", SCHEMA_IS_OURS);
    }
}

void tide_cli_sql_guard_put(sqlite3 *db, tide_cli_sql_guard *guard)
{
    (void)sqlite3_set_authorizer(db, guard ? judge : NULL, guard);
}
