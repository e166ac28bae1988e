/* self.h - what peers have of this node's own log, and whether it still is what this node has.
 *
 * A file that is put back together with everything beside it (a disk, a machine) cannot know by itself: it gives its numbers a second time. Peers know:
 *
 *     behind     a peer has more of the present epoch than this node: the file was put back. A new epoch begins; the old events come back from the
 *                peer, like anybody's
 *     differs    the same number has another stamp there: numbers were given twice before anybody noticed. A new epoch begins, too, and the tables
 *                of the two are compared and repaired once (repair.h); what is found so is said again for all others (again.h)
 *
 * A node that is behind may have given numbers again by then, which the peer has collected, so that nobody can tell: what was written here since the last
 * acknowledgement is said again in the new epoch (again.h).
 *
 * Believed are peers that this node asked, or that it knew before: a stranger's marks change nothing.
 *
 * Threads: as the node. */
#pragma once

#include "replica/node.h"
#include "replica/sync.h"

typedef struct tide_self_view {
    bool has_begun; /* a new epoch: marks from before are stale */
    bool differs;   /* in a log that was not repaired with this peer yet */
} tide_self_view;

/* Compare with a peer's marks. is_chosen: this node asked it, so it need not be known. */
TIDE_MUST_CHECK tide_status tide_self_compare(tide_node *node, const tide_peer_marks *theirs,
                                              bool is_chosen, tide_self_view *out, tide_error *err);
/* Set `differs` of our marks where the other's stamp is not ours. */
TIDE_MUST_CHECK tide_status tide_self_flag(tide_node *node, const tide_peer_marks *theirs,
                                           tide_peer_marks *ours, tide_error *err);
/* What differs between us and this peer by now is repaired: it is not told again. */
TIDE_MUST_CHECK tide_status tide_self_repaired(tide_node *node, const tide_peer_marks *theirs,
                                               tide_error *err);
