#include "replica/event.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes/crc32c.h"
#include "base/cleanup.h"
#include "base/digest.h"
#include "base/text/utf8.h"
#include "base/text/uuid.h"

enum { EVENT_VERSION = 2, CRC_LEN = 4, BASE_OWN = 0, BASE_OTHER = 1 };
/* In the place of the kind: updates that write nothing. */
enum { KIND_ORPHAN = TIDE_ROW_DELETE + 1, KIND_DISMISSAL };

void tide_event_done(tide_event *event)
{
    free(event->columns);
    event->columns = NULL;
    event->column_count = 0;
}

/* ---- bases ---- */

tide_status tide_base_encode(tide_buffer *out, const tide_stamp *base, const tide_node_id *writer)
{
    TIDE_TRY(tide_buffer_append_varint(out, base->time));
    if (base->time == 0)
        return TIDE_OK;
    const bool is_own = memcmp(&base->node, writer, sizeof base->node) == 0;
    const uint8_t whose = is_own ? BASE_OWN : BASE_OTHER;
    TIDE_TRY(tide_buffer_append(out, &whose, 1));
    return is_own ? TIDE_OK : tide_buffer_append(out, base->node.bytes, TIDE_NODE_LEN);
}

static bool read_node(tide_reader *from, tide_node_id *out)
{
    tide_view bytes;
    if (tide_reader_bytes(from, TIDE_NODE_LEN, &bytes) < TIDE_OK)
        return false;
    memcpy(out->bytes, bytes.ptr, TIDE_NODE_LEN);
    return true;
}

bool tide_base_decode(tide_reader *from, tide_stamp *out, const tide_node_id *writer)
{
    uint8_t whose = 0;
    *out = (tide_stamp){.time = 0};
    if (tide_reader_varint_shortest(from, &out->time) < TIDE_OK)
        return false;
    if (out->time == 0)
        return true;
    if (tide_reader_byte(from, &whose) < TIDE_OK || whose > BASE_OTHER)
        return false;
    if (whose == BASE_OTHER)
        return read_node(from, &out->node) && memcmp(&out->node, writer, sizeof out->node) != 0;
    out->node = *writer;
    return true;
}

/* ---- encoding ---- */

static tide_status put_head(tide_buffer *out, const tide_event *event)
{
    const uint8_t version = EVENT_VERSION;
    const int kind_of = event->is_orphan      ? (int)KIND_ORPHAN
                        : event->is_dismissal ? (int)KIND_DISMISSAL
                                              : (int)event->kind;
    const uint8_t kind = (uint8_t)kind_of;
    const size_t table_len = strlen(event->table);
    TIDE_TRY(tide_buffer_append(out, &version, 1));
    TIDE_TRY(tide_buffer_append(out, event->origin.bytes, TIDE_NODE_LEN));
    TIDE_TRY(tide_buffer_append_varint(out, (uint64_t)event->epoch));
    TIDE_TRY(tide_buffer_append_varint(out, (uint64_t)event->seq));
    TIDE_TRY(tide_buffer_append_varint(out, (uint64_t)event->prev_seq));
    TIDE_TRY(tide_buffer_append_varint(out, (uint64_t)event->cut_seq));
    TIDE_TRY(tide_buffer_append_varint(out, event->stamp.time));
    TIDE_TRY(tide_buffer_append(out, event->stamp.node.bytes, TIDE_NODE_LEN));
    TIDE_TRY(tide_buffer_append_varint(out, table_len));
    TIDE_TRY(tide_buffer_append(out, event->table, table_len));
    TIDE_TRY(tide_buffer_append_u64(out, event->schema));
    TIDE_TRY(tide_buffer_append(out, &kind, 1));
    return tide_base_encode(out, &event->base, &event->stamp.node);
}

static tide_status put_body(tide_buffer *out, const tide_event *event)
{
    int before = -1;
    TIDE_TRY(tide_buffer_append_varint(out, (uint64_t)event->key_count));
    for (int i = 0; i < event->key_count; i++)
        TIDE_TRY(tide_sql_value_encode(out, &event->key[i]));
    TIDE_TRY(tide_buffer_append_varint(out, (uint64_t)event->column_count));
    for (int i = 0; i < event->column_count; i++) {
        const tide_event_column *column = &event->columns[i];
        TIDE_TRY(tide_buffer_append_varint(out, (uint64_t)(column->column - before - 1)));
        TIDE_TRY(tide_base_encode(out, &column->base, &event->stamp.node));
        TIDE_TRY(tide_sql_value_encode(out, &column->value));
        before = column->column;
    }
    return TIDE_OK;
}

static tide_status put_all(tide_buffer *out, const tide_event *event)
{
    const size_t begin = out->len;
    TIDE_TRY(put_head(out, event));
    TIDE_TRY(put_body(out, event));
    const uint32_t crc = tide_crc32c(tide_view_bytes(out->ptr + begin, out->len - begin));
    TIDE_TRY(tide_buffer_append_u32(out, crc));
    return out->len - begin <= TIDE_EVENT_BYTES_MAX ? TIDE_OK : TIDE_E_LIMIT;
}

tide_status tide_event_encode(tide_buffer *out, const tide_event *event, tide_error *err)
{
    const size_t before = out->len;
    const tide_status status = put_all(out, event);
    if (status >= TIDE_OK)
        return TIDE_OK;
    tide_buffer_truncate(out, before);
    if (status != TIDE_E_LIMIT)
        return tide_buffer_check(status, err);
    return tide_fail(err, status, "a change of one row has more than %d bytes",
                     TIDE_EVENT_BYTES_MAX);
}

/* ---- decoding ---- */

static bool read_number(tide_reader *from, int64_t *out, int64_t least)
{
    uint64_t number = 0;
    if (tide_reader_varint_shortest(from, &number) < TIDE_OK || number > INT64_MAX)
        return false;
    *out = (int64_t)number;
    return *out >= least;
}

static bool read_table(tide_reader *from, char out[TIDE_EVENT_TABLE_MAX + 1])
{
    uint64_t len = 0;
    tide_view name;
    if (tide_reader_varint_shortest(from, &len) < TIDE_OK || len == 0 ||
        len > TIDE_EVENT_TABLE_MAX || tide_reader_bytes(from, (size_t)len, &name) < TIDE_OK ||
        !tide_utf8_valid(name))
        return false;
    memcpy(out, name.ptr, name.len);
    out[name.len] = '\0';
    return true;
}

static bool read_head(tide_reader *from, tide_event *out)
{
    uint8_t version = 0;
    uint8_t kind = 0;
    if (tide_reader_byte(from, &version) < TIDE_OK || version != EVENT_VERSION ||
        !read_node(from, &out->origin) || !read_number(from, &out->epoch, 1) ||
        !read_number(from, &out->seq, 1) || !read_number(from, &out->prev_seq, 0) ||
        !read_number(from, &out->cut_seq, 1) ||
        tide_reader_varint_shortest(from, &out->stamp.time) < TIDE_OK ||
        !read_node(from, &out->stamp.node) || !read_table(from, out->table) ||
        tide_reader_u64(from, &out->schema) < TIDE_OK || tide_reader_byte(from, &kind) < TIDE_OK ||
        kind > KIND_DISMISSAL || !tide_base_decode(from, &out->base, &out->stamp.node))
        return false;
    out->is_orphan = kind == KIND_ORPHAN;
    out->is_dismissal = kind == KIND_DISMISSAL;
    out->kind = kind >= KIND_ORPHAN ? TIDE_ROW_UPDATE : (tide_change_kind)kind;
    return out->prev_seq < out->seq && out->cut_seq >= out->seq && out->stamp.time != 0;
}

static bool read_key(tide_reader *from, tide_event *out)
{
    int64_t count = 0;
    if (!read_number(from, &count, 1) || count > TIDE_EVENT_KEY_MAX)
        return false;
    for (int64_t i = 0; i < count; i++)
        if (tide_sql_value_decode(&out->key[i], from) < TIDE_OK)
            return false;
    out->key_count = (int)count;
    return true;
}

static bool read_columns(tide_reader *from, tide_event *out, int64_t count)
{
    int64_t before = -1;
    for (int64_t i = 0; i < count; i++) {
        int64_t gap = 0;
        tide_event_column *to = &out->columns[i];
        if (!read_number(from, &gap, 0) || gap >= TIDE_EVENT_COLUMNS_MAX ||
            !tide_base_decode(from, &to->base, &out->stamp.node) ||
            tide_sql_value_decode(&to->value, from) < TIDE_OK)
            return false;
        before += gap + 1;
        if (before >= TIDE_EVENT_COLUMNS_MAX)
            return false;
        if ((out->kind == TIDE_ROW_DELETE || out->is_orphan || out->is_dismissal) &&
            to->value.kind != TIDE_SQL_VALUE_NULL)
            return false; /* it writes none */
        to->column = (int)before;
    }
    out->column_count = (int)count;
    return true;
}

static tide_status fail_damaged(tide_error *err)
{
    return tide_fail(err, TIDE_E_DAMAGED, "these bytes are not an event");
}

size_t tide_event_size(const tide_event *event)
{
    return offsetof(tide_event, key) + (size_t)event->key_count * sizeof event->key[0];
}

void tide_event_copy(tide_event *out, const tide_event *event)
{
    memcpy(out, event, tide_event_size(event));
}

static bool has_its_sum(tide_view bytes)
{
    uint32_t crc = 0;
    if (bytes.len <= CRC_LEN)
        return false;
    tide_reader tail = tide_reader_of(tide_view_bytes(bytes.ptr + bytes.len - CRC_LEN, CRC_LEN));
    return tide_reader_u32(&tail, &crc) >= TIDE_OK &&
           crc == tide_crc32c(tide_view_bytes(bytes.ptr, bytes.len - CRC_LEN));
}

tide_status tide_event_check(tide_view bytes, const tide_node_id *origin, int64_t epoch,
                             int64_t seq, int64_t cut_seq, tide_error *err)
{
    tide_event found; /* as in tide_event_decode */
    memset(&found, 0, offsetof(tide_event, key));
    tide_reader from = tide_reader_of(bytes);
    if (has_its_sum(bytes) && read_head(&from, &found) &&
        memcmp(&found.origin, origin, sizeof found.origin) == 0 && found.epoch == epoch &&
        found.seq == seq && (cut_seq == 0 || found.cut_seq == cut_seq))
        return TIDE_OK;
    char node[TIDE_UUID_TEXT_SIZE];
    tide_uuid id;
    memcpy(id.bytes, origin->bytes, TIDE_NODE_LEN);
    tide_uuid_format(&id, node);
    return tide_fail(err, TIDE_E_DAMAGED,
                     "event %" PRId64 " of epoch %" PRId64 " of node %s is not what was written: "
                     "restore this replica's file, or pull from another one",
                     seq, epoch, node);
}

tide_status tide_event_decode(tide_event *out, tide_view bytes, tide_error *err)
{
    if (bytes.len > TIDE_EVENT_BYTES_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "an event of %zu bytes, at most %d", bytes.len,
                         TIDE_EVENT_BYTES_MAX);
    int64_t count = 0;
    if (!has_its_sum(bytes))
        return fail_damaged(err);
    tide_reader from = tide_reader_of(tide_view_bytes(bytes.ptr, bytes.len - CRC_LEN));
    TIDE_CLEANUP(tide_event_done) tide_event found; /* room for the key is 2.5 KB: not cleared */
    memset(&found, 0, offsetof(tide_event, key));
    if (!read_head(&from, &found) || !read_key(&from, &found) || !read_number(&from, &count, 0) ||
        count > TIDE_EVENT_COLUMNS_MAX)
        return fail_damaged(err);
    TIDE_ALLOC(found.columns, (size_t)count + 1, err);
    if (!read_columns(&from, &found, count) || tide_reader_left(&from) > 0)
        return fail_damaged(err);
    tide_event_copy(out, &found);
    found.columns = NULL;
    return TIDE_OK;
}

/* ---- the id ---- */

static tide_digest128 digest_identity(const tide_event *event)
{
    uint8_t identity[TIDE_NODE_LEN + 16];
    memcpy(identity, event->origin.bytes, TIDE_NODE_LEN);
    for (int i = 0; i < 8; i++) {
        identity[TIDE_NODE_LEN + i] = (uint8_t)((uint64_t)event->epoch >> (8 * i));
        identity[TIDE_NODE_LEN + 8 + i] = (uint8_t)((uint64_t)event->seq >> (8 * i));
    }
    return tide_digest128_of(tide_view_bytes(identity, sizeof identity));
}

/* 48 bits of milliseconds, 16 of their counter around version and variant, 58 of the digest. */
void tide_event_id(char out[TIDE_UUID_TEXT_SIZE], const tide_event *event)
{
    const uint64_t time = event->stamp.time;
    const tide_digest128 digest = digest_identity(event);
    tide_uuid id;
    memcpy(id.bytes, digest.bytes, sizeof id.bytes);
    for (int i = 0; i < 6; i++)
        id.bytes[i] = (uint8_t)(time >> (56 - 8 * i));
    id.bytes[6] = (uint8_t)(0x80 | ((time >> 12) & 0x0f)); /* a UUID of a kind of our own */
    id.bytes[7] = (uint8_t)(time >> 4);
    id.bytes[8] = (uint8_t)(0x80 | ((time & 0x0f) << 2) | (digest.bytes[8] & 0x03));
    tide_uuid_format(&id, out);
}
