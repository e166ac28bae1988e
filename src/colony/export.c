#include "colony/export.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/list.h"
#include "base/text/timefmt.h"
#include "colony/export_parts.h"
#include "colony/sink_duckdb.h"

/* ---- rows ---- */

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

static void export_writer_done(tide_export_writer *writer)
{
    tide_duck_close(writer->duck);
    tide_duckdb_close(writer->db);
    *writer = (tide_export_writer){.options = writer->options};
}

static tide_status open_writer(tide_export_writer *writer, tide_error *err)
{
    if (writer->rows > WRITER_ROWS_MAX)
        export_writer_done(writer);
    if (writer->duck)
        return TIDE_OK;
    const tide_duckdb_options memory = {.library = writer->options->library,
                                        .may_touch_files = true};
    TIDE_TRY(tide_duckdb_open(&writer->db, NULL, &memory, err));
    TIDE_TRY(tide_duck_connect(&writer->duck, writer->db, err));
    return tide_duck_run(writer->duck, TIDE_DUCKDB_SQL_COLONY_SCHEMA, err);
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
    TIDE_ALLOC(p->missing, TIDE_EXPORT_MISSING_MAX + 1, err);
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
static tide_status make_directories(const tide_export_options *options, const char *path,
                                    tide_error *err)
{
    const char *dir = options->dir;
    char part[TIDE_EXPORT_NAME_SIZE];
    (void)snprintf(part, sizeof part, "%s", path);
    if (options->is_confined) {
        char *slash = strrchr(part, '/');
        *slash = '\0';
        TIDE_TRY(tide_file_make_beneath(dir, part + strlen(dir) + 1, err));
        *slash = '/';
    }
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

static tide_status put_file(page *p, const tide_export_options *options, const char *path,
                            int64_t *bytes, tide_error *err)
{
    char part[TIDE_EXPORT_NAME_SIZE + 8];
    (void)snprintf(part, sizeof part, "%s.part", path);
    TIDE_TRY(make_directories(options, path, err));
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

static tide_status export_write(tide_export_writer *writer, tide_export_range *range,
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
        TIDE_TRY(put_file(&p, options, path, &range->bytes, err));
    }
    *missing = TIDE_TAKE(p.missing);
    *missing_count = p.missing_count;
    return TIDE_OK;
}

/* ---- a file that is there already ---- */

/* Is the file of a planned range complete? TIDE_OK: then rows, bytes and missing are filled. TIDE_NONE: there is none. */
static tide_status export_look(tide_export_writer *writer, tide_export_range *range,
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

enum { NEAR = 1000 }; /* late numbers that lie no farther apart share a file */

typedef struct exporting {
    const tide_export_options *options;
    tide_manifest manifest;
    tide_export_writer writer;
    tide_export_fn *fn;
    void *arg;
    tide_export_sum sum;
} exporting;

static void exporting_done(exporting *e)
{
    export_writer_done(&e->writer);
    tide_manifest_close(&e->manifest);
}

/* ---- one range ---- */

static tide_status note_written(exporting *e, tide_export_range *range,
                                const tide_interval *missing, int count, tide_error *err)
{
    char path[TIDE_EXPORT_NAME_SIZE];
    range->is_written = true;
    TIDE_TRY(tide_manifest_note(&e->manifest, range, missing, count, err));
    e->sum.files += range->rows > 0;
    e->sum.rows += range->rows;
    e->sum.bytes += range->bytes;
    TIDE_TRY(tide_export_path(path, e->options->dir, range, err));
    return e->fn && range->rows > 0 ? e->fn(e->arg, range, path, err) : TIDE_OK;
}

static tide_status note_plan(void *arg, const tide_export_range *range, tide_error *err)
{
    exporting *e = arg;
    return tide_manifest_note(&e->manifest, range, NULL, 0, err);
}

static tide_status write_range(exporting *e, tide_export_range *range, tide_error *err)
{
    TIDE_CLEANUP(tide_freep) tide_interval *missing = NULL;
    int count = 0;
    range->is_written = false;
    tide_export_source *source = NULL;
    TIDE_TRY(tide_manifest_source(&e->manifest, range->data_type, range->agent_id,
                                  range->session_id, range->epoch, &source, err));
    e->writer.done = range->is_late ? &source->done : NULL;
    TIDE_TRY(export_write(&e->writer, range, note_plan, e, &missing, &count, err));
    /* A late range without rows has nothing to say. */
    if (range->is_late && range->rows == 0)
        return TIDE_OK;
    return note_written(e, range, missing, count, err);
}

/* What a run that died has planned: its file is there as a whole, or it is written now, under the same name. */
static tide_status finish_plan(exporting *e, const tide_export_source *source, tide_error *err)
{
    tide_export_range range = source->plan;
    TIDE_CLEANUP(tide_freep) tide_interval *missing = NULL;
    int count = 0;
    const tide_status status = export_look(&e->writer, &range, &missing, &count, err);
    TIDE_TRY(status);
    if (status == TIDE_OK)
        return note_written(e, &range, missing, count, err);
    return write_range(e, &range, err);
}

/* ---- one source ---- */

static tide_export_range range_of(const tide_position *position, int64_t first, int64_t last)
{
    tide_export_range range = {.epoch = position->epoch, .first_seq = first, .last_seq = last};
    (void)snprintf(range.data_type, sizeof range.data_type, "%s", position->data_type);
    (void)snprintf(range.agent_id, sizeof range.agent_id, "%s", position->agent_id);
    (void)snprintf(range.session_id, sizeof range.session_id, "%s", position->session_id);
    return range;
}

static tide_status find_source(exporting *e, const tide_position *position,
                               tide_export_source **out, tide_error *err)
{
    return tide_manifest_source(&e->manifest, position->data_type, position->agent_id,
                                position->session_id, position->epoch, out, err);
}

typedef struct gap_walk {
    exporting *e;
    const tide_position *position;
    int64_t bound; /* before the first open gap */
    int64_t last_id;
    int64_t seen;
    tide_interval *late; /* numbers that are in no file, though ranges around them were written */
    size_t late_count;
} gap_walk;

static tide_status lower_bound(void *arg, const tide_gap *gap, tide_error *err)
{
    gap_walk *w = arg;
    (void)err;
    if (gap->start_seq <= w->bound)
        w->bound = gap->start_seq - 1;
    w->last_id = gap->id;
    w->seen++;
    return TIDE_OK;
}

/* The first numbers of a gap that are in no file, though ranges around them were written. */
static bool find_late(const tide_export_source *source, const tide_gap *gap, int64_t after,
                      tide_interval *out)
{
    const int64_t end = gap->end_seq < source->through ? gap->end_seq : source->through;
    const int64_t highest = tide_cursor_highest(&source->done);
    if (tide_cursor_next_hole(&source->done, after, out) != TIDE_OK)
        *out = (tide_interval){after < highest ? highest + 1 : after + 1, source->through};
    if (out->last > end)
        out->last = end;
    return out->first <= out->last;
}

static tide_status keep_late(gap_walk *w, tide_interval late, tide_error *err)
{
    TIDE_TRY(tide_list_room(&w->late, (int64_t)w->late_count, sizeof *w->late, TIDE_LIST_MAX, err));
    w->late[w->late_count++] = late;
    return TIDE_OK;
}

static tide_status gather_late(void *arg, const tide_gap *gap, tide_error *err)
{
    gap_walk *w = arg;
    w->last_id = gap->id;
    w->seen++;
    int64_t after = gap->start_seq - 1;
    tide_interval late;
    tide_export_source *source = NULL;
    TIDE_TRY(find_source(w->e, w->position, &source, err));
    for (; find_late(source, gap, after, &late); after = late.last)
        TIDE_TRY(keep_late(w, late, err));
    return TIDE_OK;
}

static tide_status walk_gaps(gap_walk *w, uint32_t statuses, tide_gap_fn *fn, tide_error *err)
{
    tide_sink *sink = w->e->options->sink;
    tide_gap_filter filter = {.agent_id = w->position->agent_id,
                              .data_type = w->position->data_type,
                              .session_id = w->position->session_id,
                              .epoch = w->position->epoch,
                              .statuses = statuses,
                              .limit = TIDE_SINK_GAPS_MAX};
    do {
        w->seen = 0;
        TIDE_TRY(sink->ops->gaps(sink, &filter, fn, w, err));
        filter.after_id = w->last_id;
    } while (w->seen == filter.limit);
    return TIDE_OK;
}

static int compare_intervals(const void *a, const void *b)
{
    const int64_t x = ((const tide_interval *)a)->first;
    const int64_t y = ((const tide_interval *)b)->first;
    return (x > y) - (x < y);
}

/* Neighbours go into one file: how far from `at` on does it reach? What lies between them is exported already, and left out. */
static int64_t find_neighbours(const gap_walk *w, size_t at, size_t *next)
{
    const int64_t row_max = w->e->options->row_max;
    const int64_t width_max = row_max > 0 ? row_max : TIDE_EXPORT_ROWS_DEFAULT;
    const int64_t first = w->late[at].first;
    int64_t last = w->late[at].last;
    for (*next = at + 1; *next < w->late_count; (*next)++) {
        const tide_interval *late = &w->late[*next];
        if (late->first - last > NEAR || late->last - first >= width_max)
            break;
        last = late->last > last ? late->last : last;
    }
    return last;
}

static tide_status write_neighbours(gap_walk *w, int64_t first, int64_t last, tide_error *err)
{
    while (first <= last) {
        tide_export_range range = range_of(w->position, first, last);
        range.is_late = true;
        TIDE_TRY(write_range(w->e, &range, err));
        first = range.last_seq + 1;
    }
    return TIDE_OK;
}

static tide_status write_late(gap_walk *w, tide_error *err)
{
    qsort(w->late, w->late_count, sizeof *w->late, compare_intervals);
    for (size_t at = 0, next = 0; at < w->late_count; at = next) {
        const int64_t last = find_neighbours(w, at, &next);
        const tide_status status = write_neighbours(w, w->late[at].first, last, err);
        /* What was written with them is there already, and is left out. */
        for (size_t i = at; (status == TIDE_E_EXISTS || status == TIDE_E_LIMIT) && i < next; i++)
            TIDE_TRY(write_neighbours(w, w->late[i].first, w->late[i].last, err));
        if (status < TIDE_OK && status != TIDE_E_EXISTS && status != TIDE_E_LIMIT)
            return status;
    }
    return TIDE_OK;
}

static void gap_walk_done(gap_walk *w)
{
    free(w->late);
}

static tide_status export_source(exporting *e, const tide_position *position, tide_error *err)
{
    gap_walk open = {
        .e = e, .position = position, .bound = tide_cursor_contiguous(&position->cursor)};
    TIDE_TRY(
        walk_gaps(&open, 1U << TIDE_GAP_DETECTED | 1U << TIDE_GAP_RECOVERING, lower_bound, err));
    tide_export_source *source = NULL;
    TIDE_TRY(find_source(e, position, &source, err));
    if (source->has_plan)
        TIDE_TRY(finish_plan(e, source, err));
    while (true) {
        TIDE_TRY(find_source(e, position, &source, err));
        const int64_t before = position->first > 0 ? position->first - 1 : 0;
        const int64_t first = (source->through > before ? source->through : before) + 1;
        if (first > open.bound)
            break;
        tide_export_range range = range_of(position, first, open.bound);
        TIDE_TRY(write_range(e, &range, err));
    }
    TIDE_CLEANUP(gap_walk_done) gap_walk late = {.e = e, .position = position};
    TIDE_TRY(walk_gaps(&late, 1U << TIDE_GAP_RECOVERED, gather_late, err));
    return late.late_count > 0 ? write_late(&late, err) : TIDE_OK;
}

/* ---- all of them ---- */

typedef struct position_list {
    tide_position *items;
    int count;
} position_list;

static void position_list_done(position_list *list)
{
    for (int i = 0; i < list->count; i++)
        tide_position_done(&list->items[i]);
    free(list->items);
}

static tide_status gather(void *arg, const tide_position *position, const tide_gap_sums *gaps,
                          tide_error *err)
{
    position_list *list = arg;
    (void)gaps;
    if (*position->session_id == '\0')
        return TIDE_OK;
    TIDE_TRY(tide_list_room(&list->items, list->count, sizeof *list->items, TIDE_LIST_MAX, err));
    TIDE_TRY(tide_position_copy(&list->items[list->count], position, err));
    list->count++;
    return TIDE_OK;
}

static tide_status check_options(const tide_export_options *options, tide_error *err)
{
    if (options->row_max < 0 || options->row_max > TIDE_EXPORT_ROWS_MAX)
        return tide_fail(err, TIDE_E_INVALID, "%" PRId64 " rows per file, want 1 to %d",
                         options->row_max, TIDE_EXPORT_ROWS_MAX);
    if (mkdir(options->dir, 0700) != 0 && errno != EEXIST)
        return tide_fail(err, errno == EACCES ? TIDE_E_DENIED : TIDE_E_IO, "cannot make %s: %s",
                         options->dir, strerror(errno));
    return TIDE_OK;
}

tide_status tide_export_run(const tide_export_options *options, tide_export_fn *fn, void *arg,
                            tide_export_sum *out, tide_error *err)
{
    TIDE_TRY(check_options(options, err));
    TIDE_CLEANUP(exporting_done)
    exporting e = {.options = options,
                   .fn = fn,
                   .arg = arg,
                   .manifest = {.fd = -1, .lock_fd = -1},
                   .writer = {.options = options}};
    TIDE_TRY(tide_manifest_open(&e.manifest, options->dir, err));
    TIDE_CLEANUP(position_list_done) position_list list = {0};
    tide_sink *sink = options->sink;
    TIDE_TRY(sink->ops->positions(sink, options->agent_id, options->data_type, true, gather, &list,
                                  err));
    for (int i = 0; i < list.count; i++)
        TIDE_TRY(export_source(&e, &list.items[i], err));
    *out = e.sum;
    return TIDE_OK;
}
