/* 20 agents and 3 colonies on PostgreSQL, real processes, each agent and colony on a network of its own: cut off, stopped,
 * killed, with clocks that are wrong, their stores copied, restored and removed, while clients write into the agents. Then
 * everything is healed, and a program that shares nothing with ours (tests/check/delivery.py) finds every acknowledged record exactly
 * once, or its loss explained.
 *
 * As long as TIDEMARK_CHAOS_SECONDS says, two minutes where nobody says; ten minutes in a soak. TIDEMARK_KEEP leaves all files. */
#include <inttypes.h>
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "crash/chaos/chaos_fault.h"
#include "crash/chaos/chaos_sampler.h"
#include "support/check.h"
#include "support/clock/fair_clock.h"
#include "support/history.h"

enum {
    SECONDS = 120,
    SOAK_SECONDS = 600,
    FAULT_MS = 60, /* between two faults, at least */
    FAULT_MORE_MS = 340,
    STORE_MS = 5000, /* between two things that happen to stores */
    CALM_MS = 3000,  /* before the first */
    TICK_MS = 20,
    DRAIN_MS = 60000,
    STOP_MS = 60000,
    STREAMS_MAX = CHAOS_AGENTS * 16,
};

static uint64_t seed;

typedef struct chaos_case {
    chaos_fleet fleet;
    chaos_sender senders[CHAOS_AGENTS];
    chaos_sampler sampler;
    chaos_faults faults;
    tide_error err;
} chaos_case;

static int set_up(void **state)
{
    chaos_case *c = calloc(1, sizeof *c);
    assert_non_null(c);
    *state = c;
    c->faults.fleet = &c->fleet;
    c->faults.senders = c->senders;
    prng_init(&c->faults.chance, seed);
    return 0;
}

static int tear_down(void **state)
{
    chaos_case *c = *state;
    chaos_fault_thaw(&c->faults);
    chaos_sampler_close(&c->sampler);
    if (c->faults.log)
        (void)fclose(c->faults.log);
    for (int i = 0; i < CHAOS_AGENTS; i++)
        chaos_sender_free(&c->senders[i]);
    chaos_fleet_close(&c->fleet);
    free(c);
    return 0;
}

static void tick(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = TICK_MS * 1000000L}, NULL);
}

/* ---- the run ---- */

static int64_t get_duration_ms(void)
{
    const char *asked = getenv("TIDEMARK_CHAOS_SECONDS");
    const int64_t seconds = asked ? strtol(asked, NULL, 10) : is_soak() ? SOAK_SECONDS : SECONDS;
    return seconds * 1000;
}

static void start_clients(chaos_case *c)
{
    char path[TEMPDIR_PATH_MAX];
    tempdir_join(&c->fleet.dir, "faults", path);
    c->faults.log = fopen(path, "we");
    c->faults.began_ms = wall_clock_ms();
    tempdir_join(&c->fleet.dir, "samples", path);
    assert_ok_err(chaos_sampler_open(&c->sampler, c->fleet.local_url, path, &c->err), &c->err);
    for (int i = 0; i < CHAOS_AGENTS; i++)
        assert_ok_err(chaos_sender_open(&c->senders[i], &c->fleet, i, seed, &c->err), &c->err);
}

static void make_trouble(chaos_case *c)
{
    const int64_t began_ms = wall_clock_ms();
    const int64_t until_ms = began_ms + get_duration_ms();
    int64_t fault_ms = began_ms + CALM_MS;
    int64_t store_ms = began_ms + CALM_MS;
    for (int64_t now_ms = began_ms; now_ms < until_ms; now_ms = wall_clock_ms()) {
        assert_ok_err(chaos_fleet_look(&c->fleet, &c->err), &c->err);
        assert_ok_err(chaos_fault_end(&c->faults, now_ms, &c->err), &c->err);
        if (now_ms >= fault_ms) {
            assert_ok_err(chaos_fault_begin(&c->faults, &c->err), &c->err);
            fault_ms = now_ms + FAULT_MS + (int64_t)prng_below(&c->faults.chance, FAULT_MORE_MS);
        }
        if (now_ms >= store_ms) {
            const int before = c->faults.stores;
            assert_ok_err(chaos_fault_store(&c->faults, &c->err), &c->err);
            store_ms = now_ms + (c->faults.stores > before ? STORE_MS : FAULT_MS);
        }
        tick();
    }
    assert_ok_err(chaos_fault_end(&c->faults, INT64_MAX, &c->err), &c->err);
}

/* ---- the end ---- */

typedef struct head {
    const char *agent;
    char session[64];
    char stream[80];
    uint64_t number;
} head;

typedef struct heads {
    head all[STREAMS_MAX];
    int count;
    const char *agent;
} heads;

static void keep_stream(void *arg, const char *session, const char *stream, uint64_t number)
{
    heads *h = arg;
    if (number == 0 || h->count == STREAMS_MAX)
        return;
    head *kept = &h->all[h->count++];
    kept->agent = h->agent;
    kept->number = number;
    (void)snprintf(kept->session, sizeof kept->session, "%s", session);
    (void)snprintf(kept->stream, sizeof kept->stream, "%s", stream);
}

static void ask_heads(chaos_case *c, heads *h)
{
    const int64_t until_ms = proc_now_ms() + DRAIN_MS;
    for (int i = 0; i < CHAOS_AGENTS; i++) {
        h->agent = c->fleet.nodes[i].name;
        while (chaos_sender_streams(&c->senders[i], keep_stream, h, &c->err) < TIDE_OK) {
            assert_ok_err(chaos_fleet_look(&c->fleet, &c->err), &c->err);
            if (proc_now_ms() > until_ms)
                fail_msg("seed %" PRIu64 ": %s does not answer: %s", seed, h->agent, c->err.text);
            tick();
        }
    }
}

/* Of a stream that only this agent writes, a checkpoint above its head is one of a history that a restored volume has taken away: it says
 * nothing about what was written since. Once the colony has seen that, the checkpoint is the head itself. */
static bool is_at_end(const head *wanted, uint64_t checkpoint)
{
    if (strcmp(wanted->stream, "load") == 0 || strcmp(wanted->stream, "telemetry") == 0)
        return checkpoint == wanted->number;
    return checkpoint >= wanted->number;
}

static bool is_read(const PGresult *rows, const head *wanted)
{
    for (int i = 0; i < PQntuples(rows); i++)
        if (strcmp(PQgetvalue(rows, i, 0), wanted->agent) == 0 &&
            strcmp(PQgetvalue(rows, i, 1), wanted->stream) == 0 &&
            strcmp(PQgetvalue(rows, i, 2), wanted->session) == 0)
            return is_at_end(wanted, strtoull(PQgetvalue(rows, i, 3), NULL, 10));
    return false;
}

/* How many are behind; the first of them in *which. */
static int count_unread(PGconn *connection, const heads *h, const head **which)
{
    int count = 0;
    PGresult *rows = PQexec(
        connection, "SELECT agent_id, data_type, session_id, last_seq_id FROM polling_checkpoints");
    for (int i = 0; i < h->count; i++) {
        if (is_read(rows, &h->all[i]))
            continue;
        *which = count == 0 ? &h->all[i] : *which;
        count++;
    }
    PQclear(rows);
    return count;
}

static void drain(chaos_case *c)
{
    static heads h;
    const head *which = NULL;
    const int64_t began_ms = proc_now_ms();
    h.count = 0;
    ask_heads(c, &h);
    PGconn *connection = PQconnectdb(c->fleet.local_url);
    while (count_unread(connection, &h, &which) > 0) {
        assert_ok_err(chaos_fleet_look(&c->fleet, &c->err), &c->err);
        if (proc_now_ms() > began_ms + DRAIN_MS)
            fail_msg("seed %" PRIu64
                     ": %d of %d streams are not read to their end after %d s: %s %s "
                     "%s %" PRIu64,
                     seed, count_unread(connection, &h, &which), h.count, DRAIN_MS / 1000,
                     which->agent, which->stream, which->session, which->number);
        tick();
    }
    PQfinish(connection);
    print_message("%d streams were read to their end after %" PRId64 " ms\n", h.count,
                  proc_now_ms() - began_ms);
}

/* The lines of an audit that do not balance. */
static void print_unbalanced(const char *out)
{
    while (*out) {
        const size_t len = strcspn(out, "\n");
        if (!memmem(out, len, "\"balanced\":true", strlen("\"balanced\":true")))
            print_error("%.*s\n", (int)len, out);
        out += len + (out[len] == '\n');
    }
}

static void check_audit(chaos_case *c)
{
    static const char *const audit[] = {"colony", "audit", "--json", NULL};
    TIDE_CLEANUP(proc_result_done) proc_result result = {0};
    assert_ok_err(chaos_fleet_ask(&c->fleet, audit, DRAIN_MS, &result, &c->err), &c->err);
    if (result.exit_code == 0)
        return;
    print_unbalanced(result.out);
    fail_msg("seed %" PRIu64 ": the audit ends with %d: %.2000s", seed, result.exit_code,
             result.err);
}

/* What clients were answered, what the sampler saw, and the tables as psql shows them, judged by programs that share nothing with
 * ours. */
static void check_promises(chaos_case *c)
{
    char script[PATH_MAX];
    const char *source = getenv("TIDEMARK_SOURCE_DIR");
    (void)snprintf(script, sizeof script, "%s/tests/crash/chaos/colony_chaos_state.py",
                   source ? source : ".");
    char paths[CHAOS_AGENTS + 2][TEMPDIR_PATH_MAX];
    const char *files[CHAOS_AGENTS + 3] = {NULL};
    for (int i = 0; i < CHAOS_AGENTS; i++)
        chaos_fleet_path(&c->fleet, &c->fleet.nodes[i], "history", paths[i]);
    tempdir_join(&c->fleet.dir, "samples", paths[CHAOS_AGENTS]);
    tempdir_join(&c->fleet.dir, "tables", paths[CHAOS_AGENTS + 1]);
    for (int i = 0; i < CHAOS_AGENTS + 2; i++)
        files[i] = paths[i];
    const char *const argv[] = {"python3", script, c->fleet.local_url, paths[CHAOS_AGENTS + 1],
                                NULL};
    TIDE_CLEANUP(proc_result_done) proc_result result = {0};
    assert_ok_err(
        proc_run(&result, &(proc_options){.argv = argv, .in = PROC_NULL}, DRAIN_MS, &c->err),
        &c->err);
    if (result.exit_code != 0)
        fail_msg("seed %" PRIu64 ": %.4000s", seed, result.err);
    char verdict[HISTORY_VERDICT_MAX];
    if (history_judge("delivery.py", files, verdict, &c->err) != TIDE_OK)
        fail_msg("seed %" PRIu64 ": %s", seed, c->err.text);
    print_message("%s\n", verdict);
}

static void every_acknowledged_record_is_in_the_colony_exactly_once(void **state)
{
    chaos_case *c = *state;
    int64_t acknowledged = 0;
    int64_t unknown = 0;
    assert_ok_err(chaos_fleet_open(&c->fleet, &c->err), &c->err);
    start_clients(c);
    make_trouble(c);
    for (int i = 0; i < CHAOS_AGENTS; i++) {
        chaos_sender_close(&c->senders[i]);
        acknowledged += c->senders[i].acknowledged;
        unknown += c->senders[i].unknown;
    }
    const int *n = c->faults.counts;
    print_message("%" PRId64 " acknowledged, %" PRId64
                  " unknown; %d network faults, %d SIGSTOP, %d "
                  "kill -9, %d clocks set, server %d SIGSTOP, %d kill -9; %d changes of stores; %d "
                  "samples\n",
                  acknowledged, unknown, n[CHAOS_NETWORK], n[CHAOS_FREEZE], n[CHAOS_KILL],
                  n[CHAOS_CLOCK], n[CHAOS_SERVER_FREEZE], n[CHAOS_SERVER_KILL], c->faults.stores,
                  atomic_load(&c->sampler.rounds));
    drain(c);
    check_audit(c);
    chaos_sampler_close(&c->sampler);
    assert_ok_err(chaos_fleet_stop(&c->fleet, STOP_MS, &c->err), &c->err);
    check_promises(c);
}

TEST_FILE()
{
    seed = prng_seed_from_env(20261116);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_acknowledged_record_is_in_the_colony_exactly_once,
                                        set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
