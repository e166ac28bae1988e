#include "support/pg_cluster.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <libpq-fe.h>
#include <netinet/in.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "support/check.h"

#define SERVER_USER "postgres"

enum {
    DEFAULT_PORT = 5432, /* of the socket's file name; no TCP port is taken by it */
    SETTINGS_MAX = 32,
    TCP_PORT_TRIES = 5,
    LOG_TAIL = 300,
};

/* stdin carries the server's pid (0: none) whenever it changes, and ends when the test program
 * does. $1 is the directory to remove. QUIT is PostgreSQL's immediate shutdown. A zombie counts
 * as ended: nobody may be there to reap it. */
static const char supervisor_script[] =
    "trap '' HUP INT TERM\n"
    "is_running() {\n"
    "    case $(cat \"/proc/$pid/status\" 2>/dev/null) in\n"
    "    '' | *'State:\tZ'*) return 1 ;;\n"
    "    esac\n"
    "}\n"
    "pid=0\n"
    "while read -r line; do pid=$line; done\n"
    "if [ \"$pid\" -gt 0 ]; then\n"
    "    kill -QUIT \"$pid\" 2>/dev/null\n"
    "    tries=0\n"
    "    while is_running && [ $tries -lt 500 ]; do\n"
    "        sleep 0.02; tries=$((tries + 1))\n"
    "    done\n"
    "    is_running && kill -KILL \"$pid\"\n"
    "fi\n"
    "case $1 in */" TEMPDIR_PREFIX "*) rm -rf -- \"$1\";; esac\n";

static void conn_finishp(PGconn **conn)
{
    PQfinish(*conn);
}

static void result_clearp(PGresult **result)
{
    PQclear(*result);
}

/* Append text percent-encoded: everything but letters, digits and -._~ */
static void append_encoded(char *out, size_t size, const char *text)
{
    size_t len = strlen(out);
    for (; *text != '\0'; text++) {
        const unsigned char c = (unsigned char)*text;
        const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                              (c >= '0' && c <= '9') || strchr("-._~", c) != NULL;
        const int added = snprintf(out + len, size - len, is_plain ? "%c" : "%%%02X", c);
        assert(added > 0 && len + (size_t)added < size);
        len += (size_t)added;
    }
}

static void append_text(char *out, size_t size, const char *text)
{
    const size_t len = strlen(out);
    assert(len + strlen(text) < size);
    strcpy(out + len, text);
}

void pg_cluster_url(const pg_cluster *c, const char *database, char out[PG_CLUSTER_URL_MAX])
{
    out[0] = '\0';
    append_text(out, PG_CLUSTER_URL_MAX, c->base);
    append_encoded(out, PG_CLUSTER_URL_MAX, database);
    append_text(out, PG_CLUSTER_URL_MAX, c->query);
}

void pg_cluster_tcp_url(const pg_cluster *c, const char *database, char out[PG_CLUSTER_URL_MAX])
{
    assert(c->options.has_tcp);
    snprintf(out, PG_CLUSTER_URL_MAX, "postgres://" SERVER_USER "@127.0.0.1:%d/", c->port);
    append_encoded(out, PG_CLUSTER_URL_MAX, database);
}

static bool has_initdb(const char *directory)
{
    char program[PATH_MAX];
    const int len = snprintf(program, sizeof(program), "%s/initdb", directory);
    return len > 0 && len < TEMPDIR_PATH_MAX && access(program, X_OK) == 0;
}

/* Where the server's own programs are. pg_config may be missing or that of another version. */
static tide_status find_bin(char out[TEMPDIR_PATH_MAX], tide_error *err)
{
    const char *given = getenv("TIDEMARK_TEST_PG_BIN");
    if (given != NULL && given[0] != '\0') {
        if (!has_initdb(given))
            return tide_fail(err, TIDE_E_NOT_FOUND, "TIDEMARK_TEST_PG_BIN='%s' has no initdb",
                             given);
        strcpy(out, given);
        return TIDE_OK;
    }
    TIDE_CLEANUP(proc_result_done) proc_result result = {0};
    const char *const argv[] = {"pg_config", "--bindir", NULL};
    if (proc_run(&result, &(proc_options){.argv = argv}, PG_CLUSTER_DEADLINE_MS, NULL) == TIDE_OK &&
        result.exit_code == 0 && result.out_len > 0) {
        result.out[strcspn(result.out, "\n")] = '\0';
        if (has_initdb(result.out)) {
            strcpy(out, result.out);
            return TIDE_OK;
        }
    }
    glob_t found;
    const bool has_any = glob("/usr/lib/postgresql/*/bin/initdb", 0, NULL, &found) == 0;
    if (has_any) {
        const char *newest = found.gl_pathv[found.gl_pathc - 1];
        snprintf(out, TEMPDIR_PATH_MAX, "%.*s", (int)(strlen(newest) - strlen("/initdb")), newest);
    }
    globfree(&found);
    if (!has_any)
        return tide_fail(err, TIDE_E_NOT_FOUND,
                         "PostgreSQL's server is not installed (apt-get install postgresql)");
    return TIDE_OK;
}

static void join_program(const pg_cluster *c, const char *name, char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%s/%s", c->bin, name);
}

static tide_status run_initdb(const pg_cluster *c, tide_error *err)
{
    char initdb[PATH_MAX];
    char data[TEMPDIR_PATH_MAX];
    join_program(c, "initdb", initdb);
    tempdir_join(&c->dir, "data", data);
    /* --no-sync is about the making of the empty cluster only; the server itself runs with
     * fsync. */
    const char *const argv[] = {
        initdb, "-D",   data,         "-U",        SERVER_USER,         "-A", "trust",
        "-E",   "UTF8", "--locale=C", "--no-sync", "--no-instructions", NULL};
    const proc_options options = {.argv = argv, .user = SERVER_USER, .directory = c->dir.path};
    TIDE_CLEANUP(proc_result_done) proc_result result = {0};
    TIDE_TRY(proc_run(&result, &options, PG_CLUSTER_DEADLINE_MS, err));
    if (result.exit_code != 0)
        return tide_fail(err, TIDE_E_FAILED, "initdb ended with %d: %s", result.exit_code,
                         result.err);
    return TIDE_OK;
}

static tide_status pick_free_port(int *port, tide_error *err)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return tide_fail(err, TIDE_E_IO, "socket: %s", strerror(errno));
    const bool is_bound = bind(fd, (struct sockaddr *)&address, len) == 0 &&
                          getsockname(fd, (struct sockaddr *)&address, &len) == 0;
    close(fd);
    if (!is_bound)
        return tide_fail(err, TIDE_E_IO, "no free port on 127.0.0.1: %s", strerror(errno));
    *port = ntohs(address.sin_port);
    return TIDE_OK;
}

/* The last words of the server's log, for the message of a failed start. */
static void read_log_tail(const pg_cluster *c, char out[LOG_TAIL])
{
    char path[TEMPDIR_PATH_MAX];
    tempdir_join(&c->dir, "server.log", path);
    out[0] = '\0';
    FILE *log = fopen(path, "re");
    if (log == NULL)
        return;
    if (fseek(log, -(LOG_TAIL - 1), SEEK_END) != 0)
        rewind(log);
    out[fread(out, 1, LOG_TAIL - 1, log)] = '\0';
    fclose(log);
}

static tide_status wait_ready(pg_cluster *c, tide_error *err)
{
    const int64_t deadline_ms = proc_now_ms() + PG_CLUSTER_DEADLINE_MS;
    char url[PG_CLUSTER_URL_MAX];
    char log[LOG_TAIL];
    pg_cluster_url(c, "postgres", url);
    while (PQping(url) != PQPING_OK) {
        if (proc_poll(&c->server)) {
            read_log_tail(c, log);
            return tide_fail(err, TIDE_E_FAILED, "postgres ended with %d: %s", c->server.exit_code,
                             log);
        }
        if (proc_now_ms() >= deadline_ms) {
            read_log_tail(c, log);
            return tide_fail(err, TIDE_E_TIMEOUT, "postgres is not ready: %s", log);
        }
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    return TIDE_OK;
}

static void tell_supervisor(const pg_cluster *c)
{
    dprintf(c->supervisor.in_fd, "%d\n", (int)c->server.pid);
}

static tide_status start_server(pg_cluster *c, tide_error *err)
{
    char postgres[PATH_MAX];
    char data[TEMPDIR_PATH_MAX];
    char log[TEMPDIR_PATH_MAX];
    char port[32];
    join_program(c, "postgres", postgres);
    tempdir_join(&c->dir, "data", data);
    tempdir_join(&c->dir, "server.log", log);
    snprintf(port, sizeof(port), "port=%d", c->port);

    /* Shared memory as files of the data directory, so that kill -9 leaves nothing in /dev/shm.
     * Before recovery the server syncs what was written before: one syncfs, not seconds of one
     * fsync per file. */
    const char *argv[8 + 2 * (8 + SETTINGS_MAX)] = {postgres, "-D", data, "-k", c->dir.path};
    const char *const settings[] = {port,
                                    c->options.has_tcp ? "listen_addresses=127.0.0.1"
                                                       : "listen_addresses=",
                                    "fsync=on",
                                    "shared_buffers=64MB",
                                    "max_connections=100",
                                    "dynamic_shared_memory_type=mmap",
                                    "recovery_init_sync_method=syncfs",
                                    NULL};
    size_t len = 5;
    for (size_t i = 0; settings[i] != NULL; i++) {
        argv[len++] = "-c";
        argv[len++] = settings[i];
    }
    for (size_t i = 0; c->options.settings != NULL && c->options.settings[i] != NULL; i++) {
        assert(i < SETTINGS_MAX);
        argv[len++] = "-c";
        argv[len++] = c->options.settings[i];
    }
    const proc_options options = {.argv = argv,
                                  .user = SERVER_USER,
                                  .directory = c->dir.path,
                                  .in = PROC_NULL,
                                  .out = PROC_FILE,
                                  .out_path = log,
                                  .err = PROC_FILE,
                                  .err_path = log,
                                  .has_own_session = true};
    proc_done(&c->server);
    TIDE_TRY(proc_start(&c->server, &options, err));
    tell_supervisor(c);
    return wait_ready(c, err);
}

static tide_status start_supervisor(pg_cluster *c, tide_error *err)
{
    const char *const argv[] = {"/bin/sh",   "-c", supervisor_script, "tidemark-test-supervisor",
                                c->dir.path, NULL};
    const proc_options options = {.argv = argv,
                                  .directory = "/",
                                  .in = PROC_PIPE,
                                  .out = PROC_NULL,
                                  .err = PROC_NULL,
                                  .has_own_session = true};
    return proc_start(&c->supervisor, &options, err);
}

/* The directory, owned by the user the server runs as. */
static tide_status make_directory(pg_cluster *c, tide_error *err)
{
    TIDE_TRY(tempdir_make(&c->dir, err));
    TIDE_TRY(start_supervisor(c, err));
    const struct sockaddr_un address;
    if (strlen(c->dir.path) + strlen("/.s.PGSQL.65535") >= sizeof(address.sun_path))
        return tide_fail(err, TIDE_E_INVALID, "'%s' is too long for a socket: set TMPDIR=/tmp",
                         c->dir.path);
    if (geteuid() != 0)
        return TIDE_OK;
    const struct passwd *user = getpwnam(SERVER_USER);
    if (user == NULL)
        return tide_fail(err, TIDE_E_NOT_FOUND, "no user '%s' to run PostgreSQL as", SERVER_USER);
    if (chown(c->dir.path, user->pw_uid, user->pw_gid) != 0)
        return tide_fail(err, TIDE_E_IO, "chown '%s': %s", c->dir.path, strerror(errno));
    return TIDE_OK;
}

static void set_socket_url(pg_cluster *c)
{
    char rest[32];
    snprintf(c->base, sizeof(c->base), "postgres://" SERVER_USER "@");
    append_encoded(c->base, sizeof(c->base), c->dir.path);
    snprintf(rest, sizeof(rest), ":%d/", c->port);
    append_text(c->base, sizeof(c->base), rest);
}

/* A free port may be taken by somebody else before the server has it: choose another then. */
static tide_status start_on_free_port(pg_cluster *c, tide_error *err)
{
    tide_status status = TIDE_E_FAILED;
    for (int i = 0; i < TCP_PORT_TRIES && status != TIDE_OK; i++) {
        TIDE_TRY(pick_free_port(&c->port, err));
        set_socket_url(c);
        status = start_server(c, err);
    }
    return status;
}

static tide_status make_and_start(pg_cluster *c, tide_error *err)
{
    TIDE_TRY(find_bin(c->bin, err));
    TIDE_TRY(make_directory(c, err));
    TIDE_TRY(run_initdb(c, err));
    if (c->options.has_tcp)
        return start_on_free_port(c, err);
    c->port = DEFAULT_PORT;
    set_socket_url(c);
    return start_server(c, err);
}

static const proc no_process = {.in_fd = -1, .out_fd = -1, .err_fd = -1, .exit_code = -1};

tide_status pg_cluster_start(pg_cluster *c, const pg_cluster_options *options, tide_error *err)
{
    *c = (pg_cluster){.server = no_process, .supervisor = no_process};
    if (options != NULL)
        c->options = *options;
    const tide_status status = make_and_start(c, err);
    if (status != TIDE_OK)
        pg_cluster_stop(c);
    return status;
}

/* A killed server leaves its System V segment, which only its next start would remove.
 * The 7th line of postmaster.pid is "key id". */
static void remove_shared_memory(const pg_cluster *c)
{
    char path[TEMPDIR_PATH_MAX];
    char line[TEMPDIR_PATH_MAX];
    tempdir_join(&c->dir, "data/postmaster.pid", path);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return;
    for (int i = 0; i < 7 && fgets(line, sizeof(line), file) != NULL; i++) {
        int id;
        if (i == 6 && sscanf(line, "%*s %d", &id) == 1)
            shmctl(id, IPC_RMID, NULL);
    }
    fclose(file);
}

void pg_cluster_stop(pg_cluster *c)
{
    proc_kill(&c->server, SIGQUIT, NULL);
    if (proc_wait(&c->server, PG_CLUSTER_DEADLINE_MS, NULL) != TIDE_OK)
        proc_done(&c->server);
    if (c->dir.path[0] != '\0')
        remove_shared_memory(c);
    if (c->supervisor.pid == 0) {
        tempdir_remove(&c->dir, NULL);
        return;
    }
    /* The end of its pipe lets the supervisor remove the directory. It does so behind our back:
     * a thousand synced files take seconds on some disks. */
    tell_supervisor(c);
    close(c->supervisor.in_fd);
    c->supervisor = no_process;
    c->dir.path[0] = '\0';
}

tide_status pg_cluster_crash(pg_cluster *c, tide_error *err)
{
    assert(c->dir.path[0] != '\0'); /* a server of the test runner is not ours to crash */
    TIDE_TRY(proc_kill_family(&c->server, PG_CLUSTER_DEADLINE_MS, err));
    tell_supervisor(c);
    return TIDE_OK;
}

tide_status pg_cluster_shutdown(pg_cluster *c, tide_error *err)
{
    assert(c->dir.path[0] != '\0');
    TIDE_TRY(proc_kill(&c->server, SIGINT, err));
    TIDE_TRY(proc_wait(&c->server, PG_CLUSTER_DEADLINE_MS, err));
    tell_supervisor(c);
    return TIDE_OK;
}

tide_status pg_cluster_restart(pg_cluster *c, tide_error *err)
{
    assert(c->dir.path[0] != '\0' && c->server.pid == 0); /* crash or shut it down first */
    return start_server(c, err);
}

static tide_status execute(const pg_cluster *c, const char *sql, tide_error *err)
{
    char url[PG_CLUSTER_URL_MAX];
    pg_cluster_url(c, "postgres", url);
    TIDE_CLEANUP(conn_finishp) PGconn *conn = PQconnectdb(url);
    if (PQstatus(conn) != CONNECTION_OK)
        return tide_fail(err, TIDE_E_UNAVAILABLE, "%s", PQerrorMessage(conn));
    TIDE_CLEANUP(result_clearp) PGresult *result = PQexec(conn, sql);
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        return tide_fail(err, TIDE_E_FAILED, "%s: %s", sql, PQresultErrorMessage(result));
    return TIDE_OK;
}

/* A name goes into SQL between quotes; those of tests need no stranger characters. */
static tide_status check_name(const char *name, tide_error *err)
{
    const size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-");
    if (len == 0 || name[len] != '\0' || len >= PG_CLUSTER_NAME_MAX)
        return tide_fail(err, TIDE_E_INVALID, "database name '%s': want a-z, 0-9, _ and -", name);
    return TIDE_OK;
}

tide_status pg_cluster_create_database(const pg_cluster *c, const char *name, const char *from,
                                       tide_error *err)
{
    if (from == NULL)
        from = "template0";
    TIDE_TRY(check_name(name, err));
    TIDE_TRY(check_name(from, err));
    /* WAL_LOG copies through the WAL; the other way, FILE_COPY, costs two checkpoints. */
    char sql[256];
    snprintf(sql, sizeof(sql), "CREATE DATABASE \"%s\" TEMPLATE \"%s\" STRATEGY WAL_LOG", name,
             from);
    return execute(c, sql, err);
}

tide_status pg_cluster_fresh_database(const pg_cluster *c, const char *from,
                                      char name[PG_CLUSTER_NAME_MAX], tide_error *err)
{
    uint64_t chance;
    if (getrandom(&chance, sizeof(chance), 0) != (ssize_t)sizeof(chance))
        return tide_fail(err, TIDE_E_IO, "getrandom: %s", strerror(errno));
    snprintf(name, PG_CLUSTER_NAME_MAX, "test_%016" PRIx64, chance);
    return pg_cluster_create_database(c, name, from, err);
}

tide_status pg_cluster_drop_database(const pg_cluster *c, const char *name, tide_error *err)
{
    TIDE_TRY(check_name(name, err));
    char sql[256];
    snprintf(sql, sizeof(sql), "DROP DATABASE \"%s\" WITH (FORCE)", name);
    return execute(c, sql, err);
}

static pg_cluster shared;
static bool has_shared;
static pid_t shared_owner;
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;

static void stop_shared(void)
{
    /* A copy of this process made by fork() must not stop what is not its own. */
    if (getpid() == shared_owner)
        pg_cluster_stop(&shared);
}

static void options_freep(PQconninfoOption **options)
{
    PQconninfoFree(*options);
}

/* Take over the server behind a URL: all its settings become query parameters, but the database. */
static tide_status use_url(pg_cluster *c, const char *url, tide_error *err)
{
    *c = (pg_cluster){.base = "postgres:///", .server = no_process, .supervisor = no_process};
    char *words = NULL;
    TIDE_CLEANUP(options_freep) PQconninfoOption *options = PQconninfoParse(url, &words);
    if (options == NULL) {
        const tide_status status =
            tide_fail(err, TIDE_E_INVALID, "TIDEMARK_TEST_PG_URL: %s", words != NULL ? words : "?");
        PQfreemem(words);
        return status;
    }
    for (const PQconninfoOption *o = options; o->keyword != NULL; o++) {
        if (o->val == NULL || strcmp(o->keyword, "dbname") == 0)
            continue;
        append_text(c->query, sizeof(c->query), c->query[0] == '\0' ? "?" : "&");
        append_text(c->query, sizeof(c->query), o->keyword);
        append_text(c->query, sizeof(c->query), "=");
        append_encoded(c->query, sizeof(c->query), o->val);
    }
    return TIDE_OK;
}

static tide_status open_shared(tide_error *err)
{
    const char *url = getenv("TIDEMARK_TEST_PG_URL");
    const char *directory = getenv("TIDEMARK_TEST_PG_DIR");
    if (url != NULL && url[0] != '\0')
        return use_url(&shared, url, err);
    if (directory != NULL && directory[0] != '\0') {
        char socket_url[PG_CLUSTER_URL_MAX] = "postgres://" SERVER_USER "@";
        append_encoded(socket_url, sizeof(socket_url), directory);
        return use_url(&shared, socket_url, err);
    }
    TIDE_TRY(pg_cluster_start(&shared, NULL, err));
    shared_owner = getpid();
    atexit(stop_shared);
    return TIDE_OK;
}

tide_status pg_cluster_shared(pg_cluster **out, tide_error *err)
{
    pthread_mutex_lock(&shared_lock);
    const tide_status status = has_shared ? TIDE_OK : open_shared(err);
    has_shared = status == TIDE_OK;
    pthread_mutex_unlock(&shared_lock);
    if (status == TIDE_OK)
        *out = &shared;
    return status;
}

pg_cluster *pg_cluster_for_test(void)
{
    pg_cluster *c = NULL;
    tide_error err;
    const tide_status status = pg_cluster_shared(&c, &err);
    if (status == TIDE_E_NOT_FOUND && !check_is_ci()) {
        print_error("\n*** SKIPPED, NOT TESTED ON POSTGRESQL: %s ***\n\n", err.text);
        skip();
    }
    if (status != TIDE_OK)
        fail_msg("PostgreSQL: %s", err.text);
    return c;
}
