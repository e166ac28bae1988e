#include "demo/demo_sim.h"

#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "colony/reply_field.h"
#include "services/api/messages.h"
#include "services/api/rpc.h"
#include "tidemark_agent_v1_agent.pb-c.h"

enum {
    LAST_SEQ_FIELD = 6,
    METRIC_TYPES_FIELD = 4,
    INCLUDE_TRACES_FIELD = 5,
    RESPONSE_MAX = 4 << 20
};

/* Records of a stream per tick, in the order of tide_stream_kind. */
static const int64_t per_tick[TIDE_SIM_STREAMS] = {5, 3, 2, 1, 1, 2, 2, 1};

static int64_t stable_of(const tide_sim *sim, tide_stream_kind kind)
{
    return per_tick[kind] * sim->tick;
}

int64_t tide_sim_head(const tide_sim *sim, tide_stream_kind kind)
{
    return per_tick[kind] * (sim->tick + sim->ahead);
}

static int64_t oldest_of(const tide_sim *sim, tide_stream_kind kind)
{
    const int64_t gone = sim->tick > TIDE_SIM_KEEP_TICKS ? sim->tick - TIDE_SIM_KEEP_TICKS : 0;
    return per_tick[kind] * gone + 1;
}

static int64_t tick_of(tide_stream_kind kind, int64_t seq)
{
    return (seq - 1) / per_tick[kind] + 1;
}

static bool is_late(const tide_sim *sim, tide_stream_kind kind, int64_t seq)
{
    const int64_t tick = tick_of(kind, seq);
    return sim->is_late && kind == TIDE_STREAM_TELEMETRY && tick >= sim->late_first &&
           tick <= sim->late_last;
}

/* ---- questions ---- */

/* Which stream: the four of eBPF share a call, and differ by what is selected. */
static bool is_asked(const tide_colony_type *type, int64_t metric_type, bool has_traces)
{
    if (type->stream->kind == TIDE_STREAM_BEYLA_TRACES)
        return has_traces;
    return type->metric_type == 0 || type->metric_type == metric_type;
}

static tide_status read_selection(tide_view request, int64_t *metric_type, bool *has_traces)
{
    tide_wire_field field;
    tide_reader reader = tide_reader_of(request);
    TIDE_EACH(tide_field_next(&reader, &field)) {
        if (field.number == METRIC_TYPES_FIELD)
            *metric_type = field.type == TIDE_WIRE_BYTES && field.bytes.len > 0
                               ? field.bytes.ptr[0]
                               : (int64_t)field.value;
        if (field.number == INCLUDE_TRACES_FIELD)
            *has_traces = field.value != 0;
    }
    return TIDE_OK;
}

static tide_status read_position(tide_view bytes, int64_t *last_seq)
{
    tide_wire_field field;
    tide_reader reader = tide_reader_of(bytes);
    TIDE_EACH(tide_field_next(&reader, &field))
        if (field.number == LAST_SEQ_FIELD)
            TIDE_TRY(tide_field_number(&field, last_seq));
    return TIDE_OK;
}

static tide_status read_range(tide_sim_question *out, const tide_colony_type *type,
                              tide_view request)
{
    tide_wire_field field;
    tide_reader reader = tide_reader_of(request);
    TIDE_EACH(tide_field_next(&reader, &field)) {
        if (field.number == type->start_field)
            TIDE_TRY(tide_field_number(&field, &out->start_seq));
        else if (field.number == type->max_field)
            TIDE_TRY(tide_field_number(&field, &out->max_records));
        else if (field.number == type->position_field && field.type == TIDE_WIRE_BYTES)
            TIDE_TRY(read_position(field.bytes, &out->last_seq));
    }
    return TIDE_OK;
}

tide_status tide_sim_read_question(tide_sim_question *out, const char *path, tide_view request,
                                   tide_error *err)
{
    int64_t metric_type = 0;
    bool has_traces = false;
    tide_status status = read_selection(request, &metric_type, &has_traces);
    for (int kind = 0; kind < TIDE_SIM_STREAMS && status >= TIDE_OK; kind++) {
        const tide_colony_type *type = tide_colony_type_of((tide_stream_kind)kind);
        if (strcmp(type->path, path) != 0 || !is_asked(type, metric_type, has_traces))
            continue;
        *out = (tide_sim_question){.kind = (tide_stream_kind)kind};
        status = read_range(out, type, request);
        if (out->max_records <= 0 || out->max_records > TIDE_SIM_PAGE)
            out->max_records = TIDE_SIM_PAGE;
        if (status >= TIDE_OK)
            return TIDE_OK;
    }
    return tide_fail(err, TIDE_E_INVALID, "this is no question for a stream that is here");
}

/* ---- answers ---- */

static tide_status put_hole(tide_buffer *out, int64_t first, int64_t last, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(RESPONSE_MAX);
    Tidemark__Agent__V1__Hole hole = TIDEMARK__AGENT__V1__HOLE__INIT;
    hole.first_seq_id = (uint64_t)first;
    hole.last_seq_id = (uint64_t)last;
    hole.reason = tide_rpc_borrow("expired");
    TIDE_TRY(tide_rpc_pack(&bytes, &hole.base, err));
    return tide_rpc_put_bytes(out, 6, tide_buffer_view(&bytes), err);
}

/* through: what the answer has. hole_first 0: nothing that was asked for is gone. */
static tide_status put_state(const tide_sim *sim, tide_stream_kind kind, const tide_sim_time *time,
                             int64_t through, int64_t hole_first, uint32_t at, tide_buffer *out,
                             tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(RESPONSE_MAX);
    Tidemark__Agent__V1__StreamState state = TIDEMARK__AGENT__V1__STREAM_STATE__INIT;
    const int64_t stable = stable_of(sim, kind);
    state.stream = tide_rpc_borrow(tide_stream_type_of(kind)->name);
    state.epoch = 1;
    state.epoch_id = tide_rpc_borrow(sim->session);
    state.epoch_first_seq_id = 1;
    state.oldest_seq_id = (uint64_t)oldest_of(sim, kind);
    state.stable_seq_id = (uint64_t)stable;
    state.head_seq_id = (uint64_t)tide_sim_head(sim, kind);
    state.scanned_through_seq_id = (uint64_t)through;
    state.more = through < stable;
    state.head_arrived_ms = time->now_ms;
    state.next_arrived_ms =
        through < stable
            ? time->now_ms - (sim->tick - tick_of(kind, through + 1)) * time->tick_us / 1000
            : 0;
    state.standing = TIDEMARK__AGENT__V1__STANDING__STANDING_OK;
    state.now_ms = time->now_ms;
    state.retention_ms = TIDE_SIM_KEEP_TICKS * time->tick_us / 1000;
    TIDE_TRY(tide_rpc_pack(&bytes, &state.base, err));
    if (hole_first > 0)
        TIDE_TRY(put_hole(&bytes, hole_first, oldest_of(sim, kind) - 1, err));
    return tide_rpc_put_bytes(out, at, tide_buffer_view(&bytes), err);
}

/* A number behind the tag and the length of the record's own head. */
static void number_record(tide_record_batch *batch, size_t begin, int64_t seq)
{
    char *at = batch->bytes.ptr + begin + 1;
    while ((unsigned char)*at >= 0x80)
        at++;
    tide_record_put_seq(at + 2, (uint64_t)seq);
}

static tide_status put_records(const tide_sim *sim, tide_stream_kind kind,
                               const tide_sim_time *time, int64_t first, int64_t last,
                               tide_record_batch *batch, tide_error *err)
{
    for (int64_t seq = first; seq <= last; seq++) {
        if (is_late(sim, kind, seq))
            continue;
        const size_t begin = batch->bytes.len;
        const int64_t age_ticks = sim->tick - tick_of(kind, seq);
        const int64_t at_ms = time->now_ms - age_ticks * time->tick_us / 1000;
        if (tide_sim_put_record(batch, sim, seq, at_ms) < TIDE_OK)
            return tide_no_memory(err);
        number_record(batch, begin, seq);
    }
    return TIDE_OK;
}

/* seq fields of the answers, as of tide_colony_type. */
static tide_status put_marks(const tide_sim *sim, const tide_colony_type *type, int64_t max_seq,
                             tide_buffer *out, tide_error *err)
{
    if (tide_buffer_append_varint(out, (uint64_t)type->max_seq_field << 3) < TIDE_OK ||
        tide_buffer_append_varint(out, (uint64_t)max_seq) < TIDE_OK)
        return tide_no_memory(err);
    return tide_rpc_put_bytes(out, type->session_field, tide_view_of(sim->session), err);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

tide_status tide_sim_respond(const tide_sim *sim, const tide_sim_question *question,
                             const tide_sim_time *time, tide_buffer *out, tide_error *err)
{
    const tide_stream_kind kind = question->kind;
    const tide_colony_type *type = tide_colony_type_of(kind);
    const int64_t stable = stable_of(sim, kind);
    const int64_t oldest = oldest_of(sim, kind);
    const int64_t start = least(question->start_seq, stable);
    const int64_t first = start + 1 < oldest ? oldest : start + 1;
    int64_t last = least(stable, first - 1 + question->max_records);
    if (question->last_seq > 0)
        last = least(last, question->last_seq > start ? question->last_seq : start);
    if (question->last_seq > 0 && first <= last && is_late(sim, kind, first))
        return tide_fail(err, TIDE_E_UNAVAILABLE, "records from %" PRId64 " on cannot be read yet",
                         first);
    TIDE_CLEANUP(tide_record_batch_done) tide_record_batch batch;
    tide_record_batch_init(&batch, type->stream, RESPONSE_MAX);
    TIDE_TRY(put_records(sim, kind, time, first, last, &batch, err));
    if (batch.bytes.len > 0 && tide_buffer_append(out, batch.bytes.ptr, batch.bytes.len) < TIDE_OK)
        return tide_no_memory(err);
    TIDE_TRY(put_marks(sim, type, batch.count > 0 ? last : 0, out, err));
    if (batch.count > 0)
        TIDE_TRY(tide_sim_put_frames(kind, out, err));
    const bool has_hole = question->start_seq + 1 < oldest && last >= oldest;
    return put_state(sim, kind, time, last > start ? last : start,
                     has_hole ? question->start_seq + 1 : 0, type->state_field, out, err);
}

tide_status tide_sim_list(const tide_sim *sim, const tide_sim_time *time, tide_buffer *out,
                          tide_error *err)
{
    for (int kind = 0; kind < TIDE_SIM_STREAMS; kind++)
        TIDE_TRY(put_state(sim, (tide_stream_kind)kind, time,
                           stable_of(sim, (tide_stream_kind)kind), 0, 1, out, err));
    Tidemark__Agent__V1__ListStreamsResponse rest =
        TIDEMARK__AGENT__V1__LIST_STREAMS_RESPONSE__INIT;
    rest.session_id = tide_rpc_borrow(sim->session);
    rest.agent = tide_rpc_borrow(sim->name);
    return tide_rpc_pack(out, &rest.base, err);
}
