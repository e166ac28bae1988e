/* Texts that people and other programs write: times, durations, sizes, UUIDs, UTF-8. What is read and written
 * again reads the same; nothing reads beyond its end. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/text/timefmt.h"
#include "base/text/utf8.h"
#include "base/text/uuid.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_time(tide_view text)
{
    int64_t us = 0;
    char out[TIDE_TIME_TEXT_SIZE];
    if (tide_time_parse(&us, text) != TIDE_OK)
        return;
    int64_t again = 0;
    const tide_status formatted = tide_time_format(us, out);
    const tide_status parsed = tide_time_parse(&again, tide_view_of(out));
    assert(formatted == TIDE_OK && parsed == TIDE_OK && again == us);
}

static void try_uuid(tide_view text)
{
    tide_uuid uuid;
    char out[TIDE_UUID_TEXT_SIZE];
    if (tide_uuid_parse(&uuid, text) != TIDE_OK)
        return;
    tide_uuid_format(&uuid, out);
    tide_uuid again;
    const tide_status parsed = tide_uuid_parse(&again, tide_view_of(out));
    assert(parsed == TIDE_OK);
    assert(memcmp(&uuid, &again, sizeof uuid) == 0);
}

static void try_utf8(tide_view text)
{
    tide_buffer clean;
    tide_buffer_init(&clean, 1 << 20);
    size_t replaced = 0;
    if (tide_utf8_clean(&clean, text, &replaced) == TIDE_OK) {
        const bool is_clean = tide_utf8_valid(tide_buffer_view(&clean));
        const bool was_clean = tide_utf8_valid(text);
        assert(is_clean && (replaced == 0) == was_clean);
    }
    tide_buffer_done(&clean);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const tide_view text = tide_view_bytes(data, size);
    char *terminated = calloc(1, size + 1);
    if (!terminated)
        return 0;
    if (size > 0)
        memcpy(terminated, data, size);
    int64_t value = 0;
    try_time(text);
    try_uuid(text);
    try_utf8(text);
    if (tide_duration_parse(&value, terminated) == TIDE_OK)
        assert(value >= 0);
    if (tide_size_parse(&value, terminated) == TIDE_OK)
        assert(value >= 0);
    free(terminated);
    return 0;
}
