/* repair_parts.h - what repair_row.c (telling of rows) and repair_merge.c (taking over) share: see repair.h. */
#pragma once

#include "replica/desk.h"
#include "replica/repair.h"

enum { TIDE_REPAIR_VALUES_MAX = 1 << 30, TIDE_REPAIR_CLOCK_MAX = 1 << 24 };

/* One call: fold first, then work on the rows, in one transaction. */
typedef struct tide_repair_call {
    tide_node *node;
    const char *table;
    uint64_t schema;
    const tide_view *keys;
    int count;
    size_t max_bytes;
    tide_row_states *out;
    const tide_row_states *theirs;
    tide_repaired repaired;
    bool is_behind;
} tide_repair_call;

/* Run fn until it has not found itself behind (is_behind: there is still to fold). */
TIDE_MUST_CHECK tide_status tide_repair_run(tide_repair_call *call, tide_foreign_fn *fn,
                                            tide_error *err);

/* TIDE_E_NOT_FOUND, TIDE_E_CONFLICT: another schema. */
TIDE_MUST_CHECK tide_status tide_repair_find_table(const tide_table **out, const tide_desk *desk,
                                                   const tide_repair_call *call, tide_error *err);
TIDE_MUST_CHECK tide_status tide_repair_check_key(const tide_table *table, tide_view key,
                                                  tide_error *err);
/* A row that its clock does not know: its values, in memory of the desk. NULL: there is none. */
TIDE_MUST_CHECK tide_status tide_repair_find_loose(tide_sql_value **out, tide_desk *desk,
                                                   const tide_desk_row *row, tide_error *err);
/* Does the row stand there with other values than were recorded? */
TIDE_MUST_CHECK tide_status tide_repair_look_altered(bool *out, tide_desk *desk,
                                                     const tide_desk_row *row, tide_error *err);
bool tide_repair_is_key_column(const tide_table *table, int column);
