#include "runtime/query/query_child.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <malloc.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "runtime/query/query_frame.h"
#include "runtime/query/query_limits.h"
#include "runtime/query/query_pipe.h"
#include "store/readonly_query.h"

enum {
    ROWS_LEN = 64 << 10, /* of one frame of rows */
    READ_LEN = 64 << 10,
    ARENA_MAX = 512 << 20,
    DUCKDB_THREADS = 2,
};

#define CPU_AGAIN_US INT64_C(500000)
#define STALE_AGAIN_US INT64_C(1000)

typedef struct child {
    int in_fd;
    int out_fd;
    tide_query_setup setup;
    tide_arena memory;      /* of the setup */
    tide_readonly_db *file; /* TIDE_QUERY_SQLITE */
    tide_lake_data *lake;   /* TIDE_QUERY_LAKE */
    tide_query_spin spin;
    tide_buffer in;
    tide_buffer out;
    size_t rows_at; /* begin of the frame of rows in out; SIZE_MAX: none */
    int column_count;
    int64_t looked_us;      /* when the file was last seen in its place */
    int64_t cpu_us;         /* of the last limit on CPU time */
    int64_t cpu_limited_us; /* when it was set */
} child;

/* ---- bytes ---- */

static tide_status write_all(child *c, tide_error *err)
{
    for (size_t done = 0; done < c->out.len;) {
        const ssize_t n = write(c->out_fd, c->out.ptr + done, c->out.len - done);
        if (n < 0 && errno != EINTR)
            return tide_fail(err, TIDE_E_IO, "cannot write to the daemon: %s", strerror(errno));
        done += n > 0 ? (size_t)n : 0;
    }
    tide_buffer_clear(&c->out);
    return TIDE_OK;
}

/* TIDE_NONE: stdin has ended. */
static tide_status read_some(child *c, tide_error *err)
{
    if (tide_buffer_reserve(&c->in, READ_LEN) < TIDE_OK)
        return tide_no_memory(err);
    struct pollfd fds[] = {{.fd = c->in_fd, .events = POLLIN}};
    ssize_t n = tide_query_pipe_read(c->in_fd, c->in.ptr + c->in.len, READ_LEN, &c->spin);
    while (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        (void)poll(fds, 1, -1);
        n = read(c->in_fd, c->in.ptr + c->in.len, READ_LEN);
    }
    if (n < 0)
        return tide_fail(err, TIDE_E_IO, "cannot read from the daemon: %s", strerror(errno));
    c->in.len += (size_t)n;
    return n == 0 ? TIDE_NONE : TIDE_OK;
}

/* ---- answers ---- */

static tide_status send_end(child *c, tide_status status, const tide_error *why, bool is_statement,
                            tide_error *err)
{
    /* A failed allocation is the query's: nothing else runs here. */
    const bool is_out_of_memory = status == TIDE_E_NOMEM;
    char text[128];
    (void)snprintf(text, sizeof text,
                   "the query needs more than %lld MiB of memory (limit query_memory_len)",
                   (long long)(c->setup.memory_len >> 20));
    const tide_query_ending ending = {
        .status = is_out_of_memory ? TIDE_E_LIMIT : status,
        .text = is_out_of_memory   ? tide_view_of(text)
                : status < TIDE_OK ? tide_view_of(why->text)
                                   : tide_view_of(""),
        .is_cut = status == TIDE_E_LIMIT,
        .is_out_of_memory = is_out_of_memory,
        .is_statement = is_statement,
    };
    if (tide_query_encode_end(&c->out, &ending) < TIDE_OK)
        return tide_no_memory(err);
    return write_all(c, err);
}

static tide_status send_columns(void *arg, const char *const *names, int count, tide_error *err)
{
    child *c = arg;
    size_t at = 0;
    tide_status status = tide_query_frame_begin(&c->out, TIDE_QUERY_COLUMNS, &at);
    if (status >= TIDE_OK)
        status = tide_buffer_append_varint(&c->out, (uint64_t)count);
    for (int i = 0; i < count && status >= TIDE_OK; i++)
        status = tide_query_put_text(&c->out, tide_view_of(names[i]));
    if (status < TIDE_OK)
        return tide_no_memory(err);
    tide_query_frame_finish(&c->out, at);
    c->column_count = count;
    return TIDE_OK; /* sent with the first rows, or the end */
}

static tide_status flush_rows(child *c, tide_error *err)
{
    if (c->rows_at == SIZE_MAX)
        return TIDE_OK;
    tide_query_frame_finish(&c->out, c->rows_at);
    c->rows_at = SIZE_MAX;
    return c->out.len >= ROWS_LEN ? write_all(c, err) : TIDE_OK;
}

static tide_status send_row(void *arg, const tide_sql_value *cells, int count, tide_error *err)
{
    child *c = arg;
    if (c->rows_at == SIZE_MAX &&
        tide_query_frame_begin(&c->out, TIDE_QUERY_ROWS, &c->rows_at) < TIDE_OK) {
        c->rows_at = SIZE_MAX;
        return tide_no_memory(err);
    }
    const size_t row_at = c->out.len;
    tide_status status = TIDE_OK;
    for (int i = 0; i < count && status >= TIDE_OK; i++)
        status = tide_query_put_value(&c->out, &cells[i]);
    if (status < TIDE_OK) {
        tide_buffer_truncate(&c->out, row_at); /* rows are sent whole */
        return tide_no_memory(err);
    }
    return c->out.len >= ROWS_LEN ? flush_rows(c, err) : TIDE_OK;
}

/* ---- requests ---- */

static tide_status run_query(child *c, const tide_lake_sandbox_query *query, tide_error *err)
{
    if (c->lake)
        return tide_lake_sandbox_run(c->lake, query, err);
    const tide_readonly_query inner = {
        .sql = query->text,
        .row_max = query->row_max,
        .bytes_max = query->bytes_max,
        .timeout_us = query->timeout_us,
        .columns = query->columns,
        .row = query->row,
        .arg = query->arg,
    };
    return tide_readonly_db_query(c->file, &inner, err);
}

/* Setting it costs as much as a short query. One that was set a moment ago has time enough left. */
static void limit_cpu(child *c, int64_t timeout_us)
{
    tide_env *env = tide_env_system();
    const int64_t cpu_us =
        timeout_us < INT64_MAX / DUCKDB_THREADS ? timeout_us * DUCKDB_THREADS : INT64_MAX;
    const int64_t now_us = env->mono_us(env);
    if (cpu_us == c->cpu_us && now_us - c->cpu_limited_us < CPU_AGAIN_US)
        return;
    c->cpu_us = cpu_us;
    c->cpu_limited_us = now_us;
    tide_query_limits_cpu(cpu_us);
}

/* Looked up once in STALE_AGAIN_US, since it costs as much as a short query. */
static bool is_stale(child *c)
{
    tide_env *env = tide_env_system();
    const int64_t now_us = env->mono_us(env);
    if (!c->file || now_us - c->looked_us < STALE_AGAIN_US)
        return false;
    c->looked_us = now_us;
    return tide_readonly_db_is_stale(c->file);
}

static tide_status serve_query(child *c, tide_view body, tide_error *err)
{
    TIDE_CLEANUP(tide_arena_done) tide_arena arena = tide_arena_of(ARENA_MAX);
    tide_lake_sandbox_query query;
    tide_error why = {0};
    if (is_stale(c))
        _exit(TIDE_QUERY_EXIT_STALE);
    if (tide_query_decode_query(body, &arena, &query) < TIDE_OK)
        return tide_fail(err, TIDE_E_DAMAGED, "malformed query frame");
    query.columns = send_columns;
    query.row = send_row;
    query.arg = c;
    c->rows_at = SIZE_MAX;
    limit_cpu(c, query.timeout_us);
    const tide_status status = run_query(c, &query, &why);
    TIDE_TRY(flush_rows(c, err));
    return send_end(c, status, &why, false, err);
}

static tide_status send_name(void *arg, const tide_lake_name *name, tide_error *err)
{
    const tide_sql_value cells[] = {
        {.kind = TIDE_SQL_VALUE_TEXT, .bytes = tide_view_of(name->catalog)},
        {.kind = TIDE_SQL_VALUE_TEXT, .bytes = tide_view_of(name->schema)},
        {.kind = TIDE_SQL_VALUE_TEXT, .bytes = tide_view_of(name->object)},
    };
    return send_row(arg, cells, 3, err);
}

static tide_status serve_text(child *c, tide_query_frame_type type, tide_view body, tide_error *err)
{
    TIDE_CLEANUP(tide_arena_done) tide_arena arena = tide_arena_of(ARENA_MAX);
    const char *text = tide_arena_text(&arena, body);
    tide_error why = {0};
    bool is_statement = false;
    tide_status status = TIDE_OK;
    if (!text || !c->lake)
        return tide_fail(err, TIDE_E_DAMAGED, "unexpected frame");
    c->rows_at = SIZE_MAX;
    if (type == TIDE_QUERY_NAMES)
        status = tide_lake_each_name(c->lake, text, send_name, c, &why);
    else
        status = tide_lake_sandbox_parse(c->lake, text, &is_statement, &why);
    TIDE_TRY(flush_rows(c, err));
    return send_end(c, status, &why, is_statement, err);
}

/* ---- open ---- */

static tide_status set_limits(const child *c, tide_error *err)
{
    const char *directories[TIDE_QUERY_DIRECTORIES_MAX + 1];
    char directory[PATH_MAX];
    char written[PATH_MAX + 8];
    const bool is_file = c->setup.kind == TIDE_QUERY_SQLITE;
    if (!realpath(c->setup.path, directory)) /* as SQLite does, which follows links */
        return tide_fail(err, TIDE_E_NOT_FOUND, "no %s", c->setup.path);
    (void)snprintf(written, sizeof written, "%s-shm", directory);
    directories[0] = is_file ? dirname(directory) : directory;
    for (int i = 0; i < c->setup.directory_count; i++)
        directories[i + 1] = c->setup.directories[i];
    const tide_query_limits limits = {
        .memory_len = c->setup.memory_len,
        .directories = directories,
        .directory_count = c->setup.directory_count + 1,
        .written = is_file ? written : NULL,
    };
    return tide_query_limits_set(&limits, err);
}

static tide_status open_target(child *c, tide_error *err)
{
    const tide_query_setup *setup = &c->setup;
    if (setup->kind == TIDE_QUERY_SQLITE) {
        TIDE_TRY(set_limits(c, err));
        return tide_readonly_db_open(&c->file, setup->path, setup->memory_len, err);
    }
    const tide_lake_data_options options = {.library = *setup->library ? setup->library : NULL,
                                            .threads = DUCKDB_THREADS,
                                            .memory_max = setup->memory_len};
    TIDE_TRY(tide_lake_data_open(&c->lake, setup->path, &options, err));
    return set_limits(c, err);
}

static tide_status serve_open(child *c, tide_view body, tide_error *err)
{
    tide_error why = {0};
    size_t at = 0;
    if (c->file || c->lake || tide_query_decode_open(body, &c->memory, &c->setup) < TIDE_OK)
        return tide_fail(err, TIDE_E_DAMAGED, "malformed open frame");
    const tide_status status = open_target(c, &why);
    if (status < TIDE_OK)
        return send_end(c, status, &why, false, err);
    if (tide_query_frame_begin(&c->out, TIDE_QUERY_READY, &at) < TIDE_OK)
        return tide_no_memory(err);
    tide_query_frame_finish(&c->out, at);
    return write_all(c, err);
}

/* ---- loop ---- */

static tide_status serve(child *c, tide_query_frame_type type, tide_view body, tide_error *err)
{
    if (type == TIDE_QUERY_OPEN)
        return serve_open(c, body, err);
    if (type == TIDE_QUERY_QUERY && (c->file || c->lake))
        return serve_query(c, body, err);
    if (type == TIDE_QUERY_NAMES || type == TIDE_QUERY_PARSE)
        return serve_text(c, type, body, err);
    return tide_fail(err, TIDE_E_DAMAGED, "unexpected frame %d", (int)type);
}

static void child_done(child *c)
{
    tide_file_closep(&c->in_fd);
    tide_file_closep(&c->out_fd);
    tide_readonly_db_close(c->file);
    tide_lake_data_close(c->lake);
    tide_buffer_done(&c->in);
    tide_buffer_done(&c->out);
    tide_arena_done(&c->memory);
}

/* An engine prints to stdout when a statement lets it (logs of DuckDB), which must not be taken for
 * an answer. So the pipes get other numbers, and 0 and 1 lead nowhere. */
static tide_status move_pipes(child *c, tide_error *err)
{
    TIDE_CLEANUP(tide_file_closep) int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    c->in_fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    c->out_fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (nowhere < 0 || c->in_fd < 0 || c->out_fd < 0 || dup2(nowhere, STDIN_FILENO) < 0 ||
        dup2(nowhere, STDOUT_FILENO) < 0 || fcntl(c->in_fd, F_SETFL, O_NONBLOCK) != 0)
        return tide_fail(err, TIDE_E_IO, "cannot move the pipes: %s", strerror(errno));
    return TIDE_OK;
}

tide_status tide_query_child_run(tide_error *err)
{
    TIDE_CLEANUP(child_done) child c = {.in_fd = -1, .out_fd = -1, .rows_at = SIZE_MAX};
    tide_buffer_init(&c.in, TIDE_QUERY_FRAME_MAX + READ_LEN + TIDE_QUERY_FRAME_HEAD);
    tide_buffer_init(&c.out, SIZE_MAX / 2);
    tide_arena_init(&c.memory, ARENA_MAX);
    (void)mallopt(M_ARENA_MAX, 1); /* each arena reserves 64 MiB of address space */
    TIDE_TRY(tide_query_limits_begin(err));
    TIDE_TRY(move_pipes(&c, err));
    for (;;) {
        tide_query_frame_type type = TIDE_QUERY_END;
        tide_view body = {0};
        size_t used = 0;
        TIDE_TRY(tide_query_frame_next(tide_buffer_view(&c.in), TIDE_QUERY_FRAME_MAX, &type, &body,
                                       &used, err));
        if (used == 0) {
            TIDE_OK_IF_NONE(read_some(&c, err));
            continue;
        }
        TIDE_TRY(serve(&c, type, body, err));
        memmove(c.in.ptr, c.in.ptr + used, c.in.len - used);
        tide_buffer_truncate(&c.in, c.in.len - used);
    }
}
