#include "net/codec/json_value.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/json.h"
#include "base/text/json_scan.h"
#include "net/codec/protobuf_wire.h"

/* --- numbers from text --- */

bool tide_json_is_number(tide_view text)
{
    tide_json_scan scan;
    tide_json_scan_init(&scan, text);
    tide_json_token token;
    return tide_json_scan_next(&scan, &token, NULL) == TIDE_OK && token.kind == TIDE_JSON_NUMBER &&
           token.text.len == text.len;
}

/* A number as digits without leading and trailing zeros and a power of ten. More than 20 digits do
 * not fit into 64 bits, whatever they are. */
typedef struct whole {
    uint64_t value;
    bool is_negative;
    bool is_fraction;
    bool is_too_large;
} whole;

static int64_t read_exponent(tide_view number, size_t at)
{
    if (at == number.len)
        return 0;
    at++; /* the letter */
    const bool is_negative = number.ptr[at] == '-';
    if (number.ptr[at] == '-' || number.ptr[at] == '+')
        at++;
    int64_t exponent = 0;
    for (; at < number.len && exponent < INT64_MAX / 100; at++)
        exponent = exponent * 10 + (number.ptr[at] - '0');
    return is_negative ? -exponent : exponent;
}

/* value * 10 + digit, as far as it fits. */
static void shift_in(whole *w, uint64_t digit)
{
    if (w->value > (UINT64_MAX - digit) / 10)
        w->is_too_large = true;
    else
        w->value = w->value * 10 + digit;
}

/* zeros: how many 0 digits wait to be shifted in; they count only if another digit follows, or if
 * the power of ten says so. */
static whole read_whole(tide_view number)
{
    whole w = {.is_negative = number.ptr[0] == '-'};
    size_t at = w.is_negative ? 1 : 0;
    int64_t zeros = 0;
    int64_t scale = 0; /* digits behind the point */
    bool is_behind_point = false;
    for (; at < number.len && (number.ptr[at] | 0x20) != 'e'; at++) {
        const char c = number.ptr[at];
        if (c == '.') {
            is_behind_point = true;
            continue;
        }
        scale += is_behind_point ? 1 : 0;
        if (c == '0') {
            zeros++;
            continue;
        }
        for (; zeros > 0 && w.value > 0 && !w.is_too_large; zeros--)
            shift_in(&w, 0);
        zeros = 0;
        shift_in(&w, (uint64_t)(c - '0'));
    }
    if (w.value == 0)
        return w;
    int64_t power = read_exponent(number, at) - scale + zeros;
    w.is_fraction = power < 0;
    for (; power > 0 && !w.is_too_large; power--)
        shift_in(&w, 0);
    return w;
}

static const char *store_signed(const whole *w, int64_t max, int64_t *out)
{
    const uint64_t limit = (uint64_t)max + (w->is_negative ? 1 : 0);
    if (w->is_too_large || w->value > limit)
        return "the number is out of range";
    *out =
        w->is_negative ? -(int64_t)(w->value - (w->value > 0)) - (w->value > 0) : (int64_t)w->value;
    return NULL;
}

static const char *store_unsigned(const whole *w, uint64_t max, uint64_t *out)
{
    if (w->is_too_large || w->value > max || (w->is_negative && w->value > 0))
        return "the number is out of range";
    *out = w->value;
    return NULL;
}

const char *tide_json_read_integer(ProtobufCType type, tide_view number, uint64_t *out)
{
    const whole w = read_whole(number);
    if (w.is_fraction)
        return "a whole number is wanted";
    int64_t value = 0;
    const char *wrong;
    switch (type) {
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        return store_unsigned(&w, UINT32_MAX, out);
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return store_unsigned(&w, UINT64_MAX, out);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_SINT64:
        wrong = store_signed(&w, INT64_MAX, &value);
        break;
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_ENUM:
        wrong = store_signed(&w, INT32_MAX, &value);
        break;
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_DOUBLE:
    case PROTOBUF_C_TYPE_BOOL:
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
    default:
        return "not a whole number's type";
    }
    const bool is_zigzag = type == PROTOBUF_C_TYPE_SINT32 || type == PROTOBUF_C_TYPE_SINT64;
    *out = is_zigzag ? tide_wire_zigzag(value) : (uint64_t)value;
    return wrong;
}

static bool read_name(tide_view text, double *out)
{
    if (tide_view_equal(text, tide_view_of("NaN")))
        *out = NAN;
    else if (tide_view_equal(text, tide_view_of("Infinity")))
        *out = INFINITY;
    else if (tide_view_equal(text, tide_view_of("-Infinity")))
        *out = -INFINITY;
    else
        return false;
    return true;
}

const char *tide_json_read_real(ProtobufCType type, tide_view text, uint64_t *out)
{
    double number;
    const bool is_name = read_name(text, &number);
    if (!is_name && !tide_json_is_number(text))
        return "not a number";
    if (!is_name && !tide_json_scan_double(text, &number))
        return "the number is out of range";
    if (type == PROTOBUF_C_TYPE_DOUBLE) {
        memcpy(out, &number, sizeof *out);
        return NULL;
    }
    const float narrow = (float)number;
    if (isinf(narrow) && !is_name)
        return "the number is out of range";
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    *out = bits;
    return NULL;
}

/* --- numbers to text --- */

/* JSON has no word for some of them: those become strings. */
static tide_status append_real(tide_buffer *out, double number, bool is_plain)
{
    if (is_plain && !isfinite(number))
        return tide_buffer_append_text(out, "null");
    if (isnan(number))
        return tide_buffer_append_text(out, "\"NaN\"");
    if (isinf(number))
        return tide_buffer_append_text(out, number > 0 ? "\"Infinity\"" : "\"-Infinity\"");
    if (number == 0 && signbit(number)) /* -0 would be read as a whole number, without its sign */
        return tide_buffer_append_text(out, "-0.0");
    return tide_json_append_double(out, number);
}

/* The double with the fewest digits that is still this float: 0.1, not 0.10000000149011612. */
static double widen(float number)
{
    enum { DIGITS_MIN = 6, DIGITS_MAX = 9 };
    if (!isfinite(number))
        return (double)number;
    for (int digits = DIGITS_MIN; digits <= DIGITS_MAX; digits++) {
        char text[32];
        (void)snprintf(text, sizeof text, "%.*g", digits, (double)number);
        const float again = strtof(text, NULL);
        if (memcmp(&again, &number, sizeof number) == 0)
            return strtod(text, NULL);
    }
    return (double)number;
}

static tide_status append_float_bits(tide_buffer *out, uint64_t value, bool is_plain)
{
    const uint32_t bits = (uint32_t)value;
    float number;
    memcpy(&number, &bits, sizeof number);
    return append_real(out, widen(number), is_plain);
}

static tide_status append_double_bits(tide_buffer *out, uint64_t value, bool is_plain)
{
    double number;
    memcpy(&number, &value, sizeof number);
    return append_real(out, number, is_plain);
}

tide_status tide_json_append_number(tide_buffer *out, ProtobufCType type, uint64_t value,
                                    bool is_plain)
{
    const char *quote = is_plain ? "" : "\"";
    switch (type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_ENUM:
        return tide_buffer_printf(out, "%" PRId32, (int32_t)(uint32_t)value);
    case PROTOBUF_C_TYPE_SINT32:
        return tide_buffer_printf(out, "%" PRId64, tide_wire_unzigzag((uint32_t)value));
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        return tide_buffer_printf(out, "%" PRIu32, (uint32_t)value);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        return tide_buffer_printf(out, "%s%" PRId64 "%s", quote, (int64_t)value, quote);
    case PROTOBUF_C_TYPE_SINT64:
        return tide_buffer_printf(out, "%s%" PRId64 "%s", quote, tide_wire_unzigzag(value), quote);
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return tide_buffer_printf(out, "%s%" PRIu64 "%s", quote, value, quote);
    case PROTOBUF_C_TYPE_FLOAT:
        return append_float_bits(out, value, is_plain);
    case PROTOBUF_C_TYPE_DOUBLE:
        return append_double_bits(out, value, is_plain);
    case PROTOBUF_C_TYPE_BOOL:
        return tide_buffer_append_text(out, value != 0 ? "true" : "false");
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        break;
    }
    return TIDE_E_INVALID;
}
