/* sequence.c - orders that are numbered without a gap, and a reader that misses none.
 *
 *     sequence STORE place REQUEST CUSTOMER      an order; REQUEST is the client's own name of it
 *     sequence STORE follow POSITION_FILE        orders since the last call
 *
 *     cc sequence.c position.c $(pkg-config --cflags --libs tidemark) -o sequence
 *     ./sequence shop.db place r-1 ann && ./sequence shop.db follow position
 *
 * STORE is a path (SQLite) or postgres://...; the program is the same. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/tidemark.h>

#include "position.h"

enum { NUMBER_SIZE = 24, TRIES = 5 };

/* Statements have a text for each engine, and parameters by name. */
static const tide_sql create_orders = {
    TIDE_SQL_INIT, .name = "create_orders",
    .engine = {
        [TIDE_ENGINE_SQLITE] = {.text = "CREATE TABLE IF NOT EXISTS orders"
                                        " (number INTEGER PRIMARY KEY, customer TEXT NOT NULL)"},
        [TIDE_ENGINE_POSTGRES] = {.text = "CREATE TABLE IF NOT EXISTS orders"
                                          " (number BIGINT PRIMARY KEY, customer TEXT NOT NULL)"},
    }};

static const char *const order_params[] = {"number", "customer"};
static const tide_sql insert_order = {
    TIDE_SQL_INIT, .name = "insert_order",
    .engine = {
        [TIDE_ENGINE_SQLITE] = {"INSERT INTO orders (number, customer) VALUES (?1, ?2)",
                                order_params, 2},
        [TIDE_ENGINE_POSTGRES] = {"INSERT INTO orders (number, customer) VALUES ($1, $2)",
                                  order_params, 2},
    }};

static const char *const behind_params[] = {"behind"};
static const tide_sql select_behind = {
    TIDE_SQL_INIT, .name = "select_behind",
    .engine = {
        [TIDE_ENGINE_SQLITE] = {"SELECT number, customer FROM orders WHERE number > ?1"
                                " ORDER BY number LIMIT 1000",
                                behind_params, 1},
        [TIDE_ENGINE_POSTGRES] = {"SELECT number, customer FROM orders WHERE number > $1"
                                  " ORDER BY number LIMIT 1000",
                                  behind_params, 1},
    }};

static tide_status prepare(tide_tx *tx, void *arg, tide_error *err)
{
    tide_query *query = NULL; /* ends with the closure, at the latest */
    (void)arg;
    TIDE_TRY(tide_query_begin(&query, tx, &create_orders, err));
    return tide_query_run(query, NULL, err);
}

/* ---- placing ---- */

typedef struct order {
    const char *request;
    const char *customer;
    char number[NUMBER_SIZE]; /* out */
    bool was_there;           /* out */
} order;

/* The number, the row that carries it and the answer under the request's key: one commit. */
static tide_status number_and_store(tide_tx *tx, order *o, tide_error *err)
{
    char name[TIDE_IDEMPOTENCY_KEY_MAX + 1];
    tide_sequence_range range;
    tide_query *query = NULL;
    tide_idempotency_state key = {0};
    char hash[TIDE_IDEMPOTENCY_HASH_SIZE];
    TIDE_TRY(tide_idempotency_hash(hash, tide_view_of(o->customer), err));
    TIDE_TRY(tide_idempotency_name(name, "order", o->request, err));
    const tide_idempotency_request wanted = {TIDE_IDEMPOTENCY_REQUEST_INIT, .scope = "order",
                                             .key = o->request, .request_hash = hash};
    TIDE_TRY(tide_idempotency_begin_in(tx, &wanted, &key, err));
    if (key.outcome == TIDE_IDEMPOTENCY_MISMATCH)
        return tide_fail(err, TIDE_E_MISMATCH, "%s was another customer's", o->request);
    o->was_there = key.outcome == TIDE_IDEMPOTENCY_REPLAY;
    if (o->was_there) { /* done earlier: the same answer, and no second order */
        (void)snprintf(o->number, sizeof o->number, "%s", key.response);
        tide_idempotency_state_done(&key);
        return TIDE_OK;
    }

    TIDE_TRY(tide_sequence_declare(tx, "orders", 1, &range, err));
    TIDE_TRY(tide_tx_take_counters(
        tx, err)); /* from here on others wait for the commit: little follows */
    (void)snprintf(o->number, sizeof o->number, "%" PRId64, range.first);
    TIDE_TRY(tide_query_begin(&query, tx, &insert_order, err));
    tide_query_bind_i64(query, "number", range.first);
    tide_query_bind_text(query, "customer", o->customer);
    TIDE_TRY(tide_query_run(query, NULL, err));
    return tide_idempotency_complete_in(tx, name, key.token, tide_view_of(o->number), err);
}

/* A closure may run more than once: it keeps nothing from an earlier run. */
static tide_status place(tide_tx *tx, void *arg, tide_error *err)
{
    return number_and_store(tx, arg, err);
}

static tide_status place_order(tide_store *store, order *o, tide_error *err)
{
    tide_status status = TIDE_OK;
    for (int i = 0; i < TRIES; i++) {
        status = tide_store_write(store, place, o, err);
        /* It may or may not be stored: the key makes asking again safe, and the answer tells. */
        if (status != TIDE_E_OUTCOME_UNKNOWN && !tide_status_get(status)->is_retryable)
            break;
    }
    TIDE_TRY(status);
    printf("order %s for %s%s\n", o->number, o->customer, o->was_there ? " (was there)" : "");
    return TIDE_OK;
}

/* ---- following ---- */

/* Numbers become visible in their order: who has seen n has seen everything below n. So one number is the whole position,
 * and nothing that commits late can slip in behind it. */
static tide_status read_behind(tide_tx *tx, void *arg, tide_error *err)
{
    int64_t *position = arg;
    tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, &select_behind, err));
    tide_query_bind_i64(query, "behind", *position);
    for (;;) {
        const tide_status status = tide_query_step(query, err);
        if (status != TIDE_OK)
            return status < TIDE_OK ? status : TIDE_OK;
        *position = tide_query_col_i64(query);
        const tide_view customer = tide_query_col_text(query);
        printf("%" PRId64 " %.*s\n", *position, (int)customer.len, customer.ptr);
    }
}

static tide_status follow(tide_store *store, const char *path, tide_error *err)
{
    int64_t position;
    position_load(path, &position, 1);
    for (int64_t before = -1; position != before;) {
        before = position;
        TIDE_TRY(tide_store_read(store, read_behind, &position, err));
    }
    return position_save(path, &position, 1, err);
}

static tide_status run(int argc, char **argv, tide_store *store, tide_error *err)
{
    TIDE_TRY(tide_store_write(store, prepare, NULL, err));
    if (argc == 5 && strcmp(argv[2], "place") == 0)
        return place_order(store, &(order){.request = argv[3], .customer = argv[4]}, err);
    if (argc == 4 && strcmp(argv[2], "follow") == 0)
        return follow(store, argv[3], err);
    return tide_fail(err, TIDE_E_INVALID, "place REQUEST CUSTOMER, or follow POSITION_FILE");
}

int main(int argc, char **argv)
{
    tide_error err = {0};
    tide_store *store = NULL;
    tide_status status = tide_store_open(&store, argc > 1 ? argv[1] : "", NULL, &err);
    if (status == TIDE_OK)
        status = run(argc, argv, store, &err);
    tide_store_close(store);
    if (status < TIDE_OK) /* what happened, and what can be done now */
        (void)fprintf(stderr, "%s: %s\n", err.text, tide_status_get(status)->next);
    return (int)tide_status_get(status)->exit_code;
}
