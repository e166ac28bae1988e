#include "runtime/query/query_frame.h"

#include <string.h>

#include "base/arena.h"

/* ---- frames ---- */

tide_status tide_query_frame_begin(tide_buffer *out, tide_query_frame_type type, size_t *at)
{
    *at = out->len;
    TIDE_TRY(tide_buffer_append_u32(out, 0));
    return tide_buffer_append_byte(out, (uint8_t)type);
}

void tide_query_frame_finish(tide_buffer *out, size_t at)
{
    const uint32_t len = (uint32_t)(out->len - at - 4);
    for (size_t i = 0; i < 4; i++)
        out->ptr[at + i] = (char)(len >> (8 * i) & 0xff);
}

tide_status tide_query_frame_next(tide_view bytes, size_t max, tide_query_frame_type *type,
                                  tide_view *body, size_t *used, tide_error *err)
{
    *used = 0;
    if (bytes.len < TIDE_QUERY_FRAME_HEAD)
        return TIDE_OK;
    uint32_t len = 0;
    for (size_t i = 0; i < 4; i++)
        len |= (uint32_t)(unsigned char)bytes.ptr[i] << (8 * i);
    if (len < 1 || len - 1 > max)
        return tide_fail(err, TIDE_E_DAMAGED, "frame of %u bytes, want 1 to %zu", len, max);
    if (bytes.len - 4 < len)
        return TIDE_OK;
    *type = (tide_query_frame_type)(unsigned char)bytes.ptr[4];
    *body = tide_view_bytes(bytes.ptr + TIDE_QUERY_FRAME_HEAD, len - 1);
    *used = (size_t)len + 4;
    return TIDE_OK;
}

/* ---- pieces ---- */

tide_status tide_query_put_text(tide_buffer *out, tide_view text)
{
    TIDE_TRY(tide_buffer_append_varint(out, text.len));
    return tide_buffer_append_view(out, text);
}

tide_status tide_query_read_text(tide_reader *reader, tide_view *out)
{
    uint64_t len = 0;
    TIDE_TRY(tide_reader_varint(reader, &len));
    return len > tide_reader_left(reader) ? TIDE_E_DAMAGED
                                          : tide_reader_bytes(reader, (size_t)len, out);
}

tide_status tide_query_put_value(tide_buffer *out, const tide_sql_value *value)
{
    TIDE_TRY(tide_buffer_append_byte(out, (uint8_t)value->kind));
    switch (value->kind) {
    case TIDE_SQL_VALUE_NULL:
        return TIDE_OK;
    case TIDE_SQL_VALUE_I64:
    case TIDE_SQL_VALUE_BOOL:
    case TIDE_SQL_VALUE_TIME:
        return tide_buffer_append_zigzag(out, value->i64);
    case TIDE_SQL_VALUE_F64: {
        uint64_t bits = 0;
        memcpy(&bits, &value->f64, sizeof bits);
        return tide_buffer_append_u64(out, bits);
    }
    case TIDE_SQL_VALUE_TEXT:
    case TIDE_SQL_VALUE_BLOB:
        return tide_query_put_text(out, value->bytes);
    }
    return TIDE_E_INVALID;
}

tide_status tide_query_read_value(tide_reader *reader, tide_sql_value *out)
{
    uint8_t kind = 0;
    TIDE_TRY(tide_reader_byte(reader, &kind));
    *out = (tide_sql_value){.kind = (tide_sql_value_kind)kind};
    switch (kind) {
    case TIDE_SQL_VALUE_NULL:
        return TIDE_OK;
    case TIDE_SQL_VALUE_I64:
    case TIDE_SQL_VALUE_BOOL:
    case TIDE_SQL_VALUE_TIME:
        return tide_reader_zigzag(reader, &out->i64);
    case TIDE_SQL_VALUE_F64: {
        uint64_t bits = 0;
        TIDE_TRY(tide_reader_u64(reader, &bits));
        memcpy(&out->f64, &bits, sizeof bits);
        return TIDE_OK;
    }
    case TIDE_SQL_VALUE_TEXT:
    case TIDE_SQL_VALUE_BLOB:
        return tide_query_read_text(reader, &out->bytes);
    default:
        return TIDE_E_DAMAGED;
    }
}

static tide_status put_string(tide_buffer *out, const char *text)
{
    return tide_query_put_text(out, tide_view_of(text ? text : ""));
}

static tide_status read_string(tide_reader *reader, tide_arena *arena, const char **out)
{
    tide_view text;
    TIDE_TRY(tide_query_read_text(reader, &text));
    *out = tide_arena_text(arena, text);
    return *out ? TIDE_OK : TIDE_E_NOMEM;
}

/* A number of things that are at least a byte each. */
static tide_status read_count(tide_reader *reader, int *out)
{
    uint64_t count = 0;
    TIDE_TRY(tide_reader_varint(reader, &count));
    if (count > tide_reader_left(reader) || count > INT32_MAX)
        return TIDE_E_DAMAGED;
    *out = (int)count;
    return TIDE_OK;
}

/* ---- open ---- */

static tide_status put_setup(tide_buffer *out, const tide_query_setup *setup)
{
    TIDE_TRY(tide_buffer_append_byte(out, (uint8_t)setup->kind));
    TIDE_TRY(put_string(out, setup->path));
    TIDE_TRY(put_string(out, setup->library));
    TIDE_TRY(tide_buffer_append_zigzag(out, setup->memory_len));
    TIDE_TRY(tide_buffer_append_varint(out, (uint64_t)setup->directory_count));
    for (int i = 0; i < setup->directory_count; i++)
        TIDE_TRY(put_string(out, setup->directories[i]));
    return TIDE_OK;
}

tide_status tide_query_encode_open(tide_buffer *out, const tide_query_setup *setup)
{
    size_t at = 0;
    TIDE_TRY(tide_query_frame_begin(out, TIDE_QUERY_OPEN, &at));
    TIDE_TRY(put_setup(out, setup));
    tide_query_frame_finish(out, at);
    return TIDE_OK;
}

tide_status tide_query_decode_open(tide_view body, tide_arena *arena, tide_query_setup *out)
{
    tide_reader reader = tide_reader_of(body);
    uint8_t kind = 0;
    *out = (tide_query_setup){0};
    TIDE_TRY(tide_reader_byte(&reader, &kind));
    if (kind > TIDE_QUERY_LAKE)
        return TIDE_E_DAMAGED;
    out->kind = (tide_query_kind)kind;
    TIDE_TRY(read_string(&reader, arena, &out->path));
    TIDE_TRY(read_string(&reader, arena, &out->library));
    TIDE_TRY(tide_reader_zigzag(&reader, &out->memory_len));
    TIDE_TRY(read_count(&reader, &out->directory_count));
    if (out->directory_count > TIDE_QUERY_DIRECTORIES_MAX)
        return TIDE_E_DAMAGED;
    for (int i = 0; i < out->directory_count; i++)
        TIDE_TRY(read_string(&reader, arena, &out->directories[i]));
    return TIDE_OK;
}

/* ---- requests ---- */

tide_status tide_query_encode_text(tide_buffer *out, tide_query_frame_type type, const char *text)
{
    size_t at = 0;
    TIDE_TRY(tide_query_frame_begin(out, type, &at));
    TIDE_TRY(tide_buffer_append_text(out, text));
    tide_query_frame_finish(out, at);
    return TIDE_OK;
}

enum { IS_TABLE = 1, IS_DEFAULT = 2 };

static tide_status put_query(tide_buffer *out, const tide_lake_sandbox_query *query)
{
    TIDE_TRY(put_string(out, query->text));
    TIDE_TRY(tide_buffer_append_byte(out, query->is_checked));
    TIDE_TRY(tide_buffer_append_zigzag(out, query->row_max));
    TIDE_TRY(tide_buffer_append_zigzag(out, query->bytes_max));
    TIDE_TRY(tide_buffer_append_zigzag(out, query->timeout_us));
    TIDE_TRY(tide_buffer_append_varint(out, (uint64_t)query->object_count));
    for (int i = 0; i < query->object_count; i++) {
        const tide_lake_sandbox_object *object = &query->objects[i];
        TIDE_TRY(tide_buffer_append_byte(out, (uint8_t)((object->is_table ? IS_TABLE : 0) |
                                                        (object->is_default ? IS_DEFAULT : 0))));
        TIDE_TRY(put_string(out, object->catalog));
        TIDE_TRY(put_string(out, object->schema));
        TIDE_TRY(put_string(out, object->name));
        TIDE_TRY(put_string(out, object->sql));
    }
    TIDE_TRY(tide_buffer_append_varint(out, (uint64_t)query->path_count));
    for (int i = 0; i < query->path_count; i++)
        TIDE_TRY(put_string(out, query->paths[i]));
    return TIDE_OK;
}

tide_status tide_query_encode_query(tide_buffer *out, const tide_lake_sandbox_query *query)
{
    size_t at = 0;
    TIDE_TRY(tide_query_frame_begin(out, TIDE_QUERY_QUERY, &at));
    TIDE_TRY(put_query(out, query));
    tide_query_frame_finish(out, at);
    return TIDE_OK;
}

static tide_status read_objects(tide_reader *reader, tide_arena *arena,
                                tide_lake_sandbox_query *out)
{
    TIDE_TRY(read_count(reader, &out->object_count));
    tide_lake_sandbox_object *objects =
        tide_arena_alloc(arena, ((size_t)out->object_count + 1) * sizeof *objects);
    if (!objects)
        return TIDE_E_NOMEM;
    for (int i = 0; i < out->object_count; i++) {
        uint8_t flags = 0;
        TIDE_TRY(tide_reader_byte(reader, &flags));
        objects[i].is_table = flags & IS_TABLE;
        objects[i].is_default = flags & IS_DEFAULT;
        TIDE_TRY(read_string(reader, arena, &objects[i].catalog));
        TIDE_TRY(read_string(reader, arena, &objects[i].schema));
        TIDE_TRY(read_string(reader, arena, &objects[i].name));
        TIDE_TRY(read_string(reader, arena, &objects[i].sql));
    }
    out->objects = objects;
    return TIDE_OK;
}

tide_status tide_query_decode_query(tide_view body, tide_arena *arena, tide_lake_sandbox_query *out)
{
    tide_reader reader = tide_reader_of(body);
    uint8_t is_checked = 0;
    *out = (tide_lake_sandbox_query){0};
    TIDE_TRY(read_string(&reader, arena, &out->text));
    TIDE_TRY(tide_reader_byte(&reader, &is_checked));
    out->is_checked = is_checked;
    TIDE_TRY(tide_reader_zigzag(&reader, &out->row_max));
    TIDE_TRY(tide_reader_zigzag(&reader, &out->bytes_max));
    TIDE_TRY(tide_reader_zigzag(&reader, &out->timeout_us));
    TIDE_TRY(read_objects(&reader, arena, out));
    TIDE_TRY(read_count(&reader, &out->path_count));
    const char **paths = tide_arena_alloc(arena, ((size_t)out->path_count + 1) * sizeof *paths);
    if (!paths)
        return TIDE_E_NOMEM;
    for (int i = 0; i < out->path_count; i++)
        TIDE_TRY(read_string(&reader, arena, &paths[i]));
    out->paths = paths;
    return TIDE_OK;
}

/* ---- end ---- */

enum { IS_CUT = 1, IS_OUT_OF_MEMORY = 2, IS_STATEMENT = 4 };

tide_status tide_query_encode_end(tide_buffer *out, const tide_query_ending *ending)
{
    size_t at = 0;
    const int flags = (ending->is_cut ? IS_CUT : 0) |
                      (ending->is_out_of_memory ? IS_OUT_OF_MEMORY : 0) |
                      (ending->is_statement ? IS_STATEMENT : 0);
    TIDE_TRY(tide_query_frame_begin(out, TIDE_QUERY_END, &at));
    TIDE_TRY(tide_buffer_append_zigzag(out, ending->status));
    TIDE_TRY(tide_buffer_append_byte(out, (uint8_t)flags));
    TIDE_TRY(tide_query_put_text(out, ending->text));
    tide_query_frame_finish(out, at);
    return TIDE_OK;
}

tide_status tide_query_decode_end(tide_view body, tide_query_ending *out)
{
    tide_reader reader = tide_reader_of(body);
    int64_t status = 0;
    uint8_t flags = 0;
    TIDE_TRY(tide_reader_zigzag(&reader, &status));
    TIDE_TRY(tide_reader_byte(&reader, &flags));
    *out = (tide_query_ending){.is_cut = flags & IS_CUT,
                               .is_out_of_memory = flags & IS_OUT_OF_MEMORY,
                               .is_statement = flags & IS_STATEMENT};
    TIDE_TRY(tide_query_read_text(&reader, &out->text));
    /* Only what a query can end with. */
    switch (status) {
    case TIDE_OK:
    case TIDE_E_INVALID:
    case TIDE_E_DENIED:
    case TIDE_E_TIMEOUT:
    case TIDE_E_LIMIT:
    case TIDE_E_UNSUPPORTED:
    case TIDE_E_UNAVAILABLE:
    case TIDE_E_NOT_FOUND:
    case TIDE_E_BUSY:
    case TIDE_E_DAMAGED:
    case TIDE_E_FOREIGN:
    case TIDE_E_IO:
    case TIDE_E_FULL:
    case TIDE_E_EXHAUSTED:
        out->status = (tide_status)status;
        break;
    default:
        out->status = TIDE_E_FAILED;
    }
    return TIDE_OK;
}
