#include "remote/replica_bootstrap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "remote/replica_messages.h"
#include "remote/replica_peer_internal.h"
#include "replica/snapshot_file.h"
#include "services/api/rpc.h"

#define WAIT_US INT64_C(1800000000)
#define LOOK_US INT64_C(200000)

enum { TRIES = 3 };

/* What the peer offers. */
typedef struct offer {
    char id[TIDE_UUID_TEXT_SIZE];
    int64_t bytes;
    uint8_t digest[TIDE_SHA256_LEN];
} offer;

static tide_status report(const tide_bootstrap *b, const char *what, int64_t done, int64_t total,
                          tide_error *err)
{
    if (!b->watch)
        return TIDE_OK;
    if (b->watch->is_over && b->watch->is_over(b->watch->arg))
        return tide_fail(err, TIDE_E_INTERRUPTED, "the transfer was interrupted: it can go on");
    if (b->watch->progress)
        b->watch->progress(b->watch->arg, what, done, total);
    return TIDE_OK;
}

/* ---- which one ---- */

static tide_status read_offer(offer *out, const REPLICA(Snapshot) * from, tide_error *err)
{
    tide_uuid id;
    if (tide_uuid_parse(&id, tide_view_of(from->snapshot_id)) != TIDE_OK ||
        from->digest.len != sizeof out->digest)
        return tide_fail(err, TIDE_E_DAMAGED, "the peer lists a snapshot that cannot be");
    tide_uuid_format(&id, out->id); /* it becomes part of a file's name */
    memcpy(out->digest, from->digest.data, sizeof out->digest);
    return tide_wire_number(&out->bytes, from->bytes, err);
}

/* TIDE_NONE: none yet, ask again. */
static tide_status request_offer(tide_bootstrap *b, offer *out, tide_error *err)
{
    ProtobufCMessage *response = NULL;
    REPLICA(ListSnapshotsRequest) request = REPLICA_INIT(LIST_SNAPSHOTS_REQUEST);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(TIDE_RPC_RESPONSE_MAX);
    request.make = true;
    TIDE_TRY(tide_rpc_pack(&bytes, &request.base, err));
    const tide_status status = tide_remote_call(
        b->remote, "ListSnapshots", &bytes,
        &tidemark__replica__v1__list_snapshots_response__descriptor, &response, err);
    if (status == TIDE_E_UNSUPPORTED)
        return tide_fail(err, TIDE_E_NOT_FOUND,
                         "a snapshot is required, and the peer does not offer any");
    TIDE_TRY(status);
    const REPLICA(ListSnapshotsResponse) *answer = (const REPLICA(ListSnapshotsResponse) *)response;
    if (answer->n_snapshots > 0)
        return read_offer(out, answer->snapshots[0], err);
    if (answer->making)
        return TIDE_NONE;
    return tide_fail(err, TIDE_E_NOT_FOUND,
                     "a snapshot is required, and the peer makes none: %.200s",
                     answer->failure[0] ? answer->failure : "it does not say why");
}

static tide_status find_offer(tide_bootstrap *b, offer *out, tide_error *err)
{
    tide_env *env = tide_foreign_env(tide_node_file(b->node));
    const int64_t until_us = env->mono_us(env) + (b->wait_us > 0 ? b->wait_us : WAIT_US);
    for (;;) {
        const tide_status status = request_offer(b, out, err);
        if (status != TIDE_NONE)
            return status;
        TIDE_TRY(report(b, "waiting for the peer's snapshot", 0, 0, err));
        if (env->mono_us(env) >= until_us)
            return tide_fail(err, TIDE_E_TIMEOUT, "the peer is still making a snapshot");
        env->sleep_us(env, LOOK_US);
    }
}

/* ---- the part ---- */

/* Parts of other snapshots are of no use any more. */
static void drop_others(const char *db, const char *kept)
{
    char dir[TIDE_SNAPSHOT_PATH_MAX];
    char prefix[TIDE_SNAPSHOT_PATH_MAX];
    const char *slash = strrchr(db, '/');
    (void)snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - db) : 1, slash ? db : ".");
    (void)snprintf(prefix, sizeof prefix, "%.4000s-bootstrap-", slash ? slash + 1 : db);
    DIR *open_dir = opendir(dir[0] ? dir : "/");
    for (const struct dirent *entry = open_dir ? readdir(open_dir) : NULL; entry;
         entry = readdir(open_dir)) {
        const size_t len = strlen(entry->d_name);
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0 && len > 5 &&
            strcmp(entry->d_name + len - 5, ".part") == 0 && !strstr(kept, entry->d_name))
            (void)unlinkat(dirfd(open_dir), entry->d_name, 0);
    }
    if (open_dir)
        (void)closedir(open_dir);
}

static tide_status open_part(tide_bootstrap *b, const offer *from, char path[], int *fd,
                             tide_error *err)
{
    const char *db = tide_foreign_path(tide_node_file(b->node));
    if ((size_t)snprintf(path, TIDE_SNAPSHOT_PATH_MAX, "%s-bootstrap-%s.part", db, from->id) >=
        TIDE_SNAPSHOT_PATH_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "the path is too long: %.80s...", db);
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (*fd < 0)
        return tide_fail(err, TIDE_E_IO, "cannot write %s: %s", path, strerror(errno));
    if (flock(*fd, LOCK_EX | LOCK_NB) != 0)
        return tide_fail(err, TIDE_E_BUSY, "another process fetches this snapshot into %s", path);
    drop_others(db, path);
    return TIDE_OK;
}

/* What is there is believed as far as its digests go. */
static tide_status copy_sound(tide_bootstrap *b, const offer *from, int fd, int64_t *offset,
                              tide_error *err)
{
    TIDE_TRY(tide_snapshot_sound_bytes(offset, fd, err));
    if (*offset > from->bytes)
        *offset = 0;
    b->resumed_at = *offset;
    if (ftruncate(fd, *offset) != 0 || lseek(fd, *offset, SEEK_SET) != *offset)
        return tide_fail(err, TIDE_E_IO, "cannot cut the part: %s", strerror(errno));
    return TIDE_OK;
}

static tide_status write_piece(int fd, const ProtobufCBinaryData *data, tide_error *err)
{
    for (size_t at = 0; at < data->len;) {
        const ssize_t written = write(fd, data->data + at, data->len - at);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return tide_fail(err, errno == ENOSPC || errno == EDQUOT ? TIDE_E_FULL : TIDE_E_IO,
                             "cannot write the snapshot's part: %s", strerror(errno));
        at += (size_t)written;
    }
    return TIDE_OK;
}

static tide_status fetch_piece(tide_bootstrap *b, const offer *from, int fd, int64_t *offset,
                               tide_error *err)
{
    uint8_t digest[TIDE_SHA256_LEN];
    ProtobufCMessage *response = NULL;
    REPLICA(ReadSnapshotRequest) request = REPLICA_INIT(READ_SNAPSHOT_REQUEST);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(TIDE_RPC_RESPONSE_MAX);
    request.snapshot_id = (char *)from->id;
    request.offset = (uint64_t)*offset;
    request.max_bytes = TIDE_SNAPSHOT_PIECE;
    TIDE_TRY(tide_rpc_pack(&bytes, &request.base, err));
    TIDE_TRY(tide_remote_call(b->remote, "ReadSnapshot", &bytes,
                              &tidemark__replica__v1__read_snapshot_response__descriptor, &response,
                              err));
    const REPLICA(ReadSnapshotResponse) *answer = (const REPLICA(ReadSnapshotResponse) *)response;
    const tide_view data =
        tide_view_bytes(answer->data.len > 0 ? (char *)answer->data.data : "", answer->data.len);
    TIDE_TRY(tide_sha256_of(data, digest, err));
    if (answer->digest.len != sizeof digest ||
        memcmp(answer->digest.data, digest, sizeof digest) != 0)
        return tide_fail(err, TIDE_E_DAMAGED, "a piece of the snapshot does not have its digest");
    if (data.len == 0 || (int64_t)data.len > from->bytes - *offset ||
        answer->bytes != (uint64_t)from->bytes)
        return tide_fail(err, TIDE_E_DAMAGED, "the peer gives %zu bytes at %lld of %lld", data.len,
                         (long long)*offset, (long long)from->bytes);
    TIDE_TRY(write_piece(fd, &answer->data, err));
    *offset += (int64_t)data.len;
    return TIDE_OK;
}

static tide_status fetch(tide_bootstrap *b, const offer *from, int fd, tide_error *err)
{
    int64_t offset = 0;
    TIDE_TRY(copy_sound(b, from, fd, &offset, err));
    while (offset < from->bytes) {
        TIDE_TRY(report(b, "fetching bytes", offset, from->bytes, err));
        TIDE_TRY(fetch_piece(b, from, fd, &offset, err));
    }
    return fsync(fd) == 0 ? TIDE_OK
                          : tide_fail(err, TIDE_E_IO, "cannot sync the part: %s", strerror(errno));
}

static tide_status check_and_restore(tide_bootstrap *b, const offer *from, const char *path,
                                     tide_error *err)
{
    TIDE_CLEANUP(tide_snapshot_info_done) tide_snapshot_info info = {.bytes = 0};
    TIDE_TRY(tide_snapshot_check(path, b->watch, &info, err));
    if (memcmp(info.digest, from->digest, sizeof info.digest) != 0)
        return tide_fail(err, TIDE_E_DAMAGED, "the snapshot is not the one that was listed");
    b->bytes = info.bytes;
    return tide_snapshot_restore(b->node, path, b->watch, &b->restored, err);
}

/* TIDE_E_NOT_FOUND: the peer has removed it meanwhile. */
static tide_status bring(tide_bootstrap *b, const offer *from, tide_error *err)
{
    char path[TIDE_SNAPSHOT_PATH_MAX];
    int fd = -1;
    tide_status status = open_part(b, from, path, &fd, err);
    if (status >= TIDE_OK) {
        status = fetch(b, from, fd, err);
        if (status >= TIDE_OK)
            status = check_and_restore(b, from, path, err);
        if (status >= TIDE_OK || status == TIDE_E_DAMAGED || status == TIDE_E_NOT_FOUND)
            (void)unlink(path);
    }
    if (fd >= 0)
        (void)close(fd);
    return status;
}

tide_status tide_bootstrap_run(tide_bootstrap *b, tide_error *err)
{
    tide_status status = TIDE_OK;
    for (int i = 0; i < TRIES; i++) {
        offer from;
        TIDE_TRY(find_offer(b, &from, err));
        status = bring(b, &from, err);
        if (status != TIDE_E_NOT_FOUND)
            break;
    }
    return status;
}
