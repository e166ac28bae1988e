#include "raw_pg.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"

enum {
    OID_INT8 = 20,
    OID_TEXT = 25,
    PAGE_ROWS = 1000,
    POLL_NS = 1000000, /* between two looks of a tailer that found nothing */
};

static const char *const write_texts[RAW_PG_KINDS] = {
    [RAW_PG_HELD] = "WITH taken AS (INSERT INTO held_counter (name, last) VALUES ('held', 1)"
                    " ON CONFLICT (name) DO UPDATE SET last = held_counter.last + 1 RETURNING last)"
                    " INSERT INTO held (seq_id, writer, n, at)"
                    " SELECT last, $1, $2, clock_timestamp() FROM taken",
    [RAW_PG_NEXTVAL] = "INSERT INTO plain (seq_id, writer, n, at)"
                       " VALUES (nextval('plain_seq'), $1, $2, clock_timestamp())",
};

static const char *const tables =
    "CREATE TABLE held_counter (name text NOT NULL PRIMARY KEY, last bigint NOT NULL);"
    "CREATE TABLE held (seq_id bigint NOT NULL PRIMARY KEY, writer text NOT NULL, n bigint NOT "
    "NULL,"
    " at timestamptz NOT NULL);"
    "CREATE SEQUENCE plain_seq;"
    "CREATE TABLE plain (seq_id bigint NOT NULL PRIMARY KEY, writer text NOT NULL, n bigint NOT "
    "NULL,"
    " at timestamptz NOT NULL);";

PGconn *raw_pg_connect(const char *url)
{
    PGconn *pg = PQconnectdb(url);
    if (PQstatus(pg) != CONNECTION_OK)
        bench_die("%s", PQerrorMessage(pg));
    return pg;
}

static void end_command(PGconn *pg, PGresult *result, const char *what)
{
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        bench_die("%s: %s", what, PQerrorMessage(pg));
    PQclear(result);
}

void raw_pg_make_tables(const char *url)
{
    PGconn *pg = raw_pg_connect(url);
    end_command(pg, PQexec(pg, tables), "the raw contestants' tables");
    PQfinish(pg);
}

PGconn *raw_pg_open_writer(const char *url, raw_pg_kind kind)
{
    static const Oid types[] = {OID_TEXT, OID_INT8};
    PGconn *pg = raw_pg_connect(url);
    end_command(pg, PQexec(pg, "SET synchronous_commit=on"), "synchronous_commit");
    end_command(pg, PQprepare(pg, "write", write_texts[kind], 2, types), write_texts[kind]);
    return pg;
}

void raw_pg_write(PGconn *pg, const char *writer, int64_t n)
{
    const uint64_t wire = htobe64((uint64_t)n);
    const char *values[] = {writer, (const char *)&wire};
    const int lens[] = {0, sizeof wire};
    const int formats[] = {0, 1};
    end_command(pg, PQexecPrepared(pg, "write", 2, values, lens, formats, 1), "write");
}

void raw_pg_write_unnamed(PGconn *pg, raw_pg_kind kind, const char *writer, int64_t n)
{
    static const Oid types[] = {OID_TEXT, OID_INT8};
    const uint64_t wire = htobe64((uint64_t)n);
    const char *values[] = {writer, (const char *)&wire};
    const int lens[] = {0, sizeof wire};
    const int formats[] = {0, 1};
    end_command(pg, PQexecParams(pg, write_texts[kind], 2, types, values, lens, formats, 1),
                "write");
}

int64_t raw_pg_ask(PGconn *pg, const char *query)
{
    PGresult *result = PQexec(pg, query);
    if (PQresultStatus(result) != PGRES_TUPLES_OK || PQntuples(result) != 1)
        bench_die("%s: %s", query, PQerrorMessage(pg));
    const int64_t value = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    return value;
}

/* ---- the tailer ---- */

/* One page above the last number seen; returns its rows. */
static int read_page(raw_pg_tailer *tailer)
{
    char query[256];
    (void)snprintf(query, sizeof query,
                   "SELECT seq_id FROM %s WHERE seq_id > %lld ORDER BY seq_id LIMIT %d",
                   tailer->table, (long long)tailer->last, PAGE_ROWS);
    PGresult *result = PQexec(tailer->pg, query);
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        bench_die("%s: %s", query, PQerrorMessage(tailer->pg));
    const int rows = PQntuples(result);
    if (rows > 0)
        tailer->last = strtoll(PQgetvalue(result, rows - 1, 0), NULL, 10);
    tailer->seen += rows;
    PQclear(result);
    return rows;
}

static void *follow(void *arg)
{
    raw_pg_tailer *tailer = arg;
    const struct timespec pause = {.tv_nsec = POLL_NS};
    while (!atomic_load(&tailer->is_over))
        if (read_page(tailer) == 0)
            (void)nanosleep(&pause, NULL);
    while (read_page(tailer) > 0)
        ;
    return NULL;
}

void raw_pg_tailer_start(raw_pg_tailer *tailer, const char *url, const char *table)
{
    *tailer = (raw_pg_tailer){.pg = raw_pg_connect(url), .table = table};
    char query[128];
    (void)snprintf(query, sizeof query, "SELECT coalesce(max(seq_id), 0) FROM %s", table);
    tailer->first = tailer->last = raw_pg_ask(tailer->pg, query);
    if (pthread_create(&tailer->thread, NULL, follow, tailer) != 0)
        bench_die("cannot start the tailer");
}

int64_t raw_pg_tailer_stop(raw_pg_tailer *tailer, int64_t *total)
{
    atomic_store(&tailer->is_over, true);
    (void)pthread_join(tailer->thread, NULL);
    char query[128];
    (void)snprintf(query, sizeof query, "SELECT count(*) FROM %s WHERE seq_id > %lld",
                   tailer->table, (long long)tailer->first);
    *total = raw_pg_ask(tailer->pg, query);
    PQfinish(tailer->pg);
    return *total - tailer->seen;
}
