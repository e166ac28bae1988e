#include "colony/settle_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "feed/record.h"
#include "support/check.h"

/* ---- answers ---- */

static void put_varint(tide_buffer *out, uint32_t field, uint64_t value)
{
    assert_ok(tide_buffer_append_varint(out, (uint64_t)field << 3));
    assert_ok(tide_buffer_append_varint(out, value));
}

static void put_bytes(tide_buffer *out, uint32_t field, tide_view bytes)
{
    assert_ok(tide_buffer_append_varint(out, (uint64_t)field << 3 | 2));
    assert_ok(tide_buffer_append_varint(out, bytes.len));
    assert_ok(tide_buffer_append_view(out, bytes));
}

void answer_begin(answer *a, const char *session)
{
    memset(a, 0, sizeof *a);
    tide_buffer_init(&a->body, ANSWER_MAX);
    tide_buffer_init(&a->state, ANSWER_MAX);
    put_bytes(&a->body, 4, tide_view_of(session));
}

void answer_done(answer *a)
{
    tide_buffer_done(&a->body);
    tide_buffer_done(&a->state);
    free(a->bytes);
    a->bytes = NULL;
}

void answer_foreign(answer *a, int64_t seq, int64_t uid)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer message;
    tide_buffer_init(&message, 1024);
    put_varint(&message, 1, (uint64_t)uid);
    put_bytes(&message, 4, tide_view_of("shop"));
    put_varint(&message, 12, (uint64_t)seq);
    put_bytes(&a->body, 1, tide_buffer_view(&message));
}

void record_bytes(tide_buffer *out, int64_t seq, int64_t uid)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer message;
    tide_buffer_init(&message, 1024);
    char padded[11] = {12 << 3};
    tide_record_put_seq(padded + 1, (uint64_t)seq);
    assert_ok(tide_buffer_append(&message, padded, sizeof padded));
    put_varint(&message, 1, (uint64_t)uid);
    put_bytes(out, 1, tide_buffer_view(&message));
}

void answer_record(answer *a, int64_t seq, int64_t uid)
{
    record_bytes(&a->body, seq, uid);
}

void answer_foreign_run(answer *a, int64_t first, int64_t last)
{
    for (int64_t seq = first; seq <= last; seq++)
        answer_foreign(a, seq, seq);
}

void answer_record_run(answer *a, int64_t first, int64_t last)
{
    for (int64_t seq = first; seq <= last; seq++)
        answer_record(a, seq, seq);
}

void answer_dead(answer *a, int64_t seq)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer message;
    tide_buffer_init(&message, 1024);
    if (seq > 0)
        put_varint(&message, 12, (uint64_t)seq);
    put_varint(&message, 2, 7); /* trace_id is a text */
    put_bytes(&a->body, 1, tide_buffer_view(&message));
}

void answer_number(answer *a, uint32_t field, uint64_t value)
{
    a->has_state = true;
    put_varint(&a->state, field, value);
}

void answer_state(answer *a, int64_t epoch, int64_t oldest, int64_t scanned, int64_t head)
{
    answer_number(a, 1, (uint64_t)epoch);
    answer_number(a, 2, (uint64_t)oldest);
    answer_number(a, 3, (uint64_t)head);
    answer_number(a, 4, (uint64_t)head);
    answer_number(a, 5, (uint64_t)scanned);
    answer_number(a, 16, 1);
}

void answer_hole(answer *a, int64_t first, int64_t last, const char *reason)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer hole;
    tide_buffer_init(&hole, 1024);
    put_varint(&hole, 1, (uint64_t)first);
    put_varint(&hole, 2, (uint64_t)last);
    put_bytes(&hole, 3, tide_view_of(reason));
    put_bytes(&a->state, 6, tide_buffer_view(&hole));
}

void answer_epoch(answer *a, int64_t epoch, int64_t first, const char *id, const char *reason)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
    tide_buffer_init(&bytes, 1024);
    put_varint(&bytes, 1, (uint64_t)epoch);
    put_varint(&bytes, 2, (uint64_t)first);
    put_bytes(&bytes, 3, tide_view_of(id));
    put_bytes(&bytes, 4, tide_view_of(reason));
    put_bytes(&a->state, 19, tide_buffer_view(&bytes));
    /* The last one told is the one the agent is in. */
    answer_number(a, 1, (uint64_t)epoch);
    answer_number(a, 16, (uint64_t)first);
    put_bytes(&a->state, 18, tide_view_of(id));
}

void answer_chain(answer *a, const unsigned char digest[TIDE_FEED_DIGEST_SIZE])
{
    put_bytes(&a->state, 7, tide_view_bytes(digest, TIDE_FEED_DIGEST_SIZE));
}

tide_view answer_bytes(answer *a)
{
    if (a->has_state)
        put_bytes(&a->body, 20, tide_buffer_view(&a->state));
    a->has_state = false;
    /* An exact copy, so that a sanitizer sees a read beyond the end. */
    free(a->bytes);
    a->bytes = malloc(a->body.len);
    assert_non_null(a->bytes);
    memcpy(a->bytes, a->body.ptr, a->body.len);
    return tide_view_bytes(a->bytes, a->body.len);
}

tide_status answer_read(answer *a, tide_reply *out, tide_error *err)
{
    return tide_reply_read(out, tide_colony_type_of(TIDE_STREAM_TELEMETRY), answer_bytes(a), err);
}

/* ---- the ledger ---- */

void ledger_init(ledger *l)
{
    memset(l, 0, sizeof *l);
    l->current = -1;
    l->now_us = INT64_C(1700000000) * SECOND;
    l->mono_us = INT64_C(1000) * SECOND;
    l->grace_us = TIDE_SETTLE_GRACE_US;
    l->gaps = calloc(LEDGER_GAPS_MAX, sizeof *l->gaps);
    assert_non_null(l->gaps);
    tide_position_init(&l->empty, "agent-1", "telemetry");
}

void ledger_done(ledger *l)
{
    for (int i = 0; i < l->source_count; i++) {
        tide_position_done(&l->sources[i].position);
        free(l->sources[i].fates);
        free(l->sources[i].uids);
    }
    tide_position_done(&l->empty);
    tide_change_done(&l->last);
    free(l->gaps);
}

const tide_position *ledger_at(const ledger *l)
{
    return l->current < 0 ? &l->empty : &l->sources[l->current].position;
}

source *ledger_source(ledger *l, int64_t source_id)
{
    assert_in_range(source_id, 1, l->source_count);
    return &l->sources[source_id - 1];
}

tide_gap *ledger_gap(ledger *l, int64_t id)
{
    for (int i = 0; i < l->gap_count; i++)
        if (l->gaps[i].id == id)
            return &l->gaps[i];
    return NULL;
}

tide_gap *ledger_gap_at(ledger *l, int64_t source_id, int64_t start)
{
    for (int i = 0; i < l->gap_count; i++)
        if (l->gaps[i].source_id == source_id && l->gaps[i].start_seq == start)
            return &l->gaps[i];
    return NULL;
}

void ledger_totals(const ledger *l, const tide_position *position, tide_ledger *out)
{
    tide_gap_sums sums = {0};
    for (int i = 0; i < l->gap_count; i++) {
        const tide_gap *gap = &l->gaps[i];
        const int64_t width = gap->end_seq - gap->start_seq + 1;
        if (gap->source_id != position->source_id)
            continue;
        sums.open += tide_gap_is_open(gap->status) ? width : 0;
        sums.voided += gap->status == TIDE_GAP_VOID ? width : 0;
        sums.permanent += gap->status == TIDE_GAP_PERMANENT ? width : 0;
        sums.recovered += gap->status == TIDE_GAP_RECOVERED ? width : 0;
    }
    tide_position_ledger(position, &sums, out);
}

/* Marks of the gap records of a source, up to LEDGER_SEQ_MAX: 1 not recovered, 2 recovered. */
static void mark_gaps(const ledger *l, const source *src, unsigned char *marks)
{
    memset(marks, 0, LEDGER_SEQ_MAX + 1);
    for (int i = 0; i < l->gap_count; i++) {
        const tide_gap *gap = &l->gaps[i];
        if (gap->source_id != src->position.source_id)
            continue;
        assert_true(gap->start_seq >= 1 && gap->end_seq >= gap->start_seq);
        assert_string_equal(gap->session_id, src->position.session_id);
        assert_int_equal(gap->epoch, src->position.epoch);
        for (int64_t seq = gap->start_seq; seq <= gap->end_seq && seq <= LEDGER_SEQ_MAX; seq++) {
            assert_int_equal(marks[seq], 0); /* records do not overlap */
            marks[seq] = gap->status == TIDE_GAP_RECOVERED ? 2 : 1;
        }
    }
}

/* Every number from first to highest has exactly one fate. */
static void check_fates(const ledger *l, const source *src)
{
    const tide_position *p = &src->position;
    unsigned char marks[LEDGER_SEQ_MAX + 1];
    mark_gaps(l, src, marks);
    int64_t stored = 0;
    int64_t dead = 0;
    int64_t unexplained = 0;
    const int64_t highest = tide_cursor_highest(&p->cursor);
    const int64_t end = highest < LEDGER_SEQ_MAX ? highest + 1 : LEDGER_SEQ_MAX;
    for (int64_t seq = 1; seq <= end; seq++) {
        const bool is_kept = src->fates[seq] != UNKNOWN;
        stored += src->fates[seq] == STORED;
        dead += src->fates[seq] == DEAD;
        if (seq < p->first || seq > highest) {
            assert_false(is_kept);
            continue;
        }
        const bool is_settled = tide_cursor_has(&p->cursor, seq);
        assert_true(marks[seq] != 2 || is_kept);  /* recovered only id by id */
        assert_true(marks[seq] != 1 || !is_kept); /* what is there is no gap */
        assert_true(is_settled || (!is_kept && marks[seq] == 0));
        unexplained += is_settled && !is_kept && marks[seq] == 0;
    }
    if (highest > LEDGER_SEQ_MAX)
        return;
    assert_int_equal(stored, p->stored);
    assert_int_equal(dead, p->dead);
    assert_int_equal(unexplained, p->filtered);
}

static void check_held(const tide_position *p)
{
    size_t count = 0;
    const tide_interval *holes = tide_cursor_holes(&p->cursor, &count);
    assert_true(count <= TIDE_POSITION_HELD_MAX);
    assert_int_equal(p->held_count, count);
    for (size_t i = 0; i < count; i++)
        assert_memory_equal(&p->held[i].numbers, &holes[i], sizeof holes[i]);
}

static void check_source(const ledger *l, source *src)
{
    const tide_position *p = &src->position;
    tide_ledger totals;
    ledger_totals(l, p, &totals);
    if (totals.unexplained != 0)
        fail_msg("totals of session %s epoch %lld: %lld unexplained", p->session_id,
                 (long long)p->epoch, (long long)totals.unexplained);
    check_fates(l, src);
    const int64_t contiguous = tide_cursor_contiguous(&p->cursor);
    /* An epoch of which nothing was read may turn out to be another one, that begins further down. */
    const tide_position *from = &l->last.from;
    const bool was_untouched = from->source_id == p->source_id && from->first > 0 &&
                               tide_cursor_highest(&from->cursor) == from->first - 1;
    assert_true(contiguous >= src->contiguous || was_untouched);
    assert_true(p->last_seq >= src->last_seq || l->may_go_back || was_untouched);
    assert_true(p->last_seq <= contiguous);
    assert_true(p->head >= tide_cursor_highest(&p->cursor));
    src->contiguous = contiguous;
    src->last_seq = p->last_seq;
    if (p->closed_at_us == 0)
        check_held(p);
    else
        assert_true(p->cursor.hole_count == 0 && contiguous == p->head);
}

static source *add_source(ledger *l)
{
    assert_in_range(l->source_count, 0, LEDGER_SOURCES_MAX - 1);
    source *src = &l->sources[l->source_count++];
    src->fates = calloc(LEDGER_SEQ_MAX + 1, 1);
    src->uids = calloc(LEDGER_SEQ_MAX + 1, sizeof *src->uids);
    assert_true(src->fates && src->uids);
    return src;
}

/* As a sink finds it: by id, then by version. */
static source *put_position(ledger *l, tide_position *position)
{
    source *src = NULL;
    if (position->source_id == 0) {
        for (int i = 0; i < l->source_count; i++) {
            const tide_position *other = &l->sources[i].position;
            assert_false(strcmp(other->session_id, position->session_id) == 0 &&
                         other->epoch == position->epoch);
        }
        src = add_source(l);
        position->source_id = l->source_count;
    } else {
        src = ledger_source(l, position->source_id);
        assert_int_equal(src->position.version, position->version);
    }
    position->version++;
    tide_position_done(&src->position);
    tide_error err;
    assert_ok_err(tide_position_copy(&src->position, position, &err), &err);
    return src;
}

static void put_number(source *src, int64_t seq, fate kind, int64_t uid)
{
    assert_true(seq > 0);
    if (seq > LEDGER_SEQ_MAX)
        return;
    assert_int_equal(src->fates[seq], UNKNOWN); /* never twice */
    src->fates[seq] = (unsigned char)kind;
    src->uids[seq] = uid;
}

static void put_rows(ledger *l, source *src, const tide_change *change)
{
    int64_t before = 0;
    for (int i = 0; i < change->row_count; i++) {
        tide_record_row row;
        assert_ok(tide_record_decode(tide_stream_type_of(TIDE_STREAM_TELEMETRY),
                                     change->rows[i]->message, &row));
        assert_true(row.seq == change->rows[i]->seq && row.seq > before);
        before = row.seq;
        put_number(src, row.seq, STORED, row.values[TIDE_SPAN_TIMESTAMP].i64);
    }
    for (int i = 0; i < change->dead_count; i++) {
        assert_non_null(change->dead[i].reason);
        if (change->dead[i].seq > 0)
            put_number(src, change->dead[i].seq, DEAD, 0);
        else
            l->letters++;
    }
}

static void put_gaps(ledger *l, const source *src, const tide_change *change)
{
    for (int i = 0; i < l->gap_count && change->closes_all_gaps; i++) {
        tide_gap *gap = &l->gaps[i];
        if (gap->source_id != src->position.source_id || !tide_gap_is_open(gap->status) ||
            gap->end_seq <= change->closes_gaps_above)
            continue;
        gap->status = TIDE_GAP_PERMANENT;
        gap->settled_at_us = l->now_us;
        (void)snprintf(gap->reason, sizeof gap->reason, "%s", src->position.closed_reason);
    }
    for (int i = 0; i < change->gap_count; i++) {
        const tide_gap *gap = &change->gaps[i];
        assert_int_equal(gap->settled_at_us != 0, !tide_gap_is_open(gap->status));
        tide_gap *row = gap->id > 0 ? ledger_gap(l, gap->id) : NULL;
        assert_true(gap->id == 0 || row);
        if (!row) {
            assert_in_range(l->gap_count, 0, LEDGER_GAPS_MAX - 1);
            row = &l->gaps[l->gap_count++];
        } else {
            assert_int_equal(row->start_seq, gap->start_seq);
        }
        const int64_t id = row->id > 0 ? row->id : ++l->next_id;
        *row = *gap;
        row->id = id;
        row->source_id = src->position.source_id;
    }
}

void ledger_apply(ledger *l, tide_change *change)
{
    tide_change_done(&l->last);
    l->last = *change;
    memset(change, 0, sizeof *change);
    tide_change *c = &l->last;
    if (c->from.source_id > 0)
        assert_int_equal(ledger_source(l, c->from.source_id)->position.version, c->from.version);
    source *src = NULL;
    if (c->is_closing) {
        src = put_position(l, &c->closed);
        if (*c->to.session_id)
            l->current = (int)(put_position(l, &c->to)->position.source_id - 1);
        else
            l->current = -1;
    } else {
        src = put_position(l, &c->to);
        if (c->to.closed_at_us == 0)
            l->current = (int)(c->to.source_id - 1);
    }
    put_rows(l, src, c);
    put_gaps(l, src, c);
    for (int i = 0; i < l->source_count; i++)
        check_source(l, &l->sources[i]);
    l->may_go_back = false;
}

static int compare_gaps(const void *a, const void *b)
{
    const int64_t x = ((const tide_gap *)a)->start_seq;
    const int64_t y = ((const tide_gap *)b)->start_seq;
    return (x > y) - (x < y);
}

/* What a sink gives: not recovered, touching the range, ascending. */
static void list_gaps(const ledger *l, tide_interval range, tide_gap_list *out)
{
    *out = (tide_gap_list){.gaps = calloc((size_t)l->gap_count + 1, sizeof *out->gaps)};
    assert_non_null(out->gaps);
    for (int i = 0; i < l->gap_count; i++) {
        const tide_gap *gap = &l->gaps[i];
        if (gap->source_id == ledger_at(l)->source_id && gap->status != TIDE_GAP_RECOVERED &&
            gap->start_seq <= range.last && gap->end_seq >= range.first)
            out->gaps[out->count++] = *gap;
    }
    qsort(out->gaps, (size_t)out->count, sizeof *out->gaps, compare_gaps);
}

/* What was settled in closed positions of the session, as a poller asks for it. */
static void look_back(ledger *l, const tide_reply *reply, tide_gap_list *out)
{
    for (int i = 0; i < l->source_count; i++) {
        const tide_position *closed = &l->sources[i].position;
        tide_gap_list one = {0};
        (void)tide_settle_note_past(&one, ledger_at(l), closed, reply);
        for (int k = 0; k < l->gap_count; k++)
            if (l->gaps[k].source_id == closed->source_id)
                tide_settle_lower_past(&one, &l->gaps[k], 1);
        if (one.past_epoch > out->past_epoch)
            out->past_epoch = one.past_epoch;
        if (one.past_through > out->past_through)
            out->past_through = one.past_through;
    }
}

tide_status ledger_settle(ledger *l, const tide_ask *asked, const tide_reply *reply,
                          tide_error *err)
{
    tide_interval range;
    tide_gap_list list = {0};
    if (tide_settle_wants_gaps(ledger_at(l), asked, reply, &range))
        list_gaps(l, range, &list);
    if (tide_settle_wants_past(ledger_at(l), reply))
        look_back(l, reply, &list);
    tide_change change;
    const tide_status status = tide_settle(&change, ledger_at(l), &list, asked, reply, l->grace_us,
                                           l->now_us, l->mono_us, err);
    free(list.gaps);
    if (status == TIDE_OK)
        ledger_apply(l, &change);
    else
        tide_change_done(&change); /* holds nothing */
    return status;
}

static tide_ask ask_above(const ledger *l, int64_t start)
{
    return (tide_ask){.type = tide_colony_type_of(TIDE_STREAM_TELEMETRY),
                      .data_type = "telemetry",
                      .start_seq = start,
                      .max_records = 10000,
                      .session_id = ledger_at(l)->session_id};
}

tide_status ledger_poll(ledger *l, int64_t start, answer *a)
{
    TIDE_CLEANUP(tide_reply_done) tide_reply reply = {.len = 0};
    const tide_ask asked = ask_above(l, start);
    tide_error err = {.text = ""};
    tide_status status = answer_read(a, &reply, &err);
    if (status == TIDE_OK)
        status = ledger_settle(l, &asked, &reply, &err);
    answer_done(a);
    return status;
}

tide_status ledger_recover(ledger *l, int64_t gap_id, int64_t start, int attempt_max, answer *a)
{
    TIDE_CLEANUP(tide_reply_done) tide_reply reply = {.len = 0};
    const tide_gap *found = ledger_gap(l, gap_id);
    assert_non_null(found);
    const tide_gap gap = *found;
    tide_ask asked = ask_above(l, start);
    asked.last_seq = gap.end_seq;
    tide_error err = {.text = ""};
    tide_change change = {.note = ""};
    tide_status status = answer_read(a, &reply, &err);
    if (status == TIDE_OK)
        status = tide_settle_gap(&change, &ledger_source(l, gap.source_id)->position, &gap, &asked,
                                 &reply, attempt_max, l->now_us, &err);
    if (status == TIDE_OK)
        ledger_apply(l, &change);
    answer_done(a);
    return status;
}

/* ---- looking ---- */

void assert_stored(const ledger *l, const char *want)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text;
    tide_buffer_init(&text, 65536);
    const source *src = l->current < 0 ? NULL : &l->sources[l->current];
    for (int64_t seq = 1; src && seq <= LEDGER_SEQ_MAX; seq++) {
        if (src->fates[seq] != STORED)
            continue;
        const int64_t first = seq;
        while (seq < LEDGER_SEQ_MAX && src->fates[seq + 1] == STORED)
            seq++;
        assert_ok(tide_buffer_printf(&text, text.len > 0 ? " %lld" : "%lld", (long long)first));
        if (seq > first)
            assert_ok(tide_buffer_printf(&text, "-%lld", (long long)seq));
    }
    assert_string_equal(tide_buffer_text(&text), want);
}

void assert_gaps(const ledger *l, const char *want)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text;
    tide_buffer_init(&text, 65536);
    tide_gap *sorted = calloc((size_t)l->gap_count + 1, sizeof *sorted);
    assert_non_null(sorted);
    memcpy(sorted, l->gaps, (size_t)l->gap_count * sizeof *sorted);
    qsort(sorted, (size_t)l->gap_count, sizeof *sorted, compare_gaps);
    for (int i = 0; i < l->gap_count; i++)
        if (sorted[i].source_id == ledger_at(l)->source_id)
            assert_ok(tide_buffer_printf(&text, "%s%lld-%lld %s %s", text.len > 0 ? "; " : "",
                                         (long long)sorted[i].start_seq,
                                         (long long)sorted[i].end_seq,
                                         tide_gap_status_name(sorted[i].status), sorted[i].reason));
    free(sorted);
    assert_string_equal(tide_buffer_text(&text), want);
}
