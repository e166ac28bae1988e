/* service_query.c - one statement over tables of catalogs, at a snapshot: as `tidemark lake query`, in
 * a query process that reads their files and nothing else. */
#include <string.h>

#include "base/cleanup.h"
#include "services/api/cells.h"
#include "services/lake/service.h"

enum { COLUMNS_FIELD = 1, ROWS_FIELD = 2, REST_LEN = 64 };

typedef struct answer {
    tide_lake_turn *turn;
    int count;
    bool is_begun;
} answer;

static tide_status put_columns(void *arg, const char *const *names, int count, tide_error *err)
{
    answer *a = arg;
    a->count = count;
    a->is_begun = true;
    for (int i = 0; i < count; i++)
        TIDE_TRY(tide_rpc_put_bytes(&a->turn->out, COLUMNS_FIELD, tide_view_of(names[i]), err));
    return TIDE_OK;
}

static tide_status put_row(void *arg, const tide_sql_value *cells, int count, tide_error *err)
{
    const answer *a = arg;
    if (count != a->count)
        return tide_fail(err, TIDE_E_DAMAGED, "a row has %d values, and there are %d columns",
                         count, a->count);
    return tide_rpc_put_cells(&a->turn->out, ROWS_FIELD, cells, count, REST_LEN, err);
}

/* Memory for the answer, before anything is read: while readers are slow there is less of it. */
static tide_status find_room(tide_lake_turn *turn, tide_error *err)
{
    const size_t room = tide_call_reserve(turn->call, TIDE_LAKED_RESPONSE_MAX);
    if (room <= REST_LEN)
        return tide_fail(err, TIDE_E_NOMEM,
                         "too much waits for its readers: there is no room for an answer now");
    tide_buffer_init(&turn->out, room < TIDE_LAKED_RESPONSE_MAX ? room : TIDE_LAKED_RESPONSE_MAX);
    return TIDE_OK;
}

/* Only names and files are looked up here; the texts go to the slot's process. */
static tide_status run(tide_laked *laked, tide_query_process *process, const tide_lake_ask *ask,
                       tide_error *err)
{
    const tide_lake_data_options options = {.runner = tide_query_process_runner(process),
                                            .is_remote = true,
                                            .seen = laked->seen,
                                            .env = laked->env};
    TIDE_CLEANUP(tide_lake_data_closep) tide_lake_data *data = NULL;
    TIDE_TRY(tide_lake_data_open(&data, tide_lake_data_dir(laked->lake), &options, err));
    return tide_lake_query(data, laked->lake, ask, err);
}

static tide_status query(tide_lake_turn *turn, tide_query_slot *slot,
                         const LAKE(QueryRequest) * given, tide_error *err)
{
    answer a = {.turn = turn};
    tide_query_process *process = NULL;
    tide_lake_ask ask = {.text = given->sql,
                         .at = given->at,
                         .default_catalog = tide_rpc_text(given->catalog),
                         .columns = put_columns,
                         .row = put_row,
                         .arg = &a};
    if (strlen(given->sql) > TIDE_LAKED_TEXT_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "a statement of more than %d bytes",
                         TIDE_LAKED_TEXT_MAX);
    TIDE_TRY(tide_laked_bound(&ask.row_max, given->max_rows, TIDE_LAKED_ROWS_DEFAULT,
                              TIDE_LAKED_ROWS_MAX, "max_rows", err));
    TIDE_TRY(tide_query_slot_timeout(slot, turn->call, given->timeout_ms, &ask.timeout_us, err));
    TIDE_TRY(find_room(turn, err));
    ask.bytes_max = (int64_t)turn->out.max;
    TIDE_TRY(tide_query_slot_process(slot, &turn->laked->query_target, &process, err));
    const tide_status status = run(turn->laked, process, &ask, err);
    const bool is_cut =
        status == TIDE_E_LIMIT && a.is_begun && !tide_query_process_was_out_of_memory(process);
    if (!is_cut)
        TIDE_TRY(status);
    LAKE(QueryResponse) rest = LAKE_INIT(QUERY_RESPONSE);
    rest.cut = is_cut;
    return tide_rpc_pack(&turn->out, &rest.base, err);
}

static void serve_query(tide_query_slot *slot, tide_call *call, tide_view message, void *arg)
{
    tide_error err = {0};
    tide_lake_turn turn = {.laked = arg, .call = call};
    ProtobufCMessage *request = NULL;
    tide_status status = tide_call_decode(call, message, &request, &err);
    if (status >= TIDE_OK)
        status = query(&turn, slot, (const LAKE(QueryRequest) *)request, &err);
    if (status < TIDE_OK)
        tide_call_end(call, status, &err);
    else
        tide_call_respond(call, tide_buffer_view(&turn.out));
    tide_buffer_done(&turn.out);
}

void tide_laked_run_query(tide_call *call, tide_view message, void *arg)
{
    tide_laked *laked = arg;
    (void)message;
    tide_query_pool_put(laked->queries, call, serve_query, laked);
}
