#include "cli/work/work_output.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text/json_canon.h"

void tide_cli_json_data_view(tide_cli_output *out, const char *key, tide_view text)
{
    if (!text.ptr)
        tide_cli_json_null(out, key);
    else if (tide_json_check(text, NULL) == TIDE_OK)
        tide_cli_json_raw(out, key, text);
    else
        tide_cli_json_view(out, key, text);
}

void tide_cli_json_data(tide_cli_output *out, const char *key, const char *text)
{
    tide_cli_json_data_view(out, key, text ? tide_view_of(text) : (tide_view){NULL, 0});
}

void tide_cli_json_moment(tide_cli_output *out, const char *key, int64_t us)
{
    if (us == 0)
        tide_cli_json_null(out, key);
    else
        tide_cli_json_time(out, key, us);
}

static void print_optional(tide_cli_output *out, const char *key, int64_t number)
{
    if (number > 0)
        tide_cli_json_i64(out, key, number);
    else
        tide_cli_json_null(out, key);
}

void tide_cli_json_item(tide_cli_output *out, const tide_work_item *item)
{
    tide_cli_json_text(out, "work_item_id", item->work_item_id);
    tide_cli_json_text(out, "task_id", item->task_id);
    tide_cli_json_text(out, "work_type", item->work_type);
    tide_cli_json_text(out, "status", item->status);
    tide_cli_json_i64(out, "priority", item->priority);
    tide_cli_json_text(out, "lease_holder", item->lease_holder);
    tide_cli_json_moment(out, "lease_acquired_at", item->lease_acquired_at_us);
    tide_cli_json_moment(out, "lease_expires_at", item->lease_expires_at_us);
    tide_cli_json_moment(out, "heartbeat_at", item->heartbeat_at_us);
    tide_cli_json_i64(out, "retry_count", item->retry_count);
    tide_cli_json_i64(out, "max_retries", item->max_retries);
    tide_cli_json_data(out, "input_data", item->input);
    tide_cli_json_data(out, "output_data", item->output);
    tide_cli_json_text(out, "error_message", item->error_message);
    tide_cli_json_moment(out, "created_at", item->created_at_us);
    tide_cli_json_moment(out, "started_at", item->started_at_us);
    tide_cli_json_moment(out, "completed_at", item->completed_at_us);
    tide_cli_json_moment(out, "updated_at", item->updated_at_us);
    tide_cli_json_i64(out, "lease_token", item->lease_token);
    tide_cli_json_text(out, "lease_via", item->lease_via);
    tide_cli_json_i64(out, "revision", item->revision);
    tide_cli_json_moment(out, "run_after", item->run_after_us);
    tide_cli_json_text(out, "unique_key", item->unique_key);
    print_optional(out, "timeout_us", item->timeout_us);
    tide_cli_json_moment(out, "deadline_at", item->deadline_at_us);
    tide_cli_json_i64(out, "failure_count", item->failure_count);
    tide_cli_json_i64(out, "crash_count", item->crash_count);
    tide_cli_json_text(out, "failure_kind", item->failure_kind);
    tide_cli_json_text(out, "attempt_outcome", item->attempt_outcome);
    tide_cli_json_data(out, "progress", item->progress);
    tide_cli_json_text(out, "retried_from", item->retried_from);
    tide_cli_json_text(out, "schedule_name", item->schedule_name);
    tide_cli_json_i64(out, "waits_for", item->waits_for);
    tide_cli_json_bool(out, "has_dependents", item->has_dependents);
    tide_cli_json_i64(out, "claim_key", item->claim_key);
}

void tide_cli_json_checkpoint(tide_cli_output *out, const tide_checkpoint *checkpoint)
{
    tide_cli_json_i64(out, "global_sequence", checkpoint->global_sequence);
    tide_cli_json_text(out, "checkpoint_id", checkpoint->checkpoint_id);
    tide_cli_json_text(out, "task_id", checkpoint->task_id);
    tide_cli_json_text(out, "work_item_id", checkpoint->work_item_id);
    tide_cli_json_text(out, "checkpoint_type", checkpoint->type);
    tide_cli_json_i64(out, "sequence_number", checkpoint->sequence_number);
    tide_cli_json_text(out, "message", checkpoint->message);
    tide_cli_json_array_begin(out, "tags");
    for (int i = 0; i < checkpoint->tag_count; i++)
        tide_cli_json_text(out, NULL, checkpoint->tags[i]);
    tide_cli_json_array_end(out);
    tide_cli_json_text(out, "trigger", checkpoint->trigger);
    tide_cli_json_data(out, "metadata", checkpoint->metadata);
    tide_cli_json_moment(out, "created_at", checkpoint->created_at_us);
    tide_cli_json_i64(out, "snapshot_len", checkpoint->snapshot_len);
    if (checkpoint->has_snapshot)
        tide_cli_json_data_view(out, "snapshot_data", checkpoint->snapshot);
    if (checkpoint->origin_session) {
        tide_cli_json_text(out, "origin_session", checkpoint->origin_session);
        tide_cli_json_i64(out, "origin_global", checkpoint->origin_global);
        tide_cli_json_i64(out, "origin_number", checkpoint->origin_number);
    }
    tide_cli_json_identity(out, checkpoint->identity);
}

void tide_cli_json_identity(tide_cli_output *out, const tide_identity *identity)
{
    tide_cli_json_text(out, "session_id", identity ? identity->session_id : NULL);
    print_optional(out, "epoch", identity ? identity->epoch : 0);
    tide_cli_json_text(out, "epoch_id", identity ? identity->epoch_id : NULL);
}

tide_status tide_cli_print_id(tide_cli_output *out, const char *key, const char *id,
                              tide_error *err)
{
    if (!out->is_json) {
        tide_cli_print(out->file, "%s\n", id);
        return TIDE_OK;
    }
    tide_cli_json_begin(out);
    tide_cli_json_text(out, key, id);
    return tide_cli_json_end(out, err);
}

tide_status tide_cli_print_done(tide_cli_output *out, const char *key, const char *id,
                                const char *result, tide_error *err)
{
    if (!out->is_json) {
        tide_cli_print(out->file, "%s %s\n", id, result);
        return TIDE_OK;
    }
    tide_cli_json_begin(out);
    tide_cli_json_text(out, key, id);
    tide_cli_json_text(out, "result", result);
    return tide_cli_json_end(out, err);
}

tide_status tide_cli_print_numbers(tide_cli_output *out, const tide_checkpoint_numbers *numbers,
                                   tide_error *err)
{
    if (!out->is_json) {
        tide_cli_print(out->file, "%" PRId64 "\n", numbers->global_sequence);
        return TIDE_OK;
    }
    tide_cli_json_begin(out);
    tide_cli_json_text(out, "checkpoint_id", numbers->checkpoint_id);
    tide_cli_json_i64(out, "sequence_number", numbers->sequence_number);
    tide_cli_json_i64(out, "global_sequence", numbers->global_sequence);
    tide_cli_json_identity(out, &numbers->identity);
    if (numbers->is_existing)
        tide_cli_json_bool(out, "existing", true);
    return tide_cli_json_end(out, err);
}

tide_status tide_cli_found(tide_status status, const char *what, const char *id,
                           const tide_store *store, tide_error *err)
{
    if (status == TIDE_NONE)
        return tide_fail(err, TIDE_E_NOT_FOUND, "there is no %s '%s' in %s", what, id,
                         tide_store_name(store));
    return status;
}

void tide_cli_worker_name(const tide_cli *cli, tide_cli_option_id id,
                          char out[TIDE_CLI_WORKER_SIZE])
{
    const char *name = tide_cli_text(cli, id);
    if (name) {
        (void)snprintf(out, TIDE_CLI_WORKER_SIZE, "%s", name);
        return;
    }
    char host[128] = "";
    if (gethostname(host, sizeof host - 1) != 0 || !host[0])
        (void)snprintf(host, sizeof host, "worker");
    (void)snprintf(out, TIDE_CLI_WORKER_SIZE, "%s-%ld", host, (long)getpid());
}

tide_status tide_cli_check_status(const tide_cli *cli, const char *const *statuses, tide_error *err)
{
    const char *given = tide_cli_text(cli, TIDE_CLI_STATUS);
    char known[128] = "";
    for (const char *const *status = statuses; *status; status++) {
        if (!given || strcmp(given, *status) == 0)
            return TIDE_OK;
        const size_t len = strlen(known);
        (void)snprintf(known + len, sizeof known - len, "%s%s", len > 0 ? ", " : "", *status);
    }
    return tide_fail(err, TIDE_E_INVALID, "--status '%.40s', want one of %s", given, known);
}
