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
#include "base/text/json.h"

bool tide_sql_value_equal(const tide_sql_value *a, const tide_sql_value *b);
TIDE_MUST_CHECK tide_status tide_sql_value_encode(tide_buffer *out, const tide_sql_value *value);
/* TIDE_E_DAMAGED: no value stands there. */
TIDE_MUST_CHECK tide_status tide_sql_value_decode(tide_sql_value *out, tide_reader *from);

/* As people read them (record_id and data of <table>_Events, lists of conflicts): numbers as SQL
 * writes them, texts as they are, BLOBs as hex. These forms are not read back. */

/* The replication document's record_id: the key's values with a colon between. */
TIDE_MUST_CHECK tide_status tide_key_text(tide_buffer *out, const tide_sql_value *key, int count);
/* The same of an encoded key. TIDE_E_DAMAGED: it is none. */
TIDE_MUST_CHECK tide_status tide_key_text_encoded(tide_buffer *out, tide_view key);

void tide_value_json(tide_json *json, const tide_sql_value *value);
/* A member of the object under way. A name without bytes, or of 1,024 and more, is left out with
 * its value. */
void tide_value_json_member(tide_json *json, tide_view name, const tide_sql_value *value);
