#include "services/replica/daemon.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/thread.h"
#include "remote/legacy_pull.h"
#include "remote/replica_bootstrap.h"
#include "runtime/single_service.h"
#include "services/replica/divergence_check.h"
#include "services/replica/metrics.h"
#include "services/replica/service.h"
#include "services/replica/snapshot_service.h"

#define LOOK_US INT64_C(200000) /* how soon a stop is noticed */

struct tide_replicad {
    const tide_replica_options *options;
    tide_method *methods; /* below its path; NULL: at the root */
    tide_replica_service service;
    tide_replica_metrics *figures;
    tide_remote *remotes[TIDE_REPLICA_PEERS_MAX];
    bool is_proven[TIDE_REPLICA_PEERS_MAX]; /* of the keeper */
    bool is_unlike[TIDE_REPLICA_PEERS_MAX]; /* and it was said */
    pthread_t keeper;
    bool has_keeper;
    atomic_bool is_over;
    atomic_bool is_well;
    atomic_ullong version;
};

typedef struct tide_replicad running;

static bool is_over(void *arg)
{
    return atomic_load(&((running *)arg)->is_over);
}

/* ---- the keeper ---- */

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
    tide_log_write(p->r->options->front.log, TIDE_LOG_INFO, "restored a peer's snapshot",
                   TIDE_F("peer", tide_remote_peer(p->r->remotes[p->index])->name), TIDE_F_END);
    return TIDE_OK;
}

static void sync_with(running *r, int index)
{
    tide_error err = {.status = TIDE_OK};
    tide_sync_result result;
    tide_peer *there = tide_remote_peer(r->remotes[index]);
    peering with = {.r = r, .index = index};
    const tide_sync_options options = {
        .is_over = is_peering_over, .bootstrap = bring_snapshot, .arg = &with};
    const tide_status status = tide_remote_sync(r->options->node, &r->service.peer,
                                                r->remotes[index], &options, &result, &err);
    if (atomic_load(&r->is_over))
        return;
    tide_replica_metrics_synced(r->figures, there->name, status, &result);
    if (result.unlike[0] && !r->is_unlike[index])
        tide_log_write(r->options->front.log, TIDE_LOG_WARN,
                       "a peer has tables of other types: values may differ for good",
                       TIDE_F("peer", there->name), TIDE_F("tables", result.unlike), TIDE_F_END);
    r->is_unlike[index] = result.unlike[0] != '\0';
    if (status < TIDE_OK)
        tide_log_write(r->options->front.log, TIDE_LOG_WARN, "not synced",
                       TIDE_F("peer", there->name), TIDE_F("why", err.text), TIDE_F_END);
    else
        r->is_proven[index] = true;
}

static void sync_all(running *r)
{
    bool all = true;
    for (int i = 0; i < r->options->remote_count && !atomic_load(&r->is_over); i++) {
        sync_with(r, i);
        all = all && r->is_proven[i];
    }
    if (all)
        atomic_store(&r->is_well, true);
    atomic_fetch_add(&r->version, 1);
}

static void collect(running *r)
{
    tide_error err = {.status = TIDE_OK};
    tide_collected done = {.more = true};
    const tide_collect_options options = {.batch = 0};
    while (done.more && !atomic_load(&r->is_over)) {
        if (tide_node_collect(r->options->node, &options, &done, &err) < TIDE_OK) {
            tide_log_write(r->options->front.log, TIDE_LOG_WARN, "nothing collected",
                           TIDE_F("why", err.text), TIDE_F_END);
            return;
        }
        tide_replica_metrics_collected(r->figures, &done);
    }
}

/* Tables that differ although the logs are equal: nobody else would notice. */
static void compare(running *r)
{
    for (int i = 0; i < r->options->remote_count && !atomic_load(&r->is_over); i++) {
        int differing = 0;
        tide_error err = {.status = TIDE_OK};
        const char *peer = tide_remote_peer(r->remotes[i])->name;
        if (tide_replica_compare(r->options->node, &r->service.peer, r->remotes[i], &differing,
                                 &err) != TIDE_OK)
            continue;
        tide_replica_metrics_compared(r->figures, peer, differing);
        if (differing > 0)
            tide_log_write(r->options->front.log, TIDE_LOG_WARN, "tables differ from a peer's",
                           TIDE_F("peer", peer), TIDE_F("next", "tidemark replica verify --repair"),
                           TIDE_F_END);
    }
}

/* Until something was committed, or it is time. */
static void wait_for_news(running *r, int64_t until_us)
{
    tide_env *env = r->options->front.env;
    while (!atomic_load(&r->is_over) && env->mono_us(env) < until_us)
        if (tide_foreign_wait(tide_node_file(r->options->node), LOOK_US, NULL) == TIDE_OK)
            return;
}

static void *keep(void *arg)
{
    running *r = arg;
    tide_env *env = r->options->front.env;
    int64_t collect_at = env->mono_us(env) + r->options->collect_us;
    while (!atomic_load(&r->is_over)) {
        sync_all(r);
        if (env->mono_us(env) >= collect_at) {
            collect(r);
            compare(r);
            collect_at = env->mono_us(env) + r->options->collect_us;
        }
        tide_snapshot_service_step(r->service.snapshots);
        /* What the syncs wrote themselves is news too: let it come to rest. */
        TIDE_IGNORE(tide_foreign_wait(tide_node_file(r->options->node), 0, NULL));
        wait_for_news(r, env->mono_us(env) + r->options->every_us);
    }
    return NULL;
}

/* ---- wiring ---- */

static void log_report(void *arg, const char *text)
{
    const running *r = arg;
    tide_log_write(r->options->front.log, TIDE_LOG_WARN, "the file was looked at",
                   TIDE_F("found", text), TIDE_F_END);
}

static tide_status start(void *arg, tide_error *err)
{
    running *r = arg;
    for (int i = 0; i < r->options->remote_count; i++)
        TIDE_TRY(tide_remote_open(&r->remotes[i], &r->options->remotes[i], err));
    if (r->options->remote_count == 0 && r->options->snapshot_every_us == 0 && !r->options->is_kept)
        return TIDE_OK;
    TIDE_TRY(tide_thread_start(&r->keeper, keep, r, err));
    r->has_keeper = true;
    return TIDE_OK;
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

static bool is_well(void *arg)
{
    return atomic_load(&((running *)arg)->is_well);
}

/* The table of methods with the path before each. One allocation: rows, then texts. */
static tide_status move_methods(running *r, const char *under, tide_error *err)
{
    size_t count = 0;
    size_t text_len = 0;
    for (const tide_method *m = tide_replica_methods; m->path; m++, count++)
        text_len += strlen(under) + strlen(m->path) + 1;
    r->methods = calloc(1, (count + 1) * sizeof *r->methods + text_len);
    if (!r->methods)
        return tide_no_memory(err);
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
    if (r->has_keeper)
        (void)pthread_join(r->keeper, NULL);
    tide_snapshot_service_close(r->service.snapshots);
    tide_node_on_report(r->options->node, NULL, NULL);
    for (int i = 0; i < r->options->remote_count; i++)
        tide_remote_close(r->remotes[i]);
    tide_replica_metrics_free(r->figures);
    free(r->methods);
    free(r);
}

uint64_t tide_replicad_version(const tide_replicad *replicad)
{
    return atomic_load(&replicad->version);
}
static tide_status join(running *r, tide_listener *front, tide_error *err)
{
    const tide_replica_options *options = r->options;
    const tide_snapshot_service_options snapshots = {.node = options->node,
                                                     .dir = options->snapshot_dir,
                                                     .every_us = options->snapshot_every_us,
                                                     .log = options->front.log};
    TIDE_TRY(tide_snapshot_service_open(&r->service.snapshots, &snapshots, err));
    const tide_listener_component part = {
        .start = start, .leave = leave, .is_well = options->is_kept ? NULL : is_well, .arg = r};
    TIDE_TRY(tide_listener_join(front, &part, err));
    tide_metrics *metrics = options->is_uncounted ? NULL : tide_listener_metrics(front);
    TIDE_TRY(tide_replica_metrics_new(&r->figures, metrics, options->node, err));
    if (options->under) {
        TIDE_TRY(move_methods(r, options->under, err));
        TIDE_TRY(tide_listener_add(front, r->methods, NULL, &r->service, err));
    }
    if (options->under && !options->is_at_root)
        return TIDE_OK;
    return tide_listener_add(front, tide_replica_methods, NULL, &r->service, err);
}

tide_status tide_replicad_open(tide_replicad **out, tide_listener *front,
                               const tide_replica_options *options, tide_error *err)
{
    running *r = calloc(1, sizeof *r);
    if (!r)
        return tide_no_memory(err);
    r->options = options;
    r->service.node = options->node;
    r->service.peer = tide_peer_of_node(options->node, "this node");
    tide_node_on_report(options->node, log_report, r);
    atomic_store(&r->is_well, options->remote_count == 0);
    const tide_status status = join(r, front, err);
    if (status < TIDE_OK) {
        tide_replicad_close(r);
        return status;
    }
    *out = r;
    return TIDE_OK;
}

/* ---- alone ---- */

static void close_part(void *part)
{
    tide_replicad_close(part);
}

tide_status tide_replica_run(const tide_replica_options *options, tide_error *err)
{
    TIDE_CLEANUP(tide_single_service_done) tide_single_service solo = {.close = close_part};
    tide_replicad *replicad = NULL;
    TIDE_TRY(tide_listener_open(&solo.front, &options->front, err));
    TIDE_TRY(tide_replicad_open(&replicad, solo.front, options, err));
    solo.part = replicad;
    return tide_single_service_serve(&solo, err);
}
