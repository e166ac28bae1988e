/* cursor_fuzz.c - bytes that claim to be a cursor, and a cursor that lives as bytes tell it to.
 *
 * Three readings of every input:
 *   1. as a stored cursor: what is accepted must encode to exactly the same bytes;
 *   2. the same with the right checksum put behind it, so that mutations get past the checksum;
 *   3. as a program of operations on a cursor, whose invariants are checked after each. */
#include <stdint.h>
#include <stdlib.h>

#include <tidemark/cursor.h>

#include "base/buffer.h"
#include "base/bytes/crc32c.h"
#include "base/cleanup.h"

enum { HOLE_MAX = 64, BYTES_MAX = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Not assert: it must hold in whatever way the target is built. */
static void require(bool is_true)
{
    if (!is_true)
        abort();
}

static void check_invariants(const tide_cursor *cursor)
{
    size_t count;
    const tide_interval *holes = tide_cursor_holes(cursor, &count);
    const int64_t contiguous = tide_cursor_contiguous(cursor);
    const int64_t highest = tide_cursor_highest(cursor);
    require(contiguous >= 0 && contiguous <= highest);
    require((count == 0) == (contiguous == highest));
    require(count <= HOLE_MAX);
    int64_t settled_end = contiguous;
    int64_t pending = 0;
    for (size_t i = 0; i < count; i++) {
        require(i == 0 ? holes[i].first - 1 == settled_end : holes[i].first - 1 > settled_end);
        require(holes[i].first <= holes[i].last && holes[i].last < highest);
        require(!tide_cursor_has(cursor, holes[i].first));
        require(!tide_cursor_has(cursor, holes[i].last));
        require(tide_cursor_has(cursor, holes[i].last + 1));
        pending += holes[i].last - holes[i].first + 1;
        settled_end = holes[i].last;
    }
    require(pending == tide_cursor_pending(cursor));
    require(highest == 0 || tide_cursor_has(cursor, highest));
}

static void check_decoding(tide_view bytes)
{
    TIDE_CLEANUP(tide_cursor_done) tide_cursor cursor = {0};
    tide_error err;
    if (tide_cursor_decode(&cursor, bytes, HOLE_MAX, &err) != TIDE_OK)
        return;
    check_invariants(&cursor);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer again;
    tide_buffer_init(&again, BYTES_MAX);
    require(tide_cursor_encode(&cursor, &again, &err) == TIDE_OK);
    require(tide_view_equal(tide_buffer_view(&again), bytes));
}

static void check_sealed(tide_view body)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer sealed;
    tide_buffer_init(&sealed, BYTES_MAX);
    if (tide_buffer_append_view(&sealed, body) != TIDE_OK ||
        tide_buffer_append_u32(&sealed, tide_crc32c(body)) != TIDE_OK)
        return;
    check_decoding(tide_buffer_view(&sealed));
}

static void check_storing(const tide_cursor *cursor)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
    tide_buffer_init(&bytes, BYTES_MAX);
    require(tide_cursor_encode(cursor, &bytes, NULL) == TIDE_OK);
    TIDE_CLEANUP(tide_cursor_done) tide_cursor loaded = {0};
    require(tide_cursor_decode(&loaded, tide_buffer_view(&bytes), HOLE_MAX, NULL) == TIDE_OK);
    require(tide_cursor_highest(&loaded) == tide_cursor_highest(cursor));
    require(tide_cursor_pending(&loaded) == tide_cursor_pending(cursor));
}

/* One operation: a byte that chooses, two numbers. What was settled is counted both ways. */
static bool run_operation(tide_cursor *cursor, tide_reader *program)
{
    uint8_t choice;
    int64_t first;
    int64_t last;
    if (tide_reader_byte(program, &choice) != TIDE_OK ||
        tide_reader_zigzag(program, &first) != TIDE_OK ||
        tide_reader_zigzag(program, &last) != TIDE_OK)
        return false;
    if (choice & 1)
        first = INT64_MAX - (first & INT64_MAX);
    if (choice & 2)
        last = __builtin_add_overflow(first, last, &last) ? INT64_MAX : last;

    const int64_t settled = tide_cursor_highest(cursor) - tide_cursor_pending(cursor);
    int64_t added = 0;
    if (choice & 4)
        added = tide_cursor_raise(cursor, first);
    else if (tide_cursor_add(cursor, first, last, &added, NULL) == TIDE_OK)
        require(tide_cursor_has(cursor, first) && tide_cursor_has(cursor, last));
    require(added >= 0);
    require(tide_cursor_highest(cursor) - tide_cursor_pending(cursor) == settled + added);
    return true;
}

static void check_life(tide_view bytes)
{
    tide_reader program = tide_reader_of(bytes);
    TIDE_CLEANUP(tide_cursor_done) tide_cursor cursor;
    tide_cursor_init(&cursor, 0, HOLE_MAX);
    while (run_operation(&cursor, &program))
        check_invariants(&cursor);
    check_storing(&cursor);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const tide_view bytes = tide_view_bytes(data, len);
    check_decoding(bytes);
    check_sealed(bytes);
    check_life(bytes);
    return 0;
}
