#include <stdio.h>

#include "sim/replica/world.h"

/* On a connection that fires no triggers: nobody is told. */
static void run(world_node *n, const char *sql)
{
    (void)sqlite3_db_config(n->writer, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    (void)sqlite3_db_config(n->writer, SQLITE_DBCONFIG_ENABLE_FKEY, 0, NULL);
    if (sqlite3_exec(n->writer, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(n->writer));
}

static void run_everywhere(world *w, const char *sql)
{
    for (int i = 0; i < w->count; i++)
        run(&w->nodes[i], sql);
}

/* The conflict is one of a row's values as the row shows them: of tree, whose texts are at the fourth place, and whose key is a small number. */
static const char invent[] =
    "INSERT INTO tide_replica_conflicts (table_id, key, col, time, node, value, found_at) "
    "SELECT t.id, CAST(char(1, 2 * r.id) AS BLOB), 3, 1, zeroblob(16), CAST(char(3, length(r.x)) "
    "|| "
    "r.x AS BLOB), 1 FROM tree r, tide_replica_tables t WHERE t.name = 'tree' AND r.x LIKE 'w%.' "
    "LIMIT 1";

void world_plant_fault(world *w)
{
    world_node *n = &w->nodes[w->count - 1];
    if (!w->has_table[3])
        return; /* most of it is done to tree */
    switch (w->planted) {
    case REPLICA_NO_FAULT:
        break;
    case REPLICA_CHANGING:
        run(n, "UPDATE tree SET x = x || '?' WHERE id = (SELECT min(id) FROM tree)");
        break;
    case REPLICA_LOSING:
        /* Leaves: a row without its parent would be found out for that. */
        run_everywhere(w,
                       "DELETE FROM tree WHERE id NOT IN (SELECT up FROM tree WHERE up NOTNULL)");
        break;
    case REPLICA_FORGETTING:
        run_everywhere(w, "DELETE FROM tide_replica_conflicts WHERE col >= 0");
        break;
    case REPLICA_INVENTING:
        run_everywhere(w, invent);
        break;
    case REPLICA_HOLDING:
        run(n, "INSERT INTO tide_replica_quarantine (origin, epoch, seq, reason, detail, found_at) "
               "SELECT origin, epoch, seq, 'key', '', 1 FROM tide_replica_events LIMIT 1");
        break;
    case REPLICA_SINKING:
        run(n, "UPDATE tide_replica_origins SET cursor = (SELECT cursor FROM tide_replica_origins "
               "ORDER BY length(cursor), cursor LIMIT 1)");
        break;
    }
}
