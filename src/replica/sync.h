/* sync.h - two nodes bring each other up to date.
 *
 * What a node can be asked is a tide_peer: a struct of functions, made of a node in this process (peer.h), of one behind a network
 * (replicad/), or of a test's memory. A sync is computed over two of them, `here` and `there`, and knows nothing else.
 *
 *     marks      both look at their files (captured changes become events) and tell how far every log is; each keeps the other's as
 *                its acknowledgement
 *     tables     what one of them does not have is offered to it; so is what tables were like before (schemas.h)
 *     pull       for every log of theirs, by origin and epoch: what lies above our prefix, page by page, in whole batches
 *     push       the same with the roles exchanged
 *     proof      marks again: everything that either had at the beginning is at both. Otherwise once more, as long as
 *                something moves; a sync that does not move says what stands in its way
 *
 * So logs travel over any path that peers make, and what is known already settles by its position. The cut that is proven is that of
 * the beginning: writers that go on writing do not keep a sync from ending.
 *
 * Below the other's floor events are gone: `bootstrap` is asked to bring a snapshot, once; without one the sync fails and says so. One
 * log that cannot be moved does not hold up the others.
 *
 * Survives: every page is one transaction of its receiver; a sync that breaks off anywhere is begun again and goes on.
 * Threads: as those of the peers.
 * Limits: below. A peer that lies about its marks costs at most TIDE_SYNC_ROUNDS_MAX rounds, and one page per log and round. */
#pragma once

#include "replica/node.h"

enum {
    TIDE_SYNC_ROUNDS_MAX = 100,
    TIDE_SYNC_PAGE_ROWS = 5000,
    TIDE_SYNC_PAGE_BYTES = 4 << 20,
    TIDE_SYNC_PAGE_BYTES_MAX = 40 << 20, /* of a page that is taken: one event may be large */
    TIDE_SYNC_ORIGINS_MAX = 100000,      /* logs of a node */
    TIDE_SYNC_TABLES_MAX = 10000,
    TIDE_SYNC_TABLE_SQL_MAX = 64, /* statements of a table */
    TIDE_SYNC_SCHEMAS_MAX = 1000, /* that a table has had, and former names */
    TIDE_SYNC_SCHEMA_BYTES_MAX = 1 << 20,
    TIDE_SYNC_UNLIKE_MAX = 512, /* of the words for tables that are made otherwise */
};

/* ---- what is exchanged ---- */

/* A schema that a table has had, by its digest (schemas.h). Views of memory of the table. */
typedef struct tide_peer_schema {
    uint64_t schema;
    tide_view columns; /* names, with NUL between */
    tide_view becomes; /* what each of them is called now; "": it was dropped */
    tide_view key;     /* positions of the key's columns, 4 bytes each */
} tide_peer_schema;

/* How a table is created where it is not, and what it was like before. */
typedef struct tide_peer_table {
    char name[TIDE_EVENT_TABLE_MAX + 1];
    uint64_t schema;
    int64_t retain_us;
    char **sql; /* the table, then its indexes; NULL at the end */
    tide_peer_schema *schemas;
    int schema_count;
    char **former; /* names */
    int former_count;
    /* References that hold no rows back (references.h): for each a length of 4 bytes and the names of
     * its columns. In snapshots alone; between nodes their events travel. Memory of the table. */
    tide_view loose;
    tide_view form; /* what it makes of values (form.h). Empty: not told. Memory of the table */
} tide_peer_table;

typedef struct tide_peer_marks {
    tide_node_id node;
    int64_t epoch;
    tide_origin_mark *origins; /* ascending by origin and epoch, once each */
    int origin_count;
    tide_peer_table *tables;
    int table_count;
    int64_t quarantined; /* events that are there and not merged (quarantine.h) */
    int64_t waiting;     /* of those: for their time */
} tide_peer_marks;

void tide_peer_marks_done(tide_peer_marks *marks); /* fits TIDE_CLEANUP on {0} */
/* TIDE_E_LIMIT, TIDE_E_NOMEM, TIDE_E_INVALID: numbers that cannot be (a prefix above the highest, below the floor, ...). */
TIDE_MUST_CHECK tide_status tide_peer_marks_add(tide_peer_marks *marks,
                                                const tide_origin_mark *mark, tide_error *err);
/* The statements are copied. */
TIDE_MUST_CHECK tide_status tide_peer_marks_add_table(tide_peer_marks *marks, const char *name,
                                                      uint64_t schema, int64_t retain_us,
                                                      const char *const *sql, tide_error *err);
void tide_peer_marks_cut_tables(tide_peer_marks *marks);
/* Copied. TIDE_E_LIMIT, TIDE_E_NOMEM. */
TIDE_MUST_CHECK tide_status tide_peer_table_add_schema(tide_peer_table *table, uint64_t schema,
                                                       tide_view columns, tide_view becomes,
                                                       tide_view key, tide_error *err);
TIDE_MUST_CHECK tide_status tide_peer_table_add_former(tide_peer_table *table, tide_view name,
                                                       tide_error *err);
TIDE_MUST_CHECK tide_status tide_peer_table_set_form(tide_peer_table *table, tide_view form,
                                                     tide_error *err);
/* Does it know all schemas and names of the other? */
bool tide_peer_table_knows(const tide_peer_table *table, const tide_peer_table *other);
/* To be called when all were added: sorts. TIDE_E_INVALID: one twice. */
TIDE_MUST_CHECK tide_status tide_peer_marks_sort(tide_peer_marks *marks, tide_error *err);
/* NULL: no such log. */
const tide_origin_mark *tide_peer_marks_find(const tide_peer_marks *marks,
                                             const tide_node_id *origin, int64_t epoch);
const tide_peer_table *tide_peer_marks_table(const tide_peer_marks *marks, const char *name);

/* Events of one log. */
typedef struct tide_peer_page {
    tide_buffer bytes;
    size_t *ends; /* of each event in bytes */
    int count;
    int64_t through;
    bool has_more;
    bool needs_snapshot;
    int64_t floor;
} tide_peer_page;

void tide_peer_page_init(tide_peer_page *page);
void tide_peer_page_done(tide_peer_page *page); /* fits TIDE_CLEANUP */
void tide_peer_page_clear(tide_peer_page *page);
/* The bytes are copied. */
TIDE_MUST_CHECK tide_status tide_peer_page_add(tide_peer_page *page, tide_view event,
                                               tide_error *err);
tide_view tide_peer_page_event(const tide_peer_page *page, int index);

/* ---- a peer ---- */

typedef struct tide_peer tide_peer;
struct tide_peer {
    void *arg;
    const char *name; /* for messages */

    /* How far it is, after it has looked at its file. others: what the other node has, to be kept as its acknowledgement; NULL: nothing. */
    tide_status (*marks)(void *arg, const tide_peer_marks *others, tide_peer_marks *out,
                         tide_error *err);
    /* Is what the other has of our log, and of others', what we have? *has_begun: a new epoch, so marks have to be asked for again. Of the node that syncs;
     * NULL at the other. */
    tide_status (*compare)(void *arg, const tide_peer_marks *others, bool *has_begun, bool *differs,
                           tide_error *err);
    /* Create those of these tables that are not there, and learn what they were like before. */
    tide_status (*offer)(void *arg, const tide_peer_table *tables, int count, int *created,
                         tide_error *err);
    /* The page is cleared first. page->needs_snapshot is not a failure. */
    tide_status (*read)(void *arg, const tide_node_id *origin, int64_t epoch, int64_t after,
                        int64_t max_rows, int64_t max_bytes, tide_peer_page *page, tide_error *err);
    /* Take a page of the log that mark is of, as its sender has it. */
    tide_status (*push)(void *arg, const tide_origin_mark *mark, const tide_peer_page *page,
                        tide_applied *out, tide_error *err);
};

/* ---- a sync ---- */

typedef struct tide_sync_options {
    bool is_pull_only;
    bool is_push_only;
    int64_t page_rows;  /* 0: TIDE_SYNC_PAGE_ROWS */
    int64_t page_bytes; /* 0: TIDE_SYNC_PAGE_BYTES */
    /* Bring here what lies below their floor. NULL: nobody can. */
    tide_status (*bootstrap)(void *arg, tide_error *err);
    void *arg;
    /* Asked between pages: end? NULL: never. */
    bool (*is_over)(void *arg);
} tide_sync_options;

typedef struct tide_sync_result {
    tide_node_id node; /* of the other */
    int64_t epoch;
    tide_applied pulled;
    tide_applied pushed;
    int tables_created; /* here and there */
    int rounds;
    bool has_bootstrapped;
    bool differs; /* numbers stand for different events: tables have to be compared (self.h) */
    int64_t quarantined; /* here, at last: in the log, and not in the tables */
    int64_t waiting;     /* of those: for their time */
    int64_t peer_quarantined;
    int64_t peer_waiting;
    char unlike[TIDE_SYNC_UNLIKE_MAX]; /* tables that are made otherwise there; "": none */
    bool
        is_proven; /* everything that was at one of them is at both (of the directions asked for) */
} tide_sync_result;

/* TIDE_OK: proven. Otherwise why not: TIDE_E_CONFLICT: the other is this node itself, or nothing moves. TIDE_E_NOT_FOUND: a snapshot is
 * required and there is none. TIDE_E_INTERRUPTED; failures of the peers. *out tells what was done in any case. */
TIDE_MUST_CHECK tide_status tide_sync(tide_peer *here, tide_peer *there,
                                      const tide_sync_options *options, tide_sync_result *out,
                                      tide_error *err);
