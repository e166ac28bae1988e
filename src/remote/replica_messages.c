#include "remote/replica_messages.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "services/api/rpc.h"

tide_status tide_wire_number(int64_t *out, uint64_t number, tide_error *err)
{
    if (number > INT64_MAX)
        return tide_fail(err, TIDE_E_INVALID, "a number above 2^63-1, where numbers end");
    *out = (int64_t)number;
    return TIDE_OK;
}

tide_status tide_wire_node(tide_node_id *out, const ProtobufCBinaryData *bytes, tide_error *err)
{
    if (bytes->len != TIDE_NODE_LEN)
        return tide_fail(err, TIDE_E_INVALID, "a node's id has %d bytes, not %zu", TIDE_NODE_LEN,
                         bytes->len);
    memcpy(out->bytes, bytes->data, TIDE_NODE_LEN);
    return TIDE_OK;
}

/* ---- marks ---- */

REPLICA(OriginMark) tide_wire_mark(const tide_origin_mark *mark)
{
    REPLICA(OriginMark) out = REPLICA_INIT(ORIGIN_MARK);
    out.origin.data = (uint8_t *)mark->origin.bytes;
    out.origin.len = TIDE_NODE_LEN;
    out.epoch = (uint64_t)mark->epoch;
    out.start = (uint64_t)mark->start;
    out.floor = (uint64_t)mark->floor;
    out.prefix = (uint64_t)mark->prefix;
    out.highest = (uint64_t)mark->highest;
    out.stamp = mark->stamp;
    out.differs = mark->differs;
    return out;
}

tide_status tide_wire_read_mark(tide_origin_mark *out, const REPLICA(OriginMark) * mark,
                                tide_error *err)
{
    *out = (tide_origin_mark){.epoch = 0};
    TIDE_TRY(tide_wire_node(&out->origin, &mark->origin, err));
    TIDE_TRY(tide_wire_number(&out->epoch, mark->epoch, err));
    TIDE_TRY(tide_wire_number(&out->start, mark->start, err));
    TIDE_TRY(tide_wire_number(&out->floor, mark->floor, err));
    TIDE_TRY(tide_wire_number(&out->prefix, mark->prefix, err));
    out->stamp = mark->stamp;
    out->differs = mark->differs;
    return tide_wire_number(&out->highest, mark->highest, err);
}

tide_status tide_replica_put_message(tide_buffer *out, uint32_t field,
                                     const ProtobufCMessage *message, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(TIDE_RPC_RESPONSE_MAX);
    TIDE_TRY(tide_rpc_pack(&bytes, message, err));
    return tide_rpc_put_bytes(out, field, tide_buffer_view(&bytes), err);
}

tide_status tide_wire_put_marks(tide_buffer *out, uint32_t field, const tide_peer_marks *marks,
                                tide_error *err)
{
    for (int i = 0; i < marks->origin_count; i++) {
        const REPLICA(OriginMark) mark = tide_wire_mark(&marks->origins[i]);
        TIDE_TRY(tide_replica_put_message(out, field, &mark.base, err));
    }
    return TIDE_OK;
}

static ProtobufCBinaryData data_of(tide_view bytes)
{
    return (ProtobufCBinaryData){.len = bytes.len, .data = (uint8_t *)bytes.ptr};
}

static tide_status put_table(tide_buffer *out, uint32_t field, REPLICA(Table) * table,
                             const tide_peer_table *from, tide_error *err)
{
    const size_t count = (size_t)from->schema_count;
    TIDE_CLEANUP(tide_freep) REPLICA(Schema) *schemas = calloc(count + 1, sizeof *schemas);
    TIDE_CLEANUP(tide_freep) REPLICA(Schema) **list = calloc(count + 1, sizeof(void *));
    TIDE_NEED_MEMORY(schemas && list, err);
    for (size_t i = 0; i < count; i++) {
        schemas[i] = (REPLICA(Schema))REPLICA_INIT(SCHEMA);
        schemas[i].schema = from->schemas[i].schema;
        schemas[i].columns = data_of(from->schemas[i].columns);
        schemas[i].becomes = data_of(from->schemas[i].becomes);
        schemas[i].key = data_of(from->schemas[i].key);
        list[i] = &schemas[i];
    }
    table->schemas = list;
    table->n_schemas = count;
    table->former = from->former;
    table->n_former = (size_t)from->former_count;
    table->form = data_of(from->form);
    return tide_replica_put_message(out, field, &table->base, err);
}

tide_status tide_wire_put_tables(tide_buffer *out, uint32_t field, const tide_peer_table *tables,
                                 int count, tide_error *err)
{
    for (int i = 0; i < count; i++) {
        REPLICA(Table) table = REPLICA_INIT(TABLE);
        table.name = (char *)tables[i].name;
        table.schema = tables[i].schema;
        table.retain_us = (uint64_t)tables[i].retain_us;
        table.sql = tables[i].sql;
        while (tables[i].sql && tables[i].sql[table.n_sql])
            table.n_sql++;
        TIDE_TRY(put_table(out, field, &table, &tables[i], err));
    }
    return TIDE_OK;
}

/* ---- what came ---- */

static tide_status read_schemas(tide_peer_table *out, const REPLICA(Table) * table, tide_error *err)
{
    for (size_t i = 0; i < table->n_schemas; i++) {
        const REPLICA(Schema) *schema = table->schemas[i];
        TIDE_TRY(tide_peer_table_add_schema(
            out, schema->schema, tide_view_bytes(schema->columns.data, schema->columns.len),
            tide_view_bytes(schema->becomes.data, schema->becomes.len),
            tide_view_bytes(schema->key.data, schema->key.len), err));
    }
    for (size_t i = 0; i < table->n_former; i++)
        TIDE_TRY(tide_peer_table_add_former(out, tide_view_of(table->former[i]), err));
    return tide_peer_table_set_form(out, tide_view_bytes(table->form.data, table->form.len), err);
}

static tide_status read_table(tide_peer_marks *out, const REPLICA(Table) * table, tide_error *err)
{
    const char *sql[TIDE_SYNC_TABLE_SQL_MAX + 1] = {NULL};
    int64_t retain_us = 0;
    TIDE_TRY(tide_wire_number(&retain_us, table->retain_us, err));
    if (table->n_sql > TIDE_SYNC_TABLE_SQL_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "a table has at most %d statements",
                         TIDE_SYNC_TABLE_SQL_MAX);
    for (size_t i = 0; i < table->n_sql; i++)
        sql[i] = table->sql[i];
    TIDE_TRY(tide_peer_marks_add_table(out, table->name, table->schema, retain_us, sql, err));
    return read_schemas(&out->tables[out->table_count - 1], table, err);
}

static tide_status read_all(tide_peer_marks *out, REPLICA(OriginMark) * *marks, size_t count,
                            REPLICA(Table) * *tables, size_t table_count, tide_error *err)
{
    for (size_t i = 0; i < count; i++) {
        tide_origin_mark mark;
        TIDE_TRY(tide_wire_read_mark(&mark, marks[i], err));
        TIDE_TRY(tide_peer_marks_add(out, &mark, err));
    }
    for (size_t i = 0; i < table_count; i++)
        TIDE_TRY(read_table(out, tables[i], err));
    return tide_peer_marks_sort(out, err);
}

tide_status tide_wire_read_marks(tide_peer_marks *out, REPLICA(OriginMark) * *marks, size_t count,
                                 REPLICA(Table) * *tables, size_t table_count, tide_error *err)
{
    const tide_status status = read_all(out, marks, count, tables, table_count, err);
    if (status < TIDE_OK)
        tide_peer_marks_done(out);
    return status;
}

/* ---- states of rows ---- */

static tide_view view_of(ProtobufCBinaryData bytes)
{
    return tide_view_bytes(bytes.len > 0 ? (const void *)bytes.data : "", bytes.len);
}

tide_status tide_repair_put_states(tide_buffer *out, uint32_t field, const tide_row_states *states,
                                   tide_error *err)
{
    for (int i = 0; i < states->count; i++) {
        const tide_row_state *state = &states->rows[i];
        REPLICA(RowState) row = REPLICA_INIT(ROW_STATE);
        row.key = data_of(state->key);
        row.clock = data_of(state->clock);
        row.values = data_of(state->values);
        row.stands = state->stands;
        row.altered = state->is_altered;
        row.loose = state->is_loose;
        TIDE_TRY(tide_replica_put_message(out, field, &row.base, err));
    }
    return TIDE_OK;
}

tide_status tide_repair_read_states(tide_row_states *out, const ProtobufCBinaryData *node,
                                    REPLICA(RowState) * *rows, size_t count, tide_error *err)
{
    TIDE_TRY(tide_wire_node(&out->node, node, err));
    for (size_t i = 0; i < count; i++) {
        const tide_row_state state = {.key = view_of(rows[i]->key),
                                      .clock = view_of(rows[i]->clock),
                                      .values = view_of(rows[i]->values),
                                      .stands = rows[i]->stands,
                                      .is_altered = rows[i]->altered,
                                      .is_loose = rows[i]->loose};
        TIDE_TRY(tide_row_states_add(out, &state, err));
    }
    return TIDE_OK;
}
