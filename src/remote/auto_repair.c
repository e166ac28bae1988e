#include "remote/auto_repair.h"

#include "base/cleanup.h"
#include "remote/replica_repair.h"
#include "replica/peer.h"
#include "replica/self.h"

static tide_status repair_tables(tide_node *node, tide_remote *there,
                                 const tide_sync_options *options, tide_error *err)
{
    TIDE_CLEANUP(tide_peer_marks_done) tide_peer_marks ours = {.origin_count = 0};
    tide_repair_peer peer = tide_repair_of_remote(there);
    const tide_repair_options how = {
        .is_repairing = true, .is_again = true, .arg = options->arg, .is_over = options->is_over};
    TIDE_TRY(tide_peer_tables(node, &ours, err));
    for (int i = 0; i < ours.table_count; i++) {
        tide_repair_result result;
        const tide_status status =
            tide_repair_table(node, &peer, ours.tables[i].name, &how, &result, err);
        if (status != TIDE_E_NOT_FOUND) /* it is not there */
            TIDE_TRY(status);
    }
    return TIDE_OK;
}

tide_status tide_remote_mend(tide_node *node, tide_remote *there, const tide_sync_options *options,
                             tide_error *err)
{
    TIDE_CLEANUP(tide_peer_marks_done) tide_peer_marks ours = {.origin_count = 0};
    TIDE_CLEANUP(tide_peer_marks_done) tide_peer_marks theirs = {.origin_count = 0};
    const tide_peer here = tide_peer_of_node(node, "");
    const tide_peer *peer = tide_remote_peer(there);
    TIDE_TRY(repair_tables(node, there, options, err));
    TIDE_TRY(here.marks(here.arg, NULL, &ours, err));
    TIDE_TRY(peer->marks(peer->arg, &ours, &theirs, err));
    return tide_self_repaired(node, &theirs, err);
}
