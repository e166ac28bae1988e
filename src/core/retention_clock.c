#include "core/retention_clock.h"

#include "store/statement.h"
#include "tidemark_sql.h"

#define REST_US INT64_C(30000000)        /* a row so young is not written again */
#define FORGET_US INT64_C(2592000000000) /* rows of boots that ended so long ago: 30 days */

typedef struct clock_row {
    bool is_found; /* there is a watermark */
    int64_t watermark_us;
    bool has_boot; /* and this boot has a row */
    int64_t boot_at_us;
    int64_t boot_watermark_us;
} clock_row;

static tide_status find_row(tide_tx *tx, const char *name, const char *boot_id, clock_row *out,
                            tide_error *err)
{
    TIDE_QUERY_BY(query, tide_tx_one, tx, TIDE_SQL_RETENTION_CLOCK_GET, err,
                  tide_bind_text("name", name), tide_bind_text("boot_id", boot_id));
    out->is_found = !tide_query_col_is_null(query);
    out->watermark_us = tide_query_col_i64(query);
    out->has_boot = !tide_query_col_is_null(query);
    out->boot_at_us = tide_query_col_i64(query);
    out->boot_watermark_us = tide_query_col_i64(query);
    return TIDE_OK;
}

/* The highest that this boot may reach now; INT64_MAX: far beyond any clock. */
static int64_t limit_of(const clock_row *row, int64_t boot_us)
{
    if (!row->has_boot)
        return row->watermark_us;
    const int64_t elapsed_us = boot_us > row->boot_at_us ? boot_us - row->boot_at_us : 0;
    int64_t limit_us = 0;
    if (__builtin_mul_overflow(elapsed_us, (int64_t)TIDE_RETENTION_PACE, &limit_us) ||
        __builtin_add_overflow(limit_us, row->boot_watermark_us, &limit_us))
        return INT64_MAX;
    return limit_us;
}

tide_status tide_retention_clock_read(tide_tx *tx, const char *name, int64_t now_us,
                                      tide_retention_clock *out, tide_error *err)
{
    tide_env *env = tide_store_env(tide_tx_store(tx));
    char boot_id[TIDE_BOOT_ID_SIZE];
    clock_row row = {.is_found = false};
    *out = (tide_retention_clock){.now_us = now_us, .is_note_due = !tide_tx_is_write(tx)};
    if (now_us ==
        INT64_MAX) /* a lease clock without an anchor, which a transaction that writes sets */
        return TIDE_OK;
    env->boot_id(env, boot_id);
    const int64_t boot_us = env->boot_us(env);
    TIDE_TRY(find_row(tx, name, boot_id, &row, err));
    if (row.is_found) {
        const int64_t limit_us = limit_of(&row, boot_us);
        const int64_t reached_us = now_us < limit_us ? now_us : limit_us;
        out->now_us = reached_us > row.watermark_us ? reached_us : row.watermark_us;
    }
    const int64_t age_us = row.has_boot ? boot_us - row.boot_at_us : INT64_MAX;
    if (!tide_tx_is_write(tx))
        out->is_note_due = age_us >= TIDE_RETENTION_NOTE_US;
    if (!tide_tx_is_write(tx) || age_us < REST_US)
        return TIDE_OK;
    TIDE_TRY(tide_tx_exec(tx, TIDE_SQL_RETENTION_CLOCK_PUT, NULL, err, tide_bind_text("name", name),
                          tide_bind_text("boot_id", boot_id), tide_bind_i64("boot_us", boot_us),
                          tide_bind_i64("watermark_us", out->now_us)));
    return row.has_boot ? TIDE_OK
                        : tide_tx_exec(tx, TIDE_SQL_RETENTION_CLOCK_FORGET, NULL, err,
                                       tide_bind_text("name", name),
                                       tide_bind_i64("before_us", out->now_us - FORGET_US));
}
