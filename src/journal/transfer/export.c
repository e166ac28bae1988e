/* export.c - everything, or one task with what it shares, as a stream of lines (import_reader.h has the format).
 *
 * The set is fixed by the head at the start. It is read in pages, each one durable snapshot; what is removed meanwhile may be
 * missing. Damage ends the export: a damaged checkpoint is never written. */
#include <tidemark/journal.h>

#include <string.h>

#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "base/interface/sized.h"
#include "base/text/utf8.h"
#include "journal/check.h"
#include "journal/transfer/export_line.h"
#include "journal/transfer/import_reader.h"
#include "store/statement.h"
#include "tidemark_sql.h"

static void exporter_done(tide_exporter *e)
{
    tide_sha256_done(&e->sha);
    tide_buffer_done(&e->line);
    tide_arena_done(&e->arena);
}

/* ---- header ---- */

static tide_status read_number(int64_t *out, tide_tx *tx, const tide_sql *sql, int64_t head,
                               tide_error *err)
{
    return tide_tx_number(out, tx, sql, err,
                          TIDE_BIND_IF(sql == TIDE_SQL_EXPORT_COUNT, tide_bind_i64("head", head)));
}

static tide_status read_start(tide_tx *tx, void *arg, tide_error *err)
{
    tide_exporter *e = arg;
    TIDE_TRY(tide_identity_read(tx, &e->identity, err));
    TIDE_TRY(tide_tx_now(tx, &e->now_us, err));
    TIDE_TRY(read_number(&e->counts.head, tx, TIDE_SQL_JOURNAL_HEAD_GET, 0, err));
    TIDE_TRY(read_number(&e->total, tx, TIDE_SQL_EXPORT_COUNT, e->counts.head, err));
    e->lineage.count = 0;
    return e->task_id ? tide_lineage_read(&e->lineage, tx, e->task_id, err) : TIDE_OK;
}

static tide_status write_header(tide_exporter *e, tide_error *err)
{
    tide_json json;
    tide_json_init(&json, &e->line);
    tide_json_object_begin(&json);
    tide_export_put_text(&json, "format", TIDE_EXPORT_FORMAT);
    tide_export_put_number(&json, "version", TIDE_EXPORT_VERSION);
    tide_export_put_text(&json, "session", e->identity.session_id);
    tide_export_put_number(&json, "epoch", e->identity.epoch);
    tide_export_put_number(&json, "head", e->counts.head);
    tide_export_put_time(&json, "exported_at", e->now_us);
    tide_export_put_text(&json, "task", e->task_id);
    tide_export_put_number(&json, "checkpoints", e->total);
    tide_json_object_end(&json);
    return tide_export_send(e, &json, false, err);
}

/* ---- checkpoints ---- */

static void put_origin(tide_json *json, const tide_checkpoint *checkpoint)
{
    tide_json_key(json, "origin");
    if (!checkpoint->origin_session) {
        tide_json_null(json);
        return;
    }
    tide_json_object_begin(json);
    tide_export_put_text(json, "session", checkpoint->origin_session);
    tide_export_put_number(json, "global_sequence", checkpoint->origin_global);
    tide_export_put_number(json, "sequence_number", checkpoint->origin_number);
    tide_json_object_end(json);
}

static void put_checkpoint(tide_json *json, const tide_checkpoint *checkpoint,
                           const tide_export_row *row)
{
    char hex[TIDE_SHA256_TEXT_SIZE];
    tide_hex_encode(hex, row->checksum.bytes, sizeof row->checksum.bytes);
    tide_export_put_number(json, "global_sequence", checkpoint->global_sequence);
    tide_export_put_number(json, "sequence_number", checkpoint->sequence_number);
    tide_export_put_text(json, "checkpoint_id", row->fields.checkpoint_id);
    tide_export_put_text(json, "task_id", row->fields.task_id);
    tide_export_put_text(json, "work_item_id", row->fields.work_item_id);
    tide_export_put_text(json, "checkpoint_type", row->fields.type);
    tide_export_put_text(json, "trigger", row->fields.trigger);
    tide_export_put_time(json, "created_at", checkpoint->created_at_us);
    tide_export_put_text(json, "message", row->fields.message);
    tide_export_put_text(json, "metadata", row->fields.metadata);
    tide_json_key(json, "tags");
    tide_json_array_begin(json);
    for (int i = 0; i < row->fields.tag_count; i++)
        tide_json_text(json, row->fields.tags[i]);
    tide_json_array_end(json);
    put_origin(json, checkpoint);
    tide_export_put_text(json, "checksum", hex);
    tide_export_put_number(json, "snapshot_len", (int64_t)row->fields.snapshot.len);
}

/* The parts of a long snapshot, cut between characters. */
static int64_t count_parts(tide_view snapshot)
{
    int64_t count = 0;
    while (snapshot.len > 0) {
        const tide_view part = tide_utf8_cut(snapshot, TIDE_EXPORT_PART_LEN);
        snapshot = tide_view_bytes(snapshot.ptr + part.len, snapshot.len - part.len);
        count++;
    }
    return count;
}

static tide_status write_parts(tide_exporter *e, tide_view snapshot, tide_error *err)
{
    while (snapshot.len > 0) {
        const tide_view part = tide_utf8_cut(snapshot, TIDE_EXPORT_PART_LEN);
        snapshot = tide_view_bytes(snapshot.ptr + part.len, snapshot.len - part.len);
        tide_json json;
        tide_json_init(&json, &e->line);
        tide_json_object_begin(&json);
        tide_json_key(&json, "part");
        tide_json_view(&json, part);
        tide_json_object_end(&json);
        TIDE_TRY(tide_export_send(e, &json, false, err));
    }
    return TIDE_OK;
}

/* Annotations come from the database as JSON: they go in front of the closing brackets as they are. */
static tide_status add_annotations(tide_exporter *e, const char *annotations, tide_error *err)
{
    static const char ending[] = "}}";
    if (!annotations || strcmp(annotations, "[]") == 0)
        return TIDE_OK;
    tide_buffer_truncate(&e->line, e->line.len - strlen(ending));
    tide_status status = tide_buffer_append_text(&e->line, ",\"annotations\":");
    if (status >= TIDE_OK)
        status = tide_buffer_append_text(&e->line, annotations);
    if (status >= TIDE_OK)
        status = tide_buffer_append_text(&e->line, ending);
    return status < TIDE_OK ? tide_export_fail_line(status, err) : TIDE_OK;
}

static tide_status write_checkpoint(tide_exporter *e, const tide_journal_row *row, tide_error *err)
{
    TIDE_TRY(tide_journal_row_check(row, err));
    tide_arena_reset(&e->arena);
    tide_export_row made;
    TIDE_TRY(tide_export_row_make(&made, row, &e->arena, err));
    const tide_view snapshot = made.fields.snapshot;
    const bool is_whole = snapshot.len <= TIDE_EXPORT_PART_LEN;
    tide_json json;
    tide_export_open_record(&json, &e->line, "checkpoint");
    put_checkpoint(&json, &row->checkpoint, &made);
    if (is_whole) {
        tide_json_key(&json, "snapshot");
        tide_json_view(&json, snapshot);
    } else {
        tide_export_put_number(&json, "parts", count_parts(snapshot));
    }
    tide_json_object_end(&json);
    tide_json_object_end(&json);
    const tide_status status = tide_json_finish(&json);
    if (status < TIDE_OK)
        return tide_export_fail_line(status, err);
    TIDE_TRY(add_annotations(e, row->annotations, err));
    TIDE_TRY(tide_export_send(e, &json, false, err));
    e->counts.checkpoints++;
    return is_whole ? TIDE_OK : write_parts(e, snapshot, err);
}

static tide_status write_checkpoints(tide_exporter *e, tide_error *err)
{
    if (e->counts.head == 0)
        return TIDE_OK;
    const tide_journal_filter filter = {TIDE_JOURNAL_FILTER_INIT, .task_id = e->task_id,
                                        .last_global = e->counts.head};
    TIDE_CLEANUP(tide_checkpoint_iter_done) tide_checkpoint_iter walk = {0};
    TIDE_TRY(tide_checkpoint_iter_begin(&walk, e->store, &filter,
                                        TIDE_PAGE_SNAPSHOTS | TIDE_PAGE_ANNOTATIONS, err));
    TIDE_EACH(tide_checkpoint_iter_next(&walk, err)) {
        for (int i = 0; i < walk.page->count; i++)
            TIDE_TRY(write_checkpoint(e, tide_checkpoint_iter_row(&walk, i), err));
        if (e->progress)
            e->progress(e->arg, e->counts.checkpoints, e->total);
    }
    return TIDE_OK;
}

static tide_status write_end(tide_exporter *e, tide_error *err)
{
    uint8_t digest[TIDE_SHA256_LEN];
    char hex[TIDE_SHA256_TEXT_SIZE];
    TIDE_TRY(tide_sha256_finish(&e->sha, digest, err));
    tide_hex_encode(hex, digest, sizeof digest);
    tide_json json;
    tide_export_open_record(&json, &e->line, "end");
    tide_export_put_number(&json, "tasks", e->counts.tasks);
    tide_export_put_number(&json, "checkpoints", e->counts.checkpoints);
    tide_export_put_text(&json, "sha256", hex);
    return tide_export_close_record(e, &json, true, err);
}

static tide_status export_all(tide_exporter *e, tide_error *err)
{
    TIDE_TRY(tide_sha256_init(&e->sha, err));
    TIDE_TRY(tide_store_read(e->store, read_start, e, err));
    if (e->task_id && e->lineage.count == 0)
        return tide_fail(err, TIDE_E_NOT_FOUND, "there is no task %s", e->task_id);
    TIDE_TRY(write_header(e, err));
    TIDE_TRY(tide_export_types(e, err));
    TIDE_TRY(tide_export_tasks(e, err));
    TIDE_TRY(write_checkpoints(e, err));
    return write_end(e, err);
}

tide_status tide_journal_export(tide_store *store, const tide_journal_export_request *given,
                                tide_journal_transfer *out, tide_error *err)
{
    TIDE_NEED(store, err);
    tide_journal_export_request request;
    TIDE_TRY(TIDE_SIZED_COPY(&request, given, tide_journal_export_request, err));
    if (!request.write)
        return tide_fail(err, TIDE_E_INVALID, "an export needs a function that writes");
    if (request.task_id)
        TIDE_TRY(tide_journal_check_name("task id", request.task_id, TIDE_JOURNAL_ID_MAX, err));
    TIDE_CLEANUP(exporter_done)
    tide_exporter e = {.store = store,
                       .task_id = request.task_id,
                       .write = request.write,
                       .arg = request.arg,
                       .progress = request.progress};
    tide_buffer_init(&e.line, TIDE_EXPORT_LINE_MAX);
    tide_arena_init(&e.arena, TIDE_IMPORT_ROOM_MAX);
    TIDE_TRY(export_all(&e, err));
    if (out)
        *out = e.counts;
    return TIDE_OK;
}
