#include "support/postgres/pg_cluster.h"

#include <errno.h>
#include <inttypes.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"

static void conn_finishp(PGconn **conn)
{
    PQfinish(*conn);
}

static void result_clearp(PGresult **result)
{
    PQclear(*result);
}

enum { HAS_STRATEGY = 150000 }; /* CREATE DATABASE, from this version of the server on */

/* `more` is added to the statement where the server knows it. */
static tide_status execute(const pg_cluster *c, const char *statement, const char *more,
                           tide_error *err)
{
    char url[PG_CLUSTER_URL_MAX];
    char sql[320];
    pg_cluster_url(c, "postgres", url);
    TIDE_CLEANUP(conn_finishp) PGconn *conn = PQconnectdb(url);
    if (PQstatus(conn) != CONNECTION_OK)
        return tide_fail(err, TIDE_E_UNAVAILABLE, "%s", PQerrorMessage(conn));
    snprintf(sql, sizeof sql, "%s%s", statement, PQserverVersion(conn) >= HAS_STRATEGY ? more : "");
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

/* owner NULL: the superuser. */
static tide_status create_database(const pg_cluster *c, const char *name, const char *from,
                                   const char *owner, tide_error *err)
{
    if (from == NULL)
        from = "template0";
    TIDE_TRY(check_name(name, err));
    TIDE_TRY(check_name(from, err));
    /* WAL_LOG copies through the WAL; the other way, FILE_COPY, costs two checkpoints. */
    char sql[256];
    snprintf(sql, sizeof(sql), "CREATE DATABASE \"%s\" TEMPLATE \"%s\"%s%s", name, from,
             owner ? " OWNER " : "", owner ? owner : "");
    return execute(c, sql, " STRATEGY WAL_LOG", err);
}

tide_status pg_cluster_create_database(const pg_cluster *c, const char *name, const char *from,
                                       tide_error *err)
{
    return create_database(c, name, from, NULL, err);
}

static tide_status make_name(char name[PG_CLUSTER_NAME_MAX], tide_error *err)
{
    uint64_t chance;
    if (getrandom(&chance, sizeof(chance), 0) != (ssize_t)sizeof(chance))
        return tide_fail(err, TIDE_E_IO, "getrandom: %s", strerror(errno));
    snprintf(name, PG_CLUSTER_NAME_MAX, "test_%016" PRIx64, chance);
    return TIDE_OK;
}

tide_status pg_cluster_fresh_database(const pg_cluster *c, const char *from,
                                      char name[PG_CLUSTER_NAME_MAX], tide_error *err)
{
    TIDE_TRY(make_name(name, err));
    return create_database(c, name, from, NULL, err);
}

/* Programs of a test run share a server, and may create it at once. */
static tide_status make_owner(const pg_cluster *c, tide_error *err)
{
    return execute(c,
                   "DO $$ BEGIN IF to_regrole('" PG_OWNER "') IS NULL THEN CREATE ROLE " PG_OWNER
                   " LOGIN; END IF; EXCEPTION WHEN duplicate_object OR unique_violation "
                   "THEN NULL; END $$",
                   "", err);
}

tide_status pg_cluster_owned_database(const pg_cluster *c, const char *from,
                                      char name[PG_CLUSTER_NAME_MAX], tide_error *err)
{
    if (from == NULL)
        TIDE_TRY(make_owner(c, err));
    TIDE_TRY(make_name(name, err));
    return create_database(c, name, from, PG_OWNER, err);
}

tide_status pg_cluster_drop_database(const pg_cluster *c, const char *name, tide_error *err)
{
    TIDE_TRY(check_name(name, err));
    char sql[256];
    snprintf(sql, sizeof(sql), "DROP DATABASE \"%s\" WITH (FORCE)", name);
    return execute(c, sql, "", err);
}
