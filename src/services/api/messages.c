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
    out->title = tide_rpc_borrow(item->title);
    out->limit_key = tide_rpc_borrow(item->limit_key);
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
    out->lock_via = tide_rpc_borrow(key->lock_via);
}

static void describe_checkpoint(JOURNAL(Checkpoint) * out, const tide_checkpoint *checkpoint)
{
    *out = (JOURNAL(Checkpoint))JOURNAL_INIT(CHECKPOINT);
    out->global_sequence = checkpoint->global_sequence;
    out->sequence_number = checkpoint->sequence_number;
    out->checkpoint_id = tide_rpc_borrow(checkpoint->checkpoint_id);
    out->task_id = tide_rpc_borrow(checkpoint->task_id);
    out->work_item_id = tide_rpc_borrow(checkpoint->work_item_id);
    out->checkpoint_type = tide_rpc_borrow(checkpoint->type);
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
        TIDE_CHECKPOINT_NEW_INIT,
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
        .token = given->token,
        .item_token = given->item_token,
    };
}

void tide_rpc_retried(WORK(RetriedItem) * out, const tide_work_retried *retried)
{
    *out = (WORK(RetriedItem))WORK_INIT(RETRIED_ITEM);
    out->work_item_id = tide_rpc_borrow(retried->new_id);
    out->is_existing = retried->is_existing;
    out->retried_from = tide_rpc_borrow(retried->work_item_id);
}

void tide_rpc_attempt(WORK(Attempt) * out, const tide_work_attempt *attempt)
{
    *out = (WORK(Attempt))WORK_INIT(ATTEMPT);
    out->attempt = attempt->attempt;
    out->lease_token = attempt->lease_token;
    out->worker = tide_rpc_borrow(attempt->worker);
    out->via = tide_rpc_borrow(attempt->via);
    out->outcome = tide_rpc_borrow(attempt->outcome);
    out->error_message = tide_rpc_borrow(attempt->error_message);
    out->started_at = attempt->started_at_us;
    out->ended_at = attempt->ended_at_us;
}

void tide_rpc_claimed(WORK(ClaimedItem) * out, const tide_work_claimed *item,
                      const tide_identity *identity)
{
    *out = (WORK(ClaimedItem))WORK_INIT(CLAIMED_ITEM);
    out->work_item_id = tide_rpc_borrow(item->work_item_id);
    out->task_id = tide_rpc_borrow(item->task_id);
    out->work_type = tide_rpc_borrow(item->work_type);
    out->input_data = tide_rpc_borrow(item->input);
    out->lease_token = item->lease_token;
    out->attempt = item->attempt;
    out->max_retries = item->max_retries;
    out->priority = item->priority;
    out->lease_expires_at = item->lease_expires_at_us;
    out->deadline_at = item->deadline_at_us;
    out->worker = tide_rpc_borrow(item->worker);
    TIDE_RPC_PUT_IDENTITY(out, identity);
}

void tide_rpc_type(WORK(TypeState) * out, const tide_work_type *type)
{
    *out = (WORK(TypeState))WORK_INIT(TYPE_STATE);
    out->work_type = tide_rpc_borrow(type->work_type);
    out->is_paused = type->is_paused;
    out->pause_reason = tide_rpc_borrow(type->pause_reason);
    out->paused_at = type->paused_at_us;
}

void tide_rpc_swept(WORK(SweepResponse) * out, const tide_work_swept *swept)
{
    *out = (WORK(SweepResponse))WORK_INIT(SWEEP_RESPONSE);
    out->requeued = swept->requeued;
    out->failed = swept->failed;
    out->quarantined = swept->quarantined;
    out->promoted = swept->promoted;
    out->blocked = swept->blocked;
    out->scheduled = swept->scheduled;
    out->skipped = swept->skipped;
    out->skipped_name = tide_rpc_borrow(swept->skipped_name);
    out->ended = swept->ended;
    out->has_more = swept->has_more;
}

void tide_rpc_schedule(WORK(Schedule) * out, const tide_schedule *schedule)
{
    *out = (WORK(Schedule))WORK_INIT(SCHEDULE);
    out->name = tide_rpc_borrow(schedule->name);
    out->task_id = tide_rpc_borrow(schedule->task_id);
    out->work_type = tide_rpc_borrow(schedule->work_type);
    out->cron = tide_rpc_borrow(schedule->cron);
    out->every_ms = schedule->every_us / 1000;
    out->input_data = tide_rpc_borrow(schedule->input);
    out->priority = schedule->priority;
    out->_max_retries_case = TIDEMARK__WORK__V1__SCHEDULE___MAX_RETRIES_MAX_RETRIES;
    out->max_retries = schedule->max_retries;
    out->timeout_ms = schedule->timeout_us / 1000;
    out->is_paused = schedule->is_paused;
    out->next_run_at = schedule->next_run_at_us;
    out->last_run_at = schedule->last_run_at_us;
    out->run_count = schedule->run_count;
    out->time_zone = tide_rpc_borrow(schedule->time_zone);
}

void tide_rpc_annotation(JOURNAL(Annotation) * out, const tide_annotation *annotation)
{
    *out = (JOURNAL(Annotation))JOURNAL_INIT(ANNOTATION);
    out->annotation_id = annotation->annotation_id;
    out->checkpoint_id = tide_rpc_borrow(annotation->checkpoint_id);
    out->note = tide_rpc_borrow(annotation->note);
    out->severity = tide_rpc_borrow(annotation->severity);
    out->created_at = annotation->created_at_us;
}

void tide_rpc_compacted(JOURNAL(CompactResponse) * out, const tide_compacted *compacted)
{
    *out = (JOURNAL(CompactResponse))JOURNAL_INIT(COMPACT_RESPONSE);
    out->removed = compacted->removed;
    out->kept = compacted->kept;
    out->kept_for_resume = compacted->kept_for_resume;
    out->chunks_removed = compacted->chunks_removed;
    out->bytes_removed = compacted->bytes_removed;
}

tide_status tide_rpc_encode_event(tide_buffer *out, const tide_journal_event *event,
                                  tide_error *err)
{
    enum { CHECKPOINT_FIELD = 8, LAST_COMMON_FIELD = 9 };
    JOURNAL(Event) row = JOURNAL_INIT(EVENT);
    row.event = tide_rpc_borrow(tide_journal_event_name(event->kind));
    row.event_id = event->event_id;
    row.first_global = event->first_global;
    row.last_global = event->last_global;
    row.count = event->count;
    row.task_id = tide_rpc_borrow(event->task_id);
    row.at = event->at_us;
    if (event->kind == TIDE_JOURNAL_EPOCH_CHANGED)
        row.last_common = event->last_global;
    TIDE_RPC_PUT_IDENTITY(&row, event->identity);
    TIDE_TRY(tide_rpc_pack(out, &row.base, err));
    /* Nothing is in common: a 0 that is to be seen. */
    const char zero[] = {LAST_COMMON_FIELD << 3, 0};
    if (event->kind == TIDE_JOURNAL_EPOCH_CHANGED && row.last_common == 0 &&
        tide_buffer_append(out, zero, sizeof zero) < TIDE_OK)
        return tide_no_memory(err);
    if (!event->checkpoint)
        return TIDE_OK;
    TIDE_BUFFER(checkpoint, TIDE_RPC_RESPONSE_MAX);
    TIDE_TRY(tide_rpc_encode_checkpoint(&checkpoint, event->checkpoint, err));
    return tide_rpc_put_bytes(out, CHECKPOINT_FIELD, tide_buffer_view(&checkpoint), err);
}

tide_status tide_rpc_encode_difference(tide_buffer *out, const tide_difference *difference,
                                       tide_error *err)
{
    enum { BEFORE_FIELD = 3, AFTER_FIELD = 4 };
    static const char *const kinds[] = {[TIDE_DIFFERENCE_ADDED] = "added",
                                        [TIDE_DIFFERENCE_REMOVED] = "removed",
                                        [TIDE_DIFFERENCE_CHANGED] = "changed"};
    JOURNAL(Difference) row = JOURNAL_INIT(DIFFERENCE);
    row.kind = tide_rpc_borrow(kinds[difference->kind]);
    row.path = tide_rpc_borrow(difference->path);
    TIDE_TRY(tide_rpc_pack(out, &row.base, err));
    if (difference->before.len > 0)
        TIDE_TRY(tide_rpc_put_bytes(out, BEFORE_FIELD, difference->before, err));
    if (difference->after.len > 0)
        TIDE_TRY(tide_rpc_put_bytes(out, AFTER_FIELD, difference->after, err));
    return TIDE_OK;
}
