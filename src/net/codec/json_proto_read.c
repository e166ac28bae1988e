/* From JSON to protobuf: one walk over the tokens, with a call per level of nesting (which the
 * scanner bounds). */
#include "net/codec/json_proto.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/base64.h"
#include "base/text/json_canon.h"
#include "base/text/json_scan.h"
#include "base/text/json_tree.h"
#include "base/text/timefmt.h"
#include "net/codec/json_field.h"
#include "net/codec/json_format.h"
#include "net/codec/json_value.h"
#include "net/codec/protobuf_wire.h"

enum {
    SEEN_LEN_MAX = 1 << 20, /* fields of all messages that are open */
    NAME_SHOWN_MAX = 64,    /* bytes of input that an error shows */
};

/* A key of a map that is open: where its encoding lies in the output. */
typedef struct map_key {
    uint32_t at;
    uint32_t len;
    uint32_t json_at; /* where it stands in the text */
} map_key;

typedef struct json_reader {
    tide_json_scan scan;
    tide_json_proto_options options;
    bool is_plain;
    tide_buffer *out;
    tide_error *err;
    tide_buffer text; /* the string at hand, without escapes */
    tide_buffer seen; /* a byte per field of every open message, the innermost last */
    tide_buffer keys; /* map_key of every open map, the innermost last */
} json_reader;

static tide_status read_message(json_reader *r, const ProtobufCMessageDescriptor *descriptor);

/* --- failures --- */

static tide_status fail_at(const json_reader *r, const tide_json_token *token, const char *name,
                           const char *what)
{
    char words[512];
    (void)snprintf(words, sizeof words, "%s: %s", name, what);
    return tide_json_scan_fail(r->scan.text, token->offset, words, r->err);
}

/* The outcome of a write to one of the buffers. */
static tide_status check(const json_reader *r, tide_status status)
{
    if (status == TIDE_E_LIMIT)
        return tide_fail(r->err, status, "the message is larger than %zu bytes as protobuf",
                         r->out->max);
    if (status != TIDE_OK)
        return tide_buffer_check(status, r->err);
    return TIDE_OK;
}

static tide_status fail_unknown(const json_reader *r, const tide_json_token *token,
                                const ProtobufCMessageDescriptor *descriptor, tide_view name)
{
    char near[NAME_SHOWN_MAX];
    tide_json_field_suggest(descriptor, name, r->is_plain, near, sizeof near);
    char words[384];
    (void)snprintf(words, sizeof words, "%s has no field \"%.*s\"%s%s%s", descriptor->name,
                   name.len > NAME_SHOWN_MAX ? NAME_SHOWN_MAX : (int)name.len,
                   name.len > 0 ? name.ptr : "", near[0] ? "; did you mean \"" : "", near,
                   near[0] ? "\"?" : "");
    return tide_json_scan_fail(r->scan.text, token->offset, words, r->err);
}

/* --- tokens --- */

static tide_status next_token(json_reader *r, tide_json_token *token)
{
    return tide_json_scan_next(&r->scan, token, r->err);
}

static bool is_literal(const tide_json_token *token, const char *literal)
{
    return token->kind == TIDE_JSON_LITERAL && tide_view_equal(token->text, tide_view_of(literal));
}

/* What a string or key says; borrowed from the text or, with escapes, until the next call. */
static tide_status read_text(json_reader *r, const tide_json_token *token, tide_view *out)
{
    *out = tide_view_bytes(token->text.ptr + 1, token->text.len - 2);
    if (!token->has_escape)
        return TIDE_OK;
    tide_buffer_clear(&r->text);
    TIDE_TRY(check(r, tide_json_unescape(&r->text, token->text)));
    *out = tide_buffer_view(&r->text);
    return TIDE_OK;
}

/* Pass over a value whose first token was read. */
static tide_status skip_value(json_reader *r, const tide_json_token *first)
{
    if (first->kind != TIDE_JSON_OBJECT_BEGIN && first->kind != TIDE_JSON_ARRAY_BEGIN)
        return TIDE_OK;
    const int depth = r->scan.depth;
    while (r->scan.depth >= depth) {
        tide_json_token token;
        TIDE_TRY(next_token(r, &token));
    }
    return TIDE_OK;
}

/* --- scalars --- */

/* *is_left_out: an enum's unknown name, to be ignored. */
static tide_status read_enum(json_reader *r, const ProtobufCFieldDescriptor *field,
                             const tide_json_token *token, tide_view text, uint64_t *out,
                             bool *is_left_out)
{
    const ProtobufCEnumDescriptor *names = field->descriptor;
    for (unsigned i = 0; i < names->n_value_names; i++) {
        if (tide_view_equal(text, tide_view_of(names->values_by_name[i].name))) {
            *out = (uint64_t)(int64_t)names->values[names->values_by_name[i].index].value;
            return TIDE_OK;
        }
    }
    if (tide_json_is_number(text)) {
        const char *wrong = tide_json_read_integer(PROTOBUF_C_TYPE_ENUM, text, out);
        return wrong ? fail_at(r, token, field->name, wrong) : TIDE_OK;
    }
    *is_left_out = r->options.is_unknown_ignored;
    if (*is_left_out)
        return TIDE_OK;
    char near[NAME_SHOWN_MAX];
    tide_json_enum_suggest(names, text, near, sizeof near);
    char words[256];
    (void)snprintf(words, sizeof words, "\"%.*s\" is not a value of %s%s%s%s",
                   text.len > NAME_SHOWN_MAX ? NAME_SHOWN_MAX : (int)text.len,
                   text.len > 0 ? text.ptr : "", names->name, near[0] ? "; did you mean \"" : "",
                   near, near[0] ? "\"?" : "");
    return fail_at(r, token, field->name, words);
}

/* Values of one word; keys of maps have theirs in quotes. */
static tide_status read_bool(json_reader *r, const ProtobufCFieldDescriptor *field,
                             const tide_json_token *token, tide_view text, uint64_t *out)
{
    const bool is_bare = token->kind == TIDE_JSON_LITERAL || token->kind == TIDE_JSON_KEY;
    *out = tide_view_equal(text, tide_view_of("true"));
    if (is_bare && (*out == 1 || tide_view_equal(text, tide_view_of("false"))))
        return TIDE_OK;
    return fail_at(r, token, field->name, "true or false is wanted");
}

/* A number, a bool or an enum, in the form in which the wire keeps it. */
static tide_status read_scalar(json_reader *r, const ProtobufCFieldDescriptor *field,
                               const tide_json_token *token, uint64_t *out, bool *is_left_out)
{
    tide_view text = token->text;
    const bool is_text = token->kind == TIDE_JSON_STRING || token->kind == TIDE_JSON_KEY;
    if (is_text)
        TIDE_TRY(read_text(r, token, &text));
    if (field->type == PROTOBUF_C_TYPE_BOOL)
        return read_bool(r, field, token, text, out);
    if (!is_text && token->kind != TIDE_JSON_NUMBER)
        return fail_at(r, token, field->name,
                       field->type == PROTOBUF_C_TYPE_ENUM ? "a name or a number is wanted"
                                                           : "a number is wanted");
    if (field->type == PROTOBUF_C_TYPE_ENUM)
        return read_enum(r, field, token, text, out, is_left_out);

    const char *wrong = "not a number";
    if (field->type == PROTOBUF_C_TYPE_FLOAT || field->type == PROTOBUF_C_TYPE_DOUBLE)
        wrong = tide_json_read_real(field->type, text, out);
    else if (!is_text || tide_json_is_number(text))
        wrong = tide_json_read_integer(field->type, text, out);
    return wrong ? fail_at(r, token, field->name, wrong) : TIDE_OK;
}

/* RFC 3339, or the number of microseconds or milliseconds that the field has. */
static tide_status read_time(json_reader *r, const ProtobufCFieldDescriptor *field,
                             tide_json_format format, const tide_json_token *token, uint64_t *out)
{
    bool is_left_out = false;
    tide_view text = token->text;
    if (token->kind == TIDE_JSON_STRING)
        TIDE_TRY(read_text(r, token, &text));
    if (token->kind != TIDE_JSON_STRING || tide_json_is_number(text))
        return read_scalar(r, field, token, out, &is_left_out);
    int64_t us = 0;
    if (tide_time_parse(&us, text) != TIDE_OK)
        return fail_at(r, token, field->name, "not a time; want 2026-01-31T12:00:00Z");
    *out = (uint64_t)(format == TIDE_JSON_TIME ? us : us / 1000);
    return TIDE_OK;
}

static tide_status append_bare(tide_buffer *out, ProtobufCType type, uint64_t value)
{
    switch (tide_wire_type_of(type)) {
    case TIDE_WIRE_FIXED64:
        return tide_buffer_append_u64(out, value);
    case TIDE_WIRE_FIXED32:
        return tide_buffer_append_u32(out, (uint32_t)value);
    case TIDE_WIRE_VARINT:
    case TIDE_WIRE_BYTES:
        break;
    }
    return tide_buffer_append_varint(out, value);
}

/* --- one value --- */

static bool is_time(tide_json_format format)
{
    return format == TIDE_JSON_TIME || format == TIDE_JSON_TIME_MS;
}

static tide_status write_scalar(json_reader *r, const ProtobufCFieldDescriptor *field,
                                tide_json_format format, const tide_json_token *token,
                                bool is_default_kept)
{
    uint64_t value = 0;
    bool is_left_out = false;
    TIDE_TRY(is_time(format) ? read_time(r, field, format, token, &value)
                             : read_scalar(r, field, token, &value, &is_left_out));
    if (is_left_out || (value == 0 && !is_default_kept))
        return TIDE_OK;
    TIDE_TRY(check(r, tide_wire_append_tag(r->out, field->id, tide_wire_type_of(field->type))));
    return check(r, append_bare(r->out, field->type, value));
}

static tide_status write_bytes(json_reader *r, const ProtobufCFieldDescriptor *field,
                               const tide_json_token *token, bool is_default_kept)
{
    if (token->kind != TIDE_JSON_STRING && token->kind != TIDE_JSON_KEY)
        return fail_at(r, token, field->name, "a string is wanted");
    tide_view text;
    TIDE_TRY(read_text(r, token, &text));
    if (text.len == 0 && !is_default_kept)
        return TIDE_OK;
    if (field->type == PROTOBUF_C_TYPE_STRING)
        return check(r, tide_wire_append_bytes(r->out, field->id, text));
    size_t content_at;
    TIDE_TRY(check(r, tide_wire_begin(r->out, field->id, &content_at)));
    const tide_status status = tide_base64_decode(r->out, text);
    if (status == TIDE_E_INVALID)
        return fail_at(r, token, field->name, "not base64");
    TIDE_TRY(check(r, status));
    return check(r, tide_wire_end(r->out, content_at));
}

/* The text of a value whose first token was read, as it stands. */
static tide_status write_document(json_reader *r, const ProtobufCFieldDescriptor *field,
                                  const tide_json_token *token)
{
    const char *first = token->text.ptr;
    TIDE_TRY(skip_value(r, token));
    const size_t len = (size_t)(r->scan.text.ptr + r->scan.at - first);
    return check(r, tide_wire_append_bytes(r->out, field->id, tide_view_bytes(first, len)));
}

static tide_status write_value(json_reader *r, const ProtobufCFieldDescriptor *field,
                               tide_json_format format, const tide_json_token *token,
                               bool is_default_kept)
{
    if (format == TIDE_JSON_DOCUMENT || format == TIDE_JSON_TEXT_DOCUMENT)
        return write_document(r, field, token);
    if (field->type == PROTOBUF_C_TYPE_STRING || field->type == PROTOBUF_C_TYPE_BYTES)
        return write_bytes(r, field, token, is_default_kept);
    if (field->type != PROTOBUF_C_TYPE_MESSAGE)
        return write_scalar(r, field, format, token, is_default_kept);
    if (token->kind != TIDE_JSON_OBJECT_BEGIN)
        return fail_at(r, token, field->name, "an object is wanted");
    size_t content_at;
    TIDE_TRY(check(r, tide_wire_begin(r->out, field->id, &content_at)));
    TIDE_TRY(read_message(r, field->descriptor));
    return check(r, tide_wire_end(r->out, content_at));
}

/* --- arrays --- */

/* The next element. TIDE_NONE: the end of the array. */
static tide_status next_element(json_reader *r, const ProtobufCFieldDescriptor *field,
                                tide_json_token *token)
{
    TIDE_TRY(next_token(r, token));
    if (token->kind == TIDE_JSON_ARRAY_END)
        return TIDE_NONE;
    if (is_literal(token, "null"))
        return fail_at(r, token, field->name, "null is no element of an array");
    return TIDE_OK;
}

static tide_status read_packed(json_reader *r, const ProtobufCFieldDescriptor *field,
                               tide_json_format format)
{
    const size_t before_len = r->out->len;
    size_t content_at;
    TIDE_TRY(check(r, tide_wire_begin(r->out, field->id, &content_at)));
    tide_json_token token;
    TIDE_EACH(next_element(r, field, &token)) {
        uint64_t value = 0;
        bool is_left_out = false;
        TIDE_TRY(is_time(format) ? read_time(r, field, format, &token, &value)
                                 : read_scalar(r, field, &token, &value, &is_left_out));
        if (!is_left_out)
            TIDE_TRY(check(r, append_bare(r->out, field->type, value)));
    }
    if (r->out->len > content_at)
        return check(r, tide_wire_end(r->out, content_at));
    tide_buffer_truncate(r->out, before_len);
    return TIDE_OK;
}

static tide_status read_array(json_reader *r, const ProtobufCFieldDescriptor *field,
                              tide_json_format format, const tide_json_token *first)
{
    if (first->kind != TIDE_JSON_ARRAY_BEGIN)
        return fail_at(r, first, field->name, "an array is wanted");
    if (tide_wire_is_packable(field->type))
        return read_packed(r, field, format);
    tide_json_token token;
    TIDE_EACH(next_element(r, field, &token)) {
        TIDE_TRY(write_value(r, field, format, &token, true));
    }
    return TIDE_OK;
}

/* --- maps --- */

static int compare_keys(const void *a, const void *b, void *arg)
{
    const map_key *x = a;
    const map_key *y = b;
    const char *bytes = arg;
    if (x->len != y->len)
        return x->len < y->len ? -1 : 1;
    const int order = memcmp(bytes + x->at, bytes + y->at, x->len);
    if (order != 0)
        return order;
    return x->json_at < y->json_at ? -1 : x->json_at > y->json_at;
}

/* Forget the keys from keys_at on, if no two of them are the same. */
static tide_status close_keys(json_reader *r, const ProtobufCFieldDescriptor *field, size_t keys_at)
{
    const size_t count = (r->keys.len - keys_at) / sizeof(map_key);
    if (count > 1) {
        map_key *keys = (map_key *)(void *)(r->keys.ptr + keys_at);
        qsort_r(keys, count, sizeof *keys, compare_keys, r->out->ptr);
        for (size_t i = 1; i < count; i++) {
            const char *bytes = r->out->ptr;
            if (keys[i].len == keys[i - 1].len &&
                memcmp(bytes + keys[i].at, bytes + keys[i - 1].at, keys[i].len) == 0) {
                const tide_json_token twice = {.offset = keys[i].json_at};
                return fail_at(r, &twice, field->name, "this key appears a second time");
            }
        }
    }
    tide_buffer_truncate(&r->keys, keys_at);
    return TIDE_OK;
}

/* One entry is a message: key = 1, value = 2, both always written. */
static tide_status read_entry(json_reader *r, const ProtobufCFieldDescriptor *field,
                              const tide_json_token *key)
{
    const ProtobufCMessageDescriptor *entry = field->descriptor;
    const size_t before_len = r->out->len;
    size_t content_at;
    TIDE_TRY(check(r, tide_wire_begin(r->out, field->id, &content_at)));
    TIDE_TRY(write_value(r, &entry->fields[0], TIDE_JSON_AS_IS, key, true));
    const size_t key_len = r->out->len - content_at;

    tide_json_token token;
    TIDE_TRY(next_token(r, &token));
    if (is_literal(&token, "null"))
        return fail_at(r, &token, field->name, "null is no value of a map");
    TIDE_TRY(write_value(r, &entry->fields[1], TIDE_JSON_AS_IS, &token, true));
    const size_t content_len = r->out->len - content_at;
    if (content_len == key_len) { /* an enum's unknown name: the entry is left out */
        tide_buffer_truncate(r->out, before_len);
        return TIDE_OK;
    }
    TIDE_TRY(check(r, tide_wire_end(r->out, content_at)));
    if (r->out->len > UINT32_MAX)
        return check(r, TIDE_E_LIMIT);
    const map_key noted = {.at = (uint32_t)(r->out->len - content_len),
                           .len = (uint32_t)key_len,
                           .json_at = (uint32_t)key->offset};
    const tide_status status = tide_buffer_append(&r->keys, &noted, sizeof noted);
    if (status == TIDE_E_LIMIT)
        return tide_fail(r->err, status, "%s: maps of more than %d entries", field->name,
                         TIDE_JSON_PROTO_MAP_MAX);
    return check(r, status);
}

static tide_status read_map(json_reader *r, const ProtobufCFieldDescriptor *field,
                            const tide_json_token *first)
{
    if (first->kind != TIDE_JSON_OBJECT_BEGIN)
        return fail_at(r, first, field->name, "an object is wanted");
    const size_t keys_at = r->keys.len;
    for (;;) {
        tide_json_token key;
        TIDE_TRY(next_token(r, &key));
        if (key.kind == TIDE_JSON_OBJECT_END)
            return close_keys(r, field, keys_at);
        TIDE_TRY(read_entry(r, field, &key));
    }
}

/* --- messages --- */

static tide_status read_field(json_reader *r, const ProtobufCMessageDescriptor *descriptor,
                              const ProtobufCFieldDescriptor *field, tide_json_format format,
                              const tide_json_token *token)
{
    if (tide_json_field_is_map(descriptor, field))
        return read_map(r, field, token);
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return read_array(r, field, format, token);
    const bool is_default_kept =
        field->label != PROTOBUF_C_LABEL_NONE || (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
    return write_value(r, field, format, token, is_default_kept);
}

/* Note that a field came. seen is the innermost message's part: 1 seen, 2 seen with a value. */
static tide_status note_field(json_reader *r, const ProtobufCMessageDescriptor *descriptor,
                              const ProtobufCFieldDescriptor *field, const tide_json_token *key,
                              bool has_value)
{
    char *seen = r->seen.ptr + r->seen.len - descriptor->n_fields;
    const size_t index = (size_t)(field - descriptor->fields);
    if (seen[index] != 0)
        return fail_at(r, key, field->name, "this field appears a second time");
    seen[index] = has_value ? 2 : 1;
    if (!has_value || (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) == 0)
        return TIDE_OK;
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *other = &descriptor->fields[i];
        if (seen[i] == 2 && tide_json_field_is_rival(field, other)) {
            char words[128];
            (void)snprintf(words, sizeof words, "%s is given already, and they exclude each other",
                           other->name);
            return fail_at(r, key, field->name, words);
        }
    }
    return TIDE_OK;
}

/* What is known of the message under way. */
typedef struct open_message {
    const ProtobufCMessageDescriptor *descriptor;
    const char *formats; /* NULL: none */
    unsigned hint;
    bool is_text;                               /* its member is_text is true */
    const ProtobufCFieldDescriptor *text_field; /* a TEXT_DOCUMENT that is a string, or NULL */
    tide_json_token text;                       /* that string */
} open_message;

static tide_status read_member(json_reader *r, open_message *message, const tide_json_token *key)
{
    const ProtobufCMessageDescriptor *descriptor = message->descriptor;
    tide_view name;
    TIDE_TRY(read_text(r, key, &name));
    const ProtobufCFieldDescriptor *field = tide_json_field_find(descriptor, name, &message->hint);
    if (!field && !r->options.is_unknown_ignored)
        return fail_unknown(r, key, descriptor, name);
    tide_json_token token;
    TIDE_TRY(next_token(r, &token));
    if (!field)
        return skip_value(r, &token);
    const bool has_value = !is_literal(&token, "null");
    TIDE_TRY(note_field(r, descriptor, field, key, has_value));
    if (!has_value)
        return TIDE_OK;
    const tide_json_format format =
        message->formats ? (tide_json_format)message->formats[1 + (field - descriptor->fields)]
                         : TIDE_JSON_AS_IS;
    if (format == TIDE_JSON_TEXT_DOCUMENT && token.kind == TIDE_JSON_STRING) {
        message->text_field = field;
        message->text = token;
        return TIDE_OK;
    }
    if (field->type == PROTOBUF_C_TYPE_BOOL && strcmp(field->name, "is_text") == 0)
        message->is_text = is_literal(&token, "true");
    return read_field(r, descriptor, field, format, &token);
}

/* A string of a TEXT_DOCUMENT waits for the end of its message: is_text may come behind it. */
static tide_status write_text_document(json_reader *r, const open_message *message)
{
    if (!message->text_field)
        return TIDE_OK;
    return message->is_text ? write_bytes(r, message->text_field, &message->text, false)
                            : check(r, tide_wire_append_bytes(r->out, message->text_field->id,
                                                              message->text.text));
}

/* The opening brace was read. */
static tide_status read_message(json_reader *r, const ProtobufCMessageDescriptor *descriptor)
{
    const size_t seen_at = r->seen.len;
    TIDE_TRY(check(r, tide_buffer_reserve(&r->seen, descriptor->n_fields)));
    memset(r->seen.ptr + seen_at, 0, descriptor->n_fields);
    r->seen.len += descriptor->n_fields;
    open_message message = {.descriptor = descriptor};
    if (r->is_plain)
        message.formats = tide_json_formats_find(descriptor->name);
    for (;;) {
        tide_json_token key;
        TIDE_TRY(next_token(r, &key));
        if (key.kind == TIDE_JSON_OBJECT_END)
            break;
        TIDE_TRY(read_member(r, &message, &key));
    }
    TIDE_TRY(write_text_document(r, &message));
    tide_buffer_truncate(&r->seen, seen_at);
    return TIDE_OK;
}

static tide_status read_document(json_reader *r, const ProtobufCMessageDescriptor *descriptor)
{
    tide_json_token token;
    TIDE_TRY(next_token(r, &token));
    if (token.kind != TIDE_JSON_OBJECT_BEGIN)
        return fail_at(r, &token, descriptor->name, "an object is wanted");
    TIDE_TRY(read_message(r, descriptor));
    TIDE_TRY(next_token(r, &token));
    assert(token.kind == TIDE_JSON_END);
    return TIDE_OK;
}

static void json_reader_done(json_reader *r)
{
    tide_buffer_done(&r->text);
    tide_buffer_done(&r->seen);
    tide_buffer_done(&r->keys);
}

tide_status tide_json_to_proto_with(const ProtobufCMessageDescriptor *descriptor, tide_view json,
                                    const tide_json_proto_options *options, tide_buffer *out,
                                    tide_error *err)
{
    if (json.len > UINT32_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "a JSON text of more than 4 GiB");
    TIDE_CLEANUP(json_reader_done)
    json_reader r = {
        .out = out, .err = err, .is_plain = tide_json_formats_find(descriptor->name) != NULL};
    if (options)
        r.options = *options;
    tide_json_scan_init(&r.scan, json);
    tide_buffer_init(&r.text, json.len);
    tide_buffer_init(&r.seen, SEEN_LEN_MAX);
    tide_buffer_init(&r.keys, TIDE_JSON_PROTO_MAP_MAX * sizeof(map_key));
    const size_t before_len = out->len;
    const tide_status status = read_document(&r, descriptor);
    if (status != TIDE_OK)
        tide_buffer_truncate(out, before_len);
    return status;
}

tide_status tide_json_to_proto(const ProtobufCMessageDescriptor *descriptor, tide_view json,
                               tide_buffer *out, tide_error *err)
{
    return tide_json_to_proto_with(descriptor, json, NULL, out, err);
}
