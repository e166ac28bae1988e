#include "sim/work/machine.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes/crc32c.h"

/* On PostgreSQL guards look at the server's own clock: what they see of ours is far in the future, always. */
#define FUTURE_US INT64_C(4102444800000000) /* 2100-01-01 */

enum { SNAPSHOT_CHECKPOINTS = 256 };

/* ---- the clocks ---- */

static work_machine *machine_of(tide_env *env)
{
    return (work_machine *)env;
}

static int64_t read_wall(tide_env *env)
{
    const work_machine *m = machine_of(env);
    return m->base_us + sim_now_us(m->world) + m->ahead_us;
}

static int64_t read_uptime(tide_env *env)
{
    const work_machine *m = machine_of(env);
    return sim_now_us(m->world) - m->booted_us;
}

static void read_boot_id(tide_env *env, char out[TIDE_BOOT_ID_SIZE])
{
    memcpy(out, machine_of(env)->boot_id, TIDE_BOOT_ID_SIZE);
}

static void draw_random(tide_env *env, void *out, size_t len)
{
    prng_fill(&machine_of(env)->random, out, len);
}

static void sleep_not(tide_env *env, int64_t us)
{
    (void)us; /* nobody is beside us: what is waited for comes at once, or never */
    (void)machine_of(env);
}

void work_machine_set_wall(work_machine *m, int64_t ahead_us)
{
    m->model.tally.jumps++;
    m->ahead_us = ahead_us;
}

/* ---- life ---- */

static void open_store(work_machine *m)
{
    tide_error err;
    const tide_store_options options = {
        TIDE_STORE_OPTIONS_INIT, .env = &m->env,           .is_inline = true,
        .is_env_clock = true,    .state_dir = m->dir.path,
    };
    assert_ok_err(tide_store_open(&m->store, m->url, &options, &err), &err);
    m->client = work_client_open(m->engine, m->url, &m->env);
    m->version[0] = '\0';
}

static void close_store(work_machine *m)
{
    work_client_close(m->client);
    m->client = NULL;
    tide_store_closep(&m->store);
}

/* A copy of a database that has all tables already; the store gives it an identity of its own. */
static void make_database(work_machine *m)
{
    tide_error err;
    static char template_name[PG_CLUSTER_NAME_MAX];
    pg_cluster *cluster = pg_cluster_for_test();
    char name[PG_CLUSTER_NAME_MAX];
    if (!template_name[0]) {
        assert_ok_err(pg_cluster_fresh_database(cluster, NULL, name, &err), &err);
        pg_cluster_url(cluster, name, m->url);
        open_store(m);
        close_store(m);
        memcpy(template_name, name, sizeof template_name);
    }
    assert_ok_err(pg_cluster_fresh_database(cluster, template_name, name, &err), &err);
    pg_cluster_url(cluster, name, m->url);
}

static void add_tasks(const work_machine *m)
{
    for (int i = 0; i < WORK_TASKS; i++) {
        char name[WORK_NAME_SIZE];
        char id[TIDE_WORK_ID_MAX + 1];
        tide_error err;
        work_task_name(name, i);
        const tide_task_new task = {TIDE_TASK_NEW_INIT, .task_id = name, .title = name};
        assert_ok_err(tide_task_create(m->store, &task, id, &err), &err);
    }
}

static int64_t step(void *self, sim *world);
static void receive(void *self, sim *world, sim_id from, tide_view bytes);

void work_machine_init(work_machine *m, sim *world, tide_engine engine, const work_plan *plan)
{
    memset(m, 0, sizeof *m);
    m->env = (tide_env){TIDE_ENV_INIT,          .wall_us = read_wall,    .mono_us = read_uptime,
                        .boot_us = read_uptime, .boot_id = read_boot_id, .random = draw_random,
                        .sleep_us = sleep_not};
    m->world = world;
    m->engine = engine;
    m->base_us = engine == TIDE_ENGINE_POSTGRES ? FUTURE_US : VIRTUAL_ENV_WALL_US;
    m->booted_us = -VIRTUAL_ENV_UP_US;
    prng_init(&m->random, prng_u64(sim_chance(world)));
    virtual_env_make_boot_id(&m->random, m->boot_id);
    m->id =
        sim_add(world, &(sim_actor){.name = "store", .self = m, .step = step, .receive = receive});
    tide_error err;
    assert_ok_err(tempdir_make(&m->dir, &err), &err);
    if (engine == TIDE_ENGINE_SQLITE)
        tempdir_join(&m->dir, "store.db", m->url);
    else
        make_database(m);
    open_store(m);
    add_tasks(m);
    m->seen.checkpoints = calloc(SNAPSHOT_CHECKPOINTS, sizeof *m->seen.checkpoints);
    assert(m->seen.checkpoints);
    tide_identity identity;
    tide_store_identity(m->store, &identity);
    /* As core/lease_clock.c; the triggers of plain SQL begin at the epoch's own. */
    const int64_t plain_floor = (identity.epoch << TIDE_EPOCH_TOKEN_BITS) + 1;
    const int64_t salt = tide_crc32c(tide_view_of(identity.session_id));
    work_model_init(&m->model, plan, engine, plain_floor + salt, plain_floor);
}

void work_machine_done(work_machine *m)
{
    close_store(m);
    free(m->seen.checkpoints);
    TIDE_IGNORE(tempdir_remove(&m->dir, NULL));
}

void work_machine_reboot(work_machine *m)
{
    m->booted_us = sim_now_us(m->world);
    virtual_env_make_boot_id(&m->random, m->boot_id);
    work_model_reboot(&m->model);
    if (m->engine == TIDE_ENGINE_SQLITE) {
        close_store(m);
        open_store(m);
    }
}

/* ---- reading the tables ---- */

static work_status status_of(const char *text)
{
    for (int i = WORK_PENDING; i <= WORK_EXPIRED; i++)
        if (strcmp(text, work_status_name((work_status)i)) == 0)
            return (work_status)i;
    return WORK_ABSENT;
}

static work_kind kind_of(const char *text)
{
    static const char *const names[] = {"",          "error",     "exhausted", "quarantined",
                                        "cancelled", "dependency"};
    for (int i = WORK_KIND_ERROR; text && i <= WORK_KIND_DEPENDENCY; i++)
        if (strcmp(text, names[i]) == 0)
            return (work_kind)i;
    return WORK_KIND_NONE;
}

static int64_t number_of(const char *text)
{
    return text ? strtoll(text, NULL, 10) : 0;
}

static void read_row(void *arg, const char *const *columns, int count)
{
    work_machine *m = arg;
    assert(count == 18);
    (void)count;
    const int item = work_item_index(columns[0]);
    if (item < 0) {
        m->seen.strays++;
        return;
    }
    work_row *row = &m->seen.rows[item];
    row->status = status_of(columns[1]);
    row->token = number_of(columns[2]);
    (void)snprintf(row->holder, sizeof row->holder, "%s", columns[3] ? columns[3] : "");
    row->is_sql = columns[4] && strcmp(columns[4], "sql") == 0;
    row->expires_us = work_client_time(m->client, columns[5]);
    row->deadline_us = work_client_time(m->client, columns[6]);
    row->run_after_us = work_client_time(m->client, columns[7]);
    row->retries = number_of(columns[8]);
    row->failures = number_of(columns[9]);
    row->crashes = number_of(columns[10]);
    row->kind = kind_of(columns[11]);
    row->waits_for = number_of(columns[12]);
    (void)snprintf(row->output, sizeof row->output, "%s", columns[13] ? columns[13] : "");
    row->claim_key = number_of(columns[14]);
    row->attempts = number_of(columns[15]);
    row->open_attempts = number_of(columns[16]);
}

static void read_checkpoint(void *arg, const char *const *columns, int count)
{
    work_machine *m = arg;
    (void)count;
    assert(m->seen.checkpoint_count < SNAPSHOT_CHECKPOINTS);
    work_checkpoint_row *row = &m->seen.checkpoints[m->seen.checkpoint_count++];
    row->global = number_of(columns[0]);
    row->task = (int)number_of(columns[1] + 1);
    row->number = number_of(columns[2]);
    row->item = work_item_index(columns[3]);
    assert(row->task >= 0 && row->task < WORK_TASKS);
}

static void read_anchor(void *arg, const char *const *columns, int count)
{
    work_machine *m = arg;
    (void)count;
    (void)snprintf(m->seen.boot_id, sizeof m->seen.boot_id, "%s", columns[0]);
    m->seen.offset_us = number_of(columns[1]);
}

static void read_version(void *arg, const char *const *columns, int count)
{
    (void)count;
    (void)snprintf(arg, sizeof((work_machine *)0)->version, "%s", columns[0]);
}

/* A claim in vain leaves no trace; then there is nothing to read. */
static bool is_unchanged(work_machine *m, const work_request *request)
{
    char words[WORK_CLIENT_WORDS];
    char before[sizeof m->version];
    memcpy(before, m->version, sizeof before);
    if (!work_client_run(m->client, WORK_SQL_VERSION, NULL, 0, read_version, m->version, words))
        sim_fail(m->world, "the database has no version: %s", words);
    return request->verb < WORK_SQL_CLAIM && strcmp(before, m->version) == 0;
}

static void read_tables(work_machine *m, const work_request *request)
{
    char words[WORK_CLIENT_WORDS];
    m->seen.checkpoint_count = 0;
    if (is_unchanged(m, request))
        return;
    char above[24];
    const char *const params[] = {above};
    memset(m->seen.rows, 0, sizeof m->seen.rows);
    m->seen.strays = 0;
    (void)snprintf(above, sizeof above, "%" PRId64, m->model.global);
    if (!work_client_run(m->client, WORK_SQL_ROWS, NULL, 0, read_row, m, words) ||
        !work_client_run(m->client, WORK_SQL_CHECKPOINTS, params, 1, read_checkpoint, m, words) ||
        !work_client_run(m->client, WORK_SQL_ANCHOR, NULL, 0, read_anchor, m, words))
        sim_fail(m->world, "the tables cannot be read: %s", words);
}

/* ---- serving ---- */

static void trace(work_machine *m, const work_request *r, const work_answer *a)
{
    char holds[96] = "";
    size_t used = 0;
    for (int i = 0; i < r->count && used < sizeof holds; i++)
        used += (size_t)snprintf(holds + used, sizeof holds - used, " i%03d/%" PRId64,
                                 (int)r->items[i].item, r->items[i].token % 100000);
    for (int i = 0; i < a->count && i < WORK_BATCH && used < sizeof holds; i++)
        used += (size_t)snprintf(holds + used, sizeof holds - used, " got i%03d/%" PRId64,
                                 (int)a->claims[i].item, a->claims[i].token % 100000);
    sim_trace(m->world, "w%03d: %s%s: %s", (int)r->sender, work_verb_name(r->verb), holds,
              tide_status_get((tide_status)a->status)->name);
}

static void trace_row(work_machine *m, int item, const char *who, const work_row *row)
{
    sim_trace(m->world,
              "  i%03d %s: %s token %" PRId64 " by '%s'%s until %" PRId64 " retries %" PRId64
              "/%" PRId64 " failures %" PRId64 " crashes %" PRId64 " attempts %" PRId64,
              item, who, work_status_name(row->status), row->token % 100000, row->holder,
              row->is_sql ? " (sql)" : "", row->expires_us % (1000 * (int64_t)SIM_SECOND_US),
              row->retries, m->model.plan->items[item].max_retries, row->failures, row->crashes,
              row->attempts);
}

/* For the report: where the rows are not what the model expects. */
static void trace_differences(work_machine *m)
{
    for (int i = 0; i < WORK_ITEMS; i++) {
        const work_row *want = &m->model.items[i];
        const work_row *have = &m->seen.rows[i];
        if (want->status == have->status && want->token == have->token &&
            want->retries == have->retries && want->attempts == have->attempts &&
            want->crashes == have->crashes && want->failures == have->failures)
            continue;
        trace_row(m, i, "want", want);
        trace_row(m, i, "have", have);
    }
}

void work_machine_serve(work_machine *m, const work_request *request, work_answer *answer)
{
    work_now now = {.wall_us = read_wall(&m->env), .boot_us = read_uptime(&m->env)};
    (void)snprintf(now.boot_id, sizeof now.boot_id, "%s", m->boot_id);
    memset(answer, 0, sizeof *answer);
    answer->number = request->number;
    work_serve_call(m, request, answer);
    trace(m, request, answer);
    read_tables(m, request);
    if (!work_model_judge(&m->model, request, answer, &now, &m->seen)) {
        trace_differences(m);
        sim_fail(m->world, "%s", m->model.why);
    }
}

static void receive(void *self, sim *world, sim_id from, tide_view bytes)
{
    work_machine *m = self;
    work_request request;
    work_answer answer;
    assert(bytes.len == sizeof request);
    memcpy(&request, bytes.ptr, sizeof request);
    work_machine_serve(m, &request, &answer);
    sim_send(world, m->id, from, tide_view_bytes(&answer, sizeof answer));
}

static int64_t step(void *self, sim *world)
{
    (void)self;
    (void)world;
    return SIM_IDLE; /* it only answers; its troubles are the weather's */
}

/* ---- the end ---- */

static void tell_finding(void *arg, const char *finding)
{
    work_machine *m = arg;
    sim_fail(m->world, "journal verify: %s", finding);
}

void work_machine_verify(work_machine *m)
{
    tide_error err;
    tide_journal_report report;
    const tide_status status = tide_journal_verify(m->store, NULL, tell_finding, m, &report, &err);
    if (status != TIDE_OK)
        sim_fail(m->world, "journal verify: %s", err.text);
    if (report.valid + report.skipped != m->model.global)
        sim_fail(m->world,
                 "journal verify saw %" PRId64 " + %" PRId64 " of %" PRId64 " checkpoints",
                 report.valid, report.skipped, m->model.global);
}
