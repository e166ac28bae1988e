/* snapshot_encode.c - records of a snapshot as bytes: see snapshot_record.h; snapshot_decode.c reads them. */

#include "replica/snapshot_record.h"

static tide_status put_kind(tide_buffer *out, tide_snapshot_kind kind)
{
    return tide_buffer_append_byte(out, (uint8_t)kind);
}

static tide_status put_number(tide_buffer *out, int64_t number)
{
    return tide_buffer_append_varint(out, (uint64_t)number);
}

static tide_status put_bytes(tide_buffer *out, tide_view bytes)
{
    TIDE_TRY(tide_buffer_append_varint(out, bytes.len));
    return tide_buffer_append_view(out, bytes);
}

static tide_status put_node(tide_buffer *out, const tide_node_id *node)
{
    return tide_buffer_append(out, node->bytes, TIDE_NODE_LEN);
}

tide_status tide_snapshot_put_begin(tide_buffer *out, const tide_snapshot_begin *begin)
{
    TIDE_TRY(put_kind(out, TIDE_SNAPSHOT_BEGIN));
    TIDE_TRY(put_node(out, &begin->node));
    TIDE_TRY(put_number(out, begin->epoch));
    TIDE_TRY(tide_buffer_append_varint(out, begin->clock));
    TIDE_TRY(put_number(out, begin->origins));
    return put_number(out, begin->tables);
}

tide_status tide_snapshot_put_origin(tide_buffer *out, const tide_origin_mark *mark)
{
    TIDE_TRY(put_kind(out, TIDE_SNAPSHOT_ORIGIN));
    TIDE_TRY(put_node(out, &mark->origin));
    TIDE_TRY(put_number(out, mark->epoch));
    TIDE_TRY(put_number(out, mark->start));
    TIDE_TRY(put_number(out, mark->floor));
    TIDE_TRY(put_number(out, mark->prefix));
    return put_number(out, mark->highest);
}

tide_status tide_snapshot_put_table(tide_buffer *out, const tide_table *table,
                                    const tide_peer_table *made)
{
    int statements = 0;
    while (made->sql && made->sql[statements])
        statements++;
    TIDE_TRY(put_kind(out, TIDE_SNAPSHOT_TABLE));
    TIDE_TRY(put_bytes(out, tide_view_of(table->name)));
    TIDE_TRY(tide_buffer_append_u64(out, table->schema));
    TIDE_TRY(put_number(out, table->retain_us));
    TIDE_TRY(put_number(out, table->column_count));
    for (int i = 0; i < table->column_count; i++)
        TIDE_TRY(put_bytes(out, tide_view_of(table->columns[i].name)));
    TIDE_TRY(put_number(out, table->key_count));
    for (int i = 0; i < table->key_count; i++)
        TIDE_TRY(put_number(out, table->key[i]));
    TIDE_TRY(put_number(out, statements));
    for (int i = 0; i < statements; i++)
        TIDE_TRY(put_bytes(out, tide_view_of(made->sql[i])));
    TIDE_TRY(put_number(out, made->schema_count));
    for (int i = 0; i < made->schema_count; i++) {
        TIDE_TRY(tide_buffer_append_u64(out, made->schemas[i].schema));
        TIDE_TRY(put_bytes(out, made->schemas[i].columns));
        TIDE_TRY(put_bytes(out, made->schemas[i].becomes));
        TIDE_TRY(put_bytes(out, made->schemas[i].key));
    }
    TIDE_TRY(put_number(out, made->former_count));
    for (int i = 0; i < made->former_count; i++)
        TIDE_TRY(put_bytes(out, tide_view_of(made->former[i])));
    return put_bytes(out, made->loose);
}

tide_status tide_snapshot_put_cursor(tide_buffer *out, const tide_snapshot_cursor *cursor)
{
    TIDE_TRY(put_kind(out, TIDE_SNAPSHOT_CURSOR));
    TIDE_TRY(put_bytes(out, cursor->table));
    TIDE_TRY(put_node(out, &cursor->origin));
    TIDE_TRY(put_number(out, cursor->epoch));
    TIDE_TRY(put_number(out, cursor->prefix));
    return put_number(out, cursor->last_seq);
}

tide_status tide_snapshot_put_event(tide_buffer *out, const tide_snapshot_event *event)
{
    TIDE_TRY(put_kind(out, TIDE_SNAPSHOT_EVENT));
    TIDE_TRY(tide_buffer_append_byte(out, event->is_processed));
    TIDE_TRY(put_bytes(out, event->reason));
    TIDE_TRY(put_bytes(out, event->detail));
    TIDE_TRY(put_number(out, event->found_at_us));
    return put_bytes(out, event->body);
}

static tide_status put_conflicts(tide_buffer *out, const tide_snapshot_row *row)
{
    TIDE_TRY(put_number(out, row->conflict_count));
    for (int i = 0; i < row->conflict_count; i++) {
        const tide_snapshot_conflict *conflict = &row->conflicts[i];
        TIDE_TRY(tide_buffer_append_zigzag(out, conflict->column));
        TIDE_TRY(tide_buffer_append_varint(out, conflict->stamp.time));
        TIDE_TRY(put_node(out, &conflict->stamp.node));
        TIDE_TRY(tide_buffer_append_byte(out, conflict->has_value));
        if (conflict->has_value)
            TIDE_TRY(put_bytes(out, conflict->value));
        TIDE_TRY(put_number(out, conflict->found_at_us));
    }
    TIDE_TRY(put_number(out, row->known_count));
    for (int i = 0; i < row->known_count; i++) {
        TIDE_TRY(tide_buffer_append_zigzag(out, row->knowledge[i].column));
        TIDE_TRY(tide_buffer_append_varint(out, row->knowledge[i].stamp.time));
        TIDE_TRY(put_node(out, &row->knowledge[i].stamp.node));
        TIDE_TRY(put_number(out, row->knowledge[i].added_us));
    }
    return TIDE_OK;
}

/* A byte of what follows: 1 a clock, 2 the values of a row that stands (otherwise an image). */
tide_status tide_snapshot_put_row(tide_buffer *out, const tide_snapshot_row *row, int column_count)
{
    TIDE_TRY(put_kind(out, TIDE_SNAPSHOT_ROW));
    TIDE_TRY(put_number(out, row->table));
    TIDE_TRY(put_bytes(out, row->key));
    TIDE_TRY(tide_buffer_append_byte(
        out, (uint8_t)((row->has_clock ? 1 : 0) | (row->has_clock && row->is_here ? 2 : 0))));
    if (row->has_clock) {
        TIDE_TRY(put_bytes(out, row->clock_bytes));
        if (row->is_here) {
            for (int i = 0; i < column_count; i++)
                TIDE_TRY(tide_sql_value_encode(out, &row->values[i]));
        } else {
            TIDE_TRY(put_number(out, row->aside));
            TIDE_TRY(put_bytes(out, row->rival));
            TIDE_TRY(put_bytes(out, row->image));
        }
    }
    return put_conflicts(out, row);
}

tide_status tide_snapshot_put_sum(tide_buffer *out, const tide_snapshot_sum *sum)
{
    TIDE_TRY(put_kind(out, TIDE_SNAPSHOT_SUM));
    TIDE_TRY(put_number(out, sum->table));
    TIDE_TRY(put_number(out, sum->rows));
    return tide_buffer_append(out, sum->digest, sizeof sum->digest);
}

tide_status tide_snapshot_put_end(tide_buffer *out, const tide_snapshot_end *end)
{
    TIDE_TRY(put_kind(out, TIDE_SNAPSHOT_END));
    TIDE_TRY(put_number(out, end->rows));
    return put_number(out, end->events);
}
