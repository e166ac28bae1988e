#include "services/replica/daemon.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "base/text/json.h"
#include "remote/legacy_pull.h"
#include "remote/replica_bootstrap.h"
#include "remote/replica_peer.h"
#include "replica/node_status.h"
#include "runtime/listener.h"
#include "services/api/rpc.h"
#include "services/replica/metrics.h"
#include "services/replica/service.h"
#include "services/replica/snapshot_service.h"

/* ---- comparison with peers ---- */

/* Do two nodes with the same logs show the same tables? `replica verify --repair` repairs what
 * differs. */

static bool is_same_marks(const tide_peer_marks *a, const tide_peer_marks *b)
{
    if (a->origin_count != b->origin_count)
        return false;
    for (int i = 0; i < a->origin_count; i++) {
        const tide_origin_mark *other =
            tide_peer_marks_find(b, &a->origins[i].origin, a->origins[i].epoch);
        if (!other || other->prefix != a->origins[i].prefix)
            return false;
    }
    return true;
}

static tide_status look_at_marks(bool *is_same, tide_peer *here, tide_peer *there,
                                 tide_peer_marks *out, tide_error *err)
{
    TIDE_CLEANUP(tide_peer_marks_done) tide_peer_marks theirs = {.origin_count = 0};
    TIDE_TRY(here->marks(here->arg, NULL, out, err));
    TIDE_TRY(there->marks(there->arg, NULL, &theirs, err));
    *is_same = is_same_marks(out, &theirs);
    return TIDE_OK;
}

typedef struct digest_list {
    tide_table_digest *of;
    int count;
    int differing;
    tide_json json; /* names of the tables that differ */
    tide_buffer names;
} digest_list;

static void digest_list_done(digest_list *list)
{
    free(list->of);
    tide_buffer_done(&list->names);
}

static tide_status keep_digest(void *arg, const tide_table_digest *digest, tide_error *err)
{
    digest_list *list = arg;
    TIDE_TRY(tide_list_room(&list->of, list->count, sizeof *list->of, TIDE_LIST_MAX, err));
    list->of[list->count++] = *digest;
    return TIDE_OK;
}

static tide_status compare_digest(void *arg, const tide_table_digest *theirs, tide_error *err)
{
    digest_list *list = arg;
    (void)err;
    for (int i = 0; i < list->count; i++)
        if (strcmp(list->of[i].table, theirs->table) == 0 &&
            memcmp(list->of[i].digest, theirs->digest, sizeof theirs->digest) != 0) {
            list->differing++;
            tide_json_text(&list->json, theirs->table);
        }
    return TIDE_OK;
}

/* Compare the digests of all tables that both have, if nothing moves meanwhile. TIDE_OK: *differing of them differ. TIDE_NONE: the logs are not equal,
 * or something moved: it cannot be told. The node remembers which they are (node_status.h). */
static tide_status compare_tables(tide_node *node, tide_peer *here, tide_remote *there,
                                  int *differing, tide_error *err)
{
    bool is_same = false;
    tide_peer *other = tide_remote_peer(there);
    TIDE_CLEANUP(digest_list_done) digest_list list = {.count = 0};
    TIDE_CLEANUP(tide_peer_marks_done) tide_peer_marks before = {.origin_count = 0};
    TIDE_CLEANUP(tide_peer_marks_done) tide_peer_marks after = {.origin_count = 0};
    TIDE_TRY(look_at_marks(&is_same, here, other, &before, err));
    if (!is_same)
        return TIDE_NONE;
    tide_buffer_init(&list.names, TIDE_RPC_RESPONSE_MAX);
    tide_json_init(&list.json, &list.names);
    tide_json_array_begin(&list.json);
    TIDE_TRY(tide_node_digests(node, keep_digest, &list, err));
    TIDE_TRY(tide_remote_digests(there, compare_digest, &list, err));
    tide_json_array_end(&list.json);
    if (tide_json_finish(&list.json) < TIDE_OK)
        return tide_no_memory(err);
    TIDE_TRY(look_at_marks(&is_same, here, other, &after, err));
    if (!is_same || !is_same_marks(&before, &after))
        return TIDE_NONE;
    *differing = list.differing;
    return tide_node_note_divergence(node, other->name, tide_buffer_text(&list.names), err);
}

struct tide_replicad {
    const tide_replicad_options *options;
    tide_method *methods; /* below its path; NULL: at the root */
    tide_replica_service service;
    tide_replica_metrics *metrics;
    tide_remote *remotes[TIDE_REPLICA_PEERS_MAX];
    tide_listener *listener;
    /* of the sync step */
    bool is_proven[TIDE_REPLICA_PEERS_MAX];
    bool is_unlike[TIDE_REPLICA_PEERS_MAX]; /* and it was logged */
    bool is_failing[TIDE_REPLICA_PEERS_MAX];
    atomic_bool is_over;
    atomic_bool is_healthy;
    atomic_ullong version;
};

typedef struct tide_replicad running;

static bool is_over(void *arg)
{
    return atomic_load(&((running *)arg)->is_over);
}

/* ---- sync ---- */

/* What a sync with one peer needs. */
typedef struct peering {
    running *r;
    int index;
} peering;

static bool is_peering_over(void *arg)
{
    return is_over(((peering *)arg)->r);
}

static tide_status bring_snapshot(void *arg, tide_error *err)
{
    const peering *p = arg;
    const tide_snapshot_watch watch = {.arg = p->r, .is_over = is_over};
    tide_bootstrap bootstrap = {
        .node = p->r->options->node, .remote = p->r->remotes[p->index], .watch = &watch};
    TIDE_TRY(tide_bootstrap_run(&bootstrap, err));
    tide_log_write(p->r->options->listener.log, TIDE_LOG_INFO, "restored a peer's snapshot",
                   TIDE_F("peer", tide_remote_peer(p->r->remotes[p->index])->name), TIDE_F_END);
    return TIDE_OK;
}

/* A peer that is away is logged when it goes and when it is back. */
static void log_peer(running *r, int index, tide_status status, const tide_error *err)
{
    const char *peer = tide_remote_peer(r->remotes[index])->name;
    if (status < TIDE_OK && !r->is_failing[index])
        tide_log_write(r->options->listener.log, TIDE_LOG_WARN, "sync failed", TIDE_F("peer", peer),
                       TIDE_F("error", err->text), TIDE_F_END);
    else if (status >= TIDE_OK && r->is_failing[index])
        tide_log_write(r->options->listener.log, TIDE_LOG_INFO, "sync recovered",
                       TIDE_F("peer", peer), TIDE_F_END);
    r->is_failing[index] = status < TIDE_OK;
}

static tide_status sync_with(running *r, int index, tide_error *err)
{
    tide_sync_result result;
    tide_peer *there = tide_remote_peer(r->remotes[index]);
    peering with = {.r = r, .index = index};
    const tide_sync_options options = {
        .is_over = is_peering_over, .bootstrap = bring_snapshot, .arg = &with};
    const tide_status status = tide_remote_sync(r->options->node, &r->service.peer,
                                                r->remotes[index], &options, &result, err);
    if (atomic_load(&r->is_over))
        return TIDE_OK;
    tide_replica_metrics_synced(r->metrics, there->name, status, &result);
    if (result.unlike[0] && !r->is_unlike[index])
        tide_log_write(r->options->listener.log, TIDE_LOG_WARN,
                       "a peer has tables of other types: values may differ for good",
                       TIDE_F("peer", there->name), TIDE_F("tables", result.unlike), TIDE_F_END);
    r->is_unlike[index] = result.unlike[0] != '\0';
    log_peer(r, index, status, err);
    r->is_proven[index] = r->is_proven[index] || status >= TIDE_OK;
    return status;
}

/* With every peer, also behind one that is away. The failure of the first of them is the step's. */
static tide_status sync_all(void *arg, int64_t *next_us, tide_error *err)
{
    running *r = arg;
    tide_status first = TIDE_OK;
    bool all = true;
    for (int i = 0; i < r->options->remote_count && !atomic_load(&r->is_over); i++) {
        tide_error peer_err = {.status = TIDE_OK};
        const tide_status status = sync_with(r, i, &peer_err);
        if (status < TIDE_OK && first >= TIDE_OK)
            first = tide_fail(err, status, "%s: %s", tide_remote_peer(r->remotes[i])->name,
                              peer_err.text);
        all = all && r->is_proven[i];
    }
    if (all)
        atomic_store(&r->is_healthy, true);
    atomic_fetch_add(&r->version, 1);
    /* What the syncs wrote themselves is no reason for another one. */
    TIDE_IGNORE(tide_foreign_wait(tide_node_file(r->options->node), 0, NULL));
    *next_us = r->options->every_us;
    return first;
}

/* Until something was committed to the file. */
static tide_status wait_for_commit(void *arg, int64_t wait_us)
{
    const running *r = arg;
    return tide_foreign_wait(tide_node_file(r->options->node), wait_us, NULL);
}

const tide_step tide_step_replica_sync = {
    .name = "replica_sync",
    .summary = "exchange events with each peer, after commits and from time to time",
    .run = sync_all,
    .wait = wait_for_commit,
    .lane = TIDE_LANE_OWN,
};

/* ---- collection ---- */

static tide_status collect(void *arg, int64_t *next_us, tide_error *err)
{
    running *r = arg;
    tide_collected done = {.more = false};
    const tide_collect_options options = {.batch = 0};
    TIDE_TRY(tide_node_collect(r->options->node, &options, &done, err));
    tide_replica_metrics_collected(r->metrics, &done);
    *next_us = done.more ? 0 : r->options->collect_us;
    return TIDE_OK;
}

const tide_step tide_step_replica_collect = {
    .name = "replica_collect",
    .summary = "delete events that every peer has",
    .run = collect,
    .lane = TIDE_LANE_OWN,
};

/* ---- comparison ---- */

/* Tables that differ although the event logs are equal show up nowhere else. */
static tide_status compare(void *arg, int64_t *next_us, tide_error *err)
{
    running *r = arg;
    tide_status first = TIDE_NONE;
    *next_us = r->options->collect_us;
    for (int i = 0; i < r->options->remote_count && !atomic_load(&r->is_over); i++) {
        int differing = 0;
        const char *peer = tide_remote_peer(r->remotes[i])->name;
        const tide_status status = compare_tables(r->options->node, &r->service.peer, r->remotes[i],
                                                  &differing, first < TIDE_OK ? NULL : err);
        first = first < TIDE_OK || status > TIDE_OK ? first : status;
        if (status != TIDE_OK)
            continue;
        tide_replica_metrics_compared(r->metrics, peer, differing);
        if (differing > 0)
            tide_log_write(r->options->listener.log, TIDE_LOG_WARN, "tables differ from a peer's",
                           TIDE_F("peer", peer), TIDE_F("next", "tidemark replica verify --repair"),
                           TIDE_F_END);
    }
    return atomic_load(&r->is_over) ? TIDE_NONE : first;
}

const tide_step tide_step_replica_compare = {
    .name = "replica_compare",
    .summary = "compare the digests of tables with each peer",
    .run = compare,
    .lane = TIDE_LANE_OWN,
};

/* ---- wiring ---- */

static void log_report(void *arg, const char *text)
{
    const running *r = arg;
    tide_log_write(r->options->listener.log, TIDE_LOG_WARN, "the file was looked at",
                   TIDE_F("found", text), TIDE_F_END);
}

const tide_step *const tidemark_replica_steps[] = {TIDE_LISTENER_STEPS, TIDE_REPLICA_STEPS, NULL};

/* A node without peers is served as it is: what there is to do for it is done by the commands. */
static bool is_maintained(const running *r)
{
    return r->options->remote_count > 0 || r->options->snapshot_every_us > 0 || r->options->is_kept;
}

static tide_status bind_steps(running *r, tide_error *err)
{
    tide_ticker *ticker = tide_listener_ticker(r->listener);
    const tide_step_binding now = {.arg = r, .instance = r->options->instance};
    tide_step_binding later = now;
    later.delay_us = r->options->collect_us;
    TIDE_TRY(tide_snapshot_service_bind(r->service.snapshots, r->options->instance,
                                        is_maintained(r), err));
    if (!is_maintained(r)) {
        tide_ticker_skip(ticker, &tide_step_replica_sync);
        tide_ticker_skip(ticker, &tide_step_replica_collect);
        tide_ticker_skip(ticker, &tide_step_replica_compare);
        return TIDE_OK;
    }
    TIDE_TRY(tide_ticker_bind(ticker, &tide_step_replica_sync, &now, err));
    TIDE_TRY(tide_ticker_bind(ticker, &tide_step_replica_collect, &later, err));
    return tide_ticker_bind(ticker, &tide_step_replica_compare, &later, err);
}

static tide_status start(void *arg, tide_error *err)
{
    running *r = arg;
    for (int i = 0; i < r->options->remote_count; i++)
        TIDE_TRY(tide_remote_open(&r->remotes[i], &r->options->remotes[i], err));
    return bind_steps(r, err);
}

static void leave(void *arg)
{
    running *r = arg;
    atomic_store(&r->is_over, true);
    tide_snapshot_service_stop(r->service.snapshots);
    for (int i = 0; i < r->options->remote_count; i++)
        if (r->remotes[i])
            tide_remote_stop(r->remotes[i]);
}

static bool is_healthy(void *arg, tide_error *why)
{
    if (atomic_load(&((running *)arg)->is_healthy))
        return true;
    TIDE_IGNORE(tide_fail(why, TIDE_E_UNAVAILABLE, "no sync with a peer has succeeded yet"));
    return false;
}

/* The table of methods with the path before each. One allocation: rows, then texts. */
static tide_status move_methods(running *r, const char *under, tide_error *err)
{
    size_t count = 0;
    size_t text_len = 0;
    for (const tide_method *m = tide_replica_methods; m->path; m++, count++)
        text_len += strlen(under) + strlen(m->path) + 1;
    r->methods = calloc(1, (count + 1) * sizeof *r->methods + text_len);
    TIDE_NEED_MEMORY(r->methods, err);
    char *text = (char *)(r->methods + count + 1);
    for (size_t i = 0; i < count; i++) {
        r->methods[i] = tide_replica_methods[i];
        r->methods[i].path = text;
        text = stpcpy(stpcpy(text, under), tide_replica_methods[i].path) + 1;
    }
    return TIDE_OK;
}

void tide_replicad_close(tide_replicad *r)
{
    if (!r)
        return;
    leave(r);
    tide_snapshot_service_close(r->service.snapshots);
    tide_node_on_report(r->options->node, NULL, NULL);
    for (int i = 0; i < r->options->remote_count; i++)
        tide_remote_close(r->remotes[i]);
    tide_replica_metrics_free(r->metrics);
    free(r->methods);
    free(r);
}

uint64_t tide_replicad_version(const tide_replicad *replicad)
{
    return atomic_load(&replicad->version);
}
static tide_status join(running *r, tide_listener *listener, tide_error *err)
{
    const tide_replicad_options *options = r->options;
    const tide_snapshot_service_options snapshots = {.node = options->node,
                                                     .dir = options->snapshot_dir,
                                                     .every_us = options->snapshot_every_us,
                                                     .log = options->listener.log,
                                                     .ticker = tide_listener_ticker(listener)};
    TIDE_TRY(tide_snapshot_service_open(&r->service.snapshots, &snapshots, err));
    const tide_listener_component component = {.start = start,
                                               .leave = leave,
                                               .is_healthy = options->is_kept ? NULL : is_healthy,
                                               .arg = r};
    TIDE_TRY(tide_listener_join(listener, &component, err));
    tide_metrics *metrics = options->is_uncounted ? NULL : tide_listener_metrics(listener);
    TIDE_TRY(tide_replica_metrics_new(&r->metrics, metrics, options->node, err));
    if (options->under) {
        TIDE_TRY(move_methods(r, options->under, err));
        TIDE_TRY(tide_listener_add(listener, r->methods, NULL, &r->service, err));
    }
    if (options->under && !options->is_at_root)
        return TIDE_OK;
    return tide_listener_add(listener, tide_replica_methods, NULL, &r->service, err);
}

tide_status tide_replicad_open(tide_replicad **out, tide_listener *listener,
                               const tide_replicad_options *options, tide_error *err)
{
    TIDE_NEW(running, r, err);
    r->options = options;
    r->listener = listener;
    r->service.node = options->node;
    r->service.peer = tide_peer_of_node(options->node, "this node");
    tide_node_on_report(options->node, log_report, r);
    atomic_store(&r->is_healthy, options->remote_count == 0);
    const tide_status status = join(r, listener, err);
    if (status < TIDE_OK) {
        tide_replicad_close(r);
        return status;
    }
    *out = r;
    return TIDE_OK;
}

/* ---- alone ---- */

static void close_component(void *component)
{
    tide_replicad_close(component);
}

tide_status tide_replica_run(const tide_replicad_options *options, tide_error *err)
{
    TIDE_CLEANUP(tide_single_service_done) tide_single_service single = {.close = close_component};
    tide_replicad *replicad = NULL;
    tide_listener_options listener = options->listener;
    listener.steps = tidemark_replica_steps;
    TIDE_TRY(tide_listener_open(&single.listener, &listener, err));
    TIDE_TRY(tide_replicad_open(&replicad, single.listener, options, err));
    single.component = replicad;
    return tide_single_service_serve(&single, err);
}
