/* duckdb_api.h - the part of DuckDB's C interface that we call, as tables.
 *
 * The library is opened at run time (duckdb_library.c), so nothing of DuckDB is needed to compile:
 * its own header comes in a package of 4,400 others. tests/store/duckdb/duckdb_api_test.c compares
 * every row here with that header: constants, layouts of structs, and types of functions.
 *
 * DuckDB keeps its C interface compatible from 1.0 on; the newest function here is of 1.4. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Pointers to objects of the library. */
#define TIDE_DUCKDB_HANDLES(X)                                                                     \
    X(duckdb_appender)                                                                             \
    X(duckdb_config)                                                                               \
    X(duckdb_connection)                                                                           \
    X(duckdb_data_chunk)                                                                           \
    X(duckdb_database)                                                                             \
    X(duckdb_extracted_statements)                                                                 \
    X(duckdb_function_info)                                                                        \
    X(duckdb_logical_type)                                                                         \
    X(duckdb_pending_result)                                                                       \
    X(duckdb_prepared_statement)                                                                   \
    X(duckdb_scalar_function)                                                                      \
    X(duckdb_vector)

#define TIDE_DUCKDB_STATES(X)                                                                      \
    X(DuckDBSuccess, 0)                                                                            \
    X(DuckDBError, 1)

#define TIDE_DUCKDB_TYPES(X)                                                                       \
    X(DUCKDB_TYPE_INVALID, 0)                                                                      \
    X(DUCKDB_TYPE_BOOLEAN, 1)                                                                      \
    X(DUCKDB_TYPE_TINYINT, 2)                                                                      \
    X(DUCKDB_TYPE_SMALLINT, 3)                                                                     \
    X(DUCKDB_TYPE_INTEGER, 4)                                                                      \
    X(DUCKDB_TYPE_BIGINT, 5)                                                                       \
    X(DUCKDB_TYPE_UTINYINT, 6)                                                                     \
    X(DUCKDB_TYPE_USMALLINT, 7)                                                                    \
    X(DUCKDB_TYPE_UINTEGER, 8)                                                                     \
    X(DUCKDB_TYPE_UBIGINT, 9)                                                                      \
    X(DUCKDB_TYPE_FLOAT, 10)                                                                       \
    X(DUCKDB_TYPE_DOUBLE, 11)                                                                      \
    X(DUCKDB_TYPE_TIMESTAMP, 12)                                                                   \
    X(DUCKDB_TYPE_DATE, 13)                                                                        \
    X(DUCKDB_TYPE_TIME, 14)                                                                        \
    X(DUCKDB_TYPE_INTERVAL, 15)                                                                    \
    X(DUCKDB_TYPE_HUGEINT, 16)                                                                     \
    X(DUCKDB_TYPE_UHUGEINT, 32)                                                                    \
    X(DUCKDB_TYPE_VARCHAR, 17)                                                                     \
    X(DUCKDB_TYPE_BLOB, 18)                                                                        \
    X(DUCKDB_TYPE_DECIMAL, 19)                                                                     \
    X(DUCKDB_TYPE_TIMESTAMP_S, 20)                                                                 \
    X(DUCKDB_TYPE_TIMESTAMP_MS, 21)                                                                \
    X(DUCKDB_TYPE_TIMESTAMP_NS, 22)                                                                \
    X(DUCKDB_TYPE_ENUM, 23)                                                                        \
    X(DUCKDB_TYPE_LIST, 24)                                                                        \
    X(DUCKDB_TYPE_STRUCT, 25)                                                                      \
    X(DUCKDB_TYPE_MAP, 26)                                                                         \
    X(DUCKDB_TYPE_ARRAY, 33)                                                                       \
    X(DUCKDB_TYPE_UUID, 27)                                                                        \
    X(DUCKDB_TYPE_UNION, 28)                                                                       \
    X(DUCKDB_TYPE_BIT, 29)                                                                         \
    X(DUCKDB_TYPE_TIME_TZ, 30)                                                                     \
    X(DUCKDB_TYPE_TIMESTAMP_TZ, 31)                                                                \
    X(DUCKDB_TYPE_ANY, 34)                                                                         \
    X(DUCKDB_TYPE_BIGNUM, 35)                                                                      \
    X(DUCKDB_TYPE_SQLNULL, 36)                                                                     \
    X(DUCKDB_TYPE_STRING_LITERAL, 37)                                                              \
    X(DUCKDB_TYPE_INTEGER_LITERAL, 38)                                                             \
    X(DUCKDB_TYPE_TIME_NS, 39)

#define TIDE_DUCKDB_ERROR_TYPES(X)                                                                 \
    X(DUCKDB_ERROR_INVALID, 0)                                                                     \
    X(DUCKDB_ERROR_OUT_OF_RANGE, 1)                                                                \
    X(DUCKDB_ERROR_CONVERSION, 2)                                                                  \
    X(DUCKDB_ERROR_UNKNOWN_TYPE, 3)                                                                \
    X(DUCKDB_ERROR_DECIMAL, 4)                                                                     \
    X(DUCKDB_ERROR_MISMATCH_TYPE, 5)                                                               \
    X(DUCKDB_ERROR_DIVIDE_BY_ZERO, 6)                                                              \
    X(DUCKDB_ERROR_OBJECT_SIZE, 7)                                                                 \
    X(DUCKDB_ERROR_INVALID_TYPE, 8)                                                                \
    X(DUCKDB_ERROR_SERIALIZATION, 9)                                                               \
    X(DUCKDB_ERROR_TRANSACTION, 10)                                                                \
    X(DUCKDB_ERROR_NOT_IMPLEMENTED, 11)                                                            \
    X(DUCKDB_ERROR_EXPRESSION, 12)                                                                 \
    X(DUCKDB_ERROR_CATALOG, 13)                                                                    \
    X(DUCKDB_ERROR_PARSER, 14)                                                                     \
    X(DUCKDB_ERROR_PLANNER, 15)                                                                    \
    X(DUCKDB_ERROR_SCHEDULER, 16)                                                                  \
    X(DUCKDB_ERROR_EXECUTOR, 17)                                                                   \
    X(DUCKDB_ERROR_CONSTRAINT, 18)                                                                 \
    X(DUCKDB_ERROR_INDEX, 19)                                                                      \
    X(DUCKDB_ERROR_STAT, 20)                                                                       \
    X(DUCKDB_ERROR_CONNECTION, 21)                                                                 \
    X(DUCKDB_ERROR_SYNTAX, 22)                                                                     \
    X(DUCKDB_ERROR_SETTINGS, 23)                                                                   \
    X(DUCKDB_ERROR_BINDER, 24)                                                                     \
    X(DUCKDB_ERROR_NETWORK, 25)                                                                    \
    X(DUCKDB_ERROR_OPTIMIZER, 26)                                                                  \
    X(DUCKDB_ERROR_NULL_POINTER, 27)                                                               \
    X(DUCKDB_ERROR_IO, 28)                                                                         \
    X(DUCKDB_ERROR_INTERRUPT, 29)                                                                  \
    X(DUCKDB_ERROR_FATAL, 30)                                                                      \
    X(DUCKDB_ERROR_INTERNAL, 31)                                                                   \
    X(DUCKDB_ERROR_INVALID_INPUT, 32)                                                              \
    X(DUCKDB_ERROR_OUT_OF_MEMORY, 33)                                                              \
    X(DUCKDB_ERROR_PERMISSION, 34)                                                                 \
    X(DUCKDB_ERROR_PARAMETER_NOT_RESOLVED, 35)                                                     \
    X(DUCKDB_ERROR_PARAMETER_NOT_ALLOWED, 36)                                                      \
    X(DUCKDB_ERROR_DEPENDENCY, 37)                                                                 \
    X(DUCKDB_ERROR_HTTP, 38)                                                                       \
    X(DUCKDB_ERROR_MISSING_EXTENSION, 39)                                                          \
    X(DUCKDB_ERROR_AUTOLOAD, 40)                                                                   \
    X(DUCKDB_ERROR_SEQUENCE, 41)                                                                   \
    X(DUCKDB_INVALID_CONFIGURATION, 42)

#define TIDE_DUCKDB_STATEMENT_TYPES(X)                                                             \
    X(DUCKDB_STATEMENT_TYPE_INVALID, 0)                                                            \
    X(DUCKDB_STATEMENT_TYPE_SELECT, 1)                                                             \
    X(DUCKDB_STATEMENT_TYPE_INSERT, 2)                                                             \
    X(DUCKDB_STATEMENT_TYPE_UPDATE, 3)                                                             \
    X(DUCKDB_STATEMENT_TYPE_EXPLAIN, 4)                                                            \
    X(DUCKDB_STATEMENT_TYPE_DELETE, 5)                                                             \
    X(DUCKDB_STATEMENT_TYPE_PREPARE, 6)                                                            \
    X(DUCKDB_STATEMENT_TYPE_CREATE, 7)                                                             \
    X(DUCKDB_STATEMENT_TYPE_EXECUTE, 8)                                                            \
    X(DUCKDB_STATEMENT_TYPE_ALTER, 9)                                                              \
    X(DUCKDB_STATEMENT_TYPE_TRANSACTION, 10)                                                       \
    X(DUCKDB_STATEMENT_TYPE_COPY, 11)                                                              \
    X(DUCKDB_STATEMENT_TYPE_ANALYZE, 12)                                                           \
    X(DUCKDB_STATEMENT_TYPE_VARIABLE_SET, 13)                                                      \
    X(DUCKDB_STATEMENT_TYPE_CREATE_FUNC, 14)                                                       \
    X(DUCKDB_STATEMENT_TYPE_DROP, 15)                                                              \
    X(DUCKDB_STATEMENT_TYPE_EXPORT, 16)                                                            \
    X(DUCKDB_STATEMENT_TYPE_PRAGMA, 17)                                                            \
    X(DUCKDB_STATEMENT_TYPE_VACUUM, 18)                                                            \
    X(DUCKDB_STATEMENT_TYPE_CALL, 19)                                                              \
    X(DUCKDB_STATEMENT_TYPE_SET, 20)                                                               \
    X(DUCKDB_STATEMENT_TYPE_LOAD, 21)                                                              \
    X(DUCKDB_STATEMENT_TYPE_RELATION, 22)                                                          \
    X(DUCKDB_STATEMENT_TYPE_EXTENSION, 23)                                                         \
    X(DUCKDB_STATEMENT_TYPE_LOGICAL_PLAN, 24)                                                      \
    X(DUCKDB_STATEMENT_TYPE_ATTACH, 25)                                                            \
    X(DUCKDB_STATEMENT_TYPE_DETACH, 26)                                                            \
    X(DUCKDB_STATEMENT_TYPE_MULTI, 27)

/* A test that includes DuckDB's own header has these from there. */
#ifndef TIDE_DUCKDB_TYPES_ARE_DECLARED
typedef uint64_t idx_t;

#define TIDE_DUCKDB_HANDLE(name)                                                                   \
    typedef struct tide_##name *name; /* NOLINT(bugprone-macro-parentheses): a name */
TIDE_DUCKDB_HANDLES(TIDE_DUCKDB_HANDLE)
#undef TIDE_DUCKDB_HANDLE

#define TIDE_DUCKDB_CONSTANT(name, value) name = (value),
typedef enum { TIDE_DUCKDB_STATES(TIDE_DUCKDB_CONSTANT) } duckdb_state;
typedef enum { TIDE_DUCKDB_TYPES(TIDE_DUCKDB_CONSTANT) } duckdb_type;
typedef enum { TIDE_DUCKDB_ERROR_TYPES(TIDE_DUCKDB_CONSTANT) } duckdb_error_type;
typedef enum { TIDE_DUCKDB_STATEMENT_TYPES(TIDE_DUCKDB_CONSTANT) } duckdb_statement_type;
#undef TIDE_DUCKDB_CONSTANT

/* Filled by the library; its members are not for callers. */
typedef struct {
    uint64_t counts[3];
    void *pointers[3];
} duckdb_result;

/* A string in a vector: up to 12 bytes inside, longer ones elsewhere. */
typedef struct {
    union {
        struct {
            uint32_t length;
            char prefix[4];
            char *ptr;
        } pointer;
        struct {
            uint32_t length;
            char inlined[12];
        } inlined;
    } value;
} duckdb_string_t;

typedef struct {
    uint64_t offset;
    uint64_t length;
} duckdb_list_entry;

typedef struct {
    uint64_t lower;
    int64_t upper;
} duckdb_hugeint;

typedef struct {
    uint64_t lower;
    uint64_t upper;
} duckdb_uhugeint;

typedef struct {
    int32_t months;
    int32_t days;
    int64_t micros;
} duckdb_interval;

typedef struct {
    int64_t micros;
} duckdb_timestamp;

typedef void (*duckdb_scalar_function_t)(duckdb_function_info info, duckdb_data_chunk input,
                                         duckdb_vector output);
#endif

/* Result, name behind "duckdb_", parameters. */
#define TIDE_DUCKDB_FUNCTIONS(X)                                                                   \
    X(duckdb_state, append_data_chunk, (duckdb_appender, duckdb_data_chunk))                       \
    X(idx_t, appender_column_count, (duckdb_appender))                                             \
    X(duckdb_logical_type, appender_column_type, (duckdb_appender, idx_t))                         \
    X(duckdb_state, appender_create,                                                               \
      (duckdb_connection, const char *, const char *, duckdb_appender *))                          \
    X(duckdb_state, appender_destroy, (duckdb_appender *))                                         \
    X(const char *, appender_error, (duckdb_appender))                                             \
    X(duckdb_state, appender_flush, (duckdb_appender))                                             \
    X(idx_t, array_type_array_size, (duckdb_logical_type))                                         \
    X(duckdb_logical_type, array_type_child_type, (duckdb_logical_type))                           \
    X(duckdb_vector, array_vector_get_child, (duckdb_vector))                                      \
    X(duckdb_state, bind_int64, (duckdb_prepared_statement, idx_t, int64_t))                       \
    X(duckdb_state, bind_null, (duckdb_prepared_statement, idx_t))                                 \
    X(duckdb_state, bind_timestamp, (duckdb_prepared_statement, idx_t, duckdb_timestamp))          \
    X(duckdb_state, bind_varchar, (duckdb_prepared_statement, idx_t, const char *))                \
    X(void, close, (duckdb_database *))                                                            \
    X(idx_t, column_count, (duckdb_result *))                                                      \
    X(duckdb_logical_type, column_logical_type, (duckdb_result *, idx_t))                          \
    X(const char *, column_name, (duckdb_result *, idx_t))                                         \
    X(duckdb_state, connect, (duckdb_database, duckdb_connection *))                               \
    X(duckdb_state, create_config, (duckdb_config *))                                              \
    X(duckdb_data_chunk, create_data_chunk, (duckdb_logical_type *, idx_t))                        \
    X(duckdb_logical_type, create_logical_type, (duckdb_type))                                     \
    X(duckdb_scalar_function, create_scalar_function, (void))                                      \
    X(idx_t, data_chunk_get_size, (duckdb_data_chunk))                                             \
    X(duckdb_vector, data_chunk_get_vector, (duckdb_data_chunk, idx_t))                            \
    X(void, data_chunk_reset, (duckdb_data_chunk))                                                 \
    X(void, data_chunk_set_size, (duckdb_data_chunk, idx_t))                                       \
    X(duckdb_type, decimal_internal_type, (duckdb_logical_type))                                   \
    X(uint8_t, decimal_scale, (duckdb_logical_type))                                               \
    X(void, destroy_config, (duckdb_config *))                                                     \
    X(void, destroy_data_chunk, (duckdb_data_chunk *))                                             \
    X(void, destroy_extracted, (duckdb_extracted_statements *))                                    \
    X(void, destroy_logical_type, (duckdb_logical_type *))                                         \
    X(void, destroy_pending, (duckdb_pending_result *))                                            \
    X(void, destroy_prepare, (duckdb_prepared_statement *))                                        \
    X(void, destroy_result, (duckdb_result *))                                                     \
    X(void, destroy_scalar_function, (duckdb_scalar_function *))                                   \
    X(void, disconnect, (duckdb_connection *))                                                     \
    X(char *, enum_dictionary_value, (duckdb_logical_type, idx_t))                                 \
    X(duckdb_type, enum_internal_type, (duckdb_logical_type))                                      \
    X(duckdb_state, execute_pending, (duckdb_pending_result, duckdb_result *))                     \
    X(duckdb_state, execute_prepared, (duckdb_prepared_statement, duckdb_result *))                \
    X(idx_t, extract_statements, (duckdb_connection, const char *, duckdb_extracted_statements *)) \
    X(const char *, extract_statements_error, (duckdb_extracted_statements))                       \
    X(duckdb_data_chunk, fetch_chunk, (duckdb_result))                                             \
    X(void, free, (void *))                                                                        \
    X(duckdb_type, get_type_id, (duckdb_logical_type))                                             \
    X(void, interrupt, (duckdb_connection))                                                        \
    X(const char *, library_version, (void))                                                       \
    X(duckdb_logical_type, list_type_child_type, (duckdb_logical_type))                            \
    X(duckdb_vector, list_vector_get_child, (duckdb_vector))                                       \
    X(idx_t, list_vector_get_size, (duckdb_vector))                                                \
    X(duckdb_state, list_vector_reserve, (duckdb_vector, idx_t))                                   \
    X(duckdb_state, list_vector_set_size, (duckdb_vector, idx_t))                                  \
    X(duckdb_state, open_ext, (const char *, duckdb_database *, duckdb_config, char **))           \
    X(const char *, pending_error, (duckdb_pending_result))                                        \
    X(duckdb_state, pending_prepared_streaming,                                                    \
      (duckdb_prepared_statement, duckdb_pending_result *))                                        \
    X(duckdb_state, prepare, (duckdb_connection, const char *, duckdb_prepared_statement *))       \
    X(const char *, prepare_error, (duckdb_prepared_statement))                                    \
    X(duckdb_state, prepare_extracted_statement,                                                   \
      (duckdb_connection, duckdb_extracted_statements, idx_t, duckdb_prepared_statement *))        \
    X(duckdb_statement_type, prepared_statement_type, (duckdb_prepared_statement))                 \
    X(duckdb_state, query, (duckdb_connection, const char *, duckdb_result *))                     \
    X(duckdb_state, register_scalar_function, (duckdb_connection, duckdb_scalar_function))         \
    X(const char *, result_error, (duckdb_result *))                                               \
    X(duckdb_error_type, result_error_type, (duckdb_result *))                                     \
    X(idx_t, rows_changed, (duckdb_result *))                                                      \
    X(void, scalar_function_add_parameter, (duckdb_scalar_function, duckdb_logical_type))          \
    X(void, scalar_function_set_error, (duckdb_function_info, const char *))                       \
    X(void, scalar_function_set_function, (duckdb_scalar_function, duckdb_scalar_function_t))      \
    X(void, scalar_function_set_name, (duckdb_scalar_function, const char *))                      \
    X(void, scalar_function_set_return_type, (duckdb_scalar_function, duckdb_logical_type))        \
    X(duckdb_state, set_config, (duckdb_config, const char *, const char *))                       \
    X(idx_t, struct_type_child_count, (duckdb_logical_type))                                       \
    X(char *, struct_type_child_name, (duckdb_logical_type, idx_t))                                \
    X(duckdb_logical_type, struct_type_child_type, (duckdb_logical_type, idx_t))                   \
    X(duckdb_vector, struct_vector_get_child, (duckdb_vector, idx_t))                              \
    X(bool, validity_row_is_valid, (uint64_t *, idx_t))                                            \
    X(void, validity_set_row_invalid, (uint64_t *, idx_t))                                         \
    X(void, vector_assign_string_element_len, (duckdb_vector, idx_t, const char *, idx_t))         \
    X(void, vector_ensure_validity_writable, (duckdb_vector))                                      \
    X(duckdb_logical_type, vector_get_column_type, (duckdb_vector))                                \
    X(void *, vector_get_data, (duckdb_vector))                                                    \
    X(uint64_t *, vector_get_validity, (duckdb_vector))                                            \
    X(idx_t, vector_size, (void))

typedef struct tide_duckdb_api {
#define TIDE_DUCKDB_MEMBER(result, name, parameters)                                               \
    result(*name) parameters; /* NOLINT(bugprone-macro-parentheses) */
    TIDE_DUCKDB_FUNCTIONS(TIDE_DUCKDB_MEMBER)
#undef TIDE_DUCKDB_MEMBER
} tide_duckdb_api;
