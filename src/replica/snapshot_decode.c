/* snapshot_decode.c - records of a snapshot, which somebody else may have written: see snapshot_record.h. */
#include "replica/snapshot_decode.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "replica/conflict.h"

/* ---- rows ---- */

static const char *const kind_names[] = {"",      "begin", "origin", "table", "cursor",
                                         "event", "row",   "sum",    "end"};

/* TIDE_E_DAMAGED, with the kind of the record and its place. */
static tide_status snapshot_fail_record(const tide_snapshot_decoder *d, const char *what,
                                        tide_error *err)
{
    return tide_fail(err, TIDE_E_DAMAGED, "the snapshot's %s before byte %" PRIu64 ": %s",
                     d->stage <= TIDE_SNAPSHOT_END ? kind_names[d->stage] : "record",
                     d->reader->bytes, what);
}

/* ---- pieces ---- */

static bool snapshot_get_number(tide_reader *from, int64_t most, int64_t *out)
{
    uint64_t number = 0;
    if (tide_reader_varint_shortest(from, &number) < TIDE_OK || number > (uint64_t)most)
        return false;
    *out = (int64_t)number;
    return true;
}

static bool snapshot_get_int(tide_reader *from, int most, int *out)
{
    int64_t number = 0;
    if (!snapshot_get_number(from, most, &number))
        return false;
    *out = (int)number;
    return true;
}

static bool snapshot_get_bytes(tide_reader *from, size_t most, tide_view *out)
{
    uint64_t len = 0;
    return tide_reader_varint_shortest(from, &len) >= TIDE_OK && len <= most &&
           tide_reader_bytes(from, (size_t)len, out) >= TIDE_OK;
}

static bool snapshot_get_node(tide_reader *from, tide_node_id *out)
{
    tide_view bytes;
    if (tide_reader_bytes(from, TIDE_NODE_LEN, &bytes) < TIDE_OK)
        return false;
    memcpy(out->bytes, bytes.ptr, TIDE_NODE_LEN);
    return true;
}

/* Pieces; false: they do not stand there, or are larger than they may be. */
static bool snapshot_get_flag(tide_reader *from, bool *out)
{
    uint8_t byte = 0;
    if (tide_reader_byte(from, &byte) < TIDE_OK || byte > 1)
        return false;
    *out = byte == 1;
    return true;
}

/* ---- rows ---- */

static bool is_below(const tide_snapshot_decoder *d, const tide_row_write *write)
{
    return write->stamp.time <= d->begin.clock;
}

static bool is_clock_possible(const tide_snapshot_decoder *d, const tide_snapshot_table *table)
{
    const tide_row_clock *clock = &d->clock;
    if (!is_below(d, &clock->created) || !is_below(d, &clock->deleted))
        return false;
    for (int i = 0; i < clock->column_count; i++)
        if ((clock->columns[i].column >= table->column_count &&
             clock->columns[i].column != TIDE_ROW_CLOCK_LOST) ||
            !is_below(d, &clock->columns[i].write) ||
            tide_stamp_compare(&clock->columns[i].write.stamp, &clock->created.stamp) <= 0)
            return false;
    return true;
}

static bool read_image(tide_snapshot_row *row, const tide_snapshot_table *table)
{
    tide_reader from = tide_reader_of(row->image);
    int64_t before = -1;
    while (tide_reader_left(&from) > 0) {
        int64_t column = 0;
        if (!snapshot_get_number(&from, table->column_count - 1, &column) || column <= before ||
            tide_sql_value_decode(&row->values[column], &from) < TIDE_OK)
            return false;
        row->has[column] = true;
        before = column;
    }
    return true;
}

static bool read_values(tide_snapshot_row *row, const tide_snapshot_table *table, tide_reader *from)
{
    for (int i = 0; i < table->column_count; i++) {
        if (tide_sql_value_decode(&row->values[i], from) < TIDE_OK)
            return false;
        row->has[i] = true;
    }
    return true;
}

/* The key's own values: of a row that stands they are among the columns, and must be the same. */
static bool check_key(const tide_snapshot_row *row, const tide_snapshot_table *table)
{
    tide_reader from = tide_reader_of(row->key);
    for (int i = 0; i < table->key_count; i++) {
        tide_sql_value value;
        const int column = table->key[i];
        if (tide_sql_value_decode(&value, &from) < TIDE_OK ||
            (row->has_clock && row->has[column] &&
             !tide_sql_value_equal(&value, &row->values[column])))
            return false;
    }
    return tide_reader_left(&from) == 0;
}

static tide_status read_state(tide_snapshot_decoder *d, tide_reader *from, tide_snapshot_row *row,
                              const tide_snapshot_table *table, tide_error *err)
{
    int aside = 0;
    if (!snapshot_get_bytes(from, (size_t)1 << 24, &row->clock_bytes))
        return snapshot_fail_record(d, "its clock cannot be read", err);
    const tide_status status = tide_row_clock_decode(&d->clock, row->clock_bytes, err);
    if (status == TIDE_E_NOMEM)
        return status;
    if (status < TIDE_OK || !is_clock_possible(d, table))
        return snapshot_fail_record(d, "its clock cannot be", err);
    row->clock = d->clock; /* lent */
    if (row->is_here)
        return tide_row_clock_exists(&d->clock) && read_values(row, table, from)
                   ? TIDE_OK
                   : snapshot_fail_record(d, "its values cannot be read", err);
    if (!snapshot_get_int(from, TIDE_ASIDE_FOREIGN, &aside) ||
        !snapshot_get_bytes(from, TIDE_SNAPSHOT_RECORD_MAX, &row->rival) ||
        !snapshot_get_bytes(from, TIDE_SNAPSHOT_RECORD_MAX, &row->image) || !read_image(row, table))
        return snapshot_fail_record(d, "its image cannot be read", err);
    row->aside = (tide_aside)aside;
    if ((row->aside != TIDE_ASIDE_NONE) != tide_row_clock_exists(&d->clock))
        return snapshot_fail_record(d, "it does not stand in its table, and nothing says why", err);
    return TIDE_OK;
}

static bool read_conflict(const tide_snapshot_decoder *d, tide_reader *from,
                          tide_snapshot_conflict *out, const tide_snapshot_table *table)
{
    int64_t column = 0;
    if (tide_reader_zigzag(from, &column) < TIDE_OK || column < TIDE_CONFLICT_DELETE ||
        column >= table->column_count ||
        tide_reader_varint_shortest(from, &out->stamp.time) < TIDE_OK || out->stamp.time == 0 ||
        out->stamp.time > d->begin.clock || !snapshot_get_node(from, &out->stamp.node) ||
        !snapshot_get_flag(from, &out->has_value))
        return false;
    out->column = (int)column;
    if (out->has_value) {
        tide_sql_value value;
        if (!snapshot_get_bytes(from, TIDE_SNAPSHOT_RECORD_MAX, &out->value))
            return false;
        tide_reader inside = tide_reader_of(out->value);
        if (tide_sql_value_decode(&value, &inside) < TIDE_OK || tide_reader_left(&inside) > 0)
            return false;
    }
    return snapshot_get_number(from, INT64_MAX, &out->found_at_us);
}

static bool read_known(tide_reader *from, tide_snapshot_known *out,
                       const tide_snapshot_table *table)
{
    int64_t column = 0;
    if (tide_reader_zigzag(from, &column) < TIDE_OK || column < TIDE_CONFLICT_ROW ||
        column >= table->column_count ||
        tide_reader_varint_shortest(from, &out->stamp.time) < TIDE_OK ||
        out->stamp.time > INT64_MAX || !snapshot_get_node(from, &out->stamp.node) ||
        !snapshot_get_number(from, INT64_MAX, &out->added_us))
        return false;
    out->column = (int)column;
    return true;
}

static tide_status read_conflicts(tide_snapshot_decoder *d, tide_reader *from,
                                  tide_snapshot_row *row, const tide_snapshot_table *table,
                                  tide_error *err)
{
    const int64_t most = (int64_t)tide_reader_left(from); /* each takes a byte at least */
    int64_t count = 0;
    if (!snapshot_get_number(from, most, &count))
        return snapshot_fail_record(d, "its conflicts cannot be read", err);
    row->conflicts = tide_arena_alloc(&d->scratch, ((size_t)count + 1) * sizeof *row->conflicts);
    TIDE_NEED_MEMORY(row->conflicts, err);
    for (int64_t i = 0; i < count; i++) {
        row->conflicts[i] = (tide_snapshot_conflict){.column = 0};
        if (!read_conflict(d, from, &row->conflicts[i], table))
            return snapshot_fail_record(d, "a conflict cannot be read", err);
    }
    row->conflict_count = (int)count;
    if (!snapshot_get_number(from, most, &count))
        return snapshot_fail_record(d, "its knowledge cannot be read", err);
    row->knowledge = tide_arena_alloc(&d->scratch, ((size_t)count + 1) * sizeof *row->knowledge);
    TIDE_NEED_MEMORY(row->knowledge, err);
    for (int64_t i = 0; i < count; i++)
        if (!read_known(from, &row->knowledge[i], table))
            return snapshot_fail_record(d, "its knowledge cannot be read", err);
    row->known_count = (int)count;
    return TIDE_OK;
}

static bool is_ascending(const tide_snapshot_decoder *d, tide_view key)
{
    if (!d->has_last_key)
        return true;
    const tide_view last = tide_buffer_view(&d->last_key);
    const size_t len = last.len < key.len ? last.len : key.len;
    const int order = len > 0 ? memcmp(last.ptr, key.ptr, len) : 0;
    return order < 0 || (order == 0 && last.len < key.len);
}

static tide_status snapshot_read_row(tide_snapshot_decoder *d, tide_reader *from,
                                     tide_snapshot_row *row, tide_error *err)
{
    uint8_t flags = 0;
    if (!snapshot_get_int(from, d->table_count - 1, &row->table) || row->table != d->table_at ||
        !snapshot_get_bytes(from, TIDE_SNAPSHOT_RECORD_MAX, &row->key) || row->key.len == 0 ||
        tide_reader_byte(from, &flags) < TIDE_OK || flags > 3 || flags == 2)
        return snapshot_fail_record(d, "it cannot be read", err);
    if (!is_ascending(d, row->key))
        return snapshot_fail_record(d, "keys do not ascend", err);
    const tide_snapshot_table *table = &d->tables[row->table];
    const size_t columns = (size_t)table->column_count;
    row->values = tide_arena_alloc(&d->scratch, columns * sizeof *row->values);
    row->has = tide_arena_alloc(&d->scratch, columns * sizeof *row->has);
    TIDE_NEED_MEMORY(row->values && row->has, err);
    memset(row->has, 0, columns * sizeof *row->has);
    memset(row->values, 0, columns * sizeof *row->values);
    row->has_clock = flags != 0;
    row->is_here = flags == 3;
    tide_row_clock_done(&d->clock);
    if (row->has_clock)
        TIDE_TRY(read_state(d, from, row, table, err));
    if (!check_key(row, table))
        return snapshot_fail_record(d, "its key is not its values'", err);
    TIDE_TRY(read_conflicts(d, from, row, table, err));
    tide_buffer_clear(&d->last_key);
    d->has_last_key = true;
    d->counted.rows++;
    return tide_buffer_append_view(&d->last_key, row->key) < TIDE_OK ? tide_no_memory(err)
                                                                     : TIDE_OK;
}

enum { ARENA_MAX = 1 << 30, SQL_MAX = 1 << 20 };

static bool has_nul(tide_view text)
{
    return text.len > 0 && memchr(text.ptr, '\0', text.len);
}

/* ---- the beginning ---- */

static tide_status read_begin(tide_snapshot_decoder *d, tide_reader *from, tide_error *err)
{
    tide_snapshot_begin *begin = &d->begin;
    if (!snapshot_get_node(from, &begin->node) ||
        !snapshot_get_number(from, TIDE_EPOCH_MAX, &begin->epoch) ||
        tide_reader_varint_shortest(from, &begin->clock) < TIDE_OK || begin->clock > INT64_MAX ||
        !snapshot_get_number(from, TIDE_SYNC_ORIGINS_MAX, &begin->origins) ||
        !snapshot_get_number(from, TIDE_SYNC_TABLES_MAX, &begin->tables))
        return snapshot_fail_record(d, "it cannot be read", err);
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
        return snapshot_fail_record(d, "there are more than were told", err);
    if (d->origin_count > 0 && compare_logs(&d->origins[d->origin_count - 1], mark) >= 0)
        return snapshot_fail_record(d, "they do not ascend", err);
    TIDE_TRY(tide_list_room(&d->origins, d->origin_count, sizeof *d->origins, TIDE_SYNC_ORIGINS_MAX,
                            err));
    d->origins[d->origin_count++] = *mark;
    return TIDE_OK;
}

static tide_status read_origin(tide_snapshot_decoder *d, tide_reader *from, tide_origin_mark *mark,
                               tide_error *err)
{
    if (!snapshot_get_node(from, &mark->origin) ||
        !snapshot_get_number(from, TIDE_EPOCH_MAX, &mark->epoch) ||
        !snapshot_get_number(from, INT64_MAX, &mark->start) ||
        !snapshot_get_number(from, INT64_MAX, &mark->floor) ||
        !snapshot_get_number(from, INT64_MAX, &mark->prefix) ||
        !snapshot_get_number(from, INT64_MAX, &mark->highest))
        return snapshot_fail_record(d, "it cannot be read", err);
    if (mark->epoch < 1 || mark->floor > mark->prefix || mark->start > mark->prefix ||
        mark->prefix > mark->highest)
        return snapshot_fail_record(d, "its marks do not fit together", err);
    return keep_origin(d, mark, err);
}

static tide_status keep_texts(tide_snapshot_decoder *d, tide_reader *from, char ***out, int count,
                              size_t most, tide_error *err)
{
    *out = tide_arena_alloc(&d->kept, ((size_t)count + 1) * sizeof **out);
    TIDE_NEED_MEMORY(*out, err);
    for (int i = 0; i < count; i++) {
        tide_view text;
        if (!snapshot_get_bytes(from, most, &text) || text.len == 0 || has_nul(text))
            return snapshot_fail_record(d, "a text cannot be read", err);
        (*out)[i] = tide_arena_text(&d->kept, text);
        TIDE_NEED_MEMORY((*out)[i], err);
    }
    (*out)[count] = NULL;
    return TIDE_OK;
}

static tide_status read_key(tide_snapshot_decoder *d, tide_reader *from, tide_snapshot_table *table,
                            tide_error *err)
{
    if (!snapshot_get_int(from, TIDE_EVENT_KEY_MAX, &table->key_count) || table->key_count < 1)
        return snapshot_fail_record(d, "its key cannot be read", err);
    for (int i = 0; i < table->key_count; i++) {
        if (!snapshot_get_int(from, table->column_count - 1, &table->key[i]))
            return snapshot_fail_record(d, "its key cannot be read", err);
        for (int k = 0; k < i; k++)
            if (table->key[k] == table->key[i])
                return snapshot_fail_record(d, "its key names a column twice", err);
    }
    return TIDE_OK;
}

static bool keep_bytes(tide_snapshot_decoder *d, tide_reader *from, tide_view *out)
{
    tide_view bytes;
    if (!snapshot_get_bytes(from, TIDE_SYNC_SCHEMA_BYTES_MAX, &bytes))
        return false;
    *out = tide_view_bytes(tide_arena_copy(&d->kept, bytes.ptr, bytes.len), bytes.len);
    return out->ptr;
}

/* What it was like before. */
static tide_status read_past(tide_snapshot_decoder *d, tide_reader *from,
                             tide_snapshot_table *table, tide_error *err)
{
    int count = 0;
    if (!snapshot_get_int(from, TIDE_SYNC_SCHEMAS_MAX, &count))
        return snapshot_fail_record(d, "its schemas cannot be read", err);
    table->schemas = tide_arena_alloc(&d->kept, ((size_t)count + 1) * sizeof *table->schemas);
    TIDE_NEED_MEMORY(table->schemas, err);
    for (int i = 0; i < count; i++) {
        tide_peer_schema *schema = &table->schemas[i];
        if (tide_reader_u64(from, &schema->schema) < TIDE_OK ||
            !keep_bytes(d, from, &schema->columns) || !keep_bytes(d, from, &schema->becomes) ||
            !keep_bytes(d, from, &schema->key))
            return snapshot_fail_record(d, "a schema cannot be read", err);
    }
    table->schema_count = count;
    if (!snapshot_get_int(from, TIDE_SYNC_SCHEMAS_MAX, &table->former_count))
        return snapshot_fail_record(d, "its former names cannot be read", err);
    TIDE_TRY(keep_texts(d, from, &table->former, table->former_count, TIDE_EVENT_TABLE_MAX, err));
    return keep_bytes(d, from, &table->loose)
               ? TIDE_OK
               : snapshot_fail_record(d, "its references cannot be read", err);
}

static tide_status read_table(tide_snapshot_decoder *d, tide_reader *from, tide_error *err)
{
    tide_view name;
    int statements = 0;
    if (d->table_count >= d->begin.tables)
        return snapshot_fail_record(d, "there are more than were told", err);
    TIDE_TRY(tide_list_room(&d->tables, d->table_count, sizeof *d->tables, TIDE_LIST_MAX, err));
    tide_snapshot_table *table = &d->tables[d->table_count];
    *table = (tide_snapshot_table){.schema = 0};
    if (!snapshot_get_bytes(from, TIDE_EVENT_TABLE_MAX, &name) || name.len == 0 || has_nul(name) ||
        tide_reader_u64(from, &table->schema) < TIDE_OK ||
        !snapshot_get_number(from, INT64_MAX, &table->retain_us) ||
        !snapshot_get_int(from, TIDE_TABLE_COLUMNS_MAX, &table->column_count) ||
        table->column_count < 1)
        return snapshot_fail_record(d, "it cannot be read", err);
    memcpy(table->name, name.ptr, name.len);
    for (int i = 0; i < d->table_count; i++)
        if (strcmp(d->tables[i].name, table->name) == 0)
            return snapshot_fail_record(d, "it stands there twice", err);
    TIDE_TRY(keep_texts(d, from, &table->columns, table->column_count, SQL_MAX, err));
    TIDE_TRY(read_key(d, from, table, err));
    if (!snapshot_get_int(from, TIDE_SYNC_TABLE_SQL_MAX, &statements))
        return snapshot_fail_record(d, "its statements cannot be read", err);
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
    if (!snapshot_get_bytes(from, TIDE_EVENT_TABLE_MAX, &out->table) || out->table.len == 0 ||
        has_nul(out->table) || !snapshot_get_node(from, &out->origin) ||
        !snapshot_get_number(from, TIDE_EPOCH_MAX, &out->epoch) ||
        !snapshot_get_number(from, INT64_MAX, &out->prefix) ||
        !snapshot_get_number(from, INT64_MAX, &out->last_seq))
        return snapshot_fail_record(d, "it cannot be read", err);
    const tide_origin_mark *mark = tide_snapshot_decoder_origin(d, &out->origin, out->epoch);
    if (!mark || out->prefix > mark->highest || out->last_seq > mark->highest)
        return snapshot_fail_record(d, "it does not fit its log", err);
    return TIDE_OK;
}

static tide_status read_event(tide_snapshot_decoder *d, tide_reader *from, tide_snapshot_event *out,
                              tide_error *err)
{
    if (!snapshot_get_flag(from, &out->is_processed) ||
        !snapshot_get_bytes(from, 64, &out->reason) ||
        !snapshot_get_bytes(from, 4096, &out->detail) ||
        !snapshot_get_number(from, INT64_MAX, &out->found_at_us) ||
        !snapshot_get_bytes(from, TIDE_EVENT_BYTES_MAX, &out->body))
        return snapshot_fail_record(d, "it cannot be read", err);
    tide_event_done(&d->event);
    const tide_status status = tide_event_decode(&d->event, out->body, err);
    if (status == TIDE_E_NOMEM)
        return status;
    if (status < TIDE_OK)
        return snapshot_fail_record(d, "its body cannot be read", err);
    const tide_event *event = &d->event;
    const tide_origin_mark *mark = tide_snapshot_decoder_origin(d, &event->origin, event->epoch);
    if (!mark || event->seq > mark->highest || event->seq <= mark->start ||
        memcmp(&event->stamp.node, &event->origin, sizeof event->origin) != 0)
        return snapshot_fail_record(d, "it does not fit its log", err);
    out->event = *event; /* lent */
    d->counted.events++;
    return TIDE_OK;
}

/* ---- sums, the end ---- */

static tide_status read_sum(tide_snapshot_decoder *d, tide_reader *from, tide_snapshot_sum *out,
                            tide_error *err)
{
    tide_view digest;
    if (!snapshot_get_int(from, d->table_count - 1, &out->table) || out->table != d->table_at ||
        !snapshot_get_number(from, INT64_MAX, &out->rows) ||
        tide_reader_bytes(from, sizeof out->digest, &digest) < TIDE_OK)
        return snapshot_fail_record(d, "it cannot be read", err);
    memcpy(out->digest, digest.ptr, sizeof out->digest);
    d->table_at++;
    d->has_last_key = false;
    return TIDE_OK;
}

static tide_status read_end(tide_snapshot_decoder *d, tide_reader *from, tide_snapshot_end *out,
                            tide_error *err)
{
    if (!snapshot_get_number(from, INT64_MAX, &out->rows) ||
        !snapshot_get_number(from, INT64_MAX, &out->events))
        return snapshot_fail_record(d, "it cannot be read", err);
    if (out->rows != d->counted.rows || out->events != d->counted.events)
        return snapshot_fail_record(d, "other numbers of rows and events than there are", err);
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
        return snapshot_read_row(d, from, &out->as.row, err);
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
                   : snapshot_fail_record(d, "the last records are missing", err);
    tide_reader from = tide_reader_of(bytes);
    if (tide_reader_byte(&from, &kind) < TIDE_OK || kind < TIDE_SNAPSHOT_BEGIN ||
        kind > TIDE_SNAPSHOT_END || !may_follow(d, (tide_snapshot_kind)kind))
        return snapshot_fail_record(d, "what follows it cannot stand there", err);
    tide_arena_reset(&d->scratch);
    *out = (tide_snapshot_record){.kind = (tide_snapshot_kind)kind};
    d->stage = out->kind;
    TIDE_TRY(read_body(d, &from, out, err));
    return tide_reader_left(&from) == 0 ? TIDE_OK : snapshot_fail_record(d, "it is too long", err);
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
            return snapshot_fail_record(d, "its origins and tables are missing", err);
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
