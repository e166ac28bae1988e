/* cmd_sql.c - tidemark sql SQL: any SQL over a store, with its streams as tables (feed/vtab.h).
 *
 * All statements run in one transaction: reading sees one snapshot, writing happens as a whole or not at all. A writing transaction may
 * be run more than once by the store, so its rows are kept back until it is durable; rows that are read go out as
 * they come. */
#include <inttypes.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/error.h>

#include "base/cleanup.h"
#include "base/sql_value.h"
#include "base/text/json.h"
#include "cli/frame/cli.h"
#include "cli/frame/input.h"
#include "cli/print/sql_output.h"
#include "feed/vtab.h"
#include "store/sqlite/sqlite_connection.h"
#include "store/sqlite/sqlite_statement.h"
#include "store/url.h"

/* ---- what a statement may do ---- */

/* What SQL from the command line may do to a store.
 *
 *     reading    SELECT, EXPLAIN, pragmas that only tell
 *     writing    besides, rows may be inserted, updated and deleted, and temporary tables made. The schema, transactions (everything is one)
 *                and other files are out of bounds
 *
 * SQLite asks the guard about every part of a statement while it is prepared, also inside of triggers, functions and virtual
 * tables. What was refused first is kept in words.
 *
 * Threads: one. */
typedef struct tide_cli_sql_guard {
    bool is_writing;
    bool is_write_wanted; /* what was refused would have been let through with is_writing */
    char refused[256];    /* "": nothing */
} tide_cli_sql_guard;

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

/* The guard must live until it is taken away (NULL). */
static void guard_put(sqlite3 *db, tide_cli_sql_guard *guard)
{
    (void)sqlite3_set_authorizer(db, guard ? judge : NULL, guard);
}

/* ---- values of SQLite ---- */

/* The columns of a SQLite statement as names and cells (base/sql_value.h).
 *
 * Threads: one. */
typedef struct tide_cli_sql_cells {
    sqlite3_stmt *statement; /* borrowed */
    int count;
    const char **names;    /* of the statement, which owns them */
    tide_sql_value *cells; /* of the row under way */
} tide_cli_sql_cells;

static tide_status cells_init(tide_cli_sql_cells *out, sqlite3_stmt *statement, tide_error *err)
{
    const int count = sqlite3_column_count(statement);
    *out = (tide_cli_sql_cells){.statement = statement, .count = count};
    out->names = calloc((size_t)count + 1, sizeof *out->names);
    out->cells = calloc((size_t)count + 1, sizeof *out->cells);
    bool is_whole = out->names && out->cells;
    for (int i = 0; is_whole && i < count; i++) {
        out->names[i] = sqlite3_column_name(statement, i);
        is_whole = out->names[i] != NULL;
    }
    return is_whole ? TIDE_OK : tide_no_memory(err);
}

/* Before the first step. */
static void cells_done(tide_cli_sql_cells *row)
{
    free(row->names);
    free(row->cells);
    *row = (tide_cli_sql_cells){.statement = NULL};
}

/* Behind a step: the row; texts and bytes live until the next one. */
static const tide_sql_value *cells_read(tide_cli_sql_cells *row)
{
    for (int i = 0; i < row->count; i++)
        row->cells[i] = tide_sqlite_value(row->statement, i);
    return row->cells;
}

enum {
    SQL_MAX = 16 << 20,       /* bytes of the statements */
    KEPT_ROWS_MAX = 64 << 20, /* bytes of output that a writing transaction keeps back */
    EXCERPT = 40,             /* bytes of SQL that a syntax error shows */
};

typedef struct parameter {
    const char *name; /* not terminated */
    size_t name_len;
    const char *value;
    bool is_used;
} parameter;

typedef struct session {
    tide_cli *cli;
    tide_view sql;
    parameter *parameters;
    int parameter_count;
    int64_t row_limit; /* 0: none */
    int64_t timeout_us;
    tide_cli_sql_form form;
    tide_cli_sql_guard guard;
    tide_cli_output *out; /* stdout, or what is kept back */
    tide_cli_output kept;
    char *kept_bytes;
    size_t kept_len;
} session;

static void end_session(session *s)
{
    if (s->kept.file)
        (void)fclose(s->kept.file);
    tide_cli_output_done(&s->kept);
    free(s->kept_bytes);
    free(s->parameters);
}

/* ---- parameters ---- */

static tide_status read_parameters(session *s, tide_error *err)
{
    const tide_cli_values given = tide_cli_list(s->cli, TIDE_CLI_PARAM);
    TIDE_ALLOC(s->parameters, (size_t)given.count + 1, err);
    for (int i = 0; i < given.count; i++) {
        const char *equals = strchr(given.items[i], '=');
        if (!equals || equals == given.items[i])
            return tide_fail(err, TIDE_E_INVALID, "--param wants NAME=VALUE, not '%s'",
                             given.items[i]);
        s->parameters[s->parameter_count++] =
            (parameter){.name = given.items[i],
                        .name_len = (size_t)(equals - given.items[i]),
                        .value = equals + 1};
    }
    return TIDE_OK;
}

/* A number is one if it would be written the same way again, so that 007, 1e5 and 1.50 stay texts. */
static bool is_integer(const char *text, int64_t *out)
{
    char again[32];
    char *end = NULL;
    *out = strtoll(text, &end, 10);
    (void)snprintf(again, sizeof again, "%" PRId64, *out);
    return strcmp(again, text) == 0;
}

static bool is_real(const char *text, double *out)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer again = tide_buffer_of(64);
    char *end = NULL;
    *out = strtod(text, &end);
    return strchr(text, '.') && *end == '\0' && tide_json_append_double(&again, *out) == TIDE_OK &&
           strcmp(tide_buffer_text(&again), text) == 0;
}

static int bind_value(sqlite3_stmt *statement, int place, const char *value)
{
    int64_t integer = 0;
    double real = 0;
    const size_t len = strlen(value);
    if (is_integer(value, &integer))
        return sqlite3_bind_int64(statement, place, integer);
    if (is_real(value, &real))
        return sqlite3_bind_double(statement, place, real);
    if (len >= 2 && value[0] == '\'' && value[len - 1] == '\'')
        return sqlite3_bind_text64(statement, place, value + 1, len - 2, SQLITE_STATIC,
                                   SQLITE_UTF8);
    return sqlite3_bind_text64(statement, place, value, len, SQLITE_STATIC, SQLITE_UTF8);
}

/* :name, @name and $name go by their name, ?1 by its number. */
static parameter *find_parameter(session *s, const char *wanted)
{
    for (int i = 0; i < s->parameter_count; i++)
        if (strlen(wanted + 1) == s->parameters[i].name_len &&
            memcmp(wanted + 1, s->parameters[i].name, s->parameters[i].name_len) == 0)
            return &s->parameters[i];
    return NULL;
}

static tide_status bind_parameters(session *s, sqlite3 *db, sqlite3_stmt *statement,
                                   tide_error *err)
{
    const int count = sqlite3_bind_parameter_count(statement);
    for (int place = 1; place <= count; place++) {
        const char *wanted = sqlite3_bind_parameter_name(statement, place);
        char number[16];
        (void)snprintf(number, sizeof number, "?%d", place);
        parameter *found = find_parameter(s, wanted ? wanted : number);
        if (!found)
            return tide_fail(err, TIDE_E_INVALID,
                             "the parameter %s has no value; give it with --param %s=VALUE",
                             wanted ? wanted : number, (wanted ? wanted : number) + 1);
        found->is_used = true;
        const int code = bind_value(statement, place, found->value);
        if (code != SQLITE_OK)
            return tide_sqlite_fail(err, db, code, "--param");
    }
    return TIDE_OK;
}

static tide_status check_all_used(const session *s, tide_error *err)
{
    for (int i = 0; i < s->parameter_count; i++)
        if (!s->parameters[i].is_used)
            return tide_fail(err, TIDE_E_INVALID, "no statement has a parameter :%.*s",
                             (int)s->parameters[i].name_len, s->parameters[i].name);
    return TIDE_OK;
}

/* ---- failures ---- */

/* What to do about a refusal; the status table speaks of files. */
static void hint_at_rights(session *s, bool is_write_wanted)
{
    (void)snprintf(s->cli->hint, sizeof s->cli->hint, "%s",
                   is_write_wanted && !s->guard.is_writing
                       ? "nothing was changed; --write lets rows be changed"
                       : "nothing was changed; 'tidemark help sql' tells what is possible");
}

/* Where the text is wrong, if SQLite can tell. */
static tide_status tell_bad_sql(sqlite3 *db, const char *sql, tide_error *err)
{
    const int offset = sqlite3_error_offset(db);
    if (offset < 0 || (size_t)offset > strlen(sql))
        return tide_fail(err, TIDE_E_INVALID, "%s", sqlite3_errmsg(db));
    return tide_fail(err, TIDE_E_INVALID, "%s, at: %.*s", sqlite3_errmsg(db), EXCERPT,
                     sql + offset);
}

static tide_status tell_failure(session *s, sqlite3 *db, int code, tide_error *err)
{
    if ((code & 0xff) == SQLITE_INTERRUPT)
        return tide_fail(err, TIDE_E_TIMEOUT, "stopped after --timeout");
    if ((code & 0xff) == SQLITE_AUTH && s->guard.refused[0]) {
        hint_at_rights(s, s->guard.is_write_wanted);
        return tide_fail(err, TIDE_E_DENIED, "%s", s->guard.refused);
    }
    if ((code & 0xff) == SQLITE_READONLY)
        hint_at_rights(s, true);
    if ((code & 0xff) == SQLITE_ERROR) /* its own words tell which value was wrong */
        return tide_fail(err, TIDE_E_INVALID, "%s", sqlite3_errmsg(db));
    return tide_sqlite_fail(err, db, code, tide_cli_text(s->cli, TIDE_CLI_STORE));
}

/* ---- statements ---- */

static void finalize(sqlite3_stmt **statement)
{
    (void)sqlite3_finalize(*statement);
}

static tide_status check_kept(const session *s, tide_error *err)
{
    if (s->kept.file && ftell(s->kept.file) > KEPT_ROWS_MAX)
        return tide_fail(err, TIDE_E_LIMIT,
                         "statements that write may print %d MiB, these print more",
                         KEPT_ROWS_MAX >> 20);
    return TIDE_OK;
}

static tide_status print_rows(session *s, sqlite3 *db, tide_cli_sql_cells *cells,
                              tide_cli_sql_output *rows, tide_error *err)
{
    int code;
    while ((code = sqlite3_step(cells->statement)) == SQLITE_ROW) {
        if (s->row_limit > 0 && rows->row_count == s->row_limit) {
            tide_cli_print(stderr, "tidemark: sql: there are more than %" PRId64 " rows\n",
                           s->row_limit);
            return TIDE_OK;
        }
        TIDE_TRY(tide_cli_sql_output_row(rows, cells_read(cells), err));
        TIDE_TRY(check_kept(s, err));
    }
    return code == SQLITE_DONE ? TIDE_OK : tell_failure(s, db, code, err);
}

/* The first statement of the text, which moves behind it. TIDE_NONE: there was none, only blanks or a comment. */
static tide_status run_statement(session *s, sqlite3 *db, const char **sql,
                                 tide_cli_sql_output *rows, tide_error *err)
{
    TIDE_CLEANUP(finalize) sqlite3_stmt *statement = NULL;
    const char *rest = NULL;
    const int code = sqlite3_prepare_v2(db, *sql, -1, &statement, &rest);
    if (code == SQLITE_ERROR)
        return tell_bad_sql(db, *sql, err);
    if (code != SQLITE_OK)
        return tell_failure(s, db, code, err);
    *sql = rest;
    if (!statement)
        return TIDE_NONE;
    if (!s->guard.is_writing && !sqlite3_stmt_readonly(statement)) {
        hint_at_rights(s, true);
        return tide_fail(err, TIDE_E_DENIED, "nothing is written without --write");
    }
    TIDE_TRY(bind_parameters(s, db, statement, err));
    TIDE_CLEANUP(cells_done) tide_cli_sql_cells cells = {.statement = NULL};
    TIDE_TRY(cells_init(&cells, statement, err));
    TIDE_TRY(tide_cli_sql_output_begin(rows, cells.names, cells.count, err));
    const tide_status status = print_rows(s, db, &cells, rows, err);
    /* Rows that came before a failure are printed, too. */
    tide_error ignored;
    const tide_status ended = tide_cli_sql_output_end(
        rows, status < TIDE_OK ? 0 : sqlite3_changes64(db), status < TIDE_OK ? &ignored : err);
    return status < TIDE_OK ? status : ended;
}

static tide_status run_all(session *s, sqlite3 *db, tide_error *err)
{
    TIDE_CLEANUP(tide_cli_sql_output_done) tide_cli_sql_output rows;
    tide_cli_sql_output_init(&rows, s->out, s->form);
    const char *sql = s->sql.ptr;
    int count = 0;
    while (*sql) {
        const tide_status status = run_statement(s, db, &sql, &rows, err);
        TIDE_TRY(status);
        count += status == TIDE_OK;
    }
    if (count == 0)
        return tide_fail(err, TIDE_E_INVALID, "there is no statement in it");
    return check_all_used(s, err);
}

/* ---- the transaction ---- */

/* What is printed inside is kept back, from the start of each run. */
static tide_status keep_back(session *s, tide_error *err)
{
    if (s->kept.file)
        (void)fclose(s->kept.file);
    tide_cli_output_done(&s->kept);
    free(s->kept_bytes);
    s->kept_bytes = NULL;
    FILE *file = open_memstream(&s->kept_bytes, &s->kept_len);
    TIDE_NEED_MEMORY(file, err);
    tide_cli_output_init(&s->kept, file, s->cli->out.is_json);
    s->out = &s->kept;
    return TIDE_OK;
}

static tide_status run_inside(tide_tx *tx, void *arg, tide_error *err)
{
    session *s = arg;
    tide_sqlite_connection *connection = tx->connection;
    tide_env *env = tx->store->env;
    connection->budget_until_us = s->timeout_us > 0 ? env->mono_us(env) + s->timeout_us : 0;
    s->guard.refused[0] = '\0';
    s->guard.is_write_wanted = false;
    if (s->guard.is_writing)
        TIDE_TRY(keep_back(s, err));
    const int code = tide_vtab_register(connection->db, env);
    if (code != SQLITE_OK)
        return tide_sqlite_fail(err, connection->db, code, tx->store->name);
    guard_put(connection->db, &s->guard);
    const tide_status status = run_all(s, connection->db, err);
    guard_put(connection->db, NULL);
    return status;
}

static tide_status write_all(session *s, tide_store *store, tide_error *err)
{
    TIDE_TRY(tide_store_write(store, run_inside, s, err));
    (void)fclose(s->kept.file);
    s->kept.file = NULL;
    (void)fwrite(s->kept_bytes, 1, s->kept_len, s->cli->out.file); /* told by flush */
    return TIDE_OK;
}

/* ---- the command ---- */

static tide_status check_options(session *s, tide_error *err)
{
    const bool is_csv = tide_cli_is_given(s->cli, TIDE_CLI_CSV);
    if (is_csv && s->cli->out.is_json)
        return tide_fail(err, TIDE_E_INVALID, "--csv and --json: choose one");
    s->form = s->cli->out.is_json ? TIDE_CLI_SQL_JSON
              : is_csv            ? TIDE_CLI_SQL_CSV
                                  : TIDE_CLI_SQL_TABLE;
    tide_store_url url;
    TIDE_TRY(tide_store_url_parse(&url, tide_cli_text(s->cli, TIDE_CLI_STORE), err));
    if (url.engine != TIDE_ENGINE_SQLITE)
        return tide_fail(err, TIDE_E_UNSUPPORTED,
                         "this is for SQLite stores; on PostgreSQL the tables are there for psql");
    return read_parameters(s, err);
}

static tide_status run_sql(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(end_session)
    session s = {.cli = cli,
                 .out = &cli->out,
                 .row_limit = tide_cli_number(cli, TIDE_CLI_LIMIT),
                 .timeout_us = tide_cli_number(cli, TIDE_CLI_TIMEOUT),
                 .guard = {.is_writing = tide_cli_is_given(cli, TIDE_CLI_WRITE)}};
    TIDE_TRY(check_options(&s, err));
    TIDE_CLEANUP(tide_buffer_done) tide_buffer sql = tide_buffer_of(SQL_MAX);
    TIDE_TRY(tide_cli_input_read(&sql, cli->args[0], "SQL", err));
    s.sql = tide_view_of(tide_buffer_text(&sql));
    if (s.sql.len != sql.len)
        return tide_fail(err, TIDE_E_INVALID, "the statements have a NUL at byte %zu", s.sql.len);
    TIDE_CLI_STORE(store, cli, s.guard.is_writing ? TIDE_STORE_EXISTING : TIDE_STORE_AS_IS, err);
    return s.guard.is_writing ? write_all(&s, store, err)
                              : tide_store_read(store, run_inside, &s, err);
}

static const tide_cli_verb verbs[] = {
    {.name = "",
     .arguments = "SQL",
     .takes = TIDE_CLI_LIST(CSV, PARAM, LIMIT, TIMEOUT, WRITE),
     .overrides = TIDE_CLI_OVERRIDES(
         {.id = TIDE_CLI_LIMIT, .is_bare = true, .help = "print at most so many rows of each"},
         {.id = TIDE_CLI_TIMEOUT, .fallback = "10m", .help = "stop after this long"}),
     .summary = "run SQL over a SQLite store, with its streams as tables",
     .details = "SQL is one statement or several, @FILE, or - for stdin. Streams are tables: "
                "otel_spans_local,\n"
                "system_metrics_local, logs_local and so on, and NAME_local for a stream NAME of "
                "your own; "
                "all\n"
                "tables of the store are there, too, and nextval(name) and currval(name).\n"
                "All statements are one transaction. Without --write nothing can be changed; with "
                "it, rows "
                "can,\n"
                "the schema cannot.",
     .run = run_sql},
    {.name = NULL},
};

const tide_cli_command tide_cli_sql = {
    .name = "sql",
    .summary = "run SQL over a SQLite store, with its streams as tables",
    .verbs = verbs,
};
