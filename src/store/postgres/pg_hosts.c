#include "store/postgres/pg_hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A value that libpq does not know is refused when it connects. */
static tide_pg_wanted read_wanted(const char *value)
{
    if (strcmp(value, "any") == 0)
        return TIDE_PG_WANTED_ANY;
    return strcmp(value, "read-write") == 0 || strcmp(value, "primary") == 0
               ? TIDE_PG_WANTED_PRIMARY
               : TIDE_PG_WANTED_STANDBY;
}

static int count_commas(const char *list)
{
    int count = 0;
    for (; list && *list; list++)
        count += *list == ',';
    return count;
}

void tide_pg_hosts_read(tide_pg_hosts *hosts, const PQconninfoOption *options)
{
    *hosts = (tide_pg_hosts){.wanted = TIDE_PG_WANTED_ANY};
    for (; options->keyword; options++) {
        const char *value = options->val;
        if (!value || !value[0])
            continue;
        if (strcmp(options->keyword, "host") == 0)
            hosts->host = strdup(value);
        else if (strcmp(options->keyword, "hostaddr") == 0)
            hosts->hostaddr = strdup(value);
        else if (strcmp(options->keyword, "port") == 0)
            hosts->port = strdup(value);
        else if (strcmp(options->keyword, "target_session_attrs") == 0)
            hosts->wanted = read_wanted(value);
    }
    hosts->count = 1 + count_commas(hosts->host ? hosts->host : hosts->hostaddr);
}

void tide_pg_hosts_done(tide_pg_hosts *hosts)
{
    free(hosts->host);
    free(hosts->hostaddr);
    free(hosts->port);
    *hosts = (tide_pg_hosts){.count = 0};
}

/* The index-th of a list, or the only one. */
static void pick(char *out, size_t size, const char *list, int index)
{
    const char *at = list ? list : "";
    if (strchr(at, ','))
        for (; index > 0 && *at; index--) {
            at += strcspn(at, ",");
            at += *at == ',';
        }
    (void)snprintf(out, size, "%.*s", (int)strcspn(at, ","), at);
}

void tide_pg_hosts_get(const tide_pg_hosts *hosts, int index, tide_pg_endpoint *out)
{
    pick(out->host, sizeof out->host, hosts->host, index);
    pick(out->hostaddr, sizeof out->hostaddr, hosts->hostaddr, index);
    pick(out->port, sizeof out->port, hosts->port, index);
    /* libpq ignores an empty value, and would match the whole list with one host. */
    if (hosts->port && !out->port[0])
        (void)snprintf(out->port, sizeof out->port, "%s", TIDE_PG_PORT_DEFAULT);
}
