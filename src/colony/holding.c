/* holding.c - which agents a colony polls: a fair share, by leases. See registry.h.
 *
 * A turn is one transaction: the member's lease, one list of all agents with their leases, one renewal of everything that is held,
 * then a statement per agent that is given up or taken. Who takes what is free begins at a place of its own in the list, so that colonies that
 * start together do not all reach for the same agents. */
#include "colony/registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/lease.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/digest.h"
#include "base/list.h"
#include "base/text/json.h"
#include "store/statement.h"
#include "tidemark_sql.h"

enum { LEASE_NAME_SIZE = TIDE_AGENT_ID_MAX + 16, AGENTS_LEN_MAX = 64 << 20 };

#define SOON_US INT64_C(100000) /* there is more to take or to give up than one turn does */

/* An agent of the list, ascending by name. */
typedef struct seat {
    tide_held_agent agent;
    bool is_held; /* by us: it was renewed */
    bool is_free;
    bool is_removed;
    bool is_claimed; /* in this turn */
} seat;

/* What one run works on; nothing of it is kept from an earlier run. */
typedef struct turn {
    const tide_holding *holding;
    int64_t member_token;
    seat *seats;
    int seat_count;
    int live_count; /* not removed */
    int held_count;
    int64_t members;
    int acts; /* taken and given up */
    bool has_more;
} turn;

static void end_turn(turn *t)
{
    free(t->seats);
}

void tide_holding_init(tide_holding *holding, const char *colony_id, int64_t lease_us)
{
    memset(holding, 0, sizeof *holding);
    (void)snprintf(holding->colony_id, sizeof holding->colony_id, "%s", colony_id);
    holding->lease_us = lease_us;
}

void tide_holding_done(tide_holding *holding)
{
    free(holding->agents);
    holding->agents = NULL;
    holding->count = 0;
}

static void name_member(char out[TIDE_COLONY_ID_MAX + 16], const tide_holding *holding)
{
    (void)snprintf(out, TIDE_COLONY_ID_MAX + 16, "colony/member/%s", holding->colony_id);
}

/* ---- being a member ---- */

static tide_status keep_member(tide_tx *tx, turn *t, tide_error *err)
{
    const tide_holding *holding = t->holding;
    char name[TIDE_COLONY_ID_MAX + 16];
    name_member(name, holding);
    t->member_token = holding->member_token;
    if (t->member_token != 0) {
        const tide_status status =
            tide_lease_renew(tx, name, t->member_token, holding->lease_us, err);
        if (status != TIDE_E_LEASE_LOST)
            return status;
    }
    tide_lease lease;
    TIDE_TRY(tide_lease_claim(tx, name, holding->colony_id, holding->lease_us, &lease, err));
    t->member_token = lease.token;
    return TIDE_OK;
}

static tide_status count_members(tide_tx *tx, turn *t, int64_t now_us, tide_error *err)
{
    return tide_tx_number(&t->members, tx, TIDE_SQL_MEMBER_COUNT, err,
                          tide_bind_time("now", now_us));
}

/* ---- the list ---- */

static tide_status add_seat(turn *t, tide_query *query, int64_t now_us, tide_error *err)
{
    TIDE_TRY(tide_list_room(&t->seats, t->seat_count, sizeof *t->seats, TIDE_LIST_MAX, err));
    seat *s = &t->seats[t->seat_count++];
    memset(s, 0, sizeof *s);
    tide_view_copy(s->agent.agent_id, sizeof s->agent.agent_id, tide_query_col_text(query));
    tide_view_copy(s->agent.address, sizeof s->agent.address, tide_query_col_text(query));
    (void)tide_query_col_text(query); /* origin */
    s->is_removed = tide_query_col_bool(query);
    for (int i = 0; i < 3; i++) /* added, seen, failed */
        (void)tide_query_col_time(query);
    (void)tide_query_col_text(query); /* error */
    const bool is_held = !tide_query_col_is_null(query);
    (void)tide_query_col_text(query);
    (void)tide_query_col_i64(query); /* token */
    const int64_t lease_us = tide_query_col_time(query);
    const int64_t expires_us = is_held ? lease_us : 0;
    tide_view_copy(s->agent.reader, sizeof s->agent.reader, tide_query_col_text(query));
    s->is_free = !is_held || expires_us <= now_us;
    t->live_count += !s->is_removed;
    return TIDE_OK;
}

static tide_status list_agents(tide_tx *tx, turn *t, int64_t now_us, tide_error *err)
{
    t->seat_count = 0;
    t->live_count = 0;
    TIDE_QUERY(query, tx, TIDE_SQL_AGENT_LIST, err, tide_bind_bool("with_removed", true));
    TIDE_EACH(tide_query_step(query, err))
        TIDE_TRY(add_seat(t, query, now_us, err));
    return TIDE_OK;
}

static int compare_name(const void *name, const void *item)
{
    return strcmp(name, ((const seat *)item)->agent.agent_id);
}

static seat *find_seat(const turn *t, const char *agent_id)
{
    return t->seat_count == 0 ? NULL
                              : bsearch(agent_id, t->seats, (size_t)t->seat_count,
                                        sizeof t->seats[0], compare_name);
}

/* ---- what is held ---- */

static tide_status write_held(tide_buffer *out, const tide_holding *holding)
{
    tide_json json;
    tide_json_init(&json, out);
    tide_json_array_begin(&json);
    for (int i = 0; i < holding->count; i++) {
        char name[LEASE_NAME_SIZE];
        tide_registry_lease_name(name, holding->agents[i].agent_id);
        tide_json_array_begin(&json);
        tide_json_text(&json, name);
        tide_json_i64(&json, holding->agents[i].token);
        tide_json_array_end(&json);
    }
    tide_json_array_end(&json);
    return tide_json_finish(&json);
}

/* The token of what we hold, by name; 0: we do not. */
static int64_t token_of(const tide_holding *holding, const char *agent_id)
{
    int low = 0;
    int high = holding->count;
    while (low < high) {
        const int middle = (low + high) / 2;
        const int order = strcmp(agent_id, holding->agents[middle].agent_id);
        if (order == 0)
            return holding->agents[middle].token;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return 0;
}

static tide_status renew_held(tide_tx *tx, turn *t, int64_t now_us, tide_error *err)
{
    const tide_holding *holding = t->holding;
    t->held_count = 0;
    if (holding->count == 0)
        return TIDE_OK;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer list = tide_buffer_of(AGENTS_LEN_MAX);
    const tide_status written = write_held(&list, holding);
    TIDE_TRY(tide_buffer_check(written, err));
    TIDE_QUERY(query, tx, TIDE_SQL_AGENT_RENEW, err,
               tide_bind_view("held", tide_buffer_view(&list)), tide_bind_time("now", now_us),
               tide_bind_time("expires", now_us + holding->lease_us));
    TIDE_EACH(tide_query_step(query, err)) {
        const tide_view name = tide_query_col_text(query);
        char agent_id[TIDE_AGENT_ID_MAX + 1];
        const size_t prefix = strlen("colony/agent/");
        (void)snprintf(agent_id, sizeof agent_id, "%.*s", (int)(name.len - prefix),
                       name.ptr + prefix);
        seat *s = find_seat(t, agent_id);
        if (!s)
            continue;
        s->is_held = true;
        s->is_free = false;
        s->agent.token = token_of(holding, agent_id);
        t->held_count++;
    }
    return TIDE_OK;
}

/* ---- giving up and taking ---- */

static bool is_tired(turn *t)
{
    t->has_more = t->has_more || t->acts >= TIDE_HOLDING_CLAIM_MAX;
    return t->acts >= TIDE_HOLDING_CLAIM_MAX;
}

static tide_status give_up(tide_tx *tx, turn *t, seat *s, tide_error *err)
{
    char name[LEASE_NAME_SIZE];
    tide_registry_lease_name(name, s->agent.agent_id);
    TIDE_TRY(tide_lease_release(tx, name, s->agent.token, err));
    s->is_held = false;
    t->held_count--;
    t->acts++;
    return TIDE_OK;
}

/* A colony that was cut off in the middle of a transaction still has its rows locked: nobody waits for it. */
static tide_status is_within_reach(tide_tx *tx, const char *name, bool *out, tide_error *err)
{
    TIDE_QUERY_BY(query, tide_tx_one, tx, TIDE_SQL_AGENT_LOCK, err, tide_bind_text("name", name));
    *out = tide_query_col_bool(query);
    return TIDE_OK;
}

static tide_status claim(tide_tx *tx, turn *t, seat *s, tide_error *err)
{
    char name[LEASE_NAME_SIZE];
    tide_lease lease;
    bool is_reached = false;
    tide_registry_lease_name(name, s->agent.agent_id);
    TIDE_TRY(is_within_reach(tx, name, &is_reached, err));
    if (!is_reached)
        return TIDE_OK;
    const tide_status status =
        tide_lease_claim(tx, name, t->holding->colony_id, t->holding->lease_us, &lease, err);
    t->acts++;
    if (status == TIDE_E_CONFLICT)
        return TIDE_OK; /* somebody was first */
    TIDE_TRY(status);
    s->agent.token = lease.token;
    s->is_claimed = true;
    s->is_held = true;
    s->is_free = false;
    t->held_count++;
    return TIDE_OK;
}

static tide_status give_up_removed(tide_tx *tx, turn *t, tide_error *err)
{
    for (int i = 0; i < t->seat_count; i++)
        if (t->seats[i].is_removed && t->seats[i].is_held)
            TIDE_TRY(give_up(tx, t, &t->seats[i], err));
    return TIDE_OK;
}

static int share_of(const turn *t)
{
    if (t->holding->is_guest || t->members < 1)
        return t->live_count;
    return (int)((t->live_count + t->members - 1) / t->members);
}

static int first_place(const turn *t)
{
    const tide_digest128 digest = tide_digest128_of(tide_view_of(t->holding->colony_id));
    uint32_t number = 0;
    memcpy(&number, &digest, sizeof number);
    return (int)(number % (uint32_t)t->seat_count);
}

static tide_status give_up_surplus(tide_tx *tx, turn *t, tide_error *err)
{
    const int share = share_of(t);
    for (int i = t->seat_count - 1; i >= 0 && t->held_count > share && !is_tired(t); i--)
        if (t->seats[i].is_held)
            TIDE_TRY(give_up(tx, t, &t->seats[i], err));
    return TIDE_OK;
}

static void forget_claims(turn *t)
{
    for (int i = 0; i < t->seat_count; i++) {
        seat *s = &t->seats[i];
        if (!s->is_claimed)
            continue;
        s->is_claimed = false;
        s->is_held = false;
        s->is_free = true;
        t->held_count--;
    }
}

/* In a transaction of its own: what is held is renewed whatever becomes of this. */
static tide_status take_more(tide_tx *tx, void *arg, tide_error *err)
{
    turn *t = arg;
    const int share = share_of(t);
    forget_claims(t);
    t->acts = 0;
    const int begin = first_place(t);
    for (int i = 0; i < t->seat_count && t->held_count < share; i++) {
        seat *s = &t->seats[(begin + i) % t->seat_count];
        if (!s->is_free || s->is_removed)
            continue;
        if (is_tired(t))
            break;
        TIDE_TRY(claim(tx, t, s, err));
    }
    return TIDE_OK;
}

static tide_status take_turn(tide_tx *tx, void *arg, tide_error *err)
{
    turn *t = arg;
    int64_t now_us = 0;
    t->member_token = 0;
    t->members = 0;
    t->acts = 0;
    t->has_more = false;
    if (!t->holding->is_guest)
        TIDE_TRY(keep_member(tx, t, err));
    TIDE_TRY(tide_lease_now(tx, &now_us, err));
    TIDE_TRY(count_members(tx, t, now_us, err));
    TIDE_TRY(list_agents(tx, t, now_us, err));
    TIDE_TRY(renew_held(tx, t, now_us, err));
    TIDE_TRY(give_up_removed(tx, t, err));
    return give_up_surplus(tx, t, err);
}

/* ---- the turn ---- */

static tide_status keep_result(tide_holding *holding, const turn *t, tide_error *err)
{
    tide_held_agent *agents = calloc((size_t)t->held_count + 1, sizeof *agents);
    TIDE_NEED_MEMORY(agents, err);
    int count = 0;
    for (int i = 0; i < t->seat_count; i++)
        if (t->seats[i].is_held)
            agents[count++] = t->seats[i].agent;
    free(holding->agents);
    holding->agents = agents;
    holding->count = count;
    holding->member_token = t->member_token;
    return TIDE_OK;
}

static bool has_free(const turn *t)
{
    for (int i = 0; i < t->seat_count; i++)
        if (t->seats[i].is_free && !t->seats[i].is_removed)
            return true;
    return false;
}

tide_status tide_holding_step(tide_holding *holding, tide_store *store, int64_t *next_us,
                              tide_error *err)
{
    tide_env *env = tide_store_env(store);
    const int64_t began_us = env->mono_us(env);
    TIDE_CLEANUP(end_turn) turn t = {.holding = holding};
    TIDE_TRY(tide_store_write(store, take_turn, &t, err));
    TIDE_TRY(keep_result(holding, &t, err));
    holding->until_us = began_us + holding->lease_us;
    if (t.held_count < share_of(&t) && has_free(&t)) {
        tide_error failure = {.status = TIDE_OK}; /* what we hold is held all the same */
        if (tide_store_write(store, take_more, &t, &failure) < TIDE_OK)
            forget_claims(&t);
        TIDE_TRY(keep_result(holding, &t, err));
    }
    const int64_t usual_us = holding->lease_us / 3;
    /* What is free and above our share is somebody else's: it is looked after sooner, in case that one does not come. */
    *next_us = t.has_more && SOON_US < usual_us ? SOON_US : has_free(&t) ? usual_us / 3 : usual_us;
    return TIDE_OK;
}

static tide_status release_one(tide_tx *tx, const char *name, int64_t token, tide_error *err)
{
    const tide_status status = tide_lease_release(tx, name, token, err);
    return status == TIDE_E_LEASE_LOST ? TIDE_OK : status;
}

static tide_status release_all(tide_tx *tx, void *arg, tide_error *err)
{
    const tide_holding *holding = arg;
    for (int i = 0; i < holding->count; i++) {
        char name[LEASE_NAME_SIZE];
        tide_registry_lease_name(name, holding->agents[i].agent_id);
        TIDE_TRY(release_one(tx, name, holding->agents[i].token, err));
    }
    if (holding->member_token == 0)
        return TIDE_OK;
    char name[TIDE_COLONY_ID_MAX + 16];
    name_member(name, holding);
    return release_one(tx, name, holding->member_token, err);
}

tide_status tide_holding_release(tide_holding *holding, tide_store *store, tide_error *err)
{
    TIDE_TRY(tide_store_write(store, release_all, holding, err));
    holding->count = 0;
    holding->member_token = 0;
    holding->until_us = 0;
    return TIDE_OK;
}
