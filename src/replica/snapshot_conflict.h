/* snapshot_conflict.h - what becomes of conflicts when a row of a snapshot meets the row that is here (snapshot.h).
 *
 * W is what was written, K what somebody knew when he replaced it. A write is listed as a conflict iff it is in W, not in K, and not shown (conflict.h). With
 * two sets of events, those of the maker and those here, that is
 *
 *     listed by either, or shown by either;  known to neither;  not shown by the joined row
 *
 * What a node knew about a write that it has is not kept as such: it has it, and neither shows nor lists it. So for writes that are here the maker's word
 * counts where it has them (tide_snapshot_maker_has), and for the maker's writes what our own further events knew is put down beforehand
 * (tide_snapshot_keep_knowledge). Where a log was collected so far that it cannot be told, a write is rather listed than lost.
 *
 * Threads: as the transaction. */
#pragma once

#include "replica/snapshot_parts.h"

/* A row on its way: what is here, what came, what becomes of it. */
typedef struct tide_snapshot_meeting {
    tide_restoring *r;
    tide_desk_row *row;
    const tide_snapshot_row *given;
    const tide_row_clock *theirs; /* in terms of our columns */
    const tide_row_clock *joined;
    const tide_sql_value **values; /* of theirs, by our columns; NULL: unknown */
    bool is_here;
    bool is_theirs;
    bool is_shown;
} tide_snapshot_meeting;

/* What the maker has of a log; -1: nothing. */
/* Is a write that is here among those that the maker had? */
/* Somebody knew the write of this stamp (time 0: nothing) when he replaced it. */
