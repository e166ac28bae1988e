/* extension.c - tidemark_sqlite.so: a store's streams and sequences inside of any program's SQLite.
 *
 *     sqlite3 store.db ".load ./tidemark_sqlite" "SELECT * FROM otel_spans_local LIMIT 10"
 *
 * See vtab.h for what it brings. Nothing in here links against a SQLite: every call goes through the table that the one which
 * loads it hands over, so the two never meet. Reading beside a running agent is what WAL mode is for; loading changes nothing in the
 * file. */
#include <sqlite3ext.h>
SQLITE_EXTENSION_INIT1

#include <tidemark/env.h>
#include <tidemark/export.h>

#include "feed/vtab.h"

/* The store's tables are STRICT, which older ones cannot read. */
static const int VERSION_MIN = 3037000;

/* The name is made of the file's, by SQLite. */
TIDE_API int sqlite3_tidemarksqlite_init(sqlite3 *db, char **error,
                                         const sqlite3_api_routines *api);

int sqlite3_tidemarksqlite_init(sqlite3 *db, char **error, const sqlite3_api_routines *api)
{
    SQLITE_EXTENSION_INIT2(api)
    if (sqlite3_libversion_number() < VERSION_MIN) {
        *error = sqlite3_mprintf("tidemark_sqlite wants SQLite 3.37 or later, this is %s",
                                 sqlite3_libversion());
        return SQLITE_ERROR;
    }
    return tide_vtab_register(db, tide_env_system());
}
