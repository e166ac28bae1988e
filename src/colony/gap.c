/* gap.c - the states of a gap by name. See settle.h. */
#include "colony/settle.h"

#include <assert.h>

const char *tide_gap_status_name(tide_gap_status status)
{
#define NAME(status, name) [TIDE_GAP_##status] = (name),
    static const char *const names[TIDE_GAP_STATUS_COUNT] = {TIDE_GAP_STATUSES(NAME)};
#undef NAME
    assert((int)status >= 0 && status < TIDE_GAP_STATUS_COUNT);
    return names[status];
}

bool tide_gap_is_open(tide_gap_status status)
{
    return status == TIDE_GAP_DETECTED || status == TIDE_GAP_RECOVERING;
}
