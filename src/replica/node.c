#include "replica/node.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/text/uuid.h"
#include "replica/capture.h"
#include "replica/node_parts.h"
#include "tidemark_templates.h"

enum { SCHEMA_VERSION = 6, SCHEMA_OLDEST = 3 }; /* earlier ones were in no release */

/* What brings a file from version n to n + 1; forward only. */
static const char *find_migration(int64_t version)
{
    const tide_template *const steps[SCHEMA_VERSION] = {
        TIDE_TEMPLATE_REPLICA_SCHEMA_1, TIDE_TEMPLATE_REPLICA_SCHEMA_2,
        TIDE_TEMPLATE_REPLICA_SCHEMA_3, TIDE_TEMPLATE_REPLICA_SCHEMA_4,
        TIDE_TEMPLATE_REPLICA_SCHEMA_5, TIDE_TEMPLATE_REPLICA_SCHEMA_6};
    return steps[version]->text;
}

static tide_status get_note_number(tide_foreign_tx *tx, const char *key, int64_t *out,
                                   tide_error *err)
{
    char text[TIDE_FOREIGN_NOTE_SIZE];
    char *end = NULL;
    *out = 0;
    TIDE_OK_IF_NONE(tide_foreign_note_get(tx, key, text, err));
    *out = strtoll(text, &end, 10);
    if (end == text || *end || *out < 1)
        return tide_fail(err, TIDE_E_DAMAGED, "tide_metadata: %s is '%.40s'", key, text);
    return TIDE_OK;
}

static tide_status put_note_number(tide_foreign_tx *tx, const char *key, int64_t value,
                                   tide_error *err)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%" PRId64, value);
    return tide_foreign_note_put(tx, key, text, err);
}

/* ---- our tables ---- */

/* The application may have tables that are called as ours: then nothing is done. */
static tide_status check_names(tide_foreign_tx *tx, tide_error *err)
{
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    TIDE_OK_IF_NONE(
        tide_foreign_first(&query, tx, TIDE_TEMPLATE_REPLICA_TAKEN_NAMES->text, err, TIDE_NO_BIND));
    const tide_view name = tide_foreign_col_bytes(query);
    return tide_fail(err, TIDE_E_CONFLICT,
                     "the database has a table or index %.*s, a name that replication needs: "
                     "rename it",
                     (int)name.len, name.ptr);
}

static tide_status check_meta(tide_foreign_tx *tx, tide_error *err)
{
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    tide_error ignored;
    if (tide_foreign_begin(&query, tx, TIDE_TEMPLATE_REPLICA_CHECK_META->text, &ignored) == TIDE_OK)
        return TIDE_OK;
    return tide_fail(err, TIDE_E_CONFLICT,
                     "the database has a table replication_meta or replication_checkpoints with "
                     "other columns than replication's: rename it (%s)",
                     ignored.text);
}

static tide_status migrate(tide_foreign_tx *tx, tide_error *err)
{
    int64_t version = 0;
    TIDE_TRY(get_note_number(tx, "replica_version", &version, err));
    if (version > SCHEMA_VERSION)
        return tide_fail(err, TIDE_E_NEWER,
                         "the database was replicated by a newer version (%" PRId64 ", we know %d)",
                         version, SCHEMA_VERSION);
    if (version == SCHEMA_VERSION)
        return TIDE_OK;
    if (version > 0 && version < SCHEMA_OLDEST)
        return tide_fail(err, TIDE_E_UNSUPPORTED,
                         "the database was replicated by a version before the first release "
                         "(%" PRId64 ", we know %d and later): copy its own tables into a new "
                         "file and track them there",
                         version, SCHEMA_OLDEST);
    if (version == 0)
        TIDE_TRY(check_names(tx, err));
    TIDE_TRY(tide_foreign_script(tx, TIDE_TEMPLATE_APP_NOTES->text, err));
    for (; version < SCHEMA_VERSION; version++)
        TIDE_TRY(tide_foreign_script(tx, find_migration(version), err));
    TIDE_TRY(check_meta(tx, err));
    return put_note_number(tx, "replica_version", version, err);
}

/* ---- who we are ---- */

static tide_status get_id(tide_foreign_tx *tx, tide_node_id *out, tide_error *err)
{
    char text[TIDE_FOREIGN_NOTE_SIZE];
    tide_uuid uuid;
    TIDE_TRY_FOUND(tide_foreign_note_get(tx, "node_id", text, err));
    if (tide_uuid_parse(&uuid, tide_view_of(text)) != TIDE_OK)
        return tide_fail(err, TIDE_E_DAMAGED, "tide_metadata: node_id is not a UUID");
    memcpy(out->bytes, uuid.bytes, sizeof out->bytes);
    return TIDE_OK;
}

static tide_status make_id(tide_foreign_tx *tx, tide_node_id *out, tide_error *err)
{
    tide_uuid uuid;
    char text[TIDE_UUID_TEXT_SIZE];
    tide_uuid_v4(tide_foreign_env(tide_foreign_of(tx)), &uuid);
    tide_uuid_format(&uuid, text);
    memcpy(out->bytes, uuid.bytes, sizeof out->bytes);
    return tide_foreign_note_put(tx, "node_id", text, err);
}

static tide_status ask_number(tide_foreign_tx *tx, const char *text, int64_t *out, tide_error *err)
{
    TIDE_FOREIGN_QUERY_BY(query, tide_foreign_first, tx, text, err, TIDE_NO_BIND);
    *out = tide_foreign_col_i64(query);
    return TIDE_OK;
}

typedef struct lowest {
    tide_foreign_tx *tx;
    int64_t seq;
} lowest;

static tide_status find_lowest(void *arg, const tide_table *table, tide_error *err)
{
    lowest *wanted = arg;
    TIDE_FOREIGN_QUERY_BY(query, tide_table_query, wanted->tx, table, TIDE_TABLE_LOG_FIRST, err);
    TIDE_TRY(tide_foreign_step(query, err));
    const bool has_rows = !tide_foreign_col_is_null(query);
    const int64_t first = tide_foreign_col_i64(query);
    if (has_rows && first < wanted->seq)
        wanted->seq = first;
    return TIDE_OK;
}

/* Numbers at or below it are of earlier epochs: what was captured but not folded becomes events of this one. */
static tide_status find_start(tide_foreign_tx *tx, int64_t *out, tide_error *err)
{
    lowest wanted = {.tx = tx};
    TIDE_TRY(ask_number(tx, TIDE_TEMPLATE_REPLICA_SEQ_LAST->text, &wanted.seq, err));
    wanted.seq++;
    TIDE_TRY(tide_table_list(tx, find_lowest, &wanted, err));
    *out = wanted.seq - 1;
    return TIDE_OK;
}

static tide_status add_origin(tide_foreign_tx *tx, const tide_node_id *id, int64_t epoch,
                              tide_error *err)
{
    int64_t start = 0;
    TIDE_TRY(find_start(tx, &start, err));
    tide_cursor cursor;
    tide_cursor_init(&cursor, start, 16);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(1024);
    TIDE_TRY(tide_cursor_encode(&cursor, &bytes, err));
    return tide_foreign_exec(tx, TIDE_TEMPLATE_REPLICA_ORIGIN_ADD->text, NULL, err,
                             tide_bind_blob("origin", tide_view_bytes(id->bytes, sizeof id->bytes)),
                             tide_bind_i64("epoch", epoch), tide_bind_i64("start", start),
                             tide_bind_blob("cursor", tide_buffer_view(&bytes)));
}

static tide_status add_epoch(tide_foreign_tx *tx, const tide_node_id *id, int64_t epoch,
                             const char *reason, const char *evidence, tide_error *err)
{
    tide_env *env = tide_foreign_env(tide_foreign_of(tx));
    TIDE_TRY(tide_foreign_exec(
        tx, TIDE_TEMPLATE_REPLICA_EPOCH_ADD->text, NULL, err,
        tide_bind_blob("node", tide_view_bytes(id->bytes, sizeof id->bytes)),
        tide_bind_i64("epoch", epoch), tide_bind_i64("started_at", env->wall_us(env)),
        tide_bind_text("reason", reason), tide_bind_text("evidence", evidence)));
    TIDE_TRY(add_origin(tx, id, epoch, err));
    return put_note_number(tx, "replica_epoch", epoch, err);
}

tide_status tide_node_begin_epoch_in(tide_foreign_tx *tx, const tide_node_id *id, int64_t epoch,
                                     const char *reason, const char *evidence, tide_error *err)
{
    TIDE_TRY(add_epoch(tx, id, epoch, reason, evidence, err));
    return tide_foreign_record_identity(tx, epoch, err);
}

/* A copy is another node; a file that was put back is the same one in a new epoch. */
tide_status tide_node_establish_in(tide_foreign_tx *tx, tide_node_id *id, int64_t *epoch,
                                   tide_error *err)
{
    TIDE_TRY(migrate(tx, err));
    tide_foreign_history history = TIDE_FOREIGN_SAME;
    char evidence[256];
    int64_t known = 0;
    TIDE_TRY(tide_foreign_check_history(tx, &history, &known, evidence, err));
    TIDE_TRY(get_note_number(tx, "replica_epoch", epoch, err));
    const tide_status has_id = get_id(tx, id, err);
    TIDE_TRY(has_id);
    const char *reason = NULL;
    if (has_id == TIDE_NONE || history == TIDE_FOREIGN_COPIED) {
        reason = has_id == TIDE_NONE ? "created" : "copied";
        TIDE_TRY(make_id(tx, id, err));
        *epoch = 1;
    } else if (history == TIDE_FOREIGN_RESTORED) {
        reason = "restored";
        *epoch = (known > *epoch ? known : *epoch) + 1;
    }
    if (reason)
        TIDE_TRY(add_epoch(tx, id, *epoch, reason, evidence, err));
    return tide_foreign_record_identity(tx, *epoch, err);
}

static tide_status establish(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    tide_node_id id;
    int64_t epoch = 0;
    tide_node *node = arg;
    TIDE_TRY(tide_node_establish_in(tx, &id, &epoch, err));
    if (tide_node_epoch(node) > 0 && memcmp(&node->id, &id, sizeof id) != 0)
        return tide_fail(err, TIDE_E_CONFLICT,
                         "%s holds another node's data by now: start again to go on with that",
                         tide_foreign_path(node->file));
    tide_node_become(node, &id, epoch);
    return TIDE_OK;
}

tide_status tide_node_establish(tide_node *node, tide_error *err)
{
    return tide_node_epoch(node) > 0 ? TIDE_OK
                                     : tide_foreign_write(node->file, establish, node, err);
}

static tide_status look_for_id(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    bool *is_there = arg;
    char text[TIDE_FOREIGN_NOTE_SIZE];
    const tide_status status = tide_foreign_note_get(tx, "node_id", text, err);
    *is_there = status == TIDE_OK;
    return status < TIDE_OK ? status : TIDE_OK;
}

tide_status tide_node_open(tide_node **out, const char *path, const tide_node_options *options,
                           tide_error *err)
{
    *out = NULL;
    TIDE_CLEANUP(tide_node_closep) TIDE_NEW(tide_node, node, err);
    const tide_foreign_options app = {.env = options ? options->env : NULL,
                                      .is_new = options && options->is_new,
                                      .state_dir = options ? options->state_dir : NULL,
                                      .vfs = options ? options->vfs : NULL};
    TIDE_TRY(tide_foreign_open(&node->file, path, &app, err));
    tide_foreign_on_returned(node->file, establish, node);
    node->env = tide_foreign_env(node->file);
    bool is_there = false;
    TIDE_TRY(tide_foreign_read(node->file, look_for_id, &is_there, err));
    if (is_there || app.is_new)
        TIDE_TRY(tide_node_establish(node, err));
    *out = TIDE_TAKE(node);
    return TIDE_OK;
}

void tide_node_close(tide_node *node)
{
    if (!node)
        return;
    tide_foreign_close(node->file);
    free(node);
}

tide_foreign_db *tide_node_file(tide_node *node)
{
    return node->file;
}

void tide_node_become(tide_node *node, const tide_node_id *id, int64_t epoch)
{
    if (atomic_load(&node->epoch) == 0)
        node->id = *id;
    atomic_store(&node->epoch, epoch);
}

tide_node_id tide_node_get_id(const tide_node *node)
{
    return node->id;
}

int64_t tide_node_epoch(const tide_node *node)
{
    return atomic_load(&node->epoch);
}

/* Out of the way of a migration: see node.h, tide_node_unhook. */

typedef struct unhooking {
    tide_foreign_tx *tx;
    bool is_folded;
} unhooking;

static tide_status look(void *arg, const tide_table *table, tide_error *err)
{
    unhooking *u = arg;
    bool is_folded = false;
    TIDE_TRY(tide_capture_is_folded(u->tx, table, &is_folded, err));
    u->is_folded = u->is_folded && is_folded;
    return TIDE_OK;
}

static tide_status drop(void *arg, const tide_table *table, tide_error *err)
{
    const unhooking *u = arg;
    TIDE_TRY(tide_capture_unhook(u->tx, table, err));
    return tide_capture_want_scan(u->tx, table->id, err);
}

static tide_status unhook(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    unhooking *u = arg;
    *u = (unhooking){.tx = tx, .is_folded = true};
    TIDE_TRY(tide_table_list(tx, look, u, err));
    return u->is_folded ? tide_table_list(tx, drop, u, err) : TIDE_OK;
}

tide_status tide_node_unhook(tide_node *node, tide_error *err)
{
    enum { TURNS_MAX = 100 };
    unhooking u = {.is_folded = false};
    for (int turn = 0; !u.is_folded && turn < TURNS_MAX; turn++) {
        TIDE_TRY(tide_capture_fold_all(node, err));
        TIDE_TRY(tide_foreign_write(node->file, unhook, &u, err));
    }
    return u.is_folded ? TIDE_OK
                       : tide_fail(err, TIDE_E_BUSY, "the tables are written to without a pause");
}
