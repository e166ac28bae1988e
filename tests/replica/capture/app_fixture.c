#include "replica/capture/app_fixture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "replica/capture.h"
#include "support/check.h"
#include "support/process/proc.h"

enum { PROGRAM_MS = 30000 };

int app_setup(void **state)
{
    app_fixture *t = calloc(1, sizeof *t);
    assert_non_null(t);
    assert_ok_err(tempdir_make(&t->dir, &t->err), &t->err);
    tempdir_join(&t->dir, "app.db", t->path);
    tempdir_join(&t->dir, "state", t->state_dir);
    *state = t;
    return 0;
}

int app_teardown(void **state)
{
    app_fixture *t = *state;
    tide_node_close(t->node);
    TIDE_IGNORE(tempdir_remove(&t->dir, &t->err));
    free(t);
    return 0;
}

static const char python_source[] =
    "import sqlite3, sys\n"
    "db = sqlite3.connect(sys.argv[1], timeout=20, isolation_level=None)\n"
    "cursor = db.cursor()\n"
    "text = ''\n"
    "for line in sys.argv[2].splitlines(True):\n"
    "    text += line\n"
    "    if sqlite3.complete_statement(text):\n"
    "        for row in cursor.execute(text):\n"
    "            print('|'.join('' if v is None else str(v) for v in row))\n"
    "        text = ''\n"
    "if text.strip():\n"
    "    for row in cursor.execute(text):\n"
    "        print('|'.join('' if v is None else str(v) for v in row))\n";

char *app_run(app_fixture *t, app_program program, const char *sql)
{
    const char *shell[] = {"sqlite3", "-bail", "-cmd", ".timeout 20000", t->path, sql, NULL};
    const char *python[] = {"python3", "-c", python_source, t->path, sql, NULL};
    const proc_options options = {.argv = program == APP_SHELL ? shell : python};
    proc_result result = {0};
    assert_ok_err(proc_run(&result, &options, PROGRAM_MS, &t->err), &t->err);
    if (result.exit_code != 0)
        fail_msg("%s: %s", sql, result.err);
    char *out = strdup(result.out);
    proc_result_done(&result);
    return out;
}

void app_write_sql(app_fixture *t, app_program program, const char *sql)
{
    free(app_run(t, program, sql));
}

void assert_app(app_fixture *t, const char *sql, const char *expected)
{
    char *out = app_run(t, APP_SHELL, sql);
    out[strcspn(out, "\n")] = '\0';
    assert_string_equal(out, expected);
    free(out);
}

void app_open(app_fixture *t)
{
    tide_node_close(t->node);
    t->node = NULL;
    const tide_node_options options = {.state_dir = t->state_dir};
    assert_ok_err(tide_node_open(&t->node, t->path, &options, &t->err), &t->err);
}

void app_track(app_fixture *t, const char *table)
{
    tide_tracked tracked;
    if (!t->node)
        app_open(t);
    assert_ok_err(tide_node_track(t->node, table, INT64_C(604800000000), &tracked, &t->err),
                  &t->err);
}

/* ---- the log, as text ---- */

static void print_value(FILE *out, const tide_sql_value *value)
{
    switch (value->kind) {
    case TIDE_SQL_VALUE_NULL:
        (void)fputs("NULL", out);
        break;
    case TIDE_SQL_VALUE_I64:
        (void)fprintf(out, "%" PRId64, value->i64);
        break;
    case TIDE_SQL_VALUE_F64:
        (void)fprintf(out, "%.17gr", value->f64);
        break;
    case TIDE_SQL_VALUE_TEXT:
        (void)fprintf(out, "'%.*s'", (int)value->bytes.len, value->bytes.ptr);
        break;
    case TIDE_SQL_VALUE_BLOB:
        (void)fputs("x'", out);
        for (size_t i = 0; i < value->bytes.len; i++)
            (void)fprintf(out, "%02x", (unsigned char)value->bytes.ptr[i]);
        (void)fputc('\'', out);
        break;
    case TIDE_SQL_VALUE_BOOL:
    case TIDE_SQL_VALUE_TIME:
        fail_msg("no value of SQLite");
    }
}

typedef struct printing {
    const char *table;
    FILE *out;
    bool is_cut;
} printing;

static void print_row(FILE *out, const tide_table *table, const tide_log_row *row)
{
    static const char *const kinds[] = {"create", "update", "delete"};
    (void)fprintf(out, "%s (", kinds[row->kind]);
    for (int i = 0; i < table->key_count; i++) {
        (void)fputs(i > 0 ? "," : "", out);
        print_value(out, &row->values[table->key[i]]);
    }
    (void)fputs(")", out);
    for (int i = 0; i < table->column_count; i++) {
        if (!row->is_written[i] || table->columns[i].is_key)
            continue;
        (void)fprintf(out, " %s=", table->columns[i].name);
        print_value(out, &row->values[i]);
    }
    (void)fputc('\n', out);
}

static tide_status print_log(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    printing *p = arg;
    TIDE_TRY(tide_capture_settle(tx, err));
    TIDE_CLEANUP(tide_table_done) tide_table table = {0};
    TIDE_TRY(tide_table_find(&table, tx, p->table, err));
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    TIDE_TRY(tide_table_query(&query, tx, &table,
                              p->is_cut ? TIDE_TABLE_LOG_CUT : TIDE_TABLE_LOG_READ, err));
    tide_foreign_bind_i64(query, "through", INT64_MAX);
    if (p->is_cut)
        return tide_foreign_run(query, NULL, err);
    tide_foreign_bind_i64(query, "after", 0);
    TIDE_CLEANUP(tide_log_row_done) tide_log_row row = {0};
    TIDE_TRY(tide_log_row_init(&row, &table, err));
    tide_status status = TIDE_OK;
    while ((status = tide_log_next(&row, query, &table, err)) == TIDE_OK)
        print_row(p->out, &table, &row);
    return status < TIDE_OK ? status : TIDE_OK;
}

char *app_log(app_fixture *t, const char *table)
{
    char *text = NULL;
    size_t len = 0;
    printing p = {.table = table, .out = open_memstream(&text, &len)};
    assert_non_null(p.out);
    const tide_status status = tide_foreign_write(tide_node_file(t->node), print_log, &p, &t->err);
    (void)fclose(p.out);
    assert_ok_err(status, &t->err);
    return text;
}

void assert_log(app_fixture *t, const char *table, const char *expected)
{
    char *found = app_log(t, table);
    assert_string_equal(found, expected);
    free(found);
    app_forget(t, table);
}

void app_forget(app_fixture *t, const char *table)
{
    printing p = {.table = table, .is_cut = true};
    assert_ok_err(tide_foreign_write(tide_node_file(t->node), print_log, &p, &t->err), &t->err);
}
