#include "journal/transfer/export_line.h"

#include <inttypes.h>
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "base/text/timefmt.h"
#include "base/text/utf8.h"
#include "journal/transfer/import_reader.h"

tide_status tide_export_fail_line(tide_status status, tide_error *err)
{
    return tide_fail(err, status, "a line of the export does not fit into %d bytes",
                     TIDE_EXPORT_LINE_MAX);
}

tide_status tide_export_send(tide_exporter *e, tide_json *json, bool is_last, tide_error *err)
{
    tide_status status = tide_json_finish(json);
    if (status >= TIDE_OK)
        status = tide_buffer_append_byte(&e->line, '\n');
    if (status < TIDE_OK)
        return tide_export_fail_line(status, err);
    if (!is_last)
        TIDE_TRY(tide_sha256_add(&e->sha, tide_buffer_view(&e->line), err));
    TIDE_TRY(tide_callback_check(e->write(e->arg, tide_buffer_view(&e->line), err), err));
    tide_buffer_clear(&e->line);
    return TIDE_OK;
}

void tide_export_put_text(tide_json *json, const char *key, const char *text)
{
    tide_json_key(json, key);
    tide_json_text(json, text);
}

void tide_export_put_number(tide_json *json, const char *key, int64_t number)
{
    tide_json_key(json, key);
    tide_json_i64(json, number);
}

void tide_export_put_time(tide_json *json, const char *key, int64_t us)
{
    char text[TIDE_TIME_TEXT_SIZE];
    const bool is_time = us != 0 && us != INT64_MIN && tide_time_format(us, text) == TIDE_OK;
    tide_export_put_text(json, key, is_time ? text : NULL);
}

void tide_export_open_record(tide_json *json, tide_buffer *line, const char *kind)
{
    tide_json_init(json, line);
    tide_json_object_begin(json);
    tide_json_key(json, kind);
    tide_json_object_begin(json);
}

tide_status tide_export_close_record(tide_exporter *e, tide_json *json, bool is_last,
                                     tide_error *err)
{
    tide_json_object_end(json);
    tide_json_object_end(json);
    return tide_export_send(e, json, is_last, err);
}

static tide_status clean(tide_view *text, tide_arena *arena, tide_error *err)
{
    if (!text->ptr || tide_utf8_valid(*text))
        return TIDE_OK;
    TIDE_BUFFER(cleaned, text->len * 3 + 1);
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
