/* A user's question: bounded in rows, bytes and time, and unable to change anything. */
#include <stdlib.h>

#include <inttypes.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/cond_wait.h"
#include "base/lock.h"
#include "base/thread.h"
#include "store/duckdb/duckdb.h"
#include "store/duckdb/duckdb_internal.h"

/* Ends a statement whose time is over: DuckDB has no time-out of its own, and a fetch may take as
 * long as it likes. */
typedef struct watchdog {
    pthread_mutex_t lock;
    pthread_cond_t over;
    pthread_t thread;
    bool is_running;
    bool is_over;  /* the statement has ended */
    bool has_shot; /* it was interrupted */
    int64_t until_us;
    tide_duck *duck;
} watchdog;

static void *watch(void *arg)
{
    watchdog *dog = arg;
    TIDE_HOLD(&dog->lock);
    while (!dog->is_over && tide_cond_wait(&dog->over, &dog->lock, dog->until_us)) {
    }
    while (!dog->is_over) { /* a statement that only begins now forgets it: again and again */
        dog->has_shot = true;
        tide_duck_interrupt(dog->duck);
        (void)!tide_cond_wait(&dog->over, &dog->lock, tide_cond_until(TIDE_DUCK_AGAIN_US));
    }
    return NULL;
}

static tide_status start_watch(watchdog *dog, tide_duck *duck, int64_t timeout_us, tide_error *err)
{
    dog->duck = duck;
    (void)pthread_mutex_init(&dog->lock, NULL);
    (void)pthread_cond_init(&dog->over, NULL);
    dog->until_us = tide_cond_until(timeout_us);
    TIDE_TRY(tide_thread_start(&dog->thread, watch, dog, err));
    dog->is_running = true;
    return TIDE_OK;
}

/* Before the connection goes. */
static void end_watch(watchdog *dog)
{
    if (!dog->duck)
        return;
    if (dog->is_running) {
        (void)pthread_mutex_lock(&dog->lock);
        dog->is_over = true;
        (void)pthread_cond_signal(&dog->over);
        (void)pthread_mutex_unlock(&dog->lock);
        (void)pthread_join(dog->thread, NULL);
        dog->is_running = false;
    }
    (void)pthread_cond_destroy(&dog->over);
    (void)pthread_mutex_destroy(&dog->lock);
    dog->duck = NULL;
}

static tide_status give_columns(const tide_duck_ask *ask, tide_duck_query *query, tide_error *err)
{
    const int count = tide_duck_column_count(query);
    TIDE_CLEANUP(tide_freep) const char **names = calloc((size_t)count + 1, sizeof *names);
    TIDE_NEED_MEMORY(names, err);
    for (int i = 0; i < count; i++)
        names[i] = tide_duck_column_name(query, i);
    return ask->columns(ask->arg, names, count, err);
}

static tide_status give_rows(const tide_duck_ask *ask, tide_duck_query *query, tide_error *err)
{
    tide_status status = tide_duck_query_step(query, err);
    TIDE_TRY(status);
    TIDE_TRY(give_columns(ask, query, err));
    const int count = tide_duck_column_count(query);
    TIDE_CLEANUP(tide_freep) tide_sql_value *cells = calloc((size_t)count + 1, sizeof *cells);
    TIDE_NEED_MEMORY(cells, err);
    int64_t total = 0;
    for (int64_t rows = 0; status == TIDE_OK; rows++) {
        if (rows == ask->row_max)
            return tide_fail(err, TIDE_E_LIMIT, "more than %lld rows", (long long)ask->row_max);
        TIDE_TRY(tide_duck_read_row(query, cells, err));
        for (int i = 0; i < count; i++)
            total += (int64_t)cells[i].bytes.len + 8;
        if (total > ask->bytes_max)
            return tide_fail(err, TIDE_E_LIMIT, "an answer of more than %lld bytes",
                             (long long)ask->bytes_max);
        TIDE_TRY(ask->row(ask->arg, cells, count, err));
        status = tide_duck_query_step(query, err);
    }
    return status < TIDE_OK ? status : TIDE_OK;
}

static tide_status run(const tide_duck_ask *ask, tide_duck *duck, tide_error *err)
{
    TIDE_TRY(tide_duck_begin_read(duck, err));
    TIDE_DUCK_QUERY_BY(query, tide_duck_query_begin_text, duck, ask->text, err);
    return give_rows(ask, query, err);
}

tide_status tide_duckdb_ask(tide_duckdb *db, const tide_duck_ask *ask, tide_error *err)
{
    TIDE_CLEANUP(tide_duck_closep) tide_duck *duck = NULL;
    TIDE_TRY(tide_duck_connect(&duck, db, err));
    TIDE_CLEANUP(end_watch) watchdog dog = {0};
    TIDE_TRY(start_watch(&dog, duck, ask->timeout_us, err));
    const tide_status status = run(ask, duck, err);
    end_watch(&dog);
    if (status < TIDE_OK && tide_duck_cancel_is_raised(db->cancel))
        return tide_fail(err, TIDE_E_INTERRUPTED, "the query was stopped");
    if (status < TIDE_OK &&
        dog.has_shot) /* planning reports an interruption as an error of its own */
        return tide_fail(err, TIDE_E_TIMEOUT, "the query took longer than %lld ms",
                         (long long)(ask->timeout_us / 1000));
    return status;
}

/* ---- one range of one source's rows, as a text that every engine understands ---- */

static tide_status put_literal(tide_buffer *out, const char *text)
{
    TIDE_TRY(tide_buffer_append_byte(out, '\''));
    for (; *text; text++) {
        if (*text == '\'')
            TIDE_TRY(tide_buffer_append_byte(out, '\''));
        TIDE_TRY(tide_buffer_append_byte(out, (uint8_t)*text));
    }
    return tide_buffer_append_byte(out, '\'');
}

tide_status tide_duckdb_range_text(tide_buffer *out, const tide_duckdb_range *range)
{
    TIDE_TRY(tide_buffer_printf(out, "SELECT * FROM %s WHERE agent_id = ", range->table));
    TIDE_TRY(put_literal(out, range->agent_id));
    TIDE_TRY(tide_buffer_append_text(out, " AND session_id = "));
    TIDE_TRY(put_literal(out, range->session_id));
    if (range->data_type) {
        TIDE_TRY(tide_buffer_append_text(out, " AND data_type = "));
        TIDE_TRY(put_literal(out, range->data_type));
    }
    return tide_buffer_printf(out,
                              " AND epoch = %" PRId64 " AND seq_id BETWEEN %" PRId64 " AND %" PRId64
                              " ORDER BY seq_id LIMIT %" PRId64,
                              range->epoch, range->first_seq, range->last_seq, range->limit);
}
