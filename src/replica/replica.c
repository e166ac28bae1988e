/* replica.c - the public interface of a node: thin calls of node.h. */
#include <tidemark/replica.h>

#include <string.h>

#include "base/interface/caller.h"
#include "base/interface/sized.h"
#include "base/text/uuid.h"
#include "replica/node.h"

tide_status tide_replica_open(tide_replica **out, const tide_replica_options *given,
                              tide_error *err)
{
    TIDE_NEED(out, err);
    tide_replica_options own;
    TIDE_TRY(TIDE_SIZED_COPY(&own, given, tide_replica_options, err));
    const tide_replica_options *options = &own;
    if (!options->path || !*options->path)
        return tide_fail(err, TIDE_E_INVALID, "a replica needs the path of a file");
    if (options->env)
        TIDE_TRY(tide_env_check(options->env, err));
    const tide_node_options node = {.env = options->env ? options->env : tide_env_system(),
                                    .is_new = options->may_create,
                                    .state_dir = options->state_dir};
    return tide_node_open(out, options->path, &node, err);
}

void tide_replica_close(tide_replica *replica)
{
    tide_node_close(replica);
}

tide_status tide_replica_track(tide_replica *replica, const char *table, int64_t *rows,
                               tide_error *err)
{
    TIDE_NEED(replica && table, err);
    tide_tracked tracked = {.rows = 0};
    TIDE_TRY(tide_node_track(replica, table, TIDE_NODE_RETAIN_AS_IS, &tracked, err));
    if (rows)
        *rows = tracked.rows;
    return TIDE_OK;
}

tide_status tide_replica_untrack(tide_replica *replica, const char *table, tide_error *err)
{
    TIDE_NEED(replica, err);
    return tide_node_untrack(replica, table, err);
}

tide_status tide_replica_fold(tide_replica *replica, int64_t *events, tide_error *err)
{
    TIDE_NEED(replica, err);
    int64_t sum = 0;
    bool more = true;
    while (more) {
        int64_t folded = 0;
        TIDE_TRY(tide_node_fold(replica, &folded, &more, err));
        sum += folded;
    }
    if (events)
        *events = sum;
    return TIDE_OK;
}

static tide_status count_mark(void *arg, const tide_origin_mark *mark, tide_error *err)
{
    (void)mark;
    (void)err;
    ++*(int64_t *)arg;
    return TIDE_OK;
}

tide_status tide_replica_status(tide_replica *replica, tide_replica_state *out, tide_error *err)
{
    TIDE_NEED(replica && out, err);
    tide_node_counts counts = {.conflicts = 0};
    const tide_node_id id = tide_node_get_id(replica);
    tide_uuid uuid;
    _Static_assert(sizeof id.bytes == sizeof uuid.bytes, "a node's id is a UUID");
    _Static_assert((int)TIDE_REPLICA_ID_SIZE == (int)TIDE_UUID_TEXT_SIZE, "and is written as one");
    *out = (tide_replica_state){.epoch = tide_node_epoch(replica)};
    memcpy(uuid.bytes, id.bytes, sizeof uuid.bytes);
    tide_uuid_format(&uuid, out->node_id);
    if (out->epoch == 0)
        return TIDE_OK;
    TIDE_TRY(tide_node_marks(replica, count_mark, &out->origins, err));
    TIDE_TRY(tide_node_count(replica, &counts, err));
    out->conflicts = counts.conflicts;
    out->aside = counts.aside;
    out->quarantined = counts.quarantined;
    return TIDE_OK;
}
