/* cmd_work_run.c - tidemark work run: a worker whose function is a command. */
#include "base/lock.h"
#include "cli/work/cmd_work.h"

#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tidemark/worker.h>

#include "base/cleanup.h"
#include "cli/frame/interrupt.h"
#include "cli/frame/listener_options.h"
#include "cli/work/work_child.h"
#include "cli/work/work_output.h"
#include "services/work/maintenance.h"

/* For the signal handler: there is one worker in this process. */
static tide_worker *running;

static void stop_gracefully(int number)
{
    (void)number;
    tide_worker_stop(running);
}

/* From now on a signal asks the worker to stop instead of ending the program. */
static void catch_signals(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct sigaction before;
        if (sigaction(numbers[i], NULL, &before) != 0 || before.sa_handler == SIG_IGN)
            continue;
        struct sigaction action = {.sa_handler = stop_gracefully, .sa_flags = SA_RESTART};
        (void)sigemptyset(&action.sa_mask);
        (void)sigaction(numbers[i], &action, NULL);
    }
}

/* ---- telling what happens ---- */

typedef struct reporter {
    tide_cli_output *out;
    pthread_mutex_t lock;
} reporter;

static const char *name_event(tide_worker_event event)
{
    static const char *const names[] = {
        [TIDE_WORKER_CLAIMED] = "claimed", [TIDE_WORKER_FINISHED] = "finished",
        [TIDE_WORKER_FAILED] = "failed",   [TIDE_WORKER_RELEASED] = "released",
        [TIDE_WORKER_LOST] = "lost",       [TIDE_WORKER_SWEPT] = "swept",
        [TIDE_WORKER_TROUBLE] = "trouble",
    };
    return names[event];
}

static void report(void *arg, tide_worker_event event, const tide_work_claimed *item,
                   const tide_error *err)
{
    reporter *to = arg;
    if (event == TIDE_WORKER_SWEPT)
        return;
    TIDE_HOLD(&to->lock);
    if (to->out->is_json) {
        tide_cli_json_begin(to->out);
        tide_cli_json_text(to->out, "event", name_event(event));
        if (item) {
            tide_cli_json_text(to->out, "work_item_id", item->work_item_id);
            tide_cli_json_text(to->out, "work_type", item->work_type);
            tide_cli_json_i64(to->out, "attempt", item->attempt);
        }
        if (err)
            tide_cli_json_text(to->out, "error", err->text);
        TIDE_IGNORE(tide_cli_json_end(to->out, NULL));
        TIDE_IGNORE(tide_cli_output_flush(to->out, NULL));
    } else {
        tide_cli_print(stderr, "%s %s%s%s\n", name_event(event), item ? item->work_item_id : "",
                       err ? ": " : "", err ? err->text : "");
    }
}

static tide_status print_totals(tide_cli *cli, const tide_worker *worker, tide_error *err)
{
    tide_worker_totals totals;
    tide_worker_totals_get(worker, &totals);
    if (tide_cli_is_given(cli, TIDE_CLI_UNTIL_EMPTY) && totals.failed_items + totals.lost > 0)
        cli->exit_code = TIDE_EXIT_PARTIAL;
    if (!cli->out.is_json) {
        tide_cli_print(cli->out.file,
                       "%" PRId64 " finished, %" PRId64 " failed, %" PRId64 " released, %" PRId64
                       " lost\n",
                       totals.finished, totals.failed, totals.released, totals.lost);
        return TIDE_OK;
    }
    tide_cli_json_begin(&cli->out);
    tide_cli_json_text(&cli->out, "event", "stopped");
    tide_cli_json_i64(&cli->out, "claimed", totals.claimed);
    tide_cli_json_i64(&cli->out, "finished", totals.finished);
    tide_cli_json_i64(&cli->out, "failed", totals.failed);
    tide_cli_json_i64(&cli->out, "released", totals.released);
    tide_cli_json_i64(&cli->out, "lost", totals.lost);
    tide_cli_json_i64(&cli->out, "failed_items", totals.failed_items);
    return tide_cli_json_end(&cli->out, err);
}

/* ---- run ---- */

static tide_status check_environment(tide_cli_values env, tide_error *err)
{
    for (int i = 0; i < env.count; i++)
        if (!strchr(env.items[i], '=') || env.items[i][0] == '=')
            return tide_fail(err, TIDE_E_INVALID, "--env %s: want NAME=VALUE", env.items[i]);
    return TIDE_OK;
}

static bool is_program(const char *path)
{
    struct stat found;
    return stat(path, &found) == 0 && S_ISREG(found.st_mode) && access(path, X_OK) == 0;
}

/* A command that does not exist would fail every item: better no item is claimed at all. */
static tide_status check_command(const char *name, tide_error *err)
{
    if (strchr(name, '/'))
        return is_program(name)
                   ? TIDE_OK
                   : tide_fail(err, TIDE_E_INVALID, "there is no program %s to run", name);
    const char *at = getenv("PATH");
    for (at = at ? at : "/bin:/usr/bin"; *at;) {
        char path[PATH_MAX];
        const size_t len = strcspn(at, ":");
        const int size =
            snprintf(path, sizeof path, "%.*s%s%s", (int)len, at, len > 0 ? "/" : "", name);
        if (size < (int)sizeof path && is_program(path))
            return TIDE_OK;
        at += len + (at[len] == ':');
    }
    return tide_fail(err, TIDE_E_INVALID, "there is no program '%s' in PATH to run", name);
}

/* The first sweep is over before the first claim: with --until-empty, what it requeues is not left behind. */
static tide_status start_maintenance(tide_ticker *ticker, tide_work_maintenance *maintenance,
                                     tide_error *err)
{
    int64_t due_us = 0;
    TIDE_TRY(tide_work_maintenance_bind(maintenance, ticker, err));
    TIDE_TRY(tide_ticker_step(ticker, &due_us, err));
    return tide_ticker_start(ticker, err);
}

static tide_status run_worker(tide_cli *cli, tide_store *store, const tide_worker_options *options,
                              tide_error *err)
{
    tide_log log;
    tide_log_init(&log, stderr, tide_env_system(), TIDE_LOG_LOGFMT, TIDE_LOG_WARN);
    const tide_ticker_options steps = {
        .steps = tidemark_work_run_steps, .env = tide_env_system(), .log = &log};
    const tide_work_maintenance_options kept = tide_cli_work_maintenance(cli);
    TIDE_CLEANUP(tide_work_maintenance_freep) tide_work_maintenance *maintenance = NULL;
    TIDE_CLEANUP(tide_ticker_freep) tide_ticker *ticker = NULL;
    TIDE_CLEANUP(tide_worker_closep) tide_worker *worker = NULL;
    TIDE_TRY(tide_work_maintenance_new(&maintenance, store, &kept, NULL, err));
    TIDE_TRY(tide_ticker_new(&ticker, &steps, err));
    TIDE_TRY(tide_worker_open(&worker, store, options, err));
    TIDE_TRY(start_maintenance(ticker, maintenance, err));
    running = worker;
    catch_signals();
    const tide_status status = tide_worker_run(worker, err);
    tide_cli_interrupt_install(); /* from now on there is nobody to be asked */
    TIDE_TRY(status);
    return print_totals(cli, worker, err);
}

tide_status tide_cli_work_run(tide_cli *cli, tide_error *err)
{
    char name[TIDE_CLI_WORKER_SIZE];
    tide_cli_worker_name(cli, TIDE_CLI_WORKER, name);
    const tide_cli_values types = tide_cli_list(cli, TIDE_CLI_TYPE);
    const tide_cli_values env = tide_cli_list(cli, TIDE_CLI_ENV);
    TIDE_TRY(check_environment(env, err));
    TIDE_TRY(check_command(cli->command[0], err));
    if (tide_cli_number(cli, TIDE_CLI_PARALLEL) > TIDE_WORKER_THREADS_MAX)
        return tide_fail(err, TIDE_E_INVALID, "at most %d commands in parallel",
                         TIDE_WORKER_THREADS_MAX);
    const char *url = tide_cli_text(cli, TIDE_CLI_STORE);
    TIDE_CLEANUP(tide_freep) char *store_url = malloc(strlen(url) + sizeof "TIDEMARK_STORE=");
    TIDE_CLEANUP(tide_freep) tide_work_children *children = calloc(1, sizeof *children);
    TIDE_NEED_MEMORY(store_url && children, err);
    (void)sprintf(store_url, "TIDEMARK_STORE=%s", url);
    children->argv = cli->command;
    children->store_url = store_url;
    children->env = env.items;
    children->env_count = env.count;
    children->lease_us = tide_cli_number(cli, TIDE_CLI_LEASE);
    tide_work_children_init(children);
    /* A command that runs inside another one's must not take over its checkpoint. */
    (void)unsetenv("TIDEMARK_CHECKPOINT_FILE");
    reporter to = {.out = &cli->out, .lock = PTHREAD_MUTEX_INITIALIZER};
    const int64_t drain_us = tide_cli_number(cli, TIDE_CLI_DRAIN);
    const tide_worker_options options = {
        TIDE_WORKER_OPTIONS_INIT,
        .worker = name,
        .types = types.items,
        .type_count = types.count,
        .task_id = tide_cli_text(cli, TIDE_CLI_TASK),
        .lease_us = children->lease_us,
        .threads = (int)tide_cli_number(cli, TIDE_CLI_PARALLEL),
        .prefetch = (int)tide_cli_number(cli, TIDE_CLI_PREFETCH),
        .sweep_us = -1, /* a step does */
        .drain_us = drain_us > 0 ? drain_us : -1,
        .item_max = tide_cli_number(cli, TIDE_CLI_LIMIT),
        .until_empty = tide_cli_is_given(cli, TIDE_CLI_UNTIL_EMPTY),
        .run = tide_work_child_run,
        .run_arg = children,
        .stop = tide_work_child_stop,
        .event = report,
        .event_arg = &to,
    };
    tide_status status = TIDE_OK;
    {
        TIDE_CLEANUP(tide_store_closep) tide_store *store = NULL;
        /* Several threads write at once: with a writer thread they share commits. */
        tide_store_options store_options = {TIDE_STORE_OPTIONS_INIT, .mode = TIDE_STORE_EXISTING};
        tide_cli_store_options(cli, &store_options);
        status = tide_store_open(&store, url, &store_options, err);
        if (status >= TIDE_OK)
            status = run_worker(cli, store, &options, err);
    }
    tide_work_children_done(children);
    return status;
}
