#include "replica/log.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "base/text/uuid.h"
#include "core/value_digest.h"
#include "replica/again.h"
#include "replica/schemas.h"
#include "replica/value.h"
#include "tidemark_templates.h"

/* ---- origins ---- */

static void bind_origin(tide_foreign_query *query, const tide_node_id *origin, int64_t epoch)
{
    tide_foreign_bind_blob(query, "origin", tide_view_bytes(origin->bytes, TIDE_NODE_LEN));
    tide_foreign_bind_i64(query, "epoch", epoch);
}

void tide_log_origin_done(tide_log_origin *origin)
{
    for (int i = 0; i < origin->table_count; i++)
        tide_cursor_done(&origin->tables[i].cursor);
    free(origin->tables);
    tide_cursor_done(&origin->cursor);
    *origin = (tide_log_origin){.tables = NULL};
}

tide_status tide_log_origin_load(tide_log_origin *out, tide_foreign_tx *tx,
                                 const tide_node_id *origin, int64_t epoch, tide_error *err)
{
    *out = (tide_log_origin){.origin = *origin, .epoch = epoch, .is_new = true};
    tide_cursor_init(&out->cursor, 0, TIDE_LOG_HOLES_MAX);
    TIDE_FOREIGN_QUERY_BY(query, tide_foreign_begin, tx, TIDE_TEMPLATE_APPLY_ORIGIN_GET->text, err);
    bind_origin(query, origin, epoch);
    TIDE_OK_IF_NONE(tide_foreign_step(query, err));
    out->is_new = false;
    out->start = tide_foreign_col_i64(query);
    out->floor = tide_foreign_col_i64(query);
    TIDE_TRY(
        tide_cursor_decode(&out->cursor, tide_foreign_col_bytes(query), TIDE_LOG_HOLES_MAX, err));
    (void)tide_cursor_raise(&out->cursor, out->start);
    return TIDE_OK;
}

static tide_status load_table(tide_log_table *out, const tide_log_origin *origin,
                              tide_foreign_tx *tx, tide_error *err)
{
    tide_cursor_init(&out->cursor, 0, TIDE_LOG_HOLES_MAX);
    TIDE_FOREIGN_QUERY_BY(query, tide_foreign_begin, tx, TIDE_TEMPLATE_APPLY_CURSOR_GET->text, err);
    bind_origin(query, &origin->origin, origin->epoch);
    tide_foreign_bind_text(query, "table", tide_view_of(out->name));
    TIDE_OK_IF_NONE(tide_foreign_step(query, err));
    TIDE_TRY(
        tide_cursor_decode(&out->cursor, tide_foreign_col_bytes(query), TIDE_LOG_HOLES_MAX, err));
    out->last_seq = tide_foreign_col_i64(query);
    return TIDE_OK;
}

tide_status tide_log_origin_table(tide_log_table **out, tide_log_origin *origin,
                                  tide_foreign_tx *tx, const char *name, tide_error *err)
{
    for (int i = 0; i < origin->table_count; i++)
        if (strcmp(origin->tables[i].name, name) == 0) {
            *out = &origin->tables[i];
            return TIDE_OK;
        }
    TIDE_TRY(tide_list_room(&origin->tables, origin->table_count, sizeof *origin->tables,
                            TIDE_LIST_MAX, err));
    tide_log_table *table = &origin->tables[origin->table_count];
    *table = (tide_log_table){.last_seq = 0};
    (void)snprintf(table->name, sizeof table->name, "%s", name);
    TIDE_TRY(load_table(table, origin, tx, err));
    origin->table_count++;
    *out = table;
    return TIDE_OK;
}

tide_status tide_log_settle(tide_log_origin *origin, tide_foreign_tx *tx, const tide_event *event,
                            tide_error *err)
{
    tide_log_table *table = NULL;
    TIDE_TRY(tide_log_origin_table(&table, origin, tx, event->table, err));
    assert(table);
    TIDE_TRY(tide_cursor_add(&origin->cursor, event->seq, event->seq, NULL, err));
    TIDE_TRY(tide_cursor_add(&table->cursor, event->prev_seq + 1, event->seq, NULL, err));
    if (event->seq > table->last_seq)
        table->last_seq = event->seq;
    return TIDE_OK;
}

static tide_status store_table(const tide_log_origin *origin, const tide_log_table *table,
                               tide_foreign_tx *tx, tide_error *err)
{
    TIDE_BUFFER(bytes, (size_t)1 << 24);
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *checkpoint = NULL;
    tide_uuid id;
    char text[TIDE_UUID_TEXT_SIZE];
    TIDE_TRY(tide_cursor_encode(&table->cursor, &bytes, err));
    TIDE_TRY(tide_foreign_begin(&query, tx, TIDE_TEMPLATE_APPLY_CURSOR_PUT->text, err));
    bind_origin(query, &origin->origin, origin->epoch);
    tide_foreign_bind_text(query, "table", tide_view_of(table->name));
    tide_foreign_bind_blob(query, "cursor", tide_buffer_view(&bytes));
    tide_foreign_bind_i64(query, "last", table->last_seq);
    TIDE_TRY(tide_foreign_run(query, NULL, err));
    memcpy(id.bytes, origin->origin.bytes, TIDE_UUID_LEN);
    tide_uuid_format(&id, text);
    TIDE_TRY(tide_foreign_begin(&checkpoint, tx, TIDE_TEMPLATE_APPLY_CHECKPOINT_PUT->text, err));
    bind_origin(checkpoint, &origin->origin, origin->epoch);
    tide_foreign_bind_text(checkpoint, "table", tide_view_of(table->name));
    tide_foreign_bind_text(checkpoint, "node", tide_view_of(text));
    tide_foreign_bind_i64(checkpoint, "seq", tide_cursor_contiguous(&table->cursor));
    return tide_foreign_run(checkpoint, NULL, err);
}

tide_status tide_log_origin_store(tide_log_origin *origin, tide_foreign_tx *tx, tide_error *err)
{
    TIDE_BUFFER(bytes, (size_t)1 << 24);
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    TIDE_TRY(tide_cursor_encode(&origin->cursor, &bytes, err));
    TIDE_TRY(tide_foreign_begin(&query, tx, TIDE_TEMPLATE_APPLY_ORIGIN_PUT->text, err));
    bind_origin(query, &origin->origin, origin->epoch);
    tide_foreign_bind_i64(query, "start", origin->start);
    tide_foreign_bind_i64(query, "floor", origin->floor);
    tide_foreign_bind_blob(query, "cursor", tide_buffer_view(&bytes));
    TIDE_TRY(tide_foreign_run(query, NULL, err));
    if (origin->is_new)
        TIDE_TRY(tide_again_meet(tx, &origin->origin, origin->epoch, err));
    origin->is_new = false;
    for (int i = 0; i < origin->table_count; i++)
        TIDE_TRY(store_table(origin, &origin->tables[i], tx, err));
    return TIDE_OK;
}

/* ---- events ---- */

/* The names that an event's columns had. */
typedef struct column_names {
    const tide_table *table; /* whose schema it is; NULL: one that the table has had, below */
    tide_view columns;
    tide_view key;
} column_names;

static tide_view name_of(const column_names *names, int column)
{
    if (!names->table)
        return tide_schemas_name(names->columns, column);
    return column < names->table->column_count ? tide_view_of(names->table->columns[column].name)
                                               : (tide_view){.len = 0};
}

static int key_column(const column_names *names, int index)
{
    uint32_t position = UINT32_MAX;
    if (names->table)
        return index < names->table->key_count ? names->table->key[index] : TIDE_EVENT_COLUMNS_MAX;
    tide_reader keys = tide_reader_of(names->key);
    for (int i = 0; i <= index; i++)
        if (tide_reader_u32(&keys, &position) < TIDE_OK || position >= TIDE_EVENT_COLUMNS_MAX)
            return TIDE_EVENT_COLUMNS_MAX;
    return (int)position;
}

/* The `data` of the replication document, for people: written columns by the names that they had, the same on every node. The event's own bytes are what is replicated. TIDE_NONE:
 * its schema is not known here (yet). */
static tide_status put_data(tide_buffer *out, const tide_desk *desk, const tide_event *event,
                            tide_error *err)
{
    tide_json json;
    const tide_table *table = tide_desk_table(desk, event->table);
    column_names names = {.table = table && table->schema == event->schema ? table : NULL};
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    if (!names.table) {
        TIDE_TRY_FOUND(tide_schemas_columns(&names.columns, &names.key, &query, desk->tx,
                                            table ? table->name : event->table, event->schema,
                                            err));
    }
    tide_json_init(&json, out);
    tide_json_object_begin(&json);
    for (int i = 0; i < event->key_count; i++)
        tide_value_json_member(&json, name_of(&names, key_column(&names, i)), &event->key[i]);
    for (int i = 0; event->kind != TIDE_ROW_DELETE && !event->is_orphan && !event->is_dismissal &&
                    i < event->column_count;
         i++)
        tide_value_json_member(&json, name_of(&names, event->columns[i].column),
                               &event->columns[i].value);
    tide_json_object_end(&json);
    return tide_json_finish(&json) < TIDE_OK ? tide_no_memory(err) : TIDE_OK;
}

static int64_t digest_data(tide_view id, tide_view data)
{
    return data.len > 0 ? tide_value_digest("data", id, data) : 0;
}

static int64_t digest_told(const tide_told *told)
{
    char numbers[80];
    (void)snprintf(numbers, sizeof numbers, "%" PRId64 " %" PRId64 " %" PRId64, told->timestamp_ms,
                   told->epoch, told->seq);
    /* An empty text of a file has no address. */
    const tide_view record = told->record.len > 0 ? told->record : tide_view_of("");
    return tide_value_digest("operation", told->id, told->operation) ^
           tide_value_digest("record", told->id, record) ^
           tide_value_digest("numbers", told->id, tide_view_of(numbers)) ^
           digest_data(told->id, told->data);
}

tide_status tide_log_check_told(const tide_told *told, tide_foreign_query *query, tide_error *err)
{
    const bool is_unchecked = tide_foreign_col_is_null(query);
    const int64_t stored = tide_foreign_col_i64(query);
    return is_unchecked
               ? TIDE_OK
               : tide_value_digest_check(stored, digest_told(told), "event", told->id, err);
}

tide_status tide_log_put(tide_desk *desk, const tide_event *event, tide_view bytes,
                         bool is_processed, tide_error *err)
{
    static const char *const operations[] = {"create", "update", "delete"};
    TIDE_BUFFER(record, (size_t)TIDE_EVENT_BYTES_MAX * 2);
    TIDE_BUFFER(data, (size_t)TIDE_EVENT_BYTES_MAX * 8);
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    char id[TIDE_UUID_TEXT_SIZE];
    if (tide_key_text(&record, event->key, event->key_count) < TIDE_OK)
        return tide_no_memory(err);
    tide_event_id(id, event);
    TIDE_TRY(tide_foreign_begin(&query, desk->tx, TIDE_TEMPLATE_APPLY_EVENT_PUT->text, err));
    bind_origin(query, &event->origin, event->epoch);
    tide_foreign_bind_i64(query, "seq", event->seq);
    tide_foreign_bind_i64(query, "cut", event->cut_seq);
    tide_foreign_bind_text(query, "id", tide_view_of(id));
    tide_foreign_bind_text(query, "table", tide_view_of(event->table));
    tide_foreign_bind_text(query, "operation", tide_view_of(operations[event->kind]));
    tide_foreign_bind_text(query, "record", tide_buffer_view(&record));
    const tide_status is_known = put_data(&data, desk, event, err);
    TIDE_TRY(is_known);
    tide_told told = {.id = tide_view_of(id),
                      .operation = tide_view_of(operations[event->kind]),
                      .record = tide_buffer_view(&record),
                      .timestamp_ms = tide_stamp_us(&event->stamp) / 1000,
                      .epoch = event->epoch,
                      .seq = event->seq};
    if (is_known == TIDE_OK) {
        told.data = tide_buffer_view(&data);
        tide_foreign_bind_text(query, "data", told.data);
    }
    tide_foreign_bind_i64(query, "digest", digest_told(&told));
    tide_foreign_bind_i64(query, "timestamp", told.timestamp_ms);
    tide_foreign_bind_i64(query, "processed", is_processed ? 1 : 0);
    tide_foreign_bind_i64(query, "stamp", (int64_t)event->stamp.time);
    tide_foreign_bind_blob(query, "body", bytes);
    return tide_foreign_run(query, NULL, err);
}

/* 0: its data is not known. */
static int64_t digest_data_of(const tide_event *event, tide_status is_known,
                              const tide_buffer *data)
{
    char id[TIDE_UUID_TEXT_SIZE];
    tide_event_id(id, event);
    return is_known == TIDE_OK ? digest_data(tide_view_of(id), tide_buffer_view(data)) : 0;
}

tide_status tide_log_set_processed(const tide_desk *desk, const tide_event *event, tide_error *err)
{
    TIDE_BUFFER(data, (size_t)TIDE_EVENT_BYTES_MAX * 8);
    TIDE_FOREIGN_QUERY_BY(query, tide_foreign_begin, desk->tx,
                          TIDE_TEMPLATE_APPLY_EVENT_PROCESSED->text, err);
    const tide_status is_known = put_data(&data, desk, event, err);
    TIDE_TRY(is_known);
    if (is_known == TIDE_OK)
        tide_foreign_bind_text(query, "data", tide_buffer_view(&data));
    tide_foreign_bind_i64(query, "digest", digest_data_of(event, is_known, &data));
    bind_origin(query, &event->origin, event->epoch);
    tide_foreign_bind_i64(query, "seq", event->seq);
    return tide_foreign_run(query, NULL, err);
}

/* Events borrow from their bytes: the desk keeps those. */
static tide_status keep_event(tide_event *out, tide_desk *desk, tide_view body, tide_error *err)
{
    const char *copy = tide_arena_copy(&desk->arena, body.ptr, body.len);
    TIDE_NEED_MEMORY(copy, err);
    return tide_event_decode(out, tide_view_bytes(copy, body.len), err);
}

static tide_status next_without_data(tide_event *out, tide_desk *desk, const tide_event *after,
                                     tide_error *err)
{
    TIDE_FOREIGN_QUERY_BY(query, tide_foreign_begin, desk->tx,
                          TIDE_TEMPLATE_APPLY_EVENT_WITHOUT_DATA->text, err);
    bind_origin(query, &after->origin, after->epoch);
    tide_foreign_bind_i64(query, "seq", after->seq);
    TIDE_TRY_FOUND(tide_foreign_step(query, err));
    return keep_event(out, desk, tide_foreign_col_bytes(query), err);
}

tide_status tide_log_fill_data(tide_desk *desk, tide_error *err)
{
    tide_event last = {.seq = 0};
    for (;;) {
        TIDE_CLEANUP(tide_event_done) tide_event event = {.columns = NULL};
        TIDE_OK_IF_NONE(next_without_data(&event, desk, &last, err));
        TIDE_TRY(tide_log_set_processed(desk, &event, err));
        last.origin = event.origin;
        last.epoch = event.epoch;
        last.seq = event.seq;
    }
}

typedef struct waiting_place {
    int64_t stamp;
    int64_t row;
} waiting_place;

static tide_status next_waiting(tide_event *out, tide_desk *desk, waiting_place *place,
                                tide_error *err)
{
    TIDE_FOREIGN_QUERY_ONE(query, desk->tx, TIDE_TEMPLATE_APPLY_WAITING_WITHOUT_DATA->text, err,
                           tide_bind_i64("stamp", place->stamp), tide_bind_i64("row", place->row));
    place->stamp = tide_foreign_col_i64(query);
    place->row = tide_foreign_col_i64(query);
    return keep_event(out, desk, tide_foreign_col_bytes(query), err);
}

tide_status tide_log_fill_waiting(tide_desk *desk, tide_error *err)
{
    waiting_place place = {.stamp = INT64_MIN};
    for (;;) {
        TIDE_CLEANUP(tide_event_done) tide_event event = {.columns = NULL};
        TIDE_BUFFER(data, (size_t)TIDE_EVENT_BYTES_MAX * 8);
        TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *put = NULL;
        tide_status status = next_waiting(&event, desk, &place, err);
        if (status != TIDE_OK)
            return status < TIDE_OK ? status : TIDE_OK;
        status = put_data(&data, desk, &event, err);
        TIDE_TRY(status);
        if (status == TIDE_NONE)
            continue;
        TIDE_TRY(tide_foreign_start(&put, desk->tx, TIDE_TEMPLATE_APPLY_EVENT_DATA_PUT->text, err,
                                    tide_bind_view("data", tide_buffer_view(&data))));
        tide_foreign_bind_i64(put, "digest", digest_data_of(&event, TIDE_OK, &data));
        bind_origin(put, &event.origin, event.epoch);
        tide_foreign_bind_i64(put, "seq", event.seq);
        TIDE_TRY(tide_foreign_run(put, NULL, err));
    }
}

/* ---- marks ---- */

typedef struct marks_call {
    tide_mark_fn *fn;
    void *arg;
} marks_call;

static tide_status find_stamp(tide_origin_mark *mark, tide_foreign_tx *tx, tide_error *err)
{
    TIDE_FOREIGN_QUERY_BY(query, tide_foreign_begin, tx, TIDE_TEMPLATE_SELF_STAMP->text, err);
    bind_origin(query, &mark->origin, mark->epoch);
    tide_foreign_bind_i64(query, "seq", mark->prefix);
    const tide_status status = tide_foreign_step(query, err);
    mark->stamp = status == TIDE_OK ? tide_foreign_col_i64(query) : 0;
    return status < TIDE_OK ? status : TIDE_OK;
}

tide_status tide_log_marks(tide_foreign_tx *tx, tide_mark_fn *fn, void *arg, tide_error *err)
{
    TIDE_FOREIGN_QUERY_BY(query, tide_foreign_begin, tx, TIDE_TEMPLATE_APPLY_ORIGIN_LIST->text,
                          err);
    TIDE_EACH(tide_foreign_step(query, err)) {
        tide_origin_mark mark = {.epoch = 0};
        const tide_view origin = tide_foreign_col_bytes(query);
        if (origin.len != TIDE_NODE_LEN)
            return tide_fail(err, TIDE_E_DAMAGED, "an origin's id of %zu bytes", origin.len);
        memcpy(mark.origin.bytes, origin.ptr, TIDE_NODE_LEN);
        mark.epoch = tide_foreign_col_i64(query);
        mark.start = tide_foreign_col_i64(query);
        mark.floor = tide_foreign_col_i64(query);
        TIDE_CLEANUP(tide_cursor_done) tide_cursor cursor = {.contiguous = 0};
        TIDE_TRY(
            tide_cursor_decode(&cursor, tide_foreign_col_bytes(query), TIDE_LOG_HOLES_MAX, err));
        (void)tide_cursor_raise(&cursor, mark.start);
        mark.prefix = tide_cursor_contiguous(&cursor);
        mark.highest = tide_cursor_highest(&cursor);
        TIDE_TRY(find_stamp(&mark, tx, err));
        TIDE_TRY(fn(arg, &mark, err));
    }
    return TIDE_OK;
}

static tide_status give_marks(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    const marks_call *call = arg;
    return tide_log_marks(tx, call->fn, call->arg, err);
}

tide_status tide_node_marks(tide_node *node, tide_mark_fn *fn, void *arg, tide_error *err)
{
    marks_call call = {.fn = fn, .arg = arg};
    return tide_foreign_read(tide_node_file(node), give_marks, &call, err);
}

/* ---- what peers say of an origin before they send its events ---- */

typedef struct learn_call {
    tide_node *node;
    const tide_origin_mark *mark;
} learn_call;

static tide_status learn_start(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    const learn_call *call = arg;
    const tide_origin_mark *mark = call->mark;
    const tide_node_id self = tide_node_get_id(call->node);
    TIDE_CLEANUP(tide_log_origin_done) tide_log_origin origin = {.tables = NULL};
    TIDE_TRY(tide_log_origin_load(&origin, tx, &mark->origin, mark->epoch, err));
    if (memcmp(&self, &mark->origin, sizeof self) == 0 &&
        mark->epoch >= tide_node_epoch(call->node))
        return TIDE_OK; /* we know best ourselves */
    if (!origin.is_new && origin.start >= mark->start)
        return TIDE_OK;
    origin.start = mark->start;
    if (origin.floor < mark->start)
        origin.floor = mark->start;
    (void)tide_cursor_raise(&origin.cursor, mark->start);
    return tide_log_origin_store(&origin, tx, err);
}

tide_status tide_node_learn(tide_node *node, const tide_origin_mark *mark, tide_error *err)
{
    if (mark->epoch < 1 || mark->epoch > TIDE_EPOCH_MAX || mark->start < 0 ||
        mark->start > mark->highest || mark->floor < 0)
        return tide_fail(err, TIDE_E_INVALID,
                         "an origin's mark does not fit together: epoch %" PRId64 ", start %" PRId64
                         ", highest %" PRId64,
                         mark->epoch, mark->start, mark->highest);
    learn_call call = {.node = node, .mark = mark};
    return tide_foreign_write(tide_node_file(node), learn_start, &call, err);
}

/* ---- reading ---- */

typedef struct read_call {
    const tide_node_id *origin;
    int64_t epoch;
    int64_t after;
    int64_t max_rows;
    int64_t max_bytes;
    tide_event_fn *fn;
    void *arg;
    bool is_own; /* the log that this node writes */
    int64_t through;
    bool more;
} read_call;

/* Where a page ends: behind the last batch that fits; inside one that is larger than a page. */
static tide_status find_end(const read_call *call, tide_foreign_tx *tx, int64_t prefix,
                            int64_t *end, tide_error *err)
{
    int64_t rows = 0;
    int64_t bytes = 0;
    int64_t last = call->after;
    int64_t whole = last;
    TIDE_FOREIGN_QUERY_BY(query, tide_foreign_begin, tx, TIDE_TEMPLATE_APPLY_EVENT_SIZES->text,
                          err);
    bind_origin(query, call->origin, call->epoch);
    tide_foreign_bind_i64(query, "after", call->after);
    tide_foreign_bind_i64(query, "through", prefix);
    TIDE_EACH(tide_foreign_step(query, err)) {
        const int64_t seq = tide_foreign_col_i64(query);
        const int64_t cut = tide_foreign_col_i64(query);
        bytes += tide_foreign_col_i64(query);
        rows++;
        if (cut > prefix && call->is_own)
            break; /* under way (fold.h): if the file is put back now, its rest never comes */
        if (rows > 1 && (rows > call->max_rows || bytes > call->max_bytes)) {
            *end = whole > call->after ? whole : last;
            return TIDE_OK;
        }
        last = seq;
        if (seq == cut)
            whole = seq;
    }
    *end = whole > call->after ? whole : last;
    return TIDE_OK;
}

static tide_status give_events(const read_call *call, tide_foreign_tx *tx, tide_error *err)
{
    TIDE_FOREIGN_QUERY_BY(query, tide_foreign_begin, tx, TIDE_TEMPLATE_APPLY_EVENT_BODIES->text,
                          err);
    bind_origin(query, call->origin, call->epoch);
    tide_foreign_bind_i64(query, "after", call->after);
    tide_foreign_bind_i64(query, "through", call->through);
    TIDE_EACH(tide_foreign_step(query, err)) {
        const int64_t seq = tide_foreign_col_i64(query);
        const int64_t cut = tide_foreign_col_i64(query);
        const tide_view body = tide_foreign_col_bytes(query);
        TIDE_TRY(tide_event_check(body, call->origin, call->epoch, seq, cut, err));
        TIDE_TRY(call->fn(call->arg, body, seq, cut, err));
    }
    return TIDE_OK;
}

static tide_status read_page(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    read_call *call = arg;
    TIDE_CLEANUP(tide_log_origin_done) tide_log_origin origin = {.tables = NULL};
    TIDE_TRY(tide_log_origin_load(&origin, tx, call->origin, call->epoch, err));
    call->through = call->after;
    call->more = false;
    if (call->after < origin.floor && origin.floor > origin.start)
        return tide_fail(err, TIDE_E_NOT_FOUND,
                         "events up to %" PRId64 " are gone: a snapshot is required", origin.floor);
    const int64_t prefix = tide_cursor_contiguous(&origin.cursor);
    TIDE_TRY(find_end(call, tx, prefix, &call->through, err));
    call->more = call->through > call->after && call->through < prefix;
    return call->through > call->after ? give_events(call, tx, err) : TIDE_OK;
}

tide_status tide_node_read(tide_node *node, const tide_node_id *origin, int64_t epoch,
                           int64_t after, int64_t max_rows, int64_t max_bytes, tide_event_fn *fn,
                           void *arg, int64_t *through, bool *more, tide_error *err)
{
    const tide_node_id self = tide_node_get_id(node);
    read_call call = {.origin = origin,
                      .epoch = epoch,
                      .is_own =
                          memcmp(&self, origin, sizeof self) == 0 && epoch == tide_node_epoch(node),
                      .after = after < 0 ? 0 : after,
                      .max_rows = max_rows,
                      .max_bytes = max_bytes,
                      .fn = fn,
                      .arg = arg};
    TIDE_TRY(tide_foreign_read(tide_node_file(node), read_page, &call, err));
    *through = call.through;
    *more = call.more;
    return TIDE_OK;
}

tide_status tide_log_add_own(tide_desk *desk, tide_log_origin *origin, const tide_table *table,
                             tide_event *event, tide_error *err)
{
    tide_log_table *log = NULL;
    event->origin = desk->node;
    event->epoch = desk->epoch;
    event->schema = table->schema;
    (void)snprintf(event->table, sizeof event->table, "%s", table->name);
    TIDE_TRY(tide_foreign_exec(desk->tx, TIDE_TEMPLATE_REPLICA_SEQ_ADD->text, NULL, err,
                               tide_bind_i64("table_id", table->id)));
    TIDE_TRY(tide_foreign_number(&event->seq, desk->tx, TIDE_TEMPLATE_REPLICA_SEQ_LAST->text, err,
                                 TIDE_NO_BIND));
    event->cut_seq = event->seq;
    TIDE_TRY(tide_log_origin_table(&log, origin, desk->tx, table->name, err));
    assert(log);
    event->prev_seq = log->last_seq;
    TIDE_TRY(tide_hybrid_next(&desk->clock, desk->now_us, &event->stamp, err));
    TIDE_BUFFER(bytes, TIDE_EVENT_BYTES_MAX);
    TIDE_TRY(tide_event_encode(&bytes, event, err));
    TIDE_TRY(tide_log_settle(origin, desk->tx, event, err));
    return tide_log_put(desk, event, tide_buffer_view(&bytes), true, err);
}
