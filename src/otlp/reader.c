#include "otlp/reader.h"

#include <assert.h>

tide_status tide_otlp_read(tide_otlp_reader *reader, tide_otlp_message *root,
                           const tide_otlp_message_type *type, tide_otlp_format format,
                           tide_view bytes, tide_arena *arena, tide_error *err)
{
    *reader = (tide_otlp_reader){
        .bytes = bytes,
        .is_json = format == TIDE_OTLP_JSON,
        .arena = arena,
        .err = err,
    };
    *root = (tide_otlp_message){.reader = reader, .type = type, .end = bytes.len};
    if (!reader->is_json)
        return TIDE_OK;
    tide_json_scan_init(&reader->scan, bytes);
    tide_json_token token;
    TIDE_TRY(tide_json_scan_next(&reader->scan, &token, err));
    if (token.kind != TIDE_JSON_OBJECT_BEGIN)
        return tide_json_scan_fail(bytes, token.offset, "an object is missing", err);
    root->depth = reader->scan.depth;
    return TIDE_OK;
}

tide_status tide_otlp_read_end(tide_otlp_reader *reader)
{
    if (!reader->is_json)
        return TIDE_OK;
    tide_json_token token;
    return tide_json_scan_next(&reader->scan, &token, reader->err);
}

void tide_otlp_enter(tide_otlp_message *message, const tide_otlp_message *parent,
                     const tide_otlp_field *field)
{
    assert(field->type->kind == TIDE_OTLP_KIND_MESSAGE);
    *message = (tide_otlp_message){
        .reader = parent->reader,
        .type = field->type->message,
        .end = field->end,
        .resume = parent->reader->at,
        .depth = parent->reader->scan.depth,
    };
}

tide_status tide_otlp_next(tide_otlp_message *message, tide_otlp_field *field)
{
    return message->reader->is_json ? tide_otlp_next_json(message, field)
                                    : tide_otlp_next_protobuf(message, field);
}

void tide_otlp_look_ahead(tide_otlp_ahead *ahead, const tide_otlp_message *message)
{
    ahead->reader = *message->reader;
    ahead->message = *message;
    ahead->message.reader = &ahead->reader;
}

tide_status tide_otlp_reader_room(tide_otlp_reader *reader, size_t len, char **out)
{
    *out = NULL;
    /* The arena rounds up; what does not fit for certain is left out. */
    const size_t left = reader->arena->max - reader->arena->used_len;
    if (left < sizeof(max_align_t) || len > left - sizeof(max_align_t)) {
        reader->is_overfull = true;
        return TIDE_OK;
    }
    *out = tide_arena_alloc(reader->arena, len);
    return *out ? TIDE_OK : tide_no_memory(reader->err);
}
