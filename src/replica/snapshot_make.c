/* snapshot_make.c - a snapshot is made, checked and named: see snapshot.h. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "replica/capture.h"
#include "replica/fold.h"
#include "replica/log.h"
#include "replica/peer.h"
#include "replica/snapshot_parts.h"
#include "store/foreign/foreign_copy.h"
#include "store/foreign/migration_lock.h"
#include "tidemark_templates.h"

enum { TELL_EVERY = 1000 };

void tide_snapshot_info_done(tide_snapshot_info *info)
{
    tide_peer_marks_done(&info->cut);
    *info = (tide_snapshot_info){.bytes = 0};
}

/* ---- the moment ---- */

static tide_status look_at_log(void *arg, const tide_table *table, tide_error *err)
{
    tide_foreign_tx *tx = arg;
    bool is_empty = false;
    TIDE_TRY(tide_capture_is_folded(tx, table, &is_empty, err));
    return is_empty ? TIDE_OK : TIDE_NONE;
}

typedef struct moment {
    tide_foreign_tx *tx;
    bool is_quiet;
} moment;

static tide_status look_at_table(void *arg, const tide_table *table, tide_error *err)
{
    moment *m = arg;
    const tide_status status = look_at_log(m->tx, table, err);
    TIDE_TRY(status);
    m->is_quiet = m->is_quiet && status == TIDE_OK;
    return TIDE_OK;
}

/* While tables are scanned or their schema is changed, they are not what the clocks say. */
static tide_status check_quiet(tide_foreign_tx *tx, tide_error *err)
{
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *scanning = NULL;
    const tide_status status = tide_foreign_first(
        &scanning, tx, TIDE_TEMPLATE_SNAPSHOT_IS_SCANNING->text, err, TIDE_NO_BIND);
    TIDE_TRY(status);
    if (status == TIDE_OK || tide_foreign_is_paused(tide_foreign_path(tide_foreign_of(tx))))
        return tide_fail(err, TIDE_E_UNAVAILABLE,
                         "a table is being tracked or migrated: try again when that is done");
    return TIDE_OK;
}

/* Under the write lock: has everything that was captured become events? Then the tables say what clocks and marks say. Otherwise it becomes events now. */
static tide_status fold_or_stop(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    int64_t events = 0;
    bool more = false;
    moment m = {.tx = tx, .is_quiet = true};
    TIDE_TRY(check_quiet(tx, err));
    TIDE_TRY(tide_table_list(tx, look_at_table, &m, err));
    if (m.is_quiet)
        return TIDE_OK;
    TIDE_TRY(tide_fold_turn(arg, tx, &events, &more, err));
    return TIDE_NONE;
}

static tide_status tell_pages(void *arg, int64_t done, int64_t total, tide_error *err)
{
    return tide_snapshot_tell(arg, "copying pages", done, total, err);
}

static tide_status copy_at_cut(tide_node *node, const char *path, const tide_snapshot_watch *watch,
                               tide_error *err)
{
    TIDE_TRY(tide_peer_look(node, NULL, err));
    return tide_foreign_copy(tide_node_file(node), path, fold_or_stop, node, tell_pages,
                             (void *)watch, err);
}

/* ---- the file ---- */

static tide_status write_file(tide_node *node, const tide_uuid *id, const char *copy_path,
                              const char *path, const tide_snapshot_watch *watch, tide_error *err)
{
    tide_env *env = tide_foreign_env(tide_node_file(node));
    TIDE_CLEANUP(tide_foreign_closep) tide_foreign_db *copy = NULL;
    TIDE_CLEANUP(tide_snapshot_writer_done) tide_snapshot_writer writer = {.fd = -1};
    const tide_foreign_options as_is = {.env = env, .is_as_is = true, .state_dir = ""};
    const tide_snapshot_maker maker = {
        .node = tide_node_get_id(node), .epoch = tide_node_epoch(node), .watch = watch};
    TIDE_TRY(tide_foreign_open(&copy, copy_path, &as_is, err));
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return tide_fail(err, TIDE_E_IO, "cannot write %s: %s", path, strerror(errno));
    tide_status status = tide_snapshot_writer_init(&writer, fd, id->bytes, env->wall_us(env), err);
    if (status >= TIDE_OK)
        status = tide_snapshot_write(&writer, copy, &maker, err);
    (void)close(fd);
    return status;
}

/* ---- checking ---- */

static tide_status keep_cut(tide_snapshot_info *out, const tide_snapshot_decoder *decoder,
                            tide_error *err)
{
    out->cut.node = decoder->begin.node;
    out->cut.epoch = decoder->begin.epoch;
    for (int i = 0; i < decoder->origin_count; i++)
        TIDE_TRY(tide_peer_marks_add(&out->cut, &decoder->origins[i], err));
    for (int i = 0; i < decoder->table_count; i++)
        TIDE_TRY(tide_peer_marks_add_table(&out->cut, decoder->tables[i].name,
                                           decoder->tables[i].schema, decoder->tables[i].retain_us,
                                           NULL, err));
    return tide_peer_marks_sort(&out->cut, err);
}

static tide_status read_to_end(tide_snapshot_input *input, const tide_snapshot_watch *watch,
                               tide_error *err)
{
    for (int64_t i = 1;; i++) {
        tide_snapshot_record record;
        TIDE_OK_IF_NONE(tide_snapshot_decoder_next(&input->decoder, &record, err));
        if (i % TELL_EVERY == 0)
            TIDE_TRY(tide_snapshot_tell(watch, "checking bytes", (int64_t)input->reader.bytes,
                                        input->bytes, err));
    }
}

tide_status tide_snapshot_check(const char *path, const tide_snapshot_watch *watch,
                                tide_snapshot_info *out, tide_error *err)
{
    tide_uuid id;
    TIDE_CLEANUP(tide_snapshot_input_close) tide_snapshot_input input = {.fd = -1};
    TIDE_CLEANUP(tide_snapshot_info_done) tide_snapshot_info info = {.bytes = 0};
    TIDE_TRY(tide_snapshot_input_open(&input, path, err));
    const tide_status status = read_to_end(&input, watch, err);
    if (status < TIDE_OK) {
        TIDE_IGNORE(tide_fail_context(err, status, "%s", path));
        return status;
    }
    memcpy(id.bytes, input.reader.id, sizeof id.bytes);
    tide_uuid_format(&id, info.id);
    info.created_us = input.reader.created_us;
    info.bytes = (int64_t)input.reader.bytes;
    memcpy(info.digest, input.reader.digest, sizeof info.digest);
    (void)snprintf(info.path, sizeof info.path, "%s", path);
    TIDE_TRY(keep_cut(&info, &input.decoder, err));
    *out = info;
    info = (tide_snapshot_info){.bytes = 0};
    return TIDE_OK;
}

/* Restored into a node without rows, its tables' digests are compared with the snapshot's before the commit (snapshot_restore.c): that it succeeds is
 * the proof. */
static tide_status try_restore(const tide_snapshot_work *work, const char *path, tide_env *env,
                               const tide_snapshot_watch *watch, tide_error *err)
{
    char db[TIDE_SNAPSHOT_PATH_MAX];
    tide_snapshot_restored restored;
    TIDE_CLEANUP(tide_node_closep) tide_node *node = NULL;
    const tide_node_options options = {.env = env, .is_new = true, .state_dir = ""};
    TIDE_TRY(tide_snapshot_work_path(work, "restored.db", db, err));
    TIDE_TRY(tide_node_open(&node, db, &options, err));
    TIDE_TRY(tide_snapshot_try(node, path, watch, &restored, err));
    return restored.is_bulk ? TIDE_OK
                            : tide_fail(err, TIDE_E_FAILED, "a new database has rows already");
}

tide_status tide_snapshot_verify(const char *path, tide_env *env, const tide_snapshot_watch *watch,
                                 tide_snapshot_info *out, tide_error *err)
{
    TIDE_CLEANUP(tide_snapshot_work_end) tide_snapshot_work work = {.fd = -1};
    TIDE_CLEANUP(tide_snapshot_info_done) tide_snapshot_info info = {.bytes = 0};
    TIDE_TRY(tide_snapshot_check(path, watch, &info, err));
    TIDE_TRY(tide_snapshot_work_begin(&work, path, ".verifying", err));
    TIDE_TRY(try_restore(&work, path, env, watch, err));
    info.is_verified = true;
    *out = info;
    info = (tide_snapshot_info){.bytes = 0};
    return TIDE_OK;
}

/* ---- all of it ---- */

static tide_status make_whole(tide_node *node, const tide_uuid *id, const char *path,
                              const tide_snapshot_watch *watch, tide_snapshot_info *out,
                              tide_error *err)
{
    char copy[TIDE_SNAPSHOT_PATH_MAX];
    char made[TIDE_SNAPSHOT_PATH_MAX];
    TIDE_CLEANUP(tide_snapshot_work_end) tide_snapshot_work work = {.fd = -1};
    tide_env *env = tide_foreign_env(tide_node_file(node));
    TIDE_TRY(tide_snapshot_work_begin(&work, path, ".making", err));
    TIDE_TRY(tide_snapshot_work_path(&work, "copy.db", copy, err));
    TIDE_TRY(tide_snapshot_work_path(&work, "snapshot", made, err));
    TIDE_TRY(copy_at_cut(node, copy, watch, err));
    TIDE_TRY(write_file(node, id, copy, made, watch, err));
    (void)unlink(copy); /* room for the next database */
    TIDE_TRY(tide_snapshot_check(made, watch, out, err));
    TIDE_TRY(try_restore(&work, made, env, watch, err));
    out->is_verified = true;
    TIDE_TRY(tide_snapshot_tell(watch, "naming", 0, 0, err));
    return tide_snapshot_publish(made, path, err);
}

tide_status tide_snapshot_create_as(tide_node *node, const tide_uuid *id, const char *path,
                                    const tide_snapshot_watch *watch, tide_snapshot_info *out,
                                    tide_error *err)
{
    TIDE_CLEANUP(tide_snapshot_info_done) tide_snapshot_info info = {.bytes = 0};
    char full[PATH_MAX];
    if (tide_node_epoch(node) == 0)
        return tide_fail(err, TIDE_E_NOT_FOUND, "nothing is tracked in this database");
    if (access(path, F_OK) == 0)
        return tide_fail(err, TIDE_E_EXISTS, "%s exists already: choose another name", path);
    TIDE_TRY(make_whole(node, id, path, watch, &info, err));
    (void)snprintf(info.path, sizeof info.path, "%s", realpath(path, full) ? full : path);
    TIDE_TRY(tide_snapshot_list_add(node, &info, err));
    *out = info;
    info = (tide_snapshot_info){.bytes = 0};
    return TIDE_OK;
}

tide_status tide_snapshot_create(tide_node *node, const char *path,
                                 const tide_snapshot_watch *watch, tide_snapshot_info *out,
                                 tide_error *err)
{
    tide_uuid id;
    tide_uuid_v7(tide_foreign_env(tide_node_file(node)), &id);
    return tide_snapshot_create_as(node, &id, path, watch, out, err);
}
