/* pg_hosts.h - hosts of a PostgreSQL URL, and which of them it admits.
 *
 * A URL may name several servers, of which one is the primary:
 *
 *     postgres://app@db1,db2,db3/tidemark?target_session_attrs=read-write
 *
 * Threads: read-only after tide_pg_hosts_read. */
#pragma once

#include "store/postgres/pq_library.h"

enum { TIDE_PG_HOST_SIZE = 256, TIDE_PG_PORT_SIZE = 8 };
#define TIDE_PG_PORT_DEFAULT "5432" /* libpq's */

/* By target_session_attrs. */
typedef enum tide_pg_wanted {
    TIDE_PG_WANTED_ANY,     /* reads anywhere, writes on the primary */
    TIDE_PG_WANTED_PRIMARY, /* read-write, primary */
    TIDE_PG_WANTED_STANDBY, /* read-only, standby, prefer-standby: libpq chooses */
} tide_pg_wanted;

/* Lists separated by commas, as in libpq; NULL: none given. */
typedef struct tide_pg_hosts {
    char *host;
    char *hostaddr;
    char *port;
    int count; /* at least 1 */
    tide_pg_wanted wanted;
} tide_pg_hosts;

/* One of them; "" where the URL has nothing. */
typedef struct tide_pg_endpoint {
    char host[TIDE_PG_HOST_SIZE];
    char hostaddr[TIDE_PG_HOST_SIZE];
    char port[TIDE_PG_PORT_SIZE];
} tide_pg_endpoint;

/* From what PQconninfoParse returned. Without memory for a list the choice is libpq's. */
void tide_pg_hosts_read(tide_pg_hosts *hosts, const PQconninfoOption *options);
void tide_pg_hosts_done(tide_pg_hosts *hosts);

void tide_pg_hosts_get(const tide_pg_hosts *hosts, int index, tide_pg_endpoint *out);
