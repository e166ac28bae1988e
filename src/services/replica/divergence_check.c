#include "services/replica/divergence_check.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/list.h"

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
} digest_list;

static void digest_list_done(digest_list *list)
{
    free(list->of);
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
        if (strcmp(list->of[i].table, theirs->table) == 0)
            list->differing +=
                memcmp(list->of[i].digest, theirs->digest, sizeof theirs->digest) != 0;
    return TIDE_OK;
}

tide_status tide_replica_compare(tide_node *node, tide_peer *here, tide_remote *there,
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
    TIDE_TRY(tide_node_digests(node, keep_digest, &list, err));
    TIDE_TRY(tide_remote_digests(there, compare_digest, &list, err));
    TIDE_TRY(look_at_marks(&is_same, here, other, &after, err));
    if (!is_same || !is_same_marks(&before, &after))
        return TIDE_NONE;
    *differing = list.differing;
    return TIDE_OK;
}
