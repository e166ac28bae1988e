#include "store/postgres/server_starts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/text/uuid.h"
#include "store/migration.h"
#include "store/statement.h"
#include "tidemark_sql.h"

enum { START_SIZE = TIDE_SESSION_ID_SIZE + 24 };

/* A store of an older schema has no table of starts, and is only read; nor has one that was opened
 * with a part of the migrations. */
static bool has_starts(const tide_store *store)
{
    return !store->is_older && store->migrations == tide_sql_migrations;
}

void tide_server_starts_parse(tide_server_starts *out, const char *text)
{
    tide_uuid ignored;
    *out = (tide_server_starts){0};
    for (int len = 0; out->count < TIDE_SERVER_STARTS_MAX; text += len) {
        tide_server_start *start = &out->list[out->count];
        char *end = NULL;
        start->number = strtoll(text, &end, 10);
        if (sscanf(end, " %36s%n", start->id, &len) < 1 || start->number < 1 ||
            tide_uuid_parse(&ignored, tide_view_of(start->id)) != TIDE_OK) {
            *start = (tide_server_start){0};
            return;
        }
        out->count++;
        text = end;
    }
}

tide_status tide_server_starts_check(tide_tx *tx, const tide_server_starts *known,
                                     bool is_comparable, int64_t epoch, tide_starts_check *out,
                                     tide_error *err)
{
    if (!has_starts(tx->store))
        return TIDE_OK;
    char list[TIDE_SERVER_STARTS_MAX * TIDE_SESSION_ID_SIZE] = "";
    for (int i = 0; i < known->count; i++) {
        const size_t len = strlen(list);
        (void)snprintf(list + len, sizeof list - len, "%s%s", i > 0 ? " " : "", known->list[i].id);
    }
    TIDE_QUERY_BY(query, tide_tx_one, tx, TIDE_SQL_SERVER_START_CHECK, err,
                  tide_bind_text("seen", is_comparable ? tide_server_starts_newest(known)->id : ""),
                  tide_bind_text("seen_list", list), tide_bind_i64("epoch", epoch),
                  tide_bind_i64("limit", TIDE_SERVER_STARTS_MAX));
    tide_view_copy(out->started, sizeof out->started, tide_query_col_text(query));
    out->is_missing = !tide_query_col_bool(query);
    out->next_number = tide_query_col_i64(query);
    out->next_wal = (uint64_t)tide_query_col_i64(query);
    out->parting = tide_query_col_i64(query);
    char newest[TIDE_SERVER_STARTS_MAX * START_SIZE];
    tide_view_copy(newest, sizeof newest, tide_query_col_text(query));
    tide_server_starts_parse(&out->starts, newest);
    return TIDE_OK;
}

tide_status tide_server_starts_add(tide_tx *tx, const tide_host *host, int64_t epoch,
                                   tide_starts_check *found, tide_error *err)
{
    if (!has_starts(tx->store))
        return TIDE_OK;
    tide_uuid uuid;
    tide_server_start start = {0};
    tide_server_starts *starts = &found->starts;
    tide_uuid_v4(tx->store->env, &uuid);
    tide_uuid_format(&uuid, start.id);
    TIDE_QUERY_BY(query, tide_tx_one, tx, TIDE_SQL_SERVER_START_ADD, err,
                  tide_bind_text("start_id", start.id), tide_bind_text("started", host->started),
                  tide_bind_i64("epoch", epoch),
                  tide_bind_i64("wal", (int64_t)host->checkpoint_wal), tide_bind_now("now"));
    start.number = tide_query_col_i64(query);
    starts->count += starts->count < TIDE_SERVER_STARTS_MAX;
    memmove(&starts->list[1], &starts->list[0],
            (size_t)(starts->count - 1) * sizeof starts->list[0]);
    starts->list[0] = start;
    memcpy(found->started, host->started, sizeof found->started);
    found->is_missing = false;
    return TIDE_OK;
}

void tide_server_starts_describe(const tide_server_starts *known, const tide_starts_check *found,
                                 char *out, size_t size)
{
    const tide_server_start *newest = tide_server_starts_newest(known);
    if (found->parting < newest->number)
        (void)snprintf(out, size,
                       "parted at start %" PRId64 " of the server, start %" PRId64
                       " (%s) is missing",
                       found->parting, newest->number, newest->id);
    else
        (void)snprintf(out, size, "start %" PRId64 " of the server (%s) is missing", newest->number,
                       newest->id);
}
