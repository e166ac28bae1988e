/* Failover, promotion, a primary that returns, a standby that is away: with real servers. */
#include "support/store_fixture.h"

#include <libpq-fe.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "store/engine.h"
#include "store/identity.h"
#include "support/postgres/pg_bouncer.h"

typedef struct pair {
    pg_cluster primary;
    pg_cluster standby;
    tempdir state;
    tide_error err;
} pair;

static pair p;

static int start_pair(void **state)
{
    (void)state;
    assert_ok_err(pg_cluster_start(&p.primary, &(pg_cluster_options){.is_copy = true}, &p.err),
                  &p.err);
    assert_ok_err(pg_cluster_start_standby(&p.standby, &p.primary,
                                           &(pg_cluster_options){.is_copy = true}, &p.err),
                  &p.err);
    assert_ok(tempdir_make(&p.state, &p.err));
    return 0;
}

static int stop_pair(void **state)
{
    (void)state;
    pg_cluster_stop(&p.standby);
    pg_cluster_stop(&p.primary);
    TIDE_IGNORE(tempdir_remove(&p.state, &p.err));
    return 0;
}

static tide_status open_at(tide_store **out, const char *url, bool has_state)
{
    const tide_store_options options = {TIDE_STORE_OPTIONS_INIT,
                                        .state_dir = has_state ? p.state.path : ""};
    return tide_store_open(out, url, &options, &p.err);
}

/* Of the calls that must end; those before them have the time that a busy machine needs. */
static void hurry(tide_store *store)
{
    store->options.timeout_us = 3 * SECOND_US;
}

static tide_store *open_cluster(const pg_cluster *cluster)
{
    char url[PG_CLUSTER_URL_MAX];
    tide_store *store = NULL;
    pg_cluster_url(cluster, "postgres", url);
    assert_ok_err(open_at(&store, url, true), &p.err);
    return store;
}

static tide_status take(tide_store *store, int64_t *number)
{
    tide_sequence_range range = {0};
    const tide_status status = tide_sequence_next(store, "orders", 1, &range, NULL, &p.err);
    *number = range.first;
    return status;
}

static int64_t must_take(tide_store *store)
{
    int64_t number = 0;
    assert_ok_err(take(store, &number), &p.err);
    return number;
}

static int64_t epoch_of(tide_store *store)
{
    tide_identity identity;
    tide_store_identity(store, &identity);
    return identity.epoch;
}

static void wait_query(const pg_cluster *cluster, const char *sql, const char *wanted)
{
    char found[64] = "";
    for (int i = 0; i < 3000 && strcmp(found, wanted) != 0; i++) {
        assert_ok_err(pg_cluster_query(cluster, sql, found, sizeof found, &p.err), &p.err);
        if (strcmp(found, wanted) != 0)
            tide_env_system()->sleep_us(tide_env_system(), 10000);
    }
    assert_string_equal(wanted, found);
}

static void wait_replayed(void)
{
    char sql[128];
    char position[32];
    assert_ok(pg_cluster_query(&p.primary, "SELECT pg_current_wal_insert_lsn()", position,
                               sizeof position, &p.err));
    (void)snprintf(sql, sizeof sql, "SELECT pg_last_wal_replay_lsn() >= '%s'", position);
    wait_query(&p.standby, sql, "t");
}

static void write_pair_url(char out[PG_CLUSTER_URL_MAX])
{
    (void)snprintf(out, PG_CLUSTER_URL_MAX, "postgres://postgres@/postgres?host=%s,%s&port=%d,%d",
                   p.standby.dir.path, p.primary.dir.path, p.standby.port, p.primary.port);
}

/* The identity of a connection is not that of the moment it was made. */
static void a_standby_promoted_under_an_open_connection_begins_an_epoch(void **state)
{
    (void)state;
    char url[PG_CLUSTER_URL_MAX];
    tide_store *writer = open_cluster(&p.primary);
    for (int i = 0; i < 3; i++)
        must_take(writer);
    wait_replayed();
    write_pair_url(url);
    tide_store *reader = NULL;
    int64_t number = 0;
    assert_ok_err(open_at(&reader, url, false), &p.err);
    tide_sequence shown;
    assert_ok_err(tide_sequence_show(reader, "orders", &shown, &p.err), &p.err);
    assert_int_equal(3, shown.last);
    tide_store *lone = open_cluster(&p.standby);
    assert_status(TIDE_E_UNAVAILABLE, take(lone, &number));
    assert_contains(p.err.text, "read-only standby");
    tide_store_close(lone);

    assert_ok_err(pg_cluster_crash(&p.primary, &p.err), &p.err);
    assert_ok_err(pg_cluster_promote(&p.standby, &p.err), &p.err);
    assert_int_equal(4, must_take(reader));
    assert_int_equal(2, epoch_of(reader));
    assert_int_equal(1, tide_store_epoch_changes(reader));
    tide_store_close(reader);
    tide_store_close(writer);
}

/* libpq takes the first host of a list, and a write looks for the primary among the others. */
static void a_write_finds_the_primary_in_a_list_of_hosts(void **state)
{
    (void)state;
    char url[PG_CLUSTER_URL_MAX];
    tide_store *writer = open_cluster(&p.primary);
    must_take(writer);
    wait_replayed();
    write_pair_url(url); /* the standby first */
    tide_store *store = NULL;
    assert_ok_err(open_at(&store, url, false), &p.err);
    assert_int_equal(2, must_take(store));
    assert_int_equal(3, must_take(store));
    tide_store_close(store);
    tide_store_close(writer);
}

/* The primary becomes a standby of the promoted one, in good order. */
static void switch_over(void)
{
    char directory[TEMPDIR_PATH_MAX];
    char sql[TEMPDIR_PATH_MAX + 64];
    assert_ok(
        pg_cluster_query(&p.primary, "SHOW data_directory", directory, sizeof directory, &p.err));
    (void)snprintf(sql, sizeof sql, "COPY (SELECT '') TO '%s/standby.signal'", directory);
    assert_ok_err(pg_cluster_query(&p.primary, sql, NULL, 0, &p.err), &p.err);
    assert_ok_err(pg_cluster_shutdown(&p.primary, &p.err), &p.err);
    assert_ok_err(pg_cluster_promote(&p.standby, &p.err), &p.err);
    assert_ok_err(pg_cluster_restart(&p.primary, &p.err), &p.err);
}

/* A pooler reports the parameters of the server that it reached first, a standby among them. */
static void reach(const pg_bouncer *pooler)
{
    char url[PG_CLUSTER_URL_MAX];
    pg_bouncer_url(pooler, "postgres", url);
    PGconn *client = PQconnectdb(url);
    PGresult *result = PQexec(client, "SELECT 1");
    assert_int_equal(PGRES_TUPLES_OK, PQresultStatus(result));
    PQclear(result);
    PQfinish(client);
}

static void write_across_a_switchover(const char *settings, const char *more)
{
    char url[PG_CLUSTER_URL_MAX];
    pg_bouncer old = {0};
    pg_bouncer new = {0};
    assert_ok_err(pg_bouncer_start(&old, &p.primary, settings, &p.err), &p.err);
    assert_ok_err(pg_bouncer_start(&new, &p.standby, settings, &p.err), &p.err);
    reach(&new);
    (void)snprintf(url, sizeof url, "postgres://postgres@/postgres?host=%s,%s&port=%d,%d%s",
                   old.dir.path, new.dir.path, old.port, new.port, more);
    tide_store *store = NULL;
    assert_ok_err(open_at(&store, url, false), &p.err);
    must_take(store);
    wait_replayed();
    switch_over();
    assert_int_equal(2, must_take(store));
    assert_int_equal(2, epoch_of(store));
    tide_store_close(store);
    assert_ok_err(open_at(&store, url, false), &p.err);
    assert_int_equal(3, must_take(store));
    tide_store_close(store);
    pg_bouncer_stop(&new);
    pg_bouncer_stop(&old);
}

/* The poolers of both servers keep their clients' connections across a switchover. */
static void a_write_leaves_the_pooler_of_a_demoted_server(void **state)
{
    (void)state;
    write_across_a_switchover("", "");
}

static void a_primary_is_found_whatever_poolers_report(void **state)
{
    (void)state;
    write_across_a_switchover("pool_mode = session\ndefault_pool_size = 20",
                              "&target_session_attrs=read-write");
}

/* The URL asks for a primary, and there is none. */
static void a_standby_does_not_serve_a_url_that_asks_for_a_primary(void **state)
{
    (void)state;
    char url[PG_CLUSTER_URL_MAX];
    tide_store_close(open_cluster(&p.primary));
    wait_replayed();
    (void)snprintf(url, sizeof url,
                   "postgres://postgres@/postgres?host=%s&port=%d&target_session_attrs=primary",
                   p.standby.dir.path, p.standby.port);
    tide_store *store = NULL;
    assert_status(TIDE_E_UNAVAILABLE, open_at(&store, url, false));
    assert_contains(p.err.text, "read-only standby");
}

/* A process that knows epoch 2 does not go back to a server that has only epoch 1. */
static void a_primary_that_returns_is_refused(void **state)
{
    (void)state;
    tide_store *store = open_cluster(&p.primary);
    must_take(store);
    wait_replayed();
    tide_store_close(store);
    assert_ok_err(pg_cluster_crash(&p.primary, &p.err), &p.err);
    assert_ok_err(pg_cluster_promote(&p.standby, &p.err), &p.err);
    char url[PG_CLUSTER_URL_MAX];
    write_pair_url(url);
    assert_ok_err(open_at(&store, url, true), &p.err);
    must_take(store);
    assert_int_equal(2, epoch_of(store));

    /* The process itself, whose connections break. */
    assert_ok_err(pg_cluster_shutdown(&p.standby, &p.err), &p.err);
    assert_ok_err(pg_cluster_restart(&p.primary, &p.err), &p.err);
    int64_t number = 0;
    assert_status(TIDE_E_MISMATCH, take(store, &number));
    assert_contains(p.err.text, "epoch 1");
    assert_contains(p.err.text, "epoch 2");
    assert_contains(p.err.text, "tidemark store new-epoch");
    tide_sequence shown;
    assert_status(TIDE_E_MISMATCH, tide_sequence_show(store, "orders", &shown, &p.err));
    tide_store_close(store);

    /* A fresh process of the same host. */
    tide_store *fresh = NULL;
    pg_cluster_url(&p.primary, "postgres", url);
    assert_status(TIDE_E_MISMATCH, open_at(&fresh, url, true));

    /* In a list of hosts it is passed over, wherever it is named. */
    assert_ok_err(pg_cluster_restart(&p.standby, &p.err), &p.err);
    write_pair_url(url);
    assert_ok_err(open_at(&fresh, url, true), &p.err);
    must_take(fresh);
    assert_int_equal(2, epoch_of(fresh));
    tide_store_close(fresh);
    assert_ok_err(pg_cluster_shutdown(&p.standby, &p.err), &p.err);
    pg_cluster_url(&p.primary, "postgres", url);

    /* The way out: an epoch above, which processes that know the other accept. */
    const tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .state_dir = p.state.path,
                                        .is_mismatch_allowed = true};
    tide_identity raised;
    assert_ok_err(tide_store_open(&fresh, url, &options, &p.err), &p.err);
    assert_ok_err(
        tide_identity_raise(fresh, "operator", "the new primary is lost", &raised, &p.err), &p.err);
    assert_int_equal(3, raised.epoch);
    tide_store_close(fresh);
    fresh = open_cluster(&p.primary);
    must_take(fresh);
    tide_store_close(fresh);
}

/* A caller's position is proof as well: the process has not seen epoch 2 itself, and refuses from then on. */
static void an_epoch_that_a_caller_presents_counts_as_seen(void **state)
{
    (void)state;
    tide_store *store = open_cluster(&p.primary);
    must_take(store);
    tide_identity seen;
    tide_store_identity(store, &seen);
    tide_identity stranger = seen;
    stranger.epoch = 9;
    memset(stranger.session_id, '0', 8);
    tide_identity_presented(store, &stranger);
    must_take(store); /* of another store: proves nothing */
    seen.epoch = 2;
    memcpy(seen.epoch_id, "11111111-2222-4333-8444-555555555555", sizeof seen.epoch_id);
    tide_identity_presented(store, &seen);
    /* Far above the store's own: callers cannot use up its epochs step by step. */
    tide_identity far = seen;
    far.epoch = seen.epoch + TIDE_IDENTITY_PRESENTED_MAX;
    tide_identity_presented(store, &far);
    int64_t number = 0;
    assert_status(TIDE_E_MISMATCH, take(store, &number));
    assert_contains(p.err.text, "epoch 2 (11111111-");
    tide_sequence shown;
    assert_status(TIDE_E_MISMATCH, tide_sequence_show(store, "orders", &shown, &p.err));

    tide_store *fresh = NULL;
    char url[PG_CLUSTER_URL_MAX];
    pg_cluster_url(&p.primary, "postgres", url);
    assert_status(TIDE_E_MISMATCH, open_at(&fresh, url, true));
    const tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .state_dir = p.state.path,
                                        .is_mismatch_allowed = true};
    assert_ok_err(tide_store_open(&fresh, url, &options, &p.err), &p.err);
    tide_identity missing;
    assert_true(tide_identity_missing(fresh, &missing));
    assert_int_equal(2, missing.epoch);
    tide_identity raised;
    assert_ok_err(tide_identity_raise(fresh, "operator", "a test", &raised, &p.err), &p.err);
    assert_int_equal(3, raised.epoch);
    assert_false(tide_identity_missing(fresh, &missing));
    tide_store_close(fresh);
    must_take(store);
    assert_int_equal(3, epoch_of(store));
    tide_store_close(store);
}

/* Files of the same server, put back to an earlier state: neither timeline nor epoch change. */
static void a_server_restored_from_a_copy_begins_an_epoch(void **state)
{
    (void)state;
    tide_store *store = open_cluster(&p.primary);
    must_take(store);
    assert_ok_err(pg_cluster_shutdown(&p.primary, &p.err), &p.err);
    char command[3 * TEMPDIR_PATH_MAX];
    (void)snprintf(command, sizeof command, "cp -a %s/data %s/copy", p.primary.dir.path,
                   p.primary.dir.path);
    const char *const copy[] = {"/bin/sh", "-c", command, NULL};
    TIDE_CLEANUP(proc_result_done) proc_result copied = {0};
    assert_ok(proc_run(&copied, &(proc_options){.argv = copy}, PG_CLUSTER_DEADLINE_MS, &p.err));
    assert_ok_err(pg_cluster_restart(&p.primary, &p.err), &p.err);
    for (int i = 0; i < 20; i++)
        must_take(store);
    assert_int_equal(1, epoch_of(store));
    assert_ok_err(pg_cluster_crash(&p.primary, &p.err), &p.err);
    (void)snprintf(command, sizeof command, "cd %s && rm -rf data && mv copy data",
                   p.primary.dir.path);
    TIDE_CLEANUP(proc_result_done) proc_result restored = {0};
    assert_ok(proc_run(&restored, &(proc_options){.argv = copy}, PG_CLUSTER_DEADLINE_MS, &p.err));
    assert_ok_err(pg_cluster_restart(&p.primary, &p.err), &p.err);
    assert_int_equal(2, must_take(store));
    assert_int_equal(2, epoch_of(store));
    tide_store_close(store);
}

/* Another process begins an epoch: the next transaction knows. */
static void an_epoch_begun_elsewhere_is_known_in_the_next_transaction(void **state)
{
    (void)state;
    tide_store *store = open_cluster(&p.primary);
    tide_store *other = open_cluster(&p.primary);
    must_take(store);
    assert_ok_err(tide_identity_raise(other, "operator", "a test", NULL, &p.err), &p.err);
    must_take(store);
    assert_int_equal(2, epoch_of(store));
    tide_store_close(other);
    tide_store_close(store);
}

/* The address leads to another store. */
static void another_store_at_the_same_address_is_refused(void **state)
{
    (void)state;
    tide_store *store = open_cluster(&p.primary);
    must_take(store);
    assert_ok(pg_cluster_query(&p.primary,
                               "DROP SCHEMA public CASCADE; CREATE SCHEMA public; "
                               "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                               "WHERE pid <> pg_backend_pid() AND datname = 'postgres'",
                               NULL, 0, &p.err));
    int64_t number = 0;
    assert_status(TIDE_E_MISMATCH, take(store, &number));
    tide_store *new = NULL;
    char url[PG_CLUSTER_URL_MAX];
    pg_cluster_url(&p.primary, "postgres", url);
    assert_ok_err(open_at(&new, url, false), &p.err);
    assert_status(TIDE_E_MISMATCH, take(store, &number));
    assert_contains(p.err.text, "another store");
    tide_store_close(new);
    tide_store_close(store);
}

static void require_standby(const char *setting)
{
    if (setting)
        assert_ok(pg_cluster_query(&p.primary, setting, NULL, 0, &p.err));
    assert_ok_err(pg_cluster_require_standby(&p.primary, "standby", &p.err), &p.err);
    wait_query(&p.primary, "SELECT sync_state FROM pg_stat_replication", "sync");
}

static const char our_backends[] =
    "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tidemark'";

/* No acknowledgement, an end in time, the reason, and no session left behind. */
static void a_required_standby_that_is_away_ends_calls_in_time(void **state)
{
    (void)state;
    char url[PG_CLUSTER_URL_MAX];
    tide_store *store = NULL;
    pg_cluster_url(&p.primary, "postgres", url);
    assert_ok_err(open_at(&store, url, true), &p.err);
    must_take(store);
    require_standby(NULL);
    must_take(store);
    assert_ok_err(pg_cluster_shutdown(&p.standby, &p.err), &p.err);
    hurry(store);
    int64_t number = 0;
    assert_status(TIDE_E_OUTCOME_UNKNOWN, take(store, &number));
    assert_contains(p.err.text, "waiting for synchronous standby");
    tide_sequence shown;
    assert_status(TIDE_E_TIMEOUT, tide_sequence_show(store, "orders", &shown, &p.err));
    assert_contains(p.err.text, "waiting for synchronous standby");
    const tide_task_new task = {TIDE_TASK_NEW_INIT, .task_id = "with-an-id", .title = "t"};
    char id[TIDE_WORK_ID_MAX + 1];
    assert_status(TIDE_E_UNAVAILABLE, tide_task_create(store, &task, id, &p.err));
    assert_contains(p.err.text, "repeating with the same id is safe");
    tide_store_close(store);
    wait_query(&p.primary, our_backends, "0");
    assert_ok_err(pg_cluster_restart(&p.standby, &p.err), &p.err);
    assert_ok_err(open_at(&store, url, true), &p.err);
    must_take(store);
    tide_store_close(store);
}

typedef struct caller {
    tide_store *store;
    const char *task_id; /* NULL: made by the call */
    bool is_sequence;
    tide_status status;
    tide_error err;
    pthread_t thread;
} caller;

static void *call_store(void *arg)
{
    caller *self = arg;
    const tide_task_new task = {TIDE_TASK_NEW_INIT, .task_id = self->task_id, .title = "t"};
    char id[TIDE_WORK_ID_MAX + 1];
    tide_sequence_range range;
    self->status = self->is_sequence
                       ? tide_sequence_next(self->store, "orders", 1, &range, NULL, &self->err)
                       : tide_task_create(self->store, &task, id, &self->err);
    return NULL;
}

/* The backend ends while its COMMIT, which has happened, waits for the standby: no answer comes. */
static void lose_answer(caller *c)
{
    assert_ok_err(pg_cluster_require_standby(&p.primary, "away", &p.err), &p.err);
    wait_query(&p.primary, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'",
               "0");
    assert_int_equal(0, pthread_create(&c->thread, NULL, call_store, c));
    wait_query(&p.primary, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'",
               "1");
    assert_ok(pg_cluster_query(&p.primary,
                               "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                               "WHERE wait_event = 'SyncRep'",
                               NULL, 0, &p.err));
    assert_ok_err(pg_cluster_require_standby(&p.primary, "", &p.err), &p.err);
    assert_int_equal(0, pthread_join(c->thread, NULL));
}

static void a_lost_answer_is_found_out_by_the_id(void **state)
{
    (void)state;
    char url[PG_CLUSTER_URL_MAX];
    char count[16];
    tide_store *store = NULL;
    pg_cluster_url(&p.primary, "postgres", url);
    /* Synchronous in its own transaction, as behind a pooler: there is no witness. */
    const tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .state_dir = "",
                                        .pg_pooler = TIDE_PG_POOLER_TRANSACTION};
    assert_ok_err(tide_store_open(&store, url, &options, &p.err), &p.err);
    must_take(store);
    caller given = {.store = store, .task_id = "given"};
    lose_answer(&given);
    assert_ok_err(given.status, &given.err);
    caller made = {.store = store};
    lose_answer(&made);
    assert_ok_err(made.status, &made.err);
    assert_ok(
        pg_cluster_query(&p.primary, "SELECT count(*) FROM tasks", count, sizeof count, &p.err));
    assert_string_equal("2", count);
    caller number = {.store = store, .is_sequence = true};
    lose_answer(&number);
    assert_status(TIDE_E_OUTCOME_UNKNOWN, number.status);
    tide_store_close(store);
}

/* What the role or database asks for is not lowered: an acknowledged commit is applied on the standby. */
static void remote_apply_is_what_an_acknowledgement_waits_for(void **state)
{
    (void)state;
    tide_store *store = open_cluster(&p.primary);
    must_take(store);
    tide_store_close(store);
    require_standby("ALTER DATABASE postgres SET synchronous_commit = 'remote_apply'");
    store = open_cluster(&p.primary);
    must_take(store); /* what the first store wrote is there as well */
    tide_store *reader = open_cluster(&p.standby);
    for (int i = 0; i < 20; i++) {
        const int64_t number = must_take(store);
        tide_sequence shown;
        assert_ok_err(tide_sequence_show(reader, "orders", &shown, &p.err), &p.err);
        assert_int_equal(number, shown.last);
    }
    /* Received and flushed, but not applied: not acknowledged. */
    assert_ok(pg_cluster_query(&p.standby, "SELECT pg_wal_replay_pause()", NULL, 0, &p.err));
    wait_query(&p.standby, "SELECT pg_get_wal_replay_pause_state()", "paused");
    tide_store *hasty = NULL;
    char url[PG_CLUSTER_URL_MAX];
    int64_t number = 0;
    pg_cluster_url(&p.primary, "postgres", url);
    assert_ok_err(open_at(&hasty, url, true), &p.err);
    hurry(hasty);
    assert_status(TIDE_E_OUTCOME_UNKNOWN, take(hasty, &number));
    tide_store_close(hasty);
    tide_store_close(reader);
    tide_store_close(store);
}

/* It will have the epoch soon: no reason to send anybody away. */
static void a_standby_that_lags_behind_an_epoch_is_waited_for(void **state)
{
    (void)state;
    tide_store *store = open_cluster(&p.primary);
    must_take(store);
    wait_replayed();
    assert_ok(pg_cluster_query(&p.standby, "SELECT pg_wal_replay_pause()", NULL, 0, &p.err));
    wait_query(&p.standby, "SELECT pg_get_wal_replay_pause_state()", "paused");
    assert_ok_err(tide_identity_raise(store, "operator", "a test", NULL, &p.err), &p.err);
    char url[PG_CLUSTER_URL_MAX];
    tide_store *reader = NULL;
    pg_cluster_url(&p.standby, "postgres", url);
    assert_status(TIDE_E_UNAVAILABLE, open_at(&reader, url, true));
    assert_contains(p.err.text, "has not applied epoch 2");
    assert_ok(pg_cluster_query(&p.standby, "SELECT pg_wal_replay_resume()", NULL, 0, &p.err));
    wait_replayed();
    assert_ok_err(open_at(&reader, url, true), &p.err);
    tide_store_close(reader);
    tide_store_close(store);
}

typedef struct fact {
    const char *name;
    char value[128];
} fact;

static void find_fact(void *arg, const char *name, const char *value)
{
    fact *wanted = arg;
    if (strcmp(wanted->name, name) == 0)
        (void)snprintf(wanted->value, sizeof wanted->value, "%s", value);
}

static void assert_fact(tide_store *store, const char *name, const char *value)
{
    fact wanted = {.name = name};
    assert_ok_err(tide_store_describe(store, find_fact, &wanted, &p.err), &p.err);
    assert_string_equal(value, wanted.value);
}

static void count_finding(void *arg, const char *finding)
{
    print_message("%s\n", finding);
    ++*(int *)arg;
}

static void a_standby_is_read_and_reports_how_far_it_lags(void **state)
{
    (void)state;
    tide_store *store = open_cluster(&p.primary);
    must_take(store);
    wait_replayed();
    tide_store *reader = open_cluster(&p.standby);
    assert_fact(reader, "is_standby", "true");
    assert_fact(reader, "standby_lag_bytes", "0");
    assert_fact(store, "is_standby", "false");
    assert_fact(store, "commit_mode", "shared_flush");
    assert_fact(store, "pooler", "none");
    int64_t number = 0;
    assert_status(TIDE_E_UNAVAILABLE, take(reader, &number));
    int findings = 0;
    assert_ok_err(tide_store_verify(reader, count_finding, &findings, &p.err), &p.err);
    assert_int_equal(0, findings);
    tide_store_close(reader);
    tide_store_close(store);
}

/* A managed server that refuses WAL and control functions, and a role that owns its database only. */
static void a_server_without_wal_functions_gets_synchronous_commits(void **state)
{
    (void)state;
    static const char *const steps[] = {
        "CREATE ROLE ordinary LOGIN",
        "CREATE DATABASE own OWNER ordinary",
        "REVOKE EXECUTE ON FUNCTION pg_current_wal_lsn() FROM PUBLIC",
        "REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC",
    };
    char url[PG_CLUSTER_URL_MAX];
    (void)snprintf(url, sizeof url, "postgres://ordinary@/own?host=%s&port=%d", p.primary.dir.path,
                   p.primary.port);
    tide_store *store = NULL;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        assert_ok_err(pg_cluster_query(&p.primary, steps[i], NULL, 0, &p.err), &p.err);
        if (i != 1)
            continue;
        assert_ok_err(open_at(&store, url, true), &p.err);
        must_take(store);
        assert_fact(store, "commit_mode", "shared_flush");
        tide_store_close(store);
    }
    /* Revoked for the template only: functions are per database. */
    char own[PG_CLUSTER_URL_MAX];
    pg_cluster_url(&p.primary, "own", own);
    PGconn *pg = PQconnectdb(own);
    PQclear(PQexec(pg, steps[2]));
    PQclear(PQexec(pg, steps[3]));
    PQfinish(pg);
    assert_ok_err(open_at(&store, url, true), &p.err);
    assert_int_equal(2, must_take(store));
    assert_fact(store, "commit_mode", "synchronous");
    assert_int_equal(1, epoch_of(store));
    tide_store *other = NULL;
    assert_ok_err(open_at(&other, url, true), &p.err);
    assert_ok_err(tide_identity_raise(other, "operator", "a test", NULL, &p.err), &p.err);
    must_take(store);
    assert_int_equal(2, epoch_of(store));
    tide_store_close(other);
    tide_store_close(store);
}

#define PAIR_CASE(f) cmocka_unit_test_setup_teardown(f, start_pair, stop_pair)

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        PAIR_CASE(a_standby_promoted_under_an_open_connection_begins_an_epoch),
        PAIR_CASE(a_write_finds_the_primary_in_a_list_of_hosts),
        PAIR_CASE(a_write_leaves_the_pooler_of_a_demoted_server),
        PAIR_CASE(a_primary_is_found_whatever_poolers_report),
        PAIR_CASE(a_standby_does_not_serve_a_url_that_asks_for_a_primary),
        PAIR_CASE(a_primary_that_returns_is_refused),
        PAIR_CASE(an_epoch_that_a_caller_presents_counts_as_seen),
        PAIR_CASE(a_server_restored_from_a_copy_begins_an_epoch),
        PAIR_CASE(an_epoch_begun_elsewhere_is_known_in_the_next_transaction),
        PAIR_CASE(another_store_at_the_same_address_is_refused),
        PAIR_CASE(a_required_standby_that_is_away_ends_calls_in_time),
        PAIR_CASE(a_lost_answer_is_found_out_by_the_id),
        PAIR_CASE(remote_apply_is_what_an_acknowledgement_waits_for),
        PAIR_CASE(a_standby_is_read_and_reports_how_far_it_lags),
        PAIR_CASE(a_standby_that_lags_behind_an_epoch_is_waited_for),
        PAIR_CASE(a_server_without_wal_functions_gets_synchronous_commits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
