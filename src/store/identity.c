/* identity.c - see identity.h: who a store is, and noticing that its history was cut. */
#include <tidemark/identity.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "base/lock.h"
#include "base/text/uuid.h"
#include "store/engine.h"
#include "store/identity.h"
#include "store/identity_marker.h"
#include "store/postgres/server_starts.h"
#include "store/statement.h"
#include "store/url.h"
#include "tidemark_sql.h"

enum { EVIDENCE_SIZE = 320 };

static tide_status get_metadata(tide_tx *tx, const char *key, char *out, size_t size,
                                tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status =
        tide_tx_one(&query, tx, TIDE_SQL_METADATA_GET, err, tide_bind_text("key", key));
    if (status == TIDE_OK)
        tide_view_copy(out, size, tide_query_col_text(query));
    return status;
}

static tide_status put_metadata(tide_tx *tx, const char *key, const char *value, tide_error *err)
{
    return tide_tx_exec(tx, TIDE_SQL_METADATA_PUT, NULL, err, tide_bind_text("key", key),
                        tide_bind_text("value", value));
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
    tide_view_copy(out, TIDE_SESSION_ID_SIZE, text);
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
    TIDE_NEED(tx && out, err);
    TIDE_QUERY_BY(query, tide_tx_one, tx, TIDE_SQL_IDENTITY_GET, err, TIDE_NO_BIND);
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
    TIDE_NEED(tx && out, err);
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
    TIDE_TRY(
        tide_tx_exec(tx, TIDE_SQL_EPOCH_ADD, NULL, err, tide_bind_i64("epoch", identity->epoch),
                     tide_bind_text("epoch_id", identity->epoch_id), tide_bind_now("started_at"),
                     tide_bind_text("reason", reason), tide_bind_text("evidence", evidence)));
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

/* The next one, or a later one that lies above an epoch that a reader has seen. */
static tide_status next_epoch(tide_tx *tx, record *stored, int64_t above, const char *reason,
                              const char *evidence, tide_error *err)
{
    if (above < stored->identity.epoch)
        above = stored->identity.epoch;
    if (above >= TIDE_EPOCH_MAX)
        return tide_fail_advised(err, TIDE_E_EXHAUSTED,
                                 "epoch %d is the last of a store; export its data, and import it "
                                 "into a new one",
                                 TIDE_EPOCH_MAX);
    stored->identity.epoch = above + 1;
    make_id(tx->store->env, stored->identity.epoch_id);
    return add_epoch(tx, &stored->identity, reason, evidence, err);
}

/* ---- checking ---- */

/* Numbers of a sequence that were issued, and that the file does not know any more. */
typedef struct lost_numbers {
    const char *sequence;
    int64_t first;
    int64_t last;
} lost_numbers;

typedef struct check {
    record stored;
    tide_host host;
    tide_marker_state marker;
    int lost_count;
    lost_numbers lost[TIDE_IDENTITY_MARKER_COUNTERS];
    tide_identity known;   /* the newest epoch that was ever seen of this session; epoch 0: none */
    bool is_known_missing; /* ... and this history lacks it */
    bool is_known_real;    /* ... and this history has it, not one in its stead */
    /* PostgreSQL, of that epoch: the newest starts of the server that were seen, and a position in
     * the WAL that was durable; 0: not known. */
    tide_server_starts known_starts;
    uint64_t known_wal;
    tide_starts_check found; /* what this history has of them */
    bool is_cut;
    bool is_refused;   /* ... and this role may not record it, or a start */
    bool is_tail_lost; /* ... because the log lost its end */
} check;

/* The parts of a PostgreSQL host: cluster/timeline/database.table. "-" is not known, and equals
 * all. */
enum { HOST_PARTS = 3 };

static bool is_same_part(const char *a, const char *b, int part)
{
    for (; part > 0; part--) {
        a += strcspn(a, "/");
        b += strcspn(b, "/");
        a += *a == '/';
        b += *b == '/';
    }
    const size_t a_len = strcspn(a, "/");
    const size_t b_len = strcspn(b, "/");
    return (a_len == 1 && *a == '-') || (b_len == 1 && *b == '-') ||
           (a_len == b_len && strncmp(a, b, a_len) == 0);
}

bool tide_identity_same_host(const char *a, const char *b)
{
    bool is_same = true;
    for (int part = 0; part < HOST_PARTS && is_same; part++)
        is_same = is_same_part(a, b, part);
    return is_same;
}

static const char *name_reason(tide_engine engine, const char *stored, const char *found)
{
    if (engine == TIDE_ENGINE_SQLITE)
        return "copied";
    return is_same_part(stored, found, 0) && is_same_part(stored, found, 2) ? "failover"
                                                                            : "restored";
}

static bool is_same_epoch(const tide_identity *a, const tide_identity *b)
{
    return strcmp(a->epoch_id, b->epoch_id) == 0;
}

/* This or the stored host does not show its timeline. */
static bool is_timeline_unknown(const check *c)
{
    const char *stored = strchr(c->stored.host, '/');
    return !c->host.timeline[0] || (stored && stored[1] == '-');
}

/* The server refused its functions when the host was stored, and shows now what it is. */
static bool is_host_fuller(const check *c)
{
    const char *stored = strchr(c->stored.host, '/');
    return c->host.timeline[0] && stored && stored[1] == '-';
}

/* The server has been started anew since this history was written. */
static bool is_start_new(const check *c)
{
    return c->host.started[0] && !c->host.is_standby &&
           strcmp(c->found.started, c->host.started) != 0;
}

/* The WAL, the server's starts: what shows that the files of the same server are older ones. Where
 * the server shows no timeline, every other start may be that of another server. */
static void find_restored(const check *c, const char **reason, char evidence[EVIDENCE_SIZE])
{
    const uint64_t end = c->found.next_wal > 0 ? c->found.next_wal
                         : is_start_new(c)     ? c->host.checkpoint_wal
                                               : c->host.wal;
    if (c->found.is_missing) {
        *reason = "restored";
        tide_server_starts_describe(&c->known_starts, &c->found, evidence, EVIDENCE_SIZE);
    } else if (c->known_wal > end && end > 0 && is_same_epoch(&c->stored.identity, &c->known)) {
        *reason = "restored";
        (void)snprintf(evidence, EVIDENCE_SIZE,
                       "start %" PRId64 " of the server found WAL up to %" PRIX64 ", and %" PRIX64
                       " was durable",
                       c->found.next_number > 0
                           ? c->found.next_number
                           : tide_server_starts_newest(&c->found.starts)->number + 1,
                       end, c->known_wal);
    } else if (is_timeline_unknown(c) && c->found.started[0] && is_start_new(c)) {
        *reason = "failover";
        (void)snprintf(evidence, EVIDENCE_SIZE,
                       "server started at %s, was %s; it does not show its timeline",
                       c->host.started, c->found.started);
    }
}

/* A crash behind the commit that began the epoch: the counters of the marker are of an earlier one,
 * whose loss has been reported. */
static bool is_marker_older(const check *c)
{
    return c->marker.mark >= 0 && c->marker.epoch < c->stored.identity.epoch;
}

/* A commit that is known here and not in the file: either the file was put back, or the log lost
 * its end, which needs one that was left behind. */
static bool find_loss(const check *c, const char **reason, char evidence[EVIDENCE_SIZE])
{
    const bool is_tail = c->marker.is_logged || c->host.log_damage[0];
    if (c->lost_count > 0 && !is_marker_older(c))
        (void)snprintf(evidence, EVIDENCE_SIZE,
                       "%s: %" PRId64 " was issued, %" PRId64 " is the last in the file%s%s",
                       c->lost[0].sequence, c->lost[0].last, c->lost[0].first - 1,
                       c->host.log_damage[0] ? "; " : "", c->host.log_damage);
    else if (c->marker.mark > c->stored.mark)
        (void)snprintf(evidence, EVIDENCE_SIZE,
                       "mark %" PRId64 " in the file, %" PRId64 " in its identity marker%s%s",
                       c->stored.mark, c->marker.mark, c->host.log_damage[0] ? "; " : "",
                       c->host.log_damage);
    else if (c->host.log_damage[0])
        (void)snprintf(evidence, EVIDENCE_SIZE, "%s", c->host.log_damage);
    else
        return false;
    *reason = is_tail ? "lost_tail" : "restored";
    return true;
}

static void find_cut(const check *c, tide_engine engine, const char **reason,
                     char evidence[EVIDENCE_SIZE])
{
    const bool is_same = engine == TIDE_ENGINE_SQLITE
                             ? strcmp(c->stored.host, c->host.text) == 0
                             : tide_identity_same_host(c->stored.host, c->host.text);
    *reason = NULL;
    if (!is_same) {
        *reason = name_reason(engine, c->stored.host, c->host.text);
        (void)snprintf(evidence, EVIDENCE_SIZE, "host was %s, is %s", c->stored.host, c->host.text);
    } else if (!find_loss(c, reason, evidence)) {
        find_restored(c, reason, evidence);
    }
    const size_t len = *reason ? strlen(evidence) : 0;
    if (*reason && c->found.is_missing &&
        !strstr(evidence, tide_server_starts_newest(&c->known_starts)->id)) {
        (void)snprintf(evidence + len, EVIDENCE_SIZE - len, "; ");
        tide_server_starts_describe(&c->known_starts, &c->found, evidence + len + 2,
                                    EVIDENCE_SIZE - len - 2);
    }
}

/* Known epochs never shrink: a history without one is not the store's, but that of an old primary
 * or of an older copy. */
static tide_status check_known(tide_tx *tx, check *c, tide_error *err)
{
    const tide_identity *stored = &c->stored.identity;
    const tide_identity *known = &c->known;
    c->is_known_missing = false;
    c->is_known_real = known->epoch > 0;
    if (known->epoch == 0 || is_same_epoch(known, stored))
        return TIDE_OK;
    TIDE_QUERY_BY(query, tide_tx_one, tx, TIDE_SQL_EPOCH_IS_KNOWN, err,
                  tide_bind_text("epoch_id", known->epoch_id));
    c->is_known_missing = !tide_query_col_bool(query);
    c->is_known_real = tide_query_col_bool(query);
    if (!c->is_known_missing || tx->store->options.is_mismatch_allowed)
        return TIDE_OK;
    if (c->host.is_standby)
        return tide_fail(err, TIDE_E_UNAVAILABLE,
                         "standby %s has not applied epoch %" PRId64
                         " (%s), which was seen before; try again, or read from another server",
                         tx->store->name, known->epoch, known->epoch_id);
    atomic_store(&tx->store->is_mismatched, true);
    return tide_fail_advised(err, TIDE_E_MISMATCH,
                             "%s is in epoch %" PRId64 " (%s) and lacks epoch %" PRId64
                             " (%s), which was seen before; connect to the server that has it, or "
                             "run 'tidemark store new-epoch --why TEXT' to continue on this one",
                             tx->store->name, stored->epoch, stored->epoch_id, known->epoch,
                             known->epoch_id);
}

static tide_status check_session(tide_store *store, const check *c, tide_error *err)
{
    const char *before = c->known.session_id;
    if (!before[0] || strcmp(before, c->stored.identity.session_id) == 0)
        return TIDE_OK;
    atomic_store(&store->is_mismatched, true);
    return tide_fail(err, TIDE_E_MISMATCH, "%s holds session %s, not %s: it is another store",
                     store->name, c->stored.identity.session_id, before);
}

static tide_status find_lost(tide_tx *tx, check *c, tide_error *err)
{
    c->lost_count = 0;
    for (int i = 0; i < c->marker.counter_count; i++) {
        const tide_marker_counter *counter = &c->marker.counters[i];
        TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
        const tide_status status = tide_tx_one(&query, tx, TIDE_SQL_SEQUENCE_SHOW, err,
                                               tide_bind_text("name", counter->name));
        TIDE_TRY(status);
        const int64_t last = status == TIDE_OK ? tide_query_col_i64(query) : 0;
        if (last < counter->last)
            c->lost[c->lost_count++] =
                (lost_numbers){.sequence = counter->name, .first = last + 1, .last = counter->last};
    }
    return TIDE_OK;
}

static tide_status check_identity(tide_tx *tx, void *arg, tide_error *err)
{
    check *c = arg;
    const tide_engine engine = tx->store->ops->engine;
    TIDE_TRY(tx->store->ops->host(tx, &c->host, err));
    const char *table = strrchr(c->host.text, '.');
    if (engine == TIDE_ENGINE_POSTGRES && table && strcmp(table, ".0") == 0) {
        atomic_store(&tx->store->is_mismatched, true);
        return tide_fail(err, TIDE_E_MISMATCH,
                         "%s no longer has the tables of a store (session %s)", tx->store->name,
                         c->known.session_id);
    }
    TIDE_TRY(read_record(&c->stored, tx, err));
    if (engine == TIDE_ENGINE_POSTGRES) {
        TIDE_TRY(check_session(tx->store, c, err));
        TIDE_TRY(check_known(tx, c, err));
        TIDE_TRY(tide_server_starts_check(tx, &c->known_starts,
                                          c->is_known_real || c->is_known_missing, c->known.epoch,
                                          &c->found, err));
    }
    TIDE_TRY(find_lost(tx, c, err));
    const char *reason = NULL;
    char evidence[EVIDENCE_SIZE];
    find_cut(c, engine, &reason, evidence);
    c->is_cut = reason != NULL;
    return TIDE_OK;
}

static tide_status begin_epoch(tide_tx *tx, check *c, const char *reason, const char *evidence,
                               tide_error *err)
{
    int64_t above = c->marker.epoch > c->known.epoch ? c->marker.epoch : c->known.epoch;
    /* Also of the same session in another database, where a dump was loaded before. */
    const int64_t newest = tx->store->ops->engine == TIDE_ENGINE_POSTGRES
                               ? tide_identity_marker_newest_seen(tx->store)
                               : 0;
    if (newest > above)
        above = newest;
    const int64_t before = c->stored.identity.epoch;
    c->is_tail_lost = strcmp(reason, "lost_tail") == 0;
    TIDE_TRY(next_epoch(tx, &c->stored, above, reason, evidence, err));
    for (int i = 0; i < c->lost_count && c->is_tail_lost; i++)
        TIDE_TRY(tide_tx_exec(
            tx, TIDE_SQL_LOST_NUMBERS_ADD, NULL, err,
            tide_bind_text("sequence", c->lost[i].sequence), tide_bind_i64("epoch", before),
            tide_bind_i64("first", c->lost[i].first), tide_bind_i64("last", c->lost[i].last)));
    /* The mark passes the identity marker's, or the next open would find the same cut again. */
    if (c->marker.mark > c->stored.mark)
        c->stored.mark = c->marker.mark;
    c->stored.mark++;
    TIDE_TRY(put_number(tx, "mark", c->stored.mark, err));
    return put_metadata(tx, "host", c->host.text, err);
}

/* Look again under the lock: another process may have done it. Begin an epoch if history was cut,
 * and add the server's start if it is new. */
static tide_status record_change(tide_tx *tx, void *arg, tide_error *err)
{
    check *c = arg;
    TIDE_QUERY_BY(lock, tide_tx_one, tx, TIDE_SQL_IDENTITY_LOCK, err, TIDE_NO_BIND);
    TIDE_TRY(check_identity(tx, c, err));
    const char *reason = NULL;
    char evidence[EVIDENCE_SIZE];
    find_cut(c, tx->store->ops->engine, &reason, evidence);
    if (reason)
        TIDE_TRY(begin_epoch(tx, c, reason, evidence, err));
    else if (is_host_fuller(c))
        TIDE_TRY(put_metadata(tx, "host", c->host.text, err));
    c->is_cut = false;
    return is_start_new(c)
               ? tide_server_starts_add(tx, &c->host, c->stored.identity.epoch, &c->found, err)
               : TIDE_OK;
}

/* ---- what the process knows ---- */

static void remember(tide_store *store, const check *c)
{
    const tide_identity now = c->stored.identity;
    atomic_store(&store->is_mismatched, false);
    atomic_store(&store->is_unrecorded, c->is_refused);
    (void)pthread_mutex_lock(&store->identity_lock);
    const tide_identity before = store->identity;
    const bool is_changed = before.epoch_id[0] && strcmp(before.epoch_id, now.epoch_id) != 0;
    store->identity = now;
    /* A standby has a start of its own. The next transaction on the primary proves the
     * primary's. */
    char started[TIDE_HOST_STARTED_SIZE];
    memcpy(started, store->host.started, sizeof started);
    store->host = c->host;
    if (c->host.is_standby && started[0])
        memcpy(store->host.started, started, sizeof started);
    /* A cut that is not recorded yet: what proves it is kept. */
    const bool is_older = c->is_known_missing || c->is_cut;
    store->known = is_older && c->known.epoch > 0 ? c->known : now;
    store->known_starts = is_older && c->known.epoch > 0 ? c->known_starts : c->found.starts;
    if (store->ops->engine == TIDE_ENGINE_POSTGRES)
        tide_identity_marker_follow_epoch(store, is_older ? 0 : now.epoch);
    store->epoch_changes += is_changed;
    tide_store_epoch_fn *report = is_changed ? store->on_epoch : NULL;
    void *arg = store->on_epoch_arg;
    (void)pthread_mutex_unlock(&store->identity_lock);
    if (store->ops->engine == TIDE_ENGINE_POSTGRES && !is_older)
        tide_identity_marker_write_epoch(store, &now, &c->found.starts);
    if (report)
        report(arg, &before, &now);
}

/* From this process, or from others of this host. */
static void recall(tide_store *store, check *c)
{
    (void)pthread_mutex_lock(&store->identity_lock);
    c->known = store->known;
    c->known_starts = store->known_starts;
    c->known_wal = store->host.wal;
    (void)pthread_mutex_unlock(&store->identity_lock);
    tide_identity marked = {0};
    tide_server_starts starts = {0};
    if (store->ops->engine != TIDE_ENGINE_POSTGRES ||
        tide_identity_marker_read_epoch(store, &marked, &starts) != TIDE_OK)
        return;
    if (marked.epoch > c->known.epoch) {
        c->known = marked;
        c->known_starts = starts;
        c->known_wal = 0; /* it was read in the epoch that this process knew */
    } else if (is_same_epoch(&marked, &c->known) &&
               tide_server_starts_newest(&starts)->number >
                   tide_server_starts_newest(&c->known_starts)->number) {
        c->known_starts = starts;
    }
    const uint64_t wal = tide_identity_marker_read_wal(store, c->known.epoch);
    if (wal > c->known_wal)
        c->known_wal = wal;
}

/* Counters go on from where the file stands in its present epoch. */
static void set_marker(tide_store *store, const check *c)
{
    for (int i = 0; i < c->lost_count; i++)
        tide_identity_marker_set_counter(store->marker, c->lost[i].sequence, c->lost[i].first - 1);
    tide_identity_marker_raise(store->marker, c->stored.mark, c->stored.identity.epoch);
}

/* A file that was deleted is made anew, as a store of its own: a reader that knows numbers of the
 * one before must learn it. */
static void note_session(tide_store *store, const char *session_id)
{
    tide_error ignored;
    tide_store_url url;
    char before[TIDE_SESSION_ID_SIZE] = "";
    if (tide_store_url_parse(&url, store->name, &ignored) >= TIDE_OK &&
        tide_identity_marker_set_session(store->options.state_dir, url.target, session_id, before))
        memcpy(store->replaced_session, before, sizeof store->replaced_session);
}

const char *tide_identity_replaced(const tide_store *store)
{
    return store->replaced_session;
}

/* Where the marker is depends on the session and the file: they are read first. The marker is read
 * before the file is looked at again, so that a commit in between makes the file look ahead. */
static tide_status establish_sqlite(tide_store *store, check *c, tide_error *err)
{
    TIDE_TRY(store->ops->read(store, check_identity, c, true, err));
    remember(store, c);
    if (store->options.mode == TIDE_STORE_AS_IS)
        return TIDE_OK;
    if (!store->marker) {
        note_session(store, c->stored.identity.session_id);
        store->marker = tide_identity_marker_open(store->options.state_dir,
                                                  c->stored.identity.session_id, c->host.text);
    }
    tide_identity_marker_read(store->marker, &c->marker);
    if (store->marker && !c->is_cut)
        TIDE_TRY(store->ops->read(store, check_identity, c, true, err));
    if (!c->is_cut) {
        if (is_marker_older(c))
            set_marker(store, c);
        store->ops->keep_log(store, 0);
        return TIDE_OK;
    }
    const int64_t newest = tide_identity_marker_newest_epoch(store->marker);
    if (newest > c->marker.epoch)
        c->marker.epoch = newest;
    TIDE_TRY(store->ops->write(store, record_change, c, err));
    remember(store, c);
    set_marker(store, c);
    store->ops->keep_log(store, c->is_tail_lost ? c->stored.identity.epoch : 0);
    return TIDE_OK;
}

/* A cut is recorded also by a process that only reads: what proves it may be gone later, and its
 * readers would go back in one epoch. */
static bool is_to_be_recorded(const tide_store *store, const check *c)
{
    if (c->host.is_standby || c->is_known_missing || store->is_older)
        return false;
    return c->is_cut ||
           (store->options.mode != TIDE_STORE_AS_IS && (is_start_new(c) || is_host_fuller(c)));
}

/* A role that may not record reads on, and writes nothing: what proves a cut would be gone with the
 * numbers that it issues. */
static tide_status record_found(tide_store *store, const tide_identity_runner *runner,
                                bool is_write, check *c, tide_error *err)
{
    const tide_status status = runner->write(runner->arg, record_change, c, err);
    c->is_refused = status == TIDE_E_DENIED;
    if (!c->is_refused)
        return status;
    atomic_store(&store->is_unrecorded, true);
    if (!is_write)
        return TIDE_OK;
    char reason[sizeof err->text];
    (void)snprintf(reason, sizeof reason, "%s", err ? err->text : "permission denied");
    return tide_fail_advised(err, TIDE_E_DENIED,
                             "cannot write to %s before a start of its server is recorded: %s; run "
                             "'tidemark store migrate' as the owner of the store, or grant this "
                             "role SELECT, INSERT and UPDATE on db_metadata, epochs, epoch_heads "
                             "and server_starts",
                             store->name, reason);
}

static tide_status write_to_store(void *arg, tide_tx_fn *fn, void *fn_arg, tide_error *err)
{
    tide_store *store = arg;
    return store->ops->write(store, fn, fn_arg, err);
}

/* Where the marker is depends on the session and the host: they are read first, and then checked
 * against it. */
static tide_status establish_postgres(tide_store *store, check *c, tide_error *err)
{
    TIDE_TRY(store->ops->read(store, check_identity, c, true, err));
    tide_identity_marker_init_epoch(store, c->stored.identity.session_id, c->host.text);
    recall(store, c);
    if (c->known.epoch > 0)
        TIDE_TRY(store->ops->read(store, check_identity, c, true, err));
    remember(store, c);
    if (!is_to_be_recorded(store, c))
        return TIDE_OK;
    const tide_identity_runner runner = {.write = write_to_store, .arg = store};
    TIDE_TRY(record_found(store, &runner, false, c, err));
    remember(store, c);
    return TIDE_OK;
}

tide_status tide_identity_establish(tide_store *store, tide_error *err)
{
    check c = {.marker = {.mark = -1}};
    return store->ops->engine == TIDE_ENGINE_SQLITE ? establish_sqlite(store, &c, err)
                                                    : establish_postgres(store, &c, err);
}

tide_status tide_identity_recheck(tide_store *store, const tide_identity_runner *runner,
                                  bool is_write, tide_error *err)
{
    check c = {.marker = {.mark = -1}};
    recall(store, &c);
    TIDE_TRY(runner->read(runner->arg, check_identity, &c, err));
    if (is_to_be_recorded(store, &c))
        TIDE_TRY(record_found(store, runner, is_write, &c, err));
    remember(store, &c);
    return TIDE_OK;
}

void tide_identity_presented(tide_store *store, const tide_identity *seen)
{
    const tide_server_starts none = {0};
    (void)pthread_mutex_lock(&store->identity_lock);
    const bool is_newer = store->ops->engine == TIDE_ENGINE_POSTGRES &&
                          strcmp(seen->session_id, store->identity.session_id) == 0 &&
                          seen->epoch > store->known.epoch &&
                          seen->epoch - store->identity.epoch <= TIDE_IDENTITY_PRESENTED_MAX;
    if (is_newer) {
        store->known = *seen;
        store->known_starts = none;
    }
    (void)pthread_mutex_unlock(&store->identity_lock);
    if (is_newer)
        tide_identity_marker_write_epoch(store, seen, &none);
}

bool tide_identity_missing(tide_store *store, tide_identity *out)
{
    TIDE_HOLD(&store->identity_lock);
    *out = store->known;
    return store->known.epoch > store->identity.epoch;
}

/* ---- public ---- */

void tide_store_identity(tide_store *store, tide_identity *out)
{
    if (!store || !out)
        return;
    TIDE_HOLD(&store->identity_lock);
    *out = store->identity;
}

int64_t tide_store_epoch_changes(tide_store *store)
{
    if (!store)
        return 0;
    TIDE_HOLD(&store->identity_lock);
    return store->epoch_changes;
}

void tide_store_on_epoch(tide_store *store, tide_store_epoch_fn *fn, void *arg)
{
    if (!store)
        return;
    TIDE_HOLD(&store->identity_lock);
    store->on_epoch = fn;
    store->on_epoch_arg = arg;
}

void tide_store_on_failure(tide_store *store, tide_store_failure_fn *fn, void *arg)
{
    if (!store)
        return;
    TIDE_HOLD(&store->identity_lock);
    store->on_failure = fn;
    store->on_failure_arg = arg;
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
    TIDE_QUERY_BY(lock, tide_tx_one, tx, TIDE_SQL_IDENTITY_LOCK, err, TIDE_NO_BIND);
    TIDE_TRY(check_identity(tx, &request->check, err));
    check *c = &request->check;
    c->is_cut = false;
    if (!c->is_known_missing)
        return next_epoch(tx, &c->stored, request->above, request->reason, request->evidence, err);
    char evidence[EVIDENCE_SIZE];
    if (c->found.is_missing &&
        c->found.parting <= tide_server_starts_newest(&c->found.starts)->number) {
        /* Others may have written since the histories parted: that is where readers are cut. */
        tide_server_starts_describe(&c->known_starts, &c->found, evidence, sizeof evidence);
        TIDE_TRY(begin_epoch(tx, c, "restored", evidence, err));
    }
    /* Named in the evidence, so that processes that have seen it accept this one in its stead. */
    const int64_t above = request->above > c->known.epoch ? request->above : c->known.epoch;
    (void)snprintf(evidence, sizeof evidence, "in the stead of epoch %" PRId64 " (%s): %s",
                   c->known.epoch, c->known.epoch_id, request->evidence);
    TIDE_TRY(next_epoch(tx, &c->stored, above, request->reason, evidence, err));
    TIDE_TRY(put_metadata(tx, "host", c->host.text, err));
    c->is_known_missing = false;
    return TIDE_OK;
}

tide_status tide_identity_raise(tide_store *store, const char *reason, const char *evidence,
                                tide_identity *out, tide_error *err)
{
    TIDE_NEED(store, err);
    return tide_identity_raise_above(store, 0, reason, evidence, out, err);
}

tide_status tide_identity_raise_above(tide_store *store, int64_t above, const char *reason,
                                      const char *evidence, tide_identity *out, tide_error *err)
{
    TIDE_NEED(store, err);
    raise_request request = {
        .above = above, .reason = reason, .evidence = evidence, .check = {.marker = {.mark = -1}}};
    recall(store, &request.check);
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
    TIDE_QUERY_BY(query, tide_query_begin, tx, TIDE_SQL_EPOCH_LIST, err);
    TIDE_EACH(tide_query_step(query, err)) {
        tide_epoch epoch = {.epoch = tide_query_col_i64(query)};
        tide_view_copy(epoch.epoch_id, sizeof epoch.epoch_id, tide_query_col_text(query));
        epoch.started_at_us = tide_query_col_time(query);
        tide_view_copy(epoch.reason, sizeof epoch.reason, tide_query_col_text(query));
        tide_view_copy(epoch.evidence, sizeof epoch.evidence, tide_query_col_text(query));
        TIDE_TRY(tide_callback_check(request->fn(request->arg, &epoch, err), err));
    }
    return TIDE_OK;
}

tide_status tide_identity_history(tide_store *store, tide_epoch_fn *fn, void *arg, tide_error *err)
{
    TIDE_NEED(store && fn, err);
    history_request request = {.fn = fn, .arg = arg};
    return tide_store_read(store, list_epochs, &request, err);
}
