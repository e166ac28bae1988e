#include "replica/found.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/list.h"

void tide_found_done(tide_found *found)
{
    free(found->keys);
    *found = (tide_found){.keys = NULL};
}

tide_status tide_found_keep(tide_found *found, tide_desk *desk, tide_view key, tide_error *err)
{
    TIDE_TRY(tide_list_room(&found->keys, found->count, sizeof *found->keys, TIDE_LIST_MAX, err));
    const char *copy = tide_arena_copy(&desk->arena, key.ptr, key.len);
    TIDE_NEED_MEMORY(copy, err);
    found->keys[found->count++] = tide_view_bytes(copy, key.len);
    return TIDE_OK;
}

tide_status tide_found_collect(tide_found *found, tide_desk *desk, const tide_table *table,
                               tide_foreign_query *query, tide_error *err)
{
    tide_sql_value key[TIDE_EVENT_KEY_MAX];
    tide_view encoded;
    TIDE_EACH(tide_foreign_step(query, err)) {
        for (int i = 0; i < table->key_count; i++) {
            const tide_sql_value value = tide_foreign_col(query);
            key[i] = tide_table_key_value(table, table->key[i], &value);
        }
        TIDE_TRY(tide_desk_key(&encoded, desk, key, table->key_count, err));
        TIDE_TRY(tide_found_keep(found, desk, encoded, err));
    }
    return TIDE_OK;
}
