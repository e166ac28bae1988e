#include "otlp/decode.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/base64.h"
#include "base/text/json.h"
#include "base/text/utf8.h"

static tide_status write_any(tide_otlp *otlp, tide_buffer *out, tide_otlp_message *any, int depth);

/* A copy in the arena of the layer; empty when there is no room, which is a flaw of the record. */
static tide_status keep_text(tide_otlp *otlp, tide_view text, tide_view *out)
{
    char *room;
    *out = tide_view_of("");
    TIDE_TRY(tide_otlp_reader_room(&otlp->reader, text.len, &room));
    if (!room)
        return TIDE_OK;
    if (text.len > 0)
        memcpy(room, text.ptr, text.len);
    *out = tide_view_bytes(room, text.len);
    return TIDE_OK;
}

/* ---- scalars ---- */

static tide_status int_text(tide_otlp *otlp, uint64_t bits, tide_view *out)
{
    char text[24];
    char *const end = text + sizeof text;
    char *at = end;
    const bool is_negative = (int64_t)bits < 0;
    uint64_t magnitude = is_negative ? ~bits + 1 : bits;
    do
        *--at = (char)('0' + magnitude % 10);
    while ((magnitude /= 10) > 0);
    if (is_negative)
        *--at = '-';
    return keep_text(otlp, tide_view_bytes(at, (size_t)(end - at)), out);
}

tide_status tide_otlp_double_text(tide_otlp *otlp, double number, tide_view *out)
{
    if (!isfinite(number)) {
        *out = tide_view_of(isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity");
        return TIDE_OK;
    }
    tide_buffer_clear(&otlp->json);
    TIDE_TRY(tide_otlp_note_status(otlp, tide_json_append_double(&otlp->json, number)));
    return keep_text(otlp, tide_buffer_view(&otlp->json), out);
}

static tide_status base64_text(tide_otlp *otlp, tide_view bytes, tide_view *out)
{
    char *room;
    TIDE_TRY(tide_otlp_reader_room(&otlp->reader, TIDE_BASE64_LEN(bytes.len), &room));
    *out =
        room ? tide_view_bytes(room, tide_base64_encode_to(room, bytes, true)) : tide_view_of("");
    return TIDE_OK;
}

/* ---- lists and maps, as JSON ---- */

static tide_status write_raw(tide_otlp *otlp, tide_buffer *out, tide_view text)
{
    return tide_otlp_note_status(otlp, tide_buffer_append_view(out, text));
}

/* Broken characters are counted like those of plain attributes; a NUL is an escape here and may
 * stay. */
tide_status tide_otlp_write_text(tide_otlp *otlp, tide_buffer *out, tide_view text)
{
    for (size_t at = 0; at < text.len;) {
        size_t len;
        if (!tide_utf8_next(tide_view_bytes(text.ptr + at, text.len - at), &len))
            otlp->output->replaced++;
        at += len;
    }
    return tide_otlp_note_status(otlp, tide_json_append_string(out, text));
}

static tide_status write_array(tide_otlp *otlp, tide_buffer *out, tide_otlp_message *array,
                               int depth)
{
    TIDE_TRY(write_raw(otlp, out, tide_view_of("[")));
    const char *separator = "";
    tide_otlp_field field;
    TIDE_EACH(tide_otlp_next(array, &field)) {
        tide_otlp_message any;
        tide_otlp_enter(&any, array, &field);
        TIDE_TRY(write_raw(otlp, out, tide_view_of(separator)));
        TIDE_TRY(write_any(otlp, out, &any, depth));
        separator = ",";
    }
    return write_raw(otlp, out, tide_view_of("]"));
}

/* A key that stood behind its value: put it in front. */
static tide_status insert_key(tide_otlp *otlp, tide_buffer *out, size_t at, tide_view key)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(out->max);
    TIDE_TRY(tide_otlp_write_text(otlp, &text, key));
    TIDE_TRY(write_raw(otlp, &text, tide_view_of(":")));
    const tide_status status = tide_buffer_reserve(out, text.len);
    if (status != TIDE_OK)
        return tide_otlp_note_status(otlp, status);
    memmove(out->ptr + at + text.len, out->ptr + at, out->len - at + 1); /* with the NUL */
    memcpy(out->ptr + at, text.ptr, text.len);
    out->len += text.len;
    return TIDE_OK;
}

static tide_status write_key(tide_otlp *otlp, tide_buffer *out, size_t at, tide_view key,
                             bool has_value)
{
    if (has_value)
        return insert_key(otlp, out, at, key);
    TIDE_TRY(tide_otlp_write_text(otlp, out, key));
    return write_raw(otlp, out, tide_view_of(":"));
}

/* Key and value in whatever order they come. Looking ahead for the key would cost a scan of the value at
 * every level. */
static tide_status write_pair(tide_otlp *otlp, tide_buffer *out, tide_otlp_message *pair, int depth)
{
    const size_t start = out->len;
    bool has_key = false;
    bool has_value = false;
    tide_otlp_field field;
    TIDE_EACH(tide_otlp_next(pair, &field)) {
        if (field.number != TIDE_OTLP_PAIR_VALUE && !has_key) {
            has_key = true;
            TIDE_TRY(write_key(otlp, out, start, tide_otlp_key_text(otlp, &field), has_value));
        } else if (field.number == TIDE_OTLP_PAIR_VALUE && !has_value) {
            has_value = true;
            tide_otlp_message any;
            tide_otlp_enter(&any, pair, &field);
            TIDE_TRY(write_any(otlp, out, &any, depth));
        }
    }
    if (!has_key)
        TIDE_TRY(write_key(otlp, out, start, tide_view_of(""), has_value));
    return has_value ? TIDE_OK : write_raw(otlp, out, tide_view_of("null"));
}

static tide_status write_pairs(tide_otlp *otlp, tide_buffer *out, tide_otlp_message *owner,
                               uint32_t number, int depth)
{
    TIDE_TRY(write_raw(otlp, out, tide_view_of("{")));
    const char *separator = "";
    tide_otlp_field field;
    TIDE_EACH(tide_otlp_next(owner, &field)) {
        if (field.number != number)
            continue;
        tide_otlp_message pair;
        tide_otlp_enter(&pair, owner, &field);
        TIDE_TRY(write_raw(otlp, out, tide_view_of(separator)));
        TIDE_TRY(write_pair(otlp, out, &pair, depth));
        separator = ",";
    }
    return write_raw(otlp, out, tide_view_of("}"));
}

tide_status tide_otlp_write_attributes(tide_otlp *otlp, tide_buffer *out, tide_otlp_message *owner,
                                       uint32_t number)
{
    return write_pairs(otlp, out, owner, number, 1);
}

static tide_status write_scalar(tide_otlp *otlp, tide_buffer *out, const tide_otlp_field *field)
{
    tide_view text;
    switch (field->number) {
    case TIDE_OTLP_ANY_BOOL:
        return write_raw(otlp, out, tide_view_of(field->u64 ? "true" : "false"));
    case TIDE_OTLP_ANY_INT:
        return tide_otlp_note_status(otlp,
                                     tide_buffer_printf(out, "%" PRId64, (int64_t)field->u64));
    case TIDE_OTLP_ANY_DOUBLE:
        return tide_otlp_note_status(otlp, tide_json_append_double(out, field->f64));
    case TIDE_OTLP_ANY_BYTES:
        TIDE_TRY(base64_text(otlp, field->text, &text));
        return tide_otlp_write_text(otlp, out, text);
    case TIDE_OTLP_ANY_STRINDEX:
        return tide_otlp_write_text(otlp, out,
                                    tide_otlp_dictionary_string(&otlp->dictionary, field->u64));
    default:
        return tide_otlp_write_text(otlp, out, field->text);
    }
}

/* One value; of several the first. Deeper than we go: null, and the record is rejected. */
static tide_status write_any(tide_otlp *otlp, tide_buffer *out, tide_otlp_message *any, int depth)
{
    tide_otlp_field field;
    const tide_status status = tide_otlp_next(any, &field);
    TIDE_TRY(status);
    if (status == TIDE_NONE)
        return write_raw(otlp, out, tide_view_of("null"));
    if (field.number != TIDE_OTLP_ANY_ARRAY && field.number != TIDE_OTLP_ANY_KVLIST)
        return write_scalar(otlp, out, &field);
    if (depth == TIDE_OTLP_VALUE_DEPTH_MAX) {
        tide_otlp_note_flaw(otlp, TIDE_OTLP_REASON_DEPTH);
        return write_raw(otlp, out, tide_view_of("null"));
    }
    tide_otlp_message list;
    tide_otlp_enter(&list, any, &field);
    return field.number == TIDE_OTLP_ANY_ARRAY
               ? write_array(otlp, out, &list, depth + 1)
               : write_pairs(otlp, out, &list, TIDE_OTLP_LIST_VALUES, depth + 1);
}

static tide_status list_text(tide_otlp *otlp, const tide_otlp_message *any,
                             const tide_otlp_field *field, tide_view *out)
{
    tide_otlp_message list;
    tide_otlp_enter(&list, any, field);
    tide_buffer_clear(&otlp->json);
    if (field->number == TIDE_OTLP_ANY_ARRAY)
        TIDE_TRY(write_array(otlp, &otlp->json, &list, 1));
    else
        TIDE_TRY(write_pairs(otlp, &otlp->json, &list, TIDE_OTLP_LIST_VALUES, 1));
    return keep_text(otlp, tide_buffer_view(&otlp->json), out);
}

/* ---- any value ---- */

tide_status tide_otlp_value_text(tide_otlp *otlp, tide_otlp_message *any, tide_view *out)
{
    *out = tide_view_of("");
    tide_otlp_field field;
    const tide_status status = tide_otlp_next(any, &field);
    if (status != TIDE_OK) /* TIDE_NONE: no value at all */
        return status;
    switch (field.number) {
    case TIDE_OTLP_ANY_STRING:
        *out = field.text;
        return TIDE_OK;
    case TIDE_OTLP_ANY_BOOL:
        *out = tide_view_of(field.u64 ? "true" : "false");
        return TIDE_OK;
    case TIDE_OTLP_ANY_INT:
        return int_text(otlp, field.u64, out);
    case TIDE_OTLP_ANY_DOUBLE:
        return tide_otlp_double_text(otlp, field.f64, out);
    case TIDE_OTLP_ANY_BYTES:
        return base64_text(otlp, field.text, out);
    case TIDE_OTLP_ANY_STRINDEX:
        *out = tide_otlp_dictionary_string(&otlp->dictionary, field.u64);
        return TIDE_OK;
    default:
        return list_text(otlp, any, &field, out);
    }
}
