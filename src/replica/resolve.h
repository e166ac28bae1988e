/* resolve.h - which rows stand in their tables when constraints do not allow all of them.
 *
 * A function of the rows that exist by their clocks, and of nothing else; so all nodes that have the same events show the same
 * tables, whatever came first:
 *
 *     1. A row that its table refuses by itself (CHECK, NOT NULL) is kept aside.
 *     2. Of those left, in falling order of their newest stamps: a row stands unless one that stands already has a unique value of
 *        its own. So the lower stamp goes aside.
 *     3. Of those left: a row whose foreign key refers to a tracked table, where no such row is left, goes aside; and so on, until
 *        all that are left have what they refer to. (It keeps its unique values: it comes back as it was when its parent comes.)
 *        A key of which an application has committed orphans itself holds nothing back (references.h).
 *
 * What goes aside is not lost: it comes back when what it collided with is changed or deleted, by anybody.
 *
 * Incrementally: only rows that changed, those that they kept out, and those aside under rule 3 are looked at; in falling order of stamps, so that
 * everything above a row is final when its turn comes.
 *
 * Threads: as the transaction. */
#pragma once

#include "replica/desk.h"

TIDE_MUST_CHECK tide_status tide_resolve(tide_desk *desk, tide_error *err);

/* After an ingest, which places nothing itself: rows of peers that were kept out by what an
 * application has changed or deleted since. With is_refer_wanted: all that are kept out. */
TIDE_MUST_CHECK tide_status tide_resolve_released(tide_desk *desk, tide_error *err);
