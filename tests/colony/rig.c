#include "colony/rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "services/colony/report_log.h"

/* ---- life ---- */

static void make_agent(rig_agent *agent, int index)
{
    tide_error err;
    (void)snprintf(agent->name, sizeof agent->name, "a%d", index);
    virtual_env_init(&agent->clock, 1000 + (uint64_t)index);
    agent->env = &agent->clock.env;
    assert_ok_err(tempdir_make(&agent->dir, &err), &err);
    tempdir_join(&agent->dir, "agent.db", agent->path);
    (void)snprintf(agent->state_dir, sizeof agent->state_dir, "%s", agent->dir.path);
    rig_agent_open(agent);
}

rig *rig_new(store_test *t, int agent_count)
{
    rig *r = calloc(1, sizeof *r);
    assert_non_null(r);
    r->t = t;
    r->agents = calloc((size_t)agent_count, sizeof *r->agents);
    assert_non_null(r->agents);
    r->log_file = open_memstream(&r->log_text, &r->log_len);
    assert_non_null(r->log_file);
    tide_log_init(&r->log, r->log_file, &t->clock.env, TIDE_LOG_LOGFMT, TIDE_LOG_DEBUG);
    assert_ok_err(tide_sink_open_sql(&r->sink, t->store, &r->err), &r->err);
    for (; r->agent_count < agent_count; r->agent_count++) {
        make_agent(&r->agents[r->agent_count], r->agent_count);
        assert_ok_err(tide_registry_put(t->store, r->agents[r->agent_count].name, "localhost:1",
                                        "operator", &r->err),
                      &r->err);
    }
    return r;
}

void rig_free(rig *r)
{
    tide_error err;
    for (int i = 0; i < r->agent_count; i++) {
        rig_agent_close(&r->agents[i]);
        assert_ok_err(tempdir_remove(&r->agents[i].dir, &err), &err);
        virtual_env_done(&r->agents[i].clock);
    }
    tide_sink_close(r->sink);
    (void)fclose(r->log_file);
    free(r->log_text);
    free(r->agents);
    free(r);
}

const char *rig_log_text(rig *r)
{
    (void)fflush(r->log_file);
    return r->log_text;
}

void rig_advance(rig *r, int64_t us)
{
    virtual_env_advance(&r->t->clock, us);
    for (int i = 0; i < r->agent_count; i++)
        virtual_env_advance(&r->agents[i].clock, us);
}

static rig_agent *find_agent(rig *r, const char *agent_id)
{
    for (int i = 0; i < r->agent_count; i++)
        if (strcmp(r->agents[i].name, agent_id) == 0)
            return &r->agents[i];
    return NULL;
}

tide_status rig_audit_ask(void *arg, const char *agent_id, const char *path, tide_view request,
                          tide_buffer *answer, tide_error *err)
{
    rig *r = arg;
    const tide_question question = {.path = path,
                                    .request = request,
                                    .timeout_us = TIDE_POLLER_TIMEOUT_US,
                                    .message_max = TIDE_REPLY_BYTES_MAX};
    return rig_ask(r, find_agent(r, agent_id), &question, answer, err);
}

/* ---- what is told ---- */

static void on_polled(void *arg, const char *agent_id, const char *data_type, int64_t elapsed_us,
                      int64_t records, int64_t bytes)
{
    (void)agent_id, (void)data_type, (void)elapsed_us, (void)records, (void)bytes;
    ((rig *)arg)->polled++;
}

static void on_applied(void *arg, const tide_change *change)
{
    rig *r = arg;
    r->applied++;
    r->stored += change->stored;
    r->repeated += change->repeated;
    r->detected += change->detected;
    r->recovered += change->recovered;
    r->permanent += change->permanent;
    r->voided += change->voided;
}

static void on_failed(void *arg, const char *agent_id, const char *data_type, tide_status status,
                      const char *text)
{
    (void)agent_id, (void)data_type;
    rig *r = arg;
    r->failed++;
    (void)snprintf(r->last_failure, sizeof r->last_failure, "%s: %s", tide_status_get(status)->name,
                   text);
}

static void on_not_stored(void *arg, const char *agent_id, const char *data_type,
                          tide_status status, const char *text)
{
    (void)agent_id, (void)data_type;
    rig *r = arg;
    r->not_stored++;
    (void)snprintf(r->last_failure, sizeof r->last_failure, "%s: %s", tide_status_get(status)->name,
                   text);
}

static tide_poller_events events_of(rig *r)
{
    return (tide_poller_events){.arg = r,
                                .polled = on_polled,
                                .applied = on_applied,
                                .failed = on_failed,
                                .not_stored = on_not_stored};
}

/* ---- polling ---- */

tide_poller_options rig_options(rig *r)
{
    return (tide_poller_options){.sink = r->sink,
                                 .env = &r->t->clock.env,
                                 .reporter = tide_report_logger(&r->log),
                                 .reader = "colony-test",
                                 .events = events_of(r)};
}

tide_poller *rig_poller_with(rig *r, rig_agent *agent, tide_poller_options options, int64_t token)
{
    tide_held_agent held = {.token = token};
    (void)snprintf(held.agent_id, sizeof held.agent_id, "%s", agent->name);
    tide_poller *poller = NULL;
    assert_ok_err(tide_poller_new(&poller, &held, &options, &r->err), &r->err);
    return poller;
}

tide_poller *rig_poller(rig *r, rig_agent *agent)
{
    return rig_poller_with(r, agent, rig_options(r), 0);
}

static void answer_it(rig *r, rig_agent *agent, tide_poller *poller, const tide_question *question)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer answer = {0};
    tide_buffer_init(&answer, TIDE_REPLY_BYTES_MAX);
    tide_error why = {0};
    const tide_status status = rig_ask(r, agent, question, &answer, &why);
    assert_ok_err(tide_poller_take(poller, status, tide_buffer_view(&answer),
                                   status < TIDE_OK ? why.text : NULL, -1, &r->err),
                  &r->err);
}

tide_status rig_turn(rig *r, rig_agent *agent, tide_poller *poller, int64_t *wake_us)
{
    tide_question question;
    const tide_status status = tide_poller_next(poller, &question, wake_us, &r->err);
    if (status < TIDE_OK)
        fail_msg("next: %s", r->err.text);
    if (status == TIDE_OK)
        answer_it(r, agent, poller, &question);
    return status;
}

void rig_catch_up(rig *r, rig_agent *agent, tide_poller *poller, int64_t max_us)
{
    const int64_t end_us = r->t->clock.mono_us + max_us;
    for (int i = 0; i < 100000; i++) {
        if (tide_poller_is_over(poller) || tide_poller_is_caught_up(poller)) {
            /* One look more: is there news? */
            tide_question question;
            int64_t wake_us;
            if (tide_poller_next(poller, &question, &wake_us, &r->err) != TIDE_OK)
                return;
            const int64_t asked = agent->pages;
            answer_it(r, agent, poller, &question);
            if (tide_poller_is_caught_up(poller) && agent->pages == asked)
                return;
        }
        int64_t wake_us = 0;
        if (rig_turn(r, agent, poller, &wake_us) == TIDE_OK)
            continue;
        if (wake_us > end_us)
            break;
        if (wake_us > r->t->clock.mono_us)
            rig_advance(r, wake_us - r->t->clock.mono_us);
    }
    if (!tide_poller_is_over(poller) && !tide_poller_is_caught_up(poller))
        fail_msg("not caught up: %s", r->last_failure);
}

void rig_poll_for(rig *r, rig_agent *agent, tide_poller *poller, int64_t us)
{
    const int64_t end_us = r->t->clock.mono_us + us;
    for (int i = 0; i < 100000 && r->t->clock.mono_us < end_us; i++) {
        int64_t wake_us = 0;
        if (rig_turn(r, agent, poller, &wake_us) == TIDE_OK)
            continue;
        const int64_t to_us = wake_us < end_us ? wake_us : end_us;
        if (to_us > r->t->clock.mono_us)
            rig_advance(r, to_us - r->t->clock.mono_us);
    }
    assert_true(r->t->clock.mono_us >= end_us);
}

void rig_catch_up_once(rig *r, rig_agent *agent)
{
    tide_poller *poller = rig_poller(r, agent);
    rig_catch_up(r, agent, poller, 5 * MINUTE_US);
    tide_poller_free(poller);
}

/* ---- recovery ---- */

tide_recover_options rig_recover_options(rig *r)
{
    return (tide_recover_options){.sink = r->sink,
                                  .env = &r->t->clock.env,
                                  .reporter = tide_report_logger(&r->log),
                                  .events = events_of(r)};
}

static bool recover_one(rig *r, const tide_recover_options *options)
{
    tide_recovery *recovery = NULL;
    const tide_status status = tide_recover_begin(&recovery, options, "rig", &r->err);
    if (status == TIDE_NONE)
        return false;
    assert_ok_err(status, &r->err);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer answer = {0};
    tide_buffer_init(&answer, TIDE_REPLY_BYTES_MAX);
    tide_error why = {0};
    rig_agent *agent = find_agent(r, tide_recovery_agent(recovery));
    const tide_status asked = rig_ask(r, agent, tide_recovery_question(recovery), &answer, &why);
    assert_ok_err(tide_recover_take(recovery, asked, tide_buffer_view(&answer),
                                    asked < TIDE_OK ? why.text : NULL, &r->err),
                  &r->err);
    return true;
}

int rig_recover(rig *r, const tide_recover_options *options)
{
    int64_t added = 0;
    int64_t next_us = 0;
    int asked = 0;
    assert_ok_err(tide_recover_plan(options, &added, &next_us, &r->err), &r->err);
    assert_true(next_us >= 0);
    while (recover_one(r, options))
        asked++;
    return asked;
}

/* ---- looking ---- */

static tide_status no_columns(void *arg, const char *const *names, int count, tide_error *err)
{
    (void)arg, (void)names, (void)count, (void)err;
    return TIDE_OK;
}

static tide_status keep_number(void *arg, const tide_sql_value *cells, int count, tide_error *err)
{
    (void)err;
    assert_int_equal(1, count);
    *(int64_t *)arg = cells[0].kind == TIDE_SQL_VALUE_F64 ? (int64_t)cells[0].f64 : cells[0].i64;
    return TIDE_OK;
}

int64_t rig_query(rig *r, const char *sql)
{
    int64_t number = -1;
    const tide_sink_query query = {.sql = sql};
    const tide_sink_rows rows = {.columns = no_columns, .row = keep_number, .arg = &number};
    assert_ok_err(r->sink->ops->query(r->sink, &query, &rows, &r->err), &r->err);
    return number;
}

tide_position rig_position(rig *r, const rig_agent *agent, const char *stream)
{
    tide_position position;
    tide_position_init(&position, agent->name, stream);
    assert_ok_err(tide_sink_load(r->sink, agent->name, stream, &position, &r->err), &r->err);
    return position;
}

int64_t rig_last_seq(rig *r, const rig_agent *agent, const char *stream)
{
    TIDE_CLEANUP(tide_position_done) tide_position position = rig_position(r, agent, stream);
    return position.last_seq;
}

static tide_status count_gap(void *arg, const tide_gap *gap, tide_error *err)
{
    (void)gap, (void)err;
    ++*(int64_t *)arg;
    return TIDE_OK;
}

int64_t rig_count_gaps(rig *r, tide_gap_status status)
{
    int64_t count = 0;
    const tide_gap_filter filter = {.epoch = -1, .statuses = 1U << status};
    assert_ok_err(r->sink->ops->gaps(r->sink, &filter, count_gap, &count, &r->err), &r->err);
    return count;
}

static tide_status print_line(void *arg, const tide_audit_line *line, tide_error *err)
{
    (void)arg, (void)err;
    if (!line->is_balanced)
        print_message("%s %s session %s epoch %lld: %s (head %lld first %lld stored %lld dead %lld "
                      "void %lld lost %lld pending %lld rows %lld)\n",
                      line->position->agent_id, line->position->data_type,
                      line->position->session_id, (long long)line->position->epoch, line->finding,
                      (long long)line->ledger.head, (long long)line->ledger.first,
                      (long long)line->ledger.stored, (long long)line->ledger.dead,
                      (long long)line->ledger.voided, (long long)line->ledger.lost,
                      (long long)line->ledger.pending, (long long)line->rows);
    return TIDE_OK;
}

void rig_assert_balanced(rig *r)
{
    assert_ok_err(tide_audit(r->sink, NULL, NULL, rig_audit_ask, r, print_line, NULL, &r->err),
                  &r->err);
}

void rig_assert_rows(rig *r, const rig_agent *agent, int64_t first, int64_t last)
{
    TIDE_CLEANUP(tide_position_done) tide_position at = rig_position(r, agent, "telemetry");
    char sql[512];
    static const char *const what[] = {"COUNT(*)", "COUNT(DISTINCT seq_id)", "MIN(seq_id)",
                                       "MAX(seq_id)"};
    const int64_t want[] = {last - first + 1, last - first + 1, first, last};
    for (int i = 0; i < 4; i++) {
        (void)snprintf(sql, sizeof sql,
                       "SELECT %s FROM spans WHERE agent_id = '%s' AND session_id = '%s'", what[i],
                       agent->name, at.session_id);
        assert_int_equal(want[i], rig_query(r, sql));
    }
}
