/* service_rows.c - proof, and the rows themselves: see service.h. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "colony/audit.h"
#include "colony/export.h"
#include "colony/repair/repair.h"
#include "services/api/cells.h"
#include "services/api/messages.h"
#include "services/api/rpc.h"
#include "services/colony/service.h"

/* ---- audit ---- */

typedef struct audit {
    tide_colony *colony;
    tide_buffer *out;
} audit;

static const char *name_digest(tide_audit_digest digest)
{
    static const char *const names[] = {[TIDE_AUDIT_NOT_ASKED] = "not asked",
                                        [TIDE_AUDIT_EQUAL] = "equal",
                                        [TIDE_AUDIT_DIFFERS] = "differs",
                                        [TIDE_AUDIT_CANNOT_TELL] = "unknown"};
    return names[digest];
}

static tide_status put_line(void *arg, const tide_audit_line *line, tide_error *err)
{
    const audit *a = arg;
    COLONY(Ledger) ledger = COLONY_INIT(LEDGER);
    COLONY(AuditLine) row = COLONY_INIT(AUDIT_LINE);
    tide_colony_ledger(&ledger, &line->ledger);
    row.agent_id = tide_rpc_borrow(line->position->agent_id);
    row.data_type = tide_rpc_borrow(line->position->data_type);
    row.session_id = tide_rpc_borrow(line->position->session_id);
    row.epoch = (uint64_t)line->position->epoch;
    row.ledger = &ledger;
    row.rows = (uint64_t)line->rows;
    row.dead_rows = (uint64_t)line->dead_rows;
    row.digest = tide_rpc_borrow(name_digest(line->digest));
    row.balanced = line->is_balanced;
    row.finding = tide_rpc_borrow(line->finding);
    return tide_rpc_put_message(a->out, 1, &row.base, err);
}

static tide_status ask_agent(void *arg, const char *agent_id, const char *path, tide_view request,
                             tide_buffer *answer, tide_error *err)
{
    const audit *a = arg;
    return tide_agent_clients_call(a->colony->links, a->colony->sink->store, agent_id, path,
                                   request, answer, err);
}

tide_status tide_colony_audit(tide_colony *colony, const ProtobufCMessage *request,
                              tide_buffer *out, tide_error *err)
{
    const COLONY(AuditRequest) *given = (const COLONY(AuditRequest) *)request;
    audit a = {.colony = colony, .out = out};
    const bool is_asking = colony->links && !given->without_agents;
    TIDE_TRY(tide_colony_check_names(colony, given->agent_id, given->data_type, err));
    const tide_status status =
        tide_audit(colony->sink, tide_rpc_text(given->agent_id), tide_rpc_text(given->data_type),
                   is_asking ? ask_agent : NULL, &a, put_line, &a, err);
    if (status < TIDE_OK && status != TIDE_E_DAMAGED)
        return status;
    COLONY(AuditResponse) rest = COLONY_INIT(AUDIT_RESPONSE);
    rest.balanced = status >= TIDE_OK;
    return tide_rpc_pack(out, &rest.base, err);
}

/* ---- repair ---- */

static tide_status put_repaired(void *arg, const tide_repair_line *line, tide_error *err)
{
    const audit *a = arg;
    COLONY(RepairLine) row = COLONY_INIT(REPAIR_LINE);
    row.agent_id = tide_rpc_borrow(line->agent_id);
    row.data_type = tide_rpc_borrow(line->data_type);
    row.restored = (uint64_t)line->restored;
    row.missing = (uint64_t)line->missing;
    row.reason = tide_rpc_borrow(line->reason);
    return tide_rpc_put_message(a->out, 1, &row.base, err);
}

tide_status tide_colony_repair(tide_colony *colony, const ProtobufCMessage *request,
                               tide_buffer *out, tide_error *err)
{
    const COLONY(RepairRequest) *given = (const COLONY(RepairRequest) *)request;
    audit a = {.colony = colony, .out = out};
    TIDE_TRY(tide_colony_check_names(colony, given->agent_id, NULL, err));
    const tide_repair_options options = {.sink = colony->sink,
                                         .env = colony->env,
                                         .agent_id = tide_rpc_text(given->agent_id),
                                         .ask = colony->links ? ask_agent : NULL,
                                         .ask_arg = &a,
                                         .fn = put_repaired,
                                         .arg = &a};
    const tide_status status = tide_repair(&options, err);
    if (status < TIDE_OK && status != TIDE_E_DAMAGED)
        return status;
    COLONY(RepairResponse) rest = COLONY_INIT(REPAIR_RESPONSE);
    rest.whole = status >= TIDE_OK;
    return tide_rpc_pack(out, &rest.base, err);
}

tide_status tide_colony_restore_rows(tide_colony *colony, const char *agent_id,
                                     const char *data_type, tide_error *err)
{
    audit a = {.colony = colony};
    const tide_repair_options options = {.sink = colony->sink,
                                         .env = colony->env,
                                         .agent_id = agent_id,
                                         .data_type = data_type,
                                         .ask = ask_agent,
                                         .ask_arg = &a};
    if (!colony->links)
        return TIDE_OK;
    const tide_status status = tide_repair(&options, err);
    return status == TIDE_E_DAMAGED ? TIDE_OK : status;
}

/* ---- traces ---- */

typedef struct trace_rows {
    tide_buffer *out;
    size_t begin; /* of the response: a read that runs again begins there */
    int64_t count;
} trace_rows;

/* A text of a message, in room of the caller's. */
static char *put_view(tide_buffer *texts, tide_view text)
{
    const size_t at = texts->len;
    if (tide_buffer_append_view(texts, text) < TIDE_OK ||
        tide_buffer_append_byte(texts, '\0') < TIDE_OK)
        return NULL;
    return (char *)tide_buffer_view(texts).ptr + at;
}

static tide_status put_trace_row(void *arg, const tide_trace_row *row, tide_error *err)
{
    trace_rows *rows = arg;
    if (row->index == 0)
        tide_buffer_truncate(rows->out, rows->begin);
    rows->count = row->index + 1;
    const tide_view views[] = {row->source,  row->agent_id,       row->session_id,
                               row->span_id, row->parent_span_id, row->service_name,
                               row->name,    row->kind,           row->attributes};
    enum { COUNT = sizeof views / sizeof views[0] };
    char *texts[COUNT];
    size_t len = COUNT;
    for (int i = 0; i < COUNT; i++)
        len += views[i].len;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer room = tide_buffer_of(len);
    TIDE_TRY(tide_buffer_check(tide_buffer_reserve(&room, len), err));
    for (int i = 0; i < COUNT; i++) {
        texts[i] = put_view(&room, views[i]);
        TIDE_NEED_MEMORY(texts[i], err);
    }
    COLONY(TraceRow) message = COLONY_INIT(TRACE_ROW);
    message.source = texts[0];
    message.agent_id = texts[1];
    message.session_id = texts[2];
    message.epoch = (uint64_t)row->epoch;
    message.seq_id = (uint64_t)row->seq;
    message.timestamp = row->time_us;
    message.span_id = texts[3];
    message.parent_span_id = texts[4];
    message.service_name = texts[5];
    message.name = texts[6];
    message.kind = texts[7];
    message.duration_us = row->duration_us;
    message.error = row->is_error;
    message.attributes = texts[8];
    return tide_rpc_put_message(rows->out, 2, &message.base, err);
}

tide_status tide_colony_get_trace(tide_colony *colony, const ProtobufCMessage *request,
                                  tide_buffer *out, tide_error *err)
{
    const COLONY(GetTraceRequest) *given = (const COLONY(GetTraceRequest) *)request;
    trace_rows rows = {.out = out, .begin = out->len};
    if (*given->trace_id == '\0')
        return tide_fail(err, TIDE_E_INVALID, "which trace? name its id");
    TIDE_TRY(colony->sink->ops->trace(colony->sink, given->trace_id, put_trace_row, &rows, err));
    if (rows.count == 0)
        return tide_fail(err, TIDE_E_NOT_FOUND, "there is no row of trace '%.64s'",
                         given->trace_id);
    COLONY(GetTraceResponse) rest = COLONY_INIT(GET_TRACE_RESPONSE);
    rest.trace_id = given->trace_id;
    return tide_rpc_pack(out, &rest.base, err);
}

/* ---- queries ---- */

enum { ROW_REST_LEN = 64 }; /* of the response, behind its rows */

typedef struct answer_rows {
    tide_buffer *out;
    int64_t count;
} answer_rows;

static tide_status put_columns(void *arg, const char *const *names, int count, tide_error *err)
{
    const answer_rows *rows = arg;
    for (int i = 0; i < count; i++)
        TIDE_TRY(tide_rpc_put_bytes(rows->out, 1, tide_view_of(names[i]), err));
    return TIDE_OK;
}

/* A row is in the answer or not, also the one that does not fit; the words behind the rows do. */
static tide_status put_row(void *arg, const tide_sql_value *cells, int count, tide_error *err)
{
    enum { ROW_FIELD = 2 };
    answer_rows *rows = arg;
    TIDE_TRY(tide_rpc_put_cells(rows->out, ROW_FIELD, cells, count, ROW_REST_LEN, err));
    rows->count++;
    return TIDE_OK;
}

/* Where a query runs, and what it needs. NULL: in this process, which is the caller's own. */
static tide_status run_sql(tide_colony *colony, tide_query_slot *slot, tide_sink_query *query,
                           const tide_sink_rows *rows, bool *is_cut, tide_error *err)
{
    if (!slot || !colony->query_target.path) {
        const tide_status status = colony->sink->ops->query(colony->sink, query, rows, err);
        *is_cut = status == TIDE_E_LIMIT;
        if (slot)
            tide_query_slot_count(slot, status);
        return status;
    }
    tide_query_process *process = NULL;
    TIDE_TRY(tide_query_slot_process(slot, &colony->query_target, &process, err));
    const tide_lake_sandbox_query inner = {.text = query->sql,
                                           .row_max = query->row_max,
                                           .bytes_max = TIDE_RPC_RESPONSE_MAX,
                                           .timeout_us = query->timeout_us,
                                           .columns = rows->columns,
                                           .row = rows->row,
                                           .arg = rows->arg};
    return tide_query_process_run(process, &inner, is_cut, err);
}

static tide_status answer_query(tide_colony *colony, tide_query_slot *slot, tide_sink_query *query,
                                tide_buffer *out, tide_error *err)
{
    answer_rows given_rows = {.out = out};
    const tide_sink_rows rows = {.columns = put_columns, .row = put_row, .arg = &given_rows};
    bool is_cut = false;
    const tide_status status = run_sql(colony, slot, query, &rows, &is_cut, err);
    /* The buffer of the response is full: cut, too. */
    is_cut = is_cut || (status == TIDE_E_LIMIT && out->len + ROW_REST_LEN >= out->max);
    /* The same on every store: some refuse the statement, some what it does. */
    if (status == TIDE_E_DENIED) {
        err->status = TIDE_E_INVALID;
        return TIDE_E_INVALID;
    }
    if (is_cut && given_rows.count == 0)
        return tide_fail_context(err, status, "the first row is too large for a response");
    if (status < TIDE_OK && !is_cut)
        return status;
    COLONY(QueryResponse) rest = COLONY_INIT(QUERY_RESPONSE);
    rest.cut = is_cut;
    return tide_rpc_pack(out, &rest.base, err);
}

tide_status tide_colony_query(tide_colony *colony, const ProtobufCMessage *request,
                              tide_buffer *out, tide_error *err)
{
    const COLONY(QueryRequest) *given = (const COLONY(QueryRequest) *)request;
    tide_sink_query query = {.sql = given->sql,
                             .row_max = given->max_rows > 0 ? given->max_rows : 0};
    if (given->timeout_ms > 0)
        TIDE_TRY(tide_rpc_duration(&query.timeout_us, given->timeout_ms, "timeout_ms", err));
    return answer_query(colony, NULL, &query, out, err);
}

/* ---- queries of callers ---- */

/* A file of DuckDB admits one process, so its queries run inside the daemon. */
static tide_status check_trust(const tide_colony *colony, const tide_call *call, tide_error *err)
{
    if (strcmp(colony->sink->ops->name, "duckdb") != 0)
        return TIDE_OK;
    if (!colony->is_sql_trusted)
        return tide_fail(err, TIDE_E_DENIED,
                         "SQL on a duckdb: store runs inside the daemon, unbounded; start it with "
                         "--trusted-sql to allow it to admins, or use an sqlite: store");
    return tide_role_includes(tide_call_role_of(call), TIDE_ROLE_ADMIN)
               ? TIDE_OK
               : tide_fail(
                     err, TIDE_E_DENIED,
                     "SQL on a duckdb: store runs inside the daemon and needs the role admin");
}

static tide_status query_on_slot(tide_colony *colony, tide_query_slot *slot, tide_call *call,
                                 tide_view message, tide_buffer *out, tide_error *err)
{
    ProtobufCMessage *request = NULL;
    TIDE_TRY(check_trust(colony, call, err));
    TIDE_TRY(tide_call_decode(call, message, &request, err));
    const COLONY(QueryRequest) *given = (const COLONY(QueryRequest) *)request;
    tide_sink_query query = {.sql = given->sql,
                             .row_max =
                                 given->max_rows > 0 ? given->max_rows : TIDE_SINK_QUERY_ROWS,
                             .cancel_fd = tide_query_slot_cancel_fd(slot)};
    TIDE_TRY(tide_query_slot_timeout(slot, call, given->timeout_ms, &query.timeout_us, err));
    return answer_query(colony, slot, &query, out, err);
}

static void serve_query(tide_query_slot *slot, tide_call *call, tide_view message, void *arg)
{
    tide_error err = {0};
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out = tide_buffer_of(TIDE_RPC_RESPONSE_MAX);
    const tide_status status = query_on_slot(arg, slot, call, message, &out, &err);
    if (status >= TIDE_OK)
        tide_call_respond(call, tide_buffer_view(&out));
    else
        tide_call_end(call, status, &err);
}

void tide_colony_run_query(tide_call *call, tide_view message, void *arg)
{
    tide_colony *colony = arg;
    (void)message;
    tide_query_pool_put(colony->queries, call, serve_query, colony);
}

/* ---- export ---- */

static tide_status put_file(void *arg, const tide_export_range *range, const char *path,
                            tide_error *err)
{
    COLONY(ExportedFile) file = COLONY_INIT(EXPORTED_FILE);
    file.path = tide_rpc_borrow(range->bytes > 0 ? path : "");
    file.agent_id = tide_rpc_borrow(range->agent_id);
    file.data_type = tide_rpc_borrow(range->data_type);
    file.session_id = tide_rpc_borrow(range->session_id);
    file.epoch = (uint64_t)range->epoch;
    file.first_seq_id = (uint64_t)range->first_seq;
    file.last_seq_id = (uint64_t)range->last_seq;
    file.rows = (uint64_t)range->rows;
    file.bytes = (uint64_t)range->bytes;
    return tide_rpc_put_message(arg, 1, &file.base, err);
}

/* The directory of a caller by the network, absolute or not, is below export_dir. */
static tide_status confine(const tide_colony *colony, const char *given, char out[PATH_MAX],
                           tide_error *err)
{
    const char *root = colony->export_dir;
    if (!root)
        return tide_fail(err, TIDE_E_DENIED,
                         "this daemon writes no files for callers; start it with --export-dir DIR");
    const size_t len = strlen(root);
    const bool is_below = strncmp(given, root, len) == 0 && (!given[len] || given[len] == '/');
    const char *relative = is_below ? given + len + strspn(given + len, "/") : given;
    const tide_status status = tide_file_make_beneath(root, relative, err);
    if (status < TIDE_OK)
        return tide_fail_context(err, status, "exports are written below --export-dir %s", root);
    return snprintf(out, PATH_MAX, "%s/%s", root, relative) < PATH_MAX
               ? TIDE_OK
               : tide_fail(err, TIDE_E_INVALID, "%s: too long a path", relative);
}

tide_status tide_colony_export(tide_colony *colony, const ProtobufCMessage *request,
                               tide_buffer *out, tide_error *err)
{
    const COLONY(ExportRequest) *given = (const COLONY(ExportRequest) *)request;
    const bool is_served = colony->queries;
    char dir[PATH_MAX];
    tide_export_sum sum;
    if (is_served)
        TIDE_TRY(confine(colony, given->directory, dir, err));
    else if (given->directory[0] != '/')
        return tide_fail(err, TIDE_E_INVALID, "the directory '%s' is not an absolute path",
                         given->directory);
    TIDE_TRY(tide_colony_check_names(colony, NULL, given->data_type, err));
    const tide_export_options options = {.sink = colony->sink,
                                         .dir = is_served ? dir : given->directory,
                                         .is_confined = is_served,
                                         .data_type = tide_rpc_text(given->data_type),
                                         .library = colony->duckdb_library};
    return tide_export_run(&options, put_file, out, &sum, err);
}
