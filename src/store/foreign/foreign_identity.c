/* foreign_identity.c - which file this is, and who has written to it: see foreign_db.h.
 *
 * tide_metadata(key, value) in the file: file_id (a UUID, made when it was first settled), host
 * (inode and birth time), mark, epoch. */
#include "base/lock.h"
#include "store/foreign/foreign_db.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/uuid.h"
#include "store/foreign/foreign_internal.h"
#include "store/identity_marker.h"
#include "store/sqlite/sqlite_file.h"
#include "store/sqlite/sqlite_watch.h"
#include "tidemark_templates.h"

enum {
    LOOK_EVERY_MS = 500, /* for what inotify does not report */
    VISIBLE_MS = 1,      /* between the log's first byte and the commit's visibility */
};

static tide_status has_notes(tide_foreign_tx *tx, bool *out, tide_error *err)
{
    int64_t found = 0;
    TIDE_TRY(
        tide_foreign_number_of(tx->connection, TIDE_TEMPLATE_APP_HAS_NOTES->text, &found, err));
    *out = found > 0;
    return TIDE_OK;
}

tide_status tide_foreign_note_get(tide_foreign_tx *tx, const char *key,
                                  char out[TIDE_FOREIGN_NOTE_SIZE], tide_error *err)
{
    out[0] = '\0';
    bool is_there = false;
    TIDE_TRY(has_notes(tx, &is_there, err));
    if (!is_there)
        return TIDE_NONE;
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    const tide_status status = tide_foreign_first(&query, tx, TIDE_TEMPLATE_APP_NOTE_GET->text, err,
                                                  tide_bind_text("key", key));
    if (status == TIDE_OK) {
        const tide_view value = tide_foreign_col_bytes(query);
        (void)snprintf(out, TIDE_FOREIGN_NOTE_SIZE, "%.*s", (int)value.len, value.ptr);
    }
    return status;
}

tide_status tide_foreign_note_put(tide_foreign_tx *tx, const char *key, const char *value,
                                  tide_error *err)
{
    return tide_foreign_exec(tx, TIDE_TEMPLATE_APP_NOTE_PUT->text, NULL, err,
                             tide_bind_text("key", key), tide_bind_text("value", value));
}

static tide_status get_number(tide_foreign_tx *tx, const char *key, int64_t *out, tide_error *err)
{
    char text[TIDE_FOREIGN_NOTE_SIZE];
    char *end = NULL;
    *out = 0;
    TIDE_TRY_FOUND(tide_foreign_note_get(tx, key, text, err));
    *out = strtoll(text, &end, 10);
    if (end == text || *end || *out < 0)
        return tide_fail(err, TIDE_E_DAMAGED, "tide_metadata: %s is '%.40s'", key, text);
    return TIDE_OK;
}

static tide_status put_number(tide_foreign_tx *tx, const char *key, int64_t value, tide_error *err)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%" PRId64, value);
    return tide_foreign_note_put(tx, key, text, err);
}

/* What the file says of itself; a file's id becomes a name in the state directory. */
static tide_status get_file_id(tide_foreign_tx *tx, char out[TIDE_FOREIGN_ID_SIZE], tide_error *err)
{
    char text[TIDE_FOREIGN_NOTE_SIZE];
    tide_uuid ignored;
    out[0] = '\0';
    TIDE_TRY_FOUND(tide_foreign_note_get(tx, "file_id", text, err));
    if (tide_uuid_parse(&ignored, tide_view_of(text)) != TIDE_OK)
        return tide_fail(err, TIDE_E_DAMAGED, "tide_metadata: file_id is not a UUID");
    memcpy(out, text, TIDE_FOREIGN_ID_SIZE);
    return TIDE_OK;
}

static tide_status get_host(const tide_foreign_db *app, char out[TIDE_FOREIGN_NOTE_SIZE],
                            tide_error *err)
{
    return tide_sqlite_file_host(app->path, out, TIDE_FOREIGN_NOTE_SIZE)
               ? TIDE_OK
               : tide_fail(err, TIDE_E_IO, "cannot look at %s", app->name);
}

tide_status tide_foreign_check_history(tide_foreign_tx *tx, tide_foreign_history *out,
                                       int64_t *epoch, char evidence[256], tide_error *err)
{
    const tide_foreign_db *app = tide_foreign_of(tx);
    char file_id[TIDE_FOREIGN_ID_SIZE];
    char host[TIDE_FOREIGN_NOTE_SIZE];
    char stored[TIDE_FOREIGN_NOTE_SIZE];
    *out = TIDE_FOREIGN_SAME;
    *epoch = 0;
    evidence[0] = '\0';
    TIDE_OK_IF_NONE(get_file_id(tx, file_id, err));
    TIDE_TRY(get_host(app, host, err));
    TIDE_TRY(tide_foreign_note_get(tx, "host", stored, err));
    TIDE_TRY(get_number(tx, "epoch", epoch, err));
    if (strcmp(stored, host) != 0) {
        *out = TIDE_FOREIGN_COPIED;
        (void)snprintf(evidence, 256, "the file was %.80s, is %.80s", stored, host);
        return TIDE_OK;
    }
    int64_t mark = 0;
    tide_marker_state marked;
    TIDE_TRY(get_number(tx, "mark", &mark, err));
    tide_identity_marker *marker = tide_identity_marker_open(app->state_dir, file_id, host);
    tide_identity_marker_read(marker, &marked);
    tide_identity_marker_close(marker);
    if (marked.epoch > *epoch)
        *epoch = marked.epoch;
    if (app->seen_epoch > *epoch)
        *epoch = app->seen_epoch;
    const bool is_below_us = app->seen_mark > marked.mark;
    if (is_below_us)
        marked.mark = app->seen_mark;
    if (marked.mark > mark) {
        *out = TIDE_FOREIGN_RESTORED;
        (void)snprintf(evidence, 256, "mark %" PRId64 " in the file, %" PRId64 " %s", mark,
                       marked.mark, is_below_us ? "was written" : "in its identity marker");
    }
    return TIDE_OK;
}

void tide_foreign_on_returned(tide_foreign_db *app, tide_foreign_fn *fn, void *arg)
{
    app->on_returned = fn;
    app->on_returned_arg = arg;
}

tide_status tide_foreign_recheck(tide_foreign_tx *tx, tide_error *err)
{
    const tide_foreign_db *app = tide_foreign_of(tx);
    char host[TIDE_FOREIGN_NOTE_SIZE];
    int64_t mark = 0;
    int64_t epoch = 0;
    if (!app->file_id[0] || !app->on_returned)
        return TIDE_OK;
    if (!tide_sqlite_file_host(app->path, host, sizeof host) || strcmp(host, app->host) != 0)
        return tide_fail(err, TIDE_E_CONFLICT,
                         "%s was moved away or replaced by another file; what is open is not it: "
                         "start again",
                         app->name);
    TIDE_TRY(get_number(tx, "mark", &mark, err));
    TIDE_TRY(get_number(tx, "epoch", &epoch, err));
    if (mark >= app->seen_mark && epoch == app->seen_epoch)
        return TIDE_OK;
    return app->on_returned(tx, app->on_returned_arg, err);
}

/* A copy gets an id of its own, so that its identity marker is another; the mark passes the
 * identity marker's. */
tide_status tide_foreign_record_identity(tide_foreign_tx *tx, int64_t epoch, tide_error *err)
{
    tide_foreign_db *app = tide_foreign_of(tx);
    char host[TIDE_FOREIGN_NOTE_SIZE];
    char stored[TIDE_FOREIGN_NOTE_SIZE] = "";
    char file_id[TIDE_FOREIGN_ID_SIZE];
    int64_t mark = 0;
    tide_marker_state marked;
    TIDE_TRY(tide_foreign_script(tx, TIDE_TEMPLATE_APP_NOTES->text, err));
    TIDE_TRY(get_host(app, host, err));
    TIDE_TRY(get_file_id(tx, file_id, err));
    TIDE_TRY(tide_foreign_note_get(tx, "host", stored, err));
    TIDE_TRY(get_number(tx, "mark", &mark, err));
    if (strcmp(stored, host) != 0) {
        tide_uuid uuid;
        tide_uuid_v4(app->env, &uuid);
        tide_uuid_format(&uuid, file_id);
        TIDE_TRY(tide_foreign_note_put(tx, "file_id", file_id, err));
        TIDE_TRY(tide_foreign_note_put(tx, "host", host, err));
    }
    TIDE_TRY(put_number(tx, "epoch", epoch, err));
    memcpy(app->file_id, file_id, sizeof app->file_id);
    memcpy(app->host, host, sizeof app->host);
    tide_identity_marker_close(app->marker);
    app->marker = tide_identity_marker_open(app->state_dir, file_id, host);
    tide_identity_marker_read(app->marker, &marked);
    if (marked.mark > mark)
        mark = marked.mark;
    if (app->seen_mark > mark)
        mark = app->seen_mark;
    return put_number(tx, "mark", mark, err);
}

tide_status tide_foreign_mark(tide_foreign_tx *tx, tide_error *err)
{
    const tide_foreign_db *app = tide_foreign_of(tx);
    if (!app->file_id[0])
        return TIDE_OK;
    TIDE_TRY(get_number(tx, "mark", &tx->mark, err));
    TIDE_TRY(get_number(tx, "epoch", &tx->epoch, err));
    tx->mark++;
    return put_number(tx, "mark", tx->mark, err);
}

void tide_foreign_write_marker(tide_foreign_db *app, const tide_foreign_tx *tx)
{
    if (tx->mark == 0)
        return;
    app->seen_mark = tx->mark;
    app->seen_epoch = tx->epoch;
    tide_identity_marker_raise(app->marker, tx->mark, tx->epoch);
}

/* ---- waiting for others ---- */

static tide_status start_watching(tide_foreign_db *app, tide_error *err)
{
    if (app->watcher)
        return TIDE_OK;
    TIDE_TRY(tide_foreign_connect(&app->watcher, app, false, err));
    app->watch_fd = tide_sqlite_watch_log(app->path);
    return tide_foreign_number_of(app->watcher, "PRAGMA data_version", &app->watch_version, err);
}

static tide_status wait_for_version(tide_foreign_db *app, int64_t wait_us, tide_error *err)
{
    TIDE_TRY(start_watching(app, err));
    const int64_t until_us = app->env->mono_us(app->env) + wait_us;
    int64_t wait_ms = VISIBLE_MS;
    for (;;) {
        int64_t version = 0;
        TIDE_TRY(tide_foreign_number_of(app->watcher, "PRAGMA data_version", &version, err));
        if (version != app->watch_version) {
            app->watch_version = version;
            return TIDE_OK;
        }
        const int64_t left_ms = (until_us - app->env->mono_us(app->env)) / 1000;
        if (left_ms <= 0)
            return TIDE_NONE;
        struct pollfd fd = {.fd = app->watch_fd, .events = POLLIN};
        const int64_t next_ms = left_ms < wait_ms ? left_ms : wait_ms;
        /* What was written becomes visible a moment later: look again soon, then slower. */
        if (poll(&fd, 1, (int)next_ms) > 0)
            wait_ms = VISIBLE_MS;
        else if (wait_ms < LOOK_EVERY_MS)
            wait_ms *= 2;
        tide_sqlite_forget_events(app->watch_fd);
    }
}

tide_status tide_foreign_wait(tide_foreign_db *app, int64_t wait_us, tide_error *err)
{
    TIDE_HOLD(&app->watch_lock);
    const tide_status status = wait_for_version(app, wait_us, err);
    if (status == TIDE_OK)
        tide_foreign_checkpoint(app->watcher);
    return status;
}
