/* top_json.c - a snapshot of `tidemark top` for programs. See top.h. */
#include "cli/machine/top.h"

static void put_gaps(tide_cli_output *out, const COLONY(ListGapsResponse) * gaps)
{
    tide_cli_json_array_begin(out, "gaps");
    for (size_t i = 0; i < gaps->n_gaps; i++) {
        const COLONY(Gap) *gap = gaps->gaps[i];
        tide_cli_json_object_begin(out, NULL);
        tide_cli_json_i64(out, "id", gap->id);
        tide_cli_json_text(out, "agent_id", gap->agent_id);
        tide_cli_json_text(out, "data_type", gap->data_type);
        tide_cli_json_i64(out, "start_seq_id", (int64_t)gap->start_seq_id);
        tide_cli_json_i64(out, "end_seq_id", (int64_t)gap->end_seq_id);
        tide_cli_json_text(out, "status", gap->status);
        tide_cli_json_text(out, "reason", gap->reason);
        tide_cli_json_i64(out, "recovery_attempts", gap->recovery_attempts);
        tide_cli_json_time(out, "detected_at", gap->detected_at);
        tide_cli_json_object_end(out);
    }
    tide_cli_json_array_end(out);
}

static void put_work(tide_cli_output *out, const tide_top_snapshot *snapshot)
{
    if (!snapshot->has_work) {
        tide_cli_json_null(out, "work");
        return;
    }
    tide_cli_json_object_begin(out, "work");
    tide_cli_json_i64(out, "active_leases", snapshot->active_leases);
    tide_cli_json_i64(out, "stale_leases", snapshot->stale_leases);
    tide_cli_json_array_begin(out, "items");
    for (int i = 0; i < snapshot->work_count; i++) {
        tide_cli_json_object_begin(out, NULL);
        tide_cli_json_text(out, "work_type", snapshot->work[i].work_type);
        tide_cli_json_text(out, "status", snapshot->work[i].status);
        tide_cli_json_i64(out, "count", snapshot->work[i].count);
        tide_cli_json_double(out, "mean_age_s", snapshot->work[i].mean_age_s);
        tide_cli_json_object_end(out);
    }
    tide_cli_json_array_end(out);
    tide_cli_json_object_end(out);
}

static void put_bytes(tide_cli_output *out, const char *key, int64_t bytes)
{
    if (bytes >= 0)
        tide_cli_json_i64(out, key, bytes);
    else
        tide_cli_json_null(out, key);
}

tide_status tide_top_print_json(tide_cli *cli, const tide_top_snapshot *snapshot, tide_error *err)
{
    tide_cli_output *out = &cli->out;
    tide_cli_json_begin(out);
    tide_cli_json_time(out, "taken_at", snapshot->taken_us);
    tide_cli_json_object_begin(out, "fleet");
    tide_cli_fleet_json(out, snapshot->fleet);
    tide_cli_json_object_end(out);
    put_gaps(out, snapshot->gaps);
    put_work(out, snapshot);
    tide_cli_json_object_begin(out, "store");
    tide_cli_json_text(out, "place", snapshot->place);
    put_bytes(out, "bytes", snapshot->store_bytes);
    put_bytes(out, "log_bytes", snapshot->log_bytes);
    put_bytes(out, "free_bytes", snapshot->free_bytes);
    tide_cli_json_double(out, "took_ms", (double)snapshot->took_us / 1000);
    tide_cli_json_object_end(out);
    return tide_cli_json_end(out, err);
}
