#include "store/statement_map.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

static tide_statement_entry *find_slot(const tide_statement_map *map, const void *key)
{
    const uint64_t mixed = (uint64_t)(uintptr_t)key * UINT64_C(0x9E3779B97F4A7C15);
    size_t at = (size_t)(mixed >> 32) & (map->size - 1);
    while (map->entries[at].key && map->entries[at].key != key)
        at = (at + 1) & (map->size - 1);
    return &map->entries[at];
}

void *tide_statement_map_find(const tide_statement_map *map, const void *key)
{
    return map->size ? find_slot(map, key)->value : NULL;
}

static bool grow(tide_statement_map *map)
{
    tide_statement_map larger = {.size = map->size ? map->size * 2 : 64, .count = map->count};
    larger.entries = calloc(larger.size, sizeof larger.entries[0]);
    if (!larger.entries)
        return false;
    for (size_t i = 0; i < map->size; i++)
        if (map->entries[i].key)
            *find_slot(&larger, map->entries[i].key) = map->entries[i];
    free(map->entries);
    *map = larger;
    return true;
}

bool tide_statement_map_put(tide_statement_map *map, const void *key, void *value)
{
    if ((map->count + 1) * 2 > map->size && !grow(map))
        return false;
    tide_statement_entry *slot = find_slot(map, key);
    assert(!slot->key);
    *slot = (tide_statement_entry){.key = key, .value = value};
    map->count++;
    return true;
}

void tide_statement_map_done(tide_statement_map *map, void (*end_value)(void *value))
{
    for (size_t i = 0; i < map->size; i++)
        if (map->entries[i].key)
            end_value(map->entries[i].value);
    free(map->entries);
    *map = (tide_statement_map){0};
}
