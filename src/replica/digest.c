#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "replica/desk.h"

enum { ROW_BYTES_MAX = 1 << 30 };

/* 128-bit sums: the order of rows does not matter, and a row can be taken out again. */
static void add_digest(uint8_t sum[16], const tide_digest128 *row)
{
    unsigned carry = 0;
    for (int i = 15; i >= 0; i--) {
        carry += (unsigned)sum[i] + row->bytes[i];
        sum[i] = (uint8_t)carry;
        carry >>= 8;
    }
}

static tide_status digest_table(tide_table_digest *out, tide_app_tx *tx, const tide_table *table,
                                tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
    TIDE_CLEANUP(tide_app_endp) tide_app_query *query = NULL;
    tide_buffer_init(&bytes, ROW_BYTES_MAX);
    *out = (tide_table_digest){.rows = 0};
    (void)snprintf(out->table, sizeof out->table, "%s", table->name);
    TIDE_TRY(tide_table_query(&query, tx, table, TIDE_TABLE_ROW_WALK, err));
    for (;;) {
        const tide_status status = tide_app_step(query, err);
        if (status != TIDE_OK)
            return status < TIDE_OK ? status : TIDE_OK;
        tide_buffer_clear(&bytes);
        for (int i = 0; i < table->column_count; i++) {
            const tide_any value = tide_table_col(query);
            if (tide_any_encode(&bytes, &value) < TIDE_OK)
                return tide_fail(err, TIDE_E_NOMEM, "no memory for a row of %s", table->name);
        }
        const tide_digest128 row = tide_digest128_of(tide_buffer_view(&bytes));
        add_digest(out->digest, &row);
        out->rows++;
    }
}

typedef struct digests_call {
    tide_app_tx *tx;
    tide_digest_fn *fn;
    void *arg;
} digests_call;

static tide_status give_digest(void *arg, const tide_table *table, tide_error *err)
{
    const digests_call *call = arg;
    tide_table_digest digest;
    TIDE_TRY(digest_table(&digest, call->tx, table, err));
    return call->fn(call->arg, &digest, err);
}

static tide_status give_digests(tide_app_tx *tx, void *arg, tide_error *err)
{
    digests_call *call = arg;
    call->tx = tx;
    return tide_table_list(tx, give_digest, call, err);
}

tide_status tide_node_digests(tide_node *node, tide_digest_fn *fn, void *arg, tide_error *err)
{
    digests_call call = {.fn = fn, .arg = arg};
    int64_t events = 0;
    bool more = true;
    while (more)
        TIDE_TRY(tide_node_fold(node, &events, &more, err));
    return tide_app_read(tide_node_file(node), give_digests, &call, err);
}
