#include "net/codec/descriptor.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/cleanup.h"
#include "net/codec/protobuf_wire.h"

/* Field numbers of google/protobuf/descriptor.proto. */
enum {
    SET_FILE = 1,
    ANY_NAME = 1, /* of everything that has one */
    FILE_PACKAGE = 2,
    FILE_DEPENDENCY = 3,
    FILE_MESSAGE = 4,
    FILE_ENUM = 5,
    FILE_SERVICE = 6,
    FILE_EXTENSION = 7,
    MESSAGE_FIELD = 2,
    MESSAGE_NESTED = 3,
    MESSAGE_ENUM = 4,
    MESSAGE_EXTENSION = 6,
    MESSAGE_ONEOF = 8,
    ENUM_VALUE = 2,
    SERVICE_METHOD = 2,
    FIELD_EXTENDEE = 2,
    FIELD_NUMBER = 3,
};

enum {
    INDEX_MAX = 64 << 20,  /* bytes of each list */
    SYMBOL_NAME_MAX = 512, /* bytes of a full name */
};

typedef struct symbol {
    tide_view name;
    size_t file;
    bool is_message;
} symbol;

typedef struct extension {
    tide_view type;
    int32_t number;
    size_t file;
} extension;

struct tide_descriptors {
    tide_arena names;
    tide_buffer files;   /* tide_descriptor_file */
    tide_buffer imports; /* tide_view: names of files */
    tide_buffer symbols; /* symbol, sorted by name */
    tide_buffer extensions;
    tide_buffer services; /* tide_view */
};

/* What is being read. */
typedef struct builder {
    tide_descriptors *made;
    size_t file;
    int depth;
    tide_error *err;
} builder;

static size_t count_of(const tide_buffer *list, size_t size)
{
    return list->len / size;
}

static const tide_descriptor_file *get_file(const tide_descriptors *d, size_t index)
{
    return (const tide_descriptor_file *)(void *)d->files.ptr + index;
}

static tide_view get_import(const tide_descriptors *d, size_t index)
{
    return ((const tide_view *)(void *)d->imports.ptr)[index];
}

static const symbol *get_symbol(const tide_descriptors *d, size_t index)
{
    return (const symbol *)(void *)d->symbols.ptr + index;
}

static const extension *get_extension(const tide_descriptors *d, size_t index)
{
    return (const extension *)(void *)d->extensions.ptr + index;
}

static tide_status add(const builder *b, tide_buffer *list, const void *item, size_t size)
{
    const tide_status status = tide_buffer_append(list, item, size);
    if (status != TIDE_OK)
        return tide_fail(b->err, status, "no room for the index of descriptors");
    return TIDE_OK;
}

/* The last text of this number, "" if there is none. */
static tide_status find_text(const builder *b, tide_view bytes, uint32_t number, tide_view *out)
{
    *out = tide_view_of("");
    tide_reader reader = tide_reader_of(bytes);
    tide_wire_field field;
    TIDE_EACH(tide_wire_next(&reader, &field, b->err)) {
        if (field.number == number && field.type == TIDE_WIRE_BYTES)
            *out = field.bytes;
    }
    return TIDE_OK;
}

/* Add scope.name to the symbols; *out is the full name. */
static tide_status add_symbol(builder *b, tide_view scope, tide_view bytes, bool is_message,
                              tide_view *out)
{
    tide_view name;
    TIDE_TRY(find_text(b, bytes, ANY_NAME, &name));
    if (name.len == 0 || scope.len + name.len + 1 > SYMBOL_NAME_MAX)
        return tide_fail(b->err, TIDE_E_INVALID, "a descriptor without a name, or with a long one");
    const size_t len = scope.len + (scope.len > 0 ? 1 : 0) + name.len;
    char *full = tide_arena_alloc(&b->made->names, len);
    TIDE_NEED_MEMORY(full, b->err);
    if (scope.len > 0) {
        memcpy(full, scope.ptr, scope.len);
        full[scope.len] = '.';
    }
    memcpy(full + len - name.len, name.ptr, name.len);
    *out = tide_view_bytes(full, len);
    const symbol added = {.name = *out, .file = b->file, .is_message = is_message};
    return add(b, &b->made->symbols, &added, sizeof added);
}

static tide_status add_leaf(builder *b, tide_view scope, tide_view bytes)
{
    tide_view name;
    return add_symbol(b, scope, bytes, false, &name);
}

static tide_status add_extension(builder *b, tide_view scope, tide_view bytes)
{
    TIDE_TRY(add_leaf(b, scope, bytes));
    extension added = {.file = b->file};
    tide_reader reader = tide_reader_of(bytes);
    tide_wire_field field;
    TIDE_EACH(tide_wire_next(&reader, &field, b->err)) {
        if (field.number == FIELD_EXTENDEE && field.type == TIDE_WIRE_BYTES)
            added.type = field.bytes;
        else if (field.number == FIELD_NUMBER && field.type == TIDE_WIRE_VARINT)
            added.number = (int32_t)(uint32_t)field.value;
        /* The type is written from the root: ".package.Type". */
        if (added.type.len > 0 && added.type.ptr[0] == '.')
            added.type = tide_view_bytes(added.type.ptr + 1, added.type.len - 1);
    }
    return add(b, &b->made->extensions, &added, sizeof added);
}

/* An enum's values are named beside it, not inside. A service's methods are inside. */
static tide_status add_group(builder *b, tide_view scope, tide_view bytes, bool is_service)
{
    tide_view name = {0};
    TIDE_TRY(add_symbol(b, scope, bytes, false, &name));
    if (is_service)
        TIDE_TRY(add(b, &b->made->services, &name, sizeof name));
    _Static_assert((int)ENUM_VALUE == (int)SERVICE_METHOD, "both keep their members there");
    tide_reader reader = tide_reader_of(bytes);
    tide_wire_field field;
    TIDE_EACH(tide_wire_next(&reader, &field, b->err)) {
        if (field.number == ENUM_VALUE && field.type == TIDE_WIRE_BYTES)
            TIDE_TRY(add_leaf(b, is_service ? name : scope, field.bytes));
    }
    return TIDE_OK;
}

static tide_status add_message(builder *b, tide_view scope, tide_view bytes);

static tide_status add_member(builder *b, tide_view name, const tide_wire_field *field)
{
    switch (field->number) {
    case MESSAGE_FIELD:
    case MESSAGE_ONEOF:
        return add_leaf(b, name, field->bytes);
    case MESSAGE_NESTED:
        return add_message(b, name, field->bytes);
    case MESSAGE_ENUM:
        return add_group(b, name, field->bytes, false);
    case MESSAGE_EXTENSION:
        return add_extension(b, name, field->bytes);
    default:
        return TIDE_OK;
    }
}

static tide_status add_message(builder *b, tide_view scope, tide_view bytes)
{
    if (b->depth == TIDE_DESCRIPTOR_DEPTH_MAX)
        return tide_fail(b->err, TIDE_E_LIMIT, "descriptors are nested too deeply");
    b->depth++;
    tide_view name = {0};
    TIDE_TRY(add_symbol(b, scope, bytes, true, &name));
    tide_reader reader = tide_reader_of(bytes);
    tide_wire_field field;
    TIDE_EACH(tide_wire_next(&reader, &field, b->err)) {
        if (field.type == TIDE_WIRE_BYTES)
            TIDE_TRY(add_member(b, name, &field));
    }
    b->depth--;
    return TIDE_OK;
}

static tide_status add_declaration(builder *b, tide_view package, const tide_wire_field *field)
{
    switch (field->number) {
    case FILE_DEPENDENCY:
        return add(b, &b->made->imports, &field->bytes, sizeof field->bytes);
    case FILE_MESSAGE:
        return add_message(b, package, field->bytes);
    case FILE_ENUM:
    case FILE_SERVICE:
        return add_group(b, package, field->bytes, field->number == FILE_SERVICE);
    case FILE_EXTENSION:
        return add_extension(b, package, field->bytes);
    default:
        return TIDE_OK;
    }
}

static tide_status add_file(builder *b, tide_view bytes)
{
    tide_descriptor_file file = {.bytes = bytes};
    TIDE_TRY(find_text(b, bytes, ANY_NAME, &file.name));
    TIDE_TRY(find_text(b, bytes, FILE_PACKAGE, &file.package));
    if (tide_descriptors_find_file(b->made, file.name))
        return tide_fail(b->err, TIDE_E_INVALID, "file %.*s is described twice", (int)file.name.len,
                         file.name.ptr);
    b->file = tide_descriptors_file_count(b->made);
    file.imports_first = count_of(&b->made->imports, sizeof(tide_view));
    tide_reader reader = tide_reader_of(bytes);
    tide_wire_field field;
    TIDE_EACH(tide_wire_next(&reader, &field, b->err)) {
        if (field.type == TIDE_WIRE_BYTES)
            TIDE_TRY(add_declaration(b, file.package, &field));
    }
    file.imports_count = count_of(&b->made->imports, sizeof(tide_view)) - file.imports_first;
    return add(b, &b->made->files, &file, sizeof file);
}

/* --- making and looking up --- */

static int compare_names(tide_view a, tide_view b)
{
    const size_t len = a.len < b.len ? a.len : b.len;
    const int order = len > 0 ? memcmp(a.ptr, b.ptr, len) : 0;
    if (order != 0)
        return order;
    return a.len < b.len ? -1 : a.len > b.len;
}

static int compare_symbols(const void *a, const void *b)
{
    return compare_names(((const symbol *)a)->name, ((const symbol *)b)->name);
}

static tide_status sort_symbols(tide_descriptors *d, tide_error *err)
{
    const size_t count = count_of(&d->symbols, sizeof(symbol));
    if (count > 0)
        qsort(d->symbols.ptr, count, sizeof(symbol), compare_symbols);
    for (size_t i = 1; i < count; i++) {
        const tide_view name = get_symbol(d, i)->name;
        if (tide_view_equal(get_symbol(d, i - 1)->name, name))
            return tide_fail(err, TIDE_E_INVALID, "%.*s is described twice", (int)name.len,
                             name.ptr);
    }
    return TIDE_OK;
}

tide_status tide_descriptors_new(tide_descriptors **out, tide_view set, tide_error *err)
{
    if (set.len > TIDE_DESCRIPTOR_SET_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "descriptors of more than %d bytes",
                         TIDE_DESCRIPTOR_SET_MAX);
    TIDE_CLEANUP(tide_descriptors_freep) TIDE_NEW(tide_descriptors, made, err);
    tide_arena_init(&made->names, INDEX_MAX);
    tide_buffer *const lists[] = {&made->files, &made->imports, &made->symbols, &made->extensions,
                                  &made->services};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        tide_buffer_init(lists[i], INDEX_MAX);

    builder b = {.made = made, .err = err};
    tide_reader reader = tide_reader_of(set);
    tide_wire_field field;
    TIDE_EACH(tide_wire_next(&reader, &field, err)) {
        if (field.number == SET_FILE && field.type == TIDE_WIRE_BYTES)
            TIDE_TRY(add_file(&b, field.bytes));
    }
    TIDE_TRY(sort_symbols(made, err));
    *out = TIDE_TAKE(made);
    return TIDE_OK;
}

void tide_descriptors_free(tide_descriptors *descriptors)
{
    if (!descriptors)
        return;
    tide_arena_done(&descriptors->names);
    tide_buffer_done(&descriptors->files);
    tide_buffer_done(&descriptors->imports);
    tide_buffer_done(&descriptors->symbols);
    tide_buffer_done(&descriptors->extensions);
    tide_buffer_done(&descriptors->services);
    free(descriptors);
}

size_t tide_descriptors_file_count(const tide_descriptors *descriptors)
{
    return count_of(&descriptors->files, sizeof(tide_descriptor_file));
}

size_t tide_descriptors_service_count(const tide_descriptors *descriptors)
{
    return count_of(&descriptors->services, sizeof(tide_view));
}

tide_view tide_descriptors_service(const tide_descriptors *descriptors, size_t index)
{
    assert(index < tide_descriptors_service_count(descriptors));
    return ((const tide_view *)(void *)descriptors->services.ptr)[index];
}

const tide_descriptor_file *tide_descriptors_find_file(const tide_descriptors *descriptors,
                                                       tide_view name)
{
    for (size_t i = 0; i < tide_descriptors_file_count(descriptors); i++) {
        if (tide_view_equal(get_file(descriptors, i)->name, name))
            return get_file(descriptors, i);
    }
    return NULL;
}

static const symbol *find_symbol(const tide_descriptors *d, tide_view name)
{
    const symbol wanted = {.name = name};
    const size_t count = count_of(&d->symbols, sizeof(symbol));
    return count > 0 ? bsearch(&wanted, d->symbols.ptr, count, sizeof(symbol), compare_symbols)
                     : NULL;
}

const tide_descriptor_file *tide_descriptors_find_symbol(const tide_descriptors *descriptors,
                                                         tide_view name)
{
    const symbol *found = find_symbol(descriptors, name);
    return found ? get_file(descriptors, found->file) : NULL;
}

bool tide_descriptors_has_message(const tide_descriptors *descriptors, tide_view name)
{
    const symbol *found = find_symbol(descriptors, name);
    return found && found->is_message;
}

const tide_descriptor_file *tide_descriptors_find_extension(const tide_descriptors *descriptors,
                                                            tide_view type, int32_t number)
{
    for (size_t i = 0; i < count_of(&descriptors->extensions, sizeof(extension)); i++) {
        const extension *known = get_extension(descriptors, i);
        if (known->number == number && tide_view_equal(known->type, type))
            return get_file(descriptors, known->file);
    }
    return NULL;
}

bool tide_descriptors_next_extension(const tide_descriptors *descriptors, tide_view type,
                                     size_t *index, int32_t *number)
{
    while (*index < count_of(&descriptors->extensions, sizeof(extension))) {
        const extension *known = get_extension(descriptors, (*index)++);
        if (tide_view_equal(known->type, type)) {
            *number = known->number;
            return true;
        }
    }
    return false;
}

/* Files wait in a list, each entered once: breadth first, and imports in circles do no harm. */
bool tide_descriptors_walk(const tide_descriptors *descriptors, const tide_descriptor_file *file,
                           tide_descriptor_fn *fn, void *arg)
{
    const size_t count = tide_descriptors_file_count(descriptors);
    TIDE_CLEANUP(tide_freep)
    const tide_descriptor_file **list = calloc(count, sizeof(const tide_descriptor_file *));
    TIDE_CLEANUP(tide_freep) bool *is_listed = calloc(count, sizeof *is_listed);
    if (!list || !is_listed)
        return false;
    size_t listed = 0;
    list[listed++] = file;
    is_listed[file - get_file(descriptors, 0)] = true;
    for (size_t at = 0; at < listed; at++) {
        if (!fn(list[at], arg))
            return false;
        for (size_t i = 0; i < list[at]->imports_count; i++) {
            const tide_view name = get_import(descriptors, list[at]->imports_first + i);
            const tide_descriptor_file *next = tide_descriptors_find_file(descriptors, name);
            if (next && !is_listed[next - get_file(descriptors, 0)]) {
                is_listed[next - get_file(descriptors, 0)] = true;
                list[listed++] = next;
            }
        }
    }
    return true;
}
