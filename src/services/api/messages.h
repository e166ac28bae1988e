/* messages.h - rows of the library as messages of the services, and the long names of generated
 * code made short.
 *
 * Texts are borrowed, not copied: a message is encoded before the row goes away. NULL stays NULL,
 * which protobuf-c leaves out. */
#pragma once

#include <tidemark/work.h>

#include "base/buffer.h"
#include "net/call/call.h"
#include "tidemark_journal_v1_journal.pb-c.h"
#include "tidemark_work_v1_work.pb-c.h"

#define WORK(type_) Tidemark__Work__V1__##type_
#define WORK_INIT(type_) TIDEMARK__WORK__V1__##type_##__INIT
#define JOURNAL(type_) Tidemark__Journal__V1__##type_
#define JOURNAL_INIT(type_) TIDEMARK__JOURNAL__V1__##type_##__INIT

/* A row of a table of unary methods that block. */
#define TIDE_RPC_ROW(service_, method_, role_, request_, response_, fn_)                           \
    {                                                                                              \
        .path = service_ "/" method_, .kind = TIDE_CALL_UNARY, .role = TIDE_ROLE_##role_,          \
        .is_blocking = true, .request = &tidemark__##request_##__descriptor,                       \
        .response = &tidemark__##response_##__descriptor, .run = run_##fn_                         \
    }

char *tide_rpc_borrow(const char *text); /* generated messages have no const */

/* The members session_id, epoch, epoch_id of a message; identity NULL: left empty. */
#define TIDE_RPC_PUT_IDENTITY(message_, identity_)                                                 \
    do {                                                                                           \
        const tide_identity *put_ = (identity_);                                                   \
        if (put_) {                                                                                \
            (message_)->session_id = tide_rpc_borrow(put_->session_id);                            \
            (message_)->epoch = put_->epoch;                                                       \
            (message_)->epoch_id = tide_rpc_borrow(put_->epoch_id);                                \
        }                                                                                          \
    } while (0)

/* The other way. TIDE_E_INVALID: an id that is no UUID, an epoch out of range. */
TIDE_MUST_CHECK tide_status tide_rpc_read_identity(tide_identity *out, const char *session_id,
                                                   int64_t epoch, const char *epoch_id,
                                                   tide_error *err);

void tide_rpc_task(WORK(Task) * out, const tide_task *task);
void tide_rpc_counts(WORK(ItemCounts) * out, const tide_task *task); /* of a task that was found */
void tide_rpc_item(WORK(WorkItem) * out, const tide_work_item *item);
void tide_rpc_key(WORK(IdempotencyKey) * out, const tide_idempotency_key *key);
void tide_rpc_retried(WORK(RetriedItem) * out, const tide_work_retried *retried);
void tide_rpc_attempt(WORK(Attempt) * out, const tide_work_attempt *attempt);
void tide_rpc_claimed(WORK(ClaimedItem) * out, const tide_work_claimed *item,
                      const tide_identity *identity);
void tide_rpc_type(WORK(TypeState) * out, const tide_work_type *type);
void tide_rpc_swept(WORK(SweepResponse) * out, const tide_work_swept *swept);
void tide_rpc_schedule(WORK(Schedule) * out, const tide_schedule *schedule);
void tide_rpc_annotation(JOURNAL(Annotation) * out, const tide_annotation *annotation);
void tide_rpc_compacted(JOURNAL(CompactResponse) * out, const tide_compacted *compacted);

/* A checkpoint's message, encoded: its snapshot is bytes of any length without an end mark. */
TIDE_MUST_CHECK tide_status tide_rpc_encode_checkpoint(tide_buffer *out,
                                                       const tide_checkpoint *checkpoint,
                                                       tide_error *err);
/* An event and a difference, encoded, because they contain snapshots. */
TIDE_MUST_CHECK tide_status tide_rpc_encode_event(tide_buffer *out, const tide_journal_event *event,
                                                  tide_error *err);
TIDE_MUST_CHECK tide_status tide_rpc_encode_difference(tide_buffer *out,
                                                       const tide_difference *difference,
                                                       tide_error *err);
void tide_rpc_numbers(JOURNAL(Numbers) * out, const tide_checkpoint_numbers *numbers);

/* The other way: everything is borrowed from the request. */
void tide_rpc_new_checkpoint(tide_checkpoint_new *out, const JOURNAL(NewCheckpoint) * given);
