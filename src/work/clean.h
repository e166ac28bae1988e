/* clean.h - one transaction of tide_work_clean (work.h), for callers that have other things to do in between. */
#pragma once

#include <tidemark/work.h>

TIDE_MUST_CHECK tide_status tide_work_clean_step(tide_store *store, int64_t keep_us,
                                                 int64_t *removed, bool *has_more, tide_error *err);
