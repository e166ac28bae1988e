/* sink_sql_apply.c - a change as one transaction. See sink.h for what happens where. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/lease.h>

#include "base/cleanup.h"
#include "colony/sink_sql.h"
#include "store/statement.h"
#include "tidemark_sql.h"

/* What a run finds out; handed over when it is durable. */
typedef struct applying {
    const tide_change *change;
    int64_t source_id; /* of `to`, or of `closed` when nothing follows */
    int64_t version;
    int64_t closed_source_id;
    int64_t *gap_ids;
} applying;

static bool is_same_source(const tide_position *a, const tide_position *b)
{
    return a->epoch == b->epoch && strcmp(a->session_id, b->session_id) == 0;
}

/* Where nothing was stored yet, or of an agent that was removed before, nothing is left to be closed: what follows begins. */
static bool is_ending(const tide_change *change)
{
    return change->is_closing && change->from.source_id != 0;
}

static tide_status fail_moved(const tide_position *from, tide_error *err)
{
    return tide_fail(err, TIDE_E_CONFLICT, "%s, %s is no longer at version %" PRId64,
                     from->agent_id, from->data_type, from->version);
}

/* ---- sources ---- */

static tide_status put_source(tide_tx *tx, const tide_position *of, int64_t now_us, int64_t *id,
                              tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status =
        tide_tx_one(&query, tx, TIDE_SQL_SOURCE_PUT, err, tide_bind_text("agent_id", of->agent_id),
                    tide_bind_text("data_type", of->data_type),
                    tide_bind_text("session_id", of->session_id), tide_bind_i64("epoch", of->epoch),
                    tide_bind_text("epoch_id", of->epoch_id), tide_bind_time("now", now_us));
    if (status == TIDE_NONE)
        return tide_fail(err, TIDE_E_DAMAGED,
                         "a source got no number: is there a foreign trigger?");
    TIDE_TRY(status);
    *id = tide_query_col_i64(query);
    return TIDE_OK;
}

/* A position begins on this source. If the source has a closed one, it is that one which is opened again, or the change was made without
 * knowing of it. */
static tide_status open_again(tide_tx *tx, const tide_position *to, int64_t source_id,
                              tide_error *err)
{
    int64_t changed = 0;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    if (to->source_id == source_id) {
        TIDE_TRY(tide_query_start(&query, tx, TIDE_SQL_POSITION_REOPEN, err,
                                  tide_bind_i64("source_id", source_id)));
        TIDE_TRY(tide_query_run(query, &changed, err));
        return changed == 1 ? TIDE_OK : fail_moved(to, err);
    }
    const tide_status status = tide_tx_one(&query, tx, TIDE_SQL_POSITION_CLOSED, err,
                                           tide_bind_i64("source_id", source_id));
    if (status == TIDE_OK)
        return tide_fail(err, TIDE_E_CONFLICT, "session %s of %s, %s was here before",
                         to->session_id, to->agent_id, to->data_type);
    return status < TIDE_OK ? status : TIDE_OK;
}

/* ---- the position ---- */

static tide_status write_position(tide_tx *tx, const tide_sql *sql, const applying *job,
                                  const tide_position *position, tide_error *err)
{
    const tide_position *from = &job->change->from;
    int64_t changed = 0;
    TIDE_QUERY_BY(query, tide_query_begin, tx, sql, err);
    TIDE_TRY(tide_sink_sql_bind_position(query, position, job->source_id, job->version, err));
    if (sql != TIDE_SQL_POSITION_ADD)
        tide_query_bind_i64(query, "from_version", from->version);
    TIDE_TRY(tide_query_run(query, &changed, err));
    return changed == 1 ? TIDE_OK : fail_moved(from, err);
}

static tide_status note_position(tide_tx *tx, const tide_position *position, int64_t source_id,
                                 const char *event, const char *note, int64_t now_us,
                                 tide_error *err)
{
    TIDE_QUERY(query, tx, TIDE_SQL_POSITION_NOTE, err, tide_bind_text("event", event),
               tide_bind_text("note", note), tide_bind_time("recorded_at", now_us));
    TIDE_TRY(tide_sink_sql_bind_position(query, position, source_id, position->version, err));
    return tide_query_defer(&query, err);
}

/* One that goes on: the ordinary page, and what is still recovered for one that is closed. */
static tide_status go_on(tide_tx *tx, applying *job, int64_t now_us, tide_error *err)
{
    const tide_change *change = job->change;
    const tide_position *to = &change->to;
    const bool is_begin = !is_same_source(&change->from, to) || change->from.source_id == 0;
    job->source_id = change->from.source_id;
    if (to->closed_at_us != 0)
        return write_position(tx, TIDE_SQL_POSITION_MOVE_CLOSED, job, to, err);
    if (is_begin || strcmp(change->from.epoch_id, to->epoch_id) != 0)
        TIDE_TRY(put_source(tx, to, now_us, &job->source_id, err));
    if (is_begin)
        TIDE_TRY(open_again(tx, to, job->source_id, err));
    return write_position(
        tx, change->from.version == 0 ? TIDE_SQL_POSITION_ADD : TIDE_SQL_POSITION_MOVE, job, to,
        err);
}

/* One that ends, and the one that follows, if any does. */
static tide_status close_and_follow(tide_tx *tx, applying *job, int64_t now_us, tide_error *err)
{
    const tide_change *change = job->change;
    const bool is_last = change->to.session_id[0] == '\0';
    job->closed_source_id = change->from.source_id;
    job->source_id = job->closed_source_id;
    if (is_last) {
        TIDE_TRY(write_position(tx, TIDE_SQL_POSITION_MOVE, job, &change->closed, err));
    } else {
        TIDE_TRY(put_source(tx, &change->to, now_us, &job->source_id, err));
        TIDE_TRY(open_again(tx, &change->to, job->source_id, err));
        TIDE_TRY(write_position(tx, TIDE_SQL_POSITION_MOVE, job, &change->to, err));
    }
    return note_position(tx, &change->closed, job->closed_source_id, "closed",
                         change->note[0] ? change->note : change->closed.closed_reason, now_us,
                         err);
}

static tide_status check_change(const tide_change *change, tide_error *err)
{
    const tide_position *from = &change->from;
    if (is_ending(change)) {
        if (from->version == 0 || from->closed_at_us != 0)
            return tide_fail(err, TIDE_E_INVALID, "%s, %s has no position that could be closed",
                             from->agent_id, from->data_type);
        if (is_same_source(&change->to, &change->closed))
            return tide_fail(err, TIDE_E_INVALID, "a position of %s, %s cannot follow itself",
                             from->agent_id, from->data_type);
    } else if (change->to.session_id[0] == '\0') {
        return tide_fail(err, TIDE_E_INVALID, "%s, %s has no session yet", from->agent_id,
                         from->data_type);
    }
    return TIDE_OK;
}

/* ---- everything ---- */

static tide_status carry_out(tide_tx *tx, void *arg, tide_error *err)
{
    applying *job = arg;
    const tide_change *change = job->change;
    const tide_position *of = is_ending(change) ? &change->closed : &change->to;
    int64_t now_us = 0;
    /* One that is opened again had a version of its own: what is written is above both. */
    job->version =
        (change->from.version > change->to.version ? change->from.version : change->to.version) + 1;
    job->source_id = 0;
    job->closed_source_id = 0;
    for (int i = 0; i < change->gap_count; i++)
        job->gap_ids[i] = 0;
    if (change->lease_name)
        TIDE_TRY(tide_lease_check(tx, change->lease_name, change->lease_token, err));
    TIDE_TRY(tide_tx_now(tx, &now_us, err));
    if (is_ending(change))
        TIDE_TRY(close_and_follow(tx, job, now_us, err));
    else
        TIDE_TRY(go_on(tx, job, now_us, err));
    const int64_t source_id = is_ending(change) ? job->closed_source_id : job->source_id;
    TIDE_TRY(tide_sink_sql_put_rows(tx, change, of, source_id, now_us, err));
    TIDE_TRY(tide_sink_sql_put_gaps(tx, change, of, source_id, now_us, job->gap_ids, err));
    if (change->note[0] && !change->is_closing && change->from.source_id != 0)
        return note_position(tx, &change->from, change->from.source_id, "noted", change->note,
                             now_us, err);
    return TIDE_OK;
}

static void hand_over(const applying *job, tide_change *change)
{
    if (is_ending(change)) {
        change->closed.source_id = job->closed_source_id;
        change->closed.version = change->from.version;
    }
    if (is_ending(change) && change->to.session_id[0] == '\0') {
        change->to.version = job->version;
    } else {
        change->to.source_id = job->source_id;
        change->to.version = job->version;
    }
    for (int i = 0; i < change->gap_count; i++) {
        change->gaps[i].source_id = is_ending(change) ? job->closed_source_id : job->source_id;
        if (change->gaps[i].id == 0)
            change->gaps[i].id = job->gap_ids[i];
    }
}

tide_status tide_sink_sql_apply(tide_sink *sink, tide_change *change, tide_error *err)
{
    TIDE_TRY(check_change(change, err));
    TIDE_CLEANUP(tide_freep)
    int64_t *gap_ids = calloc((size_t)change->gap_count + 1, sizeof *gap_ids);
    TIDE_NEED_MEMORY(gap_ids, err);
    applying job = {.change = change, .gap_ids = gap_ids};
    TIDE_TRY(tide_store_write(sink->store, carry_out, &job, err));
    hand_over(&job, change);
    return TIDE_OK;
}
