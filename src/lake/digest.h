/* digest.h - what a live row adds to its catalog's state: two numbers below 2^62, added and subtracted modulo 2^62.
 *
 * A row's text is its kind and fields, each as "<length>:<bytes>" (NULL: "-"), in the order below; SHA-256 of it; bytes 0..7 and 8..15, big endian, lowest 62 bits.
 * Snapshots (begin, end) are not part of it, so it can be computed before the number is known. sql/lake_expose.sql computes the same for
 * what stock clients write.
 *
 *     schema        1, schema_id, schema_uuid, schema_name, path, path_is_relative
 *     table         2, table_id, table_uuid, schema_id, table_name, path, path_is_relative
 *     view          3, view_id, view_uuid, schema_id, view_name, dialect, sql
 *     column        4, table_id, column_id, column_order, column_name, column_type, initial_default, default_value, nulls_allowed
 *     data file     5, data_file_id, table_id, path, path_is_relative, record_count, file_size_bytes, footer_size, row_id_start is left out (given under the lock)
 *     delete file   6, delete_file_id, table_id, data_file_id, path, path_is_relative, delete_count, file_size_bytes
 *     partition     7, partition_id, table_id, then per key: column_id, transform
 *
 * Numbers are decimal, booleans 0 or 1, UUIDs in lower case. Threads: pure. */
#pragma once

#include <stdint.h>

#include <tidemark/error.h>
#include <tidemark/view.h>

#define TIDE_LAKE_DIGEST_MASK ((UINT64_C(1) << 62) - 1)

typedef struct tide_lake_digest {
    uint64_t sums[2];
} tide_lake_digest;

typedef struct tide_lake_field {
    tide_view text;
    int64_t number;
    enum { TIDE_LAKE_FIELD_NULL, TIDE_LAKE_FIELD_TEXT, TIDE_LAKE_FIELD_NUMBER } kind;
} tide_lake_field;

TIDE_MUST_CHECK tide_status tide_lake_digest_of(tide_lake_digest *out,
                                                const tide_lake_field *fields, int count,
                                                tide_error *err);
void tide_lake_digest_add(tide_lake_digest *sum, const tide_lake_digest *row);
void tide_lake_digest_subtract(tide_lake_digest *sum, const tide_lake_digest *row);
