/* cmd_replica_snapshot.c - tidemark replica snapshot create|restore|ls|verify. */
#include <signal.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "cli/print/progress.h"
#include "cli/replica/cmd_replica.h"
#include "replica/snapshot.h"

/* ---- looking on ---- */

static volatile sig_atomic_t is_told_to_end;

static void note_signal(int number)
{
    (void)number;
    is_told_to_end = 1;
}

/* A snapshot under way is several files and databases: told to end, it is given up in good order instead of ending on the spot. */
typedef struct looking_on {
    tide_cli_progress progress;
    const tide_cli_output *out;
    const char *what; /* NULL: no line yet */
    struct sigaction before[3];
    tide_snapshot_watch watch;
} looking_on;

static const int signals[3] = {SIGINT, SIGTERM, SIGHUP};

static bool is_over(void *arg)
{
    (void)arg;
    return is_told_to_end != 0;
}

static void show(void *arg, const char *what, int64_t done, int64_t total)
{
    looking_on *l = arg;
    if (l->what != what) {
        if (l->what)
            tide_cli_progress_end(&l->progress);
        tide_cli_progress_begin(&l->progress, l->out, what);
        l->what = what;
    }
    tide_cli_progress_update(&l->progress, done, total);
}

static void begin_looking(looking_on *l, const tide_cli *cli)
{
    *l = (looking_on){.out = &cli->out};
    l->watch = (tide_snapshot_watch){.arg = l, .progress = show, .is_over = is_over};
    for (int i = 0; i < 3; i++) {
        struct sigaction action = {.sa_handler = note_signal};
        (void)sigemptyset(&action.sa_mask);
        (void)sigaction(signals[i], NULL, &l->before[i]);
        if (l->before[i].sa_handler != SIG_IGN)
            (void)sigaction(signals[i], &action, NULL);
    }
}

static void end_looking(looking_on *l)
{
    if (l->what)
        tide_cli_progress_end(&l->progress);
    for (int i = 0; l->out && i < 3; i++)
        (void)sigaction(signals[i], &l->before[i], NULL);
}

/* ---- printing ---- */

static void print_cut(tide_cli_output *out, const tide_peer_marks *cut)
{
    tide_cli_json_array_begin(out, "per_origin_seq_cut");
    for (int i = 0; i < cut->origin_count; i++) {
        char node[TIDE_CLI_NODE_SIZE];
        tide_cli_replica_node(node, &cut->origins[i].origin);
        tide_cli_json_object_begin(out, NULL);
        tide_cli_json_text(out, "origin_node_id", node);
        tide_cli_json_i64(out, "epoch", cut->origins[i].epoch);
        tide_cli_json_i64(out, "origin_seq", cut->origins[i].prefix);
        tide_cli_json_object_end(out);
    }
    tide_cli_json_array_end(out);
    tide_cli_json_array_begin(out, "tables");
    for (int i = 0; i < cut->table_count; i++)
        tide_cli_json_text(out, NULL, cut->tables[i].name);
    tide_cli_json_array_end(out);
}

static tide_status print_info(void *arg, const tide_snapshot_info *info, tide_error *err)
{
    tide_cli *cli = arg;
    char digest[TIDE_SHA256_TEXT_SIZE];
    tide_hex_encode(digest, info->digest, sizeof info->digest);
    if (!cli->out.is_json) {
        char created[TIDE_CLI_TIME_SIZE];
        tide_cli_time_text(created, info->created_us);
        tide_cli_print(cli->out.file, "%s  %s  %lld bytes  %d tables  %s  %s\n", info->id, created,
                       (long long)info->bytes, info->cut.table_count,
                       info->is_verified ? "verified" : "not verified", info->path);
        return TIDE_OK;
    }
    tide_cli_json_begin(&cli->out);
    tide_cli_json_text(&cli->out, "snapshot_id", info->id);
    tide_cli_json_time(&cli->out, "created_at", info->created_us);
    tide_cli_json_text(&cli->out, "path", info->path);
    tide_cli_json_i64(&cli->out, "bytes", info->bytes);
    tide_cli_json_text(&cli->out, "digest", digest);
    print_cut(&cli->out, &info->cut);
    tide_cli_json_bool(&cli->out, "verified", info->is_verified);
    return tide_cli_json_end(&cli->out, err);
}

/* ---- verbs ---- */

tide_status tide_cli_replica_snapshot_create(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_node_closep) tide_node *node = NULL;
    TIDE_CLEANUP(tide_snapshot_info_done) tide_snapshot_info info = {.bytes = 0};
    TIDE_CLEANUP(end_looking) looking_on look = {.out = NULL};
    TIDE_TRY(tide_cli_replica_open(cli, false, &node, err));
    begin_looking(&look, cli);
    TIDE_TRY(tide_snapshot_create(node, cli->args[1], &look.watch, &info, err));
    return print_info(cli, &info, err);
}

tide_status tide_cli_replica_snapshot_ls(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_node_closep) tide_node *node = NULL;
    TIDE_TRY(tide_cli_replica_open(cli, false, &node, err));
    return tide_snapshot_list(node, print_info, cli, err);
}

tide_status tide_cli_replica_snapshot_verify(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_snapshot_info_done) tide_snapshot_info info = {.bytes = 0};
    TIDE_CLEANUP(end_looking) looking_on look = {.out = NULL};
    begin_looking(&look, cli);
    TIDE_TRY(tide_snapshot_verify(cli->args[0], tide_env_system(), &look.watch, &info, err));
    return print_info(cli, &info, err);
}

static tide_status print_restored(tide_cli *cli, const tide_snapshot_restored *restored,
                                  tide_error *err)
{
    if (!cli->out.is_json) {
        tide_cli_print(cli->out.file,
                       "%lld rows of the snapshot, %lld written; %lld conflicts; %d tables made\n",
                       (long long)restored->rows, (long long)restored->changed,
                       (long long)restored->conflicts, restored->tables_created);
        return TIDE_OK;
    }
    tide_cli_json_begin(&cli->out);
    tide_cli_json_i64(&cli->out, "rows", restored->rows);
    tide_cli_json_i64(&cli->out, "written", restored->changed);
    tide_cli_json_i64(&cli->out, "forgotten", restored->forgotten);
    tide_cli_json_i64(&cli->out, "events", restored->events);
    tide_cli_json_i64(&cli->out, "conflicts", restored->conflicts);
    tide_cli_json_i64(&cli->out, "tables_created", restored->tables_created);
    return tide_cli_json_end(&cli->out, err);
}

static tide_status restore_into(const char *path, const char *db, const tide_snapshot_watch *watch,
                                tide_snapshot_restored *out, tide_error *err)
{
    TIDE_CLEANUP(tide_node_closep) tide_node *node = NULL;
    const tide_node_options options = {.is_new = false};
    if (access(db, F_OK) != 0)
        return tide_snapshot_restore_new(db, path, NULL, watch, out, err);
    TIDE_TRY(tide_node_open(&node, db, &options, err));
    return tide_snapshot_restore(node, path, watch, out, err);
}

tide_status tide_cli_replica_snapshot_restore(tide_cli *cli, tide_error *err)
{
    tide_snapshot_restored restored = {.rows = 0};
    TIDE_CLEANUP(end_looking) looking_on look = {.out = NULL};
    begin_looking(&look, cli);
    TIDE_TRY(restore_into(cli->args[0], cli->args[1], &look.watch, &restored, err));
    return print_restored(cli, &restored, err);
}
