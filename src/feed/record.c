/* record.c - the tables of streams and columns, the walk over records and their numbers. See record.h. */
#include "feed/record.h"

#include <assert.h>
#include <endian.h>
#include <inttypes.h>
#include <string.h>

#include "base/text/base64.h"
#include "base/text/json.h"

#define COLUMN_ROW(column, text, number, type_of)                                                  \
    [column] = {.name = (text), .field = (number), .kind = TIDE_COLUMN_##type_of},
static const tide_column SPAN[] = {TIDE_SPAN_COLUMNS(COLUMN_ROW)};
static const tide_column SYSTEM_METRIC[] = {TIDE_SYSTEM_METRIC_COLUMNS(COLUMN_ROW)};
static const tide_column HTTP_METRIC[] = {TIDE_HTTP_METRIC_COLUMNS(COLUMN_ROW)};
static const tide_column GRPC_METRIC[] = {TIDE_GRPC_METRIC_COLUMNS(COLUMN_ROW)};
static const tide_column SQL_METRIC[] = {TIDE_SQL_METRIC_COLUMNS(COLUMN_ROW)};
static const tide_column TRACE[] = {TIDE_TRACE_COLUMNS(COLUMN_ROW)};
static const tide_column CPU_PROFILE[] = {TIDE_CPU_PROFILE_COLUMNS(COLUMN_ROW)};
static const tide_column MEMORY_PROFILE[] = {TIDE_MEMORY_PROFILE_COLUMNS(COLUMN_ROW)};
static const tide_column LOG[] = {TIDE_LOG_COLUMNS(COLUMN_ROW)};
static const tide_column LOSS[] = {TIDE_LOSS_COLUMNS(COLUMN_ROW)};
static const tide_column OPAQUE[] = {TIDE_OPAQUE_COLUMNS(COLUMN_ROW)};
#undef COLUMN_ROW

#define TYPE_ROW(kind_name, stream, of_table, of_sequence, of_page, response, of_seq, list, time,  \
                 service)                                                                          \
    [TIDE_STREAM_##kind_name] = {                                                                  \
        .kind = TIDE_STREAM_##kind_name,                                                           \
        .name = (stream),                                                                          \
        .table = (of_table),                                                                       \
        .sequence = (of_sequence),                                                                 \
        .page = (of_page),                                                                         \
        .tag = (response) << 3 | 2,                                                                \
        .seq_tag = (of_seq) << 3,                                                                  \
        .field = (response),                                                                       \
        .seq_field = (of_seq),                                                                     \
        .columns = (list),                                                                         \
        .column_count = sizeof(list) / sizeof(list)[0],                                            \
        .time_column = (time),                                                                     \
        .service_column = (service),                                                               \
    },
static const tide_stream_type TYPES[TIDE_STREAM_COUNT] = {TIDE_STREAM_TABLE(TYPE_ROW)};
#undef TYPE_ROW

#define TYPE_FITS(kind_name, stream, of_table, of_sequence, of_page, response, of_seq, list, time, \
                  service)                                                                         \
    static_assert((response) < 16 && (of_seq) < 16, "tags of " stream " are one byte");            \
    static_assert(sizeof(list) / sizeof(list)[0] <= TIDE_RECORD_COLUMNS_MAX, "columns fit a row");
TIDE_STREAM_TABLE(TYPE_FITS)
#undef TYPE_FITS

const tide_stream_type *tide_stream_type_of(tide_stream_kind kind)
{
    assert((int)kind >= 0 && kind < TIDE_STREAM_COUNT);
    return &TYPES[kind];
}

const tide_stream_type *tide_stream_type_find(const char *name)
{
    for (int i = 0; i < TIDE_STREAM_BUILT_IN_COUNT; i++)
        if (strcmp(TYPES[i].name, name) == 0)
            return &TYPES[i];
    return NULL;
}

int tide_stream_column_find(const tide_stream_type *type, const char *name)
{
    for (int i = 0; i < type->column_count; i++)
        if (strcmp(type->columns[i].name, name) == 0)
            return i;
    return -1;
}

static bool is_name_byte(char byte, bool is_first)
{
    if (byte >= 'a' && byte <= 'z')
        return true;
    return !is_first && ((byte >= '0' && byte <= '9') || byte == '_' || byte == '-' || byte == '.');
}

tide_status tide_stream_check_name(const char *name, tide_error *err)
{
    const size_t len = name ? strlen(name) : 0;
    if (len < 1 || len > TIDE_FEED_NAME_MAX)
        return tide_fail(err, TIDE_E_INVALID, "a stream's name has 1 to %d bytes, this one has %zu",
                         TIDE_FEED_NAME_MAX, len);
    for (size_t i = 0; i < len; i++)
        if (!is_name_byte(name[i], i == 0))
            return tide_fail(err, TIDE_E_INVALID,
                             "a stream's name is a lower-case letter, then lower-case letters, "
                             "digits, '_', '-' and '.'; byte %zu is none of these",
                             i + 1);
    for (int i = 0; i < TIDE_STREAM_BUILT_IN_COUNT; i++)
        if (strcmp(TYPES[i].name, name) == 0 ||
            strcmp(TYPES[i].sequence + strlen("seq_"), name) == 0)
            return tide_fail(err, TIDE_E_EXISTS, "%s belongs to the built-in stream %s", name,
                             TYPES[i].name);
    return TIDE_OK;
}

/* ---- numbers ---- */

enum {
    SEQ_DIGITS = 10,
    SEQ_WORD =
        8, /* digits that are made and read at once: every record of every commit and answer passes here */
};

#define MORE_BITS UINT64_C(0x8080808080808080)

/* 56 bits, seven to a byte, the lowest first. */
static uint64_t spread_digits(uint64_t bits)
{
    bits = (bits & 0x000000000FFFFFFF) | (bits & 0x00FFFFFFF0000000) << 4;
    bits = (bits & 0x00003FFF00003FFF) | (bits & 0x0FFFC0000FFFC000) << 2;
    return (bits & 0x007F007F007F007F) | (bits & 0x3F803F803F803F80) << 1;
}

static uint64_t join_digits(uint64_t digits)
{
    digits = (digits & 0x007F007F007F007F) | (digits & 0x7F007F007F007F00) >> 1;
    digits = (digits & 0x00003FFF00003FFF) | (digits & 0x3FFF00003FFF0000) >> 2;
    return (digits & 0x000000000FFFFFFF) | (digits & 0x0FFFFFFF00000000) >> 4;
}

void tide_record_put_seq(char *at, uint64_t seq)
{
    const uint64_t word = htole64(spread_digits(seq & 0x00FFFFFFFFFFFFFF) | MORE_BITS);
    memcpy(at, &word, sizeof word);
    at[SEQ_WORD] = (char)(0x80U | (seq >> 56 & 0x7FU));
    at[SEQ_DIGITS - 1] = (char)(seq >> 63);
}

/* False: not a padded number within int64. */
static bool get_seq(const char *at, int64_t *seq)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    word = le64toh(word);
    const uint8_t high = (uint8_t)at[SEQ_WORD];
    if ((word & MORE_BITS) != MORE_BITS || high < 0x80U || at[SEQ_DIGITS - 1] != 0)
        return false;
    *seq = (int64_t)(join_digits(word & ~MORE_BITS) | (uint64_t)(high & 0x7FU) << 56);
    return true;
}

/* Tag and length: most lengths have two digits. */
static tide_status read_head(const tide_stream_type *type, tide_view bytes, size_t *head_len,
                             uint64_t *len)
{
    if (bytes.len >= 3 && (uint8_t)bytes.ptr[1] >= 0x80U && (uint8_t)bytes.ptr[2] < 0x80U &&
        bytes.ptr[2] != 0) {
        *head_len = 3;
        *len = ((uint8_t)bytes.ptr[1] & 0x7FU) | (uint64_t)(uint8_t)bytes.ptr[2] << 7;
    } else {
        tide_reader reader = tide_reader_of(bytes);
        uint8_t tag = 0;
        TIDE_TRY(tide_reader_byte(&reader, &tag));
        TIDE_TRY(tide_reader_varint_shortest(&reader, len));
        *head_len = reader.offset;
    }
    return (uint8_t)bytes.ptr[0] == type->tag ? TIDE_OK : TIDE_E_DAMAGED;
}

tide_status tide_record_next(const tide_stream_type *type, tide_view *rest, tide_record *out)
{
    if (rest->len == 0)
        return TIDE_NONE;
    size_t head_len = 0;
    uint64_t len = 0;
    TIDE_TRY(read_head(type, *rest, &head_len, &len));
    if (len < TIDE_RECORD_SEQ_LEN || len > TIDE_FEED_RECORD_MAX || len > rest->len - head_len)
        return TIDE_E_DAMAGED;
    const char *message = rest->ptr + head_len;
    int64_t seq = 0;
    if ((uint8_t)message[0] != type->seq_tag || !get_seq(message + 1, &seq))
        return TIDE_E_DAMAGED;
    const size_t record_len = head_len + (size_t)len;
    *out = (tide_record){.seq = seq,
                         .bytes = tide_view_bytes(rest->ptr, record_len),
                         .message = tide_view_bytes(message, (size_t)len)};
    *rest = tide_view_bytes(rest->ptr + record_len, rest->len - record_len);
    return TIDE_OK;
}

/* d(n) from d(n-1), as tide_digest_chain makes it; in one piece where the record is short, which takes half the time. */
tide_digest128 tide_record_chain(tide_digest128 previous, tide_view record)
{
    char joined[1024];
    if (record.len > sizeof joined - sizeof previous.bytes)
        return tide_digest_chain(previous, record);
    memcpy(joined, previous.bytes, sizeof previous.bytes);
    memcpy(joined + sizeof previous.bytes, record.ptr, record.len);
    return tide_digest128_of(tide_view_bytes(joined, sizeof previous.bytes + record.len));
}

tide_status tide_record_number(const tide_stream_type *type, char *bytes, size_t len, int count,
                               int64_t first, tide_digest128 *chain, tide_error *err)
{
    tide_view rest = tide_view_bytes(bytes, len);
    tide_digest128 digest = *chain;
    int walked = 0;
    tide_record record;
    tide_status status;
    while ((status = tide_record_next(type, &rest, &record)) == TIDE_OK) {
        if (walked == count)
            break;
        const size_t at = (size_t)(record.message.ptr - bytes);
        tide_record_put_seq(bytes + at + 1, (uint64_t)(first + walked));
        digest = tide_record_chain(digest, record.bytes);
        walked++;
    }
    if (status != TIDE_NONE || walked != count)
        return tide_fail(err, TIDE_E_DAMAGED,
                         "%zu bytes of %s should be %d records; only %d are there, or what follows "
                         "them is none",
                         len, type->name, count, walked);
    *chain = digest;
    return TIDE_OK;
}

/* ---- sets of services ---- */

bool tide_record_services_may_hold(tide_view services, const char *const *names, int count)
{
    if (services.len == 0)
        return true;
    for (size_t at = 0; at < services.len;) {
        const size_t len = strnlen(services.ptr + at, services.len - at);
        for (int i = 0; i < count; i++)
            if (strlen(names[i]) == len && memcmp(names[i], services.ptr + at, len) == 0)
                return true;
        at += len + 1;
    }
    return false;
}

/* Records for people and for SQL: one JSON object each. See record.h. */

/* Keys that stand there twice are written once, with their last value, as a protobuf parser reads them. Maps are small; a larger
 * one than this is written as it stands. */
enum { PAIRS_MAX = 64 };

static bool comes_again(tide_record_cursor rest, tide_view key)
{
    tide_view other;
    tide_view value;
    while (tide_record_next_pair(&rest, &other, &value))
        if (tide_view_equal(key, other))
            return true;
    return false;
}

static tide_status append_map(tide_buffer *out, const tide_stream_type *type, int column,
                              const tide_record_value *value)
{
    tide_record_cursor cursor = tide_record_cursor_of(type, column, value);
    tide_view key;
    tide_view text;
    char separator = '{';
    while (tide_record_next_pair(&cursor, &key, &text)) {
        if (value->count <= PAIRS_MAX && comes_again(cursor, key))
            continue;
        TIDE_TRY(tide_buffer_append_byte(out, (uint8_t)separator));
        TIDE_TRY(tide_json_append_string(out, key));
        TIDE_TRY(tide_buffer_append_byte(out, ':'));
        TIDE_TRY(tide_json_append_string(out, text));
        separator = ',';
    }
    return tide_buffer_append_text(out, separator == '{' ? "{}" : "}");
}

static tide_status append_ids(tide_buffer *out, const tide_stream_type *type, int column,
                              const tide_record_value *value)
{
    tide_record_cursor cursor = tide_record_cursor_of(type, column, value);
    uint64_t id = 0;
    char separator = '[';
    while (tide_record_next_id(&cursor, &id)) {
        TIDE_TRY(tide_buffer_printf(out, "%c%" PRIu64, separator, id));
        separator = ',';
    }
    return tide_buffer_append_text(out, separator == '[' ? "[]" : "]");
}

static tide_status append_base64(tide_buffer *out, tide_view bytes)
{
    TIDE_TRY(tide_buffer_append_byte(out, '"'));
    TIDE_TRY(tide_base64_encode(out, bytes, true));
    return tide_buffer_append_byte(out, '"');
}

tide_status tide_record_value_json(tide_buffer *out, const tide_stream_type *type, int column,
                                   const tide_record_value *value)
{
    switch (type->columns[column].kind) {
    case TIDE_COLUMN_I64:
    case TIDE_COLUMN_I32:
        return tide_buffer_printf(out, "%" PRId64, value->i64);
    case TIDE_COLUMN_U64:
        return tide_buffer_printf(out, "%" PRIu64, value->u64);
    case TIDE_COLUMN_F64:
        return tide_json_append_double(out, value->f64);
    case TIDE_COLUMN_BOOL:
        return tide_buffer_append_text(out, value->i64 ? "true" : "false");
    case TIDE_COLUMN_TEXT:
        return tide_json_append_string(out, value->bytes);
    case TIDE_COLUMN_BLOB:
        return append_base64(out, value->bytes);
    case TIDE_COLUMN_MAP:
        return append_map(out, type, column, value);
    case TIDE_COLUMN_IDS:
        return append_ids(out, type, column, value);
    }
    return TIDE_E_INVALID;
}

tide_status tide_record_row_json(tide_buffer *out, const tide_stream_type *type,
                                 const tide_record_row *row)
{
    TIDE_TRY(tide_buffer_printf(out, "{\"seq_id\":%" PRId64, row->seq));
    for (int i = 0; i < type->column_count; i++) {
        TIDE_TRY(tide_buffer_printf(out, ",\"%s\":", type->columns[i].name));
        TIDE_TRY(tide_record_value_json(out, type, i, &row->values[i]));
    }
    return tide_buffer_append_byte(out, '}');
}
