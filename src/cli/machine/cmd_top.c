/* cmd_top.c - tidemark top: fleet, gaps, work and store on a whole screen, kept up to date.
 *
 * A thread takes snapshots, so that a slow service does not hold up the keys; the main thread shows the newest one. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <tidemark/work.h>

#include "base/cleanup.h"
#include "base/thread.h"
#include "cli/machine/top.h"
#include "cli/machine/top_screen.h"
#include "cli/print/message_output.h"
#include "services/api/messages.h"
#include "services/api/rpc.h"
#include "store/url.h"

/* ---- JSON ---- */

static void put_gaps(tide_cli_output *out, const COLONY(ListGapsResponse) * gaps)
{
    tide_cli_json_array_begin(out, "gaps");
    for (size_t i = 0; i < gaps->n_gaps; i++) {
        const COLONY(Gap) *gap = gaps->gaps[i];
        tide_cli_json_object_begin(out, NULL);
        tide_cli_json_i64(out, "id", gap->id);
        tide_cli_json_text(out, "agent_id", gap->agent_id);
        tide_cli_json_text(out, "data_type", gap->data_type);
        tide_cli_json_i64(out, "start_seq_id", (int64_t)gap->start_seq_id);
        tide_cli_json_i64(out, "end_seq_id", (int64_t)gap->end_seq_id);
        tide_cli_json_text(out, "status", gap->status);
        tide_cli_json_text(out, "reason", gap->reason);
        tide_cli_json_i64(out, "recovery_attempts", gap->recovery_attempts);
        tide_cli_json_time(out, "detected_at", gap->detected_at);
        tide_cli_json_object_end(out);
    }
    tide_cli_json_array_end(out);
}

static void put_work(tide_cli_output *out, const tide_top_snapshot *snapshot)
{
    if (!snapshot->has_work) {
        tide_cli_json_null(out, "work");
        return;
    }
    tide_cli_json_object_begin(out, "work");
    tide_cli_json_i64(out, "active_leases", snapshot->active_leases);
    tide_cli_json_i64(out, "stale_leases", snapshot->stale_leases);
    tide_cli_json_array_begin(out, "items");
    for (int i = 0; i < snapshot->work_count; i++) {
        tide_cli_json_object_begin(out, NULL);
        tide_cli_json_text(out, "work_type", snapshot->work[i].work_type);
        tide_cli_json_text(out, "status", snapshot->work[i].status);
        tide_cli_json_i64(out, "count", snapshot->work[i].count);
        tide_cli_json_double(out, "mean_age_s", snapshot->work[i].mean_age_s);
        tide_cli_json_object_end(out);
    }
    tide_cli_json_array_end(out);
    tide_cli_json_object_end(out);
}

static void put_bytes(tide_cli_output *out, const char *key, int64_t bytes)
{
    if (bytes >= 0)
        tide_cli_json_i64(out, key, bytes);
    else
        tide_cli_json_null(out, key);
}

static tide_status top_print_json(tide_cli *cli, const tide_top_snapshot *snapshot, tide_error *err)
{
    tide_cli_output *out = &cli->out;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer fleet = tide_buffer_of(TIDE_RPC_RESPONSE_MAX);
    TIDE_TRY(tide_cli_message_json(&fleet, &snapshot->fleet->base, err));
    tide_cli_json_begin(out);
    tide_cli_json_time(out, "taken_at", snapshot->taken_us);
    tide_cli_json_raw(out, "fleet", tide_buffer_view(&fleet));
    put_gaps(out, snapshot->gaps);
    put_work(out, snapshot);
    tide_cli_json_object_begin(out, "store");
    tide_cli_json_text(out, "place", snapshot->place);
    put_bytes(out, "bytes", snapshot->store_bytes);
    put_bytes(out, "log_bytes", snapshot->log_bytes);
    put_bytes(out, "free_bytes", snapshot->free_bytes);
    tide_cli_json_double(out, "took_ms", (double)snapshot->took_us / 1000);
    tide_cli_json_object_end(out);
    return tide_cli_json_end(out, err);
}

/* ---- sources ---- */

#define STATS_PATH "/tidemark.work.v1.WorkService/Stats"
#define CALL_US INT64_C(30000000)

static void top_source_done(tide_top_source *source)
{
    tide_cli_colony_done(&source->colony);
}

static void top_free(tide_top_snapshot *snapshot)
{
    if (!snapshot)
        return;
    if (snapshot->fleet)
        protobuf_c_message_free_unpacked(&snapshot->fleet->base, NULL);
    if (snapshot->gaps)
        protobuf_c_message_free_unpacked(&snapshot->gaps->base, NULL);
    free(snapshot);
}

/* ---- the colony ---- */

static tide_status take_fleet(tide_top_source *source, tide_top_snapshot *out, tide_error *err)
{
    ProtobufCMessage *response = NULL;
    COLONY(FleetRequest) request = COLONY_INIT(FLEET_REQUEST);
    TIDE_TRY(tide_cli_colony_call(&source->colony, "Fleet", &request.base,
                                  &tidemark__colony__v1__fleet_response__descriptor, &response,
                                  err));
    out->fleet = (COLONY(FleetResponse) *)response;
    return TIDE_OK;
}

static tide_status take_gaps(tide_top_source *source, tide_top_snapshot *out, tide_error *err)
{
    char detected[] = "detected";
    char recovering[] = "recovering";
    char *statuses[] = {detected, recovering};
    ProtobufCMessage *response = NULL;
    COLONY(ListGapsRequest) request = COLONY_INIT(LIST_GAPS_REQUEST);
    request.statuses = statuses;
    request.n_statuses = 2;
    request.limit = TIDE_TOP_GAPS_MAX;
    TIDE_TRY(tide_cli_colony_call(&source->colony, "ListGaps", &request.base,
                                  &tidemark__colony__v1__list_gaps_response__descriptor, &response,
                                  err));
    out->gaps = (COLONY(ListGapsResponse) *)response;
    return TIDE_OK;
}

/* ---- work ---- */

static tide_status keep_item(void *arg, const tide_work_stat *stat, tide_error *err)
{
    (void)err;
    tide_top_snapshot *out = arg;
    if (out->work_count == TIDE_TOP_WORK_MAX)
        return TIDE_OK;
    tide_top_work *row = &out->work[out->work_count++];
    (void)snprintf(row->work_type, sizeof row->work_type, "%s", stat->work_type);
    (void)snprintf(row->status, sizeof row->status, "%s", stat->status);
    row->count = stat->count;
    row->mean_age_s = stat->mean_age_s;
    return TIDE_OK;
}

static tide_status keep_leases(void *arg, const tide_work_lease_stat *stat, tide_error *err)
{
    (void)err;
    tide_top_snapshot *out = arg;
    out->active_leases = stat->active;
    out->stale_leases = stat->stale;
    return TIDE_OK;
}

static tide_status keep_task(void *arg, const tide_work_task_stat *stat, tide_error *err)
{
    (void)arg;
    (void)stat;
    (void)err;
    return TIDE_OK;
}

static void keep_answer(tide_top_snapshot *out, const WORK(StatsResponse) * answer)
{
    tide_error unused = {.status = TIDE_OK};
    for (size_t i = 0; i < answer->n_items; i++) {
        const tide_work_stat stat = {.work_type = answer->items[i]->work_type,
                                     .status = answer->items[i]->status,
                                     .count = answer->items[i]->count,
                                     .mean_age_s = answer->items[i]->mean_age_s};
        TIDE_IGNORE(keep_item(out, &stat, &unused));
    }
    if (answer->leases) {
        out->active_leases = answer->leases->active;
        out->stale_leases = answer->leases->stale;
    }
}

static tide_status ask_work(tide_top_source *source, tide_top_snapshot *out, tide_error *err)
{
    TIDE_CLEANUP(tide_client_response_done) tide_client_response reply;
    tide_client_response_init(&reply);
    const tide_client_request call = {.path = STATS_PATH,
                                      .message = tide_view_bytes("", 0),
                                      .is_idempotent = true,
                                      .timeout_us = CALL_US};
    const tide_status status = tide_client_call(source->colony.remote, &call, &reply, err);
    if (status == TIDE_E_UNSUPPORTED || status == TIDE_E_NOT_FOUND || status == TIDE_E_DENIED)
        return TIDE_OK; /* a colony without work items beside it */
    TIDE_TRY(status);
    WORK(StatsResponse) *answer = (WORK(StatsResponse) *)protobuf_c_message_unpack(
        &tidemark__work__v1__stats_response__descriptor, NULL, reply.message.len,
        (const uint8_t *)reply.message.ptr);
    if (!answer)
        return tide_fail(err, TIDE_E_DAMAGED, "the answer to Stats cannot be read");
    keep_answer(out, answer);
    out->has_work = true;
    protobuf_c_message_free_unpacked(&answer->base, NULL);
    return TIDE_OK;
}

static tide_status take_work(tide_top_source *source, tide_top_snapshot *out, tide_error *err)
{
    static const tide_work_stats_fns fns = {TIDE_WORK_STATS_FNS_INIT, .item = keep_item,
                                            .lease = keep_leases, .task = keep_task};
    if (!source->colony.store)
        return ask_work(source, out, err);
    TIDE_TRY(tide_work_stats(source->colony.store, &fns, out, err));
    out->has_work = true;
    return TIDE_OK;
}

/* ---- the store ---- */

static int64_t size_of(const char *path, const char *suffix)
{
    char name[PATH_MAX];
    struct stat found;
    (void)snprintf(name, sizeof name, "%s%s", path, suffix);
    return stat(name, &found) == 0 ? (int64_t)found.st_size : 0;
}

static void take_store(tide_top_source *source, tide_top_snapshot *out)
{
    static const char duckdb[] = "duckdb:";
    const char *address = tide_cli_text(source->cli, TIDE_CLI_ADDRESS);
    const char *url = tide_cli_text(source->cli, TIDE_CLI_STORE);
    TIDE_CLEANUP(tide_freep) char *shown = address ? strdup(address) : tide_store_url_redact(url);
    tide_error unused = {.status = TIDE_OK};
    tide_store_url parsed = {.engine = TIDE_ENGINE_SQLITE, .target = url + sizeof duckdb - 1};
    struct statvfs disk;
    (void)snprintf(out->place, sizeof out->place, "%s", shown ? shown : "?");
    out->store_bytes = out->log_bytes = out->free_bytes = -1;
    if (address || (strncmp(url, duckdb, sizeof duckdb - 1) != 0 &&
                    (tide_store_url_parse(&parsed, url, &unused) < TIDE_OK ||
                     parsed.engine != TIDE_ENGINE_SQLITE)))
        return;
    out->store_bytes = size_of(parsed.target, "");
    out->log_bytes = size_of(parsed.target, "-wal");
    if (statvfs(parsed.target, &disk) == 0)
        out->free_bytes = (int64_t)((double)disk.f_bavail * (double)disk.f_frsize);
}

/* ---- all of it ---- */

static tide_status take(tide_top_source *source, tide_top_snapshot *out, tide_error *err)
{
    if (!source->is_open)
        TIDE_TRY(
            tide_cli_colony_open(source->cli, &source->colony, TIDE_STORE_EXISTING, false, err));
    source->is_open = true;
    take_store(source, out);
    TIDE_TRY(take_fleet(source, out, err));
    TIDE_TRY(take_gaps(source, out, err));
    return take_work(source, out, err);
}

/* A snapshot in new memory. Opens the source where that has not been done. */
static tide_status top_take(tide_top_source *source, tide_top_snapshot **out, tide_error *err)
{
    const int64_t begun_us = source->env->mono_us(source->env);
    TIDE_NEW(tide_top_snapshot, snapshot, err);
    const tide_status status = take(source, snapshot, err);
    if (status < TIDE_OK) {
        top_free(snapshot);
        return status;
    }
    snapshot->taken_us = source->env->wall_us(source->env);
    snapshot->took_us = source->env->mono_us(source->env) - begun_us;
    *out = snapshot;
    return TIDE_OK;
}

/* ---- the thread that looks ---- */

typedef struct watcher {
    tide_top_source source;
    int interval_ms;
    int wanted_fd; /* to it: look now, or end */
    int ready_fd;  /* from it: there is something new */
    pthread_t thread;
    pthread_mutex_t lock;
    tide_top_snapshot *newest; /* under the lock, as the rest */
    tide_error failure;        /* of the last look; status TIDE_OK: none */
    bool is_paused;
    bool is_ending;
} watcher;

static void tell(int fd)
{
    const uint64_t one = 1;
    const ssize_t written = write(fd, &one, sizeof one);
    (void)written; /* a full counter has told it already */
}

static void clear(int fd)
{
    uint64_t count = 0;
    const ssize_t len = read(fd, &count, sizeof count);
    (void)len;
}

static void look(watcher *w)
{
    tide_top_snapshot *snapshot = NULL;
    tide_error err = {.status = TIDE_OK};
    const tide_status status = top_take(&w->source, &snapshot, &err);
    (void)pthread_mutex_lock(&w->lock);
    w->failure = err;
    w->failure.status = status < TIDE_OK ? status : TIDE_OK;
    if (snapshot) {
        top_free(w->newest);
        w->newest = snapshot;
    }
    (void)pthread_mutex_unlock(&w->lock);
    tell(w->ready_fd);
}

static void *watch(void *arg)
{
    watcher *w = arg;
    for (;;) {
        (void)pthread_mutex_lock(&w->lock);
        const bool is_ending = w->is_ending;
        const bool is_paused = w->is_paused;
        const int interval_ms = w->interval_ms;
        (void)pthread_mutex_unlock(&w->lock);
        if (is_ending)
            return NULL;
        look(w);
        struct pollfd wanted = {.fd = w->wanted_fd, .events = POLLIN};
        if (poll(&wanted, 1, is_paused ? -1 : interval_ms) > 0)
            clear(w->wanted_fd);
    }
}

static tide_status watcher_start(watcher *w, tide_error *err)
{
    (void)pthread_mutex_init(&w->lock, NULL);
    w->wanted_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    w->ready_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->wanted_fd < 0 || w->ready_fd < 0)
        return tide_fail(err, TIDE_E_LIMIT, "eventfd: %s", strerror(errno));
    return tide_thread_start(&w->thread, watch, w, err);
}

static void watcher_stop(watcher *w)
{
    (void)pthread_mutex_lock(&w->lock);
    w->is_ending = true;
    (void)pthread_mutex_unlock(&w->lock);
    tell(w->wanted_fd);
    if (w->source.colony.remote)
        tide_client_stop(w->source.colony.remote); /* a call that is under way */
    (void)pthread_join(w->thread, NULL);
    (void)close(w->wanted_fd);
    (void)close(w->ready_fd);
    top_free(w->newest);
    (void)pthread_mutex_destroy(&w->lock);
}

/* ---- keys ---- */

typedef struct board {
    watcher *watcher;
    tide_top_view view;
    bool is_help;
    bool is_paused;
    bool is_coloured;
    int more; /* rows below the screen */
} board;

static const char help_text[] = "Keys\n"
                                "  q          end\n"
                                "  r, Space   look again now\n"
                                "  p          pause, go on\n"
                                "  s, S       sort by the next, by the one before\n"
                                "  R          the other way round\n"
                                "  1 2 3 4    fleet, gaps, work, store alone\n"
                                "  0, Esc     all of them\n"
                                "  up, down   scroll; also k, j, PgUp, PgDn, Home, End\n"
                                "  + -        look less often, more often\n"
                                "  ?          this\n";

static void scroll(board *b, int by)
{
    int rows = 0;
    int columns = 0;
    tide_top_screen_size(&rows, &columns);
    const long step = by == 2 || by == -2 ? (long)(by / 2) * (rows / 2) : by;
    const long target = b->view.first + (step > b->more ? b->more : step);
    b->view.first = target > 0 ? (int)target : 0;
}

static void change_interval(watcher *w, bool is_longer)
{
    (void)pthread_mutex_lock(&w->lock);
    w->interval_ms = is_longer ? w->interval_ms * 2 : w->interval_ms / 2;
    w->interval_ms = w->interval_ms < 250 ? 250 : w->interval_ms;
    w->interval_ms = w->interval_ms > 3600000 ? 3600000 : w->interval_ms;
    (void)pthread_mutex_unlock(&w->lock);
    tell(w->wanted_fd);
}

static void pause_or_go_on(board *b)
{
    b->is_paused = !b->is_paused;
    (void)pthread_mutex_lock(&b->watcher->lock);
    b->watcher->is_paused = b->is_paused;
    (void)pthread_mutex_unlock(&b->watcher->lock);
    tell(b->watcher->wanted_fd);
}

static void sort_by(board *b, int step)
{
    b->view.sort = (tide_top_sort)(((int)b->view.sort + step + TIDE_TOP_SORTS) % TIDE_TOP_SORTS);
}

static void choose_pane(board *b, tide_top_pane pane)
{
    b->view.pane = pane;
    b->view.first = 0;
}

static void scroll_by_key(board *b, int key)
{
    if (key == TIDE_TOP_KEY_UP || key == 'k')
        scroll(b, -1);
    else if (key == TIDE_TOP_KEY_DOWN || key == 'j')
        scroll(b, 1);
    else if (key == TIDE_TOP_KEY_PAGE_UP)
        scroll(b, -2);
    else if (key == TIDE_TOP_KEY_PAGE_DOWN)
        scroll(b, 2);
    else if (key == TIDE_TOP_KEY_HOME)
        b->view.first = 0;
    else if (key == TIDE_TOP_KEY_END)
        b->view.first += b->more;
}

/* false: it is over. */
static bool obey(board *b, int key)
{
    if (key == 'q' || key == 'Q' || key == TIDE_TOP_KEY_GONE)
        return false;
    if (b->is_help && key != TIDE_TOP_KEY_NONE) {
        b->is_help = false;
        return true;
    }
    if (key == '?' || key == 'h')
        b->is_help = true;
    else if (key == 'r' || key == ' ')
        tell(b->watcher->wanted_fd);
    else if (key == 'p')
        pause_or_go_on(b);
    else if (key == 's' || key == 'S')
        sort_by(b, key == 's' ? 1 : -1);
    else if (key == 'R')
        b->view.is_reversed = !b->view.is_reversed;
    else if (key == '+' || key == '-')
        change_interval(b->watcher, key == '+');
    else if (key >= '0' && key <= '4')
        choose_pane(b, (tide_top_pane)(key - '0'));
    else if (key == TIDE_TOP_KEY_ESCAPE)
        choose_pane(b, TIDE_TOP_ALL);
    else
        scroll_by_key(b, key);
    return true;
}

/* ---- the screen ---- */

static void show_help(const board *b)
{
    tide_cli_style styles[16] = {TIDE_CLI_BOLD};
    char text[sizeof help_text];
    (void)snprintf(text, sizeof text, "%s", help_text);
    const tide_top_frame frame = {.text = text, .styles = styles, .count = 12};
    tide_top_screen_show(&frame, "any key: back   q: end", b->is_coloured);
}

static tide_status show(board *b, tide_error *err)
{
    int columns = 0;
    char foot[TIDE_ERROR_TEXT_MAX + 128];
    tide_status status = TIDE_OK;
    tide_top_frame frame = {.count = 0};
    watcher *w = b->watcher;
    if (b->is_help) {
        show_help(b);
        return TIDE_OK;
    }
    tide_top_screen_size(&b->view.rows, &columns);
    b->view.rows--; /* the foot's */
    (void)pthread_mutex_lock(&w->lock);
    if (w->failure.status < TIDE_OK)
        (void)snprintf(foot, sizeof foot, "FAILED: %s", w->failure.text);
    else
        (void)snprintf(foot, sizeof foot, "?: help  q: end  s: sort  1-4: one pane  %s every %g s",
                       b->is_paused ? "PAUSED," : "", w->interval_ms / 1000.0);
    if (w->newest)
        status = tide_top_draw(&frame, w->newest, &b->view, err);
    (void)pthread_mutex_unlock(&w->lock);
    if (status >= TIDE_OK) {
        b->more = frame.more;
        for (char *at = foot; *at; at++)
            *at = (unsigned char)*at < ' ' ? ' ' : *at;
        tide_top_screen_show(&frame, foot, b->is_coloured);
    }
    tide_top_frame_done(&frame);
    return status;
}

static tide_status run_screen(tide_cli *cli, watcher *w, tide_error *err)
{
    board b = {.watcher = w,
               .view = {.sort = (tide_top_sort)tide_cli_number(cli, TIDE_CLI_SORT)},
               .is_coloured = cli->out.is_coloured};
    TIDE_TRY(tide_top_screen_enter(err));
    tide_status status = watcher_start(w, err);
    if (status < TIDE_OK) {
        tide_top_screen_leave();
        return status;
    }
    do {
        clear(w->ready_fd);
        status = show(&b, err);
    } while (status >= TIDE_OK && obey(&b, tide_top_screen_wait(w->ready_fd, 1000)));
    tide_top_screen_leave();
    watcher_stop(w);
    return status;
}

/* ---- once ---- */

static tide_status print_frame(tide_cli *cli, const tide_top_snapshot *snapshot, tide_error *err)
{
    tide_top_frame frame = {.count = 0};
    const tide_top_view view = {.sort = (tide_top_sort)tide_cli_number(cli, TIDE_CLI_SORT),
                                .rows = INT_MAX};
    const tide_status status = tide_top_draw(&frame, snapshot, &view, err);
    if (status >= TIDE_OK)
        (void)fputs(frame.text, cli->out.file);
    tide_top_frame_done(&frame);
    return status;
}

static tide_status run_once(tide_cli *cli, tide_top_source *source, tide_error *err)
{
    tide_top_snapshot *snapshot = NULL;
    TIDE_TRY(top_take(source, &snapshot, err));
    const tide_status status =
        cli->out.is_json ? top_print_json(cli, snapshot, err) : print_frame(cli, snapshot, err);
    top_free(snapshot);
    return status;
}

static void source_done(watcher *w)
{
    top_source_done(&w->source);
}

static tide_status run(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(source_done)
    watcher w = {.source = {.cli = cli, .env = tide_env_system()},
                 .interval_ms = (int)(tide_cli_number(cli, TIDE_CLI_EVERY) / 1000)};
    if (tide_cli_is_given(cli, TIDE_CLI_ONCE) || cli->out.is_json || !tide_top_screen_is_there())
        return run_once(cli, &w.source, err);
    /* What cannot be opened at all is an error, not a screen. */
    TIDE_TRY(top_take(&w.source, &w.newest, err));
    return run_screen(cli, &w, err);
}

static const tide_cli_verb verbs[] = {
    {.name = "",
     .takes = TIDE_CLI_LIST(ONCE, SORT, EVERY, TIDE_CLI_COLONY_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(
         TIDE_CLI_COLONY_TOKEN,
         {.id = TIDE_CLI_ONCE, .help = "print one frame as text, then end; --json: as an object"},
         {.id = TIDE_CLI_EVERY,
          .fallback = "2s",
          .max = INT64_C(3600000000),
          .help = "how often to look"}),
     .summary = "watch agents, gaps, work and the store on a whole screen",
     .details = "Keys: q ends, ? tells the others. Where stdout is no terminal, one frame is "
                "printed.",
     .run = run},
    {.name = NULL},
};

const tide_cli_command tide_cli_top = {
    .name = "top",
    .summary = "Everything at work, on a whole screen.",
    .verbs = verbs,
};
