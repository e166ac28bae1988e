#include "store/foreign/foreign_copy.h"

#include <unistd.h>

#include "base/cleanup.h"
#include "store/foreign/foreign_internal.h"
#include "store/sqlite/sqlite_connection.h"

enum { PAGES_PER_STEP = 1024, TRIES = 10000 };

typedef struct copying {
    tide_foreign_connection *reader;
    tide_foreign_fn *is_moment;
    void *arg;
    tide_foreign_copy_fn *progress;
    void *progress_arg;
} copying;

static void copying_done(copying *c)
{
    tide_foreign_disconnect(c->reader);
}

/* A closure may run again: what an earlier try has begun to read is not the moment. */
static tide_status pin(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    copying *c = arg;
    int64_t ignored = 0;
    TIDE_TRY_FOUND(c->is_moment(tx, c->arg, err));
    if (!sqlite3_get_autocommit(c->reader->db))
        TIDE_TRY(tide_foreign_run_script(c->reader, "ROLLBACK", err));
    TIDE_TRY(tide_foreign_run_script(c->reader, "BEGIN", err));
    return tide_foreign_number_of(c->reader, "SELECT count(*) FROM sqlite_master", &ignored, err);
}

static tide_status find_moment(tide_foreign_db *app, copying *c, tide_error *err)
{
    tide_status status = TIDE_NONE;
    (void)pthread_mutex_lock(&app->write_lock);
    for (int i = 0; status == TIDE_NONE && i < TRIES; i++) {
        app->writer->busy_until_us = app->env->mono_us(app->env) + app->options.wait_us;
        do
            status = tide_foreign_try_write(app, pin, c, err);
        while (status == TIDE_E_BUSY && app->env->mono_us(app->env) < app->writer->busy_until_us);
    }
    tide_foreign_checkpoint(app->writer);
    (void)pthread_mutex_unlock(&app->write_lock);
    if (status == TIDE_NONE)
        return tide_fail(err, TIDE_E_BUSY, "%s is written to without a pause", app->name);
    return status;
}

static tide_status copy_pages(copying *c, sqlite3 *to, sqlite3_backup *backup, const char *path,
                              tide_error *err)
{
    int code = SQLITE_OK;
    while (code == SQLITE_OK) {
        code = sqlite3_backup_step(backup, PAGES_PER_STEP);
        const int64_t total = sqlite3_backup_pagecount(backup);
        if (code == SQLITE_OK && c->progress)
            TIDE_TRY(
                c->progress(c->progress_arg, total - sqlite3_backup_remaining(backup), total, err));
    }
    return code == SQLITE_DONE ? TIDE_OK : tide_sqlite_fail(err, to, code, path);
}

static tide_status copy_to(copying *c, sqlite3 *to, const char *path, tide_error *err)
{
    int code =
        sqlite3_exec(to, "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF", NULL, NULL, NULL);
    if (code != SQLITE_OK)
        return tide_sqlite_fail(err, to, code, path);
    sqlite3_backup *backup = sqlite3_backup_init(to, "main", c->reader->db, "main");
    if (!backup)
        return tide_sqlite_fail(err, to, sqlite3_extended_errcode(to), path);
    const tide_status status = copy_pages(c, to, backup, path, err);
    code = sqlite3_backup_finish(backup);
    return status < TIDE_OK || code == SQLITE_OK ? status : tide_sqlite_fail(err, to, code, path);
}

tide_status tide_foreign_copy(tide_foreign_db *app, const char *path, tide_foreign_fn *is_moment,
                              void *arg, tide_foreign_copy_fn *progress, void *progress_arg,
                              tide_error *err)
{
    TIDE_CLEANUP(copying_done)
    copying c = {
        .is_moment = is_moment, .arg = arg, .progress = progress, .progress_arg = progress_arg};
    if (access(path, F_OK) == 0)
        return tide_fail(err, TIDE_E_EXISTS, "%s exists already", path);
    TIDE_TRY(tide_foreign_connect(&c.reader, app, false, err));
    TIDE_TRY(find_moment(app, &c, err));
    sqlite3 *to = NULL;
    const int code = sqlite3_open_v2(path, &to,
                                     SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE |
                                         SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
                                     app->vfs);
    const tide_status copied =
        code == SQLITE_OK ? copy_to(&c, to, path, err) : tide_sqlite_fail(err, to, code, path);
    (void)sqlite3_close(to);
    return copied;
}
