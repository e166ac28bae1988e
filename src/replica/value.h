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
#ifndef TIDE_REPLICA_VALUE_H
#define TIDE_REPLICA_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/error.h>
#include <tidemark/view.h>

#include "base/buffer.h"

typedef enum tide_class {
    TIDE_CLASS_NULL,
    TIDE_CLASS_INTEGER,
    TIDE_CLASS_REAL,
    TIDE_CLASS_TEXT,
    TIDE_CLASS_BLOB,
} tide_class;

typedef struct tide_any {
    tide_class class;
    int64_t integer;
    double real;
    tide_view bytes; /* TEXT, BLOB */
} tide_any;

bool tide_any_equal(const tide_any *a, const tide_any *b);
TIDE_MUST_CHECK tide_status tide_any_encode(tide_buffer *out, const tide_any *value);
/* TIDE_E_DAMAGED: no value stands there. */
TIDE_MUST_CHECK tide_status tide_any_decode(tide_any *out, tide_reader *from);

#endif
