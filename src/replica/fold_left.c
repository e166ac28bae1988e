#include "replica/fold_left.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "replica/capture.h"
#include "replica/quarantine.h"
#include "tidemark_templates.h"

/* ---- values ---- */

/* The largest value goes. False: there is none to spare. */
static bool drop_largest(tide_event *event, const tide_table *table, tide_fold_left *out)
{
    int largest = -1;
    for (int i = 0; i < event->column_count; i++)
        if (largest < 0 ||
            event->columns[i].value.bytes.len > event->columns[largest].value.bytes.len)
            largest = i;
    if (largest < 0 || event->columns[largest].value.bytes.len == 0)
        return false;
    const tide_event_column dropped = event->columns[largest];
    if (!out->column)
        *out = (tide_fold_left){.column = table->columns[dropped.column].name,
                                .len = dropped.value.bytes.len};
    event->column_count--;
    memmove(&event->columns[largest], &event->columns[largest + 1],
            (size_t)(event->column_count - largest) * sizeof *event->columns);
    return true;
}

tide_status tide_fold_encode(tide_buffer *out, tide_fold_left *left_out, tide_event *event,
                             const tide_table *table, tide_error *err)
{
    tide_status status = tide_event_encode(out, event, err);
    while (status == TIDE_E_LIMIT && drop_largest(event, table, left_out))
        status = tide_event_encode(out, event, err);
    return status;
}

static tide_status tell_null(tide_desk *desk, const tide_event *event, tide_change_kind kind,
                             tide_error *err)
{
    if (kind == TIDE_ROW_CREATE)
        return tide_quarantine_put(desk, event, TIDE_HOLD_NULL, err);
    if (kind == TIDE_ROW_DELETE)
        TIDE_TRY(tide_quarantine_end_null(desk, event, err));
    /* What it had in unique columns may have kept others out. */
    return tide_foreign_exec(desk->tx, TIDE_TEMPLATE_APPLY_REFER_RELEASE->text, NULL, err,
                             TIDE_NO_BIND);
}

/* Said in status: what stays here alone, and what does so no more. */
tide_status tide_fold_tell_left(tide_desk *desk, const tide_event *event, const tide_table *table,
                                const tide_fold_left *left_out, tide_error *err)
{
    if (desk->has_oversize && event->kind != TIDE_ROW_UPDATE)
        TIDE_TRY(tide_quarantine_end_size(desk, event, NULL, err));
    for (int i = 0; desk->has_oversize && i < event->column_count; i++)
        TIDE_TRY(tide_quarantine_end_size(desk, event,
                                          table->columns[event->columns[i].column].name, err));
    if (left_out->is_null)
        return tell_null(desk, event, left_out->kind, err);
    if (!left_out->column || left_out->is_bent)
        return TIDE_OK;
    desk->has_oversize = true;
    return tide_quarantine_put_size(desk, event, left_out->column, left_out->len, err);
}

/* A key that no event can carry: the delete of a row that nobody has takes its number, because numbers of a cut have no holes. */
static tide_status take_stand_in(tide_event *event, tide_fold_left *left_out, tide_desk *desk,
                                 const tide_table *table, tide_error *err)
{
    char text[64];
    const int len = snprintf(text, sizeof text, "tidemark: no key %" PRId64, event->seq);
    const char *copy = tide_arena_copy(&desk->arena, text, (size_t)len);
    TIDE_NEED_MEMORY(copy, err);
    left_out->column = table->columns[table->key[0]].name;
    for (int i = 0; i < event->key_count; i++) {
        left_out->len += event->key[i].bytes.len;
        event->key[i] = (tide_sql_value){.kind = TIDE_SQL_VALUE_BLOB,
                                         .bytes = tide_view_bytes(copy, (size_t)len)};
    }
    event->kind = TIDE_ROW_DELETE;
    return TIDE_OK;
}

static bool is_key_null(const tide_event *event)
{
    for (int i = 0; i < event->key_count; i++)
        if (event->key[i].kind == TIDE_SQL_VALUE_NULL)
            return true;
    return false;
}

/* ---- keys that SQLite has bent ---- */

/* Where a child's column is numeric and its parent's key is a text, SQLite applies the child's affinity to OLD before AFTER triggers of the parent read it:
 * '01' is captured as 1. A column of texts never has a number. */
static int find_bent(const tide_table *table, const tide_event *event)
{
    for (int i = 0; event->kind == TIDE_ROW_DELETE && i < event->key_count; i++)
        if (table->columns[table->key[i]].affinity == TIDE_AFFINITY_TEXT &&
            (event->key[i].kind == TIDE_SQL_VALUE_I64 || event->key[i].kind == TIDE_SQL_VALUE_F64))
            return i;
    return -1;
}

/* Mostly the number was written as we would: then a clock knows the row, and it does not stand there any more. Otherwise a scan has to find out what is gone, and a stand-in
 * takes the number. */
static tide_status unbend(tide_event *event, bool *is_found, tide_desk *desk,
                          const tide_table *table, tide_error *err)
{
    tide_view key;
    tide_desk_row *row = NULL;
    char text[32];
    *is_found = false;
    for (int i = find_bent(table, event); i >= 0; i = find_bent(table, event)) {
        if (event->key[i].kind != TIDE_SQL_VALUE_I64)
            return TIDE_OK;
        const int len = snprintf(text, sizeof text, "%" PRId64, event->key[i].i64);
        const char *copy = tide_arena_copy(&desk->arena, text, (size_t)len);
        TIDE_NEED_MEMORY(copy, err);
        event->key[i] = (tide_sql_value){.kind = TIDE_SQL_VALUE_TEXT,
                                         .bytes = tide_view_bytes(copy, (size_t)len)};
    }
    TIDE_TRY(tide_desk_key(&key, desk, event->key, event->key_count, err));
    TIDE_TRY(tide_desk_row_get(&row, desk, table, key, err));
    *is_found = tide_row_clock_exists(&row->clock) && !row->is_here;
    return TIDE_OK;
}

static tide_status take_bent(tide_event *event, tide_fold_left *left_out, tide_desk *desk,
                             const tide_table *table, tide_error *err)
{
    bool is_found = false;
    TIDE_TRY(unbend(event, &is_found, desk, table, err));
    if (is_found)
        return TIDE_OK;
    left_out->is_bent = true;
    if (!table->is_absent)
        TIDE_TRY(tide_capture_want_scan(desk->tx, table->id, err));
    return take_stand_in(event, left_out, desk, table, err);
}

/* In a column without a type a number may be meant; if no clock knows it, it was bent, or there is nothing to find. */
static bool may_be_bent(const tide_desk_row *row, const tide_event *event)
{
    for (int i = 0; i < event->key_count; i++)
        if (row->table->columns[row->table->key[i]].affinity == TIDE_AFFINITY_NONE &&
            (event->key[i].kind == TIDE_SQL_VALUE_I64 || event->key[i].kind == TIDE_SQL_VALUE_F64))
            return event->kind == TIDE_ROW_DELETE && !row->table->is_absent &&
                   tide_row_clock_newest(&row->clock).time == 0;
    return false;
}

tide_status tide_fold_find_row(tide_desk_row **out, tide_event *event, tide_fold_left *left_out,
                               tide_desk *desk, const tide_table *table, tide_error *err)
{
    tide_view key;
    if (is_key_null(event)) {
        left_out->is_null = true;
        left_out->kind = event->kind;
        TIDE_TRY(take_stand_in(event, left_out, desk, table, err));
    }
    if (find_bent(table, event) >= 0)
        TIDE_TRY(take_bent(event, left_out, desk, table, err));
    tide_status status = tide_desk_key(&key, desk, event->key, event->key_count, err);
    if (status == TIDE_E_LIMIT) {
        TIDE_TRY(take_stand_in(event, left_out, desk, table, err));
        status = tide_desk_key(&key, desk, event->key, event->key_count, err);
    }
    TIDE_TRY(status);
    TIDE_TRY(tide_desk_row_get(out, desk, table, key, err));
    return may_be_bent(*out, event) ? tide_capture_want_scan(desk->tx, table->id, err) : TIDE_OK;
}
