#include "support/postgres/pg_cluster.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <libpq-fe.h>
#include <netinet/in.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "support/postgres/pg_cluster_internal.h"

enum {
    DEFAULT_PORT = 5432, /* of the socket's file name; no TCP port is taken by it */
    OWN_SETTINGS_MAX = 8,
    SETTINGS_MAX = 32,
    ARGV_MAX = 8 + 2 * (OWN_SETTINGS_MAX + SETTINGS_MAX),
    TCP_PORT_TRIES = 5,
    LOG_TAIL = 300,
};

const proc pg_no_process = {.in_fd = -1, .out_fd = -1, .err_fd = -1, .exit_code = -1};

/* stdin carries the server's pid (0: none) whenever it changes, and ends when the test program
 * does. $1 is the directory to remove. QUIT is PostgreSQL's immediate shutdown. A zombie counts
 * as ended: it may have no parent that reaps it. */
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
        initdb, "-D",   data,         "-U",        PG_SERVER_USER,      "-A", "trust",
        "-E",   "UTF8", "--locale=C", "--no-sync", "--no-instructions", NULL};
    const proc_options options = {.argv = argv, .user = PG_SERVER_USER, .directory = c->dir.path};
    TIDE_CLEANUP(proc_result_done) proc_result result = {0};
    TIDE_TRY(proc_run(&result, &options, PG_CLUSTER_DEADLINE_MS, err));
    if (result.exit_code != 0)
        return tide_fail(err, TIDE_E_FAILED, "initdb ended with %d: %s", result.exit_code,
                         result.err);
    return TIDE_OK;
}

static bool run_program(const char *const *argv)
{
    const proc_options options = {.argv = argv};
    tide_error err;
    TIDE_CLEANUP(proc_result_done) proc_result result = {0};
    return proc_run(&result, &options, PG_CLUSTER_DEADLINE_MS, &err) == TIDE_OK &&
           result.exit_code == 0;
}

static bool copy_tree(const char *from, const char *to)
{
    return run_program((const char *const[]){"cp", "-a", from, to, NULL});
}

static void remove_tree(const char *path)
{
    (void)run_program((const char *const[]){"rm", "-rf", path, NULL});
}

/* Another version of PostgreSQL has another one: it is called after its programs. */
static bool name_kept(char out[PATH_MAX], const char *directory, const char *bin)
{
    const int len = snprintf(out, PATH_MAX, "%s/empty-cluster", directory);
    if (len >= PATH_MAX || snprintf(out + len, PATH_MAX - (size_t)len, "%s", bin) >= PATH_MAX - len)
        return false;
    for (char *at = out + len; *at; at++)
        if (*at == '/')
            *at = '-';
    return true;
}

/* An empty cluster is the same every time: initdb makes one for the test run, kept beside the
 * helpers, and the others are copies. A copy gets its name by a rename when it is whole; a second
 * one does not replace the first. */
static tide_status make_empty(const pg_cluster *c, tide_error *err)
{
    const char *helpers = getenv("TIDEMARK_HELPER_DIR");
    char kept[PATH_MAX];
    char fresh[PATH_MAX];
    char data[TEMPDIR_PATH_MAX];
    tempdir_join(&c->dir, "data", data);
    if (!c->options.is_copy || helpers == NULL || !name_kept(kept, helpers, c->bin) ||
        snprintf(fresh, sizeof(fresh), "%s.%d", kept, (int)getpid()) >= (int)sizeof(fresh))
        return run_initdb(c, err);
    struct stat found;
    if (stat(kept, &found) == 0)
        return copy_tree(kept, data) ? TIDE_OK : tide_fail(err, TIDE_E_IO, "copy '%s'", kept);
    TIDE_TRY(run_initdb(c, err));
    if (!copy_tree(data, fresh) || rename(fresh, kept) != 0)
        remove_tree(fresh);
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

/* The end of the server's log, for the message of a failed start. */
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

static size_t add_setting(const char *argv[ARGV_MAX], size_t len, const char *setting)
{
    argv[len] = "-c";
    argv[len + 1] = setting;
    return len + 2;
}

/* Behind the len arguments that are there. Shared memory as files of the data directory, so that
 * kill -9 leaves nothing in /dev/shm. Before recovery the server syncs what was written before:
 * one syncfs, not seconds of one fsync per file. */
static void add_settings(const pg_cluster *c, const char *port, const char *argv[ARGV_MAX],
                         size_t len)
{
    const char *const own[] = {
        port,
        c->options.has_tcp ? "listen_addresses=127.0.0.1" : "listen_addresses=",
        "fsync=on",
        "shared_buffers=64MB",
        "max_connections=100",
        "dynamic_shared_memory_type=mmap",
        "recovery_init_sync_method=syncfs",
        c->options.is_copy ? "max_wal_size=128MB" : "max_wal_size=1GB",
    };
    const size_t own_len = sizeof(own) / sizeof(own[0]);
    static_assert(sizeof(own) / sizeof(own[0]) <= OWN_SETTINGS_MAX, "argv has no room");
    for (size_t i = 0; i < own_len; i++)
        len = add_setting(argv, len, own[i]);
    for (size_t i = 0; c->options.settings != NULL && c->options.settings[i] != NULL; i++) {
        assert(i < SETTINGS_MAX);
        len = add_setting(argv, len, c->options.settings[i]);
    }
    argv[len] = NULL;
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

    const char *argv[ARGV_MAX] = {postgres, "-D", data, "-k", c->dir.path};
    add_settings(c, port, argv, 5);
    const proc_options options = {.argv = argv,
                                  .user = PG_SERVER_USER,
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
    const struct passwd *user = getpwnam(PG_SERVER_USER);
    if (user == NULL)
        return tide_fail(err, TIDE_E_NOT_FOUND, "no user '%s' to run PostgreSQL as",
                         PG_SERVER_USER);
    if (chown(c->dir.path, user->pw_uid, user->pw_gid) != 0)
        return tide_fail(err, TIDE_E_IO, "chown '%s': %s", c->dir.path, strerror(errno));
    return TIDE_OK;
}

static void set_socket_url(pg_cluster *c)
{
    char rest[32];
    snprintf(c->base, sizeof(c->base), "postgres://" PG_SERVER_USER "@");
    pg_append_encoded(c->base, sizeof(c->base), c->dir.path);
    snprintf(rest, sizeof(rest), ":%d/", c->port);
    pg_append_text(c->base, sizeof(c->base), rest);
}

/* Another process may take a free port before the server binds it: choose another then. */
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
    TIDE_TRY(pg_find_programs(c->bin, err));
    TIDE_TRY(make_directory(c, err));
    TIDE_TRY(make_empty(c, err));
    if (c->options.has_tcp)
        return start_on_free_port(c, err);
    c->port = DEFAULT_PORT;
    set_socket_url(c);
    return start_server(c, err);
}

tide_status pg_cluster_start(pg_cluster *c, const pg_cluster_options *options, tide_error *err)
{
    *c = (pg_cluster){.server = pg_no_process, .supervisor = pg_no_process};
    if (options != NULL)
        c->options = *options;
    const tide_status status = make_and_start(c, err);
    if (status != TIDE_OK)
        pg_cluster_stop(c);
    return status;
}

static tide_status write_data_file(const pg_cluster *c, const char *name, const char *text,
                                   const char *mode, tide_error *err)
{
    char path[TEMPDIR_PATH_MAX];
    char file[64];
    const struct passwd *user = getpwnam(PG_SERVER_USER);
    snprintf(file, sizeof(file), "data/%s", name);
    tempdir_join(&c->dir, file, path);
    FILE *out = fopen(path, mode);
    if (out == NULL)
        return tide_fail(err, TIDE_E_IO, "cannot write '%s'", path);
    const bool is_written = fputs(text, out) >= 0;
    if (fclose(out) != 0 || !is_written ||
        (geteuid() == 0 && user != NULL && chown(path, user->pw_uid, user->pw_gid) != 0))
        return tide_fail(err, TIDE_E_IO, "cannot write '%s'", path);
    return TIDE_OK;
}

/* The names of these functions since PostgreSQL 15, and before. */
enum { HAS_BACKUP_START = 150000 };

static tide_status copy_data(const pg_cluster *c, const pg_cluster *primary, PGconn *pg,
                             tide_error *err)
{
    const bool is_new = PQserverVersion(pg) >= HAS_BACKUP_START;
    char from[TEMPDIR_PATH_MAX];
    char to[TEMPDIR_PATH_MAX];
    char path[TEMPDIR_PATH_MAX];
    tempdir_join(&primary->dir, "data", from);
    tempdir_join(&c->dir, "data", to);
    PGresult *begun = PQexec(pg, is_new ? "SELECT pg_backup_start('standby', true)"
                                        : "SELECT pg_start_backup('standby', true, false)");
    const bool is_copied = PQresultStatus(begun) == PGRES_TUPLES_OK && copy_tree(from, to);
    PQclear(begun);
    PGresult *ended = PQexec(pg, is_new ? "SELECT labelfile FROM pg_backup_stop(false)"
                                        : "SELECT labelfile FROM pg_stop_backup(false, false)");
    tide_status status = TIDE_OK;
    if (!is_copied || PQresultStatus(ended) != PGRES_TUPLES_OK)
        status = tide_fail(err, TIDE_E_FAILED, "cannot copy '%s': %s", from, PQerrorMessage(pg));
    else
        status = write_data_file(c, "backup_label", PQgetvalue(ended, 0, 0), "w", err);
    PQclear(ended);
    tempdir_join(&c->dir, "data/postmaster.pid", path);
    unlink(path);
    return status;
}

/* A base backup by the server's functions: packages of servers alone have no pg_basebackup. */
static tide_status copy_primary(const pg_cluster *c, const pg_cluster *primary, tide_error *err)
{
    char source[PG_CLUSTER_URL_MAX];
    char setting[PG_CLUSTER_URL_MAX + 64];
    pg_cluster_url(primary, "postgres", source);
    PGconn *pg = PQconnectdb(source);
    const tide_status status = copy_data(c, primary, pg, err);
    PQfinish(pg);
    TIDE_TRY(status);
    snprintf(setting, sizeof(setting), "primary_conninfo = '%s?application_name=standby'\n",
             source);
    TIDE_TRY(write_data_file(c, "postgresql.auto.conf", setting, "a", err));
    return write_data_file(c, "standby.signal", "", "w", err);
}

static tide_status make_standby(pg_cluster *c, const pg_cluster *primary, tide_error *err)
{
    TIDE_TRY(pg_find_programs(c->bin, err));
    TIDE_TRY(make_directory(c, err));
    TIDE_TRY(copy_primary(c, primary, err));
    if (c->options.has_tcp)
        return start_on_free_port(c, err);
    c->port = DEFAULT_PORT;
    set_socket_url(c);
    return start_server(c, err);
}

tide_status pg_cluster_start_standby(pg_cluster *c, const pg_cluster *primary,
                                     const pg_cluster_options *options, tide_error *err)
{
    *c = (pg_cluster){.server = pg_no_process, .supervisor = pg_no_process};
    if (options != NULL)
        c->options = *options;
    const tide_status status = make_standby(c, primary, err);
    if (status != TIDE_OK)
        pg_cluster_stop(c);
    return status;
}

tide_status pg_cluster_query(const pg_cluster *c, const char *sql, char *out, size_t size,
                             tide_error *err)
{
    char url[PG_CLUSTER_URL_MAX];
    pg_cluster_url(c, "postgres", url);
    PGconn *pg = PQconnectdb(url);
    PGresult *result = PQexec(pg, sql);
    const ExecStatusType state = PQresultStatus(result);
    tide_status status = TIDE_OK;
    if (state != PGRES_TUPLES_OK && state != PGRES_COMMAND_OK)
        status = tide_fail(err, TIDE_E_FAILED, "%s: %s", sql, PQerrorMessage(pg));
    else if (out != NULL)
        snprintf(out, size, "%s", PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "");
    PQclear(result);
    PQfinish(pg);
    return status;
}

tide_status pg_cluster_promote(const pg_cluster *c, tide_error *err)
{
    char is_promoted[8] = "";
    TIDE_TRY(
        pg_cluster_query(c, "SELECT pg_promote(true, 60)", is_promoted, sizeof(is_promoted), err));
    return strcmp(is_promoted, "t") == 0
               ? TIDE_OK
               : tide_fail(err, TIDE_E_TIMEOUT, "the standby was not promoted");
}

static tide_status set_standby_names(const pg_cluster *c, const char *names, tide_error *err)
{
    char sql[128];
    (void)snprintf(sql, sizeof sql, "ALTER SYSTEM SET synchronous_standby_names = '%s'", names);
    TIDE_TRY(pg_cluster_query(c, sql, NULL, 0, err));
    return pg_cluster_query(c, "SELECT pg_reload_conf()", NULL, 0, err);
}

/* Commit on `pg` until one waits for a standby, and give that one up. */
static tide_status wait_for_waiting_commit(const pg_cluster *c, PGconn *pg, tide_error *err)
{
    char sql[128];
    char event[64] = "";
    char problem[256];
    (void)snprintf(sql, sizeof sql, "SELECT wait_event FROM pg_stat_activity WHERE pid = %d",
                   PQbackendPID(pg));
    for (;;) {
        if (!PQsendQuery(pg, "SELECT pg_logical_emit_message(true, 'tests', '')"))
            return tide_fail(err, TIDE_E_FAILED, "%s", PQerrorMessage(pg));
        do {
            TIDE_TRY(pg_cluster_query(c, sql, event, sizeof event, err));
            if (!PQconsumeInput(pg))
                return tide_fail(err, TIDE_E_FAILED, "%s", PQerrorMessage(pg));
        } while (strcmp(event, "SyncRep") != 0 && PQisBusy(pg));
        if (strcmp(event, "SyncRep") == 0) {
            PGcancel *cancel = PQgetCancel(pg);
            const bool is_cancelled = PQcancel(cancel, problem, sizeof problem);
            PQfreeCancel(cancel);
            return is_cancelled ? TIDE_OK : tide_fail(err, TIDE_E_FAILED, "%s", problem);
        }
        for (PGresult *result = PQgetResult(pg); result != NULL; result = PQgetResult(pg))
            PQclear(result);
    }
}

tide_status pg_cluster_require_standby(const pg_cluster *c, const char *names, tide_error *err)
{
    if (strcmp(names, "") == 0)
        return set_standby_names(c, "", err);
    /* A standby that does not exist: that commits wait for one of `names` could not be seen. */
    TIDE_TRY(set_standby_names(c, "absent", err));
    char url[PG_CLUSTER_URL_MAX];
    pg_cluster_url(c, "postgres", url);
    PGconn *pg = PQconnectdb(url);
    const tide_status status = wait_for_waiting_commit(c, pg, err);
    PQfinish(pg);
    return status == TIDE_OK ? set_standby_names(c, names, err) : status;
}

/* Of "key id". */
static bool parse_segment(const char *line, int *id)
{
    const char *second = line + strspn(line, " ");
    second += strcspn(second, " ");
    char *end = NULL;
    errno = 0;
    const long value = strtol(second, &end, 10);
    if (end == second || errno != 0 || value < 0 || value > INT_MAX)
        return false;
    *id = (int)value;
    return true;
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
    bool has_line = true;
    for (int i = 0; i < 7 && has_line; i++)
        has_line = fgets(line, sizeof(line), file) != NULL;
    int id;
    if (has_line && parse_segment(line, &id))
        shmctl(id, IPC_RMID, NULL);
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
    c->supervisor = pg_no_process;
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
