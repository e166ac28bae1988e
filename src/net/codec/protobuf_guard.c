#include "net/codec/protobuf_guard.h"

#include <stdbool.h>
#include <stddef.h>

/* What protobuf-c allocates with: the arena, as long as the budget lasts. */
typedef struct purse {
    tide_arena *arena;
    size_t used_max; /* of the arena */
    bool is_over;    /* the budget ran out */
    bool is_refused; /* the machine's memory did */
} purse;

static void *purse_alloc(void *allocator_data, size_t len)
{
    purse *p = allocator_data;
    const size_t left = p->used_max - p->arena->used_len;
    const size_t unit = _Alignof(max_align_t); /* what the arena rounds to */
    if (len > left || (len + unit - 1) / unit * unit > left) {
        p->is_over = true;
        return NULL;
    }
    void *memory = tide_arena_alloc(p->arena, len);
    p->is_refused = !memory;
    return memory;
}

static void purse_free(void *allocator_data, void *memory)
{
    (void)allocator_data; /* the arena goes as a whole */
    (void)memory;
}

/* The arena's mark up to which this message may go. */
static size_t find_budget(const tide_arena *arena, const tide_protobuf_limits *limits)
{
    const size_t left = arena->max - arena->used_len;
    const bool is_less = limits && limits->memory_len > 0 && limits->memory_len < left;
    return arena->used_len + (is_less ? limits->memory_len : left);
}

tide_status tide_protobuf_unpack_within(ProtobufCMessage **out,
                                        const ProtobufCMessageDescriptor *descriptor,
                                        tide_view bytes, const tide_protobuf_limits *limits,
                                        tide_arena *arena, tide_error *err)
{
    purse p = {.arena = arena, .used_max = find_budget(arena, limits)};
    tide_protobuf_limits narrowed = limits ? *limits : (tide_protobuf_limits){0};
    narrowed.memory_len = p.used_max - arena->used_len;
    if (narrowed.memory_len == 0)
        return tide_fail(err, TIDE_E_LIMIT, "the message needs more memory than its budget");
    TIDE_TRY(tide_protobuf_scan(descriptor, bytes, &narrowed, NULL, err));

    ProtobufCAllocator allocator = {.alloc = purse_alloc, .free = purse_free, .allocator_data = &p};
    ProtobufCMessage *message =
        protobuf_c_message_unpack(descriptor, &allocator, bytes.len, (const uint8_t *)bytes.ptr);
    if (message) {
        *out = message;
        return TIDE_OK;
    }
    if (p.is_over)
        return tide_fail(err, TIDE_E_LIMIT, "%s takes more than %zu bytes of memory decoded",
                         descriptor->name, narrowed.memory_len);
    if (p.is_refused)
        return tide_no_memory(err);
    return tide_fail(err, TIDE_E_INVALID, "not a message of type %s", descriptor->name);
}

tide_status tide_protobuf_unpack(ProtobufCMessage **out,
                                 const ProtobufCMessageDescriptor *descriptor, tide_view bytes,
                                 tide_arena *arena, tide_error *err)
{
    return tide_protobuf_unpack_within(out, descriptor, bytes, NULL, arena, err);
}

tide_status tide_protobuf_pack(tide_buffer *out, const ProtobufCMessage *message, tide_error *err)
{
    const size_t len = protobuf_c_message_get_packed_size(message);
    const tide_status status = tide_buffer_reserve(out, len);
    if (status != TIDE_OK)
        return tide_fail(err, status, "no room for a message of %zu bytes", len);
    out->len += protobuf_c_message_pack(message, (uint8_t *)out->ptr + out->len);
    out->ptr[out->len] = '\0';
    return TIDE_OK;
}
