#include "feed/vtab.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "feed/vtab_parts.h"
#include "tidemark_sql.h"

enum {
    DECLARATION_MAX = 4096,
    ARGUMENT_STREAM = 3, /* of xConnect: behind module, schema and table */
    ARGUMENT_SCHEMA = 4,
    STATS_SIZE = 256,
};

static const char MODULE_FOR_ALL[] = "tidemark_stream";

/* A module's own: which stream its table is of. */
typedef struct module_data {
    tide_vtab_connection *connection;
    char stream[TIDE_FEED_NAME_MAX + 1]; /* "": CREATE VIRTUAL TABLE says which */
} module_data;

int tide_vtab_fail(tide_vtab *table, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    sqlite3_free(table->base.zErrMsg);
    table->base.zErrMsg = sqlite3_vmprintf(format, args);
    va_end(args);
    return code;
}

/* ---- a table comes into being ---- */

static const char *sql_type_of(tide_column_kind kind)
{
    switch (kind) {
    case TIDE_COLUMN_I64:
    case TIDE_COLUMN_I32:
    case TIDE_COLUMN_U64:
    case TIDE_COLUMN_BOOL:
        return "INTEGER";
    case TIDE_COLUMN_F64:
        return "REAL";
    case TIDE_COLUMN_BLOB:
        return "BLOB";
    case TIDE_COLUMN_TEXT:
    case TIDE_COLUMN_MAP:
    case TIDE_COLUMN_IDS:
        break;
    }
    return "TEXT";
}

static tide_status list_columns(tide_buffer *out, const tide_stream_type *type)
{
    for (int i = 0; i < type->column_count; i++)
        TIDE_TRY(tide_buffer_printf(out, "%s\"%s\" %s", i > 0 ? ", " : "", type->columns[i].name,
                                    sql_type_of(type->columns[i].kind)));
    return TIDE_OK;
}

static int declare(sqlite3 *db, const tide_stream_type *type)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer columns = tide_buffer_of(DECLARATION_MAX);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(DECLARATION_MAX);
    if (list_columns(&columns, type) < TIDE_OK ||
        tide_vtab_replace(&text, TIDE_SQL_VTAB_DECLARE, "record_columns TEXT",
                          tide_buffer_text(&columns)) < TIDE_OK)
        return SQLITE_NOMEM;
    return sqlite3_declare_vtab(db, tide_buffer_text(&text));
}

/* An argument of CREATE VIRTUAL TABLE comes as it was written. False: too long. */
static bool read_argument(char *out, size_t size, const char *text)
{
    const char quote = *text == '\'' || *text == '"' ? *text : '\0';
    size_t len = 0;
    for (text += quote ? 1 : 0; *text && (!quote || *text != quote || text[1] == quote); text++) {
        if (quote && *text == quote)
            text++;
        if (len + 1 >= size)
            return false;
        out[len++] = *text;
    }
    out[len] = '\0';
    return true;
}

/* Which stream, and in which schema. */
static int read_arguments(tide_vtab *table, const module_data *module, int count,
                          const char *const *arguments, char **error)
{
    (void)snprintf(table->schema, sizeof table->schema, "main");
    (void)snprintf(table->stream, sizeof table->stream, "%s", module->stream);
    if (module->stream[0])
        return SQLITE_OK;
    if (count > ARGUMENT_STREAM && count <= ARGUMENT_SCHEMA + 1 &&
        read_argument(table->stream, sizeof table->stream, arguments[ARGUMENT_STREAM]) &&
        (count <= ARGUMENT_SCHEMA ||
         read_argument(table->schema, sizeof table->schema, arguments[ARGUMENT_SCHEMA])))
        return SQLITE_OK;
    *error = sqlite3_mprintf("%s wants the name of a stream, and may have that of a schema",
                             MODULE_FOR_ALL);
    return SQLITE_ERROR;
}

static int find_stream(tide_vtab *table, char **error)
{
    TIDE_CLEANUP(tide_vtab_finalizep) sqlite3_stmt *statement = NULL;
    int code = tide_vtab_prepare(&statement, table->db, TIDE_SQL_VTAB_STREAM, table->schema);
    if (code == SQLITE_ERROR) {
        *error = sqlite3_mprintf("the database '%s' is no Tidemark store with streams: %s",
                                 table->schema, sqlite3_errmsg(table->db));
        return code;
    }
    if (code == SQLITE_OK)
        code = sqlite3_bind_text(statement, tide_vtab_param(TIDE_SQL_VTAB_STREAM, "name"),
                                 table->stream, -1, SQLITE_TRANSIENT);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    if (code == SQLITE_DONE) {
        *error = sqlite3_mprintf("there is no stream '%s' in '%s'", table->stream, table->schema);
        return SQLITE_ERROR;
    }
    if (code != SQLITE_ROW) {
        *error = sqlite3_mprintf("%s", sqlite3_errmsg(table->db));
        return code;
    }
    table->stream_id = sqlite3_column_int64(statement, 0);
    const char *kind = (const char *)sqlite3_column_text(statement, 1);
    table->type = kind ? tide_stream_type_find(kind) : NULL;
    if (!table->type)
        table->type = tide_stream_type_of(TIDE_STREAM_OPAQUE);
    return SQLITE_OK;
}

static int fill_table(tide_vtab *table, const module_data *module, int count,
                      const char *const *arguments, char **error)
{
    int code = read_arguments(table, module, count, arguments, error);
    if (code == SQLITE_OK)
        code = find_stream(table, error);
    if (code != SQLITE_OK)
        return code;
    code = declare(table->db, table->type);
    if (code != SQLITE_OK)
        *error = sqlite3_mprintf("%s", sqlite3_errmsg(table->db));
    return code;
}

static int connect(sqlite3 *db, void *arg, int count, const char *const *arguments,
                   sqlite3_vtab **out, char **error)
{
    const module_data *module = arg;
    tide_vtab *table = calloc(1, sizeof *table);
    if (!table)
        return SQLITE_NOMEM;
    table->db = db;
    table->connection = module->connection;
    const int code = fill_table(table, module, count, arguments, error);
    if (code != SQLITE_OK) {
        free(table);
        return code;
    }
    /* Reads the store's own rows and changes nothing: views may use it, whoever wrote them. */
    (void)sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS);
    *out = &table->base;
    return SQLITE_OK;
}

/* Not the same pointer as connect: a module whose two are equal would be a table by itself, too. */
static int create(sqlite3 *db, void *arg, int count, const char *const *arguments,
                  sqlite3_vtab **out, char **error)
{
    return connect(db, arg, count, arguments, out, error);
}

static int disconnect(sqlite3_vtab *table)
{
    free(table);
    return SQLITE_OK;
}

/* Without xCreate the table exists under the module's name and no other. */
static const sqlite3_module stream_module = {
    .iVersion = 1,
    .xConnect = connect,
    .xBestIndex = tide_vtab_best_index,
    .xDisconnect = disconnect,
    .xOpen = tide_vtab_open,
    .xClose = tide_vtab_close,
    .xFilter = tide_vtab_filter,
    .xNext = tide_vtab_next,
    .xEof = tide_vtab_eof,
    .xColumn = tide_vtab_column,
    .xRowid = tide_vtab_rowid,
};

static const sqlite3_module named_module = {
    .iVersion = 1,
    .xCreate = create,
    .xConnect = connect,
    .xBestIndex = tide_vtab_best_index,
    .xDisconnect = disconnect,
    .xDestroy = disconnect,
    .xOpen = tide_vtab_open,
    .xClose = tide_vtab_close,
    .xFilter = tide_vtab_filter,
    .xNext = tide_vtab_next,
    .xEof = tide_vtab_eof,
    .xColumn = tide_vtab_column,
    .xRowid = tide_vtab_rowid,
};

/* ---- functions ---- */

static void tell_stats(sqlite3_context *context, int count, sqlite3_value **values)
{
    (void)count;
    (void)values;
    const tide_vtab_connection *connection = sqlite3_user_data(context);
    const tide_vtab_counters *c = &connection->counters;
    char text[STATS_SIZE];
    (void)snprintf(text, sizeof text,
                   "{\"heads\":%" PRId64 ",\"passed\":%" PRId64 ",\"opened\":%" PRId64
                   ",\"reused\":%" PRId64 ",\"damaged\":%" PRId64 "}",
                   c->heads, c->passed, c->opened, c->reused, c->damaged);
    sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
}

static void leave_connection(void *arg)
{
    tide_vtab_connection *connection = arg;
    if (--connection->users == 0)
        free(connection);
}

typedef struct function {
    const char *name;
    int argument_count;
    void (*run)(sqlite3_context *context, int count, sqlite3_value **values);
} function;

static int add_functions(sqlite3 *db, tide_vtab_connection *connection)
{
    static const function functions[] = {
        {"nextval", 1, tide_vtab_nextval}, {"nextval", 2, tide_vtab_nextval},
        {"currval", 1, tide_vtab_currval}, {"currval", 2, tide_vtab_currval},
        {"tidemark_stats", 0, tell_stats},
    };
    int code = SQLITE_OK;
    for (size_t i = 0; i < sizeof functions / sizeof functions[0] && code == SQLITE_OK; i++) {
        connection->users++; /* given back by SQLite, also when it fails */
        code = sqlite3_create_function_v2(db, functions[i].name, functions[i].argument_count,
                                          SQLITE_UTF8, connection, functions[i].run, NULL, NULL,
                                          leave_connection);
    }
    return code;
}

/* ---- modules ---- */

static void free_module(void *arg)
{
    module_data *module = arg;
    leave_connection(module->connection);
    free(module);
}

static int add_module(sqlite3 *db, tide_vtab_connection *connection, const char *name,
                      const char *stream)
{
    module_data *module = calloc(1, sizeof *module);
    if (!module)
        return SQLITE_NOMEM;
    module->connection = connection;
    connection->users++;
    (void)snprintf(module->stream, sizeof module->stream, "%s", stream);
    return sqlite3_create_module_v2(db, name, *stream ? &stream_module : &named_module, module,
                                    free_module);
}

static int add_built_in(sqlite3 *db, tide_vtab_connection *connection)
{
    int code = add_module(db, connection, MODULE_FOR_ALL, "");
    for (int kind = 0; kind < TIDE_STREAM_BUILT_IN_COUNT && code == SQLITE_OK; kind++) {
        const tide_stream_type *type = tide_stream_type_of((tide_stream_kind)kind);
        code = add_module(db, connection, type->table, type->name);
    }
    return code;
}

/* Streams that users have declared, if there is a store to ask. */
static int add_declared(sqlite3 *db, tide_vtab_connection *connection)
{
    TIDE_CLEANUP(tide_vtab_finalizep) sqlite3_stmt *statement = NULL;
    if (tide_vtab_prepare(&statement, db, TIDE_SQL_VTAB_STREAM_LIST, "main") != SQLITE_OK)
        return SQLITE_OK;
    while (sqlite3_step(statement) == SQLITE_ROW) {
        char table[TIDE_FEED_NAME_MAX + sizeof "_local"];
        const char *stream = (const char *)sqlite3_column_text(statement, 0);
        if (!stream || strlen(stream) > TIDE_FEED_NAME_MAX)
            continue;
        (void)snprintf(table, sizeof table, "%s_local", stream);
        const int code = add_module(db, connection, table, stream);
        if (code != SQLITE_OK)
            return code;
    }
    return SQLITE_OK;
}

int tide_vtab_register(sqlite3 *db, tide_env *env)
{
    tide_vtab_connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        return SQLITE_NOMEM;
    connection->env = env;
    connection->users = 1;
    int code = add_functions(db, connection);
    if (code == SQLITE_OK)
        code = add_built_in(db, connection);
    if (code == SQLITE_OK)
        code = add_declared(db, connection);
    leave_connection(connection);
    return code;
}
