/* duckdb_internal.h - what the files of the DuckDB wrapper share: the library's functions, and
 * their own structs. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "base/buffer.h"
#include "store/duckdb/duckdb.h"
#include "store/duckdb/duckdb_api.h"

/* The library, loaded on the first call that succeeds. */
TIDE_MUST_CHECK tide_status tide_duckdb_load(const tide_duckdb_api **out, const char *path,
                                             tide_error *err);

struct tide_duckdb {
    const tide_duckdb_api *api;
    duckdb_database handle;
    tide_duckdb *next; /* of those that are open; with the file that it is */
    dev_t device;
    ino_t inode;
    pthread_mutex_t lock;  /* tide_duckdb_lock */
    pthread_mutex_t guard; /* of what follows */
    char *wal_path;        /* NULL: in memory */
    int dir_fd;            /* of the directory it lies in; -1: in memory */
    uint64_t wal_inode;    /* the log whose directory entry is known to be on disk */
    int64_t wal_birth_ns;
    tide_duck_cancel *cancel; /* NULL: none */
};

struct tide_duck {
    tide_duckdb *db;
    const tide_duckdb_api *api;
    duckdb_connection handle;
    bool is_open;    /* a transaction */
    tide_duck *next; /* of the same cancellation; under its lock */
};

struct tide_duck_query {
    tide_duck *duck;
    const tide_duckdb_api *api;
    const tide_sql_text *sql; /* NULL: a user's text */
    duckdb_prepared_statement prepared;
    duckdb_result result;
    bool has_result;
    bool is_streaming;
    bool is_at_end;
    bool has_failed_bind;
    int column_count;
    duckdb_logical_type *types;
    duckdb_data_chunk chunk;
    idx_t chunk_size;
    idx_t row; /* of the chunk */
    int column;
    tide_buffer text; /* of cells that are rendered */
};

/* What DuckDB said, as a status and in words (its first line). */
tide_status tide_duck_fail(const tide_duckdb_api *api, duckdb_result *result, const char *what,
                           tide_error *err);
tide_status tide_duck_fail_text(duckdb_error_type type, const char *text, const char *what,
                                tide_error *err);

/* Append a value of any type as text. TIDE_E_LIMIT, TIDE_E_NOMEM of the buffer. */
TIDE_MUST_CHECK tide_status tide_duck_render(const tide_duckdb_api *api, tide_buffer *out,
                                             duckdb_logical_type type, duckdb_vector vector,
                                             idx_t row);
bool tide_duck_is_valid(const tide_duckdb_api *api, duckdb_vector vector, idx_t row);
tide_view tide_duck_string(const duckdb_string_t *string);

/* An empty one; NULL: no memory. */
tide_duck_query *tide_duck_query_new(tide_duck *duck);

/* ---- duckdb_cancel.c ---- */

/* When to interrupt again what does not end: DuckDB forgets an interruption that comes before a
 * statement begins. */
enum { TIDE_DUCK_AGAIN_US = 10000 };

/* Of a connection's database; all do nothing where there is none. */

void tide_duck_cancel_join(tide_duck *duck);
void tide_duck_cancel_leave(tide_duck *duck);
TIDE_MUST_CHECK tide_status tide_duck_cancel_check(const tide_duck *duck, tide_error *err);
