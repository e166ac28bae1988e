#include "net/codec/json_field.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "net/codec/json_format.h"

enum { NAME_MAX_LEN = 64 }; /* bytes of a name that suggestions are made for */

static char to_upper(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

/* The next character of a name's JSON form; *name moves behind what it came from. NUL: the end. */
static char next_json_char(const char **name)
{
    bool is_raised = false;
    while (**name == '_') {
        is_raised = true;
        (*name)++;
    }
    const char c = **name;
    if (c != '\0')
        (*name)++;
    return is_raised ? to_upper(c) : c;
}

static bool is_json_name(const char *proto_name, tide_view name)
{
    for (size_t i = 0; i < name.len; i++) {
        const char c = next_json_char(&proto_name);
        if (c == '\0' || c != name.ptr[i])
            return false;
    }
    return next_json_char(&proto_name) == '\0';
}

static bool is_named(const ProtobufCFieldDescriptor *field, tide_view name)
{
    return (strncmp(field->name, name.ptr, name.len) == 0 && field->name[name.len] == '\0') ||
           is_json_name(field->name, name);
}

const ProtobufCFieldDescriptor *tide_json_field_find(const ProtobufCMessageDescriptor *descriptor,
                                                     tide_view name, unsigned *hint)
{
    if (name.len == 0)
        return NULL;
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        const unsigned index = (*hint + i) % descriptor->n_fields;
        if (is_named(&descriptor->fields[index], name)) {
            *hint = index + 1;
            return &descriptor->fields[index];
        }
    }
    return NULL;
}

tide_status tide_json_field_append_name(tide_buffer *out, const ProtobufCFieldDescriptor *field)
{
    TIDE_TRY_FOUND(tide_buffer_reserve(out, strlen(field->name)));
    const char *name = field->name;
    for (char c = next_json_char(&name); c != '\0'; c = next_json_char(&name))
        out->ptr[out->len++] = c;
    out->ptr[out->len] = '\0';
    return TIDE_OK;
}

/* --- suggestions --- */

/* Letters alone tell names apart: case and underscores are what people get wrong. */
static size_t fold_name(char out[NAME_MAX_LEN], tide_view name)
{
    size_t len = 0;
    for (size_t i = 0; i < name.len && len < NAME_MAX_LEN; i++) {
        if (name.ptr[i] != '_')
            out[len++] = to_upper(name.ptr[i]);
    }
    return len;
}

/* How many letters must be put in, taken out or changed. */
static size_t distance(tide_view a, tide_view b)
{
    size_t row[NAME_MAX_LEN + 1];
    for (size_t j = 0; j <= b.len; j++)
        row[j] = j;
    for (size_t i = 1; i <= a.len; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b.len; j++) {
            const size_t changed = diagonal + (a.ptr[i - 1] == b.ptr[j - 1] ? 0 : 1);
            diagonal = row[j];
            const size_t shorter = row[j] < row[j - 1] ? row[j] : row[j - 1];
            row[j] = changed < shorter + 1 ? changed : shorter + 1;
        }
    }
    return row[b.len];
}

typedef struct suggestion {
    char wanted[NAME_MAX_LEN];
    size_t wanted_len;
    size_t best; /* the least distance so far */
} suggestion;

static suggestion begin_suggestion(tide_view name)
{
    suggestion s;
    s.wanted_len = fold_name(s.wanted, name);
    s.best = s.wanted_len / 3 + 2; /* farther away is another word */
    return s;
}

static bool is_better(suggestion *s, const char *name)
{
    char folded[NAME_MAX_LEN];
    const size_t len = fold_name(folded, tide_view_of(name));
    const size_t far =
        distance(tide_view_bytes(s->wanted, s->wanted_len), tide_view_bytes(folded, len));
    if (far >= s->best)
        return false;
    s->best = far;
    return true;
}

static void copy_json_name(char *out, size_t size, const char *name)
{
    size_t len = 0;
    for (char c = next_json_char(&name); c != '\0' && len + 1 < size; c = next_json_char(&name))
        out[len++] = c;
    out[len] = '\0';
}

void tide_json_field_suggest(const ProtobufCMessageDescriptor *descriptor, tide_view name,
                             bool is_plain, char *out, size_t size)
{
    out[0] = '\0';
    suggestion s = begin_suggestion(name);
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        if (!is_better(&s, descriptor->fields[i].name))
            continue;
        if (is_plain)
            (void)snprintf(out, size, "%s", descriptor->fields[i].name);
        else
            copy_json_name(out, size, descriptor->fields[i].name);
    }
}

void tide_json_enum_suggest(const ProtobufCEnumDescriptor *descriptor, tide_view name, char *out,
                            size_t size)
{
    out[0] = '\0';
    suggestion s = begin_suggestion(name);
    for (unsigned i = 0; i < descriptor->n_value_names; i++) {
        if (is_better(&s, descriptor->values_by_name[i].name))
            (void)snprintf(out, size, "%s", descriptor->values_by_name[i].name);
    }
}

/* --- maps --- */

/* protoc names the entries of `map<K, V> some_name` SomeNameEntry, inside the message. */
static bool is_entry_name(const char *entry_name, const char *field_name)
{
    bool is_raised = true;
    for (; *field_name != '\0'; field_name++) {
        if (*field_name == '_') {
            is_raised = true;
            continue;
        }
        if (*entry_name++ != (is_raised ? to_upper(*field_name) : *field_name))
            return false;
        is_raised = false;
    }
    return strcmp(entry_name, "Entry") == 0;
}

bool tide_json_field_is_map(const ProtobufCMessageDescriptor *descriptor,
                            const ProtobufCFieldDescriptor *field)
{
    if (field->label != PROTOBUF_C_LABEL_REPEATED || field->type != PROTOBUF_C_TYPE_MESSAGE)
        return false;
    const ProtobufCMessageDescriptor *entry = field->descriptor;
    if (entry->n_fields != 2 || entry->fields[0].id != 1 || entry->fields[1].id != 2 ||
        strcmp(entry->fields[0].name, "key") != 0 || strcmp(entry->fields[1].name, "value") != 0)
        return false;
    const size_t outer_len = strlen(descriptor->name);
    return strncmp(entry->name, descriptor->name, outer_len) == 0 &&
           entry->name[outer_len] == '.' && is_entry_name(entry->name + outer_len + 1, field->name);
}

/* --- formats --- */

static int compare_message(const void *name, const void *message)
{
    return strcmp(name, ((const tide_json_message *)message)->name);
}

const char *tide_json_formats_find(const char *message)
{
    const tide_json_message *found = bsearch(message, tide_json_messages, tide_json_messages_count,
                                             sizeof *tide_json_messages, compare_message);
    return found ? found->formats : NULL;
}
