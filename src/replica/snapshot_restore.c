/* snapshot_restore.c - a snapshot becomes part of a node, in one transaction: see snapshot.h. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "replica/fold.h"
#include "replica/peer.h"
#include "replica/snapshot_load.h"
#include "replica/snapshot_run.h"
#include "store/foreign/foreign_triggers.h"
#include "tidemark_templates.h"

/* ---- loading ---- */

static tide_status put_values(tide_foreign_tx *tx, const tide_table *table,
                              const tide_snapshot_row *row, tide_error *err)
{
    int columns[TIDE_EVENT_COLUMNS_MAX];
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    for (int i = 0; i < table->column_count; i++)
        columns[i] = i;
    TIDE_TRY(tide_table_query_some(&query, tx, table, TIDE_TABLE_ROW_PUT, columns,
                                   table->column_count, err));
    for (int i = 0; i < table->column_count; i++)
        tide_table_bind(query, 'c', i, &row->values[i]);
    return tide_foreign_run_row(query, err);
}

static tide_status put_clock(tide_foreign_tx *tx, const tide_table *table,
                             const tide_snapshot_row *row, tide_error *err)
{
    const tide_row_clock *clock = &row->clock;
    TIDE_BUFFER(prints, (size_t)TIDE_TABLE_COLUMNS_MAX * TIDE_TABLE_PRINT_LEN);
    TIDE_FOREIGN_QUERY(query, tx, TIDE_TEMPLATE_APPLY_CLOCK_PUT->text, err,
                       tide_bind_i64("table", table->id), tide_bind_blob("key", row->key),
                       tide_bind_blob("clock", row->clock_bytes),
                       tide_bind_i64("aside", row->aside));
    if (row->is_here) {
        TIDE_TRY(tide_table_prints(&prints, row->values, table->column_count, err));
        tide_foreign_bind_blob(query, "digest", tide_buffer_view(&prints));
    } else {
        tide_foreign_bind_blob(query, "image", row->image);
        if (row->rival.len > 0)
            tide_foreign_bind_blob(query, "rival", row->rival);
    }
    if (!tide_row_clock_exists(clock) && clock->deleted.stamp.time != 0)
        tide_foreign_bind_i64(query, "gone", (int64_t)clock->deleted.stamp.time);
    return tide_foreign_run(query, NULL, err);
}

static tide_status begin_of(tide_foreign_query **out, tide_foreign_tx *tx, const char *text,
                            const tide_table *table, const tide_snapshot_row *row, tide_error *err)
{
    return tide_foreign_start(out, tx, text, err, tide_bind_i64("table", table->id),
                              tide_bind_blob("key", row->key));
}

static tide_status put_conflicts(tide_foreign_tx *tx, const tide_table *table,
                                 const tide_snapshot_row *row, tide_error *err)
{
    for (int i = 0; i < row->conflict_count; i++) {
        const tide_snapshot_conflict *one = &row->conflicts[i];
        TIDE_FOREIGN_QUERY_BY(query, begin_of, tx, TIDE_TEMPLATE_SNAPSHOT_CONFLICT_PUT->text, table,
                              row, err);
        tide_foreign_bind_i64(query, "col", one->column);
        tide_foreign_bind_i64(query, "time", (int64_t)one->stamp.time);
        tide_foreign_bind_blob(query, "node",
                               tide_view_bytes(one->stamp.node.bytes, TIDE_NODE_LEN));
        tide_foreign_bind_i64(query, "found_at", one->found_at_us);
        if (one->has_value)
            tide_foreign_bind_blob(query, "value", one->value);
        TIDE_TRY(tide_foreign_run(query, NULL, err));
    }
    for (int i = 0; i < row->known_count; i++) {
        TIDE_FOREIGN_QUERY_BY(query, begin_of, tx, TIDE_TEMPLATE_APPLY_KNOWN_PUT->text, table, row,
                              err);
        tide_foreign_bind_i64(query, "col", row->knowledge[i].column);
        tide_foreign_bind_i64(query, "time", (int64_t)row->knowledge[i].stamp.time);
        tide_foreign_bind_blob(query, "node",
                               tide_view_bytes(row->knowledge[i].stamp.node.bytes, TIDE_NODE_LEN));
        tide_foreign_bind_i64(query, "now", row->knowledge[i].added_us);
        TIDE_TRY(tide_foreign_run(query, NULL, err));
    }
    return TIDE_OK;
}

/* *written: rows of tables. TIDE_E_EXISTS, TIDE_E_INVALID: the table here refuses it. */
static tide_status snapshot_load_row(tide_foreign_tx *tx, const tide_snapshot_target *target,
                                     const tide_snapshot_row *row, int64_t *written,
                                     tide_error *err)
{
    if (row->is_here) {
        TIDE_TRY(put_values(tx, target->table, row, err));
        ++*written;
    }
    if (row->has_clock)
        TIDE_TRY(put_clock(tx, target->table, row, err));
    return put_conflicts(tx, target->table, row, err);
}

enum { BATCH_ROWS = 20000, BATCH_BYTES = 64 << 20, GAP_KEYS = 256, TELL_EVERY = 1000 };

static void free_targets(tide_restore_run *u)
{
    for (int i = 0; i < u->target_count; i++)
        tide_snapshot_target_done(&u->targets[i]);
    free(u->targets);
    u->targets = NULL;
    u->target_count = 0;
}

static void run_done(tide_restore_run *u)
{
    tide_log_origin_done(&u->origin);
    free_targets(u);
    tide_desk_done(&u->desk);
    tide_buffer_done(&u->r.forgotten);
    tide_buffer_done(&u->r.last_key);
    tide_buffer_done(&u->r.held);
    free(u->r.here);
    tide_snapshot_input_close(&u->input);
}

/* A desk for the next batch. */
static tide_status begin_batch(tide_restore_run *u, tide_error *err)
{
    const tide_snapshot_decoder *decoder = &u->input.decoder;
    free_targets(u);
    tide_desk_done(&u->desk);
    TIDE_TRY(tide_desk_init(&u->desk, u->call->node, u->r.tx, err));
    TIDE_ALLOC(u->targets, (size_t)decoder->table_count + 1, err);
    for (int i = 0; i < decoder->table_count; i++) {
        u->target_count = i + 1;
        TIDE_TRY(tide_snapshot_target_init(&u->targets[i], &u->desk, &decoder->tables[i], err));
    }
    u->r.desk = &u->desk;
    u->r.targets = u->targets;
    u->batch_bytes = 0;
    return TIDE_OK;
}

static tide_status cut_forgotten(tide_restore_run *u, tide_error *err)
{
    tide_reader from = tide_reader_of(tide_buffer_view(&u->r.forgotten));
    while (tide_reader_left(&from) > 0) {
        uint64_t table = 0;
        uint32_t len = 0;
        tide_view key;
        if (tide_reader_u64(&from, &table) < TIDE_OK || tide_reader_u32(&from, &len) < TIDE_OK ||
            tide_reader_bytes(&from, len, &key) < TIDE_OK)
            break;
        TIDE_TRY(tide_foreign_exec(u->r.tx, TIDE_TEMPLATE_SNAPSHOT_CLOCK_CUT->text, NULL, err,
                                   tide_bind_i64("table", (int64_t)table),
                                   tide_bind_blob("key", key)));
    }
    tide_buffer_clear(&u->r.forgotten);
    return TIDE_OK;
}

static tide_status end_batch(tide_restore_run *u, tide_error *err)
{
    TIDE_TRY(tide_desk_settle(&u->desk, err));
    u->call->out.changed += u->desk.rows;
    u->call->out.conflicts += u->desk.conflicts;
    return cut_forgotten(u, err);
}

/* ---- before anything is changed ---- */

static tide_status check_clock(tide_restore_run *u, tide_error *err)
{
    const tide_stamp newest = {.time = u->input.decoder.begin.clock,
                               .node = u->input.decoder.begin.node};
    if (u->call->is_trial)
        return TIDE_OK;
    if (newest.time != 0 && tide_hybrid_meet(&u->desk.clock, u->desk.now_us, &newest) == TIDE_NONE)
        return tide_fail(err, TIDE_E_INVALID,
                         "the snapshot's stamps lie %" PRId64
                         " s ahead of this machine's clock: set the clocks, then again",
                         (tide_stamp_us(&newest) - u->desk.now_us) / 1000000);
    return TIDE_OK;
}

static tide_status ask_number(int64_t *out, tide_foreign_query *query, tide_error *err)
{
    TIDE_TRY(tide_foreign_step(query, err));
    *out = tide_foreign_col_i64(query);
    return TIDE_OK;
}

static tide_status ask(int64_t *out, tide_foreign_tx *tx, const char *text, tide_error *err)
{
    TIDE_FOREIGN_QUERY_BY(query, tide_foreign_begin, tx, text, err);
    return ask_number(out, query, err);
}

static tide_status look_for_rows(tide_restore_run *u, tide_error *err)
{
    int64_t any = 0;
    TIDE_TRY(ask(&any, u->r.tx, TIDE_TEMPLATE_SNAPSHOT_ANY_CONFLICT->text, err));
    u->r.has_conflicts = any != 0;
    TIDE_TRY(ask(&any, u->r.tx, TIDE_TEMPLATE_SNAPSHOT_ANY_CLOCK->text, err));
    bool is_bulk = u->call->may_be_bulk && any == 0 && !u->r.has_conflicts;
    for (int i = 0; is_bulk && i < u->target_count; i++) {
        TIDE_FOREIGN_QUERY_BY(query, tide_table_query, u->r.tx, u->targets[i].table,
                              TIDE_TABLE_COUNT, err);
        TIDE_TRY(ask_number(&any, query, err));
        is_bulk = any == 0 && u->targets[i].is_same;
    }
    u->call->out.is_bulk = is_bulk;
    return TIDE_OK;
}

/* ---- rows ---- */

/* Rows that are here between the last row of the snapshot and this one; an empty key is the end of the table. */
static tide_status find_gap(tide_restore_run *u, const tide_snapshot_target *target,
                            tide_view until, tide_view keys[GAP_KEYS], int *count, tide_error *err)
{
    tide_status status = TIDE_OK;
    TIDE_FOREIGN_QUERY(query, u->r.tx,
                       until.len > 0 ? TIDE_TEMPLATE_SNAPSHOT_KEYS_BETWEEN->text
                                     : TIDE_TEMPLATE_SNAPSHOT_KEYS_BEHIND->text,
                       err, tide_bind_i64("table", target->table->id),
                       tide_bind_blob("after", tide_buffer_view(&u->r.last_key)),
                       TIDE_BIND_IF(until.len > 0, tide_bind_blob("until", until)),
                       tide_bind_i64("limit", GAP_KEYS));
    while (*count < GAP_KEYS && (status = tide_foreign_step(query, err)) == TIDE_OK) {
        const tide_view key = tide_foreign_col_bytes(query);
        const char *copy = tide_arena_copy(&u->desk.arena, key.ptr, key.len);
        TIDE_NEED_MEMORY(copy, err);
        keys[(*count)++] = tide_view_bytes(copy, key.len);
    }
    return status < TIDE_OK ? status : TIDE_OK;
}

static tide_status keep_last_key(tide_restore_run *u, tide_view key, tide_error *err)
{
    tide_buffer_clear(&u->r.last_key);
    return tide_buffer_append_view(&u->r.last_key, key) < TIDE_OK ? tide_no_memory(err) : TIDE_OK;
}

static tide_status next_batch(tide_restore_run *u, tide_error *err)
{
    if (u->desk.row_count < BATCH_ROWS && u->batch_bytes < BATCH_BYTES)
        return TIDE_OK;
    TIDE_TRY(end_batch(u, err));
    return begin_batch(u, err);
}

static tide_status merge_gap(tide_restore_run *u, int table, tide_view until, tide_error *err)
{
    for (int count = GAP_KEYS; count == GAP_KEYS;) {
        tide_view keys[GAP_KEYS];
        count = 0;
        TIDE_TRY(find_gap(u, &u->targets[table], until, keys, &count, err));
        for (int i = 0; i < count; i++)
            TIDE_TRY(tide_snapshot_merge_absent(&u->r, &u->targets[table], keys[i], err));
        if (count > 0)
            TIDE_TRY(keep_last_key(u, keys[count - 1], err));
        TIDE_TRY(next_batch(u, err));
    }
    return TIDE_OK;
}

static tide_status merge_row(tide_restore_run *u, const tide_snapshot_row *row, tide_error *err)
{
    TIDE_TRY(merge_gap(u, row->table, row->key, err));
    TIDE_TRY(tide_snapshot_merge_row(&u->r, row, err));
    TIDE_TRY(keep_last_key(u, row->key, err));
    u->batch_bytes += (int64_t)(row->image.len + row->clock_bytes.len + row->key.len);
    for (int i = 0; i < u->input.decoder.tables[row->table].column_count; i++)
        u->batch_bytes += (int64_t)row->values[i].bytes.len;
    return next_batch(u, err);
}

static tide_status take_row(tide_restore_run *u, const tide_snapshot_row *row, tide_error *err)
{
    tide_restore_call *call = u->call;
    if (++call->out.rows % TELL_EVERY == 0)
        TIDE_TRY(tide_snapshot_tell(call->watch, "restoring bytes", (int64_t)u->input.reader.bytes,
                                    u->input.bytes, err));
    if (!call->out.is_bulk)
        return merge_row(u, row, err);
    const tide_status status =
        snapshot_load_row(u->r.tx, &u->targets[row->table], row, &call->out.changed, err);
    call->was_refused = status == TIDE_E_EXISTS || status == TIDE_E_INVALID;
    return status;
}

/* The digests of the cut, before the commit. What was here as well makes others. */
static tide_status take_sum(tide_restore_run *u, const tide_snapshot_sum *sum, tide_error *err)
{
    tide_snapshot_sum found = {.table = sum->table};
    const tide_table *table = u->targets[sum->table].table;
    if (!u->call->out.is_bulk) {
        TIDE_TRY(merge_gap(u, sum->table, tide_view_bytes("", 0), err));
        tide_buffer_clear(&u->r.last_key);
        return TIDE_OK;
    }
    TIDE_TRY(tide_snapshot_sum_of(&found, u->r.tx, table, err));
    if (found.rows != sum->rows || memcmp(found.digest, sum->digest, sizeof sum->digest) != 0)
        return tide_fail(err, TIDE_E_MISMATCH,
                         "restored, table %s has %" PRId64 " rows and another digest than the "
                         "snapshot's (%" PRId64 " rows)",
                         table->name, found.rows, sum->rows);
    return TIDE_OK;
}

static tide_status take_record(tide_restore_run *u, const tide_snapshot_record *record,
                               tide_error *err)
{
    switch (record->kind) {
    case TIDE_SNAPSHOT_CURSOR:
        return tide_restore_take_cursor(u, &record->as.cursor, err);
    case TIDE_SNAPSHOT_EVENT:
        return tide_restore_take_event(u, &record->as.event, err);
    case TIDE_SNAPSHOT_ROW:
        return take_row(u, &record->as.row, err);
    case TIDE_SNAPSHOT_SUM:
        return take_sum(u, &record->as.sum, err);
    case TIDE_SNAPSHOT_BEGIN:
    case TIDE_SNAPSHOT_ORIGIN:
    case TIDE_SNAPSHOT_TABLE:
    case TIDE_SNAPSHOT_END:
        break;
    }
    return TIDE_OK;
}

static tide_status take_all(tide_restore_run *u, tide_error *err)
{
    const tide_snapshot_decoder *decoder = &u->input.decoder;
    if (!u->call->out.is_bulk)
        TIDE_TRY(tide_snapshot_keep_knowledge(&u->r, err));
    for (int i = 0; i < decoder->origin_count; i++)
        TIDE_TRY(tide_restore_move_mark(u, &decoder->origins[i], err));
    tide_snapshot_record record;
    TIDE_EACH(tide_snapshot_decoder_next(&u->input.decoder, &record, err)) {
        TIDE_TRY(take_record(u, &record, err));
    }
    TIDE_TRY(tide_restore_store_origin(u, err));
    for (int i = 0; i < decoder->origin_count; i++)
        TIDE_TRY(tide_restore_end_waiting(u, &decoder->origins[i], err));
    TIDE_TRY(end_batch(u, err));
    return tide_log_fill_data(&u->desk, err);
}

static tide_status restore_in(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    tide_restore_call *call = arg;
    int64_t folded = 0;
    const int created = call->out.tables_created;
    call->out = (tide_snapshot_restored){.tables_created = created};
    call->is_behind = false;
    call->was_refused = false;
    TIDE_TRY(tide_fold_turn(call->node, tx, &folded, &call->is_behind, err));
    if (call->is_behind)
        return TIDE_OK;
    TIDE_CLEANUP(run_done) tide_restore_run u = {.call = call, .input = {.fd = -1}};
    u.r = (tide_restoring){
        .node = call->node, .tx = tx, .decoder = &u.input.decoder, .out = &call->out};
    tide_buffer_init(&u.r.forgotten, (size_t)1 << 30);
    tide_buffer_init(&u.r.last_key, TIDE_SNAPSHOT_RECORD_MAX);
    tide_buffer_init(&u.r.held, (size_t)1 << 30);
    TIDE_TRY(tide_snapshot_input_open(&u.input, call->path, err));
    TIDE_TRY(begin_batch(&u, err));
    TIDE_TRY(tide_restore_load_marks(&u, err));
    TIDE_TRY(tide_restore_check_own(&u, err));
    TIDE_TRY(check_clock(&u, err));
    TIDE_TRY(look_for_rows(&u, err));
    return take_all(&u, err);
}

/* ---- from outside ---- */

static tide_status create_tables(tide_restore_call *call, tide_error *err)
{
    TIDE_CLEANUP(tide_snapshot_input_close) tide_snapshot_input input = {.fd = -1};
    TIDE_TRY(tide_snapshot_input_open(&input, call->path, err));
    for (int i = 0; i < input.decoder.table_count; i++) {
        const tide_snapshot_table *table = &input.decoder.tables[i];
        tide_peer_table made = {.schema = table->schema,
                                .retain_us = table->retain_us,
                                .sql = table->sql,
                                .schemas = table->schemas,
                                .schema_count = table->schema_count,
                                .former = table->former,
                                .former_count = table->former_count,
                                .loose = table->loose};
        memcpy(made.name, table->name, sizeof made.name);
        const tide_status status = tide_peer_create(call->node, &made, err);
        TIDE_TRY(status);
        call->out.tables_created += status == TIDE_OK;
    }
    return TIDE_OK;
}

static tide_status restore(tide_restore_call *call, tide_error *err)
{
    tide_status status = TIDE_OK;
    {
        TIDE_CLEANUP(tide_snapshot_info_done) tide_snapshot_info info = {.bytes = 0};
        TIDE_TRY(tide_snapshot_check(call->path, call->watch, &info, err));
    }
    TIDE_TRY(tide_node_establish(call->node, err));
    TIDE_TRY(create_tables(call, err));
    do {
        status = tide_foreign_write(tide_node_file(call->node), restore_in, call, err);
        if (status < TIDE_OK && call->was_refused && call->may_be_bulk) {
            call->may_be_bulk = false;
            call->is_behind = true;
            status = TIDE_OK;
        }
    } while (status >= TIDE_OK && call->is_behind);
    return status < TIDE_OK ? status : TIDE_OK;
}

tide_status tide_snapshot_restore(tide_node *node, const char *path,
                                  const tide_snapshot_watch *watch, tide_snapshot_restored *out,
                                  tide_error *err)
{
    tide_restore_call call = {.node = node, .path = path, .watch = watch, .may_be_bulk = true};
    TIDE_TRY(restore(&call, err));
    *out = call.out;
    return TIDE_OK;
}

tide_status tide_snapshot_try(tide_node *node, const char *path, const tide_snapshot_watch *watch,
                              tide_snapshot_restored *out, tide_error *err)
{
    tide_restore_call call = {
        .node = node, .path = path, .watch = watch, .may_be_bulk = true, .is_trial = true};
    TIDE_TRY(restore(&call, err));
    *out = call.out;
    return TIDE_OK;
}

static tide_status sync_file(const char *path, tide_error *err)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const bool is_synced = fd >= 0 && fsync(fd) == 0;
    const int code = errno;
    if (fd >= 0)
        (void)close(fd);
    return is_synced ? TIDE_OK
                     : tide_fail(err, TIDE_E_IO, "cannot sync %s: %s", path, strerror(code));
}

static tide_status restore_beside(const char *db, const char *path,
                                  const tide_node_options *options,
                                  const tide_snapshot_watch *watch, tide_snapshot_restored *out,
                                  tide_error *err)
{
    TIDE_CLEANUP(tide_node_closep) tide_node *node = NULL;
    tide_node_options fresh = options ? *options : (tide_node_options){.env = NULL};
    fresh.is_new = true;
    TIDE_TRY(tide_node_open(&node, db, &fresh, err));
    return tide_snapshot_restore(node, path, watch, out, err);
}

tide_status tide_snapshot_restore_new(const char *db, const char *path,
                                      const tide_node_options *options,
                                      const tide_snapshot_watch *watch, tide_snapshot_restored *out,
                                      tide_error *err)
{
    char made[TIDE_SNAPSHOT_PATH_MAX];
    char log[TIDE_SNAPSHOT_PATH_MAX];
    TIDE_CLEANUP(tide_snapshot_work_end) tide_snapshot_work work = {.fd = -1};
    const char *slash = strrchr(db, '/');
    if (access(db, F_OK) == 0)
        return tide_fail(err, TIDE_E_EXISTS, "%s exists already", db);
    TIDE_TRY(tide_snapshot_work_begin(&work, db, ".restoring", err));
    /* Under its own name: what is kept by the database's name is right from the beginning. */
    TIDE_TRY(tide_snapshot_work_path(&work, slash ? slash + 1 : db, made, err));
    TIDE_TRY(restore_beside(made, path, options, watch, out, err));
    (void)snprintf(log, sizeof log, "%.4090s-wal", made);
    if (access(log, F_OK) == 0) /* the last to close empties it into the file */
        return tide_fail(err, TIDE_E_BUSY, "somebody has opened %s", made);
    TIDE_TRY(sync_file(made, err));
    return tide_snapshot_publish(made, db, err);
}
