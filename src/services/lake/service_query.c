/* service_query.c - one statement over tables of catalogs, now or as they were: as `tidemark lake query`, in a DuckDB that sees them and nothing else. */
#include <string.h>

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

/* Time that is left until the call's deadline bounds it, too. */
static tide_status find_time(const tide_lake_turn *turn, int64_t given_ms, int64_t *out,
                             tide_error *err)
{
    int64_t ms = 0;
    TIDE_TRY(tide_laked_bound(&ms, given_ms, TIDE_LAKED_QUERY_US / 1000,
                              TIDE_LAKED_QUERY_MAX_US / 1000, "timeout_ms", err));
    tide_env *env = turn->laked->env;
    *out = tide_laked_until(turn, ms * 1000) - env->mono_us(env);
    return *out > 0 ? TIDE_OK : tide_fail(err, TIDE_E_TIMEOUT, "the call's deadline has passed");
}

/* Memory for the answer, before anything is read: while readers are slow there is less of it. */
static tide_status find_room(tide_lake_turn *turn, tide_error *err)
{
    const size_t room = tide_call_reserve(turn->call, TIDE_LAKED_ANSWER_MAX);
    if (room <= REST_LEN)
        return tide_fail(err, TIDE_E_NOMEM,
                         "too much waits for its readers: there is no room for an answer now");
    tide_buffer_init(&turn->out, room < TIDE_LAKED_ANSWER_MAX ? room : TIDE_LAKED_ANSWER_MAX);
    return TIDE_OK;
}

tide_status tide_laked_query(tide_lake_turn *turn, const ProtobufCMessage *request, tide_error *err)
{
    const LAKE(QueryRequest) *given = (const LAKE(QueryRequest) *)request;
    answer a = {.turn = turn};
    tide_lake_data *data = NULL;
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
    TIDE_TRY(find_time(turn, given->timeout_ms, &ask.timeout_us, err));
    TIDE_TRY(find_room(turn, err));
    ask.bytes_max = (int64_t)turn->out.max;
    TIDE_TRY(tide_duckdb_thread_data(turn->desk, &data, err));
    const tide_status status = tide_lake_query(data, turn->laked->lake, &ask, err);
    const bool is_cut = status == TIDE_E_LIMIT && a.is_begun;
    if (!is_cut)
        TIDE_TRY(status);
    LAKE(QueryResponse) rest = LAKE_INIT(QUERY_RESPONSE);
    rest.cut = is_cut;
    return tide_rpc_pack(&turn->out, &rest.base, err);
}
