/* world.h - several nodes in one process: real SQLite files, written by plain connections as any program would write them, and pages of events that are
 * carried between them by hand, late, twice or never. */
#pragma once

#include <sqlite3.h>

#include "base/buffer.h"
#include "replica/node.h"
#include "support/check.h"
#include "support/clock/virtual_env.h"
#include "support/prng.h"
#include "support/tempdir.h"

enum { WORLD_NODES_MAX = 5, WORLD_MARKS_MAX = 64, WORLD_PAGE_MAX = 4096 };

typedef struct world_node {
    char path[TEMPDIR_PATH_MAX];
    virtual_env env;
    tide_node *node;
    sqlite3 *writer; /* knows nothing of replication */
} world_node;

typedef struct world {
    tempdir dir;
    int count;
    world_node nodes[WORLD_NODES_MAX];
    tide_error err;
} world;

/* A page on its way. */
typedef struct world_page {
    tide_view events[WORLD_PAGE_MAX]; /* copies */
    int count;
    int64_t through;
    bool more;
} world_page;

/* Nodes with the tables of a schema, the named ones (NULL at the end) tracked with this retention. */
void world_init(world *w, int count, uint64_t seed, const char *schema, const char *const *tables,
                int64_t retain_us);
void world_done(world *w);
void world_reopen(world *w, int node);
void world_advance(world *w, int64_t us);

/* SQLITE_OK or the error of a statement; what it did is committed. */
int world_try(world *w, int node, const char *format, ...) TIDE_PRINTF(3, 4);
void world_run(world *w, int node, const char *format, ...) TIDE_PRINTF(3, 4);
/* The first column of the first row. */
int64_t world_number(world *w, int node, const char *format, ...) TIDE_PRINTF(3, 4);
/* All rows of a query as text, with the classes of their values; to be freed. */
char *world_dump(world *w, int node, const char *query);

void world_fold(world *w, int node);
int world_marks(world *w, int node, tide_origin_mark out[WORLD_MARKS_MAX]);
int64_t world_prefix(world *w, int node, const tide_node_id *origin, int64_t epoch);
tide_status world_read(world *w, int node, const tide_origin_mark *of, int64_t after, int64_t rows,
                       world_page *out);
void world_page_done(world_page *page);
tide_applied world_apply(world *w, int node, const world_page *page);
/* Everything that `from` has and `to` does not. True: something moved. */
bool world_pull(world *w, int to, int from, int64_t rows);
/* Until nobody has anything that another has not. */
void world_settle(world *w);
/* Everybody tells everybody how far it has come. */
void world_acknowledge(world *w, int64_t lease_us);

/* All nodes show the same tables, digests and conflicts. */
void world_assert_same(world *w, const char *const *tables, bool with_conflicts);
