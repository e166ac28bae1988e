/* query_sandbox.h - SQL of callers in a DuckDB that reads the named tables' files and nothing else.
 *
 * A query, a view and the condition of a delete are texts of callers. Each runs in an instance of
 * DuckDB for its tables. Tables are views over their files; before a text of a caller enters, access
 * is reduced to those files and the settings are locked. Functions that change an instance are
 * refused (duckdb_lake.sql). An instance is used again for a query of the same objects and files, if
 * no text that ran in it has failed or called a function that could show or leave something there.
 *
 *     describe   whoever holds the metabase: which objects, by which statements, from which files
 *     run        any process that can read the files; it needs no metabase
 *
 * DuckDB heeds an interruption only between steps, and its memory limit covers its buffers only. So a
 * daemon gives its tide_lake_data a runner, which sends the text to a query process that can be
 * killed (runtime/query/query_process.h). Without a runner the text runs in this process, which is
 * what the command line wants.
 *
 * Threads: as the tide_lake_data. */
#pragma once

#include "lake/data.h"

/* A table or a view as the sandbox has it. */
typedef struct tide_lake_sandbox_object {
    const char *catalog;
    const char *schema;
    const char *name;
    const char *sql;
    bool is_table;   /* sql is ours and reads files; that of a view is a caller's */
    bool is_default; /* also found without its catalog's name */
} tide_lake_sandbox_object;

typedef struct tide_lake_sandbox_query {
    const char *text;
    bool is_checked; /* ours around a condition that was parsed: not checked to be one SELECT */
    const tide_lake_sandbox_object *objects; /* views behind what they name */
    int object_count;
    const char *const *paths; /* whole paths of the files that may be read */
    int path_count;
    int64_t row_max;
    int64_t bytes_max;
    int64_t timeout_us; /* INT64_MAX: none */
    tide_status (*columns)(void *arg, const char *const *names, int count, tide_error *err);
    tide_status (*row)(void *arg, const tide_sql_value *cells, int count, tide_error *err);
    void *arg;
} tide_lake_sandbox_query;

/* A name in a text; parts that are not given are "". */
typedef tide_status tide_lake_name_fn(void *arg, const tide_lake_name *name, tide_error *err);

/* Runs texts of callers elsewhere. Statuses are those of the functions below. */
typedef struct tide_lake_runner {
    tide_status (*each_name)(void *arg, const char *text, tide_lake_name_fn *fn, void *fn_arg,
                             tide_error *err);
    tide_status (*parse)(void *arg, const char *text, bool *is_statement, tide_error *err);
    tide_status (*run)(void *arg, const tide_lake_sandbox_query *query, tide_error *err);
    void *arg;
} tide_lake_runner;

/* Names in a query or in a view's text. TIDE_E_DENIED: it does not only read. */
TIDE_MUST_CHECK tide_status tide_lake_each_name(tide_lake_data *data, const char *text,
                                                tide_lake_name_fn *fn, void *arg, tide_error *err);

/* Is the text one statement, as far as its grammar goes? */
TIDE_MUST_CHECK tide_status tide_lake_sandbox_parse(tide_lake_data *data, const char *text,
                                                    bool *is_statement, tide_error *err);

/* TIDE_E_INVALID, TIDE_E_DENIED: not a statement that only reads. TIDE_E_TIMEOUT, TIDE_E_NOMEM.
 * TIDE_E_LIMIT: more rows or bytes than allowed; those before were handed over. TIDE_E_IO: a file is
 * missing. */
TIDE_MUST_CHECK tide_status tide_lake_sandbox_run(tide_lake_data *data,
                                                  const tide_lake_sandbox_query *query,
                                                  tide_error *err);
