/* The sink on SQLite and PostgreSQL: positions, rows, gaps and history in one transaction. */
#include "colony/sink_fixture.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/lease.h>

#include "base/cleanup.h"
#include "store/engine.h"

/* Telemetry document: "GetPollingCheckpoint with no checkpoint (returns 0)". */
static void an_unknown_position_is_fresh(void **state)
{
    store_test *t = *state;
    TIDE_CLEANUP(tide_sink_closep) tide_sink *sink = NULL;
    assert_ok(tide_sink_open_sql(&sink, t->store, &t->err));
    TIDE_CLEANUP(tide_position_done) tide_position at;
    load_position(sink, "a", "telemetry", &at);
    assert_int_equal(0, at.last_seq);
    assert_int_equal(0, at.version);
    assert_string_equal("", at.session_id);
    assert_int_equal(0, check_ledger(sink));
}

/* Telemetry document: "UpdatePollingCheckpoint creates and updates correctly"; its own SELECT reads it. */
static void a_change_creates_and_then_moves_the_position(void **state)
{
    store_test *t = *state;
    TIDE_CLEANUP(tide_sink_closep) tide_sink *sink = NULL;
    assert_ok(tide_sink_open_sql(&sink, t->store, &t->err));
    assert_ok_err(store_spans(sink, "a", 1, 3, &t->err), &t->err);
    assert_int_equal(3, ask_number(sink, "SELECT last_seq_id FROM polling_checkpoints WHERE "
                                         "agent_id = 'a' AND data_type = 'telemetry'"));
    virtual_env_advance(&t->clock, SECOND_US);
    assert_ok_err(store_spans(sink, "a", 4, 10, &t->err), &t->err);
    TIDE_CLEANUP(tide_position_done) tide_position at;
    load_position(sink, "a", "telemetry", &at);
    assert_int_equal(10, at.last_seq);
    assert_int_equal(2, at.version);
    assert_int_equal(10, at.stored);
    assert_int_equal(10, at.head);
    assert_string_equal(SESSION_A, at.session_id);
    assert_true(at.updated_at_us - at.created_at_us == SECOND_US);
    assert_int_equal(10, ask_number(sink, "SELECT count(*) FROM spans WHERE agent_id = 'a' AND "
                                          "session_id = '" SESSION_A "' AND epoch = 1"));
    assert_int_equal(2, ask_number(sink, "SELECT count(*) FROM polling_batches"));
    assert_int_equal(1, check_ledger(sink));
}

/* Telemetry document: "checkpoint persistence across restarts"; holes and points come back too. */
static void a_position_comes_back_after_a_restart(void **state)
{
    store_test *t = *state;
    TIDE_CLEANUP(tide_sink_closep) tide_sink *sink = NULL;
    assert_ok(tide_sink_open_sql(&sink, t->store, &t->err));
    TIDE_CLEANUP(page_done) page p;
    page_init(&p, TIDE_STREAM_TELEMETRY);
    page_spans(&p, 1, 3);
    page_spans(&p, 6, 8);
    page_close(&p);
    TIDE_CLEANUP(tide_position_done) tide_position at;
    load_position(sink, "a", "telemetry", &at);
    TIDE_CLEANUP(tide_change_done) tide_change change;
    change_begin(&change, &at, t->clock.wall_us);
    change_store(&change, &p);
    unsigned char digest[TIDE_FEED_DIGEST_SIZE] = {7, 8, 9};
    tide_position_point(&change.to, 3, digest);
    digest[0] = 1;
    tide_position_point(&change.to, 8, digest);
    change.to.is_foreign = true;
    change.to.next_arrived_ms = 11;
    change.to.head_arrived_ms = 12;
    change.to.agent_now_ms = 13;
    change.to.retention_ms = 14;
    change.to.oldest = 1;
    assert_ok_err(tide_sink_apply(sink, &change, &t->err), &t->err);
    assert_true(change.to.source_id > 0);
    assert_int_equal(1, change.to.version);

    tide_store *again = store_test_open(t);
    TIDE_CLEANUP(tide_sink_closep) tide_sink *other = NULL;
    assert_ok(tide_sink_open_sql(&other, again, &t->err));
    TIDE_CLEANUP(tide_position_done) tide_position back;
    load_position(other, "a", "telemetry", &back);
    assert_int_equal(3, back.last_seq);
    assert_int_equal(8, tide_cursor_highest(&back.cursor));
    assert_int_equal(2, tide_cursor_pending(&back.cursor));
    assert_int_equal(1, back.held_count);
    assert_int_equal(4, back.held[0].numbers.first);
    assert_int_equal(change.to.point_count, back.point_count);
    assert_memory_equal(change.to.points, back.points,
                        (size_t)back.point_count * sizeof back.points[0]);
    assert_true(back.is_foreign);
    assert_int_equal(11, back.next_arrived_ms);
    assert_int_equal(12, back.head_arrived_ms);
    assert_int_equal(13, back.agent_now_ms);
    assert_int_equal(14, back.retention_ms);
    assert_int_equal(change.to.source_id, back.source_id);
    assert_int_equal(8, ask_number(sink, "SELECT last_seq FROM polling_batches"));
    assert_int_equal(1, check_ledger(other));
}

/* What is learnt of an epoch later is kept, for the position and for its source. */
static void an_epochs_id_may_be_learnt_later(void **state)
{
    store_test *t = *state;
    TIDE_CLEANUP(tide_sink_closep) tide_sink *sink = NULL;
    assert_ok(tide_sink_open_sql(&sink, t->store, &t->err));
    assert_ok(store_spans(sink, "a", 1, 1, &t->err));
    TIDE_CLEANUP(tide_position_done) tide_position at;
    load_position(sink, "a", "telemetry", &at);
    assert_string_equal("", at.epoch_id);
    TIDE_CLEANUP(tide_change_done) tide_change change;
    change_begin(&change, &at, t->clock.wall_us);
    (void)snprintf(change.to.epoch_id, sizeof change.to.epoch_id, "%s", SESSION_B);
    assert_ok_err(tide_sink_apply(sink, &change, &t->err), &t->err);
    assert_int_equal(at.source_id, change.to.source_id);
    TIDE_CLEANUP(tide_position_done) tide_position back;
    load_position(sink, "a", "telemetry", &back);
    assert_string_equal(SESSION_B, back.epoch_id);
    assert_ok(store_spans(sink, "a", 2, 2, &t->err));
    assert_int_equal(1, check_ledger(sink));
}

/* Telemetry document: "concurrent checkpoint updates": a slow second colony's older state is refused. */
static void an_older_version_is_refused(void **state)
{
    store_test *t = *state;
    TIDE_CLEANUP(tide_sink_closep) tide_sink *sink = NULL;
    assert_ok(tide_sink_open_sql(&sink, t->store, &t->err));
    assert_ok(store_spans(sink, "a", 1, 3, &t->err));
    TIDE_CLEANUP(tide_position_done) tide_position slow;
    load_position(sink, "a", "telemetry", &slow);
    assert_ok(store_spans(sink, "a", 4, 9, &t->err));

    TIDE_CLEANUP(page_done) page p;
    page_init(&p, TIDE_STREAM_TELEMETRY);
    page_spans(&p, 4, 5);
    page_close(&p);
    TIDE_CLEANUP(tide_change_done) tide_change change;
    change_begin(&change, &slow, t->clock.wall_us);
    change_store(&change, &p);
    assert_status(TIDE_E_CONFLICT, tide_sink_apply(sink, &change, &t->err));
    assert_int_equal(0, change.to.version - slow.version);
    assert_int_equal(9, ask_number(sink, "SELECT last_seq_id FROM polling_checkpoints"));
    assert_int_equal(9, ask_number(sink, "SELECT count(*) FROM spans"));
    assert_int_equal(1, check_ledger(sink));
}

/* Two that begin at once: one of them is first. */
static void a_second_beginning_is_refused(void **state)
{
    store_test *t = *state;
    TIDE_CLEANUP(tide_sink_closep) tide_sink *sink = NULL;
    assert_ok(tide_sink_open_sql(&sink, t->store, &t->err));
    TIDE_CLEANUP(tide_position_done) tide_position fresh;
    load_position(sink, "a", "telemetry", &fresh);
    assert_ok(store_spans(sink, "a", 1, 3, &t->err));
    TIDE_CLEANUP(tide_change_done) tide_change change;
    change_begin(&change, &fresh, t->clock.wall_us);
    assert_status(TIDE_E_CONFLICT, tide_sink_apply(sink, &change, &t->err));
    assert_int_equal(1, check_ledger(sink));
}

/* Outcome unknown. Whoever tries the same change again is refused, and nothing is there twice. */
static void the_same_change_is_never_done_twice(void **state)
{
    store_test *t = *state;
    TIDE_CLEANUP(tide_sink_closep) tide_sink *sink = NULL;
    assert_ok(tide_sink_open_sql(&sink, t->store, &t->err));
    TIDE_CLEANUP(page_done) page p;
    page_init(&p, TIDE_STREAM_TELEMETRY);
    page_spans(&p, 1, 5);
    page_close(&p);
    TIDE_CLEANUP(tide_position_done) tide_position at;
    load_position(sink, "a", "telemetry", &at);
    for (int i = 0; i < 2; i++) {
        TIDE_CLEANUP(tide_change_done) tide_change change;
        change_begin(&change, &at, t->clock.wall_us);
        change_store(&change, &p);
        assert_status(i == 0 ? TIDE_OK : TIDE_E_CONFLICT, tide_sink_apply(sink, &change, &t->err));
    }
    assert_int_equal(5, ask_number(sink, "SELECT count(*) FROM spans"));
    assert_int_equal(5, ask_number(sink, "SELECT count FROM spans_1m"));
}

/* ---- many at once ---- */

enum { APPLIERS = 4, TIMES = 25 };

typedef struct applier {
    store_test *t;
    pthread_t thread;
    int stored;
    int conflicts;
    tide_status status;
} applier;

/* Store the next number of the position, whichever that is by now. */
static tide_status store_next(tide_sink *sink, tide_error *err)
{
    TIDE_CLEANUP(tide_position_done) tide_position at;
    TIDE_TRY(tide_sink_load(sink, "a", "telemetry", &at, err));
    TIDE_CLEANUP(page_done) page p;
    page_init(&p, TIDE_STREAM_TELEMETRY);
    page_spans(&p, at.last_seq + 1, at.last_seq + 1);
    page_close(&p);
    TIDE_CLEANUP(tide_change_done) tide_change change;
    change_begin(&change, &at, sink->env->wall_us(sink->env));
    change_store(&change, &p);
    return tide_sink_apply(sink, &change, err);
}

static void *apply_often(void *arg)
{
    applier *a = arg;
    tide_error err;
    TIDE_CLEANUP(tide_sink_closep) tide_sink *sink = NULL;
    a->status = tide_sink_open_sql(&sink, a->t->store, &err);
    while (a->status == TIDE_OK && a->stored < TIMES) {
        const tide_status status = store_next(sink, &err);
        a->stored += status == TIDE_OK;
        a->conflicts += status == TIDE_E_CONFLICT;
        if (status != TIDE_OK && status != TIDE_E_CONFLICT)
            a->status = status;
    }
    return NULL;
}

/* Telemetry document: "concurrent checkpoint updates". Every number is stored once, whoever came first. */
static void appliers_of_one_position_do_not_lose_or_repeat_anything(void **state)
{
    store_test *t = *state;
    applier appliers[APPLIERS];
    for (int i = 0; i < APPLIERS; i++) {
        appliers[i] = (applier){.t = t};
        assert_int_equal(0, pthread_create(&appliers[i].thread, NULL, apply_often, &appliers[i]));
    }
    for (int i = 0; i < APPLIERS; i++) {
        assert_int_equal(0, pthread_join(appliers[i].thread, NULL));
        assert_ok(appliers[i].status);
    }
    TIDE_CLEANUP(tide_sink_closep) tide_sink *sink = NULL;
    assert_ok(tide_sink_open_sql(&sink, t->store, &t->err));
    assert_int_equal(APPLIERS * TIMES, ask_number(sink, "SELECT count(*) FROM spans"));
    assert_int_equal(APPLIERS * TIMES,
                     ask_number(sink, "SELECT last_seq_id FROM polling_checkpoints"));
    assert_int_equal(APPLIERS * TIMES, ask_number(sink, "SELECT count FROM spans_1m"));
    assert_int_equal(1, check_ledger(sink));
}

/* ---- leases ---- */

typedef struct lease_act {
    bool is_claim;
    tide_lease lease;
} lease_act;

static tide_status act_on_lease(tide_tx *tx, void *arg, tide_error *err)
{
    lease_act *act = arg;
    return tide_lease_claim(tx, "colony/agent/a", "colony", 30 * SECOND_US, &act->lease, err);
}

static tide_status apply_under(tide_sink *sink, const char *name, int64_t token, int64_t first,
                               tide_error *err)
{
    TIDE_CLEANUP(page_done) page p;
    page_init(&p, TIDE_STREAM_TELEMETRY);
    page_spans(&p, first, first);
    page_close(&p);
    TIDE_CLEANUP(tide_position_done) tide_position at;
    load_position(sink, "a", "telemetry", &at);
    TIDE_CLEANUP(tide_change_done) tide_change change;
    change_begin(&change, &at, sink->env->wall_us(sink->env));
    change_store(&change, &p);
    change.lease_name = name;
    change.lease_token = token;
    return tide_sink_apply(sink, &change, err);
}

/* Whoever writes under a lease presents its token; a stalled colony is refused by the store. */
static void a_colony_that_lost_its_lease_is_refused(void **state)
{
    store_test *t = *state;
    TIDE_CLEANUP(tide_sink_closep) tide_sink *sink = NULL;
    assert_ok(tide_sink_open_sql(&sink, t->store, &t->err));
    lease_act first = {0};
    lease_act second = {0};
    assert_ok_err(tide_store_write(t->store, act_on_lease, &first, &t->err), &t->err);
    assert_ok_err(apply_under(sink, "colony/agent/a", first.lease.token, 1, &t->err), &t->err);
    virtual_env_advance(&t->clock, 31 * SECOND_US);
    assert_status(TIDE_E_LEASE_LOST,
                  apply_under(sink, "colony/agent/a", first.lease.token, 2, &t->err));
    assert_ok_err(tide_store_write(t->store, act_on_lease, &second, &t->err), &t->err);
    assert_status(TIDE_E_LEASE_LOST,
                  apply_under(sink, "colony/agent/a", first.lease.token, 2, &t->err));
    assert_ok_err(apply_under(sink, "colony/agent/a", second.lease.token, 2, &t->err), &t->err);
    assert_int_equal(2, ask_number(sink, "SELECT count(*) FROM spans"));
}

/* ---- dead letters, frames, types ---- */

/* What cannot be decoded is kept with its bytes and reason, and the batch settles. */
static void a_dead_letter_is_kept_and_the_cursor_moves(void **state)
{
    store_test *t = *state;
    TIDE_CLEANUP(tide_sink_closep) tide_sink *sink = NULL;
    assert_ok(tide_sink_open_sql(&sink, t->store, &t->err));
    TIDE_CLEANUP(page_done) page p;
    page_init(&p, TIDE_STREAM_TELEMETRY);
    page_spans(&p, 1, 2);
    page_spans(&p, 4, 5);
    page_close(&p);
    TIDE_CLEANUP(tide_position_done) tide_position at;
    load_position(sink, "a", "telemetry", &at);
    TIDE_CLEANUP(tide_change_done) tide_change change;
    change_begin(&change, &at, t->clock.wall_us);
    change_store(&change, &p);
    change.dead = calloc(2, sizeof *change.dead);
    assert_non_null(change.dead);
    change.dead[0] = (tide_dead_letter){
        .seq = 3, .reason = "not a span", .bytes = tide_view_bytes("\x0a\xff\0", 3)};
    change.dead[1] =
        (tide_dead_letter){.seq = 0, .reason = "no number", .bytes = tide_view_of("x")};
    change.dead_count = 2;
    change.to.dead = 1;
    assert_ok(tide_cursor_add(&change.to.cursor, 3, 3, NULL, &t->err));
    change.to.last_seq = 5;
    assert_ok_err(tide_sink_apply(sink, &change, &t->err), &t->err);
    assert_int_equal(5, ask_number(sink, "SELECT last_seq_id FROM polling_checkpoints"));
    assert_int_equal(2, ask_number(sink, "SELECT count(*) FROM dead_letters"));
    assert_int_equal(3, ask_number(sink,
                                   "SELECT octet_length(body) FROM dead_letters WHERE agent_id = "
                                   "'a' AND seq_id = 3 AND reason = 'not a span'"));
    assert_int_equal(1, check_ledger(sink));
}

/* Every type has its table; what an agent says is no reason to fail. */
static void every_type_is_stored_in_its_table(void **state)
{
    store_test *t = *state;
    TIDE_CLEANUP(tide_sink_closep) tide_sink *sink = NULL;
    assert_ok(tide_sink_open_sql(&sink, t->store, &t->err));
    for (int kind = 0; kind < TIDE_STREAM_COUNT; kind++) {
        const tide_colony_type *type = tide_colony_type_of((tide_stream_kind)kind);
        const char *name = kind == TIDE_STREAM_OPAQUE ? "orders" : type->stream->name;
        TIDE_CLEANUP(page_done) page p;
        page_init(&p, (tide_stream_kind)kind);
        for (int64_t seq = 1; seq <= 2; seq++) {
            tide_record_begin(&p.batch);
            if (seq == 2)
                tide_record_i64(&p.batch, type->stream->time_column, INT64_MAX);
            page_end_record(&p, seq);
        }
        page_close(&p);
        TIDE_CLEANUP(tide_position_done) tide_position at;
        load_position(sink, "a", name, &at);
        TIDE_CLEANUP(tide_change_done) tide_change change;
        change_begin(&change, &at, t->clock.wall_us);
        change_store(&change, &p);
        assert_ok_err(tide_sink_apply(sink, &change, &t->err), &t->err);
        char sql[256];
        (void)snprintf(sql, sizeof sql,
                       "SELECT count(*) FROM %s WHERE agent_id = 'a' AND session_id = '%s' AND "
                       "epoch = 1 AND seq_id IN (1, 2)",
                       type->table, SESSION_A);
        assert_int_equal(2, ask_number(sink, sql));
        char time[64];
        (void)snprintf(sql, sizeof sql, "SELECT %s FROM %s WHERE seq_id = 2",
                       type->stream->columns[type->stream->time_column].name, type->table);
        ask_text(sink, sql, time, sizeof time);
        assert_string_equal("9999-12-31 23:59:59.999999", time);
    }
    assert_int_equal(2,
                     ask_number(sink, "SELECT count(*) FROM records WHERE data_type = 'orders'"));
    assert_int_equal(TIDE_STREAM_COUNT, check_ledger(sink));
}

static void values_are_what_the_agent_said(void **state)
{
    store_test *t = *state;
    TIDE_CLEANUP(tide_sink_closep) tide_sink *sink = NULL;
    assert_ok(tide_sink_open_sql(&sink, t->store, &t->err));
    TIDE_CLEANUP(page_done) page p;
    page_init(&p, TIDE_STREAM_CPU_PROFILE);
    const uint64_t ids[] = {1, UINT64_MAX};
    tide_record_begin(&p.batch);
    tide_record_i64(&p.batch, TIDE_CPU_PROFILE_TIMESTAMP, NOON_MS + 1);
    tide_record_u64(&p.batch, TIDE_CPU_PROFILE_STACK_HASH, UINT64_MAX - 1);
    tide_record_ids(&p.batch, TIDE_CPU_PROFILE_STACK_FRAME_IDS, ids, 2);
    tide_record_i64(&p.batch, TIDE_CPU_PROFILE_TGID, -5);
    page_end_record(&p, 1);
    page_close(&p);
    const tide_reply_frame frames[] = {{.id = 1, .name = {.ptr = "main", .len = 4}},
                                       {.id = UINT64_MAX, .name = {.ptr = "a\"b\\\xff", .len = 5}}};
    for (int i = 0; i < 2; i++) { /* frames come again with every page */
        TIDE_CLEANUP(tide_position_done) tide_position at;
        load_position(sink, "a", "cpu_profile", &at);
        TIDE_CLEANUP(tide_change_done) tide_change change;
        change_begin(&change, &at, t->clock.wall_us);
        if (i == 0)
            change_store(&change, &p);
        change.frames = frames;
        change.frame_count = 2;
        assert_ok_err(tide_sink_apply(sink, &change, &t->err), &t->err);
    }
    char text[128];
    ask_text(sink, "SELECT timestamp FROM cpu_profile_samples", text, sizeof text);
    assert_string_equal("2025-01-01 12:00:00.001000", text);
    ask_text(sink, "SELECT stack_hash FROM cpu_profile_samples", text, sizeof text);
    assert_string_equal("18446744073709551614", text);
    ask_text(sink, "SELECT stack_frame_ids FROM cpu_profile_samples", text, sizeof text);
    assert_string_equal("[1,18446744073709551615]", text);
    assert_int_equal(-5, ask_number(sink, "SELECT tgid FROM cpu_profile_samples"));
    ask_text(sink,
             "SELECT frame_name FROM profile_frames WHERE CAST(frame_id AS text) = "
             "'18446744073709551615'",
             text, sizeof text);
    assert_string_equal("a\"b\\\xef\xbf\xbd", text);
    assert_int_equal(2, ask_number(sink, "SELECT count(*) FROM profile_frames"));
}

/* Text that is none must not stop the stream of an agent that we did not write. */
static void text_that_is_none_is_replaced(void **state)
{
    store_test *t = *state;
    TIDE_CLEANUP(tide_sink_closep) tide_sink *sink = NULL;
    assert_ok(tide_sink_open_sql(&sink, t->store, &t->err));
    TIDE_CLEANUP(page_done) page p;
    page_init(&p, TIDE_STREAM_TELEMETRY);
    page_span(&p, 1, 0, "service-name", 1, false);
    page_close(&p);
    char *service = memmem(p.batch.bytes.ptr, p.batch.bytes.len, "service-name", 12);
    assert_non_null(service);
    service[7] = '\xff';
    service[8] = '\0';
    TIDE_CLEANUP(tide_position_done) tide_position at;
    load_position(sink, "a", "telemetry", &at);
    TIDE_CLEANUP(tide_change_done) tide_change change;
    change_begin(&change, &at, t->clock.wall_us);
    change_store(&change, &p);
    assert_ok_err(tide_sink_apply(sink, &change, &t->err), &t->err);
    char text[128];
    ask_text(sink, "SELECT service_name FROM spans", text, sizeof text);
    assert_string_equal("service\xef\xbf\xbd\xef\xbf\xbd"
                        "ame",
                        text);
    ask_text(sink, "SELECT service_name FROM spans_1m", text, sizeof text);
    assert_string_equal("service\xef\xbf\xbd\xef\xbf\xbd"
                        "ame",
                        text);
    ask_text(sink, "SELECT attributes FROM spans", text, sizeof text);
    assert_string_equal("{\"key\":\"va\\\"lue\"}", text);
}

/* Attributes are written in two ways, which give the same JSON: plain ones, and those that need care. */
static void attributes_are_json_whatever_is_in_them(void **state)
{
    store_test *t = *state;
    TIDE_CLEANUP(tide_sink_closep) tide_sink *sink = NULL;
    assert_ok(tide_sink_open_sql(&sink, t->store, &t->err));
    static const struct {
        const char *pairs[6];
        const char *want;
    } cases[] = {
        {{"a", "1", "b/c", ""}, "{\"a\":\"1\",\"b/c\":\"\"}"},
        {{"a", "1", "b", "2", "a", "3"}, "{\"b\":\"2\",\"a\":\"3\"}"},
        {{"", "x y~{}"}, "{\"\":\"x y~{}\"}"},
        {{"q", "\"\\"}, "{\"q\":\"\\\"\\\\\"}"},
        {{"u", "\xc3\xa4"}, "{\"u\":\"\xc3\xa4\"}"},
        {{NULL}, "{}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        TIDE_CLEANUP(page_done) page p;
        page_init(&p, TIDE_STREAM_LOGS);
        tide_record_begin(&p.batch);
        for (int k = 0; k < 6 && cases[i].pairs[k]; k += 2)
            tide_record_pair(&p.batch, TIDE_LOG_ATTRIBUTES, tide_view_of(cases[i].pairs[k]),
                             tide_view_of(cases[i].pairs[k + 1]));
        page_end_record(&p, (int64_t)i + 1);
        page_close(&p);
        TIDE_CLEANUP(tide_position_done) tide_position at;
        load_position(sink, "a", "logs", &at);
        TIDE_CLEANUP(tide_change_done) tide_change change;
        change_begin(&change, &at, t->clock.wall_us);
        change_store(&change, &p);
        assert_ok_err(tide_sink_apply(sink, &change, &t->err), &t->err);
        char sql[64];
        char text[128];
        (void)snprintf(sql, sizeof sql, "SELECT attributes FROM logs WHERE seq_id = %zu", i + 1);
        ask_text(sink, sql, text, sizeof text);
        assert_string_equal(cases[i].want, text);
    }
}

/* One agent's failure is its own. */
static void other_agents_go_on(void **state)
{
    store_test *t = *state;
    TIDE_CLEANUP(tide_sink_closep) tide_sink *sink = NULL;
    assert_ok(tide_sink_open_sql(&sink, t->store, &t->err));
    assert_status(TIDE_E_LEASE_LOST, apply_under(sink, "colony/agent/a", 12345, 1, &t->err));
    assert_ok_err(store_spans(sink, "b", 1, 5, &t->err), &t->err);
    assert_int_equal(5, ask_number(sink, "SELECT count(*) FROM spans"));
    assert_int_equal(1, check_ledger(sink));
}

/* ---- direct SQL ---- */

static tide_status run_script(tide_tx *tx, void *arg, tide_error *err)
{
    return tx->store->ops->script(tx, arg, err);
}

/* Plain SQL moves no checkpoint back, and deletes none. */
static void plain_sql_cannot_move_a_checkpoint(void **state)
{
    store_test *t = *state;
    TIDE_CLEANUP(tide_sink_closep) tide_sink *sink = NULL;
    assert_ok(tide_sink_open_sql(&sink, t->store, &t->err));
    assert_ok(store_spans(sink, "a", 1, 5, &t->err));
    char *const scripts[] = {
        (char[]){"UPDATE polling_checkpoints SET last_seq_id = 0"},
        (char[]){"UPDATE polling_checkpoints SET version = version - 1"},
        (char[]){"DELETE FROM polling_checkpoints"},
        (char[]){"INSERT INTO polling_checkpoints (agent_id, data_type, session_id, last_seq_id) "
                 "VALUES ('z', 'telemetry', 's', 5)"},
        (char[]){"UPDATE sequence_gaps SET status = 'nonsense'; INSERT INTO sequence_gaps "
                 "(agent_id, data_type, start_seq_id, end_seq_id, status) VALUES ('a', "
                 "'telemetry', 1, 1, 'nonsense')"},
    };
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++)
        assert_true(tide_store_write(t->store, run_script, scripts[i], &t->err) < TIDE_OK);
    assert_int_equal(5, ask_number(sink, "SELECT last_seq_id FROM polling_checkpoints"));
    assert_ok_err(store_spans(sink, "a", 6, 7, &t->err), &t->err);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(an_unknown_position_is_fresh),
        STORE_CASE(a_change_creates_and_then_moves_the_position),
        STORE_CASE(a_position_comes_back_after_a_restart),
        STORE_CASE(an_epochs_id_may_be_learnt_later),
        STORE_CASE(an_older_version_is_refused),
        STORE_CASE(a_second_beginning_is_refused),
        STORE_CASE(the_same_change_is_never_done_twice),
        STORE_CASE(appliers_of_one_position_do_not_lose_or_repeat_anything),
        STORE_CASE(a_colony_that_lost_its_lease_is_refused),
        STORE_CASE(a_dead_letter_is_kept_and_the_cursor_moves),
        STORE_CASE(every_type_is_stored_in_its_table),
        STORE_CASE(values_are_what_the_agent_said),
        STORE_CASE(text_that_is_none_is_replaced),
        STORE_CASE(attributes_are_json_whatever_is_in_them),
        STORE_CASE(other_agents_go_on),
        STORE_CASE(plain_sql_cannot_move_a_checkpoint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
