#include "load_server.h"

#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench.h"
#include "services/agent/running_agent.h"

enum { STOP_MS = 30000, VERSION_MS = 10000, ARGS = 24, STARTED_MAX = 8 };

/* ---- starting ---- */

static load_server *started[STARTED_MAX];
static int started_count;

/* A benchmark that gives up leaves no server behind. */
static void end_started(void)
{
    for (int i = 0; i < started_count; i++)
        proc_done(&started[i]->process);
}

static void note_started(load_server *server)
{
    if (started_count == STARTED_MAX || (started_count == 0 && atexit(end_started) != 0))
        bench_die("too many servers");
    started[started_count++] = server;
}

/* A port that nobody has now. */
static int find_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) != 0)
        bench_die("no port is free");
    (void)close(fd);
    return ntohs(address.sin_port);
}

/* False: there is no such program. */
static bool ask_version(load_server *server, const char *program)
{
    const char *const argv[] = {program, "--version", NULL};
    tide_error err = {.status = TIDE_OK};
    proc_result result;
    const tide_status status = proc_run(&result, &(proc_options){.argv = argv}, VERSION_MS, &err);
    if (status == TIDE_OK)
        (void)snprintf(server->version, sizeof server->version, "%.*s",
                       (int)strcspn(result.out, "\n"), result.out);
    proc_result_done(&result);
    return status == TIDE_OK;
}

static void start(load_server *server, const char *const *argv, const char *directory)
{
    char log[TEMPDIR_PATH_MAX + 8];
    tide_error err;
    (void)snprintf(log, sizeof log, "%s/log", directory);
    const proc_options options = {.argv = argv,
                                  .directory = directory,
                                  .in = PROC_NULL,
                                  .out = PROC_FILE,
                                  .out_path = log,
                                  .err = PROC_FILE,
                                  .err_path = log};
    bench_must(proc_start(&server->process, &options, &err), &err, argv[0]);
    note_started(server);
}

static void make_directory(const tempdir *dir, const char *name, char out[TEMPDIR_PATH_MAX])
{
    tempdir_join(dir, name, out);
    if (mkdir(out, 0700) != 0)
        bench_die("cannot make %s", out);
}

void load_server_start_agent(load_server *server, const tempdir *dir)
{
    char path[TEMPDIR_PATH_MAX];
    running_agent agent;
    tide_error err;
    tempdir_join(dir, "agent.db", path);
    static const char *const more[] = {"--log-level", "error", NULL};
    bench_must(running_agent_start(&agent, "agent", path, more, &err), &err, "tidemark agent");
    *server = (load_server){.process = agent.process, .version = "tidemark"};
    note_started(server);
    const char *colon = strrchr(agent.grpc, ':');
    server->port = colon ? (int)strtol(colon + 1, NULL, 10) : 0;
}

bool load_server_start_redis(load_server *server, const tempdir *dir)
{
    *server = (load_server){0};
    if (!ask_version(server, "redis-server"))
        return false;
    char directory[TEMPDIR_PATH_MAX];
    char port[16];
    make_directory(dir, "redis", directory);
    server->port = find_port();
    (void)snprintf(port, sizeof port, "%d", server->port);
    const char *const argv[ARGS] = {"redis-server",
                                    "--port",
                                    port,
                                    "--bind",
                                    "127.0.0.1",
                                    "--appendonly",
                                    "yes",
                                    "--appendfsync",
                                    "always",
                                    "--save",
                                    "",
                                    "--auto-aof-rewrite-percentage",
                                    "0",
                                    "--dir",
                                    directory};
    start(server, argv, directory);
    return true;
}

/* "nats-server: v2.10.27": is it one that can sync before it answers? */
static bool is_nats_new_enough(const char *version)
{
    const char *at = strchr(version, 'v');
    at = at && at[1] >= '0' && at[1] <= '9' ? at : at ? strstr(at + 1, " v") : NULL;
    if (!at)
        return false;
    char *rest = NULL;
    const long major = strtol(at + strcspn(at, "0123456789"), &rest, 10);
    const long minor = *rest == '.' ? strtol(rest + 1, NULL, 10) : 0;
    return major > 2 || (major == 2 && minor >= 10);
}

static bool find_nats(load_server *server, char program[PATH_MAX])
{
    const char *wish = getenv("TIDEMARK_NATS_SERVER");
    tide_error err;
    if (wish && *wish)
        (void)snprintf(program, PATH_MAX, "%s", wish);
    else if (proc_find("deps/nats/nats-server", program, &err) != TIDE_OK)
        (void)snprintf(program, PATH_MAX, "nats-server");
    return ask_version(server, program) && is_nats_new_enough(server->version);
}

bool load_server_start_nats(load_server *server, const tempdir *dir)
{
    *server = (load_server){0};
    char program[PATH_MAX];
    if (!find_nats(server, program))
        return false;
    char directory[TEMPDIR_PATH_MAX];
    char config[TEMPDIR_PATH_MAX + 16];
    make_directory(dir, "nats", directory);
    (void)snprintf(config, sizeof config, "%s/nats.conf", directory);
    server->port = find_port();
    FILE *file = fopen(config, "we");
    if (!file ||
        fprintf(file,
                "listen: \"127.0.0.1:%d\"\n"
                "jetstream { store_dir: \"%s\", sync_interval: always }\n",
                server->port, directory) < 0 ||
        fclose(file) != 0)
        bench_die("cannot write %s", config);
    const char *const argv[] = {program, "-c", config, NULL};
    start(server, argv, directory);
    return true;
}

void load_server_stop(load_server *server)
{
    tide_error err;
    if (server->process.pid > 0) {
        TIDE_IGNORE(proc_kill(&server->process, SIGTERM, &err));
        TIDE_IGNORE(proc_wait(&server->process, STOP_MS, &err));
    }
    proc_done(&server->process);
}

/* ---- looking ---- */

static FILE *open_proc(const load_server *server, const char *name)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)server->process.pid, name);
    FILE *file = fopen(path, "re");
    if (!file)
        bench_die("cannot read %s: the server has ended", path);
    return file;
}

double load_server_cpu_s(const load_server *server)
{
    char line[1024] = "";
    FILE *file = open_proc(server, "stat");
    const char *at = fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
    (void)fclose(file);
    /* Behind the name in brackets: eleven fields, then user and system time in ticks. */
    for (int i = 0; at && i < 12; i++)
        at = strchr(at + 1, ' ');
    char *rest = NULL;
    const double user = at ? strtod(at, &rest) : 0;
    const double system = rest ? strtod(rest, NULL) : 0;
    return (user + system) / (double)sysconf(_SC_CLK_TCK);
}

static double read_status_mb(const load_server *server, const char *name)
{
    char line[256];
    double kib = 0;
    FILE *file = open_proc(server, "status");
    while (fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0)
            kib = strtod(line + strlen(name), NULL);
    (void)fclose(file);
    return kib * 1024 / 1e6;
}

double load_server_resident_mb(const load_server *server)
{
    return read_status_mb(server, "VmRSS:");
}

double load_server_highest_mb(const load_server *server)
{
    return read_status_mb(server, "VmHWM:");
}
