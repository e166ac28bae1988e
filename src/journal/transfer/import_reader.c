#include "journal/transfer/import_reader.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "journal/transfer/import_fields.h"
#include "journal/transfer/json_fields.h"

static const char beginning[] = "{\"format\":\"" TIDE_EXPORT_FORMAT "\"";

tide_status tide_import_reader_init(tide_import_reader *reader, tide_journal_read_fn *read,
                                    void *arg, tide_error *err)
{
    memset(reader, 0, sizeof *reader);
    reader->read = read;
    reader->arg = arg;
    tide_buffer_init(&reader->line, TIDE_EXPORT_LINE_MAX);
    tide_buffer_init(&reader->scratch, TIDE_EXPORT_LINE_MAX);
    return tide_sha256_init(&reader->sha, err);
}

void tide_import_reader_done(tide_import_reader *reader)
{
    tide_buffer_done(&reader->line);
    tide_buffer_done(&reader->scratch);
    tide_sha256_done(&reader->sha);
}

tide_status tide_import_damaged(const tide_import_reader *reader, tide_error *err,
                                const char *format, ...)
{
    char words[256];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(words, sizeof words, format, args);
    va_end(args);
    return tide_fail(err, TIDE_E_DAMAGED, "the export is damaged: line %" PRId64 ": %s",
                     reader->line_number, words);
}

/* What a part of the line is wrong about makes the line wrong. Memory and limits stay what they are. */
static tide_status blame_line(const tide_import_reader *reader, tide_status status,
                              const tide_error *cause, tide_error *err)
{
    if (status == TIDE_E_INVALID || status == TIDE_E_DAMAGED)
        return tide_import_damaged(reader, err, "%s", cause->text);
    if (err)
        *err = *cause;
    return status;
}

/* ---- lines ---- */

static tide_status fill(tide_import_reader *reader, tide_error *err)
{
    if (reader->input_at < reader->input_len || reader->is_drained)
        return TIDE_OK;
    size_t got = 0;
    TIDE_TRY(tide_callback_check(
        reader->read(reader->arg, reader->input, sizeof reader->input, &got, err), err));
    reader->input_at = 0;
    reader->input_len = got;
    reader->is_drained = got == 0;
    return TIDE_OK;
}

tide_status tide_import_peek(tide_import_reader *reader, int *byte, tide_error *err)
{
    if (reader->pushed_at < reader->pushed_len) {
        *byte = (unsigned char)beginning[reader->pushed_at];
        return TIDE_OK;
    }
    TIDE_TRY(fill(reader, err));
    *byte = reader->is_drained ? -1 : (unsigned char)reader->input[reader->input_at];
    return TIDE_OK;
}

void tide_import_take(tide_import_reader *reader)
{
    if (reader->pushed_at < reader->pushed_len)
        reader->pushed_at++;
    else
        reader->input_at++;
}

/* The next line, without its end, behind what the line holds already. TIDE_NONE: the source has no more. */
static tide_status go_on_with_line(tide_import_reader *reader, tide_error *err)
{
    reader->line_number++;
    for (;;) {
        TIDE_TRY(fill(reader, err));
        if (reader->is_drained)
            return reader->line.len == 0
                       ? TIDE_NONE
                       : tide_import_damaged(reader, err, "it ends in the middle");
        const char *from = reader->input + reader->input_at;
        const size_t left = reader->input_len - reader->input_at;
        const char *end = memchr(from, '\n', left);
        const size_t len = end ? (size_t)(end - from) : left;
        const tide_status status = tide_buffer_append(&reader->line, from, len);
        if (status == TIDE_E_LIMIT)
            return tide_import_damaged(reader, err, "longer than %d bytes", TIDE_EXPORT_LINE_MAX);
        TIDE_TRY(tide_buffer_check(status, err));
        reader->input_at += len + (end != NULL);
        if (end)
            return TIDE_OK;
    }
}

static tide_status read_line(tide_import_reader *reader, tide_error *err)
{
    tide_buffer_clear(&reader->line);
    return go_on_with_line(reader, err);
}

static tide_status add_to_digest(tide_import_reader *reader, tide_error *err)
{
    TIDE_TRY(tide_sha256_add(&reader->sha, tide_buffer_view(&reader->line), err));
    return tide_sha256_add(&reader->sha, tide_view_bytes("\n", 1), err);
}

/* ---- records ---- */

static tide_status read_session(tide_import_reader *reader, const tide_json_field *field,
                                tide_arena *arena, tide_error *err)
{
    tide_view text;
    TIDE_TRY(tide_json_field_text(field, arena, &text, err));
    if (text.len < 1 || text.len >= sizeof reader->session)
        return tide_fail(err, TIDE_E_INVALID, "a session id of %zu bytes", text.len);
    memcpy(reader->session, text.ptr, text.len + 1);
    reader->header.session = reader->session;
    return TIDE_OK;
}

static tide_status read_header(tide_import_reader *reader, tide_arena *arena, tide_error *err)
{
    tide_import_header *header = &reader->header;
    int64_t version = 0;
    tide_json_fields fields;
    tide_json_field field;
    TIDE_TRY(tide_json_fields_begin(&fields, tide_buffer_view(&reader->line), err));
    TIDE_EACH(tide_json_fields_next(&fields, &field, err)) {
        if (tide_json_field_is(&field, "version"))
            TIDE_TRY(tide_json_field_i64(&field, &version, err));
        else if (tide_json_field_is(&field, "session"))
            TIDE_TRY(read_session(reader, &field, arena, err));
        else if (tide_json_field_is(&field, "head"))
            TIDE_TRY(tide_import_number(&field, 0, &header->head, err));
        else if (tide_json_field_is(&field, "checkpoints"))
            TIDE_TRY(tide_import_number(&field, 0, &header->checkpoints, err));
    }
    if (version > TIDE_EXPORT_VERSION)
        return tide_fail(err, TIDE_E_NEWER,
                         "an export of version %" PRId64 "; this program reads version %d", version,
                         TIDE_EXPORT_VERSION);
    if (version < 1 || header->head < 0 || header->checkpoints < 0 || !header->session)
        return tide_fail(err, TIDE_E_INVALID, "version, session or head is missing");
    return TIDE_OK;
}

static tide_status read_end(tide_import_reader *reader, tide_view object, tide_error *err)
{
    int64_t tasks = -1;
    int64_t checkpoints = -1;
    tide_checksum want = {{0}};
    tide_checksum have = {{0}};
    tide_json_fields fields;
    tide_json_field field;
    TIDE_TRY(tide_json_fields_begin(&fields, object, err));
    TIDE_EACH(tide_json_fields_next(&fields, &field, err)) {
        if (tide_json_field_is(&field, "tasks"))
            TIDE_TRY(tide_json_field_i64(&field, &tasks, err));
        else if (tide_json_field_is(&field, "checkpoints"))
            TIDE_TRY(tide_json_field_i64(&field, &checkpoints, err));
        else if (tide_json_field_is(&field, "sha256"))
            TIDE_TRY(tide_import_digest(&field, &want, err));
    }
    TIDE_TRY(tide_sha256_finish(&reader->sha, have.bytes, err));
    if (!tide_checksum_equal(&have, tide_view_bytes(want.bytes, sizeof want.bytes)))
        return tide_fail(err, TIDE_E_DAMAGED, "the digest at its end is another");
    if (tasks != reader->tasks || checkpoints != reader->checkpoints)
        return tide_fail(err, TIDE_E_DAMAGED, "the counts at its end are others");
    reader->is_ended = true;
    return TIDE_OK;
}

/* {"kind":{...}}: the only member of a line. */
static tide_status open_line(const tide_import_reader *reader, tide_json_field *field,
                             tide_error *err)
{
    tide_json_fields fields;
    tide_json_field more;
    TIDE_TRY(tide_json_fields_begin(&fields, tide_buffer_view(&reader->line), err));
    if (tide_json_fields_next(&fields, field, err) != TIDE_OK || !fields.is_object)
        return tide_fail(err, TIDE_E_INVALID, "no object with a member");
    const tide_status status = tide_json_fields_next(&fields, &more, err);
    TIDE_TRY(status);
    return status == TIDE_NONE ? TIDE_OK : tide_fail(err, TIDE_E_INVALID, "more than one member");
}

static tide_status read_part(tide_import_reader *reader, char *out, int64_t room, int64_t *len,
                             tide_error *err)
{
    const tide_status status = read_line(reader, err);
    if (status != TIDE_OK)
        return status < TIDE_OK ? status : tide_fail(err, TIDE_E_DAMAGED, "a part is missing");
    TIDE_TRY(add_to_digest(reader, err));
    tide_json_field field;
    TIDE_TRY(open_line(reader, &field, err));
    if (!tide_json_field_is(&field, "part"))
        return tide_fail(err, TIDE_E_INVALID, "a part of a snapshot is expected");
    tide_buffer_clear(&reader->scratch);
    if (tide_buffer_reserve(&reader->scratch, field.value.len) < TIDE_OK)
        return tide_no_memory(err);
    tide_view text;
    TIDE_TRY(tide_json_field_decode(&field, reader->scratch.ptr, &text, err));
    if ((int64_t)text.len > room)
        return tide_fail(err, TIDE_E_INVALID, "the parts are longer than the snapshot");
    memcpy(out, text.ptr, text.len);
    *len = (int64_t)text.len;
    return TIDE_OK;
}

static tide_status read_parts(tide_import_reader *reader, const tide_import_extent *extent,
                              tide_import_checkpoint *checkpoint, tide_arena *arena,
                              tide_error *err)
{
    if (extent->len < 0 || extent->len > TIDE_JOURNAL_SNAPSHOT_MAX)
        return tide_fail(err, TIDE_E_INVALID, "a snapshot of %" PRId64 " bytes", extent->len);
    if (extent->parts == 0)
        return checkpoint->fields.snapshot.len == (size_t)extent->len
                   ? TIDE_OK
                   : tide_fail(err, TIDE_E_INVALID, "the snapshot has another length");
    char *text = tide_arena_alloc(arena, (size_t)extent->len + 1);
    TIDE_NEED_MEMORY(text, err);
    int64_t filled = 0;
    for (int64_t i = 0; i < extent->parts; i++) {
        int64_t len = 0;
        TIDE_TRY(read_part(reader, text + filled, extent->len - filled, &len, err));
        filled += len;
    }
    if (filled != extent->len)
        return tide_fail(err, TIDE_E_INVALID, "the parts are shorter than the snapshot");
    text[filled] = '\0';
    checkpoint->fields.snapshot = tide_view_bytes(text, (size_t)filled);
    return TIDE_OK;
}

static tide_status read_checkpoint(tide_import_reader *reader, tide_view object,
                                   tide_import_record *record, tide_arena *arena, tide_error *err)
{
    tide_import_checkpoint *checkpoint = &record->as.checkpoint;
    tide_import_extent extent = {.len = -1};
    TIDE_TRY(tide_import_read_checkpoint(checkpoint, &extent, object, arena, err));
    if (checkpoint->global_sequence <= reader->last_global ||
        checkpoint->global_sequence > reader->header.head)
        return tide_fail(err, TIDE_E_INVALID, "global sequence %" PRId64 " is out of order",
                         checkpoint->global_sequence);
    if (!checkpoint->origin_session) {
        checkpoint->origin_session = tide_arena_text(arena, tide_view_of(reader->header.session));
        checkpoint->origin_global = checkpoint->global_sequence;
        checkpoint->origin_number = checkpoint->sequence_number;
        TIDE_NEED_MEMORY(checkpoint->origin_session, err);
    }
    TIDE_TRY(read_parts(reader, &extent, checkpoint, arena, err));
    tide_checksum have;
    TIDE_TRY(tide_checksum_compute(&have, &checkpoint->fields, err));
    if (!tide_checksum_equal(&have, tide_view_bytes(checkpoint->checksum.bytes, sizeof have.bytes)))
        return tide_fail(err, TIDE_E_DAMAGED, "checkpoint %s does not match its checksum",
                         checkpoint->fields.checkpoint_id);
    reader->last_global = checkpoint->global_sequence;
    reader->checkpoints++;
    return TIDE_OK;
}

static tide_status read_record(tide_import_reader *reader, tide_import_record *record,
                               tide_arena *arena, tide_error *err)
{
    tide_json_field field;
    TIDE_TRY(open_line(reader, &field, err));
    if (tide_json_field_is(&field, "type"))
        record->kind = TIDE_IMPORT_TYPE;
    else if (tide_json_field_is(&field, "task"))
        record->kind = TIDE_IMPORT_TASK;
    else if (tide_json_field_is(&field, "checkpoint"))
        record->kind = TIDE_IMPORT_CHECKPOINT;
    else if (tide_json_field_is(&field, "end"))
        record->kind = TIDE_IMPORT_END;
    else
        return tide_fail(err, TIDE_E_INVALID, "unknown record %.40s", field.key.ptr);
    if (record->kind < reader->last)
        return tide_fail(err, TIDE_E_INVALID, "types, tasks and checkpoints come in this order");
    reader->last = record->kind;
    if (record->kind == TIDE_IMPORT_END) {
        record->as.end.head = reader->header.head;
        return read_end(reader, field.value, err);
    }
    TIDE_TRY(add_to_digest(reader, err));
    if (record->kind == TIDE_IMPORT_TYPE)
        return tide_import_read_type(&record->as.type, field.value, arena, err);
    if (record->kind == TIDE_IMPORT_CHECKPOINT)
        return read_checkpoint(reader, field.value, record, arena, err);
    reader->tasks++;
    return tide_import_read_task(&record->as.task, field.value, arena, err);
}

/* ---- the file ---- */

/* Which of the two formats it is shows in its first bytes, which may come one by one. */
static tide_status read_beginning(tide_import_reader *reader, tide_error *err)
{
    int byte = 0;
    TIDE_TRY(tide_import_peek(reader, &byte, err));
    while (reader->line.len < sizeof beginning - 1 && byte == beginning[reader->line.len]) {
        if (tide_buffer_append_byte(&reader->line, (uint8_t)byte) < TIDE_OK)
            return tide_no_memory(err);
        tide_import_take(reader);
        TIDE_TRY(tide_import_peek(reader, &byte, err));
    }
    reader->header.is_legacy = reader->line.len < sizeof beginning - 1;
    if (reader->header.is_legacy)
        reader->pushed_len = reader->line.len;
    return TIDE_OK;
}

static tide_status begin(tide_import_reader *reader, tide_import_record *record, tide_arena *arena,
                         tide_error *err)
{
    TIDE_TRY(read_beginning(reader, err));
    reader->is_begun = true;
    if (!reader->header.is_legacy) {
        TIDE_TRY(go_on_with_line(reader, err));
        TIDE_TRY(add_to_digest(reader, err));
        tide_error cause;
        const tide_status status = read_header(reader, arena, &cause);
        if (status < TIDE_OK)
            return blame_line(reader, status, &cause, err);
    }
    record->kind = TIDE_IMPORT_HEADER;
    record->as.header = reader->header;
    return TIDE_OK;
}

tide_status tide_import_next(tide_import_reader *reader, tide_import_record *record,
                             tide_arena *arena, tide_error *err)
{
    *record = (tide_import_record){0};
    if (!reader->is_begun)
        return begin(reader, record, arena, err);
    if (reader->header.is_legacy)
        return tide_import_next_legacy(reader, record, arena, err);
    const tide_status line = read_line(reader, err);
    TIDE_TRY(line);
    if (reader->is_ended)
        return line == TIDE_NONE ? TIDE_NONE
                                 : tide_import_damaged(reader, err, "something follows the end");
    if (line == TIDE_NONE)
        return tide_import_damaged(reader, err, "its end is missing: it was cut off");
    tide_error cause;
    const tide_status status = read_record(reader, record, arena, &cause);
    return status < TIDE_OK ? blame_line(reader, status, &cause, err) : TIDE_OK;
}
