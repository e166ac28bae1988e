#include "cli/colony/fleet.h"

tide_status tide_cli_fleet_ask(tide_cli *cli, tide_cli_fleet *out, tide_error *err)
{
    ProtobufCMessage *response = NULL;
    COLONY(FleetRequest) request = COLONY_INIT(FLEET_REQUEST);
    TIDE_TRY(tide_cli_colony_open(cli, &out->colony, TIDE_STORE_EXISTING, false, err));
    TIDE_TRY(tide_cli_colony_call(&out->colony, "Fleet", &request.base,
                                  &tidemark__colony__v1__fleet_response__descriptor, &response,
                                  err));
    out->answer = (COLONY(FleetResponse) *)response;
    return TIDE_OK;
}

void tide_cli_fleet_done(tide_cli_fleet *fleet)
{
    if (fleet->answer)
        protobuf_c_message_free_unpacked(&fleet->answer->base, NULL);
    tide_cli_colony_done(&fleet->colony);
}

tide_cli_standing tide_cli_fleet_standing(const COLONY(FleetLine) * line)
{
    tide_cli_standing sum = {.until_loss_ms = -1, .hold = ""};
    for (size_t i = 0; i < line->n_lag_records; i++)
        sum.lag_records += (int64_t)line->lag_records[i];
    for (size_t i = 0; i < line->n_lag_ms; i++)
        if ((int64_t)line->lag_ms[i] > sum.lag_ms)
            sum.lag_ms = (int64_t)line->lag_ms[i];
    for (size_t i = 0; i < line->n_until_loss_ms; i++) {
        const int64_t left = line->until_loss_ms[i];
        if (left >= 0 && (sum.until_loss_ms < 0 || left < sum.until_loss_ms))
            sum.until_loss_ms = left;
    }
    for (size_t i = 0; i < line->n_open_gaps; i++)
        sum.open_gaps += (int64_t)line->open_gaps[i];
    for (size_t i = 0; i < line->n_holds; i++)
        if (*line->holds[i])
            sum.hold = line->holds[i];
    return sum;
}

void tide_cli_fleet_json(tide_cli_output *out, const COLONY(FleetResponse) * fleet)
{
    tide_cli_json_i64(out, "unexplained", (int64_t)fleet->unexplained);
    tide_cli_json_i64(out, "pending", (int64_t)fleet->pending);
    tide_cli_json_i64(out, "open_gaps", (int64_t)fleet->open_gaps);
    tide_cli_json_i64(out, "lost", (int64_t)fleet->lost);
    tide_cli_json_array_begin(out, "agents");
    for (size_t i = 0; i < fleet->n_agents; i++) {
        const COLONY(FleetLine) *line = fleet->agents[i];
        const tide_cli_standing standing = tide_cli_fleet_standing(line);
        tide_cli_json_object_begin(out, NULL);
        tide_cli_json_text(out, "agent_id", line->agent_id);
        tide_cli_json_text(out, "health", line->health);
        tide_cli_json_text(out, "error", *line->error ? line->error : NULL);
        tide_cli_json_text(out, "holder", *line->holder ? line->holder : NULL);
        tide_cli_json_i64(out, "lag_records", standing.lag_records);
        tide_cli_json_double(out, "lag_seconds", (double)standing.lag_ms / 1000);
        if (standing.until_loss_ms >= 0)
            tide_cli_json_double(out, "seconds_until_loss", (double)standing.until_loss_ms / 1000);
        else
            tide_cli_json_null(out, "seconds_until_loss");
        tide_cli_json_i64(out, "open_gaps", standing.open_gaps);
        tide_cli_json_text(out, "hold", *standing.hold ? standing.hold : NULL);
        tide_cli_json_object_end(out);
    }
    tide_cli_json_array_end(out);
}
