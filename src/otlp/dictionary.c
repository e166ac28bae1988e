#include "otlp/dictionary.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/utf8.h"
#include "otlp/decode.h"

enum {
    NOWHERE = UINT32_MAX >> 1, /* a reference that leads nowhere: beyond every table */
    ADDRESS_SIZE = 24,         /* +0x and 16 digits */
};

/* ---- tables ---- */

#define TABLE(type_, buffer_) ((type_ *)(void *)(buffer_).ptr)
#define COUNT(type_, buffer_) ((buffer_).len / sizeof(type_))

/* Frames also of locations that have no function. */
void tide_otlp_dictionary_init(tide_otlp_dictionary *dictionary)
{
    *dictionary = (tide_otlp_dictionary){.is_numbered = false};
    tide_buffer_init(&dictionary->strings, TIDE_OTLP_TABLE_MAX * sizeof(tide_view));
    tide_buffer_init(&dictionary->frames, 2 * TIDE_OTLP_TABLE_MAX * sizeof(tide_otlp_frame));
    tide_buffer_init(&dictionary->locations, TIDE_OTLP_TABLE_MAX * sizeof(tide_otlp_location));
    tide_buffer_init(&dictionary->mappings, TIDE_OTLP_TABLE_MAX * sizeof(tide_otlp_binary));
    tide_buffer_init(&dictionary->stacks, TIDE_OTLP_TABLE_MAX * sizeof(tide_otlp_range));
    tide_buffer_init(&dictionary->pairs, TIDE_OTLP_TABLE_MAX * sizeof(tide_otlp_pair));
    tide_buffer_init(&dictionary->indices, TIDE_OTLP_INDICES_MAX * sizeof(uint32_t));
}

void tide_otlp_dictionary_done(tide_otlp_dictionary *dictionary)
{
    tide_buffer_done(&dictionary->strings);
    tide_buffer_done(&dictionary->frames);
    tide_buffer_done(&dictionary->locations);
    tide_buffer_done(&dictionary->mappings);
    tide_buffer_done(&dictionary->stacks);
    tide_buffer_done(&dictionary->pairs);
    tide_buffer_done(&dictionary->indices);
}

void tide_otlp_dictionary_clear(tide_otlp_dictionary *dictionary)
{
    tide_otlp_dictionary_done(dictionary);
    tide_otlp_dictionary_init(dictionary);
}

static tide_status add(tide_otlp *otlp, tide_buffer *table, const void *entry, size_t len)
{
    const tide_status status = tide_buffer_append(table, entry, len);
    if (status == TIDE_E_LIMIT)
        return tide_fail(otlp->err, status,
                         "a dictionary with more than %d entries of a table, or %d references",
                         TIDE_OTLP_TABLE_MAX, TIDE_OTLP_INDICES_MAX);
    return tide_buffer_check(status, otlp->err);
}

static uint32_t narrow(uint64_t index)
{
    return index < NOWHERE ? (uint32_t)index : NOWHERE;
}

static tide_status add_index(tide_otlp *otlp, uint64_t index)
{
    const uint32_t given = narrow(index);
    return add(otlp, &otlp->dictionary.indices, &given, sizeof given);
}

static uint32_t index_count(const tide_otlp_dictionary *dictionary)
{
    return (uint32_t)COUNT(uint32_t, dictionary->indices);
}

/* ---- reading ---- */

static tide_status read_mapping(tide_otlp *otlp, tide_otlp_message *message)
{
    tide_otlp_dictionary *dictionary = &otlp->dictionary;
    tide_otlp_binary mapping = {.first = index_count(dictionary), .build_id = tide_view_of("")};
    tide_otlp_field field;
    TIDE_EACH(tide_otlp_next(message, &field)) {
        if (field.number == TIDE_OTLP_MAPPING_FILENAME)
            mapping.filename = narrow(field.u64);
        else
            TIDE_TRY(add_index(otlp, field.u64));
    }
    mapping.count = index_count(dictionary) - mapping.first;
    return add(otlp, &dictionary->mappings, &mapping, sizeof mapping);
}

static tide_status read_line(tide_otlp *otlp, const tide_otlp_message *location,
                             const tide_otlp_field *field)
{
    tide_otlp_message line;
    tide_otlp_enter(&line, location, field);
    uint64_t function = 0;
    tide_otlp_field part;
    TIDE_EACH(tide_otlp_next(&line, &part))
        function = part.u64;
    return add_index(otlp, function);
}

static tide_status read_location(tide_otlp *otlp, tide_otlp_message *message)
{
    tide_otlp_dictionary *dictionary = &otlp->dictionary;
    tide_otlp_location location = {.first = index_count(dictionary)};
    tide_otlp_field field;
    TIDE_EACH(tide_otlp_next(message, &field)) {
        if (field.number == TIDE_OTLP_LOCATION_MAPPING)
            location.mapping = narrow(field.u64);
        else if (field.number == TIDE_OTLP_LOCATION_ADDRESS)
            location.address = field.u64;
        else
            TIDE_TRY(read_line(otlp, message, &field));
    }
    location.count = index_count(dictionary) - location.first;
    return add(otlp, &dictionary->locations, &location, sizeof location);
}

/* The texts may stand behind: numbers of them for now, as lengths of names. */
static tide_status read_function(tide_otlp *otlp, tide_otlp_message *message)
{
    tide_otlp_frame frame = {.name = tide_view_of(""), .id = TIDE_FEED_FRAMES_MAX};
    uint32_t system_name = 0;
    uint32_t name = 0;
    tide_otlp_field field;
    TIDE_EACH(tide_otlp_next(message, &field)) {
        if (field.number == TIDE_OTLP_FUNCTION_NAME)
            name = narrow(field.u64);
        else
            system_name = narrow(field.u64);
    }
    frame.name.len = name != 0 ? name : system_name;
    return add(otlp, &otlp->dictionary.frames, &frame, sizeof frame);
}

static tide_status read_stack(tide_otlp *otlp, tide_otlp_message *message)
{
    tide_otlp_dictionary *dictionary = &otlp->dictionary;
    tide_otlp_range stack = {.first = index_count(dictionary)};
    tide_otlp_field field;
    TIDE_EACH(tide_otlp_next(message, &field))
        TIDE_TRY(add_index(otlp, field.u64));
    stack.count = index_count(dictionary) - stack.first;
    return add(otlp, &dictionary->stacks, &stack, sizeof stack);
}

static tide_status read_pair(tide_otlp *otlp, tide_otlp_message *message)
{
    tide_otlp_pair pair = {.key = tide_view_of(""), .value = tide_view_of("")};
    tide_otlp_field field;
    TIDE_EACH(tide_otlp_next(message, &field)) {
        if (field.number == TIDE_OTLP_ENTRY_KEY) {
            pair.key_index = narrow(field.u64);
            continue;
        }
        tide_otlp_message any;
        tide_otlp_enter(&any, message, &field);
        TIDE_TRY(tide_otlp_value_text(otlp, &any, &pair.value));
    }
    return add(otlp, &otlp->dictionary.pairs, &pair, sizeof pair);
}

static tide_status read_entry(tide_otlp *otlp, const tide_otlp_message *tables,
                              const tide_otlp_field *field)
{
    if (field->number == TIDE_OTLP_DICTIONARY_STRINGS)
        return add(otlp, &otlp->dictionary.strings, &field->text, sizeof field->text);
    tide_otlp_message entry;
    tide_otlp_enter(&entry, tables, field);
    switch (field->number) {
    case TIDE_OTLP_DICTIONARY_MAPPINGS:
        return read_mapping(otlp, &entry);
    case TIDE_OTLP_DICTIONARY_LOCATIONS:
        return read_location(otlp, &entry);
    case TIDE_OTLP_DICTIONARY_FUNCTIONS:
        return read_function(otlp, &entry);
    case TIDE_OTLP_DICTIONARY_ATTRIBUTES:
        return read_pair(otlp, &entry);
    default: /* TIDE_OTLP_DICTIONARY_STACKS */
        return read_stack(otlp, &entry);
    }
}

/* ---- names ---- */

static tide_view basename_of(tide_view path)
{
    const char *slash = path.len > 0 ? memrchr(path.ptr, '/', path.len) : NULL;
    return slash ? tide_view_bytes(slash + 1, (size_t)(path.ptr + path.len - slash - 1)) : path;
}

/* A copy in the dictionary's layer, valid and not too long. */
static tide_status make_name(tide_otlp *otlp, tide_view start, const char *end, tide_view *out)
{
    size_t replaced = 0;
    tide_buffer_clear(&otlp->json);
    tide_status status =
        tide_utf8_clean(&otlp->json, tide_utf8_cut(start, TIDE_OTLP_FRAME_NAME_MAX), &replaced);
    if (status >= TIDE_OK)
        status = tide_buffer_append_text(&otlp->json, end);
    TIDE_TRY(tide_buffer_check(status, otlp->err));
    otlp->dictionary.replaced += replaced;
    char *room =
        tide_arena_copy(&otlp->arenas[TIDE_OTLP_LAYER_DICTIONARY], otlp->json.ptr, otlp->json.len);
    if (!room)
        return tide_fail(otlp->err, TIDE_E_LIMIT, "names of frames of more than %d bytes",
                         TIDE_OTLP_DICTIONARY_BYTES_MAX);
    *out = tide_view_bytes(room, otlp->json.len);
    return TIDE_OK;
}

static tide_status name_functions(tide_otlp *otlp)
{
    tide_otlp_dictionary *dictionary = &otlp->dictionary;
    tide_otlp_frame *frames = TABLE(tide_otlp_frame, dictionary->frames);
    for (size_t i = 0; i < COUNT(tide_otlp_frame, dictionary->frames); i++) {
        const tide_view name = tide_otlp_dictionary_string(dictionary, frames[i].name.len);
        if (name.len == 0)
            frames[i].name = tide_view_of("[unknown]");
        else if (name.len <= TIDE_OTLP_FRAME_NAME_MAX && tide_utf8_valid(name))
            frames[i].name = name;
        else
            TIDE_TRY(make_name(otlp, name, "", &frames[i].name));
    }
    return TIDE_OK;
}

/* `file+0xaddress` */
static tide_status name_location(tide_otlp *otlp, tide_otlp_location *location)
{
    tide_otlp_dictionary *dictionary = &otlp->dictionary;
    tide_view file = tide_view_of("");
    if (location->mapping < COUNT(tide_otlp_binary, dictionary->mappings))
        file = basename_of(tide_otlp_dictionary_string(
            dictionary, TABLE(tide_otlp_binary, dictionary->mappings)[location->mapping].filename));
    char address[ADDRESS_SIZE];
    (void)snprintf(address, sizeof address, "+0x%" PRIx64, location->address);
    tide_otlp_frame frame = {.id = TIDE_FEED_FRAMES_MAX};
    TIDE_TRY(
        make_name(otlp, file.len > 0 ? file : tide_view_of("[unknown]"), address, &frame.name));
    location->first = index_count(dictionary);
    location->count = 1;
    TIDE_TRY(add_index(otlp, COUNT(tide_otlp_frame, dictionary->frames)));
    return add(otlp, &dictionary->frames, &frame, sizeof frame);
}

static tide_status name_locations(tide_otlp *otlp)
{
    tide_otlp_dictionary *dictionary = &otlp->dictionary;
    const size_t functions = COUNT(tide_otlp_frame, dictionary->frames);
    tide_otlp_location *locations = TABLE(tide_otlp_location, dictionary->locations);
    for (size_t i = 0; i < COUNT(tide_otlp_location, dictionary->locations); i++) {
        if (locations[i].count == 0)
            TIDE_TRY(name_location(otlp, &locations[i]));
        else /* frames of our making are not to be referred to */
            for (uint32_t at = 0; at < locations[i].count; at++)
                if (TABLE(uint32_t, dictionary->indices)[locations[i].first + at] >= functions)
                    TABLE(uint32_t, dictionary->indices)[locations[i].first + at] = NOWHERE;
    }
    return TIDE_OK;
}

static void name_pairs(tide_otlp_dictionary *dictionary)
{
    tide_otlp_pair *pairs = TABLE(tide_otlp_pair, dictionary->pairs);
    for (size_t i = 0; i < COUNT(tide_otlp_pair, dictionary->pairs); i++)
        pairs[i].key = tide_otlp_dictionary_string(dictionary, pairs[i].key_index);
}

/* Conventions have one name for each way of making it. */
static tide_view find_build_id(const tide_otlp_dictionary *dictionary,
                               const tide_otlp_binary *mapping)
{
    static const char prefix[] = "process.executable.build_id.";
    for (uint32_t i = 0; i < mapping->count; i++) {
        const tide_otlp_pair *pair = tide_otlp_dictionary_pair(
            dictionary, TABLE(uint32_t, dictionary->indices)[mapping->first + i]);
        if (pair && pair->value.len > 0 && pair->key.len >= sizeof prefix - 1 &&
            memcmp(pair->key.ptr, prefix, sizeof prefix - 1) == 0)
            return pair->value;
    }
    return tide_view_of("");
}

static void name_mappings(tide_otlp_dictionary *dictionary)
{
    tide_otlp_binary *mappings = TABLE(tide_otlp_binary, dictionary->mappings);
    for (size_t i = 0; i < COUNT(tide_otlp_binary, dictionary->mappings); i++)
        mappings[i].build_id = find_build_id(dictionary, &mappings[i]);
}

tide_status tide_otlp_dictionary_read(tide_otlp *otlp, const tide_otlp_message *root)
{
    tide_otlp_begin_layer(otlp, TIDE_OTLP_LAYER_DICTIONARY);
    tide_otlp_ahead ahead;
    tide_otlp_look_ahead(&ahead, root);
    tide_otlp_field field;
    tide_status status;
    while ((status = tide_otlp_next(&ahead.message, &field)) == TIDE_OK &&
           field.number != TIDE_OTLP_REQUEST_DICTIONARY)
        ;
    if (status != TIDE_OK)
        return status;
    tide_otlp_message tables;
    tide_otlp_enter(&tables, &ahead.message, &field);
    while ((status = tide_otlp_next(&tables, &field)) == TIDE_OK)
        TIDE_TRY(read_entry(otlp, &tables, &field));
    TIDE_TRY(status);
    if (ahead.reader.is_overfull || otlp->reader.is_overfull)
        return tide_fail(otlp->err, TIDE_E_LIMIT, "texts of a dictionary of more than %d bytes",
                         TIDE_OTLP_DICTIONARY_BYTES_MAX);
    TIDE_TRY(name_functions(otlp));
    TIDE_TRY(name_locations(otlp));
    name_pairs(&otlp->dictionary);
    name_mappings(&otlp->dictionary);
    return TIDE_OK;
}

/* ---- looking up ---- */

tide_view tide_otlp_dictionary_string(const tide_otlp_dictionary *dictionary, uint64_t index)
{
    return index < COUNT(tide_view, dictionary->strings)
               ? TABLE(const tide_view, dictionary->strings)[index]
               : tide_view_of("");
}

const tide_otlp_pair *tide_otlp_dictionary_pair(const tide_otlp_dictionary *dictionary,
                                                uint64_t index)
{
    return index < COUNT(tide_otlp_pair, dictionary->pairs)
               ? &TABLE(const tide_otlp_pair, dictionary->pairs)[index]
               : NULL;
}

static tide_otlp_reason take_location(tide_otlp_dictionary *dictionary, uint32_t index,
                                      uint64_t *ids, int *count)
{
    if (index >= COUNT(tide_otlp_location, dictionary->locations))
        return TIDE_OTLP_REASON_REFERENCE;
    const tide_otlp_location *location = &TABLE(tide_otlp_location, dictionary->locations)[index];
    const uint32_t *lines = TABLE(uint32_t, dictionary->indices) + location->first;
    for (uint32_t i = 0; i < location->count; i++) {
        if (*count == TIDE_OTLP_STACK_MAX)
            return TIDE_OTLP_REASON_STACK;
        if (lines[i] == NOWHERE)
            return TIDE_OTLP_REASON_REFERENCE;
        tide_otlp_frame *frame = &TABLE(tide_otlp_frame, dictionary->frames)[lines[i]];
        frame->is_used = true;
        ids[(*count)++] = frame->id;
    }
    return TIDE_OTLP_REASON_NONE;
}

tide_otlp_reason tide_otlp_dictionary_stack(tide_otlp_dictionary *dictionary, uint64_t stack,
                                            uint64_t ids[TIDE_OTLP_STACK_MAX], int *count)
{
    *count = 0;
    if (stack >= COUNT(tide_otlp_range, dictionary->stacks))
        return TIDE_OTLP_REASON_REFERENCE;
    const tide_otlp_range *range = &TABLE(tide_otlp_range, dictionary->stacks)[stack];
    for (uint32_t i = 0; i < range->count; i++) {
        const tide_otlp_reason flaw = take_location(
            dictionary, TABLE(uint32_t, dictionary->indices)[range->first + i], ids, count);
        if (flaw != TIDE_OTLP_REASON_NONE)
            return flaw;
    }
    return TIDE_OTLP_REASON_NONE;
}

tide_view tide_otlp_dictionary_build_id(const tide_otlp_dictionary *dictionary, uint64_t stack)
{
    const tide_otlp_range *range = &TABLE(tide_otlp_range, dictionary->stacks)[stack];
    for (uint32_t i = 0; i < range->count; i++) {
        const uint32_t at = TABLE(uint32_t, dictionary->indices)[range->first + i];
        const uint32_t mapping = TABLE(tide_otlp_location, dictionary->locations)[at].mapping;
        if (mapping >= COUNT(tide_otlp_binary, dictionary->mappings))
            continue;
        const tide_view build_id = TABLE(tide_otlp_binary, dictionary->mappings)[mapping].build_id;
        if (build_id.len > 0)
            return build_id;
    }
    return tide_view_of("");
}

/* ---- numbers ---- */

tide_status tide_otlp_dictionary_number(tide_otlp_dictionary *dictionary,
                                        const tide_otlp_frames *by, tide_error *err)
{
    tide_otlp_frame *frames = TABLE(tide_otlp_frame, dictionary->frames);
    const size_t count = COUNT(tide_otlp_frame, dictionary->frames);
    TIDE_CLEANUP(tide_freep) tide_view *names = calloc(count + 1, sizeof *names);
    TIDE_CLEANUP(tide_freep) uint64_t *ids = calloc(count + 1, sizeof *ids);
    TIDE_NEED_MEMORY(names && ids, err);
    dictionary->is_numbered = true;
    int used = 0;
    for (size_t i = 0; i < count; i++) {
        frames[i].id = i + 1;
        if (frames[i].is_used)
            names[used++] = frames[i].name;
    }
    if (used == 0 || !by->number)
        return TIDE_OK;
    TIDE_TRY(by->number(by->arg, names, ids, used, err));
    used = 0;
    for (size_t i = 0; i < count; i++)
        if (frames[i].is_used)
            frames[i].id = ids[used++];
    return TIDE_OK;
}
