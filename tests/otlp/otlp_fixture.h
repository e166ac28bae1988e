/* otlp_fixture.h - OTLP requests written by hand, and the records they become.
 *
 * Protobuf is written in a small notation, by field number, so that what is tested is not what
 * writes it:
 *
 *     1{ ... }   a message      1'text'   a text     1$0a0b   bytes, hexadecimal
 *     1#-5       a varint       1%-5      zigzag     1@5      64 bits
 *     1~1.5      a double       1[#1 #2]  packed numbers (# % @ ~)
 *
 * A text ends at the next ', and \ stands for a byte of two hexadecimal digits. White space
 * separates.
 *
 * Records are shown as JSON, one line each, without seq_id: what a test compares is the whole
 * record. */
#pragma once

#include "otlp/otlp.h"
#include "support/check.h"

typedef struct otlp_test {
    tide_otlp *otlp;
    tide_otlp_output output;
    tide_buffer request;
    tide_buffer shown;
    tide_error err;
} otlp_test;

/* When every request comes in: 1,700,000,009 s. */
int64_t otlp_now_ms(void);

void otlp_test_begin(otlp_test *t, const tide_otlp_options *options); /* NULL: the usual ones */
void otlp_test_end(otlp_test *t);

/* Append the notation's bytes to the request. */
void otlp_write(tide_buffer *out, const char *notation);

/* Decode what the notation says; otherwise the bytes as they are. */
tide_status otlp_decode_notation(otlp_test *t, tide_otlp_signal signal, const char *notation);
tide_status otlp_decode_json(otlp_test *t, tide_otlp_signal signal, const char *json);
tide_status otlp_decode_bytes(otlp_test *t, tide_otlp_signal signal, tide_otlp_format format,
                              tide_view bytes);

/* The records of a stream, a line each. Valid until the next call. */
const char *otlp_show(otlp_test *t, tide_stream_kind kind);

/* The same request in both formats gives the same bytes of the same streams. */
void otlp_assert_same(tide_otlp_signal signal, const char *notation, const char *json);
