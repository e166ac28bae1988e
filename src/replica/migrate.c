/* migrate.c - out of the way of a migration: see node.h, tide_node_unhook. */
#include "replica/capture.h"
#include "replica/node_parts.h"

typedef struct unhooking {
    tide_foreign_tx *tx;
    bool is_folded;
} unhooking;

static tide_status look(void *arg, const tide_table *table, tide_error *err)
{
    unhooking *u = arg;
    bool is_folded = false;
    TIDE_TRY(tide_capture_is_folded(u->tx, table, &is_folded, err));
    u->is_folded = u->is_folded && is_folded;
    return TIDE_OK;
}

static tide_status drop(void *arg, const tide_table *table, tide_error *err)
{
    const unhooking *u = arg;
    TIDE_TRY(tide_capture_unhook(u->tx, table, err));
    return tide_capture_want_scan(u->tx, table->id, err);
}

static tide_status unhook(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    unhooking *u = arg;
    *u = (unhooking){.tx = tx, .is_folded = true};
    TIDE_TRY(tide_table_list(tx, look, u, err));
    return u->is_folded ? tide_table_list(tx, drop, u, err) : TIDE_OK;
}

tide_status tide_node_unhook(tide_node *node, tide_error *err)
{
    enum { TURNS_MAX = 100 };
    unhooking u = {.is_folded = false};
    for (int turn = 0; !u.is_folded && turn < TURNS_MAX; turn++) {
        TIDE_TRY(tide_capture_fold_all(node, err));
        TIDE_TRY(tide_foreign_write(node->file, unhook, &u, err));
    }
    return u.is_folded ? TIDE_OK
                       : tide_fail(err, TIDE_E_BUSY, "the tables are written to without a pause");
}
