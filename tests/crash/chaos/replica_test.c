/* Three replicas, real processes, each on a network of its own: cut off, killed, stopped, one with a clock that is an hour off, while
 * Python's sqlite3 and the sqlite3 shell write into their files and are killed too. Then everything is healed, and a program
 * that shares nothing with ours (replica_chaos_state.py, tests/check/convergence.py) finds the same rows in all files, and every acknowledged value shown, replaced
 * by who had seen it, or listed.
 *
 * As long as TIDEMARK_CHAOS_SECONDS says, 25 where nobody says; ten minutes in a soak. TIDEMARK_KEEP leaves all files. */
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "crash/chaos/chaos_net.h"
#include "support/check.h"
#include "support/clock/fair_clock.h"
#include "support/history.h"
#include "support/prng.h"
#include "support/program/sanitized.h"
#include "support/tempdir.h"

enum { TRANSACTIONS_LEAST = 50 };

enum {
    NODES = 3,
    WRITERS = 2, /* of each node: Python, the shell */
    SECONDS = 25,
    SOAK_SECONDS = 600,
    TICK_MS = 20,
    FAULT_MS = 150,
    FAULT_MORE_MS = 700,
    HOST = 10,
    COMMAND_MS = 60000,
    SETTLE_MS = 60000,
    ODD = 2, /* the node whose clock is wrong */
};

#define TOKEN "0123456789abcdef0123456789abcdef"
#define FAKETIME "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"

static const char schema[] =
    "PRAGMA journal_mode = WAL;"
    "CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT UNIQUE, city TEXT, age INTEGER CHECK "
    "(age + id < 60));"
    "CREATE TABLE notes (k TEXT NOT NULL PRIMARY KEY, owner INTEGER REFERENCES people (id) ON "
    "DELETE CASCADE, body);"
    "CREATE TABLE pairs (a INTEGER NOT NULL, b BLOB NOT NULL, c, d UNIQUE, PRIMARY KEY (a, b)) "
    "WITHOUT ROWID;"
    "CREATE INDEX notes_owner ON notes (owner);";

static uint64_t seed;

typedef struct writer {
    proc process;
    int starts;
    int64_t again_ms; /* when it is started again; 0: it runs */
} writer;

typedef struct node {
    char name[4];
    chaos_machine machine;
    proc daemon;
    pid_t clock_pid;
    int64_t again_ms; /* the daemon's */
    int64_t thaw_ms;
    int rule; /* of the firewall; -1: none */
    int64_t heal_ms;
    writer writers[WRITERS];
} node;

typedef struct replicas {
    tempdir dir;
    chaos_net net;
    prng chance;
    char program[PATH_MAX];
    char writer_script[PATH_MAX];
    node nodes[NODES];
    int kills, writer_kills, cuts, stops, clocks;
    tide_error err;
} replicas;

static void path_of(const replicas *r, const node *n, const char *file, char out[TEMPDIR_PATH_MAX])
{
    (void)snprintf(out, TEMPDIR_PATH_MAX, "%.200s/%s/%.200s", r->dir.path, n->name, file);
}

static int64_t draw_ms(replicas *r, int64_t least, int64_t most)
{
    return wall_clock_ms() + least + (int64_t)prng_below(&r->chance, (uint64_t)(most - least + 1));
}

/* ---- programs ---- */

static void run(replicas *r, const char *const *argv, const char *const *env)
{
    TIDE_CLEANUP(proc_result_done) proc_result result = {0};
    assert_ok_err(proc_run(&result, &(proc_options){.argv = argv, .env = env, .in = PROC_NULL},
                           COMMAND_MS, &r->err),
                  &r->err);
    if (result.exit_code != 0)
        fail_msg("seed %" PRIu64 ": %s %s ended with %d: %.2000s%.500s", seed, argv[0], argv[1],
                 result.exit_code, result.err, result.out);
}

/* What libfaketime shares with children stays behind. */
static void remove_clock(node *n)
{
    char path[64];
    if (n->clock_pid <= 0)
        return;
    (void)snprintf(path, sizeof path, "/dev/shm/faketime_shm_%d", (int)n->clock_pid);
    (void)unlink(path);
    (void)snprintf(path, sizeof path, "/dev/shm/sem.faketime_sem_%d", (int)n->clock_pid);
    (void)unlink(path);
    n->clock_pid = 0;
}

static void set_clock(replicas *r, const node *n, const char *offset)
{
    char path[TEMPDIR_PATH_MAX];
    path_of(r, n, "clock", path);
    assert_ok_err(tide_file_replace(path, tide_view_of(offset), &r->err), &r->err);
}

static void start_daemon(replicas *r, node *n)
{
    char database[TEMPDIR_PATH_MAX];
    char log[TEMPDIR_PATH_MAX];
    char path[TEMPDIR_PATH_MAX];
    char state[TEMPDIR_PATH_MAX + 32];
    char clock[TEMPDIR_PATH_MAX + 32];
    char listen[32];
    char peers[NODES][32];
    path_of(r, n, "app.db", database);
    path_of(r, n, "log", log);
    path_of(r, n, "state", path);
    (void)snprintf(state, sizeof state, "TIDEMARK_STATE_DIR=%s", path);
    path_of(r, n, "clock", path);
    (void)snprintf(clock, sizeof clock, "FAKETIME_TIMESTAMP_FILE=%s", path);
    (void)snprintf(listen, sizeof listen, "%s:4321", n->machine.address);
    char tokens[TEMPDIR_PATH_MAX];
    char token[TEMPDIR_PATH_MAX];
    path_of(r, n, "tokens", tokens);
    path_of(r, n, "token", token);
    assert_ok(tide_file_replace(tokens, tide_view_of("chaos write " TOKEN "\n"), NULL));
    assert_ok(tide_file_replace(token, tide_view_of(TOKEN "\n"), NULL));
    const char *argv[32] = {
        "setpriv",         "--pdeathsig",  "KILL", r->program,          "replica", "run",
        database,          "--listen",     listen, "--insecure",        "--every", "500ms",
        "--peer-insecure", "--token-file", tokens, "--peer-token-file", token};
    int count = 17;
    for (int i = 0; i < NODES; i++) {
        if (&r->nodes[i] == n)
            continue;
        (void)snprintf(peers[i], sizeof peers[i], "%s:4321", r->nodes[i].machine.address);
        argv[count++] = "--peer";
        argv[count++] = peers[i];
    }
    const char *env[] = {state,
                         clock,
                         "FAKETIME_CACHE_DURATION=1",
                         "FAKETIME_DONT_FAKE_MONOTONIC=1",
                         IS_SANITIZED ? "LD_PRELOAD" : "LD_PRELOAD=" FAKETIME,
                         NULL};
    proc_done(&n->daemon);
    remove_clock(n);
    n->again_ms = 0;
    n->thaw_ms = 0;
    assert_ok_err(chaos_net_start(&r->net, &n->machine, &n->daemon,
                                  &(proc_options){.argv = argv,
                                                  .env = env,
                                                  .in = PROC_NULL,
                                                  .out = PROC_FILE,
                                                  .out_path = log,
                                                  .err = PROC_FILE,
                                                  .err_path = log},
                                  &r->err),
                  &r->err);
    n->clock_pid = n->daemon.pid;
}

static void start_writer(replicas *r, node *n, int index)
{
    writer *w = &n->writers[index];
    char database[TEMPDIR_PATH_MAX];
    char history[TEMPDIR_PATH_MAX];
    char log[TEMPDIR_PATH_MAX];
    char name[32];
    char text[32];
    path_of(r, n, "app.db", database);
    path_of(r, n, "writer.log", log);
    (void)snprintf(name, sizeof name, "%s%c%d", n->name, index == 0 ? 'p' : 's', w->starts++);
    (void)snprintf(history, sizeof history, "%.200s/history.%s", r->dir.path, name);
    (void)snprintf(text, sizeof text, "%" PRIu64, seed);
    const char *argv[] = {"setpriv",
                          "--pdeathsig",
                          "KILL",
                          "python3",
                          r->writer_script,
                          database,
                          n->name,
                          name,
                          text,
                          history,
                          index == 1 ? "--shell" : NULL,
                          NULL};
    proc_done(&w->process);
    w->again_ms = 0;
    assert_ok_err(proc_start(&w->process,
                             &(proc_options){.argv = argv,
                                             .in = PROC_NULL,
                                             .out = PROC_FILE,
                                             .out_path = log,
                                             .err = PROC_FILE,
                                             .err_path = log},
                             &r->err),
                  &r->err);
}

static void add_node(replicas *r, int index)
{
    node *n = &r->nodes[index];
    char path[TEMPDIR_PATH_MAX];
    char state[TEMPDIR_PATH_MAX + 32];
    (void)snprintf(n->name, sizeof n->name, "n%d", index);
    n->rule = -1;
    tempdir_join(&r->dir, n->name, path);
    assert_int_equal(0, mkdir(path, 0700));
    assert_ok_err(chaos_net_add(&r->net, &n->machine, HOST + index, &r->err), &r->err);
    set_clock(r, n, "+0");
    path_of(r, n, "state", path);
    (void)snprintf(state, sizeof state, "TIDEMARK_STATE_DIR=%s", path);
    const char *const env[] = {state, NULL};
    path_of(r, n, "app.db", path);
    const char *const make[] = {"sqlite3", path, schema, NULL};
    const char *const track[] = {r->program, "replica", "track", path,
                                 "people",   "notes",   "pairs", NULL};
    run(r, make, NULL);
    run(r, track, env);
}

/* ---- trouble ---- */

static node *draw_node(replicas *r)
{
    return &r->nodes[prng_below(&r->chance, NODES)];
}

static void kill_daemon(replicas *r, node *n)
{
    if (n->again_ms > 0)
        return;
    proc_done(&n->daemon);
    remove_clock(n);
    n->again_ms = draw_ms(r, 0, 1500);
    r->kills++;
}

/* The shell dies with its master: its standard input ends. Sometimes the shell itself is killed. */
static void kill_writer(replicas *r, node *n)
{
    writer *w = &n->writers[prng_below(&r->chance, WRITERS)];
    if (w->again_ms > 0)
        return;
    if (prng_chance(&r->chance, 1, 2))
        assert_ok_err(proc_kill_family(&w->process, COMMAND_MS, &r->err), &r->err);
    proc_done(&w->process);
    w->again_ms = draw_ms(r, 0, 500);
    r->writer_kills++;
}

static void cut(replicas *r, node *n)
{
    const node *other = draw_node(r);
    if (n->rule >= 0)
        return;
    switch (prng_below(&r->chance, 4)) {
    case 0:
        n->rule = chaos_net_cut(&n->machine, CHAOS_NET_ALL, true, true);
        break;
    case 1:
        n->rule = chaos_net_cut(&n->machine, other->machine.address, true, false);
        break;
    case 2:
        n->rule = chaos_net_reset(&n->machine, other->machine.address);
        break;
    default:
        n->rule = chaos_net_lose(&n->machine, 5 + (int)prng_below(&r->chance, 30));
        break;
    }
    n->heal_ms = draw_ms(r, 200, 4000);
    assert_ok_err(chaos_net_apply(&r->net, &n->machine, &r->err), &r->err);
    r->cuts++;
}

static void heal(replicas *r, node *n)
{
    chaos_net_heal(&n->machine, n->rule);
    n->rule = -1;
    assert_ok_err(chaos_net_apply(&r->net, &n->machine, &r->err), &r->err);
}

static void stop(replicas *r, node *n)
{
    if (n->again_ms > 0 || n->thaw_ms > 0)
        return;
    (void)proc_kill(&n->daemon, SIGSTOP, NULL);
    n->thaw_ms = draw_ms(r, 50, 2000);
    r->stops++;
}

static void turn_clock(replicas *r)
{
    static const char *const offsets[] = {"+1h", "-1h", "+0"};
    set_clock(r, &r->nodes[ODD], offsets[prng_below(&r->chance, 3)]);
    r->clocks++;
}

static void make_fault(replicas *r)
{
    node *n = draw_node(r);
    const uint64_t die = prng_below(&r->chance, 100);
    if (die < 30)
        kill_daemon(r, n);
    else if (die < 50)
        kill_writer(r, n);
    else if (die < 80)
        cut(r, n);
    else if (die < 93)
        stop(r, n);
    else
        turn_clock(r);
}

static void expect_running(replicas *r, node *n)
{
    char log[TEMPDIR_PATH_MAX];
    path_of(r, n, "log", log);
    if (n->again_ms == 0 && proc_poll(&n->daemon))
        fail_msg("seed %" PRIu64 ": %s ended by itself: code %d, signal %d, see %s", seed, n->name,
                 n->daemon.exit_code, n->daemon.signal, log);
    path_of(r, n, "writer.log", log);
    for (int i = 0; i < WRITERS; i++)
        if (n->writers[i].again_ms == 0 && n->writers[i].process.pid > 0 &&
            proc_poll(&n->writers[i].process))
            fail_msg("seed %" PRIu64 ": writer %d of %s ended by itself, see %s", seed, i, n->name,
                     log);
}

/* What is over, at a time or (INT64_MAX) in the end. */
static void end_faults(replicas *r, int64_t now_ms)
{
    for (int i = 0; i < NODES; i++) {
        node *n = &r->nodes[i];
        expect_running(r, n);
        if (n->rule >= 0 && n->heal_ms <= now_ms)
            heal(r, n);
        if (n->thaw_ms > 0 && n->thaw_ms <= now_ms) {
            (void)proc_kill(&n->daemon, SIGCONT, NULL);
            n->thaw_ms = 0;
        }
        if (n->again_ms > 0 && n->again_ms <= now_ms)
            start_daemon(r, n);
        for (int k = 0; k < WRITERS; k++)
            if (n->writers[k].again_ms > 0 && n->writers[k].again_ms <= now_ms)
                start_writer(r, n, k);
    }
}

static int64_t get_duration_ms(void)
{
    const char *asked = getenv("TIDEMARK_CHAOS_SECONDS");
    return 1000 * (asked ? strtol(asked, NULL, 10) : is_soak() ? SOAK_SECONDS : SECONDS);
}

static void tick(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = TICK_MS * 1000000L}, NULL);
}

static void make_trouble(replicas *r)
{
    const int64_t until_ms = wall_clock_ms() + get_duration_ms();
    int64_t fault_ms = wall_clock_ms() + 2 * FAULT_MORE_MS;
    for (int64_t now_ms = wall_clock_ms(); now_ms < until_ms; now_ms = wall_clock_ms()) {
        end_faults(r, now_ms);
        if (now_ms >= fault_ms) {
            make_fault(r);
            fault_ms = draw_ms(r, FAULT_MS, FAULT_MORE_MS);
        }
        tick();
    }
}

/* ---- the end ---- */

static char *ask_digests(replicas *r, const node *n)
{
    char path[TEMPDIR_PATH_MAX];
    path_of(r, n, "app.db", path);
    const char *const argv[] = {r->program, "replica", "digest", path, "--json", NULL};
    proc_result result = {0};
    assert_ok_err(
        proc_run(&result, &(proc_options){.argv = argv, .in = PROC_NULL}, COMMAND_MS, &r->err),
        &r->err);
    if (result.exit_code != 0)
        fail_msg("seed %" PRIu64 ": digest of %s: %.500s", seed, n->name, result.err);
    char *text = strdup(result.out);
    proc_result_done(&result);
    return text;
}

static bool has_settled(replicas *r)
{
    char *first = ask_digests(r, &r->nodes[0]);
    bool is_same = true;
    for (int i = 1; is_same && i < NODES; i++) {
        char *other = ask_digests(r, &r->nodes[i]);
        is_same = strcmp(first, other) == 0;
        free(other);
    }
    free(first);
    return is_same;
}

/* All clocks pass what the wrong one has shown: what had to wait for its time is due. */
static void settle(replicas *r)
{
    for (int i = 0; i < NODES; i++) {
        for (int k = 0; k < WRITERS; k++) {
            proc_done(&r->nodes[i].writers[k].process);
            r->nodes[i].writers[k].again_ms = 0;
        }
        set_clock(r, &r->nodes[i], IS_SANITIZED ? "+0" : "+70m");
    }
    end_faults(r, INT64_MAX);
    const int64_t until_ms = proc_now_ms() + SETTLE_MS;
    while (!has_settled(r)) {
        end_faults(r, INT64_MAX);
        if (proc_now_ms() > until_ms)
            fail_msg("seed %" PRIu64 ": not the same after %d s", seed, SETTLE_MS / 1000);
        tick();
    }
    for (int i = 0; i < NODES; i++) {
        node *n = &r->nodes[i];
        assert_ok_err(proc_kill(&n->daemon, SIGTERM, &r->err), &r->err);
        assert_ok_err(proc_wait(&n->daemon, COMMAND_MS, &r->err), &r->err);
        assert_int_equal(0, n->daemon.exit_code);
    }
}

/* What applications were answered and what the files show, judged by programs that share nothing with ours. */
static void check_promises(replicas *r)
{
    char script[PATH_MAX];
    const char *source = getenv("TIDEMARK_SOURCE_DIR");
    (void)snprintf(script, sizeof script, "%s/tests/crash/chaos/replica_chaos_state.py",
                   source ? source : ".");
    const char *const argv[] = {"python3",        script,           r->dir.path, r->nodes[0].name,
                                r->nodes[1].name, r->nodes[2].name, NULL};
    TIDE_CLEANUP(proc_result_done) proc_result result = {0};
    assert_ok_err(
        proc_run(&result, &(proc_options){.argv = argv, .in = PROC_NULL}, COMMAND_MS, &r->err),
        &r->err);
    if (result.exit_code != 0)
        fail_msg("seed %" PRIu64 ": %.4000s", seed, result.err);
    char pattern[TEMPDIR_PATH_MAX];
    char verdict[HISTORY_VERDICT_MAX];
    glob_t found = {.gl_offs = 1};
    tempdir_join(&r->dir, "history.*", pattern);
    assert_int_equal(0, glob(pattern, GLOB_DOOFFS, NULL, &found));
    found.gl_pathv[0] = (char *)"--killed";
    if (history_judge("convergence.py", (const char *const *)found.gl_pathv, verdict, &r->err) !=
        TIDE_OK)
        fail_msg("seed %" PRIu64 ": %s", seed, r->err.text);
    found.gl_pathv[0] = NULL;
    globfree(&found);
    print_message("%s\n", verdict);
    static const char sound[] = "sound: 3 nodes, ";
    assert_memory_equal(verdict, sound, sizeof sound - 1);
    const long transactions = strtol(verdict + sizeof sound - 1, NULL, 10);
    if (transactions < TRANSACTIONS_LEAST)
        fail_msg("seed %" PRIu64 ": only %ld transactions", seed, transactions);
}

static int set_up(void **state)
{
    replicas *r = calloc(1, sizeof *r);
    assert_non_null(r);
    *state = r;
    prng_init(&r->chance, seed);
    const char *source = getenv("TIDEMARK_SOURCE_DIR");
    (void)snprintf(r->writer_script, sizeof r->writer_script, "%s/tests/crash/chaos/%s",
                   source ? source : ".", "replica_chaos_writer.py");
    return 0;
}

static int tear_down(void **state)
{
    replicas *r = *state;
    for (int i = 0; i < NODES; i++) {
        node *n = &r->nodes[i];
        for (int k = 0; k < WRITERS; k++)
            proc_done(&n->writers[k].process);
        proc_done(&n->daemon);
        remove_clock(n);
    }
    if (getenv("TIDEMARK_KEEP"))
        print_message("files are in %s\n", r->dir.path);
    else
        TIDE_IGNORE(tempdir_remove(&r->dir, NULL));
    free(r);
    return 0;
}

static void every_acknowledged_write_is_in_all_files_or_listed(void **state)
{
    replicas *r = *state;
    assert_ok_err(proc_find("tidemark", r->program, &r->err), &r->err);
    assert_ok_err(tempdir_make(&r->dir, &r->err), &r->err);
    assert_ok_err(chaos_net_open(&r->net, &r->err), &r->err);
    for (int i = 0; i < NODES; i++)
        add_node(r, i);
    set_clock(r, &r->nodes[ODD], "+1h");
    for (int i = 0; i < NODES; i++) {
        start_daemon(r, &r->nodes[i]);
        for (int k = 0; k < WRITERS; k++)
            start_writer(r, &r->nodes[i], k);
    }
    make_trouble(r);
    settle(r);
    print_message("%d daemons and %d writers killed, %d stopped, %d cuts, %d clocks set\n",
                  r->kills, r->writer_kills, r->stops, r->cuts, r->clocks);
    check_promises(r);
}

TEST_FILE()
{
    seed = prng_seed_from_env(20261116);
    (void)signal(SIGPIPE,
                 SIG_IGN); /* a command that ends before it has read all is told by its exit code */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_acknowledged_write_is_in_all_files_or_listed, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests_name("crash-chaos-replica", tests, NULL, NULL);
}
