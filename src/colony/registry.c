#include "colony/registry.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/identity.h>
#include <tidemark/lease.h>
#include <tidemark/watch.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/list.h"
#include "base/text/utf8.h"
#include "base/text/uuid.h"
#include "store/statement.h"
#include "tidemark_sql.h"

const char *tide_agent_health_name(tide_agent_health health)
{
    switch (health) {
    case TIDE_AGENT_UNSEEN:
        return "unseen";
    case TIDE_AGENT_HEALTHY:
        return "healthy";
    case TIDE_AGENT_DEGRADED:
        return "degraded";
    case TIDE_AGENT_AWAY:
        return "away";
    }
    return "unseen";
}

void tide_registry_lease_name(char out[TIDE_AGENT_ID_MAX + 16], const char *agent_id)
{
    (void)snprintf(out, TIDE_AGENT_ID_MAX + 16, "colony/agent/%s", agent_id);
}

/* ---- names and addresses ---- */

static bool has_control(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return true;
    return false;
}

static tide_status check_name(const char *agent_id, tide_error *err)
{
    const size_t len = agent_id ? strlen(agent_id) : 0;
    if (len < 1 || len > TIDE_AGENT_ID_MAX)
        return tide_fail(err, TIDE_E_INVALID, "an agent's name has 1 to %d bytes, this one has %zu",
                         TIDE_AGENT_ID_MAX, len);
    if (!tide_utf8_valid(tide_view_of(agent_id)) || has_control(agent_id))
        return tide_fail(err, TIDE_E_INVALID, "an agent's name is printable text");
    return TIDE_OK;
}

static bool is_port(const char *text)
{
    const size_t len = strspn(text, "0123456789");
    const long port = strtol(text, NULL, 10);
    return len >= 1 && len <= 5 && text[len] == '\0' && port >= 1 && port <= 65535;
}

/* HOST:PORT, [::1]:PORT, http://..., https://..., unix:PATH. */
static bool is_address(const char *address)
{
    if (strncmp(address, "unix:", 5) == 0)
        return address[5] != '\0';
    if (strncmp(address, "http://", 7) == 0)
        return address[7] != '\0' && address[7] != '/' && address[7] != ':';
    if (strncmp(address, "https://", 8) == 0)
        return address[8] != '\0' && address[8] != '/' && address[8] != ':';
    const char *colon = strrchr(address, ':');
    return colon && colon > address && is_port(colon + 1) && !strchr(address, '/');
}

static tide_status check_address(const char *address, tide_error *err)
{
    const size_t len = address ? strlen(address) : 0;
    if (len < 1 || len > TIDE_AGENT_ADDRESS_MAX)
        return tide_fail(err, TIDE_E_INVALID,
                         "an agent's address has 1 to %d bytes, this one has %zu",
                         TIDE_AGENT_ADDRESS_MAX, len);
    if (!tide_utf8_valid(tide_view_of(address)) || has_control(address) || strchr(address, ' ') ||
        !is_address(address))
        return tide_fail(err, TIDE_E_INVALID,
                         "'%s' is no address: want HOST:PORT, http://..., https://... or unix:PATH",
                         address);
    return TIDE_OK;
}

tide_status tide_registry_check(const char *agent_id, const char *address, tide_error *err)
{
    TIDE_TRY(check_name(agent_id, err));
    return check_address(address, err);
}

/* ---- changing ---- */

static tide_status touch(tide_tx *tx, tide_error *err)
{
    TIDE_TRY(tide_tx_exec(tx, TIDE_SQL_REGISTRY_TOUCH, NULL, err, TIDE_NO_BIND));
    return tide_tx_notify(tx, TIDE_REGISTRY_TOPIC, err);
}

typedef struct putting {
    const tide_agent_given *agents;
    int count;
} putting;

static tide_status put_inside(tide_tx *tx, void *arg, tide_error *err)
{
    const putting *p = arg;
    int64_t now_us = 0;
    TIDE_TRY(tide_tx_now(tx, &now_us, err));
    TIDE_QUERY_BY(query, tide_query_begin, tx, TIDE_SQL_AGENT_PUT, err);
    for (int i = 0; i < p->count; i++) {
        const tide_agent_given *agent = &p->agents[i];
        tide_query_reset(query);
        tide_query_bind_text(query, "agent_id", agent->agent_id);
        tide_query_bind_text(query, "address", agent->address);
        tide_query_bind_text(query, "origin", agent->origin ? agent->origin : "operator");
        tide_query_bind_time(query, "now", now_us);
        tide_query_bind_bool(query, "false", false);
        TIDE_TRY(tide_query_run(query, NULL, err));
    }
    return touch(tx, err);
}

tide_status tide_registry_put_all(tide_store *store, const tide_agent_given *agents, int count,
                                  tide_error *err)
{
    for (int i = 0; i < count; i++) {
        TIDE_TRY(tide_registry_check(agents[i].agent_id, agents[i].address, err));
        if (agents[i].origin && strlen(agents[i].origin) >= sizeof((tide_agent_row *)NULL)->origin)
            return tide_fail(err, TIDE_E_INVALID, "an agent's origin has at most 15 bytes");
    }
    for (int i = 0; i < count; i += TIDE_REGISTRY_PUT_MAX) {
        putting p = {.agents = agents + i,
                     .count =
                         count - i < TIDE_REGISTRY_PUT_MAX ? count - i : TIDE_REGISTRY_PUT_MAX};
        TIDE_TRY(tide_store_write(store, put_inside, &p, err));
    }
    return TIDE_OK;
}

tide_status tide_registry_put(tide_store *store, const char *agent_id, const char *address,
                              const char *origin, tide_error *err)
{
    const tide_agent_given agent = {.agent_id = agent_id, .address = address, .origin = origin};
    return tide_registry_put_all(store, &agent, 1, err);
}

static tide_status read_mark(tide_tx *tx, void *arg, tide_error *err)
{
    int64_t *out = arg;
    return tide_tx_number(out, tx, TIDE_SQL_REGISTRY_MARK, err, TIDE_NO_BIND);
}

tide_status tide_registry_mark(tide_store *store, int64_t *out, tide_error *err)
{
    return tide_store_read_local(store, read_mark, out, err);
}

typedef struct removing {
    const char *agent_id;
    int64_t changed;
} removing;

static tide_status remove_inside(tide_tx *tx, void *arg, tide_error *err)
{
    removing *r = arg;
    TIDE_TRY(tide_tx_exec(tx, TIDE_SQL_AGENT_REMOVE, &r->changed, err,
                          tide_bind_text("agent_id", r->agent_id), tide_bind_bool("true", true)));
    return r->changed > 0 ? touch(tx, err) : TIDE_OK;
}

tide_status tide_registry_remove(tide_store *store, const char *agent_id, tide_error *err)
{
    TIDE_TRY(check_name(agent_id, err));
    removing r = {.agent_id = agent_id};
    TIDE_TRY(tide_store_write(store, remove_inside, &r, err));
    return r.changed == 1 ? TIDE_OK : TIDE_NONE;
}

tide_status tide_registry_note(tide_store *store, const char *agent_id, const char *error,
                               tide_error *err)
{
    char text[TIDE_AGENT_ERROR_MAX + 1];
    TIDE_CLEANUP(tide_buffer_done) tide_buffer clean = tide_buffer_of(8192);
    if (error) {
        /* What an agent said goes into it: it need not be text. */
        size_t replaced = 0;
        const tide_view head = tide_view_bytes(error, strnlen(error, 1024));
        const tide_status cleaned = tide_utf8_clean(&clean, head, &replaced);
        TIDE_TRY(tide_buffer_check(cleaned, err));
        const tide_view cut = tide_utf8_cut(tide_buffer_view(&clean), TIDE_AGENT_ERROR_MAX);
        (void)snprintf(text, sizeof text, "%.*s", (int)cut.len, cut.ptr ? cut.ptr : "");
    }
    return tide_store_exec(store, error ? TIDE_SQL_AGENT_FAILED : TIDE_SQL_AGENT_SEEN, NULL, err,
                           tide_bind_text("agent_id", agent_id), tide_bind_now("now"),
                           TIDE_BIND_IF(error, tide_bind_text("error", text)));
}

/* ---- reader names ---- */

typedef struct renaming {
    const tide_reader_refusal *refusal;
    const char *fresh;
    char reader[TIDE_FEED_READER_MAX + 1]; /* in force */
    bool is_epoch_due;
} renaming;

static tide_status find_reader(tide_tx *tx, renaming *r, tide_error *err)
{
    const tide_reader_refusal *refusal = r->refusal;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status = tide_tx_one(&query, tx, TIDE_SQL_AGENT_READER, err,
                                           tide_bind_text("agent_id", refusal->agent_id));
    TIDE_TRY(status);
    if (status == TIDE_NONE)
        return tide_fail(err, TIDE_E_LEASE_LOST, "agent %s was removed", refusal->agent_id);
    tide_view_copy(r->reader, sizeof r->reader, tide_query_col_text(query));
    const int64_t issued = tide_query_col_i64(query);
    if (refusal->seen_token <= issued)
        return tide_fail(err, TIDE_E_LEASE_LOST,
                         "another colony of this store polls agent %s (token %" PRId64 ")",
                         refusal->agent_id, issued);
    return TIDE_OK;
}

/* Another process of this store has had the same refusal before, and taken a name. */
static bool is_renamed(const renaming *r)
{
    return *r->reader && strcmp(r->reader, r->refusal->reader) != 0;
}

/* A clock that was set back since must not put epochs off for ever: only the last minute counts. */
static tide_status check_refusal(tide_tx *tx, void *arg, tide_error *err)
{
    renaming *r = arg;
    int64_t now_us = 0;
    TIDE_TRY(find_reader(tx, r, err));
    TIDE_TRY(tide_tx_now(tx, &now_us, err));
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status =
        tide_tx_one(&query, tx, TIDE_SQL_EPOCH_LAST_BEGUN, err, TIDE_NO_BIND);
    TIDE_TRY(status);
    const int64_t since_us = status == TIDE_OK ? now_us - tide_query_col_time(query) : INT64_MAX;
    r->is_epoch_due =
        !is_renamed(r) && (since_us >= TIDE_READER_EPOCH_US || since_us <= -TIDE_READER_EPOCH_US);
    return TIDE_OK;
}

static tide_status rename_inside(tide_tx *tx, void *arg, tide_error *err)
{
    renaming *r = arg;
    TIDE_TRY(find_reader(tx, r, err));
    if (is_renamed(r))
        return TIDE_OK;
    (void)snprintf(r->reader, sizeof r->reader, "%s", r->fresh);
    return tide_tx_exec(tx, TIDE_SQL_AGENT_READER_SET, NULL, err,
                        tide_bind_text("agent_id", r->refusal->agent_id),
                        tide_bind_text("reader", r->reader));
}

/* The epoch first: a process that dies between the two is refused again, and comes back here. */
tide_status tide_registry_rename_reader(tide_store *store, const tide_reader_refusal *refusal,
                                        char out[TIDE_FEED_READER_MAX + 1], tide_error *err)
{
    tide_uuid uuid;
    char text[TIDE_UUID_TEXT_SIZE];
    char fresh[sizeof "colony-" + TIDE_UUID_TEXT_SIZE];
    tide_uuid_v4(tide_store_env(store), &uuid);
    tide_uuid_format(&uuid, text);
    (void)snprintf(fresh, sizeof fresh, "colony-%s", text);
    renaming r = {.refusal = refusal, .fresh = fresh};
    TIDE_TRY(tide_store_write(store, check_refusal, &r, err));
    if (r.is_epoch_due) {
        char evidence[256];
        (void)snprintf(evidence, sizeof evidence,
                       "agent %.128s has seen lease token %" PRId64
                       ", which this store never issued",
                       refusal->agent_id, refusal->seen_token);
        TIDE_TRY(tide_identity_raise(store, "diverged", evidence, NULL, err));
    }
    TIDE_TRY(tide_store_write(store, rename_inside, &r, err));
    (void)snprintf(out, TIDE_FEED_READER_MAX + 1, "%s", r.reader);
    return TIDE_OK;
}

/* ---- looking ---- */

typedef struct listing {
    const char *agent_id; /* NULL: all */
    bool with_removed;
    tide_agent_row *rows;
    int count;
} listing;

static void drop_listing(listing *list)
{
    free(list->rows);
}

static int64_t read_time(tide_query *query)
{
    const bool is_null = tide_query_col_is_null(query);
    const int64_t us = tide_query_col_time(query);
    return is_null ? 0 : us;
}

static tide_agent_health health_of(int64_t seen_at_us, int64_t now_us)
{
    if (seen_at_us == 0)
        return TIDE_AGENT_UNSEEN;
    if (now_us - seen_at_us <= TIDE_AGENT_HEALTHY_US)
        return TIDE_AGENT_HEALTHY;
    return now_us - seen_at_us <= TIDE_AGENT_DEGRADED_US ? TIDE_AGENT_DEGRADED : TIDE_AGENT_AWAY;
}

static void read_agent(tide_agent_row *out, tide_query *query, int64_t now_us, int64_t lease_now_us)
{
    memset(out, 0, sizeof *out);
    tide_view_copy(out->agent_id, sizeof out->agent_id, tide_query_col_text(query));
    tide_view_copy(out->address, sizeof out->address, tide_query_col_text(query));
    tide_view_copy(out->origin, sizeof out->origin, tide_query_col_text(query));
    out->is_removed = tide_query_col_bool(query);
    out->added_at_us = tide_query_col_time(query);
    out->seen_at_us = read_time(query);
    out->failed_at_us = read_time(query);
    tide_view_copy(out->error, sizeof out->error, tide_query_col_text(query));
    tide_view_copy(out->holder, sizeof out->holder, tide_query_col_text(query));
    memcpy(out->last_holder, out->holder, sizeof out->last_holder);
    out->lease_token = tide_query_col_i64(query);
    if (read_time(query) <= lease_now_us) /* nobody any more */
        out->holder[0] = '\0';
    tide_view_copy(out->reader, sizeof out->reader, tide_query_col_text(query));
    out->health = health_of(out->seen_at_us, now_us);
    if (out->health == TIDE_AGENT_HEALTHY && *out->error)
        out->health = TIDE_AGENT_DEGRADED;
}

static tide_status append_agent(listing *list, tide_query *query, int64_t now_us,
                                int64_t lease_now_us, tide_error *err)
{
    TIDE_TRY(tide_list_room(&list->rows, list->count, sizeof *list->rows, TIDE_LIST_MAX, err));
    read_agent(&list->rows[list->count++], query, now_us, lease_now_us);
    return TIDE_OK;
}

static tide_status gather(tide_tx *tx, void *arg, tide_error *err)
{
    listing *list = arg;
    int64_t now_us = 0;
    int64_t lease_now_us = 0;
    list->count = 0;
    TIDE_TRY(tide_tx_now(tx, &now_us, err));
    TIDE_TRY(tide_lease_now(tx, &lease_now_us, err));
    TIDE_QUERY(query, tx, TIDE_SQL_AGENT_LIST, err,
               tide_bind_bool("with_removed", list->with_removed),
               TIDE_BIND_IF(list->agent_id, tide_bind_text("agent_id", list->agent_id)));
    TIDE_EACH(tide_query_step(query, err))
        TIDE_TRY(append_agent(list, query, now_us, lease_now_us, err));
    return TIDE_OK;
}

tide_status tide_registry_list(tide_store *store, bool with_removed, tide_agent_fn *fn, void *arg,
                               tide_error *err)
{
    TIDE_CLEANUP(drop_listing) listing list = {.with_removed = with_removed};
    TIDE_TRY(tide_store_read(store, gather, &list, err));
    for (int i = 0; i < list.count; i++)
        TIDE_TRY(fn(arg, &list.rows[i], err));
    return TIDE_OK;
}

tide_status tide_registry_find(tide_store *store, const char *agent_id, tide_agent_row *out,
                               tide_error *err)
{
    TIDE_TRY(check_name(agent_id, err));
    TIDE_CLEANUP(drop_listing) listing list = {.agent_id = agent_id, .with_removed = true};
    TIDE_TRY(tide_store_read(store, gather, &list, err));
    if (list.count == 0)
        return TIDE_NONE;
    *out = list.rows[0];
    return TIDE_OK;
}
