#include "replica/stamp.h"

#include <string.h>

#define COUNTER_BITS 16
#define COUNTER_MASK UINT64_C(0xffff)
#define MILLIS_MAX ((UINT64_C(1) << 48) - 1)

int tide_stamp_compare(const tide_stamp *a, const tide_stamp *b)
{
    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    if (a->time == 0)
        return 0;
    return memcmp(a->node.bytes, b->node.bytes, sizeof a->node.bytes);
}

int64_t tide_stamp_us(const tide_stamp *stamp)
{
    return (int64_t)(stamp->time >> COUNTER_BITS) * 1000;
}

static uint64_t time_of(int64_t wall_us)
{
    const int64_t millis = wall_us < 1000 ? 1 : wall_us / 1000; /* 0 means never */
    return (uint64_t)millis << COUNTER_BITS;
}

tide_status tide_hybrid_next(tide_hybrid *clock, int64_t wall_us, tide_stamp *out, tide_error *err)
{
    const uint64_t wall = time_of(wall_us);
    uint64_t next = clock->last + 1; /* a full counter carries into the next millisecond */
    if (wall > next)
        next = wall;
    if (next >> COUNTER_BITS >= MILLIS_MAX || next <= clock->last)
        return tide_fail(err, TIDE_E_EXHAUSTED, "stamps end in the year 10889");
    clock->last = next;
    *out = (tide_stamp){.time = next, .node = clock->node};
    return TIDE_OK;
}

tide_status tide_hybrid_meet(tide_hybrid *clock, int64_t wall_us, const tide_stamp *met)
{
    if (met->time > (time_of(wall_us + TIDE_STAMP_DRIFT_US) | COUNTER_MASK))
        return TIDE_NONE;
    if (met->time > clock->last)
        clock->last = met->time;
    return TIDE_OK;
}
