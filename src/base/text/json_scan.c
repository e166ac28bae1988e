#include "base/text/json_scan.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"

enum expectation {
    EXPECT_VALUE,
    EXPECT_VALUE_OR_END, /* behind [ */
    EXPECT_KEY,          /* behind a comma in an object */
    EXPECT_KEY_OR_END,   /* behind { */
    EXPECT_COMMA_OR_END, /* behind a member */
    EXPECT_NOTHING,      /* behind the value that is the document */
};

void tide_json_scan_init(tide_json_scan *scan, tide_view text)
{
    *scan = (tide_json_scan){.text = text.ptr ? text : tide_view_of(""), .expects = EXPECT_VALUE};
}

tide_status tide_json_scan_fail(tide_view text, size_t offset, const char *what, tide_error *err)
{
    size_t line = 1;
    size_t column = 1;
    for (size_t i = 0; i < offset; i++) {
        if (text.ptr[i] == '\n') {
            line++;
            column = 1;
        } else if (((uint8_t)text.ptr[i] & 0xC0U) != 0x80U) {
            column++;
        }
    }
    return tide_fail(err, TIDE_E_INVALID, "line %zu, column %zu: %s", line, column, what);
}

static tide_status fail_here(const tide_json_scan *scan, const char *what, tide_error *err)
{
    return tide_json_scan_fail(scan->text, scan->at, what, err);
}

/* The next byte, or NUL at the end: NUL is valid nowhere, so that it needs no test of its own. */
static char peek(const tide_json_scan *scan)
{
    return scan->at < scan->text.len ? scan->text.ptr[scan->at] : '\0';
}

static void skip_space(tide_json_scan *scan)
{
    for (char c = peek(scan); c == ' ' || c == '\n' || c == '\r' || c == '\t'; c = peek(scan))
        scan->at++;
}

/* --- strings --- */

/* Step over bytes that mean themselves: ASCII but control characters, quote and backslash. Eight at
 * a time: a byte below 0x20 borrows into its top bit, and so does one that is 0 after the XOR. A
 * borrow can also reach the byte above it, so that a hit says only that there is one somewhere. */
static void skip_plain(tide_json_scan *scan)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    const uint64_t tops = ones * 0x80;
    const char *text = scan->text.ptr;
    const size_t len = scan->text.len;
    size_t at = scan->at;
    while (len - at >= sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, text + at, sizeof word);
        const uint64_t quote = (word ^ ones * '"') - ones;
        const uint64_t backslash = (word ^ ones * '\\') - ones;
        const uint64_t control = word - ones * 0x20;
        if ((quote | backslash | control | word) & tops)
            break;
        at += sizeof word;
    }
    while (at < len && (uint8_t)text[at] >= 0x20 && (uint8_t)text[at] < 0x80 && text[at] != '"' &&
           text[at] != '\\')
        at++;
    scan->at = at;
}

/* The value of \uXXXX at offset; -1 if there is none. */
static int32_t read_unit(tide_view text, size_t offset)
{
    if (text.len - offset < 6 || text.ptr[offset] != '\\' || text.ptr[offset + 1] != 'u')
        return -1;
    int32_t unit = 0;
    for (size_t i = 2; i < 6; i++) {
        const char c = text.ptr[offset + i];
        int32_t digit;
        if (c >= '0' && c <= '9')
            digit = c - '0';
        else if (c >= 'a' && c <= 'f')
            digit = c - 'a' + 10;
        else if (c >= 'A' && c <= 'F')
            digit = c - 'A' + 10;
        else
            return -1;
        unit = unit * 16 + digit;
    }
    return unit;
}

static tide_status scan_escape(tide_json_scan *scan, tide_error *err)
{
    const char kind = scan->text.len - scan->at > 1 ? scan->text.ptr[scan->at + 1] : '\0';
    if (kind != '\0' && strchr("\"\\/bfnrt", kind)) {
        scan->at += 2;
        return TIDE_OK;
    }
    const int32_t unit = read_unit(scan->text, scan->at);
    if (unit < 0)
        return fail_here(scan, "unknown escape in a string", err);
    if (unit >= 0xDC00 && unit <= 0xDFFF)
        return fail_here(scan, "half a surrogate pair", err);
    if (unit >= 0xD800 && unit <= 0xDBFF) {
        const int32_t second = read_unit(scan->text, scan->at + 6);
        if (second < 0xDC00 || second > 0xDFFF)
            return fail_here(scan, "half a surrogate pair", err);
        scan->at += 6;
    }
    scan->at += 6;
    return TIDE_OK;
}

/* From the opening quote to behind the closing one. */
static tide_status scan_string(tide_json_scan *scan, bool *has_escape, tide_error *err)
{
    const size_t start = scan->at++;
    *has_escape = false;
    for (;;) {
        skip_plain(scan);
        if (scan->at == scan->text.len)
            return tide_json_scan_fail(scan->text, start, "a string that does not end", err);
        const uint8_t byte = (uint8_t)scan->text.ptr[scan->at];
        if (byte == '"') {
            scan->at++;
            return TIDE_OK;
        }
        if (byte == '\\') {
            *has_escape = true;
            TIDE_TRY(scan_escape(scan, err));
            continue;
        }
        if (byte < 0x20)
            return fail_here(scan, "a control character in a string must be escaped", err);
        size_t len;
        if (!tide_utf8_next(tide_view_bytes(scan->text.ptr + scan->at, scan->text.len - scan->at),
                            &len))
            return fail_here(scan, "invalid UTF-8", err);
        scan->at += len;
    }
}

/* --- numbers --- */

static size_t skip_digits(tide_json_scan *scan)
{
    const size_t start = scan->at;
    while (peek(scan) >= '0' && peek(scan) <= '9')
        scan->at++;
    return scan->at - start;
}

/* Of a decimal number: the significant digits that decide which double is nearest, and the power of
 * ten behind them. 768 digits tell any two doubles apart; of those beyond only matters whether one
 * of them is not 0, which a last digit 1 stands for. */
typedef struct decimal {
    char digits[800];
    size_t count;
    int64_t exponent;
} decimal;

static void add_digit(decimal *d, char digit, bool is_fraction)
{
    if (is_fraction)
        d->exponent--;
    if (d->count == 0 && digit == '0')
        return;
    if (d->count < sizeof d->digits - 1) {
        d->digits[d->count++] = digit;
        return;
    }
    d->exponent++; /* dropped */
    if (digit != '0')
        d->digits[sizeof d->digits - 1] = '1';
}

/* The text is a number that scan_number accepted. */
static void read_decimal(decimal *d, tide_view number)
{
    *d = (decimal){.digits[sizeof d->digits - 1] = '0'};
    bool is_fraction = false;
    size_t at = number.ptr[0] == '-' ? 1 : 0;
    for (; at < number.len && (number.ptr[at] | 0x20) != 'e'; at++) {
        if (number.ptr[at] == '.')
            is_fraction = true;
        else
            add_digit(d, number.ptr[at], is_fraction);
    }
    if (at == number.len)
        return;
    at++;
    const bool is_negative = number.ptr[at] == '-';
    if (number.ptr[at] == '-' || number.ptr[at] == '+')
        at++;
    int64_t exponent = 0;
    for (; at < number.len && exponent < INT64_MAX / 100; at++)
        exponent = exponent * 10 + (number.ptr[at] - '0');
    d->exponent += is_negative ? -exponent : exponent;
}

/* Digits and a power of ten: strtod never sees a decimal point, which a locale may write
 * otherwise. */
bool tide_json_scan_double(tide_view number, double *out)
{
    decimal d;
    read_decimal(&d, number);
    const bool is_negative = number.ptr[0] == '-';
    const int64_t magnitude = (int64_t)d.count + d.exponent; /* below 10^magnitude */
    *out = is_negative ? -0.0 : 0.0;
    if (d.count == 0 || magnitude < -400)
        return true;
    if (magnitude > 400)
        return false;
    if (d.digits[sizeof d.digits - 1] == '1') {
        d.count = sizeof d.digits;
        d.exponent--;
    }
    char text[sizeof d.digits + 32];
    (void)snprintf(text, sizeof text, "%s%.*se%" PRId64, is_negative ? "-" : "", (int)d.count,
                   d.digits, d.exponent);
    *out = strtod(text, NULL);
    return isfinite(*out);
}

static tide_status scan_number(tide_json_scan *scan, bool *is_integer, tide_error *err)
{
    const size_t start = scan->at;
    *is_integer = true;
    if (peek(scan) == '-')
        scan->at++;
    const bool is_led_by_zero = peek(scan) == '0';
    const size_t whole_len = skip_digits(scan);
    if (whole_len == 0)
        return fail_here(scan, "a digit is missing", err);
    if (is_led_by_zero && whole_len > 1)
        return tide_json_scan_fail(scan->text, start, "a number with a leading 0", err);
    if (peek(scan) == '.') {
        *is_integer = false;
        scan->at++;
        if (skip_digits(scan) == 0)
            return fail_here(scan, "a digit is missing", err);
    }
    size_t exponent_len = 0;
    if (peek(scan) == 'e' || peek(scan) == 'E') {
        *is_integer = false;
        scan->at++;
        if (peek(scan) == '+' || peek(scan) == '-')
            scan->at++;
        exponent_len = skip_digits(scan);
        if (exponent_len == 0)
            return fail_here(scan, "a digit is missing", err);
    }
    /* Below 10^(200 + 99) there is nothing to check. */
    double ignored;
    if ((whole_len > 200 || exponent_len > 2) &&
        !tide_json_scan_double(tide_view_bytes(scan->text.ptr + start, scan->at - start), &ignored))
        return tide_json_scan_fail(scan->text, start, "a number too large for a double", err);
    return TIDE_OK;
}

/* --- the grammar --- */

static bool is_in_object(const tide_json_scan *scan)
{
    const int level = scan->depth - 1;
    return scan->depth > 0 && (scan->is_object[level / 64] >> (level % 64) & 1U) != 0;
}

static void expect_after_value(tide_json_scan *scan)
{
    scan->expects = scan->depth > 0 ? EXPECT_COMMA_OR_END : EXPECT_NOTHING;
}

static tide_status begin_level(tide_json_scan *scan, bool is_object, tide_error *err)
{
    if (scan->depth == TIDE_JSON_NESTING_MAX)
        return fail_here(scan, "objects and arrays are nested too deeply", err);
    const uint64_t bit = UINT64_C(1) << (scan->depth % 64);
    uint64_t *bits = &scan->is_object[scan->depth / 64];
    *bits = is_object ? *bits | bit : *bits & ~bit;
    scan->depth++;
    scan->at++;
    scan->expects = is_object ? EXPECT_KEY_OR_END : EXPECT_VALUE_OR_END;
    return TIDE_OK;
}

static void end_level(tide_json_scan *scan)
{
    scan->depth--;
    scan->at++;
    expect_after_value(scan);
}

static bool scan_literal(tide_json_scan *scan, const char *literal)
{
    const size_t len = strlen(literal);
    if (scan->text.len - scan->at < len || memcmp(scan->text.ptr + scan->at, literal, len) != 0)
        return false;
    scan->at += len;
    return true;
}

static tide_status scan_scalar(tide_json_scan *scan, tide_json_token *token, tide_error *err)
{
    const char first = peek(scan);
    if (first == '"') {
        token->kind = TIDE_JSON_STRING;
        TIDE_TRY(scan_string(scan, &token->has_escape, err));
    } else if (first == '-' || (first >= '0' && first <= '9')) {
        token->kind = TIDE_JSON_NUMBER;
        TIDE_TRY(scan_number(scan, &token->is_integer, err));
    } else {
        token->kind = TIDE_JSON_LITERAL;
        if (!scan_literal(scan, "true") && !scan_literal(scan, "false") &&
            !scan_literal(scan, "null"))
            return fail_here(scan,
                             scan->at == scan->text.len ? "the text ends where a value belongs"
                                                        : "this is not a value",
                             err);
    }
    expect_after_value(scan);
    return TIDE_OK;
}

static tide_status scan_value(tide_json_scan *scan, tide_json_token *token, tide_error *err)
{
    switch (peek(scan)) {
    case '{':
        token->kind = TIDE_JSON_OBJECT_BEGIN;
        return begin_level(scan, true, err);
    case '[':
        token->kind = TIDE_JSON_ARRAY_BEGIN;
        return begin_level(scan, false, err);
    default:
        return scan_scalar(scan, token, err);
    }
}

/* A key and the colon behind it; *end is where the key ends. */
static tide_status scan_key(tide_json_scan *scan, tide_json_token *token, size_t *end,
                            tide_error *err)
{
    token->kind = TIDE_JSON_KEY;
    if (peek(scan) != '"')
        return fail_here(scan, "a key in quotes is missing", err);
    TIDE_TRY(scan_string(scan, &token->has_escape, err));
    *end = scan->at;
    skip_space(scan);
    if (peek(scan) != ':')
        return fail_here(scan, "a colon is missing", err);
    scan->at++;
    scan->expects = EXPECT_VALUE;
    return TIDE_OK;
}

/* Behind a member: its container ends (true), or a comma leads to the next. */
static tide_status scan_separator(tide_json_scan *scan, bool *is_end, tide_error *err)
{
    const bool is_object = is_in_object(scan);
    *is_end = peek(scan) == (is_object ? '}' : ']');
    if (*is_end)
        return TIDE_OK;
    if (peek(scan) != ',')
        return fail_here(scan, is_object ? "a comma or } is missing" : "a comma or ] is missing",
                         err);
    scan->at++;
    scan->expects = is_object ? EXPECT_KEY : EXPECT_VALUE;
    skip_space(scan);
    return TIDE_OK;
}

tide_status tide_json_scan_next(tide_json_scan *scan, tide_json_token *token, tide_error *err)
{
    *token = (tide_json_token){.kind = TIDE_JSON_END};
    skip_space(scan);
    bool is_end = false;
    if (scan->expects == EXPECT_COMMA_OR_END)
        TIDE_TRY(scan_separator(scan, &is_end, err));
    else if (scan->expects == EXPECT_VALUE_OR_END)
        is_end = peek(scan) == ']';
    else if (scan->expects == EXPECT_KEY_OR_END)
        is_end = peek(scan) == '}';

    token->offset = scan->at;
    size_t end = 0;
    if (is_end) {
        token->kind = is_in_object(scan) ? TIDE_JSON_OBJECT_END : TIDE_JSON_ARRAY_END;
        end_level(scan);
    } else if (scan->expects == EXPECT_KEY || scan->expects == EXPECT_KEY_OR_END) {
        TIDE_TRY(scan_key(scan, token, &end, err));
    } else if (scan->expects != EXPECT_NOTHING) {
        TIDE_TRY(scan_value(scan, token, err));
    } else if (scan->at < scan->text.len) {
        return fail_here(scan, "something follows the value", err);
    }
    if (end == 0)
        end = scan->at;
    token->text = tide_view_bytes(scan->text.ptr + token->offset, end - token->offset);
    return TIDE_OK;
}
