/* journal_rpc.c - the methods of JournalService that answer once. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "services/api/messages.h"
#include "services/api/rpc.h"

#define SERVICE "/tidemark.journal.v1.JournalService"

enum { LIST_DEFAULT = 1000, FINDINGS_MAX = 1000 };

/* ---- append ---- */

typedef struct append {
    tide_checkpoint_new *given;
    tide_checkpoint_numbers *numbers;
    int count;
} append;

static void append_done(append *a)
{
    free(a->given);
    free(a->numbers);
}

static tide_status append_all(tide_tx *tx, void *arg, tide_error *err)
{
    append *a = arg;
    return tide_journal_append_in(tx, a->given, a->count, a->numbers, err);
}

static bool has_all_ids(const append *a)
{
    for (int i = 0; i < a->count; i++)
        if (!a->given[i].checkpoint_id)
            return false;
    return true;
}

/* One is appended in the shortest way; several are one transaction. */
static tide_status append_given(tide_store *store, append *a, tide_error *err)
{
    if (a->count == 1)
        return tide_journal_append(store, a->given, a->numbers, err);
    return has_all_ids(a) ? tide_store_write_by_id(store, append_all, a, true, err)
                          : tide_store_write(store, append_all, a, err);
}

TIDE_RPC(append_checkpoints, JOURNAL(AppendRequest))
{
    const size_t count = request->n_checkpoints;
    if (count < 1 || count > TIDE_JOURNAL_BATCH_MAX)
        return tide_fail(err, TIDE_E_INVALID, "%zu checkpoints, want 1 to %d", count,
                         TIDE_JOURNAL_BATCH_MAX);
    TIDE_CLEANUP(append_done)
    append a = {.given = calloc(count, sizeof *a.given),
                .numbers = calloc(count, sizeof *a.numbers),
                .count = (int)count};
    TIDE_NEED_MEMORY(a.given && a.numbers, err);
    for (size_t i = 0; i < count; i++)
        tide_rpc_new_checkpoint(&a.given[i], request->checkpoints[i]);
    TIDE_TRY(append_given(rpc->store, &a, err));
    for (size_t i = 0; i < count; i++) {
        JOURNAL(Numbers) row;
        tide_rpc_numbers(&row, &a.numbers[i]);
        TIDE_TRY(tide_rpc_put(rpc, 1, &row.base, err));
    }
    JOURNAL(AppendResponse) response = JOURNAL_INIT(APPEND_RESPONSE);
    TIDE_RPC_PUT_IDENTITY(&response, &a.numbers[0].identity);
    return tide_rpc_respond(rpc, &response.base, err);
}

tide_status tide_rpc_begin_step(tide_rpc *rpc, const ProtobufCMessage *message, tide_error *err)
{
    const JOURNAL(BeginStepRequest) *request = (const JOURNAL(BeginStepRequest) *)message;
    const tide_task_step step = {TIDE_TASK_STEP_INIT, .task_id = request->task_id,
                                 .name = request->name, .token = request->token};
    TIDE_CLEANUP(tide_task_step_state_done) tide_task_step_state state = {.is_done = false};
    TIDE_TRY(tide_task_step_begin(rpc->store, &step, &state, err));
    JOURNAL(BeginStepResponse) response = JOURNAL_INIT(BEGIN_STEP_RESPONSE);
    response.is_done = state.is_done;
    response.result = tide_rpc_borrow(state.result);
    response.step_token = state.step_token;
    response.key = state.key;
    return tide_rpc_respond(rpc, &response.base, err);
}
TIDE_RPC_RUN(tide_rpc_begin_step)

TIDE_RPC(complete_step, JOURNAL(CompleteStepRequest))
{
    const char *result = tide_rpc_text(request->result);
    const tide_task_step step = {TIDE_TASK_STEP_INIT,
                                 .task_id = request->task_id,
                                 .name = request->name,
                                 .token = request->token,
                                 .step_token = request->step_token,
                                 .result =
                                     result ? tide_view_of(result) : (tide_view){.ptr = NULL}};
    tide_checkpoint_numbers numbers;
    TIDE_TRY(tide_task_step_complete(rpc->store, &step, &numbers, err));
    JOURNAL(Numbers) response;
    tide_rpc_numbers(&response, &numbers);
    return tide_rpc_respond(rpc, &response.base, err);
}

TIDE_RPC(add_type, JOURNAL(AddTypeRequest))
{
    return tide_journal_add_type(rpc->store, request->type, request->is_resumable,
                                 tide_rpc_text(request->description), err);
}

/* ---- read ---- */

typedef struct listing {
    tide_rpc *rpc;
    tide_identity identity; /* of the last row; epoch 0: there was none */
} listing;

static tide_status put_checkpoint(void *arg, const tide_checkpoint *checkpoint, tide_error *err)
{
    listing *l = arg;
    tide_rpc *rpc = l->rpc;
    l->identity = *checkpoint->identity;
    TIDE_BUFFER(bytes, TIDE_RPC_RESPONSE_MAX);
    TIDE_TRY(tide_rpc_encode_checkpoint(&bytes, checkpoint, err));
    return tide_rpc_put_bytes(&rpc->answer, 1, tide_buffer_view(&bytes), err);
}

TIDE_RPC(list, JOURNAL(ListRequest))
{
    const tide_journal_filter filter = {
        TIDE_JOURNAL_FILTER_INIT,
        .task_id = tide_rpc_text(request->task_id),
        .work_item_id = tide_rpc_text(request->work_item_id),
        .type = tide_rpc_text(request->type),
        .tag = tide_rpc_text(request->tag),
        .first_global = request->first_global,
        .last_global = request->last_global,
        .since_us = request->since,
        .until_us = request->until,
        .limit = request->limit == 0 ? LIST_DEFAULT : request->limit,
        .order = request->newest_first ? TIDE_JOURNAL_NEWEST_FIRST : TIDE_JOURNAL_OLDEST_FIRST,
        .with_snapshot = request->with_snapshot,
    };
    listing l = {.rpc = rpc};
    TIDE_TRY(tide_journal_list(rpc->store, &filter, put_checkpoint, &l, err));
    if (l.identity.epoch == 0) /* behind the read, which may have found that an epoch began */
        tide_store_identity(rpc->store, &l.identity);
    JOURNAL(ListResponse) response = JOURNAL_INIT(LIST_RESPONSE);
    TIDE_RPC_PUT_IDENTITY(&response, &l.identity);
    return tide_rpc_respond(rpc, &response.base, err);
}

static tide_status answer_checkpoint(void *arg, const tide_checkpoint *checkpoint, tide_error *err)
{
    tide_rpc *rpc = arg;
    return tide_rpc_encode_checkpoint(&rpc->answer, checkpoint, err);
}

static tide_status or_not_found(tide_status status, const char *id, tide_error *err)
{
    if (status != TIDE_NONE)
        return status;
    return tide_fail(err, TIDE_E_NOT_FOUND, "there is no checkpoint %s", id);
}

static tide_status put_own_annotation(void *arg, const tide_annotation *annotation, tide_error *err)
{
    enum { ANNOTATIONS_FIELD = 21 };
    JOURNAL(Annotation) row;
    tide_rpc_annotation(&row, annotation);
    return tide_rpc_put(arg, ANNOTATIONS_FIELD, &row.base, err);
}

tide_status tide_rpc_get_checkpoint(tide_rpc *rpc, const ProtobufCMessage *message, tide_error *err)
{
    const JOURNAL(GetRequest) *request = (const JOURNAL(GetRequest) *)message;
    TIDE_TRY(or_not_found(tide_journal_find(rpc->store, request->id, request->with_snapshot,
                                            answer_checkpoint, rpc, err),
                          request->id, err));
    TIDE_TRY(tide_journal_annotations(rpc->store, request->id, put_own_annotation, rpc, err));
    return TIDE_OK;
}
TIDE_RPC_RUN(tide_rpc_get_checkpoint)

TIDE_RPC(restore, JOURNAL(GetRequest))
{
    return or_not_found(tide_journal_restore(rpc->store, request->id, answer_checkpoint, rpc, err),
                        request->id, err);
}

static tide_status head(tide_rpc *rpc, const ProtobufCMessage *message, tide_error *err)
{
    (void)message;
    tide_identity identity;
    JOURNAL(HeadResponse) response = JOURNAL_INIT(HEAD_RESPONSE);
    TIDE_TRY(tide_journal_head(rpc->store, &response.global_sequence, &identity, err));
    TIDE_RPC_PUT_IDENTITY(&response, &identity);
    return tide_rpc_respond(rpc, &response.base, err);
}
TIDE_RPC_RUN(head)

/* ---- annotations ---- */

TIDE_RPC(annotate, JOURNAL(AnnotateRequest))
{
    JOURNAL(AnnotateResponse) response = JOURNAL_INIT(ANNOTATE_RESPONSE);
    TIDE_TRY(tide_journal_annotate(rpc->store, request->id,
                                   *request->severity ? request->severity : "info", request->note,
                                   &response.annotation_id, err));
    return tide_rpc_respond(rpc, &response.base, err);
}

static tide_status put_annotation(void *arg, const tide_annotation *annotation, tide_error *err)
{
    JOURNAL(Annotation) row;
    tide_rpc_annotation(&row, annotation);
    return tide_rpc_put(arg, 1, &row.base, err);
}

TIDE_RPC(list_annotations, JOURNAL(GetRequest))
{
    const tide_status status =
        tide_journal_annotations(rpc->store, request->id, put_annotation, rpc, err);
    return status == TIDE_NONE ? TIDE_OK : status;
}

/* ---- removal ---- */

TIDE_RPC(compact, JOURNAL(CompactRequest))
{
    tide_compaction policy = {TIDE_COMPACTION_INIT, .task_id = tide_rpc_text(request->task_id),
                              .keep = request->keep, .keep_tagged = request->keep_tagged,
                              .is_dry_run = request->dry_run};
    TIDE_TRY(
        tide_rpc_duration(&policy.older_than_us, request->older_than_ms, "older_than_ms", err));
    tide_compacted compacted;
    TIDE_TRY(tide_journal_compact(rpc->store, &policy, &compacted, err));
    JOURNAL(CompactResponse) response;
    tide_rpc_compacted(&response, &compacted);
    return tide_rpc_respond(rpc, &response.base, err);
}

TIDE_RPC(delete_checkpoint, JOURNAL(DeleteRequest))
{
    return or_not_found(tide_journal_delete(rpc->store, request->id, request->force, err),
                        request->id, err);
}

/* ---- fork, diff, verify ---- */

TIDE_RPC(fork_task, JOURNAL(ForkRequest))
{
    char task_id[TIDE_JOURNAL_ID_MAX + 1];
    TIDE_TRY(
        or_not_found(tide_journal_fork(rpc->store, request->id, tide_rpc_text(request->task_id),
                                       tide_rpc_text(request->title), task_id, err),
                     request->id, err));
    JOURNAL(ForkResponse) response = JOURNAL_INIT(FORK_RESPONSE);
    response.task_id = task_id;
    return tide_rpc_respond(rpc, &response.base, err);
}

static tide_status put_difference(void *arg, const tide_difference *difference, tide_error *err)
{
    tide_rpc *rpc = arg;
    TIDE_BUFFER(bytes, TIDE_RPC_RESPONSE_MAX);
    TIDE_TRY(tide_rpc_encode_difference(&bytes, difference, err));
    return tide_rpc_put_bytes(&rpc->answer, 1, tide_buffer_view(&bytes), err);
}

TIDE_RPC(diff, JOURNAL(DiffRequest))
{
    const tide_status status =
        tide_journal_diff(rpc->store, request->a, request->b, put_difference, rpc, err);
    return status == TIDE_NONE ? TIDE_OK : status;
}

typedef struct findings {
    tide_buffer *out;
    int count;
    tide_status status;
    tide_error *err;
} findings;

static void put_finding(void *arg, const char *finding)
{
    findings *f = arg;
    if (f->status < TIDE_OK || f->count++ >= FINDINGS_MAX)
        return;
    f->status = tide_rpc_put_bytes(f->out, 6, tide_view_of(finding), f->err);
}

tide_status tide_rpc_journal_verify(tide_buffer *out, tide_store *store, const char *task_id,
                                    tide_error *err)
{
    tide_error put_err = {0};
    findings f = {.out = out, .status = TIDE_OK, .err = &put_err};
    tide_journal_report report = {0};
    const tide_status status = tide_journal_verify(store, task_id, put_finding, &f, &report, err);
    if (status < TIDE_OK && status != TIDE_E_DAMAGED)
        return status;
    if (f.status < TIDE_OK)
        return tide_fail(err, f.status, "%s", put_err.text);
    JOURNAL(VerifyResponse) response = JOURNAL_INIT(VERIFY_RESPONSE);
    response.valid = report.valid;
    response.invalid = report.invalid;
    response.skipped = report.skipped;
    response.missing = report.missing;
    response.is_sound = status >= TIDE_OK;
    TIDE_TRY(tide_rpc_pack(out, &response.base, NULL));
    return status;
}

/* Damage is what was asked for: a response, not an error. */
TIDE_RPC(verify, JOURNAL(VerifyRequest))
{
    const tide_status status =
        tide_rpc_journal_verify(&rpc->answer, rpc->store, tide_rpc_text(request->task_id), err);
    return status == TIDE_E_DAMAGED ? TIDE_OK : status;
}

/* clang-format off */
const tide_method tide_rpc_journal[] = {
    TIDE_RPC_ROW(SERVICE, "Append", WRITE, journal__v1__append_request, journal__v1__append_response, append_checkpoints),
    TIDE_RPC_ROW(SERVICE, "BeginStep", WRITE, journal__v1__begin_step_request, journal__v1__begin_step_response, tide_rpc_begin_step),
    TIDE_RPC_ROW(SERVICE, "CompleteStep", WRITE, journal__v1__complete_step_request, journal__v1__numbers, complete_step),
    TIDE_RPC_ROW(SERVICE, "AddType", WRITE, journal__v1__add_type_request, journal__v1__empty, add_type),
    TIDE_RPC_ROW(SERVICE, "List", READ, journal__v1__list_request, journal__v1__list_response, list),
    TIDE_RPC_ROW(SERVICE, "Get", READ, journal__v1__get_request, journal__v1__checkpoint, tide_rpc_get_checkpoint),
    TIDE_RPC_ROW(SERVICE, "Head", READ, journal__v1__empty, journal__v1__head_response, head),
    TIDE_RPC_ROW(SERVICE, "Annotate", WRITE, journal__v1__annotate_request, journal__v1__annotate_response, annotate),
    TIDE_RPC_ROW(SERVICE, "ListAnnotations", READ, journal__v1__get_request, journal__v1__list_annotations_response, list_annotations),
    TIDE_RPC_ROW(SERVICE, "Compact", ADMIN, journal__v1__compact_request, journal__v1__compact_response, compact),
    TIDE_RPC_ROW(SERVICE, "Delete", WRITE, journal__v1__delete_request, journal__v1__empty, delete_checkpoint),
    TIDE_RPC_ROW(SERVICE, "Restore", WRITE, journal__v1__get_request, journal__v1__checkpoint, restore),
    TIDE_RPC_ROW(SERVICE, "Fork", WRITE, journal__v1__fork_request, journal__v1__fork_response, fork_task),
    TIDE_RPC_ROW(SERVICE, "Diff", READ, journal__v1__diff_request, journal__v1__diff_response, diff),
    TIDE_RPC_ROW(SERVICE, "Verify", READ, journal__v1__verify_request, journal__v1__verify_response, verify),
    {.path = NULL},
};
/* clang-format on */
