/* fleet.h - the colony's fleet (tidemark.colony.v1 Fleet), asked for and added up: for status, check and top. */
#pragma once

#include "cli/colony/colony_store.h"

typedef struct tide_cli_fleet {
    tide_cli_colony colony;
    COLONY(FleetResponse) * answer;
} tide_cli_fleet;

TIDE_MUST_CHECK tide_status tide_cli_fleet_ask(tide_cli *cli, tide_cli_fleet *out, tide_error *err);
void tide_cli_fleet_done(tide_cli_fleet *fleet); /* fits TIDE_CLEANUP on {0} */

/* What an agent's streams come to. */
typedef struct tide_cli_standing {
    int64_t lag_records;
    int64_t lag_ms;        /* the greatest */
    int64_t until_loss_ms; /* the least; -1: nothing is threatened */
    int64_t open_gaps;
    const char *hold; /* of one of them; "": none */
} tide_cli_standing;
tide_cli_standing tide_cli_fleet_standing(const COLONY(FleetLine) * line);
