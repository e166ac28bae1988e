#include "demo/demo_replica.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <poll.h>
#include <pthread.h>
#include <sqlite3.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/thread.h"
#include "replica/node.h"
#include "tidemark_templates.h"

enum {
    SHOPS = 2,
    PATH_SIZE = 4096,
    TURN_MS = 1000,
    BUSY_MS = 2000,
    CONFLICT_TURNS = 20, /* between two counts of the same shelf */
    SHIP_TURNS = 2,
    PRUNE_TURNS = 30,
};

#define COLLECT_US INT64_C(60000000)
#define SNAPSHOT_US INT64_C(60000000) /* one is soon there to be looked at */

static const char *const shops[SHOPS] = {"north", "south"};
static const char *const tables[] = {"orders", "stock"};
static const char *const items[] = {"teapot", "lamp", "kettle", "chair", "clock", "rug"};
enum { TABLES = sizeof tables / sizeof tables[0], ITEMS = sizeof items / sizeof items[0] };

struct tide_demo_replica {
    tide_env *env;
    tide_log *log;
    char files[SHOPS][PATH_SIZE];
    sqlite3 *connections[SHOPS]; /* the writer's */
    int waker;
    pthread_t thread;
    bool has_thread;
    atomic_bool is_over;
    int64_t turn;
};

/* ---- writing, as any program would ---- */

static tide_status fail(sqlite3 *db, const char *file, tide_error *err)
{
    return tide_fail(err, TIDE_E_IO, "%s: %s", file,
                     db ? sqlite3_errmsg(db) : tide_status_get(TIDE_E_NOMEM)->text);
}

static tide_status open_plain(tide_demo_replica *replica, int shop, tide_error *err)
{
    sqlite3 **db = &replica->connections[shop];
    if (sqlite3_open(replica->files[shop], db) != SQLITE_OK)
        return fail(*db, replica->files[shop], err);
    (void)sqlite3_busy_timeout(*db, BUSY_MS);
    return TIDE_OK;
}

static void bind(sqlite3_stmt *statement, const char *name, const char *text, int number)
{
    const int at = sqlite3_bind_parameter_index(statement, name);
    if (at > 0 && text)
        (void)sqlite3_bind_text(statement, at, text, -1, SQLITE_STATIC);
    else if (at > 0)
        (void)sqlite3_bind_int(statement, at, number);
}

/* One statement in a transaction of its own. A shop that finds its file busy tries again at its
 * next turn. */
static void write_one(tide_demo_replica *replica, int shop, const tide_template *template,
                      const char *item, int number)
{
    sqlite3 *db = replica->connections[shop];
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(db, template->text, -1, &statement, NULL);
    if (code == SQLITE_OK) {
        bind(statement, ":shop", shops[shop], 0);
        bind(statement, ":item", item, 0);
        bind(statement, ":number", NULL, number);
        code = sqlite3_step(statement);
    }
    if (code != SQLITE_DONE && code != SQLITE_BUSY)
        tide_log_write(replica->log, TIDE_LOG_WARN, "a shop of the demonstration could not write",
                       TIDE_F("shop", shops[shop]), TIDE_F("error", sqlite3_errmsg(db)),
                       TIDE_F_END);
    (void)sqlite3_finalize(statement);
}

static int below(tide_demo_replica *replica, int limit)
{
    uint64_t bits = 0;
    replica->env->random(replica->env, &bits, sizeof bits);
    return (int)(bits % (uint64_t)limit);
}

/* Neither shop has seen the other's count when it writes its own. */
static void count_shelf(tide_demo_replica *replica)
{
    const char *item = items[below(replica, ITEMS)];
    for (int shop = 0; shop < SHOPS; shop++)
        write_one(replica, shop, TIDE_TEMPLATE_DEMO_STOCK_COUNT, item, below(replica, 100));
}

static void run_turn(tide_demo_replica *replica)
{
    const int64_t turn = replica->turn++;
    for (int shop = 0; shop < SHOPS; shop++) {
        if (below(replica, 3) > 0)
            write_one(replica, shop, TIDE_TEMPLATE_DEMO_ORDER_ADD, items[below(replica, ITEMS)],
                      1 + below(replica, 5));
        if (turn % SHIP_TURNS == 0)
            write_one(replica, shop, TIDE_TEMPLATE_DEMO_ORDER_SHIP, NULL, 0);
        if (turn % PRUNE_TURNS == 0)
            write_one(replica, shop, TIDE_TEMPLATE_DEMO_ORDER_PRUNE, NULL, TIDE_DEMO_ORDERS);
    }
    if (turn % CONFLICT_TURNS == CONFLICT_TURNS / 4)
        count_shelf(replica);
}

static void *run(void *arg)
{
    tide_demo_replica *replica = arg;
    for (int i = 0; i < ITEMS; i++)
        write_one(replica, 0, TIDE_TEMPLATE_DEMO_STOCK_FILL, items[i], 40);
    while (!atomic_load(&replica->is_over)) {
        run_turn(replica);
        struct pollfd waker = {.fd = replica->waker, .events = POLLIN};
        (void)poll(&waker, 1, TURN_MS);
    }
    return NULL;
}

/* ---- life ---- */

/* A tracked table is captured from then on, for every writer. */
static tide_status track(const tide_demo_replica *replica, int shop, tide_error *err)
{
    TIDE_CLEANUP(tide_node_closep) tide_node *node = NULL;
    const tide_node_options options = {.env = replica->env};
    TIDE_TRY(tide_node_open(&node, replica->files[shop], &options, err));
    for (int i = 0; i < TABLES; i++) {
        tide_tracked tracked;
        TIDE_TRY(tide_node_track(node, tables[i], TIDE_DEMO_RETAIN_US, &tracked, err));
    }
    return TIDE_OK;
}

static tide_status make_shop(tide_demo_replica *replica, int shop, const char *dir, tide_error *err)
{
    if (snprintf(replica->files[shop], PATH_SIZE, "%s/%s.db", dir, shops[shop]) >= PATH_SIZE)
        return tide_fail(err, TIDE_E_INVALID, "the directory's name is too long");
    TIDE_TRY(open_plain(replica, shop, err));
    sqlite3 *db = replica->connections[shop];
    if (sqlite3_exec(db, TIDE_TEMPLATE_DEMO_SHOP_SCHEMA->text, NULL, NULL, NULL) != SQLITE_OK)
        return fail(db, replica->files[shop], err);
    return track(replica, shop, err);
}

tide_status tide_demo_replica_open(tide_demo_replica **out, const char *dir, tide_env *env,
                                   tide_log *log, tide_error *err)
{
    TIDE_NEW(tide_demo_replica, replica, err);
    replica->env = env;
    replica->log = log;
    replica->waker = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    tide_status status = TIDE_OK;
    for (int shop = 0; shop < SHOPS && status >= TIDE_OK; shop++)
        status = make_shop(replica, shop, dir, err);
    if (status < TIDE_OK) {
        tide_demo_replica_close(replica);
        return status;
    }
    *out = replica;
    return TIDE_OK;
}

void tide_demo_replica_close(tide_demo_replica *replica)
{
    if (!replica)
        return;
    atomic_store(&replica->is_over, true);
    (void)eventfd_write(replica->waker, 1);
    if (replica->has_thread)
        (void)pthread_join(replica->thread, NULL);
    for (int shop = 0; shop < SHOPS; shop++)
        (void)sqlite3_close(replica->connections[shop]);
    (void)close(replica->waker);
    free(replica);
}

void tide_demo_replica_join(const tide_demo_replica *replica, tide_replicas_options *options)
{
    const int first = options->count;
    if (first + SHOPS > TIDE_UP_REPLICAS_MAX)
        return;
    for (int shop = 0; shop < SHOPS; shop++)
        options->replicas[first + shop] =
            (tide_up_replica){.name = shops[shop], .file = replica->files[shop]};
    options->replicas[first + 1].peers[0] = shops[0];
    options->replicas[first + 1].peer_count = 1;
    options->count += SHOPS;
    options->collect_us = COLLECT_US;
    options->snapshot_every_us = SNAPSHOT_US;
}

tide_status tide_demo_replica_begin(tide_demo_replica *replica, tide_error *err)
{
    TIDE_TRY(tide_thread_start(&replica->thread, run, replica, err));
    replica->has_thread = true;
    return TIDE_OK;
}
