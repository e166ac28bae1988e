#include "base/text/json.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"

static tide_status append_escape(tide_buffer *out, char byte)
{
    switch (byte) {
    case '"':
        return tide_buffer_append_text(out, "\\\"");
    case '\\':
        return tide_buffer_append_text(out, "\\\\");
    case '\n':
        return tide_buffer_append_text(out, "\\n");
    case '\r':
        return tide_buffer_append_text(out, "\\r");
    case '\t':
        return tide_buffer_append_text(out, "\\t");
    default:
        return tide_buffer_printf(out, "\\u%04x", (unsigned)(uint8_t)byte);
    }
}

static bool needs_escape(char byte)
{
    return (uint8_t)byte < 0x20 || byte == '"' || byte == '\\' || byte == 0x7F;
}

/* One character of any kind; *len bytes of text are then dealt with. */
static tide_status append_character(tide_buffer *out, tide_view text, size_t *len)
{
    if (!tide_utf8_next(text, len))
        return tide_buffer_append_text(out, "\xEF\xBF\xBD");
    if (needs_escape(text.ptr[0]))
        return append_escape(out, text.ptr[0]);
    return tide_buffer_append(out, text.ptr, *len);
}

/* How many characters at the beginning stand for themselves: most texts are nothing else. */
static size_t plain_len(tide_view text)
{
    size_t len = 0;
    while (len < text.len && text.ptr[len] >= 0x20 && text.ptr[len] < 0x7f &&
           text.ptr[len] != '"' && text.ptr[len] != '\\')
        len++;
    return len;
}

tide_status tide_json_append_string(tide_buffer *out, tide_view text)
{
    const size_t before_len = out->len;
    tide_status status = tide_buffer_append_byte(out, '"');
    size_t at = 0;
    while (status == TIDE_OK && at < text.len) {
        const tide_view rest = tide_view_bytes(text.ptr + at, text.len - at);
        size_t len = plain_len(rest);
        status =
            len > 0 ? tide_buffer_append(out, rest.ptr, len) : append_character(out, rest, &len);
        at += len;
    }
    if (status == TIDE_OK)
        status = tide_buffer_append_byte(out, '"');
    if (status != TIDE_OK)
        tide_buffer_truncate(out, before_len);
    return status;
}

/* A locale may write and read another sign than '.' (of several bytes even): it is put right
 * afterwards. */
static void fix_decimal_point(char *text)
{
    const size_t head_len = strspn(text, "+-0123456789");
    const char *rest = text + head_len;
    if (*rest == '\0' || *rest == 'e')
        return;
    rest += strcspn(rest, "0123456789");
    text[head_len] = '.';
    memmove(text + head_len + 1, rest, strlen(rest) + 1);
}

enum { DECIMALS_SIZE = 32 };

/* Numbers of few decimals, like prices. A double is the nearest one to at most one decimal number
 * of 15 digits: if m / 10^k gives it back, those are the shortest digits. NULL: none are found
 * here. */
static const char *find_decimals(char text[DECIMALS_SIZE], double number)
{
    const double size = fabs(number);
    int64_t power = 1;
    if (size < 1e-3 || size >= 1e9)
        return NULL;
    for (int decimals = 1; decimals <= 6; decimals++) {
        power *= 10;
        const double found = nearbyint(size * (double)power);
        if (found >= 1e15 || found / (double)power != size)
            continue;
        int64_t digits = (int64_t)found;
        char *at = text + DECIMALS_SIZE;
        *--at = '\0';
        for (int i = 0; digits > 0 || i <= decimals; i++, digits /= 10) {
            if (i == decimals)
                *--at = '.';
            *--at = (char)('0' + digits % 10);
        }
        if (number < 0)
            *--at = '-';
        return at;
    }
    return NULL;
}

tide_status tide_json_append_double(tide_buffer *out, double number)
{
    char decimals[DECIMALS_SIZE];
    if (!isfinite(number))
        return tide_buffer_append_text(out, "null");
    if (fabs(number) < 1e15 && floor(number) == number) /* 100, not 1e+02 */
        return number == 0 && signbit(number) ? tide_buffer_append_text(out, "-0")
                                              : tide_buffer_append_decimal(out, (int64_t)number);
    const char *found = find_decimals(decimals, number);
    if (found)
        return tide_buffer_append_text(out, found);
    char text[64];
    for (int digits = 1; digits <= 17; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, number);
        const double again = strtod(text, NULL);
        if (memcmp(&again, &number, sizeof number) == 0)
            break; /* 17 digits always do */
    }
    fix_decimal_point(text);
    return tide_buffer_append_text(out, text);
}

void tide_json_init(tide_json *json, tide_buffer *out)
{
    *json = (tide_json){.out = out, .status = TIDE_OK};
}

static uint64_t level_bit(int depth)
{
    return (uint64_t)1 << depth;
}

static bool is_in_object(const tide_json *json)
{
    return json->depth > 0 && (json->is_object & level_bit(json->depth - 1)) != 0;
}

static void note(tide_json *json, tide_status status)
{
    if (json->status == TIDE_OK)
        json->status = status;
}

static void put_raw(tide_json *json, const char *text)
{
    if (json->status == TIDE_OK)
        note(json, tide_buffer_append_text(json->out, text));
}

/* The comma in front of a member, where one is needed. */
static void separate(tide_json *json)
{
    if (json->has_member & level_bit(json->depth))
        put_raw(json, ",");
    json->has_member |= level_bit(json->depth);
}

/* Every value passes here first. */
static void begin_value(tide_json *json)
{
    if (is_in_object(json)) {
        assert(json->has_key);
        json->has_key = false;
        return;
    }
    /* A document is one value. */
    assert(json->depth > 0 || !(json->has_member & level_bit(0)));
    separate(json);
}

static void begin_level(tide_json *json, bool is_object)
{
    begin_value(json);
    assert(json->depth < TIDE_JSON_DEPTH_MAX);
    const uint64_t bit = level_bit(json->depth);
    json->is_object = is_object ? json->is_object | bit : json->is_object & ~bit;
    json->depth++;
    json->has_member &= ~level_bit(json->depth);
    put_raw(json, is_object ? "{" : "[");
}

static void end_level(tide_json *json, bool is_object)
{
    assert(json->depth > 0 && is_in_object(json) == is_object && !json->has_key);
    json->depth--;
    put_raw(json, is_object ? "}" : "]");
}

void tide_json_object_begin(tide_json *json)
{
    begin_level(json, true);
}

void tide_json_object_end(tide_json *json)
{
    end_level(json, true);
}

void tide_json_array_begin(tide_json *json)
{
    begin_level(json, false);
}

void tide_json_array_end(tide_json *json)
{
    end_level(json, false);
}

void tide_json_key(tide_json *json, const char *key)
{
    assert(is_in_object(json) && !json->has_key);
    separate(json);
    if (json->status == TIDE_OK)
        note(json, tide_json_append_string(json->out, tide_view_of(key)));
    put_raw(json, ":");
    json->has_key = true;
}

void tide_json_text(tide_json *json, const char *text)
{
    if (text)
        tide_json_view(json, tide_view_of(text));
    else
        tide_json_null(json);
}

void tide_json_view(tide_json *json, tide_view text)
{
    begin_value(json);
    if (json->status == TIDE_OK)
        note(json, tide_json_append_string(json->out, text));
}

void tide_json_i64(tide_json *json, int64_t number)
{
    begin_value(json);
    if (json->status == TIDE_OK)
        note(json, tide_buffer_append_decimal(json->out, number));
}

void tide_json_double(tide_json *json, double number)
{
    begin_value(json);
    if (json->status == TIDE_OK)
        note(json, tide_json_append_double(json->out, number));
}

void tide_json_bool(tide_json *json, bool value)
{
    begin_value(json);
    put_raw(json, value ? "true" : "false");
}

void tide_json_null(tide_json *json)
{
    begin_value(json);
    put_raw(json, "null");
}

tide_status tide_json_finish(tide_json *json)
{
    assert(json->depth == 0 && !json->has_key);
    return json->status;
}
