#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "replica/range.h"

enum { ROW_BYTES_MAX = 1 << 30 };

static tide_status digest_table(tide_table_digest *out, tide_foreign_tx *tx,
                                const tide_table *table, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(ROW_BYTES_MAX);
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    *out = (tide_table_digest){.rows = 0};
    (void)snprintf(out->table, sizeof out->table, "%s", table->name);
    TIDE_TRY(tide_table_query(&query, tx, table, TIDE_TABLE_ROW_WALK, err));
    for (;;) {
        uint8_t row[16] = {0};
        TIDE_OK_IF_NONE(tide_range_next(row, NULL, &bytes, query, table, err));
        tide_range_add(out->digest, row);
        out->rows++;
    }
}

typedef struct digests_call {
    tide_foreign_tx *tx;
    tide_table_digest *found;
    size_t count;
} digests_call;

static void digests_call_done(digests_call *call)
{
    free(call->found);
}

static tide_status keep_digest(void *arg, const tide_table *table, tide_error *err)
{
    digests_call *call = arg;
    TIDE_TRY(tide_list_room(&call->found, (int64_t)call->count, sizeof *call->found, TIDE_LIST_MAX,
                            err));
    TIDE_TRY(digest_table(&call->found[call->count], call->tx, table, err));
    call->count++;
    return TIDE_OK;
}

static tide_status keep_digests(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    digests_call *call = arg;
    call->tx = tx;
    call->count = 0; /* a closure may run again */
    return tide_table_list(tx, keep_digest, call, err);
}

static int compare_names(const void *a, const void *b)
{
    const tide_table_digest *x = a;
    const tide_table_digest *y = b;
    return strcmp(x->table, y->table);
}

/* By name: nodes have tracked their tables in different orders, and whoever compares texts shall find equal what is. */
tide_status tide_node_digests(tide_node *node, tide_digest_fn *fn, void *arg, tide_error *err)
{
    TIDE_CLEANUP(digests_call_done) digests_call call = {.found = NULL};
    int64_t events = 0;
    bool more = true;
    while (more)
        TIDE_TRY(tide_node_fold(node, &events, &more, err));
    TIDE_TRY(tide_foreign_read(tide_node_file(node), keep_digests, &call, err));
    if (call.count > 0)
        qsort(call.found, call.count, sizeof *call.found, compare_names);
    for (size_t i = 0; i < call.count; i++)
        TIDE_TRY(fn(arg, &call.found[i], err));
    return TIDE_OK;
}
