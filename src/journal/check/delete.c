/* delete.c - one checkpoint goes, unless somebody needs it. */
#include <tidemark/journal.h>

#include <stdlib.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "journal/check/chunk_gc.h"
#include "journal/check/removal.h"
#include "journal/page.h"
#include "store/statement.h"
#include "tidemark_sql.h"

typedef struct delete_request {
    const char *id_or_number;
    bool is_forced;
    tide_candidates candidates;
    tide_sequence_range range;
    char task_id[TIDE_JOURNAL_ID_MAX + 1];
} delete_request;

static tide_status find_one(delete_request *request, tide_tx *tx, tide_error *err)
{
    int64_t global_sequence = 0;
    TIDE_TRY(tide_journal_need(tx, request->id_or_number, &global_sequence, err));
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status = tide_tx_one(&query, tx, TIDE_SQL_FORK_PARENT, err,
                                           tide_bind_i64("global_sequence", global_sequence));
    if (status != TIDE_OK)
        return status < TIDE_OK ? status
                                : tide_fail(err, TIDE_E_NOT_FOUND, "there is no checkpoint %s",
                                            request->id_or_number);
    tide_view_copy(request->task_id, sizeof request->task_id, tide_query_col_text(query));
    const int64_t number = tide_query_col_i64(query);
    return tide_removal_read(&request->candidates, tx, request->task_id, number - 1, number + 1, 0,
                             err);
}

static tide_status delete_one(tide_tx *tx, void *arg, tide_error *err)
{
    delete_request *request = arg;
    TIDE_TRY(tide_removal_begin(tx, err));
    TIDE_TRY(find_one(request, tx, err));
    if (request->candidates.count != 1)
        return tide_fail(err, TIDE_E_NOT_FOUND, "there is no checkpoint %s", request->id_or_number);
    tide_candidate *row = &request->candidates.rows[0];
    if (row->is_fork_point || (row->is_needed && row->has_fork))
        return tide_fail(err, TIDE_E_CONFLICT, "a fork of task %s needs checkpoint %s",
                         request->task_id, request->id_or_number);
    if ((row->is_needed || row->is_live) && !request->is_forced)
        return tide_fail(err, TIDE_E_CONFLICT, "resuming task %s needs checkpoint %s",
                         request->task_id, request->id_or_number);
    row->is_going = true;
    return tide_removal_do(tx, request->task_id, &request->candidates, TIDE_JOURNAL_DELETED,
                           &request->range, err);
}

tide_status tide_journal_delete(tide_store *store, const char *id_or_number, bool is_forced,
                                tide_error *err)
{
    TIDE_NEED(store && id_or_number, err);
    TIDE_CLEANUP(tide_freep) TIDE_NEW(delete_request, request, err);
    request->id_or_number = id_or_number;
    request->is_forced = is_forced;
    TIDE_TRY(tide_store_write(store, delete_one, request, err));
    /* It is gone, whatever becomes of its chunks: the next compaction looks after them. */
    int64_t chunks = 0;
    int64_t bytes = 0;
    TIDE_IGNORE(tide_journal_chunk_gc(store, &chunks, &bytes, NULL));
    return TIDE_OK;
}
