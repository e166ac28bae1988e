#include "otlp/reader.h"

#include <math.h>
#include <stddef.h>

#include "base/digest.h"
#include "base/text/base64.h"
#include "base/text/json_canon.h"

static tide_status fail_token(const tide_otlp_reader *reader, const tide_json_token *token,
                              const char *what)
{
    return tide_json_scan_fail(reader->bytes, token->offset, what, reader->err);
}

/* ---- texts ---- */

tide_status tide_otlp_token_text(tide_otlp_reader *reader, const tide_json_token *token,
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

/* ---- bytes ---- */

static tide_status read_base64(tide_otlp_reader *reader, const tide_json_token *token,
                               tide_otlp_field *field)
{
    tide_view text;
    TIDE_TRY(tide_otlp_token_text(reader, token, &text));
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

/* ---- numbers ---- */

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
        TIDE_TRY(tide_otlp_token_text(reader, token, &text));
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
        TIDE_TRY(tide_otlp_token_text(reader, token, &text));
        if (parse_special(text, &field->f64) || parse_double_text(text, &field->f64))
            return TIDE_OK;
    }
    return fail_token(reader, token, "a number is missing");
}

/* ---- by kind ---- */

static tide_status read_string(tide_otlp_reader *reader, const tide_json_token *token,
                               tide_otlp_field *field)
{
    if (token->kind != TIDE_JSON_STRING)
        return fail_token(reader, token, "a text is missing");
    if (field->type->kind == TIDE_OTLP_KIND_BYTES)
        return read_base64(reader, token, field);
    tide_view text;
    TIDE_TRY(tide_otlp_token_text(reader, token, &text));
    if (field->type->kind == TIDE_OTLP_KIND_ID)
        read_id(&field->id, text);
    else
        field->text = text;
    return TIDE_OK;
}

tide_status tide_otlp_token_read(tide_otlp_reader *reader, const tide_json_token *token,
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
