#include "support/store_fixture.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "store/engine.h"
#include "support/clock/fair_clock.h"

tide_store_options store_test_options(store_test *t)
{
    return (tide_store_options){TIDE_STORE_OPTIONS_INIT, .env = &t->clock.env, .is_env_clock = true,
                                .state_dir = t->dir.path};
}

tide_store *store_test_open_with(store_test *t, tide_store_options options)
{
    assert(t);
    if (!options.env) {
        options.env = &t->clock.env;
        options.is_env_clock = true;
    }
    if (!options.state_dir)
        options.state_dir = t->dir.path;
    assert_true(t->other_count < STORE_TEST_STORES);
    tide_store *store = NULL;
    assert_ok_err(tide_store_open(&store, t->url, &options, &t->err), &t->err);
    t->others[t->other_count++] = store;
    return store;
}

tide_store *store_test_open(store_test *t)
{
    return store_test_open_with(t, store_test_options(t));
}

tide_store *store_test_open_real(store_test *t)
{
    /* As long as the default, on a machine that is as busy as this one. */
    const int64_t wait_us = fair_to_wall_ms(10000) * 1000;
    return store_test_open_with(t,
                                (tide_store_options){TIDE_STORE_OPTIONS_INIT,
                                                     .env = tide_env_system(), .wait_us = wait_us});
}

void store_test_close(store_test *t, tide_store **store)
{
    for (int i = 0; i < t->other_count; i++)
        if (t->others[i] == *store)
            t->others[i] = NULL;
    tide_store_closep(store);
}

static tide_status create_tables(tide_tx *tx, void *arg, tide_error *err)
{
    (void)arg;
    return tx->store->ops->script(tx, test_sql_migrations[0].text[tx->store->ops->engine], err);
}

void store_test_add_tables(tide_store *store)
{
    tide_error err;
    assert_ok_err(tide_store_write(store, create_tables, NULL, &err), &err);
}

/* Every case's database is a copy of one that has all tables already. */
static void make_database(store_test *t, bool is_superuser)
{
    static char template_name[PG_CLUSTER_NAME_MAX];
    pg_cluster *cluster = pg_cluster_for_test();
    if (!template_name[0]) {
        char name[PG_CLUSTER_NAME_MAX];
        assert_ok_err(pg_cluster_owned_database(cluster, NULL, name, &t->err), &t->err);
        pg_cluster_owner_url(cluster, name, t->url);
        tide_store_options options = store_test_options(t);
        tide_store *store = NULL;
        assert_ok_err(tide_store_open(&store, t->url, &options, &t->err), &t->err);
        store_test_add_tables(store);
        tide_store_close(store);
        memcpy(template_name, name, sizeof template_name);
    }
    char name[PG_CLUSTER_NAME_MAX];
    assert_ok_err(pg_cluster_owned_database(cluster, template_name, name, &t->err), &t->err);
    if (is_superuser)
        pg_cluster_url(cluster, name, t->url);
    else
        pg_cluster_owner_url(cluster, name, t->url);
}

static int set_up(void **state, tide_engine engine, bool is_superuser)
{
    store_test *t = calloc(1, sizeof *t);
    assert_non_null(t);
    *state = t;
    t->engine = engine;
    static uint64_t seed;
    virtual_env_init(&t->clock, ++seed);
    assert_ok_err(tempdir_make(&t->dir, &t->err), &t->err);
    tide_store_options options = store_test_options(t);
    if (engine == TIDE_ENGINE_SQLITE)
        tempdir_join(&t->dir, "store.db", t->url);
    else
        make_database(t, is_superuser);
    assert_ok_err(tide_store_open(&t->store, t->url, &options, &t->err), &t->err);
    if (engine == TIDE_ENGINE_SQLITE)
        store_test_add_tables(t->store);
    return 0;
}

int store_fixture_setup_sqlite(void **state)
{
    return set_up(state, TIDE_ENGINE_SQLITE, false);
}

int store_fixture_setup_postgres(void **state)
{
    return set_up(state, TIDE_ENGINE_POSTGRES, false);
}

int store_fixture_setup_superuser(void **state)
{
    return set_up(state, TIDE_ENGINE_POSTGRES, true);
}

int store_fixture_teardown(void **state)
{
    store_test *t = *state;
    for (int i = 0; i < t->other_count; i++)
        tide_store_close(t->others[i]);
    tide_store_close(t->store);
    TIDE_IGNORE(tempdir_remove(&t->dir, NULL));
    virtual_env_done(&t->clock);
    free(t);
    return 0;
}

tide_status add_numbered(tide_tx *tx, void *arg, tide_error *err)
{
    numbered_row *row = arg;
    TIDE_TRY(tide_sequence_declare(tx, "numbered", 1, &row->range, err));
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TEST_SQL_NUMBERED_ADD, err));
    tide_query_bind_text(query, "sequence", "numbered");
    tide_query_bind_text(query, "writer", row->writer);
    tide_query_bind_i64(query, "n", row->n);
    tide_query_bind_i64(query, "back", 0);
    return tide_query_defer(&query, err);
}

typedef struct tally {
    int64_t count;
    int64_t highest;
} tally;

static tide_status read_tally(tide_tx *tx, void *arg, tide_error *err)
{
    tally *found = arg;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TEST_SQL_NUMBERED_COUNT, err));
    TIDE_TRY(tide_query_one(query, err));
    found->count = tide_query_col_i64(query);
    found->highest = tide_query_col_i64(query);
    return TIDE_OK;
}

void count_numbered(tide_store *store, int64_t *count, int64_t *highest)
{
    tally found = {0};
    tide_error err;
    assert_ok_err(tide_store_read(store, read_tally, &found, &err), &err);
    *count = found.count;
    *highest = found.highest;
}
