#include "crash/chaos/chaos_fleet.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "support/clock/fair_clock.h"
#include "support/program/sanitized.h"

enum { ARGS = 48, LOG_TAIL = 2000, AGAIN_MS = 300 };

#define TOKEN "chaos-0123456789abcdef0123456789abcdef"
#define FAKETIME "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"

/* ---- files ---- */

void chaos_fleet_path(const chaos_fleet *fleet, const chaos_node *node, const char *file,
                      char out[TEMPDIR_PATH_MAX])
{
    (void)snprintf(out, TEMPDIR_PATH_MAX, "%.200s/%s/%.200s", fleet->dir.path, node->name, file);
}

static tide_status write_file(const chaos_fleet *fleet, const char *name, const char *text,
                              tide_error *err)
{
    char path[TEMPDIR_PATH_MAX];
    tempdir_join(&fleet->dir, name, path);
    return tide_file_replace(path, tide_view_of(text), err);
}

static long measure_log(const chaos_fleet *fleet, const chaos_node *node)
{
    char path[TEMPDIR_PATH_MAX];
    struct stat st;
    chaos_fleet_path(fleet, node, "log", path);
    return stat(path, &st) == 0 ? (long)st.st_size : 0;
}

/* What it has said since it was started last: the end of it. */
static void read_log(const chaos_fleet *fleet, const chaos_node *node, char out[LOG_TAIL])
{
    char path[TEMPDIR_PATH_MAX];
    long from = measure_log(fleet, node) - (LOG_TAIL - 1);
    chaos_fleet_path(fleet, node, "log", path);
    out[0] = '\0';
    FILE *log = fopen(path, "re");
    if (!log)
        return;
    from = from > node->log_at ? from : node->log_at;
    (void)fseek(log, from, SEEK_SET);
    out[fread(out, 1, LOG_TAIL - 1, log)] = '\0';
    (void)fclose(log);
}

/* The first thing that a program says when it is up. */
static bool was_ready(const chaos_fleet *fleet, const chaos_node *node)
{
    char path[TEMPDIR_PATH_MAX];
    char said[512] = "";
    chaos_fleet_path(fleet, node, "log", path);
    FILE *log = fopen(path, "re");
    if (!log)
        return false;
    (void)fseek(log, node->log_at, SEEK_SET);
    said[fread(said, 1, sizeof said - 1, log)] = '\0';
    (void)fclose(log);
    return strstr(said, "ready ") != NULL;
}

/* ---- one node ---- */

tide_status chaos_fleet_set_clock(const chaos_fleet *fleet, const chaos_node *node,
                                  const char *offset, tide_error *err)
{
    char path[TEMPDIR_PATH_MAX];
    chaos_fleet_path(fleet, node, "clock", path);
    return tide_file_replace(path, tide_view_of(offset), err);
}

static int add_agent_arguments(const chaos_fleet *fleet, const chaos_node *node, char texts[3][600],
                               const char **argv, int count)
{
    static const char *const forgetful[] = {"--keep-for", "1s", "--hard-for", "3s"};
    chaos_fleet_path(fleet, node, "agent.db", texts[0]);
    (void)snprintf(texts[1], 600, "%s:%d", node->machine.address, CHAOS_GRPC_PORT);
    (void)snprintf(texts[2], 600, "%.400s/tokens", fleet->dir.path);
    const char *const given[] = {"agent",     "--store",     texts[0],     "--grpc",       texts[1],
                                 "--http",    "127.0.0.1:0", "--insecure", "--token-file", texts[2],
                                 "--collect", "3s",          "--name",     node->name};
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++)
        argv[count++] = given[i];
    for (size_t i = 0; node->is_forgetful && i < sizeof forgetful / sizeof forgetful[0]; i++)
        argv[count++] = forgetful[i];
    return count;
}

static int add_colony_arguments(const chaos_fleet *fleet, const chaos_node *node,
                                char texts[3][600], const char **argv, int count)
{
    (void)snprintf(texts[0], 600, "%.400s/agents", fleet->dir.path);
    (void)snprintf(texts[1], 600, "%.400s/token", fleet->dir.path);
    const char *const given[] = {
        "colony",  "--store",     fleet->url,           "--agents", texts[0],
        "--http",  "127.0.0.1:0", "--agent-token-file", texts[1],   "--agent-insecure",
        "--lease", "3s",          "--recover-every",    "2s",       "--name",
        node->name};
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++)
        argv[count++] = given[i];
    return count;
}

/* What libfaketime shares with children stays behind. */
static void remove_clock(chaos_node *node)
{
    char path[64];
    if (!node->has_clock || node->clock_pid <= 0)
        return;
    (void)snprintf(path, sizeof path, "/dev/shm/faketime_shm_%d", (int)node->clock_pid);
    (void)unlink(path);
    (void)snprintf(path, sizeof path, "/dev/shm/sem.faketime_sem_%d", (int)node->clock_pid);
    (void)unlink(path);
    node->clock_pid = 0;
}

tide_status chaos_fleet_start(chaos_fleet *fleet, chaos_node *node, tide_error *err)
{
    char texts[3][600];
    char state[TEMPDIR_PATH_MAX + 32];
    char clock[TEMPDIR_PATH_MAX + 32];
    char log[TEMPDIR_PATH_MAX];
    char path[TEMPDIR_PATH_MAX];
    /* Whatever ends this test ends them. */
    const char *argv[ARGS] = {"setpriv", "--pdeathsig", "KILL", fleet->program};
    const int count = node->is_colony ? add_colony_arguments(fleet, node, texts, argv, 4)
                                      : add_agent_arguments(fleet, node, texts, argv, 4);
    argv[count] = NULL;
    chaos_fleet_path(fleet, node, "state", path);
    (void)snprintf(state, sizeof state, "TIDEMARK_STATE_DIR=%s", path);
    chaos_fleet_path(fleet, node, "clock", path);
    (void)snprintf(clock, sizeof clock, "FAKETIME_TIMESTAMP_FILE=%s", path);
    chaos_fleet_path(fleet, node, "log", log);
    const char *env[] = {state,
                         clock,
                         "FAKETIME_CACHE_DURATION=1",
                         "FAKETIME_DONT_FAKE_MONOTONIC=1",
                         node->has_clock ? "LD_PRELOAD=" FAKETIME : "LD_PRELOAD",
                         NULL};
    node->log_at = measure_log(fleet, node);
    node->is_wanted = true;
    node->is_frozen = false;
    node->again_ms = 0;
    proc_done(&node->process);
    remove_clock(node);
    TIDE_TRY(chaos_net_start(&fleet->net, &node->machine, &node->process,
                             &(proc_options){.argv = argv,
                                             .env = env,
                                             .in = PROC_NULL,
                                             .out = PROC_FILE,
                                             .out_path = log,
                                             .err = PROC_FILE,
                                             .err_path = log},
                             err));
    node->clock_pid = node->process.pid;
    return TIDE_OK;
}

void chaos_fleet_kill(chaos_node *node)
{
    node->is_wanted = false;
    node->is_frozen = false;
    proc_done(&node->process);
    remove_clock(node);
}

void chaos_fleet_freeze(chaos_node *node, bool is_frozen)
{
    if (node->process.pid == 0 || node->is_frozen == is_frozen)
        return;
    node->is_frozen = is_frozen;
    (void)proc_kill(&node->process, is_frozen ? SIGSTOP : SIGCONT, NULL);
}

/* ---- all of them ---- */

/* Trust for the addresses of this test, which nobody else can have; and an address to listen on. */
static tide_status open_cluster(chaos_fleet *fleet, tide_error *err)
{
    static const char *const settings[] = {"listen_addresses=" CHAOS_NET_PREFIX "1", NULL};
    char path[TEMPDIR_PATH_MAX];
    TIDE_TRY(pg_cluster_start(&fleet->cluster, &(pg_cluster_options){.settings = settings}, err));
    tempdir_join(&fleet->cluster.dir, "data/pg_hba.conf", path);
    FILE *file = fopen(path, "ae");
    if (!file || fprintf(file, "host all all " CHAOS_NET_ALL " trust\n") < 0 || fclose(file) != 0)
        return tide_fail(err, TIDE_E_IO, "%s cannot be written", path);
    TIDE_TRY(proc_kill(&fleet->cluster.server, SIGHUP, err));
    TIDE_TRY(pg_cluster_fresh_database(&fleet->cluster, NULL, fleet->database, err));
    pg_cluster_url(&fleet->cluster, fleet->database, fleet->local_url);
    (void)snprintf(fleet->url, sizeof fleet->url, "postgres://postgres@" CHAOS_NET_PREFIX "1:%d/%s",
                   fleet->cluster.port, fleet->database);
    return TIDE_OK;
}

static tide_status add_node(chaos_fleet *fleet, int index, tide_error *err)
{
    chaos_node *node = &fleet->nodes[index];
    char path[TEMPDIR_PATH_MAX];
    const int number = index < CHAOS_AGENTS ? index : index - CHAOS_AGENTS;
    node->is_colony = index >= CHAOS_AGENTS;
    node->is_forgetful = !node->is_colony && index % CHAOS_FORGETFUL == 4;
    node->has_clock = index % CHAOS_CLOCKS == 1 && !IS_SANITIZED;
    (void)snprintf(node->name, sizeof node->name, node->is_colony ? "c%d" : "a%02d", number);
    tempdir_join(&fleet->dir, node->name, path);
    if (mkdir(path, 0700) != 0)
        return tide_fail(err, TIDE_E_IO, "%s cannot be made", path);
    TIDE_TRY(chaos_net_add(&fleet->net, &node->machine,
                           (node->is_colony ? CHAOS_COLONY_HOST : CHAOS_AGENT_HOST) + number, err));
    TIDE_TRY(
        chaos_fleet_set_clock(fleet, node, index % (2 * CHAOS_CLOCKS) == 1 ? "+1h" : "-1h", err));
    return chaos_fleet_start(fleet, node, err);
}

static tide_status write_files(const chaos_fleet *fleet, tide_error *err)
{
    char agents[CHAOS_AGENTS * 64];
    size_t len = 0;
    for (int i = 0; i < CHAOS_AGENTS; i++)
        len +=
            (size_t)snprintf(agents + len, sizeof agents - len, "a%02d " CHAOS_NET_PREFIX "%d:%d\n",
                             i, CHAOS_AGENT_HOST + i, CHAOS_GRPC_PORT);
    TIDE_TRY(write_file(fleet, "agents", agents, err));
    TIDE_TRY(write_file(fleet, "tokens", "chaos admin " TOKEN "\n", err));
    return write_file(fleet, "token", TOKEN "\n", err);
}

tide_status chaos_fleet_open(chaos_fleet *fleet, tide_error *err)
{
    for (int i = 0; i < CHAOS_NODES; i++)
        fleet->nodes[i].process = (proc){.in_fd = -1, .out_fd = -1, .err_fd = -1};
    if (access(FAKETIME, R_OK) != 0)
        return tide_fail(err, TIDE_E_NOT_FOUND, FAKETIME " is not there");
    TIDE_TRY(proc_find("tidemark", fleet->program, err));
    TIDE_TRY(tempdir_make(&fleet->dir, err));
    TIDE_TRY(chaos_net_open(&fleet->net, err));
    TIDE_TRY(write_files(fleet, err));
    TIDE_TRY(open_cluster(fleet, err));
    for (int i = 0; i < CHAOS_NODES; i++)
        TIDE_TRY(add_node(fleet, i, err));
    return TIDE_OK;
}

void chaos_fleet_close(chaos_fleet *fleet)
{
    for (int i = 0; i < CHAOS_NODES; i++)
        chaos_fleet_kill(&fleet->nodes[i]);
    if (fleet->cluster.dir.path[0])
        pg_cluster_stop(&fleet->cluster);
    if (getenv("TIDEMARK_KEEP"))
        (void)fprintf(stderr, "files are in %s\n", fleet->dir.path);
    else
        (void)tempdir_remove(&fleet->dir, NULL);
}

/* ---- looks ---- */

static tide_status tell_end(const chaos_fleet *fleet, const chaos_node *node, tide_error *err)
{
    char log[LOG_TAIL];
    read_log(fleet, node, log);
    return tide_fail(err, TIDE_E_FAILED, "%s ended by itself: code %d, signal %d: %s", node->name,
                     node->process.exit_code, node->process.signal,
                     strlen(log) > 600 ? log + strlen(log) - 600 : log);
}

/* The store was not there when it started, or went while it wrote its agents down. */
static bool found_no_store(const chaos_fleet *fleet, const chaos_node *node)
{
    const int code = node->process.exit_code;
    return node->is_colony && (code == TIDE_EXIT_UNAVAILABLE || code == TIDE_EXIT_PARTIAL) &&
           !was_ready(fleet, node);
}

static tide_status look_at(chaos_fleet *fleet, chaos_node *node, tide_error *err)
{
    if (!node->is_wanted || !proc_poll(&node->process))
        return TIDE_OK;
    if (!found_no_store(fleet, node))
        return tell_end(fleet, node, err);
    if (node->again_ms == 0)
        node->again_ms = wall_clock_ms() + AGAIN_MS;
    return wall_clock_ms() >= node->again_ms ? chaos_fleet_start(fleet, node, err) : TIDE_OK;
}

tide_status chaos_fleet_look(chaos_fleet *fleet, tide_error *err)
{
    for (int i = 0; i < CHAOS_NODES; i++)
        TIDE_TRY(look_at(fleet, &fleet->nodes[i], err));
    return TIDE_OK;
}

tide_status chaos_fleet_stop(chaos_fleet *fleet, int64_t timeout_ms, tide_error *err)
{
    const int64_t until_ms = proc_now_ms() + timeout_ms;
    for (int i = 0; i < CHAOS_NODES; i++) {
        fleet->nodes[i].is_wanted = false;
        TIDE_TRY(proc_kill(&fleet->nodes[i].process, SIGTERM, err));
    }
    for (int i = 0; i < CHAOS_NODES; i++) {
        chaos_node *node = &fleet->nodes[i];
        const int64_t left_ms = until_ms - proc_now_ms();
        const tide_status status = proc_wait(&node->process, left_ms > 0 ? left_ms : 0, err);
        if (status < TIDE_OK)
            return tide_fail_context(err, status, "%s was told to stop", node->name);
        if (node->process.exit_code != 0 && !found_no_store(fleet, node))
            return tell_end(fleet, node, err);
    }
    return TIDE_OK;
}

tide_status chaos_fleet_ask(const chaos_fleet *fleet, const char *const *arguments,
                            int64_t timeout_ms, proc_result *result, tide_error *err)
{
    char token[TEMPDIR_PATH_MAX];
    const char *argv[ARGS] = {fleet->program};
    int count = 1;
    tempdir_join(&fleet->dir, "token", token);
    for (; *arguments && count + 8 < ARGS; arguments++)
        argv[count++] = *arguments;
    const char *const rest[] = {"--store", fleet->url, "--agent-token-file", token,
                                "--agent-insecure"};
    for (size_t i = 0; i < sizeof rest / sizeof rest[0]; i++)
        argv[count++] = rest[i];
    argv[count] = NULL;
    return proc_run(result, &(proc_options){.argv = argv, .in = PROC_NULL}, timeout_ms, err);
}
