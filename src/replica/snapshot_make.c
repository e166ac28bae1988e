/* snapshot_make.c - a snapshot is made, checked and named: see snapshot.h. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "replica/capture.h"
#include "replica/fold.h"
#include "replica/log.h"
#include "replica/peer.h"
#include "replica/references.h"
#include "replica/schemas.h"
#include "replica/snapshot_parts.h"
#include "replica/snapshot_writing.h"
#include "replica/spool.h"
#include "store/foreign/foreign_copy.h"
#include "store/foreign/migration_lock.h"
#include "tidemark_templates.h"

/* ---- writing ---- */

static void writing_done(tide_snapshot_writing *w)
{
    for (int i = 0; i < w->table_count; i++)
        tide_table_done(&w->tables[i]);
    free(w->tables);
    free(w->origins);
    tide_buffer_done(&w->record);
}

static tide_status ask_number(int64_t *out, tide_foreign_tx *tx, const char *text, tide_error *err)
{
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    const tide_status status = tide_foreign_first(&query, tx, text, err, TIDE_NO_BIND);
    TIDE_TRY(status);
    *out = status == TIDE_OK ? tide_foreign_col_i64(query) : 0;
    return TIDE_OK;
}

/* ---- tables, parents before children ---- */

typedef struct names {
    char (*of)[TIDE_EVENT_TABLE_MAX + 1];
    int count;
} names;

static void names_done(names *n)
{
    free(n->of);
}

static tide_status keep_name(void *arg, const tide_table *table, tide_error *err)
{
    names *n = arg;
    TIDE_TRY(tide_list_room(&n->of, n->count, sizeof *n->of, TIDE_LIST_MAX, err));
    memcpy(n->of[n->count++], table->name, sizeof table->name);
    return TIDE_OK;
}

static bool is_among(const tide_table *tables, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(tables[i].name, name) == 0)
            return true;
    return false;
}

/* Does it refer to a tracked table that stands behind it? */
static bool has_late_parent(const tide_snapshot_writing *w, int placed, const tide_table *table)
{
    for (int i = 0; i < table->foreign_count; i++) {
        const char *parent = table->foreign[i].parent;
        if (strcmp(parent, table->name) != 0 && is_among(w->tables, w->table_count, parent) &&
            !is_among(w->tables, placed, parent))
            return true;
    }
    return false;
}

static void sort_tables(tide_snapshot_writing *w)
{
    for (int placed = 0; placed < w->table_count; placed++) {
        int next = placed;
        while (next < w->table_count && has_late_parent(w, placed, &w->tables[next]))
            next++;
        if (next == w->table_count)
            next = placed; /* a circle: any will do */
        const tide_table kept = w->tables[next];
        memmove(&w->tables[placed + 1], &w->tables[placed],
                (size_t)(next - placed) * sizeof *w->tables);
        w->tables[placed] = kept;
    }
}

static tide_status load_tables(tide_snapshot_writing *w, tide_error *err)
{
    TIDE_CLEANUP(names_done) names found = {.of = NULL};
    TIDE_TRY(tide_table_list(w->tx, keep_name, &found, err));
    TIDE_ALLOC(w->tables, (size_t)found.count + 1, err);
    for (int i = 0; i < found.count; i++) {
        const tide_status status = tide_table_find(&w->tables[i], w->tx, found.of[i], err);
        TIDE_TRY(status);
        if (status == TIDE_NONE)
            return tide_fail(err, TIDE_E_DAMAGED, "table %s is tracked and cannot be found",
                             found.of[i]);
        w->table_count = i + 1;
    }
    sort_tables(w);
    return TIDE_OK;
}

typedef struct statements {
    char *of[TIDE_SYNC_TABLE_SQL_MAX + 1]; /* NULL at the end */
    int count;
} statements;

static void statements_done(statements *s)
{
    for (int i = 0; i < s->count; i++)
        free(s->of[i]);
}

static tide_status load_statements(statements *out, const tide_snapshot_writing *w,
                                   const tide_table *table, tide_error *err)
{
    TIDE_FOREIGN_QUERY(query, w->tx, TIDE_TEMPLATE_PEER_TABLE_SQL->text, err,
                       tide_bind_text("name", table->name));
    TIDE_EACH(tide_foreign_step(query, err)) {
        const tide_view text = tide_foreign_col_bytes(query);
        if (out->count == TIDE_SYNC_TABLE_SQL_MAX)
            return tide_fail(err, TIDE_E_LIMIT, "table %s has more than %d indexes", table->name,
                             TIDE_SYNC_TABLE_SQL_MAX - 1);
        out->of[out->count] = strndup(text.ptr, text.len);
        TIDE_NEED_MEMORY(out->of[out->count], err);
        out->count++;
    }
    return TIDE_OK;
}

static tide_status put_table(tide_snapshot_writing *w, const tide_table *table, tide_error *err)
{
    TIDE_CLEANUP(statements_done) statements sql = {.count = 0};
    TIDE_CLEANUP(tide_peer_marks_done) tide_peer_marks made = {.origin_count = 0};
    TIDE_TRY(load_statements(&sql, w, table, err));
    TIDE_TRY(tide_peer_marks_add_table(&made, table->name, table->schema, table->retain_us,
                                       (const char *const *)sql.of, err));
    TIDE_TRY(tide_schemas_tell(w->tx, table->id, table->name, &made.tables[0], err));
    TIDE_TRY(tide_references_list(w->tx, table->id, &made.tables[0], err));
    return tide_snapshot_write_record(
        w, tide_snapshot_put_table(&w->record, table, &made.tables[0]), err);
}

/* ---- marks ---- */

/* The cut: what is here without a hole, and merged. */
static tide_status find_cut(tide_origin_mark *mark, const tide_snapshot_writing *w, tide_view bytes,
                            tide_error *err)
{
    int64_t bound = 0;
    TIDE_CLEANUP(tide_cursor_done) tide_cursor cursor = {.contiguous = 0};
    TIDE_TRY(tide_cursor_decode(&cursor, bytes, TIDE_LOG_HOLES_MAX, err));
    (void)tide_cursor_raise(&cursor, mark->start);
    TIDE_TRY(tide_spool_bound(&bound, w->tx, &mark->origin, mark->epoch, err));
    mark->prefix = tide_cursor_contiguous(&cursor);
    mark->highest = tide_cursor_highest(&cursor);
    if (mark->prefix > bound)
        mark->prefix = bound > mark->start ? bound : mark->start;
    if (mark->floor > mark->prefix)
        mark->floor = mark->prefix;
    return TIDE_OK;
}

static tide_status load_origins(tide_snapshot_writing *w, tide_error *err)
{
    TIDE_FOREIGN_QUERY_BY(query, tide_foreign_begin, w->tx, TIDE_TEMPLATE_APPLY_ORIGIN_LIST->text,
                          err);
    TIDE_EACH(tide_foreign_step(query, err)) {
        TIDE_TRY(
            tide_list_room(&w->origins, w->origin_count, sizeof *w->origins, TIDE_LIST_MAX, err));
        tide_origin_mark *mark = &w->origins[w->origin_count];
        *mark = (tide_origin_mark){.epoch = 0};
        if (!tide_snapshot_write_node(&mark->origin, tide_foreign_col_bytes(query)))
            return tide_fail(err, TIDE_E_DAMAGED, "an origin's id has another length");
        mark->epoch = tide_foreign_col_i64(query);
        mark->start = tide_foreign_col_i64(query);
        mark->floor = tide_foreign_col_i64(query);
        TIDE_TRY(find_cut(mark, w, tide_foreign_col_bytes(query), err));
        w->origin_count++;
    }
    return TIDE_OK;
}

/* NULL: no such log. */
static const tide_origin_mark *find_origin(const tide_snapshot_writing *w,
                                           const tide_node_id *origin, int64_t epoch)
{
    for (int i = 0; i < w->origin_count; i++)
        if (w->origins[i].epoch == epoch &&
            memcmp(&w->origins[i].origin, origin, sizeof *origin) == 0)
            return &w->origins[i];
    return NULL;
}

static tide_status put_cursors(tide_snapshot_writing *w, tide_error *err)
{
    TIDE_FOREIGN_QUERY_BY(query, tide_foreign_begin, w->tx, TIDE_TEMPLATE_SNAPSHOT_CURSORS->text,
                          err);
    TIDE_EACH(tide_foreign_step(query, err)) {
        tide_snapshot_cursor cursor = {.prefix = 0};
        cursor.table = tide_foreign_col_bytes(query);
        if (!tide_snapshot_write_node(&cursor.origin, tide_foreign_col_bytes(query)))
            return tide_fail(err, TIDE_E_DAMAGED, "an origin's id has another length");
        cursor.epoch = tide_foreign_col_i64(query);
        TIDE_CLEANUP(tide_cursor_done) tide_cursor numbers = {.contiguous = 0};
        TIDE_TRY(
            tide_cursor_decode(&numbers, tide_foreign_col_bytes(query), TIDE_LOG_HOLES_MAX, err));
        cursor.last_seq = tide_foreign_col_i64(query);
        const tide_origin_mark *of = find_origin(w, &cursor.origin, cursor.epoch);
        if (!of)
            continue;
        cursor.prefix = tide_cursor_contiguous(&numbers);
        if (cursor.prefix > of->prefix)
            cursor.prefix = of->prefix;
        if (cursor.last_seq > of->prefix)
            cursor.last_seq = of->prefix;
        TIDE_TRY(tide_snapshot_write_record(w, tide_snapshot_put_cursor(&w->record, &cursor), err));
    }
    return TIDE_OK;
}

static tide_status put_events(tide_snapshot_writing *w, const tide_origin_mark *of, tide_error *err)
{
    TIDE_FOREIGN_QUERY(query, w->tx, TIDE_TEMPLATE_SNAPSHOT_EVENTS->text, err,
                       tide_bind_blob("origin", tide_view_bytes(of->origin.bytes, TIDE_NODE_LEN)),
                       tide_bind_i64("epoch", of->epoch), tide_bind_i64("prefix", of->prefix));
    TIDE_EACH(tide_foreign_step(query, err)) {
        tide_snapshot_event event = {.is_processed = tide_foreign_col_i64(query) != 0};
        event.reason = tide_foreign_col_bytes(query);
        event.detail = tide_foreign_col_bytes(query);
        event.found_at_us = tide_foreign_col_i64(query);
        event.body = tide_foreign_col_bytes(query);
        TIDE_TRY(tide_snapshot_write_record(w, tide_snapshot_put_event(&w->record, &event), err));
        w->counted.events++;
    }
    return TIDE_OK;
}

static tide_status put_begin(tide_snapshot_writing *w, tide_error *err)
{
    int64_t clock = 0;
    TIDE_TRY(ask_number(&clock, w->tx, TIDE_TEMPLATE_APPLY_HYBRID_GET->text, err));
    const tide_snapshot_begin begin = {.node = w->maker->node,
                                       .epoch = w->maker->epoch,
                                       .clock = (uint64_t)clock,
                                       .origins = w->origin_count,
                                       .tables = w->table_count};
    return tide_snapshot_write_record(w, tide_snapshot_put_begin(&w->record, &begin), err);
}

static tide_status write_all(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    tide_snapshot_writing *w = arg;
    int64_t any = 0;
    w->tx = tx;
    TIDE_TRY(load_tables(w, err));
    TIDE_TRY(load_origins(w, err));
    TIDE_TRY(ask_number(&any, tx, TIDE_TEMPLATE_SNAPSHOT_ANY_CONFLICT->text, err));
    w->has_conflicts = any != 0;
    TIDE_TRY(put_begin(w, err));
    for (int i = 0; i < w->origin_count; i++)
        TIDE_TRY(tide_snapshot_write_record(w, tide_snapshot_put_origin(&w->record, &w->origins[i]),
                                            err));
    for (int i = 0; i < w->table_count; i++)
        TIDE_TRY(put_table(w, &w->tables[i], err));
    TIDE_TRY(put_cursors(w, err));
    for (int i = 0; i < w->origin_count; i++)
        TIDE_TRY(put_events(w, &w->origins[i], err));
    for (int i = 0; i < w->table_count; i++)
        TIDE_TRY(tide_snapshot_write_rows(w, i, err));
    TIDE_TRY(tide_snapshot_write_record(w, tide_snapshot_put_end(&w->record, &w->counted), err));
    return tide_snapshot_writer_finish(w->to, err);
}

/* All records, from a private copy of a node's file, into a file that was begun. */
static tide_status snapshot_write(tide_snapshot_writer *writer, tide_foreign_db *copy,
                                  const tide_snapshot_maker *maker, tide_error *err)
{
    TIDE_CLEANUP(writing_done) tide_snapshot_writing w = {.to = writer, .maker = maker};
    tide_buffer_init(&w.record, TIDE_SNAPSHOT_RECORD_MAX);
    return tide_foreign_read(copy, write_all, &w, err);
}

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
        status = snapshot_write(&writer, copy, &maker, err);
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
