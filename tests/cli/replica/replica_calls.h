/* replica_calls.h - nodes as processes: `replica serve` and `run` on files of the case's directory, and the calls that scripts make.
 *
 * A case is listed with REPLICA_CASE; servers that it left running are killed at its end.
 * Threads: one. */
#pragma once

#include "cli/cli_run.h"

enum { REPLICA_LINE_MAX = 512, REPLICA_WAIT_MS = 60000 };

int replica_setup(void **state);
int replica_teardown(void **state);

#define REPLICA_CASE(function)                                                                     \
    {                                                                                              \
#function, function, replica_setup, replica_teardown, (void *)"sqlite"                     \
    }

/* Serve a file of the case's directory (peer: run, in sync with it; NULL: serve); the address it tells. */
proc *replica_serve(const cli_fixture *t, const char *db, const char *peer,
                    char address[REPLICA_LINE_MAX]);
/* Any program, and the first line that it prints. It is killed at the case's end, at the latest. */
proc *replica_start(const cli_fixture *t, const char *const *argv, char line[REPLICA_LINE_MAX]);
/* Signal it and wait for its end; after SIGTERM that is 0. */
void replica_end(proc *server, int signal);

/* `replica VERB DB [WORD [OPTION]] --json`. */
cli_result replica_call(cli_fixture *t, const char *verb, const char *db, const char *word,
                        const char *option);
void replica_ok(cli_fixture *t, const char *verb, const char *db, const char *word);
void replica_assert_same_digest(cli_fixture *t, const char *a, const char *b);

/* Run a program of others to its end, which must be 0; its output, to be freed. */
char *replica_run_other(const cli_fixture *t, const char *const *argv);
/* A Python script of tests/cli/replica with arguments (NULL at the end); Debian's Python, whose SQLite is not ours. */
char *replica_python(const cli_fixture *t, const char *script, const char *const *arguments);

/* The files hold the same tables, byte for byte, by a program that knows nothing of us (replica_check.py). */
void replica_assert_identical(const cli_fixture *t, const char *const *files);
