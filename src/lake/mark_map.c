/* mark_map.c - see mark_map.h. */
#include "lake/mark_map.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

void tide_mark_map_done(tide_mark_map *map)
{
    free(map->slots);
    *map = (tide_mark_map){0};
}

/* The mark's slot, or the free one that it would get. */
static tide_mark_slot *find_slot(const tide_mark_map *map, const tide_digest128 *mark)
{
    uint64_t hash = 0;
    memcpy(&hash, mark->bytes, sizeof hash);
    for (size_t at = hash & (map->capacity - 1);; at = (at + 1) & (map->capacity - 1)) {
        tide_mark_slot *slot = &map->slots[at];
        if (slot->snapshot_id == 0 || tide_digest128_equal(&slot->mark, mark))
            return slot;
    }
}

int64_t tide_mark_map_get(const tide_mark_map *map, const tide_digest128 *mark)
{
    return map->capacity == 0 ? 0 : find_slot(map, mark)->snapshot_id;
}

static tide_status grow(tide_mark_map *map, tide_error *err)
{
    tide_mark_map larger = {.capacity = map->capacity == 0 ? 64 : 2 * map->capacity};
    TIDE_ALLOC(larger.slots, larger.capacity, err);
    larger.count = map->count;
    for (size_t i = 0; i < map->capacity; i++)
        if (map->slots[i].snapshot_id != 0)
            *find_slot(&larger, &map->slots[i].mark) = map->slots[i];
    free(map->slots);
    *map = larger;
    return TIDE_OK;
}

tide_status tide_mark_map_put(tide_mark_map *map, const tide_digest128 *mark, int64_t snapshot_id,
                              tide_error *err)
{
    if (2 * (map->count + 1) > map->capacity)
        TIDE_TRY(grow(map, err));
    tide_mark_slot *slot = find_slot(map, mark);
    if (slot->snapshot_id == 0)
        map->count++;
    slot->mark = *mark;
    slot->snapshot_id = snapshot_id;
    return TIDE_OK;
}
