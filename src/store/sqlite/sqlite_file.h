/* sqlite_file.h - the file before SQLite touches it, and the door in front of its write lock.
 *
 * Looking first keeps two promises: a bad path gets an error that says what is wrong, and a file
 * that is not ours is not changed in any way (opening it with SQLite could already checkpoint its
 * log).
 *
 * The door: SQLite's write lock has no queue, and a busy process that lets go of it takes it again
 * before anybody else has looked (measured: others waited 200 ms in the median, 1.9 s at worst;
 * with the door 0.6 ms and 9 ms). So whoever wants to write first takes a lock on a side file,
 * PATH-door, and lets go of it as soon as BEGIN IMMEDIATE has succeeded: one process waits at the
 * lock, the others wait at the door.
 *
 * Survives: locks end with their process. The side file is empty and may be deleted when nobody
 * runs. */
#pragma once

#include <sys/types.h>

#include <tidemark/store.h>

enum { TIDE_SQLITE_APPLICATION_ID = 0x54494445 }; /* "TIDE", in the file's header */

typedef enum tide_sqlite_kind {
    TIDE_SQLITE_ABSENT, /* nothing there, or an empty file */
    TIDE_SQLITE_OURS,
} tide_sqlite_kind;

/* What stands at path? TIDE_E_INVALID: a directory or no plain file. TIDE_E_NOT_FOUND: its
 * directory does not exist. TIDE_E_DENIED, TIDE_E_FOREIGN, TIDE_E_DAMAGED as said. Changes
 * nothing. */
TIDE_MUST_CHECK tide_status tide_sqlite_inspect(tide_sqlite_kind *out, const char *path,
                                                bool is_read_only, tide_error *err);

/* The path with its links resolved, absolute: side files stand beside the real file, and a later
 * chdir changes nothing. The file may be absent; its directory must exist. NULL: it cannot be
 * named. The caller frees it. */
char *tide_sqlite_full_path(const char *path);

/* A file without a log in a directory that we cannot write: nobody is writing it, and SQLite could
 * not make its side files. It is read as it lies there. */
bool tide_sqlite_is_still(const char *path);

/* The URI by which SQLite opens such a file. sqlite3_free it. NULL: no memory. */
char *tide_sqlite_immutable_uri(const char *path);

/* What stands under the names of a store: a file that was moved away or replaced while it is open
 * has others. */
typedef struct tide_sqlite_place {
    ino_t file;
    ino_t log;
} tide_sqlite_place;
tide_sqlite_place tide_sqlite_place_of(const char *path);

/* Does something else, or nothing, stand under the names by now? */
bool tide_sqlite_place_is_left(const tide_sqlite_place *place, const char *path);

/* Bytes of a page, as the file's header has it; 0: it cannot be read. */
uint32_t tide_sqlite_file_page_size(const char *path);

/* Does the file itself say that it is in WAL mode? */
TIDE_MUST_CHECK tide_status tide_sqlite_file_is_wal(bool *out, const char *path, tide_error *err);

/* Can a file be made at path? TIDE_E_NOT_FOUND, TIDE_E_DENIED, TIDE_E_INVALID say why not. */
TIDE_MUST_CHECK tide_status tide_sqlite_check_directory(const char *path, tide_error *err);

typedef struct tide_sqlite_door {
    int fd; /* -1: none */
} tide_sqlite_door;

TIDE_MUST_CHECK tide_status tide_sqlite_door_open(tide_sqlite_door *door, const char *path,
                                                  tide_error *err);
void tide_sqlite_door_close(tide_sqlite_door *door);

/* Wait for the door until the monotonic time until_us; TIDE_E_BUSY after that. */
TIDE_MUST_CHECK tide_status tide_sqlite_door_enter(tide_sqlite_door *door, tide_env *env,
                                                   int64_t until_us, tide_error *err);
void tide_sqlite_door_leave(tide_sqlite_door *door);

/* The name a backup to path has until it is whole. False: too long. */
TIDE_MUST_CHECK bool tide_sqlite_backup_part(const char *path, char *out, size_t out_size);

/* Inode and birth time: what a copy does not share. False: path cannot be looked at. */
TIDE_MUST_CHECK bool tide_sqlite_file_host(const char *path, char *out, size_t out_size);
