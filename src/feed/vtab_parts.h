/* vtab_parts.h - what the files of the virtual tables share. See vtab.h.
 *
 *     vtab.c         modules, functions, a table's columns
 *     vtab_plan.c    what SQLite asks for becomes a plan, and a plan with values the bounds of a scan
 *     vtab_cursor.c  walks: batches by the index, heads, bodies, records
 *     vtab_value.c   the columns of a row
 *     vtab_value.c    statements of the catalogue on somebody's connection
 *     vtab_number.c  nextval, currval
 */
#pragma once

/* In the extension every sqlite3_ function is a call through the table that the host's SQLite hands over. */
#ifdef TIDE_VTAB_EXTENSION
#include <sqlite3ext.h>
SQLITE_EXTENSION_INIT3
#else
#include <sqlite3.h>
#endif

#include <tidemark/env.h>
#include <tidemark/store.h>

#include "base/buffer.h"
#include "feed/batch.h"
#include "feed/record.h"

enum {
    TIDE_VTAB_SCHEMA_MAX = 128,  /* bytes of a schema's name */
    TIDE_VTAB_SERVICES_MAX = 64, /* names that one query passes over batches by */
    TIDE_VTAB_VALUE_MAX = 256,   /* bytes of a service or time that is pushed down */
};

/* What a connection's queries have read. */
typedef struct tide_vtab_counters {
    int64_t heads;   /* of batches, looked at */
    int64_t passed;  /* batches passed over by their heads */
    int64_t opened;  /* batches unpacked */
    int64_t reused;  /* batches that were still unpacked from before */
    int64_t damaged; /* batches left out because skip_damaged said so */
} tide_vtab_counters;

/* One per connection, shared by its modules and functions; the last of them frees it. */
typedef struct tide_vtab_connection {
    tide_env *env;
    tide_vtab_counters counters;
    int users;
} tide_vtab_connection;

/* ---- vtab.c ---- */

typedef struct tide_vtab {
    sqlite3_vtab base; /* first: SQLite's own */
    sqlite3 *db;
    tide_vtab_connection *connection;
    char schema[TIDE_VTAB_SCHEMA_MAX + 1];
    char stream[TIDE_FEED_NAME_MAX + 1];
    int64_t stream_id;
    const tide_stream_type *type;
} tide_vtab;

/* Columns: seq_id, those of the record, then these. */
enum {
    TIDE_VTAB_ARRIVED_AT = 1, /* behind the record's: column_count + this */
    TIDE_VTAB_EPOCH,
    TIDE_VTAB_BATCH_ID,
    TIDE_VTAB_SKIP_DAMAGED,
};

/* Leave the words for SQLite and return code. */
int tide_vtab_fail(tide_vtab *table, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- vtab_value.c ---- */

/* Prepare a statement of the catalogue for a schema. A failure leaves its words with db. */
int tide_vtab_prepare(sqlite3_stmt **out, sqlite3 *db, const tide_sql *sql, const char *schema);
/* The text of a statement with the first place of word taken by another. TIDE_E_LIMIT, TIDE_E_NOMEM. */
TIDE_MUST_CHECK tide_status tide_vtab_replace(tide_buffer *out, const tide_sql *sql,
                                              const char *word, const char *other);
/* The place of a parameter that the statement has, for sqlite3_bind_*. */
int tide_vtab_param(const tide_sql *sql, const char *name);
void tide_vtab_finalizep(sqlite3_stmt **statement);

/* ---- vtab_plan.c ---- */

/* Which batches and numbers a query wants; everything is rechecked by SQLite, so bounds may be wide but never narrow. */
typedef struct tide_vtab_scan {
    bool is_empty; /* a comparison with NULL: nothing fits */
    bool is_down;  /* from the highest number on */
    bool needs_body;
    bool skips_damaged;
    int64_t first_seq;
    int64_t last_seq;
    int64_t first_time_ms;
    int64_t last_time_ms;
    char first_arrived[TIDE_VTAB_VALUE_MAX + 1]; /* "": no bound */
    bool has_last_arrived;
    char last_arrived[TIDE_VTAB_VALUE_MAX + 1];
    bool has_services; /* only records of one of these; none of them: of no service at all */
    int service_count;
    char services[TIDE_VTAB_SERVICES_MAX][TIDE_VTAB_VALUE_MAX + 1];
} tide_vtab_scan;

int tide_vtab_best_index(sqlite3_vtab *base, sqlite3_index_info *info);
/* What the plan (of tide_vtab_best_index) says with these values. */
void tide_vtab_scan_of(tide_vtab_scan *scan, int plan, const char *terms, sqlite3_value **values);
/* May this batch hold rows that are wanted, by its head? */
bool tide_vtab_scan_wants(const tide_vtab_scan *scan, const tide_batch_head *head);

/* ---- vtab_cursor.c ---- */

typedef struct tide_vtab_cursor {
    sqlite3_vtab_cursor base; /* first: SQLite's own */
    tide_vtab *table;
    tide_vtab_scan scan;
    sqlite3_stmt *up;    /* vtab_walk_up; prepared when first needed, as the others */
    sqlite3_stmt *down;  /* vtab_walk_down */
    sqlite3_stmt *batch; /* vtab_batch */
    sqlite3_stmt *walk;  /* the one of up and down that is under way; NULL: the end */

    /* the batch that the cursor is in */
    tide_batch_head head; /* its services are gone */
    int64_t seq;          /* of the row */

    /* the batch that is unpacked, which may be an earlier one */
    bool is_open;
    int64_t open_id;
    int64_t open_first;
    uint32_t open_crc; /* of its head: a new batch may get an old one's id */
    tide_buffer raw;
    uint32_t *offsets; /* of its records */
    int record_count;

    /* the record that is decoded */
    int64_t row_seq; /* 0: none */
    tide_record_row row;
    tide_buffer text; /* of a column */
} tide_vtab_cursor;

int tide_vtab_open(sqlite3_vtab *table, sqlite3_vtab_cursor **out);
int tide_vtab_close(sqlite3_vtab_cursor *base);
int tide_vtab_filter(sqlite3_vtab_cursor *base, int plan, const char *terms, int count,
                     sqlite3_value **values);
int tide_vtab_next(sqlite3_vtab_cursor *base);
int tide_vtab_eof(sqlite3_vtab_cursor *base);
int tide_vtab_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out);

/* ---- vtab_value.c ---- */

int tide_vtab_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column);

/* ---- vtab_number.c ---- */

/* SQL functions; their user data is the connection. */
void tide_vtab_nextval(sqlite3_context *context, int count, sqlite3_value **values);
void tide_vtab_currval(sqlite3_context *context, int count, sqlite3_value **values);
