/* import_legacy.c - an export as the journal document has it: one JSON object with an array "checkpoints".
 *
 *     {"checkpoints":[{"id":..,"session_id":..,"sequence_number":..,"message":..,"tags":[..],
 *                      "trigger":..,"timestamp":..,"state":{..}}, ...],
 *      "global_sequence":n,"exported_at":..}
 *
 * It is read element by element. Names are taken as they are found: id or checkpoint_id; session_id, session or task_id;
 * sequence_number or sequence; created_at or timestamp; type or checkpoint_type; state, snapshot, snapshot_data or data. An
 * element without a state is its own snapshot, so nothing is lost; one without an id gets one made from its content, so
 * that a second import finds it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "journal/check.h"
#include "journal/transfer/import_fields.h"

enum { AT_START, AT_MEMBERS, AT_ELEMENTS, AT_END };

/* ---- text ---- */

static tide_status fail_grammar(tide_error *err)
{
    return tide_fail(err, TIDE_E_DAMAGED,
                     "the document is damaged: it is no JSON, or it was cut off");
}

static tide_status skip_space(tide_import_reader *reader, int *byte, tide_error *err)
{
    for (;;) {
        TIDE_TRY(tide_import_peek(reader, byte, err));
        if (*byte != ' ' && *byte != '\t' && *byte != '\n' && *byte != '\r')
            return TIDE_OK;
        tide_import_take(reader);
    }
}

static tide_status expect(tide_import_reader *reader, int want, tide_error *err)
{
    int byte = 0;
    TIDE_TRY(skip_space(reader, &byte, err));
    if (byte != want)
        return fail_grammar(err);
    tide_import_take(reader);
    return TIDE_OK;
}

typedef struct bracket_state {
    int depth;
    bool is_string;
    bool is_escape;
} bracket_state;

/* Does the value end with this byte? What is inside is looked at later, by the scanner. */
static bool is_last_byte(bracket_state *s, int byte)
{
    if (s->is_escape) {
        s->is_escape = false;
        return false;
    }
    if (s->is_string) {
        s->is_escape = byte == '\\';
        s->is_string = byte != '"';
        return !s->is_string && s->depth == 0;
    }
    if (byte == '"')
        s->is_string = true;
    else if (byte == '{' || byte == '[')
        s->depth++;
    else if (byte == '}' || byte == ']')
        return --s->depth == 0;
    return false;
}

/* One value, of any kind, into reader->line. */
static tide_status capture(tide_import_reader *reader, tide_error *err)
{
    tide_buffer_clear(&reader->line);
    int byte = 0;
    TIDE_TRY(skip_space(reader, &byte, err));
    const bool is_scalar = byte != '{' && byte != '[' && byte != '"';
    bracket_state state = {0};
    for (;;) {
        TIDE_TRY(tide_import_peek(reader, &byte, err));
        const bool is_behind = is_scalar && (byte < 0 || strchr(",]} \t\r\n", byte));
        if (is_behind && reader->line.len > 0)
            return TIDE_OK;
        if (byte < 0 || is_behind)
            return fail_grammar(err);
        const tide_status status = tide_buffer_append_byte(&reader->line, (uint8_t)byte);
        if (status == TIDE_E_LIMIT)
            return tide_fail(err, TIDE_E_LIMIT, "a value of more than %d bytes",
                             TIDE_IMPORT_VALUE_MAX);
        TIDE_TRY(tide_buffer_check(status, err));
        tide_import_take(reader);
        if (!is_scalar && is_last_byte(&state, byte))
            return TIDE_OK;
    }
}

/* ---- one checkpoint ---- */

static bool is_one_of(const tide_json_field *field, const char *const *names)
{
    for (; *names; names++)
        if (tide_json_field_is(field, *names))
            return true;
    return false;
}

#define IS_ONE_OF(field, ...) is_one_of((field), (const char *const[]){__VA_ARGS__, NULL})

/* A name may be a string or a number. */
static tide_status read_name(const tide_json_field *field, tide_arena *arena, const char **out,
                             tide_error *err)
{
    if (field->kind != TIDE_JSON_NUMBER)
        return tide_import_text(field, arena, out, err);
    *out = tide_arena_text(arena, field->value);
    return *out ? TIDE_OK : tide_no_memory(err);
}

/* Text, or a number of seconds, milliseconds or microseconds since 1970. */
static tide_status read_time(const tide_json_field *field, int64_t *out, tide_error *err)
{
    if (field->kind != TIDE_JSON_NUMBER)
        return tide_import_time(field, out, err);
    TIDE_TRY(tide_json_field_i64(field, out, err));
    if (*out < INT64_C(100000000000))
        *out *= 1000000;
    else if (*out < INT64_C(100000000000000))
        *out *= 1000;
    return TIDE_OK;
}

/* A string ("Manual"), or an object whose innermost text names the kind ({"Automatic":"GapFilled"}). */
static const char *find_trigger(tide_view value)
{
    const char *found = NULL;
    tide_json_scan scan;
    tide_json_token token;
    tide_json_scan_init(&scan, value);
    while (tide_json_scan_next(&scan, &token, NULL) == TIDE_OK && token.kind != TIDE_JSON_END) {
        if (token.kind != TIDE_JSON_STRING && token.kind != TIDE_JSON_KEY)
            continue;
        const char *name =
            tide_journal_find_trigger(tide_view_bytes(token.text.ptr + 1, token.text.len - 2));
        found = name ? name : found;
    }
    return found;
}

/* A string stands for itself; anything else is JSON. */
static tide_status read_state(const tide_json_field *field, tide_arena *arena, tide_view *out,
                              tide_error *err)
{
    if (field->kind == TIDE_JSON_STRING)
        return tide_json_field_text(field, arena, out, err);
    out->ptr = tide_arena_text(arena, field->value);
    out->len = field->value.len;
    return out->ptr ? TIDE_OK : tide_no_memory(err);
}

static tide_status read_member(const tide_json_field *field, tide_import_checkpoint *out,
                               tide_arena *arena, tide_error *err)
{
    tide_checksum_fields *fields = &out->fields;
    if (IS_ONE_OF(field, "id", "checkpoint_id"))
        return read_name(field, arena, &fields->checkpoint_id, err);
    if (IS_ONE_OF(field, "session_id", "session", "task_id"))
        return read_name(field, arena, &fields->task_id, err);
    if (IS_ONE_OF(field, "sequence_number", "sequence"))
        return tide_import_number(field, 1, &out->sequence_number, err);
    if (IS_ONE_OF(field, "created_at", "timestamp"))
        return read_time(field, &out->created_at_us, err);
    if (IS_ONE_OF(field, "type", "checkpoint_type"))
        return tide_import_text(field, arena, &fields->type, err);
    if (IS_ONE_OF(field, "message"))
        return tide_import_text(field, arena, &fields->message, err);
    if (IS_ONE_OF(field, "tags"))
        return tide_import_tags(field, fields, arena, err);
    if (IS_ONE_OF(field, "trigger"))
        fields->trigger = find_trigger(field->value);
    if (IS_ONE_OF(field, "metadata") && !tide_json_field_is_null(field)) {
        fields->metadata = tide_arena_text(arena, field->value);
        return fields->metadata ? TIDE_OK : tide_no_memory(err);
    }
    if (IS_ONE_OF(field, "state", "snapshot", "snapshot_data", "data"))
        return read_state(field, arena, &fields->snapshot, err);
    return TIDE_OK;
}

static tide_status make_id(tide_import_checkpoint *out, tide_arena *arena, tide_error *err)
{
    tide_checksum seal;
    char text[sizeof "checkpoint-" + TIDE_SHA256_TEXT_SIZE];
    char number[24];
    tide_checksum_fields fields = out->fields;
    (void)snprintf(number, sizeof number, "%" PRId64, out->sequence_number);
    fields.checkpoint_id = number;
    TIDE_TRY(tide_checksum_compute(&seal, &fields, err));
    (void)snprintf(text, sizeof text, "checkpoint-");
    tide_hex_encode(text + strlen(text), seal.bytes, 16);
    out->fields.checkpoint_id = tide_arena_text(arena, tide_view_of(text));
    return out->fields.checkpoint_id ? TIDE_OK : tide_no_memory(err);
}

static tide_status complete(tide_import_checkpoint *out, tide_view element, tide_arena *arena,
                            tide_error *err)
{
    tide_checksum_fields *fields = &out->fields;
    if (!fields->type)
        fields->type = "manual_checkpoint";
    if (!fields->trigger)
        fields->trigger = "manual";
    if (!fields->snapshot.ptr) {
        fields->snapshot = tide_view_bytes(tide_arena_text(arena, element), element.len);
        TIDE_NEED_MEMORY(fields->snapshot.ptr, err);
    }
    if (out->sequence_number < 1)
        return tide_fail(err, TIDE_E_INVALID, "a checkpoint without a sequence number from 1");
    if (!fields->checkpoint_id)
        TIDE_TRY(make_id(out, arena, err));
    TIDE_TRY(tide_import_check_id("checkpoint id", fields->checkpoint_id, err));
    TIDE_TRY(tide_import_check_id("session id", fields->task_id, err));
    TIDE_TRY(tide_journal_check_name("checkpoint type", fields->type, TIDE_JOURNAL_TYPE_MAX, err));
    if (fields->snapshot.len > TIDE_JOURNAL_SNAPSHOT_MAX)
        return tide_fail(err, TIDE_E_INVALID, "a snapshot of %zu bytes", fields->snapshot.len);
    out->global_sequence = out->sequence_number;
    out->origin_session = "older document"; /* which has no name of its own */
    out->origin_global = out->sequence_number;
    out->origin_number = out->sequence_number;
    return tide_checksum_compute(&out->checksum, fields, err);
}

static tide_status read_element(tide_import_reader *reader, tide_import_checkpoint *out,
                                tide_arena *arena, tide_error *err)
{
    const tide_view element = tide_buffer_view(&reader->line);
    tide_json_fields fields;
    tide_json_field field;
    TIDE_TRY(tide_json_fields_begin(&fields, element, err));
    if (!fields.is_object)
        return tide_fail(err, TIDE_E_INVALID, "a checkpoint is an object");
    TIDE_EACH(tide_json_fields_next(&fields, &field, err))
        TIDE_TRY(read_member(&field, out, arena, err));
    return complete(out, element, arena, err);
}

/* ---- the document ---- */

static tide_status read_start(tide_import_reader *reader, tide_error *err)
{
    int byte = 0;
    TIDE_TRY(skip_space(reader, &byte, err));
    if (byte != '{')
        return tide_fail(err, TIDE_E_INVALID, "this is no export of checkpoints");
    tide_import_take(reader);
    tide_buffer_done(&reader->line);
    tide_buffer_init(&reader->line, TIDE_IMPORT_VALUE_MAX);
    reader->legacy_state = AT_MEMBERS;
    reader->header.checkpoints = -1; /* not seen yet */
    return TIDE_OK;
}

static tide_status read_end(tide_import_reader *reader, tide_import_record *record, tide_error *err)
{
    int byte = 0;
    TIDE_TRY(skip_space(reader, &byte, err));
    if (byte >= 0)
        return fail_grammar(err);
    if (reader->header.checkpoints < 0)
        return tide_fail(err, TIDE_E_INVALID, "this is no export of checkpoints");
    record->kind = TIDE_IMPORT_END;
    record->as.end.head =
        reader->header.head > reader->last_global ? reader->header.head : reader->last_global;
    reader->legacy_state = AT_END;
    reader->is_ended = true;
    return TIDE_OK;
}

/* A member of the document: the checkpoints, or something to remember or pass over. *is_end: there was none. */
static tide_status read_top_member(tide_import_reader *reader, bool *is_end, tide_error *err)
{
    int byte = 0;
    TIDE_TRY(skip_space(reader, &byte, err));
    *is_end = byte == '}';
    if (*is_end) {
        tide_import_take(reader);
        return TIDE_OK;
    }
    if (byte != '"')
        return fail_grammar(err);
    TIDE_TRY(capture(reader, err));
    const bool is_checkpoints =
        tide_view_equal(tide_buffer_view(&reader->line), tide_view_of("\"checkpoints\""));
    const bool is_head =
        tide_view_equal(tide_buffer_view(&reader->line), tide_view_of("\"global_sequence\""));
    TIDE_TRY(expect(reader, ':', err));
    if (is_checkpoints) {
        if (reader->header.checkpoints >= 0)
            return tide_fail(err, TIDE_E_INVALID, "the document has \"checkpoints\" twice");
        reader->header.checkpoints = 0;
        reader->legacy_state = AT_ELEMENTS;
        return expect(reader, '[', err);
    }
    TIDE_TRY(capture(reader, err));
    const tide_json_field field = {.kind = TIDE_JSON_NUMBER,
                                   .key = tide_view_of("global_sequence"),
                                   .value = tide_buffer_view(&reader->line)};
    if (is_head)
        TIDE_TRY(tide_import_number(&field, 0, &reader->header.head, err));
    return TIDE_OK;
}

/* Behind a member or an element: a comma, or the end of what it is in. */
static tide_status pass_comma(tide_import_reader *reader, int end, tide_error *err)
{
    int byte = 0;
    TIDE_TRY(skip_space(reader, &byte, err));
    if (byte == end)
        return TIDE_OK;
    TIDE_TRY(expect(reader, ',', err));
    TIDE_TRY(skip_space(reader, &byte, err));
    return byte == end ? fail_grammar(err) : TIDE_OK;
}

tide_status tide_import_next_legacy(tide_import_reader *reader, tide_import_record *record,
                                    tide_arena *arena, tide_error *err)
{
    if (reader->legacy_state == AT_START)
        TIDE_TRY(read_start(reader, err));
    while (reader->legacy_state == AT_MEMBERS) {
        bool is_end = false;
        TIDE_TRY(read_top_member(reader, &is_end, err));
        if (is_end)
            return read_end(reader, record, err);
        if (reader->legacy_state == AT_MEMBERS)
            TIDE_TRY(pass_comma(reader, '}', err));
    }
    if (reader->legacy_state == AT_END)
        return TIDE_NONE;
    int byte = 0;
    TIDE_TRY(skip_space(reader, &byte, err));
    if (byte == ']') {
        tide_import_take(reader);
        reader->legacy_state = AT_MEMBERS;
        TIDE_TRY(pass_comma(reader, '}', err));
        return tide_import_next_legacy(reader, record, arena, err);
    }
    TIDE_TRY(capture(reader, err));
    record->kind = TIDE_IMPORT_CHECKPOINT;
    TIDE_TRY(read_element(reader, &record->as.checkpoint, arena, err));
    reader->checkpoints++;
    if (record->as.checkpoint.global_sequence > reader->last_global)
        reader->last_global = record->as.checkpoint.global_sequence;
    return pass_comma(reader, ']', err);
}
