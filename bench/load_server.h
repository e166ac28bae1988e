/* load_server.h - the servers that load clients talk to: ours and others', each in a directory of its own and on a port of the
 * loopback, told to have a write on disk before they answer it.
 *
 * Threads: one server belongs to one thread. */
#pragma once

#include "support/process/proc.h"
#include "support/tempdir.h"

typedef struct load_server {
    proc process;
    int port;
    char version[64]; /* as the program says it */
} load_server;

/* tidemark agent with its defaults. */
void load_server_start_agent(load_server *server, const tempdir *dir);
/* Redis with an append-only file that is synced for every answer. False: there is no redis-server. */
bool load_server_start_redis(load_server *server, const tempdir *dir);
/* NATS with JetStream and `sync_interval: always`: $TIDEMARK_NATS_SERVER, what scripts/bench/bench-peers obtained, or the one in PATH, if it is
 * 2.10 or later. False: there is none. */
bool load_server_start_nats(load_server *server, const tempdir *dir);
/* SIGTERM, and wait. */
void load_server_stop(load_server *server);

/* What it has used so far. */
double load_server_cpu_s(const load_server *server);
/* In megabytes (10^6): now, and the most there ever was. */
double load_server_resident_mb(const load_server *server);
double load_server_highest_mb(const load_server *server);
