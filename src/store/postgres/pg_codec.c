/* pg_codec.c - values in PostgreSQL's binary form: big endian, types by their well-known
 * numbers. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/uuid.h"
#include "store/postgres/pg_connection.h"

/* From the server's catalogue; fixed for ever. */
enum {
    OID_BOOL = 16,
    OID_BYTEA = 17,
    OID_NAME = 19,
    OID_INT8 = 20,
    OID_INT2 = 21,
    OID_INT4 = 23,
    OID_TEXT = 25,
    OID_OID = 26,
    OID_JSON = 114,
    OID_FLOAT8 = 701,
    OID_BPCHAR = 1042,
    OID_VARCHAR = 1043,
    OID_TIMESTAMP = 1114,
    OID_TIMESTAMPTZ = 1184,
    OID_UUID = 2950,
    OID_JSONB = 3802,
};

#define PG_EPOCH_US INT64_C(946684800000000) /* 2000-01-01 */

static void put_big_endian(char *out, uint64_t value, int len)
{
    for (int i = 0; i < len; i++)
        out[i] = (char)(value >> (8 * (len - 1 - i)));
}

static uint64_t get_big_endian(const char *bytes, int len)
{
    uint64_t value = 0;
    for (int i = 0; i < len; i++)
        value = value << 8 | (unsigned char)bytes[i];
    return value;
}

static tide_status encode_fixed(tide_pg_param *out, uint64_t value, int len, tide_arena *arena,
                                tide_error *err)
{
    char *bytes = tide_arena_alloc(arena, (size_t)len);
    TIDE_NEED_MEMORY(bytes, err);
    put_big_endian(bytes, value, len);
    *out = (tide_pg_param){.bytes = bytes, .len = len};
    return TIDE_OK;
}

static uint64_t bits_of(double value)
{
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static tide_status encode_number(tide_pg_param *out, const tide_sql_value *value, Oid type,
                                 tide_arena *arena, tide_error *err)
{
    const int64_t number = value->i64;
    switch (type) {
    case OID_BOOL:
        return encode_fixed(out, number != 0, 1, arena, err);
    case OID_INT8:
        return encode_fixed(out, (uint64_t)number, 8, arena, err);
    case OID_INT4:
        if (number < INT32_MIN || number > INT32_MAX)
            return tide_fail(err, TIDE_E_INVALID, "a value does not fit into 32 bits");
        return encode_fixed(out, (uint64_t)number, 4, arena, err);
    case OID_FLOAT8:
        return encode_fixed(out, bits_of((double)number), 8, arena, err);
    default:
        assert(false && "a number is bound where the statement wants another type: add a CAST");
        return TIDE_E_FAILED;
    }
}

static tide_status encode_text(tide_pg_param *out, tide_view text, Oid type, tide_arena *arena,
                               tide_error *err)
{
    if (text.len > INT32_MAX - 1)
        return tide_fail(err, TIDE_E_LIMIT, "a text of more than 2 GiB");
    if (type == OID_UUID) {
        tide_uuid uuid;
        if (tide_uuid_parse(&uuid, text) != TIDE_OK)
            return tide_fail(err, TIDE_E_INVALID, "not a UUID: %.*s", (int)text.len, text.ptr);
        char *bytes = tide_arena_copy(arena, uuid.bytes, sizeof uuid.bytes);
        TIDE_NEED_MEMORY(bytes, err);
        *out = (tide_pg_param){.bytes = bytes, .len = (int)sizeof uuid.bytes};
        return TIDE_OK;
    }
    if (type == OID_JSONB) {
        char *bytes = tide_arena_alloc(arena, text.len + 1);
        TIDE_NEED_MEMORY(bytes, err);
        bytes[0] = 1; /* the version of jsonb's text form */
        memcpy(bytes + 1, text.ptr, text.len);
        *out = (tide_pg_param){.bytes = bytes, .len = (int)text.len + 1};
        return TIDE_OK;
    }
    assert((type == OID_TEXT || type == OID_VARCHAR || type == OID_BPCHAR || type == OID_NAME ||
            type == OID_JSON) &&
           "a text is bound where the statement wants another type: add a CAST");
    *out = (tide_pg_param){.bytes = text.ptr, .len = (int)text.len};
    return TIDE_OK;
}

tide_status tide_pg_encode(tide_pg_param *out, const tide_sql_value *value, Oid type,
                           tide_arena *arena, tide_error *err)
{
    switch (value->kind) {
    case TIDE_SQL_VALUE_NULL:
        *out = (tide_pg_param){0};
        return TIDE_OK;
    case TIDE_SQL_VALUE_I64:
    case TIDE_SQL_VALUE_BOOL:
        return encode_number(out, value, type, arena, err);
    case TIDE_SQL_VALUE_F64:
        assert(type == OID_FLOAT8);
        return encode_fixed(out, bits_of(value->f64), 8, arena, err);
    case TIDE_SQL_VALUE_TEXT:
        return encode_text(out, value->bytes, type, arena, err);
    case TIDE_SQL_VALUE_BLOB:
        assert(type == OID_BYTEA);
        if (value->bytes.len > INT32_MAX)
            return tide_fail(err, TIDE_E_LIMIT, "a blob of more than 2 GiB");
        *out = (tide_pg_param){.bytes = value->bytes.ptr, .len = (int)value->bytes.len};
        return TIDE_OK;
    case TIDE_SQL_VALUE_TIME:
        assert(type == OID_TIMESTAMPTZ || type == OID_TIMESTAMP);
        return encode_fixed(out, (uint64_t)value->i64 - (uint64_t)PG_EPOCH_US, 8, arena, err);
    }
    return tide_fail(err, TIDE_E_FAILED, "a value of unknown kind");
}

static tide_sql_value number_value(tide_sql_value_kind kind, int64_t number)
{
    return (tide_sql_value){.kind = kind, .i64 = number};
}

tide_sql_value tide_pg_decode(const char *bytes, int len, Oid type)
{
    tide_sql_value value = {.kind = TIDE_SQL_VALUE_TEXT,
                            .bytes = {.ptr = bytes, .len = (size_t)len}};
    switch (type) {
    case OID_BOOL:
        return number_value(TIDE_SQL_VALUE_BOOL, bytes[0] != 0);
    case OID_INT2:
        return number_value(TIDE_SQL_VALUE_I64, (int16_t)get_big_endian(bytes, 2));
    case OID_INT4:
        return number_value(TIDE_SQL_VALUE_I64, (int32_t)get_big_endian(bytes, 4));
    case OID_OID:
        return number_value(TIDE_SQL_VALUE_I64, (int64_t)get_big_endian(bytes, 4));
    case OID_INT8:
        return number_value(TIDE_SQL_VALUE_I64, (int64_t)get_big_endian(bytes, 8));
    case OID_TIMESTAMP:
    case OID_TIMESTAMPTZ:
        return number_value(TIDE_SQL_VALUE_TIME,
                            (int64_t)(get_big_endian(bytes, 8) + (uint64_t)PG_EPOCH_US));
    case OID_FLOAT8: {
        const uint64_t bits = get_big_endian(bytes, 8);
        value.kind = TIDE_SQL_VALUE_F64;
        memcpy(&value.f64, &bits, sizeof bits);
        return value;
    }
    case OID_BYTEA:
        value.kind = TIDE_SQL_VALUE_BLOB;
        return value;
    case OID_JSONB:
        value.bytes = tide_view_bytes(bytes + 1, (size_t)len - 1);
        return value;
    case OID_UUID:
        value.kind = TIDE_SQL_VALUE_BLOB; /* 16 bytes; a statement that wants text casts */
        return value;
    default:
        return value;
    }
}

/* Longest prefix first; a class is two characters. */
static const struct {
    const char *prefix;
    tide_status status;
} sqlstates[] = {
    {"40001", TIDE_E_SERIALIZATION},
    {"40P01", TIDE_E_SERIALIZATION},
    {"23505", TIDE_E_EXISTS},
    {"23514", TIDE_E_INVALID},
    {"23502", TIDE_E_INVALID},
    {"23", TIDE_E_CONFLICT},
    {"22003", TIDE_E_EXHAUSTED},
    {"22", TIDE_E_INVALID},
    {"28", TIDE_E_UNAUTHENTICATED},
    {"42501", TIDE_E_DENIED},
    {"25006", TIDE_E_DENIED},
    {"25P03", TIDE_E_TIMEOUT},
    {"53100", TIDE_E_FULL},
    {"53200", TIDE_E_NOMEM},
    {"53", TIDE_E_UNAVAILABLE},
    {"55P03", TIDE_E_BUSY},
    {"57014", TIDE_E_TIMEOUT},
    {"57P", TIDE_E_UNAVAILABLE},
    {"08", TIDE_E_UNAVAILABLE},
    {"XX001", TIDE_E_DAMAGED},
    {"XX002", TIDE_E_DAMAGED},
    {"P0001", TIDE_E_CONFLICT},
    {"TM001", TIDE_E_CONFLICT}, /* raised by lake_refuse (sql/lake_schema.sql) */
    {"54", TIDE_E_LIMIT},
    {"58030", TIDE_E_IO},
    {"3F000", TIDE_E_INVALID},
    {"42P07", TIDE_E_FOREIGN}, /* a table of the schema exists: a database of another program */
};

tide_status tide_pg_status_of(const char *sqlstate)
{
    if (!sqlstate)
        return TIDE_E_UNAVAILABLE;
    for (size_t i = 0; i < sizeof sqlstates / sizeof sqlstates[0]; i++)
        if (strncmp(sqlstate, sqlstates[i].prefix, strlen(sqlstates[i].prefix)) == 0)
            return sqlstates[i].status;
    return TIDE_E_FAILED;
}
