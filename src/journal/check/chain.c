#include "journal/check/chain.h"

#include <string.h>

#include "base/cleanup.h"
#include "journal/checkpoint_iter.h"
#include "store/statement.h"
#include "tidemark_sql.h"

tide_view tide_chain_view(const tide_chain *chain)
{
    return tide_view_bytes(chain->bytes, chain->len);
}

void tide_chain_set(tide_chain *chain, tide_view bytes)
{
    const bool is_chain = bytes.len == 0 || bytes.len == sizeof chain->bytes;
    memset(chain->bytes, 0, sizeof chain->bytes);
    chain->len = is_chain ? bytes.len : sizeof chain->bytes;
    if (is_chain && bytes.len > 0)
        memcpy(chain->bytes, bytes.ptr, bytes.len);
}

static tide_status find_in_task(tide_chain *out, tide_tx *tx, const tide_segment *segment,
                                tide_error *err)
{
    TIDE_QUERY_ONE(query, tx, TIDE_SQL_FORK_CHAIN, err, tide_bind_text("task_id", segment->task_id),
                   tide_bind_i64("number", segment->high));
    (void)tide_query_col_i64(query); /* the number it belongs to */
    tide_chain_set(out, tide_query_col_blob(query));
    return TIDE_OK;
}

tide_status tide_chain_at(tide_chain *out, tide_tx *tx, const char *task_id, int64_t number,
                          tide_error *err)
{
    out->len = 0;
    tide_lineage lineage;
    TIDE_TRY(tide_lineage_read(&lineage, tx, task_id, err));
    if (lineage.count > 0)
        lineage.segments[lineage.count - 1].high = number;
    for (int i = lineage.count - 1; i >= 0; i--) {
        const tide_status status = find_in_task(out, tx, &lineage.segments[i], err);
        if (status != TIDE_NONE)
            return status;
    }
    return TIDE_OK;
}
