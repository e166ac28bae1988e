/* doctor_postgres.c - a PostgreSQL server: will it keep what it acknowledges?
 *
 * Speaks to the server itself, not through a store: there may be none yet, or a broken one. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/machine/doctor.h"
#include "store/postgres/pg_hosts.h"
#include "tidemark_sql.h"

enum {
    SERVER_LEAST = 140000,
    SERVER_MAJOR = 10000,
    VALUE_SIZE = 256,
    REASON_SIZE = 1024,
    CONNECT_S_MIN = 2, /* libpq's least */
    CONNECT_S_MAX = 10,
};

/* How long to wait for each server, so that all of them fit into --timeout. */
typedef struct patience {
    char seconds[16];
} patience;

static patience divide_timeout(const tide_cli *cli, int hosts)
{
    patience out;
    int64_t seconds =
        tide_cli_number(cli, TIDE_CLI_TIMEOUT) / 1000000 / (hosts > 1 ? hosts + 1 : 1);
    if (seconds < CONNECT_S_MIN)
        seconds = CONNECT_S_MIN;
    if (seconds > CONNECT_S_MAX)
        seconds = CONNECT_S_MAX;
    (void)snprintf(out.seconds, sizeof out.seconds, "%d", (int)seconds);
    return out;
}

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

/* ---- the other servers ---- */

static PGconn *connect_server(const char *url, const tide_pg_endpoint *host, const patience *wait)
{
    const char *const keys[] = {"connect_timeout",      "dbname", "host", "hostaddr", "port",
                                "target_session_attrs", NULL};
    const char *const values[] = {wait->seconds, /* the URL may override it */
                                  url,
                                  host ? host->host : NULL,
                                  host ? host->hostaddr : NULL,
                                  host ? host->port : NULL,
                                  host ? "any" : NULL,
                                  NULL};
    return tide_pq.connectdbParams(keys, values, 1);
}

/* The first line of libpq's message. */
static void copy_reason(char out[REASON_SIZE], const PGconn *connection)
{
    (void)snprintf(out, REASON_SIZE, "%s", tide_pq.errorMessage(connection));
    out[strcspn(out, "\n")] = '\0';
    if (!*out)
        (void)snprintf(out, REASON_SIZE, "cannot be reached");
}

/* Asked in a transaction: what a pooler reports when it lets us in may be another server's. */
static bool is_standby(PGconn *connection)
{
    TIDE_CLEANUP(clearp)
    PGresult *result =
        tide_pq.exec(connection, TIDE_SQL_SERVER_IS_STANDBY->engine[TIDE_ENGINE_POSTGRES].text);
    return tide_pq.resultStatus(result) == PGRES_TUPLES_OK &&
           tide_pq.getvalue(result, 0, 0)[0] == 't';
}

/* Returns whether it is a primary. */
static bool check_host(tide_doctor *doctor, const char *url, const tide_pg_endpoint *host,
                       const patience *wait)
{
    char reason[REASON_SIZE];
    const char *name = host->host[0] ? host->host : host->hostaddr;
    const char *port = host->port[0] ? host->port : TIDE_PG_PORT_DEFAULT;
    TIDE_CLEANUP(finishp) PGconn *connection = connect_server(url, host, wait);
    if (!connection || tide_pq.status(connection) != CONNECTION_OK) {
        copy_reason(reason, connection);
        tide_doctor_tell(doctor, TIDE_DOCTOR_WARN, "host",
                         "after a failover to it the store would be away", "%s:%s: %s", name, port,
                         reason);
        return false;
    }
    const bool is_primary = !is_standby(connection);
    tide_doctor_tell(doctor, TIDE_DOCTOR_OK, "host", "", "%s:%s: %s", name, port,
                     is_primary ? "primary" : "standby");
    return is_primary;
}

static void check_hosts(tide_doctor *doctor, const char *url, const tide_pg_hosts *hosts,
                        bool is_reading, int standby_count, const patience *wait)
{
    int primary_count = 0;
    if (hosts->count == 1 && is_reading) {
        tide_doctor_tell(doctor, TIDE_DOCTOR_OK, "hosts", "", "1 in the URL, a standby");
        return;
    }
    if (hosts->count == 1) {
        const bool is_alone = standby_count == 0;
        tide_doctor_tell(doctor, is_alone ? TIDE_DOCTOR_OK : TIDE_DOCTOR_WARN, "hosts",
                         is_alone ? ""
                                  : "a failover is not followed: name all servers in the URL, "
                                    "unless this name follows the primary",
                         "1 in the URL, %d standbys", standby_count);
        return;
    }
    for (int i = 0; i < hosts->count; i++) {
        tide_pg_endpoint host;
        tide_pg_hosts_get(hosts, i, &host);
        primary_count += check_host(doctor, url, &host, wait);
    }
    if (primary_count > 1)
        tide_doctor_tell(doctor, TIDE_DOCTOR_BAD, "hosts",
                         "stop the one that returned, and make it a standby",
                         "%d primaries in one URL", primary_count);
    else if (primary_count == 0)
        tide_doctor_tell(doctor, TIDE_DOCTOR_WARN, "hosts",
                         "writes are refused until one is promoted", "no primary in the URL");
    else if (hosts->wanted == TIDE_PG_WANTED_ANY)
        tide_doctor_tell(doctor, TIDE_DOCTOR_WARN, "hosts",
                         "a standby may answer reads late: add target_session_attrs=read-write",
                         "%d in the URL, any of them is read", hosts->count);
    else
        tide_doctor_tell(doctor, TIDE_DOCTOR_OK, "hosts", "", "%d in the URL, one primary",
                         hosts->count);
}

typedef struct standbys {
    int count;
    int visible;     /* whose state this role may see */
    int synchronous; /* of these */
    bool is_required;
    bool can_rewind;
} standbys;

static int number_of(const char *value)
{
    return (int)strtol(value, NULL, 10);
}

/* Of a primary; a standby has none of its own. */
static void read_standbys(PGconn *connection, standbys *out)
{
    *out = (standbys){.can_rewind = true};
    TIDE_CLEANUP(clearp)
    PGresult *result =
        tide_pq.exec(connection, TIDE_SQL_STANDBY_LIST->engine[TIDE_ENGINE_POSTGRES].text);
    if (tide_pq.resultStatus(result) != PGRES_TUPLES_OK)
        return;
    *out = (standbys){.count = number_of(tide_pq.getvalue(result, 0, 0)),
                      .visible = number_of(tide_pq.getvalue(result, 0, 1)),
                      .synchronous = number_of(tide_pq.getvalue(result, 0, 2)),
                      .is_required = tide_pq.getvalue(result, 0, 3)[0] == 't',
                      .can_rewind = tide_pq.getvalue(result, 0, 4)[0] == 't'};
}

static void check_standbys(tide_doctor *doctor, const standbys *found)
{
    if (!found->is_required && found->count > 0)
        tide_doctor_tell(doctor, TIDE_DOCTOR_WARN, "standbys",
                         "a failover can lose acknowledged commits: set "
                         "synchronous_standby_names (Patroni: synchronous_mode: true)",
                         "%d, none of them synchronous", found->count);
    else if (found->is_required && found->synchronous == 0 &&
             (found->visible > 0 || found->count == 0))
        tide_doctor_tell(doctor, TIDE_DOCTOR_WARN, "standbys",
                         "calls end with \"waiting for synchronous standby\": start it, or take it "
                         "out of synchronous_standby_names",
                         "%d, and the required one is away", found->count);
    else
        tide_doctor_tell(doctor, TIDE_DOCTOR_OK, "standbys", "", "%d%s", found->count,
                         found->is_required ? ", commits wait for them" : "");
    if (found->count > 0 && !found->can_rewind)
        tide_doctor_tell(doctor, TIDE_DOCTOR_WARN, "rewind",
                         "set wal_log_hints=on, or enable data checksums",
                         "pg_rewind cannot make an old primary a standby");
}

static void check_connected(tide_doctor *doctor, PGconn *connection, const char *url,
                            const tide_pg_hosts *hosts, const patience *wait)
{
    check_version(doctor, connection);
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        check_setting(doctor, connection, &settings[i]);
    check_privileges(doctor, connection);
    const bool is_reading = is_standby(connection);
    standbys found;
    read_standbys(connection, &found);
    if (is_reading)
        tide_doctor_tell(doctor, TIDE_DOCTOR_WARN, "role",
                         "writes end with exit 6: name the primary in the URL, unless this is a "
                         "source for reads",
                         "read-only standby");
    else
        check_standbys(doctor, &found);
    check_hosts(doctor, url, hosts, is_reading, found.count, wait);
}

bool tide_doctor_check_server(tide_doctor *doctor, const char *url)
{
    tide_error err;
    char reason[REASON_SIZE];
    if (tide_pq_load(&err) < TIDE_OK) {
        tide_doctor_tell(doctor, TIDE_DOCTOR_BAD, "server", "install libpq 14 or later",
                         "not reached without the PostgreSQL client library");
        return false;
    }
    tide_pg_hosts hosts = {.count = 1};
    PQconninfoOption *parsed = tide_pq.conninfoParse(url, NULL);
    if (parsed)
        tide_pg_hosts_read(&hosts, parsed);
    tide_pq.conninfoFree(parsed);
    const patience wait = divide_timeout(doctor->cli, hosts.count);
    TIDE_CLEANUP(finishp) PGconn *connection = connect_server(url, NULL, &wait);
    const bool is_connected = connection && tide_pq.status(connection) == CONNECTION_OK;
    if (is_connected) {
        check_connected(doctor, connection, url, &hosts, &wait);
    } else {
        copy_reason(reason, connection);
        tide_doctor_tell(doctor, TIDE_DOCTOR_BAD, "server",
                         "check that it runs, and the --store URL", "%s", reason);
    }
    tide_pg_hosts_done(&hosts);
    return is_connected;
}
