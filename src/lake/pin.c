/* pin.c - who reads or builds on a snapshot says so, for a time: what it needs does not expire. */
#include "lake/catalog.h"

#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/utf8.h"
#include "base/text/uuid.h"
#include "store/statement.h"
#include "tidemark_lake_sql.h"

enum { HOLDER_MAX = 255 };
#define LEASE_MAX_US INT64_C(2592000000000) /* 30 days */

static tide_status check_lease(int64_t lease_us, tide_error *err)
{
    if (lease_us < 1 || lease_us > LEASE_MAX_US)
        return tide_fail(err, TIDE_E_INVALID, "a pin is held for 1 us to 30 days, then renewed");
    return TIDE_OK;
}

typedef struct pin_request {
    tide_lake_pin *pin;
    const char *holder;
    int64_t lease_us;
} pin_request;

/* The snapshot's row is held until the pin is there: who expires it comes before, and then it is gone, or sees the pin. */
static tide_status hold_snapshot(tide_tx *tx, const tide_lake_pin *pin, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status = tide_tx_one(&query, tx, TIDE_LAKE_SQL_LAKE_PIN_HOLD, err,
                                           tide_bind_i64("catalog_id", pin->catalog_id),
                                           tide_bind_i64("snapshot", pin->snapshot_id));
    if (status == TIDE_NONE)
        return tide_fail(err, TIDE_E_NOT_FOUND,
                         "catalog %" PRId64 " has no snapshot %" PRId64
                         ", or it has expired: read a newer one",
                         pin->catalog_id, pin->snapshot_id);
    return status;
}

static tide_status take_pin(tide_tx *tx, void *arg, tide_error *err)
{
    const pin_request *request = arg;
    tide_lake_pin *pin = request->pin;
    int64_t now_us = 0;
    TIDE_TRY(hold_snapshot(tx, pin, err));
    TIDE_TRY(tide_tx_now(tx, &now_us, err));
    pin->expires_at_us = now_us + request->lease_us;
    return tide_tx_exec(tx, TIDE_LAKE_SQL_LAKE_PIN_ADD, NULL, err, tide_bind_text("id", pin->id),
                        tide_bind_i64("catalog_id", pin->catalog_id),
                        tide_bind_i64("snapshot", pin->snapshot_id),
                        tide_bind_text("holder", request->holder), tide_bind_time("now", now_us),
                        tide_bind_time("expires_at", pin->expires_at_us));
}

tide_status tide_lake_pin_take(tide_lake *lake, int64_t catalog_id, int64_t snapshot,
                               const char *holder, int64_t lease_us, tide_lake_pin *out,
                               tide_error *err)
{
    tide_store *store = tide_lake_store(lake);
    tide_lake_pin pin = {.catalog_id = catalog_id, .snapshot_id = snapshot};
    tide_uuid uuid;
    TIDE_TRY(check_lease(lease_us, err));
    if (strlen(holder) > HOLDER_MAX || !tide_utf8_valid(tide_view_of(holder)))
        return tide_fail(err, TIDE_E_INVALID, "the holder of a pin has at most %d bytes of UTF-8",
                         HOLDER_MAX);
    tide_uuid_v4(tide_store_env(store), &uuid);
    tide_uuid_format(&uuid, pin.id);
    pin_request request = {.pin = &pin, .holder = holder, .lease_us = lease_us};
    TIDE_TRY(tide_store_write_by_id(store, take_pin, &request, false, err));
    *out = pin;
    return TIDE_OK;
}

static tide_status renew_pin(tide_tx *tx, void *arg, tide_error *err)
{
    const pin_request *request = arg;
    int64_t now_us = 0;
    TIDE_TRY(tide_tx_now(tx, &now_us, err));
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status = tide_tx_one(
        &query, tx, TIDE_LAKE_SQL_LAKE_PIN_RENEW, err, tide_bind_text("id", request->pin->id),
        tide_bind_time("now", now_us), tide_bind_time("expires_at", now_us + request->lease_us));
    TIDE_TRY(status);
    if (status == TIDE_NONE)
        return tide_fail(err, TIDE_E_LEASE_LOST,
                         "the pin of snapshot %" PRId64 " ran out: what was read may have expired, "
                         "read again under a new pin",
                         request->pin->snapshot_id);
    request->pin->expires_at_us = now_us + request->lease_us;
    return TIDE_OK;
}

tide_status tide_lake_pin_renew(tide_lake *lake, tide_lake_pin *pin, int64_t lease_us,
                                tide_error *err)
{
    TIDE_TRY(check_lease(lease_us, err));
    tide_lake_pin renewed = *pin;
    pin_request request = {.pin = &renewed, .lease_us = lease_us};
    TIDE_TRY(tide_store_write_by_id(tide_lake_store(lake), renew_pin, &request, false, err));
    *pin = renewed;
    return TIDE_OK;
}

typedef struct turn_request {
    const char *pin_id;
    int64_t table_id;
    int64_t turn_us;
    bool is_asked;
} turn_request;

static tide_status ask_turn(tide_tx *tx, void *arg, tide_error *err)
{
    const turn_request *request = arg;
    int64_t now_us = 0;
    TIDE_TRY(tide_tx_now(tx, &now_us, err));
    return tide_tx_exec(tx, TIDE_LAKE_SQL_LAKE_PIN_ASK_TURN, NULL, err,
                        tide_bind_text("id", request->pin_id),
                        tide_bind_i64("table", request->table_id),
                        tide_bind_time("until", now_us + request->turn_us));
}

tide_status tide_lake_pin_ask_turn(tide_lake *lake, const tide_lake_pin *pin, int64_t table_id,
                                   int64_t turn_us, tide_error *err)
{
    turn_request request = {.pin_id = pin->id, .table_id = table_id, .turn_us = turn_us};
    return tide_store_write_by_id(tide_lake_store(lake), ask_turn, &request, false, err);
}

static tide_status find_turn(tide_tx *tx, void *arg, tide_error *err)
{
    turn_request *request = arg;
    int64_t now_us = 0;
    TIDE_TRY(tide_tx_now(tx, &now_us, err));
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status =
        tide_tx_one(&query, tx, TIDE_LAKE_SQL_LAKE_PIN_FIND_TURN, err,
                    tide_bind_i64("table", request->table_id), tide_bind_time("now", now_us));
    request->is_asked = status == TIDE_OK;
    return status < TIDE_OK ? status : TIDE_OK;
}

tide_status tide_lake_pin_find_turn(tide_lake *lake, int64_t table_id, bool *is_asked,
                                    tide_error *err)
{
    turn_request request = {.table_id = table_id};
    TIDE_TRY(tide_store_read_local(tide_lake_store(lake), find_turn, &request, err));
    *is_asked = request.is_asked;
    return TIDE_OK;
}

tide_status tide_lake_pin_release(tide_lake *lake, const tide_lake_pin *pin, tide_error *err)
{
    return tide_store_exec(tide_lake_store(lake), TIDE_LAKE_SQL_LAKE_PIN_REMOVE, NULL, err,
                           tide_bind_text("id", pin->id));
}
