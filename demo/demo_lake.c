#include "demo/demo_lake.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text/json_tree.h"
#include "base/thread.h"
#include "demo/demo_json.h"
#include "net/client/client.h"
#include "store/duckdb/duckdb.h"

#define CATALOG "demo"
#define SCHEMA "shop"
#define CALL_US INT64_C(20000000)

enum {
    TURN_MS = 10000,
    RETRY_MS = 2000,
    ROWS = 20,
    DELETE_TURNS = 6,
    FORK_TURNS = 12,
    KEEP_TURNS = 18,
    FORKS = 2,
    ROW_AGE_MS = 600000,
    SNAPSHOT_AGE_MS = 900000,
    SNAPSHOTS_LEAST = 20,
    FILE_GRACE_MS = 60000,
};

struct tide_demo_lake {
    tide_env *env;
    tide_log *log;
    tide_client *client;
    int waker;
    pthread_t thread;
    bool has_thread;
    atomic_bool is_over;
    bool is_resting; /* it was said why */
    int64_t turn;
};

/* ---- asking ---- */

/* Send a request; *answer, where it is wanted, is the caller's. */
static tide_status ask(tide_demo_lake *lake, const char *method, const tide_buffer *request,
                       tide_json_node **answer, tide_error *err)
{
    char path[96];
    TIDE_CLEANUP(tide_client_response_done) tide_client_response reply;
    tide_client_response_init(&reply);
    (void)snprintf(path, sizeof path, "/tidemark.lake.v1.LakeService/%s", method);
    TIDE_TRY(tide_client_post(
        lake->client, &(tide_client_request){.path = path, .message = tide_buffer_view(request)},
        &reply, err));
    return answer ? tide_json_tree_read(answer,
                                        tide_view_bytes(reply.message.ptr, reply.message.len), err)
                  : TIDE_OK;
}

static void begin_request(tide_buffer *request)
{
    enum { REQUEST_MAX = 64 << 10 };
    tide_buffer_init(request, REQUEST_MAX);
}

static int below(tide_demo_lake *lake, int limit)
{
    uint64_t bits = 0;
    lake->env->random(lake->env, &bits, sizeof bits);
    return (int)(bits % (uint64_t)limit);
}

static int64_t now_ms(tide_demo_lake *lake)
{
    return lake->env->wall_us(lake->env) / 1000;
}

/* ---- what is done ---- */

static tide_status make_table(tide_demo_lake *lake, const char *table, const char *columns,
                              tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer request;
    begin_request(&request);
    tide_demo_json(&request,
                   "{'catalog':'" CATALOG "','operation':{'schema':'" SCHEMA
                   "','table':'%s','columns':'%s','create_schema':true},"
                   "'commit':{'message':'the demonstration begins'}}",
                   table, columns);
    const tide_status status = ask(lake, "CreateTable", &request, NULL, err);
    /* Plain HTTP has one code for both. */
    return status == TIDE_E_EXISTS || status == TIDE_E_CONFLICT ? TIDE_OK : status;
}

static tide_status make_catalog(tide_demo_lake *lake, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer request;
    begin_request(&request);
    tide_demo_json(&request, "{'name':'" CATALOG "','may_exist':true}");
    TIDE_TRY(ask(lake, "CreateCatalog", &request, NULL, err));
    TIDE_TRY(make_table(lake, "orders",
                        "id BIGINT, item VARCHAR, quantity INTEGER, price DECIMAL(10,2), "
                        "at_ms BIGINT",
                        err));
    return make_table(lake, "visits", "page VARCHAR, visitors INTEGER, at_ms BIGINT", err);
}

static tide_status append(tide_demo_lake *lake, const char *catalog, bool is_orders,
                          tide_error *err)
{
    static const char *const items[] = {"teapot", "lamp", "kettle", "chair", "clock", "rug"};
    static const char *const pages[] = {"/", "/checkout", "/cart", "/search", "/sale"};
    TIDE_CLEANUP(tide_buffer_done) tide_buffer request;
    begin_request(&request);
    tide_demo_json(&request,
                   "{'catalog':'%s','operation':{'schema':'" SCHEMA
                   "','table':'%s','format':'csv','text':'%s",
                   catalog, is_orders ? "orders" : "visits",
                   is_orders ? "id,item,quantity,price,at_ms\\n" : "page,visitors,at_ms\\n");
    for (int i = 0; i < ROWS; i++) {
        if (is_orders)
            tide_demo_json(&request, "%d,%s,%d,%d.%02d,%" PRId64 "\\n", below(lake, 1000000),
                           items[below(lake, 6)], 1 + below(lake, 5), 5 + below(lake, 80),
                           below(lake, 100), now_ms(lake));
        else
            tide_demo_json(&request, "%s,%d,%" PRId64 "\\n", pages[below(lake, 5)],
                           below(lake, 200), now_ms(lake));
    }
    tide_demo_json(&request, "'},'commit':{'author':'%s','message':'%s of the last seconds'}}",
                   is_orders ? "till" : "web", is_orders ? "orders" : "visits");
    return ask(lake, "Append", &request, NULL, err);
}

static tide_status delete_rows(tide_demo_lake *lake, const char *table, const char *where,
                               int64_t base, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer request;
    begin_request(&request);
    tide_demo_json(&request,
                   "{'catalog':'" CATALOG "','operation':{'schema':'" SCHEMA
                   "','table':'%s','where':'%s'},'commit':{'author':'housekeeping',"
                   "'message':'rows of yesterday','base_snapshot_id':%" PRId64 "}}",
                   table, where, base);
    return ask(lake, "Delete", &request, NULL, err);
}

static tide_status delete_old(tide_demo_lake *lake, tide_error *err)
{
    char where[64];
    (void)snprintf(where, sizeof where, "at_ms < %" PRId64, now_ms(lake) - ROW_AGE_MS);
    TIDE_TRY(delete_rows(lake, "orders", where, 0, err));
    return delete_rows(lake, "visits", where, 0, err);
}

/* Two deletes of the same rows from one base: the second conflicts, and changes nothing. */
static tide_status collide(tide_demo_lake *lake, tide_error *err)
{
    int64_t base = 0;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer request;
    TIDE_CLEANUP(tide_json_tree_freep) tide_json_node *answer = NULL;
    begin_request(&request);
    tide_demo_json(&request, "{}");
    TIDE_TRY(ask(lake, "ListCatalogs", &request, &answer, err));
    const tide_json_node *catalogs = tide_json_node_find(answer, "catalogs");
    for (size_t i = 0; i < tide_json_node_count(catalogs); i++) {
        const tide_json_node *catalog = tide_json_node_at(catalogs, i);
        const char *name = tide_json_node_text(tide_json_node_find(catalog, "name"));
        if (name && strcmp(name, CATALOG) == 0)
            base = tide_json_node_integer(tide_json_node_find(catalog, "snapshot_id"));
    }
    TIDE_TRY(delete_rows(lake, "visits", "visitors < 5", base, err));
    const tide_status status = delete_rows(lake, "visits", "visitors < 5", base, err);
    return status == TIDE_E_CONFLICT ? TIDE_OK : status;
}

/* The newest forks stay to be looked at. */
static tide_status fork_catalog(tide_demo_lake *lake, tide_error *err)
{
    char name[32];
    const int64_t number = lake->turn / FORK_TURNS;
    (void)snprintf(name, sizeof name, "demo_whatif_%" PRId64, number % FORKS + 1);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer request;
    begin_request(&request);
    tide_demo_json(&request, "{'name':'%s'}", name);
    const tide_status status = ask(lake, "DropCatalog", &request, NULL, err);
    if (status < TIDE_OK && status != TIDE_E_NOT_FOUND)
        return status;
    tide_buffer_clear(&request);
    tide_demo_json(&request,
                   "{'parent':'" CATALOG "','name':'%s',"
                   "'commit':{'message':'what if we sold more?'}}",
                   name);
    TIDE_TRY(ask(lake, "ForkCatalog", &request, NULL, err));
    return append(lake, name, true, err);
}

static tide_status trim(tide_demo_lake *lake, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer request;
    begin_request(&request);
    tide_demo_json(&request, "{'catalog':'" CATALOG "','holder':'the demonstration'}");
    TIDE_TRY(ask(lake, "Compact", &request, NULL, err));
    tide_buffer_clear(&request);
    tide_demo_json(&request, "{'older_than_ms':%d,'keep_last':%d}", SNAPSHOT_AGE_MS,
                   SNAPSHOTS_LEAST);
    TIDE_TRY(ask(lake, "Expire", &request, NULL, err));
    tide_buffer_clear(&request);
    tide_demo_json(&request, "{'grace_ms':%d}", FILE_GRACE_MS);
    return ask(lake, "Cleanup", &request, NULL, err);
}

static tide_status run_turn(tide_demo_lake *lake, tide_error *err)
{
    const int64_t turn = lake->turn;
    if (turn == 0)
        TIDE_TRY(make_catalog(lake, err));
    TIDE_TRY(append(lake, CATALOG, turn % 2 == 0, err));
    if (turn % DELETE_TURNS == DELETE_TURNS - 1)
        TIDE_TRY(delete_old(lake, err));
    if (turn % FORK_TURNS == 1) {
        TIDE_TRY(fork_catalog(lake, err));
        TIDE_TRY(collide(lake, err));
    }
    if (turn % KEEP_TURNS == KEEP_TURNS - 1)
        TIDE_TRY(trim(lake, err));
    return TIDE_OK;
}

static void rest(tide_demo_lake *lake, const tide_error *err)
{
    if (!lake->is_resting && !atomic_load(&lake->is_over))
        tide_log_write(lake->log, TIDE_LOG_WARN, "demonstration lake paused",
                       TIDE_F("why", err->text), TIDE_F_END);
    lake->is_resting = true;
}

static void *run(void *arg)
{
    tide_demo_lake *lake = arg;
    while (!atomic_load(&lake->is_over)) {
        tide_error err = {0};
        const bool is_done = run_turn(lake, &err) >= TIDE_OK;
        if (is_done)
            lake->is_resting = false;
        else
            rest(lake, &err);
        /* A first turn that failed is tried again soon: the service may not have answered yet. */
        const bool is_early = lake->turn == 0;
        if (is_done || !is_early)
            lake->turn++;
        struct pollfd waker = {.fd = lake->waker, .events = POLLIN};
        (void)poll(&waker, 1, is_early ? RETRY_MS : TURN_MS);
    }
    return NULL;
}

/* ---- life ---- */

tide_status tide_demo_lake_open(tide_demo_lake **out, const char *address, tide_env *env,
                                tide_log *log, tide_error *err)
{
    char target[300];
    TIDE_NEW(tide_demo_lake, lake, err);
    lake->env = env;
    lake->log = log;
    lake->waker = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    (void)snprintf(target, sizeof target, "%s%s", tide_client_scheme(address, false), address);
    /* Reported here and not by the first turn: that would come behind the dashboard's address. */
    tide_error missing = {0};
    const char *version = NULL;
    if (tide_duckdb_find(&version, NULL, &missing) < TIDE_OK)
        rest(lake, &missing);
    tide_status status = tide_client_open(
        &lake->client, &(tide_client_options){.target = target, .timeout_us = CALL_US}, err);
    if (status >= TIDE_OK)
        status = tide_thread_start(&lake->thread, run, lake, err);
    if (status < TIDE_OK) {
        tide_demo_lake_close(lake);
        return status;
    }
    lake->has_thread = true;
    *out = lake;
    return TIDE_OK;
}

void tide_demo_lake_stop(tide_demo_lake *lake)
{
    if (!lake)
        return;
    atomic_store(&lake->is_over, true);
    (void)eventfd_write(lake->waker, 1);
    if (lake->client)
        tide_client_stop(lake->client);
}

void tide_demo_lake_close(tide_demo_lake *lake)
{
    if (!lake)
        return;
    tide_demo_lake_stop(lake);
    if (lake->has_thread)
        (void)pthread_join(lake->thread, NULL);
    tide_client_close(lake->client);
    (void)close(lake->waker);
    free(lake);
}
