/* The DuckDB sink: a whole change or nothing, newest states, clean-up that closes its ledger. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "colony/duckdb/duckdb_rig.h"
#include "colony/repair/repair.h"
#include "colony/sink_duckdb.h"

#define DAY_US INT64_C(86400000000)

/* What was never polled has no version and no session. */
static void an_unknown_position_is_a_fresh_one(void **state)
{
    duckdb_rig *r = *state;
    TIDE_CLEANUP(tide_position_done) tide_position at = {0};
    duckdb_rig_load(r, "web-1", "telemetry", &at);
    assert_string_equal("web-1", at.agent_id);
    assert_string_equal("", at.session_id);
    assert_int_equal(0, at.version);
    assert_int_equal(0, at.source_id);
}

/* Colony restart: polling goes on from what is stored; test "Colony Restart" of the telemetry document. */
static void rows_and_position_survive_together(void **state)
{
    duckdb_rig *r = *state;
    duckdb_rig_page(r, "web-1", "s1", 1, 100);
    duckdb_rig_page(r, "web-1", "s1", 101, 5000);
    duckdb_rig_page(r, "web-2", "t1", 1, 9);
    duckdb_rig_check(r);
    duckdb_rig_reopen(r);
    duckdb_rig_check(r);
    TIDE_CLEANUP(tide_position_done) tide_position at = {0};
    duckdb_rig_load(r, "web-1", "telemetry", &at);
    assert_int_equal(5000, at.last_seq);
    assert_int_equal(5000, at.stored);
    assert_int_equal(2, at.version);
    assert_string_equal("s1", at.session_id);
    assert_int_equal(5009, duckdb_rig_number(r, "SELECT count(*) FROM spans"));
    assert_int_equal(3, duckdb_rig_number(r, "SELECT count(*) FROM polling_batches"));
    char text[512];
    duckdb_rig_text(r,
                    "SELECT agent_id, data_type, session_id, last_seq_id, stored FROM "
                    "polling_checkpoints ORDER BY agent_id",
                    text, sizeof text);
    assert_string_equal("web-1|telemetry|s1|5000|5000|web-2|telemetry|t1|9|9|", text);
}

/* Whoever comes with an older version is refused, and nothing of it is stored; also the same change a second time. */
static void an_older_version_is_refused(void **state)
{
    duckdb_rig *r = *state;
    duckdb_rig_page(r, "web-1", "s1", 1, 10);
    TIDE_CLEANUP(tide_position_done) tide_position at = {0};
    duckdb_rig_load(r, "web-1", "telemetry", &at);
    answer a;
    answer_begin(&a, "s1");
    answer_foreign_run(&a, 11, 20);
    TIDE_CLEANUP(tide_reply_done) tide_reply reply = {0};
    assert_ok_err(answer_read(&a, &reply, &r->err), &r->err);
    const tide_ask asked = {.type = tide_colony_type_find("telemetry"),
                            .data_type = "telemetry",
                            .start_seq = 10,
                            .session_id = ""};
    TIDE_CLEANUP(tide_change_done) tide_change slow = {0};
    assert_ok_err(
        tide_settle(&slow, &at, NULL, &asked, &reply, TIDE_SETTLE_GRACE_US, 1, 1, &r->err),
        &r->err);
    duckdb_rig_page(r, "web-1", "s1", 11, 30);
    assert_status_err(TIDE_E_CONFLICT, tide_sink_apply(r->sink, &slow, &r->err), &r->err);
    assert_int_equal(at.version, slow.from.version);
    assert_int_equal(30, duckdb_rig_number(r, "SELECT count(*) FROM spans"));
    duckdb_rig_check(r);
    answer_done(&a);
}

static void applying_a_change_again_is_refused(void **state)
{
    duckdb_rig *r = *state;
    answer a;
    answer_begin(&a, "s1");
    answer_foreign_run(&a, 1, 10);
    TIDE_CLEANUP(tide_reply_done) tide_reply reply = {0};
    assert_ok_err(answer_read(&a, &reply, &r->err), &r->err);
    TIDE_CLEANUP(tide_change_done) tide_change change = {0};
    assert_ok_err(duckdb_rig_settle(r, "web-1", "telemetry", 0, &reply, &change), &r->err);
    assert_int_equal(1, change.to.version);
    assert_true(change.to.source_id > 0);
    assert_status_err(TIDE_E_CONFLICT, tide_sink_apply(r->sink, &change, &r->err), &r->err);
    duckdb_rig_check(r);
    answer_done(&a);
}

/* ---- leases ---- */

typedef struct lease_job {
    const char *name;
    tide_lease lease;
} lease_job;

static tide_status claim(tide_tx *tx, void *arg, tide_error *err)
{
    lease_job *job = arg;
    return tide_lease_claim(tx, job->name, "colony-1", 30000000, &job->lease, err);
}

/* A change under a lease that is over is refused as a whole. */
static void a_lost_lease_stores_nothing(void **state)
{
    duckdb_rig *r = *state;
    lease_job job = {.name = "colony/agent/web-1"};
    assert_ok_err(tide_store_write(r->store, claim, &job, &r->err), &r->err);
    answer a;
    answer_begin(&a, "s1");
    answer_foreign_run(&a, 1, 10);
    TIDE_CLEANUP(tide_reply_done) tide_reply reply = {0};
    assert_ok_err(answer_read(&a, &reply, &r->err), &r->err);
    TIDE_CLEANUP(tide_position_done) tide_position at = {0};
    duckdb_rig_load(r, "web-1", "telemetry", &at);
    const tide_ask asked = {
        .type = tide_colony_type_find("telemetry"), .data_type = "telemetry", .session_id = ""};
    TIDE_CLEANUP(tide_change_done) tide_change change = {0};
    assert_ok_err(
        tide_settle(&change, &at, NULL, &asked, &reply, TIDE_SETTLE_GRACE_US, 1, 1, &r->err),
        &r->err);
    change.lease_name = job.name;
    change.lease_token = job.lease.token - 1;
    assert_status_err(TIDE_E_LEASE_LOST, tide_sink_apply(r->sink, &change, &r->err), &r->err);
    assert_int_equal(0, duckdb_rig_number(r, "SELECT count(*) FROM spans"));
    change.lease_token = job.lease.token;
    assert_ok_err(tide_sink_apply(r->sink, &change, &r->err), &r->err);
    assert_int_equal(10, duckdb_rig_number(r, "SELECT count(*) FROM spans"));
    answer_done(&a);
}

/* ---- gaps ---- */

static tide_status take_gap(void *arg, const tide_gap *gap, tide_error *err)
{
    (void)err;
    *(tide_gap *)arg = *gap;
    return TIDE_OK;
}

static tide_gap only_gap(duckdb_rig *r, uint32_t statuses)
{
    tide_gap gap = {0};
    const tide_gap_filter filter = {.epoch = -1, .statuses = statuses};
    assert_ok_err(r->sink->ops->gaps(r->sink, &filter, take_gap, &gap, &r->err), &r->err);
    assert_int_not_equal(0, gap.id);
    return gap;
}

/* [1,2,3,5,6,7]: 4 is held, then a gap; test "Gap Recovery" of the telemetry document. */
static void leave_a_gap_at_4(duckdb_rig *r, const char *agent, const char *session)
{
    for (int i = 0; i < 2; i++) {
        answer a;
        answer_begin(&a, session);
        answer_foreign_run(&a, 1, 3);
        answer_foreign_run(&a, 5, 7);
        assert_ok_err(duckdb_rig_poll(r, agent, 0, &a), &r->err);
        virtual_env_advance(&r->clock, 11 * SECOND);
    }
}

static void recover_gap(duckdb_rig *r, const tide_gap *gap)
{
    answer a;
    answer_begin(&a, gap->session_id);
    answer_foreign_run(&a, gap->start_seq, gap->end_seq);
    TIDE_CLEANUP(tide_reply_done) tide_reply reply = {0};
    assert_ok_err(answer_read(&a, &reply, &r->err), &r->err);
    TIDE_CLEANUP(tide_position_done) tide_position at = {0};
    duckdb_rig_load(r, gap->agent_id, "telemetry", &at);
    const tide_ask asked = {.type = tide_colony_type_find("telemetry"),
                            .data_type = "telemetry",
                            .start_seq = gap->start_seq - 1,
                            .last_seq = gap->end_seq,
                            .max_records = gap->end_seq - gap->start_seq + 1,
                            .session_id = ""};
    TIDE_CLEANUP(tide_change_done) tide_change change = {0};
    assert_ok_err(tide_settle_gap(&change, &at, gap, &asked, &reply, 3, r->clock.wall_us, &r->err),
                  &r->err);
    assert_ok_err(tide_sink_apply(r->sink, &change, &r->err), &r->err);
    duckdb_rig_forget(r);
    answer_done(&a);
}

static void a_gap_is_recorded_and_recovered(void **state)
{
    duckdb_rig *r = *state;
    leave_a_gap_at_4(r, "web-1", "s1");
    duckdb_rig_check(r);
    const tide_gap gap = only_gap(r, 1U << TIDE_GAP_DETECTED);
    assert_int_equal(4, gap.start_seq);
    assert_int_equal(4, gap.end_seq);
    duckdb_rig_reopen(r);
    recover_gap(r, &gap);
    duckdb_rig_check(r);
    tide_gap now;
    assert_ok_err(r->sink->ops->gap(r->sink, gap.id, &now, &r->err), &r->err);
    assert_int_equal(TIDE_GAP_RECOVERED, now.status);
    assert_int_equal(7, duckdb_rig_number(r, "SELECT count(*) FROM spans"));
    char text[512];
    duckdb_rig_text(r, "SELECT agent_id, start_seq_id, end_seq_id, status FROM sequence_gaps", text,
                    sizeof text);
    assert_string_equal("web-1|4|4|recovered|", text);
    assert_status(TIDE_NONE, r->sink->ops->gap(r->sink, 4711, &now, &r->err));
}

/* Another session closes what was open of the first; its rows are never taken for it. */
static void a_new_session_closes_the_old_one(void **state)
{
    duckdb_rig *r = *state;
    leave_a_gap_at_4(r, "web-1", "s1");
    answer a;
    answer_begin(&a, "s2");
    answer_foreign_run(&a, 8, 9);
    assert_ok_err(duckdb_rig_poll(r, "web-1", 7, &a), &r->err);
    duckdb_rig_page(r, "web-1", "s2", 1, 9);
    duckdb_rig_reopen(r);
    duckdb_rig_check(r);
    const tide_gap gap = only_gap(r, 1U << TIDE_GAP_PERMANENT);
    assert_string_equal("s1", gap.session_id);
    assert_int_equal(4, gap.start_seq);
    assert_int_equal(6, duckdb_rig_number(r, "SELECT count(*) FROM spans WHERE session_id = 's1'"));
    assert_int_equal(9, duckdb_rig_number(r, "SELECT count(*) FROM spans WHERE session_id = 's2'"));
    assert_int_equal(1, duckdb_rig_number(r, "SELECT count(*) FROM polling_checkpoint_history "
                                             "WHERE event = 'closed' AND session_id = 's1'"));
    assert_int_equal(1, duckdb_rig_number(r, "SELECT count(*) FROM polling_checkpoints"));
}

/* An undecodable record is kept with its bytes, and the cursor moves. */
static void a_dead_letter_is_kept(void **state)
{
    duckdb_rig *r = *state;
    answer a;
    answer_begin(&a, "s1");
    answer_foreign_run(&a, 1, 2);
    answer_dead(&a, 3);
    answer_foreign_run(&a, 4, 5);
    assert_ok_err(duckdb_rig_poll(r, "web-1", 0, &a), &r->err);
    duckdb_rig_check(r);
    assert_int_equal(3, duckdb_rig_number(r, "SELECT seq_id FROM dead_letters"));
    TIDE_CLEANUP(tide_position_done) tide_position at = {0};
    duckdb_rig_load(r, "web-1", "telemetry", &at);
    assert_int_equal(5, at.last_seq);
    assert_int_equal(1, at.dead);
}

/* ---- an agent that is removed, and comes again ---- */

static void a_removed_agent_may_come_again(void **state)
{
    duckdb_rig *r = *state;
    duckdb_rig_page(r, "web-1", "s1", 1, 10);
    TIDE_CLEANUP(tide_position_done) tide_position at = {0};
    duckdb_rig_load(r, "web-1", "telemetry", &at);
    TIDE_CLEANUP(tide_change_done) tide_change close = {0};
    assert_ok_err(tide_settle_close(&close, &at, "removed", r->clock.wall_us, &r->err), &r->err);
    assert_ok_err(tide_sink_apply(r->sink, &close, &r->err), &r->err);
    duckdb_rig_reopen(r);
    TIDE_CLEANUP(tide_position_done) tide_position fresh = {0};
    duckdb_rig_load(r, "web-1", "telemetry", &fresh);
    assert_string_equal("", fresh.session_id);
    assert_true(fresh.version > at.version);
    /* The session that was closed is never begun a second time: its rows would be there twice. */
    answer a;
    answer_begin(&a, "s1");
    answer_foreign_run(&a, 1, 10);
    assert_status_err(TIDE_E_CONFLICT, duckdb_rig_poll(r, "web-1", 0, &a), &r->err);
    duckdb_rig_page(r, "web-1", "s2", 1, 4);
    duckdb_rig_reopen(r);
    duckdb_rig_check(r);
    assert_int_equal(1, duckdb_rig_number(r, "SELECT count(*) FROM polling_checkpoints"));
    assert_int_equal(14, duckdb_rig_number(r, "SELECT count(*) FROM spans"));
}

static tide_status take_closed(void *arg, const tide_position *position, const tide_gap_sums *gaps,
                               tide_error *err)
{
    (void)gaps;
    return position->closed_at_us != 0 ? tide_position_copy(arg, position, err) : TIDE_OK;
}

/* An agent that was removed comes again with the session that it had: its position is opened again, and rows are recognised. */
static void a_session_that_comes_back_is_opened_again(void **state)
{
    duckdb_rig *r = *state;
    duckdb_rig_page(r, "web-1", "s1", 1, 10);
    TIDE_CLEANUP(tide_position_done) tide_position at = {0};
    duckdb_rig_load(r, "web-1", "telemetry", &at);
    TIDE_CLEANUP(tide_change_done) tide_change close = {0};
    assert_ok_err(tide_settle_close(&close, &at, "removed", r->clock.wall_us, &r->err), &r->err);
    assert_ok_err(tide_sink_apply(r->sink, &close, &r->err), &r->err);
    virtual_env_advance(&r->clock, 25 * INT64_C(3600) * SECOND);
    tide_retained done;
    TIDE_CLEANUP(tide_position_done) tide_position earlier = {0};
    assert_ok_err(
        r->sink->ops->positions(r->sink, "web-1", NULL, true, take_closed, &earlier, &r->err),
        &r->err);
    assert_ok_err(r->sink->ops->retain(r->sink, DAY_US, &done, &r->err), &r->err);
    assert_int_equal(10, done.rows);
    answer a;
    answer_begin(&a, "s1");
    answer_foreign_run(&a, 1, 12);
    TIDE_CLEANUP(tide_reply_done) tide_reply reply = {0};
    assert_ok_err(answer_read(&a, &reply, &r->err), &r->err);
    TIDE_CLEANUP(tide_position_done) tide_position fresh = {0};
    duckdb_rig_load(r, "web-1", "telemetry", &fresh);
    TIDE_CLEANUP(tide_change_done) tide_change back = {0};
    assert_ok_err(tide_settle_return(&back, &fresh, &earlier, &reply, r->clock.wall_us, &r->err),
                  &r->err);
    assert_ok_err(tide_sink_apply(r->sink, &back, &r->err), &r->err);
    answer_done(&a);
    duckdb_rig_forget(r);
    duckdb_rig_check(r);
    duckdb_rig_page(r, "web-1", "s1", 1, 12);
    for (int i = 0; i < 2; i++) {
        duckdb_rig_check(r);
        assert_int_equal(2, duckdb_rig_number(r, "SELECT count(*) FROM spans"));
        assert_int_equal(1, duckdb_rig_number(r, "SELECT count(*) FROM polling_checkpoints"));
        duckdb_rig_reopen(r);
    }
}

/* ---- types ---- */

static void put_session(tide_buffer *bytes, const tide_colony_type *type, const char *session)
{
    assert_ok(tide_buffer_append_varint(bytes, (uint64_t)type->session_field << 3 | 2));
    assert_ok(tide_buffer_append_varint(bytes, strlen(session)));
    assert_ok(tide_buffer_append_text(bytes, session));
}

static void fill_record(tide_record_batch *batch, int round)
{
    const uint64_t ids[] = {UINT64_C(18446744073709551615), 2, 3};
    tide_record_begin(batch);
    for (int c = 0; c < batch->type->column_count; c++) {
        switch (batch->type->columns[c].kind) {
        case TIDE_COLUMN_I64:
        case TIDE_COLUMN_I32:
            tide_record_i64(batch, c,
                            c == batch->type->time_column ? VIRTUAL_ENV_WALL_US / 1000 : 40 + c);
            break;
        case TIDE_COLUMN_U64:
            tide_record_u64(batch, c, UINT64_C(18446744073709551615));
            break;
        case TIDE_COLUMN_F64:
            tide_record_f64(batch, c, 1.5);
            break;
        case TIDE_COLUMN_BOOL:
            tide_record_bool(batch, c, true);
            break;
        case TIDE_COLUMN_TEXT:
            tide_record_text(batch, c, tide_view_of(batch->type->columns[c].name));
            break;
        case TIDE_COLUMN_BLOB:
            tide_record_blob(batch, c, tide_view_of("bytes"));
            break;
        case TIDE_COLUMN_MAP:
            if (round > 0)
                tide_record_pair(batch, c, tide_view_of("k"), tide_view_of("v\"w"));
            break;
        case TIDE_COLUMN_IDS:
            tide_record_ids(batch, c, ids, round == 0 ? 0 : 3);
            break;
        }
    }
    assert_ok(tide_record_end(batch));
}

/* Rows of every type, more than one chunk of them, have their columns. */
static void every_type_has_its_table(void **state)
{
    duckdb_rig *r = *state;
    for (int kind = 0; kind < TIDE_STREAM_COUNT; kind++) {
        const tide_colony_type *type = tide_colony_type_of((tide_stream_kind)kind);
        const char *data_type = kind == TIDE_STREAM_OPAQUE ? "orders" : type->stream->name;
        TIDE_CLEANUP(tide_record_batch_done) tide_record_batch batch;
        tide_record_batch_init(&batch, type->stream, 0);
        for (int i = 0; i < 2500; i++)
            fill_record(&batch, i);
        tide_digest128 chain = {0};
        assert_ok_err(tide_record_number(type->stream, batch.bytes.ptr, batch.bytes.len,
                                         batch.count, 1, &chain, &r->err),
                      &r->err);
        put_session(&batch.bytes, type, "s1");
        assert_ok_err(
            duckdb_rig_poll_bytes(r, "web-1", data_type, 0, tide_buffer_view(&batch.bytes)),
            &r->err);
        char sql[128];
        (void)snprintf(sql, sizeof sql, "SELECT count(DISTINCT seq_id) FROM %s", type->table);
        assert_int_equal(2500, duckdb_rig_number(r, sql));
    }
    duckdb_rig_check(r);
    char text[1024];
    duckdb_rig_text(r,
                    "SELECT agent_id, session_id, epoch, seq_id, timestamp, trace_id, duration_ms, "
                    "is_error, http_status, attributes FROM spans WHERE seq_id IN (1, 2500) ORDER "
                    "BY seq_id",
                    text, sizeof text);
    assert_string_equal(
        "web-1|s1|0|1|2025-01-01 00:00:00.000000|trace_id|1.5|1|48|{}|"
        "web-1|s1|0|2500|2025-01-01 00:00:00.000000|trace_id|1.5|1|48|{\"k\":\"v\\\"w\"}|",
        text);
    duckdb_rig_text(r,
                    "SELECT stack_hash, stack_frame_ids, len(stack_frame_ids) FROM "
                    "cpu_profile_samples WHERE seq_id IN (1, 2100) ORDER BY seq_id",
                    text, sizeof text);
    assert_string_equal("18446744073709551615|[]|0|"
                        "18446744073709551615|[18446744073709551615,2,3]|3|",
                        text);
    duckdb_rig_text(r, "SELECT data_type, data FROM records WHERE seq_id = 1", text, sizeof text);
    assert_string_equal("orders|bytes|", text);
}

/* 1000 spans of a minute, one recovered later: 1001. Adding up changes nothing. */
static void a_late_row_is_in_its_minute_once(void **state)
{
    duckdb_rig *r = *state;
    leave_a_gap_at_4(r, "web-1", "s1");
    assert_int_equal(6, duckdb_rig_number(r, "SELECT sum(count) FROM spans_1m"));
    const tide_gap gap = only_gap(r, 1U << TIDE_GAP_DETECTED);
    recover_gap(r, &gap);
    assert_int_equal(7, duckdb_rig_number(r, "SELECT sum(count) FROM spans_1m"));
    assert_int_equal(1, duckdb_rig_number(r, "SELECT count(*) FROM spans_1m"));
}

/* ---- clean-up ---- */

static tide_retained retain(duckdb_rig *r)
{
    tide_retained sum = {0};
    tide_retained got;
    do {
        assert_ok_err(r->sink->ops->retain(r->sink, 7 * DAY_US, &got, &r->err), &r->err);
        sum.rows += got.rows;
        sum.gaps += got.gaps;
        sum.batches += got.batches;
    } while (got.next_us == 0);
    return sum;
}

static void rows_go_sooner_where_the_sink_says_so(void **state)
{
    duckdb_rig *r = *state;
    r->sink->keep_us = 1800 * SECOND;
    duckdb_rig_page(r, "web-1", "s1", 1, 100);
    virtual_env_advance(&r->clock, 1700 * SECOND);
    assert_int_equal(0, retain(r).rows);
    virtual_env_advance(&r->clock, 200 * SECOND);
    assert_int_equal(100, retain(r).rows);
    duckdb_rig_check(r);
}

/* Rows go when they are too old, by when they were stored; the ledger balances before and after, and pollers do not notice. */
static void old_rows_go_and_the_ledger_balances(void **state)
{
    duckdb_rig *r = *state;
    duckdb_rig_page(r, "web-1", "s1", 1, 100);
    virtual_env_advance(&r->clock, 20 * INT64_C(3600) * SECOND);
    duckdb_rig_page(r, "web-1", "s1", 101, 150);
    assert_int_equal(0, retain(r).rows);
    virtual_env_advance(&r->clock, 5 * INT64_C(3600) * SECOND);
    TIDE_CLEANUP(tide_position_done) tide_position before = {0};
    duckdb_rig_load(r, "web-1", "telemetry", &before);
    const tide_retained sum = retain(r);
    assert_int_equal(100, sum.rows);
    assert_int_equal(1, sum.batches);
    assert_int_equal(50, duckdb_rig_number(r, "SELECT count(*) FROM spans"));
    duckdb_rig_check(r);
    TIDE_CLEANUP(tide_position_done) tide_position at = {0};
    duckdb_rig_load(r, "web-1", "telemetry", &at);
    assert_int_equal(before.version, at.version);
    assert_int_equal(100, at.expired);
    assert_int_equal(150, at.stored);
    duckdb_rig_page(r, "web-1", "s1", 151, 160);
    duckdb_rig_reopen(r);
    duckdb_rig_check(r);
    assert_int_equal(160, duckdb_rig_number(r, "SELECT sum(count) FROM spans_1m"));
}

/* A gap that ended goes after its time, its numbers are folded into the ledger, and its id is never given again. */
static void ended_gaps_are_folded(void **state)
{
    duckdb_rig *r = *state;
    leave_a_gap_at_4(r, "web-1", "s1");
    answer a;
    answer_begin(&a, "s2");
    answer_foreign_run(&a, 1, 9);
    assert_ok_err(duckdb_rig_poll(r, "web-1", 7, &a), &r->err);
    const tide_gap gap = only_gap(r, 1U << TIDE_GAP_PERMANENT);
    virtual_env_advance(&r->clock, 8 * DAY_US);
    assert_int_equal(1, retain(r).gaps);
    duckdb_rig_check(r);
    assert_int_equal(0, duckdb_rig_number(r, "SELECT count(*) FROM sequence_gaps"));
    duckdb_rig_reopen(r);
    duckdb_rig_check(r);
    leave_a_gap_at_4(r, "web-2", "t1");
    assert_true(only_gap(r, 1U << TIDE_GAP_DETECTED).id > gap.id);
}

/* States that are no longer so are removed; what is so stays, and so does history. */
static void superseded_states_are_removed(void **state)
{
    duckdb_rig *r = *state;
    leave_a_gap_at_4(r, "web-1", "s1");
    for (int i = 0; i < 20; i++)
        duckdb_rig_page(r, "web-1", "s1", 8 + i * 10, 17 + i * 10);
    TIDE_CLEANUP(tide_position_done) tide_position before = {0};
    duckdb_rig_load(r, "web-1", "telemetry", &before);
    ((tide_duck_sink *)r->sink)->superseded_max = 5;
    assert_int_equal(0, retain(r).rows);
    char text[512];
    duckdb_rig_text(r, "SELECT event, note, version FROM checkpoint_states ORDER BY version", text,
                    sizeof text);
    assert_string_equal("||22|", text);
    duckdb_rig_check(r);
    duckdb_rig_reopen(r);
    duckdb_rig_check(r);
    TIDE_CLEANUP(tide_position_done) tide_position at = {0};
    duckdb_rig_load(r, "web-1", "telemetry", &at);
    assert_int_equal(before.version, at.version);
    assert_int_equal(before.last_seq, at.last_seq);
    assert_int_equal(4, only_gap(r, 0).start_seq);
}

/* ---- questions ---- */

static void questions_only_read(void **state)
{
    duckdb_rig *r = *state;
    const tide_sink_rows rows = {0};
    const tide_sink_query change = {.sql = "DELETE FROM checkpoint_states"};
    assert_status_err(TIDE_E_DENIED, r->sink->ops->query(r->sink, &change, &rows, &r->err),
                      &r->err);
    const tide_sink_query file = {.sql = "SELECT * FROM read_csv('/etc/passwd')"};
    assert_status_err(TIDE_E_DENIED, r->sink->ops->query(r->sink, &file, &rows, &r->err), &r->err);
    const tide_sink_query two = {.sql = "SELECT 1; SELECT 2"};
    assert_status_err(TIDE_E_INVALID, r->sink->ops->query(r->sink, &two, &rows, &r->err), &r->err);
}

/* A DuckDB file of somebody else is left alone. */
static void a_foreign_database_is_refused(void **state)
{
    duckdb_rig *r = *state;
    char path[TEMPDIR_PATH_MAX];
    tempdir_join(&r->dir, "other.duckdb", path);
    tide_duckdb *db = NULL;
    tide_duck *duck = NULL;
    assert_ok_err(tide_duckdb_open(&db, path, NULL, &r->err), &r->err);
    assert_ok_err(tide_duck_connect(&duck, db, &r->err), &r->err);
    static const tide_sql other = {
        TIDE_SQL_INIT, .name = "other",
        .engine = {[TIDE_ENGINE_POSTGRES] = {.text = "CREATE TABLE mine (a INT)"}}};
    assert_ok_err(tide_duck_run(duck, &other, &r->err), &r->err);
    tide_duck_close(duck);
    tide_duckdb_close(db);
    tide_sink *sink = NULL;
    assert_status_err(TIDE_E_FOREIGN, tide_sink_open_duckdb(&sink, r->store, path, NULL, &r->err),
                      &r->err);
}

static tide_status answer_five_to_nine(void *arg, const char *agent_id, const char *path,
                                       tide_view request, tide_buffer *out, tide_error *err)
{
    (void)arg;
    (void)agent_id;
    (void)path;
    (void)request;
    answer a;
    answer_begin(&a, "s1");
    answer_foreign_run(&a, 5, 9);
    const tide_status status = tide_buffer_append_view(out, answer_bytes(&a));
    answer_done(&a);
    return tide_buffer_check(status, err);
}

/* Rows that somebody deleted are found in the middle and at both ends of what was stored. */
static void deleted_rows_are_stored_again(void **state)
{
    static const char text[] = "DELETE FROM spans_rows WHERE seq_id BETWEEN 5 AND 9";
    duckdb_rig *r = *state;
    const tide_sql sql = {TIDE_SQL_INIT, .name = "tamper",
                          .engine = {{.text = text, .params = NULL, .param_count = 0},
                                     {.text = text, .params = NULL, .param_count = 0}}};
    const tide_repair_options options = {
        .sink = r->sink, .env = &r->clock.env, .ask = answer_five_to_nine};
    duckdb_rig_page(r, "web-1", "s1", 1, 20);
    assert_ok_err(tide_repair(&options, &r->err), &r->err);
    assert_ok_err(tide_duck_run(tide_duck_sink_of(r->sink)->writer, &sql, &r->err), &r->err);
    const int64_t rolled_up = duckdb_rig_number(r, "SELECT sum(count)::BIGINT FROM spans_1m");
    assert_int_equal(15, duckdb_rig_number(r, "SELECT count(*) FROM spans"));
    assert_ok_err(tide_repair(&options, &r->err), &r->err);
    assert_int_equal(20, duckdb_rig_number(r, "SELECT count(DISTINCT seq_id) FROM spans"));
    assert_int_equal(rolled_up, duckdb_rig_number(r, "SELECT sum(count)::BIGINT FROM spans_1m"));
    duckdb_rig_forget(r);
    duckdb_rig_check(r);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, duckdb_rig_setup, duckdb_rig_teardown)

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        CASE(an_unknown_position_is_a_fresh_one),
        CASE(deleted_rows_are_stored_again),
        CASE(deleted_rows_are_stored_again),
        CASE(rows_and_position_survive_together),
        CASE(an_older_version_is_refused),
        CASE(applying_a_change_again_is_refused),
        CASE(a_lost_lease_stores_nothing),
        CASE(a_gap_is_recorded_and_recovered),
        CASE(a_new_session_closes_the_old_one),
        CASE(a_dead_letter_is_kept),
        CASE(a_removed_agent_may_come_again),
        CASE(a_session_that_comes_back_is_opened_again),
        CASE(every_type_has_its_table),
        CASE(a_late_row_is_in_its_minute_once),
        CASE(old_rows_go_and_the_ledger_balances),
        CASE(ended_gaps_are_folded),
        CASE(rows_go_sooner_where_the_sink_says_so),
        CASE(superseded_states_are_removed),
        CASE(questions_only_read),
        CASE(a_foreign_database_is_refused),
    };
    return cmocka_run_group_tests_name("duckdb-sink", tests, NULL, NULL);
}
