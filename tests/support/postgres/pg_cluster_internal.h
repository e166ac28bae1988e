/* pg_cluster_internal.h - what the files of pg_cluster share.
 *
 *     pg_cluster.c    a server: made, started, crashed, stopped
 *     pg_install.c    where PostgreSQL's programs are
 *     pg_shared.c     the one server of a test program
 *     pg_database.c   databases on a server
 *     pg_url.c        URLs
 *
 * Threads: any. */
#pragma once

#include <stddef.h>

#include "support/postgres/pg_cluster.h"

#define PG_SERVER_USER "postgres"

/* Safe for proc_kill, proc_wait and proc_done. */
extern const proc pg_no_process;

/* The directory of initdb and postgres. TIDE_E_NOT_FOUND: PostgreSQL is not installed. */
TIDE_MUST_CHECK tide_status pg_find_programs(char out[TEMPDIR_PATH_MAX], tide_error *err);

/* Append to the text in out, of size bytes; what does not fit is a bug of the test. Encoded is
 * percent-encoded: everything but letters, digits and -._~ */
void pg_append_text(char *out, size_t size, const char *text);
void pg_append_encoded(char *out, size_t size, const char *text);
