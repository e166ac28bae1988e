/* value_text.h - keys and values as people read them: record_id and data of <table>_Events, lists of conflicts.
 *
 *     as a text    numbers as SQL writes them, texts as they are, BLOBs as hex
 *     as JSON      the same; a number is a number, NULL is null
 *
 * What is replicated are the values themselves (value.h): these forms are not read back.
 *
 * Threads: pure. */
#pragma once

#include "base/text/json.h"
#include "replica/value.h"

/* The replication document's record_id: the key's values with a colon between. */
TIDE_MUST_CHECK tide_status tide_key_text(tide_buffer *out, const tide_sql_value *key, int count);
/* The same of an encoded key. TIDE_E_DAMAGED: it is none. */
TIDE_MUST_CHECK tide_status tide_key_text_encoded(tide_buffer *out, tide_view key);

void tide_value_json(tide_json *json, const tide_sql_value *value);
/* A member of the object under way. A name without bytes, or of 1,024 and more, is left out with its value. */
void tide_value_json_member(tide_json *json, tide_view name, const tide_sql_value *value);
