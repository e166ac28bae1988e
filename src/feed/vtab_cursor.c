/* vtab_cursor.c - the walk over a stream's batches and their records. See vtab_parts.h.
 *
 *     walk   the index alone: id, first, last          one step per batch
 *     head   the batch's row, but not its body         passed over by times and services
 *     body   unpacked, its records found               only if the query looks into records
 *
 * The index is walked apart from the rows, so that a row that cannot be read is a batch with known numbers, like any other
 * damage, and the walk goes on behind it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/text/timefmt.h"
#include "feed/vtab_parts.h"
#include "tidemark_sql.h"

int tide_vtab_open(sqlite3_vtab *table, sqlite3_vtab_cursor **out)
{
    tide_vtab_cursor *cursor = calloc(1, sizeof *cursor);
    if (!cursor)
        return SQLITE_NOMEM;
    cursor->table = (tide_vtab *)table;
    tide_buffer_init(&cursor->raw, TIDE_FEED_BATCH_BYTES_MAX);
    tide_buffer_init(&cursor->text, (size_t)TIDE_FEED_RECORD_MAX * 8);
    *out = &cursor->base;
    return SQLITE_OK;
}

int tide_vtab_close(sqlite3_vtab_cursor *base)
{
    tide_vtab_cursor *cursor = (tide_vtab_cursor *)base;
    (void)sqlite3_finalize(cursor->up);
    (void)sqlite3_finalize(cursor->down);
    (void)sqlite3_finalize(cursor->batch);
    tide_buffer_done(&cursor->raw);
    tide_buffer_done(&cursor->text);
    free(cursor->offsets);
    free(cursor);
    return SQLITE_OK;
}

/* A failure of SQLite itself, in its own words. */
static int fail_with(tide_vtab_cursor *cursor, int code)
{
    return tide_vtab_fail(cursor->table, code, "%s: %s", cursor->table->stream,
                          sqlite3_errmsg(cursor->table->db));
}

static int prepare(tide_vtab_cursor *cursor, sqlite3_stmt **statement, const tide_sql *sql)
{
    if (*statement)
        return SQLITE_OK;
    const int code = tide_vtab_prepare(statement, cursor->table->db, sql, cursor->table->schema);
    return code == SQLITE_OK ? SQLITE_OK : fail_with(cursor, code);
}

/* ---- damage ---- */

/* Are these numbers on record as lost? */
static int look_for_loss(tide_vtab_cursor *cursor, int64_t first_seq, int64_t last_seq,
                         bool *is_lost)
{
    const tide_vtab *table = cursor->table;
    sqlite3_stmt *statement = NULL;
    int code = tide_vtab_prepare(&statement, table->db, TIDE_SQL_VTAB_LOSS, table->schema);
    if (code != SQLITE_OK)
        return fail_with(cursor, code);
    (void)sqlite3_bind_int64(statement, tide_vtab_param(TIDE_SQL_VTAB_LOSS, "stream"),
                             table->stream_id);
    (void)sqlite3_bind_int64(statement, tide_vtab_param(TIDE_SQL_VTAB_LOSS, "first"), first_seq);
    (void)sqlite3_bind_int64(statement, tide_vtab_param(TIDE_SQL_VTAB_LOSS, "last"), last_seq);
    code = sqlite3_step(statement);
    *is_lost = code == SQLITE_ROW;
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        code = fail_with(cursor, code);
    else
        code = SQLITE_OK;
    (void)sqlite3_finalize(statement);
    return code;
}

/* A batch cannot be read. SQLITE_OK: it is left out. */
static int meet_damage(tide_vtab_cursor *cursor, int64_t id, int64_t first_seq, int64_t last_seq,
                       const char *why)
{
    if (cursor->scan.skips_damaged) {
        cursor->table->connection->counters.damaged++;
        return SQLITE_OK;
    }
    char words[TIDE_ERROR_TEXT_MAX];
    (void)snprintf(words, sizeof words, "%s",
                   why); /* of the connection, until its next statement */
    bool is_lost = false;
    const int code = look_for_loss(cursor, first_seq, last_seq, &is_lost);
    if (code != SQLITE_OK || is_lost)
        return code;
    return tide_vtab_fail(cursor->table, SQLITE_CORRUPT_VTAB,
                          "%s: batch %" PRId64 " with the numbers %" PRId64 " to %" PRId64
                          " is damaged: %s (WHERE skip_damaged = 1 leaves it out)",
                          cursor->table->stream, id, first_seq, last_seq, words);
}

/* ---- a head ---- */

static tide_view blob_of(sqlite3_stmt *statement, int column)
{
    const void *bytes = sqlite3_column_blob(statement, column);
    return tide_view_bytes(bytes, (size_t)sqlite3_column_bytes(statement, column));
}

static bool digest_of(tide_digest128 *out, sqlite3_stmt *statement, int column)
{
    const tide_view bytes = blob_of(statement, column);
    if (bytes.len != TIDE_DIGEST128_LEN)
        return false;
    memcpy(out->bytes, bytes.ptr, TIDE_DIGEST128_LEN);
    return true;
}

/* The columns of vtab_batch, in order. False: this is no head at all. */
static bool read_head(tide_batch_head *head, sqlite3_stmt *row)
{
    int column = 0;
    head->stream_id = sqlite3_column_int64(row, column++);
    head->last_seq = sqlite3_column_int64(row, column++);
    head->first_seq = sqlite3_column_int64(row, column++);
    head->epoch = sqlite3_column_int64(row, column++);
    head->min_time_ms = sqlite3_column_int64(row, column++);
    head->max_time_ms = sqlite3_column_int64(row, column++);
    const tide_view arrived = tide_view_of((const char *)sqlite3_column_text(row, column++));
    head->codec = sqlite3_column_int64(row, column++);
    head->raw_len = sqlite3_column_int64(row, column++);
    head->stored_through = sqlite3_column_int64(row, column++);
    const int chain_column = column++;
    column++;
    head->services = blob_of(row, column++);
    head->body_crc = (uint32_t)sqlite3_column_int64(row, column++);
    head->head_crc = (uint32_t)sqlite3_column_int64(row, column++);
    return arrived.ptr && tide_time_parse(&head->arrived_us, arrived) == TIDE_OK &&
           digest_of(&head->chain_before, row, chain_column) &&
           digest_of(&head->chain, row, chain_column + 1);
}

enum { BODY_COLUMN = 15 };

/* ---- a body ---- */

static tide_status keep_offset(tide_vtab_cursor *cursor, size_t offset)
{
    TIDE_TRY(tide_list_room(&cursor->offsets, cursor->record_count, sizeof *cursor->offsets,
                            TIDE_LIST_MAX, NULL));
    cursor->offsets[cursor->record_count++] = (uint32_t)offset;
    return TIDE_OK;
}

/* Find the records: all of them, numbered without a gap. The head has been believed, so there are not too many. */
static tide_status index_records(tide_vtab_cursor *cursor, tide_error *err)
{
    const tide_stream_type *type = cursor->table->type;
    const tide_view raw = tide_buffer_view(&cursor->raw);
    tide_view rest = raw;
    tide_record record;
    int64_t expected = cursor->head.first_seq;
    cursor->record_count = 0;
    for (;;) {
        const size_t offset = raw.len - rest.len;
        const tide_status status = tide_record_next(type, &rest, &record);
        if (status == TIDE_NONE && expected == cursor->head.last_seq + 1)
            return TIDE_OK;
        if (status != TIDE_OK || record.seq != expected || expected > cursor->head.last_seq)
            return tide_fail(err, TIDE_E_DAMAGED, "no record where number %" PRId64 " should stand",
                             expected);
        if (keep_offset(cursor, offset) < TIDE_OK)
            return tide_no_memory(err);
        expected++;
    }
}

static tide_status open_body(tide_vtab_cursor *cursor, tide_error *err)
{
    const tide_batch_head *head = &cursor->head;
    if (cursor->is_open && cursor->open_id == head->id && cursor->open_first == head->first_seq &&
        cursor->open_crc == head->head_crc) {
        cursor->table->connection->counters.reused++;
        return TIDE_OK;
    }
    cursor->is_open = false;
    cursor->row_seq = 0;
    const tide_view body = blob_of(cursor->batch, BODY_COLUMN);
    if (!body.ptr && sqlite3_errcode(cursor->table->db) == SQLITE_NOMEM)
        return tide_no_memory(err);
    TIDE_TRY(tide_batch_unpack(&cursor->raw, head, body, err));
    TIDE_TRY(index_records(cursor, err));
    cursor->is_open = true;
    cursor->open_id = head->id;
    cursor->open_first = head->first_seq;
    cursor->open_crc = head->head_crc;
    cursor->table->connection->counters.opened++;
    return TIDE_OK;
}

/* ---- the walk ---- */

/* The batch that the walk stands at. SQLITE_ROW: it is entered. SQLITE_OK: on to the next. */
static int look_at(tide_vtab_cursor *cursor, int64_t id, int64_t first_seq, int64_t last_seq)
{
    tide_vtab_counters *counters = &cursor->table->connection->counters;
    tide_batch_head *head = &cursor->head;
    counters->heads++;
    (void)sqlite3_bind_int64(cursor->batch, tide_vtab_param(TIDE_SQL_VTAB_BATCH, "id"), id);
    const int code = sqlite3_step(cursor->batch);
    if ((code & 0xff) == SQLITE_CORRUPT)
        return meet_damage(cursor, id, first_seq, last_seq, sqlite3_errmsg(cursor->table->db));
    if (code == SQLITE_DONE)
        return meet_damage(cursor, id, first_seq, last_seq, "its row is not there");
    if (code != SQLITE_ROW)
        return fail_with(cursor, code);
    *head = (tide_batch_head){.id = id};
    if (!read_head(head, cursor->batch) ||
        !tide_batch_is_head_sound(head, cursor->table->stream_id) || head->first_seq != first_seq ||
        head->last_seq != last_seq)
        return meet_damage(cursor, id, first_seq, last_seq, "its head's checksum does not fit");
    if (!tide_vtab_scan_wants(&cursor->scan, head)) {
        counters->passed++;
        return SQLITE_OK;
    }
    tide_error err = {.status = TIDE_OK};
    const tide_status status = cursor->scan.needs_body ? open_body(cursor, &err) : TIDE_OK;
    if (status == TIDE_E_NOMEM)
        return SQLITE_NOMEM;
    if (status < TIDE_OK)
        return meet_damage(cursor, id, first_seq, last_seq, err.text);
    return SQLITE_ROW;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t greatest(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void end_walk(tide_vtab_cursor *cursor)
{
    if (cursor->walk)
        (void)sqlite3_reset(cursor->walk);
    cursor->walk = NULL;
}

/* The next batch with rows in range, and its first row. */
static int next_batch(tide_vtab_cursor *cursor)
{
    const tide_vtab_scan *scan = &cursor->scan;
    for (;;) {
        int code = sqlite3_step(cursor->walk);
        if (code != SQLITE_ROW) {
            const int failure = code == SQLITE_DONE ? SQLITE_OK : fail_with(cursor, code);
            end_walk(cursor);
            return failure;
        }
        const int64_t id = sqlite3_column_int64(cursor->walk, 0);
        const int64_t first_seq = sqlite3_column_int64(cursor->walk, 1);
        const int64_t last_seq = sqlite3_column_int64(cursor->walk, 2);
        if (first_seq > scan->last_seq && !scan->is_down) {
            end_walk(cursor);
            return SQLITE_OK;
        }
        if (first_seq > scan->last_seq || last_seq < scan->first_seq)
            continue;
        code = look_at(cursor, id, first_seq, last_seq);
        (void)sqlite3_reset(cursor->batch);
        cursor->head.services = tide_view_bytes(NULL, 0);
        if (code == SQLITE_ROW) {
            cursor->seq = scan->is_down ? least(last_seq, scan->last_seq)
                                        : greatest(first_seq, scan->first_seq);
            return SQLITE_OK;
        }
        if (code != SQLITE_OK) {
            end_walk(cursor);
            return code;
        }
    }
}

static int begin_walk(tide_vtab_cursor *cursor)
{
    const tide_vtab_scan *scan = &cursor->scan;
    const tide_sql *sql = scan->is_down ? TIDE_SQL_VTAB_WALK_DOWN : TIDE_SQL_VTAB_WALK_UP;
    sqlite3_stmt **statement = scan->is_down ? &cursor->down : &cursor->up;
    int code = prepare(cursor, statement, sql);
    if (code == SQLITE_OK)
        code = prepare(cursor, &cursor->batch, TIDE_SQL_VTAB_BATCH);
    if (code != SQLITE_OK)
        return code;
    cursor->walk = *statement;
    (void)sqlite3_bind_int64(cursor->walk, tide_vtab_param(sql, "stream"),
                             cursor->table->stream_id);
    (void)sqlite3_bind_int64(cursor->walk, tide_vtab_param(sql, "first"), scan->first_seq);
    if (scan->is_down)
        (void)sqlite3_bind_int64(cursor->walk, tide_vtab_param(sql, "last"), scan->last_seq);
    return SQLITE_OK;
}

int tide_vtab_filter(sqlite3_vtab_cursor *base, int plan, const char *terms, int count,
                     sqlite3_value **values)
{
    (void)count;
    tide_vtab_cursor *cursor = (tide_vtab_cursor *)base;
    end_walk(cursor);
    tide_vtab_scan_of(&cursor->scan, plan, terms, values);
    if (cursor->scan.is_empty)
        return SQLITE_OK;
    const int code = begin_walk(cursor);
    return code == SQLITE_OK ? next_batch(cursor) : code;
}

int tide_vtab_next(sqlite3_vtab_cursor *base)
{
    tide_vtab_cursor *cursor = (tide_vtab_cursor *)base;
    const tide_vtab_scan *scan = &cursor->scan;
    const tide_batch_head *head = &cursor->head;
    if (scan->is_down && cursor->seq > greatest(head->first_seq, scan->first_seq)) {
        cursor->seq--;
        return SQLITE_OK;
    }
    if (!scan->is_down && cursor->seq < least(head->last_seq, scan->last_seq)) {
        cursor->seq++;
        return SQLITE_OK;
    }
    return next_batch(cursor);
}

int tide_vtab_eof(sqlite3_vtab_cursor *base)
{
    return ((const tide_vtab_cursor *)base)->walk == NULL;
}

int tide_vtab_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
    *out = ((const tide_vtab_cursor *)base)->seq;
    return SQLITE_OK;
}
