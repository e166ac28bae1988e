#include "otlp/reader.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/bytes/protobuf_fields.h"
#include "base/cleanup.h"
#include "base/digest.h"
#include "base/text/base64.h"
#include "base/text/json_canon.h"

/* ---- protobuf ---- */

static tide_reader reader_to(const tide_otlp_reader *reader, size_t end)
{
    return (tide_reader){.view = tide_view_bytes(reader->bytes.ptr, end), .offset = reader->at};
}

static tide_wire_type wire_of(tide_otlp_kind kind)
{
    switch (kind) {
    case TIDE_OTLP_KIND_BOOL:
    case TIDE_OTLP_KIND_INT:
    case TIDE_OTLP_KIND_SINT:
        return TIDE_WIRE_VARINT;
    case TIDE_OTLP_KIND_FIXED64:
    case TIDE_OTLP_KIND_DOUBLE:
        return TIDE_WIRE_FIXED64;
    case TIDE_OTLP_KIND_UNKNOWN:
    case TIDE_OTLP_KIND_MESSAGE:
    case TIDE_OTLP_KIND_TEXT:
    case TIDE_OTLP_KIND_BYTES:
    case TIDE_OTLP_KIND_ID:
        break;
    }
    return TIDE_WIRE_BYTES;
}

/* A number, alone or out of a packed list. */
static void take_number(tide_otlp_field *field, uint64_t number)
{
    if (field->type->kind == TIDE_OTLP_KIND_SINT)
        field->u64 = (number >> 1) ^ (~(number & 1) + 1);
    else if (field->type->kind == TIDE_OTLP_KIND_DOUBLE)
        memcpy(&field->f64, &number, sizeof number);
    else
        field->u64 = number;
}

static void take_id(tide_otlp_id *id, tide_view bytes)
{
    *id = (tide_otlp_id){.len = -1};
    if (bytes.len > sizeof id->bytes)
        return;
    id->len = (int)bytes.len;
    memcpy(id->bytes, bytes.ptr, bytes.len);
}

/* Bytes of any kind. A packed list is not a field yet: its elements are. */
static void take_bytes(tide_otlp_message *message, tide_otlp_field *field, tide_view bytes)
{
    tide_otlp_reader *reader = message->reader;
    reader->at = message->resume - bytes.len;
    field->end = message->resume;
    switch (field->type->kind) {
    case TIDE_OTLP_KIND_TEXT:
    case TIDE_OTLP_KIND_BYTES:
        field->text = bytes;
        break;
    case TIDE_OTLP_KIND_ID:
        take_id(&field->id, bytes);
        break;
    case TIDE_OTLP_KIND_MESSAGE:
        break;
    case TIDE_OTLP_KIND_UNKNOWN:
    case TIDE_OTLP_KIND_BOOL:
    case TIDE_OTLP_KIND_INT:
    case TIDE_OTLP_KIND_SINT:
    case TIDE_OTLP_KIND_FIXED64:
    case TIDE_OTLP_KIND_DOUBLE:
        message->list_number = field->number;
        message->list_end = message->resume;
        break;
    }
}

/* The element of a packed list that stands here; TIDE_NONE: there is none. */
static tide_status next_packed(tide_otlp_message *message, tide_otlp_field *field)
{
    tide_otlp_reader *reader = message->reader;
    if (message->list_number == 0 || reader->at == message->list_end) {
        message->list_number = 0;
        return TIDE_NONE;
    }
    field->number = message->list_number;
    field->type = &message->type->fields[field->number];
    uint64_t number = 0;
    tide_reader list = reader_to(reader, message->list_end);
    if ((wire_of(field->type->kind) == TIDE_WIRE_VARINT
             ? tide_reader_varint(&list, &number)
             : tide_reader_u64(&list, &number)) < TIDE_OK)
        return tide_fail(reader->err, TIDE_E_INVALID, "offset %zu: a number that does not end",
                         reader->at);
    reader->at = list.offset;
    take_number(field, number);
    return TIDE_OK;
}

static tide_status next_protobuf(tide_otlp_message *message, tide_otlp_field *field)
{
    tide_otlp_reader *reader = message->reader;
    for (;;) {
        const tide_status packed = next_packed(message, field);
        if (packed != TIDE_NONE)
            return packed;
        reader->at = message->resume;
        tide_reader fields = reader_to(reader, message->end);
        tide_wire_field found;
        TIDE_TRY_FOUND(tide_wire_next(&fields, &found, reader->err));
        message->resume = fields.offset;
        const tide_otlp_field_type *type =
            found.number < message->type->count ? &message->type->fields[found.number] : NULL;
        if (!type || !type->name)
            continue;
        field->number = found.number;
        field->type = type;
        const bool is_bytes = found.type == TIDE_WIRE_BYTES;
        if (found.type == wire_of(type->kind)) {
            reader->at = fields.offset;
            if (is_bytes)
                take_bytes(message, field, found.bytes);
            else
                take_number(field, found.value);
            return TIDE_OK;
        }
        if (is_bytes && type->is_list)
            take_bytes(message, field, found.bytes);
    }
}

/* ---- JSON: values ---- */

static tide_status fail_token(const tide_otlp_reader *reader, const tide_json_token *token,
                              const char *what)
{
    return tide_json_scan_fail(reader->bytes, token->offset, what, reader->err);
}

/* The text of a string or key token. */
static tide_status read_token_text(tide_otlp_reader *reader, const tide_json_token *token,
                                   tide_view *out)
{
    const tide_view inside = tide_view_bytes(token->text.ptr + 1, token->text.len - 2);
    *out = inside;
    if (!token->has_escape)
        return TIDE_OK;
    char *room;
    TIDE_TRY(tide_otlp_reader_room(reader, inside.len, &room));
    *out =
        room ? tide_view_bytes(room, tide_json_unescape_to(room, token->text)) : tide_view_of("");
    return TIDE_OK;
}

static tide_status read_base64(tide_otlp_reader *reader, const tide_json_token *token,
                               tide_otlp_field *field)
{
    tide_view text;
    TIDE_TRY(read_token_text(reader, token, &text));
    char *room;
    TIDE_TRY(tide_otlp_reader_room(reader, text.len, &room));
    field->text = tide_view_of("");
    if (!room)
        return TIDE_OK;
    size_t len;
    if (!tide_base64_decode_to(room, text, &len))
        return fail_token(reader, token, "this is not base64");
    field->text = tide_view_bytes(room, len);
    return TIDE_OK;
}

/* An id that is none is its record's affair, not the request's. */
static void read_id(tide_otlp_id *id, tide_view digits)
{
    *id = (tide_otlp_id){.len = -1};
    if (digits.len % 2 == 0 && digits.len / 2 <= sizeof id->bytes &&
        tide_hex_decode(id->bytes, digits.len / 2, digits) == TIDE_OK)
        id->len = (int)(digits.len / 2);
}

static bool parse_digits(tide_view text, uint64_t *out)
{
    uint64_t number = 0;
    for (size_t i = 0; i < text.len; i++) {
        const char c = text.ptr[i];
        if (c < '0' || c > '9')
            return false;
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, (uint64_t)(c - '0'), &number))
            return false;
    }
    *out = number;
    return text.len > 0;
}

/* A whole number of 64 bits, signed or not: -2^63 .. 2^64 - 1. */
static bool parse_whole(tide_view text, uint64_t *out)
{
    if (text.len == 0 || text.ptr[0] != '-')
        return parse_digits(text, out);
    uint64_t magnitude;
    if (!parse_digits(tide_view_bytes(text.ptr + 1, text.len - 1), &magnitude) ||
        magnitude > (uint64_t)INT64_MAX + 1)
        return false;
    *out = ~magnitude + 1;
    return true;
}

/* 1e3 and 5.0 are whole numbers, too. */
static bool parse_round_double(tide_view text, uint64_t *out)
{
    double number;
    if (!tide_json_scan_double(text, &number) || trunc(number) != number ||
        number < -9223372036854775808.0 || number >= 18446744073709551616.0)
        return false;
    *out = number < 0 ? (uint64_t)(int64_t)number : (uint64_t)number;
    return true;
}

static bool parse_number(const tide_json_token *token, tide_otlp_field *field)
{
    const uint32_t instead = field->type->if_too_large;
    if ((token->is_integer ? parse_whole(token->text, &field->u64)
                           : parse_round_double(token->text, &field->u64)) &&
        (!instead || field->u64 <= INT64_MAX || token->text.ptr[0] == '-'))
        return true;
    double number;
    if (!instead || !tide_json_scan_double(token->text, &number) || trunc(number) != number)
        return false;
    field->type += (ptrdiff_t)instead - (ptrdiff_t)field->number; /* types lie by number */
    field->number = instead;
    field->f64 = number;
    return true;
}

static tide_status read_whole(tide_otlp_reader *reader, const tide_json_token *token,
                              tide_otlp_field *field)
{
    if (token->kind == TIDE_JSON_NUMBER) {
        if (parse_number(token, field))
            return TIDE_OK;
    } else if (token->kind == TIDE_JSON_STRING) {
        tide_view text;
        TIDE_TRY(read_token_text(reader, token, &text));
        if (parse_whole(text, &field->u64) ||
            (field->type->values && tide_otlp_enum_find(field->type->values, text, &field->u64)))
            return TIDE_OK;
    }
    return fail_token(reader, token, "a whole number of 64 bits is missing");
}

/* Is this text a number as JSON writes them? The scanner decides. */
static bool parse_double_text(tide_view text, double *out)
{
    tide_json_scan scan;
    tide_json_scan_init(&scan, text);
    tide_json_token number;
    tide_json_token end;
    return tide_json_scan_next(&scan, &number, NULL) == TIDE_OK &&
           number.kind == TIDE_JSON_NUMBER && tide_json_scan_next(&scan, &end, NULL) == TIDE_OK &&
           tide_json_scan_double(number.text, out);
}

static bool parse_special(tide_view text, double *out)
{
    static const struct {
        const char *name;
        double value;
    } specials[] = {{"NaN", NAN}, {"Infinity", INFINITY}, {"-Infinity", -INFINITY}};
    for (size_t i = 0; i < sizeof specials / sizeof specials[0]; i++) {
        if (tide_view_equal(tide_view_of(specials[i].name), text)) {
            *out = specials[i].value;
            return true;
        }
    }
    return false;
}

static tide_status read_double(tide_otlp_reader *reader, const tide_json_token *token,
                               tide_otlp_field *field)
{
    if (token->kind == TIDE_JSON_NUMBER) {
        if (tide_json_scan_double(token->text, &field->f64))
            return TIDE_OK;
    } else if (token->kind == TIDE_JSON_STRING) {
        tide_view text;
        TIDE_TRY(read_token_text(reader, token, &text));
        if (parse_special(text, &field->f64) || parse_double_text(text, &field->f64))
            return TIDE_OK;
    }
    return fail_token(reader, token, "a number is missing");
}

static tide_status read_string(tide_otlp_reader *reader, const tide_json_token *token,
                               tide_otlp_field *field)
{
    if (token->kind != TIDE_JSON_STRING)
        return fail_token(reader, token, "a text is missing");
    if (field->type->kind == TIDE_OTLP_KIND_BYTES)
        return read_base64(reader, token, field);
    tide_view text;
    TIDE_TRY(read_token_text(reader, token, &text));
    if (field->type->kind == TIDE_OTLP_KIND_ID)
        read_id(&field->id, text);
    else
        field->text = text;
    return TIDE_OK;
}

static tide_status read_token(tide_otlp_reader *reader, const tide_json_token *token,
                              tide_otlp_field *field)
{
    switch (field->type->kind) {
    case TIDE_OTLP_KIND_MESSAGE:
        if (token->kind != TIDE_JSON_OBJECT_BEGIN)
            return fail_token(reader, token, "an object is missing");
        return TIDE_OK;
    case TIDE_OTLP_KIND_TEXT:
    case TIDE_OTLP_KIND_BYTES:
    case TIDE_OTLP_KIND_ID:
        return read_string(reader, token, field);
    case TIDE_OTLP_KIND_BOOL:
        if (token->kind != TIDE_JSON_LITERAL)
            return fail_token(reader, token, "true or false is missing");
        field->u64 = token->text.ptr[0] == 't' ? 1 : 0;
        return TIDE_OK;
    case TIDE_OTLP_KIND_INT:
    case TIDE_OTLP_KIND_SINT:
    case TIDE_OTLP_KIND_FIXED64:
        return read_whole(reader, token, field);
    case TIDE_OTLP_KIND_DOUBLE:
        return read_double(reader, token, field);
    case TIDE_OTLP_KIND_UNKNOWN:
        break;
    }
    return fail_token(reader, token, "an unknown field");
}

/* ---- JSON: members ---- */

static tide_status next_token(tide_otlp_reader *reader, tide_json_token *token)
{
    return tide_json_scan_next(&reader->scan, token, reader->err);
}

static bool is_null(const tide_json_token *token)
{
    return token->kind == TIDE_JSON_LITERAL && token->text.ptr[0] == 'n';
}

/* Pass over what is left of values that nobody wanted to read to their end. */
static tide_status leave_values(const tide_otlp_message *message)
{
    const int depth = message->depth + (message->list_number != 0 ? 1 : 0);
    tide_json_token token;
    while (message->reader->scan.depth > depth)
        TIDE_TRY(next_token(message->reader, &token));
    return TIDE_OK;
}

static void describe(tide_otlp_field *field, const tide_otlp_message *message, uint32_t number)
{
    *field = (tide_otlp_field){.number = number, .type = &message->type->fields[number]};
}

/* The value behind a key. TIDE_NONE: it does not count, or is a list whose elements follow. */
static tide_status read_member(tide_otlp_message *message, const tide_json_token *key,
                               tide_otlp_field *field)
{
    tide_otlp_reader *reader = message->reader;
    tide_view name;
    TIDE_TRY(read_token_text(reader, key, &name));
    const uint32_t number = tide_otlp_field_find(message->type, name);
    tide_json_token token;
    TIDE_TRY(next_token(reader, &token));
    if (number == 0 || is_null(&token))
        return TIDE_NONE;
    describe(field, message, number);
    if (!field->type->is_list)
        return read_token(reader, &token, field);
    if (token.kind != TIDE_JSON_ARRAY_BEGIN)
        return tide_json_scan_fail(reader->bytes, token.offset, "an array is missing", reader->err);
    message->list_number = number;
    return TIDE_NONE;
}

static tide_status next_json(tide_otlp_message *message, tide_otlp_field *field)
{
    tide_otlp_reader *reader = message->reader;
    for (;;) {
        TIDE_TRY(leave_values(message));
        tide_json_token token;
        TIDE_TRY(next_token(reader, &token));
        tide_status status = TIDE_NONE;
        if (token.kind == TIDE_JSON_OBJECT_END)
            return TIDE_NONE;
        if (token.kind == TIDE_JSON_ARRAY_END) {
            message->list_number = 0;
        } else if (message->list_number == 0) {
            status = read_member(message, &token, field);
        } else if (!is_null(&token)) {
            describe(field, message, message->list_number);
            status = read_token(reader, &token, field);
        }
        if (status != TIDE_NONE)
            return status;
    }
}

/* ---- either ---- */

tide_status tide_otlp_read(tide_otlp_reader *reader, tide_otlp_message *root,
                           const tide_otlp_message_type *type, tide_otlp_format format,
                           tide_view bytes, tide_arena *arena, tide_error *err)
{
    *reader = (tide_otlp_reader){
        .bytes = bytes,
        .is_json = format == TIDE_OTLP_JSON,
        .arena = arena,
        .err = err,
    };
    *root = (tide_otlp_message){.reader = reader, .type = type, .end = bytes.len};
    if (!reader->is_json)
        return TIDE_OK;
    tide_json_scan_init(&reader->scan, bytes);
    tide_json_token token;
    TIDE_TRY(tide_json_scan_next(&reader->scan, &token, err));
    if (token.kind != TIDE_JSON_OBJECT_BEGIN)
        return tide_json_scan_fail(bytes, token.offset, "an object is missing", err);
    root->depth = reader->scan.depth;
    return TIDE_OK;
}

tide_status tide_otlp_read_end(tide_otlp_reader *reader)
{
    if (!reader->is_json)
        return TIDE_OK;
    tide_json_token token;
    return tide_json_scan_next(&reader->scan, &token, reader->err);
}

void tide_otlp_enter(tide_otlp_message *message, const tide_otlp_message *parent,
                     const tide_otlp_field *field)
{
    assert(field->type->kind == TIDE_OTLP_KIND_MESSAGE);
    *message = (tide_otlp_message){
        .reader = parent->reader,
        .type = field->type->message,
        .end = field->end,
        .resume = parent->reader->at,
        .depth = parent->reader->scan.depth,
    };
}

tide_status tide_otlp_next(tide_otlp_message *message, tide_otlp_field *field)
{
    return message->reader->is_json ? next_json(message, field) : next_protobuf(message, field);
}

void tide_otlp_look_ahead(tide_otlp_ahead *ahead, const tide_otlp_message *message)
{
    ahead->reader = *message->reader;
    ahead->message = *message;
    ahead->message.reader = &ahead->reader;
}

tide_status tide_otlp_reader_room(tide_otlp_reader *reader, size_t len, char **out)
{
    *out = NULL;
    /* The arena rounds up; what does not fit for certain is left out. */
    const size_t left = reader->arena->max - reader->arena->used_len;
    if (left < sizeof(max_align_t) || len > left - sizeof(max_align_t)) {
        reader->is_overfull = true;
        return TIDE_OK;
    }
    *out = tide_arena_alloc(reader->arena, len);
    return *out ? TIDE_OK : tide_no_memory(reader->err);
}
