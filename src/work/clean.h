/* clean.h - one transaction of tide_work_clean (work.h), for callers that have other things to do in between. */
#pragma once

#include <tidemark/work.h>

/* *position is 0 at first; the caller keeps it between steps. On PostgreSQL a step walks a bounded number of items from there,
 * and has_more says that the walk is not over; it also may be when nothing was removed. */
TIDE_MUST_CHECK tide_status tide_work_clean_step(tide_store *store, int64_t keep_us,
                                                 int64_t *position, int64_t *removed,
                                                 bool *has_more, tide_error *err);
