#include "replica/reshape.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "replica/capture.h"
#include "replica/merge.h"
#include "tidemark_templates.h"

enum { PAGE_ROWS = 1000 };
#define PAGE_BYTES_MAX ((size_t)1 << 30)
#define ASIDE_ID (INT64_C(1) << 40) /* of the log while it is made anew */

typedef struct shape {
    tide_foreign_tx *tx;
    const tide_table *before;
    const tide_table *after;
    const int *map;
    tide_buffer defaults; /* prints of the defaults of the columns after it */
} shape;

static void shape_done(shape *s)
{
    tide_buffer_done(&s->defaults);
}

static tide_table with_id(const tide_table *table, int64_t id)
{
    tide_table other = *table;
    other.id = id;
    other.texts = NULL; /* statements of another log, or of other columns */
    other.some = NULL;
    return other;
}

/* ---- one row's clock, image and prints ---- */

static int compare_columns(const void *a, const void *b)
{
    const tide_column_clock *x = a;
    const tide_column_clock *y = b;
    return (x->column > y->column) - (x->column < y->column);
}

static tide_status move_clock(const shape *s, tide_buffer *out, tide_view bytes, bool *exists,
                              uint64_t *gone, tide_error *err)
{
    TIDE_CLEANUP(tide_row_clock_done) tide_row_clock clock = {.columns = NULL};
    TIDE_TRY(tide_row_clock_decode(&clock, bytes, err));
    int kept = 0;
    tide_row_write lost = {.stamp.time = 0};
    for (int i = 0; i < clock.column_count; i++) {
        const tide_column_clock from = clock.columns[i];
        if (from.column < s->before->column_count && s->map[from.column] >= 0) {
            clock.columns[kept++] =
                (tide_column_clock){.column = s->map[from.column], .write = from.write};
        } else if (tide_stamp_compare(&from.write.stamp, &lost.stamp) > 0) {
            lost = from.write;
        }
    }
    if (lost.stamp.time != 0) /* in the place of one that has gone */
        clock.columns[kept++] = (tide_column_clock){.column = TIDE_ROW_CLOCK_LOST, .write = lost};
    if (kept > 1)
        qsort(clock.columns, (size_t)kept, sizeof *clock.columns, compare_columns);
    clock.column_count = kept;
    *exists = tide_row_clock_exists(&clock);
    *gone = clock.deleted.stamp.time;
    return tide_row_clock_encode(out, &clock) < TIDE_OK ? tide_no_memory(err) : TIDE_OK;
}

static tide_status move_image(const shape *s, tide_buffer *out, tide_view bytes, tide_error *err)
{
    tide_reader from = tide_reader_of(bytes);
    while (tide_reader_left(&from) > 0) {
        uint64_t column = 0;
        tide_sql_value value;
        if (tide_reader_varint_shortest(&from, &column) < TIDE_OK ||
            tide_sql_value_decode(&value, &from) < TIDE_OK)
            return tide_fail(err, TIDE_E_DAMAGED, "an image of table %s is damaged",
                             s->before->name);
        if (column >= (uint64_t)s->before->column_count || s->map[column] < 0)
            continue;
        if (tide_buffer_append_varint(out, (uint64_t)s->map[column]) < TIDE_OK ||
            tide_sql_value_encode(out, &value) < TIDE_OK)
            return tide_no_memory(err);
    }
    return TIDE_OK;
}

/* A column that is new, or was when the print was taken, had its default. */
static tide_status move_prints(const shape *s, tide_buffer *out, tide_view bytes, tide_error *err)
{
    if (bytes.len == 0)
        return TIDE_OK;
    if (tide_buffer_append_view(out, tide_buffer_view(&s->defaults)) < TIDE_OK)
        return tide_no_memory(err);
    for (int i = 0; i < s->before->column_count; i++) {
        const size_t at = (size_t)i * TIDE_TABLE_PRINT_LEN;
        if (s->map[i] >= 0 && at + TIDE_TABLE_PRINT_LEN <= bytes.len)
            memcpy(out->ptr + (size_t)s->map[i] * TIDE_TABLE_PRINT_LEN, bytes.ptr + at,
                   TIDE_TABLE_PRINT_LEN);
    }
    return TIDE_OK;
}

static tide_status print_defaults(shape *s, tide_error *err)
{
    const tide_table after = with_id(s->after, s->before->id);
    TIDE_FOREIGN_QUERY_BY(query, tide_table_query, s->tx, &after, TIDE_TABLE_DEFAULTS, err);
    TIDE_TRY(tide_foreign_step(query, err));
    for (int i = 0; i < after.column_count; i++) {
        const tide_sql_value value = tide_foreign_col(query);
        TIDE_TRY(tide_table_prints(&s->defaults, &value, 1, err));
    }
    return TIDE_OK;
}

typedef struct stored {
    tide_view key;
    tide_view clock;
    tide_view image;
    tide_view prints;
    bool has_image;
} stored;

static tide_status move_row(const shape *s, const stored *row, tide_error *err)
{
    bool exists = false;
    uint64_t gone = 0;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer clock = tide_buffer_of(PAGE_BYTES_MAX);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer image = tide_buffer_of(PAGE_BYTES_MAX);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer prints = tide_buffer_of(PAGE_BYTES_MAX);
    TIDE_TRY(move_clock(s, &clock, row->clock, &exists, &gone, err));
    TIDE_TRY(move_image(s, &image, row->image, err));
    TIDE_TRY(move_prints(s, &prints, row->prints, err));
    return tide_foreign_exec(
        s->tx, TIDE_TEMPLATE_RESHAPE_CLOCK_PUT->text, NULL, err,
        tide_bind_i64("table_id", s->before->id), tide_bind_blob("key", row->key),
        tide_bind_blob("clock", tide_buffer_view(&clock)),
        TIDE_BIND_IF(row->has_image, tide_bind_blob("image", tide_buffer_view(&image))),
        TIDE_BIND_IF(prints.len > 0, tide_bind_blob("digest", tide_buffer_view(&prints))),
        TIDE_BIND_IF(!exists && gone != 0, tide_bind_i64("gone", (int64_t)gone)));
}

/* ---- all rows, a page at a time ---- */

static tide_status keep(tide_view *out, tide_arena *arena, tide_view bytes, tide_error *err)
{
    const char *copy = tide_arena_copy(arena, bytes.len > 0 ? bytes.ptr : "", bytes.len);
    TIDE_NEED_MEMORY(copy, err);
    *out = tide_view_bytes(copy, bytes.len);
    return TIDE_OK;
}

static tide_status read_rows(const shape *s, tide_arena *arena, tide_view after, stored *rows,
                             int *count, tide_error *err)
{
    TIDE_FOREIGN_QUERY(query, s->tx, TIDE_TEMPLATE_RESHAPE_CLOCKS->text, err,
                       tide_bind_i64("table_id", s->before->id), tide_bind_blob("after", after),
                       tide_bind_i64("limit", PAGE_ROWS));
    tide_status status = TIDE_OK;
    for (*count = 0; (status = tide_foreign_step(query, err)) == TIDE_OK; ++*count) {
        stored *row = &rows[*count];
        TIDE_TRY(keep(&row->key, arena, tide_foreign_col_bytes(query), err));
        TIDE_TRY(keep(&row->clock, arena, tide_foreign_col_bytes(query), err));
        row->has_image = !tide_foreign_col_is_null(query);
        TIDE_TRY(keep(&row->image, arena, tide_foreign_col_bytes(query), err));
        TIDE_TRY(keep(&row->prints, arena, tide_foreign_col_bytes(query), err));
    }
    return status < TIDE_OK ? status : TIDE_OK;
}

static void arena_done(tide_arena *arena)
{
    tide_arena_done(arena);
}

static tide_status move_rows(const shape *s, tide_error *err)
{
    TIDE_CLEANUP(tide_freep) stored *rows = calloc(PAGE_ROWS, sizeof *rows);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer after = tide_buffer_of(PAGE_BYTES_MAX);
    TIDE_NEED_MEMORY(rows, err);
    for (int count = PAGE_ROWS; count == PAGE_ROWS;) {
        TIDE_CLEANUP(arena_done) tide_arena arena;
        tide_arena_init(&arena, PAGE_BYTES_MAX);
        TIDE_TRY(read_rows(s, &arena, tide_buffer_view(&after), rows, &count, err));
        for (int i = 0; i < count; i++)
            TIDE_TRY(move_row(s, &rows[i], err));
        tide_buffer_clear(&after);
        if (count > 0 && tide_buffer_append_view(&after, rows[count - 1].key) < TIDE_OK)
            return tide_no_memory(err);
    }
    return TIDE_OK;
}

/* ---- conflicts ---- */

static tide_status run_for_column(const shape *s, const tide_template *template, int column,
                                  tide_error *err)
{
    return tide_foreign_exec(s->tx, template->text, NULL, err,
                             tide_bind_i64("table_id", s->before->id), tide_bind_i64("col", column),
                             tide_bind_i64("to", s->map[column]));
}

/* Out of the way first: numbers must not meet. */
static tide_status move_conflicts(const shape *s, tide_error *err)
{
    TIDE_TRY(run_for_column(s, TIDE_TEMPLATE_RESHAPE_CONFLICTS_LIFT, 0, err));
    TIDE_TRY(run_for_column(s, TIDE_TEMPLATE_RESHAPE_KNOWN_LIFT, 0, err));
    for (int i = 0; i < s->before->column_count; i++) {
        const bool is_kept = s->map[i] >= 0;
        TIDE_TRY(run_for_column(
            s, is_kept ? TIDE_TEMPLATE_RESHAPE_CONFLICTS_SET : TIDE_TEMPLATE_RESHAPE_CONFLICTS_CUT,
            i, err));
        TIDE_TRY(run_for_column(
            s, is_kept ? TIDE_TEMPLATE_RESHAPE_KNOWN_SET : TIDE_TEMPLATE_RESHAPE_KNOWN_CUT, i,
            err));
    }
    return TIDE_OK;
}

/* ---- the log ---- */

static tide_status copy_log(tide_foreign_tx *tx, const tide_table *from, const tide_table *to,
                            const int *map, tide_error *err)
{
    TIDE_CLEANUP(tide_log_row_done) tide_log_row row = {0};
    TIDE_CLEANUP(tide_log_row_done) tide_log_row moved = {0};
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    TIDE_TRY(tide_log_row_init(&row, from, err));
    TIDE_TRY(tide_log_row_init(&moved, to, err));
    TIDE_TRY(tide_table_query(&query, tx, from, TIDE_TABLE_LOG_READ, err));
    tide_foreign_bind_i64(query, "after", 0);
    tide_foreign_bind_i64(query, "through", INT64_MAX);
    TIDE_EACH(tide_log_next(&row, query, from, err)) {
        moved.seq = row.seq;
        moved.at = row.at;
        moved.kind = row.kind;
        moved.is_bare = row.is_bare;
        for (int i = 0; i < from->column_count; i++) {
            const int at = map ? map[i] : i;
            if (at < 0)
                continue;
            moved.values[at] = row.values[i];
            moved.is_written[at] = row.is_written[i];
        }
        moved.is_written[to->key[0]] = true; /* a mask of 0 would stand for every column */
        TIDE_TRY(tide_capture_log_put(tx, to, &moved, err));
    }
    return TIDE_OK;
}

static tide_status move_log(const shape *s, tide_error *err)
{
    const tide_table aside = with_id(s->after, s->before->id + ASIDE_ID);
    const tide_table after = with_id(s->after, s->before->id);
    TIDE_TRY(tide_capture_unhook(s->tx, s->before, err));
    TIDE_TRY(tide_capture_settle_gone(s->tx, s->before, &after, err));
    TIDE_TRY(tide_capture_make_log(s->tx, &aside, err));
    TIDE_TRY(copy_log(s->tx, s->before, &aside, s->map, err));
    TIDE_TRY(tide_capture_make_log(s->tx, &after, err));
    TIDE_TRY(copy_log(s->tx, &aside, &after, NULL, err));
    return tide_capture_drop_log(s->tx, &aside, err);
}

tide_status tide_reshape(tide_foreign_tx *tx, const tide_table *before, const tide_table *after,
                         const int *map, tide_error *err)
{
    TIDE_CLEANUP(shape_done) shape s = {.tx = tx, .before = before, .after = after, .map = map};
    tide_buffer_init(&s.defaults, (size_t)TIDE_TABLE_COLUMNS_MAX * TIDE_TABLE_PRINT_LEN);
    TIDE_TRY(print_defaults(&s, err));
    TIDE_TRY(move_log(&s, err));
    TIDE_TRY(move_rows(&s, err));
    return move_conflicts(&s, err);
}
