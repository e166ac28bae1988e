/* feed_record_fuzz.c - bytes that claim to be records of a stream: the first byte chooses which.
 *
 * What the walk accepts stands in the bytes where it says; what decodes also decodes column by column, walks its maps and ids to the counts it
 * claimed, and becomes JSON. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "feed/record.h"

enum { JSON_MAX = 8 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void require(bool is_true)
{
    if (!is_true)
        abort();
}

static void check_column(const tide_stream_type *type, const tide_record *record,
                         const tide_record_row *row, int column)
{
    const tide_record_value *value = &row->values[column];
    tide_record_value alone;
    require(tide_record_find(type, record->message, column, &alone) == TIDE_OK);
    require(memcmp(&alone, value, sizeof alone) == 0);
    tide_record_cursor cursor = tide_record_cursor_of(type, column, value);
    int count = 0;
    uint64_t id = 0;
    tide_view key;
    tide_view text;
    if (type->columns[column].kind == TIDE_COLUMN_MAP) {
        while (tide_record_next_pair(&cursor, &key, &text))
            count++;
        require(count == value->count);
    }
    if (type->columns[column].kind == TIDE_COLUMN_IDS) {
        while (tide_record_next_id(&cursor, &id))
            count++;
        require(count == value->count);
    }
}

static void check_record(const tide_stream_type *type, const tide_record *record)
{
    tide_record_row row;
    tide_error err;
    const bool is_sound = tide_record_decode(type, record->message, &row) == TIDE_OK;
    require(is_sound || tide_record_check(type, record, &err) == TIDE_E_INVALID);
    if (!is_sound)
        return;
    for (int i = 0; i < type->column_count; i++)
        check_column(type, record, &row, i);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer json;
    tide_buffer_init(&json, JSON_MAX);
    TIDE_IGNORE(tide_record_row_json(&json, type, &row));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len < 1)
        return 0;
    const tide_stream_type *type =
        tide_stream_type_of((tide_stream_kind)(data[0] % TIDE_STREAM_COUNT));
    const tide_view all = tide_view_bytes(data + 1, len - 1);
    tide_view rest = all;
    tide_record record;
    size_t walked = 0;
    while (tide_record_next(type, &rest, &record) == TIDE_OK) {
        require(record.bytes.ptr == all.ptr + walked && record.bytes.len > TIDE_RECORD_SEQ_LEN);
        walked += record.bytes.len;
        require(record.seq >= 0);
        check_record(type, &record);
    }
    require(walked + rest.len == all.len);
    return 0;
}
