#include "base/bytes/crc32c.h"

#include <assert.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

enum { LANES = 8, BYTE_VALUES = 256 };

static const uint32_t POLYNOMIAL = 0x82F63B78U; /* 0x1EDC6F41 with its bits reversed */

/* table[k][b] is the effect of byte b with k further bytes behind it: eight bytes in one step. */
static uint32_t table[LANES][BYTE_VALUES];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void fill_table(void)
{
    for (uint32_t byte = 0; byte < BYTE_VALUES; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ ((crc & 1U) ? POLYNOMIAL : 0U);
        table[0][byte] = crc;
    }
    for (size_t lane = 1; lane < LANES; lane++) {
        for (size_t byte = 0; byte < BYTE_VALUES; byte++) {
            const uint32_t before = table[lane - 1][byte];
            table[lane][byte] = (before >> 8) ^ table[0][before & 0xFFU];
        }
    }
}

static uint32_t step_byte(uint32_t crc, uint8_t byte)
{
    return (crc >> 8) ^ table[0][(crc ^ byte) & 0xFFU];
}

static uint32_t step_eight(uint32_t crc, const uint8_t *at)
{
    const uint32_t low = crc ^ ((uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
                                (uint32_t)at[3] << 24);
    return table[7][low & 0xFFU] ^ table[6][(low >> 8) & 0xFFU] ^ table[5][(low >> 16) & 0xFFU] ^
           table[4][low >> 24] ^ table[3][at[4]] ^ table[2][at[5]] ^ table[1][at[6]] ^
           table[0][at[7]];
}

uint32_t tide_crc32c_extend_table(uint32_t crc, tide_view bytes)
{
    const int rc = pthread_once(&table_once, fill_table);
    assert(rc == 0);

    const uint8_t *at = (const uint8_t *)bytes.ptr;
    size_t left = bytes.len;
    crc = ~crc;
    for (; left >= LANES; left -= LANES, at += LANES)
        crc = step_eight(crc, at);
    for (; left > 0; left--, at++)
        crc = step_byte(crc, *at);
    return ~crc;
}

#if defined(__x86_64__)

bool tide_crc32c_has_hardware(void)
{
    return __builtin_cpu_supports("sse4.2") != 0;
}

__attribute__((target("sse4.2"))) uint32_t tide_crc32c_extend_hardware(uint32_t crc,
                                                                       tide_view bytes)
{
    const uint8_t *at = (const uint8_t *)bytes.ptr;
    size_t left = bytes.len;
    uint64_t wide = ~crc; /* the complement of 32 bits: the upper half stays 0 */
    for (; left >= sizeof(uint64_t); left -= sizeof(uint64_t), at += sizeof(uint64_t)) {
        uint64_t eight;
        memcpy(&eight, at, sizeof eight); /* any alignment */
        wide = _mm_crc32_u64(wide, eight);
    }
    uint32_t narrow = (uint32_t)wide;
    for (; left > 0; left--, at++)
        narrow = _mm_crc32_u8(narrow, *at);
    return ~narrow;
}

#else

bool tide_crc32c_has_hardware(void)
{
    return false;
}

uint32_t tide_crc32c_extend_hardware(uint32_t crc, tide_view bytes)
{
    return tide_crc32c_extend_table(crc, bytes);
}

#endif

uint32_t tide_crc32c_extend(uint32_t crc, tide_view bytes)
{
    return tide_crc32c_has_hardware() ? tide_crc32c_extend_hardware(crc, bytes)
                                      : tide_crc32c_extend_table(crc, bytes);
}

uint32_t tide_crc32c(tide_view bytes)
{
    return tide_crc32c_extend(0, bytes);
}
