/* sqlite_function.h - the SQL functions that our statements use on SQLite.
 *
 *     tide_link(previous, number, checksum)   SHA-256 over previous, the number as 8 bytes (big
 *                                             endian) and checksum: the step of a task's hash
 *                                             chain. NULL when one of them is NULL.
 *
 * PostgreSQL has them from the schema itself. Here they exist on our own connections only, so no
 * trigger, view or default may call them: a foreign client could not run it. SQLite is told so
 * (SQLITE_DIRECTONLY).
 *
 * Threads: pure. */
#pragma once

#include <sqlite3.h>

/* Register them on a connection; a SQLite result code. */
int tide_sqlite_add_functions(sqlite3 *db);
