#include "services/lake/service.h"

#include <inttypes.h>
#include <stdio.h>

#include "lake/mark.h"
#include "net/codec/status_details.h"

#define SERVICE "/tidemark.lake.v1.LakeService"

/* X(method, role, request, response, function): what looks, or changes names alone */
#define PLAIN(X)                                                                                   \
    X("CreateCatalog", WRITE, create_catalog_request, created_catalog, create_catalog)             \
    X("ListCatalogs", READ, list_catalogs_request, list_catalogs_response, list_catalogs)          \
    X("ForkCatalog", WRITE, fork_catalog_request, created_catalog, fork_catalog)                   \
    X("DropCatalog", ADMIN, drop_catalog_request, drop_catalog_response, drop_catalog)             \
    X("CreateSchema", WRITE, create_schema_request, committed, create_schema)                      \
    X("DropSchema", WRITE, drop_schema_request, committed, drop_schema)                            \
    X("CreateTable", WRITE, create_table_request, committed, create_table)                         \
    X("AlterTable", WRITE, alter_table_request, committed, alter_table)                            \
    X("DropTable", WRITE, drop_table_request, committed, drop_table)                               \
    X("CreateView", WRITE, create_view_request, committed, create_view)                            \
    X("AlterView", WRITE, alter_view_request, committed, alter_view)                               \
    X("DropView", WRITE, drop_view_request, committed, drop_view)                                  \
    X("ListSchemas", READ, list_schemas_request, list_schemas_response, list_schemas)              \
    X("ListTables", READ, list_tables_request, list_tables_response, list_tables)                  \
    X("ListFiles", READ, list_files_request, list_files_response, list_files)                      \
    X("ListConflicts", READ, list_conflicts_request, list_conflicts_response, list_conflicts)      \
    X("ListSnapshots", READ, list_snapshots_request, list_snapshots_response, list_snapshots)      \
    X("Diff", READ, diff_request, diff_response, diff)                                             \
    X("NextSnapshotId", WRITE, next_snapshot_id_request, next_snapshot_id_response,                \
      next_snapshot_id)

/* The same, of what needs DuckDB or takes long */
#define SLOW(X)                                                                                    \
    X("Commit", WRITE, commit_request, committed, commit)                                          \
    X("Append", WRITE, append_request, committed, append)                                          \
    X("Delete", WRITE, delete_request, committed, delete)                                          \
    X("Expire", ADMIN, expire_request, expire_response, expire)                                    \
    X("Cleanup", ADMIN, cleanup_request, cleanup_response, cleanup)                                \
    X("Compact", ADMIN, compact_request, compact_response, compact)                                \
    X("Verify", READ, verify_request, verify_response, verify)

/* ---- the end of a call ---- */

/* Who was refused has the answer; the operator finds it here, and in ListConflicts. */
static void log_refusal(const tide_lake_turn *turn, const tide_error *err)
{
    tide_laked *laked = turn->laked;
    if (!laked->log)
        return;
    const int64_t omitted =
        tide_refusals_admit_line(&laked->refusals, laked->env->mono_us(laked->env));
    if (omitted >= 0)
        tide_log_write(laked->log, TIDE_LOG_WARN, "refused a change",
                       TIDE_F("catalog", turn->catalog), TIDE_F("reason", err->text),
                       TIDE_FI("omitted", omitted), TIDE_F_END);
}

void tide_laked_end(tide_lake_turn *turn, tide_status status, const tide_error *err)
{
    if (status == TIDE_E_CONFLICT)
        log_refusal(turn, err);
    const tide_lake_collision *with = &turn->collision;
    if (status != TIDE_E_CONFLICT || with->snapshot_id == 0) {
        tide_call_end(turn->call, status, err);
        return;
    }
    const tide_status_row *row = tide_status_get(status);
    char snapshot[32];
    char base[32];
    (void)snprintf(snapshot, sizeof snapshot, "%" PRId64, with->snapshot_id);
    (void)snprintf(base, sizeof base, "%" PRId64, turn->base);
    const tide_error_metadata metadata[] = {
        {"catalog", turn->catalog},
        {"snapshot_id", snapshot},
        {"author", with->author},
        {"mark", with->mark},
        {"what", tide_lake_mark_words(with->mark)},
        {"base_snapshot_id", base},
    };
    tide_call_end_with(turn->call,
                       &(tide_call_status){.grpc_code = row->grpc_code,
                                           .http_code = row->http_code,
                                           .message = err->text,
                                           .reason = tide_status_reason(status),
                                           .metadata = metadata,
                                           .metadata_count = sizeof metadata / sizeof *metadata});
}

static void laked_serve(tide_laked *laked, tide_duckdb_thread *desk, tide_call *call,
                        tide_view message, tide_laked_fn *fn)
{
    tide_error err = {0};
    tide_lake_turn turn = {.laked = laked, .call = call, .desk = desk};
    ProtobufCMessage *request = NULL;
    tide_buffer_init(&turn.out, TIDE_RPC_RESPONSE_MAX);
    tide_status status = tide_call_decode(call, message, &request, &err);
    if (status >= TIDE_OK)
        status = fn(&turn, request, &err);
    if (status < TIDE_OK)
        tide_laked_end(&turn, status, &err);
    else if (!turn.is_parked)
        tide_call_respond(call, tide_buffer_view(&turn.out));
    tide_buffer_done(&turn.out);
}

/* ---- what methods share ---- */

tide_status tide_laked_bound(int64_t *out, int64_t given, int64_t standard, int64_t most,
                             const char *what, tide_error *err)
{
    if (given < 0 || given > most)
        return tide_fail(err, TIDE_E_INVALID, "%s is %" PRId64 ", want 0 to %" PRId64, what, given,
                         most);
    *out = given > 0 ? given : standard;
    return TIDE_OK;
}

tide_status tide_laked_check_caller(const tide_lake_turn *turn, tide_error *err)
{
    return tide_call_is_cancelled(turn->call)
               ? tide_fail(err, TIDE_E_INTERRUPTED, "the caller has left: nothing was changed")
               : TIDE_OK;
}

int64_t tide_laked_until(const tide_lake_turn *turn, int64_t most_us)
{
    const int64_t until_us = turn->laked->env->mono_us(turn->laked->env) + most_us;
    const int64_t deadline_us = tide_call_deadline_us(turn->call);
    return deadline_us < until_us ? deadline_us : until_us;
}

tide_lake_commit_options tide_laked_commit_options(const tide_lake_turn *turn,
                                                   const LAKE(CommitOptions) * given,
                                                   tide_view hash)
{
    const char *author = given ? tide_rpc_text(given->author) : NULL;
    return (tide_lake_commit_options){
        .request_key = given ? tide_rpc_text(given->request_key) : NULL,
        .request_hash = hash,
        .author = author ? author : tide_rpc_text(tide_call_identity(turn->call)),
        .message = given ? tide_rpc_text(given->message) : NULL};
}

/* ---- the table ---- */

#define RUN_PLAIN(method_, role_, request_, response_, fn_)                                        \
    static void run_##fn_(tide_call *call, tide_view message, void *arg)                           \
    {                                                                                              \
        laked_serve(arg, NULL, call, message, tide_laked_##fn_);                                   \
    }
PLAIN(RUN_PLAIN)

/* On the loop: the message goes to a desk as it is. */
static void hand_over(tide_call *call, tide_laked *laked, tide_duckdb_thread_fn *fn)
{
    tide_error err = {0};
    size_t len = 0;
    char *message = tide_call_move_message(call, &len);
    const tide_status status =
        tide_duckdb_pool_put(laked->desks, call, message, len, fn, NULL, laked, &err);
    if (status < TIDE_OK)
        tide_call_end(call, status, &err);
}

#define RUN_SLOW(method_, role_, request_, response_, fn_)                                         \
    static void serve_##fn_(tide_duckdb_thread *desk, tide_call *call, tide_view message,          \
                            void *arg)                                                             \
    {                                                                                              \
        laked_serve(arg, desk, call, message, tide_laked_##fn_);                                   \
    }                                                                                              \
    static void run_##fn_(tide_call *call, tide_view message, void *arg)                           \
    {                                                                                              \
        (void)message;                                                                             \
        hand_over(call, arg, serve_##fn_);                                                         \
    }
SLOW(RUN_SLOW)

#define ROW(method_, role_, request_, response_, fn_, is_blocking_)                                \
    {.path = SERVICE "/" method_,                                                                  \
     .kind = TIDE_CALL_UNARY,                                                                      \
     .role = TIDE_ROLE_##role_,                                                                    \
     .is_blocking = (is_blocking_),                                                                \
     .request = &tidemark__lake__v1__##request_##__descriptor,                                     \
     .response = &tidemark__lake__v1__##response_##__descriptor,                                   \
     .run = run_##fn_},
#define ROW_PLAIN(...) ROW(__VA_ARGS__, true)
#define ROW_SLOW(...) ROW(__VA_ARGS__, false)
const tide_method tide_laked_methods[] = {
    PLAIN(ROW_PLAIN) SLOW(ROW_SLOW){.path = SERVICE "/AppendStream",
                                    .kind = TIDE_CALL_CLIENT_STREAM,
                                    .role = TIDE_ROLE_WRITE,
                                    .request = &tidemark__lake__v1__append_chunk__descriptor,
                                    .response = &tidemark__lake__v1__committed__descriptor,
                                    .run = tide_laked_append_stream},
    {.path = SERVICE "/Query",
     .kind = TIDE_CALL_UNARY,
     .role = TIDE_ROLE_READ,
     .request = &tidemark__lake__v1__query_request__descriptor,
     .response = &tidemark__lake__v1__query_response__descriptor,
     .run = tide_laked_run_query},
    {.path = SERVICE "/Watch",
     .kind = TIDE_CALL_SERVER_STREAM,
     .role = TIDE_ROLE_READ,
     .is_blocking = true,
     .request = &tidemark__lake__v1__watch_request__descriptor,
     .response = &tidemark__lake__v1__snapshot__descriptor,
     .run = tide_laked_watch},
    {.path = NULL}};
