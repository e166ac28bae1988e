/* feed_batch_fuzz.c - a body as it might stand in a damaged file: codec, claimed length and numbers, then bytes whose checksum is made
 * to fit, so that mutations get past it. */
#include <stdint.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "feed/batch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void require(bool is_true)
{
    if (!is_true)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    tide_reader reader = tide_reader_of(tide_view_bytes(data, len));
    uint8_t kind = 0;
    uint8_t codec = 0;
    uint64_t raw_len = 0;
    uint64_t first = 0;
    uint64_t count = 0;
    tide_view body;
    if (tide_reader_byte(&reader, &kind) != TIDE_OK ||
        tide_reader_byte(&reader, &codec) != TIDE_OK ||
        tide_reader_varint(&reader, &raw_len) != TIDE_OK ||
        tide_reader_varint(&reader, &first) != TIDE_OK ||
        tide_reader_varint(&reader, &count) != TIDE_OK ||
        tide_reader_bytes(&reader, tide_reader_left(&reader), &body) != TIDE_OK)
        return 0;
    tide_batch_head head = {.stream_id = 1,
                            .first_seq = (int64_t)(first & INT64_MAX),
                            .last_seq = (int64_t)((first + count) & INT64_MAX),
                            .codec = codec % 4,
                            .raw_len = (int64_t)(raw_len & 0xFFFFFF),
                            .body_crc = tide_crc32c(body)};
    head.head_crc = tide_batch_head_crc(&head);
    const bool is_head_sound = tide_batch_is_head_sound(&head, 1);
    const tide_stream_type *type =
        tide_stream_type_of((tide_stream_kind)(kind % TIDE_STREAM_COUNT));
    TIDE_CLEANUP(tide_buffer_done) tide_buffer raw;
    tide_buffer_init(&raw, TIDE_FEED_BATCH_BYTES_MAX);
    tide_error err;
    if (tide_batch_unpack(&raw, &head, body, &err) != TIDE_OK)
        return 0;
    require((int64_t)raw.len == head.raw_len);
    if (tide_batch_check(type, &head, tide_buffer_view(&raw), &err) != TIDE_OK || !is_head_sound)
        return 0;
    /* What is accepted can be packed and comes back the same. */
    TIDE_CLEANUP(tide_buffer_done) tide_buffer packed;
    tide_buffer_init(&packed, 2 * TIDE_FEED_BATCH_BYTES_MAX);
    if (tide_batch_pack(&packed, TIDE_CODEC_LZ4, tide_buffer_view(&raw), &err) != TIDE_OK)
        return 0;
    head.codec = TIDE_CODEC_LZ4;
    head.body_crc = tide_crc32c(tide_buffer_view(&packed));
    TIDE_CLEANUP(tide_buffer_done) tide_buffer again;
    tide_buffer_init(&again, TIDE_FEED_BATCH_BYTES_MAX);
    require(tide_batch_unpack(&again, &head, tide_buffer_view(&packed), &err) == TIDE_OK);
    require(tide_view_equal(tide_buffer_view(&again), tide_buffer_view(&raw)));
    return 0;
}
