/* lake_cost.h - what a stretch cost, beside its time: processor of this program and of a PostgreSQL server, bytes of its WAL.
 *
 *     lake_cost_now(&before, server, url);
 *     ... n commits ...
 *     lake_cost_now(&after, server, url);
 *     lake_cost_add(&sum, &after, &before);
 *
 * A busy machine stretches times, not these. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

enum { LAKE_COST_PROCESSES = 256 };

typedef struct lake_cost_mark {
    double client_us;
    double wal_bytes;
    struct {
        pid_t pid;
        double us;
    } server[LAKE_COST_PROCESSES]; /* the postmaster and its children */
    int count;
} lake_cost_mark;

typedef struct lake_cost {
    double client_us; /* processor time of this program */
    double server_us; /* of the processes of a server that were there before and after */
    double wal_bytes;
} lake_cost;

/* server: the postmaster; 0: there is none. */
void lake_cost_now(lake_cost_mark *out, pid_t server, const char *url);
void lake_cost_add(lake_cost *sum, const lake_cost_mark *after, const lake_cost_mark *before);
