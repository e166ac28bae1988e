#include "replica/self.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "replica/again.h"
#include "replica/node_parts.h"
#include "tidemark_templates.h"

typedef struct comparing {
    tide_node *node;
    const tide_peer_marks *theirs;
    tide_peer_marks *ours; /* NULL: nothing is flagged */
    bool is_chosen;
    tide_self_view *out;
    bool is_noted;      /* what differs was written down */
    char evidence[256]; /* "": our own log is as it was */
    int64_t known;      /* the greatest epoch of ours that they know */
    bool is_unsure;     /* they have collected what they could compare our newest events with */
    int64_t begun;      /* the new one, once it is committed */
} comparing;

static bool is_self(const comparing *c, const tide_origin_mark *mark)
{
    const tide_node_id self = tide_node_get_id(c->node);
    return memcmp(&self, &mark->origin, sizeof self) == 0;
}

/* ---- one log ---- */

/* Is the event at their prefix, if we have it, another one? */
static tide_status is_other(bool *out, tide_foreign_tx *tx, const tide_origin_mark *mark,
                            tide_error *err)
{
    *out = mark->differs;
    if (mark->stamp == 0)
        return TIDE_OK;
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    const tide_status status = tide_foreign_first(
        &query, tx, TIDE_TEMPLATE_SELF_STAMP->text, err,
        tide_bind_blob("origin", tide_view_bytes(mark->origin.bytes, TIDE_NODE_LEN)),
        tide_bind_i64("epoch", mark->epoch), tide_bind_i64("seq", mark->prefix));
    TIDE_TRY(status);
    if (status == TIDE_OK && tide_foreign_col_i64(query) != mark->stamp)
        *out = true;
    return TIDE_OK;
}

static void name_repair(char out[160], const comparing *c, const tide_origin_mark *mark)
{
    char peer[2 * TIDE_NODE_LEN + 1];
    char origin[2 * TIDE_NODE_LEN + 1];
    tide_hex_encode(peer, c->theirs->node.bytes, TIDE_NODE_LEN);
    tide_hex_encode(origin, mark->origin.bytes, TIDE_NODE_LEN);
    (void)snprintf(out, 160, "repaired/%s/%s/%" PRId64, peer, origin, mark->epoch);
}

/* As long as it is there, a repair with this peer is due: later numbers may hide what differs. */
static void name_due(char out[160], const comparing *c)
{
    char peer[2 * TIDE_NODE_LEN + 1];
    tide_hex_encode(peer, c->theirs->node.bytes, TIDE_NODE_LEN);
    (void)snprintf(out, 160, "differs/%s", peer);
}

static tide_status has_key(bool *out, tide_foreign_tx *tx, const char *key, tide_error *err)
{
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    const tide_status status = tide_foreign_first(&query, tx, TIDE_TEMPLATE_SELF_REPAIRED_GET->text,
                                                  err, tide_bind_text("key", key));
    *out = status == TIDE_OK;
    return status < TIDE_OK ? status : TIDE_OK;
}

static tide_status run_key(tide_foreign_tx *tx, const char *text, const char *key, tide_error *err)
{
    return tide_foreign_exec(tx, text, NULL, err, tide_bind_text("key", key));
}

/* ---- our own log ---- */

static tide_status get_highest(int64_t *out, tide_foreign_tx *tx, tide_error *err)
{
    TIDE_FOREIGN_QUERY_BY(query, tide_foreign_first, tx, TIDE_TEMPLATE_REPLICA_SEQ_LAST->text, err,
                          TIDE_NO_BIND);
    *out = tide_foreign_col_i64(query);
    return TIDE_OK;
}

static tide_status judge_own(comparing *c, tide_foreign_tx *tx, const tide_origin_mark *mark,
                             bool differs, tide_error *err)
{
    const int64_t epoch = tide_node_epoch(c->node);
    int64_t highest = 0;
    TIDE_TRY(get_highest(&highest, tx, err));
    if (mark->epoch > c->known)
        c->known = mark->epoch;
    if (mark->epoch > epoch || (mark->epoch == epoch && mark->highest > highest))
        (void)snprintf(c->evidence, sizeof c->evidence,
                       "a peer has number %" PRId64 " of epoch %" PRId64 ", the file %" PRId64
                       " of epoch %" PRId64,
                       mark->highest, mark->epoch, highest, epoch);
    if (mark->epoch == epoch && mark->highest > highest && !differs && mark->floor >= highest)
        c->is_unsure = true;
    if (!c->evidence[0] && mark->epoch == epoch && differs)
        (void)snprintf(c->evidence, sizeof c->evidence,
                       "a peer has another event %" PRId64 " of epoch %" PRId64, mark->prefix,
                       mark->epoch);
    return TIDE_OK;
}

static tide_status compare_in(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    comparing *c = arg;
    c->evidence[0] = '\0';
    c->known = 0;
    c->is_unsure = false;
    char due[160];
    name_due(due, c);
    TIDE_TRY(has_key(&c->is_noted, tx, due, err));
    c->out->differs = c->is_noted;
    for (int i = 0; i < c->theirs->origin_count; i++) {
        const tide_origin_mark *mark = &c->theirs->origins[i];
        bool differs = false;
        bool is_done = false;
        TIDE_TRY(is_other(&differs, tx, mark, err));
        char key[160];
        name_repair(key, c, mark);
        if (differs)
            TIDE_TRY(has_key(&is_done, tx, key, err));
        c->out->differs = c->out->differs || (differs && !is_done);
        if (is_self(c, mark))
            TIDE_TRY(judge_own(c, tx, mark, differs, err));
    }
    return TIDE_OK;
}

static tide_status is_known_peer(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    comparing *c = arg;
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    const tide_status status = tide_foreign_first(
        &query, tx, TIDE_TEMPLATE_SELF_KNOWS_PEER->text, err,
        tide_bind_blob("peer", tide_view_bytes(c->theirs->node.bytes, TIDE_NODE_LEN)));
    c->is_chosen = status == TIDE_OK;
    return status < TIDE_OK ? status : TIDE_OK;
}

/* How far our log was at anybody, as far as the file knows. */
static tide_status get_acknowledged(int64_t *out, tide_foreign_tx *tx, const tide_node_id *self,
                                    int64_t epoch, tide_error *err)
{
    TIDE_FOREIGN_QUERY_BY(query, tide_foreign_first, tx, TIDE_TEMPLATE_APPLY_GREATEST_MARK->text,
                          err,
                          tide_bind_blob("origin", tide_view_bytes(self->bytes, TIDE_NODE_LEN)),
                          tide_bind_i64("epoch", epoch));
    *out = tide_foreign_col_is_null(query) ? 0 : tide_foreign_col_i64(query);
    return TIDE_OK;
}

static tide_status begin_in(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    comparing *c = arg;
    const int64_t present = tide_node_epoch(c->node);
    const int64_t epoch = (c->known > present ? c->known : present) + 1;
    const tide_node_id self = tide_node_get_id(c->node);
    if (epoch > TIDE_EPOCH_MAX)
        return tide_fail(err, TIDE_E_INVALID, "a peer names epoch %" PRId64 " of this node",
                         c->known);
    c->begun = epoch;
    TIDE_TRY(tide_node_begin_epoch_in(tx, &self, epoch, "restored", c->evidence, err));
    if (!c->is_unsure)
        return TIDE_OK;
    int64_t acknowledged = 0;
    TIDE_TRY(get_acknowledged(&acknowledged, tx, &self, present, err));
    return tide_again_own(c->node, tx, present, acknowledged, err);
}

static tide_status note_due(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    char due[160];
    name_due(due, arg);
    return run_key(tx, TIDE_TEMPLATE_SELF_REPAIRED_PUT->text, due, err);
}

tide_status tide_self_compare(tide_node *node, const tide_peer_marks *theirs, bool is_chosen,
                              tide_self_view *out, tide_error *err)
{
    *out = (tide_self_view){.has_begun = false};
    comparing c = {.node = node, .theirs = theirs, .is_chosen = is_chosen, .out = out};
    TIDE_TRY(tide_foreign_read(tide_node_file(node), compare_in, &c, err));
    if (is_chosen && out->differs && !c.is_noted)
        TIDE_TRY(tide_foreign_write(tide_node_file(node), note_due, &c, err));
    if (!c.evidence[0])
        return TIDE_OK;
    if (!c.is_chosen)
        TIDE_TRY(tide_foreign_read(tide_node_file(node), is_known_peer, &c, err));
    if (!c.is_chosen)
        return TIDE_OK;
    /* Not before it is committed: a node that is ahead of its file would number events of an epoch without a beginning. Where the outcome is not known, the
     * next write finds the file's epoch (tide_foreign_on_returned). */
    TIDE_TRY(tide_foreign_write(tide_node_file(node), begin_in, &c, err));
    const tide_node_id self = tide_node_get_id(node);
    tide_node_become(node, &self, c.begun);
    out->has_begun = true;
    return TIDE_OK;
}

/* ---- for the other ---- */

static tide_status flag_in(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    const comparing *c = arg;
    for (int i = 0; i < c->theirs->origin_count; i++) {
        const tide_origin_mark *mark = &c->theirs->origins[i];
        for (int k = 0; k < c->ours->origin_count; k++) {
            tide_origin_mark *our = &c->ours->origins[k];
            if (our->epoch == mark->epoch &&
                memcmp(&our->origin, &mark->origin, sizeof our->origin) == 0)
                TIDE_TRY(is_other(&our->differs, tx, mark, err));
        }
    }
    return TIDE_OK;
}

tide_status tide_self_flag(tide_node *node, const tide_peer_marks *theirs, tide_peer_marks *ours,
                           tide_error *err)
{
    comparing c = {.node = node, .theirs = theirs, .ours = ours};
    return tide_foreign_read(tide_node_file(node), flag_in, &c, err);
}

static tide_status note_repaired(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    const comparing *c = arg;
    for (int i = 0; i < c->theirs->origin_count; i++) {
        const tide_origin_mark *mark = &c->theirs->origins[i];
        bool differs = false;
        char key[160];
        TIDE_TRY(is_other(&differs, tx, mark, err));
        if (!differs)
            continue;
        name_repair(key, c, mark);
        TIDE_TRY(run_key(tx, TIDE_TEMPLATE_SELF_REPAIRED_PUT->text, key, err));
    }
    char due[160];
    name_due(due, c);
    return run_key(tx, TIDE_TEMPLATE_SELF_REPAIRED_CUT->text, due, err);
}

tide_status tide_self_repaired(tide_node *node, const tide_peer_marks *theirs, tide_error *err)
{
    comparing c = {.node = node, .theirs = theirs};
    return tide_foreign_write(tide_node_file(node), note_repaired, &c, err);
}
