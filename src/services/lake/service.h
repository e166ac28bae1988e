/* service.h - the methods of tidemark.lake.v1, for the files of this folder.
 *
 * A method is a function from a request's message to the bytes of its answer. Plain ones run on the front's threads, slow ones at a desk.
 *
 * Threads: methods run side by side. */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "base/buffer.h"
#include "base/digest.h"
#include "lake/file_digest.h"
#include "lake/work.h"
#include "net/call/call.h"
#include "runtime/query/query_pool.h"
#include "services/api/rpc.h"
#include "services/lake/duckdb_pool.h"
#include "services/lake/messages.h"
#include "services/lake/metrics.h"
#include "services/lake/recent_conflicts.h"
#include "services/lake/upload_buffer.h"

enum {
    TIDE_LAKED_OPERATIONS_MAX = 1000, /* of one commit */
    TIDE_LAKED_TEXT_MAX = 1 << 20,    /* bytes of a statement or a condition */
    TIDE_LAKED_UPLOADS_MAX = 16,      /* streams of rows at once */
    TIDE_LAKED_SNAPSHOTS_MAX = 10000, /* of one answer */
    TIDE_LAKED_DIFFERENCES_MAX = 100000,
    TIDE_LAKED_FILES_MAX = 10000,    /* of one answer */
    TIDE_LAKED_ROWS_DEFAULT = 10000, /* of a query's answer */
    TIDE_LAKED_ROWS_MAX = 10000000,
    TIDE_LAKED_RESPONSE_MAX = 32 << 20, /* bytes of a query's answer */
    TIDE_LAKED_WAIT_MAX_MS = 60000,
};
#define TIDE_LAKED_KEEP_US INT64_C(60000000)     /* of one Expire or Cleanup */
#define TIDE_LAKED_VERIFY_US INT64_C(3600000000) /* of one Verify */

struct tide_laked {
    tide_store *store;
    const char *store_url;      /* NULL: none */
    const char *duckdb_library; /* NULL: found as store/duckdb/duckdb.h says */
    tide_lake *lake;
    tide_lake_seen_files *seen; /* files whose digests were compared */
    tide_env *env;
    tide_log *log; /* NULL: none */
    tide_long_poll *waiter;
    tide_duckdb_pool *desks;
    tide_query_pool *queries;       /* of the listener */
    tide_query_target query_target; /* the data directory */
    tide_lake_metrics *metrics;
    tide_refusals refusals;
};
typedef struct tide_laked tide_laked;

/* One call that is being answered. */
typedef struct tide_lake_turn {
    tide_laked *laked;
    tide_call *call;
    tide_duckdb_thread *desk; /* NULL: of a plain method */
    tide_buffer out;          /* the answer */
    bool is_parked;           /* somebody else answers */
    /* What a refused commit collided with: snapshot_id 0, nothing. */
    tide_lake_collision collision;
    int64_t base;
    char catalog[TIDE_LAKE_NAME_MAX + 1];
} tide_lake_turn;

typedef tide_status tide_laked_fn(tide_lake_turn *turn, const ProtobufCMessage *request,
                                  tide_error *err);

/* The argument is a tide_laked. */
extern const tide_method tide_laked_methods[];

/* Decode, have fn answer, end the call. */
/* End the call as its status wants it; a collision is told in the details. */
void tide_laked_end(tide_lake_turn *turn, tide_status status, const tide_error *err);

/* ---- what methods share ---- */

/* A bound of a request: 0 is `standard`. TIDE_E_INVALID: below 0 or above most. */
TIDE_MUST_CHECK tide_status tide_laked_bound(int64_t *out, int64_t given, int64_t standard,
                                             int64_t most, const char *what, tide_error *err);
/* Is the caller gone, or his time over? What is not committed then need not be. */
TIDE_MUST_CHECK tide_status tide_laked_check_caller(const tide_lake_turn *turn, tide_error *err);
/* Until when something may go on, on the env's monotonic clock: most_us, or the call's deadline. */
int64_t tide_laked_until(const tide_lake_turn *turn, int64_t most_us);
/* given may be NULL. Texts are borrowed from it and the call. */
tide_lake_commit_options tide_laked_commit_options(const tide_lake_turn *turn,
                                                   const LAKE(CommitOptions) * given,
                                                   tide_view hash);

/* Snapshots above `after` as occurrences of field 1, of one consistent look. TIDE_E_NOT_FOUND: no such catalog. */
typedef struct tide_lake_page {
    tide_buffer *out; /* cleared by each look */
    int64_t count;
    int64_t last; /* `after`, where there was none */
    int64_t head;
    int64_t catalog_id;
} tide_lake_page;

/* ---- changes (service_change.c, service_append.c) ---- */

/* What is asked, for its request key: the catalog, then each operation without its rows, then the rows. */
TIDE_MUST_CHECK tide_status tide_laked_hash_catalog(tide_sha256 *sha, const char *catalog,
                                                    tide_error *err);
TIDE_MUST_CHECK tide_status tide_laked_hash_operation(tide_sha256 *sha, const LAKE(Operation) * op,
                                                      tide_error *err);
TIDE_MUST_CHECK tide_status tide_laked_hash_end(tide_sha256 *sha, int64_t rows_len,
                                                tide_error *err);

/* Carry out operations as one snapshot, and answer. spool: rows of the one append, if they came as a stream; NULL: they are in it. */
typedef struct tide_lake_asked {
    const char *catalog;
    LAKE(Operation) * *operations;
    size_t count;
    const LAKE(CommitOptions) * commit; /* may be NULL */
    const tide_spool *spool;
    const uint8_t *hash; /* TIDE_SHA256_LEN bytes */
} tide_lake_asked;
TIDE_MUST_CHECK tide_status tide_laked_change(tide_lake_turn *turn, const tide_lake_asked *asked,
                                              tide_error *err);

tide_laked_fn tide_laked_commit;
tide_laked_fn tide_laked_create_schema;
tide_laked_fn tide_laked_drop_schema;
tide_laked_fn tide_laked_create_table;
tide_laked_fn tide_laked_alter_table;
tide_laked_fn tide_laked_drop_table;
tide_laked_fn tide_laked_create_view;
tide_laked_fn tide_laked_alter_view;
tide_laked_fn tide_laked_drop_view;
tide_laked_fn tide_laked_append;
tide_laked_fn tide_laked_delete;
tide_call_fn tide_laked_append_stream;

/* service_catalog.c */
tide_laked_fn tide_laked_create_catalog;
tide_laked_fn tide_laked_list_catalogs;
tide_laked_fn tide_laked_fork_catalog;
tide_laked_fn tide_laked_drop_catalog;
tide_laked_fn tide_laked_next_snapshot_id;
/* service_list.c */
tide_laked_fn tide_laked_list_schemas;
tide_laked_fn tide_laked_list_tables;
tide_laked_fn tide_laked_diff;
/* service_files.c */
tide_laked_fn tide_laked_list_files;
tide_laked_fn tide_laked_list_conflicts;
/* Of a turn whose collision is set; author: of what was refused, NULL: nobody knows. */
void tide_laked_note_refusal(const tide_lake_turn *turn, const char *author);
/* service_query.c: it waits for a thread of its own. arg: the tide_laked. */
tide_call_fn tide_laked_run_query;
/* service_watch.c */
tide_laked_fn tide_laked_list_snapshots;
tide_call_fn tide_laked_watch;
/* service_maintenance.c */
tide_laked_fn tide_laked_expire;
tide_laked_fn tide_laked_cleanup;
tide_laked_fn tide_laked_compact;
tide_laked_fn tide_laked_verify;
