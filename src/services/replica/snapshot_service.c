#include "services/replica/snapshot_service.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/lock.h"
#include "services/api/rpc.h"

#define RETRY_US INT64_C(60000000) /* after one that failed */
#define DUE_US INT64_C(1000000)    /* between looks whether one is due */

struct tide_snapshot_service {
    tide_snapshot_service_options options;
    char dir[TIDE_SNAPSHOT_PATH_MAX];
    tide_env *env;
    int64_t opened_us; /* wall clock */
    bool is_timed;
    atomic_bool is_over;
    pthread_mutex_t lock;
    /* under the lock */
    bool is_wanted; /* by a peer */
    bool is_making;
    int64_t failed_us; /* monotonic; 0: the last one did not fail */
    char failure[256];
};

/* ---- making ---- */

static bool is_over(void *arg)
{
    return atomic_load(&((tide_snapshot_service *)arg)->is_over);
}

static tide_status make(tide_snapshot_service *s, tide_error *err)
{
    TIDE_CLEANUP(tide_snapshot_info_done) tide_snapshot_info info = {.bytes = 0};
    const tide_snapshot_watch watch = {.arg = s, .is_over = is_over};
    TIDE_TRY(tide_snapshot_make_in(s->options.node, s->dir, &watch, &info, err));
    if (s->options.log)
        tide_log_write(s->options.log, TIDE_LOG_INFO, "snapshot made",
                       TIDE_F("snapshot_id", info.id), TIDE_F_END);
    return tide_snapshot_keep(s->options.node, s->dir, TIDE_SNAPSHOT_KEPT, err);
}

/* Under the lock. */
static bool has_just_failed(const tide_snapshot_service *s)
{
    return s->failed_us != 0 && s->env->mono_us(s->env) < s->failed_us + RETRY_US;
}

/* A peer needs one. */
static void request_one(tide_snapshot_service *s)
{
    (void)pthread_mutex_lock(&s->lock);
    s->is_wanted = !s->is_making && !has_just_failed(s) && !atomic_load(&s->is_over);
    (void)pthread_mutex_unlock(&s->lock);
    tide_ticker_wake(s->options.ticker, tide_step_replica_snapshot.name);
}

/* The request is served from here on, or was found needless. */
static void end_request(tide_snapshot_service *s, bool is_making)
{
    TIDE_HOLD(&s->lock);
    s->is_wanted = false;
    s->is_making = is_making;
}

static void end_making(tide_snapshot_service *s, tide_status status, const tide_error *err)
{
    TIDE_HOLD(&s->lock);
    s->is_making = false;
    s->failed_us = status < TIDE_OK ? s->env->mono_us(s->env) : 0;
    (void)snprintf(s->failure, sizeof s->failure, "%.250s", status < TIDE_OK ? err->text : "");
}

/* TIDE_OK: one is due, or it is wanted and there is none. */
static tide_status is_due(tide_snapshot_service *s, bool is_wanted, tide_error *err)
{
    bool is_needed = false;
    TIDE_CLEANUP(tide_snapshot_info_done) tide_snapshot_info newest = {.bytes = 0};
    const tide_status status = tide_snapshot_newest(s->options.node, &newest, err);
    TIDE_TRY(status);
    if (status == TIDE_NONE && is_wanted)
        return TIDE_OK;
    if (!s->is_timed)
        return TIDE_NONE;
    if (status == TIDE_NONE)
        TIDE_TRY(tide_snapshot_is_needed(s->options.node, &is_needed, err));
    const int64_t since_us = status == TIDE_OK ? newest.created_us : s->opened_us;
    return is_needed || (s->options.every_us > 0 &&
                         s->env->wall_us(s->env) >= since_us + s->options.every_us)
               ? TIDE_OK
               : TIDE_NONE;
}

/* TIDE_OK: requested, or due. */
static tide_status check_wanted(tide_snapshot_service *s, tide_error *err)
{
    (void)pthread_mutex_lock(&s->lock);
    const bool is_wanted = s->is_wanted;
    const bool is_early = has_just_failed(s);
    (void)pthread_mutex_unlock(&s->lock);
    if (is_early || atomic_load(&s->is_over))
        return TIDE_NONE;
    return is_wanted || s->is_timed ? is_due(s, is_wanted, err) : TIDE_NONE;
}

static tide_status run(void *arg, int64_t *next_us, tide_error *err)
{
    tide_snapshot_service *s = arg;
    *next_us = s->is_timed ? DUE_US : INT64_MAX;
    tide_status status = check_wanted(s, err);
    end_request(s, status == TIDE_OK);
    if (status != TIDE_OK)
        return status;
    status = make(s, err);
    end_making(s, status, err);
    return status;
}

const tide_step tide_step_replica_snapshot = {
    .name = "replica_snapshot",
    .summary = "make a snapshot when one is due, needed or requested",
    .run = run,
    .lane = TIDE_LANE_OWN,
};

tide_status tide_snapshot_service_bind(tide_snapshot_service *s, const char *instance,
                                       bool is_timed, tide_error *err)
{
    s->is_timed = is_timed;
    return tide_ticker_bind(s->options.ticker, &tide_step_replica_snapshot,
                            &(tide_step_binding){.arg = s, .instance = instance}, err);
}

/* ---- life ---- */

tide_status tide_snapshot_service_open(tide_snapshot_service **out,
                                       const tide_snapshot_service_options *options,
                                       tide_error *err)
{
    TIDE_NEW(tide_snapshot_service, s, err);
    s->options = *options;
    s->env = tide_foreign_env(tide_node_file(options->node));
    s->opened_us = s->env->wall_us(s->env);
    (void)pthread_mutex_init(&s->lock, NULL);
    tide_status status = TIDE_OK;
    if (!options->dir)
        status =
            tide_snapshot_dir_of(s->dir, tide_foreign_path(tide_node_file(options->node)), err);
    else if ((size_t)snprintf(s->dir, sizeof s->dir, "%s", options->dir) >= sizeof s->dir)
        status = tide_fail(err, TIDE_E_LIMIT, "the path is too long: %.80s...", options->dir);
    if (status < TIDE_OK) {
        tide_snapshot_service_close(s);
        return status;
    }
    *out = s;
    return TIDE_OK;
}

void tide_snapshot_service_stop(tide_snapshot_service *s)
{
    if (s)
        atomic_store(&s->is_over, true);
}

void tide_snapshot_service_close(tide_snapshot_service *s)
{
    if (!s)
        return;
    atomic_store(&s->is_over, true);
    (void)pthread_mutex_destroy(&s->lock);
    free(s);
}

/* ---- methods ---- */

static tide_status put_snapshot(tide_buffer *out, const tide_snapshot_info *info, tide_error *err)
{
    REPLICA(Snapshot) message = REPLICA_INIT(SNAPSHOT);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(TIDE_RPC_RESPONSE_MAX);
    message.snapshot_id = (char *)info->id;
    message.created_at = (uint64_t)info->created_us;
    message.bytes = (uint64_t)info->bytes;
    message.digest.data = (uint8_t *)info->digest;
    message.digest.len = sizeof info->digest;
    TIDE_TRY(tide_rpc_pack(&bytes, &message.base, err));
    TIDE_TRY(tide_wire_put_marks(&bytes, 5, &info->cut, err));
    for (int i = 0; i < info->cut.table_count; i++)
        TIDE_TRY(tide_rpc_put_bytes(&bytes, 6, tide_view_of(info->cut.tables[i].name), err));
    return tide_rpc_put_bytes(out, 1, tide_buffer_view(&bytes), err);
}

tide_status tide_snapshot_serve_list(tide_snapshot_service *s,
                                     const REPLICA(ListSnapshotsRequest) * request,
                                     tide_buffer *out, tide_error *err)
{
    char failure[sizeof s->failure];
    REPLICA(ListSnapshotsResponse) answer = REPLICA_INIT(LIST_SNAPSHOTS_RESPONSE);
    TIDE_CLEANUP(tide_snapshot_info_done) tide_snapshot_info newest = {.bytes = 0};
    const tide_status status = tide_snapshot_newest(s->options.node, &newest, err);
    TIDE_TRY(status);
    if (status == TIDE_OK)
        TIDE_TRY(put_snapshot(out, &newest, err));
    else if (request->make)
        request_one(s);
    (void)pthread_mutex_lock(&s->lock);
    answer.making = s->is_wanted || s->is_making;
    (void)snprintf(failure, sizeof failure, "%s", s->failure);
    (void)pthread_mutex_unlock(&s->lock);
    answer.failure = failure;
    return tide_rpc_pack(out, &answer.base, err);
}

static tide_status read_piece(tide_buffer *out, const tide_snapshot_info *info, int64_t offset,
                              size_t len, tide_error *err)
{
    const int fd = open(info->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return tide_fail(err, TIDE_E_NOT_FOUND, "snapshot %s is gone", info->id);
    tide_status status = TIDE_OK;
    if (tide_buffer_reserve(out, len) < TIDE_OK)
        status = tide_no_memory(err);
    while (status >= TIDE_OK && out->len < len) {
        const ssize_t got =
            pread(fd, out->ptr + out->len, len - out->len, (off_t)offset + (off_t)out->len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            status =
                tide_fail(err, TIDE_E_IO, "cannot read snapshot %s: %s", info->id, strerror(errno));
        if (got <= 0)
            break;
        out->len += (size_t)got;
    }
    (void)close(fd);
    return status;
}

tide_status tide_snapshot_serve_read(tide_snapshot_service *s,
                                     const REPLICA(ReadSnapshotRequest) * request, tide_buffer *out,
                                     tide_error *err)
{
    int64_t offset = 0;
    uint8_t digest[TIDE_SHA256_LEN];
    TIDE_CLEANUP(tide_snapshot_info_done) tide_snapshot_info info = {.bytes = 0};
    TIDE_CLEANUP(tide_buffer_done) tide_buffer data = tide_buffer_of(TIDE_SNAPSHOT_PIECE_MAX);
    REPLICA(ReadSnapshotResponse) answer = REPLICA_INIT(READ_SNAPSHOT_RESPONSE);
    TIDE_TRY(tide_wire_number(&offset, request->offset, err));
    const tide_status status =
        tide_snapshot_find(s->options.node, request->snapshot_id, &info, err);
    TIDE_TRY(status);
    if (status == TIDE_NONE)
        return tide_fail(err, TIDE_E_NOT_FOUND, "there is no snapshot %.40s (any more)",
                         request->snapshot_id);
    if (offset > info.bytes)
        return tide_fail(err, TIDE_E_INVALID, "snapshot %s has %lld bytes", info.id,
                         (long long)info.bytes);
    size_t len = request->max_bytes > 0 ? request->max_bytes : TIDE_SNAPSHOT_PIECE;
    if (len > TIDE_SNAPSHOT_PIECE_MAX)
        len = TIDE_SNAPSHOT_PIECE_MAX;
    if ((int64_t)len > info.bytes - offset)
        len = (size_t)(info.bytes - offset);
    TIDE_TRY(read_piece(&data, &info, offset, len, err));
    TIDE_TRY(tide_sha256_of(tide_buffer_view(&data), digest, err));
    answer.data.data = (uint8_t *)data.ptr;
    answer.data.len = data.len;
    answer.digest.data = digest;
    answer.digest.len = sizeof digest;
    answer.bytes = (uint64_t)info.bytes;
    return tide_rpc_pack(out, &answer.base, err);
}
