#include "lake_cost.h"

#include <dirent.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "bench.h"
#include "raw_pg.h"

/* Nanoseconds on a processor: the first figure of schedstat. */
static double processor_us(const char *pid)
{
    char path[64];
    char line[128] = "";
    (void)snprintf(path, sizeof path, "/proc/%.20s/schedstat", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    const char *got = fgets(line, sizeof line, file);
    (void)fclose(file);
    return got ? strtod(line, NULL) / 1e3 : 0;
}

/* The fourth word of stat, behind a name in brackets. */
static pid_t parent_of(const char *pid)
{
    char path[64];
    char line[512] = "";
    (void)snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    const char *got = fgets(line, sizeof line, file);
    (void)fclose(file);
    const char *at = got;
    for (const char *c = line; got && *c; c++)
        if (*c == ')')
            at = c;
    return got && at[0] && at[1] && at[2] ? (pid_t)strtol(at + 4, NULL, 10) : 0;
}

static void mark_server(lake_cost_mark *out, pid_t server)
{
    DIR *all = opendir("/proc");
    if (!all)
        bench_die("/proc cannot be read");
    for (const struct dirent *entry = readdir(all); entry; entry = readdir(all)) {
        const pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid <= 0 || out->count == LAKE_COST_PROCESSES ||
            (pid != server && parent_of(entry->d_name) != server))
            continue;
        out->server[out->count].pid = pid;
        out->server[out->count++].us = processor_us(entry->d_name);
    }
    (void)closedir(all);
}

static double wal_bytes(const char *url)
{
    PGconn *pg = raw_pg_connect(url);
    PGresult *result = PQexec(pg, "SELECT pg_current_wal_insert_lsn() - '0/0'");
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        bench_die("the WAL: %s", PQerrorMessage(pg));
    const double bytes = strtod(PQgetvalue(result, 0, 0), NULL);
    PQclear(result);
    PQfinish(pg);
    return bytes;
}

void lake_cost_now(lake_cost_mark *out, pid_t server, const char *url)
{
    struct timespec own;
    out->count = 0;
    out->wal_bytes = server > 0 ? wal_bytes(url) : 0;
    if (server > 0)
        mark_server(out, server);
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
    out->client_us = (double)own.tv_sec * 1e6 + (double)own.tv_nsec / 1e3;
}

void lake_cost_add(lake_cost *sum, const lake_cost_mark *after, const lake_cost_mark *before)
{
    sum->client_us += after->client_us - before->client_us;
    sum->wal_bytes += after->wal_bytes - before->wal_bytes;
    for (int i = 0; i < after->count; i++)
        for (int k = 0; k < before->count; k++)
            if (before->server[k].pid == after->server[i].pid)
                sum->server_us += after->server[i].us - before->server[k].us;
}
