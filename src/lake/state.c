/* state.c - catalogs and their snapshots. */
#include "lake/state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "base/text/timefmt.h"
#include "lake/lake_parts.h"
#include "lake/state_row.h"
#include "store/statement.h"
#include "tidemark_lake_sql.h"

tide_status tide_lake_copy(char *out, size_t size, tide_view text, const char *what,
                           tide_error *err)
{
    if (text.len >= size)
        return tide_fail(err, TIDE_E_LIMIT,
                         "%s has %zu bytes, and this program holds at most %zu: use a stock "
                         "DuckLake client for it",
                         what, text.len, size - 1);
    if (text.len > 0)
        memcpy(out, text.ptr, text.len);
    out[text.len] = '\0';
    return TIDE_OK;
}

/* ---- catalogs ---- */

static tide_status read_catalog(tide_query *query, tide_lake_catalog *out, tide_error *err)
{
    memset(out, 0, sizeof *out);
    out->catalog_id = tide_query_col_i64(query);
    TIDE_TRY(tide_lake_copy(out->name, sizeof out->name, tide_query_col_text(query),
                            "a catalog's name", err));
    TIDE_TRY(
        tide_lake_copy(out->uuid, sizeof out->uuid, tide_query_col_text(query), "a UUID", err));
    out->parent_id = tide_query_col_i64(query);
    TIDE_TRY(tide_lake_copy(out->parent_name, sizeof out->parent_name, tide_query_col_text(query),
                            "a catalog's name", err));
    out->fork_snapshot = tide_query_col_i64(query);
    out->created_snapshot = tide_query_col_i64(query);
    out->created_at_us = tide_query_col_time(query);
    out->head = tide_query_col_i64(query);
    out->head_time_us = tide_query_col_time(query);
    out->schema_version = tide_query_col_i64(query);
    TIDE_TRY(tide_lake_copy(out->exposed_as, sizeof out->exposed_as, tide_query_col_text(query),
                            "a schema's name", err));
    out->digest[0] = tide_query_col_i64(query);
    out->digest[1] = tide_query_col_i64(query);
    return TIDE_OK;
}

static void take_catalog(tide_query *query, void *arg)
{
    tide_lake_catalog_wish *wish = arg;
    wish->status = read_catalog(query, wish->out, &wish->failure);
}

tide_status tide_lake_wish_catalog(tide_tx *tx, const char *name, tide_lake_catalog_wish *wish,
                                   tide_error *err)
{
    char folded[TIDE_LAKE_NAME_MAX + 1];
    wish->status = TIDE_NONE;
    tide_lake_fold(folded, name);
    TIDE_QUERY(query, tx, TIDE_LAKE_SQL_LAKE_CATALOG_FIND, err, tide_bind_text("name", folded));
    return tide_query_defer_rows(&query, take_catalog, wish, err);
}

tide_status tide_lake_each_catalog(tide_tx *tx, tide_lake_catalog_fn *fn, void *arg,
                                   tide_error *err)
{
    TIDE_QUERY_BY(query, tide_query_begin, tx, TIDE_LAKE_SQL_LAKE_CATALOG_LIST, err);
    TIDE_EACH(tide_query_step(query, err)) {
        tide_lake_catalog catalog;
        TIDE_TRY(read_catalog(query, &catalog, err));
        TIDE_TRY(tide_callback_check(fn(arg, &catalog, err), err));
    }
    return TIDE_OK;
}

typedef struct catalog_names {
    char text[200];
    int count;
} catalog_names;

static tide_status gather_name(void *arg, const tide_lake_catalog *catalog, tide_error *err)
{
    (void)err;
    catalog_names *names = arg;
    const size_t len = strlen(names->text);
    if (len + strlen(catalog->name) + 3 < sizeof names->text)
        (void)snprintf(names->text + len, sizeof names->text - len, "%s%s", len > 0 ? ", " : "",
                       catalog->name);
    names->count++;
    return TIDE_OK;
}

static tide_status fail_unknown(tide_tx *tx, const char *name, tide_error *err)
{
    catalog_names names = {.text = ""};
    TIDE_TRY(tide_lake_each_catalog(tx, gather_name, &names, err));
    if (names.count == 0)
        return tide_fail(err, TIDE_E_NOT_FOUND,
                         "there is no catalog '%.100s', nor any other: make one with 'tidemark "
                         "lake catalog create NAME'",
                         name);
    return tide_fail(err, TIDE_E_NOT_FOUND,
                     "there is no catalog '%.100s'; there %s %s%s (a new one is made with "
                     "'tidemark lake catalog create NAME')",
                     name, names.count == 1 ? "is" : "are", names.text,
                     names.count > 10 ? ", ..." : "");
}

tide_status tide_lake_find_catalog(tide_tx *tx, const char *name, tide_lake_catalog *out,
                                   tide_error *err)
{
    char folded[TIDE_LAKE_NAME_MAX + 1];
    TIDE_TRY(tide_lake_check_name(name, "catalog", err));
    tide_lake_fold(folded, name);
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status = tide_tx_one(&query, tx, TIDE_LAKE_SQL_LAKE_CATALOG_FIND, err,
                                           tide_bind_text("name", folded));
    TIDE_TRY(status);
    return status == TIDE_OK ? read_catalog(query, out, err) : fail_unknown(tx, name, err);
}

/* ---- snapshots ---- */

static tide_status find_oldest(tide_tx *tx, int64_t catalog_id, int64_t *snapshot, int64_t *time_us,
                               tide_error *err)
{
    TIDE_QUERY(query, tx, TIDE_LAKE_SQL_LAKE_SNAPSHOT_OLDEST, err,
               tide_bind_i64("catalog_id", catalog_id));
    tide_status status = TIDE_OK;
    *snapshot = 0;
    *time_us = 0;
    while ((status = tide_query_step(query, err)) == TIDE_OK && *snapshot == 0) {
        *snapshot = tide_query_col_i64(query);
        *time_us = tide_query_col_is_null(query) ? 0 : tide_query_col_time(query);
    }
    return status < TIDE_OK ? status : TIDE_OK;
}

static tide_status fail_snapshot(tide_tx *tx, const tide_lake_catalog *catalog, const char *at,
                                 tide_error *err)
{
    int64_t oldest = 0;
    int64_t time_us = 0;
    char text[TIDE_TIME_TEXT_SIZE] = "";
    TIDE_TRY(find_oldest(tx, catalog->catalog_id, &oldest, &time_us, err));
    TIDE_IGNORE(tide_time_format(time_us, text));
    return tide_fail(err, TIDE_E_NOT_FOUND,
                     "catalog %.100s has no snapshot at %.60s: its oldest is %" PRId64
                     " (%s), its newest %" PRId64 "; 'tidemark lake snapshots' lists them",
                     catalog->name, at, oldest, text, catalog->head);
}

static tide_status find_by_id(tide_tx *tx, const tide_lake_catalog *catalog, int64_t wanted,
                              int64_t *snapshot, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status = tide_tx_one(&query, tx, TIDE_LAKE_SQL_LAKE_SNAPSHOT_FIND, err,
                                           tide_bind_i64("catalog_id", catalog->catalog_id),
                                           tide_bind_i64("snapshot", wanted));
    if (status == TIDE_OK)
        *snapshot = tide_query_col_i64(query);
    return status;
}

static tide_status find_by_time(tide_tx *tx, const tide_lake_catalog *catalog, int64_t time_us,
                                int64_t *snapshot, tide_error *err)
{
    TIDE_QUERY(query, tx, TIDE_LAKE_SQL_LAKE_SNAPSHOT_AT, err,
               tide_bind_i64("catalog_id", catalog->catalog_id), tide_bind_time("time", time_us));
    tide_status status = TIDE_OK;
    while ((status = tide_query_step(query, err)) == TIDE_OK) {
        if (tide_query_col_is_null(query))
            continue;
        *snapshot = tide_query_col_i64(query);
        return TIDE_OK;
    }
    return status;
}

tide_status tide_lake_find_snapshot(tide_tx *tx, const tide_lake_catalog *catalog, const char *at,
                                    int64_t *snapshot, tide_error *err)
{
    if (!at || !at[0]) {
        *snapshot = catalog->head;
        return TIDE_OK;
    }
    char *end = NULL;
    int64_t time_us = 0;
    errno = 0;
    const int64_t id = strtoll(at, &end, 10);
    tide_status status = TIDE_OK;
    if (*end == '\0' && errno == 0)
        status = find_by_id(tx, catalog, id, snapshot, err);
    else if (tide_time_parse(&time_us, tide_view_of(at)) == TIDE_OK)
        status = find_by_time(tx, catalog, time_us, snapshot, err);
    else
        return tide_fail(err, TIDE_E_INVALID,
                         "'%.60s' is neither a snapshot's number nor a time (2026-01-31 12:00:00)",
                         at);
    return status == TIDE_NONE ? fail_snapshot(tx, catalog, at, err) : status;
}

tide_status tide_lake_each_snapshot(tide_tx *tx, int64_t catalog_id, int64_t after, int64_t limit,
                                    tide_lake_snapshot_fn *fn, void *arg, tide_error *err)
{
    TIDE_QUERY(query, tx, TIDE_LAKE_SQL_LAKE_SNAPSHOT_LIST, err,
               tide_bind_i64("catalog_id", catalog_id), tide_bind_i64("after", after),
               tide_bind_i64("limit", limit));
    TIDE_EACH(tide_query_step(query, err)) {
        tide_lake_snapshot row = {.snapshot_id = tide_query_col_i64(query)};
        row.catalog_id = tide_query_col_i64(query);
        row.time_us = tide_query_col_time(query);
        row.schema_version = tide_query_col_i64(query);
        row.changes_made = tide_query_col_text(query);
        row.author = tide_query_col_text(query);
        row.message = tide_query_col_text(query);
        TIDE_TRY(tide_callback_check(fn(arg, &row, err), err));
    }
    return TIDE_OK;
}

typedef struct catalog_listing {
    tide_lake_catalog_fn *fn;
    void *arg;
} catalog_listing;

static tide_status list_catalogs(tide_tx *tx, void *arg, tide_error *err)
{
    const catalog_listing *l = arg;
    return tide_lake_each_catalog(tx, l->fn, l->arg, err);
}

tide_status tide_lake_list_catalogs(tide_lake *lake, tide_lake_catalog_fn *fn, void *arg,
                                    tide_error *err)
{
    TIDE_NEED(lake && fn, err);
    catalog_listing l = {fn, arg};
    return tide_store_read(tide_lake_store(lake), list_catalogs, &l, err);
}
