/* doctor_postgres.c - a PostgreSQL server: will it keep what it acknowledges?
 *
 * Speaks to the server itself, not through a store: there may be none yet, or a broken one. */
#include <string.h>

#include "base/cleanup.h"
#include "cli/machine/doctor.h"
#include "store/postgres/pq_library.h"
#include "tidemark_sql.h"

enum {
    SERVER_LEAST = 140000,
    SERVER_MAJOR = 10000,
    VALUE_SIZE = 256,
};

#define CONNECT_SECONDS "10"

static void finishp(PGconn **connection)
{
    tide_pq.finish(*connection);
}

static void clearp(PGresult **result)
{
    tide_pq.clear(*result);
}

/* Releases that can lose or damage rows. */
typedef struct bad_release {
    int from;
    int until;
    const char *why;
} bad_release;

static const bad_release bad_servers[] = {
    {140000, 140004, "can damage indexes that are built or rebuilt concurrently"},
};

typedef struct setting {
    const char *name;
    const char *want; /* NULL: only to be known */
    tide_doctor_level otherwise;
    const char *advice;
} setting;

static const setting settings[] = {
    {"fsync", "on", TIDE_DOCTOR_BAD,
     "a crash of the machine loses or damages everything: set fsync=on"},
    {"full_page_writes", "on", TIDE_DOCTOR_BAD,
     "a power cut can tear pages: set full_page_writes=on, unless the file system never tears "
     "them"},
    {"data_checksums", "on", TIDE_DOCTOR_WARN,
     "damaged pages go unnoticed: enable them with pg_checksums while the server is down"},
    {"synchronous_standby_names", NULL, TIDE_DOCTOR_OK, ""},
    {"wal_sync_method", NULL, TIDE_DOCTOR_OK, ""},
};

/* False: the server does not know it. */
static bool read_setting(PGconn *connection, const char *name, char value[VALUE_SIZE])
{
    char text[VALUE_SIZE];
    (void)snprintf(text, sizeof text, "SHOW %s", name);
    TIDE_CLEANUP(clearp) PGresult *result = tide_pq.exec(connection, text);
    if (tide_pq.resultStatus(result) != PGRES_TUPLES_OK || tide_pq.ntuples(result) != 1)
        return false;
    (void)snprintf(value, VALUE_SIZE, "%s", tide_pq.getvalue(result, 0, 0));
    return true;
}

static void check_version(tide_doctor *doctor, const PGconn *connection)
{
    const int version = tide_pq.serverVersion(connection);
    const int major = version / SERVER_MAJOR;
    const int minor = version % SERVER_MAJOR;
    for (size_t i = 0; i < sizeof bad_servers / sizeof bad_servers[0]; i++) {
        if (version >= bad_servers[i].from && version < bad_servers[i].until) {
            tide_doctor_tell(doctor, TIDE_DOCTOR_WARN, "server", "install the newest minor release",
                             "PostgreSQL %d.%d %s", major, minor, bad_servers[i].why);
            return;
        }
    }
    const bool is_fit = version >= SERVER_LEAST;
    tide_doctor_tell(doctor, is_fit ? TIDE_DOCTOR_OK : TIDE_DOCTOR_BAD, "server",
                     is_fit ? "" : "14 or later is needed", "PostgreSQL %d.%d", major, minor);
}

static void check_setting(tide_doctor *doctor, PGconn *connection, const setting *row)
{
    char value[VALUE_SIZE];
    if (!read_setting(connection, row->name, value)) {
        tide_doctor_tell(doctor, TIDE_DOCTOR_WARN, row->name, "", "cannot be read");
        return;
    }
    const bool is_wanted = !row->want || strcmp(value, row->want) == 0;
    tide_doctor_tell(doctor, is_wanted ? TIDE_DOCTOR_OK : row->otherwise, row->name,
                     is_wanted ? "" : row->advice, "%s", *value ? value : "none");
}

static void check_privileges(tide_doctor *doctor, PGconn *connection)
{
    int missing = 0;
    TIDE_CLEANUP(clearp)
    PGresult *result =
        tide_pq.exec(connection, TIDE_SQL_PRIVILEGE_LIST->engine[TIDE_ENGINE_POSTGRES].text);
    if (tide_pq.resultStatus(result) != PGRES_TUPLES_OK) {
        tide_doctor_tell(doctor, TIDE_DOCTOR_WARN, "privileges", "", "cannot be read");
        return;
    }
    for (int i = 0; i < tide_pq.ntuples(result); i++) {
        if (tide_pq.getvalue(result, i, 1)[0] == 't')
            continue;
        missing++;
        tide_doctor_tell(doctor, TIDE_DOCTOR_WARN, "privileges", tide_pq.getvalue(result, i, 2),
                         "no %s", tide_pq.getvalue(result, i, 0));
    }
    if (missing == 0)
        tide_doctor_tell(doctor, TIDE_DOCTOR_OK, "privileges", "", "all that a store needs");
}

static void tell_unreachable(tide_doctor *doctor, const PGconn *connection)
{
    char words[1024];
    (void)snprintf(words, sizeof words, "%s", tide_pq.errorMessage(connection));
    words[strcspn(words, "\n")] = '\0';
    tide_doctor_tell(doctor, TIDE_DOCTOR_BAD, "server", "check that it runs, and the --store URL",
                     "%s", *words ? words : "cannot be reached");
}

void tide_doctor_check_server(tide_doctor *doctor, const char *url)
{
    tide_error err;
    if (tide_pq_load(&err) < TIDE_OK) {
        tide_doctor_tell(doctor, TIDE_DOCTOR_BAD, "server", "install libpq 14 or later",
                         "not reached without the PostgreSQL client library");
        return;
    }
    const char *const keys[] = {"connect_timeout", "dbname", NULL};
    const char *const values[] = {CONNECT_SECONDS, url, NULL}; /* the URL may say otherwise */
    TIDE_CLEANUP(finishp) PGconn *connection = tide_pq.connectdbParams(keys, values, 1);
    if (!connection || tide_pq.status(connection) != CONNECTION_OK) {
        tell_unreachable(doctor, connection);
        return;
    }
    check_version(doctor, connection);
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        check_setting(doctor, connection, &settings[i]);
    check_privileges(doctor, connection);
    const char *standby = tide_pq.parameterStatus(connection, "in_hot_standby");
    if (standby && strcmp(standby, "on") == 0)
        tide_doctor_tell(doctor, TIDE_DOCTOR_WARN, "role", "numbers are taken on the primary",
                         "a standby: reading only");
}
