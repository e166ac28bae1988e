/* A change, carried out: rows, dead letters, frames, gaps and states in one transaction of DuckDB. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <tidemark/lease.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "base/text/utf8.h"
#include "colony/sink_duckdb.h"

/* What is decided before anything is written; the caller's change is touched when all of it is durable. */
typedef struct applying {
    tide_duck_sink *sink;
    const tide_change *change;
    int64_t now_us;
    int64_t from_version; /* next ones */
    int64_t to_version;
    int64_t from_source_id;
    int64_t to_source_id;
    int64_t last_source_id;
    int64_t last_gap_id;
    int64_t *gap_ids; /* of the change's gaps */
    bool is_from_current;
    const tide_position *replaced; /* a closed one whose place is taken; NULL: none */
    tide_position *next;           /* what memory will hold; NULL: as it is */
} applying;

static void applying_done(applying *a)
{
    free(a->gap_ids);
    tide_duck_position_free(a->next);
}

/* ---- may it be done? ---- */

static tide_status find_version(applying *a, int64_t source_id, int64_t *version, tide_error *err)
{
    TIDE_DUCK_QUERY(query, a->sink->writer, TIDE_DUCKDB_SQL_COLONY_SOURCE_VERSION, err);
    tide_duck_bind_i64(query, "source_id", source_id);
    TIDE_TRY(tide_duck_query_step(query, err));
    *version = tide_duck_col_i64(query);
    return TIDE_OK;
}

static tide_status refuse(const tide_position *from, int64_t version, tide_error *err)
{
    return tide_fail(err, TIDE_E_CONFLICT,
                     "the position of %s/%s has version %" PRId64 ", not %" PRId64, from->agent_id,
                     from->data_type, version, from->version);
}

/* The position that the change was made from is still the one that is stored. */
static tide_status check_from(applying *a, tide_error *err)
{
    const tide_position *from = &a->change->from;
    const tide_position *current = tide_duck_sink_find(a->sink, from->agent_id, from->data_type);
    a->is_from_current = from->source_id == 0 || (current && current->source_id == from->source_id);
    if (!a->is_from_current) {
        /* One that is closed, whose gaps are still worked on. */
        int64_t version = 0;
        TIDE_TRY(find_version(a, from->source_id, &version, err));
        return version == from->version ? TIDE_OK : refuse(from, version, err);
    }
    const int64_t version = current ? current->version : 0;
    const bool is_begun = current && current->closed_at_us == 0;
    if (version != from->version || (from->source_id == 0 && is_begun))
        return refuse(from, version, err);
    if (from->source_id == 0)
        a->replaced = current;
    return TIDE_OK;
}

/* A source is never begun twice: its rows would be stored twice. */
static tide_status check_new_source(applying *a, tide_error *err)
{
    const tide_position *to = &a->change->to;
    TIDE_DUCK_QUERY(query, a->sink->writer, TIDE_DUCKDB_SQL_COLONY_SOURCE_FIND, err);
    tide_duck_bind_text(query, "agent_id", to->agent_id);
    tide_duck_bind_text(query, "data_type", to->data_type);
    tide_duck_bind_text(query, "session_id", to->session_id);
    tide_duck_bind_i64(query, "epoch", to->epoch);
    TIDE_TRY(tide_duck_query_step(query, err));
    if (tide_duck_col_i64(query) != 0)
        return tide_fail(err, TIDE_E_CONFLICT,
                         "%s/%s of session %s, epoch %" PRId64 " was here before", to->agent_id,
                         to->data_type, to->session_id, to->epoch);
    return TIDE_OK;
}

/* An agent's session is its alone. */
static tide_status check_owner(applying *a, tide_error *err)
{
    const tide_position *to = &a->change->to;
    if (strcmp(a->change->from.session_id, to->session_id) == 0)
        return TIDE_OK;
    TIDE_DUCK_QUERY(query, a->sink->writer, TIDE_DUCKDB_SQL_COLONY_SESSION_OWNER, err);
    tide_duck_bind_text(query, "agent_id", to->agent_id);
    tide_duck_bind_text(query, "session_id", to->session_id);
    const tide_status status = tide_duck_query_step(query, err);
    if (status != TIDE_OK)
        return status < TIDE_OK ? status : TIDE_OK;
    return tide_sink_fail_owner(to, tide_duck_col_text(query), err);
}

static bool has_next(const tide_change *change)
{
    return *change->to.session_id != '\0';
}

static bool is_reopening(const tide_change *change)
{
    return change->to.source_id != 0 && change->to.source_id != change->from.source_id;
}

/* Versions of a chain of sources only rise, so that no version ever comes again. */
static tide_status choose_versions(applying *a, tide_error *err)
{
    const tide_change *change = a->change;
    a->from_source_id = change->from.source_id;
    a->from_version = change->from.version + 1;
    a->to_version = a->from_version;
    a->to_source_id = change->to.source_id;
    a->last_source_id = a->sink->last_source_id;
    a->last_gap_id = a->sink->last_gap_id;
    if (!has_next(change))
        return TIDE_OK;
    TIDE_TRY(check_owner(a, err));
    if (a->to_source_id == 0) {
        TIDE_TRY(check_new_source(a, err));
        a->to_source_id = ++a->last_source_id;
        return TIDE_OK;
    }
    if (!is_reopening(change))
        return TIDE_OK;
    /* One that is opened again: it too must be as it was looked at. */
    int64_t version = 0;
    TIDE_TRY(find_version(a, a->to_source_id, &version, err));
    if (version != change->to.version)
        return refuse(&change->to, version, err);
    if (version >= a->to_version)
        a->to_version = version + 1;
    return TIDE_OK;
}

/* Figures of clean-up are the sink's own; the caller's may be older. */
static void take_folds(tide_position *position, const tide_position *current)
{
    if (!current || current->source_id != position->source_id)
        return;
    position->expired = current->expired;
    position->folded_void = current->folded_void;
    position->folded_lost = current->folded_lost;
    position->folded_recovered = current->folded_recovered;
}

/* Everything that needs memory is done before the commit. */
static tide_status prepare(applying *a, tide_error *err)
{
    const tide_change *change = a->change;
    a->gap_ids = calloc((size_t)change->gap_count + 1, sizeof *a->gap_ids);
    a->next = calloc(1, sizeof *a->next);
    TIDE_NEED_MEMORY(a->gap_ids && a->next, err);
    TIDE_TRY(tide_duck_sink_reserve(a->sink, err));
    const bool is_last = change->is_closing && !has_next(change);
    TIDE_TRY(tide_position_copy(a->next, is_last ? &change->closed : &change->to, err));
    a->next->source_id = is_last ? a->from_source_id : a->to_source_id;
    a->next->version = is_last ? a->from_version : a->to_version;
    free(a->next->held);
    a->next->held = NULL;
    a->next->held_count = 0;
    take_folds(a->next,
               tide_duck_sink_find(a->sink, change->from.agent_id, change->from.data_type));
    return TIDE_OK;
}

/* ---- writing ---- */

/* Whose rows and gaps these are. */
static tide_position owner_of(const applying *a)
{
    tide_position owner = a->change->is_closing ? a->change->closed : a->change->to;
    owner.source_id = a->change->is_closing ? a->from_source_id : a->to_source_id;
    return owner; /* borrows the other's cursor */
}

static tide_status put_closed(applying *a, tide_duck_appender *out, tide_error *err)
{
    const tide_change *change = a->change;
    tide_position closed = owner_of(a);
    closed.version = a->from_version;
    const tide_duck_event event = {.is_current = a->is_from_current && !has_next(change),
                                   .event = "closed",
                                   .note = *change->note ? change->note : closed.closed_reason,
                                   .at_us = a->now_us};
    return tide_duck_put_state(out, &closed, &event, err);
}

static tide_status put_next(applying *a, tide_duck_appender *out, tide_error *err)
{
    const tide_change *change = a->change;
    tide_position to = change->to;
    to.source_id = a->to_source_id;
    to.version = a->to_version;
    const bool is_reopened = is_reopening(change);
    const tide_duck_event event = {.is_current = change->is_closing || a->is_from_current,
                                   .event = is_reopened ? "reopened" : "",
                                   .note = is_reopened ? change->note : "",
                                   .at_us = a->now_us};
    return tide_duck_put_state(out, &to, &event, err);
}

/* History tells what was before somebody did something by hand; and whose place is taken is no longer current. */
static tide_status put_before(applying *a, tide_duck_appender *out, tide_error *err)
{
    const tide_change *change = a->change;
    if (*change->note && !change->is_closing && a->from_source_id != 0) {
        const tide_duck_event event = {.is_current = a->is_from_current,
                                       .event = "noted",
                                       .note = change->note,
                                       .at_us = a->now_us};
        TIDE_TRY(tide_duck_put_state(out, &change->from, &event, err));
    }
    if (!a->replaced || a->replaced->source_id == a->to_source_id)
        return TIDE_OK;
    tide_position replaced = *a->replaced;
    const tide_duck_event event = {.event = "", .note = "", .at_us = a->now_us};
    replaced.version = a->from_version;
    return tide_duck_put_state(out, &replaced, &event, err);
}

static tide_status put_states(applying *a, tide_error *err)
{
    TIDE_CLEANUP(tide_duck_append_dropp) tide_duck_appender *out = NULL;
    TIDE_TRY(tide_duck_append_begin(&out, a->sink->writer, "checkpoint_states", err));
    TIDE_TRY(put_before(a, out, err));
    if (a->change->is_closing && a->from_source_id != 0)
        TIDE_TRY(put_closed(a, out, err));
    if (has_next(a->change))
        TIDE_TRY(put_next(a, out, err));
    return tide_duck_append_end(&out, err);
}

static bool is_named(const tide_change *change, int64_t id)
{
    for (int i = 0; i < change->gap_count; i++)
        if (change->gaps[i].id == id)
            return true;
    return false;
}

/* The open gaps of a position that closes end with it. */
static tide_status close_gaps(applying *a, tide_duck_appender *out, tide_error *err)
{
    const tide_change *change = a->change;
    TIDE_DUCK_QUERY(query, a->sink->writer, TIDE_DUCKDB_SQL_COLONY_GAPS_OPEN, err);
    tide_duck_bind_i64(query, "source_id", a->from_source_id);
    tide_status status;
    while ((status = tide_duck_query_step(query, err)) == TIDE_OK) {
        tide_gap gap;
        TIDE_TRY(tide_duck_read_gap(query, &gap, err));
        if (gap.end_seq <= change->closes_gaps_above || is_named(change, gap.id))
            continue;
        gap.status = TIDE_GAP_PERMANENT;
        gap.settled_at_us = a->now_us;
        (void)snprintf(gap.reason, sizeof gap.reason, "%s", change->closed.closed_reason);
        tide_duck_put_gap(out, &gap, a->from_version);
    }
    return status;
}

/* A gap to be changed is there (clean-up may have been faster), and no other one has the start of a new one. Those that are there are walked
 * along: (id, start) of what begins where the change's gaps begin. */
static tide_status check_gap(const tide_gap *gap, const int64_t (*known)[2], int count,
                             tide_error *err)
{
    bool is_there = false;
    for (int i = 0; i < count; i++) {
        is_there = is_there || known[i][0] == gap->id;
        if (gap->id == 0 && known[i][1] == gap->start_seq)
            return tide_fail(err, TIDE_E_EXISTS,
                             "a gap that begins at %" PRId64 " is there already", gap->start_seq);
    }
    if (gap->id != 0 && !is_there)
        return tide_fail(err, TIDE_E_CONFLICT, "gap %" PRId64 " is gone", gap->id);
    return TIDE_OK;
}

static tide_status read_known(applying *a, int64_t source_id, int64_t (**known)[2], int *count,
                              tide_error *err)
{
    const tide_change *change = a->change;
    int64_t first = INT64_MAX;
    int64_t last = 0;
    for (int i = 0; i < change->gap_count; i++) {
        first = change->gaps[i].start_seq < first ? change->gaps[i].start_seq : first;
        last = change->gaps[i].start_seq > last ? change->gaps[i].start_seq : last;
    }
    TIDE_DUCK_QUERY(query, a->sink->writer, TIDE_DUCKDB_SQL_COLONY_GAPS_KNOWN, err);
    tide_duck_bind_i64(query, "source_id", source_id);
    tide_duck_bind_i64(query, "first", first);
    tide_duck_bind_i64(query, "last", last);
    TIDE_EACH(tide_duck_query_step(query, err)) {
        TIDE_TRY(tide_list_room(known, *count, sizeof **known, TIDE_LIST_MAX, err));
        (*known)[*count][0] = tide_duck_col_i64(query);
        (*known)[*count][1] = tide_duck_col_i64(query);
        (*count)++;
    }
    return TIDE_OK;
}

static tide_status check_gaps(applying *a, tide_error *err)
{
    const tide_change *change = a->change;
    TIDE_CLEANUP(tide_freep) int64_t(*known)[2] = NULL;
    int count = 0;
    if (change->gap_count == 0)
        return TIDE_OK;
    TIDE_TRY(read_known(a, change->is_closing ? a->from_source_id : a->to_source_id, &known, &count,
                        err));
    for (int i = 0; i < change->gap_count; i++)
        TIDE_TRY(check_gap(&change->gaps[i], (const int64_t(*)[2])known, count, err));
    return TIDE_OK;
}

static tide_status put_gaps(applying *a, tide_error *err)
{
    const tide_change *change = a->change;
    const bool closes = change->is_closing && change->closes_all_gaps && a->from_source_id != 0;
    if (change->gap_count == 0 && !closes)
        return TIDE_OK;
    const tide_position owner = owner_of(a);
    TIDE_TRY(check_gaps(a, err));
    TIDE_CLEANUP(tide_duck_append_dropp) tide_duck_appender *out = NULL;
    TIDE_TRY(tide_duck_append_begin(&out, a->sink->writer, "gap_states", err));
    for (int i = 0; i < change->gap_count; i++) {
        tide_gap gap = change->gaps[i];
        if (gap.id == 0)
            gap.id = ++a->last_gap_id;
        a->gap_ids[i] = gap.id;
        gap.source_id = owner.source_id;
        (void)snprintf(gap.agent_id, sizeof gap.agent_id, "%s", owner.agent_id);
        (void)snprintf(gap.data_type, sizeof gap.data_type, "%s", owner.data_type);
        (void)snprintf(gap.session_id, sizeof gap.session_id, "%s", owner.session_id);
        gap.epoch = owner.epoch;
        tide_duck_put_gap(out, &gap, change->is_closing ? a->from_version : a->to_version);
    }
    if (closes)
        TIDE_TRY(close_gaps(a, out, err));
    return tide_duck_append_end(&out, err);
}

static tide_status put_counters(applying *a, tide_error *err)
{
    const struct {
        const char *name;
        int64_t before;
        int64_t now;
    } counters[] = {{"source", a->sink->last_source_id, a->last_source_id},
                    {"gap", a->sink->last_gap_id, a->last_gap_id}};
    if (counters[0].before == counters[0].now && counters[1].before == counters[1].now)
        return TIDE_OK;
    TIDE_CLEANUP(tide_duck_append_dropp) tide_duck_appender *out = NULL;
    TIDE_TRY(tide_duck_append_begin(&out, a->sink->writer, "colony_counters", err));
    for (int i = 0; i < 2; i++) {
        if (counters[i].before == counters[i].now)
            continue;
        tide_duck_put_text(out, tide_view_of(counters[i].name));
        tide_duck_put_i64(out, counters[i].now);
        tide_duck_end_row(out);
    }
    return tide_duck_append_end(&out, err);
}

static tide_status put_batch(applying *a, const tide_position *owner, tide_error *err)
{
    const tide_change *change = a->change;
    const int64_t last = change->rows[change->row_count - 1]->seq;
    const unsigned char *chain = tide_position_digest(owner, last);
    TIDE_CLEANUP(tide_duck_append_dropp) tide_duck_appender *out = NULL;
    TIDE_TRY(tide_duck_append_begin(&out, a->sink->writer, "polling_batches", err));
    tide_duck_put_i64(out, owner->source_id);
    tide_duck_put_text(out, tide_view_of(tide_colony_type_find(owner->data_type)->table));
    tide_duck_put_i64(out, change->rows[0]->seq);
    tide_duck_put_i64(out, last);
    tide_duck_put_i64(out, change->row_count);
    tide_duck_put_time(out, a->now_us);
    if (chain)
        tide_duck_put_blob(out, tide_view_bytes(chain, TIDE_FEED_DIGEST_SIZE));
    else
        tide_duck_put_null(out);
    tide_duck_end_row(out);
    return tide_duck_append_end(&out, err);
}

static tide_status put_dead(applying *a, const tide_position *owner, tide_error *err)
{
    TIDE_CLEANUP(tide_duck_append_dropp) tide_duck_appender *out = NULL;
    TIDE_TRY(tide_duck_append_begin(&out, a->sink->writer, "dead_letters", err));
    for (int i = 0; i < a->change->dead_count; i++) {
        const tide_dead_letter *letter = &a->change->dead[i];
        tide_duck_put_text(out, tide_view_of(owner->agent_id));
        tide_duck_put_text(out, tide_view_of(owner->data_type));
        tide_duck_put_text(out, tide_view_of(owner->session_id));
        tide_duck_put_i64(out, owner->epoch);
        tide_duck_put_i64(out, letter->seq);
        tide_duck_put_text(out, tide_view_of(letter->reason ? letter->reason : ""));
        tide_duck_put_blob(out, letter->bytes);
        tide_duck_put_time(out, a->now_us);
        tide_duck_end_row(out);
    }
    return tide_duck_append_end(&out, err);
}

static tide_status put_frames(applying *a, const tide_position *owner, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer clean = tide_buffer_of(TIDE_FEED_RECORD_MAX);
    TIDE_CLEANUP(tide_duck_append_dropp) tide_duck_appender *out = NULL;
    TIDE_TRY(tide_duck_append_begin(&out, a->sink->writer, "frame_rows", err));
    for (int i = 0; i < a->change->frame_count; i++) {
        const tide_reply_frame *frame = &a->change->frames[i];
        size_t replaced = 0;
        tide_buffer_clear(&clean);
        if (tide_utf8_clean(&clean, frame->name, &replaced) < TIDE_OK)
            return tide_no_memory(err);
        tide_duck_put_text(out, tide_view_of(owner->agent_id));
        tide_duck_put_text(out, tide_view_of(owner->session_id));
        tide_duck_put_u64(out, frame->id);
        tide_duck_put_text(out, tide_buffer_view(&clean));
        tide_duck_end_row(out);
    }
    return tide_duck_append_end(&out, err);
}

static tide_status put_all(applying *a, tide_error *err)
{
    const tide_change *change = a->change;
    const tide_position owner = owner_of(a);
    if (change->row_count > 0) {
        TIDE_TRY(tide_duck_put_records(a->sink->writer, &owner, change, a->now_us, err));
        if (!change->is_repair)
            TIDE_TRY(put_batch(a, &owner, err));
    }
    if (change->dead_count > 0)
        TIDE_TRY(put_dead(a, &owner, err));
    if (change->frame_count > 0)
        TIDE_TRY(put_frames(a, &owner, err));
    TIDE_TRY(put_gaps(a, err));
    TIDE_TRY(put_counters(a, err));
    return put_states(a, err);
}

/* ---- the lease, which lives in the store beside ---- */

static tide_status check_lease(tide_tx *tx, void *arg, tide_error *err)
{
    const tide_change *change = arg;
    return tide_lease_check(tx, change->lease_name, change->lease_token, err);
}

static tide_status write_all(applying *a, tide_change *change, tide_error *err)
{
    TIDE_TRY(tide_duck_begin(a->sink->writer, err));
    tide_status status = put_all(a, err);
    if (status == TIDE_OK && change->lease_name)
        status = tide_store_write(a->sink->base.store, check_lease, change, err);
    if (status < TIDE_OK) {
        tide_duck_rollback(a->sink->writer);
        return status;
    }
    status = tide_duck_commit(a->sink->writer, err);
    if (status < TIDE_OK)
        a->sink->is_stale = true;
    return status;
}

/* ---- all of it ---- */

/* It is durable: memory and the caller learn of it. */
static void adopt(applying *a, tide_change *change)
{
    tide_duck_sink *sink = a->sink;
    sink->last_source_id = a->last_source_id;
    sink->last_gap_id = a->last_gap_id;
    for (int i = 0; i < change->gap_count; i++) {
        change->gaps[i].id = a->gap_ids[i];
        change->gaps[i].source_id = change->is_closing ? a->from_source_id : a->to_source_id;
    }
    if (change->is_closing && a->from_source_id != 0) {
        change->closed.source_id = a->from_source_id;
        change->closed.version = a->from_version;
    }
    if (has_next(change)) {
        change->to.source_id = a->to_source_id;
        change->to.version = a->to_version;
        take_folds(&change->to, a->next);
    }
    if (a->is_from_current || (change->is_closing && has_next(change)))
        tide_duck_sink_put(sink, TIDE_TAKE(a->next));
    /* What clean-up has taken of one that is opened again since it was looked at is on disk alone. */
    sink->is_stale = is_reopening(change);
}

tide_status tide_duck_sink_apply(tide_sink *base, tide_change *change, tide_error *err)
{
    tide_duck_sink *sink = tide_duck_sink_of(base);
    TIDE_CLEANUP(tide_duckdb_unlockp) tide_duckdb *held = tide_duckdb_lock(sink->db);
    (void)held;
    TIDE_TRY(tide_duck_sink_refresh(sink, err));
    TIDE_CLEANUP(applying_done)
    applying a = {.sink = sink, .change = change, .now_us = base->env->wall_us(base->env)};
    TIDE_TRY(check_from(&a, err));
    TIDE_TRY(choose_versions(&a, err));
    TIDE_TRY(prepare(&a, err));
    TIDE_TRY(write_all(&a, change, err));
    adopt(&a, change);
    return TIDE_OK;
}
