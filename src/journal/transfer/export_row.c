#include "journal/transfer/export_row.h"

#include <inttypes.h>
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/text/utf8.h"

static tide_status clean(tide_view *text, tide_arena *arena, tide_error *err)
{
    if (!text->ptr || tide_utf8_valid(*text))
        return TIDE_OK;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer cleaned = {0};
    tide_buffer_init(&cleaned, text->len * 3 + 1);
    size_t replaced = 0;
    tide_status status = tide_utf8_clean(&cleaned, *text, &replaced);
    if (status >= TIDE_OK) {
        text->ptr = tide_arena_text(arena, tide_buffer_view(&cleaned));
        text->len = cleaned.len;
        status = text->ptr ? TIDE_OK : TIDE_E_NOMEM;
    }
    return tide_buffer_check(status, err);
}

static tide_status clean_text(const char **text, tide_arena *arena, tide_error *err)
{
    tide_view view = tide_view_of(*text);
    TIDE_TRY(clean(&view, arena, err));
    *text = view.ptr;
    return TIDE_OK;
}

static tide_status clean_tags(tide_checksum_fields *fields, tide_arena *arena, tide_error *err)
{
    if (fields->tag_count == 0)
        return TIDE_OK;
    const char **tags =
        tide_arena_copy(arena, fields->tags, (size_t)fields->tag_count * sizeof *tags);
    TIDE_NEED_MEMORY(tags, err);
    for (int i = 0; i < fields->tag_count; i++)
        TIDE_TRY(clean_text(&tags[i], arena, err));
    fields->tags = tags;
    fields->tag_count = tide_checksum_sort_tags(tags, fields->tag_count);
    return TIDE_OK;
}

tide_status tide_export_row_make(tide_export_row *out, const tide_journal_row *row,
                                 tide_arena *arena, tide_error *err)
{
    out->fields = tide_checksum_fields_of(&row->checkpoint);
    if (row->checkpoint.is_sealed) {
        memcpy(out->checksum.bytes, row->checksum.ptr, sizeof out->checksum.bytes);
        return TIDE_OK;
    }
    tide_checksum_fields *fields = &out->fields;
    const char **const texts[] = {&fields->checkpoint_id, &fields->task_id, &fields->work_item_id,
                                  &fields->type,          &fields->trigger, &fields->message,
                                  &fields->metadata};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        TIDE_TRY(clean_text(texts[i], arena, err));
    TIDE_TRY(clean_tags(fields, arena, err));
    TIDE_TRY(clean(&fields->snapshot, arena, err));
    if (fields->snapshot.len > TIDE_JOURNAL_SNAPSHOT_MAX)
        return tide_fail(
            err, TIDE_E_LIMIT, "checkpoint %" PRId64 ": a snapshot of %zu bytes; at most %d",
            row->checkpoint.global_sequence, fields->snapshot.len, TIDE_JOURNAL_SNAPSHOT_MAX);
    return tide_checksum_compute(&out->checksum, fields, err);
}
