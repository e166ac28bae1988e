/* identity.c - see identity.h: who a store is, and noticing that its history was cut. */
#include <tidemark/identity.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/uuid.h"
#include "store/engine.h"
#include "store/identity.h"
#include "store/identity_marker.h"
#include "tidemark_sql.h"

enum { EVIDENCE_SIZE = 320 };

static void copy_view(char *out, size_t size, tide_view view)
{
    (void)snprintf(out, size, "%.*s", (int)view.len, view.ptr);
}

static tide_status get_metadata(tide_tx *tx, const char *key, char *out, size_t size,
                                tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TIDE_SQL_METADATA_GET, err));
    tide_query_bind_text(query, "key", key);
    const tide_status status = tide_query_one(query, err);
    if (status == TIDE_OK)
        copy_view(out, size, tide_query_col_text(query));
    return status;
}

static tide_status put_metadata(tide_tx *tx, const char *key, const char *value, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TIDE_SQL_METADATA_PUT, err));
    tide_query_bind_text(query, "key", key);
    tide_query_bind_text(query, "value", value);
    return tide_query_run(query, NULL, err);
}

static tide_status put_number(tide_tx *tx, const char *key, int64_t value, tide_error *err)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%" PRId64, value);
    return put_metadata(tx, key, text, err);
}

static tide_status get_required(tide_tx *tx, const char *key, char *out, size_t size,
                                tide_error *err)
{
    const tide_status status = get_metadata(tx, key, out, size, err);
    if (status == TIDE_NONE)
        return tide_fail(err, TIDE_E_DAMAGED, "db_metadata has no %s", key);
    return status;
}

/* What is read back is input: an id becomes a file's name, a number a token. */
static tide_status copy_id(char out[TIDE_SESSION_ID_SIZE], tide_view text, const char *key,
                           tide_error *err)
{
    tide_uuid ignored;
    if (text.len != TIDE_SESSION_ID_SIZE - 1 || tide_uuid_parse(&ignored, text) != TIDE_OK)
        return tide_fail(err, TIDE_E_DAMAGED, "db_metadata: %s is not a UUID", key);
    copy_view(out, TIDE_SESSION_ID_SIZE, text);
    return TIDE_OK;
}

static tide_status get_id(tide_tx *tx, const char *key, char out[TIDE_SESSION_ID_SIZE],
                          tide_error *err)
{
    char text[TIDE_SESSION_ID_SIZE + 1] = "";
    TIDE_TRY(get_required(tx, key, text, sizeof text, err));
    return copy_id(out, tide_view_of(text), key, err);
}

static tide_status get_number(tide_tx *tx, const char *key, int64_t least, int64_t most,
                              int64_t *out, tide_error *err)
{
    char text[32] = "";
    char *end = NULL;
    TIDE_TRY(get_required(tx, key, text, sizeof text, err));
    *out = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || *out < least || *out > most)
        return tide_fail(err, TIDE_E_DAMAGED, "db_metadata: %s is '%s'", key, text);
    return TIDE_OK;
}

/* ---- what is stored ---- */

typedef struct record {
    tide_identity identity;
    char host[sizeof((tide_host *)0)->text];
    int64_t mark;
} record;

static tide_status read_record(record *out, tide_tx *tx, tide_error *err)
{
    tide_identity *identity = &out->identity;
    TIDE_TRY(get_id(tx, "session_id", identity->session_id, err));
    TIDE_TRY(get_id(tx, "epoch_id", identity->epoch_id, err));
    TIDE_TRY(get_required(tx, "host", out->host, sizeof out->host, err));
    TIDE_TRY(get_number(tx, "epoch", 1, TIDE_EPOCH_MAX, &identity->epoch, err));
    return get_number(tx, "mark", 0, INT64_MAX, &out->mark, err);
}

tide_status tide_identity_read(tide_tx *tx, tide_identity *out, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TIDE_SQL_IDENTITY_GET, err));
    TIDE_TRY(tide_query_one(query, err));
    tide_identity found = {0};
    TIDE_TRY(copy_id(found.session_id, tide_query_col_text(query), "session_id", err));
    found.epoch = tide_query_col_i64(query);
    TIDE_TRY(copy_id(found.epoch_id, tide_query_col_text(query), "epoch_id", err));
    if (found.epoch < 1 || found.epoch > TIDE_EPOCH_MAX)
        return tide_fail(err, TIDE_E_DAMAGED, "db_metadata: epoch is %" PRId64, found.epoch);
    *out = found;
    return TIDE_OK;
}

tide_status tide_tx_identity(tide_tx *tx, tide_identity *out, tide_error *err)
{
    if (tx->store->ops->engine == TIDE_ENGINE_SQLITE)
        return tide_identity_read(tx, out, err);
    tide_store_identity(tx->store, out);
    return TIDE_OK;
}

static void make_id(tide_env *env, char out[TIDE_SESSION_ID_SIZE])
{
    tide_uuid uuid;
    tide_uuid_v4(env, &uuid);
    tide_uuid_format(&uuid, out);
}

static tide_status add_epoch(tide_tx *tx, const tide_identity *identity, const char *reason,
                             const char *evidence, tide_error *err)
{
    int64_t now_us = 0;
    TIDE_TRY(tide_tx_now(tx, &now_us, err));
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TIDE_SQL_EPOCH_ADD, err));
    tide_query_bind_i64(query, "epoch", identity->epoch);
    tide_query_bind_text(query, "epoch_id", identity->epoch_id);
    tide_query_bind_time(query, "started_at", now_us);
    tide_query_bind_text(query, "reason", reason);
    tide_query_bind_text(query, "evidence", evidence);
    TIDE_TRY(tide_query_run(query, NULL, err));
    TIDE_TRY(put_number(tx, "epoch", identity->epoch, err));
    return put_metadata(tx, "epoch_id", identity->epoch_id, err);
}

tide_status tide_identity_create(tide_tx *tx, tide_error *err)
{
    tide_identity identity = {.epoch = 1};
    tide_host host = {0};
    TIDE_TRY(tx->store->ops->host(tx, &host, err));
    make_id(tx->store->env, identity.session_id);
    make_id(tx->store->env, identity.epoch_id);
    TIDE_TRY(put_metadata(tx, "session_id", identity.session_id, err));
    TIDE_TRY(put_metadata(tx, "host", host.text, err));
    TIDE_TRY(put_number(tx, "mark", 0, err));
    return add_epoch(tx, &identity, "created", host.text, err);
}

/* The next one, or a later one that lies above an epoch somebody has seen. */
static tide_status next_epoch(tide_tx *tx, record *stored, int64_t above, const char *reason,
                              const char *evidence, tide_error *err)
{
    if (above < stored->identity.epoch)
        above = stored->identity.epoch;
    if (above >= TIDE_EPOCH_MAX)
        return tide_fail(err, TIDE_E_EXHAUSTED, "epoch %d is the last", TIDE_EPOCH_MAX);
    stored->identity.epoch = above + 1;
    make_id(tx->store->env, stored->identity.epoch_id);
    return add_epoch(tx, &stored->identity, reason, evidence, err);
}

/* ---- checking ---- */

typedef struct check {
    record stored;
    tide_host host;
    int64_t marker_mark;  /* -1: no identity marker */
    int64_t marker_epoch; /* 0: not known */
    bool is_cut;
} check;

/* Compare only what is known to mean something: PostgreSQL's host is cluster/timeline/database. */
static const char *name_reason(tide_engine engine, const char *stored, const char *found)
{
    if (engine == TIDE_ENGINE_SQLITE)
        return "copied";
    const size_t cluster_len = strcspn(stored, "/");
    const bool is_same_cluster = strncmp(stored, found, cluster_len + 1) == 0;
    const char *stored_database = strrchr(stored, '/');
    const char *found_database = strrchr(found, '/');
    const bool is_same_database =
        stored_database && found_database && strcmp(stored_database, found_database) == 0;
    return is_same_cluster && is_same_database ? "failover" : "restored";
}

static void find_cut(check *c, tide_engine engine, const char **reason,
                     char evidence[EVIDENCE_SIZE])
{
    *reason = NULL;
    if (strcmp(c->stored.host, c->host.text) != 0) {
        *reason = name_reason(engine, c->stored.host, c->host.text);
        (void)snprintf(evidence, EVIDENCE_SIZE, "host was %s, is %s", c->stored.host, c->host.text);
    } else if (c->marker_mark > c->stored.mark) {
        *reason = "restored";
        (void)snprintf(evidence, EVIDENCE_SIZE,
                       "mark %" PRId64 " in the file, %" PRId64 " in its identity marker",
                       c->stored.mark, c->marker_mark);
    }
}

static tide_status look(tide_tx *tx, void *arg, tide_error *err)
{
    check *c = arg;
    TIDE_TRY(read_record(&c->stored, tx, err));
    TIDE_TRY(tx->store->ops->host(tx, &c->host, err));
    const char *reason = NULL;
    char evidence[EVIDENCE_SIZE];
    find_cut(c, tx->store->ops->engine, &reason, evidence);
    c->is_cut = reason != NULL;
    return TIDE_OK;
}

/* Look again under the lock: another process may have raised the epoch for the same reason. */
static tide_status raise_when_cut(tide_tx *tx, void *arg, tide_error *err)
{
    check *c = arg;
    TIDE_CLEANUP(tide_query_endp) tide_query *lock = NULL;
    TIDE_TRY(tide_query_begin(&lock, tx, TIDE_SQL_IDENTITY_LOCK, err));
    TIDE_TRY(tide_query_one(lock, err));
    TIDE_TRY(look(tx, c, err));
    const char *reason = NULL;
    char evidence[EVIDENCE_SIZE];
    find_cut(c, tx->store->ops->engine, &reason, evidence);
    if (!reason)
        return TIDE_OK;
    TIDE_TRY(next_epoch(tx, &c->stored, c->marker_epoch, reason, evidence, err));
    /* The mark passes the identity marker's, or the next open would find the same cut again. */
    if (c->marker_mark > c->stored.mark)
        c->stored.mark = c->marker_mark;
    c->stored.mark++;
    TIDE_TRY(put_number(tx, "mark", c->stored.mark, err));
    return put_metadata(tx, "host", c->host.text, err);
}

static void remember(tide_store *store, const check *c)
{
    (void)pthread_mutex_lock(&store->identity_lock);
    store->identity = c->stored.identity;
    store->host = c->host;
    (void)pthread_mutex_unlock(&store->identity_lock);
}

tide_status tide_identity_establish(tide_store *store, tide_error *err)
{
    check c = {.marker_mark = -1};
    TIDE_TRY(store->ops->read(store, look, &c, true, err));
    remember(store, &c);
    if (store->options.mode == TIDE_STORE_AS_IS || c.host.is_standby)
        return TIDE_OK;
    if (store->ops->engine == TIDE_ENGINE_SQLITE && !store->marker_path)
        tide_identity_marker_init(store);
    const bool is_marker_ahead =
        tide_identity_marker_read(store, &c.marker_mark, &c.marker_epoch) == TIDE_OK &&
        c.marker_mark > c.stored.mark;
    if (!c.is_cut && !is_marker_ahead)
        return TIDE_OK;
    TIDE_TRY(store->ops->write(store, raise_when_cut, &c, err));
    remember(store, &c);
    tide_identity_marker_write(store, c.stored.mark);
    return TIDE_OK;
}

tide_status tide_identity_recheck(tide_store *store, tide_identity_runner *run, void *arg,
                                  tide_error *err)
{
    check c = {.marker_mark = -1};
    TIDE_TRY(run(arg, raise_when_cut, &c, err));
    remember(store, &c);
    return TIDE_OK;
}

/* ---- public ---- */

void tide_store_identity(tide_store *store, tide_identity *out)
{
    (void)pthread_mutex_lock(&store->identity_lock);
    *out = store->identity;
    (void)pthread_mutex_unlock(&store->identity_lock);
}

typedef struct raise_request {
    int64_t above;
    const char *reason;
    const char *evidence;
    check check;
} raise_request;

static tide_status raise_as_asked(tide_tx *tx, void *arg, tide_error *err)
{
    raise_request *request = arg;
    TIDE_CLEANUP(tide_query_endp) tide_query *lock = NULL;
    TIDE_TRY(tide_query_begin(&lock, tx, TIDE_SQL_IDENTITY_LOCK, err));
    TIDE_TRY(tide_query_one(lock, err));
    TIDE_TRY(look(tx, &request->check, err));
    return next_epoch(tx, &request->check.stored, request->above, request->reason,
                      request->evidence, err);
}

tide_status tide_identity_raise(tide_store *store, const char *reason, const char *evidence,
                                tide_identity *out, tide_error *err)
{
    return tide_identity_raise_above(store, 0, reason, evidence, out, err);
}

tide_status tide_identity_raise_above(tide_store *store, int64_t above, const char *reason,
                                      const char *evidence, tide_identity *out, tide_error *err)
{
    raise_request request = {
        .above = above, .reason = reason, .evidence = evidence, .check = {.marker_mark = -1}};
    TIDE_TRY(tide_store_write(store, raise_as_asked, &request, err));
    remember(store, &request.check);
    if (out)
        *out = request.check.stored.identity;
    return TIDE_OK;
}

typedef struct history_request {
    tide_epoch_fn *fn;
    void *arg;
} history_request;

static tide_status list_epochs(tide_tx *tx, void *arg, tide_error *err)
{
    const history_request *request = arg;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TIDE_SQL_EPOCH_LIST, err));
    tide_status status = TIDE_OK;
    while ((status = tide_query_step(query, err)) == TIDE_OK) {
        tide_epoch epoch = {.epoch = tide_query_col_i64(query)};
        copy_view(epoch.epoch_id, sizeof epoch.epoch_id, tide_query_col_text(query));
        epoch.started_at_us = tide_query_col_time(query);
        copy_view(epoch.reason, sizeof epoch.reason, tide_query_col_text(query));
        copy_view(epoch.evidence, sizeof epoch.evidence, tide_query_col_text(query));
        TIDE_TRY(request->fn(request->arg, &epoch, err));
    }
    return status < TIDE_OK ? status : TIDE_OK;
}

tide_status tide_identity_history(tide_store *store, tide_epoch_fn *fn, void *arg, tide_error *err)
{
    history_request request = {.fn = fn, .arg = arg};
    return tide_store_read(store, list_epochs, &request, err);
}
