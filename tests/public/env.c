#include <tidemark/env.h>

#include "public.h"

/* An application's own clock, an hour ahead. */
static int64_t ahead_us(tide_env *env)
{
    (void)env;
    return tide_env_system()->wall_us(tide_env_system()) + INT64_C(3600000000);
}

static tide_status read_now(tide_tx *tx, void *arg, tide_error *err)
{
    return tide_tx_now(tx, arg, err);
}

tide_status check(tide_store *store, sqlite3 *db, const char *dir, tide_error *err)
{
    char path[4096];
    int64_t now_us = 0;
    tide_store *other = NULL;
    tide_env env = *tide_env_system();
    env.wall_us = ahead_us;
    const tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .env = &env, .state_dir = ""};
    (void)store;
    (void)db;
    (void)snprintf(path, sizeof path, "%s/ahead.db", dir);
    DO(tide_store_open(&other, path, &options, err));
    DO(tide_store_read(other, read_now, &now_us, err));
    tide_store_close(other);
    WANT(now_us > tide_env_system()->wall_us(tide_env_system()) + INT64_C(3000000000));
    return TIDE_OK;
}
