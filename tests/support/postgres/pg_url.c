#include "support/postgres/pg_cluster_internal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

void pg_append_encoded(char *out, size_t size, const char *text)
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

void pg_append_text(char *out, size_t size, const char *text)
{
    const size_t len = strlen(out);
    const size_t text_len = strlen(text);
    assert(len + text_len < size);
    memcpy(out + len, text, text_len + 1);
}

void pg_cluster_url(const pg_cluster *c, const char *database, char out[PG_CLUSTER_URL_MAX])
{
    out[0] = '\0';
    pg_append_text(out, PG_CLUSTER_URL_MAX, c->base);
    pg_append_encoded(out, PG_CLUSTER_URL_MAX, database);
    pg_append_text(out, PG_CLUSTER_URL_MAX, c->query);
}

void pg_cluster_owner_url(const pg_cluster *c, const char *database, char out[PG_CLUSTER_URL_MAX])
{
    static const char superuser[] = "postgres://" PG_SERVER_USER "@";
    char url[PG_CLUSTER_URL_MAX];
    pg_cluster_url(c, database, url);
    const bool is_ours = strncmp(url, superuser, sizeof(superuser) - 1) == 0;
    out[0] = '\0';
    if (is_ours)
        pg_append_text(out, PG_CLUSTER_URL_MAX, "postgres://" PG_OWNER "@");
    pg_append_text(out, PG_CLUSTER_URL_MAX, is_ours ? url + sizeof(superuser) - 1 : url);
    if (!is_ours)
        pg_append_text(out, PG_CLUSTER_URL_MAX,
                       c->query[0] ? "&user=" PG_OWNER : "?user=" PG_OWNER);
}

void pg_cluster_tcp_url(const pg_cluster *c, const char *database, char out[PG_CLUSTER_URL_MAX])
{
    assert(c->options.has_tcp);
    snprintf(out, PG_CLUSTER_URL_MAX, "postgres://" PG_SERVER_USER "@127.0.0.1:%d/", c->port);
    pg_append_encoded(out, PG_CLUSTER_URL_MAX, database);
}
