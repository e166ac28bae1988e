/* service_change.c - operations of a request, carried out as one snapshot. */
#include <string.h>

#include "base/cleanup.h"
#include "lake/types.h"
#include "services/lake/service.h"

/* ---- what is asked, for its key ---- */

tide_status tide_laked_hash_catalog(tide_sha256 *sha, const char *catalog, tide_error *err)
{
    TIDE_TRY(tide_sha256_init(sha, err));
    return tide_sha256_add(sha, tide_view_bytes(catalog, strlen(catalog) + 1), err);
}

tide_status tide_laked_hash_end(tide_sha256 *sha, int64_t rows_len, tide_error *err)
{
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)((uint64_t)rows_len >> (8 * i));
    return tide_sha256_add(sha, tide_view_bytes(bytes, sizeof bytes), err);
}

static tide_view rows_of(const LAKE(Append) * append)
{
    return append->rows.len > 0 ? tide_view_bytes(append->rows.data, append->rows.len)
                                : tide_view_of(append->text);
}

/* The rows are hashed as they are, wherever they stand. */
static tide_status pack_bare(tide_buffer *out, const LAKE(Operation) * op, tide_error *err)
{
    if (op->operation_case != TIDEMARK__LAKE__V1__OPERATION__OPERATION_APPEND)
        return tide_rpc_pack(out, &op->base, err);
    LAKE(Operation) bare = *op;
    LAKE(Append) append = *op->append;
    append.rows = (ProtobufCBinaryData){0};
    append.text = (char *)protobuf_c_empty_string;
    bare.append = &append;
    return tide_rpc_pack(out, &bare.base, err);
}

tide_status tide_laked_hash_operation(tide_sha256 *sha, const LAKE(Operation) * op, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(TIDE_RPC_RESPONSE_MAX);
    TIDE_TRY(pack_bare(&bytes, op, err));
    TIDE_TRY(tide_laked_hash_end(sha, (int64_t)bytes.len, err));
    return tide_sha256_add(sha, tide_buffer_view(&bytes), err);
}

static tide_status hash_all(const tide_lake_asked *asked, uint8_t out[TIDE_SHA256_LEN],
                            tide_error *err)
{
    TIDE_CLEANUP(tide_sha256_done) tide_sha256 sha = {0};
    TIDE_TRY(tide_laked_hash_catalog(&sha, asked->catalog, err));
    for (size_t i = 0; i < asked->count; i++) {
        const LAKE(Operation) *op = asked->operations[i];
        const bool is_append =
            op->operation_case == TIDEMARK__LAKE__V1__OPERATION__OPERATION_APPEND;
        const tide_view rows = is_append ? rows_of(op->append) : tide_view_bytes("", 0);
        TIDE_TRY(tide_laked_hash_operation(&sha, op, err));
        if (rows.len > 0)
            TIDE_TRY(tide_sha256_add(&sha, rows, err));
        TIDE_TRY(tide_laked_hash_end(&sha, (int64_t)rows.len, err));
    }
    return tide_sha256_finish(&sha, out, err);
}

/* ---- operations ---- */

typedef struct working {
    tide_lake_turn *turn;
    const tide_lake_asked *asked;
    tide_lake_work work;
} working;

static void working_done(working *w)
{
    tide_lake_work_done(&w->work);
}

typedef struct column_list {
    tide_lake_column_def *all;
    int count;
} column_list;

static void column_list_done(column_list *list)
{
    tide_lake_column_defs_free(list->all, list->count);
}

static tide_status create_table(tide_lake_change *change, const LAKE(CreateTable) * op,
                                tide_error *err)
{
    TIDE_CLEANUP(column_list_done) column_list columns = {NULL, 0};
    TIDE_TRY(tide_lake_columns_parse(op->columns, &columns.all, &columns.count, err));
    if (op->create_schema) {
        const tide_status status = tide_lake_create_schema(change, op->schema, err);
        if (status != TIDE_E_EXISTS)
            TIDE_TRY(status);
    }
    return tide_lake_create_table(change, op->schema, op->table, columns.all, columns.count, err);
}

static tide_status add_columns(tide_lake_change *change, const LAKE(AlterTable) * op,
                               tide_error *err)
{
    TIDE_CLEANUP(column_list_done) column_list columns = {NULL, 0};
    TIDE_TRY(tide_lake_columns_parse(op->add_column, &columns.all, &columns.count, err));
    for (int i = 0; i < columns.count; i++)
        TIDE_TRY(tide_lake_add_column(change, op->schema, op->table, &columns.all[i], err));
    return TIDE_OK;
}

static tide_status partition_table(tide_lake_change *change, const LAKE(AlterTable) * op,
                                   tide_error *err)
{
    const char *columns[TIDE_LAKE_PARTITION_KEYS_MAX];
    const char *transforms[TIDE_LAKE_PARTITION_KEYS_MAX];
    const size_t count = op->partition->n_keys;
    if (count > TIDE_LAKE_PARTITION_KEYS_MAX)
        return tide_fail(err, TIDE_E_INVALID, "%zu keys of partitions, want at most %d", count,
                         TIDE_LAKE_PARTITION_KEYS_MAX);
    for (size_t i = 0; i < count; i++) {
        const LAKE(PartitionKey) *key = op->partition->keys[i];
        columns[i] = key->column;
        transforms[i] = key->transform[0] ? key->transform : "identity";
    }
    return tide_lake_partition_table(change, op->schema, op->table, columns, transforms, (int)count,
                                     err);
}

static tide_status set_type(tide_lake_change *change, const LAKE(AlterTable) * op, tide_error *err)
{
    char type[256];
    TIDE_TRY(tide_lake_type_parse(type, op->set_type->type, err));
    return tide_lake_widen_column(change, op->schema, op->table, op->set_type->column, type, err);
}

static tide_status alter_table(tide_lake_change *change, const LAKE(AlterTable) * op,
                               tide_error *err)
{
    switch (op->action_case) {
    case TIDEMARK__LAKE__V1__ALTER_TABLE__ACTION_RENAME_TO:
        return tide_lake_rename_table(change, op->schema, op->table, op->rename_to, err);
    case TIDEMARK__LAKE__V1__ALTER_TABLE__ACTION_ADD_COLUMN:
        return add_columns(change, op, err);
    case TIDEMARK__LAKE__V1__ALTER_TABLE__ACTION_DROP_COLUMN:
        return tide_lake_drop_column(change, op->schema, op->table, op->drop_column, err);
    case TIDEMARK__LAKE__V1__ALTER_TABLE__ACTION_RENAME_COLUMN:
        return tide_lake_rename_column(change, op->schema, op->table, op->rename_column->column,
                                       op->rename_column->to, err);
    case TIDEMARK__LAKE__V1__ALTER_TABLE__ACTION_SET_TYPE:
        return set_type(change, op, err);
    case TIDEMARK__LAKE__V1__ALTER_TABLE__ACTION_PARTITION:
        return partition_table(change, op, err);
    case TIDEMARK__LAKE__V1__ALTER_TABLE__ACTION__NOT_SET:
    case _TIDEMARK__LAKE__V1__ALTER_TABLE__ACTION__CASE_IS_INT_SIZE:
        break;
    }
    return tide_fail(err, TIDE_E_INVALID,
                     "alter_table has no action: rename_to, add_column, drop_column, "
                     "rename_column, set_type or partition");
}

static tide_status append_rows(working *w, const LAKE(Append) * op, tide_error *err)
{
    const tide_laked *laked = w->turn->laked;
    TIDE_CLEANUP(tide_spool_done) tide_spool own = {.fd = -1};
    const tide_spool *spool = w->asked->spool;
    tide_lake_format format = TIDE_LAKE_CSV;
    if (!spool) {
        if (op->rows.len > 0 && op->text[0])
            return tide_fail(err, TIDE_E_INVALID, "append has rows and text: send one of them");
        TIDE_TRY(tide_spool_open(&own, tide_lake_data_dir(laked->lake), laked->env, err));
        TIDE_TRY(tide_spool_write(&own, rows_of(op), err));
        TIDE_TRY(tide_spool_finish(&own, err));
        spool = &own;
    }
    TIDE_TRY(tide_spool_format(&format, spool, op->format, err));
    return tide_lake_work_append(&w->work, op->schema, op->table, spool->path, format, err);
}

static tide_status delete_rows(working *w, const LAKE(Delete) * op, tide_error *err)
{
    if (strlen(op->where) > TIDE_LAKED_TEXT_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "a condition of more than %d bytes",
                         TIDE_LAKED_TEXT_MAX);
    if (!op->where[0])
        return tide_fail(err, TIDE_E_INVALID,
                         "delete has no condition: `where` is an SQL expression; true is all rows");
    tide_lake_delete request = {.schema = op->schema, .table = op->table, .condition = op->where};
    TIDE_TRY(tide_lake_isolation_parse(op->isolation, &request.isolation, err));
    return tide_lake_work_delete(&w->work, &request, err);
}

static tide_status apply(working *w, const LAKE(Operation) * op, tide_error *err)
{
    tide_lake_change *change = w->work.change;
    switch (op->operation_case) {
    case TIDEMARK__LAKE__V1__OPERATION__OPERATION_CREATE_SCHEMA:
        return tide_lake_create_schema(change, op->create_schema->schema, err);
    case TIDEMARK__LAKE__V1__OPERATION__OPERATION_DROP_SCHEMA:
        return tide_lake_drop_schema(change, op->drop_schema->schema, op->drop_schema->cascade,
                                     err);
    case TIDEMARK__LAKE__V1__OPERATION__OPERATION_CREATE_TABLE:
        return create_table(change, op->create_table, err);
    case TIDEMARK__LAKE__V1__OPERATION__OPERATION_ALTER_TABLE:
        return alter_table(change, op->alter_table, err);
    case TIDEMARK__LAKE__V1__OPERATION__OPERATION_DROP_TABLE:
        return tide_lake_drop_table(change, op->drop_table->schema, op->drop_table->table, err);
    case TIDEMARK__LAKE__V1__OPERATION__OPERATION_CREATE_VIEW:
        return tide_lake_create_view(change, op->create_view->schema, op->create_view->view,
                                     op->create_view->sql, err);
    case TIDEMARK__LAKE__V1__OPERATION__OPERATION_ALTER_VIEW:
        return tide_lake_alter_view(change, op->alter_view->schema, op->alter_view->view,
                                    op->alter_view->sql, err);
    case TIDEMARK__LAKE__V1__OPERATION__OPERATION_DROP_VIEW:
        return tide_lake_drop_view(change, op->drop_view->schema, op->drop_view->view, err);
    case TIDEMARK__LAKE__V1__OPERATION__OPERATION_APPEND:
        return append_rows(w, op->append, err);
    case TIDEMARK__LAKE__V1__OPERATION__OPERATION_DELETE:
        return delete_rows(w, op->delete_, err);
    case TIDEMARK__LAKE__V1__OPERATION__OPERATION__NOT_SET:
    case _TIDEMARK__LAKE__V1__OPERATION__OPERATION__CASE_IS_INT_SIZE:
        break;
    }
    return tide_fail(err, TIDE_E_INVALID, "an operation is empty, or of a newer program");
}

static tide_status apply_all(working *w, tide_error *err)
{
    for (size_t i = 0; i < w->asked->count; i++) {
        TIDE_TRY(tide_laked_check_caller(w->turn, err));
        const tide_status status = apply(w, w->asked->operations[i], err);
        if (status < TIDE_OK)
            return w->asked->count == 1 ? status
                                        : tide_fail_context(err, status, "operation %zu", i + 1);
    }
    return tide_laked_check_caller(w->turn, err);
}

/* ---- one snapshot ---- */

static tide_status open_data(void *arg, tide_lake_data **out, tide_error *err)
{
    return tide_duckdb_thread_data(((working *)arg)->turn->desk, out, err);
}

static tide_status answer(tide_lake_turn *turn, const tide_lake_work *work, tide_error *err)
{
    LAKE(Committed) message;
    tide_lake_message_committed(&message, work);
    return tide_rpc_pack(&turn->out, &message.base, err);
}

static void keep_collision(tide_lake_turn *turn, const tide_lake_work *work)
{
    if (!work->change)
        return;
    turn->collision = *tide_lake_change_collision(work->change);
    turn->base = tide_lake_change_base(work->change);
    memcpy(turn->catalog, tide_lake_change_catalog(work->change)->name, sizeof turn->catalog);
    if (turn->collision.snapshot_id != 0)
        tide_laked_note_refusal(turn, work->commit.author);
}

static tide_status check_asked(const tide_lake_asked *asked, tide_error *err)
{
    if (asked->count == 0)
        return tide_fail(err, TIDE_E_INVALID, "no operations: there is nothing to commit");
    if (asked->count > TIDE_LAKED_OPERATIONS_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "%zu operations, want at most %d", asked->count,
                         TIDE_LAKED_OPERATIONS_MAX);
    if (asked->commit && asked->commit->base_snapshot_id < 0)
        return tide_fail(err, TIDE_E_INVALID, "base_snapshot_id is below 0");
    return TIDE_OK;
}

tide_status tide_laked_change(tide_lake_turn *turn, const tide_lake_asked *asked, tide_error *err)
{
    const tide_view hash = tide_view_bytes((const char *)asked->hash, TIDE_SHA256_LEN);
    TIDE_CLEANUP(working_done)
    working w = {.turn = turn,
                 .asked = asked,
                 .work = {.lake = turn->laked->lake,
                          .open_data = open_data,
                          .holder = "lake service",
                          .base = asked->commit ? asked->commit->base_snapshot_id : 0,
                          .commit = tide_laked_commit_options(turn, asked->commit, hash)}};
    w.work.arg = &w;
    TIDE_TRY(check_asked(asked, err));
    TIDE_TRY(tide_lake_work_begin(&w.work, asked->catalog, err));
    if (!w.work.is_answered)
        TIDE_TRY(apply_all(&w, err));
    const int64_t begun_us = turn->laked->env->mono_us(turn->laked->env);
    const tide_status status = tide_lake_work_commit(&w.work, err);
    tide_lake_metrics_committed(turn->laked->metrics, &w.work, status,
                                turn->laked->env->mono_us(turn->laked->env) - begun_us);
    if (status < TIDE_OK)
        keep_collision(turn, &w.work);
    TIDE_TRY(status);
    return answer(turn, &w.work, err);
}

static tide_status change(tide_lake_turn *turn, const tide_lake_asked *given, tide_error *err)
{
    uint8_t hash[TIDE_SHA256_LEN];
    tide_lake_asked asked = *given;
    TIDE_TRY(hash_all(&asked, hash, err));
    asked.hash = hash;
    return tide_laked_change(turn, &asked, err);
}

/* ---- the methods ---- */

tide_status tide_laked_commit(tide_lake_turn *turn, const ProtobufCMessage *request,
                              tide_error *err)
{
    const LAKE(CommitRequest) *given = (const LAKE(CommitRequest) *)request;
    const tide_lake_asked asked = {.catalog = given->catalog,
                                   .operations = given->operations,
                                   .count = given->n_operations,
                                   .commit = given->commit};
    return change(turn, &asked, err);
}

/* A request of one operation is a commit of it. */
#define ONE(fn_, type_, member_, case_)                                                            \
    tide_status tide_laked_##fn_(tide_lake_turn *turn, const ProtobufCMessage *request,            \
                                 tide_error *err)                                                  \
    {                                                                                              \
        const LAKE(type_##Request) *given = (const LAKE(type_##Request) *)request;                 \
        LAKE(Operation) op = LAKE_INIT(OPERATION);                                                 \
        LAKE(Operation) * ops[] = {&op};                                                           \
        if (!given->operation)                                                                     \
            return tide_fail(err, TIDE_E_INVALID, "`operation` is missing: what is to be done");   \
        op.operation_case = TIDEMARK__LAKE__V1__OPERATION__OPERATION_##case_;                      \
        op.member_ = given->operation;                                                             \
        tide_lake_asked asked = {                                                                  \
            .catalog = given->catalog, .operations = ops, .count = 1, .commit = given->commit};    \
        return change(turn, &asked, err);                                                          \
    }
ONE(create_schema, CreateSchema, create_schema, CREATE_SCHEMA)
ONE(drop_schema, DropSchema, drop_schema, DROP_SCHEMA)
ONE(create_table, CreateTable, create_table, CREATE_TABLE)
ONE(alter_table, AlterTable, alter_table, ALTER_TABLE)
ONE(drop_table, DropTable, drop_table, DROP_TABLE)
ONE(create_view, CreateView, create_view, CREATE_VIEW)
ONE(alter_view, AlterView, alter_view, ALTER_VIEW)
ONE(drop_view, DropView, drop_view, DROP_VIEW)
ONE(append, Append, append, APPEND)
ONE(delete, Delete, delete_, DELETE)
