/* docs_pg - a PostgreSQL server for the shell blocks of the documents.
 *
 * Starts a cluster, prints the URL of its database postgres in one line, and ends with it when its stdin ends. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/postgres/pg_cluster.h"

int main(void)
{
    const pg_cluster_options options = {.is_copy = true};
    pg_cluster cluster;
    tide_error err = {0};
    if (pg_cluster_start(&cluster, &options, &err) != TIDE_OK) {
        fprintf(stderr, "docs_pg: %s\n", err.text);
        return EXIT_FAILURE;
    }
    char url[PG_CLUSTER_URL_MAX];
    pg_cluster_url(&cluster, "postgres", url);
    puts(url);
    fflush(stdout);
    char byte = 0;
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    pg_cluster_stop(&cluster);
    return EXIT_SUCCESS;
}
