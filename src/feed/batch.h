/* batch.h - a batch as it is stored: a head of fields and a body of records, each with a checksum.
 *
 * The body is records, one behind the other, packed as a whole where that makes it shorter. body_crc covers it as it
 * is stored; head_crc covers everything else, body_crc included. So a batch can be passed over, by its times or
 * services, without its body being read, and still not be believed when it is damaged.
 *
 * Threads: pure. */
#pragma once

#include "base/digest.h"
#include "feed/record.h"

typedef enum tide_codec {
    TIDE_CODEC_NONE = 0, /* stored numbers: never renumber */
    TIDE_CODEC_LZ4 = 1,
    TIDE_CODEC_ZSTD = 2,
} tide_codec;

typedef struct tide_batch_head {
    int64_t id;
    int64_t stream_id;
    int64_t first_seq;
    int64_t last_seq;
    int64_t epoch;
    int64_t min_time_ms;
    int64_t max_time_ms;
    int64_t arrived_us;
    int64_t codec;
    int64_t raw_len;
    int64_t stored_through;
    tide_digest128 chain_before;
    tide_digest128 chain;
    tide_view services; /* borrowed */
    uint32_t body_crc;
    uint32_t head_crc;
    int64_t body_len; /* not covered: the body's checksum is */
} tide_batch_head;

uint32_t tide_batch_head_crc(const tide_batch_head *head);

/* Is the head what was written, for this stream? */
bool tide_batch_is_head_sound(const tide_batch_head *head, int64_t stream_id);

/* Pack raw into out, which is cleared. TIDE_NONE: it would not become shorter; store it as it is. */
TIDE_MUST_CHECK tide_status tide_batch_pack(tide_buffer *out, tide_codec codec, tide_view raw,
                                            tide_error *err);

/* The records of a stored body, in out, which is cleared. TIDE_E_DAMAGED: the checksum or the packing does not hold. */
TIDE_MUST_CHECK tide_status tide_batch_unpack(tide_buffer *out, const tide_batch_head *head,
                                              tide_view body, tide_error *err);

/* Whole records of this type, numbered first_seq to last_seq without a gap? Else TIDE_E_DAMAGED. */
TIDE_MUST_CHECK tide_status tide_batch_check(const tide_stream_type *type,
                                             const tide_batch_head *head, tide_view raw,
                                             tide_error *err);
