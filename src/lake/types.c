/* types.c - one table of types; see types.h. */
#include "lake/types.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lake/type_order.h"

enum { TYPE_SIZE = 256, DECIMAL_WIDTH_MAX = 38 };

/* DuckLake's word, DuckDB's name, other SQL names with | between them, and how values compare. */
static const struct {
    const char *word;
    const char *duckdb;
    const char *others;
    tide_lake_order order;
} types[] = {
    {"boolean", "BOOLEAN", "BOOL|LOGICAL", TIDE_LAKE_ORDER_TEXT},
    {"int8", "TINYINT", "INT1", TIDE_LAKE_ORDER_DECIMAL},
    {"int16", "SMALLINT", "INT2|SHORT|INT16", TIDE_LAKE_ORDER_DECIMAL},
    {"int32", "INTEGER", "INT|INT4|SIGNED|INT32", TIDE_LAKE_ORDER_DECIMAL},
    {"int64", "BIGINT", "INT8|LONG|INT64", TIDE_LAKE_ORDER_DECIMAL},
    {"int128", "HUGEINT", "INT128", TIDE_LAKE_ORDER_DECIMAL},
    {"uint8", "UTINYINT", "UINT8", TIDE_LAKE_ORDER_DECIMAL},
    {"uint16", "USMALLINT", "UINT16", TIDE_LAKE_ORDER_DECIMAL},
    {"uint32", "UINTEGER", "UINT32", TIDE_LAKE_ORDER_DECIMAL},
    {"uint64", "UBIGINT", "UINT64", TIDE_LAKE_ORDER_DECIMAL},
    {"uint128", "UHUGEINT", "UINT128", TIDE_LAKE_ORDER_DECIMAL},
    {"float32", "FLOAT", "FLOAT4|REAL|FLOAT32", TIDE_LAKE_ORDER_DOUBLE},
    {"float64", "DOUBLE", "FLOAT8|DOUBLE PRECISION|FLOAT64", TIDE_LAKE_ORDER_DOUBLE},
    {"varchar", "VARCHAR", "TEXT|STRING|CHAR|BPCHAR|CHARACTER VARYING", TIDE_LAKE_ORDER_TEXT},
    {"blob", "BLOB", "BYTEA|BINARY|VARBINARY", TIDE_LAKE_ORDER_NONE},
    {"date", "DATE", "", TIDE_LAKE_ORDER_TIME},
    {"time", "TIME", "TIME WITHOUT TIME ZONE", TIDE_LAKE_ORDER_TIME},
    {"timetz", "TIME WITH TIME ZONE", "TIMETZ", TIDE_LAKE_ORDER_NONE},
    {"timestamp", "TIMESTAMP", "DATETIME|TIMESTAMP_US|TIMESTAMP WITHOUT TIME ZONE",
     TIDE_LAKE_ORDER_TIME},
    {"timestamptz", "TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ", TIDE_LAKE_ORDER_TIME},
    {"timestamp_s", "TIMESTAMP_S", "", TIDE_LAKE_ORDER_TIME},
    {"timestamp_ms", "TIMESTAMP_MS", "", TIDE_LAKE_ORDER_TIME},
    {"timestamp_ns", "TIMESTAMP_NS", "", TIDE_LAKE_ORDER_TIME},
    {"interval", "INTERVAL", "", TIDE_LAKE_ORDER_NONE},
    {"uuid", "UUID", "", TIDE_LAKE_ORDER_TEXT},
    {"json", "JSON", "", TIDE_LAKE_ORDER_NONE},
};
enum { TYPES = sizeof types / sizeof types[0] };

/* Upper case, one space between words, none around parentheses and commas. False: too long. */
static bool normalise(char out[TYPE_SIZE], const char *sql)
{
    size_t len = 0;
    bool is_apart = false;
    for (; *sql; sql++) {
        if (isspace((unsigned char)*sql)) {
            is_apart = len > 0;
            continue;
        }
        const bool is_mark = *sql == '(' || *sql == ')' || *sql == ',';
        if (is_apart && !is_mark && !strchr("(,", out[len - 1]))
            out[len++] = ' ';
        is_apart = false;
        if (len + 2 >= TYPE_SIZE)
            return false;
        out[len++] = (char)toupper((unsigned char)*sql);
    }
    out[len] = '\0';
    return true;
}

static bool is_among(const char *list, const char *name)
{
    const size_t len = strlen(name);
    for (const char *at = list; *at;) {
        const size_t here = strcspn(at, "|");
        if (here == len && strncmp(at, name, len) == 0)
            return true;
        at += here + (at[here] == '|');
    }
    return false;
}

/* DECIMAL, DECIMAL(p), DECIMAL(p,s); DuckDB's default is (18,3). False: not one. */
static bool read_decimal(const char *name, int *width, int *scale)
{
    *width = 18;
    *scale = 3;
    const size_t word = strcspn(name, "(");
    const bool is_decimal = (word == 7 && strncmp(name, "DECIMAL", word) == 0) ||
                            (word == 7 && strncmp(name, "NUMERIC", word) == 0) ||
                            (word == 3 && strncmp(name, "DEC", word) == 0);
    if (!is_decimal || !name[word])
        return is_decimal;
    char *end = NULL;
    *width = (int)strtol(name + word + 1, &end, 10);
    *scale = 0;
    if (*end == ',')
        *scale = (int)strtol(end + 1, &end, 10);
    return strcmp(end, ")") == 0 && *width >= 1 && *width <= DECIMAL_WIDTH_MAX && *scale >= 0 &&
           *scale <= *width;
}

static tide_status fail_type(const char *sql, const char *name, tide_error *err)
{
    static const char *const nested[] = {"STRUCT", "MAP", "UNION", "LIST", "ROW", "ARRAY"};
    bool is_nested = strchr(name, '[') != NULL;
    for (size_t i = 0; i < sizeof nested / sizeof nested[0]; i++)
        is_nested = is_nested || strncmp(name, nested[i], strlen(nested[i])) == 0;
    if (is_nested)
        return tide_fail(err, TIDE_E_INVALID,
                         "'%.60s' is a nested type: tables here have plain columns; store it as "
                         "JSON or in columns of its own",
                         sql);
    return tide_fail(err, TIDE_E_INVALID,
                     "'%.60s' is not a type: use BOOLEAN, TINYINT, SMALLINT, INTEGER, BIGINT, "
                     "their unsigned forms (UBIGINT, ...), FLOAT, DOUBLE, DECIMAL(p,s), "
                     "VARCHAR, BLOB, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, INTERVAL, UUID or JSON",
                     sql);
}

bool tide_lake_type_is_too_wide(const char *type)
{
    return strcmp(type, "int128") == 0 || strcmp(type, "uint128") == 0;
}

tide_status tide_lake_type_parse(char out[256], const char *sql, tide_error *err)
{
    char name[TYPE_SIZE] = "";
    int width = 0;
    int scale = 0;
    if (!normalise(name, sql))
        return fail_type(sql, "", err);
    /* VARCHAR(20): DuckDB reads the length and does not keep it. */
    const char *base =
        strncmp(name, "VARCHAR(", 8) == 0 || strncmp(name, "CHAR(", 5) == 0 ? "VARCHAR" : name;
    for (int i = 0; i < TYPES; i++) {
        if (strcmp(base, types[i].duckdb) == 0 || is_among(types[i].others, base)) {
            if (tide_lake_type_is_too_wide(types[i].word))
                return tide_fail(err, TIDE_E_INVALID,
                                 "Parquet keeps %s as a double and so loses digits: use "
                                 "DECIMAL(38,0)",
                                 types[i].duckdb);
            (void)snprintf(out, 256, "%s", types[i].word);
            return TIDE_OK;
        }
    }
    if (!read_decimal(name, &width, &scale))
        return fail_type(sql, name, err);
    (void)snprintf(out, 256, "decimal(%d,%d)", width, scale);
    return TIDE_OK;
}

static int find_word(const char *type)
{
    for (int i = 0; i < TYPES; i++)
        if (strcmp(types[i].word, type) == 0)
            return i;
    return -1;
}

static bool decimal_of(const char *type, int *width, int *scale)
{
    static const char word[] = "decimal(";
    char *end = NULL;
    if (strncmp(type, word, sizeof word - 1) != 0)
        return false;
    *width = (int)strtol(type + sizeof word - 1, &end, 10);
    if (*end != ',')
        return false;
    *scale = (int)strtol(end + 1, &end, 10);
    return strcmp(end, ")") == 0 && *width >= 1 && *width <= DECIMAL_WIDTH_MAX && *scale >= 0 &&
           *scale <= *width;
}

tide_status tide_lake_type_duckdb(char out[256], const char *type, tide_error *err)
{
    int width = 0;
    int scale = 0;
    const int at = find_word(type);
    if (at >= 0) {
        (void)snprintf(out, 256, "%s", types[at].duckdb);
        return TIDE_OK;
    }
    if (!decimal_of(type, &width, &scale))
        return tide_fail(err, TIDE_E_UNSUPPORTED,
                         "a column has the type %.60s, which this program cannot read or write: "
                         "use a stock DuckLake client for this table",
                         type);
    (void)snprintf(out, 256, "DECIMAL(%d,%d)", width, scale);
    return TIDE_OK;
}

tide_lake_order tide_lake_type_order(const char *type)
{
    int width = 0;
    int scale = 0;
    const int at = find_word(type);
    if (at >= 0)
        return types[at].order;
    return decimal_of(type, &width, &scale) ? TIDE_LAKE_ORDER_DECIMAL : TIDE_LAKE_ORDER_NONE;
}

bool tide_lake_type_widens(const char *from, const char *to)
{
    /* DuckLake's promotions: each row, what a type may become. */
    static const struct {
        const char *from;
        const char *to;
    } wider[] = {
        {"int8", "int16|int32|int64"},
        {"int16", "int32|int64"},
        {"int32", "int64"},
        {"uint8", "uint16|uint32|uint64|int16|int32|int64"},
        {"uint16", "uint32|uint64|int32|int64"},
        {"uint32", "uint64|int64"},
        {"float32", "float64"},
        {"timestamp", "timestamptz"},
        {"date", "timestamp"},
    };
    for (size_t i = 0; i < sizeof wider / sizeof wider[0]; i++)
        if (strcmp(wider[i].from, from) == 0 && is_among(wider[i].to, to))
            return true;
    int width[2];
    int scale[2];
    return decimal_of(from, &width[0], &scale[0]) && decimal_of(to, &width[1], &scale[1]) &&
           scale[1] == scale[0] && width[1] > width[0];
}
