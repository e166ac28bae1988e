/* snapshot_decode_row.c - rows of a snapshot: see snapshot_decode.h. */
#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "replica/conflict.h"
#include "replica/snapshot_decode.h"

static const char *const kind_names[] = {"",      "begin", "origin", "table", "cursor",
                                         "event", "row",   "sum",    "end"};

tide_status tide_snapshot_fail_record(const tide_snapshot_decoder *d, const char *what,
                                      tide_error *err)
{
    return tide_fail(err, TIDE_E_DAMAGED, "the snapshot's %s before byte %" PRIu64 ": %s",
                     d->stage <= TIDE_SNAPSHOT_END ? kind_names[d->stage] : "record",
                     d->reader->bytes, what);
}

/* ---- pieces ---- */

bool tide_snapshot_get_number(tide_reader *from, int64_t most, int64_t *out)
{
    uint64_t number = 0;
    if (tide_reader_varint_shortest(from, &number) < TIDE_OK || number > (uint64_t)most)
        return false;
    *out = (int64_t)number;
    return true;
}

bool tide_snapshot_get_int(tide_reader *from, int most, int *out)
{
    int64_t number = 0;
    if (!tide_snapshot_get_number(from, most, &number))
        return false;
    *out = (int)number;
    return true;
}

bool tide_snapshot_get_bytes(tide_reader *from, size_t most, tide_view *out)
{
    uint64_t len = 0;
    return tide_reader_varint_shortest(from, &len) >= TIDE_OK && len <= most &&
           tide_reader_bytes(from, (size_t)len, out) >= TIDE_OK;
}

bool tide_snapshot_get_node(tide_reader *from, tide_node_id *out)
{
    tide_view bytes;
    if (tide_reader_bytes(from, TIDE_NODE_LEN, &bytes) < TIDE_OK)
        return false;
    memcpy(out->bytes, bytes.ptr, TIDE_NODE_LEN);
    return true;
}

bool tide_snapshot_get_flag(tide_reader *from, bool *out)
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
        if (!tide_snapshot_get_number(&from, table->column_count - 1, &column) ||
            column <= before || tide_sql_value_decode(&row->values[column], &from) < TIDE_OK)
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
    if (!tide_snapshot_get_bytes(from, (size_t)1 << 24, &row->clock_bytes))
        return tide_snapshot_fail_record(d, "its clock cannot be read", err);
    const tide_status status = tide_row_clock_decode(&d->clock, row->clock_bytes, err);
    if (status == TIDE_E_NOMEM)
        return status;
    if (status < TIDE_OK || !is_clock_possible(d, table))
        return tide_snapshot_fail_record(d, "its clock cannot be", err);
    row->clock = d->clock; /* lent */
    if (row->is_here)
        return tide_row_clock_exists(&d->clock) && read_values(row, table, from)
                   ? TIDE_OK
                   : tide_snapshot_fail_record(d, "its values cannot be read", err);
    if (!tide_snapshot_get_int(from, TIDE_ASIDE_FOREIGN, &aside) ||
        !tide_snapshot_get_bytes(from, TIDE_SNAPSHOT_RECORD_MAX, &row->rival) ||
        !tide_snapshot_get_bytes(from, TIDE_SNAPSHOT_RECORD_MAX, &row->image) ||
        !read_image(row, table))
        return tide_snapshot_fail_record(d, "its image cannot be read", err);
    row->aside = (tide_aside)aside;
    if ((row->aside != TIDE_ASIDE_NONE) != tide_row_clock_exists(&d->clock))
        return tide_snapshot_fail_record(d, "it does not stand in its table, and nothing says why",
                                         err);
    return TIDE_OK;
}

static bool read_conflict(const tide_snapshot_decoder *d, tide_reader *from,
                          tide_snapshot_conflict *out, const tide_snapshot_table *table)
{
    int64_t column = 0;
    if (tide_reader_zigzag(from, &column) < TIDE_OK || column < TIDE_CONFLICT_DELETE ||
        column >= table->column_count ||
        tide_reader_varint_shortest(from, &out->stamp.time) < TIDE_OK || out->stamp.time == 0 ||
        out->stamp.time > d->begin.clock || !tide_snapshot_get_node(from, &out->stamp.node) ||
        !tide_snapshot_get_flag(from, &out->has_value))
        return false;
    out->column = (int)column;
    if (out->has_value) {
        tide_sql_value value;
        if (!tide_snapshot_get_bytes(from, TIDE_SNAPSHOT_RECORD_MAX, &out->value))
            return false;
        tide_reader inside = tide_reader_of(out->value);
        if (tide_sql_value_decode(&value, &inside) < TIDE_OK || tide_reader_left(&inside) > 0)
            return false;
    }
    return tide_snapshot_get_number(from, INT64_MAX, &out->found_at_us);
}

static bool read_known(tide_reader *from, tide_snapshot_known *out,
                       const tide_snapshot_table *table)
{
    int64_t column = 0;
    if (tide_reader_zigzag(from, &column) < TIDE_OK || column < TIDE_CONFLICT_ROW ||
        column >= table->column_count ||
        tide_reader_varint_shortest(from, &out->stamp.time) < TIDE_OK ||
        out->stamp.time > INT64_MAX || !tide_snapshot_get_node(from, &out->stamp.node) ||
        !tide_snapshot_get_number(from, INT64_MAX, &out->added_us))
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
    if (!tide_snapshot_get_number(from, most, &count))
        return tide_snapshot_fail_record(d, "its conflicts cannot be read", err);
    row->conflicts = tide_arena_alloc(&d->scratch, ((size_t)count + 1) * sizeof *row->conflicts);
    TIDE_NEED_MEMORY(row->conflicts, err);
    for (int64_t i = 0; i < count; i++) {
        row->conflicts[i] = (tide_snapshot_conflict){.column = 0};
        if (!read_conflict(d, from, &row->conflicts[i], table))
            return tide_snapshot_fail_record(d, "a conflict cannot be read", err);
    }
    row->conflict_count = (int)count;
    if (!tide_snapshot_get_number(from, most, &count))
        return tide_snapshot_fail_record(d, "its knowledge cannot be read", err);
    row->knowledge = tide_arena_alloc(&d->scratch, ((size_t)count + 1) * sizeof *row->knowledge);
    TIDE_NEED_MEMORY(row->knowledge, err);
    for (int64_t i = 0; i < count; i++)
        if (!read_known(from, &row->knowledge[i], table))
            return tide_snapshot_fail_record(d, "its knowledge cannot be read", err);
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

tide_status tide_snapshot_read_row(tide_snapshot_decoder *d, tide_reader *from,
                                   tide_snapshot_row *row, tide_error *err)
{
    uint8_t flags = 0;
    if (!tide_snapshot_get_int(from, d->table_count - 1, &row->table) ||
        row->table != d->table_at ||
        !tide_snapshot_get_bytes(from, TIDE_SNAPSHOT_RECORD_MAX, &row->key) || row->key.len == 0 ||
        tide_reader_byte(from, &flags) < TIDE_OK || flags > 3 || flags == 2)
        return tide_snapshot_fail_record(d, "it cannot be read", err);
    if (!is_ascending(d, row->key))
        return tide_snapshot_fail_record(d, "keys do not ascend", err);
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
        return tide_snapshot_fail_record(d, "its key is not its values'", err);
    TIDE_TRY(read_conflicts(d, from, row, table, err));
    tide_buffer_clear(&d->last_key);
    d->has_last_key = true;
    d->counted.rows++;
    return tide_buffer_append_view(&d->last_key, row->key) < TIDE_OK ? tide_no_memory(err)
                                                                     : TIDE_OK;
}
