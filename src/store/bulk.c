/* bulk.c - the engine-independent half of bulk.h. */
#include "store/bulk.h"

#include <assert.h>
#include <stdlib.h>

tide_status tide_bulk_begin(tide_bulk **out, tide_tx *tx, const tide_sql *sql, tide_error *err)
{
    TIDE_TRY(tide_tx_check_doom(tx, err));
    assert(sql->is_bulk && tx->is_write);
    tide_bulk *bulk = calloc(1, sizeof *bulk);
    if (!bulk)
        return tide_tx_doom(tx, tide_no_memory(err), err);
    bulk->tx = tx;
    bulk->sql = sql;
    const tide_status status = tx->store->ops->bulk_begin(bulk, err);
    if (status < TIDE_OK) {
        free(bulk);
        return tide_tx_doom(tx, status, err);
    }
    *out = bulk;
    return TIDE_OK;
}

tide_status tide_bulk_row(tide_bulk *bulk, const tide_sql_value *values, int count, tide_error *err)
{
    TIDE_TRY(tide_tx_check_doom(bulk->tx, err));
    assert(count == bulk->width && "as many values as the statement has columns");
    (void)count;
    const tide_status status = bulk->tx->store->ops->bulk_row(bulk, values, err);
    if (status < TIDE_OK)
        return tide_tx_doom(bulk->tx, status, err);
    bulk->rows++;
    return TIDE_OK;
}

tide_status tide_bulk_end(tide_bulk **handle, int64_t *rows, tide_error *err)
{
    tide_bulk *bulk = *handle;
    tide_tx *tx = bulk->tx;
    *handle = NULL;
    const bool is_sound = tide_tx_check_doom(tx, err) >= TIDE_OK;
    tide_error ignored;
    tide_status status = tx->store->ops->bulk_end(bulk, is_sound, is_sound ? err : &ignored);
    if (status < TIDE_OK)
        (void)tide_tx_doom(tx, status, is_sound ? err : &ignored);
    if (!is_sound)
        status = tide_tx_check_doom(tx, err);
    if (status >= TIDE_OK && rows)
        *rows = bulk->rows;
    free(bulk);
    return status;
}

void tide_bulk_dropp(tide_bulk **handle)
{
    tide_bulk *bulk = *handle;
    if (!bulk)
        return;
    *handle = NULL;
    tide_error err;
    (void)tide_fail(&err, TIDE_E_FAILED, "%s was given up", bulk->sql->name);
    (void)tide_tx_doom(bulk->tx, TIDE_E_FAILED, &err);
    TIDE_IGNORE(bulk->tx->store->ops->bulk_end(bulk, false, &err));
    free(bulk);
}
