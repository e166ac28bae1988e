#include "runtime/query/query_process.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/list.h"
#include "base/program_path.h"
#include "runtime/child.h"
#include "runtime/query/query_child.h"
#include "runtime/query/query_pipe.h"

enum { READ_LEN = 64 << 10 };

#define OPEN_US INT64_C(30000000) /* loading and opening an engine on a busy machine */

typedef enum kill_reason {
    NOT_KILLED,
    KILLED_TIME,
    KILLED_MEMORY,
    KILLED_CALLER,
    KILLED_CRASH,
} kill_reason;

struct tide_query_process {
    tide_query_process_options options;
    tide_env *env;
    tide_lake_runner runner;
    char program[PATH_MAX];
    tide_child_started at; /* pid 0: none runs */
    char *directories[TIDE_QUERY_DIRECTORIES_MAX];
    int directory_count;
    tide_query_spin spin;
    tide_buffer in;  /* from the process */
    tide_buffer out; /* to it */
    bool was_out_of_memory;
};

/* ---- life of the process ---- */

static void stop(tide_query_process *process, int *status)
{
    if (process->at.pid > 0) {
        (void)kill(process->at.has_own_group ? -process->at.pid : process->at.pid, SIGKILL);
        while (waitpid(process->at.pid, status, 0) < 0 && errno == EINTR) {
        }
    }
    tide_file_closep(&process->at.in_fd);
    tide_file_closep(&process->at.out_fd);
    process->at = (tide_child_started){.in_fd = -1, .out_fd = -1};
    tide_buffer_clear(&process->in);
    tide_buffer_clear(&process->out);
}

static void count_kill(tide_query_process *process, kill_reason reason)
{
    static const char *const names[] = {[KILLED_TIME] = "time",
                                        [KILLED_MEMORY] = "memory",
                                        [KILLED_CALLER] = "caller",
                                        [KILLED_CRASH] = "crash"};
    if (process->options.metrics)
        tide_series_add(tide_metrics_series(process->options.metrics, TIDE_METRIC_QUERIES_KILLED,
                                            names[reason]),
                        1);
}

/* The process has closed its stdout: why? TIDE_NONE: its file was replaced, and nothing was run. */
static tide_status fail_ended(tide_query_process *process, tide_error *err)
{
    int status = 0;
    /* It ends by itself, unless only its stdout is closed: then it is of no use. */
    const int64_t until_us = process->env->mono_us(process->env) + TIDE_QUERY_GRACE_US;
    while (waitpid(process->at.pid, &status, WNOHANG) == 0) {
        if (process->env->mono_us(process->env) >= until_us) {
            stop(process, &status);
            count_kill(process, KILLED_CRASH);
            return tide_fail(err, TIDE_E_FAILED, "the query's process closed its output");
        }
        process->env->sleep_us(process->env, 1000);
    }
    process->at.pid = 0;
    stop(process, NULL);
    if (WIFEXITED(status) && WEXITSTATUS(status) == TIDE_QUERY_EXIT_STALE)
        return TIDE_NONE;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU) {
        count_kill(process, KILLED_TIME);
        return tide_fail(err, TIDE_E_TIMEOUT, "the query used up its CPU time");
    }
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) { /* not ours: the kernel's */
        count_kill(process, KILLED_MEMORY);
        process->was_out_of_memory = true;
        return tide_fail(err, TIDE_E_LIMIT, "the query's process was killed for its memory");
    }
    count_kill(process, KILLED_CRASH);
    return tide_fail(err, TIDE_E_FAILED, "the query ended its process (%s %d)",
                     WIFSIGNALED(status) ? "signal" : "exit code",
                     WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

/* ---- bytes ---- */

typedef struct exchange {
    int64_t until_us;                     /* the process is killed then */
    int64_t timeout_us;                   /* of the query, for its text */
    size_t len_max;                       /* bytes of the longest frame */
    const tide_lake_sandbox_query *query; /* NULL: rows are names */
    tide_lake_name_fn *name_fn;
    void *name_arg;
    int column_count; /* -1: not known yet */
    bool is_answered; /* something came: it cannot be repeated */
    bool has_spun;    /* the first answer was waited for without sleeping */
    bool is_over;
    tide_query_ending ending;
    char text[sizeof((tide_error *)0)->text]; /* of the ending */
} exchange;

static tide_status fail_killed(tide_query_process *process, kill_reason reason,
                               const exchange *with, tide_error *err)
{
    stop(process, NULL);
    count_kill(process, reason);
    if (reason == KILLED_CALLER)
        return tide_fail(err, TIDE_E_INTERRUPTED, "the caller left; query killed");
    return tide_fail(err, TIDE_E_TIMEOUT, "the query took longer than %lld ms",
                     (long long)(with->timeout_us / 1000));
}

/* TIDE_NONE: the process takes nothing any more. */
static tide_status write_some(tide_query_process *process, tide_error *err)
{
    const ssize_t n = write(process->at.in_fd, process->out.ptr, process->out.len);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return TIDE_OK;
    if (n < 0)
        return errno == EPIPE ? TIDE_NONE
                              : tide_fail(err, TIDE_E_IO, "cannot write to the query's process: %s",
                                          strerror(errno));
    memmove(process->out.ptr, process->out.ptr + n, process->out.len - (size_t)n);
    tide_buffer_truncate(&process->out, process->out.len - (size_t)n);
    return TIDE_OK;
}

/* TIDE_NONE: it has ended. */
static tide_status read_some(tide_query_process *process, tide_query_spin *how, tide_error *err)
{
    if (tide_buffer_reserve(&process->in, READ_LEN) < TIDE_OK)
        return tide_no_memory(err);
    const ssize_t n =
        tide_query_pipe_read(process->at.out_fd, process->in.ptr + process->in.len, READ_LEN, how);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return TIDE_OK;
    if (n <= 0)
        return TIDE_NONE;
    process->in.len += (size_t)n;
    return TIDE_OK;
}

static int wait_ms(const tide_query_process *process, int64_t until_us)
{
    if (until_us == INT64_MAX)
        return -1;
    const int64_t left_us = until_us - process->env->mono_us(process->env);
    return left_us <= 0 ? 0 : left_us > INT64_C(60000000) ? 60000 : (int)(left_us / 1000) + 1;
}

/* The answer to a short query is there before poll would have returned. */
static tide_status spin(tide_query_process *process, exchange *with, tide_error *err)
{
    with->has_spun = true;
    TIDE_TRY_FOUND(write_some(process, err));
    return read_some(process, process->out.len > 0 ? NULL : &process->spin, err);
}

/* One turn of moving bytes. TIDE_NONE: the process has ended. */
static tide_status move_bytes(tide_query_process *process, exchange *with, tide_error *err)
{
    if (!with->has_spun)
        return spin(process, with, err);
    const bool has_more = process->out.len > 0;
    struct pollfd fds[] = {{.fd = process->at.out_fd, .events = POLLIN},
                           {.fd = process->options.cancel_fd, .events = POLLIN},
                           {.fd = has_more ? process->at.in_fd : -1, .events = POLLOUT}};
    if (poll(fds, 3, wait_ms(process, with->until_us)) < 0 && errno != EINTR)
        return tide_fail(err, TIDE_E_IO, "waiting for the query's process: %s", strerror(errno));
    if (fds[1].revents != 0)
        return fail_killed(process, KILLED_CALLER, with, err);
    if (fds[2].revents != 0) {
        TIDE_TRY_FOUND(write_some(process, err));
    }
    if (fds[0].revents != 0)
        return read_some(process, NULL, err);
    if (process->env->mono_us(process->env) >= with->until_us)
        return fail_killed(process, KILLED_TIME, with, err);
    return TIDE_OK;
}

/* ---- frames ---- */

static tide_status fail_malformed(tide_error *err)
{
    return tide_fail(err, TIDE_E_FAILED, "the query's process sent a malformed frame");
}

static tide_status read_columns(exchange *with, tide_view body, tide_error *err)
{
    tide_reader reader = tide_reader_of(body);
    uint64_t count = 0;
    if (!with->query || with->column_count >= 0 || tide_reader_varint(&reader, &count) < TIDE_OK ||
        count > TIDE_QUERY_COLUMNS_MAX)
        return fail_malformed(err);
    TIDE_CLEANUP(tide_freep) char *texts = malloc(body.len + (size_t)count + 1);
    const char *names[TIDE_QUERY_COLUMNS_MAX + 1];
    TIDE_NEED_MEMORY(texts, err);
    char *at = texts;
    for (uint64_t i = 0; i < count; i++) {
        tide_view name;
        if (tide_query_read_text(&reader, &name) < TIDE_OK)
            return fail_malformed(err);
        names[i] = at;
        memcpy(at, name.ptr, name.len);
        at[name.len] = '\0';
        at += name.len + 1;
    }
    with->column_count = (int)count;
    return with->query->columns(with->query->arg, names, (int)count, err);
}

static tide_status give_name(exchange *with, const tide_sql_value *cells, tide_error *err)
{
    tide_lake_name name;
    char *const parts[] = {name.catalog, name.schema, name.object};
    for (int i = 0; i < 3; i++) {
        if (cells[i].kind != TIDE_SQL_VALUE_TEXT || cells[i].bytes.len > TIDE_LAKE_NAME_MAX)
            return fail_malformed(err);
        tide_view_copy(parts[i], TIDE_LAKE_NAME_MAX + 1, cells[i].bytes);
    }
    return with->name_fn(with->name_arg, &name, err);
}

static tide_status read_rows(exchange *with, tide_view body, tide_error *err)
{
    tide_sql_value cells[TIDE_QUERY_COLUMNS_MAX + 1];
    const int count = with->query ? with->column_count : 3;
    if (count <= 0)
        return fail_malformed(err);
    for (tide_reader reader = tide_reader_of(body); tide_reader_left(&reader) > 0;) {
        for (int i = 0; i < count; i++)
            if (tide_query_read_value(&reader, &cells[i]) < TIDE_OK)
                return fail_malformed(err);
        TIDE_TRY(with->query ? with->query->row(with->query->arg, cells, count, err)
                             : give_name(with, cells, err));
    }
    return TIDE_OK;
}

static tide_status read_frame(exchange *with, tide_query_frame_type type, tide_view body,
                              tide_error *err)
{
    with->is_answered = true;
    switch (type) {
    case TIDE_QUERY_READY:
        with->is_over = true;
        return TIDE_OK;
    case TIDE_QUERY_COLUMNS:
        return read_columns(with, body, err);
    case TIDE_QUERY_ROWS:
        return read_rows(with, body, err);
    case TIDE_QUERY_END:
        with->is_over = true;
        if (tide_query_decode_end(body, &with->ending) < TIDE_OK)
            return fail_malformed(err);
        tide_view_copy(with->text, sizeof with->text, with->ending.text);
        return TIDE_OK;
    case TIDE_QUERY_OPEN:
    case TIDE_QUERY_QUERY:
    case TIDE_QUERY_NAMES:
    case TIDE_QUERY_PARSE:
        break;
    }
    return fail_malformed(err);
}

static tide_status read_frames(tide_query_process *process, exchange *with, tide_error *err)
{
    size_t done = 0;
    for (size_t used = 1; used > 0 && !with->is_over; done += used) {
        tide_query_frame_type type = TIDE_QUERY_END;
        tide_view body = {0};
        TIDE_TRY(
            tide_query_frame_next(tide_view_bytes(process->in.ptr + done, process->in.len - done),
                                  with->len_max, &type, &body, &used, err));
        if (used > 0)
            TIDE_TRY(read_frame(with, type, body, err));
    }
    if (done > 0) {
        memmove(process->in.ptr, process->in.ptr + done, process->in.len - done);
        tide_buffer_truncate(&process->in, process->in.len - done);
    }
    return TIDE_OK;
}

/* Send what is in out, and read until the end. TIDE_NONE: nothing was run; a new process can. After
 * any other failure but that of the query itself no process runs. */
static tide_status talk(tide_query_process *process, exchange *with, tide_error *err)
{
    tide_status status = TIDE_OK;
    with->column_count = -1;
    while (!with->is_over && status == TIDE_OK) {
        status = move_bytes(process, with, err);
        if (status == TIDE_OK)
            status = read_frames(process, with, err);
    }
    if (status == TIDE_NONE) {
        const bool was_unread = process->out.len > 0 && !with->is_answered;
        status = fail_ended(process, err);
        return was_unread ? TIDE_NONE : status;
    }
    if (process->at.pid > 0 && (status < TIDE_OK || process->in.len > 0))
        stop(process, NULL); /* what it sends on would be taken for the next answer */
    TIDE_TRY(status);
    if (with->ending.is_out_of_memory || with->ending.status == TIDE_E_TIMEOUT) {
        process->was_out_of_memory = with->ending.is_out_of_memory;
        count_kill(process, with->ending.is_out_of_memory ? KILLED_MEMORY : KILLED_TIME);
        stop(process, NULL); /* what it holds is not known */
    }
    return with->ending.status < TIDE_OK ? tide_fail(err, with->ending.status, "%s", with->text)
                                         : TIDE_OK;
}

/* ---- start ---- */

/* What a package has put in this program's place need not write the same frames. */
static const char *choose_program(const tide_query_process *process)
{
    if (process->options.program)
        return process->options.program;
    return tide_program_was_replaced() ? TIDE_PROGRAM_RUNNING : process->program;
}

static tide_status start(tide_query_process *process, tide_error *err)
{
    const char *program = choose_program(process);
    char *argv[] = {(char *)program, (char *)"query-process", NULL};
    static const char *const environment[] = {"MALLOC_ARENA_MAX=1", NULL};
    const tide_child_spec spec = {.argv = argv,
                                  .env = environment,
                                  .stdin_kind = TIDE_CHILD_STDIN_BYTES,
                                  .is_captured = true,
                                  .tee_fd = -1};
    const tide_query_target *target = &process->options.target;
    tide_query_setup setup = {.kind = target->kind,
                              .path = target->path,
                              .library = target->library ? target->library : "",
                              .memory_len = process->options.memory_len,
                              .directory_count = process->directory_count};
    for (int i = 0; i < process->directory_count; i++)
        setup.directories[i] = process->directories[i];
    const tide_status started = tide_child_start(&spec, &process->at, err);
    if (started < TIDE_OK) {
        process->at = (tide_child_started){.in_fd = -1, .out_fd = -1};
        if (err)
            err->status = TIDE_E_UNAVAILABLE;
        return tide_fail_context(err, TIDE_E_UNAVAILABLE, "no process for the query");
    }
    tide_buffer_clear(&process->in);
    tide_buffer_clear(&process->out);
    if (tide_query_encode_open(&process->out, &setup) < TIDE_OK) {
        stop(process, NULL);
        return tide_no_memory(err);
    }
    exchange with = {.until_us = process->env->mono_us(process->env) + OPEN_US,
                     .timeout_us = OPEN_US,
                     .len_max = READ_LEN};
    tide_status status = talk(process, &with, err);
    if (status == TIDE_NONE)
        status = tide_fail(err, TIDE_E_UNAVAILABLE, "the query's process ended at its start");
    if (status < TIDE_OK && process->at.pid > 0)
        stop(process, NULL);
    return status;
}

/* ---- files elsewhere ---- */

static bool is_below(const char *path, const char *directory)
{
    const size_t len = strlen(directory);
    return strncmp(path, directory, len) == 0 &&
           (len == 0 || directory[len - 1] == '/' || path[len] == '/');
}

static bool is_readable(const tide_query_process *process, const char *path)
{
    bool is_known = is_below(path, process->options.target.path);
    for (int i = 0; i < process->directory_count && !is_known; i++)
        is_known = is_below(path, process->directories[i]);
    return is_known;
}

static tide_status add_directory(tide_query_process *process, const char *directory,
                                 tide_error *err)
{
    if (process->directory_count == TIDE_QUERY_DIRECTORIES_MAX) /* the oldest may be of no use */
        free(process->directories[--process->directory_count]);
    char *copy = strdup(directory);
    TIDE_NEED_MEMORY(copy, err);
    process->directories[process->directory_count++] = copy;
    stop(process, NULL);
    return TIDE_OK;
}

/* Landlock knows files by their real place. Many files share a directory, so few are resolved. */
static tide_status permit_files(tide_query_process *process, const tide_lake_sandbox_query *query,
                                tide_error *err)
{
    char last[PATH_MAX] = "";
    for (int i = 0; i < query->path_count; i++) {
        char directory[PATH_MAX];
        char real[PATH_MAX];
        const char *slash = strrchr(query->paths[i], '/');
        const size_t len = slash ? (size_t)(slash - query->paths[i]) : 0;
        if (len == 0 || len >= sizeof directory)
            continue;
        tide_view_copy(directory, sizeof directory, tide_view_bytes(query->paths[i], len));
        if (strcmp(directory, last) == 0)
            continue;
        memcpy(last, directory, sizeof last);
        if (realpath(directory, real) && !is_readable(process, real))
            TIDE_TRY(add_directory(process, real, err));
    }
    return TIDE_OK;
}

/* ---- requests ---- */

static tide_status encode(tide_query_process *process, tide_query_frame_type type, const char *text,
                          const tide_lake_sandbox_query *query)
{
    tide_buffer_clear(&process->out);
    return query ? tide_query_encode_query(&process->out, query)
                 : tide_query_encode_text(&process->out, type, text);
}

/* A process that ended while it waited, or whose file was replaced, is replaced once. */
static tide_status request(tide_query_process *process, tide_query_frame_type type,
                           const char *text, exchange *with, tide_error *err)
{
    tide_status status = TIDE_NONE;
    process->was_out_of_memory = false;
    for (int tries = 0; status == TIDE_NONE && tries < 2; tries++) {
        status = process->at.pid > 0 ? TIDE_OK : start(process, err);
        if (status < TIDE_OK)
            break;
        if (encode(process, type, text, with->query) < TIDE_OK) {
            status = tide_fail(err, TIDE_E_LIMIT, "the query and its files are too long");
            break;
        }
        const int64_t now_us = process->env->mono_us(process->env);
        with->until_us = with->timeout_us < INT64_MAX - now_us - TIDE_QUERY_GRACE_US
                             ? now_us + with->timeout_us + TIDE_QUERY_GRACE_US
                             : INT64_MAX;
        status = talk(process, with, err);
    }
    return status == TIDE_NONE
               ? tide_fail(err, TIDE_E_UNAVAILABLE, "the query's process ended twice at its start")
               : status;
}

tide_status tide_query_process_run(tide_query_process *process,
                                   const tide_lake_sandbox_query *query, bool *is_cut,
                                   tide_error *err)
{
    const size_t bytes_max =
        query->bytes_max < TIDE_QUERY_FRAME_MAX ? (size_t)query->bytes_max : TIDE_QUERY_FRAME_MAX;
    exchange with = {
        .timeout_us = query->timeout_us, .len_max = bytes_max + 2 * READ_LEN, .query = query};
    if (is_cut)
        *is_cut = false;
    TIDE_TRY(permit_files(process, query, err));
    const tide_status status = request(process, TIDE_QUERY_QUERY, NULL, &with, err);
    if (is_cut)
        *is_cut = with.is_over && with.ending.is_cut;
    return status;
}

bool tide_query_process_was_out_of_memory(const tide_query_process *process)
{
    return process->was_out_of_memory;
}

pid_t tide_query_process_pid(const tide_query_process *process)
{
    return process->at.pid;
}

/* ---- as a runner of the lake ---- */

/* Parsing ends by itself; this bounds a parser that does not. */
#define PARSE_US INT64_C(10000000)

typedef struct name_list {
    tide_lake_name *names;
    int count;
} name_list;

static void name_list_done(name_list *list)
{
    free(list->names);
}

static tide_status keep_name(void *arg, const tide_lake_name *name, tide_error *err)
{
    name_list *list = arg;
    TIDE_TRY(tide_list_room(&list->names, list->count, sizeof *list->names, TIDE_LIST_MAX, err));
    list->names[list->count++] = *name;
    return TIDE_OK;
}

/* Names are handed over when all have arrived: fn looks up views, and asks for the names in
 * them. */
static tide_status run_names(void *arg, const char *text, tide_lake_name_fn *fn, void *fn_arg,
                             tide_error *err)
{
    TIDE_CLEANUP(name_list_done) name_list list = {0};
    exchange with = {.timeout_us = PARSE_US,
                     .len_max = TIDE_QUERY_FRAME_MAX,
                     .name_fn = keep_name,
                     .name_arg = &list};
    TIDE_TRY(request(arg, TIDE_QUERY_NAMES, text, &with, err));
    for (int i = 0; i < list.count; i++)
        TIDE_TRY(fn(fn_arg, &list.names[i], err));
    return TIDE_OK;
}

static tide_status run_parse(void *arg, const char *text, bool *is_statement, tide_error *err)
{
    exchange with = {.timeout_us = PARSE_US, .len_max = READ_LEN};
    TIDE_TRY(request(arg, TIDE_QUERY_PARSE, text, &with, err));
    *is_statement = with.ending.is_statement;
    return TIDE_OK;
}

static tide_status run_query(void *arg, const tide_lake_sandbox_query *query, tide_error *err)
{
    return tide_query_process_run(arg, query, NULL, err);
}

const tide_lake_runner *tide_query_process_runner(tide_query_process *process)
{
    return &process->runner;
}

/* ---- life ---- */

tide_status tide_query_process_open(tide_query_process **out,
                                    const tide_query_process_options *options, tide_error *err)
{
    TIDE_NEW(tide_query_process, process, err);
    process->options = *options;
    process->env = tide_env_system();
    process->at = (tide_child_started){.in_fd = -1, .out_fd = -1};
    process->runner = (tide_lake_runner){
        .each_name = run_names, .parse = run_parse, .run = run_query, .arg = process};
    tide_buffer_init(&process->in, TIDE_QUERY_FRAME_MAX + 4 * READ_LEN);
    tide_buffer_init(&process->out, TIDE_QUERY_FRAME_MAX);
    if (!options->program && !tide_program_command(process->program)) {
        tide_query_process_close(process);
        return tide_fail(err, TIDE_E_UNAVAILABLE, "cannot find the file of this program");
    }
    *out = process;
    return TIDE_OK;
}

void tide_query_process_close(tide_query_process *process)
{
    if (!process)
        return;
    stop(process, NULL);
    for (int i = 0; i < process->directory_count; i++)
        free(process->directories[i]);
    tide_buffer_done(&process->in);
    tide_buffer_done(&process->out);
    free(process);
}
