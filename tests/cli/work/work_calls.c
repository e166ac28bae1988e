#include "cli/work/work_calls.h"

#include <libpq-fe.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"

enum { TEXTS_MAX = 1024, DUMP_MAX = 64 << 20 };

/* One case runs at a time. */
static char *texts[TEXTS_MAX];
static int text_count;
static const char
    *last_dump; /* what the tables held after a refusal, while nothing else has been run */

static const char *keep(char *text)
{
    assert_non_null(text);
    assert_true(text_count < TEXTS_MAX);
    texts[text_count++] = text;
    return text;
}

#define FORMAT(out, format)                                                                        \
    do {                                                                                           \
        va_list values;                                                                            \
        va_start(values, format);                                                                  \
        assert_true(vasprintf(&(out), format, values) >= 0);                                       \
        va_end(values);                                                                            \
    } while (0)

const char *work_text(cli_fixture *t, const char *format, ...)
{
    (void)t;
    char *text = NULL;
    FORMAT(text, format);
    return keep(text);
}

/* ---- the fixture ---- */

/* What the tables held at first is kept in a schema of its own; making a database for every case would take longer than the
 * case. Whoever is still connected (a worker that was killed) has to go first. */
static const char keep_tables[] =
    "CREATE SCHEMA saved;"
    "DO $$ DECLARE name text; BEGIN"
    "  FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' LOOP"
    "    EXECUTE format('CREATE TABLE saved.%I AS TABLE public.%I', name, name);"
    "  END LOOP; END $$";
static const char reset_tables[] =
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid();"
    "SET session_replication_role = replica;"
    "DO $$ DECLARE name text; BEGIN"
    "  FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'saved' LOOP"
    "    EXECUTE format('DELETE FROM public.%I', name);"
    "    EXECUTE format('INSERT INTO public.%I OVERRIDING SYSTEM VALUE TABLE saved.%I', name, "
    "name);"
    "  END LOOP; END $$";

static void prepare_database(cli_fixture *t)
{
    static char url[PG_CLUSTER_URL_MAX];
    if (!url[0]) {
        char database[PG_CLUSTER_NAME_MAX];
        pg_cluster *cluster = pg_cluster_for_test();
        assert_ok_err(pg_cluster_fresh_database(cluster, NULL, database, &t->err), &t->err);
        pg_cluster_url(cluster, database, url);
    }
    snprintf(t->url, sizeof t->url, "%s", url);
    snprintf(t->store_env, sizeof t->store_env, "TIDEMARK_STORE=%s", t->url);
    static bool is_prepared;
    if (is_prepared) {
        work_sql(t, reset_tables);
        return;
    }
    work_ok(t, "$T task create 'a task' --task t");
    work_sql(t, keep_tables);
    is_prepared = true;
}

int work_setup(void **state)
{
    static char program_env[PATH_MAX + 8];
    const bool is_postgres = strcmp(*state, "postgres") == 0;
    *state = (void *)"sqlite"; /* the database is this one's own business */
    const int code = cli_setup(state);
    cli_fixture *t = *state;
    snprintf(program_env, sizeof program_env, "T=%s", t->program);
    t->env[3] = program_env;
    if (is_postgres)
        prepare_database(t);
    else
        work_ok(t, "$T task create 'a task' --task t");
    return code;
}

int work_teardown(void **state)
{
    last_dump = NULL;
    while (text_count > 0)
        free(texts[--text_count]);
    return cli_teardown(state);
}

/* ---- scripts ---- */

static cli_result run_script(cli_fixture *t, const char *script)
{
    last_dump = NULL;
    const char *argv[] = {"/bin/sh", "-c", script, NULL};
    proc_result result;
    proc_options options = cli_options(t, argv);
    options.in = PROC_NULL;
    assert_ok_err(proc_run(&result, &options, CLI_TIMEOUT_MS, &t->err), &t->err);
    return (cli_result){
        .exit_code = result.exit_code, .out = keep(result.out), .err = keep(result.err)};
}

static void expect_success(const cli_result *result, const char *script)
{
    if (result->exit_code != 0)
        fail_msg("%s: exit code %d: %s%s", script, result->exit_code, result->out, result->err);
}

cli_result work_run(cli_fixture *t, const char *format, ...)
{
    TIDE_CLEANUP(tide_freep) char *script = NULL;
    FORMAT(script, format);
    return run_script(t, script);
}

const char *work_ok(cli_fixture *t, const char *format, ...)
{
    TIDE_CLEANUP(tide_freep) char *script = NULL;
    FORMAT(script, format);
    const cli_result result = run_script(t, script);
    expect_success(&result, script);
    return result.out;
}

const char *work_line(cli_fixture *t, const char *format, ...)
{
    TIDE_CLEANUP(tide_freep) char *script = NULL;
    FORMAT(script, format);
    const cli_result result = run_script(t, script);
    expect_success(&result, script);
    return work_text(t, "%.*s", (int)strcspn(result.out, "\n"), result.out);
}

tide_json_node *work_object(cli_fixture *t, const char *format, ...)
{
    TIDE_CLEANUP(tide_freep) char *script = NULL;
    FORMAT(script, format);
    const cli_result result = run_script(t, script);
    expect_success(&result, script);
    return cli_json(&result);
}

tide_json_node *work_objects(cli_fixture *t, const char *format, ...)
{
    TIDE_CLEANUP(tide_freep) char *script = NULL;
    FORMAT(script, format);
    const cli_result result = run_script(t, script);
    expect_success(&result, script);
    return json_lines(result.out);
}

void work_refuses(cli_fixture *t, int exit_code, const char *part, const char *format, ...)
{
    TIDE_CLEANUP(tide_freep) char *script = NULL;
    FORMAT(script, format);
    const char *before = last_dump ? last_dump : work_dump(t);
    const cli_result result = run_script(t, script);
    if (result.exit_code != exit_code || result.out[0] ||
        strncmp(result.err, "tidemark: ", 10) != 0 || !strstr(result.err, part))
        fail_msg("%s: want %d and '%s', got %d: %s%s", script, exit_code, part, result.exit_code,
                 result.out, result.err);
    const char *after = work_dump(t);
    size_t same = 0;
    while (before[same] && before[same] == after[same])
        same++;
    if (before[same] || after[same])
        fail_msg("%s: has changed\n  %.200s\nto\n  %.200s", script, before + same, after + same);
    last_dump = after;
}

/* ---- in the background ---- */

void work_start(cli_fixture *t, proc *child, const char *format, ...)
{
    last_dump = NULL;
    TIDE_CLEANUP(tide_freep) char *script = NULL;
    char err_path[TEMPDIR_PATH_MAX];
    FORMAT(script, format);
    cli_path(t, "err", err_path);
    const char *argv[] = {"/bin/sh", "-c", script, NULL};
    proc_options options = cli_options(t, argv);
    options.in = PROC_NULL;
    options.out = PROC_PIPE;
    options.err = PROC_FILE;
    options.err_path = err_path;
    assert_ok_err(proc_start(child, &options, &t->err), &t->err);
}

const char *work_read_line(cli_fixture *t, proc *child)
{
    char line[4096];
    size_t len = 0;
    while (len < sizeof line - 1 && read(child->out_fd, line + len, 1) == 1 && line[len] != '\n')
        len++;
    return work_text(t, "%.*s", (int)len, line);
}

const char *work_finish(cli_fixture *t, proc *child, int exit_code)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
    tide_buffer_init(&out, DUMP_MAX);
    char bytes[4096];
    ssize_t got;
    while ((got = read(child->out_fd, bytes, sizeof bytes)) > 0)
        assert_ok(tide_buffer_append(&out, bytes, (size_t)got));
    assert_ok_err(proc_wait(child, CLI_TIMEOUT_MS, &t->err), &t->err);
    if (child->exit_code != exit_code) {
        char *err = cli_read_file(t, "err", NULL);
        fail_msg("want %d, got %d (signal %d): %s%s", exit_code, child->exit_code, child->signal,
                 tide_buffer_text(&out), err);
    }
    proc_done(child);
    return work_text(t, "%s", tide_buffer_text(&out));
}

/* ---- tables ---- */

typedef struct table_reader {
    sqlite3 *sqlite;
    PGconn *pg;
} table_reader;

static void close_reader(table_reader *reader)
{
    sqlite3_close(reader->sqlite);
    PQfinish(reader->pg);
}

static void open_reader(cli_fixture *t, table_reader *reader)
{
    *reader = (table_reader){.sqlite = NULL};
    if (cli_is_postgres(t)) {
        reader->pg = PQconnectdb(t->url);
        assert_int_equal(CONNECTION_OK, PQstatus(reader->pg));
        return;
    }
    assert_int_equal(SQLITE_OK,
                     sqlite3_open_v2(t->url, &reader->sqlite, SQLITE_OPEN_READWRITE, NULL));
    assert_int_equal(SQLITE_OK, sqlite3_busy_timeout(reader->sqlite, CLI_TIMEOUT_MS));
}

/* Rows as lines, columns parted by '|'; NULL is told from a text. */
static void append_cell(tide_buffer *out, const char *text, bool is_first)
{
    if (!is_first)
        assert_ok(tide_buffer_append_byte(out, '|'));
    assert_ok(tide_buffer_append_text(out, text ? text : "<null>"));
}

static void read_pg(tide_buffer *out, PGconn *pg, const char *sql)
{
    PGresult *result = PQexec(pg, sql);
    const ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(pg));
    for (int row = 0; row < PQntuples(result); row++) {
        for (int i = 0; i < PQnfields(result); i++)
            append_cell(out, PQgetisnull(result, row, i) ? NULL : PQgetvalue(result, row, i),
                        i == 0);
        assert_ok(tide_buffer_append_byte(out, '\n'));
    }
    PQclear(result);
}

static void read_sqlite(tide_buffer *out, sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
    while (code == SQLITE_OK || code == SQLITE_ROW) {
        code = sqlite3_step(statement);
        if (code != SQLITE_ROW)
            break;
        for (int i = 0; i < sqlite3_column_count(statement); i++)
            append_cell(out, (const char *)sqlite3_column_text(statement, i), i == 0);
        assert_ok(tide_buffer_append_byte(out, '\n'));
    }
    if (code != SQLITE_DONE)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    assert_int_equal(SQLITE_OK, sqlite3_finalize(statement));
}

static void read_rows(tide_buffer *out, table_reader *reader, const char *sql)
{
    if (reader->pg)
        read_pg(out, reader->pg, sql);
    else
        read_sqlite(out, reader->sqlite, sql);
}

const char *work_dump(cli_fixture *t)
{
    TIDE_CLEANUP(close_reader) table_reader reader;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer names;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer rows;
    tide_buffer_init(&names, DUMP_MAX);
    tide_buffer_init(&rows, DUMP_MAX);
    open_reader(t, &reader);
    /* Marks of the file or database itself, which every opening may move. */
    read_rows(&names, &reader,
              reader.pg ? "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() AND "
                          "tablename NOT IN ('db_metadata', 'epochs') ORDER BY tablename"
                        : "SELECT name FROM sqlite_master WHERE type = 'table' AND "
                          "name NOT IN ('db_metadata', 'epochs') ORDER BY name");
    const char *at = tide_buffer_text(&names);
    while (*at) {
        char sql[256];
        const size_t len = strcspn(at, "\n");
        assert_ok(tide_buffer_printf(&rows, "-- %.*s\n", (int)len, at));
        snprintf(sql, sizeof sql,
                 reader.pg ? "SELECT r::text FROM %.*s r ORDER BY 1" : "SELECT * FROM %.*s",
                 (int)len, at);
        /* How often an import was begun counts also when it was refused. */
        if (strncmp(at, "sequences\n", 10) == 0)
            snprintf(
                sql, sizeof sql,
                "SELECT name, last FROM sequences WHERE name <> 'journal/imports' ORDER BY name");
        read_rows(&rows, &reader, sql);
        at += len + 1;
    }
    return work_text(t, "%s", tide_buffer_text(&rows));
}

static const char *query_rows(cli_fixture *t, const char *sql)
{
    TIDE_CLEANUP(close_reader) table_reader reader;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer rows;
    tide_buffer_init(&rows, DUMP_MAX);
    open_reader(t, &reader);
    read_rows(&rows, &reader, sql);
    return work_text(t, "%s", tide_buffer_text(&rows));
}

const char *work_rows(cli_fixture *t, const char *format, ...)
{
    TIDE_CLEANUP(tide_freep) char *sql = NULL;
    FORMAT(sql, format);
    return query_rows(t, sql);
}

const char *work_query(cli_fixture *t, const char *format, ...)
{
    TIDE_CLEANUP(tide_freep) char *sql = NULL;
    FORMAT(sql, format);
    const char *rows = query_rows(t, sql);
    return work_text(t, "%.*s", (int)strcspn(rows, "\n"), rows);
}

void work_sql(cli_fixture *t, const char *sql)
{
    last_dump = NULL;
    TIDE_CLEANUP(close_reader) table_reader reader;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer rows;
    tide_buffer_init(&rows, DUMP_MAX);
    open_reader(t, &reader);
    read_rows(&rows, &reader, sql);
}

/* ---- items ---- */

const char *work_add(cli_fixture *t, const char *options)
{
    return work_line(t, "$T work add --task t %s", options);
}

work_held work_claim(cli_fixture *t, const char *options)
{
    tide_json_node *object = work_object(t, "$T work claim --worker w %s --json", options);
    const work_held held = {.id = work_value(t, object, "work_item_id"),
                            .token = json_number(object, "lease_token"),
                            .attempt = json_number(object, "attempt")};
    tide_json_tree_free(object);
    return held;
}

const char *work_value(cli_fixture *t, const tide_json_node *object, const char *key)
{
    const tide_json_node *value = tide_json_node_find(object, key);
    if (!value)
        fail_msg("there is no member %s", key);
    if (json_is_string(value))
        return work_text(t, "%s", tide_json_node_text(value));
    return keep(json_dump(value));
}

const char *work_member(cli_fixture *t, const char *id, const char *key)
{
    tide_json_node *object = work_object(t, "$T work show %s --json", id);
    const char *value = work_value(t, object, key);
    tide_json_tree_free(object);
    return value;
}
