/* history.c - see history.h. */
#include "lake/history.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "lake/history_parts.h"
#include "store/statement.h"
#include "tidemark_lake_sql.h"

void tide_history_tell(tide_history *h, const char *rule, int64_t snapshot, const char *format, ...)
{
    char words[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(words, sizeof words, format, args);
    va_end(args);
    h->checked.findings++;
    if (h->fn)
        h->fn(h->arg, &(tide_lake_finding){rule, h->catalog_id, snapshot, words});
}

/* ---- queries whose every row is a finding: a snapshot, two ids, a text ---- */

typedef struct suspicion {
    const char *rule;
    const tide_sql *sql;
    const char *format; /* %1$ text, %2$ and %3$ the ids */
} suspicion;

static const suspicion of_a_catalog[] = {
    {"names", TIDE_LAKE_SQL_CHECK_SCHEMA_NAMES,
     "schema %2$" PRId64 " has the name '%1$s' while %3$" PRId64 " or another lives with it"},
    {"names", TIDE_LAKE_SQL_CHECK_OBJECT_NAMES,
     "table or view %2$" PRId64 " has the name '%1$s' while %3$" PRId64
     " or another lives with it"},
    {"names", TIDE_LAKE_SQL_CHECK_COLUMN_NAMES,
     "column %2$" PRId64 " of table %3$" PRId64 " has the name '%1$s', which another has"},
    {"files", TIDE_LAKE_SQL_CHECK_DELETE_ALONE,
     "delete file %2$" PRId64 " (%1$s) outlives its data file %3$" PRId64},
    {"files", TIDE_LAKE_SQL_CHECK_DELETE_TWICE,
     "delete file %2$" PRId64 " (%1$s) is not the only one of data file %3$" PRId64},
    {"files", TIDE_LAKE_SQL_CHECK_FILE_ALONE,
     "data file %2$" PRId64 " (%1$s) outlives its table %3$" PRId64},
};

static const suspicion of_all[] = {
    {"names", TIDE_LAKE_SQL_CHECK_OBJECT_IDS,
     "id %2$" PRId64 " names %3$" PRId64 " schemas, tables or views, '%1$s' among them"},
    {"files", TIDE_LAKE_SQL_CHECK_FILE_IDS,
     "file id %2$" PRId64 " names %3$" PRId64 " files, '%1$s' among them"},
    {"files", TIDE_LAKE_SQL_CHECK_FILE_PATHS, "'%1$s' is file %2$" PRId64 " and file %3$" PRId64},
    {"files", TIDE_LAKE_SQL_CHECK_SCHEDULED,
     "file %2$" PRId64 " (%1$s) is scheduled for deletion by catalog %3$" PRId64 ", but has a row"},
};

static tide_status ask_suspicion(tide_history *h, const suspicion *s, bool is_of_catalog,
                                 tide_error *err)
{
    TIDE_QUERY(query, h->tx, s->sql, err,
               TIDE_BIND_IF(is_of_catalog, tide_bind_i64("catalog", h->catalog_id)),
               tide_bind_i64("limit", TIDE_LAKE_FINDINGS_MAX));
    TIDE_EACH(tide_query_step(query, err)) {
        const int64_t snapshot = tide_query_col_i64(query);
        const int64_t id = tide_query_col_i64(query);
        const int64_t other = tide_query_col_i64(query);
        const tide_view view = tide_query_col_text(query);
        char text[160];
        (void)snprintf(text, sizeof text, "%.*s", (int)view.len, view.len > 0 ? view.ptr : "");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        tide_history_tell(h, s->rule, snapshot, s->format, text, id, other);
#pragma GCC diagnostic pop
    }
    return TIDE_OK;
}

static tide_status check_counters(tide_history *h, tide_error *err)
{
    TIDE_QUERY_BY(query, tide_query_begin, h->tx, TIDE_LAKE_SQL_CHECK_COUNTERS, err);
    TIDE_EACH(tide_query_step(query, err)) {
        const tide_view name = tide_query_col_text(query);
        const int64_t last = tide_query_col_i64(query);
        const int64_t highest = tide_query_col_i64(query);
        if (last < highest)
            tide_history_tell(h, "counters", 0,
                              "the counter of %.*s ids stands at %" PRId64 ", but %" PRId64
                              " is in use",
                              (int)name.len, name.ptr, last, highest);
    }
    return TIDE_OK;
}

static tide_status check_all(tide_history *h, tide_error *err)
{
    h->catalog_id = 0;
    for (size_t i = 0; i < sizeof of_all / sizeof *of_all; i++)
        TIDE_TRY(ask_suspicion(h, &of_all[i], false, err));
    return check_counters(h, err);
}

/* ---- catalogs ---- */

/* TIDE_NONE: that was the last. */
static tide_status next_catalog(tide_history *h, int64_t after, tide_error *err)
{
    TIDE_QUERY_ONE(query, h->tx, TIDE_LAKE_SQL_CHECK_CATALOG, err, tide_bind_i64("after", after));
    h->catalog_id = tide_query_col_i64(query);
    h->parent_id = tide_query_col_i64(query);
    h->fork_snapshot = tide_query_col_i64(query);
    h->created_snapshot = tide_query_col_i64(query);
    h->is_dropped = tide_query_col_bool(query);
    h->has_head = tide_query_col_bool(query);
    h->head = tide_query_col_i64(query);
    h->head_parent = tide_query_col_i64(query);
    h->head_digest.sums[0] = (uint64_t)tide_query_col_i64(query);
    h->head_digest.sums[1] = (uint64_t)tide_query_col_i64(query);
    return TIDE_OK;
}

static tide_status check_catalog(tide_history *h, tide_error *err)
{
    h->checked.catalogs++;
    TIDE_TRY(tide_history_read_line(h, err));
    TIDE_TRY(tide_history_check_rows(h, err));
    TIDE_TRY(tide_history_check_deeds(h, err));
    for (size_t i = 0; i < sizeof of_a_catalog / sizeof *of_a_catalog; i++)
        TIDE_TRY(ask_suspicion(h, &of_a_catalog[i], true, err));
    return TIDE_OK;
}

static tide_status find_catalog(tide_tx *tx, const char *name, int64_t *id, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status =
        tide_tx_one(&query, tx, TIDE_LAKE_SQL_CHECK_CATALOG_ID, err, tide_bind_text("name", name));
    TIDE_TRY(status);
    if (status == TIDE_NONE)
        return tide_fail(err, TIDE_E_NOT_FOUND,
                         "no catalog '%s': 'tidemark lake catalog ls' lists those there are", name);
    *id = tide_query_col_i64(query);
    return TIDE_OK;
}

typedef struct history_run {
    tide_history h;
    const char *catalog;
} history_run;

static tide_status run_history(tide_tx *tx, void *arg, tide_error *err)
{
    history_run *run = arg;
    tide_history *h = &run->h;
    h->tx = tx;
    h->checked = (tide_lake_checked){0};
    int64_t only = 0;
    if (run->catalog) {
        TIDE_TRY(find_catalog(tx, run->catalog, &only, err));
    } else {
        TIDE_TRY(check_all(h, err));
    }
    for (int64_t after = run->catalog ? only - 1 : 0;; after = h->catalog_id) {
        const tide_status status = next_catalog(h, after, err);
        TIDE_TRY(status);
        if (status == TIDE_NONE)
            return TIDE_OK;
        TIDE_TRY(check_catalog(h, err));
        if (run->catalog)
            return TIDE_OK;
    }
}

static tide_status judge(const tide_lake_checked *checked, tide_error *err)
{
    if (checked->findings == 0)
        return TIDE_OK;
    return tide_fail(err, TIDE_E_DAMAGED, "the history breaks its rules: %" PRId64 " findings",
                     checked->findings);
}

tide_status tide_lake_check_history(tide_lake *lake, const char *catalog, tide_lake_finding_fn *fn,
                                    void *arg, tide_lake_checked *out, tide_error *err)
{
    TIDE_NEED(lake, err);
    history_run run = {.h = {.fn = fn, .arg = arg}, .catalog = catalog};
    const tide_status status = tide_store_read(tide_lake_store(lake), run_history, &run, err);
    free(run.h.points);
    TIDE_TRY(status);
    if (out)
        *out = run.h.checked;
    return judge(&run.h.checked, err);
}

/* ---- sights ---- */

static tide_status add_seen(void *arg, const tide_history_row *row, tide_error *err)
{
    (void)err;
    tide_lake_sight *sight = arg;
    tide_lake_digest_add(&sight->digest, &row->digest);
    return TIDE_OK;
}

tide_status tide_lake_look(tide_tx *tx, int64_t catalog_id, int64_t snapshot, tide_lake_sight *out,
                           tide_error *err)
{
    *out = (tide_lake_sight){.catalog_id = catalog_id, .snapshot_id = snapshot};
    return tide_history_each_row(tx, catalog_id, snapshot, snapshot, add_seen, out, err);
}

typedef struct sights_run {
    tide_history h;
    const tide_lake_sight *sights;
    int64_t count;
} sights_run;

static tide_status check_sight(tide_history *h, const tide_lake_sight *sight, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status = tide_tx_one(&query, h->tx, TIDE_LAKE_SQL_CHECK_COMMIT, err,
                                           tide_bind_i64("catalog", sight->catalog_id),
                                           tide_bind_i64("snapshot", sight->snapshot_id));
    TIDE_TRY(status);
    h->catalog_id = sight->catalog_id;
    h->checked.snapshots++;
    if (status == TIDE_NONE) {
        tide_history_tell(h, "observed", sight->snapshot_id,
                          "snapshot %" PRId64 " was seen, and is not there", sight->snapshot_id);
        return TIDE_OK;
    }
    const uint64_t first = (uint64_t)tide_query_col_i64(query);
    const uint64_t second = (uint64_t)tide_query_col_i64(query);
    if (first != sight->digest.sums[0] || second != sight->digest.sums[1])
        tide_history_tell(h, "observed", sight->snapshot_id,
                          "snapshot %" PRId64
                          " was seen with another state than its commit recorded",
                          sight->snapshot_id);
    return TIDE_OK;
}

static tide_status run_sights(tide_tx *tx, void *arg, tide_error *err)
{
    sights_run *run = arg;
    run->h.tx = tx;
    run->h.checked = (tide_lake_checked){0};
    for (int64_t i = 0; i < run->count; i++)
        TIDE_TRY(check_sight(&run->h, &run->sights[i], err));
    return TIDE_OK;
}

tide_status tide_lake_check_sights(tide_lake *lake, const tide_lake_sight *sights, int64_t count,
                                   tide_lake_finding_fn *fn, void *arg, tide_lake_checked *out,
                                   tide_error *err)
{
    sights_run run = {.h = {.fn = fn, .arg = arg}, .sights = sights, .count = count};
    TIDE_TRY(tide_store_read(tide_lake_store(lake), run_sights, &run, err));
    if (out)
        *out = run.h.checked;
    return judge(&run.h.checked, err);
}
