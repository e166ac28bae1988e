#include "services/lake/messages.h"

#include "services/api/rpc.h"

void tide_lake_message_catalog(LAKE(Catalog) * out, const tide_lake_catalog *catalog)
{
    const bool is_fork = catalog->parent_id != 0;
    *out = (LAKE(Catalog))LAKE_INIT(CATALOG);
    out->catalog_id = catalog->catalog_id;
    out->name = tide_rpc_borrow(catalog->name);
    out->uuid = tide_rpc_borrow(catalog->uuid);
    out->snapshot_id = catalog->head;
    out->snapshot_time = catalog->head_time_us;
    out->schema_version = catalog->schema_version;
    out->created_at = catalog->created_at_us;
    out->parent = tide_rpc_borrow(is_fork ? catalog->parent_name : "");
    out->parent_snapshot_id = is_fork ? catalog->fork_snapshot : 0;
}

void tide_lake_message_created(LAKE(CreatedCatalog) * out, const tide_lake_created *created)
{
    *out = (LAKE(CreatedCatalog))LAKE_INIT(CREATED_CATALOG);
    out->catalog_id = created->catalog_id;
    out->snapshot_id = created->snapshot_id;
    out->parent_snapshot_id = created->parent_snapshot_id;
    out->was_there = created->was_there;
}

void tide_lake_message_schema(LAKE(Schema) * out, const tide_lake_object *schema)
{
    *out = (LAKE(Schema))LAKE_INIT(SCHEMA);
    out->schema_id = schema->id;
    out->name = tide_rpc_borrow(schema->name);
    out->begin_snapshot_id = schema->begin_snapshot;
}

const char *tide_lake_kind_name(tide_lake_kind kind)
{
    static const char *const names[] = {"",       "schema",    "table",       "view",
                                        "column", "data_file", "delete_file", "partition"};
    return (size_t)kind < sizeof names / sizeof names[0] ? names[kind] : names[0];
}

void tide_lake_message_difference(LAKE(Difference) * out, const tide_lake_difference *difference)
{
    *out = (LAKE(Difference))LAKE_INIT(DIFFERENCE);
    out->added = difference->sign == '+';
    out->kind = tide_rpc_borrow(tide_lake_kind_name(difference->kind));
    out->id = difference->id;
    out->table_id = difference->table_id;
    out->name = tide_rpc_borrow(difference->name);
    out->records = difference->records;
}

void tide_lake_message_committed(LAKE(Committed) * out, const tide_lake_work *work)
{
    *out = (LAKE(Committed))LAKE_INIT(COMMITTED);
    out->snapshot_id = work->result.snapshot_id;
    out->parent_snapshot_id = work->result.parent_snapshot_id;
    out->rows = work->result.rows_added;
    if (!work->result.is_replay) { /* how many rows an earlier request deleted is not kept */
        out->_rows_deleted_case = TIDEMARK__LAKE__V1__COMMITTED___ROWS_DELETED_ROWS_DELETED;
        out->rows_deleted = work->deleted;
    }
    out->replayed = work->result.is_replay;
    out->unchanged = work->is_unchanged;
    out->tries = work->result.tries;
    out->request_key = tide_rpc_borrow(work->result.request_key);
}

void tide_lake_message_compacted(LAKE(CompactResponse) * out, const tide_lake_compacted *done)
{
    *out = (LAKE(CompactResponse))LAKE_INIT(COMPACT_RESPONSE);
    out->snapshots = done->steps;
    out->files_before = done->files_before;
    out->files_after = done->files_after;
    out->rows = done->rows;
    out->conflicts = done->conflicts;
    out->busy = done->busy;
}

void tide_lake_message_finding(LAKE(Finding) * out, const tide_lake_finding *finding)
{
    *out = (LAKE(Finding))LAKE_INIT(FINDING);
    out->rule = tide_rpc_borrow(finding->rule);
    out->catalog_id = finding->catalog_id;
    out->snapshot_id = finding->snapshot_id;
    out->finding = tide_rpc_borrow(finding->words);
}

tide_status tide_lake_encode_table(tide_buffer *out, const char *schema,
                                   const tide_lake_object *object, const tide_lake_column *columns,
                                   int count, tide_error *err)
{
    enum { COLUMNS_FIELD = 6 };
    LAKE(Table) row = LAKE_INIT(TABLE);
    row.table_id = object->id;
    row.schema = tide_rpc_borrow(schema);
    row.name = tide_rpc_borrow(object->name);
    row.kind = tide_rpc_borrow(object->kind == TIDE_LAKE_TABLE ? "table" : "view");
    row.begin_snapshot_id = object->begin_snapshot;
    row.sql = object->sql ? tide_rpc_borrow(object->sql) : row.sql;
    TIDE_TRY(tide_rpc_pack(out, &row.base, err));
    for (int i = 0; i < count; i++) {
        LAKE(Column) column = LAKE_INIT(COLUMN);
        column.column_id = columns[i].id;
        column.name = tide_rpc_borrow(columns[i].name);
        column.type = tide_rpc_borrow(columns[i].type);
        column.nulls = columns[i].nulls_allowed;
        column.default_value = tide_rpc_borrow(columns[i].default_value);
        TIDE_TRY(tide_rpc_put_message(out, COLUMNS_FIELD, &column.base, err));
    }
    return TIDE_OK;
}

tide_status tide_lake_encode_snapshot(tide_buffer *out, const tide_lake_snapshot *snapshot,
                                      tide_error *err)
{
    enum { CHANGES_FIELD = 4, AUTHOR_FIELD = 5, MESSAGE_FIELD = 6 };
    LAKE(Snapshot) row = LAKE_INIT(SNAPSHOT);
    row.snapshot_id = snapshot->snapshot_id;
    row.snapshot_time = snapshot->time_us;
    row.schema_version = snapshot->schema_version;
    row.catalog_id = snapshot->catalog_id;
    TIDE_TRY(tide_rpc_pack(out, &row.base, err));
    TIDE_TRY(tide_rpc_put_bytes(out, CHANGES_FIELD, snapshot->changes_made, err));
    TIDE_TRY(tide_rpc_put_bytes(out, AUTHOR_FIELD, snapshot->author, err));
    return tide_rpc_put_bytes(out, MESSAGE_FIELD, snapshot->message, err);
}

/* ---- verify ---- */

typedef struct findings {
    tide_buffer *out;
    int count;
    tide_status status; /* of writing them down */
    tide_error *err;
} findings;

static void put_finding(void *arg, const tide_lake_finding *finding)
{
    enum { FOUND_FIELD = 6, FINDINGS_MAX = 1000 };
    findings *f = arg;
    if (f->status < TIDE_OK || f->count == FINDINGS_MAX)
        return;
    f->count++;
    LAKE(Finding) row;
    tide_lake_message_finding(&row, finding);
    f->status = tide_rpc_put_message(f->out, FOUND_FIELD, &row.base, f->err);
}

tide_status tide_lake_message_verify(tide_buffer *out, tide_lake *lake, const char *catalog,
                                     tide_error *err)
{
    tide_lake_checked checked = {0};
    tide_error put_err = {0};
    findings f = {.out = out, .err = &put_err};
    const tide_status status =
        tide_lake_check_history(lake, catalog, put_finding, &f, &checked, err);
    if (status < TIDE_OK && status != TIDE_E_DAMAGED)
        return status;
    if (f.status < TIDE_OK)
        return tide_fail(err, f.status, "%s", put_err.text);
    LAKE(VerifyResponse) response = LAKE_INIT(VERIFY_RESPONSE);
    response.catalogs = checked.catalogs;
    response.snapshots = checked.snapshots;
    response.rows = checked.rows;
    response.findings = checked.findings;
    TIDE_TRY(tide_rpc_pack(out, &response.base, NULL));
    return status;
}
