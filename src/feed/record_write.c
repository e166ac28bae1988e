/* record_write.c - records into bytes, before they have numbers. See record.h. */
#include "feed/record.h"

#include <assert.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/utf8.h"

enum {
    WIRE_VARINT = 0,
    WIRE_FIXED64 = 1,
    WIRE_BYTES = 2,
    LEN_ROOM = 2, /* bytes kept for a record's length until it is known: right from 128 to 16383 */
};

void tide_record_batch_init(tide_record_batch *batch, const tide_stream_type *type,
                            size_t bytes_max)
{
    if (bytes_max == 0)
        bytes_max = TIDE_FEED_BATCH_BYTES_MAX;
    if (bytes_max > TIDE_FEED_COMMIT_BYTES_MAX)
        bytes_max = TIDE_FEED_COMMIT_BYTES_MAX;
    *batch = (tide_record_batch){.type = type, .has_all_services = true};
    batch->count_max = bytes_max > TIDE_FEED_BATCH_BYTES_MAX ? TIDE_FEED_COMMIT_RECORDS_MAX
                                                             : TIDE_FEED_BATCH_RECORDS_MAX;
    tide_buffer_init(&batch->bytes, bytes_max);
    tide_buffer_init(&batch->services, TIDE_RECORD_SERVICES_LEN_MAX);
}

void tide_record_batch_done(tide_record_batch *batch)
{
    tide_buffer_done(&batch->bytes);
    tide_buffer_done(&batch->services);
    tide_record_batch_clear(batch);
}

void tide_record_batch_clear(tide_record_batch *batch)
{
    tide_buffer_clear(&batch->bytes);
    tide_buffer_clear(&batch->services);
    batch->count = 0;
    batch->min_time_ms = 0;
    batch->max_time_ms = 0;
    batch->service_count = 0;
    batch->has_all_services = true;
    batch->replaced = 0;
    batch->refused = 0;
    batch->is_open = false;
}

/* ---- what the batch knows of its records ---- */

static void add_time(tide_record_batch *batch, int64_t min_ms, int64_t max_ms)
{
    if (batch->count == 0 || min_ms < batch->min_time_ms)
        batch->min_time_ms = min_ms;
    if (batch->count == 0 || max_ms > batch->max_time_ms)
        batch->max_time_ms = max_ms;
}

static bool has_service(const tide_record_batch *batch, tide_view name)
{
    const tide_view set = tide_buffer_view(&batch->services);
    for (size_t at = 0; at < set.len;) {
        const size_t len = strlen(set.ptr + at);
        if (len == name.len && memcmp(set.ptr + at, name.ptr, len) == 0)
            return true;
        at += len + 1;
    }
    return false;
}

/* A set that has become too large, or for which there is no memory, says nothing: filters then look at every
 * record. Never an error. */
static void add_service(tide_record_batch *batch, tide_view name)
{
    if (!batch->has_all_services || has_service(batch, name))
        return;
    const size_t before_len = batch->services.len;
    if (batch->service_count < TIDE_RECORD_SERVICES_MAX &&
        tide_buffer_append_view(&batch->services, name) == TIDE_OK &&
        tide_buffer_append_byte(&batch->services, 0) == TIDE_OK) {
        batch->service_count++;
        return;
    }
    tide_buffer_truncate(&batch->services, before_len);
    batch->has_all_services = false;
}

tide_feed_records tide_record_batch_feed(tide_record_batch *batch, const char *stream)
{
    return (tide_feed_records){
        TIDE_FEED_RECORDS_INIT,
        .stream = stream ? stream : batch->type->name,
        .bytes = batch->bytes.ptr,
        .len = batch->bytes.len,
        .count = batch->count,
        .min_time_ms = batch->min_time_ms,
        .max_time_ms = batch->max_time_ms,
        .services =
            batch->has_all_services ? tide_buffer_view(&batch->services) : tide_view_bytes(NULL, 0),
    };
}

/* ---- one record ---- */

void tide_record_begin(tide_record_batch *batch)
{
    assert(!batch->is_open);
    batch->is_open = true;
    batch->status = TIDE_OK;
    batch->begin_len = batch->bytes.len;
    batch->time_ms = 0;
    batch->service_at = 0;
    batch->service_len = 0;
    batch->open_replaced = 0;
    char head[1 + LEN_ROOM + TIDE_RECORD_SEQ_LEN] = {0};
    head[0] = (char)batch->type->tag;
    head[1 + LEN_ROOM] = (char)batch->type->seq_tag;
    tide_record_put_seq(head + 1 + LEN_ROOM + 1, 0);
    batch->status = tide_buffer_append(&batch->bytes, head, sizeof head);
}

void tide_record_abandon(tide_record_batch *batch)
{
    assert(batch->is_open);
    tide_buffer_truncate(&batch->bytes, batch->begin_len);
    batch->is_open = false;
}

static size_t put_varint(char *at, uint64_t number)
{
    size_t len = 0;
    while (number >= 0x80) {
        at[len++] = (char)(0x80U | (number & 0x7FU));
        number >>= 7;
    }
    at[len++] = (char)number;
    return len;
}

/* The length is known now: write it in its shortest form, moving the message if LEN_ROOM was not right. */
static tide_status close_length(tide_record_batch *batch)
{
    const size_t message_at = batch->begin_len + 1 + LEN_ROOM;
    const size_t message_len = batch->bytes.len - message_at;
    char digits[TIDE_VARINT_LEN_MAX];
    const size_t digits_len = put_varint(digits, message_len);
    if (message_len > TIDE_FEED_RECORD_MAX - 1 - digits_len)
        return TIDE_E_LIMIT;
    if (digits_len > LEN_ROOM)
        TIDE_TRY(tide_buffer_append(&batch->bytes, digits, digits_len - LEN_ROOM));
    char *begin = batch->bytes.ptr + batch->begin_len;
    if (digits_len != LEN_ROOM)
        memmove(begin + 1 + digits_len, begin + 1 + LEN_ROOM, message_len);
    memcpy(begin + 1, digits, digits_len);
    tide_buffer_truncate(&batch->bytes, batch->begin_len + 1 + digits_len + message_len);
    batch->service_at = batch->service_at + digits_len - LEN_ROOM;
    return TIDE_OK;
}

tide_status tide_record_end(tide_record_batch *batch)
{
    assert(batch->is_open);
    if (batch->status == TIDE_OK && batch->count == batch->count_max)
        batch->status = TIDE_E_LIMIT;
    if (batch->status == TIDE_OK)
        batch->status = close_length(batch);
    if (batch->status != TIDE_OK) {
        batch->refused++;
        tide_record_abandon(batch);
        return batch->status;
    }
    if (batch->type->service_column >= 0)
        add_service(batch,
                    batch->service_len > 0
                        ? tide_view_bytes(batch->bytes.ptr + batch->service_at, batch->service_len)
                        : tide_view_of(""));
    add_time(batch, batch->time_ms, batch->time_ms);
    batch->replaced += batch->open_replaced;
    batch->count++;
    batch->is_open = false;
    return TIDE_OK;
}

/* ---- columns ---- */

static const tide_column *get_column(const tide_record_batch *batch, int column)
{
    assert(batch->is_open && column >= 0 && column < batch->type->column_count);
    return &batch->type->columns[column];
}

static void put_bytes(tide_record_batch *batch, const void *bytes, size_t len)
{
    if (batch->status == TIDE_OK)
        batch->status = tide_buffer_append(&batch->bytes, bytes, len);
}

static void put_number(tide_record_batch *batch, uint32_t field, uint64_t value)
{
    char bytes[2 * TIDE_VARINT_LEN_MAX];
    const size_t len = put_varint(bytes, (uint64_t)field << 3 | WIRE_VARINT);
    put_bytes(batch, bytes, len + put_varint(bytes + len, value));
}

static void put_head(tide_record_batch *batch, uint32_t field, size_t len)
{
    char bytes[2 * TIDE_VARINT_LEN_MAX];
    const size_t head_len = put_varint(bytes, (uint64_t)field << 3 | WIRE_BYTES);
    put_bytes(batch, bytes, head_len + put_varint(bytes + head_len, len));
}

void tide_record_i64(tide_record_batch *batch, int column, int64_t value)
{
    const tide_column *of = get_column(batch, column);
    assert(of->kind == TIDE_COLUMN_I64 || of->kind == TIDE_COLUMN_I32);
    if (of->kind == TIDE_COLUMN_I32 && (value < INT32_MIN || value > INT32_MAX))
        value = value < 0 ? INT32_MIN : INT32_MAX;
    if (column == batch->type->time_column)
        batch->time_ms = value;
    if (value != 0)
        put_number(batch, of->field, (uint64_t)value);
}

void tide_record_u64(tide_record_batch *batch, int column, uint64_t value)
{
    const tide_column *of = get_column(batch, column);
    assert(of->kind == TIDE_COLUMN_U64);
    if (value != 0)
        put_number(batch, of->field, value);
}

void tide_record_bool(tide_record_batch *batch, int column, bool value)
{
    const tide_column *of = get_column(batch, column);
    assert(of->kind == TIDE_COLUMN_BOOL);
    if (value)
        put_number(batch, of->field, 1);
}

void tide_record_f64(tide_record_batch *batch, int column, double value)
{
    const tide_column *of = get_column(batch, column);
    assert(of->kind == TIDE_COLUMN_F64);
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (bits == 0)
        return;
    char bytes[TIDE_VARINT_LEN_MAX + sizeof bits];
    size_t len = put_varint(bytes, (uint64_t)of->field << 3 | WIRE_FIXED64);
    for (size_t i = 0; i < sizeof bits; i++)
        bytes[len++] = (char)(bits >> (8 * i) & 0xFFU);
    put_bytes(batch, bytes, len);
}

/* Nearly all text is ASCII: eight bytes at a time, none of them 0 or above 127. */
static bool is_plain(tide_view text)
{
    size_t at = 0;
    for (; at + 8 <= text.len; at += 8) {
        uint64_t word;
        memcpy(&word, text.ptr + at, sizeof word);
        const uint64_t has_zero =
            (word - UINT64_C(0x0101010101010101)) & ~word & UINT64_C(0x8080808080808080);
        if ((word & UINT64_C(0x8080808080808080)) != 0 || has_zero != 0)
            return false;
    }
    for (; at < text.len; at++)
        if (text.ptr[at] == 0 || (uint8_t)text.ptr[at] > 0x7F)
            return false;
    return true;
}

/* Cleaning can only lengthen a text (one byte becomes three), so it is done aside and then measured. */
static tide_status clean(tide_buffer *out, tide_view *text, uint64_t *replaced)
{
    if (is_plain(*text) || tide_utf8_valid(*text))
        return TIDE_OK;
    size_t count = 0;
    TIDE_TRY(tide_utf8_clean(out, *text, &count));
    *replaced += count;
    *text = tide_buffer_view(out);
    return TIDE_OK;
}

void tide_record_text(tide_record_batch *batch, int column, tide_view value)
{
    const tide_column *of = get_column(batch, column);
    assert(of->kind == TIDE_COLUMN_TEXT);
    if (value.len == 0 || batch->status != TIDE_OK)
        return;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer cleaned = tide_buffer_of(TIDE_FEED_RECORD_MAX);
    batch->status = clean(&cleaned, &value, &batch->open_replaced);
    put_head(batch, of->field, value.len);
    if (column == batch->type->service_column) {
        batch->service_at = batch->bytes.len;
        batch->service_len = value.len;
    }
    put_bytes(batch, value.ptr, value.len);
}

void tide_record_blob(tide_record_batch *batch, int column, tide_view value)
{
    const tide_column *of = get_column(batch, column);
    assert(of->kind == TIDE_COLUMN_BLOB);
    if (value.len == 0)
        return;
    put_head(batch, of->field, value.len);
    put_bytes(batch, value.ptr, value.len);
}

void tide_record_fields(tide_record_batch *batch, tide_view fields)
{
    assert(batch->is_open);
    put_bytes(batch, fields.ptr, fields.len);
}

static size_t varint_len(uint64_t number)
{
    size_t len = 1;
    while (number >= 0x80) {
        number >>= 7;
        len++;
    }
    return len;
}

void tide_record_pair(tide_record_batch *batch, int column, tide_view key, tide_view value)
{
    const tide_column *of = get_column(batch, column);
    assert(of->kind == TIDE_COLUMN_MAP);
    if (batch->status != TIDE_OK)
        return;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer clean_key = tide_buffer_of(TIDE_FEED_RECORD_MAX);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer clean_value = tide_buffer_of(TIDE_FEED_RECORD_MAX);
    batch->status = clean(&clean_key, &key, &batch->open_replaced);
    if (batch->status == TIDE_OK)
        batch->status = clean(&clean_value, &value, &batch->open_replaced);
    const size_t len = 1 + varint_len(key.len) + key.len + 1 + varint_len(value.len) + value.len;
    put_head(batch, of->field, len);
    put_head(batch, 1, key.len);
    put_bytes(batch, key.ptr, key.len);
    put_head(batch, 2, value.len);
    put_bytes(batch, value.ptr, value.len);
}

void tide_record_ids(tide_record_batch *batch, int column, const uint64_t *ids, int count)
{
    const tide_column *of = get_column(batch, column);
    assert(of->kind == TIDE_COLUMN_IDS);
    if (count <= 0)
        return;
    size_t len = 0;
    for (int i = 0; i < count; i++)
        len += varint_len(ids[i]);
    put_head(batch, of->field, len);
    for (int i = 0; i < count; i++) {
        char bytes[TIDE_VARINT_LEN_MAX];
        put_bytes(batch, bytes, put_varint(bytes, ids[i]));
    }
}

uint64_t tide_record_stack_hash(const uint64_t *ids, int count)
{
    if (count == 0)
        return 0;
    const tide_digest128 digest =
        tide_digest128_of(tide_view_bytes(ids, (size_t)count * sizeof *ids));
    uint64_t hash;
    memcpy(&hash, &digest, sizeof hash);
    return hash;
}
