#include "colony/sink_fixture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

enum { PAGE_RECORDS_MAX = 200000 };

void page_init(page *p, tide_stream_kind kind)
{
    memset(p, 0, sizeof *p);
    tide_record_batch_init(&p->batch, tide_stream_type_of(kind), 0);
    p->seqs = calloc(PAGE_RECORDS_MAX, sizeof *p->seqs);
    assert_non_null(p->seqs);
}

void page_done(page *p)
{
    tide_record_batch_done(&p->batch);
    free(p->seqs);
    free(p->records);
    free((void *)p->rows);
}

void page_end_record(page *p, int64_t seq)
{
    assert_ok(tide_record_end(&p->batch));
    assert_true(p->count < PAGE_RECORDS_MAX);
    p->seqs[p->count++] = seq;
}

void page_span(page *p, int64_t seq, int64_t minute, const char *service, double ms, bool is_error)
{
    tide_record_begin(&p->batch);
    tide_record_i64(&p->batch, TIDE_SPAN_TIMESTAMP, NOON_MS + minute * MINUTE_MS);
    tide_record_text(&p->batch, TIDE_SPAN_SERVICE_NAME, tide_view_of(service));
    tide_record_text(&p->batch, TIDE_SPAN_TRACE_ID,
                     tide_view_of("0af7651916cd43dd8448eb211c80319c"));
    tide_record_f64(&p->batch, TIDE_SPAN_DURATION_MS, ms);
    tide_record_bool(&p->batch, TIDE_SPAN_IS_ERROR, is_error);
    tide_record_pair(&p->batch, TIDE_SPAN_ATTRIBUTES, tide_view_of("key"), tide_view_of("va\"lue"));
    page_end_record(p, seq);
}

void page_spans(page *p, int64_t first, int64_t last)
{
    for (int64_t seq = first; seq <= last; seq++)
        page_span(p, seq, 0, "api", 1, false);
}

void page_close(page *p)
{
    p->records = calloc((size_t)p->count + 1, sizeof *p->records);
    p->rows = calloc((size_t)p->count + 1, sizeof(const void *));
    assert_true(p->records && p->rows);
    tide_digest128 chain = {0};
    tide_error err;
    if (p->count > 0)
        assert_ok_err(tide_record_number(p->batch.type, p->batch.bytes.ptr, p->batch.bytes.len,
                                         p->count, 1, &chain, &err),
                      &err);
    tide_view rest = tide_buffer_view(&p->batch.bytes);
    for (int i = 0; i < p->count; i++) {
        tide_record record;
        assert_ok(tide_record_next(p->batch.type, &rest, &record));
        p->records[i] = (tide_reply_record){
            .seq = p->seqs[i], .bytes = record.bytes, .message = record.message};
        p->rows[i] = &p->records[i];
    }
}

/* ---- changes ---- */

void change_begin(tide_change *change, const tide_position *at, int64_t now_us)
{
    memset(change, 0, sizeof *change);
    tide_error err;
    assert_ok_err(tide_position_copy(&change->from, at, &err), &err);
    assert_ok_err(tide_position_copy(&change->to, at, &err), &err);
    tide_position *to = &change->to;
    if (to->session_id[0] == '\0') {
        (void)snprintf(to->session_id, sizeof to->session_id, "%s", SESSION_A);
        if (strncmp(to->agent_id, "agent-", 6) == 0) /* each has its own */
            to->session_id[strlen(SESSION_A) - 2] = to->agent_id[6];
        to->epoch = 1;
        to->first = 1;
        to->created_at_us = now_us;
    }
    to->updated_at_us = now_us;
    to->last_poll_us = now_us;
}

static void settle(tide_position *to, int64_t first, int64_t last)
{
    tide_error err;
    assert_ok_err(tide_cursor_add(&to->cursor, first, last, NULL, &err), &err);
    to->last_seq = tide_cursor_contiguous(&to->cursor);
    if (to->head < last)
        to->head = last;
}

void change_store(tide_change *change, const page *p)
{
    tide_position *to = change->is_closing ? &change->closed : &change->to;
    change->rows = malloc(((size_t)p->count + 1) * sizeof(const void *));
    assert_non_null(change->rows);
    for (int i = 0; i < p->count; i++) {
        change->rows[i] = p->rows[i];
        settle(to, p->seqs[i], p->seqs[i]);
    }
    change->row_count = p->count;
    change->stored = p->count;
    to->stored += p->count;
}

static tide_gap *add_gap(tide_change *change)
{
    change->gaps = realloc(change->gaps, ((size_t)change->gap_count + 1) * sizeof *change->gaps);
    assert_non_null(change->gaps);
    tide_gap *gap = &change->gaps[change->gap_count++];
    memset(gap, 0, sizeof *gap);
    return gap;
}

tide_gap *change_gap(tide_change *change, int64_t first, int64_t last, tide_gap_status status)
{
    tide_position *to = change->is_closing ? &change->closed : &change->to;
    tide_gap *gap = add_gap(change);
    gap->start_seq = first;
    gap->end_seq = last;
    gap->status = status;
    gap->detected_at_us = to->updated_at_us;
    gap->settled_at_us = tide_gap_is_open(status) ? 0 : to->updated_at_us;
    (void)snprintf(gap->reason, sizeof gap->reason, "missing");
    settle(to, first, last);
    return gap;
}

tide_gap *change_known_gap(tide_change *change, const tide_gap *gap)
{
    tide_gap *known = add_gap(change);
    *known = *gap;
    return known;
}

void change_close(tide_change *change, const char *session, int64_t epoch, const char *reason)
{
    change->closed = change->to;
    change->is_closing = true;
    change->closed.closed_at_us = change->closed.updated_at_us;
    (void)snprintf(change->closed.closed_reason, sizeof change->closed.closed_reason, "%s", reason);
    tide_position_init(&change->to, change->from.agent_id, change->from.data_type);
    (void)snprintf(change->to.session_id, sizeof change->to.session_id, "%s", session);
    change->to.epoch = epoch;
    change->to.first = session[0] ? 1 : 0;
    change->to.created_at_us = change->closed.updated_at_us;
    change->to.updated_at_us = change->closed.updated_at_us;
    change->to.last_poll_us = change->closed.updated_at_us;
}

/* ---- looking ---- */

typedef struct answer {
    bool is_told;
    int64_t number;
    char text[512];
} answer;

static tide_status ignore_columns(void *arg, const char *const *names, int count, tide_error *err)
{
    (void)arg;
    (void)names;
    (void)count;
    (void)err;
    return TIDE_OK;
}

static tide_status take_row(void *arg, const tide_sql_value *cells, int count, tide_error *err)
{
    (void)err;
    answer *a = arg;
    if (a->is_told || count < 1)
        return TIDE_OK;
    a->is_told = true;
    a->number = cells[0].i64;
    if (cells[0].kind == TIDE_SQL_VALUE_F64)
        (void)snprintf(a->text, sizeof a->text, "%.6g", cells[0].f64);
    else if (cells[0].kind == TIDE_SQL_VALUE_NULL)
        (void)snprintf(a->text, sizeof a->text, "null");
    else if (cells[0].kind == TIDE_SQL_VALUE_I64 || cells[0].kind == TIDE_SQL_VALUE_BOOL)
        (void)snprintf(a->text, sizeof a->text, "%" PRId64, cells[0].i64);
    else
        (void)snprintf(a->text, sizeof a->text, "%.*s", (int)cells[0].bytes.len,
                       cells[0].bytes.ptr);
    return TIDE_OK;
}

static void ask(tide_sink *sink, const char *sql, answer *a)
{
    tide_error err;
    const tide_sink_query query = {.sql = sql};
    const tide_sink_rows rows = {.columns = ignore_columns, .row = take_row, .arg = a};
    memset(a, 0, sizeof *a);
    assert_ok_err(sink->ops->query(sink, &query, &rows, &err), &err);
    assert_true(a->is_told);
}

int64_t ask_number(tide_sink *sink, const char *sql)
{
    answer a;
    ask(sink, sql, &a);
    return a.number;
}

void ask_text(tide_sink *sink, const char *sql, char *out, size_t size)
{
    answer a;
    ask(sink, sql, &a);
    (void)snprintf(out, size, "%s", a.text);
}

void load_position(tide_sink *sink, const char *agent, const char *type, tide_position *out)
{
    tide_error err;
    assert_ok_err(tide_sink_load(sink, agent, type, out, &err), &err);
}

tide_status store_spans(tide_sink *sink, const char *agent, int64_t first, int64_t last,
                        tide_error *err)
{
    TIDE_CLEANUP(page_done) page p;
    page_init(&p, TIDE_STREAM_TELEMETRY);
    page_spans(&p, first, last);
    page_close(&p);
    TIDE_CLEANUP(tide_position_done) tide_position at;
    load_position(sink, agent, "telemetry", &at);
    TIDE_CLEANUP(tide_change_done) tide_change change;
    change_begin(&change, &at, sink->env->wall_us(sink->env));
    change_store(&change, &p);
    return tide_sink_apply(sink, &change, err);
}

typedef struct audit {
    tide_sink *sink;
    int positions;
} audit;

static tide_status check_position(void *arg, const tide_position *position,
                                  const tide_gap_sums *gaps, tide_error *err)
{
    audit *a = arg;
    tide_ledger ledger;
    int64_t rows = -1;
    int64_t dead = -1;
    a->positions++;
    tide_position_ledger(position, gaps, &ledger);
    assert_int_equal(0, ledger.unexplained);
    TIDE_TRY(a->sink->ops->count(a->sink, position, NULL, NULL, &rows, &dead, err));
    assert_int_equal(position->stored, rows + position->expired);
    assert_int_equal(position->dead, dead);
    return TIDE_OK;
}

int check_ledger(tide_sink *sink)
{
    audit a = {.sink = sink};
    tide_error err;
    assert_ok_err(sink->ops->positions(sink, NULL, NULL, true, check_position, &a, &err), &err);
    return a.positions;
}
