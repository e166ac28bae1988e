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
