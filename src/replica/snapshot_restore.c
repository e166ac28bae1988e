/* snapshot_restore.c - a snapshot becomes part of a node, in one transaction: see snapshot.h. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "replica/fold.h"
#include "replica/log.h"
#include "replica/peer.h"
#include "replica/snapshot_load.h"
#include "replica/snapshot_parts.h"
#include "tidemark_templates.h"

enum { BATCH_ROWS = 20000, BATCH_BYTES = 64 << 20, GAP_KEYS = 256, TELL_EVERY = 1000 };

typedef struct restore_call {
    tide_node *node;
    const char *path;
    const tide_snapshot_watch *watch;
    tide_snapshot_restored out;
    bool is_behind;   /* there is still to fold */
    bool may_be_bulk; /* put rows as they are, where nothing is here */
    bool was_refused; /* a table here refuses what the maker's allowed: they have to be resolved */
} restore_call;

/* The state of one run of the closure. */
typedef struct run {
    restore_call *call;
    tide_restoring r;
    tide_snapshot_input input;
    tide_desk desk;
    tide_snapshot_target *targets;
    int target_count;
    tide_log_origin origin; /* whose events come */
    bool has_origin;
    int64_t batch_bytes;
} run;

static void free_targets(run *u)
{
    for (int i = 0; i < u->target_count; i++)
        free(u->targets[i].map);
    free(u->targets);
    u->targets = NULL;
    u->target_count = 0;
}

static void run_done(run *u)
{
    tide_log_origin_done(&u->origin);
    free_targets(u);
    tide_desk_done(&u->desk);
    tide_buffer_done(&u->r.forgotten);
    tide_buffer_done(&u->r.last_key);
    free(u->r.here);
    tide_snapshot_input_close(&u->input);
}

static tide_status fail_memory(tide_error *err)
{
    return tide_fail(err, TIDE_E_NOMEM, "no memory to restore a snapshot");
}

/* ---- tables ---- */

static int find_column(const tide_table *table, const char *name)
{
    for (int i = 0; i < table->column_count; i++)
        if (strcmp(table->columns[i].name, name) == 0)
            return i;
    return -1;
}

static tide_status match_table(tide_snapshot_target *out, const tide_desk *desk,
                               const tide_snapshot_table *from, tide_error *err)
{
    const tide_table *table = tide_desk_table(desk, from->name);
    if (!table)
        return tide_fail(err, TIDE_E_CONFLICT,
                         "table %s is here and not tracked: 'tidemark replica track' it first",
                         from->name);
    out->table = table;
    out->is_same = table->schema == from->schema && table->column_count == from->column_count;
    out->map = calloc((size_t)from->column_count + 1, sizeof *out->map);
    if (!out->map)
        return fail_memory(err);
    for (int i = 0; i < from->column_count; i++) {
        out->map[i] = find_column(table, from->columns[i]);
        if (out->map[i] < 0)
            return tide_fail(err, TIDE_E_CONFLICT,
                             "table %s has no column %s here, but in the snapshot: add it first",
                             from->name, from->columns[i]);
        out->is_same = out->is_same && out->map[i] == i;
    }
    bool is_key_same = table->key_count == from->key_count;
    for (int i = 0; is_key_same && i < from->key_count; i++)
        is_key_same = out->map[from->key[i]] == table->key[i];
    return is_key_same
               ? TIDE_OK
               : tide_fail(err, TIDE_E_CONFLICT,
                           "table %s has another key here than in the snapshot", from->name);
}

/* A desk for the next batch. */
static tide_status begin_batch(run *u, tide_error *err)
{
    const tide_snapshot_decoder *decoder = &u->input.decoder;
    free_targets(u);
    tide_desk_done(&u->desk);
    TIDE_TRY(tide_desk_init(&u->desk, u->call->node, u->r.tx, err));
    u->targets = calloc((size_t)decoder->table_count + 1, sizeof *u->targets);
    if (!u->targets)
        return fail_memory(err);
    for (int i = 0; i < decoder->table_count; i++) {
        u->target_count = i + 1;
        TIDE_TRY(match_table(&u->targets[i], &u->desk, &decoder->tables[i], err));
    }
    u->r.desk = &u->desk;
    u->r.targets = u->targets;
    u->batch_bytes = 0;
    return TIDE_OK;
}

static tide_status cut_forgotten(run *u, tide_error *err)
{
    tide_reader from = tide_reader_of(tide_buffer_view(&u->r.forgotten));
    while (tide_reader_left(&from) > 0) {
        uint64_t table = 0;
        uint32_t len = 0;
        tide_view key;
        TIDE_CLEANUP(tide_app_endp) tide_app_query *query = NULL;
        if (tide_reader_u64(&from, &table) < TIDE_OK || tide_reader_u32(&from, &len) < TIDE_OK ||
            tide_reader_bytes(&from, len, &key) < TIDE_OK)
            break;
        TIDE_TRY(tide_app_begin(&query, u->r.tx, TIDE_TEMPLATE_SNAPSHOT_CLOCK_CUT->text, err));
        tide_app_bind_i64(query, "table", (int64_t)table);
        tide_app_bind_blob(query, "key", key);
        TIDE_TRY(tide_app_run(query, NULL, err));
    }
    tide_buffer_clear(&u->r.forgotten);
    return TIDE_OK;
}

static tide_status end_batch(run *u, tide_error *err)
{
    TIDE_TRY(tide_desk_settle(&u->desk, err));
    u->call->out.changed += u->desk.rows;
    u->call->out.conflicts += u->desk.conflicts;
    return cut_forgotten(u, err);
}

/* ---- before anything is changed ---- */

static tide_status keep_mark(run *u, tide_app_query *query, tide_error *err)
{
    tide_origin_mark *more = realloc(u->r.here, ((size_t)u->r.here_count + 1) * sizeof *more);
    if (!more)
        return fail_memory(err);
    u->r.here = more;
    tide_origin_mark *mark = &more[u->r.here_count];
    *mark = (tide_origin_mark){.epoch = 0};
    const tide_view origin = tide_app_col_bytes(query);
    if (origin.len != TIDE_NODE_LEN)
        return tide_fail(err, TIDE_E_DAMAGED, "an origin's id of %zu bytes", origin.len);
    memcpy(mark->origin.bytes, origin.ptr, TIDE_NODE_LEN);
    mark->epoch = tide_app_col_i64(query);
    mark->start = tide_app_col_i64(query);
    mark->floor = tide_app_col_i64(query);
    TIDE_CLEANUP(tide_cursor_done) tide_cursor cursor = {.contiguous = 0};
    TIDE_TRY(tide_cursor_decode(&cursor, tide_app_col_bytes(query), TIDE_LOG_HOLES_MAX, err));
    (void)tide_cursor_raise(&cursor, mark->start);
    mark->prefix = tide_cursor_contiguous(&cursor);
    mark->highest = tide_cursor_highest(&cursor);
    u->r.here_count++;
    return TIDE_OK;
}

static tide_status load_marks(run *u, tide_error *err)
{
    tide_status status = TIDE_OK;
    TIDE_CLEANUP(tide_app_endp) tide_app_query *query = NULL;
    TIDE_TRY(tide_app_begin(&query, u->r.tx, TIDE_TEMPLATE_APPLY_ORIGIN_LIST->text, err));
    while ((status = tide_app_step(query, err)) == TIDE_OK)
        TIDE_TRY(keep_mark(u, query, err));
    return status < TIDE_OK ? status : TIDE_OK;
}

static const tide_origin_mark *find_here(const run *u, const tide_origin_mark *mark)
{
    for (int i = 0; i < u->r.here_count; i++)
        if (u->r.here[i].epoch == mark->epoch &&
            memcmp(&u->r.here[i].origin, &mark->origin, sizeof mark->origin) == 0)
            return &u->r.here[i];
    return NULL;
}

/* Nobody can know more of this node than this node. */
static tide_status check_own(const run *u, tide_error *err)
{
    const tide_snapshot_decoder *decoder = &u->input.decoder;
    const tide_node_id self = tide_node_get_id(u->call->node);
    const int64_t epoch = tide_node_epoch(u->call->node);
    for (int i = 0; i < decoder->origin_count; i++) {
        const tide_origin_mark *mark = &decoder->origins[i];
        if (memcmp(&mark->origin, &self, sizeof self) != 0)
            continue;
        const tide_origin_mark *here = find_here(u, mark);
        if (mark->epoch > epoch || (mark->epoch == epoch && here && mark->highest > here->highest))
            return tide_fail(err, TIDE_E_INVALID,
                             "the snapshot has number %" PRId64 " of epoch %" PRId64
                             " of this node, which has not made it",
                             mark->highest, mark->epoch);
    }
    return TIDE_OK;
}

static tide_status check_clock(run *u, tide_error *err)
{
    const tide_stamp newest = {.time = u->input.decoder.begin.clock,
                               .node = u->input.decoder.begin.node};
    if (newest.time != 0 && tide_hybrid_meet(&u->desk.clock, u->desk.now_us, &newest) == TIDE_NONE)
        return tide_fail(err, TIDE_E_INVALID,
                         "the snapshot's stamps lie %" PRId64
                         " s ahead of this machine's clock: set the clocks, then again",
                         (tide_stamp_us(&newest) - u->desk.now_us) / 1000000);
    return TIDE_OK;
}

static tide_status ask_number(int64_t *out, tide_app_query *query, tide_error *err)
{
    TIDE_TRY(tide_app_step(query, err));
    *out = tide_app_col_i64(query);
    return TIDE_OK;
}

static tide_status ask(int64_t *out, tide_app_tx *tx, const char *text, tide_error *err)
{
    TIDE_CLEANUP(tide_app_endp) tide_app_query *query = NULL;
    TIDE_TRY(tide_app_begin(&query, tx, text, err));
    return ask_number(out, query, err);
}

static tide_status look_for_rows(run *u, tide_error *err)
{
    int64_t any = 0;
    TIDE_TRY(ask(&any, u->r.tx, TIDE_TEMPLATE_SNAPSHOT_ANY_CONFLICT->text, err));
    u->r.has_conflicts = any != 0;
    TIDE_TRY(ask(&any, u->r.tx, TIDE_TEMPLATE_SNAPSHOT_ANY_CLOCK->text, err));
    bool is_bulk = u->call->may_be_bulk && any == 0 && !u->r.has_conflicts;
    for (int i = 0; is_bulk && i < u->target_count; i++) {
        TIDE_CLEANUP(tide_app_endp) tide_app_query *query = NULL;
        TIDE_TRY(tide_table_query(&query, u->r.tx, u->targets[i].table, TIDE_TABLE_COUNT, err));
        TIDE_TRY(ask_number(&any, query, err));
        is_bulk = any == 0 && u->targets[i].is_same;
    }
    u->call->out.is_bulk = is_bulk;
    return TIDE_OK;
}

/* ---- marks, cursors, events ---- */

/* Batches that waited here for their rest: the rows of the snapshot have them. */
static tide_status end_waiting(const run *u, const char *text, const tide_origin_mark *mark,
                               tide_error *err)
{
    TIDE_CLEANUP(tide_app_endp) tide_app_query *query = NULL;
    TIDE_TRY(tide_app_begin(&query, u->r.tx, text, err));
    tide_app_bind_blob(query, "origin", tide_view_bytes(mark->origin.bytes, TIDE_NODE_LEN));
    tide_app_bind_i64(query, "epoch", mark->epoch);
    tide_app_bind_i64(query, "cut", mark->prefix);
    return tide_app_run(query, NULL, err);
}

/* Everything up to the cut has been here, one way or the other; what is not in the log cannot be asked for. */
static tide_status move_mark(run *u, const tide_origin_mark *mark, tide_error *err)
{
    const tide_origin_mark *here = find_here(u, mark);
    TIDE_CLEANUP(tide_log_origin_done) tide_log_origin origin = {.tables = NULL};
    TIDE_TRY(tide_log_origin_load(&origin, u->r.tx, &mark->origin, mark->epoch, err));
    if (here && here->prefix >= mark->prefix && here->start >= mark->start)
        return TIDE_OK;
    if (origin.start < mark->start)
        origin.start = mark->start;
    if (origin.floor < mark->prefix)
        origin.floor = mark->prefix;
    (void)tide_cursor_raise(&origin.cursor, mark->prefix);
    TIDE_TRY(end_waiting(u, TIDE_TEMPLATE_SNAPSHOT_SPOOLED_DONE->text, mark, err));
    TIDE_TRY(end_waiting(u, TIDE_TEMPLATE_SNAPSHOT_SPOOL_CUT->text, mark, err));
    return tide_log_origin_store(&origin, u->r.tx, err);
}

static tide_status store_origin(run *u, tide_error *err)
{
    if (!u->has_origin)
        return TIDE_OK;
    u->has_origin = false;
    const tide_status status = tide_log_origin_store(&u->origin, u->r.tx, err);
    tide_log_origin_done(&u->origin);
    return status;
}

static tide_status take_origin(run *u, const tide_node_id *origin, int64_t epoch, tide_error *err)
{
    if (u->has_origin && u->origin.epoch == epoch &&
        memcmp(&u->origin.origin, origin, sizeof *origin) == 0)
        return TIDE_OK;
    TIDE_TRY(store_origin(u, err));
    u->has_origin = true;
    return tide_log_origin_load(&u->origin, u->r.tx, origin, epoch, err);
}

static tide_status take_cursor(run *u, const tide_snapshot_cursor *cursor, tide_error *err)
{
    char name[TIDE_EVENT_TABLE_MAX + 1];
    tide_log_table *table = NULL;
    (void)snprintf(name, sizeof name, "%.*s", (int)cursor->table.len, cursor->table.ptr);
    TIDE_TRY(take_origin(u, &cursor->origin, cursor->epoch, err));
    TIDE_TRY(tide_log_origin_table(&table, &u->origin, u->r.tx, name, err));
    (void)tide_cursor_raise(&table->cursor, cursor->prefix);
    if (table->last_seq < cursor->last_seq)
        table->last_seq = cursor->last_seq;
    return TIDE_OK;
}

static tide_status quarantine(run *u, const tide_snapshot_event *given, tide_view reason,
                              tide_error *err)
{
    TIDE_CLEANUP(tide_app_endp) tide_app_query *query = NULL;
    TIDE_TRY(tide_app_begin(&query, u->r.tx, TIDE_TEMPLATE_SNAPSHOT_QUARANTINE_PUT->text, err));
    tide_app_bind_blob(query, "origin", tide_view_bytes(given->event.origin.bytes, TIDE_NODE_LEN));
    tide_app_bind_i64(query, "epoch", given->event.epoch);
    tide_app_bind_i64(query, "seq", given->event.seq);
    tide_app_bind_text(query, "reason", reason);
    tide_app_bind_text(query, "detail", given->detail);
    tide_app_bind_i64(query, "found_at",
                      given->reason.len > 0 ? given->found_at_us : u->desk.now_us);
    return tide_app_run(query, NULL, err);
}

static bool is_of_snapshot(const run *u, const char *name)
{
    for (int i = 0; i < u->input.decoder.table_count; i++) {
        const tide_snapshot_table *table = &u->input.decoder.tables[i];
        if (strcmp(table->name, name) == 0)
            return true;
        for (int k = 0; k < table->former_count; k++)
            if (strcasecmp(table->former[k], name) == 0)
                return true;
    }
    return false;
}

/* An event that comes with the snapshot: the rows have it (beyond a hole), or it waits, for its table if for nothing else. */
static tide_status take_event(run *u, const tide_snapshot_event *given, tide_error *err)
{
    const tide_event *event = &given->event;
    const tide_origin_mark wanted = {.origin = event->origin, .epoch = event->epoch};
    const tide_origin_mark *here = find_here(u, &wanted);
    const bool is_in_rows =
        given->is_processed && given->reason.len == 0 && is_of_snapshot(u, event->table);
    if (here && event->seq <= here->prefix)
        return TIDE_OK;
    TIDE_TRY(take_origin(u, &event->origin, event->epoch, err));
    if (tide_cursor_has(&u->origin.cursor, event->seq) &&
        event->seq > tide_cursor_contiguous(&u->origin.cursor))
        return TIDE_OK; /* beyond a hole of our own: it is in our log */
    TIDE_TRY(tide_log_settle(&u->origin, u->r.tx, event, err));
    TIDE_TRY(tide_log_put(&u->desk, event, given->body, is_in_rows, err));
    u->call->out.events++;
    if (is_in_rows)
        return TIDE_OK;
    return quarantine(u, given, given->reason.len > 0 ? given->reason : tide_view_of("table"), err);
}

/* ---- rows ---- */

static tide_status merge_gap(run *u, int table, tide_view until, tide_error *err)
{
    const tide_snapshot_target *target = &u->targets[table];
    for (int count = GAP_KEYS; count == GAP_KEYS;) {
        tide_status status = TIDE_OK;
        tide_view keys[GAP_KEYS];
        TIDE_CLEANUP(tide_app_endp) tide_app_query *query = NULL;
        count = 0;
        TIDE_TRY(tide_app_begin(&query, u->r.tx, TIDE_TEMPLATE_SNAPSHOT_KEYS_BETWEEN->text, err));
        tide_app_bind_i64(query, "table", target->table->id);
        tide_app_bind_blob(query, "after", tide_buffer_view(&u->r.last_key));
        tide_app_bind_blob(query, "until", until);
        tide_app_bind_i64(query, "limit", GAP_KEYS);
        while ((status = tide_app_step(query, err)) == TIDE_OK && count < GAP_KEYS) {
            const tide_view key = tide_app_col_bytes(query);
            const char *copy = tide_arena_copy(&u->desk.arena, key.ptr, key.len);
            if (!copy)
                return fail_memory(err);
            keys[count++] = tide_view_bytes(copy, key.len);
        }
        TIDE_TRY(status);
        for (int i = 0; i < count; i++)
            TIDE_TRY(tide_snapshot_merge_absent(&u->r, target, keys[i], err));
        if (count == 0)
            break;
        tide_buffer_clear(&u->r.last_key);
        if (tide_buffer_append_view(&u->r.last_key, keys[count - 1]) < TIDE_OK)
            return fail_memory(err);
    }
    return TIDE_OK;
}

static tide_status merge_row(run *u, const tide_snapshot_row *row, tide_error *err)
{
    TIDE_TRY(merge_gap(u, row->table, row->key, err));
    TIDE_TRY(tide_snapshot_merge_row(&u->r, row, err));
    tide_buffer_clear(&u->r.last_key);
    if (tide_buffer_append_view(&u->r.last_key, row->key) < TIDE_OK)
        return fail_memory(err);
    u->batch_bytes += (int64_t)(row->image.len + row->clock_bytes.len + row->key.len);
    for (int i = 0; i < u->input.decoder.tables[row->table].column_count; i++)
        u->batch_bytes += (int64_t)row->values[i].bytes.len;
    if (u->desk.row_count < BATCH_ROWS && u->batch_bytes < BATCH_BYTES)
        return TIDE_OK;
    TIDE_TRY(end_batch(u, err));
    return begin_batch(u, err);
}

static tide_status take_row(run *u, const tide_snapshot_row *row, tide_error *err)
{
    restore_call *call = u->call;
    if (++call->out.rows % TELL_EVERY == 0)
        TIDE_TRY(tide_snapshot_tell(call->watch, "restoring bytes", (int64_t)u->input.reader.bytes,
                                    u->input.bytes, err));
    if (!call->out.is_bulk)
        return merge_row(u, row, err);
    const tide_status status =
        tide_snapshot_load_row(u->r.tx, &u->targets[row->table], row, &call->out.changed, err);
    call->was_refused = status == TIDE_E_EXISTS || status == TIDE_E_INVALID;
    return status;
}

/* The digests of the cut, before the commit (R20). What was here as well makes others. */
static tide_status take_sum(run *u, const tide_snapshot_sum *sum, tide_error *err)
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

static tide_status take_record(run *u, const tide_snapshot_record *record, tide_error *err)
{
    switch (record->kind) {
    case TIDE_SNAPSHOT_CURSOR:
        return take_cursor(u, &record->as.cursor, err);
    case TIDE_SNAPSHOT_EVENT:
        return take_event(u, &record->as.event, err);
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

static tide_status take_all(run *u, tide_error *err)
{
    const tide_snapshot_decoder *decoder = &u->input.decoder;
    if (!u->call->out.is_bulk)
        TIDE_TRY(tide_snapshot_keep_knowledge(&u->r, err));
    for (int i = 0; i < decoder->origin_count; i++)
        TIDE_TRY(move_mark(u, &decoder->origins[i], err));
    for (;;) {
        tide_snapshot_record record;
        const tide_status status = tide_snapshot_decoder_next(&u->input.decoder, &record, err);
        TIDE_TRY(status);
        if (status == TIDE_NONE)
            break;
        TIDE_TRY(take_record(u, &record, err));
    }
    TIDE_TRY(store_origin(u, err));
    return end_batch(u, err);
}

static tide_status restore_in(tide_app_tx *tx, void *arg, tide_error *err)
{
    restore_call *call = arg;
    int64_t folded = 0;
    const int created = call->out.tables_created;
    call->out = (tide_snapshot_restored){.tables_created = created};
    call->is_behind = false;
    call->was_refused = false;
    TIDE_TRY(tide_fold_turn(call->node, tx, &folded, &call->is_behind, err));
    if (call->is_behind)
        return TIDE_OK;
    TIDE_CLEANUP(run_done) run u = {.call = call, .input = {.fd = -1}};
    u.r = (tide_restoring){
        .node = call->node, .tx = tx, .decoder = &u.input.decoder, .out = &call->out};
    tide_buffer_init(&u.r.forgotten, (size_t)1 << 30);
    tide_buffer_init(&u.r.last_key, TIDE_SNAPSHOT_RECORD_MAX);
    TIDE_TRY(tide_snapshot_input_open(&u.input, call->path, err));
    TIDE_TRY(begin_batch(&u, err));
    TIDE_TRY(load_marks(&u, err));
    TIDE_TRY(check_own(&u, err));
    TIDE_TRY(check_clock(&u, err));
    TIDE_TRY(look_for_rows(&u, err));
    return take_all(&u, err);
}

/* ---- from outside ---- */

static tide_status create_tables(restore_call *call, tide_error *err)
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
                                .former_count = table->former_count};
        memcpy(made.name, table->name, sizeof made.name);
        const tide_status status = tide_peer_create(call->node, &made, err);
        TIDE_TRY(status);
        call->out.tables_created += status == TIDE_OK;
    }
    return TIDE_OK;
}

tide_status tide_snapshot_restore(tide_node *node, const char *path,
                                  const tide_snapshot_watch *watch, tide_snapshot_restored *out,
                                  tide_error *err)
{
    restore_call call = {.node = node, .path = path, .watch = watch, .may_be_bulk = true};
    tide_status status = TIDE_OK;
    {
        TIDE_CLEANUP(tide_snapshot_info_done) tide_snapshot_info info = {.bytes = 0};
        TIDE_TRY(tide_snapshot_check(path, watch, &info, err));
    }
    TIDE_TRY(tide_node_establish(node, err));
    TIDE_TRY(create_tables(&call, err));
    do {
        status = tide_app_write(tide_node_file(node), restore_in, &call, err);
        if (status < TIDE_OK && call.was_refused && call.may_be_bulk) {
            call.may_be_bulk = false;
            call.is_behind = true;
            status = TIDE_OK;
        }
    } while (status >= TIDE_OK && call.is_behind);
    TIDE_TRY(status);
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
