/* world.h - replicas in a bad world.
 *
 * Nodes are real SQLite files on disks that lose power. Each has an application that writes to them by plain SQL and knows nothing of replication,
 * and a node (replica/node.h) that syncs with the others over a network that loses, doubles, delays and reorders. Clocks are wrong and
 * jump. Files are wiped, copied, and restored to an earlier state; tables are tracked no more and tracked again, get columns on
 * one node before the others; old events are collected. All that is left to chance comes from the seed.
 *
 *     disk.c           a node: its file, its crashes, what happens to it while it is down
 *     writer.c         its application
 *     net.c            syncs and pages
 *     model.c          which write knew of which
 *     inspect.c        what a file shows, without our code
 *     check.c          what must hold
 *     planted_fault.c  faults that the checks must find
 *     replica_test.c   worlds
 *
 * Judged behind every step: marks of a log never go back while a file lives, and are possible. Now and then: two nodes have equal digests of a table iff
 * they show the same rows. In the end, when all has healed and syncs move nothing: all nodes show the same tables byte for byte
 * and list the same conflicts; every acknowledged write is shown, was replaced or deleted by a write that had seen it, or is listed; nothing is listed that
 * was not lost; nothing is held; an event is the same on all nodes, and a table's events name each other without a gap.
 *
 * A write counts as acknowledged once its COMMIT returned. One whose node was wiped or restored before anybody had its event is gone
 * with the disk: found by its number, which nobody has.
 *
 * Threads: none. */
#pragma once

#include <sqlite3.h>

#include "base/buffer.h"
#include "base/digest.h"
#include "replica/node.h"
#include "replica/peer.h"
#include "support/check.h"
#include "support/disk/fault_vfs.h"
#include "support/sim/sim.h"
#include "support/tempdir.h"

enum {
    WORLD_NODES_MAX = 6,
    WORLD_TABLES = 6,
    WORLD_NAMES_MAX = 6, /* under which a transaction's events may be known */
    WORLD_LOGS_MAX = 128,
};

/* What is done to files in the end, before they are judged: the judges must see it. */
typedef enum replica_planted_fault {
    REPLICA_NO_FAULT,
    REPLICA_CHANGING,   /* a value of one node is another */
    REPLICA_LOSING,     /* a row is gone, everywhere */
    REPLICA_FORGETTING, /* nothing is listed any more */
    REPLICA_INVENTING,  /* a value that is shown is listed, everywhere */
    REPLICA_HOLDING,    /* an event is held */
    REPLICA_SINKING,    /* a log's marks are those of the beginning */
} replica_planted_fault;

typedef struct world world;

/* ---- what a file shows ---- */

typedef struct shown_cell {
    tide_digest128 id; /* of table, key, column and value */
    char text[80];     /* for people */
    int table;
    bool is_token; /* a value that only one statement ever wrote */
} shown_cell;

typedef struct shown {
    shown_cell *cells; /* ascending by id */
    int count;
    int capacity;
} shown;

/* ---- what was written ---- */

/* Under which numbers the changes of a transaction are events: (after, last] of an origin's epoch. */
typedef struct written_name {
    tide_node_id origin;
    int64_t epoch;
    int64_t after;
    int64_t last;
} written_name;

typedef enum written_fate {
    WRITTEN_GONE, /* nobody has it */
    WRITTEN_HERE,
    WRITTEN_PARTLY,
} written_fate;

typedef struct written_tx {
    int node;
    bool
        is_uncaptured; /* of a table that was not tracked then: without a name until it is tracked again */
    int table;         /* of an uncaptured one */
    bool
        is_rescanned; /* what was not captured was found by comparing: only what differs in the end has events */
    bool
        is_unsure; /* of a column that nobody has looked at: maybe somebody writes over it before it is */
    bool is_told_again; /* by a file that was restored or copied before the change was folded */
    written_name names[WORLD_NAMES_MAX];
    int name_count;
    written_fate fate; /* in the end */
} written_tx;

typedef struct written_cell {
    tide_digest128 id;
    char text[80];
    bool is_token;
    int by;       /* transaction */
    int *gone_by; /* transactions that saw it and removed it */
    int gone_count;
} written_cell;

typedef struct model {
    written_tx *txs;
    int tx_count;
    written_cell *cells;
    int cell_count;
    int cell_capacity;
    int tx_capacity;
} model;

/* ---- nodes ---- */

/* The sim's clock, set by somebody. */
typedef struct world_clock {
    tide_env env;
    tide_env *base;
    int64_t offset_us;
} world_clock;

/* Who a file was, and how far, when it was copied. */
typedef struct world_past {
    bool is_set;
    tide_node_id id;
    int64_t epoch;
    int64_t folded; /* its own log was folded through here */
    int64_t last;   /* the number given last */
} world_past;

typedef struct world_node {
    world *w;
    sim_id id;
    int index;
    char name[8];
    tempdir dir, scratch, state;
    char path[TEMPDIR_PATH_MAX];
    fault_vfs *disk; /* NULL while down */
    tide_node *node;
    sqlite3 *writer;
    world_clock clock;
    bool is_new;  /* there is no file: made when it starts */
    bool has_app; /* the application makes its tables itself; otherwise peers offer them */
    bool has_foreign_keys;
    bool has_recursion;
    bool is_untracked[WORLD_TABLES];
    tempdir saved; /* an older state of the file */
    world_past saved_past;
    world_past past; /* of the file that it is about to open, where it comes from elsewhere */
    tide_origin_mark marks[WORLD_LOGS_MAX]; /* seen last */
    int mark_count;
    bool is_writing; /* a transaction's outcome is not known yet */
    shown before;    /* it */
    int64_t before_seq;
} world_node;

typedef struct world_tally {
    int64_t transactions, refused, syncs, proven, broken, pages, late, collected, wipes, restores,
        copies, cut, bootstraps, conflicts, asides, held, alters, untracks, gone;
} world_tally;

struct world {
    sim *sim;
    replica_planted_fault planted;
    int64_t calm_from_us;
    world_node nodes[WORLD_NODES_MAX];
    int count;
    int64_t cut_until_us[WORLD_NODES_MAX][WORLD_NODES_MAX];
    int64_t token;
    int64_t wall_max_us; /* any node's clock has ever shown */
    bool with_collecting;
    bool with_altering;
    bool with_untracking;
    bool with_untracked_parents; /* of tables with foreign keys, too */
    bool has_orphans;            /* an application has committed some */
    bool with_skew;
    bool with_disasters;
    bool has_table[WORLD_TABLES]; /* the application's tables in this world */
    bool is_altered[WORLD_TABLES];
    model model;
    world_tally tally;
};

extern const char *const world_tables[WORLD_TABLES];
extern const char *const world_schemas[WORLD_TABLES];
#define WORLD_RETAIN_US INT64_C(700000)

uint64_t world_below(world *w, uint64_t n);
/* True with a chance of one in n, and never when it is calm. */
bool world_happens(world *w, uint64_t n);
bool world_is_calm(const world *w);

/* ---- disk.c ---- */

void world_node_init(world_node *n, world *w, int index);
void world_node_done(world_node *n);
/* Open file and node after a start. A failure that no power cut explains is the world's. */
void world_node_open(world_node *n);
bool world_node_is_up(const world_node *n);
/* The power may fail at one of the next writes. */
void world_node_arm(world_node *n);
/* Did it? Then it goes down, and true is returned. */
bool world_node_fell(world_node *n);
/* A call has failed: fine when the power has, otherwise the world fails. */
void world_node_must(world_node *n, tide_status status, const tide_error *err, const char *what);
/* Its file becomes a copy of another's: it is another node. */
void world_node_copy(world_node *n, const world_node *from);
/* A database and its log, from one directory into another. */
void world_files_copy(const char *from_dir, const char *to_dir);
/* Its file is saved as it is. */
void world_node_save(world_node *n);
/* Can its file be copied without a word about tables that it does not capture? */
bool world_node_is_whole(const world_node *n);
void world_node_untrack(world_node *n, int table);
void world_node_track(world_node *n, int table);
void world_node_alter(world_node *n, int table);

/* ---- writer.c ---- */

void world_write(world_node *n);
/* What became of the transaction that a crash has cut off. */
void world_write_settle(world_node *n);

/* ---- inspect.c ---- */

void shown_take(shown *out, sqlite3 *db);
void shown_done(shown *of);
const shown_cell *shown_find(const shown *of, const tide_digest128 *id);
/* Cells of conflicts that are listed, and of rows that are kept aside. */
void shown_take_listed(shown *conflicts, shown *aside, sqlite3 *db);
/* All rows of a query, every value with its class and all its bytes; to be freed by sqlite3_free. */
char *look_dump(sqlite3 *db, const char *query);
/* The first number; missing where there is none. */
int64_t look_number(sqlite3 *db, const char *query, int64_t missing);
bool look_has_table(sqlite3 *db, const char *table);
bool look_has_column(sqlite3 *db, const char *table, const char *column);

/* ---- model.c ---- */

/* A transaction has turned `before` into `after`, with the numbers (first, last]. */
void model_commit(model *m, const world_node *n, const shown *before, const shown *after,
                  int64_t after_seq, int64_t last_seq);
/* Uncaptured writes of a table have become events. */
void model_captured(model *m, const world_node *n, int table, int64_t after_seq, int64_t last_seq);
/* What was captured but not folded in a file that is now this node, in this epoch. */
void model_told_again(model *m, const world_node *n, const tide_node_id *was, int64_t was_epoch,
                      int64_t folded, int64_t last);
/* A file was restored before anybody had been told of the numbers above last: it gives them again. */
void model_given_again(model *m, const tide_node_id *origin, int64_t epoch, int64_t last);
/* The file is gone, and with it what was not captured. */
void model_forget_uncaptured(model *m, const world_node *n);
/* What has become of the transactions, as one who has all events sees it. */
void model_decide(model *m, world_node *n);
void model_done(model *m);

/* ---- net.c ---- */

/* A sync with a random other; false: there was none. */
void world_sync(world_node *n);
/* Without faults. *moved: events that were new to one of them. */
tide_status world_sync_calmly(world_node *here, world_node *there, int64_t *moved, tide_error *err);
void world_send_page(world_node *n);
void world_receive_page(world_node *n, tide_view message);

/* ---- check.c ---- */

/* After something was done to it. */
void world_check_marks(world_node *n);
void world_check_digests(world_node *a, world_node *b);
/* ---- planted_fault.c ---- */

/* Plant the world's fault, if it has one. */
void world_plant_fault(world *w);

/* Heal all, sync until nothing moves, and judge. */
void world_expect_end(world *w);
