/* snapshot_decode.c - records of a snapshot, which somebody else may have written: see snapshot_record.h. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "replica/snapshot_decode.h"

enum { ARENA_MAX = 1 << 30, SQL_MAX = 1 << 20 };

static bool has_nul(tide_view text)
{
    return text.len > 0 && memchr(text.ptr, '\0', text.len);
}

/* ---- the beginning ---- */

static tide_status read_begin(tide_snapshot_decoder *d, tide_reader *from, tide_error *err)
{
    tide_snapshot_begin *begin = &d->begin;
    if (!tide_snapshot_get_node(from, &begin->node) ||
        !tide_snapshot_get_number(from, TIDE_EPOCH_MAX, &begin->epoch) ||
        tide_reader_varint_shortest(from, &begin->clock) < TIDE_OK || begin->clock > INT64_MAX ||
        !tide_snapshot_get_number(from, TIDE_SYNC_ORIGINS_MAX, &begin->origins) ||
        !tide_snapshot_get_number(from, TIDE_SYNC_TABLES_MAX, &begin->tables))
        return tide_snapshot_fail_record(d, "it cannot be read", err);
    return TIDE_OK;
}

static int compare_logs(const tide_origin_mark *a, const tide_origin_mark *b)
{
    const int order = memcmp(a->origin.bytes, b->origin.bytes, TIDE_NODE_LEN);
    return order != 0 ? order : (a->epoch > b->epoch) - (a->epoch < b->epoch);
}

static tide_status keep_origin(tide_snapshot_decoder *d, const tide_origin_mark *mark,
                               tide_error *err)
{
    if (d->origin_count >= d->begin.origins)
        return tide_snapshot_fail_record(d, "there are more than were told", err);
    if (d->origin_count > 0 && compare_logs(&d->origins[d->origin_count - 1], mark) >= 0)
        return tide_snapshot_fail_record(d, "they do not ascend", err);
    TIDE_TRY(tide_list_room(&d->origins, d->origin_count, sizeof *d->origins, TIDE_SYNC_ORIGINS_MAX,
                            err));
    d->origins[d->origin_count++] = *mark;
    return TIDE_OK;
}

static tide_status read_origin(tide_snapshot_decoder *d, tide_reader *from, tide_origin_mark *mark,
                               tide_error *err)
{
    if (!tide_snapshot_get_node(from, &mark->origin) ||
        !tide_snapshot_get_number(from, TIDE_EPOCH_MAX, &mark->epoch) ||
        !tide_snapshot_get_number(from, INT64_MAX, &mark->start) ||
        !tide_snapshot_get_number(from, INT64_MAX, &mark->floor) ||
        !tide_snapshot_get_number(from, INT64_MAX, &mark->prefix) ||
        !tide_snapshot_get_number(from, INT64_MAX, &mark->highest))
        return tide_snapshot_fail_record(d, "it cannot be read", err);
    if (mark->epoch < 1 || mark->floor > mark->prefix || mark->start > mark->prefix ||
        mark->prefix > mark->highest)
        return tide_snapshot_fail_record(d, "its marks do not fit together", err);
    return keep_origin(d, mark, err);
}

static tide_status keep_texts(tide_snapshot_decoder *d, tide_reader *from, char ***out, int count,
                              size_t most, tide_error *err)
{
    *out = tide_arena_alloc(&d->kept, ((size_t)count + 1) * sizeof **out);
    TIDE_NEED_MEMORY(*out, err);
    for (int i = 0; i < count; i++) {
        tide_view text;
        if (!tide_snapshot_get_bytes(from, most, &text) || text.len == 0 || has_nul(text))
            return tide_snapshot_fail_record(d, "a text cannot be read", err);
        (*out)[i] = tide_arena_text(&d->kept, text);
        TIDE_NEED_MEMORY((*out)[i], err);
    }
    (*out)[count] = NULL;
    return TIDE_OK;
}

static tide_status read_key(tide_snapshot_decoder *d, tide_reader *from, tide_snapshot_table *table,
                            tide_error *err)
{
    if (!tide_snapshot_get_int(from, TIDE_EVENT_KEY_MAX, &table->key_count) || table->key_count < 1)
        return tide_snapshot_fail_record(d, "its key cannot be read", err);
    for (int i = 0; i < table->key_count; i++) {
        if (!tide_snapshot_get_int(from, table->column_count - 1, &table->key[i]))
            return tide_snapshot_fail_record(d, "its key cannot be read", err);
        for (int k = 0; k < i; k++)
            if (table->key[k] == table->key[i])
                return tide_snapshot_fail_record(d, "its key names a column twice", err);
    }
    return TIDE_OK;
}

static bool keep_bytes(tide_snapshot_decoder *d, tide_reader *from, tide_view *out)
{
    tide_view bytes;
    if (!tide_snapshot_get_bytes(from, TIDE_SYNC_SCHEMA_BYTES_MAX, &bytes))
        return false;
    *out = tide_view_bytes(tide_arena_copy(&d->kept, bytes.ptr, bytes.len), bytes.len);
    return out->ptr;
}

/* What it was like before. */
static tide_status read_past(tide_snapshot_decoder *d, tide_reader *from,
                             tide_snapshot_table *table, tide_error *err)
{
    int count = 0;
    if (!tide_snapshot_get_int(from, TIDE_SYNC_SCHEMAS_MAX, &count))
        return tide_snapshot_fail_record(d, "its schemas cannot be read", err);
    table->schemas = tide_arena_alloc(&d->kept, ((size_t)count + 1) * sizeof *table->schemas);
    TIDE_NEED_MEMORY(table->schemas, err);
    for (int i = 0; i < count; i++) {
        tide_peer_schema *schema = &table->schemas[i];
        if (tide_reader_u64(from, &schema->schema) < TIDE_OK ||
            !keep_bytes(d, from, &schema->columns) || !keep_bytes(d, from, &schema->becomes) ||
            !keep_bytes(d, from, &schema->key))
            return tide_snapshot_fail_record(d, "a schema cannot be read", err);
    }
    table->schema_count = count;
    if (!tide_snapshot_get_int(from, TIDE_SYNC_SCHEMAS_MAX, &table->former_count))
        return tide_snapshot_fail_record(d, "its former names cannot be read", err);
    TIDE_TRY(keep_texts(d, from, &table->former, table->former_count, TIDE_EVENT_TABLE_MAX, err));
    return keep_bytes(d, from, &table->loose)
               ? TIDE_OK
               : tide_snapshot_fail_record(d, "its references cannot be read", err);
}

static tide_status read_table(tide_snapshot_decoder *d, tide_reader *from, tide_error *err)
{
    tide_view name;
    int statements = 0;
    if (d->table_count >= d->begin.tables)
        return tide_snapshot_fail_record(d, "there are more than were told", err);
    TIDE_TRY(tide_list_room(&d->tables, d->table_count, sizeof *d->tables, TIDE_LIST_MAX, err));
    tide_snapshot_table *table = &d->tables[d->table_count];
    *table = (tide_snapshot_table){.schema = 0};
    if (!tide_snapshot_get_bytes(from, TIDE_EVENT_TABLE_MAX, &name) || name.len == 0 ||
        has_nul(name) || tide_reader_u64(from, &table->schema) < TIDE_OK ||
        !tide_snapshot_get_number(from, INT64_MAX, &table->retain_us) ||
        !tide_snapshot_get_int(from, TIDE_TABLE_COLUMNS_MAX, &table->column_count) ||
        table->column_count < 1)
        return tide_snapshot_fail_record(d, "it cannot be read", err);
    memcpy(table->name, name.ptr, name.len);
    for (int i = 0; i < d->table_count; i++)
        if (strcmp(d->tables[i].name, table->name) == 0)
            return tide_snapshot_fail_record(d, "it stands there twice", err);
    TIDE_TRY(keep_texts(d, from, &table->columns, table->column_count, SQL_MAX, err));
    TIDE_TRY(read_key(d, from, table, err));
    if (!tide_snapshot_get_int(from, TIDE_SYNC_TABLE_SQL_MAX, &statements))
        return tide_snapshot_fail_record(d, "its statements cannot be read", err);
    TIDE_TRY(keep_texts(d, from, &table->sql, statements, SQL_MAX, err));
    TIDE_TRY(read_past(d, from, table, err));
    d->table_count++;
    return TIDE_OK;
}

/* ---- the middle ---- */

const tide_origin_mark *tide_snapshot_decoder_origin(const tide_snapshot_decoder *d,
                                                     const tide_node_id *origin, int64_t epoch)
{
    const tide_origin_mark wanted = {.origin = *origin, .epoch = epoch};
    int low = 0;
    int high = d->origin_count;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (compare_logs(&d->origins[middle], &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < d->origin_count && compare_logs(&d->origins[low], &wanted) == 0 ? &d->origins[low]
                                                                                 : NULL;
}

static tide_status read_cursor(tide_snapshot_decoder *d, tide_reader *from,
                               tide_snapshot_cursor *out, tide_error *err)
{
    if (!tide_snapshot_get_bytes(from, TIDE_EVENT_TABLE_MAX, &out->table) || out->table.len == 0 ||
        has_nul(out->table) || !tide_snapshot_get_node(from, &out->origin) ||
        !tide_snapshot_get_number(from, TIDE_EPOCH_MAX, &out->epoch) ||
        !tide_snapshot_get_number(from, INT64_MAX, &out->prefix) ||
        !tide_snapshot_get_number(from, INT64_MAX, &out->last_seq))
        return tide_snapshot_fail_record(d, "it cannot be read", err);
    const tide_origin_mark *mark = tide_snapshot_decoder_origin(d, &out->origin, out->epoch);
    if (!mark || out->prefix > mark->highest || out->last_seq > mark->highest)
        return tide_snapshot_fail_record(d, "it does not fit its log", err);
    return TIDE_OK;
}

static tide_status read_event(tide_snapshot_decoder *d, tide_reader *from, tide_snapshot_event *out,
                              tide_error *err)
{
    if (!tide_snapshot_get_flag(from, &out->is_processed) ||
        !tide_snapshot_get_bytes(from, 64, &out->reason) ||
        !tide_snapshot_get_bytes(from, 4096, &out->detail) ||
        !tide_snapshot_get_number(from, INT64_MAX, &out->found_at_us) ||
        !tide_snapshot_get_bytes(from, TIDE_EVENT_BYTES_MAX, &out->body))
        return tide_snapshot_fail_record(d, "it cannot be read", err);
    tide_event_done(&d->event);
    const tide_status status = tide_event_decode(&d->event, out->body, err);
    if (status == TIDE_E_NOMEM)
        return status;
    if (status < TIDE_OK)
        return tide_snapshot_fail_record(d, "its body cannot be read", err);
    const tide_event *event = &d->event;
    const tide_origin_mark *mark = tide_snapshot_decoder_origin(d, &event->origin, event->epoch);
    if (!mark || event->seq > mark->highest || event->seq <= mark->start ||
        memcmp(&event->stamp.node, &event->origin, sizeof event->origin) != 0)
        return tide_snapshot_fail_record(d, "it does not fit its log", err);
    out->event = *event; /* lent */
    d->counted.events++;
    return TIDE_OK;
}

/* ---- sums, the end ---- */

static tide_status read_sum(tide_snapshot_decoder *d, tide_reader *from, tide_snapshot_sum *out,
                            tide_error *err)
{
    tide_view digest;
    if (!tide_snapshot_get_int(from, d->table_count - 1, &out->table) ||
        out->table != d->table_at || !tide_snapshot_get_number(from, INT64_MAX, &out->rows) ||
        tide_reader_bytes(from, sizeof out->digest, &digest) < TIDE_OK)
        return tide_snapshot_fail_record(d, "it cannot be read", err);
    memcpy(out->digest, digest.ptr, sizeof out->digest);
    d->table_at++;
    d->has_last_key = false;
    return TIDE_OK;
}

static tide_status read_end(tide_snapshot_decoder *d, tide_reader *from, tide_snapshot_end *out,
                            tide_error *err)
{
    if (!tide_snapshot_get_number(from, INT64_MAX, &out->rows) ||
        !tide_snapshot_get_number(from, INT64_MAX, &out->events))
        return tide_snapshot_fail_record(d, "it cannot be read", err);
    if (out->rows != d->counted.rows || out->events != d->counted.events)
        return tide_snapshot_fail_record(d, "other numbers of rows and events than there are", err);
    return TIDE_OK;
}

/* ---- the order of records ---- */

static bool may_follow(const tide_snapshot_decoder *d, tide_snapshot_kind kind)
{
    const bool has_origins = d->origin_count == d->begin.origins;
    const bool has_tables = d->table_count == d->begin.tables;
    switch (kind) {
    case TIDE_SNAPSHOT_BEGIN:
        return d->stage == 0;
    case TIDE_SNAPSHOT_ORIGIN:
    case TIDE_SNAPSHOT_TABLE:
        return d->stage >= TIDE_SNAPSHOT_BEGIN && d->stage <= kind &&
               (kind == TIDE_SNAPSHOT_ORIGIN || has_origins);
    case TIDE_SNAPSHOT_CURSOR:
    case TIDE_SNAPSHOT_EVENT:
        return d->stage >= TIDE_SNAPSHOT_BEGIN && d->stage <= kind && has_origins && has_tables;
    case TIDE_SNAPSHOT_ROW:
    case TIDE_SNAPSHOT_SUM:
        return d->stage >= TIDE_SNAPSHOT_BEGIN && d->stage < TIDE_SNAPSHOT_END && has_origins &&
               has_tables && d->table_at < d->table_count;
    case TIDE_SNAPSHOT_END:
        return d->stage >= TIDE_SNAPSHOT_BEGIN && d->stage < TIDE_SNAPSHOT_END && has_origins &&
               has_tables && d->table_at == d->table_count;
    }
    return false;
}

static tide_status read_body(tide_snapshot_decoder *d, tide_reader *from, tide_snapshot_record *out,
                             tide_error *err)
{
    switch (out->kind) {
    case TIDE_SNAPSHOT_BEGIN:
        TIDE_TRY(read_begin(d, from, err));
        out->as.begin = d->begin;
        return TIDE_OK;
    case TIDE_SNAPSHOT_ORIGIN:
        return read_origin(d, from, &out->as.origin, err);
    case TIDE_SNAPSHOT_TABLE:
        TIDE_TRY(read_table(d, from, err));
        out->as.table = &d->tables[d->table_count - 1];
        return TIDE_OK;
    case TIDE_SNAPSHOT_CURSOR:
        return read_cursor(d, from, &out->as.cursor, err);
    case TIDE_SNAPSHOT_EVENT:
        return read_event(d, from, &out->as.event, err);
    case TIDE_SNAPSHOT_ROW:
        return tide_snapshot_read_row(d, from, &out->as.row, err);
    case TIDE_SNAPSHOT_SUM:
        return read_sum(d, from, &out->as.sum, err);
    case TIDE_SNAPSHOT_END:
        break;
    }
    return read_end(d, from, &out->as.end, err);
}

static tide_status read_record(tide_snapshot_decoder *d, tide_snapshot_record *out, tide_error *err)
{
    tide_view bytes;
    uint8_t kind = 0;
    const tide_status status = tide_snapshot_reader_next(d->reader, &bytes, err);
    TIDE_TRY(status);
    if (status == TIDE_NONE)
        return d->stage == TIDE_SNAPSHOT_END
                   ? TIDE_NONE
                   : tide_snapshot_fail_record(d, "the last records are missing", err);
    tide_reader from = tide_reader_of(bytes);
    if (tide_reader_byte(&from, &kind) < TIDE_OK || kind < TIDE_SNAPSHOT_BEGIN ||
        kind > TIDE_SNAPSHOT_END || !may_follow(d, (tide_snapshot_kind)kind))
        return tide_snapshot_fail_record(d, "what follows it cannot stand there", err);
    tide_arena_reset(&d->scratch);
    *out = (tide_snapshot_record){.kind = (tide_snapshot_kind)kind};
    d->stage = out->kind;
    TIDE_TRY(read_body(d, &from, out, err));
    return tide_reader_left(&from) == 0 ? TIDE_OK
                                        : tide_snapshot_fail_record(d, "it is too long", err);
}

tide_status tide_snapshot_decoder_init(tide_snapshot_decoder *d, tide_snapshot_reader *reader,
                                       tide_error *err)
{
    *d = (tide_snapshot_decoder){.reader = reader};
    tide_arena_init(&d->kept, ARENA_MAX);
    tide_arena_init(&d->scratch, ARENA_MAX);
    tide_buffer_init(&d->last_key, TIDE_SNAPSHOT_RECORD_MAX);
    do {
        tide_snapshot_record record = {.kind = TIDE_SNAPSHOT_END};
        const tide_status status = read_record(d, &record, err);
        TIDE_TRY(status);
        if (status == TIDE_NONE || record.kind > TIDE_SNAPSHOT_TABLE)
            return tide_snapshot_fail_record(d, "its origins and tables are missing", err);
    } while (d->origin_count < d->begin.origins || d->table_count < d->begin.tables);
    return TIDE_OK;
}

void tide_snapshot_decoder_done(tide_snapshot_decoder *d)
{
    if (!d->reader)
        return;
    tide_row_clock_done(&d->clock);
    tide_event_done(&d->event);
    tide_buffer_done(&d->last_key);
    tide_arena_done(&d->kept);
    tide_arena_done(&d->scratch);
    free(d->origins);
    free(d->tables);
    *d = (tide_snapshot_decoder){.reader = NULL};
}

tide_status tide_snapshot_decoder_next(tide_snapshot_decoder *d, tide_snapshot_record *out,
                                       tide_error *err)
{
    return read_record(d, out, err);
}
