#include <tidemark/lake.h>

#include "public.h"

static tide_status count_catalog(void *arg, const tide_lake_catalog *catalog, tide_error *err)
{
    (void)catalog;
    (void)err;
    ++*(int *)arg;
    return TIDE_OK;
}

tide_status check(tide_store *store, sqlite3 *db, const char *dir, tide_error *err)
{
    char data[4096];
    int count = 0;
    bool was_there = true;
    tide_lake *lake = NULL;
    tide_lake_checked checked = {0};
    (void)db;
    (void)snprintf(data, sizeof data, "%s/data", dir);
    WANT(tide_lake_open(&lake, store, NULL) == TIDE_E_NOT_FOUND);
    DO(tide_lake_init(store, data, &was_there, err));
    WANT(!was_there);
    DO(tide_lake_open(&lake, store, err));
    WANT(strncmp(tide_lake_data_dir(lake), "/", 1) == 0);
    DO(tide_lake_list_catalogs(lake, count_catalog, &count, err));
    DO(tide_lake_check_history(lake, NULL, NULL, NULL, &checked, err));
    WANT(checked.findings == 0 && checked.catalogs == count);
    tide_lake_close(lake);
    return TIDE_OK;
}
