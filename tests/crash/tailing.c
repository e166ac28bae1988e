#include "crash/tailing.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "support/history.h"
#include "test_sql.h"

enum { PAGE = 200, POLL_US = 300 };

typedef struct page {
    int64_t after;
    int64_t count;
    seen_row rows[PAGE];
} page;

void seen_rows_done(seen_rows *seen)
{
    free(seen->rows);
    *seen = (seen_rows){0};
}

static tide_status read_page(tide_tx *tx, void *arg, tide_error *err)
{
    page *p = arg;
    p->count = 0; /* the closure may run again */
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TEST_SQL_NUMBERED_TAIL, err));
    tide_query_bind_i64(query, "after", p->after);
    tide_query_bind_i64(query, "limit", PAGE);
    tide_status status = TIDE_OK;
    while ((status = tide_query_step(query, err)) == TIDE_OK) {
        seen_row *row = &p->rows[p->count++];
        row->seq_id = tide_query_col_i64(query);
        const tide_view writer = tide_query_col_text(query);
        (void)snprintf(row->writer, sizeof row->writer, "%.*s", (int)writer.len, writer.ptr);
        row->n = tide_query_col_i64(query);
        row->at_us = tide_query_col_time(query);
    }
    return status < TIDE_OK ? status : TIDE_OK;
}

static tide_status append(seen_rows *seen, const seen_row *row, tide_error *err)
{
    const int64_t expected = (int64_t)seen->len + 1;
    if (row->seq_id != expected)
        return tide_fail(err, TIDE_E_DAMAGED,
                         "after %" PRId64 " comes %" PRId64 " (%s %" PRId64
                         "): numbers were skipped",
                         expected - 1, row->seq_id, row->writer, row->n);
    if (seen->len > 0 && row->at_us < seen->rows[seen->len - 1].at_us)
        return tide_fail(err, TIDE_E_DAMAGED,
                         "the time beside %" PRId64 " is before that of %" PRId64, row->seq_id,
                         row->seq_id - 1);
    if (row->n < 0)
        return tide_fail(err, TIDE_E_DAMAGED, "%s %" PRId64 " was rolled back and is there",
                         row->writer, row->n);
    if (seen->len == seen->capacity) {
        seen->capacity = seen->capacity ? 2 * seen->capacity : 4096;
        seen->rows = reallocarray(seen->rows, seen->capacity, sizeof *seen->rows);
        assert(seen->rows);
    }
    seen->rows[seen->len++] = *row;
    return TIDE_OK;
}

tide_status seen_rows_read(seen_rows *seen, tide_store *store, tide_error *err)
{
    page p = {.after = (int64_t)seen->len};
    TIDE_TRY(tide_store_read(store, read_page, &p, err));
    for (int64_t i = 0; i < p.count; i++)
        TIDE_TRY(append(seen, &p.rows[i], err));
    return p.count > 0 ? TIDE_OK : TIDE_NONE;
}

/* ---- histories ---- */

/* A page: what lies above `after` of the rows that are there now. */
static void write_page(const tailer *t, int64_t begin_ns, size_t after)
{
    const seen_rows *seen = &t->seen;
    int64_t numbers[PAGE];
    char texts[PAGE][TAKEN_VALUE_SIZE];
    const char *values[PAGE];
    size_t count = 0;
    for (size_t i = after; i < seen->len; i++, count++) {
        numbers[count] = seen->rows[i].seq_id;
        taken_value(texts[count], seen->rows[i].writer, seen->rows[i].n);
        values[count] = texts[count];
    }
    history_line line;
    history_begin_at(&line, "tailer", "read", begin_ns);
    history_text(&line, "sequence", "numbered");
    history_number(&line, "after", (int64_t)after);
    history_numbers(&line, "numbers", numbers, count);
    history_texts(&line, "values", values, count);
    history_flag(&line, "more", count == PAGE);
    history_end(&line, t->history, HISTORY_OK);
}

void seen_rows_write(const seen_rows *table, int history)
{
    history_line line;
    for (size_t i = 0; i < table->len; i++) {
        const seen_row *row = &table->rows[i];
        char value[TAKEN_VALUE_SIZE];
        taken_value(value, row->writer, row->n);
        history_begin(&line, "end", "row");
        history_text(&line, "sequence", "numbered");
        history_number(&line, "number", row->seq_id);
        history_text(&line, "value", value);
        history_number(&line, "at", row->at_us);
        history_end(&line, history, HISTORY_OK);
    }
    history_begin(&line, "end", "rows");
    history_text(&line, "sequence", "numbered");
    history_number(&line, "count", (int64_t)table->len);
    history_end(&line, history, HISTORY_OK);
}

/* ---- the tailer ---- */

static tide_status read_and_write(tailer *t)
{
    const int64_t begin_ns = history_now_ns();
    const size_t after = t->seen.len;
    const tide_status status = seen_rows_read(&t->seen, t->store, &t->err);
    if (status >= TIDE_OK && t->history > 0)
        write_page(t, begin_ns, after);
    return status;
}

static void *run_tailer(void *arg)
{
    tailer *t = arg;
    tide_env *env = tide_env_system();
    bool is_last_round = false;
    while (!is_last_round) {
        is_last_round = atomic_load(&t->stop);
        tide_status status = read_and_write(t);
        while (status == TIDE_OK) {
            atomic_store(&t->position, (long long)t->seen.len);
            status = read_and_write(t);
        }
        if (status < TIDE_OK && !(t->is_server_mortal && status == TIDE_E_UNAVAILABLE)) {
            t->status = status;
            return NULL;
        }
        if (!is_last_round)
            env->sleep_us(env, POLL_US);
    }
    return NULL;
}

void tailer_start(tailer *t, tide_store *store, bool is_server_mortal, int history)
{
    *t = (tailer){.store = store, .is_server_mortal = is_server_mortal, .history = history};
    const int started = pthread_create(&t->thread, NULL, run_tailer, t);
    assert(started == 0);
    (void)started;
}

tide_status tailer_finish(tailer *t, tide_error *err)
{
    atomic_store(&t->stop, true);
    (void)pthread_join(t->thread, NULL);
    if (t->status < TIDE_OK)
        *err = t->err;
    return t->status;
}

void tailer_done(tailer *t)
{
    seen_rows_done(&t->seen);
}

/* ---- the checks ---- */

static int compare_rows(const void *a, const void *b)
{
    const seen_row *x = *(seen_row *const *)a;
    const seen_row *y = *(seen_row *const *)b;
    const int writers = strcmp(x->writer, y->writer);
    return writers != 0 ? writers : (x->n > y->n) - (x->n < y->n);
}

/* The rows by (writer, n). */
static seen_row **make_index(const seen_rows *table)
{
    seen_row **index = calloc(table->len + 1, sizeof(seen_row *));
    assert(index);
    for (size_t i = 0; i < table->len; i++)
        index[i] = &table->rows[i];
    qsort(index, table->len, sizeof(seen_row *), compare_rows);
    return index;
}

static bool explain(char why[WHY_SIZE], const taken *row, const char *writer, const char *words)
{
    (void)snprintf(why, WHY_SIZE, "%s %" PRId64 " (number %" PRId64 "): %s", writer, row->n,
                   row->seq_id, words);
    return false;
}

static bool check_promise(const taken *row, seen_row *const *index, size_t count,
                          char why[WHY_SIZE])
{
    seen_row wanted = {.n = row->n};
    taken_writer(wanted.writer, row);
    const seen_row *key = &wanted;
    seen_row *const *found = bsearch(&key, index, count, sizeof(seen_row *), compare_rows);
    if (row->fate == TAKEN_STORED && !found)
        return explain(why, row, wanted.writer, "acknowledged, and not there");
    if (row->fate == TAKEN_STORED && row->seq_id != 0 && (*found)->seq_id != row->seq_id)
        return explain(why, row, wanted.writer, "acknowledged under another number");
    if (row->fate == TAKEN_FAILED && found)
        return explain(why, row, wanted.writer, "said to have failed, and is there");
    return true;
}

bool check_promises(const ack_journal *journal, const seen_rows *table, char why[WHY_SIZE])
{
    seen_row **index = make_index(table);
    bool is_kept = true;
    for (size_t i = 1; is_kept && i < table->len; i++)
        if (compare_rows(&index[i - 1], &index[i]) == 0) {
            (void)snprintf(why, WHY_SIZE, "%s %" PRId64 " is there twice", index[i]->writer,
                           index[i]->n);
            is_kept = false;
        }
    for (size_t i = 0; is_kept && i < journal->len; i++) {
        taken row;
        int64_t fields[TAKEN_FIELDS];
        tide_error err;
        if (ack_numbers(&journal->acks[i], fields, TAKEN_FIELDS, &err) < TIDE_OK) {
            (void)snprintf(why, WHY_SIZE, "%.200s", err.text);
            is_kept = false;
            break;
        }
        memcpy(&row, fields, sizeof row);
        is_kept = check_promise(&row, index, table->len, why);
    }
    free(index);
    return is_kept;
}
