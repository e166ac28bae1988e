/* Migrations: numbered, checksummed, forward only, safe when two start at once. */
#include "support/store_fixture.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "store/engine.h"
#include "support/clock/fair_clock.h"
#include "tidemark_sql.h"

enum { MIGRATION_MAX = 32 };

typedef struct opener {
    store_test *t;
    const char *url;
    tide_store *store;
    tide_status status;
    tide_error err;
    pthread_t thread;
} opener;

static void *open_store(void *arg)
{
    opener *o = arg;
    tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .env = tide_env_system(),
                                  .wait_us = fair_to_wall_ms(10000) * 1000,
                                  .state_dir = o->t->dir.path};
    o->status = tide_store_open(&o->store, o->url, &options, &o->err);
    return NULL;
}

/* A place where no store has been yet. */
static void find_empty_place(store_test *t, char out[PG_CLUSTER_URL_MAX])
{
    static int count;
    char name[PG_CLUSTER_NAME_MAX];
    if (t->engine == TIDE_ENGINE_SQLITE) {
        (void)snprintf(name, sizeof name, "empty%d.db", count++);
        tempdir_join(&t->dir, name, out);
        return;
    }
    pg_cluster *cluster = pg_cluster_for_test();
    assert_ok_err(pg_cluster_fresh_database(cluster, NULL, name, &t->err), &t->err);
    pg_cluster_url(cluster, name, out);
}

static void many_who_create_one_store_at_once_all_succeed(void **state)
{
    store_test *t = *state;
    char url[PG_CLUSTER_URL_MAX];
    for (int round = 0; round < 5; round++) {
        find_empty_place(t, url);
        opener openers[8];
        for (int i = 0; i < 8; i++) {
            openers[i] = (opener){.t = t, .url = url};
            assert_int_equal(0, pthread_create(&openers[i].thread, NULL, open_store, &openers[i]));
        }
        tide_identity first = {.session_id = ""};
        for (int i = 0; i < 8; i++) {
            assert_int_equal(0, pthread_join(openers[i].thread, NULL));
            assert_ok_err(openers[i].status, &openers[i].err);
            tide_identity identity;
            tide_store_identity(openers[i].store, &identity);
            if (i == 0)
                first = identity;
            assert_string_equal(first.session_id, identity.session_id);
            assert_int_equal(1, identity.epoch);
        }
        for (int i = 0; i < 8; i++)
            tide_store_close(openers[i].store);
    }
}

static tide_status run_script(tide_tx *tx, void *arg, tide_error *err)
{
    return tx->store->ops->script(tx, arg, err);
}

static tide_status reopen(store_test *t, tide_store_mode mode)
{
    tide_store_options options = store_test_options(t);
    options.mode = mode;
    tide_store *store = NULL;
    const tide_status status = tide_store_open(&store, t->url, &options, &t->err);
    tide_store_close(store);
    return status;
}

static void a_schema_newer_than_the_program_is_refused(void **state)
{
    store_test *t = *state;
    assert_ok_err(
        tide_store_write(t->store, run_script,
                         "INSERT INTO schema_version (version, number, name, checksum, applied_at) "
                         "VALUES ('99.0.0', 99, 'future', 'x', '2030-01-01 00:00:00')",
                         &t->err),
        &t->err);
    assert_status(TIDE_E_NEWER, reopen(t, TIDE_STORE_CREATE));
    assert_contains(t->err.text, "99.0.0");
    assert_status(TIDE_E_NEWER, reopen(t, TIDE_STORE_AS_IS));
}

/* Clients may list versions of their own, without a number; those are not ours to judge. */
static void a_version_without_a_number_is_left_alone(void **state)
{
    store_test *t = *state;
    assert_ok_err(
        tide_store_write(t->store, run_script,
                         "INSERT INTO schema_version (version, name, checksum, applied_at) "
                         "VALUES ('app-7', 'theirs', '', '2030-01-01 00:00:00')",
                         &t->err),
        &t->err);
    assert_ok_err(reopen(t, TIDE_STORE_CREATE), &t->err);
}

static void a_migration_with_another_text_is_refused(void **state)
{
    store_test *t = *state;
    assert_ok(tide_store_write(t->store, run_script,
                               "UPDATE schema_version SET checksum = 'altered' WHERE number = 1",
                               &t->err));
    assert_status(TIDE_E_DAMAGED, reopen(t, TIDE_STORE_CREATE));
}

static void looking_does_not_create(void **state)
{
    store_test *t = *state;
    char url[PG_CLUSTER_URL_MAX];
    find_empty_place(t, url);
    (void)snprintf(t->url, sizeof t->url, "%s", url);
    assert_status(TIDE_E_NOT_FOUND, reopen(t, TIDE_STORE_EXISTING));
    assert_status(TIDE_E_NOT_FOUND, reopen(t, TIDE_STORE_AS_IS));
    if (t->engine == TIDE_ENGINE_SQLITE)
        assert_int_not_equal(0, access(url, F_OK));
    assert_ok_err(reopen(t, TIDE_STORE_CREATE), &t->err);
    assert_ok(reopen(t, TIDE_STORE_EXISTING));
}

/* Steps apply in order, once, and all or none of them. */
static void a_failing_step_leaves_the_schema_as_it_was(void **state)
{
    store_test *t = *state;
    tide_migration steps[MIGRATION_MAX + 3];
    int known = 0;
    for (; tide_sql_migrations[known].number > 0; known++) {
        assert_true(known < MIGRATION_MAX);
        steps[known] = tide_sql_migrations[known];
    }
    steps[known] = (tide_migration){
        .number = known + 1,
        .version = "t1",
        .name = "good",
        .text = {"CREATE TABLE extra (a INTEGER)", "CREATE TABLE extra (a bigint)"}};
    steps[known + 1] = (tide_migration){.number = known + 2,
                                        .version = "t2",
                                        .name = "bad",
                                        .text = {"CREATE TABLE", "CREATE TABLE"}};
    steps[known + 2] = (tide_migration){.number = 0};
    assert_status(TIDE_E_FAILED, tide_store_migrate(t->store, steps, &t->err));
    assert_contains(t->err.text, "(bad)");
    assert_ok_err(reopen(t, TIDE_STORE_CREATE), &t->err);
    steps[known + 1] = (tide_migration){.number = 0};
    assert_ok_err(tide_store_migrate(t->store, steps, &t->err), &t->err);
    assert_ok_err(tide_store_migrate(t->store, steps, &t->err), &t->err);
    assert_status(TIDE_E_NEWER, reopen(t, TIDE_STORE_CREATE));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(many_who_create_one_store_at_once_all_succeed),
        STORE_CASE(a_schema_newer_than_the_program_is_refused),
        STORE_CASE(a_version_without_a_number_is_left_alone),
        STORE_CASE(a_migration_with_another_text_is_refused),
        STORE_CASE(looking_does_not_create),
        STORE_CASE(a_failing_step_leaves_the_schema_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
