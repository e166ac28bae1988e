/* import_stage.c - records of a file go into the staging tables, in bounded transactions. */
#include <stdlib.h>

#include <tidemark/sequence.h>

#include "base/cleanup.h"
#include "base/text/json.h"
#include "journal/page.h"
#include "journal/transfer/export_line.h"
#include "journal/transfer/import_run.h"
#include "store/statement.h"
#include "tidemark_sql.h"

/* ---- batches ---- */

tide_import_batch *tide_import_batch_new(tide_import_run *run)
{
    tide_import_batch *batch = calloc(1, sizeof *batch);
    if (!batch)
        return NULL;
    batch->run = run;
    tide_arena_init(&batch->arena, TIDE_IMPORT_ROOM_MAX);
    return batch;
}

static void empty(tide_import_batch *batch)
{
    for (int i = 0; i < batch->count; i++)
        tide_snapshot_done(&batch->snapshots[i]);
    batch->count = 0;
    tide_arena_reset(&batch->arena);
}

void tide_import_batch_freep(tide_import_batch **batch)
{
    if (!*batch)
        return;
    empty(*batch);
    tide_arena_done(&(*batch)->arena);
    free(*batch);
    *batch = NULL;
}

bool tide_import_batch_is_full(const tide_import_batch *batch)
{
    return batch->count == TIDE_IMPORT_BATCH_MAX || batch->arena.used_len >= TIDE_IMPORT_BATCH_LEN;
}

/* ---- the run ---- */

tide_status tide_import_run_begin(tide_import_run *run, tide_error *err)
{
    tide_sequence_range range = {0};
    TIDE_TRY(tide_sequence_next(run->store, "journal/imports", 1, &range, NULL, err));
    run->import_id = range.first;
    return tide_store_exec(run->store, TIDE_SQL_IMPORT_RUN_ADD, NULL, err,
                           tide_bind_i64("import_id", run->import_id), tide_bind_now("now"));
}

static tide_status touch(const tide_import_run *run, tide_tx *tx, int64_t *now_us, tide_error *err)
{
    TIDE_TRY(tide_tx_now(tx, now_us, err));
    TIDE_QUERY(query, tx, TIDE_SQL_IMPORT_RUN_TOUCH, err,
               tide_bind_i64("import_id", run->import_id), tide_bind_time("now", *now_us));
    int64_t changed = 0;
    TIDE_TRY(tide_query_run(query, &changed, err));
    if (changed != 1)
        return tide_fail(err, TIDE_E_CONFLICT,
                         "the import was silent for too long and was cleaned away; start again");
    return TIDE_OK;
}

/* ---- records ---- */

static tide_status defer_type(const tide_import_run *run, const tide_import_type *type, tide_tx *tx,
                              tide_error *err)
{
    return tide_tx_defer(
        tx, TIDE_SQL_IMPORT_STAGE_TYPE, err, tide_bind_i64("import_id", run->import_id),
        tide_bind_text("type", type->type), tide_bind_bool("is_resumable", type->is_resumable),
        tide_bind_text("description", type->description));
}

static tide_status defer_task(const tide_import_run *run, const tide_import_task *task,
                              int64_t now_us, tide_tx *tx, tide_error *err)
{
    return tide_tx_defer(
        tx, TIDE_SQL_IMPORT_STAGE_TASK, err, tide_bind_i64("import_id", run->import_id),
        tide_bind_text("task_id", task->task_id), tide_bind_text("title", task->title),
        tide_bind_text("status", task->status), tide_bind_text("metadata", task->metadata),
        tide_bind_time("created_at", task->created_at_us != 0 ? task->created_at_us : now_us),
        TIDE_BIND_IF(task->completed_at_us != 0,
                     tide_bind_time("completed_at", task->completed_at_us)),
        tide_bind_text("forked_from", task->forked_from),
        tide_bind_text("fork_point", task->fork_point),
        tide_bind_i64("last_sequence", task->last_sequence));
}

/* The older document has no tasks: a session is one. */
static tide_status defer_session(const tide_import_run *run,
                                 const tide_import_checkpoint *checkpoint, int64_t now_us,
                                 tide_tx *tx, tide_error *err)
{
    const tide_import_task task = {.task_id = checkpoint->fields.task_id,
                                   .title = checkpoint->fields.task_id,
                                   .status = "pending",
                                   .created_at_us = checkpoint->created_at_us};
    return defer_task(run, &task, now_us, tx, err);
}

static void bind_tags(tide_query *query, const tide_checksum_fields *fields, tide_buffer *list,
                      tide_status *status)
{
    if (fields->tag_count == 0)
        return;
    tide_json json;
    tide_json_init(&json, list);
    tide_json_array_begin(&json);
    for (int i = 0; i < fields->tag_count; i++)
        tide_json_text(&json, fields->tags[i]);
    tide_json_array_end(&json);
    *status = tide_json_finish(&json);
    tide_query_bind_text_view(query, "tags", tide_buffer_view(list));
}

static tide_status defer_row(const tide_import_run *run, const tide_import_checkpoint *row,
                             const tide_snapshot *snapshot, int64_t ordinal, tide_tx *tx,
                             tide_error *err)
{
    TIDE_QUERY(
        query, tx, TIDE_SQL_IMPORT_STAGE_ROW, err, tide_bind_i64("import_id", run->import_id),
        tide_bind_i64("ordinal", ordinal), tide_bind_i64("source_global", row->global_sequence),
        tide_bind_i64("source_number", row->sequence_number),
        tide_bind_text("checkpoint_id", row->fields.checkpoint_id),
        tide_bind_text("task_id", row->fields.task_id),
        tide_bind_text("work_item_id", row->fields.work_item_id),
        tide_bind_text("type", row->fields.type),
        tide_bind_view("snapshot", tide_snapshot_row_text(snapshot)),
        tide_bind_text("metadata", row->fields.metadata),
        TIDE_BIND_IF(row->created_at_us != 0, tide_bind_time("created_at", row->created_at_us)),
        tide_bind_text("message", row->fields.message),
        tide_bind_text("trigger", row->fields.trigger),
        tide_bind_i64("snapshot_len", (int64_t)row->fields.snapshot.len),
        tide_bind_i64("chunk_count", snapshot->count),
        tide_bind_blob("checksum",
                       tide_view_bytes(row->checksum.bytes, sizeof row->checksum.bytes)),
        tide_bind_text("origin_session", row->origin_session),
        tide_bind_i64("origin_global", row->origin_global),
        tide_bind_i64("origin_number", row->origin_number),
        tide_bind_text("annotations", row->annotations));
    TIDE_BUFFER(list, TIDE_IMPORT_TAGS_MAX * (TIDE_JOURNAL_TAG_MAX * 6 + 4));
    tide_status status = TIDE_OK;
    bind_tags(query, &row->fields, &list, &status);
    TIDE_TRY(tide_buffer_check(status, err));
    return tide_query_defer(&query, err);
}

static tide_status defer_chunks(const tide_import_run *run, const tide_snapshot *snapshot,
                                int64_t ordinal, tide_tx *tx, tide_error *err)
{
    if (snapshot->count == 0)
        return TIDE_OK;
    TIDE_TRY(tide_tx_defer(
        tx, TIDE_SQL_IMPORT_STAGE_CHUNKS, err, tide_bind_i64("import_id", run->import_id),
        tide_bind_i64("ordinal", ordinal), tide_bind_i64("count", snapshot->count),
        tide_bind_blob("digests", tide_snapshot_digests(snapshot))));
    return tide_tx_defer(tx, TIDE_SQL_IMPORT_STAGE_CANDIDATES, err,
                         tide_bind_i64("import_id", run->import_id),
                         tide_bind_i64("ordinal", ordinal));
}

static tide_status stage_checkpoint(tide_import_batch *batch, int index, int64_t ordinal,
                                    int64_t now_us, tide_tx *tx, tide_error *err)
{
    const tide_import_run *run = batch->run;
    const tide_import_checkpoint *checkpoint = &batch->records[index].as.checkpoint;
    tide_snapshot *snapshot = &batch->snapshots[index];
    TIDE_TRY(tide_snapshot_store(snapshot, tx, err));
    if (run->is_legacy)
        TIDE_TRY(defer_session(run, checkpoint, now_us, tx, err));
    TIDE_TRY(defer_row(run, checkpoint, snapshot, ordinal, tx, err));
    return defer_chunks(run, snapshot, ordinal, tx, err);
}

static tide_status stage(tide_tx *tx, void *arg, tide_error *err)
{
    tide_import_batch *batch = arg;
    const tide_import_run *run = batch->run;
    int64_t now_us = 0;
    TIDE_TRY(touch(run, tx, &now_us, err));
    int64_t ordinal = run->checkpoints;
    for (int i = 0; i < batch->count; i++) {
        const tide_import_record *record = &batch->records[i];
        if (record->kind == TIDE_IMPORT_TYPE)
            TIDE_TRY(defer_type(run, &record->as.type, tx, err));
        else if (record->kind == TIDE_IMPORT_TASK)
            TIDE_TRY(defer_task(run, &record->as.task, now_us, tx, err));
        else
            TIDE_TRY(stage_checkpoint(batch, i, ++ordinal, now_us, tx, err));
    }
    return TIDE_OK;
}

tide_status tide_import_stage(tide_import_batch *batch, tide_error *err)
{
    if (batch->count == 0)
        return TIDE_OK;
    tide_import_run *run = batch->run;
    int64_t tasks = 0;
    int64_t checkpoints = 0;
    for (int i = 0; i < batch->count; i++) {
        const tide_import_record *record = &batch->records[i];
        tasks += record->kind == TIDE_IMPORT_TASK;
        if (record->kind != TIDE_IMPORT_CHECKPOINT)
            continue;
        checkpoints++;
        tide_snapshot *snapshot = &batch->snapshots[i];
        TIDE_TRY(tide_snapshot_init(snapshot, record->as.checkpoint.fields.snapshot, err));
        TIDE_TRY(tide_snapshot_foresee(snapshot, run->store, err));
    }
    TIDE_TRY(tide_store_write(run->store, stage, batch, err));
    run->tasks += tasks;
    run->checkpoints += checkpoints;
    empty(batch);
    return TIDE_OK;
}

/* ---- is it whole? ---- */

static tide_status find_depths(tide_tx *tx, void *arg, tide_error *err)
{
    const tide_import_run *run = arg;
    int64_t now_us = 0;
    TIDE_TRY(touch(run, tx, &now_us, err));
    return tide_tx_exec(tx, TIDE_SQL_IMPORT_DEPTHS, NULL, err,
                        tide_bind_i64("import_id", run->import_id));
}

static tide_status check_counts(tide_import_run *run, tide_tx *tx, tide_error *err)
{
    TIDE_QUERY_BY(query, tide_tx_one, tx, TIDE_SQL_IMPORT_COUNT, err,
                  tide_bind_i64("import_id", run->import_id));
    const int64_t tasks = tide_query_col_i64(query);
    const int64_t circular = tide_query_col_i64(query);
    run->depth_max = tide_query_col_i64(query);
    const int64_t checkpoints = tide_query_col_i64(query);
    if (checkpoints != run->checkpoints || (!run->is_legacy && tasks != run->tasks))
        return tide_fail(err, TIDE_E_DAMAGED,
                         "the export is damaged: it has a checkpoint or a task twice");
    if (circular > 0)
        return tide_fail(err, TIDE_E_DAMAGED,
                         "the export is damaged: tasks are forks of each other, or more than %d "
                         "forks stand in a line",
                         TIDE_JOURNAL_DEPTH_MAX);
    run->tasks = tasks;
    return TIDE_OK;
}

static tide_status check_whole(tide_tx *tx, void *arg, tide_error *err)
{
    tide_import_run *run = arg;
    TIDE_TRY(check_counts(run, tx, err));
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_OK_IF_NONE(tide_tx_one(&query, tx, TIDE_SQL_IMPORT_ROW_WITHOUT_TASK, err,
                                tide_bind_i64("import_id", run->import_id)));
    const tide_view id = tide_query_col_text(query);
    return tide_fail(err, TIDE_E_DAMAGED,
                     "the export is damaged: the task of checkpoint %.*s is not in it", (int)id.len,
                     id.ptr);
}

/* ---- what is here from plain SQL ---- */

enum { PLAIN_PAGE = 20 };

typedef struct plain_check {
    const tide_import_run *run;
    tide_journal_page *page;
    tide_arena arena;
    int64_t after;
    int64_t last;
    int count;
} plain_check;

static tide_status compare_plain(plain_check *check, tide_tx *tx, int64_t global_sequence,
                                 tide_view checksum, tide_error *err)
{
    TIDE_TRY(
        tide_journal_page_read(check->page, tx, &global_sequence, 1, TIDE_PAGE_SNAPSHOTS, err));
    tide_export_row made;
    tide_arena_reset(&check->arena);
    TIDE_TRY(tide_export_row_make(&made, &check->page->rows[0], &check->arena, err));
    if (tide_checksum_equal(&made.checksum, checksum))
        return TIDE_OK;
    return tide_fail(err, TIDE_E_MISMATCH, "checkpoint %s is here already, with other content",
                     made.fields.checkpoint_id);
}

static tide_status check_plain_page(tide_tx *tx, void *arg, tide_error *err)
{
    plain_check *check = arg;
    check->count = 0;
    TIDE_QUERY(query, tx, TIDE_SQL_IMPORT_KNOWN_PLAIN, err,
               tide_bind_i64("import_id", check->run->import_id),
               tide_bind_i64("after", check->after), tide_bind_i64("limit", PLAIN_PAGE));
    TIDE_EACH(tide_query_step(query, err)) {
        check->last = tide_query_col_i64(query);
        const int64_t global_sequence = tide_query_col_i64(query);
        const tide_view checksum = tide_query_col_blob(query);
        TIDE_TRY(compare_plain(check, tx, global_sequence, checksum, err));
        check->count++;
    }
    return TIDE_OK;
}

static tide_status check_plain(tide_import_run *run, tide_error *err)
{
    TIDE_CLEANUP(tide_journal_page_freep) tide_journal_page *page = tide_journal_page_new();
    TIDE_NEED_MEMORY(page, err);
    plain_check check = {.run = run, .page = page};
    tide_arena_init(&check.arena, TIDE_IMPORT_ROOM_MAX);
    tide_status status = TIDE_OK;
    do {
        status = tide_store_read(run->store, check_plain_page, &check, err);
        check.after = check.last;
        run->known_plain += check.count;
    } while (status >= TIDE_OK && check.count == PLAIN_PAGE);
    tide_arena_done(&check.arena);
    return status;
}

tide_status tide_import_check(tide_import_run *run, tide_error *err)
{
    TIDE_TRY(tide_store_write(run->store, find_depths, run, err));
    TIDE_TRY(tide_store_read_local(run->store, check_whole, run, err));
    return check_plain(run, err);
}
