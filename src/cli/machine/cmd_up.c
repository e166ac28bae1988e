/* cmd_up.c - tidemark up: an agent, a colony, work, a lake, replicated databases and the dashboard in one process. */
#include "allinone/dir_lock.h"
#include "cli/frame/cli.h"
#include "cli/frame/listener_options.h"
#include "demo/demo.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <unistd.h>

#include "base/cleanup.h"
#include "base/program_path.h"

TIDE_CLEANUP_FN(close_demo, tide_demo, tide_demo_close)

static void close_claim(const int *claim)
{
    if (*claim >= 0)
        (void)close(*claim);
}

/* This program, for the processes that the demonstration starts. */
static tide_status find_program(char out[PATH_MAX], tide_error *err)
{
    if (!tide_program_command(out))
        return tide_fail_advised(err, TIDE_E_IO,
                                 "cannot determine this program's own path; start it by its "
                                 "absolute path, or mount /proc");
    return TIDE_OK;
}

/* A program that the shell finds by its name is called so. */
static bool is_on_path(const char *program)
{
    const size_t len = (size_t)(strrchr(program, '/') - program);
    const char *at = getenv("PATH");
    for (; at && *at; at += *at == ':') {
        const size_t part = strcspn(at, ":");
        if (part == len && strncmp(at, program, len) == 0)
            return true;
        at += part;
    }
    return false;
}

/* As somebody in this directory would call it: `tidemark`, `build/tidemark`, or the whole path. */
static const char *name_program(char buffer[PATH_MAX])
{
    char here[4096];
    tide_error err = {0};
    if (find_program(buffer, &err) < TIDE_OK || is_on_path(buffer))
        return "tidemark";
    const size_t len = getcwd(here, sizeof here) ? strlen(here) : 0;
    return len > 1 && strncmp(buffer, here, len) == 0 && buffer[len] == '/' ? buffer + len + 1
                                                                            : buffer;
}

/* A path as a shell reads it back. */
enum { WORD_SIZE = 4 * PATH_MAX + 3 };

static const char *quote(char out[WORD_SIZE], const char *path)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_./:@%+=,-";
    if (!path[strspn(path, plain)] || strlen(path) >= PATH_MAX)
        return path;
    char *at = out;
    *at++ = '\'';
    for (; *path; path++)
        at = *path == '\'' ? stpcpy(at, "'\\''") : (*at = *path, at + 1);
    memcpy(at, "'", 2);
    return out;
}

/* For people: what they can look at and try. tls_cert NULL: no TLS. */
static void tell_newcomer(const char *address, const char *tls_cert)
{
    char buffer[PATH_MAX];
    char program_word[WORD_SIZE];
    char file_word[WORD_SIZE];
    const char *program = quote(program_word, name_program(buffer));
    const char *option = tls_cert ? " --service-ca " : "";
    const char *file = tls_cert ? quote(file_word, tls_cert) : "";
    tide_cli_print(stderr, "\n");
    tide_cli_print(stderr,
                   "  Try         %s demo late --address %s%s%s     a gap, and its recovery\n",
                   program, address, option, file);
    tide_cli_print(stderr, "              %s gaps ls --address %s%s%s\n", program, address, option,
                   file);
    tide_cli_print(stderr, "              %s top --address %s%s%s\n", program, address, option,
                   file);
    tide_cli_print(stderr,
                   "  Stop        Ctrl-C; a second start continues where this one stopped\n");
    tide_cli_print(stderr, "  Dashboard   %s://%s/\n", tls_cert ? "https" : "http", address);
}

/* NAME=VALUE: the name into out, the value borrowed. NULL: there is no such pair. */
static const char *split(const char *given, char out[TIDE_UP_REPLICA_NAME_MAX + 1])
{
    const char *equals = strchr(given, '=');
    const size_t len = equals ? (size_t)(equals - given) : 0;
    if (len == 0 || len > TIDE_UP_REPLICA_NAME_MAX || !equals[1])
        return NULL;
    memcpy(out, given, len);
    out[len] = '\0';
    return equals + 1;
}

/* Names of databases, which outlive the options that point to them. */
typedef char replica_name[TIDE_UP_REPLICA_NAME_MAX + 1];

static tide_status add_peer(tide_replicas_options *replicas, const char *given, tide_error *err)
{
    replica_name name;
    const char *peer = split(given, name);
    if (!peer)
        return tide_fail(err, TIDE_E_INVALID, "--replica-peer '%s': want NAME=ADDRESS", given);
    for (int i = 0; i < replicas->count; i++) {
        tide_up_replica *replica = &replicas->replicas[i];
        if (strcmp(replica->name, name) != 0)
            continue;
        if (replica->peer_count == TIDE_UP_PEERS_MAX)
            return tide_fail(err, TIDE_E_LIMIT, "'%s' has more than %d peers", name,
                             TIDE_UP_PEERS_MAX);
        replica->peers[replica->peer_count++] = peer;
        return TIDE_OK;
    }
    return tide_fail(err, TIDE_E_INVALID,
                     "--replica-peer '%s': there is no --replica '%s=FILE' before it", given, name);
}

static tide_status read_replicas(const tide_cli *cli, replica_name names[TIDE_UP_REPLICAS_MAX],
                                 tide_replicas_options *out, tide_error *err)
{
    const tide_cli_values files = tide_cli_list(cli, TIDE_CLI_REPLICA);
    const tide_cli_values peers = tide_cli_list(cli, TIDE_CLI_REPLICA_PEER);
    for (int i = 0; i < files.count && i < TIDE_UP_REPLICAS_MAX; i++) {
        const char *file = split(files.items[i], names[i]);
        if (!file)
            return tide_fail(err, TIDE_E_INVALID, "--replica '%s': want NAME=FILE", files.items[i]);
        out->replicas[out->count++] = (tide_up_replica){.name = names[i], .file = file};
    }
    for (int i = 0; i < peers.count; i++)
        TIDE_TRY(add_peer(out, peers.items[i], err));
    return TIDE_OK;
}

static tide_status run(tide_cli *cli, tide_error *err)
{
    tide_log log;
    char free_port[32];
    char export_dir[PATH_MAX];
    tide_up_options options = {.data_dir = tide_cli_text(cli, TIDE_CLI_DATA),
                               .store_url = tide_cli_is_given(cli, TIDE_CLI_STORE)
                                                ? tide_cli_text(cli, TIDE_CLI_STORE)
                                                : NULL,
                               .http = tide_cli_text(cli, TIDE_CLI_HTTP),
                               .collect_us = tide_cli_number(cli, TIDE_CLI_COLLECT)};
    TIDE_TRY(tide_cli_listener_options(cli, &log, &options.listener, err));
    options.maintenance = tide_cli_work_maintenance(cli);
    if (!options.http) {
        TIDE_TRY(tide_up_free_port(free_port, TIDE_UP_PORT, err));
        options.http = free_port;
    }
    TIDE_TRY(tide_cli_export_dir(cli, export_dir, err));
    options.export_dir = *export_dir ? export_dir : NULL;
    replica_name names[TIDE_UP_REPLICAS_MAX];
    TIDE_TRY(read_replicas(cli, names, &options.replicas, err));
    tide_cli_block_signals();
    char program[PATH_MAX];
    TIDE_CLEANUP(close_claim) int claim = -1; /* until all that is kept there is closed */
    TIDE_TRY(tide_dir_lock(&claim, options.data_dir, err));
    TIDE_CLEANUP(close_demo) tide_demo *demo = NULL;
    if (tide_cli_is_given(cli, TIDE_CLI_DEMO)) {
        TIDE_TRY(find_program(program, err));
        const tide_demo_options settings = {.program = program,
                                            .data_dir = options.data_dir,
                                            .agent_count =
                                                (int)tide_cli_number(cli, TIDE_CLI_DEMO_AGENTS),
                                            .greet = tell_newcomer,
                                            .tls_cert = options.listener.tls_cert,
                                            .env = options.listener.env,
                                            .log = &log};
        TIDE_TRY(tide_demo_open(&demo, &settings, err));
        tide_demo_tune(demo, &options);
    }
    return tide_cli_after_serving(tide_up_run(&options, err));
}

static const tide_cli_verb verbs[] = {
    {.name = "",
     .takes = TIDE_CLI_LIST(DATA, HTTP, REPLICA, REPLICA_PEER, DEMO, DEMO_AGENTS, COLLECT,
                            EXPORT_DIR, TIDE_CLI_MAINTENANCE_OPTIONS, TIDE_CLI_LISTENER_OPTIONS),
     .overrides =
         TIDE_CLI_OVERRIDES({.id = TIDE_CLI_DATA,
                             .value = "DIR",
                             .fallback = "./tidemark-data",
                             .help = "where everything is kept; made if it is missing"},
                            {.id = TIDE_CLI_HTTP,
                             .is_bare = true,
                             .help = "where to serve: HOST:PORT; the first free port from 8340 on"},
                            {.id = TIDE_CLI_DRAIN, .fallback = "30s"}),
     .summary = "start everything on this machine, with a dashboard",
     .details = "One process over a directory: an agent for OTLP, a colony that polls it, tasks "
                "and work items, and a\n"
                "dashboard, all on one port. Prints `ready http=HOST:PORT`. A second start goes on "
                "where it\n"
                "stopped; Ctrl-C stops cleanly. --store URL keeps rows, tasks and checkpoints in "
                "that store\n"
                "instead of DIR/colony.db.\n"
                "Example: tidemark up --data ./data --store postgresql://localhost/tidemark",
     .run = run},
    {.name = NULL},
};

const tide_cli_command tide_cli_up = {
    .name = "up",
    .summary = "Everything on one machine, with a dashboard.",
    .verbs = verbs,
    .is_placeless = true,
};
