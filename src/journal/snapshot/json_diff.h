/* json_diff.h - what changed between two JSON documents, as paths and values.
 *
 * The documents are compared by value (json_canon.h): white space, the order of members, escapes
 * and the writing of numbers make no difference. Told are the smallest places that differ, in the
 * order of the documents, members by key:
 *
 *     {"log":["a","c"],"n":1,"x":0}         added    /log/1   "b"
 *     {"log":["a","b","c"],"n":2}           changed  /n       1 -> 2
 *                                           removed  /x       0
 *
 * A path is a JSON pointer (RFC 6901): into the first document for what was removed, into the
 * second for what was added or changed. The empty path is the whole document. A NUL in a key is
 * written as the six characters \u0000. Values are canonical JSON.
 *
 * Removing what was removed (last first), adding what was added (in order) and then changing what
 * was changed turns the first document into the second.
 *
 * Arrays: equal elements at both ends are set aside. What is left between them is aligned by its
 * longest common subsequence, so that an insertion in the middle is one addition, if it has at most
 * TIDE_JSON_DIFF_ALIGN_MAX elements on both sides; otherwise element n is compared with element n.
 * Between aligned elements, those left over are compared pairwise; what then has no partner was
 * removed or added. Of arrays above TIDE_JSON_DIFF_TRIM_MAX elements, element n is compared with
 * element n from the first on. The effort for alignments has a limit for a whole pair of documents
 * as well (TIDE_JSON_DIFF_CELLS_MAX, below a second); once it is spent, arrays are compared by
 * position. The result is always a right one; only its size depends on these limits.
 *
 * Memory: the canonical forms of both documents, and at most 80 MiB. Time: linear, times the depth
 * of what changed.
 *
 * Threads: pure. Limits: 64 MiB per document, TIDE_JSON_NESTING_MAX levels. */
#pragma once

#include <tidemark/error.h>
#include <tidemark/export.h>
#include <tidemark/journal.h>
#include <tidemark/view.h>

enum {
    TIDE_JSON_DIFF_ALIGN_MAX = 2000,
    TIDE_JSON_DIFF_TRIM_MAX = 65536,
    TIDE_JSON_DIFF_CELLS_MAX = 1 << 28, /* pairs of elements looked at while aligning */
};

/* Call fn for each difference; what it is given is borrowed for the call. Equal documents: no call.
 * TIDE_E_INVALID: one of the texts has no canonical form; the words say which, and where.
 * TIDE_E_LIMIT: a document is too long. TIDE_E_NOMEM. A failure of fn ends it and is passed up. */
TIDE_MUST_CHECK tide_status tide_json_diff(tide_view before, tide_view after,
                                           tide_difference_fn *fn, void *arg, tide_error *err);
