/* buffer.h - bytes that grow up to a stated maximum, and the reader that takes them apart again.
 *
 * A tide_buffer gets its maximum length when it is made: no peer, file or loop can make it eat
 * the machine. An append either happens as a whole or changes nothing (TIDE_E_LIMIT: over the
 * maximum; TIDE_E_NOMEM). Behind the last byte there is always a NUL that does not count, so a
 * buffer that holds text can be used as a C string.
 *
 * A tide_reader walks over borrowed bytes. Every read is checked against the end; bytes that are
 * missing or malformed are TIDE_E_DAMAGED, and the reader then stands where it stood. What to say
 * about it is the caller's business: these functions return the status alone.
 *
 * Formats: fixed integers are little endian; varint is unsigned LEB128 (7 bits per byte, lowest
 * first, at most 10 bytes); zigzag is a varint of (n << 1) ^ (n >> 63), so that small negative
 * numbers stay short.
 *
 * Threads: a buffer or reader belongs to one thread at a time. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <tidemark/error.h>
#include <tidemark/export.h>
#include <tidemark/status.h>
#include <tidemark/view.h>

#include "base/cleanup.h"

enum { TIDE_VARINT_LEN_MAX = 10 }; /* bytes of the longest varint */

typedef struct tide_buffer {
    char *ptr; /* NULL until the first append */
    size_t len;
    size_t capacity; /* without the terminator */
    size_t max;
} tide_buffer;

/* An empty buffer that may grow to max bytes. Allocates nothing yet. */
tide_buffer tide_buffer_of(size_t max);
void tide_buffer_init(tide_buffer *buffer, size_t max);

/* Give the memory back; the buffer is then empty and usable again. Fits TIDE_CLEANUP. */
void tide_buffer_done(tide_buffer *buffer);

/* A buffer of this scope that may grow to max bytes. */
#define TIDE_BUFFER(name, max) TIDE_CLEANUP(tide_buffer_done) tide_buffer name = tide_buffer_of(max)

/* Forget the bytes, keep the memory. */
void tide_buffer_clear(tide_buffer *buffer);

/* Forget what was appended since the buffer was len bytes long. */
void tide_buffer_truncate(tide_buffer *buffer, size_t len);

/* Make sure that more bytes can be appended without a further allocation. */
TIDE_MUST_CHECK tide_status tide_buffer_reserve(tide_buffer *buffer, size_t more);

/* The one text of what could not be appended: passes a status of a buffer on, and if it is a
 * failure fills *err. */
TIDE_MUST_CHECK tide_status tide_buffer_check(tide_status status, tide_error *err);

/* The bytes must not lie in the buffer itself. ptr may be NULL when len is 0. */
TIDE_MUST_CHECK tide_status tide_buffer_append(tide_buffer *buffer, const void *ptr, size_t len);
TIDE_MUST_CHECK tide_status tide_buffer_append_view(tide_buffer *buffer, tide_view bytes);
TIDE_MUST_CHECK tide_status tide_buffer_append_text(tide_buffer *buffer, const char *text);
TIDE_MUST_CHECK tide_status tide_buffer_append_byte(tide_buffer *buffer, uint8_t byte);
TIDE_MUST_CHECK tide_status tide_buffer_append_u32(tide_buffer *buffer, uint32_t number);
TIDE_MUST_CHECK tide_status tide_buffer_append_u64(tide_buffer *buffer, uint64_t number);
TIDE_MUST_CHECK tide_status tide_buffer_append_varint(tide_buffer *buffer, uint64_t number);
TIDE_MUST_CHECK tide_status tide_buffer_append_zigzag(tide_buffer *buffer, int64_t number);

/* As printf writes it with %lld, and quicker. */
TIDE_MUST_CHECK tide_status tide_buffer_append_decimal(tide_buffer *buffer, int64_t number);
/* TIDE_E_INVALID: the C library could not format it. */
TIDE_MUST_CHECK tide_status tide_buffer_printf(tide_buffer *buffer, const char *format, ...)
    TIDE_PRINTF(2, 3);

/* Both are borrowed and valid until the buffer changes. The text of an empty buffer is "". */
tide_view tide_buffer_view(const tide_buffer *buffer);
const char *tide_buffer_text(const tide_buffer *buffer);

typedef struct tide_reader {
    tide_view view;
    size_t offset; /* of the next byte */
} tide_reader;

/* The bytes must outlive the reader. */
tide_reader tide_reader_of(tide_view bytes);

/* How many bytes are still unread. */
size_t tide_reader_left(const tide_reader *reader);

/* On failure (TIDE_E_DAMAGED) nothing is written and nothing is consumed. *out of tide_reader_bytes
 * is borrowed from the bytes read. */
TIDE_MUST_CHECK tide_status tide_reader_bytes(tide_reader *reader, size_t len, tide_view *out);
TIDE_MUST_CHECK tide_status tide_reader_byte(tide_reader *reader, uint8_t *out);
TIDE_MUST_CHECK tide_status tide_reader_u32(tide_reader *reader, uint32_t *out);
TIDE_MUST_CHECK tide_status tide_reader_u64(tide_reader *reader, uint64_t *out);

/* Accepts padding (a number written longer than needed), as protobuf parsers do; refuses an 11th
 * byte and bits beyond the 64th. */
TIDE_MUST_CHECK tide_status tide_reader_varint(tide_reader *reader, uint64_t *out);
TIDE_MUST_CHECK tide_status tide_reader_zigzag(tide_reader *reader, int64_t *out);

/* As tide_reader_varint, but only the shortest form: for formats where equal values have equal
 * bytes. */
TIDE_MUST_CHECK tide_status tide_reader_varint_shortest(tide_reader *reader, uint64_t *out);

/* A text into an array, cut to fit; it always ends with a NUL. */
void tide_view_copy(char *out, size_t size, tide_view text);
