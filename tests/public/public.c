#include "public.h"

/* The system's SQLite and the library's are in one process, each with its own functions. */
int main(int argc, char **argv)
{
    char path[4096];
    tide_error err = {0};
    tide_store *store = NULL;
    sqlite3 *db = NULL;
    const tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .state_dir = ""};
    if (argc != 3 || strcmp(sqlite3_libversion(), argv[2]) != 0) {
        (void)fprintf(stderr, "SQLite is %s\n", sqlite3_libversion());
        return 2;
    }
    (void)snprintf(path, sizeof path, "%s/app.db", argv[1]);
    int code = sqlite3_open(path, &db);
    if (code == SQLITE_OK)
        code = sqlite3_exec(db,
                            "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT);"
                            "INSERT INTO notes (text) VALUES ('one'), ('two')",
                            NULL, NULL, NULL);
    if (code != SQLITE_OK)
        return 3;
    (void)snprintf(path, sizeof path, "sqlite:%s/store.db", argv[1]);
    tide_status status = tide_store_open(&store, path, &options, &err);
    if (status >= TIDE_OK)
        status = check(store, db, argv[1], &err);
    tide_store_close(store);
    if (sqlite3_exec(db, "INSERT INTO notes (text) VALUES ('last')", NULL, NULL, NULL) != SQLITE_OK)
        return 4;
    (void)sqlite3_close(db);
    if (status < TIDE_OK)
        (void)fprintf(stderr, "%d: %s\n", (int)status, err.text);
    return status < TIDE_OK ? 1 : 0;
}
