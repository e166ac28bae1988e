/* check_fleet.c - tidemark check lag|gaps|books: what the colony says. */
#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/colony/fleet.h"
#include "cli/machine/check.h"

enum { PAGE = 1000 };

/* ---- lag ---- */

typedef struct slowest {
    const char *agent_id;
    int64_t lag_ms;
    int64_t behind; /* of all */
    size_t away;
    size_t doubtful; /* degraded, or never seen */
    const char *away_id;
    const char *doubtful_id;
    const char *doubtful_health;
} slowest;

static void look_at(slowest *s, const COLONY(FleetLine) * line)
{
    const tide_cli_standing standing = tide_cli_fleet_standing(line);
    s->behind += standing.lag_records;
    if (!s->agent_id || standing.lag_ms > s->lag_ms) {
        s->agent_id = line->agent_id;
        s->lag_ms = standing.lag_ms;
    }
    if (strcmp(line->health, "away") == 0) {
        s->away++;
        s->away_id = line->agent_id;
    } else if (strcmp(line->health, "healthy") != 0) {
        s->doubtful++;
        s->doubtful_id = line->agent_id;
        s->doubtful_health = line->health;
    }
}

tide_status tide_check_lag(tide_check *check, tide_error *err)
{
    int64_t warning_us = 0;
    int64_t critical_us = 0;
    slowest s = {.agent_id = NULL};
    TIDE_TRY(tide_check_durations(check->cli, false, &warning_us, &critical_us, err));
    TIDE_CLEANUP(tide_cli_fleet_done) tide_cli_fleet fleet = {.answer = NULL};
    TIDE_TRY(tide_cli_fleet_ask(check->cli, &fleet, err));
    for (size_t i = 0; i < fleet.answer->n_agents; i++)
        look_at(&s, fleet.answer->agents[i]);
    if (!s.agent_id)
        return tide_fail(err, TIDE_E_NOT_FOUND, "no agent is known there");
    tide_check_rising(check, "lag", "s", (double)s.lag_ms / 1000, (double)warning_us / 1e6,
                      (double)critical_us / 1e6);
    tide_check_figure_only(check, "behind", "", (double)s.behind);
    tide_check_figure_only(check, "agents", "", (double)fleet.answer->n_agents);
    tide_check_rising(check, "away", "", (double)s.away, -1, 1);
    tide_check_rising(check, "doubtful", "", (double)s.doubtful, 1, -1);
    if (s.away > 0)
        tide_check_say(check, "%zu of %zu agents away (%s): what they have is not known", s.away,
                       fleet.answer->n_agents, s.away_id);
    else if (s.doubtful > 0 && s.lag_ms < warning_us / 1000)
        tide_check_say(check, "%zu of %zu agents doubtful (%s is %s): what they have is not known",
                       s.doubtful, fleet.answer->n_agents, s.doubtful_id, s.doubtful_health);
    else
        tide_check_say(check, "%s is %.1f s behind; %zu agents", s.agent_id,
                       (double)s.lag_ms / 1000, fleet.answer->n_agents);
    return TIDE_OK;
}

/* ---- gaps ---- */

static int64_t count_numbers(const COLONY(Gap) * gap)
{
    return (int64_t)(gap->end_seq_id - gap->start_seq_id) + 1;
}

/* Numbers lost since then, but for those that somebody has given up by hand. */
static tide_status count_lost(tide_cli_colony *colony, int64_t since_us, int64_t *lost,
                              tide_error *err)
{
    char permanent[] = "permanent";
    char *statuses[] = {permanent};
    COLONY(ListGapsRequest) request = COLONY_INIT(LIST_GAPS_REQUEST);
    request.statuses = statuses;
    request.n_statuses = 1;
    request.limit = PAGE;
    for (bool has_more = true; has_more;) {
        ProtobufCMessage *message = NULL;
        TIDE_TRY(tide_cli_colony_call(colony, "ListGaps", &request.base,
                                      &tidemark__colony__v1__list_gaps_response__descriptor,
                                      &message, err));
        const COLONY(ListGapsResponse) *page = (COLONY(ListGapsResponse) *)message;
        for (size_t i = 0; i < page->n_gaps; i++) {
            const COLONY(Gap) *gap = page->gaps[i];
            request.after_id = gap->id;
            if (gap->settled_at >= since_us && strcmp(gap->reason, "operator") != 0)
                *lost += count_numbers(gap);
        }
        has_more = page->more && page->n_gaps > 0;
        protobuf_c_message_free_unpacked(message, NULL);
    }
    return TIDE_OK;
}

tide_status tide_check_gaps(tide_check *check, tide_error *err)
{
    int64_t warning = 0;
    int64_t critical = 0;
    int64_t since_us = 0;
    int64_t lost = 0;
    TIDE_TRY(tide_check_numbers(check->cli, &warning, &critical, err));
    TIDE_TRY(
        tide_cli_time(check->cli, TIDE_CLI_SINCE, check->env->wall_us(check->env), &since_us, err));
    TIDE_CLEANUP(tide_cli_fleet_done) tide_cli_fleet fleet = {.answer = NULL};
    TIDE_TRY(tide_cli_fleet_ask(check->cli, &fleet, err));
    TIDE_TRY(count_lost(&fleet.colony, since_us, &lost, err));
    tide_check_rising(check, "open", "", (double)fleet.answer->open_gaps, (double)warning, -1);
    tide_check_rising(check, "lost", "", (double)lost, -1, (double)critical);
    tide_check_say(check, "%" PRIu64 " numbers in open gaps, %" PRId64 " lost since %s",
                   (uint64_t)fleet.answer->open_gaps, lost,
                   tide_cli_text(check->cli, TIDE_CLI_SINCE));
    return TIDE_OK;
}

/* ---- books ---- */

tide_status tide_check_books(tide_check *check, tide_error *err)
{
    int64_t warning = 0;
    int64_t critical = 0;
    TIDE_TRY(tide_check_numbers(check->cli, &warning, &critical, err));
    TIDE_CLEANUP(tide_cli_fleet_done) tide_cli_fleet fleet = {.answer = NULL};
    TIDE_TRY(tide_cli_fleet_ask(check->cli, &fleet, err));
    tide_check_rising(check, "unexplained", "", (double)fleet.answer->unexplained, (double)warning,
                      (double)critical);
    tide_check_figure_only(check, "pending", "", (double)fleet.answer->pending);
    tide_check_figure_only(check, "lost", "", (double)fleet.answer->lost);
    tide_check_say(check, "%" PRIu64 " numbers unexplained, %" PRIu64 " pending, %" PRIu64 " lost",
                   (uint64_t)fleet.answer->unexplained, (uint64_t)fleet.answer->pending,
                   (uint64_t)fleet.answer->lost);
    return TIDE_OK;
}
