#include <tidemark/replica.h>

#include "public.h"

tide_status check(tide_store *store, sqlite3 *db, const char *dir, tide_error *err)
{
    char path[4096];
    int64_t rows = 0;
    int64_t events = 0;
    tide_replica *replica = NULL;
    tide_replica_state state;
    (void)store;
    (void)snprintf(path, sizeof path, "%s/app.db", dir);
    tide_replica_options options = {TIDE_REPLICA_OPTIONS_INIT, .path = path, .state_dir = dir};
    tide_replica_options unsized = options;
    unsized.size = 0;
    WANT(tide_replica_open(&replica, &unsized, NULL) == TIDE_E_INVALID);
    DO(tide_replica_open(&replica, &options, err));
    DO(tide_replica_status(replica, &state, err));
    WANT(state.epoch == 0);
    DO(tide_replica_track(replica, "notes", &rows, err));
    WANT(rows == 2);
    DO(tide_replica_fold(replica, &events, err));
    /* The application writes by its own SQLite. */
    WANT(sqlite3_exec(db, "INSERT INTO notes (text) VALUES ('three')", NULL, NULL, NULL) ==
         SQLITE_OK);
    DO(tide_replica_fold(replica, &events, err));
    WANT(events == 1);
    DO(tide_replica_status(replica, &state, err));
    WANT(state.epoch > 0 && state.origins == 1 && strlen(state.node_id) == 36);
    WANT(tide_replica_untrack(replica, "notes", err) == TIDE_OK);
    tide_replica_close(replica);
    return TIDE_OK;
}
