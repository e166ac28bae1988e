/* value.h - a value of SQLite, as it is: what a column of any table can hold.
 *
 * The five storage classes, nothing converted: an integer stays an integer, a REAL keeps its bits, a text its bytes (also invalid
 * UTF-8 and NUL inside), a BLOB is not a text. Two values are equal if they are of one class and have the same bits; -0.0 and 0.0
 * differ, and NaN does not exist in SQLite.
 *
 * Encoding (rows are keyed, hashed and sent in this form): a class byte (0 NULL, 1 integer, 2 REAL, 3 text, 4 BLOB), then zigzag
 * varint | 8 bytes little endian | varint length and bytes. One value has exactly one encoding.
 *
 * Threads: pure. Views are borrowed. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/error.h>
#include <tidemark/view.h>

#include "base/buffer.h"
#include "base/sql_value.h"

bool tide_sql_value_equal(const tide_sql_value *a, const tide_sql_value *b);
TIDE_MUST_CHECK tide_status tide_sql_value_encode(tide_buffer *out, const tide_sql_value *value);
/* TIDE_E_DAMAGED: no value stands there. */
TIDE_MUST_CHECK tide_status tide_sql_value_decode(tide_sql_value *out, tide_reader *from);
