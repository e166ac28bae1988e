/* ids.c - the counters of lake.h. */
#include "lake/lake_parts.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <tidemark/watch.h>

#include "base/cleanup.h"
#include "store/engine.h"
#include "store/statement.h"
#include "tidemark_lake_sql.h"

static const struct {
    const char *name;     /* in lake_sequence */
    const char *sequence; /* on PostgreSQL */
    const tide_sql *
        given; /* the greatest that is known to be given; NULL: a key of its rows refuses a second one */
} counters[] = {
    [TIDE_LAKE_CATALOG_IDS] = {"catalog", "ducklake_catalog_id_seq", NULL},
    [TIDE_LAKE_OBJECT_IDS] = {"object", "ducklake_object_id_seq", TIDE_LAKE_SQL_LAKE_GIVEN_OBJECTS},
    [TIDE_LAKE_COLUMN_IDS] = {"column", "ducklake_column_id_seq", TIDE_LAKE_SQL_LAKE_GIVEN_COLUMNS},
    [TIDE_LAKE_FILE_IDS] = {"file", "ducklake_file_id_seq", NULL},
    /* As DuckLake takes them: a stock client's partition must not meet one of ours. */
    [TIDE_LAKE_PARTITION_IDS] = {"object", "ducklake_object_id_seq",
                                 TIDE_LAKE_SQL_LAKE_GIVEN_OBJECTS},
    [TIDE_LAKE_SNAPSHOT_IDS] = {"snapshot", "ducklake_snapshot_id_seq",
                                TIDE_LAKE_SQL_LAKE_GIVEN_SNAPSHOTS},
};

static tide_status take_ids(tide_tx *tx, const char *name, const char *sequence, int count,
                            int64_t *ids, tide_error *err)
{
    TIDE_QUERY(query, tx, TIDE_LAKE_SQL_LAKE_IDS, err, tide_bind_text("name", name),
               tide_bind_text("sequence", sequence), tide_bind_i64("count", count));
    if (tide_store_engine(tide_tx_store(tx)) == TIDE_ENGINE_SQLITE) {
        TIDE_TRY(tide_query_one(query, err));
        const int64_t last = tide_query_col_i64(query);
        for (int i = 0; i < count; i++)
            ids[i] = last - (count - 1 - i);
        return TIDE_OK;
    }
    int got = 0;
    tide_status status = TIDE_OK;
    while ((status = tide_query_step(query, err)) == TIDE_OK && got < count)
        ids[got++] = tide_query_col_i64(query);
    TIDE_TRY(status);
    if (got != count)
        return tide_fail(err, TIDE_E_DAMAGED, "%s gave %d of %d ids", sequence, got, count);
    return TIDE_OK;
}

tide_status tide_lake_next_ids(tide_tx *tx, tide_lake_counter counter, int count, int64_t *ids,
                               tide_error *err)
{
    if (count == 0)
        return TIDE_OK;
    return take_ids(tx, counters[counter].name, counters[counter].sequence, count, ids, err);
}

/* ---- ids of a transaction of their own ---- */

typedef struct spending {
    tide_lake_counter counter;
    int64_t table_id;
    int count;
    int64_t *ids;
    bool is_behind; /* the counter gave what is there already */
} spending;

static tide_status find_given(tide_tx *tx, const spending *s, int64_t *given, tide_error *err)
{
    return tide_tx_number(
        given, tx, counters[s->counter].given, err,
        TIDE_BIND_IF(s->counter == TIDE_LAKE_COLUMN_IDS, tide_bind_i64("table_id", s->table_id)));
}

/* What is given comes first: who takes ids meanwhile takes higher ones. */
static tide_status spend(tide_tx *tx, void *arg, tide_error *err)
{
    spending *s = arg;
    int64_t given = 0;
    TIDE_TRY(find_given(tx, s, &given, err));
    TIDE_TRY(tide_lake_next_ids(tx, s->counter, s->count, s->ids, err));
    s->is_behind = s->count > 0 && s->ids[0] <= given;
    return TIDE_OK;
}

tide_status tide_lake_spend_ids(tide_lake *lake, tide_lake_counter counter, int64_t table_id,
                                int count, int64_t *ids, tide_error *err)
{
    assert(counters[counter].given);
    spending s = {.counter = counter, .table_id = table_id, .count = count, .ids = ids};
    /* Again, after a lost answer: the first ids are a gap. */
    TIDE_TRY(tide_store_write_by_id(lake->store, spend, &s, false, err));
    if (!s.is_behind)
        return TIDE_OK;
    TIDE_TRY(tide_lake_heal_behind(lake, err));
    TIDE_TRY(tide_store_write(lake->store, spend, &s, err));
    if (s.is_behind)
        return tide_fail(err, TIDE_E_DAMAGED,
                         "the counter of %s ids gave %" PRId64 ", which is there already",
                         counters[counter].name, ids[0]);
    return TIDE_OK;
}

/* ---- spare ids ---- */

static void hold(tide_lake_spare *spare)
{
    while (atomic_flag_test_and_set_explicit(&spare->is_held, memory_order_acquire)) {
        /* held for a few instructions */
    }
}

static void let_go(tide_lake_spare *spare)
{
    atomic_flag_clear_explicit(&spare->is_held, memory_order_release);
}

/* The lowest first, so that ids of one process mostly rise. */
static bool take_spare(tide_lake_spare *spare, int count, int64_t *ids)
{
    hold(spare);
    const bool is_enough = spare->count >= count;
    if (is_enough) {
        memcpy(ids, spare->ids, (size_t)count * sizeof *ids);
        spare->count -= count;
        memmove(spare->ids, spare->ids + count, (size_t)spare->count * sizeof *ids);
    }
    let_go(spare);
    return is_enough;
}

void tide_lake_keep_ids(tide_lake *lake, const tide_lake_left *left)
{
    tide_lake_spare *spare = &lake->spare;
    hold(spare);
    for (int i = 0; i < left->count && spare->count < TIDE_LAKE_SPARE_IDS; i++)
        spare->ids[spare->count++] = left->ids[i];
    let_go(spare);
}

/* How many to take beyond what is asked for: few for a program that commits once, more each time for one that goes on. */
static int next_step(tide_lake_spare *spare)
{
    hold(spare);
    spare->step = spare->step < 16 ? 16 : spare->step;
    spare->step = 2 * spare->step < TIDE_LAKE_SPARE_IDS ? 2 * spare->step : TIDE_LAKE_SPARE_IDS;
    const int step = spare->step;
    let_go(spare);
    return step;
}

tide_status tide_lake_file_ids(tide_lake *lake, tide_tx *tx, int count, int64_t *ids,
                               tide_lake_left *left, tide_error *err)
{
    left->count = 0; /* the closure may run again */
    const bool is_plain = tide_store_engine(lake->store) == TIDE_ENGINE_SQLITE;
    if (count == 0 || is_plain || count > TIDE_LAKE_SPARE_IDS)
        return tide_lake_next_ids(tx, TIDE_LAKE_FILE_IDS, count, ids, err);
    if (take_spare(&lake->spare, count, ids))
        return TIDE_OK;
    int64_t fresh[2 * TIDE_LAKE_SPARE_IDS] = {0};
    const int step = next_step(&lake->spare);
    TIDE_TRY(tide_lake_next_ids(tx, TIDE_LAKE_FILE_IDS, count + step, fresh, err));
    memcpy(ids, fresh, (size_t)count * sizeof *ids);
    memcpy(left->ids, fresh + count, (size_t)step * sizeof *ids);
    left->count = step;
    return TIDE_OK;
}

tide_status tide_lake_heal_behind(tide_lake *lake, tide_error *err)
{
    hold(&lake->spare);
    lake->spare.count = 0;
    let_go(&lake->spare);
    return tide_lake_heal(lake->store, NULL, err);
}

/* ---- snapshots ---- */

tide_status tide_lake_next_snapshot(tide_tx *tx, int64_t catalog_id, int schema_step,
                                    const uint64_t digest[2], int64_t *snapshot, tide_error *err)
{
    if (tide_store_engine(tide_tx_store(tx)) == TIDE_ENGINE_SQLITE) {
        TIDE_TRY(tide_tx_exec(tx, TIDE_LAKE_SQL_LAKE_SNAPSHOT_STEP, NULL, err, TIDE_NO_BIND));
    }
    TIDE_TRY(tide_tx_notify(tx, TIDE_LAKE_TOPIC, err));
    char key[TIDE_TX_KEY_MAX + 1];
    (void)snprintf(key, sizeof key, "lake/head/%" PRId64, catalog_id);
    TIDE_QUERY(take, tx, TIDE_LAKE_SQL_LAKE_HEAD_TAKE, err, tide_bind_i64("catalog_id", catalog_id),
               tide_bind_i64("schema_step", schema_step),
               tide_bind_i64("digest_a", (int64_t)digest[0]),
               tide_bind_i64("digest_b", (int64_t)digest[1]), tide_bind_clock("clock"));
    return tide_tx_declare_counter(tx, key, &take, snapshot, err);
}

tide_status tide_lake_hold_head(tide_tx *tx, int64_t catalog_id, int64_t *head, tide_error *err)
{
    char key[TIDE_TX_KEY_MAX + 1];
    TIDE_TRY(tide_tx_notify(tx, TIDE_LAKE_TOPIC, err));
    (void)snprintf(key, sizeof key, "lake/head/%" PRId64, catalog_id);
    TIDE_QUERY(take, tx, TIDE_LAKE_SQL_LAKE_PARENT_TAKE, err,
               tide_bind_i64("catalog_id", catalog_id));
    return tide_tx_declare_counter(tx, key, &take, head, err);
}

tide_status tide_lake_spend_snapshot(tide_lake *lake, int64_t *number, tide_error *err)
{
    int64_t spent = 0;
    TIDE_TRY(tide_lake_spend_ids(lake, TIDE_LAKE_SNAPSHOT_IDS, 0, 1, &spent, err));
    *number = spent;
    return TIDE_OK;
}
