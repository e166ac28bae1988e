/* record.c - the tables of streams and columns, the walk over records and their numbers. See record.h. */
#include "feed/record.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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

enum { SEQ_DIGITS = 10 };

void tide_record_put_seq(char *at, uint64_t seq)
{
    for (int i = 0; i < SEQ_DIGITS - 1; i++) {
        at[i] = (char)(0x80U | (seq & 0x7FU));
        seq >>= 7;
    }
    at[SEQ_DIGITS - 1] = (char)seq;
}

/* False: not a padded number within int64. */
static bool get_seq(const char *at, int64_t *seq)
{
    uint64_t value = 0;
    for (int i = 0; i < SEQ_DIGITS; i++) {
        const uint8_t byte = (uint8_t)at[i];
        if (i < SEQ_DIGITS - 1 ? byte < 0x80U : byte != 0)
            return false;
        value |= (uint64_t)(byte & 0x7FU) << (7 * i);
    }
    *seq = (int64_t)value;
    return true;
}

tide_status tide_record_next(const tide_stream_type *type, tide_view *rest, tide_record *out)
{
    if (rest->len == 0)
        return TIDE_NONE;
    tide_reader reader = tide_reader_of(*rest);
    uint8_t tag = 0;
    uint64_t len = 0;
    TIDE_TRY(tide_reader_byte(&reader, &tag));
    TIDE_TRY(tide_reader_varint_shortest(&reader, &len));
    if (tag != type->tag || len < TIDE_RECORD_SEQ_LEN || len > TIDE_FEED_RECORD_MAX)
        return TIDE_E_DAMAGED;
    tide_record record = {0};
    TIDE_TRY(tide_reader_bytes(&reader, (size_t)len, &record.message));
    if ((uint8_t)record.message.ptr[0] != type->seq_tag ||
        !get_seq(record.message.ptr + 1, &record.seq))
        return TIDE_E_DAMAGED;
    record.bytes = tide_view_bytes(rest->ptr, reader.offset);
    *rest = tide_view_bytes(rest->ptr + reader.offset, rest->len - reader.offset);
    *out = record;
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
