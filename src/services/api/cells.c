#include "services/api/cells.h"

#include <string.h>

#include "net/codec/protobuf_wire.h"

enum { CELL_FIELD = 1 };
enum { IS_NULL = 1, TRUTH = 2, WHOLE = 3, NUMBER = 4, TEXT = 5, DATA = 6 };

static tide_status append_value(tide_buffer *out, const tide_sql_value *cell)
{
    uint64_t bits = 0;
    switch (cell->kind) {
    case TIDE_SQL_VALUE_NULL:
    case TIDE_SQL_VALUE_TIME: /* a query's times are texts */
        return tide_wire_append_varint(out, IS_NULL, 1);
    case TIDE_SQL_VALUE_BOOL:
        return tide_wire_append_varint(out, TRUTH, cell->i64 != 0);
    case TIDE_SQL_VALUE_I64:
        return tide_wire_append_varint(out, WHOLE, (uint64_t)cell->i64);
    case TIDE_SQL_VALUE_F64:
        memcpy(&bits, &cell->f64, sizeof bits);
        return tide_wire_append_fixed64(out, NUMBER, bits);
    case TIDE_SQL_VALUE_TEXT:
        return tide_wire_append_bytes(out, TEXT, cell->bytes);
    case TIDE_SQL_VALUE_BLOB:
        break;
    }
    return tide_wire_append_bytes(out, DATA, cell->bytes);
}

static tide_status append_row(tide_buffer *out, uint32_t field, const tide_sql_value *cells,
                              int count)
{
    size_t row_at = 0;
    TIDE_TRY(tide_wire_begin(out, field, &row_at));
    for (int i = 0; i < count; i++) {
        size_t cell_at = 0;
        TIDE_TRY(tide_wire_begin(out, CELL_FIELD, &cell_at));
        TIDE_TRY(append_value(out, &cells[i]));
        TIDE_TRY(tide_wire_end(out, cell_at));
    }
    return tide_wire_end(out, row_at);
}

tide_status tide_rpc_put_cells(tide_buffer *out, uint32_t field, const tide_sql_value *cells,
                               int count, size_t rest_len, tide_error *err)
{
    const size_t before_len = out->len;
    const tide_status status = append_row(out, field, cells, count);
    if (status == TIDE_OK && rest_len <= out->max - out->len)
        return TIDE_OK;
    tide_buffer_truncate(out, before_len);
    return tide_fail(err, status == TIDE_E_NOMEM ? status : TIDE_E_LIMIT,
                     "the answer has more than %zu bytes", out->max);
}
