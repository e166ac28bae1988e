/* snapshot_list.c - which snapshots a node has, and which of them still serve: see snapshot.h. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/list.h"
#include "base/text/json.h"
#include "base/text/json_tree.h"
#include "replica/snapshot_parts.h"
#include "tidemark_templates.h"

enum { JSON_MAX = 1 << 28 };
#define ENDING ".tidesnap"
#define SWEEP_AFTER_US INT64_C(3600000000)

/* ---- the cut and the tables as texts ---- */

static tide_status put_cut(tide_buffer *out, const tide_peer_marks *cut)
{
    tide_json json;
    tide_json_init(&json, out);
    tide_json_array_begin(&json);
    for (int i = 0; i < cut->origin_count; i++) {
        const tide_origin_mark *mark = &cut->origins[i];
        tide_uuid uuid;
        char text[TIDE_UUID_TEXT_SIZE];
        memcpy(uuid.bytes, mark->origin.bytes, sizeof uuid.bytes);
        tide_uuid_format(&uuid, text);
        tide_json_object_begin(&json);
        tide_json_key(&json, "origin_node_id");
        tide_json_text(&json, text);
        tide_json_key(&json, "epoch");
        tide_json_i64(&json, mark->epoch);
        tide_json_key(&json, "start");
        tide_json_i64(&json, mark->start);
        tide_json_key(&json, "origin_seq");
        tide_json_i64(&json, mark->prefix);
        tide_json_object_end(&json);
    }
    tide_json_array_end(&json);
    return tide_json_finish(&json);
}

static tide_status put_tables(tide_buffer *out, const tide_peer_marks *cut)
{
    tide_json json;
    tide_json_init(&json, out);
    tide_json_array_begin(&json);
    for (int i = 0; i < cut->table_count; i++)
        tide_json_text(&json, cut->tables[i].name);
    tide_json_array_end(&json);
    return tide_json_finish(&json);
}

static tide_status read_origin(tide_peer_marks *cut, const tide_json_node *of, tide_error *err)
{
    tide_uuid uuid;
    const char *origin = tide_json_node_text(tide_json_node_find(of, "origin_node_id"));
    tide_origin_mark mark = {.epoch = tide_json_node_integer(tide_json_node_find(of, "epoch")),
                             .start = tide_json_node_integer(tide_json_node_find(of, "start")),
                             .prefix =
                                 tide_json_node_integer(tide_json_node_find(of, "origin_seq"))};
    mark.highest = mark.prefix;
    if (!origin || tide_uuid_parse(&uuid, tide_view_of(origin)) != TIDE_OK)
        return tide_fail(err, TIDE_E_DAMAGED, "the list of snapshots is damaged");
    memcpy(mark.origin.bytes, uuid.bytes, sizeof mark.origin.bytes);
    return tide_peer_marks_add(cut, &mark, err);
}

static tide_status read_array(tide_json_node **out, tide_view text, tide_error *err)
{
    const tide_status status = tide_json_tree_read(out, text, err);
    if (status == TIDE_E_NOMEM)
        return status;
    return tide_json_node_is(*out, TIDE_JSON_TYPE_ARRAY)
               ? TIDE_OK
               : tide_fail(err, TIDE_E_DAMAGED, "the list of snapshots is damaged");
}

static tide_status read_texts(tide_peer_marks *cut, tide_view origins, tide_view tables,
                              tide_error *err)
{
    TIDE_CLEANUP(tide_json_tree_freep) tide_json_node *list = NULL;
    TIDE_CLEANUP(tide_json_tree_freep) tide_json_node *names = NULL;
    TIDE_TRY(read_array(&list, origins, err));
    TIDE_TRY(read_array(&names, tables, err));
    for (const tide_json_node *at = tide_json_node_at(list, 0); at; at = at->next)
        TIDE_TRY(read_origin(cut, at, err));
    for (const tide_json_node *at = tide_json_node_at(names, 0); at; at = at->next) {
        const char *name = tide_json_node_text(at);
        TIDE_TRY(tide_peer_marks_add_table(cut, name ? name : "", 0, 0, NULL, err));
    }
    return TIDE_OK;
}

/* ---- adding, cutting ---- */

static tide_status add(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    const tide_snapshot_info *info = *(const tide_snapshot_info *const *)arg;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer cut = tide_buffer_of(JSON_MAX);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer tables = tide_buffer_of(JSON_MAX);
    if (put_cut(&cut, &info->cut) < TIDE_OK || put_tables(&tables, &info->cut) < TIDE_OK)
        return tide_no_memory(err);
    return tide_foreign_exec(
        tx, TIDE_TEMPLATE_SNAPSHOT_PUT->text, NULL, err, tide_bind_text("id", info->id),
        tide_bind_i64("created_at", info->created_us), tide_bind_text("path", info->path),
        tide_bind_i64("bytes", info->bytes),
        tide_bind_blob("digest", tide_view_bytes(info->digest, sizeof info->digest)),
        tide_bind_view("cut", tide_buffer_view(&cut)),
        tide_bind_view("tables", tide_buffer_view(&tables)),
        tide_bind_i64("verified", info->is_verified));
}

tide_status tide_snapshot_list_add(tide_node *node, const tide_snapshot_info *info, tide_error *err)
{
    return tide_foreign_write(tide_node_file(node), add, &info, err);
}

static tide_status cut_one(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    return tide_foreign_exec(tx, TIDE_TEMPLATE_SNAPSHOT_CUT->text, NULL, err,
                             tide_bind_text("id", arg));
}

/* ---- reading ---- */

typedef struct infos {
    tide_snapshot_info *of;
    int count;
} infos;

static void infos_done(infos *list)
{
    for (int i = 0; i < list->count; i++)
        tide_snapshot_info_done(&list->of[i]);
    free(list->of);
}

static tide_status read_info(tide_snapshot_info *out, tide_foreign_query *query, tide_error *err)
{
    tide_view_copy(out->id, sizeof out->id, tide_foreign_col_bytes(query));
    out->created_us = tide_foreign_col_i64(query);
    tide_view_copy(out->path, sizeof out->path, tide_foreign_col_bytes(query));
    out->bytes = tide_foreign_col_i64(query);
    const tide_view digest = tide_foreign_col_bytes(query);
    if (digest.len == sizeof out->digest)
        memcpy(out->digest, digest.ptr, sizeof out->digest);
    const tide_view origins = tide_foreign_col_bytes(query);
    const tide_view tables = tide_foreign_col_bytes(query);
    out->is_verified = tide_foreign_col_i64(query) != 0 && digest.len == sizeof out->digest;
    TIDE_TRY(read_texts(&out->cut, origins, tables, err));
    return tide_peer_marks_sort(&out->cut, err);
}

static tide_status read_list(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    infos *list = arg;
    TIDE_FOREIGN_QUERY_BY(query, tide_foreign_begin, tx, TIDE_TEMPLATE_SNAPSHOT_LIST->text, err);
    TIDE_EACH(tide_foreign_step(query, err)) {
        TIDE_TRY(tide_list_room(&list->of, list->count, sizeof *list->of, TIDE_LIST_MAX, err));
        list->of[list->count] = (tide_snapshot_info){.bytes = 0};
        TIDE_TRY(read_info(&list->of[list->count++], query, err));
    }
    return TIDE_OK;
}

static bool is_file_there(const tide_snapshot_info *info)
{
    struct stat found;
    return stat(info->path, &found) == 0 && S_ISREG(found.st_mode) && found.st_size == info->bytes;
}

tide_status tide_snapshot_list(tide_node *node, tide_snapshot_fn *fn, void *arg, tide_error *err)
{
    TIDE_CLEANUP(infos_done) infos list = {.of = NULL};
    if (tide_node_epoch(node) == 0)
        return TIDE_OK;
    TIDE_TRY(tide_foreign_read(tide_node_file(node), read_list, &list, err));
    for (int i = 0; i < list.count; i++)
        if (is_file_there(&list.of[i]))
            TIDE_TRY(fn(arg, &list.of[i], err));
    return TIDE_OK;
}

/* ---- which serve ---- */

typedef struct floors {
    const tide_snapshot_info *info;
    bool is_useful;
    bool is_any;
} floors;

static tide_status compare_floor(void *arg, const tide_origin_mark *mark, tide_error *err)
{
    floors *f = arg;
    (void)err;
    if (mark->floor <= mark->start)
        return TIDE_OK;
    f->is_any = true;
    if (!f->info)
        return TIDE_OK;
    const tide_origin_mark *cut = tide_peer_marks_find(&f->info->cut, &mark->origin, mark->epoch);
    f->is_useful = f->is_useful && cut && cut->prefix >= mark->floor;
    return TIDE_OK;
}

tide_status tide_snapshot_is_needed(tide_node *node, bool *out, tide_error *err)
{
    floors f = {.info = NULL};
    *out = false;
    if (tide_node_epoch(node) == 0)
        return TIDE_OK;
    TIDE_TRY(tide_node_marks(node, compare_floor, &f, err));
    *out = f.is_any;
    return TIDE_OK;
}

static tide_status take(tide_snapshot_info *out, tide_snapshot_info *from)
{
    *out = *from;
    *from = (tide_snapshot_info){.bytes = 0};
    return TIDE_OK;
}

tide_status tide_snapshot_newest(tide_node *node, tide_snapshot_info *out, tide_error *err)
{
    TIDE_CLEANUP(infos_done) infos list = {.of = NULL};
    if (tide_node_epoch(node) == 0)
        return TIDE_NONE;
    TIDE_TRY(tide_foreign_read(tide_node_file(node), read_list, &list, err));
    for (int i = list.count - 1; i >= 0; i--) {
        floors f = {.info = &list.of[i], .is_useful = true};
        if (!list.of[i].is_verified || !is_file_there(&list.of[i]))
            continue;
        TIDE_TRY(tide_node_marks(node, compare_floor, &f, err));
        if (f.is_useful)
            return take(out, &list.of[i]);
    }
    return TIDE_NONE;
}

tide_status tide_snapshot_find(tide_node *node, const char *id, tide_snapshot_info *out,
                               tide_error *err)
{
    TIDE_CLEANUP(infos_done) infos list = {.of = NULL};
    if (tide_node_epoch(node) == 0)
        return TIDE_NONE;
    TIDE_TRY(tide_foreign_read(tide_node_file(node), read_list, &list, err));
    for (int i = 0; i < list.count; i++)
        if (strcmp(list.of[i].id, id) == 0 && list.of[i].is_verified && is_file_there(&list.of[i]))
            return take(out, &list.of[i]);
    return TIDE_NONE;
}

/* ---- a directory of them ---- */

tide_status tide_snapshot_dir_of(char out[TIDE_SNAPSHOT_PATH_MAX], const char *db, tide_error *err)
{
    return (size_t)snprintf(out, TIDE_SNAPSHOT_PATH_MAX, "%s-snapshots", db) <
                   TIDE_SNAPSHOT_PATH_MAX
               ? TIDE_OK
               : tide_fail(err, TIDE_E_LIMIT, "the path is too long: %.80s...", db);
}

tide_status tide_snapshot_make_in(tide_node *node, const char *dir,
                                  const tide_snapshot_watch *watch, tide_snapshot_info *out,
                                  tide_error *err)
{
    char path[TIDE_SNAPSHOT_PATH_MAX];
    char name[TIDE_UUID_TEXT_SIZE];
    tide_uuid id;
    if (mkdir(dir, 0700) != 0 && errno != EEXIST)
        return tide_fail(err, errno == ENOSPC ? TIDE_E_FULL : TIDE_E_DENIED, "cannot make %s: %s",
                         dir, strerror(errno));
    tide_uuid_v7(tide_foreign_env(tide_node_file(node)), &id);
    tide_uuid_format(&id, name);
    if ((size_t)snprintf(path, sizeof path, "%s/%s" ENDING, dir, name) >= sizeof path)
        return tide_fail(err, TIDE_E_LIMIT, "the path is too long: %.80s...", dir);
    return tide_snapshot_create_as(node, &id, path, watch, out, err);
}

static bool is_in(const char *dir, const char *path)
{
    const size_t len = strlen(dir);
    return strncmp(path, dir, len) == 0 && path[len] == '/' && !strchr(path + len + 1, '/');
}

/* A name that tide_snapshot_make_in gives: a UUID and the ending. */
static bool is_ours(const char *name)
{
    tide_uuid ignored;
    const size_t len = TIDE_UUID_TEXT_SIZE - 1;
    return strlen(name) == len + strlen(ENDING) && strcmp(name + len, ENDING) == 0 &&
           tide_uuid_parse(&ignored, tide_view_bytes(name, len)) == TIDE_OK;
}

static bool is_listed(const infos *list, const char *path)
{
    for (int i = 0; i < list->count; i++)
        if (strcmp(list->of[i].path, path) == 0)
            return true;
    return false;
}

static bool is_old(const char *path, int64_t now_us)
{
    struct stat info;
    return stat(path, &info) == 0 && (int64_t)info.st_mtime * 1000000 + SWEEP_AFTER_US < now_us;
}

/* Files of makers that died between the rename and the list; a young one may still be listed. */
static void sweep(const char *dir, const infos *list, int64_t now_us)
{
    DIR *open_dir = opendir(dir);
    if (!open_dir)
        return;
    for (const struct dirent *entry = readdir(open_dir); entry; entry = readdir(open_dir)) {
        char path[TIDE_SNAPSHOT_PATH_MAX];
        if (is_ours(entry->d_name) &&
            (size_t)snprintf(path, sizeof path, "%s/%s", dir, entry->d_name) < sizeof path &&
            !is_listed(list, path) && is_old(path, now_us))
            (void)unlink(path);
    }
    (void)closedir(open_dir);
}

tide_status tide_snapshot_keep(tide_node *node, const char *dir, int kept, tide_error *err)
{
    char full[PATH_MAX];
    tide_env *env = tide_foreign_env(tide_node_file(node));
    TIDE_CLEANUP(infos_done) infos list = {.of = NULL};
    if (!realpath(dir, full))
        return TIDE_OK; /* nothing there */
    TIDE_TRY(tide_foreign_read(tide_node_file(node), read_list, &list, err));
    sweep(full, &list, env->wall_us(env));
    int seen = 0;
    for (int i = list.count - 1; i >= 0; i--) {
        tide_snapshot_info *info = &list.of[i];
        const bool is_there = is_file_there(info);
        if (is_there && (!is_in(full, info->path) || ++seen <= kept))
            continue;
        if (is_there && unlink(info->path) != 0)
            continue;
        if (is_there || is_in(full, info->path))
            TIDE_TRY(tide_foreign_write(tide_node_file(node), cut_one, info->id, err));
    }
    return TIDE_OK;
}
