/* cmd_lake_stress.c - tidemark lake stress: writers in processes of their own, an observer here, and the proof at the end. */
#include "cli/lake/cmd_lake.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <tidemark/env.h>

#include "base/cleanup.h"
#include "bench/stress/stress.h"
#include "bench/stress/stress_processes.h"
#include "lake/data.h"

enum { PATH_SIZE = 4096 };

#define SECOND_US INT64_C(1000000)
#define LOOK_EVERY_US INT64_C(20000)
#define KILL_EVERY_US INT64_C(300000)
#define PROOF_US INT64_C(86400000000)

/* Everything of a run. */
typedef struct stress_run {
    tide_cli *cli;
    tide_env *env;
    tide_cli_metabase metabase;
    char prefix[32];
    char dir[PATH_SIZE]; /* of logs, and of the file that all files are links to */
    char seed[PATH_SIZE + 16];
    tide_stress stress;
    tide_crowd crowd;
    tide_stress_observer *observer;
    int64_t findings;
} stress_run;

static void run_done(stress_run *run)
{
    tide_crowd_done(&run->crowd);
    tide_stress_observer_close(run->observer);
    tide_cli_close_lake(&run->metabase);
}

/* ---- a writer ---- */

tide_status tide_cli_lake_stress_writer(tide_cli *cli, tide_error *err)
{
    int64_t numbers[4];
    static const char *const names[] = {"CATALOGS", "WRITER", "TURN", "SECONDS"};
    for (int i = 0; i < 4; i++)
        TIDE_TRY(tide_cli_parse_number(&numbers[i], cli->args[1 + i], names[i], 0, 1000000, err));
    char log[PATH_SIZE];
    char seed[PATH_SIZE];
    (void)snprintf(log, sizeof log, "%s/writer-%" PRId64 ".log", cli->args[5], numbers[1]);
    (void)snprintf(seed, sizeof seed, "%s/seed.parquet", cli->args[5]);
    const tide_stress stress = {.prefix = cli->args[0],
                                .catalogs = (int)numbers[0],
                                .seed_file = seed,
                                .writer = (int)numbers[1],
                                .turn = (int)numbers[2],
                                .log = log};
    tide_env *env = tide_env_system();
    const int64_t deadline_us = env->mono_us(env) + numbers[3] * SECOND_US;
    TIDE_CLEANUP(tide_cli_close_lake) tide_cli_metabase metabase = {0};
    for (;;) { /* a server that is coming up again */
        const tide_status status = tide_cli_open_lake(cli, &metabase, 0, err);
        if (status == TIDE_OK)
            break;
        if (!tide_status_get(status)->is_retryable || env->mono_us(env) >= deadline_us)
            return env->mono_us(env) >= deadline_us ? TIDE_OK : status;
        tide_cli_close_lake(&metabase);
        metabase = (tide_cli_metabase){0};
        env->sleep_us(env, SECOND_US / 20);
    }
    TIDE_CLEANUP(tide_stress_writer_closep) tide_stress_writer *writer = NULL;
    TIDE_TRY(tide_stress_writer_open(&writer, metabase.lake, &stress, err));
    while (env->mono_us(env) < deadline_us)
        TIDE_TRY(tide_stress_writer_step(writer, deadline_us + 20 * SECOND_US, err));
    return TIDE_OK;
}

/* ---- the run ---- */

/* One row, as Parquet: a table without a metabase is enough to write it. Without DuckDB the files hold nothing. */
static tide_status write_seed(stress_run *run, tide_error *err)
{
    char csv[PATH_SIZE + 16];
    char from[2 * PATH_SIZE];
    (void)snprintf(csv, sizeof csv, "%s/seed.csv", run->dir);
    FILE *out = fopen(csv, "w");
    const bool is_written = out && fputs("a\n1\n", out) >= 0;
    if ((out && fclose(out) != 0) || !is_written)
        return tide_fail(err, TIDE_E_IO, "cannot write %s: %s", csv, strerror(errno));
    TIDE_CLEANUP(tide_lake_data_closep) tide_lake_data *data = NULL;
    TIDE_TRY(tide_lake_data_open(&data, tide_lake_data_dir(run->metabase.lake), NULL, err));
    tide_lake_column column = {.id = 1, .order = 1, .nulls_allowed = true};
    (void)snprintf(column.name, sizeof column.name, "a");
    (void)snprintf(column.type, sizeof column.type, "int64");
    (void)snprintf(column.initial_default, sizeof column.initial_default, "NULL");
    (void)snprintf(column.default_value, sizeof column.default_value, "NULL");
    tide_lake_table_seen table = {.columns = &column, .column_count = 1};
    (void)snprintf(table.table.name, sizeof table.table.name, "seed");
    (void)snprintf(table.table.path, sizeof table.table.path, "%s-log/", run->prefix);
    TIDE_CLEANUP(tide_lake_written_done) tide_lake_written written = {0};
    TIDE_TRY(tide_lake_write_rows(data, &table, csv, TIDE_LAKE_CSV, &written, err));
    (void)snprintf(from, sizeof from, "%s/%.300s", run->dir, written.files[0].path);
    if (rename(from, run->seed) != 0)
        return tide_fail(err, TIDE_E_IO, "cannot rename %s: %s", from, strerror(errno));
    return TIDE_OK;
}

static tide_status prepare(stress_run *run, tide_error *err)
{
    uint64_t random = 0;
    run->env->random(run->env, &random, sizeof random);
    (void)snprintf(run->prefix, sizeof run->prefix, "stress%08x", (unsigned)random);
    (void)snprintf(run->dir, sizeof run->dir, "%.3000s%s-log",
                   tide_lake_data_dir(run->metabase.lake), run->prefix);
    (void)snprintf(run->seed, sizeof run->seed, "%s/seed.parquet", run->dir);
    if (mkdir(run->dir, 0700) != 0 && errno != EEXIST)
        return tide_fail(err, TIDE_E_IO, "cannot make %s: %s", run->dir, strerror(errno));
    run->stress = (tide_stress){.prefix = run->prefix,
                                .catalogs = (int)tide_cli_number(run->cli, TIDE_CLI_CATALOGS),
                                .seed_file = run->seed};
    const tide_status status = write_seed(run, err);
    if (status < TIDE_OK && status != TIDE_E_NOT_FOUND && status != TIDE_E_UNAVAILABLE)
        return status;
    TIDE_TRY(tide_stress_prepare(run->metabase.lake, &run->stress, err));
    return tide_stress_observer_open(&run->observer, run->metabase.lake, &run->stress, err);
}

static tide_status watch(stress_run *run, tide_error *err)
{
    const bool is_killing = tide_cli_is_given(run->cli, TIDE_CLI_KILL);
    int64_t kill_at_us = run->env->mono_us(run->env) + KILL_EVERY_US;
    for (int left = 1; left > 0;) {
        tide_stress_observer_step(run->observer);
        const int64_t now_us = run->env->mono_us(run->env);
        if (is_killing && now_us >= kill_at_us && now_us < run->crowd.ends_at_us) {
            uint32_t random = 0;
            run->env->random(run->env, &random, sizeof random);
            TIDE_TRY(tide_crowd_kill(&run->crowd, (int)(random % (uint32_t)run->crowd.writers),
                                     now_us, err));
            kill_at_us = now_us + KILL_EVERY_US;
        }
        TIDE_TRY(tide_crowd_poll(&run->crowd, &left, err));
        run->env->sleep_us(run->env, LOOK_EVERY_US);
    }
    return TIDE_OK;
}

static void print_finding(void *arg, const tide_lake_finding *finding)
{
    stress_run *run = arg;
    run->findings++;
    tide_cli_print(stderr, "%s: catalog %" PRId64 ", snapshot %" PRId64 ": %s\n", finding->rule,
                   finding->catalog_id, finding->snapshot_id, finding->words);
}

/* A rule that is broken is a finding, not the end of the proof. */
static tide_status unless_damaged(tide_status status)
{
    return status == TIDE_E_DAMAGED ? TIDE_OK : status;
}

static tide_status prove(stress_run *run, tide_stress_report *report, tide_lake_checked *checked,
                         tide_error *err)
{
    TIDE_CLEANUP(tide_freep)
    char(*paths)[PATH_SIZE] = calloc((size_t)run->crowd.writers, sizeof *paths);
    TIDE_CLEANUP(tide_freep) const char **logs = calloc((size_t)run->crowd.writers, sizeof *logs);
    TIDE_NEED_MEMORY(paths && logs, err);
    for (int i = 0; i < run->crowd.writers; i++) {
        (void)snprintf(paths[i], sizeof paths[i], "%.4000s/writer-%d.log", run->dir, i);
        logs[i] = paths[i];
    }
    TIDE_TRY(
        unless_damaged(tide_stress_judge(run->metabase.lake, &run->stress, logs, run->crowd.writers,
                                         print_finding, run, report, err)));
    int64_t count = 0;
    int64_t changed = 0;
    const tide_lake_sight *sights = tide_stress_observer_sights(run->observer, &count, &changed);
    run->findings += changed;
    TIDE_TRY(unless_damaged(
        tide_lake_check_sights(run->metabase.lake, sights, count, print_finding, run, NULL, err)));
    return unless_damaged(
        tide_lake_check_history(run->metabase.lake, NULL, print_finding, run, checked, err));
}

static tide_status print_json(const stress_run *run, const tide_stress_report *report,
                              const tide_lake_checked *checked, int64_t sights, tide_error *err)
{
    tide_cli_output *out = &run->cli->out;
    tide_cli_json_begin(out);
    tide_cli_json_text(out, "prefix", run->prefix);
    tide_cli_json_i64(out, "commits", report->commits);
    tide_cli_json_i64(out, "conflicts", report->conflicts);
    tide_cli_json_i64(out, "refused", report->refused);
    tide_cli_json_i64(out, "retries", report->retries);
    tide_cli_json_i64(out, "repeats", report->repeats);
    tide_cli_json_i64(out, "unknown", report->unknown);
    tide_cli_json_object_begin(out, "errors");
    tide_cli_json_i64(out, "total", report->errors);
    tide_cli_json_i64(out, "duplicate_key", report->duplicate_keys);
    for (int i = 1; i < TIDE_STRESS_STATUSES; i++)
        if (report->by_status[i] > 0)
            tide_cli_json_i64(out, tide_status_get((tide_status)-i)->name, report->by_status[i]);
    tide_cli_json_object_end(out);
    tide_cli_json_text(out, "first_error", report->first_error);
    tide_cli_json_i64(out, "slowest_writer", report->slowest);
    tide_cli_json_i64(out, "fastest_writer", report->fastest);
    tide_cli_json_i64(out, "kills", run->crowd.kills);
    tide_cli_json_i64(out, "observed", sights);
    tide_cli_json_i64(out, "lost", report->lost);
    tide_cli_json_i64(out, "phantoms", report->phantoms);
    tide_cli_json_i64(out, "snapshots", checked->snapshots);
    tide_cli_json_i64(out, "findings", run->findings);
    return tide_cli_json_end(out, err);
}

static tide_status print_report(const stress_run *run, const tide_stress_report *report,
                                const tide_lake_checked *checked, tide_error *err)
{
    int64_t sights = 0;
    int64_t changed = 0;
    (void)tide_stress_observer_sights(run->observer, &sights, &changed);
    if (run->cli->out.is_json)
        return print_json(run, report, checked, sights, err);
    (void)fprintf(run->cli->out.file,
                  "%" PRId64 " commits, %" PRId64 " conflicts, %" PRId64 " refused, %" PRId64
                  " retries, %" PRId64 " repeats, %" PRId64 " errors\n"
                  "writers: slowest %" PRId64 ", fastest %" PRId64 " commits; %" PRId64 " killed\n"
                  "proof: %" PRId64 " lost, %" PRId64 " phantoms, %" PRId64 " observed, %" PRId64
                  " findings in %" PRId64 " snapshots\n",
                  report->commits, report->conflicts, report->refused, report->retries,
                  report->repeats, report->errors, report->slowest, report->fastest,
                  run->crowd.kills, report->lost, report->phantoms, sights, run->findings,
                  checked->snapshots);
    return TIDE_OK;
}

tide_status tide_cli_lake_stress(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(run_done) stress_run run = {.cli = cli, .env = tide_env_system()};
    TIDE_TRY(tide_cli_open_lake(cli, &run.metabase, PROOF_US, err));
    TIDE_TRY(prepare(&run, err));
    run.crowd.store = tide_cli_text(cli, TIDE_CLI_STORE);
    run.crowd.prefix = run.prefix;
    run.crowd.dir = run.dir;
    run.crowd.catalogs = run.stress.catalogs;
    run.crowd.writers = (int)tide_cli_number(cli, TIDE_CLI_WRITERS);
    const int64_t now_us = run.env->mono_us(run.env);
    run.crowd.ends_at_us = now_us + tide_cli_number(cli, TIDE_CLI_SECONDS) * SECOND_US;
    TIDE_TRY(tide_crowd_start(&run.crowd, now_us, err));
    TIDE_TRY(watch(&run, err));
    tide_stress_report report = {0};
    tide_lake_checked checked = {0};
    TIDE_TRY(prove(&run, &report, &checked, err));
    TIDE_TRY(print_report(&run, &report, &checked, err));
    if (run.findings > 0)
        return tide_fail(err, TIDE_E_DAMAGED, "the run broke its promises: %" PRId64 " findings",
                         run.findings);
    return TIDE_OK;
}
