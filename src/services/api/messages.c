#include "services/api/messages.h"

#include <inttypes.h>
#include <string.h>

#include "base/text/uuid.h"
#include "services/api/rpc.h"

char *tide_rpc_borrow(const char *text)
{
    return (char *)text;
}

static tide_status read_id(char out[TIDE_SESSION_ID_SIZE], const char *text, const char *name,
                           tide_error *err)
{
    tide_uuid id;
    if (!*text)
        return TIDE_OK;
    if (strlen(text) >= TIDE_SESSION_ID_SIZE || tide_uuid_parse(&id, tide_view_of(text)) != TIDE_OK)
        return tide_fail(err, TIDE_E_INVALID, "%s \"%s\" is not a UUID", name, text);
    memcpy(out, text, strlen(text) + 1);
    return TIDE_OK;
}

tide_status tide_rpc_read_identity(tide_identity *out, const char *session_id, int64_t epoch,
                                   const char *epoch_id, tide_error *err)
{
    *out = (tide_identity){.epoch = epoch};
    if (epoch < 0 || epoch > TIDE_EPOCH_MAX)
        return tide_fail(err, TIDE_E_INVALID, "epoch %" PRId64 ", want 0 to %d", epoch,
                         TIDE_EPOCH_MAX);
    TIDE_TRY(read_id(out->session_id, session_id, "session_id", err));
    return read_id(out->epoch_id, epoch_id, "epoch_id", err);
}

void tide_rpc_task(WORK(Task) * out, const tide_task *task)
{
    *out = (WORK(Task))WORK_INIT(TASK);
    out->task_id = tide_rpc_borrow(task->task_id);
    out->title = tide_rpc_borrow(task->title);
    out->status = tide_rpc_borrow(task->status);
    out->metadata = tide_rpc_borrow(task->metadata);
    out->forked_from = tide_rpc_borrow(task->forked_from);
    out->forked_at = task->forked_at;
    out->last_sequence = task->last_sequence;
    out->created_at = task->created_at_us;
    out->updated_at = task->updated_at_us;
    out->completed_at = task->completed_at_us;
}

void tide_rpc_counts(WORK(ItemCounts) * out, const tide_task *task)
{
    *out = (WORK(ItemCounts))WORK_INIT(ITEM_COUNTS);
    out->pending = task->pending;
    out->in_progress = task->in_progress;
    out->completed = task->completed;
    out->failed = task->failed;
    out->expired = task->expired;
}

void tide_rpc_item(WORK(WorkItem) * out, const tide_work_item *item)
{
    *out = (WORK(WorkItem))WORK_INIT(WORK_ITEM);
    out->work_item_id = tide_rpc_borrow(item->work_item_id);
    out->task_id = tide_rpc_borrow(item->task_id);
    out->work_type = tide_rpc_borrow(item->work_type);
    out->status = tide_rpc_borrow(item->status);
    out->priority = item->priority;
    out->lease_holder = tide_rpc_borrow(item->lease_holder);
    out->lease_acquired_at = item->lease_acquired_at_us;
    out->lease_expires_at = item->lease_expires_at_us;
    out->heartbeat_at = item->heartbeat_at_us;
    out->retry_count = item->retry_count;
    out->max_retries = item->max_retries;
    out->input_data = tide_rpc_borrow(item->input);
    out->output_data = tide_rpc_borrow(item->output);
    out->error_message = tide_rpc_borrow(item->error_message);
    out->created_at = item->created_at_us;
    out->started_at = item->started_at_us;
    out->completed_at = item->completed_at_us;
    out->updated_at = item->updated_at_us;
    out->lease_token = item->lease_token;
    out->lease_via = tide_rpc_borrow(item->lease_via);
    out->run_after = item->run_after_us;
    out->unique_key = tide_rpc_borrow(item->unique_key);
    out->timeout_ms = item->timeout_us / 1000;
    out->deadline_at = item->deadline_at_us;
    out->failure_count = item->failure_count;
    out->crash_count = item->crash_count;
    out->failure_kind = tide_rpc_borrow(item->failure_kind);
    out->progress = tide_rpc_borrow(item->progress);
    out->retried_from = tide_rpc_borrow(item->retried_from);
    out->schedule_name = tide_rpc_borrow(item->schedule_name);
    out->waits_for = item->waits_for;
    out->revision = item->revision;
    out->attempt_outcome = tide_rpc_borrow(item->attempt_outcome);
    out->has_dependents = item->has_dependents;
    out->claim_key = item->claim_key;
}

void tide_rpc_key(WORK(IdempotencyKey) * out, const tide_idempotency_key *key)
{
    *out = (WORK(IdempotencyKey))WORK_INIT(IDEMPOTENCY_KEY);
    out->key = tide_rpc_borrow(key->name);
    out->task_id = tide_rpc_borrow(key->task_id);
    out->work_item_id = tide_rpc_borrow(key->work_item_id);
    out->request_hash = tide_rpc_borrow(key->request_hash);
    out->status = tide_rpc_borrow(key->status);
    out->lock_holder = tide_rpc_borrow(key->lock_holder);
    out->policy = tide_rpc_borrow(key->policy);
    out->response = tide_rpc_borrow(key->response.ptr);
    out->has_response = key->has_response;
    out->is_locked = key->is_locked;
    out->lock_token = key->lock_token;
    out->lock_expires_at = key->lock_expires_at_us;
    out->attempts = key->attempts;
    out->created_at = key->created_at_us;
    out->completed_at = key->completed_at_us;
    out->expires_at = key->expires_at_us;
}

static void describe_checkpoint(JOURNAL(Checkpoint) * out, const tide_checkpoint *checkpoint)
{
    *out = (JOURNAL(Checkpoint))JOURNAL_INIT(CHECKPOINT);
    out->global_sequence = checkpoint->global_sequence;
    out->sequence_number = checkpoint->sequence_number;
    out->checkpoint_id = tide_rpc_borrow(checkpoint->checkpoint_id);
    out->task_id = tide_rpc_borrow(checkpoint->task_id);
    out->work_item_id = tide_rpc_borrow(checkpoint->work_item_id);
    out->type = tide_rpc_borrow(checkpoint->type);
    out->trigger = tide_rpc_borrow(checkpoint->trigger);
    out->message = tide_rpc_borrow(checkpoint->message);
    out->metadata = tide_rpc_borrow(checkpoint->metadata);
    out->created_at = checkpoint->created_at_us;
    out->snapshot_len = checkpoint->snapshot_len;
    out->is_sealed = checkpoint->is_sealed;
    out->tags = (char **)checkpoint->tags;
    out->n_tags = (size_t)checkpoint->tag_count;
    out->origin_session = tide_rpc_borrow(checkpoint->origin_session);
    out->origin_global = checkpoint->origin_global;
    out->origin_number = checkpoint->origin_number;
    TIDE_RPC_PUT_IDENTITY(out, checkpoint->identity);
}

tide_status tide_rpc_encode_checkpoint(tide_buffer *out, const tide_checkpoint *checkpoint,
                                       tide_error *err)
{
    enum { SNAPSHOT_FIELD = 12 };
    JOURNAL(Checkpoint) message;
    describe_checkpoint(&message, checkpoint);
    TIDE_TRY(tide_rpc_pack(out, &message.base, err));
    if (!checkpoint->has_snapshot || checkpoint->snapshot.len == 0)
        return TIDE_OK;
    return tide_rpc_put_bytes(out, SNAPSHOT_FIELD, checkpoint->snapshot, err);
}

void tide_rpc_numbers(JOURNAL(Numbers) * out, const tide_checkpoint_numbers *numbers)
{
    *out = (JOURNAL(Numbers))JOURNAL_INIT(NUMBERS);
    out->checkpoint_id = tide_rpc_borrow(numbers->checkpoint_id);
    out->sequence_number = numbers->sequence_number;
    out->global_sequence = numbers->global_sequence;
    out->is_existing = numbers->is_existing;
    TIDE_RPC_PUT_IDENTITY(out, &numbers->identity);
}

void tide_rpc_new_checkpoint(tide_checkpoint_new *out, const JOURNAL(NewCheckpoint) * given)
{
    *out = (tide_checkpoint_new){
        .checkpoint_id = tide_rpc_text(given->checkpoint_id),
        .task_id = tide_rpc_text(given->task_id),
        .work_item_id = tide_rpc_text(given->work_item_id),
        .type = tide_rpc_text(given->type),
        .snapshot = tide_view_of(given->snapshot),
        .is_text = given->is_text,
        .metadata = tide_rpc_text(given->metadata),
        .message = tide_rpc_text(given->message),
        .trigger = tide_rpc_text(given->trigger),
        .tags = (const char *const *)given->tags,
        .tag_count = given->n_tags > INT32_MAX ? INT32_MAX : (int)given->n_tags,
        .expect_global = given->expect_global,
    };
}
