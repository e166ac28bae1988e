/* Rows of a range, read by the sink's own query, and the Parquet file that DuckDB makes of them. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/list.h"
#include "base/text/timefmt.h"
#include "colony/export_parts.h"
#include "colony/sink_duckdb.h"

enum { IDS_MAX = 1 << 20, WRITER_ROWS_MAX = 1000000 };
#define READ_BYTES_MAX (INT64_C(512) << 20)
#define READ_TIMEOUT_US INT64_C(600000000)

typedef struct page {
    const tide_colony_type *type;
    tide_duck *duck;         /* the writer's */
    const tide_cursor *done; /* the writer's */
    tide_duck_appender *out;
    int first_column; /* of the type's own: behind agent, session, epoch, number */
    int seq_column;
    int64_t rows;
    int64_t next; /* number that would follow without a gap */
    int64_t last;
    tide_interval *missing;
    int missing_count;
    uint64_t *ids;
} page;

static void page_done(page *p)
{
    tide_duck_append_dropp(&p->out);
    free(p->missing);
    free(p->ids);
}

/* ---- what is missing ---- */

static void note_missing(page *p, int64_t first, int64_t last)
{
    if (first <= last && p->missing_count < TIDE_EXPORT_MISSING_MAX)
        p->missing[p->missing_count++] = (tide_interval){first, last};
}

static void note_number(page *p, int64_t seq)
{
    note_missing(p, p->next, seq - 1);
    p->next = seq + 1;
    p->last = seq;
    p->rows++;
}

/* ---- cells ---- */

static int64_t integer_of(const tide_sql_value *cell)
{
    if (cell->kind == TIDE_SQL_VALUE_TEXT || cell->kind == TIDE_SQL_VALUE_F64) {
        char text[32];
        if (cell->kind == TIDE_SQL_VALUE_F64)
            return (int64_t)cell->f64;
        tide_view_copy(text, sizeof text, cell->bytes);
        return (int64_t)(*text == '-' ? (uint64_t)strtoll(text, NULL, 10)
                                      : strtoull(text, NULL, 10));
    }
    return cell->i64;
}

static void put_time(page *p, const tide_sql_value *cell)
{
    tide_view text = cell->bytes;
    if (text.len > 3 && memcmp(text.ptr + text.len - 3, "+00", 3) == 0)
        text.len -= 3; /* PostgreSQL tells the zone, which is always UTC */
    int64_t us = 0;
    if (cell->kind != TIDE_SQL_VALUE_TEXT || tide_time_parse(&us, text) < TIDE_OK)
        tide_duck_put_null(p->out);
    else
        tide_duck_put_time(p->out, us);
}

static double number_of(const tide_sql_value *cell)
{
    if (cell->kind == TIDE_SQL_VALUE_TEXT) {
        char text[64];
        tide_view_copy(text, sizeof text, cell->bytes);
        return strtod(text, NULL);
    }
    return cell->kind == TIDE_SQL_VALUE_F64 ? cell->f64 : (double)cell->i64;
}

/* Numbers between brackets: "[1, 2]", "{1,2}". */
static tide_status put_ids(page *p, const tide_sql_value *cell, tide_error *err)
{
    int count = 0;
    const char *end = cell->bytes.ptr + cell->bytes.len;
    for (const char *at = cell->bytes.ptr; at < end; at++) {
        if (*at < '0' || *at > '9')
            continue;
        TIDE_TRY(tide_list_room(&p->ids, count, sizeof *p->ids, IDS_MAX, err));
        uint64_t id = 0;
        for (; at < end && *at >= '0' && *at <= '9'; at++)
            id = id * 10 + (uint64_t)(*at - '0');
        p->ids[count++] = id;
    }
    tide_duck_put_ids(p->out, p->ids, count);
    return TIDE_OK;
}

static tide_status put_cell(page *p, int column, const tide_sql_value *cell, tide_error *err)
{
    if (cell->kind == TIDE_SQL_VALUE_NULL) {
        tide_duck_put_null(p->out);
        return TIDE_OK;
    }
    switch (p->type->stream->columns[column].kind) {
    case TIDE_COLUMN_I64:
        if (column == p->type->stream->time_column) {
            put_time(p, cell);
            return TIDE_OK;
        }
        tide_duck_put_i64(p->out, integer_of(cell));
        return TIDE_OK;
    case TIDE_COLUMN_I32:
        tide_duck_put_i64(p->out, integer_of(cell));
        return TIDE_OK;
    case TIDE_COLUMN_U64:
        tide_duck_put_u64(p->out, (uint64_t)integer_of(cell));
        return TIDE_OK;
    case TIDE_COLUMN_F64:
        tide_duck_put_f64(p->out, number_of(cell));
        return TIDE_OK;
    case TIDE_COLUMN_BOOL:
        tide_duck_put_bool(p->out, cell->kind == TIDE_SQL_VALUE_TEXT
                                       ? cell->bytes.len > 0 && *cell->bytes.ptr == 't'
                                       : cell->i64 != 0);
        return TIDE_OK;
    case TIDE_COLUMN_TEXT:
    case TIDE_COLUMN_MAP:
        tide_duck_put_text(p->out, cell->bytes);
        return TIDE_OK;
    case TIDE_COLUMN_BLOB:
        tide_duck_put_blob(p->out, cell->bytes);
        return TIDE_OK;
    case TIDE_COLUMN_IDS:
        return put_ids(p, cell, err);
    }
    return tide_fail(err, TIDE_E_FAILED, "a column of no kind");
}

/* ---- rows ---- */

static tide_status take_columns(void *arg, const char *const *names, int count, tide_error *err)
{
    const page *p = arg;
    if (count != p->first_column + p->type->stream->column_count ||
        strcmp(names[p->seq_column], "seq_id") != 0)
        return tide_fail(err, TIDE_E_MISMATCH, "%s has %d columns, want %d", p->type->table, count,
                         p->first_column + p->type->stream->column_count);
    return TIDE_OK;
}

static tide_status take_row(void *arg, const tide_sql_value *cells, int count, tide_error *err)
{
    page *p = arg;
    const int64_t seq = cells[p->seq_column].i64;
    if (p->done && tide_cursor_has(p->done, seq))
        return TIDE_OK;
    if (seq > p->next && p->missing_count == TIDE_EXPORT_MISSING_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "more holes than a file's line tells: it ends here");
    note_number(p, seq);
    /* agent_id, (data_type,) session_id, epoch, seq_id */
    for (int i = 0; i < p->seq_column - 1; i++)
        tide_duck_put_text(p->out, cells[i].bytes);
    tide_duck_put_i64(p->out, cells[p->seq_column - 1].i64);
    tide_duck_put_i64(p->out, cells[p->seq_column].i64);
    for (int i = p->first_column; i < count; i++)
        TIDE_TRY(put_cell(p, i - p->first_column, &cells[i], err));
    tide_duck_put_time(p->out, 0); /* stored_at, which is not exported */
    tide_duck_end_row(p->out);
    return TIDE_OK;
}

static tide_status open_writer(tide_export_writer *writer, tide_error *err)
{
    if (writer->rows > WRITER_ROWS_MAX)
        tide_export_writer_done(writer);
    if (writer->duck)
        return TIDE_OK;
    const tide_duckdb_options memory = {.library = writer->options->library,
                                        .may_touch_files = true};
    TIDE_TRY(tide_duckdb_open(&writer->db, NULL, &memory, err));
    TIDE_TRY(tide_duck_connect(&writer->duck, writer->db, err));
    return tide_duck_run(writer->duck, TIDE_DUCKDB_SQL_COLONY_SCHEMA, err);
}

void tide_export_writer_done(tide_export_writer *writer)
{
    tide_duck_close(writer->duck);
    tide_duckdb_close(writer->db);
    *writer = (tide_export_writer){.options = writer->options};
}

/* Rows of an earlier range, also of one that failed, go. */
static tide_status empty_table(const page *p, tide_error *err)
{
    TIDE_DUCK_QUERY(query, p->duck, tide_duck_expire_statement(p->type->stream->kind), err);
    tide_duck_bind_time(query, "before", 1);
    return tide_duck_query_run(query, NULL, err);
}

static tide_status begin_page(page *p, tide_export_writer *writer, const tide_export_range *range,
                              tide_error *err)
{
    p->type = tide_colony_type_find(range->data_type);
    p->seq_column = p->type->stream->kind == TIDE_STREAM_OPAQUE ? 4 : 3;
    p->first_column = p->seq_column + 1;
    p->next = range->first_seq;
    p->missing = calloc(TIDE_EXPORT_MISSING_MAX + 1, sizeof *p->missing);
    TIDE_NEED_MEMORY(p->missing, err);
    TIDE_TRY(open_writer(writer, err));
    p->duck = writer->duck;
    p->done = writer->done;
    return TIDE_OK;
}

/* The rows lie in a table of a database in memory. TIDE_E_LIMIT of the query: there are more, for the next file. */
static tide_status read_rows(page *p, const tide_export_options *options, tide_export_range *range,
                             tide_error *err)
{
    const int64_t row_max = options->row_max > 0 ? options->row_max : TIDE_EXPORT_ROWS_DEFAULT;
    const tide_duckdb_range wanted = {
        .table = p->type->table,
        .agent_id = range->agent_id,
        .session_id = range->session_id,
        .data_type = p->type->stream->kind == TIDE_STREAM_OPAQUE ? range->data_type : NULL,
        .epoch = range->epoch,
        .first_seq = range->first_seq,
        .last_seq = range->last_seq,
        .limit = row_max + 1,
    };
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(1 << 16);
    if (tide_duckdb_range_text(&text, &wanted) < TIDE_OK)
        return tide_no_memory(err);
    char table[TIDE_DUCK_TABLE_SIZE];
    tide_duck_rows_table(table, p->type);
    TIDE_TRY(empty_table(p, err));
    TIDE_TRY(tide_duck_append_begin(&p->out, p->duck, table, err));
    const tide_sink_query query = {.sql = tide_buffer_text(&text),
                                   .row_max = row_max,
                                   .timeout_us = READ_TIMEOUT_US,
                                   .bytes_max = READ_BYTES_MAX};
    const tide_sink_rows rows = {.columns = take_columns, .row = take_row, .arg = p};
    const tide_status status = options->sink->ops->query(options->sink, &query, &rows, err);
    if (status < TIDE_OK && (status != TIDE_E_LIMIT || p->rows == 0))
        return status;
    TIDE_TRY(tide_duck_append_end(&p->out, err));
    if (status == TIDE_E_LIMIT || (p->missing_count == TIDE_EXPORT_MISSING_MAX && p->rows > 0))
        range->last_seq = p->last; /* what follows is the next file's */
    else
        note_missing(p, p->next, range->last_seq);
    range->rows = p->rows;
    return TIDE_OK;
}

/* ---- files ---- */

static tide_status sync_path(const char *path, int flags, tide_error *err)
{
    const int fd = open(path, flags | O_CLOEXEC);
    const bool is_synced = fd >= 0 && fsync(fd) == 0;
    const int why = errno;
    if (fd >= 0)
        (void)close(fd);
    return is_synced ? TIDE_OK
                     : tide_fail(err, TIDE_E_IO, "cannot sync %s: %s", path, strerror(why));
}

/* The directories between dir and the file, each synced into the one above. */
static tide_status make_directories(const char *dir, const char *path, tide_error *err)
{
    char part[TIDE_EXPORT_NAME_SIZE];
    (void)snprintf(part, sizeof part, "%s", path);
    for (char *slash = strchr(part + strlen(dir) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(part, 0700) == 0) {
            char *above = strrchr(part, '/');
            *above = '\0';
            TIDE_TRY(sync_path(part, O_RDONLY | O_DIRECTORY, err));
            *above = '/';
        } else if (errno != EEXIST) {
            return tide_fail(err, TIDE_E_IO, "cannot make %s: %s", part, strerror(errno));
        }
        *slash = '/';
    }
    return TIDE_OK;
}

static tide_status copy_out(page *p, const char *path, tide_error *err)
{
    TIDE_DUCK_QUERY(query, p->duck, TIDE_DUCKDB_SQL_PARQUET_WRITE, err);
    tide_duck_bind_text(query, "table", p->type->table);
    tide_duck_bind_text(query, "path", path);
    return tide_duck_query_run(query, NULL, err);
}

static tide_status put_file(page *p, const char *dir, const char *path, int64_t *bytes,
                            tide_error *err)
{
    char part[TIDE_EXPORT_NAME_SIZE + 8];
    (void)snprintf(part, sizeof part, "%s.part", path);
    TIDE_TRY(make_directories(dir, path, err));
    if (unlink(part) != 0 && errno != ENOENT)
        return tide_fail(err, TIDE_E_IO, "cannot remove %s: %s", part, strerror(errno));
    TIDE_TRY(copy_out(p, part, err));
    TIDE_TRY(sync_path(part, O_RDONLY, err));
    struct stat file;
    if (stat(part, &file) != 0 || rename(part, path) != 0)
        return tide_fail(err, TIDE_E_IO, "cannot rename %s: %s", part, strerror(errno));
    *bytes = file.st_size;
    char *slash = strrchr(part, '/');
    *slash = '\0';
    return sync_path(part, O_RDONLY | O_DIRECTORY, err);
}

tide_status tide_export_write(tide_export_writer *writer, tide_export_range *range,
                              tide_export_plan_fn *plan, void *arg, tide_interval **missing,
                              int *missing_count, tide_error *err)
{
    const tide_export_options *options = writer->options;
    TIDE_CLEANUP(page_done) page p = {0};
    TIDE_TRY(begin_page(&p, writer, range, err));
    TIDE_TRY(read_rows(&p, options, range, err));
    writer->rows += p.rows;
    range->bytes = 0;
    if (p.rows > 0) {
        char path[TIDE_EXPORT_NAME_SIZE];
        TIDE_TRY(tide_export_path(path, options->dir, range, err));
        struct stat file;
        if (range->is_late && stat(path, &file) == 0)
            return tide_fail(err, TIDE_E_EXISTS, "%s is the file of another range", path);
        TIDE_TRY(plan(arg, range, err));
        TIDE_TRY(put_file(&p, options->dir, path, &range->bytes, err));
    }
    *missing = TIDE_TAKE(p.missing);
    *missing_count = p.missing_count;
    return TIDE_OK;
}

/* ---- a file that is there already ---- */

tide_status tide_export_look(tide_export_writer *writer, tide_export_range *range,
                             tide_interval **missing, int *missing_count, tide_error *err)
{
    char path[TIDE_EXPORT_NAME_SIZE];
    TIDE_TRY(tide_export_path(path, writer->options->dir, range, err));
    struct stat file;
    if (stat(path, &file) != 0)
        return TIDE_NONE;
    TIDE_CLEANUP(page_done) page p = {0};
    TIDE_TRY(begin_page(&p, writer, range, err));
    TIDE_DUCK_QUERY(query, p.duck, TIDE_DUCKDB_SQL_PARQUET_NUMBERS, err);
    tide_duck_bind_text(query, "path", path);
    TIDE_EACH(tide_duck_query_step(query, err))
        note_number(&p, tide_duck_col_i64(query));
    note_missing(&p, p.next, range->last_seq);
    range->rows = p.rows;
    range->bytes = file.st_size;
    *missing = TIDE_TAKE(p.missing);
    *missing_count = p.missing_count;
    return TIDE_OK;
}
