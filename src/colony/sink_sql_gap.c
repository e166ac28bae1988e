/* sink_sql_gap.c - gaps as rows of sequence_gaps. See sink_sql.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/list.h"
#include "base/text/json.h"
#include "base/text/timefmt.h"
#include "colony/sink_sql.h"
#include "store/statement.h"
#include "tidemark_sql.h"

enum { LIST_USUAL = 1000, PUT_MAX = 1000 /* of one statement */ };

/* ---- writing ---- */

static tide_status close_all(tide_tx *tx, const tide_change *change, int64_t source_id,
                             int64_t now_us, tide_error *err)
{
    return tide_tx_exec(
        tx, TIDE_SQL_GAP_CLOSE_ALL, NULL, err, tide_bind_i64("source_id", source_id),
        tide_bind_i64("above", change->closes_gaps_above),
        tide_bind_text("reason", change->closed.closed_reason), tide_bind_time("now", now_us));
}

static tide_status change_gap(tide_tx *tx, const tide_gap *gap, int64_t source_id, tide_error *err)
{
    int64_t changed = 0;
    TIDE_QUERY(query, tx, TIDE_SQL_GAP_CHANGE, err, tide_bind_i64("id", gap->id),
               tide_bind_i64("source_id", source_id), tide_bind_i64("start", gap->start_seq),
               tide_bind_i64("end", gap->end_seq),
               tide_bind_text("status", tide_gap_status_name(gap->status)),
               tide_bind_text("reason", gap->reason), tide_bind_text("evidence", gap->evidence),
               tide_bind_i64("attempts", gap->attempts));
    tide_sink_sql_bind_time(query, "recovered_at", gap->recovered_at_us);
    tide_sink_sql_bind_time(query, "last_attempt", gap->last_attempt_us);
    tide_sink_sql_bind_time(query, "settled_at", gap->settled_at_us);
    TIDE_TRY(tide_query_run(query, &changed, err));
    if (changed == 1)
        return TIDE_OK;
    return tide_fail(err, TIDE_E_CONFLICT, "gap %" PRId64 " of %s, %s is gone", gap->id,
                     gap->agent_id, gap->data_type);
}

static void add_time(tide_json *json, int64_t us)
{
    char text[TIDE_TIME_TEXT_SIZE];
    if (us != 0 && tide_time_format(us, text) == TIDE_OK)
        tide_json_text(json, text);
    else
        tide_json_null(json);
}

static void add_gap(tide_json *json, const tide_gap *gap, int64_t now_us)
{
    tide_json_array_begin(json);
    tide_json_i64(json, gap->start_seq);
    tide_json_i64(json, gap->end_seq);
    tide_json_text(json, tide_gap_status_name(gap->status));
    tide_json_text(json, gap->reason);
    tide_json_text(json, gap->evidence);
    tide_json_i64(json, gap->attempts);
    add_time(json, gap->detected_at_us ? gap->detected_at_us : now_us);
    add_time(json, gap->recovered_at_us);
    add_time(json, gap->last_attempt_us);
    add_time(json, gap->settled_at_us);
    tide_json_array_end(json);
}

/* Ids come back in any order, mostly in that of the list: the search goes on where the last one was found. */
static tide_status take_ids(tide_query *query, const tide_change *change, int64_t *ids,
                            tide_error *err)
{
    int at = 0;
    TIDE_EACH(tide_query_step(query, err)) {
        const int64_t id = tide_query_col_i64(query);
        const int64_t start = tide_query_col_i64(query);
        for (int i = 0; i < change->gap_count; i++) {
            const int place = (at + i) % change->gap_count;
            if (change->gaps[place].id != 0 || change->gaps[place].start_seq != start)
                continue;
            ids[place] = id;
            at = place + 1;
            break;
        }
    }
    return TIDE_OK;
}

/* New ones from *at on; *at moves behind those that were taken. */
static tide_status insert_some(tide_tx *tx, const tide_change *change, const tide_position *of,
                               int64_t source_id, int64_t now_us, int *at, int64_t *ids,
                               tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(TIDE_TX_BYTES_MAX / 2);
    tide_json json;
    tide_json_init(&json, &text);
    tide_json_array_begin(&json);
    int count = 0;
    for (; *at < change->gap_count && count < PUT_MAX; (*at)++) {
        if (change->gaps[*at].id != 0)
            continue;
        add_gap(&json, &change->gaps[*at], now_us);
        count++;
    }
    tide_json_array_end(&json);
    const tide_status written = tide_json_finish(&json);
    if (written < TIDE_OK)
        return tide_fail(err, written, "no room for %d gaps", count);
    if (count == 0)
        return TIDE_OK;
    TIDE_QUERY(query, tx, TIDE_SQL_GAP_PUT, err, tide_bind_text("agent_id", of->agent_id),
               tide_bind_text("data_type", of->data_type),
               tide_bind_text("session_id", of->session_id), tide_bind_i64("epoch", of->epoch),
               tide_bind_i64("source_id", source_id),
               tide_bind_view("gaps", tide_buffer_view(&text)));
    return take_ids(query, change, ids, err);
}

tide_status tide_sink_sql_put_gaps(tide_tx *tx, const tide_change *change, const tide_position *of,
                                   int64_t source_id, int64_t now_us, int64_t *ids, tide_error *err)
{
    /* First what ends as a whole: those that the change names have their own say. Updates before inserts: a gap that was cut makes
     * room for the start of the next. */
    if (change->closes_all_gaps && of == &change->closed)
        TIDE_TRY(close_all(tx, change, source_id, now_us, err));
    for (int i = 0; i < change->gap_count; i++)
        if (change->gaps[i].id != 0)
            TIDE_TRY(change_gap(tx, &change->gaps[i], source_id, err));
    for (int at = 0; at < change->gap_count;)
        TIDE_TRY(insert_some(tx, change, of, source_id, now_us, &at, ids, err));
    return TIDE_OK;
}

/* ---- reading ---- */

static tide_gap_status status_of(tide_view name)
{
    for (int i = 0; i < TIDE_GAP_STATUS_COUNT; i++)
        if (tide_view_equal(name, tide_view_of(tide_gap_status_name((tide_gap_status)i))))
            return (tide_gap_status)i;
    return TIDE_GAP_PERMANENT; /* the table admits no others */
}

static void read_gap(tide_gap *out, tide_query *query)
{
    memset(out, 0, sizeof *out);
    out->id = tide_query_col_i64(query);
    tide_sink_sql_text(out->agent_id, sizeof out->agent_id, tide_query_col_text(query));
    tide_sink_sql_text(out->data_type, sizeof out->data_type, tide_query_col_text(query));
    tide_sink_sql_text(out->session_id, sizeof out->session_id, tide_query_col_text(query));
    out->epoch = tide_query_col_i64(query);
    out->source_id = tide_query_col_i64(query);
    out->start_seq = tide_query_col_i64(query);
    out->end_seq = tide_query_col_i64(query);
    out->status = status_of(tide_query_col_text(query));
    tide_sink_sql_text(out->reason, sizeof out->reason, tide_query_col_text(query));
    tide_sink_sql_text(out->evidence, sizeof out->evidence, tide_query_col_text(query));
    out->attempts = (int)tide_query_col_i64(query);
    out->detected_at_us = tide_sink_sql_col_time(query);
    out->recovered_at_us = tide_sink_sql_col_time(query);
    out->last_attempt_us = tide_sink_sql_col_time(query);
    out->settled_at_us = tide_sink_sql_col_time(query);
}

/* Gathered first and told afterwards: a snapshot may be read twice (a lost connection), and whoever is told may use the store. */
typedef struct listing {
    const tide_gap_filter *filter;
    int64_t limit;
    tide_gap *gaps;
    int64_t count;
} listing;

static void drop_listing(listing *list)
{
    free(list->gaps);
}

static void bind_text_or_null(tide_query *query, const char *name, const char *text)
{
    if (text)
        tide_query_bind_text(query, name, text);
    else
        tide_query_bind_null(query, name);
}

static void bind_filter(tide_query *query, const tide_gap_filter *filter, int64_t limit)
{
    static const char *const names[TIDE_GAP_STATUS_COUNT] = {
        [TIDE_GAP_DETECTED] = "detected",   [TIDE_GAP_RECOVERING] = "recovering",
        [TIDE_GAP_RECOVERED] = "recovered", [TIDE_GAP_PERMANENT] = "permanent",
        [TIDE_GAP_VOID] = "void",
    };
    tide_query_bind_i64(query, "after", filter->after_id);
    bind_text_or_null(query, "agent_id", filter->agent_id);
    bind_text_or_null(query, "data_type", filter->data_type);
    bind_text_or_null(query, "session_id", filter->session_id);
    tide_query_bind_i64(query, "epoch", filter->epoch);
    tide_query_bind_i64(query, "first", filter->last_seq > 0 ? filter->first_seq : 0);
    tide_query_bind_i64(query, "last", filter->last_seq > 0 ? filter->last_seq : INT64_MAX);
    for (int i = 0; i < TIDE_GAP_STATUS_COUNT; i++)
        tide_query_bind_bool(query, names[i],
                             filter->statuses == 0 || (filter->statuses & 1U << i) != 0);
    tide_query_bind_i64(query, "limit", limit);
}

static tide_status append_gap(listing *list, tide_query *query, tide_error *err)
{
    TIDE_TRY(tide_list_room(&list->gaps, list->count, sizeof *list->gaps, TIDE_LIST_MAX, err));
    read_gap(&list->gaps[list->count++], query);
    return TIDE_OK;
}

static tide_status gather(tide_tx *tx, void *arg, tide_error *err)
{
    listing *list = arg;
    const tide_gap_filter *filter = list->filter;
    const bool is_of_one =
        filter->agent_id && filter->data_type && filter->session_id && filter->epoch >= 0;
    list->count = 0;
    TIDE_QUERY_BY(query, tide_query_begin, tx, is_of_one ? TIDE_SQL_GAP_LIST_OF : TIDE_SQL_GAP_LIST,
                  err);
    bind_filter(query, filter, list->limit);
    TIDE_EACH(tide_query_step(query, err))
        TIDE_TRY(append_gap(list, query, err));
    return TIDE_OK;
}

tide_status tide_sink_sql_gaps(tide_sink *sink, const tide_gap_filter *filter, tide_gap_fn *fn,
                               void *arg, tide_error *err)
{
    TIDE_CLEANUP(drop_listing) listing list = {.filter = filter};
    list.limit = filter->limit > 0 ? filter->limit : LIST_USUAL;
    if (list.limit > TIDE_SINK_GAPS_MAX)
        list.limit = TIDE_SINK_GAPS_MAX;
    TIDE_TRY(tide_store_read(sink->store, gather, &list, err));
    for (int64_t i = 0; i < list.count; i++)
        TIDE_TRY(fn(arg, &list.gaps[i], err));
    return TIDE_OK;
}

typedef struct finding {
    int64_t id;
    tide_gap *out;
} finding;

static tide_status find(tide_tx *tx, void *arg, tide_error *err)
{
    const finding *f = arg;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status =
        tide_tx_one(&query, tx, TIDE_SQL_GAP_FIND, err, tide_bind_i64("id", f->id));
    if (status == TIDE_OK)
        read_gap(f->out, query);
    return status;
}

tide_status tide_sink_sql_gap(tide_sink *sink, int64_t id, tide_gap *out, tide_error *err)
{
    finding f = {.id = id, .out = out};
    return tide_store_read(sink->store, find, &f, err);
}
