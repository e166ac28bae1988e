/* duckdb_conformance.h - cases that were written for the SQL sinks, on DuckDB.
 *
 * Included before the file of cases: a sink on a store becomes a DuckDB file beside that store (SQLite), and each case runs once. What a case asks
 * of a sink it asks through tide_sink_ops and by SQL that is the same everywhere. */
#pragma once

#include <pthread.h>
#include <stdio.h>

#include "colony/duckdb/duckdb_place.h"
#include "colony/sink.h"
#include "support/store_fixture.h"

/* One sink per file: whoever opens it again shares it, as the threads of a colony do. */
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static tide_sink *shared_sink;
static int shared_count;

static tide_status open_file_beside(tide_sink **out, tide_store *store, tide_error *err)
{
    const char *name = tide_store_name(store);
    const char *path = strncmp(name, "sqlite:", 7) == 0 ? name + 7 : name;
    char beside[1024];
    (void)snprintf(beside, sizeof beside, "%s.duckdb", path);
    duckdb_place();
    return tide_sink_open_duckdb(out, store, beside, NULL, err);
}

static tide_status open_duckdb_beside(tide_sink **out, tide_store *store, tide_error *err)
{
    (void)pthread_mutex_lock(&shared_lock);
    tide_status status = TIDE_OK;
    if (shared_count == 0)
        status = open_file_beside(&shared_sink, store, err);
    if (status == TIDE_OK) {
        shared_count++;
        *out = shared_sink;
    }
    (void)pthread_mutex_unlock(&shared_lock);
    return status;
}

__attribute__((unused)) static void close_shared(tide_sink **sink)
{
    (void)pthread_mutex_lock(&shared_lock);
    if (*sink && --shared_count == 0)
        tide_sink_close(shared_sink);
    *sink = NULL;
    (void)pthread_mutex_unlock(&shared_lock);
}

/* Triggers are the SQL engines' own. */
#undef TEST_FILE
#define TEST_FILE() TEST_FILE_WITHOUT("plain_sql_*")

#define tide_sink_open_sql open_duckdb_beside
#define tide_sink_closep close_shared
#define tide_sink_close(sink) close_shared(&(tide_sink *){sink})
#undef STORE_CASE
#define STORE_CASE(f) STORE_CASE_SQLITE(f)
