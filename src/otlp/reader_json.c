#include "otlp/reader.h"

static tide_status next_token(tide_otlp_reader *reader, tide_json_token *token)
{
    return tide_json_scan_next(&reader->scan, token, reader->err);
}

static bool is_null(const tide_json_token *token)
{
    return token->kind == TIDE_JSON_LITERAL && token->text.ptr[0] == 'n';
}

/* Pass over what is left of values that nobody wanted to read to their end. */
static tide_status leave_values(const tide_otlp_message *message)
{
    const int depth = message->depth + (message->list_number != 0 ? 1 : 0);
    tide_json_token token;
    while (message->reader->scan.depth > depth)
        TIDE_TRY(next_token(message->reader, &token));
    return TIDE_OK;
}

static void describe(tide_otlp_field *field, const tide_otlp_message *message, uint32_t number)
{
    *field = (tide_otlp_field){.number = number, .type = &message->type->fields[number]};
}

/* The value behind a key. TIDE_NONE: it does not count, or is a list whose elements follow. */
static tide_status read_member(tide_otlp_message *message, const tide_json_token *key,
                               tide_otlp_field *field)
{
    tide_otlp_reader *reader = message->reader;
    tide_view name;
    TIDE_TRY(tide_otlp_token_text(reader, key, &name));
    const uint32_t number = tide_otlp_field_find(message->type, name);
    tide_json_token token;
    TIDE_TRY(next_token(reader, &token));
    if (number == 0 || is_null(&token))
        return TIDE_NONE;
    describe(field, message, number);
    if (!field->type->is_list)
        return tide_otlp_token_read(reader, &token, field);
    if (token.kind != TIDE_JSON_ARRAY_BEGIN)
        return tide_json_scan_fail(reader->bytes, token.offset, "an array is missing", reader->err);
    message->list_number = number;
    return TIDE_NONE;
}

tide_status tide_otlp_next_json(tide_otlp_message *message, tide_otlp_field *field)
{
    tide_otlp_reader *reader = message->reader;
    for (;;) {
        TIDE_TRY(leave_values(message));
        tide_json_token token;
        TIDE_TRY(next_token(reader, &token));
        tide_status status = TIDE_NONE;
        if (token.kind == TIDE_JSON_OBJECT_END)
            return TIDE_NONE;
        if (token.kind == TIDE_JSON_ARRAY_END) {
            message->list_number = 0;
        } else if (message->list_number == 0) {
            status = read_member(message, &token, field);
        } else if (!is_null(&token)) {
            describe(field, message, message->list_number);
            status = tide_otlp_token_read(reader, &token, field);
        }
        if (status != TIDE_NONE)
            return status;
    }
}
