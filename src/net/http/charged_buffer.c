#include "net/http/charged_buffer.h"

#include <stdlib.h>

void tide_charged_buffer_init(tide_charged_buffer *part, tide_budget *budget, size_t max)
{
    *part = (tide_charged_buffer){.budget = budget};
    tide_buffer_init(&part->bytes, max);
}

void tide_charged_buffer_done(tide_charged_buffer *part)
{
    tide_buffer_done(&part->bytes);
    if (part->charged > 0)
        tide_budget_give(part->budget, part->charged);
    part->charged = 0;
}

/* What the buffer will allocate when it has to take len bytes more: twice what it has, up to its
 * maximum. */
static size_t foresee_capacity(const tide_buffer *buffer, size_t len)
{
    const size_t need = buffer->len + len;
    size_t capacity = buffer->capacity > 0 ? buffer->capacity : 64;
    while (capacity < need && capacity <= buffer->max / 2)
        capacity *= 2;
    return capacity < need || capacity > buffer->max ? buffer->max : capacity;
}

tide_status tide_charged_buffer_append(tide_charged_buffer *part, tide_view bytes)
{
    tide_buffer *buffer = &part->bytes;
    if (bytes.len > buffer->max - buffer->len)
        return TIDE_E_LIMIT;
    if (!buffer->ptr || buffer->len + bytes.len > buffer->capacity) {
        const size_t capacity = foresee_capacity(buffer, bytes.len);
        const size_t more = capacity > part->charged ? capacity - part->charged : 0;
        if (!tide_budget_take_for(part->budget, more, part->charged + more))
            return TIDE_E_BUSY;
        part->charged += more;
    }
    return tide_buffer_append_view(buffer, bytes);
}

tide_status tide_charged_buffer_charge(tide_charged_buffer *part)
{
    const size_t more =
        part->bytes.capacity > part->charged ? part->bytes.capacity - part->charged : 0;
    if (!tide_budget_take_for(part->budget, more, part->charged + more))
        return TIDE_E_BUSY;
    part->charged += more;
    return TIDE_OK;
}

tide_status tide_charged_buffer_adopt(tide_charged_buffer *part, tide_buffer *filled)
{
    if (!tide_budget_take(part->budget, filled->capacity))
        return TIDE_E_BUSY;
    tide_charged_buffer_done(part);
    part->bytes = *filled;
    part->charged = filled->capacity;
    tide_buffer_init(filled, filled->max);
    return TIDE_OK;
}

char *tide_charged_buffer_take(tide_charged_buffer *part, size_t *len)
{
    *len = part->bytes.len;
    char *taken = part->bytes.ptr ? part->bytes.ptr : calloc(1, 1);
    tide_buffer_init(&part->bytes, part->bytes.max);
    tide_charged_buffer_done(part);
    return taken;
}
