#include "crash/taking.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "support/history.h"
#include "support/prng.h"
#include "test_sql.h"

enum { HASTY_PAUSE_US = 2000 }; /* long enough to be killed in */

typedef struct request {
    char writer[WRITER_NAME_SIZE];
    int64_t n; /* of the first row; the others follow */
    int64_t count;
    bool is_settled;
    bool is_given_up;
    tide_sequence_range range;
} request;

void taken_writer(char out[WRITER_NAME_SIZE], const taken *row)
{
    (void)snprintf(out, WRITER_NAME_SIZE, "w%" PRId64 ".%" PRId64 ".%" PRId64, row->cycle,
                   row->child, row->thread);
}

size_t taken_format(char out[TAKEN_LINE_MAX], const taken *row)
{
    return (size_t)snprintf(out, TAKEN_LINE_MAX,
                            "ack %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64
                            " %" PRId64 "\n",
                            row->cycle, row->child, row->thread, row->n, row->fate, row->seq_id);
}

static int64_t row_n(const request *r, int64_t index)
{
    return r->is_given_up ? -(r->n + index) : r->n + index;
}

static tide_status add_rows(tide_tx *tx, void *arg, tide_error *err)
{
    request *r = arg;
    TIDE_TRY(tide_sequence_declare(tx, "numbered", r->count, &r->range, err));
    if (r->is_settled)
        TIDE_TRY(tide_tx_take_counters(tx, err));
    for (int64_t i = 0; i < r->count; i++) {
        TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
        TIDE_TRY(tide_query_begin(&query, tx, TEST_SQL_NUMBERED_ADD, err));
        tide_query_bind_text(query, "sequence", "numbered");
        tide_query_bind_text(query, "writer", r->writer);
        tide_query_bind_i64(query, "n", row_n(r, i));
        tide_query_bind_i64(query, "back", r->count - 1 - i);
        if (r->is_settled)
            TIDE_TRY(tide_query_run(query, NULL, err));
        else
            TIDE_TRY(tide_query_defer(&query, err));
    }
    if (r->is_given_up)
        return tide_fail(err, TIDE_E_CONFLICT, "this closure changed its mind");
    return TIDE_OK;
}

static void report_rows(const taker *t, const request *r, taken_fate fate, bool is_number_known)
{
    for (int64_t i = 0; i < r->count; i++) {
        const taken row = {
            .cycle = t->cycle,
            .child = t->child,
            .thread = t->thread,
            .n = row_n(r, i),
            .fate = (int64_t)fate,
            .seq_id = is_number_known ? r->range.first + i : 0,
        };
        t->report(t, &row);
    }
}

void taken_value(char out[TAKEN_VALUE_SIZE], const char *writer, int64_t n)
{
    (void)snprintf(out, TAKEN_VALUE_SIZE, "%s %" PRId64, writer, n);
}

static void begin_line(history_line *line, const request *r, int64_t index, int64_t begin_ns)
{
    char value[TAKEN_VALUE_SIZE];
    taken_value(value, r->writer, row_n(r, index));
    history_begin_at(line, r->writer, "take", begin_ns);
    history_text(line, "sequence", "numbered");
    history_text(line, "value", value);
}

static int64_t announce_rows(const taker *t, const request *r)
{
    const int64_t begin_ns = history_now_ns();
    for (int64_t i = 0; t->history > 0 && i < r->count; i++) {
        history_line line;
        begin_line(&line, r, i, begin_ns);
        history_announce(&line, t->history);
    }
    return begin_ns;
}

static void write_outcome(const taker *t, const request *r, int64_t begin_ns, history_result result,
                          bool is_number_known)
{
    const int64_t end_ns = history_now_ns();
    for (int64_t i = 0; t->history > 0 && i < r->count; i++) {
        history_line line;
        begin_line(&line, r, i, begin_ns);
        if (is_number_known)
            history_number(&line, "number", r->range.first + i);
        history_end_at(&line, t->history, result, end_ns);
    }
}

/* A closure that failed, or a store that is away, wrote nothing. */
static history_result result_of(tide_status status)
{
    if (status == TIDE_OK)
        return HISTORY_OK;
    return status == TIDE_E_CONFLICT || status == TIDE_E_UNAVAILABLE ? HISTORY_FAIL
                                                                     : HISTORY_UNKNOWN;
}

static tide_status take_once(const taker *t, request *r, tide_error *err)
{
    const int64_t begin_ns = announce_rows(t, r);
    if (t->is_hasty) {
        tide_env *env = tide_store_env(t->store);
        write_outcome(t, r, begin_ns, HISTORY_OK, false);
        report_rows(t, r, TAKEN_STORED, false);
        env->sleep_us(env, HASTY_PAUSE_US);
    }
    const tide_status status = tide_store_write(t->store, add_rows, r, err);
    if (t->is_hasty)
        return TIDE_OK;
    write_outcome(t, r, begin_ns, result_of(status), status == TIDE_OK);
    if (status == TIDE_OK && !r->is_given_up) {
        report_rows(t, r, TAKEN_STORED, true);
        return TIDE_OK;
    }
    if (status == TIDE_E_CONFLICT && r->is_given_up)
        return TIDE_OK;
    if (t->is_server_mortal && status == TIDE_E_OUTCOME_UNKNOWN) {
        report_rows(t, r, TAKEN_UNKNOWN, false);
        return TIDE_OK;
    }
    if (t->is_server_mortal && status == TIDE_E_UNAVAILABLE) {
        report_rows(t, r, TAKEN_FAILED, false);
        return TIDE_OK;
    }
    return status == TIDE_OK ? tide_fail(err, TIDE_E_FAILED, "a closure that gave up was committed")
                             : tide_fail_context(err, status, "%s %" PRId64, r->writer, r->n);
}

tide_status taker_run(const taker *t, tide_error *err)
{
    prng chance;
    prng_init(&chance,
              t->seed * 1000003 + (uint64_t)(t->cycle * 10007 + t->child * 101 + t->thread));
    request r = {.n = 1, .count = 1};
    const taken self = {.cycle = t->cycle, .child = t->child, .thread = t->thread};
    taken_writer(r.writer, &self);
    while (!atomic_load(t->stop)) {
        r.count =
            prng_chance(&chance, 1, 5) ? 2 + (int64_t)prng_below(&chance, TAKER_ROWS_MAX - 1) : 1;
        r.is_settled = prng_chance(&chance, 1, 6);
        r.is_given_up = !t->is_hasty && prng_chance(&chance, 1, 6);
        TIDE_TRY(take_once(t, &r, err));
        r.n += r.count;
    }
    return TIDE_OK;
}
