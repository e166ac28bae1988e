#include "colony/duckdb/duckdb_rig.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "colony/duckdb/duckdb_place.h"

void duckdb_rig_place(void)
{
    duckdb_place();
}

tide_store *duckdb_rig_open_store(const char *path, tide_env *env, tide_error *err)
{
    const tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .env = env, .is_inline = true,
                                        .state_dir = ""};
    tide_store *store = NULL;
    assert_ok_err(tide_store_open(&store, path, &options, err), err);
    return store;
}

void duckdb_rig_forget(duckdb_rig *r)
{
    if (r->has_at)
        tide_position_done(&r->at);
    r->has_at = false;
}

void duckdb_rig_reopen(duckdb_rig *r)
{
    duckdb_rig_forget(r);
    tide_sink_closep(&r->sink);
    assert_ok_err(tide_sink_open_duckdb(&r->sink, r->store, r->path, NULL, &r->err), &r->err);
}

int duckdb_rig_setup(void **state)
{
    duckdb_rig *r = calloc(1, sizeof *r);
    duckdb_rig_place();
    virtual_env_init(&r->clock, 1);
    assert_ok_err(tempdir_make(&r->dir, &r->err), &r->err);
    char path[TEMPDIR_PATH_MAX];
    tempdir_join(&r->dir, "colony.db", path);
    tempdir_join(&r->dir, "colony.duckdb", r->path);
    r->store = duckdb_rig_open_store(path, &r->clock.env, &r->err);
    duckdb_rig_reopen(r);
    *state = r;
    return 0;
}

int duckdb_rig_teardown(void **state)
{
    duckdb_rig *r = *state;
    duckdb_rig_forget(r);
    tide_sink_closep(&r->sink);
    tide_store_close(r->store);
    virtual_env_done(&r->clock);
    tempdir_remove(&r->dir, &r->err);
    free(r);
    return 0;
}

void duckdb_rig_load(duckdb_rig *r, const char *agent, const char *data_type, tide_position *out)
{
    assert_ok_err(tide_sink_load(r->sink, agent, data_type, out, &r->err), &r->err);
}

/* The position of the last page, if it is this one's. */
static tide_status look(duckdb_rig *r, const char *agent, const char *data_type)
{
    if (r->has_at && strcmp(r->at.agent_id, agent) == 0 && strcmp(r->at.data_type, data_type) == 0)
        return TIDE_OK;
    duckdb_rig_forget(r);
    TIDE_TRY(tide_sink_load(r->sink, agent, data_type, &r->at, &r->err));
    r->has_at = true;
    return TIDE_OK;
}

tide_status duckdb_rig_settle(duckdb_rig *r, const char *agent, const char *data_type,
                              int64_t start, const tide_reply *reply, tide_change *out)
{
    TIDE_CLEANUP(tide_gap_list_done) tide_gap_list gaps = {0};
    const tide_ask asked = {.type = tide_colony_type_find(data_type),
                            .data_type = data_type,
                            .start_seq = start,
                            .max_records = 50000,
                            .session_id = ""};
    tide_interval range;
    TIDE_TRY(look(r, agent, data_type));
    if (tide_settle_wants_gaps(&r->at, &asked, reply, &range))
        TIDE_TRY(tide_sink_gaps_in(r->sink, &r->at, range.first, range.last, &gaps, &r->err));
    const tide_status status = tide_settle(out, &r->at, &gaps, &asked, reply, TIDE_SETTLE_GRACE_US,
                                           r->clock.wall_us, r->clock.mono_us, &r->err);
    if (status != TIDE_OK)
        return status;
    TIDE_TRY(tide_sink_apply(r->sink, out, &r->err));
    tide_position_done(&r->at);
    return tide_position_copy(&r->at, &out->to, &r->err);
}

tide_status duckdb_rig_poll_bytes(duckdb_rig *r, const char *agent, const char *data_type,
                                  int64_t start, tide_view bytes)
{
    TIDE_CLEANUP(tide_reply_done) tide_reply reply = {0};
    TIDE_CLEANUP(tide_change_done) tide_change change = {0};
    TIDE_TRY(tide_reply_read(&reply, tide_colony_type_find(data_type), bytes, &r->err));
    return duckdb_rig_settle(r, agent, data_type, start, &reply, &change);
}

tide_status duckdb_rig_poll(duckdb_rig *r, const char *agent, int64_t start, answer *a)
{
    const tide_status status = duckdb_rig_poll_bytes(r, agent, "telemetry", start, answer_bytes(a));
    answer_done(a);
    return status;
}

void duckdb_rig_page(duckdb_rig *r, const char *agent, const char *session, int64_t first,
                     int64_t last)
{
    answer a;
    answer_begin(&a, session);
    answer_foreign_run(&a, first, last);
    assert_ok_err(duckdb_rig_poll(r, agent, first - 1, &a), &r->err);
}

/* ---- looking ---- */

typedef struct taken {
    char *out;
    size_t size;
} taken;

static tide_status take_columns(void *arg, const char *const *names, int count, tide_error *err)
{
    (void)arg;
    (void)names;
    (void)count;
    (void)err;
    return TIDE_OK;
}

static tide_status take_row(void *arg, const tide_sql_value *cells, int count, tide_error *err)
{
    taken *t = arg;
    (void)err;
    for (int i = 0; i < count; i++) {
        const size_t len = strlen(t->out);
        char *at = t->out + len;
        const size_t left = t->size - len;
        if (cells[i].kind == TIDE_SQL_VALUE_NULL)
            (void)snprintf(at, left, "null|");
        else if (cells[i].kind == TIDE_SQL_VALUE_F64)
            (void)snprintf(at, left, "%g|", cells[i].f64);
        else if (cells[i].kind == TIDE_SQL_VALUE_I64 || cells[i].kind == TIDE_SQL_VALUE_BOOL)
            (void)snprintf(at, left, "%" PRId64 "|", cells[i].i64);
        else
            (void)snprintf(at, left, "%.*s|", (int)cells[i].bytes.len, cells[i].bytes.ptr);
    }
    return TIDE_OK;
}

void duckdb_rig_text(duckdb_rig *r, const char *sql, char *out, size_t size)
{
    taken t = {.out = out, .size = size};
    *out = '\0';
    const tide_sink_query query = {.sql = sql};
    const tide_sink_rows rows = {.columns = take_columns, .row = take_row, .arg = &t};
    assert_ok_err(r->sink->ops->query(r->sink, &query, &rows, &r->err), &r->err);
}

int64_t duckdb_rig_number(duckdb_rig *r, const char *sql)
{
    char text[4096];
    duckdb_rig_text(r, sql, text, sizeof text);
    return strtoll(text, NULL, 10);
}

/* ---- ledger ---- */

static tide_status check_position(void *arg, const tide_position *position,
                                  const tide_gap_sums *gaps, tide_error *err)
{
    duckdb_rig *r = arg;
    tide_ledger totals;
    int64_t rows = 0;
    int64_t dead = 0;
    tide_position_ledger(position, gaps, &totals);
    assert_int_equal(0, totals.unexplained);
    assert_ok_err(r->sink->ops->count(r->sink, position, NULL, NULL, &rows, &dead, err), err);
    assert_int_equal(position->stored, rows + position->expired);
    assert_int_equal(position->dead, dead);
    return TIDE_OK;
}

void duckdb_rig_check(duckdb_rig *r)
{
    assert_ok_err(r->sink->ops->positions(r->sink, NULL, NULL, true, check_position, r, &r->err),
                  &r->err);
    assert_int_equal(0, duckdb_rig_number(r, "SELECT count(*) - count(DISTINCT (agent_id, "
                                             "session_id, epoch, seq_id)) FROM spans"));
}
