/* The question for one range of one source's rows, as a text that every engine understands. */
#include <inttypes.h>

#include "base/buffer.h"
#include "store/duckdb/duckdb.h"

static tide_status put_literal(tide_buffer *out, const char *text)
{
    TIDE_TRY(tide_buffer_append_byte(out, '\''));
    for (; *text; text++) {
        if (*text == '\'')
            TIDE_TRY(tide_buffer_append_byte(out, '\''));
        TIDE_TRY(tide_buffer_append_byte(out, (uint8_t)*text));
    }
    return tide_buffer_append_byte(out, '\'');
}

tide_status tide_duckdb_range_text(tide_buffer *out, const tide_duckdb_range *range)
{
    TIDE_TRY(tide_buffer_printf(out, "SELECT * FROM %s WHERE agent_id = ", range->table));
    TIDE_TRY(put_literal(out, range->agent_id));
    TIDE_TRY(tide_buffer_append_text(out, " AND session_id = "));
    TIDE_TRY(put_literal(out, range->session_id));
    if (range->data_type) {
        TIDE_TRY(tide_buffer_append_text(out, " AND data_type = "));
        TIDE_TRY(put_literal(out, range->data_type));
    }
    return tide_buffer_printf(out,
                              " AND epoch = %" PRId64 " AND seq_id BETWEEN %" PRId64 " AND %" PRId64
                              " ORDER BY seq_id LIMIT %" PRId64,
                              range->epoch, range->first_seq, range->last_seq, range->limit);
}
