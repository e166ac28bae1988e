/* crc32c.h - the checksum that finds damaged bytes on disk.
 *
 * CRC-32C (Castagnoli polynomial, reflected, as in iSCSI, ext4 and RFC 3720): finds every burst of
 * up to 32 bits. It guards against accidents, not against people: for those there is SHA-256
 * (digest.h).
 *
 * Uses the processor's instruction where there is one (SSE4.2, asked once per call, no global
 * state), else a table of 8 x 256 entries that is filled on first use. Both give the same numbers.
 *
 * Threads: safe. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/view.h>

/* The checksum of the bytes. Of no bytes: 0. */
uint32_t tide_crc32c(tide_view bytes);

/* Go on from the checksum of what stood before: extend(crc of a, b) is the checksum of a followed
 * by b. */
uint32_t tide_crc32c_extend(uint32_t crc, tide_view bytes);

/* The two ways, by name, so that each can be tested against the other. */
uint32_t tide_crc32c_extend_table(uint32_t crc, tide_view bytes);
bool tide_crc32c_has_hardware(void);
/* Only where tide_crc32c_has_hardware() is true. */
uint32_t tide_crc32c_extend_hardware(uint32_t crc, tide_view bytes);
