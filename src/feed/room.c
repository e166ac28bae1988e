/* room.c - a disk that is full: what can be done with the reserve's help. See reserve.c and parts.h.
 *
 * What is committed lies in the log until it is moved into the file, which may have to grow for that. Batches that are dropped leave
 * free pages in the file, where new ones fit; but those come through the log, too. So room is made in three steps: the log is moved
 * into the file and cut off, what may be dropped is dropped, and free pages go back to the disk, those at the end of the file or
 * others that change places with them. */
#include "feed/parts.h"

#include "store/engine.h"
#include "store/sqlite/sqlite_engine.h"
#include "store/statement.h"
#include "tidemark_sql.h"

enum {
    VACUUM_SHARE = 4,       /* pages are given back when one in so many is free */
    VACUUM_SHARE_FULL = 64, /* on a full disk */
    VACUUMS_FULL = 16,      /* of 256 pages each */
};

/* ---- the log ---- */

int64_t tide_feed_log_len(const tide_feed *feed)
{
    const tide_sqlite_engine *engine = feed->store->engine;
    return engine->writer ? tide_sqlite_writer_wal_bytes(engine->writer) : 0;
}

static void feed_empty_log(tide_feed *feed)
{
    const tide_sqlite_engine *engine = feed->store->engine;
    if (engine->writer)
        tide_sqlite_writer_empty_log(engine->writer);
}

void tide_feed_hold_log(tide_feed *feed)
{
    const tide_sqlite_engine *engine = feed->store->engine;
    if (engine->writer)
        tide_sqlite_writer_hold_log(engine->writer);
}

void tide_feed_release_log(tide_feed *feed)
{
    const tide_sqlite_engine *engine = feed->store->engine;
    if (engine->writer)
        tide_sqlite_writer_release_log(engine->writer);
}

static tide_status change_nothing(tide_tx *tx, void *arg, tide_error *err)
{
    (void)tx;
    (void)arg;
    (void)err;
    return TIDE_OK;
}

/* A log that is longer than the room there is would take all of it and still not be emptied. It is
 * held by the caller: moved into the file, it would take the room from what follows. */
void tide_feed_make_room(tide_feed *feed)
{
    const tide_sqlite_engine *engine = feed->store->engine;
    tide_error ignored;
    /* A write that has just failed may have left the writer at its log, where it would take what is given now. */
    TIDE_IGNORE(tide_store_write(feed->store, change_nothing, NULL, &ignored));
    const int64_t room = tide_reserve_release(feed->reserve);
    if (engine->writer && tide_feed_log_len(feed) <= room)
        feed_empty_log(feed);
}

tide_status tide_feed_write_firmly(tide_feed *feed, tide_tx_fn *fn, void *arg, tide_error *err)
{
    const tide_status status = tide_store_write(feed->store, fn, arg, err);
    /* A disk without a byte left cannot even tell that nothing was written. What comes here may run twice: it goes by numbers. */
    const bool may_be_full = status == TIDE_E_FULL || status == TIDE_E_OUTCOME_UNKNOWN;
    if (!may_be_full)
        return status;
    atomic_store(&feed->is_full, true);
    tide_feed_hold_log(feed);
    tide_feed_make_room(feed);
    const tide_status again = tide_store_write(feed->store, fn, arg, err);
    tide_feed_release_log(feed);
    return again;
}

/* ---- giving pages back ---- */

typedef struct giving {
    int64_t share; /* pages go when one in so many is free */
    bool is_over;
} giving;

static tide_status give_pages_back(tide_tx *tx, void *arg, tide_error *err)
{
    giving *g = arg;
    g->is_over = true;
    TIDE_QUERY_BY(query, tide_tx_one, tx, TIDE_SQL_FEED_PAGES, err, TIDE_NO_BIND);
    const int64_t pages = tide_query_col_i64(query);
    if (tide_query_col_i64(query) <= pages / g->share)
        return TIDE_OK;
    g->is_over = false;
    return tide_tx_exec(tx, TIDE_SQL_FEED_VACUUM, NULL, err, TIDE_NO_BIND);
}

/* Pages that are moved go through the log: in a transaction of their own, so that on a full disk nothing fails with them. There
 * the log is emptied when they are gone, and need not be moved into the file; earlier only if they fill it. */
void tide_feed_shorten(tide_feed *feed, bool is_full)
{
    giving g = {.share = is_full ? VACUUM_SHARE_FULL : VACUUM_SHARE};
    tide_error ignored;
    int64_t log_len = tide_feed_log_len(feed);
    for (int i = 0; i < (is_full ? VACUUMS_FULL : 1) && !g.is_over; i++) {
        if (tide_store_write(feed->store, give_pages_back, &g, &ignored) < TIDE_OK)
            break;
        if (!is_full || tide_feed_log_len(feed) - log_len < feed->options.reserve_bytes / 4)
            continue;
        feed_empty_log(feed);
        log_len = tide_feed_log_len(feed);
    }
    if (is_full)
        feed_empty_log(feed);
}
