/* fork.c - a new task that shares the history up to a checkpoint.
 *
 * Nothing is copied: the task remembers what it was forked from and at which number, and goes on with that number and
 * that hash chain. The checkpoint it was forked at stays, and so does what resuming the fork needs (compact.c). */
#include <tidemark/journal.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "base/text/uuid.h"
#include "journal/check.h"
#include "journal/check/checksum.h"
#include "journal/check/removal.h"
#include "journal/checkpoint_iter.h"
#include "journal/page.h"
#include "store/statement.h"
#include "tidemark_sql.h"

typedef struct fork_request {
    const char *id_or_number;
    const char *task_id;
    const char *title; /* NULL: the parent's */
    /* Of one run: */
    char parent[TIDE_JOURNAL_ID_MAX + 1];
    int64_t number;
    char *parent_title;
} fork_request;

static tide_status find_parent(fork_request *request, tide_tx *tx, tide_error *err)
{
    int64_t global_sequence = 0;
    TIDE_TRY(tide_journal_need(tx, request->id_or_number, &global_sequence, err));
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status = tide_tx_one(&query, tx, TIDE_SQL_FORK_PARENT, err,
                                           tide_bind_i64("global_sequence", global_sequence));
    if (status == TIDE_NONE)
        return tide_fail(err, TIDE_E_NOT_FOUND, "the task of checkpoint %s is gone",
                         request->id_or_number);
    TIDE_TRY(status);
    tide_view_copy(request->parent, sizeof request->parent, tide_query_col_text(query));
    request->number = tide_query_col_i64(query);
    const tide_view title = tide_query_col_text(query);
    free(request->parent_title);
    request->parent_title = strndup(title.ptr, title.len);
    return request->parent_title ? TIDE_OK : tide_no_memory(err);
}

static tide_status check_depth(const fork_request *request, tide_tx *tx, tide_error *err)
{
    tide_lineage lineage;
    TIDE_TRY(tide_lineage_read(&lineage, tx, request->parent, err));
    if (lineage.count > TIDE_JOURNAL_DEPTH_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "task %s is the %dth fork in a line; no more than that",
                         request->parent, TIDE_JOURNAL_DEPTH_MAX);
    return TIDE_OK;
}

static tide_status check_new(const fork_request *request, tide_tx *tx, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status = tide_tx_one(&query, tx, TIDE_SQL_FORK_TASK_EXISTS, err,
                                           tide_bind_text("task_id", request->task_id));
    if (status == TIDE_OK)
        return tide_fail(err, TIDE_E_EXISTS, "task %s exists already", request->task_id);
    return status < TIDE_OK ? status : TIDE_OK;
}

static tide_status add_task(const fork_request *request, tide_tx *tx, tide_error *err)
{
    return tide_tx_exec(
        tx, TIDE_SQL_FORK_TASK_ADD, NULL, err, tide_bind_text("task_id", request->task_id),
        tide_bind_text("title", request->title ? request->title : request->parent_title),
        tide_bind_now("now"), tide_bind_text("forked_from", request->parent),
        tide_bind_i64("forked_at", request->number));
}

static tide_status fork_task(tide_tx *tx, void *arg, tide_error *err)
{
    fork_request *request = arg;
    TIDE_TRY(tide_removal_keep_away(tx, err));
    TIDE_TRY(find_parent(request, tx, err));
    TIDE_TRY(check_depth(request, tx, err));
    TIDE_TRY(check_new(request, tx, err));
    tide_chain chain = {0};
    TIDE_TRY(tide_chain_at(&chain, tx, request->parent, request->number, err));
    TIDE_TRY(add_task(request, tx, err));
    return tide_tx_exec(
        tx, TIDE_SQL_FORK_HEAD_SET, NULL, err, tide_bind_text("task_id", request->task_id),
        tide_bind_i64("number", request->number), tide_bind_blob("chain", tide_chain_view(&chain)));
}

tide_status tide_journal_fork(tide_store *store, const char *id_or_number, const char *task_id,
                              const char *title, char out_task_id[TIDE_JOURNAL_ID_MAX + 1],
                              tide_error *err)
{
    TIDE_NEED(store && id_or_number, err);
    char fresh[TIDE_UUID_TEXT_SIZE];
    if (!task_id) {
        tide_uuid uuid;
        tide_uuid_v7(tide_store_env(store), &uuid);
        tide_uuid_format(&uuid, fresh);
        task_id = fresh;
    }
    TIDE_TRY(tide_journal_check_name("task id", task_id, TIDE_JOURNAL_ID_MAX, err));
    if (title)
        TIDE_TRY(tide_journal_check_text("a title", title, TIDE_JOURNAL_MESSAGE_MAX, err));
    fork_request request = {.id_or_number = id_or_number, .task_id = task_id, .title = title};
    const tide_status status = tide_store_write(store, fork_task, &request, err);
    free(request.parent_title);
    if (status == TIDE_OK)
        (void)snprintf(out_task_id, TIDE_JOURNAL_ID_MAX + 1, "%s", task_id);
    return status;
}
