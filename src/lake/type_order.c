/* type_order.c - see type_order.h. */
#include "lake/type_order.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int sign_of(int value)
{
    return (value > 0) - (value < 0);
}

static int compare_bytes(tide_view a, tide_view b)
{
    const size_t len = a.len < b.len ? a.len : b.len;
    const int sign = len > 0 ? sign_of(memcmp(a.ptr, b.ptr, len)) : 0;
    return sign != 0 ? sign : (a.len > b.len) - (a.len < b.len);
}

/* ---- decimals: digits of any length ---- */

typedef struct decimal {
    bool is_negative;
    tide_view whole;    /* without leading zeros */
    tide_view fraction; /* without trailing zeros */
} decimal;

static bool read_decimal(tide_view text, decimal *out)
{
    *out = (decimal){.is_negative = text.len > 0 && text.ptr[0] == '-'};
    if (text.len > 0 && (text.ptr[0] == '-' || text.ptr[0] == '+')) {
        text.ptr++;
        text.len--;
    }
    const char *point = memchr(text.ptr, '.', text.len);
    out->whole = tide_view_bytes(text.ptr, point ? (size_t)(point - text.ptr) : text.len);
    out->fraction =
        point ? tide_view_bytes(point + 1, text.len - out->whole.len - 1) : tide_view_bytes("", 0);
    if (out->whole.len + out->fraction.len == 0)
        return false;
    for (size_t i = 0; i < text.len; i++)
        if (!isdigit((unsigned char)text.ptr[i]) && text.ptr + i != point)
            return false;
    while (out->whole.len > 0 && out->whole.ptr[0] == '0') {
        out->whole.ptr++;
        out->whole.len--;
    }
    while (out->fraction.len > 0 && out->fraction.ptr[out->fraction.len - 1] == '0')
        out->fraction.len--;
    if (out->whole.len + out->fraction.len == 0)
        out->is_negative = false; /* -0 */
    return true;
}

static bool compare_decimals(tide_view a, tide_view b, int *sign)
{
    decimal x;
    decimal y;
    if (!read_decimal(a, &x) || !read_decimal(b, &y))
        return false;
    if (x.is_negative != y.is_negative) {
        *sign = x.is_negative ? -1 : 1;
        return true;
    }
    int larger = (x.whole.len > y.whole.len) - (x.whole.len < y.whole.len);
    if (larger == 0)
        larger = compare_bytes(x.whole, y.whole);
    if (larger == 0)
        larger = compare_bytes(x.fraction, y.fraction);
    *sign = x.is_negative ? -larger : larger;
    return true;
}

/* ---- doubles ---- */

static bool read_double(tide_view text, double *out)
{
    char digits[64];
    if (text.len == 0 || text.len >= sizeof digits)
        return false;
    memcpy(digits, text.ptr, text.len);
    digits[text.len] = '\0';
    char *end = NULL;
    *out = strtod(digits, &end);
    return *end == '\0' && !isnan(*out);
}

static bool compare_doubles(tide_view a, tide_view b, int *sign)
{
    double x = 0;
    double y = 0;
    if (!read_double(a, &x) || !read_double(b, &y))
        return false;
    *sign = (x > y) - (x < y);
    return true;
}

/* ---- times ---- */

/* Length of the part that sorts as text: digits and - : . and the space between; what is behind it must be the same. 0: another form
 * (years of more or fewer digits, infinity). */
static size_t time_len(tide_view text)
{
    size_t len = 0;
    while (len < text.len &&
           (isdigit((unsigned char)text.ptr[len]) || strchr("-:. ", text.ptr[len])))
        len++;
    const bool is_date = len >= 10 && text.ptr[4] == '-' && text.ptr[7] == '-';
    const bool is_time = len >= 8 && text.ptr[2] == ':' && text.ptr[5] == ':';
    return is_date || is_time ? len : 0;
}

static bool compare_times(tide_view a, tide_view b, int *sign)
{
    const size_t a_len = time_len(a);
    const size_t b_len = time_len(b);
    if (a_len == 0 || b_len == 0 || (a.ptr[2] == ':') != (b.ptr[2] == ':') ||
        !tide_view_equal(tide_view_bytes(a.ptr + a_len, a.len - a_len),
                         tide_view_bytes(b.ptr + b_len, b.len - b_len)))
        return false;
    *sign = compare_bytes(tide_view_bytes(a.ptr, a_len), tide_view_bytes(b.ptr, b_len));
    return true;
}

bool tide_lake_compare(tide_lake_order order, tide_view a, tide_view b, int *sign)
{
    switch (order) {
    case TIDE_LAKE_ORDER_TEXT:
        *sign = compare_bytes(a, b);
        return true;
    case TIDE_LAKE_ORDER_DECIMAL:
        return compare_decimals(a, b, sign);
    case TIDE_LAKE_ORDER_DOUBLE:
        return compare_doubles(a, b, sign);
    case TIDE_LAKE_ORDER_TIME:
        return compare_times(a, b, sign);
    case TIDE_LAKE_ORDER_NONE:
        break;
    }
    return false;
}
