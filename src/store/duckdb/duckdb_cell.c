/* Values of DuckDB as text: what has no type of ours, and everything inside lists, structs and
 * maps. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text/timefmt.h"
#include "store/duckdb/duckdb_internal.h"

__extension__ typedef unsigned __int128 wide;

bool tide_duck_is_valid(const tide_duckdb_api *api, duckdb_vector vector, idx_t row)
{
    uint64_t *validity = api->vector_get_validity(vector);
    return !validity || api->validity_row_is_valid(validity, row);
}

tide_view tide_duck_string(const duckdb_string_t *string)
{
    const uint32_t len = string->value.inlined.length;
    return tide_view_bytes(len <= 12 ? string->value.inlined.inlined : string->value.pointer.ptr,
                           len);
}

/* ---- numbers ---- */

/* Decimal digits of a number, with scale of them behind a point. */
static tide_status put_digits(tide_buffer *out, wide number, bool is_negative, int scale)
{
    char text[64];
    char *at = text + sizeof text;
    int digits = 0;
    do {
        if (digits == scale && scale > 0)
            *--at = '.';
        *--at = (char)('0' + (int)(number % 10));
        number /= 10;
        digits++;
    } while (number > 0 || digits <= scale);
    if (is_negative)
        *--at = '-';
    return tide_buffer_append(out, at, (size_t)(text + sizeof text - at));
}

static tide_status put_huge(tide_buffer *out, duckdb_hugeint number, int scale)
{
    const wide bits = ((wide)(uint64_t)number.upper << 64) | number.lower;
    const bool is_negative = number.upper < 0;
    return put_digits(out, is_negative ? (wide)0 - bits : bits, is_negative, scale);
}

static tide_status put_i64(tide_buffer *out, int64_t number, int scale)
{
    const bool is_negative = number < 0;
    const uint64_t size = is_negative ? 0 - (uint64_t)number : (uint64_t)number;
    return put_digits(out, size, is_negative, scale);
}

/* The shortest of the usual precisions that reads back as the same number. */
static tide_status put_f64(tide_buffer *out, double number)
{
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, number);
        if (isnan(number) || strtod(text, NULL) == number)
            break;
    }
    return tide_buffer_append_text(out, text);
}

static int64_t integer_at(duckdb_type type, const void *values, idx_t row)
{
    switch ((int)type) {
    case DUCKDB_TYPE_TINYINT:
        return ((const int8_t *)values)[row];
    case DUCKDB_TYPE_SMALLINT:
        return ((const int16_t *)values)[row];
    case DUCKDB_TYPE_INTEGER:
        return ((const int32_t *)values)[row];
    case DUCKDB_TYPE_UTINYINT:
        return ((const uint8_t *)values)[row];
    case DUCKDB_TYPE_USMALLINT:
        return ((const uint16_t *)values)[row];
    case DUCKDB_TYPE_UINTEGER:
        return ((const uint32_t *)values)[row];
    default:
        return ((const int64_t *)values)[row];
    }
}

static tide_status put_decimal(const tide_duckdb_api *api, tide_buffer *out,
                               duckdb_logical_type type, const void *values, idx_t row)
{
    const int scale = api->decimal_scale(type);
    const duckdb_type inside = api->decimal_internal_type(type);
    if (inside == DUCKDB_TYPE_HUGEINT)
        return put_huge(out, ((const duckdb_hugeint *)values)[row], scale);
    return put_i64(out, integer_at(inside, values, row), scale);
}

/* ---- times ---- */

static tide_status put_time(tide_buffer *out, int64_t us, const char *zone)
{
    if (us == INT64_MAX || us == -INT64_MAX)
        return tide_buffer_append_text(out, us > 0 ? "infinity" : "-infinity");
    char text[TIDE_TIME_TEXT_SIZE];
    if (tide_time_format(us, text) < TIDE_OK) /* outside the years 1 to 9999 */
        return tide_buffer_printf(out, "%" PRId64 " us", us);
    return tide_buffer_printf(out, "%s%s", text, zone);
}

/* A smaller unit than seconds does not overflow; a larger one is checked. */
static tide_status put_scaled_time(tide_buffer *out, int64_t value, int64_t factor)
{
    int64_t us;
    if (value == INT64_MAX || value == -INT64_MAX || __builtin_mul_overflow(value, factor, &us))
        us = value > 0 ? INT64_MAX : -INT64_MAX;
    return put_time(out, us, "");
}

static tide_status put_time_ns(tide_buffer *out, int64_t ns)
{
    if (ns == INT64_MAX || ns == -INT64_MAX)
        return put_time(out, ns, "");
    const int rest = (int)(((ns % 1000) + 1000) % 1000);
    char digits[16];
    (void)snprintf(digits, sizeof digits, "%03d", rest);
    return put_time(out, (ns - rest) / 1000, digits);
}

static tide_status put_date(tide_buffer *out, int32_t days)
{
    char text[TIDE_TIME_TEXT_SIZE];
    if (days == INT32_MAX || days == -INT32_MAX)
        return tide_buffer_append_text(out, days > 0 ? "infinity" : "-infinity");
    if (tide_time_format(days * INT64_C(86400000000), text) < TIDE_OK)
        return tide_buffer_printf(out, "%" PRId32 " d", days);
    return tide_buffer_append(out, text, 10);
}

static tide_status put_clock(tide_buffer *out, int64_t us)
{
    return tide_buffer_printf(out, "%02d:%02d:%02d.%06d", (int)(us / 3600000000),
                              (int)(us / 60000000 % 60), (int)(us / 1000000 % 60),
                              (int)(us % 1000000));
}

/* 40 bits of time, 24 of what its offset from UTC, in seconds, leaves of 16 hours. */
static tide_status put_clock_tz(tide_buffer *out, uint64_t bits)
{
    const int offset = 16 * 3600 - 1 - (int)(bits & 0xffffff);
    const int size = offset < 0 ? -offset : offset;
    TIDE_TRY(put_clock(out, (int64_t)(bits >> 24)));
    TIDE_TRY(tide_buffer_printf(out, "%c%02d", offset < 0 ? '-' : '+', size / 3600));
    if (size % 3600 != 0)
        TIDE_TRY(tide_buffer_printf(out, ":%02d", size / 60 % 60));
    return size % 60 != 0 ? tide_buffer_printf(out, ":%02d", size % 60) : TIDE_OK;
}

static tide_status put_interval(tide_buffer *out, const duckdb_interval *interval)
{
    const int64_t us = interval->micros < 0 ? -interval->micros : interval->micros;
    const tide_status status =
        tide_buffer_printf(out, "%" PRId32 " months %" PRId32 " days %s", interval->months,
                           interval->days, interval->micros < 0 ? "-" : "");
    return status < TIDE_OK ? status : put_clock(out, us);
}

static tide_status put_uuid(tide_buffer *out, duckdb_hugeint number)
{
    /* Stored with its first bit turned over, so that it sorts as text does. */
    const uint64_t high = (uint64_t)number.upper ^ (UINT64_C(1) << 63);
    return tide_buffer_printf(out, "%08x-%04x-%04x-%04x-%012" PRIx64, (unsigned)(high >> 32),
                              (unsigned)(high >> 16 & 0xffff), (unsigned)(high & 0xffff),
                              (unsigned)(number.lower >> 48),
                              number.lower & UINT64_C(0xffffffffffff));
}

/* ---- what is made of other values ---- */

static tide_status put_enum(const tide_duckdb_api *api, tide_buffer *out, duckdb_logical_type type,
                            const void *values, idx_t row)
{
    const int64_t index = integer_at(api->enum_internal_type(type), values, row);
    char *text = api->enum_dictionary_value(type, (idx_t)index);
    const tide_status status = tide_buffer_append_text(out, text ? text : "");
    api->free(text);
    return status;
}

static tide_status put_run(const tide_duckdb_api *api, tide_buffer *out, duckdb_logical_type type,
                           duckdb_vector child, idx_t first, idx_t count)
{
    TIDE_TRY(tide_buffer_append_byte(out, '['));
    for (idx_t i = 0; i < count; i++) {
        if (i > 0)
            TIDE_TRY(tide_buffer_append_byte(out, ','));
        TIDE_TRY(tide_duck_render(api, out, type, child, first + i));
    }
    return tide_buffer_append_byte(out, ']');
}

static tide_status put_list(const tide_duckdb_api *api, tide_buffer *out, duckdb_logical_type type,
                            duckdb_vector vector, idx_t row)
{
    const duckdb_list_entry *entries = api->vector_get_data(vector);
    duckdb_logical_type child = api->list_type_child_type(type);
    const tide_status status = put_run(api, out, child, api->list_vector_get_child(vector),
                                       entries[row].offset, entries[row].length);
    api->destroy_logical_type(&child);
    return status;
}

static tide_status put_array(const tide_duckdb_api *api, tide_buffer *out, duckdb_logical_type type,
                             duckdb_vector vector, idx_t row)
{
    const idx_t size = api->array_type_array_size(type);
    duckdb_logical_type child = api->array_type_child_type(type);
    const tide_status status =
        put_run(api, out, child, api->array_vector_get_child(vector), row * size, size);
    api->destroy_logical_type(&child);
    return status;
}

static tide_status put_field(const tide_duckdb_api *api, tide_buffer *out, duckdb_logical_type type,
                             duckdb_vector vector, idx_t row, idx_t field)
{
    char *name = api->struct_type_child_name(type, field);
    tide_status status =
        tide_buffer_printf(out, "%s'%s': ", field > 0 ? ", " : "", name ? name : "");
    api->free(name);
    if (status < TIDE_OK)
        return status;
    duckdb_logical_type child = api->struct_type_child_type(type, field);
    status = tide_duck_render(api, out, child, api->struct_vector_get_child(vector, field), row);
    api->destroy_logical_type(&child);
    return status;
}

static tide_status put_struct(const tide_duckdb_api *api, tide_buffer *out,
                              duckdb_logical_type type, duckdb_vector vector, idx_t row)
{
    const idx_t count = api->struct_type_child_count(type);
    TIDE_TRY(tide_buffer_append_byte(out, '{'));
    for (idx_t field = 0; field < count; field++)
        TIDE_TRY(put_field(api, out, type, vector, row, field));
    return tide_buffer_append_byte(out, '}');
}

static tide_status put_hex(tide_buffer *out, tide_view bytes)
{
    TIDE_TRY(tide_buffer_append_text(out, "\\x"));
    for (size_t i = 0; i < bytes.len; i++)
        TIDE_TRY(tide_buffer_printf(out, "%02x", (unsigned)(unsigned char)bytes.ptr[i]));
    return TIDE_OK;
}

tide_status tide_duck_render(const tide_duckdb_api *api, tide_buffer *out, duckdb_logical_type type,
                             duckdb_vector vector, idx_t row)
{
    if (!tide_duck_is_valid(api, vector, row))
        return tide_buffer_append_text(out, "NULL");
    const duckdb_type id = api->get_type_id(type);
    const void *values = api->vector_get_data(vector);
    switch ((int)id) {
    case DUCKDB_TYPE_BOOLEAN:
        return tide_buffer_append_text(out, ((const bool *)values)[row] ? "true" : "false");
    case DUCKDB_TYPE_TINYINT:
    case DUCKDB_TYPE_SMALLINT:
    case DUCKDB_TYPE_INTEGER:
    case DUCKDB_TYPE_BIGINT:
    case DUCKDB_TYPE_UTINYINT:
    case DUCKDB_TYPE_USMALLINT:
    case DUCKDB_TYPE_UINTEGER:
        return put_i64(out, integer_at(id, values, row), 0);
    case DUCKDB_TYPE_UBIGINT:
        return put_digits(out, ((const uint64_t *)values)[row], false, 0);
    case DUCKDB_TYPE_FLOAT:
        return tide_buffer_printf(out, "%.9g", (double)((const float *)values)[row]);
    case DUCKDB_TYPE_DOUBLE:
        return put_f64(out, ((const double *)values)[row]);
    case DUCKDB_TYPE_HUGEINT:
        return put_huge(out, ((const duckdb_hugeint *)values)[row], 0);
    case DUCKDB_TYPE_UHUGEINT: {
        const duckdb_uhugeint *huge = &((const duckdb_uhugeint *)values)[row];
        return put_digits(out, ((wide)huge->upper << 64) | huge->lower, false, 0);
    }
    case DUCKDB_TYPE_DECIMAL:
        return put_decimal(api, out, type, values, row);
    case DUCKDB_TYPE_TIMESTAMP:
        return put_time(out, ((const int64_t *)values)[row], "");
    case DUCKDB_TYPE_TIMESTAMP_TZ:
        return put_time(out, ((const int64_t *)values)[row], "+00");
    case DUCKDB_TYPE_TIMESTAMP_S:
        return put_scaled_time(out, ((const int64_t *)values)[row], 1000000);
    case DUCKDB_TYPE_TIMESTAMP_MS:
        return put_scaled_time(out, ((const int64_t *)values)[row], 1000);
    case DUCKDB_TYPE_TIMESTAMP_NS:
        return put_time_ns(out, ((const int64_t *)values)[row]);
    case DUCKDB_TYPE_DATE:
        return put_date(out, ((const int32_t *)values)[row]);
    case DUCKDB_TYPE_TIME:
        return put_clock(out, ((const int64_t *)values)[row]);
    case DUCKDB_TYPE_TIME_NS:
        return put_clock(out, ((const int64_t *)values)[row] / 1000);
    case DUCKDB_TYPE_TIME_TZ:
        return put_clock_tz(out, ((const uint64_t *)values)[row]);
    case DUCKDB_TYPE_INTERVAL:
        return put_interval(out, &((const duckdb_interval *)values)[row]);
    case DUCKDB_TYPE_UUID:
        return put_uuid(out, ((const duckdb_hugeint *)values)[row]);
    case DUCKDB_TYPE_ENUM:
        return put_enum(api, out, type, values, row);
    case DUCKDB_TYPE_VARCHAR:
        return tide_buffer_append_view(out,
                                       tide_duck_string(&((const duckdb_string_t *)values)[row]));
    case DUCKDB_TYPE_BLOB:
    case DUCKDB_TYPE_BIT:
    case DUCKDB_TYPE_BIGNUM:
        return put_hex(out, tide_duck_string(&((const duckdb_string_t *)values)[row]));
    case DUCKDB_TYPE_LIST:
    case DUCKDB_TYPE_MAP: /* a list of pairs */
        return put_list(api, out, type, vector, row);
    case DUCKDB_TYPE_ARRAY:
        return put_array(api, out, type, vector, row);
    case DUCKDB_TYPE_STRUCT:
        return put_struct(api, out, type, vector, row);
    default:
        return tide_buffer_printf(out, "(type %d)", (int)id);
    }
}
