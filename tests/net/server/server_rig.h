/* server_rig.h - the test server (net_test_server.c) as a process, and the programs that talk to it.
 *
 * Threads: none. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "support/process/proc.h"

enum { SERVER_RIG_WORDS_MAX = 32, SERVER_RIG_ADDRESSES_MAX = 4 };

typedef struct server_rig {
    proc child;
    char ready[1024];                          /* its first line */
    char *addresses[SERVER_RIG_ADDRESSES_MAX]; /* in ready */
    char url[256];                             /* http://, of the first address */
} server_rig;

/* words: addresses and name=value, NULL at the end. */
void server_rig_start(server_rig *rig, const char *const *words);

/* SIGTERM, and its end is waited for. Returns the exit code. */
int server_rig_stop(server_rig *rig);
void server_rig_done(server_rig *rig);

/* One of /numbers. */
int64_t server_rig_number(const server_rig *rig, const char *name);

/* The highest resident memory so far, in MiB. */
int64_t server_rig_peak_mib(const server_rig *rig);
int64_t server_rig_resident_mib(const server_rig *rig); /* and now */
int64_t server_rig_threads(const server_rig *rig);

/* Run a program to its end. Its output is returned, to be freed; *exit_code may be NULL if it has to be 0. "@/path" in an
 * argument stands for the server's url with that path. */
char *server_rig_run(const server_rig *rig, int *exit_code, const char *const *argv);

/* tests/net/server/NAME of the source tree with arguments; it must end with 0. */
char *server_rig_client(const server_rig *rig, const char *name, const char *const *arguments);

/* Sanitizers take memory of their own: bounds are looked at only without them. */
bool server_rig_is_sanitized(void);
