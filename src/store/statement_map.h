/* statement_map.h - a connection's prepared statements, found by the catalogue entry they came
 * from.
 *
 * Keys are addresses of tide_sql entries, which live as long as the program. Grows by doubling;
 * never shrinks; a connection that has prepared every statement of every catalogue holds that many
 * entries.
 *
 * Threads: belongs to one connection. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <tidemark/export.h>

typedef struct tide_statement_entry {
    const void *key;
    void *value;
} tide_statement_entry;

typedef struct tide_statement_map {
    tide_statement_entry *entries; /* open addressing; key NULL: free */
    size_t size;                   /* a power of two, or 0 */
    size_t count;
} tide_statement_map;

/* The value, or NULL. */
void *tide_statement_map_find(const tide_statement_map *map, const void *key);

/* Add a key that is not there yet. False: no memory, nothing changed. */
TIDE_MUST_CHECK bool tide_statement_map_put(tide_statement_map *map, const void *key, void *value);

/* Free the table; each value is given to end_value first. */
void tide_statement_map_done(tide_statement_map *map, void (*end_value)(void *value));
