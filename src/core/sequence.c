#include <tidemark/sequence.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "store/engine.h"
#include "store/statement.h"
#include "tidemark_sql.h"

enum { PAGE = 500 };

/* Counters of all kinds are locked in the order of their keys. */
static void make_key(char out[TIDE_TX_KEY_MAX + 1], const char *name)
{
    (void)snprintf(out, TIDE_TX_KEY_MAX + 1, "sequence/%s", name);
}

tide_status tide_sequence_declare(tide_tx *tx, const char *name, int64_t count,
                                  tide_sequence_range *range, tide_error *err)
{
    TIDE_NEED(tx && range, err);
    TIDE_TRY(tide_sequence_check_name(name, err));
    if (count < 1 || count > TIDE_SEQUENCE_BATCH_MAX)
        return tide_fail(err, TIDE_E_INVALID, "count %" PRId64 ", want 1 to %d", count,
                         TIDE_SEQUENCE_BATCH_MAX);
    char key[TIDE_TX_KEY_MAX + 1];
    make_key(key, name);
    range->count = count;
    TIDE_QUERY(query, tx, TIDE_SQL_SEQUENCE_TAKE, err, tide_bind_text("name", name),
               tide_bind_i64("count", count), tide_bind_clock("clock"));
    TIDE_TRY(tide_tx_declare_counter(tx, key, &query, &range->first, err));
    tide_tx_raises_declared(tx, count);
    return TIDE_OK;
}

typedef struct next_request {
    const char *name;
    int64_t count;
    tide_sequence_range range;
    tide_identity identity;
} next_request;

static tide_status take_numbers(tide_tx *tx, void *arg, tide_error *err)
{
    next_request *request = arg;
    TIDE_TRY(tide_tx_identity(tx, &request->identity, err));
    return tide_sequence_declare(tx, request->name, request->count, &request->range, err);
}

tide_status tide_sequence_next(tide_store *store, const char *name, int64_t count,
                               tide_sequence_range *range, tide_identity *identity, tide_error *err)
{
    TIDE_NEED(store && range, err);
    next_request request = {.name = name, .count = count};
    TIDE_TRY(tide_store_write(store, take_numbers, &request, err));
    *range = request.range;
    if (identity)
        *identity = request.identity;
    return TIDE_OK;
}

typedef struct raise_request {
    const char *name;
    int64_t last;
    int64_t now_last;
} raise_request;

static tide_status raise_sequence(tide_tx *tx, void *arg, tide_error *err)
{
    raise_request *request = arg;
    char key[TIDE_TX_KEY_MAX + 1];
    make_key(key, request->name);
    TIDE_QUERY(query, tx, TIDE_SQL_SEQUENCE_RAISE, err, tide_bind_text("name", request->name),
               tide_bind_i64("last", request->last), tide_bind_clock("clock"));
    TIDE_TRY(tide_tx_declare_counter(tx, key, &query, &request->now_last, err));
    tide_tx_raises_declared(tx, 1);
    return TIDE_OK;
}

tide_status tide_sequence_raise(tide_store *store, const char *name, int64_t last,
                                int64_t *now_last, tide_error *err)
{
    TIDE_NEED(store, err);
    TIDE_TRY(tide_sequence_check_name(name, err));
    if (last < 0)
        return tide_fail(err, TIDE_E_INVALID, "numbers start at 1; cannot raise to %" PRId64, last);
    raise_request request = {.name = name, .last = last};
    TIDE_TRY(tide_store_write(store, raise_sequence, &request, err));
    if (now_last)
        *now_last = request.now_last;
    return TIDE_OK;
}

typedef struct show_request {
    const char *name;
    tide_sequence found;
} show_request;

static tide_status show_sequence(tide_tx *tx, void *arg, tide_error *err)
{
    show_request *request = arg;
    TIDE_QUERY_ONE(query, tx, TIDE_SQL_SEQUENCE_SHOW, err, tide_bind_text("name", request->name));
    (void)snprintf(request->found.name, sizeof request->found.name, "%s", request->name);
    request->found.last = tide_query_col_i64(query);
    request->found.last_at_us = tide_query_col_time(query);
    return TIDE_OK;
}

tide_status tide_sequence_show(tide_store *store, const char *name, tide_sequence *out,
                               tide_error *err)
{
    TIDE_NEED(store && out, err);
    TIDE_TRY(tide_sequence_check_name(name, err));
    show_request request = {.name = name};
    const tide_status status = tide_store_read(store, show_sequence, &request, err);
    if (status == TIDE_OK)
        *out = request.found;
    return status;
}

typedef struct page {
    char after[TIDE_SEQUENCE_NAME_MAX + 1];
    int count;
    tide_sequence rows[PAGE];
} page;

static tide_status read_page(tide_tx *tx, void *arg, tide_error *err)
{
    page *p = arg;
    p->count = 0;
    TIDE_QUERY(query, tx, TIDE_SQL_SEQUENCE_LIST, err, tide_bind_text("after", p->after),
               tide_bind_i64("limit", PAGE));
    TIDE_EACH(tide_query_step(query, err)) {
        tide_sequence *row = &p->rows[p->count++];
        tide_view_copy(row->name, sizeof row->name, tide_query_col_text(query));
        row->last = tide_query_col_i64(query);
        row->last_at_us = tide_query_col_time(query);
    }
    return TIDE_OK;
}

tide_status tide_sequence_list(tide_store *store, tide_sequence_fn *fn, void *arg, tide_error *err)
{
    TIDE_NEED(store && fn, err);
    TIDE_CLEANUP(tide_freep) TIDE_NEW(page, p, err);
    do {
        TIDE_TRY(tide_store_read(store, read_page, p, err));
        for (int i = 0; i < p->count; i++)
            TIDE_TRY(tide_callback_check(fn(arg, &p->rows[i], err), err));
        if (p->count > 0)
            memcpy(p->after, p->rows[p->count - 1].name, sizeof p->after);
    } while (p->count == PAGE);
    return TIDE_OK;
}
