/* The hash of buckets, as a function that statements can call. */
#include <stdatomic.h>
#include <string.h>

#include "store/duckdb/duckdb_internal.h"

/* ---- Murmur3, x86, 32 bits, seed 0 ---- */

static uint32_t turn(uint32_t x, int by)
{
    return x << by | x >> (32 - by);
}

static uint32_t mix(uint32_t word)
{
    return turn(word * UINT32_C(0xcc9e2d51), 15) * UINT32_C(0x1b873593);
}

static uint32_t murmur3(const void *bytes, size_t len)
{
    const uint8_t *at = bytes;
    uint32_t hash = 0;
    for (size_t left = len; left >= 4; left -= 4, at += 4) {
        const uint32_t word =
            (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
        hash = turn(hash ^ mix(word), 13) * 5 + UINT32_C(0xe6546b64);
    }
    uint32_t tail = 0;
    for (size_t i = len % 4; i > 0; i--)
        tail = tail << 8 | at[i - 1];
    if (len % 4)
        hash ^= mix(tail);
    hash ^= (uint32_t)len;
    hash = (hash ^ hash >> 16) * UINT32_C(0x85ebca6b);
    hash = (hash ^ hash >> 13) * UINT32_C(0xc2b2ae35);
    return hash ^ hash >> 16;
}

static uint32_t hash_long(int64_t number)
{
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)((uint64_t)number >> (8 * i));
    return murmur3(bytes, sizeof bytes);
}

static uint32_t hash_double(double number)
{
    int64_t bits;
    const double plain = number == 0 ? 0 : number; /* -0.0 too */
    memcpy(&bits, &plain, sizeof bits);
    return hash_long(bits);
}

/* ---- values as they are stored ---- */

static uint32_t hash_at(duckdb_type type, const void *values, idx_t row, bool *is_known)
{
    switch ((int)type) {
    case DUCKDB_TYPE_BOOLEAN:
        return hash_long(((const bool *)values)[row]);
    case DUCKDB_TYPE_TINYINT:
        return hash_long(((const int8_t *)values)[row]);
    case DUCKDB_TYPE_SMALLINT:
        return hash_long(((const int16_t *)values)[row]);
    case DUCKDB_TYPE_INTEGER:
    case DUCKDB_TYPE_DATE:
        return hash_long(((const int32_t *)values)[row]);
    case DUCKDB_TYPE_BIGINT:
    case DUCKDB_TYPE_TIME:
    case DUCKDB_TYPE_TIME_TZ:
    case DUCKDB_TYPE_TIMESTAMP:
    case DUCKDB_TYPE_TIMESTAMP_TZ:
    case DUCKDB_TYPE_TIMESTAMP_S:
    case DUCKDB_TYPE_TIMESTAMP_MS:
    case DUCKDB_TYPE_TIMESTAMP_NS:
        return hash_long(((const int64_t *)values)[row]);
    case DUCKDB_TYPE_FLOAT:
        return hash_double((double)((const float *)values)[row]);
    case DUCKDB_TYPE_DOUBLE:
        return hash_double(((const double *)values)[row]);
    case DUCKDB_TYPE_VARCHAR:
    case DUCKDB_TYPE_BLOB: {
        const tide_view text = tide_duck_string(&((const duckdb_string_t *)values)[row]);
        return murmur3(text.ptr, text.len);
    }
    default:
        *is_known = false;
        return 0;
    }
}

/* A callback gets no pointer of ours before it has asked the library; there is one library in a
 * process. */
static _Atomic(const tide_duckdb_api *) library;

static void hash_all(duckdb_function_info info, duckdb_data_chunk input, duckdb_vector output)
{
    const tide_duckdb_api *api = atomic_load(&library);
    duckdb_vector vector = api->data_chunk_get_vector(input, 0);
    duckdb_logical_type logical = api->vector_get_column_type(vector);
    duckdb_type type = api->get_type_id(logical);
    if (type == DUCKDB_TYPE_DECIMAL)
        type = api->decimal_internal_type(logical);
    api->destroy_logical_type(&logical);
    const void *values = api->vector_get_data(vector);
    int32_t *hashes = api->vector_get_data(output);
    bool is_known = true;
    const idx_t count = api->data_chunk_get_size(input);
    for (idx_t row = 0; row < count && is_known; row++) {
        if (tide_duck_is_valid(api, vector, row)) {
            hashes[row] = (int32_t)hash_at(type, values, row, &is_known);
            continue;
        }
        api->vector_ensure_validity_writable(output);
        api->validity_set_row_invalid(api->vector_get_validity(output), row);
    }
    if (!is_known)
        api->scalar_function_set_error(info, "Invalid Input Error: a type that has no hash");
}

static duckdb_state describe(const tide_duckdb_api *api, duckdb_scalar_function function,
                             duckdb_connection connection)
{
    duckdb_logical_type any = api->create_logical_type(DUCKDB_TYPE_ANY);
    duckdb_logical_type integer = api->create_logical_type(DUCKDB_TYPE_INTEGER);
    api->scalar_function_set_name(function, "tide_murmur3");
    api->scalar_function_add_parameter(function, any);
    api->scalar_function_set_return_type(function, integer);
    api->scalar_function_set_function(function, hash_all);
    const duckdb_state state = api->register_scalar_function(connection, function);
    api->destroy_logical_type(&any);
    api->destroy_logical_type(&integer);
    return state;
}

tide_status tide_duck_add_murmur3(tide_duck *duck, tide_error *err)
{
    atomic_store(&library, duck->api);
    duckdb_scalar_function function = duck->api->create_scalar_function();
    const duckdb_state state = describe(duck->api, function, duck->handle);
    duck->api->destroy_scalar_function(&function);
    return state == DuckDBError
               ? tide_fail(err, TIDE_E_UNAVAILABLE, "this DuckDB takes no function of ours")
               : TIDE_OK;
}
