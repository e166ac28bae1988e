/* foreign_db.h - SQLite files of applications, which other programs write.
 *
 * A store (store.h) is a file of our own. This belongs to an application: its tables, its settings
 * (page size, auto_vacuum, application_id, user_version) and its schema stay as they are. What we
 * store in it is in tables whose names begin with tide_, and in those that a document names. Only
 * the journal mode changes, to WAL, because several processes read and write.
 *
 * Our connections fire no triggers of the file (foreign_triggers.h has the exceptions), enforce no
 * foreign keys (what is applied was checked where it was written, and is checked again as a whole),
 * and accept schemas with double-quoted texts. They keep the WAL below the 1,000 frames at which
 * other programs checkpoint it (older SQLite can corrupt a file doing that), also what others wrote
 * (tide_foreign_wait), with one connection that stays open. The last of ours to close empties it
 * into the file.
 *
 * Transactions are closures, as in store.h: BEGIN IMMEDIATE, retried while another connection
 * writes, until the deadline (TIDE_E_BUSY). A closure may run more than once and hands out nothing
 * before tide_foreign_write returned. A COMMIT that fails is TIDE_E_OUTCOME_UNKNOWN.
 *
 * Statements are texts made from templates (sql_template.h), prepared once per connection and
 * cached by text.
 *
 * Identity: inode and birth time of the file are in tide_metadata inside it, and a number that
 * rises with every write of ours is there and in an identity marker outside (identity.h has the
 * reasons). tide_foreign_check_history reports whether the file was copied or restored. A file that
 * is restored under another inode (by rename) looks like a copy, and is called one.
 *
 * Threads: a tide_foreign_db is safe from any thread: one writes at a time, readers have
 * connections of their own.
 * Survives: a crash at any point leaves the file before or after a closure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/env.h>
#include <tidemark/error.h>
#include <tidemark/view.h>

#include "base/cleanup.h"
#include "store/bind.h"

typedef struct tide_foreign_db tide_foreign_db;
typedef struct tide_foreign_tx tide_foreign_tx;
typedef struct tide_foreign_query tide_foreign_query;

typedef struct tide_foreign_options {
    tide_env *env;         /* NULL: the system */
    bool is_new;           /* may be absent: an empty database is made */
    bool is_as_is;         /* change nothing: no WAL switch, no tables of ours */
    int64_t wait_us;       /* for the write lock; 0: 10 s */
    const char *vfs;       /* NULL: the default (tests) */
    const char *state_dir; /* where the identity marker lives; NULL: as store.h; "": none */
} tide_foreign_options;

/* TIDE_E_NOT_FOUND: no file. TIDE_E_FOREIGN: not SQLite, or a store of Tidemark's own.
 * TIDE_E_UNSUPPORTED: a schema we cannot read (says what). TIDE_E_DENIED, TIDE_E_DAMAGED. */
TIDE_MUST_CHECK tide_status tide_foreign_open(tide_foreign_db **out, const char *path,
                                              const tide_foreign_options *options, tide_error *err);
void tide_foreign_close(tide_foreign_db *app);
TIDE_CLEANUP_FN(tide_foreign_closep, tide_foreign_db, tide_foreign_close)
const char *tide_foreign_path(const tide_foreign_db *app);
tide_env *tide_foreign_env(const tide_foreign_db *app);

typedef tide_status tide_foreign_fn(tide_foreign_tx *tx, void *arg, tide_error *err);
TIDE_MUST_CHECK tide_status tide_foreign_write(tide_foreign_db *app, tide_foreign_fn *fn, void *arg,
                                               tide_error *err);
TIDE_MUST_CHECK tide_status tide_foreign_read(tide_foreign_db *app, tide_foreign_fn *fn, void *arg,
                                              tide_error *err);
tide_foreign_db *tide_foreign_of(tide_foreign_tx *tx);

/* From now on, until it is set to false or the transaction ends: a statement that would write a
 * table of the application is TIDE_E_DENIED. Tables of ours are those whose names begin with tide_
 * or replication_. SQLite itself reports what a statement writes when it is prepared. */
void tide_foreign_guard(tide_foreign_tx *tx, bool is_guarded);

/* A script of several statements: tables, triggers. Write transactions alone. */
TIDE_MUST_CHECK tide_status tide_foreign_script(tide_foreign_tx *tx, const char *text,
                                                tide_error *err);

/* One statement. Parameters are bound by name, in any order; unbound ones are NULL. */
TIDE_MUST_CHECK tide_status tide_foreign_begin(tide_foreign_query **out, tide_foreign_tx *tx,
                                               const char *text, tide_error *err);
void tide_foreign_end(tide_foreign_query *query); /* takes NULL; at the latest with the closure */
TIDE_CLEANUP_FN(tide_foreign_endp, tide_foreign_query, tide_foreign_end)

/* As TIDE_QUERY, _ONE and _BY (store/statement.h). */
#define TIDE_FOREIGN_QUERY(query, tx, sql, err, ...)                                               \
    TIDE_FOREIGN_QUERY_BY(query, tide_foreign_start_binds, (tx), (sql), TIDE_BINDS(__VA_ARGS__),   \
                          (err))
#define TIDE_FOREIGN_QUERY_ONE(query, tx, sql, err, ...)                                           \
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;                              \
    TIDE_TRY_FOUND(tide_foreign_first_binds(&query, (tx), (sql), TIDE_BINDS(__VA_ARGS__), (err)))
#define TIDE_FOREIGN_QUERY_BY(query, begin, ...)                                                   \
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;                              \
    TIDE_TRY(begin(&query, __VA_ARGS__))

void tide_foreign_reset(tide_foreign_query *query);
void tide_foreign_bind_null(tide_foreign_query *query, const char *name);
void tide_foreign_bind_i64(tide_foreign_query *query, const char *name, int64_t value);
void tide_foreign_bind(tide_foreign_query *query, const char *name, tide_sql_value value);
void tide_foreign_bind_text(tide_foreign_query *query, const char *name, tide_view value);
void tide_foreign_bind_blob(tide_foreign_query *query, const char *name, tide_view value);
/* TIDE_OK: a row. TIDE_NONE: the end. A constraint that fails is TIDE_E_EXISTS (unique),
 * TIDE_E_INVALID (check, not null) or TIDE_E_CONFLICT, and does not doom the transaction: the
 * statement alone is undone. */
TIDE_MUST_CHECK tide_status tide_foreign_step(tide_foreign_query *query, tide_error *err);
/* Run to the end; *changed may be NULL. */
TIDE_MUST_CHECK tide_status tide_foreign_run(tide_foreign_query *query, int64_t *changed,
                                             tide_error *err);

/* One statement and its values in one call (bind.h; times are none of this file's), or
 * TIDE_NO_BIND. */

/* Begin and bind. The caller steps or runs it, and ends it. */
#define tide_foreign_start(out, tx, text, err, ...)                                                \
    tide_foreign_start_binds((out), (tx), (text), TIDE_BINDS(__VA_ARGS__), (err))
/* Run to the end; *changed may be NULL. */
#define tide_foreign_exec(tx, text, changed, err, ...)                                             \
    tide_foreign_exec_binds((tx), (text), (changed), TIDE_BINDS(__VA_ARGS__), (err))
/* The first row (TIDE_OK) or none (TIDE_NONE). *out is ended by the caller. */
#define tide_foreign_first(out, tx, text, err, ...)                                                \
    tide_foreign_first_binds((out), (tx), (text), TIDE_BINDS(__VA_ARGS__), (err))
/* The one number that a statement returns. TIDE_NONE: no row, or NULL; *out is then unchanged. */
#define tide_foreign_number(out, tx, text, err, ...)                                               \
    tide_foreign_number_binds((out), (tx), (text), TIDE_BINDS(__VA_ARGS__), (err))

TIDE_MUST_CHECK tide_status tide_foreign_start_binds(tide_foreign_query **out, tide_foreign_tx *tx,
                                                     const char *text, const tide_bind *binds,
                                                     tide_error *err);
TIDE_MUST_CHECK tide_status tide_foreign_exec_binds(tide_foreign_tx *tx, const char *text,
                                                    int64_t *changed, const tide_bind *binds,
                                                    tide_error *err);
TIDE_MUST_CHECK tide_status tide_foreign_first_binds(tide_foreign_query **out, tide_foreign_tx *tx,
                                                     const char *text, const tide_bind *binds,
                                                     tide_error *err);
TIDE_MUST_CHECK tide_status tide_foreign_number_binds(int64_t *out, tide_foreign_tx *tx,
                                                      const char *text, const tide_bind *binds,
                                                      tide_error *err);

/* By position, from 1: ?1, ?2, ... */
void tide_foreign_bind_at(tide_foreign_query *query, int position, tide_sql_value value);

/* Columns of the row, in order. Views until the next step. */
bool tide_foreign_col_is_null(const tide_foreign_query *query); /* does not move */
int64_t tide_foreign_col_i64(tide_foreign_query *query);
tide_view tide_foreign_col_bytes(tide_foreign_query *query); /* text or blob, as it is stored */
tide_sql_value tide_foreign_col(tide_foreign_query *query);  /* whatever it is */

/* ---- identity ---- */

typedef enum tide_foreign_history {
    TIDE_FOREIGN_SAME,
    TIDE_FOREIGN_COPIED,   /* another file with the same content: it needs a name of its own */
    TIDE_FOREIGN_RESTORED, /* this file, put back to an earlier state */
} tide_foreign_history;

/* Compare file and identity marker with what the file says of itself, inside a write transaction;
 * the caller acts on it and then calls tide_foreign_record_identity, in the same transaction, which
 * writes down how it is now. *epoch: the greatest that file or identity marker know of (0: none): a
 * file that is put back twice does not begin the same epoch twice. A file that was never settled is
 * TIDE_FOREIGN_SAME. */
TIDE_MUST_CHECK tide_status tide_foreign_check_history(tide_foreign_tx *tx,
                                                       tide_foreign_history *out, int64_t *epoch,
                                                       char evidence[256], tide_error *err);
TIDE_MUST_CHECK tide_status tide_foreign_record_identity(tide_foreign_tx *tx, int64_t epoch,
                                                         tide_error *err);

/* Call fn at the beginning of every write transaction that finds the file, once settled, put back
 * below this process's last commit, or in another epoch: it looks back and settles. A file of
 * another inode in its place is TIDE_E_CONFLICT for every write. Set it before the first write. */
void tide_foreign_on_returned(tide_foreign_db *app, tide_foreign_fn *fn, void *arg);

/* Rows of tide_metadata. TIDE_NONE: no such row, or no such table. Texts of at most 255 bytes. */
enum { TIDE_FOREIGN_NOTE_SIZE = 256 };
TIDE_MUST_CHECK tide_status tide_foreign_note_get(tide_foreign_tx *tx, const char *key,
                                                  char out[TIDE_FOREIGN_NOTE_SIZE],
                                                  tide_error *err);
TIDE_MUST_CHECK tide_status tide_foreign_note_put(tide_foreign_tx *tx, const char *key,
                                                  const char *value, tide_error *err);

/* Wait up to wait_us until any connection commits to the file. TIDE_NONE: nothing came. */
TIDE_MUST_CHECK tide_status tide_foreign_wait(tide_foreign_db *app, int64_t wait_us,
                                              tide_error *err);
