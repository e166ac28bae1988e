#include "colony/poll/record_digest.h"

#include <string.h>

#include "base/bytes/protobuf_fields.h"
#include "base/digest.h"
#include "feed/record.h"

typedef struct sum {
    uint64_t low;
    uint64_t high;
} sum;

/* Two 64-bit sums: equal fields that come twice do not cancel out. */
static void add(sum *to, tide_digest128 digest)
{
    uint64_t halves[2];
    _Static_assert(sizeof halves == sizeof digest.bytes, "two halves");
    memcpy(halves, digest.bytes, sizeof halves);
    to->low += halves[0];
    to->high += halves[1];
}

bool tide_record_fields_digest(tide_view message, unsigned char out[TIDE_FEED_DIGEST_SIZE])
{
    sum total = {0, 0};
    tide_reader reader = tide_reader_of(message);
    tide_wire_field field;
    tide_error err;
    tide_status status;
    while ((status = tide_wire_next(&reader, &field, &err)) == TIDE_OK) {
        const bool is_bytes = field.type == TIDE_WIRE_BYTES;
        const uint64_t head[2] = {(uint64_t)field.number << 3 | (uint64_t)field.type, field.value};
        tide_digest128 digest = {0};
        if (is_bytes ? field.bytes.len == 0 : field.value == 0)
            continue;
        digest = tide_record_chain(digest, tide_view_bytes((const char *)head, sizeof head));
        if (is_bytes)
            digest = tide_record_chain(digest, field.bytes);
        add(&total, digest);
    }
    memcpy(out, &total, TIDE_FEED_DIGEST_SIZE);
    return status == TIDE_NONE;
}
