/* export_tasks.c - types and tasks go into an export before the checkpoints that need them. */
#include "base/interface/caller.h"
#include "journal/transfer/export_line.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "journal/check.h"
#include "journal/transfer/import_reader.h"
#include "store/statement.h"
#include "tidemark_sql.h"

enum { PAGE = 100 };

typedef struct row_page {
    char after[TIDE_JOURNAL_ID_MAX + 1]; /* the page begins behind it ... */
    char last[TIDE_JOURNAL_ID_MAX + 1];  /* ... and ends here */
    const char *task_id;                 /* NULL: all */
    int64_t head;                        /* of the file */
    tide_buffer lines;                   /* each with its end */
    int count;                           /* rows read */
    int64_t written;
} row_page;

/* The next column as text, or NULL. */
static void put_column(tide_json *json, const char *key, tide_query *query)
{
    const bool is_null = tide_query_col_is_null(query);
    const tide_view text = tide_query_col_text(query);
    tide_json_key(json, key);
    if (is_null)
        tide_json_null(json);
    else
        tide_json_view(json, text);
}

static tide_status end_row(row_page *page, tide_json *json, tide_error *err)
{
    tide_json_object_end(json);
    tide_json_object_end(json);
    tide_status status = tide_json_finish(json);
    if (status >= TIDE_OK)
        status = tide_buffer_append_byte(&page->lines, '\n');
    page->written++;
    return status < TIDE_OK ? tide_export_fail_line(status, err) : TIDE_OK;
}

static void note_last(row_page *page, tide_view id)
{
    tide_view_copy(page->last, sizeof page->last, id);
    page->count++;
}

static tide_status read_types(tide_tx *tx, void *arg, tide_error *err)
{
    row_page *page = arg;
    tide_buffer_clear(&page->lines);
    page->count = 0;
    page->written = 0;
    TIDE_QUERY(query, tx, TIDE_SQL_EXPORT_TYPES, err, tide_bind_text("after", page->after),
               tide_bind_i64("limit", PAGE));
    TIDE_EACH(tide_query_step(query, err)) {
        const tide_view type = tide_query_col_text(query);
        note_last(page, type);
        if (tide_journal_is_builtin(page->last))
            continue;
        tide_json json;
        tide_export_open_record(&json, &page->lines, "type");
        tide_export_put_text(&json, "checkpoint_type", page->last);
        tide_json_key(&json, "is_resumable");
        tide_json_bool(&json, tide_query_col_bool(query));
        put_column(&json, "description", query);
        TIDE_TRY(end_row(page, &json, err));
    }
    return TIDE_OK;
}

static tide_status read_tasks(tide_tx *tx, void *arg, tide_error *err)
{
    row_page *page = arg;
    tide_buffer_clear(&page->lines);
    page->count = 0;
    page->written = 0;
    TIDE_QUERY(query, tx, TIDE_SQL_EXPORT_TASKS, err, tide_bind_text("after", page->after),
               tide_bind_text("task_id", page->task_id), tide_bind_i64("head", page->head),
               tide_bind_i64("limit", PAGE));
    tide_status status = TIDE_OK;
    while ((status = tide_query_step(query, err)) == TIDE_OK) {
        tide_json json;
        const tide_view id = tide_query_col_text(query);
        note_last(page, id);
        tide_export_open_record(&json, &page->lines, "task");
        tide_export_put_text(&json, "task_id", page->last);
        put_column(&json, "title", query);
        put_column(&json, "status", query);
        put_column(&json, "metadata", query);
        const int64_t created_at_us = tide_query_col_time(query);
        tide_export_put_time(&json, "created_at", created_at_us);
        const int64_t completed_at_us = tide_query_col_time(query);
        tide_export_put_time(&json, "completed_at", completed_at_us);
        put_column(&json, "forked_from", query);
        put_column(&json, "fork_point", query);
        tide_export_put_number(&json, "last_sequence", tide_query_col_i64(query));
        TIDE_TRY(end_row(page, &json, err));
    }
    return status < TIDE_OK ? status : TIDE_OK;
}

/* Pages of types or tasks; *written counts them. */
static tide_status write_rows(tide_exporter *e, tide_tx_fn *read, const char *task_id,
                              int64_t *written, tide_error *err)
{
    TIDE_CLEANUP(tide_freep) TIDE_NEW(row_page, page, err);
    page->task_id = task_id;
    page->head = e->counts.head;
    tide_buffer_init(&page->lines, TIDE_EXPORT_LINE_MAX);
    tide_status status = TIDE_OK;
    do {
        status = tide_store_read(e->store, read, page, err);
        if (status >= TIDE_OK && page->lines.len > 0) {
            status = tide_sha256_add(&e->sha, tide_buffer_view(&page->lines), err);
            if (status >= TIDE_OK)
                status =
                    tide_callback_check(e->write(e->arg, tide_buffer_view(&page->lines), err), err);
        }
        *written += page->written;
        memcpy(page->after, page->last, sizeof page->after);
    } while (status >= TIDE_OK && page->count == PAGE);
    tide_buffer_done(&page->lines);
    return status;
}

tide_status tide_export_tasks(tide_exporter *e, tide_error *err)
{
    if (!e->task_id)
        return write_rows(e, read_tasks, NULL, &e->counts.tasks, err);
    for (int i = 0; i < e->lineage.count; i++)
        TIDE_TRY(write_rows(e, read_tasks, e->lineage.segments[i].task_id, &e->counts.tasks, err));
    return TIDE_OK;
}

tide_status tide_export_types(tide_exporter *e, tide_error *err)
{
    int64_t written = 0;
    return write_rows(e, read_types, NULL, &written, err);
}
