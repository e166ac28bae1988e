#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "feed/record.h"
#include "sim/colony/world.h"

/* ---- behind every change ---- */

static void check_mark(world *w, const tide_position *at)
{
    if (at->source_id <= 0 || at->source_id >= WORLD_SOURCES_MAX)
        return;
    source_mark *mark = &w->marks[at->source_id];
    const source_mark now = {
        .contiguous = at->cursor.contiguous, .highest = at->cursor.highest, .stored = at->stored};
    if (now.contiguous < mark->contiguous || now.highest < mark->highest ||
        now.stored < mark->stored)
        sim_fail(w->sim,
                 "%s %s epoch %" PRId64 " went back: prefix %" PRId64 " to %" PRId64
                 ", highest %" PRId64 " to %" PRId64 ", stored %" PRId64 " to %" PRId64,
                 at->agent_id, at->data_type, at->epoch, mark->contiguous, now.contiguous,
                 mark->highest, now.highest, mark->stored, now.stored);
    *mark = now;
}

void world_note_change(world *w, const tide_change *change)
{
    w->tally.applied++;
    w->tally.stored += change->stored;
    w->tally.repeated += change->repeated;
    w->tally.permanent += change->permanent;
    w->tally.closed += change->is_closing;
    check_mark(w, &change->to);
    if (change->is_closing)
        check_mark(w, &change->closed);
    (void)snprintf(w->dirty_agent, sizeof w->dirty_agent, "%s", change->from.agent_id);
    w->dirty_stream =
        strcmp(change->from.data_type, world_streams[0]) == 0 ? world_streams[0] : world_streams[1];
    w->is_dirty = true;
}

typedef struct judgement {
    char why[SIM_WHY_MAX];
} judgement;

static tide_status judge(void *arg, const tide_audit_line *line, tide_error *err)
{
    (void)err;
    judgement *j = arg;
    const tide_ledger *b = &line->ledger;
    char why[1024];
    if (!line->is_balanced)
        (void)snprintf(why, sizeof why,
                       "%s %s epoch %" PRId64 ": %s (head %" PRId64 " first %" PRId64
                       " stored %" PRId64 " void %" PRId64 " lost %" PRId64 " pending %" PRId64
                       " rows %" PRId64 ")",
                       line->position->agent_id, line->position->data_type, line->position->epoch,
                       line->finding, b->head, b->first, b->stored, b->voided, b->lost, b->pending,
                       line->rows);
    if (!line->is_balanced)
        (void)snprintf(j->why, sizeof j->why, "%.*s", SIM_WHY_MAX - 1, why);
    return TIDE_OK;
}

static world_colony *find_open(world *w)
{
    for (int i = 0; i < w->colony_count; i++)
        if (w->colonies[i].sink && w->depot.disk && !fault_vfs_is_cut(w->depot.disk))
            return &w->colonies[i];
    return NULL;
}

bool world_ledger_balances(void *arg, const sim *place, char why[SIM_WHY_MAX])
{
    (void)place;
    world *w = arg;
    world_colony *c = w->is_dirty ? find_open(w) : NULL;
    if (!c)
        return true; /* judged when somebody can look */
    judgement j = {.why = ""};
    tide_error err;
    const tide_status status =
        tide_audit(c->sink, w->dirty_agent, w->dirty_stream, NULL, NULL, judge, &j, &err);
    if (status == TIDE_E_DAMAGED) {
        (void)snprintf(why, SIM_WHY_MAX, "%s", j.why);
        return false;
    }
    w->is_dirty = status < TIDE_OK;
    return true;
}

/* ---- the end ---- */

typedef struct row_check {
    world *w;
    world_agent *agent;
    tide_sink *sink;
    int64_t rows;
    /* rows by the number in their name, of the agent's present session */
    int64_t seq_of[WORLD_PUTS_MAX + 1];
    int64_t count_of[WORLD_PUTS_MAX + 1];
    char session_id[TIDE_SESSION_ID_SIZE];
} row_check;

static tide_status no_columns(void *arg, const char *const *names, int count, tide_error *err)
{
    (void)arg, (void)names, (void)count, (void)err;
    return TIDE_OK;
}

static int64_t number_in(tide_view name)
{
    char text[64];
    (void)snprintf(text, sizeof text, "%.*s", (int)name.len, name.ptr);
    const char *dash = strchr(text, '-');
    return dash ? strtoll(dash + 1, NULL, 10) : 0;
}

/* Every row is a record that its agent had under this number in this session. */
static tide_status check_row(void *arg, const tide_sql_value *cells, int count, tide_error *err)
{
    (void)count, (void)err;
    row_check *r = arg;
    const int64_t seq = cells[1].i64;
    const int64_t n = number_in(cells[2].bytes);
    r->rows++;
    const put_record *put = n >= 1 && n <= WORLD_PUTS_MAX ? &r->agent->puts[n] : NULL;
    const bool is_session = put && tide_view_equal(cells[0].bytes, tide_view_of(put->session_id));
    (void)sim_expect(r->w->sim, is_session && (put->seq == 0 || put->seq == seq),
                     "row %" PRId64 " of %s is the record '%.*s', which was put as %" PRId64, seq,
                     r->agent->rig.name, (int)cells[2].bytes.len, cells[2].bytes.ptr,
                     put ? put->seq : -1);
    if (put && tide_view_equal(cells[0].bytes, tide_view_of(r->session_id))) {
        r->seq_of[n] = seq;
        r->count_of[n]++;
    }
    return TIDE_OK;
}

static tide_status keep_count(void *arg, const tide_sql_value *cells, int count, tide_error *err)
{
    (void)count, (void)err;
    *(int64_t *)arg = cells[0].i64;
    return TIDE_OK;
}

static int64_t count_rows(const row_check *r, const char *sql)
{
    int64_t found = 0;
    tide_error err;
    const tide_sink_query query = {.sql = sql};
    const tide_sink_rows rows = {.columns = no_columns, .row = keep_count, .arg = &found};
    return r->sink->ops->query(r->sink, &query, &rows, &err) == TIDE_OK ? found : 0;
}

/* Given up with a reason: it had expired or was damaged when it was asked for, and the agent's disk
 * was restored to a time when it was there. */
static bool is_given_up(const row_check *r, int stream, int64_t seq)
{
    char sql[512];
    (void)snprintf(sql, sizeof sql,
                   "SELECT COUNT(*) FROM sequence_gaps WHERE agent_id = '%s' AND data_type = '%s' "
                   "AND session_id = '%s' AND status = 'permanent' AND reason <> '' "
                   "AND start_seq_id <= %" PRId64 " AND end_seq_id >= %" PRId64,
                   r->agent->rig.name, world_streams[stream], r->session_id, seq, seq);
    return count_rows(r, sql) > 0;
}

/* The agent no longer had it when a colony first read the stream, which begins with the oldest
 * record there is; a restored disk has it again. */
static bool is_before_the_first(const row_check *r, int stream, int64_t seq)
{
    char sql[1024];
    (void)snprintf(sql, sizeof sql,
                   "SELECT COUNT(*) FROM (SELECT MIN(first_seq_id) AS first FROM "
                   "(SELECT agent_id, data_type, session_id, first_seq_id FROM polling_checkpoints "
                   "UNION ALL SELECT agent_id, data_type, session_id, first_seq_id "
                   "FROM polling_checkpoint_history) WHERE agent_id = '%s' AND data_type = '%s' "
                   "AND session_id = '%s') WHERE first > %" PRId64,
                   r->agent->rig.name, world_streams[stream], r->session_id, seq);
    return count_rows(r, sql) > 0;
}

/* Every record that the agent holds is a row, under its number. */
static void check_held(row_check *r, int stream)
{
    const tide_stream_type *type = tide_stream_type_find(world_streams[stream]);
    const int column = stream == 0 ? TIDE_SPAN_TRACE_ID : TIDE_LOG_BODY;
    tide_error err;
    tide_feed_answer answer = {0};
    const tide_feed_request request = {TIDE_FEED_REQUEST_INIT, .stream = world_streams[stream],
                                       .max_records = 50000};
    if (tide_feed_read(r->agent->rig.feed, &request, &answer, &err) < TIDE_OK) {
        (void)sim_expect(r->w->sim, false, "an agent cannot be read: %s", err.text);
        return;
    }
    tide_view rest = tide_view_bytes(answer.bytes, answer.len);
    tide_record record;
    while (tide_record_next(type, &rest, &record) == TIDE_OK) {
        tide_record_value value;
        if (tide_record_find(type, record.message, column, &value) < TIDE_OK)
            continue;
        const int64_t n = number_in(value.bytes);
        const bool is_row = r->count_of[n] >= 1 && r->seq_of[n] == record.seq;
        (void)sim_expect(r->w->sim,
                         is_row ||
                             (r->w->keep_us > 0 && (is_given_up(r, stream, record.seq) ||
                                                    is_before_the_first(r, stream, record.seq))),
                         "%s %s %" PRId64 " ('%.*s') is %" PRId64 " rows, the last as %" PRId64,
                         r->agent->rig.name, world_streams[stream], record.seq,
                         (int)value.bytes.len, value.bytes.ptr, r->count_of[n], r->seq_of[n]);
    }
    tide_feed_answer_done(&answer);
}

static void check_agent(world *w, world_colony *c, world_agent *a)
{
    row_check *r = calloc(1, sizeof *r);
    assert_non_null(r);
    *r = (row_check){.w = w, .agent = a, .sink = c->sink};
    tide_identity identity;
    tide_store_identity(a->rig.store, &identity);
    memcpy(r->session_id, identity.session_id, sizeof r->session_id);
    for (int i = 0; i < WORLD_STREAMS; i++) {
        char sql[256];
        tide_error err;
        (void)snprintf(sql, sizeof sql,
                       "SELECT session_id, seq_id, %s FROM %s WHERE agent_id = '%s'",
                       i == 0 ? "trace_id" : "body", i == 0 ? "spans" : "logs", a->rig.name);
        const tide_sink_query query = {.sql = sql, .row_max = 100000};
        const tide_sink_rows rows = {.columns = no_columns, .row = check_row, .arg = r};
        const tide_status status = c->sink->ops->query(c->sink, &query, &rows, &err);
        (void)sim_expect(w->sim, status == TIDE_OK, "the rows cannot be read: %s", err.text);
        check_held(r, i);
    }
    free(r);
}

static tide_status count_open(void *arg, const tide_gap *gap, tide_error *err)
{
    (void)gap, (void)err;
    ++*(int64_t *)arg;
    return TIDE_OK;
}

void world_expect_end(world *w)
{
    world_colony *c = find_open(w);
    tide_error err;
    if (!sim_expect(w->sim, c != NULL, "a colony is up in the end") || !c)
        return;
    judgement j = {.why = ""};
    (void)sim_expect(w->sim,
                     tide_audit(c->sink, NULL, NULL, NULL, NULL, judge, &j, &err) == TIDE_OK,
                     "all ledgers balance: %s", j.why);
    for (int i = 0; i < w->agent_count; i++)
        check_agent(w, c, &w->agents[i]);
    int64_t open = 0;
    const tide_gap_filter filter = {
        .epoch = -1, .statuses = 1U << TIDE_GAP_DETECTED | 1U << TIDE_GAP_RECOVERING};
    if (c->sink->ops->gaps(c->sink, &filter, count_open, &open, &err) == TIDE_OK)
        (void)sim_expect(w->sim, open == 0, "no gap is open, not %" PRId64, open);
}
