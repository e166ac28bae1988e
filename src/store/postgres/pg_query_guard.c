#include "store/postgres/pg_query_guard.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "store/migration.h"
#include "tidemark_sql.h"

enum { NAMES_MAX = 64 << 10, STATEMENT_MAX = 2 << 20 };

/* ---- text ---- */

/* Behind blanks, comments and these other characters. */
static const char *skip_blanks(const char *at, const char *others)
{
    for (;;) {
        while (*at && (isspace((unsigned char)*at) || strchr(others, *at)))
            at++;
        if (at[0] == '-' && at[1] == '-') {
            at += strcspn(at, "\n");
        } else if (at[0] == '/' && at[1] == '*') {
            const char *end = strstr(at + 2, "*/");
            if (!end)
                return at;
            at = end + 2;
        } else {
            return at;
        }
    }
}

static size_t get_word_len(const char *at)
{
    return strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
}

static bool is_word(const char *at, size_t len, const char *word)
{
    return strlen(word) == len && strncasecmp(word, at, len) == 0;
}

static bool is_one_of(const char *at, size_t len, const char *const *words)
{
    for (; *words; words++)
        if (is_word(at, len, *words))
            return true;
    return false;
}

static const char *const reads[] = {"SELECT", "WITH", "VALUES", "TABLE", NULL};

/* Behind EXPLAIN and its options; a statement may itself be in brackets. */
static const char *skip_explain(const char *at)
{
    static const char *const options[] = {"ANALYZE", "ANALYSE", "VERBOSE", NULL};
    at = skip_blanks(at, "");
    const char *first = skip_blanks(at, "(");
    if (*at == '(' && !is_one_of(first, get_word_len(first), reads) && strchr(at, ')'))
        at = skip_blanks(strchr(at, ')') + 1, "");
    while (is_one_of(at, get_word_len(at), options))
        at = skip_blanks(at + get_word_len(at), "");
    return at;
}

tide_status tide_pg_query_guard_text(const char *sql, const char **inner, tide_error *err)
{
    static const char *const others[] = {
        "ABORT",   "ALTER",   "ANALYZE", "ANALYSE",  "BEGIN",    "CALL",      "CHECKPOINT",
        "CLOSE",   "CLUSTER", "COMMENT", "COMMIT",   "COPY",     "CREATE",    "DEALLOCATE",
        "DECLARE", "DELETE",  "DISCARD", "DO",       "DROP",     "END",       "EXECUTE",
        "EXPLAIN", "FETCH",   "GRANT",   "IMPORT",   "INSERT",   "LISTEN",    "LOAD",
        "LOCK",    "MERGE",   "MOVE",    "NOTIFY",   "PREPARE",  "REASSIGN",  "REFRESH",
        "REINDEX", "RELEASE", "RESET",   "REVOKE",   "ROLLBACK", "SAVEPOINT", "SECURITY",
        "SET",     "SHOW",    "START",   "TRUNCATE", "UNLISTEN", "UPDATE",    "VACUUM",
        NULL};
    const char *at = skip_blanks(sql, "(;");
    size_t len = get_word_len(at);
    *inner = sql;
    if (len == 0)
        return tide_fail(err, TIDE_E_INVALID, "there is no statement in it");
    if (is_word(at, len, "SHOW")) {
        *inner = NULL;
        return TIDE_OK;
    }
    if (is_word(at, len, "EXPLAIN")) {
        *inner = skip_explain(at + len);
        at = skip_blanks(*inner, "(");
        len = get_word_len(at);
    }
    if (is_one_of(at, len, reads))
        return TIDE_OK;
    if (is_one_of(at, len, others))
        return tide_fail(err, TIDE_E_DENIED, "a query only reads; %.*s is refused", (int)len, at);
    return tide_fail(err, TIDE_E_INVALID, "no statement begins with '%.*s'",
                     len > 20 ? 20 : (int)len, at);
}

/* ---- our tables ---- */

/* The tables of the store's migrations as an array of the server's. No query reads tokens. */
static tide_status list_tables(tide_buffer *out, const tide_migration *migrations, tide_error *err)
{
    static const char *const kinds[] = {"CREATE TABLE ", "CREATE VIEW ", "CREATE OR REPLACE VIEW "};
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz_0123456789";
    tide_status status = tide_buffer_append(out, "{schema_version", 15);
    for (; migrations->number > 0 && status >= TIDE_OK; migrations++) {
        const char *text = migrations->text[TIDE_ENGINE_POSTGRES];
        for (size_t i = 0; text && i < sizeof kinds / sizeof kinds[0]; i++) {
            for (const char *at = strstr(text, kinds[i]); at; at = strstr(at, kinds[i])) {
                at += strlen(kinds[i]);
                if (strncmp(at, "IF NOT EXISTS ", 14) == 0)
                    at += 14;
                const size_t len = strspn(at, letters);
                if (len == 0 || is_word(at, len, "access_tokens"))
                    continue;
                TIDE_IGNORE(tide_buffer_append(out, ",", 1));
                status = tide_buffer_append(out, at, len);
            }
        }
    }
    if (status < TIDE_OK || tide_buffer_append(out, "}", 1) < TIDE_OK)
        return tide_no_memory(err);
    return TIDE_OK;
}

/* ---- the role ---- */

static PGresult *query_server(tide_pg_connection *connection, const tide_sql *sql,
                              const char *tables)
{
    const tide_sql_text *text = &sql->engine[TIDE_ENGINE_POSTGRES];
    const char *const values[] = {tables};
    return tide_pg_exec_params(connection, text->text, text->param_count, values);
}

static bool run(tide_pg_connection *connection, const char *text)
{
    PGresult *result = tide_pg_exec(connection, text);
    const bool is_good = tide_pq.resultStatus(result) == PGRES_COMMAND_OK;
    tide_pq.clear(result);
    return is_good;
}

typedef struct role_state {
    bool is_usable; /* without powers, can be set, and may read the tables */
    bool may_make;
} role_state;

static role_state read_role(tide_pg_connection *connection, const char *tables)
{
    role_state state = {.is_usable = false};
    PGresult *result = query_server(connection, TIDE_SQL_QUERY_ROLE, tables);
    if (tide_pq.resultStatus(result) == PGRES_TUPLES_OK && tide_pq.ntuples(result) == 1) {
        state.is_usable = *tide_pq.getvalue(result, 0, 0) == 't' &&
                          *tide_pq.getvalue(result, 0, 1) == 't' &&
                          strcmp(tide_pq.getvalue(result, 0, 2), "0") == 0;
        state.may_make = *tide_pq.getvalue(result, 0, 3) == 't';
    }
    tide_pq.clear(result);
    return state;
}

static void make_role(tide_pg_connection *connection, const char *tables)
{
    if (!run(connection, "BEGIN"))
        return;
    tide_pq.clear(query_server(connection, TIDE_SQL_QUERY_TABLES, tables));
    tide_pq.clear(query_server(connection, TIDE_SQL_QUERY_ROLE_MAKE, NULL));
    (void)run(connection, "COMMIT");
}

static bool find_role(tide_pg_connection *connection, const char *tables)
{
    role_state state = read_role(connection, tables);
    if (!state.is_usable && state.may_make) {
        make_role(connection, tables);
        state = read_role(connection, tables);
    }
    return state.is_usable;
}

/* ---- names ---- */

/* A new line before the end: the statement may end with a comment. */
static tide_status send_body(tide_pg_connection *connection, const char *inner, tide_error *err)
{
    static const char head[] = "CREATE FUNCTION pg_temp.tidemark_query_body() RETURNS SETOF record "
                               "LANGUAGE sql BEGIN ATOMIC ";
    static const char unsupported[] = "0A000";
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(STATEMENT_MAX);
    if (tide_buffer_append(&text, head, sizeof head - 1) < TIDE_OK ||
        tide_buffer_append(&text, inner, strlen(inner)) < TIDE_OK ||
        tide_buffer_append(&text, "\n;END", 5) < TIDE_OK)
        return tide_fail(err, TIDE_E_LIMIT, "the statement is longer than %d bytes", STATEMENT_MAX);
    PGresult *result = tide_pg_exec_params(connection, tide_buffer_text(&text), 0, NULL);
    tide_status status = TIDE_OK;
    if (tide_pq.resultStatus(result) != PGRES_COMMAND_OK) {
        const char *state = tide_pq.resultErrorField(result, PG_DIAG_SQLSTATE);
        status = tide_pg_fail_result(err, result, "query");
        if (state && strcmp(state, unsupported) == 0)
            status = err ? (err->status = TIDE_E_DENIED) : TIDE_E_DENIED;
    }
    tide_pq.clear(result);
    return status;
}

static tide_status check_parts(tide_pg_connection *connection, const char *tables, tide_error *err)
{
    PGresult *result = query_server(connection, TIDE_SQL_QUERY_REFUSED, tables);
    tide_status status = TIDE_OK;
    if (tide_pq.resultStatus(result) != PGRES_TUPLES_OK)
        status = tide_pg_fail_result(err, result, "query");
    else if (tide_pq.ntuples(result) > 0)
        status =
            tide_fail(err, TIDE_E_DENIED, "a query may not use %s", tide_pq.getvalue(result, 0, 0));
    tide_pq.clear(result);
    return status;
}

static tide_status check_body(tide_pg_connection *connection, const char *inner, int64_t timeout_us,
                              const char *tables, tide_error *err)
{
    char begin[96];
    (void)snprintf(begin, sizeof begin, "BEGIN; SET LOCAL statement_timeout=%" PRId64,
                   timeout_us / 1000 < INT32_MAX ? timeout_us / 1000 + 1 : INT32_MAX);
    if (!run(connection, begin))
        return tide_pg_fail_lost(err, connection);
    tide_status status = send_body(connection, inner, err);
    if (status >= TIDE_OK)
        status = check_parts(connection, tables, err);
    (void)run(connection, "ROLLBACK");
    return status;
}

tide_status tide_pg_query_guard_names(tide_pg_connection *connection, const char *inner,
                                      int64_t timeout_us, bool *has_role, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer tables = tide_buffer_of(NAMES_MAX);
    TIDE_TRY(list_tables(&tables, connection->store->migrations, err));
    *has_role = find_role(connection, tide_buffer_text(&tables));
    return inner ? check_body(connection, inner, timeout_us, tide_buffer_text(&tables), err)
                 : TIDE_OK;
}
