#include "support/postgres/pg_bouncer.h"

#include <libpq-fe.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "support/postgres/pg_cluster_internal.h"

static const char program[] = "/usr/sbin/pgbouncer";

enum { SOCKET_PORT = 6432 };

static tide_status write_settings(const pg_bouncer *b, const pg_cluster *cluster,
                                  const char *settings, char path[TEMPDIR_PATH_MAX],
                                  tide_error *err)
{
    tempdir_join(&b->dir, "pgbouncer.ini", path);
    FILE *out = fopen(path, "we");
    if (out == NULL)
        return tide_fail(err, TIDE_E_IO, "cannot write '%s'", path);
    fprintf(out,
            "[databases]\n* = host=%s port=%d user=" PG_SERVER_USER "\n[pgbouncer]\nlisten_addr=\n"
            "listen_port=%d\nunix_socket_dir=%s\nauth_type=any\npool_mode=transaction\n"
            "default_pool_size=2\nserver_round_robin=1\n%s\n",
            cluster->dir.path, cluster->port, b->port, b->dir.path, settings);
    return fclose(out) == 0 ? TIDE_OK : tide_fail(err, TIDE_E_IO, "cannot write '%s'", path);
}

static tide_status wait_ready(pg_bouncer *b, tide_error *err)
{
    const int64_t deadline_ms = proc_now_ms() + PG_CLUSTER_DEADLINE_MS;
    char url[PG_CLUSTER_URL_MAX];
    pg_bouncer_url(b, "postgres", url);
    while (PQping(url) != PQPING_OK) {
        if (proc_poll(&b->process))
            return tide_fail(err, TIDE_E_FAILED, "pgbouncer ended with %d", b->process.exit_code);
        if (proc_now_ms() >= deadline_ms)
            return tide_fail(err, TIDE_E_TIMEOUT, "pgbouncer is not ready");
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    return TIDE_OK;
}

static tide_status start(pg_bouncer *b, const pg_cluster *cluster, const char *settings,
                         tide_error *err)
{
    char ini[TEMPDIR_PATH_MAX];
    char log[TEMPDIR_PATH_MAX];
    TIDE_TRY(tempdir_make(&b->dir, err));
    const struct passwd *user = getpwnam(PG_SERVER_USER);
    if (geteuid() == 0 && user != NULL && chown(b->dir.path, user->pw_uid, user->pw_gid) != 0)
        return tide_fail(err, TIDE_E_IO, "chown '%s'", b->dir.path);
    TIDE_TRY(write_settings(b, cluster, settings, ini, err));
    tempdir_join(&b->dir, "pgbouncer.log", log);
    const char *const argv[] = {program, ini, NULL};
    const proc_options options = {.argv = argv,
                                  .user = PG_SERVER_USER,
                                  .directory = b->dir.path,
                                  .in = PROC_NULL,
                                  .out = PROC_NULL,
                                  .err = PROC_FILE,
                                  .err_path = log};
    TIDE_TRY(proc_start(&b->process, &options, err));
    return wait_ready(b, err);
}

tide_status pg_bouncer_start(pg_bouncer *b, const pg_cluster *cluster, const char *settings,
                             tide_error *err)
{
    *b = (pg_bouncer){.process = pg_no_process, .port = SOCKET_PORT};
    if (access(program, X_OK) != 0)
        return tide_fail(err, TIDE_E_NOT_FOUND,
                         "PgBouncer is not installed (apt-get install pgbouncer)");
    const tide_status status = start(b, cluster, settings, err);
    if (status != TIDE_OK)
        pg_bouncer_stop(b);
    return status;
}

void pg_bouncer_stop(pg_bouncer *b)
{
    if (b->process.pid > 0) {
        proc_kill(&b->process, SIGKILL, NULL);
        if (proc_wait(&b->process, PG_CLUSTER_DEADLINE_MS, NULL) != TIDE_OK)
            proc_done(&b->process);
    }
    tempdir_remove(&b->dir, NULL);
}

void pg_bouncer_url(const pg_bouncer *b, const char *database, char out[PG_CLUSTER_URL_MAX])
{
    char rest[32];
    snprintf(out, PG_CLUSTER_URL_MAX, "postgres://" PG_SERVER_USER "@");
    pg_append_encoded(out, PG_CLUSTER_URL_MAX, b->dir.path);
    snprintf(rest, sizeof(rest), ":%d/", b->port);
    pg_append_text(out, PG_CLUSTER_URL_MAX, rest);
    pg_append_encoded(out, PG_CLUSTER_URL_MAX, database);
}
