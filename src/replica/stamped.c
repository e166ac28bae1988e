#include "replica/stamped.h"

#include "base/cleanup.h"
#include "tidemark_templates.h"

/* Numbers of one epoch's log between which the stamp may be. */
typedef struct span {
    int64_t epoch;
    int64_t first;
    int64_t last;
} span;

static tide_status begin(tide_foreign_query **out, tide_foreign_tx *tx, const char *text,
                         const tide_stamp *stamp, tide_error *err)
{
    return tide_foreign_start(
        out, tx, text, err,
        tide_bind_blob("origin", tide_view_bytes(stamp->node.bytes, TIDE_NODE_LEN)));
}

static tide_status read_found(tide_stamped *out, const span *in, tide_foreign_query *query,
                              tide_error *err)
{
    TIDE_CLEANUP(tide_event_done) tide_event event = {.columns = NULL};
    out->epoch = in->epoch;
    out->is_processed = tide_foreign_col_i64(query) != 0;
    TIDE_TRY(tide_event_decode(&event, tide_foreign_col_bytes(query), err));
    out->schema = event.schema;
    return TIDE_OK;
}

/* TIDE_NONE: not in this epoch. */
static tide_status search(tide_stamped *out, tide_foreign_tx *tx, const span *in,
                          const tide_stamp *stamp, tide_error *err)
{
    int64_t low = in->first;
    int64_t high = in->last;
    TIDE_FOREIGN_QUERY_BY(query, begin, tx, TIDE_TEMPLATE_STAMPED_FROM->text, stamp, err);
    while (low <= high) {
        const int64_t middle = low + (high - low) / 2;
        tide_foreign_reset(query);
        tide_foreign_bind_blob(query, "origin", tide_view_bytes(stamp->node.bytes, TIDE_NODE_LEN));
        tide_foreign_bind_i64(query, "epoch", in->epoch);
        tide_foreign_bind_i64(query, "from", middle);
        const tide_status status = tide_foreign_step(query, err);
        TIDE_TRY(status);
        if (status == TIDE_NONE) {
            high = middle - 1;
            continue;
        }
        out->seq = tide_foreign_col_i64(query);
        const uint64_t found = (uint64_t)tide_foreign_col_i64(query);
        if (found == stamp->time)
            return read_found(out, in, query, err);
        if (found < stamp->time)
            low = out->seq + 1;
        else
            high = middle - 1; /* between middle and it there is none */
    }
    return TIDE_NONE;
}

tide_status tide_stamped_find(tide_stamped *out, tide_foreign_tx *tx, const tide_stamp *stamp,
                              tide_error *err)
{
    tide_status status = TIDE_OK;
    TIDE_FOREIGN_QUERY_BY(epochs, begin, tx, TIDE_TEMPLATE_STAMPED_SPANS->text, stamp, err);
    while ((status = tide_foreign_step(epochs, err)) == TIDE_OK) {
        span in = {.epoch = tide_foreign_col_i64(epochs)};
        in.first = tide_foreign_col_i64(epochs);
        in.last = tide_foreign_col_i64(epochs);
        const tide_status found = search(out, tx, &in, stamp, err);
        if (found != TIDE_NONE)
            return found;
    }
    return status;
}
