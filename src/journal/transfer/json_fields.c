#include "journal/transfer/json_fields.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

tide_status tide_json_fields_begin(tide_json_fields *fields, tide_view text, tide_error *err)
{
    tide_json_scan_init(&fields->scan, text);
    tide_json_token token;
    TIDE_TRY(tide_json_scan_next(&fields->scan, &token, err));
    fields->is_object = token.kind == TIDE_JSON_OBJECT_BEGIN;
    if (!fields->is_object && token.kind != TIDE_JSON_ARRAY_BEGIN)
        return tide_fail(err, TIDE_E_INVALID, "neither an object nor an array");
    return TIDE_OK;
}

/* Go to the end of the value that begins with token. */
static tide_status pass_value(tide_json_fields *fields, const tide_json_token *begin,
                              tide_view *value, tide_error *err)
{
    tide_json_token token = *begin;
    int depth = 0;
    for (;;) {
        if (token.kind == TIDE_JSON_OBJECT_BEGIN || token.kind == TIDE_JSON_ARRAY_BEGIN)
            depth++;
        if (token.kind == TIDE_JSON_OBJECT_END || token.kind == TIDE_JSON_ARRAY_END)
            depth--;
        if (depth == 0)
            break;
        TIDE_TRY(tide_json_scan_next(&fields->scan, &token, err));
    }
    const char *start = begin->text.ptr;
    *value = tide_view_bytes(start, (size_t)(token.text.ptr + token.text.len - start));
    return TIDE_OK;
}

tide_status tide_json_fields_next(tide_json_fields *fields, tide_json_field *field, tide_error *err)
{
    tide_json_token token;
    TIDE_TRY(tide_json_scan_next(&fields->scan, &token, err));
    if (token.kind == TIDE_JSON_OBJECT_END || token.kind == TIDE_JSON_ARRAY_END) {
        TIDE_TRY(tide_json_scan_next(&fields->scan, &token, err)); /* the end, or a failure */
        return TIDE_NONE;
    }
    field->key = tide_view_bytes("", 0);
    if (fields->is_object) {
        field->key = token.text;
        TIDE_TRY(tide_json_scan_next(&fields->scan, &token, err));
    }
    field->kind = token.kind;
    return pass_value(fields, &token, &field->value, err);
}

bool tide_json_field_is(const tide_json_field *field, const char *key)
{
    const size_t len = strlen(key);
    return field->key.len == len + 2 && memcmp(field->key.ptr + 1, key, len) == 0;
}

bool tide_json_field_is_null(const tide_json_field *field)
{
    return tide_view_equal(field->value, tide_view_of("null"));
}

/* ---- strings ---- */

static unsigned read_hex(const char *digits)
{
    unsigned value = 0;
    for (int i = 0; i < 4; i++) {
        const char c = digits[i];
        value = value * 16 +
                (unsigned)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10); /* the scanner has looked */
    }
    return value;
}

static char *put_character(char *out, unsigned character)
{
    if (character < 0x80) {
        *out++ = (char)character;
    } else if (character < 0x800) {
        *out++ = (char)(0xc0 | character >> 6);
        *out++ = (char)(0x80 | (character & 0x3f));
    } else if (character < 0x10000) {
        *out++ = (char)(0xe0 | character >> 12);
        *out++ = (char)(0x80 | (character >> 6 & 0x3f));
        *out++ = (char)(0x80 | (character & 0x3f));
    } else {
        *out++ = (char)(0xf0 | character >> 18);
        *out++ = (char)(0x80 | (character >> 12 & 0x3f));
        *out++ = (char)(0x80 | (character >> 6 & 0x3f));
        *out++ = (char)(0x80 | (character & 0x3f));
    }
    return out;
}

/* *at stands behind the backslash and is moved behind the escape. */
static unsigned read_escape(const char **at)
{
    static const char letters[] = "\"\\/bfnrt";
    static const char meanings[] = "\"\\/\b\f\n\r\t";
    const char letter = *(*at)++;
    if (letter != 'u')
        return (unsigned char)meanings[strchr(letters, letter) - letters];
    unsigned character = read_hex(*at);
    *at += 4;
    if (character >= 0xd800 && character < 0xdc00) { /* the other half follows */
        character = 0x10000 + ((character - 0xd800) << 10) + (read_hex(*at + 2) - 0xdc00);
        *at += 6;
    }
    return character;
}

/* Unescaping never makes a text longer. */
static size_t decode(char *out, tide_view quoted)
{
    char *to = out;
    const char *end = quoted.ptr + quoted.len - 1;
    for (const char *at = quoted.ptr + 1; at < end;) {
        if (*at != '\\') {
            *to++ = *at++;
            continue;
        }
        at++;
        to = put_character(to, read_escape(&at));
    }
    *to = '\0';
    return (size_t)(to - out);
}

static tide_status fail_kind(const tide_json_field *field, const char *what, tide_error *err)
{
    return tide_fail(err, TIDE_E_INVALID, "%.*s: %s is expected", (int)field->key.len,
                     field->key.ptr, what);
}

tide_status tide_json_field_decode(const tide_json_field *field, char *out, tide_view *text,
                                   tide_error *err)
{
    if (field->kind != TIDE_JSON_STRING)
        return fail_kind(field, "a string", err);
    *text = tide_view_bytes(out, decode(out, field->value));
    if (memchr(text->ptr, '\0', text->len))
        return fail_kind(field, "text without NUL", err);
    return TIDE_OK;
}

tide_status tide_json_field_text(const tide_json_field *field, tide_arena *arena, tide_view *out,
                                 tide_error *err)
{
    char *text = tide_arena_alloc(arena, field->value.len + 1);
    TIDE_NEED_MEMORY(text, err);
    return tide_json_field_decode(field, text, out, err);
}

tide_status tide_json_field_i64(const tide_json_field *field, int64_t *out, tide_error *err)
{
    char text[24];
    if (field->kind != TIDE_JSON_NUMBER || field->value.len >= sizeof text)
        return fail_kind(field, "a whole number", err);
    memcpy(text, field->value.ptr, field->value.len);
    text[field->value.len] = '\0';
    char *end = NULL;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    if (errno != 0 || *end != '\0')
        return fail_kind(field, "a whole number", err);
    *out = number;
    return TIDE_OK;
}

tide_status tide_json_field_bool(const tide_json_field *field, bool *out, tide_error *err)
{
    *out = tide_view_equal(field->value, tide_view_of("true"));
    if (!*out && !tide_view_equal(field->value, tide_view_of("false")))
        return fail_kind(field, "true or false", err);
    return TIDE_OK;
}
