/* Whatever fails, and whenever the process dies: rows and checkpoint together, or neither. */
#include "colony/sink_fixture.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "store/bulk.h"
#include "store/engine.h"
#include "tidemark_sql.h"

/* Calls of a store on its engine are counted; the nth fails, or is the last thing that its process does. */
static struct {
    const tide_engine_ops *real;
    tide_engine_ops ops;
    int calls;
    int fail_at; /* 0: never */
    bool is_deadly;
} fault;

static bool is_hit(void)
{
    if (++fault.calls != fault.fail_at)
        return false;
    if (fault.is_deadly)
        (void)kill(getpid(), SIGKILL);
    return true;
}

static tide_status fail_here(tide_error *err)
{
    return tide_fail(err, TIDE_E_IO, "call %d fails", fault.calls);
}

/* The store's own, for its identity marker: where it fails, no write fails with it. */
static bool is_mark(const tide_query *query)
{
    return query->sql == TIDE_SQL_IDENTITY_MARK;
}

static tide_status faulty_prepare(tide_query *query, tide_error *err)
{
    return is_mark(query) || !is_hit() ? fault.real->prepare(query, err) : fail_here(err);
}

static tide_status faulty_step(tide_query *query, tide_error *err)
{
    return is_mark(query) || !is_hit() ? fault.real->step(query, err) : fail_here(err);
}

static tide_status faulty_bulk_begin(tide_bulk *bulk, tide_error *err)
{
    return is_hit() ? fail_here(err) : fault.real->bulk_begin(bulk, err);
}

static tide_status faulty_bulk_row(tide_bulk *bulk, const tide_sql_value *values, tide_error *err)
{
    return is_hit() ? fail_here(err) : fault.real->bulk_row(bulk, values, err);
}

static tide_status faulty_bulk_end(tide_bulk *bulk, bool is_kept, tide_error *err)
{
    const bool is_failing = is_kept && is_hit();
    const tide_status status = fault.real->bulk_end(bulk, is_kept && !is_failing, err);
    return is_failing ? fail_here(err) : status;
}

static void arm(tide_store *store, int fail_at, bool is_deadly)
{
    if (store->ops != &fault.ops) {
        fault.real = store->ops;
        fault.ops = *store->ops;
        fault.ops.prepare = faulty_prepare;
        fault.ops.step = faulty_step;
        fault.ops.bulk_begin = faulty_bulk_begin;
        fault.ops.bulk_row = faulty_bulk_row;
        fault.ops.bulk_end = faulty_bulk_end;
        store->ops = &fault.ops;
    }
    fault.calls = 0;
    fault.fail_at = fail_at;
    fault.is_deadly = is_deadly;
}

static void disarm(tide_store *store)
{
    store->ops = fault.real;
    fault.fail_at = 0;
}

/* A change with everything in it: rows, a dead letter, gaps of all kinds, a note, frames. */
static tide_status apply_all(tide_sink *sink, tide_error *err)
{
    TIDE_CLEANUP(page_done) page p;
    page_init(&p, TIDE_STREAM_TELEMETRY);
    page_spans(&p, 11, 13);
    page_close(&p);
    TIDE_CLEANUP(tide_position_done) tide_position at;
    TIDE_TRY(tide_sink_load(sink, "a", "telemetry", &at, err));
    TIDE_CLEANUP(tide_gap_list_done) tide_gap_list gaps;
    TIDE_TRY(tide_sink_gaps_in(sink, &at, 1, 100, &gaps, err));
    TIDE_CLEANUP(tide_change_done) tide_change change;
    change_begin(&change, &at, sink->env->wall_us(sink->env));
    change_store(&change, &p);
    for (int i = 0; i < gaps.count; i++) {
        tide_gap *known = change_known_gap(&change, &gaps.gaps[i]);
        known->status = TIDE_GAP_VOID;
        known->settled_at_us = at.updated_at_us;
    }
    (void)change_gap(&change, 14, 15, TIDE_GAP_DETECTED);
    tide_dead_letter letter = {.seq = 16, .reason = "bad", .bytes = tide_view_of("x")};
    change.dead = malloc(sizeof letter);
    assert_non_null(change.dead);
    change.dead[0] = letter;
    change.dead_count = 1;
    change.to.dead = 1;
    assert_ok(tide_cursor_add(&change.to.cursor, 16, 16, NULL, err));
    change.to.head = change.to.last_seq = 16;
    const tide_reply_frame frame = {.id = 1, .name = tide_view_of("main")};
    change.frames = &frame;
    change.frame_count = 1;
    (void)snprintf(change.note, sizeof change.note, "for a reason");
    return tide_sink_apply(sink, &change, err);
}

static void prepare_position(tide_sink *sink, tide_error *err)
{
    TIDE_CLEANUP(tide_position_done) tide_position at;
    load_position(sink, "a", "telemetry", &at);
    TIDE_CLEANUP(tide_change_done) tide_change change;
    change_begin(&change, &at, sink->env->wall_us(sink->env));
    (void)change_gap(&change, 1, 10, TIDE_GAP_DETECTED);
    assert_ok_err(tide_sink_apply(sink, &change, err), err);
}

static void assert_untouched(tide_sink *sink)
{
    assert_int_equal(1, check_ledger(sink));
    assert_int_equal(1, ask_number(sink, "SELECT version FROM polling_checkpoints"));
    assert_int_equal(10, ask_number(sink, "SELECT last_seq_id FROM polling_checkpoints"));
    assert_int_equal(0, ask_number(sink, "SELECT count(*) FROM spans"));
    assert_int_equal(0, ask_number(sink, "SELECT count(*) FROM dead_letters"));
    assert_int_equal(0, ask_number(sink, "SELECT count(*) FROM polling_batches"));
    assert_int_equal(0, ask_number(sink, "SELECT count(*) FROM rollup_buckets"));
    assert_int_equal(0, ask_number(sink, "SELECT count(*) FROM profile_frames"));
    assert_int_equal(0, ask_number(sink, "SELECT count(*) FROM polling_checkpoint_history"));
    assert_int_equal(1, ask_number(sink, "SELECT count(*) FROM sequence_gaps"));
    assert_int_equal(
        1, ask_number(sink, "SELECT count(*) FROM sequence_gaps WHERE status = 'detected'"));
}

static void assert_done_once(tide_sink *sink)
{
    assert_int_equal(1, check_ledger(sink));
    assert_int_equal(2, ask_number(sink, "SELECT version FROM polling_checkpoints"));
    assert_int_equal(16, ask_number(sink, "SELECT last_seq_id FROM polling_checkpoints"));
    assert_int_equal(3, ask_number(sink, "SELECT count(*) FROM spans"));
    assert_int_equal(1, ask_number(sink, "SELECT count(*) FROM dead_letters"));
    assert_int_equal(1, ask_number(sink, "SELECT count(*) FROM polling_batches"));
    assert_int_equal(3, ask_number(sink, "SELECT count FROM spans_1m"));
    assert_int_equal(1, ask_number(sink, "SELECT count(*) FROM profile_frames"));
    assert_int_equal(1, ask_number(sink, "SELECT count(*) FROM polling_checkpoint_history"));
    assert_int_equal(2, ask_number(sink, "SELECT count(*) FROM sequence_gaps"));
}

static void any_statement_that_fails_leaves_everything_as_it_was(void **state)
{
    store_test *t = *state;
    TIDE_CLEANUP(tide_sink_closep) tide_sink *sink = NULL;
    assert_ok(tide_sink_open_sql(&sink, t->store, &t->err));
    prepare_position(sink, &t->err);
    int failures = 0;
    for (int nth = 1;; nth++) {
        arm(t->store, nth, false);
        const tide_status status = apply_all(sink, &t->err);
        const bool is_over = fault.calls < nth;
        disarm(t->store);
        if (is_over) {
            assert_ok_err(status, &t->err);
            break;
        }
        assert_status(TIDE_E_IO, status);
        assert_untouched(sink);
        failures++;
    }
    assert_true(failures > 10);
    assert_done_once(sink);
}

/* The process is killed at any call: the next one finds the position as it was, and does it once. */
static void a_process_killed_at_any_statement_leaves_everything_as_it_was(void **state)
{
    store_test *t = *state;
    TIDE_CLEANUP(tide_sink_closep) tide_sink *sink = NULL;
    assert_ok(tide_sink_open_sql(&sink, t->store, &t->err));
    prepare_position(sink, &t->err);
    int deaths = 0;
    for (int nth = 5;; nth += 3) {
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            tide_error err;
            tide_store *own = NULL;
            tide_sink *its = NULL;
            const tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .env = tide_env_system(),
                                                .state_dir = ""};
            if (tide_store_open(&own, t->url, &options, &err) < TIDE_OK ||
                tide_sink_open_sql(&its, own, &err) < TIDE_OK)
                _exit(3);
            arm(own, nth, true);
            _exit(apply_all(its, &err) == TIDE_OK ? 0 : 4);
        }
        int how = 0;
        assert_int_equal(child, waitpid(child, &how, 0));
        if (WIFEXITED(how)) {
            assert_int_equal(0, WEXITSTATUS(how));
            break;
        }
        assert_int_equal(SIGKILL, WTERMSIG(how));
        assert_untouched(sink);
        deaths++;
    }
    assert_true(deaths > 3);
    assert_done_once(sink);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(any_statement_that_fails_leaves_everything_as_it_was),
        STORE_CASE(a_process_killed_at_any_statement_leaves_everything_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
