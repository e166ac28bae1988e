#include "net/http/h2_closed.h"

#include <stdlib.h>

#include "base/list.h"

void tide_h2_closed_done(tide_h2_closed *closed)
{
    free(closed->resets);
    *closed = (tide_h2_closed){.highest = 0};
}

bool tide_h2_closed_open(tide_h2_closed *closed, int32_t id)
{
    if (id <= closed->highest)
        return false;
    const int32_t next = closed->highest == 0 ? 1 : closed->highest + 2;
    if (id > next)
        closed->gaps[closed->gap_count++ % TIDE_H2_GAPS] =
            (tide_h2_gap){.first = next, .last = id - 2};
    closed->highest = id;
    return true;
}

bool tide_h2_closed_is_gap(const tide_h2_closed *closed, int32_t id)
{
    const size_t count = closed->gap_count < TIDE_H2_GAPS ? closed->gap_count : TIDE_H2_GAPS;
    for (size_t i = 0; i < count; i++)
        if (id >= closed->gaps[i].first && id <= closed->gaps[i].last)
            return true;
    return false;
}

static tide_h2_reset *find_reset(const tide_h2_closed *closed, int32_t id)
{
    const size_t count =
        closed->reset_count < TIDE_H2_RESETS ? closed->reset_count : TIDE_H2_RESETS;
    for (size_t i = 0; i < count; i++)
        if (closed->resets[i].id == id)
            return &closed->resets[i];
    return NULL;
}

void tide_h2_closed_reset(tide_h2_closed *closed, int32_t id, int32_t window)
{
    if (find_reset(closed, id))
        return;
    const int64_t count = (int64_t)closed->reset_count;
    if (closed->reset_count < TIDE_H2_RESETS &&
        tide_list_room(&closed->resets, count, sizeof *closed->resets, TIDE_H2_RESETS, NULL) !=
            TIDE_OK)
        return;
    closed->resets[closed->reset_count++ % TIDE_H2_RESETS] =
        (tide_h2_reset){.id = id, .left = window};
}

bool tide_h2_closed_tolerates(tide_h2_closed *closed, int32_t id, size_t frame_len)
{
    tide_h2_reset *reset = find_reset(closed, id);
    const int32_t cost = (int32_t)(frame_len > TIDE_H2_FRAME_COST ? frame_len : TIDE_H2_FRAME_COST);
    if (!reset || reset->left < cost)
        return false;
    reset->left -= cost;
    return true;
}
