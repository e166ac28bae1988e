#include "journal/page.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/journal.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "base/interface/sized.h"
#include "journal/check/checksum.h"
#include "journal/checkpoint_iter.h"
#include "journal/snapshot/snapshot.h"
#include "store/statement.h"
#include "tidemark_sql.h"

tide_journal_page *tide_journal_page_new(void)
{
    tide_journal_page *page = calloc(1, sizeof *page);
    if (page)
        tide_arena_init(&page->arena, TIDE_JOURNAL_PAGE_LEN_MAX);
    return page;
}

void tide_journal_page_freep(tide_journal_page **page)
{
    if (!*page)
        return;
    tide_arena_done(&(*page)->arena);
    tide_chunk_coder_done(&(*page)->coder);
    free(*page);
    *page = NULL;
}

/* ---- one row ---- */

static tide_status copy_bytes(tide_view *out, tide_journal_page *page, tide_view bytes,
                              tide_error *err)
{
    out->ptr = tide_arena_text(&page->arena, bytes);
    out->len = bytes.len;
    return out->ptr ? TIDE_OK : tide_no_memory(err);
}

/* The next column as text; NULL stays NULL. */
static tide_status copy_text(const char **out, tide_journal_page *page, tide_query *query,
                             tide_error *err)
{
    const bool is_null = tide_query_col_is_null(query);
    const tide_view text = tide_query_col_text(query);
    *out = is_null ? NULL : tide_arena_text(&page->arena, text);
    return is_null || *out ? TIDE_OK : tide_no_memory(err);
}

/* Tags come in one text, by lines. */
static tide_status split_tags(tide_checkpoint *checkpoint, tide_journal_page *page, char *lines,
                              tide_error *err)
{
    int count = 1;
    for (const char *at = lines; *at; at++)
        count += *at == '\n';
    const char **tags = tide_arena_alloc(&page->arena, (size_t)count * sizeof *tags);
    TIDE_NEED_MEMORY(tags, err);
    for (int i = 0; i < count; i++) {
        tags[i] = lines;
        lines += strcspn(lines, "\n");
        *lines++ = '\0';
    }
    checkpoint->tags = tags;
    checkpoint->tag_count = count;
    return TIDE_OK;
}

static tide_status read_fields(tide_journal_row *row, tide_journal_page *page, tide_query *query,
                               tide_error *err)
{
    tide_checkpoint *checkpoint = &row->checkpoint;
    checkpoint->global_sequence = tide_query_col_i64(query);
    checkpoint->sequence_number = tide_query_col_i64(query);
    TIDE_TRY(copy_text(&checkpoint->checkpoint_id, page, query, err));
    TIDE_TRY(copy_text(&checkpoint->task_id, page, query, err));
    TIDE_TRY(copy_text(&checkpoint->work_item_id, page, query, err));
    TIDE_TRY(copy_text(&checkpoint->type, page, query, err));
    TIDE_TRY(copy_text(&checkpoint->trigger, page, query, err));
    TIDE_TRY(copy_text(&checkpoint->message, page, query, err));
    TIDE_TRY(copy_text(&checkpoint->metadata, page, query, err));
    const int64_t created_at_us = tide_query_col_time(query);
    checkpoint->created_at_us = created_at_us == INT64_MIN ? 0 : created_at_us;
    checkpoint->is_sealed = !tide_query_col_is_null(query);
    TIDE_TRY(copy_bytes(&row->checksum, page, tide_query_col_blob(query), err));
    TIDE_TRY(copy_bytes(&row->chain, page, tide_query_col_blob(query), err));
    row->chunk_count = tide_query_col_i64(query);
    checkpoint->snapshot_len = tide_query_col_i64(query);
    TIDE_TRY(copy_text(&checkpoint->origin_session, page, query, err));
    checkpoint->origin_global = tide_query_col_i64(query);
    checkpoint->origin_number = tide_query_col_i64(query);
    return TIDE_OK;
}

static tide_status read_row(tide_journal_row *row, tide_journal_page *page, tide_query *query,
                            unsigned what, tide_error *err)
{
    *row = (tide_journal_row){0};
    TIDE_TRY(read_fields(row, page, query, err));
    const char *tags = NULL;
    TIDE_TRY(copy_text(&tags, page, query, err));
    if (tags)
        TIDE_TRY(split_tags(&row->checkpoint, page, (char *)tags, err));
    TIDE_TRY(copy_text(&row->annotations, page, query, err));
    if (what & TIDE_PAGE_SNAPSHOTS) {
        TIDE_TRY(copy_bytes(&row->checkpoint.snapshot, page, tide_query_col_text(query), err));
        row->checkpoint.has_snapshot = true;
    }
    return TIDE_OK;
}

/* ---- content ---- */

static tide_status note_damage(tide_journal_row *row, tide_journal_page *page, const char *words,
                               tide_error *err)
{
    row->damage = tide_arena_text(&page->arena, tide_view_of(words));
    return row->damage ? TIDE_OK : tide_no_memory(err);
}

static tide_status load_chunks(tide_journal_row *row, tide_journal_page *page, tide_tx *tx,
                               tide_error *err)
{
    const int64_t len = row->checkpoint.snapshot_len;
    if (len < 0 || len > TIDE_JOURNAL_SNAPSHOT_MAX)
        return note_damage(row, page, "the length of its snapshot is impossible", err);
    char *bytes = tide_arena_alloc(&page->arena, (size_t)len + 1);
    TIDE_NEED_MEMORY(bytes, err);
    tide_error cause;
    const tide_status status = tide_snapshot_load(
        bytes, len, row->chunk_count, tx, row->checkpoint.global_sequence, &page->coder, &cause);
    if (status == TIDE_E_DAMAGED)
        return note_damage(row, page, cause.text, err);
    if (status < TIDE_OK) {
        if (err)
            *err = cause;
        return status;
    }
    bytes[len] = '\0';
    row->checkpoint.snapshot = tide_view_bytes(bytes, (size_t)len);
    return TIDE_OK;
}

static tide_status verify_content(tide_journal_row *row, tide_journal_page *page, tide_error *err)
{
    tide_checksum seal;
    const tide_checksum_fields fields = tide_checksum_fields_of(&row->checkpoint);
    TIDE_TRY(tide_checksum_compute(&seal, &fields, err));
    if (!tide_checksum_equal(&seal, row->checksum))
        return note_damage(row, page, "its content does not match its checksum", err);
    /* The checksum is over the snapshot, not over the column that tells its length. */
    if (row->checkpoint.snapshot_len != (int64_t)row->checkpoint.snapshot.len)
        return note_damage(row, page, "the length of its snapshot is another", err);
    return TIDE_OK;
}

static tide_status complete_row(tide_journal_row *row, tide_journal_page *page, tide_tx *tx,
                                tide_error *err)
{
    if (!row->checkpoint.is_sealed) /* plain SQL: the row says all there is */
        return TIDE_OK;
    if (row->chunk_count != 0)
        TIDE_TRY(load_chunks(row, page, tx, err));
    return row->damage ? TIDE_OK : verify_content(row, page, err);
}

/* ---- a page ---- */

static tide_status list_numbers(tide_buffer *out, const int64_t *numbers, int count,
                                tide_error *err)
{
    tide_status status = tide_buffer_append_byte(out, '[');
    for (int i = 0; status >= TIDE_OK && i < count; i++)
        status = tide_buffer_printf(out, "%s%" PRId64, i ? "," : "", numbers[i]);
    if (status >= TIDE_OK)
        status = tide_buffer_append_byte(out, ']');
    return status < TIDE_OK ? tide_no_memory(err) : TIDE_OK;
}

tide_status tide_journal_page_read(tide_journal_page *page, tide_tx *tx, const int64_t *numbers,
                                   int count, unsigned what, tide_error *err)
{
    tide_arena_reset(&page->arena);
    page->count = 0;
    if (count == 0)
        return TIDE_OK;
    TIDE_BUFFER(list, TIDE_JOURNAL_PAGE_MAX * 24);
    TIDE_TRY(list_numbers(&list, numbers, count, err));
    TIDE_TRY(tide_tx_identity(tx, &page->identity, err));
    TIDE_QUERY(query, tx, TIDE_SQL_JOURNAL_ROWS, err,
               tide_bind_bool("with_annotations", (what & TIDE_PAGE_ANNOTATIONS) != 0),
               tide_bind_bool("with_snapshot", (what & TIDE_PAGE_SNAPSHOTS) != 0),
               tide_bind_view("numbers", tide_buffer_view(&list)));
    TIDE_EACH(tide_query_step(query, err))
        TIDE_TRY(read_row(&page->rows[page->count++], page, query, what, err));
    for (int i = 0; i < page->count; i++)
        page->rows[i].checkpoint.identity = &page->identity;
    for (int i = 0; (what & TIDE_PAGE_SNAPSHOTS) && i < page->count; i++)
        TIDE_TRY(complete_row(&page->rows[i], page, tx, err));
    return TIDE_OK;
}

tide_status tide_journal_row_check(const tide_journal_row *row, tide_error *err)
{
    if (!row->damage)
        return TIDE_OK;
    return tide_fail(err, TIDE_E_DAMAGED, "checkpoint %" PRId64 " (%s): %s",
                     row->checkpoint.global_sequence, row->checkpoint.checkpoint_id, row->damage);
}

/* ---- names ---- */

static bool parse_number(const char *text, int64_t *number)
{
    if (strspn(text, "0123456789") != strlen(text) || !*text)
        return false;
    errno = 0;
    *number = strtoll(text, NULL, 10);
    return errno == 0;
}

static tide_status find(tide_query *query, int64_t *global_sequence, tide_error *err)
{
    const tide_status status = tide_query_one(query, err);
    if (status == TIDE_OK)
        *global_sequence = tide_query_col_i64(query);
    return status;
}

static tide_status find_number(tide_tx *tx, const char *text, int64_t *global_sequence,
                               tide_error *err)
{
    int64_t number = 0;
    if (!parse_number(text, &number))
        return TIDE_NONE;
    TIDE_QUERY(query, tx, TIDE_SQL_JOURNAL_FIND_NUMBER, err,
               tide_bind_i64("global_sequence", number));
    return find(query, global_sequence, err);
}

/* Numbers win: an id of digits, which plain SQL or an import may have made, must not hide one. */
tide_status tide_journal_resolve(tide_tx *tx, const char *id_or_number, int64_t *global_sequence,
                                 tide_error *err)
{
    const tide_status status = find_number(tx, id_or_number, global_sequence, err);
    if (status != TIDE_NONE)
        return status;
    TIDE_QUERY(query, tx, TIDE_SQL_JOURNAL_FIND, err,
               tide_bind_text("checkpoint_id", id_or_number));
    return find(query, global_sequence, err);
}

tide_status tide_journal_need(tide_tx *tx, const char *id_or_number, int64_t *global_sequence,
                              tide_error *err)
{
    const tide_status status = tide_journal_resolve(tx, id_or_number, global_sequence, err);
    if (status == TIDE_NONE)
        return tide_fail(err, TIDE_E_NOT_FOUND, "there is no checkpoint %.*s", TIDE_JOURNAL_ID_MAX,
                         id_or_number);
    return status;
}

/* Looking things up: lists, one checkpoint, the head. */

tide_status tide_journal_list(tide_store *store, const tide_journal_filter *given,
                              tide_checkpoint_fn *fn, void *arg, tide_error *err)
{
    TIDE_NEED(store && fn, err);
    tide_journal_filter filter;
    TIDE_TRY(TIDE_SIZED_COPY(&filter, given, tide_journal_filter, err));
    if ((unsigned)filter.order > TIDE_JOURNAL_NEWEST_FIRST)
        return tide_fail(err, TIDE_E_INVALID, "there is no order %d", (int)filter.order);
    TIDE_CLEANUP(tide_checkpoint_iter_done) tide_checkpoint_iter walk = {0};
    TIDE_TRY(tide_checkpoint_iter_begin(
        &walk, store, &filter, filter.with_snapshot ? TIDE_PAGE_SNAPSHOTS : TIDE_PAGE_ROWS, err));
    TIDE_EACH(tide_checkpoint_iter_next(&walk, err)) {
        for (int i = 0; i < walk.page->count; i++) {
            const tide_journal_row *row = tide_checkpoint_iter_row(&walk, i);
            TIDE_TRY(tide_journal_row_check(row, err));
            TIDE_TRY(tide_callback_check(fn(arg, &row->checkpoint, err), err));
        }
    }
    return TIDE_OK;
}

typedef struct find_request {
    const char *id_or_number;
    bool with_snapshot;
    tide_journal_page *page;
} find_request;

static tide_status find_one(tide_tx *tx, void *arg, tide_error *err)
{
    const find_request *request = arg;
    int64_t number = 0;
    TIDE_TRY_FOUND(tide_journal_resolve(tx, request->id_or_number, &number, err));
    return tide_journal_page_read(request->page, tx, &number, 1,
                                  request->with_snapshot ? TIDE_PAGE_SNAPSHOTS : TIDE_PAGE_ROWS,
                                  err);
}

tide_status tide_journal_find(tide_store *store, const char *id_or_number, bool with_snapshot,
                              tide_checkpoint_fn *fn, void *arg, tide_error *err)
{
    TIDE_NEED(store && id_or_number && fn, err);
    TIDE_CLEANUP(tide_journal_page_freep) tide_journal_page *page = tide_journal_page_new();
    TIDE_NEED_MEMORY(page, err);
    find_request request = {
        .id_or_number = id_or_number, .with_snapshot = with_snapshot, .page = page};
    TIDE_TRY_FOUND(tide_store_read(store, find_one, &request, err));
    TIDE_TRY(tide_journal_row_check(&page->rows[0], err));
    return tide_callback_check(fn(arg, &page->rows[0].checkpoint, err), err);
}

typedef struct head_request {
    int64_t last;
    tide_identity identity;
} head_request;

static tide_status read_head(tide_tx *tx, void *arg, tide_error *err)
{
    head_request *head = arg;
    TIDE_QUERY_BY(query, tide_tx_one, tx, TIDE_SQL_JOURNAL_HEAD_GET, err, TIDE_NO_BIND);
    head->last = tide_query_col_i64(query);
    return tide_identity_read(tx, &head->identity, err);
}

tide_status tide_journal_head(tide_store *store, int64_t *global_sequence, tide_identity *identity,
                              tide_error *err)
{
    TIDE_NEED(store && global_sequence, err);
    head_request head = {0};
    TIDE_TRY(tide_store_read(store, read_head, &head, err));
    *global_sequence = head.last;
    if (identity)
        *identity = head.identity;
    return TIDE_OK;
}
