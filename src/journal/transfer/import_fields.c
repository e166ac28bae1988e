#include "journal/transfer/import_fields.h"

#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/timefmt.h"
#include "journal/annotate.h"
#include "journal/check.h"

/* ---- values ---- */

tide_status tide_import_text(const tide_json_field *field, tide_arena *arena, const char **out,
                             tide_error *err)
{
    *out = NULL;
    if (tide_json_field_is_null(field))
        return TIDE_OK;
    tide_view text;
    TIDE_TRY(tide_json_field_text(field, arena, &text, err));
    *out = text.ptr;
    return TIDE_OK;
}

tide_status tide_import_number(const tide_json_field *field, int64_t lowest, int64_t *out,
                               tide_error *err)
{
    int64_t number = 0;
    TIDE_TRY(tide_json_field_i64(field, &number, err));
    if (number < lowest || number > TIDE_JOURNAL_NUMBER_MAX)
        return tide_fail(err, TIDE_E_INVALID,
                         "%.*s: %" PRId64 "; numbers are accepted from %" PRId64 " to %" PRId64,
                         (int)field->key.len, field->key.ptr, number, lowest,
                         TIDE_JOURNAL_NUMBER_MAX);
    *out = number;
    return TIDE_OK;
}

tide_status tide_import_digest(const tide_json_field *field, tide_checksum *out, tide_error *err)
{
    if (field->kind != TIDE_JSON_STRING || field->value.len < 2 ||
        tide_hex_decode(out->bytes, sizeof out->bytes,
                        tide_view_bytes(field->value.ptr + 1, field->value.len - 2)) != TIDE_OK)
        return tide_fail(err, TIDE_E_INVALID, "a SHA-256 is 64 hexadecimal digits");
    return TIDE_OK;
}

tide_status tide_import_time(const tide_json_field *field, int64_t *out, tide_error *err)
{
    *out = 0;
    if (tide_json_field_is_null(field))
        return TIDE_OK;
    if (field->kind != TIDE_JSON_STRING || field->value.len < 2 ||
        tide_time_parse(out, tide_view_bytes(field->value.ptr + 1, field->value.len - 2)) !=
            TIDE_OK)
        return tide_fail(err, TIDE_E_INVALID, "%.*s is not a time", (int)field->key.len,
                         field->key.ptr);
    return TIDE_OK;
}

/* More lenient than for new ones: plain SQL may have put control characters there. */
tide_status tide_import_check_id(const char *what, const char *id, tide_error *err)
{
    const size_t len = id ? strlen(id) : 0;
    if (len < 1 || len > TIDE_JOURNAL_ID_MAX)
        return tide_fail(err, TIDE_E_INVALID, "a %s has 1 to %d bytes, this one has %zu", what,
                         TIDE_JOURNAL_ID_MAX, len);
    return TIDE_OK;
}

tide_status tide_import_tags(const tide_json_field *field, tide_checksum_fields *out,
                             tide_arena *arena, tide_error *err)
{
    if (tide_json_field_is_null(field))
        return TIDE_OK;
    tide_json_fields items;
    tide_json_field item;
    TIDE_TRY(tide_json_fields_begin(&items, field->value, err));
    if (items.is_object)
        return tide_fail(err, TIDE_E_INVALID, "tags are an array");
    const char *tags[TIDE_IMPORT_TAGS_MAX];
    int count = 0;
    TIDE_EACH(tide_json_fields_next(&items, &item, err)) {
        if (count == TIDE_IMPORT_TAGS_MAX)
            return tide_fail(err, TIDE_E_INVALID, "more than %d tags", TIDE_IMPORT_TAGS_MAX);
        tide_view tag;
        TIDE_TRY(tide_json_field_text(&item, arena, &tag, err));
        if (tag.len < 1 || tag.len > TIDE_JOURNAL_TAG_MAX || memchr(tag.ptr, '\n', tag.len))
            return tide_fail(err, TIDE_E_INVALID, "a tag has 1 to %d bytes on one line",
                             TIDE_JOURNAL_TAG_MAX);
        tags[count++] = tag.ptr;
    }
    out->tag_count = tide_checksum_sort_tags(tags, count);
    out->tags = tide_arena_copy(arena, tags, (size_t)out->tag_count * sizeof tags[0]);
    return out->tags ? TIDE_OK : tide_no_memory(err);
}

/* ---- annotations: checked here, stored as they are ---- */

static tide_status check_annotation(const tide_json_field *item, tide_arena *arena, tide_error *err)
{
    const char *severity = NULL;
    const char *note = NULL;
    int64_t created_at_us = 0;
    int64_t time_len = 0;
    tide_json_fields fields;
    tide_json_field field;
    TIDE_TRY(tide_json_fields_begin(&fields, item->value, err));
    TIDE_EACH(tide_json_fields_next(&fields, &field, err)) {
        if (tide_json_field_is(&field, "severity"))
            TIDE_TRY(tide_import_text(&field, arena, &severity, err));
        else if (tide_json_field_is(&field, "note"))
            TIDE_TRY(tide_import_text(&field, arena, &note, err));
        else if (tide_json_field_is(&field, "created_at")) {
            TIDE_TRY(tide_import_time(&field, &created_at_us, err));
            time_len = (int64_t)field.value.len - 2;
        } else {
            return tide_fail(err, TIDE_E_INVALID, "an annotation has an unknown member");
        }
    }
    if (!severity || !note || time_len != TIDE_TIME_TEXT_SIZE - 1)
        return tide_fail(err, TIDE_E_INVALID,
                         "an annotation has severity, note and created_at to the microsecond");
    return tide_annotation_check(severity, note, err);
}

static tide_status read_annotations(const tide_json_field *field, const char **out,
                                    tide_arena *arena, tide_error *err)
{
    tide_json_fields items;
    tide_json_field item;
    TIDE_TRY(tide_json_fields_begin(&items, field->value, err));
    if (items.is_object)
        return tide_fail(err, TIDE_E_INVALID, "annotations are an array");
    bool is_empty = true;
    TIDE_EACH(tide_json_fields_next(&items, &item, err)) {
        TIDE_TRY(check_annotation(&item, arena, err));
        is_empty = false;
    }
    *out = is_empty ? NULL : tide_arena_text(arena, field->value);
    return is_empty || *out ? TIDE_OK : tide_no_memory(err);
}

/* ---- records ---- */

tide_status tide_import_read_type(tide_import_type *out, tide_view object, tide_arena *arena,
                                  tide_error *err)
{
    tide_json_fields fields;
    tide_json_field field;
    TIDE_TRY(tide_json_fields_begin(&fields, object, err));
    TIDE_EACH(tide_json_fields_next(&fields, &field, err)) {
        if (tide_json_field_is(&field, "checkpoint_type"))
            TIDE_TRY(tide_import_text(&field, arena, &out->type, err));
        else if (tide_json_field_is(&field, "is_resumable"))
            TIDE_TRY(tide_json_field_bool(&field, &out->is_resumable, err));
        else if (tide_json_field_is(&field, "description"))
            TIDE_TRY(tide_import_text(&field, arena, &out->description, err));
    }
    if (!out->description)
        out->description = "";
    if (!out->type || !*out->type || strlen(out->type) > TIDE_JOURNAL_TYPE_MAX)
        return tide_fail(err, TIDE_E_INVALID, "a type without a name");
    return tide_journal_check_text("a description", out->description, TIDE_JOURNAL_METADATA_MAX,
                                   err);
}

static tide_status check_task(const tide_import_task *task, tide_error *err)
{
    static const char *const statuses[] = {"pending", "running", "succeeded", "failed",
                                           "cancelled"};
    TIDE_TRY(tide_import_check_id("task id", task->task_id, err));
    if (!task->title || !task->status || task->last_sequence < 0)
        return tide_fail(err, TIDE_E_INVALID, "task %s: title, status or last_sequence is missing",
                         task->task_id);
    bool is_known = false;
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++)
        is_known = is_known || strcmp(task->status, statuses[i]) == 0;
    if (!is_known)
        return tide_fail(err, TIDE_E_INVALID, "task %s: unknown status", task->task_id);
    if (!task->forked_from)
        return TIDE_OK;
    TIDE_TRY(tide_import_check_id("task id", task->forked_from, err));
    return tide_import_check_id("fork point", task->fork_point, err);
}

tide_status tide_import_read_task(tide_import_task *out, tide_view object, tide_arena *arena,
                                  tide_error *err)
{
    out->last_sequence = -1;
    tide_json_fields fields;
    tide_json_field field;
    TIDE_TRY(tide_json_fields_begin(&fields, object, err));
    const struct {
        const char *name;
        const char **text;
    } texts[] = {{"task_id", &out->task_id},         {"title", &out->title},
                 {"status", &out->status},           {"metadata", &out->metadata},
                 {"forked_from", &out->forked_from}, {"fork_point", &out->fork_point}};
    tide_status status = TIDE_OK;
    while ((status = tide_json_fields_next(&fields, &field, err)) == TIDE_OK) {
        for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
            if (tide_json_field_is(&field, texts[i].name))
                TIDE_TRY(tide_import_text(&field, arena, texts[i].text, err));
        if (tide_json_field_is(&field, "created_at"))
            TIDE_TRY(tide_import_time(&field, &out->created_at_us, err));
        else if (tide_json_field_is(&field, "completed_at"))
            TIDE_TRY(tide_import_time(&field, &out->completed_at_us, err));
        else if (tide_json_field_is(&field, "last_sequence"))
            TIDE_TRY(tide_import_number(&field, 0, &out->last_sequence, err));
    }
    TIDE_TRY(status);
    return check_task(out, err);
}

static tide_status read_origin(const tide_json_field *value, tide_import_checkpoint *out,
                               tide_arena *arena, tide_error *err)
{
    if (tide_json_field_is_null(value))
        return TIDE_OK;
    tide_json_fields fields;
    tide_json_field field;
    TIDE_TRY(tide_json_fields_begin(&fields, value->value, err));
    TIDE_EACH(tide_json_fields_next(&fields, &field, err)) {
        if (tide_json_field_is(&field, "session"))
            TIDE_TRY(tide_import_text(&field, arena, &out->origin_session, err));
        else if (tide_json_field_is(&field, "global_sequence"))
            TIDE_TRY(tide_import_number(&field, 0, &out->origin_global, err));
        else if (tide_json_field_is(&field, "sequence_number"))
            TIDE_TRY(tide_import_number(&field, 0, &out->origin_number, err));
    }
    return TIDE_OK;
}

static tide_status read_member(const tide_json_field *field, tide_import_checkpoint *out,
                               tide_import_extent *extent, tide_arena *arena, tide_error *err)
{
    tide_checksum_fields *fields = &out->fields;
    const struct {
        const char *name;
        const char **text;
    } texts[] = {{"checkpoint_id", &fields->checkpoint_id},
                 {"task_id", &fields->task_id},
                 {"work_item_id", &fields->work_item_id},
                 {"checkpoint_type", &fields->type},
                 {"trigger", &fields->trigger},
                 {"message", &fields->message},
                 {"metadata", &fields->metadata}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (tide_json_field_is(field, texts[i].name))
            return tide_import_text(field, arena, texts[i].text, err);
    if (tide_json_field_is(field, "global_sequence"))
        return tide_import_number(field, 1, &out->global_sequence, err);
    if (tide_json_field_is(field, "sequence_number"))
        return tide_import_number(field, 1, &out->sequence_number, err);
    if (tide_json_field_is(field, "created_at"))
        return tide_import_time(field, &out->created_at_us, err);
    if (tide_json_field_is(field, "tags"))
        return tide_import_tags(field, fields, arena, err);
    if (tide_json_field_is(field, "origin"))
        return read_origin(field, out, arena, err);
    if (tide_json_field_is(field, "annotations"))
        return read_annotations(field, &out->annotations, arena, err);
    if (tide_json_field_is(field, "checksum"))
        return tide_import_digest(field, &out->checksum, err);
    if (tide_json_field_is(field, "snapshot_len"))
        return tide_json_field_i64(field, &extent->len, err);
    if (tide_json_field_is(field, "parts"))
        return tide_json_field_i64(field, &extent->parts, err);
    if (tide_json_field_is(field, "snapshot"))
        return tide_json_field_text(field, arena, &fields->snapshot, err);
    return TIDE_OK;
}

static tide_status check_checkpoint(const tide_import_checkpoint *checkpoint,
                                    const tide_import_extent *extent, tide_error *err)
{
    const tide_checksum_fields *fields = &checkpoint->fields;
    TIDE_TRY(tide_import_check_id("checkpoint id", fields->checkpoint_id, err));
    TIDE_TRY(tide_import_check_id("task id", fields->task_id, err));
    if (!fields->type || !fields->trigger || checkpoint->sequence_number < 1 || extent->parts < 0)
        return tide_fail(err, TIDE_E_INVALID, "checkpoint %s: type, trigger or number is missing",
                         fields->checkpoint_id);
    if (!fields->snapshot.ptr && extent->parts == 0)
        return tide_fail(err, TIDE_E_INVALID, "checkpoint %s: no snapshot", fields->checkpoint_id);
    return tide_journal_check_trigger(fields->trigger, err);
}

tide_status tide_import_read_checkpoint(tide_import_checkpoint *out, tide_import_extent *extent,
                                        tide_view object, tide_arena *arena, tide_error *err)
{
    tide_json_fields fields;
    tide_json_field field;
    TIDE_TRY(tide_json_fields_begin(&fields, object, err));
    TIDE_EACH(tide_json_fields_next(&fields, &field, err))
        TIDE_TRY(read_member(&field, out, extent, arena, err));
    return check_checkpoint(out, extent, err);
}
